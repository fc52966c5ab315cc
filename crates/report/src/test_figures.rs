//! A test's own figures at one revision: its checkpoints, and a metric of the whole test.

use memprof_judge::compare::aggregate::Aggregate;
use memprof_judge::compare::comparison::Metric;
use memprof_judge::compare::whole_test;
use memprof_judge::results::measurement::Kind;
use memprof_plan::metric::Unit;

/// Returns the indices of the test's checkpoints, without scopes and calls.
pub(super) fn points(side: &Aggregate) -> impl Iterator<Item = usize> + '_ {
    side.keys.iter().enumerate().filter(|(_, key)| key.kind == Kind::Point).map(|(index, _)| index)
}

/// Returns a metric's figure for the whole test; `None` if no checkpoint has one.
pub(super) fn of_test(side: &Aggregate, metric: &Metric) -> Option<i64> {
    let column = side.column(&metric.name)?;
    debug_assert!(metric.unit == Unit::of_metric(&metric.name), "the name gives the unit");
    whole_test::figure(&metric.name, points(side).filter_map(|at| Some(column.figure(at)?.value)))
}
