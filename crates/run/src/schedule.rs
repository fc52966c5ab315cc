//! Which runs may start beside which. Pure.
//!
//! A run that needs the machine for itself runs alone. Runs that can see the same device run one
//! after the other.

use std::collections::BTreeSet;

use memprof_gpu::devices::CudaDevice;

/// What a run does not share with others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Needs {
    /// The whole machine: nothing runs beside it.
    pub machine: bool,
    /// The devices that it can see.
    pub devices: BTreeSet<CudaDevice>,
}

impl Needs {
    fn allows(&self, other: &Self) -> bool {
        !self.machine && !other.machine && self.devices.is_disjoint(&other.devices)
    }
}

/// The runs that wait, and those that are under way.
#[derive(Debug)]
pub(crate) struct Schedule {
    /// How many runs may be under way at once.
    jobs: usize,
    /// In the order in which they start, if nothing is in the way.
    waiting: Vec<Entry>,
    running: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    run: usize,
    needs: Needs,
    /// Whether another run was under way at the same time.
    is_beside: bool,
}

impl Schedule {
    /// A schedule for these runs, in this order.
    pub fn new(jobs: usize, runs: impl IntoIterator<Item = (usize, Needs)>) -> Self {
        let entry = |(run, needs)| Entry { run, needs, is_beside: false };
        Self { jobs, waiting: runs.into_iter().map(entry).collect(), running: Vec::new() }
    }

    /// Returns the run that may start next. `None` if all wait for one that is under way, or none
    /// is left.
    pub fn next(&self) -> Option<usize> {
        if self.running.len() >= self.jobs {
            return None;
        }
        let may_start = |entry: &&Entry| self.running.iter().all(|other| other.needs.allows(&entry.needs));
        self.waiting.iter().find(may_start).map(|entry| entry.run)
    }

    /// Notes that a run has started.
    pub fn start(&mut self, run: usize) {
        let Some(at) = self.waiting.iter().position(|entry| entry.run == run) else { return };
        let mut entry = self.waiting.remove(at);
        entry.is_beside = !self.running.is_empty();
        self.running.iter_mut().for_each(|other| other.is_beside = true);
        self.running.push(entry);
    }

    /// Notes that a run has ended. Returns whether another one was under way at any time.
    pub fn end(&mut self, run: usize) -> bool {
        let Some(at) = self.running.iter().position(|entry| entry.run == run) else { return false };
        self.running.remove(at).is_beside
    }

    /// Adds a run that must be repeated with the machine for itself.
    pub(crate) fn add_alone(&mut self, run: usize) {
        let needs = Needs { machine: true, ..Needs::default() };
        self.waiting.push(Entry { run, needs, is_beside: false });
    }

    /// Returns the runs that are under way.
    pub fn running(&self) -> impl Iterator<Item = usize> {
        self.running.iter().map(|entry| entry.run)
    }

    /// Whether nothing is under way.
    pub fn is_idle(&self) -> bool {
        self.running.is_empty()
    }

    /// Whether no run is left.
    pub fn is_done(&self) -> bool {
        self.waiting.is_empty() && self.running.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on(devices: &[u32]) -> Needs {
        let device = |index: &u32| CudaDevice { index: *index, part: None, uuid: format!("GPU-{index}") };
        Needs { machine: false, devices: devices.iter().map(device).collect() }
    }

    fn alone() -> Needs {
        Needs { machine: true, ..Needs::default() }
    }

    /// Starts what may start, and returns what is then under way.
    fn started(schedule: &mut Schedule) -> Vec<usize> {
        while let Some(run) = schedule.next() {
            schedule.start(run);
        }
        schedule.running().collect()
    }

    #[test]
    fn no_more_runs_than_jobs_are_under_way() {
        let mut schedule = Schedule::new(2, (0..3).map(|run| (run, Needs::default())));
        assert_eq!(started(&mut schedule), [0, 1]);
        assert!(schedule.end(0));
        assert_eq!(started(&mut schedule), [1, 2]);
        assert!(schedule.end(2) && schedule.end(1) && schedule.is_done());
        let mut one = Schedule::new(1, (0..2).map(|run| (run, Needs::default())));
        assert_eq!(started(&mut one), [0]);
        assert!(!one.end(0), "nothing was beside it");
        assert!(!one.is_done() && one.is_idle());
    }

    #[test]
    fn a_run_that_needs_the_machine_is_alone_from_its_start_to_its_end() {
        let runs = [(0, alone()), (1, Needs::default()), (2, alone()), (3, Needs::default())];
        let mut schedule = Schedule::new(4, runs);
        assert_eq!(started(&mut schedule), [0]);
        assert!(!schedule.end(0));
        assert_eq!(started(&mut schedule), [1, 3], "others do not wait for it");
        schedule.end(1);
        assert_eq!(started(&mut schedule), [3]);
        schedule.end(3);
        schedule.add_alone(1);
        assert_eq!(started(&mut schedule), [2]);
        assert!(!schedule.end(2));
        assert_eq!(started(&mut schedule), [1]);
        assert!(!schedule.end(1) && schedule.is_done());
    }

    #[test]
    fn runs_that_see_one_device_do_not_overlap() {
        let runs = [(0, on(&[0])), (1, on(&[0, 1])), (2, on(&[1])), (3, on(&[])), (4, on(&[0]))];
        let mut schedule = Schedule::new(8, runs);
        assert_eq!(started(&mut schedule), [0, 2, 3]);
        schedule.end(0);
        assert_eq!(started(&mut schedule), [2, 3, 4], "the one that needs both waits");
        schedule.end(4);
        schedule.end(2);
        assert_eq!(started(&mut schedule), [3, 1]);
    }
}
