//! From the flags of `bisect` and `history` to the plan of a search, and its folder.

use std::collections::BTreeMap;
use std::ffi::OsString;

use camino::Utf8Path;

use crate::arguments::presentation::PresentationArguments;
use crate::arguments::search::MeasuringArguments;
use crate::arguments::test_options;
use crate::request::asked::Asked;
use crate::request::refs::RefsNeeded;
use crate::request::sides;
use memprof_build::git::commits::{self, End, OPTIONS_HELP, PATHS_HELP, Range};
use memprof_build::git::ref_pattern::shown;
use memprof_build::git::repository::Repository;
use memprof_build::git::resolve::{resolve, resolve_refs, run_id};
use memprof_build::inject::checkpoint_lines;
use memprof_build::inject::hidden_changes;
use memprof_build::inject::overlay;
use memprof_build::inject::overlay_packages;
use memprof_build::inject::patch;
use memprof_judge::results::run_folder::RunFolder;
use memprof_plan::checkpoint_at::CheckpointAt;
use memprof_plan::jobs::of_neighbours;
use memprof_plan::metric::Unit;
use memprof_plan::quantity::Threshold;
use memprof_plan::request::{RefRequest, Request};
use memprof_plan::resolved::{Plan, Revision};
use memprof_run::bisect::metric_query::MetricQuery;
use memprof_run::bisect::record::{self, SearchRecord, Task};
use memprof_run::session;
use memprof_run::stored_plan;
use memprof_support::event::{Event, Sink};
use memprof_support::redaction;
use memprof_support::sealed;
use memprof_support::user_error::UserError;

/// A search that is ready to start, or to continue.
#[derive(Clone, Debug, serde::Serialize)]
pub struct SearchPlan {
    /// What to find, and what is measured so far.
    pub search: SearchRecord,
    /// The commits, and how they are built and run.
    pub plan: Plan,
}

/// What the user asks of a search.
pub struct SearchRequest<'a> {
    /// The commit before, as the user wrote it.
    pub good: &'a str,
    /// The commit after, as the user wrote it.
    pub bad: &'a str,
    /// Only commits that touch these paths count; empty means all.
    pub paths: &'a [String],
    /// What to measure.
    pub measuring: &'a MeasuringArguments,
}

/// Returns the two ends of `FROM..TO` or of `FROM TO`; `FROM..` ends at HEAD. `FROM...TO` begins at their merge
/// base.
pub fn ends(range: &[String]) -> Result<(String, String), UserError> {
    if let [good, bad] = range
        && ![good, bad].iter().any(|end| end.is_empty() || end.contains(".."))
    {
        return Ok((good.clone(), bad.clone()));
    }
    let range = range.join(" ");
    let or_head = |bad: &str| if bad.is_empty() { "HEAD".to_owned() } else { bad.to_owned() };
    let (good, bad, is_of_merge_base) = match (range.split_once("..."), range.split_once("..")) {
        (Some((good, bad)), _) => (good, bad, true),
        (None, Some((good, bad))) => (good, bad, false),
        (None, None) => ("", "", false),
    };
    if good.is_empty() || bad.starts_with('.') || bad.contains("..") || range.contains(' ') {
        return Err(UserError::new(format!("'{range}' is not a range of commits"))
            .help("write FROM..TO, such as v0.4.0..HEAD, or FROM TO; FROM.. ends at HEAD"));
    }
    let bad = or_head(bad);
    let good = if is_of_merge_base { format!("{good}...{bad}") } else { good.to_owned() };
    Ok((good, bad))
}

impl SearchRequest<'_> {
    /// Resolves the commits, and returns the plan. `task` gets the range of commits.
    pub fn plan(
        &self,
        repository: &Repository,
        sink: &dyn Sink,
        task: impl FnOnce(&Range) -> anyhow::Result<Task>,
    ) -> anyhow::Result<SearchPlan> {
        let plan = self.resolved(repository, sink)?;
        let range = self.between(&plan.revisions, repository)?;
        let task = task(&range)?;
        self.over(plan, &range, repository, task, sink)
    }

    /// Returns the commits of the range alone, without a word about the ends: others may take their place.
    pub fn range(&self, repository: &Repository) -> anyhow::Result<Range> {
        let mut request = self.asked(repository)?;
        let (revisions, _) = resolve_refs(&mut request, repository, &|_: Event| {})?;
        self.between(&revisions, repository)
    }

    fn between(&self, ends: &[Revision], repository: &Repository) -> anyhow::Result<Range> {
        let [good, bad] = ends else { anyhow::bail!("a search has two ends") };
        let (good, bad) =
            (End { spec: self.good, commit: &good.commit }, End { spec: self.bad, commit: &bad.commit });
        commits::between(repository, good, bad, self.paths).map_err(|error| self.with_program_advice(error))
    }

    /// Says how a program gets what was taken for paths, if one is named.
    fn with_program_advice(&self, error: anyhow::Error) -> anyhow::Error {
        let build = &self.measuring.build;
        let names_program = !build.bin.is_empty() || !build.example.is_empty();
        let is_about_paths = |help: &&String| [OPTIONS_HELP, PATHS_HELP].contains(&help.as_str());
        match error.downcast::<UserError>() {
            Ok(mut about) => {
                if let Some(help) = about.help.as_ref().filter(is_about_paths).filter(|_| names_program) {
                    let words: Vec<OsString> = self.paths.iter().map(OsString::from).collect();
                    about.help = Some(format!("{help}\n{}", test_options::advice(&words)));
                }
                about.into()
            }
            Err(error) => error,
        }
    }

    fn asked(&self, repository: &Repository) -> anyhow::Result<Request> {
        let arguments = self.measuring.request(self.good, self.bad);
        sides::refuse(&arguments, "bisect, history and prove")?;
        // Some metrics are read on request only.
        let presentation = PresentationArguments::of_metric(&self.measuring.metric);
        Ok(Asked::read(&arguments, &presentation, repository, RefsNeeded::Comparison)?.request)
    }

    /// Resolves the two ends.
    pub fn resolved(&self, repository: &Repository, sink: &dyn Sink) -> anyhow::Result<Plan> {
        let mut plan = resolve(&self.asked(repository)?, repository, sink)?;
        plan.request.alone_for = of_neighbours([self.measuring.metric.as_str()]).map(str::to_owned);
        if let Some(one) = plan.request.checkpoints_at.iter().find(|one| one.revision.is_some()) {
            let all = CheckpointAt { revision: None, ..one.clone() };
            return Err(UserError::new(format!(
                "--checkpoint-at {one}: a search measures every commit alike"
            ))
            .help(format!("for every commit: --checkpoint-at {all}"))
            .into());
        }
        overlay_packages::complete(&mut plan, repository, sink)?;
        checkpoint_lines::note(&mut plan, repository, sink)?;
        if !self.measuring.device.is_empty() {
            plan.request.give_devices(&self.measuring.device);
        }
        Ok(plan)
    }

    /// Returns the plan of a search over these commits, from the plan of the two ends.
    pub fn over(
        &self,
        mut plan: Plan,
        range: &Range,
        repository: &Repository,
        task: Task,
        sink: &dyn Sink,
    ) -> anyhow::Result<SearchPlan> {
        let threshold = self.threshold()?;
        let search = SearchRecord {
            version: record::VERSION,
            task,
            good: shown(self.good),
            bad: shown(self.bad),
            query: MetricQuery {
                metric: self.measuring.metric.clone(),
                checkpoint: self.measuring.checkpoint.clone(),
            },
            threshold,
            least_runs: self.measuring.repeat.unwrap_or(1),
            paths: self.paths.to_vec(),
            lineage: range.lineage.clone(),
            lockfile: None,
            arguments: redacted(&command_line(std::env::args())),
            overlay: overlay_hashes(&plan, repository)?,
            proves: false,
            only: None,
            cells: Vec::new(),
            efforts: Vec::new(),
        };
        expand(&mut plan, range, repository)?;
        hidden_changes::note_replaced(&mut plan, repository, sink)?;
        Ok(SearchPlan { search, plan })
    }

    fn threshold(&self) -> anyhow::Result<Option<Threshold>> {
        let metric = &self.measuring.metric;
        let mut threshold = Threshold::default();
        for one in &self.measuring.threshold {
            if let Some(other) = one.metric.as_ref().filter(|named| *named != metric) {
                let message = format!("--threshold has a limit for {other}, but --metric is {metric}");
                return Err(UserError::new(message)
                    .help(format!("a search compares one metric: --metric {other}, or --threshold 5%"))
                    .into());
            }
            let limit = one
                .limit
                .on(Unit::of_metric(metric))
                .map_err(|problem| UserError::new(format!("--threshold does not fit {metric}: {problem}")))?;
            threshold.percent = limit.percent.or(threshold.percent);
            threshold.bytes = limit.bytes.or(threshold.bytes);
        }
        Ok(Some(threshold).filter(|_| !self.measuring.threshold.is_empty()))
    }
}

/// Returns the command line without the program, and without the `memprof` that cargo adds.
pub fn command_line(argv: impl Iterator<Item = String>) -> Vec<String> {
    let mut words: Vec<String> = argv.skip(1).collect();
    if words.first().is_some_and(|first| first == "memprof") {
        words.remove(0);
    }
    words
}

/// Returns the command line with marks in place of secrets.
fn redacted(words: &[String]) -> Vec<String> {
    words.iter().map(|word| redaction::setting(word).into_owned()).collect()
}

impl SearchPlan {
    /// Names the commits of a search over updates after what each updates.
    pub fn name_updates(&mut self, names: &[String]) {
        let refs = self.plan.request.refs.iter_mut();
        for ((revision, one), name) in self.plan.revisions.iter_mut().zip(refs).zip(names) {
            revision.name.clone_from(name);
            one.name = Some(name.clone());
        }
    }

    /// Returns the plan as it is stored, with marks in place of secrets.
    #[must_use]
    pub fn sealed(&self) -> Self {
        Self { search: self.search.sealed(), plan: stored_plan::sealed(&self.plan) }
    }
}

/// Returns the hash of each overlay file. A search that continues with a changed test would compare
/// different things.
pub fn overlay_hashes(plan: &Plan, repository: &Repository) -> anyhow::Result<BTreeMap<String, String>> {
    let files = overlay::read(&plan.request.overlay, &plan.overlay_commits, repository)?;
    let mut hashes = overlay::ingredients(&files);
    hashes.extend(patch::ingredients(&patch::read(&plan.request.overlay_patches, repository.root())?));
    Ok(hashes)
}

/// Makes every commit of the range a revision of the plan, with the same index.
fn expand(plan: &mut Plan, range: &Range, repository: &Repository) -> anyhow::Result<()> {
    let ends = std::mem::take(&mut plan.revisions);
    let names = short_names(&range.hashes);
    for (hash, name) in range.hashes.iter().zip(&names) {
        let revision = match ends.iter().find(|end| end.commit == *hash) {
            // An end keeps the user's name for it, unless that is a hash.
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
    // Patterns for single refs do not apply, because all commits are measured alike.
    plan.request.exclude.retain(|pattern| pattern.r#ref.is_none());
    plan.request.include.retain(|pattern| pattern.r#ref.is_none());
    Ok(())
}

/// Returns the first digits of each hash: at least seven, and enough to make all different.
fn short_names(hashes: &[String]) -> Vec<String> {
    let mut sorted: Vec<&String> = hashes.iter().collect();
    sorted.sort();
    let shared = |pair: &[&String]| pair[0].bytes().zip(pair[1].bytes()).take_while(|(a, b)| a == b).count();
    let digits = sorted.windows(2).map(shared).max().unwrap_or_default().max(6) + 1;
    hashes.iter().map(|hash| hash.get(..digits).unwrap_or(hash).to_owned()).collect()
}

/// Creates the folder of a new search.
pub fn create_folder(runs: &Utf8Path, search: &SearchPlan) -> anyhow::Result<RunFolder> {
    let folder = RunFolder(runs.join(&search.plan.id));
    session::fill_folder(&folder, &search.plan)?;
    sealed::write(&folder.search(), &search.search.sealed())?;
    session::announce(runs, &search.plan.id)?;
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use clap::{Arg, CommandFactory as _};

    use super::*;
    use crate::arguments::command::Arguments;
    use memprof_run::bisect::replay;

    #[test]
    fn names_are_long_enough_to_differ() {
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
    fn a_range_behind_any_switch_is_left_out_of_the_command_that_compares_two_commits() {
        let command = Arguments::command();
        let search = command.find_subcommand("bisect").expect("a command");
        let switches = search.get_arguments().filter(|argument| !argument.get_action().takes_values());
        let mut count = 0;
        for name in switches.filter_map(Arg::get_long).filter(|name| !["help", "dry-run"].contains(name)) {
            let words = ["bisect".to_owned(), format!("--{name}"), "v1..main".to_owned()];
            let line = replay::comparison("bisect", &words, "a", "b");
            assert!(!line.contains("v1..main"), "{line}");
            count += 1;
        }
        assert!(count > 15, "{count} switches");
    }

    #[test]
    fn the_command_line_starts_with_the_command() {
        let words = |text: &str| command_line(text.split(' ').map(str::to_owned));
        assert_eq!(words("/bin/cargo-memprof memprof bisect --good a"), ["bisect", "--good", "a"]);
        assert_eq!(words("cargo-memprof bisect"), ["bisect"]);
    }
}
