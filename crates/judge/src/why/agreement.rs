//! Whether a run with stacks has the figure of the plain runs.

use std::fmt;

use memprof_support::counted::grouped;

/// How the figure of a run with stacks compares with those of the plain runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Agreement {
    /// All plain runs have this figure.
    Equal,
    /// The plain runs differ among themselves, and the figure is within their range.
    WithinRange {
        /// The lowest plain figure.
        low: i64,
        /// The highest plain figure.
        high: i64,
    },
    /// Is above or below all of them.
    Differs {
        /// What it has more than the nearest plain figure.
        by: i64,
        /// Whether the figures are bytes.
        is_bytes: bool,
    },
    /// No plain run has a figure.
    Unknown,
}

impl Agreement {
    /// Compares the figure of a metric with those of the plain runs.
    pub fn compare(metric: &str, figure: i64, plain: &[i64]) -> Self {
        let (Some(&low), Some(&high)) = (plain.iter().min(), plain.iter().max()) else {
            return Self::Unknown;
        };
        let is_bytes = metric.rsplit('.').next() != Some("count");
        if figure < low || figure > high {
            let by = if figure < low { figure.saturating_sub(low) } else { figure.saturating_sub(high) };
            Self::Differs { by, is_bytes }
        } else if low == high {
            Self::Equal
        } else {
            Self::WithinRange { low, high }
        }
    }

    /// Whether the stacks explain the plain figure.
    pub fn is_fine(self) -> bool {
        matches!(self, Self::Equal | Self::WithinRange { .. })
    }
}

/// `equals the plain runs`, `differs by +1,024 bytes from the plain runs (threads, random seeds)`.
impl fmt::Display for Agreement {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Equal => formatter.write_str("equals the plain runs"),
            Self::WithinRange { low, high } => {
                let [low, high] = [low, high].map(|bound| grouped(bound.into()));
                write!(formatter, "is within the plain runs, which vary from {low} to {high}")
            }
            Self::Differs { by, is_bytes } => {
                let what = if is_bytes { "bytes" } else { "allocations" };
                let (by, sign) = (grouped(by.into()), if by > 0 { "+" } else { "" });
                write!(formatter, "differs by {sign}{by} {what} from the plain runs (threads, random seeds)")
            }
            Self::Unknown => formatter.write_str("has no plain run to compare with"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_equals_the_plain_runs_or_says_by_how_much_it_differs() {
        let of = |figure, plain: &[i64]| Agreement::compare("heap.peak", figure, plain);
        assert_eq!(of(7, &[7, 7]), Agreement::Equal);
        assert_eq!(of(7, &[6, 8]), Agreement::WithinRange { low: 6, high: 8 });
        assert_eq!(of(7, &[]), Agreement::Unknown);
        assert!(of(7, &[7]).is_fine() && !of(7, &[8]).is_fine() && !of(7, &[]).is_fine());
        let text = |metric, figure| Agreement::compare(metric, figure, &[2000, 2100]).to_string();
        assert_eq!(
            text("heap.peak", 3124),
            "differs by +1,024 bytes from the plain runs (threads, random seeds)"
        );
        assert_eq!(
            text("heap.count", 1999),
            "differs by -1 allocations from the plain runs (threads, random seeds)"
        );
    }
}
