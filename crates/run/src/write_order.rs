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

/// Watches files until it is dropped, or until they are written to so fast that the kernel loses count. A
/// file that is written to again before anyone has looked counts as written once.
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
                    if event.events().contains(ReadFlags::QUEUE_OVERFLOW) {
                        // The end of a watch may be lost, too, and would be waited for without end.
                        return;
                    }
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

    /// Whether the files are no longer watched.
    pub fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
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
    pub fn stop(&mut self) {
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

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::AsRawFd;
    use std::time::{Duration, Instant};

    use super::*;

    fn until(what: &str, is_so: impl Fn() -> bool) {
        let begin = Instant::now();
        while !is_so() {
            assert!(begin.elapsed() < Duration::from_secs(20), "{what}");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    #[test]
    fn it_ends_also_if_the_kernel_has_lost_the_end_of_the_watches() {
        let folder = tempfile::tempdir().unwrap();
        let folder = Utf8Path::from_path(folder.path()).unwrap();
        let paths = ["one", "two"].map(|name| folder.join(name));
        let mut files = paths.each_ref().map(|path| fs_err::File::create(path).unwrap());
        let order = WriteOrder::watch(&[&paths[0], &paths[1]]).unwrap();
        let written = Arc::clone(&order.written);
        let watched = format!("/proc/self/fdinfo/{}", order.kernel.as_raw_fd());
        let most: u32 = std::fs::read_to_string("/proc/sys/fs/inotify/max_queued_events")
            .unwrap()
            .trim()
            .parse()
            .unwrap();
        // The thread stands still meanwhile, as on a busy machine.
        let busy = written.lock().unwrap();
        for _ in 0..most / 2 + 1000 {
            for file in &mut files {
                file.write_all(b"a line\n").unwrap();
            }
        }
        let finishing = std::thread::spawn(|| order.finish());
        until("the watches are removed", || {
            !std::fs::read_to_string(&watched).unwrap().contains("inotify wd:")
        });
        drop(busy);
        until("the thread ends", || finishing.is_finished());
        assert!(!finishing.join().unwrap().is_empty());
    }
}
