//! Members of a workspace whose name a dependency has, too. Tests for compatibility use earlier
//! versions of their own package.

use cargo_metadata::Metadata;

/// Returns cargo's arguments with the version of each named member whose name is twice in the lock
/// file. Without it, cargo asks which package is meant. A lock file that is `shared` with other revisions
/// may lack what this one needs, and cargo adds it.
pub(crate) fn added(
    arguments: &[String],
    lockfile: &str,
    shared: bool,
    metadata: impl FnOnce() -> anyhow::Result<Metadata>,
) -> Vec<String> {
    let mut arguments = arguments.to_vec();
    let may_be_ambiguous = |name: &str| {
        let line = format!("name = \"{name}\"");
        shared || lockfile.lines().filter(|other| *other == line).count() > 1
    };
    let named = |at: &usize| arguments[at - 1] == "--package" && may_be_ambiguous(&arguments[*at]);
    let places: Vec<usize> = (1..arguments.len()).filter(named).collect();
    if places.is_empty() {
        return arguments;
    }
    // A manifest that cargo cannot read fails the build, with a better message.
    let Ok(metadata) = metadata() else { return arguments };
    for place in places {
        if let Some(member) = metadata.packages.iter().find(|member| *member.name == arguments[place]) {
            // Old versions of cargo know no `@` here.
            arguments[place] = format!("{}:{}", member.name, member.version);
        }
    }
    arguments
}
