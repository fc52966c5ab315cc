//! JSON files with a hash of their own text, so that a change of the file is noticed. The first key is
//! `blake3`; the hash covers every byte after it.

use std::io;

use anyhow::Context;
use camino::Utf8Path;
use hmac_sha256::Hash as Sha256;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::format_version;
use crate::hexadecimal::hexadecimal;
use crate::regular_file;
use crate::user_error::UserError;

/// Everything before the hash.
const HEAD: &str = "{\n  \"blake3\": \"";

/// The length of a hash in hexadecimal digits.
const DIGITS: usize = 64;

/// What stood before and behind the SHA-256 at the end of a run's files, in earlier versions.
const BEFORE: &[u8] = b",\n  \"checksum\": \"";
const BEHIND: &[u8] = b"\"\n}\n";

/// Why a sealed text cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Damage {
    /// The text does not begin with a hash.
    #[error("it does not begin with its blake3")]
    NoSeal,
    /// The text has another hash.
    #[error("its blake3 is {found}, but its first line says {expected}")]
    Changed {
        /// The hash of the text.
        found: String,
        /// The hash in the text.
        expected: String,
    },
    /// The text is what was written, but means nothing to this program.
    #[error(transparent)]
    Meaning(#[from] serde_json::Error),
}

/// Returns an object's text with its hash. Any other value has no place for one, and gets none.
///
/// # Errors
///
/// The value has no JSON form.
pub fn sealed(object: &impl Serialize) -> serde_json::Result<Vec<u8>> {
    Ok(with_hash(serde_json::to_string_pretty(object)?))
}

fn with_hash(text: String) -> Vec<u8> {
    let Some(entries) = text.strip_prefix('{') else { return text.into_bytes() };
    let comma = if entries == "}" { "\n" } else { "," };
    let rest = format!("\"{comma}{entries}");
    let hash = blake3::hash(rest.as_bytes()).to_hex();
    [HEAD.as_bytes(), hash.as_bytes(), rest.as_bytes()].concat()
}

/// Reads a sealed text.
///
/// # Errors
///
/// See [`Damage`].
pub fn unsealed<T: DeserializeOwned>(text: &[u8]) -> Result<T, Damage> {
    Ok(serde_json::from_slice(&without_seal(text)?)?)
}

/// A JSON file's content without its hash.
#[derive(Debug, PartialEq, Eq)]
pub struct Opened {
    /// The content.
    pub json: Vec<u8>,
    /// Whether it had a hash. Files of early versions have none.
    pub is_sealed: bool,
}

/// Why a JSON file cannot be opened.
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

/// Writes a JSON file with its hash, in the place of whatever is there.
///
/// # Errors
///
/// The value has no JSON form, or the file cannot be written.
pub fn write(path: &Utf8Path, object: &impl Serialize) -> anyhow::Result<()> {
    regular_file::replace(path, &sealed(object)?).with_context(|| format!("cannot write {path}"))
}

/// Like [`write()`], for a file that can be made again: a power failure within the next seconds may damage it.
///
/// # Errors
///
/// See [`write()`].
pub fn write_unsynced(path: &Utf8Path, object: &impl Serialize) -> anyhow::Result<()> {
    regular_file::replace_unsynced(path, &sealed(object)?).with_context(|| format!("cannot write {path}"))
}

/// Writes a large file like [`write()`], without spaces and line breaks.
///
/// # Errors
///
/// See [`write()`].
pub fn write_dense(path: &Utf8Path, object: &impl Serialize) -> anyhow::Result<()> {
    let text = with_hash(serde_json::to_string(object)?);
    regular_file::replace(path, &text).with_context(|| format!("cannot write {path}"))
}

/// Reads a file of a run, which [`write()`] or an earlier version wrote.
///
/// # Errors
///
/// The file cannot be read, is not as it was written, or means nothing to this program.
pub fn read<T: DeserializeOwned>(path: &Utf8Path) -> anyhow::Result<T> {
    serde_json::from_slice(&trusted(path)?).map_err(|error| damaged(path, error))
}

/// Like [`read`], for a file with the version of its format. A newer one is refused before anything else is read.
///
/// # Errors
///
/// Those of [`read`], or the format is above `newest`.
pub fn read_format<T: DeserializeOwned>(path: &Utf8Path, newest: u32) -> anyhow::Result<T> {
    let json = trusted(path)?;
    format_version::refuse_newer(&json, path, newest)?;
    serde_json::from_slice(&json).map_err(|error| damaged(path, error))
}

/// Returns a file's content, if it is as it was written.
fn trusted(path: &Utf8Path) -> anyhow::Result<Vec<u8>> {
    match open(path) {
        Ok(Opened { json, .. }) => Ok(json),
        Err(error @ SealedError::Changed { .. }) => Err(UserError::new(error.to_string())
            .help("its figures cannot be trusted; measure again with `cargo memprof`, without --resume")
            .into()),
        Err(error @ SealedError::Io { .. }) => Err(error.into()),
    }
}

/// Returns the error for a file of a run whose content is not what this program writes.
pub fn damaged(path: &Utf8Path, problem: impl std::fmt::Display) -> anyhow::Error {
    UserError::new(format!("{path}: {problem}"))
        .help("the file is damaged, or it is not of a run: measure again with `cargo memprof`, without --resume")
        .into()
}

/// Reads a file and checks its hash, if it has one.
///
/// # Errors
///
/// See [`SealedError`].
pub fn open(path: &Utf8Path) -> Result<Opened, SealedError> {
    let text =
        regular_file::read(path).map_err(|source| SealedError::Io { path: path.to_string(), source })?;
    opened(text).ok_or_else(|| SealedError::Changed { path: path.to_string() })
}

/// Removes the hash of this version or of an earlier one. Returns `None` if it does not match.
fn opened(text: Vec<u8>) -> Option<Opened> {
    if text.starts_with(HEAD.as_bytes()) {
        return Some(Opened { json: without_seal(&text).ok()?, is_sealed: true });
    }
    let Some(at) = memchr::memmem::rfind(&text, BEFORE) else {
        return Some(Opened { json: text, is_sealed: false });
    };
    let hash = text[at + BEFORE.len()..].strip_suffix(BEHIND)?;
    let is_as_written = hash == hexadecimal(&Sha256::hash(&text[..at])).as_bytes();
    is_as_written.then(|| Opened { json: [&text[..at], b"\n}"].concat(), is_sealed: true })
}

/// Checks the hash and removes it.
fn without_seal(text: &[u8]) -> Result<Vec<u8>, Damage> {
    let sealed = text.strip_prefix(HEAD.as_bytes()).ok_or(Damage::NoSeal)?;
    let (expected, rest) = sealed.split_at_checked(DIGITS).ok_or(Damage::NoSeal)?;
    let found = blake3::hash(rest).to_hex();
    if found.as_bytes() != expected {
        let expected = String::from_utf8_lossy(expected).into_owned();
        return Err(Damage::Changed { found: found.to_string(), expected });
    }
    let entries = rest.strip_prefix(b"\",").or(rest.strip_prefix(b"\"")).ok_or(Damage::NoSeal)?;
    Ok([b"{", entries].concat())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    type Object = BTreeMap<String, u32>;

    #[test]
    fn a_sealed_object_is_json_and_is_read_back() {
        for object in [Object::new(), Object::from([("a".to_owned(), 1), ("b".to_owned(), 2)])] {
            let text = sealed(&object).unwrap();
            let json: serde_json::Value = serde_json::from_slice(&text).unwrap();
            assert_eq!(json["blake3"].as_str().map(str::len), Some(DIGITS));
            assert_eq!(unsealed::<Object>(&text).unwrap(), object);
            let folder = tempfile::tempdir().unwrap();
            let path = Utf8Path::from_path(folder.path()).unwrap().join("a.json");
            write(&path, &object).unwrap();
            assert_eq!((read::<Object>(&path).unwrap(), open(&path).unwrap().is_sealed), (object, true));
        }
    }

    #[test]
    fn a_list_is_written_and_read_without_a_hash() {
        let folder = tempfile::tempdir().unwrap();
        let path = Utf8Path::from_path(folder.path()).unwrap().join("found.json");
        write(&path, &[1, 2]).unwrap();
        assert_eq!(read::<Vec<u32>>(&path).unwrap(), [1, 2]);
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        let text = sealed(&Object::from([("a".to_owned(), 1), ("b".to_owned(), 2)])).unwrap();
        for bit in 0..text.len() * 8 {
            let mut damaged = text.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(unsealed::<Object>(&damaged).is_err(), "bit {bit}");
            // In the first key's own name, it hides the hash. A reader that needs one finds none.
            let is_hidden = bit / 8 < HEAD.len();
            assert!(opened(damaged).is_none_or(|opened| is_hidden && !opened.is_sealed), "bit {bit}");
        }
        for length in 0..text.len() {
            assert!(unsealed::<Object>(&text[..length]).is_err(), "cut off after {length} bytes");
        }
    }

    #[test]
    fn files_of_earlier_versions_are_read() {
        let first = b"{\n  \"a\": 1\n}";
        assert_eq!(opened(first.to_vec()), Some(Opened { json: first.to_vec(), is_sealed: false }));
        let second = "{\n  \"a\": 1,\n  \"checksum\": \"HASH\"\n}\n";
        let hash = "d298ee5b852fc7dfacbb4dbf9c73da22d8a55ccb56c156043c930b278c39e889";
        let second = second.replace("HASH", hash);
        assert_eq!(
            opened(second.clone().into_bytes()),
            Some(Opened { json: first.to_vec(), is_sealed: true })
        );
        assert_eq!(opened(second.replace(": 1,", ": 2,").into_bytes()), None);
    }
}
