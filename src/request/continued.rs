//! `--resume` beside other flags: they must say what the run was planned with, because it continues
//! as planned.

use std::collections::{BTreeMap, BTreeSet};

use crate::arguments::cargo::CargoArguments;
use crate::arguments::judging::JudgingArguments;
use crate::arguments::request::{
    CellArguments, CheckoutArguments, EnvironmentArguments, RefArguments, RequestArguments,
    SelectionArguments, TraceArguments,
};
use crate::arguments::sides::SideArguments;
use crate::arguments::values::Variable;
use crate::request::refs::ref_name;
use crate::request::sides;
use memprof_plan::axis_labels::in_words;
use memprof_plan::request::MERGE_BASE;
use memprof_plan::request::{
    BaselineRequest, BuildOptions, LockfileRequest, OverlayRequest, RefRequest, Request, TestRequest,
};
use memprof_plan::resolved::Plan;
use memprof_plan::rule::Judging;
use memprof_plan::selection::described;
use memprof_support::user_error::UserError;

/// Whether one of these flags was given, so that the request must be compared.
pub fn has_flags(arguments: &RequestArguments) -> bool {
    // `--env` and `--config` are compared by `refuse_other_values`: they also give secrets again.
    let RequestArguments {
        refs,
        selection,
        cells,
        sides,
        environment: _,
        judging,
        checkout,
        trace,
        build,
        jobs,
    } = arguments;
    let RefArguments { matrix, remote, .. } = refs.clone();
    *refs != RefArguments { remote, matrix, ..RefArguments::default() }
        || *sides != SideArguments::default()
        || *selection != SelectionArguments::default()
        || *cells != CellArguments::default()
        || *judging != JudgingArguments::default()
        || *checkout != CheckoutArguments::default()
        || *trace != TraceArguments::default()
        || is_about_figures(build)
        || build.names_program()
        || jobs.jobs.is_some()
}

/// Refuses flags that ask for something else than the plan. `asked` is what flags and memprof.yaml
/// ask for. Only flags that were given are compared.
pub fn refuse_other(arguments: &RequestArguments, asked: &Request, plan: &Plan) -> Result<(), UserError> {
    let planned = &plan.request;
    let mut others = Vec::new();
    let given = &arguments.refs;
    if !given.refs.is_empty() || given.baseline.is_some() || given.aa {
        others.extend(other_refs(asked, plan));
    }
    if arguments.selection != SelectionArguments::default() {
        let selections = |request: &Request| -> Vec<_> {
            request.tests.iter().map(|test| (test.selection.clone(), test.rest)).collect()
        };
        if selections(asked) != selections(planned) {
            others.push(planned_with(&selection(planned), &selection(asked)));
        }
    }
    if arguments.build.names_program() {
        let programs = |request: &Request| -> Vec<_> {
            request.tests.iter().map(|test| (test.program.clone(), test.selection.package.clone())).collect()
        };
        if programs(asked) != programs(planned) {
            others.push("another program, or other arguments or input of it".to_owned());
        }
    }
    others.extend(other_cells(&arguments.cells, asked, planned));
    others.extend(other_files(&arguments.checkout, asked, plan).into_iter().map(str::to_owned));
    let flags = [
        (
            arguments.judging != JudgingArguments::default() && !asked.judging.has_rules_of(&planned.judging),
            OTHER_LIMITS,
        ),
        (
            arguments.trace != TraceArguments::default() && asked.trace != planned.trace,
            "other traced functions (--trace)",
        ),
        (arguments.jobs.jobs.is_some() && asked.jobs != planned.jobs, "another --jobs"),
        (sides::has_any(arguments) && other_sides(asked, planned), "other settings of a side"),
        (
            is_about_figures(&arguments.build)
                && build_options(asked, arguments) != build_options(planned, arguments),
            "other options for cargo",
        ),
    ];
    others.extend(flags.into_iter().filter(|(is_other, _)| *is_other).map(|(_, what)| what.to_owned()));
    if others.is_empty() {
        return Ok(());
    }
    let id = &plan.id;
    Err(UserError::new(format!("{id} was planned with {}", others.join("; "))).help(format!(
        "to continue it as planned: cargo memprof --resume {id}\nfor another comparison, leave out --resume"
    )))
}

/// Refuses `--devices` for a run without it. Its finished runs may be of any device, and figures of two
/// devices are not compared.
pub fn refuse_new_pool(devices: &[String], plan: &Plan) -> Result<(), UserError> {
    if devices.is_empty() || plan.request.device_pool.is_some() {
        return Ok(());
    }
    let id = &plan.id;
    Err(UserError::new(format!("{id} was planned without --devices"))
        .help("leave out --devices, or leave out --resume to begin anew"))
}

/// Returns what memprof.yaml asks of the sides now, if that is not what the run was planned with. The run
/// continues as planned.
pub fn changed_sides(asked: &Request, plan: &Plan) -> Option<String> {
    let planned = &plan.request;
    let is_changed = |one: &&RefRequest| {
        let known = planned.refs.iter().find(|other| ref_name(other) == ref_name(one));
        known.is_some_and(|known| {
            // A flag for every ref has won over the refs' own variables.
            let mut env = one.env.clone();
            env.retain(|name, _| !planned.env.contains_key(name));
            comparable(known) != comparable(one) || known.env != env || known.config != one.config
        })
    };
    if let Some(changed) = asked.refs.iter().find(is_changed) {
        return Some(format!("other settings for {} than the run was planned with", ref_name(changed)));
    }
    let names = |request: &Request| request.refs.iter().map(|one| ref_name(one).to_owned()).collect();
    let [now, then]: [BTreeSet<String>; 2] = [asked, planned].map(names);
    if now == then || asked.axes == planned.axes {
        return None;
    }
    let words = |request: &Request| match in_words(&request.axes) {
        words if words.is_empty() => "no axes".to_owned(),
        words => words,
    };
    Some(format!("{}, and the run was planned with {}", words(asked), words(planned)))
}

/// Refuses another `--jobs` than that of an archive's run.
pub fn refuse_other_jobs(arguments: &RequestArguments, plan: &Plan) -> Result<(), UserError> {
    match arguments.jobs.jobs {
        Some(jobs) if jobs != plan.request.jobs => {
            let id = &plan.id;
            let message = format!("{id} was planned with --jobs {}, now --jobs {jobs}", plan.request.jobs);
            Err(UserError::new(message).help("leave out --jobs, or leave out --resume"))
        }
        _ => Ok(()),
    }
}

/// Refuses another `--repeat` than that of an archive's run.
pub fn refuse_other_repeat(arguments: &RequestArguments, plan: &Plan) -> Result<(), UserError> {
    match arguments.cells.repeat {
        Some(repeat) if repeat != plan.request.repeat => {
            let planned = plan.request.repeat;
            let message = format!("{} was planned with --repeat {planned}, now --repeat {repeat}", plan.id);
            Err(UserError::new(message).help("leave out --repeat, or leave out --resume"))
        }
        _ => Ok(()),
    }
}

/// Refuses other limits than those of an archive's run. `asked` is what the archive and the flags say.
pub fn refuse_other_limits(
    arguments: &RequestArguments,
    asked: &Judging,
    plan: &Plan,
) -> Result<(), UserError> {
    if arguments.judging == JudgingArguments::default() || asked.has_rules_of(&plan.request.judging) {
        return Ok(());
    }
    let id = &plan.id;
    Err(UserError::new(format!("{id} was planned with {OTHER_LIMITS}"))
        .help("leave out these flags, or leave out --resume"))
}

/// What is said of other limits: they need no run.
const OTHER_LIMITS: &str = "other limits (`cargo memprof report` takes new ones)";

/// Returns the settings of a ref, apart from variables and settings for cargo. The plan has the commits
/// and hashes of lock files, which a request lacks.
fn comparable(one: &RefRequest) -> impl PartialEq {
    (
        one.features.clone(),
        one.no_default_features,
        one.profile.clone(),
        one.toolchain.clone(),
        one.with.clone(),
        one.lockfile.as_ref().map(|given| given.written().to_owned()),
    )
}

/// Whether a ref is planned with other settings, apart from variables and settings for cargo.
fn other_sides(asked: &Request, planned: &Request) -> bool {
    let planned_as = |one: &RefRequest| {
        let same = planned.refs.iter().find(|other| ref_name(other) == ref_name(one));
        same.is_none_or(|other| comparable(other) == comparable(one))
    };
    asked.with != planned.with || !asked.refs.iter().all(planned_as)
}

/// Returns what differs in the files of the checkouts.
fn other_files(given: &CheckoutArguments, asked: &Request, plan: &Plan) -> Vec<&'static str> {
    let planned = &plan.request;
    let flags = [
        (
            *given != CheckoutArguments::default()
                && (!same_overlays(asked, planned) || asked.sparse_exclude != planned.sparse_exclude),
            "other files (--overlay, --sparse-exclude)",
        ),
        (
            !given.overlay_patch.is_empty() && asked.overlay_patches != planned.overlay_patches,
            "another --overlay-patch",
        ),
        (
            !given.checkpoint_at.is_empty() && asked.checkpoints_at != planned.checkpoints_at,
            "another --checkpoint-at",
        ),
        (given.no_auto_overlay && !planned.no_auto_overlay, "test files of one ref in the others"),
        (other_lockfile(given, asked, plan), "another lock file for refs that have none"),
    ];
    flags.into_iter().filter(|(is_other, _)| *is_other).map(|(_, what)| what).collect()
}

/// Whether `--lockfile-from` or `--lockfile-date` says something else than the plan.
fn other_lockfile(given: &CheckoutArguments, asked: &Request, plan: &Plan) -> bool {
    if given.lockfile_from.is_none() && given.lockfile_date.is_none() {
        return false;
    }
    match (&asked.lockfile, &plan.request.lockfile) {
        // Planning replaces a ref by its commit.
        (Some(LockfileRequest::From(spec)), Some(LockfileRequest::From(commit))) => {
            let mut named = plan.revisions.iter().filter(|one| one.spec == *spec || one.name == *spec);
            named.any(|one| one.commit != *commit)
        }
        (asked, planned) => asked != planned,
    }
}

/// Refuses variables and settings for cargo that a run or search was not planned with. The plan's
/// secrets were put back before. `command` is `run`, for example.
pub fn refuse_other_values(
    command: &str,
    environment: &EnvironmentArguments,
    config: &[String],
    plan: &Plan,
) -> Result<(), UserError> {
    let request = &plan.request;
    let of_sides = || request.refs.iter().map(|one| &one.env);
    let of_all = || request.tests.iter().map(|one| &one.env).chain([&request.env]);
    let has = |env: &BTreeMap<String, String>, one: &Variable| env.get(&one.name) == Some(&one.value);
    // A secret that a side or a test has in memprof.yaml is given again without a side.
    let is_planned = |one: &Variable| {
        of_sides().any(|env| has(env, one)) || one.side.is_none() && of_all().any(|env| has(env, one))
    };
    let mut others: Vec<String> = Vec::new();
    for one in environment.env.iter().filter(|one| !is_planned(one)) {
        let side = one.side.as_ref().map_or_else(String::new, |side| format!("{side}:"));
        others.push(format!("--env {side}{}", one.name));
    }
    let settings: Vec<&String> =
        request.build.config.iter().chain(request.refs.iter().flat_map(|one| &one.config)).collect();
    let is_set = |text: &str| settings.iter().any(|setting| setting.as_str() == text);
    // A file has another path in the plan, and its content is in the builds' keys.
    let given = config.iter().filter(|text| text.contains('='));
    let others_set = given
        .filter(|text| !is_set(text) && !text.split_once(':').is_some_and(|(_, setting)| is_set(setting)));
    others.extend(others_set.map(|text| format!("--config {}", text.split('=').next().unwrap_or(text))));
    if others.is_empty() {
        return Ok(());
    }
    let id = &plan.id;
    Err(UserError::new(format!("{id} was planned with another value, or without: {}", others.join(", ")))
        .help(format!(
            "to continue it as planned: cargo memprof {command} --resume {id}\nfor other values, leave out --resume"
        )))
}

/// Whether the overlays are the same. Planning adds the package that follows from a path.
fn same_overlays(asked: &Request, planned: &Request) -> bool {
    let is_same = |(asked, planned): (&OverlayRequest, &OverlayRequest)| {
        let package = asked.package.as_ref().and(planned.package.clone());
        *asked == OverlayRequest { package, ..planned.clone() }
    };
    asked.overlay.len() == planned.overlay.len() && asked.overlay.iter().zip(&planned.overlay).all(is_same)
}

/// `-k 'hf', now -k 'bwd'`.
fn planned_with(then: &str, now: &str) -> String {
    format!("{then}, now {now}")
}

fn other_refs(asked: &Request, plan: &Plan) -> Option<String> {
    let names = |request: &Request| -> Vec<String> {
        let refs = request
            .refs
            .iter()
            .flat_map(|one| [ref_name(one)].into_iter().chain(one.also.iter().map(String::as_str)));
        let refs = refs.map(str::to_owned);
        let mut names: Vec<String> = refs.filter(|name| name != MERGE_BASE).collect();
        // Planning adds a baseline that is none of the refs.
        if let BaselineRequest::Ref(name) = &request.baseline
            && !request.refs.iter().any(|one| ref_name(one) == name || one.spec == *name)
        {
            names.insert(0, name.clone());
        }
        names
    };
    let (then, now) = (names(&plan.request), names(asked));
    let sorted = |names: &[String]| {
        let mut names = names.to_vec();
        names.sort();
        names
    };
    // Refs that are one commit lie together in the plan.
    let is_other = sorted(&then) != sorted(&now) || asked.baseline != plan.request.baseline;
    let baseline = |request: &Request| match &request.baseline {
        BaselineRequest::First => String::new(),
        BaselineRequest::MergeBase => format!(" --baseline {MERGE_BASE}"),
        BaselineRequest::Ref(name) => format!(" --baseline {name}"),
    };
    is_other.then(|| {
        planned_with(
            &format!("the refs {}{}", then.join(" "), baseline(&plan.request)),
            &format!("{}{}", now.join(" "), baseline(asked)),
        )
    })
}

/// The flags that select: those of the command line, if memprof.yaml has tests, too.
fn selection(request: &Request) -> String {
    let of_flags = |test: &TestRequest| test.selection.within.as_deref().unwrap_or(&test.selection).clone();
    let words = request.tests.last().map(of_flags).map(|selection| described(&selection)).unwrap_or_default();
    if words.is_empty() { "all tests".to_owned() } else { words }
}

fn other_cells(given: &CellArguments, asked: &Request, planned: &Request) -> Vec<String> {
    let params = |request: &Request| request.tests.iter().map(|test| test.params.clone()).collect::<Vec<_>>();
    let timeouts = |request: &Request| {
        let own = request.tests.iter().map(|test| test.timeout_seconds);
        own.chain([request.timeout_seconds]).collect::<Vec<_>>()
    };
    let repeats = |request: &Request| {
        let own = request.tests.iter().map(|test| test.repeat);
        (own.collect::<Vec<_>>(), request.repeat)
    };
    let CellArguments { params: values, repeat, timeout, delay, random, trim, exclude, include, pairs } =
        given;
    let flags = [
        (!values.is_empty() && params(asked) != params(planned), "another --param"),
        (repeat.is_some() && repeats(asked) != repeats(planned), "another --repeat"),
        (timeout.is_some() && timeouts(asked) != timeouts(planned), "another --timeout"),
        (delay.is_some() && asked.delay_milliseconds != planned.delay_milliseconds, "another --delay"),
        (random.is_some() && asked.random != planned.random, "another --random"),
        (*trim && !planned.trim, "--trim"),
        (!exclude.is_empty() && asked.exclude != planned.exclude, "another --exclude"),
        (!include.is_empty() && asked.include != planned.include, "another --include"),
        (!pairs.is_empty() && asked.pairs != planned.pairs, "another --pair"),
    ];
    flags.into_iter().filter(|(is_other, _)| *is_other).map(|(_, what)| what.to_owned()).collect()
}

/// Whether a flag was given that changes what is built. `--manifest-path` also finds the run, and a
/// setting of `--config` may be a secret.
fn is_about_figures(build: &CargoArguments) -> bool {
    let CargoArguments { manifest_path, config, offline, locked, .. } = build.clone();
    // Programs are compared with what they are given.
    let CargoArguments { bin, example, arg, stdin, .. } = build.clone();
    let others = CargoArguments { bin, example, arg, stdin, ..CargoArguments::default() };
    *build != CargoArguments { offline, locked, config, manifest_path, ..others }
}

/// The options that change what is built, without a package that planning completes.
fn build_options(request: &Request, arguments: &RequestArguments) -> BuildOptions {
    let build = request.build.clone();
    let packages = if arguments.build.package.is_empty() { Vec::new() } else { build.packages };
    BuildOptions {
        manifest_path: None,
        packages,
        config: Vec::new(),
        jobs: None,
        offline: false,
        locked: false,
        ..build
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::request::reconcile::reconcile;
    use crate::request::refs::RefsNeeded;
    use crate::request::surroundings::Surroundings;
    use memprof_plan::config::matrix::Matrix;

    #[derive(Parser)]
    struct Flags {
        #[command(flatten)]
        request: RequestArguments,
    }

    fn arguments(flags: &str) -> RequestArguments {
        Flags::try_parse_from(format!("x {flags}").split_whitespace()).unwrap().request
    }

    fn asked(flags: &str) -> Request {
        let here = camino::Utf8Path::new("/r");
        let surroundings = Surroundings {
            repository: here,
            current: here,
            matrix: here,
            exists: &|_: &camino::Utf8Path| true,
        };
        reconcile(&arguments(flags), &Matrix::default(), surroundings, RefsNeeded::Any).unwrap()
    }

    #[test]
    fn a_package_that_planning_added_is_no_other_overlay() {
        let flags = "--overlay a/tests/x.rs --overlay-mode external";
        let mut planned = asked(flags);
        planned.overlay[0].package = Some("bart".to_owned());
        assert_eq!(continued_of(planned.clone(), flags), "the same");
        let other =
            continued_of(planned, "--overlay a/tests/x.rs --overlay-mode external --overlay-package b");
        assert!(other.contains("other files"), "{other}");
    }

    /// Plans the first flags, and continues with the second.
    fn continued(first: &str, second: &str) -> String {
        continued_of(asked(first), second)
    }

    fn plan_of(mut request: Request) -> Plan {
        // What planning completes.
        request.build.packages.push("bart".to_owned());
        Plan::sample(request)
    }

    fn continued_of(request: Request, second: &str) -> String {
        let plan = plan_of(request);
        let arguments = arguments(second);
        if !has_flags(&arguments) {
            return "no flags".to_owned();
        }
        match refuse_other(&arguments, &asked(second), &plan) {
            Ok(()) => "the same".to_owned(),
            Err(error) => error.rendered(),
        }
    }

    #[test]
    fn the_same_flags_and_no_flags_continue_a_run() {
        let all = "--refs main,x --baseline main -k hf --param batch=8 --repeat 3 --delay 2s --release --trace a::b";
        assert_eq!(continued(all, all), "the same");
        assert_eq!(continued(all, "-k hf"), "the same");
        assert_eq!(continued(all, "--refs main,x --baseline main --offline"), "the same");
        let mut merged = asked("--refs main,x,.");
        merged.refs.pop();
        merged.refs[0].also.push(".".to_owned());
        assert_eq!(continued_of(merged, "--refs main,x,."), "the same");
        for none in
            ["", "--env TOKEN=1 --config a=1 --manifest-path a/Cargo.toml --matrix m.yaml --build-jobs 2"]
        {
            assert_eq!(continued(all, none), "no flags");
        }
        assert_eq!(continued("--refs x --baseline main", "--refs x --baseline main"), "the same");
    }

    #[test]
    fn a_program_is_continued_with_the_same_arguments() {
        let first = "--refs main,x --bin tool --arg=--size --arg=8 --release";
        assert_eq!(continued(first, "--bin tool --arg=--size --arg=8"), "the same");
        for other in ["--bin tool --arg=--size --arg=9", "--bin tool", "--example tool --arg=--size --arg=8"]
        {
            let message = continued(first, other);
            assert!(message.contains("another program, or other arguments or input of it"), "{message}");
        }
    }

    #[test]
    fn other_flags_are_named_with_what_the_run_has() {
        insta::assert_snapshot!(continued("--refs main,x -k hf", "--refs main,y -k bwd"), @"
        error: RUN was planned with the refs main x, now main y; -k 'hf', now -k 'bwd'
          help: to continue it as planned: cargo memprof --resume RUN
                for another comparison, leave out --resume
        ");
        insta::assert_snapshot!(continued("--refs main,x", "--exact a::b --repeat 5 --param batch=8"), @"
        error: RUN was planned with all tests, now --exact a::b; another --param; another --repeat
          help: to continue it as planned: cargo memprof --resume RUN
                for another comparison, leave out --resume
        ");
        for (flag, what) in [
            ("--release", "other options for cargo"),
            ("-p bert", "other options for cargo"),
            ("--trace a::b", "other traced functions"),
            ("--sparse-exclude big/", "other files"),
            ("--overlay-patch fix.patch", "another --overlay-patch"),
            ("--checkpoint-at src/lib.rs:4=loaded", "another --checkpoint-at"),
            ("--no-auto-overlay", "test files of one ref in the others"),
            ("--lockfile-date today", "another lock file for refs that have none"),
            ("--limit heap.peak=1GiB", "other limits"),
            ("--timeout 10m", "another --timeout"),
            ("--delay 1s", "another --delay"),
            ("--random own", "another --random"),
            ("--trim", "--trim"),
            ("--jobs 4", "another --jobs"),
            ("--exclude test=hf", "another --exclude"),
            ("--include test=hf", "another --include"),
            ("--baseline x", "the refs main x, now"),
            ("--aa --refs main", "the refs main x, now"),
        ] {
            let message = continued("--refs main,x -k hf", flag);
            assert!(message.contains(what), "{flag}: {message}");
        }
    }

    #[test]
    fn an_archives_run_keeps_its_limits() {
        let plan = plan_of(asked("--limit heap.peak=1GiB"));
        let refused = |flags: &str| {
            let refused = refuse_other_limits(&arguments(flags), &asked(flags).judging, &plan);
            refused.err().map(|error| error.message).unwrap_or_default()
        };
        assert_eq!((refused(""), refused("--limit heap.peak=1GiB")), (String::new(), String::new()));
        assert!(refused("--limit heap.peak=2GiB").starts_with("RUN was planned with other limits"));
    }

    #[test]
    fn an_archives_run_keeps_its_repeats() {
        let plan = plan_of(asked("--repeat 3"));
        let refused =
            |flags: &str| refuse_other_repeat(&arguments(flags), &plan).err().map(|error| error.message);
        assert_eq!((refused(""), refused("--repeat 3")), (None, None));
        assert_eq!(refused("--repeat 2").unwrap(), "RUN was planned with --repeat 3, now --repeat 2");
    }

    #[test]
    fn a_run_gets_a_pool_of_devices_at_its_beginning_only() {
        let devices = ["0".to_owned()];
        let mut plan = plan_of(Request::default());
        refuse_new_pool(&[], &plan).unwrap();
        let error = refuse_new_pool(&devices, &plan).unwrap_err();
        assert_eq!(error.message, "RUN was planned without --devices");
        plan.request.spread_over(&["0".to_owned(), "1".to_owned()]);
        refuse_new_pool(&devices, &plan).unwrap();
    }

    #[test]
    fn variables_and_settings_must_be_those_of_the_plan() {
        let planned = "--refs main,x --env BATCH=8 --env x:POOL=4";
        let mut request = asked(planned);
        request.build.config.push("a.b=1".to_owned());
        request.refs[1].config.push("c.d=2".to_owned());
        request.tests[0].env.insert("DB_PASSWORD".to_owned(), "x y".to_owned());
        let plan = plan_of(request);
        let refused = |flags: &[&str]| {
            let flags = [&["x"], flags].concat();
            let arguments = Flags::try_parse_from(flags).unwrap().request;
            let RequestArguments { environment, build, .. } = &arguments;
            let refused = refuse_other_values("run", environment, &build.config, &plan);
            refused.err().map(|error| error.message).unwrap_or_default()
        };
        let same: Vec<&str> =
            planned.split(' ').chain(["--config", "a.b=1", "--config", "x:c.d=2"]).collect();
        assert_eq!(refused(&same), "");
        assert_eq!(refused(&["--env", "DB_PASSWORD=x y"]), "", "a secret of memprof.yaml");
        let other = "RUN was planned with another value, or without: ";
        for (flag, value, what) in [
            ("--env", "BATCH=9", "--env BATCH"),
            ("--env", "TOKEN=1", "--env TOKEN"),
            ("--env", "x:POOL=5", "--env x:POOL"),
            ("--env", "x:BATCH=8", "--env x:BATCH"),
            ("--config", "a.b=2", "--config a.b"),
            ("--config", "x:c.d=3", "--config x:c.d"),
        ] {
            assert_eq!(refused(&[flag, value]), format!("{other}{what}"));
        }
    }
}
