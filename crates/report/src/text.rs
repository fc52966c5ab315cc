//! Formats figures and labels for people: units, signs, percentages, shortened paths.

use std::borrow::Cow;

use memprof_judge::compare::comparison::{Delta, PairView, Ruling};
use memprof_judge::compare::matching::{Key, Match, RowChange};
use memprof_judge::verdict::kinds::Verdict;
use memprof_plan::metric::Unit;
use memprof_support::bytes::Bytes;
use memprof_support::counted::grouped;
use memprof_support::labels::width;

/// Marks a difference within noise.
pub(crate) const WITHIN_NOISE: char = '~';

/// Marks a missing figure.
pub(crate) const NONE: &str = "—";

/// Formats a figure with its unit.
pub(crate) fn figure(value: i64, unit: Unit) -> String {
    match unit {
        Unit::Bytes => format!("{}{}", sign(value), Bytes(value.unsigned_abs())),
        Unit::Count => grouped(value.into()),
        Unit::Nanoseconds => format!("{}{}", sign(value), duration(value.unsigned_abs().into())),
    }
}

/// Formats two figures with one unit, if they have the same: `9.85 → 17.6 MiB`.
pub(crate) fn from_to(baseline: i64, candidate: i64, unit: Unit) -> String {
    let [old, new] = [baseline, candidate].map(|value| figure(value, unit));
    let unit_of = |text: &str| text.rsplit_once(' ').map(|(_, unit)| unit.to_owned());
    match (old.rsplit_once(' '), unit_of(&new)) {
        (Some((number, unit)), Some(other)) if unit == other => format!("{number} → {new}"),
        _ => format!("{old} → {new}"),
    }
}

fn sign(value: i64) -> &'static str {
    if value < 0 { "-" } else { "" }
}

/// Formats a signed difference with its unit; `=` for zero.
pub(crate) fn difference(difference: i128, unit: Unit) -> String {
    let plus = if difference > 0 { "+" } else { "-" };
    match unit {
        _ if difference == 0 => "=".to_owned(),
        Unit::Bytes => Bytes::delta(difference),
        Unit::Count => format!("{plus}{}", grouped(difference.abs())),
        Unit::Nanoseconds => format!("{plus}{}", duration(difference.unsigned_abs())),
    }
}

/// Formats a difference in percent with three digits; from ten times the baseline on, as a factor.
pub(crate) fn percent(delta: &Delta) -> String {
    let Some(percent) = delta.percent.filter(|_| delta.difference != 0) else { return String::new() };
    let magnitude = percent.abs();
    if percent >= 899.5 {
        let factor = percent / 100.0 + 1.0;
        return format!("×{}", digits(factor));
    }
    let sign = if percent > 0.0 { '+' } else { '-' };
    if magnitude < 0.005 { "<0.01 %".to_owned() } else { format!("{sign}{} %", digits(magnitude)) }
}

/// Formats three significant digits, at most two of them after the point.
fn digits(value: f64) -> String {
    if value < 9.995 {
        format!("{value:.2}")
    } else if value < 99.95 {
        format!("{value:.1}")
    } else {
        format!("{value:.0}")
    }
}

/// Formats nanoseconds with three significant digits, in ns, µs, ms or s.
fn duration(nanoseconds: u128) -> String {
    if nanoseconds < 1000 {
        return format!("{nanoseconds} ns");
    }
    #[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
    let mut value = nanoseconds as f64 / 1e3;
    let mut units = ["µs", "ms", "s"].iter();
    let mut unit = units.next().unwrap_or(&"");
    // 999.5 would print as 1000, so use the next unit from there on.
    while value >= 999.5 {
        let Some(next) = units.next() else { break };
        value /= 1000.0;
        unit = next;
    }
    format!("{} {unit}", digits(value))
}

/// Returns the sign of a difference: `▲` regressed, `▼` improved, `?` inconclusive, `~` within
/// noise. Other differences have none.
pub(crate) fn sign_of(ruling: Option<Ruling>, difference: i128) -> Option<char> {
    match ruling?.verdict {
        Verdict::Regressed => Some('▲'),
        Verdict::Improved => Some('▼'),
        Verdict::Inconclusive => Some('?'),
        _ => is_within_noise(ruling, difference).then_some(WITHIN_NOISE),
    }
}

/// Whether a difference is within noise: there may be no change at all.
pub(crate) fn is_within_noise(ruling: Option<Ruling>, difference: i128) -> bool {
    ruling.is_some_and(|ruling| ruling.is_within_noise(difference))
}

/// Returns the limit of a figure above it: `4.00 MiB`; `4.00 MiB (4194304 B, exceeded by 1 B)` if the figure looks
/// the same.
pub(crate) fn limit(limit: u64, value: i64, unit: Unit) -> String {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let shown = figure(limit, unit);
    let symbol = match unit {
        Unit::Bytes => "B",
        Unit::Nanoseconds => "ns",
        Unit::Count => return shown,
    };
    if value <= limit || figure(value, unit) != shown {
        return shown;
    }
    format!("{shown} ({limit} {symbol}, exceeded by {} {symbol})", value - limit)
}

/// Returns `, and 3 later ones`.
pub(crate) fn later(others: usize) -> String {
    format!(", and {others} later {}", if others == 1 { "one" } else { "ones" })
}

/// Returns a row's label with its change: `+ added`, `- removed`, `old → new`.
pub(crate) fn row_label(view: &PairView, row: &Match) -> String {
    labelled(view, row, |key| key.shown(&view.cell.labels))
}

/// Returns a row's label with its change, of the names that `name` gives.
pub(crate) fn labelled(view: &PairView, row: &Match, name: impl Fn(Key) -> String) -> String {
    let label = name(view.key(row));
    match (view.change(row), view.new_key(row)) {
        (Some(RowChange::Added), _) => format!("+ {label}"),
        (Some(RowChange::Removed), _) => format!("- {label}"),
        (_, Some(new)) => format!("{label} → {}", name(new)),
        _ => label,
    }
}

/// Shortens a Rust path to about this width. Drops modules in angle brackets, then leading ones, never the
/// type and the name at the end.
pub(crate) fn cut_path(path: &str, columns: usize) -> Cow<'_, str> {
    if width(path) <= columns {
        return Cow::Borrowed(path);
    }
    let path = without_inner_modules(path);
    if width(&path) <= columns {
        return Cow::Owned(path);
    }
    let mut depth = 0_usize;
    let bytes = path.as_bytes();
    let mut starts = Vec::new();
    for (index, &byte) in bytes.iter().enumerate() {
        match byte {
            b'<' => depth += 1,
            b'>' => depth = depth.saturating_sub(1),
            b':' if depth == 0 && index > 0 && bytes[index - 1] == b':' => starts.push(index + 1),
            _ => {}
        }
    }
    // Keep at least a type and a name.
    starts.truncate(starts.len().saturating_sub(1));
    let mut rest = starts.iter().map(|&start| &path[start..]);
    let fitting = rest.clone().find(|rest| width(rest) + 3 <= columns).or(rest.next_back());
    let cut = fitting.map(|rest| format!("…::{rest}"));
    Cow::Owned(cut.unwrap_or(path))
}

/// Returns a path without the modules of types in angle brackets: `<a::Type as b::Trait>::f` is
/// `<Type as Trait>::f`.
fn without_inner_modules(path: &str) -> String {
    let mut text = String::with_capacity(path.len());
    let mut depth = 0_usize;
    let mut rest = path;
    while let Some(first) = rest.chars().next() {
        let length = rest.find(|one: char| !one.is_alphanumeric() && one != '_').unwrap_or(rest.len());
        let (word, after) = rest.split_at(length);
        let is_module = depth > 0 && first.is_lowercase() && !text.ends_with("::");
        match after.strip_prefix("::") {
            Some(after) if is_module => rest = after,
            _ if length > 0 => {
                text.push_str(word);
                rest = after;
            }
            _ => {
                depth = match first {
                    '<' => depth + 1,
                    // The end of an arrow is no bracket.
                    '>' if !text.ends_with('-') => depth.saturating_sub(1),
                    _ => depth,
                };
                text.push(first);
                rest = &rest[first.len_utf8()..];
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_units() {
        assert_eq!(figure(44_145_050, Unit::Bytes), "42.1 MiB");
        assert_eq!(figure(-2048, Unit::Bytes), "-2.00 KiB");
        assert_eq!(figure(1_234_567, Unit::Count), "1,234,567");
        let times = [0, 999, 1000, 999_499, 999_500, 12_345_678, 83_400_000_000, 5_000_000_000_000];
        let shown = times.map(|time| figure(time, Unit::Nanoseconds));
        assert_eq!(from_to(10_328_474, 18_454_938, Unit::Bytes), "9.85 → 17.6 MiB");
        assert_eq!(from_to(0, 2048, Unit::Bytes), "0 B → 2.00 KiB");
        assert_eq!(from_to(-5, 1_000, Unit::Count), "-5 → 1,000");
        assert_eq!(shown, ["0 ns", "999 ns", "1.00 µs", "999 µs", "1.00 ms", "12.3 ms", "83.4 s", "5000 s"]);
    }

    #[test]
    fn differences_have_a_sign_and_zero_is_an_equals_sign() {
        assert_eq!(difference(0, Unit::Count), "=");
        assert_eq!(difference(12_034, Unit::Count), "+12,034");
        assert_eq!(difference(-1_500_000, Unit::Nanoseconds), "-1.50 ms");
        assert_eq!(difference(2048, Unit::Bytes), "+2.00 KiB");
    }

    #[test]
    fn large_percentages_become_factors() {
        let shown = |old, new| percent(&Delta::between(old, new));
        assert_eq!(shown(1000, 1302), "+30.2 %");
        assert_eq!(shown(1000, 997), "-0.30 %");
        assert_eq!(shown(1_000_000, 1_000_001), "<0.01 %");
        assert_eq!(shown(100, 900), "+800 %");
        assert_eq!(shown(100, 1230), "×12.3");
        assert_eq!(shown(100, 0), "-100 %");
        assert_eq!(shown(100, 100), "");
        assert_eq!(shown(0, 100), "");
    }

    #[test]
    fn a_path_is_cut_at_its_modules() {
        let path = "candle_transformers::models::marian::EncoderLayer::forward";
        assert_eq!(cut_path(path, 80), path);
        assert_eq!(cut_path(path, 36), "…::marian::EncoderLayer::forward");
        assert_eq!(cut_path(path, 30), "…::EncoderLayer::forward");
        assert_eq!(cut_path(path, 5), "…::EncoderLayer::forward");
        assert_eq!(
            cut_path("a::b::<c::Encoder as d::Module>::forward", 5),
            "…::<Encoder as Module>::forward"
        );
        let path = "<petgraph::graph_impl::Graph<N, E> as petgraph::visit::Visitable>::visit_map";
        assert_eq!(cut_path(path, 60), "<Graph<N, E> as Visitable>::visit_map");
        assert_eq!(
            cut_path("<bytes::bytes::Bytes as core::convert::From<a::B>>::from", 20),
            "<Bytes as From<B>>::from"
        );
        assert_eq!(cut_path("forward", 3), "forward");
        assert_eq!(cut_path("bart::forward", 3), "bart::forward");
    }
}
