//! `--devices`: tests spread over the devices of a machine that fake libraries make up.
#![cfg(all(target_os = "linux", target_pointer_width = "64"))]

use std::fs;

use serde_json::Value;

use crate::gpu_machine::{FIRST, MIB, Machine, SECOND, line, place, succeed, text, values, workshop};

/// The devices of each run by revision and test, as the records have them.
fn devices(machine: &Machine) -> Vec<(String, Vec<String>)> {
    let words = |value: &Value| -> Vec<String> {
        value.as_array().into_iter().flatten().map(|one| one.as_str().unwrap().to_owned()).collect()
    };
    let of =
        |outcome: &Value| (outcome["cell"]["title"].as_str().unwrap().to_owned(), words(&outcome["devices"]));
    machine.outcomes().iter().map(of).collect()
}

#[test]
fn tests_spread_over_two_devices_meet_and_keep_their_device() {
    let machine = Machine::new();
    let meeting = machine.path("meeting");
    fs::create_dir(&meeting).unwrap();
    let archive = workshop().archive("spread");
    let mut run = machine.of_archive(&archive, &["--devices", "all"]);
    let output = succeed({
        run.env("MEETING_PLACE", &meeting);
        run
    });
    let stderr = text(&output.stderr);
    assert!(!stderr.contains("gets no test") && !stderr.contains("moved"), "{stderr}");
    let on = |device: &str| vec![device.to_owned()];
    let (a, b) = ("spread_a".to_owned(), "spread_b".to_owned());
    let both = [(a.clone(), on(FIRST)), (b.clone(), on(SECOND))];
    assert_eq!(devices(&machine), [&both[..], &both].concat());
    assert_eq!(values(&output.stdout, "gpu.0.live"), [5 * MIB; 2]);
    assert_eq!(values(&output.stdout, "gpu.1.live"), [5 * MIB; 2]);
    assert!(machine.marks().concat().is_empty(), "{:?}", machine.marks());

    // One side of a test is missing, and another process came onto its device.
    let missing = walkdir::WalkDir::new(machine.path("run/cells")).into_iter().flatten();
    let mut missing = missing.filter(|entry| {
        let path = entry.path().to_string_lossy();
        path.ends_with("outcome.json") && path.contains("spread_b") && path.contains("new")
    });
    fs::remove_file(missing.next().unwrap().path()).unwrap();
    machine.others(&[line(SECOND, std::process::id(), 300)]);
    let output = succeed(machine.of_archive(&archive, &["--resume"]));
    let stderr = text(&output.stderr);
    assert!(stderr.contains("warning: 1 test moved from GPU 1 to GPU 0: used by process"), "{stderr}");
    assert!(
        stderr.contains("help: 1 finished run is repeated: figures of two devices are not compared"),
        "{stderr}"
    );
    assert_eq!(
        devices(&machine),
        [(a.clone(), on(FIRST)), (b.clone(), on(FIRST)), (a, on(FIRST)), (b, on(FIRST))]
    );
}

#[test]
fn a_pool_of_different_models_is_refused() {
    let machine = Machine::new();
    let mut run = machine.run("spread", &["--devices", "0,1"]);
    let output = run.env("FAKE_GPU_NAMES", "NVIDIA H200,NVIDIA A100").output().unwrap();
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    let message = "error: --devices: different models of GPU: GPU 0 is NVIDIA H200, GPU 1 is NVIDIA A100";
    assert!(stderr.contains(message) && stderr.contains(&format!("--devices {FIRST}")), "{stderr}");
}

#[test]
fn a_device_that_another_run_uses_gets_no_test_and_none_left_is_an_error() {
    let machine = Machine::new();
    let lock = machine.lock(&place(1, SECOND));
    let output = succeed(machine.run("spread", &["--devices", "0,1"]));
    let stderr = text(&output.stderr);
    assert!(stderr.contains("warning: GPU 1 gets no test: used by another run: "), "{stderr}");
    assert!(devices(&machine).iter().all(|(_, devices)| devices[0] == FIRST), "{:?}", devices(&machine));
    drop(lock);

    let machine = Machine::new();
    machine.others(&[FIRST, SECOND].map(|device| line(device, std::process::id(), 300)));
    let output = machine.run("spread", &["--devices", "all"]).output().unwrap();
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("error: no device of --devices is left (GPU 0: used by process"), "{stderr}");
    assert!(stderr.contains("--resume"), "{stderr}");
}

#[test]
fn tests_of_a_device_that_is_lost_run_on_another_one() {
    let machine = Machine::new();
    let output = succeed(machine.run("loses_device", &["--devices", "0,1"]));
    let stderr = text(&output.stderr);
    assert!(stderr.contains("warning: 1 test moved from GPU 0 to GPU 1: it no longer answers"), "{stderr}");
    assert!(machine.outcomes().iter().all(|outcome| outcome["outcome"] == "ok"), "{:?}", machine.outcomes());
    assert!(devices(&machine).iter().all(|(_, devices)| devices[0] == SECOND), "{:?}", devices(&machine));
}

#[test]
fn tests_move_when_a_run_goes_on_with_fewer_devices() {
    let machine = Machine::new();
    let archive = workshop().archive("spread");
    succeed(machine.of_archive(&archive, &["--devices", "all"]));
    for entry in walkdir::WalkDir::new(machine.path("run/cells")).into_iter().flatten() {
        let path = entry.path().to_string_lossy().into_owned();
        if path.ends_with("outcome.json") && path.contains("/1-new/") {
            fs::remove_file(path).unwrap();
        }
    }
    let output = succeed(machine.of_archive(&archive, &["--resume", "--devices", "1"]));
    let stderr = text(&output.stderr);
    assert!(stderr.contains("warning: 1 test moved from GPU 0 to GPU 1: it is not in --devices"), "{stderr}");
    assert!(devices(&machine).iter().all(|(_, devices)| devices[0] == SECOND), "{:?}", devices(&machine));
}
