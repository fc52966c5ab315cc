//! The table of `--aa`: how much each metric varies between runs of one commit.

use std::io::{self, Write};

use crate::text;
use memprof_judge::compare::noise::NoiseRecord;
use memprof_plan::metric::Unit;
use memprof_support::counted::counted;
use memprof_support::labels::{label, one_line};

/// Writes one line per metric.
pub fn render(record: &NoiseRecord, out: &mut dyn Write) -> io::Result<()> {
    let mut metrics: Vec<&str> = Vec::new();
    for figure in &record.figures {
        if !metrics.contains(&figure.metric.as_str()) {
            metrics.push(&figure.metric);
        }
    }
    if metrics.is_empty() {
        return writeln!(out, "no test passed on both sides, so the noise is unknown");
    }
    writeln!(out, "Noise of {} against itself", record.commit.get(..7).unwrap_or(&record.commit))?;
    let width = metrics.iter().map(|metric| metric.len()).max().unwrap_or(0);
    for metric in metrics {
        let figures = || record.figures.iter().filter(|figure| figure.metric == metric);
        let exact = figures().filter(|figure| figure.spread == 0).count();
        let Some(worst) = figures().max_by_key(|figure| figure.spread) else { continue };
        let noise = if worst.spread == 0 {
            format!("{} exact", counted(exact, "figure"))
        } else {
            let unit = Unit::of_metric(metric);
            let spread = text::figure(i64::try_from(worst.spread).unwrap_or(i64::MAX), unit);
            #[expect(clippy::cast_precision_loss, reason = "a percentage is for reading")]
            let percent = match worst.most {
                1.. => format!(" ({:.2} %)", worst.spread as f64 * 100.0 / worst.most as f64),
                _ => String::new(),
            };
            let number = if worst.occurrence > 1 { format!(" #{}", worst.occurrence) } else { String::new() };
            let place = format!("'{}{number}' of {}", label(&worst.checkpoint), one_line(&worst.title));
            format!(
                "{exact} of {} exact; largest spread {spread}{percent} at {place}",
                counted(figures().count(), "figure")
            )
        };
        writeln!(out, " {metric:<width$}  {noise}")?;
    }
    Ok(())
}
