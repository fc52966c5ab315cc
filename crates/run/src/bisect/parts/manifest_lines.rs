//! Changed lines of a manifest: one change for each key, and the names of dependencies.

use std::ops::Range;

/// Splits changed lines into one change for each key, if each line has a key of its own.
pub(crate) fn split(
    old: &[&str],
    new: &[&str],
    (of_old, of_new): (Range<usize>, Range<usize>),
) -> Vec<(Range<usize>, Range<usize>)> {
    let whole = vec![(of_old.clone(), of_new.clone())];
    let keys =
        |lines: &[&str]| lines.iter().map(|line| key(line).map(str::to_owned)).collect::<Option<Vec<_>>>();
    let (Some(before), Some(after)) = (keys(&old[of_old.clone()]), keys(&new[of_new.clone()])) else {
        return whole;
    };
    let mut found = Vec::new();
    let (mut gone, mut added) = (0, 0);
    while gone < before.len() || added < after.len() {
        let (taken, brought) = match (before.get(gone), after.get(added)) {
            (Some(one), Some(other)) if one == other => (1, 1),
            (Some(one), _) if !after[added..].contains(one) => (1, 0),
            (_, Some(other)) if !before[gone..].contains(other) => (0, 1),
            // The keys have another order.
            _ => return whole,
        };
        let (first, second) = (of_old.start + gone, of_new.start + added);
        found.push((first..first + taken, second..second + brought));
        gone += taken;
        added += brought;
    }
    found
}

/// Returns the key of a line that has a whole value: `serde` of `serde = { version = "1" }`.
fn key(line: &str) -> Option<&str> {
    let (key, value) = line.split_once('=')?;
    let key = key.trim();
    let is_key = !key.is_empty() && key.chars().all(|one| one.is_alphanumeric() || "-_.\"".contains(one));
    let count = |brackets: [char; 2]| value.matches(brackets).count();
    let is_whole = count(['[', '{']) == count([']', '}']) && value.matches("\"\"\"").count() % 2 == 0;
    (is_key && is_whole).then_some(key)
}

/// Returns the name of the dependency that these lines of a manifest belong to, if they are in a table of its
/// own: `serde` below `[dependencies.serde]`.
pub(crate) fn dependency_of_table(lines: &[&str], first: usize) -> Option<String> {
    let header = lines.get(..=first)?.iter().rev().find(|line| line.trim_start().starts_with('['))?;
    let name = header.trim().trim_matches(['[', ']']);
    let (table, name) = name.rsplit_once('.')?;
    table.contains("dependencies").then(|| as_identifier(name.trim_matches('"')))
}

/// Returns the package that a renamed dependency stands for: `serde` of `old = { package = "serde" }`.
pub(crate) fn renamed(line: &str) -> Option<String> {
    let (_, after) = line.split_once("package")?;
    let name = after.trim_start().strip_prefix('=')?.split('"').nth(1)?;
    Some(as_identifier(name))
}

/// Returns a package's name as code and messages may have it.
pub(crate) fn as_identifier(name: &str) -> String {
    name.replace('-', "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(old: &str, new: &str) -> Vec<(Range<usize>, Range<usize>)> {
        let [old, new] = [old, new].map(|text| text.lines().collect::<Vec<_>>());
        split(&old, &new, (0..old.len(), 0..new.len()))
    }

    #[test]
    fn each_dependency_is_a_change_of_its_own() {
        assert_eq!(shown("a = \"1\"\nb = \"1\"", "a = \"2\"\nb = \"2\""), [(0..1, 0..1), (1..2, 1..2)]);
        assert_eq!(
            shown("a = \"1\"\nb = { version = \"1\" }", "b = { version = \"2\" }\nc = \"1\""),
            [(0..1, 0..0), (1..2, 0..1), (2..2, 1..2)]
        );
    }

    #[test]
    fn lines_without_a_whole_value_and_another_order_stay_together() {
        assert_eq!(shown("a = [\n\"x\",", "a = [\n\"y\","), [(0..2, 0..2)]);
        assert_eq!(shown("a = 1\nb = 1", "b = 2\na = 2"), [(0..2, 0..2)]);
    }

    #[test]
    fn a_dependency_has_its_name_in_the_header_or_behind_package() {
        let lines = ["[package]", "name = \"x\"", "[dependencies.serde-json]", "version = \"1\""];
        assert_eq!(dependency_of_table(&lines, 3).as_deref(), Some("serde_json"));
        assert_eq!(dependency_of_table(&lines, 1), None);
        assert_eq!(
            renamed("old = { package = \"some-crate\", version = \"1\" }").as_deref(),
            Some("some_crate")
        );
        assert_eq!(renamed("name = \"package\""), None);
    }
}
