//! What a newcomer waits for: both commands of README in a fresh clone, with the units whose compilation costs most.
//!
//! `cargo bench --bench start` takes as long as both commands together. Nothing else should run meanwhile. Crates that
//! cargo has not downloaded yet count, too.

#![expect(clippy::print_stdout, reason = "a benchmark prints what it measured")]

use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::ops::Sub;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Instant;

/// Names the file to which this program, as `RUSTC_WRAPPER`, adds a line per unit.
const UNITS: &str = "START_UNITS";

/// How many units are shown.
const SHOWN: usize = 12;

fn main() -> ExitCode {
    if let Some(file) = std::env::var_os(UNITS) {
        return compile(&PathBuf::from(file));
    }
    let folder = tempfile::tempdir().expect("a folder");
    let clone = folder.path().join("clone");
    run(Command::new("git").args(["clone", "--quiet", env!("CARGO_MANIFEST_DIR")]).arg(&clone));
    println!("{:<28} {:>8} {:>10} {:>12}", "", "wall", "processor", "in kernel");
    let mut parts = Vec::new();
    for (name, build, rest) in [
        ("cargo run -- demo", &["build"][..], &["run", "--", "demo"][..]),
        ("cargo test", &["test", "--no-run"], &["test"]),
    ] {
        let units = folder.path().join(name.replace(' ', "-"));
        let compiled = timed(
            cargo(&clone, build)
                .env("RUSTC_WRAPPER", std::env::current_exe().expect("this program has a file"))
                .env(UNITS, &units),
        );
        parts.push((format!("{name}: build"), compiled, units_of(&units)));
        println!("{:<28} {compiled}", format!("{name}: build"));
        let rest = timed(&mut cargo(&clone, rest));
        println!("{:<28} {rest}", format!("{name}: rest"));
    }
    for (name, cost, units) in &parts {
        println!("\n{name}: {} units; share of its processor time", units.len());
        for (seconds, unit) in units.iter().take(SHOWN) {
            println!("{seconds:>7.1} s {:>6.1} %  {unit}", 100.0 * seconds / cost.processor());
        }
    }
    ExitCode::SUCCESS
}

/// Runs the compiler that cargo names, and notes what it cost.
fn compile(file: &Path) -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let before = Cost::of_children();
    let status = Command::new(&arguments[0])
        .args(&arguments[1..])
        .env_remove(UNITS)
        .status()
        .expect("cargo names a compiler");
    let seconds = (Cost::of_children() - before).processor();
    let named = arguments.iter().skip_while(|argument| *argument != "--crate-name").nth(1);
    if let Some(name) = named {
        let test = if arguments.iter().any(|argument| argument == "--test") { " (tests)" } else { "" };
        let mut file = OpenOptions::new().create(true).append(true).open(file).expect("the file opens");
        file.write_all(format!("{seconds} {name}{test}\n").as_bytes()).expect("the disk has room");
    }
    ExitCode::from(u8::try_from(status.code().unwrap_or(1)).unwrap_or(1))
}

/// Returns each unit with its processor time, the longest first.
fn units_of(file: &Path) -> Vec<(f64, String)> {
    let text = fs::read_to_string(file).expect("cargo compiled something");
    let mut units: Vec<(f64, String)> = text
        .lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(seconds, name)| (seconds.parse().expect("a number"), name.to_owned()))
        .collect();
    units.sort_by(|one, other| other.0.total_cmp(&one.0));
    units
}

fn cargo(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new("cargo");
    command.args(arguments).current_dir(folder);
    // What cargo sets for a benchmark is not what a newcomer has.
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy().into_owned();
        if name.starts_with("CARGO") && name != "CARGO_HOME" || name == "LD_LIBRARY_PATH" {
            command.env_remove(name);
        }
    }
    command
}

fn run(command: &mut Command) {
    let output = command.output().expect("the program starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{command:?}\n{stdout}\n{stderr}");
}

fn timed(command: &mut Command) -> Cost {
    let (begin, before) = (Instant::now(), Cost::of_children());
    run(command);
    Cost { wall: begin.elapsed().as_secs_f64(), ..Cost::of_children() - before }
}

/// Seconds of the processes that ended.
#[derive(Clone, Copy)]
struct Cost {
    wall: f64,
    user: f64,
    kernel: f64,
}

impl Cost {
    /// Returns what all child processes took that have ended, with those that they waited for.
    fn of_children() -> Self {
        let text = fs::read_to_string("/proc/self/stat").expect("the kernel tells");
        let (_, fields) = text.rsplit_once(") ").expect("the name is in parentheses");
        let ticks = |index: usize| -> f64 {
            let field = fields.split(' ').nth(index).expect("there are more than forty");
            // The kernel reports hundredths of a second on every machine.
            field.parse::<f64>().expect("a number") / 100.0
        };
        Self { wall: 0.0, user: ticks(13), kernel: ticks(14) }
    }

    fn processor(self) -> f64 {
        self.user + self.kernel
    }
}

impl Sub for Cost {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self {
            wall: self.wall - earlier.wall,
            user: self.user - earlier.user,
            kernel: self.kernel - earlier.kernel,
        }
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { wall, kernel, .. } = self;
        write!(formatter, "{wall:>6.0} s {:>8.0} s {kernel:>10.0} s", self.processor())
    }
}
