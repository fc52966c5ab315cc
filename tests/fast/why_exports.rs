//! Files for other programs, read back: pprof's by the messages of its format, DHAT's field by field, folded stacks by their rules.

use std::collections::BTreeMap;
use std::io::Read as _;

use flate2::read::GzDecoder;
use memprof_judge::why::difference::Measure;
use memprof_report::why::{dhat, folded, pprof};
use prost::Message as _;
use serde_json::Value;

use crate::support::stacks::{OfSite, Recorded};
use crate::why::runs;

/// The messages of profile.proto, as far as they are needed.
mod profile {
    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Profile {
        #[prost(message, repeated, tag = "1")]
        pub sample_type: Vec<ValueType>,
        #[prost(message, repeated, tag = "2")]
        pub sample: Vec<Sample>,
        #[prost(message, repeated, tag = "3")]
        pub mapping: Vec<Mapping>,
        #[prost(message, repeated, tag = "4")]
        pub location: Vec<Location>,
        #[prost(message, repeated, tag = "5")]
        pub function: Vec<Function>,
        #[prost(string, repeated, tag = "6")]
        pub string_table: Vec<String>,
        #[prost(message, optional, tag = "11")]
        pub period_type: Option<ValueType>,
        #[prost(int64, tag = "12")]
        pub period: i64,
        #[prost(int64, repeated, tag = "13")]
        pub comment: Vec<i64>,
        #[prost(int64, tag = "14")]
        pub default_sample_type: i64,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct ValueType {
        #[prost(int64, tag = "1")]
        pub r#type: i64,
        #[prost(int64, tag = "2")]
        pub unit: i64,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Sample {
        #[prost(uint64, repeated, tag = "1")]
        pub location_id: Vec<u64>,
        #[prost(int64, repeated, tag = "2")]
        pub value: Vec<i64>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Mapping {
        #[prost(uint64, tag = "1")]
        pub id: u64,
        #[prost(bool, tag = "7")]
        pub has_functions: bool,
        #[prost(bool, tag = "10")]
        pub has_inline_frames: bool,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Location {
        #[prost(uint64, tag = "1")]
        pub id: u64,
        #[prost(uint64, tag = "2")]
        pub mapping_id: u64,
        #[prost(message, repeated, tag = "4")]
        pub line: Vec<Line>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Line {
        #[prost(uint64, tag = "1")]
        pub function_id: u64,
        #[prost(int64, tag = "2")]
        pub line: i64,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Function {
        #[prost(uint64, tag = "1")]
        pub id: u64,
        #[prost(int64, tag = "2")]
        pub name: i64,
        #[prost(int64, tag = "3")]
        pub system_name: i64,
        #[prost(int64, tag = "4")]
        pub filename: i64,
    }
}

use profile::Profile;

fn decoded(recorded: &Recorded) -> Profile {
    let heap = recorded.log.family("heap").unwrap();
    let figures = recorded.stacks.figures(&heap.figures_of_run());
    let mut file = Vec::new();
    pprof::write(&recorded.stacks, &figures, "index at main", &mut file).unwrap();
    let mut bytes = Vec::new();
    GzDecoder::new(&file[..]).read_to_end(&mut bytes).unwrap();
    Profile::decode(&bytes[..]).unwrap()
}

impl Profile {
    fn text(&self, index: i64) -> &str {
        &self.string_table[usize::try_from(index).unwrap()]
    }

    /// The stack of a sample: each location with its functions, files and lines, the innermost first.
    fn stack(&self, sample: &profile::Sample) -> Vec<Vec<(&str, &str, i64)>> {
        let line = |line: &profile::Line| {
            let function = self.function.iter().find(|one| one.id == line.function_id).unwrap();
            (self.text(function.name), self.text(function.filename), line.line)
        };
        let locations = sample.location_id.iter();
        let location = |id: &u64| self.location.iter().find(|one| one.id == *id).unwrap();
        locations.map(|id| location(id).line.iter().map(line).collect()).collect()
    }
}

#[test]
fn pprof_reads_the_sites_of_a_revision() {
    let [_, candidate] = runs();
    let profile = decoded(&candidate);
    assert_eq!(profile.string_table[0], "", "the format demands it");
    let types: Vec<_> =
        profile.sample_type.iter().map(|one| (profile.text(one.r#type), profile.text(one.unit))).collect();
    assert_eq!(
        types,
        [
            ("peak_space", "bytes"),
            ("inuse_space", "bytes"),
            ("alloc_space", "bytes"),
            ("alloc_objects", "count"),
        ]
    );
    assert_eq!(profile.text(profile.default_sample_type), "peak_space");
    assert_eq!(profile.text(profile.comment[0]), "index at main");
    assert!(profile.mapping[0].has_functions, "or pprof would look for symbols");
    assert!(profile.location.iter().all(|location| location.mapping_id == profile.mapping[0].id));
    let push = profile.sample.iter().find(|sample| sample.value == [9000, 4500, 18_000, 3]).unwrap();
    assert_eq!(
        profile.stack(push),
        [
            vec![("alloc::vec::grow", "std/alloc/src/vec.rs", 1)],
            vec![("i::push", "src/lib.rs", 9)],
            vec![("i::index", "src/lib.rs", 4)],
            vec![("i::t", "tests/t.rs", 5)],
            vec![("main", "std/alloc/src/vec.rs", 1)],
        ]
    );
    let sums = (0..4).map(|value| profile.sample.iter().map(|sample| sample.value[value]).sum::<i64>());
    assert_eq!(sums.collect::<Vec<_>>(), [10_075, 5043, 20_128, 15], "the figures of the run");
}

#[test]
fn functions_of_dependencies_are_the_same_in_both_files() {
    let file = |recorded: &Recorded| {
        let profile = decoded(recorded);
        let serde = profile.function.iter().find(|one| profile.text(one.name) == "serde::de").unwrap();
        profile.text(serde.filename).to_owned()
    };
    assert_eq!(runs().each_ref().map(file), ["serde/src/de.rs"; 2], "or -diff_base would match none");
}

#[test]
fn inlined_functions_are_lines_of_one_location() {
    let sites: &[&[&str]] =
        &[&["i::t@tests/t.rs:5", "i::f@src/lib.rs:3 > i::g@src/lib.rs:9 > i::h@src/lib.rs:20"]];
    let recorded = Recorded::new(sites, &[("done", &[(1, [8, 8, 8, 1])])]);
    let profile = decoded(&recorded);
    assert_eq!(
        profile.stack(&profile.sample[0]),
        [
            vec![("i::h", "src/lib.rs", 20), ("i::g", "src/lib.rs", 9), ("i::f", "src/lib.rs", 3)],
            vec![("i::t", "tests/t.rs", 5)],
        ]
    );
}

#[test]
fn dhat_has_the_fields_that_its_viewer_demands() {
    let sites: &[&[&str]] = &[&["i::t@tests/t.rs:5", "i::f@src/lib.rs:3"], &["i::t@tests/t.rs:6"]];
    let intervals: &[(&str, &[OfSite])] =
        &[("start", &[(0, [7, 7, 0, 0]), (1, [500, 20, 600, 3])]), ("done", &[(2, [30, 40, 50, 2])])];
    let recorded = Recorded::new(sites, intervals);
    let mut file = Vec::new();
    dhat::write(&recorded.stacks, recorded.log.family("heap").unwrap(), "index at main", &mut file).unwrap();
    let file: Value = serde_json::from_slice(&file).unwrap();
    let keys: Vec<&String> = file.as_object().unwrap().keys().collect();
    let expected = [
        "dhatFileVersion",
        "mode",
        "verb",
        "bklt",
        "bkacc",
        "tu",
        "Mtu",
        "tuth",
        "cmd",
        "pid",
        "tg",
        "te",
        "pps",
        "ftbl",
    ];
    let (mut keys, mut wanted): (Vec<&str>, Vec<&str>) =
        (keys.into_iter().map(String::as_str).collect(), expected.to_vec());
    keys.sort_unstable();
    wanted.sort_unstable();
    assert_eq!(keys, wanted);
    assert_eq!(file["dhatFileVersion"], 2);
    assert_eq!((&file["mode"], &file["verb"]), (&Value::from("rust-heap"), &Value::from("Allocated")));
    assert_eq!((&file["bklt"], &file["bkacc"]), (&Value::from(true), &Value::from(false)));
    assert_eq!((file["tg"].as_u64(), file["te"].as_u64()), (Some(6), Some(8)));
    let frames: Vec<&str> =
        file["ftbl"].as_array().unwrap().iter().map(|frame| frame.as_str().unwrap()).collect();
    assert_eq!(frames[0], "[root]");
    let mut points: BTreeMap<String, Value> = BTreeMap::new();
    for point in file["pps"].as_array().unwrap() {
        let mut fields: Vec<&str> = point.as_object().unwrap().keys().map(String::as_str).collect();
        fields.sort_unstable();
        assert_eq!(fields, ["eb", "ebk", "fs", "gb", "gbk", "mb", "mbk", "tb", "tbk", "tl"]);
        let stack = point["fs"].as_array().unwrap().iter();
        let stack: Vec<&str> =
            stack.map(|index| frames[usize::try_from(index.as_u64().unwrap()).unwrap()]).collect();
        points.insert(stack.join(" < "), point.clone());
    }
    let f = &points["0x0: i::f (src/lib.rs:3) < 0x0: i::t (tests/t.rs:5)"];
    let of = |key: &str| f[key].as_i64().unwrap();
    assert_eq!([of("tb"), of("tbk"), of("mb"), of("gb"), of("eb")], [600, 3, 500, 500, 20]);
    assert!(points.contains_key("[without a call stack]"));
    let sum = |key: &str| points.values().map(|point| point[key].as_i64().unwrap()).sum::<i64>();
    assert_eq!([sum("gb"), sum("eb"), sum("tb")], [507, 67, 650], "the figures of the run");
}

/// Reads folded stacks as inferno does: the last blank separates the count, semicolons the frames.
fn parsed(text: &str) -> BTreeMap<Vec<String>, i64> {
    let line = |line: &str| {
        let (stack, count) = line.rsplit_once(' ').unwrap();
        let frames: Vec<String> = stack.split(';').map(str::to_owned).collect();
        assert!(frames.iter().all(|frame| !frame.is_empty()), "{line}");
        (frames, count.parse::<u64>().unwrap().cast_signed())
    };
    text.lines().map(line).collect()
}

fn written(stacks: &BTreeMap<String, i64>) -> BTreeMap<Vec<String>, i64> {
    let mut out = Vec::new();
    folded::write(stacks, &mut out).unwrap();
    parsed(&String::from_utf8(out).unwrap())
}

#[test]
fn folded_stacks_are_read_back() {
    let [baseline, _] = runs();
    let heap = baseline.log.family("heap").unwrap();
    let figures = baseline.stacks.figures(&heap.figures_of_run());
    let stacks = written(&folded::stacks(&baseline.stacks, &figures, Measure::AtPeak));
    let frames = ["main", "i::t", "i::index", "i::push", "alloc::vec::grow"].map(str::to_owned);
    assert_eq!(stacks[&frames[..]], 1000);
    assert_eq!(stacks.values().sum::<i64>(), heap.intervals[0].total.at_peak);
    let odd: &[&[&str]] = &[&["f::<[u8; 3]>@src/lib.rs:1"], &["g h@src/lib.rs:2"]];
    let recorded = Recorded::new(odd, &[("done", &[(1, [8, 8, 8, 1]), (2, [4, 4, 4, 1])])]);
    let figures = recorded.stacks.figures(&recorded.log.family("heap").unwrap().figures_of_run());
    let stacks = written(&folded::stacks(&recorded.stacks, &figures, Measure::Live));
    assert_eq!(stacks.keys().flatten().collect::<Vec<_>>(), ["f::<[u8: 3]>", "g h"]);
}

#[test]
fn what_grew_and_what_shrank_are_two_trees() {
    let runs = runs();
    let figures =
        runs.each_ref().map(|run| run.stacks.figures(&run.log.family("heap").unwrap().figures_of_run()));
    let sides = [(&runs[0].stacks, &figures[0]), (&runs[1].stacks, &figures[1])];
    let trees = folded::difference(sides, Measure::AtPeak);
    let leaves = |stacks: &BTreeMap<String, i64>| -> BTreeMap<String, i64> {
        written(stacks).into_iter().map(|(frames, count)| (frames.last().unwrap().clone(), count)).collect()
    };
    let of = |expected: &[(&str, i64)]| -> BTreeMap<String, i64> {
        expected.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
    };
    let grew = [("alloc::vec::grow", 8000), ("serde::de", 200), ("i::cut", 80), ("i::sub::walk", 20)];
    assert_eq!(leaves(&trees.grew), of(&grew));
    assert_eq!(leaves(&trees.shrank), of(&[("i::old", 40)]));
    let whole = trees.grew.values().sum::<i64>() - trees.shrank.values().sum::<i64>();
    assert_eq!(whole, 10_075 - 1815, "together they are the difference");
}
