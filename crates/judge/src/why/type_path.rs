//! The text of a type's path: its parts, its short form, and whether it names generic parameters.

use crate::why::function_path::{length_of_arguments, length_of_braces, length_of_brackets};

pub(super) const PRIMITIVES: [&str; 19] = [
    "bool", "char", "str", "u8", "u16", "u32", "u64", "u128", "usize", "i8", "i16", "i32", "i64", "i128",
    "isize", "f16", "f32", "f64", "f128",
];

/// Whether a type names no generic parameter. Symbols of the old format have `T` for each type.
pub(super) fn is_known(path: &str) -> bool {
    const WORDS: [&str; 12] =
        ["dyn", "mut", "const", "fn", "for", "as", "unsafe", "extern", "impl", "true", "false", "C"];
    let mut rest = path;
    while let Some(character) = rest.chars().next() {
        if character == '{' {
            rest = &rest[length_of_braces(rest)..];
            continue;
        }
        if character == '\'' {
            // A lifetime, or a constant of type `char`.
            rest = rest[1..].trim_start_matches(|one: char| one.is_alphanumeric() || one == '_');
            continue;
        }
        let length = rest.find(|one: char| !one.is_alphanumeric() && one != '_').unwrap_or(rest.len());
        if length == 0 {
            rest = &rest[character.len_utf8()..];
            continue;
        }
        let (word, behind) = rest.split_at(length);
        let before = &path[..path.len() - rest.len()];
        let is_in_path = before.ends_with("::") || behind.starts_with("::");
        let is_binding = behind.starts_with(" = ");
        let is_number = word.starts_with(|one: char| one.is_ascii_digit());
        if !(is_in_path || is_binding || is_number || PRIMITIVES.contains(&word) || WORDS.contains(&word)) {
            return false;
        }
        rest = behind;
    }
    true
}

/// Returns a type without the default allocator and the numbers of closures, which change between
/// revisions.
pub(super) fn cleaned(path: &str) -> String {
    let mut text = path.replace(", alloc::alloc::Global>", ">");
    while let Some(at) = text.find("{closure#") {
        let end = text[at..].find('}').map_or(text.len(), |end| at + end);
        text.replace_range(at..end, "{closure");
    }
    text
}

/// Returns a type with the last name of each path: `Vec<(u8, Token)>`. A closure keeps its function.
pub(super) fn without_modules(path: &str) -> String {
    let is_name = |one: char| one.is_alphanumeric() || one == '_';
    let mut text = String::new();
    let mut rest = path;
    // Where the path begins that `text` ends with.
    let mut start = 0;
    while let Some(character) = rest.chars().next() {
        if rest.starts_with("::") {
            rest = &rest[2..];
            if rest.starts_with(['{', '<']) || text.ends_with('>') {
                text.push_str("::");
            } else {
                text.truncate(start);
            }
        } else if character == '{' {
            let length = length_of_braces(rest);
            text.push_str(&rest[..length]);
            rest = &rest[length..];
        } else if is_name(character) {
            let length = rest.find(|one: char| !is_name(one)).unwrap_or(rest.len());
            start = text.len();
            text.push_str(&rest[..length]);
            rest = &rest[length..];
        } else {
            text.push(character);
            rest = &rest[character.len_utf8()..];
            start = text.len();
        }
    }
    text
}

/// Splits a path at `::` outside of brackets.
pub(super) fn segments(path: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = path;
    while let Some((part, behind)) = split_at(rest, "::") {
        parts.push(part);
        rest = behind;
    }
    parts.push(rest);
    parts
}

/// Splits generic arguments at commas outside of brackets.
pub(super) fn split(arguments: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = arguments;
    while let Some((part, behind)) = split_at(rest, ",") {
        parts.push(part.trim());
        rest = behind;
    }
    parts.push(rest.trim());
    parts.retain(|part| !part.is_empty());
    parts
}

/// Splits a text at the first separator outside of brackets.
pub(super) fn split_at<'a>(text: &'a str, separator: &str) -> Option<(&'a str, &'a str)> {
    let mut at = 0;
    while let Some(character) = text[at..].chars().next() {
        let rest = &text[at..];
        if let Some(behind) = rest.strip_prefix(separator) {
            return Some((&text[..at], behind));
        }
        at += match character {
            '<' => length_of_arguments(rest),
            '{' => length_of_braces(rest),
            '(' | '[' => length_of_brackets(rest),
            _ => character.len_utf8(),
        };
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_is_shown_without_modules() {
        for (path, shown) in [
            ("alloc::vec::Vec<(u32, a::b::Token)>", "Vec<(u32, Token)>"),
            ("alloc::boxed::Box<a::main::{closure}>", "Box<main::{closure}>"),
            ("alloc::boxed::Box<dyn core::ops::Fn(a::X) -> b::Y>", "Box<dyn Fn(X) -> Y>"),
            ("alloc::vec::Vec<<a::X as b::T>::C>", "Vec<<X as T>::C>"),
            ("alloc::vec::Vec<&'a [core::option::Option<f64>; 3]>", "Vec<&'a [Option<f64>; 3]>"),
        ] {
            assert!(is_known(path), "{path}");
            assert_eq!(without_modules(path), shown);
        }
        for path in ["alloc::vec::Vec<T>", "(K,V)", "[T; 3]", "_"] {
            assert!(!is_known(path), "{path}");
        }
        let closure = cleaned("a::f::{closure#12}::{closure#0}");
        assert_eq!(closure, "a::f::{closure}::{closure}", "numbers change between revisions");
    }
}
