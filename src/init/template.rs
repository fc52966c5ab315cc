//! The text of a first memprof.yaml, with comments. It works in the repository that it is written
//! for.

use camino::Utf8Path;

use crate::init::facts::RepositoryFacts;
use memprof_plan::expression::Expression;
use memprof_support::user_error::UserError;

/// Returns the text. It parses, and its refs exist.
pub fn text(facts: &RepositoryFacts) -> String {
    let (base, candidate) = facts.refs();
    let (base, candidate) = (quoted(&base), quoted(&candidate));
    let remote = (facts.remotes.iter())
        .find(|name| *name == "upstream")
        .or_else(|| facts.remotes.iter().find(|name| *name == "origin"))
        .or(facts.remotes.first());
    let remote_key = match remote {
        // The default is one of these already.
        Some(name) if name == "upstream" || name == "origin" => format!("# remote: {}", quoted(name)),
        Some(name) => format!("remote: {}", quoted(name)),
        None => "# remote: origin".to_owned(),
    };
    // Only a name that an expression can contain: a custom test harness allows any text as a name.
    let word = (facts.tests.iter().map(|name| name.rsplit("::").next().unwrap_or(name)))
        .find(|word| matches!(word.parse(), Ok(Expression::Name(_))))
        .unwrap_or("parser and not slow");
    let exact = facts.tests.first().map_or("tests::parses", |name| name.as_str());
    let package = facts.packages.first().map_or("my-package", |name| name.as_str());
    let packages: Vec<String> = facts.packages.iter().take(8).map(|name| quoted(name)).collect();
    let packages = if packages.is_empty() { "my-package".to_owned() } else { packages.join(", ") };
    let lockfile = if facts.has_lockfile {
        "# Lock file for revisions that have none committed: that of a ref, or one resolved as of a day."
    } else {
        "# No lock file is committed, so one is generated for all refs. To choose another one:"
    };
    filled(TEMPLATE, |place| match place {
        "base" => base.clone(),
        "candidate" => candidate.clone(),
        "remote" => remote_key.clone(),
        "word" => quoted(word),
        "exact" => quoted(exact),
        "package" => quoted(package),
        "packages" => packages.clone(),
        "lockfile" => lockfile.to_owned(),
        unknown => unreachable!("the template has an unknown place: {unknown}"),
    })
}

/// Fills the `<places>` of the template, in one pass, because a branch may be called `<base>`.
fn filled(template: &str, value: impl Fn(&str) -> String) -> String {
    let mut text = String::new();
    let mut rest = template;
    while let Some((before, behind)) = rest.split_once('<') {
        let (place, after) = behind.split_once('>').expect("each place of the template ends with `>`");
        text.push_str(before);
        text.push_str(&value(place));
        rest = after;
    }
    text + rest
}

/// Refuses to overwrite a file, except with --force.
pub fn check_free(file: &Utf8Path, exists: bool, force: bool) -> Result<(), UserError> {
    if exists && !force {
        return Err(UserError::new(format!("{file} exists already"))
            .help("to overwrite it: cargo memprof init --force"));
    }
    Ok(())
}

/// Returns the text as a YAML scalar, with quotes if YAML could read it as something else.
fn quoted(text: &str) -> String {
    let plain = text.chars().all(|character| character.is_ascii_alphanumeric() || "_-./".contains(character));
    let word = text.starts_with(|first: char| first.is_ascii_alphabetic());
    let special = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    if text == "." || (plain && word && !special.contains(&text.to_lowercase().as_str())) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', "''"))
    }
}

const TEMPLATE: &str = "\
# What `cargo memprof` compares in this repository. Flags win over this file.
# All keys: docs/matrix.md in the repository of cargo-memprof. All flags: cargo memprof --help
# For completion in editors, run `cargo memprof schema matrix > memprof.schema.json`, and add this line:
#   # yaml-language-server: $schema=memprof.schema.json

# Revisions to compare: branches, tags, commits, HEAD~3, pr/7, mr/7, or `.` for the working tree.
refs: [<base>, <candidate>]

# The baseline, by default the first ref. `merge-base` is the last common commit of the refs.
# baseline: merge-base

# Fetch pull requests from this remote, by default upstream if it exists, else origin.
<remote>

# Tests to run, by default all of them. An entry selects tests by words in package::binary::test,
# like pytest's -k.
# tests:
#   - <word>
#   - name: 'bert/{batch}'          # the name in the report
#     exact: [<exact>]
#     params: {batch: [8, 64]}      # each value is an environment variable; all combinations run
#     timeout: 10m
#     repeat: 3

# Runs per test and ref (`auto`: as many as the verdict needs), and the time limit of a run.
repeat: auto
timeout: 10m

# Cargo's build options. A release build may allocate less than a debug build.
# profile: release
# packages: [<packages>]
# features: []
# env: {RAYON_NUM_THREADS: 1}

# Copy a test that only one ref has into all of them.
# overlay: {from: <candidate>, package: <package>, paths: [tests/memory.rs]}

# How much metrics may grow. A regression exceeds both `percent` and `bytes`. Without this,
# heap.peak may grow by 0.5 % and 16KiB, and cpu.peak by 3 % and 1MiB.
# `limit` is an upper bound. `leak` is how much more a test may use at its end than at its start.
# thresholds:
#   heap.peak: {percent: 2, bytes: 64KiB}
#   gpu.*.peak: {percent: 5, bytes: 16MiB, limit: 8GiB}
#   heap.live: {leak: 64KiB}

# Expected changes, which are not regressions.
# allow:
#   - {metric: heap.peak, test: <word>, limit: 20%, until: 2030-12-31, reason: 'a larger cache'}

<lockfile>
# lockfile: {from: <base>}    # or {date: 2024-05-01}

# Metrics to show.
# metrics: [heap.peak, cpu.peak]

# Tests can assert how much memory a piece of code needs: docs/memory-tests.md. The crate for that is in
# no registry yet, so Cargo.toml names a clone of cargo-memprof below [dev-dependencies], or its URL with `git`:
# `memprof = { path = \"../cargo-memprof/crates/memprof\" }`
";

#[cfg(test)]
mod tests {
    use super::*;
    use memprof_plan::config::matrix;

    fn all_facts() -> [RepositoryFacts; 4] {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        [
            RepositoryFacts::default(),
            RepositoryFacts {
                default_branch: Some("main".into()),
                current_branch: Some("feature/kv-cache".into()),
                branches: words(&["feature/kv-cache", "main"]),
                remotes: words(&["origin", "upstream"]),
                packages: words(&["bart", "bert"]),
                tests: words(&["tests::hf_fwd"]),
                has_lockfile: true,
            },
            RepositoryFacts {
                current_branch: Some("master".into()),
                branches: words(&["master"]),
                remotes: words(&["mine"]),
                ..RepositoryFacts::default()
            },
            // Names that YAML could read as something else.
            RepositoryFacts {
                default_branch: Some("1.0".into()),
                current_branch: Some("it's #1: on".into()),
                packages: words(&["no", "2048"]),
                tests: words(&["a::{b}", "a::not"]),
                ..RepositoryFacts::default()
            },
        ]
    }

    fn parsed(text: &str) -> matrix::Matrix {
        matrix::parse(text, "memprof.yaml".into())
            .unwrap_or_else(|user_error| panic!("{}\n{text}", user_error.rendered()))
    }

    fn specs(matrix: &matrix::Matrix) -> Vec<String> {
        let refs = &matrix.refs.as_ref().expect("the file has refs").0;
        refs.iter().map(|one| one.spec.as_ref().expect("each ref has a spec").0.clone()).collect()
    }

    #[test]
    fn the_file_parses_and_compares_two_refs_that_exist() {
        let expected = [["HEAD", "."], ["main", "feature/kv-cache"], ["master", "."], ["1.0", "it's #1: on"]];
        for (facts, refs) in all_facts().iter().zip(expected) {
            assert_eq!(specs(&parsed(&text(facts))), refs);
        }
    }

    #[test]
    fn commented_out_keys_parse_too() {
        for facts in &all_facts() {
            let text = text(facts);
            // `# key: …` and the indented lines below it are YAML. Prose starts with a capital
            // letter or has no colon after a word.
            let is_yaml = |line: &str| {
                line.starts_with("#   ") && !line.contains("$schema")
                    || line.strip_prefix("# ").is_some_and(|rest| {
                        rest.split_once(':').is_some_and(|(key, _)| {
                            !key.is_empty()
                                && key.chars().all(|letter| letter.is_ascii_lowercase() || letter == '-')
                        })
                    })
            };
            let uncommented: Vec<&str> =
                text.lines().map(|line| if is_yaml(line) { &line[2..] } else { line }).collect();
            let matrix = parsed(&uncommented.join("\n"));
            assert!(matrix.tests.is_some_and(|tests| tests.0.len() == 2), "{text}");
            assert!(
                matrix.overlay.is_some() && matrix.lockfile.is_some() && matrix.metrics.is_some(),
                "{text}"
            );
        }
    }

    #[test]
    fn the_whole_text_for_a_usual_repository() {
        insta::assert_snapshot!(text(&all_facts()[1]));
    }

    #[test]
    fn an_existing_file_is_only_overwritten_with_force() {
        let check = |exists, force| check_free("memprof.yaml".into(), exists, force);
        assert!(check(false, false).is_ok() && check(true, true).is_ok());
        assert_eq!(
            check(true, false).unwrap_err().rendered(),
            "error: memprof.yaml exists already\n  help: to overwrite it: cargo memprof init --force"
        );
    }
}
