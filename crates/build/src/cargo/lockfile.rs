//! The lock file for revisions that have not committed one. All of them get the same file, which is
//! kept between runs.

use std::collections::BTreeSet;

use camino::{Utf8Path, Utf8PathBuf};
use jiff::Timestamp;

use crate::cargo::patched_packages;
use crate::git::links::{self, Linked};
use crate::git::repository::{Lookup, Repository};
use memprof_plan::lock_differences::locked;
use memprof_plan::request::LockfileRequest;
use memprof_plan::resolved::{Plan, Revision};
use memprof_support::event::{Event, Sink};
use memprof_support::regular_file::followed;
use memprof_support::user_error::UserError;

/// The lock file for revisions that lack one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lockfile {
    /// This text.
    Given(Vec<u8>),
    /// Every revision has its own.
    NotNeeded,
    /// Must be generated in a checkout.
    ToGenerate {
        /// The path to keep it at.
        kept: Utf8PathBuf,
        /// The moment whose versions it has. Today if absent.
        moment: Option<Timestamp>,
    },
}

/// The decision about the lock file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    /// The lock file.
    pub lockfile: Lockfile,
    /// Where it comes from: `the Cargo.lock of main`, `dependencies of 2024-05-01`.
    pub origin: String,
    /// What every report says about it.
    pub notes: Vec<String>,
    /// The revision whose dependencies it has: the baseline if that has none committed.
    pub of: usize,
    /// Where another lock file comes from if this one does not build; `None` if the user chose it.
    pub fallback: Option<Fallback>,
}

/// Where another lock file comes from if today's versions do not build.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fallback {
    /// The moment whose versions it has.
    pub moment: Timestamp,
    lockfiles: Utf8PathBuf,
    name: String,
}

impl Fallback {
    /// Returns the path of the lock file that is used from now on where this one would be. `None`
    /// means that today's dependencies do not even resolve.
    pub fn kept(&self, broken: Option<&[u8]>) -> Utf8PathBuf {
        let broken = broken.map_or("none".to_owned(), |text| blake3::hash(text).to_hex()[..16].to_owned());
        let day = self.moment.strftime("%Y%m%dT%H%M%SZ");
        self.lockfiles.join(format!("{}-{day}-for-{broken}.lock", self.name))
    }
}

/// Returns the packages of a lock file, `serde 1.0.219`, in its order. Empty if it cannot be parsed:
/// cargo reports that.
pub(crate) fn packages(text: &[u8]) -> Vec<String> {
    locked(text).into_iter().map(|package| format!("{} {}", package.name, package.version)).collect()
}

/// Returns the path of the workspace's lock file in a revision's tree.
fn path_in(plan: &Plan) -> String {
    plan.workspace.join("Cargo.lock").to_string()
}

/// Whether a revision has committed its lock file.
pub(crate) fn is_committed(plan: &Plan, revision: usize, repository: &Repository) -> anyhow::Result<bool> {
    let file = links::show(repository, &plan.revisions[revision].commit, &path_in(plan))?;
    Ok(matches!(file, Linked::File(_) | Linked::Link(_)))
}

/// Returns the text of a revision's lock file, if it has committed one.
pub(crate) fn committed_text(
    plan: &Plan,
    revision: usize,
    repository: &Repository,
) -> anyhow::Result<Option<Vec<u8>>> {
    text_of(repository, &plan.revisions[revision].commit, &path_in(plan))
}

/// Reads a lock file at a commit. One behind a link that leads outside does not count.
pub fn text_of(repository: &Repository, commit: &str, path: &str) -> anyhow::Result<Option<Vec<u8>>> {
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
            (Linked::Absent | Linked::LeadsOutside(_), Self::Given(text)) => {
                let commit = &plan.revisions[revision].commit;
                let read = |folder: &str| {
                    let path = plan.workspace.join(folder).join("Cargo.toml");
                    let text = text_of(repository, commit, path.as_str()).ok()??;
                    String::from_utf8(text).ok()
                };
                Some(patched_packages::without_own(text, read).unwrap_or_else(|| text.clone()))
            }
            _ => None,
        })
    }
}

/// From this number on, revisions are counted instead of named.
const MANY: usize = 8;

/// Decides where the lock file comes from: from what the user asked for; else from another
/// revision, the baseline first; else from the user's checkout, where git ignores it and which the
/// user builds with. As a last resort, one is generated.
///
/// `without_manifest` are the revisions that cannot be built. `crate_of_tests` describes the crate of an external
/// overlay, which has a lock file of its own.
pub(crate) fn choose(
    plan: &Plan,
    without_manifest: &BTreeSet<usize>,
    repository: &Repository,
    lockfiles: &Utf8Path,
    crate_of_tests: &str,
    sink: &dyn Sink,
) -> anyhow::Result<Choice> {
    let path = path_in(plan);
    let committed = Committed::find(plan, without_manifest, repository, &path)?;
    let of = committed.lacking.first().copied().unwrap_or(plan.baseline);
    let fixed = |lockfile: Lockfile, origin: String| Choice {
        lockfile,
        origin,
        notes: Vec::new(),
        of,
        fallback: None,
    };
    if committed.lacking.is_empty() {
        return Ok(fixed(Lockfile::NotNeeded, String::new()));
    }
    let name = name_of(plan, of, crate_of_tests);
    let generated = |suffix: &str, moment: Option<Timestamp>| {
        let kept = lockfiles.join(format!("{name}-{suffix}.lock"));
        let origin = |written: Option<Timestamp>| of_date(moment, written);
        kept_or(
            kept,
            |kept| fixed(Lockfile::ToGenerate { kept, moment }, origin(None)),
            |given, written| fixed(given, origin(Some(written))),
        )
    };
    let newest = committed.lacking.iter().map(|index| plan.revisions[*index].time).max().unwrap_or_default();
    let newest = Timestamp::from_second(newest)?;
    match &plan.request.lockfile {
        Some(LockfileRequest::From(spec)) => {
            let text = text_at(repository, spec, &path)?;
            return Ok(fixed(Lockfile::Given(text), format!("the Cargo.lock of {spec}")));
        }
        Some(LockfileRequest::Date(day)) => return generated(day, Some(start_of(day)?)),
        Some(LockfileRequest::Commit) => {
            return generated(&newest.strftime("%Y%m%dT%H%M%SZ").to_string(), Some(newest));
        }
        Some(LockfileRequest::Today) => {
            return generated(&Timestamp::now().strftime("today-%Y-%m-%d").to_string(), None);
        }
        None => {}
    }
    // Said once per repository, and only where a lock file can decide anything.
    let warn = |solution: &str| -> anyhow::Result<()> {
        let told = lockfiles.join(format!("told-{}", &blake3::hash(solution.as_bytes()).to_hex()[..16]));
        if !told.exists() && committed.may_depend(plan, repository)? {
            committed.warn(plan, solution, sink);
            fs_err::create_dir_all(lockfiles)?;
            fs_err::write(&told, "")?;
        }
        Ok(())
    };
    if let Some((revision, text)) = &committed.first {
        warn(&format!("using the one of {revision}"))?;
        return Ok(fixed(Lockfile::Given(text.clone()), format!("the Cargo.lock of {revision}")));
    }
    let chosen = match followed::read(repository.root().join(&path)) {
        Ok(text) => {
            warn("using the one in your checkout for all")?;
            fixed(Lockfile::Given(text), "the Cargo.lock in your checkout".to_owned())
        }
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
        Err(_) => {
            warn("generating one for all")?;
            generated("first-use", None)?
        }
    };
    let fallback = Fallback { moment: newest, lockfiles: lockfiles.to_owned(), name };
    let broken = match &chosen.lockfile {
        Lockfile::Given(text) => Some(text.as_slice()),
        Lockfile::NotNeeded | Lockfile::ToGenerate { .. } => None,
    };
    let kept = fallback.kept(broken);
    let chosen = Choice { fallback: Some(fallback), ..chosen };
    kept_or(kept, |_| chosen, |given, _| fixed(given, of_date(Some(newest), None)))
}

/// Returns the origin of a generated lock file: of a moment, or with the newest versions of the time
/// when it was written.
fn of_date(moment: Option<Timestamp>, written: Option<Timestamp>) -> String {
    let today = day(Timestamp::now());
    match moment.or(written).map(day).filter(|day| moment.is_some() || *day != today) {
        Some(day) => format!("dependencies of {day}"),
        None => "today's dependencies".to_owned(),
    }
}

/// Returns the lock file that an earlier run kept, with the time when it did, or else `generated`.
fn kept_or(
    kept: Utf8PathBuf,
    generated: impl FnOnce(Utf8PathBuf) -> Choice,
    given: impl FnOnce(Lockfile, Timestamp) -> Choice,
) -> anyhow::Result<Choice> {
    if !kept.exists() {
        return Ok(generated(kept));
    }
    let text = followed::read(&kept)?;
    let written = Timestamp::try_from(fs_err::metadata(&kept)?.modified()?)?;
    Ok(Choice { notes: notes_in(&text), ..given(Lockfile::Given(text), written) })
}

/// Returns the day of a moment, `2023-05-01`.
pub(crate) fn day(moment: Timestamp) -> String {
    moment.strftime("%Y-%m-%d").to_string()
}

/// Returns a hint: neither today's versions nor the ones that were tried then build a revision. An older one may need
/// those of its own date.
pub(crate) fn neither_builds(tried: &str, log: &Utf8Path, revision: &Revision) -> String {
    let own = Timestamp::from_second(revision.time).map(day).unwrap_or_default();
    if own.is_empty() || tried.ends_with(&own) {
        return format!("{tried} do not build it either: {log}");
    }
    format!("{tried} do not build it either ({log}); to try those of its own date: --lockfile-date {own}")
}

/// Returns the start of a day.
fn start_of(day: &str) -> anyhow::Result<Timestamp> {
    Ok(day.parse::<jiff::civil::Date>()?.to_zoned(jiff::tz::TimeZone::UTC)?.timestamp())
}

/// Returns the name of a generated lock file: of a revision's workspace, or of the crate of an
/// external overlay.
fn name_of(plan: &Plan, of: usize, crate_of_tests: &str) -> String {
    let tree = &plan.revisions[of].tree[..16];
    if plan.workspace.as_str().is_empty() && crate_of_tests.is_empty() {
        return tree.to_owned();
    }
    let what = blake3::hash(format!("{} {crate_of_tests}", plan.workspace).as_bytes()).to_hex();
    format!("{tree}-{}", &what[..16])
}

/// What begins a comment with a note in a kept lock file.
const NOTE: &str = "# note: ";

/// Returns the notes in a kept lock file.
fn notes_in(text: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(text);
    text.lines().map_while(|line| line.strip_prefix(NOTE)).map(ToOwned::to_owned).collect()
}

/// Returns a lock file with notes as comments.
pub(crate) fn with_notes(text: &[u8], notes: &[String]) -> Vec<u8> {
    let lines = notes.iter().map(|note| format!("{NOTE}{}\n", note.replace('\n', " ")));
    [lines.collect::<String>().as_bytes(), text].concat()
}

/// Keeps a lock file for later runs.
pub(crate) fn keep(kept: &Utf8Path, text: &[u8]) -> anyhow::Result<()> {
    if let Some(folder) = kept.parent() {
        fs_err::create_dir_all(folder)?;
    }
    // Later runs use this file, so it must never be half of it.
    let partial = kept.with_extension("partial");
    fs_err::write(&partial, text)?;
    Ok(fs_err::rename(partial, kept)?)
}

/// Which revisions of a plan have committed a lock file, of those that can be built.
struct Committed<'a> {
    /// The indices of those that have not, the baseline before the others.
    lacking: Vec<usize>,
    /// The name and text of the first that has, the baseline before the others.
    first: Option<(&'a str, Vec<u8>)>,
}

impl<'a> Committed<'a> {
    fn find(
        plan: &'a Plan,
        without_manifest: &BTreeSet<usize>,
        repository: &Repository,
        path: &str,
    ) -> anyhow::Result<Self> {
        let mut committed = Self { lacking: Vec::new(), first: None };
        let others = (0..plan.revisions.len()).filter(|index| *index != plan.baseline);
        let all = std::iter::once(plan.baseline).chain(others);
        for index in all.filter(|index| !without_manifest.contains(index)) {
            let revision = &plan.revisions[index];
            match text_of(repository, &revision.commit, path)? {
                Some(text) => {
                    committed.first.get_or_insert((&revision.name, text));
                }
                None => committed.lacking.push(index),
            }
        }
        Ok(committed)
    }

    /// Whether a revision without a lock file has several packages, or dependencies.
    fn may_depend(&self, plan: &Plan, repository: &Repository) -> anyhow::Result<bool> {
        let path = plan.workspace.join("Cargo.toml");
        for index in &self.lacking {
            let commit = &plan.revisions[*index].commit;
            let leads_outside =
                matches!(links::show(repository, commit, &path_in(plan))?, Linked::LeadsOutside(_));
            let text = text_of(repository, commit, path.as_str())?.filter(|_| !leads_outside);
            let text = text.map(|text| String::from_utf8_lossy(&text).into_owned());
            if text.is_none_or(|text| has_dependencies(&text)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn warn(&self, plan: &Plan, solution: &str, sink: &dyn Sink) {
        let message = format!(
            "{}: {solution} (--lockfile-from REF or --lockfile-date commit choose another)",
            self.lack(plan)
        );
        sink.emit(Event::Warning { message, help: None });
    }

    /// `main, pr/7 have no Cargo.lock`.
    fn lack(&self, plan: &Plan) -> String {
        let names: Vec<&str> =
            self.lacking.iter().map(|index| plan.revisions[*index].name.as_str()).collect();
        match names.len() {
            1 => format!("{} has no Cargo.lock", names[0]),
            // A search may have hundreds of commits.
            count @ MANY.. => format!("{count} revisions have no Cargo.lock"),
            _ => format!("{} have no Cargo.lock", names.join(", ")),
        }
    }
}

/// Whether a manifest has dependencies, or members that may have some.
fn has_dependencies(manifest: &str) -> bool {
    let mut is_inside = false;
    manifest.lines().map(str::trim).any(|line| {
        if line.starts_with('[') {
            is_inside = line.contains("dependencies");
            return line.contains("workspace") || line.contains("dependencies.");
        }
        is_inside && !line.is_empty() && !line.starts_with('#')
    })
}

/// Returns the lock file that a ref has committed.
fn text_at(repository: &Repository, spec: &str, path: &str) -> anyhow::Result<Vec<u8>> {
    let Lookup::Commit(commit) = repository.look_up(spec)? else {
        return Err(UserError::new(format!("lockfile: no ref '{spec}' in this repository")).into());
    };
    let text = text_of(repository, &commit, path)?;
    Ok(text.ok_or_else(|| UserError::new(format!("lockfile: {spec} has no {path}")))?)
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

    #[test]
    fn an_old_revision_may_need_the_versions_of_its_own_date() {
        let revision = Revision {
            name: "old".to_owned(),
            spec: "old".to_owned(),
            commit: String::new(),
            tree: String::new(),
            subject: String::new(),
            time: 1_737_600_000,
            found: None,
            working_tree: false,
        };
        let hint = |tried: &str| neither_builds(tried, "0-old.log".into(), &revision);
        assert_eq!(
            hint("dependencies of 2025-01-23"),
            "dependencies of 2025-01-23 do not build it either: 0-old.log"
        );
        assert_eq!(
            hint("dependencies of 2026-06-24"),
            "dependencies of 2026-06-24 do not build it either (0-old.log); to try those of its own date: \
             --lockfile-date 2025-01-23"
        );
    }

    #[test]
    fn a_kept_lock_file_has_its_notes() {
        let folder = tempfile::tempdir().unwrap();
        let kept = Utf8Path::from_path(folder.path()).unwrap().join("locks/one.lock");
        let notes = ["as of 2023-05-01".to_owned(), "took a 1.0.0".to_owned()];
        let text = with_notes(b"version = 4\n", &notes);
        keep(&kept, &text).unwrap();
        assert_eq!(fs_err::read(&kept).unwrap(), text);
        assert_eq!(notes_in(&text), notes);
        assert!(text.ends_with(b"\nversion = 4\n") && packages(&text).is_empty());
        assert!(notes_in(b"version = 4\n# note: later\n").is_empty());
    }

    #[test]
    fn a_generated_lock_file_has_the_versions_of_a_day() {
        let may = "2023-05-01T08:00:00Z".parse().ok();
        assert_eq!(of_date(may, Some(Timestamp::now())), "dependencies of 2023-05-01");
        assert_eq!(of_date(None, may), "dependencies of 2023-05-01", "kept since its first use");
        assert_eq!(of_date(None, Some(Timestamp::now())), "today's dependencies");
        assert_eq!(of_date(None, None), "today's dependencies");
    }

    #[test]
    fn a_manifest_without_dependencies_needs_no_lock_file() {
        assert!(!has_dependencies("[package]\nname = 'a'\n\n[dependencies]\n# none\n[lib]\npath = 'a.rs'\n"));
        for manifest in ["[dev-dependencies]\na = '1'", "[dependencies.a]\nversion = '1'", "[workspace]"] {
            assert!(has_dependencies(manifest), "{manifest}");
        }
    }

    #[test]
    fn a_day_begins_at_midnight() {
        assert_eq!(start_of("2023-05-01").unwrap().to_string(), "2023-05-01T00:00:00Z");
    }
}
