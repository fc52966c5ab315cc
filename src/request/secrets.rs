//! The secrets that a stored plan lacks, from the command line, memprof.yaml and the environment.

use std::collections::BTreeMap;

use camino::Utf8Path;

use crate::arguments::request::EnvironmentArguments;
use crate::request::matrix_file;
use crate::request::programs;
use memprof_build::git::repository::Repository;
use memprof_plan::clean_env::own_variables;
use memprof_plan::config::keep::kept;
use memprof_plan::config::yaml::List;
use memprof_plan::request::Request;
use memprof_plan::resolved::Plan;
use memprof_run::stored_plan::{self, GivenSecrets, Restoration};

/// Where the secrets of a run to continue may be.
pub struct SecretSources<'a> {
    /// `--env` and `--clean-env`.
    pub environment: &'a EnvironmentArguments,
    /// `--config`.
    pub config: &'a [String],
    /// The arguments of a program, `-- ARGS`.
    pub arguments: &'a [String],
    /// `--matrix`.
    pub matrix: Option<&'a Utf8Path>,
    /// The repository with memprof.yaml.
    pub repository: &'a Repository,
}

impl SecretSources<'_> {
    /// Returns the secrets that this command was given, for the marks of a stored plan. Reads memprof.yaml only if the plan
    /// lacks some.
    fn given(&self, plan: &Plan) -> anyhow::Result<GivenSecrets> {
        if !stored_plan::lacks_secrets(plan) {
            return Ok(GivenSecrets::default());
        }
        let file = matrix_file::path(self.matrix, self.repository);
        let matrix = file.as_deref().map(matrix_file::read).transpose()?.unwrap_or_default();
        let refs = || matrix.refs.iter().flat_map(|List(entries)| entries);
        let tests = || matrix.tests.iter().flat_map(|List(entries)| entries);
        let of_tests = tests().map(|entry| entry.env.as_ref());
        let of_file = [matrix.env.as_ref()].into_iter().chain(refs().map(|entry| entry.env.as_ref()));
        let mut variables = of_flags(self.environment);
        variables.extend(of_file.chain(of_tests).flat_map(kept::<_, BTreeMap<String, String>>));
        variables.extend(own_variables());
        let mut settings = self.config.to_vec();
        let of_refs = refs().map(|entry| entry.config.as_ref());
        settings.extend([matrix.config.as_ref()].into_iter().chain(of_refs).flat_map(kept::<_, Vec<String>>));
        // A setting may be for one side: new:KEY=VALUE
        let sided = self.config.iter().filter_map(|text| text.split_once(':'));
        settings.extend(sided.map(|(_, setting)| setting.to_owned()));
        let overlays = matrix.overlay.iter().flat_map(|overlay| &overlay.0);
        let dependencies =
            overlays.flat_map(|overlay| kept::<_, BTreeMap<String, String>>(overlay.dependencies.as_ref()));
        let of_entries = tests().map(programs::arguments);
        let arguments = of_entries.chain([self.arguments.to_vec()]).filter(|one| !one.is_empty()).collect();
        Ok(GivenSecrets { variables, settings, dependencies: dependencies.collect(), arguments })
    }

    /// Puts the secrets back into a stored plan.
    ///
    /// # Errors
    ///
    /// A secret is missing or differs, and a run that did not start with `--clean-env`.
    pub fn restore(&self, plan: &mut Plan) -> anyhow::Result<GivenSecrets> {
        let given = self.given(plan)?;
        let mut restoration = Restoration::of_run(&given);
        restoration.plan(plan);
        restoration.finish()?;
        stored_plan::learn(&plan.request);
        Ok(given)
    }
}

/// Returns the variables of `--env`.
pub fn of_flags(flags: &EnvironmentArguments) -> Vec<(String, String)> {
    flags.env.iter().map(|variable| (variable.name.clone(), variable.value.clone())).collect()
}

/// Returns the names of the variables that `--clean-env` removes here, for `--dry-run`; `None`
/// without it.
pub fn removed_variables(request: &Request) -> Option<Vec<String>> {
    request.clean_env.as_ref().map(|clean_env| clean_env.removed(own_variables()))
}
