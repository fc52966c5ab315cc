//! A fake driver that keeps what it allocates, programs beside it, and their logs.
#![cfg(all(target_os = "linux", target_pointer_width = "64"))]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;

use crate::laboratory::{shim_by, shim_flags, succeed, usual_rustc};
use crate::log_schema;

/// Everything that is built for these tests, once.
pub struct Laboratory {
    pub folder: PathBuf,
}

pub fn laboratory() -> &'static Laboratory {
    static LABORATORY: OnceLock<Laboratory> = OnceLock::new();
    LABORATORY.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("gpu-shim");
        fs_err::create_dir_all(folder.join("fake")).unwrap();
        let laboratory = Laboratory { folder };
        let flags = ["--crate-type", "cdylib", "-C", "opt-level=3", "-C", "panic=abort"];
        laboratory.compile("memprof_inject", "templates/memprof_inject/lib.rs", &flags);
        for (name, file) in [
            ("cuda", "libcuda.so.1"),
            ("cupti", "libcupti.so.13"),
            ("nvml", "libnvidia-ml.so.1"),
            ("drm", "libdrm.so.2"),
        ] {
            let output = laboratory.path(&format!("fake/{file}"));
            let name_for_loader = format!("link-arg=-Wl,-soname,{file}");
            let flags = ["--crate-type", "cdylib", "-C", &name_for_loader, "-o", &output];
            laboratory.compile(&format!("fake_{name}"), &format!("fixtures/gpu/fake_{name}.rs"), &flags);
        }
        for (name, source) in
            [("ground_truth", "real/ground_truth"), ("no_cuda", "no_cuda"), ("late", "late")]
        {
            laboratory.compile(name, &format!("fixtures/gpu/{source}.rs"), &[]);
        }
        laboratory
    })
}

impl Laboratory {
    pub fn path(&self, name: &str) -> String {
        self.folder.join(name).to_str().unwrap().to_owned()
    }

    fn compile(&self, name: &str, source: &str, flags: &[&str]) {
        let mut command = usual_rustc();
        command
            .args(["--edition", "2021", "-D", "warnings", "--crate-name", name])
            .args(["--out-dir", self.folder.to_str().unwrap()])
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join(source))
            .args(flags);
        if !flags.contains(&"cdylib") {
            command.args(shim_flags(&shim_by(usual_rustc, &[])));
        }
        succeed(&mut command);
    }
}

/// A program about to be run beside the fake driver.
pub struct Program {
    pub command: Command,
    log: PathBuf,
}

/// What a program left.
pub struct Run {
    pub output: Output,
    pub lines: Vec<Value>,
}

pub fn program(name: &str, arguments: &[&str]) -> Program {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let laboratory = laboratory();
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let log = laboratory.folder.join(format!("log-{}-{number}.jsonl", std::process::id()));
    let mut command = Command::new(laboratory.folder.join(name));
    let inherited = ["CUDA_VISIBLE_DEVICES", "CUDA_INJECTION64_PATH", "MEMPROF_CUPTI_ABSENT", "MEMPROF_SYNC"];
    for variable in inherited {
        command.env_remove(variable);
    }
    command
        .args(arguments)
        .env("LD_LIBRARY_PATH", laboratory.folder.join("fake"))
        .env("MEMPROF_LOG", &log)
        .env("MEMPROF_CUPTI", laboratory.folder.join("fake/libcupti.so.13"))
        .env("CUDA_INJECTION64_PATH", laboratory.folder.join("libmemprof_inject.so"));
    Program { command, log }
}

impl Program {
    pub fn env(mut self, name: &str, value: impl AsRef<std::ffi::OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    pub fn env_remove(mut self, name: &str) -> Self {
        self.command.env_remove(name);
        self
    }

    pub fn run(mut self) -> Run {
        let output = self.command.output().unwrap();
        let text = fs_err::read_to_string(&self.log).unwrap_or_default();
        // The log of a process that died is mapped further than it is written.
        let text = text.trim_end_matches('\0');
        fs_err::remove_file(&self.log).unwrap();
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        log_schema::assert_fit(&lines);
        Run { output, lines }
    }

    pub fn succeed(self) -> Run {
        let run = self.run();
        assert!(run.output.status.success(), "{:?}", run.output);
        run
    }
}

impl Run {
    pub fn stdout(&self) -> &str {
        std::str::from_utf8(&self.output.stdout).unwrap()
    }

    pub fn of_event<'a>(&'a self, event: &'a str) -> impl Iterator<Item = &'a Value> {
        self.lines.iter().filter(move |line| line["event"] == event)
    }

    /// The figures of GPUs and pools of a checkpoint or scope.
    pub fn figures(&self, label: &str) -> BTreeMap<&str, u64> {
        let line = self.lines.iter().find(|line| line["label"] == label).unwrap();
        let metrics = line["metrics"].as_object().unwrap().iter();
        metrics
            .filter(|(name, _)| name.starts_with("gpu.") || name.starts_with("pool."))
            .map(|(name, figure)| (name.as_str(), figure.as_u64().unwrap()))
            .collect()
    }

    pub fn figure(&self, label: &str, metric: &str) -> Option<u64> {
        self.figures(label).get(metric).copied()
    }

    /// Why a metric is absent. That is said once.
    pub fn reason(&self, metric: &str) -> &str {
        let reasons: Vec<&Value> = self
            .of_event("absent")
            .filter(|line| line["metric"] == metric)
            .map(|line| &line["reason"])
            .collect();
        assert_eq!(reasons.len(), 1, "{metric}: {:?}", self.lines);
        reasons[0].as_str().unwrap()
    }

    pub fn absent(&self) -> Vec<&str> {
        self.of_event("absent").map(|line| line["metric"].as_str().unwrap()).collect()
    }
}
