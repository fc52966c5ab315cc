//! Numbers of things for display: `1 line`, `12,034 lines`.

/// Returns a number with thousands separators: `12,034`, `-1,000`.
pub fn grouped(number: i128) -> String {
    let digits = number.unsigned_abs().to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3 + 1);
    if number < 0 {
        text.push('-');
    }
    for (index, digit) in digits.char_indices() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Returns a number and its noun, with an `s` unless the number is one.
pub fn counted(number: usize, noun: &str) -> String {
    let number_text = grouped(i128::try_from(number).unwrap_or(i128::MAX));
    format!("{number_text} {noun}{}", if number == 1 { "" } else { "s" })
}

/// Returns the first names, and how many more there are: `a, b, c and 12 more`.
pub fn some(names: &[impl AsRef<str>], most: usize) -> String {
    let shown = names.iter().take(most).map(AsRef::as_ref).collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(most) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// Returns a place in an order: `1st`, `2nd`, `3rd`, `4th`, `11th`.
pub fn ordinal(place: usize) -> String {
    let ending = match (place % 100, place % 10) {
        (11..=13, _) => "th",
        (_, 1) => "st",
        (_, 2) => "nd",
        (_, 3) => "rd",
        _ => "th",
    };
    format!("{place}{ending}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_separated() {
        let shown = [0, 999, 1000, -1000, 1_234_567].map(grouped);
        assert_eq!(shown, ["0", "999", "1,000", "-1,000", "1,234,567"]);
    }

    #[test]
    fn one_thing_is_singular() {
        assert_eq!(
            [counted(0, "row"), counted(1, "row"), counted(2000, "row")],
            ["0 rows", "1 row", "2,000 rows"]
        );
    }

    #[test]
    fn a_place_has_its_ending() {
        let shown = [1, 2, 3, 4, 11, 12, 13, 21, 22, 103, 111].map(ordinal);
        assert_eq!(shown.join(" "), "1st 2nd 3rd 4th 11th 12th 13th 21st 22nd 103rd 111th");
    }
}
