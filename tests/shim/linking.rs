//! Ways of building and linking: the stamp, the test harness, editions, procedural macros, targets.

use std::path::Path;

use crate::laboratory::{Experiment, figure, program, rustc, scratch, shim, shim_flags, succeed, text};
use crate::skips::skip;

const MAGIC: &[u8] = b"cargo-memprof-build-key:";

/// Every place in a file where the stamp begins.
fn stamps(executable: &[u8]) -> Vec<usize> {
    (0..executable.len() - MAGIC.len()).filter(|&at| executable[at..].starts_with(MAGIC)).collect()
}

#[test]
fn the_stamp_is_in_the_executable_once_and_is_reported_when_patched() {
    let lto = ["-C", "opt-level=3", "-C", "lto=fat", "-C", "panic=abort", "-C", "strip=symbols"];
    for flags in [&[][..], &lto, &["-C", "debuginfo=2"]] {
        let executable = program("heap", flags);
        let mut bytes = fs_err::read(&executable).unwrap();
        let places = stamps(&bytes);
        assert_eq!(places.len(), 1, "{flags:?}");
        let key = places[0] + MAGIC.len()..places[0] + MAGIC.len() + 64;
        assert_eq!(bytes[key.clone()], [b'-'; 64], "{flags:?}");

        let digits = "0123456789abcdef".repeat(4);
        bytes[key].copy_from_slice(digits.as_bytes());
        let patched = scratch("patched");
        fs_err::copy(&executable, &patched).unwrap();
        fs_err::write(&patched, bytes).unwrap();
        let record = Experiment::of(&patched).succeed();
        assert_eq!(record.lines()[0]["build"], digits, "{flags:?}");
        fs_err::remove_file(patched).unwrap();
    }
}

#[test]
fn a_test_under_rusts_harness_has_its_checkpoints_between_start_and_done() {
    let executable = program("libtest", &["--test"]);
    let run = |name: &str| {
        let harness = ["--exact", name, "--nocapture", "--test-threads=1"];
        harness
            .into_iter()
            .fold(Experiment::of(&executable), Experiment::arg)
            .env("MEMPROF_HARNESS_TEST", name)
            .run()
    };
    let record = run("allocates_a_known_amount");
    assert!(record.output.status.success());
    assert_eq!(record.labels(), ["start", "ready", "kept 1234567", "done"]);
    let kept = record.checkpoint("kept 1234567");
    // Elsewhere, the harness's main thread still allocates a little while the test's thread begins.
    let harness = 0..if cfg!(target_os = "linux") { 1 } else { 1_024 };
    assert!(harness.contains(&(figure(kept, "heap.allocated") - 1_234_567)), "{kept}");
    assert!(
        harness.contains(&(figure(kept, "heap.live") - record.figure("ready", "heap.live") - 1_234_567)),
        "{kept}"
    );

    let record = run("fails");
    assert_eq!(record.output.status.code(), Some(101));
    assert_eq!(record.labels(), ["start", "about to fail", "done"]);
}

#[test]
fn unit_tests_of_a_procedural_macro_have_heap_figures() {
    let executable = program("proc_macro_tests", &["--test", "--crate-type", "proc-macro"]);
    let libraries = text(&succeed(rustc().args(["--print", "target-libdir"])).stdout);
    let record = Experiment::of(executable).env("LD_LIBRARY_PATH", libraries.trim()).succeed();
    let allocated = record.figure("kept 1234567", "heap.allocated");
    assert!((1_234_567..1_234_567 + 1_024).contains(&allocated), "{allocated}");
}

#[test]
fn naming_the_crate_is_enough_for_start_and_done() {
    for flags in
        [&[][..], &["-C", "opt-level=3", "-C", "lto=fat"], &["-C", "opt-level=3", "-C", "strip=symbols"]]
    {
        let record = Experiment::of(program("unused", flags)).succeed();
        assert_eq!(record.labels(), ["start", "done"], "{flags:?}");
        assert_eq!(record.events("end").len(), 1);
    }
}

#[test]
fn an_old_edition_reaches_the_macros_by_name_and_by_path() {
    let record = Experiment::of(program("edition_2015", &[])).succeed();
    assert_eq!(record.labels(), ["start", "by name", "by path", "done"]);
    assert_eq!(record.scope("scope")["event"], "scope");
}

#[test]
fn a_procedural_macro_with_the_shim_in_it_is_silent_in_the_compiler() {
    let libraries = shim(&[]);
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/shim");
    let out = scratch("macro");
    fs_err::create_dir_all(&out).unwrap();
    let mut command = rustc();
    command.args(["--crate-name", "seven_macro", "--crate-type", "proc-macro", "--edition", "2021"]);
    command.args(shim_flags(&libraries)).arg("--out-dir").arg(&out).arg(fixtures.join("proc_macro.rs"));
    succeed(&mut command);

    let mut command = rustc();
    let library = fs_err::read_dir(&out).unwrap().next().unwrap().unwrap().path();
    command.args(["--edition", "2021", "--extern"]).arg(format!("seven_macro={}", library.display()));
    command.arg("--out-dir").arg(&out).arg(fixtures.join("uses_proc_macro.rs"));
    let output = succeed(&mut command);
    assert_eq!((text(&output.stdout), text(&output.stderr)), (String::new(), String::new()));
    let written = fs_err::read_dir(&out).unwrap().count();
    assert_eq!(written, 2, "the library and the executable, no log");
    fs_err::remove_dir_all(out).unwrap();
}

#[test]
fn an_explicit_target_links_and_runs() {
    let verbose = text(&succeed(rustc().arg("-vV")).stdout);
    let host = verbose.lines().find_map(|line| line.strip_prefix("host: ")).unwrap();
    let record = Experiment::of(program("labels", &["--target", host, "-C", "opt-level=1"])).succeed();
    assert_eq!(record.labels().len(), 15);
}

/// Compiles for every further target whose standard library is installed: nothing is run, but nothing is untyped.
#[test]
#[ignore = "it takes long; `just test-all` runs it"]
fn it_compiles_for_the_other_platforms_that_are_installed_here() {
    let sysroot = text(&succeed(rustc().args(["--print", "sysroot"])).stdout);
    let installed = fs_err::read_dir(Path::new(sysroot.trim()).join("lib/rustlib")).unwrap();
    let mut compiled = Vec::new();
    for target in installed.map(|entry| entry.unwrap()).filter(|entry| entry.path().join("lib").is_dir()) {
        let target = target.file_name().into_string().unwrap();
        shim(&["--target", &target]);
        compiled.push(target);
    }
    assert!(!compiled.is_empty());
    if compiled.len() == 1 {
        skip("no target but the host's is installed");
    }
    // Where they are to be had, nobody may forget to have them: CI names them.
    let wanted = std::env::var("MEMPROF_TEST_TARGETS").unwrap_or_default();
    for target in wanted.split_whitespace() {
        assert!(compiled.iter().any(|known| known == target), "{target} is not among {compiled:?}");
    }
}
