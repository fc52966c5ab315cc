//! The random number of a cache that keys the hashes of secrets.

use std::fmt;
use std::io::{Read, Write};

use camino::{Utf8Path, Utf8PathBuf};

use crate::regular_file;

/// The file's name, in the folder of all caches.
pub(crate) const FILE_NAME: &str = "salt";

/// 32 random bytes.
#[derive(Clone, PartialEq, Eq)]
pub struct Salt([u8; 32]);

impl Salt {
    /// Makes a new one.
    ///
    /// # Panics
    ///
    /// The system has no random numbers.
    pub fn random() -> Self {
        let mut bytes = [0; 32];
        let mut source = std::fs::File::open("/dev/urandom").expect("the system has random numbers");
        source.read_exact(&mut bytes).expect("the system has random numbers");
        Self(bytes)
    }

    /// Reads the salt of the caches in this folder, if it has one.
    pub fn read(home: &Utf8Path) -> Option<Self> {
        let bytes = regular_file::read(&file(home)).ok()?;
        Some(Self(bytes.try_into().ok()?))
    }

    /// Keeps this salt in a folder of caches that has none. Returns the folder's salt, which is
    /// another one if another process was faster.
    ///
    /// Only the user may read the file: with it, short secrets could be guessed from their hashes.
    pub fn keep(self, home: &Utf8Path) -> anyhow::Result<Self> {
        if let Some(kept) = Self::read(home) {
            return Ok(kept);
        }
        // Temporary files have mode 600.
        let mut partial = tempfile::NamedTempFile::new_in(home)?;
        partial.write_all(&self.0)?;
        match partial.persist_noclobber(file(home)) {
            Ok(_) => Ok(self),
            Err(error) => match Self::read(home) {
                Some(kept) => Ok(kept),
                None => Err(anyhow::Error::new(error.error).context(format!(
                    "{} cannot be made, or does not hold 32 bytes; remove it and try again",
                    file(home)
                ))),
            },
        }
    }

    /// Returns the keyed hash of these bytes, 64 hexadecimal digits.
    pub fn hash(&self, bytes: &[u8]) -> String {
        blake3::keyed_hash(&self.0, bytes).to_hex().to_string()
    }
}

impl fmt::Debug for Salt {
    /// Does not show the bytes.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Salt")
    }
}

fn file(home: &Utf8Path) -> Utf8PathBuf {
    home.join(FILE_NAME)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_cache_keeps_its_first_salt_for_its_user_alone() {
        let folder = tempfile::tempdir().unwrap();
        let home = Utf8Path::from_path(folder.path()).unwrap();
        assert_eq!(Salt::read(home), None);
        let first = Salt::random().keep(home).unwrap();
        let mode = fs_err::metadata(home.join(FILE_NAME)).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{mode:o}");
        assert_eq!(Salt::random().keep(home).unwrap(), first);
        assert_ne!(first.hash(b"secret"), Salt::random().hash(b"secret"));
        fs_err::write(home.join(FILE_NAME), "short").unwrap();
        let error = Salt::random().keep(home).unwrap_err().to_string();
        assert!(error.contains("remove it and try again"), "{error}");
    }
}
