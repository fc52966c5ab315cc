//! The lines of a traced function: inserts marks before its statements, which record the current
//! line, and returns its text for the report.

use std::fmt::Write as _;
use std::ops::RangeInclusive;

use proc_macro2::{Span, TokenTree};
use quote::ToTokens;
use syn::spanned::Spanned;
use syn::visit::Visit;

use crate::inject::source_edit::{Edits, SourceText};

/// The text at the start of a block, which restores the outer line at the block's end, and the text
/// before a statement, which is followed by the line. Both are part of the build key.
pub(crate) const TEXTS: [&str; 2] = [" let _memprof_block = _memprof_scope.block();", " _memprof_scope.at("];

/// What stands around the parts of a notebook's program, among the code of its cells, that are not in
/// the notebook.
pub(crate) const NOT_IN_SOURCE: [&str; 2] = ["/*+*/", "/*-*/"];

/// Marks these statements of a function, and those of the blocks that run as a part of it.
pub(crate) fn mark(edits: &mut Edits<'_>, statements: &[syn::Stmt]) {
    Lines { edits }.statements(statements);
}

/// Returns the text of these lines, counted from 1, before any edit.
pub(crate) fn excerpt(source: &SourceText<'_>, lines: &RangeInclusive<usize>) -> String {
    let wanted = source.text().lines().skip(lines.start() - 1).take(lines.end() + 1 - lines.start());
    let mut text = wanted.collect::<Vec<_>>().join("\n");
    let [open, close] = NOT_IN_SOURCE;
    while let Some(start) = text.find(open) {
        let Some(length) = text[start..].find(close) else { break };
        text.replace_range(start..start + length + close.len(), "");
    }
    text
}

struct Lines<'a, 'b> {
    edits: &'a mut Edits<'b>,
}

impl Lines<'_, '_> {
    fn statements(&mut self, statements: &[syn::Stmt]) {
        let mut marked = None;
        for statement in statements {
            if matches!(statement, syn::Stmt::Item(_)) {
                continue;
            }
            let (conditions, place) = beginning(statement);
            let line = place.start().line;
            // Only the first of several statements on a line is marked.
            if marked != Some(line) {
                let text = format!("{conditions}{}{line}); ", TEXTS[1].trim_start());
                self.edits.before(statement.span(), &text);
            }
            // A statement under a condition may be absent, so the next one on the line is marked,
            // too.
            if conditions.is_empty() {
                marked = Some(line);
            }
            self.visit_stmt(statement);
        }
    }
}

/// Returns the `#[cfg(…)]` of a statement, and its first place after the attributes. The mark gets
/// the same conditions, so that it is absent whenever the statement is. Otherwise a mark would
/// separate the possible values of a block: `#[cfg(a)] { x } #[cfg(not(a))] { y }`.
pub(crate) fn beginning(statement: &syn::Stmt) -> (String, Span) {
    let mut conditions = String::new();
    let mut tokens = statement.to_token_stream().into_iter();
    while let Some(token) = tokens.next() {
        let attribute = match token {
            TokenTree::Punct(hash) if hash.as_char() == '#' => tokens.next(),
            first => return (conditions, first.span()),
        };
        let Some(TokenTree::Group(attribute)) = attribute else { break };
        if matches!(attribute.stream().into_iter().next(), Some(TokenTree::Ident(name)) if name == "cfg") {
            _ = write!(conditions, "#{attribute} ");
        }
    }
    (conditions, statement.span())
}

/// Whether an attribute is `#[cfg(…)]`, so that its item may be absent.
pub(crate) fn is_condition(attribute: &syn::Attribute) -> bool {
    attribute.path().is_ident("cfg")
}

impl<'ast> Visit<'ast> for Lines<'_, '_> {
    fn visit_block(&mut self, block: &'ast syn::Block) {
        let span = block.brace_token.span;
        let is_on_one_line = span.open().start().line == span.close().start().line;
        if block.stmts.is_empty() || is_on_one_line {
            return;
        }
        self.statements(&block.stmts);
        // At the same place, the text that is added last comes first. Attributes of the block (`//! …`) stay before it.
        self.edits.before(block.stmts[0].span(), TEXTS[0]);
    }

    // Closures and items run at another time, in another context, or in the compiler.
    fn visit_expr_closure(&mut self, _: &'ast syn::ExprClosure) {}
    fn visit_expr_async(&mut self, _: &'ast syn::ExprAsync) {}
    fn visit_expr_const(&mut self, _: &'ast syn::ExprConst) {}
    fn visit_expr_try_block(&mut self, _: &'ast syn::ExprTryBlock) {}
    fn visit_expr_repeat(&mut self, repeat: &'ast syn::ExprRepeat) {
        self.visit_expr(&repeat.expr);
    }
    fn visit_item(&mut self, _: &'ast syn::Item) {}
    fn visit_macro(&mut self, _: &'ast syn::Macro) {}
    fn visit_type(&mut self, _: &'ast syn::Type) {}
    fn visit_path(&mut self, _: &'ast syn::Path) {}
    fn visit_generic_argument(&mut self, _: &'ast syn::GenericArgument) {}
    fn visit_pat(&mut self, _: &'ast syn::Pat) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the edited text of a function with short marks: `«12»` for a line, `«{»` for a
    /// block.
    fn marked(text: &str) -> String {
        let source = SourceText::new(text);
        let file = source.parse().unwrap();
        let [syn::Item::Fn(function)] = file.items.as_slice() else { panic!("one function: {text}") };
        let mut edits = source.edits();
        mark(&mut edits, &function.block.stmts);
        let edited = edits.applied();
        assert_eq!(edited.lines().count(), text.lines().count(), "lines stay: {edited}");
        let line = regex::Regex::new(r"((?:#\[cfg[^\n]*?\] )?)_memprof_scope\.at\((\d+)\); ").unwrap();
        let short = line.replace_all(&edited.replace(TEXTS[0], "«{»"), "«$1$2»").into_owned();
        // This is how tokens are printed.
        short.replace("«#[cfg (not (a))]", "«#[cfg(not(a))]").replace("«#[cfg (a)]", "«#[cfg(a)]")
    }

    #[test]
    fn each_statement_is_marked_and_blocks_lead_back() {
        assert_eq!(
            marked(
                "fn f() -> u8 {\n    let a = 1;\n    for b in c {\n        g(b);\n        h(|| {\n            i();\n        });\n    }\n    if a { b() } else { c() }\n}",
            ),
            "fn f() -> u8 {\n    «2»let a = 1;\n    «3»for b in c {\n        «{»«4»g(b);\n        «5»h(|| {\n            i();\n        });\n    }\n    «9»if a { b() } else { c() }\n}"
        );
    }

    #[test]
    fn a_block_may_begin_with_its_attributes() {
        assert_eq!(
            marked("fn f() {\n    for b in c {\n        //! Says so.\n        g(b);\n    }\n}"),
            "fn f() {\n    «2»for b in c {\n        //! Says so.\n        «{»«4»g(b);\n    }\n}"
        );
    }

    #[test]
    fn a_statement_that_is_not_there_has_no_mark_and_nothing_comes_between_the_values_of_a_block() {
        assert_eq!(
            marked(
                "fn f() -> u8 {\n    let a = 1;\n    #[cfg(a)]\n    { a }\n    #[cfg(not(a))] #[allow(b)]\n    { 2 }\n}",
            ),
            "fn f() -> u8 {\n    «2»let a = 1;\n    «#[cfg(a)] 4»#[cfg(a)]\n    { a }\n    \
             «#[cfg(not(a))] 6»#[cfg(not(a))] #[allow(b)]\n    { 2 }\n}"
        );
        assert_eq!(
            marked("fn f() {\n    #[cfg(a)]\n    let g = 1;\n    #[allow(b)]\n    h!();\n}"),
            "fn f() {\n    «#[cfg(a)] 3»#[cfg(a)]\n    let g = 1;\n    «5»#[allow(b)]\n    h!();\n}"
        );
    }

    #[test]
    fn several_statements_on_a_line_are_one_time_of_it() {
        assert_eq!(marked("fn f() { a(); b(\n1); c(); d() }"), "fn f() { «1»a(); b(\n1); «2»c(); d() }");
        assert_eq!(
            marked("fn f() { #[cfg(a)] a(); b(); c() }"),
            "fn f() { «#[cfg(a)] 1»#[cfg(a)] a(); «1»b(); c() }"
        );
    }

    #[test]
    fn blocks_in_types_and_constants_are_left_alone() {
        let text = "fn f() {\n    let a: [u8; {\n        4\n    }] = [0; {\n        4\n    }];\n    const { \n        g();\n    }\n}";
        assert_eq!(
            marked(text),
            text.replacen("    let", "    «2»let", 1).replacen("    const", "    «7»const", 1)
        );
    }

    #[test]
    fn an_excerpt_is_of_the_lines_as_they_were() {
        let source = SourceText::new("fn f() {\n    g();\n}\nfn h() {}\n");
        assert_eq!(excerpt(&source, &(2..=3)), "    g();\n}");
    }
}
