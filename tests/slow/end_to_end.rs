//! Whole runs of the program: what they keep, refuse, resume and leave alone.

use std::collections::BTreeMap;
use std::path::Path;

use crate::support::csv::{command, kept, memprof, values};
use crate::support::zoo::ZooRepository;
use crate::support::{TestRepository, assert_same_bytes, every_byte, home, isolated, succeed};

#[test]
fn an_allocator_that_cannot_be_wrapped_is_told_with_its_place_and_the_reason() {
    let repository = ZooRepository::of("own-allocator-kept");
    let home = home();
    let arguments = ["--refs", "old,new", "--offline", "--workspace", "--metrics", "heap.live"];
    let printed = memprof(&repository.root(), home.path(), &arguments);
    assert_eq!(printed.code, 0, "{}", printed.everything());
    // Tables break lines between words.
    let told = printed.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    let minds = "the #[global_allocator] at particular/tests/minds.rs:19 does not compile when wrapped in memprof::Heap";
    assert!(told.contains(minds), "{}", printed.everything());
    assert!(told.contains("is in the crate `vendored`, which is not a member"), "{}", printed.everything());
    let warned = printed.stderr.matches("the #[global_allocator] in particular/tests/minds.rs of").count();
    assert_eq!(warned, 2, "once a revision: {}", printed.everything());
}

#[test]
fn metrics_on_request_are_read_where_they_are_named_and_nowhere_else() {
    let repository = ZooRepository::of("single");
    let home = home();
    let run = |arguments: &[&str]| {
        let usual = ["--refs", "old,new", "--offline", "-k", "keeps_through", "--format", "csv"];
        let printed = memprof(&repository.root(), home.path(), &[&usual, arguments].concat());
        assert_eq!(printed.code, 0, "{}", printed.everything());
        let metrics = values(&printed).into_iter().map(|value| value.metric);
        metrics.collect::<std::collections::BTreeSet<String>>()
    };
    let on_request = [
        "cpu.pss",
        "cpu.private",
        "cpu.shared",
        "malloc.live",
        "malloc.peak",
        "malloc.allocated",
        "malloc.count",
    ]
    .map(str::to_owned);
    assert!(run(&[]).is_disjoint(&on_request.clone().into()));
    let told = memprof(&repository.root(), home.path(), &["report", "--metrics", "cpu.pss"]);
    assert!(told.stdout.contains("cpu.pss was not measured"), "{}", told.everything());
    assert!(run(&["--metrics", "cpu.pss,cpu.private,cpu.shared,malloc.*"]).is_superset(&on_request.into()));
    let log = walkdir::WalkDir::new(repository.root().join("target/memprof/latest/"))
        .into_iter()
        .filter_map(Result::ok)
        .find(|entry| entry.file_name() == "log.jsonl")
        .expect("each run has a log");
    let log = std::fs::read_to_string(log.path()).expect("it is text");
    assert!(log.contains(r#""malloc.live":"library in front of"#), "{log}");
    let told = memprof(&repository.root(), home.path(), &["report", "--metrics", "heap.live,malloc.*"]);
    assert!(told.stdout.contains("malloc.peak"), "{}", told.everything());
    let judged = run(&["--threshold", "malloc.live=5%"]);
    assert!(judged.contains("malloc.live") && !judged.contains("cpu.pss"), "{judged:?}");
}

#[test]
fn scopes_and_what_grew_most_are_shown_of_one_ref_too() {
    let repository = ZooRepository::of("single");
    let home = home();
    let one = |view: &str| {
        let arguments = ["--refs", "new", "--offline", "-k", "keeps_through", "--view", view];
        memprof(&repository.root(), home.path(), &arguments)
    };
    let scopes = one("scopes");
    assert!(scopes.code == 0 && scopes.stdout.starts_with("no scope was logged"), "{}", scopes.everything());
    let top = one("top");
    assert!(top.code == 0 && top.stdout.contains("start → done"), "{}", top.everything());
}

#[test]
fn a_filter_that_meets_no_test_leaves_the_last_run_to_be_reported() {
    let repository = ZooRepository::of("single");
    let home = home();
    let run = |arguments: &[&str]| memprof(&repository.root(), home.path(), arguments);
    let measured = run(&["--refs", "old,new", "--offline", "-k", "program", "--format", "csv"]);
    assert_eq!(measured.code, 0, "{}", measured.everything());
    assert_eq!(run(&["--refs", "old,new", "--offline", "-k", "nosuch"]).code, 2);
    assert_eq!(run(&["report", "--format", "csv"]).stdout, measured.stdout);
    let unknown = run(&["report", "nosuch"]);
    assert!(!unknown.stderr.contains("is latest"), "{}", unknown.everything());
}

#[test]
fn a_configuration_file_of_the_command_line_is_part_of_what_is_built() {
    let repository = ZooRepository::of("single");
    let home = home();
    let file = repository.beside("cargo.toml");
    let build = |text: &str| {
        std::fs::write(&file, text).expect("the file can be written");
        let file = file.to_str().expect("text");
        memprof(&repository.root(), home.path(), &["list", "--refs", "old", "--offline", "--config", file])
    };
    assert!(build("build.rustflags = ['--cfg', 'one']").stderr.contains("Built old"));
    assert!(build("build.rustflags = ['--cfg', 'two']").stderr.contains("Built old"));
    assert!(build("build.rustflags = ['--cfg', 'one']").stderr.contains("Fresh old"));
}

#[test]
fn a_runner_of_the_command_line_runs_the_tests() {
    let repository = ZooRepository::of("single");
    let home = home();
    let rustc = succeed(isolated("rustc").arg("-vV"));
    let version = String::from_utf8(rustc.stdout).expect("text");
    let host = version.lines().find_map(|line| line.strip_prefix("host: ")).expect("a host");
    let setting = format!("target.{host}.runner = 'env KEPT_BY=runner'");
    let file = repository.beside("runner.toml");
    let list = format!("target.{host}.runner = ['env', 'KEPT_BY=file']");
    std::fs::write(&file, list).expect("the file can be written");
    for setting in [setting.as_str(), file.to_str().expect("text")] {
        let arguments =
            ["--refs", "old,new", "--offline", "-k", "program", "--format", "csv", "--config", setting];
        let printed = memprof(&repository.root(), home.path(), &arguments);
        assert_eq!(printed.code, 0, "{}", printed.everything());
        assert_eq!(kept(&values(&printed)).len(), 2, "{}", printed.everything());
    }
}

#[test]
fn what_no_ref_has_is_a_mistake_and_not_a_run() {
    let repository = ZooRepository::of("single");
    let home = home();
    for (flag, name, nearest) in [
        ("-p", "singel", "`single`"),
        ("--profile", "nosuch", ""),
        ("--features", "nosuch", ""),
        ("--target", "x86_64-unknown-linux-gno", "'x86_64-unknown-linux-gnu'"),
        ("--toolchain", "0.1-nosuch", ""),
    ] {
        let arguments = ["--refs", "old,new", "--offline", flag, name];
        let printed = memprof(&repository.root(), home.path(), &arguments);
        assert_eq!(printed.code, 2, "{}", printed.everything());
        let (_, error) =
            printed.stderr.split_once("error: no ref can be built as requested").expect("an error");
        assert!(error.contains(name) && error.contains(nearest), "{}", printed.everything());
        assert!(!printed.stderr.contains("Stack backtrace"), "{}", printed.everything());
    }
    assert!(!repository.root().join("target/memprof/latest").exists());
}

#[test]
fn a_build_that_never_began_has_a_log_too() {
    let repository = ZooRepository::of("single");
    let home = home();
    let matrix = repository.beside("matrix.yaml");
    let text = "refs: [{ref: old, toolchain: 0.1-nosuch}, new]\n";
    std::fs::write(&matrix, text).expect("the file can be written");
    let arguments = ["--matrix", matrix.to_str().expect("text"), "--offline"];
    let printed = memprof(&repository.root(), home.path(), &arguments);
    assert_eq!(printed.code, 3, "{}", printed.everything());
    let log = repository.root().join("target/memprof/latest/builds/0-old.log");
    assert!(std::fs::read_to_string(log).expect("the log that was named").contains("0.1-nosuch"));
}

#[test]
fn a_revision_with_a_submodule_that_leads_elsewhere_fails_alone() {
    let mut other = TestRepository::new();
    let elsewhere = other.commit("unrelated");
    let everything = || every_byte(other.root(), |_| false);
    let before = everything();
    let repository = ZooRepository::of("single");
    let root = repository.root();
    let git = |arguments: &[&str]| repository.git(arguments);
    git(&["switch", "--quiet", "--create", "stranger"]);
    let name = other.path(".git").display().to_string();
    let text = format!("[submodule \"{name}\"]\n\tpath = lib\n\turl = {}\n", other.url());
    std::fs::write(root.join(".gitmodules"), text).expect("written");
    git(&["add", ".gitmodules"]);
    git(&["update-index", "--add", "--cacheinfo", &format!("160000,{elsewhere},lib")]);
    git(&["commit", "--quiet", "--message", "a submodule"]);

    let home = home();
    let filter = ["--refs", "old,new,stranger", "--offline", "-k", "keeps_through", "--format", "csv"];
    let printed = memprof(&root, home.path(), &filter);
    assert_eq!(printed.code, 3, "{}", printed.everything());
    let refused =
        format!(".gitmodules of stranger names the submodule {name:?}, whose name is an absolute path");
    assert!(printed.stderr.contains(&refused), "{}", printed.everything());
    assert!(printed.stderr.contains("git config --file .gitmodules"), "{}", printed.everything());
    assert_eq!(kept(&values(&printed)).len(), 2, "{}", printed.everything());
    assert_same_bytes(&before, &everything());
}

#[test]
fn a_submodule_that_cannot_be_fetched_is_a_note_of_every_report_also_after_resume() {
    let repository = ZooRepository::of("single");
    let root = repository.root();
    let git = |arguments: &[&str]| repository.git(arguments);
    git(&["switch", "--quiet", "--create", "extended"]);
    let text = "[submodule \"lib\"]\n\tpath = vendor/lib\n\turl = /nowhere/lib\n";
    std::fs::write(root.join(".gitmodules"), text).expect("written");
    git(&["add", ".gitmodules"]);
    let entry = format!("160000,{},vendor/lib", "1".repeat(40));
    git(&["update-index", "--add", "--cacheinfo", &entry]);
    git(&["commit", "--quiet", "--message", "a submodule"]);

    let home = home();
    let json = |arguments: &[&str]| {
        let printed = memprof(&root, home.path(), &[arguments, &["--format", "json"]].concat());
        let report: serde_json::Value = serde_json::from_str(&printed.stdout).expect("a JSON report");
        let notes = report["notes"].as_array().expect("notes").clone();
        let of_submodule = notes.iter().filter(|note| note.as_str().is_some_and(|note| note.contains("lib")));
        let of_submodule: Vec<String> = of_submodule.map(|note| note.as_str().unwrap().to_owned()).collect();
        assert_eq!(of_submodule.len(), 1, "{arguments:?}: {notes:?}");
        of_submodule[0].clone()
    };
    let first = json(&["--refs", "old,extended", "--offline", "-k", "keeps_through", "--repeat", "1"]);
    assert!(
        first.starts_with("extended lacks the submodule vendor/lib, which could not be fetched: "),
        "{first}"
    );
    assert_eq!(json(&["run", "--resume"]), first);
    assert_eq!(json(&["report"]), first);
    let markdown = memprof(&root, home.path(), &["report", "--format", "markdown"]);
    assert!(markdown.stdout.contains("extended lacks the submodule vendor/lib"), "{}", markdown.everything());
}

/// A package whose workspace does not load: a member's dependency is gone.
fn with_a_broken_workspace() -> TestRepository {
    let mut repository = TestRepository::new();
    repository
        .write("Cargo.toml", "[workspace]\nmembers = ['engine', 'gone']\n[profile.test]\nopt-level = 1\n");
    repository.write(
        "engine/Cargo.toml",
        "[package]\nname = 'engine'\nversion = '0.1.0'\nedition = '2021'\n[features]\ndefault = ['usual']\nusual = []\nlarge = []\n",
    );
    repository.write(
        "gone/Cargo.toml",
        "[package]\nname = 'gone'\nversion = '0.1.0'\nedition = '2021'\n[dependencies]\nlost = { path = '../lost' }\n",
    );
    repository.write("gone/src/lib.rs", "");
    repository.write("Cargo.lock", "version = 3\n");
    for (tag, bytes) in [("old", 1_000_000), ("new", 3_000_000)] {
        repository.write(
            "engine/src/lib.rs",
            format!(
                "pub fn kept() -> Vec<u8> {{\n    let times = if cfg!(feature = \"large\") {{ 2 }} else {{ 1 }};\n    \
                 let usual = if cfg!(feature = \"usual\") {{ 0 }} else {{ 10_000_000 }};\n    \
                 vec![1; {bytes} * times + usual]\n}}\n"
            ),
        );
        repository.commit(tag);
        repository.git(["tag", tag]);
    }
    repository
}

#[test]
fn an_external_overlay_measures_a_package_whose_workspace_does_not_load() {
    let repository = with_a_broken_workspace();
    let home = home();
    let test = repository.beside("memory.rs");
    std::fs::write(
        &test,
        "#[test]\nfn keeps() { std::mem::forget(engine::kept()); memprof::checkpoint!(\"kept\"); }\n",
    )
    .expect("the file can be written");
    let overlay = format!("{}=tests/memory.rs", test.display());
    let grown = |arguments: &[&str]| {
        let base =
            ["--refs", "old,new", "--overlay", &overlay, "--overlay-mode", "external", "--format", "csv"];
        let printed = memprof(repository.root(), home.path(), &[&base, arguments].concat());
        assert_eq!(printed.code, 0, "{}", printed.everything());
        let values = values(&printed);
        let kept = |name: &str| {
            let found = values.iter().find(|value| {
                (value.r#ref.as_str(), value.checkpoint.as_str(), value.metric.as_str())
                    == (name, "kept", "heap.live")
            });
            found.and_then(|value| value.value).unwrap_or_else(|| panic!("{}", printed.everything()))
        };
        assert!(kept("old") >= 1_000_000);
        (kept("old"), kept("new") - kept("old"))
    };
    // The harness's main thread may or may not have allocated its 144 bytes yet.
    let thousands = |bytes: u64| (bytes + 500) / 1000;
    let (plain, by_overlay) = grown(&["--overlay-package", "engine"]);
    assert_eq!((plain / 1_000_000, thousands(by_overlay)), (1, 2_000));
    assert_eq!(thousands(grown(&["-p", "engine"]).1), 2_000);
    assert_eq!(thousands(grown(&["-p", "engine", "--features", "large"]).1), 4_000);
    assert_eq!(thousands(grown(&["-p", "engine", "--all-features"]).1), 4_000);
    let (without_usual, _) = grown(&["-p", "engine", "--no-default-features"]);
    assert_eq!(without_usual / 1_000_000, 11);
}

/// The whole outcome of each run, from the JSON that `outcome.json` is.
fn outcomes(root: &Path) -> BTreeMap<(usize, String), serde_json::Value> {
    let latest = root.join("target/memprof/latest/cells");
    let latest = latest.canonicalize().expect("a run was kept");
    let files = walkdir::WalkDir::new(latest).into_iter().filter_map(Result::ok);
    files
        .filter(|entry| entry.file_name() == "outcome.json")
        .map(|entry| {
            let text = std::fs::read(entry.path()).expect("an outcome can be read");
            let outcome: serde_json::Value = serde_json::from_slice(&text).expect("an outcome is JSON");
            let revision = outcome["revision"].as_u64().expect("a revision");
            let name = outcome["cell"]["test"]["name"].as_str().expect("a test").to_owned();
            ((usize::try_from(revision).expect("an index"), name), outcome)
        })
        .collect()
}

#[test]
fn every_ending_of_a_test_is_an_outcome() {
    let repository = ZooRepository::of("failing");
    let home = home();
    let printed =
        memprof(&repository.root(), home.path(), &["--refs", "old,new", "--offline", "--timeout", "2s"]);
    assert_eq!(printed.code, 3, "{}", printed.everything());
    let outcomes = outcomes(&repository.root());
    let of =
        |test: &str| outcomes.get(&(0, test.to_owned())).unwrap_or_else(|| panic!("no outcome of {test}"));
    let expected = [
        ("passes", "ok", ""),
        ("passes_by_panicking", "ok", ""),
        ("panics", "failed", "the cache should hold three entries"),
        ("returns_an_error", "failed", ""),
        ("aborts", "killed", ""),
        ("segfaults", "killed", ""),
        ("exits_with_7", "failed", ""),
        ("runs_out_of_memory", "out_of_memory", "1152921504606846976 bytes"),
        ("sleeps_with_a_child", "timeout", ""),
        ("leaves_a_child_behind", "ok", ""),
        ("is_ignored", "ignored", ""),
    ];
    for (test, outcome, message) in expected {
        let found = of(test);
        assert_eq!(found["outcome"], outcome, "{test}: {found:#}");
        assert!(found["message"].as_str().unwrap_or_default().contains(message), "{test}: {found:#}");
    }
    assert_eq!(of("exits_with_7")["exit_code"], 7);
    assert_eq!(of("aborts")["signal"], 6);
    assert_eq!(of("segfaults")["signal"], 11);
    // The checkpoints before a crash are kept and shown.
    assert!(printed.stdout.contains("killed by signal 6 (SIGABRT)"), "{}", printed.everything());
}

#[test]
fn the_second_run_of_a_comparison_calls_cargo_for_no_build() {
    let repository = ZooRepository::of("single");
    let home = home();
    let arguments = ["--refs", "old,new", "--offline", "--format", "csv"];
    let first = memprof(&repository.root(), home.path(), &arguments);
    assert_eq!(first.code, 0, "{}", first.everything());
    assert!(first.stderr.contains("Building"), "{}", first.everything());
    // Without a target folder, any build would have to compile everything anew.
    let cache = only_folder(home.path());
    std::fs::remove_dir_all(cache.join("target")).expect("there was a build");
    let second = memprof(&repository.root(), home.path(), &arguments);
    assert_eq!(second.code, 0, "{}", second.everything());
    assert!(!second.stderr.contains("Building"), "{}", second.everything());
    assert!(!cache.join("target/debug/.fingerprint").exists(), "cargo has built");
    assert_eq!(kept(&values(&first)), kept(&values(&second)));
}

fn only_folder(home: &Path) -> std::path::PathBuf {
    let folders = std::fs::read_dir(home).expect("the cache").filter_map(Result::ok);
    let mut of_repositories =
        folders.map(|entry| entry.path()).filter(|path| path.join("repository").exists());
    of_repositories.next().expect("one repository")
}

#[test]
fn a_build_that_cargo_wrongly_calls_fresh_is_not_measured() {
    let repository = ZooRepository::of("single");
    let home = home();
    let arguments = ["--refs", "old,new", "--offline", "--format", "csv", "-k", "keep"];
    let first = memprof(&repository.root(), home.path(), &arguments);
    assert_eq!(first.code, 0, "{}", first.everything());
    let cache = only_folder(home.path());
    std::fs::remove_dir_all(cache.join("store")).expect("there is a store");
    // Cargo compares times: with these, every crate looks newer than any source that will be checked out.
    let future = std::time::SystemTime::now() + std::time::Duration::from_hours(24);
    for entry in walkdir::WalkDir::new(cache.join("target")).into_iter().filter_map(Result::ok) {
        if entry.file_type().is_file() {
            let file = std::fs::File::options().append(true).open(entry.path()).expect("a file of the build");
            file.set_modified(future).expect("a time can be set");
        }
    }
    let second = memprof(&repository.root(), home.path(), &arguments);
    assert_eq!(second.code, 0, "{}", second.everything());
    assert_eq!(kept(&values(&first)), kept(&values(&second)), "{}", second.everything());
}

#[test]
fn executables_that_were_swapped_in_the_store_are_built_again() {
    let repository = ZooRepository::of("single");
    let home = home();
    let arguments = ["--refs", "old,new", "--offline", "-k", "keeps_through"];
    let first = memprof(&repository.root(), home.path(), &arguments);
    assert_eq!(first.code, 0, "{}", first.everything());
    let executables: Vec<_> = walkdir::WalkDir::new(only_folder(home.path()).join("store"))
        .into_iter()
        .filter_map(Result::ok)
        .filter(|entry| entry.file_name().to_string_lossy().contains("keep-"))
        .map(|entry| entry.path().to_owned())
        .collect();
    let [one, other] = &executables[..] else { panic!("one executable a revision: {executables:?}") };
    let (a, b) = (std::fs::read(one).expect("bytes"), std::fs::read(other).expect("bytes"));
    std::fs::write(one, b).expect("swapped");
    std::fs::write(other, a).expect("swapped");
    let second = memprof(&repository.root(), home.path(), &[&arguments[..], &["--format", "csv"]].concat());
    assert!(second.stderr.contains("is not the executable that was built"), "{}", second.everything());
    let kept = kept(&values(&second));
    let at = |name: &str| kept[&("single::keep::keeps_through_the_library".to_owned(), name.to_owned())];
    assert!(second.code == 0 && at("new") > at("old") + (1 << 19), "{}", second.everything());
}

#[test]
fn a_whole_run_leaves_the_users_repository_as_it_was() {
    let repository = ZooRepository::of("single");
    let root = repository.root();
    let git = |arguments: &[&str]| succeed(isolated("git").current_dir(&root).args(arguments));
    let library = std::fs::read_to_string(root.join("src/lib.rs")).expect("the library");
    std::fs::write(root.join("src/lib.rs"), format!("{library}// stashed\n")).expect("written");
    git(&["stash"]);
    std::fs::write(root.join("src/lib.rs"), format!("{library}// staged\n")).expect("written");
    git(&["add", "src/lib.rs"]);
    std::fs::write(root.join("src/lib.rs"), format!("{library}// neither\n")).expect("written");
    std::fs::write(root.join("notes.txt"), "untracked").expect("written");
    let hook = root.join(".git/hooks/post-checkout");
    std::fs::create_dir_all(root.join(".git/hooks")).expect("hooks");
    std::fs::write(&hook, "#!/bin/sh\ntouch \"$GIT_DIR/hook-ran\" hook-ran\n").expect("a hook");
    std::fs::set_permissions(&hook, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("a mode");

    let ours = |path: &Path| {
        ["target", ".git/objects", ".git/refs/memprof", ".git/worktrees"]
            .iter()
            .any(|skip| path.starts_with(skip))
    };
    let before = every_byte(&root, ours);
    let home = home();
    let printed = memprof(&root, home.path(), &["--refs", "old,new,.", "--offline", "-k", "keeps_through"]);
    assert_eq!(printed.code, 0, "{}", printed.everything());
    assert_same_bytes(&before, &every_byte(&root, ours));

    let asked = memprof(&root, home.path(), &["clean"]);
    assert_eq!(asked.code, 2, "{}", asked.everything());
    assert!(asked.stderr.contains("help: cargo memprof clean --yes"), "{}", asked.everything());
    assert!(asked.stderr.contains("target/memprof") && root.join("target/memprof").exists());
    let cleaned = memprof(&root, home.path(), &["clean", "--yes"]);
    assert!(cleaned.stdout.contains("bytes"), "{}", cleaned.everything());
    for left in ["target/memprof", ".git/refs/memprof", ".git/worktrees"] {
        assert!(!root.join(left).exists(), "{left} is still there");
    }
    assert_same_bytes(&before, &every_byte(&root, ours));
}

#[test]
fn a_killed_run_goes_on_where_it_was() {
    let repository = ZooRepository::of("shared-root");
    let home = home();
    let mut child = command(&repository.root(), home.path(), &["--refs", "old,new", "--offline"])
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .expect("the program starts");
    let cells = repository.root().join("target/memprof/latest/cells");
    let finished = || {
        let files = walkdir::WalkDir::new(&cells).into_iter().filter_map(Result::ok);
        let outcomes = files.filter(|entry| entry.file_name() == "outcome.json");
        outcomes.map(|entry| entry.path().to_owned()).collect::<Vec<_>>()
    };
    while finished().len() < 3 {
        assert!(child.try_wait().expect("a child").is_none(), "it ended before it could be killed");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    child.kill().expect("it was running");
    child.wait().expect("it was killed");
    let before: BTreeMap<_, _> = finished()
        .into_iter()
        .map(|path| {
            let time = path.metadata().and_then(|metadata| metadata.modified()).expect("a time");
            (path, time)
        })
        .collect();
    let resumed = memprof(&repository.root(), home.path(), &["--resume", "--format", "csv"]);
    assert_eq!(resumed.code, 0, "{}", resumed.everything());
    for (path, time) in &before {
        let now = path.metadata().and_then(|metadata| metadata.modified()).expect("it is still there");
        assert_eq!(now, *time, "{} was run again", path.display());
    }
    let whole =
        memprof(&repository.root(), home.path(), &["--refs", "old,new", "--offline", "--format", "csv"]);
    assert_eq!(kept(&values(&resumed)), kept(&values(&whole)), "{}", resumed.everything());
}

#[test]
fn an_interrupt_keeps_what_was_measured_and_leaves_no_process() {
    let repository = ZooRepository::of("failing");
    let home = home();
    let arguments = ["--refs", "old,new", "--offline", "-k", "sleeps_with_a_child or passes"];
    let child = command(&repository.root(), home.path(), &arguments)
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("the program starts");
    let cells = repository.root().join("target/memprof/latest/cells");
    let sleeping = || {
        let files = walkdir::WalkDir::new(&cells).into_iter().filter_map(Result::ok);
        let mut logs = files.filter(|entry| entry.file_name() == "log.jsonl");
        logs.any(|entry| {
            entry.path().to_string_lossy().contains("sleeps")
                && std::fs::read_to_string(entry.path()).unwrap_or_default().contains("\"start\"")
        })
    };
    while !sleeping() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let interrupted = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(interrupted.expect("kill runs").success());
    let output = child.wait_with_output().expect("it ends");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{stderr}");
    assert!(stderr.contains("error: interrupted after 2 of 6 runs; finished runs are kept"), "{stderr}");
    assert!(stderr.contains("--resume"), "{stderr}");
    assert!(!outcomes(&repository.root()).is_empty(), "what was measured is kept");
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(stdout.contains("passes") && stdout.contains("new was not run"), "{stdout}");
    // The test that was interrupted shows what it logged.
    assert!(stdout.contains("was interrupted"), "{stdout}");

    let arguments = ["--resume", "-k", "panics"];
    let other = command(&repository.root(), home.path(), &arguments).output().expect("the program runs");
    let stderr = String::from_utf8_lossy(&other.stderr);
    assert_eq!(other.status.code(), Some(2), "{stderr}");
    let selection = "was planned with -k 'sleeps_with_a_child or passes', now -k 'panics'";
    assert!(stderr.contains(selection) && stderr.contains("--resume 20"), "{stderr}");
}
