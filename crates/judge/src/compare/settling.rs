//! Why figures vary from run to run, and what may settle them: one thread, a fixed seed, one arena.

use std::collections::{BTreeMap, BTreeSet};

use crate::compare::comparison::{Comparison, JudgedMetric, PairView, Ruling};
use crate::results::build_facts::Fact;
use crate::results::measurement::Causes;
use crate::results::stored::{Builds, Results};
use crate::verdict::limits;
use crate::verdict::significance::ENOUGH;
use memprof_plan::metric;
use memprof_plan::metric_family::MetricGroup;
use memprof_plan::random_numbers::RandomNumbers;
use memprof_plan::repeat::Repeat;
use memprof_plan::request::Request;
use memprof_support::counted::counted;

/// Thread pools, and the variable that sets their number of threads.
const POOLS: [(&str, &str); 2] = [("rayon-core", "RAYON_NUM_THREADS"), ("tokio", "TOKIO_WORKER_THREADS")];

/// Crates that make random input for tests, and those that make random numbers. A build does not tell which of them a
/// test uses.
const RANDOM: [&str; 6] = ["quickcheck", "proptest", "arbtest", "bolero", "rand", "uuid"];

/// Crates whose seeds do not come from the kernel's random numbers, and what they come from.
const OTHER_SEEDS: [(&str, &str); 2] = [
    ("fastrand", "fastrand takes its seed from the clock"),
    ("foldhash", "foldhash takes its seed from addresses and the clock"),
];

/// What a test's processes did that makes figures vary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Cause {
    Threads,
    RandomNumbers,
    HashKeys,
    /// The log does not say.
    NotLogged,
}

/// Returns a note for each metric whose varying figures allow no verdict, with what may settle it.
pub(crate) fn notes(comparison: &Comparison, results: &Results) -> Vec<String> {
    let (packages, request) = (Packages::from_builds(&results.builds), &results.plan.request);
    // The number of tests by how many runs a saved baseline has of them.
    let mut saved: BTreeMap<usize, usize> = BTreeMap::new();
    let mut tests: BTreeMap<(&str, String), usize> = BTreeMap::new();
    for view in comparison.pairs() {
        let causes = causes(comparison, &view);
        let is_saved_rarely = results.saved_baseline.is_some() && has_too_few_saved_runs(&view);
        let may_have_grown = |judged: &JudgedMetric| judged.rulings().any(Ruling::may_have_grown);
        if is_saved_rarely && view.pair.judged.iter().any(may_have_grown) {
            *saved.entry(view.baseline.runs.len()).or_default() += 1;
            continue;
        }
        for judged in &view.pair.judged {
            let samples_of = |ruling: &Ruling| ruling.significance.map_or(0, |one| one.samples);
            let undecided = judged.rulings().filter(|ruling| ruling.may_have_grown());
            // A single run says nothing about the next.
            let Some(samples) = undecided.map(samples_of).filter(|samples| *samples > 1).max() else {
                continue;
            };
            let words = match MetricGroup::of(&judged.metric) {
                _ if samples < ENOUGH => too_few_in_words(samples, &judged.metric, request),
                _ if metric::known(&judged.metric).is_counted() => {
                    packages.in_words(&causes, comparison.random)
                }
                Some(MetricGroup::Cpu) => packages.of_pages_in_words(&causes, comparison.random),
                _ => continue,
            };
            *tests.entry((&judged.metric, words)).or_default() += 1;
        }
    }
    let note = |((metric, words), tests): ((&str, String), usize)| {
        format!("{metric} varies from run to run in {}: {words}", counted(tests, "test"))
    };
    let of_saved = |(runs, tests): (usize, usize)| {
        let name = results.saved_baseline.as_deref().unwrap_or_default();
        let (have, each) = if tests == 1 { ("has", "it") } else { ("have", "each") };
        let [runs, tests] = [counted(runs, "run"), counted(tests, "test")];
        format!(
            "{tests} {have} no verdict: the saved baseline {name} has {runs} of {each}, and a verdict needs more. \
             Save it again without `--repeat` and `repeat:`"
        )
    };
    tests.into_iter().map(note).chain(saved.into_iter().map(of_saved)).collect()
}

/// Whether more runs of the candidate cannot tell whether it changed.
fn has_too_few_saved_runs(view: &PairView<'_>) -> bool {
    let saved = view.baseline.runs.len();
    saved < ENOUGH as usize && view.candidate.runs.len() >= saved
}

/// Whatever makes the figures vary, more runs decide first.
fn too_few_in_words(samples: u32, metric: &str, request: &Request) -> String {
    let few = format!("{samples} runs a side are too few for a verdict, {ENOUGH} can give one");
    let mut repeats = request.tests.iter().filter_map(|test| test.repeat).chain([request.settings.repeat]);
    if repeats.any(|repeat| repeat != Repeat::Auto) {
        format!("{few}: leave out `--repeat` and `repeat:`, or raise them")
    } else if limits::defaults(metric).is_none() {
        format!("{few}: a run with `--metrics {metric}` repeats tests for it")
    } else {
        few
    }
}

/// Returns a note about the random numbers that tests asked for, if any did.
pub(crate) fn of_random_numbers(comparison: &Comparison) -> Option<String> {
    let asks = |causes: &Causes| causes.random_numbers > 0;
    let asked = comparison.runs.iter().filter(|run| run.measurement.causes.as_ref().is_some_and(asks));
    let tests: BTreeSet<_> = asked.map(|run| &run.record.cell).collect();
    let verb = if tests.len() == 1 { "asks" } else { "ask" };
    let got = match comparison.random {
        RandomNumbers::Same => "all refs got the same ones (`--random own` turns this off)",
        RandomNumbers::Own => "each process got its own (`--random same` gives all refs the same)",
    };
    (!tests.is_empty()).then(|| format!("{} {verb} for random numbers: {got}", counted(tests.len(), "test")))
}

fn causes(comparison: &Comparison, view: &PairView<'_>) -> BTreeSet<Cause> {
    let runs = view.baseline.runs.iter().chain(&view.candidate.runs);
    let of_run = |run: &usize| match comparison.runs[*run].measurement.causes {
        Some(causes) => [
            (causes.has_threads == Some(true)).then_some(Cause::Threads),
            (causes.random_numbers > 0).then_some(Cause::RandomNumbers),
            (causes.hash_keys > 0).then_some(Cause::HashKeys),
        ],
        None => [Some(Cause::NotLogged), None, None],
    };
    let mut causes: BTreeSet<Cause> = runs.flat_map(of_run).flatten().collect();
    if causes.len() > 1 {
        // Nearly every test has a hash map, and its order rarely matters.
        causes.remove(&Cause::HashKeys);
    }
    causes
}

/// The names of the packages that the builds contain.
struct Packages<'a>(BTreeSet<&'a str>);

impl<'a> Packages<'a> {
    fn from_builds(builds: &'a Builds) -> Self {
        let packages = builds.values().filter_map(|facts| facts.get(Fact::Packages));
        Self(
            packages
                .flat_map(|packages| packages.lines())
                .filter_map(|line| line.split(' ').next())
                .collect(),
        )
    }

    fn in_words(&self, causes: &BTreeSet<Cause>, random: RandomNumbers) -> String {
        if causes.contains(&Cause::NotLogged) {
            return self.one_thread().map_or_else(
                || "threads or random seeds do that; use one thread and a fixed seed in the test".to_owned(),
                |variables| format!("threads do that; one thread may settle it: {variables}"),
            );
        }
        let words: Vec<String> = causes.iter().map(|cause| self.cause_in_words(*cause, random)).collect();
        if words.is_empty() { self.neither_in_words() } else { words.join("; ") }
    }

    /// Resident memory also varies with arenas, and with the kernel's own account of pages.
    fn of_pages_in_words(&self, causes: &BTreeSet<Cause>, random: RandomNumbers) -> String {
        let ignore = "ignore cpu.peak: `--threshold cpu.peak=off`";
        if causes.contains(&Cause::Threads) || causes.contains(&Cause::NotLogged) {
            return format!(
                "glibc gives threads arenas of their own; try `--env MALLOC_ARENA_MAX=1`, or {ignore}"
            );
        }
        if causes.contains(&Cause::RandomNumbers) {
            return format!("{}, or {ignore}", self.cause_in_words(Cause::RandomNumbers, random));
        }
        format!("the kernel counts pages in batches, also if one thread allocates; to {ignore}")
    }

    fn cause_in_words(&self, cause: Cause, random: RandomNumbers) -> String {
        let each = match random {
            RandomNumbers::Same => "other ones in each repeat",
            RandomNumbers::Own => "other ones in each run",
        };
        match cause {
            Cause::RandomNumbers => {
                let names = RANDOM.into_iter().filter(|name| self.0.contains(name)).collect::<Vec<_>>();
                let by = if names.is_empty() { String::new() } else { format!(" ({})", names.join(" or ")) };
                format!("random numbers{by}, {each}; a fixed seed in the test settles it")
            }
            Cause::HashKeys => format!("perhaps the random keys of hash maps, {each}"),
            Cause::Threads | Cause::NotLogged => match self.one_thread() {
                Some(variables) => format!("several threads allocate; one thread may settle it: {variables}"),
                None => "several threads allocate; use one thread in the test".to_owned(),
            },
        }
    }

    /// What is left if a single thread allocates and asks for no random numbers.
    fn neither_in_words(&self) -> String {
        let known = OTHER_SEEDS.into_iter().find(|(name, _)| self.0.contains(name));
        let perhaps = known.map_or("perhaps the time, or addresses", |(_, words)| words);
        format!("neither threads nor random numbers of the kernel do that; {perhaps}")
    }

    /// Returns how to use one thread, for the thread pools among the packages.
    fn one_thread(&self) -> Option<String> {
        let pools = POOLS.iter().filter(|(package, _)| self.0.contains(package));
        let variables: Vec<String> = pools.map(|(_, variable)| format!("`--env {variable}=1`")).collect();
        (!variables.is_empty()).then(|| variables.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(packages: &str, causes: &[Cause]) -> String {
        let facts = [(Fact::Packages, packages.replace("; ", "\n"))].into_iter().collect();
        let builds = Builds::from([(0, facts)]);
        Packages::from_builds(&builds).in_words(&causes.iter().copied().collect(), RandomNumbers::Same)
    }

    #[test]
    fn arenas_are_blamed_only_where_threads_allocate() {
        let words = |causes: &[Cause]| {
            let causes = causes.iter().copied().collect();
            Packages::from_builds(&Builds::new()).of_pages_in_words(&causes, RandomNumbers::Own)
        };
        assert!(words(&[Cause::Threads]).starts_with("glibc gives threads arenas"));
        assert!(words(&[Cause::NotLogged]).starts_with("glibc gives threads arenas"));
        assert!(words(&[Cause::RandomNumbers]).starts_with("random numbers, other ones in each run"));
        assert!(words(&[Cause::HashKeys]).starts_with("the kernel counts pages in batches"));
    }

    #[test]
    fn the_advice_about_too_few_runs_fits_the_request() {
        let request = |repeat| {
            let mut request = Request::default();
            request.settings.repeat = repeat;
            request
        };
        let end = |metric: &str, repeat| {
            too_few_in_words(2, metric, &request(repeat)).split_once("can give one").unwrap().1.to_owned()
        };
        assert_eq!(end("heap.peak", Repeat::Times(2)), ": leave out `--repeat` and `repeat:`, or raise them");
        assert_eq!(
            end("heap.count", Repeat::Auto),
            ": a run with `--metrics heap.count` repeats tests for it"
        );
        assert_eq!(end("heap.peak", Repeat::Auto), "");
    }

    #[test]
    fn the_cause_is_what_the_processes_did() {
        let packages = "quickcheck 0.9.2; rand 0.7.3; rayon-core 1.12.0";
        assert_eq!(
            words(packages, &[Cause::RandomNumbers]),
            "random numbers (quickcheck or rand), other ones in each repeat; a fixed seed in the test settles it"
        );
        assert_eq!(
            words(packages, &[Cause::Threads]),
            "several threads allocate; one thread may settle it: `--env RAYON_NUM_THREADS=1`"
        );
        assert_eq!(
            words("serde 1.0.0", &[Cause::Threads, Cause::RandomNumbers]),
            "several threads allocate; use one thread in the test; random numbers, other ones in each repeat; a \
             fixed seed in the test settles it"
        );
        assert_eq!(
            words("fastrand 2.4.1", &[]),
            "neither threads nor random numbers of the kernel do that; fastrand takes its seed from the clock"
        );
        assert_eq!(
            words("rayon-core 1.12.0", &[Cause::NotLogged]),
            "threads do that; one thread may settle it: `--env RAYON_NUM_THREADS=1`"
        );
    }
}
