//! GPUs are known on 64-bit Linux only.

pub(crate) struct GpuReading {
    pub(crate) device: &'static str,
    pub(crate) bytes: Result<u64, &'static str>,
}

pub(crate) fn read() -> Vec<GpuReading> {
    Vec::new()
}
