//! The flags of `deps`, and what it makes of them: the working tree compared with itself, with other
//! dependencies.

use clap::Args;

use crate::arguments::presentation::PresentationArguments;
use crate::arguments::request::RequestArguments;
use crate::arguments::run::{ExecutionArguments, RunArguments};
use memprof_plan::config::yaml::Scalar;
use memprof_plan::dependency_change::DependencyChange;
use memprof_plan::request::RefRequest;
use memprof_support::user_error::UserError;

/// What follows `deps --help`.
pub const DEPS_HELP: &str = "\
Examples:
  cargo memprof deps serde@1.0.200 -k decode
  cargo memprof deps serde@1.0.200 serde_json@1.0.116
  cargo memprof deps serde=../serde                 a folder, with its changes
  cargo memprof deps serde=https://github.com/serde-rs/serde@master
  cargo memprof deps tokio@1.40.0 --refs v1.2       the code of another ref
  cargo memprof deps dep=../new --with dep=../dep   dep is outside of the repository

To find which of many updates changed a figure:
  cargo memprof bisect --lockfile OLD..NEW -k decode";

/// `deps`.
#[derive(Clone, Debug, Default, Args)]
pub struct DepsArguments {
    /// The dependencies: NAME@VERSION, NAME=FOLDER, or NAME=URL@REV
    #[arg(id = "revisions", value_name = "NAME@VERSION", required_unless_present = "resume")]
    pub changes: Vec<DependencyChange>,
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

impl DepsArguments {
    /// Returns the run that these flags ask for: one ref twice, the second time with these
    /// dependencies.
    ///
    /// # Errors
    ///
    /// Flags that name more than one ref.
    pub fn run(&self) -> Result<RunArguments, UserError> {
        let mut request = self.request.clone();
        let given = &request.refs;
        if given.refs.len() > 1 || request.settings.baseline.is_some() || given.aa {
            return Err(UserError::new("`deps` compares one ref with itself, with other dependencies")
                .help("for two refs: cargo memprof main feature --with new:NAME@VERSION"));
        }
        let working_tree = || RefRequest { spec: ".".to_owned(), ..RefRequest::default() };
        let one = given.refs.first().cloned().unwrap_or_else(working_tree);
        let named = RefRequest { name: Some(self.name()), ..one.clone() };
        // The baseline of memprof.yaml is for other comparisons.
        request.settings.baseline = Some(Scalar(one.spec.clone()));
        request.refs.refs = vec![one, named];
        // The name of a side ends at the first colon, and this one has none.
        request.sides.with.extend(self.changes.iter().map(|change| format!("new:{change}")));
        Ok(RunArguments {
            revisions: Vec::new(),
            request,
            execution: self.execution.clone(),
            presentation: self.presentation.clone(),
        })
    }

    /// Returns the name of the candidate: its first dependency.
    fn name(&self) -> String {
        let Some(first) = self.changes.first() else { return String::new() };
        let more =
            if self.changes.len() > 1 { format!(" +{}", self.changes.len() - 1) } else { String::new() };
        format!("{}{more}", first.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deps(changes: &[&str]) -> DepsArguments {
        DepsArguments {
            changes: changes.iter().map(|text| text.parse().unwrap()).collect(),
            ..DepsArguments::default()
        }
    }

    #[test]
    fn the_working_tree_is_compared_with_itself() {
        let run = deps(&["serde@1.0.200", "rand@0.8.1"]).run().unwrap();
        let refs: Vec<_> =
            run.request.refs.refs.iter().map(|one| (one.spec.as_str(), one.name.as_deref())).collect();
        assert_eq!(refs, [(".", None), (".", Some("serde@1.0.200 +1"))]);
        assert_eq!(run.request.sides.with, ["new:serde@1.0.200", "new:rand@0.8.1"]);
        let mut two = deps(&["serde@1.0.200"]);
        two.request.settings.baseline = Some(Scalar("main".into()));
        assert!(two.run().unwrap_err().help.unwrap().contains("--with new:NAME@VERSION"));
    }
}
