//! One cell, read: its commands, its items, and the edits that make its text part of a function.
//! The text keeps its lines, so that a line of the program is a line of the cell.

use std::ops::Range;

use proc_macro2::{Span, TokenStream, TokenTree};
use quote::ToTokens;
use syn::parse::{ParseStream, Parser};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Attribute, Block, Item, Stmt};

use crate::notebook::commands::{self, Command};
use crate::notebook::item::CellItem;
use crate::notebook::mistake::Mistake;
use memprof_support::nesting::{depth, generic_depth};

/// How deep brackets and generic arguments of a cell may be nested. The parser recurses.
const MOST_NESTED: usize = 1000;

/// A cell, ready to become part of a program.
#[derive(Clone, Debug)]
pub struct ParsedCell {
    /// The cell's number among the code cells, from 1.
    pub number: usize,
    /// The commands, in order.
    pub commands: Vec<PlacedCommand>,
    /// Attributes of the whole crate: `#![feature(x)]`.
    pub attributes: Vec<String>,
    /// Whole `extern crate` items.
    pub extern_crates: Vec<ExternCrate>,
    /// Items, in order.
    pub items: Vec<CellItem>,
    /// The Rust code, with spaces in the place of everything above except items.
    pub code: String,
    /// Variables that the cell's own `let` statements bind, each with the end of its statement. evcxr
    /// stores them, so the optimizer may not remove them.
    pub variables: Vec<(usize, String)>,
    /// Where the last expression is in the code, if evcxr would display it.
    pub shown: Option<Range<usize>>,
    /// Whether the code awaits a future outside of an `async` block or function.
    pub awaits: bool,
    /// The first line of code, for people.
    pub title: String,
}

/// A command and its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacedCommand {
    /// The line in the cell, from 1.
    pub line: usize,
    /// What it does.
    pub command: Command,
}

/// An `extern crate`, which becomes part of the crate's root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExternCrate {
    /// The crate's own name.
    pub name: String,
    /// The item's text.
    pub text: String,
}

impl ParsedCell {
    /// Whether the cell has Rust code.
    pub fn has_code(&self) -> bool {
        !self.title.is_empty()
    }

    /// Reads a cell.
    pub fn read(number: usize, source: &str) -> Result<Self, Mistake> {
        let (commands, code) = without_commands(number, source)?;
        let parser =
            |input: ParseStream<'_>| Ok((Attribute::parse_inner(input)?, Block::parse_within(input)?));
        let too_deep = || {
            let what = format!("brackets or generic arguments are nested more than {MOST_NESTED} deep");
            not_rust(number, &code, &syn::Error::new(Span::call_site(), what))
        };
        if depth(&code) > MOST_NESTED {
            return Err(too_deep());
        }
        let tokens = code.parse::<TokenStream>().map_err(|error| not_rust(number, &code, &error.into()))?;
        if generic_depth(&tokens) > MOST_NESTED {
            return Err(too_deep());
        }
        let (attributes, statements) =
            parser.parse2(tokens).map_err(|error| not_rust(number, &code, &error))?;
        let mut cell = Self {
            number,
            commands,
            attributes: Vec::new(),
            extern_crates: Vec::new(),
            items: Vec::new(),
            variables: Vec::new(),
            shown: None,
            awaits: false,
            title: String::new(),
            code,
        };
        for attribute in &attributes {
            let text = cell.take_out(attribute.span());
            cell.attributes.push(text);
        }
        let checks = Checks::from_statements(number, &statements)?;
        cell.awaits = checks.awaits;
        for statement in &statements {
            match statement {
                Stmt::Item(item) => cell.add(item),
                Stmt::Local(local) => cell.variables.extend(bound(local)),
                Stmt::Expr(..) | Stmt::Macro(_) => {}
            }
        }
        cell.title = title(&cell.code);
        cell.shown = statements.last().and_then(displayed).map(|place| place.byte_range());
        Ok(cell)
    }

    fn add(&mut self, item: &Item) {
        if let Item::ExternCrate(one) = item {
            let text = self.take_out(item.span());
            self.extern_crates.push(ExternCrate { name: one.ident.to_string(), text });
            return;
        }
        let text = self.code[item.span().byte_range()].to_owned();
        self.items.push(CellItem::new(item, text));
    }

    /// Replaces a part of the code by spaces, and returns it.
    fn take_out(&mut self, part: Span) -> String {
        let range = part.byte_range();
        let text = self.code[range.clone()].to_owned();
        self.code.replace_range(range, &blank(&text));
        text
    }
}

/// Returns spaces of the same length, with the same line ends.
fn blank(text: &str) -> String {
    text.bytes().map(|byte| if byte == b'\n' { '\n' } else { ' ' }).collect()
}

/// Reads the commands at the beginning of a cell, and returns its text with spaces in their place.
fn without_commands(cell: usize, source: &str) -> Result<(Vec<PlacedCommand>, String), Mistake> {
    let mut commands = Vec::new();
    let mut code = String::with_capacity(source.len());
    let mut is_in_code = false;
    for (index, text) in source.split_inclusive('\n').enumerate() {
        let line = index + 1;
        let start = text.trim_start();
        let is_command = start.starts_with(':') && !start.starts_with("::");
        let what = start.trim_end();
        if text.starts_with('!') {
            return Err(Mistake {
                cell,
                line,
                what: format!("`{what}` is a command for the shell, and a program has no shell"),
                instead: "run it before the notebook, and tag this cell `memprof-skip`".to_owned(),
            });
        }
        if is_command && is_in_code {
            return Err(Mistake {
                cell,
                line,
                what: format!("`{what}` is after Rust code, where evcxr reads no commands"),
                instead: "write it at the beginning of the cell".to_owned(),
            });
        }
        if is_command {
            commands.push(PlacedCommand { line, command: commands::read(cell, line, text)? });
            code.push_str(&blank(text));
        } else {
            is_in_code |= !start.is_empty() && !text.starts_with("//");
            code.push_str(text);
        }
    }
    Ok((commands, code))
}

/// Returns the error about code that cannot be read.
fn not_rust(cell: usize, code: &str, error: &syn::Error) -> Mistake {
    let last = code.trim_end().lines().count().max(1);
    // The end of the text has no place of its own.
    let line = error.span().start().line.clamp(1, last);
    let line = if error.to_string().starts_with("unexpected end of input") { last } else { line };
    Mistake {
        cell,
        line,
        what: format!("this is not Rust: {error}"),
        instead: "correct the cell, or tag it `memprof-skip` to leave it out".to_owned(),
    }
}

/// Returns the first line of code that is more than a comment or an attribute, cut to 40 characters.
fn title(code: &str) -> String {
    let lines = code.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("//"));
    let line = lines.clone().find(|line| !line.starts_with('#')).or_else(|| lines.clone().next());
    let line = line.unwrap_or_default();
    match line.char_indices().nth(40) {
        Some((end, _)) => format!("{}…", line[..end].trim_end()),
        None => line.to_owned(),
    }
}

/// Returns the variables that have a value after a `let`, and where it ends.
fn bound(local: &syn::Local) -> Vec<(usize, String)> {
    struct Names(Vec<String>);
    impl<'ast> Visit<'ast> for Names {
        fn visit_pat_ident(&mut self, one: &'ast syn::PatIdent) {
            let name = one.ident.to_string();
            // A capital is that of a constant, or of a variant without fields.
            if one.subpat.is_some() || !name.starts_with(char::is_uppercase) {
                self.0.push(name);
            }
            visit::visit_pat_ident(self, one);
        }
    }
    if local.init.is_none() || !local.attrs.is_empty() {
        return Vec::new();
    }
    let mut names = Names(Vec::new());
    names.visit_pat(&local.pat);
    let end = local.span().byte_range().end;
    names.0.into_iter().map(|name| (end, name)).collect()
}

/// Returns the span of an expression at the end of a cell that evcxr displays.
fn displayed(statement: &Stmt) -> Option<Span> {
    match statement {
        // Loops have no value. Assignments and `break` have none either.
        Stmt::Expr(syn::Expr::ForLoop(_) | syn::Expr::While(_) | syn::Expr::Assign(_), None) => None,
        Stmt::Expr(expression, None) => Some(expression.span()),
        // Macros with braces are often items, such as `thread_local! { … }`.
        Stmt::Macro(call) if call.semi_token.is_none() => {
            let is_item = matches!(call.mac.delimiter, syn::MacroDelimiter::Brace(_));
            (!is_item).then(|| call.span())
        }
        _ => None,
    }
}

/// Looks for code that means something else inside of a function.
struct Checks {
    cell: usize,
    awaits: bool,
    mistake: Option<Mistake>,
}

impl Checks {
    fn from_statements(cell: usize, statements: &[Stmt]) -> Result<Self, Mistake> {
        let mut checks = Self { cell, awaits: false, mistake: None };
        for statement in statements {
            checks.visit_stmt(statement);
            checks.refuse_crate_paths(statement.to_token_stream());
        }
        match checks.mistake.take() {
            Some(mistake) => Err(mistake),
            None => Ok(checks),
        }
    }

    fn refuse(&mut self, place: Span, what: &str, instead: &str) {
        let mistake = Mistake {
            cell: self.cell,
            line: place.start().line,
            what: what.to_owned(),
            instead: instead.to_owned(),
        };
        self.mistake.get_or_insert(mistake);
    }

    /// Refuses `crate::NAME`: items of cells are not at the crate's root.
    fn refuse_crate_paths(&mut self, tokens: TokenStream) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        for (at, token) in tokens.iter().enumerate() {
            let is_path =
                || matches!(tokens.get(at + 1), Some(TokenTree::Punct(next)) if next.as_char() == ':');
            let of_macro =
                || at > 0 && matches!(&tokens[at - 1], TokenTree::Punct(before) if before.as_char() == '$');
            match token {
                TokenTree::Group(group) => self.refuse_crate_paths(group.stream()),
                TokenTree::Ident(word) if word == "crate" && is_path() && !of_macro() => self.refuse(
                    word.span(),
                    "`crate::` does not lead to the items of the cells",
                    "write the name alone: NAME in the place of crate::NAME",
                ),
                _ => {}
            }
        }
    }
}

impl<'ast> Visit<'ast> for Checks {
    fn visit_item(&mut self, _: &'ast Item) {}

    fn visit_expr_closure(&mut self, _: &'ast syn::ExprClosure) {}

    fn visit_expr_async(&mut self, _: &'ast syn::ExprAsync) {}

    fn visit_expr_return(&mut self, one: &'ast syn::ExprReturn) {
        self.refuse(
            one.span(),
            "`return` outside of a function would end the whole program",
            "put the code into a function, and call it: fn step() { … } step();",
        );
    }

    fn visit_expr_await(&mut self, one: &'ast syn::ExprAwait) {
        self.awaits = true;
        visit::visit_expr_await(self, one);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.awaits |= call.tokens.to_string().contains(". await");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(source: &str) -> ParsedCell {
        ParsedCell::read(3, source).unwrap()
    }

    fn refused(source: &str) -> (usize, String) {
        let mistake = ParsedCell::read(3, source).unwrap_err();
        assert_eq!(mistake.cell, 3);
        assert!(!mistake.instead.is_empty());
        (mistake.line, mistake.what)
    }

    #[test]
    fn commands_and_crate_wide_parts_become_spaces() {
        let cell = parsed(":dep rand = \"0.9\"\n#![allow(x)]\nextern crate rand;\nlet a = 1; // é\na");
        let rand = Command::Dependency { name: "rand".into(), value: "\"0.9\"".into() };
        assert_eq!(cell.commands, [PlacedCommand { line: 1, command: rand }]);
        assert_eq!(cell.attributes, ["#![allow(x)]"]);
        assert_eq!(cell.extern_crates[0].name, "rand");
        assert_eq!(cell.code.trim(), "let a = 1; // é\na");
        assert_eq!(cell.code.lines().count(), 5);
        assert_eq!(&cell.code[cell.shown.unwrap()], "a");
        assert_eq!(cell.title, "let a = 1; // é");
    }

    #[test]
    fn what_is_nested_without_end_is_refused() {
        for (begin, end) in [("(", ")"), ("A::<", ">::B")] {
            let (line, what) = refused(&format!("let a = {}1{};", begin.repeat(50_000), end.repeat(50_000)));
            let expected = "this is not Rust: brackets or generic arguments are nested more than 1000 deep";
            assert_eq!((line, what.as_str()), (1, expected));
        }
    }

    #[test]
    fn only_a_last_expression_is_displayed() {
        let shown = |source: &str| {
            let cell = parsed(source);
            cell.shown.map(|range| cell.code[range].to_owned())
        };
        assert_eq!(shown("let é = 2;\né + 1").as_deref(), Some("é + 1"));
        assert_eq!(shown("vec![1]").as_deref(), Some("vec![1]"));
        assert_eq!(shown("x?").as_deref(), Some("x?"));
        for none in
            ["x;", "for a in b {}", "thread_local! { static A: u8 = 1; }", "fn f() {}", "// only text"]
        {
            assert_eq!(shown(none), None, "{none}");
        }
        assert!(!parsed("// only text\n").has_code());
    }

    #[test]
    fn variables_are_those_of_the_cells_own_let_statements() {
        let cell = parsed(
            "let (a, mut b) = f();\nlet c;\nlet Some(d) = e else { panic!() };\nlet None = g else { panic!() };\n{ let h = 1; }\nlet i @ J { k, .. } = l;",
        );
        let names: Vec<&str> = cell.variables.iter().map(|(_, name)| name.as_str()).collect();
        assert_eq!(names, ["a", "b", "d", "i", "k"]);
        assert_eq!(&cell.code[..cell.variables[0].0], "let (a, mut b) = f();");
    }

    #[test]
    fn await_at_the_top_level_is_seen() {
        assert!(parsed("let a = f().await?;").awaits);
        assert!(parsed("println!(\"{}\", f().await)").awaits);
        assert!(!parsed("let a = async { f().await };\nasync fn g() { f().await; }").awaits);
    }

    #[test]
    fn mistakes_have_their_line() {
        assert_eq!(
            refused("let a = 1;\n:dep rand"),
            (2, "`:dep rand` is after Rust code, where evcxr reads no commands".into())
        );
        assert_eq!(refused("\n!ls -l").0, 2);
        assert_eq!(refused("let a = 1;\nlet b = ;\n").0, 2);
        let (line, what) = refused("fn f() {\n  1\n");
        assert!(line == 2 || line == 1, "{line}: {what}");
        assert_eq!(
            refused("let a = 1;\nif a == 1 { return; }"),
            (2, "`return` outside of a function would end the whole program".into())
        );
        assert_eq!(
            refused("let a = 1;\ncrate::f(a)"),
            (2, "`crate::` does not lead to the items of the cells".into())
        );
        assert!(
            ParsedCell::read(1, "macro_rules! m { () => { $crate::f() } }\npub(crate) fn f() {}").is_ok()
        );
    }
}
