//! Matches the checkpoints of two runs by label and occurrence. Pairs leftovers as renamed only if
//! that is unambiguous. Works on indices; labels are the caller's interned numbers.

use std::fmt::Write as _;

use rustc_hash::FxHashMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::results::measurement::{Kind, Names};
use memprof_support::labels::label;

/// The identity of a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// Number of the label, the same on both sides.
    pub label: u32,
    /// 1-based occurrence of this label.
    pub occurrence: u32,
    /// Point, scope or call. One label may have all three.
    pub kind: Kind,
}

impl Key {
    /// Returns the checkpoint's name: its label, `(scope)` or `(call)`, and `#2` for the second
    /// occurrence.
    pub fn shown(self, labels: &Names) -> String {
        let mut text = label(&labels[self.label as usize]);
        text.push_str(match self.kind {
            Kind::Point => "",
            Kind::Scope => " (scope)",
            Kind::Call => " (call)",
        });
        if self.occurrence > 1 {
            _ = write!(text, " #{}", self.occurrence);
        }
        text
    }
}

/// How a checkpoint changed from the baseline to the candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "Change")]
pub enum RowChange {
    /// On both sides under the same label.
    Matched,
    /// In the candidate only.
    Added,
    /// In the baseline only.
    Removed,
    /// On both sides, at the same place, under different labels.
    Renamed,
}

/// One row: a checkpoint of one side, or a matched pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Match {
    /// Index in the baseline.
    pub baseline: Option<usize>,
    /// Index in the candidate.
    pub candidate: Option<usize>,
}

impl Match {
    /// Returns how the row's checkpoint changed, given both sides' keys.
    pub fn change(&self, baseline: &[Key], candidate: &[Key]) -> RowChange {
        match (self.baseline, self.candidate) {
            (Some(old), Some(new)) if baseline[old] == candidate[new] => RowChange::Matched,
            (Some(_), Some(_)) => RowChange::Renamed,
            (Some(_), None) => RowChange::Removed,
            (None, _) => RowChange::Added,
        }
    }
}

/// Whether to pair leftovers with different labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Renames {
    /// If each side has exactly one leftover between the same two matched neighbours.
    Unambiguous,
    /// Never: for repeats of one program, and for incomplete runs.
    Never,
}

/// Matches two runs. Each checkpoint is in exactly one row. Rows follow the baseline; an added
/// checkpoint follows its predecessor in the candidate. Linear in time and memory.
pub(crate) fn match_checkpoints(baseline: &[Key], candidate: &[Key], renames: Renames) -> Vec<Match> {
    let mut pairs = by_key(baseline, candidate);
    if renames == Renames::Unambiguous {
        for (old, new) in alone_on_both_sides(&pairs) {
            // A call of another function in the same place is not a rename.
            if baseline[old].kind != candidate[new].kind || baseline[old].kind == Kind::Call {
                continue;
            }
            pairs.candidate_of[old] = Some(new);
            pairs.baseline_of[new] = Some(old);
        }
    }
    in_order(&pairs)
}

/// The partner of each checkpoint on the other side.
struct Pairs {
    candidate_of: Vec<Option<usize>>,
    baseline_of: Vec<Option<usize>>,
}

fn by_key(baseline: &[Key], candidate: &[Key]) -> Pairs {
    let mut candidate_of = vec![None; baseline.len()];
    let mut baseline_of = vec![None; candidate.len()];
    // Most runs begin alike. The common prefix needs no hashing.
    let prefix = baseline.iter().zip(candidate).take_while(|(old, new)| old == new).count();
    for index in 0..prefix {
        candidate_of[index] = Some(index);
        baseline_of[index] = Some(index);
    }
    // Racing threads may log a key twice. `next` chains the later ones, so that the first matches
    // the first and each is used once.
    let mut first: FxHashMap<Key, usize> = FxHashMap::default();
    let mut next: Vec<Option<usize>> = vec![None; baseline.len() - prefix];
    for index in (prefix..baseline.len()).rev() {
        next[index - prefix] = first.insert(baseline[index], index);
    }
    for (new, key) in candidate.iter().enumerate().skip(prefix) {
        if let Some(&old) = first.get(key) {
            candidate_of[old] = Some(new);
            baseline_of[new] = Some(old);
            match next[old - prefix] {
                Some(later) => first.insert(*key, later),
                None => first.remove(key),
            };
        }
    }
    Pairs { candidate_of, baseline_of }
}

/// Returns the pairs of leftovers that are alone between the same two matched neighbours.
fn alone_on_both_sides(pairs: &Pairs) -> Vec<(usize, usize)> {
    let Pairs { candidate_of, baseline_of } = pairs;
    (1..candidate_of.len().saturating_sub(1))
        .filter(|&old| candidate_of[old].is_none())
        .filter_map(|old| {
            let new = candidate_of[old - 1]? + 1;
            let after = candidate_of[old + 1]?;
            (after == new + 1 && baseline_of[new].is_none()).then_some((old, new))
        })
        .collect()
}

fn in_order(pairs: &Pairs) -> Vec<Match> {
    let Pairs { candidate_of, baseline_of } = pairs;
    let mut rows = Vec::with_capacity(candidate_of.len().max(baseline_of.len()));
    let added_from = |from: usize| {
        (from..baseline_of.len())
            .take_while(|&new| baseline_of[new].is_none())
            .map(|new| Match { baseline: None, candidate: Some(new) })
    };
    rows.extend(added_from(0));
    for (old, &new) in candidate_of.iter().enumerate() {
        rows.push(Match { baseline: Some(old), candidate: new });
        if let Some(new) = new {
            rows.extend(added_from(new + 1));
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn keys(text: &str) -> Vec<Key> {
        let mut keys: Vec<Key> = Vec::new();
        for label in text.chars().map(u32::from) {
            let before = keys.iter().filter(|key| key.label == label).count();
            keys.push(Key { label, occurrence: u32::try_from(before).unwrap() + 1, kind: Kind::Point });
        }
        keys
    }

    /// Rows as text: `a` matched, `+a` added, `-a` removed, `a>b` renamed.
    fn rows(baseline: &str, candidate: &str) -> String {
        let (old, new) = (keys(baseline), keys(candidate));
        let label = |keys: &[Key], index: Option<usize>| char::from_u32(keys[index.unwrap()].label).unwrap();
        let rows = match_checkpoints(&old, &new, Renames::Unambiguous);
        let rows = rows.iter().map(|row| match row.change(&old, &new) {
            RowChange::Matched => label(&old, row.baseline).to_string(),
            RowChange::Renamed => format!("{}>{}", label(&old, row.baseline), label(&new, row.candidate)),
            RowChange::Added => format!("+{}", label(&new, row.candidate)),
            RowChange::Removed => format!("-{}", label(&old, row.baseline)),
        });
        rows.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn equal_runs_match_row_by_row() {
        assert_eq!(rows("abcc", "abcc"), "a b c c");
    }

    #[test]
    fn an_added_checkpoint_comes_after_its_predecessor_and_shifts_nothing() {
        assert_eq!(rows("abd", "abcd"), "a b +c d");
        assert_eq!(rows("bd", "abd"), "+a b d");
        assert_eq!(rows("ab", "abcd"), "a b +c +d");
    }

    #[test]
    fn a_removed_checkpoint_keeps_its_place() {
        assert_eq!(rows("abcd", "abd"), "a b -c d");
    }

    #[test]
    fn one_leftover_on_each_side_between_the_same_neighbours_is_renamed() {
        assert_eq!(rows("axc", "ayc"), "a x>y c");
        assert_eq!(rows("axcyd", "apcqd"), "a x>p c y>q d");
    }

    #[test]
    fn what_could_be_read_in_two_ways_is_added_and_removed() {
        assert_eq!(rows("axxc", "ayc"), "a +y -x -x c");
        assert_eq!(rows("axc", "ayzc"), "a +y +z -x c");
        assert_eq!(rows("axbc", "abyc"), "a -x b +y c");
        assert_eq!(rows("axbc", "byac"), "a -x b +y c", "the neighbours are the same, but crossed");
        assert_eq!(rows("ax", "ay"), "a +y -x", "nothing follows that both have");
        assert_eq!(rows("x", "y"), "+y -x");
    }

    #[test]
    fn a_further_occurrence_is_added() {
        assert_eq!(rows("asse", "assse"), "a s s +s e");
    }

    #[test]
    fn checkpoints_in_another_order_are_matched_in_the_order_of_the_baseline() {
        assert_eq!(rows("abc", "bac"), "a b c");
    }

    #[test]
    fn a_point_and_a_scope_of_one_label_are_two_things() {
        let point = Key { label: 1, occurrence: 1, kind: Kind::Point };
        let scope = Key { kind: Kind::Scope, ..point };
        let rows = match_checkpoints(&[point, scope], &[scope, point], Renames::Unambiguous);
        let pairs: Vec<_> = rows.iter().map(|row| (row.baseline.unwrap(), row.candidate.unwrap())).collect();
        assert_eq!(pairs, [(0, 1), (1, 0)]);
    }

    #[test]
    fn two_hundred_thousand_checkpoints_are_matched_in_linear_time() {
        let key = |label, occurrence| Key { label, occurrence, kind: Kind::Point };
        let different: Vec<Key> = (0..200_000).map(|label| key(label, 1)).collect();
        let reversed: Vec<Key> = different.iter().rev().copied().collect();
        let equal: Vec<Key> = (1..=200_000).map(|occurrence| key(0, occurrence)).collect();
        let same_key = vec![key(0, 1); 200_000];
        let shifted: Vec<Key> = (100_000..300_000).map(|label| key(label, 1)).collect();
        for (old, new, rows) in [
            (&different, &reversed, 200_000),
            (&equal, &equal, 200_000),
            (&same_key, &same_key, 200_000),
            (&same_key, &different, 399_999),
            (&different, &shifted, 300_000),
        ] {
            assert_eq!(match_checkpoints(old, new, Renames::Unambiguous).len(), rows);
        }
    }

    /// Any keys, duplicates among them.
    fn any_keys() -> impl Strategy<Value = Vec<Key>> {
        let kind = prop_oneof![4 => Just(Kind::Point), 1 => Just(Kind::Scope), 1 => Just(Kind::Call)];
        let key =
            (0..6_u32, 1..4_u32, kind).prop_map(|(label, occurrence, kind)| Key { label, occurrence, kind });
        proptest::collection::vec(key, 0..24)
    }

    proptest! {
        #[test]
        fn every_checkpoint_of_each_side_is_in_exactly_one_row(old in any_keys(), new in any_keys()) {
            let rows = match_checkpoints(&old, &new, Renames::Unambiguous);
            let from_baseline: Vec<usize> = rows.iter().filter_map(|row| row.baseline).collect();
            prop_assert_eq!(from_baseline, (0..old.len()).collect::<Vec<_>>(), "in the baseline's order");
            let mut from_candidate: Vec<usize> = rows.iter().filter_map(|row| row.candidate).collect();
            from_candidate.sort_unstable();
            prop_assert_eq!(from_candidate, (0..new.len()).collect::<Vec<_>>());
        }

        #[test]
        fn an_added_row_follows_its_predecessor(old in any_keys(), new in any_keys()) {
            let rows = match_checkpoints(&old, &new, Renames::Unambiguous);
            let mut above = None;
            for row in &rows {
                if row.baseline.is_none() {
                    prop_assert_eq!(row.candidate.unwrap().checked_sub(1), above);
                }
                above = row.candidate;
            }
        }

        #[test]
        fn the_other_way_round_the_same_checkpoints_are_matched(old in any_keys(), new in any_keys()) {
            for renames in [Renames::Unambiguous, Renames::Never] {
                let mut forth: Vec<_> = match_checkpoints(&old, &new, renames)
                    .iter().map(|row| (row.baseline, row.candidate)).collect();
                let mut back: Vec<_> = match_checkpoints(&new, &old, renames)
                    .iter().map(|row| (row.candidate, row.baseline)).collect();
                forth.sort_unstable();
                back.sort_unstable();
                prop_assert_eq!(forth, back);
            }
        }

        #[test]
        fn without_renames_only_equal_keys_are_matched(old in any_keys(), new in any_keys()) {
            for row in match_checkpoints(&old, &new, Renames::Never) {
                prop_assert_ne!(row.change(&old, &new), RowChange::Renamed);
            }
        }
    }
}
