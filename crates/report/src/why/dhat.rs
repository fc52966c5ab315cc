//! Call sites as a file for DHAT's viewer, as dhat-rs writes it. The format is described in
//! Valgrind's `dhat/dh_main.c`.
//!
//! Some of its fields are not recorded. Blocks at the peak and at the end, and lifetimes, are 0. The
//! most bytes of a site are those at the peak or at the end.

use std::io::{self, Write};

use indexmap::IndexSet;
use rustc_hash::FxBuildHasher;
use serde::{Deserialize, Serialize};

use memprof_judge::results::stack_log::{Family, Figures};
use memprof_judge::why::frame::Frame;
use memprof_judge::why::stacks::{StackFigures, Stacks};

/// The file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct File {
    dhat_file_version: u32,
    mode: String,
    verb: String,
    bklt: bool,
    bkacc: bool,
    tu: String,
    #[serde(rename = "Mtu")]
    mtu: String,
    tuth: u64,
    cmd: String,
    pid: u32,
    tg: u64,
    te: u64,
    pps: Vec<ProgramPoint>,
    ftbl: Vec<String>,
}

/// A stack: total (`t`), most (`m`), at the peak (`g`) and at the end (`e`), in bytes (`b`) and
/// blocks (`bk`).
#[derive(Debug, Serialize, Deserialize)]
struct ProgramPoint {
    tb: i64,
    tbk: i64,
    tl: u64,
    mb: i64,
    mbk: u64,
    gb: i64,
    gbk: u64,
    eb: i64,
    ebk: u64,
    fs: Vec<usize>,
}

/// Writes the sites of a whole run. `command` says what was measured.
pub fn write(stacks: &Stacks, family: &Family, command: &str, out: &mut dyn Write) -> io::Result<()> {
    let StackFigures { of_node, without_stack } = stacks.figures(&family.figures_of_run());
    let mut frames: IndexSet<String, FxBuildHasher> = IndexSet::default();
    frames.insert("[root]".to_owned());
    let mut points = Vec::new();
    for (node, figures) in of_node {
        let stack = stacks.stack(node);
        let numbers = stack.iter().map(|frame| frames.insert_full(named(frame)).0);
        points.push(point(figures, numbers.collect()));
    }
    if without_stack != Figures::default() {
        let number = frames.insert_full("[without a call stack]".to_owned()).0;
        points.push(point(without_stack, vec![number]));
    }
    let microseconds = |interval: usize| family.intervals[interval].nanoseconds / 1000;
    let last = family.intervals.len().checked_sub(1);
    let file = File {
        dhat_file_version: 2,
        mode: "rust-heap".to_owned(),
        verb: "Allocated".to_owned(),
        bklt: true,
        bkacc: false,
        tu: "µs".to_owned(),
        mtu: "s".to_owned(),
        tuth: 10,
        cmd: command.to_owned(),
        pid: 0,
        // The checkpoint that ends the interval of the peak.
        tg: family.highest().map_or(0, microseconds),
        te: last.map_or(0, microseconds),
        pps: points,
        ftbl: frames.into_iter().collect(),
    };
    serde_json::to_writer(&mut *out, &file)?;
    writeln!(out)
}

fn point(figures: Figures, frames: Vec<usize>) -> ProgramPoint {
    let Figures { at_peak, live, allocated, count } = figures;
    ProgramPoint {
        tb: allocated,
        tbk: count,
        tl: 0,
        mb: at_peak.max(live),
        mbk: 0,
        gb: at_peak,
        gbk: 0,
        eb: live,
        ebk: 0,
        fs: frames,
    }
}

/// `0x2f10: a::f (src/lib.rs:7)`. The viewer separates the address from the function.
fn named(frame: &Frame) -> String {
    let address = frame.address.as_ref().map_or(0, |address| address.address);
    let location = frame.location().unwrap_or_else(|| "unknown".to_owned());
    format!("0x{address:x}: {} ({location})", frame.name())
}
