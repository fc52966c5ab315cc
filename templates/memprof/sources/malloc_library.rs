//! The library in front of the C library's allocator, which the runner has loaded with `LD_PRELOAD`
//! if a metric `malloc.…` was requested. Its source is the crate `memprof_malloc`.

use std::cell::Cell;
use std::ops::Range;
use std::os::raw::{c_char, c_int, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::blocks::site_figures::{AtNextMark, Changed, Interval};
use crate::log::environment::Environment;
use crate::platform::loaded;
use crate::platform::untracked::{Untracked, kept};
use crate::sources::malloc_link::{
    Figures, INCOMPLETE, Library, NO_USABLE_SIZE, SYMBOL, UNBALANCED, VERSION,
};
use crate::stacks::sites;
use crate::stacks::stack_recording;

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
    // As the executable's own code finds them.
    fn malloc(size: usize) -> *mut c_void;
    fn calloc(count: usize, size: usize) -> *mut c_void;
    fn realloc(block: *mut c_void, size: usize) -> *mut c_void;
    fn free(block: *mut c_void);
    fn posix_memalign(out: *mut *mut c_void, align: usize, size: usize) -> c_int;
}

/// Functions that other libraries find in the loader's order. A program that has its own `malloc`
/// has these, too.
const FAMILY: [&[u8]; 6] =
    [b"malloc\0", b"calloc\0", b"realloc\0", b"free\0", b"posix_memalign\0", b"aligned_alloc\0"];

#[derive(Clone, Copy)]
pub(crate) struct MallocLibrary(&'static Library);

const UNBALANCED_WORDS: &str = "more was freed than allocated: a library allocates past the loader's order, for example with RTLD_DEEPBIND";

/// The addresses of the library's code.
static CODE: (AtomicUsize, AtomicUsize) = (AtomicUsize::new(0), AtomicUsize::new(0));

/// Returns the library, or the reason why it does not count this process. If the run records call
/// stacks, it does so from here on.
pub(crate) fn find(environment: &Environment) -> Result<MallocLibrary, &'static str> {
    let path = environment.malloc_library()?;
    let found = symbol(SYMBOL).cast::<Library>();
    if found.is_null() {
        return Err(if loaded::is_executable_static() {
            "the executable is static, so no library can be put in front of its allocator"
        } else {
            kept(format_args!(
                "{path} is not loaded: LD_PRELOAD did not reach this process, or the loader refused the library"
            ))
        });
    }
    // SAFETY: nothing but the library exports this name. The version is the first field in each.
    let library = unsafe { &*found };
    if library.version != VERSION {
        return Err("the library in front of the C library's allocator has another version");
    }
    is_in_front(found.cast())?;
    let library = MallocLibrary(library);
    library.problem()?;
    if stack_recording::are_recorded() {
        library.record_stacks()?;
    }
    Ok(library)
}

/// Checks that the executable and its libraries reach the functions of the library at this address.
fn is_in_front(library: *const c_void) -> Result<(), &'static str> {
    let own: [*const c_void; 5] = [
        malloc as *const c_void,
        calloc as *const c_void,
        realloc as *const c_void,
        free as *const c_void,
        posix_memalign as *const c_void,
    ];
    let (base, _) = home(library);
    let found = FAMILY.iter().map(|name| symbol(name) as *const c_void);
    for address in own.iter().copied().chain(found) {
        let (other, name) = home(address);
        if other != base {
            return Err(kept(format_args!(
                "another allocator replaces malloc ({name}), so calls do not reach the library in front of the \
                 C library's"
            )));
        }
    }
    Ok(())
}

fn symbol(name: &'static [u8]) -> *mut c_void {
    // SAFETY: the name ends with a zero byte; a null handle is RTLD_DEFAULT.
    unsafe { dlsym(null_mut(), name.as_ptr().cast()) }
}

/// The base address and the path of the loaded file that has this address.
fn home(address: *const c_void) -> (*mut c_void, &'static str) {
    let mut info = DlInfo {
        file_name: null_mut(),
        file_base: null_mut(),
        symbol_name: null_mut(),
        symbol_address: null_mut(),
    };
    // SAFETY: any address is allowed, and `info` is writable.
    let is_known = unsafe { dladdr(address, &mut info) } != 0;
    let name = if is_known && !info.file_name.is_null() {
        // SAFETY: the loader's path of a loaded file is a C string, and no file is unloaded here.
        unsafe { std::ffi::CStr::from_ptr(info.file_name) }.to_str().unwrap_or("a path that is not UTF-8")
    } else {
        "an unknown file"
    };
    (info.file_base, name)
}

impl MallocLibrary {
    /// Why the figures mean nothing, if so.
    pub(crate) fn problem(self) -> Result<(), &'static str> {
        match (self.0.problem)() {
            0 => Ok(()),
            NO_USABLE_SIZE => Err("the allocator behind malloc does not tell the size of a block"),
            INCOMPLETE => {
                Err("a signal handler allocated while the interrupted thread counted a block of malloc")
            }
            UNBALANCED => Err(UNBALANCED_WORDS),
            _ => Err("the library in front of the C library's allocator has an unknown problem"),
        }
    }

    /// The figures; `None` if they are not complete.
    pub(crate) fn read(self) -> Option<Figures> {
        let mut figures = Figures::default();
        (self.0.read)(&mut figures);
        if self.problem().is_ok() { Some(figures) } else { None }
    }

    fn record_stacks(self) -> Result<(), &'static str> {
        let mut modules = Untracked::new();
        loaded::add_new(&mut modules);
        let address = self.0.read as usize;
        let own = modules.iter().find(|module| (module.begin..module.end).contains(&address));
        let own =
            own.ok_or("the library in front of the C library's allocator is not in the loader's list")?;
        CODE.0.store(own.begin, Ordering::Relaxed);
        CODE.1.store(own.end, Ordering::Relaxed);
        (self.0.record_stacks)(current_site);
        Ok(())
    }

    pub(crate) fn at_next_mark(self, what: AtNextMark) {
        (self.0.at_next_mark)(what as u32);
    }

    /// Calls `each` with the interval that ended at the last mark, and the sites that changed in it.
    pub(crate) fn with_interval(self, each: &mut dyn FnMut(Interval, &[Changed])) {
        if !stack_recording::are_recorded() {
            return;
        }
        let mut interval = Interval { live: 0, peak: 0, allocated: 0, count: 0 };
        let mut changed = Untracked::new();
        let nothing = Changed { site: 0, at_peak: 0, live: 0, allocated: 0, count: 0 };
        loop {
            let room = changed.len();
            let count = (self.0.interval)(&mut interval, changed.as_mut().as_mut_ptr(), room);
            if count <= room {
                return each(interval, &changed[..count]);
            }
            for _ in room..count {
                changed.push(nothing);
            }
        }
    }
}

thread_local! {
    /// Whether this thread is looking for a site. The unwinder may allocate, and that comes here again.
    static IS_LOOKING: Cell<bool> = const { Cell::new(false) };
}

/// The site of an allocation. The library calls this in each.
extern "C" fn current_site() -> u32 {
    let site = IS_LOOKING.try_with(|is_looking| {
        if is_looking.replace(true) {
            return sites::NOT_ATTRIBUTED;
        }
        let code: Range<usize> = CODE.0.load(Ordering::Relaxed)..CODE.1.load(Ordering::Relaxed);
        let site = sites::current_beyond(&code);
        is_looking.set(false);
        site
    });
    site.unwrap_or(sites::NOT_ATTRIBUTED)
}
