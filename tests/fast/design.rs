//! The house rules that a test can check: each folder of `src/` imports only folders below it, files do not import each
//! other in circles, and `DESIGN.md` names every folder.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use walkdir::WalkDir;

/// One path that begins with `crate`, or with a `super` that leaves the file.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Import {
    line: usize,
    /// The segments below `crate`.
    path: Vec<String>,
}

/// Every `crate::…` path of a file, whether in a `use` or inline, with groups written out.
fn imports(text: &str, module: &[String]) -> Vec<Import> {
    let tokens: TokenStream = text.parse().unwrap_or_else(|error| panic!("{module:?}: {error}"));
    let mut found = Vec::new();
    collect(&tokens.into_iter().collect::<Vec<_>>(), module, 0, &mut found);
    found
}

/// `depth` counts the inline modules around the tokens.
fn collect(tokens: &[TokenTree], module: &[String], depth: usize, found: &mut Vec<Import>) {
    let mut at = 0;
    while at < tokens.len() {
        match &tokens[at] {
            TokenTree::Ident(ident)
                if (ident == "crate" || ident == "super") && !follows_path(tokens, at) =>
            {
                let line = ident.span().start().line;
                let mut ups = usize::from(ident == "super");
                let mut next = at + 1;
                while ups > 0 && segment(tokens, next).is_some_and(|name| name == "super") {
                    ups += 1;
                    next += 3;
                }
                let root = if ident == "crate" { Some(Vec::new()) } else { above(module, ups, depth) };
                let mut paths = Vec::new();
                walk(tokens, next, root.clone().unwrap_or_default(), &mut paths);
                if root.is_some() {
                    found.extend(paths.into_iter().map(|path| Import { line, path }));
                }
            }
            TokenTree::Ident(ident) if ident == "mod" => {
                if let Some(TokenTree::Group(body)) = tokens.get(at + 2)
                    && body.delimiter() == Delimiter::Brace
                {
                    let inner: Vec<_> = body.stream().into_iter().collect();
                    collect(&inner, module, depth + 1, found);
                    at += 3;
                    continue;
                }
            }
            TokenTree::Group(group) => {
                let inner: Vec<_> = group.stream().into_iter().collect();
                collect(&inner, module, depth, found);
            }
            _ => {}
        }
        at += 1;
    }
}

/// Whether the token is the later part of a path, as `crate` is in `$crate` or `pub(in crate)` is not.
fn follows_path(tokens: &[TokenTree], at: usize) -> bool {
    at > 0
        && matches!(&tokens[at - 1], TokenTree::Punct(punct) if punct.as_char() == ':' || punct.as_char() == '$')
}

/// The module that `ups` times `super` means, or `None` if that is the file itself or a module inside it.
fn above(module: &[String], ups: usize, depth: usize) -> Option<Vec<String>> {
    let ups = ups.checked_sub(depth).filter(|ups| *ups > 0)?;
    Some(module[..module.len().saturating_sub(ups)].to_vec())
}

/// The name after `::` at a place.
fn segment(tokens: &[TokenTree], at: usize) -> Option<String> {
    let colon = |at: usize| matches!(tokens.get(at), Some(TokenTree::Punct(punct)) if punct.as_char() == ':');
    match tokens.get(at + 2)? {
        TokenTree::Ident(name) if colon(at) && colon(at + 1) => Some(name.to_string()),
        _ => None,
    }
}

/// Writes out the paths that go on at `at`: names, then perhaps a group of them.
fn walk(tokens: &[TokenTree], mut at: usize, mut path: Vec<String>, paths: &mut Vec<Vec<String>>) {
    while let Some(name) = segment(tokens, at) {
        path.push(name);
        at += 3;
    }
    match tokens.get(at + 2) {
        Some(TokenTree::Group(group)) if is_path_separator(tokens, at) => {
            let inner: Vec<_> = group.stream().into_iter().collect();
            for item in
                inner.split(|token| matches!(token, TokenTree::Punct(punct) if punct.as_char() == ','))
            {
                let Some(TokenTree::Ident(name)) = item.first() else { continue };
                let mut path = path.clone();
                path.extend((name != "self").then(|| name.to_string()));
                walk(item, 1, path, paths);
            }
        }
        _ => paths.push(path),
    }
}

fn is_path_separator(tokens: &[TokenTree], at: usize) -> bool {
    let colon = |at: usize| matches!(tokens.get(at), Some(TokenTree::Punct(punct)) if punct.as_char() == ':');
    colon(at) && colon(at + 1)
}

const DESIGN: &str = include_str!("../../DESIGN.md");

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The Rust files of `src/`, relative to it, each with its text.
fn sources() -> BTreeMap<PathBuf, String> {
    let src = root().join("src");
    let files = WalkDir::new(&src).into_iter().map(|entry| entry.expect("a readable folder").into_path());
    let rust = files.filter(|path| path.extension().is_some_and(|extension| extension == "rs"));
    rust.map(|path| {
        let text = std::fs::read_to_string(&path).expect("a readable file");
        (path.strip_prefix(&src).expect("below src").to_owned(), text)
    })
    .collect()
}

/// The module that a file of `src/` is.
fn module_of(file: &Path) -> Vec<String> {
    let mut module: Vec<String> =
        file.with_extension("").iter().map(|part| part.to_string_lossy().into_owned()).collect();
    if module.last().is_some_and(|last| last == "mod" || last == "lib" || last == "main") {
        module.pop();
    }
    module
}

/// The file that a path below `crate` means: that of its longest beginning that is a module.
fn file_of<'a>(path: &[String], files: &'a BTreeMap<Vec<String>, PathBuf>) -> Option<&'a PathBuf> {
    (1..=path.len()).rev().find_map(|length| files.get(&path[..length]))
}

/// The folders of `src/`, from the highest to the lowest: the first table of `DESIGN.md`.
fn order() -> Vec<String> {
    let table =
        DESIGN.lines().skip_while(|line| !line.starts_with("| folder | holds | side effects |")).skip(2);
    let rows = table.map_while(|line| line.strip_prefix("| `")?.split_once("` |"));
    rows.map(|(folder, _)| folder.to_owned()).collect()
}

/// What is wrong with the imports of a tree of sources: every import of a folder that is not below.
fn against_the_order(sources: &BTreeMap<PathBuf, String>, order: &[String]) -> Vec<String> {
    let height = |folder: &str| order.iter().rev().position(|name| name == folder);
    let mut wrong = Vec::new();
    for (file, text) in sources {
        let module = module_of(file);
        let Some(from) = file.parent().and_then(|parent| parent.iter().next()) else { continue };
        let from = from.to_string_lossy();
        for import in imports(text, &module) {
            let Some(to) = import.path.first() else { continue };
            let (Some(here), Some(there)) = (height(&from), height(to)) else {
                wrong.push(format!(
                    "src/{}:{}: `{to}` is no folder of DESIGN.md",
                    file.display(),
                    import.line
                ));
                continue;
            };
            if there > here {
                let path = import.path.join("::");
                wrong.push(format!(
                    "src/{}:{}: {from} is below {to} (crate::{path})",
                    file.display(),
                    import.line
                ));
            }
        }
    }
    wrong
}

/// Files that import each other, directly or through others.
fn circles(sources: &BTreeMap<PathBuf, String>) -> Vec<BTreeSet<PathBuf>> {
    let files: BTreeMap<Vec<String>, PathBuf> = sources
        .keys()
        .map(|file| (module_of(file), file.clone()))
        .filter(|(module, _)| !module.is_empty())
        .collect();
    let arrows: BTreeMap<&PathBuf, BTreeSet<&PathBuf>> = sources
        .iter()
        .map(|(file, text)| {
            let imports = imports(text, &module_of(file));
            let targets = imports.iter().filter_map(|import| file_of(&import.path, &files));
            (file, targets.filter(|target| *target != file).collect())
        })
        .collect();
    let reached = |from: &PathBuf| {
        let mut seen = BTreeSet::new();
        let mut open: Vec<&PathBuf> = arrows[from].iter().copied().collect();
        while let Some(file) = open.pop() {
            if seen.insert(file.clone()) {
                open.extend(&arrows[file]);
            }
        }
        seen
    };
    let reach: BTreeMap<&PathBuf, BTreeSet<PathBuf>> =
        sources.keys().map(|file| (file, reached(file))).collect();
    let mut circles: Vec<BTreeSet<PathBuf>> = Vec::new();
    for file in sources.keys().filter(|file| reach[*file].contains(*file)) {
        if circles.iter().all(|circle| !circle.contains(file)) {
            circles.push(reach[file].iter().filter(|other| reach[*other].contains(file)).cloned().collect());
        }
    }
    circles
}

/// A tree of made-up sources.
fn tree(files: &[(&str, &str)]) -> BTreeMap<PathBuf, String> {
    files.iter().map(|(path, text)| (path.into(), (*text).to_owned())).collect()
}

#[test]
fn design_md_names_every_folder_of_src_and_no_other() {
    let folders: BTreeSet<String> = sources()
        .keys()
        .filter_map(|file| Some(file.parent()?.iter().next()?.to_string_lossy().into_owned()))
        .collect();
    assert_eq!(order().into_iter().collect::<BTreeSet<_>>(), folders);
    assert_eq!(order().len(), folders.len(), "a folder has two rows");
}

#[test]
fn src_itself_holds_the_two_roots_alone() {
    let roots: Vec<PathBuf> = sources().into_keys().filter(|file| file.iter().count() == 1).collect();
    assert_eq!(roots, [PathBuf::from("lib.rs"), PathBuf::from("main.rs")]);
}

#[test]
fn each_folder_opens_with_what_it_holds_imports_and_changes() {
    let sources = sources();
    for (file, text) in sources.iter().filter(|(file, _)| file.ends_with("mod.rs")) {
        let docs: Vec<&str> = text.lines().take_while(|line| line.starts_with("//! ")).collect();
        assert_eq!(docs.len(), 3, "src/{} opens with three lines", file.display());
        assert!(docs[1].starts_with("//! Imports "), "src/{}: {}", file.display(), docs[1]);
        if file.iter().count() == 2 {
            let folder = file.parent().expect("a folder");
            assert_eq!(docs[1], imports_line(folder, &sources), "src/{}:2", file.display());
        }
    }
}

/// The line of a folder's `mod.rs` that says what it imports.
fn imports_line(folder: &Path, sources: &BTreeMap<PathBuf, String>) -> String {
    let files = sources.iter().filter(|(file, _)| file.starts_with(folder));
    let imported: BTreeSet<String> = files
        .flat_map(|(file, text)| imports(text, &module_of(file)))
        .filter_map(|import| import.path.into_iter().next())
        .collect();
    let names: Vec<String> = order()
        .into_iter()
        .rev()
        .filter(|name| imported.contains(name) && Path::new(name) != folder)
        .collect();
    let others: Vec<String> =
        order().into_iter().filter(|name| !names.contains(name) && Path::new(name) != folder).collect();
    match names.split_last() {
        Some(_) if others.is_empty() => "//! Imports every other folder.".to_owned(),
        Some(_) if others.len() == 1 => format!("//! Imports every folder but {}.", others[0]),
        None => "//! Imports no other folder.".to_owned(),
        Some((last, [])) => format!("//! Imports {last}."),
        Some((last, rest)) => format!("//! Imports {} and {last}.", rest.join(", ")),
    }
}

#[test]
fn each_folder_imports_only_folders_below_it() {
    let wrong = against_the_order(&sources(), &order());
    assert!(wrong.is_empty(), "{} imports against the order:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn no_files_import_each_other_in_a_circle() {
    let circles = circles(&sources());
    assert!(circles.is_empty(), "{circles:#?}");
}

#[test]
fn a_planted_import_against_the_order_is_found_with_file_and_line() {
    let order = ["top", "low"].map(str::to_owned);
    let planted = |low: &str| {
        against_the_order(&tree(&[("top/a.rs", "use crate::low::b;"), ("low/b.rs", low)]), &order)
    };
    assert_eq!(planted("use crate::low::c;\nfn f() { super::c::g(); }"), Vec::<String>::new());
    for (low, line, path) in [
        ("use std::fmt;\nuse crate::top::a;", 2, "top::a"),
        ("fn f() {\n    crate::top::a::g()\n}", 2, "top::a::g"),
        ("use crate::{low::c, top::{a, d as e}};", 1, "top::a"),
        ("use super::super::top::a;", 1, "top::a"),
        ("mod tests {\n    use super::super::super::top::a;\n}", 2, "top::a"),
        ("m! {\n\n crate::top::a }", 3, "top::a"),
    ] {
        let wrong = planted(low);
        let found = format!("src/low/b.rs:{line}: low is below top (crate::{path})");
        assert_eq!(wrong.first(), Some(&found), "{low}");
    }
    assert_eq!(planted("use crate::attic::a;"), ["src/low/b.rs:1: `attic` is no folder of DESIGN.md"]);
}

#[test]
fn a_planted_circle_is_found() {
    let sources = tree(&[
        ("a/x.rs", "use crate::a::y::f;"),
        ("a/y.rs", "use crate::a::z;"),
        ("a/z.rs", "fn g() { super::x::h() }"),
        ("a/w.rs", "use crate::a::x;"),
        ("a/mod.rs", "pub mod x;"),
    ]);
    let circle: BTreeSet<PathBuf> = ["a/x.rs", "a/y.rs", "a/z.rs"].map(PathBuf::from).into();
    assert_eq!(circles(&sources), [circle]);
}
