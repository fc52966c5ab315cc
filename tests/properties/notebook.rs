//! Jupyter notebooks. A pull request can bring one, and every cell becomes a part of a program.

use std::collections::{BTreeMap, BTreeSet};

use memprof_build::notebook::document::Document;
use memprof_build::notebook::program::Notebook;

use super::Target;

pub const TARGET: Target = Target {
    name: "notebook",
    check,
    seeds,
    words: &[
        "\"cells\"",
        "\"cell_type\": \"code\"",
        "\"source\"",
        "\"outputs\": []",
        "\"metadata\"",
        "\"tags\": [\"memprof-skip\"]",
        "\"nbformat\": 4",
        ":dep serde = \\\"1\\\"",
        ":opt 3",
        "!ls",
        "\\n",
        "fn f() {}",
        "let x = 1;",
        "use a::*;",
        "x?",
        "#![feature(a)]",
        "extern crate a;",
        "null",
    ],
};

/// An error names the notebook. What is accepted becomes a program, in which each cell begins at its line.
pub fn check(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let document = match Document::read("a.ipynb", text.to_owned()) {
        Ok(document) => document,
        Err(error) => return assert!(error.message.starts_with("a.ipynb"), "{error}"),
    };
    assert_eq!(document.text(), text);
    let same = document.with_reports(&BTreeMap::new()).expect("nothing is added");
    Document::read("a.ipynb", same).expect("it was a notebook before");
    let notebook = match Notebook::read("a.ipynb", &document, &BTreeSet::new()) {
        Ok(notebook) => notebook,
        Err(error) => return assert!(error.message.starts_with("a.ipynb"), "{error}"),
    };
    let stride = notebook.stride();
    let longest = notebook.cells.iter().map(|cell| cell.parsed.code.lines().count()).max();
    assert!(longest.is_some_and(|longest| longest < stride), "{longest:?} lines, {stride} for each cell");
}

fn seeds() -> Vec<Vec<u8>> {
    let cell = |source: &str| {
        format!(
            r#"{{"cell_type": "code", "execution_count": null, "id": "a", "metadata": {{}}, "outputs": [], "source": {source}}}"#
        )
    };
    let notebook = |cells: &[String]| {
        format!(
            r#"{{"cells": [{}], "metadata": {{}}, "nbformat": 4, "nbformat_minor": 5}}"#,
            cells.join(", ")
        )
    };
    [
        notebook(&[cell(r#""let kept = vec![0_u8; 1 << 20];""#), cell(r#"["fn f() {}\n", "f()"]"#)]),
        notebook(&[cell(r#"":dep serde = \"1\"\n#![feature(a)]\nextern crate serde;\nuse serde::*;""#)]),
        notebook(&[cell(r#""let m: u8 = \"x\".parse()?;\nm""#), cell(r#""let x = async {}.await;""#)]),
        notebook(&[r#"{"cell_type": "markdown", "metadata": {}, "source": "text"}"#.to_owned()]),
        r#"{"nbformat": 3, "worksheets": []}"#.to_owned(),
    ]
    .into_iter()
    .map(String::into_bytes)
    .collect()
}
