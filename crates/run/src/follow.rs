//! What a test writes while it runs, handed on as it comes: its checkpoints, scopes and layers, and its
//! output.

use std::io::{Read, Seek, SeekFrom};
use std::time::SystemTime;

use camino::Utf8PathBuf;

use crate::write_order::WriteOrder;
use memprof_judge::results::live_line::LiveLine;
use memprof_judge::results::run_folder::file;
use memprof_support::event::{Event, Sink};
use memprof_support::regular_file;

/// What to show of a test while it runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Follow {
    /// A line for each checkpoint, scope and layer.
    pub checkpoints: bool,
    /// The test's output.
    pub output: bool,
}

/// How much of a file is read at a time, so that a test that writes without end can be stopped.
const PIECE: u64 = 1 << 20;

/// How many bytes of a file are shown while a test runs. The file has the rest.
const MOST_FOLLOWED: u64 = 512 << 20;

/// The followed files of one run.
pub(crate) struct Follower<'a> {
    sink: &'a dyn Sink,
    test: &'a str,
    name: &'a str,
    /// The outputs, if they are followed, and the log.
    files: Vec<FollowedFile>,
    /// When each of the outputs was written to, if the platform tells.
    order: Option<WriteOrder>,
}

struct FollowedFile {
    path: Utf8PathBuf,
    is_log: bool,
    /// How much was read.
    offset: u64,
    /// The beginning of a line that has no end yet.
    rest: Vec<u8>,
}

impl<'a> Follower<'a> {
    /// Follows a run in this folder. The files need not exist yet.
    pub fn new(
        follow: Follow,
        folder: &camino::Utf8Path,
        test: &'a str,
        name: &'a str,
        sink: &'a dyn Sink,
    ) -> Self {
        let outputs = [file::STDOUT, file::STDERR].map(|name| (name, false));
        let wanted = outputs.into_iter().filter(|_| follow.output);
        let wanted = wanted.chain(follow.checkpoints.then_some((file::LOG, true)));
        let files = wanted.map(|(name, is_log)| FollowedFile {
            path: folder.join(name),
            is_log,
            offset: 0,
            rest: Vec::new(),
        });
        let files: Vec<FollowedFile> = files.collect();
        let outputs: Vec<_> = files.iter().filter(|file| !file.is_log).map(|file| &*file.path).collect();
        let order = if outputs.is_empty() { None } else { WriteOrder::watch(&outputs) };
        Self { sink, test, name, files, order }
    }

    /// Hands on the whole lines that were written since the last look.
    pub fn look(&mut self) {
        if let Some(order) = self.order.take_if(|order| order.has_ended()) {
            self.hand_on(&order.finish());
        }
        let written = self.order.as_ref().map(WriteOrder::take);
        if let Some(written) = &written {
            self.hand_on(written);
        } else {
            self.sort();
        }
        for file in self.files.iter_mut().filter(|file| file.is_log || written.is_none()) {
            let lines = file.new_lines(u64::MAX);
            emit(self.sink, self.test, self.name, file.is_log, &lines);
        }
    }

    /// Hands on what was written to the outputs, in its order.
    fn hand_on(&mut self, written: &[(usize, u64)]) {
        for (number, until) in written {
            let file = &mut self.files[*number];
            let mut before = None;
            while before != Some(file.offset) {
                before = Some(file.offset);
                let lines = file.new_lines(*until);
                emit(self.sink, self.test, self.name, file.is_log, &lines);
            }
        }
    }

    /// Puts the output that was written last behind the other one. The log is mapped, so its time means
    /// nothing.
    fn sort(&mut self) {
        self.files.sort_by_cached_key(|file| (file.is_log, file.modified().filter(|_| !file.is_log)));
    }

    /// Hands on everything that is left, once the process has ended.
    pub fn finish(mut self) {
        if let Some(order) = self.order.take() {
            self.hand_on(&order.finish());
        }
        self.sort();
        for file in &mut self.files {
            loop {
                let before = file.offset;
                let lines = file.new_lines(u64::MAX);
                emit(self.sink, self.test, self.name, file.is_log, &lines);
                if file.offset == before {
                    break;
                }
            }
            let rest = std::mem::take(&mut file.rest);
            emit(self.sink, self.test, self.name, file.is_log, &rest);
        }
    }
}

impl FollowedFile {
    /// When it was last written to.
    fn modified(&self) -> Option<SystemTime> {
        self.path.symlink_metadata().and_then(|metadata| metadata.modified()).ok()
    }

    /// Returns the whole lines since the last look, up to a length of the file. A file that cannot be
    /// read has none: the outcome says what the test did to it.
    fn new_lines(&mut self, until: u64) -> Vec<u8> {
        if self.offset >= MOST_FOLLOWED.min(until) {
            return Vec::new();
        }
        let read = |rest: &mut Vec<u8>| {
            let mut file = regular_file::open(&self.path)?;
            file.seek(SeekFrom::Start(self.offset))?;
            file.take(PIECE.min(until - self.offset)).read_to_end(rest)
        };
        let before = self.rest.len();
        let Ok(length) = read(&mut self.rest) else { return Vec::new() };
        // A log is longer than what is written of it, while its process runs.
        let is_ahead = |bytes: &[u8]| if self.is_log { memchr::memchr(0, bytes) } else { None };
        let written = is_ahead(&self.rest[before..]).unwrap_or(length);
        self.rest.truncate(before + written);
        self.offset += written as u64;
        let end = memchr::memrchr(b'\n', &self.rest).map_or(0, |newline| newline + 1);
        if end == 0 && self.rest.len() as u64 >= PIECE {
            return std::mem::take(&mut self.rest);
        }
        let rest = self.rest.split_off(end);
        std::mem::replace(&mut self.rest, rest)
    }
}

fn emit(sink: &dyn Sink, test: &str, name: &str, is_log: bool, lines: &[u8]) {
    let shown = if is_log {
        let shown = lines.split(|byte| *byte == b'\n').filter_map(LiveLine::read);
        shown.map(|line| line.to_string()).collect::<Vec<_>>().join("\n")
    } else {
        String::from_utf8_lossy(lines).trim_end_matches('\n').to_owned()
    };
    if !shown.is_empty() {
        sink.emit(Event::TestWrote { test: test.to_owned(), name: name.to_owned(), text: shown });
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::io::Write;

    use camino::Utf8Path;

    use super::*;

    /// Calls this with an empty folder of a test, and with a sink that adds what is handed on to the list.
    fn following(test: impl FnOnce(&Utf8Path, &dyn Sink, &RefCell<Vec<String>>)) {
        let folder = tempfile::tempdir().unwrap();
        let texts = RefCell::new(Vec::new());
        let sink = |event| {
            if let Event::TestWrote { text, .. } = event {
                texts.borrow_mut().push(text);
            }
        };
        test(Utf8Path::from_path(folder.path()).unwrap(), &sink, &texts);
    }

    #[test]
    fn lines_are_handed_on_as_they_are_completed() {
        following(|folder, sink, texts| {
            let follow = Follow { checkpoints: true, output: true };
            let mut follower = Follower::new(follow, folder, "t", "main", sink);
            follower.look();
            let write = |name: &str, text: &str| {
                let path = folder.join(name);
                let mut file = fs_err::OpenOptions::new().append(true).create(true).open(path).unwrap();
                file.write_all(text.as_bytes()).unwrap();
            };
            write("stdout", "one\ntwo\nthr");
            follower.look();
            write("stdout", "ee\n");
            write(
                "log.jsonl",
                "{\"event\":\"begin\"}\n{\"event\":\"checkpoint\",\"label\":\"done\",\"metrics\":{\"cpu.rss\":1024}}\n",
            );
            follower.look();
            write("stderr", "no newline");
            follower.finish();
            assert_eq!(*texts.borrow(), ["one\ntwo", "three", "done: resident 1.00 KiB", "no newline"]);
        });
    }

    #[test]
    fn of_two_outputs_the_one_that_was_written_last_comes_last() {
        following(|folder, sink, texts| {
            for (name, seconds) in [("stdout", 2), ("stderr", 1)] {
                fs_err::write(folder.join(name), format!("{name}\n")).unwrap();
                let time = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
                fs_err::File::options()
                    .write(true)
                    .open(folder.join(name))
                    .unwrap()
                    .set_modified(time)
                    .unwrap();
            }
            let follow = Follow { checkpoints: false, output: true };
            Follower::new(follow, folder, "t", "main", sink).finish();
            assert_eq!(*texts.borrow(), ["stderr", "stdout"]);
        });
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn outputs_are_handed_on_in_the_order_in_which_they_were_written() {
        following(|folder, sink, texts| {
            let open = |name: &str| fs_err::File::create(folder.join(name)).unwrap();
            let (mut stdout, mut stderr) = (open("stdout"), open("stderr"));
            let follow = Follow { checkpoints: false, output: true };
            let follower = Follower::new(follow, folder, "t", "main", sink);
            let seen = |number: usize| {
                while follower.order.as_ref().unwrap().count() < number {
                    std::thread::yield_now();
                }
            };
            stdout.write_all(b"one\n").unwrap();
            seen(1);
            stderr.write_all(b"two\n").unwrap();
            seen(2);
            stdout.write_all(b"three\nfo").unwrap();
            seen(3);
            stderr.write_all(b"five\n").unwrap();
            follower.finish();
            assert_eq!(*texts.borrow(), ["one", "two", "three", "five", "fo"]);
        });
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn outputs_are_handed_on_also_after_their_order_is_lost() {
        following(|folder, sink, texts| {
            let open = |name: &str| fs_err::File::create(folder.join(name)).unwrap();
            let (mut stdout, _stderr) = (open("stdout"), open("stderr"));
            let follow = Follow { checkpoints: false, output: true };
            let mut follower = Follower::new(follow, folder, "t", "main", sink);
            follower.order.as_mut().unwrap().stop();
            assert!(follower.order.as_ref().unwrap().has_ended());
            stdout.write_all(b"one\n").unwrap();
            follower.look();
            assert_eq!(*texts.borrow(), ["one"]);
            follower.finish();
        });
    }

    #[test]
    fn a_file_that_the_test_replaced_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let folder = Utf8Path::from_path(folder.path()).unwrap();
        fs_err::write(folder.join("secret"), "secret\n").unwrap();
        fs_err::os::unix::fs::symlink(folder.join("secret"), folder.join("stdout")).unwrap();
        let sink = |event: Event| panic!("{event:?}");
        let follow = Follow { checkpoints: false, output: true };
        Follower::new(follow, folder, "t", "main", &sink).finish();
    }
}
