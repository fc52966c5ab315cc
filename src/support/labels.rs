//! Labels that tests wrote, made fit for one line: visible, without control characters, and not too
//! wide.

use std::borrow::Cow;

use unicode_width::UnicodeWidthStr;

/// Returns a label on one line. Visible characters replace those that would break the line, colour
/// it or change its direction.
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

/// Whether a character separates lines, or changes the direction of the rest of the line, figures
/// included (Unicode annex 9).
fn is_of_layout(character: char) -> bool {
    matches!(
        character,
        '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    )
}

/// The widest label that is shown. More would not help, and a comment has limited room.
const MOST_OF_LABEL: usize = 120;

/// Returns a label as it was written, as far as it can be shown. A blank label is put in quotes.
pub fn label(text: &str) -> String {
    let line = one_line(text);
    if line.trim().is_empty() { format!("\"{line}\"") } else { cut(&line, MOST_OF_LABEL).into_owned() }
}

/// Returns the columns that a text takes on a terminal.
pub fn width(text: &str) -> usize {
    text.width()
}

/// Returns the text in at most this many columns. A longer text is cut in the middle, because both
/// ends of a label matter.
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

/// Returns the beginning of a text in at most this many columns. The whole text so far is measured,
/// because the characters of one emoji may be narrower together.
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
