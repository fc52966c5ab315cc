//! The queue for devices: first come, first served. Takes the locks of all devices of a run when it
//! is this run's turn.
//!
//! A run first waits until nobody is before it in any of its queues, and holds no lock meanwhile.
//! All queues have one order, so runs never wait for each other in a circle. Then it takes its locks,
//! in the devices' order, which versions without tickets use too.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use camino::Utf8Path;

use crate::devices::CudaDevice;
use crate::locks;
use crate::tickets::{self, Ticket};
use memprof_support::event::{Event, Sink};
use memprof_support::file_lock::{self, Attempt, Lock, LockError, RETRY, WhenHeld};

/// How a run waits for devices.
pub(crate) struct DeviceQueue<'a> {
    /// The folder of locks and tickets.
    pub folder: &'a Utf8Path,
    /// What to do if it is not this run's turn.
    pub when_held: WhenHeld,
    /// Set by Ctrl-C.
    pub interrupt: &'a AtomicBool,
    /// Where events go.
    pub sink: &'a dyn Sink,
}

/// Why it is not this run's turn.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Blocked {
    device: CudaDevice,
    /// This run's place among those that wait; the next one's is 1.
    place: usize,
    /// Who comes just before it.
    behind: String,
    /// Who uses the device, if that is another one.
    holder: Option<String>,
}

/// A run that waits.
struct Waiter<'q> {
    queue: &'q DeviceQueue<'q>,
    begin: Instant,
    told: Option<Blocked>,
}

impl DeviceQueue<'_> {
    /// Takes the locks of these devices. A device whose lock cannot be opened is used without one,
    /// with a warning.
    ///
    /// # Errors
    /// Another run holds a device, or waits for it, and this run is not to wait, or no longer.
    pub fn acquire(&self, devices: &BTreeSet<CudaDevice>) -> anyhow::Result<Vec<Lock>> {
        let devices: BTreeSet<CudaDevice> =
            devices.iter().filter(|device| self.can_be_locked(device)).cloned().collect();
        let blocked = match self.at_once(&devices)? {
            Ok(locks) => return Ok(locks),
            Err(blocked) => blocked,
        };
        let mut waiter = Waiter { queue: self, begin: Instant::now(), told: None };
        if self.when_held == WhenHeld::Fail {
            // `doctor` may have tried a lock that is free.
            std::thread::sleep(RETRY);
            if let Ok(locks) = self.at_once(&devices)? {
                return Ok(locks);
            }
            waiter.pause(blocked)?;
        }
        let mut ticket = self.draw(&devices);
        while let Some(blocked) = self.first_ahead(ticket.as_ref(), &devices)? {
            waiter.pause(blocked)?;
            if ticket.as_ref().is_some_and(|ticket| !ticket.is_in_place()) {
                ticket = self.draw(&devices);
            }
        }
        let mut locks = Vec::new();
        for device in &devices {
            locks.push(loop {
                match Lock::attempt(&locks::lock_file(self.folder, device))? {
                    Attempt::Acquired(lock) => break lock,
                    Attempt::HeldBy(holder) => waiter.pause(Blocked {
                        device: device.clone(),
                        place: 1,
                        behind: holder,
                        holder: None,
                    })?,
                }
            });
        }
        Ok(locks)
    }

    fn can_be_locked(&self, device: &CudaDevice) -> bool {
        let lock_file = locks::lock_file(self.folder, device);
        let Err(error) = (lock_file.open)(&lock_file.path) else { return true };
        self.warn(&format!("cannot keep other runs of this program off {device}: {error:#}"));
        false
    }

    /// Takes all locks, if nobody holds them or waits for them.
    fn at_once(&self, devices: &BTreeSet<CudaDevice>) -> anyhow::Result<Result<Vec<Lock>, Blocked>> {
        if let Some(blocked) = self.first_ahead(None, devices)? {
            return Ok(Err(blocked));
        }
        let mut locks = Vec::new();
        for device in devices {
            match Lock::attempt(&locks::lock_file(self.folder, device))? {
                Attempt::Acquired(lock) => locks.push(lock),
                Attempt::HeldBy(behind) => {
                    return Ok(Err(Blocked { device: device.clone(), place: 1, behind, holder: None }));
                }
            }
        }
        Ok(Ok(locks))
    }

    fn draw(&self, devices: &BTreeSet<CudaDevice>) -> Option<Ticket> {
        match Ticket::draw(self.folder, devices) {
            Ok(ticket) => Some(ticket),
            Err(error) => {
                self.warn(&format!("this run waits without a place in the queue: {error:#}"));
                None
            }
        }
    }

    fn warn(&self, message: &str) {
        self.sink.emit(Event::Warning {
            message: message.to_owned(),
            help: Some(format!("set {} to a folder that you can write to", locks::VARIABLE)),
        });
    }

    /// Returns where most runs are before this one. Without a ticket, all that wait are.
    fn first_ahead(
        &self,
        own: Option<&Ticket>,
        devices: &BTreeSet<CudaDevice>,
    ) -> anyhow::Result<Option<Blocked>> {
        let own = own.map(Ticket::arrival).transpose()?;
        let mut most: Option<Blocked> = None;
        for device in devices {
            let mut ahead = tickets::waiting(self.folder, device);
            ahead.retain(|run| own.is_none_or(|own| run.arrival < own));
            let place = ahead.len() + 1;
            if let Some(last) = ahead.last().filter(|_| most.as_ref().is_none_or(|most| most.place < place)) {
                let holder = file_lock::held_by(&locks::path(self.folder, device));
                most = Some(Blocked { device: device.clone(), place, behind: last.shown(), holder });
            }
        }
        Ok(most)
    }
}

impl Waiter<'_> {
    /// Tells the place in the queue if it is new, and waits a moment.
    fn pause(&mut self, blocked: Blocked) -> Result<(), LockError> {
        let DeviceQueue { when_held, interrupt, sink, .. } = *self.queue;
        let subject = blocked.device.to_string();
        let user = blocked.holder.as_ref().unwrap_or(&blocked.behind);
        when_held.check(self.begin, &subject, user, interrupt)?;
        if self.told.as_ref() != Some(&blocked) {
            let Blocked { place, behind, holder, .. } = blocked.clone();
            sink.emit(Event::WaitingInLine { subject, place, behind, holder });
            self.told = Some(blocked);
        }
        std::thread::sleep(RETRY);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::Ordering;
    use std::thread::{self, Scope, ScopedJoinHandle};
    use std::time::Duration;

    use camino::Utf8PathBuf;

    use super::*;

    fn device(index: u32) -> CudaDevice {
        CudaDevice { index, part: None, uuid: format!("GPU-{index}") }
    }

    fn devices<const N: usize>(all: [u32; N]) -> BTreeSet<CudaDevice> {
        all.into_iter().map(device).collect()
    }

    /// A machine whose runs are threads.
    struct Machine {
        _temporary: tempfile::TempDir,
        folder: Utf8PathBuf,
        interrupt: AtomicBool,
        /// Each run's name and what it told.
        told: Mutex<Vec<(&'static str, String)>>,
        /// The runs that had their turn, in order.
        served: Mutex<Vec<&'static str>>,
    }

    impl Machine {
        fn new() -> Self {
            let temporary = tempfile::tempdir().unwrap();
            Self {
                folder: Utf8PathBuf::try_from(temporary.path().join("devices")).unwrap(),
                _temporary: temporary,
                interrupt: AtomicBool::new(false),
                told: Mutex::default(),
                served: Mutex::default(),
            }
        }

        fn acquire(
            &self,
            name: &'static str,
            all: &BTreeSet<CudaDevice>,
            when_held: WhenHeld,
        ) -> anyhow::Result<Vec<Lock>> {
            let sink = |event: Event| {
                let text = match event {
                    Event::WaitingInLine { subject, place, holder, .. } => {
                        format!("{place} {subject}{}", if holder.is_some() { " held" } else { "" })
                    }
                    other => format!("{other:?}"),
                };
                self.told.lock().unwrap().push((name, text));
            };
            let queue =
                DeviceQueue { folder: &self.folder, when_held, interrupt: &self.interrupt, sink: &sink };
            let locks = queue.acquire(all)?;
            self.served.lock().unwrap().push(name);
            Ok(locks)
        }

        /// Starts a run that measures for a moment, and returns when it waits.
        fn start<'s, 'e, const N: usize>(
            &'e self,
            scope: &'s Scope<'s, 'e>,
            name: &'static str,
            all: [u32; N],
        ) -> ScopedJoinHandle<'s, ()> {
            let before = self.told(name).len();
            let run = scope.spawn(move || drop(self.acquire(name, &devices(all), WhenHeld::Wait).unwrap()));
            while self.told(name).len() == before {
                assert!(!run.is_finished(), "{name} did not wait");
                thread::sleep(Duration::from_millis(5));
            }
            run
        }

        fn told(&self, name: &str) -> Vec<String> {
            let told = self.told.lock().unwrap();
            told.iter().filter(|(who, _)| *who == name).map(|(_, text)| text.clone()).collect()
        }

        fn served(&self) -> Vec<&'static str> {
            self.served.lock().unwrap().clone()
        }

        /// Takes a lock as versions without tickets do.
        fn lock(&self, index: u32) -> Lock {
            let file = locks::lock_file(&self.folder, &device(index));
            Lock::acquire(&file, WhenHeld::Wait, &self.interrupt, &|_| ()).unwrap()
        }
    }

    #[test]
    fn runs_have_their_turns_in_the_order_of_their_arrival_and_say_their_places() {
        let machine = Machine::new();
        let held = machine.lock(0);
        thread::scope(|scope| {
            for name in ["first", "second", "third"] {
                machine.start(scope, name, [0]);
            }
            assert_eq!(machine.served(), [""; 0]);
            drop(held);
        });
        assert_eq!(machine.served(), ["first", "second", "third"]);
        assert_eq!(machine.told("first"), ["1 GPU 0"]);
        assert_eq!(machine.told("third")[0], "3 GPU 0 held");
        assert!(tickets::waiting(&machine.folder, &device(0)).is_empty());
    }

    #[test]
    fn a_waiting_run_that_was_killed_is_skipped() {
        let machine = Machine::new();
        let held = machine.lock(0);
        let killed = Ticket::draw(&machine.folder, &devices([0])).unwrap();
        thread::scope(|scope| {
            machine.start(scope, "next", [0]);
            assert_eq!(machine.told("next"), ["2 GPU 0 held"]);
            drop(held);
            thread::sleep(3 * RETRY);
            assert_eq!(machine.served(), [""; 0]);
            let left = killed.abandon();
            assert!(left.exists());
        });
        assert_eq!(machine.served(), ["next"]);
    }

    #[test]
    fn a_run_of_two_devices_keeps_its_place_in_both_queues() {
        let machine = Machine::new();
        let held = machine.lock(1);
        thread::scope(|scope| {
            machine.start(scope, "both", [0, 1]);
            // Device 0 is free, or about to be held by the run that waits for device 1.
            machine.start(scope, "one", [0]);
            machine.start(scope, "both again", [0, 1]);
            machine.start(scope, "other", [1]);
            thread::sleep(3 * RETRY);
            assert_eq!(machine.served(), [""; 0]);
            drop(held);
        });
        let served = machine.served();
        assert_eq!(served[0], "both");
        let place = |name| served.iter().position(|served| *served == name);
        assert!(place("one") < place("both again") && place("both again") < place("other"), "{served:?}");
    }

    #[test]
    fn waiting_ends_at_its_limit_and_at_an_interrupt_and_leaves_the_queue() {
        let machine = Machine::new();
        let _held = machine.lock(0);
        let error =
            machine.acquire("late", &devices([0]), WhenHeld::WaitAtMost(2 * RETRY)).unwrap_err().to_string();
        assert!(error.starts_with("waited 0.2 s for GPU 0, which another run is using: "), "{error}");
        assert!(error.contains(&format!(", process {}, since ", std::process::id())), "{error}");
        assert!(tickets::waiting(&machine.folder, &device(0)).is_empty());
        machine.interrupt.store(true, Ordering::Relaxed);
        let error = machine.acquire("late", &devices([0]), WhenHeld::Wait).unwrap_err();
        assert!(matches!(error.downcast_ref(), Some(LockError::Interrupted)));
    }

    #[test]
    fn a_run_that_does_not_wait_fails_for_holders_and_for_those_who_wait() {
        let machine = Machine::new();
        let fails = |all| {
            let error = machine.acquire("hasty", &all, WhenHeld::Fail).unwrap_err();
            assert!(matches!(error.downcast_ref(), Some(LockError::Held { .. })), "{error}");
            error.to_string()
        };
        let held = machine.lock(0);
        assert!(fails(devices([0, 1])).starts_with("another run is using GPU 0: "));
        machine.acquire("hasty", &devices([1]), WhenHeld::Fail).unwrap();
        drop(held);
        let waits = Ticket::draw(&machine.folder, &devices([0])).unwrap();
        fails(devices([0]));
        drop(waits);
        machine.acquire("hasty", &devices([0]), WhenHeld::Fail).unwrap();
    }

    #[test]
    fn a_place_in_the_queue_that_was_removed_is_taken_again() {
        let machine = Machine::new();
        let held = machine.lock(0);
        let ahead = Ticket::draw(&machine.folder, &devices([0])).unwrap();
        thread::scope(|scope| {
            machine.start(scope, "cleaned", [0]);
            let own = tickets::waiting(&machine.folder, &device(0))[1].arrival;
            for entry in machine.folder.read_dir_utf8().unwrap().flatten() {
                if entry.file_name().ends_with(".ticket") {
                    std::fs::remove_file(entry.path()).unwrap();
                }
            }
            // The one ahead has no process that notices, and is gone.
            loop {
                let waiting = tickets::waiting(&machine.folder, &device(0));
                if waiting.iter().any(|run| run.arrival > own) || machine.told("cleaned").len() > 1 {
                    break;
                }
                thread::sleep(Duration::from_millis(5));
            }
            drop(held);
        });
        drop(ahead);
        assert_eq!(machine.served(), ["cleaned"]);
    }

    #[test]
    fn a_folder_that_cannot_be_used_is_a_warning() {
        let machine = Machine::new();
        std::fs::write(&machine.folder, "").unwrap();
        assert!(machine.acquire("alone", &devices([0]), WhenHeld::Wait).unwrap().is_empty());
        let told = machine.told("alone");
        assert!(told[0].contains("cannot keep other runs of this program off GPU 0"), "{told:?}");
    }
}
