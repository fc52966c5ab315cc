//! What an executable's code can refer to: its data, and the names of its functions.

use memchr::memmem;
use object::{Object as _, ObjectSection as _};
use serde::{Deserialize, Serialize};

/// Returns the content of an executable without its debug information, which names functions and files that
/// its code does not use. A file of an unknown format is returned whole.
pub fn texts(executable: &[u8]) -> Vec<u8> {
    let Ok(file) = object::File::parse(executable) else { return executable.to_vec() };
    let is_debug = |name: &str| [".debug", ".zdebug", "__debug"].iter().any(|word| name.starts_with(word));
    let mut texts = Vec::new();
    for section in file.sections() {
        let Ok(data) = section.data() else { return executable.to_vec() };
        if !section.name().is_ok_and(is_debug) {
            texts.extend_from_slice(data);
            // What ends one section and begins the next is not one text.
            texts.push(0);
        }
    }
    texts
}

/// The version of the rules below. Stored traits of other rules are not used.
const RULES: u32 = 2;

/// Parts of symbols: `std::path::Path::parent`, and the module that each executable with symbols has.
const PARENT: &[u8] = b"4Path6parent";
const PATHS: &[u8] = b"3std4path";

/// What an executable has that finds a program of another package: functions for paths above its own,
/// libraries that look for programs, and texts that name cargo's folders, variables and options.
/// (`PathBuf::pop` is in every executable.)
const FINDING: [&[u8]; 10] = [
    b"_set_file_name",
    b"9Ancestors",
    b"10assert_cmd",
    b"7escargot",
    b"CARGO_BIN_EXE",
    b"CARGO_TARGET_DIR",
    b"target/debug",
    b"target/release",
    b"--bin",
    b"--example",
];

/// Parts of symbols of the shim: the figures that a test gets, and assertions about them.
const FIGURES: [&[u8]; 2] = [b"5usage5Usage", b"10assertions6Broken"];

/// What an executable can do, as far as its texts say. Fields of other rules may be missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Traits {
    rules: u32,
    /// Whether its tests may assert how much memory they need.
    pub asserts: bool,
    /// Whether it can find its way out of its package's folder: it has a text with `../`, or calls
    /// `Path::parent`. Without symbols, nobody knows.
    pub climbs: bool,
    /// Whether it can find programs that it does not name by their whole path.
    pub finds_programs: bool,
}

impl Traits {
    /// Returns those of an executable with these texts.
    pub fn of_texts(texts: &[u8]) -> Self {
        let has = |text: &[u8]| memmem::find(texts, text).is_some();
        let has_symbols = has(PATHS);
        let climbs = has(PARENT)
            || !has_symbols
            || memmem::find_iter(texts, b"../").any(|at| !is_of_toolchain(texts, at));
        Self {
            rules: RULES,
            asserts: !has_symbols || FIGURES.iter().any(|figures| has(figures)),
            climbs,
            finds_programs: climbs || FINDING.iter().any(|text| has(text)) || names_deps(texts),
        }
    }

    /// Returns them unless they are those of other rules.
    pub fn current(self) -> Option<Self> {
        (self.rules == RULES).then_some(self)
    }
}

/// Whether an executable names the folder `deps` that cargo puts it into. The standard library names another one.
fn names_deps(texts: &[u8]) -> bool {
    memmem::find_iter(texts, b"deps").any(|at| !texts[..at].ends_with(b"/rust/"))
}

/// Whether a `../` is inside of a path of the standard library's sources:
/// `/rustc/HASH/library/std/src/../../backtrace/src`.
fn is_of_toolchain(texts: &[u8], at: usize) -> bool {
    let is_of_path = |byte: &u8| byte.is_ascii_alphanumeric() || b"._-/".contains(byte);
    let before = &texts[at.saturating_sub(160)..at];
    let begin = before.iter().rposition(|byte| !is_of_path(byte)).map_or(0, |place| place + 1);
    let before = &before[begin..];
    [&b"library/"[..], b"compiler-builtins/"].iter().any(|folder| memmem::find(before, folder).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_and_names_of_functions_are_there_and_another_file_is_whole() {
        let own = fs_err::read(std::env::current_exe().unwrap()).unwrap();
        let found = texts(&own);
        let has = |text: &str| memchr::memmem::find(&found, text.as_bytes()).is_some();
        assert!(has("a text that only this test has") && has("data_and_names_of_functions_are_there"));
        assert_eq!(texts(b"#!/bin/sh"), b"#!/bin/sh");
    }

    #[test]
    fn an_executable_without_a_way_to_a_program_finds_none() {
        let finds = |more: &str| Traits::of_texts(format!("3std4path {more}").as_bytes()).finds_programs;
        assert!(!finds("a walk with arguments, 3env11current_exe, 7PathBuf3pop, /rust/deps/miniz"));
        for way in
            ["namedeps", "../target", "CARGO_BIN_EXE_", "_3std4pathNtB5_9Ancestors", "cargo run --bin "]
        {
            assert!(finds(way), "{way}");
        }
        assert!(Traits::of_texts(b"without symbols").finds_programs);
    }

    #[test]
    fn traits_of_other_rules_are_not_used() {
        let traits = Traits::of_texts(b"3std4path");
        assert_eq!(traits.current(), Some(traits));
        assert!(!traits.asserts && !traits.climbs && !traits.finds_programs);
        assert_eq!(Traits { rules: RULES + 1, ..traits }.current(), None);
    }
}
