//! Which test executables need no build, because they contain no selected test. An earlier build has listed their
//! tests, and nothing that could give them another test has changed since. If in doubt, an executable is built.

use std::cell::LazyCell;
use std::collections::{BTreeMap, BTreeSet};

use camino::{Utf8Path, Utf8PathBuf};

use crate::code_of_builds;
use crate::documentation::owner_of;
use crate::git::changed_files::changed_files;
use crate::job::Job;
use crate::provenance::{Executable, KeyInputs, Provenance};
use crate::same_sources::{COMPARED, has_same_settings, is_change_for_people, newest};
use crate::selected_targets::{INCLUSIONS, MACROS, RevisionTexts, has_selected};
use crate::store::{self, Stored};
use memprof_judge::results::build_facts::{self, Fact};
use memprof_judge::results::run_folder::RunFolder;
use memprof_plan::request::{Request, Selection, TargetKind};

/// Returns the names of these executables, as cargo gives them: `parse-0f3c…`. Empty if no earlier build has a
/// selected test: a misspelt name is reported best if all tests are known.
pub(crate) fn executables(job: &Job<'_>, wanted: &KeyInputs) -> BTreeSet<String> {
    let inputs = job.inputs;
    let request = &inputs.plan.request;
    let is_plain = inputs.overlay.is_empty()
        && inputs.patches.is_empty()
        && inputs.added_tests.is_empty()
        && job.side().is_none()
        && !request.settings.run_all
        && !request.builds_all
        // Shards become one run, and must have builds of the same sources.
        && request.shard.is_none()
        && !request.build.all_tests
        && wanted.redacted() == *wanted;
    if !is_plain || !job.wants_tests() || selects_all(request) {
        return BTreeSet::new();
    }
    let texts = RevisionTexts::new(inputs.repository, job.revision(), &[], &[]);
    let Ok(links) = inputs.repository.links(&job.revision().commit) else { return BTreeSet::new() };
    let mut listed: BTreeMap<String, bool> = BTreeMap::new();
    let mut is_any_selected = false;
    for folder in newest(&inputs.cache.store()).into_iter().take(COMPARED) {
        let Stored::Complete(entry) = store::find_in(&folder) else { continue };
        let build = &entry.provenance;
        let all = KeyInputs { selected: None, selected_cells: None, ..build.key_inputs.clone() };
        if !has_same_settings(&all, wanted) || !job.is_current(build) {
            continue;
        }
        // Git may have removed the tree of a commit that nobody uses any more.
        let Ok(changed) = changed_files(inputs.repository, &build.key_inputs.tree, &wanted.tree) else {
            continue;
        };
        let changed = changed.iter().filter(|file| !is_change_for_people(build, file));
        let changed: BTreeSet<&Utf8Path> =
            changed.flat_map(|file| file.old.iter().chain(&file.new)).map(Utf8Path::new).collect();
        let Some(changed) = changed_parts(&texts, build, &changed, &links) else { continue };
        for executable in &build.executables {
            let is_selected = has_selected(request, executable);
            is_any_selected |= is_selected;
            let is_unchanged = executable.harness
                && executable.unlisted.is_none()
                && executable
                    .package_folder
                    .as_deref()
                    .is_some_and(|own| !changed.contains(&(own, part_of(executable.kind))));
            if let Some(name) = name_of(executable).filter(|_| is_unchanged) {
                listed.entry(name.to_owned()).or_insert(is_selected);
            }
        }
    }
    if !is_any_selected {
        return BTreeSet::new();
    }
    listed.into_iter().filter(|(_, is_selected)| !is_selected).map(|(name, _)| name).collect()
}

/// Says how many executables are not built, if there are any.
pub(crate) fn told(count: usize) -> Option<String> {
    let executables = match count {
        0 => return None,
        1 => "1 executable that has".to_owned(),
        count => format!("{count} executables that have"),
    };
    Some(format!("without {executables} no selected test (--all-tests)"))
}

/// Returns the key's inputs of a build that leaves out executables.
pub(crate) fn narrowed(request: &Request, all: &KeyInputs) -> KeyInputs {
    let entries = request.tests.iter().filter(|entry| entry.program.is_none());
    let cells: Vec<_> = entries.map(|entry| (&entry.name, &entry.params)).collect();
    let has_any = cells.iter().any(|(name, params)| name.is_some() || !params.is_empty());
    let selected_cells = has_any.then(|| format!("{cells:?}"));
    KeyInputs { selected: Some(selection(request)), selected_cells, ..all.clone() }
}

/// Whether the finished runs of a revision are of this build. Runs of a damaged list are checked one by one later.
pub(crate) fn is_of_run(folder: &RunFolder, revision: usize, build: &KeyInputs) -> bool {
    let known = build_facts::read(folder).unwrap_or_default();
    known.get(&revision).is_some_and(|known| known.facts.get(Fact::Key) == Some(&build.key()))
}

fn selection(request: &Request) -> Vec<Selection> {
    let of_tests = request.tests.iter().filter(|entry| entry.program.is_none());
    of_tests.map(|entry| entry.selection.clone()).collect()
}

fn selects_all(request: &Request) -> bool {
    selection(request)
        .iter()
        .any(|one| one.expression.is_none() && one.exact.is_empty() && one.within.is_none())
}

/// Returns the name that cargo gave the executable; `deps/0003-NAME` is its copy.
fn name_of(executable: &Executable) -> Option<&str> {
    let (_, name) = executable.file.file_name()?.split_once('-')?;
    Some(name)
}

/// The folders of a package whose files belong to different targets.
const PARTS: [&str; 4] = ["src", "tests", "benches", "examples"];

/// Returns the folder with a target's files.
fn part_of(kind: TargetKind) -> &'static str {
    let [of_library, of_tests, of_benches, of_examples] = PARTS;
    match kind {
        TargetKind::Lib | TargetKind::Bin => of_library,
        TargetKind::Test => of_tests,
        TargetKind::Bench => of_benches,
        TargetKind::Example => of_examples,
    }
}

/// Returns which folders of which packages changed since a build, so that their targets may have other tests.
/// `None` if all targets may.
fn changed_parts<'b>(
    texts: &RevisionTexts<'_>,
    build: &'b Provenance,
    changed: &BTreeSet<&Utf8Path>,
    links: &[Utf8PathBuf],
) -> Option<BTreeSet<(&'b Utf8Path, &'static str)>> {
    let packages = &build.local_packages;
    let mut found = BTreeSet::new();
    let mut add = |path: &Utf8Path| {
        let owner = owner_of(path, packages)?;
        let folder = path.strip_prefix(owner).ok()?.components().next()?;
        match PARTS.iter().find(|part| **part == folder.as_str()) {
            Some(part) => found.extend([(owner, *part)]),
            None => found.extend(PARTS.map(|part| (owner, part))),
        }
        Some(())
    };
    let of_builds = LazyCell::new(|| {
        let read = |path: &Utf8Path| texts.repository.show(&texts.revision.commit, path.as_str()).ok()?;
        code_of_builds::packages(packages, read)
    });
    let runs_in_builds = |path: &Utf8Path| Some(of_builds.as_ref()?.contains(owner_of(path, packages)?));
    for path in changed {
        // Other files may be read by any build script or macro, and a macro may make tests in other targets.
        let is_source = path.extension() == Some("rs") && path.file_name() != Some("build.rs");
        let makes_others = || {
            MACROS.iter().any(|word| {
                texts.paths_with(word).is_none_or(|paths| paths.iter().any(|one| one.as_path() == *path))
            })
        };
        if !is_source || makes_others() || runs_in_builds(path)? {
            return None;
        }
        add(path)?;
    }
    if !changed.is_empty() {
        // These may have files from elsewhere.
        for word in INCLUSIONS {
            for path in texts.paths_with(word)?.iter() {
                let _of_no_package = add(path);
            }
        }
        let manifests = |path: &&Utf8PathBuf| path.extension() == Some("toml");
        for word in [".rs\"", ".rs'"] {
            for path in texts.paths_with(word)?.iter().filter(manifests) {
                let manifest = texts.repository.show(&texts.revision.commit, path.as_str()).ok()??;
                if names_a_root(&String::from_utf8_lossy(&manifest)) {
                    let _of_no_package = add(path);
                }
            }
        }
        for path in links {
            let _of_no_package = add(path);
        }
    }
    Some(found)
}

/// Whether a manifest gives a target the path of its root.
fn names_a_root(manifest: &str) -> bool {
    manifest.lines().any(|line| line.contains("path") && line.contains(".rs"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provenance::samples;

    #[test]
    fn a_manifest_names_a_root_by_its_path() {
        assert!(names_a_root("[[test]]\npath = \"src/root.rs\""));
        assert!(names_a_root("lib = { path = 'lib.rs' }"));
        assert!(!names_a_root("homepage = \"https://tokio.rs\"\nbuild = \"build.rs\""));
    }

    #[test]
    fn an_executable_has_the_name_that_cargo_gave_it() {
        let named = |file: &str| {
            name_of(&Executable { file: file.into(), ..samples::executable() }).map(str::to_owned)
        };
        assert_eq!(
            named("deps/0003-length_delimited-7dee80ee").as_deref(),
            Some("length_delimited-7dee80ee")
        );
        assert_eq!(named("tool"), None);
    }
}
