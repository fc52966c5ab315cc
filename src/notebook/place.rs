//! Where a notebook is: in a repository, beside one, or in no repository at all.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

use anyhow::Context;
use camino::{Utf8Path, Utf8PathBuf};

use crate::kept_runs::current_directory;
use memprof_build::checkout::cache;
use memprof_build::git::repository::Repository;
use memprof_build::git::written_commit;
use memprof_plan::resolved::Revision;
use memprof_support::durable::{sync_names, sync_tree};
use memprof_support::paths;
use memprof_support::process::Command;
use memprof_support::regular_file::followed;
use memprof_support::user_error::UserError;

/// A notebook's file, and the repository that its program is built in.
pub struct Place {
    /// The repository: around the notebook, around the current folder, or made for the notebook.
    pub repository: Repository,
    /// The file, without links and as an absolute path.
    pub file: Utf8PathBuf,
    /// The file's path in the repository, if it is there.
    pub inside: Option<Utf8PathBuf>,
    /// Whether the repository was made for the notebook.
    pub is_made: bool,
}

impl Place {
    /// Finds the place of a notebook. With refs, the repository of the current folder comes first.
    pub fn find(file: &Utf8Path, has_refs: bool) -> anyhow::Result<Self> {
        let current = current_directory()?;
        let file = current.join(file).canonicalize_utf8().map_err(|error| {
            UserError::new(format!("cannot read {file}: {error}"))
                .help("name a notebook: cargo memprof notebook FILE.ipynb")
        })?;
        let folder = file.parent().context("a file has a folder")?;
        let of_current = || Repository::discover(&current).ok().filter(|_| has_refs);
        let of_notebook = || Repository::discover(folder).ok();
        let Some(repository) = of_current().or_else(of_notebook) else {
            if has_refs {
                let outside = if folder == current {
                    format!("{folder} is in none")
                } else {
                    format!("neither {folder} nor {current} is in one")
                };
                return Err(UserError::new(format!("--refs needs a repository, and {outside}"))
                .help("call it in the repository: cd REPOSITORY && cargo memprof notebook FILE.ipynb --refs main,.")
                .into());
            }
            return Ok(Self { repository: made(&file)?, file, inside: None, is_made: true });
        };
        let inside = if repository.is_bare() { None } else { file.strip_prefix(repository.root()).ok() };
        let inside = inside.map(Utf8Path::to_owned);
        Ok(Self { repository, file, inside, is_made: false })
    }

    /// Returns the notebook's text at a revision.
    pub fn text(&self, revision: &Revision) -> anyhow::Result<String> {
        let bytes = match &self.inside {
            // The commit of the working tree lacks what git ignores, and has what a clean filter left.
            Some(path) if revision.spec != "." => {
                let stored = self.repository.show(&revision.commit, path.as_str())?;
                stored.ok_or_else(|| {
                    let name = path.file_name().unwrap_or_default();
                    UserError::new(format!("{} has no notebook '{path}'", revision.name)).help(format!(
                        "to run the same notebook at every ref, copy it out of the repository:\n\
                         cp {path} /tmp && cargo memprof notebook /tmp/{name} --refs {},.",
                        revision.name
                    ))
                })?
            }
            Some(_) | None => followed::read(&self.file)?,
        };
        String::from_utf8(bytes).map_err(|error| {
            UserError::new(format!("{}: this is not UTF-8: {error}", self.file))
                .help("name a file that Jupyter wrote: cargo memprof notebook FILE.ipynb")
                .into()
        })
    }
}

/// Returns the folder of the repositories that were made for notebooks. It is beside the cache, because
/// the cache may contain no repository.
pub fn made_repositories(home: &Utf8Path) -> Utf8PathBuf {
    let name = home.file_name().map_or_else(|| "notebooks".to_owned(), |name| format!("{name}-notebooks"));
    home.with_file_name(name)
}

/// Makes an empty repository for a notebook, or returns that of an earlier run.
fn made(file: &Utf8Path) -> anyhow::Result<Repository> {
    let stem = file.file_stem().unwrap_or_default();
    let hash = blake3::hash(file.as_str().as_bytes()).to_hex();
    let folder = made_repositories(&cache::home()?).join(format!("{stem}-{}", &hash[..16]));
    if !folder.join(".git").exists() {
        make(&folder).with_context(|| format!("could not make the repository {folder}"))?;
    }
    Repository::discover(&folder)
}

/// Makes a repository in another folder, and moves it when it is whole and on the disk: a part of one
/// could not be continued.
fn make(folder: &Utf8Path) -> anyhow::Result<()> {
    let above = folder.parent().context("it is in another folder")?;
    fs_err::create_dir_all(above)?;
    let mut builder = tempfile::Builder::new();
    // The system takes the umask off these permissions.
    builder.prefix(".memprof-").suffix(".partial").permissions(Permissions::from_mode(0o777));
    let made = builder.tempdir_in(above)?;
    let partial = paths::utf8(made.path().to_owned())?;
    let init = ["init", "--quiet", "--template=", "--initial-branch=main"];
    Command::new("git").args(init).current_dir(&partial).run()?;
    fs_err::write(partial.join(".gitignore"), "/target\n")?;
    let repository = Repository::discover(&partial)?;
    // A worktree needs a repository with a commit.
    let empty = written_commit::with_files(&repository, None, &[], "Notebooks")?;
    repository.git().args(["update-ref", "HEAD", &empty]).run()?;
    sync_tree(made.path())?;
    fs_err::rename(&partial, folder)?;
    let _moved = made.keep();
    Ok(sync_names(above.as_std_path())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_notebook_of_the_working_tree_is_as_on_the_disk_and_not_as_a_filter_stores_it() {
        let scratch = tempfile::tempdir().unwrap();
        let root = Utf8Path::from_path(scratch.path()).unwrap().canonicalize_utf8().unwrap();
        let git = |arguments: &[&str]| {
            let person = ["-c", "user.name=a", "-c", "user.email=a@b.c"];
            Command::new("git").args(person).args(arguments).current_dir(&root).run().unwrap().text()
        };
        git(&["init", "--quiet"]);
        git(&["config", "filter.strip.clean", "sed s/output//"]);
        fs_err::write(root.join(".gitattributes"), "*.ipynb filter=strip\n").unwrap();
        fs_err::write(root.join("a.ipynb"), "cell output\n").unwrap();
        git(&["add", "."]);
        git(&["commit", "--quiet", "--message", "one"]);
        let (commit, file) = (git(&["rev-parse", "HEAD"]), root.join("a.ipynb"));
        let repository = Repository::discover(&root).unwrap();
        let place = Place { repository, file, inside: Some("a.ipynb".into()), is_made: false };
        let of = |spec: &str| Revision { spec: spec.into(), commit: commit.clone(), ..Revision::default() };
        assert_eq!(place.text(&of("HEAD")).unwrap(), "cell \n");
        assert_eq!(place.text(&of(".")).unwrap(), "cell output\n");
    }
}
