//! Finds the source files of a crate as the compiler does: from its root along `mod name;`,
//! `#[path]` and `include!`.
//!
//! Nothing is expanded: a `cfg` hides no module, and the output of macros is not seen. The
//! exceptions are macros whose arguments are items under conditions (`cfg_if!`, a crate's own
//! `cfg_feature! { … }`).

use std::collections::HashSet;

use camino::{Utf8Path, Utf8PathBuf};
use syn::visit::{self, Visit};

use crate::inject::source_edit::{SourceText, forget_places};
use memprof_support::paths::without_dots;
use memprof_support::regular_file::followed;

/// A file of a crate.
pub struct ModuleFile<'a> {
    /// The path, without `.` and `..`.
    pub path: &'a Utf8Path,
    /// The module, from the crate's root on. Empty for the root itself.
    pub module: &'a [String],
    pub source: SourceText<'a>,
    /// The items, or why it cannot be parsed.
    pub items: Result<syn::File, syn::Error>,
}

/// A module's file, and the folder of its submodules' files.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct ModuleLocation {
    file: Utf8PathBuf,
    folder: Utf8PathBuf,
}

/// Visits every file of the crate with this root once. `package` is the folder of its manifest.
/// Missing files are skipped: a build may create them, or a condition may exclude them.
pub(crate) fn visit_files(root: &Utf8Path, package: &Utf8Path, visit: &mut dyn FnMut(&ModuleFile<'_>)) {
    visit_some(root, package, &|_| true, visit);
}

/// Visits the files of the crate that are wanted. Others are parsed only if they may lead to more files.
pub(crate) fn visit_some(
    root: &Utf8Path,
    package: &Utf8Path,
    is_wanted: &dyn Fn(&Utf8Path) -> bool,
    visit: &mut dyn FnMut(&ModuleFile<'_>),
) {
    let mut visited = HashSet::new();
    let mut seen = HashSet::new();
    let root = ModuleLocation { file: without_dots(root), folder: folder_of(root).to_owned() };
    let mut pending = vec![(root, Vec::new())];
    // The first path that leads to a file determines its module.
    while let Some((place, module)) = pending.pop() {
        if seen.contains(&place) {
            continue;
        }
        let Ok(text) = followed::text(&place.file) else { continue };
        let is_wanted = is_wanted(&place.file);
        if !is_wanted && !may_have_files(&text) {
            seen.insert(place);
            continue;
        }
        let source = SourceText::new(&text);
        let file = ModuleFile { path: &place.file, module: &module, source, items: source.parse() };
        if is_wanted && visited.insert(place.file.clone()) {
            visit(&file);
        }
        if let Ok(items) = &file.items {
            let mut finder = ModuleFinder {
                file_folder: folder_of(&place.file),
                package,
                folder: place.folder.clone(),
                is_inline: false,
                module: module.clone(),
                found: Vec::new(),
            };
            finder.visit_file(items);
            finder.found.reverse();
            pending.append(&mut finder.found);
        }
        drop(file);
        forget_places();
        seen.insert(place);
    }
}

/// Whether a text may name other files of its crate: it has an `include!`, or a `mod` whose next sign is a semicolon.
fn may_have_files(text: &str) -> bool {
    let after = |word: &'static str| text.match_indices(word).map(move |(at, word)| &text[at + word.len()..]);
    let is_macro = |rest: &str| rest.trim_start().starts_with(['!', '/']);
    let is_word = |rest: &str| !rest.starts_with(|sign: char| sign.is_alphanumeric() || sign == '_');
    let ends = |rest: &str| rest.find([';', '{', '}']).is_some_and(|at| rest.as_bytes()[at] == b';');
    after("include").any(is_macro) || after("mod").any(|rest| is_word(rest) && ends(rest))
}

/// Returns the items in the arguments of a macro for conditions; none for other macros, which may
/// do anything with them.
pub(crate) fn conditional_items(call: &syn::Macro) -> Vec<syn::Item> {
    let name = call.path.segments.last().map(|segment| segment.ident.to_string()).unwrap_or_default();
    let mut items = Vec::new();
    if name.starts_with("cfg") || name == "match_cfg" {
        items_in(call.tokens.clone(), &mut items);
    }
    items
}

fn items_in(tokens: proc_macro2::TokenStream, into: &mut Vec<syn::Item>) {
    if let Ok(file) = syn::parse2::<syn::File>(tokens.clone()) {
        into.extend(file.items);
        return;
    }
    for tree in tokens {
        if let proc_macro2::TokenTree::Group(group) = tree
            && group.delimiter() == proc_macro2::Delimiter::Brace
        {
            items_in(group.stream(), into);
        }
    }
}

/// Finds the modules of one file that have files of their own.
struct ModuleFinder<'a> {
    /// The folder of the file. `include!` and most `#[path]` are relative to it.
    file_folder: &'a Utf8Path,
    package: &'a Utf8Path,
    /// The folder of the files of modules declared at this point.
    folder: Utf8PathBuf,
    /// Whether this point is inside of a `mod name { … }`.
    is_inline: bool,
    /// The module at this point.
    module: Vec<String>,
    found: Vec<(ModuleLocation, Vec<String>)>,
}

impl ModuleFinder<'_> {
    /// Returns the folder that a `#[path]` at this point is relative to.
    fn base_of_paths(&self) -> &Utf8Path {
        if self.is_inline { &self.folder } else { self.file_folder }
    }

    /// Adds a file that is named outright. Its modules' files are beside it, as for a `mod.rs`.
    fn add_named(&mut self, file: &Utf8Path) {
        let file = without_dots(file);
        self.found.push((ModuleLocation { folder: folder_of(&file).to_owned(), file }, self.module.clone()));
    }
}

impl<'ast> Visit<'ast> for ModuleFinder<'_> {
    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        let name = module.ident.to_string();
        let name = name.trim_start_matches("r#");
        let paths = paths(&module.attrs);
        self.module.push(name.to_owned());
        let Some((_, items)) = &module.content else {
            for path in paths {
                let file = self.base_of_paths().join(path);
                self.add_named(&file);
            }
            // Added even if there is a `#[path]`, because its condition may not hold.
            let folder = self.folder.join(name);
            let files = [self.folder.join(format!("{name}.rs")), folder.join("mod.rs")];
            let place =
                |file: Utf8PathBuf| ModuleLocation { file: without_dots(&file), folder: folder.clone() };
            self.found.extend(files.map(|file| (place(file), self.module.clone())));
            self.module.pop();
            return;
        };
        let folder = match paths.first() {
            Some(path) => self.base_of_paths().join(path),
            None => self.folder.join(name),
        };
        let outer = (std::mem::replace(&mut self.folder, folder), self.is_inline);
        self.is_inline = true;
        for item in items {
            self.visit_item(item);
        }
        (self.folder, self.is_inline) = outer;
        self.module.pop();
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        if call.path.is_ident("include") {
            if let Some(path) = included(&call.tokens, self.package) {
                let file = self.file_folder.join(path);
                self.add_named(&file);
            }
            return;
        }
        for item in conditional_items(call) {
            self.visit_item(&item);
        }
        visit::visit_macro(self, call);
    }
}

/// Returns the values of `#[path = "…"]` and `#[cfg_attr(…, path = "…")]`.
fn paths(attributes: &[syn::Attribute]) -> Vec<String> {
    let mut paths = Vec::new();
    for attribute in attributes {
        match &attribute.meta {
            syn::Meta::NameValue(pair) if pair.path.is_ident("path") => paths.extend(text(&pair.value)),
            syn::Meta::List(list) if list.path.is_ident("cfg_attr") => {
                let conditional = list.parse_args_with(
                    syn::punctuated::Punctuated::<syn::Meta, syn::Token![,]>::parse_terminated,
                );
                for meta in conditional.into_iter().flatten().skip(1) {
                    if let syn::Meta::NameValue(pair) = meta
                        && pair.path.is_ident("path")
                    {
                        paths.extend(text(&pair.value));
                    }
                }
            }
            _ => {}
        }
    }
    paths
}

fn text(value: &syn::Expr) -> Option<String> {
    match value {
        syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) => Some(text.value()),
        _ => None,
    }
}

/// Returns the path of an `include!`: a text, or `concat!` of texts and
/// `env!("CARGO_MANIFEST_DIR")`.
fn included(tokens: &proc_macro2::TokenStream, package: &Utf8Path) -> Option<String> {
    let parts = match syn::parse2::<syn::Expr>(tokens.clone()).ok()? {
        syn::Expr::Macro(call) if call.mac.path.is_ident("concat") => call
            .mac
            .parse_body_with(syn::punctuated::Punctuated::<syn::Expr, syn::Token![,]>::parse_terminated)
            .ok()?,
        one => std::iter::once(one).collect(),
    };
    let part = |part: &syn::Expr| match part {
        syn::Expr::Macro(call) if call.mac.path.is_ident("env") => {
            let name = call.mac.parse_body::<syn::LitStr>().ok()?.value();
            (name == "CARGO_MANIFEST_DIR").then(|| package.to_string())
        }
        other => text(other),
    };
    parts.iter().map(part).collect()
}

fn folder_of(file: &Utf8Path) -> &Utf8Path {
    file.parent().unwrap_or(Utf8Path::new(""))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the files that are found from `src/lib.rs`, sorted.
    fn reached(files: &[(&str, &str)]) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        let package = Utf8Path::from_path(folder.path()).unwrap();
        for (path, text) in files {
            let path = package.join(path);
            fs_err::create_dir_all(path.parent().unwrap()).unwrap();
            fs_err::write(path, text).unwrap();
        }
        let root = package.join("src/lib.rs");
        let mut reached = Vec::new();
        visit_files(&root, package, &mut |file| {
            reached.push(file.path.strip_prefix(package).unwrap().to_string());
        });
        reached.sort();
        for (path, _) in files {
            let wanted = package.join(path);
            let mut found = Vec::new();
            visit_some(&root, package, &|file| file == wanted, &mut |file| found.push(file.path.to_owned()));
            let expected = reached.iter().any(|reached| reached == path).then_some(wanted.clone());
            assert_eq!(found, Vec::from_iter(expected), "{path} alone");
        }
        reached
    }

    #[test]
    fn only_files_that_may_lead_to_others_are_parsed_for_them() {
        for text in ["mod a;", "pub(crate) mod r#type;", "include!(\"b.rs\");", "x! { mod a { mod b; } }"] {
            assert!(may_have_files(text), "{text}");
        }
        let others = [
            "",
            "fn model() { 1; }",
            "mod tests { fn a() { b(); } }",
            "// a mod\nfn a() {}",
            "// the files include modes; models;\nconst A: &str = include_str!(\"a\");",
        ];
        for text in others {
            assert!(!may_have_files(text), "{text}");
        }
    }

    #[test]
    fn modules_lie_where_the_compiler_looks_for_them() {
        let files = [
            ("src/lib.rs", "mod a; mod b; pub(crate) mod r#type; mod inline { mod c; } fn f() { mod d; }"),
            ("src/a.rs", "mod e;"),
            ("src/a/e.rs", ""),
            ("src/e.rs", "no module of anything"),
            ("src/b/mod.rs", "mod f; #[path = \"other.rs\"] mod g; mod inline { #[path = \"h.rs\"] mod h; }"),
            ("src/b/f.rs", ""),
            ("src/b/other.rs", "mod i;"),
            ("src/b/i.rs", ""),
            ("src/b/inline/h.rs", ""),
            ("src/type.rs", ""),
            ("src/inline/c.rs", ""),
            ("src/d.rs", ""),
        ];
        let mut expected: Vec<&str> = files.iter().map(|(path, _)| *path).collect();
        expected.retain(|path| *path != "src/e.rs");
        expected.sort_unstable();
        assert_eq!(reached(&files), expected);
    }

    #[test]
    fn conditions_hide_nothing() {
        let files = [
            (
                "src/lib.rs",
                "#[cfg_attr(unix, path = \"../unix.rs\")] mod system;
                 cfg_if::cfg_if! { if #[cfg(unix)] { mod one; } else { mod other; } }
                 cfg_net! { pub mod net; }
                 anything! { mod unseen; }",
            ),
            ("unix.rs", ""),
            ("src/system.rs", ""),
            ("src/one.rs", ""),
            ("src/other.rs", ""),
            ("src/net.rs", ""),
            ("src/unseen.rs", ""),
        ];
        assert_eq!(
            reached(&files),
            ["src/lib.rs", "src/net.rs", "src/one.rs", "src/other.rs", "src/system.rs", "unix.rs"]
        );
    }

    #[test]
    fn files_know_their_modules() {
        let folder = tempfile::tempdir().unwrap();
        let package = Utf8Path::from_path(folder.path()).unwrap();
        for (path, text) in [
            ("src/lib.rs", "mod a { pub mod b; } #[path = \"other.rs\"] mod c; include!(\"parts.rs\");"),
            ("src/a/b.rs", "mod r#type;"),
            ("src/a/b/type.rs", ""),
            ("src/other.rs", ""),
            ("src/parts.rs", ""),
        ] {
            fs_err::create_dir_all(package.join(path).parent().unwrap()).unwrap();
            fs_err::write(package.join(path), text).unwrap();
        }
        let mut modules = Vec::new();
        visit_files(&package.join("src/lib.rs"), package, &mut |file| {
            modules.push((file.path.file_name().unwrap().to_owned(), file.module.join("::")));
        });
        let expected = [
            ("lib.rs", ""),
            ("b.rs", "a::b"),
            ("type.rs", "a::b::type"),
            ("other.rs", "c"),
            ("parts.rs", ""),
        ];
        assert_eq!(modules, expected.map(|(file, module)| (file.to_owned(), module.to_owned())));
    }

    #[test]
    fn included_files_belong_to_it() {
        let files = [
            (
                "src/lib.rs",
                "include!(\"parts/a.rs\"); include!(concat!(env!(\"CARGO_MANIFEST_DIR\"), \"/b.rs\"));
                 include!(concat!(env!(\"OUT_DIR\"), \"/made.rs\"));",
            ),
            ("src/parts/a.rs", "mod c;"),
            ("src/parts/c.rs", "mod lib; #[path = \"../lib.rs\"] mod again;"),
            ("b.rs", ""),
        ];
        assert_eq!(reached(&files), ["b.rs", "src/lib.rs", "src/parts/a.rs", "src/parts/c.rs"]);
    }
}
