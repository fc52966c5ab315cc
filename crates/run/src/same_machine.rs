//! Whether a run goes on where it began: figures of two machines, or of other processors, GPUs or
//! allocator settings of one machine, are not figures of one run.

use serde_json::Value;

use memprof_judge::results::environment;
use memprof_judge::results::kept_baseline;
use memprof_judge::results::run_folder::RunFolder;
use memprof_judge::results::stored;
use memprof_plan::resolved::Plan;
use memprof_support::sealed;
use memprof_support::user_error::UserError;

/// Checks that the runs of this folder can be compared with those of this machine, for all that figures of
/// its plan depend on. A run that has measured nothing yet moves to this machine.
///
/// # Errors
/// It began on a machine, or with processors, GPUs or variables, whose figures cannot be compared.
pub fn expect(folder: &RunFolder, plan: &Plan) -> anyhow::Result<()> {
    expect_facts(folder, plan, &environment::facts())
}

fn expect_facts(folder: &RunFolder, plan: &Plan, now: &Value) -> anyhow::Result<()> {
    let differing = kept_baseline::of_machines(&stored::environment_of(folder)?, now, &plan.request);
    if differing.is_empty() {
        return Ok(());
    }
    if !folder.cells().exists() {
        return sealed::write(&folder.environment(), now);
    }
    let message = format!(
        "{} began on a machine or with settings whose figures cannot be compared: {}",
        folder.0,
        differing.join("; ")
    );
    let help = "to continue, go back to the first of each two values (`none`: unset the variable)\n\
                to begin anew, leave out --resume";
    Err(UserError::new(message).help(help).into())
}

#[cfg(test)]
mod tests {
    use camino::Utf8Path;
    use serde_json::json;

    use super::*;
    use memprof_plan::request::Request;

    #[test]
    fn a_run_with_figures_stays_on_its_machine() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = RunFolder(Utf8Path::from_path(temporary.path()).unwrap().to_owned());
        let plan = Plan::sample(Request::default());
        let machine = |kernel: &str, cpus: u32, arenas: &str| {
            let variables = json!({ "MALLOC_ARENA_MAX": arenas });
            json!({ "os": "linux", "kernel": kernel, "cpus": cpus, "variables": variables })
        };
        sealed::write(&folder.environment(), &machine("6.1", 32, "1")).unwrap();
        let here = machine("6.2", 32, "1");
        expect_facts(&folder, &plan, &here).unwrap();
        assert_eq!(stored::environment_of(&folder).unwrap()["kernel"], "6.2", "it has no figures yet");
        fs_err::create_dir(folder.cells()).unwrap();
        expect_facts(&folder, &plan, &here).unwrap();
        for (now, differing) in [
            (machine("5.10", 32, "1"), "the kernels differ: 6.2 / 5.10"),
            (machine("6.2", 4, "1"), "the numbers of processors: 32 / 4"),
            (
                machine("6.2", 4, "2"),
                "the numbers of processors: 32 / 4; the variables MALLOC_ARENA_MAX: 1 / 2",
            ),
        ] {
            let error = expect_facts(&folder, &plan, &now).unwrap_err().to_string();
            assert!(error.ends_with(&format!("cannot be compared: {differing}")), "{error}");
        }
    }
}
