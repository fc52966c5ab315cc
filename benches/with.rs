//! What `--with` of one leaf crate costs, against doing it by hand: `cargo update --precise` and then
//! `cargo test --no-run --tests`, in a clone with a warm target folder of its own. At most 1.05 times.
//!
//! `cargo bench --bench with`

mod commands;
mod registry;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use commands::{clean, run};
use registry::publish;

/// How many versions each side builds, each after the one before.
const ROUNDS: usize = 5;
/// The functions of the package. They make it compile as long as a package of some size.
const FUNCTIONS: usize = 6000;

#[expect(clippy::print_stdout, reason = "a bench prints")]
fn main() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    for version in 0..=ROUNDS * 2 {
        let code = format!("pub fn leaf() -> u64 {{ {version} }}\n");
        publish(root, "leafy", &format!("1.0.{version}"), &code);
    }
    let repository = root.join("repository");
    package(root, &repository);
    let by_hand = root.join("by-hand");
    run(Command::new("git").args(["clone", "--quiet"]).arg(&repository).arg(&by_hand));
    let cargo = |arguments: &[&str]| {
        let mut cargo = clean(Command::new("cargo"));
        cargo.args(arguments).current_dir(&by_hand).env("CARGO_HOME", root.join("cargo-home"));
        run(&mut cargo);
    };
    let tool = |arguments: &[&str]| {
        let mut tool = clean(Command::new(env!("CARGO_BIN_EXE_cargo-memprof")));
        tool.arg("memprof").args(arguments).current_dir(&repository);
        tool.env("CARGO_HOME", root.join("cargo-home")).env("CARGO_MEMPROF_HOME", root.join("home"));
        run(&mut tool);
    };
    // Both are warm: all dependencies are built, in the first version.
    cargo(&["test", "--no-run", "--tests", "--offline"]);
    tool(&["build", ".", "--offline"]);
    let mut ratios = Vec::new();
    for round in 0..ROUNDS {
        let [ours, theirs] = [1, 2].map(|place| format!("1.0.{}", round * 2 + place));
        let with = format!("new:leafy@{ours}");
        let taken = [
            timed(|| {
                cargo(&["update", "--offline", "--package", "leafy", "--precise", &theirs]);
                cargo(&["test", "--no-run", "--tests", "--offline"]);
            }),
            timed(|| tool(&["build", ".", "--offline", "--with", &with])),
        ];
        println!("round {}: by hand {:.2?}, --with {:.2?}", round + 1, taken[0], taken[1]);
        ratios.push(taken[1].as_secs_f64() / taken[0].as_secs_f64());
    }
    ratios.sort_by(f64::total_cmp);
    println!("--with takes {:.3} times as long, the median (goal: at most 1.05)", ratios[ROUNDS / 2]);
}

/// Writes and commits a package that depends on the crate.
fn package(root: &Path, folder: &PathBuf) {
    fs::create_dir_all(folder.join("src")).unwrap();
    let manifest =
        "[package]\nname = 'tree'\nversion = '0.1.0'\nedition = '2021'\n[dependencies]\nleafy = '1'\n";
    fs::write(folder.join("Cargo.toml"), manifest).unwrap();
    fs::write(folder.join(".gitignore"), "/target\n").unwrap();
    let mut code = String::new();
    for number in 0..FUNCTIONS {
        _ = writeln!(
            code,
            "pub fn f{number}(n: u64) -> Vec<(u64, String)> {{ (0..n).map(|i| (i ^ leafy::leaf(), format!(\"{{i}} {number}\"))).collect() }}"
        );
    }
    code.push_str("#[test]\nfn grows() { assert_eq!(f1(8).len(), 8) }\n");
    fs::write(folder.join("src/lib.rs"), code).unwrap();
    let mut cargo = clean(Command::new("cargo"));
    cargo.current_dir(folder).env("CARGO_HOME", root.join("cargo-home"));
    run(cargo.args(["generate-lockfile", "--offline"]));
    let mut cargo = clean(Command::new("cargo"));
    cargo.current_dir(folder).env("CARGO_HOME", root.join("cargo-home"));
    run(cargo.args(["update", "--offline", "--package", "leafy", "--precise", "1.0.0"]));
    let git = |arguments: &[&str]| {
        let identity = ["-c", "user.name=bench", "-c", "user.email=bench@localhost"];
        run(Command::new("git").current_dir(folder).args(identity).args(arguments));
    };
    git(&["init", "--quiet", "--initial-branch", "main"]);
    git(&["add", "--all"]);
    git(&["commit", "--quiet", "--message", "a tree"]);
}

fn timed(work: impl FnOnce()) -> Duration {
    let begun = Instant::now();
    work();
    begun.elapsed()
}
