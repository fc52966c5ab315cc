//! Spans of `tracing` have what their polls consume, on every thread, compared between revisions.

use crate::support::TestRepository;
use crate::support::traced::{calls, report};
use serde_json::Value;

const MANIFEST: &str = r#"[package]
name = "app"
version = "0.1.0"
edition = "2021"

[dependencies]
tracing = { version = "0.1.40", default-features = false, features = ["std"] }
tracing-subscriber = { version = "0.3.18", default-features = false, features = ["registry"] }
"#;

#[test]
fn each_span_has_the_memory_of_its_polls() {
    let test = include_str!("../../fixtures/adapters/spans.rs");
    let mut repository = TestRepository::new();
    repository.write("Cargo.toml", MANIFEST);
    repository.write(".gitignore", "target\n");
    repository.write("src/lib.rs", "");
    repository.write("tests/spans.rs", test);
    repository.commit("old");
    repository.git(["branch", "old"]);
    repository.write("tests/spans.rs", test.replace("100_000", "150_000"));
    repository.commit("new");
    repository.git(["branch", "new"]);

    let report = report(&repository, &["--refs", "old,new", "--repeat", "1", "--threshold", "*=off"]);
    let tests: Vec<&Value> = report["cells"].as_array().unwrap().iter().map(|cell| &cell["test"]).collect();
    assert_eq!(tests.len(), 8, "{tests:#?}");
    for cell in report["cells"].as_array().unwrap() {
        let of = cell["ref"].as_str().unwrap();
        let one = serde_json::json!({ "cells": [cell] });
        let small = if of == "old" { 100_000 } else { 150_000 };
        let test = cell["test"].as_str().unwrap();
        if test.ends_with("::beside_a_busy_thread") {
            assert_eq!(calls(&one, of, "spans::polled"), (50, 50 * small / 10, small), "{cell:#}");
            continue;
        }
        if test.ends_with("::in_any_order") {
            assert_eq!(calls(&one, of, "spans::first"), (1, 30_000, 30_000), "{cell:#}");
            assert_eq!(calls(&one, of, "spans::second"), (1, 20_000, small), "{cell:#}");
            assert_eq!(calls(&one, of, "spans::third"), (1, 0, small), "{cell:#}");
            continue;
        }
        // Each future is polled twice, and entered once more when it is dropped. What it returns is alive when its
        // span is exited.
        assert_eq!(calls(&one, of, "spans::small"), (3, small, 2 * small), "{cell:#}");
        assert_eq!(calls(&one, of, "spans::large"), (3, 300_000, 600_000), "{cell:#}");
    }
}
