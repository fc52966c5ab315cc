//! Overlays in real builds: test files that only one revision has, and changes that an overlay hides.

use std::path::Path;

use crate::support::csv::{kept, memprof, values};
use crate::support::zoo::ZooRepository;
use crate::support::{Printed, TestRepository, home, tool};

/// The notes of the latest run's JSON report, as a bot reads them.
fn notes(root: &Path, home: &Path) -> Vec<String> {
    let printed = memprof(root, home, &["report", "--format", "json"]);
    let report: serde_json::Value = serde_json::from_str(&printed.stdout).expect("a JSON report");
    let notes = report["notes"].as_array().expect("notes").iter();
    notes.map(|note| note.as_str().expect("text").to_owned()).collect()
}

/// Runs one test by its name, at both tags.
fn run(repository: &ZooRepository, home: &Path, name: &str, arguments: &[&str]) -> Printed {
    let printed = attempt(repository, home, name, arguments);
    assert_eq!(printed.code, 0, "{}", printed.everything());
    printed
}

fn attempt(repository: &ZooRepository, home: &Path, name: &str, arguments: &[&str]) -> Printed {
    let usual = ["--refs", "old,new", "--offline", "--repeat", "1", "-k", name, "--format", "csv"];
    memprof(&repository.root(), home, &[&usual, arguments].concat())
}

#[test]
fn a_search_names_the_file_of_a_test_that_only_one_end_has() {
    let repository = ZooRepository::of("test-only-in-new");
    let home = home();
    let arguments = ["bisect", "old..new", "--offline", "-k", "keeps_in_new_only"];
    let printed = memprof(&repository.root(), home.path(), &arguments);
    assert_eq!(printed.code, 2, "{}", printed.everything());
    let help = "add the same test to every commit: `--overlay new:tests/new_only.rs`";
    assert!(printed.stderr.contains(help), "{}", printed.everything());
}

#[test]
fn a_search_names_the_folder_of_a_test_with_modules_and_the_file_of_the_other_end() {
    let repository = ZooRepository::of("test-only-in-new");
    let root = repository.root();
    repository.git(&["checkout", "-q", "-b", "suite", "new"]);
    let tests = root.join("tests");
    std::fs::create_dir(tests.join("suite")).unwrap();
    std::fs::rename(tests.join("new_only.rs"), tests.join("suite/new_only.rs")).unwrap();
    std::fs::write(tests.join("suite/main.rs"), "mod new_only;\n").unwrap();
    repository.git(&["add", "-A"]);
    repository.git(&["commit", "-qm", "one suite"]);
    let home = home();
    let search = |arguments: &[&str]| {
        memprof(
            &root,
            home.path(),
            &[&["bisect", "old..suite", "--offline", "-k", "keeps_in"], arguments].concat(),
        )
    };
    let printed = search(&[]);
    let help = "add the same test to every commit: `--overlay suite:tests/suite`, or, if that does not compile in \
                each, `--overlay old:tests/old_only.rs`";
    assert!(printed.code == 2 && printed.stderr.contains(help), "{}", printed.everything());
}

#[test]
fn a_test_file_of_one_revision_is_put_into_the_other_and_the_report_says_so() {
    let repository = ZooRepository::of("test-only-in-new");
    let home = home();
    let both = run(&repository, home.path(), "keeps_in", &[]);
    let kept_bytes = kept(&values(&both));
    assert_eq!(kept_bytes.len(), 4, "both tests at both refs: {}", both.everything());
    let new_only = |name: &str| {
        kept_bytes[&("test-only-in-new::new_only::keeps_in_new_only".to_owned(), name.to_owned())]
    };
    assert_eq!(new_only("new") - new_only("old"), 1 << 20, "each side runs its own library");
    let notes_of_both = notes(&repository.root(), home.path());
    for (file, donor, revision) in [("new_only", "new", "old"), ("old_only", "old", "new")] {
        let has = |note: &String| {
            note.starts_with(&format!("tests/{file}.rs of {donor} ("))
                && note.contains(&format!("was put into {revision} ("))
        };
        assert!(notes_of_both.iter().any(has), "{notes_of_both:?}");
    }
    let again = run(&repository, home.path(), "keeps_in", &[]);
    assert!(!again.stderr.contains("Built"), "both builds are kept: {}", again.everything());

    let off = attempt(&repository, home.path(), "keeps_in_new_only", &["--no-auto-overlay"]);
    assert_eq!(off.code, 3, "nothing was compared: {}", off.everything());
    assert_eq!(kept(&values(&off)).len(), 1, "{}", off.everything());
    assert!(
        off.stderr.contains("only new has it; `--overlay new:tests/new_only.rs` puts the test into both"),
        "{}",
        off.everything()
    );
    assert_eq!(
        notes(&repository.root(), home.path())
            .iter()
            .filter(|note| note.contains("--no-auto-overlay"))
            .count(),
        1
    );
    // Cargo refuses to build a revision that lacks a target of `--test`.
    let named = run(&repository, home.path(), "keeps_in", &["--test", "new_only"]);
    assert_eq!(kept(&values(&named)).len(), 2, "{}", named.everything());
}

#[test]
fn a_test_file_that_does_not_build_in_the_other_revision_stays_one_sided_with_the_reason() {
    let repository = ZooRepository::of("single");
    let home = home();
    let root = repository.root();
    let write = |path: &str, text: &str| std::fs::write(root.join(path), text).expect("it can be written");
    let library = std::fs::read_to_string(root.join("src/lib.rs")).expect("the library");
    write("src/lib.rs", &format!("{library}\npub fn brand_new() {{}}\n"));
    write("tests/fails.rs", "#[test]\nfn one_sided_fails() { single::brand_new() }\n");
    write("tests/works.rs", "#[test]\nfn one_sided_works() {}\n");
    std::fs::create_dir_all(root.join("tests/data")).expect("a folder");
    write("tests/data/kept.txt", "kept");
    write("tests/helper.rs", "pub const FILE: &str = \"tests/data/kept.txt\";\n");
    let reads = "#[test]\nfn one_sided_reads() { assert_eq!(std::fs::read(helper::FILE).unwrap(), b\"kept\") }\n\
                 #[test]\nfn one_sided_misses() { std::fs::metadata(\"src/more.rs\").unwrap(); }\n";
    write("tests/reads.rs", &format!("mod helper;\n{reads}"));
    write("src/more.rs", "");
    let usual = ["--refs", "new,.", "--offline", "--repeat", "1", "-k", "one_sided", "--format", "csv"];
    let printed = memprof(&root, home.path(), &usual);
    assert_eq!(printed.code, 0, "{}", printed.everything());
    let measured: Vec<(String, String)> = kept(&values(&printed)).into_keys().collect();
    let test = |name: &str| format!("single::{name}::one_sided_{name}");
    let pair = |name: &str, at: &str| (test(name), at.to_owned());
    assert_eq!(
        measured,
        [
            pair("fails", "."),
            ("single::reads::one_sided_misses".to_owned(), ".".to_owned()),
            pair("reads", "."),
            pair("reads", "new"),
            pair("works", "."),
            pair("works", "new")
        ],
        "{}",
        printed.everything()
    );
    let reason = "tests/fails.rs: 1 test (one_sided_fails) is only in . (";
    let told = printed.stderr.lines().find(|line| line.contains(reason)).expect("a warning");
    assert!(told.contains("brand_new") && told.contains("does not build there"), "{told}");
    let notes = notes(&root, home.path());
    assert!(notes.iter().any(|note| note.starts_with(reason) && note.contains("brand_new")), "{notes:?}");
    assert!(notes.iter().any(|note| note.starts_with("tests/works.rs of . (")), "{notes:?}");
    let read = notes.iter().find(|note| note.starts_with("tests/reads.rs of . (")).expect("a note");
    let fails = "with 2 files beside it: 1 test fails there and is not compared: ";
    assert!(read.contains(fails) && read.contains("one_sided_misses (tests/reads.rs:"), "{read}");
}

#[test]
fn a_change_that_the_overlay_hides_is_in_the_plan_and_in_the_report() {
    let repository = ZooRepository::of("single");
    let home = home();
    let laid = repository.beside("lib.rs");
    std::fs::copy(repository.root().join("src/lib.rs"), &laid).expect("it can be copied");
    let overlay = format!("{}=src/lib.rs", laid.display());
    let arguments = ["--overlay", &overlay];
    let printed = run(&repository, home.path(), "keeps_through", &arguments);
    let hidden = "the overlay replaces src/lib.rs, which differs between old (";
    assert!(printed.stderr.contains(hidden), "{}", printed.everything());
    let notes = notes(&repository.root(), home.path());
    assert_eq!(notes.iter().filter(|note| note.starts_with(hidden)).count(), 1, "{notes:?}");
    let dry = ["--refs", "old,new", "--dry-run", "--overlay", &overlay];
    let plan = memprof(&repository.root(), home.path(), &dry);
    let plan: serde_json::Value = serde_json::from_str(&plan.stdout).expect("the plan is JSON");
    assert!(plan["notes"][0].as_str().expect("a note").starts_with(hidden), "{plan}");
}

/// A patch that inserts a line after the first one that contains `after`.
fn inserting(path: &str, text: &str, after: &str, line: &str) -> String {
    let position = text.lines().position(|one| one.contains(after)).expect("the line");
    let [before, next] = [position, position + 1].map(|at| text.lines().nth(at).expect("the line"));
    let number = position + 1;
    format!("--- a/{path}\n+++ b/{path}\n@@ -{number},2 +{number},3 @@\n {before}\n+{line}\n {next}\n")
}

#[test]
fn a_patch_changes_each_revisions_own_file_and_fails_the_one_that_it_does_not_fit() {
    let repository = ZooRepository::of("single");
    let home = home();
    let root = repository.root();
    let before = repository.git(&["status", "--porcelain"]);
    let library = std::fs::read_to_string(root.join("src/lib.rs")).expect("the library");
    let signature = "pub fn keep()";
    let patch = repository.beside("more.patch");
    let patch_text = patch.to_str().expect("text");
    let keeps_more = "    std::hint::black_box(vec![1_u8; 3 << 20]).leak();";
    let write = |text: &str| std::fs::write(&patch, text).expect("it can be written");
    write(&inserting("src/lib.rs", &library, signature, keeps_more));
    let plain = kept(&values(&run(&repository, home.path(), "keeps_through", &[])));
    let patched = run(&repository, home.path(), "keeps_through", &["--overlay-patch", patch_text]);
    let patched = kept(&values(&patched));
    assert_eq!(patched.len(), 2);
    for (cell, bytes) in &plain {
        assert_eq!(patched[cell] - bytes, 3 << 20, "{cell:?}: its own file, and three MiB more");
    }
    assert_eq!(repository.git(&["status", "--porcelain"]), before, "the user's files are untouched");
    let again = kept(&values(&run(&repository, home.path(), "keeps_through", &[])));
    assert_eq!(again, plain, "the checkout is restored, and the patch is a part of the key");

    // The bytes that each call keeps differ between the revisions.
    write(&inserting("src/lib.rs", &library, "KEPT: usize", "// only new has this context"));
    let usual = ["--refs", "old,new", "--offline", "--repeat", "1", "-k", "keeps_through", "--format", "csv"];
    let printed = memprof(&root, home.path(), &[&usual[..], &["--overlay-patch", patch_text]].concat());
    assert_eq!(printed.code, 3, "{}", printed.everything());
    let reason = "more.patch does not apply at old (";
    assert!(
        printed.stderr.contains(reason) && printed.stderr.contains("src/lib.rs, hunk 1 of 1"),
        "{}",
        printed.everything()
    );
    let report = memprof(&root, home.path(), &["report", "--format", "json"]);
    assert!(report.stdout.contains(reason), "{}", report.everything());
}

#[test]
fn a_checkpoint_at_a_line_is_measured_and_a_place_without_a_statement_is_refused() {
    let repository = ZooRepository::of("single");
    let home = home();
    let root = repository.root();
    let library = std::fs::read_to_string(root.join("src/lib.rs")).expect("the library");
    let line = library.lines().position(|line| line.contains("black_box")).expect("the statement") + 1;
    let place = format!("src/lib.rs:{line}=inside");
    let all = values(&run(&repository, home.path(), "keeps_through", &["--checkpoint-at", &place]));
    for name in ["old", "new"] {
        let live_at = |checkpoint: &str| {
            let found = all.iter().find(|value| {
                (value.r#ref.as_str(), value.checkpoint.as_str(), value.metric.as_str())
                    == (name, checkpoint, "heap.live")
            });
            found
                .and_then(|value| value.value)
                .unwrap_or_else(|| panic!("no {checkpoint} at {name}: {all:?}"))
        };
        assert!(live_at("inside") < 4096 && live_at("done") >= 1 << 20, "it stands before the allocation");
    }
    let refused = |place: &str| {
        let arguments = ["--refs", "old,new", "--offline", "--checkpoint-at", place];
        let printed = memprof(&root, home.path(), &arguments);
        assert_eq!(printed.code, 2, "{}", printed.everything());
        printed.stderr
    };
    let nowhere = refused("src/lib.rs:1=x");
    assert!(nowhere.contains("--checkpoint-at src/lib.rs:1 has no place at old ("), "{nowhere}");
    assert!(nowhere.contains(&format!("the nearest begin at {line}")), "{nowhere}");
    assert!(refused("main:src/lib.rs:1=x").contains("this ref is not among old, new"));

    // Old has another text in this line, and the checkpoint would stand at different code.
    let differs = library.lines().position(|line| line.contains("KEPT: usize")).expect("the constant") + 1;
    let place = format!("src/lib.rs:{differs}=x");
    let dry = memprof(&root, home.path(), &["--refs", "old,new", "--dry-run", "--checkpoint-at", &place]);
    let plan: serde_json::Value = serde_json::from_str(&dry.stdout).expect("the plan is JSON");
    let note = plan["notes"][0].as_str().expect("a note");
    assert!(
        note.contains("is `pub const KEPT: usize = 1 << 20;` in old (") && note.contains("different code"),
        "{note}"
    );
    assert!(dry.stderr.contains(note), "{}", dry.everything());
}

#[test]
fn a_checkpoint_that_does_not_compile_is_named() {
    let repository = ZooRepository::of("single");
    let home = home();
    let root = repository.root();
    let text = "mod memprof_shim {}
/// One.
pub fn one() -> u8 {
    let one = 1;
    one
}
";
    std::fs::write(root.join("src/one.rs"), text).expect("it can be written");
    let library = std::fs::read_to_string(root.join("src/lib.rs")).expect("the library");
    std::fs::write(root.join("src/lib.rs"), library.replacen("/// Bytes", "pub mod one;\n/// Bytes", 1))
        .expect("it can be written");
    let arguments = ["--refs", ".,again=.", "--offline", "--checkpoint-at", "src/one.rs:5=here"];
    let printed = memprof(&root, home.path(), &arguments);
    assert_ne!(printed.code, 0, "{}", printed.everything());
    let told = "the checkpoint 'here' at src/one.rs:5 may be the cause";
    let words = printed.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains(told), "{}", printed.everything());
}

#[test]
fn test_files_that_both_revisions_have_are_not_replaced_and_told_in_one_line() {
    let repository = ZooRepository::of("single");
    let home = home();
    let root = repository.root();
    let test = |name: &str| format!("#[test]\nfn {name}() {{}}\n");
    let commit = |message: &str, tests: &[&str]| {
        for file in ["one", "two"] {
            let content =
                tests.iter().map(|name| test(&format!("{file}_{name}"))).collect::<Vec<_>>().concat();
            fs_err::create_dir_all(root.join("tests")).unwrap();
            fs_err::write(root.join("tests").join(format!("{file}.rs")), content).unwrap();
        }
        repository.git(&["add", "--all"]);
        repository.git(&["commit", "--quiet", "--message", message]);
    };
    commit("few", &["first"]);
    repository.git(&["tag", "few"]);
    commit("more", &["first", "second", "third"]);
    let arguments = ["--refs", "few,main", "--offline", "--repeat", "1", "-k", "one or two"];
    let printed = memprof(&root, home.path(), &arguments);
    assert_eq!(printed.code, 0, "{}", printed.everything());
    let told = "4 tests are only in main (";
    let why = "has other versions of 2 test files: tests/one.rs and 1 more";
    let notes: Vec<String> =
        notes(&root, home.path()).into_iter().filter(|note| note.contains("other versions")).collect();
    assert!(notes.len() == 1 && notes[0].starts_with(told) && notes[0].contains(why), "{notes:?}");
}

#[test]
fn an_overlay_into_a_member_that_cargo_does_not_build_by_default_builds_that_member() {
    let mut repository = TestRepository::new();
    let manifest = |name: &str| format!("[package]\nname = '{name}'\nversion = '0.1.0'\nedition = '2021'\n");
    repository.write("Cargo.toml", manifest("outer") + "[workspace]\nmembers = ['inner']\n");
    repository.write("src/lib.rs", "");
    repository.write("inner/Cargo.toml", manifest("inner"));
    for (tag, mebibytes) in [("old", 1), ("new", 2)] {
        let library = format!("pub fn kept() -> Vec<u8> {{ vec![1; {mebibytes} << 20] }}\n");
        repository.write("inner/src/lib.rs", library);
        repository.commit(tag);
        repository.git(["tag", tag]);
    }
    let test = repository.beside("memory.rs");
    std::fs::write(&test, "#[test]\nfn keeps() { std::mem::forget(inner::kept()) }\n").expect("a file");
    let overlay = format!("{}=inner/tests/memory.rs", test.display());
    let home = home();
    let usual = ["--refs", "old,new", "--offline", "--repeat", "1", "--format", "csv", "--overlay", &overlay];
    let printed = memprof(repository.root(), home.path(), &usual);
    assert_eq!(printed.code, 0, "{}", printed.everything());
    assert!(printed.stderr.contains("building only inner"), "{}", printed.everything());
    let kept = kept(&values(&printed));
    let of = |name: &str| kept[&("inner::memory::keeps".to_owned(), name.to_owned())] >> 20;
    assert_eq!([of("old"), of("new")], [1, 2], "{}", printed.everything());
}

#[test]
fn an_overlay_among_tests_that_are_a_package_of_their_own_is_one_of_them() {
    let mut repository = TestRepository::new();
    let manifest = |name: &str| format!("[package]\nname = '{name}'\nversion = '0.1.0'\nedition = '2021'\n");
    repository.write("Cargo.toml", "[workspace]\nmembers = ['store', 'store/tests']\nresolver = '2'\n");
    repository.write("store/Cargo.toml", manifest("store") + "autotests = false\n");
    let tests = "[[test]]\nname = 'all'\npath = 'all.rs'\n[dev-dependencies]\nstore = { path = '..' }\n";
    repository.write("store/tests/Cargo.toml", manifest("store-tests") + tests);
    repository.write("store/tests/all.rs", "");
    for (tag, mebibytes) in [("old", 1), ("new", 2)] {
        let library = format!("pub fn kept() -> Vec<u8> {{ vec![1; {mebibytes} << 20] }}\n");
        repository.write("store/src/lib.rs", library);
        repository.commit(tag);
        repository.git(["tag", tag]);
    }
    let test = repository.beside("memory.rs");
    std::fs::write(&test, "#[test]\nfn keeps() { std::mem::forget(store::kept()) }\n").expect("a file");
    let home = home();
    let usual = ["--refs", "old,new", "--offline", "--repeat", "1", "--format", "csv"];
    let beside = format!("{}=store/tests/memory.rs", test.display());
    let inside = format!("{}=tests/memory.rs", test.display());
    for chosen in [
        &["--overlay", &beside][..],
        &["--overlay", &inside, "--overlay-package", "store"],
        &["--overlay", &beside, "-p", "store"],
    ] {
        let printed = memprof(repository.root(), home.path(), &[&usual[..], chosen].concat());
        assert_eq!(printed.code, 0, "{}", printed.everything());
        let kept = kept(&values(&printed));
        let of = |name: &str| kept[&("store-tests::memory::keeps".to_owned(), name.to_owned())] >> 20;
        assert_eq!([of("old"), of("new")], [1, 2], "{}", printed.everything());
    }
}

#[test]
fn the_tests_of_a_renamed_package_get_no_advice_that_cannot_work() {
    let mut repository = TestRepository::new();
    repository.write(".gitignore", "/target\nCargo.lock\n");
    repository.write("src/lib.rs", "");
    repository.write("tests/memory.rs", "#[test]\nfn keeps() { std::mem::forget(vec![1_u8; 1 << 20]) }\n");
    for tag in ["old", "new"] {
        let manifest = format!("[package]\nname = 'the-{tag}'\nversion = '0.1.0'\nedition = '2021'\n");
        repository.write("Cargo.toml", manifest);
        repository.commit(tag);
        repository.git(["tag", tag]);
    }
    let home = home();
    let printed = memprof(repository.root(), home.path(), &["old", "new", "--offline", "--repeat", "1"]);
    assert!(printed.stderr.contains("old has no package 'the-new'"), "{}", printed.everything());
    assert!(printed.stderr.contains("was the package renamed?"), "{}", printed.everything());
    assert!(!printed.stderr.contains("--overlay"), "{}", printed.everything());
}

/// A package with tags `old` and `new`. `new` has another constant, another line in `src/sized.rs`, and a test file.
fn package_with_a_new_test() -> TestRepository {
    let mut repository = TestRepository::new();
    repository.write("Cargo.toml", "[package]\nname = 'one'\nversion = '0.1.0'\nedition = '2021'\n");
    repository.write("Cargo.lock", "version = 3\n\n[[package]]\nname = \"one\"\nversion = \"0.1.0\"\n");
    repository.write(".gitignore", "/target\n");
    let load = "pub fn load() -> Vec<u8> {\n    vec![1; config::CHUNK]\n}\n";
    repository.write("src/lib.rs", format!("pub mod config;\npub mod sized;\n{load}"));
    for (tag, mebibytes) in [("old", 1), ("new", 3)] {
        repository.write("src/config.rs", format!("pub const CHUNK: usize = {mebibytes} << 20;\n"));
        let sized = format!("pub fn load() -> Vec<u8> {{\n    vec![1; {mebibytes} << 20]\n}}\n");
        repository.write("src/sized.rs", sized + "\npub fn index() -> usize {\n    7\n}\n");
        if tag == "new" {
            let test = |name: &str, load: &str| {
                format!("#[test]\nfn {name}() {{\n    std::hint::black_box({load}());\n}}\n")
            };
            let tests = test("loads", "one::load") + &test("loads_sized", "one::sized::load");
            repository.write("tests/new.rs", tests);
        }
        repository.commit(tag);
        repository.git(["tag", tag]);
    }
    repository
}

/// Compares with call stacks. Returns each cause: its place, or else its site, and the kind of its class; and the notes.
fn causes(repository: &TestRepository, home: &Path, arguments: &[&str]) -> (Vec<String>, Vec<String>) {
    let mut command = tool();
    command.current_dir(repository.root()).env("CARGO_MEMPROF_HOME", home);
    // Other tests do without line tables, to build faster.
    command.env_remove("CARGO_PROFILE_DEV_DEBUG");
    command.args(["memprof", "--offline", "--why=changed", "--format", "json"]);
    command.args(arguments);
    let printed = Printed::of(command);
    let report: serde_json::Value =
        serde_json::from_str(&printed.stdout).unwrap_or_else(|_| panic!("{}", printed.everything()));
    let causes = report["causes"]["entries"].as_array().unwrap_or_else(|| panic!("{report:#}")).iter();
    let text = |value: &serde_json::Value| value.as_str().unwrap_or("none").to_owned();
    let shown = causes.map(|cause| format!("{} {}", text(&cause["location"]), text(&cause["class"]["kind"])));
    let notes = report["notes"].as_array().expect("notes").iter();
    (shown.collect(), notes.map(text).collect())
}

#[test]
fn a_file_that_the_tool_adds_or_patches_counts_as_it_was_compiled() {
    let repository = package_with_a_new_test();
    let home = home();
    let causes = |arguments: &[&str]| {
        let (mut causes, notes) = causes(&repository, home.path(), arguments);
        causes.sort();
        (causes, notes)
    };
    // The test is the same on both sides, whoever has the file.
    let expected = ["src/lib.rs:4 unchanged", "src/sized.rs:2 changed"];
    let overlaid = ["--refs", "old,new", "--overlay", "new:tests/new.rs"];
    for arguments in [&["--refs", "old,new"][..], &["--refs", "new,old"], &overlaid] {
        assert_eq!(causes(arguments).0, expected, "{arguments:?}");
    }
    // The lines that a patch moves belong to the functions that they did before.
    let patch = repository.beside("lines.patch");
    let added = "+// 1\n+// 2\n+// 3\n+// 4\n";
    let text = format!(
        "--- a/src/sized.rs\n+++ b/src/sized.rs\n@@ -1 +1,5 @@\n{added} pub fn load() -> Vec<u8> {{\n"
    );
    std::fs::write(&patch, text).expect("it can be written");
    let patched =
        ["--refs", "old,new", "-k", "loads_sized", "--overlay-patch", patch.to_str().expect("text")];
    let (causes, notes) = causes(&patched);
    assert_eq!(causes, ["src/sized.rs:6 changed"]);
    let told = "src/sized.rs: lines of call sites are those of the patched file (--overlay-patch)";
    assert!(notes.iter().any(|note| note == told), "{notes:?}");
}

#[test]
fn what_is_advised_for_a_test_in_a_module_puts_it_into_both() {
    let mut repository = TestRepository::new();
    repository.write("Cargo.toml", "[package]\nname = 'one'\nversion = '0.1.0'\nedition = '2021'\n");
    repository.write("Cargo.lock", "version = 3\n\n[[package]]\nname = \"one\"\nversion = \"0.1.0\"\n");
    repository.write(".gitignore", "/target\n");
    repository.write("src/lib.rs", "");
    // As `automod` does, it takes what the folder contains.
    let fixed = "#[cfg(has_issue)]\n#[path = \"fixed/issue.rs\"]\nmod issue;\n";
    repository.write("tests/fixed.rs", fixed);
    let build = "fn main() {\n    println!(\"cargo:rerun-if-changed=tests\");\n    \
                 if std::path::Path::new(\"tests/fixed/issue.rs\").exists() { println!(\"cargo:rustc-cfg=has_issue\") }\n}\n";
    repository.write("build.rs", build);
    repository.write("tests/all/main.rs", "#[path = \"a.rs\"]\nmod a;\n");
    repository.write("tests/plain.rs", "");
    let test = |name: &str| format!("#[test]\nfn {name}() {{}}\n");
    repository.write("tests/all/a.rs", test("in_both"));
    repository.commit("old");
    repository.git(["tag", "old"]);
    repository.write("tests/fixed/issue.rs", test("added_to_fixed"));
    repository.write("tests/all/main.rs", "mod a;\nmod b;\n");
    repository.write("tests/all/b.rs", test("added_to_all"));
    repository.write("tests/plain.rs", "#[path = \"plain/c.rs\"]\nmod c;\n");
    repository.write("tests/plain/c.rs", test("added_to_plain"));
    repository.commit("new");
    repository.git(["tag", "new"]);
    let home = home();
    let advised = [
        ("fixed", "old lacks a module of tests/fixed.rs", "--overlay new:tests/fixed"),
        ("all", "old has another tests/all/main.rs, which is not replaced", "--overlay new:tests/all"),
        (
            "plain",
            "old has another tests/plain.rs, which is not replaced",
            "--overlay new:tests/plain.rs --overlay new:tests/plain",
        ),
    ];
    for (name, reason, flags) in advised {
        let filter = format!("added_to_{name}");
        let usual = ["--refs", "old,new", "--offline", "--repeat", "1", "-k", &filter, "--format", "csv"];
        let alone = memprof(repository.root(), home.path(), &usual);
        let help = format!("only new has it; `{flags}` puts the test into both");
        assert!(alone.stderr.contains(reason) && alone.stderr.contains(&help), "{}", alone.everything());
        let flags: Vec<&str> = flags.split(' ').collect();
        let both = memprof(repository.root(), home.path(), &[&usual[..], &flags].concat());
        assert_eq!(kept(&values(&both)).len(), 2, "{}", both.everything());
    }
}
