//! Libraries that run a target's benchmarks or tests in place of libtest's harness: how each runs one,
//! and what it prints then.

use serde::{Deserialize, Serialize};

use memprof_support::process::Command;

/// A library in place of libtest's harness.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HarnessLibrary {
    /// criterion 0.5 and later, which take an exact name.
    Criterion,
    /// criterion 0.3 and 0.4, which take a regular expression.
    CriterionByPattern,
    Divan,
    /// libtest-mimic, also below datatest-stable.
    LibtestMimic,
}

impl HarnessLibrary {
    /// Adds the arguments that run one benchmark or test, once.
    pub fn run_one(self, command: Command, name: &str, is_ignored: bool) -> Command {
        match self {
            Self::Criterion | Self::Divan => command.args(["--test", "--exact", name]),
            Self::CriterionByPattern => command.args(["--test", &format!("^{}$", regex::escape(name))]),
            Self::LibtestMimic => command
                .args(["--exact", name, "--nocapture", "--test-threads=1"])
                .args(is_ignored.then_some("--include-ignored")),
        }
    }

    /// Whether a line of the output says that this benchmark or test ran. Without such a line, the
    /// filter matched none.
    pub fn says_it_ran(self, line: &[u8], name: &str) -> bool {
        let line = String::from_utf8_lossy(line);
        match self {
            Self::Criterion | Self::CriterionByPattern => line.strip_prefix("Testing ") == Some(name),
            // A tree of the modules; the benchmark or its argument is the innermost. Both may have spaces and `::`.
            // Two spaces are before the figures.
            Self::Divan => {
                let line = line.trim_start_matches(['│', '├', '╰', '─', ' ']);
                let mut ends = name.match_indices("::").map(|(at, colons)| &name[at + colons.len()..]);
                let is_of = |end: &str| {
                    let rest = line.strip_prefix(end);
                    rest.is_some_and(|rest| rest.trim_end().is_empty() || rest.starts_with("  "))
                };
                ends.any(is_of) || is_of(name)
            }
            Self::LibtestMimic => line == "running 1 test",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_library_says_what_it_ran() {
        let ran = |library: HarnessLibrary, line: &str, name| library.says_it_ran(line.as_bytes(), name);
        assert!(ran(HarnessLibrary::Criterion, "Testing group/fill/10", "group/fill/10"));
        assert!(!ran(HarnessLibrary::Criterion, "Testing group/fill/10", "group/fill/1"));
        assert!(ran(HarnessLibrary::Divan, "   ╰─ 10", "dv::sized::10"));
        assert!(ran(HarnessLibrary::Divan, "╰─ fill", "dv::fill"));
        assert!(!ran(HarnessLibrary::Divan, "dv", "dv::fill"));
        assert!(ran(HarnessLibrary::Divan, "╰─ two words    1.2 ns", "dv::two words"));
        assert!(ran(HarnessLibrary::Divan, "   ╰─ a::b", "dv::text::a::b"));
        assert!(!ran(HarnessLibrary::Divan, "├─ two", "dv::two words"));
        assert!(ran(HarnessLibrary::LibtestMimic, "running 1 test", "a"));
    }
}
