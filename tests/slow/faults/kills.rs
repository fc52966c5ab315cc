//! SIGKILL at random moments. `MEMPROF_FAULT_SEED` repeats the moments of an earlier run.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::Findings;
use super::laboratory::{Ended, Laboratory};
use super::works::Work;

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

/// Kills a command again and again.
fn kill(work: &Work<'_>, times: usize, moments: &mut Moments) {
    let mut findings = Findings::default();
    // The first time takes longer, because more is built.
    (work.prepare)();
    work.laboratory.run(&work.arguments);
    (work.prepare)();
    let begin = Instant::now();
    let whole = work.laboratory.run(&work.arguments);
    let duration = begin.elapsed();
    assert!((work.is_whole)(&whole), "{}: {}", work.name, whole.everything());
    for _ in 0..times {
        (work.prepare)();
        let after = moments.before(duration);
        let fault = format!("{} killed after {after:?}", work.name);
        let was_killed = work.laboratory.kill(&work.arguments, after);
        findings.count(if was_killed { "killed" } else { "ended before" });
        work.check_after(&fault, false, &mut findings);
        let how = work.recover(&fault, &mut findings);
        findings.count(how);
        work.check_leftovers(&fault, &mut findings);
    }
    findings.report(&format!("{} is killed", work.name));
}

/// What a search found: the commit and the figures. The comparison between has metrics that vary.
fn found(printed: &str) -> String {
    let mut is_varying = false;
    let mut found = String::new();
    for line in printed.lines() {
        is_varying = (is_varying || line.starts_with("memory: ")) && !line.starts_with("    commit");
        if !is_varying {
            found.push_str(line);
            found.push('\n');
        }
    }
    found
}

fn bisect(laboratory: &Laboratory) -> Work<'_> {
    let printed = laboratory.run(&BISECT).stdout;
    let expected = found(&printed);
    assert!(expected.contains("  change 2\n"), "{printed}");
    let owned = |arguments: &[&str]| arguments.iter().map(|one| (*one).to_owned()).collect();
    Work {
        laboratory,
        name: "bisect",
        arguments: owned(&BISECT),
        resumed: owned(&["bisect", "--resume"]),
        prepare: Box::new(|| laboratory.forget_runs()),
        is_whole: Box::new(move |ended: &Ended| ended.code == Some(0) && found(&ended.stdout) == expected),
        output: None,
    }
}

#[test]
#[ignore = "it takes minutes"]
fn after_every_kill_the_same_command_gives_the_same() {
    type Make = for<'a> fn(&'a Laboratory) -> Work<'a>;
    // Two at a time: each builds and runs.
    let one: [(Make, usize); 5] = [
        (|laboratory| Work::compare(laboratory), 70),
        (|laboratory| Work::compare_from_sources(laboratory), 20),
        (|laboratory| Work::make_archive(laboratory), 20),
        (|laboratory| Work::run_archive(laboratory), 20),
        (|laboratory| Work::clean(laboratory), 20),
    ];
    let other: [(Make, usize); 5] = [
        (|laboratory| bisect(laboratory), 50),
        (|laboratory| Work::notebook(laboratory), 40),
        (|laboratory| Work::merge(laboratory), 60),
        (|laboratory| Work::submit(laboratory), 40),
        (|laboratory| Work::page(laboratory), 60),
    ];
    std::thread::scope(|scope| {
        for works in [one, other] {
            scope.spawn(move || {
                for (make, times) in works {
                    if let Some(laboratory) = Laboratory::new() {
                        kill(&make(&laboratory), times, &mut Moments::new());
                    }
                }
            });
        }
    });
}
