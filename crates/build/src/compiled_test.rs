//! Compiles a test target or a program, and leaves marks next to it: whether it has its own allocator,
//! whether its root is configured out.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::Context;
use camino::Utf8Path;

use crate::configured_out;
use crate::stand_in::{self, NOT_SELECTED};
use memprof_support::regular_file;

/// The `cfg` under which the appended line links the shim's allocator.
pub(crate) const HEAP_CFG: &str = "memprof_heap";

/// The extension of the mark next to an executable with its own allocator. The file contains the
/// name of the crate that declares the allocator, or nothing if the target itself does.
pub(crate) const OWN_ALLOCATOR: &str = "memprof-own-allocator";

/// The extension of the mark next to an executable whose root file is configured out.
pub(crate) const CONFIGURED_OUT: &str = "memprof-configured-out";

/// The compiler's stack. With its own 8 MiB, 3,000 variables in one function overflow it: a cell of a
/// notebook is a part of one function. Only what is used takes memory.
const STACK: (&str, &str) = ("RUST_MIN_STACK", "1073741824");

/// Says what is at a path, unless it is a regular file or nothing.
fn irregular_at(path: &Path) -> Option<&'static str> {
    path.symlink_metadata().ok().and_then(|found| regular_file::irregular(&found))
}

/// Removes what an earlier linker left in the place of an executable. The next one would open it, and wait
/// at a FIFO.
fn remove_irregular(executable: &Path) -> std::io::Result<()> {
    match (irregular_at(executable), Utf8Path::from_path(executable)) {
        (Some(_), Some(path)) => regular_file::remove(path),
        _ => Ok(()),
    }
}

/// Returns a mark's path, `OUT_DIR/NAME-HASH.memprof-own-allocator`.
pub(crate) fn mark(call: &[OsString], extension: &str) -> Option<PathBuf> {
    let value = |name: &str| call.windows(2).find(|pair| pair[0] == name).map(|pair| pair[1].clone());
    let extra = call
        .windows(2)
        .filter(|pair| pair[0] == "-C")
        .find_map(|pair| Some(pair[1].to_str()?.strip_prefix("extra-filename=")?.to_owned()))
        .unwrap_or_default();
    let name = value("--crate-name")?.into_string().ok()?;
    Some(PathBuf::from(value("--out-dir")?).join(format!("{name}{extra}.{extension}")))
}

/// Compiles a test target or a program with the shim's allocator. If the target has its own allocator, compiles
/// it again without, and writes a mark next to the executable.
///
/// Only the compiler knows about other allocators: one may be in a dependency, behind a `cfg`, or
/// made by a macro. The compiler's messages are held back until it is done. This delays nothing,
/// because no other crate waits for a test target.
///
/// A program that does not compile gets no stand-in: each has a call of cargo for itself.
/// An unselected test target gets a stand-in at once.
pub(crate) fn compile(
    argv: &[OsString],
    call: &[OsString],
    is_program: bool,
    unselected: &BTreeSet<String>,
) -> anyhow::Result<i32> {
    use std::io::Write;
    let executable = mark(call, "").map(|mark| mark.with_extension(""));
    if let Some((mark, executable)) =
        mark(call, NOT_SELECTED).zip(executable.as_ref()).filter(|_| !is_program)
    {
        let name = executable.file_name().and_then(|name| name.to_str());
        if name.is_some_and(|name| unselected.contains(name)) {
            remove_irregular(executable)?;
            // Its file may have other names.
            regular_file::remove_file_if_there(executable)?;
            stand_in::leave_out(executable, &mark)?;
            return Ok(0);
        }
        regular_file::remove_file_if_there(&mark)?;
    }
    let call_compiler = |heap: bool| {
        if let Some(executable) = &executable {
            remove_irregular(executable)?;
        }
        let mut command = std::process::Command::new(&argv[0]);
        command.args(&argv[1..]).args(with_symbols(call)).args(if heap {
            &["--cfg", HEAP_CFG][..]
        } else {
            &[]
        });
        // A variable that is set is the user's.
        if std::env::var_os(STACK.0).is_none() {
            command.env(STACK.0, STACK.1);
        }
        command.stdout(std::process::Stdio::inherit()).output()
    };
    let mut output =
        call_compiler(true).with_context(|| format!("could not start {}", Path::new(&argv[0]).display()))?;
    let mark = mark(call, OWN_ALLOCATOR);
    let conflict = conflicting_crate(&String::from_utf8_lossy(&output.stderr)).map(str::to_owned);
    if let Some(owner) = conflict.filter(|_| !output.status.success()) {
        output = call_compiler(false)?;
        if let Some(mark) = &mark {
            fs_err::write(mark, owner)?;
        }
    } else if let Some(mark) = mark {
        regular_file::remove_file_if_there(&mark)?;
    }
    if let Some(mark) = self::mark(call, stand_in::NOT_COMPILED).filter(|_| !is_program) {
        regular_file::remove_file_if_there(&mark)?;
        // A signal stopped a compiler without an exit code. Such a build must fail.
        let has_errors = output.status.code().is_some_and(|code| code != 0);
        if has_errors && stand_in::compile(argv, &mark.with_extension(""))? {
            std::io::stderr().lock().write_all(&output.stderr)?;
            return Ok(0);
        }
    }
    if let Some(kind) = executable.as_deref().and_then(irregular_at).filter(|_| output.status.success()) {
        anyhow::bail!("the linker left {kind} in place of {}", executable.unwrap_or_default().display());
    }
    if let Some(mark) = self::mark(call, CONFIGURED_OUT) {
        if output.status.success() && configured_out::is_configured_out(argv)? {
            fs_err::write(mark, "")?;
        } else {
            regular_file::remove_file_if_there(&mark)?;
        }
    }
    std::io::stderr().lock().write_all(&output.stderr)?;
    // A compiler that a signal killed has no exit code. Cargo must not take this for success.
    Ok(output.status.code().unwrap_or(101))
}

/// Returns the arguments that keep the symbols of an executable that its profile strips. Call stacks
/// and the beginning of a test's body need them. They are not loaded, so no figure changes.
fn with_symbols(call: &[OsString]) -> &'static [&'static str] {
    let strips = |argument: &OsString| {
        argument.to_str().is_some_and(|argument| argument.trim_start_matches("-C") == "strip=symbols")
    };
    if call.iter().any(strips) { &["-C", "strip=debuginfo"] } else { &[] }
}

/// Returns the crate whose global allocator conflicts with the shim's, according to the compiler's
/// message. The name is empty for the crate that is being compiled.
///
/// The message names the two crates in either order:
/// ``the `#[global_allocator]` in this crate conflicts with global allocator in: memprof_heap``.
fn conflicting_crate(stderr: &str) -> Option<&str> {
    let (before, after) = stderr.split_once(" conflicts with global allocator in: ")?;
    let (_, first) = before.rsplit_once(" in ")?;
    let end =
        after.find(|character: char| !character.is_alphanumeric() && character != '_' && character != ' ');
    let second = after[..end.unwrap_or(after.len())].trim();
    let owner = if first == "memprof_heap" { second } else { first };
    Some(if owner == "this crate" { "" } else { owner })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_linker_left_is_removed_unless_it_is_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let [fifo, link, file] = ["fifo", "link", "file"].map(|name| folder.path().join(name));
        assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        std::os::unix::fs::symlink("/dev/zero", &link).unwrap();
        fs_err::write(&file, "").unwrap();
        assert_eq!([&fifo, &link, &file].map(|path| irregular_at(path).is_some()), [true, true, false]);
        for path in [&fifo, &link, &file, &folder.path().join("none")] {
            remove_irregular(path).unwrap();
        }
        assert!(!fifo.exists() && !link.is_symlink() && file.exists());
    }

    #[test]
    fn the_compilers_message_names_the_conflicting_allocator() {
        let conflict = |one: &str, other: &str| {
            format!(
                r#"{{"message":"the `#[global_allocator]` in {one} conflicts with global allocator in: {other}","x":1}}"#
            )
        };
        assert_eq!(conflicting_crate(&conflict("this crate", "memprof_heap")), Some(""));
        assert_eq!(conflicting_crate(&conflict("memprof_heap", "this crate")), Some(""));
        assert_eq!(conflicting_crate(&conflict("memprof_heap", "supplier")), Some("supplier"));
        assert_eq!(conflicting_crate(&conflict("supplier", "memprof_heap")), Some("supplier"));
        assert_eq!(conflicting_crate("error: something else"), None);
    }

    #[test]
    fn an_executable_keeps_its_symbols() {
        let words = |line: &str| line.split(' ').map(OsString::from).collect::<Vec<_>>();
        assert_eq!(with_symbols(&words("rustc -C strip=symbols --test")), ["-C", "strip=debuginfo"]);
        assert_eq!(with_symbols(&words("rustc -Cstrip=symbols --test")), ["-C", "strip=debuginfo"]);
        assert!(with_symbols(&words("rustc -C strip=debuginfo --test")).is_empty());
    }

    #[test]
    fn the_mark_is_next_to_the_executable() {
        let line = "rustc --crate-name a src/lib.rs --test -C extra-filename=-12 --out-dir /t/deps";
        let call: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        assert_eq!(mark(&call, OWN_ALLOCATOR), Some("/t/deps/a-12.memprof-own-allocator".into()));
    }
}
