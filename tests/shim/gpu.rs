//! GPU figures from inside the test's process, against a fake driver that keeps what it allocates: real libraries under
//! the real names, found and called as the real ones are.
#![cfg(all(target_os = "linux", target_pointer_width = "64"))]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::gpu_laboratory::{Program, Run, laboratory, program};
use crate::laboratory::{succeed, usual_rustc};
use crate::skips::skip;

const MIB: u64 = 1 << 20;
/// What the fake driver takes for a context.
const CONTEXT: u64 = 526 * MIB;
/// What other processes use on each fake device.
const OTHERS: u64 = 3 * MIB;
/// The fake driver's pools take memory in such pieces.
const PIECE: u64 = 32 * MIB;
const UNLISTED: &str = "NVML does not list this process on the device: it has no context there, or its id is hidden, as in a container";
const FIRST: &str = "GPU-11111111-2222-3333-4444-555555555555";
const SECOND: &str = "GPU-aaaaaaaa-2222-3333-4444-555555555555";

#[test]
fn known_amounts_are_measured_to_the_byte_however_they_are_allocated() {
    let run = program("ground_truth", &[]).succeed();
    let lines: Vec<&str> = run.stdout().lines().collect();
    assert_eq!(lines.len(), 21);
    assert!(lines.iter().all(|line| line.starts_with("ok ")), "{}", run.stdout());
    assert!(run.absent().is_empty(), "{:?}", run.absent());
    // Peaks that no polling would see: all was freed before the checkpoint.
    let live = 64 * MIB + 3 * MIB + 1000;
    assert_eq!(run.figure("sync transient", "gpu.0.live"), Some(live));
    assert_eq!(run.figure("sync transient", "gpu.0.peak"), Some(live + 512 * MIB));
    assert_eq!(run.figure("threads", "gpu.0.peak"), Some(16 * MIB));
    assert_eq!(run.figure("host pinned", "gpu.host_pinned.peak"), Some(24 * MIB));
    assert_eq!(run.figure("pools freed", "gpu.0.pool.reserved"), Some(384 * MIB));
    assert_eq!(run.figure("pools trimmed", "pool.truth.reserved"), Some(0));
    assert_eq!(run.figure("pools trimmed", "pool.truth.reserved_peak"), Some(384 * MIB));
}

#[test]
fn call_stacks_add_up_to_the_figures_of_each_device_at_every_checkpoint() {
    let run = program("ground_truth", &[]).env("MEMPROF_STACKS", "headers").succeed();
    assert!(run.stdout().lines().all(|line| line.starts_with("ok ")), "{}", run.stdout());
    let mut live: BTreeMap<(String, u64), u64> = BTreeMap::new();
    let mut checked = 0;
    for line in run.of_event("interval").filter(|line| line["family"] != "heap") {
        let (family, label) = (line["family"].as_str().unwrap(), line["label"].as_str().unwrap());
        let of_family =
            |((of, site), bytes): (&(String, u64), &u64)| (of == family).then_some((*site, *bytes));
        let mut at_peak: BTreeMap<u64, u64> = live.iter().filter_map(of_family).collect();
        let numbers: Vec<u64> =
            line["sites"].as_array().unwrap().iter().map(|number| number.as_u64().unwrap()).collect();
        for site in numbers.chunks(5) {
            assert_ne!(site[0], 0, "every allocation has a call stack: {line}");
            at_peak.insert(site[0], site[1]);
            live.insert((family.to_owned(), site[0]), site[2]);
        }
        let now: u64 = live.iter().filter_map(of_family).map(|(_, bytes)| bytes).sum();
        let occurrence = &line["occurrence"];
        let is_own = |one: &&Value| one["label"] == label && &one["occurrence"] == occurrence;
        let metrics = &run.of_event("checkpoint").find(is_own).unwrap()["metrics"];
        assert_eq!(metrics[format!("{family}.peak")], at_peak.values().sum::<u64>(), "{family} at '{label}'");
        assert_eq!(metrics[format!("{family}.live")], now, "{family} at '{label}'");
        checked += usize::from(now > 0);
    }
    assert!(checked > 10, "{checked}");
}

#[test]
fn a_scope_says_what_it_consumed_on_the_device_and_how_high_it_went() {
    let run = program("ground_truth", &[]).succeed();
    let figures = run.figures("decoder");
    assert_eq!(figures["gpu.0.consumed"], 7 * MIB);
    assert_eq!(figures["gpu.0.peaked"], 100 * MIB);
    assert_eq!(figures["gpu.0.used"], 7 * MIB);
}

#[test]
fn nvml_is_asked_at_checkpoints_and_not_by_scopes() {
    let listed = laboratory().folder.join(format!("listed-{}", std::process::id()));
    let run = program("ground_truth", &[]).env("FAKE_NVML_LISTED", &listed).succeed();
    assert_eq!(run.of_event("scope").count(), 1);
    assert!(!run.figures("decoder").contains_key("gpu.0.process"));
    let of_process = |line: &&Value| line["metrics"]["gpu.0.process"].is_u64();
    let checkpoints = run.of_event("checkpoint").filter(of_process).count();
    // The program reads by itself too, once for each line that it prints; and the device is looked at when it is first seen.
    let readings = run.stdout().lines().count();
    assert_eq!(fs_err::metadata(&listed).unwrap().len(), (checkpoints + readings + 1) as u64);
    fs_err::remove_file(listed).unwrap();
}

#[test]
fn nvml_shows_the_process_the_device_and_the_context_apart() {
    let run = program("ground_truth", &[]).succeed();
    for (label, allocated) in [("context", 0), ("sync", 67 * MIB + 1000)] {
        let figures = run.figures(label);
        assert_eq!(figures["gpu.0.process"], CONTEXT + allocated, "{label}");
        assert_eq!(figures["gpu.0.device"], CONTEXT + allocated + OTHERS, "{label}");
        assert_eq!(figures["gpu.0.context"], CONTEXT, "{label}");
    }
}

#[test]
fn sources_of_metrics_that_come_late_are_logged_before_their_first_figures() {
    let run = program("ground_truth", &[]).succeed();
    let first_figures =
        run.lines.iter().position(|line| line["metrics"].get("gpu.0.live").is_some()).unwrap();
    let sources = &run.lines[first_figures - 1];
    assert_eq!(sources["event"], "sources");
    assert_eq!(sources["sources"]["gpu.0.live"], "CUPTI driver API callbacks");
    assert_eq!(sources["sources"]["gpu.0.pool.used_peak"], "CUDA driver, default memory pool");
    let named: Vec<&String> = run
        .of_event("sources")
        .chain(run.of_event("begin"))
        .flat_map(|line| line["sources"].as_object().unwrap().keys())
        .collect();
    for checkpoint in run.of_event("checkpoint") {
        for metric in checkpoint["metrics"].as_object().unwrap().keys() {
            assert!(named.contains(&metric), "{metric} has no source");
        }
    }
}

#[test]
fn a_program_without_cuda_loads_nothing_of_it() {
    let run = program("no_cuda", &[]).succeed();
    for library in ["libcuda", "libcupti", "libnvidia-ml", "libmemprof_inject"] {
        assert!(!run.stdout().contains(library), "{library} is loaded");
    }
    assert!(run.stdout().contains("no_cuda"), "the maps are those of the program");
    assert_eq!(run.absent(), [] as [&str; 0]);
    assert!(run.figures("here").is_empty());
    assert_eq!(run.of_event("sources").count(), 0);
}

#[test]
fn counting_a_device_adds_nothing_to_the_heaps_figures() {
    let counted = program("late", &["devices"]).succeed();
    let uncounted = program("late", &["devices"])
        .env_remove("CUDA_INJECTION64_PATH")
        .env("FAKE_NVML_BROKEN", "1")
        .succeed();
    let heap = |run: &Run| {
        let line = run.of_event("checkpoint").find(|line| line["label"] == "allocated").unwrap();
        ["heap.live", "heap.peak", "heap.allocated", "heap.count"]
            .map(|metric| line["metrics"][metric].clone())
    };
    assert_eq!(heap(&counted), heap(&uncounted));
    assert!(heap(&counted).iter().all(Value::is_u64));
}

#[test]
fn no_context_is_made_for_a_program_that_has_none() {
    let run = program("late", &["no-context"]).succeed();
    assert!(run.figures("no context").is_empty() && run.figures("warm up").is_empty());
    assert!(run.stdout().contains("libcuda.so.1") && !run.stdout().contains("libnvidia-ml"));
    assert_eq!(run.absent(), [] as [&str; 0]);
}

#[test]
fn a_live_kernel_has_nvmls_figure_of_each_device_in_use() {
    let crate_ = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/memprof/src/lib.rs");
    if !crate_.is_file() {
        return skip("crates/memprof is not here; it is a package of its own");
    }
    let laboratory = laboratory();
    let library = laboratory.path("libmemprof_ordinary.rlib");
    let flags = ["--crate-type", "rlib", "--crate-name", "memprof", "--edition", "2021", "-o", &library];
    succeed(usual_rustc().args(flags).arg(crate_));
    let executable = laboratory.path("kernel");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/gpu/kernel.rs");
    let library = format!("memprof={library}");
    succeed(usual_rustc().args(["--edition", "2021", "-o", &executable, "--extern", &library]).arg(source));
    let run = |variable: &str, value: &str| {
        let mut command = Command::new(&executable);
        command.env("EVCXR_IS_RUNTIME", "1").env("LD_LIBRARY_PATH", laboratory.folder.join("fake"));
        let output = command.env_remove("CUDA_INJECTION64_PATH").env(variable, value).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let shown = run("LANG", "C");
    let reason = "peak unavailable (NVML keeps no peak; `cargo memprof notebook` has it)";
    let allocated = format!("gpu 0: kept 4.00 MiB, 530 MiB at the end, {reason}");
    // In the cell's own report, and in that of all cells.
    assert_eq!(shown.matches(&allocated).count(), 2, "{shown}");
    assert!(shown.contains(&format!("gpu 0: kept 526 MiB, 526 MiB at the end, {reason}")), "{shown}");
    let broken = run("FAKE_NVML_BROKEN", "1");
    assert!(broken.contains("gpu cuda:0: unavailable (nvmlInit_v2: "), "{broken}");
}

#[test]
fn a_context_is_made_on_request() {
    let run = program("late", &["makes-context"]).succeed();
    let figures = run.figures("warm up");
    assert_eq!(figures.get("gpu.0.process"), Some(&CONTEXT), "{figures:?}");
    let stderr = String::from_utf8_lossy(&run.output.stderr).into_owned();
    assert!(
        stderr.contains("no context on cuda:9: number of CUDA devices that the process sees: 1"),
        "{stderr}"
    );
}

#[test]
fn done_has_the_figures_of_a_program_that_logs_no_checkpoint() {
    let run = program("late", &["only-done"]).succeed();
    let expected = BTreeMap::from([
        ("gpu.0.live", 6 * MIB),
        ("gpu.0.peak", 11 * MIB),
        ("gpu.0.pool.used", 2 * MIB),
        ("gpu.0.pool.used_peak", 2 * MIB),
        ("gpu.0.pool.reserved", PIECE),
        ("gpu.0.pool.reserved_peak", PIECE),
        ("gpu.0.process", CONTEXT + 4 * MIB + PIECE),
        ("gpu.0.device", CONTEXT + 4 * MIB + PIECE + OTHERS),
        ("gpu.0.context", CONTEXT),
    ]);
    assert_eq!(run.figures("done"), expected);
}

#[test]
fn an_allocation_that_was_refused_is_logged_before_the_process_dies_of_it() {
    for (which, device) in [("exhausted", Value::from(0)), ("host-exhausted", "host_pinned".into())] {
        let run = program("late", &[which]).run();
        assert!(!run.output.status.success());
        let refused = run.lines.last().unwrap();
        assert_eq!(refused["event"], "gpu_out_of_memory");
        assert_eq!(refused["device"], device);
        assert_eq!(refused["requested"], 3_u64 << 40);
        assert_eq!(refused["live"], 6 * MIB);
        assert_eq!(refused["seq"], 2);
    }
}

#[test]
fn what_ends_with_a_context_is_no_longer_live() {
    let run = program("late", &["reset"]).succeed();
    assert_eq!(run.figure("allocated", "gpu.0.live"), Some(13 * MIB));
    assert_eq!(run.figure("allocated", "gpu.host_pinned.live"), Some(MIB));
    // The program's own second context outlives the primary one's reset, and pools outlive both.
    assert_eq!(run.figure("reset", "gpu.0.live"), Some(7 * MIB));
    assert_eq!(run.figure("reset", "gpu.0.pool.used"), Some(2 * MIB));
    assert_eq!(run.figure("reset", "gpu.host_pinned.live"), Some(0));
    assert_eq!(run.figure("destroyed", "gpu.0.live"), Some(2 * MIB));
    assert_eq!(run.figure("freed", "gpu.0.live"), Some(0));
    // NVML lists a process only while it has a context, and then counts all that it holds.
    let process = |label: &str| run.figure(label, "gpu.0.process");
    assert_eq!(process("allocated"), Some(2 * CONTEXT + 11 * MIB + PIECE));
    assert_eq!(process("reset"), Some(CONTEXT + 5 * MIB + PIECE));
    assert_eq!(process("destroyed"), None, "the pool still holds memory");
    assert_eq!(run.reason("gpu.0.process"), UNLISTED);
    assert_eq!(process("freed"), Some(CONTEXT + PIECE));
}

#[test]
fn after_the_program_released_its_device_the_process_has_nothing_there() {
    let run = program("late", &["released"]).succeed();
    let process = |label: &str| run.figure(label, "gpu.0.process");
    assert_eq!(process("allocated"), Some(CONTEXT + 6 * MIB));
    assert_eq!((process("released"), process("done")), (Some(0), Some(0)));
    assert_eq!(run.absent(), [] as [&str; 0]);
}

#[test]
fn a_figure_of_the_process_that_nvml_no_longer_has_is_missing_with_nvmls_reason() {
    let state = laboratory().folder.join(format!("state-{}", std::process::id()));
    let run = program("late", &["lost"]).env("FAKE_NVML_STATE", &state).succeed();
    assert_eq!(run.figure("allocated", "gpu.0.process"), Some(CONTEXT + 6 * MIB));
    assert_eq!(run.figure("lost", "gpu.0.process"), None);
    let reason = "nvmlDeviceGetComputeRunningProcesses_v3: GPU is lost (15)";
    assert_eq!(run.reason("gpu.0.process"), reason);
    fs_err::remove_file(state).unwrap();
}

#[test]
fn a_process_without_a_context_has_its_figure_once_it_has_one() {
    let run = program("late", &["without-context"]).succeed();
    assert_eq!(run.figure("without a context", "gpu.0.live"), Some(4 * MIB));
    assert_eq!(run.figure("without a context", "gpu.0.process"), None);
    assert_eq!(run.reason("gpu.0.process"), UNLISTED);
    assert_eq!(run.reason("gpu.0.context"), "NVML did not list this process when the device was first seen");
    assert_eq!(run.figure("with a context", "gpu.0.process"), Some(CONTEXT + 4 * MIB));
}

#[test]
fn a_cupti_that_cannot_be_loaded_is_named_and_the_rest_is_measured() {
    let run = program("late", &["devices"]).env("MEMPROF_CUPTI", "/nowhere/libcupti.so.13").succeed();
    for metric in ["gpu.0.live", "gpu.0.peak"] {
        let reason = run.reason(metric);
        assert!(reason.contains("/nowhere/libcupti.so.13: cannot open shared object file"), "{reason}");
    }
    assert_eq!(
        run.reason("gpu.0.context"),
        "needs CUPTI to know what was allocated when the device was first used"
    );
    assert_eq!(run.figure("allocated", "gpu.0.process"), Some(CONTEXT + MIB));
    assert_eq!(run.figure("allocated", "gpu.0.pool.used"), Some(0));
    assert_eq!(run.figure("allocated", "gpu.0.live"), None);
}

#[test]
fn the_runners_reason_for_having_no_cupti_is_logged() {
    let reason = "libcupti.so not found (looked in CUDA_HOME, ldconfig)";
    let run = program("late", &["devices"])
        .env_remove("MEMPROF_CUPTI")
        .env_remove("CUDA_INJECTION64_PATH")
        .env("MEMPROF_CUPTI_ABSENT", reason)
        .succeed();
    assert_eq!(run.reason("gpu.0.live"), reason);
    assert_eq!(run.figure("allocated", "gpu.0.process"), Some(CONTEXT + MIB));
    // A path of the user's own that the runner could not use is inherited.
    let run = program("late", &["devices"])
        .env("MEMPROF_CUPTI", "/nowhere/libcupti.so")
        .env_remove("CUDA_INJECTION64_PATH")
        .env("MEMPROF_CUPTI_ABSENT", reason)
        .succeed();
    assert_eq!(run.reason("gpu.0.live"), reason);
}

#[test]
fn a_driver_that_loads_no_library_is_not_taken_for_one_without_allocations() {
    let run = program("late", &["devices"]).env_remove("CUDA_INJECTION64_PATH").succeed();
    assert!(run.reason("gpu.0.peak").starts_with("the CUDA driver did not load the library"));
    assert_eq!(run.figure("allocated", "gpu.0.peak"), None);
}

#[test]
fn another_tool_that_uses_cupti_keeps_it() {
    let run = program("late", &["devices"]).env("FAKE_CUPTI_TAKEN", "1").succeed();
    assert_eq!(run.reason("gpu.0.live"), "another tool in this process uses CUPTI (cuptiSubscribe: 39)");
}

#[test]
fn an_older_cupti_counts_as_long_as_it_knows_all_that_allocates() {
    let run = program("late", &["devices"]).env("FAKE_CUPTI_HIGHEST", "640").succeed();
    assert_eq!(run.figure("allocated", "gpu.0.live"), Some(MIB));
    // One from before memory pools would count too little.
    let run = program("late", &["devices"]).env("FAKE_CUPTI_HIGHEST", "590").succeed();
    let reason = "this CUPTI is too old: it does not know the driver's call 598 (1)";
    assert_eq!(run.reason("gpu.0.live"), reason);
}

#[test]
fn in_a_container_that_hides_process_ids_the_process_figure_is_absent_with_that_reason() {
    for (listed, words) in [("none", "lists no process on this device"), ("foreign", "but not this one")] {
        let run = program("late", &["devices"]).env("FAKE_NVML_PROCESSES", listed).succeed();
        assert!(run.reason("gpu.0.process").contains(words), "{}", run.reason("gpu.0.process"));
        assert_eq!(run.figure("allocated", "gpu.0.process"), None);
        assert_eq!(run.figure("allocated", "gpu.0.device"), Some(CONTEXT + MIB + OTHERS));
        assert_eq!(run.figure("allocated", "gpu.0.live"), Some(MIB));
    }
}

#[test]
fn without_nvml_a_device_is_named_by_its_uuid_and_not_by_a_number_that_another_may_have() {
    let run = program("late", &["devices"]).env("FAKE_NVML_BROKEN", "1").succeed();
    assert_eq!(run.figure("allocated", "gpu.GPU-11111111.live"), Some(MIB));
    assert_eq!(run.reason("gpu.GPU-11111111.device"), "NVML: nvmlInit_v2: Driver Not Loaded (9)");
}

#[test]
fn devices_are_those_of_nvml_whatever_numbers_the_driver_gives_them() {
    let two = format!("{FIRST},{SECOND}");
    let live = |visible: Option<&str>| {
        let program = program("late", &["devices"]).env("FAKE_GPUS", &two);
        let run = match visible {
            Some(visible) => program.env("CUDA_VISIBLE_DEVICES", visible).succeed(),
            None => program.succeed(),
        };
        let process = |device: u32| run.figure("allocated", &format!("gpu.{device}.process"));
        for device in [0, 1] {
            let live = run.figure("allocated", &format!("gpu.{device}.live"));
            assert_eq!(process(device), live.map(|live| CONTEXT + live), "NVML agrees on which device it is");
        }
        [0, 1].map(|device| run.figure("allocated", &format!("gpu.{device}.live")).map(|bytes| bytes / MIB))
    };
    // The program gives its first visible device 1 MiB and its second one 2 MiB.
    assert_eq!(live(None), [Some(1), Some(2)]);
    assert_eq!(live(Some("0")), [Some(1), None]);
    assert_eq!(live(Some("1")), [None, Some(1)]);
    assert_eq!(live(Some("1,0")), [Some(2), Some(1)]);
    assert_eq!(live(Some("GPU-aaaa")), [None, Some(1)]);
    assert_eq!(live(Some(&format!("{SECOND},{FIRST}"))), [Some(2), Some(1)]);
}

#[test]
fn of_more_devices_than_the_log_has_room_for_the_last_ones_are_absent_with_that_reason() {
    let sixteen: Vec<String> =
        (0..16).map(|device| format!("GPU-{device:08x}-2222-3333-4444-555555555555")).collect();
    let run = program("late", &["devices"]).env("FAKE_GPUS", sixteen.join(",")).succeed();
    let live = |device: u64| run.figure("allocated", &format!("gpu.{device}.live"));
    let measured: Vec<u64> = (0..16).filter(|&device| live(device) == Some((device + 1) * MIB)).collect();
    assert_eq!(measured, (0..13).collect::<Vec<_>>());
    for device in 13..16 {
        assert_eq!(live(device), None);
        let reason = run.reason(&format!("gpu.{device}.live"));
        assert_eq!(reason, "this process uses more devices than the log has room for");
    }
    let absent = run.absent();
    assert_eq!(absent.iter().filter(|metric| **metric == "gpu.13.pool.used").count(), 1, "{absent:?}");
}

#[test]
fn a_part_of_a_device_stands_under_the_whole_ones_number_and_says_so() {
    let part = "MIG-bbbbbbbb-2222-3333-4444-555555555555";
    let run = program("late", &["devices"])
        .env("FAKE_GPUS", format!("{FIRST},{part}"))
        .env("CUDA_VISIBLE_DEVICES", part)
        .succeed();
    assert_eq!(run.figure("allocated", "gpu.1.live"), Some(MIB));
    let sources = run.of_event("sources").next().unwrap();
    let source = sources["sources"]["gpu.1.live"].as_str().unwrap();
    assert_eq!(source, "CUPTI driver API callbacks, for a part of the device (MIG)");
}

#[test]
fn tensors_are_named_by_cudas_numbers_and_the_log_says_which_device_of_the_metrics_each_is() {
    let run = program("late", &["tensors"])
        .env("FAKE_GPUS", format!("{FIRST},{SECOND}"))
        .env("CUDA_VISIBLE_DEVICES", format!("{SECOND},{FIRST}"))
        .succeed();
    let devices: Vec<&Value> = run.of_event("cuda_device").collect();
    let [device] = devices[..] else { panic!("the one in use, once: {devices:?}") };
    assert_eq!((&device["ordinal"], &device["device"]), (&Value::from(0), &Value::from("1")));
    let place = |label: &str| run.lines.iter().position(|line| line["label"] == label).unwrap();
    let told = run.lines.iter().position(|line| line == device).unwrap();
    assert!(place("not in use yet") < told && told < place("allocated"));
    let lines: Vec<String> = run.lines.iter().map(Value::to_string).collect();
    let text = lines.join("\n");
    let measurement = memprof_judge::results::shim_log::read(text.as_bytes(), "log.jsonl").unwrap();
    let side = memprof_judge::compare::tensor_comparison::TensorSide::new(&[&measurement]).unwrap();
    let rest = |label: &str, ordinal: u32| {
        let place = side.place(label, 1).unwrap();
        let figures =
            side.figures_at(place, &memprof_judge::results::tensor_record::TensorDevice::Cuda(ordinal));
        figures.unattributed().ok_or_else(|| figures.live.unwrap_err())
    };
    let place_of_allocated = side.place("allocated", 1).unwrap();
    let unnamed =
        side.unnamed_at(place_of_allocated, &memprof_judge::results::tensor_record::TensorDevice::Cuda(0));
    let unnamed = unnamed.unwrap();
    assert_eq!((unnamed.count, unnamed.bytes, unnamed.without_block), (1, 3 * MIB, 1));
    let mib = i128::from(MIB);
    assert_eq!(rest("allocated", 0), Ok(2 * mib));
    assert_eq!(rest("allocated", 1), Err("CUDA device 1 was not measured".to_owned()));
    assert_eq!(rest("not in use yet", 0), Err("gpu.1.live has no reading at this checkpoint".to_owned()));
}

#[test]
fn memory_of_a_stream_or_pool_of_another_device_is_counted_on_that_one() {
    let two = format!("{FIRST},{SECOND}");
    let run = program("late", &["stream-of-another"]).env("FAKE_GPUS", two).succeed();
    assert_eq!(run.figure("allocated", "gpu.0.live"), Some(0));
    assert_eq!(run.figure("allocated", "gpu.1.live"), Some(7 * MIB));
    assert_eq!(run.figure("allocated", "gpu.1.pool.used"), Some(3 * MIB));
}

#[test]
fn the_drivers_pool_has_a_frameworks_name_too_and_trimming_makes_no_context() {
    let run = program("late", &["pools"]).succeed();
    assert!(run.figures("not in use yet").is_empty());
    assert_framework_has_the_drivers_pool(&run);
}

#[test]
fn traced_calls_leave_the_peaks_of_the_drivers_pool_to_checkpoints_and_scopes() {
    let run = program("late", &["pools-traced"]).succeed();
    assert!(run.of_event("calls").any(|line| line["label"] == "late::traced"));
    assert_framework_has_the_drivers_pool(&run);
}

fn assert_framework_has_the_drivers_pool(run: &Run) {
    let of_pool = |label: &str| {
        ["in_use", "in_use_peak", "reserved", "reserved_peak"]
            .map(|metric| run.figure(label, &format!("pool.framework.{metric}")).map(|bytes| bytes / MIB))
    };
    let of_device = |label: &str| {
        ["used", "used_peak", "reserved", "reserved_peak"]
            .map(|metric| run.figure(label, &format!("gpu.0.pool.{metric}")).map(|bytes| bytes / MIB))
    };
    assert_eq!(of_pool("allocated"), [40, 140, 160, 160].map(Some));
    assert_eq!(of_pool("trimmed"), [43, 47, 64, 160].map(Some));
    for label in ["not in use yet", "allocated", "trimmed", "done"] {
        assert_eq!(of_pool(label), of_device(label), "{label}");
    }
    let scope = run.figures("scope");
    let figures = ["consumed", "peaked", "used"].map(|part| scope[format!("pool.framework.{part}").as_str()]);
    assert_eq!(figures.map(|bytes| bytes / MIB), [3, 4, 43]);
    let sources = run.of_event("sources").find_map(|line| line["sources"].get("pool.framework.in_use_peak"));
    assert_eq!(sources.unwrap(), "CUDA driver, default memory pool (exact)");
}

#[test]
fn a_checkpoint_waits_for_a_device_in_use_unless_told_not_to() {
    let waits = |program: Program| program.succeed().stdout().trim().to_owned();
    assert_eq!(waits(program("late", &["not-current"])), "1");
    assert_eq!(waits(program("late", &["not-current"]).env("MEMPROF_SYNC", "0")), "0");
}

#[test]
fn a_checkpoint_waits_for_each_context_of_a_device_once() {
    assert_eq!(program("late", &["own-context"]).succeed().stdout().trim(), "2 1");
}

/// For a blocking stream, another one and a thread's own: whether captures of it stay valid.
fn valid_captures(program: Program) -> Vec<bool> {
    let run = program.succeed();
    let valid: Vec<&str> = run.stdout().split_whitespace().collect();
    assert_eq!(valid.len(), 36, "{}", run.stdout());
    valid.chunks(12).map(|of_stream| of_stream.iter().all(|valid| *valid == "true")).collect()
}

#[test]
fn whatever_is_measured_leaves_a_graph_that_is_being_recorded_valid() {
    assert_eq!(valid_captures(program("late", &["capture"])), [true, true, true]);
    let does_not_wait = program("late", &["capture"]).env("MEMPROF_SYNC", "0");
    assert_eq!(valid_captures(does_not_wait), [true, true, true]);
}

#[test]
fn without_cupti_only_captures_of_blocking_streams_are_known() {
    let without = |program: Program| program.env_remove("CUDA_INJECTION64_PATH");
    assert_eq!(valid_captures(without(program("late", &["capture"]))), [true, false, true]);
    let does_not_wait = without(program("late", &["capture"])).env("MEMPROF_SYNC", "0");
    assert_eq!(valid_captures(does_not_wait), [true, true, true]);
}

#[test]
fn a_checkpoint_waits_again_after_a_capture_however_it_ended() {
    assert_eq!(program("late", &["captures-end"]).succeed().stdout().trim(), "0 1 1 1 1");
}

#[test]
fn a_program_that_the_test_starts_is_not_counted() {
    let run = program("late", &["parent"]).succeed();
    // The driver's variable is inherited, and the library it names does nothing there.
    assert!(run.stdout().contains("libmemprof_inject.so"), "the child's driver loads the library");
    assert!(!run.stdout().contains("libcupti"), "but the library does not load CUPTI");
    assert_eq!(run.lines.iter().filter(|line| line["label"] == "in the child").count(), 0);
    assert_eq!(run.figure("done", "gpu.0.live"), None);
}

#[test]
fn the_line_for_people_has_the_gpus() {
    let stderr = |program: Program| {
        String::from_utf8(program.env("MEMPROF_PRINT", "1").succeed().output.stderr).unwrap()
    };
    let one = stderr(program("late", &["devices"]));
    assert!(one.starts_with("allocated: GPU: 0.515GB CPU: 0.0"), "{one}");
    let two = stderr(program("late", &["devices"]).env("FAKE_GPUS", format!("{FIRST},{SECOND}")));
    assert!(two.starts_with("allocated: GPU 0: 0.515GB GPU 1: 0.516GB CPU: 0.0"), "{two}");
    let none = stderr(program("no_cuda", &[]));
    assert!(none.contains("here: CPU: 0.0"), "{none}");
}

#[test]
fn a_process_with_drm_but_no_device_open_has_no_figures_of_one() {
    let preload = laboratory().folder.join("fake/libdrm.so.2");
    let run = program("no_cuda", &[]).env("LD_PRELOAD", preload).succeed();
    assert!(run.stdout().contains("libdrm.so.2"));
    assert!(run.figures("here").is_empty());
}
