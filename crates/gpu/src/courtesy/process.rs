//! What `/proc` says of a process: whose it is, when it started, who watches it, and whether it
//! agreed to be set aside.

use std::collections::BTreeSet;
use std::fmt;

use memprof_support::labels;

/// The variable by which a process agrees that its GPU memory may be set aside: `MEMPROF_COURTESY=1`.
pub const CONSENT: &str = "MEMPROF_COURTESY";

/// What is known of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessFacts {
    pub id: u32,
    /// When it started, in clock ticks since the machine did. With the id, this names a process for
    /// good: an id is used again after its process ended.
    pub started: u64,
    /// The user's id.
    pub user: u32,
    /// The kernel's name for it.
    pub name: String,
    /// The process that traces it: a debugger or profiler. 0 if none.
    pub tracer: u32,
    /// The process, if the id is that of a thread.
    pub thread_of: Option<u32>,
    /// Whether [`CONSENT`] is set. Unknown variables of another user's process count as unset.
    pub opted_in: bool,
    /// `CUDA_INJECTION64_PATH`, which a profiler sets.
    pub injected: Option<String>,
    /// The numbers of `/dev/nvidiaN` that it has open.
    pub device_files: BTreeSet<u32>,
    /// Whether it has AMD's device file open.
    pub uses_amd: bool,
}

impl fmt::Display for ProcessFacts {
    /// `process 4711 (python)`.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "process {}", self.id)?;
        if self.name.is_empty() { Ok(()) } else { write!(formatter, " ({})", self.name) }
    }
}

impl ProcessFacts {
    /// Reads them; `None` if there is no such process, or if it has ended.
    pub fn read(id: u32) -> Option<Self> {
        let status = status(id)?;
        let mut facts = Self { id, started: started(id)?, ..Self::of_status(&status, id)? };
        facts.read_environment(&std::fs::read(format!("/proc/{id}/environ")).unwrap_or_default());
        let files = std::fs::read_dir(format!("/proc/{id}/fd")).into_iter().flatten().flatten();
        for file in files.filter_map(|file| std::fs::read_link(file.path()).ok()) {
            let Some(file) = file.to_str() else { continue };
            facts.uses_amd |= file == "/dev/kfd";
            facts
                .device_files
                .extend(file.strip_prefix("/dev/nvidia").and_then(|rest| rest.parse::<u32>().ok()));
        }
        Some(facts)
    }

    /// Returns all processes that this program may look into.
    pub fn all() -> Vec<Self> {
        let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        ids.filter_map(Self::read).collect()
    }

    fn of_status(status: &str, id: u32) -> Option<Self> {
        let field = |name: &str| {
            let value = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
            Some(value.trim())
        };
        let number = |name: &str| field(name)?.split_whitespace().next()?.parse::<u32>().ok();
        Some(Self {
            user: number("Uid")?,
            // A process names itself, and may do so with escape codes.
            name: labels::one_line(field("Name").unwrap_or_default()).into_owned(),
            tracer: number("TracerPid").unwrap_or(0),
            thread_of: number("Tgid").filter(|whole| *whole != id),
            ..Self::default()
        })
    }

    fn read_environment(&mut self, environment: &[u8]) {
        let value = |name: &str| {
            environment.split(|byte| *byte == 0).find_map(|variable| {
                let value = variable.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?;
                Some(String::from_utf8_lossy(value).into_owned()).filter(|value| !value.is_empty())
            })
        };
        self.opted_in = value(CONSENT).is_some_and(|value| value != "0");
        self.injected = value("CUDA_INJECTION64_PATH").map(|path| labels::one_line(&path).into_owned());
    }
}

fn status(id: u32) -> Option<String> {
    let status = std::fs::read(format!("/proc/{id}/status")).ok()?;
    Some(String::from_utf8_lossy(&status).into_owned())
}

/// Returns a process's user; `None` if it has ended.
pub(crate) fn user(id: u32) -> Option<u32> {
    ProcessFacts::of_status(&status(id)?, id).map(|facts| facts.user)
}

/// Returns when a process started, in clock ticks since the machine did; `None` if it has ended.
pub(crate) fn started(id: u32) -> Option<u64> {
    // A name need not be UTF-8: the kernel cuts it after 15 bytes.
    let text = std::fs::read(format!("/proc/{id}/stat")).ok()?;
    let text = String::from_utf8_lossy(&text);
    // The name may contain blanks and parentheses. The state is the third field, the start the 22nd.
    let mut fields = text[text.rfind(')')? + 1..].split_whitespace();
    let state = fields.next()?;
    (!matches!(state, "Z" | "X" | "x")).then(|| fields.nth(18)?.parse().ok()).flatten()
}

/// Returns the bytes of a process in host memory, swapped ones included.
pub(crate) fn resident(id: u32) -> Option<u64> {
    let status = status(id)?;
    let kibibytes = |name: &str| {
        let value = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        value.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()
    };
    Some((kibibytes("VmRSS")? + kibibytes("VmSwap").unwrap_or(0)) << 10)
}

/// Returns what tells this boot and this table of process ids from others. A note may be read on
/// another machine, or in another container.
pub(crate) fn table() -> String {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let namespace = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    format!("{} {}", boot.trim(), namespace.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_escape_codes_is_shown_as_text() {
        let status = "Name:\t\u{1b}]0;x\u{7}\u{1b}[31mred\nUid:\t1000\t1000\n";
        let facts = ProcessFacts::of_status(status, 7).unwrap();
        assert_eq!(facts.name, "␛]0;x␇␛[31mred");
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_name_that_is_cut_within_a_letter_hides_no_process() {
        let named = std::thread::spawn(|| {
            // The kernel keeps 15 bytes.
            std::fs::write("/proc/thread-self/comm", "a訓練模型訓練").unwrap();
            let own = std::fs::read_link("/proc/thread-self").unwrap();
            let id = own.file_name().unwrap().to_str().unwrap().parse().unwrap();
            (started(id), user(id), resident(id), ProcessFacts::read(id).map(|facts| facts.name))
        });
        let (started_at, user, resident, name) = named.join().unwrap();
        assert!(started_at.is_some() && resident.is_some());
        assert_eq!(user, Some(rustix::process::geteuid().as_raw()));
        assert_eq!(name.as_deref(), Some("a訓練模型\u{fffd}"));
    }

    #[test]
    fn a_status_names_the_user_the_tracer_and_the_process_of_a_thread() {
        let status = "Name:\tpy (x)\nTgid:\t7\nPid:\t9\nTracerPid:\t3\nUid:\t1000\t0\t0\t0\n";
        let facts = ProcessFacts::of_status(status, 9).unwrap();
        assert_eq!((facts.user, facts.tracer, facts.thread_of), (1000, 3, Some(7)));
        assert_eq!(facts.to_string(), "process 0 (py (x))");
        assert_eq!(ProcessFacts::of_status(status, 7).unwrap().thread_of, None);
        assert_eq!(ProcessFacts::of_status("", 7), None);
    }

    #[test]
    fn consent_is_a_variable_that_is_neither_empty_nor_zero() {
        let opted_in = |environment: &str| {
            let mut facts = ProcessFacts::default();
            facts.read_environment(environment.as_bytes());
            facts.opted_in
        };
        assert!(opted_in("A=b\0MEMPROF_COURTESY=1\0"));
        for no in ["", "MEMPROF_COURTESY=0\0", "MEMPROF_COURTESY=\0", "NOT_MEMPROF_COURTESY=1\0"] {
            assert!(!opted_in(no), "{no}");
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn this_process_is_found_with_a_start_that_stays() {
        let own = std::process::id();
        let facts = ProcessFacts::read(own).unwrap();
        assert_eq!(Some(facts.started), started(own));
        assert_eq!((facts.id, facts.thread_of), (own, None));
        assert!(resident(own).is_some_and(|bytes| bytes > 1 << 16));
        assert!(ProcessFacts::all().iter().any(|one| one.id == own));
    }
}
