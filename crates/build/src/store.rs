//! The store of finished executables with their provenance. Each build has a folder:
//! `store/<key>/`.
//!
//! The key is a hash of everything that affects the build, so that no build is made twice.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, ensure};
use camino::{Utf8Path, Utf8PathBuf};
use memmap2::MmapMut;

use crate::key_stamp::{Unproven, stamp};
use crate::known_files::KnownFiles;
pub use crate::known_files::hash_file;
use crate::provenance::{Companion, Executable, FailedTarget, Provenance, VERSION};
use crate::read_outputs;
use crate::shared_files::{SharedFile, SharedFiles};
use crate::test_listing;
use crate::wrong_build::UnreadableArtifact;
pub use crate::wrong_build::WrongBuild;
use memprof_plan::listing::NotMeasured;
use memprof_plan::resolved::Revision;
use memprof_support::parallel;
use memprof_support::redaction;
use memprof_support::regular_file::{self, followed};
use memprof_support::sealed;

/// One build in the store.
#[derive(Clone, Debug)]
pub struct Entry {
    pub folder: Utf8PathBuf,
    /// The content.
    pub provenance: Provenance,
    /// Which of its failed targets cannot contain a selected test, as indices. A build that is read
    /// from the store has none.
    pub unselected: BTreeSet<usize>,
    /// What may help with its failed targets. A build that is read from the store has none.
    pub hints: Vec<String>,
}

/// The file in an entry's folder with its [`Provenance`].
pub const PROVENANCE: &str = "provenance.json";

/// The names in an entry's folder that no program gets.
pub(crate) const OWN_NAMES: [&str; 4] = [PROVENANCE, "injected", "deps", "examples"];

/// Returns the folder of a key.
fn folder(store: &Utf8Path, key: &str) -> Utf8PathBuf {
    store.join(&key[..32])
}

/// An executable in the store.
#[derive(Debug)]
pub(crate) struct Copied {
    /// blake3 of the file, including the key in it.
    pub hash: String,
    /// The key in it, if that is another build's.
    pub key: Option<String>,
    /// blake3 of the file as it was linked.
    pub code: String,
    pub content: Content,
}

/// What is known of a copied executable.
#[derive(Debug)]
pub(crate) enum Content {
    /// Its bytes.
    Read(MmapMut),
    /// It has the code of this executable of another build, whose file it shares.
    Shared(Box<SharedFile>),
}

/// What the store has for a key.
#[derive(Debug)]
pub enum Stored {
    /// The build.
    Complete(Box<Entry>),
    /// Nothing, or a build that another version of this program made.
    Absent,
    /// A build that is not as it was written, and why.
    Damaged(String),
}

/// Looks for the build with this key, without reading its executables.
pub fn find(store: &Utf8Path, key: &str) -> Stored {
    let folder = folder(store, key);
    match folder.symlink_metadata() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Stored::Absent,
        Ok(_) | Err(_) => {}
    }
    match find_in(&folder) {
        Stored::Complete(entry) if entry.provenance.key != key => Stored::Absent,
        found => found,
    }
}

/// Returns the executables of the builds in these folders, if this toolchain made them. Those of builds whose files
/// were checked are preferred.
pub(crate) fn shared_files(checked: &[Utf8PathBuf], others: &[Utf8PathBuf], toolchain: &str) -> SharedFiles {
    let mut shared = SharedFiles::default();
    let others = others.iter().filter(|folder| !checked.contains(folder)).map(|folder| (folder, false));
    for (folder, is_checked) in others.chain(checked.iter().map(|folder| (folder, true))) {
        if let Stored::Complete(entry) = find_in(folder)
            && entry.provenance.key_inputs.toolchain == toolchain
        {
            shared.add(folder, &entry.provenance, is_checked);
        }
    }
    shared
}

/// Reads the build in a folder of the store, without reading its executables.
pub(crate) fn find_in(folder: &Utf8Path) -> Stored {
    match read_provenance(&folder.join(PROVENANCE)) {
        Ok(Some(provenance)) => Stored::Complete(Box::new(Entry {
            folder: folder.to_owned(),
            provenance,
            unselected: BTreeSet::new(),
            hints: Vec::new(),
        })),
        Ok(None) => Stored::Absent,
        Err(error) => Stored::Damaged(format!("{error:#}")),
    }
}

/// Looks for the build with this key, and checks all its files.
pub(crate) fn find_intact(store: &Utf8Path, key: &str, known: &KnownFiles) -> Stored {
    match find(store, key) {
        Stored::Complete(entry) => match entry.check_files(known) {
            Ok(()) => Stored::Complete(entry),
            Err(error) => Stored::Damaged(format!("{error:#}")),
        },
        other => other,
    }
}

/// Reads an entry's provenance; `None` if it has another format.
fn read_provenance(path: &Utf8Path) -> anyhow::Result<Option<Provenance>> {
    /// The part that all formats share.
    #[derive(serde::Deserialize)]
    struct Format {
        version: u32,
    }
    let text = followed::read(path)?;
    let format = match sealed::unsealed::<Format>(&text) {
        Ok(format) => format,
        // Before format 3, there was no hash.
        Err(damage) => match serde_json::from_slice::<Format>(&text) {
            Ok(format) if format.version < 3 && !text.starts_with(b"{\n  \"blake3\"") => format,
            Ok(_) | Err(_) => return Err(anyhow::Error::new(damage).context(path.to_string())),
        },
    };
    if format.version != VERSION {
        return Ok(None);
    }
    Ok(Some(sealed::unsealed(&text).with_context(|| path.to_string())?))
}

/// A store entry under construction. It appears in the store only when it is complete.
#[derive(Debug)]
pub(crate) struct Draft {
    partial: Utf8PathBuf,
    folder: Utf8PathBuf,
}

impl Draft {
    /// Begins an entry.
    pub fn new(store: &Utf8Path, key: &str) -> anyhow::Result<Self> {
        let folder = folder(store, key);
        let partial = folder.with_extension("partial");
        regular_file::remove(&partial)?;
        fs_err::create_dir_all(&partial)?;
        Ok(Self { partial, folder })
    }

    /// Returns the path of a file while the entry is under construction.
    pub fn path(&self, file: &Utf8Path) -> Utf8PathBuf {
        self.partial.join(file)
    }

    /// Copies a test executable and writes the key into the copy, or takes the file of a build with the same
    /// code. Returns the copy, or why the executable is not proven to be this build; it is then not copied.
    ///
    /// # Errors
    ///
    /// [`UnreadableArtifact`] if the executable cannot be read; another error if it cannot be
    /// copied.
    pub(crate) fn add_executable(
        &self,
        built: &Utf8Path,
        file: &Utf8Path,
        key: &str,
        shared: &SharedFiles,
        known: &KnownFiles,
    ) -> anyhow::Result<Result<Copied, Unproven>> {
        let path = self.partial.join(file);
        fs_err::create_dir_all(path.parent().unwrap_or(&self.partial))?;
        let link = |code: String| {
            let same = shared.link(&code, &path, known)?;
            let key = (same.key != key).then(|| same.key.clone());
            let (hash, content) = (same.executable.hash.clone(), Content::Shared(Box::new(same.clone())));
            Some(Copied { hash, key, code, content })
        };
        if let Some(copied) = known.known(built).and_then(link) {
            return Ok(Ok(copied));
        }
        let mut mapped = None;
        let code = known.note(built, || {
            // Cargo wrote it to the target folder, whose lock is held.
            let bytes =
                followed::mapped_within(built, followed::MOST_OF_BINARY).map_err(UnreadableArtifact)?;
            let hash = blake3::hash(&bytes).to_hex().to_string();
            mapped = Some(bytes);
            Ok::<_, UnreadableArtifact>(hash)
        })?;
        let mut bytes = mapped.expect("its hash was taken");
        let permissions = fs_err::metadata(built).map_err(UnreadableArtifact)?.permissions();
        if let Some(copied) = link(code.clone()) {
            return Ok(Ok(copied));
        }
        if let Err(unproven) = stamp(&mut bytes, key) {
            return Ok(Err(unproven));
        }
        fs_err::write(&path, &bytes)?;
        fs_err::set_permissions(&path, permissions)?;
        let hash = blake3::hash(&bytes).to_hex().to_string();
        Ok(Ok(Copied { hash, key: None, code, content: Content::Read(bytes) }))
    }

    /// Adds any other file. Returns its hash.
    pub(crate) fn add_companion(
        &self,
        built: &Utf8Path,
        file: &Utf8Path,
        shared: &SharedFiles,
        known: &KnownFiles,
    ) -> anyhow::Result<String> {
        let path = self.partial.join(file);
        let hash = known.hash(built).map_err(UnreadableArtifact)?;
        fs_err::create_dir_all(path.parent().unwrap_or(&self.partial))?;
        if shared.link_companion(&hash, &path, known) {
            return Ok(hash);
        }
        followed::copy(built, &path)?;
        let copied = hash_file(&path)?;
        ensure!(copied == hash, "{built} changed while it was copied to {path}");
        Ok(hash)
    }

    /// Stores a file that was injected into the checkout.
    pub(crate) fn add_injected(&self, relative: &Utf8Path, content: &[u8]) -> anyhow::Result<()> {
        let path = self.partial.join("injected").join(relative);
        fs_err::create_dir_all(path.parent().unwrap_or(&self.partial))?;
        fs_err::write(path, content)?;
        Ok(())
    }

    /// Writes the provenance without secrets, and moves the entry into the store.
    pub fn finish(self, provenance: Provenance) -> anyhow::Result<Entry> {
        // Tests may print what cargo's `[env]` and build scripts give them.
        redaction::change(|redactor| {
            for (name, value) in provenance.executables.iter().flat_map(|one| &one.environment) {
                redactor.learn(name, value);
            }
        });
        fs_err::write(self.partial.join(PROVENANCE), sealed::sealed(&provenance.redacted())?)?;
        regular_file::remove(&self.folder)?;
        fs_err::rename(&self.partial, &self.folder)?;
        Ok(Entry { folder: self.folder, provenance, unselected: BTreeSet::new(), hints: Vec::new() })
    }
}

impl Entry {
    /// Returns the targets that do not compile and may contain a selected test.
    pub(crate) fn selected_failures(&self) -> impl Iterator<Item = &FailedTarget> {
        let failed = self.provenance.failed_targets.iter().enumerate();
        failed.filter(|(index, _)| !self.unselected.contains(index)).map(|(_, failed)| failed)
    }

    /// Returns the targets that do not compile and cannot contain a selected test.
    pub(crate) fn unselected_failures(&self) -> impl Iterator<Item = &FailedTarget> {
        self.unselected.iter().filter_map(|&index| self.provenance.failed_targets.get(index))
    }

    /// Returns a note for the report about each target that does not compile and cannot contain a
    /// selected test.
    pub fn notes(&self, revision: &Revision) -> Vec<String> {
        let note = |failed: &FailedTarget| {
            let (name, commit) = (&revision.name, revision.short());
            let (root, error) = (&failed.root, failed.first_error());
            format!("{root} does not compile in {name} ({commit}), but has no selected test: {error}")
        };
        let of_program = self.provenance.program_error.iter().map(|error| {
            let (name, commit) = (&revision.name, revision.short());
            format!("a binary or an example of {name} ({commit}) does not build, so tests that start it fail: {error}")
        });
        self.unselected_failures().map(note).chain(of_program).collect()
    }

    /// Returns the executables and targets whose tests cannot be measured.
    pub fn not_measured(&self) -> Vec<NotMeasured> {
        let failed = self.selected_failures().map(FailedTarget::not_measured);
        self.provenance.not_measured().into_iter().chain(failed).collect()
    }

    /// Whether an executable could not list its tests because shared libraries were missing. They
    /// may exist by now.
    pub(crate) fn lacks_libraries(&self) -> bool {
        let reasons =
            self.provenance.executables.iter().filter_map(|executable| executable.unlisted.as_ref());
        reasons.into_iter().any(|reason| reason.contains(test_listing::LOADER_ERROR))
    }

    /// Checks that all files of the entry are as they were written. An executable is read only if it changed
    /// since an earlier session read it: before it runs, it is read anyway ([`Self::verified`]).
    ///
    /// # Errors
    ///
    /// The first file that is missing, unreadable or changed.
    fn check_files(&self, known: &KnownFiles) -> anyhow::Result<()> {
        let provenance = &self.provenance;
        for executable in &provenance.executables {
            self.verified_by(executable, |path| known.hash(path))?;
        }
        for companion in &provenance.companions {
            let path = self.folder.join(&companion.file);
            ensure!(known.hash(&path)? == companion.hash, "{path} is not the file that was built");
        }
        let is_as_injected = hash_of_injected(&self.injection()?) == provenance.injected_hash;
        ensure!(is_as_injected, "{} has other files than those that were injected", self.folder);
        Ok(())
    }

    /// Whether its tests need a secret that is not stored. Cargo gives it again.
    pub fn lacks_secrets(&self) -> bool {
        self.provenance.is_runner_redacted() || !self.provenance.redacted_variables().is_empty()
    }

    /// Returns the path of an executable, after checking its hash.
    ///
    /// # Errors
    ///
    /// [`WrongBuild::OtherExecutable`] if the file has another hash.
    pub fn verified(&self, executable: &Executable) -> anyhow::Result<Utf8PathBuf> {
        self.verified_by(executable, hash_file)
    }

    fn verified_by(
        &self,
        executable: &Executable,
        hash: impl Fn(&Utf8Path) -> std::io::Result<String>,
    ) -> anyhow::Result<Utf8PathBuf> {
        let path = self.folder.join(&executable.file);
        let found = hash(&path)?;
        if found != executable.hash {
            return Err(
                WrongBuild::OtherExecutable { file: path, found, expected: executable.hash.clone() }.into()
            );
        }
        Ok(path)
    }

    /// Returns the paths of all its files, those first that every test needs.
    pub fn files(&self) -> impl Iterator<Item = Utf8PathBuf> {
        let Provenance { injected, executables, companions, .. } = &self.provenance;
        let injected = injected.iter().map(|path| self.folder.join("injected").join(path));
        let executables = executables.iter().map(|executable| self.folder.join(&executable.file));
        let companions = companions.iter().map(|companion| self.folder.join(&companion.file));
        injected.chain([self.folder.join(PROVENANCE)]).chain(executables).chain(companions)
    }

    /// Reads the files that were injected into the checkout for this build.
    pub fn injection(&self) -> anyhow::Result<BTreeMap<Utf8PathBuf, Vec<u8>>> {
        let read =
            |path: &Utf8PathBuf| Ok((path.clone(), followed::read(self.folder.join("injected").join(path))?));
        self.provenance.injected.iter().map(read).collect()
    }

    /// Copies programs, shared libraries and outputs of build scripts of this build to where its tests look for
    /// them. Another revision's build may have left its own there.
    ///
    /// The old file is removed rather than overwritten, because cargo has hard links to it. Cargo
    /// restores its own file at its next build.
    ///
    /// `placed` knows what this session has read: this is called before each run, and there may be many programs.
    pub fn place_companions(&self, placed: &KnownFiles) -> anyhow::Result<()> {
        let companions = &self.provenance.companions;
        for folder in self.provenance.outputs.keys() {
            let paths = companions.iter().map(|companion| companion.path.as_path());
            let own: BTreeSet<&Utf8Path> = paths.filter(|path| path.starts_with(folder)).collect();
            if !own.is_empty() {
                read_outputs::remove_others(folder, &own)?;
            }
        }
        let is_placed = |one: &Companion| -> anyhow::Result<bool> {
            let source = self.folder.join(&one.file);
            ensure!(placed.hash(&source)? == one.hash, "{source} is not the file that was built");
            Ok(placed.hash(&one.path).ok().as_ref() == Some(&one.hash))
        };
        let are_placed = parallel::map(companions, usize::MAX, is_placed);
        for (companion, is_placed) in companions.iter().zip(are_placed) {
            if is_placed? {
                continue;
            }
            // Without its output, cargo runs the script again before it builds the next revision with these files.
            let is_of = |output: &&Utf8PathBuf| companion.path.starts_with(output);
            if let Some(folder) = self.provenance.outputs.keys().find(is_of) {
                regular_file::remove(&folder.with_file_name("output"))?;
            }
            regular_file::remove(&companion.path)?;
            if let Some(folder) = companion.path.parent() {
                fs_err::create_dir_all(folder)?;
            }
            followed::copy(self.folder.join(&companion.file), &companion.path)?;
        }
        Ok(())
    }
}

/// Returns the blake3 hash of paths and contents.
pub(crate) fn hash_of_injected(files: &BTreeMap<Utf8PathBuf, Vec<u8>>) -> String {
    let mut hasher = blake3::Hasher::new();
    for (path, content) in files {
        hasher.update(path.as_str().as_bytes()).update(&[0]);
        hasher.update(blake3::hash(content).as_bytes());
    }
    hasher.finalize().to_hex().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key_stamp;
    use crate::provenance::samples::{KEY, executable, provenance};

    fn linked() -> Vec<u8> {
        [b"ELF", key_stamp::STAMP, &[b'-'; 64], b"rest"].concat()
    }

    #[test]
    fn an_executable_that_cannot_be_read_or_copied_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let store = Utf8Path::from_path(folder.path()).unwrap();
        let draft = Draft::new(store, KEY).unwrap();
        let file = Utf8Path::new("t");
        let missing = draft
            .add_executable(&store.join("built"), file, KEY, &SharedFiles::default(), &KnownFiles::default())
            .unwrap_err();
        assert!(missing.is::<UnreadableArtifact>() && missing.to_string().contains("/built"), "{missing}");
        fs_err::write(store.join("built"), linked()).unwrap();
        // Like a full disk, a folder in its place keeps the copy from being written.
        fs_err::create_dir(draft.path(file)).unwrap();
        let blocked = draft
            .add_executable(&store.join("built"), file, KEY, &SharedFiles::default(), &KnownFiles::default())
            .unwrap_err();
        assert!(blocked.to_string().contains(draft.path(file).as_str()), "{blocked}");
    }

    /// Damages an entry in its folder.
    type Damage<'a> = &'a dyn Fn(&Utf8Path);

    /// An entry of an executable, a companion and an injected file.
    fn entry(store: &Utf8Path) -> Entry {
        let built = store.join("built");
        fs_err::write(&built, linked()).unwrap();
        let draft = Draft::new(store, KEY).unwrap();
        let copied = draft.add_executable(
            &built,
            Utf8Path::new("t"),
            KEY,
            &SharedFiles::default(),
            &KnownFiles::default(),
        );
        let Copied { hash, code, .. } = copied.unwrap().unwrap();
        let mut provenance = provenance(Executable { hash, code: Some(code), ..executable() });
        let hash =
            draft.add_companion(&built, "c".into(), &SharedFiles::default(), &KnownFiles::default()).unwrap();
        provenance.companions.push(Companion { path: built, file: "c".into(), hash, package_folder: None });
        let injected = BTreeMap::from([(Utf8PathBuf::from("tests/a.rs"), b"fn a() {}".to_vec())]);
        for (path, content) in &injected {
            draft.add_injected(path, content).unwrap();
        }
        provenance.injected_hash = hash_of_injected(&injected);
        provenance.injected = injected.into_keys().collect();
        draft.finish(provenance).unwrap()
    }

    #[test]
    fn builds_with_the_same_code_share_the_file_and_its_key() {
        let folder = tempfile::tempdir().unwrap();
        let store = Utf8Path::from_path(folder.path()).unwrap();
        let first = entry(store);
        let shared = shared_files(std::slice::from_ref(&first.folder), &[], "rustc");
        let key = KEY.replace('0', "1");
        let draft = Draft::new(store, &key).unwrap();
        let copied = draft
            .add_executable(&store.join("built"), "t".into(), &key, &shared, &KnownFiles::default())
            .unwrap()
            .unwrap();
        assert_eq!(copied.key.as_deref(), Some(KEY));
        let Copied { hash, key: of_first, code, .. } = copied;
        let executable = Executable { hash, key: of_first, code: Some(code), ..executable() };
        let injected_hash = hash_of_injected(&BTreeMap::new());
        let provenance = Provenance { key: key.clone(), injected_hash, ..provenance(executable) };
        assert_eq!(provenance.key_in(&provenance.executables[0]), KEY);
        let second = draft.finish(provenance).unwrap();
        fs_err::remove_dir_all(&first.folder).unwrap();
        assert!(
            matches!(find_intact(store, &key, &KnownFiles::default()), Stored::Complete(_)),
            "it needs no other build"
        );
        // Other code gets a file of its own.
        fs_err::write(store.join("built"), [&linked()[..], b"more"].concat()).unwrap();
        let draft = Draft::new(store, KEY).unwrap();
        let shared = shared_files(&[], &[first.folder, second.folder.clone()], "rustc");
        let copied = draft
            .add_executable(&store.join("built"), "t".into(), KEY, &shared, &KnownFiles::default())
            .unwrap()
            .unwrap();
        assert_eq!(copied.key, None);
    }

    #[test]
    fn a_file_that_is_not_as_it_was_written_is_not_shared() {
        let folder = tempfile::tempdir().unwrap();
        let store = Utf8Path::from_path(folder.path()).unwrap();
        let first = entry(store);
        let key = KEY.replace('0', "1");
        let key_of_copy = || {
            let shared = shared_files(&[], std::slice::from_ref(&first.folder), "rustc");
            let draft = Draft::new(store, &key).unwrap();
            let known = KnownFiles::default();
            let copied = draft.add_executable(&store.join("built"), "t".into(), &key, &shared, &known);
            copied.unwrap().unwrap().key
        };
        assert_eq!(key_of_copy().as_deref(), Some(KEY));
        fs_err::write(first.folder.join("t"), "damaged").unwrap();
        assert_eq!(key_of_copy(), None);
        let other = shared_files(&[first.folder], &[], "another rustc");
        assert!(other.link("", &store.join("linked"), &KnownFiles::default()).is_none());
    }

    #[test]
    fn a_replaced_executable_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let entry = entry(Utf8Path::from_path(folder.path()).unwrap());
        let executable = &entry.provenance.executables[0];
        entry.verified(executable).unwrap();
        fs_err::write(entry.folder.join("t"), "another").unwrap();
        let error = entry.verified(executable).unwrap_err().to_string();
        assert!(error.contains("is not the executable that was built"), "{error}");
    }

    #[test]
    fn a_damaged_entry_is_found_and_can_be_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let store = Utf8Path::from_path(folder.path()).unwrap();
        assert!(matches!(find_intact(store, KEY, &KnownFiles::default()), Stored::Absent));
        let damages: [(&str, Damage<'_>); 8] = [
            ("/t", &|entry| fs_err::remove_file(entry.join("t")).unwrap()),
            ("/t", &|entry| fs_err::write(entry.join("t"), "ELF").unwrap()),
            ("/t", &|entry| {
                fs_err::remove_file(entry.join("t")).unwrap();
                fs_err::create_dir(entry.join("t")).unwrap();
            }),
            ("/c", &|entry| fs_err::write(entry.join("c"), "").unwrap()),
            ("injected", &|entry| fs_err::write(entry.join("injected/tests/a.rs"), "").unwrap()),
            ("provenance.json", &|entry| fs_err::remove_file(entry.join(PROVENANCE)).unwrap()),
            ("provenance.json", &|entry| {
                let text = fs_err::read_to_string(entry.join(PROVENANCE)).unwrap();
                fs_err::write(entry.join(PROVENANCE), text.replace("\"b\"", "\"d\"")).unwrap();
            }),
            ("provenance.json", &|entry| {
                fs_err::remove_dir_all(entry).unwrap();
                fs_err::write(entry, "a file").unwrap();
            }),
        ];
        for (place, damage) in damages {
            let entry = entry(store);
            assert!(matches!(find_intact(store, KEY, &KnownFiles::default()), Stored::Complete(_)));
            damage(&entry.folder);
            let Stored::Damaged(reason) = find_intact(store, KEY, &KnownFiles::default()) else {
                panic!("not noticed: {place}")
            };
            assert!(reason.contains(place), "{reason}");
        }
    }

    #[test]
    fn an_entry_of_an_earlier_format_is_built_again() {
        let folder = tempfile::tempdir().unwrap();
        let store = Utf8Path::from_path(folder.path()).unwrap();
        let entry = entry(store);
        fs_err::write(entry.folder.join(PROVENANCE), r#"{"version": 2, "key": "k"}"#).unwrap();
        assert!(matches!(find_intact(store, KEY, &KnownFiles::default()), Stored::Absent));
    }
}
