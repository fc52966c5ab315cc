//! Finds the processes that may be set aside, sets them aside, and restores them: at the end, after
//! an error, and while a panic unwinds.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::courtesy::candidate::{Candidate, Need, Place};
use crate::courtesy::checks::{self, Circumstances};
use crate::courtesy::driver::{CallError, CheckpointDriver, NOT_READY, State};
use crate::courtesy::held::Held;
use crate::courtesy::host_memory;
use crate::courtesy::note::{Note, Notes};
use crate::courtesy::process::{self, CONSENT, ProcessFacts};
use crate::courtesy::refusal::{Refusal, Stopped};
use crate::courtesy::returning::{Returned, Returning, WithoutRoom};
use crate::courtesy::room::{self, DeviceNow, Lack};
use crate::devices::{CudaDevice, Device, Devices};
use crate::nvml::{self, Nvml, ProcessIds};
use memprof_support::advice;
use memprof_support::bytes::Bytes;
use memprof_support::elapsed;
use memprof_support::event::{Event, Sink};
use memprof_support::termination;
use memprof_support::user_error::UserError;

/// Which processes are meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// These, which the user named.
    Processes(Vec<u32>),
    /// All on these devices that opted in.
    OptedIn(Vec<CudaDevice>),
}

/// What was found.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Processes that can be set aside.
    pub candidates: Vec<Candidate>,
    /// The other processes on the devices, with the reasons.
    pub refused: Vec<Refusal>,
}

/// The driver and the notes.
pub struct Courtesy<'a> {
    driver: CheckpointDriver,
    nvml: Option<Nvml>,
    devices: Devices,
    notes: Notes,
    sink: &'a dyn Sink,
    interrupt: &'a AtomicBool,
}

impl<'a> Courtesy<'a> {
    /// Loads the driver.
    ///
    /// # Errors
    /// There is none, or it is too old.
    pub fn open(sink: &'a dyn Sink, interrupt: &'a AtomicBool) -> Result<Self, UserError> {
        if !nvml::may_have_devices() {
            return Err(UserError::new(
                "this machine has no NVIDIA driver, and only that can set GPU memory aside",
            )
            .help("`cargo memprof doctor` shows which GPUs there are"));
        }
        let nvml = Nvml::open().ok();
        let devices = nvml.as_ref().and_then(|nvml| nvml.devices().ok()).unwrap_or_default();
        let driver = CheckpointDriver::open(devices.driver.as_deref())?;
        Ok(Self { driver, nvml, devices, notes: Notes::open(), sink, interrupt })
    }

    /// Returns the processes, and changes nothing.
    ///
    /// # Errors
    /// One that the user named is refused, NVML does not say what is free on its devices, or host memory
    /// is too small.
    pub fn select(&self, wanted: &Wanted) -> Result<Selection, UserError> {
        let places = self.places();
        let candidate = |process| Candidate::new(process, &self.devices.devices, &places, ProcessIds::here());
        let selection = match wanted {
            Wanted::Processes(ids) => self.named(ids, candidate)?,
            Wanted::OptedIn(devices) => self.opted_in(devices, candidate),
        };
        let now = self.devices_now();
        if let Some(refusal) = selection.candidates.iter().find_map(|one| checks::of_readings(one, &now)) {
            return Err(refusal.into());
        }
        let need = Need::of_candidates(&selection.candidates, &places);
        let rooms = selection.candidates.iter().filter_map(|one| host_memory::available_to(one.process.id));
        let least = rooms.min_by_key(|room| room.bytes);
        match least.and_then(|least| checks::of_room(need, &least)) {
            Some(refusal) => Err(refusal.into()),
            None => Ok(selection),
        }
    }

    fn named(
        &self,
        ids: &[u32],
        candidate: impl Fn(ProcessFacts) -> Candidate,
    ) -> Result<Selection, UserError> {
        let mut selection = Selection::default();
        for id in ids.iter().copied().collect::<BTreeSet<u32>>() {
            let Some(process) = ProcessFacts::read(id) else {
                selection.refused.push(Refusal::new(format!("there is no process {id}")));
                continue;
            };
            let candidate = candidate(process);
            match self.refusal(&candidate) {
                Some(refusal) => selection.refused.push(refusal),
                None => selection.candidates.push(candidate),
            }
        }
        let Some(first) = selection.refused.first().cloned() else { return Ok(selection) };
        let reasons: Vec<&str> = selection.refused.iter().map(|refusal| refusal.reason.as_str()).collect();
        Err(Refusal { reason: reasons.join("\n       "), ..first }.into())
    }

    fn opted_in(&self, devices: &[CudaDevice], candidate: impl Fn(ProcessFacts) -> Candidate) -> Selection {
        let mut selection = Selection::default();
        for process in ProcessFacts::all() {
            let candidate = candidate(process);
            let is_here = candidate.devices.iter().any(|device| devices.contains(device));
            if !is_here || candidate.process.id == std::process::id() {
                continue;
            }
            match self.refusal(&candidate) {
                Some(refusal) => selection.refused.push(refusal),
                None if candidate.process.opted_in => selection.candidates.push(candidate),
                None => selection.refused.push(not_opted_in(&candidate.process)),
            }
        }
        selection
    }

    fn refusal(&self, candidate: &Candidate) -> Option<Refusal> {
        let note = self.notes.find(candidate.process.id);
        let state = self.driver.state(candidate.process.id);
        checks::of_process(
            candidate,
            Circumstances {
                own_process: std::process::id(),
                own_user: rustix::process::geteuid().as_raw(),
                note: note.as_ref(),
                state: state.as_ref().copied(),
            },
        )
    }

    /// Sets these processes aside, all or none.
    ///
    /// # Errors
    /// One failed, or the user pressed Ctrl-C. Those before it are restored.
    pub fn set_aside(self, candidates: &[Candidate]) -> anyhow::Result<SetAside<'a>> {
        termination::note_memory_aside(true);
        let mut aside = SetAside { courtesy: self, taken: Vec::new() };
        for candidate in candidates {
            aside.courtesy.expect_no_interrupt()?;
            let taken = aside.courtesy.take(candidate)?;
            aside.taken.push(taken);
        }
        aside.courtesy.expect_no_interrupt()?;
        Ok(aside)
    }

    fn expect_no_interrupt(&self) -> Result<(), Stopped> {
        if self.interrupt.load(Ordering::Relaxed) { Err(Stopped) } else { Ok(()) }
    }

    fn take(&self, candidate: &Candidate) -> anyhow::Result<Taken> {
        let (process, began) = (&candidate.process, Instant::now());
        let devices = candidate.devices.iter().map(|device| device.uuid.clone()).collect();
        let mut note = Note::for_process(process, devices, candidate.bytes);
        if !self.notes.add(&note)? {
            let reason = format!("{process} cannot be set aside: another program does it right now");
            return Err(UserError::new(reason).help(format!("cargo memprof restore {}", process.id)).into());
        }
        // Processes before this one may have taken minutes, and the id may be another process's by now.
        if !note.is_of_living() {
            self.notes.remove(&note)?;
            return Err(UserError::new(format!("{process} cannot be set aside: it has ended")).into());
        }
        let before = self.places();
        let called = self.driver.lock(process.id).and_then(|()| self.driver.checkpoint(process.id));
        let state = called.and_then(|()| self.driver.state(process.id));
        if state == Ok(State::SetAside) {
            note.held = self.held(candidate, &before);
            if let Err(error) = self.notes.replace(&note) {
                self.undo(&note);
                return Err(error);
            }
            let places = candidate.devices.iter().map(CudaDevice::to_string).collect();
            return Ok(Taken { note, places, took: began.elapsed() });
        }
        self.undo(&note);
        Err(not_taken(process, state).into())
    }

    fn undo(&self, note: &Note) {
        if let Err(error) = self.put_back_at_end(note) {
            self.warn(&error);
        }
    }

    /// Returns what a process held on its devices. They are looked at again.
    fn held(&self, candidate: &Candidate, before: &[Place]) -> Vec<Held> {
        let after = self.places();
        let pairs = before.iter().zip(&after).filter(|((device, _), _)| candidate.may_use(device));
        pairs
            .filter_map(|((device, before), (_, after))| {
                Held::from_readings(candidate.process.id, before, after, device)
            })
            .collect()
    }

    /// Restores a process, if there is room for it now.
    pub fn put_back(&self, note: &Note) -> anyhow::Result<Returned> {
        self.returning(WithoutRoom::Refuse, note)
    }

    /// Restores a process after tests. Their memory may still be in use for a moment.
    fn put_back_at_end(&self, note: &Note) -> anyhow::Result<Returned> {
        self.returning(WithoutRoom::Wait { sink: self.sink }, note)
    }

    fn returning(&self, without_room: WithoutRoom<'_>, note: &Note) -> anyhow::Result<Returned> {
        let (driver, notes, lack) = (&self.driver, &self.notes, &|note: &Note| self.lack(note));
        Returning { driver, notes, lack, without_room }.put_back(note)
    }

    /// Returns the first device without room for the process.
    fn lack(&self, note: &Note) -> Option<Lack> {
        room::lack(note, &self.devices_now(), process::resident(note.process))
    }

    fn devices_now(&self) -> Vec<DeviceNow> {
        let now = |(device, occupancy): Place| DeviceNow {
            free: self
                .nvml
                .as_ref()
                .map_or_else(|| Err("it is not here".to_owned()), |it| it.free(&device.uuid)),
            device,
            occupancy,
        };
        self.places().into_iter().map(now).collect()
    }

    /// Returns a note for a process that the user named and another program set aside; `None` if it
    /// runs.
    ///
    /// # Errors
    /// It is not the user's, or does not use CUDA.
    pub fn found_aside(&self, process: &ProcessFacts) -> Result<Option<Note>, UserError> {
        let candidate = Candidate { process: process.clone(), devices: Vec::new(), bytes: None };
        if self.driver.state(process.id).is_ok_and(|state| state != State::Running)
            && process.user == rustix::process::geteuid().as_raw()
        {
            return Ok(Some(Note::for_process(process, Vec::new(), None)));
        }
        match self.refusal(&candidate) {
            Some(refusal) => {
                let reason = refusal.reason.replace("cannot be set aside", "cannot be restored");
                Err(UserError::new(reason))
            }
            None => Ok(None),
        }
    }

    /// Returns all devices.
    pub fn devices(&self) -> &Devices {
        &self.devices
    }

    /// Returns how many bytes are in use on each device, if NVML knows.
    pub fn places(&self) -> Vec<Place> {
        let Some(nvml) = &self.nvml else { return Vec::new() };
        let all = self.devices.devices.iter().flat_map(Device::cuda_devices);
        all.map(|device| (device.clone(), nvml.occupancy(&device.uuid))).collect()
    }

    fn warn(&self, error: &anyhow::Error) {
        self.sink.emit(Event::Warning { message: format!("{error:#}"), help: advice::help(error) });
    }
}

fn not_opted_in(process: &ProcessFacts) -> Refusal {
    Refusal::new(format!("{process} is not set aside: it has not opted in ({CONSENT}=1 in its environment)"))
        .help(format!("cargo memprof yield {}", process.id))
}

fn not_taken(process: &ProcessFacts, state: Result<State, CallError>) -> UserError {
    let why = match state {
        Err(error) if error.code == NOT_READY => {
            return UserError::new(format!(
                "{process} was not set aside: its work on the GPU did not end in time"
            ))
            .help(format!("try again: cargo memprof yield {}", process.id));
        }
        Err(error) => error.to_string(),
        Ok(state) => format!("the driver says {state:?}"),
    };
    UserError::new(format!("{process} was not set aside: {why}"))
        .help("docs/courtesy.md says what the driver cannot set aside, such as managed memory")
}

/// A process that is set aside.
#[derive(Debug)]
struct Taken {
    note: Note,
    places: Vec<String>,
    took: Duration,
}

/// Processes that are set aside. They are restored when this is dropped.
pub struct SetAside<'a> {
    courtesy: Courtesy<'a>,
    taken: Vec<Taken>,
}

impl SetAside<'_> {
    /// Returns a line for each: `process 4711 (python), 60.0 GiB of GPU 0 … 12.3 s`.
    pub fn lines(&self) -> Vec<String> {
        let line = |taken: &Taken| {
            let what = match (&taken.places[..], taken.note.bytes) {
                ([], None) => String::new(),
                ([], Some(bytes)) => format!(", {}", Bytes(bytes)),
                (places, _) => format!(", {}{}", taken.note.amount(), places.join(", ")),
            };
            format!("{}{what} … {}", taken.note, elapsed::shown(taken.took))
        };
        self.taken.iter().map(line).collect()
    }

    /// Returns how many bytes are in use on each device now.
    pub fn places(&self) -> Vec<Place> {
        self.courtesy.places()
    }

    /// Leaves them aside, for `restore`.
    pub fn keep(mut self) -> anyhow::Result<()> {
        for taken in &mut self.taken {
            taken.note.kept = true;
            self.courtesy.notes.replace(&taken.note)?;
        }
        self.taken.clear();
        Ok(())
    }

    /// Restores them. Returns whether all of them run again; the sink hears the reasons if not.
    pub fn put_back(mut self) -> bool {
        self.put_all_back()
    }

    fn put_all_back(&mut self) -> bool {
        let mut all = true;
        // The last one first: it fits beside those that had been set aside before it.
        for taken in std::mem::take(&mut self.taken).into_iter().rev() {
            let note = &taken.note;
            match self.courtesy.put_back_at_end(note) {
                Ok(returned) => {
                    self.courtesy.sink.emit(Event::MemoryRestored { text: outcome(note, returned) });
                }
                Err(error) => {
                    all = false;
                    self.courtesy.warn(&error);
                }
            }
        }
        termination::note_memory_aside(false);
        all
    }
}

impl Drop for SetAside<'_> {
    fn drop(&mut self) {
        self.put_all_back();
    }
}

/// Returns `process 4711 (python) … 8.1 s`.
pub fn outcome(note: &Note, returned: Returned) -> String {
    match returned {
        Returned::Restored(took) => format!("{note} … {}", elapsed::shown(took)),
        Returned::Ran => format!("{note}, which was not set aside"),
        Returned::Ended => format!("{note}, which has ended"),
    }
}
