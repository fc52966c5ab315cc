//! Slurm's client commands: `sbatch`, `squeue`, `sacct` and `scancel`.

use std::cell::Cell;
use std::sync::atomic::AtomicBool;

use camino::Utf8Path;

use crate::slurm::task::{self, Task};
use memprof_support::child_output::Limits;
use memprof_support::process::Command;
use memprof_support::process_error::ProcessError;
use memprof_support::user_error::UserError;

/// Where the documentation says how to do without Slurm's commands.
const DOCUMENTATION: &str = "docs/slurm.md";

/// After an answer without a job's id.
const PERHAPS_SUBMITTED: &str = "if a job was submitted, `squeue --me` shows it";

/// How many characters of an answer an error quotes.
const MOST_QUOTED: usize = 1000;

/// Slurm, as the client commands on this machine reach it.
#[derive(Debug, Default)]
pub struct Client {
    /// The cluster, if `sbatch` named one: `--clusters` chooses among several.
    pub cluster: Option<String>,
    /// Whether `sacct` said that it can tell nothing.
    is_without_accounting: Cell<bool>,
}

/// A job that Slurm accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// The job array's id.
    pub id: u64,
    /// The cluster, if there are several.
    pub cluster: Option<String>,
}

impl Client {
    /// Returns a client of this cluster.
    pub fn for_cluster(cluster: Option<String>) -> Self {
        Self { cluster, is_without_accounting: Cell::new(false) }
    }

    /// Submits a script as a job array of these shards.
    ///
    /// # Errors
    ///
    /// `sbatch` is not installed, or refuses the job.
    pub fn submit(
        &self,
        run: &Utf8Path,
        script: &Utf8Path,
        shards: &[u32],
        arguments: &[String],
    ) -> anyhow::Result<Accepted> {
        let command = Command::new("sbatch")
            .args(["--parsable", "--job-name=memprof", "--open-mode=append"])
            .args(["--output=slurm/%A_%a.out", "--error=slurm/%A_%a.err"])
            .arg(format!("--chdir={run}"))
            .args(arguments)
            .arg(format!("--array={}", ranges(shards)))
            .arg(script)
            // `sbatch` may wait for a prompt of a plugin, and a job that was submitted would be lost.
            .within(Limits { time: None, ..Limits::ANSWER });
        let captured = command.run().map_err(|error| match &error {
            missing if missing.is_missing_program() => not_installed("sbatch").into(),
            died if died.stderr().is_empty() => {
                UserError::new(one_line(&died.to_string())).help(PERHAPS_SUBMITTED).into()
            }
            refused => anyhow::Error::from(
                UserError::new(format!("sbatch refused the job: {}", one_line(refused.stderr())))
                    .help("what follows `--` goes to sbatch as it is; `sinfo` shows partitions and nodes"),
            ),
        })?;
        let text = captured.text();
        // Plugins may print before it.
        accepted(text.lines().last().unwrap_or_default()).ok_or_else(|| {
            let message = format!("`sbatch --parsable` printed no job id, but '{}'", quoted(&text));
            UserError::new(message).help(PERHAPS_SUBMITTED).into()
        })
    }

    /// Returns the tasks of these jobs, as far as Slurm knows them. `interrupt` ends the question.
    ///
    /// # Errors
    ///
    /// `squeue` is not installed, or cannot reach the controller.
    pub fn tasks(&self, jobs: &[u64], interrupt: &AtomicBool) -> anyhow::Result<Vec<Task>> {
        let mut tasks = Vec::new();
        for job in jobs {
            let squeue = self.command("squeue").args(["--array", "--noheader", "--states=all"]);
            let squeue = squeue.arg(format!("--format={}", task::SQUEUE_FORMAT)).arg(format!("--jobs={job}"));
            match squeue.run_until(interrupt) {
                Ok(captured) => tasks.extend(task::of_squeue(&captured.text())),
                Err(error) if error.is_missing_program() => return Err(not_installed("squeue").into()),
                // The controller forgets a job some minutes after its end.
                Err(error) if error.stderr().contains("Invalid job id") => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(tasks)
    }

    /// Returns the tasks of these jobs that have ended, also of jobs that the controller forgot. Empty
    /// without accounting. `interrupt` ends the question.
    pub(crate) fn accounted(&self, jobs: &[u64], interrupt: &AtomicBool) -> Vec<Task> {
        if self.is_without_accounting.get() {
            return Vec::new();
        }
        let jobs: Vec<String> = jobs.iter().map(u64::to_string).collect();
        let sacct = self.command("sacct").args(["--allocations", "--noheader", "--parsable2"]);
        let sacct = sacct.arg(format!("--format={}", task::SACCT_FORMAT));
        if let Ok(captured) = sacct.arg(format!("--jobs={}", jobs.join(","))).run_until(interrupt) {
            return task::of_sacct(&captured.text());
        }
        // Many clusters have no accounting. The shards' folders say what is finished.
        self.is_without_accounting.set(true);
        Vec::new()
    }

    /// Cancels a task, which may have ended already.
    ///
    /// # Errors
    ///
    /// `scancel` could not do it.
    pub fn cancel(&self, task: &Task) -> Result<(), ProcessError> {
        self.command("scancel").arg(format!("{}_{}", task.job, task.shard)).run().map(drop)
    }

    fn command(&self, program: &str) -> Command {
        let clusters = self.cluster.iter().map(|cluster| format!("--clusters={cluster}"));
        Command::new(program).args(clusters).within(Limits::ANSWER)
    }
}

fn not_installed(program: &str) -> UserError {
    UserError::new(format!("{program} is not installed here")).help(format!(
        "install Slurm's client commands (Debian: slurm-client), or run each shard by hand with \
         `cargo memprof run --archive FILE --shard 1/8` ({DOCUMENTATION})"
    ))
}

/// Reads `4711` or `4711;cluster`.
fn accepted(line: &str) -> Option<Accepted> {
    let (id, cluster) =
        line.trim().split_once(';').map_or((line.trim(), None), |(id, name)| (id, Some(name)));
    Some(Accepted { id: id.parse().ok()?, cluster: cluster.map(str::to_owned) })
}

/// Returns Slurm's message without what is the same in each line.
fn one_line(stderr: &str) -> String {
    let lines = stderr.lines().map(|line| line.trim_start_matches("sbatch: ").trim_start_matches("error: "));
    quoted(&lines.filter(|line| !line.trim().is_empty()).collect::<Vec<_>>().join("; "))
}

/// Returns the beginning of a text.
fn quoted(text: &str) -> String {
    let mut characters = text.chars();
    let begin: String = characters.by_ref().take(MOST_QUOTED).collect();
    if characters.next().is_none() { begin } else { begin + " […]" }
}

/// Returns ascending numbers as `--array` takes them: `1-3,5`.
pub(crate) fn ranges(numbers: &[u32]) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == *number => *last = *number,
            _ => ranges.push((*number, *number)),
        }
    }
    let text = |(first, last): &(u32, u32)| {
        if first == last { first.to_string() } else { format!("{first}-{last}") }
    };
    ranges.iter().map(text).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_become_ranges() {
        assert_eq!(ranges(&[1, 2, 3, 4]), "1-4");
        assert_eq!(ranges(&[3, 5, 6, 9]), "3,5-6,9");
        assert_eq!(ranges(&[7]), "7");
    }

    #[test]
    fn sbatch_may_name_a_cluster() {
        assert_eq!(accepted("4711\n"), Some(Accepted { id: 4711, cluster: None }));
        assert_eq!(accepted("4711;big"), Some(Accepted { id: 4711, cluster: Some("big".to_owned()) }));
        assert_eq!(accepted("Submitted batch job"), None);
    }

    #[test]
    fn a_long_answer_is_quoted_from_its_beginning() {
        assert_eq!(quoted("short"), "short");
        assert_eq!(one_line(&"é".repeat(1 << 20)), format!("{} […]", "é".repeat(MOST_QUOTED)));
    }

    #[test]
    fn a_refusal_is_one_line() {
        let stderr = "sbatch: error: invalid partition specified: nope\n\
                      sbatch: error: Batch job submission failed: Invalid partition name specified";
        assert_eq!(
            one_line(stderr),
            "invalid partition specified: nope; Batch job submission failed: Invalid partition name specified"
        );
    }
}
