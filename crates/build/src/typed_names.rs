//! Names with types, for `--why-by type`: symbols in the v0 format have the generic arguments of functions,
//! which the older format leaves out. The format changes no code.

use std::collections::BTreeMap;

use crate::job::Job;
use memprof_judge::symbols::test_body::release;

/// The flag of rustc, for members and dependencies.
const FLAG: &str = "-Csymbol-mangling-version=v0";

/// The first release that takes the flag.
const TAKES_FLAG: (u32, u32) = (1, 59);

/// Whether the run asks for types, and the toolchain knows the flag.
pub(crate) fn are_added(job: &Job<'_>) -> bool {
    job.inputs.plan.request.typed_names
        && release(&job.toolchain.version).is_some_and(|release| release >= TAKES_FLAG)
}

/// Returns the variable that adds the flag to those that the user has, with its value; `None` if it is not added.
/// `given` is the build's environment. The revision must be checked out: cargo's configuration decides.
pub(crate) fn variable(
    job: &Job<'_>,
    given: &BTreeMap<String, String>,
) -> anyhow::Result<Option<(String, String)>> {
    if !are_added(job) {
        return Ok(None);
    }
    let config = job.config()?;
    let target = job.target(&config)?;
    let triple = target.as_deref().unwrap_or(job.toolchain.host());
    // Cargo takes the first of these that is set.
    for (name, separator) in [("CARGO_ENCODED_RUSTFLAGS", '\u{1f}'), ("RUSTFLAGS", ' ')] {
        if let Some(flags) = given.get(name) {
            return Ok(Some((name.to_owned(), with_flag(flags, separator))));
        }
    }
    let of_target = format!("CARGO_TARGET_{}_RUSTFLAGS", triple.to_uppercase().replace(['-', '.'], "_"));
    let cfgs = job.cfgs(&config, target.as_deref(), "rustflags")?;
    let is_of_target = given.contains_key(&of_target) || config.has_flags_of_target(triple, &cfgs);
    // Cargo adds them to those in its files.
    let name = if is_of_target { of_target } else { "CARGO_BUILD_RUSTFLAGS".to_owned() };
    let flags = given.get(&name).map_or("", String::as_str);
    Ok(Some((name, with_flag(flags, ' '))))
}

fn with_flag(flags: &str, separator: char) -> String {
    if flags.is_empty() { FLAG.to_owned() } else { format!("{flags}{separator}{FLAG}") }
}
