//! `axes`: one ref becomes a side for each combination of features and profiles, and settings of
//! single sides reach builds and runs.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::support::csv::{command, kept, memprof, values};
use crate::support::skips::skip;
use crate::support::{Printed, TestRepository, home};

/// A test that keeps 1 MiB, 2 more with the feature `simd`, 4 more without debug assertions, and 8 more
/// for each unit of the variable.
fn parser() -> TestRepository {
    let mut repository = TestRepository::new();
    repository.write(
        "Cargo.toml",
        "[package]\nname = 'parser'\nversion = '0.1.0'\nedition = '2021'\n[features]\nsimd = []\n",
    );
    repository.write("Cargo.lock", "version = 4\n\n[[package]]\nname = \"parser\"\nversion = \"0.1.0\"\n");
    repository.write(
        "src/lib.rs",
        "pub fn parsed() -> Vec<u8> {\n    let mut size = 1;\n    if cfg!(feature = \"simd\") { size += 2; }\n    \
         if cfg!(not(debug_assertions)) { size += 4; }\n    \
         size += 8 * std::env::var(\"POOL\").map_or(0, |pool| pool.parse::<usize>().unwrap());\n    \
         vec![1; size << 20]\n}\n",
    );
    repository.write(
        "tests/memory.rs",
        "#[test]\nfn parses() {\n    std::mem::forget(std::hint::black_box(parser::parsed()));\n}\n\
         #[test]\nfn same() {\n    std::mem::forget(std::hint::black_box(vec![1u8; 1 << 20]));\n}\n",
    );
    repository.write(".gitignore", "/target\n");
    repository.commit("a parser");
    repository
}

/// The tool with exact figures alone, and MiB that `parses` keeps at each ref, in order.
fn measured(repository: &TestRepository, home: &Path, arguments: &[&str]) -> (Printed, Vec<(String, u64)>) {
    let usual = [
        "--offline",
        "--repeat",
        "2",
        "--metrics",
        "heap.live",
        "--format",
        "csv",
        "--threshold",
        "cpu.*=off",
    ];
    let printed = memprof(repository.root(), home, &[arguments, &usual].concat());
    if printed.stdout.is_empty() {
        return (printed, Vec::new());
    }
    let mut refs: Vec<String> = Vec::new();
    for value in values(&printed) {
        if !refs.contains(&value.r#ref) {
            refs.push(value.r#ref);
        }
    }
    let kept = kept(&values(&printed));
    let of = |name: String| {
        let bytes = kept.iter().find(|((test, one), _)| test.ends_with("parses") && *one == name);
        (name, bytes.map_or(0, |(_, bytes)| bytes >> 20))
    };
    let figures = refs.into_iter().map(of).collect();
    (printed, figures)
}

fn report(repository: &TestRepository, home: &Path, arguments: &[&str]) -> String {
    let usual = ["report", "--metrics", "heap.live"];
    memprof(repository.root(), home, &[&usual, arguments].concat()).stdout
}

fn named(figures: &[(&str, u64)]) -> Vec<(String, u64)> {
    figures.iter().map(|(name, figure)| ((*name).to_owned(), *figure)).collect()
}

#[test]
fn each_side_of_two_axes_is_a_column_with_its_exact_figures() {
    let repository = parser();
    let home = home();
    repository.write("memprof.yaml", "axes:\n  features: [[], [simd]]\n  profile: [dev, release]\n");
    let (printed, figures) = measured(&repository, home.path(), &[]);
    let expected = [
        (". · dev · no features", 1),
        (". · dev · simd", 3),
        (". · release · no features", 5),
        (". · release · simd", 7),
    ];
    // A difference between sides counts like any other.
    assert_eq!((printed.code, figures), (1, named(&expected)), "{}", printed.everything());

    let table = report(&repository, home.path(), &[]);
    assert!(table.contains("\n  differs: feature simd; profile release instead of dev\n"), "{table}");
    assert!(!table.contains("\ndiffers: features"), "the headline says it: {table}");
    let beside = "\
all sides of profile (dev, release) × features (no features, simd) · Δ is the difference to . · dev
  · no features
           │ dev · no features │ dev · simd            │ release · no features
 heap.live │          baseline │                   Δ   │                   Δ
───────────┼───────────────────┼───────────────────────┼───────────────────────
 parses    │          1.00 MiB │ 3.00 MiB  +2.00 MiB ▲ │ 5.00 MiB  +4.00 MiB ▲
 same      │          1.00 MiB │ 1.00 MiB          =   │ 1.00 MiB          =

           │ release · simd
 heap.live │                   Δ
───────────┼───────────────────────
 parses    │ 7.00 MiB  +6.00 MiB ▲
 same      │ 1.00 MiB          =
";
    assert!(table.contains(beside), "{table}");
    let markdown = report(&repository, home.path(), &["--format", "markdown"]);
    let beside = "\
| parses | 1.00 MiB | 3.00 MiB (+2.00 MiB ▲) | 5.00 MiB (+4.00 MiB ▲) | 7.00 MiB (+6.00 MiB ▲) |
| same | 1.00 MiB | 1.00 MiB (=) | 1.00 MiB (=) | 1.00 MiB (=) |
";
    assert!(markdown.contains(beside), "{markdown}");
    let json: serde_json::Value =
        serde_json::from_str(&report(&repository, home.path(), &["--format", "json"])).expect("JSON");
    assert_eq!(
        json["plan"]["axes"][1],
        serde_json::json!({"key": "features", "values": ["no features", "simd"]})
    );

    // A flag fixes an axis, and the baseline may be any side. No side is built again.
    let (printed, figures) = measured(&repository, home.path(), &["--release", "--baseline", "simd"]);
    assert_eq!(figures, named(&[(". · no features", 5), (". · simd", 7)]), "{}", printed.everything());
    assert!(printed.code == 0 && !printed.stderr.contains("Built"), "{}", printed.everything());
}

#[test]
fn a_dry_run_names_the_sides_and_what_differs() {
    let repository = parser();
    let home = home();
    repository
        .write("memprof.yaml", "refs: [main]\naxes:\n  features: [[], [simd]]\n  env: [{}, {POOL: 1}]\n");
    let printed = memprof(repository.root(), home.path(), &["--dry-run"]);
    let plan: serde_json::Value = serde_json::from_str(&printed.stdout).expect("JSON");
    assert_eq!(
        plan["sides"],
        serde_json::json!([
            {"name": "main · no features · no variables", "differs": ["the baseline"]},
            {"name": "main · no features · POOL=1", "differs": ["POOL=1"]},
            {"name": "main · simd · no variables", "differs": ["feature simd"]},
            {"name": "main · simd · POOL=1", "differs": ["feature simd", "POOL=1"]},
        ])
    );
}

#[test]
fn settings_of_a_side_reach_its_build_and_its_runs() {
    let repository = parser();
    let home = home();
    for (flag, value, size, words) in [
        ("--env", "new:POOL=2", 17, "POOL=2"),
        (
            "--config",
            "new:profile.dev.debug-assertions=false",
            5,
            "config profile.dev.debug-assertions=false",
        ),
        ("--profile", "new:release", 5, "profile release instead of test"),
    ] {
        let (printed, figures) = measured(&repository, home.path(), &[".", flag, value]);
        assert_eq!(figures, named(&[(".", 1), ("new", size)]), "{flag}: {}", printed.everything());
        let table = report(&repository, home.path(), &[]);
        assert!(table.contains(&format!("\n  differs: {words}\n")), "{flag}: {table}");
    }
}

#[test]
fn a_side_without_cargo_on_its_path_does_not_build() {
    let (repository, home) = (parser(), home());
    repository.write("memprof.yaml", "refs: [HEAD]\naxes:\n  env: [{POOL: '1'}, {PATH: /none}]\n");
    let printed = memprof(repository.root(), home.path(), &["--offline"]);
    assert_eq!(printed.code, 3, "{}", printed.everything());
    assert!(printed.stdout.contains("finds no cargo on its PATH"), "{}", printed.everything());
}

#[test]
fn a_side_is_built_with_its_toolchain_and_a_missing_one_is_said() {
    let repository = parser();
    let home = home();
    let (printed, _) = measured(&repository, home.path(), &[".", "--toolchain", "new:no-such-toolchain"]);
    assert_eq!(printed.code, 3, "{}", printed.everything());
    for part in
        ["the toolchain 'no-such-toolchain' cannot be used", "rustup toolchain install no-such-toolchain"]
    {
        assert!(printed.stderr.contains(part), "{part}: {}", printed.everything());
    }
    let Some((name, version)) = other_toolchain() else {
        return skip("rustup has no second toolchain");
    };
    let (printed, figures) =
        measured(&repository, home.path(), &[".", "--toolchain", &format!("new:{name}")]);
    assert_eq!(figures, named(&[(".", 1), ("new", 1)]), "{}", printed.everything());
    let builds = fs::read_to_string(repository.path("target/memprof/latest/builds.json")).expect("a file");
    let builds: serde_json::Value = serde_json::from_str(&builds).expect("JSON");
    assert_eq!(builds["1"]["toolchain"], version.as_str());
    assert_ne!(builds["0"]["toolchain"], version.as_str());
    let table = report(&repository, home.path(), &[]);
    assert!(table.contains(&format!("\n  differs: toolchain {name} instead of the default\n")), "{table}");
}

/// The name and version of an installed toolchain that is not the default one.
fn other_toolchain() -> Option<(String, String)> {
    let text = |command: &mut Command| {
        let output = command.output().ok().filter(|output| output.status.success())?;
        String::from_utf8(output.stdout).ok()
    };
    let version = |name: Option<&str>| {
        let mut rustc = Command::new("rustc");
        match name {
            Some(name) => rustc.env("RUSTUP_TOOLCHAIN", name),
            None => rustc.env_remove("RUSTUP_TOOLCHAIN"),
        };
        text(rustc.arg("--version")).map(|text| text.trim().to_owned())
    };
    let default = version(None)?;
    let list = text(Command::new("rustup").args(["toolchain", "list", "--quiet"]))?;
    let others = list.lines().filter_map(|name| Some((name.trim().to_owned(), version(Some(name.trim()))?)));
    others.into_iter().find(|(_, version)| *version != default)
}

#[test]
fn a_run_that_continues_says_what_changed_and_never_mixes_two_builds() {
    let repository = parser();
    let home = home();
    let setting = repository.beside("setting.toml");
    let write = |is_debug: bool| {
        fs::write(&setting, format!("[profile.dev]\ndebug-assertions = {is_debug}\n")).expect("a file");
    };
    write(false);
    let matrix = |more: &str| {
        let text = format!("refs: [main]\naxes: {{config: [[], ['{}'{more}]]}}\n", setting.display());
        fs::write(repository.beside("axes.yaml"), text).expect("a file");
    };
    matrix("");
    let file = repository.beside("axes.yaml").display().to_string();
    let (printed, figures) = measured(&repository, home.path(), &["--matrix", &file]);
    let sizes: Vec<u64> = figures.iter().map(|(_, size)| *size).collect();
    assert_eq!(sizes, [1, 5], "{}", printed.everything());

    // One run of the second side is missing, as after an interrupt.
    let cells = repository.path("target/memprof/latest/cells");
    let second = fs::read_dir(cells).expect("a folder").map(|entry| entry.expect("an entry").path());
    let second =
        second.into_iter().find(|path| path.file_name().unwrap().to_string_lossy().starts_with("1-"));
    let test =
        fs::read_dir(second.expect("a side")).expect("a folder").map(|entry| entry.expect("an entry").path());
    let test =
        test.into_iter().find(|path| path.to_string_lossy().contains("memory-parses")).expect("a test");
    let forget = || fs::remove_dir_all(test.join("1")).expect("removed");
    forget();
    write(true);
    let resumed = ["--matrix", &file, "--resume", "latest", "--metrics", "heap.live", "--format", "csv"];
    let run = |arguments: &[&str]| Printed::of(command(repository.root(), home.path(), arguments));
    let printed = run(&resumed);
    assert_eq!(printed.code, 2, "{}", printed.everything());
    let message = "has finished runs of another build than it gets now: cargo's configuration differs";
    assert!(printed.stderr.contains(message), "{}", printed.everything());
    assert!(!test.join("1").exists(), "nothing ran");

    // With the same file again, it goes on, and says that memprof.yaml is another one.
    write(false);
    matrix(", 'a.b=1'");
    let printed = run(&resumed);
    assert!(
        printed.stderr.contains("warning: memprof.yaml has config (no config, "),
        "{}",
        printed.everything()
    );
    assert!(printed.stderr.contains("; the run continues as planned"), "{}", printed.everything());
    assert!(test.join("1/outcome.json").exists(), "{}", printed.everything());
    matrix("");
    forget();
    let printed = run(&resumed);
    assert!(!printed.stderr.contains("as planned"), "{}", printed.everything());
    let kept: Vec<u64> = kept(&values(&printed)).into_values().map(|bytes| bytes >> 20).collect();
    assert_eq!(kept, [5, 1, 1, 1], "{}", printed.everything());
}
