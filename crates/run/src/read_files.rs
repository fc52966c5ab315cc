//! Whether a test executable may read a changed file while it runs, judged by where the file is and by what
//! the executable's texts say. If in doubt, it may.

use std::cell::OnceCell;
use std::collections::BTreeSet;

use camino::{Utf8Path, Utf8PathBuf};
use memchr::memmem;

use memprof_build::documentation::{FOLDERS, is_documentation, owner_of};

/// Parts of symbols: `std::path::Path::parent`, and the module that each executable with symbols has.
const PARENT: &[u8] = b"4Path6parent";
const PATHS: &[u8] = b"3std4path";

/// Parts of symbols of the shim: the figures that a test gets, and assertions about them.
const FIGURES: [&str; 2] = ["5usage5Usage", "10assertions6Broken"];

/// An executable that is the same at all revisions.
pub(crate) struct Reader<'a> {
    /// The folder of its package, relative to the checkout.
    pub package: &'a Utf8Path,
    /// The folders of all packages of the checkout.
    pub packages: &'a BTreeSet<Utf8PathBuf>,
    texts: &'a [u8],
    climbs: OnceCell<bool>,
}

impl<'a> Reader<'a> {
    pub fn new(package: &'a Utf8Path, packages: &'a BTreeSet<Utf8PathBuf>, texts: &'a [u8]) -> Self {
        Self { package, packages, texts, climbs: OnceCell::new() }
    }

    /// Whether the text is in the executable.
    pub fn mentions(&self, text: &str) -> bool {
        memmem::find(self.texts, text.as_bytes()).is_some()
    }

    /// Whether its tests may assert how much memory they need. Such an assertion is a limit, which a run checks.
    pub fn may_assert(&self) -> bool {
        let has_symbols = memmem::find(self.texts, PATHS).is_some();
        !has_symbols || FIGURES.iter().any(|figures| self.mentions(figures))
    }

    /// Whether it may read a changed file, or one whose folder is gone or new. Paths are relative to the
    /// checkout.
    pub fn may_read(&self, path: &Utf8Path) -> bool {
        let name = path.file_name().unwrap_or_default();
        // A changed path above the package is that of a submodule.
        if self.package.starts_with(path) {
            return true;
        }
        let owner = owner_of(path, self.packages);
        if is_documentation(path, owner) {
            let top = path.components().next().map(|first| first.as_str()).filter(|top| *top != name);
            let is_in_folder = top.is_some_and(|top| FOLDERS.contains(&top) && self.mentions(top));
            let extension = path.extension().map(|extension| format!(".{extension}"));
            return is_in_folder || self.mentions(name) || extension.is_some_and(|end| self.mentions(&end));
        }
        if owner.is_some_and(|owner| owner == self.package) {
            return true;
        }
        // What these say is in the executable. Only a program that looks at sources reads them.
        if path.extension() == Some("rs") && owner.is_some() {
            return self.climbs();
        }
        if ["Cargo.toml", "Cargo.lock"].contains(&name) {
            return self.climbs() || self.mentions(name);
        }
        match owner.and_then(|owner| owner.file_name()) {
            Some(folder) => self.climbs() || self.mentions(name) || self.mentions(folder),
            // Any test may read a file that belongs to no package, or to the package at the root.
            None => true,
        }
    }

    /// Whether the executable can find its way out of its package's folder: it has a text with `../`, or calls
    /// `Path::parent`. Without symbols, nobody knows.
    fn climbs(&self) -> bool {
        *self.climbs.get_or_init(|| {
            let has = |text: &[u8]| memmem::find(self.texts, text).is_some();
            has(PARENT)
                || !has(PATHS)
                || memmem::find_iter(self.texts, b"../").any(|at| !self.is_of_toolchain(at))
        })
    }

    /// Whether a `../` is inside of a path of the standard library's sources:
    /// `/rustc/HASH/library/std/src/../../backtrace/src`.
    fn is_of_toolchain(&self, at: usize) -> bool {
        let is_of_path = |byte: &u8| byte.is_ascii_alphanumeric() || b"._-/".contains(byte);
        let before = &self.texts[at.saturating_sub(160)..at];
        let begin = before.iter().rposition(|byte| !is_of_path(byte)).map_or(0, |place| place + 1);
        let before = &before[begin..];
        [&b"library/"[..], b"compiler-builtins/"].iter().any(|folder| memmem::find(before, folder).is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What an executable with symbols has.
    const ORDINARY: &str = "_ZN3std4path7PathBuf3pop /rustc/59807616e/library/std/src/../../backtrace/src/lib.rs \
        compiler-builtins/src/math/../../../libm/src/lib.rs src/lib.rs";

    fn may_read(bytes: &str, path: &str) -> bool {
        let packages = ["", "crates/leaf", "crates/app", "crates/app/derive"];
        let packages = packages.into_iter().map(Utf8PathBuf::from).collect();
        Reader::new(Utf8Path::new("crates/app"), &packages, bytes.as_bytes()).may_read(Utf8Path::new(path))
    }

    #[test]
    fn each_file_of_its_package_may_be_read_apart_from_documentation() {
        for path in ["crates/app/src/lib.rs", "crates/app/data.json", "crates/app/tests/README.md", "crates"]
        {
            assert!(may_read(ORDINARY, path), "{path}");
        }
        for path in [
            "crates/app/README.md",
            "crates/app/LICENSE-MIT",
            "docs/a/b.md",
            "CHANGELOG.md",
            ".github/ci.yml",
        ] {
            assert!(!may_read(ORDINARY, path), "{path}");
            let name = Utf8Path::new(path).file_name().unwrap();
            assert!(may_read(&format!("{ORDINARY} {name}"), path), "{path} is named");
        }
        assert!(may_read(&format!("{ORDINARY} .md"), "README.md"), "each text of a folder");
        assert!(may_read(&format!("{ORDINARY} docs"), "docs/a/b.md"), "each file of the folder");
    }

    #[test]
    fn sources_of_other_packages_are_read_by_programs_that_leave_their_folder() {
        let sources = [
            "crates/leaf/src/lib.rs",
            "crates/app/derive/src/lib.rs",
            "crates/leaf/Cargo.toml",
            "Cargo.lock",
        ];
        let climbing = ["/crates/app/../leaf/src/lib.rs", "_ZN3std4path4Path6parent17h12E"];
        for path in sources {
            assert!(!may_read(ORDINARY, path), "{path}");
            for climbing in climbing {
                assert!(may_read(&format!("{ORDINARY} {climbing}"), path), "{path}");
            }
            assert!(may_read("without symbols", path), "{path}");
        }
        assert!(may_read(&format!("{ORDINARY} Cargo.lock"), "Cargo.lock"));
    }

    #[test]
    fn a_test_with_figures_may_assert_them() {
        let packages = BTreeSet::new();
        let may_assert = |texts: &str| Reader::new("".into(), &packages, texts.as_bytes()).may_assert();
        assert!(!may_assert(ORDINARY) && may_assert("without symbols"));
        assert!(may_assert(&format!("{ORDINARY} _RNvNtNtCs1_7memprof6shared5usage5Usage")));
    }

    #[test]
    fn data_elsewhere_may_be_read_unless_it_belongs_to_a_package_that_is_not_named() {
        assert!(!may_read(ORDINARY, "crates/leaf/tests/data.json"));
        for named in ["leaf", "data.json"] {
            assert!(may_read(&format!("{ORDINARY} {named}"), "crates/leaf/tests/data.json"), "{named}");
        }
        for path in [
            "data/input.json",
            "crates/notes.txt",
            ".cargo/config.toml",
            "rust-toolchain",
            "x.adoc",
            "docs/a.rs.txt",
        ] {
            assert!(may_read(ORDINARY, path), "{path}");
        }
        let packages = BTreeSet::from([Utf8PathBuf::from("app")]);
        let reader = Reader::new(Utf8Path::new("app"), &packages, ORDINARY.as_bytes());
        assert!(reader.may_read(Utf8Path::new("shared/code.rs")), "code that belongs to no package");
        assert!(!reader.may_read(Utf8Path::new("Cargo.toml")), "the manifest of the workspace");
    }
}
