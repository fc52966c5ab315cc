//! `csv=tensors`: a row per named tensor of a test.

use std::collections::BTreeMap;
use std::io::{self, Write};

use indexmap::IndexMap;

use crate::compare::comparison::Comparison;
use crate::report::csv::cell_columns::CellColumns;
use crate::report::csv::pivot::{Field, Pivot};
use crate::results::measurement::Measurement;
use crate::results::tensor_record::Description;

/// A tensor's namings in one run: under this name, of this kind, on this device.
#[derive(Clone, Copy)]
struct NamedTensor<'a> {
    largest: &'a Description,
    times: i64,
}

/// Writes the tensors of the first run that passed, at each revision.
pub fn render(comparison: &Comparison, out: &mut dyn Write) -> io::Result<()> {
    let cells = CellColumns::new(comparison);
    let keys = ["tensor", "kind", "device"].map(str::to_owned);
    let head = cells.headings().into_iter().chain(keys);
    let mut table = Pivot::new(comparison, head.collect());
    for (number, cell) in comparison.cells.iter().enumerate() {
        for (revision, side) in cell.sides.iter().enumerate() {
            let Some(run) = side.runs.first() else { continue };
            for (names, tensor) in tensors(&comparison.runs[*run].measurement) {
                let key = cells.values(&cell.id).into_iter().chain(names).collect();
                table.add(number, key, revision, tensor.fields());
            }
        }
    }
    table.write(out)
}

/// Returns the tensors of a run by name, kind and device, in the order of naming.
fn tensors(measurement: &Measurement) -> IndexMap<[String; 3], NamedTensor<'_>> {
    let record = &measurement.tensors;
    let mut tensors: IndexMap<[String; 3], NamedTensor> = IndexMap::new();
    for naming in 0..record.namings.len() {
        let one = record.description(naming);
        let names = [one.name.to_string(), one.kind.singular().to_owned(), one.device.to_string()];
        let known = tensors.entry(names).or_insert(NamedTensor { largest: one, times: 0 });
        known.times += 1;
        if one.bytes > known.largest.bytes {
            known.largest = one;
        }
    }
    tensors
}

impl NamedTensor<'_> {
    fn fields(&self) -> BTreeMap<String, Field> {
        let number = |value: u64| Field::Number(i64::try_from(value).unwrap_or(i64::MAX));
        let shape: Vec<String> = self.largest.shape.iter().map(u64::to_string).collect();
        let mut fields = BTreeMap::from([
            ("bytes".to_owned(), number(self.largest.bytes)),
            ("dtype".to_owned(), Field::Text(self.largest.dtype.to_string())),
            ("shape".to_owned(), Field::Text(format!("[{}]", shape.join(", ")))),
            ("times".to_owned(), Field::Number(self.times)),
        ]);
        if let Some(allocated) = self.largest.allocated {
            fields.insert("allocated".to_owned(), number(allocated));
        }
        fields
    }
}
