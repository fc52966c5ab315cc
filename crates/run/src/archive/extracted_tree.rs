//! An archive's files, extracted to replace the build host's checkout and target folder while tests
//! run.
//!
//! Test executables contain paths of the build host, such as `env!("CARGO_MANIFEST_DIR")`. If that
//! folder can be created on this machine, the files go to their original paths, and are removed
//! afterwards. Otherwise they go elsewhere, and each test's working directory, environment and
//! library path refer to that place.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

use anyhow::Context;
use camino::{Utf8Path, Utf8PathBuf};
use walkdir::WalkDir;

use crate::archive::built_in_folder::{BuiltInFolder, identity};
use crate::archive::file::set_executable;
use crate::archive::manifest::{ArchivedBuild, Placed, stays_inside, subfolder};
use crate::archive::unpacked::Unpacked;
use memprof_build::attempts::Build;
use memprof_build::checkout::injected_files;
use memprof_build::checkout::unusable;
use memprof_build::known_files::KnownFiles;
use memprof_build::store::{self, Entry, Stored, hash_file};
use memprof_build::test_tree::TestTree;
use memprof_support::event::Sink;
use memprof_support::file_lock::{WhenHeld, wait_for};
use memprof_support::folder_removal::remove_folder;
use memprof_support::paths;
use memprof_support::redaction;
use memprof_support::regular_file;
use memprof_support::stamp::{FileId, Stamp};

/// The folders that an archive's tests see. Dropping it removes them.
#[derive(Debug)]
pub struct ExtractedTree<'a> {
    unpacked: &'a Unpacked,
    /// The folder that holds the checkout and the target folder.
    root: Utf8PathBuf,
    /// The build host's folder, which then is `root`, or why it cannot be had.
    built_in: Result<BuiltInFolder, String>,
    /// The file system's identity of `root`. Nothing else is removed in its place.
    identity: Option<FileId>,
    /// Files whose content was verified, by path, with hash and stamp at that time.
    verified: BTreeMap<Utf8PathBuf, (String, Stamp)>,
    /// The hashes of the programs and libraries that tests need, as this session has read them.
    placed: KnownFiles,
}

/// The variable that names library folders on this system.
const LIBRARY_PATH: &str =
    if cfg!(target_os = "macos") { "DYLD_FALLBACK_LIBRARY_PATH" } else { "LD_LIBRARY_PATH" };

impl<'a> ExtractedTree<'a> {
    /// Creates the folder. The caller holds the lock on all archives of its cache folder. A run with
    /// another cache folder may use the built-in folder now, and is waited for: the tests would find that
    /// run's files. The process has its cache's salt.
    ///
    /// # Errors
    ///
    /// The other run was not to be waited for, or was killed and has left its files there.
    pub fn open(
        unpacked: &'a Unpacked,
        when_held: WhenHeld,
        interrupt: &AtomicBool,
        sink: &dyn Sink,
    ) -> anyhow::Result<Self> {
        let root = &unpacked.manifest.root;
        let redactor = redaction::of_process();
        let built_in = wait_for(root.as_str(), when_held, interrupt, sink, || {
            BuiltInFolder::attempt(root, redactor.salt())
        })?;
        let root = if built_in.is_ok() {
            root.clone()
        } else {
            let root = unpacked.folder.join("stand-in");
            fs_err::create_dir_all(&root)?;
            root
        };
        let identity = identity(&root);
        let (verified, placed) = (BTreeMap::new(), KnownFiles::default());
        Ok(Self { unpacked, root, built_in, identity, verified, placed })
    }

    /// Returns why the files are not at the paths that the executables contain; `None` if they are.
    pub fn elsewhere(&self) -> Option<&str> {
        self.built_in.as_ref().err().map(String::as_str)
    }

    /// Returns the archive's builds, with their paths changed to this machine's.
    pub fn builds(&self) -> anyhow::Result<Vec<Build>> {
        let mut builds = packed_builds(self.unpacked)?;
        for build in &mut builds {
            if let Build::Done(entry) = build {
                self.relocate(entry);
                self.check(entry)?;
            }
        }
        Ok(builds)
    }

    /// Checks that a build's files and folders are below the root.
    fn check(&self, entry: &Entry) -> anyhow::Result<()> {
        let provenance = &entry.provenance;
        let folders = provenance.executables.iter().map(|executable| &executable.directory);
        let companions = provenance.companions.iter().map(|companion| &companion.path);
        for path in folders.chain(companions) {
            if !path.strip_prefix(&self.root).is_ok_and(stays_inside) {
                let problem = format!("a build of it needs '{path}', which is not below {}", self.root);
                return Err(self.unpacked.invalid(problem));
            }
        }
        let files = provenance.executables.iter().map(|executable| &executable.file);
        for file in files.chain(provenance.companions.iter().map(|companion| &companion.file)) {
            if !stays_inside(file) {
                let problem = format!("a build of it has an invalid path: '{file}'");
                return Err(self.unpacked.invalid(problem));
            }
        }
        Ok(())
    }

    /// Creates a folder below the root. A link in its place, which a test can leave, is removed: what is
    /// written below it would be written elsewhere.
    fn create_folder(&self, folder: &Utf8Path) -> anyhow::Result<()> {
        let above: Vec<&Utf8Path> = folder.ancestors().take_while(|above| *above != self.root).collect();
        for link in above.into_iter().rev().filter(|above| above.is_symlink()) {
            fs_err::remove_file(link)?;
        }
        Ok(fs_err::create_dir_all(folder)?)
    }

    /// Changes an entry's paths to this machine's.
    fn relocate(&self, entry: &mut Entry) {
        let moved = |text: &str| match self.built_in {
            Err(_) => text.replace(self.unpacked.manifest.root.as_str(), self.root.as_str()),
            Ok(_) => text.to_owned(),
        };
        let provenance = &mut entry.provenance;
        for executable in &mut provenance.executables {
            executable.directory = moved(executable.directory.as_str()).into();
            // Programs on this machine must be found through this machine's PATH.
            executable.environment.remove("PATH");
            for value in executable.environment.values_mut() {
                *value = moved(value);
            }
            let libraries = self.root.join(subfolder::LIBRARIES);
            let path = executable.environment.entry(LIBRARY_PATH.to_owned()).or_default();
            *path = if path.is_empty() { libraries.to_string() } else { format!("{path}:{libraries}") };
        }
        for companion in &mut provenance.companions {
            companion.path = moved(companion.path.as_str()).into();
        }
        for word in &mut provenance.runner {
            *word = moved(word);
        }
    }

    /// Extracts a revision's files and removes all others. Unchanged files stay as they are.
    fn extract(&mut self, revision: usize, entry: &Entry) -> anyhow::Result<()> {
        let files = &self.unpacked.manifest.revisions[revision].files;
        self.remove_others(|path| files.contains_key(path))?;
        for (path, placed) in files {
            let path = self.root.join(path);
            let folder = path.parent().unwrap_or(&self.root);
            self.create_folder(folder)?;
            // A link of the archive may lead elsewhere.
            injected_files::check_inside(&self.root, folder)?;
            match placed {
                Placed::File { blake3, executable } => self.extract_file(path, blake3, *executable)?,
                Placed::Link(target) => {
                    regular_file::remove_file_if_there(&path)?;
                    fs_err::os::unix::fs::symlink(target, &path)?;
                }
            }
        }
        for executable in &entry.provenance.executables {
            self.create_folder(&executable.directory)?;
        }
        for companion in &entry.provenance.companions {
            self.create_folder(companion.path.parent().unwrap_or(&self.root))?;
        }
        // `CARGO_TARGET_TMPDIR`, which cargo creates before it builds.
        self.create_folder(&self.root.join(subfolder::TARGET).join("tmp"))?;
        Ok(())
    }

    /// Copies a file from the archive, unless the path has the same content already.
    fn extract_file(&mut self, path: Utf8PathBuf, blake3: &str, executable: bool) -> anyhow::Result<()> {
        let verified = self.verified.get(&path);
        if verified.is_some_and(|(hash, stamp)| hash == blake3 && Stamp::read(&path) == Some(*stamp)) {
            return Ok(());
        }
        let same = !path.is_symlink() && hash_file(&path).is_ok_and(|found| found == *blake3);
        if !same {
            regular_file::remove_file_if_there(&path)?;
            fs_err::copy(self.unpacked.data(blake3), &path)?;
        }
        if executable {
            set_executable(&path)?;
        }
        if let Some(stamp) = Stamp::read(&path) {
            self.verified.insert(path, (blake3.to_owned(), stamp));
        }
        Ok(())
    }

    /// Removes what another revision or its tests left, except in the target folder, which cargo
    /// keeps too.
    fn remove_others(&self, wanted: impl Fn(&Utf8Path) -> bool) -> anyhow::Result<()> {
        for folder in [subfolder::CHECKOUT, subfolder::EXTERNAL, subfolder::LIBRARIES] {
            let folder = self.root.join(folder);
            if !folder.exists() {
                continue;
            }
            // A test may have put a link there, and the walk would follow it.
            injected_files::check_inside(&self.root, &folder)?;
            unusable::remove(folder.as_std_path()).with_context(|| format!("{folder} cannot be cleaned"))?;
            for found in WalkDir::new(&folder).min_depth(1).contents_first(true) {
                let found = found?;
                let is_folder = found.file_type().is_dir();
                let path = paths::utf8(found.into_path())?;
                if is_folder {
                    // Fails if the folder is not empty; it then stays.
                    let _ = std::fs::remove_dir(&path);
                } else if !wanted(path.strip_prefix(&self.root)?) {
                    fs_err::remove_file(&path)?;
                }
            }
        }
        Ok(())
    }
}

/// Returns an archive's builds as they were packed.
pub fn packed_builds(unpacked: &Unpacked) -> anyhow::Result<Vec<Build>> {
    let store = unpacked.folder.join("store");
    let build = |build: &ArchivedBuild| match build {
        ArchivedBuild::Failed(failure) => Ok(Build::Failed(failure.clone())),
        ArchivedBuild::Done(key) => match store::find(&store, key) {
            Stored::Complete(entry) => Ok(Build::Done(entry)),
            Stored::Absent => Err(unpacked.damaged(format!("it lacks build {key}"))),
            Stored::Damaged(reason) => Err(unpacked.damaged(format!("build {key}: {reason}"))),
        },
    };
    unpacked.manifest.revisions.iter().map(|revision| build(&revision.build)).collect()
}

impl TestTree for ExtractedTree<'_> {
    fn bring_to(&mut self, revision: usize, entry: &Entry) -> anyhow::Result<()> {
        // Before each run, because the previous run may have changed the files.
        self.extract(revision, entry)?;
        entry.place_companions(&self.placed)
    }

    /// Whether the archive's files are as they were extracted. Files that tests added do not count:
    /// those that git ignores look the same.
    fn holds(&mut self, revision: usize, _: &Entry, _: bool) -> anyhow::Result<bool> {
        let files = &self.unpacked.manifest.revisions[revision].files;
        Ok(files.iter().all(|(path, placed)| {
            let path = self.root.join(path);
            match placed {
                Placed::File { .. } => {
                    let verified = self.verified.get(&path);
                    verified.is_some_and(|(_, stamp)| Stamp::read(&path) == Some(*stamp))
                }
                Placed::Link(target) => path.read_link_utf8().is_ok_and(|found| found == *target),
            }
        }))
    }

    fn injection_library(&mut self) -> Result<Utf8PathBuf, String> {
        self.unpacked.injection_library()
    }

    fn malloc_library(&mut self) -> Result<Utf8PathBuf, String> {
        self.unpacked.malloc_library()
    }
}

impl Drop for ExtractedTree<'_> {
    /// Removes what was created elsewhere. The build host's folder removes itself.
    fn drop(&mut self) {
        if self.built_in.is_err() && identity(&self.root) == self.identity {
            let _ = remove_folder(&self.root);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;
    use std::sync::atomic::Ordering;

    use super::*;
    use crate::archive::built_in_folder::MARK;
    use crate::archive::file::Archive;
    use crate::archive::manifest::{ArchivedLibrary, ArchivedRevision, Manifest};
    use crate::archive::writer::ArchiveWriter;
    use memprof_build::failure::BuildFailure;
    use memprof_build::provenance::Companion;
    use memprof_support::event::Event;
    use memprof_support::file_lock::{Attempt, RETRY};
    use memprof_support::user_error::UserError;

    fn attempt(unpacked: &Unpacked, when_held: WhenHeld) -> anyhow::Result<ExtractedTree<'_>> {
        ExtractedTree::open(unpacked, when_held, &AtomicBool::new(false), &|_: Event| {})
    }

    fn open(unpacked: &Unpacked) -> ExtractedTree<'_> {
        attempt(unpacked, WhenHeld::Fail).unwrap()
    }

    /// An archive of two revisions without a build, whose files differ.
    fn unpacked(folder: &Utf8Path, root: &Utf8Path) -> Unpacked {
        let file = folder.join("a.tar.zst");
        let mut writer = ArchiveWriter::begin(&file).unwrap();
        let mut revision = |files: &[(&str, &str)]| {
            let mut placed = BTreeMap::new();
            for (path, text) in files {
                placed.insert(Utf8PathBuf::from(*path), writer.place_bytes(text.as_bytes()).unwrap());
            }
            placed.insert("worktree/link".into(), Placed::Link("a.txt".into()));
            ArchivedRevision { build: ArchivedBuild::Failed(BuildFailure::default()), files: placed }
        };
        let revisions = vec![
            revision(&[("worktree/a.txt", "old"), ("worktree/only/old.txt", "old")]),
            revision(&[("worktree/a.txt", "new"), ("worktree/only", "a file now")]),
        ];
        let manifest = Manifest {
            tool: "0".to_owned(),
            target: "any".to_owned(),
            has_runner: true,
            loaders: Vec::new(),
            root: root.to_owned(),
            injection: ArchivedLibrary::Absent("not built".to_owned()),
            malloc: None,
            metrics: Vec::new(),
            revisions,
            contents: BTreeMap::new(),
        };
        writer.finish(manifest).unwrap();
        Archive::open(&file).unwrap().unpack(&folder.join("archives"), &|_: Event| {}).unwrap()
    }

    /// A build of one test, whose package is in `package/`.
    fn entry(root: &Utf8Path) -> Entry {
        let mut provenance =
            memprof_build::provenance::samples::provenance(memprof_build::provenance::samples::executable());
        let package = root.join("worktree/package");
        let executable = &mut provenance.executables[0];
        executable.environment = [
            ("CARGO_MANIFEST_DIR", package.to_string()),
            ("LD_LIBRARY_PATH", format!("{root}/target/debug/deps:/rust/lib")),
            ("PATH", "/home/builder/.cargo/bin:/usr/bin".to_owned()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into();
        executable.directory = package;
        let tool = Companion {
            path: root.join("target/debug/tool"),
            file: "c".into(),
            hash: "h".into(),
            package_folder: None,
        };
        provenance.companions.push(tool);
        Entry {
            folder: "/nowhere".into(),
            provenance,
            unselected: std::collections::BTreeSet::new(),
            hints: Vec::new(),
        }
    }

    fn folder() -> (tempfile::TempDir, Utf8PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = Utf8Path::from_path(folder.path()).unwrap().canonicalize_utf8().unwrap();
        (folder, path)
    }

    #[test]
    fn each_revision_sees_its_own_files_and_all_are_removed_in_the_end() {
        let (_guard, folder) = folder();
        let root = folder.join("home/builder/cache/r-1");
        let unpacked = unpacked(&folder, &root);
        {
            let mut tree = open(&unpacked);
            assert_eq!((&tree.root, tree.elsewhere()), (&root, None));
            let read = |path: &str| fs_err::read_to_string(root.join("worktree").join(path)).unwrap();
            for (revision, text, only) in
                [(0, "old", "only/old.txt"), (1, "new", "only"), (0, "old", "only/old.txt")]
            {
                tree.extract(revision, &entry(&root)).unwrap();
                assert_eq!((read("a.txt").as_str(), read("link").as_str()), (text, text));
                assert!(root.join("worktree").join(only).is_file());
                assert!(root.join("worktree/package").is_dir(), "the test's working directory exists");
                fs_err::write(root.join("worktree/left-by-a-test"), "").unwrap();
                let closed = root.join("worktree/closed");
                fs_err::create_dir(&closed).unwrap();
                fs_err::write(closed.join("inside"), "").unwrap();
                fs_err::set_permissions(&closed, Permissions::from_mode(0o000)).unwrap();
            }
            tree.extract(1, &entry(&root)).unwrap();
            assert!(!root.join("worktree/left-by-a-test").exists() && !root.join("worktree/closed").exists());
            fs_err::write(root.join("worktree/a.txt"), "old").unwrap();
            tree.extract(1, &entry(&root)).unwrap();
            assert_eq!(read("a.txt"), "new", "the next run does not see what a test wrote");
        }
        assert!(!folder.join("home").exists(), "everything that was created is removed");
    }

    #[test]
    fn nothing_is_written_or_removed_through_a_link_that_a_test_left() {
        let (_guard, folder) = folder();
        let root = folder.join("home/builder/cache/r-1");
        let unpacked = unpacked(&folder, &root);
        let mut tree = open(&unpacked);
        tree.extract(0, &entry(&root)).unwrap();
        let outside = folder.join("outside");
        fs_err::create_dir(&outside).unwrap();
        fs_err::write(outside.join("kept.txt"), "kept").unwrap();
        fs_err::remove_dir_all(root.join("worktree")).unwrap();
        fs_err::os::unix::fs::symlink(&outside, root.join("worktree")).unwrap();
        let error = tree.extract(1, &entry(&root)).unwrap_err().to_string();
        assert!(error.contains("'worktree' leads out of the checkout"), "{error}");
        assert_eq!(fs_err::read_to_string(outside.join("kept.txt")).unwrap(), "kept");
        assert_eq!(outside.read_dir_utf8().unwrap().count(), 1);
    }

    #[test]
    fn an_existing_folder_is_left_alone() {
        let (_guard, folder) = folder();
        let root = folder.join("home/builder/cache/r-1");
        fs_err::create_dir_all(root.join("worktree")).unwrap();
        let unpacked = unpacked(&folder, &root);
        let mut tree = open(&unpacked);
        assert_eq!(tree.elsewhere(), Some("it already exists"));
        let mut entry = entry(&root);
        tree.relocate(&mut entry);
        tree.extract(0, &entry).unwrap();
        let here = tree.root.clone();
        let executable = &entry.provenance.executables[0];
        assert_eq!(executable.directory, here.join("worktree/package"));
        assert!(executable.directory.is_dir());
        assert_eq!(executable.environment["CARGO_MANIFEST_DIR"], here.join("worktree/package").as_str());
        let libraries = format!("{here}/target/debug/deps:/rust/lib:{here}/libraries");
        assert_eq!(executable.environment["LD_LIBRARY_PATH"], libraries);
        assert!(!executable.environment.contains_key("PATH"));
        assert_eq!(entry.provenance.companions[0].path, here.join("target/debug/tool"));
        assert_eq!(fs_err::read_to_string(here.join("worktree/a.txt")).unwrap(), "old");
        drop(tree);
        assert!(root.join("worktree").is_dir() && !here.exists());
    }

    #[test]
    fn a_folder_that_a_killed_run_left_is_taken_over() {
        let (_guard, folder) = folder();
        let root = folder.join("home/builder/cache/r-1");
        let unpacked = unpacked(&folder, &root);
        let mut tree = open(&unpacked);
        tree.extract(0, &entry(&root)).unwrap();
        tree.built_in.as_ref().unwrap().unlock();
        std::mem::forget(tree);
        let next = open(&unpacked);
        assert_eq!(next.elsewhere(), None);
        drop(next);
        assert!(!folder.join("home").exists());
    }

    #[test]
    fn a_folder_with_a_mark_that_this_tool_did_not_write_is_left_alone_and_ends_the_run() {
        let (_guard, folder) = folder();
        let root = folder.join("home/builder/cache/r-1");
        let unpacked = unpacked(&folder, &root);
        let earlier = open(&unpacked);
        let own_mark = fs_err::read_to_string(root.join(MARK)).unwrap();
        earlier.built_in.as_ref().unwrap().unlock();
        std::mem::forget(earlier);
        // Moved, as a backup or a checkout would: the same bytes in another folder.
        let twin = folder.join("twin");
        fs_err::create_dir(&twin).unwrap();
        fs_err::rename(root.join(MARK), twin.join(MARK)).unwrap();
        fs_err::remove_dir(&root).unwrap();
        fs_err::rename(&twin, &root).unwrap();
        fs_err::write(root.join("thesis.txt"), "kept").unwrap();
        fs_err::write(root.join(MARK), own_mark).unwrap();
        let error = attempt(&unpacked, WhenHeld::Wait).unwrap_err().downcast::<UserError>().unwrap();
        let error = error.rendered();
        assert!(error.contains(&format!("{root} has the files of another run, which was killed")), "{error}");
        for mark in [format!("{root}\n"), "/\n".to_owned(), String::new()] {
            fs_err::write(root.join(MARK), mark).unwrap();
            let tree = attempt(&unpacked, WhenHeld::Wait).unwrap();
            assert_eq!(tree.elsewhere(), Some("it already exists"));
        }
        assert_eq!(fs_err::read_to_string(root.join("thesis.txt")).unwrap(), "kept");
    }

    #[test]
    fn what_took_the_folders_place_during_the_run_is_not_removed() {
        let (_guard, folder) = folder();
        let root = folder.join("home/builder/cache/r-1");
        let unpacked = unpacked(&folder, &root);
        let tree = open(&unpacked);
        fs_err::rename(&root, folder.join("aside")).unwrap();
        fs_err::create_dir(&root).unwrap();
        fs_err::write(root.join("thesis.txt"), "kept").unwrap();
        drop(tree);
        assert_eq!(fs_err::read_to_string(root.join("thesis.txt")).unwrap(), "kept");
    }

    #[test]
    fn a_folder_that_another_run_uses_is_waited_for() {
        let (_guard, folder) = folder();
        let root = folder.join("home/builder/cache/r-1");
        let unpacked = unpacked(&folder, &root);
        let mut tree = open(&unpacked);
        let refused = attempt(&unpacked, WhenHeld::Fail).unwrap_err().to_string();
        assert!(refused.starts_with(&format!("another run is using {root}: ")), "{refused}");
        assert!(refused.contains(&format!(", process {}, since ", std::process::id())), "{refused}");
        std::thread::scope(|scope| {
            let next = scope.spawn(|| attempt(&unpacked, WhenHeld::Wait).unwrap());
            std::thread::sleep(2 * RETRY);
            assert!(!next.is_finished());
            tree.extract(0, &entry(&root)).unwrap();
            assert!(root.join("worktree/a.txt").is_file());
            drop(tree);
            let next = next.join().unwrap();
            assert_eq!(next.elsewhere(), None);
            assert!(!root.join("worktree").exists(), "it has nothing of the other run");
        });
        assert!(!folder.join("home").exists());
    }

    #[test]
    fn runs_that_begin_and_end_together_never_see_each_others_folder() {
        let (_guard, folder) = folder();
        let root = folder.join("home/builder/cache/r-1");
        let unpacked = unpacked(&folder, &root);
        let used = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..20 {
                        let built_in = loop {
                            match BuiltInFolder::attempt(&root, redaction::of_process().salt()).unwrap() {
                                Attempt::Acquired(taken) => break taken.unwrap(),
                                Attempt::HeldBy(_) => std::thread::yield_now(),
                            }
                        };
                        assert!(!used.swap(true, Ordering::SeqCst));
                        assert_eq!(root.read_dir_utf8().unwrap().count(), 1, "the mark");
                        fs_err::write(root.join("file"), "").unwrap();
                        used.store(false, Ordering::SeqCst);
                        drop(built_in);
                    }
                });
            }
        });
        drop(open(&unpacked));
        assert!(!root.exists());
    }

    #[test]
    fn if_the_folder_cannot_be_created_the_files_go_elsewhere() {
        let (_guard, folder) = folder();
        fs_err::write(folder.join("a-file"), "").unwrap();
        let unpacked = unpacked(&folder, &folder.join("a-file/cache/r-1"));
        let tree = open(&unpacked);
        assert!(tree.elsewhere().unwrap().starts_with("it cannot be created"), "{tree:?}");
    }
}
