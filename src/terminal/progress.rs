//! Progress: events become lines that stay and one status line that changes. Pure; the console
//! draws it, and says each second what time it is.

use std::time::{Duration, Instant};

use crate::terminal::activity::{Activity, ActivityKind, LINE_EVERY, SLOW};
use crate::terminal::build_errors;
use crate::terminal::event_text::{absent_libraries, bad, building, checked, good, job, revision, waiting};
use crate::terminal::lines::{Line, StatusLine, Update};
use memprof_support::bytes::Bytes;
use memprof_support::counted::counted;
use memprof_support::elapsed::shown;
use memprof_support::event::Event;

/// How much to print.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verbosity {
    /// Warnings and failures.
    Quiet,
    /// The stages.
    #[default]
    Normal,
    /// Also each run and each crate.
    Verbose,
}

/// Whether there is a status line. Without one, more lines must stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Medium {
    /// A terminal, with a status line.
    Terminal,
    /// A file or a pipe, without.
    Plain,
}

/// The progress of one command: what the next line needs to know about the events so far.
#[derive(Debug)]
pub struct Progress {
    verbosity: Verbosity,
    medium: Medium,
    /// Resolved refs that no line shows yet.
    resolved: Vec<String>,
    /// Whether a search is under way: it prints one line per commit, and none for its builds and
    /// runs.
    is_searching: bool,
    /// Whether runs with call stacks are under way.
    is_explaining: bool,
    runs: usize,
    failed_runs: usize,
    run_time: Duration,
    /// The time of the runs since the last line about them.
    since_line: Duration,
    tests: Vec<String>,
    /// A build, or the tests that are running, oldest first.
    activities: Vec<Activity>,
    /// The test that was named last above what it wrote.
    named_run: Option<String>,
}

impl Progress {
    /// The progress before the first event.
    pub fn new(verbosity: Verbosity, medium: Medium) -> Self {
        Self {
            verbosity,
            medium,
            resolved: Vec::new(),
            is_searching: false,
            is_explaining: false,
            runs: 0,
            failed_runs: 0,
            run_time: Duration::ZERO,
            since_line: Duration::ZERO,
            tests: Vec::new(),
            activities: Vec::new(),
            named_run: None,
        }
    }

    /// Returns what to draw because time has passed: a build without a terminal, or a slow test.
    pub fn on_tick(&mut self, now: Instant) -> Update {
        let (is_quiet, has_own_line) =
            (self.verbosity == Verbosity::Quiet, self.medium == Medium::Terminal || self.is_searching);
        let mut lines = Vec::new();
        for activity in &mut self.activities {
            let Some(passed) = activity.due(now).filter(|_| !is_quiet) else { continue };
            let (text, seconds) = (activity.text(), passed.as_secs());
            match activity.kind() {
                ActivityKind::Build if has_own_line => {}
                ActivityKind::Build => lines.push(good("Building", format!("{text} … {seconds} s"))),
                ActivityKind::Run => {
                    let text = format!("{text} ({seconds} s); --timeout {}s stops it", SLOW.as_secs());
                    lines.push(bad("SLOW", text));
                }
            }
        }
        Update { lines, ..Update::default() }
    }

    /// Returns `hf_fwd at main was running`, with the number of others, if any.
    pub fn running(&self) -> Option<String> {
        let mut runs = self.activities.iter().filter(|one| one.kind() == ActivityKind::Run);
        let first = runs.next()?.text().to_owned();
        Some(match runs.count() {
            0 => format!("{first} was running"),
            others => format!("{first} and {} were running", counted(others, "other")),
        })
    }

    /// Notes what is under way, or that nothing is.
    fn note_activity(&mut self, event: &Event) {
        let begun = |kind, text| Activity::begun(kind, text);
        match event {
            Event::BuildStarted { name, commit } => {
                self.activities = vec![begun(ActivityKind::Build, revision(name, commit))];
            }
            Event::BuildProgress { name, crate_name, compiled } => {
                let text = building(name, crate_name, *compiled);
                match self.activities.as_mut_slice() {
                    [activity] if activity.kind() == ActivityKind::Build => activity.rename(text),
                    _ => self.activities = vec![begun(ActivityKind::Build, text)],
                }
            }
            Event::RunStarted { test, name, .. } => {
                let run = format!("{test} at {name}");
                self.activities.retain(|one| one.kind() == ActivityKind::Run && one.text() != run);
                self.activities.push(begun(ActivityKind::Run, run));
            }
            Event::RunFinished { test, name, .. } | Event::RunRepeats { test, name } => {
                let run = format!("{test} at {name}");
                self.activities.retain(|one| one.text() != run);
            }
            Event::BuildFinished { .. } | Event::BuildReused { .. } | Event::BuildFailed { .. } => {
                self.activities.clear();
            }
            _ => {}
        }
    }

    /// Returns what to draw for this event.
    pub fn on_event(&mut self, event: &Event) -> Update {
        let mut lines = Vec::new();
        if !matches!(event, Event::Resolved { .. } | Event::Warning { .. } | Event::AbsentLibraries { .. }) {
            lines.extend(self.take_resolved());
        }
        self.note_activity(event);
        if self.is_explaining && matches!(event, Event::RunFinished { .. } | Event::AllRunsFinished { .. }) {
            // The report says what became of these runs. They are not counted with the others.
            return Update::default();
        }
        let mut update = self.update_for(event);
        lines.append(&mut update.lines);
        update.lines = lines;
        if self.is_searching && is_part_of_step(event) && self.verbosity < Verbosity::Verbose {
            return Update::default();
        }
        if self.verbosity == Verbosity::Quiet {
            update.status = StatusLine::Keep;
            update.lines.retain(|line| !matches!(line, Line::Stage { good: true, .. }));
        }
        update
    }

    /// Returns what to draw when no more events come.
    pub fn finish(&mut self) -> Update {
        let lines = self.take_resolved().into_iter().filter(|_| self.verbosity > Verbosity::Quiet).collect();
        Update::end_of_stage(lines)
    }

    /// Returns one line for all refs that were resolved.
    fn take_resolved(&mut self) -> Option<Line> {
        let refs = std::mem::take(&mut self.resolved);
        (!refs.is_empty()).then(|| good("Resolving", refs.join(" · ")))
    }

    fn update_for(&mut self, event: &Event) -> Update {
        let on_terminal = self.medium == Medium::Terminal;
        match event {
            Event::RefsChosen { text } => Update::line(good("Comparing", text.clone())),
            Event::Resolved { name, commit, note } => {
                let note = note.as_ref().map_or_else(String::new, |note| format!(" ({note})"));
                self.resolved.push(format!("{}{note}", revision(name, commit)));
                Update::default()
            }
            Event::SameCommit { text } => Update::line(good("Same commit", text.clone())),
            Event::SameCode { text } => Update::line(good("Unchanged", text.clone())),
            Event::SameCodeRuns { text } => Update::line(good("Running", text.clone())),
            Event::TargetsChosen { text } => Update::line(good("Building", text.clone())),
            Event::BuiltMore { text } => Update::line(good("Built", text.clone())),
            Event::WaitingForLock { .. }
            | Event::WaitingInLine { .. }
            | Event::WaitingForMemory { .. }
            | Event::WaitingForRoom { .. }
            | Event::Delaying { .. } => waiting(event, on_terminal),
            Event::JobSubmitted { .. } | Event::JobProgress { .. } => job(event, on_terminal),
            Event::HunksChecked { done, all } => checked(*done, *all, on_terminal),
            Event::BuildStarted { name, commit } => {
                // Without a terminal, a long build has its lines from `on_tick`.
                Update::stage("Building", revision(name, commit))
            }
            Event::BuildProgress { name, crate_name, compiled } => {
                self.build_progress(name, crate_name, *compiled)
            }
            Event::BuildFinished { name, commit, took } => {
                let text = format!("{} … {}", revision(name, commit), shown(*took));
                Update::end_of_stage(vec![good("Built", text)])
            }
            Event::BuildReused { name, commit, has_same_sources } => {
                let why = if *has_same_sources { "same sources as an earlier build" } else { "built before" };
                Update::end_of_stage(vec![good("Fresh", format!("{} ({why})", revision(name, commit)))])
            }
            Event::BuildFailed { name, commit, first_errors, log, hints } => {
                let text = format!("{} did not build; full log: {log}", revision(name, commit));
                let quoted = build_errors::quoted(first_errors, hints).into_iter().map(Line::Quote);
                Update::end_of_stage(std::iter::once(bad("Failed", text)).chain(quoted).collect())
            }
            Event::RunStarted { test, name, index, total, left } => {
                let left = left.filter(|left| !left.is_zero());
                let left = left.map(|left| format!("about {} left", shown(left)));
                let others = match self.activities.len() {
                    0 | 1 => String::new(),
                    running => format!(" and {}", counted(running - 1, "other")),
                };
                let details = std::iter::once(format!("{index}/{total}")).chain(left);
                Update::stage("Running", format!("{test}{others} at {name}")).with(details)
            }
            Event::TestWrote { test, name, text } => {
                let run = format!("{test} at {name}");
                let is_new = self.named_run.replace(run.clone()).is_none_or(|last| last != run);
                let heading = is_new.then(|| good("Running", run));
                Update {
                    lines: heading.into_iter().chain([Line::Quote(text.clone())]).collect(),
                    status: StatusLine::Keep,
                }
            }
            Event::RunFinished { .. } => {
                self.named_run = None;
                self.run_finished(event)
            }
            Event::RunRepeats { .. } => Update::default(),
            Event::AllRunsFinished { total } => {
                Update::end_of_stage(vec![good("Ran", self.all_runs(*total))])
            }
            Event::Exported { path } => Update::line(good("Wrote", path.clone())),
            Event::ExplanationBegan { tests } => {
                self.is_explaining = true;
                let text = format!("{}: once more, with call stacks", counted(*tests, "test"));
                Update::stage("Explaining", text)
            }
            Event::ExplanationEnded { tests, took } => {
                self.is_explaining = false;
                let text = format!("{} with call stacks … {}", counted(*tests, "test"), shown(*took));
                Update::end_of_stage(vec![good("Explained", text)])
            }
            Event::SearchBegan { text } => {
                self.is_searching = true;
                Update::end_of_stage(vec![good("Searching", text.clone())])
            }
            Event::SearchStep { text, measured } => {
                let verb = if *measured { "Measured" } else { "Skipped" };
                Update::end_of_stage(vec![good(verb, text.clone())])
            }
            Event::CacheShrunk { removed, limit } => {
                let text =
                    format!("{} of old builds from the cache (limit {})", Bytes(*removed), Bytes(*limit));
                Update::line(good("Removed", text))
            }
            Event::MemorySetAside { text } => Update::end_of_stage(vec![good("Set aside", text.clone())]),
            Event::MemoryRestored { text } => Update::end_of_stage(vec![good("Restored", text.clone())]),
            Event::AbsentLibraries { target, names } => Update::line(absent_libraries(target, names)),
            Event::Warning { message, help } => {
                Update::line(Line::Warning { message: message.clone(), help: help.clone() })
            }
        }
    }

    fn build_progress(&self, name: &str, crate_name: &str, compiled: usize) -> Update {
        let is_verbose = self.verbosity == Verbosity::Verbose;
        let line = is_verbose.then(|| good("Compiled", format!("{crate_name} for {name}")));
        let text = building(name, crate_name, compiled);
        Update {
            lines: line.into_iter().collect(),
            status: StatusLine::Show { verb: "Building", text, details: Vec::new(), restart: false },
        }
    }

    fn run_finished(&mut self, event: &Event) -> Update {
        let Event::RunFinished { test, name, index, total, outcome, ok, took, busy } = event else {
            return Update::default();
        };
        self.runs += 1;
        self.failed_runs += usize::from(!ok);
        self.run_time += *busy;
        self.since_line += *busy;
        if !self.tests.contains(test) {
            self.tests.push(test.clone());
        }
        let on_terminal = self.medium == Medium::Terminal;
        let run = format!("{test} at {name} {index}/{total}");
        let mut lines = Vec::new();
        if !ok {
            lines.push(bad("Failed", format!("{run}: {outcome}")));
        } else if self.verbosity == Verbosity::Verbose {
            lines.push(good("Ran", format!("{run} … {}", shown(*took))));
        }
        if !on_terminal && self.since_line >= LINE_EVERY {
            lines.push(good("Running", format!("{run} … {}", shown(self.run_time))));
        }
        if !lines.is_empty() {
            self.since_line = Duration::ZERO;
        }
        Update { lines, status: StatusLine::Keep }
    }

    /// `hf_fwd 6/6 … 4.8 s`.
    fn all_runs(&self, total: usize) -> String {
        let what = match self.tests.as_slice() {
            [only] => only.clone(),
            several => format!("{} tests", several.len()),
        };
        let failed =
            if self.failed_runs > 0 { format!(", {} failed", self.failed_runs) } else { String::new() };
        format!("{what} {total}/{total}{failed} … {}", shown(self.run_time))
    }
}

/// Whether the event belongs to one step of a search, which has a line of its own.
fn is_part_of_step(event: &Event) -> bool {
    matches!(
        event,
        Event::BuildFinished { .. }
            | Event::BuildReused { .. }
            | Event::BuildFailed { .. }
            | Event::RunFinished { .. }
            | Event::AllRunsFinished { .. }
    )
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The events of a run in which everything happens.
    pub(crate) fn story() -> Vec<Event> {
        let main = || ("main".to_owned(), "4f1c2aa0000000000000000000000000000000aa".to_owned());
        let candidate = || ("pr/3370".to_owned(), "9be0d130000000000000000000000000000000bb".to_owned());
        let resolved = |(name, commit), note: Option<&str>| Event::Resolved {
            name,
            commit,
            note: note.map(str::to_owned),
        };
        let ran = |name: &str, index, ok, outcome: &str| {
            let (test, name) = ("hf_fwd".to_owned(), name.to_owned());
            [
                Event::RunStarted {
                    test: test.clone(),
                    name: name.clone(),
                    index,
                    total: 3,
                    left: (index > 1)
                        .then(|| Duration::from_millis(800) * (4 - u32::try_from(index).unwrap())),
                },
                Event::RunFinished {
                    test,
                    name,
                    index,
                    total: 3,
                    outcome: outcome.to_owned(),
                    ok,
                    took: Duration::from_millis(800),
                    busy: Duration::from_millis(800),
                },
            ]
        };
        let mut story = vec![
            resolved(main(), None),
            resolved(candidate(), Some("fetched from upstream")),
            Event::Warning {
                message: "neither has a Cargo.lock".to_owned(),
                help: Some("commit one".to_owned()),
            },
            Event::WaitingForLock {
                subject: "this repository's cache".to_owned(),
                holder: "process 4711".to_owned(),
            },
            Event::WaitingInLine {
                subject: "GPU 0".to_owned(),
                place: 2,
                behind: "bob: cargo memprof dev, process 4712, since 14:05".to_owned(),
                holder: Some("alice: cargo memprof main..pr/7, process 4711, since 14:02".to_owned()),
            },
            Event::WaitingInLine {
                subject: "GPU 0".to_owned(),
                place: 1,
                behind: "bob: cargo memprof dev, process 4712, since 14:30".to_owned(),
                holder: None,
            },
            Event::BuildStarted { name: main().0, commit: main().1 },
            Event::BuildProgress { name: main().0, crate_name: "serde".to_owned(), compiled: 1 },
            Event::BuildFinished { name: main().0, commit: main().1, took: Duration::from_millis(38_200) },
            Event::BuildReused { name: candidate().0, commit: candidate().1, has_same_sources: false },
            Event::BuildFailed {
                name: "v0.1".to_owned(),
                commit: "abc1234".to_owned(),
                first_errors: "error[E0425]: cannot find `x`\n --> src/lib.rs:1:1\n".to_owned(),
                log: "target/memprof/x/builds/2-v0.1.log".to_owned(),
                hints: vec!["no lock file is committed: --lockfile-from main".to_owned()],
            },
        ];
        story.extend(ran("main", 1, true, "ok"));
        story.extend(ran("pr/3370", 2, false, "failed (exit code 101)"));
        story.extend(ran("main", 3, true, "ok"));
        story.push(Event::AllRunsFinished { total: 3 });
        story
    }

    fn printed(verbosity: Verbosity, medium: Medium) -> String {
        let mut progress = Progress::new(verbosity, medium);
        let mut lines = Vec::new();
        for event in story() {
            let update = progress.on_event(&event);
            lines.extend(update.lines.iter().map(Line::plain));
            if medium == Medium::Terminal {
                match update.status {
                    StatusLine::Show { verb, text, details, .. } => {
                        let details = details.join(" · ");
                        let between = if details.is_empty() { "" } else { " " };
                        lines.push(format!("{verb:>12} {text}{between}{details} ~"));
                    }
                    StatusLine::Clear => lines.push("~".to_owned()),
                    StatusLine::Keep => {}
                }
            }
        }
        lines.push(String::new());
        lines.join("\n")
    }

    #[test]
    fn without_a_terminal_each_step_is_a_line() {
        insta::assert_snapshot!(printed(Verbosity::Normal, Medium::Plain));
    }

    #[test]
    fn on_a_terminal_one_status_line_changes_and_results_stay() {
        insta::assert_snapshot!(printed(Verbosity::Normal, Medium::Terminal));
    }

    #[test]
    fn what_a_test_writes_stands_below_its_name_and_is_quiet_about_nothing() {
        let lines = |verbosity| {
            let mut progress = Progress::new(verbosity, Medium::Plain);
            let wrote = |text: &str| Event::TestWrote {
                test: "hf".to_owned(),
                name: "main".to_owned(),
                text: text.to_owned(),
            };
            let all = [wrote("one"), wrote("two")];
            let updates = all.iter().map(|event| progress.on_event(event)).collect::<Vec<_>>();
            updates.iter().flat_map(|update| &update.lines).map(Line::plain).collect::<Vec<_>>()
        };
        assert_eq!(lines(Verbosity::Normal), ["     Running hf at main", "one", "two"]);
        assert_eq!(lines(Verbosity::Quiet), ["one", "two"]);
    }

    #[test]
    fn quiet_prints_only_warnings_and_failures() {
        insta::assert_snapshot!(printed(Verbosity::Quiet, Medium::Plain));
    }

    #[test]
    fn verbose_names_crates_too() {
        assert!(printed(Verbosity::Verbose, Medium::Terminal).contains("Compiled serde for main\n"));
    }

    #[test]
    fn without_a_terminal_a_long_build_prints_a_line_every_ten_seconds() {
        let mut progress = Progress::new(Verbosity::Normal, Medium::Plain);
        let begin = Instant::now();
        let lines = |progress: &mut Progress, seconds: u64| {
            let update = progress.on_tick(begin + Duration::from_secs(seconds));
            update.lines.iter().map(Line::plain).collect::<Vec<_>>()
        };
        progress.on_event(&Event::BuildStarted { name: "main".to_owned(), commit: "4f1c2aa".to_owned() });
        assert_eq!(lines(&mut progress, 0), [""; 0]);
        assert_eq!(lines(&mut progress, 9), [""; 0]);
        let (name, crate_name) = ("main".to_owned(), "serde".to_owned());
        progress.on_event(&Event::BuildProgress { name, crate_name, compiled: 3 });
        assert_eq!(lines(&mut progress, 11), ["    Building main · 3 crates · serde … 11 s"]);
        assert_eq!(lines(&mut progress, 20), [""; 0]);
        assert_eq!(lines(&mut progress, 21).len(), 1);
    }

    #[test]
    fn a_slow_test_is_named_on_any_medium() {
        for medium in [Medium::Plain, Medium::Terminal] {
            let mut progress = Progress::new(Verbosity::Normal, medium);
            let (test, name) = ("hangs".to_owned(), "main".to_owned());
            progress.on_event(&Event::RunStarted { test, name, index: 1, total: 2, left: None });
            let begin = Instant::now();
            let mut lines = |seconds: u64| {
                let lines = progress.on_tick(begin + Duration::from_secs(seconds)).lines;
                lines.iter().map(Line::plain).collect::<Vec<_>>()
            };
            assert!(lines(0).is_empty() && lines(59).is_empty());
            assert_eq!(lines(60), ["        SLOW hangs at main (60 s); --timeout 60s stops it"]);
            assert!(lines(119).is_empty());
            assert_eq!(lines(120).len(), 1);
            assert_eq!(progress.running().as_deref(), Some("hangs at main was running"));
        }
    }

    #[test]
    fn without_a_terminal_runs_print_a_line_every_ten_seconds_and_one_at_the_end() {
        let mut progress = Progress::new(Verbosity::Normal, Medium::Plain);
        let mut printed = Vec::new();
        for index in 1..=100 {
            let (test, name, outcome) = (format!("test_{index}"), "main".to_owned(), "ok".to_owned());
            let [took, busy] = [500; 2].map(Duration::from_millis);
            let event = Event::RunFinished { test, name, index, total: 100, outcome, ok: true, took, busy };
            printed.extend(progress.on_event(&event).lines.iter().map(Line::plain));
        }
        let end = progress.on_event(&Event::AllRunsFinished { total: 100 });
        printed.extend(end.lines.iter().map(Line::plain));
        assert_eq!(
            printed,
            [
                "     Running test_20 at main 20/100 … 10.0 s",
                "     Running test_40 at main 40/100 … 20.0 s",
                "     Running test_60 at main 60/100 … 30.0 s",
                "     Running test_80 at main 80/100 … 40.0 s",
                "     Running test_100 at main 100/100 … 50.0 s",
                "         Ran 100 tests 100/100 … 50.0 s",
            ]
        );
    }

    #[test]
    fn tests_beside_each_other_are_counted_named_and_timed_together() {
        let mut progress = Progress::new(Verbosity::Normal, Medium::Terminal);
        let name = || "main".to_owned();
        let started = |test: &str, index| {
            let test = test.to_owned();
            Event::RunStarted { test, name: name(), index, total: 3, left: None }
        };
        let finished = |test: &str, index| {
            let (test, outcome) = (test.to_owned(), "ok".to_owned());
            let [took, busy] = [8, 4].map(Duration::from_secs);
            Event::RunFinished { test, name: name(), index, total: 3, outcome, ok: true, took, busy }
        };
        let wrote = |test: &str, text: &str| {
            let (test, name) = (test.to_owned(), name());
            Event::TestWrote { test, name, text: text.to_owned() }
        };
        progress.on_event(&started("a", 1));
        let StatusLine::Show { text, .. } = progress.on_event(&started("b", 2)).status else { panic!() };
        assert_eq!(text, "b and 1 other at main");
        assert_eq!(progress.running().as_deref(), Some("a at main and 1 other were running"));
        let written = [wrote("a", "1"), wrote("b", "2"), wrote("b", "3"), wrote("a", "4")];
        let shown = written.iter().flat_map(|event| progress.on_event(event).lines);
        let shown: Vec<String> = shown.map(|line| line.plain()).collect();
        let [a, b] = ["a", "b"].map(|test| format!("     Running {test} at main"));
        assert_eq!(shown, [&a, "1", &b, "2", "3", &a, "4"]);
        progress.on_event(&finished("a", 1));
        assert_eq!(progress.running().as_deref(), Some("b at main was running"));
        let begin = Instant::now();
        progress.on_event(&Event::RunRepeats { test: "b".to_owned(), name: name() });
        assert_eq!(progress.running(), None, "it waits until nothing else runs");
        progress.on_event(&started("b", 2));
        progress.on_event(&started("c", 3));
        progress.on_tick(begin);
        let lines = progress.on_tick(begin + SLOW).lines;
        assert_eq!(lines.len(), 2, "both are slow: {lines:?}");
        progress.on_event(&finished("b", 2));
        progress.on_event(&finished("c", 3));
        let lines = progress.on_event(&Event::AllRunsFinished { total: 3 }).lines;
        assert_eq!(lines[0].plain(), "         Ran 3 tests 3/3 … 12.0 s", "as long as anything ran");
    }

    #[test]
    fn a_search_prints_one_line_per_commit() {
        let mut progress = Progress::new(Verbosity::Normal, Medium::Terminal);
        progress.on_event(&Event::SearchBegan { text: "64 commits".to_owned() });
        let built = Event::BuildFinished {
            name: "1d0c7aa".to_owned(),
            commit: "1d0c7aa".to_owned(),
            took: Duration::from_secs(1),
        };
        assert!(progress.on_event(&built).lines.is_empty());
        let step = |measured| Event::SearchStep { text: "[1/6] 1d0c7aa 3.10 MiB".to_owned(), measured };
        let lines: Vec<String> = [true, false]
            .iter()
            .flat_map(|measured| progress.on_event(&step(*measured)).lines)
            .map(|line| line.plain())
            .collect();
        assert_eq!(lines, ["    Measured [1/6] 1d0c7aa 3.10 MiB", "     Skipped [1/6] 1d0c7aa 3.10 MiB"]);
        let mut verbose = Progress::new(Verbosity::Verbose, Medium::Terminal);
        verbose.on_event(&Event::SearchBegan { text: "64 commits".to_owned() });
        assert_eq!(verbose.on_event(&built).lines.len(), 1);
    }
}
