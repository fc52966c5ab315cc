//! Labels that tests wrote, made fit for people: on one line, everything visible, not too wide and
//! not too long.

use std::borrow::Cow;
use std::fmt::Write as _;

use unicode_width::UnicodeWidthStr;

use crate::counted::grouped;

/// The longest label that is read from a log, in bytes.
pub const MOST_BYTES: usize = 4096;

/// Returns a label in at most [`MOST_BYTES`]. A longer one is cut. Its length and a hash of the
/// whole label take the place of the rest, so that two labels with the same start stay apart.
pub fn bounded(label: &str) -> Cow<'_, str> {
    if label.len() <= MOST_BYTES {
        return Cow::Borrowed(label);
    }
    let hash = blake3::hash(label.as_bytes()).to_hex();
    let bytes = grouped(i128::try_from(label.len()).unwrap_or(i128::MAX));
    let mark = format!("… ({bytes} bytes, blake3 {})", &hash[..16]);
    let head = &label[..label.floor_char_boundary(MOST_BYTES - mark.len())];
    Cow::Owned(format!("{head}{mark}"))
}

/// Returns a label on one line. Visible characters replace those that would break the line, colour
/// it, change its direction, or not show at all.
pub fn one_line(text: &str) -> Cow<'_, str> {
    visible(text, |character| match character {
        '\n' | '\u{2028}' | '\u{2029}' => Some('↵'),
        '\t' => Some(' '),
        _ => None,
    })
}

/// Like [`one_line`], but keeps line ends and tabs.
pub fn lines(text: &str) -> Cow<'_, str> {
    let keep = |character| matches!(character, '\n' | '\t').then_some(character);
    match visible(text, keep) {
        Cow::Owned(shown) if text.contains("\r\n") => Cow::Owned(shown.replace("␍\n", "\n")),
        shown => shown,
    }
}

/// Makes every character visible: `␛` for a control character, `<U+200B>` for another one that does
/// not show. `own` decides first.
fn visible(text: &str, own: impl Fn(char) -> Option<char>) -> Cow<'_, str> {
    if !text.contains(|character: char| character.is_control() || is_hidden(character)) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    let mut before = ' ';
    let mut rest = text.chars().peekable();
    while let Some(character) = rest.next() {
        match (own(character), character) {
            (Some(own), _) => shown.push(own),
            // Unicode has a picture of each.
            (_, '\0'..'\u{20}') => shown.extend(char::from_u32(0x2400 + u32::from(character))),
            (_, '\u{7f}') => shown.push('␡'),
            _ if joins(before, character, rest.peek().copied()) => shown.push(character),
            _ if character.is_control() || is_hidden(character) => {
                _ = write!(shown, "<U+{:04X}>", u32::from(character));
            }
            _ => shown.push(character),
        }
        before = character;
    }
    Cow::Owned(shown)
}

/// Whether a character takes no visible place, or changes the direction of the rest of the line,
/// figures included (Unicode's `Default_Ignorable_Code_Point`, annex 9, and blanks that are no
/// white space).
fn is_hidden(character: char) -> bool {
    !character.is_ascii()
        && matches!(
            character,
            '\u{ad}'
                | '\u{34f}'
                | '\u{61c}'
                | '\u{115f}'
                | '\u{1160}'
                | '\u{17b4}'
                | '\u{17b5}'
                | '\u{180b}'..='\u{180f}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{2800}'
                | '\u{3164}'
                | '\u{fe00}'..='\u{fe0f}'
                | '\u{feff}'
                | '\u{ffa0}'
                | '\u{fff0}'..='\u{fffb}'
                | '\u{fffe}'
                | '\u{ffff}'
                | '\u{1bca0}'..='\u{1bca3}'
                | '\u{1d173}'..='\u{1d17a}'
                | '\u{e0000}'..='\u{e0fff}'
        )
}

/// Whether a character that does not show has its usual work here: it joins the characters of an
/// emoji or of a word, or selects a form of the one before it.
fn joins(before: char, character: char, after: Option<char>) -> bool {
    let is_seen = |character: char| !character.is_ascii() && !character.is_whitespace();
    let is_plain = |character: char| is_seen(character) && !is_hidden(character);
    match character {
        '\u{200c}' | '\u{200d}' => {
            let is_after = is_plain(before) || matches!(before, '\u{fe00}'..='\u{fe0f}');
            is_after && after.is_some_and(is_plain)
        }
        // The two characters of `1️⃣` behind its digit.
        '\u{fe0f}' if after == Some('\u{20e3}') => true,
        // Symbols and ideographs have several forms; letters of a few bytes have one.
        '\u{fe00}'..='\u{fe0f}' => is_plain(before) && before >= '\u{203c}',
        _ => false,
    }
}

/// The widest label that is shown. More would not help, and a comment has limited room.
const MOST_OF_LABEL: usize = 120;
/// The widest message.
const MOST_OF_MESSAGE: usize = 300;

/// Returns a label as it was written, as far as it can be shown.
pub fn label(text: &str) -> String {
    cut(&whole(text), MOST_OF_LABEL).into_owned()
}

/// Returns a message about a file, which may quote all that is in it.
pub fn message(text: &str) -> String {
    cut(&one_line(text), MOST_OF_MESSAGE).into_owned()
}

/// Like [`label`], but of any width. A label that is empty, or that begins or ends with a blank, is
/// put in quotes.
pub fn whole(text: &str) -> Cow<'_, str> {
    let line = one_line(text);
    if line.is_empty() || line.trim() != line { Cow::Owned(format!("\"{line}\"")) } else { line }
}

/// Returns the columns that a text takes on a terminal.
pub fn width(text: &str) -> usize {
    text.width()
}

/// Returns the text with blanks after it, as wide as this many columns.
pub fn padded(text: &str, columns: usize) -> String {
    format!("{text}{}", " ".repeat(columns.saturating_sub(width(text))))
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
        assert_eq!(one_line("a\nb\tc\u{1b}[31m\u{7f}\u{9b}"), "a↵b c␛[31m␡<U+009B>");
        assert_eq!(
            one_line("a\u{202e}b\u{2066}c\u{2028}d"),
            "a<U+202E>b<U+2066>c↵d",
            "figures behind it keep their direction"
        );
        assert_eq!(lines("a\r\nb\rc\td\u{1b}"), "a\nb␍c\td␛");
    }

    #[test]
    fn what_does_not_show_is_made_visible() {
        let shown =
            ["done\u{200b}", "\u{feff}", "\u{2800}", "a\u{200d}b", "\u{e0041}", "é\u{fe0f}"].map(label);
        assert_eq!(shown, ["done<U+200B>", "<U+FEFF>", "<U+2800>", "a<U+200D>b", "<U+E0041>", "é<U+FE0F>"]);
        // A family, a heart, a keycap, and a Persian word.
        for usual in [
            "\u{1f468}\u{200d}\u{1f469}\u{200d}\u{1f467}",
            "❤\u{fe0f}\u{200d}\u{1f525}",
            "1\u{fe0f}\u{20e3}",
            "می\u{200c}خواهم",
        ] {
            assert_eq!(label(usual), usual);
        }
    }

    #[test]
    fn a_very_long_label_is_cut_where_it_is_read_and_stays_itself() {
        let usual = "é".repeat(MOST_BYTES / 2);
        assert_eq!(bounded(&usual), usual);
        let long = |end: &str| format!("{}{end}", "é".repeat(5_000_000));
        let [one, two] = ["one", "two"].map(|end| bounded(&long(end)).into_owned());
        assert!(one.len() <= MOST_BYTES && one.len() > MOST_BYTES - 4, "{}", one.len());
        assert!(one.contains("é… (10,000,003 bytes, blake3 "), "{}", &one[MOST_BYTES - 60..]);
        assert_ne!(one, two);
        assert_ne!(label(&one), label(&two), "even where it is cut again");
    }

    #[test]
    fn labels_that_cannot_be_seen_or_are_very_long_can_be_told_apart() {
        assert_eq!([label(""), label("  "), label(" a")], ["\"\"", "\"  \"", "\" a\""]);
        let long = label("layer ".repeat(1_000).trim_end());
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
