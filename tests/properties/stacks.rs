//! The call stacks in the shim's log. A test can write anything into it.

use memprof_judge::results::stack_log::{Figures, StackLog};
use memprof_judge::results::stack_log_reader::read;
use memprof_judge::why::attribution::{Attribution, Question, RecordedRun};
use memprof_judge::why::class::Diff;
use memprof_judge::why::difference::{CheckpointName, Measure};
use memprof_judge::why::grouping::{GroupBy, Grouping};
use memprof_judge::why::hunks::Changes;
use memprof_judge::why::stacks::Stacks;
use memprof_judge::why::threads::of_runs;
use memprof_report::why::json::{FrameTable, WhyRow};
use memprof_report::why::{dhat, folded, pprof};

use super::Target;

pub const TARGET: Target = Target {
    name: "stacks",
    check,
    seeds,
    words: &[
        r#""event":"stacks""#,
        r#""event":"module""#,
        r#""event":"frames""#,
        r#""event":"sites""#,
        r#""event":"thread""#,
        r#""event":"releases""#,
        r#""threads":[1,2]"#,
        r#""event":"interval""#,
        r#""event":"timeline""#,
        r#""event":"stacks_incomplete""#,
        r#""part":1"#,
        r#""parts":2"#,
        r#""first":1"#,
        r#""first":18446744073709551615"#,
        "2251799813685248",
        "[0,0,0,1,-1,0]",
        "[1,2,3,4,5]",
        "null",
        "{",
        "}",
        "[]",
        "1.5",
    ],
};

/// An error names file and line. In what is accepted, sites add up to the figures of each interval, in every answer, and every
/// format can show them.
pub fn check(bytes: &[u8]) {
    let log = match read(bytes, "log.jsonl") {
        Ok(log) => log,
        Err(error) => {
            let text = error.to_string();
            let line = text.strip_prefix("log.jsonl:").and_then(|rest| rest.split_once(':'));
            let line = line.and_then(|(line, _)| line.parse::<usize>().ok());
            let lines = bytes.split(|byte| *byte == b'\n').count();
            assert!(line.is_some_and(|line| (1..=lines).contains(&line)), "no place in: {text}");
            return;
        }
    };
    assert_eq!(log, read(bytes, "log.jsonl").expect("it was read before"));
    for family in &log.families {
        for (index, interval) in family.intervals.iter().enumerate() {
            let sum = |sum: Figures, (_, figures): &(u32, Figures)| sum.plus(*figures);
            assert_eq!(family.figures(index).iter().fold(Figures::default(), sum), interval.total);
        }
    }
    // As without any symbols.
    let stacks = Stacks::new(&log, |_, _| Vec::new());
    answer(&log, &stacks);
    let threads = of_runs([Some(&log), Some(&log)]);
    assert!(threads[0] == threads[1] && threads[0].is_some() <= log.has_threads());
    export(&log, &stacks);
}

fn answer(log: &StackLog, stacks: &Stacks) {
    let run = RecordedRun { log, stacks };
    let diff = Diff { changes: Some(Changes::NONE), ..Diff::default() };
    let attribution = Attribution::new(run, run, &diff);
    for family in &log.families {
        for interval in family.intervals.iter().take(8) {
            let checkpoint =
                CheckpointName { label: interval.label.clone(), occurrence: interval.occurrence };
            // A broken log may have two of one name; the first answers.
            let metric = format!("{}.peak", family.name);
            let question = Question { metric, checkpoints: [Some(checkpoint.clone()), Some(checkpoint)] };
            for by in [GroupBy::Line, GroupBy::Thread] {
                let grouping = Grouping { by, focus: None };
                let same = attribution.answer(&question, &grouping).expect("it was recorded");
                assert!(same.groups.iter().all(|group| same.of_group(group) == 0), "it differs from itself");
                let row = WhyRow::new("t", ["a", "b"], &same, [None, None], &mut FrameTable::default());
                serde_json::to_string(&row).expect("it is JSON");
            }
        }
    }
}

fn export(log: &StackLog, stacks: &Stacks) {
    for family in &log.families {
        let figures = stacks.figures(&family.figures_of_run());
        let mut out = Vec::new();
        pprof::write(stacks, &figures, "t", &mut out).expect("memory takes it");
        dhat::write(stacks, family, "t", &mut out).expect("memory takes it");
        folded::write(&folded::stacks(stacks, &figures, Measure::AtPeak), &mut out).expect("memory takes it");
    }
}

/// A log of a run with two sites and two intervals, the last in two parts.
const LOG: &str = concat!(
    r#"{"v":1,"event":"begin","seq":0,"ns":0,"pid":7,"thread":1,"build":null,"shim":"0.1.0","sources":{}}"#,
    "\n",
    r#"{"v":1,"event":"stacks","seq":1,"ns":0,"pid":7,"thread":1,"blocks":"headers","walker":"table","reason":null,"sample":null}"#,
    "\n",
    r#"{"v":1,"event":"module","seq":2,"ns":0,"pid":7,"thread":1,"number":0,"path":"","bias":4096,"begin":4096,"end":8192}"#,
    "\n",
    r#"{"v":1,"event":"frames","seq":3,"ns":0,"pid":7,"thread":1,"first":1,"frames":[0,0,16,1,0,32,1,-1,18446744073709551615]}"#,
    "\n",
    r#"{"v":1,"event":"sites","seq":4,"ns":0,"pid":7,"thread":1,"first":1,"nodes":[2,3]}"#,
    "\n",
    r#"{"v":1,"event":"checkpoint","seq":5,"ns":1,"pid":7,"thread":1,"label":"start","occurrence":1,"at":null,"metrics":{"heap.live":30,"heap.peak":50}}"#,
    "\n",
    r#"{"v":1,"event":"interval","seq":6,"ns":1,"pid":7,"thread":1,"family":"heap","label":"start","occurrence":1,"part":0,"parts":1,"live":30,"peak":50,"count":3,"allocated":60,"sites":[0,10,10,0,0,1,40,20,60,3]}"#,
    "\n",
    r#"{"v":1,"event":"checkpoint","seq":7,"ns":2,"pid":7,"thread":1,"label":"done","occurrence":1,"at":null,"metrics":{"heap.live":15,"heap.peak":75,"heap.count":2}}"#,
    "\n",
    r#"{"v":1,"event":"interval","seq":8,"ns":2,"pid":7,"thread":1,"family":"heap","label":"done","occurrence":1,"part":0,"parts":2,"live":15,"peak":75,"count":2,"allocated":45,"sites":[2,45,5,45,2]}"#,
    "\n",
    r#"{"v":1,"event":"interval","seq":9,"ns":2,"pid":7,"thread":1,"family":"heap","label":"done","occurrence":1,"part":1,"parts":2,"live":15,"peak":75,"count":2,"allocated":45,"sites":[1,20,0,0,0]}"#,
    "\n",
    r#"{"v":1,"event":"timeline","seq":10,"ns":2,"pid":7,"thread":1,"family":"heap","begin":0,"width":1,"buckets":[0,50,15,75]}"#,
    "\n",
    r#"{"v":1,"event":"stacks_incomplete","seq":11,"ns":2,"pid":7,"thread":1,"reason":"the table is full"}"#,
    "\n",
    r#"{"v":1,"event":"end","seq":12,"ns":2,"pid":7,"thread":1}"#,
    "\n",
);

fn seeds() -> Vec<Vec<u8>> {
    let sampled = LOG.replace(r#""sample":null"#, r#""sample":512"#);
    let killed = &LOG[..LOG.find(r#"{"v":1,"event":"interval","seq":9"#).expect("it is there") + 40];
    let thread = r#"{"v":1,"event":"thread","seq":4,"ns":0,"pid":7,"thread":1,"number":1,"kind":"named","name":"w-1","shared":0}"#;
    let sites = r#"{"v":1,"event":"sites""#;
    let threads = LOG
        .replace(sites, &format!("{thread}\n{sites}"))
        .replace(r#""nodes":[2,3]"#, r#""nodes":[2,3],"threads":[1,0]"#);
    let releases = r#"{"v":1,"event":"releases","seq":10,"ns":2,"pid":7,"thread":1,"family":"heap","label":"done","occurrence":1,"pairs":[1,2,0,0,20]}"#;
    let timeline = r#"{"v":1,"event":"timeline""#;
    let threads = threads.replace(timeline, &format!("{releases}\n{timeline}"));
    vec![LOG.into(), sampled.into(), killed.into(), threads.into()]
}
