//! Noise: how much figures vary between runs of one commit. `--aa` measures it, `--noise` names the
//! file that keeps it.

use std::collections::{BTreeMap, HashMap, HashSet};

use camino::Utf8Path;
use rustc_hash::FxBuildHasher;
use serde::{Deserialize, Serialize};

use crate::compare::aggregate::Column;
use crate::compare::comparison::{Comparison, PairView};
use crate::compare::matching::Key;
use crate::compare::test_kinds::TestKinds;
use crate::results::measurement::{Kind, Names};
use crate::verdict::statistics::spread;
use memprof_plan::request::TargetKind;
use memprof_plan::resolved::CellId;
use memprof_plan::rule::NoiseFigure;
use memprof_support::counted::counted;
use memprof_support::format_version;
use memprof_support::labels;
use memprof_support::regular_file::followed;
use memprof_support::user_error::UserError;

/// The version of the file's format.
pub(crate) const VERSION: u32 = 1;

const HOW_TO_WRITE: &str = "write one with `cargo memprof --aa --noise FILE`";

/// The noise file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NoiseRecord {
    /// The version of this format, `VERSION`.
    pub version: u32,
    /// The commit that was run against itself.
    pub commit: String,
    /// When it ran, RFC 3339.
    pub created: String,
    /// One entry per metric and checkpoint.
    pub figures: Vec<NoiseFigure>,
}

/// Returns the noise that a comparison of a commit with itself shows.
pub fn measured(comparison: &Comparison) -> NoiseRecord {
    let mut record = NoiseRecord {
        version: VERSION,
        commit: comparison.revisions[comparison.baseline].commit.clone(),
        created: comparison.created.clone(),
        figures: Vec::new(),
    };
    for view in comparison.pairs().filter(PairView::is_compared) {
        for metric in &comparison.metrics {
            let column = view.column(&metric.name);
            for row in view.rows {
                let of_side = |side: Option<Column<'_>>, index: Option<usize>| {
                    side.zip(index).map_or_else(Vec::new, |(column, index)| column.readings(index).collect())
                };
                let old: Vec<Option<i64>> = of_side(column.baseline, row.baseline);
                let new = of_side(column.candidate, row.candidate);
                let samples: Vec<i64> = old.iter().chain(&new).copied().flatten().collect();
                let (old, new) = view.rounds().readings(&old, &new);
                let within_rounds = old.into_iter().zip(new).map(|(old, new)| old.abs_diff(new));
                let Some(&most) = samples.iter().max() else { continue };
                let key = view.key(row);
                record.figures.push(NoiseFigure {
                    test: view.cell.id.test.to_string(),
                    kind: Some(view.cell.id.test.kind),
                    title: view.cell.id.title.clone(),
                    metric: metric.name.clone(),
                    source: view.baseline.source(&metric.name).map(str::to_owned),
                    checkpoint: view.cell.labels[key.label as usize].to_string(),
                    occurrence: key.occurrence,
                    scope: key.kind != Kind::Point,
                    spread: spread(&samples),
                    within_rounds: within_rounds.max(),
                    most,
                    runs: samples.len(),
                });
            }
        }
    }
    record
}

fn kinds(comparison: &Comparison) -> TestKinds {
    let tests = comparison.cells.iter().map(|cell| &cell.id.test);
    TestKinds::from_tests(tests.map(|test| (test.to_string(), test.kind)))
}

/// Reads a noise file. An error names the file and says how to write one.
pub fn read(file: &Utf8Path) -> anyhow::Result<Vec<NoiseFigure>> {
    let text = followed::text(file)
        .map_err(|error| UserError::new(format!("--noise: {error}")).help(HOW_TO_WRITE))?;
    format_version::refuse_newer(text.as_bytes(), file, VERSION)?;
    let record: NoiseRecord = serde_json::from_str(&text)
        .map_err(|error| labels::message(&error.to_string()))
        .map_err(|error| UserError::new(format!("{file} is not a noise file: {error}")).help(HOW_TO_WRITE))?;
    Ok(record.figures)
}

/// Returns how far runs are `apart` in a metric at a checkpoint, which is named as in the report, if the figures came
/// from this source. `None` as the checkpoint means the whole test: the most at any of its checkpoints.
pub fn known_at(
    figures: &[NoiseFigure],
    cell: &CellId,
    metric: &str,
    source: Option<&str>,
    checkpoint: Option<&str>,
    apart: fn(&NoiseFigure) -> u64,
) -> Option<u64> {
    let test = cell.test.to_string();
    // If the file states kinds for this test, an entry without one fits none of them for certain.
    let is_stated = figures.iter().any(|figure| figure.test == test && figure.kind.is_some());
    let stated = is_stated.then_some(cell.test.kind);
    let is_meant = |figure: &&NoiseFigure| {
        let kind = if figure.scope { Kind::Scope } else { Kind::Point };
        let labels = || Names::from_iter([Box::from(figure.checkpoint.as_str())]);
        let shown = || Key { label: 0, occurrence: figure.occurrence, kind }.shown(&labels());
        figure.test == test
            && figure.kind == stated
            && figure.title == cell.title
            && figure.metric == metric
            && figure.source.as_deref() == source
            && checkpoint.map_or(!figure.scope, |checkpoint| shown() == checkpoint)
    };
    figures.iter().filter(is_meant).map(apart).max()
}

/// Known noise by test, metric and checkpoint.
#[derive(Default)]
pub(crate) struct KnownNoise<'a> {
    figures: HashMap<NoiseKey<'a>, &'a NoiseFigure, FxBuildHasher>,
    /// The tests for which the file states kinds. An entry of these without one fits none of them for certain.
    stated: HashSet<&'a str>,
    kinds: TestKinds,
}

#[derive(PartialEq, Eq, Hash)]
struct NoiseKey<'a> {
    test: &'a str,
    kind: Option<TargetKind>,
    title: &'a str,
    metric: &'a str,
    checkpoint: &'a str,
    occurrence: u32,
    scope: bool,
}

impl<'a> KnownNoise<'a> {
    /// Indexes figures for the tests of a comparison. If a key occurs several times, the last entry wins.
    pub fn new(figures: &'a [NoiseFigure], comparison: &Comparison) -> Self {
        if figures.is_empty() {
            return Self::default();
        }
        let key = |figure: &'a NoiseFigure| NoiseKey {
            test: &figure.test,
            kind: figure.kind,
            title: &figure.title,
            metric: &figure.metric,
            checkpoint: &figure.checkpoint,
            occurrence: figure.occurrence,
            scope: figure.scope,
        };
        let stated = figures.iter().filter(|figure| figure.kind.is_some());
        let stated = stated.map(|figure| figure.test.as_str()).collect();
        let figures = figures.iter().map(|figure| (key(figure), figure)).collect();
        Self { figures, stated, kinds: kinds(comparison) }
    }

    /// Returns a note on the tests whose noise is not used, because the file does not state their kind.
    pub(crate) fn note(&self) -> Option<String> {
        let unstated = self.figures.keys().filter(|key| key.kind.is_none()).map(|key| key.test);
        let listed = unstated.filter_map(|test| Some((test, self.kinds.listed(test)?)));
        let tests: BTreeMap<&str, String> = listed.collect();
        let (test, kinds) = tests.first_key_value()?;
        let others = match tests.len() - 1 {
            0 => String::new(),
            more => format!(" and {}", counted(more, "more test")),
        };
        Some(format!(
            "the noise of {test}{others} is not used: there are tests of that name in {kinds}, and the noise file does \
             not say which it is about; record it again: cargo memprof --aa --noise FILE"
        ))
    }

    /// Returns how much a metric varies at a checkpoint, if the known figures came from the same
    /// source.
    pub(crate) fn variation(
        &self,
        test: &str,
        view: &PairView<'_>,
        metric: &str,
        key: Key,
    ) -> Option<&'a NoiseFigure> {
        if self.figures.is_empty() {
            return None;
        }
        let kind = view.cell.id.test.kind;
        let noise_key = |stated: Option<TargetKind>| NoiseKey {
            test,
            kind: stated,
            title: &view.cell.id.title,
            metric,
            checkpoint: &view.cell.labels[key.label as usize],
            occurrence: key.occurrence,
            scope: key.kind != Kind::Point,
        };
        let stated = self.stated.contains(test).then_some(kind);
        let figure = self.figures.get(&noise_key(stated)).filter(|_| self.kinds.fits(stated, test, kind))?;
        (figure.source.as_deref() == view.baseline.source(metric)).then_some(figure)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use memprof_plan::resolved::TestId;

    #[test]
    fn a_search_finds_what_is_known_of_its_figure_from_the_same_source() {
        let test =
            TestId { package: "p".into(), binary: "b".into(), kind: TargetKind::Lib, name: "t".into() };
        let cell = CellId { test, params: Vec::new(), title: "t".into(), program: None };
        let figure = |checkpoint: &str, occurrence, scope, spread| NoiseFigure {
            test: cell.test.to_string(),
            kind: None,
            title: "t".into(),
            metric: "cpu.peak".into(),
            source: Some("status".into()),
            checkpoint: checkpoint.into(),
            occurrence,
            scope,
            spread,
            within_rounds: None,
            most: 100,
            runs: 5,
        };
        let figures = [figure("row", 1, false, 4), figure("row", 2, false, 7), figure("row", 1, true, 90)];
        let known =
            |metric, source, at| known_at(&figures, &cell, metric, Some(source), at, |one| one.spread);
        assert_eq!(known("cpu.peak", "status", None), Some(7));
        assert_eq!(known("cpu.peak", "status", Some("row")), Some(4));
        assert_eq!(known("cpu.peak", "status", Some("row #2")), Some(7));
        assert_eq!(known("cpu.peak", "status", Some("row (scope)")), Some(90));
        assert_eq!(known("cpu.peak", "rusage", None), None);
        assert_eq!(known("cpu.now", "status", None), None);

        let of_kind = |kind, spread| NoiseFigure { kind: Some(kind), ..figure("row", 1, false, spread) };
        let without = figure("row", 1, false, 50);
        let known = |figures: &[NoiseFigure]| {
            known_at(figures, &cell, "cpu.peak", Some("status"), None, |one| one.spread)
        };
        let of_both = [of_kind(TargetKind::Lib, 4), of_kind(TargetKind::Bin, 60), without.clone()];
        assert_eq!(known(&of_both), Some(4));
        assert_eq!(known(&[of_kind(TargetKind::Bin, 60), without]), None);
    }
}
