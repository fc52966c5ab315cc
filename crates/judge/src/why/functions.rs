//! The lines of each function in a source file, and of what the compiler derives.

use std::collections::BTreeSet;
use std::ops::Range;

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use quote::ToTokens;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use crate::why::function_path::{TraitFunction, in_module, normalised, without_closures};
use memprof_support::nesting::{depth, generic_depth};

/// The functions of a source file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Functions {
    /// Functions in the text, outer ones before inner ones.
    pub written: Vec<FunctionLines>,
    /// Functions that the compiler derives.
    pub derived: Vec<Derive>,
    /// What calls of macros may make, outside of functions: each name in `make!(name, 1);`, with the lines of the call.
    made: Vec<FunctionLines>,
    /// The lines of statements and of arms of `match`, outer ones before inner ones.
    statements: Vec<Range<u32>>,
    /// The lines with more than comments; `None` if the text cannot be split into tokens.
    pub(super) code: Option<BTreeSet<u32>>,
}

/// A function and its lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionLines {
    /// The name with its modules and type, as far as the file has them: `m::Type::f`.
    pub name: String,
    /// From its signature to its end, counted from 1.
    pub lines: Range<u32>,
    /// The type and the trait, if it is in an `impl` of one.
    pub of_trait: Option<TraitFunction>,
    /// A hash of its type and its tokens: the same wherever it stands, and without its comments.
    pub content: blake3::Hash,
}

/// A trait of a type's `#[derive(…)]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Derive {
    pub of_type: String,
    pub of_trait: String,
    /// The lines of the attribute.
    pub attribute: Range<u32>,
    /// The lines of the type, without what stands before it.
    pub item: Range<u32>,
}

/// The one function that std's derive makes for a trait. Other traits may have any.
const DERIVED: [(&str, &str); 7] = [
    ("Clone", "clone"),
    ("Debug", "fmt"),
    ("Default", "default"),
    ("Hash", "hash"),
    ("Ord", "cmp"),
    ("PartialEq", "eq"),
    ("PartialOrd", "partial_cmp"),
];

impl Derive {
    /// Whether the compiler derives this function.
    pub fn makes(&self, function: &TraitFunction) -> bool {
        let of_std = DERIVED.iter().find(|(of_trait, _)| *of_trait == self.of_trait);
        self.of_type == function.of_type
            && self.of_trait == function.of_trait
            && of_std.is_none_or(|(_, name)| *name == function.name)
    }

    /// Whether the derived code may be at this line: at the attribute, or at a field.
    fn has(&self, line: u32) -> bool {
        self.attribute.contains(&line) || self.item.contains(&line)
    }
}

impl Functions {
    /// Returns the derived function at a line.
    pub fn derived(&self, line: u32, function: &TraitFunction) -> Option<&Derive> {
        self.derived.iter().find(|derive| derive.has(line) && derive.makes(function))
    }

    /// Returns the lines of the innermost statement at a line.
    pub(super) fn statement(&self, line: u32) -> Option<&Range<u32>> {
        self.statements.iter().rfind(|lines| lines.contains(&line))
    }

    /// Returns what may be a function of which only the name is known: its code is in the lines of a macro.
    pub(super) fn named(&self, path: &str) -> Vec<&FunctionLines> {
        let path = normalised(path);
        let path = without_closures(&path);
        let own = in_module(path);
        let has_name = |one: &&FunctionLines| in_module(&normalised(&one.name)) == own;
        let mut found: Vec<&FunctionLines> = self.written.iter().filter(has_name).collect();
        let is_whole = |one: &&FunctionLines| path.ends_with(&*format!("::{}", normalised(&one.name)));
        if found.len() > 1 && found.iter().any(is_whole) {
            found.retain(is_whole);
        }
        if found.is_empty() {
            // The call may name the function or its type.
            let is_part = |one: &&FunctionLines| own.split("::").any(|part| part == one.name);
            found.extend(self.made.iter().filter(is_part));
        }
        found
    }

    /// Returns the functions with this name, or else the calls of macros that may make one.
    pub(super) fn with_name<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a FunctionLines> {
        let is_written = self.written.iter().any(|one| one.name == name);
        let all = if is_written { &self.written } else { &self.made };
        all.iter().filter(move |one| one.name == name)
    }

    /// Whether the file has this function of a trait, written or derived.
    pub fn have(&self, function: &TraitFunction) -> bool {
        self.written.iter().any(|own| own.of_trait.as_ref() == Some(function))
            || self.derived.iter().any(|derive| derive.makes(function))
    }
}

/// A source with deeper brackets is not parsed: the parser recurses.
const DEEPEST: usize = 128;

/// Returns the functions of a file; none if it cannot be split into tokens.
pub fn functions(source: &str) -> Functions {
    parsed(source).unwrap_or_else(|| scanned(source))
}

/// Returns the functions of a file on both sides, with names of the same kind.
pub(super) fn of_both(sources: [&str; 2]) -> [Functions; 2] {
    match sources.map(parsed) {
        [Some(old), Some(new)] => [old, new],
        _ => sources.map(scanned),
    }
}

fn parsed(source: &str) -> Option<Functions> {
    let tokens = tokens(source).filter(|tokens| generic_depth(tokens) <= DEEPEST)?;
    let mut finder = Finder::of_tokens(&tokens);
    finder.visit_file(&syn::parse2(tokens).ok()?);
    Some(finder.functions)
}

/// Returns the functions of a file that the parser cannot read. For example, edition 2015 has parameters without a name.
fn scanned(source: &str) -> Functions {
    let Some(tokens) = tokens(source) else { return Functions::default() };
    let mut finder = Finder::of_tokens(&tokens);
    finder.scan(tokens);
    finder.functions
}

fn tokens(source: &str) -> Option<TokenStream> {
    if depth(source) > DEEPEST {
        return None;
    }
    let text = source.strip_prefix('\u{feff}').unwrap_or(source);
    let is_shebang = text.starts_with("#!") && !text.starts_with("#![");
    let start = if is_shebang { text.find('\n').unwrap_or(text.len()) } else { 0 };
    text[start..].parse().ok()
}

/// Adds the lines of tokens. Documentation is a token: macros such as clap's read it.
fn add_lines(tokens: &TokenStream, to: &mut BTreeSet<u32>) {
    for token in tokens.clone() {
        if let TokenTree::Group(group) = token {
            to.extend([lines(&group.span_open()), lines(&group.span_close())].into_iter().flatten());
            add_lines(&group.stream(), to);
        } else {
            to.extend(lines(&token));
        }
    }
}

fn add_names(tokens: &TokenStream, to: &mut BTreeSet<String>) {
    for token in tokens.clone() {
        match token {
            TokenTree::Group(group) => add_names(&group.stream(), to),
            TokenTree::Ident(name) => _ = to.insert(name.to_string()),
            _ => {}
        }
    }
}

/// Returns the innermost function at a line.
pub fn at(functions: &[FunctionLines], line: u32) -> Option<&FunctionLines> {
    functions.iter().rfind(|function| function.lines.contains(&line))
}

#[derive(Default)]
struct Finder {
    names: Vec<String>,
    /// How many of the names are modules.
    modules: usize,
    /// The type and the trait of the `impl` around it.
    of_impl: Option<(String, String)>,
    functions: Functions,
}

fn lines(of: &dyn Spanned) -> Range<u32> {
    let line = |place: proc_macro2::LineColumn| u32::try_from(place.line).unwrap_or(u32::MAX);
    line(of.span().start())..line(of.span().end()) + 1
}

/// Returns the traits of `#[derive(…)]`, and of the same in `cfg_attr`.
fn derives(meta: &syn::Meta) -> Vec<String> {
    let syn::Meta::List(list) = meta else { return Vec::new() };
    let parse = syn::punctuated::Punctuated::<syn::Meta, syn::Token![,]>::parse_terminated;
    let Ok(inner) = list.parse_args_with(parse) else { return Vec::new() };
    if list.path.is_ident("cfg_attr") {
        return inner.iter().skip(1).flat_map(derives).collect();
    }
    if !list.path.is_ident("derive") {
        return Vec::new();
    }
    inner.iter().filter_map(|meta| last_name(meta.path())).collect()
}

fn last_name(path: &syn::Path) -> Option<String> {
    Some(path.segments.last()?.ident.to_string())
}

impl Finder {
    fn of_tokens(tokens: &TokenStream) -> Self {
        let mut code = BTreeSet::new();
        add_lines(tokens, &mut code);
        Self { functions: Functions { code: Some(code), ..Functions::default() }, ..Self::default() }
    }

    fn add(&mut self, signature: &syn::Signature, block: &syn::Block) {
        let name = signature.ident.to_string();
        // A function inside of this one is not the trait's.
        let of_impl = self.of_impl.take();
        let of_trait = of_impl.clone().map(|(of_type, of_trait)| TraitFunction {
            of_type,
            of_trait,
            name: name.clone(),
        });
        self.names.push(name);
        let lines = lines(signature).start..lines(block).end;
        let tokens = [signature.to_token_stream(), block.to_token_stream()].map(|of| of.to_string());
        let content = blake3::hash([&self.names[self.modules..], &tokens].concat().join("\n").as_bytes());
        self.functions.written.push(FunctionLines { name: self.names.join("::"), lines, of_trait, content });
        visit::visit_block(self, block);
        self.names.pop();
        self.of_impl = of_impl;
    }

    /// Finds functions by their tokens alone.
    fn scan(&mut self, tokens: TokenStream) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let word = |at: usize| match tokens.get(at) {
            Some(TokenTree::Ident(word)) => word.to_string(),
            _ => String::new(),
        };
        let ends = |token: &TokenTree| match token {
            TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
            TokenTree::Punct(punct) => punct.as_char() == ';',
            _ => false,
        };
        let mut index = 0;
        while index < tokens.len() {
            let start = index;
            let is_item = match &*word(start) {
                "impl" => true,
                "fn" | "mod" | "trait" => !word(start + 1).is_empty(),
                _ => false,
            };
            if is_item {
                index += tokens[start..].iter().position(ends).unwrap_or_default();
            }
            if let TokenTree::Group(group) = &tokens[index] {
                let text = |tokens: &[TokenTree]| tokens.iter().map(ToString::to_string).collect::<String>();
                match &*word(start) {
                    "impl" if is_item => self.names.push(text(&tokens[start + 1..index])),
                    _ if is_item => self.names.push(word(start + 1)),
                    _ => {}
                }
                if is_item && word(start) == "fn" {
                    self.functions.written.push(FunctionLines {
                        name: self.names.join("::"),
                        lines: lines(&tokens[start]).start..lines(group).end,
                        of_trait: None,
                        content: blake3::hash(text(&tokens[start..=index]).as_bytes()),
                    });
                }
                self.scan(group.stream());
                self.names.truncate(self.names.len() - usize::from(is_item));
            }
            index += 1;
        }
    }

    fn add_derived(&mut self, name: &syn::Ident, attributes: &[syn::Attribute], item: Range<u32>) {
        for attribute in attributes {
            self.functions.derived.extend(derives(&attribute.meta).into_iter().map(|of_trait| Derive {
                of_type: name.to_string(),
                of_trait,
                attribute: lines(attribute),
                item: item.clone(),
            }));
        }
    }

    fn add_statement(&mut self, lines: Range<u32>) {
        // A line is part of the first statement that begins there, not of one in its arguments.
        let is_inside = |last: &Range<u32>| last.start == lines.start && lines.end <= last.end;
        if !self.functions.statements.last().is_some_and(is_inside) {
            self.functions.statements.push(lines);
        }
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

    fn visit_item_macro(&mut self, item: &'ast syn::ItemMacro) {
        let mut names = BTreeSet::new();
        add_names(&item.mac.tokens, &mut names);
        // The definition of a macro makes nothing. A function that is written in a call may be one of many there.
        if item.ident.is_some() || names.contains("fn") {
            return;
        }
        let content = blake3::hash(item.mac.to_token_stream().to_string().as_bytes());
        let lines = lines(item);
        self.functions.made.extend(names.into_iter().map(|name| FunctionLines {
            name,
            lines: lines.clone(),
            of_trait: None,
            content,
        }));
    }

    fn visit_stmt(&mut self, statement: &'ast syn::Stmt) {
        if !matches!(statement, syn::Stmt::Item(_)) {
            self.add_statement(lines(statement));
        }
        visit::visit_stmt(self, statement);
    }

    fn visit_arm(&mut self, arm: &'ast syn::Arm) {
        self.add_statement(lines(arm));
        visit::visit_arm(self, arm);
    }

    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        let outer = self.modules;
        // A module inside of a function is part of its name.
        self.modules += usize::from(self.modules == self.names.len());
        self.inside(module.ident.to_string(), |finder| visit::visit_item_mod(finder, module));
        self.modules = outer;
    }

    fn visit_item_trait(&mut self, of: &'ast syn::ItemTrait) {
        self.inside(of.ident.to_string(), |finder| visit::visit_item_trait(finder, of));
    }

    fn visit_item_struct(&mut self, of: &'ast syn::ItemStruct) {
        self.add_derived(&of.ident, &of.attrs, lines(&of.struct_token).start..lines(of).end);
    }

    fn visit_item_enum(&mut self, of: &'ast syn::ItemEnum) {
        self.add_derived(&of.ident, &of.attrs, lines(&of.enum_token).start..lines(of).end);
    }

    fn visit_item_impl(&mut self, of: &'ast syn::ItemImpl) {
        let text = |of: &dyn ToTokens| of.to_token_stream().to_string().replace(' ', "");
        let own = text(&of.self_ty);
        let name = match &of.trait_ {
            Some((path, _)) => format!("<{own} as {}>", text(path)),
            None => own,
        };
        let own = match &*of.self_ty {
            syn::Type::Path(path) => last_name(&path.path),
            _ => None,
        };
        let of_trait = of.trait_.as_ref().and_then(|(path, _)| last_name(path));
        let outer = std::mem::replace(&mut self.of_impl, own.zip(of_trait));
        self.inside(name, |finder| visit::visit_item_impl(finder, of));
        self.of_impl = outer;
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
        let found = functions(source).written;
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
    fn derived_functions_are_at_the_attribute_and_at_the_fields() {
        let source = "\
#[derive(Debug,
    Clone)]
/// Doc.
pub(crate) struct T<K> {
    field: K,
}
#[cfg_attr(feature = \"a\", derive(b::Serialize))]
enum E { A }
impl<K> Clone for E<K> { fn clone(&self) -> Self { fn f() {} f() } }
";
        let found = functions(source);
        let of = |of_type: &str, of_trait: &str, name: &str| TraitFunction {
            of_type: of_type.to_owned(),
            of_trait: of_trait.to_owned(),
            name: name.to_owned(),
        };
        let clone = of("T", "Clone", "clone");
        assert_eq!(found.derived(5, &clone).map(|one| (&one.attribute, &one.item)), Some((&(1..3), &(4..7))));
        assert_eq!(found.derived(3, &clone), None);
        assert!(!found.have(&of("T", "Clone", "clone_from")), "the derive has no such function");
        assert!(found.have(&of("E", "Serialize", "serialize_any")), "it is not known what it has");
        assert!(found.have(&of("E", "Clone", "clone")) && !found.have(&of("E", "Clone", "f")));
    }

    #[test]
    fn a_line_has_its_innermost_statement() {
        let source = "\
fn f() {
    let a = g(|| { 1 }, vec![
        2,
    ]);
    match a {
        1 => h(
            a,
        ),
        _ => {
            b();
        }
    }
    if a {
        b();
    }
}
";
        let found = functions(source);
        let lines = |line: u32| found.statement(line).cloned();
        assert_eq!(lines(1), None);
        assert_eq!([lines(2), lines(3), lines(4)], [const { Some(2..5) }; 3]);
        assert_eq!([lines(5), lines(12)], [const { Some(5..13) }; 2]);
        assert_eq!([lines(6), lines(7), lines(8)], [const { Some(6..9) }; 3]);
        assert_eq!([lines(9), lines(10), lines(11)], [Some(9..12), Some(10..11), Some(9..12)]);
        assert_eq!([lines(13), lines(14), lines(15)], [Some(13..16), Some(14..15), Some(13..16)]);
    }

    #[test]
    fn a_file_that_cannot_be_parsed_has_the_functions_of_its_tokens() {
        let source = "\
pub trait Anon { fn size(&self, u8) -> usize; }
pub fn first() -> Vec<u8> {
    let f: fn(u8) = g;
}
mod m {
    impl<T> Anon for A<T> {
        fn size(&self, u8) -> usize { fn g() {} 1 }
    }
}
";
        let found = functions(source).written;
        let shown: Vec<(&str, Range<u32>)> =
            found.iter().map(|one| (one.name.as_str(), one.lines.clone())).collect();
        assert_eq!(
            shown,
            [("first", 2..5), ("m::<T>AnonforA<T>::size", 7..8), ("m::<T>AnonforA<T>::size::g", 7..8)]
        );
        let other = functions(&source.replace("= g", "= /* h */ g"));
        assert_eq!(found[0].content, other.written[0].content);
        assert_ne!(found[0].content, functions(&source.replace("= g", "= h")).written[0].content);
    }

    #[test]
    fn what_cannot_be_split_into_tokens_has_no_functions() {
        assert_eq!(functions("fn f( {"), Functions::default());
        let deep = format!("fn f() {{ {}0{} }}", "(".repeat(50_000), ")".repeat(50_000));
        assert_eq!(functions(&deep), Functions::default());
    }
}
