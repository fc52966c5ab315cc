//! The cost of tracking: allocation-heavy work under the shim's allocator and under others. Each
//! run is paired with an untracked one right beside it, so that noise of the machine affects both.
//!
//! `cargo bench --bench allocator [-- ROUNDS]`. It builds a small crate per allocator, and needs
//! the network the first time.

mod work;

use std::path::{Path, PathBuf};
use std::process::Command;

use work::{Profile, heaptrack, output, ratio};

const ALLOCATORS: [&str; 6] = ["untracked", "memprof", "stats_alloc", "peak_alloc", "divan", "dhat"];
const WORKS: [(&str, &str); 2] = [("btree", "400000"), ("json", "60000")];

#[expect(clippy::print_stdout, reason = "a bench prints")]
fn main() {
    let rounds: usize = std::env::args().skip(1).find_map(|argument| argument.parse().ok()).unwrap_or(11);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("bench-allocator");
    let executables: Vec<PathBuf> =
        ALLOCATORS.iter().map(|allocator| work::build(&folder, allocator, Profile::Release)).collect();

    println!("wall time against untracked: median of {rounds} pairs (best against best)");
    print!("{:<12}", "");
    ALLOCATORS[1..].iter().for_each(|allocator| print!("{allocator:>18}"));
    println!("{:>18}", "heaptrack");
    for (work, size) in WORKS {
        for threads in ["1", "2"] {
            print!("{:<12}", format!("{work} {threads}"));
            for (allocator, executable) in ALLOCATORS.iter().zip(&executables).skip(1) {
                let rounds = if *allocator == "dhat" { rounds.min(3) } else { rounds };
                let arguments = [work, threads, size];
                print!(
                    "{:>18}",
                    ratio(rounds, &Command::new(&executables[0]), &Command::new(executable), &arguments)
                );
            }
            println!("{:>18}", heaptrack(&executables[0], &folder, &[work, threads, size]));
        }
    }

    println!("\ninstructions of one thread against untracked (callgrind)");
    for (work, _) in WORKS {
        let count = |executable: &Path| instructions(executable, &[work, "1", "40000"]);
        match (count(&executables[0]), count(&executables[1])) {
            (Some(untracked), Some(memprof)) => {
                println!("{work:<12}{:>+17.2}%", (memprof / untracked - 1.0) * 100.0);
            }
            _ => println!("{work:<12} valgrind is not installed"),
        }
    }

    println!("\ncost of a call inside a run");
    let log = folder.join("log.jsonl");
    let _ = fs_err::remove_file(&log);
    let mut checkpoints = Command::new(&executables[1]);
    print!("{}", output(checkpoints.arg("checkpoints").env("MEMPROF_LOG", &log).env("MEMPROF_PRINT", "0")));
    fs_err::remove_file(log).unwrap();
}

/// The number of instructions, from callgrind.
fn instructions(executable: &Path, arguments: &[&str]) -> Option<f64> {
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).arg(executable).args(arguments);
    let output = valgrind.output().ok()?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    text.lines().find_map(|line| line.split("Collected :").nth(1))?.trim().parse().ok()
}
