//! The cost of tracking: allocation-heavy work under the shim's allocator and under others. Each
//! run is paired with an untracked one right beside it, so that noise of the machine affects both.
//!
//! `cargo bench --bench allocator [-- ROUNDS]`. It builds a small crate per allocator, and needs
//! the network the first time.

use std::path::{Path, PathBuf};
use std::process::Command;

const ALLOCATORS: [&str; 6] = ["untracked", "memprof", "stats_alloc", "peak_alloc", "divan", "dhat"];
const WORKS: [(&str, &str); 2] = [("btree", "400000"), ("json", "60000")];

#[expect(clippy::print_stdout, reason = "a bench prints")]
fn main() {
    let rounds: usize = std::env::args().skip(1).find_map(|argument| argument.parse().ok()).unwrap_or(11);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("bench-allocator");
    let executables: Vec<PathBuf> = ALLOCATORS.iter().map(|allocator| build(&folder, allocator)).collect();

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

/// Builds the executable that does the work under this allocator.
fn build(folder: &Path, allocator: &str) -> PathBuf {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR"));
    fs_err::create_dir_all(folder).unwrap();
    let manifest = format!(
        "[package]\nname = \"work\"\nversion = \"0.0.0\"\nedition = \"2021\"\n\n[workspace]\n\n\
         [[bin]]\nname = \"work\"\npath = '{}'\n\n\
         [features]\nuntracked = []\nmemprof = []\ndhat = [\"dep:dhat\"]\n\
         stats_alloc = [\"dep:stats_alloc\"]\npeak_alloc = [\"dep:peak_alloc\"]\ndivan = [\"dep:divan\"]\n\n\
         [dependencies]\nserde_json = \"1\"\ndhat = {{ version = \"0.3\", optional = true }}\n\
         divan = {{ version = \"0.1\", optional = true }}\n\
         stats_alloc = {{ version = \"0.1\", optional = true }}\npeak_alloc = {{ version = \"0.3\", optional = true }}\n",
        repository.join("fixtures/bench/work.rs").display()
    );
    fs_err::write(folder.join("Cargo.toml"), manifest).unwrap();
    let mut cargo = Command::new("cargo");
    cargo.args(["rustc", "--quiet", "--release", "--bin", "work", "--features", allocator, "--"]);
    if ["untracked", "memprof"].contains(&allocator) {
        for (name, flags) in [("memprof", &[][..]), ("memprof_heap", &["-C", "relocation-model=pie"])] {
            let library = folder.join(format!("lib{name}.rlib"));
            let mut rustc = Command::new("rustc");
            rustc.args(["--crate-name", name, "--crate-type", "rlib", "--edition", "2021"]);
            rustc.args(["-C", "opt-level=3", "-C", "codegen-units=1"]).args(flags).arg("-L").arg(folder);
            output(rustc.arg("-o").arg(&library).arg(repository.join("templates").join(name).join("lib.rs")));
            cargo.arg("--extern").arg(format!("{name}={}", library.display()));
        }
        cargo.arg("-L").arg(folder);
    }
    output(cargo.current_dir(folder));
    let executable = folder.join(allocator);
    fs_err::copy(folder.join("target/release/work"), &executable).unwrap();
    executable
}

/// How much longer the second command takes than the first: the median of the pairs' ratios, and
/// the ratio of the best times.
fn ratio(rounds: usize, first: &Command, second: &Command, arguments: &[&str]) -> String {
    let time = |command: &Command| -> f64 {
        output(Command::new(command.get_program()).args(arguments)).trim().parse().unwrap()
    };
    let mut pairs = Vec::new();
    for round in 0..rounds {
        // Each is first in every other pair.
        pairs.push(if round % 2 == 0 {
            (time(first), time(second))
        } else {
            let later = time(second);
            (time(first), later)
        });
    }
    let mut ratios: Vec<f64> = pairs.iter().map(|(first, second)| second / first).collect();
    ratios.sort_by(f64::total_cmp);
    let best = |times: &mut dyn Iterator<Item = f64>| times.fold(f64::INFINITY, f64::min);
    let (first, second) =
        (best(&mut pairs.iter().map(|pair| pair.0)), best(&mut pairs.iter().map(|pair| pair.1)));
    format!("{:.3} ({:.3})", ratios[rounds / 2], second / first)
}

/// The ratio of one run of the untracked executable under heaptrack to one without.
fn heaptrack(executable: &Path, folder: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new("heaptrack");
    let Ok(traced) = command.arg("-o").arg(folder.join("heaptrack")).arg(executable).args(arguments).output()
    else {
        return "not installed".into();
    };
    let alone: f64 = output(Command::new(executable).args(arguments)).trim().parse().unwrap();
    let printed = String::from_utf8_lossy(&traced.stdout).into_owned();
    let nanoseconds = printed.lines().find_map(|line| line.trim().parse::<f64>().ok());
    nanoseconds.map_or("failed".into(), |nanoseconds| format!("{:.1}", nanoseconds / alone))
}

/// The number of instructions, from callgrind.
fn instructions(executable: &Path, arguments: &[&str]) -> Option<f64> {
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).arg(executable).args(arguments);
    let output = valgrind.output().ok()?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    text.lines().find_map(|line| line.split("Collected :").nth(1))?.trim().parse().ok()
}

/// Returns the output of a command that must succeed.
fn output(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}
