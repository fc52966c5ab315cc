//! The lock file of a revision that has committed none: the same one for every such revision, kept between runs.

use anyhow::Context;
use camino::{Utf8Path, Utf8PathBuf};

use crate::cargo::toolchain::Toolchain;
use crate::git::repository::{Lookup, Repository};
use crate::plan::request::LockfileRequest;
use crate::plan::resolved::Plan;
use crate::support::event::{Event, Sink};
use crate::support::user_error::UserError;

/// What revisions without a lock file are given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lockfile {
    /// This text.
    Given(Vec<u8>),
    /// Every revision has its own.
    NotNeeded,
    /// It is still to be made, in a checkout of the baseline, and kept at this path.
    ToGenerate {
        /// Where it is kept.
        kept: Utf8PathBuf,
        /// The day as of which it is resolved; today if absent.
        date: Option<String>,
    },
}

/// Path of a workspace's lock file in a revision's tree.
fn path_in(plan: &Plan) -> String {
    plan.workspace.join("Cargo.lock").to_string()
}

/// Whether a revision has committed its lock file.
pub fn is_committed(plan: &Plan, revision: usize, repository: &Repository) -> anyhow::Result<bool> {
    Ok(repository.show(&plan.revisions[revision].commit, &path_in(plan))?.is_some())
}

/// So many revisions are counted and not named.
const MANY: usize = 8;

/// Decides where the lock file comes from: as asked; else the one of another revision, the baseline first; else the
/// ignored one in the user's checkout, which is what the user builds with; else one that is generated for the baseline.
pub fn choose(
    plan: &Plan,
    repository: &Repository,
    lockfiles: &Utf8Path,
    sink: &dyn Sink,
) -> anyhow::Result<Lockfile> {
    let path = path_in(plan);
    let mut lacking = Vec::new();
    let mut having = None;
    let baseline_first = std::iter::once(plan.baseline)
        .chain((0..plan.revisions.len()).filter(|index| *index != plan.baseline));
    for index in baseline_first {
        let revision = &plan.revisions[index];
        match repository.show(&revision.commit, &path)? {
            Some(text) if having.is_none() => having = Some((revision, text)),
            Some(_) => {}
            None => lacking.push(revision.name.as_str()),
        }
    }
    if lacking.is_empty() {
        return Ok(Lockfile::NotNeeded);
    }
    let tell = |what: String| {
        let help =
            "commit a Cargo.lock, or choose one with `lockfile: {from: REF}` or `{date: DAY}`".to_owned();
        sink.emit(Event::Warning { message: what, help: Some(help) });
    };
    let verb = if lacking.len() == 1 { "has" } else { "have" };
    let names = match lacking.len() {
        // All commits of a search.
        count @ MANY.. => format!("{count} revisions have no Cargo.lock"),
        _ => format!("{} {verb} no Cargo.lock", lacking.join(", ")),
    };
    match &plan.request.lockfile {
        Some(LockfileRequest::From(spec)) => {
            let Lookup::Commit(commit) = repository.look_up(spec)? else {
                return Err(UserError::new(format!("lockfile: no ref '{spec}' in this repository")).into());
            };
            let text = repository.show(&commit, &path)?;
            let text = text.ok_or_else(|| UserError::new(format!("lockfile: {spec} has no {path}")))?;
            return Ok(Lockfile::Given(text));
        }
        Some(LockfileRequest::Date(day)) => return generated(plan, lockfiles, Some(day.clone())),
        None => {}
    }
    if let Some((revision, text)) = having {
        tell(format!("{names}: the one of {} is used", revision.name));
        return Ok(Lockfile::Given(text));
    }
    let users = repository.root().join(&path);
    if let Ok(text) = fs_err::read(&users) {
        tell(format!("{names}: the one in your checkout is used for all"));
        return Ok(Lockfile::Given(text));
    }
    tell(format!("{names}: one is generated and used for all"));
    generated(plan, lockfiles, None)
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

/// Generates the lock file in a checkout, and keeps it.
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
        // Resolving as of a date is a nightly feature of cargo, which this variable opens on stable; it reaches only this
        // one command, which compiles nothing.
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
    fs_err::write(kept, &text)?;
    Ok(text)
}
