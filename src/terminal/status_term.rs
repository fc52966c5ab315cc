//! The terminal of the status line. The line ends before the last columns, so that the `^C` that a terminal
//! echoes stays on it and is removed with it.

use std::fmt::Debug;
use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};

use indicatif::TermLike;

/// The room for what the terminal echoes: two times `^C`.
const ECHO: usize = 4;

/// The width if the terminal's is unknown.
const WIDTH: usize = 80;

/// Standard error, written when a whole frame is there.
#[derive(Debug)]
pub struct StatusTerm {
    frame: Mutex<Vec<u8>>,
    /// Returns the terminal's width.
    columns: fn() -> Option<usize>,
}

impl StatusTerm {
    /// A terminal that asks for its width each time, because a user may change it.
    pub fn new(columns: fn() -> Option<usize>) -> Self {
        Self { frame: Mutex::default(), columns }
    }

    fn push(&self, text: &str) {
        self.frame.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(text.as_bytes());
    }

    fn moved(&self, count: usize, direction: char) {
        if count > 0 {
            self.push(&format!("\x1b[{count}{direction}"));
        }
    }
}

impl TermLike for StatusTerm {
    fn width(&self) -> u16 {
        let width = (self.columns)().unwrap_or(WIDTH).saturating_sub(ECHO).max(1);
        u16::try_from(width).unwrap_or(u16::MAX)
    }

    fn move_cursor_up(&self, n: usize) -> io::Result<()> {
        self.moved(n, 'A');
        Ok(())
    }

    fn move_cursor_down(&self, n: usize) -> io::Result<()> {
        self.moved(n, 'B');
        Ok(())
    }

    fn move_cursor_right(&self, n: usize) -> io::Result<()> {
        self.moved(n, 'C');
        Ok(())
    }

    fn move_cursor_left(&self, n: usize) -> io::Result<()> {
        self.moved(n, 'D');
        Ok(())
    }

    fn write_line(&self, text: &str) -> io::Result<()> {
        self.push(text);
        self.push("\n");
        Ok(())
    }

    fn write_str(&self, text: &str) -> io::Result<()> {
        self.push(text);
        Ok(())
    }

    fn clear_line(&self) -> io::Result<()> {
        self.push("\r\x1b[2K");
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        let frame = std::mem::take(&mut *self.frame.lock().unwrap_or_else(PoisonError::into_inner));
        let mut stderr = io::stderr().lock();
        stderr.write_all(&frame)?;
        stderr.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_line_ends_before_what_the_terminal_echoes() {
        let widths = [(|| Some(100)) as fn() -> Option<usize>, || None, || Some(2)];
        assert_eq!(widths.map(|columns| StatusTerm::new(columns).width()), [96, 76, 1]);
    }

    #[test]
    fn a_frame_is_written_as_a_terminal_reads_it() {
        let term = StatusTerm::new(|| None);
        let drawn =
            term.clear_line().and_then(|()| term.move_cursor_up(2)).and_then(|()| term.write_line("a"));
        drawn.and_then(|()| term.move_cursor_left(0)).expect("a frame is kept in memory");
        let frame = term.frame.lock().expect("no other thread draws");
        assert_eq!(String::from_utf8_lossy(&frame), "\r\x1b[2K\x1b[2Aa\n");
    }
}
