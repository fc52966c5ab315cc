//! A plan that gets further revisions while a search goes on, which borrows it.

use std::cell::OnceCell;

use memprof_build::git::repository::Repository;
use memprof_plan::request::RefRequest;
use memprof_plan::resolved::{Plan, Revision};

/// A plan, and the one with further revisions that takes its place.
pub struct GrowingPlan {
    plan: Plan,
    next: OnceCell<Box<GrowingPlan>>,
}

impl GrowingPlan {
    /// Begins with a plan.
    pub fn new(plan: Plan) -> Self {
        Self { plan, next: OnceCell::new() }
    }

    /// Continues with the plan of an interrupted search that knows so many commits. The plan is written first, so
    /// a killed session may have left a revision that the search does not know.
    pub fn continued(mut plan: Plan, known: usize) -> Self {
        plan.revisions.truncate(known);
        plan.request.refs.truncate(known);
        Self::new(plan)
    }

    /// Returns the plan with all revisions.
    pub fn newest(&self) -> &Plan {
        self.next.get().map_or(&self.plan, |next| next.newest())
    }

    /// Adds a commit as the last revision, and returns the plan that has it.
    pub fn add(&self, commit: &str, name: String, repository: &Repository) -> anyhow::Result<&Plan> {
        if let Some(next) = self.next.get() {
            return next.add(commit, name, repository);
        }
        let commit = repository.commit(commit)?;
        let is_used = |name: &str| self.plan.revisions.iter().any(|revision| revision.name == name);
        let name = if is_used(&name) { format!("{name} ({})", self.plan.revisions.len()) } else { name };
        let mut plan = self.plan.clone();
        plan.request.refs.push(RefRequest {
            spec: commit.hash.clone(),
            name: Some(name.clone()),
            ..RefRequest::default()
        });
        plan.revisions.push(Revision {
            name,
            spec: commit.hash.clone(),
            commit: commit.hash,
            tree: commit.tree,
            subject: commit.subject,
            time: commit.time,
            found: None,
            working_tree: false,
        });
        Ok(&self.next.get_or_init(|| Box::new(Self::new(plan))).plan)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use memprof_plan::request::Request;

    #[test]
    fn a_revision_that_the_search_does_not_know_is_forgotten() {
        let revision = |name: &&str| Revision {
            name: (*name).to_owned(),
            spec: String::new(),
            commit: String::new(),
            tree: String::new(),
            subject: String::new(),
            time: 0,
            found: None,
            working_tree: false,
        };
        let names = ["main", "pr/7", "without src/a.rs", "without src/b.rs"];
        let mut plan = Plan::sample(Request::default());
        plan.revisions = names.iter().map(revision).collect();
        plan.request.refs = vec![RefRequest::default(); names.len()];
        let growing = GrowingPlan::continued(plan, 3);
        let plan = growing.newest();
        let left: Vec<&str> = plan.revisions.iter().map(|one| one.name.as_str()).collect();
        assert_eq!((left, plan.request.refs.len()), (names[..3].to_vec(), 3));
    }
}
