//! `csv=layers`: a row per layer of the forward passes, and kind of memory.

use std::collections::BTreeMap;
use std::io::{self, Write};

use crate::csv::cell_columns::CellColumns;
use crate::csv::pivot::{Field, Pivot};
use memprof_judge::compare::comparison::Comparison;
use memprof_judge::results::layer_record::{LayerFigures, Passes};

/// Writes the layers of the first run that passed, at each revision. Equal passes are one.
pub fn render(comparison: &Comparison, out: &mut dyn Write) -> io::Result<()> {
    let cells = CellColumns::new(comparison);
    let keys = ["forward", "pass", "layer", "memory"].map(str::to_owned);
    let head = cells.headings().into_iter().chain(keys);
    let mut table = Pivot::new(comparison, head.collect());
    for (number, cell) in comparison.cells.iter().enumerate() {
        for (revision, side) in cell.sides.iter().enumerate() {
            let Some(run) = side.runs.first() else { continue };
            for (content, passes) in comparison.runs[*run].measurement.layers.passes() {
                for layer in &content.layers {
                    let mut key = cells.values(&cell.id);
                    key.extend([content.label.to_string(), passes.first.to_string()]);
                    let name = layer.name.as_deref().unwrap_or_default();
                    key.extend([name.to_owned(), layer.memory.to_string()]);
                    table.add(number, key, revision, fields(layer, passes));
                }
            }
        }
    }
    table.write(out)
}

fn fields(layer: &LayerFigures, passes: Passes) -> BTreeMap<String, Field> {
    let number = |value: u64| Field::Number(i64::try_from(value).unwrap_or(i64::MAX));
    let mut fields = BTreeMap::from([
        ("passes".to_owned(), number(passes.count)),
        ("calls".to_owned(), number(layer.calls)),
        ("freed_later".to_owned(), number(layer.freed_later)),
        ("retained".to_owned(), Field::Number(layer.retained)),
        ("peak".to_owned(), number(layer.peak)),
    ]);
    fields.extend(layer.allocated.map(|allocated| ("allocated".to_owned(), number(allocated))));
    fields.extend(layer.freed.map(|freed| ("freed".to_owned(), Field::Number(freed))));
    fields
}
