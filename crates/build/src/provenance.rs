//! `provenance.json`: the origin of a build's executables, and the inputs of its key.

use std::collections::{BTreeMap, BTreeSet};

use camino::Utf8PathBuf;
use serde::{Deserialize, Serialize};

use crate::harness_library::HarnessLibrary;
use crate::noting_runner::LIBRARY_PATHS;
use crate::outside_inputs::OutsideInputs;
use crate::texts::Traits;
use memprof_judge::results::trace_facts::TraceFacts;
use memprof_judge::symbols::test_body::TestBody;
use memprof_plan::clean_env::CleanEnv;
use memprof_plan::listing::NotMeasured;
use memprof_plan::request::{Selection, TargetKind};
use memprof_support::{redaction, secret_names};

/// The version of `provenance.json`'s format.
pub const VERSION: u32 = 3;

/// Everything that affects a build. Its hash is the build's key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyInputs {
    /// Full hash of the revision's tree.
    pub tree: String,
    /// Folder of the workspace in the revision.
    pub workspace: Utf8PathBuf,
    /// Hash of the injected lock file; `None` if the revision has its own.
    pub lock: Option<String>,
    /// `rustc -vV`.
    pub toolchain: String,
    /// Cargo's arguments: profile, features, target, packages, `--config`.
    pub arguments: Vec<String>,
    /// Variables that are known to affect builds, and all that the user gave.
    pub environment: BTreeMap<String, String>,
    /// Hash of cargo's configuration outside the repository.
    pub configuration: String,
    /// Hash of the shim's source.
    pub shim: String,
    /// Path and hash of every overlay file.
    pub overlay: BTreeMap<String, String>,
    /// Paths left out of the checkout.
    pub sparse_exclude: Vec<String>,
    /// The folder of the checkout. Executables contain its path.
    pub checkout: Utf8PathBuf,
    /// The patterns of traced functions. If there are none, they are not part of the key.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trace: Vec<String>,
    /// Which variables the build inherits. If it inherits all, this is not part of the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clean_env: Option<CleanEnv>,
    /// The programs that are built, as cargo's arguments name them. A build of tests alone has none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub programs: Vec<String>,
    /// Whether all binaries and examples are built, because a test may start one. If not, this is not
    /// part of the key.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub programs_of_tests: bool,
    /// Whether it matters what each test can reach. If not, this is not part of the key. Its name has the number of
    /// the rules by which that is found, as that of [`Executable::reached`] has.
    #[serde(default, skip_serializing_if = "std::ops::Not::not", rename = "affected_5")]
    pub affected: bool,
    /// Whether names have types. If not, this is not part of the key.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub typed_names: bool,
    /// What selects tests, if executables without a selected test were left out. If none were, this is not part of
    /// the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selected: Option<Vec<Selection>>,
    /// The names and parameters of what selects tests, which may match `filter`, too; `None` if there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selected_cells: Option<String>,
}

impl KeyInputs {
    /// Returns the build's key, 64 hexadecimal digits. If the inputs hold a secret, it also depends
    /// on the cache's salt, so that nobody can guess the secret from the key.
    ///
    /// # Panics
    ///
    /// Never: plain data has a JSON form.
    pub fn key(&self) -> String {
        let without_jobs = Self { arguments: without_jobs(&self.arguments), ..self.clone() };
        let text = serde_json::to_vec(&without_jobs).expect("the inputs are plain data");
        if self.redacted() == *self {
            blake3::hash(&text).to_hex().to_string()
        } else {
            redaction::of_process().keyed_hash(&text)
        }
    }

    /// Returns the inputs as they are stored, with marks in place of secrets.
    #[must_use]
    pub fn redacted(&self) -> Self {
        let setting = |text: &String| redaction::setting(text).into_owned();
        let variable = |(name, value): (&String, &String)| {
            let is_named = secret_names::is_secret(name);
            (name.clone(), if is_named { redaction::value(name, value) } else { setting(value) })
        };
        Self {
            arguments: self.arguments.iter().map(setting).collect(),
            environment: self.environment.iter().map(variable).collect(),
            overlay: self.overlay.iter().map(|(name, text)| (name.clone(), setting(text))).collect(),
            ..self.clone()
        }
    }
}

/// Returns cargo's arguments without `--jobs`, which changes nothing that is built.
fn without_jobs(arguments: &[String]) -> Vec<String> {
    let mut arguments = arguments.iter();
    let mut kept = Vec::new();
    while let Some(argument) = arguments.next() {
        if argument == "--jobs" {
            arguments.next();
        } else {
            kept.push(argument.clone());
        }
    }
    kept
}

/// `provenance.json`: the origin of a build's executables.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Provenance {
    /// Format version, [`VERSION`].
    pub version: u32,
    /// The build's key. Each executable contains it, or that of an earlier build with the same code.
    pub key: String,
    /// The commit that was checked out for the build. Commits with the same tree share the build.
    pub commit: String,
    /// The inputs of the key.
    #[serde(rename = "ingredients")]
    pub key_inputs: KeyInputs,
    /// Hash of the lock file as it was after the build.
    pub lock: Option<String>,
    /// The lock file's packages with their versions and sources, which builds of earlier versions lack.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub packages: Vec<String>,
    /// Hash over the sources of all crates of the checkout, as compiled.
    pub sources: String,
    /// The test executables.
    pub executables: Vec<Executable>,
    /// The test executables that cannot be proven to be this build, and why. They are not kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unproven: Vec<NotMeasured>,
    /// The test targets that do not compile.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed_targets: Vec<FailedTarget>,
    /// The programs that the packages have, such as `bin tool`, if a requested one is not among them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub known_programs: Vec<String>,
    /// The first error of a binary or an example that a test may start, if one does not build.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program_error: Option<String>,
    /// Other files that tests run or load from the path where they were built.
    pub companions: Vec<Companion>,
    /// The files that were injected into the checkout, as paths below `injected/` in the entry's
    /// folder.
    pub injected: Vec<Utf8PathBuf>,
    /// blake3 over the paths and contents of these files.
    pub injected_hash: String,
    /// The user's runner for test executables, program first; empty if there is none.
    pub runner: Vec<String>,
    /// The target triple, if it is not the build host's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// The functions that the user asked to trace, and whether each is traced.
    #[serde(default, skip_serializing_if = "TraceFacts::is_empty")]
    pub trace: TraceFacts,
    /// Why adapters for the build's frameworks are missing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
    /// Paths of the submodules that could not be fetched for the build.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing_submodules: Vec<Utf8PathBuf>,
    /// The folders of the packages whose sources a checkout can change, and those of the workspace's other packages.
    /// Those in the checkout are relative to it.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub local_packages: BTreeSet<Utf8PathBuf>,
    /// `OUT_DIR` of the build scripts of these packages, each with a hash of its files; `None` if one cannot
    /// be read.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub outputs: BTreeMap<Utf8PathBuf, Option<String>>,
    /// The files and folders of the checkout that cargo watches, apart from Rust sources. `None` if they are
    /// not known, and in builds of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watched: Option<BTreeSet<Utf8PathBuf>>,
    /// The files of the checkout that the compiler read.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub compiled: BTreeSet<Utf8PathBuf>,
    /// What else cargo tracks. Absent in builds of earlier versions, which are made again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outside: Option<OutsideInputs>,
}

impl Provenance {
    /// Returns the key that an executable contains, and that its tests report.
    pub fn key_in<'a>(&'a self, executable: &'a Executable) -> &'a str {
        executable.key.as_deref().unwrap_or(&self.key)
    }

    /// Returns the executables whose tests cannot be measured: those that are not proven to be this
    /// build, and those whose tests could not be listed. Targets that do not compile are not among
    /// them: they matter only to those who select their tests.
    pub fn not_measured(&self) -> Vec<NotMeasured> {
        let unlisted = self.executables.iter().filter_map(|executable| {
            let reason = executable.unlisted.as_ref()?;
            Some(NotMeasured {
                package: executable.package.clone(),
                binary: executable.binary.clone(),
                kind: executable.kind,
                reason: format!("its tests cannot be listed: {reason}"),
            })
        });
        self.unproven.iter().cloned().chain(unlisted).collect()
    }

    /// Returns the provenance as it is stored, with marks in place of secrets.
    #[must_use]
    pub fn redacted(&self) -> Self {
        let mut redacted = Self { key_inputs: self.key_inputs.redacted(), ..self.clone() };
        for executable in &mut redacted.executables {
            for (name, value) in &mut executable.environment {
                *value = redaction::value(name, value);
            }
            executable.unlisted = executable.unlisted.as_deref().map(|why| redaction::text(why).into_owned());
        }
        for word in &mut redacted.runner {
            *word = redaction::value("", word);
        }
        for one in &mut redacted.unproven {
            one.reason = redaction::text(&one.reason).into_owned();
        }
        for failed in &mut redacted.failed_targets {
            failed.errors = redaction::text(&failed.errors).into_owned();
        }
        for reason in &mut redacted.left_out {
            *reason = redaction::text(reason).into_owned();
        }
        redacted
    }

    /// Returns the names of the variables that tests need and whose values are not stored.
    pub fn redacted_variables(&self) -> BTreeSet<&str> {
        let environments = self.executables.iter().flat_map(|executable| &executable.environment);
        environments.filter(|(_, value)| redaction::is_mark(value)).map(|(name, _)| name.as_str()).collect()
    }

    /// Whether the user's runner contains a secret, which is not stored.
    pub fn is_runner_redacted(&self) -> bool {
        self.runner.iter().any(|word| redaction::is_mark(word))
    }
}

/// A test target that does not compile, in a build of the others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedTarget {
    pub package: String,
    /// The target's name.
    pub binary: String,
    pub kind: TargetKind,
    /// The root file, relative to the checkout if it is below that.
    pub root: Utf8PathBuf,
    /// The first errors, as the compiler rendered them.
    pub errors: String,
    /// Whether this is a program of the request.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_program: bool,
}

impl FailedTarget {
    /// Returns the first error with its place: `error[E0425]: cannot find value … --> tests/api.rs:2:15`
    pub fn first_error(&self) -> String {
        let mut lines = self.errors.lines().map(str::trim).skip_while(|line| line.is_empty());
        let Some(error) = lines.next() else { return "no error was printed".to_owned() };
        let place = lines.take_while(|line| !line.is_empty()).find(|line| line.starts_with("--> "));
        place.map_or_else(|| error.to_owned(), |place| format!("{error} {place}"))
    }

    /// Returns the features that have what the errors miss, as far as the compiler names them.
    pub fn missing_features(&self) -> Vec<&str> {
        let after_each = self.errors.split("gated behind the `").skip(1);
        let features = after_each.filter_map(|rest| Some(rest.split_once("` feature")?.0));
        features.collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Returns it as a target whose tests have no figures.
    pub fn not_measured(&self) -> NotMeasured {
        NotMeasured {
            package: self.package.clone(),
            binary: self.binary.clone(),
            kind: self.kind,
            reason: format!("it does not compile: {}", self.first_error()),
        }
    }
}

/// A test executable.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Executable {
    pub package: String,
    /// The target's name.
    pub binary: String,
    pub kind: TargetKind,
    /// Whether this is a program of the request, and its `main` runs with the cell's arguments.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_program: bool,
    /// Whether libtest's harness runs its tests.
    pub harness: bool,
    /// The library that runs its tests or benchmarks in place of libtest's harness. Without either, the
    /// whole executable is one test.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub library: Option<HarnessLibrary>,
    /// The tests in it, in the harness's order.
    pub tests: Vec<ListedTest>,
    /// Why its tests could not be listed.
    pub unlisted: Option<String>,
    /// File in the entry's folder.
    pub file: Utf8PathBuf,
    /// blake3 of the file, including the key in it.
    pub hash: String,
    /// The key in the file, if that is not the build's own: an earlier build has the same code, and both share the
    /// file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// blake3 of the file as it was linked, without the key. Two builds with the same hash have the same
    /// code, data and debug information. Absent in builds of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// The folder of its package, relative to the checkout if it is in there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub package_folder: Option<Utf8PathBuf>,
    /// The working directory that cargo starts it in.
    pub directory: Utf8PathBuf,
    /// The variables that cargo adds to its environment.
    pub environment: BTreeMap<String, String>,
    /// Why it has no heap metrics.
    pub heap_absent: Option<String>,
    /// Where libtest's harness calls the body of a test. Absent without that harness, and in builds of
    /// earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<TestBody>,
    /// What it can do, as far as its texts say. Absent for programs, and in builds of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traits: Option<Traits>,
    /// A hash of the code and the constants that each test can reach, with `affected`. Empty if that is not known,
    /// and in builds of earlier versions, which had other rules.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", rename = "reached_5")]
    pub reached: BTreeMap<String, String>,
    /// Why that is not known, with `affected`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unknown_reach: Option<String>,
}

impl Executable {
    /// Returns the folders in which the loader looks for shared libraries under cargo, in cargo's
    /// order.
    pub fn library_folders(&self) -> Vec<Utf8PathBuf> {
        let paths = LIBRARY_PATHS.iter().filter_map(|name| self.environment.get(*name));
        let folders = paths.flat_map(|path| path.split(':')).filter(|folder| !folder.is_empty());
        folders.map(Utf8PathBuf::from).collect()
    }
}

/// A test in an executable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedTest {
    /// The path.
    pub name: String,
    /// Whether it is marked `#[ignore]`.
    pub ignored: bool,
}

/// A program, shared library or output of a build script that a test needs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Companion {
    /// Where tests look for it.
    pub path: Utf8PathBuf,
    /// File in the entry's folder.
    pub file: Utf8PathBuf,
    /// blake3 of the file.
    pub hash: String,
    /// The folder of the package that has this program, relative to the checkout if it is in there. Absent for
    /// libraries, and in builds of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub package_folder: Option<Utf8PathBuf>,
}

#[cfg(any(test, feature = "samples"))]
/// Builds for tests.
pub mod samples {
    use super::{BTreeMap, BTreeSet, Executable, KeyInputs, Provenance, TargetKind, TraceFacts, VERSION};

    /// A build's key.
    pub const KEY: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    /// An executable without tests.
    pub fn executable() -> Executable {
        Executable {
            package: "p".into(),
            binary: "b".into(),
            kind: TargetKind::Lib,
            is_program: false,
            harness: true,
            library: None,
            tests: Vec::new(),
            unlisted: None,
            file: "t".into(),
            hash: String::new(),
            key: None,
            code: None,
            package_folder: None,
            directory: "/".into(),
            environment: BTreeMap::new(),
            heap_absent: None,
            body: None,
            traits: None,
            reached: BTreeMap::new(),
            unknown_reach: None,
        }
    }

    /// A build of this executable.
    pub fn provenance(executable: Executable) -> Provenance {
        let key_inputs = KeyInputs {
            tree: "t".into(),
            workspace: "".into(),
            lock: None,
            toolchain: "rustc".into(),
            arguments: Vec::new(),
            environment: BTreeMap::new(),
            configuration: String::new(),
            shim: "s".into(),
            overlay: BTreeMap::new(),
            sparse_exclude: Vec::new(),
            checkout: "/c".into(),
            trace: Vec::new(),
            clean_env: None,
            programs: Vec::new(),
            programs_of_tests: false,
            affected: false,
            typed_names: false,
            selected: None,
            selected_cells: None,
        };
        Provenance {
            version: VERSION,
            key: KEY.into(),
            commit: "c".into(),
            key_inputs,
            lock: None,
            packages: Vec::new(),
            sources: "d".into(),
            executables: vec![executable],
            unproven: Vec::new(),
            failed_targets: Vec::new(),
            known_programs: Vec::new(),
            companions: Vec::new(),
            program_error: None,
            injected: Vec::new(),
            injected_hash: String::new(),
            runner: Vec::new(),
            target: None,
            trace: TraceFacts::default(),
            left_out: Vec::new(),
            missing_submodules: Vec::new(),
            local_packages: BTreeSet::new(),
            outputs: BTreeMap::new(),
            watched: None,
            compiled: BTreeSet::new(),
            outside: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::samples::{executable, provenance};
    use super::*;

    fn failed(errors: &str) -> FailedTarget {
        FailedTarget {
            package: "app".to_owned(),
            binary: "api".to_owned(),
            kind: TargetKind::Test,
            root: "tests/api.rs".into(),
            errors: errors.to_owned(),
            is_program: false,
        }
    }

    #[test]
    fn a_target_that_does_not_compile_is_named_with_the_place_of_its_first_error() {
        let reason = |errors: &str| failed(errors).not_measured().reason;
        let error = "error[E0425]: cannot find value `n` in this scope";
        let other = "error: expected `;`\n --> tests/other.rs:1:1\n";
        assert_eq!(
            reason(&format!("{error}\n  --> tests/api.rs:2:15\n   |\n2 | n\n\n{other}")),
            format!("it does not compile: {error} --> tests/api.rs:2:15")
        );
        assert_eq!(reason(&format!("{error}\n\n{other}")), format!("it does not compile: {error}"));
        assert_eq!(reason(""), "it does not compile: no error was printed");
    }

    #[test]
    fn the_compiler_names_missing_features() {
        let of = |errors: &str| failed(errors).missing_features().join(",");
        let gated = |feature: &str| format!(" | ----- the item is gated behind the `{feature}` feature\n");
        assert_eq!(of(&[gated("server"), gated("client"), gated("server")].concat()), "client,server");
        assert_eq!(of("error[E0425]: cannot find value `n` in this scope"), "");
    }

    #[test]
    fn the_number_of_jobs_is_not_in_the_key() {
        let with = |arguments: &[&str]| KeyInputs {
            arguments: arguments.iter().map(|&argument| argument.to_owned()).collect(),
            ..provenance(executable()).key_inputs
        };
        let plain = with(&["test", "--release"]).key();
        assert_eq!(with(&["test", "--jobs", "2", "--release"]).key(), plain);
        assert_ne!(with(&["test", "--jobs", "2"]).key(), plain);
    }

    #[test]
    fn a_secret_is_not_stored_and_still_decides_the_key() {
        let with = |flags: &str, token: &str| {
            let mut made = provenance(Executable {
                environment: BTreeMap::from([("API_TOKEN".to_owned(), token.to_owned())]),
                ..executable()
            });
            made.key_inputs.environment.insert("RUSTFLAGS".into(), flags.into());
            made.key_inputs.environment.insert("MY_TOKEN".into(), token.into());
            made
        };
        let (one, other) =
            (with("--cfg a_token=\"one-one\"", "hunter2"), with("--cfg a_token=\"two-two\"", "hunter2"));
        assert_ne!(one.key_inputs.key(), other.key_inputs.key());
        let stored = one.redacted();
        let text = serde_json::to_string(&stored).unwrap();
        assert!(!text.contains("one-one") && !text.contains("hunter2"), "{text}");
        assert!(stored.key_inputs.environment["RUSTFLAGS"].starts_with("--cfg a_token=\"[redacted, "));
        assert_eq!(stored.redacted_variables(), BTreeSet::from(["API_TOKEN"]));
        assert_eq!(stored.redacted(), stored);
        // Whoever has the stored inputs but not the salt cannot try values.
        let plain = blake3::hash(&serde_json::to_vec(&one.key_inputs).unwrap()).to_hex().to_string();
        assert_ne!(one.key_inputs.key(), plain);
        let without = provenance(executable());
        assert_eq!((without.redacted(), without.redacted_variables().len()), (without, 0));
    }
}
