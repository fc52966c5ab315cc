//! Where an executable calls the body of a test, so that the figures can begin there.
//!
//! libtest calls each test through `test::__rust_begin_short_backtrace`, which is never inlined. The
//! shim puts a jump over the beginning of its instances: `templates/memprof/body.rs`.

use object::{Architecture, Object, ObjectSymbol};
use rustc_demangle::try_demangle;
use serde::{Deserialize, Serialize};

/// Where libtest's harness calls the body of a test.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TestBody {
    /// The addresses of the functions that call it, as the file has them.
    At(Vec<u64>),
    /// Why that is unknown. The figures then begin with the process.
    Unknown(String),
}

/// The function that calls a test.
const FUNCTION: &str = "__rust_begin_short_backtrace";

/// So many instances have a stand-in.
const MOST: usize = 8;

/// On x86-64, a jump has so many bytes.
const JUMP: u64 = 5;

/// The first Rust release whose function returns a `Result` on all paths. On `aarch64`, the shim must
/// know what it returns.
const RETURNS_RESULT: (u32, u32) = (1, 67);

impl TestBody {
    /// Looks the functions up in an executable's bytes. `toolchain` is `rustc -vV`.
    pub fn find(executable: &[u8], toolchain: &str) -> Self {
        addresses(executable, toolchain).map_or_else(Self::Unknown, Self::At)
    }
}

fn addresses(executable: &[u8], toolchain: &str) -> Result<Vec<u64>, String> {
    let file =
        object::File::parse(executable).map_err(|error| format!("the executable cannot be read: {error}"))?;
    match file.architecture() {
        Architecture::X86_64 => {}
        Architecture::Aarch64 if release(toolchain).is_some_and(|release| release >= RETURNS_RESULT) => {}
        Architecture::Aarch64 => return Err("on aarch64, this needs Rust 1.67 or later".to_owned()),
        other => return Err(format!("not known for processors of the kind {other:?}")),
    }
    let is_function = |symbol: &object::Symbol| {
        let name = symbol.name().unwrap_or_default();
        name.contains(FUNCTION)
            && try_demangle(name).is_ok_and(|name| {
                let path = format!("{name:#}");
                path.strip_prefix("test::").is_some_and(|path| path.starts_with(FUNCTION))
            })
    };
    let mut found: Vec<(u64, u64)> =
        file.symbols().filter(is_function).map(|symbol| (symbol.address(), symbol.size())).collect();
    found.sort_unstable();
    found.dedup();
    if found.is_empty() {
        let reason = if file.symbols().next().is_none() {
            "the executable has no symbol table"
        } else {
            "the executable does not contain libtest's function that calls a test"
        };
        return Err(reason.to_owned());
    }
    if found.len() > MOST || found.iter().any(|(_, size)| *size < JUMP) {
        return Err("libtest's function that calls a test has an unknown form".to_owned());
    }
    Ok(found.into_iter().map(|(address, _)| address).collect())
}

/// Returns the release of `rustc -vV`.
pub fn release(toolchain: &str) -> Option<(u32, u32)> {
    let release = toolchain.lines().find_map(|line| line.strip_prefix("release: "))?;
    let mut numbers = release.split(['.', '-']).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_very_test_is_called_by_a_function_that_is_found() {
        let own = fs_err::read(std::env::current_exe().unwrap()).unwrap();
        let TestBody::At(addresses) = TestBody::find(&own, "release: 1.95.0") else {
            panic!("{:?}", TestBody::find(&own, ""));
        };
        assert!(!addresses.is_empty() && addresses.is_sorted());
    }

    #[test]
    fn an_executable_without_symbols_has_a_reason() {
        let unknown = |bytes: &[u8]| match TestBody::find(bytes, "") {
            TestBody::Unknown(reason) => reason,
            found @ TestBody::At(_) => panic!("{found:?}"),
        };
        assert!(unknown(b"#!/bin/sh").starts_with("the executable cannot be read: "));
    }

    #[test]
    fn a_release_is_read_from_the_compilers_answer() {
        let release = |text: &str| release(&format!("rustc 1.2.3\nrelease: {text}\nLLVM version: 20"));
        assert_eq!(release("1.67.1"), Some((1, 67)));
        assert_eq!(release("1.97.0-nightly"), Some((1, 97)));
        assert_eq!(release("dev"), None);
    }
}
