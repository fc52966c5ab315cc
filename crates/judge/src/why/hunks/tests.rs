//! The tests of [`super`].

use super::*;
use crate::why::stacks::tests::frame;

fn changed(paths: [&str; 2], texts: [Option<&str>; 2]) -> StoredFile {
    StoredFile {
        paths: paths.map(|path| (!path.is_empty()).then(|| path.to_owned())),
        texts: texts.map(|text| text.map(str::to_owned)),
        ..StoredFile::default()
    }
}

/// The changes of files that are all used.
fn of_files(files: &[StoredFile]) -> Changes {
    let used = [0, 1].map(|side| files.iter().filter_map(|file| file.paths[side].as_deref()).collect());
    ChangedSources::new(files).used(&used)
}

/// The changes from one text of `src/lib.rs` to another.
pub(crate) fn changes(old: &str, new: &str) -> Changes {
    of_files(&[changed(["src/lib.rs"; 2], [Some(old), Some(new)])])
}

#[test]
fn a_file_is_found_by_the_path_of_a_link() {
    let mut file = changed(["shared/z.rs"; 2], [Some("fn z() {\n}\n"), Some("fn z() {\n    big();\n}\n")]);
    file.links = [0, 1].map(|_| vec!["src/z.rs".to_owned()]);
    let used = [0, 1].map(|_| BTreeSet::from(["src/z.rs"]));
    let changes = ChangedSources::new(&[file]).used(&used);
    let found = changes.hunk(Side::Candidate, &frame("a::z@src/z.rs:2")).unwrap();
    assert_eq!(found.path, "shared/z.rs");
}

const OLD: &str = "\
fn a() {
    one();
}
fn b() {
    two();
    three();
}
fn gone() {
    x();
}
";
const NEW: &str = "\
fn fresh() {
    y();
}
fn a() {
    one();
}
fn b() {
    two(2);
    three();
}
";

#[test]
fn lines_move_with_what_stands_before_them() {
    let changes = changes(OLD, NEW);
    let moved = |line| changes.moved("src/lib.rs", line).map(|moved| (moved.line, moved.is_same));
    assert_eq!(moved(2), Some((5, true)));
    assert_eq!(moved(5), Some((8, false)), "a replaced line is about where it was");
    assert_eq!(moved(6), Some((9, true)));
    assert_eq!(changes.moved("src/other.rs", 6).unwrap().line, 6);
    assert!(changes.is_old_line("src/lib.rs", 9) && !changes.is_old_line("src/lib.rs", 8));
}

#[test]
fn a_comment_changes_no_function() {
    let changes = changes(
        "fn a() {\n    // Two.\n    one();\n}\nfn b() {\n    two();\n    three();\n}\n",
        "fn a() {\n    // Only one.\n\n    one();\n}\nfn b() {\n    /// Two.\n    two();\n    three();\n}\n",
    );
    let hunk = |line| changes.hunk(Side::Candidate, &frame(&format!("a::f@src/lib.rs:{line}")));
    assert_eq!(hunk(4), None);
    assert!(hunk(9).is_some(), "macros read documentation");
    assert_eq!(changes.moved("src/lib.rs", 3).map(|moved| moved.line), Some(4));
    let old = "fn f() {\n    a(1);\n    /* One\n       word. */\n    x();\n}\n";
    let new = old.replace("a(1)", "a(2)").replace("word", "more word");
    assert_eq!(named(old, &new, 5), "@@ -2 +2 @@", "a block comment is no code");
}

#[test]
fn a_function_with_the_same_tokens_is_unchanged_wherever_it_stands() {
    let helper = "fn helper(n: usize) -> u8 {\n    let v = f(n);\n    v\n}\n";
    let other =
        "fn other() -> u8 {\n    let x = 1;\n    x\n}\nfn third() -> u8 {\n    let y = 2;\n    y\n}\n";
    let old = format!("{helper}{other}");
    let hunks = |new: &str| {
        let changes = changes(&old, new);
        let line = new.lines().position(|line| line.contains("f(n)")).unwrap() + 1;
        let at = |side, line: usize| changes.hunk(side, &frame(&format!("a::helper@src/lib.rs:{line}")));
        [at(Side::Baseline, 2), at(Side::Candidate, line)].map(|hunk| hunk.is_some())
    };
    assert_eq!(hunks(&format!("{other}{helper}")), [false; 2], "it moved");
    assert_eq!(hunks(&format!("mod inner {{\n    pub {helper}}}\n{other}")), [false; 2], "it is in a module");
    assert_eq!(hunks(&old.replace("= f(n)", "=\n        f(n)")), [false; 2], "it is formatted");
    assert_eq!(hunks(&old.replace("f(n);", "f(n); // room")), [false; 2], "it has a comment");
    assert_eq!(hunks(&format!("call!(helper);\n{other}{helper}")), [false; 2], "a macro names it");
    assert_eq!(hunks(&format!("{other}{}", helper.replace("f(n)", "1 + f(n)"))), [true; 2]);
    assert_eq!(hunks(&old.replace("f(n);", "f(n); /// room")), [true; 2], "macros read documentation");
    assert_eq!(hunks(&format!("mod inner {{\n{helper}}}\n{helper}")), [false, false], "another has its name");
}

#[test]
fn a_function_that_moved_to_another_file_is_unchanged() {
    let function = "fn f() {\n    x();\n    y();\n}\n";
    let of = |function: &str| {
        let files = [
            changed(["src/a.rs"; 2], [Some(function), Some("fn g() {}\n")]),
            changed(["", "src/b.rs"], [None, Some("fn f() {\n    x();\n    y();\n}\n")]),
        ];
        let changes = of_files(&files);
        [(Side::Baseline, "a::f@src/a.rs:2"), (Side::Candidate, "a::f@src/b.rs:2")]
            .map(|(side, at)| changes.hunk(side, &frame(at)).is_some())
    };
    assert_eq!(of(function), [false; 2]);
    assert_eq!(of(&function.replace("y()", "z()")), [true; 2]);
    assert_eq!(
        of(&format!("{function}mod m {{ {function} }}")),
        [true; 2],
        "it is not known which one moved"
    );
}

#[test]
fn a_line_is_changed_if_its_function_is() {
    let changes = changes(OLD, NEW);
    let at = |line: u32| frame(&format!("a::f@src/lib.rs:{line}"));
    let hunk = |side, line| changes.hunk(side, &at(line)).map(|found| found.hunk.to_string());
    assert_eq!(hunk(Side::Candidate, 8).as_deref(), Some("@@ -5 +8 @@"));
    assert_eq!(hunk(Side::Candidate, 9).as_deref(), Some("@@ -5 +8 @@"), "another line of the function");
    assert_eq!(hunk(Side::Candidate, 5), None, "its function only moved");
    assert_eq!(hunk(Side::Candidate, 2).as_deref(), Some("@@ -0,0 +1,3 @@"));
    assert_eq!(hunk(Side::Baseline, 9).as_deref(), Some("@@ -8,3 +10,0 @@"));
    let only = |side, line| changes.is_only_here(side, &at(line));
    assert!(only(Side::Candidate, 2) && only(Side::Baseline, 9));
    assert!(!only(Side::Candidate, 8) && !only(Side::Baseline, 5));
}

/// Says which hunk is named for a line of the baseline.
fn named(old: &str, new: &str, line: u32) -> String {
    let found = changes(old, new).hunk(Side::Baseline, &frame(&format!("a::f@src/lib.rs:{line}")));
    found.map(|found| found.hunk.to_string()).unwrap_or_default()
}

#[test]
fn the_hunk_that_ends_nearest_to_a_line_is_named() {
    let old = "fn f() {\n    a(1);\n    b(1);\n    c(1);\n    x();\n    y();\n    z(1);\n}\n";
    assert_eq!(named(old, &old.replace("(1)", "(2)"), 5), "@@ -2,3 +2,3 @@");
    let both = old.replace("c(1)", "c(2)").replace("y()", "y(2)");
    assert_eq!(named(old, &both, 5), "@@ -4 +4 @@", "what runs before comes first");
    let deleted = old.replace("    b(1);\n", "").replace("z(1)", "z(2)");
    assert_eq!(named(old, &deleted, 4), "@@ -3 +2,0 @@");
    assert_eq!(named(&deleted, old, 3), "@@ -2,0 +3 @@");
}

#[test]
fn a_hunk_in_the_statement_of_a_line_is_named_before_a_nearer_one() {
    let old = "fn f() {\n    let a = 1;\n    let v = vec![\n        1;\n        n\n    ];\n    b(1);\n}\n";
    let new = old.replace("a = 1", "a = 2").replace("n\n    ]", "2 * n\n    ]");
    assert_eq!(named(old, &new, 3), "@@ -5 +5 @@");
    let deleted = old.replace("a = 1", "a = 2").replace("        n\n", "");
    assert_eq!(named(old, &deleted, 3), "@@ -5 +4,0 @@");
    let body = "fn f() {\n    a(1);\n    x();\n    for b in c() {\n        y();\n        d(1);\n    }\n}\n";
    let changed = body.replace("x()", "x(2)").replace("d(1)", "d(2)");
    assert_eq!(named(body, &changed, 4), "@@ -3 +3 @@", "a loop's body is other statements");
}

#[test]
fn a_deleted_line_changes_the_function_around_it_and_no_neighbour() {
    let changes =
        changes("fn a() {\n    x();\n    y();\n}\nfn b() {}\n", "fn a() {\n    y();\n}\nfn b() {}\n");
    assert!(changes.hunk(Side::Candidate, &frame("a::a@src/lib.rs:2")).is_some());
    assert_eq!(changes.hunk(Side::Candidate, &frame("a::b@src/lib.rs:4")), None);
}

const DERIVED: &str = "\
#[derive(Clone, Debug)]
struct T {
    a: u8,
    b: u8,
}
";
const WRITTEN: &str = "\
#[derive(Debug)]
struct T {
    a: u8,
    b: u8,
}

impl Clone for T {
    fn clone(&self) -> Self { T { ..*self } }
    fn clone_from(&mut self, other: &Self) {}
}
";

#[test]
fn a_derive_that_became_an_impl_is_a_change() {
    let at = |function: &str, line: u32| frame(&format!("<a::T as b::{function}@src/lib.rs:{line}"));
    let (derived, written) = (at("Clone>::clone", 4), at("Clone>::clone", 8));
    for (changes, derived_on, written_on) in [
        (changes(DERIVED, WRITTEN), Side::Baseline, Side::Candidate),
        (changes(WRITTEN, DERIVED), Side::Candidate, Side::Baseline),
    ] {
        let lines = |side, frame: &Frame| Some(changes.hunk(side, frame)?.hunk.lines_on(side).clone());
        assert_eq!(lines(derived_on, &derived), Some(1..2), "the hunk of the attribute");
        assert_eq!(lines(derived_on, &at("Debug>::fmt", 4)), None, "it is still derived");
        assert_eq!(lines(written_on, &written), Some(6..11));
        assert!(!changes.is_only_here(derived_on, &derived));
        assert!(!changes.is_only_here(written_on, &written));
        assert!(changes.is_only_here(written_on, &at("Clone>::clone_from", 9)));
    }
}

#[test]
fn a_derived_function_changes_with_the_fields() {
    let changes = changes(DERIVED, &DERIVED.replace("a: u8", "a: u16"));
    let hunk = |line: u32| {
        let frame = frame(&format!("<a::T as b::Clone>::clone@src/lib.rs:{line}"));
        changes.hunk(Side::Baseline, &frame).map(|found| found.hunk.to_string())
    };
    assert_eq!([hunk(4), hunk(1)].map(Option::unwrap), ["@@ -3 +3 @@", "@@ -3 +3 @@"]);
}

#[test]
fn a_function_may_take_the_place_of_one_that_the_trait_provides() {
    let changes = changes(DERIVED, WRITTEN);
    let replaced = |side, function: &str| {
        let found = changes.replacements(side, &frame(function)).into_iter();
        found.map(|one| format!("{} {} {}", one.function, one.location, one.hunk.hunk)).collect::<Vec<_>>()
    };
    let expected = ["<T as Clone>::clone_from src/lib.rs:9 @@ -5,0 +6,5 @@"];
    assert_eq!(replaced(Side::Baseline, "core::clone::Clone::clone_from"), expected);
    assert_eq!(replaced(Side::Baseline, "<a::T as core::clone::Clone>::clone_from"), expected);
    assert!(replaced(Side::Baseline, "<a::U as core::clone::Clone>::clone_from").is_empty());
    assert!(replaced(Side::Baseline, "core::clone::Clone::clone").is_empty(), "it was derived");
    assert!(replaced(Side::Candidate, "core::clone::Clone::clone_from").is_empty());
}

#[test]
fn renamed_new_and_unreadable_files_have_hunks() {
    let text = Some("fn a() {\n}\n");
    let changes = of_files(&[
        changed(["src/old.rs", "src/new.rs"], [text, Some("\nfn a() {\n}\n")]),
        changed(["", "src/added.rs"], [None, Some("fn n() {}\n")]),
        changed(["src/bin.rs"; 2], [Some(""), None]),
    ]);
    let moved = changes.moved("src/old.rs", 1).unwrap();
    assert_eq!((&*moved.path, moved.line), ("src/new.rs", 2));
    assert!(changes.is_only_here(Side::Candidate, &frame("a::n@src/added.rs:1")));
    let unreadable = frame("a::n@src/bin.rs:500");
    assert_eq!(changes.hunk(Side::Candidate, &unreadable), None, "it is not known what changed");
    assert!(changes.is_unknown(Side::Candidate, &unreadable));
    assert!(!changes.is_unknown(Side::Candidate, &frame("a::n@src/added.rs:1")));
    assert!(!changes.moved("src/bin.rs", 500).unwrap().is_same);
    let files = [changed(["src/bin.rs"; 2], [Some(""), None])];
    let problems = ChangedSources::new(&files).problems(&BTreeSet::from(["src/bin.rs"]));
    assert_eq!(
        problems,
        [
            "it is not known what the diff changes in src/bin.rs: the file is too large to compare, a link, or no UTF-8 text"
        ]
    );
}

#[test]
fn a_function_is_found_by_its_name_if_its_line_is_in_a_macro() {
    let old = "\
macro_rules! grow {
    ($n:expr) => { vec![7; $n] };
}
fn large() {
    grow!(1)
}
mod m { fn small() {
    grow!(3)
} }
make!(
    made, 1);
make!(other, T, 3);
";
    let hunk = |old: &str, new: &str, function: &str| {
        let frame = frame(&format!("{function}@src/lib.rs:2"));
        let found = changes(old, new).hunk(Side::Candidate, &frame);
        found.map(|found| found.hunk.to_string()).unwrap_or_default()
    };
    let new = old.replace("(1)", "(2)").replace(", 1)", ", 2)");
    let of = |function: &str| hunk(old, &new, function);
    assert_eq!([of("a::large"), of("a::large::{closure#0}")], ["@@ -5 +5 @@"; 2]);
    assert_eq!([of("a::m::small"), of("a::other"), of("a::T::new"), of("a::gone")], [""; 4]);
    assert_eq!(of("a::made"), "@@ -11 +11 @@");
    assert_eq!(hunk(old, &old.replace("T, 3", "T, 4"), "<a::T as a::Tr>::new"), "@@ -12 +12 @@");
    assert_eq!(hunk(old, &old.replace("vec![7", "vec![8"), "a::large"), "@@ -2 +2 @@", "the macro changed");
    let only_here = |function: &str| {
        let changes = changes(&old.replace("large", "huge"), old);
        changes.is_only_here(Side::Candidate, &frame(&format!("{function}@src/lib.rs:2")))
    };
    assert!(only_here("a::large") && !only_here("a::m::small") && !only_here("a::made"));
}

#[test]
fn a_function_is_found_in_a_file_that_cannot_be_parsed() {
    let old = "trait A { fn size(&self, u8); }\nfn f() {\n    a(1);\n    x();\n}\nfn g() {\n    x();\n}\n";
    let new = old.replace("a(1)", "a(2)");
    assert_eq!([named(old, &new, 4), named(old, &new, 7)], ["@@ -3 +3 @@", ""]);
    let method = "impl B {\n    fn h() {\n        a(1);\n    }\n}\n";
    let one_side =
        changes(&format!("{method}{}", &old[32..]), &format!("{}{old}", method.replace("(1)", "(2)")));
    assert!(!one_side.is_only_here(Side::Baseline, &frame("a::B::h@src/lib.rs:3")));
    let at = |line: u32| frame(&format!("a::f@src/lib.rs:{line}"));
    let deep = format!("const D: u8 = {}1{};\n{old}", "(".repeat(200), ")".repeat(200));
    let changes = changes(&deep, &deep.replace("a(1)", "a(2)"));
    assert!(changes.hunk(Side::Baseline, &at(4)).is_some(), "the line itself is changed");
    assert!(!changes.is_unknown(Side::Baseline, &at(4)) && changes.is_unknown(Side::Baseline, &at(5)));
}

#[test]
fn a_file_is_compared_once_and_only_if_stacks_are_in_it() {
    let files =
        ["src/used.rs", "src/unused.rs"].map(|path| changed([path; 2], [Some(""), Some("fn n() {}")]));
    let changed = ChangedSources::new(&files);
    let used = || changed.used(&[BTreeSet::new(), BTreeSet::from(["src/used.rs"])]).files;
    let (first, second) = (used(), used());
    assert!(first.len() == 1 && second.len() == 1 && Arc::ptr_eq(&first[0], &second[0]));
    assert!(changed.0[1].1.get().is_none());
    let unknown = [StoredFile::unknown("lib/")];
    let problems = |path| ChangedSources::new(&unknown).problems(&BTreeSet::from([path]));
    assert!(problems("lib/src/lib.rs").len() == 1 && problems("library/src/lib.rs").is_empty());
}

proptest::proptest! {
    #[test]
    fn a_line_that_did_not_change_is_found_again(old in "[a-c\n]{0,40}", new in "[a-c\n]{0,40}") {
        let changes = changes(&old, &new);
        let lines: Vec<&str> = new.lines().collect();
        for (index, text) in old.lines().enumerate() {
            let moved = changes.moved("src/lib.rs", u32::try_from(index).unwrap() + 1).unwrap();
            if moved.is_same {
                proptest::prop_assert_eq!(lines[moved.line as usize - 1], text);
                proptest::prop_assert!(changes.is_old_line("src/lib.rs", moved.line));
            }
        }
    }
}
