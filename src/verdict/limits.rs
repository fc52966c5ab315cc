//! Which limits hold for a metric of a test at a checkpoint, and which changes are expected: the defaults, and what the rules
//! say over them.

use crate::plan::expression::Expression;
use crate::plan::metric::Unit;
use crate::plan::quantity::Limit;
use crate::plan::quantity::Threshold;
use crate::plan::rule::{Allowance, Growth, Judging, Rule};
use crate::support::glob;
use crate::verdict::significance::Thresholds;

/// What grows by less than this in a figure that repeats to the unit is not worth a word.
const TIGHT: Threshold = Threshold { percent: Some(0.5), bytes: Some(16 << 10) };

/// The same where a counted figure varies, as with threads.
const WIDE: Threshold = Threshold { percent: Some(3.0), bytes: Some(64 << 10) };

/// The same of resident memory, which comes in pages, arenas and the kernel's batches.
const RESIDENT: Threshold = Threshold { percent: Some(3.0), bytes: Some(1 << 20) };

/// The limits on growth that hold unless a rule says otherwise; `None` for metrics that are judged only on request.
///
/// Peaks alone are judged: a level is below the peak before it, so that what is kept shows there too, and totals and times are
/// no memory.
pub fn defaults(metric: &str) -> Option<Thresholds> {
    let counted = || Some(Thresholds { tight: TIGHT, wide: WIDE });
    match metric {
        "heap.peak" | "heap.peaked" | "heap.consumed" => counted(),
        "cpu.peak" => Some(Thresholds::both(&RESIDENT)),
        _ => {
            let mut parts = metric.split('.');
            let is_of_gpu = parts.next() == Some("gpu") && parts.next().is_some();
            let part = parts.next().filter(|_| parts.next().is_none());
            if is_of_gpu && matches!(part, Some("peak" | "peaked" | "consumed")) { counted() } else { None }
        }
    }
}

/// Whether equal repeats of this metric prove that it does not vary: so for what is counted at every allocation, while what the
/// kernel or the device's driver keeps account of is the same in two runs by chance.
pub fn is_counted(metric: &str) -> bool {
    let mut parts = metric.split('.');
    match (parts.next(), parts.next(), parts.next()) {
        (Some("heap" | "malloc"), ..) | (Some("gpu"), _, Some("pool")) => true,
        (Some("gpu"), _, Some(part)) => ["live", "peak", "consumed", "peaked", "used"].contains(&part),
        _ => false,
    }
}

/// All rules, ready to be asked.
pub struct Limits {
    rules: Vec<(Rule, Option<Expression>)>,
    allow: Vec<(Allowance, Option<Expression>)>,
}

impl Limits {
    /// Of these rules; an error is an expression's.
    pub fn new(judging: &Judging) -> anyhow::Result<Self> {
        let expression = |text: &Option<String>| text.as_deref().map(str::parse::<Expression>).transpose();
        let rules = judging.rules.iter().map(|rule| Ok((rule.clone(), expression(&rule.test)?)));
        let allow = judging.allow.iter().map(|one| Ok((one.clone(), expression(&one.test)?)));
        Ok(Self {
            rules: rules.collect::<anyhow::Result<_>>()?,
            allow: allow.collect::<anyhow::Result<_>>()?,
        })
    }

    /// What holds for this metric in a test, whose name is its path and its title in the report.
    pub fn of<'a>(&'a self, test: &str, metric: &str) -> MetricLimits<'a> {
        let rules = self.rules.iter().filter(|(rule, expression)| {
            let fits = expression.as_ref().is_none_or(|expression| expression.matches(test));
            // 16 MiB say nothing of a number of allocations.
            let is_absolute = matches!(&rule.growth, Some(Growth::Within(Threshold { bytes: Some(_), .. })))
                || rule.limit.is_some()
                || rule.leak.is_some();
            let has_unit = !is_absolute || Unit::of(metric) == Unit::of(&rule.metric);
            fits && has_unit && glob::matches(&rule.metric, metric)
        });
        MetricLimits { defaults: defaults(metric), rules: rules.map(|(rule, _)| rule).collect() }
    }

    /// The first entry that expects this change and has not expired on this day; else, the first that would have.
    pub fn expected(&self, change: &ObservedChange<'_>, today: &str) -> Option<Expected> {
        let fitting = self.allow.iter().enumerate().filter(|(_, (allowance, expression))| {
            let Allowance { metric, checkpoint, limit, .. } = allowance;
            expression.as_ref().is_none_or(|expression| expression.matches(change.test))
                && metric.as_ref().is_none_or(|metric| glob::matches(metric, change.metric))
                && checkpoint.as_ref().is_none_or(|label| glob::matches(label, change.checkpoint))
                && limit.is_none_or(|limit| change.is_within(limit))
        });
        // Days in this form sort as text.
        let is_current =
            |allowance: &Allowance| allowance.until.as_deref().is_none_or(|until| today <= until);
        let mut expired = None;
        for (index, (allowance, _)) in fitting {
            if is_current(allowance) {
                return Some(Expected { index, has_expired: false });
            }
            expired.get_or_insert(Expected { index, has_expired: true });
        }
        expired
    }
}

/// A change that may be expected.
#[derive(Clone, Copy, Debug)]
pub struct ObservedChange<'a> {
    /// The test's path and its title.
    pub test: &'a str,
    /// The metric.
    pub metric: &'a str,
    /// The checkpoint's label.
    pub checkpoint: &'a str,
    /// The baseline's figure.
    pub baseline: Option<i64>,
    /// The candidate's.
    pub candidate: i64,
}

impl ObservedChange<'_> {
    fn is_within(&self, limit: Limit) -> bool {
        let baseline = i128::from(self.baseline.unwrap_or(0));
        let growth = i128::from(self.candidate) - baseline;
        match limit {
            #[expect(clippy::cast_precision_loss, reason = "percentages have few digits")]
            Limit::Percent(percent) => growth as f64 <= baseline.max(0) as f64 * percent / 100.0,
            Limit::Bytes(amount) | Limit::Plain(amount) | Limit::Nanoseconds(amount) => {
                growth <= i128::from(amount)
            }
        }
    }
}

/// Which entry expects a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected {
    /// Its place under `allow`.
    pub index: usize,
    /// Whether its day is over, so that the change counts.
    pub has_expired: bool,
}

/// What holds for one metric in one test.
pub struct MetricLimits<'a> {
    defaults: Option<Thresholds>,
    rules: Vec<&'a Rule>,
}

/// What holds at one checkpoint.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RowLimits {
    /// By how much it may grow; `None` where that is not judged.
    pub growth: Option<Thresholds>,
    /// How large it may be.
    pub most: Option<u64>,
}

impl MetricLimits<'_> {
    /// Whether a rule of the user's is about it.
    pub fn is_asked(&self) -> bool {
        self.rules.iter().any(|rule| rule.growth != Some(Growth::Off))
    }

    /// Whether the checkpoint makes a difference.
    pub fn depends_on_checkpoint(&self) -> bool {
        self.rules.iter().any(|rule| rule.checkpoint.is_some())
    }

    /// Whether a rule is about the checkpoint of this label and not about all of them.
    pub fn names(&self, checkpoint: &str) -> bool {
        let named = self.rules.iter().filter_map(|rule| rule.checkpoint.as_deref());
        named.into_iter().any(|label| label != "*" && glob::matches(label, checkpoint))
    }

    /// What holds at the checkpoint of this label.
    pub fn at(&self, checkpoint: &str) -> RowLimits {
        let mut limit = RowLimits { growth: self.defaults.clone(), most: None };
        for rule in &self.rules {
            if !rule.checkpoint.as_deref().is_none_or(|label| glob::matches(label, checkpoint)) {
                continue;
            }
            match &rule.growth {
                Some(Growth::Off) => limit.growth = None,
                Some(Growth::Within(threshold)) => limit.growth = Some(Thresholds::both(threshold)),
                None => {}
            }
            limit.most = rule.limit.or(limit.most);
        }
        limit
    }

    /// Whether it has an upper limit at some checkpoint.
    pub fn has_upper_limit(&self) -> bool {
        self.rules.iter().any(|rule| rule.limit.is_some())
    }

    /// How much more it may be at `done` than at `start`.
    pub fn leak(&self) -> Option<u64> {
        self.rules.iter().rev().find_map(|rule| rule.leak)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIVE: Option<Growth> = Some(Growth::Within(Threshold { percent: Some(5.0), bytes: None }));
    const TEN: Option<Growth> = Some(Growth::Within(Threshold { percent: Some(10.0), bytes: None }));

    fn rule(metric: &str, growth: Option<Growth>) -> Rule {
        Rule { metric: metric.to_owned(), growth, ..Rule::default() }
    }

    fn limits(rules: Vec<Rule>, allow: Vec<Allowance>) -> Limits {
        Limits::new(&Judging { rules, allow, ..Judging::default() }).unwrap()
    }

    fn percent(limits: &Limits, test: &str, metric: &str, checkpoint: &str) -> Option<f64> {
        limits.of(test, metric).at(checkpoint).growth.and_then(|growth| growth.wide.percent)
    }

    #[test]
    fn peaks_are_judged_by_default_and_nothing_else_is() {
        let judged = ["heap.peak", "cpu.peak", "gpu.0.peak", "heap.peaked", "gpu.1.consumed"];
        assert!(judged.iter().all(|metric| defaults(metric).is_some()));
        let others = [
            "heap.live",
            "heap.count",
            "cpu.rss",
            "time",
            "gpu.0.pool.used_peak",
            "gpu.0.device",
            "gpu.peak",
        ];
        assert!(others.iter().all(|metric| defaults(metric).is_none()));
    }

    #[test]
    fn only_what_is_counted_is_proven_by_a_repeat() {
        assert!(
            ["heap.count", "gpu.0.peak", "gpu.0.pool.reserved", "malloc.live"]
                .iter()
                .all(|name| is_counted(name))
        );
        assert!(["cpu.peak", "gpu.0.process", "gpu.0.device", "time"].iter().all(|name| !is_counted(name)));
    }

    #[test]
    fn the_last_rule_that_fits_wins_in_what_it_says() {
        let slow = Rule { test: Some("slow".into()), ..rule("heap.*", TEN) };
        let done =
            Rule { checkpoint: Some("done*".into()), limit: Some(7), ..rule("heap.peak", Some(Growth::Off)) };
        let limits = limits(vec![rule("heap.peak", FIVE), slow, done], vec![]);
        assert_eq!(percent(&limits, "a::fast", "heap.peak", "x"), Some(5.0));
        assert_eq!(percent(&limits, "a::slow", "heap.peak", "x"), Some(10.0));
        assert_eq!(percent(&limits, "a::slow", "heap.live", "x"), Some(10.0));
        assert_eq!(percent(&limits, "a::slow", "heap.peak", "done it"), None);
        assert_eq!(limits.of("a::slow", "heap.peak").at("done").most, Some(7));
        assert_eq!(percent(&limits, "a::fast", "cpu.peak", "x"), Some(3.0));
    }

    #[test]
    fn an_absolute_limit_is_for_metrics_of_its_unit() {
        let sixteen = Growth::Within(Threshold { percent: None, bytes: Some(16 << 20) });
        let limits = limits(vec![rule("heap.*", Some(sixteen))], vec![]);
        assert!(limits.of("t", "heap.live").at("x").growth.is_some());
        assert!(limits.of("t", "heap.count").at("x").growth.is_none());
    }

    fn change(candidate: i64) -> ObservedChange<'static> {
        ObservedChange {
            test: "a::t",
            metric: "heap.peak",
            checkpoint: "done",
            baseline: Some(100),
            candidate,
        }
    }

    #[test]
    fn an_expected_change_has_a_limit_and_an_end() {
        let allowance = Allowance {
            metric: Some("heap.*".into()),
            reason: "why".into(),
            limit: Some(Limit::Percent(20.0)),
            until: Some("2026-12-31".into()),
            ..Allowance::default()
        };
        let limits = limits(vec![], vec![allowance]);
        let on = |candidate, today| limits.expected(&change(candidate), today);
        assert_eq!(on(120, "2026-12-31"), Some(Expected { index: 0, has_expired: false }));
        assert_eq!(on(121, "2026-12-31"), None, "more than was expected");
        assert_eq!(on(120, "2027-01-01"), Some(Expected { index: 0, has_expired: true }));
        let other = ObservedChange { metric: "cpu.peak", ..change(110) };
        assert_eq!(limits.expected(&other, "2026-01-01"), None);
    }

    #[test]
    fn an_entry_that_still_holds_is_taken_before_one_that_has_expired() {
        let entry = |until: Option<&str>| Allowance {
            test: Some("t".into()),
            until: until.map(str::to_owned),
            ..Allowance::default()
        };
        let limits = limits(vec![], vec![entry(Some("2020-01-01")), entry(None)]);
        assert_eq!(
            limits.expected(&change(900), "2026-01-01"),
            Some(Expected { index: 1, has_expired: false })
        );
    }
}
