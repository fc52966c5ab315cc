//! The single values of `memprof.yaml`: how to read each from its text, and its JSON Schema.

use std::fmt;
use std::str::FromStr;

use schemars::{Schema, json_schema};

use crate::checkpoint_at::CheckpointAt;
use crate::config::mistake::Mistake;
use crate::config::yaml::FromText;
use crate::dependency_change::DependencyChange;
use crate::expression::Expression;
use crate::jobs::Jobs;
use crate::metric_family::MetricGroup;
use crate::pair_pattern::PairPattern;
use crate::quantity;
use crate::random_numbers::RandomNumbers;
use crate::repeat::Repeat;
use crate::request::{Ignored, LockfileRequest, OverlayMode, TargetKind};
use crate::title::Template;
use crate::trace_pattern::TracePattern;
use crate::trace_periods::{PeriodError, TracePeriods};
use memprof_support::suggest;

/// A parsed value, with the text that it was written as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parsed<T> {
    /// As written.
    pub text: String,
    pub value: T,
}

impl<T: FromStr> FromStr for Parsed<T> {
    type Err = T::Err;

    fn from_str(text: &str) -> Result<Self, T::Err> {
        Ok(Self { value: text.parse()?, text: text.to_owned() })
    }
}

fn parsed<T: FromStr<Err: fmt::Display>>(text: &str) -> Result<Parsed<T>, Mistake> {
    text.parse().map_err(|error: T::Err| Mistake::new(error.to_string()))
}

impl FromText for Parsed<Expression> {
    const EXPECTED: &'static str = "a -k expression such as hf and not bwd";

    fn from_text(text: &str) -> Result<Self, Mistake> {
        parsed(text)
    }
}

impl FromText for Parsed<CheckpointAt> {
    const EXPECTED: &'static str = "a place and a label such as src/lib.rs:42=loaded";

    fn from_text(text: &str) -> Result<Self, Mistake> {
        parsed(text)
    }
}

impl FromText for Parsed<TracePattern> {
    const EXPECTED: &'static str = "a pattern of functions such as bart::encoder::*::forward";

    fn from_text(text: &str) -> Result<Self, Mistake> {
        parsed(text)
    }
}

impl FromText for Parsed<PairPattern> {
    const EXPECTED: &'static str = "two patterns of tests such as hf_*=fs_*";

    fn from_text(text: &str) -> Result<Self, Mistake> {
        parsed(text)
    }
}

impl FromText for Parsed<DependencyChange> {
    const EXPECTED: &'static str = "a dependency such as serde@1.0.200 or serde=../serde";

    fn from_text(text: &str) -> Result<Self, Mistake> {
        parsed(text)
    }
}

/// How many calls are logged individually.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallLimit(pub u64);

impl FromText for CallLimit {
    const EXPECTED: &'static str = "a number such as 100";

    fn from_text(text: &str) -> Result<Self, Mistake> {
        text.parse()
            .map(Self)
            .map_err(|_| Mistake::new(format!("'{text}' is not a number of calls such as 100")))
    }

    fn schema() -> Schema {
        json_schema!({"type": "integer", "minimum": 0})
    }
}

/// An exit code that means success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpectedCode(pub u8);

impl FromText for ExpectedCode {
    const EXPECTED: &'static str = "an exit code such as 1";

    fn from_text(text: &str) -> Result<Self, Mistake> {
        let code = text.parse().map(Self);
        code.map_err(|_| Mistake::new(format!("'{text}' is not an exit code from 0 to 255")))
    }

    fn schema() -> Schema {
        json_schema!({"type": "integer", "minimum": 0, "maximum": 255})
    }
}

impl FromText for TracePeriods {
    const EXPECTED: &'static str = "a number such as 10, or 'bert::**@5,bart::**@1'";

    fn from_text(text: &str) -> Result<Self, Mistake> {
        text.parse().map_err(|error: PeriodError| Mistake::new(error.to_string()))
    }

    fn schema() -> Schema {
        json_schema!({"anyOf": [{"type": "integer", "minimum": 1}, {"type": "string", "pattern": "@[0-9]+"}]})
    }
}

/// The text of a valid regular expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegularExpression(pub String);

impl FromStr for RegularExpression {
    type Err = regex::Error;

    fn from_str(text: &str) -> Result<Self, regex::Error> {
        regex::Regex::new(text).map(|_| Self(text.to_owned()))
    }
}

impl FromText for RegularExpression {
    const EXPECTED: &'static str = "a regular expression";

    fn from_text(text: &str) -> Result<Self, Mistake> {
        text.parse().map_err(|error: regex::Error| Mistake::new(error.to_string()))
    }
}

impl FromText for Parsed<Template> {
    const EXPECTED: &'static str = "a name such as bert/{batch}";

    fn from_text(text: &str) -> Result<Self, Mistake> {
        parsed(text)
    }
}

/// A time limit in whole seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seconds(pub u64);

impl FromText for Seconds {
    const EXPECTED: &'static str = "a duration such as 10m";

    fn from_text(text: &str) -> Result<Self, Mistake> {
        Ok(Self(quantity::timeout(text)?))
    }

    fn schema() -> Schema {
        json_schema!({"type": "string", "examples": ["10m", "90s"]})
    }
}

/// A pause in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delay(pub u64);

impl FromText for Delay {
    const EXPECTED: &'static str = "a duration such as 2s";

    fn from_text(text: &str) -> Result<Self, Mistake> {
        Ok(Self(quantity::delay(text)?))
    }

    fn schema() -> Schema {
        json_schema!({"type": "string", "examples": ["2s", "500ms"]})
    }
}

impl FromText for Repeat {
    const EXPECTED: &'static str = "a number such as 3, or auto";

    fn from_text(text: &str) -> Result<Self, Mistake> {
        Ok(text.parse()?)
    }

    fn schema() -> Schema {
        json_schema!({"anyOf": [{"type": "integer", "minimum": 1}, {"const": "auto"}]})
    }
}

impl FromText for Jobs {
    const EXPECTED: &'static str = "a number such as 4, auto or exact";

    fn from_text(text: &str) -> Result<Self, Mistake> {
        Ok(text.parse()?)
    }

    fn schema() -> Schema {
        json_schema!({"anyOf": [{"type": "integer", "minimum": 1}, {"const": "auto"}, {"const": "exact"}]})
    }
}

/// A day.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Day(pub String);

impl FromText for Day {
    const EXPECTED: &'static str = "a day such as 2023-05-01";

    fn from_text(text: &str) -> Result<Self, Mistake> {
        Ok(Self(quantity::day(text)?))
    }

    fn schema() -> Schema {
        json_schema!({"type": "string", "format": "date"})
    }
}

/// The date of a lock file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockfileDate(pub LockfileRequest);

impl FromText for LockfileDate {
    const EXPECTED: &'static str = "a day such as 2023-05-01, `commit` or `today`";

    fn from_text(text: &str) -> Result<Self, Mistake> {
        Ok(Self(LockfileRequest::of_date(text)?))
    }

    fn schema() -> Schema {
        json_schema!({"anyOf": [{"type": "string", "format": "date"}, {"enum": ["commit", "today"]}]})
    }
}

/// A percentage, with `%` or without.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Percentage(pub f64);

impl FromText for Percentage {
    const EXPECTED: &'static str = "a percentage such as 5%";

    fn from_text(text: &str) -> Result<Self, Mistake> {
        Ok(Self(quantity::percent(text)?))
    }

    fn schema() -> Schema {
        json_schema!({"type": ["string", "number"], "examples": ["5%"]})
    }
}

/// An absolute limit. Its metric determines its unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Absolute(pub quantity::Limit);

impl FromText for Absolute {
    const EXPECTED: &'static str = "a size such as 16MiB";

    fn from_text(text: &str) -> Result<Self, Mistake> {
        match text.parse()? {
            quantity::Limit::Percent(_) => {
                Err(Mistake::new(format!("'{text}' is a percentage")).help("write it as `percent: 5`"))
            }
            limit => Ok(Self(limit)),
        }
    }

    fn schema() -> Schema {
        json_schema!({"type": ["string", "integer"], "examples": ["16MiB"]})
    }
}

/// A limit, absolute or in percent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Amount(pub quantity::Limit);

impl FromText for Amount {
    const EXPECTED: &'static str = "a limit such as 20% or 64MiB";

    fn from_text(text: &str) -> Result<Self, Mistake> {
        Ok(Self(text.parse()?))
    }

    fn schema() -> Schema {
        json_schema!({"type": ["string", "integer"], "examples": ["20%", "64MiB"]})
    }
}

/// The value of a variable or a parameter: any text, even an empty one. Numbers and booleans stay
/// as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value(pub String);

impl FromText for Value {
    const EXPECTED: &'static str = "a single value";

    fn from_text(text: &str) -> Result<Self, Mistake> {
        if text.contains('\0') {
            return Err(Mistake::new("a value cannot contain a NUL character"));
        }
        Ok(Self(text.to_owned()))
    }

    fn schema() -> Schema {
        json_schema!({"type": ["string", "number", "boolean"]})
    }
}

/// A pattern of git refs, in which `{}` stands for the number or name: `refs/changes/{}/head`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refspec(pub String);

impl FromText for Refspec {
    const EXPECTED: &'static str = "a pattern such as refs/changes/{}/head";

    fn from_text(text: &str) -> Result<Self, Mistake> {
        if text.matches("{}").count() == 1 && text.starts_with("refs/") {
            Ok(Self(text.to_owned()))
        } else {
            Err(Mistake::new(format!("'{text}' is not a pattern such as refs/changes/{{}}/head"))
                .help("begin with refs/, and write one {} for the number"))
        }
    }
}

/// What a manifest has after `NAME =` for a dependency, as TOML: `"0.9"` or `{ version = "0.9",
/// features = ["small_rng"] }`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dependency(pub String);

impl FromText for Dependency {
    const EXPECTED: &'static str = "a version such as \"0.9\"";

    /// Adds quotes to a bare version. A TOML value stays as it is.
    fn from_text(text: &str) -> Result<Self, Mistake> {
        let text = text.trim();
        let toml = if text.starts_with(['{', '"', '\'']) { text.to_owned() } else { format!("\"{text}\"") };
        match format!("x = {toml}").parse::<toml_edit::DocumentMut>() {
            Ok(_) if !text.is_empty() => Ok(Self(toml)),
            _ => Err(Mistake::new(format!("'{text}' is not a dependency"))
                .help("write a version such as \"0.9\", or a table such as '{ version = \"0.9\", features = [\"std\"] }'")),
        }
    }
}

/// Returns the mistake for a text that is none of these words.
fn unknown_word<'a>(expected: &str, text: &str, words: impl IntoIterator<Item = &'a str>) -> Mistake {
    let mistake = Mistake::new(format!("expected {expected}, found '{text}'"));
    match suggest::did_you_mean(text, words) {
        Some(help) => mistake.help(help),
        None => mistake,
    }
}

macro_rules! one_of {
    ($type:ty, $expected:literal, $($word:literal => $value:expr),+) => {
        impl FromText for $type {
            const EXPECTED: &'static str = $expected;

            fn from_text(text: &str) -> Result<Self, Mistake> {
                match text {
                    $($word => Ok($value),)+
                    // The expectation has the list of words.
                    other => Err(unknown_word($expected, other, [$($word),+])),
                }
            }

            fn schema() -> Schema {
                json_schema!({"enum": [$($word),+]})
            }
        }
    };
}

one_of!(TargetKind, "a kind of target (lib, bin, test, example, bench)",
    "lib" => TargetKind::Lib, "bin" => TargetKind::Bin, "test" => TargetKind::Test,
    "example" => TargetKind::Example, "bench" => TargetKind::Bench);
one_of!(RandomNumbers, "random numbers (same, own)",
    "same" => RandomNumbers::Same, "own" => RandomNumbers::Own);
one_of!(OverlayMode, "a mode (package, external)",
    "package" => OverlayMode::Package, "external" => OverlayMode::External);
one_of!(Ignored, "a choice for ignored tests (skip, include, only)",
    "skip" => Ignored::Skip, "include" => Ignored::Include, "only" => Ignored::Only);

impl FromText for MetricGroup {
    const EXPECTED: &'static str = "a group of metrics such as heap";

    fn from_text(text: &str) -> Result<Self, Mistake> {
        let words = Self::ALL.map(Self::as_str);
        let unknown = || unknown_word(&format!("a group of metrics ({})", words.join(", ")), text, words);
        Self::ALL.into_iter().find(|group| group.as_str() == text).ok_or_else(unknown)
    }

    fn schema() -> Schema {
        json_schema!({"enum": Self::ALL.map(Self::as_str)})
    }
}
