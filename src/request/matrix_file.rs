//! Finds and reads memprof.yaml. Its keys and values are `plan::config`'s.

use std::io::Read as _;

use camino::{Utf8Path, Utf8PathBuf};

use memprof_build::git::repository::Repository;
use memprof_plan::config::limits::MOST_BYTES;
use memprof_plan::config::matrix::{self, FILE_NAME, Matrix};
use memprof_plan::config::yaml::List;
use memprof_support::regular_file::followed;
use memprof_support::user_error::UserError;

/// Returns the file of `--matrix`, or else the nearest memprof.yaml, from the current folder up to the
/// repository's root.
pub fn path(named: Option<&Utf8Path>, repository: &Repository) -> Option<Utf8PathBuf> {
    let current = repository.start();
    let in_repository = current.ancestors().take_while(|folder| folder.starts_with(repository.root()));
    match named {
        Some(file) => Some(current.join(file)),
        None => in_repository.map(|folder| folder.join(FILE_NAME)).find(|file| file.is_file()),
    }
}

/// Reads a matrix. The files that its programs read must exist.
pub fn read(file: &Utf8Path) -> Result<Matrix, UserError> {
    let text = text(file)?;
    let matrix = matrix::parse(&text, file)?;
    let entries = matrix.tests.iter().flat_map(|List(entries)| entries).enumerate();
    for (index, path) in entries.filter_map(|(index, entry)| Some((index, &entry.stdin.as_ref()?.0))) {
        let input = file.with_file_name(path);
        if !input.is_file() {
            let what = if input.exists() { "is not a file" } else { "does not exist" };
            return Err(UserError::new(format!("tests[{index}].stdin: {path} {what}"))
                .help(format!("it is looked for at {input}; `stdin-text` takes the text itself"))
                .at(file, matrix::place_of(&text, path)));
        }
    }
    Ok(matrix)
}

/// Reads a regular file. It is never read far beyond the limit that [`matrix::parse`] checks.
fn text(file: &Utf8Path) -> Result<String, UserError> {
    let mut bytes = Vec::new();
    let most = u64::try_from(MOST_BYTES).unwrap_or(u64::MAX);
    let content = followed::open(file).and_then(|open| open.take(most + 1).read_to_end(&mut bytes));
    let text = content.map_err(|error| error.to_string()).and_then(|_| {
        // A character that the limit cuts off is no mistake of the file.
        let valid = bytes.len() > MOST_BYTES || std::str::from_utf8(&bytes).is_ok();
        if valid {
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        } else {
            Err(format!("{file} is not UTF-8"))
        }
    });
    text.map_err(|message| {
        UserError::new(message)
            .help("choose another file with --matrix FILE, or write one with `cargo memprof init`")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_standard_input_that_is_missing_has_a_place() {
        let folder = tempfile::tempdir().unwrap();
        let file = Utf8Path::from_path(folder.path()).unwrap().join("memprof.yaml");
        let text = "refs: [main, .]\ntests:\n  - bin: tool\n    stdin: data/in.txt\n";
        fs_err::write(&file, text).unwrap();
        let error = read(&file).unwrap_err().rendered();
        assert!(error.contains("memprof.yaml:4:12: tests[0].stdin: data/in.txt does not exist"), "{error}");
        fs_err::create_dir(folder.path().join("data")).unwrap();
        fs_err::write(folder.path().join("data/in.txt"), "").unwrap();
        read(&file).unwrap();
        // A text by itself has no folder.
        matrix::parse(text, "memprof.yaml".into()).unwrap();
    }
}
