//! Inserts checkpoints before statements of a source file (`--checkpoint-at`), on the statements' own
//! lines.

use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use crate::inject::source_edit::{SourceText, forget_places};
use crate::trace::lines;

/// The text before a statement, around its label. It is part of the build key.
pub(crate) const TEXTS: [&str; 2] = ["memprof_shim::checkpoint!(\"{}\", ", "); "];

/// Returns a file's text with checkpoints before the statements at these lines.
///
/// # Errors
/// The line of the first checkpoint that has no place, and why.
pub(crate) fn insert(text: &str, wanted: &[(usize, &str)]) -> Result<String, (usize, String)> {
    let inserted = with_checkpoints(text, wanted);
    forget_places();
    inserted
}

fn with_checkpoints(text: &str, wanted: &[(usize, &str)]) -> Result<String, (usize, String)> {
    let source = SourceText::new(text);
    let first = wanted.first().map_or(1, |(line, _)| *line);
    let file = source.parse().map_err(|error| (first, format!("the file cannot be parsed ({error})")))?;
    let mut finder = StatementFinder { source, body: Body::None, statements: Vec::new() };
    finder.visit_file(&file);
    let mut edits = source.edits();
    // At one place, the text that is added last comes first.
    for (line, label) in wanted.iter().rev() {
        let statement = finder.statement(*line).map_err(|reason| (*line, reason))?;
        let [open, close] = TEXTS;
        // Under the statement's conditions, so that it separates no values of a block.
        let (conditions, _) = lines::beginning(statement);
        edits.before(statement.span(), &format!("{conditions}{open}{label:?}{close}"));
    }
    Ok(edits.applied())
}

/// What a statement is a part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Body {
    /// No function: the value of a constant, a type.
    None,
    Function,
    /// A `const fn`, or a block that the compiler runs.
    Constant,
}

struct StatementFinder<'a, 'ast> {
    source: SourceText<'a>,
    body: Body,
    /// Each statement with the line at which it begins, in the order of the file.
    statements: Vec<(usize, &'ast syn::Stmt, Body)>,
}

impl<'ast> StatementFinder<'_, 'ast> {
    /// Returns the outermost statement that begins at a line.
    fn statement(&self, line: usize) -> Result<&'ast syn::Stmt, String> {
        let found = self.statements.iter().find(|(start, ..)| *start == line);
        match found {
            Some((_, statement, Body::Function)) => Ok(statement),
            Some((_, _, Body::Constant)) => Err("the compiler may run this code (`const`)".to_owned()),
            Some((_, _, Body::None)) | None => Err(self.none_at(line)),
        }
    }

    fn none_at(&self, line: usize) -> String {
        let all = self.source.text().lines().count();
        if line > all {
            return format!("the file has only {all} lines");
        }
        let starts = || {
            let inside = self.statements.iter().filter(|(.., body)| *body == Body::Function);
            inside.map(|(start, ..)| *start)
        };
        let nearest =
            [starts().filter(|start| *start < line).max(), starts().filter(|start| *start > line).min()];
        let nearest: Vec<String> = nearest.into_iter().flatten().map(|line| line.to_string()).collect();
        match &nearest[..] {
            [] => "the file has no function with a statement".to_owned(),
            lines => format!(
                "no statement of a function begins there; the nearest begin at {}",
                lines.join(" and ")
            ),
        }
    }

    fn within(&mut self, body: Body, visit: impl FnOnce(&mut Self)) {
        let outer = std::mem::replace(&mut self.body, body);
        visit(self);
        self.body = outer;
    }

    fn body_of(signature: &syn::Signature) -> Body {
        if signature.constness.is_some() { Body::Constant } else { Body::Function }
    }
}

impl<'ast> Visit<'ast> for StatementFinder<'_, 'ast> {
    fn visit_block(&mut self, block: &'ast syn::Block) {
        for statement in &block.stmts {
            self.statements.push((statement.span().start().line, statement, self.body));
            self.visit_stmt(statement);
        }
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.within(Self::body_of(&item.sig), |finder| finder.visit_block(&item.block));
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.within(Self::body_of(&item.sig), |finder| finder.visit_block(&item.block));
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        let Some(body) = &item.default else { return };
        self.within(Self::body_of(&item.sig), |finder| finder.visit_block(body));
    }

    fn visit_item_const(&mut self, item: &'ast syn::ItemConst) {
        self.within(Body::None, |finder| visit::visit_item_const(finder, item));
    }

    fn visit_item_static(&mut self, item: &'ast syn::ItemStatic) {
        self.within(Body::None, |finder| visit::visit_item_static(finder, item));
    }

    fn visit_expr_const(&mut self, block: &'ast syn::ExprConst) {
        self.within(Body::Constant, |finder| visit::visit_expr_const(finder, block));
    }

    fn visit_expr_repeat(&mut self, repeat: &'ast syn::ExprRepeat) {
        self.visit_expr(&repeat.expr);
    }

    // An array's length is computed by the compiler.
    fn visit_type(&mut self, _: &'ast syn::Type) {}
    fn visit_path(&mut self, _: &'ast syn::Path) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text with `«label»` for each inserted checkpoint.
    fn inserted(text: &str, wanted: &[(usize, &str)]) -> Result<String, (usize, String)> {
        let inserted = insert(text, wanted)?;
        assert_eq!(inserted.lines().count(), text.lines().count(), "lines keep their numbers");
        let call =
            regex::Regex::new(r#"memprof_shim::checkpoint!\("\{\}", "((?:[^"\\]|\\.)*)"\); "#).unwrap();
        Ok(call.replace_all(&inserted, "«$1»").into_owned())
    }

    #[test]
    fn a_checkpoint_stands_before_the_outermost_statement_of_the_line() {
        let text = "fn f() -> u8 {\n    let a = 1;\n    for b in c { g(b); }\n    h(|| {\n        i();\n    });\n    #[allow(x)]\n    a\n}";
        assert_eq!(
            inserted(text, &[(2, "one"), (2, "two"), (3, "loop"), (5, "closure"), (7, "end")]).unwrap(),
            "fn f() -> u8 {\n    «one»«two»let a = 1;\n    «loop»for b in c { g(b); }\n    h(|| {\n        \
             «closure»i();\n    });\n    «end»#[allow(x)]\n    a\n}"
        );
        let methods =
            "impl A {\n    fn f() {\n        g();\n    }\n}\ntrait B {\n    fn f() {\n        g();\n    }\n}";
        let both = inserted(methods, &[(3, "a"), (8, "b")]).unwrap();
        assert!(both.contains("        «a»g();") && both.contains("        «b»g();"), "{both}");
    }

    #[test]
    fn a_checkpoint_is_under_its_statements_conditions() {
        let text = "fn f() -> u8 {\n    #[cfg(a)]\n    { 1 }\n    #[cfg(b)]\n    { 2 }\n}";
        let expected = text.replace("    #[cfg(b)]", "    #[cfg(b)] «x»#[cfg(b)]");
        let plain = |text: String| text.replace("#[cfg (b)]", "#[cfg(b)]");
        assert_eq!(plain(inserted(text, &[(4, "x")]).unwrap()), expected);
    }

    #[test]
    fn a_label_is_text_and_never_code() {
        let text = "fn f() {\n    g();\n}";
        assert_eq!(inserted(text, &[(2, "{x}")]).unwrap(), "fn f() {\n    «{x}»g();\n}");
        assert_eq!(inserted(text, &[(2, "\"); h(\"")]).unwrap(), "fn f() {\n    «\\\"); h(\\\"»g();\n}");
    }

    #[test]
    fn a_line_without_a_statement_of_a_function_is_refused_with_the_nearest_ones() {
        let text = "const A: u8 = {\n    1\n};\nfn f() {\n    g(\n        1,\n    );\n    // h\n    i();\n}\nconst fn k() {\n    l();\n}\n";
        let reason = |line: usize| inserted(text, &[(9, "fine"), (line, "x")]).unwrap_err();
        let nearest = |line: usize, lines: &str| {
            let text = format!("no statement of a function begins there; the nearest begin at {lines}");
            assert_eq!(reason(line), (line, text));
        };
        nearest(2, "5");
        nearest(6, "5 and 9");
        nearest(8, "5 and 9");
        nearest(10, "9");
        assert_eq!(reason(12).1, "the compiler may run this code (`const`)");
        assert_eq!(reason(99).1, "the file has only 13 lines");
        assert!(insert("fn f( {", &[(1, "x")]).unwrap_err().1.contains("cannot be parsed"));
    }
}
