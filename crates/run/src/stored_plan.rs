//! The plan as it is stored: marks stand for secrets. To continue a run, the user gives the
//! secrets again.

use std::collections::{BTreeMap, BTreeSet};

use memprof_build::attempts::Build;
use memprof_plan::cells::PlannedCell;
use memprof_plan::program::{self, ProgramRequest, Stdin};
use memprof_plan::request::Request;
use memprof_plan::resolved::Plan;
use memprof_support::redaction::{self, has_mark, is_mark};
use memprof_support::user_error::UserError;

/// Lets the redactor of this process find the secrets of a request in any text.
pub fn learn(request: &Request) {
    redaction::change(|redactor| {
        for (name, value) in environments(request).flatten() {
            redactor.learn(name, value);
        }
        for setting in settings(request) {
            redactor.learn("", setting);
        }
        for program in programs(request) {
            program.args.iter().for_each(|argument| redactor.learn("", argument));
            for pair in program.args.windows(2).filter(|pair| pair[0].starts_with("--")) {
                redactor.learn(pair[0].trim_start_matches('-'), &pair[1]);
            }
        }
    });
}

/// Returns the plan as it is stored.
pub fn sealed(plan: &Plan) -> Plan {
    let mut sealed = plan.clone();
    seal_request(&mut sealed.request);
    for note in &mut sealed.notes {
        *note = redaction::text(note).into_owned();
    }
    let shown = sealed
        .revisions
        .iter_mut()
        .flat_map(|revision| revision.found.iter_mut().chain([&mut revision.subject]));
    for text in shown.chain(&mut sealed.request.settings.remote) {
        *text = redaction::text(text).into_owned();
    }
    sealed
}

/// Puts marks in the place of a request's secrets.
pub(crate) fn seal_request(request: &mut Request) {
    environments_mut(request).for_each(seal);
    for setting in settings_mut(request) {
        *setting = sealed_setting(setting, false);
    }
    for program in request.tests.iter_mut().filter_map(|test| test.program.as_mut()) {
        program.args = program::sealed(&program.args);
        if let Some(Stdin::Text { text, .. }) = &mut program.stdin {
            *text = redaction::text(text).into_owned();
        }
    }
    for overlay in &mut request.overlay {
        seal(&mut overlay.dependencies);
    }
}

/// Returns a cell as it is stored.
pub(crate) fn sealed_cell(cell: &PlannedCell) -> PlannedCell {
    let mut sealed = cell.clone();
    seal(&mut sealed.env);
    sealed.args = program::sealed(&sealed.args);
    sealed
}

fn seal(variables: &mut BTreeMap<String, String>) {
    for (name, value) in variables {
        *value = redaction::value(name, value);
    }
}

/// Returns `KEY=MARK` for a setting with a secret, or for every setting with a value.
fn sealed_setting(setting: &str, always: bool) -> String {
    if !always && redaction::value("", setting) == setting {
        return setting.to_owned();
    }
    let mark = |text: &str| redaction::of_process().mark(text.as_bytes());
    match setting.split_once('=') {
        Some((_, value)) if is_mark(value) => setting.to_owned(),
        Some((key, value)) => format!("{key}={}", mark(value)),
        None => mark(setting),
    }
}

fn environments(request: &Request) -> impl Iterator<Item = &BTreeMap<String, String>> {
    let narrower = request.refs.iter().map(|one| &one.env).chain(request.tests.iter().map(|one| &one.env));
    std::iter::once(&request.env).chain(narrower)
}

/// The settings for cargo, of every ref and of single ones.
fn settings(request: &Request) -> impl Iterator<Item = &String> {
    request.build.config.iter().chain(request.refs.iter().flat_map(|one| &one.config))
}

fn settings_mut(request: &mut Request) -> impl Iterator<Item = &mut String> {
    request.build.config.iter_mut().chain(request.refs.iter_mut().flat_map(|one| &mut one.config))
}

fn environments_mut(request: &mut Request) -> impl Iterator<Item = &mut BTreeMap<String, String>> {
    let of_tests = request.tests.iter_mut().map(|one| &mut one.env);
    let narrower = request.refs.iter_mut().map(|one| &mut one.env).chain(of_tests);
    std::iter::once(&mut request.env).chain(narrower)
}

/// Whether a stored plan lacks a secret.
pub fn lacks_secrets(plan: &Plan) -> bool {
    let overlays = plan.request.overlay.iter().map(|overlay| &overlay.dependencies);
    let values = environments(&plan.request).chain(overlays).flat_map(BTreeMap::values);
    values.into_iter().any(|value| is_mark(value))
        || settings(&plan.request).any(|one| is_sealed(one))
        || programs(&plan.request).flat_map(|program| &program.args).any(|argument| has_mark(argument))
}

fn programs(request: &Request) -> impl Iterator<Item = &ProgramRequest> {
    request.tests.iter().filter_map(|test| test.program.as_ref())
}

/// Puts the secrets back into a cell's arguments. Those of the request are restored already.
pub fn restore_arguments(cell: &mut PlannedCell, request: &Request) {
    let filled = programs(request).filter_map(|program| program.arguments(&cell.cell.params).ok());
    if let Some(args) = filled.into_iter().find(|args| program::sealed(args) == cell.args) {
        cell.args = args;
    }
}

/// Returns the names of the variables whose values a stored request lacks.
pub fn lacked_variables(request: &Request) -> impl Iterator<Item = &str> {
    let lacked = environments(request).flatten().filter(|(_, value)| is_mark(value));
    lacked.map(|(name, _)| name.as_str())
}

fn is_sealed(setting: &str) -> bool {
    is_mark(setting) || setting.split_once('=').is_some_and(|(_, value)| is_mark(value))
}

/// Secrets from this command's flags and matrix. They take the place of the marks in a stored plan.
#[derive(Clone, Debug, Default)]
pub struct GivenSecrets {
    /// Variables, by `--env`, memprof.yaml, and this process's environment.
    pub variables: Vec<(String, String)>,
    /// Settings for cargo.
    pub settings: Vec<String>,
    /// Dependencies of overlays.
    pub dependencies: Vec<(String, String)>,
    /// Arguments of programs, each list as a whole.
    pub arguments: Vec<Vec<String>>,
}

/// Puts secrets back into what was stored.
pub struct Restoration<'a> {
    given: &'a GivenSecrets,
    /// Whether the marks were made with this machine's salt, so that they prove the values.
    is_proven: bool,
    missing: BTreeSet<String>,
    different: BTreeSet<String>,
}

impl<'a> Restoration<'a> {
    /// Begins with these values, for marks that were made on this machine.
    pub fn of_run(given: &'a GivenSecrets) -> Self {
        Self { given, is_proven: true, missing: BTreeSet::new(), different: BTreeSet::new() }
    }

    /// Begins with these values, for marks that may have been made on another machine.
    pub fn of_archive(given: &'a GivenSecrets) -> Self {
        Self { is_proven: false, ..Self::of_run(given) }
    }

    /// Restores a plan. An archive's settings for cargo stay as they are, because it is built
    /// already.
    pub fn plan(&mut self, plan: &mut Plan) {
        for environment in environments_mut(&mut plan.request) {
            self.variables(environment);
        }
        if !self.is_proven {
            return;
        }
        for setting in settings_mut(&mut plan.request).filter(|setting| is_sealed(setting)) {
            let key = setting.split_once('=').map_or("…", |(key, _)| key).to_owned();
            let settings = &self.given.settings;
            if let Some(given) = settings.iter().find(|one| sealed_setting(one, true) == *setting) {
                setting.clone_from(given);
            } else {
                let is_given = settings.iter().any(|one| one.starts_with(&format!("{key}=")));
                self.note(format!("--config '{key}=…'"), is_given);
            }
        }
        for program in plan.request.tests.iter_mut().filter_map(|test| test.program.as_mut()) {
            if !program.args.iter().any(|argument| has_mark(argument)) {
                continue;
            }
            match self.given.arguments.iter().find(|given| program::sealed(given) == program.args) {
                Some(given) => program.args.clone_from(given),
                None => self.note(format!("--{} {} -- ARGS", program.kind.as_str(), program.name), false),
            }
        }
        for overlay in &mut plan.request.overlay {
            let dependencies = overlay.dependencies.iter_mut().filter(|(_, text)| is_mark(text));
            for (name, text) in dependencies {
                match chosen(&self.given.dependencies, name, text, true) {
                    Ok(given) => *text = given,
                    Err(is_given) => self.note(format!("dependencies.{name} in memprof.yaml"), is_given),
                }
            }
        }
    }

    /// Restores variables.
    pub fn variables(&mut self, variables: &mut BTreeMap<String, String>) {
        for (name, value) in variables.iter_mut().filter(|(_, value)| is_mark(value)) {
            match chosen(&self.given.variables, name, value, self.is_proven) {
                Ok(given) => *value = given,
                Err(is_given) => self.note(format!("--env {name}=…"), is_given),
            }
        }
    }

    /// Restores the variables that an archive's builds give to their tests.
    pub fn builds(&mut self, builds: &mut [Build]) -> Result<(), UserError> {
        for build in builds {
            let Build::Done(entry) = build else { continue };
            if entry.provenance.is_runner_redacted() {
                return Err(UserError::new(
                    "the runner of this archive's tests contains a secret, which an archive does not carry",
                )
                .help(
                    "build the archive again with a runner that reads the secret from a file or variable",
                ));
            }
            for executable in &mut entry.provenance.executables {
                self.variables(&mut executable.environment);
            }
        }
        Ok(())
    }

    fn note(&mut self, what: String, is_given: bool) {
        if is_given {
            self.different.insert(what)
        } else {
            self.missing.insert(what)
        };
    }

    /// Fails if a secret is still missing, or is another one.
    pub fn finish(self) -> Result<(), UserError> {
        let list = |names: &BTreeSet<String>| names.iter().cloned().collect::<Vec<_>>().join(" ");
        if !self.different.is_empty() {
            let message = format!("this run started with another value: {}", list(&self.different));
            return Err(UserError::new(message)
                .help("give the same value, or start a new run, because the results are not comparable"));
        }
        if self.missing.is_empty() {
            return Ok(());
        }
        let whose = if self.is_proven { "this run" } else { "this archive" };
        Err(UserError::new(format!("{whose} needs secrets, which are not stored"))
            .help(format!("give them again: {}", list(&self.missing))))
    }
}

/// Returns the value that the mark stands for, or whether there was one with this name at all.
fn chosen(given: &[(String, String)], name: &str, mark: &str, is_proven: bool) -> Result<String, bool> {
    let redactor = redaction::of_process();
    let mut named = given.iter().filter(|(given, _)| given == name).map(|(_, value)| value).peekable();
    let is_given = named.peek().is_some();
    let fits = |value: &&String| !is_proven || redactor.mark(value.as_bytes()) == mark;
    named.find(fits).cloned().ok_or(is_given)
}

#[cfg(test)]
mod tests {
    use super::*;
    use memprof_plan::request::{BuildOptions, TestRequest};

    fn plan() -> Plan {
        let variables = |all: &[(&str, &str)]| -> BTreeMap<String, String> {
            all.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        let request = Request {
            env: variables(&[("API_TOKEN", "abc-secret"), ("BATCH", "8")]),
            tests: vec![TestRequest { env: variables(&[("DB_PASSWORD", "x y")]), ..TestRequest::default() }],
            build: BuildOptions {
                config: vec!["net.retry=3".into(), "registries.my.token=\"def-secret\"".into()],
                ..BuildOptions::default()
            },
            ..Request::default()
        };
        Plan::sample(request)
    }

    fn given() -> GivenSecrets {
        let variables = [("DB_PASSWORD", "x y"), ("API_TOKEN", "abc-secret")];
        GivenSecrets {
            variables: variables.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec(),
            settings: vec!["registries.my.token=\"def-secret\"".into()],
            arguments: Vec::new(),
            dependencies: Vec::new(),
        }
    }

    fn restored(mut plan: Plan, given: &GivenSecrets) -> Result<Plan, String> {
        let mut restoration = Restoration::of_run(given);
        restoration.plan(&mut plan);
        restoration.finish().map(|()| plan).map_err(|error| error.rendered())
    }

    #[test]
    fn a_stored_plan_holds_no_secret_and_becomes_the_same_plan_again() {
        let stored = sealed(&plan());
        let text = serde_json::to_string(&stored).unwrap();
        assert!(!text.contains("secret") && !text.contains("x y"), "{text}");
        assert_eq!(stored.request.env["BATCH"], "8");
        assert_eq!(stored.request.build.config[0], "net.retry=3");
        assert!(stored.request.build.config[1].starts_with("registries.my.token=[redacted, "));
        assert!(lacks_secrets(&stored) && !lacks_secrets(&plan()));
        assert_eq!(sealed(&stored), stored);
        assert_eq!(restored(stored, &given()).unwrap(), plan());
    }

    #[test]
    fn what_is_missing_or_different_is_an_error_that_says_what_to_give() {
        let missing = restored(sealed(&plan()), &GivenSecrets::default()).unwrap_err();
        assert_eq!(
            missing,
            "error: this run needs secrets, which are not stored\n  \
             help: give them again: --config 'registries.my.token=…' --env API_TOKEN=… --env DB_PASSWORD=…"
        );
        let mut other = given();
        other.variables[1].1 = "another".into();
        let different = restored(sealed(&plan()), &other).unwrap_err();
        assert!(different.contains("started with another value: --env API_TOKEN=…"), "{different}");
    }

    #[test]
    fn secret_arguments_are_given_again_as_a_whole() {
        let args = ["--size", "8", "--token", "0123456789ab"].map(str::to_owned).to_vec();
        let kind = memprof_plan::request::TargetKind::Bin;
        let stdin = Some(Stdin::of_text("abc"));
        let program = ProgramRequest { kind, name: "tool".into(), args: args.clone(), stdin, exit_code: 0 };
        let tests = vec![TestRequest { program: Some(program), ..TestRequest::default() }];
        let plan = Plan { request: Request { tests, ..Request::default() }, ..plan() };
        let stored = sealed(&plan);
        assert!(lacks_secrets(&stored) && !serde_json::to_string(&stored).unwrap().contains("0123456789ab"));
        let missing = restored(stored.clone(), &GivenSecrets::default()).unwrap_err();
        assert!(missing.contains("give them again: --bin tool -- ARGS"), "{missing}");
        let given = |token: &str| {
            let list = ["--size", "8", "--token", token].map(str::to_owned).to_vec();
            GivenSecrets { arguments: vec![list], ..GivenSecrets::default() }
        };
        assert!(restored(stored.clone(), &given("another-token")).is_err());
        assert_eq!(restored(stored, &given("0123456789ab")).unwrap(), plan);
    }

    #[test]
    fn an_archive_takes_the_value_that_its_user_gives() {
        let mut stored = sealed(&plan());
        let mut other = given();
        other.variables[1].1 = "of this machine".into();
        let mut restoration = Restoration::of_archive(&other);
        restoration.plan(&mut stored);
        restoration.finish().unwrap();
        assert_eq!(stored.request.env["API_TOKEN"], "of this machine");
    }
}
