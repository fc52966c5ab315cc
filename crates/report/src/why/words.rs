//! The words for what a change has to do with a site.

use memprof_judge::why::class::{ChangedEnd, Class, Ended};
use memprof_judge::why::difference::{Group, Resized};
use memprof_judge::why::function_path::{own_name, shortened};
use memprof_judge::why::hunks::Side;
use memprof_judge::why::versions::ChangedDependency;

/// A function in a sentence is cut to this width.
pub(crate) const MOST_OF_FUNCTION: usize = 60;

/// A function in a remark is cut to this width.
const MOST_OF_CALLER: usize = 40;

/// Returns the words for a class. `candidate` is the name of the ref.
pub(crate) fn class(group: &Group, candidate: &str) -> String {
    let Some(class) = &group.class else { return String::new() };
    let candidate = name_of(candidate);
    let words = match class {
        Class::Changed(existence, _) => format!("{} in {candidate}", existence.as_str()),
        Class::CalledFrom(caller, _) => {
            format!("called from changed {}", shortened(&caller.function, MOST_OF_CALLER))
        }
        Class::Dependency(changed) => dependency(changed),
        Class::Ended(end) => ended(end, candidate),
        Class::DebugInformation => "debug information, for a backtrace".to_owned(),
        Class::Unchanged => "unchanged".to_owned(),
    };
    let is_of_other_code = matches!(class, Class::CalledFrom(..) | Class::Unchanged);
    if let (true, Some(of)) = (is_of_other_code, &group.resized) {
        return format!("{words}, {}", resized(of));
    }
    if is_of_other_code && group.has_other_sizes() {
        return format!("{words}, blocks of another size");
    }
    words
}

/// Returns the name of a ref in a sentence.
pub(crate) fn name_of(candidate: &str) -> &str {
    if candidate == "." { "the working tree" } else { candidate }
}

/// Returns `Token 24 → 32 B`.
pub(crate) fn resized(resized: &Resized) -> String {
    let [old, new] = resized.sizes;
    format!("{} {old} → {new} B", resized.name)
}

/// Returns `serde 1.0.180 → 1.0.200`.
pub fn dependency(changed: &ChangedDependency) -> String {
    match (&changed.old, &changed.new) {
        (Some(old), Some(new)) => format!("{} {} → {}", changed.name, version(old), version(new)),
        (Some(old), None) => format!("{} {} is gone", changed.name, version(old)),
        // One side has it.
        (None, new) => format!("{} {} is new", changed.name, version(new.as_deref().unwrap_or_default())),
    }
}

/// `freed in F at the baseline; F is changed in pr/7`
fn ended(ended: &Ended, candidate: &str) -> String {
    let short = |function: &str| shortened(function, MOST_OF_CALLER);
    let side = match ended.side {
        Side::Baseline => "the baseline",
        Side::Candidate => candidate,
    };
    let before = if ended.is_before_peak { " before the peak" } else { "" };
    let end = format!("{}{before} in {} at {side}", ended.way.as_str(), short(&ended.function));
    match &ended.change {
        Some(ChangedEnd::Code { function, existence, .. }) => {
            let is_same = *function == ended.function;
            let function = if is_same { own_name(function) } else { short(function) };
            format!("{end}; {function} is {} in {candidate}", existence.as_str())
        }
        Some(ChangedEnd::Dependency(changed)) => format!("{end}; {}", dependency(changed)),
        None => format!("unchanged, {end}"),
    }
}

/// Shortens a commit.
fn version(text: &str) -> &str {
    let is_commit = text.len() == 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_commit { &text[..9] } else { text }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use memprof_judge::results::stack_log::{Figures, Way};
    use memprof_judge::why::class::{Caller, Existence};
    use memprof_judge::why::difference::GroupKind;
    use memprof_judge::why::hunks::{Hunk, HunkAt};

    fn group(class: Class, figures: [Figures; 2]) -> Group {
        let kind = GroupKind::OutOfFocus;
        Group { kind, figures, class: Some(class), stack: Vec::new(), first: 0, stacks: 1, resized: None }
    }

    /// All classes. A new one does not compile without a place here.
    fn classes() -> Vec<Class> {
        let hunk = || HunkAt { path: "src/lib.rs".to_owned(), hunk: Hunk { old: 1..2, new: 1..2 } };
        let dependency = |old: Option<&str>, new: Option<&str>| {
            let [old, new] = [old, new].map(|version| version.map(str::to_owned));
            Class::Dependency(ChangedDependency { name: "serde".to_owned(), old, new })
        };
        let caller = || Caller { function: "F".to_owned(), location: "src/lib.rs:7".to_owned() };
        let serde = || ChangedDependency {
            name: "serde".to_owned(),
            old: Some("1.0.180".to_owned()),
            new: Some("1.0.200".to_owned()),
        };
        let code = |function: &str, existence| {
            Some(ChangedEnd::Code { function: function.to_owned(), existence, hunk: hunk() })
        };
        let end = |side, way, change| {
            let (function, location, is_before_peak) = ("F".to_owned(), None, false);
            Class::Ended(Box::new(Ended { side, way, is_before_peak, function, location, change }))
        };
        let before_peak = || {
            let (function, location, is_before_peak) = ("F".to_owned(), None, true);
            let (side, way, change) = (Side::Baseline, Way::Freed, None);
            Class::Ended(Box::new(Ended { side, way, is_before_peak, function, location, change }))
        };
        let next = |class: &Class| match class {
            Class::Changed(Existence::Both, _) => Some(Class::Changed(Existence::New, hunk())),
            Class::Changed(Existence::New, _) => Some(Class::Changed(Existence::Deleted, hunk())),
            Class::Changed(Existence::Deleted, _) => Some(Class::CalledFrom(caller(), hunk())),
            Class::CalledFrom(..) => Some(dependency(Some("1.0.180"), Some("1.0.200"))),
            Class::Dependency(ChangedDependency { old: Some(_), new: Some(_), .. }) => {
                Some(dependency(None, Some("1.0.200")))
            }
            Class::Dependency(ChangedDependency { old: None, new: Some(_), .. }) => {
                Some(dependency(Some("1.0.180"), None))
            }
            Class::Dependency(_) => Some(end(Side::Baseline, Way::Freed, code("F", Existence::Both))),
            Class::Ended(ended) => match (ended.side, ended.way, &ended.change) {
                (Side::Candidate, ..) => Some(end(Side::Baseline, Way::Shrunk, code("F", Existence::Both))),
                (_, Way::Shrunk, _) => Some(end(Side::Baseline, Way::Grown, code("F", Existence::Both))),
                (_, Way::Grown, _) => Some(Class::Unchanged),
                (_, _, Some(ChangedEnd::Code { existence: Existence::Both, .. })) => {
                    Some(end(Side::Baseline, Way::Freed, code("F", Existence::Deleted)))
                }
                (_, _, Some(ChangedEnd::Code { existence: Existence::Deleted, .. })) => {
                    Some(end(Side::Baseline, Way::Freed, code("G", Existence::New)))
                }
                (_, _, Some(ChangedEnd::Code { existence: Existence::New, .. })) => {
                    Some(end(Side::Baseline, Way::Freed, Some(ChangedEnd::Dependency(serde()))))
                }
                (_, _, Some(ChangedEnd::Dependency(_))) => Some(end(Side::Baseline, Way::Freed, None)),
                (_, _, None) if !ended.is_before_peak => Some(before_peak()),
                (_, _, None) => Some(end(Side::Candidate, Way::Freed, code("F", Existence::Both))),
            },
            Class::Unchanged => Some(Class::DebugInformation),
            Class::DebugInformation => None,
        };
        std::iter::successors(Some(Class::Changed(Existence::Both, hunk())), next).collect()
    }

    fn page(name: &str) -> String {
        fs_err::read_to_string(format!("{}/../../docs/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
    }

    /// The texts between backticks in the first column of a table, below the heading `| text |`.
    fn documented(page: &str, heading: &str) -> BTreeSet<String> {
        let rows = page.lines().skip_while(|line| !line.starts_with(heading)).skip(2);
        let cells = rows.map_while(|row| row.strip_prefix("| ")?.split(" | ").next());
        let texts = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2));
        texts.map(str::to_owned).collect()
    }

    #[test]
    fn each_text_is_in_the_guide_and_no_other() {
        let blocks = |allocated: i64| Figures { allocated, count: 1, ..Figures::default() };
        let said: BTreeSet<String> = classes()
            .into_iter()
            .flat_map(|class| {
                [[blocks(1), blocks(1)], [blocks(1), blocks(2)]].map(|figures| group(class.clone(), figures))
            })
            .map(|group| super::class(&group, "pr/7"))
            .collect();
        assert_eq!(said, documented(&page("why.md"), "| text | means |"));
    }

    #[test]
    fn each_kind_is_in_the_reference_of_the_json_and_no_other() {
        let kinds: BTreeSet<String> = classes().iter().map(|class| class.kind().to_owned()).collect();
        assert_eq!(kinds, documented(&page("call-sites.md"), "| kind | means |"));
    }
}
