//! The pages for users: each link leads somewhere, each command is one that the program accepts, and the book
//! has every page.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

use cargo_memprof::arguments::command_line;
use clap::error::ErrorKind;
use fs_err as fs;
use regex::Regex;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// The texts of README and docs by path from the root, and of other pages at the root.
fn pages() -> BTreeMap<PathBuf, String> {
    let folders = [ROOT.to_owned(), format!("{ROOT}/docs")];
    let files =
        folders.iter().flat_map(|folder| fs::read_dir(folder).unwrap()).map(|file| file.unwrap().path());
    let pages = files.filter(|path| path.extension().is_some_and(|end| end == "md"));
    pages
        .map(|path| (path.strip_prefix(ROOT).unwrap().to_owned(), fs::read_to_string(&path).unwrap()))
        .collect()
}

/// A page's lines, and for each what its block of code is written in: nothing for text.
fn lines(text: &str) -> Vec<(Option<String>, &str)> {
    let mut block: Option<String> = None;
    let mut lines = Vec::new();
    for line in text.lines() {
        if let Some(language) = line.trim_start().strip_prefix("```") {
            block = if block.is_some() { None } else { Some(language.to_owned()) };
        } else {
            let is_indented = block.is_none() && line.starts_with("    ");
            lines.push((if is_indented { Some(String::new()) } else { block.clone() }, line));
        }
    }
    assert_eq!(block, None, "a block of code does not end");
    lines
}

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

/// Splits as a shell does, up to a comment, a pipe, a redirection or another command.
fn words(line: &str) -> Option<Vec<String>> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for character in line.chars() {
        match (quote, character) {
            (Some(open), _) if character == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            (None, ' ') => words.extend(word.take()),
            (None, '#') if word.is_none() => break,
            (None, '|' | '>' | '<' | ';' | '&') => break,
            _ => word.get_or_insert_default().push(character),
        }
    }
    words.extend(word);
    quote.is_none().then_some(words)
}

/// The command lines of a page, as they are written there: those in blocks of code, and those in a line of text
/// that have no part to fill in.
fn commands(text: &str) -> Vec<String> {
    let mut commands = Vec::new();
    let quoted = Regex::new("`(cargo memprof[^`]*)`").unwrap();
    let mut lines = lines(text).into_iter().peekable();
    while let Some((block, line)) = lines.next() {
        if block.is_none() {
            let whole = quoted.captures_iter(line).map(|found| found[1].to_owned());
            commands.extend(whole.filter(|command| !command.contains(['[', '…', '<', '{'])));
            continue;
        }
        let line = line.trim();
        let line = line.strip_prefix("- run: ").or_else(|| line.strip_prefix("- ")).unwrap_or(line);
        let line = line.strip_prefix("$ ").unwrap_or(line);
        if !line.starts_with("cargo memprof") || line.starts_with("cargo memprof does") {
            continue;
        }
        let mut command = line.to_owned();
        while command.ends_with('\\') {
            command.pop();
            command += lines.next().expect("a line that goes on").1.trim();
        }
        commands.push(command);
    }
    commands
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
