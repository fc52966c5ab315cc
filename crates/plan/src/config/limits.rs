//! How large `memprof.yaml` may be. Beyond that, the YAML parser would take minutes.
//!
//! The parser takes quadratic time for brackets in brackets and for `%TAG` lines, so both are
//! counted before it starts. An alias repeats a whole subtree, so the document is counted with its
//! aliases replaced before anything is made of it.

use std::cell::Cell;
use std::fmt;

use camino::Utf8Path;
use serde::de::{
    self, DeserializeSeed, Deserializer, EnumAccess, MapAccess, SeqAccess, VariantAccess, Visitor,
};

use crate::config::mistake::Mistake;
use memprof_support::bytes::Bytes;
use memprof_support::counted::grouped;
use memprof_support::user_error::UserError;

/// The most bytes of a file, both as written and with the text of each alias in its place.
pub const MOST_BYTES: usize = 1 << 20;
/// The most `[` and `{` of a file, wherever they stand.
pub const MOST_BRACKETS: usize = 4_000;
/// The most lines that begin with `%`.
const MOST_DIRECTIVES: usize = 16;
/// The most entries of a mapping, and of a list of single values.
pub const MOST_ENTRIES: usize = 10_000;
/// The most entries of a list of mappings, such as `tests` or `exclude`.
pub const MOST_MAPPINGS: usize = 1_000;

/// Refuses a text that the parser would take minutes for.
pub(crate) fn check(text: &str, file: &Utf8Path) -> Result<(), UserError> {
    if text.len() > MOST_BYTES {
        return Err(UserError::new(format!("the matrix is larger than {}", most_bytes()))
            .help("choose a smaller file: --matrix FILE")
            .at(file, None));
    }
    let is_bracket = |(_, byte): &(usize, u8)| matches!(byte, b'[' | b'{');
    if let Some((index, _)) = text.bytes().enumerate().filter(is_bracket).nth(MOST_BRACKETS) {
        let before = &text.as_bytes()[..index];
        let line = memchr::memchr_iter(b'\n', before).count() + 1;
        let column = index - memchr::memrchr(b'\n', before).map_or(0, |newline| newline + 1) + 1;
        return Err(UserError::new(format!(
            "the matrix has more than {} brackets ([ and {{)",
            shown(MOST_BRACKETS)
        ))
        .help("write each entry on a line of its own: `- main` instead of [main]")
        .at(file, Some((line, column))));
    }
    if text.lines().filter(|line| line.starts_with('%')).count() > MOST_DIRECTIVES {
        return Err(UserError::new(format!(
            "the matrix has more than {MOST_DIRECTIVES} lines that begin with %"
        ))
        .help("remove the YAML directives (%TAG …); the matrix needs none")
        .at(file, None));
    }
    Ok(())
}

/// Refuses a document that becomes too large when each alias is replaced by its text. Nothing of it is
/// kept.
pub(crate) fn check_aliases<'de, D: Deserializer<'de>>(document: D) -> Result<(), D::Error> {
    Expanded { left: &Cell::new(MOST_BYTES) }.deserialize(document)
}

/// Counts the text of a document, with its aliases replaced.
#[derive(Clone, Copy)]
struct Expanded<'a> {
    left: &'a Cell<usize>,
}

impl Expanded<'_> {
    fn take<E: de::Error>(self, length: usize) -> Result<(), E> {
        let Some(left) = self.left.get().checked_sub(length + 1) else {
            return Err(Mistake::new(format!(
                "with each alias replaced by its text, the matrix is larger than {}",
                most_bytes()
            ))
            .help("use fewer aliases (*name), or anchor less text (&name)")
            .raise());
        };
        self.left.set(left);
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Expanded<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Expanded<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("any value")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<(), E> {
        self.take(text.len())
    }

    fn visit_unit<E: de::Error>(self) -> Result<(), E> {
        self.take(0)
    }

    fn visit_bool<E: de::Error>(self, _value: bool) -> Result<(), E> {
        self.take(0)
    }

    fn visit_u64<E: de::Error>(self, _value: u64) -> Result<(), E> {
        self.take(0)
    }

    fn visit_i64<E: de::Error>(self, _value: i64) -> Result<(), E> {
        self.take(0)
    }

    fn visit_u128<E: de::Error>(self, _value: u128) -> Result<(), E> {
        self.take(0)
    }

    fn visit_i128<E: de::Error>(self, _value: i128) -> Result<(), E> {
        self.take(0)
    }

    fn visit_f64<E: de::Error>(self, _value: f64) -> Result<(), E> {
        self.take(0)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<(), A::Error> {
        self.take(0)?;
        while sequence.next_element_seed(self)?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        self.take(0)?;
        while let Some(key) = map.next_key::<String>()? {
            self.take(key.len())?;
            // What nobody reads may be nested deeper than a parser's stack.
            if key.starts_with("x-") {
                map.next_value::<de::IgnoredAny>()?;
            } else {
                map.next_value_seed(self)?;
            }
        }
        Ok(())
    }

    fn visit_enum<A: EnumAccess<'de>>(self, tagged: A) -> Result<(), A::Error> {
        let ((), value) = tagged.variant_seed(self)?;
        value.newtype_variant_seed(self)
    }
}

/// Refuses one entry more than `most`.
pub(crate) fn check_count(count: usize, most: usize) -> Result<(), Mistake> {
    if count < most {
        return Ok(());
    }
    Err(Mistake::new(format!("more than {} entries", shown(most)))
        .help("split the matrix: --matrix FILE chooses a file"))
}

fn most_bytes() -> Bytes {
    Bytes(MOST_BYTES as u64)
}

fn shown(limit: usize) -> String {
    grouped(i128::try_from(limit).unwrap_or(i128::MAX))
}
