//! The lock files between which a search looks: of two revisions, or files that a user names.

use memprof_run::bisect::lockfile::lock_text::LockText;

use super::Target;

pub const TARGET: Target = Target {
    name: "lock_text",
    check,
    seeds,
    words: &[
        "[[package]]\n",
        "name = \"a\"\n",
        "version = \"1.0.0\"\n",
        "source = \"registry+https://github.com/rust-lang/crates.io-index\"\n",
        "checksum = \"00\"\n",
        "dependencies = [\n \"a\",\n]\n",
        "version = 4\n",
        "\n\n",
        "\r\n",
        "[metadata]\n",
    ],
};

/// An input is two lock files, separated by a zero byte. From each to the other, all updates are put into
/// an order, and the result is read again.
pub fn check(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let (old, new) = text.split_once('\0').unwrap_or((&text, ""));
    let (old, new) = (LockText::read(old), LockText::read(new));
    let updates = old.updates_to(&new);
    let ordered = new.dependencies_first(&updates);
    let sorted = |mut list: Vec<String>| {
        list.sort();
        list
    };
    let shown = |updates: &[_]| sorted(updates.iter().map(|update| format!("{update:?}")).collect());
    let distinct = |mut list: Vec<String>| {
        list.dedup();
        list
    };
    assert_eq!(distinct(shown(&ordered)), distinct(shown(&updates)), "no update is lost");
    let written = LockText::read(&old.with(&updates, &new));
    assert!(written.versions().count() <= old.versions().count() + new.versions().count());
}

fn seeds() -> Vec<Vec<u8>> {
    let lock = |packages: &[(&str, &str, &str)]| {
        let package = |(name, version, needs): &(&str, &str, &str)| {
            let needs = if needs.is_empty() {
                String::new()
            } else {
                format!("dependencies = [\n \"{needs}\",\n]\n")
            };
            format!("\n[[package]]\nname = \"{name}\"\nversion = \"{version}\"\n{needs}")
        };
        format!("version = 4\n{}", packages.iter().map(package).collect::<String>())
    };
    let pairs = [
        (lock(&[("a", "1.0.0", "b"), ("b", "1.0.0", "")]), lock(&[("a", "1.0.1", "b"), ("b", "1.2.0", "")])),
        (
            lock(&[("a", "1.0.0", "b"), ("b", "1.0.0", "a")]),
            lock(&[("a", "1.1.0", "b"), ("b", "1.1.0", "a")]),
        ),
        (lock(&[("a", "1.0.0", ""), ("a", "2.0.0", "")]), lock(&[("a", "1.0.1", ""), ("a", "2.0.1", "")])),
        (String::new(), lock(&[("a", "0.1.0", "")])),
    ];
    pairs.into_iter().map(|(old, new)| format!("{old}\0{new}").into_bytes()).collect()
}
