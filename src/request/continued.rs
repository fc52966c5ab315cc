//! `--resume` and what could have changed since the run was planned: variables and settings that are
//! given again, devices, and memprof.yaml.

use std::collections::{BTreeMap, BTreeSet};

use crate::arguments::request::EnvironmentArguments;
use crate::arguments::run::RunArguments;
use crate::arguments::values::Variable;
use crate::kept_runs;
use crate::request::asked::Asked;
use crate::request::matrix_file;
use crate::request::new_run::saved_often;
use crate::request::refs::{RefsNeeded, ref_name};
use crate::request::secrets::SecretSources;
use memprof_build::git::repository::Repository;
use memprof_judge::results::run_folder::RunFolder;
use memprof_judge::results::stored;
use memprof_plan::axis_labels::in_words;
use memprof_plan::request::{RefRequest, Request};
use memprof_plan::resolved::Plan;
use memprof_run::same_machine;
use memprof_run::session::find_run;
use memprof_run::stdin_files;
use memprof_support::continuation;
use memprof_support::event::{Event, Sink};
use memprof_support::user_error::UserError;

/// Finds the run that the user wants to continue, and puts the secrets back into its plan.
///
/// # Errors
///
/// There is none, or it needs another machine, other variables or other devices.
pub fn run(
    name: &str,
    arguments: &RunArguments,
    repository: &Repository,
    sink: &dyn Sink,
) -> anyhow::Result<(Plan, RunFolder)> {
    let request = &arguments.request;
    let runs = kept_runs::runs(repository, request.build.manifest_path.as_deref())?;
    let folder = find_run(&runs, repository.start(), name)?;
    kept_runs::refuse_search(&folder)?;
    let mut plan = stored::read_plan(&folder)?;
    same_machine::expect(&folder, &plan)?;
    continuation::begin(&plan.id);
    let sources = SecretSources {
        environment: &request.environment,
        config: &request.build.config,
        arguments: &request.build.arg,
        matrix: request.refs.matrix.as_deref(),
        repository,
    };
    sources.restore(&mut plan)?;
    refuse_other_values("run", &request.environment, &request.build.config, &plan)?;
    refuse_new_pool(arguments.execution.devices().as_deref(), &plan)?;
    plan.request.spread_over(arguments.execution.devices());
    if arguments.execution.save_baseline.is_some() {
        saved_often(&mut plan.request);
    }
    note_changed_sides(arguments, repository, &plan, sink);
    stdin_files::warn_of_changed(&plan, sink);
    Ok((plan, folder))
}

/// Warns if memprof.yaml has other sides now. A run continues as it was planned.
fn note_changed_sides(arguments: &RunArguments, repository: &Repository, plan: &Plan, sink: &dyn Sink) {
    let RunArguments { request, presentation, .. } = arguments;
    if matrix_file::path(request.refs.matrix.as_deref(), repository).is_none() {
        return;
    }
    let message = match Asked::read(request, presentation, repository, RefsNeeded::Any) {
        Ok(asked) => changed_sides(&asked.request, plan)
            .map(|changed| format!("memprof.yaml has {changed}; the run continues as planned")),
        Err(error) => Some(format!("the run continues as planned, without memprof.yaml: {error:#}")),
    };
    if let Some(message) = message {
        let help = Some("to measure what memprof.yaml says now, leave out --resume".to_owned());
        sink.emit(Event::Warning { message, help });
    }
}

/// Refuses `--devices` for a run without it. Its finished runs may be of any device, and figures of two
/// devices are not compared.
pub fn refuse_new_pool(devices: Option<&[String]>, plan: &Plan) -> Result<(), UserError> {
    if devices.is_none() || plan.request.settings.device_pool.is_some() {
        return Ok(());
    }
    let id = &plan.id;
    Err(UserError::new(format!("{id} was planned without --devices"))
        .help("leave out --devices, or leave out --resume to begin anew"))
}

/// Returns what memprof.yaml asks of the sides now, if that is not what the run was planned with. The run
/// continues as planned.
fn changed_sides(asked: &Request, plan: &Plan) -> Option<String> {
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

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::arguments::request::RequestArguments;
    use crate::request::reconcile::reconcile;
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

    fn plan_of(mut request: Request) -> Plan {
        // What planning completes.
        request.build.settings.packages.push("bart".to_owned());
        Plan::sample(request)
    }

    #[test]
    fn a_run_gets_a_pool_of_devices_at_its_beginning_only() {
        let devices = Some(&["0".to_owned()][..]);
        let mut plan = plan_of(Request::default());
        refuse_new_pool(None, &plan).unwrap();
        let error = refuse_new_pool(devices, &plan).unwrap_err();
        assert_eq!(error.message, "RUN was planned without --devices");
        plan.request.spread_over(Some(vec!["0".to_owned(), "1".to_owned()]));
        refuse_new_pool(devices, &plan).unwrap();
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
