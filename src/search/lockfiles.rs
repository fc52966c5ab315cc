//! `bisect --lockfile OLD..NEW`: from two lock files to a history with one commit for each update. The
//! commits are the tool's own, of one code base; no branch of the user points to them.

use anyhow::Context;
use camino::Utf8Path;

use crate::arguments::presentation::PresentationArguments;
use crate::arguments::search::MeasuringArguments;
use crate::commands::context::CommandContext;
use crate::request::asked::Asked;
use crate::request::refs::RefsNeeded;
use memprof_build::builder::Builder;
use memprof_build::cargo::lockfile;
use memprof_build::cargo::resolution::out_of_reach;
use memprof_build::git::repository::{Lookup, Repository};
use memprof_build::git::resolve::resolve_any;
use memprof_build::git::written_commit;
use memprof_judge::results::run_folder::RunFolder;
use memprof_plan::request::OverlayMode;
use memprof_plan::resolved::Plan;
use memprof_run::bisect::lockfile::chain::{self, ChainStep};
use memprof_run::bisect::record::LockfileSearch;
use memprof_run::session::Session;
use memprof_support::counted::counted;
use memprof_support::event::{Event, Sink};
use memprof_support::paths;
use memprof_support::regular_file::followed;
use memprof_support::user_error::UserError;

/// How to write the two lock files.
const EXAMPLE: &str =
    "write two files or two refs: --lockfile old.lock..Cargo.lock, or --lockfile v1.2..main";

/// What the user wrote.
pub struct LockfileRange<'a> {
    /// The old lock file: a file or a ref.
    pub old: &'a str,
    /// The new lock file: a file or a ref.
    pub new: &'a str,
}

impl<'a> LockfileRange<'a> {
    /// Reads `OLD..NEW`. Paths may have dots themselves, so two files that exist come first.
    pub fn read(text: &'a str, exists: impl Fn(&str) -> bool) -> Result<Self, UserError> {
        let splits: Vec<(&str, &str)> = text
            .match_indices("..")
            .map(|(place, dots)| (&text[..place], &text[place + dots.len()..]))
            .collect();
        let are_files = |(old, new): &&(&str, &str)| exists(old) && exists(new);
        let is_whole =
            |(old, new): &&(&str, &str)| !old.is_empty() && !new.is_empty() && !new.starts_with('.');
        let both = splits.iter().find(are_files);
        let found = both.or_else(|| splits.iter().find(is_whole));
        let (old, new) = found.copied().ok_or_else(|| {
            UserError::new(format!("--lockfile {text}: these are not two lock files")).help(EXAMPLE)
        })?;
        Ok(Self { old, new })
    }
}

/// Passes warnings on. The commits of the tool say nothing to the user.
pub struct WarningsOnly<'a>(pub &'a dyn Sink);

impl Sink for WarningsOnly<'_> {
    fn emit(&self, event: Event) {
        if matches!(event, Event::Warning { .. }) {
            self.0.emit(event);
        }
    }
}

/// The commits of a lock file search.
pub struct LockfileHistory {
    /// The commit with the old lock file, and the one with the new lock file.
    pub ends: [String; 2],
    /// What the record keeps.
    pub search: LockfileSearch,
    /// The name of each commit, from the old lock file on.
    pub names: Vec<String>,
}

/// Finds the updates between two lock files, and writes a commit for each. `code` is the ref whose code
/// is built; by default that of the new lock file.
pub fn history(
    range: &LockfileRange<'_>,
    code: Option<&str>,
    measuring: &MeasuringArguments,
    repository: &Repository,
    context: CommandContext<'_>,
) -> anyhow::Result<LockfileHistory> {
    let console = context.console;
    let is_file = |name: &str| repository.start().join(name).is_file();
    let code = code.unwrap_or(if is_file(range.new) { "." } else { range.new });
    let plan = plan_of(code, measuring, repository, console)?;
    if plan.request.overlay.iter().any(|overlay| overlay.mode == OverlayMode::External) {
        return Err(UserError::new(
            "--lockfile does not reach an external overlay: its crate has its own lock file",
        )
        .help("put its tests into the package: --overlay-mode package")
        .into());
    }
    let path = plan.workspace.join("Cargo.lock");
    let texts = [range.old, range.new].map(|name| text_of(name, &path, repository));
    let [old, new] = texts;
    let (old, new) = (old?, new?);
    let session = Session::open(repository, console, context.interrupt)?;
    let lock = session.lock(measuring.waiting.when_held())?;
    let scratch = tempfile::tempdir()?;
    let folder = RunFolder(paths::utf8(scratch.path().to_owned())?);
    let mut builder = Builder::new(&plan, repository, &session.cache, &folder, console, context.interrupt)?;
    let steps = builder.resolving(0, |resolver| {
        let resolved = |text: &[u8], name: &str| {
            let resolved = resolver.completed(text)?;
            resolved.map_err(|message| {
                let reason = resolver.reason(&message);
                if let Some(error) = out_of_reach(code, &reason) {
                    return error.into();
                }
                let message = format!("the lock file of {name} cannot be used for {code}: {reason}");
                anyhow::Error::from(UserError::new(message).help(
                    "name the code that both lock files are for: cargo memprof bisect REF --lockfile OLD..NEW",
                ))
            })
        };
        let new = resolved(&new, range.new)?;
        let old = resolved(chain::with_missing(&old, &new).as_bytes(), range.old)?;
        let mut said = 0;
        let steps = chain::chain(&old, &new, &mut |text| resolver.completed(text), |done, all| {
            // One line for each tenth.
            if all > 0 && done * 10 / all > said {
                said = done * 10 / all;
                console.emit(Event::RefsChosen { text: format!("lock files: {done} of {all} updates resolved") });
            }
        })?;
        anyhow::Ok((old, steps))
    });
    let (old, steps) = steps?;
    drop((builder, lock));
    written(range, &plan, &path, &old, &steps, repository)
}

/// Resolves the ref whose code is built.
fn plan_of(
    code: &str,
    measuring: &MeasuringArguments,
    repository: &Repository,
    sink: &dyn Sink,
) -> anyhow::Result<Plan> {
    let mut arguments = measuring.request(code, code);
    arguments.refs.refs.truncate(1);
    let asked = Asked::read(&arguments, &PresentationArguments::default(), repository, RefsNeeded::Alike)?;
    let plan = resolve_any(&asked.request, repository, sink)?;
    anyhow::ensure!(plan.revisions.len() == 1, "the code of a search over updates is one revision");
    Ok(plan)
}

/// Reads a lock file: of a file, of the working tree, or of a ref.
fn text_of(name: &str, path: &Utf8Path, repository: &Repository) -> anyhow::Result<Vec<u8>> {
    let file = repository.start().join(name);
    if file.is_file() {
        return Ok(followed::read(file)?);
    }
    if name == "." {
        return followed::read(repository.root().join(path)).context("the lock file of the working tree");
    }
    let Lookup::Commit(commit) = repository.look_up(name)? else {
        return Err(UserError::new(format!("--lockfile: '{name}' is neither a file nor a ref"))
            .help(EXAMPLE)
            .into());
    };
    let text = lockfile::text_of(repository, &commit, path.as_str())?;
    Ok(text.ok_or_else(|| UserError::new(format!("--lockfile: {name} has no {path}")).help(EXAMPLE))?)
}

/// Writes the commits: the code with the old lock file, and then one update after the other.
fn written(
    range: &LockfileRange<'_>,
    plan: &Plan,
    path: &Utf8Path,
    old: &[u8],
    steps: &[ChainStep],
    repository: &Repository,
) -> anyhow::Result<LockfileHistory> {
    if steps.is_empty() {
        return Err(UserError::new(format!(
            "the lock files of {} and {} have the same packages",
            range.old, range.new
        ))
        .help(EXAMPLE)
        .into());
    }
    let commit = |base: &str, text: &[u8], subject: &str| {
        written_commit::with_files(repository, Some(base), &[(path.to_string(), text.to_vec())], subject)
    };
    let first = commit(&plan.revisions[0].commit, old, &format!("the lock file of {}", range.old))?;
    let mut last = first.clone();
    for step in steps {
        last = commit(&last, &step.lockfile, &chain::words(&step.moved))?;
    }
    let names = std::iter::once(range.old.to_owned()).chain(chain::names(steps)).collect();
    let updates = steps.len();
    let packages = steps.iter().map(|step| step.moved.len()).sum();
    let code = plan.revisions[0].name.clone();
    Ok(LockfileHistory { ends: [first, last], search: LockfileSearch { code, updates, packages }, names })
}

/// Returns the first line of a search: how many updates, and how many builds.
pub fn announcement(search: &LockfileSearch, good: &str, bad: &str, halvings: usize, before: &str) -> String {
    let LockfileSearch { updates, packages, .. } = search;
    let most = updates + 1;
    let usual = (halvings + 2).min(most);
    format!(
        "{} in {} from {good} to {bad}: about {}, at most {most}{before}",
        counted(*packages, "changed package"),
        counted(*updates, "step"),
        counted(usual, "build"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_files_or_two_refs_are_a_range() {
        let files = ["../old..lock", "Cargo.lock", "a.lock"];
        let read = |text: &str| {
            let range = LockfileRange::read(text, |name| files.contains(&name));
            range.map(|range| format!("{} | {}", range.old, range.new)).map_err(|error| error.message)
        };
        assert_eq!(read("../old..lock..Cargo.lock").unwrap(), "../old..lock | Cargo.lock");
        assert_eq!(read("v1.2..main").unwrap(), "v1.2 | main");
        assert_eq!(read("a.lock...").unwrap_err(), "--lockfile a.lock...: these are not two lock files");
        assert!(read("Cargo.lock").is_err() && read("..main").is_err());
    }

    #[test]
    fn the_number_of_builds_is_said_before_the_first() {
        let search = LockfileSearch { code: ".".into(), updates: 12, packages: 15 };
        assert_eq!(
            announcement(&search, "old.lock", "Cargo.lock", 4, ""),
            "15 changed packages in 12 steps from old.lock to Cargo.lock: about 6 builds, at most 13"
        );
    }
}
