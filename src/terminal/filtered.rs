//! Text that is checked on its way out: no secrets, and no commands for a CI runner.

use std::io::{self, Write};

use crate::terminal::workflow::for_log;
use memprof_support::redaction;
use memprof_support::workflow_commands::Notation;

/// The text is checked in pieces of whole lines of about this length.
const PIECE: usize = 4 << 20;

/// Produces a text, and writes it without secrets. With a notation, it goes to a log that a CI
/// runner may read, and no line of it is a command there.
pub fn filtered(
    out: &mut dyn Write,
    notation: Option<Notation>,
    produce: &dyn Fn(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    let mut filter = Filter { out, notation, piece: Vec::new(), whole: 0 };
    produce(&mut filter)?;
    let piece = std::mem::take(&mut filter.piece);
    filter.check(&piece)
}

/// Holds back what may belong to the next line.
struct Filter<'a> {
    out: &'a mut dyn Write,
    notation: Option<Notation>,
    piece: Vec<u8>,
    /// How many bytes of the piece are whole lines.
    whole: usize,
}

impl Filter<'_> {
    fn check(&mut self, piece: &[u8]) -> io::Result<()> {
        let redactor = redaction::of_process();
        let redacted = redactor.bytes(piece);
        match self.notation {
            Some(notation) => {
                self.out.write_all(for_log(notation, &String::from_utf8_lossy(&redacted)).as_bytes())
            }
            None => self.out.write_all(&redacted),
        }
    }
}

impl Write for Filter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // The rest of the piece was searched before: a line may be long, and its writes short.
        if let Some(newline) = memchr::memrchr(b'\n', bytes) {
            self.whole = self.piece.len() + newline + 1;
        }
        self.piece.extend_from_slice(bytes);
        if self.piece.len() >= PIECE && self.whole > 0 {
            let rest = self.piece.split_off(std::mem::take(&mut self.whole));
            let piece = std::mem::replace(&mut self.piece, rest);
            self.check(&piece)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_goes_out_in_pieces_and_whole() {
        let line = "a line of a report\n".repeat(1000);
        let mut out = Vec::new();
        filtered(&mut out, Some(Notation::Text), &|out| {
            (0..500).try_for_each(|_| out.write_all(line.as_bytes()))
        })
        .unwrap();
        assert!(out == line.repeat(500).as_bytes());
    }

    #[test]
    fn a_long_line_in_many_short_writes_is_searched_once() {
        let mut out = Vec::new();
        filtered(&mut out, None, &|out| {
            (0..2_000_000).try_for_each(|_| out.write_all(b"\"key\":1,"))?;
            out.write_all(b"\n")
        })
        .unwrap();
        assert_eq!(out.len(), 2_000_000 * 8 + 1);
    }

    #[test]
    fn what_is_produced_goes_out_before_its_end() {
        struct Counting(usize);
        impl Write for Counting {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                self.0 += bytes.len();
                Ok(bytes.len())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let mut out = Counting(0);
        let failed = filtered(&mut out, None, &|out| {
            (0..5000).try_for_each(|_| out.write_all(&[b"x".repeat(1023), vec![b'\n']].concat()))?;
            Err(io::Error::other("the end is never produced"))
        });
        assert!(failed.is_err() && out.0 >= PIECE, "{}", out.0);
    }
}
