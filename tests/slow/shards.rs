//! Parts of a comparison that run on their own, and the one run that `merge` makes of them.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::support::{Printed, TestRepository, every_byte, home, tool};

/// A repository with tests of which two keep more in the new revision, and folders for shards.
struct Sharded {
    repository: TestRepository,
    home: TempDir,
}

const TESTS: [(&str, u32, u32); 5] =
    [("alpha", 100, 100), ("beta", 200, 900), ("gamma", 300, 300), ("delta", 400, 400), ("epsilon", 50, 500)];

impl Sharded {
    fn new() -> Self {
        let mut repository = TestRepository::new();
        repository
            .write("Cargo.toml", "[package]\nname = \"parts\"\nversion = \"0.1.0\"\nedition = \"2021\"\n");
        repository.write("Cargo.lock", "version = 3\n\n[[package]]\nname = \"parts\"\nversion = \"0.1.0\"\n");
        repository.write(".gitignore", "/target\n");
        repository.write("src/lib.rs", "");
        for (tag, is_new) in [("old", false), ("new", true)] {
            let tests = TESTS.map(|(name, old, new)| {
                let bytes = if is_new { new } else { old } * 1000;
                format!("#[test]\nfn {name}() {{ std::hint::black_box(vec![1_u8; {bytes}]); }}\n")
            });
            repository.write("tests/memory.rs", tests.concat());
            repository.commit(tag);
            repository.git(["tag", tag]);
        }
        Self { repository, home: home() }
    }

    fn run(&self, arguments: &[&str]) -> Printed {
        let mut command = tool();
        command.current_dir(self.repository.root()).env("CARGO_MEMPROF_HOME", self.home.path());
        command.arg("memprof").args(arguments);
        Printed::of(command)
    }

    fn archive(&self) -> PathBuf {
        let archive = self.repository.beside("both.tar.zst");
        let file = archive.to_str().expect("text");
        let built = self.run(&[
            "build",
            "old",
            "new",
            "--test",
            "memory",
            "--repeat",
            "2",
            "--offline",
            "--archive",
            file,
        ]);
        assert_eq!(built.code, 0, "{}", built.everything());
        archive
    }

    /// Runs one shard of an archive in a folder of its own.
    #[track_caller]
    fn shard(&self, archive: &Path, shard: &str) -> String {
        let folder = self.repository.beside(&format!("shard-{}", shard.replace('/', "-of-")));
        let (archive, folder) = (archive.to_str().expect("text"), folder.to_str().expect("text").to_owned());
        let printed = self.run(&["run", "--archive", archive, "--shard", shard, "--run-folder", &folder]);
        assert!([0, 1].contains(&printed.code), "{}", printed.everything());
        assert!(printed.stdout.contains(&format!("this is shard {shard}")), "{}", printed.everything());
        folder
    }
}

/// The rows of a CSV that must not differ by a byte: revision, test, repeat, outcome, checkpoint, and live bytes of the
/// heap. The harness allocates by what it finds in the environment, so the rows are those of differences within a test.
pub fn exact(csv: &str) -> Vec<String> {
    let mut reader = csv::Reader::from_reader(csv.as_bytes());
    let rows = reader.records().map(|row| row.expect("the report is CSV"));
    let exact = rows.filter(|row| &row[10] == "heap.live");
    exact.map(|row| [0, 2, 5, 6, 8, 9, 10].map(|column| row[column].to_owned()).join(" ")).collect()
}

/// The peak of a test in a revision, in the kilobytes that it keeps.
fn peak(csv: &str, revision: &str, test: &str) -> i64 {
    let mut reader = csv::Reader::from_reader(csv.as_bytes());
    let rows = reader.records().map(|row| row.expect("the report is CSV"));
    let peaks = rows.filter(|row| &row[10] == "heap.peak" && &row[0] == revision && row[2].contains(test));
    peaks.map(|row| row[12].parse::<i64>().expect("bytes") / 1000).max().expect("a peak")
}

#[test]
fn merged_shards_are_the_run_that_was_not_divided() {
    let sharded = Sharded::new();
    let archive = sharded.archive();
    let folders = ["1/3", "2/3", "3/3"].map(|shard| sharded.shard(&archive, shard));
    let before: Vec<_> = folders.iter().map(|folder| every_byte(Path::new(folder), |_| false)).collect();
    let [one, two, three] = [0, 1, 2].map(|index: usize| folders[index].as_str());
    let merged = sharded.run(&["merge", three, one, two]);
    assert_eq!(merged.code, 1, "it regressed: {}", merged.everything());
    assert!(merged.stdout.contains("2 of 5 tests"), "{}", merged.everything());
    assert!(!merged.stdout.contains("this is shard"), "{}", merged.everything());
    let merged = sharded.run(&["report", "latest", "--format", "csv"]).stdout;
    let whole = sharded.run(&["run", "--archive", archive.to_str().expect("text"), "--format", "csv"]).stdout;
    assert!(exact(&merged).len() >= 10, "{merged}");
    assert_eq!(exact(&merged), exact(&whole));
    for (test, old, new) in TESTS {
        for (revision, kilobytes) in [("old", old), ("new", new)] {
            let of = |csv: &str| peak(csv, revision, test);
            let known = i64::from(kilobytes)..i64::from(kilobytes) + 60;
            assert!(
                known.contains(&of(&merged)) && known.contains(&of(&whole)),
                "{test} {revision}: {}",
                of(&merged)
            );
        }
    }
    let after: Vec<_> = folders.iter().map(|folder| every_byte(Path::new(folder), |_| false)).collect();
    assert!(before == after, "the shards stay as they were");
    // The same shard has the same tests again.
    let again = sharded.repository.beside("again");
    let again = again.to_str().expect("text");
    let arguments =
        ["run", "--archive", archive.to_str().expect("text"), "--shard", "2/3", "--run-folder", again];
    assert!([0, 1].contains(&sharded.run(&arguments).code));
    assert_eq!(sharded.run(&["merge", one, again, three]).code, 1);
}

#[test]
fn shards_that_do_not_fit_together_are_refused_with_the_reason() {
    let sharded = Sharded::new();
    let plain = |shard: &str| {
        let printed =
            sharded.run(&["old", "new", "--test", "memory", "--offline", "--shard", shard, "--why", "never"]);
        assert!([0, 1].contains(&printed.code), "{}", printed.everything());
        let latest = sharded.repository.root().join("target/memprof/latest");
        std::fs::read_link(latest).expect("a link").to_str().expect("text").to_owned()
    };
    let [one, two] = ["1/2", "2/2"].map(plain);
    let refused = |runs: &[&str], needles: &[&str]| {
        let printed = sharded.run(&[&["merge"], runs].concat());
        assert_eq!(printed.code, 2, "{}", printed.everything());
        for needle in needles {
            assert!(printed.stderr.contains(needle), "{needle}: {}", printed.everything());
        }
    };
    refused(&[&one], &["shard 2/2 is missing", "--shard 2/2"]);
    refused(&[&one, &two, &one], &["are both shard 1/2"]);
    let third = plain("3/3");
    refused(&[&one, &two, &third], &["is shard 1/2", "is shard 3/3"]);
    let merged = sharded.run(&["merge", &one, &two]);
    assert_eq!(merged.code, 1, "{}", merged.everything());
    let latest = sharded.repository.root().join("target/memprof/latest");
    let whole = std::fs::read_link(latest).expect("a link").to_str().expect("text").to_owned();
    refused(&[&whole, &one], &["is a whole run, not a shard"]);
    // Another metric on request is another plan.
    let other = sharded.run(&[
        "old",
        "new",
        "--test",
        "memory",
        "--offline",
        "--shard",
        "2/2",
        "--why",
        "never",
        "--repeat",
        "3",
    ]);
    assert!([0, 1].contains(&other.code), "{}", other.everything());
    refused(&[&one, "latest"], &["have different plans", "request.repeat"]);
    // One revision of a test, and then all of a shard's tests, were not copied.
    let cells = sharded.repository.root().join("target/memprof").join(&two).join("cells");
    let first =
        std::fs::read_dir(&cells).expect("it is there").next().expect("a revision").expect("a folder");
    std::fs::remove_dir_all(first.path()).expect("it was there");
    refused(&[&one, &two], &["files of a run are missing", &two, "of its"]);
    std::fs::remove_dir_all(cells).expect("it was there");
    refused(&[&one, &two], &["has 0 of its", "files of a run are missing"]);
    let mistake = sharded.run(&["old", "new", "--shard", "3/2"]);
    assert!(mistake.code == 2 && mistake.stderr.contains("write 1/4"), "{}", mistake.everything());
}

#[test]
fn an_unfinished_shard_and_an_empty_one() {
    let sharded = Sharded::new();
    let archive = sharded.archive();
    // Six shards for five tests: the last has none.
    let folders = ["1/6", "2/6", "3/6", "4/6", "5/6", "6/6"].map(|shard| sharded.shard(&archive, shard));
    let runs: Vec<&str> = folders.iter().map(String::as_str).collect();
    let merged = sharded.run(&[&["merge"], &runs[..]].concat());
    assert_eq!(merged.code, 1, "{}", merged.everything());
    // A shard is not continued on a machine whose figures cannot be compared.
    let facts = Path::new(&folders[2]).join("environment.json");
    let text = std::fs::read(&facts).expect("it is there");
    let mut other: serde_json::Value = serde_json::from_slice(&text).expect("JSON");
    other.as_object_mut().expect("facts").remove("blake3");
    other["kernel"] = "5.0 of another machine".into();
    other["cpus"] = 1000.into();
    std::fs::write(&facts, other.to_string()).expect("written");
    let file = archive.to_str().expect("text");
    let resume = ["run", "--archive", file, "--run-folder", &folders[2], "--resume"];
    let refused = sharded.run(&resume);
    assert_eq!(refused.code, 2, "{}", refused.everything());
    let reason = "began on a machine or with settings whose figures cannot be compared: \
                  the kernels differ: 5.0 of another machine";
    assert!(refused.stderr.contains(reason), "{}", refused.everything());
    assert!(refused.stderr.contains("; the numbers of processors: 1000 / "), "{}", refused.everything());
    std::fs::write(&facts, text).expect("written");
    assert!([0, 1].contains(&sharded.run(&resume).code), "here, it is");
    let record = Path::new(&folders[3]).join("shard.json");
    let text = std::fs::read_to_string(&record).expect("text");
    let json = "{".to_owned() + text.split_once("\",").expect("a hash").1;
    let unfinished = json.replacen("\"outcomes\": ", "\"outcomes\": null, \"was\": ", 1);
    std::fs::write(&record, unfinished).expect("written");
    let refused = sharded.run(&[&["merge"], &runs[..]].concat());
    assert_eq!(refused.code, 2, "{}", refused.everything());
    assert!(refused.stderr.contains("shard 4/6, is not finished"), "{}", refused.everything());
    assert!(refused.stderr.contains("--resume"), "{}", refused.everything());
}
