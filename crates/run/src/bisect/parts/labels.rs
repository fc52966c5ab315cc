//! What a hunk is, in a few words: the edit of a value, a field, a type, or the function around it.

use std::ops::Range;

use camino::Utf8Path;

use crate::bisect::parts::hunk::{Change, HunkTexts, SplitDiff};
use crate::bisect::parts::locked::MovedPackage;
use crate::bisect::parts::record::HunkPlace;
use memprof_judge::why::functions::{self, FunctionLines};
use memprof_judge::why::items::{self, ItemLines};

/// How much a hunk says of a part, the most first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weight {
    /// The edit of a value, a type, a field, a constant, or a package.
    Value,
    /// Code of a function, or a new file of code.
    Code,
    /// Any other line of code.
    Other,
    /// A declaration: `use` or `mod`.
    Declaration,
    /// Comments, or a file that is not code.
    Text,
}

/// A file's functions and items.
pub struct Outline {
    functions: Vec<FunctionLines>,
    items: Vec<ItemLines>,
}

impl Outline {
    /// Reads a source.
    pub fn of_source(text: &str) -> Self {
        Self { functions: functions::functions(text).written, items: items::items(text) }
    }
}

/// The longest value that a label quotes.
const MOST_OF_VALUE: usize = 24;

/// The most functions and items that a label names.
const MOST_NAMES: usize = 2;

/// The longest attribute that a label quotes.
const MOST_OF_ATTRIBUTE: usize = 40;

/// Returns where a hunk is, and how much it says. `outline` is its file's at the candidate, if it is a source.
pub fn place(diff: &SplitDiff, hunk: usize, outline: Option<&Outline>) -> (Weight, HunkPlace) {
    let lines = diff.candidate_lines(hunk).map(|lines| {
        // Deleted lines are shown at the line before them.
        let last = lines.end.saturating_sub(1).max(1);
        [lines.start.min(last), last]
    });
    let (weight, what) = match &diff.hunks[hunk].change {
        Change::Package(index) => {
            let moved = diff.lock.as_ref().and_then(|lock| lock.moved().get(*index));
            (Weight::Value, moved.map(MovedPackage::words))
        }
        Change::File { old, new } => of_file(old.as_deref(), new.as_deref()),
        Change::Lines { .. } => match (diff.texts(hunk), lines) {
            (Some(texts), Some(lines)) => of_lines(&texts, lines, outline),
            _ => (Weight::Other, None),
        },
    };
    (weight, HunkPlace { path: diff.hunks[hunk].path.clone(), lines, what })
}

fn of_file(old: Option<&str>, new: Option<&str>) -> (Weight, Option<String>) {
    let is_code = |path: &str| Utf8Path::new(path).extension() == Some("rs");
    let weight = if old.or(new).is_some_and(is_code) { Weight::Code } else { Weight::Text };
    let what = match (old, new) {
        (None, _) => Some("new file".to_owned()),
        (_, None) => Some("deleted".to_owned()),
        (Some(old), Some(new)) if old != new => Some(format!("was {old}")),
        _ => None,
    };
    (weight, what)
}

fn of_lines(texts: &HunkTexts<'_>, lines: [usize; 2], outline: Option<&Outline>) -> (Weight, Option<String>) {
    let range = lines[0]..lines[1] + 1;
    let changed =
        || texts.old.iter().chain(&texts.new).map(|line| line.trim()).filter(|line| !line.is_empty());
    let starts_with =
        |begins: &[&str]| changed().all(|line| begins.iter().any(|begin| line.starts_with(begin)));
    let function = || Some(named(&outline?.functions, &[], &range, texts)?.1);
    let Some(outline) = outline else {
        // A manifest.
        return (Weight::Value, edit(texts).or_else(|| key(texts)));
    };
    if starts_with(&["//"]) {
        return (Weight::Text, function());
    }
    if let Some(edit) = edit(texts) {
        return (Weight::Value, Some(edit));
    }
    if starts_with(&[
        "use ",
        "pub use ",
        "mod ",
        "pub mod ",
        "pub(crate) use ",
        "pub(crate) mod ",
        "//",
        "#[",
    ]) && changed().any(|line| line.contains("use ") || line.contains("mod "))
    {
        let declared = outline.items.iter().find(|item| item.kind == "mod" && overlaps(&item.lines, &range));
        return (Weight::Declaration, declared.map(|item| format!("mod {}", item.name)));
    }
    // What was deleted from an item is no longer in it.
    let items = if texts.new.is_empty() { &[][..] } else { &outline.items };
    match named(&outline.functions, items, &range, texts) {
        Some((weight, names)) => (weight, Some(names)),
        None => (Weight::Other, None),
    }
}

/// Returns the innermost functions and items in these lines: `up, down`, `const A, const B, …`.
fn named(
    functions: &[FunctionLines],
    items: &[ItemLines],
    range: &Range<usize>,
    texts: &HunkTexts<'_>,
) -> Option<(Weight, String)> {
    let line = |line: u32| usize::try_from(line).unwrap_or(usize::MAX);
    let functions = functions.iter().map(|one| (line(one.lines.start)..line(one.lines.end), one));
    let functions = functions.filter(|(lines, _)| overlaps(lines, range));
    let items = items.iter().filter(|item| overlaps(&item.lines, range));
    let mut all: Vec<(Range<usize>, Weight, String)> =
        functions.map(|(lines, one)| (lines, Weight::Code, one.name.clone())).collect();
    all.extend(items.map(|item| (item.lines.clone(), Weight::Value, of_item(item, range, texts))));
    all.sort_by_key(|(lines, ..)| lines.start);
    let is_outer = |one: &Range<usize>| {
        let is_inside = |other: &Range<usize>| one.start <= other.start && other.end <= one.end;
        all.iter().any(|(other, ..)| other != one && is_inside(other))
    };
    let inner: Vec<_> = all.iter().filter(|(lines, ..)| !is_outer(lines)).collect();
    let weight = inner.iter().map(|(_, weight, _)| *weight).min()?;
    let names: Vec<&str> = inner.iter().take(MOST_NAMES).map(|(.., name)| name.as_str()).collect();
    let more = if inner.len() > MOST_NAMES { ", …" } else { "" };
    Some((weight, format!("{}{more}", names.join(", "))))
}

fn overlaps(one: &Range<usize>, other: &Range<usize>) -> bool {
    one.start < other.end && other.start < one.end
}

/// `Item::note`, `#[repr(packed)] on State`, `struct Item`
fn of_item(item: &ItemLines, range: &Range<usize>, texts: &HunkTexts<'_>) -> String {
    let is_inside = |outer: &Range<usize>| outer.start <= range.start && range.end <= outer.end;
    let attribute = texts.new.iter().chain(&texts.old).map(|line| line.trim());
    let attribute = attribute.clone().find(|line| line.starts_with("#["));
    if let Some(attribute) = attribute.filter(|_| is_inside(&item.attributes)) {
        let text: String = attribute.chars().take(MOST_OF_ATTRIBUTE).collect();
        return format!("{text} on {}", item.name);
    }
    let changed: Vec<&str> = item
        .fields
        .iter()
        .filter(|(_, lines)| overlaps(lines, range))
        .map(|(name, _)| name.as_str())
        .collect();
    match changed[..] {
        [field] => format!("{}::{field}", item.name),
        // Not all of them.
        [first, ..] if changed.len() < item.fields.len() => format!("{}::{first}, …", item.name),
        _ => format!("{} {}", item.kind, item.name),
    }
}

/// Returns the edit in words, if it is one value: `SNIPPET: 40 → 160`.
fn edit(texts: &HunkTexts<'_>) -> Option<String> {
    let ([old], [new]) = (&texts.old[..], &texts.new[..]) else { return None };
    let value = |line: &str| {
        let (name, value) = line.split_once('=')?;
        let name = name.split(':').next()?.split_whitespace().last()?.to_owned();
        let is_name = name.chars().all(|one| one.is_alphanumeric() || "_.-\"".contains(one));
        let value = value.trim().trim_end_matches([';', ',']).to_owned();
        let is_short = !value.is_empty() && value.chars().count() <= MOST_OF_VALUE;
        (is_short && is_name && !value.starts_with(['=', '>'])).then_some((name, value))
    };
    let ((name, before), (same, after)) = (value(old)?, value(new)?);
    (name == same && before != after).then(|| format!("{name}: {before} → {after}"))
}

/// Returns the key of the only changed line of a manifest.
fn key(texts: &HunkTexts<'_>) -> Option<String> {
    let (([] | [_], [line]) | ([line], [])) = (&texts.old[..], &texts.new[..]) else { return None };
    let key = line.split_once('=')?.0.trim();
    (!key.is_empty()).then(|| key.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bisect::parts::hunk::tests::split;

    fn labels(path: &str, old: &str, new: &str) -> Vec<(Weight, Option<String>)> {
        let diff = split(path, old, new);
        let outline = (path == "a.rs").then(|| Outline::of_source(new));
        let of_hunk = |hunk: usize| place(&diff, hunk, outline.as_ref());
        (0..diff.hunks.len()).map(of_hunk).map(|(weight, place)| (weight, place.what)).collect()
    }

    fn label(old: &str, new: &str) -> (Weight, String) {
        let [(weight, what)] = &labels("a.rs", old, new)[..] else { panic!("one hunk") };
        (*weight, what.clone().unwrap_or_default())
    }

    #[test]
    fn a_value_has_its_edit() {
        assert_eq!(
            label("const A: usize = 1;\n", "const A: usize = 2;\n"),
            (Weight::Value, "A: 1 → 2".to_owned())
        );
        for operator in ["==", ">=", "!="] {
            let code = |value: u8| format!("fn f() {{\n    if a {operator} {value} {{}}\n}}\n");
            assert_eq!(label(&code(1), &code(2)), (Weight::Code, "f".to_owned()));
        }
    }

    #[test]
    fn a_field_a_derive_and_a_type_are_named() {
        let item = |attribute: &str, more: &str| {
            format!("{attribute}struct Item {{\n    id: u32,\n{more}    count: u32,\n}}\n")
        };
        let new = item("#[derive(Clone)]\n", "    note: [u64; 12],\n");
        assert_eq!(label(&item("#[derive(Clone)]\n", ""), &new), (Weight::Value, "Item::note".to_owned()));
        assert_eq!(
            label(&item("", ""), &item("#[repr(packed)]\n", "")),
            (Weight::Value, "#[repr(packed)] on Item".to_owned())
        );
        assert_eq!(label("", &item("", "")), (Weight::Value, "struct Item".to_owned()));
    }

    #[test]
    fn all_functions_and_items_of_a_hunk_are_named() {
        let functions = |up: u8, down: u8| {
            format!("fn up() -> u8 {{ {up} }}\nfn down() -> u8 {{ {down} }}\nfn other() {{}}\n")
        };
        assert_eq!(label(&functions(1, 2), &functions(3, 4)), (Weight::Code, "up, down".to_owned()));
        let items = |size: usize| {
            format!(
                "const A: [u8; {size}] = [0; {size}];\nfn f() {{\n    g({size});\n}}\nstatic B: u8 = {size};\n"
            )
        };
        let (weight, what) = label("", &items(1));
        assert_eq!((weight, &*what), (Weight::Value, "const A, f, …"));
        let inner = |size: usize| format!("fn f() {{\n    struct Inner([u8; {size}]);\n    g();\n}}\n");
        assert_eq!(label(&inner(1), &inner(2)), (Weight::Value, "struct Inner".to_owned()));
    }

    #[test]
    fn declarations_and_comments_say_least() {
        assert_eq!(label("mod a;\n", "mod a;\nmod extra;\n"), (Weight::Declaration, "mod extra".to_owned()));
        assert_eq!(label("use a::b;\n", "use a::c;\n").0, Weight::Declaration);
        let (old, new) = ("fn f() {\n    // one\n}\n", "fn f() {\n    // two\n}\n");
        assert_eq!(label(old, new), (Weight::Text, "f".to_owned()));
    }

    #[test]
    fn lines_of_a_manifest_have_their_key() {
        let found = labels(
            "Cargo.toml",
            "a = \"1\"\nb = { x = 1 }\n",
            "a = \"2\"\nb = { x = 1, y = [1, 2, 3, 4] }\n",
        );
        assert_eq!(found[0].1.as_deref(), Some("a: \"1\" → \"2\""));
        assert_eq!(found[1].1.as_deref(), Some("b"));
    }
}
