//! The key `axes` of `memprof.yaml`: settings with several values.

use std::fmt;
use std::marker::PhantomData;

use schemars::{JsonSchema, json_schema};
use serde::de::{DeserializeOwned, Deserializer, SeqAccess, Visitor};

use crate::axes::MOST_SIDES;
use crate::config::limits;
use crate::config::mapping::{Entry, OpenMapping, mapping};
use crate::config::mistake::Mistake;
use crate::config::values::{Parsed, Value};
use crate::config::yaml::{List, Scalar, inline_schema};
use crate::dependency_change::DependencyChange;

mapping! {
    /// Settings with several values. Each ref becomes a side for each combination of them, and the
    /// first combination is the baseline.
    pub struct AxesEntry {
        /// Toolchains, as rustup names them.
        "toolchain" => toolchain: AxisValues<Scalar<String>>,
        /// Cargo's build profiles.
        "profile" => profile: AxisValues<Scalar<String>>,
        /// Whether to build without the default features: `[false, true]`.
        "no-default-features" => no_default_features: AxisValues<Scalar<bool>>,
        /// Lists of cargo features: `[[], [simd]]`.
        "features" => features: AxisValues<List<Scalar<String>>>,
        /// Lists of dependencies in place of the lock file's: `[[], [serde@1.0.200]]`.
        "with" => with: AxisValues<List<Scalar<Parsed<DependencyChange>>>>,
        /// Lock files: files, or refs that have committed one.
        "lockfile" => lockfile: AxisValues<Scalar<String>>,
        /// Lists of settings for cargo, after the common ones.
        "config" => config: AxisValues<List<Scalar<String>>>,
        /// Mappings of variables: `[{}, {POOL: 8}]`.
        "env" => env: AxisValues<OpenMapping<Scalar<Value>>>,
    }
}

impl Entry for AxesEntry {
    const EXPECTED: &'static str = "axes such as {features: [[], [simd]], profile: [dev, release]}";

    fn check(&self) -> Result<(), Mistake> {
        if *self == Self::default() {
            return Err(Mistake::new("`axes` needs a setting with values")
                .help("write axes: {features: [[], [simd]]}"));
        }
        Ok(())
    }
}

/// The values of an axis: at least one, and none twice.
#[derive(Clone, Debug, PartialEq)]
pub struct AxisValues<T>(pub Vec<T>);

/// What an axis takes.
pub trait OnAxis: DeserializeOwned + PartialEq {
    /// What is expected, for errors: `lists of dependencies such as [[], [serde@1.0.200]]`.
    const EXPECTED: &'static str;
}

impl OnAxis for Scalar<String> {
    const EXPECTED: &'static str = "a list of values such as [dev, release]";
}

impl OnAxis for Scalar<bool> {
    const EXPECTED: &'static str = "a list such as [false, true]";
}

impl OnAxis for List<Scalar<String>> {
    const EXPECTED: &'static str = "lists of features or settings such as [[], [simd]]";
}

impl OnAxis for List<Scalar<Parsed<DependencyChange>>> {
    const EXPECTED: &'static str = "lists of dependencies such as [[], [serde@1.0.200]]";
}

impl OnAxis for OpenMapping<Scalar<Value>> {
    const EXPECTED: &'static str = "mappings of variables such as [{}, {POOL: 8}]";
}

impl<'de, T: OnAxis> serde::Deserialize<'de> for AxisValues<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ValuesVisitor<T>(PhantomData<T>);
        impl<'de, T: OnAxis> Visitor<'de> for ValuesVisitor<T> {
            type Value = AxisValues<T>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(T::EXPECTED)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<AxisValues<T>, A::Error> {
                let mut values: Vec<T> = Vec::new();
                while let Some(value) = sequence.next_element()? {
                    limits::check_count(values.len(), MOST_SIDES).map_err(Mistake::raise)?;
                    if let Some(first) = values.iter().position(|known| *known == value) {
                        let (first, again) = (first + 1, values.len() + 1);
                        return Err(Mistake::new(format!("value {again} is the same as value {first}"))
                            .help("remove one of them: each value is a side of its own")
                            .raise());
                    }
                    values.push(value);
                }
                if values.is_empty() {
                    return Err(Mistake::new("an axis needs a value")
                        .help(format!("write {}, or remove the key", T::EXPECTED))
                        .raise());
                }
                Ok(AxisValues(values))
            }
        }
        deserializer.deserialize_seq(ValuesVisitor(PhantomData))
    }
}

inline_schema!(AxisValues<T> where T: JsonSchema, |generator| {
    let one = generator.subschema_for::<T>();
    json_schema!({"type": "array", "items": one, "minItems": 1, "uniqueItems": true})
});
