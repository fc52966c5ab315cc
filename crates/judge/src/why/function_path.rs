//! Paths of functions as a demangler writes them: `<a::Type<u8> as b::Trait>::f::{{closure}}`.

/// A function that a type has by a trait. The names are the last parts of their paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraitFunction {
    /// The type: `Type`.
    pub of_type: String,
    /// The trait: `Clone`.
    pub of_trait: String,
    /// The function: `clone`.
    pub name: String,
}

impl TraitFunction {
    /// Takes it from `<a::Type<u8> as b::Trait>::f`, or from `a::<impl b::Trait for a::Type<u8>>::f`.
    pub fn of_path(path: &str) -> Option<Self> {
        let path = normalised(path);
        let path = without_closures(&path);
        let (of_type, of_trait, name) = if let Some((_, of)) = path.split_once("<impl ") {
            let (of_trait, rest) = of.split_once(" for ")?;
            let (of_type, name) = rest.rsplit_once(">::")?;
            (of_type, of_trait, name)
        } else {
            let (of_type, rest) = path.strip_prefix('<')?.split_once(" as ")?;
            let (of_trait, name) = rest.split_once(">::")?;
            (of_type, of_trait, name)
        };
        let [of_type, of_trait, name] = [of_type, of_trait, name].map(|path| last_name(path).to_owned());
        Some(Self { of_type, of_trait, name })
    }
}

/// Returns the trait and the function of `b::Trait::f`, which a trait provides for all types.
pub(crate) fn provided(path: &str) -> Option<(String, String)> {
    let path = normalised(path);
    let (of_trait, name) = without_closures(&path).rsplit_once("::")?;
    let is_name = !of_trait.contains(['<', ' ']) && last_name(of_trait).starts_with(char::is_uppercase);
    is_name.then(|| (last_name(of_trait).to_owned(), name.to_owned()))
}

/// Whether a path names this type or function: `a::Map<b::Key>` names `Key`.
pub(crate) fn names(path: &str, name: &str) -> bool {
    path.split(|one: char| !one.is_alphanumeric() && one != '_').any(|part| part == name)
}

/// Returns the function's own name: `f` of `<a::Type as b::Trait>::f::{closure}`.
pub fn own_name(path: &str) -> String {
    let path = normalised(path);
    last_name(without_closures(&path)).to_owned()
}

/// Returns the function's own name with its closures: `f::{closure}` of `a::Type::f::{closure}`.
pub(super) fn own_part(normalised: &str) -> &str {
    let start = without_closures(normalised).rfind("::").map_or(0, |at| at + "::".len());
    &normalised[start..]
}

/// Returns the same behind the function's type, if it has one: `Type::f::{closure}`.
pub(super) fn in_module(normalised: &str) -> String {
    let own = own_part(normalised);
    let before = &normalised[..normalised.len() - own.len()];
    let of_type = TraitFunction::of_path(normalised).map(|function| function.of_type).or_else(|| {
        let of_type = last_name(before.strip_suffix("::")?).trim_matches(['<', '>']);
        of_type.starts_with(char::is_uppercase).then(|| of_type.to_owned())
    });
    of_type.map_or_else(|| own.to_owned(), |of_type| format!("{of_type}::{own}"))
}

fn last_name(path: &str) -> &str {
    let path = path.rsplit("::").next().unwrap_or(path);
    path.trim_start_matches(['&', '*', '(', '[']).trim_start_matches("mut ").trim_start_matches("dyn ")
}

/// Returns the path without the hash of the old mangling and without crates' hashes:
/// `a[1f]::f::h0123456789abcdef` is `a::f`.
pub(crate) fn readable(path: &str) -> String {
    let path = match path.rsplit_once("::h") {
        Some((rest, hash)) if hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()) => rest,
        _ => path,
    };
    let mut text = String::with_capacity(path.len());
    let mut rest = path;
    while let Some(open) = rest.find('[') {
        let (before, from) = rest.split_at(open);
        text.push_str(before);
        let hash = from[1..].split(']').next().unwrap_or_default();
        let follows_name = before.ends_with(|one: char| one.is_alphanumeric() || one == '_');
        let is_hash = !hash.is_empty() && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
        if follows_name && is_hash && from.len() > hash.len() + 1 {
            rest = &from[hash.len() + 2..];
        } else {
            text.push('[');
            rest = &from[1..];
        }
    }
    text.push_str(rest);
    text
}

/// Returns what stays the same when generic arguments and the numbers of closures change:
/// `a::f::<u8>::{closure#1}` and `a::f<u16>::{{closure}}` are `a::f::{closure}`.
pub(crate) fn normalised(path: &str) -> String {
    let path = readable(path);
    let mut text = String::with_capacity(path.len());
    let mut rest = path.as_str();
    while let Some(character) = rest.chars().next() {
        let follows_name = text.ends_with(|one: char| one.is_alphanumeric() || "_}>".contains(one));
        if character == '<' && (follows_name || text.ends_with("::")) {
            // The arguments may be behind `::`.
            if text.ends_with("::") && !rest.starts_with("<impl ") {
                text.truncate(text.len() - 2);
            } else if text.ends_with("::") {
                text.push('<');
                rest = &rest[1..];
                continue;
            }
            rest = &rest[length_of_arguments(rest)..];
            continue;
        }
        if character == '{' {
            let length = rest.rfind('}').map_or(rest.len(), |_| length_of_braces(rest));
            let name = rest[..length].trim_matches(['{', '}']);
            let name = name.split('#').next().unwrap_or(name).trim_end_matches("_env");
            text.push('{');
            text.push_str(name);
            text.push('}');
            rest = &rest[length..];
            // Another style writes the number behind the braces.
            if let Some(number) = rest.strip_prefix('#') {
                rest = number.trim_start_matches(|one: char| one.is_ascii_digit());
            }
            continue;
        }
        text.push(character);
        rest = &rest[character.len_utf8()..];
    }
    text
}

/// Returns the path without its closures: those are parts of the function.
pub(crate) fn without_closures(normalised: &str) -> &str {
    let mut path = normalised;
    while let Some((rest, last)) = path.rsplit_once("::")
        && last.starts_with('{')
    {
        path = rest;
    }
    path
}

/// Returns the path with `…` for generic arguments, if it is wider than this: `a::Type<…>::f`.
pub fn shortened(path: &str, columns: usize) -> String {
    let path = readable(path);
    if path.chars().count() <= columns {
        return path;
    }
    let mut text = String::with_capacity(path.len());
    let mut rest = path.as_str();
    while let Some(character) = rest.chars().next() {
        let is_behind_name = text.ends_with(|one: char| one.is_alphanumeric() || one == '_');
        let is_turbofish = text.ends_with("::") && !rest.starts_with("<impl ");
        if character == '<' && (is_behind_name || is_turbofish) {
            text.push_str("<…>");
            rest = &rest[length_of_arguments(rest)..];
        } else {
            text.push(character);
            rest = &rest[character.len_utf8()..];
        }
    }
    text
}

/// Returns the text from each path of modules on: `a::T as b::U>::f` and `b::U>::f` of `<a::T as b::U>::f`.
pub(super) fn paths(text: &str) -> impl Iterator<Item = &str> {
    let is_of_name = |one: char| one.is_alphanumeric() || one == '_';
    let begins = move |at: usize| !text[..at].ends_with(is_of_name) && !text[..at].ends_with("::");
    let starts = text.char_indices().filter(move |(at, one)| is_of_name(*one) && begins(*at));
    starts.map(|(at, _)| &text[at..]).filter(|path| path[name_at_start(path).len()..].starts_with("::"))
}

/// Returns the name of the crate: `a` of `<a::Type as b::Trait>::f`.
pub(crate) fn crate_name(path: &str) -> &str {
    let own = path.trim_start_matches(['<', '&', '*', '[', '(', ' ']);
    let own = own.trim_start_matches("mut ").trim_start_matches("const ").trim_start_matches("dyn ");
    let own = own.trim_start_matches(['<', '&']);
    // A primitive type has no crate, but its trait has one.
    let name = name_at_start(own);
    if own[name.len()..].starts_with("::") || !path.starts_with('<') {
        return name;
    }
    path.split_once(" as ").map_or(name, |(_, of)| name_at_start(of.trim_start_matches('<')))
}

/// Returns the path of the module: `a::b` of `a::b::Type::f`.
pub(crate) fn module(path: &str) -> String {
    let path = normalised(path);
    let own = path.trim_start_matches(['<', '&', '[', '(']).trim_start_matches("mut ");
    let is_module = |part: &&str| part.starts_with(|one: char| one.is_lowercase() || one == '_');
    let end = own.find([' ', '>', '<', '{']).unwrap_or(own.len());
    let is_cut = end < own.len();
    let parts: Vec<&str> = own[..end].split("::").filter(|part| !part.is_empty()).collect();
    let mut modules: Vec<&str> = parts.iter().copied().take_while(is_module).collect();
    // The last part is the function, unless a type or a closure stands behind it.
    if modules.len() == parts.len() && (!is_cut || own[end..].starts_with('{')) {
        modules.pop();
    }
    match path.split_once(" as ") {
        // A primitive type has no module, but its trait has one.
        Some((_, of)) if path.starts_with('<') && parts.len() == 1 => {
            let of = of.split(['>', '<']).next().unwrap_or(of);
            of.rsplit_once("::").map_or(of, |(module, _)| module).to_owned()
        }
        _ if modules.is_empty() => crate_name(&path).to_owned(),
        _ => modules.join("::"),
    }
}

fn name_at_start(text: &str) -> &str {
    let end = text.find(|one: char| !one.is_alphanumeric() && one != '_').unwrap_or(text.len());
    &text[..end]
}

/// Returns the length of `<…>`.
pub(super) fn length_of_arguments(text: &str) -> usize {
    length_to_end(text, "<", ">")
}

/// Returns the length of `{…}`.
pub(super) fn length_of_braces(text: &str) -> usize {
    length_to_end(text, "{", "}")
}

/// Returns the length of `(…)` or `[…]`.
pub(super) fn length_of_brackets(text: &str) -> usize {
    length_to_end(text, "([", ")]")
}

/// Returns the length up to where the bracket at the start is closed. The `>` of `->` closes nothing.
fn length_to_end(text: &str, opening: &str, closing: &str) -> usize {
    let (mut depth, mut before) = (0_usize, ' ');
    for (index, character) in text.char_indices() {
        if opening.contains(character) {
            depth += 1;
        } else if closing.contains(character) && (before, character) != ('-', '>') {
            depth -= 1;
        }
        if depth == 0 {
            return index + 1;
        }
        before = character;
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_part_of_a_path_is_without_modules() {
        for (path, expected) in [
            ("a::m::f", ["f", "f"]),
            ("f", ["f", "f"]),
            ("a::m::f::{closure}::{closure}", ["f::{closure}::{closure}"; 2]),
            ("a::m::T::f", ["f", "T::f"]),
            ("<a::m::T>::f::{closure}", ["f::{closure}", "T::f::{closure}"]),
            ("<a::m::T as b::U>::f", ["f", "T::f"]),
            ("a::<impl b::U for a::m::T>::f", ["f", "T::f"]),
        ] {
            assert_eq!([own_part(path), &in_module(path)], expected, "{path}");
        }
    }

    #[test]
    fn generic_arguments_closure_numbers_and_hashes_do_not_tell_functions_apart() {
        for (path, expected) in [
            ("a::f", "a::f"),
            ("a::f::h0123456789abcdef", "a::f"),
            ("a[1f2e]::f::<u8>", "a::f"),
            ("a::f::<alloc::vec::Vec<u8>>::{closure#1}", "a::f::{closure}"),
            ("a::f::{{closure}}", "a::f::{closure}"),
            ("a::f::{{closure}}#3::g", "a::f::{closure}::g"),
            ("a::f::{async_fn_env#0}", "a::f::{async_fn}"),
            ("<a::T<u8> as b::Into<[u8; 3]>>::into", "<a::T as b::Into>::into"),
            ("<a::T<fn(u8) -> u16>>::f", "<a::T>::f"),
            ("a::T<X>::push", "a::T::push"),
            ("a::b::<impl c::D for a::E<u8>>::f", "a::b::<impl c::D for a::E>::f"),
        ] {
            assert_eq!(normalised(path), expected, "{path}");
        }
    }

    #[test]
    fn a_function_has_a_crate_and_a_module() {
        for (path, name, of) in [
            ("a::b::f", "a", "a::b"),
            ("a::b::Type::f", "a", "a::b"),
            ("a::b::f::{{closure}}", "a", "a::b"),
            ("<a::b::Type<u8> as c::Trait>::f", "a", "a::b"),
            ("<&mut a::Type as c::Trait>::f", "a", "a"),
            ("<u8 as c::d::Trait>::f", "c", "c::d"),
            ("main", "main", "main"),
        ] {
            assert_eq!((crate_name(path), &*module(path)), (name, of), "{path}");
        }
        assert_eq!(without_closures("a::f::{closure}::{closure}"), "a::f");
    }

    #[test]
    fn long_arguments_become_an_ellipsis() {
        let path = "<a::T<u8> as b::Into<c::Very<Long>>>::into::<d::E>";
        assert_eq!(shortened(path, 80), path);
        assert_eq!(shortened(path, 20), "<a::T<…> as b::Into<…>>::into::<…>");
    }

    #[test]
    fn a_function_of_a_trait_has_a_type() {
        let of = |path: &str| {
            TraitFunction::of_path(path).map(|one| format!("{} {} {}", one.of_type, one.of_trait, one.name))
        };
        for (path, expected) in [
            ("<a::T<u8> as b::Clone>::clone", Some("T Clone clone")),
            ("<&mut a::T as b::Clone>::clone::{{closure}}", Some("T Clone clone")),
            ("a::_::<impl b::Clone for a::T<u8>>::clone", Some("T Clone clone")),
            ("a::T<u8>::f", None),
            ("a::f", None),
        ] {
            assert_eq!(of(path).as_deref(), expected, "{path}");
        }
        assert_eq!(provided("core::clone::Clone::clone_from"), Some(("Clone".into(), "clone_from".into())));
        assert_eq!(provided("a::b::f"), None);
        assert_eq!(provided("<a::T as b::C>::f"), None);
        assert_eq!(own_name("<a::T<u8> as b::C>::f::{{closure}}"), "f");
        assert!(names("core::ptr::drop_in_place<a::Map<u8>>", "Map") && !names("a::IndexMap", "Map"));
    }

    proptest! {
        #[test]
        fn any_text_is_taken(path in "[a-c:<>{}#\\[\\]>\\- é]{0,40}") {
            for text in [readable(&path), normalised(&path), shortened(&path, 3), module(&path)] {
                prop_assert!(text.len() <= 3 * path.len() + 8);
            }
            crate_name(&path);
            assert!(paths(&path).all(|part| path.ends_with(part)));
            TraitFunction::of_path(&path);
            provided(&path);
        }
    }
}
