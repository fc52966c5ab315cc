//! The plan of `bisect` and `history`, on real repositories, and what is wrong with a range of commits.

use std::cell::RefCell;
use std::ffi::OsString;

use crate::support::TestRepository;
use cargo_memprof::arguments::command::CommandArguments;
use cargo_memprof::arguments::command_line;
use cargo_memprof::commands::history;
use cargo_memprof::search::plan::{SearchPlan, SearchRequest, ends};
use memprof_run::bisect::merge_search::Merges;
use memprof_run::bisect::record::Task;
use memprof_support::advice::help;
use memprof_support::event::Event;

const MANIFEST: &str = "[package]\nname = \"fixture\"\nversion = \"0.1.0\"\nedition = \"2024\"\n";

/// Plans `history` with these arguments. Returns the warnings, too.
fn planned(repository: &TestRepository, arguments: &[&str]) -> anyhow::Result<(SearchPlan, Vec<String>)> {
    let argv = ["cargo-memprof", "history"].iter().chain(arguments).map(OsString::from);
    let CommandArguments::History(history) = command_line::parse(argv).unwrap().command else {
        panic!("it is a history");
    };
    let (good, bad) = ends(&history.range)?;
    let request =
        SearchRequest { good: &good, bad: &bad, paths: &history.paths, measuring: &history.measuring };
    let warnings = RefCell::new(Vec::new());
    let collect = |event: Event| {
        if let Event::Warning { message, .. } = event {
            warnings.borrow_mut().push(message);
        }
    };
    let task = |_: &_| Ok(Task::History { commits: Vec::new(), tags: Vec::new(), merges: Merges::default() });
    let plan = request.plan(&repository.open(), &collect, task)?;
    Ok((plan, warnings.into_inner()))
}

/// `c0` to `c3` on main, of which `c1` alone has another `tests/a.rs`, and `side`, which forks at `c1`.
fn with_tags() -> TestRepository {
    let mut repository = TestRepository::new();
    repository.write("Cargo.toml", MANIFEST);
    for (number, content) in ["// one\n", "// other\n", "// one\n", "// one\n"].iter().enumerate() {
        repository.write("src/lib.rs", format!("// {number}\n"));
        repository.write("tests/a.rs", content);
        repository.commit(&format!("change {number}"));
        repository.git(["tag", &format!("c{number}")]);
    }
    repository.git(["switch", "--quiet", "--create", "side", "c1"]);
    repository.write("src/lib.rs", "// side\n");
    repository.commit("on the side");
    repository.git(["switch", "--quiet", "main"]);
    repository
}

#[test]
fn a_range_that_is_none_is_answered_with_one_that_is() {
    let repository = with_tags();
    let advice = |range: &[&str]| {
        let error = planned(&repository, range).err().unwrap_or_else(|| panic!("{range:?} is a range"));
        (error.to_string(), help(&error).unwrap_or_default())
    };
    let fork = repository.git(["rev-parse", "--short=12", "c1"]);
    let (_, same) = advice(&["c2..c2"]);
    assert_eq!(same, "choose two commits: HEAD~1..HEAD");
    let (message, swapped) = advice(&["c3..c1"]);
    assert!(message.contains("c3 is not in the history of c1"), "{message}");
    assert_eq!(swapped, "it comes after it; swap them: c1..c3 (the search finds growth and shrinkage)");
    let (_, forked) = advice(&["side..c3"]);
    assert_eq!(forked, format!("their histories fork at {fork} (change 1); use {fork}..c3"));
    repository.write("src/lib.rs", "// changed\n");
    let (_, swapped) = advice(&[".", "c1"]);
    assert!(swapped.contains("swap them: c1 . (the search"), "{swapped}");
    for range in [&["c1..c3"][..], &[&format!("{fork}..c3")], &["c1", "."]] {
        planned(&repository, range).unwrap();
    }
}

#[test]
fn an_option_or_a_mistyped_path_among_the_paths_is_refused() {
    let repository = with_tags();
    let refused = |paths: &[&str]| {
        let arguments = [&["c0..c3", "--"], paths].concat();
        let error = planned(&repository, &arguments).err().unwrap_or_else(|| panic!("{paths:?} are paths"));
        (error.to_string(), help(&error).unwrap_or_default())
    };
    for paths in [&["tests/a.rs", "-k", "probe"][..], &["-k"]] {
        let (message, advice) = refused(paths);
        assert_eq!(message, "'-k' after `--` is a path, and there is no such file");
        assert_eq!(advice, "put options before `--`");
    }
    let (_, advice) = refused(&["-k", "--bin", "tool"]);
    assert_eq!(advice, "put options before `--`", "no program is named before it");
    let error = planned(&repository, &["c0..c3", "--bin", "tool", "--", "10"]).err().unwrap();
    assert_eq!(
        help(&error).unwrap(),
        "paths are relative to the current folder, in git's syntax\narguments of a program: --arg=10"
    );
    let (message, _) = refused(&["src", "scr"]);
    assert_eq!(message, "c3 has no 'scr', and no commit from c0 to c3 touches it");
    // A file without a change, a pattern, and an exclusion.
    for paths in [&["src", "Cargo.toml"][..], &["*.rs"], &["src", ":!tests"]] {
        planned(&repository, &[&["c0..c3", "--"], paths].concat()).unwrap();
    }
}

#[test]
fn an_overlay_that_hides_a_change_between_the_ends_is_named() {
    let repository = with_tags();
    let noted = |content: &str, range: &str| {
        let source = repository.beside("a.rs");
        std::fs::write(&source, content).unwrap();
        let overlay = format!("{}=tests/a.rs", source.display());
        let (planned, warnings) = planned(&repository, &[range, "--overlay", &overlay]).unwrap();
        assert_eq!(planned.plan.notes, warnings, "the plan keeps what was warned of");
        warnings
    };
    let short = |name: &str| repository.git(["rev-parse", "--short=7", name]);
    let (c0, c1) = (short("c0"), short("c1"));
    let expected = format!(
        "the overlay replaces tests/a.rs, which differs between c0 ({c0}) and {c1}: this change is not measured"
    );
    assert_eq!(noted("// one\n", "c0..c3"), [expected]);
    assert!(noted("// one\n", "c2..c3").is_empty());
}

#[test]
fn the_ends_of_a_history_of_tags_are_tagged() {
    let mut repository = with_tags();
    repository.write("src/lib.rs", "// untagged\n");
    let last = repository.commit("no tag");
    let planned = |repository: &TestRepository, arguments: &[&str]| {
        let argv = ["cargo-memprof", "history", "--tags"].iter().chain(arguments).map(OsString::from);
        let CommandArguments::History(history) = command_line::parse(argv).unwrap().command else {
            panic!("it is a history");
        };
        history::plan(&history, &repository.open(), &|_: Event| {})
    };
    let shown = |repository: &TestRepository, arguments: &[&str]| {
        let SearchPlan { search, plan } = planned(repository, arguments).unwrap();
        let Task::History { commits, .. } = search.task else { panic!("it is a history") };
        let names = commits.iter().map(|&commit| plan.revisions[commit].subject.clone());
        (format!("{} {}", search.good, search.bad), names.collect::<Vec<_>>().join(", "))
    };
    let all = ("c0 c3".to_owned(), "change 0, change 1, change 2, change 3".to_owned());
    assert_eq!(shown(&repository, &["c0.."]), all);
    assert_eq!(shown(&repository, &["c0", "."]), all);
    assert_eq!(shown(&repository, &["c2.."]).0, "c2 c3");
    assert_eq!(shown(&repository, &["c2", "c3"]).0, "c2 c3");
    // A name that was typed stays, if its commit has a tag.
    assert_eq!(shown(&repository, &["HEAD~2.."]).0, "HEAD~2 c3");
    let error = planned(&repository, &["c3.."]).unwrap_err();
    assert_eq!(error.to_string(), "a history needs two tagged commits; c3..HEAD has 1 tagged commit");
    // A full hash is an end by its first digits.
    repository.git(["tag", "c4"]);
    assert_eq!(shown(&repository, &[&format!("c3..{last}")]).0, format!("c3 {}", &last[..7]));
    // No tag comes after all others.
    repository.git(["switch", "--quiet", "side"]);
    repository.git(["tag", "s"]);
    repository.git(["switch", "--quiet", "main"]);
    repository.git(["merge", "--quiet", "--strategy", "ours", "-m", "a merge", "side"]);
    let (ends, commits) = shown(&repository, &["c1.."]);
    assert_eq!(ends, "c1 HEAD");
    assert!(commits.contains("on the side") && commits.contains("no tag"), "{commits}");
    assert!(commits.ends_with("a merge"), "{commits}");
}
