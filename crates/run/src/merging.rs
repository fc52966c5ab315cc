//! Makes one run's folder of the folders of all shards.

use std::collections::BTreeMap;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

use anyhow::Context;
use camino::{Utf8Path, Utf8PathBuf};
use serde_json::{Map, Value, json};

use crate::stored_plan;
use memprof_judge::results::build_facts::{self, Purpose, StoredBuild};
use memprof_judge::results::comparability;
use memprof_judge::results::outcome::{self, RunRecord};
use memprof_judge::results::run_folder::{RunFolder, file};
use memprof_judge::results::shard_record::{self, ShardRecord};
use memprof_judge::results::stored::{self, Results};
use memprof_judge::results::unfinished;
use memprof_judge::why::stored::{StoredExecutable, StoredTests};
use memprof_plan::resolved::{CellId, Plan};
use memprof_plan::shard::Shard;
use memprof_plan::sharding::AllTests;
use memprof_support::durable::{sync_names, sync_tree};
use memprof_support::paths;
use memprof_support::sealed;
use memprof_support::user_error::UserError;

/// The shards of one comparison, which fit together.
pub struct Shards {
    parts: Vec<Part>,
}

/// One shard's run.
struct Part {
    folder: RunFolder,
    shard: Shard,
    /// How many outcomes it had when it was finished.
    outcomes: usize,
    plan: Plan,
    environment: Value,
    builds: BTreeMap<usize, StoredBuild>,
}

impl Shards {
    /// Reads the shards, in any order.
    ///
    /// # Errors
    ///
    /// They are not all the shards of one plan, one is missing or not finished, two have the same
    /// test, or none has some test. The error names the runs and says what to do.
    pub fn open(folders: Vec<RunFolder>) -> anyhow::Result<Self> {
        let mut parts = Vec::new();
        let mut all: Option<(AllTests, String)> = None;
        for folder in folders {
            let id = id(&folder);
            let record = ShardRecord::read(&folder)?.ok_or_else(|| {
                UserError::new(format!("{id} is a whole run, not a shard"))
                    .help("shards are runs with `--shard 1/4`, `--shard 2/4`, …")
            })?;
            let Some(outcomes) = record.outcomes else {
                return Err(UserError::new(format!("{id}, shard {}, is not finished", record.shard))
                    .help(format!(
                        "where it ran: cargo memprof run --resume {id} (with --archive, if it had it)"
                    ))
                    .into());
            };
            match &all {
                Some((first, of)) if *first != record.all => {
                    return Err(UserError::new(format!(
                        "{of} and {id} are shards of different tests: {} and {}",
                        first.count, record.all.count
                    ))
                    .help("run all shards from one archive, so that they have the same tests")
                    .into());
                }
                Some(_) => {}
                None => all = Some((record.all, id)),
            }
            parts.push(Part::read(folder, record.shard, outcomes)?);
        }
        parts.sort_by_key(|part| part.shard);
        let shards = Self { parts };
        shards.check_numbers()?;
        shards.check_plans()?;
        let Some((all, _)) = all else {
            return Err(UserError::new("no run is named").help("cargo memprof merge RUN RUN …").into());
        };
        shards.check_tests(&all)?;
        Ok(shards)
    }

    /// The plan of the whole, without an id of its own.
    pub fn plan(&self) -> Plan {
        let mut plan = self.parts[0].plan.clone();
        plan.request.shard = None;
        plan.notes.clear();
        for part in &self.parts {
            let own = part.shard.note();
            let news = part.plan.notes.iter().filter(|note| **note != own && !plan.notes.contains(note));
            plan.notes.extend(news.cloned().collect::<Vec<_>>());
        }
        plan.notes.extend(self.machines_note());
        plan
    }

    /// Each shard once, and all of them.
    fn check_numbers(&self) -> anyhow::Result<()> {
        let count = self.parts[0].shard.count;
        if let Some(other) = self.parts.iter().find(|part| part.shard.count != count) {
            let (first, first_id) = (self.parts[0].shard, id(&self.parts[0].folder));
            return Err(UserError::new(format!(
                "{first_id} is shard {first}, and {} is shard {}",
                id(&other.folder),
                other.shard
            ))
            .help("merge shards of the same number only")
            .into());
        }
        if let Some(pair) = self.parts.windows(2).find(|pair| pair[0].shard == pair[1].shard) {
            let (one, other) = (id(&pair[0].folder), id(&pair[1].folder));
            return Err(UserError::new(format!("{one} and {other} are both shard {}", pair[0].shard))
                .help("name one of them")
                .into());
        }
        let missing: Vec<String> = (1..=count)
            .filter(|number| !self.parts.iter().any(|part| part.shard.number == *number))
            .map(|number| Shard { number, count }.to_string())
            .collect();
        if let Some(first) = missing.first() {
            let (noun, verb) = if missing.len() == 1 { ("shard", "is") } else { ("shards", "are") };
            return Err(UserError::new(format!("{noun} {} {verb} missing", missing.join(", ")))
                .help(format!("run it with `--shard {first}`, and name its run too"))
                .into());
        }
        Ok(())
    }

    fn check_plans(&self) -> anyhow::Result<()> {
        let first = comparable_plan(&self.parts[0].plan)?;
        for part in &self.parts[1..] {
            let other = comparable_plan(&part.plan)?;
            if let Some(key) = first_difference(&first, &other) {
                let (one, other) = (id(&self.parts[0].folder), id(&part.folder));
                return Err(UserError::new(format!("{one} and {other} have different plans: {key}"))
                    .help("run all shards with the same refs and flags, best from one archive")
                    .into());
            }
            for (revision, build) in &self.parts[0].builds {
                let other = part.builds.get(revision).cloned().unwrap_or_default();
                if let Some(what) = difference(build, &other) {
                    let name = part.plan.revisions.get(*revision).map_or("", |revision| &revision.name);
                    let (one, other) = (id(&self.parts[0].folder), id(&part.folder));
                    return Err(UserError::new(format!(
                        "{one} and {other} have different builds of {name}: {what}"
                    ))
                    .help("run all shards from one archive, or with the same toolchain and lock file")
                    .into());
                }
            }
        }
        Ok(())
    }

    /// Every test is in one shard, with all its runs.
    fn check_tests(&self, all: &AllTests) -> anyhow::Result<()> {
        let mut owners: BTreeMap<CellId, usize> = BTreeMap::new();
        for (index, part) in self.parts.iter().enumerate() {
            let found = shard_record::outcomes(&part.folder)?;
            if found != part.outcomes {
                return Err(files_missing(&format!(
                    "{} has {found} of its {} runs",
                    id(&part.folder),
                    part.outcomes
                )));
            }
            for cell in part.cells()? {
                let owner = *owners.entry(cell.clone()).or_insert(index);
                if owner != index {
                    let (one, other) = (id(&self.parts[owner].folder), id(&part.folder));
                    return Err(UserError::new(format!("{one} and {other} both ran {}", cell.title))
                        .help("run all shards from one archive, so that each test is in one of them")
                        .into());
                }
            }
        }
        let found = AllTests::from_cells(owners.keys());
        if found != *all {
            return Err(files_missing(&format!("the shards have {} of {} tests", found.count, all.count)));
        }
        Ok(())
    }

    /// Which shards ran on which machine, if there are several, and what figures depend on that differs
    /// from the first.
    fn machines_note(&self) -> Option<String> {
        let mut machines: Vec<(&Value, Vec<String>)> = Vec::new();
        for part in &self.parts {
            let number = part.shard.number.to_string();
            match machines.iter_mut().find(|(known, _)| *known == &part.environment) {
                Some((_, shards)) => shards.push(number),
                None => machines.push((&part.environment, vec![number])),
            }
        }
        let (first, _) = machines.first().filter(|_| machines.len() > 1)?;
        let described = machines.iter().map(|(environment, shards)| {
            let noun = if shards.len() == 1 { "shard" } else { "shards" };
            let reasons: Vec<String> = comparability::of_machines(first, environment)
                .into_iter()
                .map(|apart| apart.reason)
                .collect();
            let reasons =
                if reasons.is_empty() { String::new() } else { format!(" ({})", reasons.join(", ")) };
            format!("{noun} {}{reasons}", shards.join(", "))
        });
        Some(format!(
            "measured on {} machines, each test with all its revisions on one of them: {}",
            machines.len(),
            described.collect::<Vec<_>>().join("; ")
        ))
    }

    /// Fills the folder of the whole run with copies. The shards stay as they are. The run is made in
    /// another folder, and moved when it is whole and on the disk. So what ends a merge leaves nothing
    /// that could be taken for a whole run. Returns its results.
    ///
    /// # Errors
    ///
    /// The folder has a run's files already, a shard is damaged, or a file cannot be read or written.
    pub fn write(&self, folder: &RunFolder, plan: &Plan) -> anyhow::Result<Results> {
        if folder.plan().symlink_metadata().is_ok() {
            return Err(UserError::new(format!("{} exists: a merge writes a run of its own", folder.plan()))
                .help(format!("if it is the merged run, show it: cargo memprof report {}; or else choose another --run-folder", folder.0))
                .into());
        }
        let found = folders_of_run(folder);
        if let Some(left) = found.iter().find(|path| path.symlink_metadata().is_ok()) {
            return Err(UserError::new(format!(
                "{left} exists, without a plan.json beside it: this is no whole run"
            ))
            .help(format!(
                "if a merge was interrupted here, remove what it left and merge again: rm -r {left}; \
                     or else choose another --run-folder"
            ))
            .into());
        }
        let above = folder.0.parent().context("a run's folder is in another one")?;
        fs_err::create_dir_all(above)?;
        let mut builder = tempfile::Builder::new();
        // The system takes the umask off these permissions.
        builder.prefix(".memprof-").suffix(".partial").permissions(Permissions::from_mode(0o777));
        let made = builder.tempdir_in(above)?;
        let partial = RunFolder(paths::utf8(made.path().to_owned())?);
        self.fill(&partial, plan)?;
        let mut results = stored::read(&partial).map_err(|error| self.damage().unwrap_or(error))?;
        for problem in results.runs.iter_mut().filter_map(|run| run.unreadable.as_mut()) {
            *problem = problem.replace(partial.0.as_str(), folder.0.as_str());
        }
        sync_tree(made.path()).with_context(|| format!("cannot sync {}", partial.0))?;
        if folder.0.symlink_metadata().is_ok() {
            move_into(&partial, folder)?;
            return Ok(results);
        }
        fs_err::rename(&partial.0, &folder.0)?;
        let _moved = made.keep();
        sync_names(above.as_std_path()).with_context(|| format!("cannot sync {above}"))?;
        Ok(results)
    }

    /// Returns what is wrong with the files of a shard.
    fn damage(&self) -> Option<anyhow::Error> {
        self.parts.iter().find_map(|Part { folder, shard, .. }| {
            let (_, problem) = stored::damaged(&folder.cells()).next()?;
            let problem = UserError::new(format!("shard {shard}: {problem}"));
            Some(problem.help(format!("{}\nthen merge again", unfinished::measure_again(folder))).into())
        })
    }

    fn fill(&self, folder: &RunFolder, plan: &Plan) -> anyhow::Result<()> {
        let first = &self.parts[0];
        sealed::write(&folder.environment(), &self.environment())?;
        build_facts::write(folder, &first.builds)?;
        for path in [first.folder.trace(), first.folder.changes()] {
            if path.exists() {
                fs_err::copy(&path, folder.0.join(path.file_name().unwrap_or_default()))?;
            }
        }
        copy_tree(&build_logs(&first.folder), &build_logs(folder))?;
        let (mut explained, mut left_out) = (StoredTests::default(), Vec::new());
        for part in &self.parts {
            copy_tree(&part.folder.cells(), &folder.cells())?;
            copy_tree(&part.folder.why().cells(), &folder.why().cells())?;
            merge_executables(&part.folder.why(), &folder.why())?;
            let tests = part.folder.why().tests();
            if tests.exists() {
                let tests: StoredTests = sealed::read(&tests)?;
                explained.tests.extend(tests.tests);
                left_out.extend(
                    tests.left_out.map(|left_out| format!("shard {}: {left_out}", part.shard.number)),
                );
            }
        }
        explained.left_out = (!left_out.is_empty()).then(|| left_out.join("; "));
        if explained != StoredTests::default() {
            fs_err::create_dir_all(&folder.why().0)?;
            sealed::write(&folder.why().tests(), &explained)?;
        }
        unfinished::finish(folder)?;
        sealed::write(&folder.plan(), &stored_plan::sealed(plan))
    }

    /// The facts that all machines share, and the machines.
    fn environment(&self) -> Value {
        let facts: Vec<&Value> = self.parts.iter().map(|part| &part.environment).collect();
        let differing = differing_keys(facts.iter().copied());
        if differing.is_empty() {
            return self.parts[0].environment.clone();
        }
        let mut shared = self.parts[0].environment.as_object().cloned().unwrap_or_default();
        shared.retain(|key, _| !differing.contains(&key));
        let machines: Vec<Value> = self
            .parts
            .iter()
            .map(|part| json!({ "shard": part.shard.number, "environment": part.environment }))
            .collect();
        shared.insert("machines".to_owned(), Value::Array(machines));
        Value::Object(shared)
    }
}

impl Part {
    fn read(folder: RunFolder, shard: Shard, outcomes: usize) -> anyhow::Result<Self> {
        let plan = stored::read_plan(&folder)?;
        let environment = stored::environment_of(&folder)?;
        let builds = build_facts::read(&folder)?;
        Ok(Self { folder, shard, outcomes, plan, environment, builds })
    }

    /// The tests that have an outcome.
    fn cells(&self) -> anyhow::Result<Vec<CellId>> {
        let mut cells = Vec::new();
        for revision in folders_in(&self.folder.cells())? {
            for cell in folders_in(&revision)? {
                let outcome = cell.join("0").join(file::OUTCOME);
                let record: RunRecord = sealed::read_format(&outcome, outcome::VERSION)?;
                cells.push(record.cell);
            }
        }
        Ok(cells)
    }
}

fn folders_in(folder: &Utf8Path) -> anyhow::Result<Vec<Utf8PathBuf>> {
    if !folder.exists() {
        return Ok(Vec::new());
    }
    let mut folders = Vec::new();
    for entry in folder.read_dir_utf8().with_context(|| format!("cannot read {folder}"))? {
        let entry = entry.with_context(|| format!("cannot read {folder}"))?;
        if entry.file_type()?.is_dir() {
            folders.push(entry.into_path());
        }
    }
    folders.sort();
    Ok(folders)
}

fn files_missing(what: &str) -> anyhow::Error {
    UserError::new(format!("{what}: files of a run are missing"))
        .help("copy the whole folder of each run")
        .into()
}

fn id(folder: &RunFolder) -> String {
    folder.0.file_name().unwrap_or(folder.0.as_str()).to_owned()
}

/// The parts of a plan that all shards share.
fn comparable_plan(plan: &Plan) -> anyhow::Result<Value> {
    let mut plan = plan.clone();
    plan.request.shard = None;
    let mut value = serde_json::to_value(&plan)?;
    if let Value::Object(fields) = &mut value {
        // Machines have clocks and folders of their own, and find a ref where they find it.
        for key in ["id", "created", "repository", "notes"] {
            fields.remove(key);
        }
        for revision in fields.get_mut("revisions").and_then(Value::as_array_mut).into_iter().flatten() {
            revision.as_object_mut().map(|revision| revision.remove("found"));
        }
    }
    Ok(value)
}

/// Returns what differs between the builds of two shards, if they are not of one kind.
fn difference(one: &StoredBuild, other: &StoredBuild) -> Option<&'static str> {
    if let Some((_, words)) = one.facts.differing(&other.facts, Purpose::Merge).next() {
        return Some(words);
    }
    let rest =
        |build: &StoredBuild| (build.failure.clone(), build.not_measured.clone(), build.added_tests.clone());
    (rest(one) != rest(other)).then_some("what could not be built or measured")
}

/// Returns the path of the first value that differs, `request.build.profile`.
fn first_difference(one: &Value, other: &Value) -> Option<String> {
    if one == other {
        return None;
    }
    if let (Value::Object(fields), Value::Object(others)) = (one, other) {
        let missing = Value::Null;
        let keys = fields.keys().chain(others.keys());
        for key in keys {
            let [one, other] = [fields, others].map(|map| map.get(key).unwrap_or(&missing));
            if let Some(inner) = first_difference(one, other) {
                return Some(if inner.is_empty() { key.clone() } else { format!("{key}.{inner}") });
            }
        }
    }
    Some(String::new())
}

/// The keys of objects whose values are not the same in all of them.
fn differing_keys<'a>(facts: impl Iterator<Item = &'a Value> + Clone) -> Vec<&'a String> {
    let objects: Vec<&Map<String, Value>> = facts.filter_map(Value::as_object).collect();
    let mut keys: Vec<&String> = objects.iter().flat_map(|object| object.keys()).collect();
    keys.sort_unstable();
    keys.dedup();
    keys.retain(|key| objects.windows(2).any(|pair| pair[0].get(*key) != pair[1].get(*key)));
    keys
}

/// Puts what two machines know of one executable together.
fn merge_executables(from: &RunFolder, to: &RunFolder) -> anyhow::Result<()> {
    if !from.executables().exists() {
        return Ok(());
    }
    fs_err::create_dir_all(to.executables())?;
    for entry in from.executables().read_dir_utf8()? {
        let entry = entry?;
        let path = to.executables().join(entry.file_name());
        let mut known: StoredExecutable =
            if path.exists() { sealed::read(&path)? } else { StoredExecutable::default() };
        known.merge(sealed::read(entry.path())?);
        sealed::write_dense(&path, &known)?;
    }
    Ok(())
}

/// Returns the folders in a run's folder. A merge that is interrupted may leave some of them.
pub fn folders_of_run(folder: &RunFolder) -> [Utf8PathBuf; 3] {
    [folder.cells(), folder.why().0, build_logs(folder)]
}

fn build_logs(folder: &RunFolder) -> Utf8PathBuf {
    folder.0.join("builds")
}

/// Moves a whole run into a folder that holds other things, such as shards. The plan is last: a folder
/// without one is no run.
fn move_into(made: &RunFolder, folder: &RunFolder) -> anyhow::Result<()> {
    let mut entries: Vec<Utf8PathBuf> = made
        .0
        .read_dir_utf8()?
        .map(|entry| entry.map(camino::Utf8DirEntry::into_path))
        .collect::<Result<_, _>>()?;
    entries.sort_by_key(|entry| *entry == made.plan());
    let sync = || sync_names(folder.0.as_std_path()).with_context(|| format!("cannot sync {}", folder.0));
    for (index, entry) in entries.iter().enumerate() {
        if *entry == made.plan() {
            sync()?;
        }
        let place = |entry: &Utf8Path| folder.0.join(entry.file_name().unwrap_or_default());
        if let Err(error) = fs_err::rename(entry, place(entry)) {
            // What is moved would be in the way of the next merge. The shards have it. A full disk has no
            // room to move it back.
            for moved in &entries[..index] {
                let place = place(moved);
                let _ =
                    if place.is_dir() { fs_err::remove_dir_all(place) } else { fs_err::remove_file(place) };
            }
            return Err(error.into());
        }
    }
    sync()
}

/// Copies all files below a folder. Links would be refused: files of a run have one name each.
pub(crate) fn copy_tree(from: &Utf8Path, to: &Utf8Path) -> anyhow::Result<()> {
    copy_tree_without(from, to, "")
}

/// Copies all files below a folder but those with this name.
pub(crate) fn copy_tree_without(from: &Utf8Path, to: &Utf8Path, name: &str) -> anyhow::Result<()> {
    if !from.exists() {
        return Ok(());
    }
    for entry in walkdir::WalkDir::new(from).follow_links(false) {
        let entry = entry?;
        let path = Utf8Path::from_path(entry.path()).context("a run's path is not UTF-8")?;
        let destination = to.join(path.strip_prefix(from)?);
        if entry.file_type().is_dir() {
            fs_err::create_dir_all(&destination)?;
        } else if entry.file_type().is_file() && entry.file_name() != name {
            fs_err::copy(path, &destination)?;
        }
    }
    Ok(())
}
