//! Redacts the secrets in a file that another program wrote, such as a test's output.

use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::ops::Range;

use anyhow::Context;
use camino::Utf8Path;

use crate::redaction::Redactor;
use crate::regular_file;
use crate::whole_file::WholeFile;

/// How much is read at once.
const CHUNK: usize = 4 << 20;

/// Secrets up to this length are found across the borders of chunks.
const OVERLAP: usize = 64 << 10;

/// Replaces the secrets in a file. A file without secrets stays as it is.
pub fn redact(path: &Utf8Path, redactor: &Redactor) -> anyhow::Result<()> {
    let mut is_changed = false;
    copy(opened(path)?, io::sink(), redactor, CHUNK, &mut is_changed)?;
    if !is_changed {
        return Ok(());
    }
    let file = WholeFile::create(path.as_std_path()).with_context(|| format!("cannot write {path}"))?;
    let mut output = BufWriter::new(file);
    copy(opened(path)?, &mut output, redactor, CHUNK, &mut is_changed)?;
    let file = output.into_inner().map_err(io::IntoInnerError::into_error)?;
    file.finish().with_context(|| format!("cannot write {path}"))
}

/// A test may have put a link or a pipe in the place of its output.
fn opened(path: &Utf8Path) -> anyhow::Result<File> {
    regular_file::open(path).with_context(|| format!("cannot read {path}"))
}

/// Copies the input with marks in place of secrets, chunk by chunk.
fn copy(
    mut input: impl Read,
    mut output: impl Write,
    redactor: &Redactor,
    chunk: usize,
    is_changed: &mut bool,
) -> io::Result<()> {
    // What was written stays in front for a while: `Authorization: Bearer` tells that a secret follows.
    let (mut window, mut written) = (Vec::new(), 0);
    loop {
        let before = window.len();
        let is_end = (&mut input).take(chunk as u64).read_to_end(&mut window)? < chunk;
        let mut secrets = redactor.secrets(&window);
        secrets.retain(|secret| secret.end > written);
        *is_changed |= !secrets.is_empty();
        // What comes next may complete a secret that begins near the end.
        let keep = if is_end { 0 } else { OVERLAP.min(chunk) };
        let mut cut = window.len().saturating_sub(keep).max(written);
        if let Some(across) = secrets.iter().find(|secret| secret.start < cut && secret.end > cut) {
            cut = across.start.max(written);
        }
        // A secret without an end must not fill the memory: what is known of it goes out.
        if cut == written && before > 4 * chunk {
            cut = window.len();
        }
        let within = |secret: &Range<usize>| secret.start.max(written) - written..secret.end - written;
        let done: Vec<_> = secrets.iter().filter(|secret| secret.end <= cut).map(within).collect();
        output.write_all(&redactor.replaced(&window[written..cut], &done))?;
        if is_end {
            return Ok(());
        }
        written = cut.min(keep);
        window.drain(..cut - written);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::salt::Salt;

    fn redactor() -> Redactor {
        let variables = [("API_TOKEN".to_owned(), "hunter2-hunter2".to_owned())];
        Redactor::new(Salt::random()).with_variables(variables)
    }

    #[test]
    fn a_secret_at_any_place_of_a_long_output_is_replaced() {
        let redactor = redactor();
        for place in [0, 90, 95, 99, 100, 101, 195, 250] {
            let mut text = "x".repeat(300);
            text.insert_str(place, "hunter2-hunter2");
            for chunk in [16, 100, 1000] {
                let (mut copied, mut is_changed) = (Vec::new(), false);
                copy(text.as_bytes(), &mut copied, &redactor, chunk, &mut is_changed).unwrap();
                assert_eq!(copied, redactor.bytes(text.as_bytes()).as_ref(), "{place} {chunk}");
                assert!(is_changed);
            }
        }
    }

    #[test]
    fn what_tells_that_a_secret_follows_is_found_across_the_borders_of_chunks() {
        let redactor = redactor();
        for tells in ["Authorization: Bearer abcdefghijklmnopqrst", "https://anna:correct-horse@example.org"]
        {
            for place in 0..=tells.len() + 100 {
                let text = format!("{}\n{tells} {}", "x".repeat(place), "y".repeat(200));
                let expected = redactor.bytes(text.as_bytes());
                assert_ne!(expected.as_ref(), text.as_bytes());
                for chunk in [60, 100] {
                    let (mut copied, mut is_changed) = (Vec::new(), false);
                    copy(text.as_bytes(), &mut copied, &redactor, chunk, &mut is_changed).unwrap();
                    assert_eq!(copied, expected.as_ref(), "{place} {chunk}");
                }
            }
        }
    }

    #[test]
    fn bytes_that_are_no_text_stay_and_a_file_without_secrets_is_not_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = Utf8Path::from_path(folder.path()).unwrap().join("stdout");
        fs_err::write(&path, b"\xff hunter2-hunter2 \xfe").unwrap();
        redact(&path, &redactor()).unwrap();
        let redacted = fs_err::read(&path).unwrap();
        assert!(redacted.starts_with(b"\xff [redacted, ") && redacted.ends_with(b"] \xfe"));
        let before = fs_err::metadata(&path).unwrap().modified().unwrap();
        redact(&path, &redactor()).unwrap();
        assert_eq!(fs_err::metadata(&path).unwrap().modified().unwrap(), before);
    }
}
