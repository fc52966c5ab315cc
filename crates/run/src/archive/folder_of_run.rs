//! The folder of an archive's run.

use camino::{Utf8Path, Utf8PathBuf};
use serde_json::{Value, json};

use crate::archive::unpacked::Unpacked;
use crate::same_machine;
use crate::session::{begin, create_folder, find_run};
use memprof_build::git::resolve::run_id;
use memprof_judge::results::run_folder::RunFolder;
use memprof_judge::results::stored;
use memprof_plan::resolved::Plan;
use memprof_support::regular_file::followed;
use memprof_support::user_error::UserError;
use memprof_support::whole_file::write_whole;

/// Creates the folder of a new run, with everything that is known before the first test. Without a
/// `named` folder, it is one of `runs`. The plan gets an id of its own: an archive may run many times.
///
/// # Errors
///
/// The named folder holds a run already.
pub fn create(
    unpacked: &Unpacked,
    plan: &mut Plan,
    runs: &Utf8Path,
    named: Option<Utf8PathBuf>,
) -> anyhow::Result<RunFolder> {
    plan.id = run_id(jiff::Timestamp::now(), &plan.revisions);
    let folder = match named.map(RunFolder) {
        None => create_folder(runs, plan)?,
        Some(folder) if folder.plan().exists() => {
            return Err(UserError::new(format!("{} holds a run already", folder.0))
                .help("add --resume to continue it, or choose another --run-folder")
                .into());
        }
        Some(folder) => folder,
    };
    fs_err::create_dir_all(&folder.0)?;
    let of_build_machine = unpacked.manifest.contents.keys().filter_map(|path| path.strip_prefix("run").ok());
    for path in of_build_machine {
        let destination = folder.0.join(path);
        fs_err::create_dir_all(destination.parent().unwrap_or(&folder.0))?;
        fs_err::copy(unpacked.folder.join("run").join(path), destination)?;
    }
    let origin = json!({ "blake3": unpacked.hash, "tool": unpacked.manifest.tool });
    write_whole(&folder.origin(), &serde_json::to_vec_pretty(&origin)?)?;
    // The plan comes last: with it, the folder holds a run that --resume can continue.
    if !folder.plan().exists() {
        begin(&folder, plan)?;
    }
    Ok(folder)
}

/// Finds the folder of an interrupted run of this archive, by a name among `runs` or a path from
/// `current`, and the run's plan.
///
/// # Errors
///
/// The run is of another archive, or of another machine.
pub fn find(
    unpacked: &Unpacked,
    name: &str,
    runs: &Utf8Path,
    current: &Utf8Path,
) -> anyhow::Result<(RunFolder, Plan)> {
    let folder = find_run(runs, current, name)?;
    let origin: Value = match followed::read(folder.origin()) {
        Ok(text) => serde_json::from_slice(&text)?,
        Err(_) => Value::Null,
    };
    if origin["blake3"] != unpacked.hash.as_str() {
        return Err(UserError::new(format!("{} is not a run of this archive", folder.0))
            .help("without --resume, a new run starts")
            .into());
    }
    let plan = stored::read_plan(&folder)?;
    same_machine::expect(&folder, &plan)?;
    Ok((folder, plan))
}
