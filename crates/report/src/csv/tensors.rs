//! `csv=tensors`: a row each time that a test names a tensor.

use std::collections::BTreeMap;
use std::io::{self, Write};

use rustc_hash::FxHashMap;

use crate::csv::cell_columns::CellColumns;
use crate::csv::pivot::{Field, Pivot};
use memprof_judge::compare::comparison::Comparison;
use memprof_judge::results::measurement::Measurement;
use memprof_judge::results::tensor_record::Naming;

/// Writes the tensors of the first run that passed, at each revision. An iteration of a loop that names
/// the same tensor again is a further occurrence.
pub fn render(comparison: &Comparison, out: &mut dyn Write) -> io::Result<()> {
    let cells = CellColumns::new(comparison);
    let keys = ["tensor", "kind", "device", "occurrence"].map(str::to_owned);
    let head = cells.headings().into_iter().chain(keys);
    let mut table = Pivot::new(comparison, head.collect());
    for (number, cell) in comparison.cells.iter().enumerate() {
        for (revision, side) in cell.sides.iter().enumerate() {
            let Some(run) = side.runs.first() else { continue };
            let measurement = &comparison.runs[*run].measurement;
            let mut occurrences: FxHashMap<[String; 3], u64> = FxHashMap::default();
            for (index, naming) in measurement.tensors.namings.iter().enumerate() {
                let one = measurement.tensors.description(index);
                let names = [one.name.to_string(), one.kind.singular().to_owned(), one.device.to_string()];
                let occurrence = occurrences.entry(names.clone()).or_default();
                *occurrence += 1;
                let key = cells.values(&cell.id).into_iter().chain(names).chain([occurrence.to_string()]);
                table.add(number, key.collect(), revision, fields(measurement, index, naming));
            }
        }
    }
    table.write(out)
}

/// Returns a tensor's figures, and when it was alive: from and until the `sequence` of `csv=long`.
fn fields(measurement: &Measurement, index: usize, naming: &Naming) -> BTreeMap<String, Field> {
    let one = measurement.tensors.description(index);
    let number = |value: u64| Field::Number(i64::try_from(value).unwrap_or(i64::MAX));
    // Numbers that name something have no differences.
    let name = |value: u64| Field::Text(value.to_string());
    let shape: Vec<String> = one.shape.iter().map(u64::to_string).collect();
    let mut fields = BTreeMap::from([
        ("bytes".to_owned(), number(one.bytes)),
        ("dtype".to_owned(), Field::Text(one.dtype.to_string())),
        ("shape".to_owned(), Field::Text(format!("[{}]", shape.join(", ")))),
        ("from".to_owned(), name(naming.from)),
    ]);
    fields.extend(one.allocated.map(|allocated| ("allocated".to_owned(), number(allocated))));
    fields.extend((naming.storage != 0).then(|| ("storage".to_owned(), name(naming.storage))));
    fields.extend((naming.until != u64::MAX).then(|| ("until".to_owned(), name(naming.until))));
    let layers = &measurement.layers;
    let pass = (!layers.is_empty()).then(|| Field::Text(layers.pass_at(naming.from).to_string()));
    fields.extend(pass.map(|pass| ("pass".to_owned(), pass)));
    fields
}
