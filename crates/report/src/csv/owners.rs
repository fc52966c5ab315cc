//! `csv=owners`: a row per owner of memory, by `--why-by owner`.

use std::io::{self, Write};

use crate::csv::full_names;
use crate::csv::text::cell;
use crate::options::Options;
use crate::why::explained;
use crate::why::json::{WhyRoom, WhyUse};
use memprof_judge::compare::comparison::Comparison;

/// The columns.
const HEADINGS: [&str; 21] = [
    "test",
    "ref",
    "metric",
    "checkpoint",
    "occurrence",
    "name",
    "type",
    "made_in",
    "location",
    "root",
    "held_by",
    "baseline",
    "candidate",
    "difference",
    "baseline_capacity",
    "baseline_used",
    "baseline_used_bytes",
    "candidate_capacity",
    "candidate_used",
    "candidate_used_bytes",
    "title",
];

/// Writes the owners of each test, those with the largest difference first.
pub fn render(comparison: &Comparison, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    let mut table = csv::Writer::from_writer(out);
    table.write_record(HEADINGS)?;
    let names = full_names(comparison);
    let report = options.why.as_deref().map(|why| explained::report(comparison, why));
    for held in report.iter().flat_map(|report| &report.held) {
        for owner in &held.owners {
            let side = |is_there: bool, side: usize| is_there.then(|| owner.bytes[side].to_string());
            let own = owner.rooms.iter().find(|room| room.is_own);
            let room = |side: fn(&WhyRoom) -> Option<WhyUse>| {
                let of = own.and_then(side);
                // What is not certain has no number here.
                let one = |[least, most]: [u64; 2]| (least == most).then_some(least);
                let words = [
                    of.map(|of| of.capacity),
                    of.and_then(|of| one(of.used)),
                    of.and_then(|of| one(of.used_bytes?)),
                ];
                words.map(|word| word.map(|word| word.to_string()).unwrap_or_default())
            };
            let [baseline, candidate] = [room(|room| room.baseline), room(|room| room.candidate)];
            let fields = [
                names[&held.test].clone(),
                held.r#ref.clone(),
                held.metric.clone(),
                held.checkpoint.clone(),
                held.occurrence.to_string(),
                owner.name.clone(),
                owner.r#type.clone().unwrap_or_default(),
                owner.made_in.clone().unwrap_or_default(),
                owner.location.clone().unwrap_or_default(),
                owner.root.clone(),
                owner.held_by.clone(),
                side(held.baseline.is_some(), 0).unwrap_or_default(),
                side(held.candidate.is_some(), 1).unwrap_or_default(),
                owner.difference.to_string(),
            ];
            let fields = fields.iter().chain(&baseline).chain(&candidate).chain([&held.test]);
            table.write_record(fields.map(|field| cell(field).into_owned()))?;
        }
    }
    table.flush()
}
