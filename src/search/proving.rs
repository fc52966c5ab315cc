//! Measures the variants of a diff until each part's figure is known.

use std::collections::BTreeSet;
use std::time::Instant;

use anyhow::Context;

use crate::search::diff::{CheckedVariant, ReadDiff};
use crate::search::growing_plan::GrowingPlan;
use crate::search::parts;
use crate::search::progress_lines::{parts_line, unit};
use crate::search::session::SearchSession;
use memprof_build::store::Entry;
use memprof_judge::why::chosen::Why;
use memprof_judge::why::difference::Difference;
use memprof_judge::why::explanations::Inquiry;
use memprof_report::bisect::headline::update_line;
use memprof_run::attribution::{self, Attribution};
use memprof_run::bisect::commit_runner::CommitRunner;
use memprof_run::bisect::observations::ChangeRule;
use memprof_run::bisect::parts::grouping;
use memprof_run::bisect::parts::measurement::{Judged, PartMeasurement, Step};
use memprof_run::bisect::parts::proof::ProofBuilder;
use memprof_run::bisect::parts::record::{BASELINE, CANDIDATE, Parts, PartsSearch};
use memprof_run::bisect::parts::suspects;
use memprof_run::bisect::record::Task;
use memprof_run::bisect::step_comparison::StepPair;
use memprof_run::runner::Interrupted;
use memprof_run::stored_plan;
use memprof_support::event::{Event, Sink};
use memprof_support::sealed;
use memprof_support::user_error::UserError;

/// A proof under way.
struct Proving<'s, 'p> {
    session: &'s SearchSession<'s>,
    runner: CommitRunner<'p>,
    plans: &'p GrowingPlan,
    search: PartsSearch,
    rule: ChangeRule,
    /// Commits whose further runs fail.
    exhausted: BTreeSet<usize>,
    begun: Instant,
    /// The time that earlier sessions took.
    earlier: u64,
}

impl SearchSession<'_> {
    /// Measures both ends and the variants that tell what each part costs, and writes the answer into the
    /// folder.
    pub(super) fn prove<'p>(
        &self,
        mut runner: CommitRunner<'p>,
        plans: &'p GrowingPlan,
        search: PartsSearch,
        begun: Instant,
    ) -> anyhow::Result<()> {
        runner.measure_ends()?;
        let rule = runner.rule(0)?;
        let earlier = search.milliseconds;
        let exhausted = BTreeSet::new();
        let mut proving = Proving { session: self, runner, plans, search, rule, exhausted, begun, earlier };
        let sites = proving.run()?;
        proving.save()?;
        let Proving { runner, search, rule, exhausted, .. } = &proving;
        let proof = ProofBuilder {
            record: &runner.record,
            search,
            track: &runner.tracks[0],
            plan: plans.newest(),
            rule,
            sites: sites.as_ref(),
            exhausted,
        };
        let report = proof.report().ok_or_else(|| UserError::new("an end of the diff has no figure"))?;
        sealed::write(&self.folder.found(), &report)
    }
}

impl<'s> Proving<'s, '_> {
    /// Measures until nothing is left to find out. Returns the call sites, if they were recorded.
    fn run(&mut self) -> anyhow::Result<Option<Difference>> {
        for (number, end) in (1..).zip([BASELINE, CANDIDATE]) {
            self.tell(end, number);
        }
        self.measure_known(&[], None)?;
        if !self.differs() {
            return Ok(None);
        }
        let sites = self.call_sites()?;
        let diff = self.diff()?;
        let suspects = sites.as_ref().map(|sites| suspects::parts(&self.search, sites)).unwrap_or_default();
        self.measure_known(&suspects, Some(&diff))?;
        Ok(sites)
    }

    /// Does what the figures so far ask for.
    fn measure_known(&mut self, suspects: &[usize], diff: Option<&ReadDiff<'_>>) -> anyhow::Result<()> {
        while let Some(step) = self.measurement(suspects).next() {
            match (step, diff) {
                (Step::Repeat(commit), _) => self.repeat(commit)?,
                (Step::Measure { kept, within }, Some(diff)) => self.measure(&kept, &within, diff)?,
                (Step::Measure { .. }, None) => anyhow::bail!("no part is known yet"),
            }
        }
        Ok(())
    }

    fn measurement<'m>(&'m self, suspects: &'m [usize]) -> PartMeasurement<'m> {
        PartMeasurement {
            search: &self.search,
            observations: &self.runner.tracks[0].observations,
            rule: &self.rule,
            suspects,
            exhausted: &self.exhausted,
            judged: Judged::default(),
        }
    }

    fn differs(&self) -> bool {
        self.measurement(&[]).differs()
    }

    /// Returns the diff. Finds its parts, unless an earlier session did.
    fn diff(&mut self) -> anyhow::Result<ReadDiff<'s>> {
        let repository = self.session.repository;
        let console = self.session.context.console;
        let plan = self.plans.newest();
        let is_known = !self.search.parts.is_empty();
        let diff = if is_known {
            parts::read_again(&self.search, plan, repository)?
        } else {
            let found = parts::find(&mut self.search, &mut self.runner, plan, repository, console)?;
            self.save()?;
            found
        };
        console.emit(Event::SearchBegan { text: parts_line(&self.search) });
        Ok(diff)
    }

    /// Builds and runs a variant, unless it does not compile.
    fn measure(&mut self, kept: &Parts, within: &Parts, diff: &ReadDiff<'_>) -> anyhow::Result<()> {
        let left_out = self.search.hunks(&(&self.search.all() - kept));
        let search = &mut self.search;
        let checked = self.runner.checking(CANDIDATE, |checker| {
            let checked = diff.checked(&left_out, checker);
            search.checks += checker.calls;
            checked
        })?;
        let variant = match checked {
            Ok(variant) => variant,
            Err(errors) => {
                let missing = grouping::missing(&diff.split, &errors, &left_out);
                let users = &self.search.parts_of(&missing.users) & kept;
                let missing = &self.search.parts_of(&missing.missing) - kept;
                let reason = errors.first().map(|error| error.message.clone()).unwrap_or_default();
                let reason = format!("does not compile: {reason}");
                self.search.refuse(kept, reason, &users, &missing, within);
                return self.save();
            }
        };
        let commit = match self.search.variant(kept) {
            Some(known) => known,
            None => self.add(kept, &left_out, &variant, diff)?,
        };
        match self.refused(commit, &variant)? {
            Some(reason) => self.runner.skip(commit, &reason)?,
            None => self.runner.measure(commit)?,
        }
        self.save()?;
        self.tell(commit, commit + 1);
        Ok(())
    }

    /// Writes the commit of a variant, and adds it to the plan.
    fn add(
        &mut self,
        kept: &Parts,
        left_out: &BTreeSet<usize>,
        variant: &CheckedVariant,
        diff: &ReadDiff<'_>,
    ) -> anyhow::Result<usize> {
        let name = self.search.name(kept);
        let hash = diff.written(left_out, variant, &name)?;
        let plan = self.plans.add(&hash, name, self.session.repository)?;
        sealed::write(&self.session.folder.plan(), &stored_plan::sealed(plan))?;
        self.runner.extend(plan)?;
        self.search.variants.push(kept.clone());
        self.save()?;
        Ok(self.search.variants.len() - 1)
    }

    /// Builds a variant, and returns why its figure says nothing: cargo chose other packages than it was asked
    /// for, or in versions that neither end has.
    fn refused(&mut self, commit: usize, variant: &CheckedVariant) -> anyhow::Result<Option<String>> {
        let Some((packages, lock)) = self.runner.built(commit)?.map(locked) else { return Ok(None) };
        let asked = variant.lock.as_ref().map(|text| blake3::hash(text).to_hex().to_string());
        if asked.is_some() && asked != lock {
            return Ok(Some("cargo changed its lock file".to_owned()));
        }
        let mut known = BTreeSet::new();
        for end in [BASELINE, CANDIDATE] {
            known.extend(self.runner.built(end)?.map(locked).unwrap_or_default().0);
        }
        let foreign = packages.into_iter().find(|one| !known.contains(one));
        Ok(foreign.map(|one| format!("cargo chose {one}, which neither side has")))
    }

    /// Runs a commit once more.
    fn repeat(&mut self, commit: usize) -> anyhow::Result<()> {
        let samples =
            |runner: &CommitRunner<'_>| runner.tracks[0].observations.samples(commit).map_or(0, <[i64]>::len);
        let before = samples(&self.runner);
        self.runner.repeat(commit, 0)?;
        if samples(&self.runner) == before {
            self.exhausted.insert(commit);
        }
        Ok(())
    }

    fn save(&mut self) -> anyhow::Result<()> {
        let passed = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.search.milliseconds = self.earlier.saturating_add(passed);
        self.runner.record.task = Task::Prove(self.search.clone());
        self.runner.save()
    }

    /// Prints a line for a measured commit.
    fn tell(&self, commit: usize, number: usize) {
        let plan = self.plans.newest();
        let measured = self.session.builder(&self.runner, plan, 0).progress(commit);
        let line = update_line(&measured, &plan.revisions[commit].name, unit(&self.runner.record));
        let text = format!("[{number}] {line}");
        self.session.context.console.emit(Event::SearchStep { text, measured: measured.value.is_some() });
    }

    /// Runs both ends once more with call stacks, unless an earlier session did. The answer is complete
    /// without them.
    fn call_sites(&mut self) -> anyhow::Result<Option<Difference>> {
        let SearchSession { folder, attribution, context, .. } = self.session;
        let plan = self.plans.newest();
        let record = self.runner.record.clone();
        let ends = [BASELINE, CANDIDATE];
        let pair = StepPair::of_commits(ends, 0, &record.query, record.threshold.as_ref(), plan, folder);
        if attribution.why == Why::Never {
            return Ok(None);
        }
        if !pair.is_explained() {
            match self.runner.explain(&pair, &Attribution { tests: 1, ..attribution.clone() }) {
                Err(error) if error.is::<Interrupted>() => return Err(error),
                Err(error) => {
                    context.console.emit(attribution::warning(&error));
                    return Ok(None);
                }
                Ok(()) => {}
            }
        }
        let inquiry = Inquiry::default();
        let cell = &record.cells.first().context("no test was chosen")?.cell;
        let compared = pair.compare(plan, folder, cell, Some((&record.query, &inquiry)))?;
        let rows = compared.why.iter().flat_map(|why| &why.tests).flat_map(|test| &test.rows);
        let rows: Vec<&Difference> = rows.map(|row| &row.difference).collect();
        let of_metric = rows.iter().find(|row| row.metric == record.query.metric);
        // Resident memory follows from the heap.
        let of_heap = || {
            rows.iter().find(|row| record.query.metric.starts_with("cpu.") && row.metric.starts_with("heap."))
        };
        Ok(of_metric.or_else(of_heap).map(|row| (*row).clone()))
    }
}

/// Returns the packages that a build has, and the hash of its lock file.
fn locked(entry: &Entry) -> (BTreeSet<String>, Option<String>) {
    let provenance = &entry.provenance;
    (provenance.packages.iter().cloned().collect(), provenance.lock.clone())
}
