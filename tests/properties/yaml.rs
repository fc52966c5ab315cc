//! `memprof.yaml`. A pull request can bring one.

use camino::Utf8Path;
use cargo_memprof::arguments::request::RequestArguments;
use cargo_memprof::request::reconcile::reconcile;
use cargo_memprof::request::refs::RefsNeeded;
use cargo_memprof::request::surroundings::Surroundings;
use memprof_plan::config::matrix;
use memprof_plan::request::Request;

use super::Target;

pub const TARGET: Target = Target {
    name: "yaml",
    check,
    seeds,
    words: &[
        "refs",
        "baseline",
        "tests",
        "overlay",
        "exclude",
        "include",
        "repeat",
        "timeout",
        "thresholds",
        "allow",
        "lockfile",
        "trace",
        "metrics",
        "env",
        "params",
        "&a ",
        "*a",
        "<<: ",
        "!!",
        "---\n",
        "? ",
        "- ",
        ": ",
        ", ",
        "|\n",
        ">-\n",
        "# ",
        "heap.peak",
        "5%",
        "16MiB",
        "10m",
        "nan%",
        "inf%",
        "auto",
        "off",
        "~",
        "0x10",
        "x-any: ",
    ],
};

/// An error names the file and a line of it. What is accepted is read the same twice, and the request that it makes survives being
/// written to `plan.json`.
pub fn check(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let file = Utf8Path::new("memprof.yaml");
    let matrix = match matrix::parse(text, file) {
        Ok(matrix) => matrix,
        Err(error) => {
            let place = error.location.as_ref().expect("the error names the file");
            assert_eq!(place.file, file);
            let lines = text.split(['\n', '\r', '\u{85}', '\u{2028}', '\u{2029}']).count();
            if let Some((line, column)) = place.position {
                assert!((1..=lines + 1).contains(&line) && column > 0, "line {line} of {lines}: {error}");
            }
            assert!(!error.message.trim().is_empty() && !error.message.contains(is_unprintable), "{error:?}");
            return;
        }
    };
    assert_eq!(matrix, matrix::parse(text, file).expect("it was read before"));
    let folder = Utf8Path::new("/repository");
    let surroundings =
        Surroundings { repository: folder, current: folder, matrix: folder, exists: &|_| true };
    let Ok(request) = reconcile(&RequestArguments::default(), &matrix, surroundings, RefsNeeded::Any) else {
        return;
    };
    let written = serde_json::to_string(&request).expect("a request has a JSON form");
    let read: Request = serde_json::from_str(&written).unwrap_or_else(|error| panic!("{error}: {written}"));
    assert_eq!(read, request);
}

/// Whether a terminal would obey a character.
fn is_unprintable(character: char) -> bool {
    character.is_control() && !"\n\t".contains(character)
}

fn seeds() -> Vec<Vec<u8>> {
    let long = r"x-common: &common
  RUST_LOG: debug
refs:
  - main
  - {ref: pr/7, name: new, features: [cuda], env: {<<: *common, A: '1'}, toolchain: nightly}
baseline: merge-base
remote: upstream
refspecs: {'review/{}': 'refs/changes/{}/head'}
tests:
  - hf_fwd and not slow
  - {name: '{test} {batch}', filter: parser, params: {batch: [8, 64], kind: [1e3, 0x10]}, timeout: 10m, repeat: 3}
  - {regex: '^a.*b$', kind: test, package: bart, ignored: only, device: 0}
overlay: {from: main, paths: [tests/memory.rs, 'a.rs=tests/b.rs']}
exclude: [{ref: main, params: {batch: 64}}, 'batch=8']
pairs: ['hf_*=fs_*', a=b]
repeat: auto
timeout: 2h
profile: release
packages: [bart]
env: {<<: *common}
thresholds:
  heap.peak: 5%
  heap.live: [{percent: 2.5, bytes: 16MiB, test: hf}, off]
  time: {off: true}
allow: [{metric: heap.peak, test: hf_fwd, reason: 'a larger cache', until: 2026-01-31, limit: 5%}]
lockfile: {date: 2025-03-02}
sparse-exclude: ['*.bin']
config: [build.rustflags=[]]
trace: {functions: ['bart::encoder::*::forward'], lines: ['**::step'], max-events: 1000, columns: [heap.grown]}
metrics: [heap.peak, cpu.rss]
";
    let short = [
        "refs: [main, .]\n",
        "refs:\n\t- main\n",
        "refs: [main, main]\nthresholds: {'*': {leak: 64KiB}}\n",
        "{}",
        "- a\n",
        "refs: &a [*a]\n",
        "\"a \\x1eb\\x1fc\\x1d\\x1b[31m\"",
        "repeat: \"x\\x1fwrite y\"\n\"a\\x1e\": 1\n",
    ];
    std::iter::once(long).chain(short).map(Into::into).collect()
}
