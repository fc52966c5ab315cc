//! `doctor`'s findings as text: a line for each, its help below it. Pure.

use std::fmt::Write as _;

use owo_colors::{OwoColorize, Style};

use crate::doctor::diagnosis::{Diagnosis, Standing};

/// The widest name that the texts line up behind.
const NAME_WIDTH: usize = 17;
/// Where the texts begin.
const INDENT: usize = NAME_WIDTH + 6;
/// How long a line of them may be.
const TEXT_WIDTH: usize = 96;

/// For people: a line a finding, its help below it.
pub fn render(diagnosis: &Diagnosis, colored: bool) -> String {
    let mut text = format!("cargo-memprof {} on {}\n", diagnosis.tool, diagnosis.platform);
    for section in &diagnosis.sections {
        _ = write!(text, "\n{}\n", styled(section.title, Style::new().bold(), colored));
        for finding in &section.findings {
            let (mark, style) = match finding.standing {
                Standing::Good => ("✓", Style::new().green()),
                Standing::Limited => ("!", Style::new().yellow()),
                Standing::Absent => ("–", Style::new().dimmed()),
                Standing::Broken => ("✗", Style::new().red().bold()),
            };
            let mark = styled(mark, style, colored);
            let mut lines = wrapped(&finding.text);
            _ = writeln!(text, "  {mark} {:<NAME_WIDTH$}  {}", finding.name, lines.remove(0));
            let help = finding.help.iter().flat_map(|help| wrapped(&format!("help: {help}")));
            for line in lines.into_iter().chain(help) {
                _ = writeln!(text, "{:INDENT$}{line}", "");
            }
        }
    }
    if diagnosis.is_broken() {
        text.push_str("\nNothing can be compared here until what is marked ✗ is mended.\n");
    }
    text
}

/// Lines of a readable length; a word that is longer, such as a path, stays whole.
fn wrapped(text: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().expect("there is one");
        if !line.is_empty() && line.len() + 1 + word.len() > TEXT_WIDTH {
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
