//! Who runs this program: user, command, process, and since when. Lock files and tickets say it to
//! the other users of the machine.

use std::fmt::Write as _;

use jiff::{Timestamp, Zoned};

use crate::labels;
use crate::redaction;

/// The widest command that is shown.
const MOST_OF_COMMAND: usize = 100;

/// A process of this program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunIdentity {
    /// The process id, which may be that of a container.
    pub process: u32,
    /// The command line.
    pub command: String,
    pub user: String,
    /// When it took its lock, or its place in the queue.
    pub since: Timestamp,
}

impl RunIdentity {
    /// This process, now.
    pub fn of_this_process() -> Self {
        let words: Vec<String> = std::env::args_os().map(|word| word.to_string_lossy().into()).collect();
        Self {
            process: std::process::id(),
            // All users can read it.
            command: redaction::text(&command_line(&words)).into_owned(),
            user: user_name(own_user()),
            since: Timestamp::now(),
        }
    }

    /// Returns the line for a file. Versions before the queue show it as it is.
    pub fn line(&self) -> String {
        let Self { process, command, user, since } = self;
        format!("process {process} ({}) of {user} since {since:.0}\n", labels::one_line(command))
    }

    /// Reads such a line. `None` for anything else, such as the line of an older version.
    pub fn read(text: &str) -> Option<Self> {
        let (process, rest) = text.trim().strip_prefix("process ")?.split_once(" (")?;
        let (command, rest) = rest.rsplit_once(") of ")?;
        let (user, since) = rest.rsplit_once(" since ")?;
        Some(Self {
            process: process.parse().ok()?,
            command: command.to_owned(),
            user: user.to_owned(),
            since: since.parse().ok()?,
        })
    }

    /// Returns `alice: cargo memprof main..pr/7, process 4711, since 14:02`. The time is in the zone
    /// of `now`; another day is named.
    pub fn shown(&self, now: &Zoned) -> String {
        let since = self.since.to_zoned(now.time_zone().clone());
        let format = if since.date() == now.date() { "%H:%M" } else { "%Y-%m-%d %H:%M" };
        let command = labels::one_line(&self.command);
        let user = labels::label(&self.user);
        let mut text = format!("{user}: {}, ", labels::cut(&command, MOST_OF_COMMAND));
        // Writing to a string cannot fail.
        let _ = write!(text, "process {}, since {}", self.process, since.strftime(format));
        text
    }
}

/// Returns what a lock file says about its holder, for people. Anybody may have written the file.
pub fn described(text: &str) -> String {
    match (RunIdentity::read(text), text.trim()) {
        (Some(identity), _) => identity.shown(&Zoned::now()),
        (None, "") => "an unknown process".to_owned(),
        (None, other) => labels::cut(&labels::one_line(other), 2 * MOST_OF_COMMAND).into_owned(),
    }
}

/// Returns the command as the user typed it: cargo starts `/home/me/.cargo/bin/cargo-memprof memprof`.
fn command_line(words: &[String]) -> String {
    let program = words.first().map_or("", String::as_str).rsplit('/').next().unwrap_or_default();
    match (program, words.get(1).map(String::as_str)) {
        ("cargo-memprof", Some("memprof")) => format!("cargo {}", words[1..].join(" ")),
        ("cargo-memprof", _) => [&["cargo memprof".to_owned()], &words[1..]].concat().join(" "),
        _ => words.join(" "),
    }
}

/// Returns the id of the user that this process runs as.
pub fn own_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Returns a user's name, or `user 1000` if the machine has no name for it.
#[expect(unsafe_code, reason = "the standard library does not look up users")]
pub fn user_name(id: u32) -> String {
    let mut buffer = vec![0_u8; 1 << 14];
    // SAFETY: a `passwd` of null pointers is valid, and is only read if the call filled it.
    let mut entry: libc::passwd = unsafe { std::mem::zeroed() };
    let mut found = std::ptr::null_mut();
    // SAFETY: all pointers are to live variables, and the length is the buffer's.
    let status = unsafe {
        libc::getpwuid_r(id, &raw mut entry, buffer.as_mut_ptr().cast(), buffer.len(), &raw mut found)
    };
    if status != 0 || found.is_null() || entry.pw_name.is_null() {
        return format!("user {id}");
    }
    // SAFETY: the call succeeded, so this is a string in `buffer`, which still lives.
    let name = unsafe { std::ffi::CStr::from_ptr(entry.pw_name) };
    name.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;

    use super::*;

    fn alice() -> RunIdentity {
        RunIdentity {
            process: 4711,
            command: "cargo memprof main..pr/7 -k 'a) of b'".to_owned(),
            user: "alice".to_owned(),
            since: "2026-03-01T14:02:11Z".parse().unwrap(),
        }
    }

    #[test]
    fn a_line_is_read_back_and_shown_with_the_time_of_day_or_the_day() {
        let line = alice().line();
        assert_eq!(
            line,
            "process 4711 (cargo memprof main..pr/7 -k 'a) of b') of alice since 2026-03-01T14:02:11Z\n"
        );
        assert_eq!(RunIdentity::read(&line), Some(alice()));
        let at = |text: &str| text.parse::<Timestamp>().unwrap().to_zoned(TimeZone::UTC);
        assert_eq!(
            alice().shown(&at("2026-03-01T16:00:00Z")),
            "alice: cargo memprof main..pr/7 -k 'a) of b', process 4711, since 14:02"
        );
        assert!(alice().shown(&at("2026-03-02T01:00:00Z")).ends_with("since 2026-03-01 14:02"));
    }

    #[test]
    fn what_others_wrote_is_shown_harmlessly_or_not_at_all() {
        assert_eq!(described(" \n"), "an unknown process");
        assert_eq!(described("process 7 (cargo-memprof run)\n"), "process 7 (cargo-memprof run)");
        assert_eq!(described("\u{1b}[2Jgone\nnext"), "␛[2Jgone↵next");
        assert!(described(&"x".repeat(9000)).chars().count() <= 200);
        let mut colored = alice();
        colored.command = "\u{1b}[31mred".to_owned();
        colored.user = "eve\u{202e}".to_owned();
        let shown = colored.shown(&Zoned::now());
        assert!(!shown.contains('\u{1b}') && !shown.contains('\u{202e}'), "{shown:?}");
        assert!(!colored.line().contains('\u{1b}'));
    }

    #[test]
    fn the_command_is_the_one_that_the_user_typed() {
        let line = |text: &str| command_line(&text.split(' ').map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(line("/home/me/.cargo/bin/cargo-memprof memprof main pr/7"), "cargo memprof main pr/7");
        assert_eq!(line("cargo-memprof run --archive a"), "cargo memprof run --archive a");
        assert_eq!(line("/x/deps/fast-0123 name"), "/x/deps/fast-0123 name");
        assert_eq!(user_name(u32::MAX - 7), format!("user {}", u32::MAX - 7));
        assert!(!RunIdentity::of_this_process().user.is_empty());
    }
}
