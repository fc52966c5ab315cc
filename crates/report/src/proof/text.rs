//! A proof on a terminal.

use std::io::{self, Write};

use crate::options::Options;
use crate::page::{Page, Tone, tone_of};
use crate::proof::lines::{ProofLine, foot, headline, lines, no_difference};
use memprof_run::bisect::parts::proof::ProofReport;
use memprof_support::labels::{one_line, width};

/// Writes the report.
pub(super) fn render(report: &ProofReport, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    let page = Page::new(options);
    writeln!(out, "{}\n", page.paint.apply(&one_line(&headline(report)), Tone::Heading))?;
    match no_difference(report) {
        Some(answer) => say(page, &answer, "", Tone::Plain, out)?,
        None => table(report, page, "   ", out)?,
    }
    writeln!(out)?;
    foot(report).iter().try_for_each(|line| say(page, line, "", Tone::Quiet, out))?;
    report.replay.iter().try_for_each(|replay| writeln!(out, "{}: {}", replay.shows, one_line(&replay.line)))
}

/// Writes the proof below the causes of a comparison.
pub(crate) fn section(report: &ProofReport, page: Page, out: &mut dyn Write) -> io::Result<()> {
    let title = format!("proven: {}", headline(report));
    say(page, &title, " ", Tone::Heading, out)?;
    match no_difference(report) {
        Some(answer) => say(page, &answer, "     ", Tone::Plain, out)?,
        None => table(report, page, "     ", out)?,
    }
    foot(report).iter().try_for_each(|line| say(page, line, "     ", Tone::Quiet, out))?;
    writeln!(out)
}

/// Writes the lines, each of which begins with `indent`.
fn table(report: &ProofReport, page: Page, indent: &str, out: &mut dyn Write) -> io::Result<()> {
    let lines = lines(report);
    let widest =
        |of: fn(&ProofLine) -> &str| lines.iter().map(|line| width(&one_line(of(line)))).max().unwrap_or(0);
    let [figures, places, whats] =
        [widest(|line| &line.figure), widest(|line| &line.place), widest(|line| &line.what)];
    for line in &lines {
        let figure = format!("{}{}", " ".repeat(figures.saturating_sub(width(&line.figure))), line.figure);
        let what = if whats == 0 { String::new() } else { format!("  {}", padded(&line.what, whats)) };
        let begin = format!("{indent}{figure}  {}", padded(&line.place, places));
        let is_narrow = page.is_terminal() && width((begin.clone() + &what).trim_end()) > page.width();
        // What does not fit stands before the note.
        let (begin, note) = match (is_narrow, line.what.is_empty()) {
            (false, _) => (begin + &what, line.note.clone()),
            (true, true) => (begin, line.note.clone()),
            (true, false) => (begin, format!("{}; {}", line.what, line.note)),
        };
        let tone = if line.kind == "rest" { Tone::Quiet } else { tone_of(line.difference) };
        let paint = |text: &str| page.paint.apply(text, tone);
        let note = one_line(&note);
        let below = format!("{indent}{}  ", " ".repeat(figures));
        // A narrow terminal gets the note on a line of its own.
        if page.is_terminal() && width(&begin) + 2 + width(&note) > page.width() {
            writeln!(out, "{}", paint(begin.trim_end()))?;
            say(page, &note, &below, Tone::Plain, out)?;
        } else {
            writeln!(out, "{}  {note}", paint(&begin))?;
        }
        line.below.iter().try_for_each(|place| say(page, place, &below, Tone::Quiet, out))?;
    }
    Ok(())
}

/// Writes a text, in several lines on a terminal that is narrower.
fn say(page: Page, text: &str, indent: &str, tone: Tone, out: &mut dyn Write) -> io::Result<()> {
    if page.is_terminal() {
        return page.line(text, indent, tone, out);
    }
    writeln!(out, "{indent}{}", page.paint.apply(&one_line(text), tone))
}

fn padded(text: &str, room: usize) -> String {
    let text = one_line(text);
    format!("{text}{}", " ".repeat(room.saturating_sub(width(&text))))
}
