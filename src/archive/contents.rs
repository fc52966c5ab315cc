//! From finished builds to an archive: what a machine that only runs will need of the machine that built.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context;
use camino::{Utf8Path, Utf8PathBuf};
use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

use crate::archive::manifest::{ArchivedBuild, ArchivedRevision, Injection, Manifest, Placed};
use crate::archive::writer::{Parcel, Written};
use crate::build::attempts::Build;
use crate::build::libraries;
use crate::build::store::{Entry, PROVENANCE};
use crate::build::test_tree::TestTree;
use crate::git::program::nul_separated;
use crate::git::repository::Repository;
use crate::inject::overlay::{self, OverlayFile};
use crate::plan::request::OverlayMode;
use crate::plan::resolved::Plan;
use crate::results::run_folder::RunFolder;
use crate::run::session::Prepared;
use crate::support::user_error::UserError;

/// The folders below the root that a machine which only runs sees filled.
pub mod place {
    /// The checkout.
    pub const CHECKOUT: &str = "worktree";
    /// The crate of external overlays.
    pub const EXTERNAL: &str = "external";
    /// Cargo's target folder.
    pub const TARGET: &str = "target";
    /// Libraries of the toolchain.
    pub const LIBRARIES: &str = "libraries";
}

/// What is packed, and where it is to be had.
pub struct Packing<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// The user's repository.
    pub repository: &'a Repository,
    /// The folder with the builds' logs and facts.
    pub folder: &'a RunFolder,
    /// Which files of each revision the tests read: globs, relative to the repository's root.
    pub data: &'a [String],
    /// The metrics that the matrix wants shown.
    pub metrics: &'a [String],
}

impl Packing<'_> {
    /// Writes the archive. The checkout is brought to each revision in turn.
    pub fn write(&self, file: &Utf8Path, prepared: &mut Prepared<'_>) -> anyhow::Result<Written> {
        let entries = || prepared.builds.iter().filter_map(Build::entry);
        let first = entries().next().context("no revision was built, so that there is nothing to archive")?;
        let ingredients = &first.provenance.ingredients;
        let root = ingredients.checkout.parent().context("the checkout has a folder above it")?.to_owned();
        let host = ingredients.toolchain.lines().find_map(|line| line.strip_prefix("host: "));
        let target = first.provenance.target.as_deref().or(host).unwrap_or_default().to_owned();
        let has_runner = entries().any(|entry| !entry.provenance.runner.is_empty());
        let loaders = loaders(entries())?;
        let globs = Globs::new(self.data)?;
        let external = self.external()?;

        let mut parcel = Parcel::begin(file)?;
        parcel.add_bytes("plan.json", &serde_json::to_vec_pretty(self.plan)?)?;
        parcel.add_bytes("cells.json", &serde_json::to_vec_pretty(&prepared.cells)?)?;
        parcel.add_file("run/builds.json", &self.folder.builds())?;
        if self.folder.trace().exists() {
            parcel.add_file("run/trace.json", &self.folder.trace())?;
        }
        let mut revisions = Vec::new();
        let mut matched = BTreeSet::new();
        let mut packed = BTreeSet::new();
        for (index, build) in prepared.builds.iter().enumerate() {
            let log = self.folder.build_log(self.plan, index);
            if log.exists() {
                parcel.add_file(Utf8Path::new("run").join(log.strip_prefix(&self.folder.0)?), &log)?;
            }
            let entry = match build {
                Build::Failed(failure) => {
                    let build = ArchivedBuild::Failed(failure.clone());
                    revisions.push(ArchivedRevision { build, files: BTreeMap::new() });
                    continue;
                }
                Build::Done(entry) => entry,
            };
            prepared.builder.bring_to(index, entry)?;
            // Several refs can be one build.
            if packed.insert(entry.provenance.key.clone()) {
                add_entry(&mut parcel, entry)?;
            }
            let mut files = self.checkout_files(&mut parcel, entry, &globs, &mut matched)?;
            for file in &external {
                let path = Utf8Path::new(place::EXTERNAL).join(&file.destination);
                files.insert(path, parcel.place_bytes(&file.content)?);
            }
            files.extend(place_libraries(&mut parcel, entry, &root)?);
            let build = ArchivedBuild::Done(entry.provenance.key.clone());
            revisions.push(ArchivedRevision { build, files });
        }
        globs.complain_of_unmatched(&matched)?;
        let injection = match prepared.builder.injection_library() {
            Ok(library) => {
                let path = Utf8Path::new("injection").join(library.file_name().unwrap_or_default());
                parcel.add_file(path.clone(), &library)?;
                Injection::Library(path)
            }
            Err(reason) => Injection::Absent(reason),
        };
        let manifest = Manifest {
            tool: env!("CARGO_PKG_VERSION").to_owned(),
            target,
            has_runner,
            loaders,
            root,
            injection,
            metrics: self.metrics.to_vec(),
            revisions,
            contents: BTreeMap::new(),
        };
        parcel.finish(manifest)
    }

    /// Files of overlays that are not laid into the checkout.
    fn external(&self) -> anyhow::Result<Vec<OverlayFile>> {
        let request = &self.plan.request;
        let files = overlay::read(&request.overlay, &self.plan.overlay_commits, self.repository)?;
        Ok(files.into_iter().filter(|file| file.mode == OverlayMode::External).collect())
    }

    /// The files of the checkout that tests read: those that were named, manifests, and what was laid over the revision.
    ///
    /// They are taken from the checkout and not from git's objects: there, LFS, line endings and submodules are as tests
    /// see them.
    fn checkout_files(
        &self,
        parcel: &mut Parcel,
        entry: &Entry,
        globs: &Globs,
        matched: &mut BTreeSet<usize>,
    ) -> anyhow::Result<BTreeMap<Utf8PathBuf, Placed>> {
        let checkout = &entry.provenance.ingredients.checkout;
        let list = ["ls-files", "-z", "--cached", "--recurse-submodules"];
        let tracked = nul_separated(&self.repository.git_in(checkout).args(list).run()?.stdout);
        let tracked = tracked.into_iter().map(Utf8PathBuf::from);
        let injected: BTreeSet<&Utf8PathBuf> = entry.provenance.injected.iter().collect();
        let wanted = tracked.filter(|path| {
            let by_glob = globs.matches(path);
            let wanted = !by_glob.is_empty() || path.file_name() == Some("Cargo.toml");
            matched.extend(by_glob);
            wanted
        });
        let mut files = BTreeMap::new();
        for path in wanted.chain(injected.into_iter().cloned()) {
            let source = checkout.join(&path);
            // What a sparse checkout leaves out is listed and not there.
            if source.is_symlink() || source.is_file() {
                files.insert(Utf8Path::new(place::CHECKOUT).join(path), parcel.place_file(&source)?);
            }
        }
        Ok(files)
    }
}

/// The globs of `--data`.
struct Globs {
    patterns: Vec<String>,
    set: GlobSet,
}

impl Globs {
    fn new(patterns: &[String]) -> anyhow::Result<Self> {
        let mut set = GlobSetBuilder::new();
        for pattern in patterns {
            let clean = pattern.trim_start_matches("./").trim_end_matches('/');
            let glob = GlobBuilder::new(clean).literal_separator(true).build().map_err(|error| {
                UserError::new(format!("--data '{pattern}': {}", error.kind())).help(
                    "`*` matches in one folder, `**` across folders; a folder's name takes all below it",
                )
            })?;
            set.add(glob);
        }
        Ok(Self { patterns: patterns.to_vec(), set: set.build()? })
    }

    /// Which of them match the path or a folder above it.
    fn matches(&self, path: &Utf8Path) -> Vec<usize> {
        let paths = path.ancestors().filter(|path| !path.as_str().is_empty());
        paths.flat_map(|path| self.set.matches(path.as_std_path())).collect()
    }

    fn complain_of_unmatched(&self, matched: &BTreeSet<usize>) -> Result<(), UserError> {
        match self.patterns.iter().enumerate().find(|(index, _)| !matched.contains(index)) {
            None => Ok(()),
            Some((_, pattern)) => {
                Err(UserError::new(format!("no revision has a file for --data '{pattern}'"))
                    .help("paths begin at the repository's root, and only files that git tracks are taken"))
            }
        }
    }
}

/// Executables and companions, and what is known of them.
fn add_entry(parcel: &mut Parcel, entry: &Entry) -> anyhow::Result<()> {
    let name = entry.folder.file_name().context("an entry of the store has a name")?;
    let place = Utf8Path::new("store").join(name);
    let provenance = &entry.provenance;
    let executables = provenance.executables.iter().map(|executable| &executable.file);
    let companions = provenance.companions.iter().map(|companion| &companion.file);
    for file in executables.chain(companions) {
        parcel.add_file(place.join(file), &entry.folder.join(file))?;
    }
    parcel.add_file(place.join(PROVENANCE), &entry.folder.join(PROVENANCE))
}

/// The shared libraries that no other revision's build replaces, and which are therefore not in the store: those of
/// dependencies in the target folder, and the toolchain's.
fn place_libraries(
    parcel: &mut Parcel,
    entry: &Entry,
    root: &Utf8Path,
) -> anyhow::Result<BTreeMap<Utf8PathBuf, Placed>> {
    let provenance = &entry.provenance;
    let companions = || provenance.companions.iter().map(|companion| &companion.path);
    let own: BTreeSet<&Utf8PathBuf> = companions().collect();
    let mut files = BTreeMap::new();
    for executable in &provenance.executables {
        let folders = executable.library_folders();
        // Their own libraries count, too: the companions lie where the entry's build put them.
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
                Err(_) => Utf8Path::new(place::LIBRARIES).join(name),
            };
            // A link among libraries is one of names; the loader wants the file under the name it asks for.
            let resolved = library.canonicalize_utf8()?;
            files.insert(path, parcel.place_file(&resolved)?);
        }
    }
    Ok(files)
}

/// The loaders that the executables name.
fn loaders<'a>(entries: impl Iterator<Item = &'a Entry>) -> anyhow::Result<Vec<Utf8PathBuf>> {
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

    fn globs(patterns: &[&str]) -> Globs {
        Globs::new(&patterns.iter().map(|pattern| (*pattern).to_owned()).collect::<Vec<_>>()).unwrap()
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
        let user_error = globs.complain_of_unmatched(&BTreeSet::from([0])).unwrap_err();
        assert_eq!(user_error.to_string(), "no revision has a file for --data 'b'");
        assert!(globs.complain_of_unmatched(&BTreeSet::from([0, 1])).is_ok());
        let error = Globs::new(&["a[".to_owned()]).err().unwrap().to_string();
        assert!(error.starts_with("--data 'a['"), "{error}");
    }
}
