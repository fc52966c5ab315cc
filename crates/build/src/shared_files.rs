//! Files that builds in the store have in common.

use std::collections::{BTreeMap, HashMap};

use camino::{Utf8Path, Utf8PathBuf};

use crate::known_files::KnownFiles;
use crate::provenance::{Executable, ListedTest, Provenance};

/// The executables of stored builds, by the hash of the file as it was linked. A build with the same code shares the
/// file: most of a workspace is the same after a change, and copies of it fill the disk. Beside them the programs and
/// libraries that tests need, by their own hash.
#[derive(Default)]
pub(crate) struct SharedFiles {
    executables: HashMap<String, SharedFile>,
    /// Each with whether this session has checked or written it.
    companions: HashMap<String, (Utf8PathBuf, bool)>,
}

#[derive(Clone, Debug)]
pub(crate) struct SharedFile {
    pub path: Utf8PathBuf,
    /// The key in the file.
    pub key: String,
    /// The executable in the other build.
    pub executable: Executable,
    /// The user's runner in the other build.
    runner: Vec<String>,
    is_checked: bool,
}

impl SharedFiles {
    /// Adds the executables of a build, in the place of those of another one. `is_checked` if this session has
    /// checked or written its files.
    pub fn add(&mut self, folder: &Utf8Path, build: &Provenance, is_checked: bool) {
        for executable in &build.executables {
            let Some(code) = executable.code.clone() else { continue };
            let (key, runner) = (build.key_in(executable).to_owned(), build.runner.clone());
            let path = folder.join(&executable.file);
            let file = SharedFile { path, key, executable: executable.clone(), runner, is_checked };
            self.executables.insert(code, file);
        }
        for companion in &build.companions {
            self.companions.insert(companion.hash.clone(), (folder.join(&companion.file), is_checked));
        }
    }

    /// Puts the file with this code at a path, if a build has one that is as it was written. Some file systems have
    /// no hard links.
    pub fn link(&self, code: &str, path: &Utf8Path, known: &KnownFiles) -> Option<&SharedFile> {
        let is_whole = |file: &&SharedFile| {
            file.is_checked || known.hash(&file.path).is_ok_and(|found| found == file.executable.hash)
        };
        self.executables.get(code).filter(is_whole).filter(|file| known.link(&file.path, path).is_ok())
    }

    /// Does the same with a program or library that has this hash. Returns whether there is one.
    pub fn link_companion(&self, hash: &str, path: &Utf8Path, known: &KnownFiles) -> bool {
        let Some((file, is_checked)) = self.companions.get(hash) else { return false };
        (*is_checked || known.hash(file).is_ok_and(|found| found == hash)) && known.link(file, path).is_ok()
    }
}

impl SharedFile {
    /// Returns the tests that libtest's harness listed, if it would be asked in the same way. What it lists is
    /// in the code.
    pub fn tests(
        &self,
        runner: &[String],
        directory: &Utf8Path,
        environment: &BTreeMap<String, String>,
    ) -> Option<Vec<ListedTest>> {
        let Executable { harness, unlisted, tests, .. } = &self.executable;
        let is_asked_alike = self.runner == runner
            && self.executable.directory == directory
            && self.executable.environment == *environment;
        (*harness && unlisted.is_none() && is_asked_alike).then(|| tests.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::known_files::hash_file;
    use crate::provenance::{Companion, samples};

    #[test]
    fn builds_share_the_programs_that_tests_need_as_long_as_they_are_whole() {
        let folder = tempfile::tempdir().unwrap();
        let folder = Utf8Path::from_path(folder.path()).unwrap();
        let stored = folder.join("c");
        fs_err::write(&stored, "a program").unwrap();
        let hash = hash_file(&stored).unwrap();
        let mut build = samples::provenance(samples::executable());
        let companion =
            Companion { path: "/t/c".into(), file: "c".into(), hash: hash.clone(), package_folder: None };
        build.companions.push(companion);
        let mut shared = SharedFiles::default();
        shared.add(folder, &build, false);
        let linked = |name: &str| {
            let link = folder.join(name);
            shared.link_companion(&hash, &link, &KnownFiles::default()).then(|| hash_file(&link).unwrap())
        };
        assert_eq!(linked("d").as_ref(), Some(&hash));
        assert!(!shared.link_companion("another", &folder.join("e"), &KnownFiles::default()));
        fs_err::write(&stored, "changed by a test").unwrap();
        assert_eq!(linked("f"), None);
    }

    #[test]
    fn tests_are_those_of_the_other_build_only_if_it_was_asked_in_the_same_way() {
        let environment = BTreeMap::from([("A".to_owned(), "1".to_owned())]);
        let tests = vec![ListedTest { name: "one".into(), ignored: false }];
        let listed = |change: fn(&mut SharedFile)| {
            let executable = Executable {
                tests: tests.clone(),
                environment: environment.clone(),
                ..samples::executable()
            };
            let mut file = SharedFile {
                path: "/s/t".into(),
                key: samples::KEY.into(),
                executable,
                runner: Vec::new(),
                is_checked: true,
            };
            change(&mut file);
            file.tests(&[], "/".into(), &environment)
        };
        assert_eq!(listed(|_| {}), Some(tests.clone()));
        let others: [fn(&mut SharedFile); 5] = [
            |file| file.executable.harness = false,
            |file| file.executable.unlisted = Some("no loader".into()),
            |file| file.executable.directory = "/elsewhere".into(),
            |file| drop(file.executable.environment.insert("B".into(), "2".into())),
            |file| file.runner.push("qemu".into()),
        ];
        for (number, change) in others.into_iter().enumerate() {
            assert_eq!(listed(change), None, "{number}");
        }
    }
}
