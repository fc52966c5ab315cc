//! One call of cargo: it builds a checkout through the wrapper, and runs each test executable through the runner that
//! notes how.

use std::collections::BTreeMap;
use std::io::Write;

use anyhow::Context;
use camino::Utf8PathBuf;

use crate::build::adapters;
use crate::build::build_key::requested_environment;
use crate::build::builder::Builder;
use crate::build::prepared_source::Laid;
use crate::build::shim::{self, Shim};
use crate::build::store::Ingredients;
use crate::build::wrapper;
use crate::cargo::command::{self, Messages};
use crate::cargo::configuration::{self, CargoConfig};
use crate::cargo::toolchain::Toolchain;
use crate::support::event::Event;
use crate::support::user_error::Complaint;

/// What a call of cargo left.
pub(crate) struct Compiled {
    pub(crate) messages: Messages,
    pub(crate) stderr: String,
    pub(crate) success: bool,
    pub(crate) notes: tempfile::TempDir,
    /// What it was built for, where that is not the machine that builds.
    pub(crate) target: Option<String>,
}

impl Builder<'_> {
    /// Calls cargo: it builds, and runs each test executable through the runner that notes.
    pub(crate) fn compile(
        &self,
        index: usize,
        toolchain: &Toolchain,
        ingredients: &Ingredients,
        laid: &Laid,
        log: &mut fs_err::File,
    ) -> anyhow::Result<Compiled> {
        let config = CargoConfig::read(&self.workspace(), &self.plan.request.build.config)?;
        let target = self.triple(index, &config, toolchain)?;
        let target = target.as_deref();
        let shim = Shim::compiled(&self.cache.shim(), toolchain, target)?;
        let links = self.wrapper_links()?;
        let is_traced = !laid.copies.is_empty() || !laid.tracing.is_empty();
        // A traced crate may be one that a build script or a procedural macro uses too.
        let of_build = match target {
            Some(_) if is_traced => Some(Shim::compiled(&self.cache.shim(), toolchain, None)?),
            _ => None,
        };
        let with_build = |mut wrapping: wrapper::Shim| {
            wrapping.in_build = of_build.as_ref().map(|shim| shim.in_build(&wrapping));
            wrapping
        };
        let wrapping = with_build(shim.wrapping(config.workspace_wrapper()));
        let lock = laid.manifest.with_file_name("Cargo.lock");
        let lock = fs_err::read_to_string(lock).unwrap_or_default();
        let wrapping = wrapper::Shim { adapters: shim.adapters(&lock, target), ..wrapping };
        let notes = tempfile::tempdir()?;
        let triple = target.unwrap_or(toolchain.host());
        let revision = &self.plan.revisions[index];
        let command = toolchain
            .cargo()
            .current_dir(self.workspace())
            .args(configuration::with_runner(
                &ingredients.arguments,
                triple,
                &links.join(wrapper::NOTE_NAME),
            )?)
            .arg("--manifest-path")
            .arg(&laid.manifest)
            .envs(requested_environment(self.plan, index))
            .env("RUSTC_WORKSPACE_WRAPPER", links.join(wrapper::WRAP_NAME))
            .env(command::runner_variable(triple), links.join(wrapper::NOTE_NAME))
            .env(wrapper::SHIM, serde_json::to_string(&wrapping)?)
            .env(wrapper::NOTES, notes.path())
            .env("CARGO_TERM_COLOR", "never");
        let command = if laid.copies.is_empty() && !laid.tracing.is_beyond_members() {
            command
        } else {
            let dependencies = wrapper::Dependencies {
                shim: with_build(shim.wrapping_dependencies(config.compiler_wrapper())),
                checkout: self.worktree.path().to_owned().into(),
                copies: laid.copies.iter().map(|copy| copy.place.clone()).collect(),
            };
            command
                .env("RUSTC_WRAPPER", links.join(wrapper::WRAP_DEPENDENCY_NAME))
                .env(wrapper::DEPENDENCIES, serde_json::to_string(&dependencies)?)
        };
        let given: BTreeMap<String, String> = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .chain(requested_environment(self.plan, index))
            .chain([("CARGO_TERM_COLOR".to_owned(), "never".to_owned())])
            .collect();
        fs_err::write(notes.path().join(wrapper::GIVEN), serde_json::to_vec(&given)?)?;

        writeln!(log, "$ {command}")?;
        let mut messages = Messages::default();
        let mut compiled = 0;
        let mut stderr = String::new();
        let status = command.stream(
            self.interrupt,
            |line| {
                if let Some(crate_name) = messages.take(line, adapters::is_left_out) {
                    compiled += 1;
                    let name = revision.name.clone();
                    self.sink.emit(Event::BuildProgress { name, crate_name, compiled });
                }
            },
            |line| {
                stderr.push_str(&String::from_utf8_lossy(line));
                stderr.push('\n');
            },
        )?;
        log.write_all(stderr.as_bytes())?;
        for error in &messages.errors {
            writeln!(log, "{}", error.message.rendered.as_deref().unwrap_or(&error.message.message))?;
        }
        let target = target.filter(|target| *target != toolchain.host()).map(str::to_owned);
        Ok(Compiled { messages, stderr, success: status.success(), notes, target })
    }

    /// The target that is built for, where that is said: by the request, or by what cargo finds in the revision's checkout.
    pub(crate) fn triple(
        &self,
        index: usize,
        config: &CargoConfig,
        toolchain: &Toolchain,
    ) -> Result<Option<String>, Complaint> {
        const VARIABLE: &str = "CARGO_BUILD_TARGET";
        if let Some(target) = &self.plan.request.build.target {
            return Ok(Some(target.clone()));
        }
        let requested = requested_environment(self.plan, index).remove(VARIABLE);
        let variable = requested.or_else(|| std::env::var(VARIABLE).ok());
        config.build_target(variable, toolchain.host())
    }

    /// The folder of the two names under which cargo calls this program. Its path holds the shim's hash, which is how
    /// cargo learns that the shim changed: it fingerprints the wrapper's path, and neither its content nor its environment.
    fn wrapper_links(&self) -> anyhow::Result<Utf8PathBuf> {
        let folder = self.cache.wrapper().join(shim::source_hash());
        fs_err::create_dir_all(&folder)?;
        let program = std::env::current_exe().context("cannot find this program's own file")?;
        for name in [wrapper::WRAP_NAME, wrapper::WRAP_DEPENDENCY_NAME, wrapper::NOTE_NAME] {
            let link = folder.join(name);
            if fs_err::read_link(&link).ok().as_ref() != Some(&program) {
                let partial = folder.join(format!("{name}.partial"));
                let _ = fs_err::remove_file(&partial);
                fs_err::os::unix::fs::symlink(&program, &partial)?;
                fs_err::rename(&partial, &link)?;
            }
        }
        Ok(folder)
    }
}
