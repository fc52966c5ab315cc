//! Puts the flags and `memprof.yaml` together into a request: flags win. Pure; nothing is looked up but whether a path of an
//! overlay exists.
//!
//! A list given by flags takes the place of the matrix's list; mappings (`env`, `params`, `thresholds`) are merged name by
//! name; `--skip`, `--exclude` and the selecting flags narrow what the matrix selects. `docs/matrix.md` says it key by key.

use std::collections::BTreeMap;

use camino::Utf8Path;
use indexmap::IndexMap;

use crate::cli::arguments::{
    BuildArguments, JudgingArguments, PresentationArguments, RequestArguments, SelectionArguments,
    TraceArguments,
};
use crate::cli::overlay_paths;
use crate::config::mapping::OpenMapping;
use crate::config::matrix::{
    AllowEntry, CellEntry, DeviceNames, LockfileEntry, Matrix, MetricName, RefEntry, Rules, TestEntry,
    ThresholdEntry, TraceEntry,
};
use crate::config::values::{CallLimit, Day, Parsed, RegularExpression, RepeatCount, Seconds, Value};
use crate::config::yaml::{List, Scalar};
use crate::plan::metric;
use crate::plan::repeat::Repeat;
use crate::plan::request::{
    BaselineRequest, BuildOptions, CellPattern, Ignored, LockfileRequest, RefRequest, Request, Selection,
    TestRequest, TraceRequest,
};
use crate::plan::rule::{Growth, Judging, Rule};
use crate::plan::trace_pattern::TracePattern;
use crate::support::suggest;
use crate::support::user_error::UserError;
use crate::verdict::significance::ENOUGH;

/// What the request depends on beside flags and matrix. Paths are absolute.
#[derive(Clone, Copy)]
pub struct Surroundings<'a> {
    /// The root of the user's working tree.
    pub repository: &'a Utf8Path,
    /// The folder that the user stands in; paths in flags are relative to it.
    pub current: &'a Utf8Path,
    /// The folder of the matrix; paths in it are relative to that.
    pub matrix: &'a Utf8Path,
    /// Whether there is such a file or folder.
    pub exists: &'a dyn Fn(&Utf8Path) -> bool,
}

/// How many refs a command needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefsNeeded {
    /// Two or more, to compare.
    Comparison,
    /// Any number; none means the working tree.
    Any,
}

/// The request that flags and matrix make together.
pub fn reconcile(
    arguments: &RequestArguments,
    matrix: &Matrix,
    surroundings: Surroundings<'_>,
    needed: RefsNeeded,
) -> Result<Request, UserError> {
    let cells = &arguments.cells;
    let mut refs = refs(arguments, matrix)?;
    let compared = refs.clone();
    let mut baseline = baseline(arguments.refs.baseline.as_deref().or(text(matrix.baseline.as_ref())));
    if arguments.refs.aa {
        refs = against_itself(refs, &baseline)?;
        baseline = BaselineRequest::First;
    }
    let mut request = Request {
        refs: enough(refs, &baseline, needed)?,
        baseline,
        remote: arguments.refs.remote.clone().or_else(|| text(matrix.remote.as_ref()).map(str::to_owned)),
        refspecs: named(matrix.refspecs.as_ref(), |pattern| pattern.0.0.clone()),
        tests: tests(arguments, matrix),
        overlay: overlay_paths::overlay(&arguments.checkout, matrix, surroundings)?,
        build: build(&arguments.build, matrix, surroundings)?,
        env: environment(matrix.env.as_ref()),
        exclude: excluded(matrix, &compared).chain(cells.exclude.iter().cloned()).collect(),
        include: if cells.include.is_empty() {
            cell_patterns(matrix.include.as_ref()).collect()
        } else {
            cells.include.clone()
        },
        repeat: cells
            .repeat
            .or(matrix.repeat.as_ref().map(|Scalar(RepeatCount(count))| *count))
            .unwrap_or_default(),
        timeout_seconds: cells.timeout.or(matrix.timeout.as_ref().map(|Scalar(Seconds(seconds))| *seconds)),
        judging: judging(arguments, matrix)?,
        on_request: Vec::new(),
        lockfile: lockfile(arguments, matrix.lockfile.as_ref()),
        sparse_exclude: list(&arguments.checkout.sparse_exclude, matrix.sparse_exclude.as_ref()),
        trace: trace(&arguments.trace, matrix.trace.as_ref())?,
    };
    if arguments.refs.aa {
        // How much something varies is not seen by stopping as soon as that is clear.
        let times = request.tests.iter().filter_map(|test| test.repeat).chain([request.repeat]);
        let most =
            times.filter_map(|repeat| if let Repeat::Times(times) = repeat { Some(times) } else { None });
        request.repeat = Repeat::Times(most.max().unwrap_or(ENOUGH));
        request.tests.iter_mut().for_each(|test| test.repeat = None);
    }
    for variable in &cells.env {
        // What is set on the command line holds everywhere: nothing more particular may win over it.
        let particular = request.refs.iter_mut().map(|one| &mut one.env);
        for env in particular.chain(request.tests.iter_mut().map(|one| &mut one.env)) {
            env.remove(&variable.name);
        }
        request.env.insert(variable.name.clone(), variable.value.clone());
    }
    Ok(request)
}

/// What must be read on request, so that it can be shown and judged.
pub fn on_request(shown: &[String], rules: &[Rule]) -> Vec<String> {
    metric::on_request(shown.iter().chain(rules.iter().map(|rule| &rule.metric)).map(String::as_str))
}

/// The metrics to show: the flags', else the matrix's; none for the default ones.
pub fn metrics(arguments: &PresentationArguments, matrix: &Matrix) -> Vec<String> {
    if !arguments.metrics.is_empty() || arguments.all {
        return arguments.metrics.clone();
    }
    matrix.metrics.iter().flat_map(|List(names)| names).map(|Scalar(MetricName(name))| name.clone()).collect()
}

fn text(value: Option<&Scalar<String>>) -> Option<&str> {
    value.map(|Scalar(value)| value.as_str())
}

fn texts(values: Option<&List<Scalar<String>>>) -> Vec<String> {
    values.iter().flat_map(|List(values)| values).map(|Scalar(value)| value.clone()).collect()
}

fn list(flags: &[String], key: Option<&List<Scalar<String>>>) -> Vec<String> {
    if flags.is_empty() { texts(key) } else { flags.to_vec() }
}

fn named<T, U>(values: Option<&OpenMapping<T>>, convert: impl Fn(&T) -> U) -> IndexMap<String, U> {
    values
        .iter()
        .flat_map(|OpenMapping(values)| values)
        .map(|(name, value)| (name.clone(), convert(value)))
        .collect()
}

fn environment(values: Option<&OpenMapping<Scalar<Value>>>) -> BTreeMap<String, String> {
    named(values, |Scalar(Value(value))| value.clone()).into_iter().collect()
}

fn flag(flag: bool, key: Option<&Scalar<bool>>) -> bool {
    flag || key == Some(&Scalar(true))
}

fn refs(arguments: &RequestArguments, matrix: &Matrix) -> Result<Vec<RefRequest>, UserError> {
    let mut refs = if arguments.refs.refs.is_empty() {
        matrix.refs.iter().flat_map(|List(entries)| entries).map(ref_request).collect()
    } else {
        arguments.refs.refs.clone()
    };
    // A ref against itself (A/A) needs two names, and the user should not have to think of them.
    for index in 1..refs.len() {
        let (before, rest) = refs.split_at_mut(index);
        let taken = |name: &str| before.iter().any(|other| ref_name(other) == name);
        let name = ref_name(&rest[0]).to_owned();
        if !taken(&name) {
            continue;
        }
        if rest[0].name.is_some() {
            return Err(UserError::new(format!("two refs are named '{name}'"))
                .help("names in the report must differ"));
        }
        // As many names as there are refs: one of them is free.
        rest[0].name = (2..=index + 2).map(|count| format!("{name} ({count})")).find(|name| !taken(name));
    }
    Ok(refs)
}

/// The baseline twice.
fn against_itself(refs: Vec<RefRequest>, baseline: &BaselineRequest) -> Result<Vec<RefRequest>, UserError> {
    let one = match baseline {
        BaselineRequest::First => refs.into_iter().next(),
        BaselineRequest::Ref(name) => {
            let known = refs.into_iter().find(|one| ref_name(one) == name || one.spec == *name);
            known.or_else(|| Some(RefRequest { spec: name.clone(), ..RefRequest::default() }))
        }
        BaselineRequest::MergeBase => {
            return Err(UserError::new("--aa needs one baseline, and merge-base depends on the refs")
                .help("name it: --aa --baseline main"));
        }
    };
    let one =
        one.ok_or_else(|| UserError::new("no ref to run against itself").help("write --aa --refs main"))?;
    let again = RefRequest { name: Some(format!("{} (2)", ref_name(&one))), ..one.clone() };
    Ok(vec![one, again])
}

fn ref_name(reference: &RefRequest) -> &str {
    reference.name.as_deref().unwrap_or(&reference.spec)
}

fn ref_request(entry: &RefEntry) -> RefRequest {
    RefRequest {
        spec: text(entry.spec.as_ref()).unwrap_or_default().to_owned(),
        name: text(entry.name.as_ref()).map(str::to_owned),
        features: texts(entry.features.as_ref()),
        env: environment(entry.env.as_ref()),
        toolchain: text(entry.toolchain.as_ref()).map(str::to_owned),
    }
}

fn baseline(named: Option<&str>) -> BaselineRequest {
    match named {
        None => BaselineRequest::First,
        Some("merge-base") => BaselineRequest::MergeBase,
        Some(name) => BaselineRequest::Ref(name.to_owned()),
    }
}

/// The refs, if they are as many as the command needs.
fn enough(
    mut refs: Vec<RefRequest>,
    baseline: &BaselineRequest,
    needed: RefsNeeded,
) -> Result<Vec<RefRequest>, UserError> {
    let beside = match baseline {
        BaselineRequest::Ref(name) => !refs.iter().any(|one| ref_name(one) == name || one.spec == *name),
        BaselineRequest::First | BaselineRequest::MergeBase => false,
    };
    let count = refs.len() + usize::from(beside);
    match (needed, count) {
        (RefsNeeded::Any, 0) => refs.push(RefRequest { spec: ".".to_owned(), ..RefRequest::default() }),
        (RefsNeeded::Comparison, 0) => {
            return Err(UserError::new("no refs to compare").help(
                "name them, `cargo memprof --refs main,.` (`.` is the working tree, pr/7 a pull request),\n\
                 or write them into memprof.yaml; `cargo memprof init` begins one",
            ));
        }
        (RefsNeeded::Comparison, 1) => {
            let only = refs.first().map_or_else(|| "the baseline", |one| one.spec.as_str());
            return Err(UserError::new(format!("only one ref, {only}: a comparison needs two")).help(
                format!(
                    "write --refs main,{only} or --baseline main (twice the same is fine, it shows the noise);\n\
                     --view scopes and --view top need no more than one"
                ),
            ));
        }
        _ => {}
    }
    Ok(refs)
}

fn tests(arguments: &RequestArguments, matrix: &Matrix) -> Vec<TestRequest> {
    let flags = &arguments.selection;
    let narrowing = selection_of_flags(flags);
    let selects = flags.filter.is_some() || flags.regex.is_some() || !flags.exact.is_empty();
    let mut tests: Vec<TestRequest> =
        matrix.tests.iter().flat_map(|List(entries)| entries).map(test_request).collect();
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
        // What the flags select runs, whether the matrix speaks of it or not.
        if selects {
            tests.push(TestRequest { selection: narrowing, rest: true, ..TestRequest::default() });
        }
    }
    for test in &mut tests {
        for parameter in &arguments.cells.params {
            test.params.insert(parameter.name.clone(), parameter.values.clone());
        }
        if arguments.cells.repeat.is_some() {
            test.repeat = None;
        }
        if arguments.cells.timeout.is_some() {
            test.timeout_seconds = None;
        }
    }
    tests
}

fn selection_of_flags(flags: &SelectionArguments) -> Selection {
    Selection {
        expression: flags.filter.as_ref().map(|expression| expression.text.clone()),
        regex: flags.regex.as_ref().map(|RegularExpression(pattern)| pattern.clone()),
        exact: flags.exact.clone(),
        skip: flags.skip.clone(),
        ignored: match (flags.ignored, flags.include_ignored) {
            (true, _) => Ignored::Only,
            (_, true) => Ignored::Include,
            _ => Ignored::Skip,
        },
        ..Selection::default()
    }
}

fn test_request(entry: &TestEntry) -> TestRequest {
    TestRequest {
        name: entry.name.as_ref().map(|Scalar(name)| name.text.clone()),
        selection: Selection {
            expression: entry.filter.as_ref().map(|Scalar(expression)| expression.text.clone()),
            regex: entry.regex.as_ref().map(|Scalar(RegularExpression(pattern))| pattern.clone()),
            exact: texts(entry.exact.as_ref()),
            skip: texts(entry.skip.as_ref()),
            ignored: entry.ignored.as_ref().map(|Scalar(ignored)| *ignored).unwrap_or_default(),
            package: text(entry.package.as_ref()).map(str::to_owned),
            kind: entry.kind.as_ref().map(|Scalar(kind)| *kind),
            within: None,
        },
        env: environment(entry.env.as_ref()),
        features: texts(entry.features.as_ref()),
        params: named(entry.params.as_ref(), |values| values.0.clone()),
        timeout_seconds: entry.timeout.as_ref().map(|Scalar(Seconds(seconds))| *seconds),
        repeat: entry.repeat.as_ref().map(|Scalar(RepeatCount(count))| *count),
        devices: entry.device.as_ref().map(|DeviceNames(names)| names.clone()),
        rest: false,
    }
}

/// What the matrix leaves out, without what it says of refs of its own that `--refs` leaves out altogether.
fn excluded<'a>(matrix: &'a Matrix, compared: &'a [RefRequest]) -> impl Iterator<Item = CellPattern> + 'a {
    let means = |reference: &RefRequest, name: &str| ref_name(reference) == name || reference.spec == name;
    let of_matrix = || matrix.refs.iter().flat_map(|List(entries)| entries).map(ref_request);
    cell_patterns(matrix.exclude.as_ref()).filter(move |pattern| {
        pattern.r#ref.as_ref().is_none_or(|name| {
            compared.iter().any(|reference| means(reference, name))
                || !of_matrix().any(|reference| means(&reference, name))
        })
    })
}

fn cell_patterns(entries: Option<&List<CellEntry>>) -> impl Iterator<Item = CellPattern> + '_ {
    entries.into_iter().flat_map(|List(entries)| entries).map(|entry| CellPattern {
        r#ref: text(entry.r#ref.as_ref()).map(str::to_owned),
        test: entry.test.as_ref().map(|Scalar(expression)| expression.text.clone()),
        params: environment(entry.params.as_ref()),
    })
}

fn judging(arguments: &RequestArguments, matrix: &Matrix) -> Result<Judging, UserError> {
    let mut judging = Judging::default();
    for (metric, Rules(entries)) in matrix.thresholds.iter().flat_map(|OpenMapping(entries)| entries) {
        for entry in entries {
            judging.rules.push(ThresholdEntry::on(entry, metric).map_err(UserError::new)?);
        }
    }
    let entries = matrix.allow.iter().flat_map(|List(entries)| entries);
    judging.allow.extend(entries.map(AllowEntry::allowance));
    add_judging(&mut judging, &arguments.judging);
    Ok(judging)
}

/// Adds what the flags say, which wins over what is there.
pub fn add_judging(judging: &mut Judging, flags: &JudgingArguments) {
    let mut given: Vec<Rule> = Vec::new();
    for flag in flags.thresholds.iter().chain(&flags.limits).chain(&flags.leaks) {
        let same = |rule: &&mut Rule| {
            rule.metric == flag.metric && rule.test == flag.test && rule.checkpoint == flag.checkpoint
        };
        let Some(rule) = given.iter_mut().find(same) else {
            given.push(flag.clone());
            continue;
        };
        match (&mut rule.growth, &flag.growth) {
            // `--threshold heap.peak=5% --threshold heap.peak=1MiB` is one threshold of two parts.
            (Some(Growth::Within(both)), Some(Growth::Within(more))) => {
                both.percent = more.percent.or(both.percent);
                both.bytes = more.bytes.or(both.bytes);
            }
            (growth, more) => *growth = more.clone().or(growth.take()),
        }
        rule.limit = flag.limit.or(rule.limit);
        rule.leak = flag.leak.or(rule.leak);
    }
    judging.rules.extend(given);
    judging.allow.extend(flags.allow.iter().cloned());
}

fn lockfile(arguments: &RequestArguments, entry: Option<&LockfileEntry>) -> Option<LockfileRequest> {
    let flags = &arguments.checkout;
    let of_flags = (flags.lockfile_from.clone().map(LockfileRequest::From))
        .or_else(|| flags.lockfile_date.clone().map(LockfileRequest::Date));
    of_flags.or_else(|| {
        let entry = entry?;
        let date = || entry.date.as_ref().map(|Scalar(Day(day))| LockfileRequest::Date(day.clone()));
        text(entry.from.as_ref()).map(|name| LockfileRequest::From(name.to_owned())).or_else(date)
    })
}

/// Calls of each traced function that are logged one by one unless another number is asked for: enough for the layers of a
/// model, and few enough for a table.
const MAX_EVENTS: u64 = 100;

fn trace(flags: &TraceArguments, entry: Option<&TraceEntry>) -> Result<TraceRequest, UserError> {
    let patterns = |flags: &[Parsed<TracePattern>], key: Option<&List<Scalar<Parsed<TracePattern>>>>| {
        let of_key = key.iter().flat_map(|List(patterns)| patterns).map(|Scalar(pattern)| pattern);
        let chosen: Vec<_> = if flags.is_empty() { of_key.collect() } else { flags.iter().collect() };
        chosen.into_iter().map(|pattern| pattern.text.clone()).collect::<Vec<_>>()
    };
    // What the command line says of functions takes the place of all that the matrix says of them.
    let entry_of_patterns = entry.filter(|_| flags.trace.is_empty() && flags.trace_lines.is_empty());
    let request = TraceRequest {
        functions: patterns(&flags.trace, entry_of_patterns.and_then(|entry| entry.functions.as_ref())),
        lines: patterns(&flags.trace_lines, entry_of_patterns.and_then(|entry| entry.lines.as_ref())),
        max_events: (flags.max_events)
            .or_else(|| entry?.max_events.as_ref().map(|Scalar(CallLimit(events))| *events))
            .unwrap_or(MAX_EVENTS),
        columns: if flags.columns.is_empty() {
            let columns = entry.and_then(|entry| entry.columns.as_ref());
            columns.iter().flat_map(|List(columns)| columns).map(|Scalar(column)| *column).collect()
        } else {
            flags.columns.clone()
        },
    };
    if request.is_empty() {
        let lost = [(flags.max_events.is_some(), "--max-events"), (!flags.columns.is_empty(), "--columns")];
        if let Some((_, flag)) = lost.iter().find(|(is_given, _)| *is_given) {
            return Err(UserError::new(format!("{flag} is about traced functions, and none are asked for"))
                .help("name some: --trace 'crate::**::forward'"));
        }
        return Ok(TraceRequest::default());
    }
    Ok(request)
}

fn build(
    flags: &BuildArguments,
    matrix: &Matrix,
    surroundings: Surroundings<'_>,
) -> Result<BuildOptions, UserError> {
    let packages_named = !flags.package.is_empty() || flags.workspace;
    let profile = flags.profile.clone().or_else(|| flags.release.then(|| "release".to_owned()));
    let split = |features: &[String]| -> Vec<String> {
        let parts = features.iter().flat_map(|features| features.split([',', ' ']));
        parts.filter(|feature| !feature.is_empty()).map(str::to_owned).collect()
    };
    let owned = |value: Option<&Scalar<String>>| text(value).map(str::to_owned);
    Ok(BuildOptions {
        manifest_path: flags.manifest_path.as_deref().map(|path| manifest(path, surroundings)).transpose()?,
        packages: if packages_named { flags.package.clone() } else { texts(matrix.packages.as_ref()) },
        workspace: if packages_named { flags.workspace } else { flag(false, matrix.workspace.as_ref()) },
        features: split(&list(&flags.features, matrix.features.as_ref())),
        all_features: flag(flags.all_features, matrix.all_features.as_ref()),
        no_default_features: flag(flags.no_default_features, matrix.no_default_features.as_ref()),
        profile: profile.or_else(|| owned(matrix.profile.as_ref())),
        target: flags.target.clone().or_else(|| owned(matrix.target.as_ref())),
        lib: flags.lib,
        bins: flags.bin.clone(),
        tests: flags.test.clone(),
        examples: flags.example.clone(),
        benches: flags.bench.clone(),
        jobs: flags.jobs,
        offline: flag(flags.offline, matrix.offline.as_ref()),
        locked: flag(flags.locked, matrix.locked.as_ref()),
        config: config(&flags.config, matrix.config.as_ref(), surroundings)?,
        toolchain: flags.toolchain.clone().or_else(|| owned(matrix.toolchain.as_ref())),
    })
}

/// Cargo takes a path as relative to its own folder, which for us is in the checkout; the user means where it was written.
fn config(
    flags: &[String],
    key: Option<&List<Scalar<String>>>,
    surroundings: Surroundings<'_>,
) -> Result<Vec<String>, UserError> {
    let base = if flags.is_empty() { surroundings.matrix } else { surroundings.current };
    let setting = |setting: String| {
        let file = overlay_paths::normalized(&base.join(&setting));
        // Cargo looks for a file first, too.
        if (surroundings.exists)(&file) {
            return Ok(file.into_string());
        }
        if setting.contains('=') {
            return Ok(setting);
        }
        Err(UserError::new(format!("--config {setting}: there is no {file}"))
            .help("a setting that is not in a file is written KEY=VALUE"))
    };
    list(flags, key).into_iter().map(setting).collect()
}

/// The manifest's path relative to the repository, which is what is the same in every revision.
fn manifest(path: &Utf8Path, surroundings: Surroundings<'_>) -> Result<String, UserError> {
    let absolute = overlay_paths::normalized(&surroundings.current.join(path));
    if absolute.file_name() != Some("Cargo.toml") {
        let help = (absolute.file_name())
            .and_then(|name| suggest::did_you_mean(name, ["Cargo.toml"]))
            .unwrap_or_else(|| format!("write --manifest-path {}", path.join("Cargo.toml")));
        return Err(UserError::new(format!("--manifest-path {path} is not a Cargo.toml")).help(help));
    }
    match absolute.strip_prefix(surroundings.repository) {
        Ok(inside) => Ok(inside.to_string()),
        Err(_) => Err(UserError::new(format!("--manifest-path {path} lies outside the repository"))
            .help(format!("the repository is {}", surroundings.repository))),
    }
}
