//! Whether a run that continues has the same builds as before. Figures of two builds are not one
//! figure.

use camino::Utf8Path;

use memprof_judge::results::build_facts::{self, BuildFacts, Fact, Purpose};
use memprof_judge::results::outcome::RunRecord;
use memprof_judge::results::run_folder::{RunFolder, file};
use memprof_plan::resolved::Plan;
use memprof_support::regular_file;
use memprof_support::sealed;
use memprof_support::user_error::UserError;

/// Refuses a build that differs from the one that finished runs of this revision were measured with.
/// `now` is not in `builds.json` yet.
///
/// If that file is damaged, it is written anew. Runs of another build are then found one by one
/// ([`forget_others`]), because each has the key of its own.
///
/// # Errors
/// The message says what differs.
pub(crate) fn check(
    plan: &Plan,
    folder: &RunFolder,
    revision: usize,
    now: &BuildFacts,
) -> anyhow::Result<()> {
    if now.get(Fact::Key).is_none() || !has_outcome(&folder.cells_of(plan, revision))? {
        return Ok(());
    }
    let Ok(known) = build_facts::read(folder) else { return Ok(()) };
    match known.get(&revision).and_then(|known| differences(&known.facts, now)) {
        Some(differences) => {
            let (id, name) = (&plan.id, &plan.revisions[revision].name);
            let message =
                format!("{name} has finished runs of another build than it gets now: {differences}");
            let help = format!(
                "undo what was changed, and continue {id} with --resume\n\
                 to measure everything again: leave out --resume"
            );
            Err(UserError::new(message).help(help).into())
        }
        None => Ok(()),
    }
}

/// Returns what differs between two builds, by their facts; `None` if it is one build, or if there was
/// none.
fn differences(known: &BuildFacts, now: &BuildFacts) -> Option<String> {
    let has_same_key = known.get(Fact::Key)? == now.get(Fact::Key)?;
    let is_known = known.get(Fact::Outside).is_some() && now.get(Fact::Outside).is_some();
    let differing = known.differing(now, Purpose::Continue);
    let differing =
        differing.filter(|(fact, _)| if *fact == Fact::Outside { is_known } else { !has_same_key });
    let words: Vec<&str> = differing.map(|(_, words)| words).collect();
    Some(match words.as_slice() {
        [] if has_same_key => return None,
        [] => "an option of the build differs".to_owned(),
        [one] if !one.ends_with('s') || one.ends_with("RUSTFLAGS") => format!("{one} differs"),
        _ => format!("{} differ", words.join(" and ")),
    })
}

/// Removes the outcomes of a cell's runs that are of another build than the one with this key: those that
/// [`check`] could not refuse. Returns how many there were.
pub(crate) fn forget_others(of_cell: &Utf8Path, key: &str) -> anyhow::Result<usize> {
    let mut removed = 0;
    for entry in of_cell.read_dir_utf8().into_iter().flatten() {
        let path = entry?.into_path().join(file::OUTCOME);
        if path.exists() && sealed::read::<RunRecord>(&path)?.build.is_some_and(|build| build != key) {
            regular_file::remove(&path)?;
            removed += 1;
        }
    }
    Ok(removed)
}

/// Whether a run of any cell is finished.
fn has_outcome(revision: &Utf8Path) -> anyhow::Result<bool> {
    if !revision.exists() {
        return Ok(false);
    }
    for cell in revision.read_dir_utf8()? {
        let cell = cell?;
        if !cell.file_type()?.is_dir() {
            continue;
        }
        for run in cell.path().read_dir_utf8()? {
            if run?.path().join(file::OUTCOME).exists() {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;
    use memprof_judge::results::build_facts::StoredBuild;
    use memprof_judge::results::outcome::{self, Outcome, Status};
    use memprof_plan::request::{Request, TargetKind};
    use memprof_plan::resolved::{CellId, TestId};

    #[test]
    fn another_build_is_said_with_what_differs() {
        let known = BTreeMap::from([
            (Fact::Key, "a"),
            (Fact::Configuration, "1"),
            (Fact::Environment, "X 1"),
            (Fact::Profile, "dev"),
        ]);
        let build = |facts: BTreeMap<Fact, &str>| -> BuildFacts {
            facts.into_iter().map(|(fact, text)| (fact, text.to_owned())).collect()
        };
        let old = build(known.clone());
        let with = |key: &'static str, fact: Fact, text: &'static str| {
            let mut facts = known.clone();
            facts.extend([(Fact::Key, key), (fact, text)]);
            differences(&old, &build(facts))
        };
        assert_eq!(with("a", Fact::Profile, "release"), None, "the key decides");
        assert_eq!(with("a", Fact::Outside, "1"), None, "an earlier version did not note it");
        let noted = |text| build(BTreeMap::from([(Fact::Key, "a"), (Fact::Outside, text)]));
        assert_eq!(differences(&noted("1"), &noted("1")), None);
        let said = "files outside of the repository, or variables that the code reads differ";
        assert_eq!(differences(&noted("1"), &noted("2")).unwrap(), said);
        assert_eq!(with("b", Fact::Configuration, "2").unwrap(), "cargo's configuration differs");
        assert_eq!(with("b", Fact::Environment, "").unwrap(), "the build's variables differ");
        assert_eq!(with("b", Fact::Profile, "dev").unwrap(), "an option of the build differs");
        assert_eq!(differences(&BuildFacts::default(), &old), None, "it failed before");
    }

    #[test]
    fn a_damaged_file_of_builds_does_not_stop_a_run() {
        let folder = tempfile::tempdir().unwrap();
        let folder = RunFolder(folder.path().to_path_buf().try_into().unwrap());
        let revision = serde_json::from_value(json!({
            "name": "main", "spec": "main", "commit": "4f1c2aa", "tree": "t", "subject": "", "time": 0, "working_tree": false,
        }));
        let plan = Plan { revisions: vec![revision.unwrap()], ..Plan::sample(Request::default()) };
        let run = folder.cells_of(&plan, 0).join("cell/0");
        fs_err::create_dir_all(&run).unwrap();
        fs_err::write(run.join(file::OUTCOME), "{}").unwrap();
        let facts = |key: &str| -> BuildFacts {
            [Fact::Key, Fact::Toolchain].map(|fact| (fact, key.to_owned())).into_iter().collect()
        };
        let kept = StoredBuild { facts: facts("a"), ..StoredBuild::default() };
        build_facts::write(&folder, &BTreeMap::from([(0, kept)])).unwrap();
        assert!(check(&plan, &folder, 0, &facts("a")).is_ok());
        let refused = check(&plan, &folder, 0, &facts("b")).unwrap_err().to_string();
        assert!(refused.ends_with("another build than it gets now: the toolchain differs"), "{refused}");
        let damaged = fs_err::read_to_string(folder.builds()).unwrap().replace("\"a\"", "\"c\"");
        fs_err::write(folder.builds(), damaged).unwrap();
        assert!(check(&plan, &folder, 0, &facts("a")).is_ok());
    }

    #[test]
    fn only_a_finished_run_binds() {
        let folder = tempfile::tempdir().unwrap();
        let folder = Utf8Path::from_path(folder.path()).unwrap();
        assert!(!has_outcome(&folder.join("absent")).unwrap());
        fs_err::create_dir_all(folder.join("cell/0")).unwrap();
        fs_err::write(folder.join("a file"), "").unwrap();
        assert!(!has_outcome(folder).unwrap());
        fs_err::write(folder.join("cell/0").join(file::OUTCOME), "{}").unwrap();
        assert!(has_outcome(folder).unwrap());
    }

    #[test]
    fn runs_of_another_build_are_forgotten_and_those_of_this_one_stay() {
        let folder = tempfile::tempdir().unwrap();
        let of_cell = Utf8Path::from_path(folder.path()).unwrap();
        let test =
            TestId { package: "p".into(), binary: "b".into(), kind: TargetKind::Test, name: "a".into() };
        let write = |repeat: u32, build: Option<&str>| {
            let home = of_cell.join(repeat.to_string());
            fs_err::create_dir(&home).unwrap();
            let record = RunRecord {
                version: outcome::VERSION,
                revision: 0,
                cell: CellId { test: test.clone(), params: Vec::new(), title: "a".into(), program: None },
                repeat,
                outcome: Outcome { status: Status::Ok, message: None, wall_nanoseconds: None },
                build: build.map(str::to_owned),
                marks: Vec::new(),
                withdrawn: BTreeMap::new(),
                devices: None,
                files: BTreeMap::new(),
            };
            sealed::write(&home.join(file::OUTCOME), &record).unwrap();
        };
        write(0, Some("old"));
        write(1, Some("new"));
        write(2, None);
        fs_err::create_dir(of_cell.join("3")).unwrap();
        assert_eq!(forget_others(of_cell, "new").unwrap(), 1);
        let left = |repeat: &str| of_cell.join(repeat).join(file::OUTCOME).exists();
        assert_eq!(["0", "1", "2"].map(left), [false, true, true]);
        assert_eq!(forget_others(of_cell, "new").unwrap(), 0);
        assert_eq!(forget_others(&of_cell.join("none"), "new").unwrap(), 0);
    }
}
