//! The limits of a metric at a checkpoint, and the expected changes: defaults, overridden by rules.

use crate::verdict::significance::Thresholds;
use memprof_plan::expression::Expression;
use memprof_plan::metric::{ABOVE_START, Unit, of_pool};
use memprof_plan::quantity::Limit;
use memprof_plan::quantity::Threshold;
use memprof_plan::rule::{Allowance, Growth, Judging, Rule};
use memprof_support::glob;

/// Ignore smaller growth of a figure that repeats exactly.
const TIGHT: Threshold = Threshold { percent: Some(0.5), bytes: Some(16 << 10) };

/// Ignore smaller growth of a counted figure that varies, as with threads.
const WIDE: Threshold = Threshold { percent: Some(3.0), bytes: Some(64 << 10) };

/// Ignore smaller growth of resident memory, which comes in pages, arenas and the kernel's batches.
const RESIDENT: Threshold = Threshold { percent: Some(3.0), bytes: Some(1 << 20) };

/// Ignore smaller growth of a number of allocations that repeats exactly.
const FEW: Threshold = Threshold { percent: Some(0.5), bytes: Some(16) };

/// Ignore smaller growth of a number of allocations that varies, as with random hash seeds.
const MANY: Threshold = Threshold { percent: Some(3.0), bytes: Some(100) };

/// Ignore smaller growth of a time: 50 ms.
const DURATION: Threshold = Threshold { percent: Some(10.0), bytes: Some(50_000_000) };

/// A leak is the growth from this checkpoint. Every run has it.
pub const LEAK_FROM: &str = "start";

/// A leak is the growth up to this checkpoint.
pub const LEAK_TO: &str = "done";

/// Returns the default limits on growth; `None` for metrics that are judged on request only.
///
/// Exact peaks and levels are judged by default, and the peak of resident memory. A level shows
/// where memory is kept: the peak grows at the next checkpoint only. Totals and times are not memory.
pub fn defaults(metric: &str) -> Option<Thresholds> {
    let counted = || Some(Thresholds { tight: TIGHT, wide: WIDE });
    match metric {
        "heap.peak" | "heap.live" | "heap.peaked" | "heap.consumed" => counted(),
        "cpu.peak" => Some(Thresholds::both(&RESIDENT)),
        _ if is_use_of_pool(metric) => counted(),
        _ => {
            let mut parts = metric.split('.');
            let is_of_gpu = parts.next() == Some("gpu") && parts.next().is_some();
            let part = parts.next().filter(|_| parts.next().is_none());
            if is_of_gpu && matches!(part, Some("peak" | "live" | "peaked" | "consumed")) {
                counted()
            } else {
                None
            }
        }
    }
}

/// Returns the limits for any metric: the defaults, or for what is judged on request those of a
/// similar metric.
pub fn usual(metric: &str) -> Thresholds {
    let of_kind = || match (Unit::of(metric), is_counted(metric)) {
        (Unit::Bytes, true) => Thresholds { tight: TIGHT, wide: WIDE },
        (Unit::Bytes, false) => Thresholds::both(&RESIDENT),
        (Unit::Count, _) => Thresholds { tight: FEW, wide: MANY },
        (Unit::Nanoseconds, _) => Thresholds::both(&DURATION),
    };
    defaults(metric).unwrap_or_else(of_kind)
}

/// Whether a metric is about what a memory pool has handed out. What it reserves for that is its own
/// choice.
fn is_use_of_pool(metric: &str) -> bool {
    of_pool(metric).is_some_and(|(name, part)| match part {
        "in_use" | "in_use_peak" => true,
        "peaked" | "consumed" => !name.ends_with(".reserved"),
        _ => false,
    })
}

/// Whether a metric is zero before it has its first figure: before the GPU's driver starts, the
/// process holds no memory of the device.
pub fn is_zero_at_first(metric: &str) -> bool {
    metric.strip_prefix("gpu.").and_then(|rest| rest.split_once('.')).is_some_and(|(_, part)| part == "live")
}

/// Whether equal repeats prove that this metric does not vary. True for what is counted at every
/// allocation. Figures of the kernel or a GPU driver may be equal by chance.
pub fn is_counted(metric: &str) -> bool {
    let mut parts = metric.split('.');
    match (parts.next(), parts.next(), parts.next()) {
        (Some("heap" | "malloc" | "pool"), ..) | (Some("gpu"), _, Some("pool")) => true,
        (Some("gpu"), _, Some(part)) => {
            ["live", "peak", "consumed", "peaked", "used", ABOVE_START].contains(&part)
        }
        _ => false,
    }
}

/// All rules, with parsed expressions.
pub struct Limits {
    rules: Vec<(Rule, Option<Expression>)>,
    allow: Vec<(Allowance, Option<Expression>)>,
    asked: Vec<String>,
}

impl Limits {
    /// Parses the rules. Fails if an expression is invalid.
    pub fn new(judging: &Judging) -> anyhow::Result<Self> {
        let expression = |text: &Option<String>| text.as_deref().map(str::parse::<Expression>).transpose();
        let rules = judging.rules.iter().map(|rule| Ok((rule.clone(), expression(&rule.test)?)));
        let allow = judging.allow.iter().map(|one| Ok((one.clone(), expression(&one.test)?)));
        Ok(Self {
            rules: rules.collect::<anyhow::Result<_>>()?,
            allow: allow.collect::<anyhow::Result<_>>()?,
            asked: judging.asked.clone(),
        })
    }

    /// Returns the limits of a metric in a test. `test` is the test's path and its title in the
    /// report.
    pub fn of<'a>(&'a self, test: &str, metric: &str) -> MetricLimits<'a> {
        let rules = self.rules.iter().filter(|(rule, expression)| {
            let fits = expression.as_ref().is_none_or(|expression| expression.matches(test));
            // An absolute limit in bytes means nothing for a number of allocations.
            let is_absolute = matches!(&rule.growth, Some(Growth::Within(Threshold { bytes: Some(_), .. })))
                || rule.limit.is_some()
                || rule.leak.is_some();
            let has_unit = !is_absolute || Unit::of(metric) == Unit::of(&rule.metric);
            fits && has_unit && glob::matches(&rule.metric, metric)
        });
        let on_request = || (is_counted(metric) && self.shows(metric)).then(|| usual(metric));
        MetricLimits {
            defaults: defaults(metric).or_else(on_request),
            rules: rules.map(|(rule, _)| rule).collect(),
        }
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

    /// Returns the first entry of `allow` that expects this change and is valid today; else the
    /// first expired one.
    pub fn expected(&self, change: &ObservedChange<'_>, today: &str) -> Option<Expected> {
        let fitting = self.allow.iter().enumerate().filter(|(_, (allowance, expression))| {
            let Allowance { metric, checkpoint, limit, .. } = allowance;
            expression.as_ref().is_none_or(|expression| expression.matches(change.test))
                && metric.as_ref().is_none_or(|metric| glob::matches(metric, change.metric))
                && checkpoint.as_ref().is_none_or(|label| glob::matches(label, change.checkpoint))
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

/// A measured change, to look up in `allow`.
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
    /// The candidate's figure.
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

/// The entry of `allow` that expects a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected {
    /// Its index in `allow`.
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
    pub fn depends_on_checkpoint(&self) -> bool {
        self.rules.iter().any(|rule| rule.checkpoint.is_some())
    }

    /// Whether a rule names this checkpoint, and not just `*`.
    pub fn names(&self, checkpoint: &str) -> bool {
        let named = self.rules.iter().filter_map(|rule| rule.checkpoint.as_deref());
        named.into_iter().any(|label| label != "*" && glob::matches(label, checkpoint))
    }

    /// Returns the limits at the checkpoint with this label.
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

    /// Whether any checkpoint has an upper limit.
    pub fn has_upper_limit(&self) -> bool {
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
        limits.of(test, metric).at(checkpoint).growth.and_then(|growth| growth.wide.percent)
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
            limits.of("a::t", metric).at("done").growth
        };
        assert_eq!(judged(asked.clone(), "heap.count"), Some(Thresholds { tight: FEW, wide: MANY }));
        assert_eq!(judged(asked.clone(), "heap.allocated"), Some(Thresholds { tight: TIGHT, wide: WIDE }));
        for not_exact in ["time", "cpu.rss"] {
            assert_eq!(judged(asked.clone(), not_exact), None, "{not_exact}");
        }
        assert_eq!(judged(vec!["*".to_owned()], "heap.count"), None, "no particular metric");
        assert_eq!(judged(Vec::new(), "heap.count"), None);
    }

    #[test]
    fn every_metric_of_the_catalogue_has_a_usual_threshold() {
        for (metric, _) in memprof_plan::metric::CATALOGUE {
            let thresholds = usual(metric);
            assert!(thresholds.tight.percent.is_some() && thresholds.wide.bytes.is_some(), "{metric}");
        }
    }

    #[test]
    fn repeats_prove_only_counted_metrics() {
        assert!(
            ["heap.count", "gpu.0.peak", "gpu.0.pool.reserved", "malloc.live", "pool.torch.in_use"]
                .iter()
                .all(|name| is_counted(name))
        );
        assert!(["cpu.peak", "gpu.0.process", "gpu.0.device", "time"].iter().all(|name| !is_counted(name)));
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
        assert_eq!(limits.of("a::slow", "heap.peak").at("done").most, Some(7));
        assert_eq!(percent(&limits, "a::fast", "cpu.peak", "x"), Some(3.0));
    }

    #[test]
    fn an_absolute_limit_applies_to_metrics_of_its_unit() {
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
        assert_eq!(on(121, "2026-12-31"), None, "more than expected");
        assert_eq!(on(120, "2027-01-01"), Some(Expected { index: 0, has_expired: true }));
        let other = ObservedChange { metric: "cpu.peak", ..change(110) };
        assert_eq!(limits.expected(&other, "2026-01-01"), None);
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
