//! Miri over the unsafe code: undefined behaviour, data races, and the orders that weaker machines allow.

use std::path::Path;
use std::process::Command;

use crate::laboratory::succeed;
use crate::skips::skip;

/// How many steps each of the three threads takes: all where Miri is required, as in its CI job. Ten take 18 s, three
/// take 9 s.
fn steps() -> usize {
    if is_required() { 10 } else { 3 }
}

fn is_required() -> bool {
    std::env::var_os("MEMPROF_TEST_MIRI").is_some()
}

#[test]
fn miri_finds_nothing() {
    let mut version = Command::new("cargo");
    version.args(["+nightly", "miri", "--version"]).env_remove("RUSTUP_TOOLCHAIN").env_remove("CARGO");
    if !version.output().is_ok_and(|output| output.status.success()) {
        assert!(!is_required(), "CI has a job that installs Miri");
        skip("Miri is not installed (rustup toolchain install nightly --component miri)");
        return;
    }
    let package = Path::new(env!("CARGO_TARGET_TMPDIR")).join("miri");
    let repository = env!("CARGO_MANIFEST_DIR");
    fs_err::create_dir_all(&package).unwrap();
    let manifest = format!(
        "[package]\nname = \"memprof\"\nversion = \"0.0.0\"\nedition = \"2021\"\n\n[workspace]\n\n\
         [lib]\npath = '{repository}/templates/memprof/lib.rs'\n\n\
         [[bin]]\nname = \"checked\"\npath = '{repository}/fixtures/shim/miri.rs'\n"
    );
    fs_err::write(package.join("Cargo.toml"), manifest).unwrap();

    // The same path in every run: cargo-miri gives the program the environment of the build, which may be an older one.
    let log = package.join("log.jsonl");
    let _ = fs_err::remove_file(&log);
    let mut miri = Command::new("cargo");
    // Miri would cut writes short at random, which a file system does only when it is full.
    miri.args(["+nightly", "miri", "run", "--quiet", "--", &steps().to_string()])
        .current_dir(&package)
        .env("MIRIFLAGS", "-Zmiri-disable-isolation -Zmiri-no-short-fd-operations -Zmiri-strict-provenance")
        .env("MEMPROF_LOG", &log)
        .env("MEMPROF_PRINT", "0")
        .env_remove("RUSTUP_TOOLCHAIN")
        .env_remove("CARGO");
    succeed(&mut miri);
    let lines = fs_err::read_to_string(&log).unwrap().lines().count();
    assert!(lines > 40 + 6 * steps(), "it ran inside a run: {lines} lines");
}
