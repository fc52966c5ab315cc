//! Patterns of cells for `--exclude` and `--include`: `ref=main,test=hf and not bwd,batch=64`.

use std::collections::BTreeMap;

use crate::expression::Expression;
use crate::parameter::check_parameter;
use crate::request::CellPattern;

/// Reads the short form: `ref=NAME`, `test=EXPRESSION` or `PARAM=VALUE`, with commas between them. A bare
/// word may be a package: cargo's `--exclude` takes those.
pub fn parse(text: &str) -> Result<CellPattern, String> {
    let mut pattern = CellPattern::default();
    for piece in text.split(',') {
        let (key, value) = piece.split_once('=').unwrap_or((piece, ""));
        let (key, value) = (key.trim(), value.trim());
        if value.is_empty() && !key.is_empty() && !piece.contains('=') {
            return Err(format!(
                "write test={key} for tests; to leave a package out of the build, name the others with -p"
            ));
        }
        if value.is_empty() {
            return Err(format!("'{piece}' has no value: write ref=NAME, test=EXPRESSION or PARAM=VALUE"));
        }
        let taken = match key {
            "ref" => pattern.r#ref.replace(value.to_owned()).is_some(),
            "test" => {
                value.parse::<Expression>().map_err(|error| error.to_string())?;
                pattern.test.replace(value.to_owned()).is_some()
            }
            parameter => {
                check_parameter(parameter)?;
                pattern.params.insert(parameter.to_owned(), value.to_owned()).is_some()
            }
        };
        if taken {
            return Err(format!("'{key}' appears twice"));
        }
    }
    Ok(pattern)
}

/// A pattern with its parsed expression.
pub(crate) struct Matcher<'a> {
    pattern: &'a CellPattern,
    expression: Option<Expression>,
}

impl<'a> Matcher<'a> {
    /// Parses the pattern's expression.
    pub fn new(pattern: &'a CellPattern) -> Result<Self, String> {
        let expression = pattern.test.as_deref().map(str::parse).transpose();
        Ok(Self {
            pattern,
            expression: expression.map_err(|error: crate::expression::ExpressionError| error.to_string())?,
        })
    }

    /// Whether the pattern matches the cell of this test with these parameters. `ref_names` are the
    /// names of the cell's ref.
    pub fn matches(&self, ref_names: [&str; 2], test: &str, params: &[(String, String)]) -> bool {
        self.pattern.r#ref.as_deref().is_none_or(|wanted| ref_names.contains(&wanted))
            && self.expression.as_ref().is_none_or(|expression| expression.matches(test))
            && has_values(&self.pattern.params, params)
    }
}

/// Whether the cell has all these values. A cell that lacks one of the parameters does not.
fn has_values(wanted: &BTreeMap<String, String>, params: &[(String, String)]) -> bool {
    wanted.iter().all(|(name, value)| params.iter().any(|(have, is)| have == name && is == value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_says_ref_test_and_parameters() {
        let pattern = parse("ref=main, test=hf and not bwd, batch=64").unwrap();
        assert_eq!(pattern.r#ref.as_deref(), Some("main"));
        assert_eq!(pattern.test.as_deref(), Some("hf and not bwd"));
        assert_eq!(pattern.params["batch"], "64");
    }

    #[test]
    fn what_is_not_said_matches_anything() {
        let params = [("batch".to_owned(), "64".to_owned())];
        let matches = |text: &str, name| {
            Matcher::new(&parse(text).unwrap()).unwrap().matches(
                [name, "origin/main"],
                "bart::tests::hf_fwd",
                &params,
            )
        };
        assert!(matches("test=hf_fwd", "main"));
        assert!(matches("ref=main,batch=64", "main"));
        assert!(matches("ref=origin/main", "main"));
        assert!(!matches("ref=main", "pr/7"));
        assert!(!matches("batch=8", "main"));
        assert!(!matches("dtype=f32", "main"));
    }

    #[test]
    fn a_pattern_that_says_nothing_is_refused() {
        for wrong in ["", "ref=", "batch=1,,", "test=hf and", "ref=a,ref=b", "1x=2", "binary=x"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_bare_word_is_refused_because_it_may_be_a_package() {
        for wrong in ["kernels", "ref=main, kernels"] {
            let message = parse(wrong).unwrap_err();
            assert!(message.contains("test=kernels") && message.contains("-p"), "{message}");
        }
    }
}
