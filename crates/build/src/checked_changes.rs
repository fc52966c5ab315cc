//! What the compiler said of a revision's changes, one line for each check, in a file of the cache.

use std::collections::{BTreeSet, HashMap};
use std::io::Write;

use camino::{Utf8Path, Utf8PathBuf};
use serde::{Deserialize, Serialize};

use crate::compile_error::CompileError;
use memprof_support::regular_file::followed;

/// What the compiler says of a revision without a change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Unchanged {
    /// Its errors: a target that does not compile anyway says nothing.
    pub messages: BTreeSet<String>,
    /// The files of the repository from which the target is compiled; `None` if the compiler did not say.
    pub sources: Option<BTreeSet<String>>,
}

/// The finished checks of a revision.
pub(crate) struct CheckedChanges {
    path: Utf8PathBuf,
    unchanged: Option<Unchanged>,
    /// The errors, by the hash of the changes.
    errors: HashMap<String, Vec<CompileError>>,
}

/// A line of the file.
#[derive(Serialize, Deserialize)]
enum Line {
    Unchanged(Unchanged),
    Changed { changes: String, errors: Vec<CompileError> },
}

/// The largest file that is read.
const MOST_BYTES: u64 = 64 << 20;

impl CheckedChanges {
    /// Reads the checks of the revision with this key.
    pub fn open(folder: &Utf8Path, key: &str) -> anyhow::Result<Self> {
        fs_err::create_dir_all(folder)?;
        let path = folder.join(format!("{key}.jsonl"));
        if !path.exists() {
            remove_oldest(folder)?;
        }
        let mut checked = Self { path, unchanged: None, errors: HashMap::new() };
        let text = followed::read_within(&checked.path, MOST_BYTES).unwrap_or_default();
        // A killed process may have left a part of a line.
        let lines = text.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok());
        for line in lines {
            checked.take(line);
        }
        Ok(checked)
    }

    fn take(&mut self, line: Line) {
        match line {
            Line::Unchanged(unchanged) => self.unchanged = Some(unchanged),
            Line::Changed { changes, errors } => _ = self.errors.insert(changes, errors),
        }
    }

    /// Returns what the compiler says of the revision without a change.
    pub fn unchanged(&self) -> Option<&Unchanged> {
        self.unchanged.as_ref()
    }

    /// Returns the errors of these changes, if they were checked.
    pub fn errors(&self, changes: &str) -> Option<Vec<CompileError>> {
        self.errors.get(changes).cloned()
    }

    /// Keeps what the compiler says of the revision without a change.
    pub fn note_unchanged(&mut self, unchanged: Unchanged) -> anyhow::Result<()> {
        self.note_line(Line::Unchanged(unchanged))
    }

    /// Keeps the errors of these changes.
    pub fn note(&mut self, changes: String, errors: Vec<CompileError>) -> anyhow::Result<()> {
        self.note_line(Line::Changed { changes, errors })
    }

    fn note_line(&mut self, line: Line) -> anyhow::Result<()> {
        // A part of a line may be in front.
        let mut text = b"\n".to_vec();
        serde_json::to_writer(&mut text, &line)?;
        text.push(b'\n');
        let mut file = fs_err::OpenOptions::new().create(true).append(true).open(&self.path)?;
        file.write_all(&text)?;
        self.take(line);
        Ok(())
    }
}

/// How many revisions keep their checks.
const MOST_REVISIONS: usize = 64;

/// Removes the checks of the revisions that were checked longest ago.
fn remove_oldest(folder: &Utf8Path) -> anyhow::Result<()> {
    let files = folder.read_dir_utf8()?.filter_map(Result::ok);
    let mut known: Vec<_> =
        files.filter_map(|file| Some((file.metadata().ok()?.modified().ok()?, file.into_path()))).collect();
    known.sort();
    let surplus = (known.len() + 1).saturating_sub(MOST_REVISIONS);
    known.into_iter().take(surplus).try_for_each(|(_, path)| Ok(fs_err::remove_file(path)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finished_checks_are_found_again_and_a_cut_line_is_not_one() {
        let folder = tempfile::tempdir().unwrap();
        let folder = Utf8Path::from_path(folder.path()).unwrap();
        let open = || CheckedChanges::open(folder, "key").unwrap();
        let error = CompileError { places: vec![("a.rs".to_owned(), 3)], ..CompileError::default() };
        let mut checked = open();
        checked.note("one".to_owned(), vec![error.clone()]).unwrap();
        let mut file = fs_err::OpenOptions::new().append(true).open(folder.join("key.jsonl")).unwrap();
        file.write_all(b"{\"Changed\":{\"changes\":\"cut").unwrap();
        let mut checked = open();
        checked.note("two".to_owned(), Vec::new()).unwrap();
        checked.note_unchanged(Unchanged::default()).unwrap();
        let checked = open();
        assert_eq!(checked.errors("one"), Some(vec![error]));
        assert_eq!((checked.errors("two"), checked.errors("cut")), (Some(Vec::new()), None));
        assert_eq!(checked.unchanged(), Some(&Unchanged::default()));
        assert_eq!(CheckedChanges::open(folder, "other").unwrap().unchanged(), None);
    }
}
