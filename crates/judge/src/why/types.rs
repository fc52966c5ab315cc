//! The type that allocates: from the names of the innermost functions on a stack, with their generic
//! arguments. What the names do not say has no type, and a reason.

use crate::why::containers::{Container, Kind, container, container_of, self_type};
use crate::why::frame::{Frame, Owner};
use crate::why::slots;
use crate::why::type_path::{PRIMITIVES, cleaned, is_known, split_at, without_modules};

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
            Self::OldNames => "names without generic arguments (docs/why.md#types)",
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

/// Returns the types whose sizes say how many elements a block has that a function allocates: those of a container's
/// elements, and nodes of B-trees.
pub fn parts(function: &str) -> impl Iterator<Item = String> {
    let named = container_of(function).and_then(|container| container.named().ok());
    let element = named.and_then(|of| of.element().or_else(|| slots::pair(of.path())));
    element.into_iter().chain(slots::node(function).map(|(leaf, _)| leaf))
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

impl Container {
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
    fn a_vector_of_vectors_is_not_its_element() {
        let with_capacity = "alloc::vec::Vec<alloc::vec::Vec<f64>>::with_capacity_in";
        let from_elem = "<alloc::vec::Vec<f64> as alloc::vec::spec_from_elem::SpecFromElem>::from_elem";
        let outer = "alloc::vec::from_elem::<alloc::vec::Vec<f64>>";
        let raw = "alloc::raw_vec::RawVec<alloc::vec::Vec<f64>>::with_capacity_in";
        assert_eq!(grown(&[raw, with_capacity, from_elem, outer, "a::f"]), "Vec<Vec<f64>>");
        let row =
            ["alloc::vec::Vec<f64>::with_capacity_in", "<alloc::vec::Vec<f64> as core::clone::Clone>::clone"];
        let rows = ["alloc::vec::Vec<alloc::vec::Vec<f64>>::extend_with", from_elem, outer, "a::f"];
        assert_eq!(grown(&[&row[..], &rows].concat()), "Vec<f64>");
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
        let parts = |function: &str| super::parts(function).collect::<Vec<_>>();
        assert_eq!(parts("alloc::vec::Vec<a::Token>::push"), ["a::Token"]);
        assert_eq!(parts("alloc::vec::Vec<T,A>::push"), [""; 0]);
        assert_eq!(parts("std::collections::HashMap<u8, a::Token>::insert"), ["(u8, a::Token)"]);
        let leaf = "alloc::collections::btree::node::LeafNode<u8, a::Token>";
        assert_eq!(parts(&format!("{leaf}::new")), [leaf]);
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
