//! `history`: measures a range of commits.

use std::collections::BTreeMap;

use crate::arguments::search::{HistoryArguments, MeasuringArguments};
use crate::arguments::why::WhyArguments;
use crate::commands::context::CommandContext;
use crate::search::plan::{SearchPlan, SearchRequest, ends};
use crate::search::start::{Next, search};
use memprof_build::git::commits::{self, Range};
use memprof_build::git::lineage::Lineage;
use memprof_build::git::repository::Repository;
use memprof_judge::why::chosen::Why;
use memprof_report::options::Format;
use memprof_run::bisect::history as sample;
use memprof_run::bisect::merge_search::Merges;
use memprof_run::bisect::record::Task;
use memprof_support::counted::counted;
use memprof_support::event::Sink;
use memprof_support::exit_code::ExitCode;
use memprof_support::user_error::UserError;

/// Starts a history, or continues one.
pub fn history(context: CommandContext<'_>, arguments: &HistoryArguments) -> anyhow::Result<ExitCode> {
    let console = context.console;
    // The text of a history is one figure of many commits. Its page has the call sites of each step.
    let MeasuringArguments { format, output, .. } = &arguments.measuring;
    let mut formats = output.iter().filter_map(|file| Format::of_file(file)).chain(format.iter().copied());
    let has_page = formats.any(|format| format == Format::Html);
    if let Some(by) = arguments.why_by.filter(|_| !has_page) {
        return Err(UserError::new(format!(
            "--why-by {}: only the page of a history has call sites",
            by.as_str()
        ))
        .help("to write the page, too: --output history.html")
        .into());
    }
    let why = if has_page { Why::Changed } else { Why::Never };
    let why = WhyArguments { why: Some(why), why_by: arguments.why_by, ..WhyArguments::default() };
    search("history", &arguments.measuring, &why, Next::Report, context, |repository| {
        plan(arguments, repository, console)
    })
}

/// Plans the history. With `--tags`, the first and the last tagged commit are its ends.
pub fn plan(
    arguments: &HistoryArguments,
    repository: &Repository,
    sink: &dyn Sink,
) -> anyhow::Result<SearchPlan> {
    let (good, bad) = ends(&arguments.range)?;
    let HistoryArguments { paths, measuring, .. } = arguments;
    let (good, bad) = if arguments.tags {
        let request = SearchRequest { good: &good, bad: &bad, paths, measuring };
        tagged_ends(arguments, &request.range(repository)?, repository, (good, bad))?
    } else {
        (good, bad)
    };
    let request = SearchRequest { good: &good, bad: &bad, paths, measuring };
    request.plan(repository, sink, |range| task(arguments, repository, range))
}

/// Returns the first and the last tagged commit as the ends. An end stays as it was typed if no tagged commit has
/// all others on one side, as where a tagged branch was merged after the last tag of the main line.
fn tagged_ends(
    arguments: &HistoryArguments,
    range: &Range,
    repository: &Repository,
    (good, bad): (String, String),
) -> anyhow::Result<(String, String)> {
    let lineage = &range.lineage;
    let tags = tags(range, repository)?;
    let mut tagged = listed(arguments, lineage);
    tagged.retain(|commit| tags.contains_key(commit));
    let [first, .., last] = tagged[..] else {
        let count = counted(tagged.len(), "tagged commit");
        return Err(UserError::new(format!("a history needs two tagged commits; {good}..{bad} has {count}"))
            .help("without --tags, every commit is measured")
            .into());
    };
    let end = |typed: (usize, String), tag: usize, has_on_one_side: &[bool]| {
        let is_end = tag != typed.0 && tagged.iter().all(|&commit| has_on_one_side[commit]);
        if is_end { tags[&tag].clone() } else { typed.1 }
    };
    Ok((
        end((lineage.good, good), first, &lineage.descendants(first)),
        end((lineage.bad, bad), last, &lineage.ancestors(last)),
    ))
}

/// Returns the tags of the range by commit.
fn tags(range: &Range, repository: &Repository) -> anyhow::Result<BTreeMap<usize, String>> {
    let mut tags = BTreeMap::new();
    for (name, commit) in commits::tags(repository)? {
        if let Some(index) = range.hashes.iter().position(|hash| *hash == commit) {
            // If a commit has several tags, the highest version comes last.
            tags.insert(index, name);
        }
    }
    Ok(tags)
}

/// Returns the commits of the range, without those of merged branches if `--first-parent` is given.
fn listed(arguments: &HistoryArguments, lineage: &Lineage) -> Vec<usize> {
    match merges(arguments) {
        Merges::Name => lineage.suspects(lineage.good, lineage.bad),
        Merges::Enter => lineage.all_suspects(),
    }
}

fn merges(arguments: &HistoryArguments) -> Merges {
    if arguments.first_parent { Merges::Name } else { Merges::Enter }
}

/// Which commits of the range to measure.
fn task(arguments: &HistoryArguments, repository: &Repository, range: &Range) -> anyhow::Result<Task> {
    let lineage = &range.lineage;
    let mut listed = listed(arguments, lineage);
    let mut tags: BTreeMap<usize, String> = BTreeMap::new();
    if arguments.tags {
        tags = self::tags(range, repository)?;
        listed.retain(|commit| tags.contains_key(commit) || [lineage.good, lineage.bad].contains(commit));
    }
    let size = |number: Option<u32>| number.and_then(|number| usize::try_from(number).ok());
    let mut commits = match (size(arguments.every), size(arguments.at_most)) {
        (Some(n), _) => sample::every(&listed, n),
        (_, Some(most)) => sample::at_most(&listed, most),
        _ => listed,
    };
    commits.dedup();
    Ok(Task::History { commits, tags: tags.into_iter().collect(), merges: merges(arguments) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_has_two_ends_and_the_last_one_may_be_head() {
        let ends = |range: &str| ends(&range.split(' ').map(str::to_owned).collect::<Vec<_>>());
        let of = |range: &str| ends(range).map(|(good, bad)| format!("{good} {bad}"));
        assert_eq!(of("v1 main").unwrap(), "v1 main");
        assert_eq!(of("main .").unwrap(), "main .", "the working tree, not the merge base");
        assert_eq!(of("v1..main").unwrap(), "v1 main");
        assert_eq!(of("v1..").unwrap(), "v1 HEAD");
        assert_eq!(of("main...pr/7").unwrap(), "main...pr/7 pr/7", "from the merge base");
        assert_eq!(of("main...").unwrap(), "main...HEAD HEAD");
        for wrong in ["v1", "..main", "...main", "a..b..c", "a....b", "a..b c", "a b..c"] {
            assert!(ends(wrong).unwrap_err().rendered().contains("FROM..TO"), "{wrong}");
        }
    }
}
