//! The allocation-heavy work that several benchmarks time, and how they time it.

use std::path::{Path, PathBuf};
use std::process::Command;

/// How the work is compiled.
#[derive(Clone, Copy)]
pub enum Profile {
    /// Optimised.
    Release,
    /// As tests are by default.
    #[allow(dead_code, reason = "not every benchmark needs it")]
    Dev,
}

/// Builds the executable that does the work under this allocator.
pub fn build(folder: &Path, allocator: &str, profile: Profile) -> PathBuf {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR"));
    fs_err::create_dir_all(folder).unwrap();
    let manifest = format!(
        "[package]\nname = \"work\"\nversion = \"0.0.0\"\nedition = \"2021\"\n\n[workspace]\n\n\
         [[bin]]\nname = \"work\"\npath = '{}'\n\n\
         [features]\nuntracked = []\nmemprof = []\ndhat = [\"dep:dhat\"]\n\
         stats_alloc = [\"dep:stats_alloc\"]\npeak_alloc = [\"dep:peak_alloc\"]\ndivan = [\"dep:divan\"]\n\n\
         [dependencies]\nserde_json = \"1\"\ndhat = {{ version = \"0.3\", optional = true }}\n\
         divan = {{ version = \"0.1\", optional = true }}\n\
         stats_alloc = {{ version = \"0.1\", optional = true }}\npeak_alloc = {{ version = \"0.3\", optional = true }}\n",
        repository.join("fixtures/bench/work.rs").display()
    );
    fs_err::write(folder.join("Cargo.toml"), manifest).unwrap();
    let mut cargo = Command::new("cargo");
    cargo.args(["rustc", "--quiet", "--bin", "work", "--features", allocator]);
    let folder_of_profile = match profile {
        Profile::Release => {
            cargo.arg("--release").env("CARGO_PROFILE_RELEASE_DEBUG", "1");
            "release"
        }
        Profile::Dev => {
            // The work's own sum may overflow.
            cargo.env("CARGO_PROFILE_DEV_OVERFLOW_CHECKS", "false");
            "debug"
        }
    };
    cargo.arg("--");
    if ["untracked", "memprof"].contains(&allocator) {
        for (name, flags) in [("memprof", &[][..]), ("memprof_heap", &["-C", "relocation-model=pie"])] {
            let library = folder.join(format!("lib{name}.rlib"));
            let mut rustc = Command::new("rustc");
            rustc.args(["--crate-name", name, "--crate-type", "rlib", "--edition", "2021"]);
            rustc.args(["-C", "opt-level=3"]).args(flags).arg("-L").arg(folder);
            output(rustc.arg("-o").arg(&library).arg(repository.join("templates").join(name).join("lib.rs")));
            cargo.arg("--extern").arg(format!("{name}={}", library.display()));
            // Cargo does not see that a library has changed. Another argument makes it compile again.
            let hash = blake3::hash(&fs_err::read(&library).unwrap()).to_hex();
            cargo.args(["--cfg", &format!("shim=\"{hash}\""), "--check-cfg", "cfg(shim, values(any()))"]);
        }
        cargo.arg("-L").arg(folder);
    }
    output(cargo.current_dir(folder));
    let executable = folder.join(format!("{allocator}-{folder_of_profile}"));
    fs_err::copy(folder.join("target").join(folder_of_profile).join("work"), &executable).unwrap();
    executable
}

/// How much longer the second command takes than the first: the median of the pairs' ratios, and
/// the ratio of the best times.
pub fn ratio(rounds: usize, first: &Command, second: &Command, arguments: &[&str]) -> String {
    let time = |command: &Command| -> f64 {
        let variables = command.get_envs().filter_map(|(name, value)| Some((name, value?)));
        let mut again = Command::new(command.get_program());
        output(again.args(arguments).envs(variables)).trim().parse().unwrap()
    };
    let mut pairs = Vec::new();
    for round in 0..rounds {
        // Each is first in every other pair.
        pairs.push(if round % 2 == 0 {
            (time(first), time(second))
        } else {
            let later = time(second);
            (time(first), later)
        });
    }
    let mut ratios: Vec<f64> = pairs.iter().map(|(first, second)| second / first).collect();
    ratios.sort_by(f64::total_cmp);
    let best = |times: &mut dyn Iterator<Item = f64>| times.fold(f64::INFINITY, f64::min);
    let (first, second) =
        (best(&mut pairs.iter().map(|pair| pair.0)), best(&mut pairs.iter().map(|pair| pair.1)));
    format!("{:.3} ({:.3})", ratios[rounds / 2], second / first)
}

/// The ratio of one run of the untracked executable under heaptrack to one without.
pub fn heaptrack(executable: &Path, folder: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new("heaptrack");
    let Ok(traced) = command.arg("-o").arg(folder.join("heaptrack")).arg(executable).args(arguments).output()
    else {
        return "not installed".into();
    };
    let alone: f64 = output(Command::new(executable).args(arguments)).trim().parse().unwrap();
    let printed = String::from_utf8_lossy(&traced.stdout).into_owned();
    let nanoseconds = printed.lines().find_map(|line| line.trim().parse::<f64>().ok());
    nanoseconds.map_or("failed".into(), |nanoseconds| format!("{:.1}", nanoseconds / alone))
}

/// Returns the output of a command that must succeed.
pub fn output(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}
