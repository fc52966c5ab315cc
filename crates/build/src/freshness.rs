//! Proves that artifacts which cargo reports as fresh come from the current files in the checkout.
//!
//! Cargo decides by modification time, which can be wrong: after a checkout with old times, with a
//! copied target folder, or after a killed build. So this module stores content hashes of a crate's
//! sources (from its dep-info) when cargo compiles the crate, and compares them when it is fresh.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use camino::{Utf8Path, Utf8PathBuf};
use cargo_metadata::Artifact;
use serde::{Deserialize, Serialize};

use crate::cargo::messages;
use memprof_support::regular_file::followed;
use memprof_support::stamp::file_id;

/// Content hashes of the sources of each compiled crate, by dep-info file. Stored next to the
/// target folder.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct SourceRecords {
    compiled: BTreeMap<Utf8PathBuf, BTreeMap<Utf8PathBuf, String>>,
}

/// The result of checking one build.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Check {
    /// Root sources of crates that were not compiled from the files in the checkout.
    pub stale: BTreeSet<Utf8PathBuf>,
    /// Hash over the sources of all crates with sources in the checkout.
    pub digest: String,
    /// The files among these sources that are not Rust, such as those of `include_str!`.
    pub included: BTreeSet<Utf8PathBuf>,
    /// All sources that exist.
    pub read: BTreeSet<Utf8PathBuf>,
    /// The variables that the code of any crate reads.
    pub variables: BTreeSet<String>,
}

impl SourceRecords {
    /// Reads the records. Missing or unreadable records prove nothing and cost a rebuild.
    pub fn load(path: &Utf8Path) -> Self {
        let text = followed::read(path).unwrap_or_default();
        serde_json::from_slice(&text).unwrap_or_default()
    }

    /// Writes the records atomically.
    pub fn save(&self, path: &Utf8Path) -> anyhow::Result<()> {
        let partial = path.with_extension("partial");
        fs_err::write(&partial, serde_json::to_vec(self)?)?;
        fs_err::rename(partial, path)?;
        Ok(())
    }

    /// Compares cargo's artifacts with the checkout, and stores the hashes of newly compiled
    /// crates.
    pub fn check(
        &mut self,
        artifacts: &[Artifact],
        workspace: &Utf8Path,
        root: &Utf8Path,
    ) -> anyhow::Result<Check> {
        let mut hashes = HashMap::new();
        let mut stale = BTreeSet::new();
        let mut all = BTreeMap::new();
        let (mut included, mut read) = (BTreeSet::new(), BTreeSet::new());
        let mut variables = BTreeSet::new();
        for artifact in artifacts {
            let dep_info = dep_info(artifact);
            if !messages::is_path_package(artifact) {
                let text = dep_info.and_then(|path| followed::text(path).ok()).unwrap_or_default();
                variables.extend(variables_in(&text));
                continue;
            }
            let Some(dep_info) = dep_info else {
                // Every path crate has a dep-info file. If it is not found, nothing is proven.
                stale.insert(artifact.target.src_path.clone());
                continue;
            };
            let package = messages::package_folder(artifact);
            let mut sources = BTreeMap::new();
            let text = followed::text(&dep_info)?;
            variables.extend(variables_in(&text));
            for file in parse_dep_info(&text) {
                let path =
                    [workspace, &package].iter().map(|base| base.join(&file)).find(|path| path.exists());
                let hash = match &path {
                    Some(path) => hash_of(path, &mut hashes)?,
                    None => "absent".to_owned(),
                };
                read.extend(path.clone());
                if file.extension() != Some("rs") {
                    included.insert(path.unwrap_or_else(|| workspace.join(&file)));
                }
                sources.insert(file, hash);
            }
            for (file, hash) in &sources {
                all.insert(file.strip_prefix(root).unwrap_or(file).to_owned(), hash.clone());
            }
            if artifact.fresh {
                if self.compiled.get(&dep_info) != Some(&sources) {
                    stale.insert(artifact.target.src_path.clone());
                    // The record does not describe this artifact.
                    self.compiled.remove(&dep_info);
                }
            } else {
                self.compiled.insert(dep_info, sources);
            }
        }
        let digest = blake3::hash(&serde_json::to_vec(&all)?).to_hex().to_string();
        Ok(Check { stale, digest, included, read, variables })
    }
}

/// Returns the existing files from which an artifact of the checkout is compiled, with the whole paths; `None`
/// if this is unknown.
pub(crate) fn sources_of(
    artifact: &Artifact,
    workspace: &Utf8Path,
) -> anyhow::Result<Option<BTreeSet<Utf8PathBuf>>> {
    if !messages::is_path_package(artifact) {
        return Ok(Some(BTreeSet::new()));
    }
    let Some(dep_info) = dep_info(artifact) else { return Ok(None) };
    let bases = [workspace, &messages::package_folder(artifact)];
    let whole = |file: Utf8PathBuf| bases.iter().map(|base| base.join(&file)).find(|path| path.exists());
    Ok(Some(parse_dep_info(&followed::text(&dep_info)?).into_iter().filter_map(whole).collect()))
}

fn hash_of(path: &Utf8Path, hashes: &mut HashMap<Utf8PathBuf, String>) -> anyhow::Result<String> {
    if let Some(hash) = hashes.get(path) {
        return Ok(hash.clone());
    }
    let mut content = blake3::Hasher::new();
    content.update_reader(followed::open(path)?)?;
    let hash = content.finalize().to_hex().to_string();
    hashes.insert(path.to_owned(), hash.clone());
    Ok(hash)
}

/// Returns the dep-info file of an artifact, which lists its sources. Rustc writes it, or cargo for
/// files that it copies out of `deps`.
fn dep_info(artifact: &Artifact) -> Option<Utf8PathBuf> {
    let mut files: Vec<&Utf8PathBuf> = artifact.filenames.iter().collect();
    // `deps/libname-hash.rmeta` identifies the unit. `libname.rlib` may be a copy of several units.
    files.sort_by_key(|file| !file.as_str().contains("/deps/"));
    files.iter().find_map(|file| {
        let stem =
            if file.extension().is_some_and(|extension| extension != file.file_name().unwrap_or_default()) {
                file.file_stem()?
            } else {
                file.file_name()?
            };
        [stem.strip_prefix("lib").unwrap_or(stem), stem]
            .iter()
            .map(|name| file.with_file_name(format!("{name}.d")))
            .find(|path| path.exists())
            .or_else(|| dep_info_of_link(file))
            .or_else(|| only_dep_info_in(file.parent()?))
    })
}

/// Returns the dep-info file of a program or shared library. `NAME` is a hard link to
/// `deps/NAME-HASH`, or a copy if the file system has no hard links.
fn dep_info_of_link(program: &Utf8Path) -> Option<Utf8PathBuf> {
    let original = original_in(&program.parent()?.join("deps"), program)?;
    let stem = original.file_stem()?;
    // The dep-info file of `liba.so` is `a.d`.
    [stem, stem.strip_prefix("lib").unwrap_or(stem)]
        .iter()
        .map(|name| original.with_file_name(format!("{name}.d")))
        .find(|path| path.exists())
}

/// Returns the file that the compiler wrote, of which a program is a hard link or a copy:
/// `deps/NAME-HASH`, or `NAME-HASH` beside an example.
pub(crate) fn original_of_link(program: &Utf8Path) -> Option<Utf8PathBuf> {
    let folder = program.parent()?;
    original_in(&folder.join("deps"), program).or_else(|| original_in(folder, program))
}

/// Returns the other file in this folder that is the same program or shared library.
fn original_in(folder: &Utf8Path, program: &Utf8Path) -> Option<Utf8PathBuf> {
    let extension = program.extension();
    let is_same = |path: &Utf8PathBuf| {
        path.extension() == extension && path.as_path() != program && is_same_file(path, program)
    };
    let entries = folder.read_dir_utf8().ok()?.filter_map(Result::ok);
    entries.map(camino::Utf8DirEntry::into_path).find(is_same)
}

fn is_same_file(one: &Utf8Path, other: &Utf8Path) -> bool {
    let (Ok(one_metadata), Ok(other_metadata)) = (one.metadata(), other.metadata()) else { return false };
    file_id(&one_metadata) == file_id(&other_metadata)
        || (one_metadata.len() == other_metadata.len()
            && matches!((followed::read_within(one, followed::MOST_OF_BINARY), followed::read_within(other, followed::MOST_OF_BINARY)), (Ok(one), Ok(other)) if one == other))
}

/// Returns a build script's dep-info file. Cargo copies `build_script_build-HASH` to
/// `build-script-build`, next to the script's only dep-info file.
fn only_dep_info_in(folder: &Utf8Path) -> Option<Utf8PathBuf> {
    let mut found = folder.read_dir_utf8().ok()?.filter_map(Result::ok).filter_map(|entry| {
        let path = entry.into_path();
        (path.extension() == Some("d")).then_some(path)
    });
    let first = found.next()?;
    found.next().is_none().then_some(first)
}

/// Returns the files on the right-hand side of all rules. `\ ` is a space in a name.
fn parse_dep_info(text: &str) -> BTreeSet<Utf8PathBuf> {
    let mut files = BTreeSet::new();
    let rules = text.lines().filter(|line| !line.starts_with('#'));
    for (_, right) in rules.filter_map(|line| line.split_once(": ")) {
        let mut name = String::new();
        let mut characters = right.chars().peekable();
        while let Some(character) = characters.next() {
            match character {
                '\\' if characters.peek() == Some(&' ') => {
                    name.push(' ');
                    characters.next();
                }
                ' ' => {
                    if !name.is_empty() {
                        files.insert(std::mem::take(&mut name).into());
                    }
                }
                other => name.push(other),
            }
        }
        if !name.is_empty() {
            files.insert(name.into());
        }
    }
    files
}

/// Returns the variables that the code reads: `# env-dep:NAME=VALUE`, or without a value if it is not set.
fn variables_in(dep_info: &str) -> impl Iterator<Item = String> {
    let lines = dep_info.lines().filter_map(|line| line.strip_prefix("# env-dep:"));
    lines.map(|line| line.split('=').next().unwrap_or_default().to_owned())
}

/// Sets the files' modification time to now, so that cargo compiles them again.
pub(crate) fn touch(files: &BTreeSet<Utf8PathBuf>) -> anyhow::Result<()> {
    for file in files {
        fs_err::OpenOptions::new()
            .append(true)
            .open(file)?
            .file()
            .set_modified(std::time::SystemTime::now())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_found_by_its_link_or_its_content() {
        let folder = tempfile::tempdir().unwrap();
        let folder = Utf8Path::from_path(folder.path()).unwrap();
        fs_err::create_dir(folder.join("deps")).unwrap();
        let write = |name: &str, content: &str| fs_err::write(folder.join(name), content).unwrap();
        write("deps/tool-1", "one");
        write("deps/tool-2", "two");
        write("deps/tool-2.d", "two");
        fs_err::hard_link(folder.join("deps/tool-2"), folder.join("tool")).unwrap();
        assert_eq!(original_of_link(&folder.join("tool")), Some(folder.join("deps/tool-2")));
        write("demo-3", "three");
        write("demo", "three");
        assert_eq!(original_of_link(&folder.join("demo")), Some(folder.join("demo-3")));
        write("other", "four");
        assert_eq!(original_of_link(&folder.join("other")), None);
    }

    #[test]
    fn dep_info_lists_files_with_spaces_and_skips_comments() {
        let text = "t/a.d: src/lib.rs src/my\\ mod.rs\n\nt/a: src/lib.rs src/my\\ mod.rs\n\nsrc/lib.rs:\n\n# env-dep:X=1\n";
        let files: Vec<_> = parse_dep_info(text).into_iter().collect();
        assert_eq!(files, ["src/lib.rs", "src/my mod.rs"]);
        let variables: Vec<_> = variables_in("# env-dep:X=1=2\n# checksum:a\n# env-dep:Y\n").collect();
        assert_eq!(variables, ["X", "Y"]);
    }
}
