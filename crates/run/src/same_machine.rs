//! Whether a run goes on where it began: figures of two machines are not figures of one run.

use serde_json::Value;

use memprof_judge::results::comparability;
use memprof_judge::results::environment;
use memprof_judge::results::run_folder::RunFolder;
use memprof_judge::results::stored;
use memprof_support::sealed;
use memprof_support::user_error::UserError;

/// Checks that the runs of this folder can be compared with those of this machine. A run that has
/// measured nothing yet moves to this machine.
///
/// # Errors
/// It began on a machine whose figures cannot be compared.
pub fn expect(folder: &RunFolder) -> anyhow::Result<()> {
    expect_facts(folder, &environment::facts())
}

fn expect_facts(folder: &RunFolder, now: &Value) -> anyhow::Result<()> {
    let Some(apart) = comparability::of_machines(&stored::environment_of(folder)?, now).into_iter().next()
    else {
        return Ok(());
    };
    if !folder.cells().exists() {
        return sealed::write(&folder.environment(), now);
    }
    let message =
        format!("{} began on a machine whose figures cannot be compared: {}", folder.0, apart.reason);
    Err(UserError::new(message).help("continue it there, or begin anew: leave out --resume").into())
}

#[cfg(test)]
mod tests {
    use camino::Utf8Path;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_run_with_figures_stays_on_its_machine() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = RunFolder(Utf8Path::from_path(temporary.path()).unwrap().to_owned());
        let machine = |kernel: &str| json!({ "os": "linux", "kernel": kernel });
        sealed::write(&folder.environment(), &machine("6.1")).unwrap();
        expect_facts(&folder, &machine("6.2")).unwrap();
        assert_eq!(stored::environment_of(&folder).unwrap()["kernel"], "6.2", "it has no figures yet");
        fs_err::create_dir(folder.cells()).unwrap();
        expect_facts(&folder, &machine("6.2")).unwrap();
        let error = expect_facts(&folder, &machine("5.10")).unwrap_err().to_string();
        assert!(error.ends_with("cannot be compared: the kernels differ: 6.2 / 5.10"), "{error}");
    }
}
