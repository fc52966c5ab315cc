//! Escapes text for markdown. A forge turns many texts into links or mentions, even escaped ones,
//! because it looks at the finished page. So a break that does not show goes into these.

use std::sync::LazyLock;

use regex::Regex;

use memprof_support::labels;

/// A zero-width space. Escaping is not enough: `&#64;name` mentions as well as `@name` does.
const BREAK: &str = "&#8203;";

/// Names of emoji that are usual in paths: `sync::lock::waits` has `:lock:`. Rarer names
/// still become emoji: a break in every path would be in what people copy.
const EMOJI: &str = "100|1234|a|abc|anchor|art|b|back|bank|battery|bell|book|bookmark|books|bricks|bucket|bug|calendar|\
                     camera|chains|chart|clipboard|computer|date|dna|door|email|end|envelope|fire|free|gear|gem|hammer|\
                     hand|hash|hook|hourglass|id|infinity|key|label|ledger|link|lock|loop|m|mag|mailbox|mask|memo|mirror|\
                     mouse|new|notebook|o|octopus|ok|on|package|pencil|phone|pill|pushpin|question|radio|recycle|repeat|\
                     rewind|ring|robot|rocket|runner|satellite|scroll|shell|shield|ship|snake|star|symbols|thread|top|\
                     train|tv|unlock|up|v|vs|warning|watch|wave|wheel|window|wrench|x|zap|\
                     zero|one|two|three|four|five|six|seven|eight|nine";

/// What GitHub and GitLab link or draw: addresses, references such as `@name`, `#1` and `!1`, hashes of
/// commits, and emoji. A break goes behind the first group.
static LINKED: LazyLock<Regex> = LazyLock::new(|| {
    let emoji = format!("(:)(?:{EMOJI}):");
    let patterns = [
        &*emoji,
        r"(:)//",
        r"\b((?i:www))\.",
        r"(@)",
        r"([#!&$%~])[0-9A-Za-z]",
        r"\b((?i:gh))-[0-9]",
        r"\b([0-9a-f]{4})[0-9a-f]{3,60}\b",
    ];
    let groups = patterns.map(|pattern| format!("(?:{pattern})"));
    Regex::new(&groups.join("|")).expect("the patterns are constant")
});

/// Returns a name as code. A backtick in the name would end the code, so it becomes a quote.
pub(crate) fn code(name: &str) -> String {
    format!("`{}`", labels::one_line(name).replace('`', "'"))
}

/// Returns a name as code in a cell of a table, which a bar would end, also in code.
pub(crate) fn code_in_cell(name: &str) -> String {
    code(name).replace('|', "\\|")
}

/// Escapes markup, mentions of people, addresses, and references to issues such as `#2`.
pub(crate) fn escape(text: &str) -> String {
    written(text, is_markup, |_| true)
}

/// Like [`escape`], but the hashes of commits stay links, for texts about commits.
pub(crate) fn escape_but_hashes(text: &str) -> String {
    written(text, is_markup, |linked| !linked.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// Like [`escape`], for text inside of an HTML element, where a backslash would show.
pub(crate) fn html(text: &str) -> String {
    written(text, |_| false, |_| true)
}

/// Returns a fence for a block of code: more backticks than any line inside has.
pub(crate) fn fence(code: &str) -> String {
    let longest = code.split(|one| one != '`').map(str::len).max().unwrap_or(0);
    "`".repeat(longest.max(2) + 1)
}

fn is_markup(character: char) -> bool {
    matches!(character, '|' | '`' | '*' | '_' | '[' | ']' | '~' | '\\')
}

fn written(text: &str, is_markup: impl Fn(char) -> bool, breaks_up: impl Fn(&str) -> bool) -> String {
    let text = labels::one_line(text);
    let breaks = breaks(&text, breaks_up);
    let mut breaks = breaks.iter().copied().peekable();
    let mut escaped = String::with_capacity(text.len() + 8);
    for (index, character) in text.char_indices() {
        if breaks.next_if_eq(&index).is_some() {
            escaped.push_str(BREAK);
        }
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '@' => escaped.push_str("&#64;"),
            '#' => escaped.push_str("&#35;"),
            // Two of them enclose mathematics.
            '$' => escaped.push_str("&#36;"),
            markup if is_markup(markup) => {
                escaped.push('\\');
                escaped.push(markup);
            }
            _ => escaped.push(character),
        }
    }
    if breaks.next().is_some() {
        escaped.push_str(BREAK);
    }
    escaped
}

/// Returns the places for breaks, in order.
fn breaks(text: &str, breaks_up: impl Fn(&str) -> bool) -> Vec<usize> {
    // Digits alone are far more likely a number than a hash, and people copy numbers.
    let is_number = |found: &str| found.bytes().all(|byte| byte.is_ascii_digit());
    let linked = LINKED.captures_iter(text).filter(|found| !is_number(&found[0]) && breaks_up(&found[0]));
    linked.filter_map(|found| found.iter().skip(1).flatten().next().map(|group| group.end())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_forge_would_link_is_broken_up_and_reads_the_same() {
        let cases = [
            ("https://a.example/x", "https:|//a.example/x"),
            ("see www.a.example", "see www|.a.example"),
            ("GH-1 gh-2", "GH|-1 gh|-2"),
            ("#1 o/r#2 !3", "#|1 o/r#|2 !|3"),
            ("@bot a@b.example", "@|bot a@|b.example"),
            ("9be0d13 of 1048576", "9be0|d13 of 1048576"),
            ("$x$ costs 5 %", "$|x$ costs 5 %"),
            ("done #2", "done #|2"),
            ("bart::tests::forward of f32 [24, 1024]", "bart::tests::forward of f32 [24, 1024]"),
            ("mail@", "mail@|"),
            ("sync::lock::waits", "sync::|lock::waits"),
            ("a::key::one::tests::lock", "a::|key::|one::tests::lock"),
            ("src/lib.rs:10:5: no, src/lib.rs:100:5", "src/lib.rs:10:5: no, src/lib.rs:|100:5"),
        ];
        for (text, broken) in cases {
            let shown = html(text).replace(BREAK, "|");
            let shown = shown.replace("&#64;", "@").replace("&#35;", "#").replace("&#36;", "$");
            assert_eq!(shown, broken);
            let read = escape(text).replace(BREAK, "").replace('\\', "");
            let read = read.replace("&#64;", "@").replace("&#35;", "#").replace("&#36;", "$");
            assert_eq!(read, text);
        }
    }

    #[test]
    fn a_fence_is_longer_than_the_backticks_inside() {
        assert_eq!(fence("+a\n-b"), "```");
        assert_eq!(fence("+/// ````\n+a"), "`````");
    }

    #[test]
    fn markup_is_escaped_where_it_is_read() {
        assert_eq!(escape("a_b <c>"), "a\\_b &lt;c&gt;");
        assert_eq!(html("a_b <c> @d"), "a_b &lt;c&gt; &#64;&#8203;d");
        assert_eq!(escape_but_hashes("9be0d13 by @d"), "9be0d13 by &#64;&#8203;d");
    }
}
