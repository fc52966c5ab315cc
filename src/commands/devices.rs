//! The devices of a command's tests, and the processes that `--courtesy` sets aside on them while the
//! tests run.

use std::collections::BTreeSet;

use crate::arguments::courtesy::CourtesyTarget;
use crate::arguments::waiting::WaitingArguments;
use crate::commands::context::CommandContext;
use crate::commands::courtesy::list_refused;
use memprof_gpu::courtesy::note::{Note, Notes};
use memprof_gpu::courtesy::process::CONSENT;
use memprof_gpu::courtesy::taking::{Courtesy, SetAside, Wanted};
use memprof_gpu::devices::CudaDevice;
use memprof_gpu::watch::DeviceWatch;
use memprof_plan::resolved::Plan;
use memprof_run::guards::Guard;
use memprof_run::runner::{Completion, Runner};
use memprof_support::event::{Event, Sink};
use memprof_support::exit_code::ExitCode;
use memprof_support::user_error::UserError;

/// Finds the devices. Checks those of the plan and `--courtesy` before anything is built, and says
/// what an earlier run left aside.
pub fn open<'a>(
    context: CommandContext<'a>,
    waiting: WaitingArguments,
    courtesy: Option<&'a CourtesyTarget>,
    plan: &Plan,
) -> anyhow::Result<(DeviceWatch<'a>, CourtesyGuard<'a>)> {
    let CommandContext { console, interrupt } = context;
    let devices = DeviceWatch::open(waiting.when_held(), console, interrupt);
    devices.check(plan.request.tests.iter().filter_map(|test| test.devices.as_ref()))?;
    plan.request.settings.device_pool.iter().try_for_each(|names| devices.pool(names).map(drop))?;
    offer_abandoned(console);
    if let Some(target) = courtesy {
        Courtesy::open(console, interrupt)?.select(&wanted(target, plan, &devices)?)?;
    }
    Ok((devices, CourtesyGuard { context, target: courtesy, devices: BTreeSet::new(), aside: None }))
}

/// Says which processes a killed run of this program left aside.
fn offer_abandoned(sink: &dyn Sink) {
    for note in Notes::open().own().into_iter().filter(Note::is_abandoned) {
        sink.emit(Event::Warning {
            message: format!("{note} is still set aside, since {}: {} was killed", note.since, note.by),
            help: Some(format!("cargo memprof restore {}", note.process)),
        });
    }
}

/// The processes that `--courtesy` names. Those that are set aside are restored when this is dropped.
pub struct CourtesyGuard<'a> {
    context: CommandContext<'a>,
    target: Option<&'a CourtesyTarget>,
    /// The tests' devices that the processes use.
    devices: BTreeSet<CudaDevice>,
    aside: Option<SetAside<'a>>,
}

impl CourtesyGuard<'_> {
    /// Sets the processes aside.
    pub fn take(&mut self, plan: &Plan, devices: &DeviceWatch<'_>) -> anyhow::Result<()> {
        let (Some(target), CommandContext { console, interrupt }) = (self.target, self.context) else {
            return Ok(());
        };
        let mut used: BTreeSet<CudaDevice> = used(plan, devices)?.into_iter().collect();
        if plan.request.settings.device_pool.is_none() {
            // First in line, then set aside: processes need not wait for this run's turn. Of a pool, the
            // run takes what is free.
            devices.hold(&used)?;
        }
        let courtesy = Courtesy::open(console, interrupt)?;
        let selection = courtesy.select(&wanted(target, plan, devices)?)?;
        list_refused(self.context, &selection);
        if selection.candidates.is_empty() {
            console.emit(Event::Warning {
                message: "no process is set aside: none on the tests' GPUs can be".to_owned(),
                help: Some(format!(
                    "start it with {CONSENT}=1 in its environment, or name it: --courtesy PID"
                )),
            });
            return Ok(());
        }
        used.retain(|device| selection.candidates.iter().any(|candidate| candidate.may_use(device)));
        self.devices = used;
        let aside = self.aside.insert(courtesy.set_aside(&selection.candidates)?);
        for text in aside.lines() {
            console.emit(Event::MemorySetAside { text });
        }
        Ok(())
    }

    /// Restores what was set aside, after a search that has let others use the devices. Returns the code
    /// for processes that could not be restored.
    pub fn put_back_in_turn(&mut self, waiting: WaitingArguments) -> ExitCode {
        if self.aside.is_none() {
            return ExitCode::Success;
        }
        let CommandContext { console, interrupt } = self.context;
        self.put_back(&DeviceWatch::open(waiting.when_held(), console, interrupt))
    }

    /// Restores what was set aside while no other run uses the devices: the driver's restore must not
    /// run out of memory.
    fn put_back(&mut self, devices: &DeviceWatch<'_>) -> ExitCode {
        let Some(aside) = self.aside.take() else { return ExitCode::Success };
        if let Err(error) = devices.hold_at_end(&self.devices) {
            let message =
                format!("cannot keep other runs off the GPUs while processes are restored: {error:#}");
            self.context.console.emit(Event::Warning { message, help: None });
        }
        if aside.put_back() { ExitCode::Success } else { ExitCode::Incomplete }
    }
}

impl Guard for CourtesyGuard<'_> {
    fn enter(&mut self, runner: &Runner<'_>) -> anyhow::Result<()> {
        self.take(runner.plan, &runner.conditions.devices)
    }

    fn leave(&mut self, runner: &Runner<'_>, _: &Completion) -> anyhow::Result<ExitCode> {
        Ok(self.put_back(&runner.conditions.devices))
    }
}

fn wanted(target: &CourtesyTarget, plan: &Plan, devices: &DeviceWatch<'_>) -> Result<Wanted, UserError> {
    match target {
        CourtesyTarget::Processes(ids) => Ok(Wanted::Processes(ids.clone())),
        CourtesyTarget::OptedIn => Ok(Wanted::OptedIn(used(plan, devices)?)),
    }
}

/// Returns the devices that the tests can use, as far as this is known before they are built.
fn used(plan: &Plan, devices: &DeviceWatch<'_>) -> Result<Vec<CudaDevice>, UserError> {
    let variable = |name: &str| plan.request.env.get(name).cloned().or_else(|| std::env::var(name).ok());
    let given: Vec<_> = plan.request.tests.iter().map(|test| test.devices.as_ref()).collect();
    let mut used = Vec::new();
    let pool = plan.request.settings.device_pool.as_ref();
    if let Some(pool) = pool {
        used.extend(devices.pool(pool)?);
    }
    for names in if given.is_empty() { vec![None] } else { given } {
        used.extend(match names {
            Some(names) => devices.given(names)?,
            // The test runs on a device of the pool, whatever else it could see.
            None if pool.is_some() => Vec::new(),
            None => devices.visible(variable),
        });
    }
    used.sort();
    used.dedup();
    Ok(used)
}
