//! Named memory as boxes: by device, then by kind, then by layer, with what nobody named.

use serde::Serialize;

use crate::html::page_test::PageTest;
use crate::html::plain::shown;
use crate::tensors::report::{TensorReport, narrow};
use memprof_judge::compare::comparison::{Comparison, PairView};
use memprof_judge::compare::tensor_comparison::layers;
use memprof_plan::metric::Unit;

/// Smaller tensors are left to the rest of their device.
const MOST_BOXES: usize = 2000;

/// The named memory of a test in the moment at which it is highest.
#[derive(Serialize)]
pub(super) struct Treemap {
    unit: Unit,
    /// The revisions of the two sides.
    refs: [usize; 2],
    label: String,
    /// The device, the kind, the layer, and the bytes of each side.
    boxes: Vec<(String, &'static str, String, [Option<i64>; 2])>,
    /// The live bytes of all devices that no tensor explains; not known if one device's are not.
    rest: [Option<i64>; 2],
}

/// Whether a run of the test named any tensor, or had a forward pass. Most tests do not, and a look
/// at all checkpoints takes long.
pub(super) fn has_layers(comparison: &Comparison, view: &PairView<'_>) -> bool {
    let mut runs = view.baseline.runs.iter().chain(&view.candidate.runs);
    names_tensors(comparison, view) || runs.any(|run| !comparison.runs[*run].measurement.layers.is_empty())
}

/// Whether a run of the test named any tensor.
fn names_tensors(comparison: &Comparison, view: &PairView<'_>) -> bool {
    let mut runs = view.baseline.runs.iter().chain(&view.candidate.runs);
    runs.any(|run| !comparison.runs[*run].measurement.tensors.is_empty())
}

/// Returns the boxes of a test: of its first candidate, or of the only revision.
pub(super) fn treemap(comparison: &Comparison, test: &PageTest<'_>) -> Option<Treemap> {
    let side = test.sides.first().filter(|side| names_tensors(comparison, &side.view))?;
    let tensors = if side.view.is_alone() {
        TensorReport::of_one(comparison, test.cell)
    } else {
        TensorReport::of_pair(comparison, &side.view)
    };
    let moments = tensors.moments();
    let moment = moments.iter().max_by_key(|moment| moment.height)?;
    let alive = [0, 1].map(|side| tensors.alive(moment, side));
    let mut boxes: Vec<_> = layers(&alive[0], &alive[1])
        .iter()
        .filter_map(|layer| {
            let one = layer.sides.iter().flatten().next()?.description;
            let bytes = layer.sides.map(|side| side.map(|side| narrow(side.counted.into())));
            let device = shown(&one.device.to_string());
            Some((device, one.kind.plural(), shown(&one.name), bytes))
        })
        .filter(|(.., bytes)| bytes.iter().flatten().any(|bytes| *bytes > 0))
        .collect();
    boxes.sort_by_key(|(.., bytes)| std::cmp::Reverse(bytes.iter().flatten().max().copied()));
    boxes.truncate(MOST_BOXES);
    let devices = tensors.devices(moment);
    let rest = [0, 1].map(|side| {
        let (side, place) = tensors.at(moment, side)?;
        let of_device = |device| side.figures_at(place, device).unattributed();
        devices.iter().map(of_device).sum::<Option<i128>>().map(narrow)
    });
    (!boxes.is_empty()).then(|| Treemap {
        unit: Unit::Bytes,
        refs: [comparison.baseline, side.view.pair.candidate],
        label: shown(tensors.label(moment)),
        boxes,
        rest,
    })
}
