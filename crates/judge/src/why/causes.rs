//! The causes of a comparison's changes: each place in the diff, or a dependency's update, with the
//! tests in which it shows.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::compare::comparison::{Comparison, PairView};
use crate::compare::standing::Standing;
use crate::why::chosen::{self, Alike, changed_rows, names};
use crate::why::class::{ChangedEnd, Class};
use crate::why::difference::{Difference, Group};
use crate::why::explanations::{Explained, Explanations};
use crate::why::hunks::Hunk;
use crate::why::reasons::{Reason, shares};
use memprof_plan::metric::Unit;
use memprof_plan::resolved::CellId;

/// What moved memory, and where it shows.
#[derive(Clone, Debug, PartialEq)]
pub struct Cause {
    /// Index of the candidate.
    pub candidate: usize,
    /// The place in the diff, or the dependency.
    pub reason: Reason,
    /// The site that differs most.
    pub site: Group,
    /// The tests in which it shows, the worst first. There is at least one.
    pub tests: Vec<CauseTest>,
}

/// A test in which a cause shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CauseTest {
    /// Index of the test in the comparison's cells.
    pub cell: usize,
    /// What it moves there, by metric. The first is the one that the test is reported with.
    pub moved: Vec<Moved>,
    /// Whether it moves more of the test's memory than any other cause.
    pub is_main: bool,
    /// Whether the test ran with call stacks. If not, it is alike one that did.
    pub is_recorded: bool,
}

/// What a cause moves at one checkpoint of a test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moved {
    pub metric: String,
    /// Index of the row in the test's pair.
    pub row: usize,
    /// The sum over the cause's sites, in the metric's unit.
    pub amount: i64,
    /// The difference of the whole row, as recorded.
    pub whole: i64,
}

impl Cause {
    /// Returns the worst test.
    pub fn worst(&self) -> &CauseTest {
        &self.tests[0]
    }

    /// Returns what it moves in the worst test, of the metric that the test is reported with.
    pub fn most(&self) -> &Moved {
        &self.worst().moved[0]
    }

    /// Returns the function that the diff changed, or else the one that allocates.
    pub fn function(&self) -> &str {
        match self.site.class.as_ref().filter(|_| matches!(self.reason, Reason::Hunk(_))) {
            Some(Class::CalledFrom(caller, _)) => &caller.function,
            Some(Class::Ended(ended)) => match &ended.change {
                Some(ChangedEnd::Code { function, .. }) => function,
                _ => &ended.function,
            },
            _ => self.site.name(),
        }
    }

    /// Returns the file and the line in the diff: the line that leads to the site, if the diff changed
    /// it, or else the first one of the hunk. Deleted code has the baseline's line. `None` if the reason
    /// is no place in the diff.
    pub fn place(&self) -> Option<(&str, u32)> {
        let Reason::Hunk(at) = &self.reason else { return None };
        let known = match self.site.class.as_ref()? {
            Class::Changed(..) => self.site.location(),
            Class::CalledFrom(caller, _) => Some(caller.location.as_str()),
            Class::Ended(ended) => ended.location.as_deref(),
            Class::Dependency(_) | Class::Unchanged => None,
        };
        let line = known.and_then(|location| {
            let (path, line) = location.rsplit_once(':')?;
            line.parse().ok().filter(|line| path == at.path && at.hunk.new.contains(line))
        });
        Some((&at.path, line.unwrap_or_else(|| first_line(&at.hunk))))
    }

    /// Returns the file and the line: the place in the diff, or that of code outside of it. `None` for a
    /// dependency, and if the line is not known.
    pub fn location(&self) -> Option<(&str, u32)> {
        match &self.reason {
            Reason::Hunk(_) => self.place(),
            Reason::Dependency(_) => None,
            Reason::Code(location) => {
                let (path, line) = location.rsplit_once(':')?;
                Some((path, line.parse().ok()?))
            }
        }
    }

    /// What orders causes: growth first, bytes before counts, then the largest.
    fn order(&self) -> (usize, bool, bool, Reverse<u64>) {
        let most = self.most();
        let is_other_unit = Unit::of_metric(&most.metric) != Unit::Bytes;
        (self.candidate, most.amount < 0, is_other_unit, Reverse(most.amount.unsigned_abs()))
    }
}

fn first_line(hunk: &Hunk) -> u32 {
    let range = if hunk.new.is_empty() && !hunk.old.is_empty() && hunk.new.start <= 1 {
        &hunk.old
    } else {
        &hunk.new
    };
    range.start.max(1)
}

/// A cause that is still being put together.
type Drafts = BTreeMap<(usize, bool), Vec<Cause>>;

/// Returns the causes of all changed tests: by candidate, the worst first. Tests without one are those
/// that were not recorded and are alike none that was, and those whose sites cancel out.
pub fn causes(comparison: &Comparison, explanations: &Explanations) -> Vec<Cause> {
    let mut drafts = Drafts::new();
    let mut known: BTreeMap<Alike, Vec<(Reason, CauseTest)>> = BTreeMap::new();
    let mut others = Vec::new();
    let recorded = explanations.tests.iter().filter(|test| !test.is_asked && !test.rows.is_empty());
    let recorded: BTreeMap<(&CellId, usize), &Explained> =
        recorded.map(|test| ((&test.cell, test.candidate), test)).collect();
    for (index, view) in changed(comparison) {
        let alike = Alike::new(comparison, &view);
        let Some(explained) = recorded.get(&(&view.cell.id, view.pair.candidate)) else {
            others.extend(alike.map(|alike| (index, view, alike)));
            continue;
        };
        let found = of_test(comparison, &view, index, explained);
        if let (Some(alike), false) = (alike, found.is_empty()) {
            let found = found.iter().map(|(reason, _, test)| (reason.clone(), test.clone()));
            known.entry(alike).or_insert_with(|| found.collect());
        }
        for (reason, site, test) in found {
            add(&mut drafts, view.pair.candidate, reason, &site, test);
        }
    }
    for (index, view, alike) in others {
        for (reason, test) in known.get(&alike).into_iter().flatten() {
            let test = CauseTest { cell: index, is_recorded: false, ..test.clone() };
            let drafts = drafts.entry((view.pair.candidate, test.moved[0].amount < 0)).or_default();
            let own = drafts.iter_mut().find(|cause| cause.reason == *reason);
            if let Some(cause) = own {
                cause.tests.push(test);
            }
        }
    }
    let mut causes: Vec<Cause> = drafts.into_values().flatten().collect();
    for cause in &mut causes {
        cause.tests.sort_by_key(|test| {
            let most = &test.moved[0];
            let is_other_unit = Unit::of_metric(&most.metric) != Unit::Bytes;
            // Of equal tests, the one with more checkpoints says more.
            let labels = comparison.cells[test.cell].labels.len();
            let size = Reverse((most.amount.unsigned_abs(), labels));
            (!test.is_main, !test.is_recorded, is_other_unit, size)
        });
    }
    causes.sort_by_key(Cause::order);
    causes
}

/// The tests that changed, with their indices.
fn changed(comparison: &Comparison) -> impl Iterator<Item = (usize, PairView<'_>)> {
    let cells = comparison.cells.iter().enumerate();
    let views = cells.flat_map(move |(index, cell)| {
        cell.pairs.iter().map(move |pair| (index, comparison.view(cell, pair)))
    });
    views.filter(|(_, view)| chosen::has_changed(view, Standing::for_pair(comparison, view)))
}

fn add(drafts: &mut Drafts, candidate: usize, reason: Reason, site: &Group, test: CauseTest) {
    let causes = drafts.entry((candidate, test.moved[0].amount < 0)).or_default();
    match causes.iter_mut().find(|cause| cause.reason == reason) {
        Some(cause) => {
            if test.moved[0].amount.abs()
                > cause.tests.iter().map(|test| test.moved[0].amount.abs()).max().unwrap_or(0)
            {
                cause.site = site.clone();
            }
            cause.tests.push(test);
        }
        None => causes.push(Cause { candidate, reason, site: site.clone(), tests: vec![test] }),
    }
}

/// Returns the reasons of a test's change: of the row that it is reported with, and of the first one
/// that changed the other way.
fn of_test(
    comparison: &Comparison,
    view: &PairView<'_>,
    cell: usize,
    explained: &Explained,
) -> Vec<(Reason, Group, CauseTest)> {
    let changed = changed_rows(comparison, view);
    let of_row = |difference: &Difference| {
        let rows = changed.iter().filter(|(metric, _)| *metric == difference.metric);
        let mut rows = rows.filter(|(_, row)| names(view, row) == difference.checkpoints);
        let (_, row) = rows.next()?;
        view.rows.iter().position(|one| one == *row)
    };
    let rows = explained.rows.iter().map(|row| &row.difference);
    let rows: Vec<(&Difference, usize)> =
        rows.filter_map(|difference| Some((difference, of_row(difference)?))).collect();
    let Some((first, _)) = rows.first() else { return Vec::new() };
    let is_growth = first.whole() > 0;
    let opposite = rows.iter().skip(1).find(|(row, _)| row.whole() != 0 && (row.whole() > 0) != is_growth);
    let mut found: Vec<(Reason, Group, CauseTest)> = Vec::new();
    for (difference, row) in rows.iter().take(1).chain(opposite) {
        for (index, share) in shares(difference).into_iter().enumerate() {
            let is_known = |(reason, _, test): &(Reason, Group, CauseTest)| {
                *reason == share.reason && (test.moved[0].amount < 0) == (share.amount < 0)
            };
            if found.iter().any(is_known) {
                continue;
            }
            let mut moved = vec![Moved {
                metric: difference.metric.clone(),
                row: *row,
                amount: share.amount,
                whole: difference.whole(),
            }];
            moved.extend(other_metrics(&rows, &share.reason, &difference.metric));
            let test = CauseTest { cell, moved, is_main: index == 0, is_recorded: true };
            found.push((share.reason.clone(), share.site.clone(), test));
        }
    }
    found
}

/// What a reason moves of each other metric, at the row that differs most.
fn other_metrics(rows: &[(&Difference, usize)], reason: &Reason, first: &str) -> Vec<Moved> {
    let mut moved: Vec<Moved> = Vec::new();
    for (difference, row) in rows {
        let metric = &difference.metric;
        if metric == first || moved.iter().any(|one| one.metric == *metric) {
            continue;
        }
        let shares = shares(difference);
        if let Some(share) = shares.iter().find(|share| share.reason == *reason) {
            let (amount, whole) = (share.amount, difference.whole());
            moved.push(Moved { metric: metric.clone(), row: *row, amount, whole });
        }
    }
    moved
}
