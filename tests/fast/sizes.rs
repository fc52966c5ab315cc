//! Inputs of any size: each is handled in linear time, or refused with an error that names the limit.
//!
//! Each size here would take minutes, or all memory, if a step were quadratic.

use std::ffi::OsString;

use crate::support::{TestRepository, succeed};
use camino::Utf8Path;
use cargo_memprof::arguments::command::CommandArguments;
use cargo_memprof::arguments::command_line;
use cargo_memprof::request::matrix_file;
use cargo_memprof::request::reconcile::reconcile;
use cargo_memprof::request::refs::RefsNeeded;
use cargo_memprof::request::surroundings::Surroundings;
use memprof_build::git::resolve::resolve;
use memprof_judge::compare::{budget, noise};
use memprof_judge::why::explanations;
use memprof_plan::config::limits::{MOST_BRACKETS, MOST_BYTES, MOST_ENTRIES, MOST_MAPPINGS};
use memprof_plan::config::matrix::{self, Matrix};
use memprof_plan::request::{MOST_REFS, RefRequest, Request};
use memprof_run::archive::file::Archive;
use memprof_support::advice::help;
use memprof_support::regular_file::followed;
use memprof_support::sealed;
use memprof_support::suggest;

/// This many lines, each made from its number.
fn lines(count: usize, line: impl Fn(usize) -> String) -> String {
    (0..count).flat_map(|index| [line(index), "\n".to_owned()]).collect()
}

fn parse(text: &str) -> Result<Matrix, String> {
    matrix::parse(text, "memprof.yaml".into()).map_err(|error| error.rendered())
}

fn refused(text: &str) -> String {
    let message = parse(text).expect_err("it is too large");
    assert!(message.contains("memprof.yaml"), "no file is named: {message}");
    assert!(message.len() < 600, "{} bytes: {:.600}", message.len(), message);
    message
}

#[test]
fn ten_thousand_entries_are_read_and_one_more_is_refused() {
    let numbered =
        |before: &str, count: usize| -> String { lines(count, |index| format!("{before}{index}: v")) };
    let variables = |count: usize| format!("env:\n{}", numbered("  K", count));
    let env = parse(&variables(MOST_ENTRIES)).unwrap().env.unwrap();
    assert_eq!(env.0.len(), MOST_ENTRIES);
    assert!(refused(&variables(MOST_ENTRIES + 1)).contains("more than 10,000 entries"));
    let values = |count: usize| format!("tests:\n- params:\n    a: [{}]\n", "v, ".repeat(count));
    assert!(parse(&values(MOST_ENTRIES)).is_ok());
    assert!(refused(&values(MOST_ENTRIES + 1)).contains("more than 10,000 entries"));
    assert!(refused(&numbered("x-", MOST_ENTRIES + 1)).contains("more than 10,000 entries"));
}

#[test]
fn a_thousand_mappings_are_read_and_one_more_is_refused() {
    for key in ["refs", "tests"] {
        let list = |count: usize| format!("{key}:\n{}", "- main\n".repeat(count));
        assert!(parse(&list(MOST_MAPPINGS)).is_ok());
        let message = refused(&list(MOST_MAPPINGS + 1));
        assert!(message.contains(&format!("{key}: more than 1,000 entries")), "{message}");
    }
    let rules = format!("thresholds:\n  heap.peak:\n{}", "  - 5%\n".repeat(MOST_MAPPINGS + 1));
    assert!(refused(&rules).contains("more than 1,000 entries"));
}

#[test]
fn brackets_and_directives_are_counted_before_the_parser_sees_them() {
    let nested = |count: usize| format!("x-a:\n  {}1{}\n", "{a: ".repeat(count), "}".repeat(count));
    assert!(parse(&nested(MOST_BRACKETS)).is_ok());
    let message = refused(&nested(50_000));
    assert!(message.contains("more than 4,000 brackets"), "{message}");
    assert!(message.contains("memprof.yaml:2:16003"), "{message}");
    let tags = lines(60_000, |index| format!("%TAG !a{index}! x"));
    assert!(refused(&format!("{tags}---\nrefs: [main]\n")).contains("more than 16 lines"));
}

#[test]
fn mappings_nested_in_blocks_are_refused_without_a_deep_stack() {
    let text = format!("tests:\n{}1\n", "- ".repeat(100_000));
    refused(&text);
    assert!(parse(&format!("x-a:\n{}1\n", "- ".repeat(100_000))).is_ok(), "nothing reads it");
}

#[test]
fn a_large_file_is_refused_before_it_is_read_to_its_end() {
    let text = format!("refs: [main]\n# {}\n", "a".repeat(MOST_BYTES));
    assert!(refused(&text).contains("larger than 1.00 MiB"));
    let message = matrix_file::read("/dev/zero".into()).unwrap_err().rendered();
    assert!(message.contains("/dev/zero: this is a device, not a file"), "{message}");
}

#[test]
fn readers_take_regular_files_up_to_a_size_and_a_depth_and_name_them() {
    type Read = fn(&Utf8Path) -> anyhow::Result<()>;
    let readers: [(&str, Read); 7] = [
        ("matrix", |path| Ok(matrix_file::read(path).map(drop)?)),
        ("budget", |path| budget::read(path, path.as_str()).map(drop)),
        ("noise", |path| noise::read(path).map(drop)),
        ("archive", |path| Archive::open(path).map(drop)),
        ("text", |path| Ok(followed::text(path).map(drop)?)),
        ("JSON of a run", |path| sealed::read::<serde_json::Value>(path).map(drop)),
        ("call stacks", |path| explanations::read_log(path).map(drop)),
    ];
    let home = tempfile::tempdir().unwrap();
    let path = |name: &str| Utf8Path::from_path(home.path()).unwrap().join(name);
    succeed(std::process::Command::new("mkfifo").arg(path("fifo")));
    std::fs::create_dir(path("folder")).unwrap();
    // It takes no space on the disk.
    std::fs::File::create(path("huge")).unwrap().set_len(1 << 40).unwrap();
    std::fs::write(path("deep"), format!("{{\"refs\": {}\n", "[".repeat(200_000))).unwrap();
    std::fs::write(path("deep.json"), "[".repeat(200_000) + "\n").unwrap();
    std::fs::write(path("binary"), [&[0xff; 100][..], b"\n"].concat()).unwrap();
    let names = ["fifo", "folder", "huge", "deep", "deep.json", "binary", "missing"].map(path);
    for file in names.iter().map(|path| &**path).chain(["/dev/zero".into()]) {
        for (reader, read) in readers {
            if reader == "text" && file.as_str().contains("deep") {
                continue;
            }
            let error = read(file).expect_err(reader);
            assert!(format!("{error:#}").contains(file.as_str()), "{reader}: {error:#}");
        }
    }
}

#[test]
fn what_aliases_repeat_counts() {
    let text = format!("x-a: &a {}\nfeatures: [{}]\n", "b".repeat(50_000), "*a,".repeat(9_000));
    assert!(refused(&text).contains("with each alias replaced by its text"));
    let list = format!("x-a: &a [{}]\ntests:\n{}", "b, ".repeat(9_000), "- exact: *a\n".repeat(900));
    assert!(refused(&list).contains("with each alias replaced by its text"));
    let doubled = |reason: &str, times: usize| {
        let texts = (1..=times).fold(format!("x-0: &a0 {{reason: {reason}}}\n"), |text, index| {
            let before = index - 1;
            format!("{text}x-{index}: &a{index} {{<<: [*a{before}, *a{before}]}}\n")
        });
        format!("{texts}allow: [{{<<: *a{times}, metric: heap.peak}}]\n")
    };
    assert!(refused(&doubled(&"l".repeat(50_000), 5)).contains("with each alias replaced by its text"));
    assert!(refused(&doubled("l", 29)).contains("repetition limit"), "the parser has a limit of its own");
    assert!(parse(&doubled("l", 2)).is_ok());
    let few = "x-a: &a {batch: [8, 64]}\ntests: [{exact: [a], params: *a}, {exact: [b], params: *a}]\n";
    assert!(parse(few).is_ok());
}

#[test]
fn a_long_text_does_not_fill_the_message() {
    let long = "a".repeat(500_000);
    let texts = [
        format!("? {long}\n: 1\n"),
        format!("repeat: {long}\n"),
        format!("metrics: [{long}]\n"),
        format!("env: {{{long}-: 1}}\n"),
        format!("env: {long}\n"),
        format!("tests: [{{kind: {long}}}]\n"),
    ];
    for text in texts {
        refused(&text);
    }
}

/// What these flags ask for, or the error.
fn asked(flags: &[String], yaml: &str) -> Result<Request, String> {
    let argv = ["cargo-memprof".to_owned()].iter().chain(flags).map(OsString::from).collect::<Vec<_>>();
    let CommandArguments::Run(run) = command_line::parse(argv).map_err(|error| error.to_string())?.command
    else {
        panic!("these are flags of `run`")
    };
    let surroundings = Surroundings {
        repository: "/repository".into(),
        current: "/repository".into(),
        matrix: "/repository".into(),
        exists: &|_| false,
    };
    let matrix = if yaml.is_empty() { Matrix::default() } else { parse(yaml)? };
    reconcile(&run.request, &matrix, surroundings, RefsNeeded::Comparison).map_err(|error| error.rendered())
}

#[test]
fn a_thousand_refs_are_taken_and_one_more_is_refused() {
    let refs = |count: usize| vec!["--refs".to_owned(), vec!["main"; count].join(",")];
    let request = asked(&refs(MOST_REFS), "").unwrap();
    assert_eq!(request.refs.last().unwrap().name.as_deref(), Some("main (1000)"));
    let message = asked(&refs(20_000), "").unwrap_err();
    assert!(message.starts_with("error: 20,000 refs, and a comparison takes at most 1,000"), "{message}");
    assert!(message.contains("help: name fewer"), "{message}");
}

#[test]
fn many_flags_take_linear_time() {
    let mut flags = vec!["--refs".to_owned(), "main,.".to_owned()];
    for index in 0..20_000 {
        flags.extend(["--env".to_owned(), format!("K{index}=v")]);
        flags.extend(["--limit".to_owned(), format!("heap.peak=8GiB,checkpoint=c{index}")]);
    }
    let tests = format!("tests:\n{}", "- env: {A: b, K7: w}\n".repeat(MOST_MAPPINGS));
    let request = asked(&flags, &tests).unwrap();
    assert_eq!((request.env.len(), request.judging.rules.len()), (20_000, 20_000));
    assert!(request.tests.iter().all(|test| test.env.keys().eq(["A"])), "a flag wins over each test");
}

#[test]
fn many_exclusions_are_looked_up_and_not_searched() {
    let refs = lines(MOST_REFS, |index| format!("- {{ref: b{index}, name: n{index}}}"));
    let cells = lines(MOST_MAPPINGS, |index| format!("- {{ref: n{index}}}"));
    let yaml = format!("refs:\n{refs}exclude:\n{cells}");
    let flags = ["--refs", "n7=main,x"].map(str::to_owned);
    let request = asked(&flags, &yaml).unwrap();
    let kept: Vec<_> = request.exclude.iter().map(|cell| cell.r#ref.as_deref().unwrap()).collect();
    assert_eq!(kept, ["n7"], "the others are about refs that are not compared");
}

/// A repository with this many branches, `feature/branch-7` and so on, all at the first commit.
fn repository_with_branches(count: usize) -> TestRepository {
    let mut repository = TestRepository::new();
    repository
        .write("Cargo.toml", "[package]\nname = \"fixture\"\nversion = \"0.1.0\"\nedition = \"2024\"\n");
    repository.write("src/lib.rs", "");
    let first = repository.commit("first");
    repository.git(["tag", "feature/branch-7"]);
    repository.commit("second");
    let mut names: Vec<String> =
        (0..count).map(|index| format!("refs/heads/feature/branch-{index}")).collect();
    names.sort_unstable();
    let lines = lines(count, |index| format!("{first} {}", names[index]));
    repository.write(".git/packed-refs", format!("# pack-refs with: peeled fully-peeled sorted \n{lines}"));
    repository
}

fn resolved(repository: &TestRepository, refs: &[String]) -> anyhow::Result<Vec<String>> {
    let reference = |spec: &String| RefRequest { spec: spec.clone(), ..RefRequest::default() };
    let request = Request { refs: refs.iter().map(reference).collect(), ..Request::default() };
    let plan = resolve(&request, &repository.open(), &|_| ())?;
    Ok(plan.revisions.into_iter().map(|revision| revision.name).collect())
}

#[test]
fn a_thousand_of_a_hundred_thousand_branches_are_found() {
    let repository = repository_with_branches(100_000);
    let refs: Vec<String> = (0..MOST_REFS).map(|index| format!("feature/branch-{index}")).collect();
    assert_eq!(resolved(&repository, &refs).unwrap(), refs);
    let misspelt = ["main".to_owned(), "mian".to_owned()];
    let error = resolved(&repository, &misspelt).expect_err("there is no such branch");
    let help = help(&error).unwrap();
    assert!(help.starts_with("did you mean 'main'?") && help.len() < 300, "{help}");
}

#[test]
fn suggestions_for_a_long_name_are_not_searched_for() {
    let long = "a".repeat(100_000);
    let names = vec!["feature/branch"; 100_000];
    assert!(suggest::nearest(&long, names.iter().copied(), 3).is_empty());
    assert!(suggest::nearest("feature", [long.as_str()], 3).is_empty());
    let distinct: Vec<String> = (0..20_000).map(|index| format!("feature-{index}")).collect();
    assert_eq!(suggest::nearest("feature", distinct.iter().map(String::as_str), 3).len(), 3);
}

/// Values at and beyond the ends of every type.
const NUMBERS: [&str; 10] = [
    "0",
    "1",
    "1000",
    "4294967295",
    "18446744073709551615",
    "18446744073709551616",
    "-1",
    "1e400",
    "NaN",
    "",
];

/// Each flag with `{}` for the number, the subcommand before it, and the numbers that it takes.
const NUMERIC_FLAGS: [(&str, &str, &[&str]); 14] = [
    ("run", "--repeat={}", &["1", "1000"]),
    ("run", "--timeout={}s", &["1", "1000", "4294967295", "18446744073709551615"]),
    ("run", "--jobs={}", &["1", "1000"]),
    ("run", "--max-events={}", &["0", "1", "1000", "4294967295", "18446744073709551615"]),
    ("run", "--threshold=heap.count={}", &["0", "1", "1000", "4294967295", "18446744073709551615"]),
    ("run", "--threshold=heap.peak={}%", ALL_FINITE),
    ("run", "--limit=heap.peak={}KiB", &["0", "1", "1000", "4294967295"]),
    ("run", "--leak=heap.live={}KiB", &["0", "1", "1000", "4294967295"]),
    ("run", "--allow=metric=heap.peak,limit={}%,reason=x", ALL_FINITE),
    ("bisect --good a --bad b", "--repeat={}", &["1", "1000"]),
    ("bisect --good a --bad b", "--timeout={}s", &["1", "1000", "4294967295", "18446744073709551615"]),
    ("bisect --good a --bad b", "--threshold={}%", ALL_FINITE),
    ("history a..b", "--every={}", &["1", "1000", "4294967295"]),
    ("history a..b", "--at-most={}", &["1000", "4294967295"]),
];

/// A percentage may be any finite number from 0.
const ALL_FINITE: &[&str] = &["0", "1", "1000", "4294967295", "18446744073709551615", "18446744073709551616"];

/// Each key with `{}` for the number, and the numbers that it takes.
const NUMERIC_KEYS: [(&str, &[&str]); 10] = [
    ("repeat: {}", &["1", "1000"]),
    ("tests: [{repeat: {}}]", &["1", "1000"]),
    ("timeout: {}s", &["1", "1000", "4294967295", "18446744073709551615"]),
    ("trace: {functions: [a::b], max-events: {}}", &["0", "1", "1000", "4294967295", "18446744073709551615"]),
    ("thresholds: {heap.peak: {}}", &["0"]),
    ("thresholds: {heap.peak: {percent: {}}}", ALL_FINITE),
    ("thresholds: {heap.peak: {bytes: {}KiB}}", &["0", "1", "1000", "4294967295"]),
    ("thresholds: {heap.peak: {limit: {}KiB}}", &["0", "1", "1000", "4294967295"]),
    ("thresholds: {heap.live: {leak: {}}}", &["0"]),
    ("allow: [{metric: heap.peak, limit: {}%, reason: x}]", ALL_FINITE),
];

#[test]
fn each_numeric_flag_takes_a_number_or_names_it_in_an_error() {
    for (command, flag, accepted) in NUMERIC_FLAGS {
        for number in NUMBERS {
            let flag = flag.replace("{}", number);
            let argv = ["cargo-memprof"].into_iter().chain(command.split(' ')).chain([flag.as_str()]);
            match command_line::parse(argv.map(OsString::from)) {
                Ok(_) => assert!(accepted.contains(&number), "{command} {flag} was accepted"),
                Err(error) => {
                    let message = error.to_string();
                    assert!(!accepted.contains(&number), "{command} {flag}: {message}");
                    let name = flag.split('=').next().unwrap();
                    assert!(
                        message.contains(number) && message.contains(name),
                        "{command} {flag}: {message}"
                    );
                }
            }
        }
    }
}

#[test]
fn each_numeric_key_takes_a_number_or_names_its_place_in_an_error() {
    for (key, accepted) in NUMERIC_KEYS {
        for number in NUMBERS {
            let yaml = key.replace("{}", number);
            match parse(&yaml) {
                Ok(_) => assert!(accepted.contains(&number), "{yaml} was accepted"),
                Err(message) => {
                    assert!(!accepted.contains(&number), "{yaml}: {message}");
                    let top = yaml.split(':').next().unwrap();
                    let is_named = message.contains(top) || number.is_empty();
                    assert!(message.contains("memprof.yaml:1:") && is_named, "{yaml}: {message}");
                }
            }
        }
    }
    let message = parse("repeat: 4294967295").unwrap_err();
    assert!(message.contains("4294967295 is too often: a cell runs at most 1,000 times"), "{message}");
}
