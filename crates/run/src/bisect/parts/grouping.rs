//! Which hunks cannot be left out alone: the compiler's errors lead from one hunk to those that need it.

use std::collections::BTreeSet;

use crate::bisect::parts::hunk::{ComposedFile, Reader, SplitDiff};
use memprof_build::compile_error::CompileError;

/// What the compiler says of the candidate without some hunks: no errors, or some. The outer error is the
/// tool's.
pub(crate) type Check<'a> =
    dyn FnMut(&BTreeSet<usize>, &[ComposedFile]) -> anyhow::Result<Result<(), Vec<CompileError>>> + 'a;

/// After this number of checks, the hunks of a file that are left count as one.
const MOST_CHECKS: usize = 150;

/// After this number of checks, all hunks that are left count as one.
const MOST_CHECKS_OF_FILES: usize = 200;

/// How often the errors of one hunk are followed.
const MOST_STEPS: usize = 12;

/// How far from a hunk the compiler may place an error that it causes, in lines.
const NEAR: usize = 1;

/// Which hunks have to be left out with which.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dependents {
    /// For each hunk those that have to be left out with it, itself included.
    pub of_hunks: Vec<BTreeSet<usize>>,
    /// The number of hunks that were left out with others only because of the limit on checks.
    pub unseparated: usize,
}

/// Returns which hunks have to be left out with which. `told` gets the number of hunks that are done.
pub fn dependents(
    diff: &SplitDiff,
    check: &mut Check<'_>,
    mut told: impl FnMut(usize),
) -> anyhow::Result<Dependents> {
    let count = diff.hunks.len();
    let mut grouping = Grouping {
        diff,
        check,
        checks: 0,
        found: (0..count).map(|hunk| diff.tied(hunk)).collect(),
        compiling: vec![(0..count).filter(|hunk| is_checked(diff, *hunk)).collect()],
    };
    let mut unseparated = BTreeSet::new();
    let mut dead_ends = Vec::new();
    let mut left: Vec<usize> = (0..count).filter(|hunk| is_checked(diff, *hunk)).collect();
    told(count - left.len());
    while !left.is_empty() {
        let path = &diff.hunks[left[0]].path;
        let is_next = |hunk: &usize| match grouping.checks {
            checks if checks < MOST_CHECKS => *hunk == left[0],
            checks if checks < MOST_CHECKS_OF_FILES => diff.hunks[*hunk].path == *path,
            _ => true,
        };
        let (group, others): (Vec<usize>, Vec<usize>) = left.iter().copied().partition(is_next);
        if group.len() > 1 {
            unseparated.extend(group.iter().copied());
        }
        match grouping.followed(&group)? {
            LeftOut::Compiles(needed_by) => grouping.note(&group, &needed_by),
            LeftOut::DeadEnd(left_out) => dead_ends.push((group, left_out)),
        }
        left = others;
        told(count - left.len() - dead_ends.len());
    }
    for (group, left_out) in dead_ends {
        let (needed_by, is_least) = grouping.narrowed(left_out)?;
        if is_least {
            grouping.note(&group, &needed_by);
        } else {
            // Which of them need the group is not known.
            let all: Vec<usize> = needed_by.iter().copied().collect();
            grouping.note(&all, &needed_by);
            unseparated.extend(needed_by);
        }
    }
    told(count);
    Ok(Dependents { of_hunks: grouping.found, unseparated: unseparated.len() })
}

fn is_checked(diff: &SplitDiff, hunk: usize) -> bool {
    diff.hunks[hunk].reader == Reader::Compiler
}

/// The search for hunks that have to be left out together.
struct Grouping<'a, 'b> {
    diff: &'a SplitDiff,
    check: &'a mut Check<'b>,
    checks: usize,
    /// What has to be left out with each hunk, as far as this is known.
    found: Vec<BTreeSet<usize>>,
    /// Sets of hunks without which the rest compiles. The first is the whole change of the code.
    compiling: Vec<BTreeSet<usize>>,
}

/// Where the errors from hunks that are left out lead.
enum LeftOut {
    /// Without these hunks the rest compiles.
    Compiles(BTreeSet<usize>),
    /// Without these it does not, and the errors lead nowhere.
    DeadEnd(BTreeSet<usize>),
}

impl Grouping<'_, '_> {
    fn note(&mut self, hunks: &[usize], needed_by: &BTreeSet<usize>) {
        for hunk in hunks {
            self.found[*hunk].extend(needed_by);
        }
    }

    /// Returns the errors of the rest without some hunks; `None` if it compiles.
    fn errors(
        &mut self,
        left_out: &BTreeSet<usize>,
        files: &[ComposedFile],
    ) -> anyhow::Result<Option<Vec<CompileError>>> {
        self.checks += 1;
        let errors = (self.check)(left_out, files)?.err();
        if errors.is_none() {
            self.compiling.push(left_out.clone());
        }
        Ok(errors)
    }

    /// Follows the errors from hunks that are left out until the rest compiles.
    fn followed(&mut self, hunks: &[usize]) -> anyhow::Result<LeftOut> {
        let diff = self.diff;
        let mut left_out: BTreeSet<usize> =
            hunks.iter().flat_map(|hunk| self.found[*hunk].iter().copied()).collect();
        for _ in 0..MOST_STEPS {
            let files = diff.composed(&left_out);
            let Some(errors) = self.errors(&left_out, &files)? else {
                return Ok(LeftOut::Compiles(left_out));
            };
            let mut added = with_an_error(diff, &errors, &left_out, &files);
            if added.is_empty() {
                added = with_a_name(diff, &errors, |hunk| !left_out.contains(&hunk));
            }
            if added.is_empty() {
                added = of_same_files(diff, &errors, &left_out);
            }
            if added.is_empty() {
                break;
            }
            left_out.extend(added.iter().flat_map(|hunk| self.found[*hunk].iter().copied()));
        }
        Ok(LeftOut::DeadEnd(left_out))
    }

    /// Adds hunks to those of a dead end until the rest compiles, found by halving the smallest set that is known
    /// to compile. Returns that set as it is if the checks are used up first, and then `false`.
    fn narrowed(&mut self, mut left_out: BTreeSet<usize>) -> anyhow::Result<(BTreeSet<usize>, bool)> {
        let larger = self.compiling.iter().filter(|set| set.is_superset(&left_out));
        let smallest = larger.min_by_key(|set| set.len()).cloned();
        let mut compiling = smallest.unwrap_or_else(|| &self.compiling[0] | &left_out);
        while left_out.len() < compiling.len() {
            let others: Vec<usize> = (&compiling - &left_out).into_iter().collect();
            let with_first = |count: usize| -> BTreeSet<usize> {
                left_out.iter().chain(&others[..count]).copied().collect()
            };
            let (mut low, mut high) = (0, others.len());
            while high - low > 1 {
                if self.checks >= MOST_CHECKS {
                    return Ok((compiling, false));
                }
                let middle = low.midpoint(high);
                let tried = with_first(middle);
                if self.errors(&tried, &self.diff.composed(&tried))?.is_none() {
                    high = middle;
                    compiling = tried;
                } else {
                    low = middle;
                }
            }
            // The last one of those that compile made the difference.
            left_out.insert(others[low]);
            if left_out.len() < compiling.len()
                && self.errors(&left_out, &self.diff.composed(&left_out))?.is_none()
            {
                return Ok((left_out, true));
            }
        }
        Ok((compiling, true))
    }
}

/// What the errors of a variant say: which of its hunks do not compile, and which hunks that it lacks they
/// need.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MissingHunks {
    pub users: BTreeSet<usize>,
    pub missing: BTreeSet<usize>,
}

/// Reads what a variant without some hunks lacks.
pub fn missing(diff: &SplitDiff, errors: &[CompileError], left_out: &BTreeSet<usize>) -> MissingHunks {
    let files = diff.composed(left_out);
    MissingHunks {
        users: with_an_error(diff, errors, left_out, &files),
        missing: with_a_name(diff, errors, |hunk| left_out.contains(&hunk)),
    }
}

/// Returns the hunks that are still there and have an error.
fn with_an_error(
    diff: &SplitDiff,
    errors: &[CompileError],
    left_out: &BTreeSet<usize>,
    files: &[ComposedFile],
) -> BTreeSet<usize> {
    let has_error = |index: usize| {
        let hunk = &diff.hunks[index];
        let composed = files.iter().find(|file| file.path == hunk.path);
        let lines = match composed {
            Some(file) => file.lines.get(&index).cloned(),
            None => diff.candidate_lines(index),
        };
        let is_there = |(path, line): &(String, usize)| {
            *path == hunk.path
                && lines
                    .as_ref()
                    .is_none_or(|lines| (lines.start.saturating_sub(NEAR)..lines.end + NEAR).contains(line))
        };
        errors.iter().any(|error| error.places.iter().any(is_there))
    };
    let others = (0..diff.hunks.len()).filter(|hunk| !left_out.contains(hunk) && is_checked(diff, *hunk));
    others.filter(|hunk| has_error(*hunk)).collect()
}

/// Returns the hunks among some that define a name which an error quotes.
fn with_a_name(
    diff: &SplitDiff,
    errors: &[CompileError],
    is_asked: impl Fn(usize) -> bool,
) -> BTreeSet<usize> {
    let names: BTreeSet<&String> = errors.iter().flat_map(|error| &error.names).collect();
    let asked = (0..diff.hunks.len()).filter(|hunk| is_asked(*hunk) && is_checked(diff, *hunk));
    asked.filter(|hunk| diff.hunks[*hunk].defines.iter().any(|name| names.contains(name))).collect()
}

/// Returns the hunks in files that have errors.
fn of_same_files(diff: &SplitDiff, errors: &[CompileError], left_out: &BTreeSet<usize>) -> BTreeSet<usize> {
    let files: BTreeSet<&String> =
        errors.iter().flat_map(|error| error.places.iter().map(|(path, _)| path)).collect();
    let is_other = |index: &usize| !left_out.contains(index) && files.contains(&diff.hunks[*index].path);
    (0..diff.hunks.len()).filter(is_other).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bisect::parts::hunk::tests::split;

    /// Plays the compiler for a language in which `def NAME` defines a name and `use NAME` needs it.
    fn errors(text: &str) -> Vec<CompileError> {
        let of_kind = |kind: &'static str| {
            text.lines().enumerate().filter_map(move |(index, line)| Some((index, line.strip_prefix(kind)?)))
        };
        let defined: BTreeSet<&str> = of_kind("fn ").map(|(_, name)| name).collect();
        let missing = of_kind("needs ").filter(|(_, name)| !defined.contains(name));
        missing
            .map(|(index, name)| CompileError {
                message: format!("no {name}"),
                places: vec![("a.rs".to_owned(), index + 1)],
                names: BTreeSet::from([name.to_owned()]),
            })
            .collect()
    }

    fn dependents_of(old: &str, new: &str) -> (Vec<Vec<usize>>, usize) {
        let diff = split("a.rs", old, new);
        let mut checks = 0;
        let mut check = |_: &BTreeSet<usize>, files: &[ComposedFile]| {
            checks += 1;
            let errors = errors(&files[0].text);
            Ok(if errors.is_empty() { Ok(()) } else { Err(errors) })
        };
        let found = dependents(&diff, &mut check, |_| {}).unwrap();
        (found.of_hunks.into_iter().map(|one| one.into_iter().collect()).collect(), checks)
    }

    #[test]
    fn what_needs_a_hunk_is_left_out_with_it() {
        let (found, checks) = dependents_of("x1\nx2\nx3\n", "fn a\nx1\nneeds a\nx2\nother\nx3\n");
        assert_eq!(found, [vec![0, 1], vec![1], vec![2]]);
        assert_eq!(checks, 4);
    }

    #[test]
    fn an_error_in_unchanged_code_leads_to_the_hunk_that_took_the_name_away() {
        // The old name came from hunk 1. Without hunk 0, which stopped needing it, it is missing.
        let (found, _) = dependents_of("needs old\nx1\nx2\nfn old\n", "needs new\nx1\nx2\nfn new\n");
        assert_eq!(found, [vec![0, 1], vec![0, 1]]);
    }

    #[test]
    fn code_that_never_compiles_is_one_with_all() {
        let diff = split("a.rs", "x1\nx2\nx3\n", "y1\nx2\ny3\n");
        let nowhere = vec![CompileError::default()];
        let mut check = |_: &BTreeSet<usize>, _: &[ComposedFile]| Ok(Err(nowhere.clone()));
        let found = dependents(&diff, &mut check, |_| {}).unwrap();
        assert_eq!(found.of_hunks, [BTreeSet::from([0, 1]), BTreeSet::from([0, 1])]);
    }

    /// The hunks that are left out with each of some hunks, and the number of checks. An error leads nowhere.
    fn without_places(count: usize, compiles: impl Fn(&BTreeSet<usize>) -> bool) -> (Dependents, usize) {
        let lines = |word: &str, line: usize| [format!("{word}{line}\n"), "same\n".to_owned()];
        let text = |word: &str| (0..count).flat_map(|line| lines(word, line)).collect::<String>();
        let diff = split("a.rs", &text("x"), &text("y"));
        let mut checks = 0;
        let mut check = |left_out: &BTreeSet<usize>, _: &[ComposedFile]| {
            checks += 1;
            Ok(if compiles(left_out) { Ok(()) } else { Err(vec![CompileError::default()]) })
        };
        let found = dependents(&diff, &mut check, |_| {}).unwrap();
        (found, checks)
    }

    #[test]
    fn errors_that_lead_nowhere_do_not_tie_a_hunk_to_what_it_does_not_need() {
        let (found, checks) = without_places(16, |left_out| left_out.contains(&3) == left_out.contains(&11));
        for (hunk, of_hunk) in found.of_hunks.iter().enumerate() {
            let pair = BTreeSet::from([3, 11]);
            let expected = if pair.contains(&hunk) { pair } else { BTreeSet::from([hunk]) };
            assert_eq!(*of_hunk, expected, "{hunk}");
        }
        assert_eq!((found.unseparated, checks), (0, 16 + 5));
        // 3 needs two others, and 11 alone needs nothing.
        let (found, _) = without_places(16, |left_out| {
            !left_out.contains(&3) || left_out.contains(&7) && left_out.contains(&11)
        });
        assert_eq!(found.of_hunks[3], BTreeSet::from([3, 7, 11]));
        assert_eq!(found.of_hunks[11], BTreeSet::from([11]));
    }

    #[test]
    fn hunks_stay_together_if_the_checks_are_used_up_before_it_is_known_what_needs_them() {
        let (found, checks) = without_places(80, |_| false);
        let all: BTreeSet<usize> = (0..80).collect();
        assert_eq!(found.of_hunks, vec![all; 80]);
        assert_eq!(found.unseparated, 80);
        assert!(checks <= MOST_CHECKS + 1, "{checks}");
    }

    #[test]
    fn after_many_checks_the_rest_of_a_file_is_checked_as_one() {
        use crate::bisect::parts::hunk::DiffFiles;
        let text = |path: &str, word: &str| {
            (0..40).flat_map(|line| [format!("{word}{line}\n"), format!("{path} same\n")]).collect::<String>()
        };
        let both = |path: &str| (path.to_owned(), text(path, "x"), text(path, "y"));
        let diff =
            SplitDiff::new(DiffFiles { texts: vec![both("a.rs"), both("b.rs")], ..DiffFiles::default() });
        // A hunk of the first file can never be left out alone: another file has an error that leads nowhere.
        let mut checks = 0;
        let mut check = |left_out: &BTreeSet<usize>, _: &[ComposedFile]| {
            checks += 1;
            let is_short = left_out.first().is_some_and(|hunk| *hunk < 40) && left_out.len() < 5;
            let next = left_out.last().map_or(0, |last| last + 1);
            let place = ("a.rs".to_owned(), next * 2 + 1);
            let error = CompileError { places: vec![place], ..CompileError::default() };
            Ok(if is_short { Err(vec![error]) } else { Ok(()) })
        };
        let Dependents { of_hunks: found, unseparated } = dependents(&diff, &mut check, |_| {}).unwrap();
        assert_eq!(unseparated, 50, "ten of the first file, and the second one");
        assert!(checks > 150 && checks < 160, "{checks}");
        assert!(found[79].len() > 1 && found[79] == found[60], "the last ones are one: {:?}", found[79]);
        assert!(found[79].iter().all(|hunk| *hunk >= 40));
    }

    #[test]
    fn the_errors_of_a_variant_name_what_it_lacks() {
        let diff = split("a.rs", "x1\nx2\nx3\n", "fn a\nx1\nneeds a\nx2\nother\nx3\n");
        let left_out = BTreeSet::from([0]);
        let errors = errors(&diff.composed(&left_out)[0].text);
        let found = missing(&diff, &errors, &left_out);
        assert_eq!((found.users, found.missing), (BTreeSet::from([1]), BTreeSet::from([0])));
    }

    #[test]
    fn a_file_that_nobody_compiles_needs_no_check() {
        let diff = split("README.md", "x\n", "y\n");
        let mut check = |_: &BTreeSet<usize>, _: &[ComposedFile]| anyhow::bail!("no check");
        assert_eq!(dependents(&diff, &mut check, |_| {}).unwrap().of_hunks, [BTreeSet::from([0])]);
    }
}
