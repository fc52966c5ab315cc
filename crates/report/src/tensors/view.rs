//! Named memory below a test's table, and `--view tensors`.

use std::fmt::Write as _;
use std::io::{self, Write};

use crate::frame::Foot;
use crate::options::Options;
use crate::page::{Page, Tone};
use crate::selection::MetricFilter;
use crate::tensors::chosen_devices::ChosenDevices;
use crate::tensors::layers::ShownChanges;
use crate::tensors::report::TensorReport;
use crate::titles;
use crate::troubles;
use memprof_judge::compare::comparison::{Cell, Comparison, PairView};
use memprof_judge::compare::tensor_comparison::{LayerRow, Moment, highest, layers};
use memprof_judge::compare::tensor_states::Alive;
use memprof_support::counted::counted;

/// Show at most this many states of the named memory below a table, and in the view.
const MOST_MOMENTS: usize = 4;
const MOST_MOMENTS_OF_VIEW: usize = 12;

const NO_TENSOR: &str =
    "no tensor was named: `let _named = memprof::tensor(memprof::Tensor { name, bytes, .. });` names one";

/// Writes a pair's named memory below its table, if there is any.
pub fn render(
    comparison: &Comparison,
    view: &PairView,
    options: &Options,
    out: &mut dyn Write,
) -> io::Result<()> {
    let tensors = TensorReport::of_pair(comparison, view).only(ChosenDevices::from_options(options));
    let page = Page::new(options);
    let moments = tensors.moments();
    let shown = if options.all_rows() { moments.clone() } else { highest(&moments, MOST_MOMENTS) };
    let mut shown_before = ShownChanges::default();
    for moment in &shown {
        writeln!(out)?;
        tensors.head(page, moment, out)?;
        tensors.totals(page, moment, out)?;
        tensors.unnamed_in_short(page, moment, out)?;
        tensors.pools(page, moment, out)?;
        tensors.differing(page, moment, &mut shown_before, options, out)?;
    }
    if shown.len() < moments.len() {
        let line = format!("{}: --view tensors, --rows all", left_out(moments.len() - shown.len()));
        page.line(&line, " ", Tone::Quiet, out)?;
    }
    tensors.end(page, shown.is_empty(), options, out)
}

/// Writes a single revision's named memory of a test, if there is any.
pub(crate) fn render_one(
    comparison: &Comparison,
    cell: &Cell,
    options: &Options,
    out: &mut dyn Write,
) -> io::Result<()> {
    let tensors = TensorReport::of_one(comparison, cell).only(ChosenDevices::from_options(options));
    if tensors.says_nothing() { Ok(()) } else { tensors.whole(Page::new(options), options, out) }
}

/// Writes all tensors of each test: of each candidate beside the baseline, or of a single revision.
pub(crate) fn render_view(comparison: &Comparison, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    let page = Page::new(options);
    page.reasons(comparison, options, out)?;
    let mut is_empty = true;
    if comparison.revisions.len() == 1 {
        for cell in &comparison.cells {
            let tensors = TensorReport::of_one(comparison, cell).only(ChosenDevices::from_options(options));
            if tensors.says_nothing() {
                continue;
            }
            is_empty = false;
            let title = titles::full_title_of(&cell.id);
            page.line(&format!("{title} · {}", comparison.revisions[0].name), "", Tone::Heading, out)?;
            tensors.whole(page, options, out)?;
            writeln!(out)?;
        }
    }
    for view in comparison.pairs() {
        let tensors = TensorReport::of_pair(comparison, &view).only(ChosenDevices::from_options(options));
        let troubles = troubles::troubles(comparison, &view);
        let has_none = tensors.says_nothing();
        if has_none && troubles.is_empty() {
            continue;
        }
        is_empty &= has_none;
        page.title(&view, out)?;
        tensors.whole(page, options, out)?;
        for trouble in &troubles {
            page.headline(trouble, out)?;
        }
        writeln!(out)?;
    }
    if is_empty {
        page.line(NO_TENSOR, "", Tone::Quiet, out)?;
    }
    let filter = MetricFilter::new(options);
    page.whole_troubles(comparison, out)?;
    Foot { comparison, options, filter: &filter, answers: &[], not_judged: None, remarks: Vec::new() }
        .write(page, out)
}

fn left_out(count: usize) -> String {
    format!("… {} of named tensors not shown (none is higher)", counted(count, "other set"))
}

impl TensorReport<'_> {
    fn head(&self, page: Page, moment: &Moment, out: &mut dyn Write) -> io::Result<()> {
        let mut line = format!("tensors at {}", self.label(moment));
        if moment.rows > 1 {
            _ = write!(line, ", the highest of {} with the same tensors", counted(moment.rows, "checkpoint"));
        }
        page.line(&line, "", Tone::Heading, out)
    }

    /// Writes all named memory, layer by layer.
    fn whole(&self, page: Page, options: &Options, out: &mut dyn Write) -> io::Result<()> {
        let moments = self.moments();
        let shown =
            if options.all_rows() { moments.clone() } else { highest(&moments, MOST_MOMENTS_OF_VIEW) };
        for (number, moment) in shown.iter().enumerate() {
            if number > 0 {
                writeln!(out)?;
            }
            self.head(page, moment, out)?;
            self.totals(page, moment, out)?;
            self.pools(page, moment, out)?;
            self.elements(page, moment, out)?;
            let rows = match self.view {
                Some(_) => layers(&self.alive(moment, 0), &self.alive(moment, 1)),
                None => layers(&self.alive(moment, 0), &[]),
            };
            for device in self.devices(moment) {
                let of_device: Vec<&LayerRow> =
                    rows.iter().filter(|row| row.one().description.device == device).collect();
                writeln!(out)?;
                self.layers(page, &device, &of_device, options, out)?;
                self.unnamed_sizes(page, moment, &device, options, out)?;
            }
        }
        if shown.len() < moments.len() {
            let line = format!("{}: --rows all", left_out(moments.len() - shown.len()));
            page.line(&line, " ", Tone::Quiet, out)?;
        }
        self.end(page, shown.is_empty(), options, out)
    }

    /// Writes how many elements the tensors of each device have. Tensors that share a storage count once.
    fn elements(&self, page: Page, moment: &Moment, out: &mut dyn Write) -> io::Result<()> {
        let alive: Vec<_> = (0..self.names.len()).map(|side| self.alive(moment, side)).collect();
        for device in self.devices(moment) {
            let of_side = |(name, alive): (&String, &Vec<Alive<'_>>)| {
                let own =
                    alive.iter().filter(|one| one.description.device == device && one.shares_with.is_none());
                let product = |shape: &[u64]| shape.iter().fold(1, |all: u64, one| all.saturating_mul(*one));
                let elements =
                    own.fold(0, |all: u64, one| all.saturating_add(product(&one.description.shape)));
                format!("{} in {name}", counted(usize::try_from(elements).unwrap_or(usize::MAX), "element"))
            };
            let sides: Vec<String> = self.names.iter().zip(&alive).map(of_side).collect();
            page.line(&format!("{device}: {}", sides.join(", ")), " ", Tone::Quiet, out)?;
        }
        Ok(())
    }

    /// Whether there is neither a named tensor nor a forward pass.
    fn says_nothing(&self) -> bool {
        self.is_empty() && self.has_no_passes()
    }

    /// Writes what follows the named memory: remarks, and the layers of the forward passes.
    fn end(&self, page: Page, is_unseen: bool, options: &Options, out: &mut dyn Write) -> io::Result<()> {
        if is_unseen {
            self.unseen(page, out)?;
        } else {
            self.remarks(page, out)?;
        }
        self.passes(page, options, out)
    }
}
