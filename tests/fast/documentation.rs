//! The pages for users: each link leads somewhere, each command is one that the program accepts, and the book
//! has every page.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

use cargo_memprof::arguments::command_line;
use clap::error::ErrorKind;
use fs_err as fs;
use regex::Regex;

use crate::support::pages::{commands, lines, pages, words};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// The names that links may have behind `#`, as GitHub and mdBook make them of headings.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut counts: BTreeMap<String, u32> = BTreeMap::new();
    let headings = lines(text).into_iter().filter(|(block, line)| block.is_none() && line.starts_with('#'));
    let linked = Regex::new(r"\[([^\]]*)\]\([^)]*\)").unwrap();
    let mut anchors = BTreeSet::new();
    for (_, heading) in headings {
        let heading = linked.replace_all(heading.trim_start_matches('#').trim(), "$1").to_lowercase();
        let kept = heading.chars().filter(|one| one.is_alphanumeric() || " -_".contains(*one));
        let anchor: String = kept.map(|one| if one == ' ' { '-' } else { one }).collect();
        let count = counts.entry(anchor.clone()).or_default();
        anchors.insert(if *count == 0 { anchor } else { format!("{anchor}-{count}") });
        *count += 1;
    }
    anchors
}

/// Resolves `..` without asking the file system.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => assert!(normal.pop(), "{} leads out of the repository", path.display()),
            Component::Normal(part) => normal.push(part),
            _ => {}
        }
    }
    normal
}

#[test]
fn each_link_leads_to_a_file_and_to_a_heading_in_it() {
    let pages = pages();
    let link = Regex::new(r"\]\(([^)\s]+)\)").unwrap();
    let code = Regex::new("`[^`]*`").unwrap();
    let (mut broken, mut count) = (Vec::new(), 0);
    for (page, text) in &pages {
        for (_, line) in lines(text).into_iter().filter(|(block, _)| block.is_none()) {
            let plain = code.replace_all(line, "code");
            for target in link.captures_iter(&plain).map(|found| found[1].to_owned()) {
                if target.contains("://") || target.starts_with("mailto:") {
                    continue;
                }
                count += 1;
                let (file, anchor) =
                    target.split_once('#').map_or((&*target, None), |(file, anchor)| (file, Some(anchor)));
                let to =
                    if file.is_empty() { page.clone() } else { normal(&page.parent().unwrap().join(file)) };
                let text =
                    pages.get(&to).cloned().or_else(|| fs::read_to_string(Path::new(ROOT).join(&to)).ok());
                let is_there = Path::new(ROOT).join(&to).exists();
                let has_anchor =
                    anchor.is_none_or(|anchor| text.is_some_and(|text| anchors(&text).contains(anchor)));
                if !is_there || !has_anchor {
                    broken.push(format!("{}: {target}", page.display()));
                }
            }
        }
    }
    assert_eq!(broken, [""; 0]);
    assert!(count > 150, "{count} links were found");
}

#[test]
fn each_command_is_one_that_the_program_accepts() {
    let (mut refused, mut count) = (Vec::new(), 0);
    for (page, text) in pages() {
        // The changelog has commands of earlier versions, too.
        let is_of_now = page != Path::new("CHANGELOG.md");
        for command in commands(&text).into_iter().filter(|_| is_of_now) {
            count += 1;
            let Some(words) = words(&command) else {
                refused.push(format!("{}: {command}: a quote is open", page.display()));
                continue;
            };
            let arguments = words.into_iter().skip(1).map(OsString::from);
            let arguments = std::iter::once(OsString::from("cargo")).chain(arguments);
            // `cargo memprof notebook` in a text is the name of a command.
            let is_name = command.split(' ').count() == 3;
            if let Err(error) = command_line::parse(arguments)
                && error.use_stderr()
                && !(is_name && error.kind() == ErrorKind::MissingRequiredArgument)
            {
                refused.push(format!("{}: {command}\n{error}", page.display()));
            }
        }
    }
    assert!(refused.is_empty(), "{}", refused.join("\n"));
    assert!(count > 150, "{count} commands were found");
}

#[test]
fn the_book_has_each_page_once() {
    let summary = fs::read_to_string(format!("{ROOT}/docs/SUMMARY.md")).unwrap();
    let link = Regex::new(r"\]\(([^)]+)\)").unwrap();
    let mut listed: Vec<String> = link.captures_iter(&summary).map(|found| found[1].to_owned()).collect();
    listed.sort();
    let in_docs = pages().into_keys().filter_map(|page| page.strip_prefix("docs").ok().map(Path::to_owned));
    let names = in_docs.map(|page| page.to_str().unwrap().to_owned()).filter(|name| name != "SUMMARY.md");
    assert_eq!(listed, names.collect::<Vec<_>>());
}

#[test]
fn the_page_of_the_demo_is_small_and_of_the_demos_commits() {
    let page = fs::read_to_string(format!("{ROOT}/docs/demo.html")).unwrap();
    assert!(page.len() < 500_000, "{} bytes", page.len());
    for of_a_machine in ["/tmp/", "/home/", "/root/", "/mnt/", "/Users/"] {
        assert!(!page.contains(of_a_machine), "{of_a_machine}: just demo-page");
    }
    let folder = tempfile::tempdir().unwrap();
    let demo = cargo_memprof::demo::repository::create(folder.path()).unwrap();
    for branch in ["main", "compact-postings"] {
        let mut git = std::process::Command::new("git");
        let commit = git.arg("-C").arg(&demo.path).args(["rev-parse", "--short=7", branch]).output().unwrap();
        let commit = String::from_utf8(commit.stdout).unwrap();
        assert!(page.contains(commit.trim()), "docs/demo.html is not of {branch} {commit}: just demo-page");
    }
}
