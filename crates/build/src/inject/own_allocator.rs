//! Finds the global allocators that the repository's code declares, and wraps each in the shim's
//! allocator without adding lines. `static A: T = value;` becomes `static A: Heap<T> =
//! Heap::new(value);`, which counts and forwards to `T`.
//!
//! If that is impossible, heap metrics are unavailable, and this module says why: a macro creates
//! the static, a dependency declares it, or the code does not compile with another type.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context;
use camino::{Utf8Path, Utf8PathBuf};
use cargo_metadata::diagnostic::Diagnostic;
use cargo_metadata::{CrateType, Edition, Metadata, TargetKind};
use proc_macro2::{Span, TokenStream, TokenTree};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use crate::checkout::injected_files::InjectedFiles;
use crate::inject::checkout_edits::AddedFiles;
use crate::inject::module_files::{self, ModuleFile};
use crate::inject::source_edit::SourceText;
use memprof_support::paths;
use memprof_support::regular_file::followed;

/// The text around the type and around the value.
type Wrapping = [[&'static str; 2]; 2];

/// The text in edition 2015.
///
/// The path is relative because in edition 2015 only a relative path reaches a crate from
/// `--extern`. No crate of the repository has this second name of the shim's crate.
pub(crate) const WRAPPING: Wrapping = [["memprof_shim::Heap<", ">"], ["memprof_shim::Heap::new(", ")"]];

/// The same since edition 2018, where a path without `::` does not reach it with `#![no_implicit_prelude]`. The space
/// keeps it apart from the colon before the type.
pub(crate) const WRAPPING_2018: Wrapping =
    [[" ::memprof_shim::Heap<", ">"], [" ::memprof_shim::Heap::new(", ")"]];

/// The attribute. Only files that contain this text are examined.
const ATTRIBUTE: &str = "global_allocator";

/// Files whose allocators are not wrapped, with the reason. Paths are relative to the checkout's
/// root.
pub(crate) type RefusedFiles = BTreeMap<Utf8PathBuf, String>;

/// The global allocators of a checkout's workspace.
#[derive(Clone, Debug, Default)]
pub(crate) struct OwnAllocators {
    checkout: Utf8PathBuf,
    declarations: BTreeMap<Utf8PathBuf, Vec<Declaration>>,
    /// The files of each target that declare an allocator, by the target's root. All paths are
    /// relative to the checkout's root.
    files_by_root: BTreeMap<Utf8PathBuf, BTreeSet<Utf8PathBuf>>,
    /// The root of each library, by the compiler's name for it.
    libraries: BTreeMap<String, Utf8PathBuf>,
    edited: BTreeMap<Utf8PathBuf, String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Declaration {
    line: usize,
    /// Why it is not wrapped.
    unwrapped: Option<String>,
}

/// Looks for global allocators in all targets of the workspace, and wraps those that it can, except
/// in the refused files.
pub(crate) fn find(
    metadata: &Metadata,
    checkout: &Utf8Path,
    refused: &RefusedFiles,
) -> anyhow::Result<OwnAllocators> {
    let mut found = OwnAllocators { checkout: checkout.to_owned(), ..OwnAllocators::default() };
    let sources = Sources::in_checkout(checkout)?;
    let mentions = sources.mentions()?;
    let is_named = sources.is_any_named(&mentions)?;
    // A package may reach a file through a symbolic link.
    let is_mention = |path: &Utf8Path| path.canonicalize_utf8().is_ok_and(|path| mentions.contains(&path));
    let targets = metadata
        .packages
        .iter()
        .flat_map(|package| package.targets.iter().map(move |target| (package, target)))
        .filter(|(_, target)| !target.kind.contains(&TargetKind::CustomBuild));
    for (package, target) in targets {
        let Ok(root) = target.src_path.strip_prefix(checkout) else { continue };
        if target.crate_types.iter().any(|kind| !matches!(kind, CrateType::Bin)) {
            found.libraries.insert(target.name.replace('-', "_"), root.to_owned());
        }
        // Files that no other file names belong only to the target whose root they are.
        if mentions.is_empty() || !is_named && !is_mention(&target.src_path) {
            continue;
        }
        // The executable would get the shim, and with it the place for the build key, from the
        // shared library.
        let shared = target.crate_types == [CrateType::DyLib];
        let wrapping = if target.edition == Edition::E2015 { WRAPPING } else { WRAPPING_2018 };
        let package = package.manifest_path.parent().unwrap_or(checkout);
        module_files::visit_some(&target.src_path, package, &is_mention, &mut |file| {
            let Ok(path) = file.path.strip_prefix(checkout) else { return };
            found.take(root, path, file, wrapping, refused);
            if shared {
                found.refuse(path, "is in a library that is only built as a dylib");
            }
        });
    }
    Ok(found)
}

/// Returns why an executable of an external crate has no heap metrics.
pub(crate) fn outside() -> String {
    "another #[global_allocator] is in use, and external crates cannot wrap one".to_owned()
}

/// The Rust sources of a checkout, without those of target folders. All paths are real ones.
struct Sources {
    files: Vec<Utf8PathBuf>,
    /// Where the symbolic links lead.
    linked: BTreeSet<Utf8PathBuf>,
}

impl Sources {
    fn in_checkout(checkout: &Utf8Path) -> anyhow::Result<Self> {
        let mut sources = Self { files: Vec::new(), linked: BTreeSet::new() };
        let entries = walkdir::WalkDir::new(checkout.canonicalize_utf8()?).into_iter();
        for entry in entries.filter_entry(|entry| !is_of_git_or_cargo(entry)) {
            let entry = entry.context("the checkout")?;
            let is_source = entry.path().extension().is_some_and(|extension| extension == "rs");
            if entry.path_is_symlink() {
                // A link may lead nowhere. What it leads to in the checkout is walked by itself.
                let real = entry.path().canonicalize().ok();
                sources.linked.extend(real.and_then(|path| Utf8PathBuf::from_path_buf(path).ok()));
            } else if is_source && entry.file_type().is_file() {
                sources.files.push(paths::utf8(entry.into_path())?);
            }
        }
        Ok(sources)
    }

    /// Returns the files that contain the attribute's name. Most workspaces have none, and then no file
    /// is parsed.
    fn mentions(&self) -> anyhow::Result<BTreeSet<Utf8PathBuf>> {
        let finder = memchr::memmem::Finder::new(ATTRIBUTE);
        let mut mentions = BTreeSet::new();
        for path in &self.files {
            if finder.find(&followed::read(path)?).is_some() {
                mentions.insert(path.clone());
            }
        }
        Ok(mentions)
    }

    /// Whether another file names one of these as a module, or by its path. Through a link, a file has any name.
    fn is_any_named(&self, files: &BTreeSet<Utf8PathBuf>) -> anyhow::Result<bool> {
        if files.is_empty() {
            return Ok(false);
        }
        if files.iter().flat_map(|file| file.ancestors()).any(|path| self.linked.contains(path)) {
            return Ok(true);
        }
        for path in &self.files {
            let text = followed::read(path)?;
            if files.iter().any(|file| file != path && is_named(&text, file)) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Whether this is git's folder or a target folder, in which cargo writes the tag. A module or a package may have the
/// name `target`, too.
fn is_of_git_or_cargo(entry: &walkdir::DirEntry) -> bool {
    let is_target = || entry.file_name() == "target" && entry.path().join("CACHEDIR.TAG").is_file();
    entry.depth() > 0 && (entry.file_name() == ".git" || is_target())
}

fn is_named(text: &[u8], file: &Utf8Path) -> bool {
    let name = match file.file_stem() {
        Some("mod") => file.parent().and_then(Utf8Path::file_name),
        stem => stem,
    };
    let Some(name) = name else { return true };
    memchr::memmem::find_iter(text, name).any(|at| {
        let (before, after) = (&text[..at], &text[at + name.len()..]);
        let module = before.strip_suffix(b"r#").unwrap_or(before).trim_ascii_end();
        after.starts_with(b".rs") || after.starts_with(b"/") || module.ends_with(b"mod")
    })
}

impl OwnAllocators {
    fn take(
        &mut self,
        root: &Utf8Path,
        path: &Utf8Path,
        file: &ModuleFile<'_>,
        wrapping: Wrapping,
        refused: &RefusedFiles,
    ) {
        if !self.declarations.contains_key(path) {
            let (declarations, edited) = examine(file, wrapping, refused.get(path));
            self.declarations.insert(path.to_owned(), declarations);
            self.edited.extend(edited.map(|text| (path.to_owned(), text)));
        }
        if !self.declarations[path].is_empty() {
            self.files_by_root.entry(root.to_owned()).or_default().insert(path.to_owned());
        }
    }

    /// Refuses a file. A file of several targets is not wrapped if one of them cannot have it
    /// wrapped.
    fn refuse(&mut self, path: &Utf8Path, why: &str) {
        self.edited.remove(path);
        for declaration in self.declarations.get_mut(path).into_iter().flatten() {
            declaration.unwrapped.get_or_insert_with(|| why.to_owned());
        }
    }

    /// Writes the edited files into the checkout. Returns what was written.
    pub fn write(&self, checkout: &Utf8Path, injected: &mut InjectedFiles) -> anyhow::Result<AddedFiles> {
        let mut injection = AddedFiles::new();
        for (path, text) in &self.edited {
            injected.write(checkout, path, text.as_bytes())?;
            injection.insert(path.clone(), text.clone().into_bytes());
        }
        Ok(injection)
    }

    /// Whether this file has edits. The path is relative to the checkout.
    pub(crate) fn is_edited(&self, path: &Utf8Path) -> bool {
        self.edited.contains_key(path)
    }

    /// Returns the edited files that may have caused a failed build, with the reason: those with
    /// errors, else all, because the code that does not accept another type may be anywhere. If
    /// files were refused before, it also returns all, so that no build is tried more than three
    /// times. Paths in errors are relative to `workspace`.
    pub fn suspects(
        &self,
        errors: &[&Diagnostic],
        workspace: &Utf8Path,
        refused_before: &RefusedFiles,
    ) -> RefusedFiles {
        let file_of = |error: &Diagnostic| {
            let files = error.spans.iter().map(|span| workspace.join(&span.file_name));
            let relative = files.filter_map(|file| Some(file.strip_prefix(&self.checkout).ok()?.to_owned()));
            relative.filter(|file| self.edited.contains_key(file)).collect::<BTreeSet<_>>()
        };
        let reason = |error: &Diagnostic| {
            let message = error.message.lines().next().unwrap_or_default();
            format!("does not compile when wrapped in memprof::Heap ({message})")
        };
        let mut suspects = RefusedFiles::new();
        for &error in errors {
            for file in file_of(error) {
                suspects.entry(file).or_insert_with(|| reason(error));
            }
        }
        if suspects.is_empty() || !refused_before.is_empty() {
            // Without a compiler error, cargo itself failed, and not because of our edits.
            let reason = errors.first().map(|&error| reason(error));
            for file in self.edited.keys().filter(|_| reason.is_some()) {
                suspects.entry(file.clone()).or_insert_with(|| reason.clone().unwrap_or_default());
            }
        }
        suspects
    }

    /// Returns why an executable without heap metrics has none. `root` is its target's root.
    /// `owner` is the compiler's name for the crate with the other allocator; empty for the target
    /// itself.
    pub fn why_absent(&self, root: &Utf8Path, owner: &str) -> String {
        let (root, whose) = match owner {
            "" => (Some(root.strip_prefix(&self.checkout).unwrap_or(root)), String::new()),
            name => (self.libraries.get(name).map(Utf8PathBuf::as_path), format!(" of the crate `{name}`")),
        };
        let Some(root) = root else {
            return format!(
                "the #[global_allocator] is in the crate `{owner}`, which is not a member of the workspace, and \
                 cannot be wrapped"
            );
        };
        let files = self.files_by_root.get(root).into_iter().flatten();
        let declarations = files.flat_map(|file| self.declarations[file].iter().map(move |one| (file, one)));
        let reasons: Vec<String> = declarations
            .filter_map(|(file, declaration)| {
                let why = declaration.unwrapped.as_ref()?;
                Some(format!("the #[global_allocator] at {file}:{} {why}", declaration.line))
            })
            .collect();
        if reasons.is_empty() {
            return format!("the #[global_allocator]{whose} is not in its source; a macro may create it");
        }
        reasons.join("; ")
    }
}

/// Returns the declarations in a file, and its text with allocators wrapped where possible.
fn examine(
    file: &ModuleFile<'_>,
    wrapping: Wrapping,
    refused: Option<&String>,
) -> (Vec<Declaration>, Option<String>) {
    let items = match &file.items {
        Ok(items) => items,
        Err(error) => {
            let line = file.source.line(error.span());
            let unwrapped = Some(format!("is in a file that could not be parsed ({error})"));
            return (vec![Declaration { line, unwrapped }], None);
        }
    };
    let mut finder = AllocatorFinder { source: file.source, found: Vec::new() };
    finder.visit_file(items);
    let mut edits = file.source.edits();
    let mut declarations = Vec::new();
    for AllocatorStatic { line, place } in finder.found {
        let unwrapped = match (refused, place) {
            (Some(reason), _) => Some(reason.clone()),
            (None, None) => Some("is created by a macro, and cannot be wrapped".to_owned()),
            (None, Some(places)) => {
                for (place, [open, close]) in places.into_iter().zip(wrapping) {
                    edits.around(place, open, close);
                }
                None
            }
        };
        declarations.push(Declaration { line, unwrapped });
    }
    let edited = (!edits.is_empty()).then(|| edits.applied());
    (declarations, edited)
}

struct AllocatorStatic {
    line: usize,
    /// The places of the type and of the value. `None` inside of a macro.
    place: Option<[Span; 2]>,
}

struct AllocatorFinder<'a> {
    source: SourceText<'a>,
    found: Vec<AllocatorStatic>,
}

impl<'ast> Visit<'ast> for AllocatorFinder<'_> {
    fn visit_item_static(&mut self, item: &'ast syn::ItemStatic) {
        if item.attrs.iter().any(declares) {
            let place = Some([item.ty.span(), item.expr.span()]);
            self.found.push(AllocatorStatic { line: self.source.line(item.ident.span()), place });
        }
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        let items = module_files::conditional_items(call);
        if items.is_empty() {
            let places = mentions(call.tokens.clone());
            self.found
                .extend(places.map(|place| AllocatorStatic { line: self.source.line(place), place: None }));
        }
        for item in items {
            self.visit_item(&item);
        }
        visit::visit_macro(self, call);
    }
}

/// Whether this is `#[global_allocator]`, with any path, or `#[cfg_attr(…, global_allocator)]`.
fn declares(attribute: &syn::Attribute) -> bool {
    match &attribute.meta {
        syn::Meta::Path(path) => path.segments.last().is_some_and(|name| name.ident == ATTRIBUTE),
        syn::Meta::List(list) if list.path.is_ident("cfg_attr") => {
            mentions(list.tokens.clone()).next().is_some()
        }
        _ => false,
    }
}

/// Returns the places of the attribute's name among tokens.
fn mentions(tokens: TokenStream) -> Box<dyn Iterator<Item = Span>> {
    Box::new(tokens.into_iter().flat_map(|tree| match tree {
        TokenTree::Ident(name) if name == ATTRIBUTE => Box::new(std::iter::once(name.span())),
        TokenTree::Group(group) => mentions(group.stream()),
        _ => Box::new(std::iter::empty()),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn examined(text: &str) -> (Vec<Declaration>, Option<String>) {
        examined_with(text, WRAPPING)
    }

    fn examined_with(text: &str, wrapping: Wrapping) -> (Vec<Declaration>, Option<String>) {
        let source = SourceText::new(text);
        let path = Utf8Path::new("a.rs");
        examine(&ModuleFile { path, module: &[], source, items: source.parse() }, wrapping, None)
    }

    fn wrapped(text: &str) -> String {
        examined(text).1.unwrap_or_else(|| panic!("nothing to wrap in {text}"))
    }

    #[test]
    fn a_file_is_named_as_a_module_or_by_its_path() {
        let named = |text: &str, file: &str| is_named(text.as_bytes(), Utf8Path::new(file));
        for text in ["mod main;", "pub(crate) mod r#main ;", "#[path = \"../src/main.rs\"]", "mod\n    main;"]
        {
            assert!(named(text, "src/main.rs"), "{text}");
        }
        assert!(named("include!(\"../tool/mod.rs\")", "tool/mod.rs"));
        assert!(named("mod tool;", "src/tool/mod.rs"));
        for text in ["fn main() {}", "model::main()", "// the mod's own main"] {
            assert!(!named(text, "src/main.rs"), "{text}");
        }
    }

    /// Returns the metadata of a package with this library.
    fn metadata(checkout: &Utf8Path, library: &str, edition: &str) -> Metadata {
        let metadata = serde_json::json!({
            "packages": [{
                "name": "a", "version": "1.0.0", "id": "a", "dependencies": [], "features": {},
                "manifest_path": checkout.join("Cargo.toml"),
                "targets": [{
                    "name": "a", "kind": ["lib"], "crate_types": ["lib"], "src_path": checkout.join(library),
                    "edition": edition
                }],
            }],
            "workspace_members": ["a"], "resolve": null, "workspace_root": checkout,
            "target_directory": checkout.join("target"), "version": 1,
        });
        serde_json::from_value(metadata).unwrap()
    }

    /// Returns the edited files, if a package has this library.
    fn edited(checkout: &Utf8Path, library: &str) -> Vec<Utf8PathBuf> {
        let metadata = metadata(checkout, library, "2015");
        find(&metadata, checkout, &RefusedFiles::new()).unwrap().edited.into_keys().collect()
    }

    fn with_files(files: &[(&str, &str)]) -> (tempfile::TempDir, Utf8PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = Utf8Path::from_path(folder.path()).unwrap().to_owned();
        for (file, text) in files {
            fs_err::create_dir_all(path.join(file).parent().unwrap()).unwrap();
            fs_err::write(path.join(file), text).unwrap();
        }
        (folder, path)
    }

    const ALLOCATOR: &str = "#[global_allocator] static A: B = B;";

    #[test]
    fn a_module_may_have_the_name_of_cargos_target_folder() {
        let (_folder, checkout) = with_files(&[
            ("src/lib.rs", "mod target;"),
            ("src/target/mod.rs", "mod alloc;"),
            ("src/target/alloc.rs", ALLOCATOR),
            ("target/CACHEDIR.TAG", ""),
            ("target/lib.rs", ALLOCATOR),
        ]);
        assert_eq!(edited(&checkout, "src/lib.rs"), ["src/target/alloc.rs"]);
        assert!(edited(&checkout, "target/lib.rs").is_empty());
    }

    #[test]
    fn an_allocator_is_found_through_links_that_stay_in_the_checkout() {
        let link = |to: &str, at: Utf8PathBuf| std::os::unix::fs::symlink(to, at).unwrap();
        let (_folder, checkout) = with_files(&[("shared/src/lib.rs", ALLOCATOR), ("pkg/Cargo.toml", "")]);
        link("../shared/src", checkout.join("pkg/src"));
        link("..", checkout.join("pkg/circle"));
        assert_eq!(edited(&checkout, "pkg/src/lib.rs"), ["pkg/src/lib.rs"]);

        let (_folder, checkout) = with_files(&[("shared/heap.rs", ALLOCATOR), ("src/lib.rs", "mod memory;")]);
        link("../shared/heap.rs", checkout.join("src/memory.rs"));
        assert_eq!(edited(&checkout, "src/lib.rs"), ["src/memory.rs"], "with another name");

        let (_outside, outside) = with_files(&[("lib.rs", ALLOCATOR)]);
        let (_folder, checkout) = with_files(&[("other.rs", ALLOCATOR)]);
        link(outside.as_str(), checkout.join("src"));
        link("nowhere", checkout.join("absent"));
        assert!(edited(&checkout, "src/lib.rs").is_empty(), "outside of the checkout");

        let (_folder, folder) = with_files(&[("real/src/lib.rs", ALLOCATOR)]);
        link("real", folder.join("checkout"));
        assert_eq!(edited(&folder.join("checkout"), "src/lib.rs"), ["src/lib.rs"]);
    }

    #[test]
    fn type_and_value_are_wrapped_on_their_own_lines() {
        assert_eq!(
            wrapped("#[global_allocator]\nstatic A: a::B<u8> = a::B::new(\n    1,\n);\nfn f() {}"),
            "#[global_allocator]\nstatic A: memprof_shim::Heap<a::B<u8>> = memprof_shim::Heap::new(a::B::new(\n    1,\n));\nfn f() {}"
        );
    }

    #[test]
    fn since_edition_2018_the_path_does_not_need_the_prelude() {
        let (_, text) = examined_with("#[global_allocator] static A:B=B;", WRAPPING_2018);
        let text = text.unwrap();
        assert_eq!(
            text,
            "#[global_allocator] static A: ::memprof_shim::Heap<B>= ::memprof_shim::Heap::new(B);"
        );
        assert!(syn::parse_file(&text).is_ok());

        let (_folder, checkout) = with_files(&[("src/lib.rs", ALLOCATOR)]);
        let texts = |edition: &str| {
            let metadata = metadata(&checkout, "src/lib.rs", edition);
            find(&metadata, &checkout, &RefusedFiles::new()).unwrap().edited.into_values().collect::<String>()
        };
        assert!(!texts("2015").contains("::memprof_shim") && texts("2021").contains(" ::memprof_shim"));
    }

    #[test]
    fn every_way_to_declare_one_is_found() {
        for text in [
            "#[cfg(test)] #[global_allocator] pub(crate) static A: B = B;",
            "/// Documented.\n#[ // spread\n global_allocator\n]\n#[doc(hidden)] static A: B = B;",
            "#[cfg_attr(not(miri), global_allocator)] static A: B = B;",
            "#[cfg_attr(a, cfg_attr(b, doc = \"x\", global_allocator))] static A: B = B;",
            "#[core::prelude::v1::global_allocator] static A: B = B;",
            "mod inner { mod most { #[global_allocator] static A: B = B; } }",
            "const _: () = { #[global_allocator] static A: B = B; };",
            "fn f() { #[global_allocator] static A: B = B; }",
            "cfg_if::cfg_if! { if #[cfg(a)] { #[global_allocator] static A: B = B; } else { fn f() {} } }",
        ] {
            assert!(
                wrapped(text).contains("A: memprof_shim::Heap<B> = memprof_shim::Heap::new(B);"),
                "{text}"
            );
        }
        let both = "#[cfg(a)] #[global_allocator] static A: B = B;\n#[cfg(not(a))] #[global_allocator] static A: C = C;";
        assert_eq!(wrapped(both).matches("Heap<").count(), 2);
    }

    #[test]
    fn what_only_mentions_one_stays() {
        for text in
            ["// #[global_allocator]\nstatic A: B = B;", "const TEXT: &str = \"#[global_allocator]\";"]
        {
            assert_eq!(examined(text), (Vec::new(), None), "{text}");
        }
    }

    #[test]
    fn one_in_a_macro_is_told_with_its_line() {
        let text = "\nmacro_rules! install {\n    ($a:ty) => { #[global_allocator] static A: $a = $a; };\n}";
        let (declarations, edited) = examined(text);
        assert_eq!(edited, None);
        assert_eq!(declarations[0].line, 3);
        assert!(declarations[0].unwrapped.as_ref().unwrap().contains("created by a macro"));
    }

    fn error(file: &str, message: &str) -> Diagnostic {
        let span = serde_json::json!({
            "file_name": file, "byte_start": 0, "byte_end": 1, "line_start": 1, "line_end": 1, "column_start": 1,
            "column_end": 2, "is_primary": true, "text": [], "label": null, "suggested_replacement": null, "expansion": null,
        });
        let error = serde_json::json!({
            "message": message, "code": null, "level": "error", "spans": [span], "children": [], "rendered": null,
        });
        serde_json::from_value(error).unwrap()
    }

    #[test]
    fn after_a_failed_build_the_files_with_errors_are_suspected_or_else_all() {
        let edited = ["a/tests/x.rs", "a/tests/y.rs"].map(|file| (file.into(), "edited".to_owned())).into();
        let allocators = OwnAllocators { checkout: "/w".into(), edited, ..OwnAllocators::default() };
        let suspects = |file: &str, before: &RefusedFiles| {
            let suspects = allocators.suspects(&[&error(file, "mismatched types")], "/w/a".into(), before);
            suspects.into_keys().collect::<Vec<_>>()
        };
        assert_eq!(suspects("tests/x.rs", &RefusedFiles::new()), ["a/tests/x.rs"]);
        assert_eq!(suspects("src/lib.rs", &RefusedFiles::new()), ["a/tests/x.rs", "a/tests/y.rs"]);
        let before = RefusedFiles::from([("a/src/z.rs".into(), "minds".to_owned())]);
        assert_eq!(suspects("tests/x.rs", &before), ["a/tests/x.rs", "a/tests/y.rs"], "the second time all");
        assert!(allocators.suspects(&[], "/w/a".into(), &before).is_empty(), "cargo itself failed");
        assert!(OwnAllocators::default().suspects(&[&error("x.rs", "")], "/w".into(), &before).is_empty());
    }

    #[test]
    fn a_file_that_is_refused_keeps_its_text_and_says_why() {
        let source = SourceText::new("#[global_allocator] static A: B = B;");
        let file = ModuleFile { path: Utf8Path::new("a.rs"), module: &[], source, items: source.parse() };
        let (declarations, edited) = examine(&file, WRAPPING, Some(&"does not compile".to_owned()));
        assert_eq!(edited, None);
        assert_eq!(declarations[0].unwrapped.as_deref(), Some("does not compile"));
    }
}
