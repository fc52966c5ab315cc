//! What was live where a test broke a limit, in a sentence.

use camino::Utf8PathBuf;

use crate::options::Options;
use crate::source_path::inside;
use crate::why::site_rows::{SiteRow, SiteRows, Sites};
use crate::why::text::heading;
use crate::why::words::MOST_OF_FUNCTION;
use memprof_judge::compare::comparison::PairView;
use memprof_judge::why::explanations::ExplainedRow;
use memprof_judge::why::function_path::shortened;

/// At most this many call sites are named.
const MOST_SITES: usize = 3;

/// A site that has less than one part in so many is left out.
const LEAST_SHARE: u64 = 100;

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
    let least = difference.whole().unsigned_abs() / LEAST_SHARE;
    // The groups are sorted by size.
    let groups = difference.groups.iter().take(MOST_SITES);
    let most = groups.filter(|group| difference.of_group(group).unsigned_abs() > least).count();
    let agreements = row.agreements.iter().flatten().copied().collect();
    let sites = SiteRows::new(difference, &Sites { candidate, most, frames: 1, agreements });
    let site = |row: &SiteRow<'_>| {
        let class = if row.class.is_empty() { String::new() } else { format!("({})", row.class) };
        let name = shortened(&row.name, MOST_OF_FUNCTION);
        let parts = [&row.amount, &*name, &row.location, &class];
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
    };
    let parts: Vec<String> = sites.rows.iter().map(site).collect();
    let remarks = sites.remarks.join("; ");
    let remarks = if remarks.is_empty() { remarks } else { format!(" ({remarks})") };
    format!("{} {}{remarks}", heading(difference), parts.join(", "))
}
