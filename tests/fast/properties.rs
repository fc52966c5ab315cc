//! What `tests/properties` says holds, for its seeds and for damaged ones: a few in every run, and many with `just fuzz`.
//!
//! `MEMPROF_FUZZ_SECONDS` is the time for each property (2 by default), `MEMPROF_FUZZ_TARGET` the name of one, and
//! `MEMPROF_FUZZ_SEED` the number to start from.

#[path = "../properties/mod.rs"]
mod targets;

use std::sync::Mutex;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use targets::mutation::damaged;
use targets::{TARGETS, Target, target};

/// The parser of Rust calls itself for each bracket. Not optimised, it takes 2 MiB for 64 of them.
const STACK: usize = 256 << 20;

/// Checks an input. A failure shows it.
fn check(target: &Target, bytes: &[u8]) {
    let outcome = std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK);
        thread.spawn_scoped(scope, || (target.check)(bytes)).expect("a thread starts").join()
    });
    if outcome.is_err() {
        let file = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-failure", target.name));
        std::fs::write(&file, bytes).expect("the folder is there");
        panic!("{} fails for {}: {}", target.name, file.display(), bytes.escape_ascii());
    }
}

fn check_damaged(name: &str, number: u64) {
    let target = target(name);
    check(target, &damaged(target, &(target.seeds)(), number));
}

#[test]
fn every_seed_holds() {
    for target in &TARGETS {
        for seed in (target.seeds)() {
            check(target, &seed);
        }
        check(target, b"");
    }
}

#[test]
fn the_recipes_of_archives_make_archives_that_are_read() {
    targets::archive::assert_recipes_are_read();
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(24) })]

    #[test]
    fn an_archive_is_extracted_below_its_folder(number: u64) {
        check_damaged("archive", number);
    }

    #[test]
    fn a_budget_is_read_or_refused_with_its_file(number: u64) {
        check_damaged("budget", number);
    }

    #[test]
    fn a_notebook_is_a_program_or_refused_with_its_name(number: u64) {
        check_damaged("notebook", number);
    }

    #[test]
    fn lock_files_lead_to_each_other_and_no_update_is_lost(number: u64) {
        check_damaged("lock_text", number);
    }

    #[test]
    fn a_shard_is_read_or_refused_with_its_file(number: u64) {
        check_damaged("shard", number);
    }

    #[test]
    fn an_unwind_table_is_whole_or_refused(number: u64) {
        check_damaged("unwind", number);
    }

    #[test]
    fn a_command_line_is_a_request_or_a_mistake(number: u64) {
        check_damaged("command_line", number);
    }

    #[test]
    fn a_filter_means_the_same_when_it_is_shown(number: u64) {
        check_damaged("filter", number);
    }

    #[test]
    fn a_log_is_read_or_refused_with_its_place(number: u64) {
        check_damaged("log", number);
    }

    #[test]
    fn an_outcome_is_read_or_refused_with_its_file(number: u64) {
        check_damaged("outcome", number);
    }

    #[test]
    fn a_plan_is_read_or_refused_with_its_file(number: u64) {
        check_damaged("plan", number);
    }

    #[test]
    fn owners_add_up_or_their_file_is_refused(number: u64) {
        check_damaged("owners", number);
    }

    #[test]
    fn call_stacks_are_read_or_refused_with_their_place(number: u64) {
        check_damaged("stacks", number);
    }

    #[test]
    fn a_traced_file_keeps_its_lines(number: u64) {
        check_damaged("trace", number);
    }

    #[test]
    fn a_matrix_is_read_or_refused_with_its_place(number: u64) {
        check_damaged("yaml", number);
    }

    #[test]
    fn any_bytes_are_refused_or_read(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        TARGETS.iter().filter(|target| target.name != "refs").for_each(|target| check(target, &bytes));
    }
}

proptest! {
    // Git is started many times for each.
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(4) })]

    #[test]
    fn no_ref_reaches_git_as_an_option(number: u64) {
        check_damaged("refs", number);
    }
}

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Tries damaged seeds for a time. Returns how many, and the longest time that one took, with its number.
fn fuzz(target: &Target, seconds: u64, seed: u64) -> (u64, (Duration, u64)) {
    let seeds = (target.seeds)();
    let begin = Instant::now();
    let (mut count, mut longest) = (0, (Duration::ZERO, 0));
    while begin.elapsed() < Duration::from_secs(seconds) {
        let number = seed.wrapping_add(count);
        let bytes = damaged(target, &seeds, number);
        let one = Instant::now();
        check(target, &bytes);
        longest = longest.max((one.elapsed(), number));
        count += 1;
    }
    (count, longest)
}

#[test]
#[ignore = "it takes as long as it is told to"]
#[expect(clippy::print_stdout, reason = "the counts are for the terminal")]
fn many_damaged_inputs() {
    let seconds = variable("MEMPROF_FUZZ_SECONDS").unwrap_or(2);
    let seed = variable("MEMPROF_FUZZ_SEED").unwrap_or_else(|| u64::from(std::process::id()) << 32);
    let only = std::env::var("MEMPROF_FUZZ_TARGET").ok();
    let wanted = TARGETS.iter().filter(|target| only.as_ref().is_none_or(|only| only == target.name));
    let pending = Mutex::new(wanted);
    let work = || {
        while let Some(target) = { pending.lock().expect("nobody panics with it").next() } {
            let (count, (longest, number)) = fuzz(target, seconds, seed);
            let longest = format!("the longest {longest:.1?} (MEMPROF_FUZZ_SEED={number})");
            println!("{:<13} {count:>9} inputs in {seconds} s, {longest}", target.name);
        }
    };
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| (0..processors).for_each(|_| drop(scope.spawn(work))));
}
