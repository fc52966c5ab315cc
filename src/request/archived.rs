//! The plan, the cells and the builds of an archive, with what the flags say here.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use camino::Utf8Path;

use crate::arguments::request::RequestArguments;
use crate::arguments::run::RunArguments;
use crate::arguments::why::WhyArguments;
use crate::request::continued::refuse_new_pool;
use crate::request::judging::add_judging;
use crate::request::secrets::of_flags;
use memprof_build::attempts::Build;
use memprof_judge::compare::{budget, noise};
use memprof_plan::cells::PlannedCell;
use memprof_plan::clean_env::CleanEnv;
use memprof_plan::config::keep::Keep;
use memprof_plan::config::yaml::Scalar;
use memprof_plan::jobs::of_neighbours;
use memprof_plan::metric;
use memprof_plan::repeat::Repeat;
use memprof_plan::request::TestRequest;
use memprof_plan::resolved::{self, CellId, Plan};
use memprof_run::archive::consistency;
use memprof_run::archive::contents::TIMES;
use memprof_run::archive::extracted_tree::{ExtractedTree, packed_builds};
use memprof_run::archive::unpacked::Unpacked;
use memprof_run::left_out::LeftOut;
use memprof_run::own_shard::OwnShard;
use memprof_run::prepared::Prepared;
use memprof_run::stored_plan::{self, GivenSecrets, Restoration};
use memprof_support::redaction;
use memprof_support::user_error::UserError;

/// # Errors
///
/// Types are asked for, and the archive was built without names that have them.
pub fn refuse_untyped(plan: &Plan, why: &WhyArguments) -> Result<(), UserError> {
    let Some(by) = why.why_by.filter(|by| by.needs_typed_names() && !plan.request.typed_names) else {
        return Ok(());
    };
    let by = by.as_str();
    Err(UserError::new(format!("--why-by {by}: the archive was built without names that have types"))
        .help(format!("to build it with them: cargo memprof build --archive FILE --why-by {by}")))
}

/// What an archive says, and the flags.
pub struct Archived<'a> {
    unpacked: &'a Unpacked,
    /// The plan of the archive, or of the run of it that continues.
    pub plan: Plan,
    cells: Vec<PlannedCell>,
    /// The tests as they were packed.
    tests: Vec<TestRequest>,
    /// How often they were to run; `None` if a flag says that.
    repeat: Option<Repeat>,
    /// The secrets that the archive does not carry.
    secrets: GivenSecrets,
}

impl<'a> Archived<'a> {
    /// Reads an archive's plan, with the rules of the flags.
    pub fn read(unpacked: &'a Unpacked, arguments: &RunArguments) -> anyhow::Result<Self> {
        let flags = &arguments.request.judging;
        let mut plan: Plan = unpacked.read_json("plan.json")?;
        add_judging(&mut plan.request.judging, flags);
        if let Some(file) = &flags.noise {
            plan.request.judging.noise = noise::read(file)?;
        }
        if let Some(file) = flags.budget() {
            plan.request.judging.budget = Some(budget::read(&file, file.as_str())?);
        }
        if plan.version != resolved::VERSION {
            return Err(unpacked.invalid(format!("its plan has format {}", plan.version)));
        }
        let cells: Vec<PlannedCell> = unpacked.read_json("cells.json")?;
        consistency::check(&plan, &cells, unpacked.manifest.revisions.len())
            .map_err(|problem| unpacked.invalid(problem))?;
        let (tests, repeat) = (plan.request.tests.clone(), Some(plan.request.settings.repeat));
        Ok(Self { unpacked, plan, cells, tests, repeat, secrets: GivenSecrets::default() })
    }

    /// Puts into the plan what the flags say about the runs.
    ///
    /// # Errors
    ///
    /// The plan or a build lacks a variable, or `--env` names one that none lacks.
    pub fn apply(&mut self, arguments: &RunArguments) -> anyhow::Result<()> {
        self.take_secrets(&arguments.request)?;
        let request = &mut self.plan.request;
        if let Some(Scalar(repeat)) = arguments.request.settings.repeat {
            (request.settings.repeat, self.repeat) = (repeat, None);
        }
        if let Some(Scalar(jobs)) = arguments.request.settings.jobs {
            request.settings.jobs = jobs;
        }
        arguments.execution.apply(&mut self.plan);
        Ok(())
    }

    /// Takes the variables of `--env`. `--clean-env` also applies to an archive that was made without it.
    fn take_secrets(&mut self, flags: &RequestArguments) -> anyhow::Result<()> {
        let plan = &mut self.plan;
        if flags.settings.clean_env.is_some() || plan.request.clean_env.is_some() {
            let packed = plan.request.clean_env.take().unwrap_or_default();
            let keep = flags.settings.keep_env.as_ref().map_or(packed.keep, Keep::keep);
            plan.request.clean_env = Some(CleanEnv { keep });
        }
        let given = GivenSecrets { variables: of_flags(&flags.environment), ..GivenSecrets::default() };
        let mut builds = packed_builds(self.unpacked)?;
        let of_builds = builds.iter().filter_map(Build::entry);
        let of_builds = of_builds.flat_map(|entry| entry.provenance.redacted_variables());
        let lacked: BTreeSet<String> =
            stored_plan::lacked_variables(&plan.request).chain(of_builds).map(str::to_owned).collect();
        if let Some((name, _)) = given.variables.iter().find(|(name, _)| !lacked.contains(name)) {
            let message = format!("--env {name}: this archive lacks no value of this name");
            let help = "an archive's variables are set when it is built: cargo memprof build --archive FILE --env NAME=VALUE";
            return Err(UserError::new(message).help(help).into());
        }
        let mut restoration = Restoration::of_archive(&given);
        restoration.plan(plan);
        restoration.builds(&mut builds)?;
        restoration.finish()?;
        // Each of them is a secret: the archive lacks its value.
        redaction::change(|redactor| {
            given.variables.iter().for_each(|(_, value)| redactor.learn_value(value));
        });
        self.secrets = given;
        Ok(())
    }

    /// Continues a run of the archive.
    pub fn resume(&mut self, plan: Plan, arguments: &RunArguments) -> anyhow::Result<()> {
        self.plan = plan;
        let mut restoration = Restoration::of_run(&self.secrets);
        restoration.plan(&mut self.plan);
        restoration.finish()?;
        let devices = arguments.execution.devices();
        refuse_new_pool(devices.as_deref(), &self.plan)?;
        self.plan.request.spread_over(devices);
        Ok(())
    }

    /// Adds a note about the run, unless the plan has it. Returns whether the plan changed.
    pub fn note(&mut self, note: Option<&String>) -> bool {
        let added = note.filter(|note| !self.plan.notes.contains(note)).cloned();
        let is_new = added.is_some();
        self.plan.notes.extend(added);
        is_new
    }

    /// Adds the metrics of the flags, which are read on request, to those of the build machine.
    pub fn add_metrics(&mut self, metrics: &[String]) {
        let request = &mut self.plan.request;
        let given = || metrics.iter().map(String::as_str);
        request.judging.asked.extend_from_slice(metrics);
        request.derived = metric::derived(given().chain(request.derived.iter().map(String::as_str)));
        request.on_request = metric::on_request(given().chain(request.on_request.iter().map(String::as_str)));
        if !metrics.is_empty() {
            request.alone_for = of_neighbours(given()).map(str::to_owned);
        }
    }

    /// Returns what runs, with the archive's files.
    pub fn prepare(&self, tree: ExtractedTree<'a>) -> anyhow::Result<Prepared<ExtractedTree<'a>>> {
        let mut cells = self.cells()?;
        let shard = OwnShard::keep(&self.plan, &mut cells, &self.packed_times()?);
        let mut builds = tree.builds()?;
        let mut restoration = Restoration::of_archive(&self.secrets);
        restoration.builds(&mut builds)?;
        restoration.finish()?;
        Ok(Prepared { tree, builds, baseline: None, cells, shard, left_out: LeftOut::default() })
    }

    /// The archive's cells, with the devices and repeats of the flags, given now or when the run that
    /// continues started.
    fn cells(&self) -> anyhow::Result<Vec<PlannedCell>> {
        let mut cells = self.cells.clone();
        let mut restoration = Restoration::of_archive(&self.secrets);
        for cell in &mut cells {
            restoration.variables(&mut cell.env);
        }
        restoration.finish()?;
        let request = &self.plan.request;
        // The flag gives the same devices to all tests, so the first one has them.
        if let Some(test) = request.tests.first().filter(|_| request.tests != self.tests) {
            for cell in &mut cells {
                cell.devices.clone_from(&test.devices);
            }
        }
        // The flag wins over the repeats of single tests.
        if self.repeat != Some(request.settings.repeat) {
            for cell in &mut cells {
                cell.repeat = request.settings.repeat;
            }
        }
        Ok(cells)
    }

    /// How long the tests took before the archive was made. Earlier versions packed no times.
    fn packed_times(&self) -> anyhow::Result<BTreeMap<CellId, Duration>> {
        if !self.unpacked.manifest.contents.contains_key(Utf8Path::new(TIMES)) {
            return Ok(BTreeMap::new());
        }
        let times: Vec<(CellId, u64)> = self.unpacked.read_json(TIMES)?;
        Ok(times.into_iter().map(|(cell, nanoseconds)| (cell, Duration::from_nanos(nanoseconds))).collect())
    }
}
