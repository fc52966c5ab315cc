//! The tables of `docs/matrix.md` are made of the keys' definitions, and its examples are accepted.

use std::collections::BTreeMap;

use memprof_plan::config::axes::AxesEntry;
use memprof_plan::config::mapping::{Key, Mapping as _};
use memprof_plan::config::matrix;

const DOCUMENTATION: &str = include_str!("../../docs/matrix.md");

/// A table of keys.
fn table(keys: &[Key]) -> String {
    let has_flags = keys.iter().any(|key| !flags(key).is_empty());
    let row = |name: &str, flags: &str, meaning: &str| match has_flags {
        true if flags.is_empty() => format!("| {name} | | {meaning} |\n"),
        true => format!("| {name} | {flags} | {meaning} |\n"),
        false => format!("| {name} | {meaning} |\n"),
    };
    let mut table = row("key", "flag", "meaning") + &row("---", "---", "---");
    for key in keys {
        let has_section = DOCUMENTATION.contains(&format!("\n## {}\n", key.name));
        let name = &format!("`{}`", key.name);
        let linked = format!("[{name}](#{})", key.name);
        let meaning = key.about.split("\n\n").next().unwrap_or_default();
        let meaning = meaning.split_whitespace().collect::<Vec<_>>().join(" ");
        // Only the first table has the sections' keys.
        let is_top = keys.len() > 30;
        table += &row(if is_top && has_section { &linked } else { name }, &flags(key), &meaning);
    }
    table
}

/// The flags that say the same as a key.
fn flags(key: &Key) -> String {
    let Some(flag) = key.flag else { return key.typed.to_owned() };
    let letter = flag.flag.short.map_or_else(String::new, |letter| format!("`-{letter}`, "));
    format!("{letter}`--{}`", flag.flag.long)
}

#[test]
fn each_table_is_made_of_the_definitions() {
    // Axes have a page of their own, whose table says how values are written and named.
    let mut keys = matrix::all_keys().into_iter().filter(|(name, _)| *name != "axes");
    let mut made = String::new();
    let mut lines = DOCUMENTATION.split_inclusive('\n').peekable();
    while let Some(line) = lines.next() {
        if !line.starts_with("| key |") {
            made += line;
            continue;
        }
        while lines.next_if(|line| line.starts_with('|')).is_some() {}
        made += &table(keys.next().expect("a table for each mapping").1);
    }
    assert_eq!(keys.next().map(|(name, _)| name), None, "a mapping without a table");
    if made != DOCUMENTATION && std::env::var("INSTA_UPDATE").is_ok_and(|update| update == "always") {
        std::fs::write(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/matrix.md"), made)
            .expect("a place to write to");
        return;
    }
    let update = "to write it: INSTA_UPDATE=always cargo test --test fast matrix_documentation";
    for (documented, made) in DOCUMENTATION.lines().zip(made.lines()) {
        assert_eq!(documented, made, "docs/matrix.md is not of the definitions; {update}");
    }
    assert_eq!(DOCUMENTATION.len(), made.len(), "{update}");
}

#[test]
fn each_axis_is_documented_once_and_no_other() {
    let rows = include_str!("../../docs/axes.md").lines().filter_map(|line| line.strip_prefix("| `"));
    let documented: Vec<&str> = rows.filter_map(|row| row.split('`').next()).collect();
    let known: Vec<&str> = AxesEntry::KEYS.iter().map(|key| key.name).collect();
    assert_eq!(documented, known);
}

#[test]
fn the_flags_that_it_names_exist() {
    let command = <cargo_memprof::arguments::command::Arguments as clap::CommandFactory>::command();
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
