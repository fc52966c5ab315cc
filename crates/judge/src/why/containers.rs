//! The types of the standard library that own a block, known by the functions that allocate it.

use crate::why::type_path::{is_known, segments, split, split_at};

/// A type of the standard library that owns a block, or one that a block of it is known by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Container {
    pub kind: Kind,
    /// The path.
    pub path: String,
    /// The generic arguments, apart from allocators and hashers.
    pub arguments: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
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
pub(super) fn container_of(function: &str) -> Option<Container> {
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
    if let Some(element) = element_of_vec(function) {
        return container(&format!("alloc::vec::Vec<{element}>"));
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

/// The type for which this function of a trait makes a vector, `Vec<T>` in `vec![v; n]` of vectors. It is a
/// function of the element, and not of what it makes.
fn element_of_vec(function: &str) -> Option<&str> {
    const MAKE: [&str; 2] =
        [" as alloc::vec::spec_from_elem::SpecFromElem>::", " as <[_]>::to_vec_in::ConvertVec>::"];
    let inner = function.strip_prefix('<')?;
    let end = MAKE.iter().find_map(|make| inner.find(make))?;
    Some(&inner[..end]).filter(|element| is_known(element))
}

pub(super) fn container(path: &str) -> Option<Container> {
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
    pub(super) fn holds(&self, inner: &Self) -> bool {
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
    pub(super) fn is_merged(&self, inner: &Self) -> bool {
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
}

/// Returns the type that a function belongs to, and the function's own name: `a::Type<u8>` and `f` of
/// `<a::Type<u8> as b::Trait>::f::<u16>::{closure#0}`.
pub(super) fn self_type(function: &str) -> Option<(String, &str)> {
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
