//! What `prove` finds in 30 pull requests whose costs are known, with call sites alone beside it. At least 90 % of
//! the bytes on the right part, none on a wrong one, and at most 8 builds in the median.
//!
//! A pull request has 3 to 12 hunks. One or two of them cost memory; in half, by code that they do not touch. Some
//! have a hash map, an update in the lock file, or two peaks. What each part costs is also measured by a plain
//! comparison with the pull request that was written without it.
//!
//! `cargo bench --bench proofs [-- FIRST..LAST]`

#![expect(clippy::cast_precision_loss, reason = "figures of a few megabytes")]

mod commands;
mod registry;
mod shop;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use commands::{clean, run};
use registry::publish;
use shop::{COSTLY, Costly, Files, MAP, NEUTRAL, PEAKS, UPDATE};

/// How many pull requests there are.
const REQUESTS: usize = 30;

/// A pull request.
struct Request {
    costly: Vec<Costly>,
    files: Files,
    /// The same without each costly change.
    without: Vec<Files>,
    hunks: usize,
}

/// What a report says of a pull request, in bytes.
#[derive(Default)]
struct Score {
    whole: i64,
    right: i64,
    wrong: i64,
    /// What no part explains.
    left: i64,
    /// Parts whose figure is not that of the plain comparison.
    unequal: usize,
    builds: u64,
    checks: u64,
    seconds: f64,
    sites_right: i64,
    sites_wrong: i64,
}

/// Small random numbers that are the same each time.
struct Random(u64);

impl Random {
    fn below(&mut self, count: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % count
    }

    fn shuffled<T: Copy>(&mut self, all: &[T]) -> Vec<T> {
        let mut left = all.to_vec();
        let mut shuffled = Vec::new();
        while !left.is_empty() {
            shuffled.push(left.remove(self.below(left.len())));
        }
        shuffled
    }
}

#[expect(clippy::print_stdout, reason = "a bench prints")]
fn main() {
    let range = std::env::args().skip(1).find_map(|argument| {
        let (first, last) = argument.split_once("..")?;
        Some(first.parse::<usize>().ok()?..last.parse::<usize>().ok()?)
    });
    let folder = tempfile::tempdir().unwrap();
    let place = Place::new(folder.path());
    println!(
        "{:>2}  {:<22} {:>5} {:>9} {:>6} {:>6} {:>6} {:>7} {:>6} {:>6} {:>7}  call sites alone: right, wrong",
        "", "costly", "hunks", "bytes", "right", "wrong", "left", "unequal", "builds", "checks", "seconds"
    );
    let mut scores = Vec::new();
    for number in range.unwrap_or(0..REQUESTS) {
        let request = request(number, &place.locks);
        let score = place.score(number, &request);
        let names: Vec<&str> = request.costly.iter().map(|costly| costly.name).collect();
        println!(
            "{number:>2}  {:<22} {:>5} {:>9} {:>6} {:>6} {:>6} {:>7} {:>6} {:>6} {:>7.1}  {:>6} {:>6}",
            names.join(" + "),
            request.hunks,
            score.whole,
            percent(score.right, score.whole),
            percent(score.wrong, score.whole),
            percent(score.left, score.whole),
            score.unequal,
            score.builds,
            score.checks,
            score.seconds,
            percent(score.sites_right, score.whole),
            percent(score.sites_wrong, score.whole),
        );
        scores.push(score);
    }
    let sum = |of: fn(&Score) -> i64| scores.iter().map(of).sum::<i64>();
    let median = |mut all: Vec<f64>| {
        all.sort_by(f64::total_cmp);
        all[all.len() / 2]
    };
    let share = |of: fn(&Score) -> i64| {
        let shares = scores.iter().map(|score| of(score) as f64 / score.whole as f64 * 100.0);
        shares.sum::<f64>() / scores.len() as f64
    };
    println!(
        "\nbytes on the right part: {} of all, {:.1} % of a pull request on average (goal: 90 %)",
        percent(sum(|one| one.right), sum(|one| one.whole)),
        share(|one| one.right)
    );
    println!("bytes on a wrong part: {} (goal: none)", sum(|one| one.wrong));
    println!(
        "figures that differ from a plain comparison: {}",
        scores.iter().map(|one| one.unequal).sum::<usize>()
    );
    println!(
        "builds: {} in the median (goal: at most 8)",
        median(scores.iter().map(|one| one.builds as f64).collect())
    );
    println!("seconds: {:.1} in the median", median(scores.iter().map(|one| one.seconds).collect()));
    println!(
        "call sites alone: {:.1} % right, {:.1} % wrong",
        share(|one| one.sites_right),
        share(|one| one.sites_wrong)
    );
}

fn percent(part: i64, whole: i64) -> String {
    format!("{:.0} %", part as f64 / whole as f64 * 100.0)
}

/// The lock files with the old and with the new version of the dependency.
struct Locks {
    old: String,
    new: String,
}

/// Returns a pull request. Its number decides everything.
fn request(number: usize, locks: &Locks) -> Request {
    let mut random = Random(number as u64 * 977 + 11);
    let is_single = number.is_multiple_of(2);
    let is_indirect = (number / 2).is_multiple_of(2);
    let mut costly = match number % 10 {
        3 => vec![MAP],
        6 => vec![UPDATE],
        9 => PEAKS.to_vec(),
        _ => {
            let of_kind: Vec<Costly> =
                COSTLY.into_iter().filter(|one| one.is_indirect == is_indirect).collect();
            vec![of_kind[random.below(of_kind.len())]]
        }
    };
    if !is_single && costly.len() < 2 {
        let others: Vec<Costly> = COSTLY.into_iter().filter(|one| *one != costly[0]).collect();
        costly.push(others[random.below(others.len())]);
    }
    let most = 3 + random.below(10);
    let mut hunks = costly.iter().map(|one| one.edits.len()).sum::<usize>();
    let mut chosen = Vec::new();
    let mut files = shop::base(&locks.old);
    for edits in random.shuffled(&NEUTRAL) {
        // Two may change one line.
        if hunks + edits.len() <= most && shop::apply(&mut files.clone(), edits) {
            shop::apply(&mut files, edits);
            hunks += edits.len();
            chosen.push(edits);
        }
    }
    let composed = |left_out: Option<&Costly>| {
        let mut files = shop::base(&locks.old);
        for edits in &chosen {
            assert!(shop::apply(&mut files, edits));
        }
        for one in costly.iter().filter(|one| Some(*one) != left_out) {
            assert!(shop::apply(&mut files, one.edits), "{number}: {}", one.name);
            if *one == UPDATE {
                files.insert("Cargo.lock".to_owned(), locks.new.clone());
            }
        }
        files
    };
    let without = costly.iter().map(|one| composed(Some(one))).collect();
    Request { files: composed(None), without, hunks, costly }
}

/// Where the pull requests are.
struct Place {
    root: PathBuf,
    repository: PathBuf,
    locks: Locks,
}

impl Place {
    fn new(root: &Path) -> Self {
        let leaf = |bytes: usize| format!("pub fn leaf() -> Vec<u8> {{ vec![1; {bytes}] }}\n");
        publish(root, "leafy", "1.0.0", &leaf(1000));
        publish(root, "leafy", "1.1.0", &leaf(300_000));
        let (root, repository) = (root.to_owned(), root.join("repository"));
        let mut place = Self { root, repository, locks: Locks { old: String::new(), new: String::new() } };
        let mut files = shop::base("");
        files.remove("Cargo.lock");
        place.write(&files);
        let lock = |version: &str| {
            place.command("cargo", &["update", "--offline", "--package", "leafy", "--precise", version]);
            fs::read_to_string(place.repository.join("Cargo.lock")).unwrap()
        };
        place.command("cargo", &["generate-lockfile", "--offline"]);
        let locks = Locks { old: lock("1.0.0"), new: lock("1.1.0") };
        place.locks = locks;
        place.git(&["init", "--quiet", "--initial-branch", "main"]);
        place.commit("main", &shop::base(&place.locks.old));
        place
    }

    fn write(&self, files: &Files) {
        for (path, text) in files {
            let path = self.repository.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
    }

    /// Commits these files as a branch, whose parent is the main one.
    fn commit(&self, branch: &str, files: &Files) {
        if branch != "main" {
            self.git(&["checkout", "--quiet", "--force", "-B", branch, "main"]);
        }
        self.write(files);
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "--message", branch]);
    }

    fn git(&self, arguments: &[&str]) {
        let identity = ["-c", "user.name=bench", "-c", "user.email=bench@localhost"];
        run(Command::new("git").current_dir(&self.repository).args(identity).args(arguments));
    }

    fn command(&self, program: &str, arguments: &[&str]) -> String {
        let mut command = clean(Command::new(program));
        command.current_dir(&self.repository).env("CARGO_HOME", self.root.join("cargo-home"));
        command.env("CARGO_MEMPROF_HOME", self.root.join("home"));
        run(command.args(arguments))
    }

    /// Lets the tool write a report. What it says with its exit code does not matter.
    fn report(&self, arguments: &[&str], extension: &str) -> String {
        let file = self.root.join(format!("report.{extension}"));
        let _ = fs::remove_file(&file);
        let mut command = clean(Command::new(env!("CARGO_BIN_EXE_cargo-memprof")));
        command.current_dir(&self.repository).env("CARGO_HOME", self.root.join("cargo-home"));
        command.env("CARGO_MEMPROF_HOME", self.root.join("home")).arg("memprof").args(arguments);
        let output = command.args(["--offline", "-k", "a_day", "-o"]).arg(&file).output().unwrap();
        let text = fs::read_to_string(&file);
        text.unwrap_or_else(|_| panic!("{arguments:?}: {}", String::from_utf8_lossy(&output.stderr)))
    }

    fn score(&self, number: usize, request: &Request) -> Score {
        let branch = format!("pr{number}");
        self.commit(&branch, &request.files);
        let range = format!("main..{branch}");
        let proof = self.report(&["prove", &range, "--threshold", "4KiB"], "json");
        let mut score =
            scored(&serde_json::from_str(&proof).unwrap(), request, &self.truths(&branch, request));
        let causes =
            self.report(&["--refs", &format!("main,{branch}"), "--why", "--format", "csv=causes"], "csv");
        score_sites(&causes, request, &mut score);
        score
    }

    /// Measures by plain comparisons what leaving out each costly change saves.
    fn truths(&self, branch: &str, request: &Request) -> Vec<i64> {
        let mut refs = vec![branch.to_owned()];
        for (index, files) in request.without.iter().enumerate() {
            let name = format!("{branch}-without-{index}");
            self.commit(&name, files);
            refs.push(name);
        }
        let report = self.report(&["--refs", &refs.join(",")], "json");
        let report: Value = serde_json::from_str(&report).unwrap();
        let peak = |name: &String| {
            let rows = report["rows"].as_array().unwrap().iter();
            let rows = rows.filter(|row| row["metric"] == "heap.peak" && row["kind"] == "point");
            rows.filter_map(|row| row["values"][name]["value"].as_i64()).max().unwrap()
        };
        refs[1..].iter().map(|without| peak(&refs[0]) - peak(without)).collect()
    }
}

/// The lines of each costly change.
fn right_lines(request: &Request) -> Vec<BTreeSet<(String, usize)>> {
    request.costly.iter().map(|one| shop::lines_of(one, &request.files)).collect()
}

/// Scores a proof. What parts hold together is right if all of them are.
fn scored(proof: &Value, request: &Request, truths: &[i64]) -> Score {
    let right = right_lines(request);
    let figure = |of: &Value| of["difference"].as_i64().unwrap();
    let mut score = Score {
        whole: figure(proof),
        builds: proof["effort"]["measured"].as_u64().unwrap() + proof["effort"]["skipped"].as_u64().unwrap(),
        checks: proof["checks"].as_u64().unwrap(),
        seconds: proof["effort"]["seconds"].as_f64().unwrap(),
        ..Score::default()
    };
    let hits = |part: &Value, lines: &BTreeSet<(String, usize)>| {
        let mut hunks = part["hunks"].as_array().unwrap().iter();
        hunks.any(|hunk| {
            let line = |index: usize| usize::try_from(hunk["lines"][index].as_u64().unwrap_or(0)).unwrap();
            lines.iter().any(|(path, at)| hunk["path"] == **path && (line(0)..=line(1)).contains(at))
        })
    };
    let parts = proof["parts"].as_array().unwrap();
    let mut by_change: BTreeMap<usize, i64> = BTreeMap::new();
    let mut shared: BTreeSet<usize> = BTreeSet::new();
    let mut are_right = !parts.is_empty();
    for part in parts {
        let hit: Vec<usize> = (0..right.len()).filter(|index| hits(part, &right[*index])).collect();
        if hit.is_empty() {
            are_right = false;
            score.wrong += figure(part).abs();
        } else {
            score.right += figure(part);
        }
        match hit[..] {
            [only] => *by_change.entry(only).or_default() += figure(part),
            _ => shared.extend(hit),
        }
    }
    let together = proof["together"].as_i64().unwrap();
    if are_right && proof["without_all"]["proven"] == true {
        score.right += together;
    }
    score.left = score.whole - score.right - score.wrong;
    // A part may have several of the changes, if their lines follow each other.
    let is_apart = |index: &usize| !shared.contains(index);
    score.unequal = (0..truths.len())
        .filter(is_apart)
        .filter(|index| by_change.get(index).copied().unwrap_or_default() != truths[*index])
        .count();
    score
}

/// Scores what call sites say without a proof. A line near a costly change is right.
fn score_sites(causes: &str, request: &Request, score: &mut Score) {
    let right: BTreeSet<(String, usize)> = right_lines(request).into_iter().flatten().collect();
    let mut rows = csv::Reader::from_reader(causes.as_bytes());
    let columns: Vec<String> = rows.headers().unwrap().iter().map(str::to_owned).collect();
    for row in rows.records() {
        let row = row.unwrap();
        let cell = |name: &str| &row[columns.iter().position(|column| column == name).unwrap()];
        if cell("metric") != "heap.peak" || cell("main") != "true" {
            continue;
        }
        let line: usize = cell("line").parse().unwrap_or_default();
        let is_near = |(path, at): &(String, usize)| path == cell("path") && at.abs_diff(line) <= 2;
        let is_update = request.costly.contains(&UPDATE) && cell("text").contains("leafy");
        let bytes = cell("difference").parse::<i64>().unwrap_or_default();
        if is_update || right.iter().any(is_near) {
            score.sites_right += bytes;
        } else if !cell("path").is_empty() {
            score.sites_wrong += bytes.abs();
        }
    }
}
