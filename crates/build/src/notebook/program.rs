//! The program of a notebook: one function with the code of all cells, each inside a block of its
//! own within that of the cell before it. So variables stay, and later items replace earlier ones
//! for later cells alone. Each cell is a scope.
//!
//! The code of a cell begins at a line that tells its cell: line 3002 is the second line of cell 3.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use toml_edit::Table;

use crate::notebook::cell::ParsedCell;
use crate::notebook::commands::Command;
use crate::notebook::document::Document;
use crate::notebook::manifest::{FindPackage, Settings};
use crate::notebook::mistake::Mistake;
use crate::notebook::redefinition::LiveItems;
use crate::trace::lines::NOT_IN_SOURCE;
use crate::trace::notebook_cells::{CELL, SCOPE};
use memprof_support::user_error::UserError;

/// What the program's functions and types are for; compiled before the first cell.
const SUPPORT: &str = include_str!("support.rs.in");

/// The usual format of a last expression.
const DEBUG: &str = "{:?}";

/// A notebook whose cells have been read.
#[derive(Clone, Debug)]
pub struct Notebook {
    /// The cells with commands or code, in order.
    pub cells: Vec<NotebookCell>,
}

/// A cell of a notebook.
#[derive(Clone, Debug)]
pub struct NotebookCell {
    /// The id, if the notebook has ids.
    pub id: Option<String>,
    /// The text.
    pub source: String,
    /// What it holds.
    pub parsed: ParsedCell,
    /// Earlier items that its block repeats.
    pub copies: Vec<String>,
}

impl Notebook {
    /// Reads the cells of a notebook, without those that `skip` numbers. `name` is for messages.
    pub fn read(name: &str, document: &Document, skip: &BTreeSet<usize>) -> Result<Self, UserError> {
        let last = document.cells.len();
        if let Some(unknown) = skip.iter().find(|number| !(1..=last).contains(number)) {
            return Err(UserError::new(format!("{name} has no code cell {unknown}"))
                .help(format!("its code cells have the numbers 1 to {last}: --skip-cell {last}")));
        }
        let wanted = document.cells.iter().filter(|cell| !cell.is_skipped && !skip.contains(&cell.number));
        let mut live = LiveItems::default();
        let mut cells = Vec::new();
        for cell in wanted {
            let in_notebook = |mistake: Mistake| mistake.in_notebook(name);
            let parsed = ParsedCell::read(cell.number, &cell.source).map_err(in_notebook)?;
            let copies = live.add(&parsed).map_err(in_notebook)?;
            if parsed.has_code() || !parsed.commands.is_empty() {
                cells.push(NotebookCell { id: cell.id.clone(), source: cell.source.clone(), parsed, copies });
            }
        }
        if !cells.iter().any(|cell| cell.parsed.has_code()) {
            return Err(UserError::new(format!("{name} has no Rust code to measure")));
        }
        Ok(Self { cells })
    }

    /// Returns what the commands ask for. `find` looks up the paths of packages.
    pub fn settings(&self, name: &str, find: FindPackage<'_>) -> Result<Settings, UserError> {
        Settings::read(self.cells.iter().map(|cell| &cell.parsed), find)
            .map_err(|mistake| mistake.in_notebook(name))
    }

    /// Returns the files of the program, by their paths in its package. `target` is the name of its
    /// executable, and `labels` has one for each cell. `patches` are tables for the manifest.
    pub fn files(
        &self,
        settings: &Settings,
        target: &str,
        labels: &[String],
        patches: &Table,
    ) -> Vec<(String, String)> {
        vec![
            ("Cargo.toml".to_owned(), settings.manifest(target, patches)),
            ("lib.rs".to_owned(), String::new()),
            (format!("tests/{target}.rs"), self.source(labels, settings.debug_errors)),
        ]
    }

    /// Returns the number of lines from the beginning of a cell's code to that of the next one: a
    /// power of ten that is larger than any cell, and than the code before the first one.
    pub fn stride(&self) -> usize {
        let longest = self.cells.iter().map(|cell| cell.parsed.code.lines().count()).max().unwrap_or(0);
        let mut stride = 1000;
        while stride < longest + 10 {
            stride *= 10;
        }
        stride
    }

    fn source(&self, labels: &[String], debug_errors: bool) -> String {
        let stride = self.stride();
        let awaits = self.cells.iter().any(|cell| cell.parsed.awaits);
        let mut text = "#![allow(warnings, clippy::all)]\n".to_owned();
        for cell in &self.cells {
            for attribute in &cell.parsed.attributes {
                _ = writeln!(text, "{}", one_line(attribute));
            }
        }
        for cell in &self.cells {
            for extern_crate in &cell.parsed.extern_crates {
                _ = writeln!(text, "{}", one_line(&extern_crate.text));
            }
        }
        let error_trait = if debug_errors { "Debug" } else { "Display" };
        text.push_str(&SUPPORT.replace("ErrorTrait", error_trait).replace("STRIDE", &stride.to_string()));
        text.push_str(if awaits { ASYNC_START } else { START });
        let mut format = DEBUG.to_owned();
        let mut blocks = 0;
        for (cell, label) in self.cells.iter().zip(labels) {
            for placed in &cell.parsed.commands {
                if let Command::Format(new) = &placed.command {
                    format.clone_from(new);
                }
            }
            if cell.parsed.has_code() {
                add_cell(&mut text, cell, label, &format, stride);
                blocks += 1;
            }
        }
        text.push_str(&"}".repeat(blocks));
        text.push_str(if awaits { ASYNC_END } else { END });
        text
    }
}

const START: &str =
    "\nfn cells() -> ::std::result::Result<(), __notebook::Failure> {\nuse __notebook::Show as _;\n";
const END: &str = "\nOk(())\n}\n";
const ASYNC_START: &str = "
fn cells() -> ::std::result::Result<(), __notebook::Failure> {
let mut __runtime = ::tokio::runtime::Runtime::new().expect(\"tokio starts\");
__runtime.block_on(async {
use __notebook::Show as _;
";
const ASYNC_END: &str = "\n::std::result::Result::<(), __notebook::Failure>::Ok(())\n})\n}\n";

fn add_cell(text: &mut String, cell: &NotebookCell, label: &str, format: &str, stride: usize) {
    let number = cell.parsed.number;
    // Every cell gets a block, also one without items.
    text.push_str("{ ");
    for copy in &cell.copies {
        // A line comment would swallow what follows it on the line.
        text.push_str(copy);
        text.push('\n');
    }
    let first_line = number * stride;
    let lines = text.matches('\n').count() + 1;
    text.push_str(&"\n".repeat(first_line.saturating_sub(lines)));
    _ = writeln!(
        text,
        "let {CELL} = __notebook::Cell::new({number}); let {SCOPE} = ::memprof::scope!(\"{{}}\", {label:?});"
    );
    let code = &cell.parsed.code;
    let mut done = 0;
    for (end, name) in &cell.parsed.variables {
        let stored = added(&format!(" ::std::hint::black_box(&{name});"));
        _ = write!(text, "{}{stored}", &code[done..*end]);
        done = *end;
    }
    match &cell.parsed.shown {
        Some(range) => {
            let (before, shown, after) = (&code[done..range.start], &code[range.clone()], &code[range.end..]);
            let (open, close) = if format == DEBUG {
                (added("(&("), added("\n)).evcxr_display();"))
            } else {
                (added(&format!("::std::println!({format:?}, &(")), added("\n));"))
            };
            _ = write!(text, "{before}{open}{shown}{close}{after}");
        }
        None => text.push_str(&code[done..]),
    }
    _ = writeln!(text, "\n; ::std::mem::drop({SCOPE}); ::std::mem::drop({CELL});");
}

/// Returns a part of the program within the code of a cell, marked as such.
fn added(text: &str) -> String {
    let [open, close] = NOT_IN_SOURCE;
    format!("{open}{text}{close}")
}

/// Returns a text that takes one line, so that the lines of the cells stay where they are.
fn one_line(text: &str) -> String {
    text.lines().map(str::trim).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notebook(sources: &[&str]) -> Result<Notebook, UserError> {
        let cells: Vec<serde_json::Value> = sources
            .iter()
            .map(|source| serde_json::json!({"cell_type": "code", "source": source, "outputs": [], "metadata": {}}))
            .collect();
        let text = serde_json::json!({"nbformat": 4, "nbformat_minor": 4, "metadata": {}, "cells": cells});
        let document = Document::read("a.ipynb", text.to_string()).unwrap();
        Notebook::read("a.ipynb", &document, &BTreeSet::new())
    }

    fn main_file(sources: &[&str]) -> String {
        let notebook = notebook(sources).unwrap();
        let labels: Vec<String> =
            notebook.cells.iter().map(|cell| format!("cell {}", cell.parsed.number)).collect();
        let none = |_: &str| Err(String::new());
        let settings = notebook.settings("a.ipynb", &none).unwrap();
        notebook.files(&settings, "a", &labels, &Table::new())[2].1.clone()
    }

    /// The cells, without the empty lines between them and the code before them.
    fn cells_of(source: &str) -> String {
        let lines: Vec<(usize, &str)> =
            source.lines().enumerate().skip_while(|(_, line)| !line.contains("fn cells()")).collect();
        let shown = lines.iter().filter(|(_, line)| !line.trim().is_empty());
        shown.map(|(at, line)| format!("{:>4} {line}", at + 1)).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn cells_become_nested_blocks_at_lines_of_their_own() {
        let source = main_file(&[
            ":dep rand = \"0.9\"\n#![feature(x)]\nuse std::rc::Rc;\nlet mut v = Vec::new();",
            "fn f() -> u8 { 1 }\nfn g() -> u8 { f() }",
            "v.push(f()); // é\nv",
            ":fmt {:#?}\nfn f() -> u8 { 2 }\nv.len() // the end",
            "// nothing",
            "let n: u8 = \"7\".parse()?;",
        ]);
        assert!(syn::parse_file(&source).is_ok(), "{source}");
        insta::assert_snapshot!(cells_of(&source));
    }

    #[test]
    fn await_makes_the_whole_function_asynchronous() {
        let source = main_file(&["let a = async { 1 };", "a.await"]);
        assert!(syn::parse_file(&source).is_ok(), "{source}");
        insta::assert_snapshot!(cells_of(&source));
    }

    #[test]
    fn a_long_cell_moves_all_cells_apart() {
        let long = "f();\n".repeat(1200);
        let source = main_file(&[&long, "g();"]);
        assert_eq!(source.lines().nth(20_000), Some("g();"));
    }

    #[test]
    fn a_cell_of_3000_variables_keeps_its_lines() {
        let lines = (0..3000).map(|number| format!("let v{number} = vec![{number}];")).collect::<Vec<_>>();
        let source = main_file(&[&lines.join("\n"), "v2999.len()"]);
        let found: Vec<&str> = source.lines().skip_while(|line| !line.contains("let v0 ")).collect();
        for (line, given) in found.iter().zip(&lines) {
            assert!(line.contains(given.as_str()), "{line}");
        }
        assert!(found.len() > 3000 && found[3000..].iter().any(|line| line.contains("v2999.len()")));
        assert!(syn::parse_file(&source).is_ok());
    }

    #[test]
    fn mistakes_name_the_notebook_cell_and_line() {
        let error = notebook(&["let a = 1;", "// text\nlet a = ;"]).unwrap_err();
        assert_eq!(error.message, "a.ipynb: cell 2, line 2: this is not Rust: expected an expression");
        assert!(notebook(&["// text", ":vars"]).unwrap_err().message.contains("no Rust code"));
    }
}
