//! The crate `memprof` for ordinary builds has the same items as the shim, which replaces it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use quote::ToTokens;
use syn::{ImplItem, Item, ReturnType, Visibility};
use walkdir::WalkDir;

use crate::support::skip;

/// What users may call: functions, macros, types with their fields, variants, methods and traits. Each signature is text.
fn public_items(folder: &Path) -> BTreeSet<String> {
    let mut items = BTreeSet::new();
    // Internal types of other modules may have the same name.
    let mut exported: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for item in parsed(&folder.join("lib.rs")).items {
        match item {
            Item::Use(one) if is_public(&one.vis) && !is_hidden(&one.attrs) => {
                let path = one.tree.to_token_stream().to_string();
                let (module, names) = match path.split_once(" :: {") {
                    Some(group) => group,
                    None => path.rsplit_once(" :: ").expect("it names a module"),
                };
                let module = module.replace(" :: ", "/");
                let names = names.split(|character: char| !character.is_alphanumeric() && character != '_');
                exported.entry(module).or_default().extend(names.map(str::to_owned));
            }
            Item::Fn(one) if is_public(&one.vis) && !is_hidden(&one.attrs) => {
                items.insert(signature("", &one.sig));
            }
            other => add(&mut items, &other, &BTreeSet::new()),
        }
    }
    for path in files(folder) {
        let module = path.strip_prefix(folder).unwrap().with_extension("");
        if module != Path::new("lib") {
            let names = exported.remove(module.to_str().unwrap()).unwrap_or_default();
            parsed(&path).items.iter().for_each(|item| add(&mut items, item, &names));
        }
    }
    assert!(exported.is_empty(), "no files for {exported:?}");
    items
}

/// The files of a folder and of those inside, also of those behind a link.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries =
        WalkDir::new(folder).follow_links(true).into_iter().map(|entry| entry.expect("a readable folder"));
    entries.filter(|entry| entry.file_type().is_file()).map(walkdir::DirEntry::into_path).collect()
}

fn parsed(path: &Path) -> syn::File {
    syn::parse_file(&fs_err::read_to_string(path).unwrap()).unwrap()
}

fn is_public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

fn is_hidden(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|one| one.to_token_stream().to_string().contains("hidden"))
}

/// A function's signature without the names of its arguments and without `const`.
fn signature(of: &str, signature: &syn::Signature) -> String {
    let arguments: Vec<String> = signature
        .inputs
        .iter()
        .map(|argument| match argument {
            syn::FnArg::Receiver(receiver) => {
                receiver.to_token_stream().to_string().replace("mut self", "self")
            }
            syn::FnArg::Typed(typed) => typed.ty.to_token_stream().to_string(),
        })
        .collect();
    let generics = &signature.generics;
    let condition = generics.where_clause.to_token_stream();
    let output = match &signature.output {
        ReturnType::Default => String::new(),
        ReturnType::Type(_, output) => output.to_token_stream().to_string(),
    };
    let (is_unsafe, generics) = (signature.safety.to_token_stream(), generics.to_token_stream());
    format!(
        "{is_unsafe} fn {of}{}{generics}({}) -> {output} {condition}",
        signature.ident,
        arguments.join(", ")
    )
}

fn add(items: &mut BTreeSet<String>, item: &Item, exported: &BTreeSet<String>) {
    match item {
        Item::Macro(one) if !is_hidden(&one.attrs) => {
            if let Some(name) = one.ident.as_ref().filter(|_| one.attrs.iter().any(exports_macro)) {
                items.insert(format!("macro {name}"));
            }
        }
        Item::Fn(one) if exported.contains(&one.sig.ident.to_string()) => {
            items.insert(signature("", &one.sig));
        }
        Item::Struct(one) if exported.contains(&one.ident.to_string()) => {
            let fields = one.fields.iter().filter(|field| is_public(&field.vis));
            let fields = fields.filter_map(|field| Some((field.ident.as_ref()?, field.ty.to_token_stream())));
            items.insert(format!("struct {}{}", one.ident, one.generics.to_token_stream()));
            items.extend(fields.map(|(name, of)| format!("field {}.{name}: {of}", one.ident)));
            items.extend(derived(&one.ident, &one.attrs));
        }
        Item::Enum(one) if exported.contains(&one.ident.to_string()) => {
            let variants = one.variants.iter().map(|variant| variant.ident.to_string());
            items.extend(variants.map(|variant| format!("variant {}::{variant}", one.ident)));
            items.extend(derived(&one.ident, &one.attrs));
        }
        Item::Impl(one) => add_impl(items, one, exported),
        _ => {}
    }
}

fn exports_macro(attribute: &syn::Attribute) -> bool {
    attribute.path().is_ident("macro_export")
}

/// Traits that users may rely on. Whether they are derived or written makes no difference.
fn derived(name: &syn::Ident, attributes: &[syn::Attribute]) -> Vec<String> {
    let lists = attributes.iter().filter(|attribute| attribute.path().is_ident("derive"));
    let texts = lists.map(|list| list.meta.require_list().unwrap().tokens.to_string());
    texts.flat_map(|text| text.split(", ").map(|one| format!("{name}: {one}")).collect::<Vec<_>>()).collect()
}

fn add_impl(items: &mut BTreeSet<String>, one: &syn::ItemImpl, exported: &BTreeSet<String>) {
    let of = one.self_ty.to_token_stream().to_string();
    let name: String = of.trim_start_matches("& 'a ").chars().take_while(|it| it.is_alphanumeric()).collect();
    if !exported.contains(&name) {
        return;
    }
    if let Some((path, _)) = &one.trait_ {
        let last = path.segments.last().expect("a trait has a name");
        items.insert(format!("{of}: {}", last.to_token_stream()));
        return;
    }
    for item in &one.items {
        if let ImplItem::Fn(method) = item
            && is_public(&method.vis)
            && !is_hidden(&method.attrs)
        {
            items.insert(signature(&format!("{of}::"), &method.sig));
        }
    }
}

#[test]
fn everything_that_users_may_call_is_in_the_shim_and_in_the_crate() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = root.join("crates/memprof/src");
    if !folder.is_dir() {
        return skip("crates/memprof is not here; it is a package of its own");
    }
    let shim = public_items(&root.join("templates/memprof"));
    let ordinary = public_items(&folder);
    let known = ["macro checkpoint", "field Usage.heap: Memory", "variant Kind::Gradient", "Scope: Drop"];
    for item in known {
        assert!(shim.contains(item), "{item} is not in {shim:#?}");
    }
    let only_shim: Vec<&String> = shim.difference(&ordinary).collect();
    let only_ordinary: Vec<&String> = ordinary.difference(&shim).collect();
    assert!(only_shim.is_empty() && only_ordinary.is_empty(), "{only_shim:#?} {only_ordinary:#?}");
}

#[test]
fn what_the_shim_and_the_crate_share_exists_once() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = root.join("crates/memprof/src");
    if !folder.is_dir() {
        return skip("crates/memprof is not here; it is a package of its own");
    }
    let shared = root.join("templates/memprof/shared");
    assert_eq!(fs_err::canonicalize(folder.join("shared")).unwrap(), fs_err::canonicalize(&shared).unwrap());
    let texts = |folder: &Path| -> BTreeMap<String, PathBuf> {
        let files = files(folder).into_iter().filter(|path| path.extension().is_some_and(|it| it == "rs"));
        files.map(|path| (fs_err::read_to_string(&path).unwrap(), path)).collect()
    };
    let shim = texts(&root.join("templates/memprof"));
    let copies: Vec<_> = texts(&folder)
        .into_iter()
        .filter(|(text, path)| shim.contains_key(text) && !path.starts_with(folder.join("shared")))
        .collect();
    assert!(copies.is_empty(), "move these to {}: {copies:#?}", shared.display());
}
