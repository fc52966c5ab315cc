//! Which hunks cannot be left out alone: the compiler's errors lead from one hunk to those that need it.

use std::collections::BTreeSet;

use crate::bisect::parts::hunk::{ComposedFile, SplitDiff};
use memprof_build::compile_check::CompileError;

/// What the compiler says of the candidate without some hunks: no errors, or some. The outer error is the
/// tool's.
pub(crate) type Check<'a> =
    dyn FnMut(&BTreeSet<usize>, &[ComposedFile]) -> anyhow::Result<Result<(), Vec<CompileError>>> + 'a;

/// After this number of checks, hunks that are left count as one.
const MOST_CHECKS: usize = 150;

/// How often the errors of one hunk are followed.
const MOST_STEPS: usize = 12;

/// How far from a hunk the compiler may place an error that it causes, in lines.
const NEAR: usize = 1;

/// Returns for each hunk the hunks that have to be left out with it, itself included. `told` gets the number
/// of hunks that are done.
pub fn dependents(
    diff: &SplitDiff,
    check: &mut Check<'_>,
    mut told: impl FnMut(usize),
) -> anyhow::Result<Vec<BTreeSet<usize>>> {
    let count = diff.hunks.len();
    let mut checks = 0;
    let mut found: Vec<Option<BTreeSet<usize>>> = vec![None; count];
    for (index, of_one) in found.iter_mut().enumerate() {
        if !diff.hunks[index].is_code {
            *of_one = Some(BTreeSet::from([index]));
        } else if checks < MOST_CHECKS {
            *of_one = Some(of_hunk(diff, index, check, &mut checks)?);
        }
        told(index + 1);
    }
    let rest: BTreeSet<usize> = (0..count).filter(|index| found[*index].is_none()).collect();
    Ok(found.into_iter().map(|of_one| of_one.unwrap_or_else(|| rest.clone())).collect())
}

/// Follows the errors from one hunk until the rest compiles.
fn of_hunk(
    diff: &SplitDiff,
    index: usize,
    check: &mut Check<'_>,
    checks: &mut usize,
) -> anyhow::Result<BTreeSet<usize>> {
    let mut left_out = BTreeSet::from([index]);
    for _ in 0..MOST_STEPS {
        let files = diff.composed(&left_out);
        *checks += 1;
        let errors = match check(&left_out, &files)? {
            Ok(()) => return Ok(left_out),
            Err(errors) => errors,
        };
        let mut added = pointed_at(diff, &errors, &left_out, &files);
        if added.is_empty() {
            added = of_same_files(diff, &errors, &left_out);
        }
        if added.is_empty() {
            break;
        }
        left_out.extend(added);
    }
    // Nothing but the whole change of the code is known to compile.
    Ok((0..diff.hunks.len()).filter(|hunk| diff.hunks[*hunk].is_code).collect())
}

/// Returns the hunks that are still there and have an error, or define a name that an error quotes.
fn pointed_at(
    diff: &SplitDiff,
    errors: &[CompileError],
    left_out: &BTreeSet<usize>,
    files: &[ComposedFile],
) -> BTreeSet<usize> {
    let is_meant = |index: usize, error: &CompileError| {
        let hunk = &diff.hunks[index];
        let composed = files.iter().find(|file| file.path == hunk.path);
        let lines = match composed {
            Some(file) => file.lines.get(&index).cloned(),
            None => diff.candidate_lines(index),
        };
        let has_place = |(path, line): &(String, usize)| {
            *path == hunk.path
                && lines
                    .as_ref()
                    .is_none_or(|lines| (lines.start.saturating_sub(NEAR)..lines.end + NEAR).contains(line))
        };
        error.places.iter().any(has_place)
    };
    let others =
        || (0..diff.hunks.len()).filter(|index| !left_out.contains(index) && diff.hunks[*index].is_code);
    let placed: BTreeSet<usize> =
        others().filter(|index| errors.iter().any(|error| is_meant(*index, error))).collect();
    if !placed.is_empty() {
        return placed;
    }
    let names: BTreeSet<&String> = errors.iter().flat_map(|error| &error.names).collect();
    others().filter(|index| diff.hunks[*index].defines.iter().any(|name| names.contains(name))).collect()
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
        (found.into_iter().map(|one| one.into_iter().collect()).collect(), checks)
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
        assert_eq!(found, [BTreeSet::from([0, 1]), BTreeSet::from([0, 1])]);
    }

    #[test]
    fn a_file_that_nobody_compiles_needs_no_check() {
        let diff = split("README.md", "x\n", "y\n");
        let mut check = |_: &BTreeSet<usize>, _: &[ComposedFile]| anyhow::bail!("no check");
        assert_eq!(dependents(&diff, &mut check, |_| {}).unwrap(), [BTreeSet::from([0])]);
    }
}
