//! The recorder's lock.

use std::sync::atomic::{AtomicBool, Ordering};

#[path = "../../templates/memprof/platform/lock.rs"]
#[expect(
    unsafe_code,
    clippy::manual_is_multiple_of,
    reason = "the shim's own file, written for its oldest Rust"
)]
mod template;

use template::Lock;

#[test]
fn a_thread_that_holds_it_is_refused_it_and_does_not_wait_for_itself() {
    let lock = Lock::new(7);
    let held = lock.hold_as(2).expect("nobody holds it");
    assert!(lock.hold_as(2).is_none(), "as in a signal handler");
    drop(held);
    assert_eq!(lock.hold_as(2).map(|held| *held), Some(7));
}

#[test]
fn another_thread_waits_until_it_is_free() {
    let lock = Lock::new(0_u32);
    let freed = AtomicBool::new(false);
    let held = lock.hold_as(2).expect("nobody holds it");
    std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            *lock.hold_as(3).expect("it is another thread's") += 1;
            freed.load(Ordering::Relaxed)
        });
        std::thread::sleep(std::time::Duration::from_millis(20));
        freed.store(true, Ordering::Relaxed);
        drop(held);
        assert!(other.join().unwrap(), "not before it was freed");
    });
}
