//! A lock file as text in parts: one for each package. Parts move from one lock file into another.

use std::collections::{BTreeMap, BTreeSet};

use memprof_plan::lock_differences::{LockedPackage, LockedVersion, is_compatible, locked};

/// A lock file in parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockText {
    /// What stands before the packages.
    head: String,
    /// The packages, in the order of the file.
    parts: Vec<Part>,
}

/// One package of a lock file.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Part {
    package: LockedPackage,
    /// The text, with its dependencies.
    text: String,
    /// The names of its dependencies.
    dependencies: BTreeSet<String>,
}

/// An update that one lock file has and another has not: a package that moves from one version to
/// another one that meets the same requirements.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Update {
    /// The package.
    pub name: String,
    /// The version before.
    pub from: String,
    /// The version after.
    pub to: String,
}

const PACKAGE: &str = "[[package]]";

impl LockText {
    /// Reads a lock file as cargo writes it. A package begins at a line that says so, wherever blank lines
    /// are: what is read from the text that [`Self::with`] writes must be what was written.
    pub fn read(text: &str) -> Self {
        let mut lock = Self { head: String::new(), parts: Vec::new() };
        let text = text.replace("\r\n", "\n");
        for piece in text.split("\n\n").flat_map(pieces) {
            if piece.lines().next() == Some(PACKAGE) {
                if let [package] = &locked(piece.as_bytes())[..] {
                    let (package, dependencies) = (package.clone(), dependencies(&piece));
                    lock.parts.push(Part { package, text: piece, dependencies });
                }
            // Cargo writes the other tables again: unused patches, and the metadata of old lock files.
            } else if !piece.starts_with('[') {
                lock.head.push_str(&piece);
                lock.head.push_str("\n\n");
            }
        }
        lock
    }

    /// Returns the packages.
    pub fn packages(&self) -> BTreeSet<&LockedPackage> {
        self.parts.iter().map(|part| &part.package).collect()
    }

    /// Returns names, versions and sources, for a comparison.
    pub fn versions(&self) -> impl Iterator<Item = (&str, LockedVersion<'_>)> {
        self.parts.iter().map(|part| part.package.named())
    }

    fn part(&self, name: &str, version: &str) -> Option<&Part> {
        self.parts.iter().find(|part| part.package.name == name && part.package.version == version)
    }

    /// Returns the updates that lead from this lock file to another one. Packages that come or go are
    /// no updates of their own: they follow from those that need them.
    pub fn updates_to(&self, target: &Self) -> Vec<Update> {
        let (own, others) = (self.packages(), target.packages());
        let gone = own.difference(&others);
        let mut added: Vec<&&LockedPackage> = others.difference(&own).collect();
        let mut updates = Vec::new();
        for old in gone {
            let is_next = |new: &&&LockedPackage| {
                new.name == old.name
                    && (is_compatible(&old.version, &new.version) || old.version == new.version)
            };
            let Some(place) = added.iter().position(is_next) else { continue };
            let to = added.remove(place).version.clone();
            updates.push(Update { name: old.name.clone(), from: old.version.clone(), to });
        }
        updates
    }

    /// Returns the updates in an order in which most can be applied one by one: what a package depends
    /// on comes before it. A package comes soon after its dependencies, because they may not compile
    /// with its old version.
    pub fn dependencies_first(&self, updates: &[Update]) -> Vec<Update> {
        let names: BTreeSet<&str> = updates.iter().map(|update| update.name.as_str()).collect();
        let mut needs: BTreeMap<&str, BTreeSet<&str>> =
            names.iter().map(|name| (*name, self.dependencies_of(name, &names))).collect();
        let mut order: Vec<&str> = Vec::new();
        while let Some(next) = needs.keys().find(|name| needs[*name].is_empty()).or(needs.keys().next()) {
            // Without a package that is ready, dev-dependencies lead in a circle. It is broken anywhere.
            let mut ready = vec![*next];
            while let Some(name) = ready.pop() {
                if needs.remove(name).is_none() {
                    continue;
                }
                order.push(name);
                for left in needs.values_mut() {
                    left.remove(name);
                }
                // Packages that were waiting for this one come next, in the order of their names.
                let waited = needs.iter().filter(|(user, left)| {
                    left.is_empty() && self.dependencies_of(user, &names).contains(name)
                });
                ready.extend(waited.map(|(user, _)| *user).rev());
            }
        }
        let of_name =
            |name: &&str| updates.iter().filter(|update| update.name == *name).cloned().collect::<Vec<_>>();
        order.iter().flat_map(of_name).collect()
    }

    /// Returns which of these packages a package depends on.
    fn dependencies_of<'a>(&'a self, name: &str, among: &BTreeSet<&'a str>) -> BTreeSet<&'a str> {
        let parts = self.parts.iter().filter(|part| part.package.name == name);
        let all = parts.flat_map(|part| part.dependencies.iter().map(String::as_str));
        all.filter(|one| *one != name && among.contains(one)).collect()
    }

    /// Returns the packages that depend on one.
    pub fn users(&self, name: &str) -> BTreeSet<&str> {
        let users = self.parts.iter().filter(|part| part.dependencies.contains(name));
        users.map(|part| part.package.name.as_str()).collect()
    }

    /// Returns this lock file with those packages of another one that it has in no version that replaces
    /// them.
    pub fn with_missing(&self, other: &Self) -> String {
        let replaces = |own: &Part, one: &Part| {
            own.package.name == one.package.name && is_compatible(&own.package.version, &one.package.version)
        };
        let is_missing =
            |one: &&Part| !self.parts.iter().any(|own| own.package == one.package || replaces(own, one));
        let missing = other.parts.iter().filter(is_missing);
        let texts: Vec<&str> = self.parts.iter().chain(missing).map(|part| part.text.as_str()).collect();
        format!("{}{}\n", self.head, texts.join("\n\n"))
    }

    /// Returns this lock file with some updates applied: their parts come from `target`, and so do the
    /// packages that they need and this lock file lacks. Cargo has to resolve it.
    pub fn with(&self, updates: &[Update], target: &Self) -> String {
        let mut parts: BTreeMap<(&str, &str), &Part> =
            self.parts.iter().map(|part| (key(part), part)).collect();
        let mut wanted: Vec<&str> = Vec::new();
        for update in updates {
            let Some(new) = target.part(&update.name, &update.to) else { continue };
            parts.remove(&(update.name.as_str(), update.from.as_str()));
            parts.insert(key(new), new);
            wanted.extend(new.dependencies.iter().map(String::as_str));
        }
        let mut seen: BTreeSet<&str> = BTreeSet::new();
        while let Some(name) = wanted.pop() {
            if !seen.insert(name) {
                continue;
            }
            for new in target.parts.iter().filter(|part| part.package.name == name) {
                let is_update = self.parts.iter().any(|own| {
                    own.package.name == name && is_compatible(&own.package.version, &new.package.version)
                });
                if !is_update {
                    parts.insert(key(new), new);
                    wanted.extend(new.dependencies.iter().map(String::as_str));
                }
            }
        }
        let texts: Vec<&str> = parts.values().map(|part| part.text.as_str()).collect();
        format!("{}{}\n", self.head, texts.join("\n\n"))
    }
}

fn key(part: &Part) -> (&str, &str) {
    (&part.package.name, &part.package.version)
}

/// Returns a block's packages, and what stands before them.
fn pieces(block: &str) -> Vec<String> {
    let mut pieces: Vec<Vec<&str>> = Vec::new();
    for line in block.trim_matches('\n').lines() {
        match pieces.last_mut() {
            Some(piece) if line != PACKAGE => piece.push(line),
            _ => pieces.push(vec![line]),
        }
    }
    pieces.into_iter().map(|lines| lines.join("\n")).collect()
}

/// Returns the names in the list of dependencies of a part.
fn dependencies(text: &str) -> BTreeSet<String> {
    let Some((_, list)) = text.split_once("\ndependencies = [") else { return BTreeSet::new() };
    let list = list.split(']').next().unwrap_or_default();
    let names = list.split(',').filter_map(|one| one.trim().trim_matches('"').split(' ').next());
    names.filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A lock file of `name version` with dependencies behind a colon.
    pub(crate) fn lock(packages: &str) -> LockText {
        LockText::read(&text(packages))
    }

    pub(crate) fn text(packages: &str) -> String {
        let part = |line: &str| {
            let (package, dependencies) = line.split_once(':').unwrap_or((line, ""));
            let (name, version) = package.trim().split_once(' ').unwrap();
            let names: Vec<&str> = dependencies.split_whitespace().collect();
            let list = names.iter().map(|name| format!(" \"{name}\",\n")).collect::<Vec<_>>().concat();
            let list = if names.is_empty() { String::new() } else { format!("dependencies = [\n{list}]\n") };
            format!(
                "[[package]]\nname = \"{name}\"\nversion = \"{version}\"\nsource = \"registry+x\"\n{list}"
            )
        };
        let parts: Vec<String> = packages.split(", ").map(part).collect();
        format!("# by cargo\nversion = 4\n\n{}", parts.join("\n"))
    }

    fn shown(updates: &[Update]) -> String {
        updates
            .iter()
            .map(|one| format!("{} {} {}", one.name, one.from, one.to))
            .collect::<Vec<_>>()
            .join(", ")
    }

    #[test]
    fn updates_lead_from_one_lock_file_to_another() {
        let old = lock("a 1.0.0: b, b 1.0.0, old 1.0.0, same 1.0.0, syn 1.0.1, syn 2.0.1");
        let new = lock("a 1.1.0: b c, b 1.0.2, c 1.0.0, same 1.0.0, syn 1.0.1, syn 2.0.9");
        let updates = old.updates_to(&new);
        assert_eq!(shown(&updates), "a 1.0.0 1.1.0, b 1.0.0 1.0.2, syn 2.0.1 2.0.9");
        let ordered = new.dependencies_first(&updates);
        assert_eq!(shown(&ordered), "b 1.0.0 1.0.2, a 1.0.0 1.1.0, syn 2.0.1 2.0.9", "a follows its b");
    }

    #[test]
    fn an_update_brings_the_packages_that_it_needs() {
        let old = lock("a 1.0.0: b, b 1.0.0");
        let new = lock("a 1.1.0: b c, b 1.0.2, c 1.0.0: d, d 0.1.0, e 1.0.0");
        let update = Update { name: "a".into(), from: "1.0.0".into(), to: "1.1.0".into() };
        let composed = LockText::read(&old.with(&[update], &new));
        let packages: Vec<String> =
            composed.versions().map(|(name, one)| format!("{name} {}", one.version)).collect();
        assert_eq!(packages, ["a 1.1.0", "b 1.0.0", "c 1.0.0", "d 0.1.0"]);
        assert!(old.with(&[], &new).starts_with("# by cargo\nversion = 4\n\n[[package]]\nname = \"a\"\n"));
    }

    #[test]
    fn a_package_begins_at_a_line_of_its_own() {
        let one = |name: &str| format!("[[package]]\nname = \"{name}\"\nversion = \"1.0.0\"\n");
        let read = LockText::read(&format!("version = 4\n\nx[{}{}", one("damaged"), one("a") + &one("b")));
        let again = LockText::read(&read.with(&[], &read));
        for lock in [read, again] {
            let versions: Vec<_> = lock.versions().map(|(name, one)| (name, one.version)).collect();
            assert_eq!(versions, [("a", "1.0.0"), ("b", "1.0.0")]);
        }
    }

    #[test]
    fn a_circle_of_dependencies_has_an_order() {
        let old = lock("a 1.0.0: b, b 1.0.0: a");
        let new = lock("a 1.0.1: b, b 1.0.1: a");
        assert_eq!(new.dependencies_first(&old.updates_to(&new)).len(), 2);
    }
}
