//! Compares two revisions' traced functions: calls as one tree, lines matched by a diff of the
//! source. Repeats are combined to medians.

use std::collections::{BTreeMap, BTreeSet};

use indexmap::IndexMap;
use similar::{Algorithm, DiffTag};

use crate::results::trace_facts::{TraceFacts, TracedFunction};
use crate::results::trace_record::{CallNode, LineRecord, TraceRecord};
use memprof_plan::metric;

/// One revision's traces in a cell.
#[derive(Clone, Debug, Default)]
pub struct TraceSide<'a> {
    /// The records of the runs that may be shown.
    pub records: Vec<&'a TraceRecord>,
    /// The build's facts about traced functions.
    pub facts: Option<&'a TraceFacts>,
}

/// A function in the tree of calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallRow {
    /// The number of traced functions around it.
    pub depth: usize,
    /// The path.
    pub label: String,
    /// The `cfg` conditions or its location, if another function with the same path ran.
    pub apart: Option<String>,
    /// Whether its callers are not recorded.
    pub elsewhere: bool,
    /// Baseline and candidate; `None` if it was not called.
    pub sides: [Option<CallFigures>; 2],
}

/// The sums of a function's calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallFigures {
    /// The number of calls.
    pub calls: i64,
    /// The number of recursive calls.
    pub recursive: i64,
    /// The number of calls that never ended.
    pub open: i64,
    /// The number of calls during which a traced function ran on another thread.
    pub overlapped: i64,
    /// Sums: `heap.consumed`, `heap.allocated`.
    pub sums: BTreeMap<String, i64>,
    /// Maxima of a single call: `heap.peaked`.
    pub most: BTreeMap<String, i64>,
}

impl CallFigures {
    fn add(&mut self, node: &CallNode) {
        let count = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        self.calls += count(node.calls);
        self.recursive += count(node.recursive);
        self.open += count(node.open);
        self.overlapped += count(node.overlapped);
        for (metric, value) in &node.metrics {
            *self.sums.entry(metric.clone()).or_default() += value;
        }
        for (metric, value) in &node.most {
            let most = self.most.entry(metric.clone()).or_insert(*value);
            *most = (*most).max(*value);
        }
    }
}

/// Distinguishes functions that share a path: by conditions or type, and by their order in the
/// source. Both survive moved lines.
struct Namesakes<'a> {
    /// Paths of several functions that ran on one side.
    shared: BTreeSet<&'a str>,
    /// By location: conditions or type, and the 1-based occurrence of these.
    known: [BTreeMap<String, (Option<&'a str>, usize)>; 2],
}

/// Identifies a function among others of its path; `None` if it is the only one.
type Namesake = Option<(Option<String>, usize)>;

impl<'a> Namesakes<'a> {
    fn from_sides(sides: &[TraceSide<'a>; 2]) -> Self {
        let mut shared = BTreeSet::new();
        for side in sides {
            let mut places: BTreeMap<&str, &str> = BTreeMap::new();
            for record in &side.records {
                let nodes = record.nodes.values().map(|node| (&node.label, &node.at));
                for (label, at) in nodes.chain(record.lines.iter().map(|line| (&line.label, &line.at))) {
                    if *places.entry(label).or_insert(at) != at {
                        shared.insert(label.as_str());
                    }
                }
            }
        }
        let known = sides.each_ref().map(|side| {
            let mut counts: BTreeMap<(&str, Option<&str>), usize> = BTreeMap::new();
            let functions = side.facts.into_iter().flat_map(|facts| &facts.functions);
            let of_function = |function: &'a TracedFunction| {
                let apart = function.apart.as_deref();
                let count = counts.entry((&function.path, apart)).or_default();
                *count += 1;
                (function.at(), (apart, *count))
            };
            functions.map(of_function).collect()
        });
        Self { shared, known }
    }

    fn identity(&self, side: usize, label: &str, at: &str) -> Namesake {
        self.shared.contains(label).then(|| match self.known[side].get(at) {
            Some((apart, count)) => (apart.map(str::to_owned), *count),
            None => (Some(at.to_owned()), 1),
        })
    }
}

/// Identifies a function below a caller.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct CallKey {
    label: String,
    identity: Namesake,
    elsewhere: bool,
}

#[derive(Default)]
struct CallTree {
    /// The function's location, `FILE:LINE`.
    at: String,
    /// By index of the run.
    figures: BTreeMap<usize, CallFigures>,
    children: IndexMap<CallKey, CallTree>,
}

/// Returns both sides' calls as one tree: callers first, in the baseline's order.
pub fn calls(sides: &[TraceSide<'_>; 2]) -> Vec<CallRow> {
    let namesakes = Namesakes::from_sides(sides);
    let [old, new] = [0, 1].map(|side| CallTree::from_records(&sides[side].records, &namesakes, side));
    let mut rows = Vec::new();
    merge(Some(&old), Some(&new), 0, &mut rows);
    rows
}

impl CallTree {
    fn from_records(records: &[&TraceRecord], namesakes: &Namesakes<'_>, side: usize) -> Self {
        let mut root = Self::default();
        for (run, record) in records.iter().enumerate() {
            for node in record.nodes.values() {
                let mut path = vec![node];
                while let Some(caller) =
                    path[path.len() - 1].parent.and_then(|parent| record.nodes.get(&parent))
                {
                    path.push(caller);
                }
                let mut place = &mut root;
                for step in path.iter().rev() {
                    let identity = namesakes.identity(side, &step.label, &step.at);
                    let key = CallKey { label: step.label.clone(), identity, elsewhere: step.elsewhere };
                    place = place.children.entry(key).or_default();
                    place.at.clone_from(&step.at);
                }
                // A file that two crates share is compiled twice.
                place.figures.entry(run).or_default().add(node);
            }
        }
        root
    }

    fn median(&self) -> Option<CallFigures> {
        let of = |get: &dyn Fn(&CallFigures) -> i64| median(self.figures.values().map(get));
        Some(CallFigures {
            calls: of(&|one| one.calls)?,
            recursive: of(&|one| one.recursive)?,
            open: of(&|one| one.open)?,
            overlapped: of(&|one| one.overlapped)?,
            sums: medians(self.figures.values().map(|one| &one.sums)),
            most: medians(self.figures.values().map(|one| &one.most)),
        })
    }
}

fn merge(old: Option<&CallTree>, new: Option<&CallTree>, depth: usize, rows: &mut Vec<CallRow>) {
    let mut steps: Vec<&CallKey> = old.into_iter().flat_map(|tree| tree.children.keys()).collect();
    let is_new = |step: &&CallKey| !old.is_some_and(|old| old.children.contains_key(*step));
    steps.extend(new.into_iter().flat_map(|tree| tree.children.keys()).filter(is_new));
    for step in steps {
        let [old, new] = [old, new].map(|tree| tree.and_then(|tree| tree.children.get(step)));
        let apart = step.identity.as_ref().map(|(apart, count)| match apart {
            Some(apart) if *count == 1 => apart.clone(),
            _ => locations([old, new].map(|tree| tree.map(|tree| tree.at.as_str()))),
        });
        rows.push(CallRow {
            depth,
            label: step.label.clone(),
            apart,
            elsewhere: step.elsewhere,
            sides: [old, new].map(|tree| tree.and_then(CallTree::median)),
        });
        merge(old, new, depth + 1, rows);
    }
}

/// Returns `a.rs:1`, or `a.rs:1 → a.rs:3` if it moved.
pub fn locations(at: [Option<&str>; 2]) -> String {
    match at {
        [Some(old), Some(new)] if old != new => format!("{old} → {new}"),
        [old, new] => old.or(new).unwrap_or_default().to_owned(),
    }
}

/// Returns the median; of an even number, the lower middle value, which is a real reading.
fn median(values: impl Iterator<Item = i64>) -> Option<i64> {
    let mut values: Vec<i64> = values.collect();
    values.sort_unstable();
    values.get(values.len().saturating_sub(1) / 2).copied()
}

fn medians<'a>(maps: impl Iterator<Item = &'a BTreeMap<String, i64>>) -> BTreeMap<String, i64> {
    let maps: Vec<_> = maps.collect();
    let names: BTreeSet<&String> = maps.iter().flat_map(|map| map.keys()).collect();
    let of = |name: &String| median(maps.iter().filter_map(|map| map.get(name).copied()));
    names.into_iter().filter_map(|name| Some((name.clone(), of(name)?))).collect()
}

/// A function with figures by line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineProfile {
    /// The path.
    pub label: String,
    /// The location on each side: `FILE:LINE`.
    pub at: [Option<String>; 2],
    /// The lines, in the order of the source.
    pub rows: Vec<LineRow>,
    /// One call in so many was measured.
    pub every: u64,
    /// The call that the figures are of, from 1; `None` if they are of all measured calls.
    pub call: Option<u64>,
}

/// A line of one side, or the same line on both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineRow {
    /// The line's text.
    pub text: String,
    /// Line number and figures, baseline and candidate.
    pub sides: [Option<(usize, Option<LineFigures>)>; 2],
}

/// The figures of a line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LineFigures {
    /// How often it ran.
    pub times: i64,
    /// `heap.peak`, `heap.allocated`, `heap.freed`, `cpu.grown`, …
    pub metrics: BTreeMap<String, i64>,
}

/// A function's source on one side, with the figures of its lines.
struct FunctionLines<'a> {
    function: &'a TracedFunction,
    lines: Vec<&'a str>,
    first: usize,
    figures: BTreeMap<usize, LineFigures>,
    every: u64,
}

/// Returns the lines of all functions with at least one executed line.
pub fn lines(sides: &[TraceSide<'_>; 2]) -> Vec<LineProfile> {
    let namesakes = Namesakes::from_sides(sides);
    let [old, new] = [0, 1].map(|side| profiles(&sides[side], &namesakes, side));
    let mut keys: Vec<&ProfileKey> = old.keys().collect();
    keys.extend(new.keys().filter(|key| !old.contains_key(*key)));
    keys.into_iter().map(|key| profile(key, [old.get(key), new.get(key)])).collect()
}

/// A function, and the call that the figures of its lines are of.
type ProfileKey = (String, Namesake, Option<u64>);

fn profiles<'a>(
    side: &TraceSide<'a>,
    namesakes: &Namesakes<'_>,
    number: usize,
) -> IndexMap<ProfileKey, FunctionLines<'a>> {
    let mut profiles = IndexMap::new();
    for function in side.facts.into_iter().flat_map(|facts| &facts.functions) {
        let Some(text) = &function.text else { continue };
        let at = function.at();
        let mut of_calls: BTreeMap<Option<u64>, BTreeMap<usize, BTreeMap<usize, LineFigures>>> =
            BTreeMap::new();
        let mut every = 1;
        for (run, record) in side.records.iter().enumerate() {
            for line in record.lines.iter().filter(|line| line.label == function.path && line.at == at) {
                let figures = of_calls.entry(line.call).or_default();
                figures.entry(line.line).or_default().entry(run).or_default().add(line);
                every = every.max(line.every.unwrap_or(1));
            }
        }
        let of_repeats = |(line, repeats): (usize, BTreeMap<usize, LineFigures>)| {
            let times = median(repeats.values().map(|one| one.times)).unwrap_or_default();
            (line, LineFigures { times, metrics: medians(repeats.values().map(|one| &one.metrics)) })
        };
        let identity = namesakes.identity(number, &function.path, &at);
        for (call, figures) in of_calls {
            profiles.entry((function.path.clone(), identity.clone(), call)).or_insert(FunctionLines {
                function,
                lines: text.text.lines().collect(),
                first: text.first,
                figures: figures.into_iter().map(of_repeats).collect(),
                every,
            });
        }
    }
    profiles
}

impl LineFigures {
    fn add(&mut self, line: &LineRecord) {
        self.times += i64::try_from(line.times).unwrap_or(i64::MAX);
        let mut metrics = line.metrics.clone();
        // Freed bytes are the allocated ones that do not remain.
        let grown = metrics.remove("heap.grown");
        if let (Some(allocated), Some(grown)) = (metrics.get("heap.allocated").copied(), grown) {
            metrics.insert("heap.freed".to_owned(), allocated - grown);
        }
        for (metric, value) in metrics {
            let is_most = !metric::known(&metric).is_total();
            let known = self.metrics.entry(metric).or_insert(if is_most { value } else { 0 });
            *known = if is_most { value.max(*known) } else { *known + value };
        }
    }
}

fn profile((label, _, call): &ProfileKey, sides: [Option<&FunctionLines<'_>>; 2]) -> LineProfile {
    let texts = sides.map(|side| side.map_or(&[][..], |side| &side.lines));
    let mut rows = Vec::new();
    let place = |side: usize, index: usize| {
        let profile = sides[side]?;
        let number = profile.first + index;
        Some((number, profile.figures.get(&number).cloned()))
    };
    // A line with another indentation counts as another line: its meaning may differ too.
    for change in similar::capture_diff_slices(Algorithm::Patience, texts[0], texts[1]) {
        let (tag, old, new) = change.as_tag_tuple();
        if tag == DiffTag::Equal {
            for (old, new) in old.zip(new) {
                let sides = [place(0, old), place(1, new)];
                rows.push(LineRow { text: texts[0][old].to_owned(), sides });
            }
            continue;
        }
        rows.extend(old.map(|old| LineRow { text: texts[0][old].to_owned(), sides: [place(0, old), None] }));
        rows.extend(new.map(|new| LineRow { text: texts[1][new].to_owned(), sides: [None, place(1, new)] }));
    }
    let at = sides.map(|side| side.map(|side| side.function.at()));
    let every = sides.iter().flatten().map(|side| side.every).max().unwrap_or(1);
    LineProfile { label: label.clone(), at, rows, every, call: *call }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::trace_facts::Excerpt;

    fn record(lines: &[serde_json::Value]) -> TraceRecord {
        let mut record = TraceRecord::default();
        for line in lines {
            record.take(line["event"].as_str().unwrap(), line.to_string().as_bytes()).unwrap().unwrap();
        }
        record
    }

    fn node(number: u64, parent: Option<u64>, label: &str, calls: u64, consumed: i64) -> serde_json::Value {
        serde_json::json!({
            "event": "calls", "node": number, "parent": parent, "label": label, "calls": calls, "recursive": 0, "open": 0,
            "overlapped": 0, "metrics": {"heap.consumed": consumed}, "most": {},
        })
    }

    fn line(number: usize, allocated: i64, grown: i64) -> serde_json::Value {
        serde_json::json!({
            "event": "line", "label": "a::f", "at": "src/a.rs:10", "line": number, "times": 1,
            "metrics": {"heap.peak": 100, "heap.allocated": allocated, "heap.grown": grown},
        })
    }

    #[test]
    fn two_trees_merge_in_the_baselines_order() {
        let old = record(&[node(0, None, "a", 1, 5), node(1, Some(0), "b", 2, 3), node(2, None, "d", 1, 0)]);
        let new =
            record(&[node(0, None, "a", 1, 6), node(1, Some(0), "c", 1, 1), node(2, Some(0), "b", 3, 4)]);
        let sides = [&old, &new].map(|record| TraceSide { records: vec![record], facts: None });
        let rows: Vec<_> = calls(&sides)
            .into_iter()
            .map(|row| {
                let figures = row.sides.map(|side| side.map(|side| (side.calls, side.sums["heap.consumed"])));
                (row.depth, row.label, figures)
            })
            .collect();
        let row = |depth, label: &str, old, new| (depth, label.to_owned(), [old, new]);
        assert_eq!(
            rows,
            [
                row(0, "a", Some((1, 5)), Some((1, 6))),
                row(1, "b", Some((2, 3)), Some((3, 4))),
                row(1, "c", None, Some((1, 1))),
                row(0, "d", Some((1, 0)), None),
            ]
        );
    }

    #[test]
    fn repeats_are_combined_to_medians() {
        let runs = [7, 1, 3].map(|consumed| record(&[node(0, None, "a", 1, consumed)]));
        let sides = [TraceSide { records: runs.iter().collect(), facts: None }, TraceSide::default()];
        assert_eq!(calls(&sides)[0].sides[0].as_ref().unwrap().sums["heap.consumed"], 3);
    }

    #[test]
    fn functions_with_one_path_are_distinguished_if_both_ran_and_matched_if_they_moved() {
        let function = |line: usize, apart: Option<&str>| TracedFunction {
            path: "a::f".to_owned(),
            file: "a.rs".into(),
            line,
            apart: apart.map(str::to_owned),
            untraced: None,
            text: None,
        };
        let facts = |lines: [usize; 3]| TraceFacts {
            functions: lines
                .into_iter()
                .zip([Some("cfg(x)"), None, None])
                .map(|(line, apart)| function(line, apart))
                .collect(),
            unmet: Vec::new(),
        };
        let at = |number: u64, place: usize, calls: u64| {
            let mut node = node(number, None, "a::f", calls, 1);
            node["at"] = format!("a.rs:{place}").into();
            node
        };
        let (old_facts, new_facts) = (facts([1, 5, 9]), facts([3, 7, 12]));
        let old = record(&[at(0, 1, 10), at(1, 5, 20), at(2, 9, 30)]);
        let new = record(&[at(0, 12, 33), at(1, 3, 11), at(2, 3, 1)]);
        let sides = [
            TraceSide { records: vec![&old], facts: Some(&old_facts) },
            TraceSide { records: vec![&new], facts: Some(&new_facts) },
        ];
        let shown = |sides: &[TraceSide<'_>; 2]| -> Vec<(Option<String>, [Option<i64>; 2])> {
            let rows = calls(sides).into_iter();
            rows.map(|row| (row.apart, row.sides.map(|side| Some(side?.calls)))).collect()
        };
        let row = |apart: &str, calls: [Option<i64>; 2]| (Some(apart.to_owned()), calls);
        assert_eq!(
            shown(&sides),
            [
                // Compiled into two crates: both are added up.
                row("cfg(x)", [Some(10), Some(12)]),
                row("a.rs:5", [Some(20), None]),
                row("a.rs:9 → a.rs:12", [Some(30), Some(33)]),
            ]
        );
        // With one function a side, the path alone identifies it.
        let (old, new) = (record(&[at(0, 1, 10)]), record(&[at(0, 12, 33)]));
        let sides = [
            TraceSide { records: vec![&old], facts: Some(&old_facts) },
            TraceSide { records: vec![&new], facts: Some(&new_facts) },
        ];
        assert_eq!(shown(&sides), [(None, [Some(10), Some(33)])]);
    }

    #[test]
    fn an_unchanged_line_matches_itself() {
        let facts = |text: &str| TraceFacts {
            functions: vec![TracedFunction {
                path: "a::f".to_owned(),
                file: "src/a.rs".into(),
                line: 10,
                apart: None,
                untraced: None,
                text: Some(Excerpt { first: 10, text: text.to_owned() }),
            }],
            unmet: Vec::new(),
        };
        let (old_facts, new_facts) =
            (facts("fn f() {\n    a();\n    c();\n}"), facts("fn f() {\n    b();\n    c();\n    d();\n}"));
        let old = record(&[line(11, 8, 8), line(12, 20, -5)]);
        let new = record(&[line(11, 9, 9), line(12, 30, 30), line(13, 1, 1)]);
        let sides = [
            TraceSide { records: vec![&old], facts: Some(&old_facts) },
            TraceSide { records: vec![&new], facts: Some(&new_facts) },
        ];
        let [profile] = &lines(&sides)[..] else { panic!("one function") };
        let row = |row: &LineRow| {
            let figure = |side: &Option<(usize, Option<LineFigures>)>| {
                let (number, figures) = side.as_ref()?;
                let metrics =
                    figures.as_ref().map(|one| (one.metrics["heap.allocated"], one.metrics["heap.freed"]));
                Some((*number, metrics))
            };
            (row.text.trim().to_owned(), figure(&row.sides[0]), figure(&row.sides[1]))
        };
        let rows: Vec<_> = profile.rows.iter().map(row).collect();
        let of = |text: &str, old, new| (text.to_owned(), old, new);
        assert_eq!(
            rows,
            [
                of("fn f() {", Some((10, None)), Some((10, None))),
                of("a();", Some((11, Some((8, 0)))), None),
                of("b();", None, Some((11, Some((9, 0))))),
                of("c();", Some((12, Some((20, 25)))), Some((12, Some((30, 0))))),
                of("d();", None, Some((13, Some((1, 0))))),
                of("}", Some((13, None)), Some((14, None))),
            ]
        );
    }
}
