//! The flags of `test`, and what it makes of them: a run of the working tree alone.

use clap::Args;

use crate::arguments::presentation::PresentationArguments;
use crate::arguments::request::RequestArguments;
use crate::arguments::run::{ExecutionArguments, RunArguments};
use memprof_plan::config::values::Parsed;
use memprof_plan::config::yaml::Scalar;
use memprof_plan::expression::Expression;
use memprof_plan::request::RefRequest;
use memprof_support::user_error::UserError;

/// What follows `test --help`.
pub const TEST_HELP: &str = "\
Examples:
  cargo memprof test                               all tests of the working tree
  cargo memprof test decode encode                 tests that contain one of these words
  cargo memprof test --limit heap.peak=64MiB       fail if one of them needs more
  cargo memprof test decode --nocapture            with the tests' own output

Exit codes:
    0  every test passed, within its limits
    1  a figure exceeds a limit, a memory assertion does not hold, or a test leaks
    3  a test or the build failed, or a limit could not be checked";

/// `test`.
#[derive(Clone, Debug, Default, Args)]
pub struct TestArguments {
    /// Run tests whose `package::binary::test` contains one of these words, as with `cargo test`
    ///
    /// Each may be an expression, as for -k: 'hf and not bwd'
    #[arg(id = "revisions", value_name = "FILTER")]
    pub filters: Vec<Parsed<Expression>>,
    /// What to run.
    #[command(flatten)]
    pub request: RequestArguments,
    /// How to run it.
    #[command(flatten)]
    pub execution: ExecutionArguments,
    /// What to show.
    #[command(flatten)]
    pub presentation: PresentationArguments,
}

impl TestArguments {
    /// Returns the run that these flags ask for: the working tree, and tests that any filter selects.
    ///
    /// # Errors
    ///
    /// Flags of comparisons.
    pub fn run(&self) -> Result<RunArguments, UserError> {
        let (refs, settings) = (&self.request.refs, &self.request.settings);
        let of_comparisons = [
            (!refs.refs.is_empty(), "--refs"),
            (settings.baseline.is_some(), "--baseline"),
            (refs.aa, "--aa"),
            (settings.affected.is_some(), "--affected"),
            (settings.run_all.is_some(), "--run-all"),
        ];
        if let Some((_, flag)) = of_comparisons.iter().find(|(is_given, _)| *is_given) {
            return Err(UserError::new(format!(
                "{flag} is for comparisons, and `test` measures the working tree alone"
            ))
            .help("to compare revisions: cargo memprof main ."));
        }
        let mut request = self.request.clone();
        if self.execution.archive.is_none() {
            request.refs.refs = vec![RefRequest { spec: ".".to_owned(), ..RefRequest::default() }];
        }
        let filters: Vec<Expression> = self.filters.iter().map(|filter| filter.value.clone()).collect();
        let any = match filters.as_slice() {
            [] => None,
            [only] => Some(only.clone()),
            _ => Some(Expression::Or(filters)),
        };
        let both = match (any, request.selection.names.filter.take().map(|Scalar(filter)| filter.value)) {
            (Some(any), Some(filter)) => Some(Expression::And(vec![any, filter])),
            (any, filter) => any.or(filter),
        };
        request.selection.names.filter = both.map(|value| Scalar(Parsed { text: value.to_string(), value }));
        let presentation = PresentationArguments { is_test: true, ..self.presentation.clone() };
        Ok(RunArguments { revisions: Vec::new(), request, execution: self.execution.clone(), presentation })
    }
}
