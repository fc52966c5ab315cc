//! The cost of naming a tensor, and of a layer's call, inside and outside a run.
//!
//! `cargo bench --bench naming`

use std::path::Path;
use std::process::Command;

#[expect(clippy::print_stdout, reason = "a bench prints")]
fn main() {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("bench-naming");
    fs_err::create_dir_all(&folder).unwrap();
    for (name, flags) in [("memprof", &[][..]), ("memprof_heap", &["-C", "relocation-model=pie"])] {
        let mut rustc = rustc(&folder);
        rustc.args(["--crate-name", name, "--crate-type", "rlib"]).args(flags);
        run(rustc.arg("--out-dir").arg(&folder).arg(repository.join("templates").join(name).join("lib.rs")));
    }
    let program = folder.join("naming");
    let mut rustc = rustc(&folder);
    for name in ["memprof", "memprof_heap"] {
        rustc.arg("--extern").arg(format!("{name}={}", folder.join(format!("lib{name}.rlib")).display()));
    }
    run(rustc.arg("-o").arg(&program).arg(repository.join("fixtures/bench/naming.rs")));

    println!("outside a run");
    print!("{}", run(Command::new(&program).env_remove("MEMPROF_LOG")));
    let log = folder.join("log.jsonl");
    let _ = fs_err::remove_file(&log);
    println!("in a run");
    let mut command = Command::new(&program);
    print!("{}", run(command.env("MEMPROF_LOG", &log).env("MEMPROF_PRINT", "0")));
    fs_err::remove_file(log).unwrap();
}

fn rustc(folder: &Path) -> Command {
    let mut rustc = Command::new("rustc");
    rustc.args(["--edition", "2021", "-C", "opt-level=3", "-L"]).arg(folder);
    rustc
}

/// Returns the output of a command that must succeed.
fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}
