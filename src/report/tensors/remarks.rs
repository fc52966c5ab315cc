//! What stands below the figures of named memory: what is not known and why, what cannot be, and what the figures are.

use std::io::{self, Write};

use indexmap::IndexMap;

use crate::compare::tensor_comparison::DeviceFigures;
use crate::report::page::{Page, Tone};
use crate::report::tensors::totals::TensorReport;
use crate::results::tensor_record::TensorDevice;
use crate::support::counted::{counted, grouped};

impl TensorReport<'_> {
    /// What is not known of a device, and what cannot be.
    pub(in crate::report) fn oddities(
        &self,
        page: Page,
        device: &TensorDevice,
        figures: &[Option<DeviceFigures>],
        out: &mut dyn Write,
    ) -> io::Result<()> {
        // What is the same of both is said once.
        let mut lines: IndexMap<[String; 2], (Vec<&str>, Tone)> = IndexMap::new();
        for (name, figures) in self.names.iter().zip(figures) {
            let Some(figures) = figures else { continue };
            let mut say = |before: &str, after: String, tone| {
                lines.entry([before.to_owned(), after]).or_insert((Vec::new(), tone)).0.push(name);
            };
            if let Err(reason) = &figures.live {
                say("the rest is not known of", format!(": {reason}"), Tone::Quiet);
            }
            if figures.unattributed().is_some_and(|rest| rest < 0) {
                let more =
                    " more is named than is live: something named is freed already, or another allocator's";
                say("in", more.to_owned(), Tone::Growth);
            }
            let totals = &figures.totals;
            if totals.with_allocated > 0 && totals.with_allocated < totals.storages {
                let [known, all] =
                    [totals.with_allocated, totals.storages].map(|count| grouped(count.into()));
                say("in", format!(" the rounding of {known} of {all} storages is known"), Tone::Quiet);
            }
        }
        for ([before, after], (names, tone)) in lines {
            page.line(&format!("{device}: {before} {}{after}", names.join(" and ")), " ", tone, out)?;
        }
        Ok(())
    }

    /// That tensors were named which no checkpoint met.
    pub(in crate::report) fn unseen(&self, page: Page, out: &mut dyn Write) -> io::Result<()> {
        let sides = self
            .sides
            .iter()
            .map(|side| side.as_ref().map_or(0, |side| side.measurement.tensors.namings.len()));
        let named: Vec<String> = (self.names.iter().zip(sides))
            .filter(|(_, namings)| *namings > 0)
            .map(|(name, namings)| format!("{} in {name}", counted(namings, "tensor")))
            .collect();
        if named.is_empty() {
            return Ok(());
        }
        let line = format!(
            "what was named was alive at no checkpoint ({}): `memprof::checkpoint!` before the guard is dropped shows it",
            named.join(", ")
        );
        page.line(&line, " ", Tone::Quiet, out)
    }

    /// What the figures are, once below them.
    pub(in crate::report) fn remarks(&self, page: Page, out: &mut dyn Write) -> io::Result<()> {
        for (name, side) in self.names.iter().zip(&self.sides) {
            let differing = side.as_ref().map_or(0, |side| side.differing);
            if differing > 0 {
                let checkpoints = counted(differing, "checkpoint");
                let line = format!(
                    "{name}: its runs name different tensors at {checkpoints}; shown is the first run"
                );
                page.line(&line, " ", Tone::Growth, out)?;
            }
        }
        let first = if self.runs > 1 { ", all in the first run" } else { "" };
        let line = format!(
            "unattributed is live less all that is named; the rest at the peak is the peak since the checkpoint before less the \
             weights, gradients and optimizer state named at this one{first}"
        );
        page.line(&line, " ", Tone::Quiet, out)
    }
}
