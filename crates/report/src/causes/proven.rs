//! What a proof says of a cause, in its words.

use crate::causes::entry::Entry;
use crate::proof::lines::signed;
use memprof_judge::compare::comparison::Comparison;
use memprof_judge::why::causes::{Cause, CauseTest};
use memprof_judge::why::reasons::Reason;
use memprof_run::bisect::parts::proof::{ProofReport, ProvenPart};
use memprof_run::bisect::parts::record::HunkPlace;

/// Adds that a cause is proven, if the proof is about it.
pub(super) fn named<'a>(
    mut entry: Entry<'a>,
    comparison: &Comparison,
    proof: Option<&ProofReport>,
) -> Entry<'a> {
    let cause = entry.cause;
    let are_same = |proof: &&ProofReport| {
        let commit = |index: usize| comparison.revisions[index].commit.as_str();
        proof.baseline.facts.commit == commit(comparison.baseline)
            && proof.candidate.facts.commit == commit(cause.candidate)
    };
    let Some(proof) = proof.filter(are_same) else { return entry };
    let is_about =
        |part: &&ProvenPart| part.proven && moves(comparison, cause, proof, part.difference.signum());
    let mut proven = proof.parts.iter().filter(is_about);
    let own = proven.clone().find(|part| part.hunks.iter().any(|hunk| is_of(cause, hunk)));
    let Some(part) = own.or_else(|| proven.find(|part| part.shows_in.as_deref() == Some(cause.site.name())))
    else {
        return entry;
    };
    let is_other = own.is_none();
    let words = words(part, proof, cause.tests.len() > 1, is_other);
    entry.words = if entry.words.is_empty() { words } else { format!("{}; {words}", entry.words) };
    entry.is_proven = true;
    entry
}

/// `proven: without it -3.82 MiB`, `proven in a_day: src/config.rs:12 SNIPPET: 40 → 160, without it -3.82 MiB`
fn words(part: &ProvenPart, proof: &ProofReport, names_test: bool, names_place: bool) -> String {
    let test = if names_test { format!(" in {}", proof.title) } else { String::new() };
    let first = part.hunks.first().filter(|_| names_place);
    let place = first.map_or_else(String::new, |hunk| {
        let what = hunk.what.as_ref().map_or_else(String::new, |what| format!(" {what}"));
        format!("{}{what}, ", hunk.shown())
    });
    format!("proven{test}: {place}without it {}", signed(-part.difference, proof.unit))
}

/// Whether a cause moves the proof's figure in this direction. A hunk may have several causes.
fn moves(comparison: &Comparison, cause: &Cause, proof: &ProofReport, sign: i128) -> bool {
    let is_of_test = |test: &&CauseTest| {
        let cell = &comparison.cells[test.cell].id;
        cell.full_name() == proof.test && cell.params == proof.params
    };
    let mut moved = cause.tests.iter().filter(is_of_test).flat_map(|test| &test.moved);
    moved.any(|moved| moved.metric == proof.query.metric && i128::from(moved.amount.signum()) == sign)
}

/// Whether a hunk of a proof is the cause's place in the diff, or the update of its dependency.
fn is_of(cause: &Cause, hunk: &HunkPlace) -> bool {
    match &cause.reason {
        Reason::Hunk(at) => {
            let line = |line: u32| usize::try_from(line).unwrap_or(usize::MAX);
            hunk.is_at(&at.path, &(line(at.hunk.new.start)..line(at.hunk.new.end)))
        }
        Reason::Dependency(changed) => hunk.is_of_package(&changed.name),
        Reason::Type(_) | Reason::Code(_) => false,
    }
}
