//! `DESIGN.md` has a sentence for each source file, and for no file that is gone.

use std::collections::BTreeSet;
use std::path::Path;

use walkdir::WalkDir;

/// The Rust files below a folder, as paths relative to it.
fn sources(folder: &str) -> BTreeSet<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let files = WalkDir::new(&root).into_iter().map(|entry| entry.expect("a readable folder"));
    let rust = files.filter(|entry| entry.path().extension().is_some_and(|extension| extension == "rs"));
    let relative = |path: &Path| path.strip_prefix(&root).expect("below").to_string_lossy().into_owned();
    rust.map(|entry| relative(entry.path())).collect()
}

/// The files that a row of one of the tables begins with: ``| `name.rs` | …``.
fn named() -> Vec<String> {
    let text = include_str!("../DESIGN.md");
    let rows = text.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` | "));
    rows.map(|(name, sentence)| {
        assert!(sentence.trim_end().ends_with(". |"), "{name} has no sentence: {sentence}");
        name.to_owned()
    })
    .collect()
}

#[test]
fn every_source_file_has_a_sentence_and_every_sentence_a_file() {
    let named = named();
    let once: BTreeSet<String> = named.iter().cloned().collect();
    assert_eq!(once.len(), named.len(), "a file is named twice");
    let there: BTreeSet<String> = sources("src").into_iter().chain(sources("templates")).collect();
    let without: Vec<_> = there.difference(&once).collect();
    assert!(without.is_empty(), "DESIGN.md says nothing of {without:?}");
    let gone: Vec<_> = once.difference(&there).collect();
    assert!(gone.is_empty(), "DESIGN.md speaks of {gone:?}, which do not exist");
}
