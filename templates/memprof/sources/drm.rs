//! `gpu.<place>.vram`: device memory of this process from the kernel's own count, for drivers that
//! have it (amdgpu, i915, xe).
//!
//! This looks at all open files for those of DRM, which takes microseconds for each. So it is done
//! only in a process that has loaded a library for such devices.

use std::os::raw::{c_char, c_int, c_void};

use crate::log::environment::Environment;
use crate::metrics::metric::{Catalogue, Index, Kind, Metric, Values};
use crate::metrics::source::{Extent, Source};
use crate::platform::loaded;
use crate::platform::numbered_entries;
use crate::platform::untracked::{Text, Untracked, kept};
use crate::sources::drm_fdinfo::Client;

/// Libraries of programs that use such a device: DRM's own (Mesa and AMD use it), and Intel's,
/// which do without it.
const LIBRARIES: [&[u8]; 4] = [b"libdrm", b"libhsa-runtime64", b"libze_intel_gpu", b"libigdrcl"];

pub(crate) struct Drm {
    loads: u64,
    in_use: bool,
    devices: Untracked<(&'static str, Index)>,
    clients: Untracked<Client>,
}

impl Drm {
    pub(crate) const fn new() -> Self {
        Self { loads: 0, in_use: false, devices: Untracked::new(), clients: Untracked::new() }
    }

    /// Finds all clients that this process has open, each once.
    fn look(&mut self) {
        self.clients.clear();
        let clients = &mut self.clients;
        numbered_entries::each("/proc/self/fdinfo", |descriptor| {
            let mut text = [0; 4096];
            let path = Text::format(format_args!("/proc/self/fdinfo/{descriptor}\0"));
            let client = std::str::from_utf8(read(&path, &mut text)).ok().and_then(Client::parse);
            if let Some(client) = client {
                let known =
                    clients.iter().any(|known| known.id == client.id && known.device() == client.device());
                if !known {
                    clients.push(client);
                }
            }
        });
    }
}

impl Source for Drm {
    fn open(&mut self, _environment: &Environment, _catalogue: &mut Catalogue) {}

    fn appear(&mut self, catalogue: &mut Catalogue) {
        if !self.in_use {
            let loads = loaded::loads();
            if loads == std::mem::replace(&mut self.loads, loads) {
                return;
            }
            self.in_use = loaded::find(is_used_with_drm).is_some();
            if !self.in_use {
                return;
            }
        }
        self.look();
        for client in self.clients.iter().filter(|client| client.device_memory.is_some()) {
            let known = self.devices.iter().any(|(device, _)| *device == client.device());
            if !known && catalogue.length() < crate::metrics::metric::MAXIMUM {
                let metric = Metric {
                    name: kept(format_args!("gpu.{}.vram", client.device())),
                    source: kept(format_args!("DRM fdinfo ({})", client.driver())),
                    kind: Kind::Level,
                    lost: "the process has closed the device",
                    is_zero_before: true,
                    base: 0,
                };
                self.devices.push((kept(format_args!("{}", client.device())), catalogue.add_metric(metric)));
            }
        }
    }

    fn read(&mut self, values: &mut Values, _extent: Extent) {
        for &(device, index) in self.devices.iter() {
            let of_device = self.clients.iter().filter(|client| client.device() == device);
            let bytes = of_device.filter_map(|client| client.device_memory);
            values.set(index, bytes.fold(None, |sum, bytes| Some(sum.unwrap_or(0) + bytes)));
        }
    }
}

fn is_used_with_drm(file_name: &[u8]) -> bool {
    LIBRARIES.iter().any(|library| file_name.starts_with(library))
}

/// Reads a small file. The standard library of older Rusts allocates a path on the tracked heap.
fn read<'a>(path: &Text, buffer: &'a mut [u8]) -> &'a [u8] {
    extern "C" {
        fn open(path: *const c_char, flags: c_int, ...) -> c_int;
        fn read(descriptor: c_int, buffer: *mut c_void, length: usize) -> isize;
        fn close(descriptor: c_int) -> c_int;
    }
    const O_RDONLY_CLOEXEC: c_int = 0o200_0000;
    // SAFETY: the path ends with a zero byte, and the kernel writes only into the buffer.
    let length = unsafe {
        let descriptor = open(path.as_str().as_ptr().cast(), O_RDONLY_CLOEXEC);
        if descriptor < 0 {
            return &[];
        }
        let length = read(descriptor, buffer.as_mut_ptr().cast(), buffer.len());
        close(descriptor);
        length
    };
    &buffer[..usize::try_from(length).unwrap_or(0)]
}
