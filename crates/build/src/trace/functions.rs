//! Finds the functions of a source file, and inserts scopes into those that are traced, without
//! adding lines.
//!
//! A scope begins at the start of the body, where it conflicts with no borrow, and ends after all
//! locals are dropped. Arguments that the function still owns are dropped later.

use proc_macro2::{Span, TokenStream};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use crate::inject::module_files::{self, ModuleFile};
use crate::inject::source_edit::Edits;
use crate::trace::function_names::{conditions, functions_in, named, named_path, plain};
use crate::trace::lines;
use crate::trace::notebook_cells::{self, CellBlock};
use crate::trace::untraceable;
use memprof_plan::trace_pattern::{PathSegment, shown};

/// The text at the start of a traced function, around its label and place. It is part of the build
/// key.
///
/// For the relative path and the name `memprof_shim`, see
/// [`own_allocator`](crate::inject::own_allocator::WRAPPING).
pub(crate) const TEXTS: [&str; 2] = [
    " static MEMPROF_SITE: memprof_shim::Site = memprof_shim::Site::",
    "; let _memprof_scope = MEMPROF_SITE.enter();",
];

/// The end of a traced cell of a notebook. Variables of the cell live on.
const TRACED_CELL_END: &str = "::std::mem::drop(_memprof_scope); ";

/// How a function is traced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Depth {
    /// A scope around each call.
    Calls,
    /// A scope around each call, and each line measured.
    Lines,
}

/// How patterns select a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Selected {
    /// How it is traced.
    pub depth: Depth,
    /// Whether a pattern names it, and does not just match all functions of a module.
    pub is_named: bool,
    /// Each so many-th call is measured, if not as of the other functions.
    pub every: Option<u64>,
}

impl Selected {
    /// Returns what two patterns select together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let every = self.every.or(other.every);
        Self { depth: self.depth.max(other.depth), is_named: self.is_named || other.is_named, every }
    }
}

/// A function that a pattern matches.
#[derive(Clone, Debug)]
pub struct Function {
    /// The path, from the crate on.
    pub path: Vec<PathSegment>,
    /// The line of its name.
    pub line: usize,
    /// All its lines, from its first attribute on.
    pub lines: std::ops::RangeInclusive<usize>,
    /// How it is traced.
    pub selected: Selected,
    /// Whether it is a test or a cell, which only patterns that name it select.
    pub is_test: bool,
    /// What distinguishes it from others of its path: `cfg(unix)`, `impl Encoder<f32>`.
    pub apart: Option<String>,
    /// Why it is not traced, if so.
    pub untraceable: Option<String>,
}

impl Function {
    /// Whether the function is edited in the same way if it is selected like this. A name matters to
    /// tests only.
    pub(crate) fn is_edited_as(&self, other: Selected) -> bool {
        let is_same_name = self.selected.is_named == other.is_named || !self.is_test;
        (self.selected.depth, self.selected.every) == (other.depth, other.every) && is_same_name
    }
}

/// Decides about a function, by its path and the line of its name.
pub(crate) type Wants<'a> = dyn Fn(&[PathSegment], usize) -> Want + 'a;

/// What to do with a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Want {
    /// No pattern matches it.
    Nothing,
    /// Trace it.
    Traced(Selected),
    /// Do not change it, and report this reason.
    Refused(Selected, String),
}

/// Returns the functions of a file that patterns match, and the file's text with scopes in them, if
/// any can be traced. `at` is the file's name in reports, `crate_name` the name of its crate.
pub fn trace(
    file: &ModuleFile<'_>,
    at: &str,
    crate_name: &str,
    untraceable: Option<&'static str>,
    wants: &Wants<'_>,
) -> (Vec<Function>, Option<String>) {
    let mut path = vec![PathSegment::Name(crate_name.to_owned())];
    path.extend(file.module.iter().map(|name| PathSegment::Name(name.clone())));
    let mut finder = FunctionFinder {
        at,
        wants,
        untraceable,
        path,
        in_allocator: false,
        apart: Vec::new(),
        edits: file.source.edits(),
        found: Vec::new(),
    };
    match &file.items {
        Ok(items) if notebook_cells::is_program(&items.items) => finder.notebook(&items.items),
        Ok(items) => finder.visit_file(items),
        // The tokens still show the names of functions, though not their paths. No function may be
        // missing silently.
        Err(error) => {
            let place = format!("{error}, line {}", line(error.span()));
            let what = format!("cargo-memprof cannot parse its file ({place})");
            finder.of_tokens(file.source.tokens().unwrap_or_default(), &what);
        }
    }
    let edited = (!finder.edits.is_empty()).then(|| finder.edits.applied());
    (finder.found, edited)
}

struct FunctionFinder<'a> {
    at: &'a str,
    wants: &'a Wants<'a>,
    untraceable: Option<&'static str>,
    path: Vec<PathSegment>,
    in_allocator: bool,
    /// What distinguishes the enclosing items, from the outermost on.
    apart: Vec<String>,
    edits: Edits<'a>,
    found: Vec<Function>,
}

/// A function with a body.
struct FunctionWithBody<'ast> {
    attributes: &'ast [syn::Attribute],
    signature: &'ast syn::Signature,
    body: &'ast syn::Block,
    whole: Span,
}

impl FunctionFinder<'_> {
    fn function(&mut self, candidate: &FunctionWithBody<'_>) {
        let name = candidate.signature.ident.to_string();
        self.path.push(PathSegment::Name(plain(&name)));
        let around = self.apart.len();
        self.apart.extend(conditions(candidate.attributes));
        let line = line(candidate.signature.ident.span());
        let (selected, refused) = match (self.wants)(&self.path, line) {
            Want::Nothing => (None, None),
            Want::Traced(selected) => (Some(selected), None),
            Want::Refused(selected, reason) => (Some(selected), Some(reason)),
        };
        if let Some(selected) = selected {
            let untraceable = self.untraceable(candidate, selected.is_named).or(refused);
            let lines = line_of(candidate.whole, Span::start)..=line_of(candidate.whole, Span::end);
            if untraceable.is_none() {
                self.insert(candidate, selected, line, *lines.end());
            }
            let (path, apart) = (self.path.clone(), self.told_apart());
            let is_test = untraceable::is_test(candidate.attributes);
            self.found.push(Function { path, line, lines, selected, is_test, apart, untraceable });
        }
        // Visits functions and impls inside of it.
        self.visit_block(candidate.body);
        self.apart.truncate(around);
        self.path.pop();
    }

    fn told_apart(&self) -> Option<String> {
        (!self.apart.is_empty()).then(|| self.apart.join(", "))
    }

    fn untraceable(&self, candidate: &FunctionWithBody<'_>, is_named: bool) -> Option<String> {
        let allocator = self.in_allocator.then_some("it is a part of an allocator");
        self.untraceable
            .map(str::to_owned)
            .or_else(|| untraceable::reason(candidate.attributes, candidate.signature, is_named))
            .or_else(|| allocator.map(str::to_owned))
    }

    /// The text that begins a scope of the current path.
    fn site(&self, selected: Selected, line: usize, last: usize) -> String {
        let [site, enter] = TEXTS;
        let label = shown(&self.path);
        let at = format!("{}:{line}", self.at);
        let every = selected.every.map(|every| format!(".every({every})")).unwrap_or_default();
        match selected.depth {
            Depth::Calls => format!("{site}new({label:?}, {at:?}){every}{enter}"),
            Depth::Lines => {
                let lines = last - line + 1;
                format!("{site}with_lines({label:?}, {at:?}, {line}, {lines}){every}{enter}")
            }
        }
    }

    fn insert(&mut self, candidate: &FunctionWithBody<'_>, selected: Selected, line: usize, last: usize) {
        let site = self.site(selected, line, last);
        let has_inner = candidate.attributes.iter().any(|one| matches!(one.style, syn::AttrStyle::Inner(_)));
        if selected.depth == Depth::Lines {
            lines::mark(&mut self.edits, &candidate.body.stmts);
        }
        // At the same place, the text that is added last comes first.
        open(&mut self.edits, candidate.body, has_inner, &site);
    }

    /// Visits the program of a notebook: the cells, and what they define, with paths as if it were
    /// outside of functions.
    fn notebook(&mut self, items: &[syn::Item]) {
        for item in items {
            if let syn::Item::Fn(function) = item {
                self.visit_block(&function.block);
            }
        }
    }

    /// A cell is traced only if a pattern names it: it is a scope anyway.
    fn cell(&mut self, cell: &CellBlock<'_>) {
        self.path.push(PathSegment::Name(cell.label.clone()));
        let line = line(cell.begin);
        let (first, last) = (line + 1, line_of(cell.end, Span::start) - 1);
        let (selected, untraceable) = match (self.wants)(&self.path, line) {
            Want::Nothing => (None, None),
            Want::Traced(selected) => (Some(selected), None),
            Want::Refused(selected, reason) => (Some(selected), Some(reason)),
        };
        if let Some(selected) = selected.filter(|selected| selected.is_named) {
            if untraceable.is_none() {
                self.edits.after(cell.begin, &self.site(selected, line, last.max(line)));
                self.edits.before(cell.end, TRACED_CELL_END);
                if selected.depth == Depth::Lines {
                    lines::mark(&mut self.edits, cell.statements);
                }
            }
            let (path, lines) = (self.path.clone(), first..=last.max(first));
            self.found.push(Function {
                path,
                line,
                lines,
                selected,
                is_test: true,
                apart: None,
                untraceable,
            });
        }
        self.path.pop();
    }

    fn of_tokens(&mut self, tokens: TokenStream, what: &str) {
        for (name, place) in functions_in(tokens) {
            self.path.push(PathSegment::Name(name));
            let line = line(place);
            let selected = match (self.wants)(&self.path, line) {
                Want::Nothing => None,
                Want::Traced(selected) | Want::Refused(selected, _) => Some(selected),
            };
            if let Some(selected) = selected {
                self.found.push(Function {
                    path: self.path.clone(),
                    line,
                    lines: line..=line,
                    selected,
                    is_test: false,
                    apart: self.told_apart(),
                    untraceable: Some(what.to_owned()),
                });
            }
            self.path.pop();
        }
    }

    fn item_macro(&mut self, call: &syn::Macro, ident: Option<&syn::Ident>) {
        let items = module_files::conditional_items(call);
        let name = call.path.segments.last().map(|segment| segment.ident.to_string()).unwrap_or_default();
        if items.is_empty() {
            let what = match ident {
                Some(ident) => format!("the macro `{ident}!` creates it"),
                None => format!("it is in the arguments of the macro `{name}!`"),
            };
            self.of_tokens(call.tokens.clone(), &what);
        }
        for item in &items {
            self.visit_item(item);
        }
    }
}

impl<'ast> Visit<'ast> for FunctionFinder<'_> {
    fn visit_block(&mut self, block: &'ast syn::Block) {
        if let Some(cell) = notebook_cells::of_block(block) {
            self.cell(&cell);
        }
        visit::visit_block(self, block);
    }

    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        let name = module.ident.to_string();
        self.path.push(PathSegment::Name(plain(&name)));
        let around = self.apart.len();
        self.apart.extend(conditions(&module.attrs));
        visit::visit_item_mod(self, module);
        self.apart.truncate(around);
        self.path.pop();
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.function(&FunctionWithBody {
            attributes: &item.attrs,
            signature: &item.sig,
            body: &item.block,
            whole: item.span(),
        });
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        let of = named(&item.self_ty);
        let trait_ = item.trait_.as_ref().map(|(path, _)| named_path(path));
        let was_in_allocator = self.in_allocator;
        self.in_allocator |=
            trait_.as_ref().is_some_and(|name| ["GlobalAlloc", "Allocator"].contains(&name.bare.as_str()));
        let around = self.apart.len();
        self.apart.extend(conditions(&item.attrs));
        if trait_.is_none() && of.whole != of.bare {
            self.apart.push(format!("impl {}", of.whole));
        }
        self.path.push(PathSegment::Impl { of, trait_ });
        item.items.iter().for_each(|item| self.visit_impl_item(item));
        self.path.pop();
        self.apart.truncate(around);
        self.in_allocator = was_in_allocator;
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.function(&FunctionWithBody {
            attributes: &item.attrs,
            signature: &item.sig,
            body: &item.block,
            whole: item.span(),
        });
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        let around = self.apart.len();
        self.apart.extend(conditions(&item.attrs));
        self.path.push(PathSegment::Name(plain(&item.ident.to_string())));
        item.items.iter().for_each(|item| self.visit_trait_item(item));
        self.path.pop();
        self.apart.truncate(around);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(body) = &item.default {
            self.function(&FunctionWithBody {
                attributes: &item.attrs,
                signature: &item.sig,
                body,
                whole: item.span(),
            });
        }
    }

    fn visit_item_macro(&mut self, item: &'ast syn::ItemMacro) {
        self.item_macro(&item.mac, item.ident.as_ref());
    }

    fn visit_stmt_macro(&mut self, statement: &'ast syn::StmtMacro) {
        for item in module_files::conditional_items(&statement.mac) {
            self.visit_item(&item);
        }
    }

    fn visit_impl_item_macro(&mut self, item: &'ast syn::ImplItemMacro) {
        self.item_macro(&item.mac, None);
    }

    fn visit_trait_item_macro(&mut self, item: &'ast syn::TraitItemMacro) {
        self.item_macro(&item.mac, None);
    }
}

/// Inserts text at the start of a body. If it has inner attributes, the text goes before the first
/// statement: after an attribute that is a comment (`//! …`), it would be a part of the comment.
fn open(edits: &mut Edits<'_>, body: &syn::Block, has_inner: bool, text: &str) {
    match body.stmts.first() {
        _ if !has_inner => edits.after(body.brace_token.span.open(), text),
        Some(first) => edits.before(first.span(), &format!("{} ", text.trim_start())),
        None => edits.before(body.brace_token.span.close(), text),
    }
}

fn line(place: Span) -> usize {
    place.start().line
}

fn line_of(place: Span, end: impl Fn(&Span) -> proc_macro2::LineColumn) -> usize {
    end(&place).line
}

#[cfg(test)]
mod tests {
    use camino::Utf8Path;

    use super::*;
    use crate::inject::source_edit::SourceText;

    fn traced(text: &str, depth: Depth) -> (Vec<Function>, String) {
        let source = SourceText::new(text);
        let module = ["encoder".to_owned()];
        let file = ModuleFile { path: Utf8Path::new("a.rs"), module: &module, source, items: source.parse() };
        let (functions, edited) = trace(&file, "src/a.rs", "bart", None, &|_, _| {
            Want::Traced(Selected { depth, is_named: false, every: None })
        });
        (functions, edited.unwrap_or_else(|| text.to_owned()))
    }

    /// Returns the edited text with short marks: `«»` for a scope or a block, `«12»` for a line.
    fn short(text: &str, depth: Depth) -> String {
        let edited = traced(text, depth).1;
        assert_eq!(edited.lines().count(), text.lines().count(), "lines stay: {edited}");
        let site = regex::Regex::new(r#"static MEMPROF_SITE.*?\(".*?enter\(\);"#).unwrap();
        let line = regex::Regex::new(r"_memprof_scope\.at\((\d+)\); ").unwrap();
        let edited = site.replace_all(&edited, "«»").replace("{ «»", "{«»");
        line.replace_all(&edited, "«$1»").into_owned()
    }

    fn paths(text: &str) -> Vec<String> {
        traced(text, Depth::Calls).0.iter().map(|function| shown(&function.path)).collect()
    }

    fn reason(text: &str) -> String {
        let (functions, edited) = traced(text, Depth::Calls);
        assert_eq!(edited, text);
        functions[0].untraceable.clone().unwrap()
    }

    #[test]
    fn a_scope_begins_where_the_body_does() {
        assert_eq!(
            traced("fn f() {}", Depth::Calls).1,
            "fn f() { static MEMPROF_SITE: memprof_shim::Site = memprof_shim::Site::new(\"bart::encoder::f\", \
             \"src/a.rs:1\"); let _memprof_scope = MEMPROF_SITE.enter();}"
        );
        assert_eq!(short("fn f() -> u8 {\n    1\n}", Depth::Calls), "fn f() -> u8 {«»\n    1\n}");
    }

    #[test]
    fn it_comes_behind_inner_attributes_even_if_they_are_comments() {
        assert_eq!(
            short("fn f() {\n    #![allow(x)]\n    //! Says so.\n    g();\n}", Depth::Calls),
            "fn f() {\n    #![allow(x)]\n    //! Says so.\n    «» g();\n}"
        );
        assert_eq!(short("fn f() {\n    //! Says so.\n}", Depth::Calls), "fn f() {\n    //! Says so.\n «»}");
        assert_eq!(
            short("fn f() {\n    #![allow(x)] g();\n}", Depth::Lines),
            "fn f() {\n    #![allow(x)] «» «2»g();\n}"
        );
    }

    #[test]
    fn functions_have_paths() {
        assert_eq!(
            paths(
                "fn f() { fn inner() {} struct A; impl A { fn of_inner() {} } }
                 mod m { pub fn g() {} }
                 impl<T> Encoder<T> { fn new() {} }
                 impl<'a, T: X> Module<u8> for &'a mut enc::Encoder<T> { fn r#match(&self) {} }
                 impl Module for super::Encoder<[u8; 4]> { fn forward() {} }
                 trait Module { fn forward(&self); fn twice(&self) {} }
                 cfg_if::cfg_if! { if #[cfg(a)] { fn h() {} } else { fn i() {} } }
                 fn j() { cfg_if! { if #[cfg(a)] { fn k() {} } } quote! { fn made() {} } }"
            ),
            [
                "bart::encoder::f",
                "bart::encoder::f::inner",
                "bart::encoder::f::A::of_inner",
                "bart::encoder::m::g",
                "bart::encoder::Encoder::new",
                "bart::encoder::<&'a mut Encoder<T> as Module<u8>>::match",
                "bart::encoder::<Encoder<[u8;4]> as Module>::forward",
                "bart::encoder::Module::twice",
                "bart::encoder::h",
                "bart::encoder::i",
                "bart::encoder::j",
                "bart::encoder::j::k",
            ]
        );
    }

    #[test]
    fn what_stands_under_a_condition_or_in_the_impl_of_one_type_says_so() {
        let text = "#[cfg(unix)] mod m { #[cfg(feature = \"a\")] fn f() {} }
                    fn f() {}
                    impl Encoder<f32> { fn new() {} }
                    impl Encoder { #[cfg(not(unix))] fn new() { fn inner() {} } }
                    impl Module for Encoder<u8> { fn f() {} }";
        let functions = traced(text, Depth::Calls).0;
        let apart: Vec<_> = functions.iter().map(|function| function.apart.as_deref()).collect();
        let not_unix = Some("cfg(not(unix))");
        assert_eq!(
            apart,
            [
                Some("cfg(unix), cfg(feature=\"a\")"),
                None,
                Some("impl Encoder<f32>"),
                not_unix,
                not_unix,
                None
            ]
        );
    }

    #[test]
    fn what_cannot_be_traced_says_why() {
        for (text, said) in [
            ("const fn f() {}", "`const fn`"),
            ("unsafe impl GlobalAlloc for A { unsafe fn alloc(&self) {} }", "an allocator"),
            ("macro_rules! make { ($a:ty) => { fn f() {} }; }", "the macro `make!` creates it"),
            ("bitflags! { fn f() {} }", "arguments of the macro `bitflags!`"),
        ] {
            let reason = reason(text);
            assert!(reason.contains(said), "{text}: {reason}");
        }
        let reason = reason("mod m {}\ntrait A { fn f(&self, u8); }");
        assert!(reason.contains("cargo-memprof cannot parse its file (expected `:`, line 2)"), "{reason}");
        assert_eq!(paths("macro_rules! make { ($a:ident) => { fn $a() {} }; }"), ["bart::encoder::$a"]);
    }

    #[test]
    fn a_cell_of_a_notebook_is_traced_by_its_name_and_what_it_defines_has_a_short_path() {
        let text = "mod __notebook { fn of_support() {} }\nfn cells() { { fn g() {}\n\
                    let __cell = __notebook::Cell::new(2); let __scope = s!(\"{}\", \"cell 2: a\");\n\
                    fn f() {}\nlet a = f();/*+*/ black_box(&a);/*-*/\n/*+*/show(/*-*/a/*+*/\n);/*-*/ // é\n\
                    ; drop(__scope); drop(__cell);\n{ g(); } }\n}";
        let source = SourceText::new(text);
        let file = ModuleFile { path: Utf8Path::new("a.rs"), module: &[], source, items: source.parse() };
        let traced = |is_named: bool| {
            let selected = Selected { depth: Depth::Lines, is_named, every: Some(7) };
            let want = |_: &[PathSegment], _: usize| Want::Traced(selected);
            trace(&file, "a.rs", "a", None, &want)
        };
        let (functions, edited) = traced(true);
        let paths: Vec<String> = functions.iter().map(|function| shown(&function.path)).collect();
        assert_eq!(paths, ["a::cell 2: a", "a::g", "a::f"]);
        assert_eq!(lines::excerpt(&source, &functions[0].lines), "fn f() {}\nlet a = f();\na // é");
        let edited = edited.unwrap();
        for part in [
            "with_lines(\"a::cell 2: a\", \"a.rs:3\", 3, 5).every(7); let _memprof_scope",
            "\n_memprof_scope.at(5); let a = f();",
            "_memprof_scope.at(6); show(",
            "; ::std::mem::drop(_memprof_scope); drop(__scope); drop(__cell);\n{ g(); }",
        ] {
            assert!(edited.contains(part), "{part}: {edited}");
        }
        syn::parse_file(&edited).unwrap();
        let paths: Vec<String> = traced(false).0.iter().map(|function| shown(&function.path)).collect();
        assert_eq!(paths, ["a::g", "a::f"], "a cell is a scope anyway");
    }

    #[test]
    fn every_edited_file_is_rust() {
        for depth in [Depth::Calls, Depth::Lines] {
            for text in [
                include_str!("functions.rs"),
                include_str!("../checkout/submodules.rs"),
                include_str!("../builder.rs"),
            ] {
                let edited = traced(text, depth).1;
                assert_ne!(edited, text);
                syn::parse_file(&edited).unwrap();
            }
        }
    }
}
