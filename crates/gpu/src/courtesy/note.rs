//! The note of each process that is set aside: one file beside the device locks. It is written
//! before the driver's first call, and removed after the process runs again. So it outlives this
//! program, however that ends.

use std::fmt;
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use anyhow::Context;
use camino::{Utf8Path, Utf8PathBuf};
use serde::{Deserialize, Serialize};

use crate::courtesy::held::Held;
use crate::courtesy::process::{self, ProcessFacts};
use crate::locks;
use memprof_support::bytes::Bytes;
use memprof_support::labels;
use memprof_support::regular_file;
use memprof_support::run_identity::RunIdentity;

const PREFIX: &str = "set-aside-";
/// How much of a note is read.
const MOST_OF_NOTE: u64 = 1 << 20;

/// What is known of a process that is set aside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// The id.
    pub process: u32,
    /// When it started: [`ProcessFacts::started`].
    pub started: u64,
    /// `process::table`, where the id is valid.
    pub table: String,
    pub user: u32,
    pub name: String,
    /// The UUIDs of its devices, as far as they are known.
    pub devices: Vec<String>,
    /// The bytes on them, if NVML knew them.
    pub bytes: Option<u64>,
    /// What it held on each device. Known once it is set aside.
    #[serde(default)]
    pub held: Vec<Held>,
    /// When, as `2026-11-22T20:21:42Z`.
    pub since: String,
    /// Who did it.
    pub by: Holder,
    /// Whether that process left it aside on purpose, as `yield` does at its end.
    pub kept: bool,
}

/// A process of this program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// The id.
    pub process: u32,
    /// When it started.
    pub started: u64,
    /// The command line, without secrets: other users can read the note.
    pub command: String,
}

impl Holder {
    /// Returns this process.
    pub fn this() -> Self {
        let RunIdentity { process, command, .. } = RunIdentity::of_this_process();
        Self { process, started: process::started(process).unwrap_or_default(), command }
    }

    /// Whether it still runs.
    fn is_alive(&self) -> bool {
        process::started(self.process) == Some(self.started)
    }
}

impl fmt::Display for Holder {
    /// `process 999 (cargo memprof yield 4711)`.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "process {} ({})", self.process, self.command)
    }
}

impl fmt::Display for Note {
    /// `process 4711 (python)`.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "process {} ({})", self.process, self.name)
    }
}

impl Note {
    /// Returns the note of a process that this process sets aside now.
    pub(crate) fn for_process(process: &ProcessFacts, devices: Vec<String>, bytes: Option<u64>) -> Self {
        Self {
            process: process.id,
            started: process.started,
            table: process::table(),
            user: process.user,
            name: process.name.clone(),
            devices,
            bytes,
            held: Vec::new(),
            since: jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            by: Holder::this(),
            kept: false,
        }
    }

    /// Whether the process still runs. Its id alone may be another process's by now.
    pub(crate) fn is_of_living(&self) -> bool {
        process::started(self.process) == Some(self.started)
    }

    /// Whether the program that set it aside is still at work with it. If that program panics, it starts this one.
    pub fn is_in_use(&self) -> bool {
        let ours = [std::process::id(), std::os::unix::process::parent_id()];
        !self.kept && self.by.is_alive() && !ours.contains(&self.by.process)
    }

    /// Whether nobody will restore it: its holder was killed.
    pub fn is_abandoned(&self) -> bool {
        !self.kept && !self.by.is_alive()
    }

    /// Returns `60.0 GiB of `, or nothing if the bytes are unknown.
    pub fn amount(&self) -> String {
        self.bytes.map_or_else(String::new, |bytes| format!("{} of ", Bytes(bytes)))
    }

    /// The texts may be those of a test, which has the user's rights.
    fn in_one_line(mut self) -> Self {
        for text in [&mut self.name, &mut self.since, &mut self.by.command] {
            *text = labels::one_line(text).into_owned();
        }
        self
    }

    fn file_name(&self) -> String {
        format!("{PREFIX}{}-{}-{}.json", self.user, self.process, self.started)
    }
}

/// The folder of the notes.
#[derive(Clone, Debug)]
pub struct Notes {
    folder: Utf8PathBuf,
}

impl Notes {
    /// Opens the notes beside the device locks.
    pub fn open() -> Self {
        Self::at(locks::folder())
    }

    /// Opens the notes in this folder.
    pub fn at(folder: Utf8PathBuf) -> Self {
        Self { folder }
    }

    /// Writes a new note. Returns `false` if the process has one.
    pub fn add(&self, note: &Note) -> anyhow::Result<bool> {
        let path = self.path(note);
        match self.written(note)?.persist_noclobber(&path) {
            Ok(_) => Ok(true),
            Err(failed) if failed.error.kind() == std::io::ErrorKind::AlreadyExists => Ok(false),
            Err(failed) => Err(failed.error).with_context(|| format!("could not write {path}")),
        }
    }

    /// Writes a note in the place of the process's old one.
    pub fn replace(&self, note: &Note) -> anyhow::Result<()> {
        let path = self.path(note);
        self.written(note)?.persist(&path).with_context(|| format!("could not write {path}"))?;
        Ok(())
    }

    /// Removes the note of a process that runs again.
    pub fn remove(&self, note: &Note) -> anyhow::Result<()> {
        // Another `restore` may have removed it.
        Ok(regular_file::remove_file_if_there(self.path(note))?)
    }

    /// Returns the notes of this user's living processes, by process. Removes those of processes
    /// that have ended: their memory went with them.
    pub fn own(&self) -> Vec<Note> {
        let (user, table) = (rustix::process::geteuid().as_raw(), process::table());
        let entries = self.folder.read_dir_utf8().into_iter().flatten().flatten();
        let of_entry = |path: &Utf8Path| -> Option<Note> {
            let name = path.file_name()?;
            if !name.starts_with(PREFIX) {
                return None;
            }
            // The folder's owner may put another file in its place at any time.
            let file = regular_file::open_within(path, MOST_OF_NOTE).ok()?;
            if file.metadata().ok()?.uid() != user {
                return None;
            }
            let mut text = Vec::new();
            file.take(MOST_OF_NOTE).read_to_end(&mut text).ok()?;
            let note: Note = serde_json::from_slice(&text).ok()?;
            let is_own = note.user == user && process::user(note.process).is_none_or(|it| it == user);
            (is_own && note.table == table && note.file_name() == name).then(|| note.in_one_line())
        };
        let notes = entries.filter_map(|entry| of_entry(entry.path()));
        let (mut living, ended): (Vec<Note>, Vec<Note>) = notes.partition(Note::is_of_living);
        for note in ended {
            // A note of an ended process is of no use, and does no harm.
            let _ = self.remove(&note);
        }
        living.sort_by_key(|note| note.process);
        living
    }

    /// Returns the note of a process.
    pub fn find(&self, process: u32) -> Option<Note> {
        self.own().into_iter().find(|note| note.process == process)
    }

    fn path(&self, note: &Note) -> Utf8PathBuf {
        self.folder.join(note.file_name())
    }

    fn written(&self, note: &Note) -> anyhow::Result<tempfile::NamedTempFile> {
        locks::make_folder(&self.folder)?;
        let mut file = tempfile::Builder::new()
            .prefix(".memprof-")
            .suffix(".partial")
            .permissions(std::fs::Permissions::from_mode(0o644))
            .tempfile_in(&self.folder)
            .with_context(|| format!("could not write in {}", self.folder))?;
        file.write_all(&serde_json::to_vec_pretty(note)?)?;
        Ok(file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_stays_for_a_living_process_and_names_its_holder() {
        let folder = tempfile::tempdir().unwrap();
        let notes = Notes::at(Utf8Path::from_path(folder.path()).unwrap().join("devices"));
        assert_eq!(notes.own(), []);
        let own = ProcessFacts::read(std::process::id()).unwrap();
        let mut note = Note::for_process(&own, vec!["GPU-a".into()], Some(60 << 30));
        assert!(notes.add(&note).unwrap());
        assert!(!notes.add(&note).unwrap(), "a process has one note");
        assert_eq!(notes.own(), [note.clone()]);
        assert!(!note.is_abandoned() && !note.is_in_use());
        assert_eq!(note.amount(), "60.0 GiB of ");
        for (holder, is_in_use) in [(std::os::unix::process::parent_id(), false), (1, true)] {
            note.by =
                Holder { process: holder, started: process::started(holder).unwrap(), ..Holder::this() };
            assert_eq!(note.is_in_use(), is_in_use, "{holder}");
        }
        note.by = Holder { started: own.started + 1, ..Holder::this() };
        assert!(note.is_abandoned(), "the holder's id belongs to another process now");
        note.kept = true;
        notes.replace(&note).unwrap();
        assert_eq!(notes.find(own.id), Some(note.clone()));
        assert!(!note.is_abandoned());
        notes.remove(&note).unwrap();
        notes.remove(&note).unwrap();
        assert_eq!(notes.own(), []);
    }

    #[test]
    fn the_note_of_a_reused_id_or_of_another_container_is_no_note() {
        let folder = tempfile::tempdir().unwrap();
        let notes = Notes::at(Utf8Path::from_path(folder.path()).unwrap().to_owned());
        let mut own = ProcessFacts::read(std::process::id()).unwrap();
        own.started += 1;
        let reused = Note::for_process(&own, Vec::new(), None);
        notes.add(&reused).unwrap();
        assert_eq!(notes.own(), []);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "its process has ended");
        own.started -= 1;
        let elsewhere = Note { table: "another machine".into(), ..Note::for_process(&own, Vec::new(), None) };
        notes.add(&elsewhere).unwrap();
        assert_eq!(notes.own(), []);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "its owner needs it");
    }

    #[test]
    fn no_file_of_another_user_and_no_process_of_one_is_touched() {
        let folder = tempfile::tempdir().unwrap();
        let notes = Notes::at(Utf8Path::from_path(folder.path()).unwrap().to_owned());
        let own = ProcessFacts::read(std::process::id()).unwrap();
        let mut note = Note::for_process(&own, Vec::new(), None);
        note.name = "\u{1b}[31mred".to_owned();
        notes.add(&note).unwrap();
        assert_eq!(notes.own()[0].name, "␛[31mred");
        let path = notes.path(&note);
        let second = folder.path().join("second");
        std::fs::hard_link(&path, &second).unwrap();
        assert_eq!(notes.own(), [], "it may be any file of this user");
        std::fs::remove_file(second).unwrap();
        // Only root can give a file away, and only it may reach the processes of others.
        if rustix::process::geteuid().is_root() {
            let mut child = std::process::Command::new("sleep");
            let mut child =
                std::os::unix::process::CommandExt::uid(&mut child, 65_534).arg("60").spawn().unwrap();
            let others = Note {
                user: note.user,
                ..Note::for_process(&ProcessFacts::read(child.id()).unwrap(), Vec::new(), None)
            };
            notes.add(&others).unwrap();
            assert_eq!(notes.find(child.id()), None, "its process is another user's");
            child.kill().unwrap();
            child.wait().unwrap();
            std::os::unix::fs::chown(&path, Some(65_534), None).unwrap();
            assert_eq!(notes.own(), []);
            assert!(path.exists(), "it is another user's");
        }
    }
}
