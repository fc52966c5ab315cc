//! What all callbacks share: the ledger, and the shim's rendezvous.

use std::sync::atomic::{AtomicPtr, Ordering};

use crate::gpu::rendezvous::Rendezvous;
use crate::ledger::Ledger;
use crate::platform::lock::{Held, Lock};

static LEDGER: Lock<Option<Ledger>> = Lock::new(None);
static RENDEZVOUS: AtomicPtr<Rendezvous> = AtomicPtr::new(std::ptr::null_mut());

/// Opens the ledger, before the first callback.
pub(crate) fn open_ledger(ledger: Ledger) {
    *LEDGER.hold() = Some(ledger);
}

/// The rendezvous of the shim, which stays for the life of the process.
pub(crate) fn listen_at(rendezvous: &'static Rendezvous) {
    RENDEZVOUS.store(rendezvous as *const Rendezvous as *mut Rendezvous, Ordering::Release);
}

/// The rendezvous, once there is one.
pub(crate) fn rendezvous() -> Option<&'static Rendezvous> {
    // SAFETY: null, or from the reference in `listen_at`.
    unsafe { RENDEZVOUS.load(Ordering::Acquire).as_ref() }
}

/// Works on the ledger, which exists before the first callback.
pub(crate) fn with_ledger<T>(work: impl FnOnce(&mut Ledger) -> T) -> Option<T> {
    let mut ledger: Held<'_, Option<Ledger>> = LEDGER.hold();
    ledger.as_mut().map(work)
}

/// Works on the ledger where a capture may begin or end, and tells the shim how many there are then.
pub(crate) fn with_captures(work: impl FnOnce(&mut Ledger)) {
    with_ledger(|ledger| {
        work(ledger);
        if let Some(rendezvous) = rendezvous() {
            rendezvous.tell_captures(ledger.capture_count());
        }
    });
}

/// The site of the allocation that is being counted; 0 if the run does not record call stacks.
pub(crate) fn current_site() -> u32 {
    rendezvous().and_then(Rendezvous::current_site).unwrap_or(0)
}
