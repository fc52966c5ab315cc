//! Code that runs before `main` and after it, without a change to the program's source.
//!
//! The constructor runs after the dynamic loader, the C library's own start and the constructors of
//! shared libraries, and before Rust's runtime and the test harness. So it uses only parts of the
//! standard library that need neither arguments nor the current thread's handle: the environment,
//! files, the clock.
//!
//! `start` is logged here, so the harness's own allocations come after it. No later point comes
//! before the test's body in every harness, unless the source changes.

use crate::blocks::owner;
use crate::log::environment::Environment;
use crate::platform::own_memory;
use crate::recorder::start_and_end;
use crate::stacks::stack_recording;

#[used]
#[cfg_attr(any(target_os = "macos", target_os = "ios"), link_section = "__DATA,__mod_init_func")]
#[cfg_attr(windows, link_section = ".CRT$XCU")]
#[cfg_attr(not(any(target_os = "macos", target_os = "ios", windows)), link_section = ".init_array")]
static CONSTRUCTOR: extern "C" fn() = construct;

extern "C" fn construct() {
    // These decide by variables that are removed below. The first allocation decided already, unless
    // the executable has an allocator that is not tracked.
    own_memory::are_used();
    owner::looks_at_each_block();
    stack_recording::are_recorded();
    if let Some(environment) = Environment::take() {
        // Miri has no `atexit`.
        if start_and_end::start(environment) && !cfg!(miri) {
            // SAFETY: the function is never unloaded. The variables are gone by then, so only an
            // executable's own copy, or a library that it is linked with, gets here.
            unsafe { atexit(destruct) };
        }
    }
}

/// Exit handlers run in the reverse order of their registration. This one was registered before any
/// of the program's, so it runs last, after the destructors of the main thread's thread-locals. A
/// process that ends by a signal, `abort` or `_exit` does not get here, and its log has no `end`.
extern "C" fn destruct() {
    start_and_end::finish();
}

extern "C" {
    fn atexit(handler: extern "C" fn()) -> std::os::raw::c_int;
}
