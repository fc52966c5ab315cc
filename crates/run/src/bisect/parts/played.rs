//! Proofs of programs whose memory is known, played without a build.

use std::collections::BTreeSet;

use crate::bisect::observations::{ChangeRule, HasChanged, Observation, Observations};
use crate::bisect::parts::measurement::{CONFIRMED, Judged, PartMeasurement, Step};
use crate::bisect::parts::record::tests::search;
use crate::bisect::parts::record::{BASELINE, CANDIDATE, Parts, PartsSearch};
use crate::bisect::parts::shares::{PartShare, Share, Shares, Way};
use memprof_judge::verdict::significance::{Noise, Thresholds};
use memprof_plan::quantity::Threshold;

/// Commits whose further runs fail.
static NONE: BTreeSet<usize> = BTreeSet::new();

/// A proof of a program whose memory is known.
struct Played {
    search: PartsSearch,
    observations: Observations,
    suspects: Vec<usize>,
    rule: ChangeRule,
}

impl Played {
    fn new(search: PartsSearch) -> Self {
        let threshold = Threshold { percent: None, bytes: Some(10) };
        let noise = Noise { floor: 0, known: None, provable: true, single_threaded: false };
        let rule = ChangeRule {
            thresholds: Thresholds::both(&threshold),
            noise,
            known_of_rounds: None,
            most_runs: 10,
        };
        Self { search, observations: Observations::new(2), suspects: Vec::new(), rule }
    }

    fn measurement(&self) -> PartMeasurement<'_> {
        let Self { search, observations, suspects, rule } = self;
        let judged = Judged::default();
        PartMeasurement { search, observations, suspects, rule, exhausted: &NONE, judged }
    }

    /// Measures until nothing is left to find out. `figure` is that of a variant in a run, or `None` if its
    /// test fails.
    fn play(&mut self, figure: impl Fn(&Parts, usize) -> Option<i64>) -> Shares {
        for end in [BASELINE, CANDIDATE] {
            let value = figure(&self.search.variants[end], 0).expect("a figure");
            self.observations.record_runs(end, &[(Some(0), value)]);
        }
        for _ in 0..500 {
            let Some(step) = self.measurement().next() else {
                let shares = self.measurement().shares().expect("shares");
                let sum = shares.parts.iter().map(|one| one.cost.difference).sum::<i128>()
                    + shares.open.iter().map(|one| one.difference).sum::<i128>()
                    + shares.rest.difference
                    + shares.together;
                assert_eq!(sum, shares.whole, "the figures add up");
                return shares;
            };
            match step {
                Step::Measure { kept, .. } => {
                    assert_eq!(self.search.variant(&kept), None, "measured twice");
                    let found = figure(&kept, 0);
                    self.search.variants.push(kept);
                    let commit = self.search.variants.len() - 1;
                    self.observations.grow(commit + 1);
                    match found {
                        Some(value) => self.observations.record_runs(commit, &[(Some(0), value)]),
                        None => self.observations.record(commit, Observation::Skipped),
                    }
                }
                Step::Repeat(commit) => {
                    let mut samples = self.observations.samples(commit).expect("a figure").to_vec();
                    samples.push(figure(&self.search.variants[commit], samples.len()).expect("a figure"));
                    let runs: Vec<_> = (0..).map(Some).zip(samples).collect();
                    self.observations.record_runs(commit, &runs);
                }
            }
        }
        panic!("it never ends")
    }

    fn builds(&self) -> usize {
        self.measurement().builds()
    }
}

/// What is measured for parts that have a cost each.
fn sums(costs: &'static [i64]) -> impl Fn(&Parts, usize) -> Option<i64> {
    move |kept, _| Some(1000 + kept.iter().map(|part| costs[*part]).sum::<i64>())
}

fn found(shares: &Shares) -> Vec<(usize, i128)> {
    shares.parts.iter().map(|one| (one.part, one.cost.difference)).collect()
}

#[test]
fn halving_finds_the_part_and_leaving_it_out_proves_it() {
    let mut played = Played::new(search(8, &[]));
    let shares = played.play(sums(&[0, 0, 0, 0, 0, 500, 3, 0]));
    assert_eq!(found(&shares), [(5, 500)]);
    assert_eq!(shares.parts[0].cost.way, Way::LeftOut);
    assert_eq!((shares.rest.parts.len(), shares.rest.difference, shares.together), (7, 3, 0));
    assert_eq!(played.builds(), 6);
    let runs = |commit: usize| played.observations.samples(commit).unwrap().len();
    let proven = [BASELINE, CANDIDATE, played.measurement().cost(5).unwrap().before].map(runs);
    assert_eq!(proven, [CONFIRMED; 3], "both commits run as often as a proof needs");
}

#[test]
fn a_right_suspect_needs_one_build_and_a_wrong_one_costs_one() {
    let costs = sums(&[0, 0, 0, 0, 0, 500, 0, 0]);
    let mut right = Played { suspects: vec![5], ..Played::new(search(8, &[])) };
    assert_eq!((found(&right.play(&costs)), right.builds()), (vec![(5, 500)], 3));
    let mut wrong = Played { suspects: vec![2], ..Played::new(search(8, &[])) };
    assert_eq!((found(&wrong.play(&costs)), wrong.builds()), (vec![(5, 500)], 7));
}

#[test]
fn two_parts_are_found_and_what_they_share_is_a_line_of_its_own() {
    let both = |kept: &Parts, _| {
        let [one, other] = [1, 6].map(|part| kept.contains(&part));
        Some(1000 + i64::from(one) * 300 + i64::from(other) * 200 + i64::from(one && other) * 50)
    };
    let shares = Played::new(search(8, &[])).play(both);
    assert_eq!(found(&shares), [(1, 350), (6, 250)]);
    assert_eq!((shares.whole, shares.together, shares.rest.difference), (550, -50, 0));
    assert_eq!(shares.parts.iter().map(|one| one.alone).collect::<Vec<_>>(), [Some(300), Some(200)]);
    assert!(shares.without_all.is_some());
}

#[test]
fn two_peaks_are_what_both_parts_hold_together_and_each_of_them_alone() {
    let peak = |kept: &Parts, _| Some(if kept.contains(&2) || kept.contains(&4) { 1900 } else { 1000 });
    for suspects in [vec![], vec![2], vec![4, 2]] {
        let mut played = Played { suspects, ..Played::new(search(6, &[])) };
        let shares = played.play(peak);
        let mut found = found(&shares);
        found.sort_unstable();
        assert_eq!(found, [(2, 0), (4, 0)], "without one of them, the other's peak is as high");
        assert_eq!((shares.together, shares.rest.difference), (900, 0));
        assert_eq!(shares.parts.iter().map(|one| one.alone).collect::<Vec<_>>(), [Some(900); 2]);
        let without = shares.without_all.expect("the candidate without both");
        assert_eq!(played.measurement().difference(without, CANDIDATE), Some(900));
        assert!(played.builds() <= 12, "{}", played.builds());
    }
}

#[test]
fn a_suspect_does_not_explain_what_another_part_holds() {
    // Without part 0, a quarter is gone. The rest is a peak of part 3.
    let peak = |kept: &Parts, _| {
        let first = if kept.contains(&0) { 1400 } else { 1000 };
        Some(first.max(if kept.contains(&3) { 1300 } else { 1000 }))
    };
    let mut played = Played { suspects: vec![0], ..Played::new(search(4, &[])) };
    let shares = played.play(peak);
    assert_eq!(found(&shares), [(0, 100), (3, 0)]);
    assert_eq!((shares.together, shares.rest.difference), (300, 0));
}

#[test]
fn a_shrinkage_is_found_like_a_growth() {
    let shares = Played::new(search(4, &[])).play(sums(&[0, -400, 0, 0]));
    assert_eq!(found(&shares), [(1, -400)]);
}

#[test]
fn a_definition_costs_what_is_left_of_it_when_nothing_uses_it() {
    // Part 2 calls what part 0 defines.
    let needs = || Played { suspects: vec![0], ..Played::new(search(3, &[(0, 2)])) };
    assert_eq!(found(&needs().play(sums(&[0, 0, 700]))), [(2, 700)]);
    assert_eq!(found(&needs().play(sums(&[700, 0, 0]))), [(0, 700)]);
}

#[test]
fn what_the_test_cannot_do_without_is_added_and_the_users_of_a_part_may_belong_to_it() {
    let needed = |kept: &Parts, _| {
        // The test of the candidate fails without part 1, as long as part 2 is there.
        let fails = kept.contains(&2) && !kept.contains(&1);
        (!fails).then(|| 1000 + if kept.contains(&1) { 600 } else { 0 })
    };
    let shares = Played::new(search(4, &[])).play(needed);
    assert_eq!(found(&shares), [(1, 600)]);
    assert_eq!(shares.parts[0].cost.way, Way::Added);
    // Without part 3, which needs part 0, the test fails unless part 0 is gone as well.
    let with_users = |kept: &Parts, _| {
        let fails = kept.contains(&0) && !kept.contains(&3);
        (!fails).then(|| 1000 + if kept.contains(&3) { 600 } else { 0 })
    };
    let mut played = Played { suspects: vec![0], ..Played::new(search(4, &[(0, 3)])) };
    let shares = played.play(with_users);
    assert_eq!(found(&shares), [(0, 600)]);
    assert_eq!(shares.parts[0].cost.way, Way::LeftOutWithUsers);
    assert_eq!(shares.rest.parts, [1, 2], "nobody knows whether part 3 makes no difference");
}

#[test]
fn without_a_build_for_it_a_part_is_not_told_from_those_that_need_it() {
    // The 500 are those of part 1, which calls what part 0 defines.
    let costs = sums(&[0, 500, 0]);
    let needs = |most_builds| {
        let search = PartsSearch { most_builds, ..search(3, &[(0, 1)]) };
        Played { suspects: vec![0], ..Played::new(search) }
    };
    let shares = needs(3).play(&costs);
    assert_eq!((found(&shares), shares.rest.parts), (vec![], vec![2]));
    assert_eq!(shares.open, [Share { parts: vec![0, 1], difference: 500 }]);
    assert_eq!(found(&needs(12).play(&costs)), [(1, 500)]);
}

#[test]
fn parts_between_which_every_test_fails_stay_together() {
    let fails_inside = |kept: &Parts, _| match kept.len() {
        0 => Some(0),
        4 => Some(900),
        _ => None,
    };
    let mut played = Played::new(search(4, &[]));
    let shares = played.play(fails_inside);
    assert_eq!((shares.open.len(), shares.open[0].parts.len(), shares.open[0].difference), (1, 4, 900));
    assert_eq!(played.builds(), 8, "three between the ends, and the candidate without each");
}

#[test]
fn after_a_failure_a_third_is_next_and_what_cannot_be_split_is_left_out_one_by_one() {
    // With less than seven of twelve parts, the test fails.
    let most = |kept: &Parts, _| {
        (kept.is_empty() || kept.len() > 7).then(|| 1000 + i64::from(kept.contains(&3)) * 500)
    };
    let mut played = Played::new(search(12, &[]));
    let shares = played.play(most);
    let lengths: Vec<usize> = played.search.variants.iter().map(Parts::len).collect();
    assert_eq!(lengths[..5], [0, 12, 6, 4, 8]);
    assert_eq!(found(&shares), [(3, 500)]);
}

#[test]
fn no_more_builds_than_asked_for() {
    let mut played = Played::new(search(64, &[]));
    played.search.most_builds = 4;
    let shares = played.play(|kept, _| Some(1000 + i64::from(kept.contains(&40)) * 500));
    assert_eq!(played.builds(), 4);
    assert_eq!((shares.open[0].parts.clone(), shares.open[0].difference), ((32..48).collect(), 500));
    assert_eq!(shares.rest.parts.len(), 48);
}

#[test]
fn without_a_difference_nothing_is_measured() {
    let mut played = Played::new(search(8, &[]));
    let shares = played.play(sums(&[0, 0, 5, 0, 0, 0, 0, 0]));
    assert_eq!((found(&shares), played.builds()), (vec![], 2));
    assert_eq!(shares.whole, 5);
}

/// A number below 100 that looks random, and is the same each time.
fn chance(kept: &Parts, run: usize, seed: u64) -> i64 {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ (run as u64) << 32;
    for part in kept {
        state ^= (*part as u64 + 1).wrapping_mul(0xD6E8_FEB8_6659_FD93);
        state = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    }
    state = (state ^ (state >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    i64::try_from((state ^ (state >> 31)) % 100).unwrap()
}

#[test]
fn a_figure_that_takes_one_of_two_values_at_random_proves_nothing() {
    let mut proven = 0;
    for seed in 0..200 {
        let random = |kept: &Parts, run: usize| {
            let is_large = !kept.is_empty() && chance(kept, run, seed) < 50;
            Some(if is_large { 2096 } else { 992 })
        };
        let mut played = Played::new(search(6, &[]));
        let shares = played.play(random);
        let measurement = played.measurement();
        let is_proven = |one: &PartShare| measurement.is_proven(one.cost.before, one.cost.after);
        let is_change = measurement.change(BASELINE, CANDIDATE) == HasChanged::Yes;
        proven += usize::from(is_change && shares.parts.iter().any(is_proven));
    }
    assert!(proven <= 1, "{proven} of 200");
}

#[test]
fn random_numbers_of_a_round_leave_a_proof_exact() {
    let costs = sums(&[0, 0, 0, 0, 0, 500, 3, 0]);
    let mut played = Played::new(search(8, &[]));
    let random = |run: usize| chance(&Parts::new(), run, 7) * 1000;
    let shares = played.play(|kept, run| Some(costs(kept, run)? + random(run)));
    assert_eq!((found(&shares), shares.rest.difference), (vec![(5, 500)], 3));
    let measurement = played.measurement();
    assert!(measurement.repeats());
    assert!(measurement.is_proven(shares.parts[0].cost.before, shares.parts[0].cost.after));
}

#[test]
fn a_part_is_found_although_the_figure_varies() {
    let mut found_right = 0;
    for seed in 0..50 {
        let noisy = |kept: &Parts, run: usize| {
            let jitter = chance(kept, run, seed);
            Some(1000 + i64::from(kept.contains(&4)) * 500 + jitter)
        };
        let mut played = Played::new(search(6, &[]));
        let shares = played.play(noisy);
        assert!(!played.measurement().repeats());
        let only: Vec<usize> = shares.parts.iter().map(|one| one.part).collect();
        assert!(only.is_empty() || only == [4], "{shares:?}");
        found_right += usize::from(only == [4]);
    }
    assert!(found_right >= 48, "{found_right} of 50");
}
