//! An item of a cell: what it defines, and which names it uses.

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use quote::ToTokens;
use syn::Item;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

/// An item of a cell.
#[derive(Clone, Debug)]
pub struct CellItem {
    /// What it defines: one name, several for `use`, none for `impl`.
    pub names: Vec<String>,
    /// What it is.
    pub kind: ItemKind,
    /// The line in the cell, from 1.
    pub line: usize,
    pub text: String,
    /// The names that it uses.
    pub uses: Vec<String>,
}

/// What an item is, as far as redefinitions are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ItemKind {
    /// A function, a constant, a macro, an alias or an import. A copy of it means the same.
    Copyable,
    /// A static variable, a module, a type or a trait. A copy of it is another one.
    Unique,
    /// `impl` and other items without a name. It belongs to the item before it.
    Unnamed,
}

impl CellItem {
    /// Describes an item. Its span is in the cell's text.
    pub fn new(item: &Item, text: String) -> Self {
        let (names, kind) = defined(item);
        Self { names, kind, line: item.span().start().line, text, uses: uses(item) }
    }
}

/// Returns the names that an item defines, and what it is.
fn defined(item: &Item) -> (Vec<String>, ItemKind) {
    use ItemKind::{Copyable, Unique, Unnamed};
    let (name, kind) = match item {
        Item::Fn(one) => (&one.sig.ident, Copyable),
        Item::Const(one) => (&one.ident, Copyable),
        Item::Type(one) => (&one.ident, Copyable),
        Item::Macro(one) => match &one.ident {
            Some(name) => (name, Copyable),
            None => return (Vec::new(), Unnamed),
        },
        Item::Struct(one) => (&one.ident, Unique),
        Item::Enum(one) => (&one.ident, Unique),
        Item::Union(one) => (&one.ident, Unique),
        Item::Trait(one) => (&one.ident, Unique),
        Item::TraitAlias(one) => (&one.ident, Unique),
        Item::Static(one) => (&one.ident, Unique),
        Item::Mod(one) => (&one.ident, Unique),
        Item::Use(one) => {
            let mut names = Vec::new();
            imported(&one.tree, None, &mut names);
            return (names, Copyable);
        }
        _ => return (Vec::new(), Unnamed),
    };
    (vec![name.to_string()], kind)
}

/// Collects the names that a `use` brings into scope. `inside` is the name before `self`.
fn imported(tree: &syn::UseTree, inside: Option<&str>, names: &mut Vec<String>) {
    match tree {
        syn::UseTree::Path(path) => imported(&path.tree, Some(&path.ident.to_string()), names),
        syn::UseTree::Name(one) if one.ident == "self" => names.extend(inside.map(str::to_owned)),
        syn::UseTree::Name(one) => names.push(one.ident.to_string()),
        syn::UseTree::Rename(one) => names.push(one.rename.to_string()),
        syn::UseTree::Group(group) => group.items.iter().for_each(|one| imported(one, inside, names)),
        syn::UseTree::Glob(_) => {}
    }
}

/// Returns the names that an item may use, sorted.
fn uses(item: &Item) -> Vec<String> {
    let mut names = Vec::new();
    // A method's variables are not those of another method.
    match item {
        Item::Impl(one) => {
            let of = one.trait_.as_ref().map(|(path, _)| path.to_token_stream()).unwrap_or_default();
            used(one.generics.to_token_stream(), &[], &mut names);
            used(of, &[], &mut names);
            used(one.self_ty.to_token_stream(), &[], &mut names);
            for part in &one.items {
                used(part.to_token_stream(), &variables(|visit| visit.visit_impl_item(part)), &mut names);
            }
        }
        Item::Trait(one) => {
            used(one.generics.to_token_stream(), &[], &mut names);
            used(one.supertraits.to_token_stream(), &[], &mut names);
            for part in &one.items {
                used(part.to_token_stream(), &variables(|visit| visit.visit_trait_item(part)), &mut names);
            }
        }
        other => used(other.to_token_stream(), &variables(|visit| visit.visit_item(other)), &mut names),
    }
    names.sort();
    names.dedup();
    names
}

/// The names of variables and arguments.
#[derive(Default)]
struct Variables(Vec<String>);

impl<'ast> Visit<'ast> for Variables {
    fn visit_pat_ident(&mut self, one: &'ast syn::PatIdent) {
        self.0.push(one.ident.to_string());
        visit::visit_pat_ident(self, one);
    }
}

fn variables(walk: impl FnOnce(&mut Variables)) -> Vec<String> {
    let mut variables = Variables::default();
    walk(&mut variables);
    variables.0
}

/// Collects the names that tokens may use. Left out: methods and fields behind a dot, the tails of
/// paths, names of functions, fields and arguments that are being defined, and variables. A name
/// that is called counts even if there is such a variable: `let total = total(x);`
fn used(tokens: TokenStream, variables: &[String], names: &mut Vec<String>) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let punct = |at: Option<usize>, expected: char| {
        let token = at.and_then(|at| tokens.get(at));
        matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == expected)
    };
    for (at, token) in tokens.iter().enumerate() {
        match token {
            TokenTree::Group(group) => used(group.stream(), variables, names),
            TokenTree::Ident(name) => {
                let before = at.checked_sub(1);
                // `..f()` is no method.
                let is_member = punct(before, '.') && !punct(at.checked_sub(2), '.');
                let is_tail = punct(before, ':') && punct(at.checked_sub(2), ':');
                let is_defined =
                    matches!(before.map(|at| &tokens[at]), Some(TokenTree::Ident(word)) if word == "fn");
                let is_field = punct(Some(at + 1), ':') && !punct(Some(at + 2), ':');
                let is_called = matches!(tokens.get(at + 1), Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Parenthesis);
                let name = name.to_string();
                let is_variable = !is_called && variables.contains(&name);
                if !(is_member || is_tail || is_defined || is_field || is_variable) {
                    names.push(name);
                }
            }
            TokenTree::Punct(_) | TokenTree::Literal(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn items(source: &str) -> Vec<CellItem> {
        let parsed = syn::parse_file(source).unwrap();
        parsed.items.iter().map(|item| CellItem::new(item, String::new())).collect()
    }

    #[test]
    fn items_have_names_and_what_they_use() {
        let found = items(
            "use a::{b, c as d, e::{self}, f::*};\nstruct S { run: u8 }\nimpl S { fn run(&self) { g(); self.h(); T::i() } }",
        );
        let facts: Vec<_> = found.iter().map(|item| (item.names.join(" "), item.kind, item.line)).collect();
        assert_eq!(
            facts,
            [
                ("b d e".to_owned(), ItemKind::Copyable, 1),
                ("S".to_owned(), ItemKind::Unique, 2),
                (String::new(), ItemKind::Unnamed, 3)
            ]
        );
        let uses = &found[2].uses;
        assert!(["S", "T", "g"].iter().all(|name| uses.contains(&(*name).to_owned())), "{uses:?}");
        assert!(["h", "i", "run"].iter().all(|name| !uses.contains(&(*name).to_owned())), "{uses:?}");
    }

    #[test]
    fn variables_are_no_uses_of_items_unless_they_are_called() {
        let found = items(
            "impl D for S {\n fn fmt(&self, f: &mut F) { write!(f, \"\"); let total = total(1); }\n fn other(&self) { map(g) }\n fn third(g: u8) {} }",
        );
        let uses = &found[0].uses;
        assert!(
            ["D", "S", "F", "total", "map", "g"].iter().all(|name| uses.contains(&(*name).to_owned())),
            "{uses:?}"
        );
        assert!(!uses.contains(&"f".to_owned()), "{uses:?}");
    }
}
