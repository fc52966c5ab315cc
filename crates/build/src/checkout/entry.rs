//! The checkout's entry in the user's repository, `.git/worktrees/NAME`. A test reaches it through the
//! checkout, so it is made right before each checkout. What git cannot read there would end every
//! later one, and a FIFO would never end.

use camino::{Utf8Path, Utf8PathBuf};

use crate::checkout::removal::remove_whatever_is_at;
use memprof_support::continuation;
use memprof_support::regular_file;
use memprof_support::user_error::UserError;

/// A file that tells our entry from those of the user's own worktrees.
pub(crate) const MARK: &str = "cargo-memprof";

/// The entry.
pub(crate) struct Entry {
    /// `.git/worktrees/NAME` of the user's repository.
    pub folder: Utf8PathBuf,
    /// The checkout's root.
    pub checkout: Utf8PathBuf,
    /// The text of the sparse-checkout file.
    pub sparse_patterns: String,
}

impl Entry {
    /// Makes the entry what git expects. `commit` takes the place of a `HEAD` that is none, or else
    /// nothing does.
    ///
    /// # Errors
    /// The entry is gone, and its place belongs to a worktree of the user's.
    pub(crate) fn repair(&self, commit: Option<&str>) -> anyhow::Result<()> {
        self.refuse_users_own()?;
        make_folder(&self.folder)?;
        // A name need not be UTF-8.
        for file in fs_err::read_dir(&self.folder)? {
            let file = file?;
            let kind = file.file_type()?;
            if !kind.is_dir() && !kind.is_file() {
                fs_err::remove_file(file.path())?;
            }
        }
        make_folder(&self.folder.join("info"))?;
        let link = format!("{}\n", self.checkout.join(".git"));
        let files = [
            (MARK, ""),
            ("commondir", "../..\n"),
            ("gitdir", &link),
            ("info/sparse-checkout", &self.sparse_patterns),
        ];
        for (name, text) in files {
            restore(&self.folder.join(name), text)?;
        }
        // `git sparse-checkout set` writes one. The command line of each call has its settings.
        remove_whatever_is_at(&self.folder.join("config.worktree"))?;
        // A killed git leaves its locks behind. This process holds the cache's lock, so no living
        // process holds them.
        for lock in ["index.lock", "HEAD.lock"] {
            remove_whatever_is_at(&self.folder.join(lock))?;
        }
        let head = self.folder.join("HEAD");
        if !regular_file::text(&head).is_ok_and(|text| is_head(text.trim_end())) {
            match commit {
                Some(commit) => restore(&head, &format!("{commit}\n"))?,
                None => remove_whatever_is_at(&head)?,
            }
        }
        Ok(())
    }

    fn refuse_users_own(&self) -> anyhow::Result<()> {
        let is_ours = self.folder.join(MARK).symlink_metadata().is_ok();
        let link = regular_file::text(&self.folder.join("gitdir")).unwrap_or_default();
        let other =
            Some(link.trim_end()).filter(|link| !link.is_empty() && *link != self.checkout.join(".git"));
        let Some(other) = other.filter(|_| !is_ours) else { return Ok(()) };
        let message = format!(
            "the checkout {} lost its entry in the repository: {} is now that of {other}",
            self.checkout, self.folder
        );
        Err(UserError::new(message).help(continuation::advice("to continue with a new checkout")).into())
    }

    /// Forgets what is checked out.
    pub(crate) fn start_over(&self, commit: &str) -> anyhow::Result<()> {
        remove_whatever_is_at(&self.folder.join("index"))?;
        restore(&self.folder.join("HEAD"), &format!("{commit}\n"))
    }

    /// Whether git knows which files are checked out.
    pub(crate) fn has_index(&self) -> bool {
        self.folder.join("index").symlink_metadata().is_ok_and(|metadata| metadata.is_file())
    }
}

fn make_folder(folder: &Utf8Path) -> anyhow::Result<()> {
    if !folder.symlink_metadata().is_ok_and(|metadata| metadata.is_dir()) {
        remove_whatever_is_at(folder)?;
        fs_err::create_dir_all(folder)?;
    }
    Ok(())
}

/// Whether git can have written this. With reftables, the commit is in another file.
fn is_head(text: &str) -> bool {
    let is_hash = [40, 64].contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_hash || text == "ref: refs/heads/.invalid"
}

/// Gives a file this text, unless it has it.
fn restore(path: &Utf8Path, text: &str) -> anyhow::Result<()> {
    if !regular_file::read(path).is_ok_and(|found| found == text.as_bytes()) {
        remove_whatever_is_at(path)?;
        regular_file::write(path, text.as_bytes())?;
    }
    Ok(())
}
