//! What was live where a test broke a limit, in a sentence.

use camino::Utf8PathBuf;

use crate::options::Options;
use crate::source_path::inside;
use crate::text::figure;
use crate::why::text::{estimate, heading};
use crate::why::words;
use memprof_judge::compare::comparison::PairView;
use memprof_judge::why::difference::Group;
use memprof_judge::why::explanations::ExplainedRow;
use memprof_judge::why::function_path::shortened;
use memprof_plan::metric::Unit;
use memprof_support::labels::one_line;

/// At most this many call sites are named.
const MOST_SITES: usize = 3;

/// A site that has less than one part in so many is left out.
const LEAST_SHARE: u64 = 100;

/// A function is cut to this width.
const MOST_OF_FUNCTION: usize = 60;

/// Returns a sentence for each limit that a test broke: `at the peak, 3.00 MiB at 'mid': 2.86 MiB
/// engine::kept src/lib.rs:5 (changed in pr/7), 144 KiB elsewhere`.
pub(crate) fn sentences(view: &PairView<'_>, options: &Options) -> Vec<String> {
    let test = options.why.as_deref().and_then(|why| why.for_pair(view));
    let limits = test.into_iter().flat_map(|test| &test.limits);
    limits.map(|row| sentence(row, &view.new.name)).collect()
}

/// Returns the file and line of the largest site where a test broke a limit.
pub(crate) fn place(view: &PairView<'_>, options: &Options) -> Option<(Utf8PathBuf, u32)> {
    let test = options.why.as_deref().and_then(|why| why.for_pair(view))?;
    let group = test.limits.iter().find_map(|row| row.difference.groups.first())?;
    let (path, line) = group.location()?.rsplit_once(':')?;
    Some((inside(path)?.to_owned(), line.parse().ok()?))
}

fn sentence(row: &ExplainedRow, candidate: &str) -> String {
    let difference = &row.difference;
    let unit = Unit::of_metric(&difference.metric);
    let least = difference.whole().unsigned_abs() / LEAST_SHARE;
    let groups = difference.groups.iter().filter(|group| difference.of_group(group).unsigned_abs() > least);
    let shown: Vec<&Group> = groups.take(MOST_SITES).collect();
    let site = |group: &&Group| {
        let amount = figure(difference.of_group(group), unit);
        let class = match words::class(group, candidate) {
            words if words.is_empty() => words,
            words => format!("({words})"),
        };
        let name = shortened(group.name(), MOST_OF_FUNCTION);
        let parts = [&amount, &*name, group.location().unwrap_or_default(), &class];
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
    };
    let mut parts: Vec<String> = shown.iter().map(site).collect();
    let elsewhere = difference.elsewhere(shown.len());
    if elsewhere != 0 {
        parts.push(format!("{} elsewhere", figure(elsewhere, unit)));
    }
    let estimate = estimate(difference).map_or_else(String::new, |estimate| format!(" ({estimate})"));
    one_line(&format!("{} {}{estimate}", heading(difference), parts.join(", "))).into_owned()
}
