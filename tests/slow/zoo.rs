//! Every case of the zoo: it builds and passes without the tool, and with it has the figures of `fixtures/zoo/README.md`, to
//! the byte.

use std::collections::BTreeMap;
use std::process::Command;

use serde_json::Value;

use crate::support::Printed;
use crate::support::csv::{kept, values};
use crate::support::zoo::{Figure, ZooRepository, figures};
use crate::support::{home, tool};

/// Makes one test per case: `fn no_std()` calls the given function with `"no-std"`.
macro_rules! one_test_per_case {
    ($check:path) => {
        one_test_per_case! { $check:
            autotests_false broken_build build_script config_runner config_rustflags crate_types
            data_file deny_warnings doctest_only edition_2015 edition_2018 edition_2024
            example_bench_tests failing forbid_unsafe harness_false in_tree_excluded lto moved_package
            no_lock no_std own_allocator own_allocator_kept own_memprof_dependency own_wrapper
            panic_abort proc_macro renamed_checkpoint shared_root single test_only_in_new
            toolchain_file virtual_workspace workspace
        }
    };
    ($check:path: $($case:ident)*) => {
        $(
            #[test]
            fn $case() {
                $check(&stringify!($case).replace('_', "-"));
            }
        )*

        #[test]
        fn each_case_has_a_test() {
            let tested = [$(stringify!($case).replace('_', "-")),*];
            assert_eq!(tested[..], $crate::support::zoo::cases()[..]);
        }
    };
}

mod figures_are_exact {
    one_test_per_case!(super::figures_are_exact);
}

mod passes_uninjected {
    one_test_per_case!(super::passes_uninjected);
}

/// What a case needs beside `--refs old,new`.
fn arguments(case: &str, repository: &ZooRepository) -> Vec<String> {
    let overlay = |rest: &[&str]| {
        let folder = repository.overlay().expect("the case has an overlay");
        let mut arguments = Vec::new();
        for entry in walkdir::WalkDir::new(&folder) {
            let entry = entry.expect("the overlay can be read");
            if entry.file_type().is_file() {
                let below =
                    entry.path().strip_prefix(&folder).expect("below the overlay").to_str().expect("text");
                arguments.extend(["--overlay".to_owned(), format!("{}={below}", entry.path().display())]);
            }
        }
        arguments.extend(rest.iter().map(|&text| text.to_owned()));
        arguments
    };
    match case {
        "virtual-workspace" => vec!["--workspace".to_owned()],
        "workspace"
        | "own-allocator"
        | "own-allocator-kept"
        | "own-memprof-dependency"
        | "crate-types"
        | "proc-macro" => {
            vec!["--workspace".to_owned()]
        }
        "moved-package" => overlay(&["--overlay-package", "engine"]),
        "renamed-checkpoint" => overlay(&[]),
        "failing" => vec!["--timeout".to_owned(), "3s".to_owned()],
        _ => Vec::new(),
    }
}

fn figures_are_exact(case: &str) {
    let repository = ZooRepository::of(case);
    let home = home();
    let mut all =
        vec!["--refs", "old,new", "--offline", "--format", "csv", "--why=always", "--why-tests", "99"];
    let own = arguments(case, &repository);
    all.extend(own.iter().map(String::as_str));
    let mut command = tool();
    command.current_dir(repository.root()).env("CARGO_MEMPROF_HOME", home.path()).arg("memprof").args(&all);
    let printed = Printed::of(command);
    let values = if printed.stdout.is_empty() { Vec::new() } else { values(&printed) };
    let kept = kept(&values);
    let figures = figures().into_iter().filter(|figure| figure.case == case);
    let problems: Vec<String> = figures.filter_map(|figure| problem(&figure, &kept)).collect();
    assert!(problems.is_empty(), "{}\n{}", problems.join("\n"), printed.stderr);
    call_sites_are_exact(case, &repository);
}

/// The call sites of each compared test add up to its figure in the run with call stacks, and this is that of the plain runs.
fn call_sites_are_exact(case: &str, repository: &ZooRepository) {
    let folder = repository.root().join("target/memprof/latest");
    let Ok(text) = std::fs::read_to_string(folder.join("comparison.json")) else { return };
    let report: Value = serde_json::from_str(&text).expect("a JSON report");
    let why = &report["why"];
    let remarks = why["remarks"].as_array().map(Vec::as_slice).unwrap_or_default();
    // No test here has line tables. One without heap figures has no call sites, and none are asked for below.
    let is_known = |remark: &Value| {
        let text = remark["text"].as_str().unwrap_or_default();
        text.starts_with("no lines") || text.contains("recorded no call stacks")
    };
    assert!(why["left_out"].is_null() && remarks.iter().all(is_known), "{case}: {why:#}");
    let compared =
        figures().into_iter().filter(|one| one.case == case && one.old.is_some() && one.new.is_some());
    let rows = why["rows"].as_array().map(Vec::as_slice).unwrap_or_default();
    for figure in compared {
        let name = figure.test.rsplit("::").next().unwrap_or(&figure.test);
        let is_of_test = |title: &str| figure.test.ends_with(&title.replace(' ', "::"));
        let of_test = |row: &&Value| row["test"].as_str().is_some_and(is_of_test);
        assert!(rows.iter().any(|row| of_test(&row)), "{case}: {name} has no call sites: {why:#}");
    }
    for row in rows {
        for side in ["baseline", "candidate"] {
            assert_eq!(row[side]["agreement"], "equal", "{case}: {side} of {row:#}");
            for (figure, whole) in row[side]["figures"].as_object().expect("figures") {
                let groups = row["groups"].as_array().expect("groups").iter();
                let sum: i64 = groups.map(|group| group[side][figure].as_i64().expect("a figure")).sum();
                assert_eq!(Some(sum), whole.as_i64(), "{case}: {figure}, {side} of {row:#}");
            }
        }
    }
}

fn problem(figure: &Figure, kept: &BTreeMap<(String, String), u64>) -> Option<String> {
    let at = |name: &str| kept.get(&(figure.test.clone(), name.to_owned())).copied();
    match (figure.old, figure.new) {
        (Some(old), Some(new)) => {
            let (Some(measured_old), Some(measured_new)) = (at("old"), at("new")) else {
                return Some(format!("{} has no figures: {:?} {:?}", figure.test, at("old"), at("new")));
            };
            let harness = measured_old.wrapping_sub(old);
            let exact = harness < 4096 && measured_new.wrapping_sub(new) == harness;
            (!exact)
                .then(|| format!("{}: {measured_old} and {measured_new}, not {old} and {new}", figure.test))
        }
        (old, new) => {
            let wrong = |name: &str, expected: Option<u64>| {
                let measured = at(name);
                (measured.is_some() != expected.is_some())
                    .then(|| format!("{} at {name}: {measured:?}, not {expected:?}", figure.test))
            };
            wrong("old", old).or_else(|| wrong("new", new))
        }
    }
}

/// Builds the case as its own cargo does.
fn passes_uninjected(case: &str) {
    let repository = ZooRepository::of(case);
    for revision in ["old", "new"] {
        repository.git(&["checkout", "--quiet", revision]);
        let mut cargo = Command::new("cargo");
        // What cargo and rustup set for this test is not a user's.
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            if (text.starts_with("CARGO_") && text != "CARGO_HOME") || text == "RUSTUP_TOOLCHAIN" {
                cargo.env_remove(&name);
            }
        }
        cargo.args(["test", "--workspace", "--offline", "--quiet"]).current_dir(repository.root());
        // Neither is looked at, and both take their time.
        cargo.env("CARGO_PROFILE_DEV_DEBUG", "0").env("CARGO_INCREMENTAL", "0");
        // Link-time optimisation takes long, and the measured build does it.
        cargo.env("CARGO_PROFILE_DEV_LTO", "off");
        if case != "no-lock" {
            cargo.arg("--locked");
        }
        if case == "failing" {
            cargo.args(["--", "--exact", "passes", "passes_by_panicking"]);
        }
        let output = cargo.output().unwrap();
        let passes = (case, revision) != ("broken-build", "new");
        assert_eq!(
            output.status.success(),
            passes,
            "{case} {revision}:\n{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
    }
}
