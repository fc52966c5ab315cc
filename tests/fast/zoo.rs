//! The zoo is what its README says, before anything is injected.

use std::collections::BTreeSet;

use crate::support::zoo::{self, ZooRepository};

#[test]
fn every_case_is_explained_and_every_explanation_has_a_case() {
    let mut explained = zoo::explained();
    explained.sort();
    assert_eq!(explained, zoo::cases());
}

#[test]
fn every_figure_is_of_a_case_and_a_change() {
    let cases: BTreeSet<String> = zoo::cases().into_iter().collect();
    let mut without: BTreeSet<&str> = cases.iter().map(String::as_str).collect();
    let figures = zoo::figures();
    for figure in &figures {
        assert!(cases.contains(&figure.case), "{} is no case", figure.case);
        assert!(figure.test.contains("::"), "'{}' is not package::binary::test", figure.test);
        let own_allocator = figure.case.starts_with("own-allocator") && figure.old.is_none();
        assert!(figure.old != figure.new || own_allocator, "{}: no change", figure.test);
        without.remove(figure.case.as_str());
    }
    assert_eq!(without.into_iter().collect::<Vec<_>>(), ["doctest-only"]);
}

#[test]
fn every_case_becomes_a_clean_repository_whose_revisions_differ() {
    for case in zoo::cases() {
        let repository = ZooRepository::of(&case);
        assert_ne!(repository.old, repository.new, "{case}");
        assert!(repository.root().join("Cargo.toml").is_file(), "{case} has no manifest");
        let locked = repository.root().join("Cargo.lock").is_file();
        assert_eq!(locked, case != "no-lock", "{case}: lock file");
        let difference = repository.git(&["diff", "--stat", "old", "new"]);
        assert!(!difference.is_empty(), "{case}: the new revision changes nothing");
        assert_eq!(repository.git(&["status", "--porcelain"]), "", "{case}");
    }
}

#[test]
fn a_removed_folder_is_gone_in_the_new_revision_alone() {
    let repository = ZooRepository::of("moved-package");
    assert!(repository.git(&["ls-tree", "-r", "--name-only", "old"]).contains("engine/Cargo.toml"));
    let new = repository.git(&["ls-tree", "-r", "--name-only", "new"]);
    assert!(new.contains("crates/engine/Cargo.toml"), "{new}");
    assert!(!new.lines().any(|path| path.starts_with("engine/") || path == ".removed"), "{new}");
}

#[test]
fn scripts_can_be_executed_and_line_ends_stay() {
    let wrapper = ZooRepository::of("own-wrapper").git(&["ls-tree", "new", "tools/workspace-wrapper.sh"]);
    assert!(wrapper.starts_with("100755"), "{wrapper}");
    let repository = ZooRepository::of("shared-root");
    let read = |name: &str| std::fs::read(repository.root().join("tests").join(name)).unwrap();
    assert!(read("carriage_returns.rs").windows(2).any(|pair| pair == b"\r\n"));
    assert!(read("byte_order_mark.rs").starts_with(b"\xef\xbb\xbf"));
    assert!(!read("no_final_newline.rs").ends_with(b"\n"));
}
