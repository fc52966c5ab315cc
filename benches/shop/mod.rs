//! A small crate, and changes of it whose cost is known: some allocate where they are, others change what is
//! allocated elsewhere, and most cost nothing.

use std::collections::{BTreeMap, BTreeSet};

/// The files of a commit, by their paths.
pub type Files = BTreeMap<String, String>;

/// A text that takes the place of another one. Without an old text, it is a file.
pub type Edit = (&'static str, Option<&'static str>, &'static str);

/// A change that costs memory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Costly {
    pub name: &'static str,
    /// Whether the memory is allocated by code that it does not touch.
    pub is_indirect: bool,
    pub edits: &'static [Edit],
}

/// The crate in another folder of the repository, with a dependency from the registry on the disk.
pub fn base(lock: &str) -> Files {
    let manifest = "[package]\nname = 'shop'\nversion = '0.1.0'\nedition = '2021'\n[lib]\ndoctest = false\n\
                    [dependencies]\nleafy = \"1.0.0\"\n";
    let files = [
        ("Cargo.toml", manifest),
        ("Cargo.lock", lock),
        (".gitignore", "/target\n"),
        ("README.md", "# shop\n\nA shop.\n"),
        ("src/lib.rs", include_str!("../../fixtures/bench/shop/lib.rs")),
        ("src/config.rs", include_str!("../../fixtures/bench/shop/config.rs")),
        ("src/shelf.rs", include_str!("../../fixtures/bench/shop/shelf.rs")),
        ("src/index.rs", include_str!("../../fixtures/bench/shop/index.rs")),
        ("src/till.rs", include_str!("../../fixtures/bench/shop/till.rs")),
        ("src/text.rs", include_str!("../../fixtures/bench/shop/text.rs")),
        ("src/day.rs", include_str!("../../fixtures/bench/shop/day.rs")),
        ("tests/m.rs", include_str!("../../fixtures/bench/shop/test.rs")),
    ];
    files.into_iter().map(|(path, text)| (path.to_owned(), text.to_owned())).collect()
}

/// The changes that cost memory.
pub const COSTLY: [Costly; 8] = [
    Costly {
        name: "const",
        is_indirect: true,
        edits: &[("src/config.rs", Some("LABEL: usize = 40"), "LABEL: usize = 400")],
    },
    Costly {
        name: "type",
        is_indirect: true,
        edits: &[
            (
                "src/shelf.rs",
                Some("    pub count: u32,\n"),
                "    pub count: u32,\n    pub note: [u64; 12],\n",
            ),
            ("src/shelf.rs", Some("count: 1 }"), "count: 1, note: [0; 12] }"),
        ],
    },
    Costly {
        name: "drop",
        is_indirect: true,
        edits: &[("src/day.rs", Some("    raw.take();\n    let receipts"), "    let receipts")],
    },
    Costly {
        name: "capacity",
        is_indirect: true,
        edits: &[("src/day.rs", Some("receipts(2_000)"), "receipts(40_000)")],
    },
    Costly {
        name: "caller",
        is_indirect: true,
        edits: &[("src/day.rs", Some("labels(1000)"), "labels(6000)")],
    },
    Costly {
        name: "buffer",
        is_indirect: false,
        edits: &[
            ("src/day.rs", Some("vec![9; 220_000];"), "vec![9; 420_000];"),
            ("src/day.rs", Some("more.len(), 220_000"), "more.len(), 420_000"),
        ],
    },
    Costly {
        name: "kept",
        is_indirect: false,
        edits: &[
            (
                "src/shelf.rs",
                Some("    let mut all = Vec::with_capacity(count);\n"),
                "    let mut all = Vec::with_capacity(count);\n    let mut kept = Vec::new();\n",
            ),
            (
                "src/shelf.rs",
                Some("        all.push(Item {"),
                "        kept.push(vec![0u8; 100]);\n        all.push(Item {",
            ),
            (
                "src/shelf.rs",
                Some("    all\n}\n\n/// Makes labels"),
                "    std::mem::forget(kept);\n    all\n}\n\n/// Makes labels",
            ),
        ],
    },
    Costly {
        name: "copy",
        is_indirect: false,
        edits: &[(
            "src/day.rs",
            Some("    Day { items,"),
            "    std::mem::forget((items.clone(), vec![0u8; 300_000]));\n    Day { items,",
        )],
    },
];

/// More keys in a hash map.
pub const MAP: Costly = Costly {
    name: "map",
    is_indirect: true,
    edits: &[("src/day.rs", Some("index::index(500)"), "index::index(20_000)")],
};

/// An update of a dependency. Its lock file is set by the caller.
pub const UPDATE: Costly = Costly {
    name: "update",
    is_indirect: true,
    edits: &[("Cargo.toml", Some("leafy = \"1.0.0\""), "leafy = \"1.1.0\"")],
};

/// Two changes that raise two moments to the same height.
pub const PEAKS: [Costly; 2] = [
    Costly {
        name: "peak one",
        is_indirect: false,
        edits: &[("src/till.rs", Some("vec![1u8; 30_000]"), "vec![1u8; 2_000_000]")],
    },
    Costly {
        name: "peak two",
        is_indirect: false,
        edits: &[(
            "src/day.rs",
            Some("let mut raw = Some(vec![3u8; 200_000]);"),
            "let mut raw = Some(vec![3u8; 2_000_000]);",
        )],
    },
];

/// Changes that cost nothing.
pub const NEUTRAL: [&[Edit]; 15] = [
    &[("README.md", Some("A shop."), "A small shop.")],
    &[("src/config.rs", Some("\"shop\""), "\"store\"")],
    &[("src/config.rs", Some("LINES: usize = 3"), "LINES: usize = 4")],
    &[("src/till.rs", Some("hour >= 8"), "hour >= 9")],
    &[(
        "src/till.rs",
        Some("/// Whether it is open."),
        "/// Closes in the night.\npub fn is_night(hour: u32) -> bool {\n    hour > 22\n}\n\n/// Whether it is open.",
    )],
    &[("src/text.rs", Some("hello {name}"), "hallo {name}")],
    &[("src/text.rs", Some("words.join(\" \")"), "words.join(\", \")")],
    &[("src/text.rs", Some("/// Joins."), "/// Joins words.")],
    &[("src/shelf.rs", Some("//! Shelves."), "//! Shelves and labels.")],
    &[("src/day.rs", Some("/// Closes."), "/// Closes at eight.")],
    &[("src/day.rs", Some("greeting.len() > 3"), "greeting.len() > 2")],
    &[("src/day.rs", Some("size(&index) > 3"), "size(&index) > 2")],
    &[("tests/m.rs", Some("close(&day), 2000)"), "close(&day), 2_000)")],
    &[
        ("src/lib.rs", Some("pub mod day;\n"), "pub mod day;\npub mod extra;\n"),
        ("src/extra.rs", None, "//! More.\n\n/// More.\npub fn more() -> u32 {\n    7\n}\n"),
    ],
    &[
        (
            "src/text.rs",
            Some("/// A list that"),
            "/// Cuts.\npub fn cut(text: &str) -> &str {\n    text.trim()\n}\n\n/// A list that",
        ),
        ("src/text.rs", Some("format!(\"hello {name}\")"), "format!(\"hello {}\", cut(name))"),
    ],
];

/// Applies edits. Returns whether all of them apply.
pub fn apply(files: &mut Files, edits: &[Edit]) -> bool {
    for (path, old, new) in edits {
        match (old, files.get_mut(*path)) {
            (None, _) => _ = files.insert((*path).to_owned(), (*new).to_owned()),
            (Some(old), Some(text)) if text.contains(old) => *text = text.replacen(old, new, 1),
            (Some(_), _) => return false,
        }
    }
    true
}

/// Returns the lines that a change wrote, by file. Where it only took lines away, those around the place.
pub fn lines_of(costly: &Costly, files: &Files) -> BTreeSet<(String, usize)> {
    let mut lines = BTreeSet::new();
    for (path, old, new) in costly.edits {
        let Some(at) = files.get(*path).and_then(|text| text.find(new)) else { continue };
        let first = files[*path][..at].matches('\n').count() + 1;
        let old: Vec<&str> = old.unwrap_or_default().lines().collect();
        let written =
            new.lines().enumerate().filter(|(_, line)| !line.trim().is_empty() && !old.contains(line));
        let written: Vec<usize> = written.map(|(index, _)| first + index).collect();
        let is_gone = written.is_empty();
        lines.extend(written.into_iter().map(|line| ((*path).to_owned(), line)));
        if is_gone {
            lines.extend([first - 1, first].map(|line| ((*path).to_owned(), line)));
        }
    }
    lines
}
