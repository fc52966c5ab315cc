//! The rules for verdicts: those of memprof.yaml, then those of the flags.

use indexmap::IndexMap;
use indexmap::map::Entry;

use crate::arguments::judging::JudgingArguments;
use memprof_plan::config::mapping::OpenMapping;
use memprof_plan::config::matrix::{AllowEntry, Matrix, Rules, ThresholdEntry};
use memprof_plan::config::yaml::List;
use memprof_plan::metric::Unit;
use memprof_plan::rule::{Growth, Judging, Rule};
use memprof_support::user_error::UserError;

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

/// Refuses `--threshold` for a single revision: nothing would check it, and the exit code 0 would
/// say otherwise.
pub fn refuse_unchecked(flags: &JudgingArguments, revisions: usize) -> Result<(), UserError> {
    // `off` asks for nothing.
    match flags.thresholds.iter().find(|rule| rule.growth != Some(Growth::Off)) {
        Some(rule) if revisions == 1 => {
            let metric = &rule.metric;
            let example = match Unit::of_metric(metric) {
                Unit::Bytes => "8MiB",
                Unit::Count => "1000",
                Unit::Nanoseconds => "1s",
            };
            Err(UserError::new("--threshold limits growth, and there is only one revision").help(format!(
                "add a baseline: cargo memprof main .\nto limit the figure itself: --limit {metric}={example}"
            )))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::values;

    #[test]
    fn one_revision_takes_limits_and_leaks_and_no_threshold() {
        let flags = |threshold: Option<&str>| JudgingArguments {
            thresholds: threshold.map(|text| values::threshold(text).unwrap()).into_iter().collect(),
            limits: vec![values::limit("heap.peak=4MiB").unwrap()],
            leaks: vec![values::leak("heap.live=0").unwrap()],
            ..JudgingArguments::default()
        };
        assert!(refuse_unchecked(&flags(None), 1).is_ok());
        assert!(refuse_unchecked(&flags(Some("heap.peak=5%")), 2).is_ok());
        assert!(refuse_unchecked(&flags(Some("*=off")), 1).is_ok());
        let refused = refuse_unchecked(&flags(Some("heap.count=5%")), 1).unwrap_err().rendered();
        assert!(
            refused.contains("add a baseline") && refused.contains("--limit heap.count=1000"),
            "{refused}"
        );
    }
}
