//! Makes a comparison from results: groups runs into cells, combines repeats, and matches every
//! candidate with the baseline. Also merges the results of two runs of the tool.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::mem;

use camino::Utf8Path;
use indexmap::IndexMap;
use serde_json::{Value, json};

use crate::compare::absent_tests;
use crate::compare::aggregate::{Aggregate, Availability};
use crate::compare::comparison::{Cell, Comparison, Metric, Pair};
use crate::compare::derived;
use crate::compare::evaluation;
use crate::compare::joined_intervals::JoinedIntervals;
use crate::compare::matching::{Match, Renames, match_checkpoints};
use crate::compare::one_sided;
use crate::compare::paired_tests::{self, PairedResults};
use crate::compare::settling;
use crate::compare::side_differences;
use crate::results::build_facts::{Fact, Purpose};
use crate::results::comparability::{self, IncomparableMetrics};
use crate::results::measurement::Names;
use crate::results::same_code::SameCode;
use crate::results::stored::{Builds, Results, Run};
use memprof_plan::budget::BudgetLimit;
use memprof_plan::listing::NotMeasured;
use memprof_plan::metric::{Unit, order};
use memprof_plan::request::{BuildOptions, RefRequest, Request};
use memprof_plan::rule::Judging;
use memprof_plan::search_options::SearchOptions;
use memprof_plan::side;

/// Lists at most this many differing facts of two environments.
const MOST_ENVIRONMENT_NOTES: usize = 12;

/// Compares each candidate with the baseline, in every cell; or the tests of a single revision with
/// each other, if the plan has pairs.
pub fn compare(results: &Results) -> Comparison {
    let with_derived = derived::with_derived(results);
    let results = with_derived.as_ref().unwrap_or(results);
    let Some(paired) = PairedResults::from_results(results) else { return compare_revisions(results, 0) };
    let mut comparison = compare_revisions(&paired.results, paired.not_compared);
    comparison.unchecked_notes.extend(paired.failures_note);
    for cell in &mut comparison.cells {
        cell.origins = paired.origins.get(&cell.id).cloned();
    }
    let mut alone = unjudged(results, 0);
    alone.notes.clear();
    evaluation::judge_all(&mut alone, &results.plan.request.judging);
    paired_tests::add_limits(&mut comparison, alone);
    comparison
}

fn compare_revisions(results: &Results, unchecked: usize) -> Comparison {
    let mut comparison = unjudged(results, unchecked);
    evaluation::judge_all(&mut comparison, &results.plan.request.judging);
    let settling = settling::notes(&comparison, results);
    comparison.notes.extend(settling);
    comparison.notes.extend(one_sided::notes(&comparison));
    comparison.notes.extend(settling::of_random_numbers(&comparison));
    comparison
}

/// Returns the figures of all revisions, without verdicts.
fn unjudged(results: &Results, unchecked: usize) -> Comparison {
    let plan = &results.plan;
    let cells = cells(results);
    let mut notes = plan.notes.clone();
    notes.extend(results.notes.iter().cloned());
    notes.extend(all_build_notes(results));
    notes.extend(log_notes(results));
    // A saved baseline has what it was saved with, and may have the other side's name.
    let mut known = HashSet::new();
    notes.retain(|note| known.insert(note.clone()));
    Comparison {
        id: plan.id.clone(),
        created: plan.created.clone(),
        tool: plan.tool.clone(),
        revisions: plan.revisions.clone(),
        baseline: plan.baseline,
        workspace: plan.workspace.clone(),
        environment: results.environment.clone(),
        has_own_settings: has_own_settings(&plan.request),
        random: plan.request.settings.random,
        search: search(results),
        metrics: metrics(&cells),
        traces: results.traces.clone(),
        runs: results.runs.clone(),
        not_measured: not_measured(results),
        added_tests: results.added_tests.clone(),
        failed_builds: results.failed_builds.clone(),
        cells,
        notes,
        same_code: results.same_code.clone(),
        lacks_tests: results.lacks_tests,
        selects_tests: plan.request.selects_tests(),
        is_shard: plan.request.shard.is_some(),
        allow: plan.request.judging.allow.clone(),
        unchecked,
        unchecked_notes: Vec::new(),
        unpaired_breaches: Vec::new(),
        differs: side_differences::of_all(results),
        axes: plan.request.axes.clone(),
        apart: apart(results),
    }
}

/// Whether anything but refs and tests was asked for that decides what is built and run.
fn has_own_settings(request: &Request) -> bool {
    !request.overlay.is_empty()
        || !request.overlay_patches.is_empty()
        || !request.checkpoints_at.is_empty()
        || request.build != BuildOptions::default()
        || !request.env.is_empty()
        || request.clean_env.is_some()
        || request.lockfile.is_some()
        || !request.settings.sparse_exclude.is_empty()
        || !request.with.is_empty()
        || request.refs.iter().any(side::has_settings)
}

/// Returns how `bisect` measures what the comparison did. A search does not put test files of one
/// revision into the others.
fn search(results: &Results) -> Option<SearchOptions> {
    let mut search = results.plan.search.clone()?;
    let overlay = |revision: usize| results.builds.get(&revision).map(|facts| facts.get(Fact::Overlay));
    search.candidates.retain(|&candidate| overlay(candidate) == overlay(results.plan.baseline));
    Some(search)
}

/// Returns which metrics cannot be compared, by revision.
fn apart(results: &Results) -> Vec<Vec<IncomparableMetrics>> {
    let baseline = results.builds.get(&results.plan.baseline);
    let of = |revision: usize| {
        let builds = baseline.zip(results.builds.get(&revision));
        let of_builds = builds.map(|(old, new)| comparability::of_builds(old, new));
        let of_machines = results.apart.get(&revision).cloned();
        of_builds.into_iter().chain(of_machines).flatten().collect()
    };
    (0..results.plan.revisions.len()).map(of).collect()
}

fn cells(results: &Results) -> Vec<Cell> {
    let indexed: Vec<(usize, &Run)> = results.runs.iter().enumerate().collect();
    // Runs are ordered by cell.
    let groups = indexed.chunk_by(|(_, a), (_, b)| a.record.cell == b.record.cell);
    let mut cells: Vec<Cell> = groups.map(|group| cell(results, group)).collect();
    let mut namesakes: HashMap<_, usize> = HashMap::new();
    for cell in &cells {
        *namesakes.entry((cell.id.title.clone(), cell.id.params.clone())).or_default() += 1;
    }
    for cell in &mut cells {
        cell.has_namesake = namesakes[&(cell.id.title.clone(), cell.id.params.clone())] > 1;
    }
    cells
}

fn cell(results: &Results, runs: &[(usize, &Run)]) -> Cell {
    let (revisions, baseline) = (results.plan.revisions.len(), results.plan.baseline);
    let id = runs[0].1.record.cell.clone();
    let mut labels = Names::default();
    let of = |revision| runs.iter().filter(move |(_, run)| run.record.revision == revision).copied();
    let mut sides: Vec<Aggregate> = (0..revisions)
        .map(|revision| Aggregate::new(&of(revision).collect::<Vec<_>>(), &mut labels))
        .collect();
    for (revision, added) in &results.added_tests {
        if let Some(side) = sides.get_mut(*revision) {
            side.is_added = added.iter().any(|added| added.has(&id.test));
        }
    }
    let pairs = (0..revisions)
        .filter(|&candidate| candidate != baseline)
        // Without a run on either side there is nothing to compare.
        .filter(|&candidate| {
            let mut own = [baseline, candidate].into_iter().filter(|&side| !sides[side].fails_as_added());
            let is_run = |run: &Run| {
                let status = &run.record.outcome.status;
                status.is_ok() || status.is_failure()
            };
            own.any(|side| of(side).any(|(_, run)| is_run(run)))
        })
        .map(|candidate| {
            let (old, new) = (&sides[baseline], &sides[candidate]);
            let whole =
                old.availability == Availability::Measured && new.availability == Availability::Measured;
            let renames = if whole { Renames::Unambiguous } else { Renames::Never };
            let rows = match_checkpoints(&old.keys, &new.keys, renames);
            let joined = if whole {
                JoinedIntervals::new(&rows, &old.keys, &new.keys)
            } else {
                JoinedIntervals::default()
            };
            Pair { candidate, rows, joined, judged: Vec::new(), breaches: Vec::new() }
        })
        .collect();
    let alone = (revisions == 1).then(|| alone(&sides[0]));
    Cell { id, has_namesake: false, labels, sides, pairs, origins: None, alone }
}

/// Returns a single revision against itself, with every checkpoint in a row.
fn alone(side: &Aggregate) -> Pair {
    let row = |index| Match { baseline: Some(index), candidate: Some(index) };
    let rows = (0..side.keys.len()).map(row).collect();
    let joined = JoinedIntervals::default();
    Pair { candidate: 0, rows, joined, judged: Vec::new(), breaches: Vec::new() }
}

/// Returns all metrics in the order of columns.
fn metrics(cells: &[Cell]) -> Vec<Metric> {
    let names = cells.iter().flat_map(|cell| &cell.sides).flat_map(Aggregate::metrics);
    let mut names: Vec<&str> = names.collect();
    names.sort_by_cached_key(|name| order(name));
    names.dedup();
    names.into_iter().map(|name| Metric { name: name.to_owned(), unit: Unit::of_metric(name) }).collect()
}

fn not_measured(results: &Results) -> Vec<(usize, NotMeasured)> {
    let all = results.not_measured.iter();
    all.flat_map(|(&revision, list)| list.iter().map(move |one| (revision, one.clone()))).collect()
}

/// Returns how the builds differ from the baseline's. What several candidates share is one note.
fn all_build_notes(results: &Results) -> Vec<String> {
    let plan = &results.plan;
    let mut candidates: IndexMap<String, Vec<&str>> = IndexMap::new();
    for candidate in (0..plan.revisions.len()).filter(|&revision| revision != plan.baseline) {
        for note in build_notes(results, candidate) {
            candidates.entry(note).or_default().push(&plan.revisions[candidate].name);
        }
    }
    let baseline = &plan.revisions[plan.baseline].name;
    let note = |(note, names): (String, Vec<&str>)| format!("{note} ({baseline} / {})", names.join(", "));
    candidates.into_iter().map(note).collect()
}

/// Returns how a candidate's build differs: `differs: toolchain 1.95.0 / 1.94.1`.
fn build_notes(results: &Results, candidate: usize) -> Vec<String> {
    let plan = &results.plan;
    let (Some(old), Some(new)) = (results.builds.get(&plan.baseline), results.builds.get(&candidate)) else {
        return Vec::new();
    };
    let has_packages = side_differences::moved(old, new).is_some_and(|moved| !moved.is_empty());
    let none = RefRequest::default();
    let [old_ref, new_ref] = [plan.baseline, candidate]
        .map(|index| plan.revisions[index].request_in(&plan.request).unwrap_or(&none));
    // The headline says what the user asked for.
    let is_asked = |fact: Fact| match fact {
        Fact::Lock => has_packages,
        Fact::Profile => old_ref.profile != new_ref.profile,
        Fact::Features => {
            let of = |one: &RefRequest| (one.features.clone(), one.no_default_features);
            of(old_ref) != of(new_ref)
        }
        _ => false,
    };
    let differing = old.differing(new, Purpose::Report).map(|(fact, _)| fact);
    differing
        .filter(|fact| !is_asked(*fact))
        .map(|fact| {
            let [old, new] = [old, new].map(|facts| facts.get(fact).map_or("none", short_fact));
            format!("differs: {} {old} / {new}", fact.name())
        })
        .collect()
}

/// Shortens a hash to its first digits.
fn short_fact(value: &str) -> &str {
    let is_hash = value.len() >= 32 && value.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_hash {
        &value[..12]
    } else if value.is_empty() {
        "none"
    } else {
        value
    }
}

/// Returns the notes about logs. A note that several runs share appears once.
fn log_notes(results: &Results) -> Vec<String> {
    let mut runs_by_note: BTreeMap<&str, Vec<&Run>> = BTreeMap::new();
    for run in &results.runs {
        for note in &run.measurement.notes {
            runs_by_note.entry(note).or_default().push(run);
        }
    }
    let note = |(note, runs): (&str, Vec<&Run>)| {
        let others = match runs.len() {
            1 => String::new(),
            count => format!(" and {} more", count - 1),
        };
        format!("{}{others}: {note}", runs[0].folder)
    };
    runs_by_note.into_iter().map(note).collect()
}

/// Merges two runs of the tool, so that they can be compared. The baseline is the first one's; all
/// other revisions are candidates. The rules are those of the second run, and so is the day on which they apply. The
/// metrics asked for are those of both.
/// Names that both runs use get the prefixes `a:` and `b:`. A test that only one run has is absent in the other's
/// revisions, if both ran all tests that they select, and select the same.
pub fn merge(mut a: Results, mut b: Results) -> Results {
    absent_tests::add(&mut a, &mut b);
    let offset = a.plan.revisions.len();
    let lacks_tests = [&a, &b]
        .into_iter()
        .any(|run| run.lacks_tests || !run.same_code.is_empty() || run.plan.request.shard.is_some());
    let mut plan = a.plan;
    let names: Vec<String> = plan.revisions.iter().map(|revision| revision.name.clone()).collect();
    let mut revisions_of_b = b.plan.revisions;
    for revision in &mut revisions_of_b {
        if let Some(position) = names.iter().position(|name| *name == revision.name) {
            plan.revisions[position].name = format!("a:{}", revision.name);
            revision.name = format!("b:{}", revision.name);
        }
    }
    plan.revisions.extend(revisions_of_b);
    // The axes of one run do not make the revisions of both.
    plan.search = None;
    plan.request.axes.clear();
    let has_other_rules = !have_same_rules(&plan.request.judging, &b.plan.request.judging);
    let rules = format!("judged by the rules of {}: those of {} differ", b.plan.id, plan.id);
    let judging_of_a = mem::replace(&mut plan.request.judging, b.plan.request.judging);
    // An entry of `allow` expires by the day of the run that it comes from.
    plan.created = b.plan.created;
    let asked = &mut plan.request.judging.asked;
    let only_of_a: Vec<String> =
        judging_of_a.asked.into_iter().filter(|metric| !asked.contains(metric)).collect();
    asked.extend(only_of_a);
    plan.request.derived.extend(b.plan.request.derived);
    plan.notes.extend(b.plan.notes);
    let mut notes = a.notes;
    notes.extend(b.notes);
    notes.extend(has_other_rules.then_some(rules));
    notes.extend(environment_notes(&a.environment, &b.environment));
    notes.extend([(&plan.id, &a.same_code), (&b.plan.id, &b.same_code)].into_iter().filter_map(not_run));
    let apart = comparability::of_machines(&a.environment, &b.environment);
    let mut builds: Builds = a.builds;
    builds.extend(b.builds.into_iter().map(|(revision, facts)| (revision + offset, facts)));
    let mut not_measured = a.not_measured;
    not_measured.extend(b.not_measured.into_iter().map(|(revision, list)| (revision + offset, list)));
    // Folders become relative to the folder that holds both runs of the tool.
    let of_a = a.runs.into_iter().map(|run| Run { folder: Utf8Path::new(&plan.id).join(&run.folder), ..run });
    let of_b = b.runs.into_iter().map(|mut run| {
        run.record.revision += offset;
        Run { folder: Utf8Path::new(&b.plan.id).join(&run.folder), ..run }
    });
    let runs = of_a.chain(of_b).collect();
    let apart = (offset..plan.revisions.len()).map(|revision| (revision, apart.clone())).collect();
    plan.id = format!("{} / {}", plan.id, b.plan.id);
    let mut added_tests = a.added_tests;
    added_tests.extend(b.added_tests.into_iter().map(|(revision, list)| (revision + offset, list)));
    let mut failed_builds = a.failed_builds;
    failed_builds.extend(b.failed_builds.into_iter().map(|(revision, failed)| (revision + offset, failed)));
    let mut traces = a.traces;
    traces.extend(b.traces.into_iter().map(|(revision, facts)| (revision + offset, facts)));
    let environment = json!({ "a": a.environment, "b": b.environment });
    let mut merged = Results {
        plan,
        environment,
        builds,
        not_measured,
        added_tests,
        failed_builds,
        traces,
        runs,
        notes,
        same_code: Vec::new(),
        lacks_tests,
        apart,
        saved_baseline: None,
    };
    merged.sort();
    merged
}

/// Whether both judge a metric alike. The metrics that were asked for, and where a budget is written, do not matter.
fn have_same_rules(a: &Judging, b: &Judging) -> bool {
    let budget = |judging: &Judging| -> Option<Vec<BudgetLimit>> {
        let without_line = |limit: &BudgetLimit| BudgetLimit { line: 0, ..limit.clone() };
        Some(judging.budget.as_ref()?.limits.iter().map(without_line).collect())
    };
    (&a.rules, &a.allow, &a.noise) == (&b.rules, &b.allow, &b.noise) && budget(a) == budget(b)
}

/// Returns the note about tests that a run left out because its own revisions had the same code.
fn not_run((run, same_code): (&String, &Vec<SameCode>)) -> Option<String> {
    let words = SameCode::words(same_code)?;
    Some(format!("not run in {run}: {words} (--run-all runs them)"))
}

fn environment_notes(a: &Value, b: &Value) -> Vec<String> {
    let (mut of_a, mut of_b) = (BTreeMap::new(), BTreeMap::new());
    facts(a, "", &mut of_a);
    facts(b, "", &mut of_b);
    let differing = of_a.iter().filter_map(|(name, a)| {
        let b = of_b.get(name)?;
        (a != b).then(|| format!("differs: {name} {a} / {b} (first / second run)"))
    });
    let mut notes: Vec<String> = differing.collect();
    if notes.len() > MOST_ENVIRONMENT_NOTES {
        let left_out = notes.len() - MOST_ENVIRONMENT_NOTES;
        notes.truncate(MOST_ENVIRONMENT_NOTES);
        notes.push(format!("differs: {left_out} more environment facts"));
    }
    notes
}

/// Collects the scalars of a JSON value by their dotted names.
fn facts(value: &Value, name: &str, into: &mut BTreeMap<String, String>) {
    let below = |key: &str| if name.is_empty() { key.to_owned() } else { format!("{name}.{key}") };
    match value {
        Value::Object(entries) => entries.iter().for_each(|(key, value)| facts(value, &below(key), into)),
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(index, item)| facts(item, &below(&index.to_string()), into));
        }
        Value::Null => {}
        Value::String(text) => drop(into.insert(name.to_owned(), text.clone())),
        other => drop(into.insert(name.to_owned(), other.to_string())),
    }
}
