//! Call sites by type: the bytes of each type are known, and the names of functions have types.

use crate::support::traced::memprof;
use crate::support::{Printed, TestRepository};
use crate::why::{Subject, assert_exact, rows};

/// Functions that allocate blocks of known types; `N` is another number at each revision.
const TYPED: &str = r#"
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap, HashSet, VecDeque};
use std::ffi::CString;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
#[cfg(not(marked))]
compile_error!("the user's flags are lost");
pub struct Token(pub u64, pub u64, pub u64);
pub struct Arena(*mut u8, usize);
impl Arena {
    #[inline(never)]
    pub fn new(size: usize) -> Self {
        Self(unsafe { std::alloc::alloc(std::alloc::Layout::from_size_align(size, 8).unwrap()) }, size)
    }
}
pub fn tokens() -> Vec<Token> {
    let mut tokens = Vec::with_capacity(N);
    tokens.push(Token(1, 2, 3));
    tokens
}
pub fn pushed() -> Vec<u16> {
    let mut all = Vec::new();
    (0..N as u16).for_each(|one| all.push(one));
    all
}
pub fn bytes() -> Box<[u8]> { Box::from(vec![1; N].as_slice()) }
pub fn text() -> Arc<str> { Arc::from("t".repeat(N).as_str()) }
pub fn map() -> HashMap<u32, Token> { HashMap::with_capacity(N) }
pub fn set() -> HashSet<u64> { HashSet::with_capacity(N) }
pub fn tree() -> BTreeMap<u64, Token> {
    let mut tree = BTreeMap::new();
    (0..N as u64).for_each(|one| drop(tree.insert(one, Token(one, 0, 0))));
    tree
}
pub fn tree_set() -> BTreeSet<u64> {
    let mut tree = BTreeSet::new();
    (0..N as u64).for_each(|one| drop(tree.insert(one)));
    tree
}
pub fn string() -> String { "s".repeat(N) }
pub fn path() -> PathBuf { PathBuf::from("p".repeat(N)).join("q") }
pub fn c_string() -> CString { CString::new("c".repeat(N)).unwrap() }
pub fn deque() -> VecDeque<(u32, u32)> { VecDeque::with_capacity(N) }
pub fn heap() -> BinaryHeap<i64> { BinaryHeap::with_capacity(N) }
pub fn boxed() -> Box<Token> { Box::new(Token(N as u64, 0, 0)) }
pub fn counted() -> Rc<Token> { Rc::new(Token(N as u64, 0, 0)) }
pub fn arena() -> Arena { Arena::new(N) }
"#;

/// The types of `TYPED`, with their bytes for `n` elements.
fn typed(n: i64) -> Vec<(&'static str, i64)> {
    let doubled = 2 * u64::try_from(n).expect("a number").next_power_of_two();
    let doubled = i64::try_from(doubled).expect("a number");
    // hashbrown has a byte for each bucket, and 16 more; it fills seven eighths of its buckets.
    let buckets = u64::try_from(n * 8 / 7).expect("a number").next_power_of_two();
    let buckets = i64::try_from(buckets).expect("a number");
    vec![
        ("Vec<Token>", 24 * n),
        ("Vec<u16>", doubled),
        ("Box<[u8]>", n),
        // Two counts of references come before the text, and blocks are multiples of their alignment.
        ("Arc<str>", (16 + n + 7) / 8 * 8),
        ("HashMap<u32, Token>", 32 * buckets + buckets + 16),
        ("HashSet<u64>", 8 * buckets + buckets + 16),
        ("String", n),
        ("CString", n + 1),
        ("VecDeque<(u32, u32)>", 8 * n),
        ("BinaryHeap<i64>", 8 * n),
        ("Box<Token>", 24),
        ("Rc<Token>", 40),
        ("Arena", n),
    ]
}

/// Everything is live at once at the peak.
const HOLDS: &str = r#"
#[test]
fn holds() {
    let all = (
        (tokens(), pushed(), bytes(), text(), map(), set(), tree(), tree_set()),
        (string(), path(), c_string(), deque(), heap(), boxed(), counted(), arena()),
    );
    memprof::checkpoint!("held");
    std::hint::black_box(&all);
}
"#;

#[test]
fn the_bytes_of_each_type_are_exact() {
    let sources = [1000, 3000].map(|n| TYPED.replace('N', &n.to_string()));
    let subject = Subject::of_sources("", HOLDS, &sources);
    // Wherever the user has flags, these stay.
    for profile in [
        &["--config", "build.rustflags=['--cfg', 'marked']"][..],
        &["--release", "--config", "target.'cfg(unix)'.rustflags=['--cfg', 'marked']"],
        &["--env", "RUSTFLAGS=--cfg marked"],
    ] {
        let printed = subject.compare(&[&["--why-by", "type"], profile].concat());
        assert_eq!(printed.code, 1, "{}", printed.everything());
        let report = subject.report();
        assert_exact(&report);
        let rows = rows(&report, "holds");
        let row = rows
            .iter()
            .find(|row| row["metric"] == "heap.live" && row["candidate"]["checkpoint"] == "held")
            .unwrap_or_else(|| panic!("{report:#}"));
        let groups = row["groups"].as_array().expect("groups");
        let of = |name: &str| groups.iter().find(|group| group["name"] == name);
        for ((name, old), (_, new)) in typed(1000).into_iter().zip(typed(3000)) {
            let group = of(name).unwrap_or_else(|| panic!("{name} {profile:?} in {row:#}"));
            let live = |side: &str| group[side]["live"].as_i64().expect("bytes");
            assert_eq!((live("baseline"), live("candidate")), (old, new), "{name} {profile:?}");
        }
        assert_eq!(of("Vec<Token>").expect("a group")["element_bytes"], serde_json::json!([24, 24]));
        for name in ["HashMap<u32, Token>", "HashSet<u64>"] {
            let group = of(name).expect("a group");
            assert_eq!(group["capacity"], serde_json::json!([1792, 3584]), "{name} {profile:?}");
        }
        for name in ["BTreeMap<u64, Token>", "BTreeSet<u64>"] {
            let group = of(name).expect("a group");
            for (side, n) in [1000, 3000].into_iter().enumerate() {
                // Splits leave five or more of the eleven elements in a node.
                let capacity = group["capacity"][side].as_u64().unwrap_or_else(|| panic!("{name} {group:#}"));
                assert!(
                    capacity % 11 == 0 && capacity > n && capacity < 3 * n,
                    "{name} {profile:?}: {capacity}"
                );
            }
        }
        assert_eq!(of("Vec<Token>").expect("a group")["capacity"], serde_json::json!([1000, 3000]));
        for name in ["BTreeMap<u64, Token>", "BTreeSet<u64>", "PathBuf"] {
            let group = of(name).unwrap_or_else(|| panic!("{name} {profile:?} in {row:#}"));
            assert!(group["difference"].as_i64() > Some(1000), "{group:#}");
        }
        for side in ["baseline", "candidate"] {
            let typed = row[side]["typed"].as_i64().expect("typed bytes");
            let whole = row[side]["figures"]["live"].as_i64().expect("bytes");
            assert!(typed * 100 >= whole * 99, "{typed} of {whole} {profile:?}: {row:#}");
        }
        let page = subject.memprof(&["report", "--why-by", "type", "--format", "html"]).stdout;
        let markdown = subject.memprof(&["report", "--why-by", "type", "--format", "markdown"]).stdout;
        for (text, element) in [(&printed.stdout, "Vec<"), (&markdown, "Vec"), (&page, "Vec&lt;")] {
            assert!(text.contains("% of the bytes have a type (baseline "), "{text}");
            assert!(text.contains(element), "{text}");
        }
        // The cause is still a line of the diff.
        assert!(printed.stdout.contains("src/lib.rs:"), "{}", printed.everything());
    }
}

#[test]
fn without_types_in_names_the_reason_is_given() {
    let sources = [1000, 3000].map(|n| TYPED.replace('N', &n.to_string()));
    let subject = Subject::of_sources("", HOLDS, &sources);
    assert_eq!(subject.compare(&["--env", "RUSTFLAGS=--cfg marked"]).code, 1);
    let printed = subject.memprof(&["report", "--why-by", "type"]);
    assert!(printed.stdout.contains("names without generic arguments"), "{}", printed.everything());
    let sites = subject.memprof(&["report", "--why-by", "type", "--format", "csv=sites"]).stdout;
    assert!(sites.contains(",type,no_type,"), "{sites}");
    assert!(!sites.contains("Vec<T"), "{sites}");
}

/// Two functions that allocate 1,500 elements of a type, to which a revision adds fields.
const GROWING: &str = "
#[derive(Clone, Default)]
pub struct Posting { pub document: u64FIELDS }
pub fn filled() -> Vec<Posting> { vec![Posting::default(); 1000] }
pub fn reserved() -> Vec<Posting> {
    let mut all = Vec::with_capacity(500);
    all.push(Posting::default());
    all
}
";

#[test]
fn a_type_that_became_larger_is_a_cause() {
    let sources = ["", ", pub start: u64, pub end: u64"].map(|fields| GROWING.replace("FIELDS", fields));
    let test = "#[test]\nfn holds() {\n    let all = (filled(), reserved());\n    memprof::checkpoint!(\"held\");\n    \
                std::hint::black_box(&all);\n    std::hint::black_box(&all);\n}\n";
    let subject = Subject::of_sources("", test, &sources);
    let printed = subject.compare(&["--why-by", "type"]);
    assert_eq!(printed.code, 1, "{}", printed.everything());
    let causes = printed.stdout.lines().find(|line| line.contains("Posting 8 → 24 B"));
    assert!(
        causes.is_some_and(|line| line.contains("allocated at src/lib.rs:4")),
        "{}",
        printed.everything()
    );
    assert!(printed.stdout.contains("1 test regressed, by one change"), "{}", printed.everything());
    let report = subject.report();
    let entries = report["causes"]["entries"].as_array().expect("causes");
    let cause = entries.iter().find(|entry| entry["kind"] == "type").unwrap_or_else(|| panic!("{report:#}"));
    assert_eq!((entries.len(), cause["amount"].as_i64()), (1, Some(1500 * 16)), "{entries:#?}");
    let of = serde_json::json!({ "type": "subject::Posting", "old": 8, "new": 24 });
    assert_eq!(cause["resized"], of, "{cause:#}");
}

#[test]
fn a_baseline_that_was_saved_with_types_fits() {
    let sources = [100_000, 300_000].map(|n| format!("pub fn numbers() -> Vec<u64> {{ vec![7; {n}] }}"));
    let test = "#[test]\nfn holds() {\n    std::hint::black_box(&numbers());\n}\n";
    let subject = Subject::of_sources("", test, &sources);
    let saved = subject.memprof(&["old", "--save-baseline", "typed", "--why-by", "type"]);
    assert_eq!(saved.code, 0, "{}", saved.everything());
    for asked in [&[][..], &["--why-by", "type"]] {
        let printed = subject.memprof(&[&["new", "--baseline-run", "typed"], asked].concat());
        assert_eq!(printed.code, 1, "{}", printed.everything());
        assert!(printed.stdout.contains("781 KiB"), "{}", printed.everything());
    }
}

/// The lines that say what cargo compiled.
fn built(printed: &Printed) -> Vec<&str> {
    printed.stderr.lines().filter(|line| line.trim_start().starts_with("Built ")).collect()
}

#[test]
fn searches_and_archives_have_types_and_owners_and_share_their_builds() {
    let sources = ["", ", pub start: u64, pub end: u64"].map(|fields| GROWING.replace("FIELDS", fields));
    let test = "#[test]\nfn holds() {\n    let all = (filled(), reserved());\n    memprof::checkpoint!(\"held\");\n    \
                std::hint::black_box(&all);\n    std::hint::black_box(&all);\n}\n";
    let subject = Subject::of_sources("", test, &sources);
    let memprof = |arguments: &[&str]| {
        let printed = subject.memprof(arguments);
        assert_eq!(printed.code, 0, "{arguments:?} {}", printed.everything());
        printed
    };
    let with_types = |printed: &Printed| {
        let why = printed.stdout.lines().find(|line| line.starts_with("why: "));
        let why = why.unwrap_or_else(|| panic!("{}", printed.everything()));
        assert!(why.contains("Vec<Posting> (1,500 × 8 → 24 B)"), "{why}");
    };
    let with_owners = |printed: &Printed| {
        let held = printed.stdout.lines().find(|line| line.starts_with("held: "));
        let held = held.unwrap_or_else(|| panic!("{}", printed.everything()));
        assert!(held.contains("Vec<Posting> ") && held.contains("made at src/lib.rs:"), "{held}");
    };
    assert_eq!(built(&memprof(&["build", "old", "new", "--offline"])).len(), 2);
    // These names are in other builds.
    let bisected = memprof(&["bisect", "old..new", "-k", "holds", "--offline", "--why-by", "type"]);
    with_types(&bisected);
    assert!(bisected.stdout.contains("2 of 2 commits measured · 2 builds"), "{}", bisected.everything());
    let history = ["history", "old..new", "-k", "holds", "--offline", "--why-by", "owner"];
    let refused = subject.memprof(&history);
    assert!(
        (refused.code, refused.stderr.contains("only the page")) == (2, true),
        "{}",
        refused.everything()
    );
    let history = memprof(&[&history[..], &["--output", "target/page.html"]].concat());
    let page = std::fs::read_to_string(subject.root().join("target/page.html")).expect("a page");
    assert!(page.contains("made at src/lib.rs:"), "{page}");
    let archive =
        ["build", "old", "new", "-k", "holds", "--offline", "--archive", "typed.tar.zst", "--why-by", "type"];
    let packed = memprof(&archive);
    let run = subject.memprof(&["run", "--archive", "typed.tar.zst", "--why-by", "owner"]);
    assert_eq!(run.code, 1, "{}", run.everything());
    with_owners(&run);
    assert!(history.stdout.contains("2 of 2 commits measured · 0 builds"), "{}", history.everything());
    assert_eq!(built(&packed), [""; 0], "{}", packed.everything());
    with_types(&subject.memprof(&["run", "--archive", "typed.tar.zst", "--why-by", "type"]));
    memprof(&["build", "old", "new", "-k", "holds", "--offline", "--archive", "plain.tar.zst"]);
    let refused = subject.memprof(&["run", "--archive", "plain.tar.zst", "--why-by", "type"]);
    let flag = "cargo memprof build --archive FILE --why-by type";
    assert!((refused.code, refused.stderr.contains(flag)) == (2, true), "{}", refused.everything());
    let proven = memprof(&["prove", "old..new", "-k", "holds", "--offline", "--why-by", "owner"]);
    with_owners(&proven);
    with_types(&memprof(&["report", "--why-by", "type"]));
}

#[test]
fn the_build_is_the_same_whatever_is_checked_out() {
    let mut repository = TestRepository::new();
    repository.write("Cargo.toml", "[package]\nname = \"tiny\"\nversion = \"0.1.0\"\nedition = \"2021\"\n");
    repository.write("Cargo.lock", "version = 3\n\n[[package]]\nname = \"tiny\"\nversion = \"0.1.0\"\n");
    repository.write("src/lib.rs", "#[test]\nfn holds() { assert!(cfg!(marked)); }\n");
    repository.write(".cargo/config.toml", "[target.'cfg(unix)']\nrustflags = [\"--cfg\", \"marked\"]\n");
    repository.write(".gitignore", "target\n");
    repository.commit("Start");
    let archive = ["build", "--refs", "HEAD", "--offline", "--archive", "one.tar.zst", "--why-by", "type"];
    // The checkout is empty at first.
    for word in ["Built HEAD", "Fresh HEAD"] {
        let printed = memprof(&repository, &archive);
        assert!(printed.code == 0 && printed.stderr.contains(word), "{word}: {}", printed.everything());
        std::fs::remove_file(repository.path("one.tar.zst")).expect("removed");
    }
}
