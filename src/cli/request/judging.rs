//! The rules for verdicts: those of memprof.yaml, then those of the flags.

use indexmap::IndexMap;
use indexmap::map::Entry;

use crate::cli::arguments::judging::JudgingArguments;
use crate::config::mapping::OpenMapping;
use crate::config::matrix::{AllowEntry, Matrix, Rules, ThresholdEntry};
use crate::config::yaml::List;
use crate::plan::rule::{Growth, Judging, Rule};
use crate::support::user_error::UserError;

/// Returns the rules of the file, followed by those of the flags.
pub fn judging(flags: &JudgingArguments, matrix: &Matrix) -> Result<Judging, UserError> {
    let mut judging = Judging::default();
    for (metric, Rules(entries)) in matrix.thresholds.iter().flat_map(|OpenMapping(entries)| entries) {
        for entry in entries {
            judging.rules.push(ThresholdEntry::on(entry, metric).map_err(UserError::new)?);
        }
    }
    let entries = matrix.allow.iter().flat_map(|List(entries)| entries);
    judging.allow.extend(entries.map(AllowEntry::allowance));
    add_judging(&mut judging, flags);
    Ok(judging)
}

/// Refuses rules of the flags for a single revision: nothing would check them, and the exit code 0
/// would say otherwise.
pub fn refuse_unchecked(flags: &JudgingArguments, revisions: usize) -> Result<(), UserError> {
    let given = [
        (!flags.thresholds.is_empty(), "--threshold"),
        (!flags.limits.is_empty(), "--limit"),
        (!flags.leaks.is_empty(), "--leak"),
    ];
    match given.iter().find(|(is_given, _)| *is_given) {
        Some((_, flag)) if revisions == 1 => {
            Err(UserError::new(format!("{flag} is checked in a comparison, and there is only one revision"))
                .help("add a baseline: cargo memprof main ."))
        }
        _ => Ok(()),
    }
}

/// Adds the rules of the flags. They come last, and the last rule wins.
pub fn add_judging(judging: &mut Judging, flags: &JudgingArguments) {
    let mut given: IndexMap<_, Rule> = IndexMap::new();
    for flag in flags.thresholds.iter().chain(&flags.limits).chain(&flags.leaks) {
        let rule = match given.entry((&flag.metric, &flag.test, &flag.checkpoint)) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                new.insert(flag.clone());
                continue;
            }
        };
        match (&mut rule.growth, &flag.growth) {
            // `--threshold heap.peak=5% --threshold heap.peak=1MiB` is one threshold with two
            // parts.
            (Some(Growth::Within(both)), Some(Growth::Within(more))) => {
                both.percent = more.percent.or(both.percent);
                both.bytes = more.bytes.or(both.bytes);
            }
            (growth, more) => *growth = more.clone().or(growth.take()),
        }
        rule.limit = flag.limit.or(rule.limit);
        rule.leak = flag.leak.or(rule.leak);
    }
    judging.rules.extend(given.into_values());
    judging.allow.extend(flags.allow.iter().cloned());
}
