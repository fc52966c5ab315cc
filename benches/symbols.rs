//! How long it takes to read an executable: its unwind table, and the functions and lines of 1,000
//! addresses.
//!
//! `cargo bench --bench symbols [-- EXECUTABLE]`. Without a path, it reads this bench.

use std::time::Instant;

use camino::Utf8PathBuf;
use memprof_judge::symbols::code_place::Paths;
use memprof_judge::symbols::kept_table;
use memprof_judge::symbols::resolver::{Detail, Resolver};
use memprof_judge::symbols::unwind_rule::{Rule, Step};
use memprof_judge::symbols::unwind_table;

const ADDRESSES: usize = 1_000;

#[expect(clippy::print_stdout, reason = "a bench prints")]
fn main() -> anyhow::Result<()> {
    // Cargo adds `--bench`.
    let given = std::env::args().skip(1).find(|argument| !argument.starts_with("--"));
    let executable = match given {
        Some(path) => Utf8PathBuf::from(path),
        None => Utf8PathBuf::try_from(std::env::current_exe()?)?,
    };
    println!("{executable}, {} KiB", fs_err::metadata(&executable)?.len() / 1_024);

    let start = Instant::now();
    let table = match unwind_table::make(&executable)? {
        Ok(table) => table,
        Err(reason) => {
            println!("no unwind table: {reason}");
            return Ok(());
        }
    };
    let made = start.elapsed();
    let rows = table.rows().len();
    let inexpressible = table.rows().filter(|(_, rule)| *rule == Rule::INEXPRESSIBLE).count();
    let size = table.to_bytes().len() / 1_024;
    println!("unwind table: {made:.1?}, {rows} rows, {inexpressible} inexpressible, {size} KiB");
    let folder = tempfile::tempdir()?;
    let target = Utf8PathBuf::try_from(folder.path().join("table"))?;
    for what in ["make and write", "check the kept one"] {
        let start = Instant::now();
        kept_table::keep(&executable, &target)??;
        println!("{what}: {:.1?}", start.elapsed());
    }

    let in_functions = table.rows().filter(|(_, rule)| matches!(rule.step(), Step::Caller { .. }));
    let addresses: Vec<u64> = in_functions.map(|(address, _)| address).collect();
    let addresses = addresses.iter().step_by(addresses.len().div_ceil(ADDRESSES).max(1));
    let start = Instant::now();
    let mut resolver = Resolver::open(&executable, &Paths::default())?;
    println!("open for symbols: {:.1?}", start.elapsed());
    let start = Instant::now();
    let (mut count, mut frames, mut lines) = (0, 0, 0);
    for address in addresses {
        let found = resolver.frames(*address);
        (count, frames) = (count + 1, frames + found.len());
        lines += usize::from(found[0].line.is_some());
    }
    let what = match resolver.detail() {
        Detail::Lines => "lines",
        Detail::Names => "names",
        Detail::Addresses => "addresses",
    };
    println!(
        "{count} addresses: {:.1?}, {frames} functions, {lines} addresses with a line; it has {what}",
        start.elapsed()
    );
    Ok(())
}
