//! What the flags and `memprof.yaml` mean together.

use std::ffi::OsString;

use crate::git::package;
use crate::support::TestRepository;
use camino::Utf8Path;
use cargo_memprof::arguments::command::CommandArguments;
use cargo_memprof::arguments::command_line;
use cargo_memprof::arguments::presentation::PresentationArguments;
use cargo_memprof::arguments::run::RunArguments;
use cargo_memprof::request::asked::Asked;
use cargo_memprof::request::reconcile::{metrics, reconcile};
use cargo_memprof::request::refs::RefsNeeded;
use cargo_memprof::request::surroundings::Surroundings;
use memprof_build::git::resolve::resolve_any;
use memprof_plan::config::matrix;
use memprof_plan::random_numbers::RandomNumbers;
use memprof_plan::repeat::Repeat;
use memprof_plan::request::{BaselineRequest, Ignored, LockfileRequest, Request};
use memprof_plan::rule::{Growth, Rule};
use memprof_support::user_error::UserError;

fn run(flags: &[&str]) -> RunArguments {
    let argv = ["cargo-memprof"].iter().chain(flags).map(OsString::from);
    match command_line::parse(argv).unwrap_or_else(|error| panic!("{error}")).command {
        CommandArguments::Run(run) => *run,
        CommandArguments::Deps(deps) => deps.run().expect("a run"),
        other => panic!("{other:?}"),
    }
}

fn asked(flags: &[&str], yaml: &str, needed: RefsNeeded) -> Result<Request, UserError> {
    let matrix = match yaml {
        "" => matrix::Matrix::default(),
        yaml => matrix::parse(yaml, "memprof.yaml".into())?,
    };
    let files = ["/repository/crates/bart/tests/memory.rs", "/repository/crates/ci/cargo.toml"];
    let exists = |path: &Utf8Path| files.contains(&path.as_str());
    let surroundings = Surroundings {
        repository: "/repository".into(),
        current: "/repository/crates/bart".into(),
        matrix: "/repository/crates".into(),
        exists: &exists,
    };
    reconcile(&run(flags).request, &matrix, surroundings, needed)
}

fn request(flags: &[&str], yaml: &str) -> Request {
    asked(flags, yaml, RefsNeeded::Comparison)
        .unwrap_or_else(|user_error| panic!("{}", user_error.rendered()))
}

fn user_error(flags: &[&str], yaml: &str) -> String {
    asked(flags, yaml, RefsNeeded::Comparison).expect_err("it was accepted").rendered()
}

fn names(request: &Request) -> Vec<&str> {
    request.refs.iter().map(|one| one.name.as_deref().unwrap_or(&one.spec)).collect()
}

/// Every key of the matrix, with a value that no default has.
const EVERYTHING: &str = "
refs: [main, {ref: pr/7, name: candidate, features: [x], env: {B: ref}, toolchain: nightly}]
baseline: merge-base
remote: fork
refspecs: {'cl/{}': 'refs/changes/{}/head'}
tests:
  - name: 'bert/{batch}'
    filter: bert
    regex: 'b.*'
    exact: [a::bert]
    skip: [slow]
    ignored: include
    package: bert
    kind: lib
    features: [big]
    env: {A: test}
    params: {batch: [8, 1e3]}
    device: [0, GPU-5d2c]
    timeout: 5m
    repeat: 7
  - hf_fwd
overlay: {from: main, package: bart, mode: external, paths: [tests/a.rs=tests/b.rs], dependencies: {rand: 0.9}}
exclude: [{ref: main, test: bert, params: {batch: 8}}]
include: ['test=bert']
pairs: ['hf_*=fs_*']
repeat: 3
timeout: 10m
delay: 2s
random: own
trim: true
profile: release
features: [gpu, cuda]
all-features: true
no-default-features: true
packages: [bart]
target: x86_64-unknown-linux-gnu
env: {A: common, C: 1}
toolchain: stable
thresholds:
  heap.peak: {percent: 5, bytes: 16MiB}
  time: 50ms
  gpu.*.peak: [{limit: 8GiB}, {test: slow, checkpoint: 'done*', percent: 10}]
allow: [{metric: heap.peak, test: bert, checkpoint: done, limit: 20%, until: 2026-12-31, reason: 'a larger cache, #42'}]
lockfile: {date: 2023-05-01}
sparse-exclude: ['*.bin']
offline: true
locked: true
ignore-rust-version: true
config: [net.retry=1]
metrics: [heap.live]
";

#[test]
fn the_matrix_alone_is_taken_word_for_word() {
    insta::assert_json_snapshot!(request(&[], EVERYTHING));
}

#[test]
fn flags_alone_need_no_matrix() {
    insta::assert_json_snapshot!(request(
        &[
            "--refs",
            "old=main,pr/7",
            "--baseline",
            "v1",
            "--remote",
            "fork",
            "-k",
            "hf",
            "--skip",
            "slow",
            "--ignored",
            "--param",
            "batch=8,64",
            "--env",
            "A=1",
            "--repeat",
            "3",
            "--timeout",
            "10m",
            "--threshold",
            "heap.peak=5%",
            "--threshold",
            "heap.peak=16MiB",
            "--exclude",
            "ref=old",
            "--include",
            "batch=8",
            "--overlay",
            "main:a.rs=b.rs",
            "--overlay-mode",
            "external",
            "--overlay-package",
            "bart",
            "--lockfile-from",
            "main",
            "--sparse-exclude",
            "*.bin",
            "-p",
            "bart",
            "-F",
            "x,y z",
            "-r",
            "--target",
            "t",
            "--lib",
            "--bin-tests",
            "b",
            "--test",
            "t",
            "--example",
            "e",
            "--bench",
            "n",
            "-j",
            "2",
            "--offline",
            "--locked",
            "--config",
            "a=1",
            "--manifest-path",
            "Cargo.toml",
            "--toolchain",
            "nightly",
            "--all-features",
            "--no-default-features",
        ],
        ""
    ));
}

#[test]
fn single_values_and_lists_of_flags_take_the_place_of_the_matrixs() {
    let request = request(
        &[
            "--refs",
            "a,b",
            "--baseline",
            "b",
            "--remote",
            "r",
            "--repeat",
            "1",
            "--timeout",
            "1m",
            "--delay",
            "0s",
            "--random",
            "same",
            "--profile",
            "p",
            "-F",
            "f",
            "--workspace",
            "--include",
            "test=x",
            "--exclude",
            "test=y",
            "--lockfile-from",
            "a",
            "--config",
            "c=1",
            "--sparse-exclude",
            "d",
        ],
        EVERYTHING,
    );
    assert_eq!(names(&request), ["a", "b"]);
    assert_eq!(request.baseline, BaselineRequest::Ref("b".into()));
    assert_eq!(
        (request.settings.remote.as_deref(), request.settings.repeat, request.settings.timeout_seconds),
        (Some("r"), Repeat::Times(1), Some(60))
    );
    assert_eq!((request.tests[0].repeat, request.tests[0].timeout_seconds), (None, None));
    assert_eq!(request.settings.delay_milliseconds, None, "0s turns the delay of the file off");
    assert_eq!(request.settings.random, RandomNumbers::Same);
    assert!(request.settings.trim, "there is no flag that turns it off");
    assert_eq!(request.build.features, ["f"]);
    assert!(request.build.settings.workspace && request.build.settings.packages.is_empty());
    assert_eq!(request.build.profile.as_deref(), Some("p"));
    assert_eq!(request.lockfile, Some(LockfileRequest::From("a".into())));
    assert_eq!((request.build.config.len(), request.settings.sparse_exclude.len()), (1, 1));
    // What the matrix leaves out of `main` says nothing of these refs.
    assert_eq!((request.include.len(), request.exclude.len()), (1, 1));
}

#[test]
fn flags_leave_more_out_than_the_matrix_does() {
    let exclude = |flags: &[&str], yaml: &str| request(flags, yaml).exclude.len();
    assert_eq!(exclude(&["--exclude", "test=y"], "refs: [a, b]\nexclude: [{ref: a}]"), 2);
    assert_eq!(exclude(&["--refs", "b,c"], "refs: [a, b]\nexclude: [{ref: a}, {test: x}]"), 1);
    assert_eq!(
        exclude(&["--refs", "b,c"], "refs: [a, b]\nexclude: [{ref: typo}]"),
        1,
        "a typo stays an error"
    );
}

#[test]
fn variables_parameters_and_thresholds_are_merged_by_name_and_hold_everywhere() {
    let request = request(
        &[
            "--env",
            "A=flag",
            "--env",
            "B=flag",
            "--param",
            "batch=1",
            "--param",
            "dtype=f32",
            "--threshold",
            "time=1s",
        ],
        EVERYTHING,
    );
    assert_eq!(
        request.env.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>(),
        ["A=flag", "B=flag", "C=1"]
    );
    assert!(request.refs[1].env.is_empty() && request.tests[0].env.is_empty());
    for test in &request.tests {
        assert_eq!(
            (test.params["batch"].as_slice(), test.params["dtype"].as_slice()),
            (["1".to_owned()].as_slice(), ["f32".to_owned()].as_slice())
        );
    }
    let rules = &request.judging.rules;
    let growth = |rule: &Rule| match &rule.growth {
        Some(Growth::Within(threshold)) => Some((threshold.percent, threshold.bytes)),
        _ => None,
    };
    let metrics: Vec<&str> = rules.iter().map(|rule| rule.metric.as_str()).collect();
    assert_eq!(
        metrics,
        ["heap.peak", "time", "gpu.*.peak", "gpu.*.peak", "time"],
        "flags come last, and so win"
    );
    assert_eq!(growth(&rules[0]), Some((Some(5.0), Some(16 << 20))));
    assert_eq!((rules[2].limit, growth(&rules[3])), (Some(8 << 30), Some((Some(10.0), None))));
    assert_eq!(growth(&rules[4]), Some((None, Some(1_000_000_000))));
    assert_eq!(request.judging.allow[0].reason, "a larger cache, #42");
}

#[test]
fn thresholds_of_one_metric_given_by_flags_are_one() {
    let flags = [
        "--refs",
        "a,b",
        "--threshold",
        "heap.peak=5%",
        "--threshold",
        "heap.peak=1MiB",
        "--limit",
        "heap.peak=8GiB",
    ];
    let rules = request(&[&flags[..], &["--leak", "heap.live=0", "--threshold", "time=off"]].concat(), "")
        .judging
        .rules;
    assert_eq!(rules.len(), 4, "{rules:?}");
    let Some(Growth::Within(both)) = &rules[0].growth else { panic!("{rules:?}") };
    assert_eq!((both.percent, both.bytes), (Some(5.0), Some(1 << 20)));
    assert_eq!((rules[1].growth.clone(), rules[2].limit), (Some(Growth::Off), Some(8 << 30)));
    assert_eq!(rules[3].leak, Some(0));
}

#[test]
fn what_selects_narrows_the_entries_and_adds_what_they_lack() {
    let request = request(&["-k", "hf", "--include-ignored"], EVERYTHING);
    assert_eq!(request.tests.len(), 3);
    for test in &request.tests[..2] {
        let within = test.selection.within.as_ref().expect("it is narrowed");
        assert_eq!((within.expression.as_deref(), test.rest), (Some("hf"), false));
        assert_eq!(test.selection.ignored, Ignored::Include);
    }
    assert!(request.tests[2].rest && request.tests[2].params.is_empty());
    assert_eq!(request.tests[2].selection.expression.as_deref(), Some("hf"));
}

#[test]
fn what_only_leaves_out_adds_nothing() {
    assert_eq!(request(&["--skip", "slow"], EVERYTHING).tests.len(), 2);
}

#[test]
fn a_ref_against_itself_gets_a_second_name() {
    assert_eq!(names(&request(&["--refs", "main,main,main"], "")), ["main", "main (2)", "main (3)"]);
    assert_eq!(names(&request(&["--refs", "main,x=main"], "")), ["main", "x"]);
    assert!(user_error(&["--refs", "x=main,x=pr/7"], "").contains("two refs have the name 'x'"));
}

#[test]
fn a_comparison_needs_two_refs_and_a_list_none() {
    insta::assert_snapshot!(user_error(&[], ""), @r"
    error: no refs to compare
      help: name two: cargo memprof --refs main,. (`.` is the working tree, pr/7 a pull request)
            or list them in memprof.yaml, which `cargo memprof init` writes
    ");
    insta::assert_snapshot!(user_error(&["--refs", "pr/7", "--baseline", "merge-base"], ""), @r"
    error: a comparison needs two refs, and pr/7 is the only one
      help: name a second one: --refs main,pr/7
            to compare pr/7 with itself and see the noise: --aa --refs pr/7
            to look at pr/7 alone: --view scopes, --view top or --view tensors
    ");
    assert_eq!(names(&request(&["--refs", "pr/7", "--baseline", "main"], "")), ["pr/7"]);
    let listed = asked(&[], "repeat: 2", RefsNeeded::Any).unwrap();
    assert_eq!(names(&listed), ["."]);
}

/// The revisions that a call in a repository with `main` and `feature` resolves; `*` marks the baseline.
fn revisions(repository: &TestRepository, flags: &[&str], needed: RefsNeeded) -> Result<String, String> {
    let repository = &repository.open();
    let asked = Asked::read(&run(flags).request, &PresentationArguments::default(), repository, needed);
    let plan = asked.and_then(|asked| resolve_any(&asked.request, repository, &|_| ()));
    let plan = plan.map_err(|error| format!("{error:#}"))?;
    let mark = |index: usize| if index == plan.baseline { "*" } else { "" };
    let names = plan.revisions.iter().enumerate();
    Ok(names.map(|(index, one)| format!("{}{}", mark(index), one.name)).collect::<Vec<_>>().join(" "))
}

#[test]
fn the_baseline_of_the_file_is_for_comparisons() {
    let mut repository = package();
    repository.git(["switch", "--quiet", "--create", "feature"]);
    repository.write("src/lib.rs", "pub fn one() -> u32 { 2 }\n");
    repository.commit("second");
    let (one, other) = ("merge-base", "main");
    for (flags, needed, with_merge_base, with_main) in [
        (&["."][..], RefsNeeded::Usual, "*.", "*main ."),
        (&[".", "--view", "scopes"], RefsNeeded::Any, "*.", "*main ."),
        (&["--view", "scopes"], RefsNeeded::Any, "*.", "*main ."),
        (&["--pair", "a=b"], RefsNeeded::Any, "*.", "*."),
        (&["--pair", "a=b", "--refs", "head=feature"], RefsNeeded::Any, "*head", "*head"),
        (&[], RefsNeeded::Alike, "*.", "*main ."),
        (&[], RefsNeeded::Usual, "*merge-base .", "*main ."),
        (&["--refs", "head=feature"], RefsNeeded::Any, "*head", "*main head"),
        (&["--refs", "head=feature", "--baseline", "head"], RefsNeeded::Any, "*head", "*head"),
        (&["--refs", "base=feature", "--save-baseline", "ci"], RefsNeeded::Usual, "*base", "*main base"),
        (
            &["--refs", "base=main~0,pull=feature", "--baseline", "base"],
            RefsNeeded::Usual,
            "*base pull",
            "*base pull",
        ),
        (&["main", "feature"], RefsNeeded::Usual, "*merge-base main feature", "*main feature"),
        (&["--aa", "--refs", "feature"], RefsNeeded::Usual, "*feature feature (2)", "*main main (2)"),
        (&["deps", "serde@1.0.200"], RefsNeeded::Usual, "*. serde@1.0.200", "*. serde@1.0.200"),
        (
            &["deps", "serde@1.0.200", "--refs", "feature"],
            RefsNeeded::Usual,
            "*feature serde@1.0.200",
            "*feature serde@1.0.200",
        ),
    ] {
        for (baseline, expected) in [(one, with_merge_base), (other, with_main)] {
            repository.write("memprof.yaml", format!("baseline: {baseline}\n"));
            let revisions = revisions(&repository, flags, needed);
            assert_eq!(revisions.as_deref(), Ok(expected), "{flags:?} with {baseline}");
        }
    }
    let refused = revisions(&repository, &["feature", "--baseline", "merge-base"], RefsNeeded::Usual);
    assert_eq!(refused.unwrap_err(), "a comparison needs two refs, but only 'feature' was given");
}

#[test]
fn a_pull_request_alone_is_compared_with_its_merge_base_if_the_file_says_so_too() {
    let repository = package();
    for yaml in ["repeat: 2\n", "baseline: merge-base\n"] {
        repository.write("memprof.yaml", yaml);
        let flags = run(&["pr/7"]).request;
        let asked =
            Asked::read(&flags, &PresentationArguments::default(), &repository.open(), RefsNeeded::Usual);
        let asked = asked.unwrap_or_else(|error| panic!("{error:#}"));
        let specs: Vec<&str> = asked.request.refs.iter().map(|one| one.spec.as_str()).collect();
        assert_eq!(specs, ["main...pr/7", "pr/7"], "{yaml}");
        assert_ne!(asked.request.baseline, BaselineRequest::MergeBase, "it is among the refs");
    }
}

#[test]
fn paths_are_relative_to_where_they_were_written() {
    let both = "refs: [a, b]\noverlay: [{patch: bart/tests/memory.rs}, {paths: [bart/tests/memory.rs]}]";
    let of_matrix = request(&[], both);
    assert_eq!(
        (of_matrix.overlay_patches, of_matrix.overlay.len()),
        (vec!["crates/bart/tests/memory.rs".to_owned()], 1)
    );
    let of_flag = request(&["--overlay-patch", "tests/memory.rs"], both);
    assert_eq!(
        (of_flag.overlay_patches, of_flag.overlay.len()),
        (vec!["crates/bart/tests/memory.rs".to_owned()], 1)
    );
    let of_flag = request(&["--refs", "a,b", "--overlay", "tests/memory.rs"], "");
    assert_eq!(of_flag.overlay[0].paths[0].source, "crates/bart/tests/memory.rs");
    let of_matrix = request(&[], "refs: [a, b]\noverlay: {paths: [bart/tests/memory.rs]}");
    assert_eq!(of_matrix.overlay[0].paths[0].source, "crates/bart/tests/memory.rs");
    let config = |setting| request(&["--refs", "a,b", "--config", setting], "").build.config;
    assert_eq!(config("../ci/cargo.toml"), ["/repository/crates/ci/cargo.toml"]);
    assert_eq!(config("net.retry=1"), ["net.retry=1"]);
    assert_eq!(
        request(&[], "refs: [a, b]\nconfig: [ci/cargo.toml]").build.config,
        config("../ci/cargo.toml")
    );
    assert!(
        user_error(&["--refs", "a,b", "--config", "ci/cargo.toml"], "")
            .contains("there is no file /repository")
    );
    let manifest = |path| request(&["--refs", "a,b", "--manifest-path", path], "").build.manifest_path;
    assert_eq!(manifest("../bert/Cargo.toml").as_deref(), Some("/repository/crates/bert/Cargo.toml"));
    assert_eq!(manifest("/repository/Cargo.toml").as_deref(), Some("/repository/Cargo.toml"));
    let refused = |path| user_error(&["--refs", "a,b", "--manifest-path", path], "");
    assert!(refused("/elsewhere/Cargo.toml").contains("outside the repository"));
    assert!(refused("../bert").contains("write --manifest-path ../bert/Cargo.toml"));
}

#[test]
fn the_metrics_shown_are_the_flags_else_the_matrixs() {
    let matrix = matrix::parse(EVERYTHING, "memprof.yaml".into()).unwrap();
    assert_eq!(metrics(&run(&[]).presentation, &matrix), ["heap.live"]);
    assert_eq!(metrics(&run(&["--metrics", "time"]).presentation, &matrix), ["time"]);
    assert!(metrics(&run(&["--all"]).presentation, &matrix).is_empty());
}

#[test]
fn a_clean_environment_of_the_command_line_is_not_widened_by_the_file() {
    let keep = |flags: &[&str], yaml: &str| {
        let flags = [&["--refs", "main,x"], flags].concat();
        request(&flags, yaml).clean_env.map(|clean| clean.keep)
    };
    assert_eq!(keep(&[], ""), None);
    assert_eq!(keep(&["--clean-env"], ""), Some(vec![]));
    let file = "clean-env: true\nkeep-env: [A, 'B_*']\n";
    assert_eq!(keep(&[], file), Some(vec!["A".into(), "B_*".into()]));
    assert_eq!(keep(&["--keep-env", "C"], file), Some(vec!["C".into()]));
    assert_eq!(keep(&["--clean-env"], file), Some(vec![]), "the file may come from a fork");
    let alone = user_error(&["--refs", "main,x", "--keep-env", "C"], "");
    assert!(alone.contains("--clean-env --keep-env 'C'"), "{alone}");
}
