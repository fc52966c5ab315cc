//! The program on a machine that fails: each write-like call fails once, the power is cut at each of them, and the program is
//! killed at random moments. Afterwards `--resume`, or the same command again, gives the same to the byte. `works` has the
//! commands.
//!
//! `fixtures/faults/faults.c` says what a fault does. Each test prints how many faults it made.

mod kills;
mod laboratory;
mod works;

use std::collections::BTreeMap;

use laboratory::{Ended, Laboratory};
use works::Work;

/// What a comparison may not do after a fault, and does today. Each entry is the beginning of a complaint.
const KNOWN: [&str; 3] = [
    // A fault of the machine has the code of a bug, with advice.
    "code 101",
    // Of a run that is killed, files under construction stay until it continues.
    "left: ",
    // The folders of a run are not synced, so a power failure may remove a run that had just begun.
    "--resume after a cut",
];

/// How the whole result came in the end, and how often.
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

    fn complain_maybe(&mut self, fault: &str, what: Option<String>) {
        if let Some(what) = what {
            self.complain(fault, &what);
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

impl Work<'_> {
    /// Does the work with this fault, then without, until all is there. Returns whether the fault was reached.
    fn survive(&self, fault: &str, findings: &mut Findings) -> bool {
        (self.prepare)();
        let (faulty, calls) = self.laboratory.run_with_fault(&self.arguments, fault);
        let number: usize = fault.rsplit(':').next().and_then(|text| text.parse().ok()).expect("a number");
        let Some(call) = number.checked_sub(1).and_then(|index| calls.get(index)) else { return false };
        let fault = &format!("{}, {fault} at {call}", self.name);
        let is_whole = (self.is_whole)(&faulty);
        match faulty.code {
            Some(0) if !is_whole && !call.contains(" write pipe:") => {
                findings.complain(fault, &format!("another result: {}", faulty.everything()));
            }
            Some(0) => {}
            Some(_) => check_error(findings, fault, "at once", &faulty),
            None if fault.contains(", cut:") => {}
            None => findings.complain(fault, &format!("it crashes: {}", faulty.everything())),
        }
        self.check_after(fault, is_whole, findings);
        let how = if faulty.code == Some(0) { "whole at once" } else { self.recover(fault, findings) };
        findings.count(how);
        // A file that cannot be removed stays.
        if !["unlink", "rmdir"].iter().any(|removal| call.contains(removal)) {
            self.check_leftovers(fault, findings);
        }
        self.laboratory.forget_temporary();
        true
    }

    /// What holds at once after a fault.
    fn check_after(&self, fault: &str, is_made: bool, findings: &mut Findings) {
        for process in self.laboratory.processes() {
            findings.complain(fault, &process);
        }
        if let Some(damage) = self.damage(is_made) {
            findings.complain(fault, &damage);
        }
    }

    fn check_leftovers(&self, fault: &str, findings: &mut Findings) {
        for left in self.laboratory.leftovers() {
            findings.complain(fault, &left);
        }
        self.laboratory.forget_temporary();
    }

    /// Resumes, or else begins again. Returns what made all that was missing.
    fn recover(&self, fault: &str, findings: &mut Findings) -> &'static str {
        let resumed = self.laboratory.run(&self.resumed);
        let is_same = self.resumed == self.arguments;
        if (self.is_whole)(&resumed) {
            findings.complain_maybe(fault, self.damage(true));
            return if is_same { "whole by the same command" } else { "whole by --resume" };
        }
        match resumed.code {
            Some(0) => {
                findings.complain(fault, &format!("--resume gives another result: {}", resumed.everything()));
            }
            Some(3) => findings.complain(fault, "--resume gives code 3"),
            _ if fault.contains(", cut:") && resumed.code == Some(101) => {
                findings.complain(fault, "--resume after a cut");
            }
            _ => check_error(findings, fault, "on --resume", &resumed),
        }
        let again = self.laboratory.run(&self.arguments);
        if (self.is_whole)(&again) {
            return "whole by the same command";
        }
        findings.complain(
            fault,
            &format!("never whole again: {}\nafter: {}", again.everything(), resumed.everything()),
        );
        "never whole"
    }

    /// One kind of fault at every `step`th call.
    fn survive_all(&self, kind: &str, first: usize, step: usize) -> Findings {
        let mut findings = Findings::default();
        for number in (first..).step_by(step) {
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
    let work = Work::compare(&laboratory);
    for (first, kind) in (3..).step_by(7).zip(["eio", "full", "short", "cut"]) {
        work.survive_all(kind, first, 61).report(kind);
    }
}

/// The kinds of faults. No quota is an error at the same places as no space.
const KINDS: [&str; 5] = ["eio", "enospc", "short", "full", "cut"];

#[test]
#[ignore = "it takes minutes"]
fn after_every_fault_the_table_is_whole_again() {
    let all = [[("eio", 1), ("edquot", 4)], [("enospc", 1), ("short", 1)], [("full", 1), ("cut", 1)]];
    std::thread::scope(|scope| {
        for kinds in all {
            scope.spawn(move || {
                let Some(laboratory) = Laboratory::new() else { return };
                for (kind, step) in kinds {
                    Work::compare(&laboratory).survive_all(kind, 1, step).report(kind);
                }
            });
        }
        scope.spawn(|| {
            let Some(laboratory) = Laboratory::new() else { return };
            for (first, kind) in (1..).zip(["eio", "full", "short", "cut"]) {
                let work = Work::compare_from_sources(&laboratory);
                work.survive_all(kind, first, 16).report(&format!("{kind} while it builds"));
            }
        });
    });
}

/// Each kind of fault at each `step`th call, beginning with another one for each kind.
fn survive_every_fault(work: &Work<'_>, step: usize) {
    let mut reports = Vec::new();
    for (first, kind) in (1..).zip(KINDS) {
        let findings = work.survive_all(kind, (first - 1) % step + 1, step);
        reports.push((format!("{}, {kind}", work.name), findings));
    }
    for (name, findings) in reports {
        findings.report(&name);
    }
}

#[test]
#[ignore = "it takes minutes"]
fn after_every_fault_a_notebook_has_its_reports() {
    if let Some(laboratory) = Laboratory::new() {
        survive_every_fault(&Work::notebook(&laboratory), 4);
    }
}

#[test]
#[ignore = "it takes minutes"]
fn after_every_fault_a_merged_run_is_whole() {
    if let Some(laboratory) = Laboratory::new() {
        survive_every_fault(&Work::merge(&laboratory), 1);
    }
}

#[test]
#[ignore = "it takes minutes"]
fn after_every_fault_a_job_is_whole() {
    if let Some(laboratory) = Laboratory::new() {
        survive_every_fault(&Work::submit(&laboratory), 4);
    }
}

#[test]
#[ignore = "it takes minutes"]
fn after_every_fault_a_page_is_whole_or_as_it_was() {
    if let Some(laboratory) = Laboratory::new() {
        survive_every_fault(&Work::page(&laboratory), 1);
    }
}
