//! Revisions are checked out beside the user's repository, which does not notice.

use std::cell::RefCell;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime};

use crate::support::{Bytes, ENVIRONMENT, TestRepository, assert_same_bytes, every_byte, isolated, succeed};
use camino::{Utf8Path, Utf8PathBuf};
use memprof_build::checkout::cache::Cache;
use memprof_build::checkout::injected_files::InjectedFiles;
use memprof_build::checkout::worktree::Worktree;
use memprof_build::git::repository::Repository;
use memprof_build::git::resolve::resolve;
use memprof_plan::request::{RefRequest, Request};
use memprof_plan::resolved::{Plan, Revision};
use memprof_support::advice::help;
use memprof_support::event::Event;
use memprof_support::file_lock::{Lock, LockFile, WhenHeld};

const MANIFEST: &str = "[package]\nname = \"fixture\"\nversion = \"0.1.0\"\nedition = \"2024\"\n";

/// A repository with its cache.
pub struct Setting<'a> {
    pub user: &'a TestRepository,
    pub repository: Repository,
    pub cache: Cache,
    events: RefCell<Vec<Event>>,
}

impl<'a> Setting<'a> {
    pub fn new(user: &'a TestRepository) -> Self {
        Self::with_environment(user, &[])
    }

    fn with_environment(user: &'a TestRepository, environment: &[(&str, &str)]) -> Self {
        let repository = user.open().with_environment(environment.iter().copied());
        let cache = Cache::open(&utf8(&user.beside("cache")), &repository).unwrap();
        Self { user, repository, cache, events: RefCell::default() }
    }

    fn plan(&self, refs: &[&str]) -> Plan {
        let reference = |spec: &&str| RefRequest { spec: (*spec).to_owned(), ..RefRequest::default() };
        let request = Request { refs: refs.iter().map(reference).collect(), ..Request::default() };
        let sink = |event| self.events.borrow_mut().push(event);
        resolve(&request, &self.repository, &sink).unwrap_or_else(|error| panic!("{error:#}"))
    }

    pub fn revision(&self, spec: &str) -> Revision {
        self.plan(&[spec, spec]).revisions.swap_remove(0)
    }

    pub fn open(&self) -> Worktree<'_> {
        self.open_without(&[])
    }

    fn open_without(&self, sparse_exclude: &[&str]) -> Worktree<'_> {
        let exclude: Vec<_> = sparse_exclude.iter().map(|pattern| (*pattern).to_owned()).collect();
        Worktree::open(&self.cache, &self.repository, &exclude).unwrap_or_else(|error| panic!("{error:#}"))
    }

    /// Checks a ref out and returns the worktree's path.
    pub fn check_out(&self, spec: &str) -> Utf8PathBuf {
        let worktree = self.open();
        worktree.check_out(&self.revision(spec)).unwrap_or_else(|error| panic!("{error:#}"));
        worktree.path().to_owned()
    }

    pub fn clean(self, runs: &[Utf8PathBuf]) -> u64 {
        let lock = Lock::acquire(
            &LockFile::of_folder(self.cache.lock()),
            WhenHeld::Fail,
            &AtomicBool::new(false),
            &|_| (),
        )
        .unwrap();
        self.cache.clean(&self.repository, lock, runs).unwrap()
    }

    fn warnings(&self) -> Vec<String> {
        let events = self.events.borrow();
        let warning = |event: &Event| match event {
            Event::Warning { message, .. } => Some(message.clone()),
            _ => None,
        };
        events.iter().filter_map(warning).collect()
    }
}

pub fn utf8(path: &Path) -> Utf8PathBuf {
    Utf8PathBuf::from_path_buf(path.to_owned()).unwrap()
}

pub fn modified(path: &Utf8Path) -> SystemTime {
    path.metadata().unwrap().modified().unwrap()
}

pub fn read(path: &Utf8Path) -> String {
    std::fs::read_to_string(path).unwrap()
}

/// Clocks of file systems tick every few milliseconds.
fn let_the_clock_tick() {
    std::thread::sleep(Duration::from_millis(20));
}

pub fn package() -> TestRepository {
    let mut repository = TestRepository::new();
    repository.write("Cargo.toml", MANIFEST);
    repository.write("src/lib.rs", "pub fn one() -> u32 { 1 }\n");
    repository.write("src/same.rs", "// the same in every revision\n");
    repository.commit("first");
    repository
}

/// Everything but what the tool may write: objects, its refs, and the entry of its worktree.
pub fn users_bytes(root: &Path) -> Bytes {
    let ours = [".git/objects", ".git/refs/memprof", ".git/worktrees"];
    every_byte(root, |path| ours.iter().any(|skipped| path == Path::new(skipped)))
}

#[test]
fn the_users_checkout_head_index_stash_branches_and_configuration_are_never_changed() {
    let mut remote = package();
    remote.git(["tag", "on-the-remote"]);
    remote.git(["switch", "--quiet", "--create", "feature"]);
    remote.write("src/lib.rs", "pub fn one() -> u32 { 2 }\n");
    let pull_request = remote.commit("a pull request");
    remote.git(["tag", "on-the-pull-request"]);
    remote.git(["update-ref", "refs/pull/7/head", &pull_request]);

    let mut user = TestRepository::clone_of(&remote, &["--origin=upstream", "--branch=main", "--no-tags"]);
    user.git(["config", "--add", "remote.upstream.fetch", "+refs/pull/*/head:refs/remotes/upstream/pr/*"]);
    user.git(["config", "remote.upstream.tagOpt", "--tags"]);
    for setting in [
        "fetch.prune=true",
        "fetch.pruneTags=true",
        "fetch.writeCommitGraph=true",
        "core.logAllRefUpdates=always",
        "core.splitIndex=true",
        "core.untrackedCache=true",
        "submodule.recurse=true",
        "gc.auto=1",
        "commit.gpgSign=true",
        "index.threads=1",
    ] {
        let (name, value) = setting.split_once('=').unwrap();
        user.git(["config", name, value]);
    }
    user.git(["config", "commit.gpgSign", "false"]);
    user.write(".gitignore", "ignored\n");
    user.commit("a commit of the user's");
    user.git(["branch", "other", "HEAD~1"]);
    user.git(["pack-refs", "--all"]);
    user.write("src/lib.rs", "// stashed\n");
    user.git(["stash", "--quiet"]);
    user.write("src/same.rs", "// staged\n");
    user.git(["add", "src/same.rs"]);
    user.write("src/same.rs", "// changed after staging\n");
    user.write("src/lib.rs", "// changed and not staged\n");
    user.write("untracked é.rs", "// untracked\n");
    user.write("ignored", "ignored\n");
    user.git(["remote", "set-head", "upstream", "--delete"]);
    // Hooks that would show.
    for hook in ["post-checkout", "reference-transaction", "post-index-change", "pre-auto-gc", "post-rewrite"]
    {
        let path = user.path(&format!(".git/hooks/{hook}"));
        std::fs::write(&path, format!("#!/bin/sh\ntouch '{}'/hook-ran\n", user.root().display())).unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let before = users_bytes(user.root());
    assert!(before.keys().any(|path| path.to_string_lossy().contains("sharedindex")), "the index is split");

    let setting = Setting::new(&user);
    let plan = setting.plan(&[".", "pr/7", "main", "other"]);
    // The copy under refs/remotes must not have been there for the fetch to be a test.
    assert_eq!(plan.revisions[1].found.as_deref(), Some("fetched from upstream"));
    assert_eq!(plan.revisions[1].commit, pull_request);
    let worktree = setting.open();
    for revision in plan.revisions.iter().chain(&plan.revisions) {
        worktree.check_out(revision).unwrap_or_else(|error| panic!("{error:#}"));
        if revision.working_tree {
            assert_eq!(read(&worktree.path().join("src/same.rs")), "// changed after staging\n");
            assert_eq!(read(&worktree.path().join("src/lib.rs")), "// changed and not staged\n");
            assert_eq!(read(&worktree.path().join("untracked é.rs")), "// untracked\n");
            assert!(!worktree.path().join("ignored").exists());
        }
    }
    assert_same_bytes(&before, &users_bytes(user.root()));

    let bytes = setting.clean(&[]);
    assert!(bytes > 0);
    let all_but_objects = every_byte(user.root(), |path| path == Path::new(".git/objects"));
    assert_same_bytes(&before, &all_but_objects);
}

#[test]
fn equal_content_of_the_working_tree_is_an_equal_commit() {
    let user = package();
    let setting = Setting::new(&user);
    user.write("src/lib.rs", "// changed\n");
    user.write("new.rs", "// new\n");
    let first = setting.revision(".");
    assert!(first.working_tree && first.short().ends_with('+'));
    std::thread::sleep(Duration::from_millis(1100));
    user.git(["add", "new.rs"]);
    assert_eq!(setting.revision("."), first, "staged or not, later or not");
    user.write("new.rs", "// other\n");
    assert_ne!(setting.revision(".").commit, first.commit);
    assert_eq!(user.git(["rev-parse", &format!("{}^", first.commit)]), user.git(["rev-parse", "HEAD"]));
    assert!(user.git(["for-each-ref"]).contains(&first.commit), "a ref keeps it alive");
}

#[test]
fn target_folders_that_git_does_not_ignore_are_no_part_of_the_working_tree() {
    let user = package();
    let tag = "Signature: 8a477f597d28d172789f06886806bc55\n# This file is a cache directory tag created by cargo.\n";
    user.write("target/CACHEDIR.TAG", tag);
    user.write("target/debug/output", "built");
    let setting = Setting::new(&user);
    let files = || every_byte(user.root(), |_| false).into_keys().collect::<Vec<_>>();
    let before = files();
    assert_eq!(setting.revision(".").commit, user.git(["rev-parse", "HEAD"]), "nothing else is there");
    assert_eq!(files(), before);

    user.write("new/src/lib.rs", "// new\n");
    user.write("new/target*/CACHEDIR.TAG", tag);
    user.write("new/target*/output", "built");
    user.write("other/CACHEDIR.TAG", "Signature: 8a477f597d28d172789f06886806bc55\n");
    user.write("other/data", "of another program\n");
    user.write("mixed/tracked", "tracked\n");
    user.git(["add", "mixed"]);
    user.write("mixed/CACHEDIR.TAG", tag);
    user.write("mixed/untracked.rs", "// untracked\n");
    let path = setting.check_out(".");
    for there in ["new/src/lib.rs", "other/CACHEDIR.TAG", "other/data", "mixed/untracked.rs"] {
        assert!(path.join(there).exists(), "{there}");
    }
    for left_out in ["target", "new/target*"] {
        assert!(!path.join(left_out).exists(), "{left_out}");
    }
    user.git(["add", "--force", "target"]);
    assert!(setting.check_out(".").join("target/debug/output").exists(), "git tracks it");
}

#[test]
fn a_change_within_the_tick_of_the_clock_in_which_the_index_was_written_is_seen() {
    let user = package();
    let setting = Setting::new(&user);
    // As a coarse clock would have it: the file, the index and the changed file all have one time, which is past by now.
    user.git(["config", "core.trustctime", "false"]);
    let stamp = |path: &str, time| {
        let file = std::fs::File::options().append(true).open(user.path(path)).unwrap();
        file.set_modified(time).unwrap();
    };
    let time = SystemTime::now() - Duration::from_secs(10);
    user.write("src/same.rs", "before\n");
    stamp("src/same.rs", time);
    user.git(["add", "src/same.rs"]);
    user.write("src/same.rs", "after!\n");
    stamp("src/same.rs", time);
    stamp(".git/index", time);
    let commit = setting.revision(".").commit;
    assert_eq!(setting.repository.show(&commit, "src/same.rs").unwrap().unwrap(), b"after!\n");
}

#[test]
fn changes_that_the_user_hid_from_git_are_part_of_the_working_tree() {
    let user = package();
    user.git(["update-index", "--assume-unchanged", "src/lib.rs"]);
    user.git(["update-index", "--skip-worktree", "src/same.rs"]);
    user.write("src/lib.rs", "// assumed unchanged\n");
    user.write("src/same.rs", "// skipped\n");
    let setting = Setting::new(&user);
    let path = setting.check_out(".");
    assert_eq!(read(&path.join("src/lib.rs")), "// assumed unchanged\n");
    assert_eq!(read(&path.join("src/same.rs")), "// skipped\n");
    assert!(user.git(["ls-files", "-v"]).contains("h src/lib.rs"), "the user's marks stay");
}

#[test]
fn names_that_are_not_utf8_are_part_of_the_working_tree() {
    let mut user = package();
    let name = |name: &'static [u8]| Path::new(OsStr::from_bytes(name));
    let (tracked, new) = (name(b"tracked\xe9.txt"), name(b"new\xe9.txt"));
    std::fs::write(user.root().join(tracked), "before\n").unwrap();
    user.commit("tracked");
    let hide = ["update-index", "--assume-unchanged"].map(OsStr::new).into_iter();
    user.git(hide.chain([tracked.as_os_str()]));
    std::fs::write(user.root().join(tracked), "hidden\n").unwrap();
    std::fs::write(user.root().join(new), "new\n").unwrap();
    let path = Setting::new(&user).check_out(".");
    let read = |name: &Path| std::fs::read_to_string(path.as_std_path().join(name)).unwrap();
    assert_eq!((read(tracked), read(new)), ("hidden\n".to_owned(), "new\n".to_owned()));
}

#[test]
fn a_deleted_file_a_folder_in_its_place_and_a_nested_repository_are_dealt_with() {
    let mut user = package();
    user.write("place", "a file\n");
    user.commit("place");
    std::fs::remove_file(user.path("place")).unwrap();
    user.write("place/inside.rs", "// inside\n");
    std::fs::remove_file(user.path("src/same.rs")).unwrap();
    user.write("nested/file", "x");
    succeed(isolated("git").args(["init", "--quiet"]).current_dir(user.path("nested")));
    let setting = Setting::new(&user);
    let path = setting.check_out(".");
    assert_eq!(read(&path.join("place/inside.rs")), "// inside\n");
    assert!(!path.join("src/same.rs").exists());
    assert!(!path.join("nested").exists());
    assert!(
        setting.warnings()[0].starts_with("'nested/' is a nested repository"),
        "{:?}",
        setting.warnings()
    );
    setting.check_out("main");
    assert_eq!(read(&path.join("place")), "a file\n");
}

#[test]
fn only_files_that_differ_get_a_new_time() {
    let mut user = package();
    user.write("src/lib.rs", "pub fn one() -> u32 { 2 }\n");
    user.write("only-here/x.rs", "");
    user.commit("second");
    let setting = Setting::new(&user);
    let path = setting.check_out("main");
    let (same, changed) = (modified(&path.join("src/same.rs")), modified(&path.join("src/lib.rs")));
    // A build leaves ignored and untracked files.
    std::fs::write(path.join("untracked"), "").unwrap();
    let_the_clock_tick();
    setting.check_out("main~1");
    assert_eq!(modified(&path.join("src/same.rs")), same);
    assert!(modified(&path.join("src/lib.rs")) > changed);
    assert!(!path.join("only-here").exists() && !path.join("untracked").exists());
    let_the_clock_tick();
    let before_return = modified(&path.join("src/lib.rs"));
    setting.check_out("main");
    assert!(modified(&path.join("src/lib.rs")) > before_return, "going back is a change for cargo, too");
}

#[test]
fn an_injected_file_keeps_its_time_over_checkouts_only_while_its_content_is_the_same() {
    let mut user = package();
    user.write("src/other.rs", "// second\n");
    user.write(".gitignore", "ignored-*\n");
    user.commit("second");
    let setting = Setting::new(&user);
    let worktree = setting.open();
    let build = |spec: &str, files: &[(&str, &str)]| {
        worktree.check_out(&setting.revision(spec)).unwrap();
        let_the_clock_tick();
        let mut injected = InjectedFiles::load(&setting.cache.injected()).unwrap();
        for (path, content) in files {
            injected.write(worktree.path(), path.as_ref(), content.as_bytes()).unwrap();
        }
        injected.save().unwrap();
        let_the_clock_tick();
        files.iter().map(|(path, _)| modified(&worktree.path().join(path))).collect::<Vec<_>>()
    };
    let appended = "pub fn one() -> u32 { 1 }\n\nextern crate memprof as _;\n";
    let files =
        [("src/lib.rs", appended), ("tests/overlay.rs", "// overlay\n"), ("ignored-overlay.rs", "// x\n")];
    let first = build("main", &files);
    assert_eq!(build("main~1", &files), first, "the same bytes: cargo must not build again");
    let mut changed = files;
    changed[0].1 = "// instrumented otherwise\n";
    let second = build("main", &changed);
    assert!(second[0] > first[0]);
    assert_eq!(second[1..], first[1..]);

    build("main", &[]);
    assert_eq!(read(&worktree.path().join("src/lib.rs")), "pub fn one() -> u32 { 1 }\n");
    assert!(modified(&worktree.path().join("src/lib.rs")) > second[0]);
    assert!(!worktree.path().join("tests").exists() && !worktree.path().join("ignored-overlay.rs").exists());
    assert!(build("main", &changed)[1] > second[1], "a build in between did not have it");
}

#[test]
fn a_worktree_that_a_killed_run_left_is_reused_and_a_damaged_one_is_made_anew() {
    let user = package();
    user.git(["worktree", "add", "--quiet", "--detach", "../worktree"]);
    let users_own = user.beside("worktree");
    let setting = Setting::new(&user);
    let path = setting.check_out("main");
    let entries = || std::fs::read_dir(user.path(".git/worktrees")).unwrap().count();
    assert_eq!(entries(), 2);

    let entry = user.git(["-C", path.as_str(), "rev-parse", "--absolute-git-dir"]);
    let time = modified(&path.join("src/lib.rs"));
    std::fs::write(Path::new(&entry).join("index.lock"), "").unwrap();
    std::fs::write(path.join("src/same.rs"), "half writ").unwrap();
    setting.check_out("main");
    assert_eq!(modified(&path.join("src/lib.rs")), time, "it was reused");
    assert_eq!(read(&path.join("src/same.rs")), "// the same in every revision\n");

    std::fs::remove_dir_all(&path).unwrap();
    setting.check_out("main");
    std::fs::write(path.join(".git"), "gitdir: /nowhere\n").unwrap();
    setting.check_out("main");
    std::fs::remove_file(path.join(".git")).unwrap();
    setting.check_out("main");
    std::fs::remove_file(Path::new(&entry).join("HEAD")).unwrap();
    setting.check_out("main");
    assert_eq!(entries(), 2);
    assert!(users_own.join("src/lib.rs").exists());
    assert_eq!(user.git(["worktree", "list", "--porcelain"]).matches("prunable").count(), 0);
}

#[test]
fn a_cache_that_moved_is_repaired_and_one_that_was_copied_gets_its_own_worktree() {
    let user = package();
    let setting = Setting::new(&user);
    let path = setting.check_out("main");
    let time = modified(&path.join("src/lib.rs"));
    std::fs::rename(user.beside("cache"), user.beside("moved")).unwrap();
    let moved = Cache::open(&utf8(&user.beside("moved")), &setting.repository).unwrap();
    let worktree = Worktree::open(&moved, &setting.repository, &[]).unwrap();
    worktree.check_out(&setting.revision("main")).unwrap();
    assert_eq!(modified(&worktree.path().join("src/lib.rs")), time);
    let entries = || std::fs::read_dir(user.path(".git/worktrees")).unwrap().count();
    assert_eq!(entries(), 1);

    succeed(std::process::Command::new("cp").arg("-a").arg(user.beside("moved")).arg(user.beside("copied")));
    let copied = Cache::open(&utf8(&user.beside("copied")), &setting.repository).unwrap();
    Worktree::open(&copied, &setting.repository, &[]).unwrap().check_out(&setting.revision("main")).unwrap();
    assert_eq!(entries(), 2);
    worktree.check_out(&setting.revision("main")).unwrap();
}

#[test]
fn the_cache_lies_outside_of_the_repository_and_of_any_workspace() {
    let user = package();
    let repository = user.open();
    for inside in ["target/cache", ".git/cache", ""] {
        let error = Cache::open(&utf8(&user.path(inside)), &repository).unwrap_err();
        assert!(error.to_string().contains("is inside the repository"), "{error}");
        assert!(help(&error).unwrap().contains("export CARGO_MEMPROF_HOME=/"), "{error}");
    }
    std::fs::write(user.beside("Cargo.toml"), "[workspace]\n").unwrap();
    let error = Cache::open(&utf8(&user.beside("cache")), &repository).unwrap_err().to_string();
    assert!(error.contains("below the cargo workspace"), "{error}");
    std::fs::remove_file(user.beside("Cargo.toml")).unwrap();
    let setting = Setting::new(&user);
    let own = Repository::discover(&setting.check_out("main")).unwrap();
    let error = Cache::open(&utf8(&user.beside("cache")), &own).unwrap_err();
    assert!(error.to_string().contains("a checkout that this tool made"), "{error}");
    assert_eq!(
        help(&error).unwrap(),
        format!("run the command in your own checkout: cd {}", user.root().display())
    );
}

#[test]
fn clean_removes_what_is_kept_and_counts_it() {
    let mut user = package();
    user.git(["branch", "other"]);
    user.write("src/lib.rs", "// dirty\n");
    let runs = utf8(&user.beside("runs"));
    std::fs::create_dir(&runs).unwrap();
    std::fs::write(runs.join("log.jsonl"), vec![b'x'; 50_000]).unwrap();
    let setting = Setting::new(&user);
    setting.check_out(".");
    std::fs::create_dir_all(setting.cache.store()).unwrap();
    std::fs::write(setting.cache.store().join("executable"), vec![1; 1_000_000]).unwrap();
    let folder = setting.cache.folder().to_owned();
    let bytes = setting.clean(std::slice::from_ref(&runs));
    assert!((1_050_000..2_000_000).contains(&bytes), "{bytes}");
    assert!(!folder.exists() && !runs.exists());
    assert!(!user.path(".git/worktrees").exists() && !user.path(".git/refs/memprof").exists());
    assert_eq!(user.git(["for-each-ref", "--format=%(refname)"]), "refs/heads/main\nrefs/heads/other");
    assert!(Setting::new(&user).clean(&[]) > 0, "the folder that holds the lock is all there is");
    user.commit("the repository works as before");
}

#[test]
fn a_linked_worktree_a_detached_head_and_a_strange_path_are_as_good_as_any_checkout() {
    let mut main = TestRepository::with("with space and é", &[]);
    main.write("Cargo.toml", MANIFEST);
    main.write("src/lib.rs", "");
    main.commit("first");
    main.git(["checkout", "--quiet", "--detach"]);
    main.git(["worktree", "add", "--quiet", "../the linked", "-b", "linked"]);
    let linked = utf8(&main.beside("the linked"));
    std::fs::write(linked.join("src/lib.rs"), "// in the linked one\n").unwrap();
    let setting = Setting {
        repository: Repository::discover(&linked).unwrap().with_environment(ENVIRONMENT),
        ..Setting::new(&main)
    };
    let path = setting.check_out(".");
    assert_eq!(read(&path.join("src/lib.rs")), "// in the linked one\n");
    let from_main = Setting::new(&main);
    assert_eq!(from_main.check_out("HEAD"), path, "one cache for all worktrees of a repository");
    assert_eq!(read(&path.join("src/lib.rs")), "");
    assert_eq!(setting.user.git(["status", "--porcelain"]), "");
}

#[test]
fn sha256_and_reftable_repositories_are_checked_out() {
    for format in ["--object-format=sha256", "--ref-format=reftable"] {
        let mut user = TestRepository::with("repository", &[format]);
        user.write("Cargo.toml", MANIFEST);
        user.write("src/lib.rs", "// first\n");
        user.commit("first");
        user.write("src/lib.rs", "// second\n");
        let setting = Setting::new(&user);
        let path = setting.check_out("main");
        assert_eq!(read(&path.join("src/lib.rs")), "// first\n", "{format}");
        setting.check_out(".");
        assert_eq!(read(&path.join("src/lib.rs")), "// second\n", "{format}");
        setting.clean(&[]);
        assert_eq!(user.git(["for-each-ref", "--format=%(refname)"]), "refs/heads/main", "{format}");
    }
}

#[test]
fn patterns_are_left_out_and_come_back() {
    let mut user = package();
    user.write("data/big.bin", "big\n");
    user.write("data/small.txt", "small\n");
    user.commit("data");
    // A user's own sparse checkout is no business of ours.
    user.git(["sparse-checkout", "set", "src"]);
    assert!(!user.path("data").exists());
    let before = users_bytes(user.root());
    let setting = Setting::new(&user);
    let main = setting.revision("main");
    let path = setting.cache.worktree();
    setting.open().check_out(&main).unwrap();
    assert!(path.join("data/big.bin").exists());
    setting.open_without(&["*.bin", "/src/same.rs"]).check_out(&main).unwrap();
    assert!(!path.join("data/big.bin").exists() && !path.join("src/same.rs").exists());
    assert_eq!(read(&path.join("data/small.txt")), "small\n");
    setting.open().check_out(&main).unwrap();
    assert_eq!(read(&path.join("data/big.bin")), "big\n");
    assert_same_bytes(&before, &users_bytes(user.root()));
    let whole = setting.revision(".");
    assert_eq!(whole.tree, main.tree, "what a sparse checkout does not show is still in it");
    user.write("data/small.txt", "changed\n");
    let changed = setting.revision(".");
    setting.open().check_out(&changed).unwrap();
    assert_eq!(read(&path.join("data/small.txt")), "changed\n", "a file outside of the sparse checkout");
    assert_eq!(read(&path.join("data/big.bin")), "big\n");
    let bad = Worktree::open(&setting.cache, &setting.repository, &["!x".to_owned()]);
    assert!(bad.err().unwrap().to_string().contains("is not a pattern"));
}
