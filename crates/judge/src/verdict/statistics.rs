//! Order statistics for few samples: medians, and the confidence interval of the shift between two
//! sets of samples, from the Mann-Whitney rank test. Assumes only that both sides have the same
//! distribution, apart from the shift.
//!
//! Hollander, Wolfe and Chicken, *Nonparametric Statistical Methods*, 3rd edition (2013): sections
//! 4.1 (exact null distribution), 4.2 (Hodges-Lehmann estimate) and 4.3 (Moses's interval).

/// Up to this many samples a side, the null distribution is exact. Beyond, it is normal to a
/// fraction of a rank.
const MOST_COUNTED: usize = 20;

/// The shift from one set of samples to another, with its confidence interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shift {
    /// The median of all differences (the Hodges-Lehmann estimate).
    pub estimate: i128,
    /// The lower bound of the interval.
    pub low: i128,
    /// The upper bound.
    pub high: i128,
}

/// Returns the median of sorted values. The mean of two middle values is rounded towards zero, so
/// that negated values have the negated median.
pub(crate) fn middle(sorted: &[i128]) -> Option<i128> {
    let last = sorted.len().checked_sub(1)?;
    Some(i128::midpoint(sorted[last / 2], sorted[sorted.len() / 2]))
}

/// Returns the difference between the highest and the lowest value.
pub fn spread(values: &[i64]) -> u64 {
    let (least, greatest) = (values.iter().min(), values.iter().max());
    least.zip(greatest).map_or(0, |(least, greatest)| greatest.abs_diff(*least))
}

/// Returns every candidate sample minus every baseline sample, sorted.
pub(crate) fn differences(baseline: &[i64], candidate: &[i64]) -> Vec<i128> {
    let each = |new: &i64| {
        let new = i128::from(*new);
        baseline.iter().map(move |old| new - i128::from(*old))
    };
    let mut differences: Vec<i128> = candidate.iter().flat_map(each).collect();
    differences.sort_unstable();
    differences
}

/// Returns the interval that contains the shift with a probability of at least `1 - level`; `None`
/// if there are too few samples for this level.
pub(crate) fn shift(baseline: &[i64], candidate: &[i64], level: f64) -> Option<Shift> {
    let rank = interval_rank(baseline.len(), candidate.len(), level)?;
    let differences = differences(baseline, candidate);
    Some(Shift {
        estimate: middle(&differences)?,
        low: differences[rank - 1],
        high: differences[differences.len() - rank],
    })
}

/// Returns the 1-based rank, from either end, of the sorted difference that bounds the interval. It
/// is one more than the largest U whose tail probability without a shift is at most `level / 2`.
fn interval_rank(old: usize, new: usize, level: f64) -> Option<usize> {
    let (few, many) = (old.min(new), old.max(new));
    if few == 0 {
        return None;
    }
    if many > MOST_COUNTED {
        return normal_rank(old, new, level);
    }
    let ways = ways_by_u(few, many);
    let total: f64 = ways.iter().map(|&ways| as_float(ways)).sum();
    let mut below = 0.0;
    let mut rank = 0;
    for &ways in &ways {
        below += as_float(ways);
        if below / total > level / 2.0 {
            break;
        }
        rank += 1;
    }
    (rank > 0).then_some(rank)
}

#[expect(clippy::cast_precision_loss, reason = "at most 40 choose 20, far below 2^53")]
fn as_float(ways: i64) -> f64 {
    ways as f64
}

/// Returns the number of orders of `few` and `many` samples with U = 0, 1, 2, …: coefficients of
/// the Gaussian binomial.
fn ways_by_u(few: usize, many: usize) -> Vec<i64> {
    let length = few * many + 1;
    let mut ways = vec![0_i64; length];
    ways[0] = 1;
    for step in 1..=few {
        for at in (many + step..length).rev() {
            ways[at] -= ways[at - (many + step)];
        }
        for at in step..length {
            ways[at] += ways[at - step];
        }
    }
    ways
}

/// The normal approximation of [`interval_rank`]. The normal quantile is Abramowitz and Stegun's
/// 26.2.23.
fn normal_rank(old: usize, new: usize, level: f64) -> Option<usize> {
    #[expect(clippy::cast_precision_loss, reason = "nobody runs a test 2^52 times")]
    let (old, new) = (old as f64, new as f64);
    let tail = (-2.0 * (level / 2.0).ln()).sqrt();
    let quantile = tail
        - (2.515_517 + tail * (0.802_853 + tail * 0.010_328))
            / (1.0 + tail * (1.432_788 + tail * (0.189_269 + tail * 0.001_308)));
    let deviation = (old * new * (old + new + 1.0) / 12.0).sqrt();
    // The half corrects for U being an integer.
    let rank = (old * new / 2.0 - quantile * deviation + 0.5).floor();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked to be positive")]
    (rank >= 1.0).then_some(rank as usize)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_null_distribution_matches_the_textbooks() {
        assert_eq!(ways_by_u(2, 2), [1, 1, 2, 1, 1]);
        assert_eq!(ways_by_u(3, 3).iter().sum::<i64>(), 20);
        assert_eq!(ways_by_u(5, 5).iter().sum::<i64>(), 252);
        // Critical values of U, two-sided 1 %, from textbook tables.
        let critical = |old, new| interval_rank(old, new, 0.01).map(|rank| rank - 1);
        assert_eq!((critical(4, 4), critical(5, 5), critical(5, 6)), (None, Some(0), Some(1)));
        assert_eq!((critical(8, 8), critical(10, 10), critical(12, 12)), (Some(7), Some(16), Some(27)));
        assert_eq!((critical(20, 20), critical(3, 20)), (Some(105), Some(3)));
    }

    #[test]
    fn the_approximation_continues_the_exact_ranks() {
        let counted = interval_rank(20, 20, 0.01).unwrap();
        let approximated = normal_rank(20, 20, 0.01).unwrap();
        assert!(counted.abs_diff(approximated) <= 1, "{counted} {approximated}");
        assert!(interval_rank(40, 40, 0.01).unwrap() > counted);
    }

    #[test]
    fn the_interval_of_five_and_five_spans_all_differences() {
        let shift = shift(&[1, 2, 3, 4, 5], &[11, 12, 13, 14, 30], 0.008).unwrap();
        assert_eq!((shift.estimate, shift.low, shift.high), (10, 6, 29));
    }

    #[test]
    fn ten_and_ten_tolerate_an_outlier_on_each_side() {
        let old = [100, 101, 102, 100, 101, 102, 100, 101, 102, 900];
        let new = [200, 201, 202, 200, 201, 202, 200, 201, 202, 2000];
        let shift = shift(&old, &new, 0.0035).unwrap();
        assert!((97..=103).contains(&shift.low) && (97..=103).contains(&shift.high), "{shift:?}");
        assert_eq!(shift.estimate, 100);
    }

    #[test]
    fn too_few_samples_give_no_interval() {
        assert_eq!(shift(&[1, 2], &[10, 20], 0.01), None);
        assert_eq!(shift(&[], &[10, 20], 0.01), None);
    }

    proptest! {
        #[test]
        fn the_other_way_round_the_shift_is_its_opposite(
            old in proptest::collection::vec(any::<i64>(), 1..14),
            new in proptest::collection::vec(any::<i64>(), 1..14),
        ) {
            let forth = shift(&old, &new, 0.01);
            let back = shift(&new, &old, 0.01);
            prop_assert_eq!(forth, back.map(|back| Shift { estimate: -back.estimate, low: -back.high, high: -back.low }));
            if let Some(shift) = forth {
                prop_assert!(shift.low <= shift.estimate && shift.estimate <= shift.high);
            }
        }
    }
}
