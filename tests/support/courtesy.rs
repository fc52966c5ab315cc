//! A machine whose fake driver can set processes aside: fake libraries, and processes that "use CUDA".
#![allow(dead_code, reason = "each test executable uses its part")]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use super::{Printed, tool};

pub const GPU: &str = "GPU-11111111-2222-3333-4444-555555555555";

/// The folder of the fake libraries, built once. `old` is a driver without the calls.
fn libraries(old: bool) -> &'static Path {
    static FOLDERS: OnceLock<[PathBuf; 2]> = OnceLock::new();
    let folders = FOLDERS.get_or_init(|| {
        ["new", "old"].map(|age| {
            let name = format!("courtesy-{age}-{}", std::process::id());
            let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
            fs_err::create_dir_all(&folder).unwrap();
            super::at_exit::remove_at_exit(folder.clone());
            for (source, file) in [("checkpoint", "libcuda.so.1"), ("nvml", "libnvidia-ml.so.1")] {
                let source =
                    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("fixtures/gpu/fake_{source}.rs"));
                let mut rustc = Command::new("rustc");
                rustc.args(["--edition", "2021", "--crate-type", "cdylib", "-C"]);
                rustc
                    .arg(format!("link-arg=-Wl,-soname,{file}"))
                    .arg("-o")
                    .arg(folder.join(file))
                    .arg(source);
                rustc.args(if age == "old" { &["--cfg", "old_driver"][..] } else { &[] });
                let output = rustc.output().unwrap();
                assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            }
            folder
        })
    });
    &folders[usize::from(old)]
}

/// The machine: what is on its device, and which processes use CUDA.
pub struct Machine {
    folder: tempfile::TempDir,
    pub old_driver: bool,
}

/// A process that ends with the test.
pub struct Guest(pub Child);

impl Guest {
    pub fn id(&self) -> u32 {
        self.0.id()
    }

    pub fn end(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Machine {
    pub fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), old_driver: false }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Starts a process without CUDA.
    pub fn plain(variables: &[(&str, &str)]) -> Guest {
        let mut command = Command::new("sleep");
        command
            .arg("600")
            .stdin(Stdio::null())
            .env_remove("MEMPROF_COURTESY")
            .env_remove("CUDA_INJECTION64_PATH");
        Guest(command.envs(variables.iter().copied()).spawn().unwrap())
    }

    /// Starts a process with CUDA, and memory on the device.
    pub fn guest(&self, mebibytes: u64, variables: &[(&str, &str)]) -> Guest {
        let guest = Self::plain(variables);
        self.set(&guest.id().to_string(), "0");
        let others = fs_err::read_to_string(self.path("state")).unwrap_or_default();
        let line = format!("{GPU} {} {}\n", guest.id(), mebibytes << 20);
        fs_err::write(self.path("state"), others + &line).unwrap();
        guest
    }

    /// Writes a file for the fake driver.
    pub fn set(&self, name: &str, text: &str) {
        let folder = self.path("checkpoints");
        fs_err::create_dir_all(&folder).unwrap();
        fs_err::write(folder.join(name), text).unwrap();
    }

    pub fn unset(&self, name: &str) {
        fs_err::remove_file(self.path("checkpoints").join(name)).unwrap();
    }

    /// The driver's state of a process.
    pub fn state(&self, guest: &Guest) -> String {
        fs_err::read_to_string(self.path("checkpoints").join(guest.id().to_string())).unwrap()
    }

    /// The calls until now, without process ids. Forgets them.
    pub fn calls(&self) -> Vec<String> {
        let path = self.path("checkpoints/calls");
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let _ = std::fs::remove_file(path);
        text.lines().map(|line| line.split(' ').next().unwrap().to_owned()).collect()
    }

    /// The notes of processes that are set aside.
    pub fn notes(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.path("locks")).into_iter().flatten().flatten();
        let paths = entries.map(|entry| entry.path());
        paths.filter(|path| path.extension().is_some_and(|end| end == "json")).collect()
    }

    /// Sets this machine's variables.
    pub fn equip(&self, command: &mut Command) {
        let libraries = libraries(self.old_driver);
        for variable in ["CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "CUDA_INJECTION64_PATH"] {
            command.env_remove(variable);
        }
        command
            .env("LD_LIBRARY_PATH", libraries)
            .env("MEMPROF_NVML", libraries.join("libnvidia-ml.so.1"))
            .env("MEMPROF_DEVICE_LOCKS", self.path("locks"))
            .env("FAKE_GPUS", GPU)
            .env("FAKE_NVML_STATE", self.path("state"))
            .env("FAKE_CHECKPOINTS", self.path("checkpoints"));
    }

    /// The tool with these arguments.
    pub fn tool(&self, arguments: &[&str]) -> Command {
        let mut command = tool();
        self.equip(&mut command);
        // A run that is killed leaves its folder for temporary files.
        command.env("CARGO_MEMPROF_HOME", self.path("cache")).env("TMPDIR", self.folder.path());
        command.current_dir(self.folder.path()).args(arguments);
        command
    }

    /// Runs it.
    pub fn memprof(&self, arguments: &[&str]) -> Printed {
        Printed::of(self.tool(arguments))
    }
}
