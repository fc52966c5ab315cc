//! Items that are defined again in a later cell. evcxr compiles all items again with each cell, so
//! earlier functions then use the new item. The program does the same: the block that defines an
//! item again also has copies of the functions that use it.

use crate::notebook::cell::ParsedCell;
use crate::notebook::item::{CellItem, ItemKind};
use crate::notebook::mistake::Mistake;

/// An item and what follows it in its cell without a name of its own, such as `impl` blocks. evcxr
/// replaces them together.
#[derive(Clone, Debug)]
struct Group {
    cell: usize,
    items: Vec<CellItem>,
}

/// The items that later cells see.
#[derive(Clone, Debug, Default)]
pub(crate) struct LiveItems {
    groups: Vec<Group>,
}

impl LiveItems {
    /// Adds the items of the next cell. Returns the texts of earlier items that must be repeated in
    /// its block, because they use an item that this cell defines again.
    ///
    /// # Errors
    /// Such an item is a type, a trait or an `impl`: a copy of it would be another type.
    pub fn add(&mut self, cell: &ParsedCell) -> Result<Vec<String>, Mistake> {
        let new = groups(cell);
        let mut renewed: Vec<(String, usize)> = Vec::new();
        for group in &new {
            let first = &group.items[0];
            for name in first.names.iter().filter(|name| self.has(name)) {
                renewed.push((name.clone(), first.line));
            }
        }
        let defined: Vec<&String> = new.iter().flat_map(|group| &group.items[0].names).collect();
        for group in &mut self.groups {
            group.items[0].names.retain(|name| !defined.contains(&name));
        }
        // What has no name left is seen by nobody. An import that is partly replaced stays.
        self.groups
            .retain(|group| !group.items[0].names.is_empty() || group.items[0].kind == ItemKind::Unnamed);
        let mut copies = Vec::new();
        let mut next = 0;
        while let Some((name, line)) = renewed.get(next).cloned() {
            next += 1;
            for group in self.groups.iter().filter(|group| group.uses(&name)) {
                let first = &group.items[0];
                let of_kind = |item: &&CellItem| item.kind != ItemKind::Copyable;
                if let Some(unique) = group.users(&name).find(of_kind).or(group.items.iter().find(of_kind)) {
                    return Err(stays_with_the_old(cell.number, line, &name, group.cell, unique));
                }
                if !copies.contains(&first.text) {
                    copies.push(first.text.clone());
                    renewed.extend(first.names.iter().map(|name| (name.clone(), line)));
                }
            }
        }
        self.groups.extend(new);
        Ok(copies)
    }

    fn has(&self, name: &str) -> bool {
        self.groups.iter().any(|group| group.items[0].names.iter().any(|known| known == name))
    }
}

impl Group {
    /// Whether the group uses a name that it does not define itself.
    fn uses(&self, name: &str) -> bool {
        !self.items[0].names.iter().any(|own| own == name) && self.users(name).next().is_some()
    }

    /// Returns the items that use a name.
    fn users<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a CellItem> {
        self.items.iter().filter(move |item| item.uses.iter().any(|used| used == name))
    }
}

/// Returns the items of a cell, each with the unnamed ones that follow it.
fn groups(cell: &ParsedCell) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for item in &cell.items {
        match groups.last_mut() {
            Some(last) if item.kind == ItemKind::Unnamed => last.items.push(item.clone()),
            _ => groups.push(Group { cell: cell.number, items: vec![item.clone()] }),
        }
    }
    groups
}

fn stays_with_the_old(cell: usize, line: usize, name: &str, earlier: usize, user: &CellItem) -> Mistake {
    let first = user.text.lines().find(|line| !line.trim_start().starts_with('#')).unwrap_or_default();
    let user = first.split('{').next().unwrap_or_default().trim();
    Mistake {
        cell,
        line,
        what: format!(
            "`{name}` is defined again, and `{user}` of cell {earlier} uses the earlier one; in a program, both stay"
        ),
        instead: format!(
            "give the new one another name, such as `{name}_2`; or define `{user}` again in cell {cell}, too"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells(sources: &[&str]) -> Vec<Result<Vec<String>, Mistake>> {
        let mut live = LiveItems::default();
        let parsed = sources.iter().enumerate().map(|(at, source)| ParsedCell::read(at + 1, source).unwrap());
        parsed.map(|cell| live.add(&cell)).collect()
    }

    fn last(sources: &[&str]) -> Vec<String> {
        cells(sources).pop().unwrap().unwrap()
    }

    #[test]
    fn functions_that_use_a_new_definition_are_repeated_with_it() {
        assert_eq!(
            last(&["fn f() {}", "fn g() { f() }", "fn h() { g() }", "fn f() { 1; }"]),
            ["fn g() { f() }", "fn h() { g() }"]
        );
        // Nobody uses it, or only what is defined again together with it.
        assert!(last(&["fn f() {}", "fn g() {}", "fn f() {}"]).is_empty());
        assert!(last(&["fn f() {}\nfn g() { f() }", "fn g() { f() }\nfn f() {}"]).is_empty());
        // A recursive function, and one that has been replaced already.
        assert!(last(&["fn f() { f() }", "fn f() { f() }"]).is_empty());
        assert!(last(&["fn f() {}", "fn g() { f() }", "fn g() {}", "fn f() {}"]).is_empty());
    }

    #[test]
    fn a_type_takes_its_impls_along() {
        let shape = "struct S;\nimpl S { fn new() -> S { S } }";
        assert!(last(&[shape, shape]).is_empty());
        assert_eq!(last(&[shape, "fn make() -> S { S::new() }", shape]), ["fn make() -> S { S::new() }"]);
    }

    #[test]
    fn a_type_that_uses_the_earlier_item_is_an_error() {
        let found =
            cells(&["fn f() {}", "struct S;\nimpl S { fn g(&self) { f() } }", "let x = 1;\nfn f() {}"]);
        let mistake = found.last().unwrap().clone().unwrap_err();
        assert_eq!((mistake.cell, mistake.line), (3, 2));
        assert!(mistake.what.contains("`impl S` of cell 2 uses the earlier one"), "{}", mistake.what);
        assert!(mistake.instead.contains("`f_2`"), "{}", mistake.instead);
    }
}
