//! The names of cells in the report, with a template such as `bert/{batch}` or without one.

use std::str::FromStr;

use crate::resolved::TestId;
use memprof_support::suggest;

/// A parsed template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template(Vec<Piece>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    Place(String),
}

/// The placeholders that every template has, in addition to parameters.
const BUILT_IN: [&str; 3] = ["test", "package", "binary"];

impl FromStr for Template {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.trim().is_empty() {
            return Err("the name is empty".to_owned());
        }
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some(open) = rest.find(['{', '}']) {
            if rest[open..].starts_with('}') {
                return Err(format!("'{text}' has a }} without a {{"));
            }
            if open > 0 {
                pieces.push(Piece::Text(rest[..open].to_owned()));
            }
            let Some(length) = rest[open + 1..].find('}') else {
                return Err(format!("'{text}' has a {{ without a }}"));
            };
            let place = rest[open + 1..open + 1 + length].trim();
            if place.is_empty() || place.contains('{') {
                return Err(format!("'{text}' has a placeholder that is not a name: write {{batch}}"));
            }
            pieces.push(Piece::Place(place.to_owned()));
            rest = &rest[open + length + 2..];
        }
        if !rest.is_empty() {
            pieces.push(Piece::Text(rest.to_owned()));
        }
        Ok(Self(pieces))
    }
}

impl Template {
    /// Returns the template with its placeholders filled in.
    ///
    /// # Errors
    /// A placeholder is no parameter. The second text is the help.
    pub fn render(&self, test: &TestId, params: &[(String, String)]) -> Result<String, (String, String)> {
        let mut title = String::new();
        for piece in &self.0 {
            match piece {
                Piece::Text(literal) => title.push_str(literal),
                Piece::Place(place) => title.push_str(&value(place, test, params)?),
            }
        }
        Ok(title)
    }

    /// Whether the template has this placeholder.
    pub fn has(&self, place: &str) -> bool {
        self.0.iter().any(|piece| matches!(piece, Piece::Place(name) if name == place))
    }
}

fn value(place: &str, test: &TestId, params: &[(String, String)]) -> Result<String, (String, String)> {
    if let Some((_, value)) = params.iter().find(|(name, _)| name == place) {
        return Ok(value.clone());
    }
    match place {
        "test" => Ok(own_name(test).to_owned()),
        "package" => Ok(test.package.clone()),
        "binary" => Ok(test.binary.clone()),
        _ => {
            let known: Vec<&str> = params.iter().map(|(name, _)| name.as_str()).chain(BUILT_IN).collect();
            Err((
                format!("no parameter '{place}' for the {{{place}}} in the name"),
                suggest::did_you_mean_or_list(place, "placeholders", &known),
            ))
        }
    }
}

/// Returns the test's path, or the target's name if the target runs as a whole.
pub(crate) fn own_name(test: &TestId) -> &str {
    if test.name.is_empty() { &test.binary } else { &test.name }
}

/// Returns the name of a cell without a template: the test's own, followed by the parameters.
pub fn plain(test: &TestId, params: &[(String, String)]) -> String {
    if params.is_empty() {
        return own_name(test).to_owned();
    }
    let values: Vec<String> = params.iter().map(|(name, value)| format!("{name}={value}")).collect();
    format!("{}[{}]", own_name(test), values.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::TargetKind;

    fn test_id() -> TestId {
        TestId {
            package: "bart".into(),
            binary: "tests".into(),
            kind: TargetKind::Test,
            name: "hf_fwd".into(),
        }
    }

    fn batch() -> Vec<(String, String)> {
        vec![("batch".into(), "8".into())]
    }

    #[test]
    fn places_take_parameters_and_the_parts_of_the_test() {
        let template: Template = "{package}/{binary} {test}: {batch}".parse().unwrap();
        assert_eq!(template.render(&test_id(), &batch()).unwrap(), "bart/tests hf_fwd: 8");
        assert!(template.has("batch") && !template.has("dtype"));
    }

    #[test]
    fn an_unknown_place_names_the_nearest() {
        let template: Template = "bert/{bacth}".parse().unwrap();
        let (message, help) = template.render(&test_id(), &batch()).unwrap_err();
        assert_eq!(message, "no parameter 'bacth' for the {bacth} in the name");
        assert_eq!(help, "did you mean 'batch'?");
    }

    #[test]
    fn braces_must_be_in_pairs() {
        for wrong in ["bert/{batch", "bert/batch}", "bert/{}", "{a{b}}", "  "] {
            assert!(wrong.parse::<Template>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn without_a_template_the_parameters_follow_the_name() {
        assert_eq!(plain(&test_id(), &[]), "hf_fwd");
        assert_eq!(plain(&test_id(), &batch()), "hf_fwd[batch=8]");
        assert_eq!(plain(&TestId { name: String::new(), ..test_id() }, &[]), "tests");
    }
}
