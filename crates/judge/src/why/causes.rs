//! The causes of a comparison's changes: each place in the diff, or a dependency's update, with the
//! tests in which it shows.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use crate::compare::comparison::{Comparison, PairView};
use crate::compare::matching::Match;
use crate::compare::standing::Standing;
use crate::why::callees::{self, Caller};
use crate::why::chosen::{self, Alike, Groups, changed_rows, compared_names, row_at};
use crate::why::class::{ChangedEnd, Class};
use crate::why::difference::{Difference, Group};
use crate::why::explanations::{Explained, ExplainedRow, Explanations};
use crate::why::hunks::Hunk;
use crate::why::manifests;
use crate::why::reasons::{Reason, shares};
use memprof_plan::metric::Unit;
use memprof_plan::request::TargetKind;
use memprof_plan::resolved::CellId;

/// What moved memory, and where it shows.
#[derive(Clone, Debug, PartialEq)]
pub struct Cause {
    /// Index of the candidate.
    pub candidate: usize,
    /// The place in the diff, or the dependency.
    pub reason: Reason,
    /// Whether memory grew, shrank, or exceeds a limit.
    pub effect: Effect,
    /// The site that differs most.
    pub site: Group,
    /// The file and line that name a dependency's version, if the diff changed them.
    pub manifest: Option<(String, u32)>,
    /// The tests in which it shows, the worst first. There is at least one.
    pub tests: Vec<CauseTest>,
}

/// What a cause does to the memory of its tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effect {
    /// The tests need more than at the baseline.
    Growth,
    /// The tests exceed a limit or a memory assertion of theirs, and did not grow.
    Limit,
    /// The tests need less than at the baseline.
    Shrinkage,
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
    /// Whether a figure of the test changed in the same direction. If not, other causes outweigh it.
    pub is_along: bool,
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

impl CauseTest {
    /// Returns how much of the test's difference is due to the cause: no more than the whole, unless other causes
    /// outweigh it.
    fn weight(&self) -> (bool, u64) {
        let Moved { amount, whole, .. } = self.moved[0];
        let amount = amount.unsigned_abs();
        (self.is_along, if self.is_along { amount.min(whole.unsigned_abs()) } else { amount })
    }
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
            Class::Dependency(_) | Class::DebugInformation | Class::Unchanged => None,
        };
        let line = known.and_then(|location| {
            let (path, line) = location.rsplit_once(':')?;
            line.parse().ok().filter(|line| path == at.path && at.hunk.new.contains(line))
        });
        Some((&at.path, line.unwrap_or_else(|| first_line(&at.hunk))))
    }

    /// Returns the file, from the repository's root, and the line: the place in the diff, or that of code
    /// outside of it. `None` if the line is not known.
    pub fn location(&self) -> Option<(&str, u32)> {
        match &self.reason {
            Reason::Hunk(_) => self.place(),
            Reason::Dependency(_) => self.manifest.as_ref().map(|(path, line)| (path.as_str(), *line)),
            Reason::Type(_) => line_of(self.site.location()?),
            Reason::Code(location) if self.site.is_in_checkout() => line_of(location),
            Reason::Code(_) => None,
        }
    }

    /// Whether a figure of each of its tests changed in the other direction, because other causes
    /// outweigh it.
    pub fn is_outweighed(&self) -> bool {
        !self.tests.iter().any(|test| test.is_along)
    }

    /// What orders causes: first those that no other outweighs, growth first, bytes before counts, then
    /// the largest.
    fn order(&self) -> (usize, bool, Effect, bool, Reverse<u64>) {
        let most = self.most();
        let is_other_unit = Unit::of_metric(&most.metric) != Unit::Bytes;
        let (_, size) = self.worst().weight();
        (self.candidate, self.is_outweighed(), self.effect, is_other_unit, Reverse(size))
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

fn line_of(location: &str) -> Option<(&str, u32)> {
    let (path, line) = location.rsplit_once(':')?;
    Some((path, line.parse().ok()?))
}

/// Causes that are still being put together.
type Drafts = BTreeMap<(usize, Effect), Vec<Cause>>;

/// What moved memory in one test.
#[derive(Clone)]
struct Found {
    reason: Reason,
    effect: Effect,
    site: Group,
    test: CauseTest,
}

impl Found {
    fn is_same_cause(&self, other: &Self) -> bool {
        self.reason == other.reason && self.effect == other.effect
    }

    /// Adds what the same cause moves at another site of the test.
    fn add(&mut self, mut other: Self) {
        let is_main = self.test.is_main || other.test.is_main;
        let size = |one: &Self| (one.test.is_along, one.test.moved[0].amount.unsigned_abs());
        if size(&other) > size(self) {
            std::mem::swap(self, &mut other);
        }
        self.test.is_main = is_main;
        // A row that the cause outweighs says less than one that changed because of it.
        let moved = other.test.moved.into_iter().filter(|_| self.test.is_along == other.test.is_along);
        for moved in moved {
            match self.test.moved.iter_mut().find(|known| known.metric == moved.metric) {
                Some(known) if known.row == moved.row => known.amount += moved.amount,
                // The first row of each metric is enough.
                Some(_) => {}
                None => self.test.moved.push(moved),
            }
        }
    }
}

/// Returns each cause of a test once. Several sites may have got the same reason.
fn folded(found: Vec<Found>) -> Vec<Found> {
    let mut folded: Vec<Found> = Vec::new();
    for one in found {
        match folded.iter_mut().find(|known| known.is_same_cause(&one)) {
            Some(known) => known.add(one),
            None => folded.push(one),
        }
    }
    folded
}

/// Returns the causes of all changed tests: by candidate, the worst first. Tests without one are those
/// that were not recorded and are alike none that was, and those whose sites cancel out.
pub fn causes(comparison: &Comparison, explanations: &Explanations) -> Vec<Cause> {
    let mut drafts = Drafts::new();
    let mut of_recorded = Vec::new();
    let mut others = Vec::new();
    let recorded = explanations.tests.iter().filter(|test| !test.is_asked);
    let recorded: BTreeMap<(&CellId, usize), &Explained> =
        recorded.map(|test| ((&test.cell, test.candidate), test)).collect();
    let groups = Groups::new(comparison);
    for (index, view) in changed(comparison) {
        let alike = groups.of(&view);
        let Some(explained) = recorded.get(&(&view.cell.id, view.pair.candidate)) else {
            others.extend(alike.map(|alike| (index, view, alike)));
            continue;
        };
        let mut found = of_rows(comparison, &view, index, explained);
        if !found.iter().any(|one| one.test.is_along) {
            found.extend(of_limits(&view, index, explained));
        }
        of_recorded.push((view, alike, found));
    }
    let found = of_recorded.iter_mut().flat_map(|(view, _, found)| {
        let candidate = view.pair.candidate;
        found.iter_mut().map(move |Found { reason, effect, site, test }| {
            let most = &test.moved[0];
            Caller { change: (candidate, *effect, &most.metric, most.amount), reason, site }
        })
    });
    callees::merge(found);
    for (.., found) in &mut of_recorded {
        *found = folded(std::mem::take(found));
    }
    let mut known: BTreeMap<(Alike, Option<Executable<'_>>), (PairView<'_>, Vec<Found>)> = BTreeMap::new();
    for (view, alike, found) in of_recorded {
        if let (Some(alike), false) = (alike, found.is_empty()) {
            // Tests without call stacks have the causes that all those with them have: of their executable, or of all.
            let is_shared = |one: &Found| found.iter().any(|own| own.is_same_cause(one));
            for executable in [Some(executable_of(&view)), None] {
                match known.entry((alike.clone(), executable)) {
                    Entry::Vacant(first) => _ = first.insert((view, found.clone())),
                    Entry::Occupied(mut others) => others.get_mut().1.retain(is_shared),
                }
            }
        }
        for one in found {
            add(&mut drafts, view.pair.candidate, one);
        }
    }
    for (index, view, alike) in others {
        let may_differ = alike.is_by_allocations();
        let of_executable = known.get(&(alike.clone(), Some(executable_of(&view))));
        let Some((recorded, found)) = of_executable.or_else(|| known.get(&(alike, None))) else { continue };
        for one in found {
            let same = |moved| same_change(recorded, moved, &view, one.test.is_main && may_differ);
            let moved = one.test.moved.iter().filter_map(same);
            let moved: Vec<Moved> = moved.collect();
            let causes = drafts.entry((view.pair.candidate, one.effect)).or_default();
            let own = causes.iter_mut().find(|cause| cause.reason == one.reason);
            if let (Some(cause), false) = (own, moved.is_empty()) {
                cause.tests.push(CauseTest { cell: index, moved, is_recorded: false, ..one.test.clone() });
            }
        }
    }
    let mut causes: Vec<Cause> = drafts.into_values().flatten().collect();
    for cause in &mut causes {
        cause.tests.sort_by_key(|test| {
            let is_other_unit = Unit::of_metric(&test.moved[0].metric) != Unit::Bytes;
            // Of equal tests, the one with more checkpoints says more.
            let labels = comparison.cells[test.cell].labels.len();
            let size = Reverse((test.weight(), labels));
            (!test.is_along, !test.is_main, !test.is_recorded, is_other_unit, size)
        });
    }
    for cause in &mut causes {
        if let Reason::Dependency(changed) = &cause.reason {
            cause.manifest = manifests::line_of(changed, explanations.sources(cause.candidate));
        }
    }
    causes.sort_by_key(Cause::order);
    causes
}

/// The executable of a package.
type Executable<'a> = (&'a str, TargetKind);

fn executable_of<'a>(view: &PairView<'a>) -> Executable<'a> {
    (&view.cell.id.test.binary, view.cell.id.test.kind)
}

/// The tests that changed, with their indices.
fn changed(comparison: &Comparison) -> impl Iterator<Item = (usize, PairView<'_>)> {
    let cells = comparison.cells.iter().enumerate();
    let views = cells.flat_map(move |(index, cell)| {
        cell.pairs.iter().map(move |pair| (index, comparison.view(cell, pair)))
    });
    views.filter(|(_, view)| chosen::has_changed(view, Standing::for_pair(comparison, view)))
}

fn add(drafts: &mut Drafts, candidate: usize, found: Found) {
    let Found { reason, effect, site, test } = found;
    let causes = drafts.entry((candidate, effect)).or_default();
    match causes.iter_mut().find(|cause| cause.reason == reason) {
        Some(cause) => {
            if cause.tests.iter().all(|other| test.weight() > other.weight()) {
                cause.site = site;
            }
            cause.tests.push(test);
        }
        None => {
            causes.push(Cause { candidate, reason, effect, site, manifest: None, tests: vec![test] });
        }
    }
}

/// Returns what moved the rows of a test that changed: each reason in each direction, with the first row
/// of each metric in which it shows.
fn of_rows(comparison: &Comparison, view: &PairView<'_>, cell: usize, explained: &Explained) -> Vec<Found> {
    let changed = changed_rows(comparison, view);
    let index_of = |difference: &Difference| {
        let rows = changed.iter().filter(|(metric, _)| *metric == difference.metric);
        let mut rows =
            rows.filter(|(_, row)| compared_names(view, &difference.metric, row) == difference.checkpoints);
        let (_, row) = rows.next()?;
        view.rows.iter().position(|one| one == *row)
    };
    let rows = explained.rows.iter().map(ExplainedRow::sites);
    let rows = rows.filter_map(|difference| Some((difference, index_of(difference)?)));
    let mut found: Vec<Found> = Vec::new();
    for (number, (difference, row)) in rows.enumerate() {
        let whole = difference.whole();
        for (index, share) in shares(difference).into_iter().enumerate() {
            let effect = if share.amount < 0 { Effect::Shrinkage } else { Effect::Growth };
            let is_main = number == 0 && index == 0;
            let is_along = (share.amount < 0) == (whole < 0);
            let moved = Moved { metric: difference.metric.clone(), row, amount: share.amount, whole };
            let known = found.iter_mut().find(|one| one.reason == share.reason && one.effect == effect);
            match known {
                Some(Found { test, .. }) if test.is_along == is_along => {
                    if !test.moved.iter().any(|one| one.metric == moved.metric) {
                        test.moved.push(moved);
                    }
                }
                // A row that a cause outweighs says less than one that changed because of it.
                Some(one) if is_along => {
                    one.test = CauseTest { moved: vec![moved], is_along, ..one.test.clone() };
                    one.site = share.site.clone();
                }
                Some(_) => {}
                None => {
                    let test = CauseTest { cell, moved: vec![moved], is_main, is_along, is_recorded: true };
                    found.push(Found { reason: share.reason, effect, site: share.site.clone(), test });
                }
            }
        }
    }
    found
}

/// Returns what was live, or was allocated, where a test broke limits: the largest part of each.
fn of_limits(view: &PairView<'_>, cell: usize, explained: &Explained) -> Vec<Found> {
    let mut found: Vec<Found> = Vec::new();
    for difference in explained.limits.iter().map(ExplainedRow::sites) {
        let at = difference.checkpoints[1].as_ref();
        let Some(row) = at.and_then(|at| row_at(view, at)) else { continue };
        let Some(share) = shares(difference).into_iter().next() else { continue };
        let (metric, whole) = (difference.metric.clone(), difference.whole());
        let moved = Moved { metric, row, amount: share.amount, whole };
        if let Some(one) = found.iter_mut().find(|one| one.reason == share.reason) {
            one.test.moved.push(moved);
            continue;
        }
        let is_main = found.is_empty();
        let test = CauseTest { cell, moved: vec![moved], is_main, is_along: true, is_recorded: true };
        let (reason, site) = (share.reason, share.site.clone());
        found.push(Found { reason, effect: Effect::Limit, site, test });
    }
    found
}

/// Returns the same change of another test: its row with the same checkpoints, if that figure changed as
/// much. If it `may_differ`, the cause moved more or less by the difference. `None` if it moved nothing then.
fn same_change(
    recorded: &PairView<'_>,
    moved: &Moved,
    other: &PairView<'_>,
    may_differ: bool,
) -> Option<Moved> {
    let difference =
        |view: &PairView<'_>, row: &Match| Some(view.column(&moved.metric).at(row).delta?.difference);
    let own = &recorded.rows[moved.row];
    // A scope may have the same label.
    let name =
        |view: &PairView<'_>, row: &Match| (view.key(row).kind, compared_names(view, &moved.metric, row));
    let name_of_own = name(recorded, own);
    let row = other.rows.iter().position(|row| name(other, row) == name_of_own)?;
    let more = difference(other, &other.rows[row])? - difference(recorded, own)?;
    let more = i64::try_from(more).ok().filter(|more| *more == 0 || may_differ)?;
    let amount = moved.amount.checked_add(more)?;
    let whole = moved.whole.checked_add(more)?;
    (amount.signum() == moved.amount.signum()).then(|| Moved { row, amount, whole, ..moved.clone() })
}
