//! Text that tests wrote, made fit for one line: visible, without control characters, and not too wide.

use std::borrow::Cow;

use unicode_width::UnicodeWidthStr;

/// A label on one line: what would break it, colour it or turn its direction is made visible.
pub fn one_line(text: &str) -> Cow<'_, str> {
    let is_harmful = |character: char| character.is_control() || is_of_layout(character);
    if !text.contains(is_harmful) {
        return Cow::Borrowed(text);
    }
    let visible = text.chars().map(|character| match character {
        '\n' | '\u{2028}' | '\u{2029}' => '↵',
        '\t' => ' ',
        harmful if is_harmful(harmful) => '·',
        other => other,
    });
    Cow::Owned(visible.collect())
}

/// Separators of lines, and what turns the direction of all that follows on the line, figures included (Unicode's annex 9).
fn is_of_layout(character: char) -> bool {
    matches!(
        character,
        '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    )
}

/// More columns of a label than this tell nothing more, and a comment has room for so many characters only.
const MOST_OF_LABEL: usize = 120;

/// A label as it was written, as far as that can be shown: one of nothing but spaces stands in quotes.
pub fn label(text: &str) -> String {
    let line = one_line(text);
    if line.trim().is_empty() { format!("\"{line}\"") } else { cut(&line, MOST_OF_LABEL).into_owned() }
}

/// Columns that a text takes on a terminal.
pub fn width(text: &str) -> usize {
    text.width()
}

/// The text in at most so many columns, cut in the middle if need be: both ends of a label tell.
pub fn cut(text: &str, columns: usize) -> Cow<'_, str> {
    if width(text) <= columns {
        return Cow::Borrowed(text);
    }
    let mut room = columns.saturating_sub(1);
    loop {
        let tail_room = room / 3;
        let head = take(text.chars(), room - tail_room);
        let tail: String = take(text.chars().rev(), tail_room).chars().rev().collect();
        let cut = format!("{head}…{tail}");
        // Characters that join across the cut may be wider together than apart.
        if width(&cut) <= columns || room == 0 {
            return Cow::Owned(cut);
        }
        room -= 1;
    }
}

/// The widths of characters do not add up where an emoji is made of several, so the text so far is measured.
fn take(characters: impl Iterator<Item = char>, columns: usize) -> String {
    let mut text = String::new();
    for character in characters {
        text.push(character);
        if width(&text) > columns {
            text.pop();
            break;
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_long_label_keeps_both_ends() {
        assert_eq!(cut("done encoder, outputs shaped [24, 1024, 1024]", 24), "done encoder, ou…, 1024]");
        assert_eq!(cut("short", 24), "short");
        assert_eq!(cut("層層層層層層", 7), "層層…層");
    }

    #[test]
    fn what_would_break_a_row_is_made_visible() {
        assert_eq!(one_line("a\nb\tc\u{1b}[31m"), "a↵b c·[31m");
        assert_eq!(
            one_line("a\u{202e}b\u{2066}c\u{2028}d"),
            "a·b·c↵d",
            "figures behind it keep their direction"
        );
    }

    #[test]
    fn labels_that_cannot_be_seen_or_are_very_long_can_be_told_apart() {
        assert_eq!([label(""), label("  "), label(" a")], ["\"\"", "\"  \"", " a"]);
        let long = label(&"layer ".repeat(1_000));
        assert_eq!(width(&long), MOST_OF_LABEL);
        assert!(long.starts_with("layer layer") && long.contains('…'), "{long}");
    }

    proptest! {
        #[test]
        fn a_cut_text_never_takes_more_columns_than_given(text in "\\PC*", columns in 1_usize..40) {
            prop_assert!(width(&cut(&text, columns)) <= columns);
        }
    }
}
