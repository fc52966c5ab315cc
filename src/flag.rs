//! Values of flags that have a form of their own: `NAME=V1,V2`, `K=V`, `METRIC=5%`, `NAME=REF`.

use crate::matrix_values::{check_parameter, check_variable};
use crate::metric::Unit;
use crate::metric_name;
use crate::quantity::Limit;
use crate::request::{RefRequest, Threshold};

/// `--param NAME=V1,V2`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// The parameter.
    pub name: String,
    /// Its values, in the order written; never empty.
    pub values: Vec<String>,
}

/// `--env K=V`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    /// The variable.
    pub name: String,
    /// Its value, which may be empty.
    pub value: String,
}

/// `--threshold METRIC=LIMIT`.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricThreshold {
    /// The metric.
    pub metric: String,
    /// Its limit.
    pub threshold: Threshold,
}

/// Reads `--param`.
pub fn parameter(text: &str) -> Result<Parameter, String> {
    let (name, values) = pair(text, "batch=8,64")?;
    check_parameter(name)?;
    Ok(Parameter { name: name.to_owned(), values: values.split(',').map(str::to_owned).collect() })
}

/// Reads `--env`.
pub fn variable(text: &str) -> Result<Variable, String> {
    let (name, value) = pair(text, "RUST_LOG=debug")?;
    check_variable(name)?;
    Ok(Variable { name: name.to_owned(), value: value.to_owned() })
}

/// Reads `--threshold`.
pub fn threshold(text: &str) -> Result<MetricThreshold, String> {
    let (metric, limit) = pair(text, "heap.peak=5%")?;
    check_metric(metric)?;
    let threshold = limit.parse::<Limit>()?.on(Unit::of(metric))?;
    Ok(MetricThreshold { metric: metric.to_owned(), threshold })
}

/// Reads one of `--metrics`.
pub fn metric(text: &str) -> Result<String, String> {
    check_metric(text)?;
    Ok(text.to_owned())
}

fn check_metric(name: &str) -> Result<(), String> {
    metric_name::check(name).map_err(|error| format!("{error}; {}", error.help))
}

/// Reads one of `--refs`: `REF`, or `NAME=REF` where the part before the sign is a plain name. (Git allows `=` in names
/// of refs, and `HEAD^{/fix=bug}` holds one: a brace or a blank before it says that it belongs to the ref.)
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
        return Err("a ref is missing".to_owned());
    }
    Ok(RefRequest { spec: spec.to_owned(), name, ..RefRequest::default() })
}

fn pair<'a>(text: &'a str, example: &str) -> Result<(&'a str, &'a str), String> {
    text.split_once('=').ok_or_else(|| format!("there is no = in it; write {example}"))
}

/// The name of a device.
pub fn device(text: &str) -> Result<String, String> {
    crate::visible_devices::check_name(text).map(|()| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_and_variables_keep_their_text() {
        assert_eq!(
            parameter("batch=8,1e3,").unwrap(),
            Parameter { name: "batch".into(), values: vec!["8".into(), "1e3".into(), String::new()] }
        );
        assert_eq!(variable("A=b=c").unwrap().value, "b=c");
        assert_eq!(variable("A=").unwrap().value, "");
        assert!(variable("A").unwrap_err().contains("RUST_LOG=debug"));
        assert!(variable("1A=x").is_err());
        assert!(parameter("test=x").is_err());
    }

    #[test]
    fn a_threshold_must_fit_a_known_metric() {
        assert_eq!(threshold("heap.peak=5%").unwrap().threshold.percent, Some(5.0));
        assert_eq!(threshold("heap.peak=16MiB").unwrap().threshold.bytes, Some(16 << 20));
        assert!(threshold("heap.peek=5%").unwrap_err().contains("did you mean 'heap.peak'?"));
        assert!(threshold("heap.count=1MiB").is_err());
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
