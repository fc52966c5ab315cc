//! Where cargo finds a crate that has an edited copy.

use std::path::{Path, PathBuf};

use camino::Utf8PathBuf;
use hmac_sha256::Hash as Sha256;
use serde::{Deserialize, Serialize};

use memprof_support::hexadecimal::hexadecimal;
use memprof_support::regular_file::followed;

/// The folders of a crate and of its edited copy, for the compiler's wrapper.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CopiedCrate {
    /// Where cargo finds the crate.
    pub original: Original,
    /// The root source of its library in this folder.
    pub root: PathBuf,
    /// The copy of the folder.
    pub copy: PathBuf,
    /// The hash of what the copy has in addition to the original.
    #[serde(default)]
    pub edits: String,
}

impl CopiedCrate {
    /// Returns the crate's folder if this path is the root source of its library.
    pub(crate) fn folder_of_root(&self, path: &Path) -> Option<PathBuf> {
        let folder = self.original.folder_of(path)?;
        (folder.join(&self.root) == path).then_some(folder)
    }
}

/// What to do about a crate whose archive cargo does not have.
pub(crate) const VENDORED: &str =
    "a crate from a vendored folder cannot be traced; copy it into the repository";

/// Where cargo finds a crate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Original {
    /// Its folder, or the git repository around it.
    Folder(PathBuf),
    /// In `src/INDEX/NAME-VERSION`, below cargo's folder for registries. Versions of cargo differ in
    /// the name of the index's folder, and other registries have their own.
    Registry {
        /// Cargo's folder for registries.
        registry: Utf8PathBuf,
        /// `NAME-VERSION`.
        title: String,
        /// SHA-256 of the crate's archive.
        checksum: String,
    },
}

impl Original {
    /// Returns the crate's folder around a path. One of a registry must be unpacked from the archive
    /// with the right checksum: another registry may have a crate of the same name.
    pub(crate) fn folder_of(&self, path: &Path) -> Option<PathBuf> {
        match self {
            Self::Folder(folder) => path.starts_with(folder).then(|| folder.clone()),
            Self::Registry { registry, title, checksum } => {
                let sources = registry.join("src");
                let mut inside = path.strip_prefix(&sources).ok()?.components();
                let index = inside.next()?.as_os_str().to_str()?;
                inside.next().filter(|folder| folder.as_os_str() == title.as_str())?;
                let archive = registry.join("cache").join(index).join(format!("{title}.crate"));
                let archive = followed::read_within(&archive, followed::MOST_OF_BINARY).ok()?;
                (checksum_of(&archive) == *checksum).then(|| sources.join(index).join(title).into())
            }
        }
    }
}

/// Returns the checksum of an archive, as cargo writes it.
pub(crate) fn checksum_of(archive: &[u8]) -> String {
    hexadecimal(&Sha256::hash(archive))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_written_as_cargo_writes_them() {
        assert_eq!(checksum_of(b"abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }

    #[test]
    fn a_crate_is_found_below_each_folder_of_its_registry_and_of_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let registry = Utf8PathBuf::try_from(folder.path().to_owned()).unwrap();
        for (index, archive) in [("github.com-1", "abc"), ("index.crates.io-1", "abc"), ("own-1", "other")] {
            let cache = registry.join("cache").join(index);
            fs_err::create_dir_all(&cache).unwrap();
            fs_err::write(cache.join("a-1.0.0.crate"), archive).unwrap();
        }
        let copied = CopiedCrate {
            original: Original::Registry {
                registry: registry.clone(),
                title: "a-1.0.0".to_owned(),
                checksum: checksum_of(b"abc"),
            },
            root: "src/lib.rs".into(),
            copy: "/copies/a-1.0.0".into(),
            edits: "a".to_owned(),
        };
        let is_root = |path: &str| {
            let path = registry.join(path);
            let folder = copied.folder_of_root(path.as_std_path());
            folder.inspect(|folder| assert_eq!(folder.join("src/lib.rs"), path)).is_some()
        };
        assert!(is_root("src/github.com-1/a-1.0.0/src/lib.rs"));
        assert!(is_root("src/index.crates.io-1/a-1.0.0/src/lib.rs"));
        assert!(!is_root("src/own-1/a-1.0.0/src/lib.rs"), "another archive");
        assert!(!is_root("src/missing/a-1.0.0/src/lib.rs"));
        assert!(!is_root("src/github.com-1/a-1.0.1/src/lib.rs"));
        assert!(!is_root("src/github.com-1/a-1.0.0/build.rs"));
    }
}
