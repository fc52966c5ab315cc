//! A test's own figures at one revision: its checkpoints, and a metric of the whole test.

use memprof_judge::compare::aggregate::{Aggregate, Availability};
use memprof_judge::compare::comparison::{Metric, PairView};
use memprof_judge::compare::whole_test;
use memprof_judge::results::measurement::Kind;
use memprof_plan::metric::Unit;

/// Returns the indices of the test's checkpoints, without scopes and calls.
pub(super) fn points(side: &Aggregate) -> impl Iterator<Item = usize> + '_ {
    side.keys.iter().enumerate().filter(|(_, key)| key.kind == Kind::Point).map(|(index, _)| index)
}

/// Whether the figures are about the whole test, or up to where it failed. Those of `start` alone are not: nothing of
/// the test had run.
fn is_about_test(side: &Aggregate, metric: &Metric) -> bool {
    let has_only_start = side.availability == Availability::CutOff && points(side).nth(1).is_none();
    !has_only_start && !side.has_lost(&metric.name)
}

/// Returns a metric's figure for the whole test; `None` if no checkpoint has one, or if the metric ended before the
/// test.
pub(super) fn of_test(side: &Aggregate, metric: &Metric) -> Option<i64> {
    let column = side.column(&metric.name).filter(|_| is_about_test(side, metric))?;
    debug_assert!(metric.unit == Unit::of_metric(&metric.name), "the name gives the unit");
    whole_test::figure(&metric.name, points(side).filter_map(|at| Some(column.figure(at)?.value)))
}

/// Returns the figures of both sides for the whole test, of the runs that are compared.
pub(super) fn of_both(view: &PairView, metric: &Metric) -> [Option<i64>; 2] {
    let column = view.column(&metric.name);
    let of_side = |side: usize, of: &Aggregate| {
        if !is_about_test(of, metric) {
            return None;
        }
        let figures = points(of).filter_map(|at| Some(column.own(side, at)?.value));
        whole_test::figure(&metric.name, figures)
    };
    [of_side(0, view.baseline), of_side(1, view.candidate)]
}
