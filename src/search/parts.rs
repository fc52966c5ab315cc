//! `prove`: from the diff between two commits to parts that compile alone, and a commit for each variant.
//! The commits are the tool's own; no branch of the user points to them.

use std::collections::{BTreeMap, BTreeSet};

use crate::commands::context::CommandContext;
use crate::search::lockfiles::WarningsOnly;
use crate::search::plan::{SearchPlan, SearchRequest};
use memprof_build::builder::Builder;
use memprof_build::git::changed_files::changed_files;
use memprof_build::git::commits::Range;
use memprof_build::git::lineage::Lineage;
use memprof_build::git::repository::Repository;
use memprof_build::git::written_commit::{self, TreeEntry};
use memprof_build::prepared_source::ChangedSource;
use memprof_judge::results::run_folder::RunFolder;
use memprof_judge::why::functions;
use memprof_plan::lock_differences::{self, LockedPackage};
use memprof_plan::resolved::Plan;
use memprof_run::bisect::lockfile::chain;
use memprof_run::bisect::parts::grouping;
use memprof_run::bisect::parts::hunk::{ComposedFile, SplitDiff, is_code};
use memprof_run::bisect::parts::order;
use memprof_run::bisect::parts::record::{HunkPlace, PartsSearch, Variant, placed};
use memprof_run::bisect::record::Task;
use memprof_run::session::Session;
use memprof_support::counted::counted;
use memprof_support::event::{Event, Sink};
use memprof_support::paths;
use memprof_support::user_error::UserError;

/// Plans a search over the parts of the diff between two commits.
pub fn plan(
    request: &SearchRequest<'_>,
    most_builds: usize,
    repository: &Repository,
    context: CommandContext<'_>,
) -> anyhow::Result<SearchPlan> {
    let plan = request.resolved(repository, context.console)?;
    let diff = ReadDiff::new(&plan, repository)?;
    if diff.split.hunks.is_empty() {
        let [good, bad] = [request.good, request.bad];
        return Err(UserError::new(format!("{good} and {bad} have the same files"))
            .help("choose two commits that differ: cargo memprof prove main..pr/7")
            .into());
    }
    let dependents = grouped(&diff, &plan, request, repository, context)?;
    let ordered = order::parts(&dependents);
    let parts = placed(&ordered, |hunk| diff.place(hunk));
    let (search, variants) = PartsSearch::new(parts, most_builds);
    let hunks: Vec<&BTreeSet<usize>> = ordered.iter().map(|part| &part.hunks).collect();
    let range = written(&diff, &hunks, &search, &variants, &plan, repository)?;
    let names: Vec<String> = variants.into_iter().map(|variant| variant.name).collect();
    let candidate = search.count();
    let mut planned = request.over(plan, &range, repository, Task::Prove(search))?;
    planned.name_variants(&names, candidate);
    Ok(planned)
}

/// The diff, with what is needed to write its variants.
struct ReadDiff<'a> {
    repository: &'a Repository,
    commits: [&'a str; 2],
    split: SplitDiff,
    /// The candidate's texts of files with hunks, for the names of functions.
    functions: BTreeMap<String, functions::Functions>,
}

impl<'a> ReadDiff<'a> {
    fn new(plan: &'a Plan, repository: &'a Repository) -> anyhow::Result<Self> {
        let [old, new] = &plan.revisions[..] else { anyhow::bail!("a diff has two sides") };
        let commits = [old.commit.as_str(), new.commit.as_str()];
        let mut texts = Vec::new();
        let mut whole = Vec::new();
        for file in changed_files(repository, commits[0], commits[1])? {
            match both_texts(repository, commits, file.old.as_deref(), file.new.as_deref()) {
                Some(both) => texts.push(both),
                None => whole.push((file.old, file.new)),
            }
        }
        let functions =
            texts.iter().map(|(path, _, new)| (path.clone(), functions::functions(new))).collect();
        Ok(Self { repository, commits, split: SplitDiff::new(texts, whole), functions })
    }

    /// Where a hunk is, and what it is in.
    fn place(&self, index: usize) -> HunkPlace {
        let hunk = &self.split.hunks[index];
        let lines = self.split.candidate_lines(index).map(|lines| {
            // Deleted lines are shown at the line before them.
            let last = lines.end.saturating_sub(1).max(1);
            [lines.start.min(last), last]
        });
        let function = || {
            let line = u32::try_from(lines?[0]).ok()?;
            let functions = &self.functions.get(&hunk.path)?.written;
            // A comment before a function is not in it.
            let found = functions::at(functions, line).or_else(|| {
                functions.iter().find(|one| {
                    lines.is_some_and(|[_, last]| {
                        (line..=u32::try_from(last).unwrap_or(line)).contains(&one.lines.start)
                    })
                })
            });
            found.map(|function| function.name.clone())
        };
        let what = self.split.edit(index).or_else(function).or_else(|| self.moved_packages(&hunk.path));
        HunkPlace { path: hunk.path.clone(), lines, what }
    }

    /// The packages that moved, if the file is a lock file.
    fn moved_packages(&self, path: &str) -> Option<String> {
        if !path.ends_with("Cargo.lock") {
            return None;
        }
        let [old, new] = self.commits.map(|commit| {
            let text = self.repository.show(commit, path).ok().flatten().unwrap_or_default();
            lock_differences::locked(&text)
        });
        let moved = lock_differences::moved(versions(&old), versions(&new));
        (!moved.is_empty()).then(|| chain::words(&moved))
    }

    /// Returns the entries that turn the candidate into the candidate without these hunks.
    fn entries(
        &self,
        left_out: &BTreeSet<usize>,
        blobs: &mut BTreeMap<String, String>,
    ) -> anyhow::Result<Vec<(String, Option<TreeEntry>)>> {
        let [old_commit, new_commit] = self.commits;
        let mut entries = Vec::new();
        for file in self.split.composed(left_out) {
            let mode = self.entry(new_commit, &file.path)?.map_or(0o100_644, |entry| entry.mode);
            let blob = match blobs.get(&file.text) {
                Some(blob) => blob.clone(),
                None => written_commit::blob(self.repository, file.text.as_bytes())?,
            };
            entries.push((file.path, Some(TreeEntry { mode, blob: blob.clone() })));
            blobs.insert(file.text, blob);
        }
        for file in self.split.whole(left_out) {
            if let Some(new) = file.new.filter(|new| Some(*new) != file.old) {
                entries.push((new.to_owned(), None));
            }
            if let Some(old) = file.old {
                entries.push((old.to_owned(), self.entry(old_commit, old)?));
            }
        }
        Ok(entries)
    }

    fn entry(&self, commit: &str, path: &str) -> anyhow::Result<Option<TreeEntry>> {
        let entry = self.repository.tree_entry(commit, path)?;
        Ok(entry.map(|(mode, blob)| TreeEntry { mode, blob }))
    }

    /// Returns the files to write into the candidate's checkout for a check.
    fn sources(&self, left_out: &BTreeSet<usize>, composed: &[ComposedFile]) -> Vec<ChangedSource> {
        let mut sources: Vec<ChangedSource> = composed
            .iter()
            .map(|file| (file.path.clone().into(), Some(file.text.clone().into_bytes())))
            .collect();
        for file in self.split.whole(left_out) {
            if let Some(new) = file.new.filter(|new| Some(*new) != file.old) {
                sources.push((new.into(), None));
            }
            let Some(old) = file.old else { continue };
            // Links and submodules are no sources.
            if let Some(content) = self.repository.show(self.commits[0], old).ok().flatten() {
                sources.push((old.into(), Some(content)));
            }
        }
        sources
    }
}

fn versions(packages: &[LockedPackage]) -> impl Iterator<Item = (&str, &str)> {
    packages.iter().map(|one| (one.name.as_str(), one.version.as_str()))
}

/// Returns the path and both texts of a source file or a manifest that both commits have.
fn both_texts(
    repository: &Repository,
    commits: [&str; 2],
    old: Option<&str>,
    new: Option<&str>,
) -> Option<(String, String, String)> {
    let path = new.filter(|new| old == Some(*new) && is_code(new))?;
    // A link, a submodule, or not text: such a file is one part.
    let text = |commit: &str| String::from_utf8(repository.show(commit, path).ok()??).ok();
    let [old, new] = commits.map(text);
    Some((path.to_owned(), old?, new?))
}

/// From this number of hunks on, the checks tell how far they are.
const MANY_HUNKS: usize = 12;

/// Lets the compiler say which hunks need each other.
fn grouped(
    diff: &ReadDiff<'_>,
    plan: &Plan,
    request: &SearchRequest<'_>,
    repository: &Repository,
    context: CommandContext<'_>,
) -> anyhow::Result<Vec<BTreeSet<usize>>> {
    let console = context.console;
    let hunks = diff.split.hunks.len();
    let session = Session::open(repository, console, context.interrupt)?;
    let lock = session.lock(request.measuring.waiting.when_held())?;
    let scratch = tempfile::tempdir()?;
    let folder = RunFolder(paths::utf8(scratch.path().to_owned())?);
    let quiet = WarningsOnly(console);
    let mut builder = Builder::new(plan, repository, &session.cache, &folder, &quiet, context.interrupt)?;
    console.emit(Event::RefsChosen {
        text: format!("{}: the compiler says which of them need each other", counted(hunks, "hunk")),
    });
    let found = builder.checking(1, |checker| {
        let mut said = 0;
        let mut check = |left_out: &BTreeSet<usize>, files: &[ComposedFile]| {
            checker.errors(&diff.sources(left_out, files))
        };
        grouping::dependents(&diff.split, &mut check, |done| {
            // One line for each quarter.
            if hunks >= MANY_HUNKS && done * 4 / hunks > said {
                said = done * 4 / hunks;
                console.emit(Event::RefsChosen {
                    text: format!("{done} of {} checked", counted(hunks, "hunk")),
                });
            }
        })
    });
    drop((builder, lock));
    found
}

/// Writes the commits of the variants. The first is the baseline, and the one with all parts the candidate.
fn written(
    diff: &ReadDiff<'_>,
    hunks: &[&BTreeSet<usize>],
    search: &PartsSearch,
    variants: &[Variant],
    plan: &Plan,
    repository: &Repository,
) -> anyhow::Result<Range> {
    let count = search.count();
    let mut blobs = BTreeMap::new();
    let mut hashes = Vec::new();
    for (index, variant) in variants.iter().enumerate() {
        if index == 0 || index == count {
            hashes.push(plan.revisions[usize::from(index > 0)].commit.clone());
            continue;
        }
        let left_out = (0..count).filter(|part| !variant.kept.contains(part));
        let left_out: BTreeSet<usize> = left_out.flat_map(|part| hunks[part].iter().copied()).collect();
        let entries = diff.entries(&left_out, &mut blobs)?;
        let candidate = &plan.revisions[1].commit;
        hashes.push(written_commit::with_entries(repository, Some(candidate), &entries, &variant.name)?);
    }
    let parents = (0..=count).map(|index| index.checked_sub(1).into_iter().collect()).collect();
    let lineage = Lineage { parents, edge: 1, good: 0, bad: count, touching: None };
    Ok(Range { lineage, hashes })
}
