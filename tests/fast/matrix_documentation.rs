//! `docs/matrix.md` and the parser say the same: each key once, and every example is accepted.

use std::collections::BTreeMap;

use memprof_plan::config::mapping::Mapping as _;
use memprof_plan::config::matrix::{self, Matrix, TraceEntry};

const DOCUMENTATION: &str = include_str!("../../docs/matrix.md");

/// The keys of each table, in order: the tables stand in the order of `matrix::all_keys`.
fn documented_keys() -> Vec<Vec<String>> {
    let mut tables: Vec<Vec<String>> = Vec::new();
    for line in DOCUMENTATION.lines() {
        if line.starts_with("| key |") {
            tables.push(Vec::new());
        } else if let Some(rest) = line.strip_prefix("| `") {
            let (key, _) = rest.split_once('`').expect("a key ends with a backtick");
            tables.last_mut().expect("a key stands in a table").push(key.to_owned());
        }
    }
    tables
}

#[test]
fn each_key_is_documented_once_and_no_other() {
    let known: Vec<Vec<String>> = (matrix::all_keys().iter())
        .map(|(_, keys)| keys.iter().map(|key| (*key).to_owned()).collect())
        .collect();
    assert_eq!(documented_keys(), known);
}

#[test]
fn a_key_with_a_flag_has_it_in_its_row() {
    let rows = [("", Matrix::FLAGS), ("trace", TraceEntry::FLAGS)];
    for (table, key) in rows.into_iter().flat_map(|(table, keys)| keys.iter().map(move |key| (table, key))) {
        let row = format!("| `{}` |", key.key);
        let flag = format!("`--{}`", key.flag.long);
        let mut documented = DOCUMENTATION.lines().filter(|line| line.starts_with(&row));
        assert!(documented.any(|line| line.contains(&flag)), "{table} {} has {flag}", key.key);
    }
}

#[test]
fn the_flags_that_it_names_exist() {
    let command = <cargo_memprof::arguments::command_line::Arguments as clap::CommandFactory>::command();
    let known: BTreeMap<String, bool> = (command.get_arguments())
        .filter_map(|argument| argument.get_long().map(|long| (format!("--{long}"), true)))
        .collect();
    let named = DOCUMENTATION.match_indices("--").filter_map(|(at, _)| {
        let flag: String = (DOCUMENTATION[at..].chars())
            .take_while(|character| character.is_ascii_lowercase() || *character == '-')
            .collect();
        (flag.len() > 2 && !flag.trim_matches('-').is_empty()).then_some(flag)
    });
    let mut count = 0;
    for flag in named {
        assert!(known.contains_key(&flag), "{flag} is no flag");
        count += 1;
    }
    assert!(count > 30, "{count} flags were found");
}

#[test]
fn every_example_is_accepted() {
    let mut count = 0;
    for example in DOCUMENTATION.split("```yaml\n").skip(1) {
        let (yaml, _) = example.split_once("```").expect("an example ends");
        matrix::parse(yaml, "docs/matrix.md".into())
            .unwrap_or_else(|user_error| panic!("{}\n{yaml}", user_error.rendered()));
        count += 1;
    }
    assert!(count >= 5, "{count}");
}
