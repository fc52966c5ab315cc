//! What went wrong on one side of a pair: failed, missing or ignored tests.

use std::borrow::Cow;
use std::fmt::Write as _;

use indexmap::IndexMap;

use crate::unpaired_limits::UnpairedLimit;
use memprof_judge::compare::aggregate::{Aggregate, Availability};
use memprof_judge::compare::comparison::{Comparison, PairView};
use memprof_judge::compare::standing::Standing;
use memprof_judge::results::measurement::Kind;
use memprof_judge::results::outcome::Status;
use memprof_judge::results::stored::{FailedBuild, Run};
use memprof_plan::resolved::Revision;
use memprof_support::counted::{counted, some};
use memprof_support::labels;

/// A line names at most so many tests or executables.
pub(crate) const MOST_NAMES: usize = 3;

/// Show at most this many lines of a compiler's errors.
const BUILD_LINES: usize = 20;

/// Show at most this many lines of a failure's message.
const MESSAGE_LINES: usize = 6;
/// Show at most this many columns of a line of it: an assertion may show all values of two vectors.
const LINE_COLUMNS: usize = 320;

/// Why a side has incomplete or no figures.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Trouble {
    /// The event: `pr/3370 failed (exit code 101)`.
    pub headline: String,
    /// The first lines of the message.
    pub details: Vec<String>,
    /// Which runs the shown figures come from, if not from all.
    pub figures: Option<String>,
    /// Whether it is a failure. A test that a revision lacks or ignores is not.
    pub is_failure: bool,
}

impl Trouble {
    /// Whether another run ended like this one. At one place, a panic may have other values each time.
    fn is_repeated_by(&self, other: &Self) -> bool {
        let [place, other_place] = [self, other].map(|trouble| trouble.place_and_text().0);
        self.headline == other.headline
            && (self.has_message_of(other) || (place.is_some() && place == other_place))
    }

    /// Whether another one has this message, apart from the line of a panic or of a test, which may have moved,
    /// and from paths, which may be those of temporary files.
    fn has_message_of(&self, other: &Self) -> bool {
        let [(place, text), (other_place, other_text)] = [self, other].map(Self::place_and_text);
        let without_places =
            |text: Vec<&str>| -> Vec<String> { text.into_iter().map(without_places).collect() };
        without_places(text) == without_places(other_text)
            && place.and_then(without_line) == other_place.and_then(without_line)
    }

    /// Returns the place of a panic, `src/lib.rs:5:9`, and the text, without where its rest is kept.
    fn place_and_text(&self) -> (Option<&str>, Vec<&str>) {
        let mut lines: Vec<&str> =
            self.details.iter().map(String::as_str).filter(|line| !line.starts_with('…')).collect();
        // The text may begin with a line break.
        let first = lines.first().copied().unwrap_or_default();
        let (place, rest) = first.split_once(": ").unwrap_or((first.trim_end_matches(':'), ""));
        let is_place = place.rsplit_once(':').is_some_and(|(_, column)| column.parse::<u32>().is_ok());
        if is_place {
            lines[0] = rest;
        }
        (is_place.then_some(place), lines)
    }
}

/// Returns a line without its paths, and without numbers as in `failed in line 64`.
fn without_places(line: &str) -> String {
    let words: Vec<&str> = line.split(' ').collect();
    let is_place = |&(index, word): &(usize, &&str)| {
        let is_number = word.trim_end_matches([':', ',', '.', ')']).parse::<u64>().is_ok();
        word.contains('/') || (is_number && index > 0 && words[index - 1] == "line")
    };
    words
        .iter()
        .enumerate()
        .filter(|word| !is_place(word))
        .map(|(_, word)| *word)
        .collect::<Vec<_>>()
        .join(" ")
}

/// Returns file and column of a place.
fn without_line(place: &str) -> Option<(&str, &str)> {
    let (file, column) = place.rsplit_once(':')?;
    Some((file.rsplit_once(':')?.0, column))
}

/// Returns one trouble for both sides if both failed in the same way.
fn of_both(sides: [(&str, &[Trouble]); 2]) -> Option<Trouble> {
    let [(old, [baseline]), (new, [candidate])] = sides else { return None };
    let event = candidate.headline.strip_prefix(new)?;
    let of_both = match event.strip_prefix(" was ") {
        Some(event) => format!(" were {event}"),
        None if event.starts_with(" failed") => event.to_owned(),
        None => return None,
    };
    let is_same = baseline.headline.strip_prefix(old) == Some(event)
        && baseline.has_message_of(candidate)
        && baseline.figures == candidate.figures
        && baseline.is_failure == candidate.is_failure;
    is_same.then(|| Trouble { headline: format!("{old} and {new}{of_both}"), ..candidate.clone() })
}

/// Returns what went wrong on either side of a pair. A memory assertion that does not hold is no
/// failure here, because the test is listed with those over a limit.
pub(crate) fn troubles(comparison: &Comparison, view: &PairView) -> Vec<Trouble> {
    let standing = Standing::for_pair(comparison, view);
    let is_of_both = standing.is_of_both();
    let is_failure = |status: &Status| {
        let is_shown_as_limit = standing == Standing::OverLimit && *status == Status::OverLimit;
        is_of_both && is_failure(status) && !is_shown_as_limit
    };
    let sides = [(view.old, view.baseline), (view.new, view.candidate)];
    let [mut of_baseline, of_candidate] =
        sides.map(|(revision, side)| of_side(comparison, revision, side, &is_failure));
    // The limit is the failure, and not what the candidate repaired.
    if standing == Standing::OverLimit && !of_candidate.iter().any(|trouble| trouble.is_failure) {
        for trouble in &mut of_baseline {
            trouble.is_failure = false;
        }
    }
    if let Some(both) = of_both([(&view.old.name, &of_baseline), (&view.new.name, &of_candidate)]) {
        return vec![both];
    }
    // What is the same of both is said once, below them.
    if let ([baseline], [candidate]) = (&mut of_baseline[..], &of_candidate[..])
        && baseline.has_message_of(candidate)
    {
        baseline.details.clear();
    }
    if let (Some(baseline), Some(candidate)) = (of_baseline.last_mut(), of_candidate.last())
        && baseline.figures == candidate.figures
    {
        baseline.figures = None;
    }
    of_baseline.into_iter().chain(of_candidate).collect()
}

/// Returns what went wrong at one revision.
pub(crate) fn side_troubles(comparison: &Comparison, revision: &Revision, side: &Aggregate) -> Vec<Trouble> {
    of_side(comparison, revision, side, &is_failure)
}

/// Whether a run with this outcome, whose figures cannot be compared, is listed with the failures.
fn is_failure(status: &Status) -> bool {
    status.is_failure() || status.is_ok()
}

fn of_side(
    comparison: &Comparison,
    revision: &Revision,
    side: &Aggregate,
    is_failure: &dyn Fn(&Status) -> bool,
) -> Vec<Trouble> {
    let name = &revision.name;
    let total = side.runs.len() + side.failed.iter().filter(|run| !side.runs.contains(run)).count();
    if total == 0 {
        let headline = format!("{name} was not run");
        return vec![Trouble { headline, details: Vec::new(), figures: None, is_failure: true }];
    }
    let mut troubles: Vec<(Trouble, usize)> = Vec::new();
    for run in side.failed.iter().map(|&index| &comparison.runs[index]) {
        let failed = comparison.failed_builds.get(&run.record.revision);
        let trouble = match (&run.record.outcome.status, failed) {
            (Status::BuildFailed, Some(failed)) => failed_build(name, failed),
            _ => run_trouble(run, revision, side, is_failure),
        };
        match troubles.iter_mut().find(|(known, _)| known.is_repeated_by(&trouble)) {
            Some((_, times)) => *times += 1,
            None => troubles.push((trouble, 1)),
        }
    }
    let mut troubles: Vec<Trouble> = troubles
        .into_iter()
        .map(|(mut trouble, times)| {
            if times < total {
                _ = write!(trouble.headline, " in {times} of {total} runs");
            }
            trouble
        })
        .collect();
    if let Some(last) = troubles.last_mut() {
        last.figures = match side.availability {
            Availability::CutOff => Some(format!(
                "✗ {} logged before that: shown, not compared",
                counted(side.keys.iter().filter(|key| key.kind != Kind::Call).count(), "checkpoint")
            )),
            Availability::Measured => {
                Some(format!("{name}: figures of the {} that passed", counted(side.runs.len(), "run")))
            }
            Availability::Missing => None,
        };
    }
    troubles
}

fn run_trouble(
    run: &Run,
    revision: &Revision,
    side: &Aggregate,
    is_failure: &dyn Fn(&Status) -> bool,
) -> Trouble {
    let outcome = &run.record.outcome;
    let name = &revision.name;
    let headline = match &outcome.status {
        Status::NotInThisRef => format!("{name} has no such test"),
        Status::Ignored => format!("{name} ignores this test"),
        Status::BuildFailed => format!("{name} did not build"),
        Status::Killed { .. } | Status::Interrupted | Status::Refused | Status::NotMeasured => {
            format!("{name} was {}", outcome.status)
        }
        Status::OutOfMemory => format!("{name} ran out of memory"),
        Status::OverLimit => format!("{name} is {}", outcome.status),
        Status::Ok => format!("{name}: {}", run.trouble().unwrap_or_default()),
        status => format!("{name} {status}"),
    };
    let headline = if side.is_added && outcome.status.is_of_the_test() {
        format!("{headline}, with a test file of another revision")
    } else {
        headline
    };
    let message = outcome.message.as_deref().unwrap_or_default();
    let details = quoted(message, MESSAGE_LINES, Some(run.folder.as_str()));
    Trouble { headline, details, figures: None, is_failure: is_failure(&outcome.status) }
}

/// Returns the first lines of a message, and where the rest is.
fn quoted(message: &str, most: usize, rest: Option<&str>) -> Vec<String> {
    let lines: Vec<&str> = message.lines().filter(|line| !line.trim().is_empty()).collect();
    let shown = lines.iter().take(most).map(|line| labels::one_line(line.trim_end()));
    let mut quoted: Vec<String> =
        shown.clone().map(|line| labels::cut(&line, LINE_COLUMNS).into_owned()).collect();
    if lines.len() > most {
        let place = rest.map_or_else(String::new, |place| format!(" in {place}"));
        quoted.push(format!("… {}{place}", counted(lines.len() - most, "more line")));
    } else if let Some(place) = rest.filter(|_| shown.zip(&quoted).any(|(whole, shown)| whole != *shown)) {
        quoted.push(format!("… the whole text is in {place}"));
    }
    quoted
}

/// Returns why a revision did not build: the first errors, the log's path, and the lock file.
fn failed_build(name: &str, failed: &FailedBuild) -> Trouble {
    let log = failed.log.as_deref();
    let lockfile = failed.lockfile.as_deref().map(|used| format!("without a Cargo.lock: built with {used}"));
    let mut details = quoted(&failed.errors, BUILD_LINES, log);
    if let Some(log) =
        log.filter(|log| !details.iter().any(|line| line.starts_with('…') && line.ends_with(log)))
    {
        details.push(format!("full log: {log}"));
    }
    details.extend(lockfile);
    Trouble { headline: format!("{name} did not build"), details, figures: None, is_failure: true }
}

/// Returns a compiler's errors without the numbers of threads, which differ each time:
/// `thread 'main' (4711) panicked at build.rs:1:1`.
fn without_thread_numbers(errors: &str) -> String {
    let without_number = |line: &str| {
        let shortened = || {
            let (before, rest) = line.split_once("' (")?;
            let (number, rest) = rest.split_once(") panicked at ")?;
            number.parse::<u64>().ok()?;
            Some(format!("{before}' panicked at {rest}"))
        };
        shortened().unwrap_or_else(|| line.to_owned())
    };
    errors.lines().map(without_number).collect::<Vec<_>>().join("\n")
}

/// Returns what went wrong apart from the compared tests: what cannot be measured, and tests over a limit that are no
/// candidate of a pair.
pub(crate) fn of_whole(comparison: &Comparison) -> Vec<Trouble> {
    let broken = UnpairedLimit::all(comparison).into_iter().map(|limit| Trouble {
        headline: limit.words(),
        details: Vec::new(),
        figures: None,
        is_failure: true,
    });
    not_measured(comparison).into_iter().chain(broken).collect()
}

/// Returns the executables that cannot be measured, and failed builds if no revision has a test to show them with.
pub(crate) fn not_measured(comparison: &Comparison) -> Vec<Trouble> {
    let name = |revision: usize| labels::one_line(&comparison.revisions[revision].name);
    // Revisions that lack an executable for the same reason share one message.
    let mut by_reason: IndexMap<_, Vec<Cow<'_, str>>> = IndexMap::new();
    for (revision, executable) in &comparison.not_measured {
        // Tests that another revision has say it themselves.
        if comparison.cells.iter().any(|cell| executable.may_have(&cell.id.test)) {
            continue;
        }
        let what = format!("{executable}");
        by_reason.entry((what, &executable.reason)).or_default().push(name(*revision));
    }
    // So do executables of the same revisions.
    let mut by_revisions: IndexMap<_, Vec<String>> = IndexMap::new();
    for ((what, reason), names) in by_reason {
        by_revisions.entry((names, reason)).or_default().push(what);
    }
    let not_measured = by_revisions.into_iter().map(|((names, reason), executables)| {
        let (what, names) = (some(&executables, MOST_NAMES), names.join(" and "));
        let reason = labels::one_line(reason);
        let of_several = reason.strip_prefix("it does ").filter(|_| executables.len() > 1);
        let reason = of_several.map_or(reason.to_string(), |rest| format!("they do {rest}"));
        let headline = format!("not measured: {what} in {names}: {reason}");
        Trouble { headline, details: Vec::new(), figures: None, is_failure: true }
    });
    let mut troubles: Vec<Trouble> = not_measured.collect();
    if comparison.cells.is_empty() {
        // Revisions that fail for the same reason share one message.
        let mut by_errors: IndexMap<_, (Vec<Cow<'_, str>>, &FailedBuild)> = IndexMap::new();
        for (&revision, failed) in &comparison.failed_builds {
            let same = by_errors
                .entry((without_thread_numbers(&failed.errors), &failed.lockfile))
                .or_insert_with(|| (Vec::new(), failed));
            same.0.push(name(revision));
        }
        let failed = by_errors.into_values();
        troubles.extend(failed.map(|(names, failed)| failed_build(&names.join(" and "), failed)));
    }
    troubles
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(name: &str, message: &str, run: &str) -> Trouble {
        Trouble {
            headline: format!("{name} failed (exit code 101)"),
            details: quoted(message, 2, Some(run)),
            figures: None,
            is_failure: true,
        }
    }

    #[test]
    fn a_message_is_the_same_if_only_its_line_or_paths_differ() {
        let of = |message: &str, run: &str| failed("main", message, run);
        let first = of("src/lib.rs:5:9: no /tmp/abc\n1 line\nc", "runs/0");
        assert_eq!(first.details, ["src/lib.rs:5:9: no /tmp/abc", "1 line", "… 1 more line in runs/0"]);
        let same = ["src/lib.rs:5:9: no /tmp/def\n1 line\nc", "src/lib.rs:7:9: no /tmp/abc\n1 line\nc"];
        assert!(same.iter().all(|message| first.has_message_of(&of(message, "runs/1"))));
        let others = ["src/lib.rs:5:9: no /tmp/abc\n2 lines\nc", "src/lib.rs:7:5: no /tmp/abc\n1 line\nc"];
        assert!(!others.iter().any(|message| first.has_message_of(&of(message, "runs/1"))));
        assert!(!first.has_message_of(&of("src/other.rs:5:9: no /tmp/abc\n1 line\nc", "runs/0")));
        assert!(!first.has_message_of(&of("no file", "runs/0")));
        assert!(of("Error: a", "runs/0").has_message_of(&of("Error: a", "runs/1")));
        assert!(!of("Error: a", "runs/0").has_message_of(&of("Error: b", "runs/0")));
        let of_line = |text: &str| of(&format!("a.rs:1:2: snapshot 'a' failed {text}"), "runs/0");
        assert!(of_line("in line 64").has_message_of(&of_line("in line 72")));
        assert!(!of_line("after 64").has_message_of(&of_line("after 72")));
    }

    #[test]
    fn a_panic_at_the_same_place_is_repeated_whatever_its_values_are() {
        let of = |message: &str, run: &str| failed("main", message, run);
        let first = of("src/lib.rs:5:9:\nleft: 1", "runs/0");
        assert!(first.is_repeated_by(&of("src/lib.rs:5:9:\nleft: 2", "runs/1")));
        assert!(!first.is_repeated_by(&of("src/lib.rs:6:9:\nleft: 2", "runs/1")));
        assert!(!first.is_repeated_by(&failed("pr/7", "src/lib.rs:5:9:\nleft: 1", "runs/0")));
    }

    #[test]
    fn errors_of_builds_are_the_same_whatever_the_number_of_the_thread_is() {
        let of = |thread: &str| {
            format!("error: build failed\n  thread 'main' ({thread}) panicked at a.rs:1:1:\nb")
        };
        assert_eq!(without_thread_numbers(&of("1")), without_thread_numbers(&of("23")));
        assert!(without_thread_numbers(&of("1")).contains("thread 'main' panicked at a.rs:1:1:\nb"));
        assert_eq!(without_thread_numbers(&of("x")), of("x"));
    }

    #[test]
    fn two_sides_that_fail_in_the_same_way_are_told_together() {
        let (old, new) = ([failed("main", "Error: a", "0")], [failed("pr/7", "Error: a", "1")]);
        let both = of_both([("main", &old), ("pr/7", &new)]).unwrap();
        assert_eq!(both.headline, "main and pr/7 failed (exit code 101)");
        assert_eq!(both.details, ["Error: a"]);
        let other = [failed("pr/7", "Error: b", "1")];
        assert_eq!(of_both([("main", &old), ("pr/7", &other)]), None);
        assert_eq!(of_both([("main", &old), ("pr/7", &[])]), None);
        let refused = |name: &str| {
            [Trouble {
                headline: format!("{name} was refused"),
                ..failed(name, "two tests have this name", "0")
            }]
        };
        let both = of_both([("main", &refused("main")), ("pr/7", &refused("pr/7"))]).unwrap();
        assert_eq!(both.headline, "main and pr/7 were refused");
    }

    #[test]
    fn a_long_line_of_a_message_is_cut_and_says_where_the_rest_is() {
        let message = format!("src/lib.rs:3:9: assertion failed\n  left: {:?}", vec![7; 1000]);
        let shown = quoted(&message, MESSAGE_LINES, Some("runs/0"));
        assert_eq!(shown[0], "src/lib.rs:3:9: assertion failed");
        assert_eq!(labels::width(&shown[1]), LINE_COLUMNS);
        assert!(shown[1].starts_with("  left: [7, 7, ") && shown[1].ends_with(", 7]"), "{}", shown[1]);
        assert_eq!(shown[2..], ["… the whole text is in runs/0"]);
        assert_eq!(quoted("short", MESSAGE_LINES, Some("runs/0")), ["short"]);
    }
}
