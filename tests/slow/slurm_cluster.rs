//! A real Slurm: one controller and two nodes on this machine. No process of it outlives its value.

use std::fs::File;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::support::skip;

/// How long anything here may take. A machine that is busy with other tests is slow.
pub const PATIENCE: Duration = Duration::from_mins(2);

/// How long the cluster may take to start. It needs about two seconds.
const START: Duration = Duration::from_secs(30);

/// A controller and two nodes. All its processes end with it.
pub struct Cluster {
    folder: TempDir,
    daemons: Vec<(&'static str, Child)>,
}

impl Cluster {
    /// Starts it. `None`, and a note, if this machine cannot.
    pub fn start() -> Option<Self> {
        let programs = ["munged", "slurmctld", "slurmd", "sbatch", "squeue"];
        if let Some(missing) = programs.iter().find(|program| !is_installed(program)) {
            skip(&format!(
                "{missing} is not installed (slurm-wlm and munge), so nothing is submitted to a real Slurm"
            ));
            return None;
        }
        if !rustix::process::geteuid().is_root() {
            skip("slurmd runs as root only, so nothing is submitted to a real Slurm");
            return None;
        }
        let folder = tempfile::tempdir().expect("a folder");
        // Munge wants a key that nobody else can read.
        set_mode(folder.path(), 0o755);
        let mut cluster = Self { folder, daemons: Vec::new() };
        cluster.configure();
        let path = |name: &str| cluster.path(name).display().to_string();
        let munged = [
            "--foreground".to_owned(),
            // It wants a socket that everyone can reach, but the temporary folder may be one's own.
            "--force".to_owned(),
            format!("--key-file={}", path("munge.key")),
            format!("--socket={}", path("munge.socket")),
            format!("--pid-file={}", path("munge.pid")),
            format!("--seed-file={}", path("munge.seed")),
            format!("--log-file={}", path("munge.log")),
        ];
        cluster.spawn("munged", &munged.each_ref().map(String::as_str));
        if !cluster.starts("munged", || cluster.path("munge.socket").exists()) {
            return None;
        }
        cluster.spawn("slurmctld", &["-D"]);
        cluster.spawn("node1", &["-D", "-N", "node1"]);
        cluster.spawn("node2", &["-D", "-N", "node2"]);
        let idle = || cluster.ask("sinfo", &["--noheader", "--Node", "--format=%T"]).matches("idle").count();
        if !cluster.starts("slurmctld", || idle() == 2) {
            return None;
        }
        Some(cluster)
    }

    /// Whether a daemon is ready in time. If not, a note has the last line of its log.
    fn starts(&self, name: &str, mut is_ready: impl FnMut() -> bool) -> bool {
        let began = Instant::now();
        while !is_ready() {
            if began.elapsed() > START {
                let log = std::fs::read_to_string(self.path(&format!("{name}.out"))).unwrap_or_default();
                let last = log.lines().last().unwrap_or_default();
                skip(&format!(
                    "{name} does not start here ({last}), so nothing is submitted to a real Slurm"
                ));
                return false;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        true
    }

    fn configure(&self) {
        let key: Vec<u8> =
            blake3::hash(self.folder.path().as_os_str().as_encoded_bytes()).as_bytes().to_vec();
        std::fs::write(self.path("munge.key"), key).expect("written");
        set_mode(&self.path("munge.key"), 0o600);
        for folder in ["state", "node1", "node2"] {
            std::fs::create_dir(self.path(folder)).expect("made");
        }
        let listeners: Vec<TcpListener> =
            (0..3).map(|_| TcpListener::bind("127.0.0.1:0").expect("a port")).collect();
        let ports: Vec<u16> =
            listeners.iter().map(|listener| listener.local_addr().expect("an address").port()).collect();
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").expect("a name");
        let folder = self.folder.path().display();
        let configuration = format!(
            "ClusterName=memprof\nSlurmctldHost=localhost(127.0.0.1)\nSlurmUser=root\nSlurmctldPort={}\n\
             AuthType=auth/munge\nAuthInfo=socket={folder}/munge.socket\nCryptoType=crypto/munge\n\
             MpiDefault=none\nProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nSwitchType=switch/none\n\
             ReturnToService=2\nSelectType=select/cons_tres\nSelectTypeParameters=CR_CPU\n\
             StateSaveLocation={folder}/state\nSlurmdSpoolDir={folder}/%n\n\
             SlurmctldPidFile={folder}/slurmctld.pid\nSlurmdPidFile={folder}/%n.pid\n\
             SlurmctldTimeout=10\nSlurmdTimeout=60\nKillWait=2\nMinJobAge=300\n\
             SchedulerType=sched/builtin\nJobRequeue=0\nAccountingStorageType=accounting_storage/none\n\
             JobAcctGatherType=jobacct_gather/none\n\
             NodeName=node1 NodeHostname={host} NodeAddr=127.0.0.1 Port={} CPUs=1 State=UNKNOWN\n\
             NodeName=node2 NodeHostname={host} NodeAddr=127.0.0.1 Port={} CPUs=1 State=UNKNOWN\n\
             PartitionName=x Nodes=ALL Default=YES MaxTime=INFINITE State=UP\n",
            ports[0],
            ports[1],
            ports[2],
            host = host.trim(),
        );
        std::fs::write(self.path("slurm.conf"), configuration).expect("written");
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn spawn(&mut self, name: &'static str, arguments: &[&str]) {
        let program = if name.starts_with("node") { "slurmd" } else { name };
        let log = File::create(self.path(&format!("{name}.out"))).expect("a log");
        let mut command = Command::new(program);
        command.args(arguments).env("SLURM_CONF", self.path("slurm.conf")).stdin(Stdio::null());
        command.stdout(log.try_clone().expect("a copy")).stderr(log);
        self.daemons.push((name, command.spawn().expect("it is installed")));
    }

    /// What one of Slurm's commands prints.
    pub fn ask(&self, program: &str, arguments: &[&str]) -> String {
        let mut command = Command::new(program);
        let output = command.args(arguments).env("SLURM_CONF", self.path("slurm.conf")).output();
        String::from_utf8(output.expect("it is installed").stdout).expect("text")
    }

    #[track_caller]
    pub fn until(&self, what: &str, mut is_so: impl FnMut() -> bool) {
        let began = Instant::now();
        while !is_so() {
            assert!(
                began.elapsed() < PATIENCE,
                "{what}: {}",
                self.ask("squeue", &["--states=all", "--array"])
            );
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Ends a node with all that runs on it, as when its power fails.
    pub fn lose(&mut self, node: &str) {
        let (_, daemon) =
            self.daemons.iter_mut().find(|(name, _)| *name == node).expect("a node of this cluster");
        daemon.kill().expect("it runs");
        daemon.wait().expect("it ends");
        let spool = self.path(node).display().to_string();
        let all = processes();
        // The shell of the job, whose parent is Slurm's, and whose children are the tool and a test.
        for shell in all.iter().filter(|process| process.command.contains(&spool)) {
            let is_parent =
                |process: &&Process| process.id == shell.parent && process.command.starts_with("slurmstepd");
            all.iter().filter(is_parent).for_each(|parent| kill(parent.id));
            descendants(shell.id).into_iter().for_each(kill);
        }
        // The controller would notice by itself. On a busy machine, it would also take a slow node for lost
        // if it waited for less than a minute.
        self.ask("scontrol", &["update", &format!("NodeName={node}"), "State=DOWN", "Reason=lost"]);
    }
}

/// The processes of the cluster in a folder, which is in their command lines or environments.
pub fn processes_of(folder: &Path) -> Vec<u32> {
    let folder = folder.display().to_string();
    let own = |process: &Process| process.command.contains(&folder) || process.environment.contains(&folder);
    processes().into_iter().filter(own).map(|process| process.id).collect()
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // A controller that ends by itself takes its helper along.
        for (_, controller) in self.daemons.iter_mut().filter(|(name, _)| *name == "slurmctld") {
            end(controller.id(), rustix::process::Signal::TERM);
            let began = Instant::now();
            while began.elapsed() < Duration::from_secs(5) && matches!(controller.try_wait(), Ok(None)) {
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        for (_, daemon) in &mut self.daemons {
            // It may have ended already.
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
        let began = Instant::now();
        loop {
            let left = processes_of(self.folder.path());
            if left.is_empty() || began.elapsed() > PATIENCE {
                return;
            }
            left.into_iter().for_each(kill);
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// One of this machine's processes.
struct Process {
    id: u32,
    parent: u32,
    command: String,
    environment: String,
}

/// All processes of this machine that can be read.
fn processes() -> Vec<Process> {
    let read = |folder: &Path, name: &str| {
        String::from_utf8_lossy(&std::fs::read(folder.join(name)).unwrap_or_default()).into_owned()
    };
    let entries = std::fs::read_dir("/proc").expect("it is Linux").filter_map(Result::ok);
    let found = entries.filter_map(|entry| {
        let id = entry.file_name().to_str()?.parse().ok()?;
        let folder = entry.path();
        let parent = read(&folder, "stat").rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()?;
        Some(Process { id, parent, command: read(&folder, "cmdline"), environment: read(&folder, "environ") })
    });
    found.filter(|process| process.id != std::process::id()).collect()
}

/// A process and all below it.
fn descendants(top: u32) -> Vec<u32> {
    let all = processes();
    let mut found = vec![top];
    let mut next = 0;
    while next < found.len() {
        let parent = found[next];
        found.extend(all.iter().filter(|process| process.parent == parent).map(|process| process.id));
        next += 1;
    }
    found
}

fn kill(process: u32) {
    end(process, rustix::process::Signal::KILL);
}

fn end(process: u32, signal: rustix::process::Signal) {
    if let Some(process) = i32::try_from(process).ok().and_then(rustix::process::Pid::from_raw) {
        // It may have ended meanwhile.
        let _ = rustix::process::kill_process(process, signal);
    }
}

fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).expect("a mode");
}
