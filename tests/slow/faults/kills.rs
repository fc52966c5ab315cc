//! SIGKILL at random moments. `MEMPROF_FAULT_SEED` repeats the moments of an earlier run.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::laboratory::{COMPARE, Laboratory};
use super::{Findings, check_error};

const BISECT: [&str; 12] = [
    "bisect",
    "--good",
    "old",
    "--bad",
    "new",
    "--offline",
    "--repeat",
    "1",
    "-k",
    "kept",
    "--metric",
    "heap.live",
];

/// Random numbers (splitmix64).
struct Moments(u64);

impl Moments {
    #[expect(clippy::print_stdout, reason = "the seed repeats the test")]
    fn new() -> Self {
        let given = std::env::var("MEMPROF_FAULT_SEED").ok().and_then(|seed| seed.parse().ok());
        let seed = given.unwrap_or_else(|| {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is later than 1970");
            u64::from(now.subsec_nanos())
        });
        println!("MEMPROF_FAULT_SEED={seed}");
        Self(seed)
    }

    /// A moment before `end`.
    fn before(&mut self, end: Duration) -> Duration {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let fraction = u32::try_from(bits >> 40).expect("24 bits remain");
        end * fraction / (1 << 24)
    }
}

/// A command that is killed again and again.
struct Victim<'a> {
    laboratory: &'a Laboratory,
    name: &'static str,
    arguments: &'a [&'a str],
    /// What continues it.
    resumed: &'a [&'a str],
    /// Before each time.
    prepare: &'a dyn Fn(),
    /// Compares what was printed to the end.
    whole: &'a dyn Fn(&str) -> bool,
}

impl Victim<'_> {
    fn kill(&self, times: usize, moments: &mut Moments) {
        let mut findings = Findings::default();
        // The first time takes longer, because more is built.
        (self.prepare)();
        self.laboratory.run(self.arguments);
        (self.prepare)();
        let begin = Instant::now();
        let whole = self.laboratory.run(self.arguments);
        let duration = begin.elapsed();
        assert_eq!(whole.code, Some(0), "{}: {}", self.name, whole.everything());
        for _ in 0..times {
            (self.prepare)();
            let after = moments.before(duration);
            let fault = format!("{} killed after {after:?}", self.name);
            let was_killed = self.laboratory.kill(self.arguments, after);
            findings.count(if was_killed { "killed" } else { "ended before" });
            for process in self.laboratory.processes() {
                findings.complain(&fault, &process);
            }
            self.recover(&fault, &mut findings);
            for left in self.laboratory.leftovers() {
                findings.complain(&fault, &left);
            }
            self.laboratory.forget_temporary();
        }
        findings.report(self.name);
    }

    fn recover(&self, fault: &str, findings: &mut Findings) {
        let resumed = self.laboratory.run(self.resumed);
        if resumed.code == Some(0) && (self.whole)(&resumed.stdout) {
            findings.count("whole by --resume");
            return;
        }
        match resumed.code {
            Some(0) => {
                findings.complain(fault, &format!("--resume gives something else: {}", resumed.everything()));
            }
            _ => check_error(findings, fault, "on --resume", &resumed),
        }
        let again = self.laboratory.run(self.arguments);
        if again.code == Some(0) && (self.whole)(&again.stdout) {
            findings.count("whole by the same command");
        } else {
            findings.complain(fault, &format!("never whole again: {}", again.everything()));
        }
    }
}

fn compare_is_killed(laboratory: &Laboratory, moments: &mut Moments) {
    let resumed = [&COMPARE[..], &["--resume"]].concat();
    let whole = |printed: &str| printed == laboratory.table;
    let warm = || laboratory.forget_runs();
    let cold = || {
        laboratory.forget_runs();
        laboratory.forget_builds();
    };
    let victim = Victim {
        laboratory,
        name: "compare",
        arguments: &COMPARE,
        resumed: &resumed,
        prepare: &warm,
        whole: &whole,
    };
    victim.kill(70, moments);
    Victim { name: "compare, from the sources", prepare: &cold, ..victim }.kill(20, moments);
}

/// What a search found: the commit and the figures. The comparison between has metrics that vary.
fn found(printed: &str) -> String {
    let mut is_varying = false;
    let mut found = String::new();
    for line in printed.lines() {
        is_varying = (is_varying || line.contains(" regressed, ")) && !line.starts_with("    commit");
        if !is_varying {
            found.push_str(line);
            found.push('\n');
        }
    }
    found
}

fn bisect_is_killed(laboratory: &Laboratory, moments: &mut Moments) {
    let resumed = [&BISECT[..], &["--resume"]].concat();
    let printed = laboratory.run(&BISECT).stdout;
    let expected = found(&printed);
    assert!(expected.contains("  change 2\n"), "{printed}");
    let victim = Victim {
        laboratory,
        name: "bisect",
        arguments: &BISECT,
        resumed: &resumed,
        prepare: &|| laboratory.forget_runs(),
        whole: &|printed| found(printed) == expected,
    };
    victim.kill(50, moments);
}

fn archive_is_killed(laboratory: &Laboratory, moments: &mut Moments) {
    let file = laboratory.beside("a.tar.zst");
    let file = file.to_str().expect("the path is text");
    let make = ["build", "--refs", "old,new", "--offline", "--repeat", "1", "--archive", file];
    Victim {
        laboratory,
        name: "build --archive",
        arguments: &make,
        resumed: &make,
        prepare: &|| {
            let _ = std::fs::remove_file(file);
        },
        whole: &|_| true,
    }
    .kill(20, moments);
    let folder = laboratory.beside("archive-run");
    let folder_text = folder.to_str().expect("the path is text");
    let metrics = "heap.live,heap.peak";
    let run = ["run", "--archive", file, "--run-folder", folder_text, "--metrics", metrics];
    let resumed = [&run[..], &["--resume"]].concat();
    let expected = std::cell::OnceCell::new();
    Victim {
        laboratory,
        name: "run --archive",
        arguments: &run,
        resumed: &resumed,
        prepare: &|| {
            let _ = std::fs::remove_dir_all(&folder);
        },
        whole: &|printed| expected.get_or_init(|| printed.to_owned()) == printed,
    }
    .kill(20, moments);
}

fn clean_is_killed(laboratory: &Laboratory, moments: &mut Moments) {
    let clean = ["clean", "--yes"];
    Victim {
        laboratory,
        name: "clean",
        arguments: &clean,
        resumed: &clean,
        prepare: &|| {
            let built = laboratory.run(&COMPARE);
            assert_eq!((built.code, &built.stdout), (Some(0), &laboratory.table), "{}", built.everything());
        },
        whole: &|_| !laboratory.runs().exists(),
    }
    .kill(20, moments);
}

#[test]
#[ignore = "it takes minutes"]
fn after_every_kill_the_same_command_gives_the_same() {
    let kill = |part: fn(&Laboratory, &mut Moments)| {
        if let Some(laboratory) = Laboratory::new() {
            part(&laboratory, &mut Moments::new());
        }
    };
    std::thread::scope(|scope| {
        for part in [compare_is_killed, bisect_is_killed, archive_is_killed, clean_is_killed] {
            scope.spawn(move || kill(part));
        }
    });
}
