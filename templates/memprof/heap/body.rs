//! Where the figures of a test begin and end: with its body, not with the process.
//!
//! libtest calls `test::__rust_begin_short_backtrace` just before a test's function, on the test's
//! thread, and never inlines it. The tool gives the addresses of its instances. Before `main`, each
//! of them gets a jump to a stand-in over its first instructions. The stand-in puts the instructions
//! back, marks the beginning, calls the original, and marks the end, also if the body unwinds. So
//! nothing stays changed while the body runs, and no signal is involved. `owner` is told, and the
//! recorder through its `listener`.

// Addresses become pointers here.
#![allow(clippy::cast_possible_wrap, clippy::cast_sign_loss)]

use std::os::raw::{c_int, c_void};
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicUsize, Ordering};

use crate::blocks::harness;
use crate::blocks::owner;
use crate::heap::counts;
use crate::heap::listener::Listener;
use crate::platform::loaded;

thread_local! {
    /// The destructors run after and before those of all locals that the body made.
    static MADE_BEFORE: AfterLocals = const { AfterLocals };
    static MADE_AFTER: BeforeLocals = const { BeforeLocals };
}

/// The instances of libtest's function: at most so many are marked.
const MOST: usize = 8;

/// Who is told when the body begins and ends.
static LISTENER: AtomicPtr<Listener> = AtomicPtr::new(std::ptr::null_mut());

/// The addresses of the instances; 0 behind the last one.
static ADDRESSES: [AtomicUsize; MOST] = {
    #[allow(clippy::declare_interior_mutable_const)]
    const NONE: AtomicUsize = AtomicUsize::new(0);
    [NONE; MOST]
};

/// The instructions that stood at each address.
static ORIGINALS: [[AtomicU8; JUMP]; MOST] = {
    #[allow(clippy::declare_interior_mutable_const)]
    const BYTE: AtomicU8 = AtomicU8::new(0);
    #[allow(clippy::declare_interior_mutable_const)]
    const NOTHING: [AtomicU8; JUMP] = [BYTE; JUMP];
    [NOTHING; MOST]
};

extern "C" {
    fn mprotect(address: *mut c_void, length: usize, protection: c_int) -> c_int;
}

const PROT_READ: c_int = 1;
const PROT_WRITE: c_int = 2;
const PROT_EXEC: c_int = 4;

/// Lets the next call of libtest's function mark the body. Runs before `main`, while no other thread
/// runs the executable's code.
///
/// # Errors
/// Why that cannot be done. The figures then begin with the process.
pub(crate) fn plant(addresses: &str, listener: &'static Listener) -> Result<(), &'static str> {
    LISTENER.store(listener as *const Listener as *mut Listener, Ordering::Release);
    let planted =
        if owner::is_before_body() { plant_all(addresses) } else { Err("the process began without it") };
    match planted {
        Ok(()) => {
            owner::set_harness(true);
        }
        Err(_) => abandon(),
    }
    planted
}

/// Gives up marking the body: the figures begin with the process.
pub(crate) fn abandon() {
    if owner::leave_unmarked() {
        restore();
    }
}

fn plant_all(addresses: &str) -> Result<(), &'static str> {
    let bias = loaded::executable_bias();
    for (place, address) in addresses.split(',').enumerate() {
        let address = usize::from_str_radix(address, 16).map_err(|_| "an address cannot be read")?;
        let address = address.wrapping_add(bias);
        let jump = STAND_INS.get(place).ok_or("libtest has too many instances of the function")?;
        let jump = jump_to(address, *jump as usize)?;
        // SAFETY: the tool found a function of at least this size there.
        let original = unsafe { std::ptr::read(address as *const [u8; JUMP]) };
        for (kept, byte) in ORIGINALS[place].iter().zip(&original) {
            kept.store(*byte, Ordering::Relaxed);
        }
        // SAFETY: as above, and no other thread runs this code before `main`.
        if !unsafe { write_code(address, jump) } {
            restore();
            return Err("the kernel does not allow code to be changed");
        }
        ADDRESSES[place].store(address, Ordering::Release);
    }
    Ok(())
}

/// Puts all instructions back.
fn restore() {
    for (address, original) in ADDRESSES.iter().zip(&ORIGINALS) {
        let address = address.load(Ordering::Acquire);
        if address != 0 {
            let mut code = [0; JUMP];
            for (byte, kept) in code.iter_mut().zip(original) {
                *byte = kept.load(Ordering::Relaxed);
            }
            // SAFETY: these bytes stood there. Only the thread that is about to run the test calls
            // this function of libtest, and it is here. What was allowed before is allowed again.
            unsafe { write_code(address, code) };
        }
    }
}

/// # Safety
/// The bytes are code of the executable that no thread runs now.
unsafe fn write_code(address: usize, code: [u8; JUMP]) -> bool {
    // The page may hold this very function, so it stays executable.
    let first = address & !(page() - 1);
    let length = address + JUMP - first;
    let protect = |protection| mprotect(first as *mut c_void, length, protection) == 0;
    if !protect(PROT_READ | PROT_WRITE | PROT_EXEC) {
        return false;
    }
    std::ptr::copy_nonoverlapping(code.as_ptr(), address as *mut u8, JUMP);
    synchronise(address);
    protect(PROT_READ | PROT_EXEC)
}

fn page() -> usize {
    extern "C" {
        fn getpagesize() -> c_int;
    }
    // SAFETY: it only reads a constant of the system.
    usize::try_from(unsafe { getpagesize() }).unwrap_or(1 << 16)
}

#[cfg(target_arch = "x86_64")]
const JUMP: usize = 5;

/// `jmp` with a distance of 32 bits.
#[cfg(target_arch = "x86_64")]
fn jump_to(from: usize, to: usize) -> Result<[u8; JUMP], &'static str> {
    let distance = (to as i64).wrapping_sub(from as i64 + JUMP as i64);
    let distance = i32::try_from(distance).map_err(|_| TOO_FAR)?.to_le_bytes();
    Ok([0xe9, distance[0], distance[1], distance[2], distance[3]])
}

/// The processor notices changed code by itself.
#[cfg(target_arch = "x86_64")]
fn synchronise(_address: usize) {}

#[cfg(target_arch = "aarch64")]
const JUMP: usize = 4;

/// `b` with a distance of 26 bits, in instructions.
#[cfg(target_arch = "aarch64")]
#[allow(clippy::cast_possible_truncation)]
fn jump_to(from: usize, to: usize) -> Result<[u8; JUMP], &'static str> {
    let distance = (to as i64).wrapping_sub(from as i64) >> 2;
    if distance < -(1 << 25) || distance >= 1 << 25 {
        return Err(TOO_FAR);
    }
    Ok((0x1400_0000 | (distance as u32 & 0x03ff_ffff)).to_le_bytes())
}

/// Makes the changed instruction visible to all processors, as the architecture's manual says.
#[cfg(target_arch = "aarch64")]
fn synchronise(address: usize) {
    // SAFETY: cache maintenance of an address that is mapped.
    unsafe {
        std::arch::asm!(
            "dc cvau, {0}", "dsb ish", "ic ivau, {0}", "dsb ish", "isb",
            in(reg) address,
            options(nostack, preserves_flags)
        );
    }
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
const TOO_FAR: &str = "the executable is too large for a jump to the logging crate";

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const JUMP: usize = 1;

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn jump_to(_from: usize, _to: usize) -> Result<[u8; JUMP], &'static str> {
    Err("jumps of this processor are not known here")
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn synchronise(_address: usize) {}

/// What libtest's function returns. On x86-64 two registers pass on whatever it returns, a pointer
/// to a larger result among them. Elsewhere that pointer has a register of its own, which only a
/// function of the same type passes on; the tool gives no addresses if the type is another one.
#[cfg(target_arch = "x86_64")]
type Returned = (usize, usize);
#[cfg(not(target_arch = "x86_64"))]
type Returned = Result<(), String>;

/// libtest's function as code calls it. Its argument is a function or a closure of at most two words,
/// or a pointer to a larger one. Registers that it does not use have any value.
type Function = fn(usize, usize, usize, usize, usize, usize) -> Returned;

static STAND_INS: [Function; MOST] = [
    stand_in::<0>,
    stand_in::<1>,
    stand_in::<2>,
    stand_in::<3>,
    stand_in::<4>,
    stand_in::<5>,
    stand_in::<6>,
    stand_in::<7>,
];

/// Runs in the place of an instance of libtest's function. The tool cuts call stacks here, by this
/// name.
#[inline(never)]
fn stand_in<const PLACE: usize>(
    a0: usize,
    a1: usize,
    a2: usize,
    a3: usize,
    a4: usize,
    a5: usize,
) -> Returned {
    let address = ADDRESSES[PLACE].load(Ordering::Acquire);
    restore();
    // SAFETY: this is the function that was called, and its instructions are back.
    let original = unsafe { std::mem::transmute::<usize, Function>(address) };
    let _end = begin();
    original(a0, a1, a2, a3, a4, a5)
}

/// The body, until this is dropped.
struct End {
    is_marked: bool,
}

fn listener() -> Option<&'static Listener> {
    // SAFETY: null, or from the reference to a static in `plant`.
    unsafe { LISTENER.load(Ordering::Acquire).as_ref() }
}

#[cold]
fn begin() -> End {
    if !owner::is_before_body() {
        return End { is_marked: false };
    }
    let is_main = owner::set_harness(false);
    if !is_main {
        harness::wait_for_main_thread();
    }
    MADE_BEFORE.with(|_| ());
    owner::begin_body();
    if let Some(listener) = listener() {
        (listener.begins)();
    }
    End { is_marked: true }
}

impl Drop for End {
    fn drop(&mut self) {
        if self.is_marked {
            owner::end_body();
            owner::set_harness(true);
            counts::look_at_each_block();
            MADE_AFTER.with(|_| ());
            if let Some(listener) = listener() {
                (listener.ends)();
            }
        }
    }
}

struct BeforeLocals;

impl Drop for BeforeLocals {
    fn drop(&mut self) {
        owner::set_harness(false);
    }
}

struct AfterLocals;

impl Drop for AfterLocals {
    fn drop(&mut self) {
        // The body may also leave the process, and never end.
        if owner::has_ended() {
            owner::set_harness(true);
            counts::forget_claim();
        }
    }
}
