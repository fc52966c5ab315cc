//! Warns of cargo's configuration in a folder below the workspace's root. Cargo reads it if it is called there, and this
//! program calls it at the root.

use camino::{Utf8Path, Utf8PathBuf};

use crate::git::repository::Repository;
use memprof_plan::resolved::Plan;
use memprof_support::event::{Event, Sink};

/// Warns of the configuration that cargo would read where the user is, and adds that to the plan's notes.
pub fn note(plan: &mut Plan, repository: &Repository, sink: &dyn Sink) {
    let Some(path) = unread(repository.root(), repository.start(), &plan.workspace) else { return };
    let message = format!("{path} does not count: cargo is called at the workspace's root");
    let file = repository.root().join(&path);
    sink.emit(Event::Warning {
        message: message.clone(),
        help: Some(format!("if it matters, add --config {file}")),
    });
    plan.notes.push(message);
}

/// Returns the nearest configuration between a folder and the workspace around it, relative to the repository's root.
fn unread(root: &Utf8Path, start: &Utf8Path, workspace: &Utf8Path) -> Option<Utf8PathBuf> {
    let start = start.strip_prefix(root).ok()?;
    let folders =
        start.ancestors().take_while(|folder| *folder != workspace && folder.starts_with(workspace));
    let files =
        folders.flat_map(|folder| [".cargo/config.toml", ".cargo/config"].map(|file| folder.join(file)));
    files.into_iter().find(|file| root.join(file).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configuration_between_the_users_folder_and_the_workspace_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let root = Utf8Path::from_path(folder.path()).unwrap();
        for path in [".cargo/config.toml", "ws/.cargo/config.toml", "ws/m/a/.cargo/config", "ws/m/b/src/x"] {
            let file = root.join(path);
            fs_err::create_dir_all(file.parent().unwrap()).unwrap();
            fs_err::write(file, "").unwrap();
        }
        let found = |start: &str| unread(root, &root.join(start), "ws".into());
        assert_eq!(found("ws/m/a/src").as_deref(), Some("ws/m/a/.cargo/config".into()));
        for start in ["ws/m/b/src", "ws/m", "ws", ""] {
            assert_eq!(found(start), None, "{start}");
        }
        assert_eq!(
            unread(root, &root.join("ws/m"), "".into()).as_deref(),
            Some("ws/.cargo/config.toml".into())
        );
    }
}
