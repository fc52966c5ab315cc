//! Logs of runs with call stacks, as the shim writes them, and their functions.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use memprof_judge::results::stack_log::StackLog;
use memprof_judge::results::stack_log_reader;
use memprof_judge::why::attribution::RecordedRun;
use memprof_judge::why::frame::{Frame, Place};
use memprof_judge::why::stacks::Stacks;
use serde_json::{Value, json};

/// A site in an interval: its number, bytes at the peak, live, allocated, and allocations. Site 0 is
/// what has no stack.
pub type OfSite = (u32, [i64; 4]);

/// A run: the stack of each site, the outermost frame first, and the sites of each interval that
/// changed.
///
/// A frame is `function@src/file.rs:7`, `function@name-1.0.2/src/file.rs:7` in a dependency, or
/// `function`, which is the standard library's. `outer > inner` is a function and one inlined into it.
pub struct Recorded {
    pub log: StackLog,
    pub stacks: Stacks,
}

impl Recorded {
    pub fn new(sites: &[&[&str]], intervals: &[(&str, &[OfSite])]) -> Self {
        Self::with_releases(sites, intervals, &[])
    }

    /// `releases` has pairs of sites behind the last interval: the one that allocates, the one that ends
    /// the block, how (0 frees, 1 shrinks, 2 grows), and the bytes up to the peak and to the end.
    pub fn with_releases(sites: &[&[&str]], intervals: &[(&str, &[OfSite])], releases: &[[i64; 5]]) -> Self {
        let (mut text, names) = lines(sites, intervals);
        if let (false, Some((label, _))) = (releases.is_empty(), intervals.last()) {
            text = before_timeline(&text, &releases_line(label, releases));
        }
        let log =
            stack_log_reader::read(text.as_bytes(), "log.jsonl").unwrap_or_else(|error| panic!("{error}"));
        let stacks = Stacks::new(&log, |_, address| resolved(&names[usize::try_from(address).unwrap()]));
        Self { log, stacks }
    }

    pub fn run(&self) -> RecordedRun<'_> {
        RecordedRun { log: &self.log, stacks: &self.stacks }
    }
}

/// Returns the text of a log, and the frames of its addresses.
pub fn lines(sites: &[&[&str]], intervals: &[(&str, &[OfSite])]) -> (String, Vec<String>) {
    let mut names: Vec<String> = Vec::new();
    let (mut frames, mut nodes) = (Vec::new(), Vec::new());
    for site in sites {
        let mut parent = 0;
        for name in *site {
            let index = names.iter().position(|one| one == name).unwrap_or_else(|| {
                names.push((*name).to_owned());
                names.len() - 1
            });
            frames.extend([json!(parent), json!(0), json!(index)]);
            parent = frames.len() / 3;
        }
        nodes.push(parent);
    }
    let mut lines = vec![
        json!({"event": "begin", "build": null, "shim": "0.1.0", "sources": {}}),
        json!({"event": "stacks", "blocks": "headers", "walker": "table", "reason": null, "sample": null}),
        json!({"event": "module", "number": 0, "path": "", "bias": 4096, "begin": 4096, "end": 8192}),
        json!({"event": "frames", "first": 1, "frames": frames}),
        json!({"event": "sites", "first": 1, "nodes": nodes}),
    ];
    let mut live: BTreeMap<u32, i64> = BTreeMap::new();
    let mut occurrences: BTreeMap<&str, u32> = BTreeMap::new();
    for (label, changed) in intervals {
        let (mut peak, mut allocated, mut count) = (live.values().sum::<i64>(), 0, 0);
        for (site, [at_peak, level, bytes, times]) in *changed {
            peak += at_peak - live.insert(*site, *level).unwrap_or(0);
            allocated += bytes;
            count += times;
        }
        let level: i64 = live.values().sum();
        let occurrence = occurrences.entry(label).or_default();
        *occurrence += 1;
        let metrics = json!({
            "heap.live": level, "heap.peak": peak, "heap.allocated": allocated, "heap.count": count, "time": 5,
        });
        lines.push(json!({
            "event": "checkpoint", "label": label, "occurrence": occurrence, "at": null, "metrics": metrics,
        }));
        let listed: Vec<i64> =
            changed.iter().flat_map(|(site, of)| [i64::from(*site), of[0], of[1], of[2], of[3]]).collect();
        lines.push(json!({
            "event": "interval", "family": "heap", "label": label, "occurrence": occurrence, "part": 0,
            "parts": 1, "live": level, "peak": peak, "count": count, "allocated": allocated, "sites": listed,
        }));
    }
    lines.push(
        json!({"event": "timeline", "family": "heap", "begin": 0, "width": 10, "buckets": [0, 5, 5, 9]}),
    );
    lines.push(json!({"event": "end"}));
    (text(&lines), names)
}

fn releases_line(label: &str, releases: &[[i64; 5]]) -> String {
    let line = json!({
        "v": 1, "seq": 99, "ns": 99, "pid": 7, "thread": 1, "event": "releases", "family": "heap",
        "label": label, "occurrence": 1, "pairs": releases.concat(),
    });
    format!("{line}\n")
}

/// Puts a line before the one with the timeline.
fn before_timeline(text: &str, line: &str) -> String {
    let lines = text.lines().map(|one| {
        if one.contains("\"event\":\"timeline\"") { format!("{line}{one}\n") } else { format!("{one}\n") }
    });
    lines.collect()
}

/// Returns the lines, completed with the fields that every line has.
pub fn text(lines: &[Value]) -> String {
    let mut text = String::new();
    for (sequence, line) in lines.iter().enumerate() {
        let mut whole = json!({"v": 1, "seq": sequence, "ns": 1000 * sequence, "pid": 7, "thread": 1});
        whole.as_object_mut().unwrap().extend(line.as_object().unwrap().clone());
        writeln!(text, "{whole}").unwrap();
    }
    text
}

fn resolved(names: &str) -> Vec<Arc<Frame>> {
    let names: Vec<&str> = names.rsplit(" > ").collect();
    let last = names.len() - 1;
    let frames = names.iter().enumerate();
    frames.map(|(index, name)| Arc::new(Frame { is_inlined: index < last, ..frame(name) })).collect()
}

fn frame(text: &str) -> Frame {
    let (function, at) = text.rsplit_once('@').unwrap_or((text, "std/alloc/src/vec.rs:1"));
    let (file, line) = at.split_once(':').unwrap();
    let place = match file.split_once('/').unwrap() {
        ("src" | "tests", _) => Place::Checkout(file.to_owned()),
        ("std", path) => Place::Std(path.to_owned()),
        (package, path) => {
            let (name, version) = package.rsplit_once('-').unwrap();
            Place::Registry { name: name.into(), version: version.into(), path: path.into() }
        }
    };
    let line = Some(line.parse().unwrap());
    Frame { function: Some(function.to_owned()), place: Some(place), line, is_inlined: false, address: None }
}
