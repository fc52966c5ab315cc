//! Threads that allocate, and those that free: in words, and for JSON.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::text::figure;
use memprof_judge::results::stack_log::Figures;
use memprof_judge::why::difference::{Difference, Group, GroupKind};
use memprof_judge::why::freed_by::FreedBy;
use memprof_judge::why::threads::{ThreadOfRun, ThreadsOfRun};
use memprof_plan::metric::Unit;
use memprof_support::labels::one_line;

/// Other threads that a row names.
const MOST_NAMES: usize = 2;

/// What the threads of one run did with the heap.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WhyThreads {
    /// The test, with its parameters.
    pub test: String,
    /// The name of the ref.
    pub r#ref: String,
    /// The threads by name, the one that allocated most first. With `without_stack`, they add up to the run's
    /// figures.
    pub threads: Vec<ThreadOfRun>,
    /// Memory of no known thread.
    pub without_stack: Figures,
    /// Why it is not known who frees.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

impl WhyThreads {
    /// Takes the threads of a side.
    pub fn new(test: &str, name: &str, run: &ThreadsOfRun) -> Self {
        Self {
            test: test.to_owned(),
            r#ref: name.to_owned(),
            threads: run.threads.clone(),
            without_stack: run.without_stack,
            problem: run.problem.clone(),
        }
    }
}

/// Returns who frees what a thread allocates, if it is not the thread itself: `freed by main`,
/// `38 % freed by main and io`, `freed by main, at the baseline by itself`.
pub(crate) fn freed_in_words(group: &Group) -> String {
    let GroupKind::Thread { name, freed, .. } = &group.kind else { return String::new() };
    let of = |side: usize| {
        let freed = freed[side].as_ref().filter(|freed| freed.all() > 0)?;
        Some(by_others(name, freed))
    };
    match [of(0), of(1)] {
        [_, None] if freed[1].is_none() => String::new(),
        [None, Some(only)] | [Some(only), None] => {
            only.map_or_else(String::new, |(share, by)| format!("{share}freed {by}"))
        }
        [Some(old), Some(new)] if old == new => {
            new.map_or_else(String::new, |(share, by)| format!("{share}freed {by}"))
        }
        [Some(old), Some(new)] => {
            let words =
                |of: Option<(String, String)>| of.unwrap_or_else(|| (String::new(), "by itself".to_owned()));
            let [(old_share, old), (new_share, new)] = [words(old), words(new)];
            format!("{new_share}freed {new}, at the baseline {old_share}{old}")
        }
        [None, None] => String::new(),
    }
}

/// Returns which other threads free at least a tenth, and which share that is.
fn by_others(own: &str, freed: &FreedBy) -> Option<(String, String)> {
    let all = i128::from(freed.all());
    let largest: Vec<(&str, i64)> = freed
        .largest()
        .into_iter()
        .filter(|(_, bytes)| i128::from(*bytes) * 10 >= all)
        .take(MOST_NAMES)
        .collect();
    let names = largest.iter().map(|(name, _)| {
        let another = if *name == own { "another " } else { "" };
        format!("{another}{}", one_line(name))
    });
    let names = names.collect::<Vec<_>>().join(" and ");
    let sum: i128 = largest.iter().map(|(_, bytes)| i128::from(*bytes)).sum();
    let share = if sum * 10 >= all * 9 { String::new() } else { format!("{} % ", sum * 100 / all) };
    (!names.is_empty()).then(|| (share, format!("by {names}")))
}

/// Returns how much memory crosses threads: `31 % of the freed bytes were freed by another thread (baseline 2 %)`.
pub(crate) fn crossing(difference: &Difference) -> Vec<String> {
    let sums = [0, 1].map(|side| {
        let mut sum: Option<FreedBy> = None;
        for group in &difference.groups {
            if let GroupKind::Thread { freed, .. } = &group.kind
                && let Some(freed) = &freed[side]
            {
                let sum = sum.get_or_insert_default();
                sum.itself = sum.itself.saturating_add(freed.itself);
                sum.perhaps_itself = sum.perhaps_itself.saturating_add(freed.perhaps_itself);
                let others = sum.others.entry(String::new()).or_default();
                *others = others.saturating_add(freed.by_others());
            }
        }
        sum.filter(|sum| sum.all() > 0)
    });
    let share = |sum: &FreedBy| i128::from(sum.by_others()) * 100 / i128::from(sum.all());
    let mut remarks = Vec::new();
    remarks.extend(match sums.each_ref().map(|sum| sum.as_ref().map(share)) {
        [Some(old), Some(new)] => {
            Some(format!("{new} % of the freed bytes were freed by another thread (baseline {old} %)"))
        }
        [Some(one), None] | [None, Some(one)] => {
            Some(format!("{one} % of the freed bytes were freed by another thread"))
        }
        [None, None] => None,
    });
    let unclear = sums.iter().flatten().map(|sum| sum.perhaps_itself).max().filter(|bytes| *bytes > 0);
    remarks.extend(unclear.map(|bytes| {
        format!("of {}, it is not known which thread of the same name freed them", figure(bytes, Unit::Bytes))
    }));
    remarks
}
