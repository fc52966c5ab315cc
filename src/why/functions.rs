//! The lines of each function in a source file.

use std::ops::Range;

use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use crate::support::nesting::depth;

/// A function and its lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionLines {
    /// Its name with its modules and type, as far as the file has them: `m::Type::f`.
    pub name: String,
    /// From its signature to its end, counted from 1.
    pub lines: Range<u32>,
}

/// A source with deeper brackets is not parsed: the parser recurses.
const DEEPEST: usize = 128;

/// Returns the functions of a file, outer ones before inner ones; none if it cannot be parsed.
pub fn functions(source: &str) -> Vec<FunctionLines> {
    if depth(source) > DEEPEST {
        return Vec::new();
    }
    let Ok(file) = syn::parse_file(source) else { return Vec::new() };
    let mut finder = Finder { names: Vec::new(), functions: Vec::new() };
    finder.visit_file(&file);
    finder.functions
}

/// Returns the innermost function at a line.
pub fn at(functions: &[FunctionLines], line: u32) -> Option<&FunctionLines> {
    functions.iter().rfind(|function| function.lines.contains(&line))
}

struct Finder {
    names: Vec<String>,
    functions: Vec<FunctionLines>,
}

impl Finder {
    fn add(&mut self, signature: &syn::Signature, block: &syn::Block) {
        self.names.push(signature.ident.to_string());
        let line = |place: proc_macro2::LineColumn| u32::try_from(place.line).unwrap_or(u32::MAX);
        let (start, end) = (line(signature.span().start()), line(block.span().end()));
        self.functions.push(FunctionLines { name: self.names.join("::"), lines: start..end + 1 });
        visit::visit_block(self, block);
        self.names.pop();
    }

    fn inside(&mut self, name: String, visit: impl FnOnce(&mut Self)) {
        self.names.push(name);
        visit(self);
        self.names.pop();
    }
}

impl<'ast> Visit<'ast> for Finder {
    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        self.add(&function.sig, &function.block);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        self.add(&function.sig, &function.block);
    }

    fn visit_trait_item_fn(&mut self, function: &'ast syn::TraitItemFn) {
        if let Some(block) = &function.default {
            self.add(&function.sig, block);
        }
    }

    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        self.inside(module.ident.to_string(), |finder| visit::visit_item_mod(finder, module));
    }

    fn visit_item_trait(&mut self, of: &'ast syn::ItemTrait) {
        self.inside(of.ident.to_string(), |finder| visit::visit_item_trait(finder, of));
    }

    fn visit_item_impl(&mut self, of: &'ast syn::ItemImpl) {
        let text = |of: &dyn quote::ToTokens| of.to_token_stream().to_string().replace(' ', "");
        let own = text(&of.self_ty);
        let name = match &of.trait_ {
            Some((path, _)) => format!("<{own} as {}>", text(path)),
            None => own,
        };
        self.inside(name, |finder| visit::visit_item_impl(finder, of));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_have_names_and_lines() {
        let source = "\
/// Doc.
#[inline]
fn f() {
    fn g() {}
    1;
}
mod m {
    impl T<u8> { fn h(&self) -> u8 {
        0
    } }
    impl D for T { fn h() {} }
    trait Q { fn k(); fn l() {} }
}
";
        let found = functions(source);
        let shown: Vec<(&str, Range<u32>)> =
            found.iter().map(|one| (one.name.as_str(), one.lines.clone())).collect();
        assert_eq!(
            shown,
            [
                ("f", 3..7),
                ("f::g", 4..5),
                ("m::T<u8>::h", 8..11),
                ("m::<T as D>::h", 11..12),
                ("m::Q::l", 12..13),
            ]
        );
        assert_eq!(at(&found, 4).unwrap().name, "f::g");
        assert_eq!(at(&found, 5).unwrap().name, "f");
        assert_eq!(at(&found, 1), None, "a comment is not the function");
    }

    #[test]
    fn what_cannot_be_parsed_has_no_functions() {
        assert_eq!(functions("fn f( {"), []);
        assert_eq!(functions(&format!("fn f() {{ {}0{} }}", "(".repeat(50_000), ")".repeat(50_000))), []);
    }
}
