//! A text as a cell of a CSV file.

use std::borrow::Cow;

use memprof_support::labels;

/// Returns a text for a cell. Characters that do not show are replaced, and an apostrophe precedes
/// what a spreadsheet would compute. Numbers stay numbers. An apostrophe gets another one, so
/// whoever drops the first has the text again.
pub(crate) fn cell(text: &str) -> Cow<'_, str> {
    let shown = if text.contains('\t') {
        Cow::Owned(labels::one_line(&text.replace('\t', "␉")).into_owned())
    } else {
        labels::one_line(text)
    };
    let begins_formula = ['=', '+', '-', '@', '\'', '＝', '＋', '－', '＠'];
    if shown.trim_start().starts_with(begins_formula) && !is_number(&shown) {
        return Cow::Owned(format!("'{shown}"));
    }
    shown
}

fn is_number(text: &str) -> bool {
    let is_of_number = |byte: u8| byte.is_ascii_digit() || b"+-.eE".contains(&byte);
    text.bytes().all(is_of_number) && text.parse::<f64>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_a_spreadsheet_would_compute_gets_an_apostrophe_and_a_number_none() {
        let guarded =
            ["=1+1", "+cmd|'/c calc'!A1", "-a", "@SUM(A1)", "'quoted'", " =1", "－1", "-inf", "--5"];
        for text in guarded {
            assert_eq!(cell(text), format!("'{text}"));
        }
        for text in ["-5", "+2.5e3", "5", "done", "a=b", "layer-1", ""] {
            assert_eq!(cell(text), text);
        }
    }

    #[test]
    fn nothing_in_a_cell_acts_or_hides() {
        assert_eq!(cell("\t=1"), "␉=1");
        assert_eq!(cell("\r=1"), "␍=1");
        assert_eq!(cell("a\u{1b}[31m\n::error::\u{200b}"), "a␛[31m↵::error::<U+200B>");
    }
}
