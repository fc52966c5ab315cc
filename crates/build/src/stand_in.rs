//! Stand-ins for test targets that do not compile, or that contain no selected test, so that cargo builds and runs
//! all others.
//!
//! Cargo runs no test at all if one target does not compile, and it has no option that changes this.
//! So the compiler wrapper compiles an empty program in place of the target and leaves a mark. The
//! collector reads the mark: the target counts as failed, with the compiler's errors.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context;

/// The extension of the mark next to an executable that is only a stand-in.
pub(crate) const NOT_COMPILED: &str = "memprof-not-compiled";

/// The extension of the mark next to an executable that was left out, because it contains no selected test.
pub(crate) const NOT_SELECTED: &str = "memprof-not-selected";

/// A file that never exists. The stand-in depends on it, so cargo compiles the target again.
const NEVER_FRESH: &str = "memprof-did-not-compile";

/// Compiles an empty program with the same arguments. Returns whether it compiled; the mark and the
/// dep-info are then written. Cargo calls the compiler with this `argv`.
pub(crate) fn compile(argv: &[OsString], executable: &Path) -> anyhow::Result<bool> {
    let Some(root) = argv.iter().rposition(|argument| argument.to_string_lossy().ends_with(".rs")) else {
        return Ok(false);
    };
    let folder = tempfile::tempdir()?;
    let source = folder.path().join("stand_in.rs");
    fs_err::write(&source, "#![allow(warnings)]\nfn main() {}\n")?;
    let mut argv = argv.to_vec();
    argv[root] = source.into();
    let mut command = Command::new(&argv[0]);
    let output = command.args(&argv[1..]).stdout(Stdio::null()).output();
    let output = output.with_context(|| format!("could not start {}", Path::new(&argv[0]).display()))?;
    if !output.status.success() {
        return Ok(false);
    }
    fs_err::write(executable.with_extension(NOT_COMPILED), "")?;
    write_dep_info(executable)?;
    Ok(true)
}

/// Puts an empty file in place of the executable. Nobody runs it: cargo's runner only notes the call.
pub(crate) fn leave_out(executable: &Path, mark: &Path) -> anyhow::Result<()> {
    fs_err::write(executable, "")?;
    fs_err::write(mark, "")?;
    write_dep_info(executable)
}

fn write_dep_info(executable: &Path) -> anyhow::Result<()> {
    let text = format!("{}: {NEVER_FRESH}\n\n{NEVER_FRESH}:\n", escaped(executable));
    Ok(fs_err::write(executable.with_extension("d"), text)?)
}

/// A path as make and dep-info files write it.
fn escaped(path: &Path) -> String {
    PathBuf::from(path).display().to_string().replace(' ', "\\ ")
}
