//! The progress lines of a search.

use std::time::Duration;

use crate::search::lockfiles;
use memprof_plan::metric::Unit;
use memprof_run::bisect::linear_search::{Remaining, SearchGoal, halvings};
use memprof_run::bisect::merge_search::Merges;
use memprof_run::bisect::parts::record::PartsSearch;
use memprof_run::bisect::record::{SearchRecord, Task};
use memprof_support::counted::counted;
use memprof_support::elapsed::shown;

/// Returns the unit of the metric.
pub fn unit(record: &SearchRecord) -> Unit {
    Unit::of_metric(&record.query.metric)
}

/// ` · 31 commits left, about 2 min`, or nothing.
pub fn what_is_left(record: &SearchRecord, left: Remaining) -> String {
    if left.commits == 0 {
        return String::new();
    }
    let time = time_left(record, left.steps).map_or(String::new(), |time| format!(", about {}", shown(time)));
    let noun = if record.lockfile.is_some() { "update" } else { "commit" };
    format!(" · {} left{time}", counted(left.commits, noun))
}

/// The time for the commits that are left, by the mean so far. Commits whose build was in the store
/// do not count.
fn time_left(record: &SearchRecord, steps: usize) -> Option<Duration> {
    let built = record.efforts.iter().filter(|effort| effort.built);
    let seconds: Vec<f64> = built.map(|effort| effort.seconds).collect();
    // The first build also compiles the dependencies.
    let usual = if seconds.len() > 1 { &seconds[1..] } else { &seconds[..] };
    let count = u32::try_from(usual.len()).ok().filter(|count| *count > 0)?;
    let steps = u32::try_from(steps).ok()?;
    Duration::try_from_secs_f64(usual.iter().sum::<f64>() / f64::from(count) * f64::from(steps)).ok()
}

/// Returns the first line of a search: how many commits, and how many of them it will measure.
pub fn announcement(record: &SearchRecord) -> String {
    let lineage = &record.lineage;
    let range = format!("from {} to {}", record.good, record.bad);
    let all = lineage.commits();
    let before = match record.efforts.len() {
        0 => String::new(),
        count => format!("; {count} were measured before"),
    };
    match &record.task {
        Task::Bisect { .. } if record.lockfile.is_some() => {
            let search = record.lockfile.as_ref();
            search.map_or_else(String::new, |search| {
                lockfiles::announcement(search, &record.good, &record.bad, halvings(all), &before)
            })
        }
        Task::Bisect { find, merges } => {
            let way = lineage.suspects(lineage.good, lineage.bad).len().saturating_sub(1);
            let which = match (way == all, merges, record.paths.is_empty()) {
                (true, ..) => "",
                (_, _, false) => " (those that touch the paths)",
                (_, Merges::Name, _) => " (first parents)",
                (_, Merges::Enter, _) => " (first parents, then merged branches if necessary)",
            };
            let commits = if way == all {
                counted(all, "commit")
            } else {
                format!("{way} of {}", counted(all, "commit"))
            };
            let steps = match (halvings(way), find) {
                (0, _) => String::new(),
                (count, SearchGoal::All) => format!(" and about {count} more per change"),
                (count, _) => format!(" and about {count} more"),
            };
            format!("{commits}{which} {range}: measuring both ends{steps}{before}")
        }
        Task::Prove(search) => {
            format!("the diff {range}: at most {}{before}", counted(search.most_builds, "build"))
        }
        Task::History { commits, .. } => {
            format!("{} {range}: measuring {}{before}", counted(all, "commit"), commits.len())
        }
    }
}

/// Returns the line that says into how many parts a diff was split.
pub fn parts_line(search: &PartsSearch) -> String {
    let hunks: usize = search.parts.iter().map(|part| part.hunks.len()).sum();
    let parts = counted(search.parts.len(), "part");
    format!("{} in {parts}, after {}", counted(hunks, "hunk"), counted(search.checks, "check"))
}
