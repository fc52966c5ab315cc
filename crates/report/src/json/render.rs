//! Writes the JSON report. Each row goes out as soon as it is complete, on a line of its own. So a
//! long report needs little memory, and line tools can read it.

use std::borrow::Cow;
use std::io::{self, Write};
use std::sync::Arc;

use indexmap::IndexMap;
use serde::{Serialize, Serializer};

use crate::causes::json::CausesReport;
use crate::causes::sheet::CauseSheet;
use crate::json::rows::CellRows;
use crate::json::schema::{
    Answer, BreachEntry, CellRun, FailedBuildEntry, Identity, NotMeasuredEntry, Ref, RunRecordParts,
    TestCounts, VERSION, reason,
};
use crate::notes;
use crate::options::Options;
use crate::selection::MetricFilter;
use crate::tensors::forwards_json;
use crate::tensors::json as tensors_json;
use crate::why::explained;
use memprof_judge::compare::comparison::{Breach, BreachKind, Comparison};
use memprof_judge::compare::side_differences::SideDifference;
use memprof_judge::compare::standing::Standing;
use memprof_judge::results::stored::Run;
use memprof_judge::results::trace_facts::TraceFacts;
use memprof_judge::why::explanations::Explanations;
use memprof_plan::resolved::CellId;
use memprof_run::bisect::parts::proof::ProofReport;

/// Writes the report.
pub fn render(
    comparison: &Comparison,
    why: Option<&Explanations>,
    proof: Option<&Arc<ProofReport>>,
    out: &mut dyn Write,
) -> io::Result<()> {
    write!(out, "{{\"version\":{VERSION},\n\"plan\":")?;
    serde_json::to_writer(&mut *out, &identity(comparison))?;
    write!(out, ",\n\"verdict\":")?;
    serde_json::to_writer(&mut *out, &Answer::from_comparison(comparison, test_counts(comparison)))?;
    write!(out, ",\n\"environment\":")?;
    serde_json::to_writer(&mut *out, &comparison.environment)?;
    write!(out, ",\n\"breaches\":")?;
    serde_json::to_writer(&mut *out, &Breaches(comparison))?;
    write!(out, ",\n\"rows\":[")?;
    let mut separator = "\n";
    for cell in &comparison.cells {
        CellRows::new(comparison, cell).write(&mut separator, out)?;
    }
    write!(out, "\n],\n\"cells\":[")?;
    separator = "\n";
    for run in &comparison.runs {
        write!(out, "{separator}")?;
        serde_json::to_writer(&mut *out, &cell_run(comparison, run))?;
        separator = ",\n";
    }
    write!(out, "\n],")?;
    if !comparison.not_measured.is_empty() {
        write!(out, "\n\"not_measured\":")?;
        serde_json::to_writer(&mut *out, &not_measured(comparison))?;
        write!(out, ",")?;
    }
    if !comparison.same_code.is_empty() {
        write!(out, "\n\"same_code\":")?;
        serde_json::to_writer(&mut *out, &comparison.same_code)?;
        write!(out, ",")?;
    }
    if !comparison.failed_builds.is_empty() {
        write!(out, "\n\"failed_builds\":")?;
        serde_json::to_writer(&mut *out, &failed_builds(comparison))?;
        write!(out, ",")?;
    }
    write!(out, "\n\"notes\":")?;
    let filter = MetricFilter::new(&Options { all: true, ..Options::default() });
    serde_json::to_writer(&mut *out, &notes::notes(comparison, &filter))?;
    if !comparison.traces.is_empty() {
        let name = |revision: &usize| &comparison.revisions[*revision].name;
        let traced: IndexMap<&String, &TraceFacts> =
            comparison.traces.iter().map(|(revision, facts)| (name(revision), facts)).collect();
        write!(out, ",\n\"traced\":")?;
        serde_json::to_writer(&mut *out, &traced)?;
    }
    let layers = tensors_json::changes(comparison);
    if !layers.is_empty() {
        write!(out, ",\n\"layers\":")?;
        serde_json::to_writer(&mut *out, &layers)?;
    }
    if let Some(why) = why {
        write!(out, ",\n\"causes\":")?;
        serde_json::to_writer(
            &mut *out,
            &CausesReport::new(
                comparison,
                &CauseSheet::explained(comparison, why).with_proof(proof.cloned()),
            ),
        )?;
        write!(out, ",\n\"why\":")?;
        serde_json::to_writer(&mut *out, &explained::report(comparison, why))?;
    }
    if let Some(proof) = proof {
        write!(out, ",\n\"proof\":")?;
        serde_json::to_writer(&mut *out, proof.as_ref())?;
    }
    writeln!(out, "}}")
}

/// Counts the tests of each candidate.
fn test_counts(comparison: &Comparison) -> Vec<TestCounts> {
    let of = |candidate: usize| {
        let standings = Standing::counts(comparison, candidate);
        let count = |standing| standings.get(&standing).copied().unwrap_or(0);
        TestCounts {
            r#ref: comparison.revisions[candidate].name.clone(),
            tests: standings.iter().filter(|(one, _)| one.is_of_both()).map(|(_, count)| count).sum(),
            regressed: count(Standing::Regressed),
            over_limit: count(Standing::OverLimit),
            failed: count(Standing::Failed),
            not_compared: count(Standing::NotCompared),
            inconclusive: count(Standing::Inconclusive) + count(Standing::MaybeImproved),
            expected: count(Standing::Expected)
                + count(Standing::ExpectedOverLimit)
                + count(Standing::MaybeExpected),
            improved: count(Standing::Improved),
            restructured: count(Standing::Restructured),
            not_judged: count(Standing::NotJudged),
            partly_judged: count(Standing::PartlyJudged),
            unchanged: count(Standing::Unchanged),
            only_in_baseline: count(Standing::OnlyInBaseline),
            only_in_candidate: count(Standing::OnlyInCandidate),
            fixed: count(Standing::Fixed),
            ignored: count(Standing::Ignored),
        }
    };
    comparison.candidates().map(of).collect()
}

fn identity(comparison: &Comparison) -> Identity<'_> {
    let refs = comparison.revisions.iter().enumerate().map(|(index, revision)| Ref {
        name: (&revision.name).into(),
        spec: (&revision.spec).into(),
        commit: (&revision.commit).into(),
        tree: (&revision.tree).into(),
        differs: comparison.differs.get(index).and_then(SideDifference::words),
        dependencies: comparison
            .differs
            .get(index)
            .map(|differs| differs.dependencies.clone())
            .unwrap_or_default(),
        settings: (comparison.differs.get(index).into_iter())
            .flat_map(|differs| differs.settings.iter().map(Cow::from))
            .collect(),
    });
    Identity {
        id: (&comparison.id).into(),
        created: (&comparison.created).into(),
        tool: (&comparison.tool).into(),
        baseline: (&comparison.revisions[comparison.baseline].name).into(),
        refs: refs.collect(),
        random: comparison.random,
        axes: comparison.axes.clone(),
    }
}

fn failed_builds(comparison: &Comparison) -> Vec<FailedBuildEntry<'_>> {
    let entries = comparison.failed_builds.iter().map(|(revision, failed)| FailedBuildEntry {
        r#ref: (&comparison.revisions[*revision].name).into(),
        errors: (&failed.errors).into(),
        log: failed.log.as_deref().map(Cow::from),
        lockfile: failed.lockfile.as_deref().map(Cow::from),
    });
    entries.collect()
}

fn not_measured(comparison: &Comparison) -> Vec<NotMeasuredEntry<'_>> {
    let entries = comparison.not_measured.iter().map(|(revision, executable)| NotMeasuredEntry {
        r#ref: (&comparison.revisions[*revision].name).into(),
        executable: executable.to_string().into(),
        reason: (&executable.reason).into(),
    });
    entries.collect()
}

/// The breaches, serialized one by one: there may be one for each row.
struct Breaches<'a>(&'a Comparison);

impl Serialize for Breaches<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(breaches(self.0))
    }
}

fn breaches(comparison: &Comparison) -> impl Iterator<Item = BreachEntry<'_>> {
    let checked = comparison.checked().flat_map(move |view| {
        view.pair.breaches.iter().map(move |breach| {
            let key = view.key(&view.rows[breach.row]);
            let checkpoint = (&*view.cell.labels[key.label as usize], key.occurrence);
            breach_entry(comparison, (&view.new.name, &view.cell.id), checkpoint, breach)
        })
    });
    let unpaired = comparison.unpaired_breaches.iter().map(move |one| {
        breach_entry(comparison, (&one.reference, &one.test), (&one.label, one.occurrence), &one.breach)
    });
    checked.chain(unpaired)
}

fn breach_entry<'a>(
    comparison: &'a Comparison,
    (name, cell): (&'a str, &'a CellId),
    (label, occurrence): (&'a str, u32),
    breach: &'a Breach,
) -> BreachEntry<'a> {
    let RunRecordParts { test, title, params } = RunRecordParts::for_cell(cell);
    BreachEntry {
        r#ref: name.into(),
        test: test.into(),
        title: title.into(),
        params,
        checkpoint: label.into(),
        occurrence,
        metric: (&breach.metric).into(),
        kind: match breach.kind {
            BreachKind::Limit => "limit".into(),
            BreachKind::Leak => "leak".into(),
        },
        value: breach.value,
        limit: breach.limit,
        place: breach.place.as_deref().map(Cow::from),
        expected: reason(comparison, breach.expected).map(|reason| reason.to_owned().into()),
    }
}

fn cell_run<'a>(comparison: &'a Comparison, run: &'a Run) -> CellRun<'a> {
    let RunRecordParts { test, title, params } = RunRecordParts::for_cell(&run.record.cell);
    let outcome = &run.record.outcome;
    CellRun {
        r#ref: (&comparison.revisions[run.record.revision].name).into(),
        test: test.into(),
        title: title.into(),
        params,
        program: run.record.cell.program.as_ref().map(Cow::Borrowed),
        repeat: run.record.repeat,
        outcome: outcome.status.as_str().into(),
        detail: outcome.status.to_string(),
        not_compared: run.trouble(),
        message: outcome.message.as_deref().map(Cow::from),
        marks: run.record.marks.iter().map(Cow::from).collect(),
        devices: run.record.devices.as_ref().map(|devices| devices.iter().map(Cow::from).collect()),
        folder: run.folder.as_str().into(),
        trace: (!run.measurement.trace.is_empty()).then(|| Cow::Borrowed(&run.measurement.trace)),
        tensors: tensors_json::of_run(&run.measurement),
        forwards: forwards_json::of_run(&run.measurement),
    }
}
