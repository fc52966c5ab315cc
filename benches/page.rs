//! How long the HTML page takes to write, and how large it is.
//!
//! `cargo bench --bench page [-- FOLDER]`. With a folder, the pages stay there, to be opened.

#![expect(clippy::print_stdout, reason = "a benchmark prints what it measured")]

#[path = "../tests/support/synthetic.rs"]
mod synthetic;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use memprof_judge::compare::from_results;
use memprof_judge::results::stored;
use memprof_report::options::{Format, Options};
use memprof_support::bytes::Bytes;
use synthetic::{Log, Synthetic};

const MIB: i64 = 1 << 20;

/// What a page may take.
struct Case {
    name: &'static str,
    run: Synthetic,
    most_time: Duration,
    most_bytes: u64,
}

fn main() {
    let folder: Option<PathBuf> =
        std::env::args().skip(1).find(|argument| !argument.starts_with('-')).map(PathBuf::from);
    println!("{:<26} {:>9} {:>9} {:>7} {:>10} {:>8}", "page", "compare", "write", "goal", "size", "goal");
    let cases = [
        Case {
            name: "900 tests, 10 checkpoints",
            run: many_tests(),
            most_time: Duration::from_secs(1),
            most_bytes: 5 << 20,
        },
        Case {
            name: "1 test, 10^6 checkpoints",
            run: many_checkpoints(),
            most_time: Duration::from_secs(3),
            most_bytes: 15 << 20,
        },
    ];
    for case in cases {
        let results = stored::read(case.run.folder()).expect("results");
        let begin = Instant::now();
        let comparison = from_results::compare(&results);
        let compared = begin.elapsed();
        let (mut page, mut best) = (Vec::new(), Duration::MAX);
        for _ in 0..3 {
            page.clear();
            let begin = Instant::now();
            memprof_report::render::render(Format::Html, &comparison, &Options::default(), &mut page)
                .expect("memory takes everything");
            best = best.min(begin.elapsed());
        }
        println!(
            "{:<26} {compared:>9.1?} {best:>9.1?} {:>7.0?} {:>10} {:>8}",
            case.name,
            case.most_time,
            Bytes(page.len() as u64).to_string(),
            Bytes(case.most_bytes).to_string()
        );
        if let Some(folder) = &folder {
            let file = format!("{}.html", case.name.replace([' ', ',', '^'], "-"));
            fs_err::write(folder.join(file), &page).expect("the page is written");
        }
    }
}

fn readings(live: i64, count: i64, milliseconds: i64) -> [(&'static str, i64); 7] {
    [
        ("heap.live", live),
        ("heap.peak", live + live / 8),
        ("heap.allocated", live / 4),
        ("heap.count", count),
        ("cpu.rss", live + 9 * MIB),
        ("cpu.peak", live + 11 * MIB),
        ("time", milliseconds * 1_000_000),
    ]
}

fn many_tests() -> Synthetic {
    let log = |test: i64, growth: i64| {
        (0..10).fold(Log::new(), |log, step| {
            let live = (test % 37 + step * 3) * MIB + test * 4099 + growth;
            log.checkpoint(&format!("step {step} of the pipeline"), &readings(live, 90 + test, step * 7))
        })
    };
    (0..900).fold(Synthetic::new(&["main", "pr/3370"]), |synthetic, test| {
        let name = format!("module_{}::reads_the_file_number_{test}", test % 30);
        let growth = if test % 9 == 0 { MIB } else { 0 };
        synthetic.passed(&name, 0, 0, &log(test, 0)).passed(&name, 1, 0, &log(test, growth))
    })
}

/// Live memory that goes up and down a little, with steps of uneven length.
fn many_checkpoints() -> Synthetic {
    let log = |growth: i64| {
        let mut random = 1_u64;
        let (mut live, mut nanoseconds) = (64 * MIB, 0);
        (0..1_000_000).fold(Log::new(), |log, step: i64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            live += i64::try_from(random >> 52).unwrap_or(0) - 2048;
            nanoseconds += 900 + i64::try_from(random >> 54).unwrap_or(0);
            let more = if step > 500_000 { growth } else { 0 };
            let mut readings = readings(live + more, 12, 0);
            readings[6].1 = nanoseconds;
            log.checkpoint("step", &readings)
        })
    };
    Synthetic::new(&["main", "pr/3370"]).passed("trains", 0, 0, &log(0)).passed("trains", 1, 0, &log(MIB))
}
