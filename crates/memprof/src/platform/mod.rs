//! What `shared` needs of each crate.
//! In the shim, these keep their memory past the global allocator.

#[cfg_attr(not(all(target_os = "linux", target_pointer_width = "64", not(miri))), allow(dead_code))]
pub(crate) mod untracked;
