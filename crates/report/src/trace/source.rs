//! The annotated source of traced functions with figures by line.

use std::collections::BTreeSet;
use std::io::{self, Write};

use crate::options::Options;
use crate::page::{Group, Page, Text, Tone};
use crate::text;
use crate::trace::calls::TraceReport;
use crate::trace::families;
use memprof_judge::compare::trace_comparison::{LineFigures, LineProfile, LineRow, locations};
use memprof_plan::metric::{ABOVE_START, Figure, Unit, known};
use memprof_plan::metric_family::{MetricGroup, family_of_scope};
use memprof_support::glob;
use memprof_support::labels;

/// A line of source is cut to this width before figures move to a block below.
const LEAST_CODE: usize = 56;

impl TraceReport<'_> {
    /// Writes the source of each function with figures by line.
    pub(super) fn sources(&self, page: Page, options: &Options, out: &mut dyn Write) -> io::Result<()> {
        for profile in self.lines() {
            writeln!(out)?;
            page.line(&Self::title(&profile), "", Tone::Heading, out)?;
            self.source(page, &profile, options, out)?;
        }
        Ok(())
    }

    /// Returns a function's path and location.
    pub(crate) fn title(profile: &LineProfile) -> String {
        let place = locations(profile.at.each_ref().map(Option::as_deref));
        let part = match (profile.call, profile.every) {
            (Some(call), _) => format!("  (call {call})"),
            (None, every) if every > 1 => format!("  (one call in {every})"),
            (None, _) => String::new(),
        };
        format!("{}  {place}{part}", profile.label)
    }

    /// Writes the source of a function with the figures of each line.
    pub(crate) fn source(
        &self,
        page: Page,
        profile: &LineProfile,
        options: &Options,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let labels = self.code(&profile.rows);
        let times = profile.rows.iter().map(|row| figures_of(row, |figures| Some(figures.times)));
        let mut groups = vec![self.lines_group("times", Unit::Count, times)];
        for metric in metrics(&profile.rows, options) {
            let of_metric = |figures: &LineFigures| figures.metrics.get(metric).copied();
            let values = profile.rows.iter().map(|row| figures_of(row, of_metric));
            groups.push(self.lines_group(metric, Unit::of_metric(metric), values));
        }
        page.tables_with_long_labels(LEAST_CODE.min(page.width() / 2), "line", &labels, groups, out)?;
        for line in self.absent_columns(&profile.rows, options) {
            page.line(&line, " ", Tone::Quiet, out)?;
        }
        Ok(())
    }

    /// Says why chosen metrics have no column.
    fn absent_columns(&self, rows: &[LineRow], options: &Options) -> Vec<String> {
        if options.all {
            return Vec::new();
        }
        let measured = measured(rows);
        let asked = options.metrics.iter().flatten().filter(|name| !is_of_calls(name));
        let lacking = asked.filter(|name| !measured.iter().any(|metric| glob::matches(name, metric)));
        let reason = |name: &String| match self.absent.iter().find(|(metric, _)| glob::matches(name, metric))
        {
            Some((_, reason)) => reason.clone(),
            None => match MetricGroup::of(name) {
                Some(group) if !measured.iter().any(|metric| MetricGroup::of(metric) == Some(group)) => {
                    let name = group.as_str();
                    match group {
                        // The heap and GPUs are read unless the user chose other columns.
                        MetricGroup::Heap | MetricGroup::Gpu => {
                            format!("the test has none, or --columns leaves out {name}")
                        }
                        _ => format!("not read at traced calls; measure with --columns {name}"),
                    }
                }
                _ => "it is read at checkpoints only".to_owned(),
            },
        };
        lacking.map(|name| format!("{name} has no figures of lines: {}", reason(name))).collect()
    }

    /// Returns the numbered lines of code, marked if only one revision has them.
    fn code(&self, rows: &[LineRow]) -> Vec<Text> {
        let indent = indent(rows);
        let last = rows.iter().flat_map(|row| &row.sides).flatten().map(|(line, _)| *line).max();
        let width = last.unwrap_or(0).to_string().len();
        let label = |row: &LineRow| {
            let (mark, tone) = match &row.sides {
                _ if self.view.is_none() => (' ', Tone::Plain),
                [Some(_), None] => ('-', Tone::Structure),
                [None, Some(_)] => ('+', Tone::Structure),
                _ => (' ', Tone::Plain),
            };
            let number = row.sides.iter().flatten().next_back().map_or(0, |(line, _)| *line);
            let code = labels::one_line(row.text.get(indent..).unwrap_or_default()).into_owned();
            Text::new(format!("{mark}{number:>width$} {code}"), tone)
        };
        rows.iter().map(label).collect()
    }

    /// Returns the columns of a figure. Lines without a statement stay empty.
    fn lines_group(&self, name: &str, unit: Unit, values: impl Iterator<Item = [Option<i64>; 2]>) -> Group {
        let figure = |value: Option<i64>| match value {
            Some(0) => Text::new("0", Tone::Quiet),
            Some(value) => Text::new(text::figure(value, unit), Tone::Plain),
            None => Text::empty(),
        };
        let cells = values.map(|values| values.into_iter().take(self.names.len()).map(figure).collect());
        Group::from_cells(name.to_owned(), self.names.clone(), cells.collect())
    }
}

/// Returns a figure of both sides of a line.
fn figures_of(row: &LineRow, get: impl Fn(&LineFigures) -> Option<i64>) -> [Option<i64>; 2] {
    row.sides.each_ref().map(|side| side.as_ref().and_then(|(_, figures)| get(figures.as_ref()?)))
}

/// Returns the metrics with a figure on any line.
fn measured(rows: &[LineRow]) -> BTreeSet<&String> {
    let figures = rows.iter().flat_map(|row| row.sides.iter().flatten()).filter_map(|(_, one)| one.as_ref());
    figures.flat_map(|figures| figures.metrics.keys()).collect()
}

/// Returns the metrics to show: those that were chosen, or else peaks and sums, but no levels and
/// no counts. They are in order of their families, peaks first.
fn metrics<'a>(rows: &'a [LineRow], options: &Options) -> Vec<&'a String> {
    let all = measured(rows);
    let asked = options.metrics.as_deref().filter(|_| !options.all).unwrap_or_default();
    let is_asked = |metric: &&String| asked.iter().any(|pattern| glob::matches(pattern, metric));
    let mut metrics: Vec<&String> = all.iter().copied().filter(is_asked).collect();
    if metrics.is_empty() {
        let is_usual = |metric: &&String| {
            let known = known(metric);
            options.all
                || (known.source.unit() != Unit::Count && (known.is_total() || known.figure == Figure::Peak))
        };
        let of_lines: BTreeSet<&str> = all.iter().map(|metric| families::of_metric(metric)).collect();
        let families = families::shown(of_lines.into_iter().map(str::to_owned).collect(), options);
        let is_shown = |metric: &&String| families.iter().any(|one| one == families::of_metric(metric));
        metrics = all.into_iter().filter(is_usual).filter(is_shown).collect();
    }
    metrics.sort_by_key(|metric| (MetricGroup::of(metric), known(metric).figure != Figure::Peak, *metric));
    metrics
}

/// Whether a metric is one of scopes and calls, which lines do not have.
fn is_of_calls(metric: &str) -> bool {
    family_of_scope(metric).is_some() || metric.ends_with(ABOVE_START)
}

/// Returns the bytes of white space that all lines begin with.
fn indent(rows: &[LineRow]) -> usize {
    let of = |text: &str| text.len() - text.trim_start().len();
    rows.iter().filter(|row| !row.text.trim().is_empty()).map(|row| of(&row.text)).min().unwrap_or(0)
}
