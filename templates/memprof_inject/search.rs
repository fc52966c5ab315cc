//! Finds the shim's rendezvous in the memory of this process. The executable exports no symbols, so
//! the loader cannot find it.

// Addresses have 64 bits here, as `lib.rs` says.
#![allow(clippy::cast_possible_truncation)]

use std::os::raw::{c_char, c_int, c_void};

use crate::gpu::rendezvous::Rendezvous;

extern "C" {
    fn dl_iterate_phdr(
        callback: unsafe extern "C" fn(*const Object, usize, *mut c_void) -> c_int,
        data: *mut c_void,
    ) -> c_int;
}

/// The beginning of `struct dl_phdr_info` of `link.h`.
#[repr(C)]
struct Object {
    address: usize,
    name: *const c_char,
    headers: *const Header,
    header_count: u16,
}

/// `Elf64_Phdr`.
#[repr(C)]
struct Header {
    kind: u32,
    flags: u32,
    offset: u64,
    virtual_address: u64,
    physical_address: u64,
    file_size: u64,
    memory_size: u64,
    alignment: u64,
}

const PT_LOAD: u32 = 1;
const PF_W: u32 = 2;

/// Returns the rendezvous at which this process's shim listens. The executable comes first among
/// the loaded files.
pub(crate) fn rendezvous() -> Option<&'static Rendezvous> {
    unsafe extern "C" fn each(object: *const Object, _size: usize, found: *mut c_void) -> c_int {
        let object = &*object;
        for index in 0..usize::from(object.header_count) {
            let header = &*object.headers.add(index);
            if header.kind != PT_LOAD || header.flags & PF_W == 0 {
                continue;
            }
            let start = object.address.wrapping_add(header.virtual_address as usize);
            // Memory beyond the file's part is zero at the start, and the rendezvous is not zero.
            if let Some(place) = find(start, start.wrapping_add(header.file_size as usize)) {
                *found.cast::<*const Rendezvous>() = place;
                return 1;
            }
        }
        0
    }
    let mut found: *const Rendezvous = std::ptr::null();
    // SAFETY: the callback gets the pointer that is handed over here. A rendezvous is a static of
    // the shim.
    unsafe {
        dl_iterate_phdr(each, std::ptr::addr_of_mut!(found).cast());
        found.as_ref()
    }
}

/// Searches between two addresses of one readable segment.
fn find(start: usize, end: usize) -> Option<*const Rendezvous> {
    let mut place = (start + Rendezvous::ALIGNMENT - 1) & !(Rendezvous::ALIGNMENT - 1);
    while place + Rendezvous::SIZE <= end {
        if Rendezvous::is_at(place as *const u8) {
            return Some(place as *const Rendezvous);
        }
        place += Rendezvous::ALIGNMENT;
    }
    None
}
