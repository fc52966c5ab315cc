//! The cost of call stacks: allocation-heavy work with the shim's plain counting, with the call stack
//! of each allocation, and under two other profilers. Each run is paired with an untracked one right
//! beside it.
//!
//! `cargo bench --bench stacks [-- ROUNDS dev|release]`. It builds a small crate per allocator, and needs the
//! network the first time. The last columns are memory: what the process had at most, and how much
//! more that is than untracked.

mod work;

use std::path::{Path, PathBuf};
use std::process::Command;

use camino::Utf8Path;
use memprof_judge::symbols::kept_table;
use work::{Profile, heaptrack, ratio};

const WORKS: [(&str, &str); 2] = [("btree", "400000"), ("json", "60000")];
const COLUMNS: [&str; 6] = ["plain shim", "stacks", "with a table", "sample 512K", "dhat", "heaptrack"];

#[expect(clippy::print_stdout, reason = "a bench prints")]
fn main() {
    let rounds: usize = std::env::args().skip(1).find_map(|argument| argument.parse().ok()).unwrap_or(7);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("bench-stacks");
    println!("wall time against untracked: median of {rounds} pairs (best against best)");
    print!("{:<18}", "");
    for column in COLUMNS {
        print!("{column:>17}");
    }
    println!();
    // `-- dev` or `-- release` times one profile alone.
    let only = |name: &str| std::env::args().any(|argument| argument == name);
    let (dev, release) = (only("dev"), only("release"));
    for (profile, name) in [(Profile::Release, "release"), (Profile::Dev, "dev")] {
        if (dev && name == "release") || (release && name == "dev") {
            continue;
        }
        let [untracked, shim, dhat] =
            ["untracked", "memprof", "dhat"].map(|allocator| work::build(&folder, allocator, profile));
        for (work, size) in WORKS {
            for threads in ["1", "2"] {
                let arguments = [work, threads, size];
                print!("{:<18}", format!("{name} {work} {threads}"));
                let alone = Command::new(&untracked);
                let timed = |command: Command, rounds| {
                    print!("{:>17}", ratio(rounds, &alone, &command, &arguments));
                };
                for command in recordings(&shim, &folder) {
                    timed(command, rounds);
                }
                timed(Command::new(&dhat), rounds.min(1));
                println!("{:>17}", heaptrack(&untracked, &folder, &arguments));
            }
        }
        print_memory(name, &untracked, &shim, &folder);
    }
}

/// The shim's ways to run: plain, with headers, with a table of blocks, and with a sample.
fn recordings(shim: &Path, folder: &Path) -> [Command; 4] {
    let path = Utf8Path::from_path(shim).unwrap();
    let table = kept_table::beside(path);
    kept_table::keep(path, &table).unwrap().unwrap();
    let in_run = || {
        let mut command = Command::new(shim);
        // Each run adds to the log, which nobody reads.
        command.env("MEMPROF_LOG", folder.join("log.jsonl")).env("MEMPROF_PRINT", "0");
        command
    };
    let recording = |blocks: &str| {
        let mut command = in_run();
        command.env("MEMPROF_STACKS", blocks).env("MEMPROF_UNWIND_TABLE", &table);
        command
    };
    let mut sampled = recording("headers");
    sampled.env("MEMPROF_STACKS_SAMPLE", "524288");
    [in_run(), recording("headers"), recording("table"), sampled]
}

/// Prints the most resident memory of the work on one thread.
#[expect(clippy::print_stdout, reason = "a bench prints")]
fn print_memory(name: &str, untracked: &PathBuf, shim: &Path, folder: &Path) {
    for (work, size) in WORKS {
        let most = |command: Command| -> u64 {
            let mut timed = Command::new("/usr/bin/time");
            let variables = command.get_envs().filter_map(|(name, value)| Some((name, value?)));
            timed.args(["-f", "%M"]).arg(command.get_program()).args([work, "1", size]).envs(variables);
            let Ok(output) = timed.output() else { return 0 };
            String::from_utf8_lossy(&output.stderr).trim().parse().unwrap_or(0)
        };
        let alone = most(Command::new(untracked));
        let [_, headers, table, _] = recordings(shim, folder).map(most);
        let [headers, table] = [headers, table].map(|most| most.saturating_sub(alone) >> 10);
        println!(
            "{name} {work}: {} MiB untracked; +{headers} MiB with headers, +{table} MiB with a table",
            alone >> 10
        );
    }
    // Only the size of the log says that the recordings worked.
    let log = folder.join("log.jsonl");
    println!("{name}: {} KiB of logs", log.metadata().map_or(0, |found| found.len() >> 10));
    let _ = fs_err::remove_file(log);
}
