//! A frame of a call stack: a function, and where its code is.

use serde::{Deserialize, Serialize};

pub use crate::symbols::code_place::Place;
use crate::why::function_path::{crate_name, normalised, readable};

/// A function on a call stack.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Frame {
    /// The function's path, demangled; `None` if there are no symbols.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
    /// The file; `None` without line tables.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<Place>,
    /// The line in this file that runs: the call, or the allocation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// Whether the function is inlined into the next one outside.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_inlined: bool,
    /// The address, if there is no function.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<Address>,
}

/// Where a frame without a function is.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Address {
    /// The library's path; empty for the executable, `None` if the address is in no module.
    pub module: Option<String>,
    /// The address in the module, or in the process if there is no module.
    pub address: u64,
}

/// Whose code a frame is, the most interesting first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Owner {
    /// The user's.
    Checkout,
    Dependency,
    /// The standard library's.
    Std,
    /// Unknown, or a library in another language.
    Unknown,
}

/// What decides whether a frame names a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameKind {
    pub(crate) owner: Owner,
    /// Whether the function belongs to libtest.
    pub(crate) is_of_harness: bool,
}

/// The beginnings of the functions that lead from a container to the allocator.
const OF_ALLOCATOR: [&str; 9] = [
    "__rust_",
    "__rustc::",
    "__rdl_",
    "__rg_",
    "alloc::alloc::",
    "<alloc::alloc::",
    "alloc::raw_vec::",
    "<alloc::raw_vec::",
    "core::alloc::",
];

impl Frame {
    /// Returns a frame of which only the address is known.
    pub fn unknown(module: Option<String>, address: u64) -> Self {
        let address = Some(Address { module, address });
        Self { function: None, place: None, line: None, is_inlined: false, address }
    }

    /// Returns whose code it is.
    pub fn owner(&self) -> Owner {
        match &self.place {
            Some(Place::Checkout(_)) if self.is_shim_in_checkout() => Owner::Unknown,
            Some(Place::Checkout(_) | Place::Generated { .. }) => Owner::Checkout,
            Some(Place::Registry { .. } | Place::Git { .. }) => Owner::Dependency,
            Some(Place::Std(_)) => Owner::Std,
            Some(Place::Other(_)) => Owner::Unknown,
            // Without line tables, the path tells the standard library from the rest.
            None => match self.function.as_deref().map(crate_name) {
                Some("std" | "core" | "alloc" | "test" | "__rustc" | "hashbrown") => Owner::Std,
                Some(_) if self.function.as_ref().is_some_and(|path| path.contains("::")) => {
                    Owner::Dependency
                }
                _ => Owner::Unknown,
            },
        }
    }

    /// Returns what decides whether it names a site.
    pub(crate) fn kind(&self) -> FrameKind {
        FrameKind { owner: self.owner(), is_of_harness: self.is_of_harness() }
    }

    /// Returns the function's path, or else its address: `libcuda.so.1+0x2f10`.
    pub fn name(&self) -> String {
        if let Some(function) = &self.function {
            return readable(function);
        }
        let Some(Address { module, address }) = &self.address else { return "unknown".to_owned() };
        match module.as_deref() {
            Some("") => format!("0x{address:x} in the executable"),
            Some(path) => format!("{}+0x{address:x}", path.rsplit('/').next().unwrap_or(path)),
            None => format!("0x{address:x}"),
        }
    }

    /// Returns a text that is the same for a function in both revisions.
    pub fn key(&self) -> String {
        match (&self.function, &self.address) {
            (Some(function), _) => normalised(function),
            // Addresses move with every build.
            (None, Some(Address { module: Some(module), .. })) => format!("in {module}"),
            (None, _) => String::new(),
        }
    }

    /// Returns the file and the line: `src/lib.rs:7`, `serde 1.0.2 src/de.rs:7`.
    pub fn location(&self) -> Option<String> {
        let file = self.place.as_ref()?.to_string();
        Some(self.line.map_or(file.clone(), |line| format!("{file}:{line}")))
    }

    /// Returns the path of a file of the user's repository.
    pub(crate) fn checkout_path(&self) -> Option<&str> {
        match &self.place {
            Some(Place::Checkout(path)) if !self.is_shim_in_checkout() => Some(path),
            _ => None,
        }
    }

    /// Whether it is the shim's generic code, which is compiled with a crate of the user that has an own allocator.
    /// Debug information has it in the folder where that crate is compiled, as `memprof/CRATE/heap/allocator.rs`.
    fn is_shim_in_checkout(&self) -> bool {
        let (Some(Place::Checkout(path)), Some(function)) = (&self.place, &self.function) else {
            return false;
        };
        if !path.contains("memprof/memprof") {
            return false;
        }
        let function = normalised(function);
        let parts: Vec<&str> = path.split('/').collect();
        // A package of the user may be in such a folder, and has its sources in another one there.
        parts.windows(3).any(|part| {
            part[0] == "memprof"
                && part[1].starts_with("memprof")
                && part[1] == crate_name(&function)
                && part[2] != "src"
        })
    }

    /// Whether the function belongs to libtest.
    fn is_of_harness(&self) -> bool {
        match &self.place {
            Some(Place::Std(path)) if path.starts_with("test/") => true,
            // The user's `tests/test.rs` is a crate with the same name.
            Some(
                Place::Checkout(_) | Place::Generated { .. } | Place::Registry { .. } | Place::Git { .. },
            ) => false,
            _ => self.function.as_deref().is_some_and(|path| path.starts_with("test::")),
        }
    }

    /// Whether the function is the one of libtest that calls a test's body.
    pub(crate) fn calls_body(&self) -> bool {
        self.function.as_deref().is_some_and(|path| path.starts_with("test::__rust_begin_short_backtrace"))
    }

    /// Whether it belongs to the allocator, and says nothing about who allocates.
    pub(crate) fn is_of_allocator(&self) -> bool {
        let Some(function) = &self.function else { return false };
        let path = normalised(function);
        // The shim has these names; a package of the user or of a registry may have one like them.
        let of = crate_name(&path);
        let is_of_shim = (of == "memprof" || of.starts_with("memprof_"))
            && !matches!(
                self.place,
                Some(
                    Place::Checkout(_) | Place::Generated { .. } | Place::Registry { .. } | Place::Git { .. }
                )
            );
        OF_ALLOCATOR.iter().any(|start| path.starts_with(start))
            || path.contains(" as core::alloc::global::GlobalAlloc>::")
            || is_of_shim
            || self.is_shim_in_checkout()
    }

    /// Whether it is in the code that names the lines of a backtrace. That reads the program's debug information,
    /// which grows with the program.
    pub(crate) fn names_lines(&self) -> bool {
        let starts = ["std::backtrace_rs::symbolize::", "backtrace::symbolize::"];
        self.function.as_deref().is_some_and(|path| starts.iter().any(|start| path.starts_with(start)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(function: &str, place: Option<Place>) -> Frame {
        Frame { function: Some(function.to_owned()), place, line: Some(7), is_inlined: false, address: None }
    }

    #[test]
    fn the_allocators_frames_are_known_by_name() {
        for function in [
            "__rust_alloc",
            "__rustc[1f]::__rust_alloc",
            "alloc::alloc::alloc_zeroed",
            "<alloc::alloc::Global as core::alloc::Allocator>::allocate",
            "alloc::raw_vec::RawVecInner<A>::try_allocate_in",
            "<alloc::raw_vec::RawVec<u8>>::grow_one",
            "memprof::heap::Tracking::alloc",
            "<memprof_shim::heap::Tracking as a::B>::alloc",
            "<jemalloc::Jemalloc as core::alloc::global::GlobalAlloc>::alloc",
        ] {
            assert!(frame(function, None).is_of_allocator(), "{function}");
        }
        for function in ["alloc::vec::Vec<T>::push", "a::alloc::alloc", "memprofile::f"] {
            assert!(!frame(function, None).is_of_allocator(), "{function}");
        }
        let own = frame("memprof::decode", Some(Place::Checkout("src/lib.rs".to_owned())));
        assert!(!own.is_of_allocator(), "the user's crate may have any name");
    }

    #[test]
    fn the_shim_is_known_in_crates_that_wrap_their_own_allocator() {
        let in_checkout =
            |function: &str, path: &str| frame(function, Some(Place::Checkout(path.to_owned())));
        for path in ["memprof/memprof/heap/allocator.rs", "app/memprof/memprof/heap/allocator.rs"] {
            let shim = in_checkout("memprof::heap::allocator::<impl memprof::Heap<A>>::alloc", path);
            assert!(shim.is_of_allocator() && shim.checkout_path().is_none(), "{path}");
            assert_eq!(shim.owner(), Owner::Unknown, "{path}");
        }
        for (function, path) in [
            ("app::heap::f", "memprof/memprof/heap/allocator.rs"),
            ("memprof::heap::f", "memprof/memprof/src/heap.rs"),
            ("memprof_app::f", "memprof/memprof/tests/memprof_app.rs"),
            ("memprof::f", "my-memprof/memprof/lib.rs"),
        ] {
            let own = in_checkout(function, path);
            assert!(!own.is_of_allocator() && own.checkout_path() == Some(path), "{function} in {path}");
            assert_eq!(own.owner(), Owner::Checkout, "{function} in {path}");
        }
    }

    #[test]
    fn the_crate_of_tests_may_have_the_name_of_the_harness() {
        let is_of_harness =
            |function: &str, place: Option<Place>| frame(function, place).kind().is_of_harness;
        let std = Place::Std("test/src/lib.rs".to_owned());
        assert!(is_of_harness("test::run_test", Some(std)) && is_of_harness("test::run_test", None));
        assert!(!is_of_harness("test::parses", Some(Place::Checkout("tests/test.rs".to_owned()))));
    }

    #[test]
    fn without_symbols_a_frame_is_its_address() {
        let name = |module: Option<&str>| Frame::unknown(module.map(str::to_owned), 0x2f10).name();
        assert_eq!(name(Some("/lib/libcuda.so.1")), "libcuda.so.1+0x2f10");
        assert_eq!(name(Some("")), "0x2f10 in the executable");
        assert_eq!(name(None), "0x2f10");
    }

    #[test]
    fn without_line_tables_the_path_tells_whose_code_it_is() {
        let owner = |function: &str| frame(function, None).owner();
        assert_eq!(
            [owner("core::iter::f"), owner("a::f"), owner("main")],
            [Owner::Std, Owner::Dependency, Owner::Unknown]
        );
    }
}
