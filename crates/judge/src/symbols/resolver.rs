//! From addresses of an executable or a shared library to functions, files and lines.
//! Everything is read from the file, without a network, and only as far as it is asked for.

use std::collections::HashMap;

use addr2line::Loader;
use anyhow::Context;
use camino::Utf8Path;
use object::{Object, ReadCache, SymbolMap, SymbolMapEntry};

use crate::symbols::code_place::{Paths, Place};
use crate::symbols::debug_file;
use crate::symbols::function_name::{self, FunctionName};
use memprof_support::regular_file::followed;

/// A function on the stack. One address can be several: a function and those inlined into it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// The function's path, such as `alloc::vec::Vec<u8>::push`, or a C function's name.
    pub function: Option<String>,
    /// The module that the function was written in, such as `alloc::vec`; Rust only.
    pub module: Option<String>,
    /// The file of the call, or of the address itself in the innermost function.
    pub place: Option<Place>,
    /// The line in that file, counted from 1.
    pub line: Option<u32>,
    /// Whether the compiler put the function into the next one.
    pub is_inlined: bool,
}

impl Frame {
    /// Returns the crate that the function was written in.
    pub fn crate_name(&self) -> Option<&str> {
        self.module.as_deref().and_then(|module| module.split("::").next())
    }

    fn detail(&self) -> Detail {
        match (&self.function, &self.place) {
            (_, Some(_)) if self.line.is_some() => Detail::Lines,
            (Some(_), _) => Detail::Names,
            (None, _) => Detail::Addresses,
        }
    }
}

/// How much is known about addresses, from the least to the most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Detail {
    /// Only addresses: the symbol table was stripped, or does not contain them.
    Addresses,
    /// Functions, from the symbol table. Inlined functions are missing.
    Names,
    /// Functions, inlined functions, files and lines, from debug information.
    Lines,
}

/// What the names come from.
enum Source {
    /// Debug information and symbols.
    Debug(Box<Loader>),
    /// Symbols alone, because the debug information cannot be read.
    Symbols(SymbolMap<Symbol>),
}

struct Symbol {
    address: u64,
    size: u64,
    name: String,
}

impl SymbolMapEntry for Symbol {
    fn address(&self) -> u64 {
        self.address
    }

    fn size(&self) -> u64 {
        self.size
    }
}

/// Resolves addresses of one file, and remembers them.
pub struct Resolver {
    source: Source,
    paths: Paths,
    damage: Option<String>,
    known: HashMap<u64, Vec<Frame>>,
}

impl Resolver {
    /// Opens an executable or a shared library. The debug information of a stripped library is also
    /// looked for below `/usr/lib/debug`.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or its format is unknown.
    pub fn open(path: &Utf8Path, paths: &Paths) -> anyhow::Result<Self> {
        let (source, damage) = match Loader::new(debug_file::find(path)) {
            Ok(loader) => (Source::Debug(Box::new(loader)), None),
            Err(error) => (Source::Symbols(symbols(path)?), Some(error.to_string())),
        };
        Ok(Self { source, paths: paths.clone(), damage, known: HashMap::new() })
    }

    /// Returns why the debug information cannot be read, if it is damaged.
    pub fn damage(&self) -> Option<&str> {
        self.damage.as_deref()
    }

    /// Returns the functions at an address of the file, from the innermost to the outermost. There is
    /// at least one; of an unknown address, it has no function.
    ///
    /// The address is inside of the call instruction: one below the return address.
    pub fn frames(&mut self, address: u64) -> &[Frame] {
        if !self.known.contains_key(&address) {
            let frames = self.look_up(address);
            self.known.insert(address, frames);
        }
        &self.known[&address]
    }

    /// Returns how much the file says about its code, judged by the addresses resolved so far.
    ///
    /// The standard library always has lines and C code has settings of its own, so they count only if
    /// nothing else was resolved.
    pub fn detail(&self) -> Detail {
        let best = |is_wanted: fn(&Frame) -> bool| {
            let outer = self.known.values().filter_map(|frames| frames.last());
            outer.filter(|frame| is_wanted(frame)).map(Frame::detail).max()
        };
        let own = |frame: &Frame| frame.crate_name().is_some() && !is_of_toolchain(frame);
        best(own).or_else(|| best(|_| true)).unwrap_or(Detail::Addresses)
    }

    fn look_up(&mut self, address: u64) -> Vec<Frame> {
        let mut frames = match self.debugged_frames(address) {
            Ok(frames) => frames,
            Err(error) => {
                self.damage.get_or_insert(error);
                Vec::new()
            }
        };
        if frames.is_empty() {
            frames.push(Frame::default());
        }
        let count = frames.len();
        for frame in &mut frames[..count - 1] {
            frame.is_inlined = true;
        }
        let symbol = self.symbol(address);
        let outermost = &mut frames[count - 1];
        // Line tables have a function's last name alone, and symbols have the whole path.
        if let Some(symbol) = symbol
            && (outermost.function.is_none()
                || outermost.module.is_none() && function_name::is_mangled(symbol))
        {
            let FunctionName { path, module } = FunctionName::new(symbol);
            (outermost.function, outermost.module) = (Some(path), module);
        }
        // Inlined functions have no symbol.
        for frame in frames.iter_mut().filter(|frame| frame.is_inlined && frame.module.is_none()) {
            frame.module = frame.place.as_ref().and_then(Place::module);
        }
        frames
    }

    fn debugged_frames(&self, address: u64) -> Result<Vec<Frame>, String> {
        let Source::Debug(loader) = &self.source else { return Ok(Vec::new()) };
        if address == u64::MAX {
            // addr2line adds 1 to it.
            return Ok(Vec::new());
        }
        let mut found = loader.find_frames(address).map_err(|error| error.to_string())?;
        let mut frames = Vec::new();
        while let Some(frame) = found.next().map_err(|error| error.to_string())? {
            let symbol = frame.function.as_ref().and_then(|function| function.raw_name().ok());
            let name = symbol.map(|symbol| FunctionName::new(&symbol));
            let (function, module) = name.map(|name| (name.path, name.module)).unzip();
            let location = frame.location.as_ref();
            let file = location.and_then(|location| location.file);
            frames.push(Frame {
                function,
                module: module.flatten(),
                place: file.map(|file| self.paths.place(file)),
                line: location.and_then(|location| location.line),
                is_inlined: false,
            });
        }
        Ok(frames)
    }

    fn symbol(&self, address: u64) -> Option<&str> {
        match &self.source {
            Source::Debug(loader) => loader.find_symbol(address),
            Source::Symbols(symbols) => symbols.containing(address).map(|symbol| symbol.name.as_str()),
        }
    }
}

fn is_of_toolchain(frame: &Frame) -> bool {
    matches!(frame.place, Some(Place::Std(_))) || matches!(frame.crate_name(), Some("core" | "alloc" | "std"))
}

/// Reads the symbol table, or that of a stripped library's interface.
fn symbols(path: &Utf8Path) -> anyhow::Result<SymbolMap<Symbol>> {
    let cache = ReadCache::new(followed::open(path)?);
    let file = object::File::parse(&cache).with_context(|| format!("cannot read {path}"))?;
    let map = file.symbol_map();
    let symbols = map.symbols().iter().map(|symbol| Symbol {
        address: symbol.address(),
        size: symbol.size(),
        name: symbol.name().to_owned(),
    });
    Ok(SymbolMap::new(symbols.collect()))
}
