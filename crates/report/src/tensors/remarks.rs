//! Remarks below the figures of named memory: unknown figures with reasons, inconsistencies, and
//! definitions.

use std::io::{self, Write};

use indexmap::IndexMap;

use crate::page::{Page, Tone};
use crate::tensors::report::TensorReport;
use memprof_judge::compare::tensor_comparison::DeviceFigures;
use memprof_judge::results::tensor_record::TensorDevice;
use memprof_support::counted::{counted, grouped};

impl TensorReport<'_> {
    /// Writes which figures of a device are unknown or inconsistent.
    pub(crate) fn oddities(
        &self,
        page: Page,
        device: &TensorDevice,
        figures: &[Option<DeviceFigures>],
        out: &mut dyn Write,
    ) -> io::Result<()> {
        // A remark on both sides appears once.
        let mut lines: IndexMap<[String; 2], (Vec<&str>, Tone)> = IndexMap::new();
        for (name, figures) in self.names.iter().zip(figures) {
            let Some(figures) = figures else { continue };
            let mut say = |before: &str, after: String, tone| {
                lines.entry([before.to_owned(), after]).or_insert((Vec::new(), tone)).0.push(name);
            };
            if let Err(reason) = &figures.live {
                say("unattributed memory is unknown in", format!(": {reason}"), Tone::Quiet);
            }
            if figures.unattributed().is_some_and(|rest| rest < 0) {
                let more = ", named tensors exceed live memory: some are freed already or belong to another allocator";
                say("in", more.to_owned(), Tone::Growth);
            }
            let totals = &figures.totals;
            if totals.with_allocated > 0 && totals.with_allocated < totals.storages {
                let [known, all] =
                    [totals.with_allocated, totals.storages].map(|count| grouped(count.into()));
                say("in", format!(", the rounding of only {known} of {all} storages is known"), Tone::Quiet);
            }
        }
        for ([before, after], (names, tone)) in lines {
            page.line(&format!("{device}: {before} {}{after}", names.join(" and ")), " ", tone, out)?;
        }
        Ok(())
    }

    /// Writes that no checkpoint ran while the named tensors were alive.
    pub(crate) fn unseen(&self, page: Page, out: &mut dyn Write) -> io::Result<()> {
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
            "no checkpoint ran while these tensors were alive ({}): call `memprof::checkpoint!` before dropping the guard",
            named.join(", ")
        );
        page.line(&line, " ", Tone::Quiet, out)
    }

    /// Writes which run is shown, and the definitions of the figures.
    pub(crate) fn remarks(&self, page: Page, out: &mut dyn Write) -> io::Result<()> {
        for (name, side) in self.names.iter().zip(&self.sides) {
            let differing = side.as_ref().map_or(0, |side| side.differing);
            if differing > 0 {
                let checkpoints = counted(differing, "checkpoint");
                let line =
                    format!("{name}: runs name different tensors at {checkpoints}; the first run is shown");
                page.line(&line, " ", Tone::Growth, out)?;
            }
        }
        let first = if self.runs > 1 { "; all figures are from the first run" } else { "" };
        let line = format!(
            "unattributed = live minus all named memory; activations and the rest = peak since the previous checkpoint minus \
             weights, gradients and optimizer state at this one{first}"
        );
        page.line(&line, " ", Tone::Quiet, out)
    }
}
