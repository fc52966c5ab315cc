//! The run's log: one JSON object per line. Where the end of the log can be mapped, a line costs no
//! system call, because that would change when threads sleep and wake. Otherwise each line is written by
//! one `write(2)` on a descriptor opened for appending. Either way, lines that were written before a
//! kill, an abort or a crash are in the kernel and stay. Names of tensors wait for the next line of another kind: without a checkpoint after them,
//! nothing needs them.

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};

use crate::log::checksum::Checksum;
use crate::log::json::Json;
use crate::log::mapped_file::MappedFile;
use crate::platform::descriptor;
use crate::platform::thread_number;
use crate::platform::untracked::Untracked;

/// The version of the format, in every line.
const VERSION: u64 = 1;

/// Lines of this many bytes wait at most.
const MOST_WAITING: usize = 1 << 16;

pub(crate) struct Log {
    file: File,
    /// The end of the file, if it can be mapped.
    mapped: Option<MappedFile>,
    /// The process that opened it. A forked child never gets here.
    process: u32,
    sequence: u64,
    /// Bytes of all lines so far.
    length: u64,
    line: Untracked<u8>,
    /// Lines that wait for the next write.
    waiting: Untracked<u8>,
    /// Over all lines so far.
    checksum: Checksum,
}

impl Log {
    pub(crate) fn open(path: &OsStr, key: (u64, u64)) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).append(true).create(true).open(path)?;
        let file = descriptor::out_of_the_way(file);
        let mapped = MappedFile::at_end_of(&file);
        let mut line = Untracked::new();
        line.reserve(4096);
        let process = std::process::id();
        let checksum = Checksum::new(key);
        let waiting = Untracked::new();
        Ok(Self { file, mapped, process, sequence: 0, length: 0, line, waiting, checksum })
    }

    /// Writes one line, and before it those that wait: the fields of every line, then those that the closure adds.
    ///
    /// # Errors
    ///
    /// Errors of the system, and `WriteZero` if the line was not written whole (a full disk). The
    /// log is then of no further use.
    pub(crate) fn write(
        &mut self,
        event: &str,
        nanoseconds: u64,
        fields: impl FnOnce(&mut Json<'_>),
    ) -> io::Result<()> {
        self.write_for(thread_number::current(), event, nanoseconds, fields)
    }

    /// Writes a line like [`write`](Self::write), as the line of a thread that may be another one.
    pub(crate) fn write_for(
        &mut self,
        thread: u32,
        event: &str,
        nanoseconds: u64,
        fields: impl FnOnce(&mut Json<'_>),
    ) -> io::Result<()> {
        self.make(thread, event, nanoseconds, fields);
        if self.waiting.is_empty() {
            append(&mut self.file, self.mapped.as_mut(), &self.line)
        } else {
            self.waiting.extend(&self.line);
            self.write_waiting()
        }
    }

    /// Adds a line like [`write`](Self::write), which may wait for the next one.
    pub(crate) fn write_later(
        &mut self,
        event: &str,
        nanoseconds: u64,
        fields: impl FnOnce(&mut Json<'_>),
    ) -> io::Result<()> {
        self.make(thread_number::current(), event, nanoseconds, fields);
        self.waiting.extend(&self.line);
        if self.waiting.len() < MOST_WAITING { Ok(()) } else { self.write_waiting() }
    }

    /// Returns how many bytes all lines so far have.
    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// Returns the lines so far. Appending goes on behind them.
    pub(crate) fn so_far(&self) -> io::Result<Untracked<u8>> {
        let mut file = &self.file;
        file.seek(SeekFrom::Start(0))?;
        let mut lines = Untracked::new();
        let mut piece = [0; 4096];
        loop {
            let length = file.read(&mut piece)?;
            // A mapped file is longer than what is written.
            let written = piece[..length].iter().position(|byte| *byte == 0).unwrap_or(length);
            lines.extend(&piece[..written]);
            if written == 0 || written < length {
                break;
            }
        }
        lines.extend(&self.waiting);
        Ok(lines)
    }

    fn write_waiting(&mut self) -> io::Result<()> {
        let written = append(&mut self.file, self.mapped.as_mut(), &self.waiting);
        self.waiting.clear();
        written
    }

    fn make(&mut self, thread: u32, event: &str, nanoseconds: u64, fields: impl FnOnce(&mut Json<'_>)) {
        let mut json = Json::begin(&mut self.line);
        json.figure("v", VERSION);
        json.text("event", event);
        json.figure("seq", self.sequence);
        json.figure("ns", nanoseconds);
        json.figure("pid", self.process.into());
        json.figure("thread", thread.into());
        fields(&mut json);
        json.end();
        self.sequence += 1;
        self.length += self.line.len() as u64;
        self.checksum.add(&self.line);
    }

    /// Writes the last line, with the checksum of all lines before it. The tool notices by it that
    /// others wrote to the log.
    pub(crate) fn end(&mut self, nanoseconds: u64) -> io::Result<()> {
        let checksum = self.checksum.value();
        self.write("end", nanoseconds, |json| json.hexadecimal("checksum", checksum))?;
        if let Some(mapped) = &mut self.mapped {
            mapped.close(&self.file);
        }
        Ok(())
    }
}

fn append(file: &mut File, mapped: Option<&mut MappedFile>, bytes: &[u8]) -> io::Result<()> {
    match mapped {
        Some(mapped) => mapped.append(file, bytes),
        None => write_whole(file, bytes),
    }
}

fn write_whole(file: &mut File, bytes: &[u8]) -> io::Result<()> {
    let written = loop {
        match file.write(bytes) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => break result?,
        }
    };
    if written == bytes.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
}
