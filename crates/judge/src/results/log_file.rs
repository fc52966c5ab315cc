//! The shim's log as a file: its lines, one by one and within limits, and why it cannot be read.

use std::io::{self, BufRead};

use memprof_support::bounded_lines::read_line;
use memprof_support::bytes::Bytes;

/// The newest version of the log's format that this program reads.
pub(crate) const VERSION: u32 = 1;

/// The most bytes of a log, about two million checkpoints. All logs of a comparison are in memory at
/// the same time.
pub const MOST_OF_LOG: u64 = 512 << 20;

/// The most bytes of a line. The longest lines have labels that a test wrote.
const MOST_OF_LINE: usize = 16 << 20;

/// Why a log cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The log was written by a newer shim.
    #[error(
        "{file}:{line}: log format {version} is newer than this cargo-memprof reads ({VERSION}); update cargo-memprof"
    )]
    Newer {
        /// The log.
        file: String,
        /// Line number, from 1.
        line: usize,
        /// The version found.
        version: u32,
    },
    /// A line cannot be read, or contradicts others.
    #[error("{file}:{line}: invalid line in the shim's log: {problem}")]
    Malformed {
        /// The log.
        file: String,
        /// Line number, from 1.
        line: usize,
        /// What is wrong.
        problem: String,
    },
    /// A line, or the whole log, is too long.
    #[error("{file}:{line}: the {what} is longer than {most}, the most that is read; {help}")]
    TooLong {
        /// The log.
        file: String,
        /// Line number, from 1.
        line: usize,
        /// What is too long: `line` or `log`.
        what: &'static str,
        /// The limit.
        most: Bytes,
        /// How to make it shorter.
        help: &'static str,
    },
    /// The log could not be read.
    #[error("{file}:{line}: {source}")]
    Io {
        /// The log.
        file: String,
        /// Line number, from 1.
        line: usize,
        /// The system's error.
        source: io::Error,
    },
}

/// Why a line cannot be used.
pub(super) enum LineError {
    /// The format is newer than [`VERSION`].
    Newer(u32),
    /// The shim did not write such a line.
    Malformed(String),
}

/// Gives each line of a log to the callback, with its number from 1. Returns a note if the last line
/// is cut off, which the callback cannot read.
pub(super) fn each_line(
    log: impl BufRead,
    file: &str,
    mut take: impl FnMut(&[u8], usize) -> Result<(), LineError>,
) -> Result<Option<String>, LogError> {
    let mut log = log.take(MOST_OF_LOG + 1);
    let mut bytes = Vec::with_capacity(4096);
    let mut line = 0;
    let mut length = 0;
    loop {
        line += 1;
        let next = read_line(&mut log, MOST_OF_LINE, &mut bytes);
        let Some(next) = next.map_err(|source| LogError::Io { file: file.to_owned(), line, source })? else {
            return Ok(None);
        };
        length += next.length;
        if length > MOST_OF_LOG {
            return Err(too_large(file, line));
        }
        if !next.is_whole {
            let (most, help) = (Bytes(MOST_OF_LINE as u64), "shorten its label");
            return Err(LogError::TooLong { file: file.to_owned(), line, what: "line", most, help });
        }
        let torn = bytes.last() != Some(&b'\n');
        let text = bytes.trim_ascii();
        if text.is_empty() {
            continue;
        }
        match take(text, line) {
            Ok(()) => {}
            Err(LineError::Newer(version)) => {
                return Err(LogError::Newer { file: file.to_owned(), line, version });
            }
            // A line without its newline is the last one.
            Err(LineError::Malformed(_)) if torn => {
                return Ok(Some(format!(
                    "line {line} is cut off: the process ended while it was being written"
                )));
            }
            Err(LineError::Malformed(problem)) => {
                return Err(LogError::Malformed { file: file.to_owned(), line, problem });
            }
        }
    }
}

/// Returns the error for a log that is larger than [`MOST_OF_LOG`].
pub(crate) fn too_large(file: &str, line: usize) -> LogError {
    let (most, help) = (Bytes(MOST_OF_LOG), "log fewer checkpoints, or trace fewer calls (--max-events)");
    LogError::TooLong { file: file.to_owned(), line, what: "log", most, help }
}
