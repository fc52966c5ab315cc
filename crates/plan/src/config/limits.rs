//! How large `memprof.yaml` may be. Beyond that, the YAML parser would take minutes.
//!
//! The parser takes quadratic time for brackets in brackets and for `%TAG` lines, so both are
//! counted before it starts. An alias repeats a whole subtree, so what is read is counted, too.

use std::cell::Cell;
use std::io::Read as _;

use camino::Utf8Path;
use serde::de;

use crate::config::mistake::Mistake;
use memprof_support::bytes::Bytes;
use memprof_support::counted::grouped;
use memprof_support::regular_file::followed;
use memprof_support::user_error::UserError;

/// The most bytes of a file, both as written and with the text of each alias in its place.
pub const MOST_BYTES: usize = 1 << 20;
/// The most `[` and `{` of a file, wherever they stand.
pub const MOST_BRACKETS: usize = 4_000;
/// The most lines that begin with `%`.
const MOST_DIRECTIVES: usize = 16;
/// The most entries of a mapping, and of a list of single values.
pub const MOST_ENTRIES: usize = 10_000;
/// The most entries of a list of mappings, such as `tests` or `exclude`.
pub const MOST_MAPPINGS: usize = 1_000;

thread_local! {
    /// How many bytes may still be read. One document is read at a time on a thread.
    static LEFT: Cell<usize> = const { Cell::new(0) };
}

/// Reads a regular file that is not too large. Never reads more than the limit.
pub fn read(file: &Utf8Path) -> Result<String, UserError> {
    let mut bytes = Vec::new();
    let most = u64::try_from(MOST_BYTES).unwrap_or(u64::MAX);
    let content = followed::open(file).and_then(|open| open.take(most + 1).read_to_end(&mut bytes));
    let text = content.map_err(|error| error.to_string()).and_then(|_| {
        // A character that the limit cuts off is no mistake of the file.
        let valid = bytes.len() > MOST_BYTES || std::str::from_utf8(&bytes).is_ok();
        if valid {
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        } else {
            Err(format!("{file} is not UTF-8"))
        }
    });
    let text = text.map_err(|message| {
        UserError::new(message)
            .help("choose another file with --matrix FILE, or write one with `cargo memprof init`")
    })?;
    check(&text, file)?;
    Ok(text)
}

/// Refuses a text that the parser would take minutes for.
pub fn check(text: &str, file: &Utf8Path) -> Result<(), UserError> {
    if text.len() > MOST_BYTES {
        return Err(UserError::new(format!("the matrix is larger than {}", most_bytes()))
            .help("choose a smaller file: --matrix FILE")
            .at(file, None));
    }
    let is_bracket = |(_, byte): &(usize, u8)| matches!(byte, b'[' | b'{');
    if let Some((index, _)) = text.bytes().enumerate().filter(is_bracket).nth(MOST_BRACKETS) {
        let before = &text.as_bytes()[..index];
        let line = memchr::memchr_iter(b'\n', before).count() + 1;
        let column = index - memchr::memrchr(b'\n', before).map_or(0, |newline| newline + 1) + 1;
        return Err(UserError::new(format!(
            "the matrix has more than {} brackets ([ and {{)",
            shown(MOST_BRACKETS)
        ))
        .help("write each entry on a line of its own: `- main` instead of [main]")
        .at(file, Some((line, column))));
    }
    if text.lines().filter(|line| line.starts_with('%')).count() > MOST_DIRECTIVES {
        return Err(UserError::new(format!(
            "the matrix has more than {MOST_DIRECTIVES} lines that begin with %"
        ))
        .help("remove the YAML directives (%TAG …); the matrix needs none")
        .at(file, None));
    }
    Ok(())
}

/// Allows the document that is read next its full size.
pub fn begin() {
    LEFT.set(MOST_BYTES);
}

/// Counts what is read. An alias repeats text, and a short file can so become arbitrarily long.
pub fn take<E: de::Error>(text: &str) -> Result<(), E> {
    match LEFT.get().checked_sub(text.len() + 1) {
        Some(left) => {
            LEFT.set(left);
            Ok(())
        }
        None => Err(Mistake::new(format!(
            "with each alias replaced by its text, the matrix is larger than {}",
            most_bytes()
        ))
        .help("use fewer aliases (*name), or anchor less text (&name)")
        .raise()),
    }
}

/// Refuses one entry more than `most`.
pub fn check_count(count: usize, most: usize) -> Result<(), Mistake> {
    if count < most {
        return Ok(());
    }
    Err(Mistake::new(format!("more than {} entries", shown(most)))
        .help("split the matrix: --matrix FILE chooses a file"))
}

fn most_bytes() -> Bytes {
    Bytes(MOST_BYTES as u64)
}

fn shown(limit: usize) -> String {
    grouped(i128::try_from(limit).unwrap_or(i128::MAX))
}
