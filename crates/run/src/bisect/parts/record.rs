//! The parts of a diff, and the commits that leave them out. Stored in `search.json`.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::bisect::parts::order::OrderedPart;

/// A part of a diff: hunks that are left out together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiffPart {
    pub hunks: Vec<HunkPlace>,
    /// The parts that need it. They come later, and are left out with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub needed_by: Vec<usize>,
}

/// Where a hunk is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HunkPlace {
    /// The file: the candidate's, or the baseline's if it was deleted.
    pub path: String,
    /// The first and its last line in the candidate; absent for a whole file. If the lines are gone, the
    /// line before them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lines: Option<[usize; 2]>,
    /// The function, type or value that it is in, and the edit if it is one value: `SNIPPET: 40 → 160`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub what: Option<String>,
}

/// The parts between two commits. The commits of a search are `chain + 1` commits, each with one more part
/// than the one before, and then the others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartsSearch {
    /// The parts, in an order in which each compiles with those before it.
    pub parts: Vec<DiffPart>,
    /// The candidate without each part and those that need it.
    pub without: Vec<usize>,
    /// The candidate without those that need the part: what `without` is compared with.
    pub before: Vec<usize>,
    /// The baseline with each part; `None` if it needs others.
    pub alone: Vec<Option<usize>>,
    /// At most so many builds.
    pub most_builds: usize,
}

/// A commit with some of the parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variant {
    /// The parts that it has.
    pub kept: BTreeSet<usize>,
    /// What it is, in words.
    pub name: String,
}

impl HunkPlace {
    /// `src/builder.rs:60-74`
    pub fn shown(&self) -> String {
        match self.lines {
            None => self.path.clone(),
            Some([first, last]) if first == last => format!("{}:{first}", self.path),
            Some([first, last]) => format!("{}:{first}-{last}", self.path),
        }
    }
}

impl DiffPart {
    /// `src/builder.rs:60-74 and 2 more hunks`
    pub fn shown(&self) -> String {
        let first = self.hunks.first().map(HunkPlace::shown).unwrap_or_default();
        match self.hunks.len() {
            0 | 1 => first,
            2 => format!("{first} and 1 more hunk"),
            count => format!("{first} and {} more hunks", count - 1),
        }
    }
}

impl PartsSearch {
    /// Returns the search over these parts, and its commits. The first is the baseline.
    pub fn new(parts: Vec<DiffPart>, most_builds: usize) -> (Self, Vec<Variant>) {
        let count = parts.len();
        let all: BTreeSet<usize> = (0..count).collect();
        let mut commits = Commits::default();
        for length in 0..=count {
            let name = match length {
                0 => "none of the parts".to_owned(),
                1 => format!("only {}", parts[0].shown()),
                _ if length == count => "all parts".to_owned(),
                _ => format!("parts 1 to {length} of {count}"),
            };
            commits.add((0..length).collect(), name);
        }
        let mut search = Self { most_builds, ..Self::default() };
        let independent =
            |part: &DiffPart| all.iter().copied().filter(|one| !part.needed_by.contains(one)).collect();
        for (index, part) in parts.iter().enumerate() {
            let mut without: BTreeSet<usize> = independent(part);
            without.remove(&index);
            search.without.push(commits.add(without, format!("without {}", part.shown())));
        }
        for (index, part) in parts.iter().enumerate() {
            search
                .before
                .push(commits.add(independent(part), format!("without what needs {}", part.shown())));
            let needs_others = parts.iter().any(|other| other.needed_by.contains(&index));
            let alone = || commits.add(BTreeSet::from([index]), format!("only {}", part.shown()));
            search.alone.push((!needs_others).then(alone));
        }
        search.parts = parts;
        (search, commits.variants)
    }

    /// The number of parts, which is the candidate's index.
    pub fn count(&self) -> usize {
        self.parts.len()
    }

    /// Returns the parts with a hunk in these lines of the candidate, or one that changed this whole file.
    pub(crate) fn parts_at(&self, path: &str, lines: &Range<usize>) -> Vec<usize> {
        let is_there = |hunk: &HunkPlace| {
            hunk.path == path
                && hunk
                    .lines
                    .is_none_or(|[first, last]| first < lines.end.max(lines.start + 1) && lines.start <= last)
        };
        let parts = self.parts.iter().enumerate();
        parts.filter(|(_, part)| part.hunks.iter().any(is_there)).map(|(index, _)| index).collect()
    }
}

/// Commits, each set of parts once.
#[derive(Default)]
struct Commits {
    variants: Vec<Variant>,
    known: BTreeMap<BTreeSet<usize>, usize>,
}

impl Commits {
    fn add(&mut self, kept: BTreeSet<usize>, name: String) -> usize {
        let next = self.variants.len();
        let index = *self.known.entry(kept.clone()).or_insert(next);
        match self.variants.get_mut(index) {
            None => self.variants.push(Variant { kept, name }),
            // The part's own place says more than numbers.
            Some(known) if known.name.starts_with("parts ") => known.name = name,
            Some(_) => {}
        }
        index
    }
}

/// Returns parts with the places of their hunks.
pub fn placed(ordered: &[OrderedPart], place: impl Fn(usize) -> HunkPlace) -> Vec<DiffPart> {
    let of_part = |part: &OrderedPart| DiffPart {
        hunks: part.hunks.iter().map(|hunk| place(*hunk)).collect(),
        needed_by: part.needed_by.iter().copied().collect(),
    };
    ordered.iter().map(of_part).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Parts of one hunk each; `needs` are pairs of a part and one that needs it.
    pub fn search(count: usize, needs: &[(usize, usize)]) -> (PartsSearch, Vec<Variant>) {
        let part = |index: usize| DiffPart {
            hunks: vec![HunkPlace { path: format!("src/{index}.rs"), lines: Some([10, 12]), what: None }],
            needed_by: needs.iter().filter(|pair| pair.0 == index).map(|pair| pair.1).collect(),
        };
        PartsSearch::new((0..count).map(part).collect(), 12)
    }

    #[test]
    fn each_set_of_parts_is_one_commit() {
        let (search, variants) = search(3, &[(0, 2)]);
        let kept = |index: usize| variants[index].kept.iter().copied().collect::<Vec<_>>();
        assert_eq!((kept(0), kept(2), kept(3)), (vec![], vec![0, 1], vec![0, 1, 2]));
        // Part 2 needs part 0.
        assert_eq!((kept(search.without[0]), kept(search.before[0])), (vec![1], vec![0, 1]));
        assert_eq!((kept(search.without[2]), kept(search.before[2])), (vec![0, 1], vec![0, 1, 2]));
        assert_eq!(search.before[2], 3, "the candidate itself");
        assert_eq!((search.alone[0], search.alone[2]), (Some(1), None));
        let sets: BTreeSet<_> = variants.iter().map(|variant| &variant.kept).collect();
        assert_eq!(sets.len(), variants.len());
        let names: BTreeSet<_> = variants.iter().map(|variant| &variant.name).collect();
        assert_eq!(names.len(), variants.len());
    }

    #[test]
    fn a_call_site_is_in_a_part() {
        let (search, _) = search(2, &[]);
        assert_eq!(search.parts_at("src/1.rs", &(12..13)), [1]);
        assert_eq!(search.parts_at("src/1.rs", &(13..14)), [0; 0]);
        assert_eq!(search.parts_at("src/1.rs", &(5..11)), [1]);
    }
}
