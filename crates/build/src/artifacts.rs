//! Copies the test executables that cargo built into the store, and the files that they need.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::Context;
use camino::{Utf8Path, Utf8PathBuf};
use cargo_metadata::Artifact;

use crate::cargo::manifest;
use crate::cargo::messages::{self, Messages};
use crate::compiled_test;
use crate::inject::own_allocator::{self, OwnAllocators};
use crate::key_stamp::Unproven;
use crate::known_files::{self, KnownFiles};
use crate::libraries;
use crate::library_listing;
use crate::noting_runner;
use crate::programs::BuiltProgram;
use crate::provenance::{Companion, Executable, FailedTarget, ListedTest};
use crate::reached_code;
use crate::read_outputs;
use crate::shared_files::SharedFiles;
use crate::stand_in;
use crate::store::{self, Content, Draft};
use crate::test_listing::{self, Listing, Start};
use crate::texts::{Texts, Traits};
use memprof_judge::symbols::test_body::TestBody;
use memprof_plan::clean_env::CleanEnv;
use memprof_plan::listing::NotMeasured;
use memprof_plan::request::TargetKind;
use memprof_support::event::Event;
use memprof_support::parallel;
use memprof_support::paths;
use memprof_support::regular_file::followed;

/// A finished call of cargo.
pub(crate) struct Artifacts<'a> {
    /// The store entry that gets the files.
    pub draft: &'a Draft,
    /// Cargo's messages about its artifacts.
    pub messages: &'a Messages,
    /// The executables of other builds.
    pub shared: &'a SharedFiles,
    /// The hashes of files that were read before.
    pub known: &'a KnownFiles,
    /// The folder with the runner's note about each executable that cargo ran.
    pub notes: &'a Path,
    /// The root of the checkout.
    pub checkout: &'a Utf8Path,
    /// Cargo's target folder.
    pub target: &'a Utf8Path,
    /// The global allocators of the workspace; `None` if the tests are in a crate outside it.
    pub allocators: Option<&'a OwnAllocators>,
    /// Which variables tests inherit. `None` means all.
    pub clean_env: Option<&'a CleanEnv>,
    /// `rustc -vV`.
    pub toolchain: &'a str,
    /// Whether it matters what each test can reach.
    pub is_affected: bool,
}

/// How many executables are in memory at the same time.
const MOST_AT_ONCE: usize = 4;

/// How many errors of a target are kept. The log has all of them.
const SHOWN: usize = 3;

/// The test executables of a build.
#[derive(Debug, Default)]
pub(crate) struct Collected {
    /// The executables that were copied, each with its tests.
    pub executables: Vec<Executable>,
    /// Executables that are not proven to be of this build.
    pub unproven: Vec<NotMeasured>,
    /// The targets that do not compile.
    pub failed: Vec<FailedTarget>,
    /// Warnings about libraries that an executable does not find.
    pub absent_libraries: Vec<Event>,
}

impl Collected {
    fn add(&mut self, mut other: Self) {
        self.executables.append(&mut other.executables);
        self.unproven.append(&mut other.unproven);
        self.failed.append(&mut other.failed);
        self.absent_libraries.append(&mut other.absent_libraries);
    }
}

impl Artifacts<'_> {
    /// Copies the test executables to the draft, on all processors. Returns each with its tests, and with the
    /// folder and the variables that cargo would run it with.
    ///
    /// # Errors
    ///
    /// A file cannot be read or copied, or cargo built an executable without calling the runner.
    pub fn executables(
        &self,
        programs: &[BuiltProgram],
        runner: &[String],
        key: &str,
    ) -> anyhow::Result<Collected> {
        let mut collected = Collected::default();
        for program in programs {
            self.collect_program(&mut collected, program, key)?;
        }
        let tests = self.messages.artifacts.iter().filter(|artifact| artifact.profile.test);
        let tests = tests.filter_map(|artifact| {
            Some((artifact, manifest::target_kind(&artifact.target)?, artifact.executable.as_ref()?))
        });
        let tests: Vec<_> = (programs.len()..).zip(tests).collect();
        let collect = |(number, (artifact, kind, built)): &(usize, (_, _, _))| {
            let mut one = Collected::default();
            self.collect(&mut one, *number, (*artifact, *kind, *built), runner, key).map(|()| one)
        };
        for one in parallel::map(&tests, MOST_AT_ONCE, collect) {
            collected.add(one?);
        }
        // Cargo's own order is the one in which it happened to finish the crates.
        collected
            .executables
            .sort_by(|a, b| (&a.package, a.kind, &a.binary).cmp(&(&b.package, b.kind, &b.binary)));
        collected
            .failed
            .sort_by(|a, b| (&a.package, a.kind, &a.binary).cmp(&(&b.package, b.kind, &b.binary)));
        collected
            .unproven
            .sort_by(|a, b| (&a.package, a.kind, &a.binary).cmp(&(&b.package, b.kind, &b.binary)));
        Ok(collected)
    }

    /// Copies one test executable, if it is proven to be this build.
    fn collect(
        &self,
        collected: &mut Collected,
        number: usize,
        (artifact, kind, built): (&Artifact, TargetKind, &Utf8PathBuf),
        runner: &[String],
        key: &str,
    ) -> anyhow::Result<()> {
        if mark_beside(built, stand_in::NOT_SELECTED)?.is_some() {
            return Ok(());
        }
        if mark_beside(built, stand_in::NOT_COMPILED)?.is_some() {
            collected.failed.push(self.failed(artifact, kind)?);
            return Ok(());
        }
        let file_name = built.file_name().context("an executable has a name")?;
        let note = followed::read(self.notes.join(format!("{file_name}.json")))
            .with_context(|| format!("cargo built {built}, but did not run it"))?;
        let invocation: noting_runner::TestInvocation = serde_json::from_slice(&note)?;
        let directory = paths::utf8(invocation.directory)?;
        let harness = !manifest::without_harness(&artifact.manifest_path)?
            .iter()
            .any(|(without, name)| *without == kind && (name.is_empty() || *name == artifact.target.name));
        let package = manifest::package_name(artifact)?;
        // Cargo's order varies, and a test has its path on the heap: all paths are equally long.
        // A test may look for programs beside the folder `deps` that cargo puts its executable into.
        let file = Utf8PathBuf::from(format!("deps/{number:04}-{file_name}"));
        let copied = match self.draft.add_executable(built, &file, key, self.shared, self.known)? {
            Ok(copied) => copied,
            // An empty crate has no tests and no shim.
            Err(Unproven::NoPlace) if mark_beside(built, compiled_test::CONFIGURED_OUT)?.is_some() => {
                return Ok(());
            }
            Err(unproven) => {
                let binary = artifact.target.name.clone();
                let reason = unproven.to_string();
                collected.unproven.push(NotMeasured { package, binary, kind, reason });
                return Ok(());
            }
        };
        let mut library = None;
        let (same, traits, body) = match &copied.content {
            Content::Shared(same) => {
                let traits = same.executable.traits.and_then(Traits::current);
                (Some(same), traits, same.executable.body.clone())
            }
            Content::Read(bytes) => (
                None,
                Some(Traits::in_checkout(&Texts::of(bytes), self.is_optimised(), self.checkout)),
                harness.then(|| TestBody::find(bytes, self.toolchain)),
            ),
        };
        let known = same.and_then(|same| same.tests(runner, &directory, &invocation.environment));
        let start = Start {
            executable: built,
            runner,
            directory: &directory,
            environment: &invocation.environment,
            clean_env: self.clean_env,
        };
        let listing = if let Some(tests) = known.filter(|_| harness) {
            Listing { tests, ..Listing::default() }
        } else if harness {
            test_listing::list(start)
        } else {
            let found = library_listing::list(start);
            library = found.as_ref().map(|found| found.library);
            Listing { tests: found.map(|found| found.tests).unwrap_or_default(), ..Listing::default() }
        };
        let known = same.map(|same| &same.executable.reached).filter(|reached| !reached.is_empty());
        let (reached, unknown_reach) = match known {
            Some(known) => (known.clone(), None),
            None if self.is_affected && harness && listing.unlisted.is_none() => {
                match reached(built, &listing.tests) {
                    Ok(reached) => (reached, None),
                    Err(error) => (BTreeMap::new(), Some(format!("{error:#}"))),
                }
            }
            None => (BTreeMap::new(), None),
        };
        if !listing.absent_libraries.is_empty() {
            let target = artifact.target.name.clone();
            collected
                .absent_libraries
                .push(Event::AbsentLibraries { target, names: listing.absent_libraries });
        }
        collected.executables.push(Executable {
            package,
            binary: artifact.target.name.clone(),
            kind,
            is_program: false,
            harness,
            library,
            tests: listing.tests,
            unlisted: listing.unlisted,
            file,
            hash: copied.hash,
            key: copied.key,
            code: Some(copied.code),
            package_folder: Some(self.below_checkout(&messages::package_folder(artifact))),
            directory,
            environment: invocation.environment,
            heap_absent: self.heap_absent(&artifact.target.src_path, built)?,
            body: body.filter(|_| harness),
            traits,
            reached,
            unknown_reach,
        });
        Ok(())
    }

    /// Whether the compiler optimises a package of the checkout.
    fn is_optimised(&self) -> bool {
        let own = self.messages.artifacts.iter().filter(|artifact| messages::is_path_package(artifact));
        own.filter(|artifact| artifact.target.kind != [cargo_metadata::TargetKind::CustomBuild])
            .any(|artifact| artifact.profile.opt_level != "0")
    }

    /// Copies a program, if it is proven to be this build.
    fn collect_program(
        &self,
        collected: &mut Collected,
        program: &BuiltProgram,
        key: &str,
    ) -> anyhow::Result<()> {
        let BuiltProgram { package, name: binary, kind, root, compiled, copy, invocation, .. } = program;
        let (package, binary, kind) = (package.clone(), binary.clone(), *kind);
        let file = Utf8PathBuf::from(format!("{:04}-{binary}", collected.executables.len()));
        let copied = match self.draft.add_executable(copy, &file, key, self.shared, self.known)? {
            Ok(copied) => copied,
            Err(unproven) => {
                let reason = unproven.to_string();
                collected.unproven.push(NotMeasured { package, binary, kind, reason });
                return Ok(());
            }
        };
        collected.executables.push(Executable {
            package,
            binary,
            kind,
            is_program: true,
            harness: false,
            library: None,
            tests: Vec::new(),
            unlisted: None,
            file,
            hash: copied.hash,
            key: copied.key,
            code: Some(copied.code),
            // Who names a program wants its figures.
            package_folder: None,
            directory: paths::utf8(invocation.directory.clone())?,
            environment: invocation.environment.clone(),
            heap_absent: self.heap_absent(root, compiled)?,
            body: None,
            traits: None,
            reached: BTreeMap::new(),
            unknown_reach: None,
        });
        Ok(())
    }

    /// Returns a target that does not compile, with its errors.
    fn failed(&self, artifact: &Artifact, kind: TargetKind) -> anyhow::Result<FailedTarget> {
        let root = &artifact.target.src_path;
        Ok(FailedTarget {
            package: manifest::package_name(artifact)?,
            binary: artifact.target.name.clone(),
            kind,
            root: self.below_checkout(root),
            errors: self.messages.errors_in(artifact, SHOWN),
            is_program: false,
        })
    }

    /// Returns a path relative to the checkout, if it is in there.
    fn below_checkout(&self, path: &Utf8Path) -> Utf8PathBuf {
        path.strip_prefix(self.checkout).unwrap_or(path).to_owned()
    }

    /// Returns the folders of the packages whose sources a checkout can change.
    pub fn local_packages(&self) -> BTreeSet<Utf8PathBuf> {
        let local = self.messages.artifacts.iter().filter(|artifact| messages::is_path_package(artifact));
        local.map(|artifact| self.below_checkout(&messages::package_folder(artifact))).collect()
    }

    /// Returns `OUT_DIR` of each build script of these packages, with a hash of its files.
    pub fn outputs(&self) -> BTreeMap<Utf8PathBuf, Option<String>> {
        let folders = self.messages.scripts.iter().map(|script| &script.out);
        folders.map(|folder| (folder.clone(), known_files::hash_folder(folder).ok())).collect()
    }

    /// Returns why an executable has no heap metrics: the compiler wrapper marked it, because the
    /// target has its own allocator.
    fn heap_absent(&self, root: &Utf8Path, built: &Utf8Path) -> anyhow::Result<Option<String>> {
        let owner = mark_beside(built, compiled_test::OWN_ALLOCATOR)?;
        Ok(owner.map(|owner| match self.allocators {
            Some(allocators) => allocators.why_absent(root, &owner),
            None => own_allocator::outside(),
        }))
    }

    /// Copies the files that these executables may run, or load from the target folder.
    pub fn companions(&self, executables: &[Executable]) -> anyhow::Result<Vec<Companion>> {
        let mut companions = self.programs_and_libraries(&self.messages.artifacts)?;
        self.add_libraries(executables, &mut companions)?;
        self.add_outputs(executables, &mut companions)?;
        Ok(companions)
    }

    /// Copies the checkout's programs and shared libraries that tests may run or load from the target
    /// folder.
    fn programs_and_libraries(&self, artifacts: &[Artifact]) -> anyhow::Result<Vec<Companion>> {
        let mut companions: Vec<Companion> = Vec::new();
        let is_test = |artifact: &&Artifact| artifact.profile.test;
        let profile = artifacts
            .iter()
            .filter(is_test)
            .find_map(|artifact| artifact.executable.as_ref()?.parent()?.parent());
        for artifact in
            artifacts.iter().filter(|artifact| !artifact.profile.test && messages::is_path_package(artifact))
        {
            let dynamic = artifact.target.kind.iter().any(|kind| {
                matches!(kind, cargo_metadata::TargetKind::CDyLib | cargo_metadata::TargetKind::DyLib)
            });
            let libraries = artifact.filenames.iter().filter(|file| dynamic && libraries::is_shared(file));
            for path in artifact.executable.iter().chain(libraries) {
                let is_build_script = artifact
                    .target
                    .kind
                    .iter()
                    .any(|kind| matches!(kind, cargo_metadata::TargetKind::CustomBuild));
                if !is_build_script {
                    let is_program = artifact.executable.as_ref() == Some(path);
                    let package =
                        is_program.then(|| self.below_checkout(&messages::package_folder(artifact)));
                    self.add_companion(&mut companions, path, profile, package)?;
                }
            }
        }
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
                self.add_companion(companions, &library, None, None)?;
            }
        }
        Ok(())
    }

    /// Adds what build scripts left in `OUT_DIR`, if a test may read it while it runs.
    fn add_outputs(&self, executables: &[Executable], companions: &mut Vec<Companion>) -> anyhow::Result<()> {
        let executables: Vec<_> = executables.iter().map(|one| (self.draft.path(&one.file), one)).collect();
        let folders = self.messages.scripts.iter().map(|script| script.out.as_path());
        for file in read_outputs::of_scripts(folders, &executables)? {
            self.add_companion(companions, &file, None, None)?;
        }
        Ok(())
    }

    /// Adds a file, unless it is there already. Programs and libraries get the places in the entry that they
    /// have in the folder of cargo's profile, because tests also look for them relative to their own executable.
    fn add_companion(
        &self,
        companions: &mut Vec<Companion>,
        path: &Utf8Path,
        profile: Option<&Utf8Path>,
        package_folder: Option<Utf8PathBuf>,
    ) -> anyhow::Result<()> {
        if companions.iter().any(|known| known.path == *path) {
            return Ok(());
        }
        let name = path.file_name().unwrap_or_default();
        let below = profile.and_then(|profile| path.strip_prefix(profile).ok());
        let is_free = |below: &&Utf8Path| {
            below.starts_with("examples")
                // Executables have a number in front there, and libraries `lib`.
                || below.parent() == Some(Utf8Path::new("deps")) && libraries::is_shared(below)
                || below.iter().count() == 1 && !store::OWN_NAMES.contains(&below.as_str())
        };
        let file = match below.filter(is_free) {
            Some(below) => below.to_owned(),
            None => Utf8PathBuf::from(format!("companion-{}-{name}", companions.len())),
        };
        let hash = self.draft.add_companion(path, &file, self.shared, self.known)?;
        companions.push(Companion { path: path.to_owned(), file, hash, package_folder });
        Ok(())
    }
}

/// Returns a hash of what each test of an executable can reach.
fn reached(built: &Utf8Path, tests: &[ListedTest]) -> anyhow::Result<BTreeMap<String, String>> {
    let map = followed::text(built.with_extension(reached_code::MAP))
        .context("the linker wrote no map, which it does for Linux on x86-64")?;
    let names: Vec<&str> = tests.iter().map(|test| test.name.as_str()).collect();
    reached_code::of_tests(&followed::read(built)?, &map, &names)
}

/// Reads the compiler wrapper's mark next to an executable, if it left one.
fn mark_beside(built: &Utf8Path, extension: &str) -> anyhow::Result<Option<String>> {
    let name = built.file_name().unwrap_or_default();
    match followed::text(built.with_file_name(format!("{name}.{extension}"))) {
        Ok(mark) => Ok(Some(mark)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use camino::Utf8PathBuf;
    use serde_json::json;

    use super::*;
    use crate::provenance::samples::KEY;

    /// A build of the test executable `keep`, with this content.
    struct Built {
        folder: tempfile::TempDir,
        messages: Messages,
    }

    impl Built {
        fn from_content(content: &[u8]) -> Self {
            let folder = tempfile::tempdir().unwrap();
            let root = Utf8Path::from_path(folder.path()).unwrap();
            fs_err::write(root.join("Cargo.toml"), "[package]\nname = 'kept'\nversion = '1.0.0'\n").unwrap();
            fs_err::write(root.join("keep-1"), content).unwrap();
            let invocation = noting_runner::TestInvocation {
                executable: root.join("keep-1").into(),
                directory: root.into(),
                environment: std::collections::BTreeMap::new(),
            };
            fs_err::write(root.join("keep-1.json"), serde_json::to_vec(&invocation).unwrap()).unwrap();
            let line = json!({
                "reason": "compiler-artifact",
                "package_id": format!("path+file://{root}#kept@1.0.0"),
                "manifest_path": root.join("Cargo.toml"),
                "target": {
                    "kind": ["test"], "crate_types": ["bin"], "name": "keep", "edition": "2021",
                    "src_path": root.join("tests/keep.rs"), "doc": false, "doctest": false, "test": true,
                },
                "profile": {
                    "opt_level": "0", "debuginfo": 0, "debug_assertions": true, "overflow_checks": true,
                    "test": true,
                },
                "features": [], "filenames": [root.join("keep-1")], "executable": root.join("keep-1"),
                "fresh": false,
            });
            let mut messages = Messages::default();
            messages.take(line.to_string().as_bytes(), |_| false);
            assert_eq!(messages.artifacts.len(), 1);
            Self { folder, messages }
        }

        fn root(&self) -> Utf8PathBuf {
            Utf8PathBuf::from_path_buf(self.folder.path().to_owned()).unwrap()
        }

        fn collected(&self, draft: &Draft) -> anyhow::Result<Collected> {
            self.with_artifacts(draft, |artifacts| artifacts.executables(&[], &[], KEY))
        }

        fn with_artifacts<R>(&self, draft: &Draft, use_them: impl FnOnce(&Artifacts) -> R) -> R {
            use_them(&Artifacts {
                draft,
                messages: &self.messages,
                shared: &SharedFiles::default(),
                known: &KnownFiles::default(),
                notes: self.folder.path(),
                checkout: &self.root(),
                target: &self.root(),
                allocators: None,
                clean_env: None,
                toolchain: "",
                is_affected: false,
            })
        }

        fn draft(&self) -> Draft {
            Draft::new(&self.root().join("store"), KEY).unwrap()
        }
    }

    #[test]
    fn an_executable_that_is_not_proven_is_kept_with_the_reason() {
        let built = Built::from_content(b"another program");
        let collected = built.collected(&built.draft()).unwrap();
        assert!(collected.executables.is_empty());
        let [unproven] = &collected.unproven[..] else { panic!("{:?}", collected.unproven) };
        assert_eq!((unproven.to_string().as_str(), unproven.kind), ("kept::keep", TargetKind::Test));
        assert!(unproven.reason.contains("no place for the build key"), "{}", unproven.reason);
    }

    #[test]
    fn a_target_that_is_configured_out_has_nothing_to_measure() {
        let built = Built::from_content(b"an empty program");
        let mark = built.root().join(format!("keep-1.{}", compiled_test::CONFIGURED_OUT));
        fs_err::write(mark, "").unwrap();
        let collected = built.collected(&built.draft()).unwrap();
        assert!(collected.executables.is_empty() && collected.unproven.is_empty());
    }

    #[test]
    fn an_executable_that_cannot_be_copied_fails_the_build_with_path_and_reason() {
        let built = Built::from_content(&[&b"cargo-memprof-build-key:"[..], &[b'-'; 64]].concat());
        let draft = built.draft();
        let place = draft.path("deps/0000-keep-1".into());
        fs_err::create_dir_all(&place).unwrap();
        let error = format!("{:#}", built.collected(&draft).unwrap_err());
        assert!(error.contains(place.as_str()) && error.contains("directory"), "{error}");
    }

    #[test]
    fn a_library_keeps_its_place_beside_the_test_executables() {
        let mut built = Built::from_content(b"");
        let root = built.root();
        let folder = root.join("debug/deps");
        let [test] = &mut built.messages.artifacts[..] else { panic!("one artifact") };
        test.executable = Some(folder.join("keep-1"));
        let mut library = test.clone();
        library.executable = None;
        library.profile.test = false;
        library.target.kind = vec![cargo_metadata::TargetKind::CDyLib];
        library.filenames = vec![folder.join("libkept.so"), root.join("elsewhere/libkept.so")];
        for file in &library.filenames {
            fs_err::create_dir_all(file.parent().unwrap()).unwrap();
            fs_err::write(file, "a library").unwrap();
        }
        built.messages.artifacts.push(library);
        let draft = built.draft();
        let companions = built.with_artifacts(&draft, |artifacts| artifacts.companions(&[])).unwrap();
        let files: Vec<&Utf8Path> = companions.iter().map(|companion| companion.file.as_path()).collect();
        assert_eq!(files, ["deps/libkept.so", "companion-1-libkept.so"]);
        assert!(files.into_iter().all(|file| draft.path(file).is_file()));
    }

    #[test]
    fn an_executable_that_is_gone_is_a_failed_build_of_its_revision() {
        let built = Built::from_content(b"");
        fs_err::remove_file(built.root().join("keep-1")).unwrap();
        let error = built.collected(&built.draft()).unwrap_err();
        assert!(crate::failure::concerns_one_revision(&error), "{error:#}");
        assert!(format!("{error:#}").contains("keep-1"), "{error:#}");
    }
}
