//! Revisions with the crate `memprof` in their manifest: the shim takes its place.

use std::path::Path;

use crate::support::csv::{Value, kept, memprof, values};
use crate::support::{Printed, TestRepository, home, skip, succeed};

const LIBRARY: &str = "//! Keeps memory.\n\n/// Bytes.\npub fn kept() -> Vec<u8> {\n    std::hint::black_box(vec![1; 1 << 20])\n}\n";

/// A test that knows the crate under this name.
fn test(name: &str, body: &str) -> String {
    format!(
        "#![deny(warnings)]\n#[test]\nfn keeps() {{\n    {}\n}}\n",
        body.replace("memprof::", &format!("{name}::"))
    )
}

/// Commits a revision whose manifest has these dev-dependencies, and tags it.
fn commit(repository: &mut TestRepository, tag: &str, dependencies: &str, test: &str) {
    let manifest = "[package]\nname = \"engine\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[lints.rust]\n\
                    unexpected_cfgs = { level = \"warn\", check-cfg = [\"cfg(memprof)\"] }\n";
    repository.write("Cargo.toml", format!("{manifest}\n[dev-dependencies]\n{dependencies}\n"));
    repository.write(".gitignore", "/target\n");
    repository.write("src/lib.rs", LIBRARY);
    repository.write("tests/keep.rs", test);
    succeed(repository.command("cargo").args(["generate-lockfile", "--offline"]));
    repository.commit(tag);
    repository.git(["tag", tag]);
}

/// Copies the crate into a folder of the repository. `false` if this is a package without it.
fn copy_crate(repository: &TestRepository, folder: &str) -> bool {
    let original = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/memprof");
    if !original.is_dir() {
        skip("crates/memprof is not here; it is a package of its own");
        return false;
    }
    copy(&original.join("src"), repository, &format!("{folder}/src"));
    let manifest = std::fs::read_to_string(original.join("Cargo.toml")).expect("it has a manifest");
    repository.write(&format!("{folder}/Cargo.toml"), manifest);
    true
}

fn copy(from: &Path, repository: &TestRepository, to: &str) {
    for entry in std::fs::read_dir(from).expect("the folder is there") {
        let path = entry.expect("it can be read").path();
        let name = path.file_name().and_then(|name| name.to_str()).expect("text").to_owned();
        if path.is_dir() {
            copy(&path, repository, &format!("{to}/{name}"));
            continue;
        }
        repository.write(&format!("{to}/{name}"), std::fs::read(&path).expect("it can be read"));
    }
}

fn run(repository: &TestRepository, refs: &str) -> (Printed, Vec<Value>) {
    let home = home();
    let one = [refs, "--offline", "--format", "csv"];
    let several = ["--refs", refs, "--offline", "--format", "csv"];
    let arguments = if refs.contains(',') { &several[..] } else { &one[..] };
    let printed = memprof(repository.root(), home.path(), arguments);
    let values = values(&printed);
    (printed, values)
}

fn has_checkpoint(values: &[Value], name: &str) -> bool {
    values.iter().any(|value| value.r#ref == name && value.checkpoint == "kept" && value.value.is_some())
}

/// What the test keeps, without what the harness keeps in each revision.
fn kept_at(values: &[Value], name: &str) -> u64 {
    let kept = kept(values);
    *kept.get(&("engine::keep::keeps".to_owned(), name.to_owned())).unwrap_or_else(|| panic!("{kept:?}"))
}

const MEASURES: &str = "let (kept, used) = memprof::measure(\"measured\", engine::kept);\n    \
    assert!(used.heap.rise < 4 << 20, \"{used}\");\n    memprof::assert_allocations!(used, 1);\n    \
    assert_eq!(used.heap.kept.get().is_some(), cfg!(memprof), \"{used}\");\n    std::mem::forget(kept);\n    \
    memprof::checkpoint!(\"kept\");";

#[test]
fn revisions_with_the_crate_without_it_and_with_another_version_compare_to_the_byte() {
    let mut repository = TestRepository::new();
    commit(&mut repository, "without", "", &test("", "std::mem::forget(engine::kept());"));
    if !copy_crate(&repository, "vendored/memprof") {
        return;
    }
    let measures = test("memprof", MEASURES);
    commit(&mut repository, "with", "memprof = { path = \"vendored/memprof\" }", &measures);
    succeed(repository.command("cargo").args(["test", "--offline", "--quiet"]));
    // A version with less in it, and under another name.
    repository.write(
        "vendored/memprof/Cargo.toml",
        "[package]\nname = \"memprof\"\nversion = \"0.0.3\"\nedition = \"2018\"\n[workspace]\n",
    );
    repository.write(
        "vendored/memprof/src/lib.rs",
        "#[doc(hidden)]\npub mod cargo_memprof_replaces_this_crate {}\n\
         #[macro_export]\nmacro_rules! checkpoint { ($($any:tt)*) => {} }\n",
    );
    let renamed = test("memory", "std::mem::forget(engine::kept());\n    memprof::checkpoint!(\"kept\");");
    let dependency = "memory = { package = \"memprof\", path = \"vendored/memprof\" }";
    commit(&mut repository, "another", dependency, &renamed);

    let (printed, values) = run(&repository, "without,with,another");
    assert_eq!(printed.code, 0, "{}", printed.everything());
    let without = kept_at(&values, "without");
    assert!((1 << 20..(1 << 20) + 4096).contains(&without), "{without}");
    assert_eq!([kept_at(&values, "with"), kept_at(&values, "another")], [without; 2]);
    assert!(!has_checkpoint(&values, "without"), "{}", printed.stdout);
    assert!(has_checkpoint(&values, "with") && has_checkpoint(&values, "another"), "{}", printed.stdout);
}

#[test]
fn the_crate_beside_the_repository_is_found_from_the_checkout() {
    let mut repository = TestRepository::new();
    commit(&mut repository, "without", "", &test("", "std::mem::forget(engine::kept());"));
    if !copy_crate(&repository, "../clone/memprof") {
        return;
    }
    let dependency = "memprof = { path = \"../clone/memprof\" }";
    commit(&mut repository, "with", dependency, &test("memprof", MEASURES));
    let renamed = "memory = { package = \"memprof\", path = \"../clone/memprof\" }";
    commit(&mut repository, "renamed", renamed, &test("memory", MEASURES));
    repository.git(["rm", "--quiet", "Cargo.lock"]);
    repository.write(".gitignore", "/target\nCargo.lock\n");
    repository.commit("without a lock file");
    repository.git(["tag", "unlocked"]);
    for (refs, with) in
        [("without,with,renamed", ["with", "renamed"]), ("unlocked,with", ["unlocked", "with"])]
    {
        let (printed, values) = run(&repository, refs);
        assert_eq!(printed.code, 0, "{}", printed.everything());
        let [one, other] = with.map(|name| kept_at(&values, name));
        assert_eq!(one, other, "{}", printed.stdout);
        assert!(with.iter().all(|name| has_checkpoint(&values, name)), "{}", printed.stdout);
    }
    let (printed, values) = run(&repository, "unlocked");
    assert!(has_checkpoint(&values, "unlocked"), "{}", printed.everything());
}

#[test]
fn an_assertion_that_does_not_hold_is_over_the_limit_with_its_message() {
    let mut repository = TestRepository::new();
    if !copy_crate(&repository, "memprof") {
        return;
    }
    let body = "let (_kept, used) = memprof::measure(\"measured\", engine::kept);\n    \
                memprof::assert_heap_peak!(used, 1 << 19, \"a page\");";
    let own = "#[test]\nfn shows_the_usage() {\n    \
               let (_kept, used) = memprof::measure(\"measured\", engine::kept);\n    \
               assert!(used.heap.rise < 1 << 19, \"{used}\");\n}\n";
    let tests = test("memprof", body) + own;
    commit(&mut repository, "limited", "memprof = { path = \"memprof\" }", &tests);
    let home = home();
    let arguments = ["limited", "--offline", "--why", "--format", "csv"];
    let printed = memprof(repository.root(), home.path(), &arguments);
    assert_eq!(printed.code, 1, "{}", printed.everything());
    let values = values(&printed);
    assert!(values.iter().all(|value| value.outcome == "over_limit"), "{}", printed.stdout);
    let json = memprof(repository.root(), home.path(), &["report", "--format", "json"]);
    let report: serde_json::Value = serde_json::from_str(&json.stdout).expect("it is JSON");
    for (index, name) in ["keeps", "shows_the_usage"].into_iter().enumerate() {
        let row = &report["why"]["rows"][index];
        assert_eq!((&row["test"], &row["is_limit"]), (&name.into(), &true.into()), "{row}");
        let site = &row["groups"][0];
        assert_eq!(site["name"], "engine::kept", "{site}");
        assert_eq!(site["difference"], 1 << 20, "{site}");
    }
    let table = memprof(repository.root(), home.path(), &["report"]);
    let told = table.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    let message = "assert_heap_peak! at tests/keep.rs:5: a page: the heap rose by 1.00 MiB (1048576 B), and the limit \
                   is 512 KiB (524288 B)";
    assert!(told.contains(message), "{}", table.everything());
}

#[test]
fn a_copy_of_the_shim_in_a_manifest_is_linked_once() {
    let mut repository = TestRepository::new();
    commit(&mut repository, "without", "", &test("", "std::mem::forget(engine::kept());"));
    let templates = Path::new(env!("CARGO_MANIFEST_DIR")).join("templates/memprof");
    copy(&templates, &repository, "memprof/src");
    let manifest = "[package]\nname = \"memprof\"\nversion = \"9.9.9\"\nedition = \"2021\"\n[workspace]\n";
    repository.write("memprof/Cargo.toml", manifest);
    commit(&mut repository, "with", "memprof = { path = \"memprof\" }", &test("memprof", MEASURES));
    let (printed, values) = run(&repository, "without,with");
    assert_eq!(printed.code, 0, "{}", printed.everything());
    assert_eq!(kept_at(&values, "with"), kept_at(&values, "without"), "{}", printed.stdout);
    assert!(has_checkpoint(&values, "with"), "{}", printed.stdout);
}

#[test]
fn a_test_file_for_the_tool_alone_needs_no_crate_in_the_manifest() {
    let mut repository = TestRepository::new();
    let text = format!("#![cfg(memprof)]\n{}", test("memprof", MEASURES));
    commit(&mut repository, "alone", "", &text);
    succeed(repository.command("cargo").args(["test", "--offline", "--quiet"]));
    let (printed, values) = run(&repository, "alone");
    assert_eq!(printed.code, 0, "{}", printed.everything());
    assert!(has_checkpoint(&values, "alone"), "{}", printed.stdout);
}

/// A crate that depends on others, with this library.
fn write_crate(repository: &TestRepository, folder: &str, name: &str, dependencies: &str, library: &str) {
    let manifest = format!("[package]\nname = \"{name}\"\nversion = \"1.0.0\"\nedition = \"2021\"\n");
    repository.write(&format!("{folder}/Cargo.toml"), format!("{manifest}[dependencies]\n{dependencies}\n"));
    repository.write(&format!("{folder}/src/lib.rs"), library);
    repository.write(&format!("{folder}/.cargo-checksum.json"), "{\"files\":{}}");
}

#[test]
fn crates_of_the_registry_and_beside_the_workspace_log_their_checkpoints() {
    let mut repository = TestRepository::new();
    if !copy_crate(&repository, "vendor/memprof") {
        return;
    }
    repository.write("vendor/memprof/.cargo-checksum.json", "{\"files\":{}}");
    let config =
        "[source.crates-io]\nreplace-with = \"vendored\"\n[source.vendored]\ndirectory = \"vendor\"\n";
    repository.write(".cargo/config.toml", config);
    let inside = |label: &str| {
        format!(
            "pub fn work() -> bool {{ memprof::checkpoint!(\"{label}\"); cfg!(memprof) }}\n\
             pub fn scope() -> memprof::Scope {{ memprof::scope!(\"{label}\") }}\n"
        )
    };
    write_crate(&repository, "vendor/used", "used", "memprof = \"0.1\"", &inside("in the registry"));
    write_crate(&repository, "vendor/middle", "middle", "used = \"1\"", "pub use used::{scope, work};\n");
    write_crate(&repository, "beside", "beside", "memprof = \"0.1\"", &inside("beside"));
    let body = "assert_eq!([middle::work(), beside::work()], [cfg!(memprof); 2]);\n    \
                let scopes: [memprof::Scope; 2] = [middle::scope(), beside::scope()];\n    drop(scopes);\n    \
                std::mem::forget(engine::kept());\n    memprof::checkpoint!(\"kept\");";
    let dependencies = "memprof = \"0.1\"\nmiddle = \"1\"\nbeside = { path = \"beside\" }";
    commit(&mut repository, "with", dependencies, &test("memprof", body));
    succeed(repository.command("cargo").args(["test", "--offline", "--quiet"]));
    let (printed, values) = run(&repository, "with");
    assert_eq!(printed.code, 0, "{}", printed.everything());
    for label in ["in the registry", "beside", "kept"] {
        assert!(values.iter().any(|value| value.checkpoint == label), "{label}: {}", printed.everything());
    }
}
