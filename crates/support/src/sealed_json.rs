//! JSON objects with a hash of their own text, so that a damaged file is noticed. The first key is
//! `blake3`; the hash covers every byte after it.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Everything before the hash.
const HEAD: &str = "{\n  \"blake3\": \"";

/// The length of a hash in hexadecimal digits.
const DIGITS: usize = 64;

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

/// Returns an object's text with its hash.
///
/// # Errors
///
/// The value has no JSON form.
///
/// # Panics
///
/// The value is not an object.
pub fn sealed(object: &impl Serialize) -> serde_json::Result<Vec<u8>> {
    let text = serde_json::to_string_pretty(object)?;
    let entries = text.strip_prefix('{').expect("only objects are sealed");
    let comma = if entries == "}" { "\n" } else { "," };
    let rest = format!("\"{comma}{entries}");
    let hash = blake3::hash(rest.as_bytes()).to_hex();
    Ok([HEAD.as_bytes(), hash.as_bytes(), rest.as_bytes()].concat())
}

/// Reads a sealed text.
///
/// # Errors
///
/// See [`Damage`].
pub fn unsealed<T: DeserializeOwned>(text: &[u8]) -> Result<T, Damage> {
    let sealed = text.strip_prefix(HEAD.as_bytes()).ok_or(Damage::NoSeal)?;
    let (expected, rest) = sealed.split_at_checked(DIGITS).ok_or(Damage::NoSeal)?;
    let found = blake3::hash(rest).to_hex();
    if found.as_bytes() != expected {
        let expected = String::from_utf8_lossy(expected).into_owned();
        return Err(Damage::Changed { found: found.to_string(), expected });
    }
    let entries = rest.strip_prefix(b"\",").or(rest.strip_prefix(b"\"")).ok_or(Damage::NoSeal)?;
    Ok(serde_json::from_slice(&[b"{", entries].concat())?)
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
        }
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        let text = sealed(&Object::from([("a".to_owned(), 1), ("b".to_owned(), 2)])).unwrap();
        for bit in 0..text.len() * 8 {
            let mut damaged = text.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(unsealed::<Object>(&damaged).is_err(), "bit {bit}");
        }
        for length in 0..text.len() {
            assert!(unsealed::<Object>(&text[..length]).is_err(), "cut off after {length} bytes");
        }
    }
}
