//! The limits of a metric at a checkpoint, and the expected changes: defaults, overridden by rules.

use std::collections::BTreeMap;

use crate::verdict::significance::Thresholds;
use memprof_plan::expression::Expression;
use memprof_plan::metric::{self, Metric, Property, Unit};
use memprof_plan::quantity::Limit;
use memprof_plan::quantity::Threshold;
use memprof_plan::rule::{Allowance, Growth, Judging, Rule};
use memprof_support::glob;

/// A leak is the growth from this checkpoint. Every run has it.
pub const LEAK_FROM: &str = "start";

/// A leak is the growth up to this checkpoint.
pub const LEAK_TO: &str = "done";

/// Returns the default limits on growth; `None` for metrics that are judged on request only.
pub fn defaults(metric: &str) -> Option<Thresholds> {
    let known = metric::known(metric);
    known.is(Property::Judged).then(|| thresholds(known))
}

/// Returns the limits for any metric, also for one that is judged on request only.
pub fn usual(metric: &str) -> Thresholds {
    thresholds(metric::known(metric))
}

fn thresholds(metric: &Metric) -> Thresholds {
    let limit = |(percent, bytes)| Threshold { percent: Some(percent), bytes: Some(bytes) };
    let [tight, wide] = metric.source.limits().map(limit);
    Thresholds { tight, wide }
}

/// Whether a rule names this checkpoint, and not just `*`.
pub(crate) fn names(rule: &Rule, checkpoint: &str) -> bool {
    rule.checkpoint.as_deref().is_some_and(|label| label != "*" && glob::matches(label, checkpoint))
}

/// Returns what holds of a rule for metrics of other units than its own: a share, or `off`, beside a limit.
fn for_other_units(rule: &Rule) -> Option<Rule> {
    let has_absolute = rule.limit.is_some() || rule.leak.is_some();
    let fits_all = matches!(rule.growth, Some(Growth::Off | Growth::Within(Threshold { bytes: None, .. })));
    (has_absolute && fits_all).then(|| Rule { limit: None, leak: None, ..rule.clone() })
}

/// All rules, with parsed expressions.
pub struct Limits {
    rules: Vec<(Rule, Option<Expression>)>,
    /// What holds of some rules for metrics of other units, by the rule's index.
    of_other_units: BTreeMap<usize, Rule>,
    allow: Vec<(Allowance, Option<Expression>)>,
    asked: Vec<String>,
}

impl Limits {
    /// Parses the rules. Fails if an expression is invalid.
    pub fn new(judging: &Judging) -> anyhow::Result<Self> {
        let expression = |text: &Option<String>| text.as_deref().map(str::parse::<Expression>).transpose();
        let rules = judging.rules.iter().map(|rule| Ok((rule.clone(), expression(&rule.test)?)));
        let others = judging.rules.iter().enumerate();
        let others = others.filter_map(|(index, rule)| Some((index, for_other_units(rule)?)));
        let allow = judging.allow.iter().map(|one| Ok((one.clone(), expression(&one.test)?)));
        Ok(Self {
            rules: rules.collect::<anyhow::Result<_>>()?,
            of_other_units: others.collect(),
            allow: allow.collect::<anyhow::Result<_>>()?,
            asked: judging.asked.clone(),
        })
    }

    /// Returns the limits of a metric in a test. `test` is the test's path and its title in the
    /// report.
    pub fn for_metric<'a>(&'a self, test: &str, metric: &str) -> MetricLimits<'a> {
        let rules = self.rules.iter().enumerate().filter_map(|(index, (rule, expression))| {
            let fits = expression.as_ref().is_none_or(|expression| expression.matches(test));
            // An absolute limit in bytes means nothing for a number of allocations.
            let is_absolute = matches!(&rule.growth, Some(Growth::Within(Threshold { bytes: Some(_), .. })))
                || rule.limit.is_some()
                || rule.leak.is_some();
            let has_unit = !is_absolute || Unit::of_metric(metric) == Unit::of_metric(&rule.metric);
            let rule = if has_unit { Some(rule) } else { self.of_other_units.get(&index) };
            rule.filter(|rule| fits && glob::matches(&rule.metric, metric))
        });
        let on_request = || (metric::known(metric).is_counted() && self.shows(metric)).then(|| usual(metric));
        MetricLimits { defaults: defaults(metric).or_else(on_request), rules: rules.collect() }
    }

    /// Whether the user asked to see this metric. `*` alone asks for no particular one.
    pub fn shows(&self, metric: &str) -> bool {
        self.asked.iter().any(|pattern| pattern != "*" && glob::matches(pattern, metric))
    }

    /// Returns the rules with an upper limit or a leak that cover a test.
    pub fn absolute<'a>(&'a self, test: &str) -> impl Iterator<Item = &'a Rule> {
        let covers = move |expression: &Option<Expression>| {
            expression.as_ref().is_none_or(|expression| expression.matches(test))
        };
        let rules = self.rules.iter().filter(move |(_, expression)| covers(expression));
        rules.map(|(rule, _)| rule).filter(|rule| rule.limit.is_some() || rule.leak.is_some())
    }

    /// Returns the thresholds that cover a test, and that it is an error not to check.
    pub(crate) fn must_check<'a>(&'a self, test: &str) -> impl Iterator<Item = &'a Rule> {
        let covers = move |rule: &Rule, expression: &Option<Expression>| {
            matches!(rule.growth, Some(Growth::Within(_)))
                && rule.must_check
                && expression.as_ref().is_none_or(|expression| expression.matches(test))
        };
        let rules = self.rules.iter().filter(move |(rule, expression)| covers(rule, expression));
        rules.map(|(rule, _)| rule)
    }

    /// Returns the rules whose tests are none of these.
    pub(crate) fn without_tests<'a>(&'a self, tests: &[String]) -> impl Iterator<Item = &'a Rule> {
        let covers = |expression: &Expression| tests.iter().any(|test| expression.matches(test));
        let is_without = move |expression: &Expression| !covers(expression);
        let rules =
            self.rules.iter().filter(move |(_, expression)| expression.as_ref().is_some_and(is_without));
        rules.map(|(rule, _)| rule)
    }

    /// Returns the first entry of `allow` that expects this change and is valid today; else the
    /// first expired one.
    pub fn expected(&self, change: &ObservedChange<'_>, today: &str) -> Option<Expected> {
        let fitting = self.allow.iter().enumerate().filter(|(_, (allowance, expression))| {
            let Allowance { metric, checkpoint, limit, .. } = allowance;
            expression.as_ref().is_none_or(|expression| expression.matches(change.test))
                && metric.as_ref().is_none_or(|metric| glob::matches(metric, change.metric))
                && is_at(checkpoint.as_deref(), &change.labels)
                && limit.is_none_or(|limit| change.is_within(limit))
        });
        // ISO dates sort as text.
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

/// Whether a rule for a checkpoint is about one that has these labels.
pub(crate) fn is_at(checkpoint: Option<&str>, labels: &[&str]) -> bool {
    checkpoint.is_none_or(|pattern| labels.iter().any(|label| glob::matches(pattern, label)))
}

/// A measured change, to look up in `allow`.
#[derive(Clone, Copy, Debug)]
pub struct ObservedChange<'a> {
    /// The test's path and its title.
    pub test: &'a str,
    pub metric: &'a str,
    /// The checkpoint's label, at the baseline and at the candidate.
    pub labels: [&'a str; 2],
    /// The baseline's figure.
    pub baseline: Option<i64>,
    /// The candidate's figure.
    pub candidate: i64,
}

impl ObservedChange<'_> {
    /// A limit in another unit than the metric's covers no change.
    fn is_within(&self, limit: Limit) -> bool {
        if limit.on(Unit::of_metric(self.metric)).is_err() {
            return false;
        }
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

/// The entry of `allow` that expects a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected {
    /// The index in `allow`.
    pub index: usize,
    /// Whether it has expired, so that the change counts.
    pub has_expired: bool,
}

/// The limits of one metric in one test.
pub struct MetricLimits<'a> {
    defaults: Option<Thresholds>,
    rules: Vec<&'a Rule>,
}

/// The limits at one checkpoint.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RowLimits {
    /// Limits on growth; `None` if growth is not judged.
    pub growth: Option<Thresholds>,
    /// The upper limit.
    pub most: Option<u64>,
}

impl MetricLimits<'_> {
    /// Whether a rule of the user covers this metric.
    pub fn is_asked(&self) -> bool {
        self.rules.iter().any(|rule| rule.growth != Some(Growth::Off))
    }

    /// Whether the limits depend on the checkpoint.
    pub(crate) fn depends_on_checkpoint(&self) -> bool {
        self.rules.iter().any(|rule| rule.checkpoint.is_some())
    }

    /// Whether a rule names this checkpoint, and not just `*`.
    pub fn names(&self, checkpoint: &str) -> bool {
        self.rules.iter().any(|rule| names(rule, checkpoint))
    }

    /// Returns the limits at the checkpoint with this label.
    pub fn at(&self, checkpoint: &str) -> RowLimits {
        self.at_any(&[checkpoint])
    }

    /// Returns the limits at a checkpoint that has these labels: a renamed one has two.
    pub(crate) fn at_any(&self, labels: &[&str]) -> RowLimits {
        let mut limit = RowLimits { growth: self.defaults.clone(), most: None };
        for rule in &self.rules {
            if !is_at(rule.checkpoint.as_deref(), labels) {
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

    /// Whether any checkpoint has an upper limit.
    pub(crate) fn has_upper_limit(&self) -> bool {
        self.rules.iter().any(|rule| rule.limit.is_some())
    }

    /// Returns the limit on the growth from `start` to `done`.
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
        limits.for_metric(test, metric).at(checkpoint).growth.and_then(|growth| growth.wide.percent)
    }

    #[test]
    fn a_share_beside_a_limit_holds_for_any_unit() {
        let of = |growth, metric: &str| {
            let rule = Rule { limit: Some(7), ..rule("heap.*", growth) };
            let found = limits(vec![rule], Vec::new()).for_metric("t", metric).at("done");
            (found.growth.and_then(|growth| growth.wide.percent), found.most)
        };
        assert_eq!(of(FIVE, "heap.count"), (Some(5.0), None));
        assert_eq!(of(FIVE, "heap.peak"), (Some(5.0), Some(7)));
        assert_eq!(of(Some(Growth::Off), "heap.count"), (None, None));
        assert_eq!(of(Some(Growth::Off), "heap.peak"), (None, Some(7)));
    }

    #[test]
    fn peaks_and_exact_levels_are_judged_by_default() {
        let judged = [
            "heap.peak",
            "cpu.peak",
            "gpu.0.peak",
            "heap.peaked",
            "gpu.1.consumed",
            "heap.live",
            "gpu.1.live",
            "pool.torch.in_use",
            "pool.torch.1.in_use_peak",
            "pool.torch.consumed",
            "pool.torch.peaked",
        ];
        assert!(judged.iter().all(|metric| defaults(metric).is_some()));
        let others = ["heap.count", "cpu.rss", "time", "gpu.0.pool.used_peak", "gpu.0.device", "gpu.peak"];
        assert!(others.iter().all(|metric| defaults(metric).is_none()));
        let others = ["pool.torch.reserved", "pool.torch.reserved_peak", "pool.torch.reserved.consumed"];
        assert!(others.iter().all(|metric| defaults(metric).is_none()));
    }

    #[test]
    fn an_exact_metric_that_the_user_asked_for_is_judged() {
        let asked = ["heap.count", "heap.all*", "time", "cpu.rss"].map(str::to_owned).to_vec();
        let judged = |asked: Vec<String>, metric: &str| {
            let limits = Limits::new(&Judging { asked, ..Judging::default() }).unwrap();
            limits.for_metric("a::t", metric).at("done").growth
        };
        assert_eq!(judged(asked.clone(), "heap.count"), Some(usual("heap.count")));
        assert_eq!(judged(asked.clone(), "heap.allocated"), Some(usual("heap.peak")));
        for not_exact in ["time", "cpu.rss"] {
            assert_eq!(judged(asked.clone(), not_exact), None, "{not_exact}");
        }
        assert_eq!(judged(vec!["*".to_owned()], "heap.count"), None, "no particular metric");
        assert_eq!(judged(Vec::new(), "heap.count"), None);
    }

    #[test]
    fn every_metric_of_the_catalogue_has_a_usual_threshold() {
        for metric in metric::METRICS.iter().map(|metric| metric.name) {
            let thresholds = usual(metric);
            assert!(thresholds.tight.percent.is_some() && thresholds.wide.bytes.is_some(), "{metric}");
        }
    }

    #[test]
    fn repeats_prove_only_counted_metrics() {
        assert!(
            ["heap.count", "gpu.0.peak", "gpu.0.pool.reserved", "malloc.live", "pool.torch.in_use"]
                .iter()
                .all(|name| metric::known(name).is_counted())
        );
        assert!(
            ["cpu.peak", "gpu.0.process", "gpu.0.device", "time"]
                .iter()
                .all(|name| !metric::known(name).is_counted())
        );
    }

    #[test]
    fn the_last_matching_rule_wins_for_each_of_its_keys() {
        let slow = Rule { test: Some("slow".into()), ..rule("heap.*", TEN) };
        let done =
            Rule { checkpoint: Some("done*".into()), limit: Some(7), ..rule("heap.peak", Some(Growth::Off)) };
        let limits = limits(vec![rule("heap.peak", FIVE), slow, done], vec![]);
        assert_eq!(percent(&limits, "a::fast", "heap.peak", "x"), Some(5.0));
        assert_eq!(percent(&limits, "a::slow", "heap.peak", "x"), Some(10.0));
        assert_eq!(percent(&limits, "a::slow", "heap.live", "x"), Some(10.0));
        assert_eq!(percent(&limits, "a::slow", "heap.peak", "done it"), None);
        assert_eq!(limits.for_metric("a::slow", "heap.peak").at("done").most, Some(7));
        assert_eq!(percent(&limits, "a::fast", "cpu.peak", "x"), Some(3.0));
    }

    #[test]
    fn an_absolute_limit_applies_to_metrics_of_its_unit() {
        let sixteen = Growth::Within(Threshold { percent: None, bytes: Some(16 << 20) });
        let limits = limits(vec![rule("heap.*", Some(sixteen))], vec![]);
        assert!(limits.for_metric("t", "heap.live").at("x").growth.is_some());
        assert!(limits.for_metric("t", "heap.count").at("x").growth.is_none());
    }

    fn change(candidate: i64) -> ObservedChange<'static> {
        ObservedChange {
            test: "a::t",
            metric: "heap.peak",
            labels: ["done"; 2],
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
        assert_eq!(on(121, "2026-12-31"), None, "more than expected");
        assert_eq!(on(120, "2027-01-01"), Some(Expected { index: 0, has_expired: true }));
        let other = ObservedChange { metric: "cpu.peak", ..change(110) };
        assert_eq!(limits.expected(&other, "2026-01-01"), None);
    }

    #[test]
    fn the_limit_of_an_expected_change_is_in_the_metrics_unit() {
        let is_expected = |limit: Limit, metric: &'static str| {
            let entry = Allowance { test: Some("t".into()), limit: Some(limit), ..Allowance::default() };
            let change = ObservedChange { metric, ..change(140) };
            limits(vec![], vec![entry]).expected(&change, "2026-01-01").is_some()
        };
        assert!(is_expected(Limit::Bytes(50), "heap.peak"));
        assert!(is_expected(Limit::Nanoseconds(50), "time"));
        assert!(is_expected(Limit::Plain(50), "heap.count"));
        assert!(!is_expected(Limit::Nanoseconds(50), "heap.peak"), "50 ns are no bytes");
        assert!(!is_expected(Limit::Plain(50), "heap.peak"));
        assert!(!is_expected(Limit::Bytes(50), "heap.count"));
        assert!(is_expected(Limit::Percent(40.0), "heap.count"), "a share of any unit");
    }

    #[test]
    fn a_valid_entry_comes_before_an_expired_one() {
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
