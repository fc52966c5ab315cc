//! The cells of a notebook's program, which are traced like functions: a cell is a block that begins
//! with `CELL` and the cell's scope, and its code ends where that scope is dropped.

use proc_macro2::{Span, TokenTree};
use syn::spanned::Spanned;
use syn::{Expr, Item, Local, Pat, Stmt};

/// The module of a notebook's program that is no code of the notebook.
pub(crate) const SUPPORT: &str = "__notebook";

/// The variables at the beginning of a cell: the cell, and its scope.
pub(crate) const CELL: &str = "__cell";
/// See [`CELL`].
pub(crate) const SCOPE: &str = "__scope";

/// A cell's part of the program.
pub(crate) struct CellBlock<'a> {
    /// The label of its scope: `cell 3: let x = …`.
    pub label: String,
    /// The statement that begins its scope.
    pub begin: Span,
    /// The code.
    pub statements: &'a [Stmt],
    /// The statement that ends its scope.
    pub end: Span,
}

/// Returns the pattern of a cell in the program of this name.
pub fn pattern(program: &str, number: usize) -> String {
    format!("{program}::cell {number}:*")
}

/// Whether a file is the program of a notebook.
pub(crate) fn is_program(items: &[Item]) -> bool {
    items.iter().any(|item| matches!(item, Item::Mod(module) if module.ident == SUPPORT))
}

/// Returns the cell of a block; `None` for a block within a cell.
pub(crate) fn of_block(block: &syn::Block) -> Option<CellBlock<'_>> {
    let begin = block.stmts.iter().position(|statement| local(statement, SCOPE).is_some())?;
    block.stmts[..begin].iter().find_map(|statement| local(statement, CELL))?;
    let length = block.stmts[begin..].iter().position(is_end)?;
    let Expr::Macro(scope) = local(&block.stmts[begin], SCOPE)?.init.as_ref()?.expr.as_ref() else {
        return None;
    };
    let label = scope.mac.tokens.clone().into_iter().filter_map(|token| match token {
        TokenTree::Literal(literal) => syn::parse_str::<syn::LitStr>(&literal.to_string()).ok(),
        _ => None,
    });
    Some(CellBlock {
        label: label.last()?.value(),
        begin: block.stmts[begin].span(),
        statements: &block.stmts[begin + 1..begin + length],
        end: block.stmts[begin + length].span(),
    })
}

fn local<'a>(statement: &'a Stmt, name: &str) -> Option<&'a Local> {
    match statement {
        Stmt::Local(local) if matches!(&local.pat, Pat::Ident(one) if one.ident == name) => Some(local),
        _ => None,
    }
}

/// Whether a statement is `drop(__scope);`.
fn is_end(statement: &Stmt) -> bool {
    let Stmt::Expr(Expr::Call(call), Some(_)) = statement else { return false };
    matches!(call.args.first(), Some(Expr::Path(path)) if path.path.is_ident(SCOPE))
}

#[cfg(test)]
mod tests {
    use super::*;
    use memprof_plan::trace_pattern::{PathSegment, TracePattern};

    #[test]
    fn the_pattern_of_a_cell_matches_its_label_only() {
        let matches = |number: usize, label: &str| {
            let path = ["Tour_2", label].map(|name| PathSegment::Name(name.to_owned()));
            pattern("Tour_2", number).parse::<TracePattern>().unwrap().matches(&path, true)
        };
        assert!(matches(3, "cell 3: let a: Vec<u8> = b::c::<d>(\"* \");"));
        assert!(!matches(3, "cell 30: a") && !matches(3, "cell 1: cell 3: a"));
    }

    #[test]
    fn a_block_within_a_cell_is_no_cell() {
        let block = |text: &str| syn::parse_str::<syn::Block>(text).unwrap();
        let text = "{ fn f() {} let __cell = A::new(2);\n let __scope = s!(\"{}\", \"cell 2: g()\");\n g();\n h()\n; drop(__scope); drop(__cell); { i(); } }";
        let whole = block(text);
        let cell = of_block(&whole).unwrap();
        assert_eq!((cell.label.as_str(), cell.statements.len()), ("cell 2: g()", 2));
        assert!(of_block(&block("{ let __scope = s!(\"a\"); g(); drop(__scope); }")).is_none());
        assert!(of_block(&block("{ g(); }")).is_none());
    }
}
