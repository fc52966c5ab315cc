//! The console: progress and errors on standard error, data on standard output. Nothing else in the
//! program prints.

use std::io::{self, IsTerminal, Write};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use anstream::{AutoStream, ColorChoice};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use owo_colors::{OwoColorize, Style};

use crate::arguments::terminal::{Color, TerminalArguments};
use crate::terminal::failure::explain;
use crate::terminal::filtered::filtered;
use crate::terminal::lines::{Line, StatusLine, Update, VERB_WIDTH};
use crate::terminal::progress::{Medium, Progress, Verbosity};
use crate::terminal::status_term::StatusTerm;
use crate::terminal::workflow::for_log;
use memprof_support::continuation;
use memprof_support::elapsed::shown;
use memprof_support::event::{Event, Sink};
use memprof_support::exit_code::ExitCode;
use memprof_support::labels::{self, cut, width};
use memprof_support::redaction;
use memprof_support::user_error::UserError;
use memprof_support::workflow_commands::Notation;
use memprof_support::wrapped;

/// Draws progress, and prints errors and data.
pub struct Console {
    canvas: Canvas,
    colored_output: bool,
}

/// Where progress is drawn. The thread that watches the time has a copy.
#[derive(Clone)]
struct Canvas {
    colored: bool,
    bar: Option<ProgressBar>,
    drawn: Arc<Mutex<Drawn>>,
}

struct Drawn {
    progress: Progress,
    writer: Box<dyn Write + Send>,
}

impl Console {
    /// A console on the process's own streams.
    pub fn new(arguments: &TerminalArguments) -> Self {
        let choice = match arguments.color {
            Color::Auto => ColorChoice::Auto,
            Color::Always => ColorChoice::AlwaysAnsi,
            Color::Never => ColorChoice::Never,
        };
        // Other writers in this process, such as clap's error messages, use the same choice.
        choice.write_global();
        let verbosity = match (arguments.quiet, arguments.verbose) {
            (true, _) => Verbosity::Quiet,
            (false, 0) => Verbosity::Normal,
            (false, _) => Verbosity::Verbose,
        };
        // A terminal that cannot move its cursor (`TERM=dumb`) gets plain lines, like a file.
        let moves = io::stderr().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb");
        let bar = (moves && verbosity > Verbosity::Quiet).then(|| {
            let term = Box::new(StatusTerm::new(width_of_terminal));
            ProgressBar::with_draw_target(None, ProgressDrawTarget::term_like_with_hz(term, 10))
        });
        let mut console = Self::on(
            Box::new(io::stderr()),
            AutoStream::choice(&io::stderr()) != ColorChoice::Never,
            verbosity,
            bar,
        );
        console.colored_output = AutoStream::choice(&io::stdout()) != ColorChoice::Never;
        console
    }

    /// A console on any writer. With a bar, it behaves as on a terminal.
    pub fn on(
        writer: Box<dyn Write + Send>,
        colored: bool,
        verbosity: Verbosity,
        bar: Option<ProgressBar>,
    ) -> Self {
        if let Some(bar) = &bar {
            bar.set_style(status_style());
            // Hidden until there is something to show.
            bar.finish_and_clear();
        }
        let medium = if bar.is_some() { Medium::Terminal } else { Medium::Plain };
        let drawn = Arc::new(Mutex::new(Drawn { progress: Progress::new(verbosity, medium), writer }));
        let canvas = Canvas { colored, bar, drawn };
        canvas.watch_time();
        Self { canvas, colored_output: false }
    }

    /// Returns whether the report on standard output may have colours.
    pub fn colors_output(&self) -> bool {
        self.colored_output
    }

    /// Removes the status line and prints what is pending. Call it before printing a report.
    pub fn finish(&self) {
        self.canvas.update(Progress::finish);
    }

    /// Writes text to standard output. A closed pipe is not an error, as in `… | head`.
    pub fn print(&self, text: &str) -> io::Result<()> {
        self.print_as(Notation::Text, text)
    }

    /// Like [`Self::print`], for data of this notation.
    pub fn print_as(&self, notation: Notation, text: &str) -> io::Result<()> {
        self.print_streamed(notation, &|out| out.write_all(text.as_bytes()))
    }

    /// Writes data to standard output while it is produced. A closed pipe is not an error.
    pub fn print_streamed(
        &self,
        notation: Notation,
        produce: &dyn Fn(&mut dyn Write) -> io::Result<()>,
    ) -> io::Result<()> {
        self.finish();
        let mut stdout = io::BufWriter::with_capacity(1 << 16, io::stdout().lock());
        match filtered(&mut stdout, Some(notation), produce).and_then(|()| stdout.flush()) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            result => result,
        }
    }

    /// Writes a line for a CI runner to standard error, because standard output belongs to the
    /// report.
    pub fn command(&self, line: &str) {
        self.finish();
        // If nobody reads standard error, nothing is lost.
        _ = writeln!(io::stderr().lock(), "{}", redaction::text(line));
    }

    /// Prints an error and returns the code to exit with.
    pub fn fail(&self, error: &anyhow::Error) -> ExitCode {
        let (user_error, code) = explain(error, false, None);
        self.show_error(&user_error);
        code
    }

    /// Does the same after the user may have pressed Ctrl-C.
    pub fn end(&self, error: &anyhow::Error, is_interrupted: bool) -> ExitCode {
        let running = self.canvas.running().filter(|_| is_interrupted);
        let (mut user_error, code) = explain(error, is_interrupted, continuation::command());
        if let Some(running) = running {
            user_error.message = format!("{} ({running})", user_error.message);
        }
        self.show_error(&user_error);
        code
    }

    /// Prints an error.
    pub fn show_error(&self, error: &UserError) {
        self.finish();
        let text = self.canvas.wrapped(&labels::lines(&error.rendered()), "error: ".len());
        self.canvas.write_line(&self.canvas.labelled(&text));
    }
}

impl Canvas {
    fn update(&self, change: impl FnOnce(&mut Progress) -> Update) {
        let mut drawn = self.drawn.lock().unwrap_or_else(PoisonError::into_inner);
        let update = change(&mut drawn.progress);
        for line in &update.lines {
            let text = self.colored_line(line);
            self.write(&mut drawn, &text);
        }
        if let Some(bar) = &self.bar {
            match update.status {
                StatusLine::Keep => {}
                StatusLine::Clear => {
                    bar.disable_steady_tick();
                    bar.finish_and_clear();
                }
                StatusLine::Show { verb, text, details, restart } => {
                    if bar.is_finished() {
                        bar.reset();
                    } else if restart {
                        bar.reset_elapsed();
                    }
                    bar.set_prefix(self.verb(verb, true));
                    let room = width_of_terminal()
                        .map_or(usize::MAX, |width| width.saturating_sub(VERB_WIDTH + 1 + CLOCK).max(10));
                    bar.set_message(fitting(&labels::one_line(&redaction::text(&text)), &details, room));
                    // The clock keeps ticking while cargo or a test works and no event arrives.
                    bar.enable_steady_tick(Duration::from_millis(100));
                }
            }
        }
    }

    /// Returns the test that is running.
    fn running(&self) -> Option<String> {
        let drawn = self.drawn.lock().unwrap_or_else(PoisonError::into_inner);
        drawn.progress.running()
    }

    /// Draws what is due because time has passed, each second, as long as the console exists.
    fn watch_time(&self) {
        let (drawn, colored, bar) = (Arc::downgrade(&self.drawn), self.colored, self.bar.clone());
        // Without this thread, only the lines about long work are missing.
        _ = thread::Builder::new().name("progress".to_owned()).spawn(move || {
            loop {
                thread::sleep(Duration::from_secs(1));
                let Some(drawn) = Weak::upgrade(&drawn) else { return };
                let canvas = Self { colored, bar: bar.clone(), drawn };
                canvas.update(|progress| progress.on_tick(Instant::now()));
            }
        });
    }

    fn write_line(&self, text: &str) {
        let mut drawn = self.drawn.lock().unwrap_or_else(PoisonError::into_inner);
        self.write(&mut drawn, text);
    }

    /// Errors are ignored: there is no other place to report them.
    fn write(&self, drawn: &mut Drawn, text: &str) {
        let redacted = redaction::text(text);
        let text = for_log(Notation::Text, &redacted);
        let mut write = || {
            let _ = writeln!(drawn.writer, "{text}").and_then(|()| drawn.writer.flush());
        };
        match &self.bar {
            Some(bar) => bar.suspend(write),
            None => write(),
        }
    }

    /// Names and quotes may come from a test or a compiler, so everything in them is made visible.
    fn colored_line(&self, line: &Line) -> String {
        match line {
            Line::Stage { verb, text, good } => {
                let text = labels::one_line(text);
                let indented = self.wrapped(&format!("{:VERB_WIDTH$} {text}", ""), 0);
                format!("{} {}", self.verb(verb, *good), &indented[VERB_WIDTH + 1..])
            }
            Line::Warning { .. } => {
                self.labelled(&self.wrapped(&labels::lines(&line.plain()), "error: ".len()))
            }
            Line::Quote(text) if text.starts_with("  help: ") => {
                self.labelled(&self.wrapped(&labels::lines(text), "help: ".len()))
            }
            // Compilers and tests have laid it out.
            Line::Quote(_) => self.labelled(&labels::lines(&line.plain())),
        }
    }

    /// Breaks lines between words, where a terminal would break them anywhere.
    fn wrapped(&self, text: &str, indent: usize) -> String {
        match self.bar.as_ref().and_then(|_| width_of_terminal()) {
            Some(columns) => wrapped::lines(text, columns, indent),
            None => text.to_owned(),
        }
    }

    fn verb(&self, verb: &str, good: bool) -> String {
        let style = if good { Style::new().green().bold() } else { Style::new().red().bold() };
        // Pad first, because a width would count the escape codes.
        self.styled(&format!("{verb:>VERB_WIDTH$}"), style)
    }

    fn styled(&self, text: &str, style: Style) -> String {
        if self.colored { text.style(style).to_string() } else { text.to_owned() }
    }

    /// Colours the label at the start of each line: `error:`, `warning:`, `help:`.
    fn labelled(&self, text: &str) -> String {
        let styles = [
            ("error:", Style::new().red().bold()),
            ("warning:", Style::new().yellow().bold()),
            ("help:", Style::new().cyan().bold()),
        ];
        let line = |line: &str| {
            let begin = line.len() - line.trim_start().len();
            for (label, style) in styles {
                if let Some(rest) = line[begin..].strip_prefix(label) {
                    return format!("{}{}{rest}", &line[..begin], self.styled(label, style));
                }
            }
            line.to_owned()
        };
        text.lines().map(line).collect::<Vec<_>>().join("\n")
    }
}

/// The room for the clock at the end of the status line.
const CLOCK: usize = 12;

/// Returns the width of the terminal.
pub(super) fn width_of_terminal() -> Option<usize> {
    terminal_size::terminal_size_of(io::stderr()).map(|(width, _)| usize::from(width.0))
}

/// Returns a text for the status line in this room, so that it never wraps beside its verb and its
/// clock: first the text, and then the details as far as there is room.
fn fitting(text: &str, details: &[String], room: usize) -> String {
    let mut shown = cut(text, room).into_owned();
    for (index, detail) in details.iter().enumerate() {
        let detail = format!("{}{detail}", if index == 0 { " " } else { " · " });
        if width(&shown) + width(&detail) > room {
            break;
        }
        shown.push_str(&detail);
    }
    shown
}

/// The style of the status line: the verb, the text, and the time since the stage began.
fn status_style() -> ProgressStyle {
    let time = |state: &ProgressState, writer: &mut dyn std::fmt::Write| {
        let _ = write!(writer, " … {}", shown(state.elapsed()));
    };
    match ProgressStyle::with_template("{prefix} {msg}{time}") {
        Ok(style) => style.with_key("time", time),
        Err(_) => ProgressStyle::default_spinner(),
    }
}

impl Sink for Console {
    fn emit(&self, event: Event) {
        self.canvas.update(|progress| progress.on_event(&event));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use indicatif::{InMemoryTerm, TermLike};

    use super::*;
    use crate::terminal::progress::tests::story;

    /// The written bytes, shared with the console that writes them.
    #[derive(Clone, Default)]
    struct Captured(Arc<Mutex<Vec<u8>>>);

    impl Captured {
        fn text(&self) -> String {
            String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
        }
    }

    impl Write for Captured {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// A terminal in memory, which stands for standard error.
    struct OnTerminal(InMemoryTerm);

    impl Write for OnTerminal {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.write_str(&String::from_utf8_lossy(bytes).replace('\n', "\r\n"))?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn plain(colored: bool) -> (Console, Captured) {
        let captured = Captured::default();
        (Console::on(Box::new(captured.clone()), colored, Verbosity::Normal, None), captured)
    }

    #[test]
    fn the_status_line_shows_the_test_first_and_its_details_as_far_as_they_fit() {
        let details = ["3/12".to_owned(), "about 15.3 s left".to_owned()];
        let shown = |room| fitting("keeps_all_tokens at main", &details, room);
        assert_eq!(shown(60), "keeps_all_tokens at main 3/12 · about 15.3 s left");
        assert_eq!(shown(40), "keeps_all_tokens at main 3/12");
        assert_eq!(shown(26), "keeps_all_tokens at main");
        assert_eq!(shown(16), "keeps_all_… main");
    }

    #[test]
    fn a_file_gets_plain_lines_and_no_escape_codes() {
        let (console, captured) = plain(false);
        for event in story() {
            console.emit(event);
        }
        console.finish();
        let text = captured.text();
        assert!(!text.contains('\u{1b}'), "{text}");
        assert!(
            text.starts_with(
                "warning: neither has a Cargo.lock\n  help: commit one\n   Resolving main 4f1c2aa"
            ),
            "{text}"
        );
        assert!(text.contains("\n       Built main 4f1c2aa … 38.2 s\n"), "{text}");
    }

    #[test]
    fn colour_changes_nothing_but_escape_codes() {
        let (without, with) = (plain(false), plain(true));
        for event in story() {
            without.0.emit(event.clone());
            with.0.emit(event);
        }
        let colored = with.1.text();
        assert!(
            colored.contains("\u{1b}[1;32m   Resolving\u{1b}[0m main")
                || colored.contains("\u{1b}[32;1m   Resolving\u{1b}[0m main"),
            "{colored:?}"
        );
        assert_eq!(anstream::adapter::strip_str(&colored).to_string(), without.1.text());
    }

    #[test]
    fn on_a_terminal_the_status_line_leaves_nothing_behind() {
        let screen = InMemoryTerm::new(24, 100);
        let bar =
            ProgressBar::with_draw_target(None, ProgressDrawTarget::term_like(Box::new(screen.clone())));
        let console = Console::on(Box::new(OnTerminal(screen.clone())), false, Verbosity::Normal, Some(bar));
        let mut story = story().into_iter();
        for event in story.by_ref().take(8) {
            console.emit(event);
        }
        assert!(
            screen.contents().contains("    Building main · 1 crate · serde … "),
            "{}",
            screen.contents()
        );
        for event in story {
            console.emit(event);
        }
        console.finish();
        insta::assert_snapshot!(screen.contents());
    }
}
