//! Cargo's own build options, passed on to cargo.

use camino::Utf8PathBuf;
use clap::{Args, ValueHint};

use memprof_plan::config::flag::Section;
use memprof_plan::config::matrix::Matrix;
use memprof_plan::config::yaml::Scalar;
use memprof_plan::jobs::Jobs;

/// The heading of the flags that name programs.
const PROGRAMS: &str = Section::Programs.heading();
/// The most parallel build jobs. Cargo keeps a token for each in a pipe, and a pipe holds 65,536.
const MOST_JOBS: i64 = 10_000;

/// Cargo's options.
#[derive(Clone, Debug, Default, PartialEq, Args)]
#[command(next_help_heading = Section::Build.heading())]
#[expect(clippy::struct_excessive_bools, reason = "they are cargo's flags")]
pub struct CargoArguments {
    /// Run this binary's `main`, with the arguments behind `--`: --bin tool -- --fast (repeatable)
    #[arg(long, value_name = "NAME", help_heading = PROGRAMS)]
    pub bin: Vec<String>,
    /// Run this example's `main`, with the arguments behind `--` (repeatable)
    #[arg(long, value_name = "NAME", help_heading = PROGRAMS)]
    pub example: Vec<String>,
    /// Give the program this argument, where `--` means something else (repeatable): --arg=--fast
    #[arg(long, value_name = "ARG", allow_hyphen_values = true, help_heading = PROGRAMS)]
    pub arg: Vec<String>,
    /// Let the program read this file from its standard input, which is empty by default
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = PROGRAMS)]
    pub stdin: Option<Utf8PathBuf>,
    /// Features to enable, separated by commas or spaces; for one side: new:arena
    #[arg(short = 'F', long, value_name = "[SIDE:]FEATURES")]
    pub features: Vec<String>,
    /// Disable the default features; for one side: --no-default-features=new
    #[arg(long, value_name = "SIDE", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    pub no_default_features: Vec<String>,
    /// Build with this profile; for one side: new:release
    #[arg(long, value_name = "[SIDE:]NAME")]
    pub profile: Vec<String>,
    /// Build with the release profile
    #[arg(short, long, conflicts_with = "profile")]
    pub release: bool,
    /// Build only the library's unit tests
    #[arg(long)]
    pub lib: bool,
    /// Build only this binary's unit tests (repeatable); --bin runs the binary itself
    #[arg(long, value_name = "NAME")]
    pub bin_tests: Vec<String>,
    /// Build only this integration test (repeatable)
    #[arg(long, value_name = "NAME")]
    pub test: Vec<String>,
    /// Build only this bench (repeatable)
    #[arg(long, value_name = "NAME")]
    pub bench: Vec<String>,
    /// Build all benches
    #[arg(long, conflicts_with = "bench")]
    pub benches: bool,
    /// Build every target with tests, also those without a selected test
    #[arg(long)]
    pub all_tests: bool,
    /// Pass a setting to cargo (repeatable); for one side: new:KEY=VALUE
    #[arg(long, value_name = "[SIDE:]KEY=VALUE|PATH")]
    pub config: Vec<String>,
    /// Path to the Cargo.toml of the package or workspace
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub manifest_path: Option<Utf8PathBuf>,
    /// Build every ref with this rustup toolchain: nightly, 1.85.0; for one side: new:1.85.0
    #[arg(long, value_name = "[SIDE:]NAME")]
    pub toolchain: Vec<String>,
    /// Number of parallel build jobs [default: that of --jobs, else cargo's]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=MOST_JOBS), help_heading = Section::Run.heading())]
    pub build_jobs: Option<u32>,
}

impl CargoArguments {
    /// Whether a program is named.
    pub fn names_program(&self) -> bool {
        !self.bin.is_empty() || !self.example.is_empty()
    }

    /// Returns the number of build jobs, beside the flags of keys.
    pub fn jobs(&self, settings: &Matrix) -> Option<u32> {
        self.build_jobs.or(match settings.jobs {
            Some(Scalar(Jobs::Number(number))) => Some(number),
            Some(Scalar(Jobs::Auto | Jobs::Exact)) | None => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargo_gets_the_number_unless_it_has_its_own() {
        let jobs = |jobs: Option<Jobs>, build_jobs| {
            let settings = Matrix { jobs: jobs.map(Scalar), ..Matrix::default() };
            CargoArguments { build_jobs, ..CargoArguments::default() }.jobs(&settings)
        };
        assert_eq!(jobs(Some(Jobs::Number(3)), None), Some(3));
        assert_eq!(jobs(Some(Jobs::Number(3)), Some(2)), Some(2));
        assert_eq!(jobs(Some(Jobs::Auto), None), None);
        assert_eq!(jobs(None, None), None);
    }
}
