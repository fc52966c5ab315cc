//! The compiler that builds a revision, and the environment that makes cargo use it.

use camino::{Utf8Path, Utf8PathBuf};
use jiff::Timestamp;

use crate::cargo::lockfile;
use crate::git::program::INHERITED;
use memprof_plan::clean_env::{Child, CleanEnv, own_variables};
use memprof_plan::resolved::Revision;
use memprof_support::process::Command;
use memprof_support::suggest;
use memprof_support::user_error::UserError;

/// The day of Rust 1.0, 2015-05-15, in seconds since the epoch.
const FIRST_RELEASE: i64 = 1_431_648_000;

/// Six weeks, in seconds. Rust 1.95 was released 95 times this after 1.0, to a day.
const BETWEEN_RELEASES: i64 = 42 * 24 * 60 * 60;

/// How many releases a year has.
const A_YEAR: i64 = 9;

/// The oldest compiler that the `memprof` crate supports, Rust 1.63.
const OLDEST: i64 = 63;

/// A compiler, by rustup's name for it and by its version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Toolchain {
    /// The value for `RUSTUP_TOOLCHAIN`. `None` leaves the choice to rustup and the revision's
    /// toolchain file.
    pub pinned: Option<String>,
    /// The folder in which rustup looks for a toolchain file.
    pub directory: Utf8PathBuf,
    /// The whole output of `rustc -vV`.
    pub version: String,
    /// Which variables it inherits. `None` means all.
    pub clean_env: Option<CleanEnv>,
}

/// How the toolchain of a revision is chosen.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ToolchainChoice {
    /// `--toolchain`, `toolchain:` in the YAML, `cargo +NAME memprof`, `RUSTUP_TOOLCHAIN`, or `rustup override set`.
    Pinned(String),
    /// The revision's toolchain file, else rustup's default. Without rustup, the compiler on
    /// `PATH`.
    OfRevision,
}

impl ToolchainChoice {
    /// Returns the wish, else the caller's explicit choice, else the revision's choice.
    ///
    /// rustup's proxy starts `cargo memprof`, and sets `RUSTUP_TOOLCHAIN` to the choice of the
    /// user's folder. That would override the toolchain file of every revision.
    /// `RUSTUP_TOOLCHAIN_SOURCE` (rustup 1.29) distinguishes explicit choices from those of files
    /// and defaults.
    pub(crate) fn from_wish(wish: Option<&str>) -> Self {
        let source = std::env::var("RUSTUP_TOOLCHAIN_SOURCE").ok();
        let is_explicit = is_explicit(source.as_deref(), std::env::var_os("RUST_RECURSION_COUNT").is_some());
        let inherited = || std::env::var("RUSTUP_TOOLCHAIN").ok().filter(|_| is_explicit);
        wish.map(ToOwned::to_owned).or_else(inherited).map_or(Self::OfRevision, Self::Pinned)
    }
}

/// Whether the user chose the inherited toolchain. `source` is rustup's word for where the choice comes from. An
/// override belongs to the user's folder, and rustup would not find it from the checkout.
fn is_explicit(source: Option<&str>, is_proxied: bool) -> bool {
    match source {
        Some(source) => ["cli", "env", "path-override"].contains(&source),
        // With an older rustup, a variable without the proxy's recursion count is an explicit choice.
        None => !is_proxied,
    }
}

impl Toolchain {
    /// Asks the compiler that would build in `directory` for its version.
    pub fn ask(
        choice: &ToolchainChoice,
        directory: &Utf8Path,
        clean_env: Option<CleanEnv>,
    ) -> anyhow::Result<Self> {
        let pinned = match choice {
            ToolchainChoice::Pinned(name) => Some(name.clone()),
            ToolchainChoice::OfRevision => None,
        };
        let mut toolchain =
            Self { pinned, directory: directory.to_owned(), version: String::new(), clean_env };
        // rustup prints a backtrace of its own otherwise.
        match (toolchain.rustc().arg("-vV").env("RUST_BACKTRACE", "0").run(), &toolchain.pinned) {
            (Ok(answer), _) => toolchain.version = answer.text(),
            (Err(error), Some(name)) if !error.is_missing_program() => {
                return Err(cannot_be_used(name, error.stderr()).into());
            }
            (Err(error), _) => {
                return Err(
                    anyhow::Error::new(error).context("could not ask the Rust compiler for its version")
                );
            }
        }
        Ok(toolchain)
    }

    /// Returns the error about a target that the compiler does not know, or has no standard
    /// library for. `stderr` is the compiler's output.
    pub(crate) fn target_error(&self, target: &str, stderr: &str) -> Option<UserError> {
        if stderr.to_lowercase().contains("could not find specification for target") {
            let known = self.rustc().args(["--print", "target-list"]).run().map(|list| list.text());
            let known = known.unwrap_or_default();
            let near = suggest::did_you_mean(target, known.lines());
            let help = near.unwrap_or_else(|| "`rustc --print target-list` lists all targets".to_owned());
            return Some(
                UserError::new(format!("{} does not know the target '{target}'", self.short())).help(help),
            );
        }
        let missing = ["can't find crate for `std`", "can't find crate for `core`"];
        missing.iter().any(|missing| stderr.contains(missing)).then(|| {
            let name = self.pinned.as_ref().map(|name| format!(" --toolchain {name}")).unwrap_or_default();
            UserError::new(format!("the standard library for {target} is not installed"))
                .help(format!("install it: rustup target add {target}{name}"))
        })
    }

    /// Returns the command for the compiler.
    pub fn rustc(&self) -> Command {
        let program = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
        self.environment(Command::new(program)).current_dir(&self.directory)
    }

    /// Returns the command for cargo.
    pub fn cargo(&self) -> Command {
        clean(self.environment(Command::new("cargo"))).current_dir(&self.directory)
    }

    fn environment(&self, command: Command) -> Command {
        let command = inheriting(command, self.clean_env.as_ref(), Child::Build);
        let command = command.env_remove("RUSTUP_TOOLCHAIN_SOURCE").env_remove("RUST_RECURSION_COUNT");
        match &self.pinned {
            Some(name) => command.env("RUSTUP_TOOLCHAIN", name),
            None => command.env_remove("RUSTUP_TOOLCHAIN"),
        }
    }

    /// Returns the machine's target triple, according to the compiler.
    pub fn host(&self) -> &str {
        self.version.lines().find_map(|line| line.strip_prefix("host: ")).unwrap_or_default()
    }

    /// Returns the 95 of Rust 1.95.
    pub(crate) fn minor(&self) -> Option<i64> {
        let release = self.version.lines().find_map(|line| line.strip_prefix("release: "))?;
        release.strip_prefix("1.")?.split('.').next()?.parse().ok()
    }

    /// Returns a hint for a revision that does not build, if this compiler is at least a year younger and was not
    /// chosen by the user: newer compilers refuse some code that older ones take.
    pub(crate) fn too_new_for(&self, revision: &Revision) -> Option<String> {
        let newer = self.minor()?;
        let of_its_time = (revision.time - FIRST_RELEASE).div_euclid(BETWEEN_RELEASES);
        // A notebook's repository has the time 0.
        if self.pinned.is_some() || revision.time <= 0 || newer < of_its_time + A_YEAR {
            return None;
        }
        let (name, older) = (&revision.name, of_its_time.max(OLDEST));
        let day = lockfile::day(Timestamp::from_second(revision.time).ok()?);
        Some(format!(
            "{name} is of {day}, and the compiler is Rust 1.{newer}; an older one may build it: --toolchain \
             {name}:1.{older}"
        ))
    }

    /// Returns the first line of the version: `rustc 1.95.0 (59807616e 2026-04-14)`.
    pub fn short(&self) -> &str {
        self.version.lines().next().unwrap_or_default()
    }
}

/// Returns the error about a named toolchain, with rustup's reason.
fn cannot_be_used(name: &str, stderr: &str) -> UserError {
    let error = stderr.lines().find_map(|line| line.strip_prefix("error: ")).unwrap_or(stderr);
    UserError::new(format!("the toolchain '{name}' cannot be used: {error}"))
        .help(format!("run `rustup toolchain install {name}`, or choose one from `rustup toolchain list`"))
}

/// Removes the variables that do not reach the child with `--clean-env`.
pub(crate) fn inheriting(command: Command, clean_env: Option<&CleanEnv>, child: Child) -> Command {
    let Some(clean_env) = clean_env else { return command };
    let is_removed = |(name, value): &(String, String)| !clean_env.passes(child, name, value);
    own_variables().filter(is_removed).fold(command, |command, (name, _)| command.env_remove(name))
}

/// Removes the variables that the cargo above this process set, and those of a git hook. Another
/// cargo would take them for the user's choice, and a test for its own; git in a build script or a
/// test would use the hook's repository instead of the checkout or of its own one.
pub(crate) fn clean(command: Command) -> Command {
    std::env::vars_os()
        .filter_map(|(name, _)| name.into_string().ok())
        .filter(|name| is_of_our_cargo(name) || INHERITED.contains(&name.as_str()))
        .fold(command, Command::env_remove)
}

/// Whether cargo sets this variable for programs that it runs or compiles.
pub(crate) fn is_of_our_cargo(name: &str) -> bool {
    const PREFIXES: [&str; 5] =
        ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "CARGO_FEATURE_", "CARGO_CFG_"];
    const NAMES: [&str; 10] = [
        "CARGO",
        "CARGO_CRATE_NAME",
        "CARGO_PRIMARY_PACKAGE",
        "CARGO_TARGET_TMPDIR",
        "CARGO_TARGET_DIR",
        "CARGO_BUILD_TARGET_DIR",
        "CARGO_BUILD_BUILD_DIR",
        "CARGO_MAKEFLAGS",
        "OUT_DIR",
        "RUSTC_WORKSPACE_WRAPPER",
    ];
    PREFIXES.iter().any(|prefix| name.starts_with(prefix)) || NAMES.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hooks_variables_do_not_reach_builds_and_tests() {
        let program = std::env::current_exe().unwrap();
        let test = "cargo::toolchain::tests::prints_what_children_inherit";
        let run = Command::new(program).args(["--exact", test, "--ignored", "--nocapture"]);
        let printed = run.env("GIT_DIR", "/hook").env("GIT_INDEX_FILE", "/hook/index").run().unwrap().text();
        assert!(printed.contains("inherited: []"), "{printed}");
    }

    #[test]
    #[ignore = "another test runs this one in a process of its own"]
    fn prints_what_children_inherit() {
        let environment = clean(Command::new("env")).run().unwrap().text();
        let inherited: Vec<&str> = environment.lines().filter(|line| line.contains("/hook")).collect();
        // Not through `println!`, which clippy refuses here.
        std::io::Write::write_all(&mut std::io::stdout(), format!("inherited: {inherited:?}\n").as_bytes())
            .unwrap();
    }

    #[test]
    fn an_override_of_the_users_folder_is_a_choice_and_a_default_is_none() {
        for chosen in ["cli", "env", "path-override"] {
            assert!(is_explicit(Some(chosen), true), "{chosen}");
        }
        for found in ["toolchain-file", "default"] {
            assert!(!is_explicit(Some(found), true), "{found}");
        }
        assert!(is_explicit(None, false) && !is_explicit(None, true));
    }

    #[test]
    fn a_toolchain_that_is_not_there_is_told_in_rustups_words() {
        let stderr = "info: syncing channel updates for blub\nerror: toolchain 'blub' is not installed\n\nCaused by: x\n";
        let user_error = cannot_be_used("blub", stderr);
        assert_eq!(
            user_error.to_string(),
            "the toolchain 'blub' cannot be used: toolchain 'blub' is not installed"
        );
        assert!(user_error.help.unwrap().contains("rustup toolchain install blub"));
    }

    #[test]
    fn an_older_toolchain_is_named_for_a_revision_that_is_older_by_a_year() {
        let revision = |day: &str| Revision {
            name: "old".to_owned(),
            spec: "old".to_owned(),
            commit: "c".to_owned(),
            tree: "t".to_owned(),
            subject: String::new(),
            time: format!("{day}T00:00:00Z").parse::<Timestamp>().unwrap().as_second(),
            found: None,
            working_tree: false,
        };
        let compiler = |pinned: Option<&str>| Toolchain {
            pinned: pinned.map(str::to_owned),
            directory: Utf8PathBuf::new(),
            version: "rustc 1.95.0 (59807616e 2026-04-14)\nrelease: 1.95.0\n".to_owned(),
            clean_env: None,
        };
        let hint = |day: &str| compiler(None).too_new_for(&revision(day));
        assert_eq!(
            hint("2023-06-02").unwrap(),
            "old is of 2023-06-02, and the compiler is Rust 1.95; an older one may build it: --toolchain \
             old:1.70"
        );
        assert!(hint("2021-08-27").unwrap().ends_with("--toolchain old:1.63"));
        assert_eq!(hint("2025-06-02"), None);
        assert_eq!(hint("1970-01-01"), None, "a notebook's repository");
        assert_eq!(compiler(Some("stable")).too_new_for(&revision("2021-08-27")), None);
    }
}
