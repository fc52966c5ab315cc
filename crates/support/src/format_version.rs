//! Files whose format this version does not read: which version does, and how to get it.

use serde::Deserialize;

use crate::user_error::UserError;

/// This version of the tool.
const HERE: &str = env!("CARGO_PKG_VERSION");

/// What every version writes into its files. Nothing else of a newer format is looked at.
#[derive(Deserialize)]
struct Head {
    version: u32,
    /// The version of the tool that wrote the file. Few files have it.
    tool: Option<String>,
}

/// Refuses a JSON file of a newer format. If it has no format, its reader says what is wrong.
///
/// # Errors
///
/// The file's format is above `newest`.
pub fn refuse_newer(json: &[u8], file: impl std::fmt::Display, newest: u32) -> Result<(), UserError> {
    match serde_json::from_slice(json) {
        Ok(Head { version, tool }) if version > newest => Err(UserError::new(format!(
            "{file} has format {version}{}, but this cargo-memprof {HERE} reads no format above {newest}",
            written_by(tool.as_deref())
        ))
        .help(other_version(tool.as_deref()))),
        _ => Ok(()),
    }
}

/// Returns ` of cargo-memprof 0.2.0`.
pub fn written_by(tool: Option<&str>) -> String {
    tool.map_or_else(String::new, |tool| format!(" of cargo-memprof {tool}"))
}

/// Says which version reads a file, and how to get it: the one that wrote it, or the latest.
pub fn other_version(tool: Option<&str>) -> String {
    match tool {
        Some(tool) => format!("that version reads it: cargo install cargo-memprof@{tool}"),
        None => "update cargo-memprof: cargo install cargo-memprof".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_newer_format_is_refused_whatever_else_the_file_has() {
        for json in
            [&br#"{"version": 3, "tool": 7}"#[..], br#"{"version": 2, "runs": {}}"#, b"{}", b"no JSON"]
        {
            assert_eq!(refuse_newer(json, "a.json", 3), Ok(()));
        }
        let newer = br#"{"version": 4, "tool": "9.0.0", "runs": {}}"#;
        let error = refuse_newer(newer, "a.json", 3).unwrap_err();
        assert_eq!(
            error.message,
            format!(
                "a.json has format 4 of cargo-memprof 9.0.0, but this cargo-memprof {HERE} reads no format above 3"
            )
        );
        assert_eq!(error.help.unwrap(), "that version reads it: cargo install cargo-memprof@9.0.0");
    }
}
