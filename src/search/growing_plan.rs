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
