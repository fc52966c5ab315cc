//! `bisect` and `history` on small repositories: the commit that is known to have made the difference is found, whatever else
//! lies in the range.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::{Printed, TestRepository, assert_same_bytes, every_byte, home_at, tool};
use serde_json::Value;

/// A repository of a crate whose one test keeps so many kilobytes, commit by commit.
struct Kept {
    repository: TestRepository,
    commits: usize,
}

/// What a commit does to the test.
enum Does {
    Keep(usize),
    /// It keeps them, and the code does not compile.
    Break(usize),
    /// There is no test.
    Lack,
    /// The test keeps them and fails.
    Fail(usize),
    /// Nothing to the test, something to another file.
    Other,
}

use Does::{Break, Fail, Keep, Lack, Other};

impl Kept {
    fn new() -> Self {
        let repository = TestRepository::new();
        repository
            .write("Cargo.toml", "[package]\nname = \"kept\"\nversion = \"0.1.0\"\nedition = \"2021\"\n");
        repository.write("Cargo.lock", "version = 3\n\n[[package]]\nname = \"kept\"\nversion = \"0.1.0\"\n");
        repository.write(".gitignore", "/target\n");
        Self { repository, commits: 0 }
    }

    /// With these commits, each with a tag: `c0`, `c1`, …
    fn of(commits: &[Does]) -> Self {
        let mut kept = Self::new();
        for does in commits {
            kept.commit(does);
        }
        kept
    }

    fn commit(&mut self, does: &Does) {
        let number = self.commits;
        let (kilobytes, rest) = match does {
            Keep(kilobytes) => (*kilobytes, ""),
            Break(kilobytes) => (*kilobytes, "compile_error!(\"broken\");"),
            Fail(kilobytes) => (*kilobytes, "#[test]\nfn never() {}"),
            Lack | Other => (0, ""),
        };
        let end = if matches!(does, Fail(_)) { "panic!(\"no such luck\");" } else { "" };
        match does {
            Other => self.repository.write("notes.txt", format!("{number}\n")),
            Lack => self.repository.write("src/lib.rs", format!("// {number}\n#[test]\nfn other() {{}}\n")),
            _ => self.repository.write(
                "src/lib.rs",
                format!(
                    "// {number}\npub fn kept() -> Vec<u8> {{ vec![1; {kilobytes} * 1000] }}\n#[test]\nfn keeps() {{ \
                     std::mem::forget(kept()); {end} }}\n{rest}\n"
                ),
            ),
        }
        self.repository.commit(&format!("change {number}"));
        self.repository.git(["tag", &format!("c{number}")]);
        self.commits += 1;
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = tool();
        command
            .current_dir(self.repository.root())
            .env("CARGO_MEMPROF_HOME", home_at(self.repository.beside("cache")))
            // Call sites have lines.
            .env_remove("CARGO_PROFILE_DEV_DEBUG");
        command.arg("memprof").args(arguments);
        command
    }

    fn run(&self, arguments: &[&str]) -> Printed {
        Printed::of(self.command(arguments))
    }

    /// `bisect` between two tags, as JSON.
    fn bisect(&self, good: &str, bad: &str, arguments: &[&str]) -> Report {
        let common = ["bisect", "--good", good, "--bad", bad, "--offline", "--format", "json"];
        // Paths come last.
        let split = arguments.iter().position(|word| *word == "--").unwrap_or(arguments.len());
        let selection: &[&str] = if arguments.contains(&"-k") { &[] } else { &["-k", "keeps"] };
        let all = [&common[..], selection, &arguments[..split], &arguments[split..]].concat();
        self.report(&all)
    }

    fn report(&self, arguments: &[&str]) -> Report {
        let printed = self.run(arguments);
        let json = serde_json::from_str(&printed.stdout)
            .unwrap_or_else(|error| panic!("{error} in {}", printed.everything()));
        Report { json, printed, tags: self.tags() }
    }

    fn tags(&self) -> Vec<(String, String)> {
        let names = self.repository.git(["tag"]);
        let hash = |name: &str| self.repository.git(["rev-parse", &format!("{name}^{{commit}}")]);
        names.lines().map(|name| (name.to_owned(), hash(name))).collect()
    }
}

struct Report {
    json: Value,
    printed: Printed,
    tags: Vec<(String, String)>,
}

impl Report {
    fn tag(&self, hash: &Value) -> String {
        let tag = self.tags.iter().find(|(_, commit)| hash == commit);
        tag.unwrap_or_else(|| panic!("no tag is at {hash}")).0.clone()
    }

    /// The tags of what was found: `c3 → c4`.
    fn steps(&self) -> Vec<String> {
        let steps = self.json["steps"].as_array().expect("steps").iter();
        steps
            .map(|step| format!("{} → {}", self.tag(&step["before"]["commit"]), self.tag(&step["commit"])))
            .collect()
    }

    /// The tags of what was measured, with why it was skipped.
    fn measured(&self) -> Vec<(String, Option<&str>)> {
        let measured = self.json["measured"].as_array().expect("a list").iter();
        measured.map(|one| (self.tag(&one["commit"]), one["skipped"].as_str())).collect()
    }

    fn reason(&self, tag: &str) -> &str {
        let measured = self.measured();
        let found = measured.iter().find(|(name, _)| name == tag);
        found
            .and_then(|(_, reason)| *reason)
            .unwrap_or_else(|| panic!("{tag} was not skipped: {}", self.json))
    }
}

/// A difference in thousands of bytes. The test harness itself keeps 144 bytes in one run and not in another.
fn assert_kilobytes(difference: &Value, kilobytes: i64) {
    let bytes = difference.as_i64().unwrap_or_else(|| panic!("{difference} is no number"));
    assert!((bytes - kilobytes * 1000).abs() < 500, "{bytes} bytes, not {kilobytes} kB");
}

#[test]
fn each_way_to_search_finds_its_commit_among_several_steps() {
    let sizes = [100, 100, 100, 200, 200, 200, 900, 900, 900, 600, 600, 600];
    let kept = Kept::of(&sizes.map(Keep));
    let largest = kept.bisect("c0", "c11", &[]);
    assert_eq!(largest.steps(), ["c5 → c6"], "{}", largest.printed.everything());
    assert_eq!(largest.printed.code, 0);
    let step = &largest.json["steps"][0];
    assert_kilobytes(&step["difference"], 700);
    assert_eq!(step["subject"], "change 6");
    assert_eq!(step["files"], serde_json::json!(["src/lib.rs"]));
    // All metrics of the two commits are there.
    let rows = step["comparison"]["rows"].as_array().expect("rows");
    assert!(rows.iter().any(|row| row["metric"] == "heap.live" && row["checkpoint"] == "done"), "{rows:?}");
    assert!(rows.iter().any(|row| row["metric"] == "cpu.peak"));
    assert_eq!(kept.bisect("c0", "c11", &["--find", "first"]).steps(), ["c2 → c3"]);
    let all = kept.bisect("c0", "c11", &["--find", "all"]);
    assert_eq!(all.steps(), ["c2 → c3", "c5 → c6", "c8 → c9"]);
    assert_kilobytes(&all.json["steps"][2]["difference"], -300);
    // What one search has built the next finds in the store.
    assert_eq!(kept.bisect("c0", "c11", &[]).json["effort"]["built"], 0);
}

#[test]
fn a_shrinkage_is_found_as_a_growth_is() {
    let kept = Kept::of(&[900, 900, 880, 300, 300, 290].map(Keep));
    let report = kept.bisect("c0", "c5", &[]);
    assert_eq!(report.steps(), ["c2 → c3"]);
    assert_kilobytes(&report.json["steps"][0]["difference"], -580);
    assert_eq!(
        kept.bisect("c0", "c5", &["--metric", "heap.live", "--checkpoint", "done"]).steps(),
        ["c2 → c3"]
    );
}

#[test]
fn commits_that_cannot_be_measured_are_skipped_and_never_bad() {
    let kept = Kept::of(&[
        Keep(100),
        Break(100),
        Keep(100),
        Lack,
        Keep(100),
        Fail(900),
        Keep(100),
        Keep(900),
        Break(900),
        Keep(900),
    ]);
    for find in ["largest", "first", "all"] {
        let report = kept.bisect("c0", "c9", &["--find", find]);
        assert_eq!(report.steps(), ["c6 → c7"], "{find}: {}", report.printed.everything());
        assert_eq!(report.printed.code, 0);
    }
    let history = kept.report(&["history", "c0..c9", "-k", "keeps", "--offline", "--format", "json"]);
    assert_eq!(history.printed.code, 3, "{}", history.printed.everything());
    assert_eq!(history.reason("c1"), "does not build: error: broken");
    assert_eq!(history.reason("c3"), "it has no such test");
    assert!(history.reason("c5").starts_with("failed (exit code 101)"), "{}", history.reason("c5"));
    assert_eq!(history.steps(), ["c6 → c7"], "c7 is compared with the last commit that was measured");
}

#[test]
fn where_only_skipped_commits_remain_their_range_is_named() {
    let kept = Kept::of(&[Keep(100), Keep(100), Break(100), Lack, Fail(900), Keep(900), Keep(900)]);
    let report = kept.bisect("c0", "c6", &[]);
    assert_eq!(report.steps(), ["c1 → c5"]);
    assert_eq!(report.printed.code, 3);
    let step = &report.json["steps"][0];
    assert_eq!(step["kind"], "skipped");
    let candidates: Vec<String> =
        step["candidates"].as_array().expect("a list").iter().map(|one| report.tag(&one["commit"])).collect();
    assert_eq!(candidates, ["c2", "c3", "c4", "c5"]);
    let shown = kept.run(&["report"]);
    assert!(shown.stdout.contains("One of 4 commits after"), "{}", shown.everything());
    assert!(shown.stdout.contains("(it has no such test)"), "{}", shown.everything());
    assert_eq!(shown.code, 3);
}

/// `c0 ─ c1 ─ c2 ──── c5 ─ c6`, and `c1 ─ c3 ─ c4` merged by `c5`; `c4` grows.
fn with_a_branch() -> Kept {
    let mut kept = Kept::of(&[Keep(100), Keep(101), Other]);
    kept.repository.git(["switch", "--quiet", "--create", "branch", "c1"]);
    kept.commit(&Keep(102));
    kept.commit(&Keep(800));
    kept.repository.git(["switch", "--quiet", "main"]);
    kept.repository.git(["merge", "--quiet", "--no-ff", "--message", "merge the branch", "branch"]);
    kept.repository.git(["tag", "c5"]);
    kept.commits = 6;
    kept.commit(&Keep(801));
    kept
}

#[test]
fn the_commit_of_a_branch_is_found_through_its_merge() {
    let kept = with_a_branch();
    for find in ["largest", "first", "all"] {
        assert_eq!(kept.bisect("c0", "c6", &["--find", find]).steps(), ["c3 → c4"], "{find}");
    }
    let merge = kept.bisect("c0", "c6", &["--first-parent"]);
    assert_eq!(merge.steps(), ["c2 → c5"]);
    assert_eq!(merge.json["steps"][0]["parents"].as_array().expect("parents").len(), 2);
    let shown = kept.run(&["report"]);
    assert!(shown.stdout.contains("a merge of "), "{}", shown.everything());
    let history = kept.report(&["history", "c0..c6", "-k", "keeps", "--offline", "--format", "json"]);
    assert_eq!(history.steps(), ["c3 → c4"], "the merge has what its branch brought");
    assert_eq!(history.measured().len(), 7);
    let trunk =
        kept.report(&["history", "c0..c6", "--first-parent", "-k", "keeps", "--offline", "--format", "json"]);
    assert_eq!((trunk.measured().len(), trunk.steps()), (5, vec!["c2 → c5".to_owned()]));
}

#[test]
fn only_commits_that_touch_the_paths_are_measured_and_others_are_not_covered_up() {
    let kept = Kept::of(&[Keep(100), Other, Other, Keep(100), Other, Keep(900), Other, Other, Other]);
    let report = kept.bisect("c0", "c8", &["--", "src"]);
    assert_eq!(report.steps(), ["c4 → c5"], "{}", report.printed.everything());
    assert!(!report.measured().iter().any(|(tag, _)| ["c1", "c2", "c6", "c7"].contains(&tag.as_str())));
    let elsewhere = kept.bisect("c0", "c8", &["--", "notes.txt"]);
    assert_eq!(elsewhere.json["steps"][0]["kind"], "outside_paths", "{}", elsewhere.printed.everything());
    assert_eq!((elsewhere.steps(), elsewhere.printed.code), (vec!["c4 → c5".to_owned()], 3));
    let nowhere = kept.run(&["bisect", "--good", "c0", "--bad", "c8", "-k", "keeps", "--", "nosuch"]);
    assert_eq!(nowhere.code, 2);
    assert!(nowhere.stderr.contains("touches nosuch"), "{}", nowhere.everything());
}

#[test]
fn ends_that_do_not_differ_are_said_not_to_and_nothing_is_searched() {
    let kept = Kept::of(&[Keep(100), Keep(900), Keep(100), Keep(100)]);
    let report = kept.bisect("c0", "c3", &[]);
    assert_eq!((report.printed.code, report.measured().len()), (5, 2), "{}", report.printed.everything());
    assert_eq!(report.json["result"], "same");
    assert_eq!(kept.bisect("c0", "c1", &["--threshold", "1MiB"]).printed.code, 5);
    assert_eq!(kept.bisect("c0", "c1", &["--threshold", "heap.peak=20%,100KiB"]).printed.code, 0);
}

#[test]
fn a_noisy_figure_is_run_more_often_until_it_is_clear() {
    let mut kept = Kept::new();
    for kilobytes in [400, 400, 400, 400, 400, 600, 600, 600, 600] {
        let number = kept.commits;
        // Each run of any commit keeps something else, by the length of a file that each run makes longer.
        kept.repository.write(
            "src/lib.rs",
            format!(
                "// {number}\n#[test]\nfn keeps() {{\n    use std::io::Write;\n    let path = std::env::var(\"COUNTER\").unwrap();\n    \
                 let mut file = std::fs::OpenOptions::new().append(true).create(true).open(&path).unwrap();\n    \
                 let run = file.metadata().unwrap().len() as usize;\n    file.write_all(b\".\").unwrap();\n    \
                 let jitter = (run * run * 7919 + run * 104_729) % 37 + if run % 11 == 5 {{ 300 }} else {{ 0 }};\n    \
                 std::mem::forget(vec![1_u8; ({kilobytes} + jitter) * 1000]);\n}}\n"
            ),
        );
        kept.repository.commit(&format!("change {number}"));
        kept.repository.git(["tag", &format!("c{number}")]);
        kept.commits += 1;
    }
    let counter = kept.repository.beside("counter");
    let env = format!("COUNTER={}", counter.display());
    for find in ["largest", "first"] {
        let report = kept.bisect("c0", "c8", &["--env", &env, "--find", find]);
        assert_eq!(report.steps(), ["c4 → c5"], "{find}: {}", report.printed.everything());
        let runs: Vec<usize> = report.json["measured"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|one| one["samples"].as_array().expect("samples").len())
            .collect();
        assert!(
            runs.iter().all(|runs| (1..=10).contains(runs)) && runs.iter().any(|runs| *runs >= 5),
            "{runs:?}"
        );
    }
    // What the noise covers is not made up.
    let lost = kept.bisect("c0", "c8", &["--env", &env, "--threshold", "48%"]);
    assert_eq!(lost.printed.code, 4, "{}", lost.printed.everything());
}

/// The lines of a file, sorted; a test appends its commit's number at each run.
fn runs_noted(path: &Path) -> Vec<String> {
    let mut lines: Vec<String> =
        std::fs::read_to_string(path).unwrap_or_default().lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

#[test]
fn a_search_that_was_killed_goes_on_and_measures_nothing_twice() {
    let mut kept = Kept::new();
    for kilobytes in [100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 900, 900, 900] {
        let number = kept.commits;
        kept.repository.write(
            "src/lib.rs",
            format!(
                "#[test]\nfn keeps() {{\n    use std::io::Write;\n    let path = std::env::var(\"NOTES\").unwrap();\n    let mut file = \
                 std::fs::OpenOptions::new().append(true).create(true).open(path).unwrap();\n    \
                 file.write_all(b\"{number}\\n\").unwrap();\n    std::mem::forget(vec![1_u8; {kilobytes} * 1000]);\n}}\n"
            ),
        );
        kept.repository.commit(&format!("change {number}"));
        kept.repository.git(["tag", &format!("c{number}")]);
        kept.commits += 1;
    }
    let skip = |path: &Path| {
        ["target", ".git/worktrees", ".git/objects", ".git/refs/memprof"]
            .iter()
            .any(|own| path.starts_with(own))
    };
    let before = every_byte(kept.repository.root(), skip);
    let notes = kept.repository.beside("notes");
    let env = format!("NOTES={}", notes.display());
    let arguments = [
        "bisect",
        "--good",
        "c0",
        "--bad",
        "c16",
        "-k",
        "keeps",
        "--offline",
        "--env",
        &env,
        "--find=first",
        "--repeat=3",
    ];
    let mut child = kept
        .command(&arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program starts");
    let begun = Instant::now();
    // The ends run three times each; then comes the first run of another commit.
    while runs_noted(&notes).len() < 7 {
        assert!(child.try_wait().expect("a child").is_none(), "it ended too early");
        assert!(begun.elapsed() < Duration::from_mins(5), "it takes too long");
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill().expect("it was running");
    child.wait().expect("it was running");
    let at_kill = runs_noted(&notes).len();
    let unfinished = kept.run(&["report"]);
    assert!(
        unfinished.stderr.contains("to continue it: cargo memprof bisect --resume"),
        "{}",
        unfinished.everything()
    );
    let refused = kept.run(&["run", "--resume"]);
    assert!(refused.code == 2 && refused.stderr.contains("is a bisect"), "{}", refused.everything());

    // Twice, because the first refusal must not count as the search's own builds.
    for _ in 0..2 {
        let mut other = kept.command(&["bisect", "--resume"]);
        other.env("CARGO_PROFILE_DEV_OPT_LEVEL", "1");
        let other = Printed::of(other);
        assert!(
            other.code == 2 && other.stderr.contains("has finished runs of another build than it gets now"),
            "{}",
            other.everything()
        );
    }

    let report = kept.report(&["bisect", "--resume", "--format", "json"]);
    assert_eq!(report.steps(), ["c13 → c14"], "{}", report.printed.everything());
    assert!(report.printed.stderr.contains("were measured before"), "{}", report.printed.everything());
    let runs = report.json["effort"]["runs"].as_u64().expect("a number");
    let lines = runs_noted(&notes);
    let noted_at_end = lines.len();
    assert!(noted_at_end > at_kill);
    let often = |number: &String| lines.iter().filter(|other| *other == number).count() >= 3;
    assert!(
        lines.iter().all(often),
        "the commit that was running is measured as often as the others: {lines:?}"
    );
    // The one that was running when the search was killed may have come to its end unseen.
    assert!((runs..=runs + 1).contains(&(noted_at_end as u64)), "{noted_at_end} runs, {runs} are reported");
    // Once more, there is nothing left to do.
    let again = kept.report(&["bisect", "--resume", "--format", "json"]);
    assert_eq!(again.steps(), report.steps());
    assert_eq!(runs_noted(&notes).len(), noted_at_end);
    assert_same_bytes(&before, &every_byte(kept.repository.root(), skip));
}

#[test]
fn mistakes_are_told_before_anything_is_built() {
    let kept = with_a_branch();
    let user_error = |arguments: &[&str]| {
        let printed = kept.run(&[&["bisect", "-k", "keeps", "--offline"], arguments].concat());
        assert_eq!(printed.code, 2, "{}", printed.everything());
        assert!(!printed.stderr.contains("Built"), "{}", printed.everything());
        printed.stderr
    };
    assert!(user_error(&["--good", "c6", "--bad", "c0"]).contains("swap them: c0..c6"));
    assert!(user_error(&["--good", "c2", "--bad", "c4"]).contains("their histories fork at"));
    assert!(user_error(&["--good", "c2", "--bad", "c2"]).contains("the same commit"));
    assert!(user_error(&["--good", "c0", "--bad", "nosuch"]).contains("no ref 'nosuch'"));
    assert!(
        user_error(&["--good", "c0", "--bad", "c6", "--threshold", "cpu.peak=5%"])
            .contains("--metric is heap.peak")
    );
    assert!(
        user_error(&["--good", "c0", "--bad", "c6", "--threshold", "5ms"]).contains("does not fit heap.peak")
    );
    assert!(user_error(&["--resume"]).contains("as it was planned, without --filter"));
    let none = kept.run(&["bisect", "--resume"]);
    assert!(none.code == 2 && none.stderr.contains("no bisect to continue"), "{}", none.everything());
    let range = kept.run(&["history", "c0", "-k", "keeps"]);
    assert!(range.code == 2 && range.stderr.contains("FROM..TO"), "{}", range.everything());
}

#[test]
fn an_end_that_cannot_be_measured_is_named_with_the_reason() {
    let kept = Kept::of(&[Break(100), Keep(100), Fail(100), Lack, Keep(900)]);
    let end = |good: &str, bad: &str, arguments: &[&str]| {
        let all = [&["bisect", "--good", good, "--bad", bad, "--offline"], arguments].concat();
        let printed = kept.run(&all);
        (printed.code, printed.stderr)
    };
    let keeps = ["-k", "keeps"];
    let (code, broken) = end("c0", "c4", &keeps);
    assert!(
        code == 3 && broken.contains("c0 (") && broken.contains("it does not build: error: broken"),
        "{broken}"
    );
    let (code, failing) = end("c2", "c4", &keeps);
    assert!(code == 3 && failing.contains("no such luck"), "{failing}");
    let (code, lacking) = end("c3", "c4", &[]);
    assert!(code == 2 && lacking.contains("no test in common") && lacking.contains("--overlay"), "{lacking}");
    let (code, checkpoint) = end("c1", "c4", &["-k", "keeps", "--checkpoint", "dome"]);
    assert!(code == 2 && checkpoint.contains("did you mean 'done'?"), "{checkpoint}");
    let (code, several) = end("c2", "c2~1", &[]);
    assert!(code == 2 && !several.is_empty());
}

#[test]
fn a_history_is_a_chart_and_a_table_and_csv() {
    let kept = Kept::of(&[100, 100, 400, 400, 400, 900, 900].map(Keep));
    let table = kept.run(&["history", "c0..", "-k", "keeps", "--offline"]);
    assert_eq!(table.code, 0, "{}", table.everything());
    let chart: Vec<&str> = table.stdout.lines().filter(|line| line.contains('┤')).collect();
    assert_eq!(chart.len(), 8, "{}", table.stdout);
    assert!(chart[7].ends_with("┤▇▇▇▇██████████") || chart[7].ends_with("██████████"), "{}", table.stdout);
    assert_eq!(table.stdout.matches('▲').count(), 2, "{}", table.stdout);
    let csv = kept.run(&["report", "--format", "csv"]);
    let mut reader = csv::Reader::from_reader(csv.stdout.as_bytes());
    let headings = reader.headers().expect("headings").clone();
    let column = |name: &str| headings.iter().position(|heading| heading == name).expect("a column");
    let (step, value) = (column("step"), column("value"));
    let rows: Vec<csv::StringRecord> = reader.records().map(|row| row.expect("a row")).collect();
    assert_eq!(
        rows.iter().map(|row| &row[step] == "true").collect::<Vec<_>>(),
        [false, false, true, false, false, true, false]
    );
    assert!(rows[6][value].parse::<u64>().expect("bytes") >= 900_000);
    assert_eq!(&rows[6][column("name")], "keeps");

    let json = |arguments: &[&str]| {
        kept.report(&[&["history", "-k", "keeps", "--offline", "--format", "json"], arguments].concat())
    };
    let some = json(&["c0..c6", "--at-most", "3"]);
    assert_eq!(some.measured().iter().map(|(tag, _)| tag.as_str()).collect::<Vec<_>>(), ["c0", "c3", "c6"]);
    assert_eq!(some.steps(), ["c0 → c3", "c3 → c6"]);
    kept.repository.git(["tag", "--delete", "c3"]);
    assert_eq!(json(&["c0..c6", "--tags", "--every", "3"]).measured().len(), 3);
    let ascii = kept.command(&["report"]).env("LC_ALL", "C").output().expect("the program starts");
    let ascii = String::from_utf8_lossy(&ascii.stdout);
    assert!(ascii.contains(" | ") && ascii.contains("##") && !ascii.contains(['┤', '█']), "{ascii}");
}

#[test]
fn a_search_is_shown_again_in_every_format() {
    let kept = Kept::of(&[100, 100, 900, 900].map(Keep));
    let comment = kept.repository.beside("comment.md");
    let output = comment.to_str().expect("text");
    let first =
        kept.run(&["bisect", "--good", "c0", "--bad", "c3", "-k", "keeps", "--offline", "--output", output]);
    assert!(first.stdout.contains("made the largest change"), "{}", first.everything());
    assert!(first.stdout.contains("A U Thor <author@example.com>"), "{}", first.everything());
    let markdown = std::fs::read_to_string(&comment).expect("it was written");
    assert!(markdown.contains("- ") && markdown.contains("| commit | date |"), "{markdown}");
    let again = kept.run(&["report"]);
    assert_eq!(again.stdout, first.stdout);
    // The line that compares the two commits does so.
    let line = first
        .stdout
        .lines()
        .find_map(|line| line.strip_prefix("compare the two commits: cargo "))
        .expect("a line");
    let words: Vec<&str> = line.split(' ').skip(1).collect();
    let compared = kept.run(&words);
    assert!(compared.stdout.contains("heap.peak"), "{}", compared.everything());
    assert_eq!(compared.code, 1, "it regressed: {}", compared.everything());
}

#[test]
fn the_plan_is_printed_and_nothing_is_done() {
    let kept = with_a_branch();
    let printed = kept.run(&["bisect", "--good", "c0", "--bad", "c6", "-k", "keeps", "--dry-run"]);
    let plan: Value = serde_json::from_str(&printed.stdout).expect("JSON");
    assert_eq!(plan["plan"]["revisions"].as_array().expect("commits").len(), 7);
    assert_eq!(plan["search"]["metric"], "heap.peak");
    assert!(!kept.repository.root().join("target").exists());
}

#[test]
fn the_commit_that_is_found_is_explained_once() {
    let kept = Kept::of(&[Keep(100), Other, Keep(900), Other]);
    let report = kept.bisect("c0", "c3", &["--why=changed", "--metric", "heap.live"]);
    assert_eq!(report.steps(), ["c1 → c2"], "{}", report.printed.everything());
    let explained = |report: &Report| {
        let why = &report.json["steps"][0]["comparison"]["why"];
        let row = &why["rows"][0];
        assert_eq!(row["metric"], "heap.live", "{why:#}");
        for side in ["baseline", "candidate"] {
            assert_eq!(row[side]["agreement"], "equal", "{row:#}");
        }
        let group = &row["groups"][0];
        assert_eq!(group["difference"], 800_000, "{row:#}");
        assert_eq!(group["location"], "src/lib.rs:2", "{row:#}");
        assert_eq!(group["class"]["kind"], "changed", "{row:#}");
    };
    explained(&report);
    let logs = || {
        let files = walkdir::WalkDir::new(kept.repository.root().join("target/memprof/latest/steps"));
        let logs = files.into_iter().filter_map(Result::ok).filter(|entry| entry.file_name() == "log.jsonl");
        let time = |log: &walkdir::DirEntry| log.metadata().expect("it is there").modified().expect("a time");
        logs.map(|log| (log.path().to_owned(), time(&log))).collect::<Vec<_>>()
    };
    let before = logs();
    assert_eq!(before.len(), 2, "{before:?}");
    explained(&kept.report(&["bisect", "--resume", "--format", "json", "--why=changed"]));
    assert_eq!(logs(), before, "nothing runs again");

    let shown = |arguments: &[&str]| kept.run(&[&["report"], arguments].concat()).stdout;
    let table = shown(&[]);
    assert!(table.lines().any(|line| line.contains(" ▲ src/lib.rs:2 ")), "{table}");
    assert!(shown(&["--format", "markdown"]).contains("src/lib.rs:2"));
    let by_crate = shown(&["--why-by", "crate", "--format", "json"]);
    assert!(by_crate.contains("\"by\": \"crate\""), "{by_crate}");
    let plain = shown(&["--why", "never", "--format", "json"]);
    assert!(!plain.contains("\"why\""), "{plain}");

    let without = kept.bisect("c0", "c3", &["--why", "never", "--metric", "heap.live"]);
    assert_eq!(without.steps(), report.steps());
    assert_eq!(logs(), [], "call stacks were not wanted");
}
