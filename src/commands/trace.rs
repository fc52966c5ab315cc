//! `trace`: the functions that patterns match, per ref, as text.

use std::fmt::Write as _;

use crate::arguments::build::TraceCommandArguments;
use crate::arguments::presentation::PresentationArguments;
use crate::commands::context::CommandContext;
use crate::kept_runs::repository;
use crate::request::asked::Asked;
use crate::request::refs::RefsNeeded;
use memprof_build::git::resolve::resolve_any;
use memprof_judge::results::trace_facts::TraceFacts;
use memprof_plan::resolved::Plan;
use memprof_run::session::Session;
use memprof_support::counted::counted;
use memprof_support::exit_code::ExitCode;
use memprof_support::file_lock::WhenHeld;
use memprof_support::labels;
use memprof_support::user_error::UserError;

/// Finds the functions in every revision, and prints them.
pub fn trace(context: CommandContext<'_>, arguments: &TraceCommandArguments) -> anyhow::Result<ExitCode> {
    let repository = repository()?;
    let mut request = arguments.request.clone();
    request.trace.add_functions(arguments.patterns.iter().cloned());
    let presentation = PresentationArguments::default();
    let asked = Asked::read(&request, &presentation, &repository, RefsNeeded::Any)?;
    if asked.request.trace.is_empty() {
        return Err(UserError::new("no function pattern")
            .help("name one: cargo memprof trace 'crate::**::forward' ('**' matches all functions)")
            .into());
    }
    let plan = resolve_any(&asked.request, &repository, context.console)?;
    let session = Session::open(&repository, context.console, context.interrupt)?;
    let lock = session.lock(WhenHeld::of_no_wait(arguments.no_wait))?;
    let facts = session.traceable(&plan)?;
    drop(lock);
    context.print(&labels::lines(&listing(&plan, &facts)))
}

/// Returns the functions of each revision, in the plan's order.
fn listing(plan: &Plan, facts: &[TraceFacts]) -> String {
    let mut text = String::new();
    for (revision, facts) in plan.revisions.iter().zip(facts) {
        let all = counted(facts.functions.len(), "function");
        _ = writeln!(
            text,
            "{} ({}): {} of {all} can be traced",
            revision.name,
            revision.short(),
            facts.traced()
        );
        for function in &facts.functions {
            _ = write!(text, "  {}:{}  {}", function.file, function.line, function.path);
            if let Some(apart) = &function.apart {
                _ = write!(text, " ({apart})");
            }
            if let Some(untraced) = &function.untraced {
                _ = write!(text, "  (not traceable: {})", untraced.reason());
            }
            text.push('\n');
        }
        for pattern in &facts.unmet {
            _ = writeln!(text, "  {pattern}: no function in this ref");
        }
        if facts.reasons().len() > 1 || facts.functions.len() > 20 {
            for (reason, count) in facts.reasons() {
                _ = writeln!(text, "  {count} not traceable: {reason}");
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use memprof_judge::results::trace_facts::{TracedFunction, Untraced};
    use memprof_plan::resolved::Revision;

    #[test]
    fn functions_are_listed_in_the_order_of_the_source() {
        let function =
            |path: &str, line: usize, apart: Option<&str>, untraced: Option<&str>| TracedFunction {
                path: path.to_owned(),
                file: "src/lib.rs".into(),
                line,
                apart: apart.map(str::to_owned),
                untraced: untraced.map(|reason| Untraced::Impossible(reason.to_owned())),
                text: None,
            };
        let facts = TraceFacts {
            functions: vec![
                function("bart::forward", 3, None, None),
                function("bart::Layer::new", 5, Some("impl Layer<u8>"), None),
                function("bart::size", 9, None, Some("it is a `const fn`, which the compiler may run")),
            ],
            unmet: vec!["bart::decoder::*".to_owned()],
        };
        let revision = Revision {
            name: "main".to_owned(),
            spec: "main".to_owned(),
            commit: "4f1c2aa000".to_owned(),
            tree: String::new(),
            subject: String::new(),
            time: 0,
            found: None,
            working_tree: false,
        };
        let plan =
            Plan { revisions: vec![revision], ..Plan::sample(memprof_plan::request::Request::default()) };
        assert_eq!(
            listing(&plan, &[facts]),
            "main (4f1c2aa): 2 of 3 functions can be traced
  src/lib.rs:3  bart::forward
  src/lib.rs:5  bart::Layer::new (impl Layer<u8>)
  src/lib.rs:9  bart::size  (not traceable: it is a `const fn`, which the compiler may run)
  bart::decoder::*: no function in this ref
"
        );
    }
}
