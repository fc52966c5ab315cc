//! The whole program on a machine with GPUs that a fake NVML, CUPTI and driver make up: real libraries under the real
//! names. What others do on the devices stands in a file that the fake NVML reads at each call.
#![cfg(all(target_os = "linux", target_pointer_width = "64"))]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::support::{TestRepository, home_at, isolated};
use camino::Utf8Path;
use memprof_gpu::devices::CudaDevice;
use memprof_gpu::locks;
use memprof_support::event::Event;
use memprof_support::file_lock::{Lock, WhenHeld};
use serde_json::Value;

pub(crate) const MIB: u64 = 1 << 20;
pub(crate) const FIRST: &str = "GPU-11111111-2222-3333-4444-555555555555";
pub(crate) const SECOND: &str = "GPU-aaaaaaaa-2222-3333-4444-555555555555";
const PART: &str = "MIG-bbbbbbbb-2222-3333-4444-555555555555";

/// The libraries, and a repository of two revisions of a package whose tests use a GPU.
pub(crate) struct Workshop {
    libraries: PathBuf,
    repository: TestRepository,
}

impl Workshop {
    /// An archive of one test at both revisions. They are built once.
    pub(crate) fn archive(&self, test: &str) -> PathBuf {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let archive = self.repository.beside(&format!("{test}-{number}.tar.zst"));
        let mut command = self.repository.memprof();
        command
            .args([
                "build",
                "--refs",
                "old,new",
                "-k",
                test,
                "--repeat",
                "1",
                "--threshold",
                "*=off",
                "--archive",
            ])
            .arg(&archive)
            .assert()
            .success();
        archive
    }
}

const TESTS: &str = r#"
mod driver;

/// What a process that is about to end leaves on the device, as the fake NVML is to show it.
fn leave(milliseconds: u128) {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis();
    let line = format!("GPU-11111111-2222-3333-4444-555555555555 hidden 1073741824 until {}\n", now + milliseconds);
    std::fs::write(std::env::var("FAKE_NVML_STATE").unwrap(), line).unwrap();
}

fn memory_left_by_others() -> bool {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis();
    let state = std::fs::read_to_string(std::env::var("FAKE_NVML_STATE").unwrap()).unwrap_or_default();
    let end = state.trim().rsplit(' ').next().and_then(|end| end.parse::<u128>().ok());
    end.is_some_and(|end| now < end)
}

fn use_gpu() {
    let driver = driver::Driver::load().expect("a driver");
    driver.use_device(0);
    driver.allocate(5 << 20);
}

#[test]
fn uses_gpu() {
    use_gpu();
}

#[test]
fn leaves_memory_for_a_moment() {
    assert!(!memory_left_by_others(), "what the run before left is still here");
    use_gpu();
    leave(1200);
}

#[test]
fn leaves_memory_for_long() {
    use_gpu();
    leave(3_600_000);
}

#[test]
fn uses_none() {
    leave(3_600_000);
}

fn waits_for(name: &str) -> bool {
    let place = std::path::PathBuf::from(std::env::var("MEETING_PLACE").unwrap());
    let begin = std::time::Instant::now();
    while begin.elapsed() < std::time::Duration::from_secs(60) {
        if place.join(name).exists() {
            return true;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    false
}

/// Passes only if the other one runs at the same time.
fn meets(own: &str, other: &str) {
    use_gpu();
    let place = std::env::var_os("MEETING_PLACE").map(std::path::PathBuf::from);
    let Some(place) = place else { return };
    let revision = include_str!("../../revision.txt");
    std::fs::write(place.join(format!("{own}-{revision}")), "").unwrap();
    assert!(waits_for(&format!("{other}-{revision}")), "{other} does not run");
}

#[test]
fn spread_a() {
    meets("a", "b");
}

#[test]
fn spread_b() {
    meets("b", "a");
}

/// Breaks the first device, but not the second one.
#[test]
fn loses_device() {
    let device = std::env::var("CUDA_VISIBLE_DEVICES").unwrap();
    if device.starts_with("GPU-1111") {
        std::fs::write(std::env::var("FAKE_NVML_STATE").unwrap(), format!("{device} lost\n")).unwrap();
        panic!("the device is gone");
    }
    use_gpu();
}

#[test]
fn counts_devices() {
    let driver = driver::Driver::load().expect("a driver");
    println!("devices: {}", driver.device_count());
}
"#;

pub(crate) fn workshop() -> &'static Workshop {
    static WORKSHOP: OnceLock<Workshop> = OnceLock::new();
    WORKSHOP.get_or_init(|| {
        let libraries = Path::new(env!("CARGO_TARGET_TMPDIR")).join("gpu-machine");
        fs::create_dir_all(&libraries).unwrap();
        for (name, file) in
            [("cuda", "libcuda.so.1"), ("cupti", "libcupti.so.13"), ("nvml", "libnvidia-ml.so.1")]
        {
            let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("fixtures/gpu/fake_{name}.rs"));
            let output = Command::new("rustc")
                .args(["--edition", "2021", "--crate-type", "cdylib", "-C"])
                .arg(format!("link-arg=-Wl,-soname,{file}"))
                .arg("-o")
                .arg(libraries.join(file))
                .arg(source)
                .output()
                .unwrap();
            assert!(output.status.success(), "{}", text(&output.stderr));
        }
        let mut repository = TestRepository::new();
        repository.write("Cargo.toml", "[package]\nname = 'subject'\nversion = '0.1.0'\nedition = '2021'\n");
        repository.write(".gitignore", "/target\nCargo.lock\n");
        repository.write("src/lib.rs", "");
        repository.write("tests/gpu/main.rs", TESTS);
        let driver = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/gpu/driver.rs");
        repository.write("tests/gpu/driver.rs", fs::read(driver).unwrap());
        for revision in ["old", "new"] {
            repository.write("revision.txt", revision);
            repository.commit(revision);
            repository.git(["tag", revision]);
        }
        Workshop { libraries, repository: repository.until_exit() }
    })
}

/// A machine with GPUs, on which archives run.
pub(crate) struct Machine {
    folder: tempfile::TempDir,
}

impl Machine {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Says what others have on the devices: lines of the file that the fake NVML reads.
    pub(crate) fn others(&self, lines: &[String]) -> &Self {
        fs::write(self.path("state"), lines.concat()).unwrap();
        self
    }

    /// The program here, with two devices unless the test says otherwise.
    pub(crate) fn memprof(&self, arguments: &[&str]) -> Command {
        let libraries = &workshop().libraries;
        let mut command = isolated(assert_cmd::cargo::cargo_bin("cargo-memprof"));
        for variable in ["CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "CUDA_INJECTION64_PATH"] {
            command.env_remove(variable);
        }
        command
            .env("LD_LIBRARY_PATH", libraries)
            .env("MEMPROF_NVML", libraries.join("libnvidia-ml.so.1"))
            .env("MEMPROF_CUPTI", libraries.join("libcupti.so.13"))
            .env("MEMPROF_DEVICE_LOCKS", self.path("locks"))
            .env("FAKE_GPUS", format!("{FIRST},{SECOND}"))
            .env("FAKE_NVML_STATE", self.path("state"))
            .env("CARGO_MEMPROF_HOME", home_at(self.path("cache")))
            .current_dir(self.folder.path())
            .args(arguments);
        command
    }

    /// Runs one test at both revisions, built elsewhere.
    pub(crate) fn run(&self, test: &str, arguments: &[&str]) -> Command {
        self.of_archive(&workshop().archive(test), arguments)
    }

    /// Runs the tests of an archive.
    pub(crate) fn of_archive(&self, archive: &Path, arguments: &[&str]) -> Command {
        let mut command = self.memprof(&["run", "--format", "csv", "--metrics", "gpu.*", "--archive"]);
        command.arg(archive).arg("--run-folder").arg(self.path("run")).args(arguments);
        command
    }

    /// What became of the run at each revision.
    pub(crate) fn outcomes(&self) -> Vec<Value> {
        let cells = walkdir::WalkDir::new(self.path("run/cells")).sort_by_file_name().into_iter().flatten();
        let files = cells.filter(|entry| entry.file_name() == "outcome.json");
        files.map(|entry| serde_json::from_slice(&fs::read(entry.path()).unwrap()).unwrap()).collect()
    }

    /// What the test of each run printed.
    pub(crate) fn stdouts(&self) -> Vec<String> {
        stdouts(&self.path("run/cells"))
    }

    /// The marks of each run.
    pub(crate) fn marks(&self) -> Vec<Vec<String>> {
        let words = |marks: &Value| marks.as_array().cloned().unwrap_or_default();
        let marks = |outcome: &Value| {
            words(&outcome["marks"]).iter().map(|mark| mark.as_str().unwrap().to_owned()).collect()
        };
        self.outcomes().iter().map(marks).collect()
    }

    pub(crate) fn lock(&self, place: &CudaDevice) -> Lock {
        let folder = self.path("locks");
        let folder = Utf8Path::from_path(&folder).unwrap();
        let never = AtomicBool::new(false);
        Lock::acquire(&locks::lock_file(folder, place), WhenHeld::Fail, &never, &|_: Event| {}).unwrap()
    }
}

fn stdouts(cells: &Path) -> Vec<String> {
    let files =
        walkdir::WalkDir::new(cells).into_iter().flatten().filter(|entry| entry.file_name() == "stdout");
    files.map(|entry| fs::read_to_string(entry.path()).unwrap()).collect()
}

pub(crate) fn place(index: u32, uuid: &str) -> CudaDevice {
    CudaDevice { index, part: None, uuid: uuid.to_owned() }
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[track_caller]
pub(crate) fn succeed(mut command: Command) -> Output {
    let output = command.output().expect("the program starts");
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{stdout}\n{stderr}");
    output
}

/// The values of a metric at `done`, of all runs.
pub(crate) fn values(csv: &[u8], metric: &str) -> Vec<u64> {
    let mut reader = csv::Reader::from_reader(csv);
    let rows = reader.records().map(|row| row.expect("the report is CSV"));
    rows.filter(|row| &row[8] == "done" && &row[10] == metric)
        .map(|row| row[12].parse().expect("a figure"))
        .collect()
}

/// A line of the fake NVML's file: a process, or `hidden`, with some MiB.
pub(crate) fn line(device: &str, process: impl std::fmt::Display, mebibytes: u64) -> String {
    format!("{device} {process} {}\n", mebibytes * MIB)
}

#[test]
fn a_device_that_a_run_had_to_itself_is_not_spoken_of() {
    let machine = Machine::new();
    // What others do on a device that the test does not use is no concern of its figures.
    machine.others(&[line(SECOND, 4_000_001, 300)]);
    let output = succeed(machine.run("uses_gpu", &[]));
    assert_eq!(machine.marks(), [[] as [&str; 0]; 2]);
    assert_eq!(values(&output.stdout, "gpu.0.device"), [526 * MIB + 5 * MIB; 2]);
    assert_eq!(values(&output.stdout, "gpu.0.live"), [5 * MIB; 2]);
    let stderr = text(&output.stderr);
    let warnings =
        stderr.lines().filter(|line| line.starts_with("warning") && !line.contains("CARGO_MANIFEST_DIR"));
    assert_eq!(warnings.count(), 0, "{stderr}");
    let environment = fs::read(machine.path("run/environment.json")).unwrap();
    let environment: Value = serde_json::from_slice(&environment).unwrap();
    assert_eq!(environment["gpu"]["driver"], "580.95.05");
    assert_eq!(environment["gpu"]["devices"][1]["uuid"], SECOND);
}

#[test]
fn a_run_begins_only_when_the_memory_of_the_one_before_has_left_the_device() {
    let machine = Machine::new();
    let start = Instant::now();
    succeed(machine.run("leaves_memory_for_a_moment", &[]));
    // The second run fails by itself if it finds the first one's memory there.
    assert!(machine.outcomes().iter().all(|outcome| outcome["outcome"] == "ok"), "{:?}", machine.outcomes());
    assert_eq!(machine.marks(), [[] as [&str; 0]; 2]);
    assert!(start.elapsed() > Duration::from_millis(2 * 1200));
}

#[test]
fn memory_that_does_not_leave_is_warned_of_and_the_run_is_marked() {
    let machine = Machine::new();
    let mut run = machine.run("leaves_memory_for_long", &[]);
    let output = succeed({
        run.env("MEMPROF_DEVICE_WAIT", "1");
        run
    });
    let left = "GPU 0 had 1.00 GiB more in use 1 s after the run than before the run";
    assert!(text(&output.stderr).contains(&format!("warning: {left}")), "{}", text(&output.stderr));
    let marks = machine.marks();
    assert_eq!(marks[0], [left]);
    // The second one begins with that memory there, which nobody is shown for.
    assert_eq!(marks[1].len(), 1);
    assert!(
        marks[1][0].starts_with("1.00 GiB of GPU 0 was in use before the run, by processes that NVML"),
        "{marks:?}"
    );
    assert_eq!(values(&output.stdout, "gpu.0.device"), [] as [u64; 0]);
    assert_eq!(values(&output.stdout, "gpu.0.live"), [5 * MIB; 2], "what is counted in the process stands");
}

#[test]
fn a_run_that_used_no_device_is_neither_kept_waiting_nor_marked() {
    let machine = Machine::new();
    let start = Instant::now();
    succeed(machine.run("uses_none", &[]));
    assert_eq!(machine.marks(), [[] as [&str; 0]; 2]);
    assert!(start.elapsed() < Duration::from_secs(30));
}

#[test]
fn figures_taken_beside_another_process_are_marked_and_the_devices_own_is_withdrawn() {
    let machine = Machine::new();
    // A process that lives: this one.
    machine.others(&[line(FIRST, std::process::id(), 300)]);
    let output = succeed(machine.run("uses_gpu", &[]));
    for marks in machine.marks() {
        assert_eq!(marks.len(), 1, "{marks:?}");
        assert!(marks[0].starts_with(&format!("process {} (", std::process::id())), "{marks:?}");
        assert!(marks[0].contains("300 MiB) was on GPU 0 too"), "{marks:?}");
    }
    assert_eq!(values(&output.stdout, "gpu.0.device"), [] as [u64; 0]);
    assert_eq!(values(&output.stdout, "gpu.0.process"), [531 * MIB; 2]);
    let mut report = machine.memprof(&["report", "run"]);
    let table = text(&report.args(["--metrics", "gpu.0.process,gpu.0.device"]).output().unwrap().stdout);
    assert!(
        table.contains(
            "gpu.0.device unavailable in old and new: may include memory of other processes: process"
        ),
        "{table}"
    );
    assert!(table.contains("2 runs of uses_gpu: process "), "{table}");
}

#[test]
fn in_a_container_that_hides_processes_the_devices_figure_counts_while_its_level_was_idle() {
    let machine = Machine::new();
    let run = |level: u64| {
        machine.others(&[line(FIRST, "hidden", level)]);
        let _ = fs::remove_dir_all(machine.path("run"));
        let mut run = machine.run("uses_gpu", &[]);
        run.env("FAKE_NVML_PROCESSES", "none");
        succeed(run)
    };
    assert_eq!(values(&run(2).stdout, "gpu.0.device"), [533 * MIB; 2]);
    let busy = run(900);
    assert_eq!(values(&busy.stdout, "gpu.0.device"), [] as [u64; 0]);
    assert_eq!(values(&busy.stdout, "gpu.0.process"), [] as [u64; 0]);
    assert!(machine.marks()[1][0].contains("(a container may hide them)"), "{:?}", machine.marks());
}

#[test]
fn a_cell_sees_the_device_that_it_is_given_and_the_results_say_which() {
    let machine = Machine::new();
    let output = succeed(machine.run("uses_gpu", &["--device", "1"]));
    assert_eq!(values(&output.stdout, "gpu.1.live"), [5 * MIB; 2]);
    assert_eq!(values(&output.stdout, "gpu.0.live"), [] as [u64; 0]);
    assert_eq!(machine.outcomes()[0]["devices"], serde_json::json!([SECOND]));
    let plan: Value = serde_json::from_slice(&fs::read(machine.path("run/plan.json")).unwrap()).unwrap();
    assert_eq!(plan["request"]["tests"][0]["devices"], serde_json::json!(["1"]));

    let machine = Machine::new();
    let unknown = machine.run("uses_gpu", &["--device", "GPU-1112"]).output().unwrap();
    assert_eq!(unknown.status.code(), Some(2));
    let stderr = text(&unknown.stderr);
    assert!(stderr.contains("no device 'GPU-1112' on this machine"), "{stderr}");
    assert!(stderr.contains(&format!("GPU 0 is {FIRST}, GPU 1 is {SECOND}")), "{stderr}");
    assert!(!machine.path("run").exists(), "nothing was begun");
}

#[test]
fn a_matrix_gives_each_test_its_device() {
    let machine = Machine::new();
    let matrix = machine.path("memprof.yaml");
    fs::write(
        &matrix,
        "refs: [old, new]\nrepeat: 1\nthresholds: {'*': off}\ntests:\n  - {filter: uses_gpu, device: 1, name: second}\n  - {filter: counts_devices, device: [0, GPU-aaaa]}\n",
    )
    .unwrap();
    let mut run = machine.memprof(&["run", "--format", "csv", "--metrics", "gpu.*", "--matrix"]);
    run.arg(matrix).current_dir(workshop().repository.root());
    run.env("CARGO_MEMPROF_HOME", home_at(workshop().repository.beside("cache")));
    let output = succeed(run);
    assert_eq!(values(&output.stdout, "gpu.1.live"), [5 * MIB; 2]);
    let run = workshop().repository.path("target/memprof/latest/cells").canonicalize().unwrap();
    let both = stdouts(&run).into_iter().filter(|stdout| stdout.contains("devices: 2"));
    assert_eq!(both.count(), 2);
}

#[test]
fn the_tool_and_the_shim_mean_the_same_device_whatever_the_variable_says() {
    for (list, expected) in [
        ("0", Some(0)),
        ("1", Some(1)),
        ("1,0", Some(1)),
        ("GPU-aaaa", Some(1)),
        ("GPU-1,0", Some(0)),
        ("1,1", None),
        ("-1,0", None),
        ("", None),
    ] {
        let machine = Machine::new();
        // The device that the tool watches is marked, as somebody else is on both.
        machine.others(&[line(FIRST, 4_000_001, 300), line(SECOND, 4_000_002, 300)]);
        let mut run = machine.run("uses_gpu", &[]);
        let output = run.env("CUDA_VISIBLE_DEVICES", list).output().unwrap();
        let Some(index) = expected else {
            assert_eq!(output.status.code(), Some(3), "{list}: the test finds no device and fails");
            continue;
        };
        assert_eq!(values(&output.stdout, &format!("gpu.{index}.live")), [5 * MIB; 2], "{list}");
        let marks = machine.marks();
        assert_eq!(marks.len(), 2);
        for mark in marks {
            assert_eq!(mark.len(), 1, "{mark:?}");
            assert!(mark[0].ends_with(&format!("was on GPU {index} too")), "{list}: {mark:?}");
        }
    }
}

#[test]
fn a_part_of_a_device_is_watched_as_the_part_that_it_is() {
    let machine = Machine::new();
    machine.others(&[line(PART, 4_000_001, 300)]);
    let mut run = machine.run("uses_gpu", &["--device", "MIG-bbbb"]);
    run.env("FAKE_GPUS", format!("{FIRST},{PART}"));
    let output = succeed(run);
    assert_eq!(values(&output.stdout, "gpu.1.live"), [5 * MIB; 2]);
    assert!(machine.marks()[0][0].ends_with("was on GPU 1 part 1 too"), "{:?}", machine.marks());
    assert_eq!(machine.outcomes()[0]["devices"], serde_json::json!([PART]));
}

#[test]
fn the_doctor_shows_what_there_is() {
    let machine = Machine::new();
    machine.others(&[line(FIRST, 4_000_001, 300)]);
    let _held = machine.lock(&place(1, SECOND));
    let mut doctor = machine.memprof(&["doctor"]);
    doctor.env("FAKE_GPU_NAMES", "NVIDIA H200,NVIDIA L4").env("CUDA_VISIBLE_DEVICES", "1");
    let output = succeed(doctor);
    let shown = text(&output.stdout);
    let gpus = shown.split("\nGPUs\n").nth(1).unwrap().split("\n\nMetrics\n").next().unwrap();
    let folder = workshop().libraries.to_str().unwrap();
    let (mut is_of_container, mut is_of_holder) = (false, false);
    let lines = gpus.lines().filter(|line| {
        let goes_on = line.starts_with("          ");
        // Whether this very machine is a container is not the fake's to say.
        is_of_container = line.contains("process ids") || is_of_container && goes_on;
        // The holder is this process, whose command line may be of any length.
        is_of_holder = is_of_holder && goes_on && !line.trim_start().starts_with("help:");
        let is_shown = !is_of_container && !is_of_holder;
        is_of_holder |= line.contains("held by ");
        is_shown
    });
    let steady: Vec<String> = lines
        .map(|line| match line.split_once("held by ") {
            Some((before, _)) => format!("{before}held by …"),
            None => line.replace(folder, "FOLDER"),
        })
        .collect();
    insta::assert_snapshot!(steady.join("\n"));

    let mut bare = isolated(assert_cmd::cargo::cargo_bin("cargo-memprof"));
    bare.env("CARGO_MEMPROF_HOME", "/proc/nowhere").arg("doctor");
    let broken = bare.output().unwrap();
    assert_eq!(broken.status.code(), Some(3));
    assert!(text(&broken.stdout).contains("set CARGO_MEMPROF_HOME to a folder"), "{}", text(&broken.stdout));

    let mut machine_readable = machine.memprof(&["doctor", "--format", "json"]);
    let json: Value = serde_json::from_slice(&machine_readable.output().unwrap().stdout).unwrap();
    assert_eq!(json["devices"]["devices"][0]["uuid"], FIRST);
}

#[test]
fn a_library_that_is_no_nvml_is_no_reason_to_say_anything_but_in_the_doctors_words() {
    let machine = Machine::new();
    let mut run = machine.run("uses_gpu", &[]);
    let output = succeed({
        run.env("FAKE_NVML_BROKEN", "1");
        run
    });
    assert_eq!(text(&output.stderr).matches("NVML").count(), 0, "{}", text(&output.stderr));
    assert_eq!(values(&output.stdout, "gpu.GPU-11111111.live"), [5 * MIB; 2]);
    let mut doctor = machine.memprof(&["doctor"]);
    let doctor = doctor.env("FAKE_NVML_BROKEN", "1").output().unwrap();
    assert!(text(&doctor.stdout).contains("nvmlInit_v2: Driver Not Loaded (9)"), "{}", text(&doctor.stdout));
}
