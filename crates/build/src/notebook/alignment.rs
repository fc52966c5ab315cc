//! Which cells of several versions of a notebook are the same one. They get the same label, so that
//! the comparison puts them into one row.

use std::collections::{HashMap, VecDeque};

use similar::{Algorithm, DiffOp, capture_diff_slices};

use crate::notebook::program::NotebookCell;

/// Returns a label for each cell of each version. Cells of earlier versions that are matched with a
/// cell of the last version have its label.
///
/// Cells match if they have the same id. Without ids, they match if they have the same text, or
/// stand at the same place between such cells.
pub fn labels(versions: &[&[NotebookCell]]) -> Vec<Vec<String>> {
    let Some((last, earlier)) = versions.split_last() else { return Vec::new() };
    let own: Vec<String> = last.iter().map(label).collect();
    let mut all: Vec<Vec<String>> = earlier
        .iter()
        .map(|version| {
            let matched = matches(version, last);
            let label_of = |(at, cell): (usize, &NotebookCell)| match matched[at] {
                Some(newer) => own[newer].clone(),
                None => unused(label(cell), &own),
            };
            version.iter().enumerate().map(label_of).collect()
        })
        .collect();
    all.push(own);
    all
}

/// `cell 3: let x = …`
fn label(cell: &NotebookCell) -> String {
    format!("cell {}: {}", cell.parsed.number, cell.parsed.title)
}

/// Returns a label of a cell that the last version lacks. It must not be one of the last version's.
fn unused(mut label: String, taken: &[String]) -> String {
    while taken.contains(&label) {
        label.push_str(" (before)");
    }
    label
}

/// Returns the index in `new` of each cell of `old`.
fn matches(old: &[NotebookCell], new: &[NotebookCell]) -> Vec<Option<usize>> {
    if old.iter().chain(new).all(|cell| cell.id.is_some()) {
        return matches_of_ids(old, new);
    }
    let texts = |cells: &[NotebookCell]| -> Vec<String> {
        cells.iter().map(|cell| cell.source.trim().to_owned()).collect()
    };
    let mut matched = vec![None; old.len()];
    for operation in capture_diff_slices(Algorithm::Myers, &texts(old), &texts(new)) {
        match operation {
            DiffOp::Equal { old_index, new_index, len } => {
                (0..len).for_each(|at| matched[old_index + at] = Some(new_index + at));
            }
            // Other texts may be the same cell, edited.
            DiffOp::Replace { old_index, old_len, new_index, new_len } => {
                (0..old_len.min(new_len)).for_each(|at| matched[old_index + at] = Some(new_index + at));
            }
            DiffOp::Delete { .. } | DiffOp::Insert { .. } => {}
        }
    }
    matched
}

/// Matches cells by their ids, wherever they are. If a notebook has an id several times, against the rules
/// of the format, the first matches the first.
fn matches_of_ids(old: &[NotebookCell], new: &[NotebookCell]) -> Vec<Option<usize>> {
    let mut places: HashMap<&Option<String>, VecDeque<usize>> = HashMap::new();
    for (at, cell) in new.iter().enumerate() {
        places.entry(&cell.id).or_default().push_back(at);
    }
    old.iter().map(|cell| places.get_mut(&cell.id)?.pop_front()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::notebook::cell::ParsedCell;

    fn version(cells: &[(&str, &str)]) -> Vec<NotebookCell> {
        let cell = |(at, (id, source)): (usize, &(&str, &str))| NotebookCell {
            id: (!id.is_empty()).then(|| (*id).to_owned()),
            source: (*source).to_owned(),
            parsed: ParsedCell::read(at + 1, source).unwrap(),
            copies: Vec::new(),
        };
        cells.iter().enumerate().map(cell).collect()
    }

    #[test]
    fn ids_match_cells_wherever_they_move_and_however_they_are_edited() {
        let old = version(&[("a", "let a = 1;"), ("b", "let b = 2;")]);
        let new = version(&[("n", "let n = 0;"), ("a", "let a = 1;"), ("b", "let b = 3;")]);
        let found = labels(&[&old, &new]);
        assert_eq!(found[0], ["cell 2: let a = 1;", "cell 3: let b = 3;"]);
        assert_eq!(found[1][0], "cell 1: let n = 0;");
    }

    #[test]
    fn cells_that_change_places_keep_their_ids() {
        let old = version(&[("a", "let a = 1;"), ("b", "let b = 2;")]);
        let new = version(&[("b", "let b = 2;"), ("a", "let a = 1;")]);
        assert_eq!(labels(&[&old, &new])[0], ["cell 2: let a = 1;", "cell 1: let b = 2;"]);
    }

    #[test]
    fn without_ids_the_text_and_then_the_place_decide() {
        let old = version(&[("", "let a = 1;"), ("", "let b = 2;"), ("", "a")]);
        let new = version(&[("", "let a = 1;"), ("", "let b = 3;"), ("", "let c = 4;"), ("", "a")]);
        let found = labels(&[&old, &new]);
        assert_eq!(found[0], ["cell 1: let a = 1;", "cell 2: let b = 3;", "cell 4: a"]);
    }

    #[test]
    fn a_cell_that_the_last_version_lacks_keeps_a_label_of_its_own() {
        let old = version(&[("a", "x();"), ("b", "y();")]);
        let new = version(&[("c", "x();"), ("b", "y();")]);
        assert_eq!(labels(&[&old, &new])[0], ["cell 1: x(); (before)", "cell 2: y();"]);
    }
}
