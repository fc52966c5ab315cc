//! The checkout, outside of the user's repository, in which every revision is built and run.
//!
//! It is a linked worktree of the user's repository at a fixed path. Revisions are checked out in
//! place: git rewrites only the files that differ, with a current time, so that incremental builds
//! are correct and fast. The caller holds the cache's lock.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;

use anyhow::{Context, bail, ensure};
use camino::{Utf8Path, Utf8PathBuf};

use crate::checkout::cache::Cache;
use crate::checkout::clock;
use crate::checkout::conversion::{self, Conversion};
use crate::checkout::entry::{Entry, MARK};
use crate::checkout::error::CheckoutError;
use crate::checkout::filters;
use crate::checkout::injected_files;
use crate::checkout::lfs::{self, Lfs};
use crate::checkout::missing_submodules::MissingSubmodules;
use crate::checkout::registry::{registered, registry};
use crate::checkout::removal::remove_whatever_is_at;
use crate::checkout::submodules::Level;
use crate::checkout::unusable;
use crate::git::changed_submodules::is_submodule;
use crate::git::program::{Place, nul_separated};
use crate::git::repository::{Lookup, Repository};
use memprof_plan::resolved::Revision;
use memprof_support::advice::{Advice, Advised};
use memprof_support::process::Command;
use memprof_support::process_error::ProcessError;
use memprof_support::regular_file;
use memprof_support::user_error::UserError;

/// The checkout.
pub struct Worktree<'repository> {
    repository: &'repository Repository,
    path: Utf8PathBuf,
    entry: Entry,
    injected: Utf8PathBuf,
    conversion: Conversion,
    lfs: Lfs,
    missing: MissingSubmodules,
}

impl<'repository> Worktree<'repository> {
    /// Finds the checkout of an earlier run, even of a killed one, or creates it. `sparse_exclude`
    /// are patterns of files to leave out of every checkout.
    pub fn open(
        cache: &Cache,
        repository: &'repository Repository,
        sparse_exclude: &[String],
    ) -> anyhow::Result<Self> {
        clock::forget_builds_of_the_future(cache)?;
        let path = cache.worktree();
        let sparse_patterns = sparse_patterns(sparse_exclude)?;
        let entry =
            |folder| Entry { folder, checkout: path.clone(), sparse_patterns: sparse_patterns.clone() };
        let entry = match reusable(repository, &path)?.map(&entry) {
            Some(found) if is_usable(repository, &found)? => found,
            _ => entry(create(repository, &path)?),
        };
        let lfs = Lfs::open(&cache.lfs(), repository)?;
        let unconverted = git_without_lfs(repository, &entry.folder, &path);
        let conversion = Conversion::of_user(&unconverted, repository, lfs.why_unavailable().as_deref())?;
        let (injected, missing) = (cache.injected(), MissingSubmodules::default());
        Ok(Self { repository, path, entry, injected, conversion, lfs, missing })
    }

    /// Returns the root of the checkout.
    pub fn path(&self) -> &Utf8Path {
        &self.path
    }

    /// Returns its git directory, whose folder `modules` has the submodules that were checked out.
    pub(crate) fn git_directory(&self) -> &Utf8Path {
        &self.entry.folder
    }

    /// Checks out the revision in place. Files that do not differ keep their time. Removes injected
    /// files, but keeps files that git ignores.
    ///
    /// What a test or a build script did to the checkout and its entry is undone. If git cannot read
    /// them, for example because the index is damaged, the checkout starts empty.
    pub fn check_out(&self, revision: &Revision) -> anyhow::Result<()> {
        filters::refuse_own_programs(self.repository, revision)?;
        match self.check_out_in_place(revision) {
            Err(error) if may_be_damaged(&error) => {
                self.entry.start_over(&revision.commit)?;
                self.check_out_in_place(revision)
            }
            done => done,
        }
    }

    fn check_out_in_place(&self, revision: &Revision) -> anyhow::Result<()> {
        self.entry.repair(Some(&revision.commit))?;
        if !self.entry.has_index() {
            // Only the index knew which of the ignored files belong to the revision before this one.
            remove_whatever_is_at(&self.path)?;
            // Nothing is injected into an empty checkout.
            remove_whatever_is_at(&self.injected)?;
        }
        self.restore_link()?;
        unusable::remove(self.path.as_std_path())
            .with_context(|| format!("the checkout {} cannot be cleaned", self.path))?;
        injected_files::remove_all(&self.injected, &self.path)?;
        self.conversion.forget_files_if_changed(&self.git(), &self.entry.folder, &revision.commit)?;
        self.write_files(revision)?;
        // Forced twice, to remove the repositories of submodules that this revision lacks, too.
        self.git().args(["clean", "-ffdq"]).run()?;
        let users = [self.repository.git_directory(), self.repository.common_directory()];
        let level = Level {
            repository: self.repository,
            revision: &revision.name,
            inside: Utf8PathBuf::new(),
            git_directory: self.entry.folder.clone(),
            work_tree: self.path.clone(),
            users: users.map(Utf8Path::to_owned).to_vec(),
            conversion: &self.conversion,
            missing: &self.missing,
        };
        level.check_out()?;
        self.verify(revision)
    }

    /// Returns the submodules that could not be fetched so far.
    pub fn missing_submodules(&self) -> &MissingSubmodules {
        &self.missing
    }

    /// Lets git write the revision's files, through the user's filters.
    fn write_files(&self, revision: &Revision) -> anyhow::Result<()> {
        let checkout = ["checkout", "--quiet", "--force", "--detach", "--no-recurse-submodules"];
        let command = self.git().args(checkout).args([&revision.commit, "--"]);
        let mut message = None;
        // Twice, because a filter's program may be a file that the first checkout writes too late.
        for _ in 0..2 {
            message = match command.run() {
                Err(source) => return Err(self.explained(revision, source)?.advised()),
                Ok(done) => filters::failure(&done.stderr),
            };
            if message.is_none() {
                return Ok(());
            }
            // Git takes the files for finished.
            conversion::forget_files(&self.git())?;
        }
        let (revision, message) = (revision.name.clone(), message.unwrap_or_default());
        Err(CheckoutError::Filter { revision, message }.advised())
    }

    /// Whether this commit is checked out. With reftables, it cannot be told without git.
    pub(crate) fn is_at(&self, commit: &str) -> bool {
        regular_file::text(&self.entry.folder.join("HEAD")).is_ok_and(|head| head.trim_end() == commit)
    }

    /// Returns the files and folders that a checkout would remove; `None` if git cannot tell. Folders end with `/`.
    pub(crate) fn removable(&self) -> Option<Vec<String>> {
        let listed = self.git().args(["-c", "core.quotePath=false", "clean", "-ffdn"]).run().ok()?.text();
        let path =
            |line: &str| line.strip_prefix("Would remove ").map_or_else(|| line.to_owned(), str::to_owned);
        Some(listed.lines().map(path).collect())
    }

    /// Returns git's list of differences from the revision. Files that git ignores are not in it.
    pub fn status(&self) -> anyhow::Result<Vec<u8>> {
        self.restore_link()?;
        Ok(status(self.git(), "none")?)
    }

    /// Returns the files that differ from the revision or were written again, relative to the root, although a build
    /// script may have changed git's own files; `None` if git cannot tell.
    pub(crate) fn changed_files(&self) -> Option<BTreeSet<Utf8PathBuf>> {
        // Git would wait for a FIFO.
        if unusable::is_any(self.path.as_std_path()) {
            return None;
        }
        // The next checkout repairs what keeps git from telling.
        self.entry.repair(None).and_then(|()| self.restore_link()).ok()?;
        let mut changed = BTreeSet::new();
        self.add_changed_files(&self.git(), Utf8Path::new(""), &mut changed)?;
        Some(changed)
    }

    /// Adds the changed files of the checkout or of one of its submodules, and of the submodules inside.
    fn add_changed_files(
        &self,
        git: &Command,
        inside: &Utf8Path,
        changed: &mut BTreeSet<Utf8PathBuf>,
    ) -> Option<()> {
        // Git must not note the times of files that were written again with the same content.
        let reading = git.clone().arg("--no-optional-locks");
        let touched = reading.clone().args(["diff-files", "--name-only", "-z", "--ignore-submodules=all"]);
        let touched = nul_separated(&touched.run().ok()?.stdout);
        // A submodule is reported if it has another commit.
        let paths = paths_of_status(&status(reading.clone(), "dirty").ok()?);
        changed.extend(paths.iter().chain(&touched).map(|path| inside.join(path)));
        if !self.path.join(inside).join(".gitmodules").is_file() {
            return Some(());
        }
        for entry in nul_separated(&reading.args(["ls-files", "--stage", "-z"]).run().ok()?.stdout) {
            let Some((facts, path)) = entry.split_once('\t') else { continue };
            let (inside, folder) = (inside.join(path), self.path.join(inside).join(path));
            // A submodule that was not checked out is an empty folder.
            let is_empty = || folder.read_dir_utf8().map_or(true, |mut entries| entries.next().is_none());
            if is_submodule(facts) && !is_empty() {
                let git = git_without_lfs(self.repository, &folder.join(".git"), &folder);
                self.add_changed_files(&git, &inside, changed)?;
            }
        }
        Some(())
    }

    /// Makes the checkout's `.git` name its entry in the user's repository, if a test or a build
    /// script has changed that. Our own calls of git do not read it, but build scripts do.
    pub(crate) fn restore_link(&self) -> anyhow::Result<()> {
        if !self.path.symlink_metadata().is_ok_and(|metadata| metadata.is_dir()) {
            remove_whatever_is_at(&self.path)?;
            fs_err::create_dir_all(&self.path)?;
        }
        let link = self.path.join(".git");
        let target = format!("gitdir: {}\n", self.entry.folder);
        let is_own_file = link.symlink_metadata().is_ok_and(|link| link.is_file() && link.nlink() == 1);
        if !is_own_file || regular_file::read(&link)? != target.as_bytes() {
            remove_whatever_is_at(&link)?;
            regular_file::write(&link, target.as_bytes())?;
        }
        Ok(())
    }

    /// Checks for another tree than planned, and for LFS pointers in place of files.
    fn verify(&self, revision: &Revision) -> anyhow::Result<()> {
        let tree = if self.is_at(&revision.commit) {
            self.repository.commit(&revision.commit)?.tree
        } else {
            self.git().args(["rev-parse", "HEAD^{tree}"]).run()?.text()
        };
        ensure!(
            tree == revision.tree,
            "the checkout of {} has the tree {tree}, but the plan has {}",
            revision.name,
            revision.tree
        );
        let files = lfs::pointers_left(&self.git(), &self.path)?;
        if !files.is_empty() {
            let reason = self.lfs.why_unavailable().unwrap_or_default();
            return Err(
                CheckoutError::LfsPointers { revision: revision.name.clone(), files, reason }.advised()
            );
        }
        Ok(())
    }

    /// Returns git in the checkout.
    pub fn git(&self) -> Command {
        self.lfs.applied_to(git_without_lfs(self.repository, &self.entry.folder, &self.path))
    }

    /// Finds the files that made a checkout fail.
    fn explained(&self, revision: &Revision, source: ProcessError) -> anyhow::Result<CheckoutError> {
        let name = revision.name.clone();
        if let Some(files) = lfs::files_in_message(source.stderr()) {
            let reason = source.stderr().to_owned();
            return Ok(CheckoutError::LfsPointers { revision: name, files, reason });
        }
        let missing = self.missing_contents(&revision.commit)?;
        if missing.is_empty() {
            return Ok(CheckoutError::Git { revision: name, source });
        }
        let (commit, remote) = (revision.commit.clone(), self.promisor()?);
        Ok(CheckoutError::MissingContents { revision: name, files: missing, commit, remote, source })
    }

    /// Returns the name of the remote that a partial clone fetches contents from.
    fn promisor(&self) -> anyhow::Result<String> {
        let settings = ["config", "--get-regexp", r"^remote\..*\.promisor$", "true"];
        let listed = self.repository.git().args(settings).capture()?.text();
        let key = listed.lines().next().and_then(|line| line.split(' ').next());
        let name = key.and_then(|key| key.strip_prefix("remote.")?.strip_suffix(".promisor"));
        Ok(name.unwrap_or("origin").to_owned())
    }

    /// Returns the files of a commit whose contents a partial clone lacks.
    fn missing_contents(&self, commit: &str) -> anyhow::Result<Vec<String>> {
        let list = ["rev-list", "--objects", "--no-object-names", "--missing=print", "-1", commit];
        let objects = self.git().args(list).capture()?.text();
        let missing: std::collections::HashSet<_> =
            objects.lines().filter_map(|line| line.strip_prefix('?')).collect();
        if missing.is_empty() {
            return Ok(Vec::new());
        }
        let tree = self.git().args(["ls-tree", "-r", "-z", "--full-tree", commit]).capture()?;
        let files = nul_separated(&tree.stdout);
        let facts = files.iter().filter_map(|line| line.split_once('\t'));
        let lacks = |facts: &str| facts.split(' ').next_back().is_some_and(|hash| missing.contains(hash));
        Ok(facts.filter(|(facts, _)| lacks(facts)).map(|(_, path)| path.to_owned()).collect())
    }
}

/// Returns git's list of changed files, each once. Of submodules, it ignores these changes.
fn status(git: Command, of_submodules: &str) -> Result<Vec<u8>, ProcessError> {
    let status = ["status", "--porcelain", "-z", "--untracked-files=all", "--no-renames"];
    Ok(git.args(status).arg(format!("--ignore-submodules={of_submodules}")).run()?.stdout)
}

/// Returns the paths in git's list of changed files.
pub(crate) fn paths_of_status(status: &[u8]) -> Vec<String> {
    // Two letters and a space are before each path.
    nul_separated(status).iter().filter_map(|line| line.get(3..)).map(str::to_owned).collect()
}

/// Whether a new checkout may help. It does not where the revision, its files or the user's settings
/// are the reason.
fn may_be_damaged(error: &anyhow::Error) -> bool {
    // Git ends with 1 or 128 after an error of its own; a signal may be the user's.
    let is_of_git = |failed: &ProcessError| match failed {
        ProcessError::Failed { status, .. } => matches!(status.code(), Some(1 | 128)),
        _ => false,
    };
    if error.chain().filter_map(|cause| cause.downcast_ref::<ProcessError>()).any(|failed| !is_of_git(failed))
    {
        return false;
    }
    let explained = error.downcast_ref::<Advised>().and_then(Advised::downcast_ref::<CheckoutError>);
    matches!(explained, None | Some(CheckoutError::Git { .. })) && error.downcast_ref::<UserError>().is_none()
}

/// The command line sets sparse patterns, because all worktrees share the user's configuration,
/// and switches off what could hide changed files from git.
fn git_without_lfs(repository: &Repository, git_directory: &Utf8Path, path: &Utf8Path) -> Command {
    let sparse = ["core.sparseCheckout=true", "core.sparseCheckoutCone=false", "index.sparse=false"];
    let safe = [
        "core.untrackedCache=false",
        "core.splitIndex=false",
        "core.checkStat=default",
        "core.trustCtime=true",
        "core.ignoreStat=false",
    ];
    let command = repository.git_at(Place { git_directory, work_tree: Some(path) });
    let settings = sparse.iter().chain(&safe);
    settings.fold(command, |command, setting| command.args(["-c", setting]))
}

/// Returns the checkout's entry in the user's git directory, if the folder and the entry belong
/// together. What a test may have written into the checkout does not decide.
fn reusable(repository: &Repository, path: &Utf8Path) -> anyhow::Result<Option<Utf8PathBuf>> {
    if !path.symlink_metadata().is_ok_and(|metadata| metadata.is_dir()) {
        return Ok(None);
    }
    let mut entries = registered(repository, path)?;
    let entry = match (entries.pop(), entries.is_empty()) {
        (Some(entry), true) => entry,
        (Some(_), false) => return Ok(None),
        (None, _) => match moved(repository, path)? {
            Some(entry) => entry,
            None => return Ok(None),
        },
    };
    Ok(Some(entry))
}

/// Whether git can work with an entry. A worktree whose creation was killed has no index, and may lack
/// anything else.
fn is_usable(repository: &Repository, entry: &Entry) -> anyhow::Result<bool> {
    entry.repair(None)?;
    let git = repository.git_at(Place { git_directory: &entry.folder, work_tree: Some(&entry.checkout) });
    let head = git.args(["rev-parse", "--verify", "--quiet", "HEAD^{commit}"]).capture()?;
    Ok(head.status.success())
}

/// Returns the entry of a checkout that was moved with its cache, and notes the new place there.
fn moved(repository: &Repository, path: &Utf8Path) -> anyhow::Result<Option<Utf8PathBuf>> {
    let Ok(link) = regular_file::text(&path.join(".git")) else { return Ok(None) };
    let Some(entry) = link.trim_end().strip_prefix("gitdir: ").map(Utf8PathBuf::from) else {
        return Ok(None);
    };
    let is_ours = entry.parent() == Some(&registry(repository)) && entry.join(MARK).is_file();
    let Ok(back) = regular_file::text(&entry.join("gitdir")) else { return Ok(None) };
    // If the old place still exists, the cache is a copy, and the entry belongs to the original.
    if !is_ours || Utf8Path::new(back.trim_end()).exists() {
        return Ok(None);
    }
    // `git worktree repair` would also change the user's own worktrees.
    regular_file::write(&entry.join("gitdir"), format!("{}\n", path.join(".git")).as_bytes())?;
    Ok(Some(entry))
}

/// Creates the checkout without any file in it.
fn create(repository: &Repository, path: &Utf8Path) -> anyhow::Result<Utf8PathBuf> {
    for leftover in registered(repository, path)?.into_iter().chain([path.to_owned()]) {
        remove_whatever_is_at(&leftover)?;
    }
    let commit = any_commit(repository)?;
    let add = ["worktree", "add", "--quiet", "--detach", "--no-checkout", "--force", "--"];
    repository
        .git()
        // Relative paths would set an extension in the user's configuration.
        .args(["-c", "worktree.useRelativePaths=false"])
        .args(add)
        .args([path.as_str(), &commit])
        .run()?;
    let mut entries = registered(repository, path)?;
    match entries.pop() {
        Some(entry) if entries.is_empty() => Ok(entry),
        _ => bail!("git created the worktree {path}, but {} has no entry for it", registry(repository)),
    }
}

/// Returns any commit to create the worktree at. The first checkout moves it.
fn any_commit(repository: &Repository) -> anyhow::Result<String> {
    let references = repository.references()?;
    for name in std::iter::once("HEAD").chain(references.iter().map(String::as_str)) {
        if let Lookup::Commit(commit) = repository.look_up(name)? {
            return Ok(commit);
        }
    }
    Err(UserError::new(format!("the repository {} has no commit yet; make one first", repository.root()))
        .into())
}

/// Returns a sparse-checkout file for everything but these patterns. It is needed even without
/// patterns, because a new worktree inherits those of the user's worktree.
fn sparse_patterns(exclude: &[String]) -> anyhow::Result<String> {
    let mut text = "/*\n".to_owned();
    for pattern in exclude {
        ensure!(
            !pattern.is_empty() && !pattern.contains('\n') && !pattern.starts_with(['!', '#']),
            "'{pattern}' is not a pattern of files to leave out: use the syntax of .gitignore, without '!'"
        );
        text.extend(["!", pattern, "\n"]);
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;
    use crate::git::program::searching_git;

    fn git(folder: &Utf8Path, arguments: &[&str]) -> String {
        let settings = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "protocol.file.allow=always"];
        searching_git(folder).args(settings).args(arguments).run().unwrap().text()
    }

    /// Commits these files in a new repository.
    fn commit(folder: &Utf8Path, files: &[&str]) {
        fs_err::create_dir(folder).unwrap();
        git(folder, &["init", "-q"]);
        for file in files {
            fs_err::write(folder.join(file), "1").unwrap();
        }
        git(folder, &["add", "."]);
        git(folder, &["commit", "-q", "-m", "one"]);
    }

    fn head(folder: &Utf8Path) -> Revision {
        Revision {
            name: "HEAD".to_owned(),
            spec: "HEAD".to_owned(),
            commit: git(folder, &["rev-parse", "HEAD"]),
            tree: git(folder, &["rev-parse", "HEAD^{tree}"]),
            subject: String::new(),
            time: 0,
            found: None,
            working_tree: false,
        }
    }

    /// Writes a file again with the same content.
    fn write_again(path: &Utf8Path) {
        fs_err::write(path, "1").unwrap();
        // The clock of files may not have moved on.
        let file = fs_err::OpenOptions::new().write(true).open(path).unwrap();
        file.file().set_modified(SystemTime::UNIX_EPOCH).unwrap();
    }

    #[test]
    fn a_file_that_is_written_again_with_the_same_content_has_changed() {
        let folder = tempfile::tempdir().unwrap();
        let root = Utf8Path::from_path(folder.path()).unwrap().canonicalize_utf8().unwrap();
        let user = root.join("user");
        commit(&user, &["made.rs", "other.rs"]);
        let repository = Repository::discover(&user).unwrap();
        let cache = Cache::open(&root.join("home"), &repository).unwrap();
        let worktree = Worktree::open(&cache, &repository, &[]).unwrap();
        let revision = head(&user);
        worktree.check_out(&revision).unwrap();
        assert_eq!(worktree.changed_files(), Some(BTreeSet::new()));
        write_again(&worktree.path().join("made.rs"));
        for time in ["first", "second"] {
            assert_eq!(worktree.changed_files(), Some(BTreeSet::from(["made.rs".into()])), "{time}");
        }
        worktree.check_out(&revision).unwrap();
        assert_eq!(worktree.changed_files(), Some(BTreeSet::new()));
    }

    #[test]
    fn the_changed_files_of_submodules_are_told() {
        let folder = tempfile::tempdir().unwrap();
        let root = Utf8Path::from_path(folder.path()).unwrap().canonicalize_utf8().unwrap();
        let (inner, outer, user) = (root.join("inner"), root.join("outer"), root.join("user"));
        for folder in [&inner, &outer, &user] {
            commit(folder, &["made.rs", "again.rs"]);
        }
        for (folder, submodule) in [(&outer, &inner), (&user, &outer)] {
            git(folder, &["submodule", "--quiet", "add", submodule.as_str()]);
            git(folder, &["commit", "-q", "-m", "two"]);
        }
        git(&user, &["submodule", "--quiet", "update", "--init", "--recursive"]);
        let repository = Repository::discover(&user).unwrap();
        let cache = Cache::open(&root.join("home"), &repository).unwrap();
        let worktree = Worktree::open(&cache, &repository, &[]).unwrap();
        let revision = head(&user);
        worktree.check_out(&revision).unwrap();
        assert_eq!(worktree.changed_files(), Some(BTreeSet::new()));
        for submodule in ["outer", "outer/inner"] {
            let place = worktree.path().join(submodule);
            fs_err::write(place.join("made.rs"), "12").unwrap();
            fs_err::write(place.join("new.rs"), "1").unwrap();
            write_again(&place.join("again.rs"));
        }
        let files = ["outer", "outer/inner"].map(|submodule| {
            ["again.rs", "made.rs", "new.rs"].map(|file| Utf8Path::new(submodule).join(file))
        });
        assert_eq!(worktree.changed_files(), Some(files.into_iter().flatten().collect()));
        worktree.check_out(&revision).unwrap();
        assert_eq!(worktree.changed_files(), Some(BTreeSet::new()));
        git(&worktree.path().join("outer"), &["checkout", "-q", "HEAD~1"]);
        assert!(worktree.changed_files().is_some_and(|changed| changed.contains(Utf8Path::new("outer"))));
    }
}
