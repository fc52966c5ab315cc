//! Which tests cannot differ between the revisions: their executable is the same, and so is everything that
//! is known to reach it. With `affected`, it is enough that what a test reaches in the executable is the same. They
//! do not run when revisions are compared.

use std::collections::{BTreeMap, BTreeSet};

use camino::{Utf8Path, Utf8PathBuf};

use crate::kept_build::KeptBuild;
use crate::left_out::{LeftOut, Name, SameTests, remove};
use crate::linked_files;
use crate::read_files::{Reader, is_for_all};
use crate::variables::Variables;
use crate::ways_out::WaysOut;
use memprof_build::attempts::Build;
use memprof_build::git::repository::Repository;
use memprof_build::provenance::{Companion, Executable, KeyInputs, ListedTest, Provenance};
use memprof_build::store::Entry;
use memprof_build::texts::Texts;
use memprof_judge::results::build_facts;
use memprof_judge::results::run_folder::RunFolder;
use memprof_judge::results::same_code::SameCode;
use memprof_plan::cells::PlannedCell;
use memprof_plan::request::Request;
use memprof_plan::resolved::Plan;
use memprof_plan::side;
use memprof_support::counted::some;
use memprof_support::regular_file::followed;

/// Whether the user asked for something that needs the figures of each test.
pub fn needs_all(plan: &Plan) -> bool {
    let Request { settings, judging, trace, refs, .. } = &plan.request;
    let baseline = &plan.revisions[plan.baseline];
    let candidates = || plan.revisions.iter().enumerate().filter(|(index, _)| *index != plan.baseline);
    settings.run_all
        || !settings.pairs.is_empty()
        || !trace.is_empty()
        || judging.budget.is_some()
        || judging.rules.iter().any(|rule| rule.limit.is_some() || rule.leak.is_some())
        || refs.iter().any(side::has_settings)
        || plan.revisions.len() < 2
        // A comparison of a commit with itself is about noise.
        || candidates().any(|(_, candidate)| candidate.commit == baseline.commit)
}

/// Whether the runs of an earlier session began, and none was left out.
pub(crate) fn has_run_all(plan: &Plan, folder: &RunFolder) -> anyhow::Result<bool> {
    let left_out = build_facts::read(folder)?.remove(&plan.baseline).map(|build| build.same_code);
    Ok(folder.cells().exists() && left_out.unwrap_or_default().is_empty())
}

/// Removes the cells whose tests cannot differ, and returns them. `builds` are those of the plan's revisions, the
/// kept one excepted.
///
/// # Errors
///
/// Git or the store cannot be read.
pub(crate) fn leave_out(
    plan: &Plan,
    kept: Option<&KeptBuild<'_>>,
    repository: &Repository,
    builds: &[Build],
    cells: &mut Vec<PlannedCell>,
) -> anyhow::Result<LeftOut> {
    if needs_all(plan) {
        return Ok(LeftOut::default());
    }
    let Some(entries) = builds.iter().map(Build::entry).collect::<Option<Vec<&Entry>>>() else {
        return Ok(LeftOut::default());
    };
    let changed = changed_paths(plan, repository)?;
    let of_kept = kept.map(|kept| &kept.provenance);
    let provenances: Vec<&Provenance> =
        entries.iter().map(|entry| &entry.provenance).chain(of_kept).collect();
    // All builds have the code that matters of those that are read, and a kept build has no files.
    let first = entries[if kept.is_some() { 0 } else { plan.baseline }];
    let read = |executable: &Executable| {
        let named = first.provenance.executables.iter().find(|one| name(one) == name(executable));
        Ok(followed::read_within(
            first.folder.join(&named.unwrap_or(executable).file),
            followed::MOST_OF_BINARY,
        )?)
    };
    let built = &plan.revisions[if kept.is_some() { 0 } else { plan.baseline }];
    let injection = first.injection()?;
    let ways_out = WaysOut::new(repository, &built.commit, &injection);
    let unknown_reach = unknown_reach(&provenances, plan.baseline);
    let (for_all, others) = files_for_all(&provenances, changed);
    // With the variables of tests and parameters.
    let variables: BTreeSet<(&String, &String)> = cells.iter().flat_map(|planned| &planned.env).collect();
    let has_way_out = |package: &Utf8Path| ways_out.has(package);
    let Alike { same, readers, file } =
        same_executables(&provenances, plan.baseline, (&others, &variables), &has_way_out, &read)?;
    let (left_out, readers, files) = match &for_all[..] {
        [] => (remove(cells, &same, entries.len()), readers, file.as_slice()),
        files => (LeftOut::default(), same, files),
    };
    let run = match files {
        [] => LeftOut::default(),
        _ => remove(&mut cells.clone(), &readers, entries.len()),
    };
    Ok(LeftOut { unknown_reach, run_for: run_for(&run.tests, files), ..left_out })
}

/// Splits the changed files into those for which every test runs, and the others.
fn files_for_all(
    builds: &[&Provenance],
    changed: BTreeSet<Utf8PathBuf>,
) -> (Vec<Utf8PathBuf>, BTreeSet<Utf8PathBuf>) {
    let packages = local_packages(builds);
    let (for_all, others): (BTreeSet<_>, BTreeSet<_>) =
        changed.into_iter().partition(|path| !is_compiled(builds, path) && is_for_all(path, &packages));
    (for_all.into_iter().collect(), others)
}

/// Says that tests with the same code run for these files.
fn run_for(same: &[SameCode], files: &[Utf8PathBuf]) -> Option<String> {
    let words = SameCode::words(same).filter(|_| !files.is_empty())?;
    Some(format!("{words}, but may read the changed {}", some(files, 1)))
}

/// Returns the folders of the packages in the checkout.
fn local_packages(builds: &[&Provenance]) -> BTreeSet<Utf8PathBuf> {
    builds.iter().flat_map(|build| &build.local_packages).cloned().collect()
}

/// Whether this is a source that the compiler read.
fn is_compiled(builds: &[&Provenance], path: &Utf8Path) -> bool {
    path.extension() == Some("rs") && builds.iter().any(|build| build.compiled.contains(path))
}

/// Returns why it is not known what the tests of changed executables reach, each with the number of executables.
fn unknown_reach(builds: &[&Provenance], baseline: usize) -> BTreeMap<String, usize> {
    let mut reasons = BTreeMap::new();
    for executable in &builds[baseline].executables {
        let all = builds.iter().flat_map(|build| &build.executables);
        let named: Vec<_> = all.filter(|other| name(other) == name(executable)).collect();
        let reason = named.iter().find_map(|one| one.unknown_reach.clone());
        if let Some(reason) = reason.filter(|_| named.iter().any(|one| one.code != executable.code)) {
            *reasons.entry(reason).or_default() += 1;
        }
    }
    reasons
}

/// Returns the files that differ between the baseline and any candidate, by their paths on either side and those of
/// symbolic links to them.
fn changed_paths(plan: &Plan, repository: &Repository) -> anyhow::Result<BTreeSet<Utf8PathBuf>> {
    let baseline = &plan.revisions[plan.baseline];
    let mut paths = BTreeSet::new();
    for candidate in plan.revisions.iter().filter(|one| one.tree != baseline.tree) {
        let changed = repository.changed_paths(&baseline.tree, &candidate.tree)?;
        paths.extend(changed.into_iter().map(Utf8PathBuf::from));
    }
    let commits = plan.revisions.iter().map(|revision| &*revision.commit).collect();
    linked_files::add(&mut paths, repository, &commits)?;
    Ok(paths)
}

/// The executables of the baseline with tests that are the same at all revisions.
#[derive(Default)]
struct Alike<'a> {
    /// Those that nothing reaches that differs.
    same: BTreeMap<Name<'a>, SameTests<'a>>,
    /// Those that may read changed files.
    readers: BTreeMap<Name<'a>, SameTests<'a>>,
    /// One of these files.
    file: Option<Utf8PathBuf>,
}

/// Compares the executables. `variables` are those of the planned tests, `has_way_out` says whether a package's sources
/// leave its folder, and `read` returns an executable's bytes.
fn same_executables<'a>(
    builds: &[&'a Provenance],
    baseline: usize,
    (changed, variables): (&BTreeSet<Utf8PathBuf>, &BTreeSet<(&String, &String)>),
    has_way_out: &dyn Fn(&Utf8Path) -> bool,
    read: &dyn Fn(&Executable) -> anyhow::Result<Vec<u8>>,
) -> anyhow::Result<Alike<'a>> {
    let own = builds[baseline];
    let mut changed = changed.clone();
    for other in builds {
        match differing_overlay(own, other) {
            Some(paths) if has_same_settings(own, other) => changed.extend(paths),
            _ => return Ok(Alike::default()),
        }
    }
    let packages = local_packages(builds);
    let mut alike = Alike::default();
    for executable in &own.executables {
        let Some(package) = executable.package_folder.as_deref().filter(|folder| packages.contains(*folder))
        else {
            continue;
        };
        let Some(tests) = same_tests(executable, builds).filter(|_| !package.is_absolute()) else { continue };
        let read = || Ok(Texts::of(&read(executable)?));
        let has_way_out = || has_way_out(package);
        let of_build = own.key_inputs.environment.iter().chain(&executable.environment);
        let all = of_build.chain(variables.iter().copied());
        let variables = Variables::new(all, package, &own.key_inputs.checkout);
        let checkout = (&*own.key_inputs.checkout, &packages);
        let reader = Reader::new(package, checkout, executable.traits, variables, &has_way_out, &read);
        let reads_other =
            builds.iter().any(|other| reads_other_output(&reader, executable, &tests, own, other));
        if reader.may_assert() || reads_other {
            reader.checked()?;
            continue;
        }
        let may_read = |path: &&Utf8PathBuf| {
            let is_compiled = is_compiled(builds, path);
            // What the compiler read of a source is in the code.
            (tests == SameTests::All || !is_compiled) && reader.may_read(path, is_compiled)
        };
        let file = changed.iter().find(may_read);
        reader.checked()?;
        let found = if file.is_some() { &mut alike.readers } else { &mut alike.same };
        found.insert(name(executable), tests);
        alike.file = alike.file.or(file.cloned());
    }
    Ok(alike)
}

/// Returns the tests of an executable that have the same code in each build.
fn same_tests<'a>(executable: &'a Executable, builds: &[&Provenance]) -> Option<SameTests<'a>> {
    let find =
        |build: &&'_ Provenance| build.executables.iter().position(|other| name(other) == name(executable));
    let others: Option<Vec<&Executable>> =
        builds.iter().map(|build| find(build).map(|index| &build.executables[index])).collect();
    let others = others?;
    if others.iter().all(|other| is_alike(executable, other)) {
        return Some(SameTests::All);
    }
    if !others.iter().all(|other| is_run_alike(executable, other)) {
        return None;
    }
    let reach = |one: &Executable, test: &ListedTest| {
        one.tests.contains(test).then(|| one.reached.get(&test.name).cloned()).flatten()
    };
    let is_same = |test: &&ListedTest| {
        let own = reach(executable, test);
        own.is_some() && others.iter().all(|other| reach(other, test) == own)
    };
    let tests: BTreeSet<&str> = executable.tests.iter().filter(is_same).map(|test| &*test.name).collect();
    (!tests.is_empty()).then_some(SameTests::These(tests))
}

fn name(executable: &Executable) -> Name<'_> {
    (&executable.package, &executable.binary, executable.kind)
}

/// Whether two builds have all but their sources in common.
fn has_same_settings(one: &Provenance, other: &Provenance) -> bool {
    // The key has no `--jobs`, which changes nothing that is built. A build without the executables that have no selected
    // test has the others as a whole build does.
    let settings = |build: &Provenance| {
        let (tree, overlay) = Default::default();
        KeyInputs { tree, overlay, selected: None, ..build.key_inputs.clone() }.key()
    };
    settings(one) == settings(other)
        && (&one.runner, &one.target, &one.left_out) == (&other.runner, &other.target, &other.left_out)
        && one.missing_submodules.is_empty()
        && other.missing_submodules.is_empty()
}

/// Returns the files of overlays that differ, such as a test file that only one revision had. `None` if
/// something else about the overlay differs.
fn differing_overlay(one: &Provenance, other: &Provenance) -> Option<Vec<Utf8PathBuf>> {
    let [a, b] = [one, other].map(|build| &build.key_inputs.overlay);
    let names: BTreeSet<&String> =
        a.keys().chain(b.keys()).filter(|name| a.get(*name) != b.get(*name)).collect();
    // The name has the package, and the path in its folder.
    let paths = |name: &String| {
        let (_, destination) = name.strip_prefix("Package ")?.split_once('/')?;
        let injected = one.injected.iter().chain(&other.injected);
        let found: Vec<Utf8PathBuf> = injected.filter(|path| path.ends_with(destination)).cloned().collect();
        (!found.is_empty()).then_some(found)
    };
    let found: Option<Vec<Vec<Utf8PathBuf>>> = names.into_iter().map(paths).collect();
    found.map(|paths| paths.concat())
}

/// Whether two executables have the same code and tests, and cargo would run them in the same way.
fn is_alike(one: &Executable, other: &Executable) -> bool {
    one.code.is_some() && one.code == other.code && one.tests == other.tests && is_run_alike(one, other)
}

/// Whether cargo would run two executables in the same way.
fn is_run_alike(one: &Executable, other: &Executable) -> bool {
    let surroundings = |executable: &Executable| Executable {
        file: Utf8PathBuf::new(),
        hash: String::new(),
        key: None,
        code: None,
        tests: Vec::new(),
        body: None,
        traits: None,
        reached: BTreeMap::new(),
        unknown_reach: None,
        ..executable.clone()
    };
    one.unlisted.is_none() && surroundings(one) == surroundings(other)
}

/// Whether an executable may use something that differs, and that the builds made: what a build script wrote,
/// a program, or a library.
fn reads_other_output(
    reader: &Reader<'_>,
    executable: &Executable,
    tests: &SameTests<'_>,
    one: &Provenance,
    other: &Provenance,
) -> bool {
    let is_given = |path: &Utf8Path| {
        let mut values = executable.environment.values();
        reader.mentions(path.as_str()) || values.any(|value| value.contains(path.as_str()))
    };
    let outputs = differing(&one.outputs, &other.outputs).chain(
        // Files that could not be read may differ.
        one.outputs.iter().filter(|(_, hash)| hash.is_none()).map(|(path, _)| path),
    );
    let files = |build: &Provenance| -> BTreeMap<Utf8PathBuf, (String, Option<Utf8PathBuf>)> {
        let facts = |one: &Companion| (one.path.clone(), (one.hash.clone(), one.package_folder.clone()));
        // Those of scripts are no programs.
        let is_output = |one: &&Companion| build.outputs.keys().any(|folder| one.path.starts_with(folder));
        build.companions.iter().filter(|one| !is_output(one)).map(facts).collect()
    };
    let [a, b] = [one, other].map(files);
    let is_library = |path: &Utf8Path| [".so", ".dylib"].iter().any(|end| path.as_str().contains(end));
    // A test looks for the programs of its own package in many ways, for those of another one in few.
    let is_of_another = |path: &Utf8Path| {
        let mut facts = [&a, &b].into_iter().filter_map(|files| files.get(path));
        facts.all(|(_, owner)| owner.as_deref().is_some_and(|owner| owner != reader.package))
    };
    // Cargo puts examples into a folder of their own.
    let is_example = |path: &Utf8Path| path.parent().and_then(Utf8Path::file_name) == Some("examples");
    let may_start = |path: &Utf8Path, name: &str| {
        if is_example(path) && !["examples", "--example"].iter().any(|way| reader.may_name(way)) {
            false
        } else if is_of_another(path) {
            is_given(path) || reader.may_start(name)
        } else {
            // A data file or a script may name the program. In the other case, its changed sources count.
            reader.may_name(name) || *tests != SameTests::All && reader.explores()
        }
    };
    let may_use =
        |path: &Utf8PathBuf| is_library(path) || path.file_stem().is_none_or(|name| may_start(path, name));
    outputs.into_iter().any(|path| is_given(path)) || differing(&a, &b).any(may_use)
}

/// Returns the keys whose values differ, or that only one side has.
fn differing<'m, V: PartialEq>(
    one: &'m BTreeMap<Utf8PathBuf, V>,
    other: &'m BTreeMap<Utf8PathBuf, V>,
) -> impl Iterator<Item = &'m Utf8PathBuf> {
    let all: BTreeSet<&Utf8PathBuf> = one.keys().chain(other.keys()).collect();
    all.into_iter().filter(|path| one.get(*path) != other.get(*path))
}

#[cfg(test)]
mod tests {
    use memprof_build::provenance::samples;
    use memprof_build::texts::Traits;

    use super::*;

    /// What an executable with symbols has.
    const TEXTS: &str = "3std4path common7Command11capture_env 3std4time7Instant3now 3std2io5stdio6stdout \
        /c/target/build/p-1/out DATA";

    /// A build of `leaf`, `app` and `tool` in folders of these names, with the environment of `app`.
    fn build() -> Provenance {
        let executable = |package: &str| Executable {
            package: package.into(),
            code: Some(format!("code of {package}")),
            package_folder: Some(package.into()),
            tests: vec![ListedTest { name: "one".into(), ignored: false }],
            environment: BTreeMap::from([("CARGO_PKG_NAME".into(), package.into())]),
            ..samples::executable()
        };
        let mut build = samples::provenance(executable("app"));
        build.executables.extend([executable("leaf"), executable("tool")]);
        build.local_packages = ["app", "leaf", "tool"].into_iter().map(Utf8PathBuf::from).collect();
        build.outputs.insert("/c/target/build/p-1/out".into(), Some("out".into()));
        let (path, file, hash) = ("/c/target/debug/app".into(), "app".into(), "program".to_owned());
        build.companions.push(Companion { path, file, hash, package_folder: Some("app".into()) });
        build
    }

    /// The same build, with other texts in its executables.
    fn build_with(texts: &str) -> Provenance {
        let mut build = build();
        let traits = Traits::of_texts(&Texts::whole(texts.as_bytes()), false);
        build.executables.iter_mut().for_each(|executable| executable.traits = Some(traits));
        build
    }

    /// Returns the packages whose executable is the same if a build is changed in this way, with these files.
    fn same_if(change: impl FnOnce(&mut Provenance), files: &[&str]) -> String {
        same_of_texts(change, files, TEXTS)
    }

    fn same_of_texts(change: impl FnOnce(&mut Provenance), files: &[&str], texts: &str) -> String {
        let (old, mut new) = (build_with(texts), build_with(texts));
        change(&mut new);
        let changed = files.iter().map(Utf8PathBuf::from).collect();
        let read = |_: &Executable| Ok(texts.as_bytes().to_vec());
        let Alike { same, .. } =
            same_executables(&[&old, &new], 0, (&changed, &BTreeSet::new()), &|_| false, &read).unwrap();
        same.into_keys().map(|(package, ..)| package).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_changed_file_for_which_tests_with_the_same_code_run_is_named() {
        let build = build_with(TEXTS);
        let of = |changed: &[&str]| {
            let changed = changed.iter().map(Utf8PathBuf::from).collect();
            let (for_all, others) = files_for_all(&[&build], changed);
            assert!(others.iter().all(|path| !for_all.contains(path)));
            run_for(&[SameCode { package: "app".into(), tests: 2 }], &for_all)
        };
        let first = "2 tests in app: same code, but may read the changed ci/a.sh";
        assert_eq!(of(&["ci/a.sh"]).as_deref(), Some(first));
        assert_eq!(of(&["ci/a.sh", "ci/b.sh", "leaf/a.txt"]), Some(format!("{first} and 1 more")));
        assert_eq!(of(&["leaf/a.txt", "README.md", "Cargo.lock", "leaf/src/lib.rs"]), None);
        assert_eq!(run_for(&[], &["ci/a.sh".into()]), None, "no test has the same code");
        let changed = BTreeSet::from(["app/README.md".into(), "app/tests/data.json".into()]);
        let read = |_: &Executable| Ok(TEXTS.as_bytes().to_vec());
        let alike =
            same_executables(&[&build, &build], 0, (&changed, &BTreeSet::new()), &|_| false, &read).unwrap();
        assert_eq!(alike.readers.into_keys().map(|(package, ..)| package).collect::<Vec<_>>(), ["app"]);
        assert_eq!(alike.file.as_deref(), Some(Utf8Path::new("app/tests/data.json")));
    }

    #[test]
    fn an_executable_is_the_same_if_nothing_that_reaches_it_differs() {
        assert_eq!(same_if(|_| {}, &["docs/a.md", "README.md"]), "app leaf tool");
        assert_eq!(
            same_if(|new| new.executables[0].code = Some("other".into()), &["leaf/src/lib.rs"]),
            "tool"
        );
        assert_eq!(same_if(|new| new.executables[0].code = None, &[]), "leaf tool");
        assert_eq!(same_if(|_| {}, &["leaf/data.json"]), "app tool");
        assert_eq!(same_if(|_| {}, &["data/input.json"]), "", "any test may read it");
    }

    #[test]
    fn a_file_that_a_variable_of_cargo_or_of_the_settings_names_may_be_read() {
        let same_with = |change: fn(&mut Provenance)| {
            let mut build = build_with(TEXTS);
            build.local_packages.insert("other".into());
            change(&mut build);
            let changed = BTreeSet::from(["other/data/a.txt".into()]);
            let read = |_: &Executable| Ok(TEXTS.as_bytes().to_vec());
            let alike =
                same_executables(&[&build, &build], 0, (&changed, &BTreeSet::new()), &|_| false, &read)
                    .unwrap();
            alike.same.into_keys().map(|(package, ..)| package).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(same_with(|_| {}), "app leaf tool");
        let of_cargo = |build: &mut Provenance| {
            build.executables[0].environment.insert("DATA".into(), "/c/other/data".into());
        };
        assert_eq!(same_with(of_cargo), "leaf tool");
        let of_settings = |build: &mut Provenance| {
            build.key_inputs.environment.insert("DATA".into(), "../other/data".into());
        };
        assert_eq!(same_with(of_settings), "");
    }

    #[test]
    fn a_test_that_reaches_the_same_is_the_same_in_another_executable() {
        let build = |reached: &[(&str, &str)], code: &str| {
            let mut build = build_with(TEXTS);
            let executable = &mut build.executables[0];
            executable.code = Some(code.into());
            executable.tests =
                ["one", "two"].map(|name| ListedTest { name: name.into(), ignored: false }).to_vec();
            executable.reached =
                reached.iter().map(|(name, hash)| ((*name).to_owned(), (*hash).to_owned())).collect();
            build.compiled.insert("app/src/lib.rs".into());
            build
        };
        let old = build(&[("one", "a"), ("two", "b")], "old");
        let same_as = |old: &Provenance, new: &Provenance, files: &[&str]| {
            let changed = files.iter().map(Utf8PathBuf::from).collect();
            let read = |_: &Executable| Ok(TEXTS.as_bytes().to_vec());
            let Alike { mut same, .. } =
                same_executables(&[old, new], 0, (&changed, &BTreeSet::new()), &|_| false, &read).unwrap();
            same.remove(&name(&old.executables[0])).map(|tests| format!("{tests:?}"))
        };
        let same = |new: &Provenance, files: &[&str]| same_as(&old, new, files);
        let new = build(&[("one", "a"), ("two", "c")], "new");
        assert_eq!(same(&new, &["app/src/lib.rs"]).unwrap(), "These({\"one\"})");
        assert_eq!(same(&new, &["app/data.json"]), None, "a test may read it");
        assert_eq!(same(&new, &["app/tests/ui/a.rs"]), None, "nothing was compiled of it");
        assert_eq!(same(&build(&[("one", "z"), ("two", "z")], "new"), &[]), None);
        assert_eq!(same(&build(&[], "new"), &[]), None, "nothing is known");
        let mut program = new.clone();
        program.companions[0].hash = "other".into();
        let files = ["app/src/lib.rs"];
        assert!(same(&program, &files).is_some(), "nothing names or finds the program");
        let mut exploring = old.clone();
        let texts = format!("{TEXTS} readdir64");
        exploring.executables[0].traits = Some(Traits::of_texts(&Texts::whole(texts.as_bytes()), false));
        assert!(same_as(&exploring, &new, &files).is_some());
        assert_eq!(same_as(&exploring, &program, &files), None, "a data file may name the program");
        let mut ignored = new.clone();
        ignored.executables[0].tests[0].ignored = true;
        assert_eq!(same(&ignored, &[]), None);
        let mut elsewhere = new;
        elsewhere.executables[0].directory = "/elsewhere".into();
        assert_eq!(same(&elsewhere, &[]), None);
    }

    #[test]
    fn settings_of_the_run_and_of_the_build_count() {
        let differing: [fn(&mut Provenance); 8] = [
            |new| drop(new.executables[0].environment.insert("DATA".into(), "x".into())),
            |new| new.executables[0].directory = "/elsewhere".into(),
            |new| new.executables[0].harness = false,
            |new| new.executables[0].heap_absent = Some("own".into()),
            |new| new.executables[0].unlisted = Some("broken".into()),
            |new| new.executables[0].tests[0].ignored = true,
            |new| new.executables[0].package_folder = None,
            |new| drop(new.executables.remove(0)),
        ];
        for (number, change) in differing.into_iter().enumerate() {
            assert_eq!(same_if(change, &[]), "leaf tool", "{number}");
        }
        let of_all: [fn(&mut Provenance); 8] = [
            |new| new.key_inputs.toolchain.push('1'),
            |new| new.key_inputs.arguments.push("--release".into()),
            |new| drop(new.key_inputs.environment.insert("RUSTFLAGS".into(), "-g".into())),
            |new| new.key_inputs.lock = Some("other".into()),
            |new| drop(new.key_inputs.overlay.insert("patch a".into(), "hash".into())),
            |new| new.runner.push("qemu".into()),
            |new| new.left_out.push("no adapter".into()),
            |new| new.missing_submodules.push("sub".into()),
        ];
        for (number, change) in of_all.into_iter().enumerate() {
            assert_eq!(same_if(change, &[]), "", "{number}");
        }
        let jobs = |new: &mut Provenance| new.key_inputs.arguments.extend(["--jobs".into(), "2".into()]);
        assert_eq!(same_if(jobs, &[]), same_if(|_| (), &[]), "they change nothing that is built");
    }

    #[test]
    fn outputs_programs_and_libraries_of_the_build_count_for_those_that_name_them() {
        let output = |new: &mut Provenance| {
            new.outputs.insert("/c/target/build/p-1/out".into(), Some("other".into()));
        };
        assert_eq!(same_if(output, &[]), "", "the texts name the folder");
        let unnamed =
            |new: &mut Provenance| drop(new.outputs.insert("/c/target/out".into(), Some("x".into())));
        assert_eq!(same_if(unnamed, &[]), "app leaf tool");
        let program = |name: &'static str| {
            move |new: &mut Provenance| {
                new.companions[0].path = format!("/c/target/debug/{name}").into();
            }
        };
        assert_eq!(same_if(program("unheard-of"), &[]), "app leaf tool");
        assert_eq!(same_if(program("DATA"), &[]), "", "a program that the texts name");
        let by_name = same_if(program("DAT"), &[]);
        assert_eq!(by_name, "leaf tool", "a short name alone finds no program of another package");
        let texts = format!("{TEXTS} _3std4pathNtB5_9Ancestors");
        assert_eq!(same_of_texts(program("DAT"), &[], &texts), "", "a way to a program with a short name");
        assert_eq!(same_of_texts(program("unheard-of"), &[], &texts), "app leaf tool");
        let texts = format!("{TEXTS} /c/target/debug/DAT");
        assert_eq!(same_of_texts(program("DAT"), &[], &texts), "", "the whole path");
        assert_eq!(same_if(program("libunheard-of.so"), &[]), "", "a library");
        assert_eq!(
            same_if(program("examples/DATA"), &[]),
            "app leaf tool",
            "an example that nobody looks for"
        );
        let texts = format!("{TEXTS} examples");
        assert_eq!(same_of_texts(program("examples/DATA"), &[], &texts), "");
    }

    #[test]
    fn a_test_file_that_only_one_revision_has_counts_as_a_changed_file() {
        let added = |new: &mut Provenance| {
            new.key_inputs.overlay.insert("Package leaf/tests/new.rs".into(), "hash".into());
            new.injected.push("leaf/tests/new.rs".into());
        };
        assert_eq!(same_if(added, &[]), "app tool");
    }
}
