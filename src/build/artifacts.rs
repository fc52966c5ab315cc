//! Copies the test executables that cargo built into the store, and the files that they need.

use std::path::Path;

use anyhow::Context;
use camino::{Utf8Path, Utf8PathBuf};
use cargo_metadata::Artifact;

use crate::build::libraries;
use crate::build::provenance::{Companion, Executable};
use crate::build::store::Draft;
use crate::build::test_listing::{self, Listing};
use crate::build::wrapper;
use crate::cargo::manifest;
use crate::cargo::messages::{self, Messages};
use crate::inject::own_allocator::{self, OwnAllocators};
use crate::plan::clean_env::CleanEnv;
use crate::support::event::{Event, Sink};
use crate::support::paths;

/// A finished call of cargo.
pub struct Artifacts<'a> {
    /// The store entry that gets the files.
    pub draft: &'a Draft,
    /// Cargo's messages about its artifacts.
    pub messages: &'a Messages,
    /// The folder with the runner's note about each executable that cargo ran.
    pub notes: &'a Path,
    /// Cargo's target folder.
    pub target: &'a Utf8Path,
    /// The global allocators of the workspace; `None` if the tests are in a crate outside it.
    pub allocators: Option<&'a OwnAllocators>,
    /// Which variables tests inherit. `None` means all.
    pub clean_env: Option<&'a CleanEnv>,
    /// Where warnings go.
    pub sink: &'a dyn Sink,
}

impl Artifacts<'_> {
    /// Copies the test executables to the draft. Returns each with its tests, and with the folder
    /// and the variables that cargo would run it with.
    ///
    /// # Errors
    ///
    /// A file cannot be read or copied, or cargo built an executable without calling the runner.
    pub fn executables(&self, runner: &[String], key: &str) -> anyhow::Result<Vec<Executable>> {
        let mut executables = Vec::new();
        for artifact in self.messages.artifacts.iter().filter(|artifact| artifact.profile.test) {
            if let Some(built) = &artifact.executable {
                executables.extend(self.executable(artifact, built, executables.len(), runner, key)?);
            }
        }
        // Cargo's own order is the one in which it happened to finish the crates.
        executables.sort_by(|a, b| (&a.package, a.kind, &a.binary).cmp(&(&b.package, b.kind, &b.binary)));
        Ok(executables)
    }

    /// Copies one test executable. Returns `None`, after a warning, if it does not contain the
    /// shim.
    fn executable(
        &self,
        artifact: &Artifact,
        built: &Utf8Path,
        index: usize,
        runner: &[String],
        key: &str,
    ) -> anyhow::Result<Option<Executable>> {
        let Some(kind) = manifest::target_kind(&artifact.target) else { return Ok(None) };
        let file_name = built.file_name().context("an executable has a name")?;
        let note = fs_err::read(self.notes.join(format!("{file_name}.json")))
            .with_context(|| format!("cargo built {built}, but did not run it"))?;
        let invocation: wrapper::TestInvocation = serde_json::from_slice(&note)?;
        let directory = paths::utf8(invocation.directory)?;
        let harness = !manifest::without_harness(&artifact.manifest_path)?
            .iter()
            .any(|(without, name)| *without == kind && (name.is_empty() || *name == artifact.target.name));
        let file = Utf8PathBuf::from(format!("{index}-{file_name}"));
        let hash = match self.draft.add_executable(built, &file, key) {
            Ok(hash) => hash,
            Err(error) => {
                let target = format!("{} {}", artifact.target.name, artifact.target.src_path);
                let message = format!("{target} is skipped: {error:#}");
                self.sink.emit(Event::Warning { message, help: None });
                return Ok(None);
            }
        };
        let listing = if harness {
            test_listing::list(built, runner, &directory, &invocation.environment, self.clean_env)
        } else {
            Listing::default()
        };
        if !listing.absent_libraries.is_empty() {
            let target = artifact.target.name.clone();
            self.sink.emit(Event::AbsentLibraries { target, names: listing.absent_libraries });
        }
        Ok(Some(Executable {
            package: manifest::package_name(artifact)?,
            binary: artifact.target.name.clone(),
            kind,
            harness,
            tests: listing.tests,
            unlisted: listing.unlisted,
            file,
            hash,
            directory,
            environment: invocation.environment,
            heap_absent: self.heap_absent(artifact, built, file_name),
        }))
    }

    /// Returns why an executable has no heap metrics: the compiler wrapper marked it, because the
    /// target has its own allocator.
    fn heap_absent(&self, artifact: &Artifact, built: &Utf8Path, file_name: &str) -> Option<String> {
        let mark = built.with_file_name(format!("{file_name}.{}", wrapper::OWN_ALLOCATOR));
        let owner = fs_err::read_to_string(mark).ok()?;
        Some(match self.allocators {
            Some(allocators) => allocators.why_absent(&artifact.target.src_path, &owner),
            None => own_allocator::outside(),
        })
    }

    /// Copies the files that these executables may run, or load from the target folder.
    pub fn companions(&self, executables: &[Executable]) -> anyhow::Result<Vec<Companion>> {
        let mut companions = programs_and_libraries(self.draft, &self.messages.artifacts)?;
        self.add_libraries(executables, &mut companions)?;
        Ok(companions)
    }

    /// Adds the shared libraries that the loader takes from the target folder, because the next
    /// revision's build may replace them. The outputs of a dependency's build script can stay: they
    /// have their own folder for each version of it.
    fn add_libraries(
        &self,
        executables: &[Executable],
        companions: &mut Vec<Companion>,
    ) -> anyhow::Result<()> {
        let foreign =
            |path: &Utf8Path| self.messages.foreign_out_directories.iter().any(|out| path.starts_with(out));
        for executable in executables {
            let files = companions.iter().map(|companion| companion.path.clone());
            let files = files.chain([self.draft.path(&executable.file)]);
            let folders = executable.library_folders();
            let of_build = |path: &Utf8Path| path.starts_with(self.target) && !foreign(path);
            for library in libraries::closure(files, &folders, of_build)? {
                add_companion(self.draft, companions, &library)?;
            }
        }
        Ok(())
    }
}

/// Copies the checkout's programs and shared libraries that tests may run or load from the target
/// folder.
fn programs_and_libraries(draft: &Draft, artifacts: &[Artifact]) -> anyhow::Result<Vec<Companion>> {
    let mut companions: Vec<Companion> = Vec::new();
    for artifact in
        artifacts.iter().filter(|artifact| !artifact.profile.test && messages::is_path_package(artifact))
    {
        let dynamic = artifact.target.kind.iter().any(|kind| {
            matches!(kind, cargo_metadata::TargetKind::CDyLib | cargo_metadata::TargetKind::DyLib)
        });
        let libraries = artifact.filenames.iter().filter(|file| {
            dynamic && file.extension().is_some_and(|extension| ["so", "dylib"].contains(&extension))
        });
        for path in artifact.executable.iter().chain(libraries) {
            let is_build_script = artifact
                .target
                .kind
                .iter()
                .any(|kind| matches!(kind, cargo_metadata::TargetKind::CustomBuild));
            if !is_build_script {
                add_companion(draft, &mut companions, path)?;
            }
        }
    }
    Ok(companions)
}

/// Copies a file, unless it was copied already.
fn add_companion(draft: &Draft, companions: &mut Vec<Companion>, path: &Utf8Path) -> anyhow::Result<()> {
    if companions.iter().any(|known| known.path == *path) {
        return Ok(());
    }
    let name = path.file_name().unwrap_or_default();
    let file = Utf8PathBuf::from(format!("companion-{}-{name}", companions.len()));
    let hash = draft.add_companion(path, &file)?;
    companions.push(Companion { path: path.to_owned(), file, hash });
    Ok(())
}
