//! Text for the page's compressed data.

use memprof_support::labels::one_line;
use memprof_support::redaction;

/// A text in one line and without secrets. What goes out is filtered, too, but compressed text is not
/// recognized there.
pub(super) fn shown(text: &str) -> String {
    redaction::of_process().text(&one_line(text)).into_owned()
}
