//! The errors of a failed build as the terminal shows them: indented, and not more than a screen.

use memprof_support::counted::counted;

/// How many lines a failure takes, together with its headline, which names the log.
const MOST_LINES: usize = 30;

/// How many lines of errors are shown even if there are many hints.
const FEWEST_ERRORS: usize = 8;

/// Returns the first errors and the hints, below the headline.
pub fn quoted(first_errors: &str, hints: &[String]) -> Vec<String> {
    let hint = |hint: &String| format!("  help: {}", hint.replace('\n', "\n        "));
    let mut helps: Vec<String> = hints.iter().flat_map(|one| lines(&hint(one))).collect();
    let errors: Vec<String> =
        first_errors.trim_end().lines().skip_while(|line| line.trim().is_empty()).map(indented).collect();
    // One line each for the headline and for how much is left out.
    helps.truncate(MOST_LINES - 2 - FEWEST_ERRORS);
    let room = MOST_LINES - 1 - helps.len();
    let mut shown = errors;
    if shown.len() > room {
        let left = shown.split_off(room - 1).len();
        shown.push(indented(&format!("… {} in the log", counted(left, "more line"))));
    }
    let parts = [shown, helps].into_iter().filter(|part| !part.is_empty());
    parts.map(|part| part.join("\n")).collect()
}

fn lines(text: &str) -> Vec<String> {
    text.lines().map(str::to_owned).collect()
}

fn indented(line: &str) -> String {
    format!("    {line}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_takes_no_more_than_thirty_lines_with_its_headline() {
        for (errors, hints) in [(100, 0), (100, 2), (100, 40), (29, 0), (30, 0), (3, 40)] {
            let errors: Vec<String> = (0..errors).map(|line| format!("error {line}")).collect();
            let hints: Vec<String> = (0..hints).map(|hint| format!("hint {hint}\nand more")).collect();
            let text = quoted(&errors.join("\n"), &hints).join("\n");
            assert!(text.lines().count() < MOST_LINES, "{text}");
            assert!(text.starts_with("    error 0\n    error 1\n"), "{text}");
            assert_eq!(text.contains(" more line"), errors.len() > 29, "{text}");
            assert_eq!(text.contains("  help: hint 0\n        and more"), !hints.is_empty(), "{text}");
        }
        assert!(quoted(" \n", &[]).is_empty());
    }
}
