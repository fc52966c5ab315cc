//! The saved baselines of a workspace: copies of finished runs, which `--save-baseline` makes and
//! `cargo memprof clean` keeps.

use std::collections::BTreeMap;

use anyhow::Context;
use camino::{Utf8Path, Utf8PathBuf};

use crate::merging::copy_tree;
use memprof_build::git::repository::{Lookup, Repository};
use memprof_build::git::usual_refs::default_branch;
use memprof_build::provenance::Provenance;
use memprof_judge::results::kept_baseline::{SavedBaseline, VERSION};
use memprof_judge::results::run_folder::RunFolder;
use memprof_judge::results::shard_record;
use memprof_support::durable::{sync_names, sync_tree};
use memprof_support::sealed;
use memprof_support::suggest;
use memprof_support::user_error::UserError;

/// Returns the folder of all saved baselines, beside the runs.
pub fn folder(runs: &Utf8Path) -> Utf8PathBuf {
    runs.join("baselines")
}

/// Returns the names of all saved baselines, sorted.
pub fn names(runs: &Utf8Path) -> Vec<String> {
    let entries = folder(runs).read_dir_utf8().into_iter().flatten().filter_map(Result::ok);
    let mut names: Vec<String> = entries
        .filter(|entry| RunFolder(entry.path().to_owned()).saved_baseline().exists())
        .map(|entry| entry.file_name().to_owned())
        .filter(|name| check_name(name).is_ok())
        .collect();
    names.sort();
    names
}

/// Checks a name, which becomes that of a folder.
pub fn check_name(name: &str) -> Result<String, String> {
    let is_plain = |character: char| character.is_ascii_alphanumeric() || "._-".contains(character);
    if name.is_empty() || name.starts_with(['.', '-']) || !name.chars().all(is_plain) || name.len() > 100 {
        return Err(format!("'{name}' is no name: use letters, digits, `.`, `_` and `-`"));
    }
    Ok(name.to_owned())
}

/// Saves a finished run under a name, in the place of an earlier baseline of that name. `builds` are those of its
/// revisions. Returns its folder.
pub fn save(
    run: &RunFolder,
    runs: &Utf8Path,
    name: &str,
    builds: &BTreeMap<usize, Provenance>,
) -> anyhow::Result<Utf8PathBuf> {
    let baselines = folder(runs);
    fs_err::create_dir_all(&baselines)?;
    let partial = tempfile::Builder::new().prefix(".saving-").tempdir_in(&baselines)?;
    let copy = RunFolder(Utf8PathBuf::try_from(partial.path().join("run"))?);
    fs_err::create_dir_all(&copy.0)?;
    for file in [run.plan(), run.environment(), run.builds(), run.trace(), run.finished()] {
        if file.exists() {
            fs_err::copy(&file, copy.0.join(file.file_name().unwrap_or_default()))?;
        }
    }
    copy_tree(&run.cells(), &copy.cells())?;
    let provenances: BTreeMap<usize, Provenance> =
        builds.iter().map(|(revision, build)| (*revision, build.redacted())).collect();
    sealed::write(&copy.provenances(), &provenances)?;
    let record = SavedBaseline {
        version: VERSION,
        name: name.to_owned(),
        saved: jiff::Timestamp::now().to_string(),
        outcomes: Some(shard_record::outcomes(&copy)?),
    };
    sync_tree(partial.path()).with_context(|| format!("cannot sync {}", copy.0))?;
    sealed::write(&copy.saved_baseline(), &record)?;
    let place = baselines.join(name);
    let replaced = partial.path().join("replaced");
    if place.exists() {
        fs_err::rename(&place, &replaced)?;
    }
    if let Err(error) = fs_err::rename(&copy.0, &place) {
        if replaced.exists() && fs_err::rename(&replaced, &place).is_err() {
            // Something else has taken its place. The earlier baseline is kept beside it.
            let _ = partial.keep();
        }
        return Err(error.into());
    }
    sync_names(baselines.as_std_path()).with_context(|| format!("cannot sync {baselines}"))?;
    Ok(place)
}

/// Returns when a baseline was saved. No two baselines of one name have the same time.
pub(crate) fn saved(baseline: &RunFolder) -> anyhow::Result<String> {
    let record: SavedBaseline = sealed::read_format(&baseline.saved_baseline(), VERSION)?;
    Ok(record.saved)
}

/// Checks that a saved baseline still has all its runs.
pub(crate) fn check(baseline: &RunFolder) -> anyhow::Result<()> {
    let record: SavedBaseline = sealed::read_format(&baseline.saved_baseline(), VERSION)?;
    let found = shard_record::outcomes(baseline)?;
    match record.outcomes {
        Some(saved) if saved != found => Err(UserError::new(format!(
            "{} has {found} of the {saved} runs that were saved: files are missing",
            baseline.0
        ))
        .help("copy the whole folder again, or save the baseline again with --save-baseline")
        .into()),
        _ => Ok(()),
    }
}

/// Finds a saved baseline by its name or its folder. `refs` are those of the command; if there are several, the
/// first one is the baseline.
pub fn find(
    runs: &Utf8Path,
    repository: &Repository,
    name: &str,
    refs: &[&str],
) -> anyhow::Result<RunFolder> {
    let start = repository.start();
    let places = [folder(runs).join(name), start.join(name)];
    let is_saved = |place: &RunFolder| place.saved_baseline().exists();
    if let Some(found) = places.iter().cloned().map(RunFolder).find(is_saved) {
        return Ok(RunFolder(found.0.canonicalize_utf8().context("a saved baseline")?));
    }
    let is_run = |place: &Utf8Path| RunFolder(place.to_owned()).plan().exists();
    if is_run(&runs.join(name)) || is_run(&start.join(name)) {
        return Err(UserError::new(format!("the run {name} was not saved as a baseline"))
            .help(format!("cargo memprof run --resume {name} --save-baseline NAME"))
            .into());
    }
    let mut help = how_to_save(repository, name, refs)?;
    let known = names(runs);
    if !known.is_empty() {
        help = format!("saved baselines: {}\n{help}", known.join(", "));
    }
    if let Some(suggestion) = suggest::did_you_mean(name, known.iter().map(String::as_str)) {
        help = format!("{suggestion}\n{help}");
    }
    Err(UserError::new(format!("no saved baseline '{name}'")).help(help).into())
}

/// Returns the command that saves a baseline of this name: of the ref that has the name, else of the command's own
/// baseline, else of the default branch.
fn how_to_save(repository: &Repository, name: &str, refs: &[&str]) -> anyhow::Result<String> {
    let saved = check_name(name).unwrap_or_else(|_| "NAME".to_owned());
    if matches!(repository.look_up(name)?, Lookup::Commit(_)) {
        let others = refs.iter().filter(|one| **one != name);
        let all = [name].iter().chain(others).copied().collect::<Vec<_>>().join(" ");
        return Ok(format!(
            "'{name}' is a ref; to measure it now: cargo memprof {all}\n\
             to save it for later: cargo memprof {name} --save-baseline {saved}"
        ));
    }
    let of_command = refs.first().filter(|_| refs.len() > 1).map(|first| (*first).to_owned());
    let baseline = match of_command {
        Some(first) => first,
        None => default_branch(repository)?.unwrap_or_else(|| "REF".to_owned()),
    };
    Ok(format!("to save one: cargo memprof {baseline} --save-baseline {saved}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use memprof_support::process::Command;

    fn run(folder: &Utf8Path, text: &str) -> RunFolder {
        let run = RunFolder(folder.to_owned());
        fs_err::create_dir_all(run.cells().join("0-main/one/0")).unwrap();
        fs_err::write(run.plan(), text).unwrap();
        fs_err::write(run.cells().join("0-main/one/0/outcome.json"), text).unwrap();
        run
    }

    /// A repository with a commit, the branch `main` and the tag `v1.2`.
    fn repository() -> (tempfile::TempDir, Repository) {
        let folder = tempfile::tempdir().unwrap();
        let root = Utf8Path::from_path(folder.path()).unwrap();
        let identity = ["-c", "user.name=a", "-c", "user.email=a@b"];
        for arguments in [
            &["init", "-q", "-b", "main"][..],
            &["commit", "-q", "--allow-empty", "-m", "one"],
            &["tag", "v1.2"],
        ] {
            Command::new("git").current_dir(root).args(identity).args(arguments).run().unwrap();
        }
        let repository = Repository::discover(root).unwrap();
        (folder, repository)
    }

    #[test]
    fn the_advice_for_a_missing_baseline_saves_the_ref_of_that_name() {
        let (_folder, repository) = repository();
        let runs = repository.root().join("runs");
        let advice = |name: &str, refs: &[&str]| {
            let error = find(&runs, &repository, name, refs).unwrap_err();
            error.downcast::<UserError>().unwrap().help.unwrap()
        };
        assert_eq!(
            advice("v1.2", &["."]),
            "'v1.2' is a ref; to measure it now: cargo memprof v1.2 .\n\
             to save it for later: cargo memprof v1.2 --save-baseline v1.2"
        );
        let save =
            |reference: &str| format!("to save one: cargo memprof {reference} --save-baseline release");
        assert_eq!(advice("release", &["."]), save("main"));
        assert_eq!(advice("release", &["v1.2", "."]), save("v1.2"));
        repository.git().args(["branch", "-q", "-m", "feature"]).run().unwrap();
        assert_eq!(advice("release", &["."]), save("REF"));
        assert!(advice("HEAD~0", &["."]).ends_with("cargo memprof HEAD~0 --save-baseline NAME"));
    }

    #[test]
    fn a_saved_run_is_found_by_name_and_replaced_and_unknown_names_list_what_there_is() {
        let temporary = tempfile::tempdir().unwrap();
        let runs = Utf8Path::from_path(temporary.path()).unwrap();
        let (_folder, repository) = repository();
        let find = |name: &str| find(runs, &repository, name, &["."]);
        assert!(find("v1").unwrap_err().to_string().contains("no saved baseline 'v1'"));
        for text in ["first", "second"] {
            let place = save(&run(&runs.join(text), text), runs, "v1", &BTreeMap::new()).unwrap();
            assert_eq!(fs_err::read_to_string(place.join("cells/0-main/one/0/outcome.json")).unwrap(), text);
        }
        assert_eq!(names(runs), ["v1"]);
        assert_eq!(folder(runs).read_dir_utf8().unwrap().count(), 1, "nothing else is left");
        let saved = find("v1").unwrap();
        assert!(saved.plan().exists());
        check(&saved).unwrap();
        let outcome = saved.cells().join("0-main/one/0/outcome.json");
        fs_err::remove_file(&outcome).unwrap();
        for make in [&|| (), &|| fs_err::create_dir(&outcome).unwrap()] as [&dyn Fn(); 2] {
            make();
            let missing = check(&saved).unwrap_err().to_string();
            assert!(
                missing.ends_with("v1 has 0 of the 1 runs that were saved: files are missing"),
                "{missing}"
            );
        }
        let unknown = find("v2").unwrap_err().downcast::<UserError>().unwrap().rendered();
        assert!(unknown.contains("saved baselines: v1"), "{unknown}");
        let unsaved = find("first").unwrap_err().downcast::<UserError>().unwrap().rendered();
        assert!(unsaved.contains("run --resume first --save-baseline"), "{unsaved}");
    }

    #[test]
    fn a_name_is_one_plain_word() {
        for good in ["v1", "main-2026.11", "a_b"] {
            assert_eq!(check_name(good).as_deref(), Ok(good));
        }
        for bad in ["", "..", ".hidden", "-x", "a/b", "a b"] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
    }
}
