//! From the command line of a comparison to the options of a `bisect` that measures alike.

use clap::{Arg, Args, Command};

use crate::arguments::run::RunArguments;
use crate::arguments::search::BisectArguments;
use crate::arguments::terminal::TerminalArguments;
use memprof_build::git::repository::{Lookup, Repository};
use memprof_plan::config::flag::Section;
use memprof_plan::resolved::Plan;
use memprof_plan::search_options::SearchOptions;
use memprof_support::redaction;

/// Sections of flags that a search has of its own: what is measured by the programs, and what is shown.
const SECTIONS_OF_THE_SEARCH: [Section; 4] =
    [Section::Programs, Section::Output, Section::CallSites, Section::Terminal];

/// Other flags of both commands that a search has of its own, and those that say which test is measured.
const OF_THE_SEARCH: [&str; 8] =
    ["filter", "regex", "exact", "skip", "params", "repeat", "resume", "dry_run"];

/// Flags that decide what is measured, and that no search has.
const ONLY_OF_COMPARISONS: [&str; 4] = ["devices", "pair", "lockfile", "archive"];

/// Returns the options of a search between the plan's revisions; `None` if it could not measure what
/// the comparison measured. `words` are the command line without the program.
pub fn for_plan(
    words: &[String],
    plan: &Plan,
    repository: &Repository,
) -> anyhow::Result<Option<SearchOptions>> {
    let Some(mut options) = read(words) else { return Ok(None) };
    let is_secret = |word: &String| redaction::setting(word) != word.as_str();
    if options.words.iter().any(is_secret) {
        return Ok(None);
    }
    let baseline = &plan.revisions[plan.baseline].commit;
    for (index, revision) in plan.revisions.iter().enumerate() {
        let is_later = revision.commit != *baseline
            && repository.merge_base(&[baseline, &revision.commit])?.as_ref() == Some(baseline);
        if is_later {
            options.candidates.push(index);
            let parent = |number: usize| repository.look_up(&format!("{}^{number}", revision.commit));
            let is_single = matches!(parent(1)?, Lookup::Commit(first) if first == *baseline);
            options.single.extend((is_single && !matches!(parent(2)?, Lookup::Commit(_))).then_some(index));
        }
    }
    Ok(Some(options))
}

/// Returns the flags with which a search measures what this command line does, as [`for_plan`] finds them.
pub fn for_search(words: &[String]) -> Option<Vec<String>> {
    read(words).map(|options| options.words)
}

fn commands() -> (Command, Command) {
    let run = TerminalArguments::augment_args(RunArguments::augment_args(Command::new("run")));
    (run, BisectArguments::augment_args(Command::new("bisect")))
}

/// Returns the flags that a search has too, with their values. `None` if one is missing there.
fn read(words: &[String]) -> Option<SearchOptions> {
    let (run, search) = commands();
    let mut options = SearchOptions::default();
    let mut words = words.iter().take_while(|word| *word != "--").cloned().peekable();
    while let Some(word) = words.next() {
        if !word.starts_with('-') {
            continue;
        }
        let (argument, given) = flag(&run, &word)?;
        let is_optional = argument.get_num_args().is_some_and(|range| range.min_values() == 0);
        let takes_next = argument.get_action().takes_values()
            && given.is_none()
            && !argument.is_require_equals_set()
            && !(is_optional && words.peek().is_none_or(|next| next.starts_with('-')));
        let value = if takes_next { Some(words.next()?) } else { None };
        let id = argument.get_id().as_str();
        if ONLY_OF_COMPARISONS.contains(&id) {
            return None;
        }
        if id == "thresholds" {
            let is_of_all = |value: &String| !value.contains("test=") && !value.contains("checkpoint=");
            options.thresholds.extend(value.or(given).filter(is_of_all));
        } else if !is_of_the_search(argument) && has(&search, argument) {
            options.words.extend([word].into_iter().chain(value));
        }
    }
    Some(options)
}

fn is_of_the_search(argument: &Arg) -> bool {
    let heading = argument.get_help_heading();
    OF_THE_SEARCH.contains(&argument.get_id().as_str())
        || SECTIONS_OF_THE_SEARCH.iter().any(|section| heading == Some(section.heading()))
}

/// Returns the flag that a word is, and its value if it is part of the word; `None` for an unknown one.
fn flag<'a>(command: &'a Command, word: &str) -> Option<(&'a Arg, Option<String>)> {
    let found = |is_meant: &dyn Fn(&Arg) -> bool| command.get_arguments().find(|argument| is_meant(argument));
    if let Some(long) = word.strip_prefix("--") {
        let (name, value) = long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value)));
        let argument = found(&|argument: &Arg| {
            argument.get_long() == Some(name)
                || argument.get_all_aliases().is_some_and(|aliases| aliases.contains(&name))
        })?;
        return Some((argument, value.map(str::to_owned)));
    }
    let short = word.chars().nth(1)?;
    let argument = found(&|argument: &Arg| argument.get_short() == Some(short))?;
    let rest = word[1 + short.len_utf8()..].trim_start_matches('=');
    match (rest.is_empty(), argument.get_action().takes_values()) {
        (true, _) => Some((argument, None)),
        (false, true) => Some((argument, Some(rest.to_owned()))),
        // Several flags in one word.
        (false, false) => None,
    }
}

fn has(command: &Command, argument: &Arg) -> bool {
    command.get_arguments().any(|one| one.get_long().is_some() && one.get_long() == argument.get_long())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Option<SearchOptions> {
        read(&line.split(' ').map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn a_search_gets_what_decides_how_commits_are_built_and_run() {
        let kept = |line: &str| words(line).map(|options| options.words.join(" "));
        assert_eq!(
            kept("v1..main -k parses --overlay ../m.rs=tests/m.rs --test m -r --metrics heap.count -o a.md")
                .as_deref(),
            Some("--overlay ../m.rs=tests/m.rs --test m -r")
        );
        assert_eq!(
            kept("main pr/7 --with serde@1.0.200 --features=a,b -pfoo --why --env A=1 --why-tests 3")
                .as_deref(),
            Some("--with serde@1.0.200 --features=a,b -pfoo --env A=1")
        );
        assert_eq!(
            kept("v1 main --device 0 --noise n.json --exclude batch=8 --metrics malloc --leak heap.live=0B")
                .as_deref(),
            Some("--device 0 --noise n.json --exclude batch=8")
        );
        assert_eq!(
            kept("run main . --no-default-features --rows all --color never").as_deref(),
            Some("--no-default-features")
        );
        assert_eq!(kept("main . --bin tool --repeat 3 -- --fast --release").as_deref(), Some(""));
    }

    #[test]
    fn the_named_flags_exist() {
        let (run, search) = commands();
        let id = |id: &str| {
            let found = run.get_arguments().find(|argument| argument.get_id() == id);
            found.unwrap_or_else(|| panic!("`run` has no {id}"))
        };
        assert!(OF_THE_SEARCH.iter().all(|name| has(&search, id(name))));
        // The `--lockfile` of a search has another meaning.
        for name in ONLY_OF_COMPARISONS {
            assert!(has(&search, id(name)) == (name == "lockfile"), "{name}");
        }
    }

    #[test]
    fn what_a_search_cannot_measure_gives_no_line() {
        for line in
            ["main . --devices all", "main . --pair a=b", "main . --lockfile new=x", "main . --unknown"]
        {
            assert_eq!(words(line), None, "{line}");
        }
    }

    #[test]
    fn thresholds_of_single_tests_stay_behind() {
        let options = words("main . --threshold heap.peak=1% --threshold heap.live=2%,test=hf").unwrap();
        assert_eq!(options.thresholds, ["heap.peak=1%"]);
        assert_eq!(options.words, [""; 0]);
    }
}
