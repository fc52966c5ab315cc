//! The user's filters (`filter.NAME.smudge` and the like), which git calls at a checkout.

use std::collections::BTreeSet;

use camino::Utf8Path;

use crate::checkout::error::CheckoutError;
use crate::git::program::nul_separated;
use crate::git::repository::Repository;
use memprof_plan::resolved::Revision;
use memprof_support::advice::Advice;
use memprof_support::paths;

/// Refuses a revision that changes a program which a filter would run from the checkout. A checkout
/// must not run what a stranger wrote. The working tree's programs are the user's own.
pub(crate) fn refuse_own_programs(repository: &Repository, revision: &Revision) -> anyhow::Result<()> {
    if revision.working_tree {
        return Ok(());
    }
    let list = ["config", "-z", "--get-regexp", r"^filter\..*\.(smudge|clean|process)$"];
    let configured = nul_separated(&repository.git().args(list).capture()?.stdout);
    let filters = configured.iter().filter_map(|entry| entry.split_once('\n'));
    for (key, command) in filters {
        let words = relative_words(command);
        if words.is_empty() {
            continue;
        }
        let listed = |commit: &str| -> anyhow::Result<BTreeSet<String>> {
            let list = ["--literal-pathspecs", "ls-tree", "-z", "--full-tree", commit, "--"];
            Ok(nul_separated(&repository.git().args(list).args(&words).capture()?.stdout)
                .into_iter()
                .collect())
        };
        let (theirs, users) = (listed(&revision.commit)?, listed("HEAD")?);
        // A folder counts as a whole: after `cd tools`, any file in it may be the program.
        let mut changed = theirs.difference(&users).filter_map(|line| Some(line.split_once('\t')?.1));
        if let Some(program) = changed.next() {
            return Err(CheckoutError::OwnProgram {
                revision: revision.name.clone(),
                key: key.to_owned(),
                program: program.to_owned(),
                users: repository.root().join(program).to_string(),
            }
            .advised());
        }
    }
    Ok(())
}

/// Returns the words of a shell command that may be paths in the checkout.
fn relative_words(command: &str) -> Vec<String> {
    let ends = |character: char| character.is_whitespace() || "'\"`;|&<>()".contains(character);
    let words = command.split(ends).filter(|word| !word.is_empty()).enumerate();
    // A program without a slash comes from PATH.
    let may_be_inside = |(index, word): &(usize, &str)| {
        !word.starts_with(['/', '-', '~', '%']) && (*index > 0 || word.contains('/'))
    };
    let plain = |(_, word): (usize, &str)| paths::without_dots(Utf8Path::new(word)).to_string();
    words.filter(may_be_inside).map(plain).filter(|word| !word.is_empty()).collect()
}

/// Returns git's message about a filter that failed, and without which git wrote a file. It does so
/// if the filter is not `required`.
pub(crate) fn failure(stderr: &[u8]) -> Option<String> {
    let stderr = String::from_utf8_lossy(stderr);
    let line = stderr.lines().find(|line| line.contains("external filter '"))?;
    Some(line.trim_start_matches("error: ").to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_may_be_paths_in_the_checkout_are_found() {
        assert_eq!(relative_words("git-crypt smudge"), ["smudge"]);
        assert_eq!(relative_words("./tools/x.sh %f"), ["tools/x.sh"]);
        assert_eq!(relative_words("python3 -B 'tools/x.py'"), ["tools/x.py"]);
        assert_eq!(relative_words("/usr/bin/tr a-z A-Z"), ["a-z", "A-Z"]);
        assert!(relative_words("cat").is_empty());
    }
}
