//! The lines of types, constants and declarations in a source file.

use std::ops::Range;

use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use memprof_support::nesting::depth;

/// A type, a constant or a declaration, and its lines, counted from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ItemLines {
    /// What it is: `struct`, `const`, `mod`.
    pub kind: &'static str,
    /// Its name, without its modules.
    pub name: String,
    /// From its first attribute to its end.
    pub lines: Range<usize>,
    /// The lines of its attributes, comments included.
    pub attributes: Range<usize>,
    /// Its fields or variants, with their lines.
    pub fields: Vec<(String, Range<usize>)>,
}

/// A source with deeper brackets is not parsed: the parser recurses.
const DEEPEST: usize = 128;

/// Returns the items of a file, outer ones before inner ones; none if it cannot be parsed.
pub fn items(source: &str) -> Vec<ItemLines> {
    if depth(source) > DEEPEST {
        return Vec::new();
    }
    let Ok(file) = syn::parse_file(source) else { return Vec::new() };
    let mut finder = Finder::default();
    finder.visit_file(&file);
    finder.items
}

#[derive(Default)]
struct Finder {
    items: Vec<ItemLines>,
}

fn lines(of: &dyn Spanned) -> Range<usize> {
    of.span().start().line..of.span().end().line + 1
}

impl Finder {
    fn add(
        &mut self,
        kind: &'static str,
        name: &syn::Ident,
        whole: Range<usize>,
        attributes: &[syn::Attribute],
        fields: Vec<(String, Range<usize>)>,
    ) {
        let end = attributes.iter().map(|attribute| lines(attribute).end).max();
        let attributes = whole.start..end.unwrap_or(whole.start);
        self.items.push(ItemLines { kind, name: name.to_string(), lines: whole, attributes, fields });
    }
}

fn fields(of: &syn::Fields) -> Vec<(String, Range<usize>)> {
    let named = of.iter().filter_map(|field| Some((field.ident.as_ref()?.to_string(), lines(field))));
    named.collect()
}

impl<'ast> Visit<'ast> for Finder {
    fn visit_item_struct(&mut self, of: &'ast syn::ItemStruct) {
        self.add("struct", &of.ident, lines(of), &of.attrs, fields(&of.fields));
    }

    fn visit_item_union(&mut self, of: &'ast syn::ItemUnion) {
        let fields = fields(&syn::Fields::Named(of.fields.clone()));
        self.add("union", &of.ident, lines(of), &of.attrs, fields);
    }

    fn visit_item_enum(&mut self, of: &'ast syn::ItemEnum) {
        let variants = of.variants.iter().map(|one| (one.ident.to_string(), lines(one))).collect();
        self.add("enum", &of.ident, lines(of), &of.attrs, variants);
    }

    fn visit_item_const(&mut self, of: &'ast syn::ItemConst) {
        self.add("const", &of.ident, lines(of), &of.attrs, Vec::new());
        visit::visit_item_const(self, of);
    }

    fn visit_impl_item_const(&mut self, of: &'ast syn::ImplItemConst) {
        self.add("const", &of.ident, lines(of), &of.attrs, Vec::new());
    }

    fn visit_item_static(&mut self, of: &'ast syn::ItemStatic) {
        self.add("static", &of.ident, lines(of), &of.attrs, Vec::new());
    }

    fn visit_item_type(&mut self, of: &'ast syn::ItemType) {
        self.add("type", &of.ident, lines(of), &of.attrs, Vec::new());
    }

    fn visit_item_mod(&mut self, of: &'ast syn::ItemMod) {
        if of.content.is_none() {
            self.add("mod", &of.ident, lines(of), &of.attrs, Vec::new());
        }
        visit::visit_item_mod(self, of);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_have_fields_and_attributes_and_everything_has_lines() {
        let source = "mod a;\n\n/// A state.\n#[derive(Clone)]\nstruct State {\n    one: u8,\n    two: u16,\n}\n\
                      const N: usize = 3;\nfn f() {\n    enum Kind {\n        A,\n        B(u8),\n    }\n}\n";
        let found = items(source);
        let shown: Vec<_> =
            found.iter().map(|one| (one.kind, one.name.as_str(), one.lines.clone())).collect();
        assert_eq!(
            shown,
            [("mod", "a", 1..2), ("struct", "State", 3..9), ("const", "N", 9..10), ("enum", "Kind", 11..15)]
        );
        assert_eq!(found[1].attributes, 3..5);
        assert_eq!(found[1].fields, [("one".to_owned(), 6..7), ("two".to_owned(), 7..8)]);
        assert_eq!(found[3].fields, [("A".to_owned(), 12..13), ("B".to_owned(), 13..14)]);
        assert!(items("struct {").is_empty());
    }
}
