//! Contents that are not in the repository itself: Git LFS, partial and shallow clones.

use std::path::Path;

use crate::support::{TestRepository, assert_same_bytes, every_byte, skip};
use camino::{Utf8Path, Utf8PathBuf};
use memprof_build::checkout::cache::Cache;
use memprof_build::checkout::worktree::Worktree;
use memprof_build::git::changed_files::changed_files;
use memprof_build::git::repository::Repository;
use memprof_build::git::resolve::resolve;
use memprof_plan::request::{BaselineRequest, RefRequest, Request};
use memprof_plan::resolved::{Plan, Revision};
use memprof_support::advice::help;

const MANIFEST: &str = "[package]\nname = \"fixture\"\nversion = \"0.1.0\"\nedition = \"2024\"\n";

/// Git refuses to clone submodules from the disk unless the user's configuration allows it.
pub const ALLOW_FILE: [(&str, &str); 3] = [
    ("GIT_CONFIG_COUNT", "1"),
    ("GIT_CONFIG_KEY_0", "protocol.file.allow"),
    ("GIT_CONFIG_VALUE_0", "always"),
];

pub fn utf8(path: &Path) -> Utf8PathBuf {
    Utf8PathBuf::from_path_buf(path.to_owned()).unwrap()
}

pub fn read(path: &Utf8Path) -> String {
    std::fs::read_to_string(path).unwrap()
}

pub fn cache(user: &TestRepository, repository: &Repository) -> Cache {
    Cache::open(&utf8(&user.beside("cache")), repository).unwrap()
}

pub fn plan(repository: &Repository, refs: &[&str]) -> Plan {
    let reference = |spec: &&str| RefRequest { spec: (*spec).to_owned(), ..RefRequest::default() };
    let request = Request { refs: refs.iter().map(reference).collect(), ..Request::default() };
    resolve(&request, repository, &|_| ()).unwrap_or_else(|error| panic!("{error:#}"))
}

pub fn revision(repository: &Repository, spec: &str) -> Revision {
    plan(repository, &[spec, spec]).revisions.swap_remove(0)
}

pub fn configuration(user: &TestRepository) -> String {
    user.read(".git/config")
}

pub fn package() -> TestRepository {
    let mut repository = TestRepository::new();
    repository.write("Cargo.toml", MANIFEST);
    repository.write("src/lib.rs", "");
    repository.commit("first");
    repository
}

pub fn library(content: &str) -> TestRepository {
    let mut repository = TestRepository::new();
    repository.write("lib.c", content);
    repository.commit("library");
    repository
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
    source.write("new", "5, one\n");
    let new = source.commit("two");
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
    let changed = changed_files(&repository, &old.commit, &new).unwrap_or_else(|error| panic!("{error:#}"));
    assert_eq!(changed.len(), 6, "without the contents, no file is a renamed one: {changed:?}");
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
