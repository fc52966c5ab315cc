//! The end of a log. If its process did not close it, zero bytes are left behind the last line, because the
//! shim maps the log ahead of what it writes.

use std::fs::OpenOptions;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;

use camino::Utf8Path;
use serde::Deserialize;

use memprof_judge::results::log_file::MOST_OF_LOG;
use memprof_support::regular_file;

/// Cuts zero bytes off the end of a log. What is behind them was not written by the shim: the log then
/// stays as it is, and is refused. So is a log of more bytes than are read.
pub(crate) fn cut(log: &Utf8Path) -> io::Result<()> {
    // A process that did not get far leaves no log. Others report what the test did to it.
    let Ok(mut file) = regular_file::open(log) else { return Ok(()) };
    let length = file.metadata()?.len();
    let mut last = [1];
    if (1..=MOST_OF_LOG).contains(&length) {
        file.seek(SeekFrom::Start(length - 1))?;
        file.read_exact(&mut last)?;
    }
    if last != [0] {
        return Ok(());
    }
    file.rewind()?;
    if let Some(end) = end_of_lines(BufReader::with_capacity(1 << 18, file))? {
        OpenOptions::new().write(true).custom_flags(libc::O_NOFOLLOW).open(log)?.set_len(end)?;
    }
    Ok(())
}

/// More bytes than the last two lines of a log have.
const LAST_LINES: u64 = 1 << 12;

/// Returns how many threads allocated in a finished run. `None` if its log does not say.
pub(crate) fn allocating_threads(log: &Utf8Path) -> Option<u64> {
    #[derive(Deserialize)]
    struct Line {
        event: String,
        threads: Option<u64>,
    }
    let mut file = regular_file::open(log).ok()?;
    let length = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(LAST_LINES))).ok()?;
    let mut end = Vec::new();
    file.take(LAST_LINES).read_to_end(&mut end).ok()?;
    let mut lines =
        end.rsplit(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice::<Line>(line).ok());
    lines.find(|line| line.event == "causes")?.threads
}

/// Returns where the zero bytes begin, if nothing else follows them.
fn end_of_lines(mut log: impl BufRead) -> io::Result<Option<u64>> {
    let mut end = 0;
    let mut is_over = false;
    loop {
        let bytes = log.fill_buf()?;
        if bytes.is_empty() {
            return Ok(Some(end));
        }
        let written = if is_over { 0 } else { memchr::memchr(0, bytes).unwrap_or(bytes.len()) };
        is_over |= written < bytes.len();
        if bytes[written..].iter().any(|byte| *byte != 0) {
            return Ok(None);
        }
        end += written as u64;
        let length = bytes.len();
        log.consume(length);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_say_how_many_threads_allocated() {
        let folder = tempfile::tempdir().unwrap();
        let log = Utf8Path::from_path(folder.path()).unwrap().join("log.jsonl");
        assert_eq!(allocating_threads(&log), None, "no log");
        let causes = |threads: &str| format!("{}\n{{\"event\":\"causes\"{threads}}}\n", "x".repeat(9000));
        for (content, expected) in [
            (causes(",\"threads\":3"), Some(3)),
            (causes(",\"threads\":1") + "{\"event\":\"end\"}\n", Some(1)),
            (causes(""), None),
            (String::new(), None),
            ("{\"event\":\"end\"}\n".to_owned(), None),
        ] {
            std::fs::write(&log, &content).unwrap();
            assert_eq!(allocating_threads(&log), expected, "{content}");
        }
    }

    fn cut_of(content: &[u8]) -> Vec<u8> {
        let folder = tempfile::tempdir().unwrap();
        let log = Utf8Path::from_path(folder.path()).unwrap().join("log.jsonl");
        fs_err::write(&log, content).unwrap();
        cut(&log).unwrap();
        fs_err::read(&log).unwrap()
    }

    #[test]
    fn zero_bytes_behind_the_last_line_are_cut_off() {
        assert_eq!(cut_of(b"{}\n{}\n\0\0\0"), b"{}\n{}\n");
        assert_eq!(cut_of(b"{}\n{\"torn\0\0"), b"{}\n{\"torn");
        assert_eq!(cut_of(&vec![0; 70_000]), b"");
        let long = [vec![b'x'; 300_000], vec![0; 300_000]].concat();
        assert_eq!(cut_of(&long).len(), 300_000);
    }

    #[test]
    fn a_log_beyond_the_limit_is_not_searched() {
        let folder = tempfile::tempdir().unwrap();
        let log = Utf8Path::from_path(folder.path()).unwrap().join("log.jsonl");
        fs_err::File::create(&log).unwrap().set_len(1 << 40).unwrap();
        cut(&log).unwrap();
        assert_eq!(fs_err::metadata(&log).unwrap().len(), 1 << 40);
    }

    #[test]
    fn a_log_stays_as_it_is_if_another_wrote_behind_the_zero_bytes() {
        for content in [&b"{}\n"[..], b"", b"{}\n\0\0{}\n", b"{}\n\0\0{}\n\0"] {
            assert_eq!(cut_of(content), content);
        }
        let missing = Utf8Path::new("/nonexistent/log.jsonl");
        cut(missing).unwrap();
    }
}
