//! The call sites of a difference as rows, and what limits them. Every format shows these texts.

use std::sync::Arc;

use crate::text::{difference as signed, figure};
use crate::why::{threads, words};
use memprof_judge::why::agreement::Agreement;
use memprof_judge::why::class::Class;
use memprof_judge::why::difference::{Difference, Elements, Group, GroupKind, Measure};
use memprof_judge::why::frame::Frame;
use memprof_judge::why::grouping::GroupBy;
use memprof_judge::why::hunks::HunkAt;
use memprof_judge::why::stacks::displayed_from;
use memprof_plan::metric::Unit;
use memprof_support::counted::grouped;
use memprof_support::labels::one_line;

/// How much to show of a row's sites.
#[derive(Clone, Debug)]
pub struct Sites<'a> {
    /// The name of the candidate, or of the only revision.
    pub candidate: &'a str,
    /// At most this many groups.
    pub most: usize,
    /// This many frames of each.
    pub frames: usize,
    /// How the runs with call stacks compare with the plain ones, by side.
    pub agreements: Vec<Agreement>,
}

/// The sites that differ most, and the rest in one row.
pub(crate) struct SiteRows<'a> {
    /// What each row is: `function`, `module`, `crate`, `hunk`, `type`, `thread`.
    pub by: &'static str,
    pub rows: Vec<SiteRow<'a>>,
    /// What limits the answer.
    pub remarks: Vec<String>,
}

/// A group of sites.
pub(crate) struct SiteRow<'a> {
    /// The difference, or the figure if there is one side only.
    pub value: i64,
    /// The same with its unit.
    pub amount: String,
    /// The part of the whole figure, if there is one side only.
    pub share: Option<String>,
    /// The function, or `elsewhere`.
    pub name: String,
    /// The file and line.
    pub location: String,
    /// What the diff has to do with it; of a thread, who frees.
    pub class: String,
    /// The place in the diff.
    pub hunk: Option<&'a HunkAt>,
    /// The functions that lead to it, the nearest first, each with its location.
    pub callers: Vec<[String; 2]>,
    /// Whether it is all that has no row of its own.
    pub is_rest: bool,
}

impl<'a> SiteRows<'a> {
    pub(crate) fn new(difference: &'a Difference, sites: &Sites<'_>) -> Self {
        let groups = difference.groups.iter().filter(|group| difference.of_group(group) != 0);
        let mut rows: Vec<SiteRow<'a>> =
            groups.take(sites.most).map(|group| SiteRow::new(difference, group, sites)).collect();
        let elsewhere = difference.elsewhere(rows.len());
        if elsewhere != 0 || rows.is_empty() {
            rows.push(SiteRow::elsewhere(difference, elsewhere));
        }
        let by = match difference.by {
            GroupBy::Site | GroupBy::Line | GroupBy::Owner | GroupBy::Function => "function",
            by => by.as_str(),
        };
        Self { by, rows, remarks: remarks(difference, &sites.agreements) }
    }
}

impl<'a> SiteRow<'a> {
    fn new(difference: &Difference, group: &'a Group, sites: &Sites<'_>) -> Self {
        let stack: Vec<&Frame> = group.stack.iter().map(Arc::as_ref).collect();
        let callers = displayed_from(&stack, group.first).into_iter().skip(1);
        let caller = |frame: &Frame| {
            [frame.name(), frame.location().unwrap_or_default()].map(|text| one_line(&text).into_owned())
        };
        Self {
            name: match &group.kind {
                GroupKind::NoType(reason) => format!("no type: {}", reason.words()),
                GroupKind::Thread { name, .. } => format!("thread {}", one_line(name)),
                _ => format!("{}{}", one_line(group.name()), elements(difference, group)),
            },
            location: one_line(group.location().unwrap_or_default()).into_owned(),
            class: match &group.kind {
                GroupKind::Thread { .. } => threads::freed_in_words(group),
                _ => one_line(&words::class(group, sites.candidate)).into_owned(),
            },
            hunk: group.class.as_ref().and_then(Class::hunk),
            callers: callers.take(sites.frames.saturating_sub(1)).map(caller).collect(),
            is_rest: false,
            ..Self::elsewhere(difference, difference.of_group(group))
        }
    }

    fn elsewhere(difference: &Difference, value: i64) -> Self {
        let unit = Unit::of_metric(&difference.metric);
        let is_alone = difference.is_alone();
        let whole = i128::from(difference.whole());
        // Rounded to the nearest.
        let share = || (200 * i128::from(value) + whole).div_euclid(2 * whole);
        Self {
            value,
            amount: if is_alone { figure(value, unit) } else { signed(value.into(), unit) },
            share: (is_alone && whole > 0).then(|| format!("{} %", share())),
            name: "elsewhere".to_owned(),
            location: String::new(),
            class: String::new(),
            hunk: None,
            callers: Vec::new(),
            is_rest: true,
        }
    }

    /// Returns the amount, and its share if it has one.
    pub(crate) fn amount_and_share(&self) -> String {
        let share = self.share.as_ref().map_or_else(String::new, |share| format!(", {share}"));
        format!("{}{share}", self.amount)
    }

    /// Returns the place in the diff behind the class, without the file if the location names it.
    pub(crate) fn hunk_in_words(&self) -> Option<(&str, String)> {
        let at = self.hunk?;
        let is_beside = self.location.starts_with(&format!("{}:", at.path));
        Some((if is_beside { "" } else { &at.path }, at.hunk.to_string()))
    }
}

/// Says that the figures are estimates, and how good they are.
pub(crate) fn estimate(difference: &Difference) -> Option<String> {
    let sample = figure(i64::try_from(difference.sample?).ok()?, Unit::Bytes);
    let first = difference.groups.iter().find_map(|group| difference.standard_error(group));
    let error = figure(i64::try_from(first.unwrap_or(0)).ok()?, Unit::of_metric(&difference.metric));
    Some(format!("estimates from one sample in {sample}; the first has a standard error of ±{error}"))
}

/// Returns the elements of a type: ` (1,000 → 3,000 × 24 B)`, ` (8 × 24 → 32 B)`, ` (room for 896 → 1,792)`.
fn elements(difference: &Difference, group: &Group) -> String {
    let sides = difference.elements(group);
    let words = |of: fn(Elements) -> u64| match sides.map(|side| side.map(of)) {
        [Some(old), Some(new)] if old != new => format!("{} → {}", grouped(old.into()), grouped(new.into())),
        [Some(one), _] | [None, Some(one)] => grouped(one.into()),
        [None, None] => String::new(),
    };
    if sides == [None; 2] {
        return match difference.room(group) {
            [Some(old), Some(new)] if old != new => {
                format!(" (room for {} → {})", grouped(old.into()), grouped(new.into()))
            }
            [_, Some(one)] | [Some(one), None] => format!(" (room for {})", grouped(one.into())),
            [None, None] => String::new(),
        };
    }
    format!(" ({} × {} B)", words(|side| side.count), words(|side| side.size))
}

/// Returns how much of the figures has a type: `97 % of the bytes have a type (baseline 96 %)`.
fn typed_share(difference: &Difference) -> Option<String> {
    let typed = difference.typed()?;
    let share = |side: usize| {
        let whole = difference.measure.get(difference.totals[side]?);
        // Not rounded up, so that 100 % is all.
        (whole > 0).then(|| 100 * i128::from(typed[side]) / i128::from(whole))
    };
    let what = if difference.measure == Measure::Count { "allocations" } else { "bytes" };
    match [share(0), share(1)] {
        [Some(old), Some(new)] => Some(format!("{new} % of the {what} have a type (baseline {old} %)")),
        [Some(one), None] | [None, Some(one)] => Some(format!("{one} % of the {what} have a type")),
        [None, None] => None,
    }
}

/// Returns what limits the answer, each sentence once.
fn remarks(difference: &Difference, agreements: &[Agreement]) -> Vec<String> {
    let mut remarks: Vec<String> = Vec::new();
    remarks.extend(typed_share(difference));
    remarks.extend(threads::crossing(difference));
    remarks.extend(estimate(difference));
    for agreement in agreements.iter().filter(|agreement| !agreement.is_fine()) {
        let remark = format!("the run with call stacks {agreement}");
        if !remarks.contains(&remark) {
            remarks.push(remark);
        }
    }
    let incomplete = difference.incomplete.iter();
    remarks.extend(incomplete.map(|reason| format!("call stacks are incomplete: {}", one_line(reason))));
    remarks
}
