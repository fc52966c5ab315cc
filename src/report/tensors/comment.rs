//! Named memory in the comment for a pull request: of each test the checkpoint where most is named, by kind, and the layers
//! that differ most.

use std::cmp::Reverse;
use std::fmt::Write as _;

use crate::compare::comparison::{Comparison, PairView};
use crate::compare::tensor_comparison::{LayerChange, LayerRow, Moment, layers};
use crate::plan::metric::Unit;
use crate::report::markdown_text::{code, escape};
use crate::report::summary;
use crate::report::tensors::layers::{counts, form, mark};
use crate::report::tensors::totals::{TensorReport, TotalsRow, narrow};
use crate::report::text;
use crate::support::counted::counted;
use crate::support::labels;

/// What all of it may take of the comment.
const MOST_CHARACTERS: usize = 8_000;

/// How many layers of a test are listed.
const MOST_LAYERS: usize = 8;

/// A section for each test in which something is named; empty where nothing is.
pub(in crate::report) fn write(comparison: &Comparison) -> String {
    let mut comment = String::new();
    let mut left_out = 0;
    for view in comparison.pairs() {
        let section = section(comparison, &view).unwrap_or_default();
        if comment.chars().count() + section.chars().count() > MOST_CHARACTERS {
            left_out += 1;
        } else {
            comment.push_str(&section);
        }
    }
    if left_out > 0 {
        _ = write!(
            comment,
            "\n_The tensors of {} left out for want of room._\n",
            counted(left_out, "more test")
        );
    }
    comment
}

fn section(comparison: &Comparison, view: &PairView) -> Option<String> {
    let part = TensorReport::of_pair(comparison, view);
    let moment = part.moments().into_iter().max_by_key(|moment| {
        let named = (0..2).filter_map(|side| {
            let (side, place) = part.at(moment, side)?;
            Some(side.devices_at(place).map(|device| side.totals_at(place, device).named()).sum::<i128>())
        });
        // Of those where as much is named, the first.
        (named.max(), Reverse(moment.row))
    })?;
    let [old, new] = [&view.old.name, &view.new.name].map(|name| code(name));
    let mut section = format!(
        "\n<details><summary>Tensors of {} at {}, {} → {}</summary>\n",
        escape(&summary::title(view)),
        escape(part.label(&moment)),
        escape(&view.old.name),
        escape(&view.new.name),
    );
    _ = write!(section, "\n| | {old} | {new} | Δ |\n| --- | ---: | ---: | ---: |\n");
    totals(&part, &moment, view.is_compared(), &mut section);
    if view.is_compared() && part.is_on_both_sides(&moment) {
        let rows = layers(&part.alive(&moment, 0), &part.alive(&moment, 1));
        differing(&rows, [&old, &new], &mut section);
    }
    section.push_str("\n</details>\n");
    Some(section)
}

fn totals(part: &TensorReport, moment: &Moment, is_compared: bool, section: &mut String) {
    for device in part.devices(moment) {
        let figures =
            [0, 1].map(|side| part.at(moment, side).map(|(side, place)| side.figures_at(place, &device)));
        let all: Vec<_> = figures.iter().flatten().collect();
        for line in TotalsRow::ALL.into_iter().filter(|line| line.is_shown(&all)) {
            let values = figures.each_ref().map(|figures| line.of(figures.as_ref()?));
            let may_compare = is_compared && (line.is_named() || part.is_comparable(&device));
            let difference = match values {
                [Some(old), Some(new)] if may_compare => text::difference(new - old, Unit::Bytes),
                _ => String::new(),
            };
            let [old, new] = values.map(|value| {
                value.map_or_else(|| text::NONE.to_owned(), |value| text::figure(narrow(value), Unit::Bytes))
            });
            let name = escape(&format!("{device}: {}", line.label()));
            _ = writeln!(section, "| {name} | {old} | {new} | {difference} |");
        }
    }
}

fn differing(rows: &[LayerRow], names: [&str; 2], section: &mut String) {
    let mut changed: Vec<(&LayerRow, LayerChange)> =
        rows.iter().filter_map(|row| Some((row, row.change()?))).collect();
    _ = write!(section, "\n{}\n", counts(rows, &changed));
    if changed.is_empty() {
        return;
    }
    changed.sort_by_key(|(row, _)| Reverse(row.grown().abs()));
    let [old, new] = names;
    _ = write!(section, "\n| layer | kind | shape | {old} | {new} |\n| --- | --- | --- | ---: | ---: |\n");
    for (row, change) in changed.iter().take(MOST_LAYERS) {
        let description = row.one().description;
        let [old, new] = row.sides.map(|side| {
            side.map_or_else(
                || text::NONE.to_owned(),
                |side| text::figure(narrow(side.counted.into()), Unit::Bytes),
            )
        });
        let name = escape(&labels::cut(&format!("{} {}", mark(Some(*change)), description.name), 80));
        let kind = description.kind.singular();
        _ = writeln!(section, "| {name} | {kind} | {} | {old} | {new} |", escape(&form(row, *change)));
    }
    if changed.len() > MOST_LAYERS {
        _ = write!(section, "\n… {} more differ\n", counted(changed.len() - MOST_LAYERS, "tensor"));
    }
}
