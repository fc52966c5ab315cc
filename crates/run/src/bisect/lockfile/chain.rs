//! The chain of lock files from an old one to a new one: each differs from the one before by one
//! package, or by packages that only move together.

use std::collections::BTreeSet;

use crate::bisect::lockfile::lock_text::{LockText, Update};
use memprof_plan::lock_differences::{self, MovedDependency};
use memprof_support::counted::some;

/// One step of a chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainStep {
    /// The lock file after the step.
    pub lockfile: Vec<u8>,
    /// What moved. The package whose update was applied comes first.
    pub moved: Vec<MovedDependency>,
}

/// What cargo makes of a lock file: the resolved one, or why it cannot be resolved. The outer error is
/// the tool's.
pub(crate) type Resolve<'a> = dyn FnMut(&[u8]) -> anyhow::Result<Result<Vec<u8>, String>> + 'a;

/// How often an update may take further packages along before it waits for others.
const MOST_ADDED: usize = 8;

/// A chain under construction.
struct Building<'a, 'r> {
    current: LockText,
    target: &'a LockText,
    resolve: &'a mut Resolve<'r>,
    steps: Vec<ChainStep>,
}

/// Returns the steps from one resolved lock file to another. `told` gets the number of updates that are
/// done, and of all.
pub fn chain(
    old: &[u8],
    new: &[u8],
    resolve: &mut Resolve<'_>,
    mut told: impl FnMut(usize, usize),
) -> anyhow::Result<Vec<ChainStep>> {
    let read = |text: &[u8]| LockText::read(&String::from_utf8_lossy(text));
    let (current, target) = (read(old), read(new));
    let all = current.updates_to(&target).len();
    let mut building = Building { current, target: &target, resolve, steps: Vec::new() };
    loop {
        let left = building.current.updates_to(&target);
        let mut has_moved = false;
        for update in target.dependencies_first(&left) {
            // An earlier update may have taken it along.
            if building.current.updates_to(&target).contains(&update) && building.apply(&update)? {
                has_moved = true;
            }
            told(all - building.current.updates_to(&target).len().min(all), all);
        }
        if !has_moved {
            break;
        }
    }
    let rest = lock_differences::moved(building.current.versions(), target.versions());
    if building.current.packages() != target.packages() {
        building.steps.push(ChainStep { lockfile: new.to_vec(), moved: rest });
    }
    Ok(building.steps)
}

/// Returns the old lock file with the packages of the new one that it lacks. If the code needs them,
/// cargo takes them in this version.
pub fn with_missing(old: &[u8], new: &[u8]) -> String {
    let [old, new] = [old, new].map(|text| LockText::read(&String::from_utf8_lossy(text)));
    old.with_missing(&new)
}

/// Returns the packages that cargo's message about a conflict is about.
fn in_conflict(message: &str) -> BTreeSet<String> {
    const ABOUT: [&str; 2] = ["failed to select a version for", "previously selected package"];
    let lines = message.lines().filter(|line| ABOUT.iter().any(|about| line.contains(about)));
    // `serde_derive`, `serde_derive v1.0.210`, `serde = "^1"`
    let names = lines.filter_map(|line| line.split('`').nth(1)?.split(' ').next().map(str::to_owned));
    names.collect()
}

impl Building<'_, '_> {
    /// Applies an update, with the packages that it takes along. Returns whether this was possible.
    fn apply(&mut self, update: &Update) -> anyhow::Result<bool> {
        let mut together = vec![update.clone()];
        for _ in 0..MOST_ADDED {
            let composed = self.current.with(&together, self.target);
            let blocking = match (self.resolve)(composed.as_bytes())? {
                // The packages in conflict have to move, too.
                Err(message) => in_conflict(&message),
                Ok(resolved) => {
                    let after = LockText::read(&String::from_utf8_lossy(&resolved));
                    // Cargo chose versions that neither lock file has. Try the versions of the new lock file.
                    let foreign = self.foreign(&after);
                    if foreign.is_empty() {
                        return Ok(self.push(update, resolved, after));
                    }
                    foreign
                }
            };
            let left = self.current.updates_to(self.target);
            let known = together.len();
            let more = left.into_iter().filter(|one| blocking.contains(&one.name) && !together.contains(one));
            together.extend(more.collect::<Vec<_>>());
            if together.len() == known {
                break;
            }
        }
        Ok(false)
    }

    /// Returns the names of packages in a version that neither the current nor the new lock file has.
    fn foreign(&self, after: &LockText) -> BTreeSet<String> {
        let (current, target) = (self.current.packages(), self.target.packages());
        let packages = after.packages();
        let foreign = packages.into_iter().filter(|one| !current.contains(one) && !target.contains(one));
        foreign.map(|one| one.name.clone()).collect()
    }

    /// Adds a step, if the update was done and nothing moved away from the new lock file.
    fn push(&mut self, update: &Update, lockfile: Vec<u8>, after: LockText) -> bool {
        let left = after.updates_to(self.target);
        let is_done = !left.contains(update) && left.len() < self.current.updates_to(self.target).len();
        if is_done {
            let mut moved = lock_differences::moved(self.current.versions(), after.versions());
            moved.sort_by_key(|one| one.name != update.name);
            self.steps.push(ChainStep { lockfile, moved });
            self.current = after;
        }
        is_done
    }
}

/// Returns a short name for each step that no other step has: `serde@1.0.200 +2`.
pub fn names(steps: &[ChainStep]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for step in steps {
        let update = step.moved.first().map(|one| match (&one.to, &one.to_source) {
            (Some(to), Some(source)) if one.from == one.to => format!("{}@{to} ({source})", one.name),
            (Some(to), _) => format!("{}@{to}", one.name),
            (None, _) => format!("without {}", one.name),
        });
        let first = update.unwrap_or_default();
        let more = step.moved.len().saturating_sub(1);
        let name = if more > 0 { format!("{first} +{more}") } else { first };
        let same = names.iter().filter(|known| **known == name).count();
        names.push(if same > 0 { format!("{name} (again, step {})", names.len() + 1) } else { name });
    }
    names
}

/// How many packages of a group are named.
const MOST_NAMES: usize = 4;

/// Returns a step in words: `serde 1.0.180 → 1.0.200, serde_derive 1.0.180 → 1.0.200`.
pub fn words(moved: &[MovedDependency]) -> String {
    some(&moved.iter().map(MovedDependency::words).collect::<Vec<_>>(), MOST_NAMES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bisect::lockfile::lock_text::tests::text;

    /// Plays cargo: `rules` are pairs of packages that must both be old or both be new.
    fn steps(old: &str, new: &str, rules: &[(&str, &str)]) -> Vec<String> {
        let mut calls = 0;
        let target = LockText::read(&text(new));
        let mut resolve = |composed: &[u8]| {
            calls += 1;
            let mut lock = LockText::read(&String::from_utf8_lossy(composed));
            for (one, other) in rules {
                let left = lock.updates_to(&target);
                let is_old = |name: &str| left.iter().any(|update| update.name == name);
                match (is_old(one), is_old(other)) {
                    // The first pulls the second along; the second cannot move alone.
                    (false, true) => {
                        let along: Vec<_> =
                            left.iter().filter(|update| update.name == *other).cloned().collect();
                        lock = LockText::read(&lock.with(&along, &target));
                    }
                    // As cargo says it if the second is of no use to it.
                    (true, false) if *other != "core" => return Ok(Err(format!("{other} needs {one}"))),
                    (true, false) => {
                        return Ok(Err(format!("error: failed to select a version for `{one}`.\n    ... x")));
                    }
                    _ => {}
                }
            }
            Ok(Ok(lock.with(&[], &target).into_bytes()))
        };
        let steps = chain(text(old).as_bytes(), text(new).as_bytes(), &mut resolve, |_, _| {}).unwrap();
        let last = steps.last().map(|step| LockText::read(&String::from_utf8_lossy(&step.lockfile)));
        assert_eq!(last.unwrap().packages(), target.packages(), "the chain ends at the new lock file");
        assert!(calls < 100);
        steps.iter().map(|step| words(&step.moved)).collect()
    }

    #[test]
    fn each_step_is_one_package() {
        let of = steps("a 1.0.0: b, b 1.0.0, c 1.0.0", "a 1.0.1: b, b 1.0.1, c 1.0.1", &[]);
        assert_eq!(of, ["b 1.0.0 → 1.0.1", "a 1.0.0 → 1.0.1", "c 1.0.0 → 1.0.1"]);
    }

    #[test]
    fn packages_that_only_move_together_are_one_step() {
        let of = steps(
            "derive 1.0.0, other 1.0.0, serde 1.0.0: derive",
            "derive 1.0.1, other 1.0.1, serde 1.0.1: derive",
            &[("serde", "derive")],
        );
        assert_eq!(of, ["serde 1.0.0 → 1.0.1, derive 1.0.0 → 1.0.1", "other 1.0.0 → 1.0.1"]);
    }

    #[test]
    fn what_cargo_names_in_a_conflict_moves_too() {
        let of = steps("core 1.0.0, derive 1.0.0", "core 1.0.1, derive 1.0.1", &[("derive", "core")]);
        assert_eq!(of, ["core 1.0.0 → 1.0.1, derive 1.0.0 → 1.0.1"]);
        let message = "error: failed to select a version for `serde_derive`.\n    ... required by package `serde_core v1.0.228`\n\
                       \n  previously selected package `serde_derive v1.0.210`\n";
        assert_eq!(in_conflict(message), BTreeSet::from(["serde_derive".to_owned()]));
    }

    #[test]
    fn a_package_that_comes_belongs_to_the_one_that_needs_it() {
        let moved = |name: &str| MovedDependency {
            name: name.to_owned(),
            from: Some("1.0.0".to_owned()),
            to: Some("1.0.1".to_owned()),
            from_source: None,
            to_source: None,
        };
        let step = |of: &[&str]| ChainStep {
            lockfile: Vec::new(),
            moved: of.iter().map(|name| moved(name)).collect(),
        };
        let named = names(&[step(&["a"]), step(&["b", "c"]), step(&["a"])]);
        assert_eq!(named, ["a@1.0.1", "b@1.0.1 +1", "a@1.0.1 (again, step 3)"]);
        let of = steps("a 1.0.0, b 1.0.0", "a 1.1.0: c, b 1.0.1, c 0.1.0", &[]);
        assert_eq!(of, ["a 1.0.0 → 1.1.0, c 0.1.0 is new", "b 1.0.0 → 1.0.1"]);
    }

    #[test]
    fn the_same_version_of_another_commit_is_a_step_with_a_name() {
        let [old, new] = ["209b113", "c73fd12"].map(|commit| {
            text("a 1.0.0, b 1.0.0").replace("registry+x", &format!("git+https://x.org/x#{commit}"))
        });
        let target = LockText::read(&new);
        let mut resolve = |composed: &[u8]| Ok(Ok(composed.to_vec()));
        let steps = chain(old.as_bytes(), new.as_bytes(), &mut resolve, |_, _| {}).unwrap();
        let moved: Vec<String> = steps.iter().map(|step| words(&step.moved)).collect();
        assert_eq!(moved, ["a 1.0.0 (209b113 → c73fd12)", "b 1.0.0 (209b113 → c73fd12)"]);
        assert_eq!(names(&steps), ["a@1.0.0 (c73fd12)", "b@1.0.0 (c73fd12)"]);
        let last = LockText::read(&String::from_utf8_lossy(&steps[1].lockfile));
        assert_eq!(last.packages(), target.packages());
    }

    #[test]
    fn what_never_resolves_alone_is_the_last_step() {
        let target = text("a 1.0.1, b 1.0.1");
        let mut resolve = |_: &[u8]| Ok(Err("no".to_owned()));
        let steps =
            chain(text("a 1.0.0, b 1.0.0").as_bytes(), target.as_bytes(), &mut resolve, |_, _| {}).unwrap();
        assert_eq!(steps.len(), 1);
        assert_eq!(words(&steps[0].moved), "a 1.0.0 → 1.0.1, b 1.0.0 → 1.0.1");
        assert_eq!(steps[0].lockfile, target.as_bytes());
    }
}
