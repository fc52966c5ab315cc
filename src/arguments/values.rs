//! Values of flags with a syntax of their own: `NAME=V1,V2`, `NAME=VALUE`, `METRIC=5%`, `NAME=REF`.

use std::str::FromStr;

use crate::arguments::sides::split;
use memprof_plan::config::values::Dependency;
use memprof_plan::config::yaml::FromText;
use memprof_plan::expression::Expression;
use memprof_plan::metric::Unit;
use memprof_plan::metric_name;
use memprof_plan::parameter::{check_parameter, check_variable};
use memprof_plan::quantity::Threshold;
use memprof_plan::quantity::{self, Limit};
use memprof_plan::request::RefRequest;
use memprof_plan::rule::{Allowance, Growth, Rule};
use memprof_plan::shard::Shard;
use memprof_support::suggest;

/// `--param NAME=V1,V2`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// The parameter.
    pub name: String,
    /// The values, in the order written; at least one.
    pub values: Vec<String>,
}

/// `--env NAME=VALUE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    /// The side that gets it; `None` means all.
    pub side: Option<String>,
    /// The variable.
    pub name: String,
    /// The value, which may be empty.
    pub value: String,
}

/// `--overlay-dependency 'NAME = VALUE'`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OverlayDependency {
    /// The dependency.
    pub name: String,
    /// The TOML value: a version in quotes, or an inline table.
    pub toml: String,
}

impl FromStr for OverlayDependency {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (name, value) = pair(text, "rand=0.9")?;
        let Dependency(toml) = Dependency::from_text(value).map_err(|mistake| mistake.message)?;
        let name = name.trim().trim_matches(['"', '\'']);
        let is_name = |letter: char| letter.is_alphanumeric() || letter == '-' || letter == '_';
        if name.is_empty() || !name.chars().all(is_name) {
            return Err(format!("'{name}' is not the name of a crate"));
        }
        Ok(Self { name: name.to_owned(), toml })
    }
}

/// Reads `--param NAME=V1,V2`.
pub fn parameter(text: &str) -> Result<Parameter, String> {
    let (name, values) = pair(text, "batch=8,64")?;
    check_parameter(name)?;
    Ok(Parameter { name: name.to_owned(), values: values.split(',').map(str::to_owned).collect() })
}

/// Reads `--env NAME=VALUE` or `--env SIDE:NAME=VALUE`.
pub fn variable(text: &str) -> Result<Variable, String> {
    let (side, text) = split(text, &['=']);
    let (name, value) = pair(text, "RUST_LOG=debug")?;
    check_variable(name)?;
    let side = side.map(str::to_owned);
    Ok(Variable { side, name: name.to_owned(), value: value.to_owned() })
}

/// Reads `--threshold`: `METRIC=LIMIT`, then more limits, `test=EXPRESSION` and `checkpoint=LABEL`,
/// separated by commas.
pub fn threshold(text: &str) -> Result<Rule, String> {
    rule(text, "heap.peak=5%", |rule, limit| {
        let is_off = limit == "off";
        if is_off && rule.growth.is_none() {
            rule.growth = Some(Growth::Off);
            return Ok(());
        }
        let growth = rule.growth.get_or_insert_with(|| Growth::Within(Threshold::default()));
        let (Growth::Within(both), false) = (growth, is_off) else {
            return Err("`off` cannot be combined with a limit".to_owned());
        };
        let one = limit.parse::<Limit>()?.on(Unit::of_metric(&rule.metric))?;
        set(&mut both.percent, one.percent, limit)?;
        set(&mut both.bytes, one.bytes, limit)
    })
}

/// Reads `--limit METRIC=SIZE`.
pub fn limit(text: &str) -> Result<Rule, String> {
    rule(text, "heap.peak=8GiB", |rule, limit| {
        let size = absolute(limit, &rule.metric)?;
        set(&mut rule.limit, Some(size), limit)
    })
}

/// Reads `--leak METRIC=SIZE`.
pub fn leak(text: &str) -> Result<Rule, String> {
    let rule = rule(text, "heap.live=64KiB", |rule, limit| {
        metric_name::check_leak(&rule.metric)?;
        let size = absolute(limit, &rule.metric)?;
        set(&mut rule.leak, Some(size), limit)
    })?;
    if rule.checkpoint.is_some() {
        return Err("a leak compares `done` with `start`, so it takes no checkpoint".to_owned());
    }
    Ok(rule)
}

fn absolute(limit: &str, metric: &str) -> Result<u64, String> {
    let threshold = limit.parse::<Limit>()?.on(Unit::of_metric(metric))?;
    threshold.bytes.ok_or_else(|| {
        format!(
            "'{limit}' is a percentage, and this flag takes an absolute value; --threshold {metric}={limit} limits growth"
        )
    })
}

fn rule(
    text: &str,
    example: &str,
    take: impl Fn(&mut Rule, &str) -> Result<(), String>,
) -> Result<Rule, String> {
    let (metric, rest) = pair(text, example)?;
    metric_name::check_pattern(metric).map_err(|error| format!("{error}; {}", error.help))?;
    let mut rule = Rule { metric: metric.to_owned(), ..Rule::default() };
    for piece in rest.split(',') {
        match piece.split_once('=').map(|(key, value)| (key.trim(), value.trim())) {
            None => take(&mut rule, piece.trim())?,
            Some(("test", expression)) => set(&mut rule.test, Some(expression_text(expression)?), piece)?,
            Some(("checkpoint", label)) => set(&mut rule.checkpoint, Some(label.to_owned()), piece)?,
            Some((key, _)) => {
                return Err(format!(
                    "unknown key '{key}'; {}",
                    suggest::did_you_mean_or_list(key, "keys", &["test", "checkpoint"])
                ));
            }
        }
    }
    rule.must_check = rule.growth != Some(Growth::Off) && !metric.contains('*');
    Ok(rule)
}

/// Sets a part of a value to what `text` says. Of two, one would be lost.
fn set<T>(part: &mut Option<T>, value: Option<T>, text: &str) -> Result<(), String> {
    if part.is_some() && value.is_some() {
        return Err(format!("'{}' is the second of its kind: leave one out", text.trim()));
    }
    *part = value.or(part.take());
    Ok(())
}

fn expression_text(text: &str) -> Result<String, String> {
    text.parse::<Expression>().map_err(|error| error.to_string())?;
    Ok(text.to_owned())
}

/// Reads `--allow`: `metric=…,test=…,checkpoint=…,limit=…,until=…,reason=…`. The reason comes last
/// and is any text.
pub fn allow(text: &str) -> Result<Allowance, String> {
    const KEYS: [&str; 6] = ["metric", "test", "checkpoint", "limit", "until", "reason"];
    let (head, reason) = match text.strip_prefix("reason=") {
        Some(reason) => ("", reason),
        None => text
            .split_once(",reason=")
            .ok_or("an expected change needs a reason: add ,reason=TEXT at the end")?,
    };
    let mut allowance = Allowance { reason: reason.trim().to_owned(), ..Allowance::default() };
    if allowance.reason.is_empty() {
        return Err("the reason is empty".to_owned());
    }
    for piece in head.split(',').filter(|piece| !piece.trim().is_empty()) {
        let (key, value) = pair(piece, "metric=heap.peak")?;
        let value = value.trim();
        match key.trim() {
            "metric" => {
                metric_name::check_pattern(value).map_err(|error| format!("{error}; {}", error.help))?;
                set(&mut allowance.metric, Some(value.to_owned()), piece)?;
            }
            "test" => set(&mut allowance.test, Some(expression_text(value)?), piece)?,
            "checkpoint" => set(&mut allowance.checkpoint, Some(value.to_owned()), piece)?,
            "limit" => set(&mut allowance.limit, Some(value.parse()?), piece)?,
            "until" => set(&mut allowance.until, Some(quantity::day(value)?), piece)?,
            other => {
                return Err(format!(
                    "unknown key '{other}'; {}",
                    suggest::did_you_mean_or_list(other, "keys", &KEYS)
                ));
            }
        }
    }
    if allowance.metric.is_none() && allowance.test.is_none() && allowance.checkpoint.is_none() {
        return Err("this would allow every change: add metric=…, test=… or checkpoint=…".to_owned());
    }
    if let (Some(limit), Some(metric)) = (allowance.limit, &allowance.metric) {
        limit.on(Unit::of_metric(metric))?;
    }
    Ok(allowance)
}

/// Reads the name of one metric.
pub fn metric(text: &str) -> Result<String, String> {
    metric_name::check(text).map_err(|error| format!("{error}; {}", error.help))?;
    Ok(text.to_owned())
}

/// Reads one metric of `--metrics`, or a pattern such as `malloc.*`.
pub fn shown_metric(text: &str) -> Result<String, String> {
    metric_name::check_shown(text).map_err(|error| format!("{error}; {}", error.help))?;
    Ok(text.to_owned())
}

/// Reads one ref of `--refs`: `REF`, or `NAME=REF` if the part before `=` is a plain name.
///
/// Git allows `=` in refs, as in `HEAD^{/fix=bug}`: other characters before the `=` show that it
/// belongs to the ref.
pub fn reference(text: &str) -> Result<RefRequest, String> {
    let plain = |name: &str| {
        !name.is_empty()
            && name.chars().all(|character| character.is_alphanumeric() || "._-+/ ".contains(character))
    };
    let (name, spec) = match text.split_once('=') {
        Some((name, spec)) if plain(name) => (Some(name.trim().to_owned()), spec),
        _ => (None, text),
    };
    let spec = spec.trim();
    if spec.is_empty() {
        return Err("a ref is empty; write --refs main,pr/7 or --refs NAME=REF".to_owned());
    }
    Ok(RefRequest { spec: spec.to_owned(), name, ..RefRequest::default() })
}

/// Reads a ref that is an argument of its own: `main`, `main..feature`, `NAME=REF`.
pub fn plain_reference(text: &str) -> Result<RefRequest, String> {
    if text.starts_with('-') {
        return Err("this is not a ref; only `bisect` and `history` take arguments after `--`, which are \
                    paths"
            .to_owned());
    }
    reference(text)
}

fn pair<'a>(text: &'a str, example: &str) -> Result<(&'a str, &'a str), String> {
    text.split_once('=').ok_or_else(|| format!("expected an `=`, as in {example}"))
}

/// Reads `--shard 2/8`.
pub fn shard(text: &str) -> Result<Shard, String> {
    text.parse()
}

/// Reads one device of `--device`.
pub fn device(text: &str) -> Result<String, String> {
    memprof_gpu::visible_devices::check_name(text).map(|()| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_overlay_dependency_is_a_version_or_a_table() {
        let read = |text: &str| text.parse::<OverlayDependency>().map(|one| (one.name, one.toml));
        let taken = |name: &str, toml: &str| Ok((name.to_owned(), toml.to_owned()));
        assert_eq!(read("rand = \"0.9\""), taken("rand", "\"0.9\""));
        assert_eq!(read("rand=0.9"), taken("rand", "\"0.9\""));
        assert_eq!(read("x = { path = 'a/x' }"), taken("x", "{ path = 'a/x' }"));
        for wrong in ["rand", "= '1'", "a b = '1'", "x = { path = "] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn parameters_and_variables_keep_their_text() {
        assert_eq!(
            parameter("batch=8,1e3,").unwrap(),
            Parameter { name: "batch".into(), values: vec!["8".into(), "1e3".into(), String::new()] }
        );
        assert_eq!(variable("A=b=c").unwrap().value, "b=c");
        assert_eq!(variable("A=").unwrap().value, "");
        let sided = variable("pr/7:A=b:c").unwrap();
        assert_eq!(
            (sided.side.as_deref(), sided.name.as_str(), sided.value.as_str()),
            (Some("pr/7"), "A", "b:c")
        );
        assert!(variable("A").unwrap_err().contains("RUST_LOG=debug"));
        assert!(variable("1A=x").is_err());
        assert!(parameter("test=x").is_err());
    }

    fn growth(text: &str) -> Option<Threshold> {
        match threshold(text).unwrap().growth {
            Some(Growth::Within(threshold)) => Some(threshold),
            _ => None,
        }
    }

    #[test]
    fn a_threshold_must_fit_a_known_metric() {
        assert_eq!(growth("heap.peak=5%").unwrap().percent, Some(5.0));
        let both = growth("heap.peak=5%,16MiB").unwrap();
        assert_eq!((both.percent, both.bytes), (Some(5.0), Some(16 << 20)));
        assert_eq!(threshold("time=off").unwrap().growth, Some(Growth::Off));
        assert!(threshold("heap.peek=5%").unwrap_err().contains("did you mean 'heap.peak'?"));
        assert!(threshold("heap.count=1MiB").is_err());
        for both in ["heap.peak=off,5%", "heap.peak=5%,off", "heap.peak=off,off"] {
            assert!(threshold(both).unwrap_err().contains("cannot be combined"), "{both}");
        }
    }

    #[test]
    fn a_threshold_may_be_for_some_tests_and_checkpoints() {
        let rule = threshold("gpu.*.peak=5%,test=hf and not bwd,checkpoint=done*").unwrap();
        assert_eq!(rule.test.as_deref(), Some("hf and not bwd"));
        assert_eq!(rule.checkpoint.as_deref(), Some("done*"));
        assert!(threshold("heap.peak=5%,tests=hf").unwrap_err().contains("did you mean 'test'?"));
        assert!(threshold("heap.peak=5%,test=hf and").is_err());
    }

    #[test]
    fn upper_limits_and_leaks_are_absolute() {
        assert_eq!(limit("heap.peak=8GiB").unwrap().limit, Some(8 << 30));
        assert_eq!(leak("heap.live=0").unwrap().leak, Some(0));
        assert!(limit("heap.peak=5%").unwrap_err().contains("is a percentage"));
        let refused = leak("heap.peak=64KiB").unwrap_err();
        assert!(refused.contains("write a level such as heap.live"), "{refused}");
        for not_a_level in
            ["heap.count=0", "gpu.0.peak=0", "gpu.*.peak=0", "cpu.faults=0", "heap.p*=0", "time=0"]
        {
            assert!(leak(not_a_level).is_err(), "{not_a_level}");
        }
        assert!(["heap.*=64KiB", "gpu.*.live=0", "cpu.rss=1MiB"].iter().all(|rule| leak(rule).is_ok()));
        assert!(leak("heap.live=0,checkpoint=done").unwrap_err().contains("no checkpoint"));
    }

    #[test]
    fn no_part_of_a_rule_is_given_twice() {
        let twice = |read: Result<(), String>| read.unwrap_err().contains("is the second of its kind");
        let rules = ["heap.peak=10%,5%", "heap.peak=1MiB,5%,2MiB", "heap.peak=5%,test=a,test=b"];
        assert!(rules.iter().all(|rule| twice(threshold(rule).map(drop))));
        assert!(twice(limit("heap.peak=1MiB,checkpoint=a,checkpoint=b").map(drop)));
        assert!(twice(limit("heap.peak=1MiB,2MiB").map(drop)) && twice(leak("heap.live=0,1KiB").map(drop)));
        assert!(twice(allow("metric=heap.peak,metric=time,reason=why").map(drop)));
        assert!(!twice(threshold("heap.peak=bad").map(drop)));
    }

    #[test]
    fn an_expected_change_has_a_reason() {
        let allowance =
            allow("metric=heap.peak,test=hf,limit=20%,until=2026-12-31,reason=a cache, see #42").unwrap();
        assert_eq!(
            (allowance.reason.as_str(), allowance.limit),
            ("a cache, see #42", Some(Limit::Percent(20.0)))
        );
        assert_eq!(allowance.until.as_deref(), Some("2026-12-31"));
        assert!(allow("metric=heap.peak").unwrap_err().contains("needs a reason"));
        assert!(allow("reason=why").unwrap_err().contains("allow every change"));
        assert!(allow("tset=hf,reason=why").unwrap_err().contains("did you mean 'test'?"));
    }

    #[test]
    fn a_ref_may_have_a_name_of_its_own() {
        let named = reference("before=HEAD~3").unwrap();
        assert_eq!((named.name.as_deref(), named.spec.as_str()), (Some("before"), "HEAD~3"));
        let searched = reference("HEAD^{/fix=bug}").unwrap();
        assert_eq!((searched.name, searched.spec.as_str()), (None, "HEAD^{/fix=bug}"));
        assert!(reference("").is_err());
        assert!(reference("name=").is_err());
    }
}
