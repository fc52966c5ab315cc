//! What traced functions may be part of: crates that run in the build too, workspaces that do not load, every kind of function.

use std::path::PathBuf;

use crate::support::traced::{calls, memprof, report, untraced};
use crate::support::{TestRepository, skip};
use serde_json::Value;

/// A repository in which a build script and a procedural macro use the crate that is traced, and a crate of the registry.
fn built_twice() -> TestRepository {
    let own = fs_err::read_to_string(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("Cargo.lock")).unwrap();
    let start = own.find("[[package]]\nname = \"itoa\"\n").unwrap();
    let itoa = own[start..].split("\n\n").next().unwrap().trim_end();
    let package = |name: &str, rest: &str| {
        format!("[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2021\"\n{rest}")
    };
    let mut repository = TestRepository::new();
    repository.write(
        "Cargo.toml",
        package(
            "bart",
            "[dependencies]\nkernels = { path = \"kernels\" }\nmacros = { path = \"macros\" }\nitoa = \"1\"\n\
             [build-dependencies]\nkernels = { path = \"kernels\" }\nitoa = \"1\"\n\
             [workspace]\nexclude = [\"kernels\"]\nmembers = [\"macros\"]\n",
        ),
    );
    let locked = |name: &str, dependencies: &str| {
        format!("[[package]]\nname = \"{name}\"\nversion = \"0.1.0\"\n{dependencies}\n")
    };
    let lock = [
        "version = 3\n".to_owned(),
        locked("bart", "dependencies = [\n \"itoa\",\n \"kernels\",\n \"macros\",\n]\n"),
        format!("{itoa}\n"),
        locked("kernels", ""),
        locked("macros", "dependencies = [\n \"kernels\",\n]\n"),
    ];
    repository.write("Cargo.lock", lock.join("\n").trim_end().to_owned() + "\n");
    repository.write("kernels/Cargo.toml", package("kernels", "[workspace]\n"));
    repository.write("kernels/src/lib.rs", "pub fn scale() -> Vec<u8> { Vec::with_capacity(700) }\n");
    repository.write(
        "macros/Cargo.toml",
        package("macros", "[lib]\nproc-macro = true\n[dependencies]\nkernels = { path = \"../kernels\" }\n"),
    );
    repository.write(
        "macros/src/lib.rs",
        "use proc_macro::TokenStream;\n#[proc_macro] pub fn size(_: TokenStream) -> TokenStream {\n    \
         kernels::scale().capacity().to_string().parse().unwrap()\n}\n",
    );
    repository.write(
        "build.rs",
        "fn main() { assert_eq!(itoa::Buffer::new().format(kernels::scale().capacity()), \"700\"); }\n",
    );
    repository
        .write("src/lib.rs", "pub fn size() -> usize { macros::size!() + kernels::scale().capacity() }\n");
    repository.write(
        "tests/t.rs",
        "#[test]\nfn sizes() { assert_eq!(itoa::Buffer::new().format(bart::size()), \"1400\"); }\n",
    );
    repository.write(".gitignore", "target\n");
    repository.commit("old");
    repository
}

#[test]
fn what_runs_in_the_build_may_be_of_another_target_than_what_is_traced() {
    let rustc = |arguments: &[&str]| {
        let output = std::process::Command::new("rustc").args(arguments).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let version = rustc(&["-vV"]);
    let host = version.lines().find_map(|line| line.strip_prefix("host: ")).unwrap().to_owned();
    let musl = host.replace("-gnu", "-musl");
    let is_installed = |target: &str| {
        let folder = rustc(&["--print", "target-libdir", "--target", target]);
        PathBuf::from(folder.trim()).join("self-contained").exists()
    };
    let mut targets = vec![None, Some(host.as_str())];
    if musl != host && is_installed(&musl) {
        targets.push(Some(&musl));
    } else {
        skip(&format!("the target {musl} is not installed"));
    }
    let mut repository = built_twice();
    let arguments = ["--refs", "HEAD,again=HEAD", "--locked", "--trace", "**", "--trace", "itoa::Buffer::*"];
    for target in targets.iter().copied().rev() {
        let of_target = target.map_or_else(Vec::new, |target| vec!["--target", target]);
        let report = report(&repository, &[&arguments[..], &of_target[..]].concat());
        assert_eq!(calls(&report, "HEAD", "kernels::scale"), (1, 700, 0), "{target:?}");
        assert_eq!(calls(&report, "HEAD", "itoa::Buffer::format").0, 1, "{target:?}");
        let dropped = untraced(&report, "HEAD").into_iter().filter(|(_, why)| why.contains("compile when"));
        assert_eq!(dropped.collect::<Vec<_>>(), [], "{target:?}");
    }
    if targets.len() == 3 {
        // A revision can say itself what it is built for.
        repository.write(".cargo/config.toml", format!("[build]\ntarget = '{musl}'\n"));
        repository.commit("musl");
        let arguments = [&["--refs", "old=HEAD~1,new=HEAD"], &arguments[2..]].concat();
        let printed = memprof(&repository, &[&arguments[..], &["--format", "json"]].concat());
        assert_eq!(printed.code, 3, "figures for two targets are not compared: {}", printed.stderr);
        let report: Value = serde_json::from_str(&printed.stdout).unwrap();
        for name in ["old", "new"] {
            assert_eq!(calls(&report, name, "kernels::scale"), (1, 700, 0), "{name}");
            assert_eq!(calls(&report, name, "itoa::Buffer::format").0, 1, "{name}");
        }
        let reason = format!("the targets differ: the host's / {musl}");
        assert!(report.to_string().contains(&reason), "{report:#}");
    }
}

#[test]
fn a_package_whose_workspace_does_not_load_is_traced_from_a_crate_outside_of_it() {
    let mut repository = TestRepository::new();
    let package = |name: &str, rest: &str| {
        format!("[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2021\"\n{rest}")
    };
    repository.write("Cargo.toml", "[workspace]\nmembers = [\"engine\", \"kernels\", \"gone\"]\n");
    repository.write("Cargo.lock", "version = 3\n");
    repository.write(
        "engine/Cargo.toml",
        package("engine", "[dependencies]\nkernels = { path = \"../kernels\" }\n"),
    );
    repository.write("engine/src/lib.rs", "pub fn run() -> Vec<u8> {\n    kernels::scale()\n}\n");
    repository.write("kernels/Cargo.toml", package("kernels", ""));
    repository.write("kernels/src/lib.rs", "pub fn scale() -> Vec<u8> { Vec::with_capacity(700) }\n");
    repository.write(".gitignore", "target\n");
    repository.commit("old");
    repository.git(["branch", "old"]);
    repository.write(
        "kernels/src/lib.rs",
        "pub fn scale() -> Vec<u8> { Vec::with_capacity(900) }\npub fn hides() { mod memprof_shim {} }\n",
    );
    repository.commit("new");
    let test = repository.beside("memory.rs");
    fs_err::write(&test, "#[test]\nfn runs() { assert!(engine::run().is_empty()); }\n").unwrap();
    let overlay = format!("{}=tests/memory.rs", test.display());
    let arguments = [
        "--refs",
        "old,HEAD",
        "--overlay",
        &overlay,
        "--overlay-mode",
        "external",
        "--overlay-package",
        "engine",
    ];
    let traced = ["--trace", "kernels::*", "--trace-lines", "engine::run"];
    let report = report(&repository, &[&arguments[..], &traced[..]].concat());
    for (of, kept) in [("old", 700), ("HEAD", 900)] {
        assert_eq!(calls(&report, of, "kernels::scale"), (1, kept, 0));
        assert_eq!(calls(&report, of, "engine::run"), (1, kept, 0));
        let cells = report["cells"].as_array().unwrap();
        let cell = cells.iter().find(|cell| cell["ref"] == of).unwrap();
        assert_eq!(cell["trace"]["lines"][0]["line"], 2);
    }
    let untraced = untraced(&report, "HEAD");
    assert_eq!(untraced.len(), 1, "{untraced:?}");
    assert!(untraced[0].1.contains("does not compile when it is traced"), "{untraced:?}");
    let printed = memprof(&repository, &[&arguments[..], &["--trace", "engin::*"]].concat());
    assert_eq!(printed.code, 2, "{}", printed.stderr);
    assert!(printed.stderr.contains("no revision has such a function"), "{}", printed.stderr);
}

/// `fixtures/traced_kinds` as a repository.
fn kinds() -> TestRepository {
    let fixture = |name: &str| {
        let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fixtures/traced_kinds");
        fs_err::read_to_string(folder.join(name)).unwrap()
    };
    let package = |name: &str, edition: &str| {
        format!("[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"{edition}\"\n")
    };
    let editions = ["2015", "2018", "2024"];
    let each = |text: &dyn Fn(&str) -> String| editions.map(text).concat();
    let manifest = package("kinds", "2021")
        + "[workspace]\n[dependencies]\n"
        + &each(&|edition| format!("e{edition} = {{ path = \"e{edition}\" }}\n"));
    let locked =
        |name: &str, rest: &str| format!("\n[[package]]\nname = \"{name}\"\nversion = \"0.1.0\"\n{rest}");
    let needed = each(&|edition| format!(" \"e{edition}\",\n"));
    let lock = each(&|edition| locked(&format!("e{edition}"), ""));
    let lock = format!("version = 3\n{lock}{}", locked("kinds", &format!("dependencies = [\n{needed}]\n")));
    let mut repository = TestRepository::new();
    for edition in editions {
        repository.write(&format!("e{edition}/Cargo.toml"), package(&format!("e{edition}"), edition));
        repository.write(&format!("e{edition}/src/lib.rs"), fixture(&format!("edition_{edition}.rs")));
    }
    repository.write("e2015/src/unnamed.rs", fixture("edition_2015_unnamed.rs"));
    repository.write("Cargo.toml", manifest);
    repository.write("Cargo.lock", lock);
    repository.write("src/lib.rs", fixture("lib.rs"));
    repository.write("src/crlf.rs", fixture("crlf.rs"));
    repository.write("tests/t.rs", fixture("tests.rs"));
    repository.write(".gitignore", "target\n");
    repository.commit("old");
    repository
}

#[test]
fn functions_of_every_kind_do_what_they_did_and_are_counted() {
    let repository = kinds();
    for flag in ["--trace", "--trace-lines"] {
        let arguments =
            ["--refs", "HEAD,again=HEAD", "--locked", "--repeat", "1", "--format", "json", flag, "**"];
        let printed = memprof(&repository, &arguments);
        // One run a side may say nothing about resident memory; it is not what is asked here.
        assert!([0, 4].contains(&printed.code), "{}", printed.stderr);
        let report: Value = serde_json::from_str(&printed.stdout).unwrap();
        let mut reasons: std::collections::BTreeMap<String, usize> = std::collections::BTreeMap::new();
        for (path, reason) in untraced(&report, "HEAD") {
            let kind = ["compile when", "a test", "`const fn`", "`async fn`", "cannot parse"];
            let kind =
                kind.iter().find(|kind| reason.contains(*kind)).unwrap_or_else(|| panic!("{path}: {reason}"));
            *reasons.entry((*kind).to_owned()).or_default() += 1;
        }
        let expected = [("`async fn`", 1), ("`const fn`", 1), ("a test", 4), ("cannot parse", 2)];
        let reasons: Vec<(&str, usize)> =
            reasons.iter().map(|(kind, count)| (kind.as_str(), *count)).collect();
        assert_eq!(reasons, expected, "{flag}: nothing is dropped");

        let cells = report["cells"].as_array().unwrap();
        let of_test = |name: &str| {
            let is_it = |cell: &&Value| cell["ref"] == "HEAD" && cell["test"].to_string().contains(name);
            cells.iter().find(is_it).unwrap_or_else(|| panic!("{name} in {cells:#?}"))
        };
        let node = |test: &str, label: &str| {
            let nodes = of_test(test)["trace"]["nodes"].as_object().unwrap();
            let found: Vec<&Value> = nodes.values().filter(|node| node["label"] == label).collect();
            assert_eq!(found.len(), 1, "{label} in {nodes:#?}");
            let number = |key: &str| found[0][key].as_i64().unwrap();
            let figure = |kind: &str, key: &str| found[0][kind][key].as_i64();
            (
                [number("calls"), number("recursive"), number("open")],
                figure("metrics", "heap.consumed"),
                figure("most", "heap.peaked"),
            )
        };
        // Through trait objects: three deep, of which each holds 100 bytes.
        assert_eq!(node("all", "kinds::<Branch as Node>::visit"), ([7, 6, 0], Some(0), Some(300)));
        assert_eq!(node("all", "kinds::<Leaf as Node>::visit"), ([8, 0, 0], Some(0), Some(0)));
        // A panic leaves its payload, and all six calls have ended.
        let (unwound, left, _) = node("all", "kinds::unwinds");
        assert_eq!(unwound, [6, 5, 0]);
        assert!(left.unwrap() < 1000, "{left:?}");
        assert_eq!(node("all", "kinds::caught").0, [1, 0, 0]);
        assert_eq!(node("exit", "kinds::exits"), ([1, 0, 1], None, None));
        assert_eq!(node("threads", "kinds::long_lived"), ([1, 0, 1], None, None));
        assert_eq!(node("more", "kinds::inlined"), ([1, 0, 0], Some(3), Some(0)));
        assert_eq!(node("more", "kinds::größer::lines").0, [1, 0, 0]);
        assert_eq!(node("more", "e2015::Shape::twice").0, [1, 0, 0]);
        assert_eq!(node("more", "e2018::match").0, [1, 0, 0]);
        assert_eq!(node("more", "e2024::local_tail").0, [1, 0, 0]);
        if flag == "--trace" {
            continue;
        }
        let times = |label: &str| -> Vec<u64> {
            let lines = of_test("all")["trace"]["lines"].as_array().unwrap();
            let of = lines.iter().filter(|line| line["label"] == label);
            of.map(|line| line["times"].as_u64().unwrap()).collect()
        };
        // `?` on the second line ends one of three calls, `return` on the fourth another one.
        assert_eq!(times("kinds::question"), [3, 3, 2, 1, 1]);
        let expected = [1, 1, 5, 19, 4, 15, 15, 1, 1, 1, 1, 6, 6, 1, 1, 20, 20, 1, 1];
        assert_eq!(times("kinds::labelled"), expected);
    }
}

/// The entry of a crate in this project's own lock file, so that its archive is there already. Only
/// these dependencies are kept.
fn locked(name: &str, dependencies: &[&str]) -> String {
    let own = fs_err::read_to_string(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("Cargo.lock")).unwrap();
    let start = own.find(&format!("[[package]]\nname = \"{name}\"\n")).unwrap();
    let entry = own[start..].split("\n\n").next().unwrap();
    let head = entry.lines().take_while(|line| !line.starts_with("dependencies")).collect::<Vec<_>>();
    let needed = match dependencies {
        [] => String::new(),
        some => format!("dependencies = [\n \"{}\",\n]\n", some.join("\",\n \"")),
    };
    format!("{}\n{needed}\n", head.join("\n"))
}

/// The crates that cargo compiled in the latest run, in no particular order.
fn compiled(repository: &TestRepository) -> Vec<String> {
    // Without a build, there is no such folder.
    let logs = fs_err::read_dir(repository.path("target/memprof/latest/builds"));
    let log = |log: std::io::Result<fs_err::DirEntry>| fs_err::read_to_string(log.unwrap().path()).unwrap();
    let logs: String = logs.into_iter().flatten().map(log).collect();
    let name = |line: &str| Some(line.trim_start().strip_prefix("Compiling ")?.split(' ').next()?.to_owned());
    let mut names: Vec<String> = logs.lines().filter_map(name).collect();
    names.sort();
    names
}

#[test]
fn only_traced_crates_and_what_depends_on_them_are_compiled_again() {
    let mut repository = TestRepository::new();
    repository.write(
        "Cargo.toml",
        "[package]\nname = \"bart\"\nversion = \"0.1.0\"\nedition = \"2021\"\n\
         [dependencies]\nlayers = { path = \"layers\" }\nitoa = \"1\"\n\
         miniz_oxide = { version = \"0.9\", default-features = false, features = [\"with-alloc\"] }\n\
         [workspace]\nmembers = [\"layers\"]\n",
    );
    let own =
        |name: &str, rest: &str| format!("[[package]]\nname = \"{name}\"\nversion = \"0.1.0\"\n{rest}\n");
    let lock = [
        "version = 3\n\n".to_owned(),
        locked("adler2", &[]),
        own("bart", "dependencies = [\n \"itoa\",\n \"layers\",\n \"miniz_oxide\",\n]\n"),
        locked("itoa", &[]),
        own("layers", ""),
        locked("miniz_oxide", &["adler2"]),
    ];
    repository.write("Cargo.lock", lock.concat().trim_end().to_owned() + "\n");
    repository.write(
        "layers/Cargo.toml",
        "[package]\nname = \"layers\"\nversion = \"0.1.0\"\nedition = \"2021\"\n",
    );
    repository.write("layers/src/lib.rs", "pub fn layer() -> Vec<u8> { Vec::with_capacity(700) }\n");
    repository.write(
        "src/lib.rs",
        "pub fn run() -> Vec<u8> {\n    assert_eq!(itoa::Buffer::new().format(7), \"7\");\n    \
         let packed = miniz_oxide::deflate::compress_to_vec_zlib(&layers::layer(), 1);\n    packed\n}\n",
    );
    repository.write("tests/t.rs", "#[test]\nfn runs() { assert!(bart::run().len() > 1); }\n");
    repository.write(".gitignore", "target\n");
    repository.commit("old");
    let run = |traced: &[&str]| {
        let refs = ["--refs", "HEAD,again=HEAD", "--locked", "--offline"];
        let report = report(&repository, &[&refs[..], traced].concat());
        (report, compiled(&repository))
    };
    let checksum = "adler2::Adler32::write_slice";
    let (_, first) = run(&[]);
    assert_eq!(first, ["adler2", "bart", "itoa", "layers", "miniz_oxide"]);

    // A crate of the registry, which one of the registry depends on.
    let (traced, again) = run(&["--trace", checksum]);
    assert_eq!(again, ["adler2", "bart", "miniz_oxide"]);
    assert_eq!(calls(&traced, "HEAD", checksum).0, 1);
    // Another function of the same crate, and with it a member.
    let (traced, again) = run(&["--trace", "adler2::Adler32::**", "--trace", "bart::run"]);
    assert_eq!(again, ["adler2", "bart", "miniz_oxide"]);
    assert!(calls(&traced, "HEAD", "adler2::Adler32::checksum").0 > 0);
    assert_eq!(calls(&traced, "HEAD", "bart::run").0, 1);
    // Only the member's functions change.
    let (traced, again) = run(&["--trace", "adler2::Adler32::**", "--trace-lines", "bart::run"]);
    assert_eq!(again, ["bart"]);
    assert_eq!(calls(&traced, "HEAD", checksum).0, 1);
    // Without the crate of the registry, its original returns.
    let (traced, again) = run(&["--trace-lines", "bart::run"]);
    assert_eq!(again, ["adler2", "bart", "miniz_oxide"]);
    assert_eq!(traced["traced"]["HEAD"]["functions"].as_array().unwrap().len(), 1);
    let (_, again) = run(&["--trace", "layers::layer", "--trace-lines", "bart::run"]);
    assert_eq!(again, ["bart", "layers"]);
    // All of these are in the store.
    let (_, again) = run(&["--trace", checksum]);
    assert!(again.is_empty(), "{again:?}");
}
