//! YAML mappings whose errors name the place: known keys, duplicates, merge keys (`<<`), short
//! forms.
//!
//! Keys are checked while they are read, so that an error names the key's own place. `mapping!`
//! makes a struct, its reader, its JSON Schema, its flags and what a plan keeps of it from one list of keys.

use std::cell::RefCell;
use std::collections::HashSet;
use std::fmt;
use std::marker::PhantomData;

use indexmap::IndexMap;
use schemars::{JsonSchema, json_schema};
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, DeserializeOwned, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

use crate::config::flag::{FromFlag, KeyFlag};
use crate::config::limits;
use crate::config::mistake::{Mistake, PLACE};
use crate::config::yaml::{List, inline_schema};
use memprof_support::labels;
use memprof_support::suggest;

/// A struct that is written as a mapping. The macro `mapping!` implements it.
pub trait Mapping: Default {
    /// The known keys, in the order of the documentation.
    const KEYS: &'static [Key];
    /// Reads the value of this key (one of `KEYS`) into its field.
    fn read<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error>;
    /// Takes the keys that are absent here from `other`, for a merge key, and for flags over the file.
    fn fill(&mut self, other: Self);
    /// Sets the key of this flag from the texts that were given.
    fn set_by_flag<'a>(&mut self, long: &str, texts: impl Iterator<Item = &'a str>) -> Result<(), Mistake>;
}

/// A key of a mapping.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// The name: `max-events`.
    pub name: &'static str,
    /// What it means, line by line as in the source. A paragraph after the first has details.
    pub about: &'static str,
    /// The flag that sets it.
    pub flag: Option<KeyFlag>,
    /// Flags that say the same in another form: `--threshold METRIC=5%`.
    pub typed: &'static str,
}

/// What may stand in place of a mapping, and what must hold of the mapping.
pub(crate) trait Entry: Mapping {
    /// What is expected, for errors: `a ref or a mapping such as {ref: main}`.
    const EXPECTED: &'static str;
    /// Whether keys that begin with `x-` are accepted and ignored, for anchors.
    const EXTENSIBLE: bool = false;
    /// Whether a plain number is a short form, too.
    const NUMBERS: bool = false;

    /// Returns the mapping that a text is short for; `None` if there is no short form.
    fn from_text(_text: &str) -> Option<Result<Self, Mistake>> {
        None
    }

    /// Checks the whole mapping.
    fn check(&self) -> Result<(), Mistake> {
        Ok(())
    }
}

/// The entries of such a list have a short form, which the flag takes.
impl<T: Entry> FromFlag for List<T> {
    const IS_LIST: bool = true;

    fn from_flag<'a>(texts: impl Iterator<Item = &'a str>) -> Result<Self, Mistake> {
        texts.filter_map(T::from_text).collect::<Result<_, _>>().map(Self)
    }
}

/// Returns the flag of a key's definition, if it has one.
pub(crate) const fn first(flags: &[KeyFlag]) -> Option<KeyFlag> {
    match flags {
        [] => None,
        [flag, ..] => Some(*flag),
    }
}

/// Defines a struct whose fields are optional keys of a mapping, with its reader, its JSON Schema and its flags:
///
/// ```text
/// "key" => field: Type as "flags of another form" = Flag::new(…) => kept.field_of_the_plan: Type,
/// ```
///
/// With `keeps A and B`, it also makes what a plan keeps of the keys: `kept.` fields are in A, `build.` fields
/// in B.
macro_rules! mapping {
    (
        $(#[$about:meta])*
        pub struct $name:ident keeps $kept:ident and $build:ident {
            $($entries:tt)*
        }
    ) => {
        $crate::config::mapping::mapping! { $(#[$about])* pub struct $name { $($entries)* } }
        $crate::config::mapping::mapping! { @keep $name $kept $build $($entries)* }
    };
    (
        @keep $name:ident $kept:ident $build:ident
        $(
            $(#[doc = $doc:literal])* $key:literal => $field:ident: $type:ty
                $(as $typed:literal)? $(= $flag:expr)?
                $(=> kept.$(#[$kept_serde:meta])* $kept_field:ident: $kept_type:ty)?
                $(=> build.$build_field:ident: $build_type:ty)?,
        )*
    ) => {
        impl From<&$name> for $kept {
            fn from(keys: &$name) -> Self {
                Self { $($( $kept_field: $crate::config::keep::kept(keys.$field.as_ref()), )?)* }
            }
        }

        impl From<&$name> for $build {
            fn from(keys: &$name) -> Self {
                Self { $($( $build_field: $crate::config::keep::kept(keys.$field.as_ref()), )?)* }
            }
        }
    };
    (
        $(#[$about:meta])*
        pub struct $name:ident {
            $(
                $(#[doc = $doc:literal])* $key:literal => $field:ident: $type:ty
                    $(as $typed:literal)? $(= $flag:expr)?
                    $(=> kept.$(#[$kept_serde:meta])* $kept_field:ident: $kept_type:ty)?
                    $(=> build.$build_field:ident: $build_type:ty)?,
            )*
        }
    ) => {
        #[derive(Clone, Debug, Default, PartialEq, schemars::JsonSchema)]
        #[schemars(deny_unknown_fields)]
        $(#[$about])*
        pub struct $name {
            $( $(#[doc = $doc])* #[schemars(rename = $key)] pub $field: Option<$type>, )*
        }

        impl $crate::config::mapping::Mapping for $name {
            const KEYS: &'static [$crate::config::mapping::Key] = &[$($crate::config::mapping::Key {
                name: $key,
                about: concat!($($doc, "\n"),*),
                flag: $crate::config::mapping::first(&[$($crate::config::flag::KeyFlag {
                    flag: $flag,
                    is_list: <$type as $crate::config::flag::FromFlag>::IS_LIST,
                    check: <$type as $crate::config::flag::FromFlag>::check,
                })?]),
                typed: concat!("", $($typed)?),
            },)*];

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

            fn set_by_flag<'a>(
                &mut self,
                long: &str,
                texts: impl Iterator<Item = &'a str>,
            ) -> Result<(), $crate::config::mistake::Mistake> {
                $($(
                    if long == $flag.long {
                        self.$field = Some($crate::config::flag::FromFlag::from_flag(texts)?);
                        return Ok(());
                    }
                )?)*
                unreachable!("--{long} is no flag of a key, and {} texts", texts.count())
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
pub(crate) fn entry<'de, T: Entry, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    let visitor = EntryVisitor { form: Form::Entry, demand: &|_| Ok(()) };
    // This form gives exactly one entry.
    deserializer.deserialize_any(visitor).map(|mut entries| entries.swap_remove(0))
}

/// Reads one such entry, or a list of them. `demand` is what must hold of each entry at this place,
/// beyond its own [`Entry::check`].
pub(crate) fn entries<'de, T: Entry, D: Deserializer<'de>>(
    deserializer: D,
    demand: &dyn Fn(&T) -> Result<(), Mistake>,
) -> Result<Vec<T>, D::Error> {
    deserializer.deserialize_any(EntryVisitor { form: Form::Entries, demand })
}

/// What may stand at a place.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Entry,
    /// One entry, or a list of them.
    Entries,
    /// The value of `<<`: one mapping or a list of them, and no short forms.
    Merged,
}

/// What is expected behind `<<`, for errors.
const MERGED: &str = "a mapping to merge, or a list of them";

/// Reads the entries at one place.
struct EntryVisitor<'a, T> {
    form: Form,
    demand: &'a dyn Fn(&T) -> Result<(), Mistake>,
}

impl<T: Entry> EntryVisitor<'_, T> {
    fn expected(&self) -> String {
        match self.form {
            Form::Entry => T::EXPECTED.to_owned(),
            Form::Entries => format!("{}, or a list of them", T::EXPECTED),
            Form::Merged => MERGED.to_owned(),
        }
    }

    fn checked<E: de::Error>(&self, entry: T) -> Result<Vec<T>, E> {
        // The entry that it is merged into is checked as a whole.
        if self.form == Form::Merged {
            return Ok(vec![entry]);
        }
        entry.check().and_then(|()| (self.demand)(&entry)).map_err(Mistake::raise)?;
        Ok(vec![entry])
    }

    fn unexpected(&self, found: &str) -> Mistake {
        Mistake::new(format!("expected {}, found {found}", self.expected()))
    }

    /// Refuses a plain scalar that YAML does not take for text. What was written is lost by now
    /// (`0x10`, `12e4567`), and a wrong guess could name another commit.
    fn refuse<E: de::Error>(&self, found: &str) -> Result<Vec<T>, E> {
        Err(self.unexpected(found).help("put it in quotes if you mean text").raise())
    }
}

impl<'de, T: Entry> DeserializeSeed<'de> for EntryVisitor<'_, T> {
    type Value = Vec<T>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Vec<T>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, T: Entry> Visitor<'de> for EntryVisitor<'_, T> {
    type Value = Vec<T>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.expected())
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Vec<T>, E> {
        match T::from_text(text).filter(|_| self.form != Form::Merged) {
            Some(entry) => self.checked(entry.map_err(Mistake::raise)?),
            None => Err(self.unexpected(&format!("'{text}'")).raise()),
        }
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Vec<T>, E> {
        if T::NUMBERS {
            self.visit_str(&value.to_string())
        } else {
            self.refuse(&format!("the number {value}"))
        }
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Vec<T>, E> {
        self.refuse(&format!("the number {value}"))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Vec<T>, E> {
        self.refuse(&format!("the number {value}"))
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<Vec<T>, E> {
        self.refuse(&format!("the boolean {value}"))
    }

    fn visit_unit<E: de::Error>(self) -> Result<Vec<T>, E> {
        Err(self.unexpected("nothing").raise())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Vec<T>, A::Error> {
        let form = match self.form {
            Form::Entry => return Err(self.unexpected("a list").raise()),
            Form::Entries => Form::Entry,
            Form::Merged => Form::Merged,
        };
        let mut entries = Vec::new();
        while let Some(mut entry) = sequence.next_element_seed(EntryVisitor { form, demand: self.demand })? {
            limits::check_count(entries.len(), limits::MOST_MAPPINGS).map_err(Mistake::raise)?;
            entries.append(&mut entry);
        }
        Ok(entries)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Vec<T>, A::Error> {
        let mut entry = T::default();
        let mut merged = Vec::new();
        let seen = RefCell::new(HashSet::new());
        let keys = CheckedKey { check: &check_known::<T>, seen: &seen };
        while let Some(key) = map.next_key_seed(keys)? {
            match key.as_str() {
                "<<" => merged.append(
                    &mut map.next_value_seed(EntryVisitor { form: Form::Merged, demand: &|_| Ok(()) })?,
                ),
                extension if extension.starts_with("x-") => {
                    map.next_value::<de::IgnoredAny>()?;
                }
                known => entry.read(known, &mut map)?,
            }
        }
        // The first of several merged mappings wins.
        for other in merged {
            entry.fill(other);
        }
        self.checked(entry)
    }
}

fn check_known<T: Entry>(key: &str) -> Result<(), Mistake> {
    let known: Vec<&str> = T::KEYS.iter().map(|known| known.name).collect();
    if known.contains(&key) || (T::EXTENSIBLE && key.starts_with("x-")) {
        return Ok(());
    }
    // All keys may follow, so a very long one must not fill the message.
    let shown = labels::cut(key, 60);
    Err(Mistake::new(format!("unknown key '{shown}' in {PLACE}")).help(
        suggest::did_you_mean(key, known.iter().copied()).unwrap_or_else(|| {
            format!("keys: {}; a newer cargo-memprof may have more keys", known.join(", "))
        }),
    ))
}

/// Takes a key only if it may stand there and is new, so that the error names the key's own place.
#[derive(Clone, Copy)]
struct CheckedKey<'a> {
    check: &'a dyn Fn(&str) -> Result<(), Mistake>,
    seen: &'a RefCell<HashSet<String>>,
}

impl<'de> DeserializeSeed<'de> for CheckedKey<'_> {
    type Value = String;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<String, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for CheckedKey<'_> {
    type Value = String;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a key")
    }

    fn visit_str<E: de::Error>(self, key: &str) -> Result<String, E> {
        // Several merge keys may follow each other.
        if key == "<<" {
            return Ok(key.to_owned());
        }
        (self.check)(key).map_err(Mistake::raise)?;
        limits::check_count(self.seen.borrow().len(), limits::MOST_ENTRIES).map_err(Mistake::raise)?;
        if !self.seen.borrow_mut().insert(key.to_owned()) {
            return Err(Mistake::new(format!("key '{key}' appears twice in {PLACE}"))
                .help("remove one of them: plain YAML would silently use the last one")
                .raise());
        }
        Ok(key.to_owned())
    }
}

/// A mapping whose keys the user chooses, in the order written. A key that appears twice is an
/// error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenMapping<T>(pub IndexMap<String, T>);

impl<T> Default for OpenMapping<T> {
    fn default() -> Self {
        Self(IndexMap::new())
    }
}

/// What an [`OpenMapping`] contains. `env` takes names of variables as keys, `thresholds` names of
/// metrics.
pub(crate) trait OpenMappingValue: DeserializeOwned {
    /// What is expected, for errors: `names and values such as {RUST_LOG: debug}`.
    const EXPECTED: &'static str;

    /// Checks a key.
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
                let seen = RefCell::new(HashSet::new());
                let mut named = IndexMap::new();
                let mut merged = Vec::new();
                while let Some(key) = map.next_key_seed(CheckedKey { check: &T::check_key, seen: &seen })? {
                    if key == "<<" {
                        merged.append(&mut map.next_value::<MergedMappings<T>>()?.0);
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

/// The value of `<<` in an [`OpenMapping`]: one mapping or a list of them.
struct MergedMappings<T>(Vec<OpenMapping<T>>);

impl<'de, T: OpenMappingValue> Deserialize<'de> for MergedMappings<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MergedVisitor<T>(PhantomData<T>);
        impl<'de, T: OpenMappingValue> Visitor<'de> for MergedVisitor<T> {
            type Value = MergedMappings<T>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(MERGED)
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<MergedMappings<T>, A::Error> {
                let one = OpenMapping::deserialize(MapAccessDeserializer::new(map))?;
                Ok(MergedMappings(vec![one]))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<MergedMappings<T>, A::Error> {
                let mut mappings = Vec::new();
                while let Some(mapping) = sequence.next_element()? {
                    limits::check_count(mappings.len(), limits::MOST_MAPPINGS).map_err(Mistake::raise)?;
                    mappings.push(mapping);
                }
                Ok(MergedMappings(mappings))
            }
        }
        deserializer.deserialize_any(MergedVisitor(PhantomData))
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

impl<'de, T: Entry> Deserialize<'de> for OneOrMany<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        entries(deserializer, &|_| Ok(())).map(Self)
    }
}

inline_schema!(OneOrMany<T> where T: JsonSchema, |generator| {
    let one = generator.subschema_for::<T>();
    json_schema!({"anyOf": [one, {"type": "array", "items": one}]})
});

inline_schema!(OpenMapping<T> where T: JsonSchema, |generator| {
    json_schema!({"type": "object", "additionalProperties": generator.subschema_for::<T>()})
});
