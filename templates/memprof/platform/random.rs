//! The same random numbers for every revision, if the runner asks for them.
//!
//! This crate defines `getrandom`, `getentropy` and `syscall` in front of the C library's, as weak
//! symbols: a definition of the program's own wins. Nearly all Rust code has its random numbers from
//! one of them: the standard library's hash maps, and the crate `getrandom`, which seeds `rand`,
//! quickcheck and proptest. Without the runner's variable, they ask the kernel like the originals.
//!
//! The numbers follow from the runner's seed and from the thread: the main thread, then the others in
//! the order in which they first ask. So threads neither share numbers nor change each other's. A
//! child made by `fork` has numbers of its own again.

use std::arch::{asm, global_asm};
use std::cell::Cell;
use std::os::raw::{c_int, c_uint, c_void};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// What the numbers follow from; meaningless without a [`PROCESS`].
static SEED: AtomicU64 = AtomicU64::new(0);
/// The process that gets the same numbers in every run; 0 if none does.
static PROCESS: AtomicU32 = AtomicU32::new(0);
/// How many threads but the main one have asked.
static THREADS: AtomicU64 = AtomicU64::new(0);
/// How often the keys of hash maps were asked for, and other numbers.
static HASH_KEYS: AtomicU64 = AtomicU64::new(0);
static OTHERS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// The state of this thread's generator; 0 before its first number.
    static STATE: Cell<u64> = const { Cell::new(0) };
}

/// How often the process asked for random numbers.
#[derive(Clone, Copy)]
pub(crate) struct Asked {
    /// For the keys of the standard library's hash maps.
    pub(crate) hash_keys: u64,
    /// For anything else.
    pub(crate) others: u64,
}

/// From here on, the numbers follow from this seed.
pub(crate) fn follow(seed: u64) {
    SEED.store(seed, Ordering::Relaxed);
    PROCESS.store(std::process::id(), Ordering::Release);
}

/// Whether the numbers follow from the runner's seed.
pub(crate) fn are_same() -> bool {
    PROCESS.load(Ordering::Acquire) != 0
}

pub(crate) fn asked() -> Option<Asked> {
    Some(Asked { hash_keys: HASH_KEYS.load(Ordering::Relaxed), others: OTHERS.load(Ordering::Relaxed) })
}

const GRND_NONBLOCK: c_uint = 1;
const GRND_INSECURE: c_uint = 4;
const KNOWN_FLAGS: c_uint = 7;
/// The standard library asks for two words as the keys of a thread's hash maps, without waiting.
const HASH_KEYS_LENGTH: usize = 16;

const EIO: c_int = 5;

#[no_mangle]
unsafe extern "C" fn memprof_shim_getrandom(buffer: *mut c_void, length: usize, flags: c_uint) -> isize {
    if length > 0 {
        let is_of_hash_map = length == HASH_KEYS_LENGTH && (flags == GRND_INSECURE || flags == GRND_NONBLOCK);
        let count = if is_of_hash_map { &HASH_KEYS } else { &OTHERS };
        count.fetch_add(1, Ordering::Relaxed);
    }
    let process = PROCESS.load(Ordering::Acquire);
    // The kernel reports what is wrong with the arguments.
    let is_usual = !buffer.is_null() && length > 0 && flags & !KNOWN_FLAGS == 0;
    if process != 0 && is_usual && process == std::process::id() {
        fill(buffer.cast(), length);
        // A slice is never longer than this.
        return length as isize;
    }
    let result = ask_kernel(buffer, length, flags);
    if result < 0 { memprof_shim_errno(result) } else { result }
}

#[no_mangle]
unsafe extern "C" fn memprof_shim_getentropy(buffer: *mut c_void, length: usize) -> c_int {
    const MOST: usize = 256;
    if length > MOST {
        return memprof_shim_errno(-(EIO as isize)) as c_int;
    }
    let mut filled = 0;
    while filled < length {
        let result = memprof_shim_getrandom(buffer.cast::<u8>().add(filled).cast(), length - filled, 0);
        if result < 0 {
            return -1;
        }
        filled += result as usize;
    }
    0
}

/// Stores the error that the kernel returned, and returns what the C library does then.
#[no_mangle]
unsafe extern "C" fn memprof_shim_errno(result: isize) -> isize {
    extern "C" {
        fn __errno_location() -> *mut c_int;
    }
    *__errno_location() = -result as c_int;
    -1
}

/// # Safety
/// So many bytes there can be written.
unsafe fn fill(mut bytes: *mut u8, length: usize) {
    let mut left = length;
    while left > 0 {
        let number = next().to_ne_bytes();
        let some = left.min(number.len());
        std::ptr::copy_nonoverlapping(number.as_ptr(), bytes, some);
        bytes = bytes.add(some);
        left -= some;
    }
}

/// The next number of this thread: `SplitMix64` of Steele, Lea and Flood (OOPSLA 2014).
fn next() -> u64 {
    STATE
        .try_with(|state| {
            if state.get() == 0 {
                state.set(mixed(SEED.load(Ordering::Relaxed) ^ mixed(thread().wrapping_add(1))) | 1);
            }
            state.set(state.get().wrapping_add(STEP));
            mixed(state.get())
        })
        .unwrap_or(0)
}

const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

fn mixed(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

/// 0 for the main thread, else a number of this thread alone.
fn thread() -> u64 {
    // SAFETY: this call has no arguments and cannot fail.
    let own = unsafe { call_kernel(GETTID, 0, 0, 0) };
    if own as u32 == std::process::id() { 0 } else { THREADS.fetch_add(1, Ordering::Relaxed) + 1 }
}

/// # Safety
/// As for the C library's `getrandom`.
unsafe fn ask_kernel(buffer: *mut c_void, length: usize, flags: c_uint) -> isize {
    call_kernel(GETRANDOM, buffer as usize, length, flags as usize)
}

#[cfg(target_arch = "x86_64")]
const GETRANDOM: usize = 318;
#[cfg(target_arch = "x86_64")]
const GETTID: usize = 186;
#[cfg(target_arch = "aarch64")]
const GETRANDOM: usize = 278;
#[cfg(target_arch = "aarch64")]
const GETTID: usize = 178;

#[cfg(target_arch = "x86_64")]
unsafe fn call_kernel(number: usize, first: usize, second: usize, third: usize) -> isize {
    let result: isize;
    asm!(
        "syscall",
        inlateout("rax") number as isize => result,
        in("rdi") first,
        in("rsi") second,
        in("rdx") third,
        lateout("rcx") _,
        lateout("r11") _,
        options(nostack),
    );
    result
}

#[cfg(target_arch = "aarch64")]
unsafe fn call_kernel(number: usize, first: usize, second: usize, third: usize) -> isize {
    let result: isize;
    asm!(
        "svc #0",
        in("x8") number,
        inlateout("x0") first as isize => result,
        in("x1") second,
        in("x2") third,
        options(nostack),
    );
    result
}

// `syscall` takes a variable number of arguments, so it is passed on as the C library does it.
#[cfg(target_arch = "x86_64")]
global_asm!(
    ".pushsection .text.memprof_shim_random,\"ax\",%progbits",
    ".weak getrandom",
    ".type getrandom,%function",
    "getrandom:",
    "jmp memprof_shim_getrandom@PLT",
    ".size getrandom,.-getrandom",
    ".weak getentropy",
    ".type getentropy,%function",
    "getentropy:",
    "jmp memprof_shim_getentropy@PLT",
    ".size getentropy,.-getentropy",
    ".weak syscall",
    ".type syscall,%function",
    "syscall:",
    ".cfi_startproc",
    "cmp rdi, 318",
    "je 2f",
    "mov rax, rdi",
    "mov rdi, rsi",
    "mov rsi, rdx",
    "mov rdx, rcx",
    "mov r10, r8",
    "mov r8, r9",
    "mov r9, [rsp + 8]",
    "syscall",
    "cmp rax, -4095",
    "jae 3f",
    "ret",
    "2:",
    "mov rdi, rsi",
    "mov rsi, rdx",
    "mov rdx, rcx",
    "jmp memprof_shim_getrandom@PLT",
    "3:",
    "mov rdi, rax",
    "jmp memprof_shim_errno@PLT",
    ".cfi_endproc",
    ".size syscall,.-syscall",
    ".popsection",
);

#[cfg(target_arch = "aarch64")]
global_asm!(
    ".pushsection .text.memprof_shim_random,\"ax\",%progbits",
    ".weak getrandom",
    ".type getrandom,%function",
    "getrandom:",
    "b memprof_shim_getrandom",
    ".size getrandom,.-getrandom",
    ".weak getentropy",
    ".type getentropy,%function",
    "getentropy:",
    "b memprof_shim_getentropy",
    ".size getentropy,.-getentropy",
    ".weak syscall",
    ".type syscall,%function",
    "syscall:",
    ".cfi_startproc",
    "cmp x0, #278",
    "b.eq 2f",
    "mov x8, x0",
    "mov x0, x1",
    "mov x1, x2",
    "mov x2, x3",
    "mov x3, x4",
    "mov x4, x5",
    "mov x5, x6",
    "svc #0",
    "cmn x0, #4095",
    "b.cs 3f",
    "ret",
    "2:",
    "mov x0, x1",
    "mov x1, x2",
    "mov x2, x3",
    "b memprof_shim_getrandom",
    "3:",
    "b memprof_shim_errno",
    ".cfi_endproc",
    ".size syscall,.-syscall",
    ".popsection",
);
