//! Every mistake in `memprof.yaml` is answered with its file, line, column and key, and with what was probably meant.

use camino::Utf8Path;
use memprof_plan::config::matrix;

/// A mistake a paragraph; the answer is the snapshot.
const MISTAKES: &str = "
refs: [main, .]
overlays: {from: main, paths: [tests]}

refs: [main, .]
zebra: 1

refs: main

refs:
  - main
  - ref: pr/7
    nmae: candidate

refs: [main, {name: candidate}]

refs: [main, 12e45]

refs: [main, 1234567]

refs: [main, [pr/7]]

refs: [main, ]
refs: [pr/7, main]

repeat: three

repeat: 0

repeat: [3]

timeout: 600

timeout: 500ms

timeout: {minutes: 10}

locked: yes

features: gpu

axes: [features]

axes: {}

axes:
  feature: [[], [simd]]

axes: {features: []}

axes: {features: [simd]}

axes: {features: simd}

axes:
  features: [[], [simd], []]

axes: {profile: [dev, release, dev]}

axes: {profile: [[dev], [release]]}

axes: {toolchain: stable}

axes: {no-default-features: [false, no]}

axes: {env: [{}, POOL=8]}

axes: {env: [{POOL: 8}, {POOL: '8'}]}

axes: {with: [[], [serde]]}

axes: {lockfile: {from: main}}

tests: hf_fwd

tests: [hf_fwd and]

tests:
  - filter: (hf_fwd or bwd

tests:
  - filter: hf_fwd
    kind: tests

tests: [{filter: hf_fwd, device: h200}]

tests: [{bin: tool, filter: hf_fwd}]

tests: [{args: [--fast]}]

tests: [{bin: tool, example: demo}]

tests: [{bin: tool, stdin: in.txt, stdin-text: abc}]

tests: [{filter: hf_fwd, device: [0, none]}]

tests: [{filter: hf_fwd, device: []}]

tests: [{filter: hf_fwd, device: {index: 0}}]

tests: [{filter: hf_fwd, device: -1}]

tests:
  - regex: 'hf_(fwd'

tests:
  - name: 'bert/{batch'

tests:
  - params: {batch: 8}

tests:
  - params:
      batch: [8, [16]]

tests:
  - params: {test: [a]}

tests:
  - params: {batch-size: [8]}

tests:
  - params: {batch: [1]}
    env: {RUST-LOG: debug}

tests:
  - exact: hf_fwd

tests:
  - ignored: yes

env: [RUST_LOG=debug]

env:
  A: 1
  B: 2
  A: 3

env: {A: [1]}

overlay: tests/memory.rs

overlay: {from: main}

overlay:
  - from: main
    paths: [tests/memory.rs=]

overlay: {paths: [tests], mode: externl, package: x}

overlay: {paths: [tests], mode: external}

overlay: {paths: [tests], dependencies: {rand: '0.9'}}

overlay: {paths: [{src: tests}]}

overlay: {patch: memory.patch, paths: [tests]}

exclude: [{ref: main, batch: 8}]

exclude: [{}]

exclude: ['batch=']

thresholds: {heap.peek: 5%}

thresholds: {heap.peak: 5 apples}

thresholds: {heap.peak: 16M}

thresholds: {heap.count: 16MiB}

thresholds: {heap.peak: {percents: 5}}

thresholds: {heap.peak: {percent: -5}}

thresholds: {heap.peak: }

thresholds: [heap.peak]

thresholds: {heep.*: 5%}

thresholds: {heap.peak: [5%, {tests: slow, percent: 10}]}

thresholds: {heap.peak: {limit: 5%}}

thresholds: {heap.count: {limit: 16MiB}}

thresholds: {heap.peak: {test: slow}}

thresholds: {heap.peak: {off: true, percent: 5}}

thresholds: {heap.live: {leak: 0, checkpoint: done}}

thresholds: {heap.peak: {leak: 64KiB}}

thresholds: {heap.peak: {test: 'hf and', percent: 5}}

allow: [{metric: heap.peak}]

allow: [{reason: why}]

allow: [{metric: heap.peek, reason: why}]

allow: [{metric: heap.peak, reson: why}]

allow: [{metric: heap.peak, until: 2026-02-30, reason: why}]

allow: [{metric: heap.count, limit: 16MiB, reason: why}]

allow: heap.peak

repeat: atuo

lockfile: main

lockfile: {from: main, date: 2023-05-01}

lockfile: {date: 2023-02-30}

refspecs: {cl: 'refs/changes/{}/head'}

refspecs: {'cl/{}': changes}

metrics: [heap.peak, cpu.rs]

workspace: true
packages: [a]

- main
- pr/7

just words

refs: [main
tests: [a]

refs:
\t- main

tests: [*nothing]
";

#[test]
fn each_mistake_is_answered_with_its_place_and_what_was_meant() {
    let mut answers = String::new();
    let mut count = 0;
    for mistake in MISTAKES.trim().split("\n\n").chain(["", "# nothing but a comment\n---\n"]) {
        let user_error = matrix::parse(mistake, Utf8Path::new("memprof.yaml"))
            .expect_err(&format!("accepted, though it is a mistake:\n{mistake}"));
        answers += &[&mistake.replace('\t', "→"), "\n", &user_error.rendered(), "\n\n"].concat();
        count += 1;
    }
    assert!(count >= 50, "{count}");
    insta::assert_snapshot!(answers);
}

#[test]
fn anchors_aliases_and_merge_keys_work() {
    let matrix = matrix::parse(
        "
x-common: &common
  params: {batch: [8, 64]}
  timeout: 10m
x-environment: &environment {RUST_LOG: debug, THREADS: '1'}
refs: [&main main, {ref: *main, name: again}]
tests:
  - {<<: *common, filter: hf_fwd, timeout: 20m}
  - {<<: [*common], filter: hf_bwd}
env: {<<: *environment, THREADS: '2'}
",
        Utf8Path::new("memprof.yaml"),
    )
    .unwrap_or_else(|user_error| panic!("{}", user_error.rendered()));
    let tests = matrix.tests.unwrap().0;
    assert_eq!(tests[0].timeout.unwrap_seconds(), 1200);
    assert_eq!(tests[1].timeout.unwrap_seconds(), 600);
    assert_eq!(tests[1].params.as_ref().unwrap().0["batch"].0, ["8", "64"]);
    let environment = matrix.env.unwrap().0;
    assert_eq!(environment["THREADS"].0.0, "2");
    assert_eq!(environment["RUST_LOG"].0.0, "debug");
    let refs = matrix.refs.unwrap().0;
    assert_eq!(refs[1].spec.as_ref().unwrap().0, "main");
}

#[test]
fn a_merged_mapping_is_checked_only_as_part_of_its_entry() {
    let parsed = |text: &str| {
        let matrix = matrix::parse(text, Utf8Path::new("memprof.yaml"));
        matrix.map_err(|user_error| user_error.rendered())
    };
    let matrix = parsed(
        "
x-side: &side {features: [simd], toolchain: nightly}
x-limit: &limit {test: slow}
x-reason: &reason {reason: 'a larger cache, #42'}
x-one: &one {A: '1', B: '1'}
x-two: &two {B: '2', C: '2'}
refs: [{<<: *side, ref: main}, .]
thresholds: {heap.peak: {<<: *limit, percent: 5}}
allow: [{<<: *reason, metric: heap.peak}]
exclude: [{<<: {params: {batch: 8}}, test: bert}]
overlay: {<<: {package: bart}, paths: [tests/a.rs]}
lockfile: {<<: {}, from: main}
env: {<<: [*one, *two], D: '3'}
",
    )
    .unwrap_or_else(|error| panic!("{error}"));
    let refs = matrix.refs.expect("refs").0;
    assert_eq!(refs[0].toolchain.as_ref().expect("a toolchain").0, "nightly");
    let environment = matrix.env.expect("variables").0;
    let values: Vec<&str> = ["A", "B", "C", "D"].map(|name| environment[name].0.0.as_str()).into();
    assert_eq!(values, ["1", "1", "2", "3"], "the first of several merged mappings wins");

    for (text, mistake) in [
        ("refs: [{<<: {toolchain: nightly}}]", "refs[0]: a ref needs `ref`"),
        ("allow: [{<<: {metric: heap.peak}}]", "allow[0]: an expected change needs its `reason`"),
        ("env: {<<: [{A: '1'}, B]}", "expected names and values"),
        ("env: {<<: B}", "expected a mapping to merge, or a list of them"),
    ] {
        let refused = parsed(text).expect_err(text);
        assert!(refused.contains(mistake), "{refused}");
    }
}

trait Timeout {
    fn unwrap_seconds(&self) -> u64;
}

impl Timeout for Option<memprof_plan::config::yaml::Scalar<memprof_plan::config::values::Seconds>> {
    fn unwrap_seconds(&self) -> u64 {
        self.as_ref().expect("a timeout").0.0
    }
}

#[test]
fn values_stay_as_they_are_written() {
    let matrix = matrix::parse(
        "tests: [{params: {x: [1e3, 0x10, 007, true, ~, '', 'a b', 1_000]}}]\nenv: {EMPTY: , ON: yes}\n",
        Utf8Path::new("memprof.yaml"),
    )
    .unwrap_or_else(|user_error| panic!("{}", user_error.rendered()));
    let tests = matrix.tests.unwrap().0;
    let values = &tests[0].params.as_ref().unwrap().0["x"].0;
    assert_eq!(values, &["1e3", "0x10", "007", "true", "~", "", "a b", "1_000"]);
    let environment = matrix.env.unwrap().0;
    assert_eq!((environment["EMPTY"].0.0.as_str(), environment["ON"].0.0.as_str()), ("", "yes"));
}
