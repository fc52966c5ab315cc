//! Replaces shared libraries that a program needs and this machine lacks, such as a GPU's driver on
//! a build host without a GPU. With empty libraries instead, the program starts and can list its
//! tests.

use std::collections::BTreeSet;

use anyhow::Context;
use camino::{Utf8Path, Utf8PathBuf};
use object::{Object, ObjectSymbol, ReadCache};

use memprof_support::child_output::Limits;
use memprof_support::process::Command;
use memprof_support::regular_file::followed;

/// Empty libraries with the names of the missing ones.
#[derive(Debug)]
pub(crate) struct EmptyLibraries {
    folder: tempfile::TempDir,
    /// The names, in the loader's order.
    pub names: Vec<String>,
}

impl EmptyLibraries {
    /// Creates empty libraries for the program that this command starts. Returns `None` if no
    /// library is missing.
    ///
    /// # Errors
    ///
    /// A file cannot be read, or there is no C compiler.
    pub(crate) fn for_program(program: &Utf8Path, command: Command) -> anyhow::Result<Option<Self>> {
        // As `ldd` does: the loader lists the libraries, and does not start the program.
        let traced = command.env("LD_TRACE_LOADED_OBJECTS", "1").within(Limits::ANSWER).capture()?.text();
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
        // The loader looks for each symbol in all libraries, so the first library can define all of
        // them.
        let mut missing: Vec<&String> = wanted.difference(&defined).collect();
        for name in &names {
            compile(&folder, name, &std::mem::take(&mut missing))?;
        }
        Ok(Some(Self { folder, names }))
    }

    /// Returns their folder, for the loader's search path.
    pub fn folder(&self) -> &Utf8Path {
        Utf8Path::from_path(self.folder.path()).unwrap_or(Utf8Path::new("."))
    }
}

/// Returns the names that the loader did not find, and the files that it found.
fn parse(traced: &str) -> (Vec<String>, Vec<Utf8PathBuf>) {
    let (mut missing, mut found) = (Vec::new(), Vec::new());
    for line in traced.lines().map(str::trim) {
        // The loader itself has no name before its path. The kernel's vDSO has no path.
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

/// Adds the symbols that a file needs from other files, and those that it defines.
fn symbols(
    file: &Utf8Path,
    wanted: &mut BTreeSet<String>,
    defined: &mut BTreeSet<String>,
) -> anyhow::Result<()> {
    let cache = ReadCache::new(followed::open(file)?);
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
    let path =
        |name: String| Utf8PathBuf::from_path_buf(folder.path().join(name)).ok().context("a path in UTF-8");
    let source = path(format!("{name}.c"))?;
    // C++ and Rust symbols are not valid C identifiers.
    let functions = symbols.iter().enumerate().map(|(index, symbol)| {
        format!("void empty_{index}(void) __asm__(\"{symbol}\");\nvoid empty_{index}(void) {{}}\n")
    });
    fs_err::write(&source, functions.collect::<String>())?;
    let compiler = std::env::var_os("CC").filter(|compiler| !compiler.is_empty());
    Command::new(compiler.unwrap_or_else(|| "cc".into()))
        .args(["-shared", "-fPIC", "-w", "-o", path(name.to_owned())?.as_str()])
        .arg(format!("-Wl,-soname,{name}"))
        .arg(&source)
        .run()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loaders_list_of_libraries_is_parsed() {
        let traced = "\tlinux-vdso.so.1 (0x00007ffd)\n\tlibcuda.so.1 => not found\n\tlibcublas.so.13 => not found\n\
                      \tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f)\n\t/lib64/ld-linux-x86-64.so.2 (0x0)\n";
        let (missing, found) = parse(traced);
        assert_eq!(missing, ["libcuda.so.1", "libcublas.so.13"]);
        assert_eq!(found, ["/lib/x86_64-linux-gnu/libc.so.6", "/lib64/ld-linux-x86-64.so.2"]);
    }
}
