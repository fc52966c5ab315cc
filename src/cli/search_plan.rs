//! From the flags of `bisect` and `history` to the plan of a search and its folder; or back to those of one that was cut off.

use std::collections::BTreeMap;

use anyhow::Context;
use camino::Utf8Path;

use crate::bisect::history;
use crate::bisect::merge_search::Merges;
use crate::bisect::metric_query::Wanted;
use crate::bisect::record::{self, SearchRecord, Task};
use crate::cli::arguments::PresentationArguments;
use crate::cli::commands::{ask, runs};
use crate::cli::reconcile::RefsNeeded;
use crate::cli::search_arguments::{BisectArguments, HistoryArguments, MeasuringArguments};
use crate::git::commits::{self, End, Range};
use crate::git::repository::Repository;
use crate::git::resolve::{resolve, run_id};
use crate::inject::overlay;
use crate::plan::metric::Unit;
use crate::plan::quantity::Threshold;
use crate::plan::request::RefRequest;
use crate::plan::resolved::{Plan, Revision};
use crate::results::run_folder::RunFolder;
use crate::run::runner::write_whole;
use crate::run::session::{self, find_run, kept_runs, read_plan};
use crate::support::event::Sink;
use crate::support::user_error::UserError;

/// A search that can begin or go on.
#[derive(Clone, Debug, serde::Serialize)]
pub struct SearchPlan {
    /// What is asked.
    pub search: SearchRecord,
    /// The commits, and how they are built and run.
    pub plan: Plan,
}

/// Plans a bisection.
pub fn bisection(
    arguments: &BisectArguments,
    repository: &Repository,
    sink: &dyn Sink,
) -> anyhow::Result<SearchPlan> {
    let end = |end: &Option<String>| end.clone().context("clap asks for both ends");
    let (good, bad) = (end(&arguments.good)?, end(&arguments.bad)?);
    let merges = if arguments.first_parent { Merges::Name } else { Merges::Enter };
    let wanted = Search { good: &good, bad: &bad, paths: &arguments.paths, measuring: &arguments.measuring };
    wanted.plan(repository, sink, |_, _| Ok(Task::Bisect { find: arguments.find, merges }))
}

/// Plans a history.
pub fn history(
    arguments: &HistoryArguments,
    repository: &Repository,
    sink: &dyn Sink,
) -> anyhow::Result<SearchPlan> {
    let range = arguments.range.as_deref().context("clap asks for a range")?;
    let (good, bad) = match range.split_once("..") {
        Some((good, bad)) if !good.is_empty() && !bad.starts_with('.') => (good, bad),
        _ => {
            return Err(UserError::new(format!("'{range}' is not a range of commits"))
                .help("write FROM..TO, such as v0.4.0..HEAD; FROM.. goes to HEAD")
                .into());
        }
    };
    let bad = if bad.is_empty() { "HEAD" } else { bad };
    let wanted = Search { good, bad, paths: &arguments.paths, measuring: &arguments.measuring };
    wanted.plan(repository, sink, |repository, range| {
        let lineage = &range.lineage;
        let mut listed = if arguments.first_parent {
            lineage.suspects(lineage.good, lineage.bad)
        } else {
            lineage.all_suspects()
        };
        let mut tags: BTreeMap<usize, String> = BTreeMap::new();
        if arguments.tags {
            for (name, commit) in commits::tags(repository)? {
                if let Some(index) = range.hashes.iter().position(|hash| *hash == commit) {
                    // Of several tags of a commit, the one of the highest version.
                    tags.insert(index, name);
                }
            }
            listed.retain(|commit| tags.contains_key(commit));
            if listed.len() < 2 {
                let message = format!("there are {} tagged commits from {good} to {bad}", listed.len());
                return Err(UserError::new(message).help("without --tags every commit is measured").into());
            }
        }
        let size = |number: Option<u32>| number.and_then(|number| usize::try_from(number).ok());
        let commits = match (size(arguments.every), size(arguments.at_most)) {
            (Some(n), _) => history::every(&listed, n),
            (_, Some(most)) => history::at_most(&listed, most),
            _ => listed,
        };
        Ok(Task::History { commits, tags: tags.into_iter().collect() })
    })
}

/// What both commands are about.
struct Search<'a> {
    good: &'a str,
    bad: &'a str,
    paths: &'a [String],
    measuring: &'a MeasuringArguments,
}

impl Search<'_> {
    fn plan(
        &self,
        repository: &Repository,
        sink: &dyn Sink,
        task: impl FnOnce(&Repository, &Range) -> anyhow::Result<Task>,
    ) -> anyhow::Result<SearchPlan> {
        let arguments = self.measuring.request(self.good, self.bad);
        let presentation = PresentationArguments::default();
        let asked = ask(&arguments, &presentation, repository, RefsNeeded::Comparison)?;
        let mut plan = resolve(&asked.request, repository, sink)?;
        let [good, bad] = &plan.revisions[..] else { anyhow::bail!("two ends were asked for") };
        let (good, bad) =
            (End { spec: self.good, commit: &good.commit }, End { spec: self.bad, commit: &bad.commit });
        let range = commits::between(repository, good, bad, self.paths)?;
        let threshold = self.threshold()?;
        let mut task = task(repository, &range)?;
        if let Task::History { commits, .. } = &mut task {
            // The figures begin and end with the range, whatever of it is measured.
            commits.dedup();
        }
        let search = SearchRecord {
            version: record::VERSION,
            task,
            good: self.good.to_owned(),
            bad: self.bad.to_owned(),
            wanted: Wanted {
                metric: self.measuring.metric.clone(),
                checkpoint: self.measuring.checkpoint.clone(),
            },
            threshold,
            least_runs: self.measuring.repeat.unwrap_or(1),
            paths: self.paths.to_vec(),
            lineage: range.lineage.clone(),
            arguments: command_line(std::env::args()),
            overlay: overlay_hashes(&plan, repository)?,
            cell: None,
            efforts: Vec::new(),
        };
        expand(&mut plan, &range, repository)?;
        Ok(SearchPlan { search, plan })
    }

    fn threshold(&self) -> anyhow::Result<Option<Threshold>> {
        let metric = &self.measuring.metric;
        let mut threshold = Threshold::default();
        for one in &self.measuring.threshold {
            if let Some(other) = one.metric.as_ref().filter(|named| *named != metric) {
                let message = format!("--threshold is about {other}, and --metric is {metric}");
                return Err(UserError::new(message).help("one metric is searched by").into());
            }
            let limit = one
                .limit
                .on(Unit::of(metric))
                .map_err(|problem| UserError::new(format!("--threshold does not fit {metric}: {problem}")))?;
            threshold.percent = limit.percent.or(threshold.percent);
            threshold.bytes = limit.bytes.or(threshold.bytes);
        }
        Ok(Some(threshold).filter(|_| !self.measuring.threshold.is_empty()))
    }
}

/// The command line without the program, and without the `memprof` that cargo passes on.
fn command_line(argv: impl Iterator<Item = String>) -> Vec<String> {
    let mut words: Vec<String> = argv.skip(1).collect();
    if words.first().is_some_and(|first| first == "memprof") {
        words.remove(0);
    }
    words
}

/// What is laid over the commits, by hash: a search that goes on with another test would compare different things.
fn overlay_hashes(plan: &Plan, repository: &Repository) -> anyhow::Result<BTreeMap<String, String>> {
    Ok(overlay::ingredients(&overlay::read(&plan.request.overlay, &plan.overlay_commits, repository)?))
}

/// Makes every commit of the range a revision of the plan, at its own index.
fn expand(plan: &mut Plan, range: &Range, repository: &Repository) -> anyhow::Result<()> {
    let ends = std::mem::take(&mut plan.revisions);
    let names = short_names(&range.hashes);
    for (hash, name) in range.hashes.iter().zip(&names) {
        let revision = match ends.iter().find(|end| end.commit == *hash) {
            // As the user calls it, unless that is its hash.
            Some(end) if !end.commit.starts_with(&end.spec) => end.clone(),
            Some(end) => Revision { name: name.clone(), ..end.clone() },
            None => {
                let commit = repository.commit(hash)?;
                Revision {
                    name: name.clone(),
                    spec: hash.clone(),
                    commit: commit.hash,
                    tree: commit.tree,
                    subject: commit.subject,
                    time: commit.time,
                    found: None,
                    working_tree: false,
                }
            }
        };
        plan.revisions.push(revision);
    }
    plan.baseline = range.lineage.good;
    plan.id = run_id(jiff::Timestamp::now(), &ends);
    let reference = |revision: &Revision| RefRequest {
        spec: revision.spec.clone(),
        name: Some(revision.name.clone()),
        ..RefRequest::default()
    };
    plan.request.refs = plan.revisions.iter().map(reference).collect();
    // Cells of certain refs are meant; all commits are measured alike.
    plan.request.exclude.retain(|pattern| pattern.r#ref.is_none());
    plan.request.include.retain(|pattern| pattern.r#ref.is_none());
    Ok(())
}

/// The first digits of each hash, as many as tell all apart, and at least seven.
fn short_names(hashes: &[String]) -> Vec<String> {
    let mut sorted: Vec<&String> = hashes.iter().collect();
    sorted.sort();
    let shared = |pair: &[&String]| pair[0].bytes().zip(pair[1].bytes()).take_while(|(a, b)| a == b).count();
    let digits = sorted.windows(2).map(shared).max().unwrap_or_default().max(6) + 1;
    hashes.iter().map(|hash| hash.get(..digits).unwrap_or(hash).to_owned()).collect()
}

/// Makes the folder of a new search.
pub fn create_folder(runs: &Utf8Path, search: &SearchPlan) -> anyhow::Result<RunFolder> {
    let folder = session::create_folder(runs, &search.plan)?;
    write_whole(&folder.search(), &serde_json::to_vec_pretty(&search.search)?)?;
    Ok(folder)
}

/// What a folder says of its search; `None` if it is that of another kind of run.
pub fn read_record(folder: &RunFolder) -> anyhow::Result<Option<SearchRecord>> {
    if !folder.search().exists() {
        return Ok(None);
    }
    let text = fs_err::read(folder.search())?;
    let record: SearchRecord =
        serde_json::from_slice(&text).with_context(|| format!("cannot read {}", folder.search()))?;
    anyhow::ensure!(
        record.version <= record::VERSION,
        "{}: format {} is newer than this cargo-memprof reads; update cargo-memprof",
        folder.search(),
        record.version
    );
    Ok(Some(record))
}

/// Finds a search that was cut off, or is done. `latest` means the newest of this command.
pub fn resumed(
    name: &str,
    command: &str,
    measuring: &MeasuringArguments,
    repository: &Repository,
) -> anyhow::Result<(SearchPlan, RunFolder)> {
    let runs = runs(repository, measuring.build.manifest_path.as_deref())?;
    let (folder, record) = if name == "latest" {
        let mut newest = None;
        for id in kept_runs(&runs).iter().rev() {
            let folder = RunFolder(runs.join(id));
            if let Some(record) = read_record(&folder)?.filter(|record| record.task.command() == command) {
                newest = Some((folder, record));
                break;
            }
        }
        newest.ok_or_else(|| UserError::new(format!("no {command} is kept in {runs}")))?
    } else {
        let folder = find_run(&runs, repository.start(), name)?;
        match read_record(&folder)? {
            Some(record) if record.task.command() == command => (folder, record),
            Some(record) => {
                let other = record.task.command();
                return Err(UserError::new(format!("{name} is a {other}, not a {command}"))
                    .help(format!("cargo memprof {other} --resume {name}"))
                    .into());
            }
            None => {
                return Err(UserError::new(format!("{name} is not a {command}"))
                    .help(format!("cargo memprof run --resume {name}"))
                    .into());
            }
        }
    };
    let plan = read_plan(&folder)?;
    if overlay_hashes(&plan, repository)? != record.overlay {
        return Err(UserError::new("the overlay has changed since: its commits would not be comparable")
            .help(format!("begin anew: cargo memprof {}", record.arguments.join(" ")))
            .into());
    }
    Ok((SearchPlan { search: record, plan }, folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_as_long_as_it_takes_to_tell_commits_apart() {
        let names =
            |hashes: &[&str]| short_names(&hashes.iter().map(|&hash| hash.to_owned()).collect::<Vec<_>>());
        assert_eq!(names(&["1234567890", "abcdef1234"]), ["1234567", "abcdef1"]);
        assert_eq!(
            names(&["1234567890", "abcdef1234", "1234567800"]),
            ["123456789", "abcdef123", "123456780"]
        );
        assert_eq!(names(&["1234567890"]), ["1234567"]);
    }

    #[test]
    fn the_command_line_begins_with_the_command() {
        let words = |text: &str| command_line(text.split(' ').map(str::to_owned));
        assert_eq!(words("/bin/cargo-memprof memprof bisect --good a"), ["bisect", "--good", "a"]);
        assert_eq!(words("cargo-memprof bisect"), ["bisect"]);
    }
}
