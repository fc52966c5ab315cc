//! `yield` and `restore`.

use std::fmt::Write as _;

use crate::arguments::courtesy::{RestoreArguments, YieldArguments};
use crate::commands::context::CommandContext;
use memprof_gpu::courtesy::candidate::Place;
use memprof_gpu::courtesy::note::{Note, Notes};
use memprof_gpu::courtesy::process::{CONSENT, ProcessFacts};
use memprof_gpu::courtesy::refusal::{Refusal, Stopped};
use memprof_gpu::courtesy::taking::{Courtesy, Selection, Wanted, outcome};
use memprof_gpu::devices::CudaDevice;
use memprof_gpu::visible_devices;
use memprof_support::bytes::Bytes;
use memprof_support::event::{Event, Sink};
use memprof_support::exit_code::ExitCode;
use memprof_support::user_error::UserError;

/// Sets processes aside, and leaves them so.
pub fn yield_memory(context: CommandContext<'_>, arguments: &YieldArguments) -> anyhow::Result<ExitCode> {
    let courtesy = Courtesy::open(context.console, context.interrupt)?;
    let wanted = match &arguments.device[..] {
        [] => Wanted::Processes(arguments.processes.clone()),
        names => Wanted::OptedIn(visible_devices::named(courtesy.devices(), names)?),
    };
    let selection = courtesy.select(&wanted)?;
    list_refused(context, &selection);
    if let (Wanted::OptedIn(devices), []) = (&wanted, &selection.candidates[..]) {
        return Err(nobody_opted_in(devices, &selection.refused).into());
    }
    let before = courtesy.places();
    let aside = match courtesy.set_aside(&selection.candidates) {
        Ok(aside) => aside,
        Err(error) => return Ok(not_set_aside(context, &error)),
    };
    let mut text = String::new();
    for line in aside.lines() {
        _ = writeln!(text, "set aside {line}");
    }
    _ = write!(text, "{}", differences(&before, &aside.places()));
    let ids: Vec<String> = selection.candidates.iter().map(|one| one.process.id.to_string()).collect();
    _ = writeln!(text, "to restore: cargo memprof restore {}", ids.join(" "));
    aside.keep()?;
    context.print(&text)
}

/// Prints why nothing was set aside. Runs and `--resume`, which other commands name after Ctrl-C, do
/// not exist here.
fn not_set_aside(context: CommandContext<'_>, error: &anyhow::Error) -> ExitCode {
    if !error.is::<Stopped>() {
        return context.console.fail(error);
    }
    let own = |note: &Note| note.by.process == std::process::id();
    let left: Vec<String> = Notes::open().own().iter().filter(|it| own(it)).map(Note::to_string).collect();
    context.console.show_error(&match &left[..] {
        [] => UserError::new("interrupted; nothing is set aside"),
        left => UserError::new(format!("interrupted; still set aside: {}", left.join(", ")))
            .help("cargo memprof restore"),
    });
    ExitCode::Interrupted
}

/// Restores processes.
pub fn restore(context: CommandContext<'_>, arguments: &RestoreArguments) -> anyhow::Result<ExitCode> {
    let notes = Notes::open().own();
    if arguments.processes.is_empty() && notes.is_empty() {
        return context.print("nothing is set aside\n");
    }
    let courtesy = Courtesy::open(context.console, context.interrupt)?;
    let mut chosen = match &arguments.processes[..] {
        [] => not_in_use(context, notes),
        ids => named(&courtesy, &notes, ids)?,
    };
    // The last one first: one that was set aside earlier fits beside those that ran on then.
    chosen.sort_by(|one, other| (&other.since, other.process).cmp(&(&one.since, one.process)));
    let mut failures = Vec::new();
    for note in chosen {
        match courtesy.put_back(&note) {
            Ok(returned) => context.console.print(&format!("restored {}\n", outcome(&note, returned)))?,
            Err(error) => failures.push(error),
        }
    }
    // Each is an error of its own process, and the others were still restored.
    let codes = failures.iter().map(|error| context.console.fail(error));
    Ok(codes.fold(ExitCode::Success, ExitCode::worst))
}

/// Returns the notes without those that a comparison under way needs.
fn not_in_use(context: CommandContext<'_>, notes: Vec<Note>) -> Vec<Note> {
    let (in_use, free): (Vec<Note>, Vec<Note>) = notes.into_iter().partition(Note::is_in_use);
    for note in in_use {
        context.console.emit(Event::Warning {
            message: format!("{note} stays aside: {} restores it at its end", note.by),
            help: Some(format!("to restore it now: cargo memprof restore {}", note.process)),
        });
    }
    free
}

fn named(courtesy: &Courtesy<'_>, notes: &[Note], ids: &[u32]) -> anyhow::Result<Vec<Note>> {
    let note = |id: &u32| -> anyhow::Result<Note> {
        if let Some(note) = notes.iter().find(|note| note.process == *id) {
            return Ok(note.clone());
        }
        let process =
            ProcessFacts::read(*id).ok_or_else(|| UserError::new(format!("there is no process {id}")))?;
        let found = courtesy.found_aside(&process)?;
        found.ok_or_else(|| UserError::new(format!("{process} is not set aside")).into())
    };
    ids.iter().map(note).collect()
}

/// Says which processes cannot be set aside, and why.
pub fn list_refused(context: CommandContext<'_>, selection: &Selection) {
    for refusal in &selection.refused {
        let (message, help) = (refusal.reason.clone(), refusal.help.clone());
        context.console.emit(Event::Warning { message, help });
    }
}

fn nobody_opted_in(devices: &[CudaDevice], refused: &[Refusal]) -> UserError {
    let devices: Vec<String> = devices.iter().map(CudaDevice::to_string).collect();
    let others = if refused.is_empty() { "no process of yours is there" } else { "see above" };
    UserError::new(format!("no process on {} can be set aside ({others})", devices.join(", "))).help(format!(
        "name processes (cargo memprof yield PID), or start them with {CONSENT}=1 in their environment"
    ))
}

/// Returns a line for each device whose use changed.
fn differences(before: &[Place], after: &[Place]) -> String {
    let mut text = String::new();
    for ((device, before), (_, after)) in before.iter().zip(after) {
        if let (Ok(before), Ok(after)) = (&before.used, &after.used)
            && before != after
        {
            _ = writeln!(text, "{device}: {} were in use, now {}", Bytes(*before), Bytes(*after));
        }
    }
    text
}
