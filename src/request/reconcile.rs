//! Puts flags and memprof.yaml together into a request. Flags win.
//!
//! A list of flags replaces the list of the file. Mappings (`env`, `params`, `thresholds`) are
//! merged by name. `--skip`, `--exclude` and the selecting flags narrow what the file selects.
//! `docs/matrix.md` has the rule for each key.

use std::collections::{BTreeSet, HashSet};

use crate::arguments::presentation::PresentationArguments;
use crate::arguments::request::{RequestArguments, SelectionArguments};
use crate::request::axes::{self, CommonFlags};
use crate::request::cargo_options::build_options;
use crate::request::judging::judging;
use crate::request::overlay_paths;
use crate::request::programs;
use crate::request::refs::{RefsNeeded, against_itself, baseline, enough, ref_name, ref_request, refs};
use crate::request::side_paths::located;
use crate::request::sides::{self as sided_flags, SidedFlags};
use crate::request::surroundings::Surroundings;
use memprof_judge::verdict::significance::ENOUGH;
use memprof_plan::axes::SidesOfRefs;
use memprof_plan::axis_labels::AxisLabels;
use memprof_plan::clean_env::CleanEnv;
use memprof_plan::config::keep::{kept, text};
use memprof_plan::config::mapping::Mapping as _;
use memprof_plan::config::matrix::{CellEntry, LockfileEntry, Matrix, TestEntry, TraceEntry};
use memprof_plan::config::values::{CallLimit, LockfileDate};
use memprof_plan::config::yaml::{List, Scalar};
use memprof_plan::dependency_change::DependencyChange;
use memprof_plan::jobs::Jobs;
use memprof_plan::metric;
use memprof_plan::metric_family::MetricGroup;
use memprof_plan::repeat::Repeat;
use memprof_plan::request::{
    BaselineRequest, CellPattern, Ignored, LockfileRequest, RefRequest, Request, Selection, TestRequest,
    TraceRequest,
};
use memprof_plan::rule::Rule;
use memprof_plan::settings::RunSettings;
use memprof_support::user_error::UserError;

/// Returns the request that flags and memprof.yaml make together.
///
/// # Errors
///
/// Flags and keys that contradict each other, too few refs, and paths that do not exist.
pub fn reconcile(
    arguments: &RequestArguments,
    matrix: &Matrix,
    surroundings: Surroundings<'_>,
    needed: RefsNeeded,
) -> Result<Request, UserError> {
    let flags = SidedFlags::from_arguments(arguments)?;
    let arguments = &flags.common;
    let file = matrix;
    let matrix = &with_flags(arguments, file);
    let written = refs(arguments, matrix, surroundings)?;
    let compared = written.clone();
    let Sides { refs, baseline, axes, of_refs } = sides(written, &flags, matrix, surroundings, needed)?;
    let mut request = Request {
        has_other_revisions: false,
        refs: enough(refs, &baseline, needed)?,
        baseline,
        aa: arguments.refs.aa,
        noise_file: None,
        axes,
        settings: RunSettings::from(matrix),
        tests: tests(arguments, matrix, surroundings)?,
        overlay: overlay_paths::overlay(&arguments.checkout, matrix, surroundings)?,
        overlay_patches: overlay_paths::patches(&arguments.checkout, matrix, surroundings)?,
        checkpoints_at: overlay_paths::checkpoints(&arguments.settings, file, surroundings)?,
        no_auto_overlay: arguments.checkout.no_auto_overlay || matrix.auto_overlay == Some(Scalar(false)),
        build: build_options(&arguments.build, matrix, surroundings)?,
        with: with(&flags, matrix, surroundings),
        env: kept(matrix.env.as_ref()),
        clean_env: clean_env(&arguments.settings, file)?,
        exclude: excluded(file, &compared)
            .chain(cell_patterns(arguments.settings.exclude.as_ref()))
            .collect(),
        include: cell_patterns(matrix.include.as_ref()).collect(),
        judging: judging(&arguments.judging, matrix)?,
        on_request: Vec::new(),
        derived: Vec::new(),
        lockfile: lockfile(&arguments.checkout.lockfile).or_else(|| lockfile(matrix.lockfile.as_ref()?)),
        trace: trace(&arguments.trace, matrix.trace.as_ref())?,
        shard: None,
        alone_for: None,
        typed_names: false,
        builds_all: false,
    };
    request.build.jobs = arguments.build.jobs(&arguments.settings);
    if request.settings.delay_milliseconds.is_some() {
        if ![Jobs::ONE, Jobs::default()].contains(&request.settings.jobs) {
            return Err(UserError::new("--delay pauses between two tests, and --jobs runs several at once")
                .help("leave out --delay, or add --jobs 1"));
        }
        request.settings.jobs = Jobs::ONE;
    }
    if arguments.refs.aa {
        fix_repeats(&mut request);
    }
    // A variable of the command line wins everywhere, also over the `env` of a ref or a test.
    let given: HashSet<&String> = arguments.environment.env.iter().map(|variable| &variable.name).collect();
    let narrower = request.refs.iter_mut().map(|one| &mut one.env);
    for env in narrower.chain(request.tests.iter_mut().map(|one| &mut one.env)) {
        env.retain(|name, _| !given.contains(name));
    }
    let given = arguments.environment.env.iter();
    request.env.extend(given.map(|variable| (variable.name.clone(), variable.value.clone())));
    for name in sided_flags::variables(&flags) {
        request.tests.iter_mut().for_each(|test| drop(test.env.remove(name)));
    }
    axes::name_sides(&mut request, &of_refs);
    of_refs.check_distinct(&request)?;
    Ok(request)
}

/// Returns what the file says, with the flags that set its keys in place of its values.
fn with_flags(arguments: &RequestArguments, file: &Matrix) -> Matrix {
    let mut file = file.clone();
    // What is built is one choice of two keys.
    if arguments.settings.packages.is_some() || arguments.settings.workspace.is_some() {
        (file.packages, file.workspace) = (None, None);
    }
    let mut merged = arguments.settings.0.clone();
    merged.fill(file);
    merged
}

/// What is compared: the refs, or the sides that axes make of them.
struct Sides {
    refs: Vec<RefRequest>,
    baseline: BaselineRequest,
    axes: Vec<AxisLabels>,
    of_refs: SidesOfRefs,
}

/// Gives the refs the settings of flags, and makes their sides. Flags for one side are about a ref, all
/// of whose sides get them.
fn sides(
    mut refs: Vec<RefRequest>,
    flags: &SidedFlags,
    matrix: &Matrix,
    surroundings: Surroundings<'_>,
    needed: RefsNeeded,
) -> Result<Sides, UserError> {
    let arguments = &flags.common;
    let mut baseline = baseline(text(matrix.baseline.as_ref()));
    // The key is for comparisons of refs, and one ref has no merge base. The flag is for this call.
    let has_no_baseline =
        (baseline == BaselineRequest::MergeBase && refs.len() < 2) || arguments.settings.pairs.is_some();
    if has_no_baseline && arguments.settings.baseline.is_none() {
        baseline = BaselineRequest::First;
    }
    let written = matrix.axes.as_ref().filter(|_| needed.takes_axes());
    let axes = axes::axes(written, &CommonFlags { arguments, with: &flags.with }, surroundings)?;
    if refs.is_empty() && written.is_some() {
        refs.push(RefRequest { spec: ".".to_owned(), ..RefRequest::default() });
    }
    let (mut baseline, combination) = axes.baseline_of(&refs, &baseline)?;
    flags.apply(&mut refs, &baseline, surroundings)?;
    let of_refs = axes.expand(&mut refs, &mut baseline, combination)?;
    if arguments.refs.aa {
        let refs = against_itself(refs, &baseline)?;
        return Ok(Sides { refs, baseline: BaselineRequest::First, axes: Vec::new(), of_refs });
    }
    Ok(Sides { refs, baseline, axes: axes.labels(), of_refs })
}

/// Returns the dependencies that every ref gets, of the flags or else of memprof.yaml.
fn with(flags: &SidedFlags, matrix: &Matrix, surroundings: Surroundings<'_>) -> Vec<DependencyChange> {
    let (written, base) = if flags.with.is_empty() {
        (kept(matrix.with.as_ref()), surroundings.matrix)
    } else {
        (flags.with.clone(), surroundings.current)
    };
    written.into_iter().map(|change| located(change, base)).collect()
}

/// Gives every test the same number of runs. Noise is measured with a fixed number, because `auto`
/// would stop too early.
fn fix_repeats(request: &mut Request) {
    let times = request.tests.iter().filter_map(|test| test.repeat).chain([request.settings.repeat]);
    let most = times.filter_map(|repeat| if let Repeat::Times(times) = repeat { Some(times) } else { None });
    request.settings.repeat = Repeat::Times(most.max().unwrap_or(ENOUGH));
    request.tests.iter_mut().for_each(|test| test.repeat = None);
}

/// Returns the metrics to read on request: those that are shown or judged.
pub fn on_request(shown: &[String], rules: &[Rule]) -> Vec<String> {
    metric::on_request(shown.iter().chain(rules.iter().map(|rule| &rule.metric)).map(String::as_str))
}

/// Adds the groups of the shown metrics to those that are read at traced calls, if the user chose no
/// groups. `time` of a test is read anyway, and costs nothing at a call that is not traced.
pub fn trace_shown(request: &mut TraceRequest, shown: &[String]) {
    if request.is_empty() || !request.columns.is_empty() {
        return;
    }
    let usual = [MetricGroup::Heap, MetricGroup::Gpu];
    let asked: BTreeSet<MetricGroup> = shown.iter().filter_map(|one| MetricGroup::of(one)).collect();
    if asked.iter().any(|column| !usual.contains(column)) {
        request.columns = asked.into_iter().chain(usual).collect::<BTreeSet<_>>().into_iter().collect();
    }
}

/// Returns the metrics to show, of the flags or else of memprof.yaml. An empty list means the
/// default metrics.
pub fn metrics(arguments: &PresentationArguments, matrix: &Matrix) -> Vec<String> {
    if arguments.settings.metrics.is_some() || arguments.all {
        return arguments.metrics();
    }
    kept(matrix.metrics.as_ref())
}

fn tests(
    arguments: &RequestArguments,
    matrix: &Matrix,
    surroundings: Surroundings<'_>,
) -> Result<Vec<TestRequest>, UserError> {
    let flags = &arguments.selection;
    let narrowing = selection_of_flags(flags);
    let selects = flags.names.filter.is_some() || flags.names.regex.is_some() || flags.names.exact.is_some();
    let entries = matrix.tests.iter().flat_map(|List(entries)| entries);
    let tests = entries.map(|entry| test_request(entry, surroundings)).collect();
    let mut tests = programs::chosen(&arguments.build, tests, surroundings)?;
    if tests.is_empty() {
        tests.push(TestRequest { selection: narrowing, ..TestRequest::default() });
    } else {
        for test in &mut tests {
            if narrowing.ignored != Ignored::Skip {
                test.selection.ignored = narrowing.ignored;
            }
            if narrowing != Selection::default() {
                test.selection.within = Some(Box::new(narrowing.clone()));
            }
        }
        // Tests that the flags select run even if no entry of the file selects them.
        if selects && !arguments.build.names_program() {
            tests.push(TestRequest { selection: narrowing, rest: true, ..TestRequest::default() });
        }
    }
    for test in &mut tests {
        for parameter in &arguments.params {
            test.params.insert(parameter.name.clone(), parameter.values.clone());
        }
        if arguments.settings.repeat.is_some() {
            test.repeat = None;
        }
        if arguments.settings.timeout.is_some() {
            test.timeout_seconds = None;
        }
    }
    Ok(tests)
}

fn selection_of_flags(flags: &SelectionArguments) -> Selection {
    let ignored = match (flags.ignored, flags.include_ignored) {
        (true, _) => Ignored::Only,
        (_, true) => Ignored::Include,
        _ => Ignored::Skip,
    };
    Selection { ignored, ..selection(&flags.names) }
}

fn selection(entry: &TestEntry) -> Selection {
    Selection {
        expression: kept(entry.filter.as_ref()),
        regex: kept(entry.regex.as_ref()),
        exact: kept(entry.exact.as_ref()),
        skip: kept(entry.skip.as_ref()),
        ignored: kept(entry.ignored.as_ref()),
        package: kept(entry.package.as_ref()),
        kind: kept(entry.kind.as_ref()),
        within: None,
    }
}

fn test_request(entry: &TestEntry, surroundings: Surroundings<'_>) -> TestRequest {
    TestRequest {
        name: kept(entry.name.as_ref()),
        selection: selection(entry),
        program: programs::of_entry(entry, surroundings),
        env: kept(entry.env.as_ref()),
        features: kept(entry.features.as_ref()),
        params: kept(entry.params.as_ref()),
        timeout_seconds: kept(entry.timeout.as_ref()),
        repeat: kept(entry.repeat.as_ref()),
        devices: kept(entry.device.as_ref()),
        rest: false,
    }
}

/// Returns the cells that the file excludes, without entries for refs of the file that `--refs`
/// does not compare.
fn excluded<'a>(matrix: &'a Matrix, compared: &[RefRequest]) -> impl Iterator<Item = CellPattern> + use<'a> {
    let names = |one: &RefRequest| [ref_name(one).to_owned(), one.spec.clone()];
    let of_matrix = matrix.refs.iter().flat_map(|List(entries)| entries);
    let of_matrix: HashSet<String> = of_matrix.map(ref_request).flat_map(|one| names(&one)).collect();
    let compared: HashSet<String> = compared.iter().flat_map(names).collect();
    cell_patterns(matrix.exclude.as_ref()).filter(move |pattern| {
        pattern.r#ref.as_ref().is_none_or(|name| compared.contains(name) || !of_matrix.contains(name))
    })
}

fn cell_patterns(entries: Option<&List<CellEntry>>) -> impl Iterator<Item = CellPattern> + '_ {
    entries.into_iter().flat_map(|List(entries)| entries).map(|entry| CellPattern {
        r#ref: kept(entry.r#ref.as_ref()),
        test: kept(entry.test.as_ref()),
        params: kept(entry.params.as_ref()),
    })
}

fn lockfile(entry: &LockfileEntry) -> Option<LockfileRequest> {
    let from = kept::<_, Option<String>>(entry.from.as_ref()).map(LockfileRequest::From);
    from.or_else(|| entry.date.as_ref().map(|Scalar(LockfileDate(date))| date.clone()))
}

/// Returns which variables builds and tests inherit; `None` means all.
///
/// memprof.yaml comes from the code that is measured. So if the command line asks for a clean
/// environment, the file cannot keep more variables.
fn clean_env(flags: &Matrix, file: &Matrix) -> Result<Option<CleanEnv>, UserError> {
    let of_file = if flags.clean_env.is_some() { None } else { file.keep_env.as_ref() };
    let keep: Vec<String> = kept(flags.keep_env.as_ref().or(of_file));
    if kept(flags.clean_env.as_ref()) || kept(file.clean_env.as_ref()) {
        return Ok(Some(CleanEnv { keep }));
    }
    match keep.first() {
        None => Ok(None),
        Some(name) => {
            Err(UserError::new(format!("keep-env {name} without clean-env: all variables are kept"))
                .help(format!("to keep only known variables and this one: --clean-env --keep-env '{name}'")))
        }
    }
}

/// The default of `--max-events`: enough for the layers of a model, and few enough for a table.
const MAX_EVENTS: u64 = 100;

fn trace(flags: &TraceEntry, entry: Option<&TraceEntry>) -> Result<TraceRequest, UserError> {
    let mut entry = entry.cloned().unwrap_or_default();
    // Patterns of the command line replace all patterns of the file.
    if flags.functions.is_some() || flags.lines.is_some() {
        (entry.functions, entry.lines) = (None, None);
    }
    let mut merged = flags.clone();
    merged.fill(entry);
    let periods = merged.every.as_ref().map(|Scalar(periods)| periods);
    let request = TraceRequest {
        functions: kept(merged.functions.as_ref()),
        lines: kept(merged.lines.as_ref()),
        max_events: merged.max_events.as_ref().map_or(MAX_EVENTS, |Scalar(CallLimit(events))| *events),
        every: periods.and_then(|periods| periods.others).unwrap_or(1),
        every_of: periods.iter().flat_map(|periods| &periods.of_patterns).map(ToString::to_string).collect(),
        lines_per_call: kept(merged.lines_per_call.as_ref()),
        columns: kept(merged.columns.as_ref()),
    };
    if request.is_empty() {
        let lost = [
            (flags.max_events.is_some(), "--max-events"),
            (flags.every.is_some(), "--trace-every"),
            (flags.lines_per_call.is_some(), "--lines-per-call"),
            (flags.columns.is_some(), "--columns"),
        ];
        if let Some((_, flag)) = lost.iter().find(|(is_given, _)| *is_given) {
            return Err(UserError::new(format!("{flag} needs functions to trace"))
                .help("name some: --trace 'crate::**::forward'"));
        }
        return Ok(TraceRequest::default());
    }
    Ok(request)
}

#[cfg(test)]
mod tests {
    use MetricGroup::{Gpu, Heap, Time};

    use super::*;

    #[test]
    fn the_shown_metrics_are_read_at_traced_calls() {
        let columns = |of: &[&str], shown: &[&str], chosen: &[MetricGroup]| {
            let functions = of.iter().map(|&pattern| pattern.to_owned()).collect();
            let mut request = TraceRequest { functions, columns: chosen.to_vec(), ..TraceRequest::default() };
            let shown: Vec<String> = shown.iter().map(|&metric| metric.to_owned()).collect();
            trace_shown(&mut request, &shown);
            request.columns
        };
        assert_eq!(columns(&["a::b"], &["heap.live", "time"], &[]), [Gpu, Heap, Time]);
        // Heap and GPUs are read anyway, and the user's own choice stays.
        assert_eq!(columns(&["a::b"], &["heap.live", "gpu.0.*"], &[]), []);
        assert_eq!(columns(&["a::b"], &["time"], &[Heap]), [Heap]);
        assert_eq!(columns(&[], &["time"], &[]), []);
    }
}
