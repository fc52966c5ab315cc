//! The text of a first `memprof.yaml`: commented, and working in the repository that it is written for.

use camino::Utf8Path;

use crate::plan::expression::Expression;
use crate::support::user_error::UserError;

/// What is known of the repository; whatever is not known is left empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// The branch that others are merged into: `main`, or what `origin/HEAD` says.
    pub default_branch: Option<String>,
    /// The branch that is checked out; `None` for a detached HEAD.
    pub current_branch: Option<String>,
    /// All local branches.
    pub branches: Vec<String>,
    /// The remotes.
    pub remotes: Vec<String>,
    /// The workspace's packages.
    pub packages: Vec<String>,
    /// Names of some tests, if they are known.
    pub tests: Vec<String>,
    /// Whether a lock file is committed.
    pub has_lockfile: bool,
}

impl Facts {
    /// What there is to compare: the branch against the one it will be merged into, with a pointless pair avoided.
    fn refs(&self) -> (String, String) {
        let usual = || {
            let known = |name: &&str| self.branches.iter().any(|branch| branch == name);
            ["main", "master", "trunk", "develop"].into_iter().find(known).map(str::to_owned)
        };
        let base = self.default_branch.clone().or_else(usual).or_else(|| self.current_branch.clone());
        let base = base.unwrap_or_else(|| "HEAD".to_owned());
        let other = self.current_branch.clone().filter(|current| *current != base);
        // On the default branch itself, what is not committed yet is the change.
        (base, other.unwrap_or_else(|| ".".to_owned()))
    }
}

/// The commented text. It parses, and compares something that is there.
pub fn text(facts: &Facts) -> String {
    let (base, candidate) = facts.refs();
    let (base, candidate) = (quoted(&base), quoted(&candidate));
    let remote = (facts.remotes.iter())
        .find(|name| *name == "upstream")
        .or_else(|| facts.remotes.iter().find(|name| *name == "origin"))
        .or(facts.remotes.first());
    let remote_key = match remote {
        // The default finds these by itself.
        Some(name) if name == "upstream" || name == "origin" => format!("# remote: {}", quoted(name)),
        Some(name) => format!("remote: {}", quoted(name)),
        None => "# remote: origin".to_owned(),
    };
    // Only a name that can stand in an expression: harnesses of their own take any text for one.
    let word = (facts.tests.iter().map(|name| name.rsplit("::").next().unwrap_or(name)))
        .find(|word| matches!(word.parse(), Ok(Expression::Name(_))))
        .unwrap_or("parser and not slow");
    let exact = facts.tests.first().map_or("tests::parses", |name| name.as_str());
    let package = facts.packages.first().map_or("my-package", |name| name.as_str());
    let packages: Vec<String> = facts.packages.iter().take(8).map(|name| quoted(name)).collect();
    let packages = if packages.is_empty() { "my-package".to_owned() } else { packages.join(", ") };
    let lockfile = if facts.has_lockfile {
        "# Where the lock file comes from:"
    } else {
        "# No lock file is committed, so one is generated and used for every ref. To say whose, or as of which day:"
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
        unknown => unreachable!("the template has no place {unknown}"),
    })
}

/// The template with its `<places>` filled, in one pass: a branch may well be called `<base>`.
fn filled(template: &str, value: impl Fn(&str) -> String) -> String {
    let mut text = String::new();
    let mut rest = template;
    while let Some((before, behind)) = rest.split_once('<') {
        let (place, after) = behind.split_once('>').expect("each place of the template is closed");
        text.push_str(before);
        text.push_str(&value(place));
        rest = after;
    }
    text + rest
}

/// Refuses to write over a file that is there, unless told to.
pub fn check_free(file: &Utf8Path, exists: bool, force: bool) -> Result<(), UserError> {
    if exists && !force {
        return Err(UserError::new(format!("{file} is there already")).help("--force overwrites it"));
    }
    Ok(())
}

/// The text as YAML has it: between quotes unless it is a word that nothing else can be meant by.
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
# What `cargo memprof` compares here. Flags win over this file; `cargo memprof --help` lists them.
# Completion in editors: put what `cargo memprof schema matrix` prints into a file, then
#   # yaml-language-server: $schema=memprof.schema.json
# All keys: docs/matrix.md of cargo-memprof; `cargo memprof schema matrix` for editors

# The revisions, in order: branches, tags, commits, HEAD~3, pr/7, mr/7, or `.` for the working tree.
refs: [<base>, <candidate>]

# What the others are compared with; the first ref by default. `merge-base` is where they parted.
# baseline: merge-base

# Where pull requests are fetched from; upstream if there is one, else origin.
<remote>

# The tests, by pytest's -k expressions over package::binary::test. All of them unless some are named.
# tests:
#   - <word>
#   - name: 'bert/{batch}'          # the name in the table
#     exact: [<exact>]
#     params: {batch: [8, 64]}      # each an environment variable; the cells are their product
#     timeout: 10m
#     repeat: 3

# How often each test runs (`auto`: twice, and more often where that does not tell), and for how long at most.
repeat: auto
timeout: 10m

# How to build: cargo's own options. A release build may allocate less than a debug one.
# profile: release
# packages: [<packages>]
# features: []
# env: {RAYON_NUM_THREADS: 1}

# A test that only one ref has, laid over all of them.
# overlay: {from: <candidate>, package: <package>, paths: [tests/memory.rs]}

# How much metrics may grow: a regression is what exceeds both. `limit` is an upper bound, `leak` what a test may leave behind.
thresholds:
  heap.peak: {percent: 5, bytes: 1MiB}
#   gpu.*.peak: {percent: 5, bytes: 16MiB, limit: 8GiB}
#   heap.live: {leak: 64KiB}

# Changes that are expected.
# allow:
#   - {metric: heap.peak, test: <word>, limit: 20%, until: 2030-12-31, reason: 'a larger cache'}

<lockfile>
# lockfile: {from: <base>}    # or {date: 2024-05-01}

# The metrics shown.
# metrics: [heap.peak, cpu.peak]
";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::matrix;

    fn all_facts() -> [Facts; 4] {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        [
            Facts::default(),
            Facts {
                default_branch: Some("main".into()),
                current_branch: Some("feature/kv-cache".into()),
                branches: words(&["feature/kv-cache", "main"]),
                remotes: words(&["origin", "upstream"]),
                packages: words(&["bart", "bert"]),
                tests: words(&["tests::hf_fwd"]),
                has_lockfile: true,
            },
            Facts {
                current_branch: Some("master".into()),
                branches: words(&["master"]),
                remotes: words(&["mine"]),
                ..Facts::default()
            },
            // Names that YAML would take for something else.
            Facts {
                default_branch: Some("1.0".into()),
                current_branch: Some("it's #1: on".into()),
                packages: words(&["no", "2048"]),
                tests: words(&["a::{b}", "a::not"]),
                ..Facts::default()
            },
        ]
    }

    fn parsed(text: &str) -> matrix::Matrix {
        matrix::parse(text, "memprof.yaml".into())
            .unwrap_or_else(|user_error| panic!("{}\n{text}", user_error.rendered()))
    }

    fn specs(matrix: &matrix::Matrix) -> Vec<String> {
        let refs = &matrix.refs.as_ref().expect("refs are written").0;
        refs.iter().map(|one| one.spec.as_ref().expect("each has one").0.clone()).collect()
    }

    #[test]
    fn what_is_written_parses_and_compares_two_refs_that_are_there() {
        let expected = [["HEAD", "."], ["main", "feature/kv-cache"], ["master", "."], ["1.0", "it's #1: on"]];
        for (facts, refs) in all_facts().iter().zip(expected) {
            assert_eq!(specs(&parsed(&text(facts))), refs);
        }
    }

    #[test]
    fn what_is_commented_out_parses_too_once_it_is_not() {
        for facts in &all_facts() {
            let text = text(facts);
            // `# key: …` and what is indented below it is YAML; `# Prose` has a capital or no colon behind a word.
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
    fn a_file_that_is_there_stays_unless_forced() {
        let check = |exists, force| check_free("memprof.yaml".into(), exists, force);
        assert!(check(false, false).is_ok() && check(true, true).is_ok());
        assert_eq!(
            check(true, false).unwrap_err().rendered(),
            "error: memprof.yaml is there already\n  help: --force overwrites it"
        );
    }
}
