//! Patches of a request (`--overlay-patch`): unified diffs that change each revision's own files.
//!
//! Git applies a patch in a folder of its own, to copies of the files that the patch names. The
//! result is then written like any other injected file, so that the next checkout restores it. The
//! user's index and files are not involved.

use std::collections::BTreeMap;

use anyhow::Context;
use camino::{Utf8Component, Utf8Path, Utf8PathBuf};

use crate::checkout::injected_files::{self, InjectedFiles};
use crate::git::program::{nul_separated, searching_git};
use crate::git::reserved_names::reserved_part;
use crate::inject::checkout_edits::AddedFiles;
use memprof_plan::resolved::Revision;
use memprof_support::paths;
use memprof_support::process::Command;
use memprof_support::regular_file::followed;
use memprof_support::user_error::UserError;

/// A patch, read and checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Patch {
    /// As the request has it: relative to the repository's root, or absolute.
    name: String,
    content: Vec<u8>,
    /// The files that it changes or adds.
    paths: Vec<Utf8PathBuf>,
}

/// Reads the patches of a request.
///
/// # Errors
/// A file cannot be read, is no patch, leads out of the checkout, or does more than change and add
/// files.
pub fn read(names: &[String], root: &Utf8Path) -> anyhow::Result<Vec<Patch>> {
    names.iter().map(|name| Patch::new(name, followed::read(root.join(name))?)).collect()
}

/// Returns the hash of every patch, for the build key. The order counts.
pub fn ingredients(patches: &[Patch]) -> BTreeMap<String, String> {
    let named = |(index, patch): (usize, &Patch)| {
        (format!("patch {index}"), blake3::hash(&patch.content).to_hex().to_string())
    };
    patches.iter().enumerate().map(named).collect()
}

/// Applies the patches to the files of the checkout. Returns what was written.
///
/// # Errors
/// A patch does not apply to this revision.
pub(crate) fn apply(
    patches: &[Patch],
    revision: &Revision,
    checkout: &Utf8Path,
    injected: &mut InjectedFiles,
) -> anyhow::Result<AddedFiles> {
    let mut injection = AddedFiles::new();
    if patches.is_empty() {
        return Ok(injection);
    }
    let scratch = tempfile::tempdir()?;
    let folder = paths::utf8(scratch.path().to_owned())?;
    for patch in patches {
        for path in &patch.paths {
            let copy = folder.join(path);
            if !copy.exists() {
                copy_file(checkout, path, &copy, &patch.name, revision)?;
            }
        }
        let applied = git_apply(&folder).arg("-").input(patch.content.clone()).capture()?;
        if !applied.status.success() {
            return Err(patch.refused(&String::from_utf8_lossy(&applied.stderr), revision).into());
        }
    }
    for path in patches.iter().flat_map(|patch| &patch.paths) {
        let content = followed::read(folder.join(path))?;
        injected.write(checkout, path, &content)?;
        injection.insert(path.clone(), content);
    }
    Ok(injection)
}

/// Copies a file of the checkout for git. A file that the revision lacks is not copied.
fn copy_file(
    checkout: &Utf8Path,
    path: &Utf8Path,
    copy: &Utf8Path,
    name: &str,
    revision: &Revision,
) -> anyhow::Result<()> {
    let file = checkout.join(path);
    injected_files::check_inside(checkout, file.parent().unwrap_or(checkout))?;
    let Ok(metadata) = file.symlink_metadata() else { return Ok(()) };
    if !metadata.is_file() {
        let message =
            format!("the patch {} changes {path}, which is no regular file at {}", name, revision.named());
        return Err(UserError::new(message).help("patch the file itself, by its own path").into());
    }
    fs_err::create_dir_all(copy.parent().context("a file has a folder")?)?;
    fs_err::write(copy, followed::read(file)?)?;
    Ok(())
}

/// Returns `git apply` in a folder outside of every repository.
fn git_apply(folder: &Utf8Path) -> Command {
    let command = searching_git(folder).env("GIT_CEILING_DIRECTORIES", folder.parent().unwrap_or(folder));
    command.args(["-c", "apply.ignoreWhitespace=no", "apply", "--whitespace=nowarn"])
}

impl Patch {
    /// Returns the files that it changes or adds, relative to the repository's root.
    pub fn paths(&self) -> &[Utf8PathBuf] {
        &self.paths
    }

    /// Returns its text.
    pub fn content(&self) -> &[u8] {
        &self.content
    }

    fn new(name: &str, content: Vec<u8>) -> anyhow::Result<Self> {
        let scratch = tempfile::tempdir()?;
        let folder = paths::utf8(scratch.path().to_owned())?;
        let ask = |question: &[&str]| -> anyhow::Result<Vec<u8>> {
            let asked = git_apply(&folder).args(question).arg("-").input(content.clone()).capture()?;
            if asked.status.success() {
                return Ok(asked.stdout);
            }
            let reason =
                String::from_utf8_lossy(&asked.stderr).trim().trim_start_matches("error: ").to_owned();
            Err(UserError::new(format!("--overlay-patch {name}: {reason}"))
                .help(format!("make one with git: git diff > {name}"))
                .into())
        };
        for line in String::from_utf8_lossy(&ask(&["--summary"])?).lines() {
            let line = line.trim();
            let is_plain = line.starts_with("create mode 100644 ")
                || (line.starts_with("create ") && !line.starts_with("create mode "));
            if !is_plain {
                let message = format!("--overlay-patch {name}: a patch changes and adds files, but: {line}");
                let help = "remove this part from the patch; a test can also be added with --overlay FILE";
                return Err(UserError::new(message).help(help).into());
            }
        }
        let mut paths = Vec::new();
        for entry in nul_separated(&ask(&["--numstat", "-z"])?) {
            let path = entry.splitn(3, '\t').nth(2).unwrap_or_default();
            paths.push(inside(name, Utf8Path::new(path))?);
        }
        Ok(Self { name: name.to_owned(), content, paths })
    }

    /// Returns the error for a revision that the patch does not fit. Git names the file and the
    /// line at which the hunk that failed begins.
    fn refused(&self, message: &str, revision: &Revision) -> UserError {
        let failed =
            message.lines().find_map(|line| line.strip_prefix("error: patch failed: ")?.rsplit_once(':'));
        let place = if let Some((path, line)) = failed {
            let hunk = self.hunk(path, line).map(|(hunk, all)| format!("hunk {hunk} of {all}, "));
            format!("{path}, {}at its line {line}", hunk.unwrap_or_default())
        } else {
            let first = message.lines().find_map(|line| line.strip_prefix("error: "));
            first.unwrap_or_else(|| message.trim()).to_owned()
        };
        let commit = revision.commit.get(..12).unwrap_or(&revision.commit);
        UserError::new(format!("the patch {} does not apply at {}: {place}", self.name, revision.named())).help(
            format!(
                "see what it would meet: git show {commit}:PATH; a patch with less context fits more revisions: \
                 git diff -U1 > {}",
                self.name
            ),
        )
    }

    /// Returns which hunk of a file begins at this line, and how many hunks the file has.
    fn hunk(&self, path: &str, line: &str) -> Option<(usize, usize)> {
        let text = String::from_utf8_lossy(&self.content);
        let mut is_of_file = false;
        let mut starts = Vec::new();
        let mut before = "";
        for one in text.lines() {
            if let (Some(new), true) = (one.strip_prefix("+++ "), before.starts_with("--- ")) {
                let named = [new, before.trim_start_matches("--- ")];
                // A tab and a time may follow the name.
                let name = |text: &'_ str| text.split('\t').next().unwrap_or_default().to_owned();
                is_of_file =
                    named.iter().any(|text| name(text).split_once('/').is_some_and(|(_, rest)| rest == path));
            } else if let Some(range) = one.strip_prefix("@@ -").filter(|_| is_of_file) {
                starts.push(range.split([',', ' ']).next().unwrap_or_default().to_owned());
            }
            before = one;
        }
        let position = starts.iter().position(|start| start == line)?;
        Some((position + 1, starts.len()))
    }
}

/// Refuses a path outside of the checkout, and git's own files.
fn inside(name: &str, path: &Utf8Path) -> Result<Utf8PathBuf, UserError> {
    let stays = path.components().all(|part| matches!(part, Utf8Component::Normal(_)));
    if stays && !path.as_str().is_empty() && reserved_part(path).is_none() {
        return Ok(path.to_owned());
    }
    let message = format!("--overlay-patch {name}: '{path}' is not a path inside the checkout");
    Err(UserError::new(message).help(format!("make it at the repository's root: git diff > {name}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHANGE: &str = "diff --git a/src/lib.rs b/src/lib.rs\n--- a/src/lib.rs\n+++ b/src/lib.rs\n\
                          @@ -2,2 +2,3 @@\n two\n+added\n three\n@@ -8,2 +9,3 @@\n eight\n+more\n nine\n";

    struct Checkout {
        _folder: tempfile::TempDir,
        root: Utf8PathBuf,
        injected: InjectedFiles,
    }

    fn checkout(files: &[(&str, &str)]) -> Checkout {
        let folder = tempfile::tempdir().unwrap();
        let root = Utf8PathBuf::try_from(folder.path().join("checkout")).unwrap();
        for (path, text) in files {
            fs_err::create_dir_all(root.join(path).parent().unwrap()).unwrap();
            fs_err::write(root.join(path), text).unwrap();
        }
        let injected = InjectedFiles::load(&root.with_file_name("injected.json")).unwrap();
        Checkout { _folder: folder, root, injected }
    }

    fn revision() -> Revision {
        Revision {
            name: "main".into(),
            spec: "main".into(),
            commit: "4f1c2aa000000000".into(),
            tree: String::new(),
            subject: String::new(),
            time: 0,
            found: None,
            working_tree: false,
        }
    }

    fn patch(text: &str) -> Patch {
        Patch::new("memory.patch", text.into()).unwrap()
    }

    fn lines(from: usize, to: usize) -> String {
        const WORDS: [&str; 10] =
            ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"];
        WORDS[from - 1..to].join("\n") + "\n"
    }

    #[test]
    fn each_revisions_own_file_is_changed_and_new_files_are_added() {
        let new = "diff --git a/tests/m.rs b/tests/m.rs\nnew file mode 100644\n--- /dev/null\n+++ b/tests/m.rs\n@@ -0,0 +1 @@\n+// m\n";
        let patches = [patch(CHANGE), patch(new)];
        let text = format!("own\n{}", lines(1, 10));
        let mut checkout = checkout(&[("src/lib.rs", &text)]);
        let written = apply(&patches, &revision(), &checkout.root, &mut checkout.injected).unwrap();
        let expected = text.replace("two\n", "two\nadded\n").replace("eight\n", "eight\nmore\n");
        assert_eq!(written[Utf8Path::new("src/lib.rs")], expected.as_bytes());
        assert_eq!(fs_err::read_to_string(checkout.root.join("src/lib.rs")).unwrap(), expected);
        assert_eq!(fs_err::read_to_string(checkout.root.join("tests/m.rs")).unwrap(), "// m\n");
        assert_ne!(ingredients(&patches), ingredients(&[patches[1].clone(), patches[0].clone()]));
    }

    #[test]
    fn what_does_not_apply_is_named_with_revision_file_and_hunk_and_nothing_is_written() {
        let text = format!("{}NINE\nten\n", lines(1, 8));
        let mut checkout = checkout(&[("src/lib.rs", &text)]);
        let error = apply(&[patch(CHANGE)], &revision(), &checkout.root, &mut checkout.injected).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the patch memory.patch does not apply at main (4f1c2aa): src/lib.rs, hunk 2 of 2, at its line 8"
        );
        assert_eq!(fs_err::read_to_string(checkout.root.join("src/lib.rs")).unwrap(), text);
        fs_err::remove_file(checkout.root.join("src/lib.rs")).unwrap();
        let error = apply(&[patch(CHANGE)], &revision(), &checkout.root, &mut checkout.injected).unwrap_err();
        assert!(
            error.to_string().ends_with("main (4f1c2aa): src/lib.rs: No such file or directory"),
            "{error}"
        );
    }

    #[test]
    fn a_patch_that_leads_out_of_the_checkout_is_refused() {
        let of = |path: &str| CHANGE.replace("src/lib.rs", path);
        for path in ["../outside.rs", "/etc/passwd", ".git/config", "sub/../../x", "GIT~1/x"] {
            let error = Patch::new("memory.patch", of(path).into()).unwrap_err();
            assert!(error.to_string().starts_with("--overlay-patch memory.patch: "), "{path}: {error}");
        }
        let mut checkout = checkout(&[("src/lib.rs", &lines(1, 10)), ("real/lib.rs", &lines(1, 10))]);
        let outside = checkout.root.with_file_name("outside");
        fs_err::create_dir(&outside).unwrap();
        fs_err::write(outside.join("lib.rs"), lines(1, 10)).unwrap();
        std::os::unix::fs::symlink(&outside, checkout.root.join("linked")).unwrap();
        std::os::unix::fs::symlink("../real/lib.rs", checkout.root.join("src/link.rs")).unwrap();
        for path in ["linked/lib.rs", "src/link.rs"] {
            let patches = [patch(&of(path))];
            apply(&patches, &revision(), &checkout.root, &mut checkout.injected).unwrap_err();
        }
        assert_eq!(fs_err::read_to_string(outside.join("lib.rs")).unwrap(), lines(1, 10));
        assert_eq!(fs_err::read_to_string(checkout.root.join("real/lib.rs")).unwrap(), lines(1, 10));
    }

    #[test]
    fn a_patch_that_does_more_than_change_and_add_files_is_refused() {
        let refused = |text: &str| Patch::new("memory.patch", text.into()).unwrap_err().to_string();
        let removes =
            "diff --git a/a b/a\ndeleted file mode 100644\n--- a/a\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n";
        let renames = "diff --git a/a b/b\nsimilarity index 100%\nrename from a\nrename to b\n";
        let links = "diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+/etc\n\\ No newline at end of file\n";
        let executes = "diff --git a/a b/a\nold mode 100644\nnew mode 100755\n";
        for (text, part) in [
            (removes, "delete mode"),
            (renames, "rename a"),
            (links, "create mode 120000"),
            (executes, "mode change"),
        ] {
            assert!(
                refused(text).contains(&format!("changes and adds files, but: {part}")),
                "{}",
                refused(text)
            );
        }
        // Plain `diff -u` states no modes.
        let plain_removal = "--- a/a\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n";
        assert!(refused(plain_removal).contains("but: delete a"), "{}", refused(plain_removal));
        assert_eq!(patch("--- /dev/null\n+++ b/a\n@@ -0,0 +1 @@\n+a\n").paths, ["a"]);
        assert!(refused("no patch at all\n").contains("No valid patches in input"), "{}", refused("no"));
    }
}
