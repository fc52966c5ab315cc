//! The reasons of a row's difference: the parts of the diff that move its memory.

use crate::why::class::Class;
use crate::why::difference::{Difference, Group, GroupKind, Resized};
use crate::why::hunks::HunkAt;
use crate::why::versions::ChangedDependency;

/// A reason that moves less than the largest one divided by this is left out.
const LEAST_SHARE: u64 = 10;

/// Why memory moved.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// A place in the diff: the site's own code, or a caller's.
    Hunk(HunkAt),
    /// Another version of a dependency.
    Dependency(ChangedDependency),
    /// A type became larger or smaller, and as many of it are allocated.
    Type(Resized),
    /// Neither is known. This code, a file and line or else a function, has other memory.
    Code(String),
}

/// What one reason moves in a row.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Share<'a> {
    pub reason: Reason,
    /// The sum over its sites, in the metric's unit.
    pub amount: i64,
    /// The site that differs most in the direction of the sum.
    pub site: &'a Group,
}

impl Reason {
    /// Returns the reason of a site; `None` for memory without a stack, and for what is out of focus.
    fn of_site(group: &Group) -> Option<Self> {
        let GroupKind::Sites { name, location } = &group.kind else { return None };
        let class = group.class.as_ref();
        let hunk = class.and_then(Class::hunk).cloned().map(Self::Hunk);
        let dependency = || class.and_then(Class::dependency).cloned().map(Self::Dependency);
        let resized = || group.resized.clone().map(Self::Type);
        let code = || Self::Code(location.clone().unwrap_or_else(|| name.clone()));
        Some(hunk.or_else(dependency).or_else(resized).unwrap_or_else(code))
    }
}

/// Returns the reasons of a difference: first the largest one in the row's direction, then
/// the others by size. Empty if the sites add up to no difference.
pub(crate) fn shares(difference: &Difference) -> Vec<Share<'_>> {
    let mut shares: Vec<Share<'_>> = Vec::new();
    let whole = difference.whole();
    for group in &difference.groups {
        let amount = difference.of_group(group);
        let Some(reason) = Reason::of_site(group).filter(|_| amount != 0) else { continue };
        match shares.iter_mut().find(|share| share.reason == reason) {
            Some(share) => share.amount += amount,
            None => shares.push(Share { reason, amount, site: group }),
        }
    }
    let largest = shares.iter().map(|share| share.amount.unsigned_abs()).max().unwrap_or(0);
    let along = shares.iter().filter(|share| share.amount != 0 && share.amount.signum() == whole.signum());
    let main = along.max_by_key(|share| share.amount.unsigned_abs()).map(|share| share.reason.clone());
    let Some(main) = main else { return Vec::new() };
    shares.retain(|share| {
        share.reason == main || share.amount.unsigned_abs() > largest.saturating_sub(1) / LEAST_SHARE
    });
    shares.sort_by_key(|share| (share.reason != main, std::cmp::Reverse(share.amount.unsigned_abs())));
    for share in &mut shares {
        share.site = largest_site(difference, share).unwrap_or(share.site);
    }
    shares
}

/// Returns the site of a share that differs most in the share's direction. Code that the candidate no longer calls is
/// no place of a growth.
fn largest_site<'a>(difference: &'a Difference, share: &Share<'a>) -> Option<&'a Group> {
    let is_along = |group: &Group| difference.of_group(group).signum() == share.amount.signum();
    if is_along(share.site) {
        return Some(share.site);
    }
    let mut along = difference.groups.iter().filter(|group| is_along(group));
    along.find(|group| Reason::of_site(group).as_ref() == Some(&share.reason))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::results::stack_log::Figures;
    use crate::why::class::{Caller, Existence};
    use crate::why::difference::{CheckpointName, Measure};
    use crate::why::grouping::GroupBy;
    use crate::why::hunks::Hunk;

    pub(crate) fn hunk(line: u32) -> HunkAt {
        HunkAt { path: "src/lib.rs".to_owned(), hunk: Hunk { old: line..line + 1, new: line..line + 1 } }
    }

    pub(crate) fn changed(line: u32) -> Class {
        Class::Changed(Existence::Both, hunk(line))
    }

    pub(crate) fn called(line: u32) -> Class {
        let caller = Caller { function: "caller".to_owned(), location: format!("src/lib.rs:{line}") };
        Class::CalledFrom(caller, hunk(line))
    }

    pub(crate) fn dependency() -> Class {
        let [old, new] = ["1.0.0", "1.1.0"].map(|version| Some(version.to_owned()));
        Class::Dependency(ChangedDependency { name: "serde".to_owned(), old, new })
    }

    fn figures(bytes: i64) -> Figures {
        Figures { at_peak: bytes, live: bytes, allocated: bytes.abs(), count: 1 }
    }

    /// A difference of `heap.peak` at `done`, of sites in these lines.
    pub(crate) fn difference(sites: &[(u32, i64, Class)]) -> Difference {
        let group = |(line, bytes, class): &(u32, i64, Class)| Group {
            kind: GroupKind::Sites { name: "f".to_owned(), location: Some(format!("src/lib.rs:{line}")) },
            figures: [figures((-bytes).max(0)), figures((*bytes).max(0))],
            class: Some(class.clone()),
            stack: Vec::new(),
            first: 0,
            stacks: 1,
            resized: None,
        };
        let groups: Vec<Group> = sites.iter().map(group).collect();
        let total = |side: usize| groups.iter().map(|group| group.figures[side].at_peak).sum::<i64>();
        let done = || Some(CheckpointName { label: "done".to_owned(), occurrence: 1 });
        let totals = [0, 1].map(|side| Some(figures(total(side))));
        let mut difference = Difference {
            metric: "heap.peak".to_owned(),
            measure: Measure::AtPeak,
            checkpoints: [done(), done()],
            is_growth: false,
            totals,
            by: GroupBy::Line,
            groups,
            sample: None,
            incomplete: Vec::new(),
        };
        difference.sort();
        difference
    }

    fn shown(sites: &[(u32, i64, Class)]) -> Vec<(Reason, i64)> {
        let difference = difference(sites);
        shares(&difference).into_iter().map(|share| (share.reason, share.amount)).collect()
    }

    #[test]
    fn sites_with_one_hunk_are_one_reason() {
        let found = shown(&[(3, 100, changed(3)), (9, 50, called(3)), (7, 20, Class::Unchanged)]);
        let code = Reason::Code("src/lib.rs:7".to_owned());
        assert_eq!(found, [(Reason::Hunk(hunk(3)), 150), (code, 20)]);
    }

    #[test]
    fn the_largest_in_the_rows_direction_is_the_first() {
        let found = shown(&[(3, -100, changed(3)), (5, 80, changed(5)), (7, 70, dependency())]);
        let amounts: Vec<i64> = found.iter().map(|(_, amount)| *amount).collect();
        assert_eq!(amounts, [80, -100, 70]);
        assert_eq!(found[0].0, Reason::Hunk(hunk(5)));
        assert!(matches!(&found[2].0, Reason::Dependency(changed) if changed.name == "serde"));
    }

    #[test]
    fn the_site_of_a_reason_moves_memory_in_its_direction() {
        let site = |sites: &[(u32, i64, Class)]| {
            let difference = difference(sites);
            let share = &shares(&difference)[0];
            (share.amount, share.site.location().map(str::to_owned))
        };
        let gone = (3, -1000, changed(3));
        let called = [(5, 600, called(3)), (6, 500, called(3))];
        let [first, second] = called.clone();
        assert_eq!(site(&[gone.clone(), first, second]), (100, Some("src/lib.rs:5".to_owned())));
        let [first, _] = called;
        assert_eq!(site(&[gone, first]), (-400, Some("src/lib.rs:3".to_owned())));
    }

    #[test]
    fn small_shares_are_left_out_and_sites_that_cancel_out_have_no_reason() {
        assert_eq!(shown(&[(3, 1000, changed(3)), (5, 99, changed(5))]).len(), 1);
        assert_eq!(shown(&[(3, 1000, changed(3)), (5, 100, changed(5))]).len(), 2);
        assert_eq!(shown(&[(3, 100, changed(3)), (5, -100, changed(5))]), []);
        assert_eq!(shown(&[]), []);
    }
}
