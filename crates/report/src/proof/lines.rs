//! The lines of a proof: a figure, a place, what is there, and what is known of it. Every format shows them.

use std::time::Duration;

use crate::bisect::answer::threshold;
use crate::bisect::headline::name;
use crate::text::{difference, figure};
use memprof_plan::metric::Unit;
use memprof_run::bisect::parts::proof::{PartGroup, ProofReport, ProvenPart};
use memprof_run::bisect::parts::record::HunkPlace;
use memprof_run::bisect::report_data::SearchResult;
use memprof_support::counted::counted;
use memprof_support::elapsed::shown;

/// A line of the report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ProofLine {
    /// What it is: `part`, `open`, `rest` or `together`.
    pub kind: &'static str,
    pub difference: i128,
    pub figure: String,
    pub place: String,
    pub what: String,
    pub note: String,
    /// Whether the difference was proven by leaving something out.
    pub is_proven: bool,
    /// The hunks, each with what it is.
    pub hunks: Vec<HunkPlace>,
    /// Some of these places stand below the line.
    pub below: Vec<String>,
}

/// At most so many places of parts that could not be told apart are named.
const MOST_PLACES: usize = 5;

/// `heap.peak: +8.85 MiB of index::builds · main (29610a7) → pr/7 (9962b2a)`
pub(crate) fn headline(report: &ProofReport) -> String {
    let params = report.params.iter().map(|(name, value)| format!(" {name}={value}"));
    let (metric, checkpoint) = (&report.query.metric, &report.query.checkpoint);
    let at = checkpoint.as_ref().map_or(String::new(), |label| format!(" at '{label}'"));
    format!(
        "{metric}: {}{at} of {}{} · {} → {}",
        signed(report.difference, report.unit),
        report.test,
        params.collect::<String>(),
        name(&report.baseline),
        name(&report.candidate)
    )
}

/// Returns the answer if no part is searched for.
pub(crate) fn no_difference(report: &ProofReport) -> Option<String> {
    let (baseline, candidate) = (report.baseline.value?, report.candidate.value?);
    let [old, new] = [baseline, candidate].map(|value| figure(value, report.unit));
    let (from, to) = (&report.baseline.name, &report.candidate.name);
    let limit = threshold(&report.threshold, report.unit);
    match report.result {
        SearchResult::Found => None,
        SearchResult::Same => {
            Some(format!("{from} and {to} do not differ by more than {limit}: {old} → {new}"))
        }
        SearchResult::Unclear => Some(format!(
            "Noise hides whether {from} and {to} differ by more than {limit}: {old} → {new}{}",
            interval(report.interval, report.unit)
        )),
    }
}

/// Returns the lines, whose figures add up to the difference.
pub(crate) fn lines(report: &ProofReport) -> Vec<ProofLine> {
    let mut lines: Vec<ProofLine> = report.parts.iter().map(|part| of_part(part, report)).collect();
    lines.extend(report.open.iter().map(|group| of_open(group, report)));
    if !report.rest.parts.is_empty() {
        lines.push(of_rest(report));
    }
    if report.together != 0
        || report.without_all.as_ref().is_some_and(|all| lines_hide(all.difference, report))
    {
        lines.push(of_together(report));
    }
    lines
}

/// Whether the parts' own figures do not add up to what they hold.
fn lines_hide(held: i128, report: &ProofReport) -> bool {
    report.parts.iter().map(|part| part.difference).sum::<i128>() != held
}

fn of_part(part: &ProvenPart, report: &ProofReport) -> ProofLine {
    let unit = report.unit;
    let saved = signed(-part.difference, unit);
    let others = counted(part.needed_by, "part");
    let need = if part.needed_by == 1 { "needs" } else { "need" };
    let mut notes = vec![match &part.reason {
        Some(reason) => format!("cannot be left out: {reason}"),
        None if part.proven && part.with_users => {
            format!("proven: without it and {others} that {need} it {saved}")
        }
        None if part.proven => format!("proven: without it {saved}"),
        None if part.difference == 0 => "without it no difference".to_owned(),
        None if part.difference.unsigned_abs() <= u128::from(report.limit) => {
            format!("without it {saved}, which is within the limit")
        }
        None => format!("without it {saved}, which is not certain"),
    }];
    if let Some(first) = notes.first_mut() {
        first.push_str(&interval(part.interval.map(|[low, high]| [-high, -low]), unit));
    }
    if let Some(alone) = part.alone.filter(|alone| *alone != part.difference) {
        notes.push(format!("alone {}", signed(alone, unit)));
    }
    if part.needed_by > 0 && !part.with_users && part.reason.is_none() {
        notes.push(format!("{others} that {need} it left out, too"));
    }
    notes.extend(part.shows_in.iter().map(|function| match &part.shows_at {
        Some(place) => format!("shows in {function} at {}", place.shown()),
        None => format!("shows in {function} (unchanged)"),
    }));
    let first = part.hunks.first();
    ProofLine {
        kind: "part",
        difference: part.difference,
        figure: signed(part.difference, unit),
        place: place_of(&part.hunks),
        what: first.and_then(|hunk| hunk.what.clone()).unwrap_or_default(),
        note: notes.join("; "),
        is_proven: part.proven,
        hunks: part.hunks.clone(),
        below: Vec::new(),
    }
}

fn of_open(group: &PartGroup, report: &ProofReport) -> ProofLine {
    let place = |hunks: &Vec<HunkPlace>| {
        let what = hunks.first().and_then(|hunk| hunk.what.as_deref());
        format!("{}{}", place_of(hunks), what.map_or(String::new(), |what| format!("  {what}")))
    };
    let mut below: Vec<String> = group.parts.iter().take(MOST_PLACES).map(place).collect();
    let more = group.parts.len().saturating_sub(MOST_PLACES);
    below.extend((more > 0).then(|| format!("… and {}", counted(more, "more part"))));
    ProofLine {
        kind: "open",
        difference: group.difference,
        figure: signed(group.difference, report.unit),
        place: size(group),
        note: format!("could not be told apart: {}", group.reason.as_deref().unwrap_or_default()),
        hunks: group.parts.concat(),
        below,
        ..ProofLine::default()
    }
}

fn of_rest(report: &ProofReport) -> ProofLine {
    let group = &report.rest;
    let verb = if group.parts.len() == 1 { "makes" } else { "make" };
    let limit = threshold(&report.threshold, report.unit);
    let is_within = group.difference.unsigned_abs() <= u128::from(report.limit);
    let note = match group.difference {
        0 => format!("{verb} no difference"),
        _ if report.varies => format!("{verb} none beyond the noise"),
        _ if is_within => format!("{verb} none beyond {limit}"),
        _ => format!("none of them makes more than {limit}"),
    };
    ProofLine {
        kind: "rest",
        difference: group.difference,
        figure: signed(group.difference, report.unit),
        place: size(group),
        note,
        hunks: group.parts.concat(),
        ..ProofLine::default()
    }
}

fn of_together(report: &ProofReport) -> ProofLine {
    let held = report.without_all.as_ref();
    let note = held.map(|held| {
        let proven = if held.proven { "proven: " } else { "" };
        let all = if held.parts == 2 { "both".to_owned() } else { format!("all {}", held.parts) };
        format!("{proven}without {all} {}", signed(-held.difference, report.unit))
    });
    ProofLine {
        kind: "together",
        difference: report.together,
        figure: signed(report.together, report.unit),
        place: "together".to_owned(),
        note: note.unwrap_or_else(|| "what they share".to_owned()),
        is_proven: held.is_some_and(|held| held.proven),
        ..ProofLine::default()
    }
}

/// `src/builder.rs:60-74 +2`
fn place_of(hunks: &[HunkPlace]) -> String {
    let place = hunks.first().map(HunkPlace::shown).unwrap_or_default();
    let more = hunks.len().saturating_sub(1);
    if more > 0 { format!("{place} +{more}") } else { place }
}

/// ` (-4.6 MiB to -4.4 MiB)`, or nothing.
fn interval(bounds: Option<[i128; 2]>, unit: Unit) -> String {
    let bounds = bounds.filter(|bounds| bounds.iter().all(|bound| i64::try_from(*bound).is_ok()));
    let bounds = bounds.map(|bounds| bounds.map(|bound| signed(bound, unit)));
    bounds.map_or_else(String::new, |[low, high]| format!(" ({low} to {high})"))
}

/// A difference with its sign; zero with its unit.
pub(crate) fn signed(value: i128, unit: Unit) -> String {
    if value == 0 { figure(0, unit) } else { difference(value, unit) }
}

/// `3 parts, 11 hunks`
fn size(group: &PartGroup) -> String {
    let (parts, hunks) = (group.parts.len(), group.count_hunks());
    let parts = counted(parts, "part");
    if hunks == group.parts.len() { parts } else { format!("{parts}, {}", counted(hunks, "hunk")) }
}

/// What to know of the figures, and what the proof took: `9 builds, 31 checks, 22 runs, 48 s`.
pub(crate) fn foot(report: &ProofReport) -> Vec<String> {
    let effort = &report.effort;
    let mut lines = Vec::new();
    if report.varies {
        let metric = &report.query.metric;
        lines.push(format!("{metric} varies between runs; each figure is the median of a commit's runs"));
    }
    lines.push(format!(
        "{}, {}, {}, {}",
        counted(effort.measured + effort.skipped, "build"),
        counted(report.checks, "check"),
        counted(effort.runs, "run"),
        shown(Duration::from_secs_f64(effort.seconds.max(0.0)))
    ));
    if report.unseparated > 0 {
        let hunks = counted(report.unseparated, "hunk");
        lines.push(format!(
            "{hunks} stayed together, those of one file or all: the limit on checks was reached"
        ));
    }
    if report.out_of_builds {
        lines.push("for more, raise --builds; what was built is kept".to_owned());
    }
    lines
}
