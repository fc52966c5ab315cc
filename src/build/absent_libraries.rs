//! Shared libraries that a program is linked with and this machine lacks: programs for a GPU are built on machines without
//! its driver. Empty ones in their place let such a program start, and say which tests it holds.

use std::collections::BTreeSet;

use anyhow::Context;
use camino::{Utf8Path, Utf8PathBuf};
use object::{Object, ObjectSymbol, ReadCache};

use crate::support::process::Command;

/// Empty libraries under the names of those that are missing.
#[derive(Debug)]
pub struct EmptyLibraries {
    folder: tempfile::TempDir,
    /// The names, in the loader's order.
    pub names: Vec<String>,
}

impl EmptyLibraries {
    /// For the program that this command starts; `None` if nothing is missing.
    ///
    /// # Errors
    ///
    /// A file cannot be read, or there is no C compiler.
    pub fn for_program(program: &Utf8Path, command: Command) -> anyhow::Result<Option<Self>> {
        // What `ldd` does: the loader says what it finds, and starts nothing.
        let traced = command.env("LD_TRACE_LOADED_OBJECTS", "1").capture()?.text();
        let (names, found) = parse(&traced);
        if names.is_empty() {
            return Ok(None);
        }
        let folder = tempfile::tempdir()?;
        let mut wanted = BTreeSet::new();
        let mut defined = BTreeSet::new();
        for file in found.iter().map(Utf8PathBuf::as_path).chain([program]) {
            symbols(file, &mut wanted, &mut defined).with_context(|| format!("cannot read {file}"))?;
        }
        // The loader looks for a symbol in all libraries: the first one may have those of all.
        let mut missing: Vec<&String> = wanted.difference(&defined).collect();
        for name in &names {
            compile(&folder, name, &std::mem::take(&mut missing))?;
        }
        Ok(Some(Self { folder, names }))
    }

    /// Their folder, for the loader's search path.
    pub fn folder(&self) -> &Utf8Path {
        Utf8Path::from_path(self.folder.path()).unwrap_or(Utf8Path::new("."))
    }
}

/// The names that were not found, and the files that were.
fn parse(traced: &str) -> (Vec<String>, Vec<Utf8PathBuf>) {
    let (mut missing, mut found) = (Vec::new(), Vec::new());
    for line in traced.lines().map(str::trim) {
        // The loader itself has no name before its path, and the kernel's page no path.
        let (name, place) = line.split_once(" => ").unwrap_or(("", line));
        if place == "not found" {
            missing.push(name.to_owned());
        } else if let Some((path, _)) = place.rsplit_once(" (0x")
            && path.starts_with('/')
        {
            found.push(path.into());
        }
    }
    missing.dedup();
    (missing, found)
}

/// Adds the symbols that a file must have from others, and those that it offers.
fn symbols(
    file: &Utf8Path,
    wanted: &mut BTreeSet<String>,
    defined: &mut BTreeSet<String>,
) -> anyhow::Result<()> {
    let cache = ReadCache::new(std::fs::File::open(file)?);
    let parsed = object::File::parse(&cache)?;
    for symbol in parsed.dynamic_symbols() {
        let name = symbol.name()?.to_owned();
        if !symbol.is_undefined() {
            defined.insert(name);
        } else if !symbol.is_weak() && !name.is_empty() {
            wanted.insert(name);
        }
    }
    Ok(())
}

fn compile(folder: &tempfile::TempDir, name: &str, symbols: &[&String]) -> anyhow::Result<()> {
    let place =
        |name: String| Utf8PathBuf::from_path_buf(folder.path().join(name)).ok().context("a path in UTF-8");
    let source = place(format!("{name}.c"))?;
    // The symbols of C++ and Rust are no identifiers of C.
    let functions = symbols.iter().enumerate().map(|(index, symbol)| {
        format!("void empty_{index}(void) __asm__(\"{symbol}\");\nvoid empty_{index}(void) {{}}\n")
    });
    fs_err::write(&source, functions.collect::<String>())?;
    let compiler = std::env::var_os("CC").filter(|compiler| !compiler.is_empty());
    Command::new(compiler.unwrap_or_else(|| "cc".into()))
        .args(["-shared", "-fPIC", "-w", "-o", place(name.to_owned())?.as_str()])
        .arg(format!("-Wl,-soname,{name}"))
        .arg(&source)
        .run()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loaders_answer_is_read() {
        let traced = "\tlinux-vdso.so.1 (0x00007ffd)\n\tlibcuda.so.1 => not found\n\tlibcublas.so.13 => not found\n\
                      \tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f)\n\t/lib64/ld-linux-x86-64.so.2 (0x0)\n";
        let (missing, found) = parse(traced);
        assert_eq!(missing, ["libcuda.so.1", "libcublas.so.13"]);
        assert_eq!(found, ["/lib/x86_64-linux-gnu/libc.so.6", "/lib64/ld-linux-x86-64.so.2"]);
    }
}
