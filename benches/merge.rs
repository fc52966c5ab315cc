//! How long it takes to make one run of many shards, and how much memory.
//!
//! `cargo bench --bench merge`. The goal is 10,000 tests of 200 shards in under 10 s and 1 GiB, at a
//! cost that grows with the number of tests.

#![expect(clippy::print_stdout, reason = "a benchmark prints what it measured")]

#[path = "../tests/support/synthetic.rs"]
mod synthetic;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use camino::Utf8PathBuf;
use memprof_judge::compare::from_results;
use memprof_judge::results::run_folder::RunFolder;
use memprof_judge::results::stored;
use memprof_plan::resolved::CellId;
use memprof_plan::shard::Shard;
use memprof_plan::sharding::{self, AllTests};
use memprof_run::merging::Shards;
use synthetic::{Log, Synthetic, cell};

fn main() {
    println!(
        "{:>7} {:>7} {:>9} {:>9} {:>9} {:>12} {:>12}",
        "tests", "shards", "merge", "read", "compare", "per test", "peak memory"
    );
    for (tests, count) in [(2_500, 50), (5_000, 100), (10_000, 200)] {
        measure(tests, count);
    }
}

fn measure(tests: usize, count: u32) {
    let cells: Vec<CellId> =
        (0..tests).map(|number| cell(&format!("module_{}::test_{number}", number % 40), &[])).collect();
    let all = AllTests::from_cells(cells.iter());
    let numbers = sharding::numbers(cells.iter(), &BTreeMap::new(), count);
    let shards: Vec<Synthetic> = (1..=count)
        .map(|number| {
            let own = cells.iter().filter(|cell| numbers[cell] == number);
            let run = own.fold(Synthetic::new(&["main", "pr/7"]), |run, cell| {
                let name = &cell.test.name;
                run.passed(name, 0, 0, &log(0)).passed(name, 1, 0, &log(4096))
            });
            run.shard(Shard { number, count }, &all)
        })
        .collect();
    let folders = shards.iter().map(|shard| RunFolder(shard.folder().0.clone())).collect();
    let home = tempfile::tempdir().expect("a folder");
    let folder = RunFolder(Utf8PathBuf::from_path_buf(home.path().join("merged")).expect("text"));
    let begin = Instant::now();
    let merged = Shards::open(folders).expect("they fit together");
    merged.write(&folder, &merged.plan()).expect("written");
    let merge = begin.elapsed();
    let begin = Instant::now();
    let results = stored::read(&folder).expect("results");
    let read = begin.elapsed();
    assert_eq!(results.runs.len(), 2 * tests);
    let begin = Instant::now();
    let comparison = from_results::compare(&results);
    let compare = begin.elapsed();
    assert_eq!(comparison.cells.len(), tests);
    let per_test = (merge + read + compare) / u32::try_from(tests).expect("few");
    println!(
        "{tests:>7} {count:>7} {merge:>9.2?} {read:>9.2?} {compare:>9.2?} {per_test:>12.1?} {:>12}",
        peak_memory()
    );
}

fn log(more: i64) -> Log {
    (0..5).fold(Log::new(), |log, step| {
        let live = (step + 1) * 10_000 + more;
        let time = i64::try_from(Duration::from_millis(1).as_nanos()).expect("few") * step;
        log.checkpoint(&format!("step {step}"), &[("heap.live", live), ("heap.peak", live), ("time", time)])
    })
}

/// The most resident memory of this process so far, from the kernel.
fn peak_memory() -> String {
    let status = fs_err::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.map_or_else(|| "unknown".to_owned(), |line| line.trim().to_owned())
}
