//! The standard inputs of programs: copies in the run's folder, so that every run reads the same,
//! whatever becomes of the files.

use anyhow::{Context, ensure};

use camino::{Utf8Path, Utf8PathBuf};

use memprof_build::store::hash_file;
use memprof_judge::results::run_folder::RunFolder;
use memprof_plan::program::{Stdin, StdinId};
use memprof_plan::request::Request;
use memprof_plan::resolved::Plan;
use memprof_support::event::{Event, Sink};
use memprof_support::regular_file::{self, followed};
use memprof_support::user_error::UserError;
use memprof_support::whole_file::write_whole;

/// Runs with call stacks, and steps of a search, are so far below the folder of their comparison.
const DEEPEST: usize = 4;

/// Copies the standard inputs of a new run into its folder. What is there stays as it is.
///
/// # Errors
/// A file cannot be copied, or it changed since its hash was taken.
pub(crate) fn keep(folder: &RunFolder, plan: &Plan) -> anyhow::Result<()> {
    for stdin in stdins(&plan.request) {
        let copy = folder.input(stdin.hash());
        if !copy.exists() {
            keep_one(&copy, stdin)?;
        }
    }
    Ok(())
}

fn keep_one(copy: &Utf8Path, stdin: &Stdin) -> anyhow::Result<()> {
    fs_err::create_dir_all(copy.parent().context("the copy has a folder")?)?;
    match stdin {
        // The plan of an earlier session has marks in place of secrets.
        Stdin::Text { text, hash } => {
            ensure!(blake3::hash(text.as_bytes()).to_hex().as_str() == hash, "{copy} is missing");
            write_whole(copy, text.as_bytes())
        }
        Stdin::File { path, written, hash } => {
            let partial = copy.with_extension("partial");
            followed::copy(path, &partial)?;
            if hash_file(&partial)? != *hash {
                return Err(UserError::new(format!("stdin {written} changed while it was copied"))
                    .help("start again when nothing writes the file")
                    .into());
            }
            Ok(fs_err::rename(partial, copy)?)
        }
    }
}

/// Warns of files that changed since the run was planned. It continues with what they were.
pub fn warn_of_changed(plan: &Plan, sink: &dyn Sink) {
    for stdin in stdins(&plan.request) {
        let Stdin::File { path, written, hash } = stdin else { continue };
        if hash_file(path.as_str().into()).is_ok_and(|now| now != *hash) {
            let message = format!(
                "stdin {written} changed since {} was planned; its programs read it as it was",
                plan.id
            );
            let help = Some("for the file as it is now, leave out --resume".to_owned());
            sink.emit(Event::Warning { message, help });
        }
    }
}

/// Returns the file with a program's standard input, after checking its hash.
///
/// A program can write to its standard input, which is this copy. It is then made again.
pub(crate) fn verified(
    folder: &RunFolder,
    request: &Request,
    stdin: &StdinId,
) -> anyhow::Result<Utf8PathBuf> {
    let folders = || folder.0.ancestors().take(DEEPEST).map(|folder| RunFolder(folder.to_owned()));
    let copy = folders().map(|folder| folder.input(&stdin.hash)).find(|copy| copy.symlink_metadata().is_ok());
    let damaged = || {
        UserError::new(format!("the copy of stdin {} in {} is missing or damaged", stdin.name, folder.0))
            .help("start a new run, without --resume")
    };
    let copy = copy.ok_or_else(damaged)?;
    let is_whole = || !copy.is_symlink() && hash_file(&copy).is_ok_and(|hash| hash == stdin.hash);
    if is_whole() {
        return Ok(copy);
    }
    regular_file::remove(&copy)?;
    for one in stdins(request).filter(|one| one.hash() == stdin.hash) {
        // If the user's file has changed meanwhile, the reason below says enough.
        let _ = keep_one(&copy, one);
    }
    if is_whole() { Ok(copy) } else { Err(damaged().into()) }
}

/// Returns the standard inputs of a request.
pub(crate) fn stdins(request: &Request) -> impl Iterator<Item = &Stdin> {
    request.tests.iter().filter_map(|entry| entry.program.as_ref()?.stdin.as_ref())
}

#[cfg(test)]
mod tests {
    use super::*;
    use memprof_plan::program::ProgramRequest;
    use memprof_plan::request::{TargetKind, TestRequest};

    fn plan(stdin: Stdin) -> Plan {
        let program = ProgramRequest {
            kind: TargetKind::Bin,
            name: "tool".into(),
            args: Vec::new(),
            stdin: Some(stdin),
            exit_code: 0,
        };
        let tests = vec![TestRequest { program: Some(program), ..TestRequest::default() }];
        Plan::sample(Request { tests, ..Request::default() })
    }

    #[test]
    fn a_program_reads_the_file_as_it_was_planned() {
        let folder = tempfile::tempdir().unwrap();
        let folder = Utf8Path::from_path(folder.path()).unwrap();
        let file = folder.join("in.txt");
        fs_err::write(&file, "before").unwrap();
        let hash = hash_file(&file).unwrap();
        let plan = plan(Stdin::File { path: file.to_string(), written: "in.txt".into(), hash: hash.clone() });
        let run = RunFolder(folder.join("run"));
        keep(&run, &plan).unwrap();
        let warnings = std::cell::RefCell::new(Vec::new());
        let sink = |event: Event| {
            if let Event::Warning { message, .. } = event {
                warnings.borrow_mut().push(message);
            }
        };
        warn_of_changed(&plan, &sink);
        assert_eq!(warnings.borrow().len(), 0);
        fs_err::write(&file, "after").unwrap();
        warn_of_changed(&plan, &sink);
        assert_eq!(
            *warnings.borrow(),
            ["stdin in.txt changed since RUN was planned; its programs read it as it was"]
        );
        let id = StdinId { name: "in.txt".into(), hash };
        let request = &plan.request;
        let copy = verified(&run.why(), request, &id).unwrap();
        assert_eq!(fs_err::read_to_string(&copy).unwrap(), "before");
        keep(&run, &plan).unwrap();
        fs_err::write(&copy, "damaged").unwrap();
        assert!(verified(&run, request, &id).unwrap_err().to_string().contains("missing or damaged"));
        fs_err::write(&file, "before").unwrap();
        keep(&run, &plan).unwrap();
        fs_err::write(&copy, "written by the program").unwrap();
        assert_eq!(fs_err::read_to_string(verified(&run, request, &id).unwrap()).unwrap(), "before");
        fs_err::write(&file, "after").unwrap();
        let late = keep(&RunFolder(folder.join("late")), &plan).unwrap_err().to_string();
        assert!(late.contains("changed while it was copied"), "{late}");
    }
}
