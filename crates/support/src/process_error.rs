//! Why a child process could not run, or did not succeed, with its command and the end of its output.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use crate::child_output::Exceeded;

/// Why a child could not run, or did not succeed.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// The program could not be started.
    #[error("could not start `{command}`")]
    NotStarted {
        /// The shell line.
        command: String,
        /// The system's reason.
        source: io::Error,
    },
    /// The program ran, but talking to it failed.
    #[error("lost contact with `{command}`")]
    Broken {
        /// The shell line.
        command: String,
        /// The system's reason.
        source: io::Error,
    },
    /// The program ran and did not succeed.
    #[error("`{command}` failed ({status}){}", quoted_output(.stdout, .stderr))]
    Failed {
        /// The shell line.
        command: String,
        /// How it ended.
        status: ExitStatus,
        /// Standard output, lossily decoded.
        stdout: String,
        /// Standard error, lossily decoded.
        stderr: String,
    },
    /// The program went beyond a limit and was ended.
    #[error("`{command}` {exceeded}")]
    Exceeded {
        /// The shell line.
        command: String,
        /// The limit.
        exceeded: Exceeded,
    },
    /// The interrupt flag was raised; the child was told to stop.
    #[error("interrupted while running `{command}`")]
    Interrupted {
        /// The shell line.
        command: String,
    },
}

impl ProcessError {
    /// Whether the user pressed Ctrl-C. The child is told, too, and perhaps before this program.
    pub fn is_interrupt(&self) -> bool {
        match self {
            Self::Interrupted { .. } => true,
            Self::Failed { status, .. } => status.signal() == Some(libc::SIGINT),
            Self::NotStarted { .. } | Self::Broken { .. } | Self::Exceeded { .. } => false,
        }
    }

    /// What the program wrote to standard error, trimmed; empty if it never ran.
    pub fn stderr(&self) -> &str {
        match self {
            Self::Failed { stderr, .. } => stderr.trim(),
            Self::NotStarted { .. }
            | Self::Broken { .. }
            | Self::Exceeded { .. }
            | Self::Interrupted { .. } => "",
        }
    }

    /// Returns the end of what the program wrote to standard error, else a description of the failure.
    pub fn message(&self) -> String {
        match self.stderr() {
            "" => self.to_string(),
            stderr => end_of(stderr).to_owned(),
        }
    }

    /// Whether the program is not installed, as opposed to having failed.
    pub fn is_missing_program(&self) -> bool {
        matches!(self, Self::NotStarted { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}

/// How many bytes of a child's output an error quotes. Its end says most.
const MOST_QUOTED: usize = 64 << 10;

fn end_of(text: &str) -> &str {
    &text[text.ceil_char_boundary(text.len().saturating_sub(MOST_QUOTED))..]
}

/// Returns the output for an error message: standard error, or standard output if that is empty.
/// Each line is indented. The beginning of a long output is left out.
fn quoted_output(stdout: &str, stderr: &str) -> String {
    let text = if stderr.trim().is_empty() { stdout } else { stderr };
    if text.trim().is_empty() {
        return String::new();
    }
    let text = text.trim_end();
    let end = end_of(text);
    let left_out = if end.len() < text.len() { "\n    […]" } else { "" };
    let lines: String = end.lines().flat_map(|line| ["\n    ", line]).collect();
    format!(":{left_out}{lines}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_output_is_quoted_from_near_its_end() {
        assert_eq!(quoted_output("ignored", "a\nb\n"), ":\n    a\n    b");
        let long = format!("{}\nthe reason\n", "é".repeat(1 << 20));
        let quoted = quoted_output("", &long);
        assert!(quoted.len() < MOST_QUOTED + 100, "{}", quoted.len());
        assert!(quoted.starts_with(":\n    […]\n    é") && quoted.ends_with("\n    the reason"));
    }
}
