//! What is said while the stages work: events become lines that stay and one line that moves. Pure; the console draws it.

use std::time::Duration;

use crate::support::elapsed::shown;
use crate::support::event::Event;
use crate::support::user_error;

/// How much is said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verbosity {
    /// Warnings and failures.
    Quiet,
    /// The stages.
    #[default]
    Normal,
    /// Each run and each crate.
    Verbose,
}

/// Whether a line can move, which decides what must be said by lines that stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Medium {
    /// A terminal.
    Terminal,
    /// A file or a pipe.
    Plain,
}

/// A line that stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// `    Building main 4f1c2aa … 38.2 s`.
    Stage {
        /// What is done, right-aligned as cargo does it.
        verb: &'static str,
        /// With what.
        text: String,
        /// Whether it went well.
        good: bool,
    },
    /// `warning: …` with its help.
    Warning {
        /// What the user should know.
        message: String,
        /// What to do about it.
        help: Option<String>,
    },
    /// Text as it is, such as a compiler's own error.
    Quote(String),
}

/// What an event makes the console say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Telling {
    /// The lines that stay, in order.
    pub lines: Vec<Line>,
    /// The line that moves from now on.
    pub moving: Moving,
}

/// What becomes of the line that moves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Moving {
    /// It stays as it is.
    #[default]
    Keep,
    /// It goes away.
    Clear,
    /// It says this, and counts the time from `restart`.
    Say {
        /// What is done.
        verb: &'static str,
        /// With what.
        text: String,
        /// Whether the clock beside it begins anew.
        restart: bool,
    },
}

/// The width of the verbs: cargo's, so that its lines and ours stand in one column.
pub const VERB_WIDTH: usize = 12;

impl Line {
    /// The line without colour.
    pub fn plain(&self) -> String {
        match self {
            Self::Stage { verb, text, .. } => format!("{verb:>VERB_WIDTH$} {text}"),
            Self::Warning { message, help } => user_error::labelled("warning", message, help.as_deref()),
            Self::Quote(text) => text.clone(),
        }
    }
}

/// Remembers what the next line needs: the refs not yet told, the runs done so far.
#[derive(Debug)]
pub struct Narrator {
    verbosity: Verbosity,
    medium: Medium,
    resolved: Vec<String>,
    /// Whether each commit is summed up in a line, so that its build and its runs need none of their own.
    searching: bool,
    crates: usize,
    runs: usize,
    failed_runs: usize,
    run_time: Duration,
    tests: Vec<String>,
}

impl Narrator {
    /// One that has told nothing yet.
    pub fn new(verbosity: Verbosity, medium: Medium) -> Self {
        Self {
            verbosity,
            medium,
            resolved: Vec::new(),
            searching: false,
            crates: 0,
            runs: 0,
            failed_runs: 0,
            run_time: Duration::ZERO,
            tests: Vec::new(),
        }
    }

    /// What this event makes the console say.
    pub fn tell(&mut self, event: &Event) -> Telling {
        let mut telling = Telling::default();
        if !matches!(event, Event::Resolved { .. } | Event::Warning { .. } | Event::AbsentLibraries { .. }) {
            telling.lines.extend(self.told_refs());
        }
        self.tell_this(event, &mut telling);
        let is_part_of_step = matches!(
            event,
            Event::BuildFinished { .. }
                | Event::BuildReused { .. }
                | Event::BuildFailed { .. }
                | Event::RunFinished { .. }
        );
        if self.searching && is_part_of_step && self.verbosity < Verbosity::Verbose {
            telling = Telling::default();
        }
        if self.verbosity == Verbosity::Quiet {
            telling.moving = Moving::Keep;
            // What went wrong is said even so.
            telling.lines.retain(|line| !matches!(line, Line::Stage { good: true, .. }));
        }
        telling
    }

    /// What is left to say when nothing more will happen.
    pub fn end(&mut self) -> Telling {
        let lines = self.told_refs().into_iter().filter(|_| self.verbosity > Verbosity::Quiet).collect();
        Telling { lines, moving: Moving::Clear }
    }

    /// All refs in one line, once the last is known.
    fn told_refs(&mut self) -> Option<Line> {
        let refs = std::mem::take(&mut self.resolved);
        (!refs.is_empty()).then(|| good("Resolving", refs.join(" · ")))
    }

    fn tell_this(&mut self, event: &Event, telling: &mut Telling) {
        let on_terminal = self.medium == Medium::Terminal;
        let lines = &mut telling.lines;
        match event {
            Event::Resolved { name, commit, note } => {
                let note = note.as_ref().map_or_else(String::new, |note| format!(" ({note})"));
                self.resolved.push(format!("{}{note}", revision(name, commit)));
            }
            Event::WaitingForLock { subject, holder } => {
                lines.push(good("Waiting", format!("for another run on {subject} ({holder})")));
            }
            Event::WaitingForMemory { device } => {
                let text = format!("for the memory of {device} to come back");
                telling.moving = Moving::Say { verb: "Waiting", text, restart: true };
            }
            Event::BuildStarted { name, commit } => {
                self.crates = 0;
                let text = revision(name, commit);
                if !on_terminal {
                    lines.push(good("Building", text.clone()));
                }
                telling.moving = Moving::Say { verb: "Building", text, restart: true };
            }
            Event::BuildProgress { name, crate_name, compiled } => {
                self.crates = *compiled;
                if self.verbosity == Verbosity::Verbose {
                    lines.push(good("Compiled", format!("{crate_name} for {name}")));
                }
                let text = format!("{name} · {} · {crate_name}", counted(*compiled, "crate"));
                telling.moving = Moving::Say { verb: "Building", text, restart: false };
            }
            Event::BuildFinished { name, commit, took } => {
                let verb = if on_terminal { "Building" } else { "Built" };
                lines.push(good(verb, format!("{} … {}", revision(name, commit), shown(*took))));
                telling.moving = Moving::Clear;
            }
            Event::BuildReused { name, commit } => {
                lines.push(good("Fresh", format!("{}, built before", revision(name, commit))));
                telling.moving = Moving::Clear;
            }
            Event::BuildFailed { name, commit, first_errors, log, hints } => {
                let text = format!("{} did not build; the whole log: {log}", revision(name, commit));
                lines.push(Line::Stage { verb: "Failed", text, good: false });
                lines.extend((!first_errors.trim().is_empty()).then(|| Line::Quote(indented(first_errors))));
                lines.extend(
                    hints
                        .iter()
                        .map(|hint| Line::Quote(format!("  help: {}", hint.replace('\n', "\n        ")))),
                );
                telling.moving = Moving::Clear;
            }
            Event::RunStarted { test, name, index, total } => {
                let mut text = format!("{test} at {name} {index}/{total}");
                if let Some(left) = self.time_left((total + 1).saturating_sub(*index)) {
                    text = format!("{text} · about {} left", shown(left));
                }
                telling.moving = Moving::Say { verb: "Running", text, restart: true };
            }
            Event::RunFinished { test, name, index, total, outcome, ok, took } => {
                self.runs += 1;
                self.failed_runs += usize::from(!ok);
                self.run_time += *took;
                if !self.tests.contains(test) {
                    self.tests.push(test.clone());
                }
                // Not by counting: with --resume, runs that were done before are passed over.
                let last = index >= total;
                if !ok {
                    let text = format!("{test} at {name} {index}/{total}: {outcome}");
                    lines.push(Line::Stage { verb: "Failed", text, good: false });
                } else if !on_terminal || self.verbosity == Verbosity::Verbose {
                    lines.push(good(
                        "Running",
                        format!("{test} at {name} {index}/{total} … {}", shown(*took)),
                    ));
                }
                if last && on_terminal {
                    lines.push(good("Running", self.all_runs(*total)));
                }
                if last {
                    telling.moving = Moving::Clear;
                }
            }
            Event::SearchBegan { text } => {
                self.searching = true;
                lines.push(good("Searching", text.clone()));
            }
            Event::SearchStep { text, measured } => {
                let verb = if *measured { "Measured" } else { "Skipped" };
                lines.push(good(verb, text.clone()));
                telling.moving = Moving::Clear;
            }
            Event::AbsentLibraries { target, names } => lines.push(absent_libraries(target, names)),
            Event::Warning { message, help } => {
                lines.push(Line::Warning { message: message.clone(), help: help.clone() });
            }
        }
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

    /// The mean of the runs so far for each that is left; unknown before the first has ended.
    fn time_left(&self, left: usize) -> Option<Duration> {
        let left = u32::try_from(left).ok()?;
        let done = u32::try_from(self.runs).ok().filter(|done| *done > 0)?;
        Some(self.run_time / done * left)
    }
}

fn good(verb: &'static str, text: String) -> Line {
    Line::Stage { verb, text, good: true }
}

fn revision(name: &str, commit: &str) -> String {
    let short =
        commit.get(..7).filter(|_| commit.bytes().all(|byte| byte.is_ascii_hexdigit())).unwrap_or(commit);
    if short.is_empty() || short == name { name.to_owned() } else { format!("{name} {short}") }
}

fn indented(text: &str) -> String {
    text.trim_end().lines().map(|line| format!("    {line}")).collect::<Vec<_>>().join("\n")
}

fn counted(count: usize, thing: &str) -> String {
    format!("{count} {thing}{}", if count == 1 { "" } else { "s" })
}

fn absent_libraries(target: &str, names: &[String]) -> Line {
    let help =
        "run its tests where those are: `cargo memprof build --archive FILE` packs them (docs/archive.md)";
    Line::Warning {
        message: format!("'{target}' is linked with {}, which this machine lacks", names.join(", ")),
        help: Some(help.to_owned()),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A run of the tool with everything that can happen in it.
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
                Event::RunStarted { test: test.clone(), name: name.clone(), index, total: 3 },
                Event::RunFinished {
                    test,
                    name,
                    index,
                    total: 3,
                    outcome: outcome.to_owned(),
                    ok,
                    took: Duration::from_millis(800),
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
            Event::WaitingForLock { subject: "GPU 0".to_owned(), holder: "process 4712".to_owned() },
            Event::BuildStarted { name: main().0, commit: main().1 },
            Event::BuildProgress { name: main().0, crate_name: "serde".to_owned(), compiled: 1 },
            Event::BuildFinished { name: main().0, commit: main().1, took: Duration::from_millis(38_200) },
            Event::BuildReused { name: candidate().0, commit: candidate().1 },
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
        story
    }

    fn told(verbosity: Verbosity, medium: Medium) -> String {
        let mut narrator = Narrator::new(verbosity, medium);
        let mut lines = Vec::new();
        for event in story() {
            let telling = narrator.tell(&event);
            lines.extend(telling.lines.iter().map(Line::plain));
            if medium == Medium::Terminal {
                match telling.moving {
                    Moving::Say { verb, text, .. } => lines.push(format!("{verb:>12} {text} ~")),
                    Moving::Clear => lines.push("~".to_owned()),
                    Moving::Keep => {}
                }
            }
        }
        lines.push(String::new());
        lines.join("\n")
    }

    #[test]
    fn without_a_terminal_each_step_is_a_line() {
        insta::assert_snapshot!(told(Verbosity::Normal, Medium::Plain));
    }

    #[test]
    fn on_a_terminal_one_line_moves_and_the_ends_stay() {
        insta::assert_snapshot!(told(Verbosity::Normal, Medium::Terminal));
    }

    #[test]
    fn quiet_still_says_what_went_wrong() {
        insta::assert_snapshot!(told(Verbosity::Quiet, Medium::Plain));
    }

    #[test]
    fn verbose_names_crates_too() {
        assert!(told(Verbosity::Verbose, Medium::Terminal).contains("Compiled serde for main\n"));
    }

    #[test]
    fn a_search_sums_each_commit_up_in_a_line() {
        let mut narrator = Narrator::new(Verbosity::Normal, Medium::Terminal);
        narrator.tell(&Event::SearchBegan { text: "64 commits".to_owned() });
        let built = Event::BuildFinished {
            name: "1d0c7aa".to_owned(),
            commit: "1d0c7aa".to_owned(),
            took: Duration::from_secs(1),
        };
        assert!(narrator.tell(&built).lines.is_empty());
        let step = |measured| Event::SearchStep { text: "[1/6] 1d0c7aa 3.10 MiB".to_owned(), measured };
        let lines: Vec<String> = [true, false]
            .iter()
            .flat_map(|measured| narrator.tell(&step(*measured)).lines)
            .map(|line| line.plain())
            .collect();
        assert_eq!(lines, ["    Measured [1/6] 1d0c7aa 3.10 MiB", "     Skipped [1/6] 1d0c7aa 3.10 MiB"]);
        let mut verbose = Narrator::new(Verbosity::Verbose, Medium::Terminal);
        verbose.tell(&Event::SearchBegan { text: "64 commits".to_owned() });
        assert_eq!(verbose.tell(&built).lines.len(), 1);
    }
}
