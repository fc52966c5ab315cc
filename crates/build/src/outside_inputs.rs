//! What cargo tracks of a build that neither its revision nor its key has: files of packages outside of the
//! checkout, and variables that the code or a build script reads. If one differs, the build is made again.

use std::collections::{BTreeMap, BTreeSet};

use camino::{Utf8Path, Utf8PathBuf};
use serde::{Deserialize, Serialize};

use crate::cargo::messages::Messages;
use crate::cargo::toolchain::is_of_our_cargo;
use crate::freshness::Check;
use crate::known_files::KnownFiles;
use memprof_support::redaction;
use memprof_support::regular_file::followed;

/// The files and variables, each with a hash; `None` if there is no such file or variable.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutsideInputs {
    files: BTreeMap<Utf8PathBuf, Option<String>>,
    variables: BTreeMap<String, Option<String>>,
}

impl OutsideInputs {
    /// Returns those of a build that was just made. `own` are the folders of the checkout and of the cache.
    pub(crate) fn of_build(
        messages: &Messages,
        check: &Check,
        own: [&Utf8Path; 2],
        environment: &BTreeMap<String, String>,
        known: &KnownFiles,
    ) -> Self {
        let own = own.map(Utf8Path::canonicalize_utf8);
        let is_own = |path: &Utf8PathBuf| own.iter().flatten().any(|own| path.starts_with(own));
        // A link of the checkout may lead outside.
        let files = check.read.iter().filter_map(|path| path.canonicalize_utf8().ok());
        let files = files.filter(|path| !is_own(path)).collect();
        let scripts = messages.scripts.iter().map(|script| &script.out);
        let mut names = check.variables.clone();
        for folder in scripts.chain(&messages.foreign_out_directories).filter_map(|out| out.parent()) {
            names.extend(variables_in(&followed::text(folder.join("output")).unwrap_or_default()));
        }
        names.retain(|name| !is_of_our_cargo(name));
        Self::now(files, names, environment, known)
    }

    /// Whether all are as they were.
    pub(crate) fn are_current(&self, environment: &BTreeMap<String, String>, known: &KnownFiles) -> bool {
        let files = self.files.keys().cloned().collect();
        let names = self.variables.keys().cloned().collect();
        *self == Self::now(files, names, environment, known)
    }

    fn now(
        files: BTreeSet<Utf8PathBuf>,
        names: BTreeSet<String>,
        environment: &BTreeMap<String, String>,
        known: &KnownFiles,
    ) -> Self {
        // A value may be a secret.
        let hash = |value: &String| redaction::of_process().keyed_hash(value.as_bytes());
        Self {
            files: files.into_iter().map(|path| (path.clone(), known.hash(&path).ok())).collect(),
            variables: names
                .into_iter()
                .map(|name| (name.clone(), environment.get(&name).map(hash)))
                .collect(),
        }
    }

    /// Returns a hash of all.
    ///
    /// # Panics
    ///
    /// Never: plain data has a JSON form.
    pub fn hash(&self) -> String {
        blake3::hash(&serde_json::to_vec(self).expect("plain data")).to_hex()[..16].to_owned()
    }
}

/// Returns the variables that a build script names in its output.
fn variables_in(output: &str) -> impl Iterator<Item = String> + '_ {
    let lines = output.lines().filter_map(|line| line.strip_prefix("cargo:"));
    let named = lines.filter_map(|line| line.trim_start_matches(':').strip_prefix("rerun-if-env-changed="));
    named.map(|name| name.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_script_names_variables_in_both_forms() {
        let output =
            "cargo:rerun-if-env-changed=A\ncargo::rerun-if-env-changed=B \ncargo:rerun-if-changed=c\nD\n";
        assert_eq!(variables_in(output).collect::<Vec<_>>(), ["A", "B"]);
    }
}
