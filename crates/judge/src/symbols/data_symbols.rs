//! The names of statics and thread-locals, from an executable's symbol table.

use anyhow::Context;
use camino::Utf8Path;
use object::{Object, ObjectSymbol, ReadCache, SymbolKind};

use crate::symbols::function_name::FunctionName;
use memprof_support::regular_file::followed;

/// The statics and the thread-locals of an executable.
#[derive(Clone, Debug, Default)]
pub struct DataSymbols {
    statics: Vec<Symbol>,
    thread_locals: Vec<Symbol>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Symbol {
    address: u64,
    size: u64,
    name: String,
}

impl DataSymbols {
    /// Reads a file. A stripped one has no names.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read(path: &Utf8Path) -> anyhow::Result<Self> {
        let cache = ReadCache::new(followed::open(path)?);
        let file = object::File::parse(&cache).with_context(|| format!("cannot read {path}"))?;
        let mut found = Self::default();
        for symbol in file.symbols() {
            let list = match symbol.kind() {
                SymbolKind::Data | SymbolKind::Unknown => &mut found.statics,
                SymbolKind::Tls => &mut found.thread_locals,
                _ => continue,
            };
            let name = symbol.name().unwrap_or_default().to_owned();
            if symbol.size() != 0 && !name.is_empty() && !symbol.is_undefined() {
                list.push(Symbol { address: symbol.address(), size: symbol.size(), name });
            }
        }
        found.statics.sort_unstable();
        found.thread_locals.sort_unstable();
        Ok(found)
    }

    /// Returns the path of the static around an address of the file.
    pub fn static_at(&self, address: u64) -> Option<String> {
        around(&self.statics, address)
    }

    /// Returns the path of the thread-local around a place in the file's thread-locals.
    pub fn thread_local_at(&self, place: u64) -> Option<String> {
        around(&self.thread_locals, place)
    }
}

fn around(symbols: &[Symbol], address: u64) -> Option<String> {
    let behind = symbols.partition_point(|symbol| symbol.address <= address);
    let symbol = symbols.get(behind.checked_sub(1)?)?;
    let is_inside = address - symbol.address < symbol.size;
    is_inside.then(|| variable(&FunctionName::new(&symbol.name).path).to_owned())
}

/// The path of the variable as the source has it: `thread_local!` makes functions and statics below it.
fn variable(path: &str) -> &str {
    let ends = ["::{constant", "::{K#", "::__getit"];
    let end = ends.iter().filter_map(|end| path.find(end)).min().unwrap_or(path.len());
    if path[..end].contains("::") { &path[..end] } else { path }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_is_named_as_in_the_source() {
        assert_eq!(variable("app::HISTORY::{K#0}::{closure#1}::VAL"), "app::HISTORY");
        assert_eq!(variable("app::HISTORY::{constant}::{closure}::VAL"), "app::HISTORY");
        assert_eq!(variable("app::HISTORY::__getit::VAL"), "app::HISTORY");
        assert_eq!(variable("app::cache::CACHE"), "app::cache::CACHE");
        assert_eq!(variable("environ"), "environ");
    }

    #[test]
    fn a_place_inside_of_a_variable_finds_it() {
        let symbol = |address, size, name: &str| Symbol { address, size, name: name.to_owned() };
        let symbols = [symbol(16, 8, "one"), symbol(32, 24, "two")];
        let found = |address| around(&symbols, address);
        assert_eq!(found(15), None);
        assert_eq!(found(23).as_deref(), Some("one"));
        assert_eq!(found(24), None);
        assert_eq!(found(40).as_deref(), Some("two"));
        assert_eq!(found(56), None);
    }
}
