//! What cargo tracks of a build that neither its revision nor its key has: files of packages outside of the checkout,
//! files outside of it that a build script names, and variables that the code or a build script reads. If one
//! differs, the build is made again.

use std::collections::{BTreeMap, BTreeSet};

use camino::{Utf8Path, Utf8PathBuf};
use serde::{Deserialize, Serialize};

use crate::cargo::messages::{self, Messages};
use crate::cargo::toolchain::is_of_our_cargo;
use crate::freshness::Check;
use crate::known_files::KnownFiles;
use crate::watched::{self, Told};
use memprof_support::redaction;
use memprof_support::regular_file::followed;

/// The files and variables, each with a hash; `None` if there is no such file or variable.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutsideInputs {
    files: BTreeMap<Utf8PathBuf, Option<String>>,
    variables: BTreeMap<String, Option<String>>,
}

impl OutsideInputs {
    /// Returns those of a build that was just made. `own` are the folders of the checkout, of the cache and of git,
    /// whose files change with what is checked out.
    pub(crate) fn of_build(
        messages: &Messages,
        check: &Check,
        own: [&Utf8Path; 3],
        environment: &BTreeMap<String, String>,
        known: &KnownFiles,
    ) -> Self {
        let mut names = check.variables.clone();
        for (output, _) in outputs(messages) {
            names.extend(variables_in(&followed::text(output).unwrap_or_default()));
        }
        names.retain(|name| !is_of_our_cargo(name));
        let of_scripts = named_by_scripts(messages, own).into_values().flatten();
        let files = outside(check.read.iter().cloned(), own).into_iter().chain(of_scripts).collect();
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
            files: files.into_iter().map(|path| (path.clone(), known.hash_followed(&path).ok())).collect(),
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

/// Returns the files outside of these folders that each build script names, by the file with the script's output.
pub(crate) fn named_by_scripts(
    messages: &Messages,
    own: [&Utf8Path; 3],
) -> BTreeMap<Utf8PathBuf, BTreeSet<Utf8PathBuf>> {
    let pinned = messages.artifacts.iter().filter(|artifact| !messages::is_path_package(artifact));
    let pinned: BTreeSet<Utf8PathBuf> = pinned.map(messages::package_folder).collect();
    // The lock file decides the files of these packages.
    let is_outside =
        |path: &Utf8PathBuf| path.is_absolute() && !path.ancestors().any(|folder| pinned.contains(folder));
    let mut named = BTreeMap::new();
    for (output, package) in outputs(messages) {
        let told = match watched::told_in(&followed::text(&output).unwrap_or_default()) {
            Told::Files(told) => told,
            Told::Variables | Told::Nothing => Vec::new(),
        };
        let told = told.into_iter().map(|file| package.clone().unwrap_or_default().join(file));
        named.insert(output, outside(told.filter(is_outside), own));
    }
    named
}

/// Returns the output of each build script, with the folder of its package if that is in the checkout.
fn outputs(messages: &Messages) -> impl Iterator<Item = (Utf8PathBuf, Option<Utf8PathBuf>)> + '_ {
    let scripts = messages.scripts.iter().map(|script| (&script.out, messages.folder_of(&script.package)));
    let foreign = messages.foreign_out_directories.iter().map(|out| (out, None));
    scripts.chain(foreign).filter_map(|(out, package)| Some((out.parent()?.join("output"), package)))
}

/// Returns the files that are in none of these folders. A link outside may be switched, so a path through it stays as
/// it was named.
fn outside(files: impl Iterator<Item = Utf8PathBuf>, own: [&Utf8Path; 3]) -> BTreeSet<Utf8PathBuf> {
    let real = own.map(Utf8Path::canonicalize_utf8);
    let own: Vec<&Utf8Path> =
        own.into_iter().chain(real.iter().flatten().map(Utf8PathBuf::as_path)).collect();
    let is_own = |path: &Utf8Path| own.iter().any(|own| path.starts_with(own));
    let outside = files.filter_map(|path| {
        let real = path.canonicalize_utf8().ok()?;
        // A link of the checkout is not there at another revision.
        if real.is_file() && !is_own(&real) { without_own_links(&path, is_own) } else { None }
    });
    outside.collect()
}

/// Returns the path with the links in own folders resolved, and no others.
fn without_own_links(path: &Utf8Path, is_own: impl Fn(&Utf8Path) -> bool) -> Option<Utf8PathBuf> {
    let reversed = |path: &Utf8Path| path.components().rev().map(|part| part.to_string()).collect::<Vec<_>>();
    let mut walked = Utf8PathBuf::new();
    let mut rest = reversed(path);
    while let Some(part) = rest.pop() {
        let next = walked.join(&part);
        if part == ".." && !walked.is_symlink() && !walked.ends_with("..") {
            walked.pop();
        } else if next.is_symlink() && walked.canonicalize_utf8().is_ok_and(|folder| is_own(&folder)) {
            rest.extend(reversed(&next.read_link_utf8().ok()?));
        } else {
            walked = next;
        }
    }
    Some(walked)
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
    use crate::cargo::messages::LocalScript;

    /// The names of the files that count, of those that the scripts of a package of the checkout and of one of the
    /// registry name.
    fn counted(root: &Utf8Path, own: &[&str], foreign: &[&str]) -> Vec<String> {
        let mut messages = Messages::default();
        for (id, folder) in
            [("path+file:///c#0.1.0", "checkout/app"), ("registry+x#1.0.0", "registry/dependency")]
        {
            let manifest = root.join(folder).join("Cargo.toml");
            let line = format!(
                r#"{{"reason":"compiler-artifact","package_id":"{id}","manifest_path":"{manifest}","filenames":[],
                "target":{{"kind":["lib"],"crate_types":["lib"],"name":"a","src_path":"{manifest}"}},"features":[],
                "fresh":true,"executable":null,"profile":{{"opt_level":"0","debug_assertions":true,
                "overflow_checks":true,"test":false}}}}"#
            );
            messages.take(line.as_bytes(), |_| false);
        }
        let output = |name: &str, files: &[&str]| {
            let folder = root.join("cache").join(name);
            fs_err::create_dir_all(&folder).unwrap();
            let lines = files
                .iter()
                .map(|file| format!("cargo:rerun-if-changed={}\n", file.replace("ROOT", root.as_str())));
            fs_err::write(folder.join("output"), lines.collect::<String>()).unwrap();
            folder.join("out")
        };
        let package = messages.artifacts[0].package_id.clone();
        messages.scripts.push(LocalScript { package, out: output("own", own) });
        messages.foreign_out_directories.push(output("foreign", foreign));
        let folders = ["checkout", "cache", "git"].map(|folder| root.join(folder));
        let folders = folders.each_ref().map(Utf8PathBuf::as_path);
        let known = KnownFiles::default();
        let inputs = OutsideInputs::of_build(&messages, &Check::default(), folders, &BTreeMap::new(), &known);
        assert!(inputs.files.values().all(Option::is_some));
        inputs.files.keys().map(|path| path.strip_prefix(root).unwrap().to_string()).collect()
    }

    #[test]
    fn a_file_counts_that_a_script_names_outside_of_what_is_known_already() {
        let folder = tempfile::tempdir().unwrap();
        let root = Utf8Path::from_path(folder.path()).unwrap().canonicalize_utf8().unwrap();
        for file in
            ["model.bin", "header.h", "checkout/app/a", "cache/a", "git/HEAD", "registry/dependency/a.c"]
        {
            fs_err::create_dir_all(root.join(file).parent().unwrap()).unwrap();
            fs_err::write(root.join(file), "").unwrap();
        }
        let own = ["../../model.bin", "a", "../../git/HEAD", "ROOT/cache/a", "ROOT/absent", "../.."];
        let foreign = ["ROOT/header.h", "model.bin", "ROOT/registry/dependency/a.c"];
        assert_eq!(counted(&root, &own, &foreign), ["header.h", "model.bin"]);
    }

    #[test]
    fn a_file_differs_if_a_link_outside_of_the_checkout_was_switched() {
        let folder = tempfile::tempdir().unwrap();
        let root = Utf8Path::from_path(folder.path()).unwrap().canonicalize_utf8().unwrap();
        for file in ["cuda-1/cuda.h", "cuda-2/cuda.h", "checkout/app/a"] {
            fs_err::create_dir_all(root.join(file).parent().unwrap()).unwrap();
            fs_err::write(root.join(file), file).unwrap();
        }
        let link = |to: &str| {
            _ = std::fs::remove_file(root.join("cuda"));
            fs_err::os::unix::fs::symlink(to, root.join("cuda")).unwrap();
        };
        link("cuda-1");
        // The checkout's own link is not there at another revision.
        fs_err::os::unix::fs::symlink("../../cuda-2/cuda.h", root.join("checkout/app/link")).unwrap();
        fs_err::os::unix::fs::symlink("checkout", root.join("to-checkout")).unwrap();
        let own = ["../../cuda/cuda.h", "link", "ROOT/to-checkout/app/a"];
        assert_eq!(counted(&root, &own, &["ROOT/cuda/cuda.h"]), ["cuda/cuda.h", "cuda-2/cuda.h"]);
        let (checkout, known) = (root.join("checkout"), KnownFiles::default());
        let files = outside([root.join("cuda/cuda.h")].into_iter(), [&checkout; 3]);
        let inputs = OutsideInputs::now(files, BTreeSet::new(), &BTreeMap::new(), &known);
        assert!(inputs.are_current(&BTreeMap::new(), &known));
        link("cuda-2");
        assert!(!inputs.are_current(&BTreeMap::new(), &known));
    }

    #[test]
    fn a_file_differs_if_a_link_of_the_checkout_leads_to_a_switched_link() {
        let folder = tempfile::tempdir().unwrap();
        let root = Utf8Path::from_path(folder.path()).unwrap().canonicalize_utf8().unwrap();
        for file in ["cuda-1/include/cuda.h", "cuda-2/include/cuda.h", "checkout/app/a"] {
            fs_err::create_dir_all(root.join(file).parent().unwrap()).unwrap();
            fs_err::write(root.join(file), file).unwrap();
        }
        let link = |to: &str, from: &str| {
            _ = std::fs::remove_file(root.join(from));
            fs_err::os::unix::fs::symlink(to, root.join(from)).unwrap();
        };
        link("cuda-1", "cuda");
        link("checkout", "to-checkout");
        link(root.join("cuda").as_str(), "checkout/absolute");
        link("../../cuda/include", "checkout/app/relative");
        link("app/relative", "checkout/two");
        let own = [
            "../absolute/include/cuda.h",
            "relative/cuda.h",
            "../two/cuda.h",
            "relative/../include/cuda.h",
            "ROOT/to-checkout/two/cuda.h",
        ];
        let named = ["cuda/include/cuda.h", "to-checkout/../cuda/include/cuda.h"];
        assert_eq!(counted(&root, &own, &[]), named);
        let (checkout, known) = (root.join("checkout"), KnownFiles::default());
        let files = outside([checkout.join("two/cuda.h")].into_iter(), [&checkout; 3]);
        let inputs = OutsideInputs::now(files, BTreeSet::new(), &BTreeMap::new(), &known);
        assert!(inputs.are_current(&BTreeMap::new(), &known));
        link("cuda-2", "cuda");
        assert!(!inputs.are_current(&BTreeMap::new(), &known));
    }

    #[test]
    fn a_build_script_names_variables_in_both_forms() {
        let output =
            "cargo:rerun-if-env-changed=A\ncargo::rerun-if-env-changed=B \ncargo:rerun-if-changed=c\nD\n";
        assert_eq!(variables_in(output).collect::<Vec<_>>(), ["A", "B"]);
    }
}
