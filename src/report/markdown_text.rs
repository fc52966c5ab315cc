//! Escapes text for markdown.

use crate::support::labels;

/// Returns a name as code. A backtick in the name would end the code, so it becomes a quote.
pub(in crate::report) fn code(name: &str) -> String {
    format!("`{}`", labels::one_line(name).replace('`', "'"))
}

/// Escapes markup, mentions of people, and references to issues such as `#2`.
pub(in crate::report) fn escape(text: &str) -> String {
    let text = labels::one_line(text);
    let mut escaped = String::with_capacity(text.len() + 8);
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '@' => escaped.push_str("&#64;"),
            '#' => escaped.push_str("&#35;"),
            '|' | '`' | '*' | '_' | '[' | ']' | '~' | '\\' => {
                escaped.push('\\');
                escaped.push(character);
            }
            _ => escaped.push(character),
        }
    }
    escaped
}
