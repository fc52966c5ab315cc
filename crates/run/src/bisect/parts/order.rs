//! From hunks and those that need them to parts, in an order in which each compiles with those before it.

use std::collections::BTreeSet;

/// Hunks that are left out together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderedPart {
    pub hunks: BTreeSet<usize>,
    /// The parts that need it. They come later.
    pub needed_by: BTreeSet<usize>,
}

/// Returns the parts. `dependents` are the hunks that have to be left out with each hunk.
pub fn parts(dependents: &[BTreeSet<usize>]) -> Vec<OrderedPart> {
    let reachable = closed(dependents);
    // Hunks that need each other are one part.
    let mut groups: Vec<BTreeSet<usize>> = Vec::new();
    for hunk in 0..reachable.len() {
        if groups.iter().all(|group| !group.contains(&hunk)) {
            let mutual = reachable[hunk].iter().copied().filter(|other| reachable[*other].contains(&hunk));
            groups.push(mutual.chain([hunk]).collect());
        }
    }
    let needs = |group: &BTreeSet<usize>, other: &BTreeSet<usize>| {
        group != other && other.iter().any(|hunk| reachable[*hunk].iter().any(|one| group.contains(one)))
    };
    let mut ordered: Vec<BTreeSet<usize>> = Vec::new();
    while !groups.is_empty() {
        let is_free = |group: &&BTreeSet<usize>| groups.iter().all(|other| !needs(group, other));
        // There always is one, because hunks that need each other are one group.
        let next = groups.iter().find(is_free).unwrap_or(&groups[0]).clone();
        groups.retain(|group| *group != next);
        ordered.push(next);
    }
    let of_part = |group: &BTreeSet<usize>| {
        let others = ordered.iter().enumerate().filter(|(_, other)| needs(other, group));
        OrderedPart { hunks: group.clone(), needed_by: others.map(|(index, _)| index).collect() }
    };
    ordered.iter().map(of_part).collect()
}

/// Returns this order with each part before those that need it. Otherwise the order stays. `needed_by` has
/// the parts that need each part, also by way of others, and no circle.
pub(crate) fn sorted(order: &[usize], needed_by: &[&BTreeSet<usize>]) -> Vec<usize> {
    let mut left = order.to_vec();
    let mut sorted = Vec::new();
    while !left.is_empty() {
        let is_free = |part: &usize| left.iter().all(|other| !needed_by[*other].contains(part));
        let place = left.iter().position(is_free).unwrap_or(0);
        sorted.push(left.remove(place));
    }
    sorted
}

/// Adds what is needed by what is needed.
fn closed(dependents: &[BTreeSet<usize>]) -> Vec<BTreeSet<usize>> {
    let mut all = dependents.to_vec();
    loop {
        let mut has_grown = false;
        for hunk in 0..all.len() {
            let further: BTreeSet<usize> = all[hunk].iter().flat_map(|other| all[*other].clone()).collect();
            has_grown |= !further.is_subset(&all[hunk]);
            all[hunk].extend(further);
        }
        if !has_grown {
            return all;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(dependents: &[&[usize]]) -> Vec<(Vec<usize>, Vec<usize>)> {
        let sets: Vec<BTreeSet<usize>> = dependents
            .iter()
            .enumerate()
            .map(|(hunk, more)| more.iter().copied().chain([hunk]).collect())
            .collect();
        let list = |set: BTreeSet<usize>| set.into_iter().collect();
        parts(&sets).into_iter().map(|part| (list(part.hunks), list(part.needed_by))).collect()
    }

    #[test]
    fn a_definition_comes_before_what_needs_it() {
        assert_eq!(shown(&[&[], &[0], &[]]), [(vec![1], vec![1]), (vec![0], vec![]), (vec![2], vec![])]);
    }

    #[test]
    fn hunks_that_need_each_other_are_one_part() {
        assert_eq!(shown(&[&[2], &[], &[0]]), [(vec![0, 2], vec![]), (vec![1], vec![])]);
    }

    #[test]
    fn needs_lead_further() {
        let found = shown(&[&[1], &[2], &[]]);
        assert_eq!(found, [(vec![0], vec![1, 2]), (vec![1], vec![2]), (vec![2], vec![])]);
    }
}
