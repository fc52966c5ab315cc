//! Cargo's command line.

use camino::Utf8Path;

use memprof_plan::request::BuildOptions;

/// Returns the arguments for `cargo` that build the tests and then run each through the runner.
///
/// This is `cargo test` and not `cargo build --tests`, because it builds `--lib` and `--bin` as
/// tests, and passes each executable to the runner with its environment. With `--no-fail-fast`, a
/// broken target does not affect the others.
pub(crate) fn test_argv(
    options: &BuildOptions,
    features: &[String],
    target_directory: &Utf8Path,
) -> Vec<String> {
    let mut argv: Vec<String> =
        ["test", "--no-fail-fast", "--message-format=json"].map(ToOwned::to_owned).to_vec();
    argv.extend(["--target-dir".to_owned(), target_directory.to_string()]);
    let mut flag = |wanted: bool, name: &str| argv.extend(wanted.then(|| name.to_owned()));
    flag(options.settings.workspace, "--workspace");
    flag(options.lib, "--lib");
    let named = [
        ("--package", &options.settings.packages),
        ("--bin", &options.bins),
        ("--test", &options.tests),
        ("--bench", &options.benches),
    ];
    for (name, values) in named {
        argv.extend(values.iter().flat_map(|value| [name.to_owned(), value.clone()]));
    }
    argv.extend(common_arguments(options, features));
    if !options.selects_targets() {
        // Without this flag, `cargo test` runs doc-tests and builds every example.
        argv.push("--tests".to_owned());
    }
    argv
}

/// Returns the arguments for `cargo` that build one program and run it through the runner, apart from
/// those that name it.
///
/// This is `cargo run` and not `cargo build`, because only it passes the program to the runner with
/// its environment.
pub(crate) fn run_argv(
    options: &BuildOptions,
    features: &[String],
    target_directory: &Utf8Path,
) -> Vec<String> {
    let argv = ["run", "--message-format=json", "--target-dir", target_directory.as_str()];
    argv.into_iter().map(str::to_owned).chain(common_arguments(options, features)).collect()
}

/// Returns the arguments for `cargo` that build the binaries and examples as `cargo test` does, with
/// the profile of the tests.
pub(crate) fn programs_argv(
    options: &BuildOptions,
    features: &[String],
    target_directory: &Utf8Path,
) -> Vec<String> {
    let argv = ["build", "--bins", "--examples", "--message-format=json"];
    let mut argv: Vec<String> = argv.map(ToOwned::to_owned).to_vec();
    argv.extend(["--target-dir".to_owned(), target_directory.to_string()]);
    argv.extend(options.settings.workspace.then(|| "--workspace".to_owned()));
    argv.extend(
        options.settings.packages.iter().flat_map(|package| ["--package".to_owned(), package.clone()]),
    );
    argv.extend(common_arguments(options, features));
    if options.profile.is_none() {
        argv.extend(["--profile", "test"].map(ToOwned::to_owned));
    }
    argv
}

/// Returns the arguments that tests and programs have in common.
fn common_arguments(options: &BuildOptions, features: &[String]) -> Vec<String> {
    let mut argv = Vec::new();
    let mut flag = |wanted: bool, name: &str| argv.extend(wanted.then(|| name.to_owned()));
    flag(options.settings.all_features, "--all-features");
    flag(options.no_default_features, "--no-default-features");
    flag(options.settings.offline, "--offline");
    flag(options.settings.locked, "--locked");
    flag(options.settings.ignore_rust_version, "--ignore-rust-version");
    argv.extend(options.config.iter().flat_map(|value| ["--config".to_owned(), value.clone()]));
    if !features.is_empty() {
        argv.extend(["--features".to_owned(), features.join(",")]);
    }
    let valued = [("--profile", &options.profile), ("--target", &options.settings.target)];
    for (name, value) in valued {
        argv.extend(value.iter().flat_map(|value| [name.to_owned(), value.clone()]));
    }
    argv.extend(options.jobs.iter().flat_map(|jobs| ["--jobs".to_owned(), jobs.to_string()]));
    argv
}

/// Returns the variable that overrides the runner of a target.
pub(crate) fn runner_variable(triple: &str) -> String {
    format!("CARGO_TARGET_{}_RUNNER", triple.to_uppercase().replace(['-', '.'], "_"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use memprof_plan::settings::BuildSettings;

    fn argv(options: &BuildOptions) -> String {
        test_argv(options, &options.features, Utf8Path::new("/t")).join(" ")
    }

    #[test]
    fn without_a_selection_every_target_with_tests_is_built_and_no_doc_test() {
        assert_eq!(
            argv(&BuildOptions::default()),
            "test --no-fail-fast --message-format=json --target-dir /t --tests"
        );
    }

    #[test]
    fn cargos_options_are_passed_through() {
        let options = BuildOptions {
            settings: BuildSettings {
                packages: vec!["a".into()],
                target: Some("t".into()),
                offline: true,
                locked: true,
                ..BuildSettings::default()
            },
            features: vec!["x".into(), "y".into()],
            profile: Some("release".into()),
            lib: true,
            tests: vec!["it".into()],
            jobs: Some(3),
            config: vec!["net.retry=1".into()],
            ..BuildOptions::default()
        };
        assert_eq!(
            argv(&options),
            "test --no-fail-fast --message-format=json --target-dir /t --lib --package a --test it --offline --locked \
             --config net.retry=1 --features x,y --profile release --target t --jobs 3"
        );
        assert_eq!(
            run_argv(&options, &options.features, Utf8Path::new("/t")).join(" "),
            "run --message-format=json --target-dir /t --offline --locked --config net.retry=1 --features x,y \
             --profile release --target t --jobs 3"
        );
        assert_eq!(
            programs_argv(&options, &options.features, Utf8Path::new("/t")).join(" "),
            "build --bins --examples --message-format=json --target-dir /t --package a --offline --locked --config \
             net.retry=1 --features x,y --profile release --target t --jobs 3"
        );
        let usual = programs_argv(&BuildOptions::default(), &[], Utf8Path::new("/t"));
        assert_eq!(usual[6..], ["--profile", "test"]);
    }
}
