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
    let (mut checks, mut unseparated) = (0, 0);
    let mut found: Vec<BTreeSet<usize>> = (0..count).map(|hunk| diff.tied(hunk)).collect();
    let mut left: Vec<usize> = (0..count).filter(|hunk| is_checked(diff, *hunk)).collect();
    told(count - left.len());
    while !left.is_empty() {
        let path = &diff.hunks[left[0]].path;
        let is_next = |hunk: &usize| match checks {
            checks if checks < MOST_CHECKS => *hunk == left[0],
            checks if checks < MOST_CHECKS_OF_FILES => diff.hunks[*hunk].path == *path,
            _ => true,
        };
        let (group, others): (Vec<usize>, Vec<usize>) = left.iter().copied().partition(is_next);
        if group.len() > 1 {
            unseparated += group.len();
        }
        let needed_by = followed(diff, &group, &found, check, &mut checks)?;
        for hunk in group {
            found[hunk].extend(&needed_by);
        }
        told(count - others.len());
        left = others;
    }
    Ok(Dependents { of_hunks: found, unseparated })
}

fn is_checked(diff: &SplitDiff, hunk: usize) -> bool {
    diff.hunks[hunk].reader == Reader::Compiler
}

/// Follows the errors from hunks that are left out until the rest compiles. `known` has what has to be left out
/// with each hunk, as far as this is known.
fn followed(
    diff: &SplitDiff,
    hunks: &[usize],
    known: &[BTreeSet<usize>],
    check: &mut Check<'_>,
    checks: &mut usize,
) -> anyhow::Result<BTreeSet<usize>> {
    let with_known = |hunk: &usize| known[*hunk].iter().copied();
    let mut left_out: BTreeSet<usize> = hunks.iter().flat_map(with_known).collect();
    for _ in 0..MOST_STEPS {
        let files = diff.composed(&left_out);
        *checks += 1;
        let errors = match check(&left_out, &files)? {
            Ok(()) => return Ok(left_out),
            Err(errors) => errors,
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
        left_out.extend(added.iter().flat_map(with_known));
    }
    // Nothing but the whole change of the code is known to compile.
    Ok((0..diff.hunks.len()).filter(|hunk| is_checked(diff, *hunk)).collect())
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
