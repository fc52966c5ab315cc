//! What is reported about one test that changed or needs attention: one line, with its worst
//! change.

use std::cmp::Reverse;
use std::fmt::Write as _;

use crate::text;
use crate::titles;
use crate::troubles;
use memprof_judge::compare::comparison::{Breach, BreachKind, Cell, Comparison, PairView, Ruling};
use memprof_judge::compare::matching::{Match, RowChange};
use memprof_judge::compare::standing::{
    Standing, WorstChange, may_have_shrunk, worst_change, worst_searchable_change,
};
use memprof_judge::results::measurement::Kind;
use memprof_judge::results::outcome::Status;
use memprof_judge::verdict::kinds::Verdict;
use memprof_judge::verdict::limits::{Expected, LEAK_FROM, LEAK_TO};
use memprof_judge::verdict::significance::{ENOUGH, Significance};
use memprof_plan::metric::Unit;
use memprof_plan::metric_family::{MetricGroup, family_of_point};
use memprof_support::counted::counted;
use memprof_support::labels;

/// Why a change of resident memory is no verdict.
const KEPT: &str = " (freed memory that the C library kept)";

/// A test, and what became of it.
pub struct Finding<'a> {
    /// The test at both revisions.
    pub view: PairView<'a>,
    /// What became of it.
    pub standing: Standing,
    /// `▲`, `▼`, `?`, `✗` or `+`.
    pub sign: char,
    /// The metric that changed most; empty if none did.
    pub metric: String,
    /// `9.85 → 17.6 MiB`, or the figure above a limit.
    pub figures: String,
    /// `+7.74 MiB`.
    pub difference: String,
    /// `+79 %`.
    pub percent: String,
    /// `at 'parsed' (src/lib.rs:10), and 3 later ones`.
    pub place: String,
    /// Why there is no verdict, why a change is expected, or what went wrong.
    pub remark: String,
    /// File and line of the checkpoint, if known.
    pub source: Option<String>,
    /// The checkpoint's name; empty if it is about none.
    pub checkpoint: String,
    /// What a search can look for: the change above, or the worst one that a search can read.
    pub searched: Option<Searched>,
    /// The difference in the metric's unit, and in percent, if it is one.
    pub change: Option<(i128, Option<f64>)>,
    /// Whether it also has a change that its own metric does not show and that no cause is about.
    pub(crate) has_more: bool,
    size: (bool, bool, i128),
}

/// A change as a search takes it.
pub struct Searched {
    /// The metric.
    pub metric: String,
    /// The checkpoint, for `--checkpoint`; empty if the figure is that of the whole test.
    pub checkpoint: String,
}

impl<'a> Finding<'a> {
    /// Looks up what to report.
    pub fn for_pair(comparison: &Comparison, view: PairView<'a>, standing: Standing) -> Self {
        let empty = Self {
            view,
            standing,
            sign: sign(standing),
            metric: String::new(),
            figures: String::new(),
            difference: String::new(),
            percent: String::new(),
            place: String::new(),
            remark: String::new(),
            source: None,
            checkpoint: String::new(),
            searched: None,
            change: None,
            has_more: false,
            size: (false, false, 0),
        };
        let is_meant = |ruling: &Ruling| match standing {
            Standing::Regressed => ruling.counts(),
            Standing::Inconclusive => ruling.may_have_grown(),
            Standing::Expected | Standing::ExpectedOverLimit | Standing::MaybeExpected => {
                ruling.is_expected_growth()
            }
            Standing::Improved => ruling.verdict == Verdict::Improved,
            Standing::MaybeImproved => may_have_shrunk(ruling),
            _ => false,
        };
        let finding = match (worst_change(&view, is_meant), standing) {
            (Some(worst), _) => {
                let searched = worst_searchable_change(&view, is_meant);
                let searched = searched.and_then(|change| Searched::new(&view, &change));
                let finding = empty.with_change(comparison, &worst).with_others(&worst);
                Self { searched, ..finding }.with_limits(comparison)
            }
            (None, Standing::OverLimit | Standing::Expected | Standing::ExpectedOverLimit) => {
                empty.with_breach(comparison)
            }
            (None, Standing::Restructured) => Self { remark: restructured(&view), ..empty },
            (None, _) => Self { remark: first_trouble(comparison, &view), ..empty },
        };
        finding.with_expected(comparison)
    }

    /// Looks up what to report about a test of a single revision: figures above a limit.
    pub fn alone(comparison: &'a Comparison, cell: &'a Cell) -> Option<Self> {
        let pair = cell.alone.as_ref().filter(|pair| !pair.breaches.is_empty())?;
        let counts = pair.breaches.iter().any(Breach::counts);
        let standing = if counts { Standing::OverLimit } else { Standing::ExpectedOverLimit };
        Some(Self::for_pair(comparison, comparison.view(cell, pair), standing))
    }

    fn with_change(self, comparison: &Comparison, worst: &WorstChange) -> Self {
        let WorstChange { metric, row, ruling, .. } = *worst;
        let unit = Unit::of_metric(metric);
        let figures = self.view.column(metric).at(row);
        let Some(delta) = figures.delta else { return self };
        let sides =
            [figures.baseline, figures.candidate].map(|figure| figure.map_or(0, |figure| figure.value));
        let place = places(&self.view, worst, delta.difference);
        let remark = match (ruling.verdict, reason(comparison, ruling.expected)) {
            (Verdict::Regressed | Verdict::Inconclusive, Some(reason)) => format!("expected: {reason}"),
            (Verdict::Inconclusive, _) => {
                ruling.significance.map_or_else(String::new, |one| doubt(&one, unit))
            }
            _ => String::new(),
        };
        let is_open = ruling.verdict == Verdict::Inconclusive;
        Self {
            sign: if is_open { '?' } else { self.sign },
            metric: metric.to_owned(),
            figures: text::from_to(sides[0], sides[1], unit),
            difference: text::difference(delta.difference, unit),
            percent: text::percent(&delta),
            place,
            remark,
            source: source(&self.view, row).map(str::to_owned),
            checkpoint: text::row_label(&self.view, row),
            change: Some((delta.difference, delta.percent)),
            size: worst.rank(),
            ..self
        }
    }

    /// Adds resident memory that grew by more than the heap, the largest change in the other direction, and of
    /// resident memory what was freed and kept: `; -350 MiB heap.peak at 'parsed'`.
    fn with_others(mut self, worst: &WorstChange) -> Self {
        if self.standing == Standing::Regressed
            && MetricGroup::of(worst.metric) != Some(MetricGroup::Cpu)
            && let Some(resident) = resident_beyond_heap(&self.view)
        {
            self.add_other(&resident, &format!("{} ", resident.metric), "");
            self.has_more = true;
        }
        let is_opposite = |ruling: &Ruling| ruling.verdict == Verdict::Improved;
        if self.standing < Standing::Improved
            && let Some(opposite) = worst_change(&self.view, is_opposite)
        {
            let of_metric =
                if opposite.metric == worst.metric { String::new() } else { format!("{} ", opposite.metric) };
            self.add_other(&opposite, &of_metric, "");
        }
        if let Some(kept) = worst_change(&self.view, |ruling| ruling.is_kept) {
            self.add_other(&kept, "resident ", KEPT);
        }
        self
    }

    /// Adds what grew as expected beside a change that matters more, once for each reason.
    fn with_expected(mut self, comparison: &Comparison) -> Self {
        if !matches!(self.standing, Standing::Regressed | Standing::OverLimit | Standing::Inconclusive) {
            return self;
        }
        for index in 0..comparison.allow.len() {
            let is_meant = |ruling: &Ruling| {
                ruling.is_expected_growth() && ruling.expected.is_some_and(|expected| expected.index == index)
            };
            if let Some(expected) = worst_change(&self.view, is_meant)
                && let Some(reason) = reason(comparison, expected.ruling.expected)
            {
                self.add_other(&expected, &format!("{} ", expected.metric), &format!(", expected: {reason}"));
                self.has_more = true;
            }
        }
        self
    }

    fn add_other(&mut self, other: &WorstChange, name: &str, reason: &str) {
        let first = self.view.column(other.metric).at(other.row).delta;
        let difference = first.map_or(other.largest, |delta| delta.difference);
        let shown = text::difference(difference, Unit::of_metric(other.metric));
        let places = places(&self.view, other, difference);
        // What the remark says of a limit, or of a change without a verdict, belongs to what stands before it.
        let belongs_to_first =
            matches!(self.standing, Standing::Regressed | Standing::OverLimit | Standing::Inconclusive);
        let text =
            if belongs_to_first && !self.remark.is_empty() { &mut self.remark } else { &mut self.place };
        _ = write!(text, "; {shown} {name}{places}{reason}");
    }

    fn with_breach(self, comparison: &Comparison) -> Self {
        let broken =
            BrokenLimit::all(&self.view, |breach| breach.counts() || self.standing != Standing::OverLimit);
        let view = self.view;
        let own = OwnLimit::from_messages(comparison, &view);
        let Some((first, others)) = broken.split_first() else {
            return match own {
                Some(own) => Self { remark: own.remark, source: own.source, ..self },
                None => self,
            };
        };
        let others = others.iter().map(|other| other.sentence(comparison, &view));
        let others: Vec<String> = others.chain(own.map(|own| own.remark)).collect();
        let also = if others.is_empty() { String::new() } else { format!("; also {}", others.join("; ")) };
        Self {
            metric: first.breach.metric.clone(),
            figures: first.figure(),
            place: first.place(&view),
            remark: first.remark(comparison, &view) + &also,
            source: source(&view, &view.rows[first.breach.row]).map(str::to_owned),
            checkpoint: text::row_label(&view, &view.rows[first.breach.row]),
            size: (true, first.unit() == Unit::Bytes, first.breach.value.into()),
            ..self
        }
    }

    /// Adds the limits that the test broke beside its worst change.
    fn with_limits(mut self, comparison: &Comparison) -> Self {
        let broken = BrokenLimit::all(&self.view, Breach::counts);
        let sentences: Vec<String> =
            broken.iter().map(|broken| broken.sentence(comparison, &self.view)).collect();
        if !sentences.is_empty() {
            let separator = if self.remark.is_empty() { "" } else { "; " };
            self.remark = format!("{}{separator}over a limit: {}", self.remark, sentences.join("; "));
        }
        self
    }

    /// Returns what orders findings: by standing, then the largest change first.
    pub fn order(&self) -> (Standing, Reverse<(bool, bool, i128)>) {
        (self.standing, Reverse(self.size))
    }

    /// Returns the test's name.
    pub fn test(&self) -> String {
        titles::title(&self.view)
    }

    /// Returns place and remark: `at 'parsed' (src/lib.rs:10): limit 4.00 MiB`.
    pub(crate) fn place_and_remark(&self) -> String {
        match (self.place.is_empty(), self.remark.is_empty()) {
            (false, false) => format!("{}: {}", self.place, self.remark),
            _ => format!("{}{}", self.place, self.remark),
        }
    }

    /// Returns all in one sentence, without the test's name: `heap.peak 9.85 → 17.6 MiB, +7.74 MiB
    /// (+79 %) at …`.
    pub fn sentence(&self) -> String {
        let mut sentence = [self.metric.as_str(), &self.figures].join(" ").trim().to_owned();
        if !self.difference.is_empty() {
            sentence = format!("{sentence}, {}", self.difference);
        }
        if !self.percent.is_empty() {
            sentence = format!("{sentence} ({})", self.percent);
        }
        format!("{sentence} {}", self.place_and_remark()).trim().to_owned()
    }
}

impl Searched {
    /// Returns `None` if a search cannot find the checkpoint in each commit.
    fn new(view: &PairView, change: &WorstChange) -> Option<Self> {
        let WorstChange { metric, row, .. } = *change;
        let key = view.key(row);
        // A search reads one checkpoint, also at commits with others before it.
        let is_joined = view.column(metric).is_joined(row);
        if view.change(row) != Some(RowChange::Matched) || key.kind == Kind::Call || is_joined {
            return None;
        }
        let label = |row: &Match| -> &str { &view.cell.labels[view.key(row).label as usize] };
        let points = || view.rows.iter().filter(|row| view.key(row).kind == Kind::Point);
        let is_whole = points().all(|row| [LEAK_FROM, LEAK_TO].contains(&label(row)));
        let is_end = key.kind == Kind::Point && points().next_back() == Some(row);
        let checkpoint = if is_whole && is_end { String::new() } else { key.shown(&view.cell.labels) };
        Some(Self { metric: metric.to_owned(), checkpoint })
    }
}

/// A limit that a test broke, at its first checkpoint.
struct BrokenLimit<'a> {
    breach: &'a Breach,
    /// The number of later checkpoints.
    others: usize,
}

impl<'a> BrokenLimit<'a> {
    /// Returns each metric's limit and leak, once.
    fn all(view: &PairView<'a>, is_meant: impl Fn(&Breach) -> bool) -> Vec<Self> {
        let mut all: Vec<Self> = Vec::new();
        for breach in view.pair.breaches.iter().filter(|breach| is_meant(breach)) {
            let is_same = |known: &&mut Self| {
                (&known.breach.metric, known.breach.kind) == (&breach.metric, breach.kind)
            };
            match all.iter_mut().find(is_same) {
                Some(known) => known.others += 1,
                None => all.push(Self { breach, others: 0 }),
            }
        }
        all
    }

    fn unit(&self) -> Unit {
        Unit::of_metric(&self.breach.metric)
    }

    fn figure(&self) -> String {
        match self.breach.kind {
            BreachKind::Limit => text::figure(self.breach.value, self.unit()),
            BreachKind::Leak => text::difference(self.breach.value.into(), self.unit()),
        }
    }

    fn place(&self, view: &PairView) -> String {
        let later = if self.others > 0 { text::later(self.others) } else { String::new() };
        place(view, &view.rows[self.breach.row]) + &later
    }

    /// Returns `limit 4.00 MiB`, with the runs if one of several was the highest, and why it may be broken.
    fn remark(&self, comparison: &Comparison, view: &PairView) -> String {
        let limit = text::limit(self.breach.limit, self.breach.value, self.unit());
        let expected = reason(comparison, self.breach.expected)
            .map_or_else(String::new, |reason| format!(", expected: {reason}"));
        let place = self.breach.place.as_ref().map_or_else(String::new, |place| format!(" ({place})"));
        let column = view.column(&self.breach.metric).candidate;
        let shown =
            column.zip(view.rows[self.breach.row].candidate).and_then(|(column, at)| column.figure(at));
        let runs = view.candidate.runs.len();
        let highest = match shown {
            Some(figure) if figure.value != self.breach.value => format!(", highest of {runs} runs"),
            _ => String::new(),
        };
        match self.breach.kind {
            BreachKind::Limit => format!("limit {limit}{place}{highest}{expected}"),
            BreachKind::Leak => format!("not freed since 'start', limit {limit}{expected}"),
        }
    }

    fn sentence(&self, comparison: &Comparison, view: &PairView) -> String {
        let remark = self.remark(comparison, view);
        format!("{} {} {}, {remark}", self.breach.metric, self.figure(), self.place(view))
    }
}

/// A memory assertion of the test that does not hold.
struct OwnLimit {
    /// What the assertion says.
    remark: String,
    /// The file and line.
    source: Option<String>,
}

impl OwnLimit {
    /// Reads the message of the candidate's first run in which an assertion does not hold.
    fn from_messages(comparison: &Comparison, view: &PairView) -> Option<Self> {
        if !view.breaks_own_limit() {
            return None;
        }
        let outcomes = view.candidate.failed.iter().map(|&run| &comparison.runs[run].record.outcome);
        let mut of_limits = outcomes.filter(|outcome| outcome.status == Status::OverLimit);
        let message = of_limits.next()?.message.as_deref()?;
        // `tests/decode.rs:5:9: assert_heap_peak! at tests/decode.rs:5: the heap rose by …`
        let (place, text) = message.split_once(": ")?;
        let source = place.rsplit_once(':').map(|(source, _)| source.to_owned());
        let says_where = source.as_deref().is_some_and(|source| text.contains(source));
        let shown = if says_where { text } else { message };
        let remark = labels::one_line(shown.lines().next().unwrap_or_default()).into_owned();
        Some(Self { remark, source })
    }
}

/// Returns the regression of resident memory that does not follow from the heap's: it grew by more than the heap, and
/// by more than its limit beyond that.
pub(crate) fn resident_beyond_heap<'a>(view: &PairView<'a>) -> Option<WorstChange<'a>> {
    let (pair, rows) = (view.pair, view.rows);
    let growths = |family: &'static str| {
        let judged = pair.judged.iter().filter(move |judged| family_of_point(&judged.metric) == Some(family));
        judged.flat_map(move |judged| {
            let column = view.column(&judged.metric);
            rows.iter().filter_map(move |row| {
                let ruling = judged.at(row).filter(Ruling::counts)?;
                Some((judged.metric.as_str(), row, ruling, column.at(row).delta?.difference))
            })
        })
    };
    let of_heap = growths("heap").map(|(.., growth)| growth).max().unwrap_or(0);
    let beyond = growths("cpu").filter(|(.., ruling, growth)| {
        let limit = ruling.significance.map_or(0, |significance| significance.limit);
        *growth > of_heap + i128::from(limit)
    });
    let mut worst: Option<WorstChange<'a>> = None;
    for (metric, row, ruling, largest) in beyond {
        match &mut worst {
            None => {
                worst =
                    Some(WorstChange { metric, row, ruling, others: 0, largest, at_largest: (metric, row) });
            }
            Some(worst) if worst.metric == metric => {
                worst.others += 1;
                if largest > worst.largest {
                    (worst.largest, worst.at_largest) = (largest, (metric, row));
                }
            }
            // The level and its peak are one quantity.
            Some(_) => {}
        }
    }
    worst
}

/// Returns `at 'parsed' (src/lib.rs:10), and 3 later ones, up to +96 KiB`. `first` is the difference
/// at the first of them.
fn places(view: &PairView, worst: &WorstChange, first: i128) -> String {
    let mut places = place(view, worst.row);
    if worst.others > 0 {
        places.push_str(&text::later(worst.others));
        if worst.largest != first {
            let most = text::difference(worst.largest, Unit::of_metric(worst.metric));
            _ = write!(places, ", up to {most}");
        }
    }
    places
}

fn sign(standing: Standing) -> char {
    match standing {
        Standing::Regressed | Standing::OverLimit | Standing::Expected | Standing::ExpectedOverLimit => '▲',
        Standing::Failed | Standing::NotCompared => '✗',
        Standing::Inconclusive | Standing::MaybeExpected | Standing::MaybeImproved => '?',
        Standing::Improved => '▼',
        _ => '+',
    }
}

/// Returns `at 'parsed' (src/lib.rs:10)`.
fn place(view: &PairView, row: &Match) -> String {
    let source =
        source(view, row).map_or_else(String::new, |source| format!(" ({})", labels::one_line(source)));
    format!("at '{}'{source}", text::row_label(view, row))
}

/// Returns the checkpoint's file and line: the candidate's, else the baseline's.
pub(super) fn source<'a>(view: &PairView<'a>, row: &Match) -> Option<&'a str> {
    let of_candidate = row.candidate.and_then(|index| view.candidate.place(index));
    of_candidate.or_else(|| view.baseline.place(row.baseline?))
}

/// Returns why a change was expected, if it was.
fn reason(comparison: &Comparison, expected: Option<Expected>) -> Option<String> {
    let expected = expected.filter(|expected| !expected.has_expired)?;
    Some(labels::one_line(&comparison.allow.get(expected.index)?.reason).into_owned())
}

/// Returns why the runs allow no verdict.
fn doubt(significance: &Significance, unit: Unit) -> String {
    let Significance { samples, low, high, limit, .. } = *significance;
    match samples {
        1 => "one run a side cannot separate a change from noise".to_owned(),
        few if few < ENOUGH => {
            format!("{few} runs a side cannot separate a change from noise, {ENOUGH} can")
        }
        _ => {
            let [low, high] = [low, high].map(|bound| match bound {
                0 => "0".to_owned(),
                bound => text::difference(bound, unit),
            });
            let limit = text::figure(i64::try_from(limit).unwrap_or(i64::MAX), unit);
            format!("between {low} and {high} after {samples} runs a side, limit {limit}")
        }
    }
}

/// Returns `2 checkpoints added, 1 renamed`.
fn restructured(view: &PairView) -> String {
    let rows = view.rows.iter().filter(|row| view.key(row).kind != Kind::Call);
    let changes: Vec<_> = rows.map(|row| view.change(row)).collect();
    let words =
        [(RowChange::Added, "added"), (RowChange::Removed, "removed"), (RowChange::Renamed, "renamed")];
    let mut parts = Vec::new();
    for (change, word) in words {
        let count = changes.iter().filter(|one| **one == Some(change)).count();
        match (count, parts.is_empty()) {
            (0, _) => {}
            (count, true) => parts.push(format!("{} {word}", counted(count, "checkpoint"))),
            (count, false) => parts.push(format!("{count} {word}")),
        }
    }
    parts.join(", ")
}

/// Returns the first thing that went wrong, or that no figure may be compared.
fn first_trouble(comparison: &Comparison, view: &PairView) -> String {
    let troubles = troubles::troubles(comparison, view);
    match troubles.iter().find(|trouble| trouble.is_failure) {
        Some(trouble) => trouble.headline.clone(),
        None => "no figure may be compared".to_owned(),
    }
}
