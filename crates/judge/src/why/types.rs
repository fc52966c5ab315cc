//! The type that allocates: from the names of the innermost functions on a stack, with their generic
//! arguments. What the names do not say has no type, and a reason.

use crate::why::frame::{Frame, Owner};
use crate::why::function_path::{length_of_arguments, length_of_braces};

/// What allocates at a site.
pub type SiteType = Result<AllocatedType, NoType>;

/// A type, by its whole path: `alloc::vec::Vec<app::Token>`, without allocators and hashers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AllocatedType(String);

/// Why a site has no type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NoType {
    /// The function's name lost its generic arguments.
    OldNames,
    /// Functions are inlined, and debug information does not name them, or not with their paths.
    Inlined,
    /// The function has no name.
    NoName,
    /// The compiler allocates in place, as older ones do for `vec![1, 2]`.
    InPlace,
    /// A function that belongs to no type calls the allocator.
    Function,
}

impl NoType {
    /// Returns the reason in words.
    pub fn words(self) -> &'static str {
        match self {
            Self::OldNames => "names without generic arguments: run again with --why-by type",
            Self::Inlined => "inlined functions that debug information does not name",
            Self::NoName => "functions without names",
            Self::InPlace => "made in place by the compiler, such as by `vec![1, 2]`",
            Self::Function => "allocated by functions of no type",
        }
    }
}

impl AllocatedType {
    /// Returns the whole path, by which the types of two revisions are compared.
    pub fn path(&self) -> &str {
        &self.0
    }

    /// Returns it as in sources: `Vec<Token>` for `alloc::vec::Vec<app::Token>`.
    pub fn short(&self) -> String {
        without_modules(&self.0)
    }

    /// Returns the type that a block has nothing but a whole number of: `Token` in a `Vec<Token>`.
    pub fn element(&self) -> Option<String> {
        let Container { kind, path, arguments } = container(&self.0)?;
        let argument = arguments.first()?;
        match kind {
            Kind::Vec | Kind::VecDeque | Kind::BinaryHeap => Some(argument.clone()),
            Kind::Pointer if path.ends_with("::Box") => {
                let slice = argument.strip_prefix('[').and_then(|slice| slice.strip_suffix(']'));
                Some(slice.filter(|slice| split_at(slice, ";").is_none()).unwrap_or(argument).to_owned())
            }
            _ => None,
        }
    }
}

/// Returns the types that a function's container has as elements, if its name says so.
pub fn elements(function: &str) -> Option<String> {
    container_of(function)?.named().ok()?.element()
}

/// The type of an allocation, by its whole stack with the innermost frame first.
pub fn of_stack(stack: &[&Frame]) -> SiteType {
    let mut inner = Inner::Nothing;
    let mut frames = stack.iter();
    let first = loop {
        let Some(frame) = frames.next() else { return Err(NoType::NoName) };
        let Some(function) = frame.function.as_deref() else { return Err(NoType::NoName) };
        match Inner::of(frame, function) {
            Some(further) => inner = further,
            None => break (*frame, function),
        }
    };
    let (frame, function) = first;
    if !function.contains("::") {
        let is_rust = frame.is_inlined || frame.owner() == Owner::Std;
        return Err(if is_rust { NoType::Inlined } else { NoType::Function });
    }
    let mut found = match (container_of(function), inner) {
        (Some(container), _) => container,
        (None, Inner::InPlace) => return Err(NoType::InPlace),
        // Without a frame of the allocator's functions, it is not known what was inlined.
        (None, Inner::Nothing | Inner::Symbol) => return Err(NoType::Inlined),
        (None, Inner::Allocator) => return own_type(function),
    };
    // Whether the frame before is a function of the type that was found.
    let mut is_next = true;
    for frame in frames {
        let Some(function) = frame.function.as_deref() else { break };
        // Line tables alone have `push` for `alloc::vec::Vec<T>::push`.
        let is_unnamed = frame.is_inlined && !function.contains("::");
        is_next = match container_of(function) {
            Some(outer) if outer.holds(&found) || is_next && outer.is_merged(&found) => {
                found = outer;
                true
            }
            Some(outer) if outer == found => true,
            None if is_of_std(function) || is_unnamed => false,
            _ => break,
        };
    }
    found.named()
}

/// The frames between the allocator and what calls it.
#[derive(Clone, Copy)]
enum Inner {
    Nothing,
    /// The allocator's symbol.
    Symbol,
    /// `std::alloc::alloc` and the like, which code calls by name.
    Allocator,
    /// The function that the compiler calls for a box.
    InPlace,
}

impl Inner {
    /// Returns what a frame is, if it says nothing about the type.
    fn of(frame: &Frame, function: &str) -> Option<Self> {
        const ALLOCATORS: [&str; 15] = [
            "alloc::alloc::",
            "<alloc::alloc::Global as ",
            "<&alloc::alloc::Global as ",
            "core::alloc::",
            "std::alloc::",
            "alloc::raw_vec::RawVecInner",
            "alloc::raw_vec::finish_grow",
            "alloc::vec::in_place_collect::",
            "hashbrown::raw::RawTableInner",
            "hashbrown::raw::alloc::",
            "<hashbrown::raw::alloc::",
            "hashbrown::alloc::",
            "<hashbrown::alloc::",
            "allocator_api2::stable::alloc::",
            "<allocator_api2::stable::alloc::",
        ];
        let is_any = |starts: &[&str]| starts.iter().any(|start| function.starts_with(start));
        if is_any(&["alloc::alloc::exchange_malloc", "alloc::alloc::box_new", "alloc::boxed::box_new"]) {
            return Some(Self::InPlace);
        }
        // An allocator of the user is none of the types that allocate with it.
        let is_allocator = function.starts_with('<') && function.contains("::Allocator>::");
        if is_allocator || is_any(&ALLOCATORS) {
            return Some(Self::Allocator);
        }
        (frame.is_of_allocator() && !function.starts_with("alloc::raw_vec::RawVec<")).then_some(Self::Symbol)
    }
}

/// A type of the standard library that owns a block, or one that a block of it is known by.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Container {
    kind: Kind,
    /// The path.
    path: String,
    /// The generic arguments, apart from allocators and hashers.
    arguments: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    RawVec,
    Vec,
    VecDeque,
    BinaryHeap,
    /// `String`, `OsString` and others of bytes.
    Text,
    /// `Box`, `Rc` and `Arc`.
    Pointer,
    RawTable,
    Map,
    Set,
    BTree,
    LinkedList,
}

/// The containers: crate, name, kind, and the number of arguments that count.
const CONTAINERS: [(&str, &str, Kind, usize); 32] = [
    ("alloc", "RawVec", Kind::RawVec, 1),
    ("alloc", "Vec", Kind::Vec, 1),
    ("alloc", "VecDeque", Kind::VecDeque, 1),
    ("alloc", "BinaryHeap", Kind::BinaryHeap, 1),
    ("alloc", "String", Kind::Text, 0),
    ("alloc", "CString", Kind::Text, 0),
    ("std", "CString", Kind::Text, 0),
    ("std", "OsString", Kind::Text, 0),
    ("std", "PathBuf", Kind::Text, 0),
    ("std", "OsStr", Kind::Text, 0),
    ("std", "Path", Kind::Text, 0),
    ("core", "CStr", Kind::Text, 0),
    ("alloc", "Box", Kind::Pointer, 1),
    ("alloc", "Rc", Kind::Pointer, 1),
    ("alloc", "Arc", Kind::Pointer, 1),
    ("alloc", "UniqueRcUninit", Kind::Pointer, 1),
    ("alloc", "UniqueArcUninit", Kind::Pointer, 1),
    ("hashbrown", "RawTable", Kind::RawTable, 1),
    ("hashbrown", "HashTable", Kind::RawTable, 1),
    ("hashbrown", "HashMap", Kind::Map, 2),
    ("std", "HashMap", Kind::Map, 2),
    ("hashbrown", "HashSet", Kind::Set, 1),
    ("std", "HashSet", Kind::Set, 1),
    ("alloc", "LeafNode", Kind::BTree, 2),
    ("alloc", "InternalNode", Kind::BTree, 2),
    ("alloc", "BTreeMap", Kind::BTree, 2),
    ("alloc", "BTreeSet", Kind::BTree, 1),
    ("alloc", "LinkedList", Kind::LinkedList, 1),
    ("alloc", "RcBox", Kind::Pointer, 1),
    ("alloc", "RcInner", Kind::Pointer, 1),
    ("alloc", "ArcInner", Kind::Pointer, 1),
    ("alloc", "Node", Kind::LinkedList, 1),
];

/// Returns the container whose function this is.
fn container_of(function: &str) -> Option<Container> {
    // What these allocate is a `String`.
    const OF_STR: [&str; 4] = [
        "str::",
        "<str as alloc::borrow::ToOwned>::",
        "alloc::str::<impl str>::",
        "alloc::str::<impl alloc::borrow::ToOwned for str>::",
    ];
    let is_joined = || {
        let words = [" as alloc::slice::Join<&str>>::join", " as alloc::slice::Concat<str>>::concat"];
        function.starts_with("<[") && words.iter().any(|words| function.contains(words))
    };
    if OF_STR.iter().any(|start| function.starts_with(start)) || is_joined() {
        return container("alloc::string::String");
    }
    let (own, name) = self_type(function)?;
    let of_name = match name {
        "into_boxed_slice" => {
            let vec = container(&own).filter(|container| container.kind == Kind::Vec)?;
            let slice = vec.arguments.first().map(|argument| format!("[{argument}]"));
            Some(("alloc::boxed::Box", slice))
        }
        "into_boxed_str" => Some(("alloc::boxed::Box", Some("str".to_owned()))),
        _ => None,
    };
    match of_name {
        Some((path, argument)) => {
            let arguments = argument.into_iter().collect();
            Some(Container { kind: Kind::Pointer, path: path.to_owned(), arguments })
        }
        None => container(&own),
    }
}

fn container(path: &str) -> Option<Container> {
    let open = path.find('<').unwrap_or(path.len());
    let (own, behind) = path.split_at(open);
    let own = own.trim_end_matches("::");
    let (of, name) = (own.split("::").next()?, own.rsplit("::").next()?);
    let (.., kind, count) =
        CONTAINERS.into_iter().find(|(in_crate, its_name, ..)| *in_crate == of && *its_name == name)?;
    // `Node` and `Inner` are common names.
    if kind == Kind::LinkedList && !own.contains("linked_list") {
        return None;
    }
    let arguments = split(behind.strip_prefix('<').and_then(|rest| rest.strip_suffix('>')).unwrap_or(""));
    let arguments = arguments.into_iter().take(count).map(str::to_owned).collect();
    Some(Container { kind, path: own.to_owned(), arguments }.settled())
}

impl Container {
    /// Returns the type that the user knows: `BTreeMap<K, V>` for a node of it.
    fn settled(mut self) -> Self {
        let name = self.path.rsplit("::").next().unwrap_or_default().to_owned();
        let known = match name.as_str() {
            "RawVec" => "alloc::vec::Vec",
            "LeafNode" | "InternalNode" | "BTreeMap" => "alloc::collections::btree::map::BTreeMap",
            "RcBox" | "RcInner" | "UniqueRcUninit" => "alloc::rc::Rc",
            "ArcInner" | "UniqueArcUninit" => "alloc::sync::Arc",
            "Node" | "LinkedList" => "alloc::collections::linked_list::LinkedList",
            "HashMap" => "std::collections::HashMap",
            "HashSet" => "std::collections::HashSet",
            "RawTable" => "hashbrown::HashTable",
            "OsStr" => "std::ffi::os_str::OsString",
            "Path" => "std::path::PathBuf",
            "CStr" | "CString" => "alloc::ffi::c_str::CString",
            // A box of one of these is that.
            "Box" => {
                let inner = self.arguments.first().and_then(|inner| container(inner));
                let is_part = |inner: &Container| {
                    let path = self.arguments[0].split('<').next().unwrap_or_default();
                    let name = path.rsplit("::").next().unwrap_or_default();
                    let is_inner = matches!(name, "RcBox" | "RcInner" | "ArcInner");
                    let is_node = matches!(name, "LeafNode" | "InternalNode" | "Node");
                    is_inner && inner.kind == Kind::Pointer || is_node
                };
                return match inner.filter(is_part) {
                    Some(inner) => inner,
                    None => self,
                };
            }
            _ => return self,
        };
        known.clone_into(&mut self.path);
        let is_set = self.arguments.get(1).is_some_and(|value| value.ends_with("::SetValZST"));
        if self.kind == Kind::BTree && (is_set || name == "BTreeSet") {
            "alloc::collections::btree::set::BTreeSet".clone_into(&mut self.path);
            self.arguments.truncate(1);
        }
        self
    }

    /// Whether a block of the inner one is a block of this one.
    fn holds(&self, inner: &Self) -> bool {
        let same = self.arguments == inner.arguments;
        let element = inner.arguments.first().map(String::as_str);
        let is_of_bytes = element.is_none_or(|element| element == "u8" || !is_known(element));
        match (inner.kind, self.kind) {
            // Only these use it, so a name that differs is that of a merged function.
            (Kind::RawVec, Kind::Vec | Kind::VecDeque) => true,
            (Kind::RawVec, Kind::Pointer) => {
                self.arguments.first().is_some_and(|of| of.starts_with('[') || of == "str")
            }
            (Kind::Vec, Kind::BinaryHeap) => same,
            (Kind::RawVec | Kind::Vec, Kind::Text) => is_of_bytes,
            (Kind::Vec, Kind::Pointer) => {
                let slice = self.arguments.first().and_then(|of| of.strip_prefix('[')?.strip_suffix(']'));
                slice.is_some_and(|slice| Some(slice) == element) || self.is_text_pointer() && is_of_bytes
            }
            (Kind::Text, Kind::Text) => {
                inner.path.ends_with("::OsString") && self.path.ends_with("::PathBuf")
            }
            (Kind::Text, Kind::Pointer) => self.is_text_pointer(),
            (Kind::Pointer, Kind::Pointer) => {
                self.path == inner.path && self.is_text_pointer() && element == Some("[u8]")
            }
            (Kind::RawTable, Kind::Map) => {
                let pair = format!("({})", self.arguments.join(", "));
                element.is_none_or(|element| element == pair || !is_known(element))
            }
            (Kind::RawTable, Kind::Set) => {
                let pair = self.arguments.first().map(|of| format!("({of}, ())"));
                element == pair.as_deref() || element.is_none_or(|element| !is_known(element))
            }
            (Kind::Map, Kind::Set) => {
                inner.arguments.first() == self.arguments.first()
                    && inner.arguments.get(1).is_none_or(|value| value == "()")
            }
            _ => false,
        }
    }

    /// Whether this one's function calls one of the inner type that has the same code as its own: of functions
    /// with the same code, the compiler keeps one, under one of their names.
    fn is_merged(&self, inner: &Self) -> bool {
        let is_wrapper = inner.kind == Kind::RawTable && matches!(self.kind, Kind::Map | Kind::Set);
        let is_own = self.kind == inner.kind
            && self.path == inner.path
            && matches!(self.kind, Kind::Vec | Kind::VecDeque | Kind::BinaryHeap | Kind::RawTable);
        // A vector of vectors calls functions of the inner ones.
        let has_inside =
            inner.arguments.iter().any(|argument| self.arguments.iter().any(|own| own.contains(argument)));
        is_wrapper || is_own && !has_inside
    }

    /// Whether it is a pointer to a text: `Arc<str>`.
    fn is_text_pointer(&self) -> bool {
        let of = self.arguments.first().map(String::as_str);
        let name = of.and_then(|of| of.rsplit("::").next());
        self.kind == Kind::Pointer && matches!(name, Some("str" | "OsStr" | "Path" | "CStr"))
    }

    /// Returns the type, unless its arguments are lost.
    fn named(mut self) -> SiteType {
        let expected = match self.kind {
            Kind::Text => 0,
            Kind::Map => 2,
            Kind::BTree if self.path.ends_with("Map") => 2,
            _ => 1,
        };
        if self.arguments.len() != expected || !self.arguments.iter().all(|argument| is_known(argument)) {
            return Err(NoType::OldNames);
        }
        if self.arguments.is_empty() {
            return Ok(AllocatedType(self.path));
        }
        let arguments: Vec<String> = self.arguments.drain(..).map(|argument| cleaned(&argument)).collect();
        Ok(AllocatedType(format!("{}<{}>", self.path, arguments.join(", "))))
    }
}

/// The type of a function that calls the allocator itself.
fn own_type(function: &str) -> SiteType {
    let Some((own, _)) = self_type(function) else { return Err(NoType::Function) };
    if is_known(&own) { Ok(AllocatedType(cleaned(&own))) } else { Err(NoType::OldNames) }
}

/// Returns the type that a function belongs to, and the function's own name: `a::Type<u8>` and `f` of
/// `<a::Type<u8> as b::Trait>::f::<u16>::{closure#0}`.
fn self_type(function: &str) -> Option<(String, &str)> {
    let parts = segments(function);
    let first = *parts.first()?;
    let name = |index: usize| parts.get(index).copied().unwrap_or_default();
    if first.starts_with('<') {
        let inner = first.strip_prefix('<')?.strip_suffix('>')?;
        let own = split_at(inner, " as ").map_or(inner, |(own, _)| own);
        let is_path = segments(own).len() > 1 && !own.starts_with(['&', '*', '[', '(', '<']);
        return is_path.then(|| (own.to_owned(), name(1)));
    }
    let is_type = |part: &str| part.starts_with(char::is_uppercase);
    let last = parts.iter().position(|part| is_type(part))?;
    // A type's arguments may be a part of their own: `Type::<u8>::f`.
    let end = last + 1 + usize::from(name(last + 1).starts_with('<'));
    let path = parts[..end].join("::").replace("::<", "<");
    // `a::Enum` alone is a function that makes a value.
    (end < parts.len() && !name(end).starts_with('{')).then(|| (path, name(end)))
}

/// Whether a function is written in the standard library, or for one of its traits.
fn is_of_std(function: &str) -> bool {
    let own = function.trim_start_matches(['<', '&', '[', '(', '*']);
    let own = own.trim_start_matches("mut ").trim_start_matches("const ");
    let start = own.split("::").next().unwrap_or_default();
    let is_primitive = PRIMITIVES.iter().any(|name| {
        own.strip_prefix(name)
            .is_some_and(|rest| !rest.starts_with(|one: char| one.is_alphanumeric() || one == '_'))
    });
    let of_trait = split_at(function.trim_start_matches('<'), " as ").map_or("", |(_, of)| of);
    let is_std = |name: &str| matches!(name, "alloc" | "core" | "std" | "hashbrown");
    let is_slice = function.starts_with("<[");
    // A trait that is written in a function of slices belongs to std.
    let trait_crate = of_trait.trim_start_matches('<').split("::").next().unwrap_or_default();
    let is_std_trait = of_trait.starts_with("<[") || is_std(trait_crate);
    is_std(start) && function.contains("::")
        || (is_primitive || is_slice) && is_std_trait
        || is_primitive && !function.starts_with('<')
        || is_slice && of_trait.is_empty()
}

const PRIMITIVES: [&str; 19] = [
    "bool", "char", "str", "u8", "u16", "u32", "u64", "u128", "usize", "i8", "i16", "i32", "i64", "i128",
    "isize", "f16", "f32", "f64", "f128",
];

/// Whether a type names no generic parameter. Symbols of the old format have `T` for each type.
fn is_known(path: &str) -> bool {
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
fn cleaned(path: &str) -> String {
    let mut text = path.replace(", alloc::alloc::Global>", ">");
    while let Some(at) = text.find("{closure#") {
        let end = text[at..].find('}').map_or(text.len(), |end| at + end);
        text.replace_range(at..end, "{closure");
    }
    text
}

/// Returns a type with the last name of each path: `Vec<(u8, Token)>`. A closure keeps its function.
fn without_modules(path: &str) -> String {
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
fn segments(path: &str) -> Vec<&str> {
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
fn split(arguments: &str) -> Vec<&str> {
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
fn split_at<'a>(text: &'a str, separator: &str) -> Option<(&'a str, &'a str)> {
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

/// Returns the length of `(…)` or `[…]`.
fn length_of_brackets(text: &str) -> usize {
    let mut depth = 0_usize;
    for (index, character) in text.char_indices() {
        match character {
            '(' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return index + 1;
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::why::frame::Place;

    /// Returns a frame of the standard library.
    fn frame(function: &str) -> Frame {
        let place = Some(Place::Std("lib.rs".to_owned()));
        Frame { function: Some(function.to_owned()), place, line: Some(1), is_inlined: false, address: None }
    }

    /// The type of a stack of functions, the innermost first, in words.
    fn of(functions: &[&str]) -> String {
        let frames: Vec<Frame> = functions.iter().map(|function| frame(function)).collect();
        match of_stack(&frames.iter().collect::<Vec<_>>()) {
            Ok(found) => found.short(),
            Err(reason) => format!("{reason:?}"),
        }
    }

    const GLOBAL: &str = "<alloc::alloc::Global as core::alloc::Allocator>::allocate";

    /// The same of a block that grows as a vector does.
    fn grown(outer: &[&str]) -> String {
        let grow =
            ["__rustc::__rust_alloc", "alloc::alloc::alloc", GLOBAL, "alloc::raw_vec::RawVecInner::grow_one"];
        of(&[&grow[..], outer].concat())
    }

    /// The same of a vector of bytes.
    fn of_bytes(outer: &[&str]) -> String {
        let bytes = ["alloc::raw_vec::RawVec<u8>::with_capacity_in", "alloc::vec::Vec<u8>::with_capacity_in"];
        grown(&[&bytes[..], outer].concat())
    }

    /// The same of copied bytes.
    fn copied(outer: &[&str]) -> String {
        let to_vec = [
            "<u8 as <[_]>::to_vec_in::ConvertVec>::to_vec::<alloc::alloc::Global>",
            "<[u8]>::to_vec_in::<alloc::alloc::Global>",
            "<[u8]>::to_vec",
        ];
        of_bytes(&[&to_vec[..], outer].concat())
    }

    #[test]
    fn v0_names_of_vectors_have_types() {
        let raw = "alloc::raw_vec::RawVec<a::Token>::grow_one";
        let push = "alloc::vec::Vec<a::Token>::push";
        assert_eq!(grown(&[raw, "alloc::vec::Vec<a::Token>::push_mut", push, "a::v"]), "Vec<Token>");
        assert_eq!(
            grown(&[raw, push, "alloc::collections::binary_heap::BinaryHeap<a::Token>::push", "a::v"]),
            "BinaryHeap<Token>"
        );
        assert_eq!(
            grown(&[raw, "alloc::collections::vec_deque::VecDeque<a::Token>::grow", "a::v"]),
            "VecDeque<Token>"
        );
        assert_eq!(
            grown(&["alloc::raw_vec::RawVec<u64>::grow_one", "alloc::vec::Vec<a::Meters>::push"]),
            "Vec<Meters>",
            "of functions with the same code, the compiler keeps one"
        );
        let reserve = ["alloc::raw_vec::RawVec<u64>::reserve", "alloc::vec::Vec<u64>::reserve"];
        let reserved = |outer: &[&str]| grown(&[&reserve[..], outer].concat());
        assert_eq!(reserved(&["alloc::vec::Vec<a::Meters>::extend_from_slice", "a::f"]), "Vec<Meters>");
        let cloned = "<alloc::vec::Vec<alloc::vec::Vec<u64>> as core::clone::Clone>::clone";
        assert_eq!(reserved(&[cloned, "a::f"]), "Vec<u64>");
    }

    #[test]
    fn v0_names_of_texts_have_types() {
        assert_eq!(of_bytes(&["alloc::vec::from_elem::<u8>", "a::v"]), "Vec<u8>");
        assert_eq!(
            of_bytes(&["alloc::string::String::with_capacity", "alloc::fmt::format::format_inner", "a::f"]),
            "String"
        );
        assert_eq!(
            copied(&[
                "<alloc::vec::Vec<u8> as core::clone::Clone>::clone",
                "<alloc::string::String as core::clone::Clone>::clone",
                "<alloc::string::String as <[_]>::to_vec_in::ConvertVec>::to_vec::<alloc::alloc::Global>",
                "<alloc::vec::Vec<alloc::string::String> as core::clone::Clone>::clone",
            ]),
            "String",
            "and not the vector of strings"
        );
        assert_eq!(
            copied(&[
                "std::sys::os_str::bytes::Slice::to_owned",
                "std::ffi::os_str::OsStr::to_os_string",
                "<std::ffi::os_str::OsString as core::convert::From<&str>>::from",
                "<std::path::PathBuf as core::convert::From<&str>>::from",
                "a::f",
            ]),
            "PathBuf"
        );
        assert_eq!(of_bytes(&["alloc::ffi::c_str::CString::new::spec_new_impl_bytes", "a::f"]), "CString");
    }

    #[test]
    fn v0_names_of_pointers_and_maps_have_types() {
        assert_eq!(
            grown(&[
                "alloc::raw_vec::RawVec<u16>::shrink_to_fit",
                "alloc::vec::Vec<u16>::shrink_to_fit",
                "alloc::vec::Vec<u16>::into_boxed_slice",
            ]),
            "Box<[u16]>"
        );
        assert_eq!(
            of(&[
                GLOBAL,
                "alloc::sync::Arc<[u8]>::allocate_for_slice::{closure#0}",
                "alloc::sync::Arc<[u8]>::copy_from_slice",
                "<alloc::sync::Arc<str> as core::convert::From<&str>>::from",
            ]),
            "Arc<str>"
        );
        assert_eq!(
            of(&[
                GLOBAL,
                "alloc::boxed::Box<alloc::rc::RcInner<a::Token>>::new",
                "alloc::rc::Rc<a::Token>::new"
            ]),
            "Rc<Token>"
        );
        let node = |value: &str| {
            format!(
                "alloc::boxed::Box<alloc::collections::btree::node::LeafNode<u16, {value}>>::try_new_uninit_in"
            )
        };
        assert_eq!(of(&[GLOBAL, &node("a::Token")]), "BTreeMap<u16, Token>");
        assert_eq!(of(&[GLOBAL, &node("alloc::collections::btree::set_val::SetValZST")]), "BTreeSet<u16>");
        assert_eq!(
            of(&[
                GLOBAL,
                "alloc::boxed::Box<alloc::collections::linked_list::Node<u16>, &alloc::alloc::Global>::new_in"
            ]),
            "LinkedList<u16>"
        );
        let table = |pair: &str| {
            format!(
                "hashbrown::raw::RawTable<{pair}>::reserve_rehash::<hashbrown::map::make_hasher<u16>::{{closure#0}}>"
            )
        };
        let hashed = |outer: &[&str]| {
            of(&[
                &[GLOBAL, "hashbrown::raw::RawTableInner::new_uninitialized::<alloc::alloc::Global>"],
                outer,
            ]
            .concat())
        };
        assert_eq!(
            hashed(&[
                &table("(u16, a::Token)"),
                "hashbrown::map::HashMap<u16, a::Token, std::hash::random::RandomState>::insert",
                "std::collections::hash::map::HashMap<u16, a::Token>::insert",
                "a::f",
            ]),
            "HashMap<u16, Token>"
        );
        assert_eq!(
            hashed(&[
                &table("(u16, ())"),
                "hashbrown::map::HashMap<u16, (), std::hash::random::RandomState>::insert",
                "std::collections::hash::set::HashSet<u16>::insert",
            ]),
            "HashSet<u16>"
        );
    }

    #[test]
    fn a_type_that_calls_the_allocator_is_that() {
        let of_bump = "<smallvec::SmallVec<[u8; 16]> as core::iter::Extend<u8>>::extend";
        assert_eq!(of(&["alloc::alloc::alloc", of_bump]), "SmallVec<[u8; 16]>");
        assert_eq!(of(&["alloc::alloc::alloc", "a::Arena::grow"]), "Arena");
        assert_eq!(of(&["alloc::alloc::alloc", "a::grow"]), "Function");
        let own = "<a::MyAlloc as hashbrown::alloc::Allocator>::allocate";
        assert_eq!(of(&["alloc::alloc::alloc", own, "a::Arena::grow"]), "Arena");
        let collected = [
            "alloc::vec::in_place_collect::from_iter_in_place::<a::I, u16>",
            "<alloc::vec::Vec<u16> as alloc::vec::spec_from_iter::SpecFromIter<u16, a::I>>::from_iter",
        ];
        assert_eq!(of(&[&["alloc::alloc::realloc"], &collected[..]].concat()), "Vec<u16>");
        assert_eq!(of(&["__rust_alloc", "a::Arena::grow"]), "Inlined", "perhaps a vector is inlined there");
        assert_eq!(of(&["alloc::alloc::exchange_malloc", "a::Arena::grow"]), "InPlace");
        assert_eq!(of(&["alloc::boxed::box_new_uninit", "alloc::boxed::Box<a::Token>::new"]), "Box<Token>");
    }

    #[test]
    fn legacy_names_have_only_types_without_arguments() {
        let grow = [
            "__rust_alloc",
            "alloc::raw_vec::RawVecInner<A>::grow_one",
            "alloc::raw_vec::RawVec<T,A>::grow_one",
        ];
        let grown = |outer: &[&str]| of(&[&grow[..], outer].concat());
        assert_eq!(grown(&["alloc::vec::Vec<T,A>::push", "a::f"]), "OldNames");
        assert_eq!(grown(&["alloc::vec::Vec<T,A>::push", "alloc::string::String::push"]), "String");
        assert_eq!(of(&["alloc::alloc::exchange_malloc", "alloc::boxed::Box<T>::new"]), "OldNames");
    }

    #[test]
    fn names_of_debug_information_without_a_path_have_no_type() {
        let inlined = |function: &str| Frame { is_inlined: true, ..frame(function) };
        let stack = [inlined("grow_one<(u32, String), Global>"), frame("a::f")];
        assert_eq!(of_stack(&stack.iter().collect::<Vec<_>>()), Err(NoType::Inlined));
        let unknown = Frame::unknown(None, 7);
        assert_eq!(of_stack(&[&unknown]), Err(NoType::NoName));
        assert_eq!(of_stack(&[]), Err(NoType::NoName));
    }

    #[test]
    fn a_block_of_nothing_else_has_elements() {
        let of = |path: &str| AllocatedType(path.to_owned()).element();
        assert_eq!(of("alloc::vec::Vec<(u8, a::Token)>").as_deref(), Some("(u8, a::Token)"));
        assert_eq!(of("alloc::boxed::Box<[a::Token]>").as_deref(), Some("a::Token"));
        assert_eq!(of("alloc::boxed::Box<a::Token>").as_deref(), Some("a::Token"));
        assert_eq!(of("alloc::boxed::Box<[u8; 3]>").as_deref(), Some("[u8; 3]"));
        for other in
            ["alloc::string::String", "alloc::sync::Arc<a::Token>", "std::collections::HashMap<u8, u8>"]
        {
            assert_eq!(of(other), None, "{other} has more than its elements");
        }
        assert_eq!(elements("alloc::vec::Vec<a::Token>::push").as_deref(), Some("a::Token"));
        assert_eq!(elements("alloc::vec::Vec<T,A>::push"), None);
    }

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

    proptest::proptest! {
        #[test]
        fn any_text_is_taken(path in "[abT:<>{}#\\[\\](), é-]{0,40}") {
            of(&[&path]);
            of(&["alloc::alloc::alloc", &path]);
            of(&["alloc::alloc::alloc", &format!("alloc::vec::Vec<{path}>::push")]);
            without_modules(&path);
            cleaned(&path);
        }
    }
}
