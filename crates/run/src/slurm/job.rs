//! A job's files in the run's folder: its record, its script, its logs, and the shards' attempts.
//!
//! ```text
//! <run>/slurm/job.json  script.sh  <job>_<shard>.out  <job>_<shard>.err  lock
//! <run>/shards/<shard>/<job>-<restart>/  the run's folder of one attempt at a shard
//! ```

use camino::{Utf8Path, Utf8PathBuf};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use memprof_judge::results::run_folder::RunFolder;
use memprof_judge::results::shard_record::{self, ShardRecord};
use memprof_plan::shard::Shard;
use memprof_support::redaction;
use memprof_support::regular_file::followed;
use memprof_support::sealed;
use memprof_support::user_error::UserError;

/// The version of `job.json`'s format.
pub const VERSION: u32 = 1;

/// How much of the end of a log is read for its last line.
const LAST_BYTES: usize = 4096;

/// What was submitted, in `slurm/job.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobRecord {
    /// Format version, [`VERSION`].
    pub version: u32,
    /// The archive, at a path that the nodes see.
    pub archive: Utf8PathBuf,
    /// The archive's hash.
    pub blake3: String,
    /// The number of shards.
    pub shards: u32,
    /// What followed `--`, for sbatch. Marks stand for secrets.
    pub arguments: Vec<String>,
    /// Whether `arguments` has marks.
    pub lacks_secrets: bool,
    /// The cluster, if there are several.
    pub cluster: Option<String>,
    /// The job arrays, in the order in which they were submitted.
    pub jobs: Vec<Submission>,
    /// Whether the shards were merged, so that the run's folder is a whole run.
    pub is_merged: bool,
}

/// One job array.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Submission {
    /// Slurm's id of it.
    pub id: u64,
    /// The shards that it runs.
    pub shards: Vec<u32>,
}

impl JobRecord {
    /// Keeps the flags for sbatch, with marks in the place of secrets.
    pub fn keep_arguments(&mut self, arguments: &[String]) {
        self.arguments = arguments.iter().map(|argument| redaction::setting(argument).into_owned()).collect();
        self.lacks_secrets = self.arguments != arguments;
    }

    /// Returns the job that runs a shard: the last one that was submitted with it.
    pub fn job_of(&self, shard: u32) -> Option<u64> {
        self.jobs.iter().rev().find(|job| job.shards.contains(&shard)).map(|job| job.id)
    }

    /// Returns the id of the last job, by which users name it.
    pub fn id(&self) -> String {
        self.jobs.last().map_or_else(String::new, |job| job.id.to_string())
    }
}

/// The run's folder, as that of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobFolder(pub Utf8PathBuf);

impl JobFolder {
    /// `slurm/`.
    pub fn slurm(&self) -> Utf8PathBuf {
        self.0.join("slurm")
    }

    /// `slurm/job.json`.
    pub fn record(&self) -> Utf8PathBuf {
        self.slurm().join("job.json")
    }

    /// `slurm/script.sh`.
    pub fn script(&self) -> Utf8PathBuf {
        self.slurm().join("script.sh")
    }

    /// Reads the record; `None` if the folder is not that of a job.
    ///
    /// # Errors
    ///
    /// The file is damaged, or of a newer version.
    pub fn read(&self) -> anyhow::Result<Option<JobRecord>> {
        let path = self.record();
        if !path.exists() {
            return Ok(None);
        }
        Ok(Some(sealed::read_format(&path, VERSION)?))
    }

    /// Writes the record.
    pub fn write(&self, record: &JobRecord) -> anyhow::Result<()> {
        sealed::write(&self.record(), record)
    }

    /// Returns the last error that a task wrote to standard error, or else its last line. `None` if it
    /// wrote neither.
    pub(crate) fn last_words(&self, job: u64, shard: u32) -> Option<String> {
        let log = followed::read(self.slurm().join(format!("{job}_{shard}.err"))).ok()?;
        let end = String::from_utf8_lossy(&log[log.len().saturating_sub(LAST_BYTES)..]).into_owned();
        let is_advice = |line: &&str| line.starts_with("help:") || line.starts_with("warning:");
        let lines: Vec<&str> =
            end.lines().map(str::trim).filter(|line| !line.is_empty() && !is_advice(line)).collect();
        let error = lines.iter().rfind(|line| line.contains("error:"));
        error.or(lines.last()).map(|line| (*line).to_owned())
    }

    /// Whether any task wrote anything here, so that the nodes see this folder.
    pub fn was_reached(&self) -> bool {
        self.0.join("shards").exists()
    }

    /// Returns the folder of the finished attempt at a shard; `None` if there is none.
    ///
    /// # Errors
    ///
    /// A record of an attempt cannot be read, or it is one of another archive.
    pub fn finished(&self, record: &JobRecord, shard: u32) -> anyhow::Result<Option<RunFolder>> {
        let own = Shard { number: shard, count: record.shards };
        for folder in attempts(&self.0.join("shards").join(shard.to_string()))? {
            let Some(found) = ShardRecord::read(&folder)? else { continue };
            let Some(outcomes) = found.outcomes else { continue };
            let Some(archive) = archive_of(&folder)? else { continue };
            if found.shard != own || archive != record.blake3 {
                return Err(UserError::new(format!("{} is not shard {own} of {}", folder.0, record.archive))
                    .help(format!("remove it: rm -r '{}'", folder.0))
                    .into());
            }
            // A shared file system may show the record before the other files.
            if shard_record::outcomes(&folder)? == outcomes {
                return Ok(Some(folder));
            }
        }
        Ok(None)
    }
}

/// Returns the folders of all attempts at a shard, but no copy that is being made.
fn attempts(folder: &Utf8Path) -> anyhow::Result<Vec<RunFolder>> {
    if !folder.exists() {
        return Ok(Vec::new());
    }
    let mut attempts = Vec::new();
    for entry in folder.read_dir_utf8()? {
        let path = entry?.into_path();
        if path.is_dir() && path.extension() != Some("copy") {
            attempts.push(RunFolder(path));
        }
    }
    attempts.sort_by(|one, other| one.0.cmp(&other.0));
    Ok(attempts)
}

/// Returns the hash of the archive that a run is of. A shared file system may not show it yet.
fn archive_of(folder: &RunFolder) -> anyhow::Result<Option<String>> {
    let path = folder.origin();
    if !path.exists() {
        return Ok(None);
    }
    let origin: Value = serde_json::from_slice(&followed::read(path)?)?;
    Ok(Some(origin["blake3"].as_str().unwrap_or_default().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder() -> (tempfile::TempDir, JobFolder, JobRecord) {
        let home = tempfile::tempdir().unwrap();
        let folder = JobFolder(Utf8PathBuf::from_path_buf(home.path().to_owned()).unwrap());
        fs_err::create_dir(folder.slurm()).unwrap();
        let record = JobRecord {
            version: VERSION,
            archive: "/data/both.tar.zst".into(),
            blake3: "90aa".to_owned(),
            shards: 4,
            arguments: vec!["--gres=gpu:1".to_owned()],
            lacks_secrets: false,
            cluster: None,
            jobs: vec![
                Submission { id: 4711, shards: vec![1, 2, 3, 4] },
                Submission { id: 4720, shards: vec![2] },
            ],
            is_merged: false,
        };
        (home, folder, record)
    }

    #[test]
    fn the_last_job_with_a_shard_runs_it() {
        let (_home, folder, record) = folder();
        assert_eq!(folder.read().unwrap(), None);
        folder.write(&record).unwrap();
        let record = folder.read().unwrap().unwrap();
        assert_eq!([1, 2, 9].map(|shard| record.job_of(shard)), [Some(4711), Some(4720), None]);
        assert_eq!(record.id(), "4720");
    }

    #[test]
    fn last_words_are_the_last_error_or_else_the_last_line() {
        let (_home, folder, _) = folder();
        assert_eq!(folder.last_words(4711, 3), None);
        let log = format!("{}\nerror: no space\n  help: free some\n\n", "x".repeat(5000));
        fs_err::write(folder.slurm().join("4711_3.err"), log).unwrap();
        assert_eq!(folder.last_words(4711, 3).unwrap(), "error: no space");
        fs_err::write(folder.slurm().join("4711_4.err"), "error: a\nslurmstepd: error: cancelled\n").unwrap();
        assert_eq!(folder.last_words(4711, 4).unwrap(), "slurmstepd: error: cancelled");
        fs_err::write(folder.slurm().join("4711_5.err"), "Ran one 2/2\nwarning: a\n  help: b\n").unwrap();
        assert_eq!(folder.last_words(4711, 5).unwrap(), "Ran one 2/2");
    }

    #[test]
    fn an_attempt_counts_when_all_its_runs_are_there_and_it_is_of_this_archive() {
        let (_home, folder, record) = folder();
        let attempt = folder.0.join("shards/2/4711-0");
        fs_err::create_dir_all(&attempt).unwrap();
        let write = |outcomes: &str, blake3: &str| {
            let shard = format!(
                r#"{{"version":1,"shard":{{"number":2,"count":4}},"all":{{"count":9,"digest":"d"}},"outcomes":{outcomes}}}"#
            );
            fs_err::write(attempt.join("shard.json"), shard).unwrap();
            fs_err::write(attempt.join("archive.json"), format!(r#"{{"blake3":"{blake3}"}}"#)).unwrap();
        };
        assert_eq!(folder.finished(&record, 2).unwrap(), None);
        write("null", "90aa");
        assert_eq!(folder.finished(&record, 2).unwrap(), None, "it still runs");
        write("1", "90aa");
        assert_eq!(folder.finished(&record, 2).unwrap(), None, "its outcome is not there yet");
        let cell = attempt.join("cells/0-old/a/0");
        fs_err::create_dir_all(&cell).unwrap();
        fs_err::write(cell.join("outcome.json"), "{}").unwrap();
        assert_eq!(folder.finished(&record, 2).unwrap(), Some(RunFolder(attempt.clone())));
        write("1", "beef");
        let error = folder.finished(&record, 2).unwrap_err().to_string();
        assert!(error.ends_with("shards/2/4711-0 is not shard 2/4 of /data/both.tar.zst"), "{error}");
    }
}
