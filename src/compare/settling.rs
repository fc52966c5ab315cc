//! What may settle figures that vary from run to run: one thread, one arena.

use std::collections::{BTreeMap, BTreeSet};

use crate::compare::comparison::{Comparison, Ruling};
use crate::results::stored::Builds;
use crate::support::counted::counted;
use crate::verdict::limits;

/// Thread pools, and the variable that sets their number of threads.
const POOLS: [(&str, &str); 2] = [("rayon-core", "RAYON_NUM_THREADS"), ("tokio", "TOKIO_WORKER_THREADS")];

/// Returns a note for each metric whose varying figures allow no verdict, with what may settle it.
pub fn notes(comparison: &Comparison, builds: &Builds) -> Vec<String> {
    let mut tests: BTreeMap<&str, usize> = BTreeMap::new();
    for view in comparison.pairs() {
        for judged in &view.pair.judged {
            let varies = |ruling: &Ruling| {
                // A single run says nothing about the next.
                let has_repeats = ruling.significance.is_some_and(|significance| significance.samples > 1);
                ruling.may_have_grown() && has_repeats
            };
            if judged.rulings().any(varies) {
                *tests.entry(&judged.metric).or_default() += 1;
            }
        }
    }
    let note = |(metric, tests): (&str, usize)| {
        let tests = counted(tests, "test");
        let cause = match metric.split('.').next() {
            _ if limits::is_counted(metric) => of_threads(builds),
            Some("cpu") => {
                "glibc gives threads arenas of their own; try `--env MALLOC_ARENA_MAX=1`, or leave it out of \
                 the verdict: `--threshold cpu.peak=off`"
                    .to_owned()
            }
            _ => return None,
        };
        Some(format!("{metric} varies from run to run in {tests}: {cause}"))
    };
    tests.into_iter().filter_map(note).collect()
}

/// Returns how to use one thread, for the thread pools that the builds contain.
fn of_threads(builds: &Builds) -> String {
    let packages = builds.values().filter_map(|facts| facts.get("packages"));
    let names: BTreeSet<&str> =
        packages.flat_map(|packages| packages.lines()).filter_map(|line| line.split(' ').next()).collect();
    let variables: Vec<String> = POOLS
        .iter()
        .filter(|(package, _)| names.contains(package))
        .map(|(_, variable)| format!("`--env {variable}=1`"))
        .collect();
    if variables.is_empty() {
        "threads or random seeds do that; use one thread and a fixed seed in the test".to_owned()
    } else {
        format!("threads do that; one thread may settle it: {}", variables.join(" "))
    }
}
