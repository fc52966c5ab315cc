//! `memprof::courtesy()` with a fake driver, in the crate for ordinary builds and in the shim.
#![cfg(all(target_os = "linux", target_pointer_width = "64"))]

use std::path::{Path, PathBuf};

use crate::laboratory::{Experiment, once, ordinary_program, program, succeed, text, usual_rustc};

/// The folder of a fake driver, NVML and `nvidia-smi`. `old` is a driver without the calls.
fn libraries(old: bool) -> PathBuf {
    once(&format!("libraries for courtesy, old: {old}"), |folder| {
        fs_err::create_dir_all(folder).unwrap();
        for (source, file) in [("checkpoint", "libcuda.so.1"), ("nvml", "libnvidia-ml.so.1")] {
            let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("fixtures/gpu/fake_{source}.rs"));
            let mut rustc = usual_rustc();
            rustc.args(["--edition", "2021", "--crate-type", "cdylib", "-C"]);
            rustc.arg(format!("link-arg=-Wl,-soname,{file}")).args(if old {
                &["--cfg", "old_driver"][..]
            } else {
                &[]
            });
            succeed(rustc.arg("-o").arg(folder.join(file)).arg(source));
        }
        let smi = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/gpu/fake_smi.rs");
        let mut rustc = usual_rustc();
        rustc.args(["--edition", "2024", "-o"]).arg(folder.join("nvidia-smi")).arg(smi);
        succeed(&mut rustc);
    })
}

/// What the program prints after these steps. The shim's and the crate's are the same.
fn steps(steps: &[&str]) -> String {
    with(steps, false, &[])
}

fn with(steps: &[&str], old: bool, variables: &[(&str, &str)]) -> String {
    let run = |experiment: Experiment| {
        let machine = tempfile::tempdir().unwrap();
        let mut experiment = experiment
            .env("LD_LIBRARY_PATH", libraries(old))
            .env("PATH", libraries(old))
            .env("FAKE_GPUS", "GPU-11111111-2222-3333-4444-555555555555")
            .env("FAKE_NVML_STATE", machine.path().join("state"))
            .env("FAKE_CHECKPOINTS", machine.path());
        for (name, value) in variables {
            experiment = experiment.env(name, value);
        }
        text(&steps.iter().fold(experiment, Experiment::arg).succeed().output.stdout)
    };
    let of_shim = run(Experiment::of(program("courtesy", &[])));
    assert_eq!(run(Experiment::outside_a_run(program("courtesy", &[]))), of_shim);
    if let Some(ordinary) = ordinary_program("courtesy", &[]) {
        assert_eq!(run(Experiment::outside_a_run(ordinary)), of_shim);
    }
    of_shim
}

const USE: &str = "use 314572800";

#[test]
fn the_driver_moves_the_memory_away_and_back() {
    assert_eq!(
        steps(&["load", USE, "yield", "yield", "restore", "restore", "calls"]),
        "yield: 300 MiB by the CUDA driver\nyield: nothing moved: it is set aside already\n\
         restore: 300 MiB by the CUDA driver\nrestore: nothing moved: nothing is set aside\n\
         calls: lock checkpoint restore unlock\n"
    );
    assert_eq!(
        steps(&["load", USE, "yield", "drop", "calls"]),
        "yield: 300 MiB by the CUDA driver\ncalls: lock checkpoint restore unlock\n"
    );
}

#[test]
fn without_room_the_drivers_restore_is_not_called_and_works_later() {
    // The device has 64 GiB; 1.29 GiB must be free.
    let hog = format!("hog {}", (64_u64 << 30) - (1323 << 20));
    assert_eq!(
        steps(&["load", USE, "yield", &hog, "restore", "calls", "free", "restore", "calls"]),
        "yield: 300 MiB by the CUDA driver\n\
         restore: nothing moved: there may be no room: 1.29 GiB are free on the GPU, and it needs 1.29 GiB\n\
         calls: lock checkpoint\nrestore: 300 MiB by the CUDA driver\ncalls: lock checkpoint restore unlock\n"
    );
    let same = "hog 68000000000";
    let neighbour = steps(&["load", same, USE, "yield", "restore"]);
    assert!(
        neighbour.ends_with("restore: 300 MiB by the CUDA driver\n"),
        "as much room as before: {neighbour}"
    );
}

#[test]
fn a_restore_that_fails_says_that_the_data_may_be_lost() {
    let printed = steps(&["load", USE, "yield", "fail restore 2", "restore", "work", "restore"]);
    let said = "restore: nothing moved: the driver could not restore it, and its data may be lost: \
                cuCheckpointProcessRestore: CUDA_ERROR_OUT_OF_MEMORY (2)\n";
    assert!(printed.contains(said), "{printed}");
    assert!(printed.ends_with("restore: 300 MiB by the CUDA driver\n"), "{printed}");
}

#[test]
fn where_the_driver_cannot_registered_functions_move_what_they_know() {
    let printed =
        steps(&["load", USE, "fail checkpoint 801", "register", "register", "yield", "restore", "calls"]);
    assert_eq!(
        printed,
        "  first away\n  second away\nyield: 6.00 MiB by registered functions, not by the CUDA driver: \
         cuCheckpointProcessCheckpoint: CUDA_ERROR_NOT_SUPPORTED (801)\n  first back\n  second back\n\
         restore: 6.00 MiB by registered functions, not by the CUDA driver: \
         cuCheckpointProcessCheckpoint: CUDA_ERROR_NOT_SUPPORTED (801)\ncalls: lock checkpoint unlock\n"
    );
    let printed = steps(&["register", "yield", "pin yes", "restore", "pin no", "restore", "restore"]);
    assert_eq!(
        printed,
        "  first away\nyield: 3.00 MiB by registered functions, not by the CUDA driver: this \
         process has not loaded the CUDA driver\n  first back\n\
         restore: nothing moved: first could not be moved back: it is pinned\n  first back\n\
         restore: 3.00 MiB by registered functions, not by the CUDA driver: this process has not loaded \
         the CUDA driver\nrestore: nothing moved: nothing is set aside\n"
    );
    let printed = steps(&["register", "pin yes", "yield", "forget", "yield"]);
    assert_eq!(
        printed,
        "  first away\nyield: nothing moved: this process has not loaded the CUDA driver; first could not be moved: \
         it is pinned\nyield: nothing moved: this process has not loaded the CUDA driver; and no function is \
         registered (memprof::movable)\n"
    );
}

#[test]
fn the_reason_why_the_driver_cannot_is_said() {
    let rest = "; and no function is registered (memprof::movable)\n";
    assert_eq!(
        steps(&["load", USE, "fail checkpoint 801", "yield", "calls"]),
        format!(
            "yield: nothing moved: cuCheckpointProcessCheckpoint: CUDA_ERROR_NOT_SUPPORTED (801){rest}calls: lock \
             checkpoint unlock\n"
        )
    );
    assert_eq!(
        with(&["load", "yield"], true, &[]),
        format!(
            "yield: nothing moved: this CUDA driver is older than 570 (CUDA 12.8) and cannot do it: it has no \
             cuCheckpointProcessGetState{rest}"
        )
    );
    assert_eq!(
        with(&["load", "yield"], false, &[("FAKE_CUDA_UNUSED", "1")]),
        format!(
            "yield: nothing moved: this process does not use CUDA (cuDeviceGetCount: CUDA_ERROR_NOT_INITIALIZED \
             (3)){rest}"
        )
    );
    assert_eq!(
        with(&["load", USE, "yield", "calls"], false, &[("FAKE_NVML_BROKEN", "1")]),
        format!(
            "yield: nothing moved: nvidia-smi, which knows whether there is room again, does not answer: it ended \
             with exit status: 9{rest}calls: \n"
        )
    );
}
