//! Sides: one commit with other dependencies, lock files and settings. The dependencies come from a
//! registry on the disk.

use std::fs;

use crate::lockfiles::{EARLY, Registry};
use crate::support::csv::{command, kept, values};
use crate::support::traced::calls;
use crate::support::{Printed, TestRepository, home};

fn mebibytes(count: usize) -> String {
    format!("pub fn kept() -> Vec<u8> {{ vec![1; {count} << 20] }}\n")
}

/// A package that keeps what `stock` and `shelf` allocate, with the lock file of the oldest versions.
/// `stock` 1.2.0 needs a newer `shelf`; 1.3.0 exists and does not meet the requirement.
fn shop() -> TestRepository {
    let mut repository = TestRepository::new();
    let registry = Registry::of(&repository);
    registry.publish("shelf", "1.0.0", EARLY, &mebibytes(1), false);
    registry.publish("shelf", "1.1.0", EARLY, &mebibytes(4), false);
    registry.publish_with(&[("shelf", "1")], "stock", "1.0.0", EARLY, &mebibytes(1), false);
    registry.publish_with(&[("shelf", "1")], "stock", "1.1.0", EARLY, &mebibytes(2), false);
    registry.publish_with(&[("shelf", "1.1")], "stock", "1.2.0", EARLY, &mebibytes(3), false);
    registry.publish_with(&[("shelf", "1")], "stock", "1.3.0", EARLY, &mebibytes(9), false);
    repository.write(
        "Cargo.toml",
        "[package]\nname = 'shop'\nversion = '0.1.0'\nedition = '2021'\n[features]\ndefault = ['small']\nsmall = []\n\
         large = []\n[dependencies]\nstock = '>=1.0.0, <1.3.0'\nshelf = '1'\n",
    );
    repository.write("src/lib.rs", "");
    repository.write(
        "tests/keeps.rs",
        "#[test]\nfn keeps() {\n    std::mem::forget((stock::kept(), shelf::kept()));\n    \
         if cfg!(feature = \"large\") { std::mem::forget(std::hint::black_box(vec![1u8; 16 << 20])); }\n    \
         if cfg!(not(feature = \"small\")) { std::mem::forget(std::hint::black_box(vec![1u8; 32 << 20])); }\n}\n",
    );
    for precise in [["stock", "1.0.0"], ["shelf", "1.0.0"]] {
        cargo(&repository, &["update", "--offline", "-p", precise[0], "--precise", precise[1]]);
    }
    repository.write(".gitignore", "/target\n");
    repository.commit("old versions");
    repository
}

fn cargo(repository: &TestRepository, arguments: &[&str]) {
    let mut cargo = repository.command("cargo");
    cargo.args(arguments).env("CARGO_HOME", repository.beside("cargo-home"));
    let printed = Printed::of(cargo);
    assert_eq!(printed.code, 0, "{}", printed.everything());
}

/// The tool in the repository, and MiB that the test keeps at each ref.
fn compared(repository: &TestRepository, home: &std::path::Path, arguments: &[&str]) -> (Printed, Vec<u64>) {
    let usual = ["--repeat", "1", "--format", "csv", "--threshold", "*=off"];
    let mut command = command(repository.root(), home, &[arguments, &usual].concat());
    command.env("CARGO_HOME", repository.beside("cargo-home"));
    let printed = Printed::of(command);
    if printed.stdout.is_empty() {
        return (printed, Vec::new());
    }
    let mut refs: Vec<String> = Vec::new();
    for value in values(&printed) {
        if !refs.contains(&value.r#ref) {
            refs.push(value.r#ref);
        }
    }
    let kept = kept(&values(&printed));
    let of =
        |one: &String| kept.iter().find(|((_, name), _)| name == one).map_or(0, |(_, bytes)| bytes >> 20);
    let figures = refs.iter().map(of).collect();
    (printed, figures)
}

fn report(repository: &TestRepository, home: &std::path::Path, format: &str) -> String {
    Printed::of(command(repository.root(), home, &["report", "--format", format])).stdout
}

#[test]
fn a_side_is_built_with_another_version_and_the_headline_says_what_moved() {
    let repository = shop();
    let (home, lock) = (home(), repository.read("Cargo.lock"));
    let (printed, figures) = compared(&repository, home.path(), &["deps", "stock@1.2.0"]);
    assert_eq!((printed.code, figures), (0, vec![2, 7]), "{}", printed.everything());
    assert_eq!(repository.read("Cargo.lock"), lock, "the user's lock file");
    assert_eq!(repository.git(["status", "--porcelain"]), "");
    let words = "stock 1.0.0 → 1.2.0, and with it shelf 1.0.0 → 1.1.0";
    assert!(report(&repository, home.path(), "table").contains(&format!("  differs: {words}\n")));
    assert!(report(&repository, home.path(), "markdown").contains(&format!("\nDiffers: {words}\n")));
    assert!(report(&repository, home.path(), "html").contains(&format!("differs: {words}")));
    let json: serde_json::Value =
        serde_json::from_str(&report(&repository, home.path(), "json")).expect("JSON");
    let candidate = &json["plan"]["refs"][1];
    assert_eq!(candidate["differs"], words);
    assert_eq!(
        candidate["dependencies"],
        serde_json::json!([{"name": "shelf", "from": "1.0.0", "to": "1.1.0"}, {"name": "stock", "from": "1.0.0", "to": "1.2.0"}])
    );
    assert!(json["plan"]["refs"][0]["differs"].is_null(), "{json}");

    // The builds of both are kept apart, and none is made twice.
    let (again, figures) = compared(&repository, home.path(), &["deps", "stock@1.2.0"]);
    assert!(!again.stderr.contains("Built") && figures == [2, 7], "{}", again.everything());
    let (other, figures) = compared(&repository, home.path(), &["deps", "stock@1.1.0"]);
    assert_eq!((other.code, figures), (0, vec![2, 3]), "{}", other.everything());
}

#[test]
fn a_version_that_does_not_resolve_is_refused_with_the_versions_that_would() {
    let repository = shop();
    let home = home();
    let (printed, _) = compared(&repository, home.path(), &["deps", "stock@1.3.0"]);
    assert_eq!(printed.code, 2, "{}", printed.everything());
    for part in [
        "error: --with stock@1.3.0: cargo cannot resolve this: failed to select a version for the requirement \
         `stock = \">=1.0.0, <1.3.0\"`",
        "versions that work: 1.2.0, 1.1.0, 1.0.0",
        "shop 0.1.0 needs stock >=1.0.0, <1.3.0",
    ] {
        assert!(printed.stderr.contains(part), "{part}: {}", printed.everything());
    }
    assert!(!printed.stderr.contains("Built"), "{}", printed.everything());
}

#[test]
fn sides_differ_by_lock_file_folder_and_features() {
    let repository = shop();
    let home = home();
    let lock = repository.read("Cargo.lock");
    let newer = repository.beside("newer.lock");
    cargo(&repository, &["update", "--offline", "-p", "shelf", "--precise", "1.1.0"]);
    fs::copy(repository.path("Cargo.lock"), &newer).expect("a copy");
    repository.write("Cargo.lock", &lock);
    let given = format!("new={}", newer.display());
    let (printed, figures) = compared(&repository, home.path(), &[".", "--lockfile", &given]);
    assert_eq!((printed.code, figures), (0, vec![2, 5]), "{}", printed.everything());
    assert!(report(&repository, home.path(), "table").contains("  differs: shelf 1.0.0 → 1.1.0\n"));

    let folder = repository.beside("shelf");
    fs::create_dir_all(folder.join("src")).expect("a folder");
    fs::write(folder.join("Cargo.toml"), "[package]\nname = 'shelf'\nversion = '1.0.5'\n").expect("a file");
    let with = format!("new:shelf={}", folder.display());
    for (mebibytes_kept, all) in [(6, 7), (8, 9)] {
        // Another state of the folder is another build.
        fs::write(folder.join("src/lib.rs"), mebibytes(mebibytes_kept)).expect("a file");
        let (printed, figures) = compared(&repository, home.path(), &[".", "--with", &with]);
        assert_eq!((printed.code, figures), (0, vec![2, all]), "{}", printed.everything());
    }

    let sides = ["a=.", "b=.", "--features", "b:large", "--no-default-features=a"];
    let (printed, figures) = compared(&repository, home.path(), &sides);
    assert_eq!((printed.code, figures), (0, vec![34, 18]), "{}", printed.everything());
    assert!(
        report(&repository, home.path(), "table")
            .contains("  differs: feature large; with default features\n")
    );
}

#[test]
fn a_matrix_names_the_settings_of_each_ref() {
    let repository = shop();
    let home = home();
    let matrix = "refs:\n- ref: .\n  name: one\n- ref: .\n  name: two\n  with: [stock@1.1.0]\n  profile: release\n  \
                  features: [large]\n";
    fs::write(repository.beside("sides.yaml"), matrix).expect("a file");
    let file = repository.beside("sides.yaml").display().to_string();
    let (printed, figures) = compared(&repository, home.path(), &["--matrix", &file]);
    assert_eq!((printed.code, figures), (0, vec![2, 19]), "{}", printed.everything());
    let words = "differs: stock 1.0.0 → 1.1.0; feature large; profile release instead of test\n";
    assert!(report(&repository, home.path(), "table").contains(words));
}

#[test]
fn a_library_without_a_lock_file_is_resolved_first() {
    let mut repository = shop();
    repository.git(["rm", "--quiet", "--cached", "Cargo.lock"]);
    fs::remove_file(repository.path("Cargo.lock")).expect("removed");
    repository.write(".gitignore", "/target\nCargo.lock\n");
    repository.commit("no lock file");
    let home = home();
    let (printed, figures) = compared(&repository, home.path(), &["deps", "stock@1.1.0"]);
    assert_eq!((printed.code, figures), (0, vec![7, 6]), "{}", printed.everything());
    assert!(!repository.path("Cargo.lock").exists());
    assert!(report(&repository, home.path(), "table").contains("  differs: stock 1.2.0 → 1.1.0\n"));
}

#[test]
fn a_path_dependency_outside_of_the_repository_is_built_from_the_folder_that_is_named() {
    let mut repository = TestRepository::new();
    let manifest = |name: &str| format!("[package]\nname = '{name}'\nversion = '0.1.0'\nedition = '2021'\n");
    for (folder, size) in [("stock", 1), ("stock-new", 3)] {
        let place = repository.beside(folder);
        std::fs::create_dir_all(place.join("src")).expect("a folder");
        std::fs::write(place.join("Cargo.toml"), manifest("stock")).expect("a manifest");
        std::fs::write(place.join("src/lib.rs"), mebibytes(size)).expect("a library");
    }
    repository.write("Cargo.toml", manifest("shop"));
    repository.write("src/lib.rs", "#[test]\nfn keeps() {}\n");
    repository.write(".gitignore", "/target\nCargo.lock\n");
    repository.commit("before");
    repository.git(["tag", "before"]);
    repository.write("Cargo.toml", manifest("shop") + "[dependencies]\nstock = { path = '../stock' }\n");
    repository.write("src/lib.rs", "#[test]\nfn keeps() { std::mem::forget(stock::kept()) }\n");
    repository.write(".gitignore", "/target\n");
    cargo(&repository, &["generate-lockfile", "--offline"]);
    repository.commit("first");
    let home = home();
    let (printed, _) = compared(&repository, home.path(), &["HEAD"]);
    assert_eq!(printed.code, 3, "{}", printed.everything());
    assert!(printed.stderr.contains("--with stock=../stock"), "{}", printed.everything());
    let lacking = ["before", "HEAD", "--with", "stock=../stock"];
    let (printed, figures) = compared(&repository, home.path(), &lacking);
    assert_eq!(figures, [0, 1], "{}", printed.everything());
    let (printed, _) = compared(&repository, home.path(), &["before", "HEAD", "--with", "stok=../stock"]);
    assert_eq!(printed.code, 2, "{}", printed.everything());
    assert!(printed.stderr.contains("did you mean 'stock'?"), "{}", printed.everything());
    let side = ["before", "HEAD", "--with", "before:stock=../stock"];
    let (printed, _) = compared(&repository, home.path(), &side);
    assert_eq!(printed.code, 2, "{}", printed.everything());
    let told = "no path dependency of before on stock leads out of the repository";
    assert!(printed.stderr.contains(told), "{}", printed.everything());

    let with = |side: &str, folder: &str| format!("{side}:stock={}", repository.beside(folder).display());
    let (old, new) = (with("old", "stock"), with("new", "stock-new"));
    let sides = ["HEAD", "--with", &old, "--with", &new];
    let (printed, figures) = compared(&repository, home.path(), &sides);
    assert_eq!(figures, [1, 3], "{}", printed.everything());

    // Both folders are traced where this tool has copied them.
    let trace = ["--trace-lines", "stock::kept", "--checkpoint-at", "stock/src/lib.rs:1=packing"];
    let (printed, figures) = compared(&repository, home.path(), &[&sides[..], &trace].concat());
    assert_eq!(figures, [1, 3], "{}", printed.everything());
    let packing =
        |value: &str| values(&printed).iter().any(|one| one.checkpoint == "packing" && one.r#ref == value);
    assert!(packing("HEAD") && packing("new"), "{}", printed.everything());
    let json: serde_json::Value =
        serde_json::from_str(&report(&repository, home.path(), "json")).expect("JSON");
    for (side, mebibytes_kept) in [("HEAD", 1), ("new", 3)] {
        assert_eq!(calls(&json, side, "stock::kept"), (1, mebibytes_kept << 20, 0), "{json:#}");
        assert_eq!(json["traced"][side]["functions"][0]["file"], "stock-0.1.0/src/lib.rs");
        assert!(json["traced"][side]["functions"][0]["text"].to_string().contains("vec![1;"), "{json:#}");
    }
    let (printed, figures) = compared(&repository, home.path(), &sides);
    assert!(!printed.stderr.contains("Built") && figures == [1, 3], "{}", printed.everything());

    std::fs::remove_file(repository.root().join("Cargo.lock")).expect("a lock file");
    repository.write(".gitignore", "/target\nCargo.lock\n");
    repository.commit("without a lock file");
    let (printed, figures) = compared(&repository, home.path(), &sides);
    assert_eq!(figures, [1, 3], "{}", printed.everything());
    let (printed, figures) = compared(&repository, home.path(), &lacking);
    assert_eq!(figures, [0, 1], "{}", printed.everything());
}

#[test]
fn a_git_repository_is_compared_at_a_branch_and_at_another_commit() {
    let mut repository = TestRepository::new();
    let (fork, upstream) = (repository.beside("gear-fork"), repository.beside("gear"));
    let git = |folder: &std::path::Path, arguments: &[&str]| {
        let person = ["-c", "user.name=a", "-c", "user.email=a@b.c"];
        let mut git = repository.command("git");
        git.arg("-C").arg(folder).args(person).args(arguments);
        let printed = Printed::of(git);
        assert_eq!(printed.code, 0, "{}", printed.everything());
        printed.stdout.trim().to_owned()
    };
    let commit = |folder: &std::path::Path, version: &str, size: usize| {
        let manifest = format!("[package]\nname = 'gear'\nversion = '{version}'\nedition = '2021'\n");
        fs::write(folder.join("Cargo.toml"), manifest).expect("a manifest");
        fs::write(folder.join("src/lib.rs"), mebibytes(size)).expect("a library");
        git(folder, &["add", "."]);
        git(folder, &["commit", "--quiet", "--message", version]);
        git(folder, &["rev-parse", "HEAD"])
    };
    for folder in [&fork, &upstream] {
        fs::create_dir_all(folder.join("src")).expect("a folder");
        git(folder, &["init", "--quiet"]);
    }
    let first = commit(&fork, "0.1.0", 1);
    let second = commit(&fork, "0.1.0", 3);
    commit(&upstream, "2.0.0", 7);
    git(&upstream, &["checkout", "--quiet", "-b", "fix/side"]);
    commit(&upstream, "0.1.0", 5);
    git(&upstream, &["checkout", "--quiet", "-"]);
    let url = |folder: &std::path::Path| format!("file://{}", folder.display());
    let manifest = format!(
        "[package]\nname = 'shop'\nversion = '0.1.0'\nedition = '2021'\n[dependencies]\n\
         gear = {{ version = '0.1', git = '{}', rev = '{first}' }}\n",
        url(&fork)
    );
    let (fork, upstream) = (url(&fork), url(&upstream));
    repository.write("Cargo.toml", manifest);
    repository.write("src/lib.rs", "#[test]\nfn keeps() { std::mem::forget(gear::kept()) }\n");
    repository.write(".gitignore", "/target\n");
    cargo(&repository, &["generate-lockfile"]);
    repository.commit("first");
    let home = home();
    let deps = |to: &str| compared(&repository, home.path(), &["deps", &format!("gear={to}")]);

    let (printed, figures) = deps(&format!("{fork}@{second}"));
    assert_eq!(figures, [1, 3], "{}", printed.everything());
    let (printed, figures) = deps(&format!("{upstream}@fix/side"));
    assert_eq!(figures, [1, 5], "{}", printed.everything());
    // The fork's URL begins with this one.
    let (printed, _) = deps(&upstream);
    assert_eq!(printed.code, 2, "{}", printed.everything());
    assert!(printed.stderr.contains("cargo does not use it"), "{}", printed.everything());
    let (printed, _) = compared(&repository, home.path(), &["deps", "gear@0.1.1"]);
    assert_eq!(printed.code, 2, "{}", printed.everything());
    let help = format!("gear is a dependency from git: gear={fork}@COMMIT builds another commit");
    assert!(printed.stderr.contains(&help), "{}", printed.everything());
}
