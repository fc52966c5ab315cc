//! Logs of runs with call stacks: what is read, and what is refused with its line.

use memprof_judge::results::shim_log;
use memprof_judge::results::stack_log::{Figures, Node, Released, ReleasingPair, StackLog, Way};
use memprof_judge::results::stack_log_reader::read;

use crate::support::stacks::{Recorded, lines};

const F: &[&str] = &["a::t@src/lib.rs:3", "a::f@src/lib.rs:7"];
const G: &[&str] = &["a::t@src/lib.rs:3", "a::g@src/lib.rs:9"];

/// Two sites; the second interval changes one of them.
fn usual() -> String {
    let first: &[_] = &[(0, [5, 5, 0, 0]), (1, [100, 40, 160, 4]), (2, [20, 30, 30, 1])];
    let second: &[_] = &[(2, [300, 0, 300, 2])];
    lines(&[F, G], &[("start", first), ("done", second)]).0
}

fn log(text: &str) -> Result<StackLog, String> {
    read(text.as_bytes(), "log.jsonl").map_err(|error| error.to_string())
}

fn figures(at_peak: i64, live: i64, allocated: i64, count: i64) -> Figures {
    Figures { at_peak, live, allocated, count }
}

#[test]
fn frames_sites_and_intervals_are_read() {
    let log = log(&usual()).unwrap();
    assert_eq!(log.nodes[1], Node { parent: 1, module: Some(0), address: 1 });
    assert_eq!((log.nodes.len(), &log.sites[..]), (4, &[2, 4][..]));
    assert_eq!(log.recording.as_ref().unwrap().walker, "table");
    assert_eq!(log.module(0).unwrap().bias, 4096);
    assert_eq!(log.timelines[0].buckets, [[0, 5], [5, 9]]);
    assert!(log.ended && log.notes.is_empty() && log.incomplete.is_empty());
    let heap = log.family("heap").unwrap();
    assert_eq!(heap.intervals[0].total, figures(125, 75, 190, 5));
    assert_eq!(heap.intervals[1].total, figures(345, 45, 300, 2));
    assert_eq!((heap.at("done", 1), heap.at("done", 2), heap.highest()), (Some(1), None, Some(1)));
}

#[test]
fn a_site_that_is_not_listed_keeps_its_bytes() {
    let log = log(&usual()).unwrap();
    let heap = log.family("heap").unwrap();
    assert_eq!(
        heap.figures(1),
        [(0, figures(5, 5, 0, 0)), (1, figures(40, 40, 0, 0)), (2, figures(300, 0, 300, 2)),]
    );
    assert_eq!(
        heap.figures_of_run(),
        [(0, figures(5, 5, 0, 0)), (1, figures(40, 40, 160, 4)), (2, figures(300, 0, 330, 3)),]
    );
}

#[test]
fn where_blocks_ended_is_read() {
    let first: &[_] = &[(1, [100, 40, 160, 4]), (2, [0, 0, 0, 0])];
    let recorded = Recorded::with_releases(&[F, G], &[("done", first)], &[[1, 2, 0, 5, 60], [1, 2, 1, 0, 7]]);
    let releases = recorded.log.family("heap").unwrap().releases(0);
    let pair = |way: Way| ReleasingPair { site: 1, by: 2, way };
    assert_eq!(releases[&pair(Way::Freed)], Released { at_peak: 5, at_end: 60 });
    assert_eq!(releases[&pair(Way::Shrunk)], Released { at_peak: 0, at_end: 7 });
    for (pairs, problem) in [
        ("[1,2,0,5]", "a pair of sites has five numbers"),
        ("[1,3,0,5,60]", "a pair names a site that the log does not have"),
        ("[1,2,3,5,60]", "there is no way 3"),
        ("[1,2,0,61,60]", "a figure is out of range"),
    ] {
        let line = format!(
            r#"{{"v":1,"seq":9,"ns":9,"pid":7,"event":"releases","family":"heap","label":"done","occurrence":1,"pairs":{pairs}}}"#
        );
        let error = log(&format!("{}{line}\n", usual())).unwrap_err();
        assert!(error.contains(problem), "{error} instead of {problem}");
    }
}

#[test]
fn what_is_wrong_is_refused_with_its_line() {
    let cases = [
        (r#""frames":[0,"#, r#""frames":[7,"#, "4: ", "frame 1 has no earlier parent"),
        (
            r#""frames":[0,0,"#,
            r#""frames":[0,9,"#,
            "4: ",
            "frame 1 is in module 9, which the log does not name",
        ),
        (r#""frames":[0,0,"#, r#""frames":[0,-2,"#, "4: ", "frame 1 has no module"),
        (r#""frames":[0,"#, r#""frames":["#, "4: ", "a frame has three numbers"),
        (r#""first":1,"frames""#, r#""first":2,"frames""#, "4: ", "it begins with frame 2 instead of 1"),
        (r#""nodes":[2,4]"#, r#""nodes":[2,5]"#, "5: ", "site 2 has no frame 5"),
        (r#""sites":[2,300,0"#, r#""sites":[2,301,0"#, "9: ", "the sites have 346 in `peak`, which is 345"),
        (r#""sites":[2,300,0"#, r#""sites":[2,300,1"#, "9: ", "the sites have 46 in `live`, which is 45"),
        (
            r#""sites":[2,300,0,300"#,
            r#""sites":[2,300,0,301"#,
            "9: ",
            "the sites have 301 in `allocated`, which is 300",
        ),
        (r#""sites":[2,"#, r#""sites":[3,"#, "9: ", "the log has no site 3"),
        (r#""sites":[2,"#, r#""sites":[2,300,0,0,0,2,"#, "9: ", "site 2 is listed twice"),
        (r#""sites":[2,"#, r#""sites":["#, "9: ", "a site has five numbers"),
        (
            r#""heap.peak":345"#,
            r#""heap.peak":344"#,
            "9: ",
            "heap.peak is 345 here and 344 at the checkpoint",
        ),
        (r#""heap.count":2"#, r#""heap.count":3"#, "9: ", "heap.count is 2 here and 3 at the checkpoint"),
        (r#""live":45"#, r#""live":2251799813685248"#, "9: ", "a figure is out of range"),
        (
            r#""label":"done","metrics""#,
            r#""label":"other","metrics""#,
            "9: ",
            "there is no checkpoint 'done' #1 before it",
        ),
        (
            r#""part":0,"parts":1,"peak":345"#,
            r#""part":0,"parts":2,"peak":345"#,
            "9: ",
            "the interval of 'done' has 1 of 2 parts",
        ),
        (
            r#""part":0,"parts":1,"peak":345"#,
            r#""part":1,"parts":2,"peak":345"#,
            "9: ",
            "part 1 comes before part 0",
        ),
        (r#""buckets":[0,5,"#, r#""buckets":[6,5,"#, "10: ", "a bucket's least is above its most"),
        (r#""walker":"table""#, r#""walker":1"#, "2: ", "invalid type: integer"),
    ];
    for (old, new, line, problem) in cases {
        let text = usual();
        assert!(text.contains(old), "{old} in {text}");
        let error = log(&text.replacen(old, new, 1)).unwrap_err();
        assert!(error.starts_with(&format!("log.jsonl:{line}")), "{error}");
        assert!(error.contains(problem), "{error} instead of {problem}");
    }
}

#[test]
fn a_log_of_a_killed_process_is_read_up_to_its_last_whole_interval() {
    let text = usual();
    let done = text.find(r#""event":"timeline""#).unwrap();
    let killed = log(&text[..done]).unwrap();
    assert_eq!(killed.family("heap").unwrap().intervals.len(), 2);
    assert!(killed.notes[0].contains("is cut off"), "{:?}", killed.notes);
    let in_parts = text.replace(r#""part":0,"parts":1,"peak":345"#, r#""part":0,"parts":2,"peak":345"#);
    let torn = log(&in_parts[..in_parts.find(r#""event":"timeline""#).unwrap()]).unwrap();
    assert_eq!(torn.family("heap").unwrap().intervals.len(), 1);
    assert!(torn.notes[0].contains("the interval of 'done' has 1 of 2 parts"), "{:?}", torn.notes);
}

#[test]
fn threads_may_write_their_lines_in_another_order() {
    let text = usual();
    let mut lines: Vec<&str> = text.lines().collect();
    lines.swap(5, 7);
    lines.swap(6, 8);
    assert_eq!(log(&lines.join("\n")).unwrap().families, log(&text).unwrap().families);
}

#[test]
fn a_forked_child_is_ignored() {
    let child = usual().lines().last().unwrap().replace(r#""pid":7"#, r#""pid":8"#);
    let log = log(&format!("{}{child}\n", usual())).unwrap();
    assert_eq!(log.notes, ["ignored 1 line of other processes (forked children)"]);
}

#[test]
fn what_a_sample_leaves_out_has_no_site() {
    let text = usual().replace(r#""sample":null"#, r#""sample":512"#);
    let text = text.replace("[2,300,0,300,2]", "[2,420,0,512,1]");
    let log = log(&text).unwrap();
    let heap = log.family("heap").unwrap();
    assert_eq!(log.recording.as_ref().unwrap().sample, Some(512));
    assert_eq!(heap.figures(1)[0], (0, figures(5 - 120, 5, 300 - 512, 1)), "estimates may be too high");
}

#[test]
fn the_tests_own_done_is_not_the_shims() {
    let text = usual().replace(
        r#""at":null,"event":"checkpoint","label":"done""#,
        r#""at":"src/lib.rs:1","event":"checkpoint","label":"done""#,
    );
    assert_ne!(text, usual());
    assert_eq!(log(&text).unwrap().family("heap").unwrap().intervals[1].label, "done (test)");
}

#[test]
fn the_plain_reader_knows_the_lines_and_a_plain_log_has_no_stacks() {
    let measurement = shim_log::read(usual().as_bytes(), "log.jsonl").unwrap();
    assert_eq!(measurement.notes, Vec::<String>::new());
    assert_eq!(measurement.checkpoints().len(), 2);
    let plain: Vec<String> = usual()
        .lines()
        .filter(|line| {
            ["begin", "checkpoint", "end"].iter().any(|event| line.contains(&format!(r#""event":"{event}""#)))
        })
        .map(str::to_owned)
        .collect();
    let log = log(&plain.join("\n")).unwrap();
    assert_eq!((log.recording, log.families), (None, Vec::new()));
}
