//! Asks a test executable for its tests.

use std::collections::{BTreeMap, HashSet};

use camino::Utf8Path;

use crate::absent_libraries::EmptyLibraries;
use crate::cargo::toolchain::{clean, inheriting};
use crate::noting_runner::LIBRARY_PATHS;
use crate::provenance::ListedTest;
use memprof_plan::clean_env::{Child, CleanEnv};
use memprof_support::child_output::Limits;
use memprof_support::process::Command;
use memprof_support::process_error::ProcessError;

/// The message of Linux's loader for a missing library.
pub(crate) const LOADER_ERROR: &str = "error while loading shared libraries";

/// How the programs of a target are started.
#[derive(Clone, Copy, Debug)]
pub struct Start<'a> {
    /// The program.
    pub executable: &'a Utf8Path,
    /// The user's runner in front of it.
    pub runner: &'a [String],
    /// The working folder.
    pub directory: &'a Utf8Path,
    /// What cargo adds to the environment.
    pub environment: &'a BTreeMap<String, String>,
    /// What tests inherit.
    pub clean_env: Option<&'a CleanEnv>,
}

/// The tests of an executable with libtest's harness.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    pub tests: Vec<ListedTest>,
    /// Why they could not be listed.
    pub unlisted: Option<String>,
    /// Shared libraries that this machine lacks. Empty ones replaced them.
    pub absent_libraries: Vec<String>,
}

/// Returns the tests of an executable, or why they could not be listed.
pub(crate) fn list(start: Start<'_>) -> Listing {
    let refused = match ask(start) {
        Ok(tests) => return Listing { tests, ..Listing::default() },
        Err(error) => error,
    };
    let unlisted = |reason: String| Listing { unlisted: Some(reason), ..Listing::default() };
    if !refused.stderr().contains(LOADER_ERROR) {
        return unlisted(refused.to_string());
    }
    let command = as_cargo_would_run(Start { runner: &[], ..start });
    let empty = match EmptyLibraries::for_program(start.executable, command) {
        Ok(Some(empty)) => empty,
        Ok(None) => return unlisted(refused.to_string()),
        Err(error) => {
            return unlisted(format!("{refused}\nand creating empty libraries instead failed: {error:#}"));
        }
    };
    let mut environment = start.environment.clone();
    let path = environment.entry("LD_LIBRARY_PATH".to_owned()).or_default();
    // The folder of empty libraries comes last, so that existing libraries win.
    *path = if path.is_empty() { empty.folder().to_string() } else { format!("{path}:{}", empty.folder()) };
    match ask(Start { environment: &environment, ..start }) {
        Ok(tests) => Listing { tests, absent_libraries: empty.names, unlisted: None },
        Err(error) => unlisted(format!("{refused}\nwith empty libraries instead: {error}")),
    }
}

fn ask(start: Start<'_>) -> Result<Vec<ListedTest>, ProcessError> {
    let names = |arguments: &[&str]| -> Result<Vec<String>, ProcessError> {
        let command = as_cargo_would_run(start).args(arguments);
        Ok(parse(&command.within(Limits::ANSWER).run_supervised()?.text()))
    };
    let all = names(&["--list", "--format", "terse"])?;
    let ignored: HashSet<String> =
        names(&["--ignored", "--list", "--format", "terse"])?.into_iter().collect();
    Ok(all.into_iter().map(|name| ListedTest { ignored: ignored.contains(&name), name }).collect())
}

/// Returns the command that runs an executable as `cargo test` would: with its runner, folder and
/// environment. With `--clean-env`, it inherits only what tests need.
pub fn as_cargo_would_run(start: Start<'_>) -> Command {
    let Start { executable, runner, directory, environment, clean_env } = start;
    let command = match runner.split_first() {
        Some((program, arguments)) => Command::new(program).args(arguments).arg(executable),
        None => Command::new(executable),
    };
    let command = inheriting(command, clean_env, Child::Test);
    let mut command = clean(command).current_dir(directory).env_remove("RUST_RECURSION_COUNT");
    for (name, value) in environment {
        let users =
            std::env::var(name).ok().filter(|had| LIBRARY_PATHS.contains(&name.as_str()) && !had.is_empty());
        command = match users {
            Some(had) => command.env(name, format!("{value}:{had}")),
            None => command.env(name, value),
        };
    }
    command
}

fn parse(text: &str) -> Vec<String> {
    let name = |line: &str| {
        let (name, kind) = line.rsplit_once(": ")?;
        ["test", "benchmark"].contains(&kind).then(|| name.to_owned())
    };
    text.lines().filter_map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn a_program_lists_its_tests_although_its_libraries_are_missing() {
        let folder = tempfile::tempdir().unwrap();
        let folder = Utf8Path::from_path(folder.path()).unwrap();
        let write = |name: &str, text: &str| fs_err::write(folder.join(name), text).unwrap();
        write("absent.c", "int deep(void);\nint answer(void) { return deep(); }\n");
        write("deeper.c", "int deep(void) { return 42; }\n");
        write(
            "program.rs",
            "unsafe extern \"C\" { fn answer() -> i32; }\n#[test] fn answers() { assert_eq!(unsafe { answer() }, 42); }\n\
             #[test] #[ignore] fn waits() {}\n",
        );
        let library = |name: &str, needs: &[&str]| {
            let arguments = ["-shared", "-fPIC", "-L.", "-o"];
            let source = format!("{name}.c");
            let cc = Command::new("cc")
                .current_dir(folder)
                .args(arguments)
                .arg(format!("lib{name}.so"))
                .arg(source);
            cc.args(needs).run().unwrap();
        };
        library("deeper", &[]);
        library("absent", &["-ldeeper"]);
        let rustc = Command::new("rustc").current_dir(folder);
        let flags = ["--edition", "2024", "--test", "-L", ".", "-l", "dylib=absent", "-l", "dylib=deeper"];
        rustc.args(flags).arg("program.rs").run().unwrap();
        for library in ["libabsent.so", "libdeeper.so"] {
            fs_err::remove_file(folder.join(library)).unwrap();
        }
        let listing = list(Start {
            executable: &folder.join("program"),
            runner: &[],
            directory: folder,
            environment: &BTreeMap::new(),
            clean_env: None,
        });
        assert_eq!(listing.unlisted, None);
        assert_eq!(listing.absent_libraries[0], "libabsent.so");
        let names: Vec<_> = listing.tests.iter().map(|test| (test.name.as_str(), test.ignored)).collect();
        assert_eq!(names, [("answers", false), ("waits", true)]);
    }

    #[test]
    fn names_are_read_and_counts_are_not() {
        let text = "tests::a: test\ntests::b: benchmark\n\n2 tests, 0 benchmarks";
        assert_eq!(parse(text), ["tests::a", "tests::b"]);
    }
}
