//! What an archive contains: finished builds, and everything else that a machine without sources
//! needs to run them.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context;
use camino::{Utf8Path, Utf8PathBuf};
use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

use crate::archive::manifest::{
    ArchivedBuild, ArchivedLibrary, ArchivedRevision, Manifest, Placed, subfolder,
};
use crate::archive::writer::{ArchiveWriter, WrittenArchive};
use crate::changed_sources;
use crate::estimate::PastTimes;
use crate::malloc_variables;
use crate::prepared::Prepared;
use crate::stdin_files;
use crate::stored_plan;
use memprof_build::attempts::Build;
use memprof_build::builder::Builder;
use memprof_build::git::program::nul_separated;
use memprof_build::git::repository::Repository;
use memprof_build::inject::overlay::{self, OverlayFile};
use memprof_build::libraries;
use memprof_build::store::{Entry, PROVENANCE};
use memprof_build::test_tree::TestTree;
use memprof_judge::results::run_folder::RunFolder;
use memprof_plan::cells::PlannedCell;
use memprof_plan::request::OverlayMode;
use memprof_plan::resolved::{CellId, Plan};
use memprof_support::process::Command;
use memprof_support::user_error::UserError;

/// The file with the nanoseconds that each test took before.
pub const TIMES: &str = "times.json";

/// What to put into an archive, and where to find it.
pub struct ArchiveContents<'a> {
    pub plan: &'a Plan,
    /// The user's repository.
    pub repository: &'a Repository,
    /// The folder with the builds' logs and facts.
    pub folder: &'a RunFolder,
    /// Which files of each revision the tests read: globs, relative to the repository's root.
    pub data: &'a [String],
    /// The metrics that `memprof.yaml` shows.
    pub metrics: &'a [String],
    /// How long tests took before, by which shards are balanced.
    pub times: &'a PastTimes,
}

/// What the archive's revisions share while they are added.
struct Packer<'a> {
    contents: &'a ArchiveContents<'a>,
    writer: ArchiveWriter,
    globs: DataGlobs,
    /// The globs that matched a file of some revision.
    matched: BTreeSet<usize>,
    /// Files of overlays that are not part of the checkout.
    external: Vec<OverlayFile>,
    /// The folder on the build host that holds the checkout and the target folder.
    root: Utf8PathBuf,
    /// Keys of the builds that were added. Several refs can share a build.
    added_builds: BTreeSet<String>,
    /// The standard inputs that were added. Several entries can share one.
    added_inputs: BTreeSet<Utf8PathBuf>,
}

impl ArchiveContents<'_> {
    /// Writes the archive. Brings the checkout to each revision in turn.
    ///
    /// # Errors
    ///
    /// No revision was built, a `--data` glob matches no file, or a file cannot be read or written.
    pub fn write(
        &self,
        file: &Utf8Path,
        prepared: &mut Prepared<Builder<'_>>,
    ) -> anyhow::Result<WrittenArchive> {
        let entries: Vec<&Entry> = prepared.builds.iter().filter_map(Build::entry).collect();
        let first = entries.first().context("no revision was built, so there is nothing to archive")?;
        let key_inputs = &first.provenance.key_inputs;
        let root = key_inputs.checkout.parent().context("the checkout has a folder above it")?.to_owned();
        let host = key_inputs.toolchain.lines().find_map(|line| line.strip_prefix("host: "));
        let mut manifest = Manifest {
            tool: env!("CARGO_PKG_VERSION").to_owned(),
            target: first.provenance.target.as_deref().or(host).unwrap_or_default().to_owned(),
            has_runner: entries.iter().any(|entry| !entry.provenance.runner.is_empty()),
            loaders: loaders(&entries)?,
            root: root.clone(),
            injection: ArchivedLibrary::Absent(String::new()),
            malloc: None,
            metrics: self.metrics.to_vec(),
            revisions: Vec::new(),
            contents: BTreeMap::new(),
        };
        let globs = DataGlobs::new(self.data)?;
        let external = self.external()?;
        let mut packer = Packer {
            contents: self,
            writer: ArchiveWriter::begin(file)?,
            globs,
            matched: BTreeSet::new(),
            external,
            root,
            added_builds: BTreeSet::new(),
            added_inputs: BTreeSet::new(),
        };
        packer.add_json("plan.json", &stored_plan::sealed(self.plan))?;
        let cells: Vec<PlannedCell> = prepared.cells.iter().map(stored_plan::sealed_cell).collect();
        if let Some((cell, _)) = cells.iter().zip(&prepared.cells).find(|(one, other)| one.args != other.args)
        {
            let title = &cell.cell.title;
            return Err(UserError::new(format!(
                "an archive does not carry the secret in the arguments of {title}"
            ))
            .help("let the program read the secret from a variable or a file")
            .into());
        }
        packer.add_json("cells.json", &cells)?;
        let times: Vec<(CellId, u64)> = self.times.of_cells(&cells);
        packer.add_json(TIMES, &times)?;
        packer.add_run_files(prepared)?;
        for index in 0..prepared.builds.len() {
            manifest.revisions.push(packer.add_revision(index, prepared)?);
        }
        packer.globs.check_all_matched(&packer.matched)?;
        manifest.injection = packer.add_library(prepared.tree.injection_library())?;
        if malloc_variables::is_requested(&self.plan.request) {
            manifest.malloc = Some(packer.add_library(prepared.tree.malloc_library())?);
        }
        packer.writer.finish(manifest)
    }

    /// Returns the files of overlays that are not part of the checkout.
    fn external(&self) -> anyhow::Result<Vec<OverlayFile>> {
        let request = &self.plan.request;
        let files = overlay::read(&request.overlay, &self.plan.overlay_commits, self.repository)?;
        Ok(files.into_iter().filter(|file| file.mode == OverlayMode::External).collect())
    }
}

impl Packer<'_> {
    fn add_json(&mut self, name: &str, value: &impl serde::Serialize) -> anyhow::Result<()> {
        self.writer.add_bytes(name, &serde_json::to_vec_pretty(value)?)
    }

    /// Adds files of the run's folder that concern all revisions.
    fn add_run_files(&mut self, prepared: &Prepared<Builder<'_>>) -> anyhow::Result<()> {
        let folder = self.contents.folder;
        self.writer.add_file("run/builds.json", &folder.builds())?;
        if folder.trace().exists() {
            self.writer.add_file("run/trace.json", &folder.trace())?;
        }
        for stdin in stdin_files::stdins(&self.contents.plan.request) {
            let copy = folder.input(stdin.hash());
            let place = Utf8Path::new("run").join(copy.strip_prefix(&folder.0)?);
            if self.added_inputs.insert(place.clone()) {
                self.writer.add_file(place, &copy)?;
            }
        }
        // The machine that runs the tests has no repository to say which call sites the diff touches.
        let builds: Vec<_> = prepared.builds.iter().map(Build::entry).collect();
        let built = (&prepared.tree, &*builds);
        changed_sources::keep(self.contents.repository, self.contents.plan, built, folder)?;
        if folder.changes().exists() {
            self.writer.add_file("run/changes.json", &folder.changes())?;
        }
        Ok(())
    }

    /// Adds a revision: its log, its build, and the files that its tests see.
    fn add_revision(
        &mut self,
        index: usize,
        prepared: &mut Prepared<Builder<'_>>,
    ) -> anyhow::Result<ArchivedRevision> {
        let ArchiveContents { plan, folder, .. } = self.contents;
        let log = folder.build_log(plan, index);
        if log.exists() {
            self.writer.add_file(Utf8Path::new("run").join(log.strip_prefix(&folder.0)?), &log)?;
        }
        let entry = match &prepared.builds[index] {
            Build::Failed(failure) => {
                let build = ArchivedBuild::Failed(failure.clone());
                return Ok(ArchivedRevision { build, files: BTreeMap::new() });
            }
            Build::Done(entry) => entry,
        };
        prepared.tree.bring_to(index, entry)?;
        if self.added_builds.insert(entry.provenance.key.clone()) {
            add_entry(&mut self.writer, entry)?;
        }
        let mut files = self.add_checkout_files(prepared.tree.git(), entry)?;
        for file in &self.external {
            let path = Utf8Path::new(subfolder::EXTERNAL).join(&file.destination);
            files.insert(path, self.writer.place_bytes(&file.content)?);
        }
        files.extend(add_libraries(&mut self.writer, entry, &self.root)?);
        Ok(ArchivedRevision { build: ArchivedBuild::Done(entry.provenance.key.clone()), files })
    }

    /// Adds the files of the checkout that tests read: those that `--data` names, manifests, and
    /// injected files. `git` runs in the checkout.
    ///
    /// They come from the checkout and not from git's objects, so that LFS files, line endings and
    /// submodules are as tests see them.
    fn add_checkout_files(
        &mut self,
        git: Command,
        entry: &Entry,
    ) -> anyhow::Result<BTreeMap<Utf8PathBuf, Placed>> {
        let checkout = &entry.provenance.key_inputs.checkout;
        let list = ["ls-files", "-z", "--cached", "--recurse-submodules"];
        let tracked = nul_separated(&git.args(list).run()?.stdout);
        let injected: BTreeSet<&Utf8PathBuf> = entry.provenance.injected.iter().collect();
        let mut paths: Vec<Utf8PathBuf> = Vec::new();
        for path in tracked.into_iter().map(Utf8PathBuf::from) {
            let matches = self.globs.matches(&path);
            if !matches.is_empty() || path.file_name() == Some("Cargo.toml") {
                paths.push(path);
            }
            self.matched.extend(matches);
        }
        let mut files = BTreeMap::new();
        for path in paths.into_iter().chain(injected.into_iter().cloned()) {
            let source = checkout.join(&path);
            // Git also lists files that a sparse checkout leaves out.
            if source.is_symlink() || source.is_file() {
                let placed = self.writer.place_file(&source)?;
                files.insert(Utf8Path::new(subfolder::CHECKOUT).join(path), placed);
            }
        }
        Ok(files)
    }

    fn add_library(&mut self, library: Result<Utf8PathBuf, String>) -> anyhow::Result<ArchivedLibrary> {
        match library {
            Ok(library) => {
                let path = Utf8Path::new("injection").join(library.file_name().unwrap_or_default());
                self.writer.add_file(path.clone(), &library)?;
                Ok(ArchivedLibrary::Library(path))
            }
            Err(reason) => Ok(ArchivedLibrary::Absent(reason)),
        }
    }
}

/// The globs of `--data`.
struct DataGlobs {
    patterns: Vec<String>,
    set: GlobSet,
}

impl DataGlobs {
    fn new(patterns: &[String]) -> anyhow::Result<Self> {
        let mut set = GlobSetBuilder::new();
        for pattern in patterns {
            let clean = pattern.trim_start_matches("./").trim_end_matches('/');
            let glob = GlobBuilder::new(clean).literal_separator(true).build().map_err(|error| {
                UserError::new(format!("--data '{pattern}': {}", error.kind())).help(
                    "`*` matches within one folder, `**` across folders; a folder's name includes all \
                     files below it",
                )
            })?;
            set.add(glob);
        }
        Ok(Self { patterns: patterns.to_vec(), set: set.build()? })
    }

    /// Returns which globs match the path or a folder above it.
    fn matches(&self, path: &Utf8Path) -> Vec<usize> {
        let paths = path.ancestors().filter(|path| !path.as_str().is_empty());
        paths.flat_map(|path| self.set.matches(path.as_std_path())).collect()
    }

    /// Fails if a glob matched no file of any revision.
    fn check_all_matched(&self, matched: &BTreeSet<usize>) -> Result<(), UserError> {
        match self.patterns.iter().enumerate().find(|(index, _)| !matched.contains(index)) {
            None => Ok(()),
            Some((_, pattern)) => Err(UserError::new(format!(
                "--data '{pattern}' matches no file of any revision"
            ))
            .help("paths are relative to the repository's root, and only files that git tracks are added")),
        }
    }
}

/// Adds the executables and companions of a build, and its provenance.
fn add_entry(writer: &mut ArchiveWriter, entry: &Entry) -> anyhow::Result<()> {
    let name = entry.folder.file_name().context("an entry of the store has a name")?;
    let folder = Utf8Path::new("store").join(name);
    let provenance = &entry.provenance;
    let executables = provenance.executables.iter().map(|executable| &executable.file);
    let companions = provenance.companions.iter().map(|companion| &companion.file);
    for file in executables.chain(companions) {
        writer.add_file(folder.join(file), &entry.folder.join(file))?;
    }
    writer.add_file(folder.join(PROVENANCE), &entry.folder.join(PROVENANCE))
}

/// Adds the shared libraries that are not in the store, because no other revision's build replaces
/// them: those of dependencies in the target folder, and the toolchain's.
fn add_libraries(
    writer: &mut ArchiveWriter,
    entry: &Entry,
    root: &Utf8Path,
) -> anyhow::Result<BTreeMap<Utf8PathBuf, Placed>> {
    let provenance = &entry.provenance;
    let companions = || provenance.companions.iter().map(|companion| &companion.path);
    let own: BTreeSet<&Utf8PathBuf> = companions().collect();
    let mut files = BTreeMap::new();
    for executable in &provenance.executables {
        let folders = executable.library_folders();
        // Companions need libraries too. They are where the entry's build put them.
        let roots = companions().cloned().chain([entry.folder.join(&executable.file)]);
        let of_build =
            |path: &Utf8Path| path.starts_with(root) || folders.iter().any(|folder| path.starts_with(folder));
        for library in libraries::closure(roots, &folders, of_build)? {
            if own.contains(&library) {
                continue;
            }
            let name = library.file_name().context("a library has a name")?;
            let path = match library.strip_prefix(root) {
                Ok(below) => below.to_owned(),
                Err(_) => Utf8Path::new(subfolder::LIBRARIES).join(name),
            };
            // The loader wants the file under the name that it asks for, which is often a link.
            let resolved = library.canonicalize_utf8()?;
            files.insert(path, writer.place_file(&resolved)?);
        }
    }
    Ok(files)
}

/// Returns the dynamic loaders that the executables name.
fn loaders(entries: &[&Entry]) -> anyhow::Result<Vec<Utf8PathBuf>> {
    let mut loaders = BTreeSet::new();
    for entry in entries {
        for executable in &entry.provenance.executables {
            loaders.extend(libraries::read(&entry.folder.join(&executable.file))?.interpreter);
        }
    }
    Ok(loaders.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn globs(patterns: &[&str]) -> DataGlobs {
        DataGlobs::new(&patterns.iter().map(|pattern| (*pattern).to_owned()).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn a_glob_takes_files_and_whole_folders() {
        let globs = globs(&["tests/data/", "*.json", "models/**/*.bin"]);
        assert_eq!(globs.matches("tests/data/a/b.txt".into()), [0]);
        assert_eq!(globs.matches("a.json".into()), [1]);
        assert!(globs.matches("src/a.json".into()).is_empty());
        assert_eq!(globs.matches("models/x/y/w.bin".into()), [2]);
        assert_eq!(globs.matches("models/w.bin".into()), [2]);
        assert!(globs.matches("tests/database/a".into()).is_empty());
    }

    #[test]
    fn a_glob_that_matches_nothing_is_a_mistake() {
        let globs = globs(&["a", "b"]);
        let user_error = globs.check_all_matched(&BTreeSet::from([0])).unwrap_err();
        assert_eq!(user_error.to_string(), "--data 'b' matches no file of any revision");
        assert!(globs.check_all_matched(&BTreeSet::from([0, 1])).is_ok());
        let error = DataGlobs::new(&["a[".to_owned()]).err().unwrap().to_string();
        assert!(error.starts_with("--data 'a['"), "{error}");
    }
}
