//! Asks an executable for its benchmarks or tests that a library runs in place of libtest's harness.
//!
//! The library is found by its symbols in the executable. Any question would run a program that is not
//! known, so it is not asked.

use memchr::memmem;

use crate::harness_library::HarnessLibrary;
use crate::provenance::ListedTest;
use crate::test_listing::{Start, as_cargo_would_run};
use memprof_support::child_output::Limits;
use memprof_support::regular_file::followed;

/// The parts of symbols that tell which library an executable contains: the length of a crate's name,
/// and the name.
const SYMBOLS: [(&str, HarnessLibrary); 3] = [
    ("9criterion", HarnessLibrary::Criterion),
    ("5divan", HarnessLibrary::Divan),
    ("13libtest_mimic", HarnessLibrary::LibtestMimic),
];

/// The benchmarks or tests of an executable with such a library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LibraryListing {
    pub library: HarnessLibrary,
    /// What it runs, in its order.
    pub tests: Vec<ListedTest>,
}

/// Asks an executable without libtest's harness for its benchmarks or tests. `None` if it has no known
/// library, or does not answer; it then runs as a whole.
pub(crate) fn list(start: Start<'_>) -> Option<LibraryListing> {
    let bytes = followed::read_within(start.executable, followed::MOST_OF_BINARY).ok()?;
    let mut found =
        SYMBOLS.into_iter().filter(|(symbol, _)| memmem::find(&bytes, symbol.as_bytes()).is_some());
    // With two libraries, one of them may be a dependency of a dependency.
    let (Some((_, library)), None) = (found.next(), found.next()) else { return None };
    match library {
        HarnessLibrary::Criterion | HarnessLibrary::CriterionByPattern => of_criterion(start),
        HarnessLibrary::Divan => {
            // Only in nextest does divan list one name per line.
            let text = answer(start, &["--list", "--format", "terse"], &[("NEXTEST", "1")])?;
            listing(library, &names(&text, "benchmark"), &[])
        }
        HarnessLibrary::LibtestMimic => {
            let of = |arguments: &[&str]| Some(names(&answer(start, arguments, &[])?, "test"));
            let all = of(&["--list", "--format", "terse"])?;
            let ignored = of(&["--ignored", "--list", "--format", "terse"])?;
            listing(library, &all, &ignored)
        }
    }
}

fn of_criterion(start: Start<'_>) -> Option<LibraryListing> {
    let help = answer(start, &["--help"], &[])?;
    if help.contains("--exact") && help.contains("--format") {
        let text = answer(start, &["--list", "--format", "terse"], &[])?;
        return listing(HarnessLibrary::Criterion, &names(&text, "benchmark"), &[]);
    }
    // Without `--bench`, these versions run all of them.
    let text = answer(start, &["--bench", "--list"], &[])?;
    listing(HarnessLibrary::CriterionByPattern, &names(&text, "bench"), &[])
}

fn listing(library: HarnessLibrary, names: &[String], ignored: &[String]) -> Option<LibraryListing> {
    let listed = |name: &String| ListedTest { ignored: ignored.contains(name), name: name.clone() };
    let tests: Vec<ListedTest> = names.iter().map(listed).collect();
    (!tests.is_empty()).then_some(LibraryListing { library, tests })
}

/// What the program prints, if it succeeds.
fn answer(start: Start<'_>, arguments: &[&str], variables: &[(&str, &str)]) -> Option<String> {
    let command = as_cargo_would_run(start).args(arguments);
    let command = variables.iter().fold(command, |command, (name, value)| command.env(name, value));
    Some(command.within(Limits::ANSWER).run_supervised().ok()?.text())
}

/// Reads lines like `name: benchmark`. libtest-mimic writes a kind in brackets before the name.
fn names(text: &str, kind: &str) -> Vec<String> {
    let name = |line: &str| {
        let name = line.strip_suffix(kind)?.strip_suffix(": ")?;
        let own = name.strip_prefix('[').and_then(|rest| rest.split_once("] "));
        Some(own.map_or(name, |(_, own)| own).to_owned())
    };
    text.lines().filter_map(name).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use camino::Utf8Path;

    use super::*;

    #[test]
    fn names_are_read_as_each_library_writes_them() {
        assert_eq!(names("a/b/1: benchmark\n\nnoise\n", "benchmark"), ["a/b/1"]);
        assert_eq!(names("fill: bench\n", "bench"), ["fill"]);
        assert_eq!(names("[file] a::b.txt: test\nplain: test\n", "test"), ["a::b.txt", "plain"]);
    }

    #[test]
    fn a_program_without_a_known_library_is_not_started() {
        let folder = tempfile::tempdir().unwrap();
        let folder = Utf8Path::from_path(folder.path()).unwrap();
        let program = folder.join("program");
        fs_err::write(&program, "#!/bin/sh\ntouch \"$0.started\"\n").unwrap();
        std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let environment = BTreeMap::new();
        let start = Start {
            executable: &program,
            runner: &[],
            directory: folder,
            environment: &environment,
            clean_env: None,
        };
        assert_eq!(list(start), None);
        assert!(!folder.join("program.started").exists());
    }
}
