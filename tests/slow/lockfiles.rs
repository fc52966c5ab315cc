//! Revisions without a lock file: their dependencies come from a registry on the disk, whose versions
//! have dates.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::csv::{command, kept, values};
use crate::support::{Printed, TestRepository, home, succeed};

pub const EARLY: &str = "2020-01-01T00:00:00Z";
const LATE: &str = "2026-02-01T00:00:00Z";

/// A registry on the disk, in place of crates.io.
pub struct Registry {
    folder: PathBuf,
}

impl Registry {
    /// Makes a registry beside a repository, and configures it there.
    pub fn of(repository: &TestRepository) -> Self {
        let folder = repository.beside("registry");
        fs::create_dir_all(folder.join("index")).expect("a folder");
        repository.write(
            ".cargo/config.toml",
            format!(
                "[source.crates-io]\nreplace-with = 'disk'\n[source.disk]\nlocal-registry = '{}'\n",
                folder.display()
            ),
        );
        Self { folder }
    }

    /// Publishes a version of a crate whose name has four letters or more.
    pub fn publish(&self, name: &str, version: &str, published: &str, library: &str, is_yanked: bool) {
        self.publish_with(&[], name, version, published, library, is_yanked);
    }

    /// Publishes a version of a crate that depends on others: name and requirement. A question mark
    /// before the name makes the dependency optional.
    pub fn publish_with(
        &self,
        dependencies: &[(&str, &str)],
        name: &str,
        version: &str,
        published: &str,
        library: &str,
        is_yanked: bool,
    ) {
        let sources = tempfile::tempdir().expect("a folder");
        let package = format!("{name}-{version}");
        let write = |file: &str, text: &str| {
            let path = sources.path().join(&package).join(file);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            fs::write(path, text).expect("a file");
        };
        let dependencies: Vec<(&str, &str, bool)> = (dependencies.iter())
            .map(|(name, versions)| (name.trim_start_matches('?'), *versions, name.starts_with('?')))
            .collect();
        let line = |(name, versions, optional): &(&str, &str, bool)| {
            format!("{name} = {{ version = '{versions}', optional = {optional} }}\n")
        };
        let lines: String = dependencies.iter().map(line).collect();
        let manifest = format!("[package]\nname = '{name}'\nversion = '{version}'\nedition = '2021'\n");
        write("Cargo.toml", &format!("{manifest}[dependencies]\n{lines}"));
        write("src/lib.rs", library);
        let archive = self.folder.join(format!("{package}.crate"));
        succeed(Command::new("tar").arg("czf").arg(&archive).arg("-C").arg(sources.path()).arg(&package));
        let sum = succeed(Command::new("sha256sum").arg(&archive)).stdout;
        let sum = String::from_utf8(sum).expect("a checksum");
        let sum = sum.split_whitespace().next().expect("a checksum");
        let index = self.folder.join("index").join(&name[..2]).join(&name[2..4]);
        fs::create_dir_all(&index).expect("a folder");
        let file = index.join(name);
        let dependencies: Vec<_> = dependencies
            .iter()
            .map(|(name, versions, optional)| {
                serde_json::json!({
                    "name": name, "req": versions, "features": [], "optional": optional,
                    "default_features": true, "target": null, "kind": "normal",
                })
            })
            .collect();
        let dependencies = serde_json::Value::from(dependencies);
        let line = format!(
            "{{\"name\":\"{name}\",\"vers\":\"{version}\",\"deps\":{dependencies},\"cksum\":\"{sum}\",\"features\":{{}},\
             \"yanked\":{is_yanked},\"pubtime\":\"{published}\"}}\n"
        );
        let before = fs::read_to_string(&file).unwrap_or_default();
        fs::write(file, before + &line).expect("a file");
    }
}

/// Calls the tool. Cargo unpacks the crates below a home of its own.
fn compared(repository: &TestRepository, home: &Path, arguments: &[&str]) -> Printed {
    let usual = ["--refs", "old,new", "--repeat", "1", "--format", "csv"];
    let mut command = command(repository.root(), home, &[&usual, arguments].concat());
    command.env("CARGO_HOME", repository.beside("cargo-home"));
    Printed::of(command)
}

fn json_report(repository: &TestRepository, home: &Path) -> serde_json::Value {
    let printed = Printed::of(command(repository.root(), home, &["report", "--format", "json"]));
    serde_json::from_str(&printed.stdout).expect("a JSON report")
}

fn notes(repository: &TestRepository, home: &Path) -> Vec<String> {
    let report = json_report(repository, home);
    let notes = report["notes"].as_array().expect("notes").iter();
    notes.map(|note| note.as_str().expect("text").to_owned()).collect()
}

fn mebibytes_of(printed: &Printed, revision: &str) -> u64 {
    let kept = kept(&values(printed));
    let of_revision = kept.iter().filter(|((_, name), _)| name == revision).map(|(_, bytes)| bytes >> 20);
    of_revision.max().unwrap_or_else(|| panic!("{}", printed.everything()))
}

/// `old` and `new` need `stock = "1"`. Only `new` uses a function that today's version lacks.
fn with_a_broken_dependency() -> TestRepository {
    let mut repository = TestRepository::new();
    let registry = Registry::of(&repository);
    let kept = |mebibytes: usize| format!("pub fn kept() -> Vec<u8> {{ vec![1; {mebibytes} << 20] }}\n");
    registry.publish("stock", "1.0.0", EARLY, &(kept(1) + "pub fn gone_later() {}\n"), false);
    registry.publish("stock", "1.1.0", LATE, &kept(2), false);
    repository.write(
        "Cargo.toml",
        "[package]\nname = 'shop'\nversion = '0.1.0'\nedition = '2021'\n[dependencies]\nstock = '1'\n",
    );
    repository.write(".gitignore", "/target\nCargo.lock\n");
    repository.write("tests/keeps.rs", "#[test]\nfn keeps() { std::mem::forget(stock::kept()) }\n");
    for (tag, library) in [("old", ""), ("new", "pub fn used() { stock::gone_later() }\n")] {
        repository.write("src/lib.rs", library);
        repository.commit(tag);
        repository.git(["tag", tag]);
    }
    repository
}

#[test]
fn if_todays_dependencies_do_not_build_all_refs_get_those_of_the_newest_commits_date() {
    let repository = with_a_broken_dependency();
    let home = home();
    let printed = compared(&repository, home.path(), &[]);
    assert_eq!(printed.code, 0, "{}", printed.everything());
    let both = ["old", "new"].map(|revision| mebibytes_of(&printed, revision));
    assert_eq!(both, [1, 1], "both refs have stock 1.0.0: {}", printed.everything());
    let is_told = |note: &String| note.starts_with("today's dependencies do not build new (");
    assert_eq!(notes(&repository, home.path()).iter().filter(|note| is_told(note)).count(), 1);

    let again = compared(&repository, home.path(), &[]);
    assert!(again.code == 0 && !again.stderr.contains("Built"), "{}", again.everything());
    assert!(notes(&repository, home.path()).iter().any(is_told), "a kept lock file keeps its note");

    let today = compared(&repository, home.path(), &["--lockfile-date", "today"]);
    assert_eq!(today.code, 3, "{}", today.everything());
    assert!(today.stderr.contains("gone_later"), "{}", today.everything());
    assert_eq!(mebibytes_of(&today, "old"), 2, "{}", today.everything());
    let commit = compared(&repository, home.path(), &["--lockfile-date", "commit"]);
    assert_eq!((commit.code, mebibytes_of(&commit, "old")), (0, 1), "{}", commit.everything());
}

#[test]
fn a_build_that_fails_with_every_lock_file_reports_its_first_failure() {
    let mut repository = with_a_broken_dependency();
    repository.write("src/lib.rs", "pub fn used() { stock::never_there() }\n");
    repository.commit("broken");
    repository.git(["tag", "--force", "new"]);
    let home = home();
    let printed = compared(&repository, home.path(), &[]);
    assert_eq!(printed.code, 3, "{}", printed.everything());
    assert!(printed.stderr.contains("never_there"), "{}", printed.everything());
    assert!(printed.stderr.contains("do not build it either"), "{}", printed.everything());
    let today = "new has no Cargo.lock; it was built with today's dependencies";
    assert!(printed.stderr.contains(today), "{}", printed.everything());
    assert_eq!(mebibytes_of(&printed, "old"), 2, "today's versions stay: {}", printed.everything());
    let failed = &json_report(&repository, home.path())["failed_builds"][0];
    let used = failed["lockfile"].as_str().expect("text");
    assert!(
        used.starts_with("today's dependencies; dependencies of 20") && used.ends_with(" either"),
        "{failed}"
    );
}

#[test]
fn a_build_that_fails_with_a_kept_lock_file_of_a_date_says_so_and_keeps_the_note() {
    let repository = with_a_broken_dependency();
    let home = home();
    let first = compared(&repository, home.path(), &[]);
    assert_eq!(first.code, 0, "{}", first.everything());
    let unknown = "RUSTFLAGS=--crate-type never";
    let printed = compared(&repository, home.path(), &["--env", unknown]);
    assert_eq!(printed.code, 3, "{}", printed.everything());
    let dated = "it was built with dependencies of 20";
    assert!(printed.stderr.contains(dated), "{}", printed.everything());
    let report = json_report(&repository, home.path());
    let used = report["failed_builds"][0]["lockfile"].as_str().expect("text");
    assert!(used.starts_with("dependencies of 20"), "{report}");
    let told = notes(&repository, home.path());
    assert!(told.iter().any(|note| note.starts_with("today's dependencies do not build new (")), "{told:?}");
    let text = Printed::of(command(repository.root(), home.path(), &["report"]));
    assert!(
        text.stdout.contains("without a Cargo.lock: built with dependencies of 20"),
        "{}",
        text.everything()
    );
}

#[test]
fn a_failed_build_is_not_repeated_with_the_same_versions() {
    let mut repository = with_a_broken_dependency();
    let registry = Registry::of(&repository);
    let home = home();
    for (published, tries) in [(EARLY, 1), (LATE, 2)] {
        let _ = fs::remove_dir_all(repository.beside("registry"));
        fs::create_dir_all(repository.beside("registry/index")).expect("a folder");
        registry.publish("stock", "1.0.0", EARLY, "pub fn gone_later() {}\n", false);
        registry.publish("stock", "1.0.1", published, "pub fn gone_later() {}\n", false);
        repository.write("src/lib.rs", format!("pub fn never_{tries}(\n"));
        repository.commit("broken");
        let mut command = command(repository.root(), home.path(), &["--refs", "HEAD"]);
        command.env("CARGO_HOME", repository.beside(&format!("cargo-home-{tries}")));
        let printed = Printed::of(command);
        assert_eq!(printed.code, 3, "{}", printed.everything());
        let is_repeated = printed.stderr.contains("do not build it either");
        assert_eq!(is_repeated, tries == 2, "{}", printed.everything());
    }
}

#[test]
fn a_package_that_tests_an_earlier_version_of_itself_is_chosen_by_its_name() {
    let mut repository = with_a_broken_dependency();
    let registry = Registry::of(&repository);
    registry.publish("shop", "0.0.9", EARLY, "pub fn kept() -> usize { 4 << 20 }\n", false);
    repository.write("src/lib.rs", "");
    repository.commit("old");
    repository.git(["tag", "--force", "old"]);
    let manifest = repository.read("Cargo.toml");
    let earlier = "[dev-dependencies]\nearlier = { package = 'shop', version = '=0.0.9' }\n";
    let test = "#[test]\nfn keeps() { std::mem::forget(vec![1_u8; earlier::kept()]) }\n";
    repository.write("tests/keeps.rs", test);
    // The lock file of the first two is generated for one that has the name once.
    for (tag, version, mebibytes) in [("new", "0.1.0", [2, 4]), ("old", "0.2.0", [4, 4])] {
        repository.write("Cargo.toml", manifest.replace("0.1.0", version) + earlier);
        repository.commit(tag);
        repository.git(["tag", "--force", tag]);
        let home = home();
        let printed = compared(&repository, home.path(), &["-p", "shop", "--run-all"]);
        assert_eq!(printed.code, 0, "{}", printed.everything());
        let both = ["old", "new"].map(|revision| mebibytes_of(&printed, revision));
        assert_eq!(both, mebibytes, "{}", printed.everything());
    }
}

/// Like [`with_a_broken_dependency`], and both refs need `other`, which a date before 2024-06-01 lacks.
/// So it does `inner`, which `other` needs. Today's `stock` is not the one of 2023 nor the one of 2024.
fn with_a_late_dependency() -> TestRepository {
    let mut repository = with_a_broken_dependency();
    let registry = Registry::of(&repository);
    let kept = "pub fn gone_later() {}\npub fn kept() -> Vec<u8> { vec![1; 4 << 20] }\n";
    registry.publish("stock", "1.0.5", "2024-02-01T00:00:00Z", kept, false);
    registry.publish("inner", "2.0.0", "2024-03-03T10:00:00Z", "pub struct Inner;\n", false);
    registry.publish("other", "1.0.0", EARLY, "", true);
    let (inner, library) = ([("inner", "^2")], "pub use inner::Inner;\n");
    registry.publish_with(&inner, "other", "1.0.1", "2024-06-01T10:00:00Z", library, false);
    registry.publish_with(&inner, "other", "1.2.0", LATE, library, false);
    repository.git(["checkout", "--quiet", "old"]);
    let manifest = repository.read("Cargo.toml");
    repository.write("Cargo.toml", manifest + "other = '1'\n");
    commit_both(&mut repository);
    repository
}

fn commit_both(repository: &mut TestRepository) {
    for tag in ["old", "new"] {
        repository.write("tests/more.rs", format!("// {tag}\n"));
        repository.commit(tag);
        repository.git(["tag", "--force", tag]);
    }
}

#[test]
fn only_a_package_that_the_date_lacks_is_the_nearest_later_one_and_a_note_names_it() {
    let repository = with_a_late_dependency();
    let home = home();
    let printed = compared(&repository, home.path(), &["--lockfile-date", "2023-05-01"]);
    assert_eq!((printed.code, mebibytes_of(&printed, "new")), (0, 1), "{}", printed.everything());
    let told = notes(&repository, home.path());
    let expected = "2 packages have no version of 2023-05-01 that can be used: \
                    took other 1.0.1 of 2024-06-01, inner 2.0.0 of 2024-03-03";
    assert!(told.iter().any(|note| note == expected), "{told:?}");
}

#[test]
fn a_package_that_only_a_feature_needs_moves_alone_too() {
    let mut repository = with_a_broken_dependency();
    let registry = Registry::of(&repository);
    registry.publish("inner", "2.0.0", "2024-03-03T10:00:00Z", "", false);
    registry.publish_with(&[("?inner", "^2")], "hubs", "1.0.0", EARLY, "", false);
    // One member uses the package without the feature.
    let member = "[package]\nname = 'aaaa'\nversion = '0.1.0'\n[dependencies]\nhubs = '1'\n";
    repository.write("member/Cargo.toml", member);
    repository.write("member/src/lib.rs", "");
    repository.git(["checkout", "--quiet", "old"]);
    let manifest = repository.read("Cargo.toml");
    let needs = "hubs = { version = '1', features = ['inner'] }\n[workspace]\nmembers = ['member']\n";
    repository.write("Cargo.toml", manifest + needs);
    commit_both(&mut repository);
    let home = home();
    let printed = compared(&repository, home.path(), &["--lockfile-date", "2023-05-01"]);
    assert_eq!((printed.code, mebibytes_of(&printed, "new")), (0, 1), "{}", printed.everything());
    let expected =
        "`inner = \"^2\"` has no version of 2023-05-01 that can be used: took inner 2.0.0 of 2024-03-03";
    let told = notes(&repository, home.path());
    assert!(told.iter().any(|note| note == expected), "{told:?}");
}

#[test]
fn if_a_package_cannot_move_alone_all_do_and_a_note_says_so() {
    let mut repository = with_a_late_dependency();
    // The folder of the registry's package and this one cannot be told apart in a lock file.
    let member = "[package]\nname = 'other'\nversion = '1.0.1'\nedition = '2021'\n";
    repository.write("own/Cargo.toml", member);
    repository.write("own/src/lib.rs", "");
    let manifest = repository.read("Cargo.toml");
    repository.write("Cargo.toml", manifest + "[workspace]\nmembers = ['own']\n");
    commit_both(&mut repository);
    let home = home();
    let printed = compared(&repository, home.path(), &["--lockfile-date", "2023-05-01"]);
    assert_eq!((printed.code, mebibytes_of(&printed, "new")), (0, 4), "{}", printed.everything());
    let told = notes(&repository, home.path());
    let nearest = "`other = \"^1\"` has no version of 2023-05-01 that can be used: took ";
    let all = "all dependencies as of 2024-06-01";
    assert!(told.iter().any(|note| note.starts_with(nearest) && note.ends_with(all)), "{told:?}");
}

#[test]
fn dependencies_that_cannot_be_resolved_end_with_exit_code_3_and_cargos_message() {
    let mut repository = with_a_broken_dependency();
    repository.write(
        "Cargo.toml",
        "[package]\nname = 'shop'\nversion = '0.1.0'\nedition = '2021'\n[dependencies]\nstock = '7'\n",
    );
    for tag in ["old", "new"] {
        repository.commit(tag);
        repository.git(["tag", "--force", tag]);
    }
    let home = home();
    for arguments in [&[][..], &["--lockfile-date", "2023-05-01"], &["--lockfile-date", "today"]] {
        let printed = compared(&repository, home.path(), arguments);
        assert_eq!(printed.code, 3, "{}", printed.everything());
        assert!(
            printed.stderr.contains("failed to select a version for the requirement `stock = \"^7\"`"),
            "{}",
            printed.everything()
        );
    }
}

#[test]
fn an_external_overlay_resolves_only_what_it_needs() {
    let mut repository = TestRepository::new();
    let registry = Registry::of(&repository);
    registry.publish("stock", "1.0.0", EARLY, "pub fn kept() -> Vec<u8> { vec![1; 1 << 20] }\n", false);
    registry.publish("stock", "1.1.0", LATE, "pub fn kept() -> Vec<u8> { vec![1; 4 << 20] }\n", false);
    registry.publish("withdrawn", "1.0.0", EARLY, "", true);
    repository.write("Cargo.toml", "[workspace]\nmembers = ['engine', 'sibling']\n");
    for (name, dependency) in [("engine", "stock"), ("sibling", "withdrawn")] {
        let manifest = format!(
            "[package]\nname = '{name}'\nversion = '0.1.0'\nedition = '2021'\n[dependencies]\n{dependency} = '1'\n"
        );
        repository.write(&format!("{name}/Cargo.toml"), manifest);
        repository.write(&format!("{name}/src/lib.rs"), "");
    }
    repository.write("engine/src/lib.rs", "pub fn kept() -> Vec<u8> { stock::kept() }\n");
    repository.write("loose/Cargo.toml", "[package]\nname = 'loose'\nversion = '0.1.0'\n[workspace]\n");
    repository.write("loose/src/lib.rs", "pub fn kept() -> Vec<u8> { vec![1; 2 << 20] }\n");
    for tag in ["old", "new"] {
        repository.commit(tag);
        repository.git(["tag", tag]);
    }
    let home = home();
    let test = repository.beside("memory.rs");
    let source = "#[test]\nfn keeps() { std::mem::forget((engine::kept(), loose::kept())) }\n";
    fs::write(&test, source).expect("a file");
    let overlay = format!("{}=tests/memory.rs", test.display());
    let external = ["--overlay", &overlay, "--overlay-mode", "external", "--overlay-package", "engine"];
    let loose = ["--overlay-dependency", "loose = { path = 'loose' }"];
    let printed = compared(&repository, home.path(), &[&external[..], &loose].concat());
    assert_eq!((printed.code, mebibytes_of(&printed, "old")), (0, 6), "{}", printed.everything());
    let side = ["--with", "old:stock@1.0.0"];
    let printed = compared(&repository, home.path(), &[&external[..], &loose, &side].concat());
    let both = ["old", "new"].map(|revision| mebibytes_of(&printed, revision));
    assert_eq!((printed.code, both), (0, [3, 6]), "{}", printed.everything());

    let overlay = format!("{}=engine/tests/memory.rs", test.display());
    let printed = compared(&repository, home.path(), &["--overlay", &overlay]);
    let help = "sibling needs it; a test in a crate of its own needs only the dependencies of the package \
                that it tests: add --overlay-mode external";
    assert!(printed.code == 3 && printed.stderr.contains(help), "{}", printed.everything());

    fs::write(&test, "#[test]\nfn keeps() { engine::misspelt() }\n").expect("a file");
    let printed = compared(&repository, home.path(), &external);
    assert!(printed.code == 3 && printed.stderr.contains("misspelt"), "{}", printed.everything());
    let is_tried = printed.everything().contains("do not build it either");
    assert!(!is_tried, "older dependencies do not help: {}", printed.everything());
}
