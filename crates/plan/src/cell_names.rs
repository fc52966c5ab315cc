//! The names of a plan's cells, which must differ, and the names of `tests` entries in messages.

use std::collections::HashMap;

use crate::request::Request;
use crate::resolved::{CellId, TestId};
use crate::selection::described;
use crate::title::Template;
use memprof_support::user_error::UserError;

/// An entry of `tests`, as messages name it: `tests[0] (-k 'bert')`.
pub(crate) struct EntryName<'a> {
    /// The request that it is in.
    pub request: &'a Request,
    /// The index in `tests`.
    pub index: usize,
}

impl std::fmt::Display for EntryName<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let entry = &self.request.tests[self.index];
        let words = match (&entry.name, &entry.program) {
            (Some(name), _) => format!("'{name}'"),
            (None, Some(program)) => program.target(),
            (None, None) => described(&entry.selection),
        };
        match (self.request.tests.len() > 1, words.is_empty()) {
            (true, true) => write!(formatter, "tests[{}]", self.index),
            (true, false) => write!(formatter, "tests[{}] ({words})", self.index),
            (false, true) => formatter.write_str("tests"),
            (false, false) => formatter.write_str(&words),
        }
    }
}

/// The names of the cells so far.
#[derive(Default)]
pub(crate) struct CellNames {
    /// By test and name.
    of_tests: HashMap<(TestId, String), (CellId, String)>,
    /// By name alone, for names from templates. The report shows such a name without its test.
    of_templates: HashMap<String, CellId>,
}

impl CellNames {
    /// Takes the cell's name.
    ///
    /// # Errors
    /// Another cell has the same name.
    pub fn take(
        &mut self,
        cell: &CellId,
        template: Option<&Template>,
        entry: &EntryName<'_>,
    ) -> Result<(), UserError> {
        let key = (cell.test.clone(), cell.title.clone());
        if let Some((other, other_entry)) = self.of_tests.insert(key, (cell.clone(), entry.to_string())) {
            let (mine, others) = (shown(cell), shown(&other));
            let user_error =
                UserError::new(format!("two cells are named '{}': {others} and {mine}", cell.title));
            let lacking =
                (cell.params.iter()).find(|(name, _)| template.is_some_and(|template| !template.has(name)));
            return Err(match lacking {
                Some((name, _)) if other.params != cell.params => {
                    user_error.help(format!("put {{{name}}} into the name"))
                }
                _ => user_error
                    .help(format!("{other_entry} and {entry} select the same test: give one a `name`")),
            });
        }
        if template.is_some()
            && let Some(other) = self.of_templates.insert(cell.title.clone(), cell.clone())
        {
            let (mine, others) = (shown(cell), shown(&other));
            let [kind, other_kind] = [cell, &other].map(|cell| cell.test.kind.as_str());
            let are_twins = other.test.to_string() == cell.test.to_string();
            let (both, help) = if are_twins && kind != other_kind {
                let help = format!("give each an entry of its own: `kind: {other_kind}` and `kind: {kind}`");
                (format!("{mine} of the {other_kind} and of the {kind}"), help)
            } else {
                let help = "put {test} into the name (or {package}, {binary})".to_owned();
                (format!("{others} and {mine}"), help)
            };
            return Err(UserError::new(format!("two cells are named '{}': {both}", cell.title)).help(help));
        }
        Ok(())
    }
}

fn shown(cell: &CellId) -> String {
    let params: Vec<String> = cell.params.iter().map(|(name, value)| format!("{name}={value}")).collect();
    if params.is_empty() { cell.test.to_string() } else { format!("{} with {}", cell.test, params.join(",")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::TestRequest;
    use crate::target_kind::TargetKind;

    #[test]
    fn tests_of_a_library_and_of_a_binary_of_one_name_are_told_apart_by_their_kind() {
        let request = Request { tests: vec![TestRequest::default()], ..Request::default() };
        let mut names = CellNames::default();
        let mut take = |kind| {
            let (package, binary, name) = ("bart".into(), "bart".into(), "small".into());
            let test = TestId { package, binary, kind, name };
            let cell = CellId { test, params: Vec::new(), title: "plain".into(), program: None };
            names.take(&cell, Some(&"plain".parse().unwrap()), &EntryName { request: &request, index: 0 })
        };
        take(TargetKind::Lib).unwrap();
        insta::assert_snapshot!(take(TargetKind::Bin).unwrap_err().rendered(), @"
        error: two cells are named 'plain': bart::bart::small of the lib and of the bin
          help: give each an entry of its own: `kind: lib` and `kind: bin`
        ");
    }
}
