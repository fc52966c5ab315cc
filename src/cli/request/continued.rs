//! `--resume` beside other flags: they must say what the run was planned with, because it continues
//! as planned.

use crate::cli::arguments::cargo::CargoArguments;
use crate::cli::arguments::judging::JudgingArguments;
use crate::cli::arguments::request::{
    CellArguments, CheckoutArguments, RefArguments, RequestArguments, SelectionArguments, TraceArguments,
};
use crate::cli::arguments::sides::SideArguments;
use crate::cli::request::refs::ref_name;
use crate::cli::request::sides;
use crate::git::resolve::MERGE_BASE;
use crate::plan::request::{BaselineRequest, BuildOptions, OverlayRequest, RefRequest, Request, TestRequest};
use crate::plan::resolved::Plan;
use crate::plan::selection::described;
use crate::support::user_error::UserError;

/// Whether one of these flags was given, so that the request must be compared.
pub fn has_flags(arguments: &RequestArguments) -> bool {
    // Secrets are given again by `--env` and `--config`; they are compared when they are restored.
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
    let flags = [
        (
            arguments.judging != JudgingArguments::default() && asked.judging != planned.judging,
            "other limits (`cargo memprof report` takes new ones)",
        ),
        (
            arguments.checkout != CheckoutArguments::default()
                && (!same_overlays(asked, planned) || asked.sparse_exclude != planned.sparse_exclude),
            "other files (--overlay, --sparse-exclude)",
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

/// Whether a ref is planned with other settings, apart from variables and settings for cargo.
fn other_sides(asked: &Request, planned: &Request) -> bool {
    let comparable = |one: &RefRequest| {
        let with = one.with.clone();
        let lockfile = one.lockfile.as_ref().map(|given| given.written().to_owned());
        (
            one.features.clone(),
            one.no_default_features,
            one.profile.clone(),
            one.toolchain.clone(),
            with,
            lockfile,
        )
    };
    let planned_as = |one: &RefRequest| {
        let same = planned.refs.iter().find(|other| ref_name(other) == ref_name(one));
        same.is_none_or(|other| comparable(other) == comparable(one))
    };
    asked.with != planned.with || !asked.refs.iter().all(planned_as)
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
    let CellArguments { params: values, repeat, timeout, delay, exclude, include, pairs } = given;
    let flags = [
        (!values.is_empty() && params(asked) != params(planned), "another --param"),
        (repeat.is_some() && repeats(asked) != repeats(planned), "another --repeat"),
        (timeout.is_some() && timeouts(asked) != timeouts(planned), "another --timeout"),
        (delay.is_some() && asked.delay_milliseconds != planned.delay_milliseconds, "another --delay"),
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
    use crate::cli::request::reconcile::reconcile;
    use crate::cli::request::refs::RefsNeeded;
    use crate::cli::request::surroundings::Surroundings;
    use crate::config::matrix::Matrix;

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

    fn continued_of(mut request: Request, second: &str) -> String {
        // What planning completes.
        request.build.packages.push("bart".to_owned());
        let plan = Plan {
            version: 1,
            tool: String::new(),
            id: "RUN".into(),
            created: String::new(),
            repository: "/r".into(),
            workspace: "".into(),
            revisions: Vec::new(),
            baseline: 0,
            overlay_commits: Vec::new(),
            notes: Vec::new(),
            request,
        };
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
            ("--limit heap.peak=1GiB", "other limits"),
            ("--timeout 10m", "another --timeout"),
            ("--delay 1s", "another --delay"),
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
}
