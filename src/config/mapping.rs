//! YAML mappings with errors that name the place: known keys, duplicates, merge keys (`<<`), short forms.
//!
//! Keys are checked while they are read, so that an error stands at the key itself; `mapping!` makes the struct, its
//! reader and its JSON Schema from one list of keys.

use std::cell::RefCell;
use std::fmt;
use std::marker::PhantomData;

use indexmap::IndexMap;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde::de::{self, DeserializeOwned, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

use crate::config::yaml::{ListVisitor, Listed, Mistake, PLACE};
use crate::support::suggest;

/// A struct that is written as a mapping, by the macro `mapping!`.
pub trait Mapping: Default {
    /// The known keys, in the order of the documentation.
    const KEYS: &'static [&'static str];
    /// Reads the value of this key (one of `KEYS`) into its field.
    fn read<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error>;
    /// Takes what is not written here from `other`, as a merge key asks.
    fn fill(&mut self, other: Self);
}

/// What can stand where a mapping is expected, and what must hold of one.
pub trait Entry: Mapping {
    /// What is expected, for the error about something else: `a ref or a mapping such as {ref: main}`.
    const EXPECTED: &'static str;
    /// Whether keys that begin with `x-` are let through, as places for anchors.
    const EXTENSIBLE: bool = false;
    /// Whether a plain number is a short form too.
    const NUMBERS: bool = false;

    /// The mapping that a plain text is short for; `None` where there is no short form.
    fn from_text(_text: &str) -> Option<Result<Self, Mistake>> {
        None
    }

    /// What must hold of the whole mapping.
    fn check(&self) -> Result<(), Mistake> {
        Ok(())
    }
}

/// Defines a struct whose fields are optional keys of a mapping, with its reader and its JSON Schema from one list.
macro_rules! mapping {
    (
        $(#[$about:meta])*
        pub struct $name:ident {
            $( $(#[$field_about:meta])* $key:literal => $field:ident: $type:ty, )*
        }
    ) => {
        #[derive(Clone, Debug, Default, PartialEq, schemars::JsonSchema)]
        #[schemars(deny_unknown_fields)]
        $(#[$about])*
        pub struct $name {
            $( $(#[$field_about])* #[schemars(rename = $key)] pub $field: Option<$type>, )*
        }

        impl $crate::config::mapping::Mapping for $name {
            const KEYS: &'static [&'static str] = &[$($key),*];

            fn read<'de, A: serde::de::MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
                match key {
                    $( $key => self.$field = Some(map.next_value()?), )*
                    _ => unreachable!("keys are checked before their values are read"),
                }
                Ok(())
            }

            fn fill(&mut self, other: Self) {
                $( if self.$field.is_none() { self.$field = other.$field; } )*
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                $crate::config::mapping::entry(deserializer)
            }
        }
    };
}
pub(crate) use mapping;

/// Reads a mapping, or the text that is short for it.
pub fn entry<'de, T: Entry, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    entry_that(deserializer, &|_| Ok(()))
}

/// The same, where the surroundings demand something of the entry beyond its own [`Entry::check`].
pub fn entry_that<'de, T: Entry, D: Deserializer<'de>>(
    deserializer: D,
    demand: &dyn Fn(&T) -> Result<(), Mistake>,
) -> Result<T, D::Error> {
    deserializer.deserialize_any(EntryVisitor { demand })
}

/// One such entry, or a list of them.
pub fn entries_that<'de, T: Entry, D: Deserializer<'de>>(
    deserializer: D,
    demand: &dyn Fn(&T) -> Result<(), Mistake>,
) -> Result<Vec<T>, D::Error> {
    deserializer.deserialize_any(EntriesVisitor { demand })
}

struct EntriesVisitor<'a, T> {
    demand: &'a dyn Fn(&T) -> Result<(), Mistake>,
}

impl<'a, T: Entry> EntriesVisitor<'a, T> {
    fn one(&self) -> EntryVisitor<'a, T> {
        EntryVisitor { demand: self.demand }
    }
}

impl<'de, T: Entry> Visitor<'de> for EntriesVisitor<'_, T> {
    type Value = Vec<T>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}, or a list of them", T::EXPECTED)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Vec<T>, E> {
        self.one().visit_str(text).map(|entry| vec![entry])
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Vec<T>, E> {
        self.one().visit_u64(value).map(|entry| vec![entry])
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Vec<T>, E> {
        self.one().visit_i64(value).map(|entry| vec![entry])
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Vec<T>, E> {
        self.one().visit_f64(value).map(|entry| vec![entry])
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<Vec<T>, E> {
        self.one().visit_bool(value).map(|entry| vec![entry])
    }

    fn visit_unit<E: de::Error>(self) -> Result<Vec<T>, E> {
        self.one().visit_unit().map(|entry| vec![entry])
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Vec<T>, A::Error> {
        self.one().visit_map(map).map(|entry| vec![entry])
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Vec<T>, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = sequence.next_element_seed(self.one())? {
            entries.push(entry);
        }
        Ok(entries)
    }
}

impl<'de, T: Entry> DeserializeSeed<'de> for EntryVisitor<'_, T> {
    type Value = T;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<T, D::Error> {
        deserializer.deserialize_any(self)
    }
}

struct EntryVisitor<'a, T> {
    demand: &'a dyn Fn(&T) -> Result<(), Mistake>,
}

impl<T: Entry> EntryVisitor<'_, T> {
    fn checked<E: de::Error>(&self, entry: T) -> Result<T, E> {
        entry.check().and_then(|()| (self.demand)(&entry)).map_err(Mistake::raise)?;
        Ok(entry)
    }

    /// A plain scalar that YAML takes for something else than text. Its text is lost by now (`0x10`, `12e4567`), and
    /// a wrong guess could name another commit.
    fn refuse<E: de::Error>(value: &str) -> Result<T, E> {
        Err(Mistake::new(format!("expected {}, found {value}", T::EXPECTED))
            .help("if it is meant as text, put it between quotes")
            .raise())
    }
}

impl<'de, T: Entry> Visitor<'de> for EntryVisitor<'_, T> {
    type Value = T;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(T::EXPECTED)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        match T::from_text(text) {
            Some(Ok(entry)) => self.checked(entry),
            Some(Err(mistake)) => Err(mistake.raise()),
            None => Err(Mistake::new(format!("expected {}, found '{text}'", T::EXPECTED)).raise()),
        }
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<T, E> {
        if T::NUMBERS {
            self.visit_str(&value.to_string())
        } else {
            Self::refuse(&format!("the number {value}"))
        }
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<T, E> {
        Self::refuse(&format!("the number {value}"))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<T, E> {
        Self::refuse(&format!("the number {value}"))
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<T, E> {
        Self::refuse(&format!("the boolean {value}"))
    }

    fn visit_unit<E: de::Error>(self) -> Result<T, E> {
        Err(Mistake::new(format!("expected {}, found nothing", T::EXPECTED)).raise())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, _sequence: A) -> Result<T, A::Error> {
        Err(Mistake::new(format!("expected {}, found a list", T::EXPECTED)).raise())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<T, A::Error> {
        let mut entry = T::default();
        let mut merged = Vec::new();
        let seen = RefCell::new(Vec::new());
        let keys = KnownKey { known: T::KEYS, extensible: T::EXTENSIBLE, seen: &seen };
        while let Some(key) = map.next_key_seed(keys)? {
            match key.as_str() {
                "<<" => merged.push(map.next_value::<Merged<T>>()?),
                extension if extension.starts_with("x-") => {
                    map.next_value::<de::IgnoredAny>()?;
                }
                known => entry.read(known, &mut map)?,
            }
        }
        for other in merged.into_iter().flat_map(|merged| merged.0) {
            entry.fill(other);
        }
        self.checked(entry)
    }
}

/// The value of `<<`: a mapping, or several of which the first wins.
struct Merged<T>(Vec<T>);

impl<'de, T: Entry> Deserialize<'de> for Merged<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MergedVisitor<T>(PhantomData<T>);
        impl<'de, T: Entry> Visitor<'de> for MergedVisitor<T> {
            type Value = Merged<T>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a mapping to merge, or a list of them")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Merged<T>, A::Error> {
                Ok(Merged(vec![EntryVisitor { demand: &|_| Ok(()) }.visit_map(map)?]))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Merged<T>, A::Error> {
                let mut all = Vec::new();
                while let Some(Merged::<T>(mut one)) = sequence.next_element()? {
                    all.append(&mut one);
                }
                Ok(Merged(all))
            }
        }
        deserializer.deserialize_any(MergedVisitor(PhantomData))
    }
}

/// Takes a key only if it is known and new, so that the error stands at the key itself.
#[derive(Clone, Copy)]
struct KnownKey<'a> {
    known: &'static [&'static str],
    extensible: bool,
    seen: &'a RefCell<Vec<String>>,
}

impl<'de> DeserializeSeed<'de> for KnownKey<'_> {
    type Value = String;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<String, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for KnownKey<'_> {
    type Value = String;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a key")
    }

    fn visit_str<E: de::Error>(self, key: &str) -> Result<String, E> {
        let extension = self.extensible && key.starts_with("x-");
        if !self.known.contains(&key) && key != "<<" && !extension {
            return Err(Mistake::new(format!("unknown key '{key}' in {PLACE}"))
                .help(suggest::did_you_mean_or_list(key, "keys", self.known))
                .raise());
        }
        new_key(key, self.seen)
    }
}

fn new_key<E: de::Error>(key: &str, seen: &RefCell<Vec<String>>) -> Result<String, E> {
    if key != "<<" && seen.borrow().iter().any(|known| known == key) {
        return Err(Mistake::new(format!("key '{key}' stands twice in {PLACE}"))
            .help("keep one of them; YAML would let the last one win silently")
            .raise());
    }
    seen.borrow_mut().push(key.to_owned());
    Ok(key.to_owned())
}

/// A mapping whose keys the user chooses, in the order written. A key that stands twice is an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenMapping<T>(pub IndexMap<String, T>);

impl<T> Default for OpenMapping<T> {
    fn default() -> Self {
        Self(IndexMap::new())
    }
}

/// Keys that the user chooses, as far as they may: `env` takes names of variables, `thresholds` those of metrics.
pub trait OpenMappingValue: DeserializeOwned {
    /// What the mapping as a whole is: `environment variables such as {RUST_LOG: debug}`.
    const EXPECTED: &'static str;

    /// What must hold of the key.
    fn check_key(_key: &str) -> Result<(), Mistake> {
        Ok(())
    }

    /// Reads the value under this key.
    fn read<'de, D: Deserializer<'de>>(_key: &str, deserializer: D) -> Result<Self, D::Error> {
        Self::deserialize(deserializer)
    }
}

impl<'de, T: OpenMappingValue> Deserialize<'de> for OpenMapping<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OpenMappingVisitor<T>(PhantomData<T>);
        impl<'de, T: OpenMappingValue> Visitor<'de> for OpenMappingVisitor<T> {
            type Value = OpenMapping<T>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(T::EXPECTED)
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<OpenMapping<T>, A::Error> {
                let seen = RefCell::new(Vec::new());
                let mut named = IndexMap::new();
                let mut merged = Vec::new();
                while let Some(key) = map.next_key_seed(FreeKey { check: T::check_key, seen: &seen })? {
                    if key == "<<" {
                        merged.push(map.next_value::<OpenMapping<T>>()?);
                    } else {
                        let value = map.next_value_seed(ValueOf { key: &key, of: PhantomData })?;
                        named.insert(key, value);
                    }
                }
                for (key, value) in merged.into_iter().flat_map(|merged| merged.0) {
                    named.entry(key).or_insert(value);
                }
                Ok(OpenMapping(named))
            }
        }
        deserializer.deserialize_map(OpenMappingVisitor(PhantomData))
    }
}

#[derive(Clone, Copy)]
struct FreeKey<'a> {
    check: fn(&str) -> Result<(), Mistake>,
    seen: &'a RefCell<Vec<String>>,
}

impl<'de> DeserializeSeed<'de> for FreeKey<'_> {
    type Value = String;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<String, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for FreeKey<'_> {
    type Value = String;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a name")
    }

    fn visit_str<E: de::Error>(self, key: &str) -> Result<String, E> {
        if key != "<<" {
            (self.check)(key).map_err(Mistake::raise)?;
        }
        new_key(key, self.seen)
    }
}

struct ValueOf<'a, T> {
    key: &'a str,
    of: PhantomData<T>,
}

impl<'de, T: OpenMappingValue> DeserializeSeed<'de> for ValueOf<'_, T> {
    type Value = T;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<T, D::Error> {
        T::read(self.key, deserializer)
    }
}

/// One mapping, or a list of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OneOrMany<T>(pub Vec<T>);

impl<'de, T: Entry + Deserialize<'de> + Listed> Deserialize<'de> for OneOrMany<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OneOrManyVisitor<T>(PhantomData<T>);
        impl<'de, T: Entry + Deserialize<'de> + Listed> Visitor<'de> for OneOrManyVisitor<T> {
            type Value = OneOrMany<T>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(formatter, "{} or {}", T::EXPECTED, T::EXPECTED_LIST)
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<OneOrMany<T>, A::Error> {
                Ok(OneOrMany(vec![EntryVisitor { demand: &|_| Ok(()) }.visit_map(map)?]))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, sequence: A) -> Result<OneOrMany<T>, A::Error> {
                ListVisitor(PhantomData).visit_seq(sequence).map(|list| OneOrMany(list.0))
            }
        }
        deserializer.deserialize_any(OneOrManyVisitor(PhantomData))
    }
}

impl<T: JsonSchema> JsonSchema for OneOrMany<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "OneOrMany".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let one = generator.subschema_for::<T>();
        json_schema!({"anyOf": [one, {"type": "array", "items": one}]})
    }
}

impl<T: JsonSchema> JsonSchema for OpenMapping<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "OpenMapping".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "object", "additionalProperties": generator.subschema_for::<T>()})
    }
}
