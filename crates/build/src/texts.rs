//! What an executable's code can refer to: its data, and the names of its functions.

use camino::Utf8Path;
use memchr::memmem;
use object::{Architecture, Object as _, ObjectSection as _, SectionKind};
use serde::{Deserialize, Serialize};

/// The content of an executable without its debug information, which names functions and files that its code does
/// not use.
#[derive(Debug)]
pub struct Texts {
    /// The code comes first.
    bytes: Vec<u8>,
    code: usize,
    architecture: Architecture,
}

impl Texts {
    /// Returns those of an executable. A file of an unknown format is taken whole.
    pub fn of(executable: &[u8]) -> Self {
        Self::of_sections(executable).unwrap_or_else(|| Self::whole(executable))
    }

    /// Returns all of them.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Takes all bytes.
    pub fn whole(bytes: &[u8]) -> Self {
        Self { bytes: bytes.to_vec(), code: 0, architecture: Architecture::Unknown }
    }

    fn of_sections(executable: &[u8]) -> Option<Self> {
        let file = object::File::parse(executable).ok()?;
        let is_debug =
            |name: &str| [".debug", ".zdebug", "__debug"].iter().any(|word| name.starts_with(word));
        let mut texts = Self { bytes: Vec::new(), code: 0, architecture: file.architecture() };
        for is_code in [true, false] {
            let sections = file.sections().filter(|one| (one.kind() == SectionKind::Text) == is_code);
            for section in sections.filter(|section| !section.name().is_ok_and(is_debug)) {
                texts.bytes.extend_from_slice(section.data().ok()?);
                // What ends one section and begins the next is not one text.
                texts.bytes.push(0);
            }
            if is_code {
                texts.code = texts.bytes.len();
            }
        }
        Some(texts)
    }

    /// Whether a text is there.
    pub fn has(&self, text: &[u8]) -> bool {
        memmem::find(&self.bytes, text).is_some()
    }

    /// Returns what follows each place where a text is.
    pub fn after<'a>(&'a self, text: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
        memmem::find_iter(&self.bytes, text).map(|at| &self.bytes[at + text.len()..])
    }

    /// Whether optimised code may have a text of six bytes or more in pieces. Where it copies a text of less than 16
    /// bytes, these are in the instructions: 9 bytes are a number of 8 and one of 1, and 11 are one of 8 and one of 4
    /// that have a byte in common.
    pub fn may_have_pieces_of(&self, text: &[u8]) -> bool {
        let has = |part: &[u8]| memmem::find(&self.bytes[..self.code], part).is_some();
        let length = text.len();
        match self.architecture {
            // The text may be the end of a longer one.
            Architecture::X86_64 => {
                has(&text[..length.min(8)])
                    || has(&text[length.saturating_sub(8)..])
                    || has(&text[..length.saturating_sub(2)])
                    || length >= 6 && has(&text[..length - 4]) && has(&text[length - 4..])
            }
            // Numbers of 8 bytes are loaded from the text, which stays whole.
            Architecture::Aarch64 => length < 8,
            _ => length < 16,
        }
    }
}

/// The version of the rules below. Stored traits of other rules are not used.
const RULES: u32 = 7;

/// Parts of symbols: `std::path::Path::parent` and `ancestors`, and the module that each executable with symbols has.
const PARENTS: [&[u8]; 2] = [b"4Path6parent", b"9Ancestors"];
const PATHS: &[u8] = b"3std4path";

/// What an executable has that finds a program of another package: functions for paths above its own,
/// libraries that look for programs, and texts that name cargo's folders, variables and options.
/// (`PathBuf::pop` is in every executable.)
const FINDING: [&[u8]; 9] = [
    b"_set_file_name",
    b"10assert_cmd",
    b"7escargot",
    b"CARGO_BIN_EXE",
    b"CARGO_TARGET_DIR",
    b"target/debug",
    b"target/release",
    b"--bin",
    b"--example",
];

/// Parts of symbols of the shim: what gives figures to a test, and assertions about them. Short functions have no symbol
/// in optimised code.
const FIGURES: [&[u8]; 5] =
    [b"6shared5usage", b"6shared6figure", b"5Scope6finish", b"8requests4read", b"6shared10assertions"];

/// What lists folders: the standard library, the C library, and `rustix`.
const LISTING: [&[u8]; 3] = [b"read_dir", b"readdir64", b"3dir3Dir"];

/// Methods of `std::process::Command`, each after its module. The test harness starts programs without arguments, so
/// it has the last one only.
const ARGUMENT: [&[u8]; 2] = [b"common", b"7Command3arg"];
const STARTING: [[&[u8]; 2]; 3] =
    [[b"7process", b"7Command3new"], [b"7process", b"7Command5spawn"], [b"7process", b"7Command6status"]];
const HARNESS: [&[u8]; 2] = [b"common", b"7Command11capture_env"];

/// Other functions that the test harness calls. Link-time optimisation inlines some of the three. Then short
/// functions that a test calls, such as `Path::parent`, may have no symbol either.
const NOW: [&[u8]; 2] = [b"3std4time", b"7Instant3now"];
const STDOUT: &[u8] = b"3std2io5stdio6stdout";

/// What an executable can do, as far as its texts say. Fields of other rules may be missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct Traits {
    rules: u32,
    /// Whether its code is optimised, so that short texts may be there in pieces.
    pub is_optimised: bool,
    /// Whether its tests may assert how much memory they need.
    pub asserts: bool,
    /// Whether it can find its way out of its package's folder: it has a text with `../`, or calls
    /// `Path::parent` or `Path::ancestors`. Without symbols, or with link-time optimisation, nobody knows.
    pub climbs: bool,
    /// Whether it can list folders. Without symbols, nobody knows.
    pub lists: bool,
    /// Whether it can start a program, which may find files in any way. Without symbols, nobody knows.
    pub starts: bool,
    /// Whether it can find files that it does not name: it lists folders, or starts a program.
    pub explores: bool,
    /// Whether it can find programs that it does not name by their whole path.
    pub finds_programs: bool,
    /// Whether it contains absolute paths of the checkout, such as `CARGO_MANIFEST_DIR`.
    pub has_paths: bool,
}

impl Traits {
    /// Returns those of an executable with these texts.
    pub fn of_texts(texts: &Texts, is_optimised: bool) -> Self {
        let has = |text: &[u8]| texts.has(text);
        let has_symbols = has(PATHS);
        let bytes = &texts.bytes[..];
        let has_short_functions = has_method(bytes, HARNESS) && has_method(bytes, NOW) && has(STDOUT);
        let climbs = PARENTS.iter().any(|text| has(text))
            || !(has_symbols && has_short_functions)
            || memmem::find_iter(bytes, b"../").any(|at| !is_of_toolchain(bytes, at));
        let lists = !has_symbols || LISTING.iter().any(|text| has(text));
        let starts = !has_symbols || !has_short_functions || may_start_programs(bytes);
        let names = |text: &[u8]| has(text) || is_optimised && texts.may_have_pieces_of(text);
        Self {
            rules: RULES,
            is_optimised,
            asserts: !has_symbols || FIGURES.iter().any(|figures| has(figures)),
            climbs,
            lists,
            starts,
            explores: lists || starts,
            finds_programs: climbs || FINDING.iter().any(|text| names(text)) || names_deps(bytes),
            has_paths: true,
        }
    }

    /// Returns those of an executable with these texts that was built in this checkout.
    pub fn in_checkout(texts: &Texts, is_optimised: bool, checkout: &Utf8Path) -> Self {
        Self { has_paths: texts.has(checkout.as_str().as_bytes()), ..Self::of_texts(texts, is_optimised) }
    }

    /// Returns them unless they are those of other rules.
    pub fn current(self) -> Option<Self> {
        (self.rules == RULES).then_some(self)
    }
}

/// Whether an executable starts programs itself, apart from the test harness in it.
fn may_start_programs(texts: &[u8]) -> bool {
    has_method(texts, ARGUMENT)
        || STARTING.iter().any(|method| has_method(texts, *method))
        || drops_command(texts)
}

/// Whether another crate than the test harness drops a `std::process::Command`. In optimised code, this may be all that
/// is seen of it: `drop_in_place<Command>` for the crate `_4test`, or with the older names for any crate of the user.
fn drops_command(texts: &[u8]) -> bool {
    const DROPPED: &[u8] = b"3std7process7CommandECs";
    let is_of_another = |at: usize| {
        let hash_and_name = texts[at + DROPPED.len()..].split(|byte| *byte == b'_').nth(1);
        hash_and_name.is_some_and(|name| !name.starts_with(b"4test"))
    };
    memmem::find(texts, b"drop_in_place$LT$std..process..Command$GT$").is_some()
        || memmem::find_iter(texts, DROPPED).any(is_of_another)
}

/// Whether a symbol has this module shortly before this method: `3std7processNtB5_7Command5spawn`.
fn has_method(texts: &[u8], [module, method]: [&[u8]; 2]) -> bool {
    /// `NtB4_`, or more digits.
    const BETWEEN: usize = 8;
    memmem::find_iter(texts, method).any(|at| {
        let before = &texts[at.saturating_sub(module.len() + BETWEEN)..at];
        memmem::find(before, module).is_some()
    })
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

    /// What each executable with symbols and a harness has.
    const ORDINARY: &str = "3std4path 3std3sys7process4unix6commonNtB4_7Command11capture_env \
        3std4timeNtB4_7Instant3now 3std2io5stdio6stdout";

    fn traits(texts: &str) -> Traits {
        Traits::of_texts(&Texts::whole(texts.as_bytes()), false)
    }

    #[test]
    fn data_and_names_of_functions_are_there_and_another_file_is_whole() {
        let own = fs_err::read(std::env::current_exe().unwrap()).unwrap();
        let found = Texts::of(&own);
        let has = |text: &str| found.has(text.as_bytes());
        assert!(has("a text that only this test has") && has("data_and_names_of_functions_are_there"));
        assert_eq!(Texts::of(b"#!/bin/sh").bytes, b"#!/bin/sh");
    }

    #[test]
    fn a_short_text_is_found_by_the_numbers_in_optimised_code() {
        // What a compiler makes of copying these texts at `-O`: `movabs rcx, imm64`, `mov dword ptr [rax + 7], imm32`.
        let of = |numbers: &[&str]| {
            let mut bytes = numbers.join("\0\0\0").into_bytes();
            bytes.push(0);
            let code = bytes.len();
            bytes.extend(b"config.t and json are no instructions here");
            Texts { bytes, code, architecture: Architecture::X86_64 }
        };
        for (text, whole, numbers) in [
            ("README.md", "README.md", &["README.m", "d"][..]),
            ("config.toml", "config.toml", &["config.t", "toml"]),
            ("in.json", "data/in.json", &["data/in.", "json"]),
            ("config.toml", "a/config.toml", &["a/config", "fig.toml"]),
            ("a.toml", "data/a.toml", &["data/a.t", "toml"]),
            ("ab.txt", "dir/ab.txt", &["dir/ab.t", "xt"]),
        ] {
            assert!(of(numbers).may_have_pieces_of(text.as_bytes()), "{text} in {whole}");
            assert!(!of(&["CHANGES."]).may_have_pieces_of(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn an_executable_without_a_way_to_a_program_finds_none() {
        let finds = |more: &str| traits(&format!("{ORDINARY} {more}")).finds_programs;
        assert!(!finds("a walk with arguments, 3env11current_exe, 7PathBuf3pop, /rust/deps/miniz"));
        for way in
            ["namedeps", "../target", "CARGO_BIN_EXE_", "_3std4pathNtB5_9Ancestors", "cargo run --bin "]
        {
            assert!(finds(way), "{way}");
        }
        assert!(traits("without symbols").finds_programs);
    }

    #[test]
    fn an_executable_explores_if_it_lists_folders_or_starts_a_program_beside_the_harness() {
        let explores = |more: &str| traits(&format!("{ORDINARY} {more}")).explores;
        for other in [
            "",
            "_3std7process7CommandECs3mSbOeLENLV_4test",
            "_3std7processNtB5_7Command6output",
            "6commonNtB4_7Command3new",
            "4clap7Command3arg",
        ] {
            assert!(!explores(other), "{other}");
        }
        let lists = |texts: &str| traits(texts).lists;
        assert!(lists("without symbols") && lists("3std4path readdir64") && !lists("3std4path"));
        let starts = |more: &str| traits(&format!("{ORDINARY} {more}")).starts;
        assert!(starts("6commonNtB4_7Command3arg") && !starts("readdir64"));
        for way in [
            "_3std3sys2fs8read_dir",
            "readdir64",
            "6commonNtB4_7Command3arg",
            "14process_common7Command3arg",
            "_ZN3std7process7Command3new17h",
            "_3std7processNtB5_7Command6status",
            "_ZN4core3ptr42drop_in_place$LT$std..process..Command$GT$17h",
            "_4core3ptr9drop_glueNtNtCsi4IsKQVxMg0_3std7process7CommandECs1zYR4qCAEqI_1d",
        ] {
            assert!(explores(way), "{way}");
        }
        assert!(traits("without symbols").explores);
    }

    #[test]
    fn without_a_short_function_of_the_harness_nobody_knows_what_was_inlined() {
        let knows = |texts: &str| {
            let traits = traits(texts);
            assert_eq!(traits.climbs, traits.explores);
            !traits.climbs
        };
        assert!(knows(ORDINARY));
        for function in ["7Command11capture_env", "7Instant3now", "6stdout"] {
            assert!(!knows(&ORDINARY.replace(function, "")), "{function}");
        }
    }

    #[test]
    #[ignore = "optimises the standard library, for 4 s"]
    fn a_test_that_leaves_its_folder_climbs_also_with_link_time_optimisation() {
        const SOURCE: &str = "use std::{os::unix::process::CommandExt as _, process::Command};\n\
            #[test] fn climbs() { assert!(std::env::current_dir().unwrap().parent().unwrap().exists()); }\n\
            #[test] fn one() { Command::new(\"a\").spawn().unwrap().wait().unwrap(); }\n\
            #[test] fn two() { Command::new(\"a\").status().unwrap(); }\n\
            #[test] fn three() { panic!(\"{}\", Command::new(\"a\").exec()); }\n";
        let folder = tempfile::tempdir().unwrap();
        fs_err::write(folder.path().join("of.rs"), SOURCE).unwrap();
        let done = std::process::Command::new("rustc")
            .args(["of.rs", "--test", "--edition=2024", "-O", "-Clto=thin", "-Cstrip=debuginfo"])
            .current_dir(folder.path())
            .status();
        assert!(done.unwrap().success());
        let texts = Texts::of(&fs_err::read(folder.path().join("of")).unwrap());
        // The standard library's name for it is gone, but not that of what the harness calls.
        assert!(!texts.has(PARENTS[0]) && has_method(&texts.bytes, HARNESS));
        assert!(Traits::of_texts(&texts, true).climbs);
    }

    #[test]
    fn a_type_of_the_user_with_a_name_of_the_shim_is_no_assertion() {
        let asserts = |more: &str| traits(&format!("3std4path {more}")).asserts;
        assert!(!asserts("_ZN12clap_builder6output5usage5Usage3new17h"));
        for figures in
            ["_7memprof6shared5usageNtB2_5Usage12not_measured", "_ZN7memprof8recorder8requests4read17h"]
        {
            assert!(asserts(figures), "{figures}");
        }
    }

    #[test]
    fn traits_of_other_rules_are_not_used() {
        let traits = traits(ORDINARY);
        assert_eq!(traits.current(), Some(traits));
        assert!(!traits.asserts && !traits.climbs && !traits.finds_programs);
        assert_eq!(Traits { rules: RULES + 1, ..traits }.current(), None);
    }
}
