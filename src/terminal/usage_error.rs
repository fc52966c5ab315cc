//! Mistakes in the command line. Clap describes them, and breaks no lines.

use std::io::{self, Write};

use crate::terminal::console::width_of_terminal;
use memprof_support::wrapped;

/// Prints what clap says: a mistake, or what `--help` and `--version` print.
pub fn print(error: &clap::Error) {
    // There is no other place to report that this place is closed.
    _ = match width_of_terminal().filter(|_| error.use_stderr()) {
        None => error.print(),
        Some(columns) => write!(anstream::AutoStream::auto(io::stderr()), "{}", in_columns(error, columns)),
    };
}

/// Returns the description of a mistake with its lines broken between words.
fn in_columns(error: &clap::Error, columns: usize) -> String {
    wrapped::lines(&error.render().ansi().to_string(), columns, "error: ".len())
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use memprof_support::labels::width;

    use super::*;
    use crate::arguments::command_line;

    #[test]
    fn a_mistake_breaks_between_words() {
        for line in [
            "cargo-memprof --refz main",
            "cargo-memprof --format xml",
            "cargo-memprof --timeout 10",
            "cargo-memprof main --archive a.tar.zst",
            "cargo-memprof list -- --nocapture",
        ] {
            let error = command_line::parse(line.split(' ').map(OsString::from)).unwrap_err();
            let whole = error.to_string();
            let text = anstream::adapter::strip_str(&in_columns(&error, 60)).to_string();
            let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
            assert_eq!(words(&text), words(&whole), "{line}");
            let is_too_long = |line: &&str| width(line) > 60 && !line.contains("cargo memprof");
            assert_eq!(text.lines().find(is_too_long), None, "{text}");
        }
    }
}
