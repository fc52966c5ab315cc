//! Waits for a job: looks at the shards' folders and asks Slurm, until nothing more is to be
//! expected.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::slurm::client::Client;
use crate::slurm::job::{JobFolder, JobRecord};
use crate::slurm::progress::{self, Status};
use crate::slurm::task::{Phase, Task};
use memprof_judge::results::run_folder::RunFolder;
use memprof_support::event::{Event, Sink};
use memprof_support::process_error::ProcessError;
use memprof_support::user_error::UserError;

/// How often the interrupt flag is looked at.
const POLL: Duration = Duration::from_millis(50);

/// The first pause between two looks; later ones are longer.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// Pauses for which a task that says that it succeeded may lack its folder. Network file systems show
/// the files of another machine up to a minute later.
const LATE_FILES: u32 = 6;

/// Tasks by their job and shard.
type Tasks = BTreeMap<(u64, u32), Task>;

/// Follows one job.
pub struct Follower<'a> {
    /// The run's folder.
    pub folder: &'a JobFolder,
    /// Slurm.
    pub client: &'a Client,
    /// The longest pause between two looks.
    pub every: Duration,
    /// Where progress goes.
    pub sink: &'a dyn Sink,
    /// Becomes true when the user presses Ctrl-C.
    pub interrupt: &'a AtomicBool,
    /// What earlier looks found.
    pub seen: &'a mut Seen,
}

/// What earlier looks found.
#[derive(Default)]
pub struct Seen {
    finished: BTreeMap<u32, RunFolder>,
    /// When a task was first seen to have ended without a finished shard.
    ended: BTreeMap<(u64, u32), Instant>,
    shown: String,
    has_warned: bool,
}

/// Why following ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Followed {
    /// This is where each shard is.
    Until(Vec<(u32, Status)>),
    /// The user pressed Ctrl-C.
    Interrupted,
}

impl Follower<'_> {
    /// Looks until `is_enough` says so.
    ///
    /// # Errors
    ///
    /// Slurm's commands are not installed, or a shard's folder cannot be read.
    pub fn until(
        &mut self,
        record: &JobRecord,
        is_enough: impl Fn(&[(u32, Status)]) -> bool,
    ) -> anyhow::Result<Followed> {
        let mut pause = FIRST_PAUSE.min(self.every);
        loop {
            if self.interrupt.load(Ordering::Relaxed) {
                return Ok(Followed::Interrupted);
            }
            let looked = self.look(record);
            if self.interrupt.load(Ordering::Relaxed) {
                // The interrupt ended Slurm's commands, too.
                return Ok(Followed::Interrupted);
            }
            let statuses = looked?;
            self.show(record, &statuses);
            if is_enough(&statuses) {
                return Ok(Followed::Until(statuses));
            }
            self.wait(pause);
            pause = (pause * 3 / 2).min(self.every);
        }
    }

    /// Finds out where each shard is.
    fn look(&mut self, record: &JobRecord) -> anyhow::Result<Vec<(u32, Status)>> {
        let tasks = self.tasks(record)?;
        let mut statuses = Vec::new();
        for shard in 1..=record.shards {
            let job = record.job_of(shard).unwrap_or_default();
            statuses.push((shard, self.status(record, (job, shard), tasks.as_ref())?));
        }
        Ok(statuses)
    }

    /// Asks Slurm; `None` if it does not answer now. Shards that are finished need no answer.
    fn tasks(&mut self, record: &JobRecord) -> anyhow::Result<Option<Tasks>> {
        let open: Vec<(u64, u32)> = (1..=record.shards)
            .filter(|shard| !self.seen.finished.contains_key(shard))
            .filter_map(|shard| Some((record.job_of(shard)?, shard)))
            .collect();
        let mut jobs: Vec<u64> = open.iter().map(|(job, _)| *job).collect();
        jobs.sort_unstable();
        jobs.dedup();
        let known = match self.client.tasks(&jobs, self.interrupt) {
            Ok(known) => known,
            Err(error) if error.is::<UserError>() => return Err(error),
            Err(error) => {
                if !self.interrupt.load(Ordering::Relaxed) && !self.seen.has_warned {
                    self.seen.has_warned = true;
                    let reason = match error.downcast_ref::<ProcessError>() {
                        Some(failed) => failed.message().replace('\n', "; "),
                        None => format!("{error:#}"),
                    };
                    let message = format!("Slurm gives no answer, and is asked again: {reason}");
                    self.sink.emit(Event::Warning { message, help: None });
                }
                return Ok(None);
            }
        };
        let mut tasks: Tasks = known.into_iter().map(|task| ((task.job, task.shard), task)).collect();
        let forgotten = |tasks: &Tasks| open.iter().any(|one| !tasks.contains_key(one));
        if forgotten(&tasks) {
            for task in self.client.accounted(&jobs, self.interrupt) {
                tasks.entry((task.job, task.shard)).or_insert(task);
            }
        }
        Ok(Some(tasks))
    }

    /// Where one shard is. `tasks` are those that Slurm knows, if Slurm answered.
    fn status(
        &mut self,
        record: &JobRecord,
        key: (u64, u32),
        tasks: Option<&Tasks>,
    ) -> anyhow::Result<Status> {
        let (job, shard) = key;
        if let Some(folder) = self.seen.finished.get(&shard) {
            return Ok(Status::Finished(folder.clone()));
        }
        if let Some(folder) = self.folder.finished(record, shard)? {
            self.seen.finished.insert(shard, folder.clone());
            return Ok(Status::Finished(folder));
        }
        let Some(tasks) = tasks else { return Ok(Status::Waiting(None)) };
        let task = tasks.get(&key);
        if let Some(task) = task.filter(|task| matches!(task.phase(), Phase::Pending | Phase::Running)) {
            self.seen.ended.remove(&key);
            return Ok(Status::Waiting(Some(task.clone())));
        }
        let ended = *self.seen.ended.entry(key).or_insert_with(Instant::now);
        let succeeded = task.is_some_and(|task| task.state == "COMPLETED");
        let patience = if succeeded { self.every * LATE_FILES } else { self.every };
        if ended.elapsed() < patience {
            return Ok(Status::Settling);
        }
        let what = match task {
            Some(task) if task.phase() == Phase::Stuck => format!("not requeued: {}", task.described()),
            Some(task) if succeeded => format!("{}, but its results are not here", task.described()),
            Some(task) => task.described(),
            None => format!("Slurm no longer knows job {job}_{shard}"),
        };
        let last = match self.folder.last_words(job, shard) {
            Some(line) => format!("its log ends with '{line}'"),
            None => "its log is empty".to_owned(),
        };
        Ok(Status::Missing(format!("{what}; {last}")))
    }

    fn show(&mut self, record: &JobRecord, statuses: &[(u32, Status)]) {
        let text = progress::line(&record.id(), statuses);
        if text != self.seen.shown {
            self.sink.emit(Event::JobProgress { text: text.clone() });
            self.seen.shown = text;
        }
    }

    /// Waits so long, or until Ctrl-C.
    fn wait(&self, pause: Duration) {
        let began = Instant::now();
        while began.elapsed() < pause && !self.interrupt.load(Ordering::Relaxed) {
            std::thread::sleep(POLL.min(pause));
        }
    }
}
