//! Wraps texts between words. A path and a quoted command stay on one line. A command at the end of a
//! line that has no room gets a backslash where it goes on, so that it can be copied.

use std::borrow::Cow;

use crate::labels::width;

/// The programs whose commands help lines contain.
const PROGRAMS: [&str; 3] = ["cargo ", "git ", "./"];

/// Wraps each line at this many columns. Its other lines are indented by `indent` more than it is. A
/// longer word stays whole.
pub fn lines(text: &str, columns: usize, indent: usize) -> String {
    text.split('\n').map(|line| one(line, columns, indent)).collect::<Vec<_>>().join("\n")
}

fn one(line: &str, columns: usize, indent: usize) -> String {
    let width = |text: &str| width(&without_styles(text));
    if width(line) <= columns {
        return line.to_owned();
    }
    let own = line.len() - line.trim_start_matches(' ').len();
    let mut wrapped = line[..own].to_owned();
    let (mut used, mut is_first) = (own, true);
    for word in words(&line[own..]) {
        let is_command = PROGRAMS.iter().any(|program| word.starts_with(program));
        if is_command && own + indent + width(word) > columns {
            if !is_first {
                wrapped.push('\n');
                wrapped.extend(std::iter::repeat_n(' ', own + indent));
            }
            wrapped.push_str(&command(word, columns, own + indent));
            break;
        }
        if is_first {
            is_first = false;
        } else if used + 1 + width(word) > columns {
            used = own + indent;
            wrapped.push('\n');
            wrapped.extend(std::iter::repeat_n(' ', used));
        } else {
            wrapped.push(' ');
            used += 1;
        }
        wrapped.push_str(word);
        used += width(word);
    }
    wrapped
}

/// Breaks a command before its arguments, as a shell reads it.
fn command(text: &str, columns: usize, indent: usize) -> String {
    let mut broken = String::new();
    let mut used = indent;
    for argument in arguments(text) {
        // The backslash needs room, too.
        if used > indent && used + 1 + width(argument) + 2 > columns {
            used = indent + CONTINUED;
            broken.push_str(" \\\n");
            broken.extend(std::iter::repeat_n(' ', used));
        } else if used > indent {
            broken.push(' ');
            used += 1;
        }
        broken.push_str(argument);
        used += width(argument);
    }
    broken
}

/// How far the further lines of a command are indented.
const CONTINUED: usize = 4;

/// Splits a command at the blanks outside of quotes. A flag stays with its value.
fn arguments(text: &str) -> Vec<&str> {
    let (mut arguments, mut begin, mut quote) = (Vec::new(), 0, None);
    for (index, character) in text.char_indices() {
        match (quote, character) {
            (None, '\'' | '"') => quote = Some(character),
            (Some(open), _) if open == character => quote = None,
            (None, ' ') if text[index + 1..].starts_with('-') => {
                arguments.push(&text[begin..index]);
                begin = index + 1;
            }
            _ => {}
        }
    }
    arguments.push(&text[begin..]);
    arguments
}

/// Returns a text without the codes that colour it, which take no columns.
fn without_styles(text: &str) -> Cow<'_, str> {
    if !text.contains("\u{1b}[") {
        return Cow::Borrowed(text);
    }
    let pieces = text.split("\u{1b}[").enumerate();
    let plain = |(index, piece): (usize, &'_ str)| match piece.split_once('m') {
        Some((_, rest)) if index > 0 => rest.to_owned(),
        _ => piece.to_owned(),
    };
    Cow::Owned(pieces.map(plain).collect())
}

/// Splits a line at blanks, but not in a quoted piece, and not in a command that ends the line.
fn words(line: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut rest = line;
    while !rest.is_empty() {
        let is_command = PROGRAMS.iter().any(|program| rest.starts_with(program))
            && words.last().is_none_or(|before: &&str| before.ends_with(':'));
        let end = if is_command { None } else { end_of_word(rest) };
        let (word, after) = end.map_or((rest, ""), |end| (&rest[..end], &rest[end + 1..]));
        words.push(word);
        rest = after;
    }
    words
}

/// Returns where the first blank outside of backticks is.
fn end_of_word(text: &str) -> Option<usize> {
    let mut quoted = false;
    // A backtick without its partner quotes nothing.
    let is_paired = text.matches('`').count().is_multiple_of(2);
    text.char_indices().find_map(|(index, character)| {
        quoted ^= character == '`' && is_paired;
        (character == ' ' && !quoted).then_some(index)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_breaks_between_words_and_the_rest_is_indented() {
        assert_eq!(lines("warning: one two three", 14, 9), "warning: one\n         two\n         three");
        assert_eq!(lines("  help: one two", 11, 6), "  help: one\n        two");
        assert_eq!(lines("short\nalso short", 12, 4), "short\nalso short");
        assert_eq!(lines("a /very/long/path b", 8, 2), "a\n  /very/long/path\n  b");
    }

    #[test]
    fn colours_take_no_columns() {
        let coloured = "\u{1b}[1m\u{1b}[31merror:\u{1b}[0m one two";
        assert_eq!(lines(coloured, 14, 7), coloured);
        assert_eq!(lines(coloured, 13, 7), coloured.replace(" two", "\n       two"));
    }

    #[test]
    fn what_is_copied_stays_whole() {
        let help = "help: compare them: cargo memprof main pr/7 --why proven";
        assert_eq!(lines(help, 42, 6), "help: compare them:\n      cargo memprof main pr/7 --why proven");
        let broken = "help: compare them:\n      cargo memprof main pr/7 \\\n          --why proven";
        assert_eq!(lines(help, 33, 6), broken);
        let quoted = "next: cargo memprof -k 'a -b' --all-features";
        assert_eq!(lines(quoted, 33, 6), "next:\n      cargo memprof -k 'a -b' \\\n          --all-features");
        let help = "help: to continue, run it with `--resume now` again";
        assert_eq!(lines(help, 34, 6), "help: to continue, run it with\n      `--resume now` again");
        assert_eq!(
            lines("help: the ` of a shell is no quote", 20, 6),
            "help: the ` of a\n      shell is no\n      quote"
        );
        assert_eq!(lines("help: a cargo feature", 12, 6), "help: a\n      cargo\n      feature");
    }
}
