//! The rules for verdicts: those of memprof.yaml, then those of the flags.

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
    let mut thresholds: Vec<Rule> = Vec::new();
    for flag in &flags.thresholds {
        let mut rule = flag.clone();
        let is_same = |known: &Rule| {
            (&known.metric, &known.test, &known.checkpoint) == (&flag.metric, &flag.test, &flag.checkpoint)
        };
        // `--threshold heap.peak=5% --threshold heap.peak=1MiB` is one threshold with two parts, in the place of the
        // last one.
        if let Some(at) = thresholds.iter().rposition(is_same)
            && let (Some(Growth::Within(known)), Some(Growth::Within(more))) =
                (&thresholds[at].growth, &mut rule.growth)
        {
            more.percent = more.percent.or(known.percent);
            more.bytes = more.bytes.or(known.bytes);
            thresholds.remove(at);
        }
        thresholds.push(rule);
    }
    judging.rules.extend(thresholds);
    judging.rules.extend(flags.limits.iter().chain(&flags.leaks).cloned());
    judging.allow.extend(flags.allow.iter().cloned());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::values;
    use memprof_judge::verdict::limits::Limits;

    #[test]
    fn the_last_flag_wins_and_two_parts_of_a_threshold_are_one() {
        let flags = |thresholds: &[&str], limits: &[&str]| {
            let thresholds = thresholds.iter().map(|text| values::threshold(text).unwrap()).collect();
            let limits = limits.iter().map(|text| values::limit(text).unwrap()).collect();
            JudgingArguments { thresholds, limits, ..JudgingArguments::default() }
        };
        let at = |flags: &JudgingArguments| {
            let mut judging = Judging::default();
            add_judging(&mut judging, flags);
            let limits = Limits::new(&judging).unwrap().for_metric("t", "heap.peak").at("done");
            (limits.growth.map(|growth| (growth.tight.percent, growth.tight.bytes)), limits.most)
        };
        let (_, most) = at(&flags(&["heap.peak=5%"], &["heap.*=1GiB", "heap.peak=4MiB"]));
        assert_eq!(most, Some(4 << 20));
        let growth = |thresholds: &[&str]| at(&flags(thresholds, &[])).0;
        assert_eq!(growth(&["heap.peak=5%", "heap.peak=1MiB"]), Some((Some(5.0), Some(1 << 20))));
        let between = ["heap.peak=5%", "heap.*=7%", "heap.peak=1MiB"];
        assert_eq!(growth(&between), Some((Some(5.0), Some(1 << 20))));
        assert_eq!(growth(&["heap.peak=5%", "heap.peak=off", "heap.peak=1MiB"]), Some((None, Some(1 << 20))));
        assert_eq!(growth(&["heap.peak=5%", "heap.peak=off"]), None);
    }

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
