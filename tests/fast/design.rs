//! The house rules that a test can check: each crate and each folder imports only those below it, files do not import
//! each other in circles, `plan` is pure, and `DESIGN.md` names every crate and folder. The folders of the shim are checked like those of
//! a crate.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use walkdir::WalkDir;

/// One path that begins with `crate` or a crate of this workspace, or with a `super` that leaves the file.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Import {
    line: usize,
    /// The crate, without `memprof_`, and the segments below it.
    path: Vec<String>,
}

/// Every path of a file into this workspace, whether in a `use` or inline, with groups written out.
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
                if !follows_path(tokens, at)
                    && (ident == "crate"
                        || ident == "super"
                        || crate_named(&ident.to_string()).is_some()) =>
            {
                let line = ident.span().start().line;
                let named = crate_named(&ident.to_string());
                let mut ups = usize::from(ident == "super");
                let mut next = at + 1;
                while ups > 0 && segment(tokens, next).is_some_and(|name| name == "super") {
                    ups += 1;
                    next += 3;
                }
                let root = match named {
                    Some(other) => Some(vec![other]),
                    None if ident == "crate" => Some(module[..1].to_vec()),
                    None => above(module, ups, depth),
                };
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

/// The crate of this workspace that a path begins with: `run` for `memprof_run`.
fn crate_named(name: &str) -> Option<String> {
    let name = name.strip_prefix("memprof_")?;
    order().iter().any(|row| row.split('/').nth(1) == Some(name)).then(|| name.to_owned())
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

/// The shim, whose sources are not in a folder `src`.
const SHIM: &str = "templates/memprof";

/// The Rust files of all crates and of the shim, relative to the root, each with its text.
fn sources() -> BTreeMap<PathBuf, String> {
    let folder = |row: &String| match row.split_once('/') {
        Some(("crates", rest)) => format!("crates/{}/src", rest.split('/').next().unwrap_or(rest)),
        Some(_) => SHIM.to_owned(),
        None => row.clone(),
    };
    let folders: BTreeSet<String> = order().iter().map(folder).collect();
    folders.iter().flat_map(|folder| rust_files(&root().join(folder))).collect()
}

/// The Rust files of a folder, relative to the root, each with its text.
fn rust_files(folder: &Path) -> BTreeMap<PathBuf, String> {
    let files = WalkDir::new(folder).into_iter().map(|entry| entry.expect("a readable folder").into_path());
    let rust = files.filter(|path| path.extension().is_some_and(|extension| extension == "rs"));
    rust.map(|path| {
        let text = std::fs::read_to_string(&path).expect("a readable file");
        (path.strip_prefix(root()).expect("below the root").to_owned(), text)
    })
    .collect()
}

/// The module that a file is: `run`, `archive` and `manifest` for `crates/run/src/archive/manifest.rs`, and `memprof`,
/// `log` and `json` for `templates/memprof/log/json.rs`.
fn module_of(file: &Path) -> Vec<String> {
    let mut module: Vec<String> =
        file.with_extension("").iter().map(|part| part.to_string_lossy().into_owned()).collect();
    if module[0] == "crates" {
        module.remove(2);
    }
    if module[0] != "src" {
        module.remove(0);
    }
    if module.last().is_some_and(|last| last == "mod" || last == "lib" || last == "main") {
        module.pop();
    }
    module
}

/// The file that a path means: that of its longest beginning that is a module.
fn file_of<'a>(path: &[String], files: &'a BTreeMap<Vec<String>, PathBuf>) -> Option<&'a PathBuf> {
    (1..=path.len()).rev().find_map(|length| files.get(&path[..length]))
}

/// The rows of the table of `DESIGN.md` with this head: folders, from the highest to the lowest.
fn table(head: &str) -> Vec<String> {
    let table = DESIGN.lines().skip_while(|line| !line.starts_with(head)).skip(2);
    let rows = table.map_while(|line| line.strip_prefix("| `")?.split_once("` |"));
    rows.map(|(folder, _)| folder.to_owned()).collect()
}

/// The crates and their folders, from the highest to the lowest, and then the folders of the shim.
fn order() -> Vec<String> {
    let shim = table("| folder of the shim | holds |");
    let shim = shim.into_iter().map(|folder| format!("{SHIM}/{folder}"));
    table("| folder | holds |").into_iter().chain(shim).collect()
}

/// The row of the table that a module belongs to.
fn row_of<'a>(module: &[String], order: &'a [String]) -> Option<&'a String> {
    let at = |length: usize| {
        let name = module.get(..length)?.join("/");
        let is_row = |row: &&String| match row.split_once('/') {
            Some((_, rest)) => rest == name,
            None => **row == name,
        };
        order.iter().find(is_row)
    };
    at(2).or_else(|| at(1))
}

/// What is wrong with the imports of a tree of sources: every import of a crate or folder that is not below.
fn against_the_order(sources: &BTreeMap<PathBuf, String>, order: &[String]) -> Vec<String> {
    let height = |row: &String| order.iter().rev().position(|other| other == row);
    let mut wrong = Vec::new();
    for (file, text) in sources {
        let module = module_of(file);
        let place = |line: usize| format!("{}:{line}", file.display());
        // It lists what the crate offers.
        if file.ends_with("lib.rs") {
            continue;
        }
        let Some(from) = row_of(&module, order) else {
            wrong.push(format!("{}: DESIGN.md has no row for it", place(1)));
            continue;
        };
        // `pub(crate)` is a crate alone.
        for import in imports(text, &module).into_iter().filter(|import| import.path.len() > 1) {
            let Some(to) = row_of(&import.path, order) else { continue };
            if height(to) > height(from) {
                let path = import.path.join("::");
                wrong.push(format!("{}: {from} is below {to} ({path})", place(import.line)));
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
fn design_md_names_every_crate_and_every_folder_of_one() {
    let mut found = BTreeSet::from(["src".to_owned()]);
    let manifest = std::fs::read_to_string(root().join("Cargo.toml")).expect("the workspace");
    let members =
        manifest.lines().filter_map(|line| line.trim().strip_prefix("\"crates/")?.strip_suffix("\","));
    for name in members {
        let source = root().join("crates").join(name).join("src");
        let entries = std::fs::read_dir(source).expect("a crate has sources");
        let entries: Vec<_> = entries.map(|entry| entry.expect("a readable folder").path()).collect();
        let is_root = entries.iter().any(|path| path.is_file() && !path.ends_with("lib.rs"));
        found.extend(is_root.then(|| format!("crates/{name}")));
        let folders = entries.iter().filter(|path| path.join("mod.rs").is_file());
        let folders = folders.map(|path| path.file_name().expect("a name").to_string_lossy().into_owned());
        // A folder of a crate with a row is a part of that crate, unless it has a row of its own.
        let rows = order();
        found.extend(
            folders
                .map(|folder| format!("crates/{name}/{folder}"))
                .filter(|folder| !is_root || rows.contains(folder)),
        );
    }
    for entry in std::fs::read_dir(root().join(SHIM)).expect("the shim has sources") {
        let path = entry.expect("a readable folder").path();
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        // All its files but the root are in folders.
        found.extend((name != "lib.rs").then(|| format!("{SHIM}/{name}")));
    }
    assert_eq!(order().into_iter().collect::<BTreeSet<_>>(), found);
    assert_eq!(order().len(), found.len(), "a folder has two rows");
}

#[test]
fn each_folder_opens_with_what_it_holds_and_changes() {
    for (file, text) in sources().iter().filter(|(file, _)| file.ends_with("mod.rs")) {
        let docs = text.lines().take_while(|line| line.starts_with("//! ")).count();
        assert_eq!(docs, 2, "{} opens with two lines", file.display());
    }
}

#[test]
fn each_folder_imports_only_folders_below_it() {
    let wrong = against_the_order(&sources(), &order());
    assert!(wrong.is_empty(), "{} imports against the order:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn no_files_import_each_other_in_a_circle() {
    let mut sources = sources();
    sources.extend(rust_files(&root().join("templates")));
    let circles = circles(&sources);
    assert!(circles.is_empty(), "{circles:#?}");
}

/// Asserts that a crate's sources, without tests and these files, contain none of some words.
fn assert_without(krate: &str, words: &[&str], allowed: &[&str]) {
    let files = rust_files(&root().join("crates").join(krate).join("src"));
    assert!(files.len() > 10, "{krate} has {} files", files.len());
    let checked = files.iter().filter(|(file, _)| !allowed.iter().any(|allowed| file.ends_with(allowed)));
    for (file, text) in checked {
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        let found: Vec<_> = words.iter().filter(|word| code.contains(**word)).collect();
        assert!(found.is_empty(), "{}: {found:?}", file.display());
    }
}

#[test]
fn crates_have_the_effects_that_design_md_states() {
    let files = ["fs_err", "std::fs", "regular_file", ".is_file(", ".exists("];
    let environment = ["std::env"];
    let processes = ["Command::new", "process::Child"];
    assert_without("plan", &[&files[..], &environment, &processes].concat(), &["clean_env.rs"]);
    assert_without("report", &[&files[..], &environment, &processes].concat(), &["github.rs"]);
    assert_without("judge", &processes, &[]);
    for printing in ["support", "gpu", "plan", "judge", "run", "report"] {
        assert_without(printing, &["println!(", "io::stdout()"], &[]);
    }
}

#[test]
fn a_planted_import_against_the_order_is_found_with_file_and_line() {
    let order = ["src", "crates/run/archive", "crates/run", "crates/plan"].map(str::to_owned);
    let planted = |file: &str, text: &str| against_the_order(&tree(&[(file, text)]), &order);
    let run = "crates/run/src/b.rs";
    assert_eq!(
        planted(run, "use crate::c;\nfn f() { super::c::g(); memprof_plan::x() }"),
        Vec::<String>::new()
    );
    assert_eq!(planted("crates/run/src/archive/a.rs", "use crate::b;"), Vec::<String>::new());
    assert_eq!(
        planted("src/commands/run.rs", "use crate::x; use memprof_run::archive::a;"),
        Vec::<String>::new()
    );
    for (text, line, path) in [
        ("use std::fmt;\nuse crate::archive::a;", 2, "run::archive::a"),
        ("fn f() {\n    crate::archive::a::g()\n}", 2, "run::archive::a::g"),
        ("use crate::{c, archive::{a, d as e}};", 1, "run::archive::a"),
        ("use super::archive::a;", 1, "run::archive::a"),
        ("mod tests {\n    use super::super::archive::a;\n}", 2, "run::archive::a"),
        ("m! {\n\n crate::archive::a }", 3, "run::archive::a"),
    ] {
        let wrong = planted(run, text);
        let found = format!("{run}:{line}: crates/run is below crates/run/archive ({path})");
        assert_eq!(wrong.first(), Some(&found), "{text}");
    }
    assert_eq!(
        planted("crates/plan/src/a.rs", "\nuse memprof_run::b;"),
        ["crates/plan/src/a.rs:2: crates/plan is below crates/run (run::b)"]
    );
    assert_eq!(
        planted("crates/attic/src/a.rs", ""),
        ["crates/attic/src/a.rs:1: DESIGN.md has no row for it"]
    );
}

#[test]
fn a_planted_import_against_the_order_of_the_shim_is_found_too() {
    let order = order();
    let planted = |file: &str, text: &str| against_the_order(&tree(&[(file, text)]), &order);
    let lock = "templates/memprof/platform/lock.rs";
    assert_eq!(planted(lock, "use super::untracked;\nuse crate::platform::process;"), Vec::<String>::new());
    assert_eq!(
        planted(lock, "\nuse crate::recorder::marks::Mark;"),
        [format!("{lock}:2: {SHIM}/platform is below {SHIM}/recorder (memprof::recorder::marks::Mark)")]
    );
}

#[test]
fn a_planted_circle_is_found() {
    let sources = tree(&[
        ("crates/run/src/x.rs", "use crate::y::f;"),
        ("crates/run/src/y.rs", "use crate::z;"),
        ("crates/run/src/z.rs", "fn g() { super::x::h() }"),
        ("crates/run/src/w.rs", "use crate::x;"),
        ("crates/run/src/lib.rs", "pub mod x;"),
    ]);
    let circle: BTreeSet<PathBuf> =
        ["x", "y", "z"].map(|name| format!("crates/run/src/{name}.rs").into()).into();
    assert_eq!(circles(&sources), [circle]);
}
