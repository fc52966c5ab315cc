//! `yield` and `restore` with a fake driver: consent, refusals, the order of the calls, and what a killed run leaves.
#![cfg(all(target_os = "linux", target_pointer_width = "64"))]

use std::os::unix::process::{CommandExt, ExitStatusExt};

use memprof_gpu::nvml::ProcessIds;

use crate::support::Printed;
use crate::support::courtesy::{Guest, Machine};
use crate::support::skips::skip;

const SIGKILL: i32 = 9;

/// Expects success.
fn success(printed: Printed) -> String {
    assert_eq!(printed.code, 0, "{}", printed.everything());
    printed.stdout
}

/// Expects a refusal with this text, and that nothing changed.
#[track_caller]
fn refused(machine: &Machine, arguments: &[&str], text: &str) {
    let printed = machine.memprof(arguments);
    assert_eq!(printed.code, 2, "{}", printed.everything());
    assert!(printed.stderr.contains(text), "{}", printed.everything());
    assert_eq!(machine.calls(), [] as [&str; 0]);
    assert_eq!(machine.notes().len(), 0);
}

fn id(guest: &Guest) -> String {
    guest.id().to_string()
}

#[test]
fn a_named_process_is_set_aside_and_restored_in_the_drivers_order() {
    let machine = Machine::new();
    let guest = machine.guest(60, &[]);
    let printed = success(machine.memprof(&["yield", &id(&guest)]));
    assert_eq!(machine.calls(), ["lock", "checkpoint"]);
    assert_eq!(machine.state(&guest), "2");
    assert!(printed.starts_with(&format!("set aside process {} (sleep), ", guest.id())), "{printed}");
    assert!(printed.contains("\nGPU 0: 60.0 MiB were in use, now 0 B\n"), "{printed}");
    assert!(printed.ends_with(&format!("to restore: cargo memprof restore {}\n", guest.id())), "{printed}");
    let doctor = machine.memprof(&["doctor"]).stdout;
    let squeezed = doctor.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(squeezed.contains(&format!("set aside process {} (sleep), ", guest.id())), "{doctor}");
    assert!(
        squeezed.contains(&format!("help: to restore it: cargo memprof restore {}", guest.id())),
        "{doctor}"
    );
    assert!(squeezed.contains("(cargo memprof yield"), "{doctor}");

    let printed = success(machine.memprof(&["restore"]));
    assert_eq!(machine.calls(), ["restore", "unlock"]);
    assert_eq!(machine.state(&guest), "0");
    assert!(printed.starts_with(&format!("restored process {} (sleep) … ", guest.id())), "{printed}");
    assert_eq!(machine.notes().len(), 0);
    assert_eq!(success(machine.memprof(&["restore"])), "nothing is set aside\n");
}

#[test]
fn on_a_device_only_processes_that_opted_in_are_taken() {
    if ProcessIds::here() == ProcessIds::Containers {
        return skip("the fake NVML's process ids are not believed in a container");
    }
    let machine = Machine::new();
    let consenting = machine.guest(100, &[("MEMPROF_COURTESY", "1")]);
    let other = machine.guest(200, &[]);
    let printed = machine.memprof(&["yield", "--device", "0"]);
    let said = format!(
        "warning: process {0} (sleep) is not set aside: it has not opted in (MEMPROF_COURTESY=1 in its environment)\n  \
         help: cargo memprof yield {0}\n",
        other.id()
    );
    assert!(printed.stderr.contains(&said), "{}", printed.everything());
    let taken = success(printed);
    assert!(taken.contains("100 MiB of GPU 0 … "), "{taken}");
    assert_eq!((machine.state(&consenting), machine.state(&other)), ("2".into(), "0".into()));
    success(machine.memprof(&["restore", &id(&consenting)]));
    drop((consenting, machine.calls()));
    refused(&machine, &["yield", "--device", "0"], "no process on GPU 0 can be set aside (see above)");
}

#[test]
fn what_cannot_be_set_aside_is_refused_before_anything_changes() {
    let machine = Machine::new();
    let fine = machine.guest(10, &[]);
    let plain = Machine::plain(&[]);
    let profiled = machine.guest(10, &[("CUDA_INJECTION64_PATH", "/opt/nsys.so")]);
    let mut gone = machine.guest(10, &[]);
    gone.end();
    let both = |other: &str| ["yield".to_owned(), id(&fine), other.to_owned()];
    for (other, text) in [
        (
            id(&plain),
            "cannot be set aside: it does not use CUDA (cuCheckpointProcessGetState: CUDA_ERROR_INVALID_VALUE (1))",
        ),
        (id(&profiled), "it runs under a profiler (CUDA_INJECTION64_PATH=/opt/nsys.so)"),
        (id(&gone), "there is no process"),
    ] {
        let arguments = both(&other);
        refused(&machine, &arguments.each_ref().map(String::as_str), text);
    }
    let huge = machine.guest(1 << 40, &[]);
    refused(&machine, &["yield", &id(&huge)], "too little host memory: setting aside takes ");
    let mut another_users = Machine::new();
    another_users.old_driver = true;
    let guest = another_users.guest(10, &[]);
    refused(
        &another_users,
        &["yield", &id(&guest)],
        "cannot set GPU memory aside: it has no cuCheckpointProcessLock",
    );
}

#[test]
fn a_process_that_could_not_be_restored_is_not_set_aside() {
    let machine = Machine::new();
    let guest = machine.guest(10, &[]);
    let said = "cannot be set aside, because it could not be restored: NVML shows no GPU";
    for (name, value) in [("FAKE_NVML_BROKEN", "1"), ("MEMPROF_NVML", "/nowhere/libnvidia-ml.so.1")] {
        let mut tool = machine.tool(&["yield", &id(&guest)]);
        tool.env(name, value);
        let printed = Printed::of(tool);
        assert_eq!(printed.code, 2, "{}", printed.everything());
        assert!(printed.stderr.contains(said), "{}", printed.everything());
        assert_eq!((machine.calls().len(), machine.notes().len()), (0, 0));
    }
}

#[test]
fn a_process_of_another_user_is_refused() {
    if !rustix::process::geteuid().is_root() {
        return skip("only root can start a process of another user");
    }
    let machine = Machine::new();
    let mut command = std::process::Command::new("sleep");
    let guest = Guest(command.arg("600").uid(65534).spawn().unwrap());
    machine.set(&id(&guest), "0");
    refused(&machine, &["yield", &id(&guest)], "it belongs to user 65534, and this is user 0");
    machine.set(&id(&guest), "2");
    refused(&machine, &["restore", &id(&guest)], "cannot be restored: it belongs to user 65534");
}

#[test]
fn if_one_of_several_fails_the_others_are_restored() {
    let machine = Machine::new();
    let (first, second) = (machine.guest(10, &[]), machine.guest(20, &[]));
    machine.set("failures", &format!("checkpoint {} 801\n", second.id()));
    let printed = machine.memprof(&["yield", &id(&second), &id(&first)]);
    assert_eq!(printed.code, 2, "{}", printed.everything());
    assert!(
        printed
            .stderr
            .contains("was not set aside: cuCheckpointProcessCheckpoint: CUDA_ERROR_NOT_SUPPORTED (801)")
    );
    assert_eq!((machine.state(&first), machine.state(&second)), ("0".into(), "0".into()));
    assert_eq!(machine.notes().len(), 0);
}

#[test]
fn a_second_yield_names_the_first() {
    let machine = Machine::new();
    let guest = machine.guest(10, &[]);
    success(machine.memprof(&["yield", &id(&guest)]));
    let printed = machine.memprof(&["yield", &id(&guest)]);
    assert_eq!(printed.code, 2);
    assert!(printed.stderr.contains("cannot be set aside: it already is, since 2"), "{}", printed.stderr);
    assert!(
        printed.stderr.contains(&format!("help: cargo memprof restore {}", guest.id())),
        "{}",
        printed.stderr
    );
}

#[test]
fn a_restore_that_fails_keeps_the_note_and_works_later() {
    let machine = Machine::new();
    let guest = machine.guest(10, &[]);
    success(machine.memprof(&["yield", &id(&guest)]));
    machine.set("failures", &format!("restore {} 2\n", guest.id()));
    let printed = machine.memprof(&["restore"]);
    assert_eq!(printed.code, 2);
    let said = "could not be restored, and may have lost its GPU data: cuCheckpointProcessRestore: \
                CUDA_ERROR_OUT_OF_MEMORY (2); after this, the driver may refuse every later restore with \
                CUDA_ERROR_OPERATING_SYSTEM (304)\n";
    assert!(printed.stderr.contains(said), "{}", printed.everything());
    assert_eq!(machine.notes().len(), 1);
    machine.set("failures", &format!("restore {} 304\n", guest.id()));
    let printed = machine.memprof(&["restore"]);
    assert_eq!(printed.code, 2);
    let said = "may have lost its GPU data: cuCheckpointProcessRestore: CUDA_ERROR_OPERATING_SYSTEM (304); the driver \
                also says this after a restore that ran out of memory (CUDA_ERROR_OUT_OF_MEMORY)\n";
    assert!(printed.stderr.contains(said), "{}", printed.everything());
    let help = format!("if that fails, end it: kill -9 {}\n", guest.id());
    assert!(printed.stderr.ends_with(&help), "{}", printed.everything());
    assert!(!printed.stderr.contains("safe"), "{}", printed.everything());
    machine.unset("failures");
    success(machine.memprof(&["restore"]));
    assert_eq!((machine.state(&guest), machine.notes().len()), ("0".into(), 0));
}

#[test]
fn without_room_the_drivers_restore_is_not_called() {
    let machine = Machine::new();
    let (guest, other) = (machine.guest(300, &[]), machine.guest(100, &[]));
    success(machine.memprof(&["yield", &id(&guest)]));
    machine.calls();
    // The device has 64 GiB. 300 MiB and 1 GiB must be free.
    let mut hog = machine.guest((64 << 10) - 100 - 1324 + 1, &[]);
    let printed = machine.memprof(&["restore", &id(&guest)]);
    assert_eq!(printed.code, 2, "{}", printed.everything());
    assert_eq!(machine.calls(), [] as [&str; 0]);
    assert_eq!((machine.state(&guest).as_str(), machine.notes().len()), ("2", 1));
    let said = format!(
        "error: process {} (sleep) is not restored, because GPU 0 may have no room: 1.29 GiB are free, and it needs \
         1.29 GiB (300 MiB that it held, and 1.00 GiB in reserve); in use by process {}",
        guest.id(),
        hog.id()
    );
    assert!(printed.stderr.contains(&said), "{}", printed.everything());
    assert!(printed.stderr.contains(&format!("process {}", other.id())), "{}", printed.everything());
    let help = format!("\n  help: free memory, then: cargo memprof restore {}\n", guest.id());
    assert!(printed.stderr.ends_with(&help), "{}", printed.everything());

    hog.end();
    let state = fs_err::read_to_string(machine.path("state")).unwrap();
    let hogs = format!(" {} ", hog.id());
    let rest: Vec<&str> = state.lines().filter(|line| !line.contains(&hogs)).collect();
    fs_err::write(machine.path("state"), rest.join("\n")).unwrap();
    success(machine.memprof(&["restore"]));
    assert_eq!(machine.calls(), ["restore", "unlock"]);
    assert_eq!((machine.state(&guest).as_str(), machine.notes().len()), ("0", 0));
}

#[test]
fn two_processes_that_filled_a_device_are_both_restored() {
    let machine = Machine::new();
    let on_a_small_device = |arguments: &[&str]| {
        let mut tool = machine.tool(arguments);
        tool.env("FAKE_GPU_MEMORY", (600_u64 << 20).to_string());
        Printed::of(tool)
    };
    let (first, second) = (machine.guest(350, &[]), machine.guest(240, &[]));
    let ids = [id(&first), id(&second)];
    for of_names in [&[][..], &[ids[0].as_str(), &ids[1]]] {
        success(on_a_small_device(&["yield", &ids[0], &ids[1]]));
        assert_eq!(machine.notes().len(), 2);
        success(on_a_small_device(&[&["restore"], of_names].concat()));
        assert_eq!((machine.state(&first), machine.state(&second)), ("0".into(), "0".into()));
    }
    // A third one fails while both are set aside.
    let third = machine.guest(5, &[]);
    let third_id = id(&third);
    machine.set("failures", &format!("checkpoint {third_id} 801\n"));
    let printed = on_a_small_device(&["yield", &ids[0], &ids[1], &third_id]);
    assert_eq!((printed.code, machine.notes().len()), (2, 0), "{}", printed.everything());
    assert_eq!((machine.state(&first), machine.state(&second)), ("0".into(), "0".into()));
}

#[test]
fn a_process_that_another_program_set_aside_needs_room_for_its_host_memory() {
    let machine = Machine::new();
    let guest = machine.guest(0, &[]);
    machine.set(&id(&guest), "2");
    // Less is free than the reserve.
    let _hog = machine.guest((64 << 10) - 1000, &[]);
    let printed = machine.memprof(&["restore", &id(&guest)]);
    assert_eq!(printed.code, 2, "{}", printed.everything());
    assert!(printed.stderr.contains("GPU 0 may have no room: 0.98 GiB are free"), "{}", printed.everything());
    assert_eq!(machine.calls(), [] as [&str; 0]);
}

#[test]
fn ctrl_c_during_yield_restores_and_says_nothing_of_runs() {
    let machine = Machine::new();
    let (first, second) = (machine.guest(10, &[]), machine.guest(20, &[]));
    machine.set("interrupts", "after checkpoint\n");
    let printed = machine.memprof(&["yield", &id(&first), &id(&second)]);
    assert_eq!(printed.code, 130, "{}", printed.everything());
    assert!(
        printed.stderr.contains("error: interrupted; nothing is set aside\n"),
        "{}",
        printed.everything()
    );
    assert!(!printed.stderr.contains("resume"), "{}", printed.everything());
    assert_eq!(machine.calls(), ["lock", "checkpoint", "restore", "unlock"]);
    assert_eq!(machine.notes().len(), 0);
}

#[test]
fn a_kill_between_any_two_calls_leaves_what_restore_can_finish() {
    for (when, state, undoing) in [
        ("before lock", "0", &[][..]),
        ("after lock", "1", &["unlock"]),
        ("before checkpoint", "1", &["unlock"]),
        ("after checkpoint", "2", &["restore", "unlock"]),
    ] {
        let machine = Machine::new();
        let guest = machine.guest(10, &[]);
        machine.set("kills", &format!("{when}\n"));
        let killed = machine.tool(&["yield", &id(&guest)]).status().unwrap();
        assert_eq!(killed.signal(), Some(SIGKILL), "{when}");
        assert_eq!((machine.state(&guest).as_str(), machine.notes().len()), (state, 1), "{when}");
        machine.unset("kills");
        machine.calls();
        let doctor = machine.memprof(&["doctor"]).stdout.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(doctor.contains("which was killed"), "{doctor}");
        success(machine.memprof(&["restore"]));
        assert_eq!(machine.calls(), undoing, "{when}");
        assert_eq!((machine.state(&guest).as_str(), machine.notes().len()), ("0", 0), "{when}");
    }
    for (when, state, rest) in [
        ("after restore", "1", &["unlock"][..]),
        ("before unlock", "1", &["unlock"]),
        ("after unlock", "0", &[]),
    ] {
        let machine = Machine::new();
        let guest = machine.guest(10, &[]);
        success(machine.memprof(&["yield", &id(&guest)]));
        machine.set("kills", &format!("{when}\n"));
        let killed = machine.tool(&["restore"]).status().unwrap();
        assert_eq!(killed.signal(), Some(SIGKILL), "{when}");
        assert_eq!((machine.state(&guest).as_str(), machine.notes().len()), (state, 1), "{when}");
        machine.unset("kills");
        machine.calls();
        success(machine.memprof(&["restore"]));
        assert_eq!(
            (machine.calls(), machine.notes().len()),
            (rest.iter().map(ToString::to_string).collect(), 0),
            "{when}"
        );
    }
}

#[test]
fn the_note_of_an_ended_process_never_touches_the_next_with_its_id() {
    let machine = Machine::new();
    let mut guest = machine.guest(10, &[]);
    success(machine.memprof(&["yield", &id(&guest)]));
    let note = machine.notes().remove(0);
    let text = fs_err::read_to_string(&note).unwrap();
    guest.end();
    // The next process with this id is another one: only the start tells them apart.
    let other = machine.guest(10, &[]);
    machine.set(&id(&other), "2");
    let reused =
        text.replace(&format!("\"process\": {}", guest.id()), &format!("\"process\": {}", other.id()));
    let name = note.file_name().unwrap().to_str().unwrap().replace(&id(&guest), &id(&other));
    fs_err::remove_file(&note).unwrap();
    fs_err::write(note.with_file_name(name), reused).unwrap();
    machine.calls();
    assert_eq!(success(machine.memprof(&["restore"])), "nothing is set aside\n");
    assert_eq!(machine.calls(), [] as [&str; 0]);
    assert_eq!(machine.state(&other), "2");
}

#[test]
fn a_note_without_a_holder_is_restored_by_name_only_for_own_processes() {
    let machine = Machine::new();
    let guest = machine.guest(10, &[]);
    refused(&machine, &["restore", &id(&guest)], "(sleep) is not set aside");
    machine.set(&id(&guest), "2");
    success(machine.memprof(&["restore", &id(&guest)]));
    assert_eq!(machine.calls(), ["restore", "unlock"]);
}
