//! The command line, one argument a line.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use camino::Utf8Path;
use cargo_memprof::arguments::command::CommandArguments;
use cargo_memprof::arguments::command_line::parse;
use cargo_memprof::request::reconcile::reconcile;
use cargo_memprof::request::refs::RefsNeeded;
use cargo_memprof::request::surroundings::Surroundings;
use memprof_plan::config::matrix::Matrix;
use memprof_plan::request::Request;

use super::Target;

pub const TARGET: Target = Target {
    name: "command_line",
    check,
    seeds,
    words: &[
        "\n--refs\n",
        "\n--baseline\n",
        "\n-k\n",
        "\n--param\n",
        "\n--env\n",
        "\n--threshold\n",
        "\n--limit\n",
        "\n--leak\n",
        "\n--allow\n",
        "\n--exclude\n",
        "\n--include\n",
        "\n--overlay\n",
        "\n--trace\n",
        "\n--trace-lines\n",
        "\n--repeat\n",
        "\n--timeout\n",
        "\n--format\n",
        "\n--output\n",
        "\n--resume\n",
        "\n--archive\n",
        "\n--view\n",
        "\n--device\n",
        "\n--metrics\n",
        "\nbisect\n",
        "\nhistory\n",
        "\nlist\n",
        "\nreport\n",
        "\ncompare\n",
        "\nclean\n",
        "\n--\n",
        "\n--help\n",
        "\n-qv\n",
        "\n--color\n",
        "main,.",
        "heap.peak=5%",
        "a=b",
    ],
};

/// A mistake has a message and exit code 2. A request survives being written to `plan.json`.
pub fn check(bytes: &[u8]) {
    let words = bytes.split(|byte| *byte == b'\n').map(|word| OsString::from_vec(word.to_vec()));
    let argv: Vec<OsString> = std::iter::once("cargo-memprof".into()).chain(words).collect();
    let command_line = match parse(argv) {
        Ok(command_line) => command_line,
        Err(error) => {
            assert!(!error.to_string().trim().is_empty());
            assert_eq!(error.exit_code(), if error.use_stderr() { 2 } else { 0 });
            return;
        }
    };
    let CommandArguments::Run(run) = command_line.command else { return };
    let folder = Utf8Path::new("/repository");
    let surroundings =
        Surroundings { repository: folder, current: folder, matrix: folder, exists: &|_| true };
    match reconcile(&run.request, &Matrix::default(), surroundings, RefsNeeded::Any) {
        Ok(request) => {
            let written = serde_json::to_string(&request).expect("a request has a JSON form");
            let read: Request =
                serde_json::from_str(&written).unwrap_or_else(|error| panic!("{error}: {written}"));
            assert_eq!(read, request);
        }
        Err(error) => assert!(!error.message.trim().is_empty()),
    }
}

fn seeds() -> Vec<Vec<u8>> {
    [
        "memprof --refs old=main,. --baseline merge-base --remote upstream -k hf --skip s --include-ignored -p a -F x,y --release \
         --param batch=8,64 --env A=b --repeat 3 --timeout 10m --threshold heap.peak=5% --exclude ref=main --metrics heap.peak",
        "run --refs main,pr/7 --overlay main:a=b --overlay-mode external --overlay-package a --lockfile-from main --trace bart::**",
        "run --archive a.tar.zst --resume --run-folder out --format csv",
        "bisect --good v1 --bad main -k hf -- src",
        "-vv --color never list --refs main -k x",
        "compare a b --format json -o out.json",
        "--refs a --aa --noise n.json --allow heap.peak,reason=x --limit heap.peak=8GiB --leak heap.live=1KiB",
        "clean --dry-run --archives",
    ]
    .map(|line| line.replace(' ', "\n").into_bytes())
    .into()
}
