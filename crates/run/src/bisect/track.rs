//! What a search observed of one test: the figures of its commits, or why they have none.

use std::collections::BTreeMap;

use crate::bisect::metric_query::MetricQuery;
use crate::bisect::observations::{Observation, Observations};
use memprof_judge::results::outcome::Status;
use memprof_judge::results::stored::Run;

/// One test along the commits.
pub struct Track {
    /// What was observed of each commit.
    pub observations: Observations,
    /// Why a commit was skipped.
    pub reasons: BTreeMap<usize, String>,
    source: ExpectedSource,
}

/// The source of the first figure that was read. Figures from other sources cannot be compared with
/// it.
enum ExpectedSource {
    NotKnownYet,
    Is(Option<String>),
}

impl Track {
    /// Returns a track of this many commits, none of which was measured yet.
    pub fn new(commits: usize) -> Self {
        Self {
            observations: Observations::new(commits),
            reasons: BTreeMap::new(),
            source: ExpectedSource::NotKnownYet,
        }
    }

    /// Adds commits that were not measured yet, up to this number.
    pub fn grow(&mut self, commits: usize) {
        self.observations.grow(commits);
    }

    /// Notes why a commit has no figure.
    pub fn skip(&mut self, commit: usize, reason: String) {
        self.reasons.insert(commit, reason);
        self.observations.record(commit, Observation::Skipped);
    }

    /// The source that every figure must have, once it is known and has a name.
    pub fn source(&self) -> Option<&str> {
        match &self.source {
            ExpectedSource::Is(source) => source.as_deref(),
            ExpectedSource::NotKnownYet => None,
        }
    }

    /// Takes the figures of a commit's runs, or the reason why it has none.
    pub fn read(&mut self, commit: usize, runs: &[Run], query: &MetricQuery) {
        self.observations.note_runs(commit, runs.len());
        let mut samples = Vec::new();
        let mut reason = None;
        for run in runs {
            match query.read(run) {
                Ok(figure) => {
                    if let ExpectedSource::NotKnownYet = self.source {
                        self.source = ExpectedSource::Is(figure.source.clone());
                    }
                    match &self.source {
                        ExpectedSource::Is(expected) if *expected != figure.source => {
                            reason = Some(other_source(figure.source.as_deref(), expected.as_deref()));
                        }
                        _ => samples.push((run.round(), figure.value)),
                    }
                }
                Err(problem) => reason = reason.or(Some(explained(run, &problem))),
            }
        }
        if !samples.is_empty() {
            self.reasons.remove(&commit);
            self.observations.record_runs(commit, &samples);
        } else if let Some(reason) = reason {
            self.skip(commit, reason);
        }
    }
}

fn other_source(own: Option<&str>, expected: Option<&str>) -> String {
    let (own, expected) = (own.unwrap_or_default(), expected.unwrap_or_default());
    format!("its figure from '{own}' cannot be compared with figures from '{expected}'")
}

/// Returns, in one line, why a run has no figure.
fn explained(run: &Run, problem: &str) -> String {
    let first_line = |text: &str| text.lines().next().unwrap_or_default().to_owned();
    let message = run.record.outcome.message.as_deref().map(first_line);
    match run.record.outcome.status {
        Status::NotInThisRef => "it has no such test".to_owned(),
        Status::Ignored => "the test is ignored at this commit".to_owned(),
        Status::NotMeasured => message.map_or_else(
            || "it is not measured".to_owned(),
            |reason| format!("it is not measured: {reason}"),
        ),
        Status::BuildFailed => {
            message.map_or_else(|| "does not build".to_owned(), |error| format!("does not build: {error}"))
        }
        _ => first_line(problem),
    }
}
