//! Names of refs, remotes and patterns. They come from the command line and from a `memprof.yaml`, and go to git.

use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use camino::Utf8Path;
use memprof_build::git::ref_pattern::{forge_ref, split_suffix};
use memprof_build::git::repository::Repository;
use memprof_build::git::resolve::resolve_any;
use memprof_plan::request::{BaselineRequest, RefRequest, Request};
use memprof_support::event::{Event, Sink};

use super::Target;

pub const TARGET: Target = Target {
    name: "refs",
    check,
    seeds,
    words: &[
        "-",
        "--",
        "--upload-pack=touch dead",
        "--output=dead",
        "--exec=dead",
        "-c",
        "--all",
        "@{",
        "@{u}",
        "^{/",
        "^{commit}",
        "~3",
        "HEAD",
        "main",
        "refs/",
        "pr/7",
        "mr/1/merge",
        "{}",
        "origin",
        "ext::touch dead",
        ":/",
        "..",
        "...",
        "*",
        "+",
        "^",
        "^@",
    ],
};

/// The lines: a ref, a baseline, a remote, a pattern, its ref at the remote. None of them reaches git as an option, and the only refs that
/// are written are the tool's own.
pub fn check(bytes: &[u8]) {
    thread_local! {
        // A thread's end removes its folder; a static would leave it.
        static PLACE: OnceCell<Place> = const { OnceCell::new() };
    }
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let mut lines = text.split('\n');
    let mut line = || lines.next().filter(|line| !line.is_empty()).map(str::to_owned);
    let (spec, baseline, remote, pattern, at_remote) =
        (line().unwrap_or_default(), line(), line(), line(), line());
    let mut request = Request {
        refs: vec![RefRequest { spec: spec.clone(), ..RefRequest::default() }],
        ..Request::default()
    };
    request.settings.remote.clone_from(&remote);
    request.baseline = baseline.clone().map_or(BaselineRequest::First, BaselineRequest::Ref);
    if let (Some(pattern), Some(at_remote)) = (&pattern, &at_remote) {
        request.settings.refspecs.insert(pattern.clone(), at_remote.clone());
    }
    let (name, suffix) = split_suffix(&spec);
    assert_eq!(format!("{name}{suffix}"), spec);
    if let Some(found) = forge_ref(name, &request.settings.refspecs) {
        assert_eq!(found.name, name);
    }
    let given: Vec<&str> = [&spec]
        .into_iter()
        .chain([&baseline, &remote, &at_remote].into_iter().flatten())
        .map(String::as_str)
        .collect();
    PLACE.with(|place| {
        let place = place.get_or_init(Place::new);
        for call in place.resolve(&request) {
            place.check(call, &given);
        }
    });
}

/// A repository, and a git that notes how it is called.
struct Place {
    folder: tempfile::TempDir,
    /// The options that git gets when no name looks like one.
    usual: BTreeSet<String>,
}

struct Nobody;

impl Sink for Nobody {
    fn emit(&self, _: Event) {}
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut place = Self { folder, usual: BTreeSet::new() };
        std::fs::create_dir_all(place.path("bin")).expect("the folder is new");
        let git = "#!/bin/sh\nPATH=${PATH#*:}\n{ for word; do printf '%s\\0' \"$word\"; done; printf '\\0\\0'; } >> \"$PROPERTY_CALLS.$$\"\n\
                   mv \"$PROPERTY_CALLS.$$\" \"$PROPERTY_CALLS-$$\"\nexec git \"$@\"\n";
        std::fs::write(place.path("bin/git"), git).expect("the folder is there");
        std::fs::set_permissions(place.path("bin/git"), std::fs::Permissions::from_mode(0o755))
            .expect("it is ours");
        for arguments in [
            &["init", "--quiet", "--initial-branch=main", "remote"][..],
            &["-C", "remote", "commit", "--quiet", "--allow-empty", "--message", "one"],
            &["-C", "remote", "update-ref", "refs/pull/7/head", "HEAD"],
            &["clone", "--quiet", "remote", "here"],
            &["-C", "here", "commit", "--quiet", "--allow-empty", "--message", "two"],
        ] {
            let mut git = Command::new("git");
            git.args(arguments).current_dir(place.folder.path()).envs(environment());
            assert!(git.status().expect("git is installed").success(), "{arguments:?}");
        }
        for spec in ["main", "pr/7", ".", "nothing", "abcd", "HEAD~9"] {
            let refs = vec![RefRequest { spec: spec.to_owned(), ..RefRequest::default() }];
            let calls = place.resolve(&Request { refs, ..Request::default() });
            place.usual.extend(calls.into_iter().flat_map(options));
        }
        place
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    /// Resolves, and returns how git was called.
    fn resolve(&self, request: &Request) -> Vec<Vec<String>> {
        // Inputs are checked by several threads at once.
        let calls = tempfile::tempdir().expect("a temporary folder");
        let path = std::env::var("PATH").expect("there is a PATH");
        let environment =
            environment().into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).chain([
                ("PATH".to_owned(), format!("{}:{path}", self.path("bin").display())),
                ("PROPERTY_CALLS".to_owned(), calls.path().join("call").display().to_string()),
            ]);
        let here = self.path("here");
        let here = Utf8Path::from_path(&here).expect("its path is text");
        let repository =
            Repository::discover(here).expect("it is a repository").with_environment(environment);
        let before = refs(here.as_std_path());
        match resolve_any(request, &repository, &Nobody) {
            Ok(plan) => {
                assert!(plan.revisions.iter().all(|revision| revision.commit.len() == 40), "{plan:?}");
            }
            Err(error) => assert!(!format!("{error:#}").trim().is_empty()),
        }
        assert_eq!(refs(here.as_std_path()), before, "the user's refs stay");
        assert!(!self.path("here/dead").exists() && !self.path("dead").exists(), "a command ran");
        let calls = std::fs::read_dir(calls.path()).expect("it is there").flatten();
        let words = |text: Vec<u8>| String::from_utf8_lossy(&text).split('\0').map(str::to_owned).collect();
        calls.map(|call| words(std::fs::read(call.path()).expect("it was listed"))).collect()
    }

    /// No word that was given is an option.
    fn check(&self, call: Vec<String>, given: &[&str]) {
        for option in options(call).filter(|option| !self.usual.contains(option)) {
            let name = option.strip_suffix("^{commit}").unwrap_or(&option);
            assert!(!given.contains(&name), "git gets '{name}' as an option");
        }
    }
}

/// The words of a call that git takes for options.
fn options(call: Vec<String>) -> impl Iterator<Item = String> {
    let before = call.into_iter().take_while(|word| !["--", "--end-of-options"].contains(&word.as_str()));
    before.filter(|word| word.starts_with('-') && word.len() > 1)
}

/// The refs that are not the tool's.
fn refs(repository: &Path) -> String {
    let mut git = Command::new("git");
    git.args(["for-each-ref", "--exclude=refs/memprof/"]).current_dir(repository).envs(environment());
    String::from_utf8_lossy(&git.output().expect("git is installed").stdout).into_owned()
}

/// No configuration, no network, no questions.
fn environment() -> [(&'static str, &'static str); 10] {
    [
        ("GIT_CONFIG_NOSYSTEM", "1"),
        ("GIT_CONFIG_GLOBAL", "/dev/null"),
        ("GIT_TERMINAL_PROMPT", "0"),
        ("GIT_AUTHOR_NAME", "A U Thor"),
        ("GIT_AUTHOR_EMAIL", "author@example.com"),
        ("GIT_COMMITTER_NAME", "C O Mitter"),
        ("GIT_COMMITTER_EMAIL", "committer@example.com"),
        ("GIT_ALLOW_PROTOCOL", "file"),
        ("GIT_SSH_COMMAND", "false"),
        ("LC_ALL", "C"),
    ]
}

fn seeds() -> Vec<Vec<u8>> {
    [
        "main\nHEAD\n",
        "pr/7\n\norigin\n",
        "pr/7~1\n",
        "--upload-pack=touch dead\n",
        "main\n--output=dead\n",
        "pr/7\n\n--upload-pack=touch dead\n",
        "review/1\nmain\norigin\nreview/{}\nrefs/pull/{}7/head\n",
        "review/-x\n\norigin\nreview/{}\n{}\n",
        "x\n\next::touch dead\nx\n--upload-pack=touch dead\n",
        "HEAD^{/two}\n",
        ".\n",
        "HEAD@{1}..main\n",
        "-\n",
    ]
    .map(Into::into)
    .into()
}
