//! Finds the packages that overlays go into, in the commits and before anything is built.

use std::collections::BTreeSet;

use camino::{Utf8Path, Utf8PathBuf};
use toml_edit::{DocumentMut, Item};

use crate::git::repository::Repository;
use crate::git::workspace_folder::package_name;
use crate::inject::checkout_edits;
use crate::inject::overlay::{self, OverlayFile};
use memprof_plan::request::{OverlayMode, OverlayPath, OverlayRequest};
use memprof_plan::resolved::Plan;
use memprof_support::event::{Event, Sink};
use memprof_support::suggest;
use memprof_support::user_error::UserError;

/// A package of a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Package {
    name: String,
    /// Relative to the repository's root.
    folder: Utf8PathBuf,
}

/// The packages of a commit, and the manifest of the workspace.
struct Packages {
    all: Vec<Package>,
    root: DocumentMut,
    workspace: Utf8PathBuf,
}

/// Completes the plan with the packages that follow from the overlays' paths: `-p`, if cargo does
/// not build the package by default, and the package of an external overlay.
///
/// # Errors
/// An overlay is outside of every package, or one of several packages must be chosen.
pub fn complete(plan: &mut Plan, repository: &Repository, sink: &dyn Sink) -> anyhow::Result<()> {
    if plan.request.overlay.is_empty() {
        return Ok(());
    }
    let mut of_revisions = vec![Packages::read(plan, plan.baseline, repository)?];
    for index in (0..plan.revisions.len()).filter(|index| *index != plan.baseline) {
        of_revisions.push(Packages::read(plan, index, repository)?);
    }
    let mut with_tests = BTreeSet::new();
    let mut external = Vec::new();
    for (index, overlay) in plan.request.overlay.iter().enumerate() {
        match (overlay.mode, &overlay.package) {
            (OverlayMode::Package, named) => {
                let commit = plan.overlay_commits.get(index).cloned().flatten();
                let found = packages_with_tests(overlay, commit, plan, &of_revisions, repository)?;
                with_tests.extend(named.clone().filter(|_| found.is_empty()));
                with_tests.extend(found);
            }
            (OverlayMode::External, None) if plan.request.build.settings.packages.is_empty() => {
                external.push((index, of_revisions[0].of_external(overlay)?));
            }
            (OverlayMode::External, _) => {}
        }
    }
    for (index, package) in external {
        plan.request.overlay[index].package = Some(package);
    }
    // A package that no revision has is reported with the packages that there are.
    with_tests.retain(|name| of_revisions.iter().any(|packages| packages.has(name)));
    let build = &mut plan.request.build;
    // The tests of a chosen package may be a package of their own.
    let is_inside = |name: &&String| {
        let inside =
            |packages: &Packages| build.settings.packages.iter().any(|outer| packages.is_inside(name, outer));
        !build.settings.packages.contains(name) && of_revisions.iter().any(inside)
    };
    let inner: Vec<String> = with_tests.iter().filter(is_inside).cloned().collect();
    if !inner.is_empty() {
        sink.emit(Event::Warning {
            message: format!(
                "the overlay's tests are in the package {}, which is built too",
                inner.join(" and ")
            ),
            help: None,
        });
        build.settings.packages.extend(inner);
    }
    let is_default = |name: &String| of_revisions.iter().any(|packages| packages.is_default(name));
    if build.settings.packages.is_empty() && !build.settings.workspace && !with_tests.iter().all(is_default) {
        build.settings.packages = with_tests.into_iter().collect();
        sink.emit(Event::Warning {
            message: format!(
                "cargo does not build the overlay's package by default: building only {}",
                build.settings.packages.join(" and ")
            ),
            help: Some("to build other packages, too: -p NAME, or --workspace".to_owned()),
        });
    }
    Ok(())
}

/// Returns the packages that an overlay adds tests to.
fn packages_with_tests(
    overlay: &OverlayRequest,
    commit: Option<String>,
    plan: &Plan,
    of_revisions: &[Packages],
    repository: &Repository,
) -> anyhow::Result<BTreeSet<String>> {
    let files = overlay::read(std::slice::from_ref(overlay), &[commit], repository)?;
    let sources = files.iter().filter(|file| file.destination.extension() == Some("rs"));
    let mut with_tests = BTreeSet::new();
    let mut outside = None;
    for file in sources {
        let in_folder = |packages: &Packages| packages.path_of(file);
        let Some(path) = of_revisions.iter().find_map(in_folder) else { continue };
        let Some((packages, package)) =
            of_revisions.iter().find_map(|packages| Some((packages, packages.around(&path)?)))
        else {
            // A file that other code includes may be anywhere.
            let mut exists = false;
            for revision in &plan.revisions {
                exists |= repository.tree_entry(&revision.commit, path.as_str())?.is_some();
            }
            outside = outside.or((!exists).then_some(path));
            continue;
        };
        let inside = path.strip_prefix(&package.folder).unwrap_or(&path);
        let is_test = ["tests", "benches", "examples"].iter().any(|folder| inside.starts_with(folder))
            || checkout_edits::integration_test(&package.folder, inside).is_some();
        if is_test && packages.is_member(package) {
            if let Some(nested) = NestedTests::around(&path, of_revisions) {
                return Err(nested.refusal(overlay, &path, plan).into());
            }
            with_tests.insert(package.name.clone());
        }
    }
    match outside.filter(|_| with_tests.is_empty()) {
        Some(path) => Err(outside_of_all(overlay, &path, &of_revisions[0]).into()),
        None => Ok(with_tests),
    }
}

/// A folder `tests` that is a package of its own in some revisions only.
struct NestedTests<'a> {
    outer: (usize, &'a Package),
    inner: (usize, &'a Package),
}

impl<'a> NestedTests<'a> {
    /// Returns the two packages around a file. The baseline is first among the revisions.
    fn around(path: &Utf8Path, of_revisions: &'a [Packages]) -> Option<Self> {
        let found = of_revisions.iter().enumerate();
        let found: Vec<_> = found.filter_map(|(index, one)| Some((index, one.around(path)?))).collect();
        let inner = *found.iter().find(|(_, package)| package.folder.file_name() == Some("tests"))?;
        let outer = *found.iter().find(|(_, package)| package.folder.join("tests") == inner.1.folder)?;
        Some(Self { outer, inner })
    }

    fn refusal(&self, overlay: &OverlayRequest, path: &Utf8Path, plan: &Plan) -> UserError {
        let others = (0..plan.revisions.len()).filter(|index| *index != plan.baseline);
        let in_order: Vec<usize> = std::iter::once(plan.baseline).chain(others).collect();
        let at = |index: usize| plan.revisions[in_order[index]].name.as_str();
        let ((outer_at, outer), (inner_at, inner)) = (self.outer, self.inner);
        let from = overlay.from.as_ref().map(|from| format!("{from}:")).unwrap_or_default();
        let source = overlay.paths.first().map_or(path.as_str(), |path| path.source.as_str());
        let file = Some(Utf8Path::new(source)).filter(|path| path.extension() == Some("rs"));
        let name = file.and_then(Utf8Path::file_name);
        let destination = name.map_or("tests".to_owned(), |name| format!("tests/{name}"));
        let refs: Vec<&str> = plan.revisions.iter().map(|one| one.name.as_str()).collect();
        UserError::new(format!(
            "overlay: '{path}' is in the package {} at {}, and in {} at {}, so its tests have two names and \
             would not be compared",
            outer.name,
            at(outer_at),
            inner.name,
            at(inner_at)
        ))
        .help(format!(
            "in a crate of their own they have one name: cargo memprof {} --overlay {from}{source}={destination} \
             --overlay-mode external --overlay-package {}",
            refs.join(" "),
            outer.name
        ))
    }
}

/// Returns the error about an overlay that no package of the workspace contains.
fn outside_of_all(overlay: &OverlayRequest, path: &Utf8Path, packages: &Packages) -> UserError {
    let user_error = UserError::new(format!(
        "overlay: '{path}' is in no package of the workspace '{}'",
        packages.workspace.join("Cargo.toml")
    ));
    let Some(nearest) = packages.members().min_by_key(|package| package.folder.components().count()) else {
        return user_error;
    };
    let from = overlay.from.as_ref().map(|from| format!("{from}:")).unwrap_or_default();
    let source = overlay.paths.first().map(|path| path.source.as_str()).unwrap_or_default();
    let file = path.file_name().unwrap_or_default();
    user_error.help(format!(
        "the nearest package is {}: --overlay {from}{source}={}",
        nearest.name,
        nearest.folder.join("tests").join(file)
    ))
}

impl Packages {
    /// Reads the manifests of a revision.
    fn read(plan: &Plan, index: usize, repository: &Repository) -> anyhow::Result<Self> {
        let commit = &plan.revisions[index].commit;
        let mut all = Vec::new();
        for path in repository.files(commit, "")? {
            let path = Utf8PathBuf::from(path);
            if path.file_name() != Some("Cargo.toml") {
                continue;
            }
            let manifest = manifest_at(repository, commit, &path);
            if let Some(name) = package_name(&manifest) {
                let folder = path.parent().unwrap_or(Utf8Path::new("")).to_owned();
                all.push(Package { name, folder });
            }
        }
        let workspace = plan.workspace.clone();
        Ok(Self { all, root: manifest_at(repository, commit, &workspace.join("Cargo.toml")), workspace })
    }

    fn has(&self, name: &str) -> bool {
        self.find(name).is_some()
    }

    fn find(&self, name: &str) -> Option<&Package> {
        self.all.iter().find(|package| package.name == name)
    }

    /// Whether the first package is in the folder `tests` of the second one.
    fn is_inside(&self, inner: &str, outer: &str) -> bool {
        let (Some(inner), Some(outer)) = (self.find(inner), self.find(outer)) else { return false };
        inner.folder == outer.folder.join("tests")
    }

    /// Returns where an overlay's file goes, from the repository's root. `None` if the revision lacks
    /// the package.
    fn path_of(&self, file: &OverlayFile) -> Option<Utf8PathBuf> {
        let Some(name) = &file.package else { return Some(file.destination.clone()) };
        Some(self.find(name)?.folder.join(&file.destination))
    }

    /// Returns the innermost package around a file, if it is in the workspace's folder.
    fn around(&self, path: &Utf8Path) -> Option<&Package> {
        let around = self.all.iter().filter(|package| path.starts_with(&package.folder));
        let innermost = around.max_by_key(|package| package.folder.components().count())?;
        innermost.folder.starts_with(&self.workspace).then_some(innermost)
    }

    /// Returns the packages that may be members of the workspace.
    fn members(&self) -> impl Iterator<Item = &Package> {
        self.all.iter().filter(|package| self.is_member(package))
    }

    /// Whether the package may be a member: it is the root, or the workspace does not exclude it.
    /// Only cargo knows for certain, because path dependencies are members, too.
    fn is_member(&self, package: &Package) -> bool {
        let Ok(inside) = package.folder.strip_prefix(&self.workspace) else { return false };
        if inside.as_str().is_empty() {
            return true;
        }
        let excluded = paths(&self.root, "exclude");
        self.root.get("workspace").is_some() && !excluded.iter().any(|folder| inside.starts_with(folder))
    }

    /// Whether cargo builds the package without `-p`. A package that the revision lacks is no reason
    /// for another choice.
    fn is_default(&self, name: &str) -> bool {
        let Some(package) = self.find(name) else { return false };
        let Ok(inside) = package.folder.strip_prefix(&self.workspace) else { return true };
        let is_declared = self.root.get("workspace").and_then(|table| table.get("default-members")).is_some();
        if is_declared {
            // A pattern may match more than it seems to, and `-p` would then narrow the build.
            let default = paths(&self.root, "default-members");
            return default.iter().any(|path| path.contains(['*', '?', '[']) || inside == path);
        }
        package_name(&self.root).is_none_or(|root| root == name)
    }

    /// Returns the package that an external overlay is for: around its file, else the root's, else
    /// the only one.
    fn of_external(&self, overlay: &OverlayRequest) -> Result<String, UserError> {
        let around = |path: &OverlayPath| self.around(Utf8Path::new(&path.source));
        // The root's package is around every file of the repository.
        let inner = overlay.paths.iter().filter_map(around).find(|package| package.folder != self.workspace);
        let names: Vec<&str> = self.members().map(|package| package.name.as_str()).collect();
        let only = || names.first().filter(|_| names.len() == 1).map(|name| (*name).to_owned());
        let found = inner.map(|package| package.name.clone());
        found.or_else(|| package_name(&self.root)).or_else(only).ok_or_else(|| {
            UserError::new("the external overlay names no package, and the workspace has several").help(
                format!("--overlay-package NAME; {}", suggest::did_you_mean_or_list("", "packages", &names)),
            )
        })
    }
}

/// Returns a manifest; empty if it is absent, a link, or not TOML.
fn manifest_at(repository: &Repository, commit: &str, path: &Utf8Path) -> DocumentMut {
    let text = repository.show(commit, path.as_str()).ok().flatten().unwrap_or_default();
    String::from_utf8_lossy(&text).parse().unwrap_or_default()
}

/// Returns a list of paths of the `[workspace]` table.
fn paths(manifest: &DocumentMut, key: &str) -> Vec<String> {
    let list = manifest.get("workspace").and_then(|table| table.get(key)).and_then(Item::as_array);
    let texts = list.into_iter().flatten().filter_map(|value| value.as_str());
    texts.map(|path| path.trim_start_matches("./").trim_end_matches('/').to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packages(workspace: &str, root: &str, all: &[(&str, &str)]) -> Packages {
        let package =
            |(name, folder): &(&str, &str)| Package { name: (*name).into(), folder: (*folder).into() };
        Packages {
            all: all.iter().map(package).collect(),
            root: root.parse().unwrap(),
            workspace: workspace.into(),
        }
    }

    fn external(source: &str) -> OverlayRequest {
        OverlayRequest {
            from: None,
            paths: vec![OverlayPath { source: source.into(), destination: None }],
            package: None,
            mode: OverlayMode::External,
            dependencies: std::collections::BTreeMap::new(),
        }
    }

    const MEMBERS: [(&str, &str); 3] = [("root", ""), ("syntax", "syntax"), ("fuzz", "fuzz")];

    #[test]
    fn only_the_root_is_built_by_default_if_it_is_a_package() {
        let root = "[package]\nname = 'root'\n[workspace]\nmembers = ['syntax']\nexclude = ['fuzz']\n";
        let found = packages("", root, &MEMBERS);
        assert_eq!(["root", "syntax", "fuzz"].map(|name| found.is_default(name)), [true, false, false]);
        let members: Vec<&str> = found.members().map(|package| package.name.as_str()).collect();
        assert_eq!(members, ["root", "syntax"]);
        assert_eq!(found.around("syntax/tests/a.rs".into()).unwrap().name, "syntax");
        assert_eq!(found.around("tests/a.rs".into()).unwrap().name, "root");
    }

    #[test]
    fn a_virtual_workspace_builds_all_or_its_default_members() {
        let all = [("a", "crates/a"), ("b", "crates/b")];
        let found = packages("", "[workspace]\nmembers = ['crates/*']\n", &all);
        assert!(found.is_default("a") && found.is_default("b"));
        let some = "[workspace]\nmembers = ['crates/*']\ndefault-members = ['./crates/a/']\n";
        let found = packages("", some, &all);
        assert!(found.is_default("a") && !found.is_default("b"));
        let pattern = packages("", "[workspace]\ndefault-members = ['crates/*']\n", &all);
        assert!(pattern.is_default("b"));
    }

    #[test]
    fn an_external_overlay_is_for_the_package_around_it_or_the_only_one() {
        let two = [("a", "crates/a"), ("b", "crates/b")];
        let found = packages("", "[workspace]\nmembers = ['crates/*']\n", &two);
        assert_eq!(found.of_external(&external("crates/b/tests/x.rs")).unwrap(), "b");
        let user_error = found.of_external(&external("/tmp/x.rs")).unwrap_err();
        assert!(user_error.help.unwrap().contains("a, b"));
        let one = packages("", "[workspace]\nmembers = ['crates/a']\n", &two[..1]);
        assert_eq!(one.of_external(&external("/tmp/x.rs")).unwrap(), "a");
        let root = packages("", "[package]\nname = 'root'\n[workspace]\n", &MEMBERS);
        assert_eq!(root.of_external(&external("/tmp/x.rs")).unwrap(), "root");
    }

    #[test]
    fn tests_that_are_a_package_in_one_revision_only_have_two_names() {
        let root = "[workspace]\nmembers = ['core']\n";
        let revisions = [
            packages("", root, &[("core", "core")]),
            packages("", root, &[("core", "core"), ("ct", "core/tests")]),
        ];
        let found = |path: &str, revisions: &[Packages]| {
            let found = NestedTests::around(path.into(), revisions)?;
            Some((found.outer.0, found.outer.1.name.clone(), found.inner.0, found.inner.1.name.clone()))
        };
        let both = Some((0, "core".to_owned(), 1, "ct".to_owned()));
        assert_eq!(found("core/tests/memory.rs", &revisions), both);
        assert_eq!(found("core/src/memory.rs", &revisions), None);
        assert_eq!(found("core/tests/memory.rs", &revisions[1..]), None);
    }

    #[test]
    fn an_overlay_outside_the_workspaces_folder_gets_the_line_to_paste() {
        let found =
            packages("inner", "[package]\nname = 'inner'\n", &[("inner", "inner"), ("other", "other")]);
        assert_eq!(found.around("other/tests/a.rs".into()), None);
        let overlay = OverlayRequest { mode: OverlayMode::Package, ..external("/tmp/a.rs") };
        let user_error = outside_of_all(&overlay, "tests/a.rs".into(), &found);
        assert_eq!(
            user_error.rendered(),
            "error: overlay: 'tests/a.rs' is in no package of the workspace 'inner/Cargo.toml'\n  \
             help: the nearest package is inner: --overlay /tmp/a.rs=inner/tests/a.rs"
        );
    }
}
