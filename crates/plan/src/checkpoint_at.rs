//! `--checkpoint-at [REF:]FILE:LINE=LABEL`: a checkpoint that is put before a line of a source file.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use memprof_support::user_error::UserError;

/// A checkpoint before a line of a source file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckpointAt {
    /// The only ref that gets it, by name or as written. `None` means every ref.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// The file, relative to the repository's root, or to the root of a dependency after its name.
    pub file: String,
    /// The line, counted from 1.
    pub line: usize,
    /// The checkpoint's label.
    pub label: String,
}

impl CheckpointAt {
    /// Returns `FILE:LINE`.
    pub fn place(&self) -> String {
        format!("{}:{}", self.file, self.line)
    }
}

impl fmt::Display for CheckpointAt {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(revision) = &self.revision {
            write!(formatter, "{revision}:")?;
        }
        write!(formatter, "{}={}", self.place(), self.label)
    }
}

impl FromStr for CheckpointAt {
    type Err = UserError;

    fn from_str(text: &str) -> Result<Self, UserError> {
        let wrong = || {
            UserError::new(format!("'{text}' is not FILE:LINE=LABEL"))
                .help("write a place and a label: src/lib.rs:42=loaded, or REF:src/lib.rs:42=loaded")
        };
        // A label may contain anything, so the first `:LINE=` ends the place.
        let places = text.match_indices('=').filter_map(|(at, _)| {
            let (file, line) = text[..at].rsplit_once(':')?;
            let line = line.parse::<usize>().ok().filter(|line| *line > 0)?;
            Some((file, line, &text[at + 1..]))
        });
        let (place, line, label) = places.into_iter().next().ok_or_else(wrong)?;
        let (revision, file) = match place.split_once(':') {
            Some((revision, file)) => (Some(revision.to_owned()), file),
            None => (None, place),
        };
        let is_empty = file.is_empty() || label.trim().is_empty() || revision.as_deref() == Some("");
        if is_empty || label.chars().any(char::is_control) {
            return Err(wrong());
        }
        Ok(Self { revision, file: file.to_owned(), line, label: label.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_file_and_a_line_and_may_be_of_one_ref() {
        let read = |text: &str| {
            let read: CheckpointAt = text.parse().unwrap();
            assert_eq!(read.to_string(), text);
            (read.revision, read.file, read.line, read.label)
        };
        assert_eq!(read("src/lib.rs:42=loaded"), (None, "src/lib.rs".into(), 42, "loaded".into()));
        let of_ref = (Some("pr/7".into()), "a=b.rs".into(), 1, "x=1: y".into());
        assert_eq!(read("pr/7:a=b.rs:1=x=1: y"), of_ref);
        for wrong in [
            "",
            "src/lib.rs",
            "src/lib.rs:42",
            "src/lib.rs:0=x",
            "src/lib.rs:x=y",
            ":1=x",
            ":a.rs:1=x",
            "a.rs:1= ",
        ] {
            let error = wrong.parse::<CheckpointAt>().unwrap_err().rendered();
            assert!(error.contains("is not FILE:LINE=LABEL") && error.contains("src/lib.rs:42="), "{error}");
        }
    }
}
