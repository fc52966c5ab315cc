//! What is laid over the revisions: `--overlay [REF:]SRC[=DST]` and the matrix's `overlay`, with their paths made relative to
//! the repository's root.

use camino::{Utf8Component, Utf8Path, Utf8PathBuf};

use crate::cli::arguments::CheckoutArguments;
use crate::cli::reconcile::Surroundings;
use crate::config::mapping::{OneOrMany, OpenMapping};
use crate::config::matrix::{Matrix, OverlayEntry};
use crate::config::values::Dependency;
use crate::config::yaml::{List, Scalar};
use crate::plan::request::{OverlayPath, OverlayRequest};
use crate::support::user_error::UserError;

/// The overlays of the flags, or else those of the matrix.
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
        .map(|entry| of_entry(entry, surroundings))
        .collect()
}

/// `[REF:]SRC[=DST]`. A name of a file may hold `:` and `=`, so what exists on disk wins: the whole text first, then all
/// before the last `=`. Only then does a `:` end a ref. `.:SRC` is the disk, said out loud.
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
        return Err(UserError::new(format!("--overlay '{text}' is not clear"))
            .help("write SRC, SRC=DST, REF:SRC or REF:SRC=DST"));
    }
    let from = from.filter(|from| *from != ".");
    let place = Place { what: format!("--overlay '{text}'"), base: surroundings.current, surroundings };
    let path = OverlayPath { source: source.to_owned(), destination: destination.map(str::to_owned) };
    Ok(OverlayRequest {
        from: from.map(str::to_owned),
        paths: vec![place.resolved(path, from.is_some(), flags.overlay_package.is_some())?],
        package: flags.overlay_package.clone(),
        mode: flags.overlay_mode.unwrap_or_default(),
        dependencies: std::collections::BTreeMap::new(),
    })
}

fn of_entry(entry: &OverlayEntry, surroundings: Surroundings<'_>) -> Result<OverlayRequest, UserError> {
    let text = |value: &Option<Scalar<String>>| value.as_ref().map(|Scalar(text)| text.clone());
    let from = text(&entry.from).filter(|from| from != ".");
    let package = text(&entry.package);
    let place = Place { what: "overlay of the matrix".to_owned(), base: surroundings.matrix, surroundings };
    let paths = entry.paths.iter().flat_map(|List(paths)| paths).map(|path| {
        let path = OverlayPath {
            source: text(&path.source).unwrap_or_default(),
            destination: text(&path.destination),
        };
        place.resolved(path, from.is_some(), package.is_some())
    });
    Ok(OverlayRequest {
        paths: paths.collect::<Result<_, _>>()?,
        from,
        package,
        mode: entry.mode.as_ref().map(|Scalar(mode)| *mode).unwrap_or_default(),
        dependencies: (entry.dependencies.iter())
            .flat_map(|OpenMapping(dependencies)| dependencies)
            .map(|(name, Scalar(Dependency(toml)))| (name.clone(), toml.clone()))
            .collect(),
    })
}

/// Where paths are read from, and how the overlay is called in a error.
struct Place<'a> {
    what: String,
    base: &'a Utf8Path,
    surroundings: Surroundings<'a>,
}

impl Place<'_> {
    fn resolved(&self, path: OverlayPath, of_ref: bool, of_package: bool) -> Result<OverlayPath, UserError> {
        if let Some(destination) = &path.destination {
            let is_file = |path: &str| (self.surroundings.exists)(&normalized(&self.base.join(path)));
            let is_turned_round = !of_ref && !is_file(&path.source) && is_file(destination);
            self.check_inside("goes", destination).map_err(|user_error| {
                if is_turned_round {
                    user_error.help(format!("what is laid over comes first: {destination}={}", path.source))
                } else {
                    user_error
                }
            })?;
        }
        // In a ref, paths begin at the root, as in `git show REF:PATH`; with a package, in its folder if they are there.
        if of_ref {
            self.check_inside("comes from", &path.source)?;
            return Ok(path);
        }
        let absolute = normalized(&self.base.join(&path.source));
        if !(self.surroundings.exists)(&absolute) {
            if of_package {
                return Ok(path);
            }
            return Err(UserError::new(format!("{}: there is no {absolute}", self.what))
                .help(format!("to take it from a ref, say which: REF:{}", path.source)));
        }
        if let Ok(inside) = absolute.strip_prefix(self.surroundings.repository) {
            return Ok(OverlayPath { source: inside.to_string(), ..path });
        }
        if path.destination.is_none() {
            return Err(UserError::new(format!("{}: it lies outside the repository", self.what)).help(
                format!("say where it goes: {}=tests/{}", path.source, absolute.file_name().unwrap_or("x")),
            ));
        }
        Ok(OverlayPath { source: absolute.to_string(), ..path })
    }

    fn check_inside(&self, verb: &str, path: &str) -> Result<(), UserError> {
        let path = Utf8Path::new(path);
        let leaves = path.components().any(|part| part == Utf8Component::ParentDir);
        if path.is_absolute() || leaves {
            return Err(UserError::new(format!("{}: {path} is not inside the repository", self.what)).help(
                format!("write where it {verb} relative to the repository's root (or the package's folder)"),
            ));
        }
        Ok(())
    }
}

/// The path without `.` and `..`, by its text alone.
pub fn normalized(path: &Utf8Path) -> Utf8PathBuf {
    let mut normalized = Utf8PathBuf::new();
    for part in path.components() {
        match part {
            Utf8Component::CurDir => {}
            Utf8Component::ParentDir => {
                normalized.pop();
            }
            other => normalized.push(other),
        }
    }
    normalized
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
    fn a_path_on_disk_is_taken_from_there_relative_to_the_root() {
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
        let turned_round = overlay_of("tests/c.rs=/elsewhere/c.rs", &disk).unwrap_err();
        assert!(turned_round.contains("comes first: /elsewhere/c.rs=tests/c.rs"), "{turned_round}");
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
    fn what_leaves_the_repository_or_is_not_there_is_refused() {
        assert!(overlay_of("a.rs", &[]).unwrap_err().contains("there is no /repository/crates/a.rs"));
        assert!(overlay_of("main:a.rs=../b.rs", &[]).unwrap_err().contains("not inside the repository"));
        assert!(overlay_of("main:/etc/passwd", &[]).unwrap_err().contains("not inside the repository"));
        for unclear in [":a.rs", "main:", "a.rs=", ""] {
            assert!(overlay_of(unclear, &[]).unwrap_err().contains("is not clear"), "{unclear}");
        }
    }
}
