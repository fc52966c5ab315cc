//! How long the runs that are left will take: each test by its own past, in this session or in
//! earlier runs, else by the average.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::time::Duration;

use camino::{Utf8DirEntry, Utf8Path, Utf8PathBuf};

use memprof_judge::results::outcome::RunRecord;
use memprof_judge::results::run_folder::{RunFolder, file};
use memprof_plan::cells::PlannedCell;
use memprof_plan::resolved::CellId;
use memprof_support::sealed;

/// How long each cell took in earlier runs.
#[derive(Clone, Debug, Default)]
pub struct PastTimes(HashMap<CellId, Duration>);

impl PastTimes {
    /// Returns how long a test took, if that is known.
    pub(crate) fn of_cell(&self, cell: &CellId) -> Option<Duration> {
        self.0.get(cell).copied()
    }

    /// Returns the nanoseconds that each of these tests took, as far as they are known.
    pub fn of_cells(&self, cells: &[PlannedCell]) -> Vec<(CellId, u64)> {
        let tests: BTreeSet<&CellId> = cells.iter().map(|planned| &planned.cell).collect();
        let nanoseconds = |time: &Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        tests.into_iter().filter_map(|cell| Some((cell.clone(), nanoseconds(self.0.get(cell)?)))).collect()
    }

    /// Returns how long the tests of each package took together, one run of each.
    pub(crate) fn by_package(&self) -> BTreeMap<&str, Duration> {
        let mut times: BTreeMap<&str, Duration> = BTreeMap::new();
        for (cell, time) in &self.0 {
            *times.entry(&cell.test.package).or_default() += *time;
        }
        times
    }

    /// Reads the first run of each cell in these folders. The first folder that has a cell counts.
    pub fn of_runs(newest_first: impl Iterator<Item = RunFolder>) -> Self {
        let mut past = HashMap::new();
        // A cell's folder has the same name in each run.
        let mut known = HashSet::new();
        for cell in newest_first.flat_map(|folder| cell_folders(&folder)) {
            let name = cell.file_name().unwrap_or_default();
            if known.contains(name) {
                continue;
            }
            if let Some((id, time)) = time_of(&cell) {
                past.insert(id, time);
                known.insert(name.to_owned());
            }
        }
        Self(past)
    }
}

/// The folders of a run's cells, at each revision.
fn cell_folders(folder: &RunFolder) -> impl Iterator<Item = Utf8PathBuf> + use<> {
    let below = |folder: Utf8PathBuf| folder.read_dir_utf8().into_iter().flatten().flatten();
    let revisions = below(folder.cells());
    revisions.flat_map(move |revision| below(revision.into_path())).map(Utf8DirEntry::into_path)
}

/// How long a cell's first run took. `None` for one that failed or cannot be read: that only makes an estimate worse.
fn time_of(cell: &Utf8Path) -> Option<(CellId, Duration)> {
    let record: RunRecord = sealed::read(&cell.join("0").join(file::OUTCOME)).ok()?;
    let took = record.outcome.wall_nanoseconds.filter(|_| record.outcome.status.is_ok())?;
    Some((record.cell, Duration::from_nanos(took)))
}

/// The runs that are left, and how long they take.
#[derive(Debug)]
pub(crate) struct TimeLeft<'a> {
    cells: HashMap<&'a CellId, Runs>,
    /// The sum over the runs that are left of cells with a past, each divided by how many run at
    /// once.
    known: Duration,
    /// How many runs are left of cells without a past.
    unknown: u32,
    /// The same number, each divided by how many run at once.
    unknown_share: f64,
    /// The number of all runs that are left, each divided by how many run at once.
    share_left: f64,
    /// The runs of this session.
    ended: Runs,
    /// The pause before each run.
    delay: Duration,
    /// The runs that are likely to follow those that were added.
    later: HashMap<&'a CellId, u32>,
    /// The time that these take, as far as it is known.
    time_later: Duration,
}

/// The runs of a cell, or of all.
#[derive(Clone, Copy, Debug)]
struct Runs {
    left: u32,
    /// How many runs there are at once, when one of these runs.
    beside: u32,
    ended: u32,
    /// The time of those that ended.
    time: Duration,
    /// How long one took in an earlier session.
    past: Option<Duration>,
}

impl Default for Runs {
    fn default() -> Self {
        Self { left: 0, beside: 1, ended: 0, time: Duration::ZERO, past: None }
    }
}

impl Runs {
    fn weight(&self) -> f64 {
        1.0 / f64::from(self.beside)
    }

    /// How much one run adds to the time that is left.
    fn share(&self) -> Option<Duration> {
        self.each().map(|each| each / self.beside)
    }

    /// How long one run takes.
    fn each(&self) -> Option<Duration> {
        if self.ended == 0 { self.past } else { Some(self.time / self.ended) }
    }

    fn end(&mut self, took: Duration) {
        self.left = self.left.saturating_sub(1);
        self.ended += 1;
        self.time += took;
    }
}

impl<'a> TimeLeft<'a> {
    /// Nothing is left yet.
    pub fn new(delay: Duration) -> Self {
        Self {
            cells: HashMap::new(),
            known: Duration::ZERO,
            unknown: 0,
            unknown_share: 0.0,
            share_left: 0.0,
            ended: Runs::default(),
            delay,
            later: HashMap::new(),
            time_later: Duration::ZERO,
        }
    }

    /// Notes the runs that are likely to follow those that were added.
    pub fn expect(&mut self, later: HashMap<&'a CellId, u32>) {
        let of_cell = |(cell, runs): (&&CellId, &u32)| Some(self.cells.get(*cell)?.share()? * *runs);
        self.time_later = later.iter().filter_map(of_cell).sum();
        self.later = later;
    }

    /// Adds a run that is to come. So many run `beside` each other, this one included.
    pub fn add(&mut self, cell: &'a CellId, past: &PastTimes, beside: usize) {
        let of_cell = self
            .cells
            .entry(cell)
            .or_insert_with(|| Runs { past: past.0.get(cell).copied(), ..Runs::default() });
        of_cell.left += 1;
        of_cell.beside = u32::try_from(beside.max(1)).unwrap_or(u32::MAX);
        self.ended.left += 1;
        self.share_left += of_cell.weight();
        if let Some(share) = of_cell.share() {
            self.known = self.known.saturating_add(share);
        } else {
            self.unknown += 1;
            self.unknown_share += of_cell.weight();
        }
    }

    /// Notes that a run ended.
    pub fn end(&mut self, cell: &CellId, took: Duration) {
        self.ended.end(took);
        let Some(of_cell) = self.cells.get_mut(cell) else { return };
        let later = self.later.get(cell).copied().unwrap_or_default();
        self.time_later = self.time_later.saturating_sub(of_cell.share().unwrap_or_default() * later);
        if let Some(share) = of_cell.share() {
            self.known = self.known.saturating_sub(share.saturating_mul(of_cell.left));
        } else {
            self.unknown = self.unknown.saturating_sub(of_cell.left);
            let share = f64::from(of_cell.left) * of_cell.weight();
            self.unknown_share = (self.unknown_share - share).max(0.0);
        }
        self.share_left = (self.share_left - of_cell.weight()).max(0.0);
        of_cell.end(took);
        let share = of_cell.share().unwrap_or_default();
        self.known = self.known.saturating_add(share.saturating_mul(of_cell.left));
        self.time_later = self.time_later.saturating_add(share * later);
    }

    /// Returns how long a run of this cell takes, if that is known.
    pub fn expected(&self, cell: &CellId) -> Option<Duration> {
        self.cells.get(cell)?.each()
    }

    /// The time that is left. `None` if nothing is known of any test that is left.
    pub fn left(&self) -> Option<Duration> {
        let known = (self.ended.left > self.unknown).then_some(self.share_left - self.unknown_share);
        let average =
            || self.ended.each().or_else(|| Some(self.known.div_f64(known.filter(|share| *share > 0.0)?)));
        let unknown = match self.unknown {
            0 => Duration::ZERO,
            _ => average()?.mul_f64(self.unknown_share),
        };
        let delays = self.delay.saturating_mul(self.ended.left.saturating_sub(1));
        Some(self.known.saturating_add(unknown).saturating_add(delays).saturating_add(self.time_later))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use memprof_judge::results::outcome::{self, Outcome, Status};
    use memprof_plan::request::TargetKind;
    use memprof_plan::resolved::TestId;

    fn cell(name: &str) -> CellId {
        let test =
            TestId { package: "p".into(), binary: "b".into(), kind: TargetKind::Test, name: name.into() };
        CellId { test, params: Vec::new(), title: name.into(), program: None }
    }

    const fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn each_test_counts_by_its_own_past_else_by_the_average() {
        let [quick, slow, new] = ["quick", "slow", "new"].map(cell);
        let past = PastTimes([(quick.clone(), seconds(1)), (slow.clone(), seconds(60))].into());
        let mut left = TimeLeft::new(Duration::ZERO);
        assert_eq!(left.left(), Some(Duration::ZERO));
        for _ in 0..2 {
            left.add(&quick, &past, 1);
            left.add(&slow, &past, 1);
        }
        assert_eq!(left.left(), Some(seconds(122)));
        left.end(&quick, seconds(3));
        assert_eq!(left.left(), Some(seconds(123)), "this session's time wins");
        left.end(&slow, seconds(40));
        assert_eq!(left.left(), Some(seconds(43)));
        left.add(&new, &past, 1);
        assert_eq!(left.left(), Some(seconds(43) + Duration::from_millis(21_500)));
        for (one, took) in [(&quick, 3), (&slow, 40), (&new, 7)] {
            left.end(one, seconds(took));
        }
        assert_eq!(left.left(), Some(Duration::ZERO));
    }

    #[test]
    fn tests_beside_each_other_take_a_part_of_the_time_each() {
        let [shared, alone, new] = ["shared", "alone", "new"].map(cell);
        let past = PastTimes([(shared.clone(), seconds(8)), (alone.clone(), seconds(5))].into());
        let mut left = TimeLeft::new(Duration::ZERO);
        (0..2).for_each(|_| left.add(&shared, &past, 4));
        left.add(&alone, &past, 1);
        assert_eq!(left.left(), Some(seconds(9)));
        assert_eq!((left.expected(&shared), left.expected(&new)), (Some(seconds(8)), None));
        left.end(&shared, seconds(4));
        assert_eq!(left.left(), Some(seconds(6)));
        (0..2).for_each(|_| left.add(&new, &past, 4));
        assert_eq!(left.left(), Some(seconds(8)), "two of 4 s, of which four run at once");
    }

    /// The demo: three tests at three revisions, each run as often as its verdicts need.
    #[test]
    fn after_a_third_of_the_runs_the_estimate_is_at_most_twice_wrong() {
        let tests = ["a", "b", "c"].map(cell);
        let mut left = TimeLeft::new(Duration::ZERO);
        let looks: [u32; 4] = [9, 9, 18, 12];
        let usual_after: [u32; 4] = [0, 4, 2, 0];
        let mut done = 0;
        for (runs, later) in looks.into_iter().zip(usual_after) {
            let of_test = |test: u32| &tests[test as usize % 3];
            (0..runs).for_each(|run| left.add(of_test(run), &PastTimes::default(), 1));
            left.expect(tests.iter().map(|test| (test, later * 3)).collect());
            for run in 0..runs {
                left.end(of_test(run), seconds(1));
                done += 1;
                let (estimate, real) = (left.left().unwrap().as_secs_f64(), f64::from(48 - done));
                if done >= 16 && real > 6.0 {
                    assert!(estimate < 2.0 * real && real < 2.0 * estimate, "{done}: {estimate} for {real}");
                }
            }
        }
    }

    #[test]
    fn without_any_past_nothing_is_promised() {
        let one = cell("one");
        let mut left = TimeLeft::new(seconds(2));
        (0..3).for_each(|_| left.add(&one, &PastTimes::default(), 1));
        assert_eq!(left.left(), None);
        left.end(&one, seconds(5));
        assert_eq!(left.left(), Some(seconds(5 * 2 + 2)), "two runs, and a pause between them");
    }

    #[test]
    fn the_newest_run_that_has_a_test_counts_and_damaged_ones_do_not() {
        let folder = tempfile::tempdir().unwrap();
        let runs = camino::Utf8Path::from_path(folder.path()).unwrap();
        let record = |run: &str, name: &str, status: Status, took: u64| {
            let place = runs.join(run).join("cells/0-main").join(name).join("0");
            fs_err::create_dir_all(&place).unwrap();
            let record = RunRecord {
                version: outcome::VERSION,
                revision: 0,
                cell: cell(name),
                repeat: 0,
                outcome: Outcome { status, message: None, wall_nanoseconds: Some(took * 1_000_000_000) },
                build: None,
                marks: Vec::new(),
                withdrawn: std::collections::BTreeMap::new(),
                devices: None,
                files: std::collections::BTreeMap::new(),
            };
            sealed::write(&place.join(file::OUTCOME), &record).unwrap();
        };
        record("old", "a", Status::Ok, 9);
        record("old", "b", Status::Ok, 8);
        record("new", "a", Status::Ok, 3);
        record("new", "b", Status::Timeout { limit_seconds: 600 }, 600);
        record("new", "c", Status::Ok, 1);
        fs_err::write(runs.join("new/cells/0-main/c/0").join(file::OUTCOME), "{").unwrap();
        let past =
            PastTimes::of_runs(["new", "old", "gone"].map(|run| RunFolder(runs.join(run))).into_iter());
        assert_eq!(past.0, [(cell("a"), seconds(3)), (cell("b"), seconds(8))].into());
    }
}
