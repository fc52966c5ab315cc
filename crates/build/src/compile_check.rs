//! Whether a revision still compiles with some of its files changed. What the compiler said is kept in the
//! cache, so that no check is made twice.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::bail;
use camino::Utf8PathBuf;
use cargo_metadata::diagnostic::Diagnostic;
use cargo_metadata::{Artifact, Target, TargetKind as CargoKind};

use crate::build_key::key_inputs;
use crate::build_tree::BuildTree;
use crate::cargo_call;
use crate::checked_changes::{CheckedChanges, Unchanged};
use crate::compilation::{self, CargoCall, Compiled};
use crate::compile_error::CompileError;
use crate::failure;
use crate::freshness::{self, Stale};
use crate::job::Job;
use crate::prepared_source::{self, ChangedSource, PreparedSource, SkippedEdits};
use crate::proven_sources;
use crate::wrapper;
use memprof_plan::request::TargetKind;
use memprof_support::regular_file::followed;

/// A revision in its checkout, which the compiler checks with one change after the other.
pub struct CompileCheck<'a, 'b> {
    job: &'a Job<'a>,
    tree: &'a mut BuildTree<'b>,
    target: CheckedTarget,
    /// Cargo's arguments.
    arguments: Vec<String>,
    known: CheckedChanges,
    log: fs_err::File,
    _folder: tempfile::TempDir,
    /// How often the compiler was called.
    pub calls: usize,
}

/// The target that has to compile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckedTarget {
    pub kind: TargetKind,
    pub name: String,
    /// Whether it runs as a program, and not as a test.
    pub is_program: bool,
}

/// Changes of a revision.
#[derive(Default)]
pub struct Changes<'c> {
    pub files: Vec<ChangedSource>,
    pub lock: Option<ChangedLock<'c>>,
}

/// A lock file that cargo has to complete.
pub struct ChangedLock<'c> {
    pub text: String,
    /// Returns the packages of the completed lock file that make it unusable.
    pub wrong: &'c dyn Fn(&[u8]) -> BTreeSet<String>,
}

/// What cargo made of a lock file: the completed one, or an error that names packages.
type Completed = Result<Vec<u8>, CompileError>;

impl<'a, 'b> CompileCheck<'a, 'b> {
    /// Checks a target of the revision with the options of its build.
    pub(crate) fn new(
        job: &'a Job<'a>,
        tree: &'a mut BuildTree<'b>,
        target: CheckedTarget,
    ) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let log = fs_err::File::create(folder.path().join("log"))?;
        let mut inputs = key_inputs(job)?;
        inputs.arguments = target.checking(inputs.arguments);
        let arguments = inputs.arguments.clone();
        let known = CheckedChanges::open(&job.inputs.cache.checks(), &inputs.key())?;
        Ok(Self { job, tree, target, arguments, known, log, _folder: folder, calls: 0 })
    }

    /// Returns the files of the repository from which the target is compiled; `None` if it does not compile.
    pub fn sources(&mut self) -> anyhow::Result<Option<BTreeSet<String>>> {
        Ok(self.unchanged()?.sources)
    }

    /// Returns the errors that the revision has with these changes, and not without them.
    pub fn errors(&mut self, changes: &Changes<'_>) -> anyhow::Result<Result<(), Vec<CompileError>>> {
        let hash = changes.hash();
        if let Some(errors) = self.known.errors(&hash) {
            return Ok(if errors.is_empty() { Ok(()) } else { Err(errors) });
        }
        let own = self.unchanged()?;
        Ok(match self.new_errors(changes, &own.messages)? {
            Checked::Compiled(errors) => {
                self.known.note(hash, errors.clone())?;
                if errors.is_empty() { Ok(()) } else { Err(errors) }
            }
            Checked::Refused(error) => Err(vec![error]),
        })
    }

    fn new_errors(&mut self, changes: &Changes<'_>, own: &BTreeSet<String>) -> anyhow::Result<Checked> {
        let Some(prepared) = self.prepared(&changes.files)? else {
            return Ok(Checked::Refused(CompileError::of_text("the files cannot be prepared for cargo")));
        };
        if let Some(lock) = &changes.lock
            && let Err(error) = self.completed(&prepared, lock)?
        {
            return Ok(Checked::Refused(error));
        }
        let said = self.diagnostics(&prepared)?;
        let workspace = &self.job.inputs.plan.workspace;
        let new = said.errors.iter().filter(|error| !own.contains(&error.message));
        let new: Vec<CompileError> = new.map(|error| CompileError::new(error, workspace)).collect();
        // Without an error of the compiler, cargo itself has one.
        let is_of_cargo = new.is_empty() && !said.success && said.errors.is_empty() && !said.is_of_others;
        if is_of_cargo {
            return Ok(Checked::Refused(CompileError::of_text(&said.stderr)));
        }
        Ok(Checked::Compiled(new))
    }

    /// Lets cargo complete a lock file for these changes. The error names packages.
    pub fn lockfile(&mut self, changes: &Changes<'_>) -> anyhow::Result<Option<Completed>> {
        let Some(lock) = &changes.lock else { return Ok(None) };
        let Some(prepared) = self.prepared(&changes.files)? else {
            return Ok(Some(Err(CompileError::of_text("the files cannot be prepared for cargo"))));
        };
        self.completed(&prepared, lock).map(Some)
    }

    fn unchanged(&mut self) -> anyhow::Result<Unchanged> {
        if let Some(known) = self.known.unchanged() {
            return Ok(known.clone());
        }
        let mut unchanged = Unchanged::default();
        if let Some(prepared) = self.prepared(&[])? {
            let said = self.diagnostics(&prepared)?;
            let is_whole = said.errors.is_empty() && (said.success || said.is_of_others);
            unchanged.sources = said.sources.filter(|_| is_whole);
            unchanged.messages = said.errors.into_iter().map(|error| error.message).collect();
        }
        self.known.note_unchanged(unchanged.clone())?;
        Ok(unchanged)
    }

    /// Prepares the checkout; `None` if the revision cannot be prepared with these changes.
    fn prepared(&mut self, files: &[ChangedSource]) -> anyhow::Result<Option<PreparedSource>> {
        let prepared = prepared_source::prepare_changed(self.job, self.tree, &SkippedEdits::default(), files);
        match prepared {
            Err(error) if failure::concerns_one_revision(&error) => Ok(None),
            prepared => prepared.map(Some),
        }
    }

    fn completed(&self, prepared: &PreparedSource, lock: &ChangedLock<'_>) -> anyhow::Result<Completed> {
        let path = prepared.manifest.with_file_name("Cargo.lock");
        fs_err::write(&path, &lock.text)?;
        let options = self.job.options();
        // Nothing but the members changes, and what they need.
        let cargo =
            cargo_call::in_checkout(self.job, &options, &prepared.manifest, &["update", "--workspace"]);
        let done = cargo.capture()?;
        if !done.status.success() {
            return Ok(Err(CompileError::of_text(&String::from_utf8_lossy(&done.stderr))));
        }
        let completed = followed::read(&path)?;
        let names = (lock.wrong)(&completed);
        if names.is_empty() {
            return Ok(Ok(completed));
        }
        let shown: Vec<&str> = names.iter().map(String::as_str).collect();
        let message = format!("cargo chooses other versions of {}", shown.join(", "));
        let names = names.iter().map(|name| name.replace('-', "_")).collect();
        Ok(Err(CompileError { message, places: Vec::new(), names }))
    }

    fn diagnostics(&mut self, prepared: &PreparedSource) -> anyhow::Result<Said> {
        let (mut compiled, stale) = self.compile(prepared)?;
        if !stale.is_empty() && !self.job.inputs.is_interrupted() {
            // What the compiler said may be of other sources.
            freshness::remove_stale(&stale)?;
            (compiled, _) = self.compile(prepared)?;
        }
        if self.job.inputs.is_interrupted() {
            // Compilers end with errors that say nothing of the change.
            bail!("interrupted while the compiler checked");
        }
        let messages = compiled.messages;
        // The wrapper lets cargo succeed although a target does not compile.
        let all = messages.errors.len();
        let of_target = messages.errors.into_iter().filter(|error| self.target.needs(&error.target));
        let errors: Vec<Diagnostic> = of_target.map(|error| error.message).collect();
        let is_of_others = errors.len() < all;
        let artifacts = messages.artifacts.iter().filter(|artifact| self.target.needs(&artifact.target));
        let sources = self.sources_of(artifacts, prepared)?;
        Ok(Said { success: compiled.success, is_of_others, errors, sources, stderr: compiled.stderr })
    }

    /// Calls the compiler. Returns what it compiled, and what cargo wrongly took for fresh.
    fn compile(&mut self, prepared: &PreparedSource) -> anyhow::Result<(Compiled, Stale)> {
        self.calls += 1;
        let call = CargoCall {
            arguments: self.arguments.clone(),
            wrapper: wrapper::WRAP_NAME,
            unselected: BTreeSet::new(),
        };
        let unwatched = proven_sources::remove_outdated(self.job, self.tree, prepared)?;
        let compiled = compilation::compile(self.job, &call, prepared, &mut self.log)?;
        let check = proven_sources::check(self.job, self.tree, prepared, &compiled.messages, &unwatched)?;
        Ok((compiled, check.stale))
    }

    /// Returns the files of the repository from which artifacts are compiled; `None` if this is unknown.
    fn sources_of<'c>(
        &self,
        artifacts: impl Iterator<Item = &'c Artifact>,
        prepared: &PreparedSource,
    ) -> anyhow::Result<Option<BTreeSet<String>>> {
        let checkout = &self.job.inputs.checkout;
        let workspace = prepared.manifest.parent().unwrap_or(checkout);
        let mut sources = BTreeSet::new();
        for artifact in artifacts {
            let Some(files) = freshness::sources_of(artifact, workspace, checkout)? else { return Ok(None) };
            let inside = files.iter().filter_map(|file| file.strip_prefix(checkout).ok());
            sources.extend(inside.map(ToString::to_string));
        }
        Ok(Some(sources))
    }
}

/// What a check says of changes.
enum Checked {
    /// The compiler's errors. It would say the same again.
    Compiled(Vec<CompileError>),
    /// Cargo did not come to compile them, perhaps because it did not reach a registry.
    Refused(CompileError),
}

/// What cargo and the compiler say.
struct Said {
    success: bool,
    /// Whether targets have errors that do not matter.
    is_of_others: bool,
    errors: Vec<Diagnostic>,
    sources: Option<BTreeSet<String>>,
    stderr: String,
}

impl Changes<'_> {
    fn hash(&self) -> String {
        let mut hasher = blake3::Hasher::new();
        let mut add = |text: &[u8]| {
            hasher.update(&text.len().to_le_bytes()).update(text);
        };
        let files: BTreeMap<&Utf8PathBuf, &Option<Vec<u8>>> =
            self.files.iter().map(|(path, content)| (path, content)).collect();
        for (path, content) in files {
            add(path.as_str().as_bytes());
            add(&[u8::from(content.is_some())]);
            add(content.as_deref().unwrap_or_default());
        }
        add(self.lock.as_ref().map_or("", |lock| &lock.text).as_bytes());
        hasher.finalize().to_hex().to_string()
    }
}

impl CheckedTarget {
    /// Whether a target of cargo is this one, or may be a part of it.
    fn needs(&self, target: &Target) -> bool {
        let kind = match () {
            () if target.is_kind(CargoKind::Test) => TargetKind::Test,
            () if target.is_kind(CargoKind::Bench) => TargetKind::Bench,
            () if target.is_kind(CargoKind::Example) => TargetKind::Example,
            // Libraries, build scripts, and programs, which an integration test may start.
            () => return true,
        };
        kind == self.kind && target.name == self.name
    }

    /// Returns the arguments of `cargo check` for those of `cargo test` or `cargo run`.
    fn checking(&self, mut arguments: Vec<String>) -> Vec<String> {
        arguments.retain(|argument| argument != "--no-fail-fast");
        if let Some(command) = arguments.first_mut() {
            "check".clone_into(command);
        }
        if self.is_program {
            arguments.extend([format!("--{}", self.kind.as_str()), self.name.clone()]);
            return arguments;
        }
        let has_profile = arguments.iter().any(|argument| argument == "--profile");
        let selects_all = arguments.iter().any(|argument| argument == "--tests");
        let is_integration = matches!(self.kind, TargetKind::Test | TargetKind::Bench);
        if selects_all && (is_integration || !has_profile) {
            arguments.retain(|argument| argument != "--tests");
            arguments.push(format!("--{}", self.kind.as_str()));
            arguments.extend((self.kind != TargetKind::Lib).then(|| self.name.clone()));
        }
        if !is_integration {
            // Unit tests are checked as such in this profile, and with this flag in any.
            let more: &[&str] = if has_profile { &["--tests"] } else { &["--profile", "test"] };
            arguments.extend(more.iter().map(ToString::to_string));
            arguments.dedup();
        }
        arguments
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checking(kind: TargetKind, arguments: &str) -> String {
        let target = CheckedTarget { kind, name: "it".to_owned(), is_program: arguments.starts_with("run") };
        target.checking(arguments.split(' ').map(str::to_owned).collect()).join(" ")
    }

    #[test]
    fn a_check_has_the_options_of_the_build_and_the_target_of_the_test() {
        let all = "test --no-fail-fast --message-format=json --target-dir /t --locked --tests";
        let checked =
            |kind, more: &str| checking(kind, &format!("{all}{more}")).replace("--target-dir /t ", "");
        assert_eq!(checked(TargetKind::Test, ""), "check --message-format=json --locked --test it");
        assert_eq!(checked(TargetKind::Lib, ""), "check --message-format=json --locked --lib --profile test");
        assert_eq!(
            checked(TargetKind::Bin, ""),
            "check --message-format=json --locked --bin it --profile test"
        );
        assert_eq!(
            checked(TargetKind::Lib, " --profile release"),
            "check --message-format=json --locked --tests --profile release --tests"
        );
        assert_eq!(checking(TargetKind::Bin, "run --offline"), "check --offline --bin it");
        assert_eq!(checking(TargetKind::Test, "test --test it"), "check --test it");
    }

    #[test]
    fn the_order_of_changes_does_not_matter_and_everything_else_does() {
        let file = |path: &str, text: Option<&str>| (path.into(), text.map(|text| text.as_bytes().to_vec()));
        let hash = |files: Vec<ChangedSource>| Changes { files, lock: None }.hash();
        let (one, other) = (file("a", Some("1")), file("b", None));
        assert_eq!(hash(vec![one.clone(), other.clone()]), hash(vec![other.clone(), one.clone()]));
        assert_ne!(hash(vec![one.clone()]), hash(vec![one, other]));
    }
}
