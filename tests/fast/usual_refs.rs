//! What is compared if the user names no ref, or a pull request alone.

use serde_json::Value;

use crate::git::package;
use crate::support::TestRepository;

/// The commits that would be compared, and the messages.
fn planned(repository: &TestRepository, arguments: &[&str]) -> (Vec<String>, String) {
    let printed = repository.memprof().arg("run").args(arguments).arg("--dry-run").assert().success();
    let plan: Value = serde_json::from_slice(&printed.get_output().stdout).expect("JSON");
    let revisions = plan["revisions"].as_array().expect("revisions").iter();
    let commits = revisions.map(|revision| revision["commit"].as_str().expect("a hash").to_owned()).collect();
    (commits, String::from_utf8(printed.get_output().stderr.clone()).expect("messages are text"))
}

/// The messages of a call that is refused.
fn refused(repository: &TestRepository, arguments: &[&str]) -> String {
    let printed = repository.memprof().arg("run").args(arguments).arg("--dry-run").assert().code(2);
    String::from_utf8(printed.get_output().stderr.clone()).expect("messages are text")
}

/// A remote whose default branch moved after it was cloned; pull request 10 begins at its newest commit.
struct Moved {
    remote: TestRepository,
    clone: TestRepository,
    before: String,
    base: String,
    pull_request: String,
}

fn moved(branch: &str) -> Moved {
    let mut remote = package();
    remote.git(["branch", "-m", branch]);
    let clone = TestRepository::clone_of(&remote, &[]);
    let before = remote.git(["rev-parse", "HEAD"]);
    remote.write("src/lib.rs", "pub fn one() -> u32 { 2 }\n");
    let base = remote.commit("what the clone lacks");
    remote.git(["switch", "--quiet", "--detach"]);
    remote.write("src/lib.rs", "// A comment.\npub fn one() -> u32 { 2 }\n");
    let pull_request = remote.commit("a pull request");
    remote.git(["update-ref", "refs/pull/10/head", &pull_request]);
    remote.git(["switch", "--quiet", branch]);
    Moved { remote, clone, before, base, pull_request }
}

#[test]
fn a_pull_request_alone_begins_where_its_remotes_default_branch_is_today() {
    let Moved { remote, clone, before, base, pull_request } = moved("main");
    let refs = || clone.git(["for-each-ref", "--exclude=refs/memprof/"]);
    let of_user = refs();
    let compared = [base, pull_request.clone()];
    for arguments in [&["pr/10"][..], &["pr/10", "--baseline", "merge-base"], &["origin/main...pr/10"]] {
        let (commits, messages) = planned(&clone, arguments);
        assert_eq!(commits, compared, "{arguments:?}: {messages}");
        assert!(messages.contains("origin/main") && !messages.contains("warning"), "{messages}");
    }
    assert_eq!(refs(), of_user, "only the tool's own refs move");

    // The pull request is a copy, too. Its base is then that of the copies.
    clone.git(["update-ref", "refs/remotes/origin/pr/10", &pull_request]);
    std::fs::rename(remote.root(), remote.beside("moved")).unwrap();
    let (commits, messages) = planned(&clone, &["pr/10"]);
    assert_eq!(commits, [before, pull_request]);
    assert!(messages.contains("could not fetch 'origin/main'") && messages.contains(" old"), "{messages}");
}

#[test]
fn the_base_of_a_pull_request_is_a_branch_of_the_same_remote() {
    let Moved { remote: _remote, clone, base, pull_request, .. } = moved("main");
    // A fork, of which `origin/HEAD` is the default branch.
    clone.git(["remote", "rename", "--no-progress", "origin", "upstream"]);
    clone.git(["remote", "set-head", "upstream", "--delete"]);
    clone.git(["remote", "add", "origin", "/nowhere"]);
    clone.git(["update-ref", "refs/remotes/origin/main", "main"]);
    clone.git(["symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/main"]);
    let (commits, messages) = planned(&clone, &["pr/10"]);
    assert_eq!(commits, [base, pull_request], "{messages}");
    assert!(messages.contains("upstream/HEAD"), "{messages}");
}

#[test]
fn the_remote_says_what_a_pull_request_is_compared_with() {
    let Moved { remote, clone, base, pull_request, .. } = moved("develop");
    clone.git(["remote", "set-head", "origin", "--delete"]);
    let compared = [base, pull_request];
    assert_eq!(planned(&clone, &["pr/10"]).0, compared);
    let shallow = TestRepository::clone_of(&remote, &["--depth", "1"]);
    shallow.git(["remote", "set-head", "origin", "--delete"]);
    assert_eq!(planned(&shallow, &["pr/10"]).0, compared);
}

#[test]
fn a_pull_request_without_a_known_base_is_not_shown_alone() {
    let alone = package();
    alone.git(["branch", "-m", "develop"]);
    alone.git(["branch", "pr/7"]);
    for arguments in [&["pr/7"][..], &["pr/7", "--baseline", "merge-base"]] {
        let messages = refused(&alone, arguments);
        assert!(messages.contains("no default branch is known"), "{messages}");
        assert!(messages.contains("cargo memprof develop...pr/7"), "{messages}");
    }
}

#[test]
fn a_history_that_was_cut_off_is_not_taken_for_one_commit() {
    let mut remote = package();
    remote.commit("second");
    let of_main = TestRepository::clone_of(&remote, &["--depth", "1"]);
    for arguments in [&[][..], &["--baseline", "merge-base"]] {
        let messages = refused(&of_main, arguments);
        assert!(messages.contains("no commit 'HEAD~1'"), "{messages}");
        assert!(messages.contains("git fetch --unshallow"), "{messages}");
    }
    remote.git(["switch", "--quiet", "--create", "feature"]);
    remote.commit("third");
    remote.commit("fourth");
    remote.git(["switch", "--quiet", "main"]);
    let of_feature = TestRepository::clone_of(&remote, &["--depth", "2", "--no-single-branch"]);
    of_feature.git(["switch", "--quiet", "feature"]);
    let messages = refused(&of_feature, &[]);
    assert!(messages.contains("have no common ancestor"), "{messages}");
    assert!(messages.contains("git fetch --unshallow"), "{messages}");
    of_feature.git(["fetch", "--quiet", "--unshallow"]);
    assert_eq!(planned(&of_feature, &[]).0[0], remote.git(["rev-parse", "main"]));
}

#[test]
fn a_clone_of_one_branch_is_told_how_to_fetch_the_others() {
    let mut remote = package();
    remote.git(["switch", "--quiet", "--create", "feature"]);
    remote.commit("second");
    for (arguments, fetch) in [
        (&["--branch", "feature", "--depth", "1"][..], "git fetch --unshallow origin"),
        (&["--branch", "feature", "--single-branch"], "git fetch origin"),
    ] {
        let clone = TestRepository::clone_of(&remote, arguments);
        let messages = refused(&clone, &["main...HEAD"]);
        let refspec = "+refs/heads/*:refs/remotes/origin/*";
        assert!(messages.contains(&format!("`{fetch} '{refspec}'`")), "{messages}");
        assert!(messages.contains("origin/BRANCH"), "{messages}");
        clone.git(fetch.split(' ').skip(1).chain([refspec]));
        assert_eq!(planned(&clone, &["origin/main...HEAD"]).0[0], remote.git(["rev-parse", "main"]));
    }
}

#[test]
fn a_saved_baseline_and_a_ref_are_told_apart() {
    let repository = package();
    repository.git(["tag", "v1.2"]);
    let messages = refused(&repository, &[".", "--baseline-run", "v1.2"]);
    for help in ["cargo memprof v1.2 .\n", "cargo memprof v1.2 --save-baseline v1.2\n"] {
        assert!(messages.contains(help), "{help}: {messages}");
    }
    repository.write("target/memprof/baselines/release/baseline.json", "{}");
    let messages = refused(&repository, &[".", "--baseline", "release"]);
    assert!(
        messages.contains("'release' is a saved baseline; to compare with it: --baseline-run release"),
        "{messages}"
    );
}
