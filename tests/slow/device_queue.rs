//! Runs that want the same device: one after the other, in the order in which they came.
#![cfg(all(target_os = "linux", target_pointer_width = "64"))]

use std::fs;
use std::process::{Child, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::gpu_machine::{FIRST, Machine, place, succeed, text, workshop};
use crate::support::home_at;

#[test]
fn two_runs_do_not_share_a_device() {
    let machine = Machine::new();
    let held = machine.lock(&place(0, FIRST));
    let refused = machine.run("uses_gpu", &["--no-wait"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    assert!(
        text(&refused.stderr).contains("error: another run is using GPU 0: "),
        "{}",
        text(&refused.stderr)
    );
    // One that sees another device, or none, goes on.
    for (device, seen) in [("1", "devices: 1"), ("none", "devices: 0")] {
        let _ = fs::remove_dir_all(machine.path("run"));
        succeed(machine.run("counts_devices", &["--no-wait", "--device", device]));
        assert!(machine.stdouts().iter().all(|stdout| stdout.contains(seen)), "{device}");
    }
    let _ = fs::remove_dir_all(machine.path("run"));
    let mut waiting: Child =
        machine.run("uses_gpu", &[]).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(waiting.try_wait().unwrap(), None, "it waits");
    assert!(machine.outcomes().is_empty(), "nothing has run");
    drop(held);
    let output = waiting.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(
        text(&output.stderr).contains("Waiting 1st in line for GPU 0 behind "),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn runs_that_wait_for_a_device_form_a_queue_which_doctor_shows_and_a_killed_one_leaves() {
    let machine = Machine::new();
    let held = machine.lock(&place(0, FIRST));
    let archive = workshop().archive("uses_gpu");
    let command = |folder: &str| {
        let mut run = machine.memprof(&["run", "--device", "0", "--archive"]);
        run.arg(&archive).arg("--run-folder").arg(machine.path(folder));
        // The archive's lock would make them wait before they see the device.
        run.env("CARGO_MEMPROF_HOME", home_at(machine.path(&format!("{folder}-cache"))));
        run
    };
    let start = |folder: &str| -> Child {
        command(folder).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let queue = || {
        let doctor = machine.memprof(&["doctor", "--format", "json"]).output().unwrap().stdout;
        let doctor: Value = serde_json::from_slice(&doctor).unwrap();
        let sections = doctor["sections"].as_array().unwrap().iter();
        let findings = sections.flat_map(|section| section["findings"].as_array().unwrap());
        let queue = findings.filter(|finding| finding["name"] == "  queue");
        queue.map(|finding| finding["text"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let wait_for = |waiting: usize| {
        let is_reached = (0..2000).any(|_| {
            std::thread::sleep(Duration::from_millis(30));
            queue().len() == waiting
        });
        assert!(is_reached, "{:?}", queue());
    };
    let mut killed = start("first");
    wait_for(1);
    let next = start("second");
    wait_for(2);
    let [first, second] = &queue()[..] else { panic!("{:?}", queue()) };
    assert!(first.starts_with("1st in line: "), "{first}");
    assert!(first.contains(&format!(", process {}, since ", killed.id())), "{first}");
    assert!(second.starts_with("2nd in line behind "), "{second}");
    assert!(
        second.contains("cargo memprof run --device 0 --archive")
            && second.contains(&format!("process {}", next.id()))
    );
    let late = command("late").args(["--wait", "1s"]).output().unwrap();
    assert_eq!(late.status.code(), Some(2));
    let error = text(&late.stderr);
    assert!(error.contains("error: waited 1.0 s for GPU 0, which another run is using: "), "{error}");
    assert!(error.contains(&format!(", process {}, since ", std::process::id())), "{error}");
    assert!(error.contains("Waiting 3rd in line for GPU 0 behind ") && error.contains("--resume"), "{error}");
    killed.kill().unwrap();
    killed.wait().unwrap();
    wait_for(1);
    drop(held);
    let output = next.wait_with_output().unwrap();
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    let place = |place: &str| stderr.find(&format!("Waiting {place} in line for GPU 0 behind "));
    assert!(place("2nd").is_some() && place("2nd") < place("1st"), "{stderr}");
    // What was not measured in time is measured now.
    let mut resumed = machine.memprof(&["run", "--resume", "--archive"]);
    resumed.arg(&archive).arg("--run-folder").arg(machine.path("late"));
    succeed(resumed);
}
