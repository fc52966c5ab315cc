//! The overlays of a request: `--overlay [REF:]SRC[=DST]` and the key `overlay`, with paths made
//! relative to the repository's root.

use std::collections::BTreeMap;

use camino::{Utf8Component, Utf8Path};

use crate::arguments::request::CheckoutArguments;
use crate::request::surroundings::{Surroundings, normalized};
use memprof_plan::checkpoint_at::CheckpointAt;
use memprof_plan::config::keep::kept;
use memprof_plan::config::mapping::OneOrMany;
use memprof_plan::config::matrix::{Matrix, OverlayEntry};
use memprof_plan::config::yaml::{List, Scalar};
use memprof_plan::request::{OverlayMode, OverlayPath, OverlayRequest};
use memprof_support::user_error::UserError;

/// Returns the overlays of the flags, or else those of memprof.yaml.
pub fn overlay(
    flags: &CheckoutArguments,
    matrix: &Matrix,
    surroundings: Surroundings<'_>,
) -> Result<Vec<OverlayRequest>, UserError> {
    if !flags.overlay.is_empty() {
        return flags.overlay.iter().map(|text| of_flag(text, flags, surroundings)).collect();
    }
    matrix
        .overlay
        .iter()
        .flat_map(|OneOrMany(entries)| entries)
        .filter(|entry| entry.patch.is_none())
        .map(|entry| of_entry(entry, surroundings))
        .collect()
}

/// Returns the patches of the flags, or else those of memprof.yaml, relative to the repository's
/// root if they are inside.
pub fn patches(
    flags: &CheckoutArguments,
    matrix: &Matrix,
    surroundings: Surroundings<'_>,
) -> Result<Vec<String>, UserError> {
    let found = |path: &str, base: &Utf8Path, label: &str| {
        let absolute = normalized(&base.join(path));
        if !(surroundings.exists)(&absolute) {
            return Err(UserError::new(format!("{label}: there is no file {absolute}"))
                .help(format!("make it from your changes: git diff > {path}")));
        }
        Ok(absolute.strip_prefix(surroundings.repository).unwrap_or(&absolute).to_string())
    };
    if !flags.overlay_patch.is_empty() {
        let of_flag = |path: &String| found(path, surroundings.current, "--overlay-patch");
        return flags.overlay_patch.iter().map(of_flag).collect();
    }
    let entries = matrix.overlay.iter().flat_map(|OneOrMany(entries)| entries);
    let named = entries.filter_map(|entry| entry.patch.as_ref());
    named.map(|Scalar(path)| found(path, surroundings.matrix, "overlay in memprof.yaml")).collect()
}

/// Returns the checkpoints of the flags, or else those of memprof.yaml. A file that is on the disk
/// becomes relative to the repository's root. Others are in the repository of another ref, or in a
/// dependency.
pub fn checkpoints(
    flags: &Matrix,
    file: &Matrix,
    surroundings: Surroundings<'_>,
) -> Result<Vec<CheckpointAt>, UserError> {
    let placed = |checkpoint: &CheckpointAt, base: &Utf8Path| {
        let absolute = normalized(&base.join(&checkpoint.file));
        let inside = absolute.strip_prefix(surroundings.repository);
        let file = match inside {
            Ok(inside) if (surroundings.exists)(&absolute) => inside.to_string(),
            _ => normalized(Utf8Path::new(&checkpoint.file)).to_string(),
        };
        let leaves =
            Utf8Path::new(&checkpoint.file).components().any(|part| part == Utf8Component::ParentDir);
        if Utf8Path::new(&file).is_absolute() || (leaves && inside.is_err()) {
            return Err(UserError::new(format!(
                "--checkpoint-at {checkpoint}: the file is not in the repository"
            ))
            .help(format!(
                "for a dependency, begin with its name: NAME/src/lib.rs:{}={}",
                checkpoint.line, checkpoint.label
            )));
        }
        Ok(CheckpointAt { file, ..checkpoint.clone() })
    };
    let (written, base) = match &flags.checkpoints_at {
        Some(of_flags) => (Some(of_flags), surroundings.current),
        None => (file.checkpoints_at.as_ref(), surroundings.matrix),
    };
    let entries = written.into_iter().flat_map(|List(entries)| entries);
    entries.map(|Scalar(one)| placed(&one.value, base)).collect()
}

/// Reads `[REF:]SRC[=DST]`.
///
/// File names may contain `:` and `=`, so a path that exists on disk comes first: the whole text,
/// then the part before the last `=`. Otherwise the first `:` ends a ref. `.:SRC` always means the
/// disk.
fn of_flag(
    text: &str,
    flags: &CheckoutArguments,
    surroundings: Surroundings<'_>,
) -> Result<OverlayRequest, UserError> {
    let on_disk = |path: &str| !path.is_empty() && (surroundings.exists)(&surroundings.current.join(path));
    let (source, destination) = match text.rsplit_once('=') {
        Some((source, destination)) if !on_disk(text) => (source, Some(destination)),
        _ => (text, None),
    };
    let (from, source) = match source.split_once(':') {
        Some((from, path)) if !on_disk(source) => (Some(from), path),
        _ => (None, source),
    };
    if source.is_empty() || from == Some("") || destination == Some("") {
        return Err(UserError::new(format!("--overlay '{text}' is incomplete"))
            .help("write SRC, SRC=DST, REF:SRC or REF:SRC=DST"));
    }
    let from = from.filter(|from| *from != ".");
    let origin =
        OverlayOrigin { label: format!("--overlay '{text}'"), base: surroundings.current, surroundings };
    let path = OverlayPath { source: source.to_owned(), destination: destination.map(str::to_owned) };
    Ok(OverlayRequest {
        from: from.map(str::to_owned),
        paths: vec![origin.resolved(path, from.is_some(), flags.overlay_package.is_some())?],
        package: flags.overlay_package.clone(),
        mode: flags.overlay_mode.unwrap_or_default(),
        dependencies: dependencies_of(flags)?,
    })
}

/// Returns the dependencies of `--overlay-dependency`.
fn dependencies_of(flags: &CheckoutArguments) -> Result<BTreeMap<String, String>, UserError> {
    if !flags.overlay_dependency.is_empty() && flags.overlay_mode != Some(OverlayMode::External) {
        return Err(UserError::new("--overlay-dependency needs an external overlay")
            .help("add --overlay-mode external; otherwise, tests use the package's own dev-dependencies"));
    }
    let each = flags.overlay_dependency.iter();
    Ok(each.map(|one| (one.name.clone(), one.toml.clone())).collect())
}

fn of_entry(entry: &OverlayEntry, surroundings: Surroundings<'_>) -> Result<OverlayRequest, UserError> {
    let from: Option<String> = kept(entry.from.as_ref());
    let from = from.filter(|from| from != ".");
    let package: Option<String> = kept(entry.package.as_ref());
    let origin = OverlayOrigin {
        label: "overlay in memprof.yaml".to_owned(),
        base: surroundings.matrix,
        surroundings,
    };
    let paths = entry.paths.iter().flat_map(|List(paths)| paths).map(|path| {
        let path =
            OverlayPath { source: kept(path.source.as_ref()), destination: kept(path.destination.as_ref()) };
        origin.resolved(path, from.is_some(), package.is_some())
    });
    Ok(OverlayRequest {
        paths: paths.collect::<Result<_, _>>()?,
        from,
        package,
        mode: kept(entry.mode.as_ref()),
        dependencies: kept(entry.dependencies.as_ref()),
    })
}

/// Where an overlay's paths start, and its name in errors.
struct OverlayOrigin<'a> {
    label: String,
    base: &'a Utf8Path,
    surroundings: Surroundings<'a>,
}

impl OverlayOrigin<'_> {
    fn resolved(&self, path: OverlayPath, of_ref: bool, of_package: bool) -> Result<OverlayPath, UserError> {
        if let Some(destination) = &path.destination {
            let is_file = |path: &str| (self.surroundings.exists)(&normalized(&self.base.join(path)));
            let is_swapped = !of_ref && !is_file(&path.source) && is_file(destination);
            self.check_inside(destination).map_err(|user_error| {
                if is_swapped {
                    user_error.help(format!("the source comes first: {destination}={}", path.source))
                } else {
                    user_error
                }
            })?;
        }
        // Paths in a ref start at the root, as in `git show REF:PATH`, or else in the package's
        // folder.
        if of_ref {
            self.check_inside(&path.source)?;
            return Ok(path);
        }
        let absolute = normalized(&self.base.join(&path.source));
        if !(self.surroundings.exists)(&absolute) {
            if of_package {
                return Ok(path);
            }
            return Err(UserError::new(format!("{}: there is no file {absolute}", self.label))
                .help(format!("to take it from a ref, name the ref: pr/7:{}", path.source)));
        }
        if let Ok(inside) = absolute.strip_prefix(self.surroundings.repository) {
            return Ok(OverlayPath { source: inside.to_string(), ..path });
        }
        if path.destination.is_none() {
            return Err(UserError::new(format!("{}: the file is outside the repository", self.label)).help(
                format!(
                    "name the path to copy it to: {}=tests/{}",
                    path.source,
                    absolute.file_name().unwrap_or("x")
                ),
            ));
        }
        Ok(OverlayPath { source: absolute.to_string(), ..path })
    }

    fn check_inside(&self, path: &str) -> Result<(), UserError> {
        let path = Utf8Path::new(path);
        let leaves = path.components().any(|part| part == Utf8Component::ParentDir);
        if path.is_absolute() || leaves {
            return Err(UserError::new(format!("{}: {path} is not inside the repository", self.label))
                .help("write a path relative to the repository's root (or to the package's folder)"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn overlay_of(text: &str, disk: &[&str]) -> Result<(Option<String>, String, Option<String>), String> {
        let exists = |path: &Utf8Path| disk.contains(&path.as_str());
        let surroundings = Surroundings {
            repository: "/repository".into(),
            current: "/repository/crates".into(),
            matrix: "/repository".into(),
            exists: &exists,
        };
        let flags = CheckoutArguments { overlay: vec![text.to_owned()], ..CheckoutArguments::default() };
        let overlays = overlay(&flags, &Matrix::default(), surroundings).map_err(|error| error.rendered())?;
        let overlay = overlays.into_iter().next().expect("one was given");
        let path = overlay.paths.into_iter().next().expect("it has a path");
        Ok((overlay.from, path.source, path.destination))
    }

    fn taken(
        from: Option<&str>,
        source: &str,
        destination: Option<&str>,
    ) -> (Option<String>, String, Option<String>) {
        (from.map(str::to_owned), source.to_owned(), destination.map(str::to_owned))
    }

    #[test]
    fn a_path_on_disk_becomes_relative_to_the_root() {
        let disk = ["/repository/crates/a.rs", "/repository/b.rs", "/elsewhere/c.rs"];
        assert_eq!(overlay_of("a.rs", &disk).unwrap(), taken(None, "crates/a.rs", None));
        assert_eq!(
            overlay_of(".:../b.rs=tests/b.rs", &disk).unwrap(),
            taken(None, "b.rs", Some("tests/b.rs"))
        );
        assert_eq!(
            overlay_of("/elsewhere/c.rs=tests/c.rs", &disk).unwrap(),
            taken(None, "/elsewhere/c.rs", Some("tests/c.rs"))
        );
        assert!(overlay_of("/elsewhere/c.rs", &disk).unwrap_err().contains("c.rs=tests/c.rs"));
        let swapped = overlay_of("tests/c.rs=/elsewhere/c.rs", &disk).unwrap_err();
        assert!(swapped.contains("comes first: /elsewhere/c.rs=tests/c.rs"), "{swapped}");
    }

    #[test]
    fn a_ref_before_the_colon_is_where_it_comes_from() {
        assert_eq!(
            overlay_of("pr/7:tests/a.rs=tests/b.rs", &[]).unwrap(),
            taken(Some("pr/7"), "tests/a.rs", Some("tests/b.rs"))
        );
    }

    #[test]
    fn a_name_with_a_colon_or_an_equals_sign_wins_if_it_is_on_disk() {
        let disk = ["/repository/crates/main:a.rs", "/repository/crates/x=y.rs"];
        assert_eq!(overlay_of("main:a.rs", &disk).unwrap(), taken(None, "crates/main:a.rs", None));
        assert_eq!(overlay_of("x=y.rs", &disk).unwrap(), taken(None, "crates/x=y.rs", None));
        assert_eq!(overlay_of("main:a.rs", &[]).unwrap(), taken(Some("main"), "a.rs", None));
    }

    #[test]
    fn paths_outside_the_repository_and_missing_files_are_errors() {
        assert!(overlay_of("a.rs", &[]).unwrap_err().contains("there is no file /repository/crates/a.rs"));
        assert!(overlay_of("main:a.rs=../b.rs", &[]).unwrap_err().contains("not inside the repository"));
        assert!(overlay_of("main:/etc/passwd", &[]).unwrap_err().contains("not inside the repository"));
        for incomplete in [":a.rs", "main:", "a.rs=", ""] {
            assert!(overlay_of(incomplete, &[]).unwrap_err().contains("is incomplete"), "{incomplete}");
        }
    }
}
