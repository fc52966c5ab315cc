//! YAML scalars, lists and documents. Scalars are read as written, and errors name the place.
//!
//! `serde_yaml` adds the place to an error that a visitor raises, unless a value is buffered on the
//! way. So nothing here uses untagged enums or a derived `Deserialize`. Scalars are read with
//! `deserialize_str`, which gives the text as written: `1e3` stays `1e3`.

use std::fmt;
use std::marker::PhantomData;

use camino::Utf8Path;
use schemars::{JsonSchema, Schema, json_schema};
use serde::Deserialize;
use serde::de::{self, DeserializeOwned, Deserializer, SeqAccess, Visitor};

use crate::config::limits;
use crate::config::mistake::{HELP, MESSAGE, Mistake, PLACE};
use memprof_support::labels::cut;
use memprof_support::user_error::UserError;

/// A longer message is cut to less than this: a list of known keys fits, a page of text does not.
const MOST_OF_MESSAGE: usize = 1_000;
const MOST_OF_VALUE: usize = 200;

/// Gives a type a JSON Schema that stands where the type is used, instead of among the definitions.
macro_rules! inline_schema {
    ($type:ty $(where $parameter:ident: $bound:ident)?, |$generator:ident| $schema:expr) => {
        impl$(<$parameter: $bound>)? schemars::JsonSchema for $type {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($type).into()
            }

            fn json_schema($generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
                $schema
            }
        }
    };
}
pub(crate) use inline_schema;

/// A value that is read from its text as written, regardless of the type that YAML would give it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scalar<T>(pub T);

/// How a value is read from text.
pub trait FromText: Sized {
    /// What is expected, for errors: `a duration such as 10m`.
    const EXPECTED: &'static str;
    /// Reads the value.
    fn from_text(text: &str) -> Result<Self, Mistake>;
    /// The JSON Schema.
    fn schema() -> Schema {
        json_schema!({"type": "string"})
    }
}

impl FromText for String {
    const EXPECTED: &'static str = "a text";

    fn from_text(text: &str) -> Result<Self, Mistake> {
        if text.trim().is_empty() {
            return Err(Mistake::new("expected a text, found an empty one"));
        }
        Ok(text.to_owned())
    }
}

impl FromText for bool {
    const EXPECTED: &'static str = "true or false";

    fn from_text(text: &str) -> Result<Self, Mistake> {
        match text {
            "true" => Ok(true),
            "false" => Ok(false),
            other => Err(Mistake::new(format!("expected true or false, found '{other}'"))),
        }
    }

    fn schema() -> Schema {
        json_schema!({"type": "boolean"})
    }
}

impl<'de, T: FromText> Deserialize<'de> for Scalar<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ScalarVisitor<T>(PhantomData<T>);
        impl<T: FromText> Visitor<'_> for ScalarVisitor<T> {
            type Value = Scalar<T>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(T::EXPECTED)
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Scalar<T>, E> {
                T::from_text(text).map(Scalar).map_err(Mistake::raise)
            }
        }
        deserializer.deserialize_str(ScalarVisitor(PhantomData))
    }
}

inline_schema!(Scalar<T> where T: FromText, |_generator| T::schema());

/// A list. A single value is not accepted in its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct List<T>(pub Vec<T>);

/// What a list looks like, for errors.
pub(crate) trait Listed {
    /// `a list of refs such as [main, pr/7]`.
    const EXPECTED_LIST: &'static str;
    /// The most entries of a list.
    const MOST: usize = limits::MOST_MAPPINGS;
}

impl<T> Listed for Scalar<T> {
    const EXPECTED_LIST: &'static str = "a list such as [a, b]";
    const MOST: usize = limits::MOST_ENTRIES;
}

impl<'de, T: Deserialize<'de> + Listed> Deserialize<'de> for List<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ListVisitor<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de> + Listed> Visitor<'de> for ListVisitor<T> {
            type Value = List<T>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(T::EXPECTED_LIST)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<List<T>, A::Error> {
                let mut values = Vec::new();
                while let Some(value) = sequence.next_element()? {
                    limits::check_count(values.len(), T::MOST).map_err(Mistake::raise)?;
                    values.push(value);
                }
                Ok(List(values))
            }
        }
        deserializer.deserialize_seq(ListVisitor(PhantomData))
    }
}

inline_schema!(List<T> where T: JsonSchema, |generator| {
    json_schema!({"type": "array", "items": generator.subschema_for::<T>()})
});

/// Reads one name, or a list of names that `check` accepts. A number is read as its text.
pub(crate) fn one_or_list<'de, T: FromText, D: Deserializer<'de>>(
    deserializer: D,
    name: fn(T) -> String,
    check: fn(&[String]) -> Result<(), String>,
) -> Result<Vec<String>, D::Error> {
    struct NamesVisitor<T> {
        name: fn(T) -> String,
        check: fn(&[String]) -> Result<(), String>,
    }
    impl<'de, T: FromText> Visitor<'de> for NamesVisitor<T> {
        type Value = Vec<String>;

        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(formatter, "{} or a list of them", T::EXPECTED)
        }

        fn visit_str<E: de::Error>(self, text: &str) -> Result<Vec<String>, E> {
            T::from_text(text).map(|one| vec![(self.name)(one)]).map_err(Mistake::raise)
        }

        fn visit_u64<E: de::Error>(self, index: u64) -> Result<Vec<String>, E> {
            self.visit_str(&index.to_string())
        }

        fn visit_i64<E: de::Error>(self, index: i64) -> Result<Vec<String>, E> {
            self.visit_str(&index.to_string())
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Vec<String>, A::Error> {
            let mut names = Vec::new();
            while let Some(Scalar(one)) = sequence.next_element()? {
                limits::check_count(names.len(), limits::MOST_MAPPINGS).map_err(Mistake::raise)?;
                names.push((self.name)(one));
            }
            (self.check)(&names).map_err(|message| Mistake::new(message).raise())?;
            Ok(names)
        }
    }
    deserializer.deserialize_any(NamesVisitor { name, check })
}

/// Reads a whole document. `file` is its name in error messages.
pub(crate) fn parse<T: DeserializeOwned>(text: &str, file: &Utf8Path) -> Result<T, UserError> {
    limits::check(text, file)?;
    let read = limits::check_aliases(serde_yaml::Deserializer::from_str(text))
        .and_then(|()| serde_yaml::from_str(text));
    read.map_err(|error| {
        let user_error = error_of(&error, file);
        let line = error.location().and_then(|location| text.lines().nth(location.line() - 1));
        match line {
            Some(line) if line.trim_start_matches(' ').starts_with('\t') && user_error.help.is_none() => {
                user_error.help("indent with spaces: YAML does not allow tabs")
            }
            _ => user_error,
        }
    })
}

fn error_of(error: &serde_yaml::Error, file: &Utf8Path) -> UserError {
    let position = error.location().map(|location| (location.line(), location.column()));
    let mut text = error.to_string();
    if let Some((line, column)) = position {
        let suffix = format!(" at line {line} column {column}");
        text = text.strip_suffix(&suffix).unwrap_or(&text).to_owned();
    }
    // The path before it has the user's keys, which can contain a separator, too.
    let Some((path, rest)) = text.rsplit_once(MESSAGE) else {
        let (message, help) = reworded(&text);
        return UserError::new(shortened(&printable(&message)))
            .maybe_help(help.map(|help| shortened(&printable(&help))))
            .at(file, position);
    };
    let (message, help) = rest.split_once(HELP).unwrap_or((rest, ""));
    let path = path.trim_end().trim_end_matches(':');
    let message = if message.contains(PLACE) {
        message.replace(PLACE, if path.is_empty() { "the matrix" } else { path })
    } else if path.is_empty() {
        message.to_owned()
    } else {
        format!("{path}: {message}")
    };
    UserError::new(shortened(&printable(&message)))
        .maybe_help((!help.is_empty()).then(|| shortened(&printable(help))))
        .at(file, position)
}

/// Messages quote values, and a value may be a megabyte long.
fn shortened(message: &str) -> String {
    if message.len() <= MOST_OF_MESSAGE {
        message.to_owned()
    } else {
        cut(message, MOST_OF_VALUE).into_owned()
    }
}

/// Returns a text without the control characters that the user's values may contain, except tabs and
/// ends of lines. A terminal would obey them.
fn printable(text: &str) -> String {
    let is_unprintable = |character: char| character.is_control() && !"\n\t".contains(character);
    let plain = |character: char| if is_unprintable(character) { '\u{fffd}' } else { character };
    text.chars().map(plain).collect()
}

/// Rewords serde's own message, `refs: invalid type: string "x", expected a list`, and adds help.
fn reworded(sentence: &str) -> (String, Option<String>) {
    let parts = sentence.split_once("invalid type: ").and_then(|(path, rest)| {
        rest.split_once(", expected ").map(|(found, expected)| (path, found, expected))
    });
    let Some((path, found, expected)) = parts else {
        return (sentence.to_owned(), None);
    };
    let scalar =
        found.strip_prefix("string ").or_else(|| Some(found.split_once('`')?.1.trim_end_matches('`')));
    let found = match found {
        "map" => "a mapping",
        "sequence" => "a list",
        "unit value" => "nothing",
        other => scalar.unwrap_or(other),
    };
    let help = scalar.filter(|_| expected.starts_with("a list")).map(|value| {
        let value = value.trim_matches('"');
        format!("write [{value}]")
    });
    (format!("{path}expected {expected}, found {found}"), help)
}
