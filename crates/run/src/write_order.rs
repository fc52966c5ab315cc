//! In which order a test writes to its outputs. Two files cannot tell; the kernel says when each was
//! written to.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use camino::Utf8Path;
use rustix::fs::inotify::{CreateFlags, ReadFlags, Reader, WatchFlags, add_watch, init, remove_watch};

use memprof_support::regular_file;

/// What was written, in order: the number of a file, and how long it was then.
type Written = Arc<Mutex<Vec<(usize, u64)>>>;

/// Watches files until it is dropped. A file that is written to again before anyone has looked counts as
/// written once.
pub(crate) struct WriteOrder {
    kernel: Arc<OwnedFd>,
    watches: Vec<i32>,
    written: Written,
    thread: Option<JoinHandle<()>>,
}

impl WriteOrder {
    /// Watches these files. `None` if the kernel has no more room for watches.
    pub fn watch(paths: &[&Utf8Path]) -> Option<Self> {
        let kernel = Arc::new(init(CreateFlags::CLOEXEC).ok()?);
        let (mut files, mut watches) = (Vec::new(), Vec::new());
        for path in paths {
            files.push(regular_file::open(path).ok()?);
            let flags = WatchFlags::MODIFY | WatchFlags::DONT_FOLLOW;
            watches.push(add_watch(&*kernel, path.as_std_path(), flags).ok()?);
        }
        let written = Written::default();
        let thread = {
            let (kernel, watches, written) = (Arc::clone(&kernel), watches.clone(), Arc::clone(&written));
            std::thread::Builder::new().name("outputs".to_owned()).spawn(move || {
                let mut buffer = [std::mem::MaybeUninit::uninit(); 4096];
                let mut events = Reader::new(&*kernel, &mut buffer);
                let mut left = watches.len();
                while left > 0 {
                    let Ok(event) = events.next() else { return };
                    let Some(number) = watches.iter().position(|watch| *watch == event.wd()) else {
                        continue;
                    };
                    if event.events().contains(ReadFlags::IGNORED) {
                        left -= 1;
                        continue;
                    }
                    let Ok(length) = files[number].metadata().map(|metadata| metadata.len()) else {
                        continue;
                    };
                    let mut written = written.lock().unwrap_or_else(PoisonError::into_inner);
                    match written.last_mut() {
                        Some((last, until)) if *last == number => *until = length,
                        _ => written.push((number, length)),
                    }
                }
            })
        };
        Some(Self { kernel, watches, written, thread: Some(thread.ok()?) })
    }

    /// Returns what was written since the last call.
    pub fn take(&self) -> Vec<(usize, u64)> {
        std::mem::take(&mut *self.written.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns how often that was.
    #[cfg(test)]
    pub fn count(&self) -> usize {
        self.written.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Returns the rest of what was written, once nobody writes any more.
    pub fn finish(mut self) -> Vec<(usize, u64)> {
        self.stop();
        self.take()
    }

    /// Ends the thread after all that the kernel has noted before.
    fn stop(&mut self) {
        for watch in self.watches.drain(..) {
            // A file that was deleted is not watched any more.
            _ = remove_watch(&*self.kernel, watch);
        }
        if let Some(thread) = self.thread.take() {
            _ = thread.join();
        }
    }
}

impl Drop for WriteOrder {
    fn drop(&mut self) {
        self.stop();
    }
}
