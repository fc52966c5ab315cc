//! What holds memory outside of the heap, by name: statics, thread-locals and functions on stacks.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::results::stack_log::StackLog;
use crate::symbols::data_symbols::DataSymbols;
use crate::why::function_path::{normalised, without_closures};
use crate::why::heap_snapshot::{HeapSnapshot, Holder};

/// What holds memory outside of the heap.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind", content = "name")]
pub enum RootName {
    /// A static, by its path.
    Static(String),
    /// A thread-local, by its path.
    ThreadLocal(String),
    /// The frame of a function, by its path.
    Stack(String),
    /// The stack of a thread, by its name.
    Thread(String),
    /// Nothing has a pointer to the first block.
    NoPointer,
    /// The blocks of this type point to each other, and nothing else to them.
    Cycle(String),
    /// Several of these, and no block below them alone.
    Several(Vec<RootName>),
}

impl RootName {
    /// Returns what an owner's line says about it.
    pub fn words(&self) -> String {
        match self {
            Self::NoPointer => "no pointer to it".to_owned(),
            Self::Cycle(of) => format!("a cycle of {of}"),
            Self::Several(of) if of.is_empty() => "from several places".to_owned(),
            Self::Several(of) => {
                let names: Vec<String> = of.iter().map(Self::own).collect();
                format!("from {}", names.join(" and "))
            }
            _ => format!("from {}", self.own()),
        }
    }

    fn own(&self) -> String {
        match self {
            Self::Static(path) => format!("static {}", path.rsplit("::").next().unwrap_or(path)),
            Self::ThreadLocal(path) => format!("thread-local {}", path.rsplit("::").next().unwrap_or(path)),
            Self::Stack(path) => format!("the stack of {}", short_function(path)),
            Self::Thread(name) => format!("the stack of thread {name}"),
            Self::NoPointer | Self::Cycle(_) | Self::Several(_) => self.words(),
        }
    }

    /// Returns its kind, as in files.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Static(_) => "static",
            Self::ThreadLocal(_) => "thread_local",
            Self::Stack(_) => "stack",
            Self::Thread(_) => "thread",
            Self::NoPointer => "no_pointer",
            Self::Cycle(_) => "cycle",
            Self::Several(_) => "several",
        }
    }

    /// Whether a program could reach what it holds.
    pub fn is_reached(&self) -> bool {
        !matches!(self, Self::NoPointer | Self::Cycle(_))
    }

    /// Returns a text that is the same in both revisions.
    pub(super) fn key(&self) -> String {
        match self {
            // The others of several may be there by chance.
            Self::Several(of) => of.first().map_or_else(|| self.words(), Self::key),
            Self::Stack(path) => format!("the stack of {}", without_closures(&normalised(path))),
            Self::Cycle(_) => "a cycle".to_owned(),
            _ => self.words(),
        }
    }
}

/// Returns a function as people write it: `Cache::new`, `fill`.
pub fn short_function(path: &str) -> String {
    let path = normalised(path);
    let path = without_closures(&path);
    // `<app::Cache as core::default::Default>::default`.
    let (of_type, name) = match path.strip_prefix('<').and_then(|rest| rest.split_once(['>', ' '])) {
        Some((of, _)) => (of, path.rsplit("::").next().unwrap_or(path)),
        None => path.rsplit_once("::").unwrap_or(("", path)),
    };
    let of_type = of_type.split('<').next().unwrap_or(of_type);
    let last = of_type.rsplit("::").next().unwrap_or(of_type);
    let is_type = last.starts_with(char::is_uppercase);
    if is_type { format!("{last}::{name}") } else { name.to_owned() }
}

/// The shim and its allocator. Their statics hold addresses of blocks, and no blocks.
fn is_of_shim(path: &str) -> bool {
    let path = path.trim_start_matches('<');
    path.starts_with("memprof::") || path.starts_with("memprof_heap::")
}

/// Names the holders of a snapshot. `function` returns the function of the user's code at an address of the
/// process, or else any function there and whether it belongs to the test harness.
pub(super) struct Roots<'a> {
    snapshot: &'a HeapSnapshot,
    log: &'a StackLog,
    symbols: &'a DataSymbols,
    /// The name of each frame of the calling thread.
    frames: Vec<RootName>,
    known: BTreeMap<Holder, Option<RootName>>,
}

/// A function on the stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StackFunction {
    pub path: String,
    /// Whether it is in the user's repository.
    pub is_own: bool,
}

impl<'a> Roots<'a> {
    pub(super) fn new(
        snapshot: &'a HeapSnapshot,
        log: &'a StackLog,
        symbols: &'a DataSymbols,
        function: &mut dyn FnMut(u64) -> Vec<StackFunction>,
    ) -> Self {
        let own = snapshot.threads.iter().find(|thread| thread.is_own);
        let mut name = RootName::Thread(own.map_or_else(|| "unknown".to_owned(), |own| own.name.clone()));
        // Library code works for the function of the user that called it.
        let mut frames: Vec<RootName> = Vec::new();
        for address in snapshot.frames.iter().rev() {
            let mut functions = function(*address).into_iter().filter(|function| function.is_own);
            if let Some(function) = functions.next() {
                name = RootName::Stack(function.path);
            }
            frames.push(name.clone());
        }
        frames.reverse();
        Self { snapshot, log, symbols, frames, known: BTreeMap::new() }
    }

    /// Returns the name; `None` if what it has are no pointers.
    pub(super) fn name(&mut self, holder: Holder) -> Option<RootName> {
        if !self.known.contains_key(&holder) {
            let name = self.find(holder);
            self.known.insert(holder, name);
        }
        self.known[&holder].clone()
    }

    fn find(&self, holder: Holder) -> Option<RootName> {
        match holder {
            Holder::Static(address) => self.static_at(address),
            Holder::ThreadLocal(None) => Some(RootName::ThreadLocal("of the C library".to_owned())),
            Holder::ThreadLocal(Some(place)) => {
                let name = self.symbols.thread_local_at(place);
                let name = name.unwrap_or_else(|| "without a name".to_owned());
                (!is_of_shim(&name)).then_some(RootName::ThreadLocal(name))
            }
            Holder::Frame(number) => self.frames.get(number as usize).cloned(),
            Holder::Stack(number) => {
                let name = self.snapshot.threads.get(number as usize)?.name.clone();
                Some(RootName::Thread(if name.is_empty() { "without a name".to_owned() } else { name }))
            }
        }
    }

    fn static_at(&self, address: u64) -> Option<RootName> {
        let is_around = |place: &&crate::why::heap_snapshot::LoadedData| {
            !place.are_thread_locals && (place.begin..place.end).contains(&address)
        };
        let bias = self.snapshot.places.iter().find(is_around)?.bias;
        let module = self.log.modules.iter().find(|module| module.bias == bias);
        let path = match module {
            Some(module) if !module.path.is_empty() => {
                let file = module.path.rsplit('/').next().unwrap_or(&module.path);
                format!("in {file}")
            }
            _ => {
                let name = self.symbols.static_at(address.wrapping_sub(bias));
                name.unwrap_or_else(|| "without a name".to_owned())
            }
        };
        (!is_of_shim(&path)).then_some(RootName::Static(path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_named_as_people_write_them() {
        assert_eq!(short_function("app::cache::Cache::new"), "Cache::new");
        assert_eq!(short_function("app::cache::Cache<app::Key>::new"), "Cache::new");
        assert_eq!(short_function("<app::Cache as core::default::Default>::default"), "Cache::default");
        assert_eq!(short_function("app::cache::fill::{closure#0}"), "fill");
        assert_eq!(short_function("main"), "main");
    }

    #[test]
    fn roots_have_words() {
        let of = |names: &[RootName]| RootName::Several(names.to_vec()).words();
        let (one, two) = (RootName::Static("a::CACHE".into()), RootName::Thread("worker".into()));
        assert_eq!(one.words(), "from static CACHE");
        assert_eq!(of(&[one, two]), "from static CACHE and the stack of thread worker");
        assert_eq!(of(&[]), "from several places");
        assert_eq!(RootName::Cycle("Arc<Node>".into()).words(), "a cycle of Arc<Node>");
        assert_eq!(RootName::Stack("a::t::holds".into()).words(), "from the stack of holds");
    }
}
