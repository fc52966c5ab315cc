//! Which tests a selection matches, how messages describe it, and which names are similar if it
//! matches none.

use indexmap::IndexMap;
use regex::Regex;

use crate::expression::Expression;
use crate::request::{Selection, TargetKind};
use crate::resolved::TestId;
use crate::title::own_name;
use memprof_support::suggest;
use memprof_support::user_error::UserError;

/// A selection with its parsed patterns. It does not look at `#[ignore]`, which may differ between
/// revisions.
pub struct Selector<'a> {
    selection: &'a Selection,
    expression: Option<Expression>,
    regex: Option<Regex>,
    within: Option<Box<Selector<'a>>>,
}

/// A target whose tests are not known, because it was not built.
pub struct UnlistedTarget<'a> {
    /// The package's name and the target's name; `None` means any.
    pub name: Option<(&'a str, &'a str)>,
    /// The kind; `None` means any.
    pub kind: Option<TargetKind>,
    /// Whether this text may be a part of a module's or a function's name in it.
    pub may_name: &'a dyn Fn(&str) -> bool,
}

impl UnlistedTarget<'_> {
    /// Whether the names of its tests contain this text. `None` means that some may.
    fn holds(&self, name: &str, params: &IndexMap<String, Vec<String>>) -> Option<bool> {
        let name = name.to_lowercase();
        let known = self.name.map(|(package, binary)| format!("{package}::{binary}").to_lowercase());
        let known = known.unwrap_or_default();
        if known.contains(&name) {
            return Some(true);
        }
        let values = params.iter().flat_map(|(key, values)| values.iter().map(move |value| (key, value)));
        if values.into_iter().any(|(key, value)| format!("[{key}={value},").to_lowercase().contains(&name)) {
            return None;
        }
        // Parameters begin with a bracket. What stands before it belongs to the test.
        let own = name.split('[').next().unwrap_or_default();
        let is_word = |part: &&str| {
            let is_of_word = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
            !part.is_empty() && part.bytes().all(is_of_word)
        };
        let mut parts = own.split("::").filter(is_word);
        let is_impossible = parts.any(|part| !known.contains(part) && !(self.may_name)(part));
        is_impossible.then_some(false)
    }
}

impl<'a> Selector<'a> {
    /// Whether the selection may match a test of this target. `params` are those of its entry.
    pub fn may_match(&self, target: &UnlistedTarget<'_>, params: &IndexMap<String, Vec<String>>) -> bool {
        let Selection { exact, package, kind, .. } = self.selection;
        let is_possible = |name: &str| target.holds(name, params) != Some(false);
        self.expression
            .as_ref()
            .is_none_or(|expression| expression.may_hold(&|name| target.holds(name, params)) != Some(false))
            && (exact.is_empty() || exact.iter().any(|name| is_possible(name)))
            && package.as_ref().is_none_or(|package| target.name.is_none_or(|(own, _)| own == package))
            && kind.is_none_or(|kind| target.kind.is_none_or(|own| own == kind))
            && self.within.as_ref().is_none_or(|within| within.may_match(target, params))
    }

    /// Parses the selection's expression and pattern.
    pub fn new(selection: &'a Selection) -> Result<Self, UserError> {
        let expression = selection.expression.as_deref().map(|text| {
            text.parse::<Expression>().map_err(|error| UserError::new(format!("in -k: {error}")))
        });
        let regex = selection.regex.as_deref().map(|pattern| {
            Regex::new(pattern).map_err(|error| UserError::new(format!("in --regex: {error}")))
        });
        Ok(Self {
            selection,
            expression: expression.transpose()?,
            regex: regex.transpose()?,
            within: selection.within.as_deref().map(Selector::new).transpose()?.map(Box::new),
        })
    }

    /// Whether this selection matches the cell of this test, regardless of the selection that narrows
    /// it. A `title` is a name of the cell beside the test's.
    pub fn matches(&self, test: &TestId, title: Option<&str>) -> bool {
        let Selection { exact, skip, package, kind, .. } = self.selection;
        let own = own_name(test);
        let names = names(test, title);
        self.expression.as_ref().is_none_or(|expression| expression.matches(&names.join("\n")))
            && self.regex.as_ref().is_none_or(|regex| names.iter().any(|name| regex.is_match(name)))
            && (exact.is_empty() || exact.iter().any(|wanted| is_one_of(wanted, test, &names)))
            && !skip.iter().any(|text| own.contains(text.as_str()))
            && package.as_ref().is_none_or(|package| *package == test.package)
            && kind.is_none_or(|kind| kind == test.kind)
    }

    /// Whether the selection that narrows this one matches the cell of this title.
    pub fn keeps(&self, test: &TestId, title: &str) -> bool {
        self.within
            .as_ref()
            .is_none_or(|within| within.matches(test, Some(title)) && within.keeps(test, title))
    }

    /// Returns names that are similar to those in the selection that match no test, for a help
    /// line.
    pub fn nearest<'t>(&self, tests: impl Iterator<Item = &'t TestId> + Clone) -> Vec<&'t str> {
        let words = self.expression.iter().flat_map(|expression| {
            // A word that matches a test by itself is not misspelt.
            expression.names().into_iter().filter(|word| {
                let alone = Expression::Name((*word).to_owned());
                !tests.clone().any(|test| alone.matches(&test.to_string()))
            })
        });
        let exact = self.selection.exact.iter().map(String::as_str);
        let mut nearest: Vec<&str> = Vec::new();
        for wanted in words.chain(exact) {
            let wanted = last_part(wanted);
            let mut alike = suggest::nearest(wanted, tests.clone().map(|test| last_part(own_name(test))), 3);
            if alike.is_empty() {
                // A module may be meant.
                alike = suggest::nearest(wanted, tests.clone().map(own_name), 3);
            }
            for name in alike {
                if !nearest.contains(&name) {
                    nearest.push(name);
                }
            }
        }
        if let Some(package) = &self.selection.package {
            nearest.extend(suggest::nearest(package, tests.map(|test| test.package.as_str()), 1));
        }
        nearest.truncate(5);
        nearest
    }
}

/// Returns the names of a cell: the test's whole id, the title, and the id with the title's
/// parameters.
fn names(test: &TestId, title: Option<&str>) -> Vec<String> {
    let id = test.to_string();
    let own = own_name(test);
    let Some(title) = title.filter(|title| *title != own) else { return vec![id] };
    let parameters = title.strip_prefix(own).filter(|rest| rest.starts_with('['));
    let with_parameters = parameters.map(|parameters| format!("{id}{parameters}"));
    [id, title.to_owned()].into_iter().chain(with_parameters).collect()
}

/// Whether this is a name of a test, or of its cell of this title.
pub(crate) fn is_named(test: &TestId, title: Option<&str>, wanted: &str) -> bool {
    is_one_of(wanted, test, &names(test, title))
}

fn is_one_of(wanted: &str, test: &TestId, names: &[String]) -> bool {
    names.iter().any(|name| name == wanted || is_path_of(wanted, test, name))
}

/// Whether this is the name without its package, `binary::path`, or without its target, `path`.
fn is_path_of(wanted: &str, test: &TestId, name: &str) -> bool {
    let Some(in_package) = name.strip_prefix(&format!("{}::", test.package)) else { return false };
    let path = in_package.strip_prefix(&format!("{}::", test.binary));
    wanted == in_package || Some(wanted) == path
}

fn last_part(name: &str) -> &str {
    name.rsplit("::").next().unwrap_or(name)
}

/// Returns the selection as flags of the command line: `-k 'hf_fdw'`, `--exact a`. Empty if it
/// selects all tests.
pub(crate) fn described(selection: &Selection) -> String {
    let mut words = Vec::new();
    words.extend(selection.expression.iter().map(|expression| format!("-k '{expression}'")));
    words.extend(selection.regex.iter().map(|pattern| format!("--regex '{pattern}'")));
    words.extend(selection.exact.iter().map(|name| format!("--exact {name}")));
    words.extend(selection.skip.iter().map(|text| format!("--skip {text}")));
    words.extend(selection.package.iter().map(|package| format!("package {package}")));
    words.extend(selection.kind.iter().map(|kind| format!("kind {}", format!("{kind:?}").to_lowercase())));
    if let Some(within) = &selection.within {
        let within = described(within);
        if !within.is_empty() {
            words.push(format!("and {within}"));
        }
    }
    words.join(" ").trim_start_matches("and ").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn test(id: &str) -> TestId {
        let mut parts = id.splitn(3, "::");
        let mut part = || parts.next().unwrap_or_default().to_owned();
        TestId { package: part(), binary: part(), kind: TargetKind::Test, name: part() }
    }

    fn meant(selection: &Selection) -> Vec<String> {
        let all =
            ["bart::tests::hf_fwd", "bart::tests::slow::hf_bwd", "bert::bert::tests::parses", "bert::bench"];
        let selector = Selector::new(selection).unwrap();
        all.iter()
            .map(|id| test(id))
            .filter(|id| selector.matches(id, None) && selector.keeps(id, own_name(id)))
            .map(|id| id.to_string())
            .collect()
    }

    #[test]
    fn everything_that_is_said_must_hold() {
        let selection = Selection { expression: Some("HF".into()), ..Selection::default() };
        assert_eq!(meant(&selection), ["bart::tests::hf_fwd", "bart::tests::slow::hf_bwd"]);
        assert_eq!(
            meant(&Selection { skip: vec!["slow".into()], ..selection.clone() }),
            ["bart::tests::hf_fwd"]
        );
        assert!(meant(&Selection { package: Some("bert".into()), ..selection.clone() }).is_empty());
        assert!(meant(&Selection { kind: Some(TargetKind::Lib), ..selection.clone() }).is_empty());
        let narrowed = Selection {
            within: Some(Box::new(selection)),
            regex: Some("bwd$".into()),
            ..Selection::default()
        };
        assert_eq!(meant(&narrowed), ["bart::tests::slow::hf_bwd"]);
        assert_eq!(described(&narrowed), "--regex 'bwd$' and -k 'HF'");
    }

    #[test]
    fn a_pattern_is_for_the_name_with_package_and_binary() {
        let by = |pattern: &str| Selection { regex: Some(pattern.into()), ..Selection::default() };
        assert!(meant(&by("^slow::")).is_empty());
        // docs/nextest.md has this form.
        assert_eq!(meant(&by("^[^:]+::[^:]+::slow::")), ["bart::tests::slow::hf_bwd"]);
    }

    #[test]
    fn an_exact_name_is_a_path_or_a_whole_id() {
        for name in ["slow::hf_bwd", "tests::slow::hf_bwd", "bart::tests::slow::hf_bwd"] {
            let selection = Selection { exact: vec![name.into()], ..Selection::default() };
            assert_eq!(meant(&selection), ["bart::tests::slow::hf_bwd"], "{name}");
        }
        assert!(meant(&Selection { exact: vec!["hf_bwd".into()], ..Selection::default() }).is_empty());
        assert_eq!(
            meant(&Selection { exact: vec!["bench".into()], ..Selection::default() }),
            ["bert::bench"]
        );
    }

    #[test]
    fn the_name_of_a_cell_selects_it_and_no_other() {
        let fwd = test("bart::tests::hf_fwd");
        let matches =
            |selection: &Selection, title: &str| Selector::new(selection).unwrap().matches(&fwd, Some(title));
        for (own, other) in [("RoBERTa/MNLI/16", "RoBERTa/MNLI/8"), ("hf_fwd[a=1,b=2]", "hf_fwd[a=1,b=3]")] {
            let selections = [
                Selection { exact: vec![own.into()], ..Selection::default() },
                Selection { expression: Some(own.into()), ..Selection::default() },
                Selection { regex: Some(format!("^{}$", regex::escape(own))), ..Selection::default() },
            ];
            for selection in &selections {
                assert!(matches(selection, own), "{selection:?}");
                assert!(!matches(selection, other), "{selection:?}");
            }
        }
        let exact = |name: &str| Selection { exact: vec![name.into()], ..Selection::default() };
        for name in ["bart::tests::hf_fwd[a=1]", "tests::hf_fwd[a=1]", "hf_fwd", "bart::tests::hf_fwd"] {
            assert!(matches(&exact(name), "hf_fwd[a=1]"), "{name}");
        }
        assert!(!matches(&exact("[a=1]"), "hf_fwd[a=1]"));
    }

    #[test]
    fn a_target_that_was_not_built_may_match_unless_its_names_rule_it_out() {
        let no_params = IndexMap::new();
        let params = IndexMap::from([("batch".to_owned(), vec!["8".to_owned()])]);
        let may_name = |part: &str| ["hf_fwd", "hf", "tests"].contains(&part);
        let target =
            UnlistedTarget { name: Some(("bart", "it")), kind: Some(TargetKind::Test), may_name: &may_name };
        let may =
            |selection: &Selection, params| Selector::new(selection).unwrap().may_match(&target, params);
        let by = |expression: &str| Selection { expression: Some(expression.into()), ..Selection::default() };
        for possible in ["hf_fwd", "BART", "it::hf", "not hf_fwd", "tests::hf_fwd[batch=8]", "hf or zebra"] {
            assert!(may(&by(possible), &no_params), "{possible}");
        }
        for impossible in ["zebra", "not bart", "hf_fwd and zebra", "zebra::hf_fwd", "it::zebra[hf=1]"] {
            assert!(!may(&by(impossible), &no_params), "{impossible}");
        }
        assert!(may(&by("batch=8"), &params) && may(&by("größe"), &no_params));
        let exact = |name: &str| Selection { exact: vec![name.into()], ..Selection::default() };
        assert!(may(&exact("tests::hf_fwd"), &no_params) && !may(&exact("tests::zebra"), &no_params));
        assert!(!may(&Selection { kind: Some(TargetKind::Lib), ..Selection::default() }, &no_params));
        assert!(!may(&Selection { package: Some("bert".into()), ..Selection::default() }, &no_params));
        let within = Selection { within: Some(Box::new(by("zebra"))), ..Selection::default() };
        assert!(!may(&within, &no_params));
        assert!(may(&Selection { regex: Some("zebra".into()), ..Selection::default() }, &no_params));
    }

    #[test]
    fn skip_looks_at_the_path_only_as_libtest_does() {
        let selection = Selection { skip: vec!["bert".into()], ..Selection::default() };
        assert_eq!(meant(&selection).len(), 4);
    }

    #[test]
    fn the_nearest_names_are_those_of_the_words_that_match_nothing() {
        let all =
            [test("bart::tests::hf_fwd"), test("bart::tests::slow::hf_bwd"), test("x::x::lexer::parses")];
        let nearest = |expression: &str| {
            let selection = Selection { expression: Some(expression.into()), ..Selection::default() };
            Selector::new(&selection).unwrap().nearest(all.iter()).join(", ")
        };
        assert_eq!(nearest("hf_fdw"), "hf_fwd, hf_bwd");
        assert_eq!(nearest("bart and prases"), "parses");
        assert_eq!(nearest("lexr"), "lexer::parses");
        assert_eq!(nearest("zebra"), "");
    }
}
