//! The next definitions of the allocator's functions in the loader's order.
//!
//! They are found with `dlsym(RTLD_NEXT)`, at the first call. It comes from the loader, before any
//! other thread exists. glibc's names `__libc_malloc` and so on would need no search, but they would
//! replace an allocator that the program links as a shared library, and musl lacks them. What `dlsym`
//! itself allocates meanwhile comes from a piece of static memory and is in no figure.

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::os::raw::{c_char, c_int, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

type Allocate = unsafe extern "C" fn(usize) -> *mut c_void;
type AllocateAligned = unsafe extern "C" fn(usize, usize) -> *mut c_void;
type PosixMemalign = unsafe extern "C" fn(*mut *mut c_void, usize, usize) -> c_int;

#[derive(Clone, Copy)]
pub(crate) struct Functions {
    pub(crate) malloc: Allocate,
    pub(crate) calloc: unsafe extern "C" fn(usize, usize) -> *mut c_void,
    pub(crate) realloc: unsafe extern "C" fn(*mut c_void, usize) -> *mut c_void,
    pub(crate) free: unsafe extern "C" fn(*mut c_void),
    pub(crate) posix_memalign: PosixMemalign,
    pub(crate) aligned_alloc: AllocateAligned,
    pub(crate) memalign: AllocateAligned,
    pub(crate) valloc: Allocate,
    pub(crate) pvalloc: Allocate,
    pub(crate) usable_size: Option<unsafe extern "C" fn(*mut c_void) -> usize>,
}

struct Found(UnsafeCell<MaybeUninit<Functions>>);

// SAFETY: written once, before `STATE` is `FOUND`; only read from then on.
unsafe impl Sync for Found {}

static NEXT: Found = Found(UnsafeCell::new(MaybeUninit::uninit()));
static STATE: AtomicU8 = AtomicU8::new(UNKNOWN);

const UNKNOWN: u8 = 0;
const SEARCHING: u8 = 1;
const FOUND: u8 = 2;

#[repr(C)]
struct DlInfo {
    file_name: *const c_char,
    file_base: *mut c_void,
    symbol_name: *const c_char,
    symbol_address: *mut c_void,
}

extern "C" {
    fn dlsym(handle: *mut c_void, symbol: *const c_char) -> *mut c_void;
    fn dladdr(address: *const c_void, info: *mut DlInfo) -> c_int;
    fn __errno_location() -> *mut c_int;
}

/// Returns the next definitions; `None` while they are searched for.
#[inline]
pub(crate) fn functions() -> Option<&'static Functions> {
    if STATE.load(Ordering::Acquire) == FOUND {
        // SAFETY: see `Found`.
        return Some(unsafe { (*NEXT.0.get()).assume_init_ref() });
    }
    search()
}

#[cold]
#[inline(never)]
fn search() -> Option<&'static Functions> {
    if STATE.compare_exchange(UNKNOWN, SEARCHING, Ordering::Acquire, Ordering::Relaxed).is_err() {
        return None;
    }
    // SAFETY: only one caller gets here, and nobody reads before `FOUND`.
    unsafe { (*NEXT.0.get()).write(find()) };
    STATE.store(FOUND, Ordering::Release);
    functions()
}

fn find() -> Functions {
    macro_rules! function {
        ($name:literal, $otherwise:expr) => {{
            let address = symbol(concat!($name, "\0").as_bytes());
            if address.is_null() {
                $otherwise
            } else {
                // SAFETY: this is the type of the function of this name in the C library's headers.
                #[allow(clippy::missing_transmute_annotations)]
                unsafe {
                    std::mem::transmute::<*mut c_void, _>(address)
                }
            }
        }};
    }
    let malloc_address = symbol(b"malloc\0");
    let usable_size = symbol(b"malloc_usable_size\0");
    let aligned_alloc = function!("aligned_alloc", absent_aligned as AllocateAligned);
    // musl's other functions call `aligned_alloc` through the loader, and would be counted twice.
    let is_musl = cfg!(target_env = "musl");
    Functions {
        malloc: function!("malloc", absent as Allocate),
        calloc: function!("calloc", absent_aligned as AllocateAligned),
        realloc: function!("realloc", absent_realloc),
        free: function!("free", absent_free),
        posix_memalign: if is_musl {
            posix_memalign_by_aligned_alloc as PosixMemalign
        } else {
            function!("posix_memalign", absent_posix_memalign as PosixMemalign)
        },
        aligned_alloc,
        memalign: if is_musl {
            aligned_alloc
        } else {
            function!("memalign", absent_aligned as AllocateAligned)
        },
        valloc: if is_musl { absent as Allocate } else { function!("valloc", absent as Allocate) },
        pvalloc: function!("pvalloc", absent as Allocate),
        // The function of another allocator would read these blocks wrongly.
        usable_size: if file_of(usable_size) == file_of(malloc_address) {
            function!("malloc_usable_size", None)
        } else {
            None
        },
    }
}

fn symbol(name: &'static [u8]) -> *mut c_void {
    const RTLD_NEXT: *mut c_void = -1_isize as *mut c_void;
    // SAFETY: the name ends with a zero byte.
    unsafe { dlsym(RTLD_NEXT, name.as_ptr().cast()) }
}

/// The base address of the loaded file that has this address.
fn file_of(address: *const c_void) -> *mut c_void {
    let mut info = DlInfo {
        file_name: null_mut(),
        file_base: null_mut(),
        symbol_name: null_mut(),
        symbol_address: null_mut(),
    };
    // SAFETY: any address is allowed, and `info` is writable.
    unsafe { dladdr(address, &mut info) };
    info.file_base
}

// Stand for functions that the next allocator lacks.

unsafe extern "C" fn absent(_: usize) -> *mut c_void {
    out_of_memory()
}

unsafe extern "C" fn absent_aligned(_: usize, _: usize) -> *mut c_void {
    out_of_memory()
}

unsafe extern "C" fn absent_realloc(_: *mut c_void, _: usize) -> *mut c_void {
    out_of_memory()
}

unsafe extern "C" fn absent_free(_: *mut c_void) {}

unsafe extern "C" fn absent_posix_memalign(_: *mut *mut c_void, _: usize, _: usize) -> c_int {
    ENOMEM
}

unsafe extern "C" fn posix_memalign_by_aligned_alloc(
    out: *mut *mut c_void,
    align: usize,
    size: usize,
) -> c_int {
    const EINVAL: c_int = 22;
    if align < std::mem::size_of::<usize>() || !align.is_power_of_two() {
        return EINVAL;
    }
    let block = functions().map_or(null_mut(), |next| (next.aligned_alloc)(align, size));
    if block.is_null() {
        return ENOMEM;
    }
    *out = block;
    0
}

const ENOMEM: c_int = 12;

pub(crate) fn out_of_memory() -> *mut c_void {
    // SAFETY: this is the calling thread's `errno`.
    unsafe { *__errno_location() = ENOMEM };
    null_mut()
}

/// The static memory for `dlsym`: zeroed, and never used again.
#[repr(align(16))]
struct Early(UnsafeCell<[u8; EARLY]>);

// SAFETY: each block is handed out once.
unsafe impl Sync for Early {}

const EARLY: usize = 16 << 10;
/// Before each block stands its size.
const HEADER: usize = 16;

static EARLY_MEMORY: Early = Early(UnsafeCell::new([0; EARLY]));
static EARLY_USED: AtomicUsize = AtomicUsize::new(0);

pub(crate) fn early(size: usize) -> *mut c_void {
    let rounded = match size.checked_add(HEADER + 15) {
        Some(size) => size & !15,
        None => return out_of_memory(),
    };
    let begin = EARLY_USED.fetch_add(rounded.min(EARLY), Ordering::Relaxed);
    if begin > EARLY - rounded.min(EARLY) || rounded > EARLY {
        return out_of_memory();
    }
    // SAFETY: this part of the memory is only this caller's, and it is aligned to 16 bytes.
    unsafe {
        let header = EARLY_MEMORY.0.get().cast::<u8>().add(begin);
        #[allow(clippy::cast_ptr_alignment)]
        header.cast::<usize>().write(size);
        header.add(HEADER).cast()
    }
}

pub(crate) fn is_early(block: *mut c_void) -> bool {
    (block as usize).wrapping_sub(EARLY_MEMORY.0.get() as usize) < EARLY
}

/// # Safety
/// [`early`] returned the block.
pub(crate) unsafe fn early_size(block: *mut c_void) -> usize {
    block.cast::<u8>().sub(HEADER).cast::<usize>().read()
}
