//! Where the tasks of a job are, as `squeue` and `sacct` say it. Pure.

/// What `squeue` prints for each task, in this order: the reason may contain anything.
pub(crate) const SQUEUE_FORMAT: &str = "%i|%T|%N|%r";

/// How many characters of a state, of a list of nodes and of a reason are kept.
const MOST_OF_FIELD: usize = 200;

/// What `sacct` prints for each task.
pub(crate) const SACCT_FORMAT: &str = "JobID,State,NodeList";

/// One task of a job array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// The job array's id.
    pub job: u64,
    /// The number of the shard.
    pub shard: u32,
    /// Slurm's name for its state: `NODE_FAIL`.
    pub state: String,
    /// The nodes that it runs on, or ran on. Empty if there is none.
    pub nodes: String,
    /// Why it waits or ended. Empty if Slurm gives no reason.
    pub reason: String,
}

/// What a state means for whoever waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Will start by itself.
    Pending,
    /// Runs, or is being started or cleaned up.
    Running,
    /// Slurm wanted to run it again, failed, and now waits for a person.
    Stuck,
    /// Will not run again by itself.
    Ended,
}

/// States in which a task will not run again by itself.
const ENDED: [&str; 11] = [
    "BOOT_FAIL",
    "CANCELLED",
    "COMPLETED",
    "DEADLINE",
    "FAILED",
    "LAUNCH_FAILED",
    "NODE_FAIL",
    "OUT_OF_MEMORY",
    "PREEMPTED",
    "RECONFIG_FAIL",
    "TIMEOUT",
];

/// States in which a task waits.
const PENDING: [&str; 5] = ["PENDING", "REQUEUED", "REQUEUE_FED", "RESV_DEL_HOLD", "SUSPENDED"];

impl Task {
    /// Returns what the state means.
    pub fn phase(&self) -> Phase {
        let state = self.state.as_str();
        let is_held = ["REQUEUE_HOLD", "SPECIAL_EXIT"].contains(&state)
            || state == "PENDING" && self.reason.to_lowercase().contains("requeued held")
            || state == "PENDING" && self.reason.contains("requeued_held");
        match state {
            _ if is_held => Phase::Stuck,
            ended if ENDED.contains(&ended) => Phase::Ended,
            pending if PENDING.contains(&pending) => Phase::Pending,
            // States of later versions are waited for, too.
            _ => Phase::Running,
        }
    }

    /// Returns what became of it, for people: `NODE_FAIL on node2 (NodeDown)`.
    pub fn described(&self) -> String {
        let nodes = if self.nodes.is_empty() { String::new() } else { format!(" on {}", self.nodes) };
        let reason = if self.reason.is_empty() { String::new() } else { format!(" ({})", self.reason) };
        format!("{}{nodes}{reason}", self.state)
    }
}

/// Reads what `squeue` printed. Other lines than those of tasks are left out.
pub(crate) fn of_squeue(text: &str) -> Vec<Task> {
    text.lines().filter_map(|line| task(line, '|')).collect()
}

/// Reads what `sacct` printed. It has cancelled tasks as `CANCELLED by 1000`.
pub(crate) fn of_sacct(text: &str) -> Vec<Task> {
    let tasks = text.lines().filter_map(|line| task(line, '|'));
    tasks
        .map(|mut task| {
            if let Some((state, by)) = task.state.clone().split_once(' ') {
                state.clone_into(&mut task.state);
                by.clone_into(&mut task.reason);
            }
            task
        })
        .collect()
}

/// Reads `4711_3|NODE_FAIL|node2|NodeDown`.
fn task(line: &str, separator: char) -> Option<Task> {
    let mut fields = line.trim().splitn(4, separator).map(str::trim);
    let (job, shard) = fields.next()?.split_once('_')?;
    let (job, shard) = (job.parse().ok()?, shard.parse().ok()?);
    let kept = |text: &str| text.chars().take(MOST_OF_FIELD).collect::<String>();
    let state = kept(fields.next()?);
    let mut field = || {
        let text = fields.next().unwrap_or_default();
        if ["None", "None assigned", "(null)"].contains(&text) { String::new() } else { kept(text) }
    };
    Some(Task { job, shard, state, nodes: field(), reason: field() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_long_fields_the_beginning_is_kept() {
        let long = "x".repeat(1 << 20);
        let tasks = of_squeue(&format!("1_2|{long}|{long}|{long}\n"));
        assert!(tasks[0].described().len() < 4 * MOST_OF_FIELD, "{}", tasks[0].described());
    }

    #[test]
    fn tasks_of_squeue_have_states_nodes_and_reasons() {
        let text = "1_2|FAILED|node2|NonZeroExitCode\n1_5|PENDING||Resources\n1_1|RUNNING|node1|None\n\
                    1_[6-7]|PENDING||Resources\n9|RUNNING|node1|None\n";
        let tasks = of_squeue(text);
        let described: Vec<_> = tasks.iter().map(|task| (task.shard, task.described())).collect();
        assert_eq!(
            described,
            [
                (2, "FAILED on node2 (NonZeroExitCode)".to_owned()),
                (5, "PENDING (Resources)".to_owned()),
                (1, "RUNNING on node1".to_owned())
            ]
        );
    }

    #[test]
    fn tasks_of_sacct_name_who_cancelled() {
        let tasks = of_sacct(
            "4711_3|CANCELLED by 1000|None assigned\n4711_4|OUT_OF_MEMORY|node1\n4711_4.batch|x|y\n",
        );
        assert_eq!(tasks.len(), 2);
        assert_eq!(
            (tasks[0].phase(), tasks[0].described()),
            (Phase::Ended, "CANCELLED (by 1000)".to_owned())
        );
        assert_eq!(tasks[1].described(), "OUT_OF_MEMORY on node1");
    }

    #[test]
    fn a_state_says_whether_waiting_helps() {
        let phase = |state: &str, reason: &str| {
            let (state, reason) = (state.to_owned(), reason.to_owned());
            Task { job: 1, shard: 1, state, nodes: String::new(), reason }.phase()
        };
        for ended in
            ["COMPLETED", "FAILED", "NODE_FAIL", "TIMEOUT", "CANCELLED", "PREEMPTED", "OUT_OF_MEMORY"]
        {
            assert_eq!(phase(ended, ""), Phase::Ended, "{ended}");
        }
        assert_eq!(phase("PENDING", "Resources"), Phase::Pending);
        assert_eq!(phase("PENDING", "JobHeldUser"), Phase::Pending, "the user may release it");
        assert_eq!(phase("PENDING", "launch failed requeued held"), Phase::Stuck);
        assert_eq!(phase("PENDING", "job_requeued_held"), Phase::Stuck);
        assert_eq!(phase("SPECIAL_EXIT", ""), Phase::Stuck);
        for running in ["RUNNING", "CONFIGURING", "COMPLETING", "A_NEW_STATE"] {
            assert_eq!(phase(running, ""), Phase::Running, "{running}");
        }
    }
}
