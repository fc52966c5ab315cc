//! Shards of several machines: what the merged run says about them, and which do not fit together.

use camino::Utf8PathBuf;
use memprof_judge::compare::from_results::compare;
use memprof_judge::results::run_folder::RunFolder;
use memprof_judge::results::stored;
use memprof_judge::why::stored::StoredTests;
use memprof_plan::shard::Shard;
use memprof_plan::sharding::AllTests;
use memprof_run::merging::{Shards, folders_of_run};
use memprof_support::regular_file::remove;
use memprof_support::sealed;
use memprof_support::user_error::UserError;
use serde_json::json;

use crate::judging::program;
use crate::support::synthetic::{Log, Synthetic, cell};

fn log(live: i64) -> Log {
    Log::new().checkpoint("done", &[("heap.live", live), ("heap.peak", live)])
}

fn shards(builds: [&str; 2], machines: [&str; 2]) -> [Synthetic; 2] {
    let all = AllTests::from_cells([&cell("one", &[]), &cell("two", &[])].into_iter());
    let shard = |number: u32, test: &str| {
        let index = number as usize - 1;
        Synthetic::new(&["main", "pr/7"])
            .passed(test, 0, 0, &log(1_000_000))
            .passed(test, 1, 0, &log(1_000_000 * i64::from(number)))
            .environment(&json!({ "os": "linux", "cpu": machines[index] }))
            .builds(&json!({ "0": {
                "key": number, "toolchain": builds[index], "environment": format!("CARGO_TARGET_DIR {number}"),
            } }))
            .shard(Shard { number, count: 2 }, &all)
    };
    [shard(1, "one"), shard(2, "two")]
}

fn open(shards: &[Synthetic; 2]) -> anyhow::Result<Shards> {
    Shards::open(shards.iter().map(|shard| RunFolder(shard.folder().0.clone())).collect())
}

#[test]
fn machines_are_told_apart_and_what_they_share_is_kept() {
    let shards = shards(["rustc 1.95.0"; 2], ["EPYC 9454", "Xeon 8480"]);
    let opened = open(&shards).expect("they fit together");
    let home = tempfile::tempdir().expect("a folder");
    let folder = RunFolder(Utf8PathBuf::from_path_buf(home.path().join("merged")).expect("text"));
    opened.write(&folder, &opened.plan()).expect("written");
    let results = stored::read(&folder).expect("results");
    assert_eq!(results.environment["os"], "linux");
    assert_eq!(results.environment.get("cpu"), None, "the machines differ in it");
    assert_eq!(results.environment["machines"][1]["environment"]["cpu"], "Xeon 8480");
    let note = "measured on 2 machines, each test with all its revisions on one of them: shard 1; shard 2 (the processors differ: EPYC 9454 / Xeon 8480)";
    assert_eq!(results.plan.notes, [note]);
    let comparison = compare(&results);
    let titles: Vec<&str> = comparison.cells.iter().map(|cell| &*cell.id.title).collect();
    assert_eq!(titles, ["one", "two"]);
}

#[test]
fn each_shard_says_which_tests_it_left_without_call_sites() {
    let shards = shards(["rustc 1.95.0"; 2], ["EPYC 9454"; 2]);
    for (shard, left_out) in shards.iter().zip(["3 more tests", "5 more tests"]) {
        let why = shard.folder().why();
        std::fs::create_dir_all(&why.0).expect("a folder");
        let tests = StoredTests { left_out: Some(left_out.to_owned()), ..StoredTests::default() };
        sealed::write(&why.tests(), &tests).expect("written");
    }
    let opened = open(&shards).expect("they fit together");
    let home = tempfile::tempdir().expect("a folder");
    let folder = RunFolder(Utf8PathBuf::from_path_buf(home.path().join("merged")).expect("text"));
    opened.write(&folder, &opened.plan()).expect("written");
    let tests: StoredTests = sealed::read(&folder.why().tests()).expect("the tests");
    assert_eq!(tests.left_out.as_deref(), Some("shard 1: 3 more tests; shard 2: 5 more tests"));
}

#[test]
fn one_machine_is_not_spoken_of() {
    let opened = open(&shards(["rustc 1.95.0"; 2], ["EPYC 9454"; 2])).expect("they fit together");
    assert_eq!(opened.plan().notes, [""; 0]);
}

#[test]
fn builds_of_different_toolchains_are_refused() {
    let error = open(&shards(["rustc 1.95.0", "rustc 1.94.0"], ["EPYC 9454"; 2])).err().expect("an error");
    assert!(error.to_string().contains("have different builds of main: the toolchain"), "{error}");
}

#[test]
fn a_shard_that_is_damaged_is_named_and_nothing_is_left() {
    let shards = shards(["rustc 1.95.0"; 2], ["EPYC 9454"; 2]);
    let damaged = shards[1].folder();
    let outcome = damaged.cell(&stored::read_plan(damaged).expect("a plan"), 1, &cell("two", &[]), 0);
    std::fs::write(damaged.origin(), "{}").expect("written");
    let opened = open(&shards).expect("they fit together");
    std::fs::write(outcome.join("outcome.json"), "").expect("written");
    let home = tempfile::tempdir().expect("a folder");
    let folder = RunFolder(Utf8PathBuf::from_path_buf(home.path().join("merged")).expect("text"));
    let error = opened.write(&folder, &opened.plan()).expect_err("it is damaged");
    let error = error.downcast::<UserError>().expect("advice").rendered();
    assert!(error.starts_with(&format!("error: shard 2/2: {outcome}/outcome.json was changed")), "{error}");
    let help = format!("cargo-memprof run --archive FILE --resume {}\n", damaged.0);
    assert!(error.contains(&help) && error.ends_with("then merge again"), "{error}");
    assert_eq!(std::fs::read_dir(home.path()).expect("a folder").count(), 0);
}

#[test]
fn shards_keep_their_notes_and_what_all_say_is_said_once() {
    let noted = |shard: Synthetic, notes: &[&str]| {
        let mut plan = stored::read_plan(shard.folder()).expect("a plan");
        plan.notes.extend(notes.iter().map(|note| (*note).to_owned()));
        sealed::write(&shard.folder().plan(), &plan).expect("written");
        shard
    };
    let [one, two] = shards(["rustc 1.95.0"; 2], ["EPYC 9454"; 2]);
    let opened =
        open(&[noted(one, &["of all"]), noted(two, &["of all", "of two"])]).expect("they fit together");
    assert_eq!(opened.plan().notes, ["of all", "of two"]);
}

#[test]
fn a_merge_that_ends_in_the_middle_leaves_nothing_and_the_next_one_is_whole() {
    let shards = shards(["rustc 1.95.0"; 2], ["EPYC 9454"; 2]);
    let opened = open(&shards).expect("they fit together");
    let home = tempfile::tempdir().expect("a folder");
    let folder = RunFolder(Utf8PathBuf::from_path_buf(home.path().join("merged")).expect("text"));
    // It ends in the middle.
    let why = shards[1].folder().why();
    std::fs::create_dir_all(&why.0).expect("a folder");
    std::fs::write(why.tests(), "damaged").expect("written");
    opened.write(&folder, &opened.plan()).expect_err("a shard is damaged");
    assert_eq!(std::fs::read_dir(home.path()).expect("a folder").count(), 0);
    std::fs::remove_file(why.tests()).expect("removed");
    opened.write(&folder, &opened.plan()).expect("merged");
    stored::read(&folder).expect("it is a run");
    let error = opened.write(&folder, &opened.plan()).expect_err("it is there");
    assert!(error.to_string().contains("plan.json exists: a merge writes a run of its own"), "{error}");
    std::fs::remove_file(folder.plan()).expect("removed");
    let error = opened.write(&folder, &opened.plan()).expect_err("something is left");
    assert!(error.to_string().contains("cells exists, without a plan.json beside it"), "{error}");
    let help = error.downcast_ref::<UserError>().and_then(|error| error.help.clone()).expect("help");
    assert!(help.contains(&format!("rm -r {}", folder.cells())), "{help}");
    for left in folders_of_run(&folder) {
        remove(&left).expect("removed");
    }
    std::fs::write(folder.0.join("own"), "").expect("written");
    opened.write(&folder, &opened.plan()).expect("merged beside what is there");
    stored::read(&folder).expect("it is a run");
    assert_eq!(std::fs::read_dir(home.path()).expect("a folder").count(), 1);
}

#[test]
fn a_threshold_for_shards_of_a_single_revision_is_refused_before_anything_is_written() {
    let all = AllTests::from_cells([&cell("one", &[]), &cell("two", &[])].into_iter());
    let shard = |number: u32, test: &str| {
        let shard = Synthetic::new(&["main"]).passed(test, 0, 0, &log(1_000_000));
        shard.builds(&json!({ "0": { "key": 1 } })).shard(Shard { number, count: 2 }, &all)
    };
    let shards = [shard(1, "one"), shard(2, "two")];
    let home = tempfile::tempdir().expect("a folder");
    let merged = home.path().join("merged");
    let merge = |flags: &[&str]| {
        let folders = shards.iter().map(|shard| shard.folder().0.as_str());
        let to = ["--run-folder", merged.to_str().expect("text")];
        program(
            &["merge"].into_iter().chain(folders).chain(to).chain(flags.iter().copied()).collect::<Vec<_>>(),
        )
    };
    let refused = merge(&["--threshold", "heap.peak=5%"]).code(2);
    let text = String::from_utf8_lossy(&refused.get_output().stderr).into_owned();
    assert!(text.contains("--threshold limits growth, and there is only one revision"), "{text}");
    assert!(!merged.exists());
    merge(&["--limit", "heap.peak=1KiB"]).code(1);
}
