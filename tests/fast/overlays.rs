//! Overlays that would hide a change, on real repositories.

use std::cell::RefCell;

use crate::support::TestRepository;
use memprof_build::git::resolve::resolve;
use memprof_build::inject::{hidden_changes, overlay_packages};
use memprof_plan::request::{OverlayMode, OverlayPath, OverlayRequest, RefRequest, Request};
use memprof_support::event::Event;

const MANIFEST: &str = "[package]\nname = \"fixture\"\nversion = \"0.1.0\"\nedition = \"2024\"\n";

/// `main` and `feature`: they differ in `src/lib.rs`, and only `feature` has `tests/new.rs`.
fn two_branches() -> TestRepository {
    let mut repository = TestRepository::new();
    repository.write("Cargo.toml", MANIFEST);
    repository.write("src/lib.rs", "pub fn one() -> u32 { 1 }\n");
    repository.write("src/equal.rs", "// the same\n");
    repository.commit("first");
    repository.git(["switch", "--quiet", "--create", "feature"]);
    repository.write("src/lib.rs", "pub fn one() -> u32 { 2 }\n");
    repository.write("tests/new.rs", "// new\n");
    repository.commit("second");
    repository.git(["branch", "--quiet", "later"]);
    repository
}

/// Returns the plan's notes for an overlay of files beside the repository, and the warnings.
fn noted(repository: &TestRepository, package: Option<&str>, files: &[(&str, &str)]) -> Vec<String> {
    let mut paths = Vec::new();
    for (number, (destination, content)) in files.iter().enumerate() {
        let source = repository.beside(&format!("overlay-{number}.rs"));
        std::fs::write(&source, content).unwrap();
        let source = source.to_str().unwrap().to_owned();
        paths.push(OverlayPath { source, destination: Some((*destination).to_owned()) });
    }
    let overlay = OverlayRequest {
        from: None,
        paths,
        package: package.map(str::to_owned),
        mode: OverlayMode::Package,
        dependencies: std::collections::BTreeMap::default(),
    };
    let reference = |spec: &str| RefRequest { spec: spec.to_owned(), ..RefRequest::default() };
    let refs = ["main", "feature", "later"].map(reference).to_vec();
    let request = Request { refs, overlay: vec![overlay], ..Request::default() };
    let opened = repository.open();
    let mut plan = resolve(&request, &opened, &|_| ()).unwrap();
    let warnings = RefCell::new(Vec::new());
    let collect = |event: Event| {
        if let Event::Warning { message, help } = event {
            assert!(help.unwrap().contains("--overlay-patch"), "{message}");
            warnings.borrow_mut().push(message);
        }
    };
    hidden_changes::note(&mut plan, &opened, &collect).unwrap();
    assert_eq!(plan.notes, warnings.into_inner(), "the plan keeps what was warned of");
    plan.notes
}

#[test]
fn an_overlay_that_replaces_a_changed_file_is_named_with_the_revisions() {
    let repository = two_branches();
    let short = |name: &str| repository.git(["rev-parse", "--short=7", name]);
    let (main, feature) = (short("main"), short("feature"));
    let between = format!("main ({main}) and feature ({feature}) and later ({feature})");
    for content in ["pub fn one() -> u32 { 3 }\n", "pub fn one() -> u32 { 2 }\n"] {
        let expected = format!(
            "the overlay replaces src/lib.rs, which differs between {between}: this change is not measured"
        );
        for package in [None, Some("fixture")] {
            let found = noted(&repository, package, &[("src/lib.rs", content)]);
            assert_eq!(found.join("; "), expected, "{package:?}");
        }
    }
    let both = noted(&repository, None, &[("src/lib.rs", "x"), ("tests/new.rs", "not the same\n")]);
    let [both] = &both[..] else { panic!("one warning for both: {both:?}") };
    assert!(both.contains("replaces 2 files") && both.contains("(src/lib.rs, tests/new.rs)"), "{both}");
}

#[test]
fn an_overlay_that_hides_no_change_is_not_warned_of() {
    let repository = two_branches();
    for file in [
        ("src/equal.rs", "replaced\n"),
        ("tests/memory.rs", "no revision has it\n"),
        // The overlay gives the file to the revision that lacks it.
        ("tests/new.rs", "// new\n"),
    ] {
        assert!(noted(&repository, None, &[file]).is_empty(), "{file:?}");
    }
}

#[test]
fn a_checkpoint_at_a_line_with_another_text_is_noted_and_one_of_an_unknown_ref_refused() {
    let repository = two_branches();
    let opened = repository.open();
    let notes_of = |checkpoint: &str| {
        let reference = |spec: &str| RefRequest { spec: spec.to_owned(), ..RefRequest::default() };
        let request = Request {
            refs: ["main", "feature"].map(reference).to_vec(),
            checkpoints_at: vec![checkpoint.parse().unwrap()],
            ..Request::default()
        };
        let mut plan = resolve(&request, &opened, &|_| ()).unwrap();
        hidden_changes::note(&mut plan, &opened, &|_| ()).map(|()| plan.notes)
    };
    let notes = notes_of("src/lib.rs:1=x").unwrap();
    let [note] = &notes[..] else { panic!("one note: {notes:?}") };
    assert!(note.starts_with("src/lib.rs:1 is `pub fn one() -> u32 { 1 }` in main ("), "{note}");
    assert!(note.ends_with("the checkpoint 'x' stands at different code"), "{note}");
    for fine in ["src/equal.rs:1=x", "main:src/lib.rs:1=x", "tests/new.rs:1=x"] {
        assert!(notes_of(fine).unwrap().is_empty(), "{fine}");
    }
    let error = notes_of("later:src/lib.rs:1=x").unwrap_err().to_string();
    assert!(error.ends_with("this ref is not among main, feature"), "{error}");
}

/// A root package that cargo builds by default, a member that it does not build, and a package of
/// another workspace.
fn with_members() -> TestRepository {
    let mut repository = TestRepository::new();
    let manifest = |name: &str| format!("[package]\nname = \"{name}\"\nversion = \"0.1.0\"\n");
    repository.write(
        "Cargo.toml",
        manifest("root") + "[workspace]\nmembers = [\"syntax\"]\nexclude = [\"other\"]\n",
    );
    repository.write("syntax/Cargo.toml", manifest("syntax"));
    repository.write("other/Cargo.toml", manifest("other") + "[workspace]\n");
    for folder in ["", "syntax/", "other/"] {
        repository.write(&format!("{folder}src/lib.rs"), "");
    }
    repository.commit("first");
    repository.git(["branch", "--quiet", "feature"]);
    repository
}

/// Returns `-p` of the completed plan and the package of its overlay, or the rendered error.
fn completed(
    repository: &TestRepository,
    manifest_path: Option<&str>,
    packages: &[&str],
    overlay: OverlayRequest,
) -> Result<(Vec<String>, Option<String>), String> {
    let reference = |spec: &str| RefRequest { spec: spec.to_owned(), ..RefRequest::default() };
    let mut request = Request {
        refs: ["main", "feature"].map(reference).to_vec(),
        overlay: vec![overlay],
        ..Request::default()
    };
    request.build.manifest_path = manifest_path.map(str::to_owned);
    request.build.settings.packages = packages.iter().map(|name| (*name).to_owned()).collect();
    let opened = repository.open();
    let mut plan = resolve(&request, &opened, &|_| ()).unwrap();
    overlay_packages::complete(&mut plan, &opened, &|_| ())
        .map_err(|error| error.downcast::<memprof_support::user_error::UserError>().unwrap().rendered())?;
    Ok((plan.request.build.settings.packages, plan.request.overlay[0].package.clone()))
}

fn overlay_to(repository: &TestRepository, destination: &str, mode: OverlayMode) -> OverlayRequest {
    let source = repository.beside("memory.rs");
    std::fs::write(&source, "// a test\n").unwrap();
    let path = OverlayPath {
        source: source.to_str().unwrap().to_owned(),
        destination: Some(destination.to_owned()),
    };
    OverlayRequest {
        from: None,
        paths: vec![path],
        package: None,
        mode,
        dependencies: std::collections::BTreeMap::default(),
    }
}

#[test]
fn the_package_to_build_follows_from_the_overlays_path() {
    let repository = with_members();
    let built = |packages: &[&str], overlay| completed(&repository, None, packages, overlay).unwrap().0;
    let to = |destination| overlay_to(&repository, destination, OverlayMode::Package);
    assert_eq!(built(&[], to("syntax/tests/memory.rs")), ["syntax"]);
    assert!(built(&[], to("tests/memory.rs")).is_empty(), "cargo builds the root by default");
    assert!(built(&[], to("syntax/src/lib.rs")).is_empty(), "this is no test");
    assert!(built(&[], to("other/tests/memory.rs")).is_empty(), "this is no member");
    assert_eq!(built(&["root"], to("syntax/tests/memory.rs")), ["root"], "the user chose");
    let named = OverlayRequest { package: Some("syntax".to_owned()), ..to("tests/memory.rs") };
    assert_eq!(built(&[], named), ["syntax"]);
    let external = overlay_to(&repository, "tests/memory.rs", OverlayMode::External);
    assert_eq!(completed(&repository, None, &[], external).unwrap().1.as_deref(), Some("root"));
}

#[test]
fn an_overlay_outside_the_workspace_is_refused_before_a_build() {
    let repository = with_members();
    let overlay = overlay_to(&repository, "tests/memory.rs", OverlayMode::Package);
    let source = overlay.paths[0].source.clone();
    let refused = completed(&repository, Some("other/Cargo.toml"), &[], overlay).unwrap_err();
    assert_eq!(
        refused,
        format!(
            "error: overlay: 'tests/memory.rs' is in no package of the workspace 'other/Cargo.toml'\n  \
             help: the nearest package is other: --overlay {source}=other/tests/memory.rs"
        )
    );
    // A file that the revisions have may be included from anywhere, and so may data.
    for destination in ["src/lib.rs", "data/sizes.txt"] {
        let overlay = overlay_to(&repository, destination, OverlayMode::Package);
        assert!(completed(&repository, Some("other/Cargo.toml"), &[], overlay).is_ok(), "{destination}");
    }
}

#[test]
fn an_overlay_whose_test_would_have_two_names_is_refused_with_a_command_that_works() {
    let mut repository = with_members();
    repository.git(["switch", "--quiet", "feature"]);
    repository.write("syntax/tests/Cargo.toml", "[package]\nname = \"syntax-tests\"\nversion = \"0.1.0\"\n");
    repository.commit("the tests are a package");
    let overlay = overlay_to(&repository, "syntax/tests/memory.rs", OverlayMode::Package);
    let source = overlay.paths[0].source.clone();
    let refused = completed(&repository, None, &[], overlay).unwrap_err();
    assert_eq!(
        refused,
        format!(
            "error: overlay: 'syntax/tests/memory.rs' is in the package syntax at main, and in syntax-tests at \
             feature, so its tests have two names and would not be compared\n  \
             help: in a crate of their own they have one name: cargo memprof main feature \
             --overlay {source}=tests/memory.rs --overlay-mode external --overlay-package syntax"
        )
    );
}
