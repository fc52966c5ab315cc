//! One commit under several names, such as `main` and `v1.2`, or `.` without changes: it is measured
//! once. A ref that is written twice (`main,main`, `--aa`) is a comparison with itself, and stays.

use crate::request::{CellPattern, Request};
use crate::resolved::{Plan, Revision};
use crate::side;

/// A revision, and the names that it also has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SameCommit {
    /// The name that is kept, and the others.
    pub names: Vec<String>,
    /// The first digits of the commit.
    pub commit: String,
}

/// Keeps the first name of each commit, and returns those with several. Refs with settings of their
/// own stay, and so do those that a filter of cells names.
pub fn merge(plan: &mut Plan) -> Vec<SameCommit> {
    let mut kept: Vec<usize> = Vec::new();
    let mut place_of: Vec<usize> = Vec::new();
    for index in 0..plan.revisions.len() {
        let same = kept.iter().position(|&earlier| is_same(plan, earlier, index));
        place_of.push(same.unwrap_or(kept.len()));
        if same.is_none() {
            kept.push(index);
        }
    }
    let merged: Vec<SameCommit> = (kept.iter().enumerate())
        .filter_map(|(place, &index)| {
            let all = plan.revisions.iter().zip(&place_of).filter(|(_, of)| **of == place);
            let names: Vec<String> = all.map(|(revision, _)| revision.name.clone()).collect();
            (names.len() > 1).then(|| SameCommit { names, commit: plan.revisions[index].short() })
        })
        .collect();
    plan.baseline = place_of[plan.baseline];
    plan.revisions = kept.iter().map(|&index| plan.revisions[index].clone()).collect();
    plan.request.refs = kept.iter().map(|&index| plan.request.refs[index].clone()).collect();
    for (one, revision) in plan.request.refs.iter_mut().zip(&plan.revisions) {
        let same = merged.iter().find(|same| same.names[0] == revision.name);
        one.also = same.map(|same| same.names[1..].to_vec()).unwrap_or_default();
    }
    merged
}

/// Whether the two would be the same build and the same runs, and the user wrote different refs.
fn is_same(plan: &Plan, one: usize, other: usize) -> bool {
    let settings = |index: usize| side::settings(&plan.request.refs[index]);
    let [a, b] = [one, other].map(|index| &plan.revisions[index]);
    a.commit == b.commit
        && a.spec != b.spec
        && settings(one) == settings(other)
        && ![a, b].iter().any(|revision| is_in_filter(&plan.request, revision))
}

fn is_in_filter(request: &Request, revision: &Revision) -> bool {
    let names = |pattern: &CellPattern| {
        pattern.r#ref.as_ref().is_some_and(|name| *name == revision.name || *name == revision.spec)
    };
    request.exclude.iter().chain(&request.include).any(names)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell_pattern;
    use crate::request::RefRequest;

    fn plan(refs: &[(&str, &str)], baseline: usize) -> Plan {
        let revision = |(name, commit): &(&str, &str)| Revision {
            name: (*name).to_owned(),
            spec: name.split(' ').next().unwrap_or_default().to_owned(),
            commit: (*commit).to_owned(),
            tree: String::new(),
            subject: String::new(),
            time: 0,
            found: None,
            working_tree: false,
        };
        let revisions: Vec<Revision> = refs.iter().map(revision).collect();
        let one = |revision: &Revision| RefRequest { spec: revision.spec.clone(), ..RefRequest::default() };
        let request = Request { refs: revisions.iter().map(one).collect(), ..Request::default() };
        Plan { revisions, baseline, ..Plan::sample(request) }
    }

    /// Returns `names of the revisions | baseline | names that are the same`.
    fn merged(mut plan: Plan) -> String {
        let merged = merge(&mut plan);
        let names: Vec<&str> = plan.revisions.iter().map(|one| one.name.as_str()).collect();
        let specs: Vec<&str> = plan.request.refs.iter().map(|one| one.spec.as_str()).collect();
        assert_eq!(specs.len(), names.len());
        let also: Vec<&String> = plan.request.refs.iter().flat_map(|one| &one.also).collect();
        assert_eq!(also, merged.iter().flat_map(|one| &one.names[1..]).collect::<Vec<_>>());
        let same: Vec<String> =
            merged.iter().map(|one| format!("{} {}", one.names.join("="), one.commit)).collect();
        format!("{} | {} | {}", names.join(" "), plan.revisions[plan.baseline].name, same.join(", "))
    }

    #[test]
    fn one_commit_under_two_names_is_one_revision() {
        assert_eq!(
            merged(plan(&[("main", "4f1c2aa00"), (".", "4f1c2aa00")], 0)),
            "main | main | main=. 4f1c2aa"
        );
        let three = [("main", "a"), ("feature", "b"), ("v1.2", "a")];
        assert_eq!(merged(plan(&three, 2)), "main feature | main | main=v1.2 a");
        assert_eq!(merged(plan(&[("main", "a"), ("x", "b")], 1)), "main x | x | ");
    }

    #[test]
    fn a_ref_twice_is_a_comparison_with_itself() {
        assert_eq!(merged(plan(&[("main", "a"), ("main (2)", "a")], 0)), "main main (2) | main | ");
    }

    #[test]
    fn what_has_settings_or_filters_of_its_own_stays() {
        let both = [("main", "a"), ("v1.2", "a")];
        let mut with_features = plan(&both, 0);
        with_features.request.refs[1].features.push("fast".to_owned());
        assert_eq!(merged(with_features), "main v1.2 | main | ");
        let mut with_version = plan(&both, 0);
        with_version.request.refs[1].with.push("serde@1.0.200".parse().unwrap());
        assert_eq!(merged(with_version), "main v1.2 | main | ");
        let mut filtered = plan(&both, 0);
        filtered.request.exclude.push(cell_pattern::parse("ref=v1.2,test=hf").unwrap());
        assert_eq!(merged(filtered), "main v1.2 | main | ");
    }
}
