//! A file whose end is mapped, so that appending to it is a copy to memory and no system call.
//!
//! The bytes are in the kernel's page cache at once, and stay if the process is killed. One window of
//! the file is mapped at a time. Its blocks are reserved before: on a full disk, a copy would
//! otherwise end the process by `SIGBUS`. Until the file is closed in an orderly way, zero bytes
//! follow the written ones.

use std::fs::File;
use std::io;
use std::os::raw::{c_int, c_long, c_void};
use std::os::unix::fs::MetadataExt;
use std::os::unix::io::AsRawFd;
use std::ptr;

extern "C" {
    fn mmap(
        at: *mut c_void,
        length: usize,
        access: c_int,
        flags: c_int,
        file: c_int,
        offset: c_long,
    ) -> *mut c_void;
    fn fallocate(file: c_int, mode: c_int, offset: c_long, length: c_long) -> c_int;
}

const READ_AND_WRITE: c_int = 1 | 2;
const MAP_SHARED: c_int = 1;
const MAP_FIXED: c_int = 0x10;

/// A multiple of every page size. It is resident, so it is small: some 200 checkpoints.
const WINDOW: usize = 64 << 10;
const PAGE: usize = 4096;

pub(crate) struct MappedFile {
    window: *mut u8,
    /// How much of the file is before the window, and how much of the window is written.
    before: u64,
    written: usize,
    /// The length of the file.
    reserved: u64,
    /// Which file it is: the program may close the descriptor, and open its own file with the number.
    device: u64,
    inode: u64,
}

// SAFETY: only the owner uses the window.
unsafe impl Send for MappedFile {}

impl MappedFile {
    /// Maps the end of an empty file; `None` if its file system refuses that. The file is then as it
    /// was.
    pub(crate) fn at_end_of(file: &File) -> Option<Self> {
        let found = file.metadata().ok().filter(|found| found.is_file() && found.len() == 0)?;
        let mut mapped = Self {
            window: ptr::null_mut(),
            before: 0,
            written: 0,
            reserved: 0,
            device: found.dev(),
            inode: found.ino(),
        };
        if mapped.reserve(file, WINDOW).and_then(|()| mapped.map(file)).is_err() {
            // The file may have been made longer.
            let _ = file.set_len(0);
            return None;
        }
        for page in (0..WINDOW).step_by(PAGE) {
            // SAFETY: these bytes are mapped. Now is a better time for the kernel to provide the
            // page than the first checkpoint.
            unsafe { mapped.window.add(page).write_volatile(0) };
        }
        Some(mapped)
    }

    /// Appends bytes, all or none.
    ///
    /// # Errors
    /// The disk is full, or the descriptor is no longer that of the file.
    pub(crate) fn append(&mut self, file: &File, mut bytes: &[u8]) -> io::Result<()> {
        let room = WINDOW - self.written;
        if bytes.len() > room {
            self.check(file)?;
            self.reserve(file, bytes.len() - room)?;
        }
        while !bytes.is_empty() {
            if self.written == WINDOW {
                self.before += WINDOW as u64;
                self.map(file)?;
                self.written = 0;
            }
            let (now, later) = bytes.split_at(bytes.len().min(WINDOW - self.written));
            // SAFETY: so many bytes behind the written ones are mapped, and nothing else is there.
            unsafe { self.window.add(self.written).copy_from_nonoverlapping(now.as_ptr(), now.len()) };
            self.written += now.len();
            bytes = later;
        }
        Ok(())
    }

    /// Cuts the zero bytes off. What others wrote behind them stays, and the reader refuses it. If the
    /// descriptor is gone, the reader cuts them off.
    pub(crate) fn close(&mut self, file: &File) {
        if let Ok(length) = self.check(file) {
            if length == self.reserved {
                let _ = file.set_len(self.before + self.written as u64);
            }
        }
    }

    /// Reserves windows for so many bytes more.
    fn reserve(&mut self, file: &File, more: usize) -> io::Result<()> {
        let length = (more + WINDOW - 1) / WINDOW * WINDOW;
        // SAFETY: it takes numbers.
        if unsafe { fallocate(file.as_raw_fd(), 0, self.reserved as c_long, length as c_long) } != 0 {
            return Err(io::Error::last_os_error());
        }
        self.reserved += length as u64;
        Ok(())
    }

    /// Returns the length of the file.
    fn check(&self, file: &File) -> io::Result<u64> {
        let found = file.metadata()?;
        if (found.dev(), found.ino()) == (self.device, self.inode) {
            Ok(found.len())
        } else {
            Err(io::Error::from_raw_os_error(EBADF))
        }
    }

    /// Moves the window.
    fn map(&mut self, file: &File) -> io::Result<()> {
        let descriptor = file.as_raw_fd();
        // SAFETY: this maps the file at a new place, or in the place of the last window.
        unsafe {
            let flags = if self.window.is_null() { MAP_SHARED } else { MAP_SHARED | MAP_FIXED };
            let offset = self.before as c_long;
            let mapped = mmap(self.window.cast(), WINDOW, READ_AND_WRITE, flags, descriptor, offset);
            if mapped as isize == -1 {
                return Err(io::Error::last_os_error());
            }
            self.window = mapped.cast();
        }
        Ok(())
    }
}

const EBADF: i32 = 9;
