//! Live bytes over time on one line: `▁▂▅█▃`.

use memprof_judge::results::stack_log::Timeline;

/// The heights, from nothing to the most.
const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Returns the most bytes of a timeline.
pub(crate) fn most(timeline: &Timeline) -> i64 {
    most_of(&timeline.buckets)
}

fn most_of(buckets: &[[i64; 2]]) -> i64 {
    buckets.iter().map(|[_, most]| (*most).max(0)).max().unwrap_or(0)
}

/// Returns the nanoseconds of a timeline.
pub(crate) fn length(timeline: &Timeline) -> u64 {
    timeline.width.saturating_mul(timeline.buckets.len() as u64)
}

/// Returns a timeline in at most this many columns. Each shows the most bytes of its time, so no
/// peak is lost. `most` has the full height.
pub(crate) fn sparkline(timeline: &Timeline, columns: usize, most: i64) -> String {
    let columns = columns.min(timeline.buckets.len());
    let height = |column: usize| {
        let edge = |column: usize| column * timeline.buckets.len() / columns;
        let own = most_of(&timeline.buckets[edge(column)..edge(column + 1)]);
        let [own, most] = [own, most].map(|bytes| u128::from(bytes.unsigned_abs()));
        // Anything above nothing can be told from nothing.
        let height = if most == 0 { 0 } else { (own * 7).div_ceil(most).min(7) };
        HEIGHTS[usize::try_from(height).unwrap_or(0)]
    };
    (0..columns).map(height).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(most: &[i64], columns: usize) -> String {
        let buckets = most.iter().map(|most| [0, *most]).collect();
        let timeline = Timeline { family: "heap".to_owned(), begin: 0, width: 1, buckets };
        sparkline(&timeline, columns, super::most(&timeline))
    }

    #[test]
    fn each_column_shows_the_most_of_its_time() {
        assert_eq!(line(&[0, 1, 50, 100], 80), "▁▂▅█");
        assert_eq!(line(&[0, 100, 0, 0, 7, 0], 3), "█▁▂", "no peak is lost");
        assert_eq!(line(&[0, 0], 2), "▁▁");
        assert_eq!(line(&[], 9), "");
        assert_eq!(line(&[5], 0), "");
        let long: Vec<i64> = (0..2000).collect();
        assert_eq!(line(&long, 8), "▂▃▄▅▆▇██");
    }
}
