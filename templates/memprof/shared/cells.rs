//! The reports of `measure` in a live notebook, shown by its kernel.

use std::fmt::{self, Write};
use std::ops::Deref;

use crate::shared::usage::Usage;

/// What the calls of [`measure`](crate::measure) since the last call of [`cells`](crate::cells)
/// used: a slice of [`CellUsage`]. A notebook shows it as a table.
#[derive(Clone, Debug)]
pub struct Cells {
    reports: Vec<CellUsage>,
    note: &'static str,
}

/// One call of [`measure`](crate::measure).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CellUsage {
    /// The call's label.
    pub label: String,
    /// What it used.
    pub used: Usage,
}

impl Cells {
    pub(crate) const fn new(reports: Vec<CellUsage>, note: &'static str) -> Self {
        Self { reports, note }
    }

    /// Shows the reports in a notebook: as text, and as a table in HTML. evcxr calls it for the last
    /// expression of a cell.
    pub fn evcxr_display(&self) {
        let mut rows = String::new();
        for CellUsage { label, used } in &self.reports {
            let _ = write!(rows, "<tr><td>{}</td>{}</tr>", escaped(label), html_cells(used));
        }
        show(&self.to_string(), &format!("{}{}</table><p>{}</p>", HEADER, rows, escaped(self.note)));
    }
}

impl Deref for Cells {
    type Target = [CellUsage];

    fn deref(&self) -> &[CellUsage] {
        &self.reports
    }
}

impl fmt::Display for Cells {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for CellUsage { label, used } in &self.reports {
            writeln!(formatter, "{label}: {used}")?;
        }
        formatter.write_str(self.note)
    }
}

impl Usage {
    /// Shows the figures in a notebook: as text, and as a table in HTML. evcxr calls it for the last
    /// expression of a cell.
    pub fn evcxr_display(&self) {
        let row = format!("<tr><td></td>{}</tr></table>", html_cells(self));
        show(&format!("{self:#}"), &format!("{HEADER}{row}"));
    }
}

const HEADER: &str = "<table><tr><th></th><th>heap</th><th>resident</th><th>GPUs</th><th>time</th></tr>";

fn html_cells(used: &Usage) -> String {
    let mut gpus = String::new();
    for gpu in &used.gpus {
        let _ = write!(gpus, "GPU {}: {} ", gpu.device, gpu.memory);
    }
    let gpus = if gpus.is_empty() { "—".to_owned() } else { gpus };
    let cells = [used.heap.to_string(), used.cpu.to_string(), gpus, format!("{:.1?}", used.time)];
    let cell = |text: &String| format!("<td>{}</td>", escaped(text));
    cells.iter().map(cell).collect()
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Prints both forms between the marks that evcxr looks for.
fn show(plain: &str, html: &str) {
    for (kind, content) in [("text/plain", plain), ("text/html", html)] {
        println!("EVCXR_BEGIN_CONTENT {kind}\n{content}\nEVCXR_END_CONTENT");
    }
}
