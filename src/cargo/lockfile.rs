//! The lock file for revisions that have not committed one. All of them get the same file, which is
//! kept between runs.

use anyhow::Context;
use camino::{Utf8Path, Utf8PathBuf};
use toml_edit::{DocumentMut, Item, Table};

use crate::cargo::toolchain::Toolchain;
use crate::git::links::{self, Linked};
use crate::git::repository::{Lookup, Repository};
use crate::plan::request::LockfileRequest;
use crate::plan::resolved::Plan;
use crate::support::event::{Event, Sink};
use crate::support::user_error::UserError;

/// The lock file for revisions that lack one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lockfile {
    /// This text.
    Given(Vec<u8>),
    /// Every revision has its own.
    NotNeeded,
    /// It must be generated in a checkout of the baseline.
    ToGenerate {
        /// The path to keep it at.
        kept: Utf8PathBuf,
        /// The day whose versions it has. Today if absent.
        date: Option<String>,
    },
}

/// Returns the packages of a lock file, `serde 1.0.219`, in its order. Empty if it cannot be parsed:
/// cargo reports that.
pub fn packages(text: &[u8]) -> Vec<String> {
    let document = String::from_utf8_lossy(text).parse::<DocumentMut>().unwrap_or_default();
    let tables = document.get("package").and_then(Item::as_array_of_tables).into_iter().flatten();
    let text = |table: &Table, key: &str| Some(table.get(key)?.as_str()?.to_owned());
    tables.filter_map(|table| Some(format!("{} {}", text(table, "name")?, text(table, "version")?))).collect()
}

/// Returns the path of the workspace's lock file in a revision's tree.
fn path_in(plan: &Plan) -> String {
    plan.workspace.join("Cargo.lock").to_string()
}

/// Whether a revision has committed its lock file.
pub fn is_committed(plan: &Plan, revision: usize, repository: &Repository) -> anyhow::Result<bool> {
    let file = links::show(repository, &plan.revisions[revision].commit, &path_in(plan))?;
    Ok(matches!(file, Linked::File(_) | Linked::Link(_)))
}

/// Returns the text of a revision's lock file, if it has committed one.
pub fn committed_text(
    plan: &Plan,
    revision: usize,
    repository: &Repository,
) -> anyhow::Result<Option<Vec<u8>>> {
    text_of(repository, &plan.revisions[revision].commit, &path_in(plan))
}

/// Reads a lock file at a commit. One behind a link that leads outside does not count.
fn text_of(repository: &Repository, commit: &str, path: &str) -> anyhow::Result<Option<Vec<u8>>> {
    Ok(match links::show(repository, commit, path)? {
        Linked::File(text) | Linked::Link(text) => Some(text),
        Linked::LeadsOutside(_) | Linked::Absent => None,
    })
}

impl Lockfile {
    /// Returns the lock file to inject into a revision; `None` if it has its own.
    ///
    /// A symbolic link is replaced by the file that it leads to, because cargo writes through it.
    pub fn injected(
        &self,
        plan: &Plan,
        revision: usize,
        repository: &Repository,
    ) -> anyhow::Result<Option<Vec<u8>>> {
        let own = links::show(repository, &plan.revisions[revision].commit, &path_in(plan))?;
        Ok(match (own, self) {
            (Linked::Link(text), _) => Some(text),
            (Linked::Absent | Linked::LeadsOutside(_), Self::Given(text)) => Some(text.clone()),
            _ => None,
        })
    }
}

/// From this number on, revisions are counted instead of named.
const MANY: usize = 8;

/// Decides where the lock file comes from: from what the user asked for; else from another
/// revision, the baseline first; else from the user's checkout, where git ignores it and which the
/// user builds with. As a last resort, one is generated for the baseline.
pub fn choose(
    plan: &Plan,
    repository: &Repository,
    lockfiles: &Utf8Path,
    sink: &dyn Sink,
) -> anyhow::Result<Lockfile> {
    let path = path_in(plan);
    let committed = Committed::find(plan, repository, &path)?;
    if committed.lacking.is_empty() {
        return Ok(Lockfile::NotNeeded);
    }
    match &plan.request.lockfile {
        Some(LockfileRequest::From(spec)) => {
            return Ok(Lockfile::Given(text_at(repository, spec, &path)?));
        }
        Some(LockfileRequest::Date(day)) => return generated(plan, lockfiles, Some(day.clone())),
        None => {}
    }
    let warn = |solution: &str| {
        let message = format!("{}: {solution}", committed.lack());
        let help = "commit a Cargo.lock, or choose one with `lockfile: {from: REF}` or `{date: DAY}`";
        sink.emit(Event::Warning { message, help: Some(help.to_owned()) });
    };
    if let Some((revision, text)) = &committed.first {
        warn(&format!("using the one of {revision}"));
        return Ok(Lockfile::Given(text.clone()));
    }
    match fs_err::read(repository.root().join(&path)) {
        Ok(text) => {
            warn("using the one in your checkout for all");
            return Ok(Lockfile::Given(text));
        }
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
        Err(_) => {}
    }
    warn("generating one for all");
    generated(plan, lockfiles, None)
}

/// Which revisions of a plan have committed a lock file.
struct Committed<'a> {
    /// The names of those that have not.
    lacking: Vec<&'a str>,
    /// The name and text of the first that has, the baseline before the others.
    first: Option<(&'a str, Vec<u8>)>,
}

impl<'a> Committed<'a> {
    fn find(plan: &'a Plan, repository: &Repository, path: &str) -> anyhow::Result<Self> {
        let mut committed = Self { lacking: Vec::new(), first: None };
        let others = (0..plan.revisions.len()).filter(|index| *index != plan.baseline);
        for index in std::iter::once(plan.baseline).chain(others) {
            let revision = &plan.revisions[index];
            match text_of(repository, &revision.commit, path)? {
                Some(text) => {
                    committed.first.get_or_insert((&revision.name, text));
                }
                None => committed.lacking.push(&revision.name),
            }
        }
        Ok(committed)
    }

    /// `main, pr/7 have no Cargo.lock`.
    fn lack(&self) -> String {
        match self.lacking.len() {
            1 => format!("{} has no Cargo.lock", self.lacking[0]),
            // A search may have hundreds of commits.
            count @ MANY.. => format!("{count} revisions have no Cargo.lock"),
            _ => format!("{} have no Cargo.lock", self.lacking.join(", ")),
        }
    }
}

/// Returns the lock file that a ref has committed.
fn text_at(repository: &Repository, spec: &str, path: &str) -> anyhow::Result<Vec<u8>> {
    let Lookup::Commit(commit) = repository.look_up(spec)? else {
        return Err(UserError::new(format!("lockfile: no ref '{spec}' in this repository")).into());
    };
    let text = text_of(repository, &commit, path)?;
    Ok(text.ok_or_else(|| UserError::new(format!("lockfile: {spec} has no {path}")))?)
}

fn generated(plan: &Plan, lockfiles: &Utf8Path, date: Option<String>) -> anyhow::Result<Lockfile> {
    let baseline = &plan.revisions[plan.baseline];
    let name = format!("{}-{}.lock", &baseline.tree[..16], date.as_deref().unwrap_or("first-use"));
    let kept = lockfiles.join(name);
    if kept.exists() {
        return Ok(Lockfile::Given(fs_err::read(&kept)?));
    }
    Ok(Lockfile::ToGenerate { kept, date })
}

/// Generates the lock file in a checkout, keeps it, and returns its text.
pub fn generate(
    manifest: &Utf8Path,
    kept: &Utf8Path,
    date: Option<&str>,
    offline: bool,
    toolchain: &Toolchain,
) -> anyhow::Result<Vec<u8>> {
    let mut cargo = toolchain.cargo().arg("generate-lockfile").arg("--manifest-path").arg(manifest);
    if offline {
        cargo = cargo.arg("--offline");
    }
    if let Some(date) = date {
        // Resolving as of a date is a nightly feature of cargo. This variable enables it on stable,
        // and only for this command, which compiles nothing.
        cargo = cargo
            .env("RUSTC_BOOTSTRAP", "1")
            .args(["-Zunstable-options", "--publish-time"])
            .arg(if date.contains('T') { date.to_owned() } else { format!("{date}T00:00:00Z") });
    }
    cargo.run().context("could not generate a lock file")?;
    let text = fs_err::read(manifest.with_file_name("Cargo.lock"))?;
    if let Some(folder) = kept.parent() {
        fs_err::create_dir_all(folder)?;
    }
    // Later runs use this file, so it must never be half of it.
    let partial = kept.with_extension("partial");
    fs_err::write(&partial, &text)?;
    fs_err::rename(partial, kept)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_file_has_packages_with_versions() {
        let text = b"version = 4\n[[package]]\nname = \"a\"\nversion = \"1.0.0\"\n\n[[package]]\nname = \"a\"\nversion = \"2.0.0\"\n";
        assert_eq!(packages(text), ["a 1.0.0", "a 2.0.0"]);
        assert!(packages(b"").is_empty() && packages(b"<<<<<<< HEAD").is_empty());
    }
}
