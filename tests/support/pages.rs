//! The pages for users, and the commands on them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use fs_err as fs;
use regex::Regex;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// The texts of README and docs by path from the root, and of other pages at the root.
pub fn pages() -> BTreeMap<PathBuf, String> {
    let folders = [ROOT.to_owned(), format!("{ROOT}/docs")];
    let files =
        folders.iter().flat_map(|folder| fs::read_dir(folder).unwrap()).map(|file| file.unwrap().path());
    let pages = files.filter(|path| path.extension().is_some_and(|end| end == "md"));
    pages
        .map(|path| (path.strip_prefix(ROOT).unwrap().to_owned(), fs::read_to_string(&path).unwrap()))
        .collect()
}

/// A page's lines, and for each what its block of code is written in: nothing for text.
pub fn lines(text: &str) -> Vec<(Option<String>, &str)> {
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

/// Splits as a shell does, up to a comment, a pipe, a redirection or another command.
pub fn words(line: &str) -> Option<Vec<String>> {
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
pub fn commands(text: &str) -> Vec<String> {
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
