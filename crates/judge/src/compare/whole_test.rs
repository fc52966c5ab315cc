//! One figure for a whole test, from the figures at its checkpoints.

use memprof_plan::metric::{Figure, known};

/// Returns a metric's figure for a whole test: the greatest peak, the sum of what is counted
/// between checkpoints, or for all other metrics the last figure. The readings are those at the
/// test's checkpoints, in order, without scopes and calls. `None` without a reading.
pub fn figure(metric: &str, readings: impl IntoIterator<Item = i64>) -> Option<i64> {
    combined(known(metric).figure, readings)
}

/// Returns the figure of several intervals.
pub(crate) fn combined(figure: Figure, readings: impl IntoIterator<Item = i64>) -> Option<i64> {
    let readings = readings.into_iter();
    match figure {
        Figure::Peak => readings.max(),
        Figure::Total => readings.reduce(i64::saturating_add),
        Figure::Level => readings.last(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peaks_have_a_maximum_counts_a_sum_and_levels_an_end() {
        let readings = [3, 9, 4];
        for (metric, expected) in [
            ("heap.peak", 9),
            ("heap.peak_above_start", 9),
            ("gpu.0.pool.used_peak", 9),
            ("pool.torch.in_use_peak", 9),
            ("pool.torch.in_use", 4),
            ("heap.count", 16),
            ("heap.live", 4),
            ("time", 4),
        ] {
            assert_eq!(figure(metric, readings), Some(expected), "{metric}");
        }
        assert_eq!(figure("heap.count", []), None);
    }
}
