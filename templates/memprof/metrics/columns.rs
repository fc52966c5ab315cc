//! The sources that traced functions read.

/// Which sources are read when a traced function begins and ends.
#[derive(Clone, Copy)]
#[allow(clippy::struct_excessive_bools)] // Each is a source.
pub(crate) struct Columns {
    pub(crate) heap: bool,
    pub(crate) cpu: bool,
    pub(crate) gpu: bool,
    pub(crate) malloc: bool,
    pub(crate) pool: bool,
    pub(crate) time: bool,
}

impl Columns {
    /// Parses names separated by commas.
    pub(crate) fn from_names(names: &str) -> Self {
        let has = |name: &str| names.split(',').any(|one| one.trim() == name);
        Self {
            heap: has("heap"),
            cpu: has("cpu"),
            gpu: has("gpu"),
            malloc: has("malloc"),
            pool: has("pool"),
            time: has("time"),
        }
    }

    /// Whether traced functions show this metric.
    pub(crate) fn has(self, metric: &str) -> bool {
        (self.heap && metric.starts_with("heap."))
            || (self.cpu && metric.starts_with("cpu."))
            || (self.gpu && metric.starts_with("gpu."))
            || (self.malloc && metric.starts_with("malloc."))
            || (self.pool && metric.starts_with("pool."))
    }
}
