//! Wraps texts between words. What a person would copy stays on one line: a path, a quoted command, and
//! a command at the end of a line.

use crate::labels::width;

/// The programs whose commands help lines contain.
const PROGRAMS: [&str; 3] = ["cargo ", "git ", "./"];

/// Wraps each line at this many columns. Its other lines are indented by `indent` more than it is. A
/// longer word stays whole.
pub fn lines(text: &str, columns: usize, indent: usize) -> String {
    text.split('\n').map(|line| one(line, columns, indent)).collect::<Vec<_>>().join("\n")
}

fn one(line: &str, columns: usize, indent: usize) -> String {
    if width(line) <= columns {
        return line.to_owned();
    }
    let own = line.len() - line.trim_start_matches(' ').len();
    let mut wrapped = line[..own].to_owned();
    let (mut used, mut is_first) = (own, true);
    for word in words(&line[own..]) {
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
    fn what_is_copied_stays_on_one_line() {
        let help = "help: compare them: cargo memprof main pr/7 --why proven";
        assert_eq!(lines(help, 30, 6), "help: compare them:\n      cargo memprof main pr/7 --why proven");
        let help = "help: to continue, run it with `--resume now` again";
        assert_eq!(lines(help, 34, 6), "help: to continue, run it with\n      `--resume now` again");
        assert_eq!(
            lines("help: the ` of a shell is no quote", 20, 6),
            "help: the ` of a\n      shell is no\n      quote"
        );
        assert_eq!(lines("help: a cargo feature", 12, 6), "help: a\n      cargo\n      feature");
    }
}
