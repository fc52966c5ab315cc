//! Workflow commands: texts in a log that GitHub Actions and Azure Pipelines obey. A test may print
//! such a text, and a report that quotes it must not run it.
//!
//! A command is `::name::` at the start of a line, or `##[name]` or `##vso[name]` anywhere:
//! <https://github.com/actions/runner/blob/main/src/Runner.Common/ActionCommand.cs>.
//! `::stop-commands::` would not do: it needs lines of its own in the data on standard output, and
//! the runner reads standard error at the same time.

use std::borrow::Cow;

/// How a text may be written differently without a change of its meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notation {
    /// Text for people, and CSV: a blank breaks a command up.
    Text,
    /// JSON: the second `#` is escaped.
    Json,
    /// XML: the second `#` is escaped.
    Xml,
}

/// Whether a CI runner reads what this process prints.
pub fn are_obeyed() -> bool {
    ["GITHUB_ACTIONS", "TF_BUILD"]
        .iter()
        .any(|name| std::env::var(name).is_ok_and(|value| value.eq_ignore_ascii_case("true")))
}

/// Returns the text without workflow commands. It stays readable: `: :error::`, `# #[error]`.
pub fn broken_up(text: &str, notation: Notation) -> Cow<'_, str> {
    if !text.contains("::") && !text.contains("##") {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 16);
    // The runner ends a line at a carriage return, too.
    for line in text.split_inclusive(['\n', '\r']) {
        let line = match line.split_at(blank_start(line)) {
            (blank, rest) if notation == Notation::Text && rest.starts_with("::") => {
                safe.push_str(blank);
                safe.push_str(": ");
                &rest[1..]
            }
            _ => line,
        };
        push_without_brackets(line, notation, &mut safe);
    }
    Cow::Owned(safe)
}

/// Returns the length of the blanks and colours that a line begins with.
fn blank_start(line: &str) -> usize {
    let mut rest = line;
    loop {
        let text = rest.trim_start();
        let colour = text.strip_prefix("\u{1b}[").and_then(|code| code.split_once('m'));
        match colour.filter(|(code, _)| code.bytes().all(|byte| byte.is_ascii_digit() || byte == b';')) {
            Some((_, after)) => rest = after,
            None => return line.len() - text.len(),
        }
    }
}

/// Breaks up `##[`, `##vso[` and their like.
fn push_without_brackets(line: &str, notation: Notation, safe: &mut String) {
    let mut rest = line;
    while let Some(start) = rest.find("##") {
        let (before, command) = rest.split_at(start + 1);
        safe.push_str(before);
        let name = command[1..].trim_start_matches(|letter: char| letter.is_ascii_alphabetic());
        rest = command;
        if name.starts_with('[') {
            rest = &command[1..];
            safe.push_str(match notation {
                Notation::Text => " #",
                Notation::Json => "\\u0023",
                Notation::Xml => "&#35;",
            });
        }
    }
    safe.push_str(rest);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_line_begins_with_a_command_and_the_text_stays_readable() {
        let text = |text: &str| broken_up(text, Notation::Text).into_owned();
        assert_eq!(text("::error::x"), ": :error::x");
        assert_eq!(text("a\n  ::set-output name=x::y\n"), "a\n  : :set-output name=x::y\n");
        assert_eq!(text("a\r\u{a0}::error::x"), "a\r\u{a0}: :error::x");
        assert_eq!(text(" \u{1b}[1;31m ::error::x\u{1b}[0m"), " \u{1b}[1;31m : :error::x\u{1b}[0m");
        assert_eq!(text("│ ##[error]x ##vso[task.setvariable]y"), "│ # #[error]x # #vso[task.setvariable]y");
        assert_eq!(text("###[group]"), "## #[group]");
        for harmless in ["bart::tests::forward", " a ::error::", "## Heading", "a ##", "#[test]"] {
            assert_eq!(text(harmless), harmless);
        }
    }

    #[test]
    fn data_keeps_its_meaning() {
        let json = serde_json::json!({ "label": "##[error]x" }).to_string();
        let safe = broken_up(&json, Notation::Json);
        assert!(!safe.contains("##["), "{safe}");
        let read: serde_json::Value = serde_json::from_str(&safe).unwrap();
        assert_eq!(read["label"], "##[error]x");
        assert_eq!(broken_up("<a b=\"##[error]\"/>", Notation::Xml), "<a b=\"#&#35;[error]\"/>");
    }
}
