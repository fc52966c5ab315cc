//! Reads overlay files from a ref or from the disk.

use std::collections::BTreeMap;

use anyhow::{Context, ensure};
use camino::{Utf8Path, Utf8PathBuf};
use walkdir::WalkDir;

use crate::git::repository::Repository;
use crate::git::reserved_names::reserved_part;
use memprof_plan::request::{OverlayMode, OverlayPath, OverlayRequest};
use memprof_support::counted::counted;
use memprof_support::regular_file::followed;
use memprof_support::user_error::UserError;

/// One file of an overlay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OverlayFile {
    /// The package whose folder the destination is relative to. `None` means the repository's root.
    pub package: Option<String>,
    /// Where it goes.
    pub destination: Utf8PathBuf,
    pub content: Vec<u8>,
    /// How it becomes part of the build.
    pub mode: OverlayMode,
}

/// Returns the first names of files: `tests/a.rs, tests/b.rs and 3 more files`.
pub(crate) fn some_names(files: &[OverlayFile]) -> String {
    let most = 3;
    let first: Vec<&str> = files.iter().take(most).map(|file| file.destination.as_str()).collect();
    match files.len().saturating_sub(most) {
        0 => first.join(", "),
        more => format!("{} and {}", first.join(", "), counted(more, "more file")),
    }
}

/// Reads all files of all overlays. `commits` are the overlays' sources, as in the plan.
pub fn read(
    overlays: &[OverlayRequest],
    commits: &[Option<String>],
    repository: &Repository,
) -> anyhow::Result<Vec<OverlayFile>> {
    let mut files = Vec::new();
    for (overlay, commit) in overlays.iter().zip(commits) {
        for path in &overlay.paths {
            let found = match commit {
                Some(commit) => from_commit(repository, commit, path)?,
                None => from_disk(repository.root(), path)?,
            };
            let origin = overlay.from.as_deref().unwrap_or("the disk");
            if found.is_empty() {
                return Err(UserError::new(format!("overlay: no file '{}' in {origin}", path.source))
                    .help("paths of a ref are relative to the repository's root")
                    .into());
            }
            for (below, content) in found {
                let destination = destination(overlay, path, &below);
                ensure!(
                    destination.is_relative(),
                    "overlay: the destination '{destination}' must be relative"
                );
                refuse_git_files(&destination)?;
                let (package, mode) = (overlay.package.clone(), overlay.mode);
                files.push(OverlayFile { package, destination, content, mode });
            }
        }
    }
    Ok(files)
}

/// Refuses to replace git's own files in the checkout.
fn refuse_git_files(destination: &Utf8Path) -> anyhow::Result<()> {
    let Some(part) = reserved_part(destination) else { return Ok(()) };
    Err(UserError::new(format!(
        "overlay: '{destination}' cannot be written, because git keeps the name '{part}' for itself"
    ))
    .help("name a file and another destination: --overlay FILE=tests/NAME.rs")
    .into())
}

/// Path below the overlay's path (empty for the file itself), and content.
type FoundFiles = Vec<(Utf8PathBuf, Vec<u8>)>;

fn from_commit(repository: &Repository, commit: &str, path: &OverlayPath) -> anyhow::Result<FoundFiles> {
    let source = path.source.trim_end_matches('/');
    let names = repository.files(commit, source)?;
    let read = |name: String| {
        let content =
            repository.show(commit, &name)?.with_context(|| format!("{name} is missing in {commit}"))?;
        let below = Utf8Path::new(&name).strip_prefix(source).unwrap_or(Utf8Path::new(&name)).to_owned();
        Ok((below, content))
    };
    names.into_iter().map(read).collect()
}

fn from_disk(base: &Utf8Path, path: &OverlayPath) -> anyhow::Result<FoundFiles> {
    let source = base.join(path.source.trim_end_matches('/'));
    if !source.exists() {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    for entry in WalkDir::new(&source).sort_by_file_name() {
        let entry = entry?;
        if entry.file_type().is_dir() {
            continue;
        }
        let file = Utf8Path::from_path(entry.path()).context("an overlay file's name is not UTF-8")?;
        let below = file.strip_prefix(&source).unwrap_or(file);
        found.push((below.to_owned(), followed::read(file)?));
    }
    Ok(found)
}

/// Returns where a file goes. If no destination is given, a package's file keeps its path from
/// `tests`, `src`, `benches` or `examples` on, so that `crates/x/tests/a.rs` becomes `tests/a.rs`.
/// Other files keep their whole path.
fn destination(overlay: &OverlayRequest, path: &OverlayPath, below: &Utf8Path) -> Utf8PathBuf {
    let join = |base: &Utf8Path| if below.as_str().is_empty() { base.to_owned() } else { base.join(below) };
    if let Some(destination) = &path.destination {
        let named_as_folder = destination.ends_with('/') && below.as_str().is_empty();
        let base = Utf8Path::new(destination);
        let name = Utf8Path::new(&path.source).file_name();
        return match name.filter(|_| named_as_folder) {
            Some(name) => base.join(name),
            None => join(base),
        };
    }
    let source = Utf8Path::new(&path.source);
    let in_crate = overlay.package.is_some() || overlay.mode == OverlayMode::External;
    if !in_crate {
        // A path on disk may begin with `./` or be absolute, but a path in the checkout must not.
        let relative = source.strip_prefix("./").unwrap_or(source);
        return if relative.is_absolute() { join(Utf8Path::new(&in_tests(source))) } else { join(relative) };
    }
    let parts: Vec<&str> = source.components().map(|part| part.as_str()).collect();
    let start = parts.iter().rposition(|part| ["tests", "src", "benches", "examples"].contains(part));
    match start {
        Some(start) => join(&parts[start..].iter().collect::<Utf8PathBuf>()),
        None => join(Utf8Path::new(&in_tests(source))),
    }
}

fn in_tests(source: &Utf8Path) -> String {
    format!("tests/{}", source.file_name().unwrap_or_default())
}

/// Returns the path and hash of every file, for the build key.
pub fn ingredients(files: &[OverlayFile]) -> BTreeMap<String, String> {
    let name = |file: &OverlayFile| {
        format!("{:?} {}/{}", file.mode, file.package.as_deref().unwrap_or_default(), file.destination)
    };
    files.iter().map(|file| (name(file), blake3::hash(&file.content).to_hex().to_string())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn goes_to(source: &str, destination: Option<&str>, package: Option<&str>) -> String {
        let path = OverlayPath { source: source.into(), destination: destination.map(Into::into) };
        let overlay = OverlayRequest {
            from: None,
            paths: vec![path.clone()],
            package: package.map(Into::into),
            mode: OverlayMode::Package,
            dependencies: BTreeMap::new(),
        };
        super::destination(&overlay, &path, Utf8Path::new("")).to_string()
    }

    #[test]
    fn a_file_goes_where_it_was_unless_said_otherwise() {
        assert_eq!(goes_to("./tests/a.rs", None, None), "tests/a.rs");
        assert_eq!(goes_to("a.rs", Some("tests/b.rs"), None), "tests/b.rs");
        assert_eq!(goes_to("x/a.rs", Some("tests/"), None), "tests/a.rs");
        assert_eq!(goes_to("/tmp/mem.rs", None, None), "tests/mem.rs");
    }

    #[test]
    fn an_overlay_onto_gits_own_files_is_refused_with_advice() {
        for destination in [".git", "tests/other/.git/config", ".GIT/hooks/x", "git~1"] {
            let error = refuse_git_files(destination.into()).unwrap_err();
            assert!(error.to_string().contains("git keeps the name"), "{destination}: {error}");
            let help = memprof_support::advice::help(&error).unwrap();
            assert!(help.contains("--overlay FILE=tests/NAME.rs"), "{help}");
        }
        refuse_git_files(".github/x.rs".into()).unwrap();
    }

    #[test]
    fn in_a_package_the_folder_of_sources_decides() {
        assert_eq!(goes_to("crates/x/tests/a.rs", None, Some("x")), "tests/a.rs");
        assert_eq!(goes_to("a.rs", None, Some("x")), "tests/a.rs");
    }
}
