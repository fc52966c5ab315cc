//! Who holds the memory of programs whose owner is known.

use serde_json::Value;

use crate::why::Subject;

/// A program, and its owner: the beginning of the type, the function that makes it, and what holds it.
type Program = (&'static str, &'static str, &'static str, &'static str);

const PROGRAMS: [Program; 30] = [
    ("unbounded_cache", "HashMap<String, Entry>", "remember", "from static CACHE"),
    ("once_lock", "Vec<u64>", "fill_table", "from static TABLE"),
    ("lazy_lock", "Vec<String>", "build_words", "from static WORDS"),
    ("thread_local", "Vec<Event>", "record_event", "from thread-local HISTORY"),
    ("arc_state", "BTreeMap<u64, Order>", "State::add", "from the stack of arc_state"),
    ("rc_graph", "Vec<Rc<Vertex>>", "Chart::add", "from the stack of rc_graph"),
    ("arc_cycle_of_two", "Arc<Peer>", "new_peer", "a cycle of Arc<Peer>"),
    ("arc_cycle_of_one", "Arc<Session>", "open_session", "a cycle of Arc<Session>"),
    ("leaked_box", "Box<Report>", "leak_report", "no pointer to it"),
    ("forgotten_vec", "Vec<u64>", "forget_samples", "no pointer to it"),
    ("raw_box", "Box<Handle>", "open_handle", "no pointer to it"),
    ("forgotten_thread", "Vec<u64>", "load_batch", "from the stack of thread worker"),
    ("unread_channel", "Box<Counter<", "open_queue", "from the stack of unread_channel"),
    ("stuck_future", "VecDeque<Pin<Box<dyn ", "Executor::spawn", "from the stack of stuck_future"),
    ("closures", "Vec<Box<dyn Fn", "Signal::connect", "from the stack of closures"),
    ("intrusive_list", "Box<Link>", "push_link", "from static HEAD"),
    ("undo_history", "VecDeque<Frame>", "Screen::draw", "from the stack of undo_history"),
    ("interner", "HashMap<String, u32>", "intern", "from static INTERNER"),
    ("arena", "Vec<Vec<u8>>", "Arena::grow", "from the stack of arena"),
    ("weak_pointers", "Vec<Weak<", "Watchers::watch", "from the stack of weak_pointers"),
    ("registered_callbacks", "Vec<Box<dyn Fn", "register", "from static REGISTRY"),
    ("memoized", "HashMap<u64, Vec<u64>>", "Memo::divisors", "from the stack of memoized"),
    ("trie", "BTreeMap<u8, TrieNode>", "TrieNode::insert", "from the stack of trie"),
    ("lru_of_two_maps", "Box<Lru>", "new_lru", "from the stack of lru_of_two_maps"),
    ("shared_texts", "Vec<Rc<str>>", "split_words", "from the stack of shared_texts"),
    ("plugins", "Vec<Box<dyn Plugin>>", "load_plugins", "from the stack of plugins"),
    ("collected", "Vec<Record>", "collect_records", "from the stack of collected"),
    ("matrix_of_rows", "Vec<Vec<f64>>", "matrix", "from the stack of matrix_of_rows"),
    ("buffer_pool", "Vec<Vec<u8>>", "give_back", "from static POOL"),
    ("observers", "Vec<Arc<Observer>>", "Subject::watch", "from the stack of observers"),
];

/// A program, its vector, table or tree, and how many elements the first version and the second one have in it, with
/// its capacity at the second one. The first version has a quarter of the elements.
type Kept = (&'static str, &'static str, [u64; 2], u64);

const KEPT: [Kept; 5] = [
    ("once_lock", "Vec<u64>", [1, 1], 200_000),
    ("thread_local", "Vec<Event>", [500, 2000], 2048),
    ("undo_history", "VecDeque<Frame>", [500, 2000], 2048),
    ("unbounded_cache", "HashMap<String, Entry>", [500, 2000], 3584),
    // Each node has room for eleven.
    ("arc_state", "BTreeMap<u64, Order>", [500, 2000], 0),
];

fn subject() -> Subject {
    let source = include_str!("../../fixtures/owners/lib.rs");
    let sources = [1, 4].map(|scale| format!("{source}\nconst SCALE: usize = {scale};\n"));
    let tests = include_str!("../../fixtures/owners/programs.rs").replace("use subject::*;\n", "");
    Subject::of_sources("", &tests, &sources)
}

/// Whether the first owner is the program's, and what it is.
fn answer(report: &Value, program: &Program) -> (bool, String) {
    let (test, name, made_in, held_by) = *program;
    let held = report["why"]["held"].as_array().expect("owners");
    let Some(owner) = held.iter().find(|held| held["test"] == test).map(|held| &held["owners"][0]) else {
        return (false, "no answer".to_owned());
    };
    let field = |key: &str| owner[key].as_str().unwrap_or_default().to_owned();
    // The closures of a function are in it.
    let function = field("made_in");
    let function = function.split("::{").next().unwrap_or_default();
    let is_right = field("name").starts_with(name)
        && function.ends_with(&format!("::{made_in}"))
        && field("held_by") == held_by
        && owner["difference"].as_i64() > Some(0);
    let found =
        format!("{} made in {function} at {}, {}", field("name"), field("location"), field("held_by"));
    (is_right, found)
}

/// Checks how much of the owners' own blocks is used.
fn check_rooms(report: &Value) {
    let held = report["why"]["held"].as_array().expect("owners");
    for (test, name, used, capacity) in KEPT {
        let owner = &held.iter().find(|held| held["test"] == test).expect("the test")["owners"][0];
        let room =
            owner["rooms"].as_array().and_then(|rooms| rooms.iter().find(|room| room["is_own"] == true));
        let room = room.unwrap_or_else(|| panic!("{test} has no room: {owner}"));
        assert_eq!(room["name"], name, "{test}");
        for (side, used) in ["baseline", "candidate"].into_iter().zip(used) {
            assert_eq!(room[side]["used"], serde_json::json!([used, used]), "{test} at the {side}: {room}");
        }
        let of = |key: &str| room["candidate"][key].as_u64().expect("a number");
        if capacity == 0 {
            assert_eq!(of("capacity"), 11 * of("blocks"), "{test}");
            assert_eq!(room["candidate"]["used_bytes"], Value::Null, "{test}");
        } else {
            assert_eq!(of("capacity"), capacity, "{test}");
        }
    }
}

/// Compares these programs, and says which answers are right. At least so many must be.
#[expect(clippy::print_stdout, reason = "with --nocapture, each answer is shown")]
fn check(programs: &[&Program], profile: &[&str], least: usize) {
    let subject = subject();
    let names: Vec<&str> = programs.iter().map(|program| program.0).collect();
    let usual = ["--why-by", "owner", "--why-time", "20m", "-k", &names.join(" or ")];
    let printed = subject.compare(&[&usual[..], profile].concat());
    assert_eq!(printed.code, 1, "{}", printed.everything());
    let report = subject.report();
    let mut right = 0;
    for program in programs {
        let (is_right, found) = answer(&report, program);
        right += usize::from(is_right);
        println!("{} {}: {found}", if is_right { "right" } else { "WRONG" }, program.0);
    }
    println!("{right} of {} owners are right {profile:?}", programs.len());
    assert!(right >= least, "{right} of {}: {}", programs.len(), printed.everything());
    check_rooms(&report);
    // One that is certain, in each format.
    let cache = "HashMap<String, Entry>";
    let all = subject.memprof(&["report", "--why-by", "owner", "--rows", "all"]).stdout;
    let line = all.lines().find(|line| line.starts_with("held: ") && line.contains(cache));
    let line = line.unwrap_or_else(|| panic!("{all}"));
    assert!(
        line.contains("made at src/lib.rs:") && line.ends_with("(remember), from static CACHE"),
        "{line}"
    );
    let table = all.lines().find(|line| line.starts_with("held: ") && line.contains("from static TABLE"));
    assert!(table.is_some_and(|line| line.contains("  Vec<u64> (1 of 200,000 used)  made at ")), "{all}");
    let markdown = subject.memprof(&["report", "--why-by", "owner", "--format", "markdown"]).stdout;
    let page = subject.memprof(&["report", "--format", "html"]).stdout;
    let owners = subject.memprof(&["report", "--format", "csv=owners"]).stdout;
    for (text, held) in [
        (&markdown, "from static CACHE"),
        (&markdown, "`Vec<u64>` (1 of 200,000 used)"),
        (&page, "from static CACHE"),
        (&page, "(2,000 of 3,584 used)"),
        (&owners, cache),
        (&owners, ",50000,1,8,200000,1,8,"),
    ] {
        assert!(text.contains(held), "{text}");
    }
    assert!(!latest_has_snapshots(&subject), "what the shim writes is removed");
}

fn latest_has_snapshots(subject: &Subject) -> bool {
    let files = walkdir::WalkDir::new(subject.latest()).into_iter().filter_map(Result::ok);
    files.filter(|file| file.file_name() == "heap").count() > 0
}

#[test]
fn the_owners_of_ten_programs_are_found() {
    // Of each kind: statics, thread-locals, stacks, other threads, cycles, and what nothing points to.
    let others = ["forgotten_thread", "closures", "arc_cycle_of_two", "leaked_box", "intrusive_list"];
    let is_one = |name: &str| others.contains(&name) || KEPT.iter().any(|kept| kept.0 == name);
    let ten: Vec<&Program> = PROGRAMS.iter().filter(|program| is_one(program.0)).collect();
    check(&ten, &[], 10);
}

#[test]
#[ignore = "it takes long; `just test-all` runs it"]
fn the_owners_of_thirty_programs_are_found() {
    check(&PROGRAMS.each_ref(), &[], 27);
}

#[test]
#[ignore = "it takes long; `just test-all` runs it"]
fn the_owners_of_thirty_optimised_programs_are_found() {
    // 27 were, with Rust 1.95. Another compiler may lose another function that allocates to a jump.
    check(&PROGRAMS.each_ref(), &["--release"], 25);
}

#[test]
fn each_candidate_is_compared_at_its_own_moment() {
    let sizes = |early: u64, late: u64| {
        format!(
            "pub fn early() -> Vec<u8> {{ vec![1; {early}_000_000] }}\n\
             pub fn late() -> Vec<u8> {{ vec![1; {late}_000_000] }}\n"
        )
    };
    let tests = "
#[test]
fn keeps() {
    let kept = std::hint::black_box(early());
    memprof::checkpoint!(\"early\");
    drop(kept);
    let kept = std::hint::black_box(late());
    memprof::checkpoint!(\"late\");
    drop(kept);
}
";
    let subject = Subject::of_sources("", tests, &[sizes(2, 1), sizes(5, 1)]);
    std::fs::write(subject.root().join("src/lib.rs"), sizes(2, 9)).expect("written");
    let printed = subject.memprof(&["--refs", "old,new,.", "--offline", "--why-by", "owner"]);
    assert_eq!(printed.code, 1, "{}", printed.everything());
    let report = subject.report();
    let held = report["why"]["held"].as_array().expect("owners").iter();
    let mut first: Vec<String> = held
        .map(|held| format!("{} {} {}", held["ref"], held["checkpoint"], held["owners"][0]["bytes"]))
        .collect();
    first.sort();
    // Each owner at the baseline and at the candidate.
    assert_eq!(first, ["\".\" \"late\" [1000000,9000000]", "\"new\" \"early\" [2000000,5000000]"]);
}
