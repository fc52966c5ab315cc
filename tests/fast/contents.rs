//! Contents that are not in the repository itself: submodules, Git LFS, partial and shallow clones.

use std::path::Path;

use crate::support::{TestRepository, assert_same_bytes, every_byte, isolated, skip, succeed};
use camino::{Utf8Path, Utf8PathBuf};
use cargo_memprof::checkout::cache::Cache;
use cargo_memprof::checkout::worktree::Worktree;
use cargo_memprof::git::repository::Repository;
use cargo_memprof::git::resolve::resolve;
use cargo_memprof::plan::request::{BaselineRequest, RefRequest, Request};
use cargo_memprof::plan::resolved::{Plan, Revision};
use cargo_memprof::support::advice::help;

const MANIFEST: &str = "[package]\nname = \"fixture\"\nversion = \"0.1.0\"\nedition = \"2024\"\n";

/// Git refuses to clone submodules from the disk unless the user's configuration allows it.
const ALLOW_FILE: [(&str, &str); 3] = [
    ("GIT_CONFIG_COUNT", "1"),
    ("GIT_CONFIG_KEY_0", "protocol.file.allow"),
    ("GIT_CONFIG_VALUE_0", "always"),
];

fn utf8(path: &Path) -> Utf8PathBuf {
    Utf8PathBuf::from_path_buf(path.to_owned()).unwrap()
}

fn read(path: &Utf8Path) -> String {
    std::fs::read_to_string(path).unwrap()
}

fn cache(user: &TestRepository, repository: &Repository) -> Cache {
    Cache::open(&utf8(&user.beside("cache")), repository).unwrap()
}

fn plan(repository: &Repository, refs: &[&str]) -> Plan {
    let reference = |spec: &&str| RefRequest { spec: (*spec).to_owned(), ..RefRequest::default() };
    let request = Request { refs: refs.iter().map(reference).collect(), ..Request::default() };
    resolve(&request, repository, &|_| ()).unwrap_or_else(|error| panic!("{error:#}"))
}

fn revision(repository: &Repository, spec: &str) -> Revision {
    plan(repository, &[spec, spec]).revisions.swap_remove(0)
}

fn configuration(user: &TestRepository) -> String {
    user.read(".git/config")
}

fn package() -> TestRepository {
    let mut repository = TestRepository::new();
    repository.write("Cargo.toml", MANIFEST);
    repository.write("src/lib.rs", "");
    repository.commit("first");
    repository
}

fn library(content: &str) -> TestRepository {
    let mut repository = TestRepository::new();
    repository.write("lib.c", content);
    repository.commit("library");
    repository
}

/// Adds a submodule of this name, as a user would.
fn add_submodule(to: &TestRepository, name: &str, from: &TestRepository) {
    let url = from.url();
    to.git(["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", &url, name]);
}

#[test]
fn submodules_are_checked_out_in_place_recursively_and_removed_where_a_revision_has_none() {
    let inner = library("inner\n");
    let mut outer = library("one\n");
    add_submodule(&outer, "inner", &inner);
    outer.commit("with inner");
    let mut source = package();
    add_submodule(&source, "vendor/outer", &outer);
    source.commit("with outer");
    outer.write("lib.c", "two\n");
    outer.commit("two");
    source.git(["-C", "vendor/outer", "pull", "--quiet"]);
    source.commit("outer moved");
    source.git(["rm", "--quiet", "vendor/outer"]);
    source.write("vendor/outer", "a file in its place\n");
    source.commit("no submodule");
    source.git(["rm", "--quiet", "vendor/outer"]);
    source.write("vendor/outer/lib.c", "vendored\n");
    source.commit("vendored");

    // The clone knows nothing of submodules: all comes from their URLs.
    let user = TestRepository::clone_of(&source, &[]);
    let before = configuration(&user);
    let repository = user.open().with_environment(ALLOW_FILE);
    let cache = cache(&user, &repository);
    let worktree = Worktree::open(&cache, &repository, &[]).unwrap();
    let check_out = |spec: &str| {
        worktree.check_out(&revision(&repository, spec)).unwrap_or_else(|error| panic!("{spec}: {error:#}"));
    };
    let lib = worktree.path().join("vendor/outer/lib.c");
    let inner = worktree.path().join("vendor/outer/inner/lib.c");
    check_out("main~2");
    assert_eq!((read(&lib), read(&inner)), ("two\n".to_owned(), "inner\n".to_owned()));
    std::fs::write(lib.with_file_name("left-by-a-build"), "").unwrap();
    std::fs::write(&lib, "changed").unwrap();
    let time = inner.metadata().unwrap().modified().unwrap();
    check_out("main~3");
    assert_eq!(read(&lib), "one\n");
    assert!(!lib.with_file_name("left-by-a-build").exists());
    assert_eq!(
        inner.metadata().unwrap().modified().unwrap(),
        time,
        "in place: unchanged files keep their time"
    );
    check_out("main~4");
    assert!(!worktree.path().join("vendor").exists());
    check_out("main~3");
    assert_eq!(read(&lib), "one\n");
    check_out("main~1");
    assert_eq!(read(&worktree.path().join("vendor/outer")), "a file in its place\n");
    check_out("main~2");
    check_out("main");
    assert_eq!(read(&lib), "vendored\n");
    assert!(!inner.exists());
    assert_eq!(configuration(&user), before);
}

#[test]
fn a_users_submodule_lends_its_objects_even_commits_that_were_never_pushed() {
    let library = library("one\n");
    let mut source = package();
    add_submodule(&source, "lib", &library);
    source.commit("with a submodule");
    let user = source;
    user.git(["-C", "lib", "config", "user.name", "x"]);
    user.write("lib/lib.c", "never pushed\n");
    user.git(["-C", "lib", "commit", "--quiet", "--all", "--message", "local"]);
    user.write("lib/lib.c", "not even committed\n");
    std::fs::rename(library.root(), library.beside("gone")).unwrap();

    let before = every_byte(&user.path(".git/modules"), |_| false);
    let repository = user.open();
    let events = std::cell::RefCell::new(Vec::new());
    let sink = |event: cargo_memprof::support::event::Event| events.borrow_mut().push(format!("{event:?}"));
    let dot = RefRequest { spec: ".".to_owned(), ..RefRequest::default() };
    let request = Request { refs: vec![dot.clone(), dot], ..Request::default() };
    let plan = resolve(&request, &repository, &sink).unwrap();
    let warned =
        events.borrow().iter().any(|event| event.contains("submodule 'lib' has uncommitted changes"));
    assert!(warned, "{events:?}");
    let cache = cache(&user, &repository);
    let worktree = Worktree::open(&cache, &repository, &[]).unwrap();
    worktree.check_out(&plan.revisions[0]).unwrap_or_else(|error| panic!("{error:#}"));
    assert_eq!(read(&worktree.path().join("lib/lib.c")), "never pushed\n");
    worktree.check_out(&revision(&repository, "main")).unwrap_or_else(|error| panic!("{error:#}"));
    assert_eq!(read(&worktree.path().join("lib/lib.c")), "one\n");
    assert_same_bytes(&before, &every_byte(&user.path(".git/modules"), |_| false));
    assert_eq!(user.read("lib/lib.c"), "not even committed\n");
}

/// Commits a `.gitmodules` with this text.
fn with_gitmodules(user: &mut TestRepository, text: &str) -> String {
    user.write(".gitmodules", text);
    user.commit("another .gitmodules")
}

/// Checks a ref out, and returns the error and its help.
fn refused(repository: &Repository, cache: &Cache, spec: &str) -> (String, String) {
    let worktree = Worktree::open(cache, repository, &[]).unwrap();
    let error = worktree.check_out(&revision(repository, spec)).unwrap_err();
    (format!("{error:#}"), help(&error).unwrap_or_default())
}

#[test]
fn a_submodules_name_that_is_a_path_elsewhere_is_refused_and_nothing_is_written_there() {
    let other = library("unrelated\n");
    let everything = || every_byte(other.root(), |_| false);
    let before = everything();
    let mut user = package();
    user.git(["branch", "good"]);
    let git = other.path(".git").display().to_string();
    // The same path, reached from `modules` of the checkout's entry or of the repository itself.
    let climbing = format!("../../../../..{git}");
    for name in [&git, &climbing, "a/../../b"] {
        with_gitmodules(
            &mut user,
            &format!("[submodule \"{name}\"]\n\tpath = lib\n\turl = {}\n", other.url()),
        );
        let entry = format!("160000,{},lib", other.git(["rev-parse", "HEAD"]));
        user.git(["update-index", "--add", "--cacheinfo", &entry]);
        user.git(["commit", "--quiet", "--message", "a submodule"]);
        let repository = user.open().with_environment(ALLOW_FILE);
        let cache = cache(&user, &repository);
        let (message, help) = refused(&repository, &cache, "main");
        assert!(message.starts_with(".gitmodules of main names the submodule"), "{message}");
        assert!(message.contains(name), "{message}");
        assert!(help.contains("git config --file .gitmodules --rename-section"), "{help}");
        assert_same_bytes(&before, &everything());
        let worktree = Worktree::open(&cache, &repository, &[]).unwrap();
        worktree.check_out(&revision(&repository, "good")).unwrap_or_else(|error| panic!("{error:#}"));
    }
}

#[test]
fn a_nested_submodule_is_refused_for_its_name_too() {
    let unrelated = library("unrelated\n");
    let mut outer = library("outer\n");
    let name = unrelated.path(".git").display().to_string();
    with_gitmodules(
        &mut outer,
        &format!("[submodule \"{name}\"]\n\tpath = x\n\turl = {}\n", unrelated.url()),
    );
    let mut user = package();
    add_submodule(&user, "vendor/outer", &outer);
    user.commit("with outer");
    let repository = user.open().with_environment(ALLOW_FILE);
    let (message, _) = refused(&repository, &cache(&user, &repository), "main");
    assert!(message.starts_with("vendor/outer/.gitmodules of main names the submodule"), "{message}");
}

#[test]
fn a_submodules_folder_behind_a_link_is_refused() {
    let inner = library("inner\n");
    let mut user = package();
    user.write(".gitignore", "/vendor\n");
    user.commit("ignores");
    let url = inner.url();
    user.git([
        "-c",
        "protocol.file.allow=always",
        "submodule",
        "--quiet",
        "add",
        "--force",
        &url,
        "vendor/inner",
    ]);
    user.commit("with inner");
    let repository = user.open().with_environment(ALLOW_FILE);
    let cache = cache(&user, &repository);
    let worktree = Worktree::open(&cache, &repository, &[]).unwrap();
    worktree.check_out(&revision(&repository, "main")).unwrap_or_else(|error| panic!("{error:#}"));
    let elsewhere = user.beside("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    std::fs::remove_dir_all(worktree.path().join("vendor")).unwrap();
    std::os::unix::fs::symlink(&elsewhere, worktree.path().join("vendor")).unwrap();
    // Git may remove the link itself. It must not follow it.
    let done = worktree.check_out(&revision(&repository, "main"));
    assert_eq!(std::fs::read_dir(&elsewhere).unwrap().count(), 0, "{done:?}");
    if let Err(error) = done {
        assert!(error.to_string().contains("leads out of the checkout"), "{error:#}");
    } else {
        assert_eq!(read(&worktree.path().join("vendor/inner/lib.c")), "inner\n");
    }
}

#[test]
fn a_submodule_whose_git_file_a_test_changed_is_checked_out_anew() {
    let mut library = library("one\n");
    let mut user = package();
    add_submodule(&user, "lib", &library);
    user.commit("with a submodule");
    library.write("lib.c", "two\n");
    library.commit("two");
    user.git(["-C", "lib", "pull", "--quiet"]);
    user.commit("lib moved");
    let other = self::library("unrelated\n");
    other.write("lib.c", "not committed\n");
    let before = every_byte(other.root(), |_| false);
    let repository = user.open().with_environment(ALLOW_FILE);
    let cache = cache(&user, &repository);
    let worktree = Worktree::open(&cache, &repository, &[]).unwrap();
    let check_out = |spec: &str| {
        worktree.check_out(&revision(&repository, spec)).unwrap_or_else(|error| panic!("{spec}: {error:#}"));
        read(&worktree.path().join("lib/lib.c"))
    };
    assert_eq!(check_out("main"), "two\n");
    let link = worktree.path().join("lib/.git");
    std::fs::write(&link, format!("gitdir: {}\n", other.path(".git").display())).unwrap();
    assert_eq!(check_out("main~1"), "one\n");
    std::fs::remove_file(&link).unwrap();
    assert_eq!(check_out("main"), "two\n");
    std::fs::remove_file(&link).unwrap();
    succeed(isolated("git").args(["init", "--quiet"]).current_dir(link.parent().unwrap()));
    assert_eq!(check_out("main~1"), "one\n");
    let entry = user.path(".git/worktrees/worktree/modules/lib");
    std::fs::write(entry.join("index.lock"), "").unwrap();
    assert_eq!(check_out("main"), "two\n", "a killed git left its lock");
    assert_same_bytes(&before, &every_byte(other.root(), |_| false));
}

#[test]
fn the_recorded_commit_is_checked_out_however_the_user_updates_submodules() {
    let mut library = library("one\n");
    let mut user = package();
    add_submodule(&user, "lib", &library);
    user.commit("with a submodule");
    library.write("lib.c", "two\n");
    library.commit("two");
    user.git(["-C", "lib", "pull", "--quiet"]);
    user.commit("lib moved");
    let ran = user.beside("ran");
    for way in ["merge", "rebase", &format!("!touch {}", ran.display())] {
        user.git(["config", "submodule.lib.update", way]);
        let repository = user.open().with_environment(ALLOW_FILE);
        let cache = cache(&user, &repository);
        let worktree = Worktree::open(&cache, &repository, &[]).unwrap();
        for (spec, content) in [("main", "two\n"), ("main~1", "one\n")] {
            worktree.check_out(&revision(&repository, spec)).unwrap_or_else(|error| panic!("{error:#}"));
            assert_eq!(read(&worktree.path().join("lib/lib.c")), content, "{way}");
        }
    }
    assert!(!ran.exists());
    user.git(["config", "submodule.lib.update", "none"]);
    let repository = user.open().with_environment(ALLOW_FILE);
    let cache = Cache::open(&utf8(&user.beside("another cache")), &repository).unwrap();
    let worktree = Worktree::open(&cache, &repository, &[]).unwrap();
    worktree.check_out(&revision(&repository, "main")).unwrap_or_else(|error| panic!("{error:#}"));
    assert!(!worktree.path().join("lib/lib.c").exists(), "the user does not want it");
}

#[test]
fn gits_rules_for_urls_of_submodules_are_those_of_the_user() {
    let ran = tempfile::tempdir().unwrap();
    let ran = ran.path().join("ran");
    let other = library("inner\n");
    let urls = [
        (format!("ext::sh -c touch% {}", ran.display()), "transport 'ext' not allowed"),
        (other.url(), "transport 'file' not allowed"),
        (format!("--upload-pack=touch {}", ran.display()), ""),
    ];
    for (url, reason) in urls {
        let mut user = package();
        with_gitmodules(&mut user, &format!("[submodule \"lib\"]\n\tpath = lib\n\turl = {url}\n"));
        let entry = format!("160000,{},lib", other.git(["rev-parse", "HEAD"]));
        user.git(["update-index", "--add", "--cacheinfo", &entry]);
        user.git(["commit", "--quiet", "--message", "a submodule"]);
        let repository = user.open();
        let cache = cache(&user, &repository);
        let worktree = Worktree::open(&cache, &repository, &[]).unwrap();
        worktree.check_out(&revision(&repository, "main")).unwrap_or_else(|error| panic!("{error:#}"));
        let missing = worktree.missing_submodules().of("main");
        assert!(missing[0].reason.contains(reason), "{missing:?}");
        assert!(!ran.exists(), "{url} ran");
    }
}

#[test]
fn a_submodule_that_cannot_be_fetched_is_left_out_and_told_once() {
    let (near, mut far) = (library("near\n"), library("far\n"));
    let mut source = package();
    add_submodule(&source, "vendor/near", &near);
    add_submodule(&source, "vendor/far", &far);
    source.commit("both");
    let user = TestRepository::clone_of(&source, &[]);
    let repository = user.open().with_environment(ALLOW_FILE);
    let cache = cache(&user, &repository);
    let worktree = Worktree::open(&cache, &repository, &[]).unwrap();
    let check_out = |worktree: &Worktree<'_>, spec: &str| {
        worktree.check_out(&revision(&repository, spec)).unwrap_or_else(|error| panic!("{spec}: {error:#}"));
    };
    check_out(&worktree, "main");
    let lib = |name: &str| worktree.path().join("vendor").join(name).join("lib.c");
    assert_eq!((read(&lib("near")), read(&lib("far"))), ("near\n".to_owned(), "far\n".to_owned()));

    // The other commit of the submodule cannot be had, so the files of this one must not stay.
    far.write("lib.c", "moved\n");
    let moved = far.commit("moved");
    source.git(["update-index", "--cacheinfo", &format!("160000,{moved},vendor/far")]);
    source.git(["commit", "--quiet", "--message", "moved"]);
    user.git(["pull", "--quiet", "--no-recurse-submodules"]);
    let away = far.beside("away");
    std::fs::rename(far.root(), &away).unwrap();
    check_out(&worktree, "main");
    assert_eq!(read(&lib("near")), "near\n");
    assert_eq!(std::fs::read_dir(lib("far").parent().unwrap()).unwrap().count(), 0);
    let new = worktree.missing_submodules().take_new();
    assert_eq!((new.len(), new[0].path.as_str()), (1, "vendor/far"));
    assert!(!new[0].reason.is_empty() && worktree.missing_submodules().take_new().is_empty());

    // All checkouts of a comparison have the same files, also if the remote comes back.
    std::fs::rename(&away, far.root()).unwrap();
    check_out(&worktree, "main");
    assert!(!lib("far").exists());
    assert_eq!(worktree.status().unwrap(), b"", "git sees a submodule that is not initialised");
    check_out(&Worktree::open(&cache, &repository, &[]).unwrap(), "main");
    assert_eq!(read(&lib("far")), "moved\n", "the next comparison tries again");
}

#[test]
fn an_excluded_submodule_is_neither_fetched_nor_kept() {
    let (near, far) = (library("near\n"), library("far\n"));
    let mut source = package();
    add_submodule(&source, "vendor/near", &near);
    add_submodule(&source, "vendor/far", &far);
    source.commit("both");
    let user = TestRepository::clone_of(&source, &[]);
    let repository = user.open().with_environment(ALLOW_FILE);
    let cache = cache(&user, &repository);
    let main = revision(&repository, "main");
    let check_out = |exclude: &[&str]| {
        let exclude: Vec<String> = exclude.iter().map(|pattern| (*pattern).to_owned()).collect();
        let worktree = Worktree::open(&cache, &repository, &exclude).unwrap();
        worktree.check_out(&main).unwrap_or_else(|error| panic!("{exclude:?}: {error:#}"));
        assert_eq!(worktree.missing_submodules().of("main"), []);
        assert_eq!(worktree.status().unwrap(), b"", "{exclude:?}");
        ["near", "far"].map(|name| worktree.path().join("vendor").join(name).join("lib.c").exists())
    };
    assert_eq!(check_out(&[]), [true, true]);
    std::fs::rename(far.root(), far.beside("away")).unwrap();
    for pattern in ["vendor/far", "vendor/far/", "/vendor/far/", "far"] {
        assert_eq!(check_out(&[pattern]), [true, false], "{pattern}");
    }
    assert_eq!(check_out(&["vendor/"]), [false, false]);
}

#[test]
fn submodules_whose_names_exclude_each_other_take_turns() {
    let [one, two] = ["one\n", "two\n"].map(library);
    let mut user = package();
    for (name, from) in [("libs/x", &one), ("libs", &two)] {
        let url = from.url();
        user.git(["checkout", "--quiet", "--detach", "main"]);
        let add =
            ["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", "--name", name, &url, "lib"];
        user.git(add);
        user.commit(name);
        user.git(["branch", &name.replace('/', "-")]);
        user.git(["rm", "--quiet", "lib"]);
        std::fs::remove_dir_all(user.path(".git/modules")).unwrap();
        user.git(["reset", "--quiet", "--hard"]);
    }
    let repository = user.open().with_environment(ALLOW_FILE);
    let cache = cache(&user, &repository);
    let worktree = Worktree::open(&cache, &repository, &[]).unwrap();
    for (spec, content) in [("libs-x", "one\n"), ("libs", "two\n"), ("libs-x", "one\n")] {
        worktree.check_out(&revision(&repository, spec)).unwrap_or_else(|error| panic!("{spec}: {error:#}"));
        assert_eq!(read(&worktree.path().join("lib/lib.c")), content);
    }
}

/// A repository whose `data.bin` is kept by Git LFS, or `None`, said aloud, where git-lfs is not installed.
fn with_lfs() -> Option<TestRepository> {
    let installed = std::process::Command::new("git-lfs").arg("version").output();
    if !installed.is_ok_and(|output| output.status.success()) {
        skip("git-lfs is not installed");
        return None;
    }
    let mut repository = package();
    repository.git(["lfs", "install", "--local"]);
    repository.write(".gitattributes", "*.bin filter=lfs diff=lfs merge=lfs -text\n");
    repository.write("data.bin", "large content\n");
    repository.commit("with lfs");
    assert!(repository.git(["cat-file", "-p", "HEAD:data.bin"]).starts_with("version https://git-lfs"));
    Some(repository)
}

/// A clone by a user who never ran `git lfs install`: it has pointers only.
fn clone_without_contents(source: &TestRepository) -> TestRepository {
    let clone = TestRepository::clone_of(source, &[]);
    assert!(clone.read("data.bin").starts_with("version https://git-lfs"));
    clone
}

#[test]
fn lfs_files_are_fetched_and_the_users_configuration_does_not_notice() {
    let Some(source) = with_lfs() else { return };
    let user = clone_without_contents(&source);
    let everything =
        || every_byte(user.root(), |path| [".git/objects", ".git/worktrees"].map(Path::new).contains(&path));
    let before = everything();
    let repository = user.open();
    let cache = cache(&user, &repository);
    let worktree = Worktree::open(&cache, &repository, &[]).unwrap();
    worktree.check_out(&revision(&repository, "main")).unwrap_or_else(|error| panic!("{error:#}"));
    assert_eq!(read(&worktree.path().join("data.bin")), "large content\n");
    assert_same_bytes(&before, &everything());

    // What the user has already need not be fetched.
    let offline = source;
    offline.git(["remote", "add", "origin", "file:///nowhere"]);
    let repository = offline.open();
    let cache = self::cache(&offline, &repository);
    let worktree = Worktree::open(&cache, &repository, &[]).unwrap();
    worktree.check_out(&revision(&repository, "main")).unwrap_or_else(|error| panic!("{error:#}"));
    assert_eq!(read(&worktree.path().join("data.bin")), "large content\n");
}

#[test]
fn lfs_files_that_cannot_be_had_are_named_and_can_be_left_out() {
    let Some(source) = with_lfs() else { return };
    let user = clone_without_contents(&source);
    std::fs::rename(source.root(), source.beside("gone")).unwrap();
    let repository = user.open();
    let cache = cache(&user, &repository);
    let main = revision(&repository, "main");
    let worktree = Worktree::open(&cache, &repository, &[]).unwrap();
    let error = worktree.check_out(&main).unwrap_err();
    assert!(error.to_string().starts_with("main has only Git LFS pointers for 'data.bin'"), "{error:#}");
    assert!(help(&error).unwrap().contains("--sparse-exclude 'data.bin'"));
    // Git finds its own programs without PATH, and nothing else.
    let bare = user.beside("programs");
    std::fs::create_dir(&bare).unwrap();
    for program in ["git", "sh"] {
        let found = crate::support::succeed(crate::support::isolated("which").arg(program)).stdout;
        std::os::unix::fs::symlink(String::from_utf8(found).unwrap().trim(), bare.join(program)).unwrap();
    }
    let not_installed = user.open().with_environment([("PATH", bare.display().to_string())]);
    let error = Worktree::open(&cache, &not_installed, &[]).unwrap().check_out(&main).unwrap_err();
    assert!(error.to_string().ends_with("'data.bin': git-lfs is not installed"), "{error:#}");

    let worktree = Worktree::open(&cache, &repository, &["data.bin".to_owned()]).unwrap();
    worktree.check_out(&main).unwrap_or_else(|error| panic!("{error:#}"));
    assert!(!worktree.path().join("data.bin").exists());
    assert!(worktree.path().join("Cargo.toml").exists());
}

#[test]
fn pointers_that_no_filter_replaced_are_an_error() {
    let mut user = package();
    user.write(".gitattributes", "*.bin filter=lfs diff=lfs merge=lfs -text\n");
    user.write("data.bin", "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n");
    user.commit("committed where git-lfs was not installed");
    // A filter of that name which is not git-lfs, and leaves the pointer.
    user.git(["config", "filter.lfs.smudge", "cat"]);
    user.git(["config", "filter.lfs.process", "my-own-filter"]);
    user.git(["config", "filter.lfs.required", "false"]);
    let repository = user.open();
    let cache = cache(&user, &repository);
    let worktree = Worktree::open(&cache, &repository, &[]).unwrap();
    let error = worktree.check_out(&revision(&repository, "main")).unwrap_err();
    assert!(error.to_string().contains("only Git LFS pointers for 'data.bin'"), "{error:#}");
}

#[test]
fn a_partial_clone_fetches_what_it_lacks_and_names_what_it_cannot_have() {
    let mut source = package();
    source.write("old é.txt", "one\n");
    for number in 0..4 {
        source.write(&format!("data/{number}"), format!("{number}, one\n"));
    }
    source.commit("one");
    source.write("old é.txt", "two\n");
    source.git(["rm", "--quiet", "-r", "data"]);
    source.commit("two");
    source.git(["config", "uploadpack.allowFilter", "true"]);
    source.git(["config", "uploadpack.allowAnySHA1InWant", "true"]);
    let user = TestRepository::clone_of(&source, &["--filter=blob:none"]);
    let missing = || user.git(["rev-list", "--objects", "--all", "--missing=print"]).matches('?').count();
    assert_eq!(missing(), 5, "the old contents are not here");
    let repository = user.open();
    let cache = cache(&user, &repository);
    let worktree = Worktree::open(&cache, &repository, &[]).unwrap();
    let old = revision(&repository, "main~1");

    std::fs::rename(source.root(), source.beside("unreachable")).unwrap();
    let error = worktree.check_out(&old).unwrap_err();
    assert_eq!(error.to_string(), "main~1 lacks the contents of 'data/0', 'data/1', 'data/2' and 2 more");
    assert!(format!("{error:#}").contains("fatal:"), "{error:#}");
    let advice = help(&error).unwrap();
    assert!(advice.starts_with("to fetch all 5: git rev-list "), "{advice}");
    let exclude = "--sparse-exclude /data/0 --sparse-exclude /data/1 --sparse-exclude /data/2 --sparse-exclude /data/3 --sparse-exclude '/old é.txt'";
    assert!(advice.ends_with(exclude), "{advice}");
    let error = repository.show(&old.commit, "old é.txt").unwrap_err();
    assert!(format!("{error:#}").contains("'old é.txt' at "), "{error:#}");
    let sparse = Worktree::open(&cache, &repository, &["old*.txt".to_owned(), "data/".to_owned()]).unwrap();
    sparse.check_out(&old).unwrap_or_else(|error| panic!("{error:#}"));
    assert!(sparse.path().join("src/lib.rs").exists() && !sparse.path().join("old é.txt").exists());

    std::fs::rename(source.beside("unreachable"), source.root()).unwrap();
    let fetch = advice.lines().next().and_then(|line| line.strip_prefix("to fetch all 5: ")).unwrap();
    let pasted = user.command("sh").args(["-c", fetch]).output().unwrap();
    assert!(pasted.status.success(), "{pasted:?}");
    assert_eq!(missing(), 0, "the command of the help fetches all of them");
    let worktree = Worktree::open(&cache, &repository, &[]).unwrap();
    worktree.check_out(&old).unwrap_or_else(|error| panic!("{error:#}"));
    assert_eq!(read(&worktree.path().join("old é.txt")), "one\n");
    assert_eq!(repository.show(&old.commit, "old é.txt").unwrap().unwrap(), b"one\n");
}

#[test]
fn a_shallow_clone_stays_as_shallow_as_it_is() {
    let mut source = package();
    let fork_point = source.git(["rev-parse", "HEAD"]);
    for number in 0..4 {
        source.commit(&format!("main {number}"));
    }
    source.git(["switch", "--quiet", "--detach", &fork_point]);
    source.write("src/lib.rs", "// of the pull request\n");
    let pull_request = source.commit("from before the boundary");
    source.git(["update-ref", "refs/pull/7/head", &pull_request]);
    source.git(["switch", "--quiet", "main"]);
    let user = TestRepository::clone_of(&source, &["--depth=2"]);
    let boundary = user.read(".git/shallow");
    let repository = user.open();
    let plan = plan(&repository, &["main", "pr/7"]);
    assert_eq!(plan.revisions[1].commit, pull_request);
    assert_eq!(user.read(".git/shallow"), boundary);

    let request = |spec: &str, baseline| Request {
        refs: ["main", spec].map(|spec| RefRequest { spec: spec.to_owned(), ..RefRequest::default() }).into(),
        baseline,
        ..Request::default()
    };
    let too_deep = resolve(&request("main~3", BaselineRequest::First), &repository, &|_| ()).unwrap_err();
    assert_eq!(too_deep.to_string(), "no commit 'main~3': the history of 'main' is shorter");
    let unrelated = resolve(&request("pr/7", BaselineRequest::MergeBase), &repository, &|_| ()).unwrap_err();
    assert!(help(&unrelated).unwrap().contains("--unshallow"), "{unrelated}");
}
