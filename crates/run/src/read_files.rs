//! Whether a test executable may read a changed file while it runs, judged by where the file is and by what
//! the executable's texts say. If in doubt, it may.

use std::cell::OnceCell;
use std::collections::BTreeSet;

use camino::{Utf8Path, Utf8PathBuf};

use crate::variables::Variables;
use memprof_build::documentation::{FOLDERS, LICENCES, is_documentation, owner_of};
use memprof_build::texts::{Texts, Traits};

/// The longest name that is in nearly every executable by chance, and the longest whose pieces are.
const LONGEST_IN_ALL: usize = 3;
const LONGEST_IN_OPTIMISED: usize = 5;

/// An executable that is the same at all revisions.
pub(crate) struct Reader<'a> {
    /// The folder of its package, relative to the checkout.
    pub package: &'a Utf8Path,
    /// The folders of all packages of the checkout.
    pub packages: &'a BTreeSet<Utf8PathBuf>,
    /// The checkout's absolute path.
    checkout: &'a Utf8Path,
    traits: Option<Traits>,
    variables: Variables<'a>,
    /// Whether its package's sources have a way out of their folder.
    has_way_out: &'a dyn Fn() -> bool,
    /// Reads the executable.
    read: &'a dyn Fn() -> anyhow::Result<Texts>,
    texts: OnceCell<Texts>,
    /// Why it could not be read.
    failure: OnceCell<anyhow::Error>,
}

impl<'a> Reader<'a> {
    /// `traits` are those that were stored with the executable, and `variables` those that it gets. `has_way_out` looks
    /// into its package's sources, and `read` returns its texts.
    pub fn new(
        package: &'a Utf8Path,
        (checkout, packages): (&'a Utf8Path, &'a BTreeSet<Utf8PathBuf>),
        traits: Option<Traits>,
        variables: Variables<'a>,
        has_way_out: &'a dyn Fn() -> bool,
        read: &'a dyn Fn() -> anyhow::Result<Texts>,
    ) -> Self {
        let traits = traits.and_then(Traits::current);
        Self {
            package,
            packages,
            checkout,
            traits,
            variables,
            has_way_out,
            read,
            texts: OnceCell::new(),
            failure: OnceCell::new(),
        }
    }

    /// Fails if the executable was needed, and could not be read. Without its texts, nothing is known of it.
    pub fn checked(self) -> anyhow::Result<()> {
        self.failure.into_inner().map_or(Ok(()), Err)
    }

    fn texts(&self) -> &Texts {
        self.texts.get_or_init(|| {
            (self.read)().unwrap_or_else(|error| {
                let _ = self.failure.set(error);
                Texts::whole(&[])
            })
        })
    }

    fn traits(&self) -> Traits {
        // Nobody knows how an earlier version's executable was compiled.
        self.traits.unwrap_or_else(|| Traits::of_texts(self.texts(), true))
    }

    /// Whether the text is in the executable.
    pub fn mentions(&self, text: &str) -> bool {
        self.texts().has(text.as_bytes())
    }

    /// Whether this file, folder or program may be named in the executable.
    pub fn may_name(&self, name: &str) -> bool {
        let has_pieces = || self.is_in_all(name) || self.texts().may_have_pieces_of(name.as_bytes());
        self.mentions(name) || self.traits().is_optimised && has_pieces()
    }

    /// Whether a name is so short that every executable seems to have it.
    fn is_in_all(&self, name: &str) -> bool {
        let is_optimised = self.traits().is_optimised;
        name.len() <= if is_optimised { LONGEST_IN_OPTIMISED } else { LONGEST_IN_ALL }
    }

    /// Whether it may start a program with this name that belongs to another package. A short name such as `rg`
    /// is in every executable, so there must be a way to find the program as well.
    pub fn may_start(&self, program: &str) -> bool {
        self.may_name(program) && (!self.is_in_all(program) || self.traits().finds_programs)
    }

    /// Whether it can find files that it does not name.
    pub fn explores(&self) -> bool {
        self.traits().explores
    }

    /// Whether its tests may assert how much memory they need. Such an assertion is a limit, which a run checks.
    pub fn may_assert(&self) -> bool {
        self.traits().asserts
    }

    /// Whether it may read a changed file, or one whose folder is gone or new. Paths are relative to the
    /// checkout. A test seldom reads a source that is compiled into something.
    pub fn may_read(&self, path: &Utf8Path, is_compiled: bool) -> bool {
        let name = path.file_name().unwrap_or_default();
        // A changed path above the package is that of a submodule.
        if self.package.starts_with(path) || is_for_all(path, self.packages) {
            return true;
        }
        let owner = owner_of(path, self.packages);
        let given = self.variables.leading_to(path, |name| self.may_name(name));
        // The folder of a package, or one above, is a way to the file, and no more.
        let is_way =
            |place: &Utf8Path| place != path && self.packages.iter().any(|one| one.starts_with(place));
        if given.iter().any(|place| !is_way(place)) {
            return true;
        }
        let leaves = || !given.is_empty() || self.leaves();
        if is_documentation(path, owner) {
            // Whoever lists a folder needs neither a name nor the text `.md`.
            if self.traits().lists && (path.starts_with(self.package) || leaves()) {
                return true;
            }
            // A test may add the kind of a licence to its name.
            let licence = LICENCES.into_iter().find(|word| name.starts_with(word));
            let top = path.components().next().map(|first| first.as_str()).filter(|top| *top != name);
            let is_in_folder = top.is_some_and(|top| FOLDERS.contains(&top) && self.mentions(top));
            let extension = path.extension().map(|extension| format!(".{extension}"));
            // A test may add the extension of its package's README in another way. Names in `docs` are ordinary words.
            let is_beside = path.parent() == Some(self.package);
            let stem = path.file_stem().filter(|stem| is_beside && stem.len() > LONGEST_IN_OPTIMISED);
            return is_in_folder
                || stem.is_some_and(|stem| self.may_name(stem))
                || self.may_name(licence.unwrap_or(name))
                || extension.is_some_and(|end| self.mentions(&end));
        }
        if owner.is_some_and(|owner| owner == self.package) {
            let stem = path.file_stem().unwrap_or_default();
            let is_named = self.is_in_all(stem) || self.may_name(stem);
            return !is_compiled || self.traits().explores || is_named;
        }
        let folder = owner.and_then(Utf8Path::file_name).unwrap_or_default();
        let is_inside = owner.is_some_and(|owner| owner.starts_with(self.package));
        // What these say is in the executable. Only a program that looks at sources reads them, or one that starts
        // cargo.
        if path.extension() == Some("rs") && owner.is_some() {
            let is_named = || owner.is_some_and(|owner| given.contains(&owner)) || self.may_name(folder);
            return self.traits().explores
                || (is_inside || leaves()) && is_named()
                || owner.is_some_and(|owner| self.has_path_of(owner));
        }
        if ["Cargo.toml", "Cargo.lock"].contains(&name) {
            return self.traits().explores || self.may_name(name);
        }
        // A program that it starts may name or find the file.
        self.traits().starts
            || self.traits().climbs
            || !given.is_empty()
            || self.traits().explores && (is_inside || leaves())
            || self.may_name(name)
            || self.may_name(folder)
    }

    /// Whether it contains the absolute path of a package's folder, such as the package's `CARGO_MANIFEST_DIR`.
    fn has_path_of(&self, owner: &Utf8Path) -> bool {
        let path: Utf8PathBuf = self.checkout.components().chain(owner.components()).collect();
        // It may also be the beginning of the path of a package inside.
        let others = self.packages.iter().filter_map(|other| other.strip_prefix(owner).ok());
        let others: Vec<&Utf8Path> = others.filter(|other| *other != "").collect();
        let is_of_other = |rest: &[u8]| {
            let below = rest.strip_prefix(b"/").unwrap_or_default();
            let ends = |rest: &[u8]| {
                !rest.first().is_some_and(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte))
            };
            others.iter().any(|other| below.strip_prefix(other.as_str().as_bytes()).is_some_and(ends))
        };
        self.traits().has_paths && self.texts().after(path.as_str().as_bytes()).any(|rest| !is_of_other(rest))
    }

    /// Whether it can find its way out of its package's folder. `PathBuf::pop` and `join("..")` are in every executable,
    /// so only the sources have them.
    fn leaves(&self) -> bool {
        self.traits().climbs || (self.has_way_out)()
    }
}

/// Whether any test may read a changed file, whatever its executable says: it belongs to no package, or to the one at
/// the root, and is neither documentation nor for cargo and the compiler.
pub(crate) fn is_for_all(path: &Utf8Path, packages: &BTreeSet<Utf8PathBuf>) -> bool {
    let owner = owner_of(path, packages);
    let is_for_cargo = ["Cargo.toml", "Cargo.lock"].contains(&path.file_name().unwrap_or_default());
    let is_source = path.extension() == Some("rs") && owner.is_some();
    let is_at_root = owner.and_then(Utf8Path::file_name).is_none();
    is_at_root && !is_for_cargo && !is_source && !is_documentation(path, owner)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What an executable with symbols has.
    const ORDINARY: &str = "_ZN3std4path7PathBuf3pop 6commonNtB4_7Command11capture_env \
        _ZN3std4time7Instant3now _ZN3std2io5stdio6stdout \
        /rustc/59807616e/library/std/src/../../backtrace/src/lib.rs \
        compiler-builtins/src/math/../../../libm/src/lib.rs src/lib.rs";

    fn traits(texts: &str, is_optimised: bool) -> Traits {
        Traits::in_checkout(&Texts::whole(texts.as_bytes()), is_optimised, "/work/tree".into())
    }

    /// What is asked of an executable with these texts that belongs to a package.
    fn ask<T>(package: &str, texts: &str, is_optimised: bool, ask: impl FnOnce(&Reader<'_>) -> T) -> T {
        ask_given(package, texts, is_optimised, Variables::default(), ask)
    }

    fn ask_given<T>(
        package: &str,
        texts: &str,
        is_optimised: bool,
        variables: Variables<'_>,
        ask: impl FnOnce(&Reader<'_>) -> T,
    ) -> T {
        let packages = ["", "leaf", "crates/leaf", "crates/app", "crates/app/derive"];
        let packages = packages.into_iter().map(Utf8PathBuf::from).collect();
        let read = || Ok(Texts::whole(texts.as_bytes()));
        ask(&Reader::new(
            Utf8Path::new(package),
            ("/work/tree".into(), &packages),
            Some(traits(texts, is_optimised)),
            variables,
            &|| false,
            &read,
        ))
    }

    /// The reader of an executable in the folder `app`.
    fn reader_of_app<'a>(
        packages: &'a BTreeSet<Utf8PathBuf>,
        traits: Option<Traits>,
        read: &'a dyn Fn() -> anyhow::Result<Texts>,
    ) -> Reader<'a> {
        let checkout = ("/work/tree".into(), packages);
        Reader::new("app".into(), checkout, traits, Variables::default(), &|| false, read)
    }

    fn may_read(texts: &str, path: &str) -> bool {
        ask("crates/app", texts, false, |reader| reader.may_read(Utf8Path::new(path), false))
    }

    #[test]
    fn a_short_name_may_be_in_pieces_in_optimised_code() {
        let reads = |is_optimised, path| {
            ask("crates/app", ORDINARY, is_optimised, |reader| reader.may_read(Utf8Path::new(path), false))
        };
        // Nothing is known of the pieces in a file of an unknown format.
        for path in ["README.md", "crates/app/README.md", "crates/leaf/tests/in.json", "Cargo.lock"] {
            assert!(!reads(false, path) && reads(true, path), "{path}");
        }
        assert!(!reads(true, "docs/architecture-overview.md"), "16 letters stay whole");
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
    fn documentation_beside_the_manifest_is_read_by_a_test_that_names_it_without_extension() {
        let names = format!("{ORDINARY} README guide");
        assert!(may_read(&names, "crates/app/README.md") && !may_read(&names, "crates/app/CHANGELOG.md"));
        for path in ["README.md", "crates/leaf/README.md", "docs/guide.md"] {
            assert!(!may_read(&names, path), "{path}");
        }
    }

    #[test]
    fn a_licence_is_read_by_a_test_that_names_its_beginning() {
        for (text, path) in [
            ("LICENSE-", "crates/app/LICENSE-MIT"),
            ("LICENCE", "LICENCE.txt"),
            ("COPYING", "crates/leaf/COPYING.LESSER"),
        ] {
            assert!(!may_read(ORDINARY, path) && may_read(&format!("{ORDINARY} {text}"), path), "{path}");
        }
        assert!(!may_read(&format!("{ORDINARY} LICENSE"), "README.md"));
    }

    #[test]
    fn a_file_that_a_variable_leads_to_is_read() {
        let may_read = |value: &str, texts: &str, path: &str| {
            let variables = [("DATA".to_owned(), value.to_owned())];
            let variables = variables.iter().map(|(name, value)| (name, value));
            let variables = Variables::new(variables, "crates/app".into(), "/c".into());
            ask_given("crates/app", texts, false, variables, |reader| reader.may_read(path.into(), false))
        };
        let (data, source) = ("crates/leaf/data/a.json", "crates/leaf/src/lib.rs");
        for (value, path) in [
            ("/c/crates/leaf/data", data),
            ("/c/crates/leaf", data),
            ("/c", data),
            ("../leaf/src", source),
            ("README.md", "crates/app/README.md"),
            ("../../docs", "docs/a.md"),
            ("/c/Cargo.lock", "Cargo.lock"),
        ] {
            assert!(may_read(value, ORDINARY, path), "{value}: {path}");
            assert!(!may_read("/c/crates/other", ORDINARY, path), "{path}");
        }
        for (text, path) in [("leaf", source), ("readdir64", "README.md")] {
            assert!(may_read("/c", &format!("{ORDINARY} {text}"), path), "{text}: {path}");
            assert!(!may_read("/c", ORDINARY, path), "the root is a way, and no name: {path}");
        }
        assert!(!may_read("", &format!("{ORDINARY} leaf"), source), "there is no way");
        assert!(may_read("/c/crates/leaf", ORDINARY, source), "a way with the name of the package");
    }

    #[test]
    fn documentation_is_read_by_a_test_that_lists_its_folder() {
        let lists = format!("{ORDINARY} readdir64");
        assert!(may_read(&lists, "crates/app/README.md") && may_read(&lists, "crates/app/derive/README.md"));
        assert!(!may_read(&lists, "README.md") && !may_read(&lists, "crates/leaf/README.md"));
        assert!(may_read(&format!("{lists} /crates/app/../"), "README.md"));
        let starts = format!("{ORDINARY} 6commonNtB4_7Command3arg");
        assert!(!may_read(&starts, "crates/app/README.md"), "a program reads what it is for");
        let at_root =
            |path: &str| ask("", &lists, false, |reader| reader.may_read(Utf8Path::new(path), false));
        assert!(at_root("README.md") && at_root("docs/a.md") && at_root("leaf/README.md"));
    }

    #[test]
    fn a_way_out_of_the_folder_may_be_in_the_sources_alone() {
        let packages = ["crates/leaf", "crates/app"].into_iter().map(Utf8PathBuf::from).collect();
        let may_read = |texts: &str, has_way_out: bool, path: &str| {
            let (read, way) = (|| Ok(Texts::whole(texts.as_bytes())), || has_way_out);
            let traits = Some(traits(texts, false));
            Reader::new(
                "crates/app".into(),
                ("/work/tree".into(), &packages),
                traits,
                Variables::default(),
                &way,
                &read,
            )
            .may_read(path.into(), false)
        };
        let source = "crates/leaf/src/lib.rs";
        let names = format!("{ORDINARY} leaf");
        assert!(may_read(&names, true, source) && !may_read(&names, false, source));
        assert!(!may_read(ORDINARY, true, source), "it does not name the other package");
        let lists = format!("{ORDINARY} readdir64");
        for path in ["crates/leaf/data.json", "README.md"] {
            assert!(may_read(&lists, true, path) && !may_read(&lists, false, path), "{path}");
        }
        assert!(!may_read(ORDINARY, true, "crates/leaf/data.json"));
    }

    #[test]
    fn sources_of_other_packages_are_read_by_programs_that_find_or_name_them() {
        let sources = [
            "crates/leaf/src/lib.rs",
            "crates/app/derive/src/lib.rs",
            "crates/leaf/Cargo.toml",
            "Cargo.lock",
        ];
        for path in sources {
            assert!(!may_read(ORDINARY, path), "{path}");
            for way in ["readdir64", "6commonNtB4_7Command3arg"] {
                assert!(may_read(&format!("{ORDINARY} {way}"), path), "{path}");
            }
            assert!(may_read("without symbols", path), "{path}");
        }
        assert!(may_read(&format!("{ORDINARY} Cargo.lock"), "Cargo.lock"));
        for climbing in ["/crates/app/../", "_ZN3std4path4Path6parent17h12E", "_3std4pathNtB5_9Ancestors"] {
            let climbing = format!("{ORDINARY} {climbing}");
            assert!(!may_read(&climbing, sources[0]));
            assert!(may_read(&format!("{climbing} leaf"), sources[0]));
            assert!(may_read(&climbing, "src/lib.rs"), "a package at the root has no name of a folder");
        }
        assert!(!may_read(&format!("{ORDINARY} leaf"), sources[0]));
    }

    #[test]
    fn an_absolute_path_of_a_package_leads_to_its_sources() {
        let source = "crates/leaf/cases/a.rs";
        assert!(may_read(&format!("{ORDINARY} /work/tree/crates/leaf/cases/{{}}.rs"), source));
        assert!(may_read(&format!("{ORDINARY} /work/tree/crates/leaf"), source));
        assert!(!may_read(&format!("{ORDINARY} /work/tree/crates/app crates/leaf/src/lib.rs"), source));
        let of_root = |text: &str| may_read(&format!("{ORDINARY} {text}"), "src/lib.rs");
        assert!(of_root("/work/tree/src") && of_root("/work/tree/crates/app /work/tree"));
        assert!(of_root("/work/tree/crates/app-data/a.rs"));
        assert!(!of_root("/work/tree/crates/app/data"), "the path of another package");
    }

    #[test]
    fn compiled_sources_of_its_own_package_are_read_by_programs_that_find_or_name_them() {
        let may_read = |texts: &str, path: &str, is_compiled| {
            ask("", texts, false, |reader| reader.may_read(Utf8Path::new(path), is_compiled))
        };
        let other_test = "tests/decode.rs";
        assert!(!may_read(ORDINARY, other_test, true));
        assert!(may_read(ORDINARY, other_test, false), "perhaps it is data");
        assert!(may_read(ORDINARY, "tests/a.rs", true), "a short name is in every executable");
        for way in ["decode", "readdir64"] {
            assert!(may_read(&format!("{ORDINARY} {way}"), other_test, true), "{way}");
        }
        let nested = "leaf/src/lib.rs";
        assert!(!may_read(ORDINARY, nested, true));
        assert!(may_read(&format!("{ORDINARY} leaf"), nested, true), "no way out of the package is needed");
        let data = "leaf/tests/data.json";
        assert!(!may_read(ORDINARY, data, false));
        assert!(may_read(&format!("{ORDINARY} readdir64"), data, false), "a walk over its own folder");
    }

    #[test]
    fn a_test_with_figures_may_assert_them() {
        let asserts_nothing = |texts: &str| ask("", texts, false, |reader| !reader.may_assert());
        assert!(asserts_nothing(ORDINARY) && !asserts_nothing("without symbols"));
        assert!(!asserts_nothing(&format!("{ORDINARY} _RNvNtNtCs1_7memprof6shared5usage5Usage")));
    }

    #[test]
    fn a_program_may_read_data_of_each_package_but_no_documentation() {
        let starts = format!("{ORDINARY} 6commonNtB4_7Command3arg");
        let lists = format!("{ORDINARY} readdir64");
        let data = "crates/leaf/tests/data.json";
        assert!(may_read(&starts, data) && !may_read(&lists, data));
        assert!(!may_read(&starts, "README.md") && !may_read(&starts, "crates/leaf/README.md"));
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
        let read = || Ok(Texts::whole(ORDINARY.as_bytes()));
        let traits = Some(traits(ORDINARY, false));
        let reader = reader_of_app(&packages, traits, &read);
        assert!(reader.may_read(Utf8Path::new("shared/code.rs"), false), "code that belongs to no package");
        assert!(!reader.may_read(Utf8Path::new("Cargo.toml"), false), "the manifest of the workspace");
    }

    #[test]
    fn an_executable_is_read_only_for_what_its_traits_do_not_say() {
        let packages = BTreeSet::from([Utf8PathBuf::from("app"), Utf8PathBuf::from("leaf")]);
        let read = || Err(anyhow::anyhow!("cannot be read"));
        let reader = |traits| reader_of_app(&packages, traits, &read);
        let known = Some(traits(ORDINARY, false));
        let one = reader(known);
        assert!(!one.may_assert() && !one.may_read(Utf8Path::new("leaf/src/lib.rs"), false));
        one.checked().unwrap();
        let one = reader(known);
        let _ = one.may_read(Utf8Path::new("README.md"), false);
        assert_eq!(one.checked().unwrap_err().to_string(), "cannot be read");
        let other = reader(None);
        assert!(other.may_assert(), "without symbols, nobody knows");
        other.checked().unwrap_err();
    }
}
