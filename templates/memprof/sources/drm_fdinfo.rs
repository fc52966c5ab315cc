//! The text that the kernel's DRM drivers (amdgpu, i915, xe and others) write into
//! `/proc/PID/fdinfo` for their files: the device memory of each client.
//! <https://docs.kernel.org/gpu/drm-usage-stats.html>

/// Longest name of a device, in bytes: `0000:03:00.0`, or a platform device's.
pub(crate) const NAME: usize = 48;

/// One client of one device. A file that was duplicated or inherited shows the same client again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Client {
    device: [u8; NAME],
    device_length: usize,
    driver: [u8; NAME],
    driver_length: usize,
    /// Unique on its device.
    pub(crate) id: u64,
    /// Bytes in the device's own memory; `None` if it has none, like a processor's built-in
    /// graphics.
    pub(crate) device_memory: Option<u64>,
}

impl Client {
    /// The device's address: `0000:03:00.0`.
    pub(crate) fn device(&self) -> &str {
        std::str::from_utf8(&self.device[..self.device_length]).unwrap_or("?")
    }

    /// The kernel's driver: `amdgpu`.
    pub(crate) fn driver(&self) -> &str {
        std::str::from_utf8(&self.driver[..self.driver_length]).unwrap_or("?")
    }

    /// Parses one file. Returns `None` if it does not belong to a DRM driver that numbers its
    /// clients.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut client = Self {
            device: [0; NAME],
            device_length: 0,
            driver: [0; NAME],
            driver_length: 0,
            id: 0,
            device_memory: None,
        };
        let mut id = None;
        let mut memory = Memory::default();
        for line in text.lines() {
            let (key, value) = match line.split_once(':') {
                Some((key, value)) => (key, value.trim()),
                None => continue,
            };
            match key {
                "drm-pdev" => client.device_length = keep(&mut client.device, value),
                "drm-driver" => client.driver_length = keep(&mut client.driver, value),
                "drm-client-id" => id = value.parse().ok(),
                _ => memory.take(key, value),
            }
        }
        client.id = id?;
        client.device_memory = memory.bytes();
        if client.device_length == 0 {
            // A device without a bus has no address. Its driver's name stands for it.
            client.device = client.driver;
            client.device_length = client.driver_length;
        }
        if client.device_length == 0 {
            return None;
        }
        Some(client)
    }
}

/// The sums over a client's regions of device memory, for each of the kernel's three ways to count.
#[derive(Default)]
struct Memory {
    /// What is in the device's memory now.
    resident: Option<u64>,
    /// The older name for the same.
    legacy: Option<u64>,
    /// What was made there; some of it may have moved out since.
    total: Option<u64>,
}

impl Memory {
    fn take(&mut self, key: &str, value: &str) {
        let counts = [
            ("drm-resident-", &mut self.resident),
            ("drm-memory-", &mut self.legacy),
            ("drm-total-", &mut self.total),
        ];
        for (prefix, sum) in counts {
            let region = key.strip_prefix(prefix).filter(|region| is_device_memory(region));
            if let (Some(_), Some(bytes)) = (region, bytes(value)) {
                *sum = Some(sum.unwrap_or(0) + bytes);
            }
        }
    }

    fn bytes(self) -> Option<u64> {
        self.resident.or(self.legacy).or(self.total)
    }
}

/// Whether a region is device memory: `vram` (amdgpu), `vram0` (xe), `local0` (i915); not `gtt`,
/// `system0`, `cpu` or `stolen`.
fn is_device_memory(region: &str) -> bool {
    let kind = region.trim_end_matches(|character: char| character.is_ascii_digit());
    kind == "vram" || kind == "local"
}

/// Parses `12 KiB`, `3 MiB`, or bytes without a unit.
fn bytes(value: &str) -> Option<u64> {
    let mut parts = value.split_ascii_whitespace();
    let number: u64 = parts.next()?.parse().ok()?;
    match parts.next() {
        None => Some(number),
        Some("KiB") => number.checked_mul(1 << 10),
        Some("MiB") => number.checked_mul(1 << 20),
        Some(_) => None,
    }
}

fn keep(place: &mut [u8; NAME], text: &str) -> usize {
    let length = text.len().min(NAME);
    place[..length].copy_from_slice(&text.as_bytes()[..length]);
    length
}
