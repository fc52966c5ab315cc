//! This program as the target's runner: it notes the folder and the environment of a test executable
//! instead of running it. Only cargo knows all of them (`OUT_DIR`, library paths, the `[env]` table).

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::Context;
use memprof_support::regular_file::followed;
use serde::{Deserialize, Serialize};

/// The variable with the folder for the runner's notes.
pub(crate) const NOTES: &str = "CARGO_MEMPROF_NOTES";

/// How cargo would run a test executable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TestInvocation {
    /// The test executable.
    pub executable: PathBuf,
    /// The working directory.
    pub directory: PathBuf,
    /// Variables that cargo set or changed.
    pub environment: BTreeMap<String, String>,
}

/// Notes how cargo would run a test executable.
pub(crate) fn note_invocation(call: &[OsString]) -> anyhow::Result<()> {
    let executable = Path::new(call.first().context("cargo gave no executable to run")?);
    let folder = PathBuf::from(std::env::var_os(NOTES).with_context(|| format!("{NOTES} is not set"))?);
    // The variables that the tool itself gave cargo. Only cargo's own additions are noted.
    let given: GivenEnvironment = serde_json::from_slice(&followed::read(folder.join(GIVEN))?)?;
    let environment = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .filter(|(name, value)| !given.has(name, value) && !is_ours(name))
        .map(|(name, value)| {
            let own = own_part(&name, value, given.library_paths.get(&name));
            (name, own)
        })
        .collect();
    let directory = std::env::current_dir()?;
    let invocation = TestInvocation { executable: executable.to_owned(), directory, environment };
    let name = executable.file_name().with_context(|| format!("{} is not a file", executable.display()))?;
    let mut file = name.to_owned();
    file.push(".json");
    fs_err::write(folder.join(file), serde_json::to_vec(&invocation)?)?;
    Ok(())
}

/// The variables with library folders. Cargo puts its own folders before the user's.
pub(crate) const LIBRARY_PATHS: [&str; 2] = ["LD_LIBRARY_PATH", "DYLD_FALLBACK_LIBRARY_PATH"];

/// Returns cargo's part of a value. The user's part of a library path is added when a test runs,
/// because it may have changed by then.
fn own_part(name: &str, value: String, given: Option<&String>) -> String {
    let had = given.filter(|had| LIBRARY_PATHS.contains(&name) && !had.is_empty());
    match had.and_then(|had| value.strip_suffix(had.as_str())) {
        Some(own) => own.trim_end_matches(':').to_owned(),
        None => value,
    }
}

/// The file among the runner's notes with the environment that cargo itself got.
pub(crate) const GIVEN: &str = "given.json";

/// The environment that cargo itself got. It may hold secrets, so there are only hashes of its
/// values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct GivenEnvironment {
    hashes: BTreeMap<String, String>,
    /// The library paths as they are, because cargo extends them.
    library_paths: BTreeMap<String, String>,
}

impl GivenEnvironment {
    /// Takes these variables.
    pub(crate) fn from_variables(variables: &BTreeMap<String, String>) -> Self {
        let paths = variables.iter().filter(|(name, _)| LIBRARY_PATHS.contains(&name.as_str()));
        Self {
            hashes: variables.iter().map(|(name, value)| (name.clone(), hash(name, value))).collect(),
            library_paths: paths.map(|(name, value)| (name.clone(), value.clone())).collect(),
        }
    }

    fn has(&self, name: &str, value: &str) -> bool {
        self.hashes.get(name).is_some_and(|given| *given == hash(name, value))
    }
}

fn hash(name: &str, value: &str) -> String {
    blake3::hash(format!("{name}={value}").as_bytes()).to_hex().to_string()
}

/// Whether a variable belongs to the call of cargo and not to the test.
fn is_ours(name: &str) -> bool {
    name.starts_with("CARGO_MEMPROF_")
        || (name.starts_with("CARGO_TARGET_") && name.ends_with("_RUNNER"))
        || [
            "RUSTC_WORKSPACE_WRAPPER",
            "RUSTC_WRAPPER",
            "RUST_RECURSION_COUNT",
            "CARGO_TARGET_DIR",
            "_",
            "PWD",
        ]
        .contains(&name)
}
