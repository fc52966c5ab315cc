//! The rules of `memprof.yaml`'s mappings: short forms, keys that need each other, and checked
//! names.

use indexmap::IndexMap;
use schemars::json_schema;

use crate::cell_pattern;
use crate::config::keep::Keep;
use crate::config::limits;
use crate::config::mapping::{self, Entry, OneOrMany, OpenMapping, OpenMappingValue};
use crate::config::matrix::{
    AllowEntry, CellEntry, DeviceNames, LockfileEntry, Matrix, MetricName, MetricPattern, OverlayEntry,
    ParameterValues, PathEntry, RefEntry, Rules, TestEntry, ThresholdEntry, TraceEntry,
};
use crate::config::mistake::Mistake;
use crate::config::values::{Absolute, Amount, Day, Dependency, Parsed, Percentage, Refspec, Value};
use crate::config::yaml::{FromText, List, Listed, Scalar, inline_schema, one_or_list};
use crate::metric::Unit;
use crate::metric_name;
use crate::parameter::{check_parameter, check_variable};
use crate::quantity::Limit;
use crate::quantity::Threshold;
use crate::request::{MOST_REFS, OverlayMode};
use crate::rule::{Allowance, Growth, Rule};
use crate::trace_pattern::TracePattern;
use memprof_gpu::visible_devices;

impl TraceEntry {
    /// Adds functions whose calls are measured.
    pub fn add_functions(&mut self, patterns: impl IntoIterator<Item = Parsed<TracePattern>>) {
        let List(functions) = self.functions.get_or_insert_with(|| List(Vec::new()));
        functions.extend(patterns.into_iter().map(Scalar));
    }

    /// Adds functions whose lines are measured.
    pub fn add_lines(&mut self, patterns: impl IntoIterator<Item = Parsed<TracePattern>>) {
        let List(lines) = self.lines.get_or_insert_with(|| List(Vec::new()));
        lines.extend(patterns.into_iter().map(Scalar));
    }
}

impl Entry for Matrix {
    const EXPECTED: &'static str = "a mapping such as `refs: [main, pr/7]`";
    const EXTENSIBLE: bool = true;

    fn check(&self) -> Result<(), Mistake> {
        if self.workspace == Some(Scalar(true))
            && self.packages.as_ref().is_some_and(|list| !list.0.is_empty())
        {
            return Err(Mistake::new("`workspace: true` and `packages` exclude each other"));
        }
        Ok(())
    }
}

impl Entry for RefEntry {
    const EXPECTED: &'static str = "a ref such as main, or a mapping such as {ref: main, name: old}";

    fn from_text(text: &str) -> Option<Result<Self, Mistake>> {
        Some(if text.trim().is_empty() {
            Err(Mistake::new("expected a ref, found an empty text"))
        } else {
            Ok(Self { spec: Some(Scalar(text.to_owned())), ..Self::default() })
        })
    }

    fn check(&self) -> Result<(), Mistake> {
        if self.spec.is_some() {
            Ok(())
        } else {
            Err(Mistake::new("a ref needs `ref`").help("write {ref: main}"))
        }
    }
}

impl Listed for RefEntry {
    const EXPECTED_LIST: &'static str = "a list of refs such as [main, pr/7]";
    const MOST: usize = MOST_REFS;
}

impl Entry for TestEntry {
    const EXPECTED: &'static str = "a -k expression, or a mapping such as {filter: hf_fwd}";

    fn from_text(text: &str) -> Option<Result<Self, Mistake>> {
        let filter = FromText::from_text(text).map(Scalar);
        Some(filter.map(|filter| Self { filter: Some(filter), ..Self::default() }))
    }

    fn check(&self) -> Result<(), Mistake> {
        let of_programs = [
            ("args", self.args.is_some()),
            ("stdin", self.stdin.is_some()),
            ("stdin-text", self.stdin_text.is_some()),
            ("exit-code", self.exit_code.is_some()),
        ];
        let of_tests = [
            ("filter", self.filter.is_some()),
            ("regex", self.regex.is_some()),
            ("exact", self.exact.is_some()),
            ("skip", self.skip.is_some()),
            ("ignored", self.ignored.is_some()),
            ("kind", self.kind.is_some()),
        ];
        let given =
            |keys: &[(&'static str, bool)]| keys.iter().find(|(_, is_given)| *is_given).map(|(key, _)| *key);
        let program = given(&[("bin", self.bin.is_some()), ("example", self.example.is_some())]);
        if self.bin.is_some() && self.example.is_some() {
            return Err(Mistake::new("`bin` and `example` are two programs").help("write an entry for each"));
        }
        if self.stdin.is_some() && self.stdin_text.is_some() {
            return Err(Mistake::new("`stdin` and `stdin-text` are both the standard input"));
        }
        match (program, given(&of_programs), given(&of_tests)) {
            (None, Some(key), _) => Err(Mistake::new(format!("`{key}` needs a program"))
                .help("add `bin: NAME` or `example: NAME`; tests read variables of `env` and `params`")),
            (Some(program), _, Some(key)) => {
                Err(Mistake::new(format!("`{key}` selects tests, and `{program}` names a program"))
                    .help("write an entry for each"))
            }
            _ => Ok(()),
        }
    }
}

impl Listed for TestEntry {
    const EXPECTED_LIST: &'static str = "a list of tests such as [hf_fwd, parser and not slow]";
}

impl Entry for OverlayEntry {
    const EXPECTED: &'static str = "an overlay such as {from: main, paths: [tests/memory.rs]}";

    fn check(&self) -> Result<(), Mistake> {
        if self.patch.is_some() {
            return match self {
                Self { from: None, paths: None, package: None, mode: None, dependencies: None, .. } => Ok(()),
                _ => Err(Mistake::new("`patch` stands alone")
                    .help("write two entries: [{patch: FILE}, {paths: [FILE]}]")),
            };
        }
        if self.paths.as_ref().is_none_or(|paths| paths.0.is_empty()) {
            return Err(Mistake::new("an overlay needs `paths`").help("write paths: [tests/memory.rs]"));
        }
        let external = self.mode == Some(Scalar(OverlayMode::External));
        if external && self.package.is_none() {
            return Err(Mistake::new("`mode: external` needs the `package` that the tests use"));
        }
        if !external && self.dependencies.is_some() {
            return Err(Mistake::new("`dependencies` need `mode: external`")
                .help("without `mode: external`, tests use the package's own dev-dependencies"));
        }
        Ok(())
    }
}

impl Entry for TraceEntry {
    const EXPECTED: &'static str = "a mapping such as {functions: [bart::encoder::*::forward]}";

    fn check(&self) -> Result<(), Mistake> {
        let is_empty = |list: &Option<List<_>>| {
            list.as_ref().is_none_or(|list: &List<Scalar<Parsed<_>>>| list.0.is_empty())
        };
        if is_empty(&self.functions) && is_empty(&self.lines) {
            return Err(Mistake::new("`trace` needs `functions` or `lines`")
                .help("write functions: [bart::encoder::*::forward]"));
        }
        Ok(())
    }
}

impl Entry for PathEntry {
    const EXPECTED: &'static str = "a path such as tests/memory.rs or SRC=DST";

    fn from_text(text: &str) -> Option<Result<Self, Mistake>> {
        let (source, destination) = match text.split_once('=') {
            Some((source, destination)) => (source.trim(), Some(destination.trim())),
            None => (text.trim(), None),
        };
        if source.is_empty() || destination == Some("") {
            return Some(Err(Mistake::new(format!("'{text}' is not a path")).help("write SRC or SRC=DST")));
        }
        let text = |text: &str| Some(Scalar(text.to_owned()));
        Some(Ok(Self { source: text(source), destination: destination.and_then(text) }))
    }

    fn check(&self) -> Result<(), Mistake> {
        if self.source.is_some() { Ok(()) } else { Err(Mistake::new("a path needs `source`")) }
    }
}

impl Listed for PathEntry {
    const EXPECTED_LIST: &'static str = "a list of paths such as [tests/memory.rs]";
}

impl Entry for CellEntry {
    const EXPECTED: &'static str = "a cell such as {ref: main, test: hf_fwd, params: {batch: 64}}";

    fn from_text(text: &str) -> Option<Result<Self, Mistake>> {
        let entry = cell_pattern::parse(text).map_err(Mistake::new).map(|pattern| Self {
            r#ref: pattern.r#ref.map(Scalar),
            test: pattern.test.and_then(|test| FromText::from_text(&test).ok()).map(Scalar),
            params: Some(OpenMapping(
                pattern.params.into_iter().map(|(name, value)| (name, Scalar(Value(value)))).collect(),
            )),
        });
        Some(entry)
    }

    fn check(&self) -> Result<(), Mistake> {
        let says_params = self.params.as_ref().is_some_and(|params| !params.0.is_empty());
        if self.r#ref.is_none() && self.test.is_none() && !says_params {
            return Err(
                Mistake::new("this entry would match every cell").help("add `ref`, `test` or `params`")
            );
        }
        Ok(())
    }
}

impl Listed for CellEntry {
    const EXPECTED_LIST: &'static str = "a list of cells such as [{ref: main, params: {batch: 64}}]";
}

impl Entry for ThresholdEntry {
    const EXPECTED: &'static str = "a limit such as 5%, 16MiB or {percent: 5, bytes: 16MiB}";
    const NUMBERS: bool = true;

    fn from_text(text: &str) -> Option<Result<Self, Mistake>> {
        if text.trim() == "off" {
            return Some(Ok(Self { off: Some(Scalar(true)), ..Self::default() }));
        }
        Some(text.parse().map_err(Mistake::new).map(|limit| match limit {
            Limit::Percent(percent) => Self { percent: Some(Scalar(Percentage(percent))), ..Self::default() },
            limit => Self { bytes: Some(Scalar(Absolute(limit))), ..Self::default() },
        }))
    }

    fn check(&self) -> Result<(), Mistake> {
        let says_growth = self.percent.is_some() || self.bytes.is_some();
        let is_off = self.off == Some(Scalar(true));
        if says_growth && is_off {
            return Err(Mistake::new("`off: true` and a limit on growth exclude each other"));
        }
        if !says_growth && !is_off && self.limit.is_none() && self.leak.is_none() {
            return Err(Mistake::new("a threshold needs `percent`, `bytes`, `limit` or `leak`"));
        }
        if self.leak.is_some() && self.checkpoint.is_some() {
            return Err(Mistake::new("`leak` compares `done` with `start`, and cannot have a `checkpoint`")
                .help("put `leak` into an entry of its own"));
        }
        Ok(())
    }
}

impl ThresholdEntry {
    /// Returns the rule for the metrics of this name.
    ///
    /// # Errors
    /// The unit of a limit does not fit, or a leak is of a metric that is no level.
    pub fn on(&self, metric: &str) -> Result<Rule, String> {
        let absolute = |limit: Option<&Scalar<Absolute>>| -> Result<Option<u64>, String> {
            let limit = limit.map(|Scalar(Absolute(limit))| limit.on(Unit::of_metric(metric))).transpose()?;
            Ok(limit.and_then(|threshold| threshold.bytes))
        };
        if self.leak.is_some() {
            metric_name::check_leak(metric)?;
        }
        let percent = self.percent.as_ref().map(|Scalar(Percentage(percent))| *percent);
        let threshold = Threshold { percent, bytes: absolute(self.bytes.as_ref())? };
        let growth = if self.off == Some(Scalar(true)) {
            Some(Growth::Off)
        } else {
            (threshold != Threshold::default()).then_some(Growth::Within(threshold))
        };
        Ok(Rule {
            metric: metric.to_owned(),
            test: self.test.as_ref().map(|Scalar(expression)| expression.text.clone()),
            checkpoint: self.checkpoint.as_ref().map(|Scalar(label)| label.clone()),
            growth,
            limit: absolute(self.limit.as_ref())?,
            leak: absolute(self.leak.as_ref())?,
            must_check: false,
        })
    }
}

impl Keep<Vec<String>> for List<Scalar<MetricName>> {
    fn keep(&self) -> Vec<String> {
        self.0.iter().map(|Scalar(MetricName(name))| name.clone()).collect()
    }
}

impl Keep<IndexMap<String, Vec<String>>> for OpenMapping<ParameterValues> {
    fn keep(&self) -> IndexMap<String, Vec<String>> {
        self.0.iter().map(|(name, ParameterValues(values))| (name.clone(), values.clone())).collect()
    }
}

impl Keep<Option<Vec<String>>> for DeviceNames {
    fn keep(&self) -> Option<Vec<String>> {
        Some(self.0.clone())
    }
}

impl Entry for AllowEntry {
    const EXPECTED: &'static str =
        "an expected change such as {metric: heap.peak, test: hf_fwd, reason: 'a larger cache, #42'}";

    fn check(&self) -> Result<(), Mistake> {
        if self.reason.is_none() {
            return Err(Mistake::new("an expected change needs its `reason`")
                .help("write reason: 'a larger cache, #42'"));
        }
        if self.metric.is_none() && self.test.is_none() && self.checkpoint.is_none() {
            return Err(Mistake::new("this entry would allow every change")
                .help("add `metric`, `test` or `checkpoint`"));
        }
        if let (Some(Scalar(Amount(limit))), Some(Scalar(MetricPattern(metric)))) =
            (&self.limit, &self.metric)
        {
            limit.on(Unit::of_metric(metric)).map_err(Mistake::new)?;
        }
        Ok(())
    }
}

impl Listed for AllowEntry {
    const EXPECTED_LIST: &'static str = "a list of expected changes";
}

impl AllowEntry {
    /// Returns the entry as data.
    pub fn allowance(&self) -> Allowance {
        Allowance {
            metric: self.metric.as_ref().map(|Scalar(MetricPattern(metric))| metric.clone()),
            test: self.test.as_ref().map(|Scalar(expression)| expression.text.clone()),
            checkpoint: self.checkpoint.as_ref().map(|Scalar(label)| label.clone()),
            reason: self.reason.as_ref().map(|Scalar(reason)| reason.clone()).unwrap_or_default(),
            limit: self.limit.as_ref().map(|Scalar(Amount(limit))| *limit),
            until: self.until.as_ref().map(|Scalar(Day(day))| day.clone()),
        }
    }
}

impl FromText for MetricPattern {
    const EXPECTED: &'static str = "a metric such as heap.peak or gpu.*.peak";

    fn from_text(text: &str) -> Result<Self, Mistake> {
        metric_name::check_pattern(text).map_err(|error| Mistake::new(error.to_string()).help(error.help))?;
        Ok(Self(text.to_owned()))
    }
}

impl Entry for LockfileEntry {
    const EXPECTED: &'static str = "{from: REF} or {date: 2023-05-01}";

    fn check(&self) -> Result<(), Mistake> {
        match (&self.from, &self.date) {
            (Some(_), Some(_)) => Err(Mistake::new("`from` and `date` exclude each other")),
            (None, None) => Err(Mistake::new(format!("expected {}", Self::EXPECTED))),
            _ => Ok(()),
        }
    }
}

impl OpenMappingValue for Scalar<Value> {
    const EXPECTED: &'static str = "names and values such as {RUST_LOG: debug}";

    fn check_key(name: &str) -> Result<(), Mistake> {
        check_variable(name).map_err(Mistake::new)
    }
}

impl OpenMappingValue for Scalar<Refspec> {
    const EXPECTED: &'static str = "patterns such as {cl/{}: refs/changes/{}/head} (in quotes)";

    fn check_key(pattern: &str) -> Result<(), Mistake> {
        if pattern.matches("{}").count() == 1 {
            Ok(())
        } else {
            Err(Mistake::new(format!("'{pattern}' needs exactly one {{}}, for the number"))
                .help("write \"cl/{}\": \"refs/changes/{}/head\""))
        }
    }
}

impl OpenMappingValue for Scalar<Dependency> {
    const EXPECTED: &'static str = "dependencies such as {rand: \"0.9\"}";
}

impl OpenMappingValue for Rules {
    const EXPECTED: &'static str = "limits by metric such as {heap.peak: 5%}";

    fn check_key(name: &str) -> Result<(), Mistake> {
        metric_name::check_pattern(name).map_err(|error| Mistake::new(error.to_string()).help(error.help))
    }

    fn read<'de, D: serde::Deserializer<'de>>(metric: &str, deserializer: D) -> Result<Self, D::Error> {
        let demand = |entry: &ThresholdEntry| entry.on(metric).map(|_| ()).map_err(Mistake::new);
        mapping::entries(deserializer, &demand).map(Self)
    }
}

impl<'de> serde::Deserialize<'de> for Rules {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        mapping::entries(deserializer, &|_| Ok(())).map(Self)
    }
}

inline_schema!(Rules, |generator| OneOrMany::<ThresholdEntry>::json_schema(generator));

impl OpenMappingValue for ParameterValues {
    const EXPECTED: &'static str = "parameters such as {batch: [8, 64]}";

    fn check_key(name: &str) -> Result<(), Mistake> {
        check_parameter(name).map_err(Mistake::new)
    }
}

struct ParameterValue(Scalar<Value>);

impl<'de> serde::Deserialize<'de> for ParameterValue {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Scalar::deserialize(deserializer).map(Self)
    }
}

impl Listed for ParameterValue {
    const EXPECTED_LIST: &'static str = "a list of values such as [8, 64]";
    const MOST: usize = limits::MOST_ENTRIES;
}

impl<'de> serde::Deserialize<'de> for ParameterValues {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let List(values) = List::<ParameterValue>::deserialize(deserializer)?;
        Ok(Self(values.into_iter().map(|ParameterValue(Scalar(Value(value)))| value).collect()))
    }
}

inline_schema!(ParameterValues, |generator| List::<Scalar<Value>>::json_schema(generator));

/// One device's name.
struct DeviceName(String);

impl FromText for DeviceName {
    const EXPECTED: &'static str = "a device such as 0 or GPU-8932f937";

    fn from_text(text: &str) -> Result<Self, Mistake> {
        visible_devices::check_name(text).map_err(Mistake::new)?;
        Ok(Self(text.to_owned()))
    }
}

impl<'de> serde::Deserialize<'de> for DeviceNames {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        one_or_list(deserializer, |DeviceName(name)| name, visible_devices::check_names).map(Self)
    }
}

inline_schema!(DeviceNames, |_generator| {
    let one = json_schema!({"type": ["string", "integer"], "examples": [0, "GPU-8932f937", "none"]});
    json_schema!({"anyOf": [one, {"type": "array", "items": one, "minItems": 1}]})
});

impl FromText for MetricName {
    const EXPECTED: &'static str = "a metric such as heap.peak";

    fn from_text(text: &str) -> Result<Self, Mistake> {
        metric_name::check_shown(text).map_err(|error| Mistake::new(error.to_string()).help(error.help))?;
        Ok(Self(text.to_owned()))
    }
}
