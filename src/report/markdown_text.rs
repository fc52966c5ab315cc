//! Text for markdown, without markup of its own.

use crate::support::labels;

/// A name as code. A backtick within would end it.
pub(in crate::report) fn code(name: &str) -> String {
    format!("`{}`", labels::one_line(name).replace('`', "'"))
}

/// Text that is neither markup nor a mention of a person, nor, as `#2` would be, of an issue.
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
