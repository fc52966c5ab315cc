//! Whole runs of revisions that need care: allocators, submodules, configuration, broken workspaces.

use std::path::Path;

use crate::support::csv::{command, kept, memprof, values};
use crate::support::zoo::ZooRepository;
use crate::support::{
    Printed, TestRepository, assert_same_bytes, every_byte, home, home_at, isolated, succeed,
};

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
        "cpu.faults",
        "malloc.live",
        "malloc.peak",
        "malloc.allocated",
        "malloc.count",
    ]
    .map(str::to_owned);
    assert!(run(&[]).is_disjoint(&on_request.clone().into()));
    let told = memprof(&repository.root(), home.path(), &["report", "--metrics", "cpu.pss"]);
    assert!(told.stdout.contains("cpu.pss was not measured"), "{}", told.everything());
    assert!(
        run(&["--metrics", "cpu.pss,cpu.private,cpu.shared,cpu.faults,malloc.*"])
            .is_superset(&on_request.into())
    );
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

#[test]
fn a_build_is_made_again_if_a_package_outside_or_a_variable_changed() {
    let mut repository = TestRepository::new();
    let outside = repository.beside("outside");
    let manifest =
        |name: &str| format!("[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2021\"\n");
    std::fs::create_dir_all(outside.join("src")).expect("the folder is new");
    std::fs::write(outside.join("Cargo.toml"), manifest("outside")).expect("written");
    let size = |size: &str| {
        std::fs::write(outside.join("src/lib.rs"), format!("pub const SIZE: usize = {size};\n"))
            .expect("written");
    };
    size("1000");
    let dependency = format!("[dependencies]\noutside = {{ path = {outside:?} }}\n");
    repository.write("Cargo.toml", manifest("app") + &dependency);
    let body = "let more = option_env!(\"MORE\").map_or(0, str::len);\n\
        let built = env!(\"BUILT\").len();\n\
        std::mem::forget(vec![1_u8; outside::SIZE + more + built]);";
    repository.write("src/lib.rs", format!("#[test]\nfn keeps() {{\n{body}\n}}\n"));
    let script = "println!(\"cargo:rerun-if-env-changed=SCRIPT\");\n\
        println!(\"cargo:rustc-env=BUILT={}\", std::env::var(\"SCRIPT\").unwrap_or_default());";
    repository.write("build.rs", format!("fn main() {{\n{script}\n}}\n"));
    repository.commit("Start");
    let home = home();
    let run = |variables: &[(&str, &str)], arguments: &[&str]| {
        let mut command = command(repository.root(), home.path(), arguments);
        command.env_remove("MORE").env_remove("SCRIPT").envs(variables.iter().copied());
        Printed::of(command)
    };
    let figure = |variables: &[(&str, &str)]| {
        let printed = run(variables, &["test", "--offline", "--repeat", "1", "--format", "csv"]);
        let kept = kept(&values(&printed));
        assert_eq!(kept.len(), 1, "{}", printed.everything());
        (*kept.values().next().unwrap(), printed.stderr.contains("built before"))
    };
    assert_eq!(figure(&[]), (1000, false));
    assert_eq!(figure(&[]), (1000, true));
    size("3000");
    assert_eq!(figure(&[]), (3000, false));
    let more = [("MORE", "1234567")];
    assert_eq!(figure(&more), (3007, false));
    assert_eq!(figure(&more), (3007, true));
    assert_eq!(figure(&[("SCRIPT", "123")]), (3003, false));
    let refused = run(&more, &["run", "--resume"]);
    assert!(refused.stderr.contains("variables that the code reads differ"), "{}", refused.everything());
    assert_eq!(figure(&[]), (3000, false));
}

#[test]
fn the_path_of_the_cache_may_have_a_space() {
    let repository = ZooRepository::of("single");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let home = home_at(folder.path().join("big disk"));
    let arguments =
        ["--refs", "old,new", "--offline", "-k", "keeps_through", "--repeat", "1", "--format", "csv"];
    let printed = memprof(&repository.root(), &home, &arguments);
    assert_eq!(kept(&values(&printed)).len(), 2, "{}", printed.everything());
}

#[test]
fn unstable_keys_of_a_repository_count_whenever_cargo_reads_its_manifests() {
    let mut repository = TestRepository::new();
    let package = "[package]\nname = \"app\"\nversion = \"0.1.0\"\nedition = \"2021\"\n";
    repository.write("Cargo.toml", format!("{package}[profile.dev]\ncodegen-backend = \"llvm\"\n"));
    repository.write(".cargo/config.toml", "[unstable]\ncodegen-backend = true\n");
    repository.write("src/lib.rs", "#[test]\nfn keeps() { std::mem::forget(vec![1_u8; 1000]); }\n");
    repository.commit("Start");
    let home = home();
    let mut command = command(repository.root(), home.path(), &["test", "--offline", "--format", "csv"]);
    command.env("RUSTC_BOOTSTRAP", "1");
    let printed = Printed::of(command);
    assert_eq!(kept(&values(&printed)).values().collect::<Vec<_>>(), [&1000], "{}", printed.everything());
}

#[test]
fn configuration_above_the_repository_ranks_as_with_cargo() {
    let mut repository = TestRepository::with("outer/inner/repository", &[]);
    let inner = repository.beside("");
    let write = |folder: &Path, text: &str| {
        std::fs::create_dir_all(folder.join(".cargo")).expect("the folder can be made");
        std::fs::write(folder.join(".cargo/config.toml"), text).expect("written");
    };
    let home_of_cargo = inner.join("../..");
    write(&home_of_cargo, "env.OWN = '900'\n");
    write(&inner.join(".."), "env.ABOVE = '800'\n");
    write(&inner, "env.ABOVE = '100'\ntarget.'cfg(unix)'.runner = 'env RUNNER=1234567'\n");
    repository.write(".cargo/config.toml", "env.OWN = '20'\n");
    repository.write("Cargo.toml", "[package]\nname = \"app\"\nversion = \"0.1.0\"\nedition = \"2021\"\n");
    let size = |name: &str| format!("env!(\"{name}\").parse::<usize>().unwrap()");
    let body = format!(
        "let size = {} + {} + std::env::var(\"RUNNER\").map_or(0, |text| text.len());\n\
         std::mem::forget(vec![1_u8; size]);",
        size("ABOVE"),
        size("OWN"),
    );
    repository.write("src/lib.rs", format!("#[test]\nfn keeps() {{\n{body}\n}}\n"));
    repository.commit("Start");
    let home = home();
    let mut command = command(repository.root(), home.path(), &["test", "--offline", "--format", "csv"]);
    command.env("CARGO_HOME", home_of_cargo.join(".cargo"));
    let printed = Printed::of(command);
    assert_eq!(kept(&values(&printed)).values().collect::<Vec<_>>(), [&127], "{}", printed.everything());
}
