//! Where each shard is, and the progress line. Pure.

use crate::slurm::task::{Phase, Task};
use memprof_judge::results::run_folder::RunFolder;
use memprof_support::counted::{counted, some};

/// Where a shard is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Status {
    /// All its runs are in this folder.
    Finished(RunFolder),
    /// Slurm will run it, or runs it. `None` as long as Slurm gives no answer.
    Waiting(Option<Task>),
    /// The task ended a moment ago. A shared file system may show its last files later.
    Settling,
    /// Is not finished, and nothing will finish it. The text says why, without a full stop.
    Missing(String),
}

/// Whether nothing more is to be expected of any shard.
pub fn is_over(statuses: &[(u32, Status)]) -> bool {
    !statuses.iter().any(|(_, status)| matches!(status, Status::Waiting(_) | Status::Settling))
}

/// Whether it is known of every shard that is not finished whether it is missing.
pub fn is_settled(statuses: &[(u32, Status)]) -> bool {
    !statuses.iter().any(|(_, status)| matches!(status, Status::Settling | Status::Waiting(None)))
}

/// Returns the shards that are missing, with the reasons.
pub fn missing(statuses: &[(u32, Status)]) -> Vec<(u32, String)> {
    let missing = statuses.iter().filter_map(|(shard, status)| match status {
        Status::Missing(reason) => Some((*shard, reason.clone())),
        _ => None,
    });
    missing.collect()
}

/// Returns the progress of a job: `job 4711: 3 of 8 shards finished, 2 running (node1, node2), 3
/// pending (Resources)`.
pub(crate) fn line(job: &str, statuses: &[(u32, Status)]) -> String {
    let finished = statuses.iter().filter(|(_, status)| matches!(status, Status::Finished(_))).count();
    let mut text = format!("job {job}: {finished} of {} finished", counted(statuses.len(), "shard"));
    let waiting = |phase: Phase| {
        let tasks = statuses.iter().filter_map(|(_, status)| match status {
            Status::Waiting(Some(task)) if task.phase() == phase => Some(task),
            _ => None,
        });
        tasks.collect::<Vec<&Task>>()
    };
    let mut add = |number: usize, what: &str, of: Vec<&str>| {
        if number > 0 {
            let of = named(of);
            let of = if of.is_empty() { of } else { format!(" ({of})") };
            text.push_str(&[", ", &number.to_string(), " ", what, &of].concat());
        }
    };
    let running = waiting(Phase::Running);
    add(running.len(), "running", running.iter().map(|task| task.nodes.as_str()).collect());
    let pending = waiting(Phase::Pending);
    add(pending.len(), "pending", pending.iter().map(|task| task.reason.as_str()).collect());
    let ended = statuses.iter().filter(|(_, status)| matches!(status, Status::Settling)).count();
    add(ended, "just ended", Vec::new());
    let unknown = statuses.iter().filter(|(_, status)| matches!(status, Status::Waiting(None))).count();
    add(unknown, "without an answer from Slurm", Vec::new());
    add(missing(statuses).len(), "missing", Vec::new());
    text
}

/// Returns the names once each, three at most.
fn named(mut names: Vec<&str>) -> String {
    names.retain(|name| !name.is_empty());
    names.sort_unstable();
    names.dedup();
    some(&names, 3)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting(shard: u32, state: &str, nodes: &str, reason: &str) -> (u32, Status) {
        let [state, nodes, reason] = [state, nodes, reason].map(str::to_owned);
        (shard, Status::Waiting(Some(Task { job: 4711, shard, state, nodes, reason })))
    }

    #[test]
    fn the_line_counts_and_names_nodes_and_reasons_once() {
        let mut statuses = vec![
            (1, Status::Finished(RunFolder("f".into()))),
            waiting(2, "RUNNING", "node2", ""),
            waiting(3, "RUNNING", "node1", ""),
            waiting(4, "RUNNING", "node1", ""),
            waiting(5, "PENDING", "", "Resources"),
            (6, Status::Missing("NODE_FAIL".to_owned())),
        ];
        assert_eq!(
            line("4711", &statuses),
            "job 4711: 1 of 6 shards finished, 3 running (node1, node2), 1 pending (Resources), 1 missing"
        );
        assert!(!is_over(&statuses));
        statuses.retain(|(_, status)| !matches!(status, Status::Waiting(_)));
        assert!(is_over(&statuses));
        assert_eq!(missing(&statuses), [(6, "NODE_FAIL".to_owned())]);
        statuses.push((7, Status::Settling));
        assert!(!is_over(&statuses), "its files may still appear");
        let asked = [(1, Status::Waiting(None))];
        assert_eq!(line("7", &asked), "job 7: 0 of 1 shard finished, 1 without an answer from Slurm");
    }
}
