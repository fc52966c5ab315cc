//! Renders `doctor`'s findings as text: one line for each, with its help below. Pure.

use std::fmt::Write as _;

use owo_colors::{OwoColorize, Style};

use crate::doctor::diagnosis::{Availability, Diagnosis};

/// The width of the column with names.
const NAME_WIDTH: usize = 17;
/// The column at which texts begin.
const INDENT: usize = NAME_WIDTH + 6;
/// The width of the page if the terminal is wider, or if there is no terminal.
const MOST_COLUMNS: usize = 119;
/// The minimum width of a text, on any terminal.
const LEAST_TEXT_WIDTH: usize = 40;

/// Renders the findings for people. `columns` is the width of the terminal, if there is one.
pub fn render(diagnosis: &Diagnosis, colored: bool, columns: Option<usize>) -> String {
    let columns = columns.unwrap_or(MOST_COLUMNS).min(MOST_COLUMNS);
    let width = columns.saturating_sub(INDENT).max(LEAST_TEXT_WIDTH);
    let mut text = format!("cargo-memprof {} on {}\n", diagnosis.tool, diagnosis.platform);
    for section in &diagnosis.sections {
        _ = write!(text, "\n{}\n", styled(section.title, Style::new().bold(), colored));
        for finding in &section.findings {
            let (mark, style) = match finding.availability {
                Availability::Good => ("✓", Style::new().green()),
                Availability::Limited => ("!", Style::new().yellow()),
                Availability::Absent => ("–", Style::new().dimmed()),
                Availability::Broken => ("✗", Style::new().red().bold()),
            };
            let mark = styled(mark, style, colored);
            let mut lines = wrapped(&finding.text, width);
            _ = writeln!(text, "  {mark} {:<NAME_WIDTH$}  {}", finding.name, lines.remove(0));
            let help = finding.help.iter().flat_map(|help| wrapped(&format!("help: {help}"), width));
            for line in lines.into_iter().chain(help) {
                _ = writeln!(text, "{:INDENT$}{line}", "");
            }
        }
    }
    if diagnosis.is_broken() {
        text.push_str("\nThis machine cannot compare anything until the items marked ✗ are fixed.\n");
    }
    text
}

/// Wraps a text at this width. A longer word, such as a path, stays whole.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().expect("there is always a line");
        if !line.is_empty() && line.len() + 1 + word.len() > width {
            lines.push(word.to_owned());
        } else {
            line.push_str(if line.is_empty() { "" } else { " " });
            line.push_str(word);
        }
    }
    lines
}

fn styled(text: &str, style: Style, colored: bool) -> String {
    if colored { text.style(style).to_string() } else { text.to_owned() }
}
