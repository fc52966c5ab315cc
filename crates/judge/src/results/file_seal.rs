//! Hashes that tell whether a stored file changed after it was written: of other files, in
//! `outcome.json`, and of a JSON file itself, in its last field.

use std::io::{self, Read};

use anyhow::Context;
use camino::Utf8Path;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use memprof_support::regular_file;
use memprof_support::user_error::UserError;

/// A file's length and hash.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileSeal {
    /// Length in bytes.
    pub bytes: u64,
    /// SHA-256 of the content, in hexadecimal digits.
    pub sha256: String,
}

/// Why a JSON file cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum SealedError {
    /// The file cannot be read.
    #[error("cannot read {path}")]
    Io {
        /// The file.
        path: String,
        /// The system's reason.
        source: io::Error,
    },
    /// The content is not what was written.
    #[error("{path} was changed after it was written")]
    Changed {
        /// The file.
        path: String,
    },
}

/// A JSON file's content without its checksum.
#[derive(Debug, PartialEq, Eq)]
pub struct Opened {
    /// The content.
    pub json: Vec<u8>,
    /// Whether it had a checksum. Files of earlier versions have none.
    pub is_sealed: bool,
}

/// What stands before and behind the checksum's digits, at the end of the file.
const BEFORE: &[u8] = b",\n  \"checksum\": \"";
const BEHIND: &[u8] = b"\"\n}\n";

/// Writes a JSON file with its checksum, in the place of whatever is there.
pub fn write(path: &Utf8Path, value: &impl Serialize) -> anyhow::Result<()> {
    let text = with_checksum(serde_json::to_vec_pretty(value)?);
    regular_file::replace(path, &text).with_context(|| format!("cannot write {path}"))
}

/// Reads a JSON file that [`write()`] or an earlier version wrote.
pub fn read<T: DeserializeOwned>(path: &Utf8Path) -> anyhow::Result<T> {
    let Opened { json, .. } = open(path).map_err(|error| match error {
        SealedError::Changed { .. } => UserError::new(error.to_string())
            .help("its figures cannot be trusted; measure again with `cargo memprof`, without --resume")
            .into(),
        SealedError::Io { .. } => anyhow::Error::from(error),
    })?;
    serde_json::from_slice(&json).map_err(|error| damaged(path, error))
}

/// Returns the error for a file whose content is not what this program writes.
pub fn damaged(path: &Utf8Path, problem: impl std::fmt::Display) -> anyhow::Error {
    UserError::new(format!("{path}: {problem}"))
        .help("the file is damaged, or it is not of a run: measure again with `cargo memprof`, without --resume")
        .into()
}

/// Reads a JSON file and checks its checksum, if it has one.
pub fn open(path: &Utf8Path) -> Result<Opened, SealedError> {
    let text =
        regular_file::read(path).map_err(|source| SealedError::Io { path: path.to_string(), source })?;
    without_checksum(text).ok_or_else(|| SealedError::Changed { path: path.to_string() })
}

/// Adds the checksum as an object's last field.
fn with_checksum(mut json: Vec<u8>) -> Vec<u8> {
    // An empty object has no fields before it, and nothing to protect.
    if json.ends_with(b"\n}") {
        json.truncate(json.len() - 2);
        let checksum = hexadecimal(&Sha256::digest(&json));
        json.extend([BEFORE, checksum.as_bytes(), BEHIND].concat());
    }
    json
}

/// Removes the checksum. Returns `None` if it does not match.
fn without_checksum(mut text: Vec<u8>) -> Option<Opened> {
    let Some(at) = memchr::memmem::rfind(&text, BEFORE) else {
        return Some(Opened { json: text, is_sealed: false });
    };
    let checksum = text[at + BEFORE.len()..].strip_suffix(BEHIND)?;
    if checksum != hexadecimal(&Sha256::digest(&text[..at])).as_bytes() {
        return None;
    }
    text.truncate(at);
    text.extend(b"\n}");
    Some(Opened { json: text, is_sealed: true })
}

/// How many bytes of a file are hashed. A run's log and outputs have less.
const MOST_SEALED: u64 = 1 << 30;

/// Returns a file's seal; `None` if there is no such file.
pub fn of_file(path: &Utf8Path) -> io::Result<Option<FileSeal>> {
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
pub struct Hashing<R> {
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
        let mut buffer = vec![0; 1 << 16];
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

fn hexadecimal(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.map(|digit| char::from(DIGITS[usize::from(digit)])).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_flipped_bit_is_found_wherever_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = Utf8Path::from_path(folder.path()).unwrap().join("a.json");
        let value = json!({"a": 1, "b": {"c": "text"}});
        write(&path, &value).unwrap();
        assert_eq!(read::<Value>(&path).unwrap(), value);
        let whole = std::fs::read(&path).unwrap();
        let end = memchr::memmem::rfind(&whole, BEFORE).unwrap();
        for bit in 0..8 * whole.len() {
            let mut flipped = whole.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let opened = without_checksum(flipped);
            // In the field's own name, it hides the checksum. Who needs one then finds none.
            let is_hidden = bit / 8 >= end && opened.as_ref().is_some_and(|opened| !opened.is_sealed);
            assert!(opened.is_none() || is_hidden, "bit {bit}");
        }
    }

    #[test]
    fn a_file_of_an_earlier_version_has_no_checksum_and_is_read() {
        let old = serde_json::to_vec_pretty(&json!({"a": 1})).unwrap();
        assert_eq!(without_checksum(old.clone()), Some(Opened { json: old.clone(), is_sealed: false }));
        assert_eq!(without_checksum(with_checksum(old.clone())), Some(Opened { json: old, is_sealed: true }));
        assert_eq!(with_checksum(b"{}".to_vec()), b"{}");
    }

    #[test]
    fn a_seal_is_the_length_and_the_hash_of_the_content() {
        let folder = tempfile::tempdir().unwrap();
        let path = Utf8Path::from_path(folder.path()).unwrap().join("file");
        assert_eq!(of_file(&path).unwrap(), None);
        std::fs::write(&path, "abc").unwrap();
        let seal = of_file(&path).unwrap().unwrap();
        assert_eq!(seal.bytes, 3);
        assert!(seal.sha256.starts_with("ba7816bf8f01cfea"), "{}", seal.sha256);
        assert!(of_file(Utf8Path::from_path(folder.path()).unwrap()).is_err());
    }
}
