//! Builds that failed, in every format.

use crate::git::MANIFEST;
use crate::reports::{MIB, at_width, rendered, table};
use crate::support::synthetic::{Log, Synthetic};
use crate::support::{Printed, TestRepository, tool};
use memprof_judge::compare::from_results::compare;
use memprof_judge::results::outcome::Status;
use memprof_report::github;
use memprof_report::options::{Format, Options};
use serde_json::{Value, json};

#[test]
fn a_build_that_failed_is_quoted_once_for_all_its_tests() {
    let log = Log::new().checkpoint("start", &[("heap.peak", MIB)]);
    let message = "error[E0425]: cannot find value `x` in this scope";
    let synthetic = ["a", "b", "c"].into_iter().fold(Synthetic::new(&["main", "pr/1"]), |synthetic, test| {
        synthetic.passed(test, 0, 0, &log).failed(test, 1, Status::BuildFailed, message, None)
    });
    let comparison = compare(&synthetic.results());
    let text = table(&comparison, &at_width(100));
    assert!(text.contains(" ✗ pr/1 did not build: 3 tests (a, b, c)\n     error[E0425]"), "{text}");
    assert_eq!((text.matches("pr/1 did not build").count(), text.matches("E0425").count()), (1, 1), "{text}");
    let text = rendered(Format::Markdown, &comparison, &Options::default());
    assert!(text.contains("**pr/1 did not build** · 3 tests (a, b, c)\n<pre>error[E0425]"), "{text}");
}

#[test]
fn builds_that_all_failed_are_told_in_every_format_and_fail_a_case() {
    let errors = "error[E0425]: cannot find value `x` in this scope\n --> src/lib.rs:3:5";
    let facts = format!("build failed: {errors}");
    let synthetic = Synthetic::new(&["main", "pr/1"]).builds(&json!({ "0": facts, "1": facts }));
    let comparison = compare(&synthetic.results());
    for format in [Format::Table, Format::Markdown, Format::Junit] {
        let text = rendered(format, &comparison, &at_width(100));
        for needle in ["main and pr/1 did not build", "E0425"] {
            assert!(text.contains(needle), "{format:?}: {text}");
        }
        assert_eq!(text.matches("E0425").count(), 1, "{text}");
    }
    let junit = rendered(Format::Junit, &comparison, &Options::default());
    assert!(junit.contains("tests=\"1\" failures=\"1\""), "{junit}");
    assert_eq!(github::annotations(&comparison, &Options::default()).len(), 1);
    let json: Value =
        serde_json::from_str(&rendered(Format::Json, &comparison, &Options::default())).unwrap();
    assert_eq!(json["failed_builds"][1]["ref"], "pr/1");
    assert!(json["failed_builds"][0]["errors"].as_str().unwrap().contains("E0425"), "{json}");
    assert_eq!(rendered(Format::Csv, &comparison, &Options::default()).matches(",build_failed,").count(), 2);
}

#[test]
fn a_failed_build_is_told_with_its_lock_file_and_with_the_notes_on_it() {
    let used = "dependencies of 2024-05-01";
    let facts = json!({ "build_failed": "error[E0425]: x", "lockfile": used, "notes": ["took a 1.0.0"] });
    let synthetic = Synthetic::new(&["main", "pr/1"]).builds(&json!({ "0": facts }));
    let results = synthetic.results();
    assert!(results.builds.is_empty(), "it has no facts to compare: {:?}", results.builds);
    let comparison = compare(&results);
    for format in [Format::Table, Format::Markdown, Format::Junit] {
        let text = rendered(format, &comparison, &at_width(100));
        assert!(text.contains("without a Cargo.lock: built with dependencies of 2024-05-01"), "{text}");
    }
    let json: Value =
        serde_json::from_str(&rendered(Format::Json, &comparison, &Options::default())).unwrap();
    assert_eq!(json["failed_builds"][0]["errors"], "error[E0425]: x");
    assert_eq!(json["failed_builds"][0]["lockfile"], used);
    assert_eq!(json["notes"], json!(["took a 1.0.0"]));
}

#[test]
fn a_build_that_failed_shows_its_errors_and_its_log() {
    let log = Log::new().checkpoint("start", &[("heap.peak", MIB)]);
    let errors = (0..40).map(|line| format!("error line {line}")).collect::<Vec<_>>().join("\n");
    let synthetic = Synthetic::new(&["main", "pr/1"])
        .builds(&json!({ "1": format!("build failed: {errors}") }))
        .passed("a", 0, 0, &log)
        .failed("a", 1, Status::BuildFailed, "error line 0", None);
    let folder = synthetic.folder().0.join("builds");
    fs_err::create_dir_all(&folder).unwrap();
    fs_err::write(folder.join("1-pr-1.log"), &errors).unwrap();
    let text = table(&compare(&synthetic.results()), &at_width(100));
    assert!(text.contains("     error line 19\n     … 20 more lines in builds/1-pr-1.log\n"), "{text}");
}

#[test]
fn a_tree_that_does_not_compile_fails_the_list_of_tests_and_the_report() {
    let errors = "error[E0425]: cannot find value `x` in this scope";
    let synthetic = Synthetic::new(&["."]).builds(&json!({ "0": format!("build failed: {errors}") }));
    let list = table(&compare(&synthetic.results()), &Options { is_test: true, ..Options::default() });
    let told = format!("failures:\n\n ✗ . did not build\n     {errors}\n\ntest result: FAILED. 0 passed");
    assert!(list.contains(&told), "{list}");
    let mut report = tool();
    report.arg("report").arg(&synthetic.folder().0);
    let printed = Printed::of(report);
    assert_eq!(printed.code, 3, "{}", printed.everything());
    assert!(printed.stdout.contains(errors), "{}", printed.everything());
}

#[test]
fn a_revision_without_the_workspace_fails_for_itself_alone() {
    let mut repository = TestRepository::new();
    repository.write("Cargo.toml", MANIFEST);
    repository.write("src/lib.rs", "");
    repository.commit("in the root");
    fs_err::create_dir(repository.path("rust")).unwrap();
    for moved in ["Cargo.toml", "src"] {
        fs_err::rename(repository.path(moved), repository.path("rust").join(moved)).unwrap();
    }
    repository.commit("in a folder");
    // Cargo fails here, too, so that nothing is compiled.
    repository
        .write("rust/Cargo.toml", format!("{MANIFEST}[dependencies]\nabsent = {{ path = \"../absent\" }}\n"));
    repository.commit("without a package");
    let compare = |refs: [&str; 2]| {
        let mut command = repository.memprof();
        let output = command.current_dir(repository.path("rust")).arg("memprof").args(refs).output().unwrap();
        String::from_utf8(output.stderr).unwrap()
    };
    let text = compare(["HEAD~2", "HEAD"]);
    for needle in ["HEAD~2 has no rust/Cargo.toml", "failed to get `absent`"] {
        assert!(text.contains(needle), "{needle}: {text}");
    }
    repository.git(["checkout", "--quiet", "HEAD~2"]);
    repository.git(["commit", "--quiet", "--allow-empty", "--message", "in the root again"]);
    repository.write("rust/Cargo.toml", MANIFEST);
    repository.write("rust/src/lib.rs", "");
    let text = compare(["HEAD~1", "HEAD"]);
    assert!(text.contains("no ref can be built as requested: HEAD~1 has no rust/Cargo.toml"), "{text}");
}
