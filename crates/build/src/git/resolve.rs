//! Turns a request into a plan: resolves each ref to a revision, and finds the baseline among them.

use std::collections::{HashMap, HashSet};

use anyhow::Context;
use camino::Utf8PathBuf;

use crate::git::fetch::{FetchError, fetch};
use crate::git::ref_pattern::{ForgeRef, forge_ref, nearest, short_name, shown, split_suffix};
use crate::git::repository::{Lookup, Repository};
use crate::git::resolve_error::ResolveError;
use crate::git::usual_refs::{default_branch, default_remote, narrow_remote};
use crate::git::{working_tree, workspace_folder};
use memprof_plan::request::{BaselineRequest, LockfileRequest, MERGE_BASE, OverlayMode, RefRequest, Request};
use memprof_plan::resolved::{self, Plan, Revision};
use memprof_plan::side_lockfile::SideLockfile;
use memprof_support::advice::{self, Advice};
use memprof_support::counted::counted;
use memprof_support::event::{Event, Sink};

/// What the user writes for the working tree.
const WORKING_TREE: &str = ".";

/// Resolves every ref of the request, and plans the run.
///
/// The plan's request has one entry in `refs` for each revision, in the same order, including a
/// baseline that was added. `build.manifest_path`, which depends on the current folder, and the ref
/// of `lockfile` are resolved, too.
pub fn resolve(request: &Request, repository: &Repository, sink: &dyn Sink) -> anyhow::Result<Plan> {
    let plan = resolve_any(request, repository, sink)?;
    match plan.revisions.as_slice() {
        [] | [_] => Err(too_few(&plan.request).advised()),
        _ => Ok(plan),
    }
}

fn too_few(request: &Request) -> ResolveError {
    ResolveError::TooFew { only: request.refs.last().map(|only| only.spec.clone()) }
}

/// Resolves and plans as [`resolve`] does, for commands that compare nothing: one ref is enough.
pub fn resolve_any(request: &Request, repository: &Repository, sink: &dyn Sink) -> anyhow::Result<Plan> {
    let mut request = request.clone();
    let mut resolver = Resolver::new(repository, &request, sink)?;
    let (revisions, baseline) = resolver.resolved(&mut request)?;
    let overlay_commits = resolver.overlay_commits(&request)?;
    if let Some(LockfileRequest::From(spec)) = &request.lockfile {
        let commit = resolver.commit(spec).context("the lock file's ref")?.commit;
        request.lockfile = Some(LockfileRequest::From(commit));
    }
    let workspace = take_workspace_folder(&mut request, repository, &revisions)?;
    Ok(Plan { overlay_commits, ..plan_of(request, repository, workspace, revisions, baseline) })
}

/// Returns the plan of a request whose revisions, and workspace in them, are known.
pub fn plan_of(
    request: Request,
    repository: &Repository,
    workspace: Utf8PathBuf,
    revisions: Vec<Revision>,
    baseline: usize,
) -> Plan {
    let now = jiff::Timestamp::now();
    Plan {
        version: resolved::VERSION,
        tool: env!("CARGO_PKG_VERSION").to_owned(),
        id: run_id(now, &revisions),
        created: now.to_string(),
        repository: repository.root().to_owned(),
        workspace,
        revisions,
        baseline,
        overlay_commits: Vec::new(),
        notes: Vec::new(),
        search: None,
        request,
    }
}

/// Resolves the refs of the request alone, and returns them with the index of the baseline. The
/// request then has one entry in `refs` for each revision.
pub fn resolve_refs(
    request: &mut Request,
    repository: &Repository,
    sink: &dyn Sink,
) -> anyhow::Result<(Vec<Revision>, usize)> {
    Resolver::new(repository, request, sink)?.resolved(request)
}

/// Returns the workspace's folder, and completes the build options with the manifest and package
/// that the user meant.
fn take_workspace_folder(
    request: &mut Request,
    repository: &Repository,
    revisions: &[Revision],
) -> anyhow::Result<Utf8PathBuf> {
    let found = workspace_folder::find(repository, request.build.manifest_path.as_deref(), revisions)?;
    request.build.manifest_path = found.manifest_path;
    // An external overlay is a package of its own, outside of any member's folder.
    let external = request.overlay.iter().any(|overlay| overlay.mode == OverlayMode::External);
    if request.build.settings.packages.is_empty() && !request.build.settings.workspace && !external {
        request.build.settings.packages.extend(found.package);
    }
    Ok(found.workspace)
}

/// Returns the baseline's index. A baseline that is not among the refs is added as the first one.
fn add_named_baseline(request: &mut Request) -> usize {
    let BaselineRequest::Ref(wanted) = &request.baseline else { return 0 };
    let by_name = request.refs.iter().position(|reference| reference.name.as_ref() == Some(wanted));
    let by_spec = || request.refs.iter().position(|reference| reference.spec == *wanted);
    by_name.or_else(by_spec).unwrap_or_else(|| {
        let added = RefRequest { spec: wanted.clone(), ..RefRequest::default() };
        request.refs.insert(0, added);
        0
    })
}

/// A commit, and a note on where its ref was found.
#[derive(Clone)]
struct ResolvedCommit {
    commit: String,
    note: Option<String>,
    /// Whether this is the working tree, and it differs from `HEAD`.
    is_uncommitted: bool,
}

impl ResolvedCommit {
    fn new(commit: String, note: Option<String>) -> Self {
        Self { commit, note, is_uncommitted: false }
    }
}

/// Looks up each spec once, so that a spec that appears twice is one revision and is fetched once.
struct Resolver<'a> {
    repository: &'a Repository,
    remote: Option<String>,
    patterns: indexmap::IndexMap<String, String>,
    /// Sorted. A repository may have a hundred thousand.
    references: Vec<String>,
    sink: &'a dyn Sink,
    known: HashMap<String, ResolvedCommit>,
}

impl<'a> Resolver<'a> {
    fn new(repository: &'a Repository, request: &Request, sink: &'a dyn Sink) -> anyhow::Result<Self> {
        Ok(Self {
            repository,
            remote: request.settings.remote.clone(),
            patterns: request.settings.refspecs.clone(),
            references: repository.references()?,
            sink,
            known: HashMap::new(),
        })
    }

    /// Resolves the refs of the request, with their baseline, and reports each.
    fn resolved(&mut self, request: &mut Request) -> anyhow::Result<(Vec<Revision>, usize)> {
        let baseline = add_named_baseline(request);
        let revisions = self.revisions(request)?;
        for revision in &revisions {
            let (name, commit) = (revision.name.clone(), revision.commit.clone());
            self.sink.emit(Event::Resolved { name, commit, note: revision.found.clone() });
        }
        Ok((revisions, baseline))
    }

    /// Resolves the refs of the request. A merge base is added as the first of them.
    fn revisions(&mut self, request: &mut Request) -> anyhow::Result<Vec<Revision>> {
        let mut revisions = Vec::new();
        for reference in &request.refs {
            let mut revision = self.revision(&reference.spec)?;
            revision.name = reference.name.clone().unwrap_or_else(|| shown(&reference.spec));
            revisions.push(revision);
        }
        for reference in &mut request.refs {
            if let Some(SideLockfile::Ref { spec, commit }) = &mut reference.lockfile {
                *commit = self.commit(spec).context("lockfile: neither a file nor a ref")?.commit;
            }
        }
        let wants_merge_base = request.baseline == BaselineRequest::MergeBase;
        if revisions.is_empty() || (revisions.len() == 1 && wants_merge_base) {
            return Err(too_few(request).advised());
        }
        if wants_merge_base {
            revisions.insert(0, self.merge_base(&revisions)?);
            request.refs.insert(0, RefRequest { spec: MERGE_BASE.to_owned(), ..RefRequest::default() });
        }
        make_names_unique(&mut revisions);
        Ok(revisions)
    }

    /// Returns the commit that each overlay's files come from, or `None` for the disk.
    fn overlay_commits(&mut self, request: &Request) -> anyhow::Result<Vec<Option<String>>> {
        let mut commits = Vec::new();
        for overlay in &request.overlay {
            commits.push(match overlay.from.as_deref() {
                None | Some(WORKING_TREE) => None,
                Some(spec) => Some(self.commit(spec).context("the overlay's ref")?.commit),
            });
        }
        Ok(commits)
    }

    fn has(&self, reference: &String) -> bool {
        self.references.binary_search(reference).is_ok()
    }

    fn revision(&mut self, spec: &str) -> anyhow::Result<Revision> {
        let found = self.commit(spec)?;
        let commit = self.repository.commit(&found.commit)?;
        Ok(Revision {
            name: spec.to_owned(),
            spec: spec.to_owned(),
            commit: commit.hash,
            tree: commit.tree,
            subject: commit.subject,
            time: commit.time,
            found: found.note,
            working_tree: found.is_uncommitted,
        })
    }

    fn commit(&mut self, spec: &str) -> anyhow::Result<ResolvedCommit> {
        if let Some(found) = self.known.get(spec) {
            return Ok(found.clone());
        }
        let (name, suffix) = split_suffix(spec);
        let found = if let Some((one, other)) = spec.split_once("...") {
            self.merge_base_of(one, other)?
        } else if spec == WORKING_TREE {
            let snapshot = working_tree::snapshot(self.repository, self.sink)?;
            ResolvedCommit { commit: snapshot.commit, note: None, is_uncommitted: snapshot.is_changed }
        } else if let Some(wanted) = forge_ref(name, &self.patterns) {
            let mut found = self.forge(&wanted)?;
            if !suffix.is_empty() {
                found.commit = self.plain(&format!("{}{suffix}", found.commit), spec)?;
            }
            found
        } else {
            self.warn_of_two_meanings(name)?;
            ResolvedCommit::new(self.plain(spec, spec)?, None)
        };
        self.known.insert(spec.to_owned(), found.clone());
        Ok(found)
    }

    /// Looks `spec` up by git's own rules. Errors call it `written`.
    fn plain(&self, spec: &str, written: &str) -> anyhow::Result<String> {
        let written = written.to_owned();
        Err(match self.repository.look_up(spec)? {
            Lookup::Commit(commit) => return Ok(commit),
            Lookup::NotACommit(kind) => ResolveError::NotACommit { spec: written, kind },
            Lookup::Ambiguous(hashes) => {
                let describe = |hash: &String| {
                    let commit = self.repository.commit(hash)?;
                    Ok(format!("{} ({})", commit.hash.get(..12).unwrap_or(hash), commit.subject))
                };
                let candidates: anyhow::Result<Vec<_>> = hashes.iter().map(describe).collect();
                ResolveError::Ambiguous { spec: written, candidates: candidates? }
            }
            Lookup::Missing => {
                let from_head = matches!(split_suffix(&written).0, "HEAD" | "@" | "");
                if from_head && self.repository.is_head_unborn()? {
                    ResolveError::Unborn { spec: written }
                } else {
                    let beyond = self.beyond_history(spec, &written)?;
                    beyond.map_or_else(|| self.no_ref(written), Ok)?
                }
            }
        }
        .advised())
    }

    /// Returns the error for `HEAD~9` in a history of five commits, if the spec is of this kind.
    fn beyond_history(&self, spec: &str, written: &str) -> anyhow::Result<Option<ResolveError>> {
        let (name, suffix) = split_suffix(spec);
        if !suffix.starts_with(['~', '^']) {
            return Ok(None);
        }
        let Lookup::Commit(commit) = self.repository.look_up(if name.is_empty() { "HEAD" } else { name })?
        else {
            return Ok(None);
        };
        let (name, spec) = (split_suffix(written).0.to_owned(), written.to_owned());
        let oldest = format!("{name}~{}", self.repository.first_parents(&commit)?);
        Ok(Some(ResolveError::BeyondHistory { spec, name, oldest, shallow: self.repository.is_shallow() }))
    }

    fn no_ref(&self, spec: String) -> anyhow::Result<ResolveError> {
        let names = self.references.iter().filter_map(|name| short_name(name));
        let names = names.chain(["HEAD"]);
        let nearest = nearest(split_suffix(&spec).0, names).into_iter().map(str::to_owned).collect();
        let branches = self.references.iter().filter_map(|name| name.strip_prefix("refs/heads/"));
        let branches = branches.map(str::to_owned).collect();
        let (shallow, narrow) = (self.repository.is_shallow(), narrow_remote(self.repository)?);
        Ok(ResolveError::NoRef { spec, nearest, branches, shallow, narrow })
    }

    /// Asks the remote for a pull request. If that fails, takes the repository's own copy.
    fn forge(&self, wanted: &ForgeRef) -> anyhow::Result<ResolvedCommit> {
        let copy = self.local_copy(wanted);
        let remote = match self.remote(&wanted.name) {
            Ok(remote) => remote,
            Err(no_remote) => return copy?.ok_or(no_remote),
        };
        match (fetch(self.repository, &remote, &wanted.name, &wanted.remote), copy) {
            (Ok(commit), copy) => {
                self.warn_of_another_copy(&wanted.name, &remote, &commit, copy.ok().flatten());
                Ok(ResolvedCommit::new(commit, Some(format!("fetched from {remote}"))))
            }
            (Err(_), Err(several)) => Err(several),
            (Err(error), Ok(None)) => Err(error),
            (Err(error), Ok(Some(copy))) => {
                // A branch of this name may be no pull request at all.
                let is_unknown_there =
                    advice::find::<FetchError>(&error).is_some_and(FetchError::is_missing_there);
                if !is_unknown_there {
                    self.warn_of_an_old_copy(&copy, &error)?;
                }
                Ok(copy)
            }
        }
    }

    /// Warns if the remote's pull request replaces a branch or tag of this name.
    fn warn_of_another_copy(&self, name: &str, remote: &str, commit: &str, copy: Option<ResolvedCommit>) {
        let Some(copy) = copy.filter(|copy| copy.commit != commit) else { return };
        let own = ["refs/heads/", "refs/tags/"].map(|kind| format!("{kind}{name}"));
        if let Some(place) = copy.note.filter(|place| own.contains(place)) {
            let short = copy.commit.get(..7).unwrap_or(&copy.commit);
            self.sink.emit(Event::Warning {
                message: format!(
                    "{place} is at {short}, and {name} of {remote} at another commit; using {remote}'s"
                ),
                help: Some(format!("write {} for your own", place.trim_start_matches("refs/"))),
            });
        }
    }

    /// Warns that a copy may be out of date.
    fn warn_of_an_old_copy(&self, copy: &ResolvedCommit, error: &anyhow::Error) -> anyhow::Result<()> {
        const DAY: i64 = 24 * 60 * 60;
        let seconds = jiff::Timestamp::now().as_second() - self.repository.commit(&copy.commit)?.time;
        let age = match seconds / DAY {
            ..1 => "less than a day".to_owned(),
            days => counted(usize::try_from(days)?, "day"),
        };
        let place = copy.note.as_deref().unwrap_or(&copy.commit);
        self.sink.emit(Event::Warning {
            message: format!("{error:#}; using {place}, whose commit is {age} old"),
            help: None,
        });
        Ok(())
    }

    fn local_copy(&self, wanted: &ForgeRef) -> anyhow::Result<Option<ResolvedCommit>> {
        let name = &wanted.name;
        let preferred = self.remote.clone().or(default_remote(self.repository)?);
        let mut places = Vec::new();
        if self.remote.is_none() {
            places.extend([format!("refs/heads/{name}"), format!("refs/tags/{name}")]);
        }
        places.extend(preferred.map(|remote| format!("refs/remotes/{remote}/{name}")));
        if self.remote.is_none() {
            // A mirror has the forge's refs under their own names.
            places.push(wanted.remote.clone());
        }
        if let Some(place) = places.into_iter().find(|place| self.has(place)) {
            let commit = self.plain(&place, name)?;
            return Ok(Some(ResolvedCommit::new(commit, Some(place))));
        }
        if self.remote.is_some() {
            return Ok(None);
        }
        let elsewhere = self.copies_elsewhere(name)?;
        let mut commits = Vec::new();
        for place in &elsewhere {
            commits.push(self.plain(place, name)?);
        }
        let distinct: HashSet<_> = commits.iter().collect();
        match (distinct.len(), commits.first(), elsewhere.first()) {
            (1, Some(commit), Some(place)) => {
                Ok(Some(ResolvedCommit::new(commit.clone(), Some(place.clone()))))
            }
            (0, ..) => Ok(None),
            _ => Err(ResolveError::SeveralCopies { spec: name.clone(), copies: elsewhere }.advised()),
        }
    }

    /// Returns copies from other remotes than the preferred one. Such a remote may not be
    /// configured any more, and the same number means another pull request there.
    fn copies_elsewhere(&self, name: &str) -> anyhow::Result<Vec<String>> {
        let remotes = self.repository.remotes()?;
        // `refs/remotes/origin/fix/pr/7` is a branch of `origin`, not a pull request of the remote
        // `origin/fix`.
        let is_remote = |remote: &str| !remote.contains('/') || remotes.iter().any(|known| known == remote);
        let is_copy = |reference: &&String| {
            let below = reference.strip_prefix("refs/remotes/");
            let remote = below.and_then(|below| below.strip_suffix(name)?.strip_suffix('/'));
            remote.is_some_and(is_remote)
        };
        Ok(self.references.iter().filter(is_copy).cloned().collect())
    }

    fn remote(&self, spec: &str) -> anyhow::Result<String> {
        let remotes = self.repository.remotes()?;
        match &self.remote {
            Some(remote) if remotes.contains(remote) || remote.contains(['/', ':']) => Ok(remote.clone()),
            None if let Some(remote) = default_remote(self.repository)? => Ok(remote),
            Some(name) => Err(ResolveError::UnknownRemote { name: name.clone(), remotes }.advised()),
            None => Err(ResolveError::NoRemote { spec: spec.to_owned(), remotes }.advised()),
        }
    }

    /// Warns if a tag and a branch share a name. Git then uses the tag, and says so only on a
    /// terminal.
    fn warn_of_two_meanings(&self, name: &str) -> anyhow::Result<()> {
        let [tag, branch] = ["refs/tags/", "refs/heads/"].map(|kind| format!("{kind}{name}"));
        if self.has(&tag)
            && self.has(&branch)
            && self.repository.look_up(&tag)? != self.repository.look_up(&branch)?
        {
            self.sink.emit(Event::Warning {
                message: format!("'{name}' is a tag and a branch; using the tag"),
                help: Some(format!("write heads/{name} for the branch, tags/{name} for the tag")),
            });
        }
        Ok(())
    }

    /// Resolves `main...feature`, the merge base of the two. As for git, a missing side is `HEAD`. A pull
    /// request is fetched, so the other side is, too: it may contain commits that an old copy lacks.
    fn merge_base_of(&mut self, one: &str, other: &str) -> anyhow::Result<ResolvedCommit> {
        let names = [one, other].map(|name| if name.is_empty() { "HEAD" } else { name });
        let is_forge_ref = |name: &&str| forge_ref(split_suffix(name).0, &self.patterns).is_some();
        let is_fetched = names.iter().any(is_forge_ref);
        let mut commit = |name| if is_fetched { self.newest(name) } else { self.commit(name) };
        let commits = [commit(names[0])?.commit, commit(names[1])?.commit];
        let found = self.repository.merge_base(&[&commits[0], &commits[1]])?;
        let names = names.map(str::to_owned);
        let Some(commit) = found else {
            let shallow = self.repository.is_shallow();
            return Err(ResolveError::NoMergeBase { names: names.to_vec(), shallow }.advised());
        };
        Ok(ResolvedCommit::new(commit, Some(format!("of {}", names.join(" and ")))))
    }

    /// Asks the remote for its branch `origin/main`. If that fails, takes the repository's own copy. Any other
    /// ref is resolved as usual.
    fn newest(&mut self, spec: &str) -> anyhow::Result<ResolvedCommit> {
        let Some((remote, branch)) = self.branch_of_remote(spec)? else { return self.commit(spec) };
        let head = branch == "HEAD";
        let remote_ref = if head { branch } else { format!("refs/heads/{branch}") };
        let error = match fetch(self.repository, &remote, spec, &remote_ref) {
            Ok(commit) => return Ok(ResolvedCommit::new(commit, None)),
            Err(error) => error,
        };
        let own = Some(format!("refs/remotes/{spec}")).filter(|own| self.has(own));
        let own = if head { own.or(default_branch(self.repository)?) } else { own };
        let Some(own) = own else { return Err(error) };
        let copy = ResolvedCommit::new(self.plain(&own, spec)?, Some(own));
        self.warn_of_an_old_copy(&copy, &error)?;
        Ok(copy)
    }

    /// Splits `origin/main`, unless it is the user's own branch or tag, or a pull request.
    fn branch_of_remote(&self, spec: &str) -> anyhow::Result<Option<(String, String)>> {
        let is_own = ["refs/heads/", "refs/tags/"].iter().any(|kind| self.has(&format!("{kind}{spec}")));
        if is_own || !split_suffix(spec).1.is_empty() || forge_ref(spec, &self.patterns).is_some() {
            return Ok(None);
        }
        let split = |remote: String| {
            let branch = spec.strip_prefix(&remote)?.strip_prefix('/')?.to_owned();
            Some((remote, branch))
        };
        Ok(self.repository.remotes()?.into_iter().find_map(split))
    }

    fn merge_base(&mut self, revisions: &[Revision]) -> anyhow::Result<Revision> {
        let commits: Vec<_> = revisions.iter().map(|revision| revision.commit.as_str()).collect();
        let names: Vec<_> = revisions.iter().map(|revision| revision.name.clone()).collect();
        let Some(commit) = self.repository.merge_base(&commits)? else {
            return Err(ResolveError::NoMergeBase { names, shallow: self.repository.is_shallow() }.advised());
        };
        Ok(Revision {
            name: MERGE_BASE.to_owned(),
            spec: MERGE_BASE.to_owned(),
            found: Some(format!("of {}", names.join(" and "))),
            ..self.revision(&commit)?
        })
    }
}

/// Renames the second `main` to `main (2)`, so that a revision can be compared with itself.
fn make_names_unique(revisions: &mut [Revision]) {
    let mut taken: HashSet<String> = HashSet::new();
    let wanted: HashSet<_> = revisions.iter().map(|revision| revision.name.clone()).collect();
    // The number that each name got last, so that a thousand equal names are not counted again.
    let mut numbers: HashMap<String, usize> = HashMap::new();
    for revision in revisions {
        let name = revision.name.clone();
        while taken.contains(&revision.name) {
            let number = numbers.entry(name.clone()).or_insert(1);
            *number += 1;
            let numbered = format!("{name} ({number})");
            if !wanted.contains(&numbered) {
                revision.name = numbered;
            }
        }
        taken.insert(revision.name.clone());
    }
}

/// Returns the name of a run, `20250302T101500.123Z-4f1c2aa-9be0d13`. Names sort by time, and
/// contain at most four revisions.
pub fn run_id(now: jiff::Timestamp, revisions: &[Revision]) -> String {
    let time = now.strftime("%Y%m%dT%H%M%S%.3fZ").to_string();
    let short = |revision: &Revision| revision.commit.get(..7).unwrap_or(&revision.commit).to_owned();
    let commits = revisions.iter().take(4).map(short);
    let more = (revisions.len() > 4).then(|| format!("and-{}-more", revisions.len() - 4));
    std::iter::once(time).chain(commits).chain(more).collect::<Vec<_>>().join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn revision(name: &str, commit: &str) -> Revision {
        Revision {
            name: name.to_owned(),
            spec: name.to_owned(),
            commit: commit.to_owned(),
            tree: String::new(),
            subject: String::new(),
            time: 0,
            found: None,
            working_tree: false,
        }
    }

    #[test]
    fn names_are_made_unique_without_taking_anothers() {
        let mut revisions: Vec<_> =
            ["main", "main", "main (2)", "main", "x"].map(|name| revision(name, "c")).into();
        make_names_unique(&mut revisions);
        let names: Vec<_> = revisions.iter().map(|revision| revision.name.as_str()).collect();
        assert_eq!(names, ["main", "main (3)", "main (2)", "main (4)", "x"]);
    }

    #[test]
    fn equal_names_are_numbered_without_counting_from_the_start() {
        let mut revisions: Vec<_> = (0..20_000).map(|_| revision("main", "c")).collect();
        make_names_unique(&mut revisions);
        assert_eq!(revisions.last().unwrap().name, "main (20000)");
    }

    #[test]
    fn the_id_sorts_by_time_and_names_the_revisions() {
        let time: jiff::Timestamp = "2025-03-02T10:15:00.123456Z".parse().unwrap();
        let two = [revision("a", "4f1c2aa5555"), revision("b", "9be0d136666")];
        assert_eq!(run_id(time, &two), "20250302T101500.123Z-4f1c2aa-9be0d13");
        let six: Vec<_> = (0..6).map(|_| two[0].clone()).collect();
        assert!(run_id(time, &six).ends_with("-4f1c2aa-4f1c2aa-4f1c2aa-4f1c2aa-and-2-more"));
    }

    #[test]
    fn a_baseline_that_is_not_among_the_refs_becomes_the_first() {
        let ask = |baseline: &str| {
            let reference = |spec: &str, name: Option<&str>| RefRequest {
                spec: spec.to_owned(),
                name: name.map(str::to_owned),
                ..RefRequest::default()
            };
            let mut request = Request {
                refs: vec![reference("pr/7", Some("new")), reference("main", None)],
                baseline: BaselineRequest::Ref(baseline.to_owned()),
                ..Request::default()
            };
            let index = add_named_baseline(&mut request);
            (index, request.refs.iter().map(|reference| reference.spec.clone()).collect::<Vec<_>>().join(" "))
        };
        assert_eq!(ask("main"), (1, "pr/7 main".to_owned()));
        assert_eq!(ask("new"), (0, "pr/7 main".to_owned()));
        assert_eq!(ask("v1"), (0, "v1 pr/7 main".to_owned()));
    }
}
