//! Named memory in the comment for a pull request: for each test the checkpoint with the most named
//! memory, by kind, and the layers that differ most.

use std::cmp::Reverse;
use std::fmt::Write as _;

use crate::markdown_text::{code_in_cell, escape, html};
use crate::tensors::chosen_devices::ChosenDevices;
use crate::tensors::layers::{changed, counts, form, largest_first, mark};
use crate::tensors::report::{TensorReport, narrow};
use crate::tensors::totals::TotalsRow;
use crate::text;
use crate::titles;
use memprof_judge::compare::comparison::{Comparison, PairView};
use memprof_judge::compare::tensor_comparison::{LayerRow, Moment, layers};
use memprof_plan::metric::Unit;
use memprof_support::counted::counted;
use memprof_support::labels;

/// The room for named memory in the comment.
const MOST_CHARACTERS: usize = 8_000;

/// List at most this many layers of a test.
const MOST_LAYERS: usize = 8;

/// Returns a section for each test with named tensors.
pub(crate) fn write(comparison: &Comparison, chosen: &ChosenDevices) -> String {
    let mut comment = String::new();
    let mut left_out = 0;
    for view in comparison.pairs() {
        let section = section(comparison, &view, chosen).unwrap_or_default();
        if comment.chars().count() + section.chars().count() > MOST_CHARACTERS {
            left_out += 1;
        } else {
            comment.push_str(&section);
        }
    }
    if left_out > 0 {
        let tests = counted(left_out, "more test");
        _ = write!(comment, "\n_The tensors of {tests} left out: the comment is full._\n");
    }
    comment
}

fn section(comparison: &Comparison, view: &PairView, chosen: &ChosenDevices) -> Option<String> {
    let tensors = TensorReport::of_pair(comparison, view).only(chosen.clone());
    let moments = tensors.moments().into_iter().filter(|moment| !tensors.devices(moment).is_empty());
    let moment = moments.max_by_key(|moment| {
        let named = (0..2).filter_map(|side| {
            let (side, place) = tensors.at(moment, side)?;
            Some(side.devices_at(place).map(|device| side.totals_at(place, device).named()).sum::<i128>())
        });
        // Among equals, the first.
        (named.max(), Reverse(moment.row))
    })?;
    let [old, new] = [&view.old.name, &view.new.name].map(|name| code_in_cell(name));
    let mut section = format!(
        "\n<details><summary>Tensors of {} at {}, {} → {}</summary>\n",
        html(&titles::title(view)),
        html(&labels::label(tensors.label(&moment))),
        html(&view.old.name),
        html(&view.new.name),
    );
    _ = write!(section, "\n| | {old} | {new} | Δ |\n| --- | ---: | ---: | ---: |\n");
    totals(&tensors, &moment, view.is_compared(), &mut section);
    if view.is_compared() && tensors.is_on_both_sides(&moment) {
        let rows = layers(&tensors.alive(&moment, 0), &tensors.alive(&moment, 1));
        differing(&rows, [&old, &new], &mut section);
    }
    section.push_str("\n</details>\n");
    Some(section)
}

fn totals(tensors: &TensorReport, moment: &Moment, is_compared: bool, section: &mut String) {
    for device in tensors.devices(moment) {
        let figures =
            [0, 1].map(|side| tensors.at(moment, side).map(|(side, place)| side.figures_at(place, &device)));
        let all: Vec<_> = figures.iter().flatten().collect();
        for line in TotalsRow::ALL.into_iter().filter(|line| line.is_shown(&all)) {
            let values = figures.each_ref().map(|figures| line.value_in(figures.as_ref()?));
            let may_compare = is_compared && (line.is_named() || tensors.is_comparable(&device));
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
    let mut changed = changed(rows);
    _ = write!(section, "\n{}\n", counts(rows, &changed));
    if changed.is_empty() {
        return;
    }
    largest_first(&mut changed);
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
        _ = writeln!(section, "| {name} | {kind} | {} | {old} | {new} |", escape(&form(row, Some(*change))));
    }
    if changed.len() > MOST_LAYERS {
        let more = counted(changed.len() - MOST_LAYERS, "more tensor");
        _ = write!(section, "\n… {more} differ\n");
    }
}
