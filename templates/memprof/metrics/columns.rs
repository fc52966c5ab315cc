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
        let mut columns =
            Self { heap: false, cpu: false, gpu: false, malloc: false, pool: false, time: false };
        for name in names.split(',') {
            if let Some(column) = columns.of_group(name.trim()) {
                *column = true;
            }
        }
        columns
    }

    /// Whether traced functions show this metric.
    pub(crate) fn has(mut self, metric: &str) -> bool {
        let group = metric.split('.').next().unwrap_or_default();
        self.of_group(group).map_or(false, |column| *column)
    }

    /// The column of a group of metrics, by the first part of their names.
    fn of_group(&mut self, group: &str) -> Option<&mut bool> {
        Some(match group {
            "heap" => &mut self.heap,
            "cpu" => &mut self.cpu,
            "gpu" => &mut self.gpu,
            "malloc" => &mut self.malloc,
            "pool" => &mut self.pool,
            "time" => &mut self.time,
            _ => return None,
        })
    }
}
