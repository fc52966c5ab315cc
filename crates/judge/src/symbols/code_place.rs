//! Where a source file belongs: to the checkout, a dependency, or the standard library.
//! Debug information has absolute paths of the machine that compiled; these depend on no machine.

use std::collections::BTreeMap;
use std::fmt;

use camino::{Utf8Component, Utf8Path, Utf8PathBuf};
use serde::{Deserialize, Serialize};

/// A source file, as its owner names it. Paths are relative to the owner's folder and have slashes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Place {
    /// A file of the checkout, relative to its root.
    Checkout(String),
    /// A file of a crate from a registry.
    Registry {
        /// The crate.
        name: String,
        version: String,
        /// Relative to the crate's root.
        path: String,
    },
    /// A file of a git dependency.
    Git {
        /// The repository.
        name: String,
        /// The first digits of the commit.
        rev: String,
        /// Relative to the repository's root.
        path: String,
    },
    /// A file of the toolchain's libraries, such as `alloc/src/vec/mod.rs`.
    Std(String),
    /// A file that a build script of the user wrote.
    Generated {
        /// The package of the build script.
        package: String,
        /// Relative to `OUT_DIR`.
        path: String,
        /// Tells apart what the script wrote at two revisions; `None` if it is not known.
        digest: Option<String>,
    },
    /// Any other file, such as a C library's.
    Other(String),
}

impl Place {
    /// Guesses the module that a file of a library holds, such as `serde_json::de`. It is right unless
    /// the library says otherwise with `mod` blocks or `#[path]`.
    pub fn module(&self) -> Option<String> {
        let (library, path) = match self {
            Self::Std(path) => path.split_once('/')?,
            Self::Registry { name, path, .. } => (name.as_str(), path.as_str()),
            Self::Checkout(_) | Self::Git { .. } | Self::Generated { .. } | Self::Other(_) => return None,
        };
        let module =
            Utf8Path::new(path).strip_prefix("src").ok().filter(|path| path.extension() == Some("rs"))?;
        let module = module.with_extension("");
        let library = library.replace('-', "_");
        let parts = module.iter().filter(|part| !matches!(*part, "mod" | "lib"));
        Some(std::iter::once(library.as_str()).chain(parts).collect::<Vec<_>>().join("::"))
    }

    /// Returns what is the same in both revisions: the file, without the version.
    pub fn key(&self) -> String {
        match self {
            Self::Checkout(path) => path.clone(),
            Self::Registry { name, path, .. } | Self::Git { name, path, .. } => format!("{name} {path}"),
            Self::Std(path) => format!("std {path}"),
            Self::Generated { package, path, .. } => format!("generated {package} {path}"),
            Self::Other(path) => format!("other {path}"),
        }
    }
}

/// `src/lib.rs`, `serde 1.0.2 src/de.rs`, `std alloc/src/vec/mod.rs`, `app OUT_DIR/tables.rs`.
impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Checkout(path) | Self::Other(path) => formatter.write_str(path),
            Self::Registry { name, version, path } => write!(formatter, "{name} {version} {path}"),
            Self::Git { name, rev, path } => {
                write!(formatter, "{name} {} {path}", rev.get(..9).unwrap_or(rev))
            }
            Self::Std(path) => write!(formatter, "std {path}"),
            Self::Generated { package, path, .. } => write!(formatter, "{package} OUT_DIR/{path}"),
        }
    }
}

/// Where the checkout was when the executable was compiled, and what its build scripts wrote.
#[derive(Clone, Debug, Default)]
pub struct Paths {
    checkouts: Vec<Utf8PathBuf>,
    /// Each `OUT_DIR`, with a hash of its files.
    outputs: BTreeMap<Utf8PathBuf, Option<String>>,
}

impl Paths {
    /// Takes the root of the checkout.
    pub fn new(checkout: &Utf8Path) -> Self {
        let mut checkouts = vec![lexically_normal(checkout)];
        // The compiler may know the folder without links.
        if let Ok(resolved) = checkout.canonicalize_utf8()
            && !checkouts.contains(&resolved)
        {
            checkouts.push(resolved);
        }
        Self { checkouts, outputs: BTreeMap::new() }
    }

    /// Adds each `OUT_DIR` of the user's build scripts, with a hash of its files.
    #[must_use]
    pub fn with_outputs(self, outputs: &BTreeMap<Utf8PathBuf, Option<String>>) -> Self {
        Self { outputs: outputs.clone(), ..self }
    }

    /// Returns the place of a file, by its path in debug information.
    pub fn place(&self, file: &str) -> Place {
        let path = lexically_normal(Utf8Path::new(file));
        let parts: Vec<&str> = path.components().map(|part| part.as_str()).collect();
        // Cargo's home may be in the checkout, and its files are no files of the revision.
        in_registry(&parts)
            .or_else(|| in_git_dependency(&parts))
            .or_else(|| self.in_output(&path))
            .or_else(|| self.in_checkout(&path))
            .or_else(|| in_std(&parts))
            .unwrap_or(Place::Other(path.into_string()))
    }

    fn in_output(&self, path: &Utf8Path) -> Option<Place> {
        let is_in = |(folder, digest)| Some((folder, digest, path.strip_prefix(folder).ok()?));
        let (folder, digest, path): (&Utf8PathBuf, &Option<String>, _) =
            self.outputs.iter().find_map(is_in)?;
        Some(Place::Generated {
            package: package_of_output(folder)?.to_owned(),
            path: path.to_string(),
            digest: digest.clone(),
        })
    }

    fn in_checkout(&self, path: &Utf8Path) -> Option<Place> {
        let relative = self.checkouts.iter().find_map(|root| path.strip_prefix(root).ok())?;
        Some(Place::Checkout(relative.to_string()))
    }
}

/// Returns the package of `…/build/NAME-HASH/out`, or of `…/build/NAME/HASH/out`. Builds have different hashes.
fn package_of_output(folder: &Utf8Path) -> Option<&str> {
    let is_hash = |text: &str| text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let own = folder.parent()?;
    match own.file_name()?.rsplit_once('-') {
        Some((name, hash)) if is_hash(hash) => Some(name),
        _ => own.parent()?.file_name(),
    }
}

/// `…/registry/src/INDEX/NAME-VERSION/…`, or `NAME-VERSION/…` if the compiler trimmed the path.
fn in_registry(parts: &[&str]) -> Option<Place> {
    let at = parts.windows(2).position(|pair| pair == ["registry", "src"]).map_or(0, |at| at + 3);
    let (package, path) = parts.get(at..)?.split_first()?;
    let (name, version) = name_and_version(package)?;
    (!path.is_empty()).then(|| Place::Registry {
        name: name.to_owned(),
        version: version.to_owned(),
        path: path.join("/"),
    })
}

/// Splits `NAME-VERSION`. Both may contain hyphens.
fn name_and_version(package: &str) -> Option<(&str, &str)> {
    let is_version = |text: &str| {
        let mut numbers = text.splitn(3, '.');
        let mut is_number = || {
            numbers
                .next()
                .is_some_and(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()))
        };
        is_number()
            && is_number()
            && numbers.next().is_some_and(|part| part.starts_with(|digit: char| digit.is_ascii_digit()))
    };
    let splits = package.match_indices('-').map(|(at, _)| (&package[..at], &package[at + 1..]));
    splits.into_iter().find(|(name, version)| !name.is_empty() && is_version(version))
}

/// `…/git/checkouts/NAME-HASH/REV/…`.
fn in_git_dependency(parts: &[&str]) -> Option<Place> {
    let at = parts.windows(2).position(|pair| pair == ["git", "checkouts"])?;
    let [repository, rev, path @ ..] = parts.get(at + 2..)? else { return None };
    let (name, hash) = repository.rsplit_once('-')?;
    let is_hex = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_one = hash.len() == 16 && is_hex(hash) && is_hex(rev) && !path.is_empty();
    is_one.then(|| Place::Git { name: name.to_owned(), rev: (*rev).to_owned(), path: path.join("/") })
}

/// `/rustc/HASH/library/…`, the same below a toolchain's `lib/rustlib/src/rust`, and the crates that
/// the standard library is built with.
fn in_std(parts: &[&str]) -> Option<Place> {
    let source = ["lib", "rustlib", "src", "rust", "library"];
    let rest = if let ["/", "rustc", _, rest @ ..] = parts {
        rest.strip_prefix(&["library"]).unwrap_or(rest)
    } else if let ["/", "rust", "deps", rest @ ..] = parts {
        rest
    } else {
        let at = parts.windows(source.len()).position(|part| part == source)?;
        &parts[at + source.len()..]
    };
    (!rest.is_empty()).then(|| Place::Std(rest.join("/")))
}

/// Removes `.` and `..` from a path without looking at files.
fn lexically_normal(path: &Utf8Path) -> Utf8PathBuf {
    let mut normal = Utf8PathBuf::new();
    for part in path.components() {
        match part {
            Utf8Component::CurDir => {}
            Utf8Component::ParentDir
                if matches!(normal.components().next_back(), Some(Utf8Component::Normal(_))) =>
            {
                normal.pop();
            }
            Utf8Component::ParentDir if normal.is_absolute() => {}
            other => normal.push(other),
        }
    }
    normal
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(file: &str) -> Place {
        Paths::new(Utf8Path::new("/home/me/checkout")).place(file)
    }

    #[test]
    fn files_of_the_checkout_are_relative_to_it() {
        for file in [
            "/home/me/checkout/src/lib.rs",
            "/home/me/checkout/./src/lib.rs",
            "/home/me/checkout/crates/a/../../src/lib.rs",
        ] {
            assert_eq!(place(file), Place::Checkout("src/lib.rs".into()), "{file}");
        }
        let elsewhere = "/home/me/checkout-2/src/lib.rs";
        assert_eq!(place(elsewhere), Place::Other(elsewhere.into()));
    }

    #[test]
    fn what_a_build_script_wrote_has_no_hash_of_its_build_in_its_name() {
        let digest = Some("5eed".to_owned());
        for out in ["/target/debug/build/my-app-aaf721f61277dce5/out", "/build/my-app/aaf721f61277dce5/out"] {
            let outputs = [(Utf8PathBuf::from(out), digest.clone())].into();
            let paths = Paths::new(Utf8Path::new("/home/me/checkout")).with_outputs(&outputs);
            let found = paths.place(&format!("{out}/proto/tables.rs"));
            let (package, path) = ("my-app".to_owned(), "proto/tables.rs".to_owned());
            assert_eq!(found, Place::Generated { package, path, digest: digest.clone() });
            assert_eq!(found.to_string(), "my-app OUT_DIR/proto/tables.rs");
            let of_dependency = "/target/debug/build/serde-aaf721f61277dce5/out/a.rs";
            assert_eq!(paths.place(of_dependency), Place::Other(of_dependency.to_owned()));
        }
    }

    #[test]
    fn a_checkout_behind_a_link_is_found_by_both_names() {
        let folder = tempfile::tempdir().unwrap();
        let folder = Utf8Path::from_path(folder.path()).unwrap().canonicalize_utf8().unwrap();
        fs_err::create_dir(folder.join("real")).unwrap();
        fs_err::os::unix::fs::symlink("real", folder.join("link")).unwrap();
        let paths = Paths::new(&folder.join("link"));
        for name in ["link", "real"] {
            let file = folder.join(name).join("a.rs");
            assert_eq!(paths.place(file.as_str()), Place::Checkout("a.rs".into()));
        }
    }

    #[test]
    fn dependencies_have_a_name_and_a_version() {
        let registry = |name: &str, version: &str, path: &str| Place::Registry {
            name: name.to_owned(),
            version: version.to_owned(),
            path: path.into(),
        };
        let source = "/root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f";
        for (package, name, version) in [
            ("serde_json-1.0.140", "serde_json", "1.0.140"),
            ("a-2-b-1.0.0-beta.1", "a-2-b", "1.0.0-beta.1"),
            ("libz-sys-1.1.22+zlib-1.3.1", "libz-sys", "1.1.22+zlib-1.3.1"),
        ] {
            let file = format!("{source}/{package}/src/de.rs");
            assert_eq!(place(&file), registry(name, version, "src/de.rs"));
        }
        assert_eq!(place("serde-1.0.2/src/lib.rs"), registry("serde", "1.0.2", "src/lib.rs"));
        // Cargo's home in the checkout, as in CI.
        let inside = "/home/me/checkout/.cargo/registry/src/index-0/serde-1.0.2/src/lib.rs";
        assert_eq!(place(inside), registry("serde", "1.0.2", "src/lib.rs"));
        let git = "/root/.cargo/git/checkouts/candle-0c2b4fa9e5801351/6f0b7e2/candle-core/src/lib.rs";
        let rev = "6f0b7e2".to_owned();
        let expected = Place::Git { name: "candle".to_owned(), rev, path: "candle-core/src/lib.rs".into() };
        assert_eq!(place(git), expected);
        assert_eq!(expected.to_string(), "candle 6f0b7e2 candle-core/src/lib.rs");
        assert_eq!(registry("serde", "1.0.2", "src/lib.rs").to_string(), "serde 1.0.2 src/lib.rs");
        let vendored = "/home/me/checkout/vendor/serde-1.0.2/src/lib.rs";
        assert_eq!(place(vendored), Place::Checkout("vendor/serde-1.0.2/src/lib.rs".into()));
    }

    #[test]
    fn the_standard_library_has_no_path_of_a_machine() {
        for (file, path) in [
            ("/rustc/59807616e1fa/library/alloc/src/vec/mod.rs", "alloc/src/vec/mod.rs"),
            ("/rustc/59807616e1fa/library/std/src/../../backtrace/src/lib.rs", "backtrace/src/lib.rs"),
            ("/rust/deps/hashbrown-0.16.1/src/raw.rs", "hashbrown-0.16.1/src/raw.rs"),
            (
                "/root/.rustup/toolchains/stable/lib/rustlib/src/rust/library/core/src/mem.rs",
                "core/src/mem.rs",
            ),
        ] {
            assert_eq!(place(file), Place::Std(path.into()), "{file}");
        }
    }

    #[test]
    fn files_of_libraries_are_modules() {
        let module = |file: &str| place(file).module();
        for (file, expected) in [
            ("/rustc/5980/library/alloc/src/vec/mod.rs", "alloc::vec"),
            (
                "/rustc/5980/library/core/src/slice/sort/shared/smallsort.rs",
                "core::slice::sort::shared::smallsort",
            ),
            ("/rustc/5980/library/std/src/lib.rs", "std"),
            ("/c/registry/src/index-0/serde-json-1.0.2/src/de.rs", "serde_json::de"),
        ] {
            assert_eq!(module(file).as_deref(), Some(expected));
        }
        for file in
            ["/home/me/checkout/src/a.rs", "/usr/a.c", "/c/registry/src/index-0/zstd-sys-2.0.1/src/zstd.c"]
        {
            assert_eq!(module(file), None, "{file}");
        }
    }

    #[test]
    fn what_belongs_to_nothing_known_stays_as_it_is() {
        for file in ["/usr/include/stdlib.h", "malloc.c", "/registry/src/x", "/a/git/checkouts/b", "/"] {
            assert_eq!(place(file), Place::Other(file.into()));
        }
        assert_eq!(place("/../a//b/./c"), Place::Other("/a/b/c".into()));
        assert_eq!(place("../../a.c"), Place::Other("../../a.c".into()));
    }
}
