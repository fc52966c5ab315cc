//! A test on the page: its title, its place in the order, and what is said about it.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use crate::finding::Finding;
use crate::json::rows::{AlignedCheckpoint, aligned};
use crate::options::Options;
use crate::titles;
use memprof_judge::compare::comparison::{Cell, Comparison, PairView};
use memprof_judge::compare::standing::Standing;
use memprof_judge::results::measurement::Kind;
use memprof_judge::why::explanations::Explained;

/// The ids of the page's own parts.
const OF_THE_PAGE: [&str; 6] = ["top", "causes", "tests", "environment", "commits", "data"];

/// A test, with each candidate beside the baseline, or with the only revision.
pub(super) struct PageTest<'a> {
    pub(super) cell: &'a Cell,
    pub(super) title: String,
    /// The first part of links to it: no blanks, and no other test has it.
    pub(super) id: String,
    pub(super) sides: Vec<PageView<'a>>,
    /// The points in time at all revisions, in order.
    pub(super) points: Vec<AlignedCheckpoint>,
}

/// A test at a candidate, or at the only revision.
pub(super) struct PageView<'a> {
    pub(super) view: PairView<'a>,
    /// `None` for a single revision without a limit.
    pub(super) standing: Option<Standing>,
    pub(super) finding: Option<Finding<'a>>,
    pub(super) why: Option<&'a Explained>,
}

impl<'a> PageTest<'a> {
    /// Returns all tests, those that changed or need attention first, the worst of them before the
    /// others.
    pub(super) fn all(comparison: &'a Comparison, options: &'a Options) -> Vec<Self> {
        let mut ids = BTreeSet::from(OF_THE_PAGE.map(str::to_owned));
        let mut tests: Vec<Self> = comparison
            .cells
            .iter()
            .map(|cell| {
                let title = titles::distinct_title(cell);
                let id = unused(&title, &mut ids);
                let views = cell.pairs.iter().chain(&cell.alone).map(|pair| comparison.view(cell, pair));
                let sides = views.map(|view| PageView::new(comparison, view, options)).collect();
                let mut points = aligned(comparison, cell);
                points.retain(|checkpoint| checkpoint.key.kind == Kind::Point);
                Self { cell, title, id, sides, points }
            })
            .collect();
        tests.sort_by_key(|test| {
            let orders = test.sides.iter().filter_map(|side| Some(side.finding.as_ref()?.order()));
            let first = orders.min();
            (first.is_none(), first)
        });
        tests
    }

    /// Returns a link to its section.
    pub(super) fn link(&self) -> String {
        format!("#{}", link(&self.id))
    }

    /// Whether it changed, or needs attention.
    pub(super) fn is_notable(&self) -> bool {
        self.sides.iter().any(|side| side.finding.is_some() || side.why.is_some())
    }
}

impl<'a> PageView<'a> {
    fn new(comparison: &'a Comparison, view: PairView<'a>, options: &'a Options) -> Self {
        let why = options.why.as_deref().and_then(|why| why.for_pair(&view));
        if view.is_alone() {
            let finding = Finding::alone(comparison, view.cell);
            return Self { view, standing: finding.as_ref().map(|one| one.standing), finding, why };
        }
        let standing = Standing::for_pair(comparison, &view);
        let finding = standing.is_notable().then(|| Finding::for_pair(comparison, view, standing));
        Self { view, standing: Some(standing), finding, why }
    }

    /// The standing in words; `measured` for a single revision.
    pub(super) fn word(&self) -> &'static str {
        self.standing.map_or("measured", word)
    }

    /// The standing as the script knows it.
    pub(super) fn key(&self) -> String {
        self.word().replace(' ', "-")
    }
}

/// The words for a standing.
pub(super) fn word(standing: Standing) -> &'static str {
    match standing {
        Standing::Regressed => "regressed",
        Standing::OverLimit => "over a limit",
        Standing::Failed => "failed",
        Standing::NotCompared => "not compared",
        Standing::Inconclusive => "inconclusive",
        Standing::Expected => "grown as expected",
        Standing::ExpectedOverLimit => "over a limit, as expected",
        Standing::Improved => "improved",
        Standing::MaybeExpected => "may have grown, as expected",
        Standing::MaybeImproved => "may have shrunk",
        Standing::Restructured => "other checkpoints",
        Standing::NotJudged => "not judged",
        Standing::PartlyJudged => "only partly judged",
        Standing::Unchanged => "unchanged",
        Standing::OnlyInBaseline => "only in the baseline",
        Standing::OnlyInCandidate => "new",
        Standing::Fixed => "fixed",
        Standing::Ignored => "ignored",
    }
}

/// Makes an `id` of a text, and counts those that were there before.
fn unused(text: &str, known: &mut BTreeSet<String>) -> String {
    let plain: String =
        text.chars().map(|one| if one.is_whitespace() || one == '/' { '_' } else { one }).collect();
    let mut id = plain.clone();
    let mut number = 2;
    while !known.insert(id.clone()) {
        id = format!("{plain}~{number}");
        number += 1;
    }
    id
}

/// Encodes what may not stand in a link.
fn link(id: &str) -> String {
    let mut link = String::new();
    for byte in id.bytes() {
        if byte.is_ascii_alphanumeric() || b"_-.~:()".contains(&byte) {
            link.push(char::from(byte));
        } else {
            _ = write!(link, "%{byte:02X}");
        }
    }
    link
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_has_no_blank_and_is_used_once() {
        let mut known = BTreeSet::new();
        assert_eq!(unused("a b (x=1/2)", &mut known), "a_b_(x=1_2)");
        assert_eq!(unused("a_b (x=1 2)", &mut known), "a_b_(x=1_2)~2");
    }

    #[test]
    fn a_link_has_only_what_may_stand_in_one() {
        assert_eq!(link("a::b_(x=1)<é"), "a::b_(x%3D1)%3C%C3%A9");
    }
}
