//! The parts of a diff, and the commits with some of them. Stored in `search.json`.

use std::collections::BTreeSet;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::bisect::parts::order::{self, OrderedPart};

/// A part of a diff: hunks that are left out together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiffPart {
    /// Where its hunks are. The one that says most comes first.
    pub hunks: Vec<HunkPlace>,
    /// Its hunks, by their indices in the diff.
    pub indices: BTreeSet<usize>,
    /// The parts that need it. They are left out with it.
    #[serde(default, skip_serializing_if = "Parts::is_empty")]
    pub needed_by: Parts,
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

/// Some of the parts, by their indices.
pub type Parts = BTreeSet<usize>;

/// A proof under way.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartsSearch {
    /// At most so many builds.
    pub most_builds: usize,
    /// The parts. Empty before the compiler said which hunks need each other.
    pub parts: Vec<DiffPart>,
    /// The parts in an order in which each compiles with those before it.
    pub order: Vec<usize>,
    /// The parts that each commit of the plan has. The first has none, and the second all.
    pub variants: Vec<Parts>,
    /// Variants that are not built, because they do not compile.
    pub refused: Vec<RefusedVariant>,
    /// Files that the test's target does not compile. They are one part.
    pub elsewhere: BTreeSet<String>,
    /// Files that the compiler reads, although their names do not say so.
    pub included: BTreeSet<String>,
    /// How often the compiler checked whether the rest compiles without some hunks.
    pub checks: usize,
    /// The number of hunks that were not told apart because of the limit on checks.
    #[serde(default)]
    pub unseparated: usize,
    /// The time that the proof took so far.
    pub milliseconds: u64,
}

/// A variant that does not compile.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedVariant {
    /// The parts that it has.
    pub kept: Parts,
    /// The first error, in one line.
    pub reason: String,
}

/// The index of the baseline in [`PartsSearch::variants`].
pub const BASELINE: usize = 0;

/// The index of the candidate.
pub const CANDIDATE: usize = 1;

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
    /// Returns a proof of which nothing is known yet.
    pub fn new(most_builds: usize) -> Self {
        Self { most_builds, ..Self::default() }
    }

    /// Takes the parts, which are in an order in which each compiles with those before it.
    pub fn begin(&mut self, parts: Vec<DiffPart>) {
        self.order = (0..parts.len()).collect();
        self.variants = vec![Parts::new(), self.order.iter().copied().collect()];
        self.parts = parts;
    }

    /// All parts: the candidate.
    pub fn all(&self) -> Parts {
        (0..self.parts.len()).collect()
    }

    /// Returns these parts and those that need them.
    pub fn with_users(&self, parts: &Parts) -> Parts {
        let users = parts.iter().flat_map(|part| self.parts[*part].needed_by.iter().copied());
        parts.iter().copied().chain(users).collect()
    }

    /// The candidate without these parts and those that need them.
    pub fn without(&self, parts: &Parts) -> Parts {
        &self.all() - &self.with_users(parts)
    }

    /// The candidate without the parts that need this one: what [`Self::without`] of it is compared with.
    pub fn before(&self, part: usize) -> Parts {
        &self.all() - &self.parts[part].needed_by
    }

    /// The parts that a part needs.
    pub fn needs(&self, part: usize) -> Parts {
        (0..self.parts.len()).filter(|other| self.parts[*other].needed_by.contains(&part)).collect()
    }

    /// Returns the commit that has exactly these parts.
    pub fn variant(&self, kept: &Parts) -> Option<usize> {
        self.variants.iter().position(|one| one == kept)
    }

    /// Returns why a variant is not built.
    pub fn refusal(&self, kept: &Parts) -> Option<&str> {
        self.refused.iter().find(|one| one.kept == *kept).map(|one| one.reason.as_str())
    }

    /// Returns the hunks of these parts.
    pub fn hunks(&self, parts: &Parts) -> BTreeSet<usize> {
        parts.iter().flat_map(|part| self.parts[*part].indices.iter().copied()).collect()
    }

    /// Returns the parts that have one of these hunks.
    pub fn parts_of(&self, hunks: &BTreeSet<usize>) -> Parts {
        (0..self.parts.len()).filter(|part| !self.parts[*part].indices.is_disjoint(hunks)).collect()
    }

    /// Notes that a variant does not compile. If the errors name what its parts lack, these need it from now
    /// on. Otherwise the parts with errors come later: after those that the variant lacks, as far as `within`
    /// has them.
    pub fn refuse(&mut self, kept: &Parts, reason: String, users: &Parts, missing: &Parts, within: &Parts) {
        self.refused.push(RefusedVariant { kept: kept.clone(), reason });
        let mut has_learned = false;
        for &user in users {
            for &needed in missing {
                has_learned |= self.learn(user, needed);
            }
        }
        if has_learned {
            self.sort();
            return;
        }
        let later = &self.with_users(users) & within;
        let last = self.order.iter().rposition(|part| within.contains(part) && !later.contains(part));
        let Some(last) = last.map(|place| self.order[place]).filter(|_| !later.is_empty()) else { return };
        let moved: Vec<usize> = self.order.iter().copied().filter(|part| later.contains(part)).collect();
        self.order.retain(|part| !later.contains(part));
        let place =
            self.order.iter().position(|part| *part == last).map_or(self.order.len(), |place| place + 1);
        self.order.splice(place..place, moved);
    }

    /// Notes that a part needs another one, unless a commit shows that it does not. Returns whether this is
    /// new.
    fn learn(&mut self, user: usize, needed: usize) -> bool {
        let is_circle = user == needed || self.parts[user].needed_by.contains(&needed);
        let is_disproved = |kept: &Parts| kept.contains(&user) && !kept.contains(&needed);
        if is_circle || self.parts[needed].needed_by.contains(&user) || self.variants.iter().any(is_disproved)
        {
            return false;
        }
        let users = self.with_users(&Parts::from([user]));
        let needs = self.needs(needed);
        for part in needs.into_iter().chain([needed]) {
            self.parts[part].needed_by.extend(&users);
        }
        true
    }

    /// Puts each part before those that need it. Otherwise the order stays.
    fn sort(&mut self) {
        let needed_by: Vec<&Parts> = self.parts.iter().map(|part| &part.needed_by).collect();
        self.order = order::sorted(&self.order, &needed_by);
    }

    /// Returns the parts with a hunk in these lines of the candidate, or one that changed this whole file.
    pub(crate) fn parts_at(&self, path: &str, lines: &Range<usize>) -> Vec<usize> {
        let is_there = |hunk: &HunkPlace| hunk.is_at(path, lines);
        let parts = self.parts.iter().enumerate();
        parts.filter(|(_, part)| part.hunks.iter().any(is_there)).map(|(index, _)| index).collect()
    }

    /// Returns the parts that move a package of the lock file.
    pub fn parts_of_package(&self, name: &str) -> Vec<usize> {
        let parts = self.parts.iter().enumerate();
        parts
            .filter(|(_, part)| part.hunks.iter().any(|hunk| hunk.is_of_package(name)))
            .map(|(index, _)| index)
            .collect()
    }

    /// Returns what a variant is, in words.
    pub fn name(&self, kept: &Parts) -> String {
        let left_out = &self.all() - kept;
        // A part that is left out with those that need it.
        let is_root = |part: &usize| self.with_users(&Parts::from([*part])) == left_out;
        let first = |parts: &Parts| parts.first().map(|part| self.parts[*part].shown()).unwrap_or_default();
        let root = left_out.iter().copied().find(is_root).map(|part| self.parts[part].shown());
        match (root, kept.len(), left_out.len()) {
            (_, _, 0) => "all parts".to_owned(),
            (_, 0, _) => "none of the parts".to_owned(),
            (Some(part), _, 1) => format!("without {part}"),
            (Some(part), ..) => format!("without {part} and what needs it"),
            (None, 1, _) => format!("only {}", first(kept)),
            (None, count, _) => format!("{count} of {} parts", self.parts.len()),
        }
    }
}

impl HunkPlace {
    /// Whether it moves this package of the lock file.
    pub fn is_of_package(&self, name: &str) -> bool {
        let moved = self.what.as_deref().and_then(|what| what.strip_prefix(name));
        self.path.ends_with("Cargo.lock") && moved.is_some_and(|rest| rest.starts_with(' '))
    }

    /// Whether it is in these lines of the candidate, or is this whole file.
    pub fn is_at(&self, path: &str, lines: &Range<usize>) -> bool {
        let are_same =
            |[first, last]: [usize; 2]| first < lines.end.max(lines.start + 1) && lines.start <= last;
        self.path == path && self.lines.is_none_or(are_same)
    }
}

/// Returns parts with the places of their hunks.
pub fn placed(ordered: &[OrderedPart], place: impl Fn(usize) -> HunkPlace) -> Vec<DiffPart> {
    let of_part = |part: &OrderedPart| DiffPart {
        hunks: part.hunks.iter().map(|hunk| place(*hunk)).collect(),
        indices: part.hunks.clone(),
        needed_by: part.needed_by.clone(),
    };
    ordered.iter().map(of_part).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Parts of one hunk each; `needs` are pairs of a part and one that needs it.
    pub fn search(count: usize, needs: &[(usize, usize)]) -> PartsSearch {
        let part = |index: usize| DiffPart {
            hunks: vec![HunkPlace { path: format!("src/{index}.rs"), lines: Some([10, 12]), what: None }],
            indices: Parts::from([index]),
            needed_by: needs.iter().filter(|pair| pair.0 == index).map(|pair| pair.1).collect(),
        };
        let mut search = PartsSearch::new(12);
        search.begin((0..count).map(part).collect());
        search
    }

    fn set(parts: &[usize]) -> Parts {
        parts.iter().copied().collect()
    }

    #[test]
    fn what_needs_a_part_is_left_out_with_it() {
        let search = search(3, &[(0, 2)]);
        assert_eq!((search.without(&set(&[0])), search.before(0)), (set(&[1]), set(&[0, 1])));
        assert_eq!((search.without(&set(&[2])), search.before(2)), (set(&[0, 1]), search.all()));
        assert_eq!((search.needs(2), search.needs(0)), (set(&[0]), set(&[])));
        assert_eq!(
            (search.variant(&set(&[])), search.variant(&search.all())),
            (Some(BASELINE), Some(CANDIDATE))
        );
    }

    #[test]
    fn a_variant_that_does_not_compile_says_what_needs_what() {
        let mut search = search(4, &[(1, 2)]);
        search.refuse(&set(&[0, 1]), "an error".to_owned(), &set(&[1]), &set(&[3]), &search.all());
        assert_eq!(search.parts[3].needed_by, set(&[1, 2]), "those that need it need this, too");
        assert_eq!(search.order, [0, 3, 1, 2]);
        assert_eq!(search.refusal(&set(&[0, 1])), Some("an error"));
    }

    #[test]
    fn without_a_name_a_part_with_errors_comes_later() {
        let mut search = search(6, &[(1, 2)]);
        search.refuse(&set(&[0, 1]), String::new(), &set(&[1]), &set(&[]), &set(&[1, 2, 3, 4]));
        assert_eq!(search.order, [0, 3, 4, 1, 2, 5]);
        // A commit shows that part 3 does not need part 4.
        search.variants.push(set(&[0, 3]));
        search.refuse(&set(&[0, 3, 5]), String::new(), &set(&[3]), &set(&[4]), &set(&[3, 4]));
        assert!(search.parts[4].needed_by.is_empty());
        assert_eq!(search.order, [0, 4, 3, 1, 2, 5]);
    }

    #[test]
    fn a_variant_has_a_name() {
        let search = search(4, &[(0, 2)]);
        let name = |kept: &[usize]| search.name(&set(kept));
        assert_eq!(name(&[0, 1, 2]), "without src/3.rs:10-12");
        assert_eq!(name(&[1, 3]), "without src/0.rs:10-12 and what needs it");
        assert_eq!(name(&[1]), "only src/1.rs:10-12");
        assert_eq!(name(&[0, 1]), "2 of 4 parts");
    }

    #[test]
    fn a_call_site_is_in_a_part() {
        let search = search(2, &[]);
        assert_eq!(search.parts_at("src/1.rs", &(12..13)), [1]);
        assert_eq!(search.parts_at("src/1.rs", &(13..14)), [0; 0]);
        assert_eq!(search.parts_at("src/1.rs", &(5..11)), [1]);
    }
}
