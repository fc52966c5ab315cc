//! `ci/install.sh`, `ci/release.sh` and `ci/cache.sh`: the program and the builds of a CI job.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::support::{TestRepository, skip};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
const ARCHIVE: &str = "cargo-memprof-v1.2.3-x86_64-fake-linux.tar.gz";

/// A copy of the scripts with few sources, a `cargo` that builds in no time, and a release of it.
struct Sources {
    folder: tempfile::TempDir,
    has_release: bool,
}

impl Sources {
    fn new() -> Option<Self> {
        if Command::new("curl").arg("--version").output().is_err() {
            skip("curl is not installed");
            return None;
        }
        let sources = Self { folder: tempfile::tempdir().unwrap(), has_release: true };
        sources.write("action/Cargo.toml", "[package]\nname = \"x\"\nversion = \"1.2.3\"\n");
        for file in
            ["Cargo.lock", "src/main.rs", "crates/c/src/lib.rs", "templates/a.rs", "fixtures/demo/b.rs"]
        {
            sources.write(&format!("action/{file}"), file);
        }
        for file in ["README.md", "CHANGELOG.md", "LICENSE", "LICENSE-MIT", "LICENSE-APACHE"] {
            sources.write(&format!("action/{file}"), file);
        }
        for script in ["install.sh", "release.sh"] {
            let text = std::fs::read_to_string(format!("{ROOT}/ci/{script}")).unwrap();
            sources.program(&format!("action/ci/{script}"), &text);
        }
        sources.program("bin/rustc", "#!/bin/sh\necho 'rustc 1.95.0'\necho 'host: x86_64-fake-linux'\n");
        sources.program(
            "bin/cargo",
            "#!/bin/sh\n\
             program() { mkdir -p \"$2\"; printf '#!/bin/sh\\necho %s\\n' \"$1\" >\"$2/cargo-memprof\"; chmod +x \"$2/cargo-memprof\"; }\n\
             if [ \"$1\" = auditable ]; then shift; fi\n\
             case $1 in\n\
             build) program released target/dist; [ -z \"$EDIT\" ] || echo >>src/main.rs ;;\n\
             run) echo \"$*\" ;;\n\
             tree) echo 'x v1.2.3 (/action)'; echo 'lib v4.5.6' ;;\n\
             install) while [ \"$1\" != --root ]; do shift; done; program built \"$2/bin\" ;;\n\
             esac\n",
        );
        sources.write("home/.cargo/registry/src/index/lib-4.5.6/c/COPYING", "as you like");
        let output = sources.release().output().unwrap();
        assert!(output.status.success(), "{}", said(&output));
        Some(sources)
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn file_of_release(&self, name: &str) -> PathBuf {
        self.path().join("releases/v1.2.3").join(name)
    }

    fn write(&self, name: &str, text: &str) {
        let file = self.path().join(name);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    }

    fn program(&self, name: &str, text: &str) {
        self.write(name, text);
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(self.path().join(name), mode).unwrap();
    }

    fn command(&self, script: &str) -> Command {
        let path = format!("{}:{}", self.path().join("bin").display(), std::env::var("PATH").unwrap());
        let mut command = Command::new("bash");
        command.arg(self.path().join("action/ci").join(script)).current_dir(self.path());
        command.env_clear().env("PATH", path).env("HOME", self.path().join("home"));
        command.env("MEMPROF_TOOL", self.path().join("tool"));
        if self.has_release {
            let releases = format!("file://{}", self.path().join("releases").display());
            command.env("MEMPROF_RELEASES", releases);
        }
        command
    }

    fn release(&self) -> Command {
        let mut command = self.command("release.sh");
        command.arg(self.path().join("releases/v1.2.3"));
        command
    }

    fn install(&self, step: &str) -> Output {
        self.command("install.sh").arg(step).output().expect("bash starts")
    }

    /// What the installed program says, if there is one.
    fn installed(&self) -> Option<String> {
        let program = self.path().join("tool/bin/cargo-memprof");
        let output = program.exists().then(|| Command::new(program).output().unwrap())?;
        Some(String::from_utf8(output.stdout).unwrap().trim().to_owned())
    }

    /// Runs the step that installs a release, which must find none and say this, and builds instead.
    fn builds_because(&self, reason: &str) {
        let output = self.install("release");
        assert_eq!(output.status.code(), Some(1), "{}", said(&output));
        assert!(said(&output).contains(reason), "{}", said(&output));
        assert_eq!(self.installed(), None);
        assert!(self.install("build").status.success());
        assert_eq!(self.installed().as_deref(), Some("built"));
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_release_with_these_sources_and_a_right_checksum_is_installed() {
    let Some(sources) = Sources::new() else { return };
    let output = sources.install("release");
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(sources.installed().as_deref(), Some("released"));
}

#[test]
fn a_release_has_what_the_program_prints_and_the_licenses_of_its_libraries() {
    let Some(sources) = Sources::new() else { return };
    let folder = sources.path().join("unpacked");
    std::fs::create_dir(&folder).unwrap();
    let mut tar = Command::new("tar");
    tar.arg("-xzf").arg(sources.file_of_release(ARCHIVE)).args(["--strip-components", "1"]);
    assert!(tar.current_dir(&folder).status().unwrap().success());
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    let run = "run --quiet --profile dist --locked --bin cargo-memprof -- memprof";
    assert_eq!(read("completions/_cargo-memprof"), format!("{run} completions zsh\n"));
    assert_eq!(read("man/cargo-memprof.1"), format!("{run} man\n"));
    assert_eq!(read("licenses/lib-4.5.6/c/COPYING"), "as you like");
}

#[test]
fn sources_that_change_during_the_build_are_not_released() {
    let Some(sources) = Sources::new() else { return };
    std::fs::remove_file(sources.file_of_release(ARCHIVE)).unwrap();
    let output = sources.release().env("EDIT", "1").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("the sources changed during the build"), "{}", said(&output));
    assert!(!sources.file_of_release(ARCHIVE).exists());
}

#[test]
fn a_binary_with_a_wrong_checksum_fails_the_job_and_never_runs() {
    let Some(sources) = Sources::new() else { return };
    let mut archive = std::fs::read(sources.file_of_release(ARCHIVE)).unwrap();
    archive.push(0);
    std::fs::write(sources.file_of_release(ARCHIVE), archive).unwrap();
    let output = sources.install("release");
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert!(said(&output).contains(&format!("the checksum of {ARCHIVE} is wrong")), "{}", said(&output));
    assert!(said(&output).contains("install: build"), "{}", said(&output));
    assert_eq!(sources.installed(), None);

    // An empty file of checksums proves nothing, either.
    std::fs::write(sources.file_of_release(&format!("{ARCHIVE}.sha256")), "").unwrap();
    assert_eq!(sources.install("release").status.code(), Some(2));
    assert_eq!(sources.installed(), None);
}

#[test]
fn without_a_release_or_its_checksum_the_program_is_built() {
    let Some(sources) = Sources::new() else { return };
    std::fs::remove_file(sources.file_of_release(&format!("{ARCHIVE}.sha256"))).unwrap();
    sources.builds_because(&format!("no release for this machine: {ARCHIVE}.sha256"));

    let Some(mut sources) = Sources::new() else { return };
    sources.has_release = false;
    sources.builds_because("there is no address of releases");
}

#[test]
fn without_network_the_program_is_built() {
    let Some(sources) = Sources::new() else { return };
    // Nothing listens at port 1.
    let mut command = sources.command("install.sh");
    let output = command.arg("release").env("MEMPROF_RELEASES", "https://127.0.0.1:1").output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("curl: (7)"), "{}", said(&output));
    assert_eq!(sources.installed(), None);
    // And nothing is fetched without encryption.
    let output = command.env("MEMPROF_RELEASES", "http://127.0.0.1:1").output().unwrap();
    assert!(said(&output).contains("curl: (1)"), "{}", said(&output));
}

#[test]
fn a_release_of_the_same_version_with_other_sources_is_not_installed() {
    let Some(sources) = Sources::new() else { return };
    sources.write("action/templates/a.rs", "a later commit");
    sources.builds_because("the release v1.2.3 has other sources");
}

#[test]
fn a_binary_that_does_not_start_here_is_not_installed() {
    let Some(sources) = Sources::new() else { return };
    let folder = sources.file_of_release("");
    let script = "tar -xzf $0 && printf '#!/bin/sh\\nexit 1\\n' >${0%.tar.gz}/cargo-memprof && \
                  tar -czf $0 ${0%.tar.gz} && sha256sum $0 >$0.sha256";
    assert!(
        Command::new("bash").args(["-c", script, ARCHIVE]).current_dir(folder).status().unwrap().success()
    );
    sources.builds_because("does not start here");
}

#[test]
fn a_build_is_kept_for_its_sources_and_compiler_alone() {
    let Some(sources) = Sources::new() else { return };
    let key = || String::from_utf8(sources.install("key").stdout).unwrap();
    let first = key();
    assert_eq!(first.trim().len(), 32, "{first}");
    sources.write("action/README.md", "changed");
    assert_eq!(key(), first, "the program does not depend on it");
    sources.write("action/src/main.rs", "changed");
    let second = key();
    assert_ne!(second, first);
    sources.program("bin/rustc", "#!/bin/sh\necho 'rustc 1.96.0'\n");
    assert_ne!(key(), second);
}

#[test]
fn the_hash_of_the_sources_covers_what_the_program_embeds() {
    let script = include_str!("../../ci/install.sh");
    let find = script.lines().find(|line| line.contains("find Cargo.toml")).unwrap();
    let embeds = regex::Regex::new(r#"include_dir!\("\$CARGO_MANIFEST_DIR/([^"]*)"\)"#).unwrap();
    let mut found = 0;
    let sources = ["src", "crates"].map(|folder| walkdir::WalkDir::new(Path::new(ROOT).join(folder)));
    for entry in sources.into_iter().flatten().flatten() {
        let Ok(text) = std::fs::read_to_string(entry.path()) else { continue };
        for folder in embeds.captures_iter(&text) {
            assert!(find.contains(&format!(" {} ", &folder[1])), "{}", &folder[1]);
            found += 1;
        }
        for line in
            text.lines().filter(|line| line.contains("include_str!(\"") || line.contains("include_bytes!(\""))
        {
            assert!(!line.contains("../../../"), "{}: {line}", entry.path().display());
        }
    }
    assert!(found >= 2, "{found}");
    assert!(!Path::new(ROOT).join("build.rs").exists(), "the hash of the sources lacks build.rs");
}

/// A repository, the home of the tool's cache, and `ci/cache.sh` in them.
struct Job {
    repository: TestRepository,
    home: tempfile::TempDir,
}

impl Job {
    fn new() -> Self {
        let mut repository = TestRepository::new();
        repository.write("Cargo.lock", "one");
        repository.write("src/lib.rs", "");
        repository.commit("first");
        Self { repository, home: tempfile::tempdir().unwrap() }
    }

    fn run(&self, step: &str, variables: &[(&str, &str)]) -> Output {
        let output = Command::new("bash")
            .args([&format!("{ROOT}/ci/cache.sh"), step])
            .current_dir(self.repository.path("."))
            .env("CARGO_MEMPROF_HOME", self.home.path())
            .env_remove("MEMPROF_ARGUMENTS")
            .envs(variables.iter().copied())
            .output()
            .expect("bash starts");
        assert!(output.status.success(), "{}", said(&output));
        output
    }

    /// One of the lines that `key` prints.
    fn key(&self, name: &str, variables: &[(&str, &str)]) -> String {
        let text = String::from_utf8(self.run("key", variables).stdout).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name}=")));
        line.unwrap_or_else(|| panic!("no {name} in {text}")).to_owned()
    }

    /// The folder that the tool would make for this repository, with a checkout of `HEAD`.
    fn checkout(&self) -> PathBuf {
        let folder = self.home.path().canonicalize().unwrap().join("repository-0123");
        std::fs::create_dir_all(folder.join("store")).unwrap();
        let common = self.repository.path(".").canonicalize().unwrap().join(".git");
        std::fs::write(folder.join("repository"), format!("{}\n", common.display())).unwrap();
        let worktree = folder.join("worktree");
        self.repository.git(["worktree", "add", "--quiet", "--detach", worktree.to_str().unwrap()]);
        std::fs::create_dir_all(common.join("worktrees/worktree/info")).unwrap();
        std::fs::write(common.join("worktrees/worktree/info/sparse-checkout"), "/*\n").unwrap();
        std::fs::write(common.join("worktrees/worktree/cargo-memprof"), "").unwrap();
        folder
    }
}

#[test]
fn builds_are_looked_up_by_commit_then_by_lock_file_then_at_all() {
    let mut job = Job::new();
    let [key, lock, any] = ["key", "lock", "any"].map(|name| job.key(name, &[]));
    assert!(key.starts_with(&lock) && lock.starts_with(&any), "{key} {lock} {any}");
    assert_eq!(job.key("folder", &[]), job.home.path().to_str().unwrap());
    assert_ne!(job.key("any", &[("MEMPROF_ARGUMENTS", "--release")]), any);

    job.repository.write("src/lib.rs", "fn changed() {}");
    job.repository.commit("second");
    assert_ne!(job.key("key", &[]), key);
    assert_eq!(job.key("lock", &[]), lock);
    assert_eq!(job.key("key", &[("MEMPROF_HEAD", "HEAD~1")]), key);

    job.repository.write("Cargo.lock", "two");
    job.repository.commit("third");
    assert_ne!(job.key("lock", &[]), lock);
    assert_eq!(job.key("any", &[]), any);
}

#[test]
fn a_fresh_clone_knows_the_restored_checkout_and_its_files_keep_their_times() {
    let job = Job::new();
    let folder = job.checkout();
    job.run("save", &[]);
    // A new job: git knows nothing of the checkout, and its files are other files with the same times.
    let worktrees = job.repository.path(".").join(".git/worktrees");
    std::fs::remove_dir_all(&worktrees).unwrap();
    let copy = folder.with_file_name("copy");
    assert!(Command::new("cp").arg("-a").args([&folder, &copy]).status().unwrap().success());
    std::fs::remove_dir_all(&folder).unwrap();
    std::fs::rename(&copy, &folder).unwrap();

    // The code of the earlier job could write there, too.
    std::fs::write(folder.join("entry/commondir"), "/elsewhere\n").unwrap();
    std::fs::write(folder.join("entry/config.worktree"), "[core]\n").unwrap();
    job.run("restore", &[]);
    assert_eq!(std::fs::read_to_string(worktrees.join("worktree/commondir")).unwrap(), "../..\n");
    assert!(!worktrees.join("worktree/config.worktree").exists());
    let file = folder.join("worktree/src/lib.rs");
    let time = || std::fs::metadata(&file).unwrap().modified().unwrap();
    let before = time();
    job.repository.git([
        "--git-dir",
        worktrees.join("worktree").to_str().unwrap(),
        "--work-tree",
        folder.join("worktree").to_str().unwrap(),
        "checkout",
        "--quiet",
        "--force",
        "--detach",
        "HEAD",
    ]);
    assert_eq!(time(), before, "git wrote the file again");
    // A clone that is kept between jobs knows better.
    std::fs::write(worktrees.join("worktree/cargo-memprof"), "kept").unwrap();
    job.run("restore", &[]);
    assert_eq!(std::fs::read_to_string(worktrees.join("worktree/cargo-memprof")).unwrap(), "kept");
}

#[test]
fn a_folder_above_the_limit_is_saved_without_builds() {
    let job = Job::new();
    let folder = job.checkout();
    std::fs::create_dir_all(folder.join("target/debug")).unwrap();
    std::fs::write(folder.join("target/debug/large"), vec![1; 3 << 20]).unwrap();
    job.run("save", &[("MEMPROF_CACHE_LIMIT", "100")]);
    assert!(folder.join("target/debug/large").exists());
    let output = job.run("save", &[("MEMPROF_CACHE_LIMIT", "2")]);
    assert!(said(&output).contains("more than 2"), "{}", said(&output));
    assert!(!folder.join("target").exists() && !folder.join("store").exists());
    assert!(folder.join("entry/HEAD").exists() && folder.join("worktree").exists());
}

#[test]
fn the_action_is_valid_calls_scripts_that_exist_and_pins_other_actions() {
    let action: serde_yaml::Value = serde_yaml::from_str(include_str!("../../action.yml")).unwrap();
    let text = include_str!("../../action.yml");
    let mentions = |pattern: &str| -> Vec<String> {
        let pattern = regex::Regex::new(pattern).unwrap();
        pattern.captures_iter(text).map(|found| found[1].to_owned()).collect()
    };
    for input in mentions(r"inputs\.([a-z-]+)") {
        assert!(!action["inputs"][input.as_str()].is_null(), "no input {input}");
    }
    let steps = action["runs"]["steps"].as_sequence().unwrap();
    let ids: Vec<_> = steps.iter().filter_map(|step| step["id"].as_str()).collect();
    for id in mentions(r"steps\.([a-z-]+)\.") {
        assert!(ids.contains(&id.as_str()), "no step {id}");
    }
    let steps_of = regex::Regex::new(r#"/ci/([a-z]+\.sh)" ([a-z]+)"#).unwrap();
    let pinned = regex::Regex::new("^actions/(cache/(save|restore)|upload-artifact)@[0-9a-f]{40}$").unwrap();
    let mut called = Vec::new();
    for step in steps {
        if let Some(other) = step["uses"].as_str() {
            assert!(pinned.is_match(other), "{other}");
            continue;
        }
        assert_eq!(step["shell"].as_str(), Some("bash"), "{step:?}");
        for call in steps_of.captures_iter(step["run"].as_str().unwrap()) {
            let script =
                std::fs::read_to_string(format!("{ROOT}/ci/{}", &call[1])).expect("the script exists");
            let steps = script.lines().rev().find(|line| line.contains(") \"$1\" ;;")).unwrap();
            assert!(steps.contains(&call[2]), "{} has no step {}", &call[1], &call[2]);
            called.push(format!("{} {}", &call[1], &call[2]));
        }
    }
    // The program is saved before code of the pull request runs, and builds before a verdict can fail.
    let place = |what: &str| called.iter().position(|call| call == what).expect("it is called");
    assert!(place("install.sh build") < place("cache.sh restore"));
    assert!(place("cache.sh restore") < place("memprof.sh compare"));
    assert!(place("memprof.sh compare") < place("cache.sh save"));
    assert!(place("cache.sh save") < place("memprof.sh verdict"));
}

#[test]
fn the_guide_begins_with_a_workflow_of_15_lines() {
    let guide = include_str!("../../docs/ci.md");
    let (_, rest) = guide.split_once("```yaml\n").unwrap();
    let (workflow, _) = rest.split_once("```").unwrap();
    assert_eq!(workflow.lines().count(), 15, "{workflow}");
    let workflow: serde_yaml::Value =
        serde_yaml::from_str(&workflow.replace("<this repository>", "o/n")).unwrap();
    let action: serde_yaml::Value = serde_yaml::from_str(include_str!("../../action.yml")).unwrap();
    let step = &workflow["jobs"]["memory"]["steps"][1];
    for (input, _) in step["with"].as_mapping().unwrap() {
        assert!(!action["inputs"][input].is_null(), "the action has no input {input:?}");
    }
}
