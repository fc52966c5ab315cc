//! Test files that only one revision has: puts them into the revisions that lack them, so that both
//! sides are measured. What cannot be put there stays one-sided, with the reason.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};

use camino::{Utf8Path, Utf8PathBuf};

use crate::files_beside;
use crate::refusals::{self, Reason, Refusal, SharedReason};
use crate::test_file::{self, root_of, roots};
use memprof_build::attempts::Build;
use memprof_build::builder::Builder;
use memprof_build::failure::BuildFailure;
use memprof_build::git::repository::Repository;
use memprof_build::inject::committed_package;
use memprof_build::inject::overlay::OverlayFile;
use memprof_build::provenance::Executable;
use memprof_judge::results::added_test::AddedTest;
use memprof_judge::results::run_folder::RunFolder;
use memprof_plan::cells::{CellStatus, PlannedCell};
use memprof_plan::request::{OverlayMode, TargetKind};
use memprof_plan::resolved::{CellId, Plan, Revision};
use memprof_support::counted::{counted, some};
use memprof_support::event::{Event, Sink};

/// How often a revision is built again without the files that did not compile.
const MOST_BUILDS: usize = 4;

/// How many warnings about files a revision gets.
const MOST_WARNINGS: usize = 5;

/// What became of the test files that a revision lacks.
#[derive(Debug, Default)]
pub(crate) struct Completed {
    /// Notes for the report, on files that are not in the revision.
    pub notes: Vec<String>,
    /// The files that were put into the revision, and those that do not compile there.
    pub added: Vec<AddedTest>,
}

/// What became of missing test files, by the index of the revision that lacks them.
pub(crate) type AllCompleted = BTreeMap<usize, Completed>;

/// No name of a test is added to so many characters of names.
const ROOM_FOR_NAMES: usize = 60;

/// The revisions to complete, and where to report.
pub(crate) struct Completion<'a> {
    pub plan: &'a Plan,
    /// The user's repository.
    pub repository: &'a Repository,
    /// The run's folder, for the logs of builds that fail.
    pub folder: &'a RunFolder,
    /// Where warnings go.
    pub sink: &'a dyn Sink,
}

/// Tests of one target that a revision lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Gap {
    /// The revision that lacks them.
    revision: usize,
    /// A revision that has them.
    donor: usize,
    package: String,
    binary: String,
    kind: TargetKind,
    tests: Vec<String>,
}

impl Gap {
    /// Whether the other tests are of the same target, revision and donor.
    fn is_of_same_target(&self, other: &Self) -> bool {
        let key = |gap: &Self| (gap.revision, gap.donor, gap.kind);
        key(self) == key(other) && self.package == other.package && self.binary == other.binary
    }
}

/// Returns ` (a, b and 3 more)`; nothing without a name.
fn names(tests: &[String]) -> String {
    let mut taken = 0;
    let has_room = |name: &&String| {
        let before = taken;
        taken += name.len();
        before < ROOM_FOR_NAMES
    };
    let most = tests.iter().take_while(has_room).count();
    if tests.is_empty() { String::new() } else { format!(" ({})", some(tests, most)) }
}

/// A test target at the revision that has it.
#[derive(Clone, Copy)]
struct Target<'a> {
    package: &'a str,
    /// The root file, relative to the package's folder.
    root: &'a Utf8Path,
    donor: &'a Revision,
    /// The package's folder at the donor.
    folder: &'a Utf8Path,
}

impl Target<'_> {
    fn file(&self, destination: &Utf8Path, content: Vec<u8>) -> OverlayFile {
        let package = Some(self.package.to_owned());
        OverlayFile { package, destination: destination.to_owned(), content, mode: OverlayMode::Package }
    }
}

/// A gap and the files that would close it.
struct Offer {
    gap: Gap,
    /// The target's root at the donor, relative to the repository's root.
    path: Utf8PathBuf,
    /// The package's folder in the revision that gets the files.
    folder: Utf8PathBuf,
    files: Vec<OverlayFile>,
}

impl Completion<'_> {
    /// Builds each revision again with the test files that it lacks. `cells` are those of the builds
    /// so far.
    ///
    /// # Errors
    /// The tool itself failed. A file that does not compile is no error.
    pub fn complete(
        &self,
        builder: &mut Builder<'_>,
        builds: &mut [Build],
        cells: &[PlannedCell],
    ) -> anyhow::Result<AllCompleted> {
        let mut gaps = gaps(cells, self.plan.baseline);
        gaps.extend(unnamed_targets(self.plan, builds));
        self.tell_of_other_targets(&gaps, cells);
        let mut by_revision: BTreeMap<usize, Vec<Gap>> = BTreeMap::new();
        for gap in gaps.into_iter().filter(|gap| gap.kind == TargetKind::Test) {
            by_revision.entry(gap.revision).or_default().push(gap);
        }
        let mut packages = Packages { repository: self.repository, known: HashMap::new() };
        let mut all = AllCompleted::new();
        for (revision, gaps) in by_revision {
            let mut refusals = Vec::new();
            let mut offers = Vec::new();
            for gap in one_donor_each(gaps) {
                let offer = match self.offer(gap, builds, &mut packages)? {
                    Ok(offer) => self.beside(&offers, offer)?,
                    Err(refusal) => Err(refusal),
                };
                match offer {
                    Ok(offer) => offers.push(offer),
                    Err(refusal) => refusals.push(refusal),
                }
            }
            let added = self.close(revision, offers, builder, builds, &mut refusals)?;
            let refusals = refusals::merged(revision, refusals, |revision| self.shown(revision));
            self.warn(&refusals);
            let notes = refusals.into_iter().map(|refusal| refusal.message).collect();
            all.insert(revision, Completed { notes, added });
        }
        Ok(all)
    }

    /// Builds the revision with the offered files, and again without those that do not compile.
    /// Returns the files that were tried.
    fn close(
        &self,
        revision: usize,
        mut offers: Vec<Offer>,
        builder: &mut Builder<'_>,
        builds: &mut [Build],
        refusals: &mut Vec<Refusal>,
    ) -> anyhow::Result<Vec<AddedTest>> {
        let mut tried = Vec::new();
        let log = self.folder.build_log(self.plan, revision).with_extension("overlay.log");
        for build in 1..=MOST_BUILDS {
            if offers.is_empty() {
                break;
            }
            let mut files: Vec<OverlayFile> = Vec::new();
            for file in offers.iter().flat_map(|offer| &offer.files) {
                // Several tests may read one file.
                if !files.contains(file) {
                    files.push(file.clone());
                }
            }
            let failure = match builder.build_with(revision, files, &log)? {
                Build::Failed(failure) => failure,
                done @ Build::Done(_) => {
                    builds[revision] = done;
                    tried.extend(offers.iter().map(|offer| self.added(offer, true)));
                    return Ok(tried);
                }
            };
            let is_blamed = |offer: &Offer| {
                let mut paths = offer.files.iter().map(|file| offer.folder.join(&file.destination));
                paths.any(|path| failure.names_file(&path, &self.plan.workspace))
            };
            let is_any_blamed = offers.iter().any(is_blamed);
            let gives_up = build == MOST_BUILDS || !is_any_blamed;
            let (refused, rest): (Vec<_>, Vec<_>) =
                offers.into_iter().partition(|offer| gives_up || is_blamed(offer));
            refusals.extend(refused.iter().map(|offer| self.not_compiled(offer, &failure)));
            tried.extend(refused.iter().map(|offer| self.added(offer, false)));
            offers = rest;
        }
        Ok(tried)
    }

    /// Returns the files that would close the gap, or why there are none.
    fn offer(
        &self,
        gap: Gap,
        builds: &[Build],
        packages: &mut Packages<'_>,
    ) -> anyhow::Result<Result<Offer, Refusal>> {
        let donor = &self.plan.revisions[gap.donor];
        let revision = &self.plan.revisions[gap.revision];
        let root = match packages.folder(donor, &gap.package)? {
            Some(folder) => root_of(self.repository, donor, &folder, &gap.binary).map(|root| (folder, root)),
            None => None,
        };
        let Some((folder, root)) = root else {
            let what = format!("{}::{}", gap.package, gap.binary);
            let reason = format!("its file in {} is not tests/{}.rs", donor.name, gap.binary);
            return Ok(Err(self.refusal(&gap, &what, &reason, OWN_FILE.to_owned())));
        };
        let path = folder.join(&root);
        let command = self.command(&gap, &path)?;
        let refuse = |reason: String| Ok(Err(self.refusal(&gap, path.as_str(), &reason, command.clone())));
        if self.plan.request.no_auto_overlay {
            return refuse("--no-auto-overlay keeps it there".to_owned());
        }
        if self.plan.request.overlay.iter().any(|overlay| overlay.mode == OverlayMode::External) {
            return refuse("an external overlay is built without the package's own tests".to_owned());
        }
        if executable(&builds[gap.donor], &gap).is_some_and(|executable| !executable.harness) {
            return refuse("it needs the `[[test]]` entry with `harness = false` in Cargo.toml".to_owned());
        }
        let Some(folder_there) = packages.folder(revision, &gap.package)? else {
            let reason = format!("{} has no package '{}'", revision.name, gap.package);
            return Ok(Err(self.refusal(&gap, path.as_str(), &reason, OTHER_PACKAGE.to_owned())));
        };
        for taken in roots(&gap.binary) {
            let taken = folder_there.join(taken);
            let Some(entry) = self.repository.tree_entry(&revision.commit, taken.as_str())? else { continue };
            let is_same = self.repository.tree_entry(&donor.commit, path.as_str())?.as_ref() == Some(&entry);
            let (reason, kind) = if is_same {
                let folders = [(donor, &path), (revision, &taken)];
                (self.other_modules(folders)?, Reason::OtherModules)
            } else {
                (format!("has another {taken}, which is not replaced"), Reason::OtherVersion)
            };
            let reason = format!("{} {reason}", revision.name);
            let mut refusal = self.refusal(&gap, path.as_str(), &reason, command);
            refusal.shared = Some(shared(&gap, kind, path.into_string()));
            return Ok(Err(refusal));
        }
        let target = Target { package: &gap.package, root: &root, donor, folder: &folder };
        let mut files = self.files(&target)?;
        self.add_files_beside(&target, (revision, &folder_there), &mut files)?;
        Ok(Ok(Offer { gap, path, folder: folder_there, files }))
    }

    /// Returns why a test file that is the same at two revisions has other tests at the second.
    fn other_modules(&self, [donor, there]: [(&Revision, &Utf8PathBuf); 2]) -> anyhow::Result<String> {
        let names = |(revision, root): (&Revision, &Utf8PathBuf)| -> anyhow::Result<HashSet<Utf8PathBuf>> {
            let folder = test_file::folder_of(root);
            let files = self.repository.files(&revision.commit, folder.as_str())?.into_iter();
            Ok(files
                .filter_map(|file| Some(Utf8Path::new(&file).strip_prefix(&folder).ok()?.to_owned()))
                .collect())
        };
        let lacks = !names(donor)?.is_subset(&names(there)?);
        let what = if lacks { "lacks a module" } else { "has other modules" };
        Ok(format!("{what} of {}", there.1))
    }

    /// Refuses an offer that needs another version of a file than one of the others. Both would be compiled with the
    /// same.
    fn beside(&self, others: &[Offer], offer: Offer) -> anyhow::Result<Result<Offer, Refusal>> {
        let of = |other: &Offer| Some((other.path.clone(), other_version(&other.files, &offer.files)?));
        let Some((path, file)) = others.iter().find_map(of) else { return Ok(Ok(offer)) };
        let donor = &self.plan.revisions[offer.gap.donor].name;
        let reason = format!("{path} comes with another {file} than that of {donor}");
        let command = self.command(&offer.gap, &offer.path)?;
        Ok(Err(self.refusal(&offer.gap, offer.path.as_str(), &reason, command)))
    }

    /// Returns the target's files at the donor: its root, or the whole folder of a `main.rs`.
    fn files(&self, target: &Target<'_>) -> anyhow::Result<Vec<OverlayFile>> {
        let Target { root, donor, folder, .. } = *target;
        let is_folder = root.file_name() == Some("main.rs");
        let below = root.parent().filter(|_| is_folder).unwrap_or(root);
        let mut files = Vec::new();
        for name in self.repository.files(&donor.commit, folder.join(below).as_str())? {
            let Some(content) = self.repository.show(&donor.commit, &name)? else { continue };
            files.push(target.file(Utf8Path::new(&name).strip_prefix(folder)?, content));
        }
        // The root comes first, because errors are searched for its name.
        files.sort_by_key(|file| file.destination != root);
        Ok(files)
    }

    /// Adds the donor's files that the target's text names, and that the revision lacks.
    fn add_files_beside(
        &self,
        target: &Target<'_>,
        (revision, folder_there): (&Revision, &Utf8Path),
        files: &mut Vec<OverlayFile>,
    ) -> anyhow::Result<()> {
        let listed = |commit: &str, folder: &Utf8Path| -> anyhow::Result<Vec<Utf8PathBuf>> {
            let names = self.repository.files(commit, folder.as_str())?.into_iter();
            Ok(names
                .filter_map(|name| Some(Utf8Path::new(&name).strip_prefix(folder).ok()?.to_owned()))
                .collect())
        };
        let there: HashSet<Utf8PathBuf> = listed(&revision.commit, folder_there)?.into_iter().collect();
        let mut others = listed(&target.donor.commit, target.folder)?;
        others.retain(|path| !there.contains(path) && !files.iter().any(|file| file.destination == *path));
        let mut text = String::new();
        let mut read = 0;
        // A module may name further files.
        while read < files.len() {
            for file in files[read..].iter().filter(|file| file.destination.extension() == Some("rs")) {
                text.push_str(&String::from_utf8_lossy(&file.content));
                text.push('\n');
            }
            read = files.len();
            let (named, rest): (Vec<_>, Vec<_>) =
                others.into_iter().partition(|path| files_beside::is_named(path, &text));
            others = rest;
            for path in named {
                // A link and an LFS pointer have no content of their own. The test says what it lacks.
                if let Ok(Some(content)) =
                    self.repository.show(&target.donor.commit, target.folder.join(&path).as_str())
                {
                    files.push(target.file(&path, content));
                }
            }
        }
        Ok(())
    }

    fn shown(&self, revision: usize) -> String {
        self.plan.revisions[revision].named()
    }

    fn added(&self, offer: &Offer, compiles: bool) -> AddedTest {
        let Gap { package, binary, donor, .. } = &offer.gap;
        AddedTest {
            package: package.clone(),
            binary: binary.clone(),
            file: offer.path.clone(),
            files_beside: offer.files.len() - 1,
            donor: self.shown(*donor),
            compiles,
        }
    }

    fn refusal(&self, gap: &Gap, what: &str, reason: &str, help: String) -> Refusal {
        let tests = counted(gap.tests.len(), "test");
        let are = if gap.tests.len() == 1 { "is" } else { "are" };
        let (donor, revision) = (self.shown(gap.donor), self.shown(gap.revision));
        let message = format!(
            "{what}: {tests}{} {are} only in {donor} and cannot be put into {revision}: {reason}",
            names(&gap.tests)
        );
        Refusal { message, help, shared: None }
    }

    fn not_compiled(&self, offer: &Offer, failure: &BuildFailure) -> Refusal {
        let error = failure.first_errors.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
        let reason = format!("it does not build there ({})", error.trim());
        let refusal = self.refusal(&offer.gap, offer.path.as_str(), &reason, OWN_FILE.to_owned());
        let file = format!("{} ({})", offer.path, error.trim());
        Refusal { shared: Some(shared(&offer.gap, Reason::DoesNotBuild, file)), ..refusal }
    }

    /// Returns the command that puts the donor's test into every revision.
    fn command(&self, gap: &Gap, root: &Utf8Path) -> anyhow::Result<String> {
        let [donor, revision] = [gap.donor, gap.revision].map(|index| &self.plan.revisions[index]);
        let flags = test_file::overlay_flags(self.repository, [donor, revision], root)?;
        if flags.is_empty() {
            return Ok(OWN_FILE.to_owned());
        }
        Ok(format!("only {} has it; `{}` puts the test into both", donor.name, flags.join(" ")))
    }

    fn warn(&self, refusals: &[Refusal]) {
        for Refusal { message, help, .. } in refusals.iter().take(MOST_WARNINGS) {
            self.sink.emit(Event::Warning { message: message.clone(), help: Some(help.clone()) });
        }
        if let Some(left) = refusals.len().checked_sub(MOST_WARNINGS).filter(|left| *left > 0) {
            let files = counted(left, "more test file");
            let message = format!("{files} of one revision only; the report's notes name them");
            self.sink.emit(Event::Warning { message, help: None });
        }
    }

    /// Warns once per pair of revisions of tests that are not in files of their own, if the two have no test in common.
    /// The report counts them in any case.
    fn tell_of_other_targets(&self, gaps: &[Gap], cells: &[PlannedCell]) {
        let mut counts: BTreeMap<(usize, usize), usize> = BTreeMap::new();
        for gap in gaps.iter().filter(|gap| gap.kind != TargetKind::Test) {
            *counts.entry((gap.donor, gap.revision)).or_default() += gap.tests.len();
        }
        let run_at = |revision| -> HashSet<_> {
            let is_run = |cell: &&PlannedCell| cell.revision == revision && cell.status == CellStatus::Run;
            cells.iter().filter(is_run).map(|cell| &cell.cell).collect()
        };
        counts.retain(|(donor, revision), _| run_at(*donor).is_disjoint(&run_at(*revision)));
        for ((donor, revision), count) in counts {
            let (tests, one, other) = (counted(count, "test"), self.shown(donor), self.shown(revision));
            let message = format!("{other} lacks {tests} of {one}: only files in tests/ can be put into it");
            self.sink.emit(Event::Warning { message, help: Some(OWN_FILE.to_owned()) });
        }
    }
}

fn shared(gap: &Gap, reason: Reason, file: String) -> SharedReason {
    SharedReason { donor: gap.donor, reason, file, tests: gap.tests.len() }
}

/// What helps if a file cannot be put into a revision as it is.
const OWN_FILE: &str =
    "to compare, write a test that compiles in both, and add it: --overlay FILE=tests/NAME.rs";

/// What is said if a revision lacks the package itself: its file cannot be put there.
const OTHER_PACKAGE: &str =
    "was the package renamed? tests of packages with different names are not compared";

/// Returns the tests that run at one revision and that another one lacks, by target.
fn gaps(cells: &[PlannedCell], baseline: usize) -> Vec<Gap> {
    let mut donors: HashMap<&CellId, usize> = HashMap::new();
    for cell in cells.iter().filter(|cell| cell.status == CellStatus::Run) {
        let donor = donors.entry(&cell.cell).or_insert(cell.revision);
        if cell.revision == baseline {
            *donor = baseline;
        }
    }
    let mut gaps: Vec<Gap> = Vec::new();
    // A program needs its own package's code.
    let is_test = |cell: &&PlannedCell| cell.cell.program.is_none();
    for cell in cells.iter().filter(is_test).filter(|cell| cell.status == CellStatus::NotInThisRef) {
        let Some(&donor) = donors.get(&cell.cell) else { continue };
        let test = &cell.cell.test;
        let gap = Gap {
            revision: cell.revision,
            donor,
            package: test.package.clone(),
            binary: test.binary.clone(),
            kind: test.kind,
            tests: vec![cell.cell.title.clone()],
        };
        match gaps.iter_mut().find(|known| known.is_of_same_target(&gap)) {
            Some(known) => known.tests.extend(gap.tests),
            None => gaps.push(gap),
        }
    }
    gaps
}

/// Returns one gap for each target: the one with the most tests, because a file comes from one
/// revision.
fn one_donor_each(mut gaps: Vec<Gap>) -> Vec<Gap> {
    gaps.sort_by_key(|gap| Reverse(gap.tests.len()));
    let mut seen = HashSet::new();
    gaps.retain(|gap| seen.insert((gap.package.clone(), gap.binary.clone())));
    gaps
}

/// Returns the targets of `--test` that a revision lacks, so that cargo refused to build it.
fn unnamed_targets(plan: &Plan, builds: &[Build]) -> Vec<Gap> {
    let mut gaps = Vec::new();
    for (revision, build) in builds.iter().enumerate() {
        let is_refused = |failure: &BuildFailure| failure.first_errors.contains("no test target named");
        if !build.failure().is_some_and(is_refused) {
            continue;
        }
        for name in &plan.request.build.tests {
            let of = |donor: usize| {
                let executables = &builds[donor].entry()?.provenance.executables;
                executables.iter().find(|one| one.kind == TargetKind::Test && one.binary == *name)
            };
            let mut donors = std::iter::once(plan.baseline).chain(0..builds.len());
            let found = donors.find_map(|donor| Some((donor, of(donor)?)));
            gaps.extend(found.map(|(donor, executable)| Gap {
                revision,
                donor,
                package: executable.package.clone(),
                binary: name.clone(),
                kind: TargetKind::Test,
                tests: executable.tests.iter().map(|test| test.name.clone()).collect(),
            }));
        }
    }
    gaps
}

fn executable<'a>(build: &'a Build, gap: &Gap) -> Option<&'a Executable> {
    let executables = &build.entry()?.provenance.executables;
    executables
        .iter()
        .find(|one| one.package == gap.package && one.binary == gap.binary && one.kind == gap.kind)
}

/// The packages' folders by commit, each searched for once.
struct Packages<'a> {
    repository: &'a Repository,
    known: HashMap<(String, String), Option<Utf8PathBuf>>,
}

impl Packages<'_> {
    fn folder(&mut self, revision: &Revision, name: &str) -> anyhow::Result<Option<Utf8PathBuf>> {
        let key = (revision.commit.clone(), name.to_owned());
        if let Some(folder) = self.known.get(&key) {
            return Ok(folder.clone());
        }
        let folder = committed_package::folder(self.repository, &revision.commit, name)?;
        self.known.insert(key, folder.clone());
        Ok(folder)
    }
}

/// Returns a file of which two lists have different contents.
fn other_version(one: &[OverlayFile], other: &[OverlayFile]) -> Option<Utf8PathBuf> {
    let place = |file: &OverlayFile| (file.package.clone(), file.destination.clone());
    let known: HashMap<_, _> = one.iter().map(|file| (place(file), &file.content)).collect();
    let differs = |file: &&OverlayFile| known.get(&place(file)).is_some_and(|known| **known != file.content);
    other.iter().find(differs).map(|file| file.destination.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use memprof_plan::repeat::Repeat;
    use memprof_plan::resolved::TestId;

    fn cell(test: &str, kind: TargetKind, revision: usize, status: CellStatus) -> PlannedCell {
        let (binary, name) = test.split_once("::").unwrap();
        let test = TestId { package: "bart".into(), binary: binary.into(), kind, name: name.into() };
        PlannedCell {
            cell: CellId { test, params: Vec::new(), title: name.to_owned(), program: None },
            revision,
            status,
            env: BTreeMap::new(),
            args: Vec::new(),
            exit_code: 0,
            timeout_seconds: None,
            repeat: Repeat::Times(1),
            devices: None,
        }
    }

    #[test]
    fn two_versions_of_a_file_are_never_put_into_one_revision() {
        let file = |package: &str, destination: &str, content: &str| OverlayFile {
            package: Some(package.to_owned()),
            destination: destination.into(),
            content: content.as_bytes().to_vec(),
            mode: OverlayMode::Package,
        };
        let one = [file("a", "tests/one.rs", "1"), file("a", "tests/common/mod.rs", "data")];
        let other = |common: OverlayFile| other_version(&one, &[file("a", "tests/two.rs", "2"), common]);
        assert_eq!(other(file("a", "tests/common/mod.rs", "more")).unwrap(), "tests/common/mod.rs");
        assert_eq!(other(file("a", "tests/common/mod.rs", "data")), None, "several tests may read one file");
        assert_eq!(other(file("b", "tests/common/mod.rs", "more")), None, "another package");
    }

    #[test]
    fn the_tests_that_a_revision_lacks_are_taken_from_the_baseline_if_it_has_them() {
        use CellStatus::{Ignored, NotInThisRef, NotMeasured, Run};
        use TargetKind::{Lib, Test};
        let cells = [
            cell("mem::a", Test, 0, NotInThisRef),
            cell("mem::a", Test, 1, Run),
            cell("mem::a", Test, 2, Run),
            cell("mem::b", Test, 0, NotInThisRef),
            cell("mem::b", Test, 1, Run),
            cell("mem::b", Test, 2, NotInThisRef),
            cell("bart::unit", Lib, 0, Run),
            cell("bart::unit", Lib, 2, NotInThisRef),
            // These have nothing to put into another revision, or are not missing.
            cell("mem::c", Test, 0, Ignored),
            cell("mem::c", Test, 1, NotInThisRef),
            cell("mem::d", Test, 0, NotMeasured),
            cell("mem::d", Test, 1, Run),
        ];
        let shown = |baseline: usize| -> Vec<String> {
            let gaps = gaps(&cells, baseline);
            let shown =
                |gap: Gap| format!("{} {}<-{} {}", gap.binary, gap.revision, gap.donor, gap.tests.len());
            gaps.into_iter().map(shown).collect()
        };
        assert_eq!(shown(0), ["mem 0<-1 2", "mem 2<-1 1", "bart 2<-0 1"]);
        let gaps_of_main = one_donor_each(gaps(&cells, 2)).into_iter().filter(|gap| gap.revision == 0);
        assert_eq!(gaps_of_main.count(), 1, "a file comes from one revision");
        assert_eq!(shown(2), ["mem 0<-2 1", "mem 0<-1 1", "mem 2<-1 1", "bart 2<-0 1"]);
    }
}
