//! The lines of events that depend on nothing but the event. Pure.

use crate::terminal::lines::{Line, StatusLine, Update};
use memprof_support::counted::{counted, ordinal};
use memprof_support::elapsed::shown;
use memprof_support::event::Event;

/// What a command waits for.
pub(super) fn waiting(event: &Event, on_terminal: bool) -> Update {
    match event {
        Event::WaitingForLock { subject, holder } => {
            Update::line(good("Waiting", format!("for another run on {subject} ({holder})")))
        }
        Event::WaitingInLine { subject, place, behind, holder } => {
            let holder = holder.as_ref().map_or_else(String::new, |holder| format!(" (now: {holder})"));
            let text = format!("{} in line for {subject} behind {behind}{holder}", ordinal(*place));
            let line = (!on_terminal).then(|| good("Waiting", text.clone()));
            Update { lines: line.into_iter().collect(), ..Update::stage("Waiting", text) }
        }
        Event::WaitingForMemory { device } => {
            Update::stage("Waiting", format!("until the last run's memory on {device} is free again"))
        }
        Event::Delaying { length } => {
            Update::stage("Waiting", format!("{} before the next run", shown(*length)))
        }
        Event::WaitingForRoom { text } => Update::line(good("Waiting", text.clone())),
        _ => Update::default(),
    }
}

/// How a batch system's job goes on.
pub(super) fn job(event: &Event, on_terminal: bool) -> Update {
    match event {
        Event::JobSubmitted { text } => Update::line(good("Submitted", text.clone())),
        Event::JobProgress { text } => {
            let line = (!on_terminal).then(|| good("Following", text.clone()));
            let status = StatusLine::Show {
                verb: "Following",
                text: text.clone(),
                details: Vec::new(),
                restart: false,
            };
            Update { lines: line.into_iter().collect(), status }
        }
        _ => Update::default(),
    }
}

/// From this number of hunks on, a file gets a line for each quarter that is checked.
const MANY_HUNKS: usize = 12;

/// How many hunks of a diff the compiler has checked.
pub(super) fn checked(done: usize, all: usize, on_terminal: bool) -> Update {
    let text = format!("{done} of {}: which of them need each other", counted(all, "hunk"));
    let is_quarter = done > 0 && done * 4 / all.max(1) > (done - 1) * 4 / all.max(1);
    let line = (!on_terminal && all >= MANY_HUNKS && is_quarter && done < all)
        .then(|| good("Checking", text.clone()));
    Update { lines: line.into_iter().collect(), ..Update::stage("Checking", text) }
}

/// `main · 12 crates · serde`.
pub(super) fn building(name: &str, crate_name: &str, compiled: usize) -> String {
    format!("{name} · {} · {crate_name}", counted(compiled, "crate"))
}

/// A stage that went well.
pub(super) fn good(verb: &'static str, text: String) -> Line {
    Line::Stage { verb, text, good: true }
}

/// A line about what is slow or went wrong.
pub(super) fn bad(verb: &'static str, text: String) -> Line {
    Line::Stage { verb, text, good: false }
}

/// `main 29610a7`, or the name alone where it is the commit.
pub(super) fn revision(name: &str, commit: &str) -> String {
    let short =
        commit.get(..7).filter(|_| commit.bytes().all(|byte| byte.is_ascii_hexdigit())).unwrap_or(commit);
    if short.is_empty() || short == name { name.to_owned() } else { format!("{name} {short}") }
}

/// Warns of libraries that this machine lacks.
pub(super) fn absent_libraries(target: &str, names: &[String]) -> Line {
    let help = "run its tests on a machine that has them: `cargo memprof build --archive FILE` packs the tests \
                (docs/archive.md)";
    Line::Warning {
        message: format!("'{target}' is linked with {}, which this machine lacks", names.join(", ")),
        help: Some(help.to_owned()),
    }
}
