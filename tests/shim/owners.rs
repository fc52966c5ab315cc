//! The snapshot of live blocks: it is taken in the moment that was asked for, and has the pointers that the program has.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use std::path::Path;

use camino::Utf8Path;
use memprof_judge::symbols::data_symbols::DataSymbols;
use memprof_judge::symbols::kept_table;
use memprof_judge::why::heap_snapshot::{self, Form, HeapSnapshot, Holder, Pointer, Use};

use crate::laboratory::{Experiment, Record, program, scratch};

/// Runs the program, and reads the snapshot of a moment. `at` has the variable's form.
fn snapshot(executable: &Path, at: &str, arguments: &[&str]) -> (Record, HeapSnapshot) {
    let table = format!("{}.unwind", executable.display());
    kept_table::keep(Utf8Path::from_path(executable).unwrap(), Utf8Path::new(&table)).unwrap().unwrap();
    let file = scratch("snapshot");
    let experiment = arguments.iter().fold(Experiment::of(executable), Experiment::arg);
    let record = experiment
        .env("MEMPROF_STACKS", "table")
        .env("MEMPROF_UNWIND_TABLE", table)
        .env("MEMPROF_OWNERS", &file)
        .env("MEMPROF_OWNERS_AT", at)
        .succeed();
    let bytes = std::fs::read(&file).expect("the snapshot was written");
    (record, heap_snapshot::read(&bytes[..]).expect("it fits together"))
}

/// What holds the block of this size: roots, and the blocks that point to it, by their sizes.
fn holders(snapshot: &HeapSnapshot, size: u64) -> (Vec<Holder>, Vec<u64>) {
    let found = snapshot
        .blocks
        .iter()
        .position(|block| block.size == size)
        .unwrap_or_else(|| panic!("no block of {size} B is live"));
    let found = u32::try_from(found).unwrap();
    let roots = snapshot.roots.iter().filter(|root| root.block == found).map(|root| root.holder).collect();
    let pointers = snapshot.pointers.iter().filter(|(_, to)| *to == found);
    (roots, pointers.map(|(from, _)| snapshot.blocks[*from as usize].size).collect())
}

fn check(flags: &[&str]) {
    let executable = program("owners", flags);
    let (record, held) = snapshot(&executable, "- - 1 held", &[]);
    let live: u64 = held.blocks.iter().map(|block| block.size).sum();
    assert_eq!(i64::try_from(live).unwrap(), record.figure("held", "heap.live"));
    assert_eq!((held.live, held.peak, held.is_whole), (live, None, true));
    let symbols = DataSymbols::read(Utf8Path::from_path(&executable).unwrap()).unwrap();
    let name = |holder: &Holder| match *holder {
        Holder::Static(address) => {
            let place = held.places.iter().find(|place| (place.begin..place.end).contains(&address)).unwrap();
            symbols.static_at(address - place.bias).unwrap_or_default()
        }
        Holder::ThreadLocal(place) => symbols.thread_local_at(place.unwrap()).unwrap_or_default(),
        Holder::Frame(_) => "frame".to_owned(),
        Holder::Stack(number) => held.threads[number as usize].name.clone(),
    };
    let names = |size: u64| holders(&held, size).0.iter().map(name).collect::<Vec<_>>();
    // The vector of four vectors has the three.
    for size in [10_001, 10_002, 10_003] {
        assert!(holders(&held, size).1.contains(&96), "{flags:?}");
    }
    assert!(names(96).contains(&"owners::HELD".to_owned()), "{:?} {flags:?}", names(96));
    assert!(names(20_001).contains(&"owners::KEPT".to_owned()), "{:?} {flags:?}", names(20_001));
    let of_thread = holders(&held, 30_001);
    let is_of_thread = names(30_001).contains(&"holder".to_owned()) || !of_thread.1.is_empty();
    assert!(is_of_thread, "{:?} {:?} {flags:?}", names(30_001), of_thread.1);
    assert!(names(40_001).contains(&"frame".to_owned()), "{:?} {flags:?}", names(40_001));
    assert!(holders(&held, 50_001).1.is_empty(), "{flags:?}");
    assert_eq!(held.by_chance, 0);
    // The moment of the peak, which the run notes.
    let (record, _) = snapshot(&executable, "- - 1 held", &["alone"]);
    let interval = record.events("interval").into_iter().find(|line| line["label"] == "grown").unwrap();
    let (event, peak) = (interval["peak_event"].as_u64().unwrap(), interval["peak"].as_u64().unwrap());
    let (_, grown) = snapshot(&executable, &format!("{event} {peak} 1 grown"), &["alone"]);
    assert_eq!((grown.live, grown.peak), (peak, Some(peak)), "{flags:?}");
    assert_eq!(grown.blocks.iter().map(|block| block.size).sum::<u64>(), peak);
    assert_eq!(grown.blocks.iter().filter(|block| block.size == 60_001).count(), 1, "{flags:?}");
}

#[test]
fn snapshots_of_unoptimised_code() {
    check(&["-Copt-level=0", "-Cdebuginfo=2"]);
}

#[test]
fn snapshots_of_optimised_code() {
    check(&["-Copt-level=3"]);
}

/// The elements of the block of this size that its holder's words say, if they have this form.
fn lengths(snapshot: &HeapSnapshot, size: u64, form: Form) -> Vec<u64> {
    let holds = |pointer: Pointer| match pointer {
        Pointer::Block(_) => true,
        Pointer::Root(root) => matches!(snapshot.roots[root as usize].holder, Holder::Static(_)),
    };
    let is_meant =
        |of: &&Use| snapshot.blocks[of.block as usize].size == size && of.form == form && holds(of.pointer);
    snapshot.uses.iter().filter(is_meant).map(|of| of.length).collect()
}

fn check_uses(flags: &[&str]) {
    let (_, kept) = snapshot(&program("uses", flags), "- - 1 kept", &[]);
    let of = |size: u64, form: Form| lengths(&kept, size, form);
    let rows = (50..57).map(|row| of(2 * row, Form::Vector(2))).collect::<Vec<_>>();
    assert_eq!(rows, vec![vec![1]; 7], "{flags:?}");
    let expected = [
        (8000, Form::Vector(8), 123),
        (7 * 24, Form::Vector(24), 7),
        (5001, Form::Vector(1), 4),
        (3000, Form::Vector(1), 3000),
        (77 * 8, Form::Vector(8), 3),
        // A byte for each bucket, and a group of them.
        (2048 * 17 + 16, Form::Table(11), 10),
        (4 * 33 + 16, Form::Table(2), 2),
        (128 * 2 + 16, Form::Table(7), 100),
    ];
    for (size, form, length) in expected {
        assert_eq!(of(size, form), [length], "{size} B, {form:?} {flags:?}");
    }
    let trees = |height: u32, length: u64| {
        kept.uses.iter().filter(|of| (of.form, of.length) == (Form::Tree(height), length)).count()
    };
    assert!(trees(4, 5000) > 0 && trees(0, 9) > 0, "{flags:?}");
    // Before Rust 1.67, a deque had no length, and its capacity was a power of two.
    let deque = of(4095 * 4, Form::Deque(4));
    let is_old = deque.is_empty() && !of(4096 * 4, Form::Deque(4)).is_empty();
    assert!(deque == [750] || is_old, "{deque:?} {flags:?}");
    let own = kept.blocks.iter().position(|block| block.size == 654 * 4).unwrap();
    let of_own = kept.uses.iter().filter(|of| of.block as usize == own && of.form == Form::Vector(4));
    assert!(of_own.map(|of| of.length).any(|length| length == 321), "{flags:?}");
}

#[test]
fn uses_of_unoptimised_code() {
    check_uses(&["-Copt-level=0", "-Cdebuginfo=2"]);
}

#[test]
fn uses_of_optimised_code() {
    check_uses(&["-Copt-level=3"]);
}
