//! Traced functions in a run's log: the tree of their calls, and their lines.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use memprof_plan::metric;
use memprof_support::labels;

/// The traced functions of one run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TraceRecord {
    /// The nodes of the tree, by number. A caller has a lower number than the functions it calls.
    pub nodes: BTreeMap<u64, CallNode>,
    /// The lines that ran.
    pub lines: Vec<LineRecord>,
    /// Where the lines of a compiled function are in `lines`, by its number, the call and the line's
    /// number.
    #[serde(skip)]
    places: BTreeMap<(u64, Option<u64>, usize), usize>,
}

/// A traced function, reached through one sequence of callers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CallNode {
    node: u64,
    /// The caller's number. Absent if no traced function called it.
    pub parent: Option<u64>,
    /// Whether its callers are unknown, because there were too many nodes.
    #[serde(default)]
    pub elsewhere: bool,
    /// The function's path.
    pub label: String,
    /// The function's place: `FILE:LINE`.
    #[serde(default)]
    pub at: String,
    /// The number of calls.
    pub calls: u64,
    /// Recursive calls, direct or indirect. The figures of the outer call include theirs.
    pub recursive: u64,
    /// Calls that did not end.
    pub open: u64,
    /// Calls during which a traced function ran on another thread.
    pub overlapped: u64,
    /// Calls in spans: their heap figures are those of their own thread. Absent if there are none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub by_thread: u64,
    /// The sums over all calls that ended.
    pub metrics: BTreeMap<String, i64>,
    /// The largest figures of a single call.
    pub most: BTreeMap<String, i64>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes it so")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// A line of a traced function.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LineRecord {
    /// The number of the compiled function. A function that is compiled twice has two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub site: Option<u64>,
    /// The function's path.
    pub label: String,
    /// The function's place: `FILE:LINE`.
    pub at: String,
    /// The line's number.
    pub line: usize,
    /// How often it ran.
    pub times: u64,
    /// Only one call in so many was measured. Absent if all were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every: Option<u64>,
    /// The call that the figures are of, from 1. Absent if they are of all measured calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<u64>,
    /// `heap.peak` is the most while the line ran. `heap.grown` and totals are sums.
    pub metrics: BTreeMap<String, i64>,
}

impl TraceRecord {
    /// Takes a line of the log. The last one of a node, and of a line of code, counts. Returns `None` if the event is not
    /// about traced functions.
    pub fn take(&mut self, event: &str, line: &[u8]) -> Option<serde_json::Result<()>> {
        Some(match event {
            "calls" => serde_json::from_slice(line).and_then(|node: CallNode| {
                // Otherwise nodes can call each other in a circle, and nobody comes to the end of it.
                if node.parent.is_some_and(|parent| parent >= node.node) {
                    return Err(serde::de::Error::custom("`parent` is not lower than `node`"));
                }
                expect_names(node.metrics.keys().chain(node.most.keys()))?;
                let label = labels::bounded(&node.label).into_owned();
                self.nodes.insert(node.node, CallNode { label, ..node });
                Ok(())
            }),
            "line" => serde_json::from_slice(line).and_then(|line: LineRecord| {
                expect_names(line.metrics.keys())?;
                let label = labels::bounded(&line.label).into_owned();
                self.take_line(LineRecord { label, ..line });
                Ok(())
            }),
            _ => return None,
        })
    }

    fn take_line(&mut self, line: LineRecord) {
        let place = line.site.map(|site| (site, line.call, line.line));
        if let Some(&known) = place.and_then(|place| self.places.get(&place)) {
            self.lines[known] = line;
        } else {
            self.places.extend(place.map(|place| (place, self.lines.len())));
            self.lines.push(line);
        }
    }

    /// Puts the lines of each compiled function in order. They are logged while the test runs, in the
    /// order in which they ran by then.
    pub fn order(&mut self) {
        self.places.clear();
        self.lines.sort_by_key(|line| line.site.map(|site| (site, line.call, line.line)));
    }

    /// Whether nothing was traced.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty() && self.lines.is_empty()
    }
}

fn expect_names<'a>(mut metrics: impl Iterator<Item = &'a String>) -> serde_json::Result<()> {
    let other = metrics.find(|metric| !metric::is_name(metric));
    let problem = |metric: &String| format!("`{}` is no metric's name", labels::one_line(metric));
    other.map_or(Ok(()), |metric| Err(serde::de::Error::custom(problem(metric))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_figures_of_a_line_count() {
        let mut record = TraceRecord::default();
        let mut take = |site: Option<u64>, number: u64, times: u64| {
            let mut line = serde_json::json!({
                "label": "f", "at": "a.rs:1", "line": number, "times": times, "metrics": {},
            });
            if let Some(site) = site {
                line["site"] = site.into();
            }
            record.take("line", line.to_string().as_bytes()).expect("it is about lines").unwrap();
        };
        // Twice told; compiled into a second crate; of a log without numbers.
        take(Some(0), 3, 1);
        take(Some(0), 4, 1);
        take(Some(0), 3, 7);
        take(Some(1), 3, 5);
        take(None, 3, 2);
        take(None, 3, 2);
        let times: Vec<(usize, u64)> = record.lines.iter().map(|line| (line.line, line.times)).collect();
        assert_eq!(times, [(3, 7), (4, 1), (3, 5), (3, 2), (3, 2)]);
    }

    #[test]
    fn lines_are_in_the_order_of_the_source_whenever_they_were_logged() {
        let mut record = TraceRecord::default();
        for (site, number) in [(1, 4), (0, 9), (1, 2), (0, 3)] {
            let line = serde_json::json!({
                "site": site, "label": "f", "at": "a.rs:1", "line": number, "times": 1, "metrics": {},
            });
            record.take("line", line.to_string().as_bytes()).expect("it is about lines").unwrap();
        }
        record.order();
        let lines: Vec<(Option<u64>, usize)> =
            record.lines.iter().map(|line| (line.site, line.line)).collect();
        assert_eq!(lines, [(Some(0), 3), (Some(0), 9), (Some(1), 2), (Some(1), 4)]);
    }

    #[test]
    fn functions_that_call_each_other_in_a_circle_are_refused() {
        let taken = |node: u64, parent: Option<u64>| {
            let line = serde_json::json!({
                "node": node, "parent": parent, "label": "f", "calls": 1, "recursive": 0, "open": 0, "overlapped": 0,
                "metrics": {}, "most": {},
            });
            TraceRecord::default().take("calls", line.to_string().as_bytes()).expect("it is about calls")
        };
        assert!(taken(1, None).is_ok() && taken(2, Some(1)).is_ok());
        for parent in [2, 3] {
            assert_eq!(taken(2, Some(parent)).unwrap_err().to_string(), "`parent` is not lower than `node`");
        }
    }
}
