//! A failed build: the compiler's errors, and what may help.

use std::io::{self, ErrorKind};

use anyhow::Context;
use camino::{Utf8Path, Utf8PathBuf};
use serde::{Deserialize, Serialize};

use crate::cargo::errors;
use crate::cargo::messages::{Messages, is_path_id};
use crate::checkout::error::CheckoutError;
use crate::checkout::injected_files::LeadsOutside;
use crate::checkout::missing_submodules::MissingSubmodule;
use crate::wrong_build::UnreadableArtifact;
use memprof_plan::request::{OverlayMode, OverlayRequest};
use memprof_plan::resolved::Revision;
use memprof_support::advice;
use memprof_support::paths::without_dots;
use memprof_support::process_error::ProcessError;
use memprof_support::redaction;
use memprof_support::user_error::UserError;

/// A build that failed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BuildFailure {
    /// The first errors, as rendered by the compiler or printed by cargo.
    pub first_errors: String,
    /// What may help.
    pub hints: Vec<String>,
    /// What is at fault.
    #[serde(default)]
    pub fault: Fault,
    /// Whether the build also failed with the dependencies of the commit's date.
    #[serde(default)]
    pub is_of_date_too: bool,
    /// Which lock file the build used, if the revision has committed none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lockfile: Option<String>,
}

/// What is at fault for a failed build.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// The checkout's own code.
    #[default]
    Code,
    /// Dependencies that did not resolve or compile.
    Dependencies,
    /// The revision lacks what the user asked for: a package, a feature, a target, a toolchain.
    Request,
    /// Files of the overlay, and nothing else. Other dependencies would not help.
    Overlay,
}

/// Help for a manifest that wants the crate for memory tests from a registry.
const NOT_IN_A_REGISTRY: &str = "the crate `memprof` is in no registry yet; write where your clone of cargo-memprof is: \
     `memprof = { path = \"../cargo-memprof/crates/memprof\" }` or `memprof = { git = \"URL\" }`";

/// What cargo and a linker say of a process that the kernel has killed, usually for lack of memory.
const KILLED: [&str; 2] = ["signal: 9, SIGKILL", "terminated with signal 9"];

/// How cargo says that something is not downloaded.
const NOT_DOWNLOADED: [&str; 5] =
    ["failed to download", "failed to fetch", "failed to get `", "nable to update", "failed to query"];

/// How curl, git and libgit2 say that a server cannot be reached.
const NO_CONNECTION: [&str; 11] = [
    "Could not connect",
    "Couldn't connect",
    "Failed to connect",
    "failed to connect",
    "Could not resolve host",
    "Couldn't resolve host",
    "failed to resolve address",
    "Timeout was reached",
    "timed out",
    "Connection reset",
    "Network is unreachable",
];

/// The number of compiler errors to show. The log has all of them.
const SHOWN: usize = 3;

impl BuildFailure {
    /// Writes the first errors to the log of a build without a call of cargo, which is empty.
    pub(crate) fn write_if_empty(&self, log: &Utf8Path) -> anyhow::Result<()> {
        if !fs_err::metadata(log).is_ok_and(|log| log.len() > 0) {
            fs_err::create_dir_all(log.parent().context("the log has a folder")?)?;
            fs_err::write(log, &self.first_errors)?;
        }
        Ok(())
    }

    /// Returns the failure of a call of cargo.
    pub(crate) fn from_compiler(messages: &Messages, stderr: &str) -> Self {
        let mut first_errors = messages.first_errors(SHOWN);
        if first_errors.is_empty() {
            first_errors = errors::of_stderr(stderr);
        }
        let of_dependencies = messages.errors.is_empty()
            || messages.errors.iter().any(|error| !is_path_id(&error.package_id.repr));
        let fault = if messages.errors.is_empty() && is_refusal(&first_errors) {
            Fault::Request
        } else if of_dependencies {
            Fault::Dependencies
        } else {
            Fault::Code
        };
        let first_errors = redaction::text(&first_errors).into_owned();
        Self { first_errors, fault, ..Self::default() }
    }

    /// Returns the failure for an error before or around the build.
    pub(crate) fn from_error(error: &anyhow::Error) -> Self {
        let hints = advice::help(error).into_iter().collect();
        let is_of_request = error.chain().any(<dyn std::error::Error>::is::<UserError>);
        let fault = if is_of_request { Fault::Request } else { Fault::Code };
        let first_errors = redaction::text(&format!("{error:#}")).into_owned();
        Self { first_errors, hints, fault, ..Self::default() }
    }

    /// Returns the error if the machine failed, which says nothing about the revision: the disk or the quota is full, a
    /// compiler was killed, or the network does not work.
    pub fn of_machine(&self) -> Option<io::Error> {
        let errors = self.first_errors.trim();
        Some(io::Error::new(kind_of_machine(errors)?, errors.to_owned()))
    }

    /// Returns an error for the request, if no revision has what the user asked for.
    pub fn of_all(failures: &[&Self]) -> Option<UserError> {
        let first =
            failures.first().filter(|_| failures.iter().all(|failure| failure.fault == Fault::Request))?;
        let mut lines = first.first_errors.lines().map(str::trim).filter(|line| !line.is_empty());
        let message = lines.next().map(|line| line.trim_start_matches("error: "))?;
        let help = Some(in_one_line(lines.map(|line| line.trim_start_matches("help: "))))
            .filter(|help| !help.is_empty())
            .or_else(|| first.hints.first().cloned());
        Some(UserError::new(format!("no ref can be built as requested: {message}")).maybe_help(help))
    }

    /// Whether the compiler's errors name a file of the checkout. The workspace is in this folder of the checkout: cargo
    /// gives the compiler paths relative to it, and whole paths of files beside it.
    pub fn names_file(&self, file: &Utf8Path, workspace: &Utf8Path) -> bool {
        let is_named = |line: &str| match file.strip_prefix(workspace) {
            Ok(relative) => line.contains(&format!(" {relative}:")),
            Err(_) => line.contains(" /") && line.contains(&format!("/{file}:")),
        };
        self.first_errors.lines().any(is_named)
    }

    /// Adds the submodules that the revision was built without. One that the errors name comes
    /// first: it is the cause.
    pub(crate) fn add_missing_submodules(&mut self, missing: &[MissingSubmodule]) {
        let is_named = |one: &&MissingSubmodule| self.first_errors.contains(one.path.as_str());
        let (named, others): (Vec<_>, Vec<_>) = missing.iter().partition(is_named);
        let hint = |needs: &str, one: &MissingSubmodule| {
            let MissingSubmodule { path, reason, .. } = one;
            format!(
                "the build {needs} the submodule {path}, which could not be fetched: {reason}\n{}",
                one.help()
            )
        };
        let of_named = named.into_iter().map(|one| hint("needs", one));
        let hints: Vec<String> =
            of_named.chain(others.into_iter().map(|one| hint("may need", one))).collect();
        self.hints.splice(0..0, hints);
    }

    /// Adds what to do about a path dependency that leads out of the checkout of the repository at `root`. The advised
    /// folder is as seen from `current`, where the user is.
    pub(crate) fn add_hint_of_outside_path(
        &mut self,
        checkout: &Utf8Path,
        root: &Utf8Path,
        current: &Utf8Path,
    ) {
        let Some((package, folder)) = outside_path(&self.first_errors, checkout) else { return };
        let folder = without_dots(&root.join(folder));
        let (absent, named) = if folder.join("Cargo.toml").is_file() {
            (String::new(), path_from(current, &folder))
        } else {
            (format!(", and {folder} has no Cargo.toml"), "FOLDER".into())
        };
        self.hints.push(format!(
            "{package} is a path dependency outside of the repository{absent}; name its folder: --with {package}={named}"
        ));
    }

    /// Adds that a crate outside of the workspace does not need what a member lacks. `overlay` are the
    /// request's.
    pub(crate) fn add_hint_of_external(&mut self, overlay: &[OverlayRequest], checkout: &Utf8Path) {
        let Some(member) = member_without_version(&self.first_errors, checkout) else { return };
        let how = match overlay.first() {
            Some(overlay) if overlay.mode == OverlayMode::External => return,
            Some(_) => "add --overlay-mode external",
            None => "--overlay REF:tests/NAME.rs --overlay-mode external",
        };
        self.hints.push(format!(
            "{member} needs it; a test in a crate of its own needs only the dependencies of the package \
             that it tests: {how}"
        ));
    }

    /// Adds advice for known causes. `today` is set if the revision has no lock file and its commit's
    /// date was not tried.
    /// `toolchain_files` holds each revision's name and toolchain file.
    pub(crate) fn add_hints(
        &mut self,
        revision: &Revision,
        today: bool,
        toolchain_files: &[(String, Option<String>)],
    ) {
        if self.first_errors.contains("no matching package named `memprof` found") {
            self.hints.push(NOT_IN_A_REGISTRY.to_owned());
        } else if today && self.fault == Fault::Dependencies {
            self.hints.push(format!(
                "{} has no Cargo.lock of its own; use the dependencies of its commit's date \
                 (`--lockfile-date commit`), or the lock file of another ref (`--lockfile-from REF`)",
                revision.name,
            ));
        }
        if self.first_errors.contains("requires rustc ") {
            self.hints.push("to build it with this compiler anyway: --ignore-rust-version".to_owned());
        }
        let own = toolchain_files.iter().find(|(name, _)| *name == revision.name);
        if own.is_some_and(|(_, own)| toolchain_files.iter().any(|(_, file)| file != own)) {
            let shown: Vec<String> = toolchain_files
                .iter()
                .map(|(name, file)| {
                    format!("{name}: {}", file.as_deref().unwrap_or("none").replace('\n', " "))
                })
                .collect();
            self.hints.push(format!(
                "the toolchain file differs between refs ({}); use one toolchain for all with \
                 `--toolchain NAME`",
                shown.join("; ")
            ));
        }
    }
}

/// Returns how the machine failed, if these errors are its own.
fn kind_of_machine(errors: &str) -> Option<ErrorKind> {
    let says = |texts: &[&str]| texts.iter().any(|text| errors.contains(text));
    if says(&["No space left on device"]) {
        Some(ErrorKind::StorageFull)
    } else if says(&["Disk quota exceeded"]) {
        Some(ErrorKind::QuotaExceeded)
    } else if says(&KILLED) {
        Some(ErrorKind::OutOfMemory)
    } else if says(&NOT_DOWNLOADED) && says(&NO_CONNECTION) {
        // A crate that is gone is another failure: the server answers.
        Some(ErrorKind::NetworkDown)
    } else {
        None
    }
}

/// Returns how the machine failed, if a revision may fail in this way for ever: it needs a host that is gone, or more
/// memory than there is.
pub fn may_last(errors: &str) -> Option<ErrorKind> {
    kind_of_machine(errors).filter(|kind| matches!(kind, ErrorKind::NetworkDown | ErrorKind::OutOfMemory))
}

/// Returns the path dependency that is not beside the checkout, and its folder as seen from the
/// repository's root.
fn outside_path<'a>(errors: &'a str, checkout: &Utf8Path) -> Option<(&'a str, Utf8PathBuf)> {
    // The first text is that of a build, the second one that of `cargo metadata` in a workspace.
    const TITLES: [&str; 2] = ["failed to get `", "failed to load manifest for dependency `"];
    let (before, after) = errors.split_once("failed to read `")?;
    // Packages of the workspace may stand between a member and the dependency, which comes last.
    let (_, after_title) = TITLES.iter().find_map(|title| before.rsplit_once(title))?;
    let (package, _) = after_title.split_once('`')?;
    let (manifest, _) = after.split_once('`')?;
    let folder = Utf8Path::new(manifest).parent().filter(|folder| !folder.starts_with(checkout))?;
    Some((package, path_from(checkout, folder)))
}

/// Returns the relative path that leads from one absolute folder to another.
fn path_from(start: &Utf8Path, folder: &Utf8Path) -> Utf8PathBuf {
    let mut up = Utf8PathBuf::new();
    for above in start.ancestors() {
        if let Ok(below) = folder.strip_prefix(above) {
            return up.join(below);
        }
        up.push("..");
    }
    folder.to_owned()
}

/// Returns the member of the workspace in the checkout that needs a package which has no version.
fn member_without_version<'a>(errors: &'a str, checkout: &Utf8Path) -> Option<&'a str> {
    if !errors.starts_with("error: failed to select a version") {
        return None;
    }
    // The first one needs the package itself, the others need that one.
    let (_, after) = errors.split_once("required by package `")?;
    let required_by = after.split("required by package `").flat_map(|part| part.split("of package `"));
    required_by.filter_map(|part| part.split_once('`')).find_map(|(package, _)| {
        let (name, place) = package.split_once(" v")?;
        place.contains(checkout.as_str()).then_some(name)
    })
}

/// Returns the lines of cargo's help as one. A list follows its title: `available test targets: a, b`.
/// A title without a list is left out.
fn in_one_line<'a>(lines: impl Iterator<Item = &'a str>) -> String {
    let mut sentences: Vec<String> = Vec::new();
    let mut is_list = false;
    for line in lines {
        match sentences.last_mut() {
            Some(title) if title.ends_with(':') => *title = format!("{title} {line}"),
            Some(list) if is_list => *list = format!("{list}, {line}"),
            _ => sentences.push(line.to_owned()),
        }
        is_list |= line.ends_with(':');
    }
    sentences.retain(|sentence| !sentence.ends_with(':'));
    sentences.join("; ")
}

/// Whether cargo rejected the command line because something that it names does not exist. Cargo
/// has no error codes, so the text decides.
fn is_refusal(errors: &str) -> bool {
    const REFUSALS: [&str; 8] = [
        "is ambiguous",
        "requires the features: `",
        "did not match any packages",
        "not contain this feature",
        "contains this feature",
        "target named `",
        "is not defined",
        "failed to parse value from --config",
    ];
    let first = errors.lines().next().unwrap_or_default();
    REFUSALS.iter().any(|refusal| first.contains(refusal))
}

/// Whether a file of the tool could not be read or written. That is no fault of the revision, and
/// it may work again.
pub(crate) fn is_of_machine(error: &anyhow::Error) -> bool {
    let has = |is: fn(&(dyn std::error::Error + 'static)) -> bool| error.chain().any(is);
    has(<dyn std::error::Error>::is::<std::io::Error>) && !has(<dyn std::error::Error>::is::<ProcessError>)
}

/// Whether an error concerns only this revision, so that the other revisions can continue.
pub(crate) fn concerns_one_revision(error: &anyhow::Error) -> bool {
    advice::has::<CheckoutError>(error)
        || advice::has::<LeadsOutside>(error)
        || error.chain().any(|cause| {
            cause.is::<UserError>()
                || cause.is::<UnreadableArtifact>()
                || cause
                    .downcast_ref::<ProcessError>()
                    .is_some_and(|error| matches!(error, ProcessError::Failed { .. }))
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkout::missing_submodules::MissingSubmodules;

    #[test]
    fn a_request_that_no_revision_can_satisfy_is_one_error() {
        let refused = |stderr: &str| BuildFailure::from_compiler(&Messages::default(), stderr);
        let typo = "error: no test target named `kepes` in default-run packages\n\nhelp: a target with a similar name exists: `keeps`\n";
        let user_error = BuildFailure::of_all(&[&refused(typo), &refused(typo)]).unwrap();
        assert_eq!(
            user_error.to_string(),
            "no ref can be built as requested: no test target named `kepes` in default-run packages"
        );
        assert_eq!(user_error.help.as_deref(), Some("a target with a similar name exists: `keeps`"));
        let broken = refused("error: failed to select a version for `a`.");
        assert_eq!(broken.fault, Fault::Dependencies);
        assert_eq!(BuildFailure::of_all(&[&refused(typo), &broken]), None, "one ref may have it");
        assert_eq!(BuildFailure::of_all(&[]), None);
        let help = |list: &str| {
            let stderr = format!("error: no test target named `x`\n\nhelp: available test targets:\n{list}");
            BuildFailure::of_all(&[&refused(&stderr)]).unwrap().help
        };
        assert_eq!(help("    a\n    b\n").as_deref(), Some("available test targets: a, b"));
        assert_eq!(help(""), None, "a title without a list");
    }

    #[test]
    fn a_failure_of_the_machine_says_nothing_about_the_revision() {
        let kind = |stderr: &str| {
            let failure = BuildFailure::from_compiler(&Messages::default(), stderr);
            failure.of_machine().map(|error| error.kind())
        };
        let full = "error: could not compile `a` (lib)\n\nCaused by:\n  Disk quota exceeded (os error 122)\n";
        assert_eq!(kind(full), Some(ErrorKind::QuotaExceeded));
        let killed = "error: could not compile `a` (lib)\n\nCaused by:\n  process didn't exit successfully: \
                      `rustc --crate-name a` (signal: 9, SIGKILL: kill)\n";
        assert_eq!(kind(killed), Some(ErrorKind::OutOfMemory));
        let download = |reason: &str| {
            format!(
                "error: failed to get `itoa` as a dependency of package `a v0.1.0`\n\nCaused by:\n  failed to \
                 download from `https://index.crates.io/it/oa/itoa`\n\nCaused by:\n  {reason}\n"
            )
        };
        for reason in [
            "[7] Could not connect to server (Failed to connect to index.crates.io port 443)",
            "[6] Could not resolve hostname (Could not resolve host: index.crates.io)",
            "[28] Timeout was reached (download of `it/oa/itoa` failed to transfer more than 10 bytes in 30s)",
        ] {
            assert_eq!(kind(&download(reason)), Some(ErrorKind::NetworkDown), "{reason}");
        }
        assert_eq!(kind(&download("failed to get successful HTTP response, got 404")), None, "it is gone");
        assert_eq!(kind("error: the future timed out\n"), None, "an error of the code");
        let lasting = [killed, &download("timed out"), full].map(may_last);
        assert_eq!(lasting, [Some(ErrorKind::OutOfMemory), Some(ErrorKind::NetworkDown), None]);
    }

    #[test]
    fn errors_name_a_file_by_its_whole_path_in_the_workspace() {
        let errors =
            "error[E0425]: cannot find value\n --> one/tests/a.rs:3:1\n --> /c/beside/tests/b.rs:1:1".into();
        let failure = BuildFailure { first_errors: errors, ..BuildFailure::default() };
        let names = |file: &str| failure.names_file(file.into(), "rust".into());
        assert!(names("rust/one/tests/a.rs") && names("beside/tests/b.rs"));
        assert!(!names("rust/tests/a.rs") && !names("rust/two/tests/a.rs") && !names("tests/a.rs"));
    }

    #[test]
    fn a_missing_submodule_that_the_errors_name_is_the_first_hint() {
        let missing = MissingSubmodules::default();
        for path in ["vendor/other", "vendor/lib"] {
            missing.add("old", path.into(), "1".to_owned(), "fatal: no network");
        }
        let mut failure = BuildFailure {
            first_errors: "error: failed to read `/checkout/vendor/lib/Cargo.toml`".to_owned(),
            hints: vec!["another".to_owned()],
            ..BuildFailure::default()
        };
        failure.add_missing_submodules(&missing.of_revision("old"));
        let first_lines: Vec<_> = failure.hints.iter().filter_map(|hint| hint.lines().next()).collect();
        assert_eq!(
            first_lines,
            [
                "the build needs the submodule vendor/lib, which could not be fetched: no network",
                "the build may need the submodule vendor/other, which could not be fetched: no network",
                "another",
            ]
        );
        assert!(failure.hints[0].contains("\nto fetch it into your clone: git submodule update --init"));
    }

    #[test]
    fn a_manifest_that_wants_memprof_from_a_registry_gets_the_forms_that_work() {
        let mut failure = BuildFailure {
            first_errors: "error: no matching package named `memprof` found".to_owned(),
            fault: Fault::Dependencies,
            ..BuildFailure::default()
        };
        failure.add_hints(&revision(), true, &[]);
        assert_eq!(failure.hints, [NOT_IN_A_REGISTRY]);
    }

    #[test]
    fn a_member_without_a_version_is_no_obstacle_to_an_external_overlay() {
        let yanked = "error: failed to select a version for the requirement `rmp-serde = \"^0.13.1\"`\n  \
                      version 0.13.1 is yanked\nlocation searched: crates.io index\n\
                      required by package `serialization v0.1.0 (/checkout/serialization)`";
        let indirect = "error: failed to select a version for `a`.\n    ... required by package `b v1.0.0`\n    \
                        ... which satisfies dependency `b = \"^1\"` of package `rand v0.1.0 (/checkout/rand)`";
        let overlay = |mode| OverlayRequest {
            from: None,
            paths: Vec::new(),
            package: None,
            mode,
            dependencies: std::collections::BTreeMap::new(),
        };
        let hints = |errors: &str, overlay: &[OverlayRequest]| {
            let mut failure = BuildFailure { first_errors: errors.to_owned(), ..BuildFailure::default() };
            failure.add_hint_of_external(overlay, "/checkout".into());
            failure.hints
        };
        let in_package = [overlay(OverlayMode::Package)];
        let [hint] = &hints(yanked, &in_package)[..] else { panic!("one hint") };
        assert!(hint.starts_with("serialization needs it;"), "{hint}");
        assert!(hint.ends_with("that it tests: add --overlay-mode external"), "{hint}");
        let [hint] = &hints(indirect, &[])[..] else { panic!("one hint") };
        assert!(hint.starts_with("rand needs it;") && hint.contains("--overlay REF:tests/NAME.rs"), "{hint}");
        assert!(hints(yanked, &[overlay(OverlayMode::External)]).is_empty());
        assert!(hints("error: no matching package named `x` found", &in_package).is_empty());
    }

    #[test]
    fn a_path_out_of_the_checkout_gets_the_flag_that_names_it() {
        let errors = |path: &str| {
            format!(
                "error: failed to get `fairseq` as a dependency of package `app v0.1.0 (/cache/app/worktree)`\n\n\
                 Caused by:\n  failed to read `{path}/Cargo.toml`\n"
            )
        };
        let checkout = Utf8Path::new("/cache/app/worktree");
        let found =
            |path: &str| outside_path(&errors(path), checkout).map(|(_, folder)| folder.into_string());
        assert_eq!(found("/cache/app/fairseq").as_deref(), Some("../fairseq"));
        assert_eq!(found("/cache/libs/fairseq").as_deref(), Some("../../libs/fairseq"));
        assert_eq!(found("/cache/app/worktree/fairseq"), None, "this revision lacks it");
        let in_workspace = "error: failed to load manifest for workspace member `/cache/app/worktree/one`\n\n\
                            Caused by:\n  failed to load manifest for dependency `two`\n\n\
                            Caused by:\n  failed to load manifest for dependency `fairseq`\n\n\
                            Caused by:\n  failed to read `/cache/app/fairseq/Cargo.toml`\n";
        let scratch = tempfile::tempdir().unwrap();
        let home = Utf8Path::from_path(scratch.path()).unwrap();
        for first_errors in [errors("/cache/app/fairseq"), in_workspace.to_owned()] {
            let hint = |current: &str| {
                let mut failure =
                    BuildFailure { first_errors: first_errors.clone(), ..BuildFailure::default() };
                failure.add_hint_of_outside_path(checkout, &home.join("app"), &home.join(current));
                failure.hints.concat()
            };
            let absent = hint("app");
            let place = home.join("fairseq");
            assert!(absent.contains(&format!("and {place} has no Cargo.toml;")), "{absent}");
            assert!(absent.ends_with("--with fairseq=FOLDER"), "{absent}");
            fs_err::create_dir(&place).unwrap();
            fs_err::write(place.join("Cargo.toml"), "").unwrap();
            for (current, folder) in [("app", "../fairseq"), ("app/one", "../../fairseq"), ("", "fairseq")] {
                let hint = hint(current);
                assert!(
                    hint.ends_with(&format!("repository; name its folder: --with fairseq={folder}")),
                    "{hint}"
                );
            }
            fs_err::remove_dir_all(&place).unwrap();
        }
    }

    fn revision() -> Revision {
        Revision {
            name: "old".into(),
            spec: "old".into(),
            commit: "c".into(),
            tree: "t".into(),
            subject: String::new(),
            time: 1_683_000_000,
            found: None,
            working_tree: false,
        }
    }

    #[test]
    fn hints_mention_a_missing_lock_file_and_differing_toolchain_files() {
        let mut failure = BuildFailure { fault: Fault::Dependencies, ..BuildFailure::default() };
        let files = [("old".to_owned(), Some("1.60".to_owned())), ("main".to_owned(), None)];
        failure.add_hints(&revision(), true, &files);
        assert!(failure.hints[0].contains("--lockfile-date commit"), "{:?}", failure.hints);
        assert!(failure.hints[1].contains("old: 1.60; main: none"), "{:?}", failure.hints);

        let mut failure = BuildFailure::default();
        let others = [("main".to_owned(), Some("1.60".to_owned()))];
        failure.add_hints(&revision(), false, &others);
        assert!(failure.hints.is_empty(), "this revision has a toolchain of its own: {:?}", failure.hints);
    }
}
