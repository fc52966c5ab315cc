//! What `--with` of one leaf crate costs, against doing it by hand: `cargo update --precise` and then
//! `cargo test --no-run --tests`, in a clone with a warm target folder of its own. At most 1.05 times.
//!
//! `cargo bench --bench with`

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// How many versions each side builds, each after the one before.
const ROUNDS: usize = 5;
/// The functions of the package. They make it compile as long as a package of some size.
const FUNCTIONS: usize = 6000;

#[expect(clippy::print_stdout, reason = "a bench prints")]
fn main() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    for version in 0..=ROUNDS * 2 {
        publish(root, version);
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

/// Publishes version 1.0.N of a crate in a registry on the disk.
fn publish(root: &Path, version: usize) {
    let (name, registry) = (format!("leafy-1.0.{version}"), root.join("registry"));
    let sources = root.join("sources").join(&name);
    fs::create_dir_all(sources.join("src")).unwrap();
    let manifest = format!("[package]\nname = 'leafy'\nversion = '1.0.{version}'\nedition = '2021'\n");
    fs::write(sources.join("Cargo.toml"), manifest).unwrap();
    fs::write(sources.join("src/lib.rs"), format!("pub fn leaf() -> u64 {{ {version} }}\n")).unwrap();
    let index = registry.join("index/le/af");
    fs::create_dir_all(&index).unwrap();
    let archive = registry.join(format!("{name}.crate"));
    run(Command::new("tar").arg("czf").arg(&archive).arg("-C").arg(root.join("sources")).arg(&name));
    let sum = run(Command::new("sha256sum").arg(&archive));
    let sum = sum.split_whitespace().next().unwrap();
    let line = format!(
        "{{\"name\":\"leafy\",\"vers\":\"1.0.{version}\",\"deps\":[],\"cksum\":\"{sum}\",\"features\":{{}},\"yanked\":false}}\n"
    );
    let file = index.join("leafy");
    fs::write(&file, fs::read_to_string(&file).unwrap_or_default() + &line).unwrap();
}

/// Writes and commits a package that depends on the crate.
fn package(root: &Path, folder: &PathBuf) {
    fs::create_dir_all(folder.join("src")).unwrap();
    let config = format!(
        "[source.crates-io]\nreplace-with = 'disk'\n[source.disk]\nlocal-registry = '{}'\n",
        root.join("registry").display()
    );
    // Cargo finds it from every folder below.
    fs::create_dir_all(root.join("cargo-home")).unwrap();
    fs::write(root.join("cargo-home/config.toml"), config).unwrap();
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

/// Removes what the cargo that runs this bench set.
fn clean(mut command: Command) -> Command {
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("CARGO") {
            command.env_remove(name);
        }
    }
    command
}

fn timed(work: impl FnOnce()) -> Duration {
    let begun = Instant::now();
    work();
    begun.elapsed()
}

/// Returns the output of a command that must succeed.
fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}
