//! `ci/memprof.sh` with programs in place of `cargo`, `git`, `gh` and `curl` that write down how they were called.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use crate::support::skip;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/ci/memprof.sh");

/// A folder with the fakes, and what they are to answer.
struct Fakes(tempfile::TempDir);

impl Fakes {
    fn new() -> Self {
        let fakes = Self(tempfile::tempdir().unwrap());
        fakes.program(
            "git",
            r#"case $1 in merge-base) [ "$2" = origin/main ] && echo 1111 ;; rev-parse) echo 2222 ;; esac"#,
        );
        fakes
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// A program that writes its arguments down and then does this.
    fn program(&self, name: &str, body: &str) {
        let file = self.path().join(name);
        let calls = self.path().join("calls").display().to_string();
        std::fs::write(&file, format!("#!/usr/bin/env bash\necho \"{name} $*\" >>'{calls}'\n{body}\n"))
            .unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// A comparison with this answer and this code.
    fn cargo(&self, regressed: u32, code: i32) {
        self.program(
            "cargo",
            &format!(
                "printf '<!-- cargo-memprof -->\\n**Memory**\\n' >out/memory.md\n\
                 printf '{{\"version\":2,\\n\"plan\":{{}},\\n\"verdict\":{{\"exit_code\":{code},\"regressed\":{regressed},\"breaches\":0,\"expected\":0,\"improved\":0,\"tests\":[{{\"regressed\":0,\"improved\":0}}]}},\\n' >out/memory.json\n\
                 exit {code}"
            ),
        );
    }

    fn run(&self, step: &str, variables: &[(&str, &str)]) -> Output {
        let path = format!("{}:{}", self.path().display(), std::env::var("PATH").unwrap());
        Command::new("bash")
            .args([SCRIPT, step])
            .current_dir(self.path())
            .env_clear()
            .env("PATH", path)
            .env("MEMPROF_OUTPUT", "out")
            .envs(variables.iter().copied())
            .output()
            .expect("bash starts")
    }

    fn calls(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.path().join("calls")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::create_dir_all(self.path().join("out")).unwrap();
        std::fs::write(self.path().join("out").join(name), text).unwrap();
    }
}

const PULL: [(&str, &str); 2] = [("MEMPROF_REPOSITORY", "o/n"), ("MEMPROF_PULL", "7")];

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_pull_request_is_compared_with_its_merge_base_and_the_code_is_kept_for_later() {
    let fakes = Fakes::new();
    fakes.cargo(1, 1);
    let output = fakes
        .run("compare", &[("MEMPROF_BASE", "origin/main"), ("MEMPROF_ARGUMENTS", "-k memory --release")]);
    assert!(output.status.success(), "{}", said(&output));
    let call = fakes.calls().pop().unwrap();
    assert!(
        call.starts_with("cargo memprof --refs base=1111,pull=2222 --baseline base --output out/memory.md"),
        "{call}"
    );
    // The formats are for these files, not for one of the arguments.
    let files = "--output out/memory.xml --output /dev/stdout --with-source";
    let formats = "--format markdown --format html --format json --format junit --format table";
    assert!(call.ends_with(&format!("{files} {formats} -k memory --release")), "{call}");
    assert_eq!(fakes.run("verdict", &[]).status.code(), Some(1));
    assert_eq!(fakes.run("verdict", &[("MEMPROF_PASS", "4")]).status.code(), Some(1));
    assert_eq!(fakes.run("verdict", &[("MEMPROF_PASS", "1 4")]).status.code(), Some(0));
}

#[test]
fn quotes_in_the_arguments_hold_words_together() {
    for step in ["compare", "build"] {
        let fakes = Fakes::new();
        fakes.program("cargo", "printf '%s\\n' \"$@\" >words\nprintf report >out/memory.md");
        fakes.write("memory.md", "");
        let called = |arguments: &str| {
            let variables = [("MEMPROF_BASE", "origin/main"), ("MEMPROF_ARGUMENTS", arguments)];
            let output = fakes.run(step, &variables);
            let words = std::fs::read_to_string(fakes.path().join("words")).unwrap_or_default();
            (output.status.code(), words, said(&output))
        };
        let (code, words, said) = called("-k 'a or b'  --threshold \"heap.*=5%\"\n--exact *.sh");
        assert_eq!(code, Some(0), "{said}");
        assert!(words.ends_with("\n-k\na or b\n--threshold\nheap.*=5%\n--exact\n*.sh\n"), "{words}");
        let (code, words, said) = called(r"--regex '^codec::\d+$' -k \d");
        assert!(code == Some(0) && words.ends_with("\n--regex\n^codec::\\d+$\n-k\nd\n"), "{said}{words}");
        let (code, words, said) = called(" ");
        assert!(code == Some(0) && !words.ends_with("\n\n"), "{said}{words}");
        let (code, _, said) = called("-k 'a or b");
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains("MEMPROF_ARGUMENTS"), "{said}");
    }
}

#[test]
fn the_snippet_for_any_shell_comments_on_a_regression_too() {
    let text = include_str!("../../docs/ci.md");
    let (_, text) = text.split_once("## Any shell\n\n```sh\n").unwrap();
    let (snippet, _) = text.split_once("```").unwrap();
    let fakes = Fakes::new();
    fakes.program("cargo", "exit 1");
    fakes.program("gh", "");
    let path = format!("{}:{}", fakes.path().display(), std::env::var("PATH").unwrap());
    let ran = Command::new("bash").args(["-e", "-c", snippet]).env("PATH", path).output().unwrap();
    assert_eq!(ran.status.code(), Some(1), "{}", said(&ran));
    assert!(fakes.calls().iter().any(|call| call.starts_with("gh pr comment")), "{:?}", fakes.calls());
}

#[test]
fn a_job_that_runs_code_of_strangers_keeps_its_variables_from_it() {
    for (variable, is_clean) in [("true", true), ("false", false)] {
        let fakes = Fakes::new();
        fakes.cargo(0, 0);
        let variables = [("MEMPROF_BASE", "origin/main"), ("MEMPROF_CLEAN_ENV", variable)];
        assert!(fakes.run("compare", &variables).status.success());
        let calls = fakes.calls();
        let call = calls.iter().find(|call| call.starts_with("cargo memprof")).expect("cargo was called");
        assert_eq!(call.contains(" --clean-env "), is_clean, "{call}");
    }
}

#[test]
fn no_workflow_leaves_its_token_in_the_checkout() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for file in [".github/workflows/ci.yml", ".github/workflows/release.yml", "docs/ci.md"] {
        // The packaged crate has no workflows.
        let Ok(text) = std::fs::read_to_string(root.join(file)) else { continue };
        let checkouts = text.matches("uses: actions/checkout").count();
        assert!(checkouts > 0, "{file}");
        assert!(text.matches("persist-credentials: false}").count() >= checkouts, "{file}");
        assert!(!text.contains("on: pull_request_target"), "{file}");
    }
}

#[test]
fn a_push_is_only_built() {
    let fakes = Fakes::new();
    fakes.program("cargo", "");
    let variables = [("MEMPROF_CLEAN_ENV", "true"), ("MEMPROF_ARGUMENTS", "-k memory --release")];
    let output = fakes.run("build", &variables);
    assert!(output.status.success(), "{}", said(&output));
    let call = fakes.calls().pop().unwrap();
    assert_eq!(call, "cargo memprof build --refs head=2222 --baseline head --clean-env -k memory --release");
    fakes.program("cargo", "exit 2");
    assert_eq!(fakes.run("build", &[]).status.code(), Some(2));
}

/// Answers `cargo metadata`, and saves a baseline where the tool would. A comparison has a report unless it is
/// one with a saved baseline, and this refuses it.
fn saving(refuses: &str) -> String {
    format!(
        r#"case "$*" in
            metadata*) echo '{{"packages":[],"target_directory":"target","version":1}}' ;;
            *--save-baseline*) mkdir -p target/memprof/baselines/ci && echo figures >target/memprof/baselines/ci/plan.json; exit 3 ;;
            *--baseline-run*) {refuses}; echo report >out/memory.md ;;
            *) echo report >out/memory.md ;;
        esac"#
    )
}

#[test]
fn the_figures_of_a_push_are_the_baseline_of_pull_requests_that_begin_there() {
    let fakes = Fakes::new();
    let folder = fakes.path().join("home/repository-1");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("repository"), "2222").unwrap();
    let variables = [
        ("CARGO_MEMPROF_HOME", "home"),
        ("MEMPROF_BASELINE", "true"),
        ("MEMPROF_BASE", "origin/main"),
        ("MEMPROF_ARGUMENTS", "--workspace"),
    ];
    let comparisons = || {
        let calls = fakes.calls().into_iter().filter(|call| call.starts_with("cargo memprof --refs"));
        calls.map(|call| call.split(" --output").next().unwrap_or_default().to_owned()).collect::<Vec<_>>()
    };
    fakes.program("cargo", &saving("true"));
    for _ in 0..2 {
        let output = fakes.run("build", &variables);
        assert!(output.status.success(), "{}", said(&output));
    }
    let saved = "cargo memprof --refs base=2222 --baseline base --save-baseline ci --workspace";
    assert_eq!(comparisons(), [saved; 2]);
    let entries = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name());
    let names: Vec<String> = entries.map(|name| name.into_string().unwrap()).collect();
    let name = names.iter().find(|name| name.starts_with("baseline-")).expect("it is kept");
    let kept = folder.join(name);
    assert_eq!(std::fs::read_to_string(kept.join("run/plan.json")).unwrap(), "figures\n");
    // The merge base is another commit.
    let both = "cargo memprof --refs base=1111,pull=2222 --baseline base";
    assert!(fakes.run("compare", &variables).status.success());
    assert_eq!(comparisons()[2..], [both]);
    std::fs::write(kept.join("commit"), "1111\n").unwrap();
    let refs = "cargo memprof --refs base=1111,pull=2222";
    let with_saved = &*format!("{refs} --baseline-run home/repository-1/{name}/run --baseline base");
    assert!(fakes.run("compare", &variables).status.success());
    assert_eq!(comparisons()[3..], [with_saved]);
    // The machines differ.
    fakes.program("cargo", &saving("exit 2"));
    let output = fakes.run("compare", &variables);
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(comparisons()[4..], [with_saved, both]);
    // The pull request selects another test.
    let lacks =
        "echo report >out/memory.md; echo 'the saved baseline x did not run it' >out/memory.json; exit 3";
    fakes.program("cargo", &saving(lacks));
    assert!(fakes.run("compare", &variables).status.success());
    assert_eq!(comparisons()[6..], [with_saved, both]);
    // It has a test file that the push lacks.
    let lacks = "echo report >out/memory.md; \
         echo '1 test of pull is in a test file that the saved baseline x lacks, and cannot be put into it' >out/memory.json";
    fakes.program("cargo", &saving(lacks));
    assert!(fakes.run("compare", &variables).status.success());
    assert_eq!(comparisons()[8..], [with_saved, both]);
    // A job with other arguments has figures of other tests.
    let others = variables.map(|(key, value)| (key, if value == "--workspace" { "-k x" } else { value }));
    assert!(fakes.run("compare", &others).status.success());
    assert_eq!(comparisons()[10..], [both]);
    // What fails otherwise is no reason to begin again.
    fakes.program("cargo", &saving("exit 101"));
    assert_eq!(fakes.run("compare", &variables).status.code(), Some(101));
    assert_eq!(comparisons()[11..], [with_saved]);
    // Without a baseline, a push that does not build fails.
    let earlier = fakes.path().join("target/memprof/baselines/ci");
    std::fs::create_dir_all(&earlier).unwrap();
    let fails = "case $1 in metadata) echo '{\"target_directory\":\"target\"}' ;; *) exit 3 ;; esac";
    fakes.program("cargo", fails);
    assert_eq!(fakes.run("build", &variables).status.code(), Some(3));
    assert!(!earlier.exists(), "that of another commit");
}

#[test]
fn a_shallow_clone_is_told_what_it_lacks() {
    let fakes = Fakes::new();
    fakes.cargo(0, 0);
    let output = fakes.run("compare", &[("MEMPROF_BASE", "origin/other")]);
    assert_eq!(output.status.code(), Some(2));
    assert!(said(&output).contains("fetch-depth: 0"), "{}", said(&output));
    assert!(fakes.run("compare", &[]).stderr.starts_with(b"memprof.sh: MEMPROF_BASE is not set"));
}

#[test]
fn a_comparison_without_a_report_fails_with_its_own_code() {
    let fakes = Fakes::new();
    fakes.program("cargo", "exit 2");
    let output = fakes.run("compare", &[("MEMPROF_BASE", "origin/main")]);
    assert_eq!(output.status.code(), Some(2));
    assert!(!fakes.path().join("out/memory.code").exists());
}

/// The call that posts, after a comparison of this outcome, where a comment is there already or not.
fn posted(regressed: u32, code: i32, known: &str) -> Option<String> {
    let fakes = Fakes::new();
    fakes.cargo(regressed, code);
    assert!(fakes.run("compare", &[("MEMPROF_BASE", "origin/main")]).status.success());
    fakes.program("gh", &format!("case $* in *--jq*) echo '{known}' ;; esac"));
    let output = fakes.run("comment", &PULL);
    assert!(output.status.success(), "{}", said(&output));
    fakes.calls().into_iter().find(|call| call.starts_with("gh ") && call.contains("body="))
}

#[test]
fn a_comment_is_written_on_a_change_and_kept_up_to_date_ever_after() {
    let new = "gh api --silent repos/o/n/issues/7/comments -F body=@out/memory.md";
    let patch = "gh api --silent --method PATCH repos/o/n/issues/comments/42 -F body=@out/memory.md";
    assert_eq!(posted(1, 1, "").as_deref(), Some(new));
    assert_eq!(posted(1, 0, "").as_deref(), Some(new), "a row counts, whatever the counts of tests say");
    assert_eq!(posted(0, 3, "").as_deref(), Some(new), "what failed is said too");
    assert_eq!(posted(0, 0, ""), None, "nothing changed, nothing to say");
    assert_eq!(posted(0, 0, "42").as_deref(), Some(patch), "what regressed before does so no more");
    assert_eq!(posted(2, 1, "42").as_deref(), Some(patch));
}

#[test]
fn a_comment_is_shared_with_other_tools_by_its_first_line() {
    let fakes = Fakes::new();
    fakes.cargo(1, 1);
    assert!(fakes.run("compare", &[("MEMPROF_BASE", "origin/main")]).status.success());
    let marker = "<!-- ci-report -->";
    let variables: Vec<_> = PULL.into_iter().chain([("MEMPROF_MARKER", marker)]).collect();
    fakes.program("gh", "");
    let posted = fakes.run("comment", &variables);
    assert!(posted.status.success(), "{}", said(&posted));
    let shared = || std::fs::read_to_string(fakes.path().join("out/shared.md")).unwrap();
    let part = "<!-- cargo-memprof -->\n**Memory**\n<!-- /cargo-memprof -->\n";
    assert_eq!(shared(), format!("{marker}\n{part}"), "a new comment");
    // What others wrote stays, before and after.
    let known = format!("{marker}\nsize: 3\n{}coverage: 4", part.replace("Memory", "old"));
    fakes.write("known", &known);
    fakes.program("gh", "case $* in *'comments --jq'*) echo 42 ;; *'--jq .body'*) cat out/known ;; esac");
    let posted = fakes.run("comment", &variables);
    assert!(posted.status.success(), "{}", said(&posted));
    assert_eq!(shared(), format!("{marker}\nsize: 3\n{part}coverage: 4\n"));
    let call = fakes.calls().pop().unwrap();
    assert_eq!(call, "gh api --silent --method PATCH repos/o/n/issues/comments/42 -F body=@out/shared.md");
    let refused = fakes.run("comment", &[PULL[0], PULL[1], ("MEMPROF_MARKER", "report")]);
    assert!(said(&refused).contains("MEMPROF_MARKER is not a comment in HTML"), "{}", said(&refused));
}

#[test]
fn a_comment_links_to_the_page() {
    let fakes = Fakes::new();
    fakes.cargo(1, 1);
    assert!(fakes.run("compare", &[("MEMPROF_BASE", "origin/main")]).status.success());
    fakes.program("gh", "");
    let variables =
        |page: &'static str| [("MEMPROF_REPOSITORY", "o/n"), ("MEMPROF_PULL", "7"), ("MEMPROF_PAGE", page)];
    let output = fakes.run("comment", &variables("https://github.com/o/n/actions/runs/1/artifacts/2"));
    assert!(output.status.success(), "{}", said(&output));
    let posted = std::fs::read_to_string(fakes.path().join("out/comment.md")).unwrap();
    let link = "[The page with charts and flame graphs](https://github.com/o/n/actions/runs/1/artifacts/2)";
    assert!(posted.starts_with("<!-- cargo-memprof -->") && posted.trim_end().ends_with(link), "{posted}");
    assert!(fakes.calls().iter().any(|call| call.ends_with("body=@out/comment.md")), "{:?}", fakes.calls());
    for odd in ["http://x", "https://x) [buy](https://y", "javascript:alert(1)"] {
        let output = fakes.run("comment", &variables(odd));
        assert!(said(&output).contains("MEMPROF_PAGE is not a link"), "{odd}: {}", said(&output));
    }
}

#[test]
fn what_a_stranger_wrote_is_posted_only_as_a_report_of_the_commit_that_was_measured() {
    let fakes = Fakes::new();
    fakes.program("gh", "case $* in *.head.sha*) echo abcd ;; esac");
    fakes.write("memory.md", "<!-- cargo-memprof -->\nx\n");
    fakes.write("memory.code", "1\n");
    let with = |pull: &str, sha: &str| {
        fakes.run(
            "comment",
            &[("MEMPROF_REPOSITORY", "o/n"), ("MEMPROF_PULL", pull), ("MEMPROF_HEAD_SHA", sha)],
        )
    };
    assert!(with("7", "abcd").status.success());
    assert!(said(&with("7", "ef01")).contains("is at abcd, not at ef01"));
    assert!(said(&with("7/../8", "abcd")).contains("is not a number"));
    fakes.write("memory.md", "buy now\n");
    assert!(said(&with("7", "abcd")).contains("is not a report"));
    fakes.write("memory.md", &format!("<!-- cargo-memprof -->\n{}", "x".repeat(70_000)));
    assert!(said(&with("7", "abcd")).contains("too long"));
}

#[test]
fn on_gitlab_the_note_is_posted_and_the_token_is_in_no_argument() {
    if Command::new("jq").arg("--version").output().is_err() {
        skip("jq is not installed");
        return;
    }
    let posted = |notes: &str| {
        let fakes = Fakes::new();
        fakes.cargo(1, 1);
        assert!(fakes.run("compare", &[("MEMPROF_BASE", "origin/main")]).status.success());
        fakes.program("curl", &format!("case $* in *per_page*) echo '{notes}' ;; esac"));
        let variables = [("MEMPROF_REPOSITORY", "12"), ("MEMPROF_PULL", "7"), ("GITLAB_TOKEN", "secret")];
        let output = fakes.run("comment", &variables);
        assert!(output.status.success(), "{}", said(&output));
        let calls = fakes.calls();
        assert!(calls.iter().all(|call| !call.contains("secret")), "{calls:?}");
        calls.last().unwrap().clone()
    };
    let notes = "https://gitlab.com/api/v4/projects/12/merge_requests/7/notes";
    assert!(posted("[]").ends_with(&format!("--data-urlencode body@out/memory.md {notes}")));
    let known = r#"[{"id":5,"system":false,"body":"hello"},{"id":6,"system":false,"body":"<!-- cargo-memprof --> x"}]"#;
    assert!(posted(known).ends_with(&format!("--request PUT --data-urlencode body@out/memory.md {notes}/6")));
}

#[test]
fn shards_that_are_finished_are_merged_whatever_their_verdicts_are() {
    for (of_shards, merged) in [(0, true), (1, true), (2, false), (3, true), (4, true), (101, false)] {
        let fakes = Fakes::new();
        fakes.program("cargo-memprof", &format!("case $1 in run) exit {of_shards} ;; merge) exit 9 ;; esac"));
        let path = format!("{}:{}", fakes.path().display(), std::env::var("PATH").unwrap());
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/ci/shards.sh");
        let ran = Command::new("bash").args([script, "2", "main"]).env("PATH", path).output().unwrap();
        assert_eq!(ran.status.code(), Some(if merged { 9 } else { of_shards }), "{}", said(&ran));
        assert_eq!(fakes.calls().len(), if merged { 4 } else { 2 }, "{:?}", fakes.calls());
    }
    assert!(
        include_str!("../../docs/ci.md").contains("case $code in 0 | 1 | 3 | 4) ;; *) exit $code ;; esac")
    );
}

#[test]
fn the_action_calls_the_script_by_its_steps_and_knows_its_variables() {
    let action = include_str!("../../action.yml");
    let scripts = [
        include_str!("../../ci/memprof.sh"),
        include_str!("../../ci/install.sh"),
        include_str!("../../ci/cache.sh"),
    ];
    for step in ["compare", "build", "comment", "verdict"] {
        assert!(action.contains(&format!("/ci/memprof.sh\" {step}")), "{step}");
    }
    let variables = regex::Regex::new("MEMPROF_[A-Z_]+").unwrap();
    for text in [action, include_str!("../../docs/ci.md")] {
        for variable in variables.find_iter(text).map(|found| found.as_str()) {
            let is_ours = |script: &&str| script.contains(&format!("#   {variable} "));
            let is_explained = scripts.iter().any(is_ours) || variable == "MEMPROF_HOME";
            assert!(is_explained, "no script explains {variable}");
        }
    }
    let parsed: serde_yaml::Value = serde_yaml::from_str(action).unwrap();
    assert_eq!(parsed["runs"]["using"].as_str(), Some("composite"));
}

#[test]
fn shellcheck_has_nothing_to_say() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/ci");
    let scripts = ["memprof.sh", "install.sh", "cache.sh", "release.sh"];
    let scripts = scripts.map(|script| format!("{folder}/{script}"));
    match Command::new("shellcheck").args(scripts).output() {
        Ok(output) => assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout)),
        Err(_) => skip("shellcheck is not installed"),
    }
}
