//! The program on a machine that fails: each write-like call fails once, the power is cut at each of them, and the program is
//! killed at random moments. Afterwards `--resume`, or the same command again, gives the same table to the byte.
//!
//! `fixtures/faults/faults.c` says what a fault does. Each test prints how many faults it made.

mod kills;
mod laboratory;

use std::collections::BTreeMap;

use laboratory::{COMPARE, Ended, Laboratory};

/// What a comparison may not do after a fault, and does today. Each entry is the beginning of a complaint.
const KNOWN: [&str; 3] = [
    // A fault of the machine has the code of a bug, with advice.
    "code 101",
    // Of a run that is killed, files under construction stay until it continues.
    "left: ",
    // The folders of a run are not synced, so a power failure may remove a run that had just begun.
    "--resume after a cut",
];

/// How the whole table came in the end, and how often.
type Counts = BTreeMap<&'static str, usize>;

/// The complaints about a laboratory's program.
#[derive(Default)]
struct Findings {
    counts: Counts,
    /// How often, and the first of them.
    known: BTreeMap<&'static str, (usize, String)>,
    faults: Vec<String>,
}

impl Findings {
    fn complain(&mut self, fault: &str, what: &str) {
        match KNOWN.iter().find(|known| what.starts_with(*known)) {
            Some(known) => {
                let first = || (0, format!("{fault}: {what}"));
                self.known.entry(known).or_insert_with(first).0 += 1;
            }
            None => self.faults.push(format!("{fault}: {what}")),
        }
    }

    fn count(&mut self, how: &'static str) {
        *self.counts.entry(how).or_default() += 1;
    }

    /// Prints the counts; fails if something is wrong that is not known.
    #[expect(clippy::print_stdout, reason = "the counts are for the terminal")]
    fn report(&self, what: &str) {
        println!("{what}: {:?}", self.counts);
        for (known, (count, first)) in &self.known {
            println!("  known: '{known}' {count} times, the first is: {}", first.replace('\n', "\n    "));
        }
        assert!(self.faults.is_empty(), "{what}:\n{}", self.faults.join("\n\n"));
    }
}

/// An error is there, and says what to do.
fn check_error(findings: &mut Findings, fault: &str, when: &str, ended: &Ended) {
    if ended.code == Some(101) {
        findings.complain(fault, &format!("code 101 {when}: {}", ended.everything()));
    }
    if !ended.stderr.contains("error: ") && ended.code != Some(3) {
        findings.complain(fault, &format!("no error {when}: {}", ended.everything()));
    } else if !ended.stderr.contains("help: ") {
        findings.complain(fault, &format!("no help {when}: {}", ended.everything()));
    }
}

impl Laboratory {
    fn is_whole(&self, ended: &Ended) -> bool {
        ended.code == Some(0) && ended.stdout == self.table
    }

    /// Compares with this fault, then without, until the table is whole. Returns whether the fault was reached.
    fn survive(&self, fault: &str, findings: &mut Findings) -> bool {
        self.forget_runs();
        let (faulty, calls) = self.run_with_fault(fault);
        let number: usize = fault.rsplit(':').next().and_then(|text| text.parse().ok()).expect("a number");
        let Some(call) = number.checked_sub(1).and_then(|index| calls.get(index)) else { return false };
        let fault = &format!("{fault} at {call}");
        match faulty.code {
            Some(0) if faulty.stdout != self.table && !call.contains(" write pipe:") => {
                findings.complain(fault, &format!("another table: {}", faulty.everything()));
            }
            Some(0) => {}
            Some(_) => check_error(findings, fault, "at once", &faulty),
            None if fault.starts_with("cut") => {}
            None => findings.complain(fault, &format!("it crashes: {}", faulty.everything())),
        }
        for process in self.processes() {
            findings.complain(fault, &process);
        }
        let how = if faulty.code == Some(0) { "whole at once" } else { self.recover(fault, findings) };
        findings.count(how);
        // A file that cannot be removed stays.
        let is_removal = ["unlink", "rmdir"].iter().any(|removal| call.contains(removal));
        for left in self.leftovers().iter().filter(|_| !is_removal) {
            findings.complain(fault, left);
        }
        self.forget_temporary();
        true
    }

    /// Resumes, or else compares again. Returns what gave the whole table.
    fn recover(&self, fault: &str, findings: &mut Findings) -> &'static str {
        let resumed = self.run(&[&COMPARE[..], &["--resume"]].concat());
        if self.is_whole(&resumed) {
            return "whole by --resume";
        }
        match resumed.code {
            Some(0) => {
                findings.complain(fault, &format!("--resume gives another table: {}", resumed.everything()));
            }
            Some(3) => findings.complain(fault, "--resume gives code 3"),
            _ if fault.starts_with("cut") && resumed.code == Some(101) => {
                findings.complain(fault, "--resume after a cut");
            }
            _ => check_error(findings, fault, "on --resume", &resumed),
        }
        let again = self.run(&COMPARE);
        if self.is_whole(&again) {
            return "whole by the same command";
        }
        findings.complain(fault, &format!("never whole again: {}", again.everything()));
        "never whole"
    }

    /// One kind of fault at every `step`th call.
    fn survive_all(&self, kind: &str, first: usize, step: usize, cold: bool) -> Findings {
        let mut findings = Findings::default();
        for number in (first..).step_by(step) {
            if cold {
                self.forget_builds();
            }
            if !self.survive(&format!("{kind}:{number}"), &mut findings) {
                break;
            }
        }
        findings
    }
}

#[test]
fn after_a_fault_the_table_is_whole_again() {
    let Some(laboratory) = Laboratory::new() else { return };
    for (first, kind) in (3..).step_by(7).zip(["eio", "full", "short", "cut"]) {
        laboratory.survive_all(kind, first, 61, false).report(kind);
    }
}

#[test]
#[ignore = "it takes minutes"]
fn after_every_fault_the_table_is_whole_again() {
    // No space and no quota are errors at the same places.
    let all = [[("eio", 1), ("edquot", 4)], [("enospc", 1), ("short", 1)], [("full", 1), ("cut", 1)]];
    std::thread::scope(|scope| {
        for kinds in all {
            scope.spawn(move || {
                let Some(laboratory) = Laboratory::new() else { return };
                for (kind, step) in kinds {
                    laboratory.survive_all(kind, 1, step, false).report(kind);
                }
            });
        }
        scope.spawn(|| {
            let Some(laboratory) = Laboratory::new() else { return };
            for (first, kind) in (1..).zip(["eio", "full", "short", "cut"]) {
                laboratory.survive_all(kind, first, 16, true).report(&format!("{kind} while it builds"));
            }
        });
    });
}
