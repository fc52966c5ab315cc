//! What a run's folder keeps about call sites, so that reports need neither the executables nor the
//! repository: which tests were recorded, their functions, and the changed source files.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::results::stack_log::Module;
use crate::why::frame::Frame;
use crate::why::owner_tree::OwnerTree;
use memprof_plan::resolved::CellId;

/// `why/tests.json`: the tests with call stacks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StoredTests {
    /// One entry for each pair or, with one revision, each test.
    pub tests: Vec<StoredTest>,
    /// The number of tests that were left out, and why.
    pub left_out: Option<String>,
}

/// A test that was recorded, or why it was not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StoredTest {
    /// The test.
    pub cell: CellId,
    /// Index of the candidate, or of the only revision.
    pub candidate: usize,
    /// Why there are no call sites.
    pub problem: Option<String>,
}

/// The functions at addresses of a file. The innermost inlined function is the first.
pub type Functions = BTreeMap<u64, Vec<Arc<Frame>>>;

/// `why/executables/<hash>.json`: what is known of an executable that tests ran with call stacks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StoredExecutable {
    /// Why lines or names are missing in it, and what provides them.
    pub note: Option<String>,
    /// The functions of the frames of all its logs; none where only the address is known.
    pub functions: Functions,
    /// The sizes of types that are elements of containers, in bytes, by their paths. `None` if two types have the
    /// path.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sizes: BTreeMap<String, Option<u64>>,
}

impl StoredExecutable {
    /// Returns the sizes of types that are certain.
    pub fn sizes(&self) -> BTreeMap<String, u64> {
        self.sizes.iter().filter_map(|(path, size)| Some((path.clone(), (*size)?))).collect()
    }

    /// Adds what was found elsewhere in the same executable.
    pub fn merge(&mut self, other: Self) {
        let Self { note, functions, sizes } = other;
        self.note = self.note.take().or(note);
        self.functions.extend(functions);
        for (path, size) in sizes {
            let known = self.sizes.entry(path).or_insert(size);
            *known = known.filter(|_| *known == size);
        }
    }
}

/// `symbols.json` beside a log: where the functions of its frames are.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StoredSymbols {
    /// The hash of the executable. `None` if none of its code is in the log.
    pub executable: Option<String>,
    /// Functions of the libraries that the process loaded, by their numbers in the log.
    pub libraries: BTreeMap<u32, Functions>,
}

/// The functions of one log.
#[derive(Clone, Debug)]
pub struct LogSymbols<'a> {
    /// What is known of the executable; nothing if none of its code is in the log.
    pub executable: &'a StoredExecutable,
    /// As in [`StoredSymbols`].
    pub libraries: BTreeMap<u32, Functions>,
}

impl LogSymbols<'_> {
    /// Returns the functions at an address, or none.
    pub fn frames(&self, module: Option<&Module>, address: u64) -> Vec<Arc<Frame>> {
        let functions = match module.map(|module| module.number) {
            None => None,
            Some(0) => Some(&self.executable.functions),
            Some(library) => self.libraries.get(&library),
        };
        functions.and_then(|functions| functions.get(&address)).cloned().unwrap_or_default()
    }
}

/// `owners-<candidate>.json` beside a log: who holds the memory of one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StoredOwners {
    /// The owners.
    pub tree: Option<OwnerTree>,
    /// Why they are not known, or what limits the answer.
    pub problem: Option<String>,
}

/// `changes.json`: the source files that differ between the baseline and each candidate.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StoredChanges {
    /// By candidate; or why they are not known.
    pub of: BTreeMap<usize, Result<Vec<StoredFile>, String>>,
}

/// A source file that differs, or a folder (`lib/`) of which it is not known how it differs: a submodule.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StoredFile {
    /// The path at the baseline and at the candidate; `None` if a side lacks it.
    pub paths: [Option<String>; 2],
    /// The text on each side; `None` if it could not be read.
    pub texts: [Option<String>; 2],
    /// Its other paths on each side: through symbolic links. The compiler may know it by one of them.
    #[serde(default, skip_serializing_if = "StoredFile::has_no_links")]
    pub links: [Vec<String>; 2],
}

impl StoredFile {
    fn has_no_links(links: &[Vec<String>; 2]) -> bool {
        links.iter().all(Vec::is_empty)
    }

    /// Returns its paths on each side, the one through no link first.
    pub(crate) fn all_paths(&self) -> [impl Iterator<Item = &String>; 2] {
        [0, 1].map(|side| self.paths[side].iter().chain(&self.links[side]))
    }

    /// A folder of which it is not known how it differs. Its path ends with a slash.
    pub fn unknown(folder: &str) -> Self {
        Self { paths: [0, 1].map(|_| Some(folder.to_owned())), ..Self::default() }
    }

    /// Returns the path of such a folder.
    pub(crate) fn unknown_folder(&self) -> Option<&str> {
        self.paths[1].as_deref().filter(|path| path.ends_with('/'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_with_two_sizes_has_none_and_functions_add_up() {
        let function = |line: u32| {
            let unknown = Frame::unknown(None, 0);
            vec![Arc::new(Frame { function: Some("app::f".to_owned()), line: Some(line), ..unknown })]
        };
        let found = |line: u32, size: u64| StoredExecutable {
            note: None,
            functions: [(u64::from(line), function(line))].into(),
            sizes: [("app::Token".to_owned(), Some(size)), (format!("app::Of{line}"), Some(8))].into(),
        };
        let mut known = found(1, 16);
        known.merge(found(2, 24));
        assert_eq!(known.functions.keys().collect::<Vec<_>>(), [&1, &2]);
        assert_eq!(known.sizes(), [("app::Of1".to_owned(), 8), ("app::Of2".to_owned(), 8)].into());
        known.merge(found(3, 16));
        assert!(!known.sizes().contains_key("app::Token"), "it stays uncertain");
        let symbols = LogSymbols { executable: &known, libraries: [(3, [(7, function(9))].into())].into() };
        let module = |number: u32| Module { number, path: String::new(), bias: 0, begin: 0, end: 9 };
        assert_eq!(symbols.frames(Some(&module(0)), 2), function(2));
        assert_eq!(symbols.frames(Some(&module(3)), 7), function(9));
        let unknown = [symbols.frames(Some(&module(3)), 2), symbols.frames(None, 2)];
        assert!(unknown.iter().all(Vec::is_empty), "an address of another file, and of none");
    }
}
