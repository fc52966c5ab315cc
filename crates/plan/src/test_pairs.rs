//! Finds the tests that are pairs by their names.

use crate::pair_pattern::PairPattern;
use crate::resolved::CellId;

/// What the tests of a pair have in common: what the star stands for, the module, and the
/// parameters.
type Common<'a> = (&'a str, &'a str, &'a [(String, String)]);

/// Returns what a test has in common with its partner, if it matches the pattern. The pattern
/// stands for the test's title, its whole name, or its name without the modules.
fn common<'a>(pattern: &str, cell: &'a CellId) -> Option<Common<'a>> {
    let name = cell.test.name.as_str();
    let (module, last) = name.rsplit_once("::").unwrap_or(("", name));
    let forms = [("", cell.title.as_str()), ("", name), (module, last)];
    forms.into_iter().find_map(|(module, form)| Some((star(pattern, form)?, module, &*cell.params)))
}

/// Returns what the star of a pattern stands for; an empty text if it has no star.
fn star<'a>(pattern: &str, text: &'a str) -> Option<&'a str> {
    match pattern.split_once('*') {
        Some((head, tail)) => text.strip_prefix(head)?.strip_suffix(tail),
        None => (pattern == text).then_some(""),
    }
}

/// The tests that are compared with each other, and those without a partner.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pairs<'a> {
    /// Baseline and candidate.
    pub pairs: Vec<(&'a CellId, &'a CellId)>,
    /// In the order of the tests.
    pub unpaired: Vec<&'a CellId>,
}

impl<'a> Pairs<'a> {
    /// Finds the pairs. A test may be in several pairs, as the baseline of several patterns. If
    /// several tests could be its partner, one of the same target is.
    pub fn find(patterns: &[PairPattern], cells: &[&'a CellId]) -> Self {
        let mut pairs: Vec<(&CellId, &CellId)> = Vec::new();
        for pattern in patterns {
            for baseline in cells {
                let Some(wanted) = common(&pattern.baseline, baseline) else { continue };
                let is_partner = |cell: &&&'a CellId| {
                    **cell != *baseline && common(&pattern.candidate, cell) == Some(wanted)
                };
                let partners: Vec<&&CellId> = cells.iter().filter(is_partner).collect();
                let place = |cell: &CellId| (cell.test.package.clone(), cell.test.binary.clone());
                let near = partners.iter().find(|cell| place(cell) == place(baseline));
                let partner = match partners.as_slice() {
                    [only] => Some(*only),
                    _ => near.copied(),
                };
                // Two patterns may find the same pair.
                let pair = partner.map(|candidate| (*baseline, *candidate));
                pairs.extend(pair.filter(|pair| !pairs.contains(pair)));
            }
        }
        let is_paired = |cell: &&CellId| pairs.iter().any(|(old, new)| old == cell || new == cell);
        let unpaired = cells.iter().copied().filter(|cell| !is_paired(cell)).collect();
        Self { pairs, unpaired }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::TargetKind;
    use crate::resolved::TestId;

    fn cell(binary: &str, name: &str, batch: Option<&str>) -> CellId {
        let test = TestId {
            package: "bart".to_owned(),
            binary: binary.to_owned(),
            kind: TargetKind::Test,
            name: name.to_owned(),
        };
        let params = batch.map(|value| ("batch".to_owned(), value.to_owned())).into_iter().collect();
        CellId { test, params, title: name.to_owned(), program: None }
    }

    fn pairs(patterns: &[&str], cells: &[CellId]) -> (Vec<String>, Vec<String>) {
        let patterns: Vec<PairPattern> = patterns.iter().map(|pattern| pattern.parse().unwrap()).collect();
        let found = Pairs::find(&patterns, &cells.iter().collect::<Vec<_>>());
        let batch =
            |cell: &CellId| cell.params.first().map_or_else(String::new, |(_, value)| format!("/{value}"));
        let shown = |(old, new): &(&CellId, &CellId)| {
            format!(
                "{}:{}{} {}:{}",
                old.test.binary,
                old.test.name,
                batch(old),
                new.test.binary,
                new.test.name
            )
        };
        let unpaired = found.unpaired.iter().map(|cell| cell.test.name.clone()).collect();
        (found.pairs.iter().map(shown).collect(), unpaired)
    }

    #[test]
    fn the_star_and_the_parameters_are_the_same_in_both() {
        let cells = [
            cell("a", "hf_fwd", Some("8")),
            cell("a", "hf_fwd", Some("64")),
            cell("a", "fs_fwd", Some("64")),
            cell("a", "fs_fwd", Some("8")),
            cell("a", "fs_bwd", None),
            cell("a", "other", None),
        ];
        let (found, unpaired) = pairs(&["hf_*=fs_*"], &cells);
        assert_eq!(found, ["a:hf_fwd/8 a:fs_fwd", "a:hf_fwd/64 a:fs_fwd"]);
        assert_eq!(unpaired, ["fs_bwd", "other"]);
    }

    #[test]
    fn modules_may_be_part_of_the_pattern_or_the_same_in_both() {
        let cells =
            [cell("a", "x::hf_fwd", None), cell("a", "y::fs_fwd", None), cell("a", "x::fs_fwd", None)];
        assert_eq!(pairs(&["hf_*=fs_*"], &cells).0, ["a:x::hf_fwd a:x::fs_fwd"]);
        assert_eq!(pairs(&["x::hf_*=y::fs_*"], &cells).0, ["a:x::hf_fwd a:y::fs_fwd"]);
    }

    #[test]
    fn of_several_partners_the_one_of_the_same_target_counts() {
        let cells = [cell("b", "hf", None), cell("a", "fs", None), cell("b", "fs", None)];
        assert_eq!(pairs(&["hf=fs"], &cells).0, ["b:hf b:fs"]);
        let elsewhere = [cell("c", "hf", None), cell("a", "fs", None), cell("b", "fs", None)];
        assert_eq!(pairs(&["hf=fs"], &elsewhere), (vec![], vec!["hf".into(), "fs".into(), "fs".into()]));
        assert_eq!(pairs(&["hf=fs"], &elsewhere[..2]).0, ["c:hf a:fs"]);
    }
}
