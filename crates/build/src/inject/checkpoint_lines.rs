//! Warns of `--checkpoint-at` places that are different code in different revisions.

use crate::git::repository::Repository;
use memprof_plan::checkpoint_at::CheckpointAt;
use memprof_plan::lock_differences::{LockedPackage, locked};
use memprof_plan::resolved::{Plan, Revision};
use memprof_support::event::{Event, Sink};
use memprof_support::user_error::UserError;

/// Warns of each checkpoint whose line has another text in another revision, and adds this to the
/// plan's notes.
///
/// # Errors
/// A checkpoint is for a ref that is not compared.
pub fn note(plan: &mut Plan, repository: &Repository, sink: &dyn Sink) -> anyhow::Result<()> {
    let mut notes = Vec::new();
    for checkpoint in &plan.request.checkpoints_at {
        if !plan.revisions.iter().any(|revision| revision.gets(checkpoint)) {
            let names: Vec<&str> = plan.revisions.iter().map(|revision| revision.name.as_str()).collect();
            let message = format!("--checkpoint-at {checkpoint}: this ref is not among {}", names.join(", "));
            return Err(UserError::new(message)
                .help(format!(
                    "write REF:FILE:LINE=LABEL with one of them: {}:{}={}",
                    names[0],
                    checkpoint.place(),
                    checkpoint.label
                ))
                .into());
        }
        notes.extend(difference(checkpoint, plan, repository));
        notes.extend(other_version(checkpoint, plan, repository));
    }
    for (message, help) in notes {
        sink.emit(Event::Warning { message: message.clone(), help: Some(help) });
        plan.notes.push(message);
    }
    Ok(())
}

/// Returns the warning and its help, if the line is not the same in all revisions that have the
/// file.
fn difference(checkpoint: &CheckpointAt, plan: &Plan, repository: &Repository) -> Option<(String, String)> {
    let mut lines: Vec<(&Revision, String)> = Vec::new();
    for revision in plan.revisions.iter().filter(|revision| revision.gets(checkpoint)) {
        // A link has no lines, and a file of a dependency is in no commit.
        if let Ok(Some(text)) = repository.show(&revision.commit, &checkpoint.file) {
            let text = String::from_utf8_lossy(&text);
            let line = text.lines().nth(checkpoint.line - 1).unwrap_or_default().trim();
            lines.push((revision, line.to_owned()));
        }
    }
    let (first, line) = lines.first()?;
    let (other, other_line) = lines.iter().find(|(_, other)| other != line)?;
    let place = checkpoint.place();
    let [line, other_line] = [line, other_line].map(|line| beginning(line));
    let message = format!(
        "{place} is `{line}` in {} and `{other_line}` in {}: the checkpoint '{}' stands at different code",
        first.named(),
        other.named(),
        checkpoint.label
    );
    let help = format!(
        "give each ref its own line: --checkpoint-at {}:{place}={label} --checkpoint-at {}:{}:LINE={label}",
        first.name,
        other.name,
        checkpoint.file,
        label = checkpoint.label
    );
    Some((message, help))
}

/// Returns the warning and its help, if the checkpoint is in a dependency whose version differs.
fn other_version(
    checkpoint: &CheckpointAt,
    plan: &Plan,
    repository: &Repository,
) -> Option<(String, String)> {
    let (name, file) = checkpoint.file.split_once('/')?;
    let mut locked = plan.revisions.iter().filter_map(|revision| {
        // In the repository, the path is a file of the repository.
        if !matches!(repository.tree_entry(&revision.commit, name), Ok(None)) {
            return None;
        }
        let lock = repository.show(&revision.commit, plan.workspace.join("Cargo.lock").as_str()).ok()??;
        let versions = versions(&lock, name);
        (!versions.is_empty()).then_some((revision, versions))
    });
    let (first, version) = locked.next()?;
    let (other, other_version) = locked.find(|(_, other)| *other != version)?;
    let message = format!(
        "{name} is {} in {} and {} in {}: the checkpoint '{}' at {file}:{} may stand at different code",
        version.join(", "),
        first.named(),
        other_version.join(", "),
        other.named(),
        checkpoint.label,
        checkpoint.line
    );
    let help = format!("give both the same version: cargo update -p {name} --precise {}", version[0]);
    Some((message, help))
}

/// Returns the beginning of a line of source for a message.
fn beginning(line: &str) -> String {
    const MOST: usize = 60;
    let mut shown: String = line.chars().filter(|one| !one.is_control()).take(MOST).collect();
    if line.chars().count() > MOST {
        shown.push('…');
    }
    shown
}

/// Returns the versions of a crate in a lock file.
fn versions(lock: &[u8], name: &str) -> Vec<String> {
    let is_of = |package: &LockedPackage| package.name.replace('-', "_") == name.replace('-', "_");
    locked(lock).into_iter().filter(is_of).map(|package| package.version).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_line_is_cut() {
        assert_eq!(beginning("let a = 1;\u{1b}"), "let a = 1;");
        assert_eq!(beginning(&"x".repeat(1000)), format!("{}…", "x".repeat(60)));
    }

    #[test]
    fn the_versions_of_a_crate_are_those_of_the_lock_file() {
        let lock = b"version = 4\n\n[[package]]\nname = \"serde-json\"\nversion = \"1.0.1\"\n\n[[package]]\nname = \"serde-json\"\nversion = \"2.0.0\"\n";
        assert_eq!(versions(lock, "serde_json"), ["1.0.1", "2.0.0"]);
        assert!(versions(lock, "serde").is_empty());
    }
}
