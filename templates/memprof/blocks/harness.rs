//! Holds the test's thread until the harness's main thread sleeps.
//!
//! libtest starts a thread for the test and then waits for its result on a channel. Only if the
//! result is not there yet, the waiting allocates: two blocks, 144 bytes. So a quick test would
//! count them in some runs, and a slow one before or after its first checkpoint. Here, the test's
//! thread waits before its first allocation and its first checkpoint. So both blocks are always
//! allocated, and always before the test's body.
//!
//! The runner gives the test's name, which libtest gives to the test's thread. No other thread ever
//! waits, and without the name none does. That is so for programs without libtest, and on other
//! platforms than Linux. Where `body` marks the test's body, it waits once more just before that.

#[cfg(all(target_os = "linux", not(miri)))]
pub(crate) use linux::{expect, settle, wait_for_main_thread};

#[cfg(not(all(target_os = "linux", not(miri))))]
pub(crate) fn expect(_test: &str) {}

#[cfg(not(all(target_os = "linux", not(miri))))]
#[inline(always)]
pub(crate) fn settle() {}

#[cfg(all(target_os = "linux", not(miri)))]
mod linux {
    use std::os::raw::{c_char, c_int, c_ulong, c_void};
    use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
    use std::time::{Duration, Instant};

    /// The kernel keeps so many bytes of a thread's name, and a zero byte.
    const NAME: usize = 15;
    /// The main thread needs microseconds; more on a busy machine. After this time, the test begins
    /// in any case.
    const LONGEST: Duration = Duration::from_secs(1);

    static IS_EXPECTED: AtomicBool = AtomicBool::new(false);
    /// The begin of the test's name, with zero bytes behind it. Written before `main`.
    static EXPECTED: [AtomicU8; NAME] = {
        #[allow(clippy::declare_interior_mutable_const)]
        const ZERO: AtomicU8 = AtomicU8::new(0);
        [ZERO; NAME]
    };

    extern "C" {
        fn prctl(option: c_int, ...) -> c_int;
        fn open(path: *const c_char, flags: c_int, ...) -> c_int;
        fn read(descriptor: c_int, buffer: *mut c_void, length: usize) -> isize;
        fn close(descriptor: c_int) -> c_int;
    }

    const PR_GET_NAME: c_int = 16;
    const O_RDONLY: c_int = 0;

    /// Lets the thread of this name wait.
    pub(crate) fn expect(test: &str) {
        for (place, byte) in EXPECTED.iter().zip(test.bytes()) {
            place.store(byte, Ordering::Relaxed);
        }
        IS_EXPECTED.store(!test.is_empty(), Ordering::Release);
    }

    /// Waits if this is the test's thread, once. The allocator calls this, so nothing here
    /// allocates or locks.
    #[inline(always)]
    pub(crate) fn settle() {
        if IS_EXPECTED.load(Ordering::Acquire) {
            settle_if_expected();
        }
    }

    #[cold]
    #[inline(never)]
    fn settle_if_expected() {
        if !has_expected_name() || !IS_EXPECTED.swap(false, Ordering::AcqRel) {
            return;
        }
        wait_for_main_thread();
    }

    /// Waits until the main thread sleeps.
    pub(crate) fn wait_for_main_thread() {
        let begin = Instant::now();
        while main_thread_runs() && begin.elapsed() < LONGEST {
            std::thread::sleep(Duration::from_micros(20));
        }
    }

    fn has_expected_name() -> bool {
        let mut name = [0_u8; NAME + 1];
        // SAFETY: the kernel writes at most 16 bytes there.
        let read = unsafe { prctl(PR_GET_NAME, name.as_mut_ptr() as usize as c_ulong) };
        read == 0
            && name.iter().zip(&EXPECTED).all(|(own, expected)| *own == expected.load(Ordering::Relaxed))
    }

    /// Whether the main thread does anything but sleep. `false` if the kernel does not tell.
    fn main_thread_runs() -> bool {
        let mut text = [0_u8; 256];
        // SAFETY: the path ends in a zero byte, the buffer has the given size, and the descriptor
        // is open and only used here.
        let length = unsafe {
            let descriptor = open(b"/proc/self/stat\0".as_ptr().cast(), O_RDONLY);
            if descriptor < 0 {
                return false;
            }
            let length = read(descriptor, text.as_mut_ptr().cast(), text.len());
            close(descriptor);
            length
        };
        let text = usize::try_from(length).ok().and_then(|length| text.get(..length)).unwrap_or_default();
        // `pid (name) state …`: the name may contain anything, the rest no parenthesis.
        let name_end = text.iter().rposition(|&byte| byte == b')');
        let state = name_end.and_then(|end| text.get(end + 2));
        state.map_or(false, |&state| state != b'S')
    }
}
