//! Causes as JSON, with a version of their own.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::causes::entry::Entry;
use crate::causes::sheet::CauseSheet;
use crate::why::json::{WhyClass, WhyHunk};
use memprof_judge::compare::comparison::Comparison;
use memprof_judge::why::causes::{Cause, CauseTest, Effect, Moved};
use memprof_judge::why::difference::Resized;
use memprof_judge::why::reasons::Reason;
use memprof_judge::why::versions::ChangedDependency;
use memprof_support::labels::one_line;

/// The version of this format. Within a version, fields may be added, but not removed or changed.
pub(crate) const VERSION: u32 = 1;

/// What moved memory, and in which tests it shows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Causes")]
pub struct CausesReport {
    /// The version of this format.
    pub schema: u32,
    /// The causes, by ref; the worst first.
    pub entries: Vec<CauseEntry>,
}

/// One cause.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CauseEntry {
    /// The name of the candidate.
    pub r#ref: String,
    /// `hunk` for a place in the diff; `dependency` for another version of one; `type` for a type of another
    /// size; `code` for code that the diff has nothing to do with, or without a known diff.
    pub kind: String,
    /// `growth`, `shrinkage`, or `limit` for what was live where tests exceed a limit.
    pub effect: String,
    /// The file, from the repository's root: of a dependency, the changed manifest or lock file; `null` if
    /// unknown.
    pub path: Option<String>,
    /// The line: in the diff, or of the code; `null` if unknown.
    pub line: Option<u32>,
    /// The function that the diff changed, or the one that allocates.
    pub function: String,
    /// What it is, in words: `changed in pr/7`, `serde 1.0.180 → 1.0.200`.
    pub text: String,
    /// Whether leaving it out was measured, and showed a change beyond the limit: see `proof`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub proven: bool,
    /// The place in the diff.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hunk: Option<WhyHunk>,
    /// The dependency.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dependency: Option<ChangedDependency>,
    /// The type that became larger or smaller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resized: Option<ResizedEntry>,
    /// The function that allocates at the site that differs most.
    pub site: String,
    /// The file and line; `null` if unknown.
    pub location: Option<String>,
    /// What the diff has to do with it; `null` if unknown.
    pub class: Option<WhyClass>,
    /// What it moves in the worst test.
    pub metric: String,
    /// How much, in the metric's unit.
    pub amount: i64,
    /// The tests in which it shows, the worst first.
    pub tests: Vec<CauseTestEntry>,
}

/// A type of another size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ResizedEntry {
    /// The type's whole path.
    pub r#type: String,
    /// Its bytes at the baseline.
    pub old: u64,
    /// Its bytes at the candidate.
    pub new: u64,
}

/// A test in which a cause shows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CauseTestEntry {
    /// `package::binary::test`.
    pub test: String,
    /// The title, with parameters.
    pub title: String,
    /// Whether this cause moves more of its memory than any other.
    pub is_main: bool,
    /// Whether other causes outweigh it: the figure changed in the other direction.
    pub is_outweighed: bool,
    /// Whether it ran with call stacks. If not, the same figure changed by as many bytes as in a test
    /// that did.
    pub is_recorded: bool,
    /// What the cause moves, by metric.
    pub moved: Vec<MovedEntry>,
}

/// What a cause moves at one checkpoint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MovedEntry {
    /// The metric.
    pub metric: String,
    /// The checkpoint's label.
    pub checkpoint: String,
    /// The 1-based occurrence.
    pub occurrence: u32,
    /// What the cause moves, in the metric's unit.
    pub amount: i64,
    /// The difference of the whole figure, as recorded with call stacks. Of a test that did not run with them: that
    /// of a test of its group, corrected by how much more or less its own figure changed.
    pub difference: i64,
}

impl CausesReport {
    /// Puts all causes together.
    pub fn new(comparison: &Comparison, sheet: &CauseSheet<'_>) -> Self {
        let entries = comparison.candidates().flat_map(|candidate| sheet.all_causes_of(candidate));
        Self { schema: VERSION, entries: entries.map(|entry| CauseEntry::new(comparison, &entry)).collect() }
    }
}

impl CauseEntry {
    pub(crate) fn new(comparison: &Comparison, entry: &Entry<'_>) -> Self {
        let cause = entry.cause;
        let (kind, hunk, dependency) = match &cause.reason {
            Reason::Hunk(at) => ("hunk", Some(WhyHunk::from(at)), None),
            Reason::Dependency(changed) => ("dependency", None, Some(changed.clone())),
            Reason::Type(_) => ("type", None, None),
            Reason::Code(_) => ("code", None, None),
        };
        let resized = match &cause.reason {
            Reason::Type(Resized { path, sizes: [old, new], .. }) => {
                Some(ResizedEntry { r#type: path.clone(), old: *old, new: *new })
            }
            _ => None,
        };
        let (path, line) = cause.location().unzip();
        let has_other_words = !entry.words.is_empty();
        let text = match &dependency {
            Some(_) if has_other_words => format!("{}; {}", entry.place, entry.words),
            None if resized.is_some() => format!("{}, {}", entry.place, entry.words),
            _ if has_other_words => entry.words.clone(),
            _ => entry.place.clone(),
        };
        Self {
            r#ref: comparison.revisions[cause.candidate].name.clone(),
            kind: kind.to_owned(),
            effect: match cause.effect {
                Effect::Growth => "growth",
                Effect::Shrinkage => "shrinkage",
                Effect::Limit => "limit",
            }
            .to_owned(),
            path: path.map(str::to_owned),
            line,
            function: one_line(cause.function()).into_owned(),
            text,
            proven: entry.is_proven,
            hunk,
            dependency,
            resized,
            site: cause.site.name().to_owned(),
            location: cause.site.location().map(str::to_owned),
            class: cause.site.class.as_ref().map(WhyClass::from),
            metric: cause.most().metric.clone(),
            amount: cause.most().amount,
            tests: cause.tests.iter().map(|test| CauseTestEntry::new(comparison, cause, test)).collect(),
        }
    }
}

impl CauseTestEntry {
    fn new(comparison: &Comparison, cause: &Cause, of: &CauseTest) -> Self {
        let cell = &comparison.cells[of.cell];
        let (test, title) = (cell.id.full_name(), cell.id.title.clone());
        let pair = cell.pairs.iter().find(|pair| pair.candidate == cause.candidate);
        let view = pair.map(|pair| comparison.view(cell, pair));
        let moved = |one: &Moved| {
            let key = view.as_ref().map(|view| view.key(&view.rows[one.row]));
            MovedEntry {
                metric: one.metric.clone(),
                checkpoint: key.map_or_else(String::new, |key| cell.labels[key.label as usize].to_string()),
                occurrence: key.map_or(1, |key| key.occurrence),
                amount: one.amount,
                difference: one.whole,
            }
        };
        let moved = of.moved.iter().map(moved).collect();
        let CauseTest { is_main, is_along, is_recorded, .. } = *of;
        Self { test, title, is_main, is_outweighed: !is_along, is_recorded, moved }
    }
}
