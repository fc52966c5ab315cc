//! Time and memory for reading, matching and rendering, from ten thousand log lines to a million.
//!
//! `cargo bench --bench scale` prints a row for each size and format. It fails if a million lines
//! take more than 2 s or 1 GiB in the table, or if the time per line grows with their number.

#![expect(clippy::print_stdout, reason = "a benchmark prints what it measured")]

#[path = "../tests/support/synthetic.rs"]
mod synthetic;

use std::io::{BufWriter, Write};
use std::time::{Duration, Instant};

use clap::ValueEnum as _;
use memprof_judge::compare::from_results;
use memprof_judge::results::run_folder::RunFolder;
use memprof_judge::results::stored;
use memprof_report::options::{Format, Options};
use memprof_support::bytes::Bytes;
use synthetic::{Log, Synthetic};

const SIZES: [usize; 3] = [10_000, 100_000, 1_000_000];
const MOST_TIME: Duration = Duration::from_secs(2);
const MOST_MEMORY: u64 = 1 << 30;

/// How labels repeat: one label over and over, as in a loop, or all different.
#[derive(Clone, Copy)]
enum Labels {
    Few,
    AllDifferent,
}

fn main() {
    // A process has one high-water mark of memory, so each measurement is a process.
    let arguments: Vec<String> = std::env::args().collect();
    if let Some(position) = arguments.iter().position(|argument| argument == "--measure") {
        let folder = RunFolder(arguments[position + 1].as_str().into());
        let format = Format::from_str(&arguments[position + 2], false).expect("a format");
        measure(&folder, format);
        return;
    }
    let mut is_within = true;
    for labels in [Labels::Few, Labels::AllDifferent] {
        println!(
            "{}",
            match labels {
                Labels::Few => "one label over and over",
                Labels::AllDifferent => "all labels different",
            }
        );
        println!(
            "{:>9}  {:<8} {:>9} {:>9} {:>9} {:>9} {:>10} {:>8}",
            "lines", "format", "read", "compare", "render", "whole", "memory", "a line"
        );
        let mut cost_of_first: Option<u128> = None;
        for lines in SIZES {
            let synthetic = run_of(lines, labels);
            // Call sites have files of their own, and these runs have none.
            let formats = Format::value_variants().iter().filter(|format| !format.is_of_call_sites());
            for &format in formats {
                let row = measured(synthetic.folder(), format);
                let cost = row.whole.as_nanos() / lines as u128;
                println!(
                    "{lines:>9}  {:<8} {:>9.1?} {:>9.1?} {:>9.1?} {:>9.1?} {:>10} {cost:>5} ns",
                    name(format),
                    row.read,
                    row.compare,
                    row.render,
                    row.whole,
                    Bytes(row.memory).to_string()
                );
                if format == Format::Table {
                    // In a small run, the process's fixed costs count more per line. So only growth
                    // is an error.
                    is_within &= cost < cost_of_first.map_or(u128::MAX, |first| 2 * first);
                    cost_of_first.get_or_insert(cost);
                    is_within &= row.whole < MOST_TIME && row.memory < MOST_MEMORY;
                }
            }
        }
    }
    assert!(is_within, "slower or larger than promised, or not linear");
}

/// The name on the command line.
fn name(format: Format) -> String {
    let value = format.to_possible_value().expect("no format is hidden");
    value.get_name().to_owned()
}

/// Makes two runs of one test, with this many lines in total.
fn run_of(lines: usize, labels: Labels) -> Synthetic {
    let log = |growth: i64| {
        (0..lines / 2).fold(Log::new(), |log, step| {
            let step_number = i64::try_from(step).expect("a small number");
            let heap = 40_000_000 + step_number * 17 + if step % 100 == 0 { growth } else { 0 };
            let readings = [
                ("heap.live", heap - 1_000),
                ("heap.peak", heap),
                ("heap.allocated", 52_000),
                ("heap.count", 120),
                ("cpu.rss", heap + 10_000_000),
                ("cpu.peak", heap + 12_000_000),
                ("time", step_number * 31_000),
            ];
            match labels {
                Labels::Few => log.checkpoint("step done, outputs shaped [24, 1024]", &readings),
                Labels::AllDifferent => {
                    log.checkpoint(&format!("step {step} done, shaped [24, 1024]"), &readings)
                }
            }
        })
    };
    Synthetic::new(&["main", "pr/3370"]).passed("long", 0, 0, &log(0)).passed("long", 1, 0, &log(4_096))
}

struct Row {
    read: Duration,
    compare: Duration,
    render: Duration,
    whole: Duration,
    memory: u64,
}

/// The best of three processes.
fn measured(folder: &RunFolder, format: Format) -> Row {
    let rows = (0..3).map(|_| {
        let program = std::env::current_exe().expect("this program");
        let output = std::process::Command::new(program)
            .args(["--measure", folder.0.as_str(), &name(format)])
            .output()
            .expect("this program runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).expect("numbers");
        let numbers: Vec<u64> =
            text.split_whitespace().map(|number| number.parse().expect("a number")).collect();
        let [read, compare, render, memory] = numbers[..] else { panic!("four numbers, not {text}") };
        let [read, compare, render] = [read, compare, render].map(Duration::from_nanos);
        Row { read, compare, render, whole: read + compare + render, memory }
    });
    rows.min_by_key(|row| row.whole).expect("three rows")
}

fn measure(folder: &RunFolder, format: Format) {
    let start = Instant::now();
    let results = stored::read(folder).expect("results");
    let read = start.elapsed();
    let start = Instant::now();
    let comparison = from_results::compare(&results);
    let compared = start.elapsed();
    let start = Instant::now();
    let mut out = BufWriter::with_capacity(1 << 16, std::io::sink());
    memprof_report::render::render(format, &comparison, &Options::default(), &mut out)
        .expect("a sink takes everything");
    out.flush().expect("a sink takes everything");
    let rendered = start.elapsed();
    let times = [read, compared, rendered].map(|time| time.as_nanos().to_string()).join(" ");
    println!("{times} {}", peak_resident());
}

/// `VmHWM`, the peak of this process's resident memory, in bytes.
fn peak_resident() -> u64 {
    let status = fs_err::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok())
        .map_or(0, |kib| kib * 1024)
}
