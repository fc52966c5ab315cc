//! The names of `exact` that no test has.

use crate::request::{Selection, TestRequest};
use crate::resolved::TestId;
use crate::selection::is_named;

/// The names of one `exact` that no test or cell has so far.
#[derive(Default)]
pub(crate) struct ExactNames<'a> {
    selection: Option<&'a Selection>,
    missing: Vec<&'a str>,
}

impl<'a> ExactNames<'a> {
    /// Takes the names of an entry. The flags that narrow an entry may leave out its tests, and have
    /// an entry of their own for the rest.
    pub(crate) fn of_entry(entry: &'a TestRequest) -> Self {
        let selection = &entry.selection;
        let [_, _, ..] = &selection.exact[..] else { return Self::default() };
        // A test that `-k` leaves out may not even be built.
        if selection.within.is_some() || selection.expression.is_some() {
            return Self::default();
        }
        Self { selection: Some(selection), missing: selection.exact.iter().map(String::as_str).collect() }
    }

    /// Notes a test, or a cell of it. A `title` is a name of the cell beside the test's.
    pub(crate) fn see(&mut self, test: &TestId, title: Option<&str>) {
        let Some(Selection { package, kind, .. }) = self.selection.filter(|_| !self.missing.is_empty())
        else {
            return;
        };
        if package.as_ref().is_none_or(|package| *package == test.package)
            && kind.is_none_or(|kind| kind == test.kind)
        {
            self.missing.retain(|wanted| !is_named(test, title, wanted));
        }
    }

    /// Returns a selection of the names that are missing, if others are not.
    pub(crate) fn missing(&self) -> Option<Selection> {
        let selection = self.selection?;
        let exact: Vec<String> = self.missing.iter().map(|&name| name.to_owned()).collect();
        let is_part = !exact.is_empty() && exact.len() < selection.exact.len();
        is_part.then(|| Selection {
            exact,
            package: selection.package.clone(),
            kind: selection.kind,
            ..Selection::default()
        })
    }
}
