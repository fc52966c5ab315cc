//! Lengths and hashes of files, which tell in `outcome.json` whether a file changed after it was written.

use std::io::{self, Read};

use camino::Utf8Path;
use hmac_sha256::Hash as Sha256;
use serde::{Deserialize, Serialize};

use memprof_support::hexadecimal::hexadecimal;
use memprof_support::regular_file;

/// A file's length and hash.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileSeal {
    /// Length in bytes.
    pub bytes: u64,
    /// SHA-256 of the content, in hexadecimal digits.
    pub sha256: String,
}

/// How many bytes of a file are hashed. A run's log and outputs have less.
const MOST_SEALED: u64 = 1 << 30;

/// Returns a file's seal; `None` if there is no such file.
pub fn read(path: &Utf8Path) -> io::Result<Option<FileSeal>> {
    match regular_file::open_within(path, MOST_SEALED) {
        Ok(file) => {
            let mut hashing = Hashing::new(file);
            hashing.drain()?;
            Ok(Some(hashing.seal()))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Hashes what is read through it.
pub(crate) struct Hashing<R> {
    inner: R,
    hash: Sha256,
    bytes: u64,
}

impl<R: Read> Hashing<R> {
    /// Nothing is read yet.
    pub fn new(inner: R) -> Self {
        Self { inner, hash: Sha256::new(), bytes: 0 }
    }

    /// Reads the rest.
    pub fn drain(&mut self) -> io::Result<()> {
        let mut buffer = [0; 1 << 13];
        while self.read(&mut buffer)? > 0 {}
        Ok(())
    }

    /// Returns the seal of what was read.
    pub fn seal(self) -> FileSeal {
        FileSeal { bytes: self.bytes, sha256: hexadecimal(&self.hash.finalize()) }
    }
}

impl<R: Read> Read for Hashing<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.inner.read(buffer)?;
        self.hash.update(&buffer[..length]);
        self.bytes += length as u64;
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seal_is_the_length_and_the_hash_of_the_content() {
        let folder = tempfile::tempdir().unwrap();
        let path = Utf8Path::from_path(folder.path()).unwrap().join("file");
        assert_eq!(read(&path).unwrap(), None);
        std::fs::write(&path, "abc").unwrap();
        let seal = read(&path).unwrap().unwrap();
        assert_eq!(seal.bytes, 3);
        assert!(seal.sha256.starts_with("ba7816bf8f01cfea"), "{}", seal.sha256);
        assert!(read(Utf8Path::from_path(folder.path()).unwrap()).is_err());
    }
}
