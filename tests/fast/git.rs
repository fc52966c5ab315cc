//! Refs become revisions, on real repositories.

use std::cell::RefCell;

use crate::support::{ENVIRONMENT, TestRepository, skip};
use camino::Utf8Path;
use memprof_build::git::repository::Repository;
use memprof_build::git::resolve::resolve;
use memprof_build::git::resolve_error::ResolveError;
use memprof_plan::request::{
    BaselineRequest, LockfileRequest, OverlayMode, OverlayRequest, RefRequest, Request,
};
use memprof_plan::resolved::{Plan, Revision};
use memprof_support::advice::Advised;
use memprof_support::advice::help;
use memprof_support::event::Event;

pub(crate) const MANIFEST: &str = "[package]\nname = \"fixture\"\nversion = \"0.1.0\"\nedition = \"2024\"\n";

pub(crate) fn request(refs: &[&str]) -> Request {
    let reference = |spec: &&str| RefRequest { spec: (*spec).to_owned(), ..RefRequest::default() };
    Request { refs: refs.iter().map(reference).collect(), ..Request::default() }
}

pub(crate) fn plan(repository: &TestRepository, refs: &[&str]) -> Plan {
    resolve(&request(refs), &repository.open(), &|_| ()).unwrap_or_else(|error| panic!("{error:#}"))
}

pub(crate) fn error(repository: &TestRepository, refs: &[&str]) -> anyhow::Error {
    resolve(&request(refs), &repository.open(), &|_| ()).expect_err("these refs have no plan")
}

/// The plan's revisions for two equal refs; the first one.
fn revision(repository: &TestRepository, spec: &str) -> Revision {
    plan(repository, &[spec, spec]).revisions.swap_remove(0)
}

#[test]
fn git_syncs_what_it_writes_for_the_tool() {
    let repository = package();
    // Otherwise a power failure may empty a ref or an object, and git fails on it from then on.
    let setting = repository.open().git().args(["config", "core.fsync"]).run().expect("it is set").text();
    assert_eq!(setting, "committed");
}

pub(crate) fn package() -> TestRepository {
    let mut repository = TestRepository::new();
    repository.write("Cargo.toml", MANIFEST);
    repository.write("src/lib.rs", "pub fn one() -> u32 { 1 }\n");
    repository.commit("first");
    repository
}

/// A remote with a branch and pull request 7, and a clone that knows of the branch only.
fn remote_and_clone() -> (TestRepository, TestRepository, String) {
    let mut remote = package();
    remote.git(["switch", "--quiet", "--create", "feature"]);
    remote.write("src/lib.rs", "pub fn one() -> u32 { 2 }\n");
    let pull_request = remote.commit("a pull request");
    remote.git(["update-ref", "refs/pull/7/head", &pull_request]);
    remote.git(["update-ref", "refs/pull/7/merge", &pull_request]);
    remote.git(["switch", "--quiet", "main"]);
    remote.git(["branch", "--quiet", "-D", "feature"]);
    let clone = TestRepository::clone_of(&remote, &[]);
    (remote, clone, pull_request)
}

#[test]
fn the_same_calls_give_the_same_hashes() {
    let hash = || package().git(["rev-parse", "HEAD"]);
    assert_eq!(hash(), hash());
}

#[test]
fn branches_tags_hashes_and_ways_from_there_are_resolved() {
    let mut repository = package();
    let first = repository.git(["rev-parse", "HEAD"]);
    repository.git(["tag", "light"]);
    repository.git(["tag", "--annotate", "v1.2", "--message", "a release"]);
    repository.git(["update-ref", "refs/remotes/origin/x", "HEAD"]);
    for number in 0..3 {
        repository.write("src/lib.rs", format!("pub fn one() -> u32 {{ {number} }}\n"));
        repository.commit(&format!("change {number}\n\nAnd why."));
    }
    for spec in
        ["light", "v1.2", "origin/x", "HEAD~3", &first, &first[..8], "refs/tags/v1.2", "main~3", "@~3"]
    {
        assert_eq!(revision(&repository, spec).commit, first, "{spec}");
    }
    let last = revision(&repository, "main");
    assert_eq!(last.commit, repository.git(["rev-parse", "main"]));
    assert_eq!(last.tree, repository.git(["rev-parse", "main^{tree}"]));
    assert_eq!(last.subject, "change 2");
    assert_eq!(last.time.to_string(), repository.git(["log", "-1", "--format=%ct"]));
    assert!(!last.working_tree);
}

#[test]
fn a_typo_gets_the_nearest_names() {
    let repository = package();
    repository.git(["branch", "release-0.4"]);
    let error = error(&repository, &["mian", "HEAD"]);
    assert_eq!(format!("{error:#}"), "no ref 'mian' in this repository");
    let help = help(&error).unwrap();
    assert_eq!(
        help,
        "did you mean 'main'? (branches: main, release-0.4; write pr/NUMBER for a PR and . for the working tree)"
    );
    let of_head = self::error(&repository, &["HAED", "main"]);
    assert!(self::help(&of_head).unwrap().starts_with("did you mean 'HEAD'? "));
}

#[test]
fn digits_that_several_commits_begin_with_are_listed() {
    let mut repository = package();
    // Two of 300 hashes agree in their first four digits with a chance of about one half; two hundred more make it sure.
    let mut hashes: Vec<String> = Vec::new();
    let digits = loop {
        hashes.push(repository.commit(&format!("commit {}", hashes.len())));
        let last = hashes.last().unwrap();
        if hashes.iter().filter(|hash| hash[..4] == last[..4]).count() > 1 {
            break last[..4].to_owned();
        }
        assert!(
            hashes.len() < 2000,
            "hashes are fixed: this loop ends after the same number of commits each time"
        );
    };
    let error = error(&repository, &[&digits, "main"]);
    assert_eq!(error.to_string(), format!("'{digits}' is ambiguous: 2 commits begin with it"));
    let help = help(&error).unwrap();
    let described = hashes.iter().filter(|hash| help.contains(&hash[..12])).count();
    assert_eq!(described, 2, "{help}");
}

#[test]
fn a_file_is_not_a_commit_and_an_empty_branch_has_none() {
    let repository = package();
    assert_eq!(error(&repository, &["HEAD:src", "main"]).to_string(), "'HEAD:src' is a tree, not a commit");
    let help = help(&error(&repository, &["main..HEAD", "main"])).unwrap();
    assert!(help.contains("--refs A,B"), "{help}");

    let empty = TestRepository::new();
    empty.write("Cargo.toml", MANIFEST);
    empty.write("src/lib.rs", "");
    let unborn = error(&empty, &["HEAD", "HEAD~1"]);
    assert!(
        matches!(
            unborn.downcast_ref::<Advised>().and_then(Advised::downcast_ref),
            Some(ResolveError::Unborn { .. })
        ),
        "{unborn}"
    );
    assert!(plan(&empty, &[".", "."]).revisions[0].working_tree, "its working tree can be built");
}

#[test]
fn a_tag_and_a_branch_of_one_name_get_a_warning() {
    let mut repository = package();
    repository.git(["tag", "v1"]);
    let tagged = repository.git(["rev-parse", "HEAD"]);
    repository.git(["switch", "--quiet", "--create", "v1"]);
    repository.commit("more");
    let events = RefCell::new(Vec::new());
    let sink = |event: Event| events.borrow_mut().push(format!("{event:?}"));
    let plan = resolve(&request(&["v1", "heads/v1"]), &repository.open(), &sink).unwrap();
    assert_eq!(plan.revisions[0].commit, tagged);
    assert_ne!(plan.revisions[1].commit, tagged);
    assert_eq!(events.borrow().iter().filter(|event| event.contains("a tag and a branch")).count(), 1);
}

#[test]
fn a_pull_request_is_fetched_into_the_tools_own_refs() {
    let (_remote, clone, pull_request) = remote_and_clone();
    let plan = plan(&clone, &["main", "pr/7", "pr/7/merge", "pr/7~1"]);
    assert_eq!(plan.revisions[1].commit, pull_request);
    assert_eq!(plan.revisions[1].found.as_deref(), Some("fetched from origin"));
    assert_eq!(plan.revisions[2].commit, pull_request);
    assert_eq!(plan.revisions[3].commit, plan.revisions[0].commit);
    let refs = clone.git(["for-each-ref", "--format=%(refname)"]);
    let ours: Vec<_> = refs.lines().filter(|name| name.contains('7')).collect();
    assert_eq!(ours, ["refs/memprof/origin/pull/7/head", "refs/memprof/origin/pull/7/merge"]);
}

#[test]
fn a_pull_request_that_moved_is_fetched_again_and_an_old_copy_is_not_used_unasked() {
    let (mut remote, clone, before) = remote_and_clone();
    assert_eq!(revision(&clone, "pr/7").commit, before);
    remote.git(["checkout", "--quiet", "--detach", "main"]);
    let after = remote.commit("rewritten");
    remote.git(["update-ref", "refs/pull/7/head", &after]);
    assert_eq!(revision(&clone, "pr/7").commit, after);

    std::fs::rename(remote.root(), remote.beside("moved")).unwrap();
    let error = error(&clone, &["main", "pr/7"]);
    let help = help(&error).unwrap();
    assert!(help.contains("refs/memprof/origin/pull/7/head") && help.contains(&after[..7]), "{help}");
    assert_eq!(revision(&clone, "refs/memprof/origin/pull/7/head").commit, after);
}

#[test]
fn a_failed_fetch_quotes_gits_message_and_command() {
    let (_remote, clone, _) = remote_and_clone();
    let error = error(&clone, &["main", "pr/8"]);
    let message = format!("{error:#}");
    assert!(message.starts_with("could not fetch 'pr/8' (refs/pull/8/head) from origin"), "{message}");
    assert!(message.contains("fatal: couldn't find remote ref refs/pull/8/head"), "{message}");
    assert!(!message.contains("git -c"), "the command is of no use to the user: {message}");
    assert!(help(&error).unwrap().contains("mr/NUMBER"));
}

#[test]
fn the_remote_is_asked_before_a_copy_of_a_pull_request_is_used() {
    let (remote, clone, pull_request) = remote_and_clone();
    let main = clone.git(["rev-parse", "main"]);
    clone.git(["branch", "pr/7", "main"]);
    let events = RefCell::new(Vec::new());
    let sink = |event: Event| events.borrow_mut().push(format!("{event:?}"));
    let found = || {
        let plan = resolve(&request(&["main", "pr/7"]), &clone.open(), &sink).unwrap();
        let told = events.take();
        (plan.revisions[1].commit.clone(), plan.revisions[1].found.clone().unwrap(), told.join("\n"))
    };
    let (commit, place, told) = found();
    assert_eq!((commit.as_str(), place.as_str()), (pull_request.as_str(), "fetched from origin"));
    assert!(told.contains("using origin's") && told.contains("heads/pr/7"), "{told}");
    let own = revision(&clone, "heads/pr/7");
    assert_eq!(own.commit, main);

    std::fs::rename(remote.root(), remote.beside("moved")).unwrap();
    let (commit, place, told) = found();
    assert_eq!((commit, place.as_str()), (main, "refs/heads/pr/7"));
    assert!(told.contains("could not fetch 'pr/7'") && told.contains(" old"), "{told}");
}

#[test]
fn a_copy_of_a_pull_request_that_the_remote_lacks_is_used() {
    let (_remote, clone, pull_request) = remote_and_clone();
    let main = clone.git(["rev-parse", "main"]);
    clone.git(["update-ref", "refs/remotes/fork/pr/9", &main]);
    clone.git(["remote", "add", "fork", "/nowhere"]);
    let only_copy = revision(&clone, "pr/9");
    assert_eq!(
        (only_copy.commit, only_copy.found.as_deref()),
        (main.clone(), Some("refs/remotes/fork/pr/9"))
    );
    assert_eq!(revision(&clone, "pr/7").commit, pull_request);

    let mut explicit = request(&["main", "pr/9"]);
    explicit.settings.remote = Some("fork".to_owned());
    let plan = resolve(&explicit, &clone.open(), &|_| ()).unwrap();
    assert_eq!(plan.revisions[1].commit, main);
}

#[test]
fn a_copy_of_a_remote_that_is_no_longer_configured_is_found() {
    let (_remote, clone, _) = remote_and_clone();
    let main = clone.git(["rev-parse", "main"]);
    clone.git(["update-ref", "refs/remotes/gone/pr/12", &main]);
    clone.git(["update-ref", "refs/remotes/origin/fix/pr/13", &main]);
    let found = revision(&clone, "pr/12");
    assert_eq!((found.commit, found.found.as_deref()), (main, Some("refs/remotes/gone/pr/12")));
    let branch = error(&clone, &["main", "pr/13"]);
    assert!(
        format!("{branch:#}").starts_with("could not fetch 'pr/13'"),
        "a branch of origin is no pull request"
    );
}

#[test]
fn a_history_that_is_too_short_names_its_oldest_commit() {
    let mut repository = package();
    repository.commit("second");
    for (spec, oldest) in [("HEAD~9", "HEAD~1"), ("main~2", "main~1")] {
        let error = error(&repository, &["main", spec]);
        let name = oldest.trim_end_matches("~1");
        assert_eq!(error.to_string(), format!("no commit '{spec}': the history of '{name}' is shorter"));
        assert_eq!(help(&error).unwrap(), format!("the oldest commit is {oldest}"));
    }
}

#[test]
fn copies_of_several_remotes_that_differ_are_ambiguous() {
    let (_remote, clone, pull_request) = remote_and_clone();
    clone.git(["remote", "rename", "--no-progress", "origin", "one"]);
    clone.git(["remote", "add", "two", "/nowhere"]);
    clone.git(["update-ref", "refs/remotes/one/pr/7", "main"]);
    clone.git(["update-ref", "refs/remotes/two/pr/7", "main"]);
    assert_eq!(revision(&clone, "pr/7").commit, clone.git(["rev-parse", "main"]), "they agree");
    clone.git(["fetch", "--quiet", "one", &pull_request]);
    clone.git(["update-ref", "refs/remotes/two/pr/7", &pull_request]);
    let error = error(&clone, &["main", "pr/7"]);
    assert!(error.to_string().contains("refs/remotes/one/pr/7 or refs/remotes/two/pr/7"), "{error}");
}

#[test]
fn a_mirror_has_pull_requests_under_the_forges_names_and_needs_no_working_tree() {
    let (remote, _clone, pull_request) = remote_and_clone();
    let mirror = TestRepository::clone_of(&remote, &["--mirror"]);
    let plan = plan(&mirror, &["main", "pr/7"]);
    assert_eq!(plan.revisions[1].commit, pull_request);
    assert_eq!(plan.revisions[1].found.as_deref(), Some("fetched from origin"));
    assert_eq!(plan.workspace, "");
    let refused = error(&mirror, &["main", "."]);
    assert!(format!("{refused:#}").contains("which a bare repository lacks"), "{refused:#}");
    assert_eq!(help(&refused).as_deref(), Some("name a ref instead: cargo memprof HEAD"));
}

#[test]
fn the_git_directory_may_be_elsewhere() {
    let (remote, _clone, _) = remote_and_clone();
    let elsewhere = tempfile::tempdir().unwrap();
    let store = elsewhere.path().join("store.git");
    let clone = TestRepository::clone_of(&remote, &["--separate-git-dir", store.to_str().unwrap()]);
    let opened = clone.open();
    assert_eq!(opened.root().as_std_path(), clone.root().canonicalize().unwrap());
    assert_eq!(opened.git_directory().as_std_path(), store.canonicalize().unwrap());
}

#[test]
fn the_users_own_patterns_and_urls_as_remotes_work() {
    let (remote, clone, pull_request) = remote_and_clone();
    remote.git(["update-ref", "refs/changes/34/1234/5/head", &pull_request]);
    let mut gerrit = request(&["main", "cl/34/1234/5", "pr/7"]);
    gerrit.settings.refspecs.insert("cl/{}".to_owned(), "refs/changes/{}/head".to_owned());
    gerrit.settings.remote = Some(remote.url());
    let plan = resolve(&gerrit, &clone.open(), &|_| ()).unwrap();
    assert_eq!(plan.revisions[1].commit, pull_request);
    assert_eq!(plan.revisions[2].commit, pull_request);

    let mut unknown = request(&["main", "pr/7"]);
    unknown.settings.remote = Some("nosuch".to_owned());
    let error = resolve(&unknown, &clone.open(), &|_| ()).unwrap_err();
    assert_eq!(help(&error).unwrap(), "remotes: origin");
}

#[test]
fn the_merge_base_and_a_named_baseline_become_revisions() {
    let (_remote, clone, pull_request) = remote_and_clone();
    let base = clone.git(["rev-parse", "main"]);
    let mut clone = clone;
    clone.commit("main went on");
    let with = |baseline| Request { baseline, ..request(&["main", "pr/7"]) };
    let plan = resolve(&with(BaselineRequest::MergeBase), &clone.open(), &|_| ()).unwrap();
    let names: Vec<_> = plan.revisions.iter().map(|revision| revision.name.as_str()).collect();
    assert_eq!(names, ["merge-base", "main", "pr/7"]);
    assert_eq!((plan.baseline, &plan.revisions[0].commit), (0, &base));
    assert_eq!(plan.revisions[0].found.as_deref(), Some("of main and pr/7"));
    assert_eq!(plan.request.refs.len(), 3, "refs and revisions have the same indices");

    let second = with(BaselineRequest::Ref("pr/7".to_owned()));
    let plan = resolve(&second, &clone.open(), &|_| ()).unwrap();
    assert_eq!((plan.revisions.len(), plan.baseline), (2, 1));
    let one = Request { baseline: BaselineRequest::Ref("main~1".to_owned()), ..request(&["pr/7"]) };
    let plan = resolve(&one, &clone.open(), &|_| ()).unwrap();
    assert_eq!((&plan.revisions[0].commit, &plan.revisions[1].commit), (&base, &pull_request));

    clone.git(["checkout", "--quiet", "--orphan", "unrelated"]);
    clone.commit("no ancestor");
    let unrelated = Request { baseline: BaselineRequest::MergeBase, ..request(&["main", "unrelated"]) };
    let error = resolve(&unrelated, &clone.open(), &|_| ()).unwrap_err();
    assert_eq!(error.to_string(), "main and unrelated have no common ancestor");
}

#[test]
fn one_ref_is_no_comparison_and_one_ref_twice_is() {
    let repository = package();
    let alone = error(&repository, &["main"]);
    assert_eq!(alone.to_string(), "a comparison needs two refs, but only 'main' was given");
    assert!(help(&alone).unwrap().contains("--refs main,OTHER"));
    let twice = plan(&repository, &["main", "main"]);
    let names: Vec<_> = twice.revisions.iter().map(|revision| revision.name.as_str()).collect();
    assert_eq!(names, ["main", "main (2)"]);
    assert!(twice.id.ends_with(&format!("-{0}-{0}", &twice.revisions[0].commit[..7])), "{}", twice.id);
}

#[test]
fn overlay_and_lock_file_refs_are_resolved_to_commits() {
    let repository = package();
    let commit = repository.git(["rev-parse", "HEAD"]);
    let overlay = |from: Option<&str>| OverlayRequest {
        from: from.map(str::to_owned),
        paths: Vec::new(),
        package: None,
        mode: OverlayMode::Package,
        dependencies: std::collections::BTreeMap::default(),
    };
    let asked = Request {
        overlay: vec![overlay(None), overlay(Some("main")), overlay(Some("."))],
        lockfile: Some(LockfileRequest::From("main".to_owned())),
        ..request(&["main", "HEAD"])
    };
    let plan = resolve(&asked, &repository.open(), &|_| ()).unwrap();
    assert_eq!(plan.overlay_commits, [None, Some(commit.clone()), None]);
    assert_eq!(plan.request.lockfile, Some(LockfileRequest::From(commit)));
}

#[test]
fn the_workspace_is_found_from_where_the_tool_was_started() {
    let mut repository = TestRepository::new();
    repository.write("rust/Cargo.toml", "[workspace]\nmembers = [\"crates/*\"]\n");
    repository.write("rust/crates/fixture/Cargo.toml", MANIFEST);
    repository.write("rust/crates/fixture/src/lib.rs", "");
    repository.write("other/Cargo.toml", MANIFEST);
    repository.write("other/src/lib.rs", "");
    repository.commit("first");
    let from = |folder: &str, manifest: Option<&str>| {
        let start = repository.root_utf8().join(folder);
        let opened = Repository::discover(&start).unwrap().with_environment(ENVIRONMENT);
        let mut request = request(&["main", "HEAD"]);
        request.build.manifest_path = manifest.map(str::to_owned);
        resolve(&request, &opened, &|_| ())
    };
    assert_eq!(from("rust/crates/fixture/src", None).unwrap().workspace, "rust");
    // As cargo does it: in a member's folder that member is meant, in the workspace's the default members are.
    assert_eq!(from("rust/crates/fixture/src", None).unwrap().request.build.settings.packages, ["fixture"]);
    let member = from("other", Some("../rust/crates/fixture/Cargo.toml")).unwrap();
    assert_eq!(
        (member.workspace.as_str(), &*member.request.build.settings.packages),
        ("rust", &["fixture".to_owned()][..])
    );
    assert!(from("rust", None).unwrap().request.build.settings.packages.is_empty());
    assert_eq!(from("other", None).unwrap().workspace, "other");
    let named = from("rust", Some("../other/Cargo.toml")).unwrap();
    assert_eq!(named.workspace, "other");
    assert_eq!(named.request.build.manifest_path.as_deref(), Some("other/Cargo.toml"));
    let absolute = repository.root_utf8().join("other/Cargo.toml");
    let named = from("rust", Some(absolute.as_str())).unwrap();
    assert_eq!(named.request.build.manifest_path.as_deref(), Some("other/Cargo.toml"));
    let unknown = from("rust", Some("nosuch/Cargo.toml")).unwrap_err();
    assert!(help(&unknown).unwrap().starts_with(&format!("choose one: --manifest-path {absolute}, or")));
    let nowhere = from("", None).unwrap_err();
    let advice = help(&nowhere).unwrap();
    let choices = "choose one: --manifest-path other/Cargo.toml, or --manifest-path rust/Cargo.toml, or";
    assert!(advice.starts_with(choices), "{advice}");
    let unknown = from("", Some("nosuch/Cargo.toml")).unwrap_err();
    assert!(
        unknown.to_string().starts_with("no manifest 'nosuch/Cargo.toml' in the repository"),
        "{unknown}"
    );
    assert!(help(&unknown).unwrap().starts_with(choices));
}

#[test]
fn sha256_and_reftable_repositories_and_replaced_commits_are_read_by_the_program() {
    for format in ["--object-format=sha256", "--ref-format=reftable"] {
        let mut repository = TestRepository::with("repository", &[format]);
        repository.write("Cargo.toml", MANIFEST);
        repository.write("src/lib.rs", "");
        let first = repository.commit("first");
        repository.git(["tag", "--annotate", "v1", "--message", "a release"]);
        repository.write("a file", "one\n");
        let second = repository.commit("second");
        let plan = plan(&repository, &["v1", "main", "."]);
        assert_eq!(plan.revisions[0].commit, first);
        assert_eq!(plan.revisions[1].subject, "second");
        assert_eq!(plan.revisions[2].tree, plan.revisions[1].tree, "the working tree is clean");
        let opened = repository.open();
        assert_eq!(opened.changed_paths(&first, &second).unwrap(), ["a file"]);
        assert_eq!(opened.show(&second, "a file").unwrap().unwrap(), b"one\n");
        assert_eq!(opened.show(&first, "a file").unwrap(), None);
        assert_eq!(opened.merge_base(&[&first, &second]).unwrap(), Some(first));
        let typo = error(&repository, &["mian", "v1"]);
        assert!(help(&typo).unwrap().contains("'main'"));
    }
    let mut repository = package();
    let first = repository.git(["rev-parse", "HEAD"]);
    repository.write("src/lib.rs", "pub fn replaced() {}\n");
    let second = repository.commit("second");
    repository.git(["replace", &first, &second]);
    assert_eq!(revision(&repository, &first).tree, repository.git(["rev-parse", "HEAD^{tree}"]));
}

#[test]
fn files_are_read_at_a_commit_and_links_and_pointers_are_not_taken_for_them() {
    let mut repository = package();
    repository.write("data/é x.bin", [0, 159, 146, 150]);
    repository.write("lfs.bin", "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n");
    std::os::unix::fs::symlink("src/lib.rs", repository.path("link.rs")).unwrap();
    let commit = repository.commit("files");
    let opened = repository.open();
    assert_eq!(opened.show(&commit, "data/é x.bin").unwrap().unwrap(), [0, 159, 146, 150]);
    assert_eq!(opened.show(&commit, "data").unwrap(), None);
    assert_eq!(opened.show(&commit, "nosuch/file").unwrap(), None);
    assert!(opened.show(&commit, "link.rs").unwrap_err().to_string().contains("symbolic link"));
    assert!(opened.show(&commit, "lfs.bin").unwrap_err().to_string().contains("Git LFS"));
    assert_eq!(opened.files(&commit, "data/").unwrap(), ["data/é x.bin"]);
    assert_eq!(opened.files(&commit, "Cargo.toml").unwrap(), ["Cargo.toml"]);
    assert_eq!(opened.files(&commit, "").unwrap().len(), 5);
    let first = repository.git(["rev-parse", "HEAD~1"]);
    assert_eq!(opened.changed_paths(&first, &commit).unwrap(), ["data/é x.bin", "lfs.bin", "link.rs"]);
}

#[test]
fn a_repository_is_found_from_below_from_linked_worktrees_and_with_a_strange_name() {
    let mut repository = TestRepository::with("with space and é", &[]);
    repository.write("Cargo.toml", MANIFEST);
    repository.write("src/deep/er.rs", "");
    repository.commit("first");
    let below = Repository::discover(&repository.root_utf8().join("src/deep")).unwrap();
    assert_eq!(below.root(), repository.root_utf8());
    repository.git(["worktree", "add", "--quiet", "../linked", "-b", "other"]);
    let linked = repository.beside("linked");
    let linked = Repository::discover(Utf8Path::from_path(&linked).unwrap()).unwrap();
    assert_eq!(linked.common_directory(), below.common_directory());
    assert_ne!(linked.git_directory(), below.git_directory());
    let outside = tempfile::tempdir().unwrap();
    let error = Repository::discover(Utf8Path::from_path(outside.path()).unwrap()).err().unwrap();
    assert!(format!("{error:#}").contains("no git repository at"), "{error:#}");
}

#[test]
fn a_working_tree_without_changes_is_its_commit() {
    let repository = package();
    let head = repository.git(["rev-parse", "HEAD"]);
    repository.write("ignored/x", "");
    repository.write(".git/info/exclude", "ignored/\n");
    let clean = revision(&repository, ".");
    assert_eq!((clean.commit.as_str(), clean.working_tree), (head.as_str(), false));
    assert_eq!(clean.short(), head[..7]);
    repository.write("new.txt", "");
    let changed = revision(&repository, ".");
    assert!(changed.working_tree && changed.commit != head && changed.short().ends_with('+'));
}

#[test]
fn one_commit_under_two_names_is_planned_once_and_one_name_twice_is_not() {
    let repository = package();
    repository.git(["tag", "v1.2"]);
    let run = |arguments: &[&str]| {
        let run = repository.memprof().arg("run").args(arguments).arg("--dry-run").assert().success();
        let output = run.get_output();
        let plan: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let names: Vec<String> = (plan["revisions"].as_array().unwrap().iter())
            .map(|one| one["name"].as_str().unwrap().to_owned())
            .collect();
        (names, String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (names, stderr) = run(&["main", ".", "v1.2"]);
    assert_eq!(names, ["main"]);
    let told = "main and . and v1.2 are all ";
    assert!(stderr.contains(told) && stderr.contains("there is nothing to compare"), "{stderr}");
    // Thresholds say nothing about one revision, and are no mistake here.
    assert_eq!(run(&["main", ".", "--threshold", "heap.peak=5%"]).0, ["main"]);
    for twice in [&["main", "main"][..], &["--aa", "--refs", "main"]] {
        assert_eq!(run(twice).0, ["main", "main (2)"]);
    }
    assert_eq!(run(&["main", ".", "--limit", "heap.peak=1GiB"]).0, ["main"]);
}

#[test]
fn a_repository_of_another_user_is_refused_until_git_trusts_it() {
    let repository = package();
    if std::os::unix::fs::chown(repository.root(), Some(12345), None).is_err() {
        skip("only root can give a folder to another user");
        return;
    }
    let run = || {
        let mut run = repository.memprof();
        run.args(["run", "--refs", "main,HEAD", "--dry-run"]);
        run
    };
    let refused = run().assert().code(2);
    let message = String::from_utf8_lossy(&refused.get_output().stderr).into_owned();
    assert!(message.contains("another user owns it"), "{message}");
    assert!(message.contains("git config --global --add safe.directory /"), "{message}");
    let file = repository.beside("gitconfig");
    std::fs::write(&file, "[safe]\n\tdirectory = *\n").unwrap();
    run().env("GIT_CONFIG_GLOBAL", &file).assert().success();
}
