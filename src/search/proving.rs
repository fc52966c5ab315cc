//! Measures the variants of a diff until each part's figure is known.

use crate::search::progress_lines::unit;
use crate::search::session::SearchSession;
use memprof_judge::why::chosen::Why;
use memprof_judge::why::difference::Difference;
use memprof_judge::why::explanations::Inquiry;
use memprof_plan::resolved::Plan;
use memprof_report::bisect::headline::update_line;
use memprof_run::attribution::{self, Attribution};
use memprof_run::bisect::commit_runner::CommitRunner;
use memprof_run::bisect::observations::ChangeRule;
use memprof_run::bisect::parts::measurement::PartMeasurement;
use memprof_run::bisect::parts::proof::{ProofBuilder, limit, suspects};
use memprof_run::bisect::parts::record::PartsSearch;
use memprof_run::bisect::step_comparison::StepPair;
use memprof_run::runner::Interrupted;
use memprof_support::event::{Event, Sink};
use memprof_support::sealed;
use memprof_support::user_error::UserError;

impl SearchSession<'_> {
    /// Measures both ends and the variants that tell what each part costs, and writes the answer into the
    /// folder.
    pub(super) fn prove(
        &self,
        mut runner: CommitRunner<'_>,
        plan: &Plan,
        search: &PartsSearch,
    ) -> anyhow::Result<()> {
        runner.measure_ends()?;
        let rule = runner.rule(0)?;
        let ends = [0, search.count()];
        ends.into_iter().zip(1..).for_each(|(commit, number)| self.told(&runner, plan, commit, number));
        let sites = self.call_sites(&mut runner, plan, ends)?;
        let suspects = sites.as_ref().map(|sites| suspects(search, sites)).unwrap_or_default();
        while let Some((commit, is_repeat)) = next(&runner, search, &rule, &suspects) {
            if is_repeat {
                runner.repeat(commit, 0)?;
            } else {
                runner.measure(commit)?;
                self.told(&runner, plan, commit, runner.record.efforts.len());
            }
        }
        let (record, track) = (&runner.record, &runner.tracks[0]);
        let proof = ProofBuilder { record, search, track, plan, rule: &rule, sites: sites.as_ref() };
        let report = proof.report().ok_or_else(|| UserError::new("an end of the diff has no figure"))?;
        sealed::write(&self.folder.found(), &report)
    }

    /// Prints a line for a measured commit.
    fn told(&self, runner: &CommitRunner<'_>, plan: &Plan, commit: usize, number: usize) {
        let measured = self.builder(runner, plan, 0).progress(commit);
        let line = update_line(&measured, &plan.revisions[commit].name, unit(&runner.record));
        let text = format!("[{number}] {line}");
        self.context.console.emit(Event::SearchStep { text, measured: measured.value.is_some() });
    }

    /// Runs both ends once more with call stacks, unless an earlier session did. The answer is complete
    /// without them.
    fn call_sites(
        &self,
        runner: &mut CommitRunner<'_>,
        plan: &Plan,
        ends: [usize; 2],
    ) -> anyhow::Result<Option<Difference>> {
        let record = runner.record.clone();
        let pair = StepPair::of_commits(ends, 0, &record.query, record.threshold.as_ref(), plan, self.folder);
        if self.attribution.why == Why::Never {
            return Ok(None);
        }
        if !pair.is_explained() {
            match runner.explain(&pair, Attribution { tests: 1, ..self.attribution }) {
                Err(error) if error.is::<Interrupted>() => return Err(error),
                Err(error) => {
                    self.context.console.emit(attribution::warning(&error));
                    return Ok(None);
                }
                Ok(()) => {}
            }
        }
        let inquiry = Inquiry::default();
        let compared =
            pair.compare(plan, self.folder, &record.cells[0].cell, Some((&record.query, &inquiry)))?;
        let rows = compared.why.iter().flat_map(|why| &why.tests).flat_map(|test| &test.rows);
        Ok(rows.map(|row| &row.difference).find(|row| row.metric == record.query.metric).cloned())
    }
}

/// Returns the commit to measure next, and whether it was measured before.
fn next(
    runner: &CommitRunner<'_>,
    search: &PartsSearch,
    rule: &ChangeRule,
    suspects: &[usize],
) -> Option<(usize, bool)> {
    let observations = &runner.tracks[0].observations;
    let least = rule.least_runs(observations);
    let is_short =
        |commit: &usize| observations.samples(*commit).is_some_and(|samples| samples.len() < least);
    if let Some(commit) = (0..runner.commits()).find(is_short) {
        return Some((commit, true));
    }
    let limit = limit(rule, observations);
    let measurement = PartMeasurement { search, observations, limit, suspects };
    measurement.next().map(|commit| (commit, false))
}
