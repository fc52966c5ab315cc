//! A request's `exclude` and `include`, checked against its refs, parameters and values.

use crate::cell_pattern::Matcher;
use crate::listing::ListedRevision;
use crate::request::{CellPattern, Request};
use crate::resolved::{CellId, Revision};
use memprof_support::suggest;
use memprof_support::user_error::UserError;

/// The filters of a request.
pub(crate) struct CellFilters<'a> {
    request: &'a Request,
    exclude: Vec<Matcher<'a>>,
    include: Vec<Matcher<'a>>,
}

impl<'a> CellFilters<'a> {
    /// Reads the filters of a request.
    ///
    /// # Errors
    /// A pattern matches no cell that the request can have.
    pub fn new(request: &'a Request, revisions: &[ListedRevision<'_>]) -> Result<Self, UserError> {
        let matchers = |key: &str, patterns: &'a [CellPattern]| -> Result<Vec<Matcher<'a>>, UserError> {
            patterns
                .iter()
                .map(|pattern| {
                    check_pattern(key, pattern, request, revisions)?;
                    Matcher::new(pattern).map_err(|error| UserError::new(format!("{key}: {error}")))
                })
                .collect()
        };
        Ok(Self {
            request,
            exclude: matchers("exclude", &request.exclude)?,
            include: matchers("include", &request.include)?,
        })
    }

    /// Returns at which of these revisions the cell is kept.
    pub fn kept(&self, revisions: &[ListedRevision<'_>], cell: &CellId) -> Vec<bool> {
        revisions.iter().map(|listed| self.keep(listed.revision, cell)).collect()
    }

    fn keep(&self, revision: &Revision, cell: &CellId) -> bool {
        let spec = revision.request_in(self.request).map_or(&revision.spec, |one| &one.spec);
        let test = cell.test.to_string();
        let matches = |matcher: &Matcher<'_>| matcher.matches([&revision.name, spec], &test, &cell.params);
        (self.include.is_empty() || self.include.iter().any(matches)) && !self.exclude.iter().any(matches)
    }
}

/// Refuses a pattern with an unknown ref, parameter or value. It would silently match no cell.
fn check_pattern(
    key: &str,
    pattern: &CellPattern,
    request: &Request,
    revisions: &[ListedRevision<'_>],
) -> Result<(), UserError> {
    if let Some(wanted) = &pattern.r#ref {
        let names: Vec<&str> = (revisions.iter())
            .flat_map(|listed| [listed.revision.name.as_str(), listed.revision.spec.as_str()])
            .collect();
        if !names.contains(&wanted.as_str()) {
            let names: Vec<&str> = revisions.iter().map(|listed| listed.revision.name.as_str()).collect();
            return Err(UserError::new(format!("{key}: '{wanted}' is not one of the compared refs"))
                .help(suggest::did_you_mean_or_list(wanted, "refs", &names)));
        }
    }
    for (name, value) in &pattern.params {
        let parameters = || request.tests.iter().flat_map(|entry| &entry.params);
        if !parameters().any(|(known, _)| known == name) {
            let mut known: Vec<&str> = parameters().map(|(known, _)| known.as_str()).collect();
            // The user may also have meant one of the keys that are not parameters.
            known.extend(["ref", "test"]);
            return Err(UserError::new(format!("{key}: no test has a parameter '{name}'"))
                .help(suggest::did_you_mean_or_list(name, "known", &known)));
        }
        let values: Vec<&str> = (parameters().filter(|(known, _)| *known == name))
            .flat_map(|(_, values)| values.iter().map(String::as_str))
            .collect();
        if !values.contains(&value.as_str()) {
            return Err(UserError::new(format!("{key}: parameter '{name}' never has the value '{value}'"))
                .help(format!("values: {}", values.join(", "))));
        }
    }
    Ok(())
}
