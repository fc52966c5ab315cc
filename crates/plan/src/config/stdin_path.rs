//! The file that a program reads from its standard input. It must exist when the matrix is read, so
//! that the error names the line.

use std::cell::RefCell;

use camino::{Utf8Path, Utf8PathBuf};

use crate::config::mistake::Mistake;
use crate::config::yaml::FromText;

thread_local! {
    /// The folder that paths are relative to, while a matrix is read from disk.
    static FOLDER: RefCell<Option<Utf8PathBuf>> = const { RefCell::new(None) };
}

/// The path of such a file, as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StdinPath(pub String);

impl FromText for StdinPath {
    const EXPECTED: &'static str = "a file such as data/input.txt";

    fn from_text(text: &str) -> Result<Self, Mistake> {
        let path = String::from_text(text)?;
        let folder = FOLDER.with_borrow(Clone::clone);
        match folder.map(|folder| folder.join(&path)).filter(|file| !file.is_file()) {
            None => Ok(Self(path)),
            Some(file) => {
                let what = if file.exists() { "is not a file" } else { "does not exist" };
                Err(Mistake::new(format!("{path} {what}"))
                    .help(format!("it is looked for at {file}; `stdin-text` takes the text itself")))
            }
        }
    }
}

/// Reads a matrix with `read`, while paths are relative to this folder and their files must exist.
pub fn in_folder<T>(folder: &Utf8Path, read: impl FnOnce() -> T) -> T {
    FOLDER.set(Some(folder.to_owned()));
    let read = read();
    FOLDER.set(None);
    read
}
