//! What call sites say of the parts of a diff: which of them to leave out first, and where a part's difference
//! shows.

use std::ops::Range;

use crate::bisect::parts::record::{HunkPlace, PartsSearch};
use memprof_judge::why::class::Class;
use memprof_judge::why::difference::{Difference, Group, GroupKind};
use memprof_judge::why::hunks::HunkAt;

/// Lines of the candidate.
pub(crate) struct Place {
    path: String,
    lines: Range<usize>,
}

impl Place {
    fn of_hunk(at: &HunkAt) -> Self {
        let line = |line: u32| usize::try_from(line).unwrap_or(usize::MAX);
        Self { path: at.path.clone(), lines: line(at.hunk.new.start)..line(at.hunk.new.end) }
    }

    /// Whether a hunk has some of the lines.
    pub fn is_in(&self, hunk: &HunkPlace) -> bool {
        hunk.is_at(&self.path, &self.lines)
    }
}

/// Returns the parts that call sites point to, those with the largest difference first.
pub fn parts(search: &PartsSearch, sites: &Difference) -> Vec<usize> {
    let mut found: Vec<usize> = Vec::new();
    for group in sites.groups.iter().filter(|group| sites.of_group(group) != 0) {
        let pointed = match (place_of(group), group.class.as_ref().and_then(Class::dependency)) {
            (Some(place), _) => search.parts_at(&place.path, &place.lines),
            (None, Some(dependency)) => search.parts_of_package(&dependency.name),
            (None, None) => Vec::new(),
        };
        for part in pointed {
            if !found.contains(&part) {
                found.push(part);
            }
        }
    }
    found
}

fn place_of(group: &Group) -> Option<Place> {
    Some(Place::of_hunk(group.class.as_ref()?.hunk()?))
}

/// Whether a call site points to a hunk.
pub(crate) fn is_pointed_at(hunk: &HunkPlace, sites: &Difference) -> bool {
    let differing = sites.groups.iter().filter(|group| sites.of_group(group) != 0);
    differing.filter_map(place_of).any(|place| place.is_in(hunk))
}

/// Returns the first function whose call sites differ by as much, if its code is elsewhere, and its place in
/// the diff.
pub(crate) fn function_with(
    sites: &Difference,
    difference: i128,
    is_elsewhere: impl Fn(&Place) -> bool,
) -> Option<(String, Option<Place>)> {
    // Allocators round, and a part may change some small blocks, too.
    let is_as_much =
        |group: &&Group| (i128::from(sites.of_group(group)) - difference).abs() * 100 <= difference.abs();
    let groups = sites.groups.iter().filter(|group| place_of(group).is_none_or(|place| is_elsewhere(&place)));
    let group = groups.filter(|_| difference != 0).find(is_as_much)?;
    let GroupKind::Sites { name, .. } = &group.kind else { return None };
    let place = match &group.class {
        Some(Class::Changed(_, at)) => Some(Place::of_hunk(at)),
        _ => None,
    };
    Some((name.clone(), place))
}
