//! Command lines that show a search's result again: the search's own flags, without those that
//! `run` does not have.

use std::ffi::OsStr;

use memprof_plan::config::mapping::Mapping as _;
use memprof_plan::config::matrix::Matrix;
use memprof_support::process::shell_quoted;

/// Flags of `bisect`, `history` and `prove` that `run` does not have, and whether a value follows each.
const SEARCH_FLAGS: [(&str, bool); 33] = [
    ("--builds", true),
    ("--lockfile", true),
    ("--good", true),
    ("--old", true),
    ("--bad", true),
    ("--new", true),
    ("--find", true),
    ("--first-parent", false),
    ("--every", true),
    ("--at-most", true),
    ("--tags", false),
    ("--metric", true),
    ("--checkpoint", true),
    ("--threshold", true),
    ("--repeat", true),
    ("--format", true),
    ("--output", true),
    ("-o", true),
    ("--no-wait", false),
    ("--wait", true),
    ("--quiet", false),
    ("-q", false),
    ("--verbose", false),
    ("-v", false),
    // These change nothing that is measured.
    ("--color", true),
    ("--resume", true),
    ("--courtesy", true),
    ("--why", true),
    ("--prove", false),
    ("--jobs", true),
    ("-j", true),
    ("--why-time", true),
    ("--why-tests", true),
];

/// Flags without a value that `run` has, too, beside those of keys. A range may follow them.
const WITHOUT_VALUE: [&str; 9] = [
    "--release",
    "-r",
    "--no-default-features",
    "--lib",
    "--benches",
    "--all-tests",
    "--no-auto-overlay",
    "--ignored",
    "--include-ignored",
];

/// Whether no value follows a flag.
fn is_switch(word: &str) -> bool {
    let flags = Matrix::KEYS.iter().filter_map(|key| Some(key.flag?.flag));
    let mut names = flags.filter(|flag| flag.value.is_empty()).flat_map(|flag| [Some(flag.long), flag.alias]);
    WITHOUT_VALUE.contains(&word)
        || word.strip_prefix("--").is_some_and(|name| names.any(|one| one == Some(name)))
}

/// Returns the command line that compares two commits as the search measured them. `arguments` are
/// the search's own, including the name of its command.
pub fn comparison(command: &str, arguments: &[String], before: &str, after: &str) -> String {
    let refs = format!("{before},{after}");
    let words = ["cargo", "memprof", "--refs", &refs].map(str::to_owned).into_iter();
    let words = words.chain(common_flags(command, arguments));
    words.map(|word| shell_quoted(OsStr::new(&word))).collect::<Vec<_>>().join(" ")
}

/// Returns the flags of a search that `run` has, too. `arguments` are all, including the name of its command.
pub fn common_flags(command: &str, arguments: &[String]) -> Vec<String> {
    let mut words = Vec::new();
    // Paths follow `--`.
    let command_index = arguments.iter().position(|argument| argument == command);
    let without_command = arguments.iter().enumerate().filter(|(index, _)| Some(*index) != command_index);
    let flags = without_command.map(|(_, word)| word).take_while(|word| *word != "--");
    let mut skips_value = false;
    let mut takes_value = false;
    for word in flags {
        // Some flags may have a value.
        if std::mem::take(&mut skips_value) && !word.starts_with('-') {
            continue;
        }
        let own = SEARCH_FLAGS.iter().find(|(flag, _)| word == flag);
        let is_joined = |(flag, value): &(&str, bool)| {
            let rest = word.strip_prefix(flag).filter(|rest| *value && !rest.is_empty());
            rest.is_some_and(|rest| rest.starts_with('=') || !flag.starts_with("--"))
        };
        let joined = SEARCH_FLAGS.iter().any(is_joined);
        // The ends of a search are the only words that belong to no flag.
        let is_end = !takes_value && !word.starts_with('-');
        takes_value = word.starts_with('-') && !word.contains('=') && !is_switch(word);
        match own {
            Some((_, value)) => {
                skips_value = *value;
                takes_value = false;
            }
            None if joined || is_end => {}
            None => words.push(word.clone()),
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> String {
        let arguments: Vec<String> = text.split(' ').map(str::to_owned).collect();
        let command = if text.contains("bisect") { "bisect" } else { "history" };
        comparison(command, &arguments, "aaa", "bbb")
    }

    #[test]
    fn the_ends_of_a_search_are_left_out_wherever_they_stand() {
        for ends in ["v1..main", "v1 main"] {
            assert_eq!(
                line(&format!("bisect {ends} -k hf --release")),
                "cargo memprof --refs aaa,bbb -k hf --release"
            );
            assert_eq!(
                line(&format!("bisect --release {ends} -k hf")),
                "cargo memprof --refs aaa,bbb --release -k hf"
            );
        }
    }

    #[test]
    fn a_comparison_has_the_searchs_flags_except_those_that_run_does_not_have() {
        assert_eq!(
            line(
                "bisect --good v1 --bad=main -k hf --find all --metric heap.live -p bart --first-parent -- src/a"
            ),
            "cargo memprof --refs aaa,bbb -k hf -p bart"
        );
        assert_eq!(
            line("history v1..main --every 3 --overlay ../m.rs=tests/m.rs -o out.csv --release"),
            "cargo memprof --refs aaa,bbb --overlay ../m.rs=tests/m.rs --release"
        );
    }

    #[test]
    fn what_changes_nothing_that_is_measured_is_left_out() {
        assert_eq!(
            line("bisect v1..main -k hf --color always -j4 --jobs 2 --resume --why --prove -q -ofile.csv"),
            "cargo memprof --refs aaa,bbb -k hf"
        );
        assert_eq!(line("bisect v1..main --why changed -k hf"), "cargo memprof --refs aaa,bbb -k hf");
    }

    #[test]
    fn the_value_of_a_flag_is_not_taken_for_a_range_and_is_quoted_for_a_shell() {
        let arguments = ["history", "v1..", "-k", "a..b or c"].map(str::to_owned);
        assert_eq!(comparison("history", &arguments, "a", "b"), "cargo memprof --refs a,b -k 'a..b or c'");
    }
}
