//! The files of a run, below `target/memprof/<id>/`. This module has their names; other modules
//! have their content.
//!
//! ```text
//! <id>/plan.json  environment.json  builds.json  trace.json  comparison.json  search.json  found.json
//! <id>/shard.json  kept.json  unfinished.json  finished.json
//! <id>/cells/<revision>/<cell>/<repeat>/  log.jsonl  stdout  stderr  outcome.json
//! <id>/inputs/<hash>   (the standard inputs of programs)
//! <id>/changes.json  why/tests.json  why/executables/<hash>.json  why/cells/<revision>/<cell>/0/  … symbols.json
//! <id>/steps/<before>-<commit>/  changes.json  why/ …   (of a bisect)
//! <id>/builds/<revision>.log
//! ```

use camino::{Utf8Path, Utf8PathBuf};

use memprof_plan::resolved::{CellId, Plan};

/// The folder of one run of the tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunFolder(pub Utf8PathBuf);

impl RunFolder {
    /// `plan.json`.
    pub fn plan(&self) -> Utf8PathBuf {
        self.0.join("plan.json")
    }

    /// `environment.json`.
    pub fn environment(&self) -> Utf8PathBuf {
        self.0.join("environment.json")
    }

    /// Returns `builds.json`: each revision's provenance, or why it has none.
    pub fn builds(&self) -> Utf8PathBuf {
        self.0.join("builds.json")
    }

    /// Returns `trace.json`: the functions to trace, by revision. Absent if there are none.
    pub fn trace(&self) -> Utf8PathBuf {
        self.0.join("trace.json")
    }

    /// `comparison.json`.
    pub fn comparison(&self) -> Utf8PathBuf {
        self.0.join("comparison.json")
    }

    /// Returns `unfinished.json`: how far the comparison got. Finished ones lack it.
    pub fn unfinished(&self) -> Utf8PathBuf {
        self.0.join("unfinished.json")
    }

    /// Returns `finished.json`: how many runs a finished comparison has.
    pub fn finished(&self) -> Utf8PathBuf {
        self.0.join("finished.json")
    }

    /// Returns `search.json`: the question of a `bisect` or `history`. Other runs lack it.
    pub fn search(&self) -> Utf8PathBuf {
        self.0.join("search.json")
    }

    /// Returns `found.json`: the result of a `bisect` or `history`, once it has finished.
    pub fn found(&self) -> Utf8PathBuf {
        self.0.join("found.json")
    }

    /// Returns `devices.json`: which device each test runs on, if tests are spread over several.
    pub fn devices(&self) -> Utf8PathBuf {
        self.0.join("devices.json")
    }

    /// Returns `shard.json`: which part of a comparison this is. Whole runs lack it.
    pub fn shard(&self) -> Utf8PathBuf {
        self.0.join("shard.json")
    }

    /// Returns `archive.json`: which archive this is a run of. Other runs lack it.
    pub fn origin(&self) -> Utf8PathBuf {
        self.0.join("archive.json")
    }

    /// Returns `kept.json`: which saved baseline the run is compared with. Other runs lack it.
    pub fn kept(&self) -> Utf8PathBuf {
        self.0.join("kept.json")
    }

    /// Returns `baseline.json`: the folder is a saved baseline.
    pub fn saved_baseline(&self) -> Utf8PathBuf {
        self.0.join("baseline.json")
    }

    /// Returns `provenances.json`: what is known of the builds of a saved baseline.
    pub fn provenances(&self) -> Utf8PathBuf {
        self.0.join("provenances.json")
    }

    /// Returns `report.html`: the page that `report --open` writes.
    pub fn page(&self) -> Utf8PathBuf {
        self.0.join("report.html")
    }

    /// Returns `changes.json`: the source files that differ from the baseline's.
    pub fn changes(&self) -> Utf8PathBuf {
        self.0.join("changes.json")
    }

    /// Returns the copy of a program's standard input with this hash.
    pub fn input(&self, hash: &str) -> Utf8PathBuf {
        self.0.join("inputs").join(hash)
    }

    /// Returns the folder of the runs with call stacks. It has cells of its own.
    #[must_use]
    pub fn why(&self) -> Self {
        Self(self.0.join("why"))
    }

    /// Returns the folder of [`Self::executable`].
    pub fn executables(&self) -> Utf8PathBuf {
        self.0.join("executables")
    }

    /// Returns the file with the functions of the executable with this hash.
    pub fn executable(&self, hash: &str) -> Utf8PathBuf {
        self.executables().join(format!("{hash}.json"))
    }

    /// Returns the folder of the runs that find owners. It is below that of the runs with call stacks, and goes
    /// when they are done.
    #[must_use]
    pub fn owners(&self) -> Self {
        Self(self.0.join("owners"))
    }

    /// Returns `tests.json` of the folder of the runs with call stacks: which tests these are.
    pub fn tests(&self) -> Utf8PathBuf {
        self.0.join("tests.json")
    }

    /// Returns the folder of the proof of the worst change. It is like that of `prove`.
    #[must_use]
    pub fn proof(&self) -> Self {
        Self(self.0.join("proof"))
    }

    /// Returns the folder of a step of a search, for the call sites of its two commits. Each test of
    /// the search has steps of its own.
    #[must_use]
    pub fn step(&self, before: &str, commit: &str, test: usize) -> Self {
        let of_test = if test == 0 { String::new() } else { format!("-{test}") };
        Self(self.0.join("steps").join(format!("{before}-{commit}{of_test}")))
    }

    /// Returns the folder of all cells. Each `outcome.json` below it is one finished run.
    pub fn cells(&self) -> Utf8PathBuf {
        self.0.join("cells")
    }

    /// Returns the folder of all cells of a revision.
    pub fn cells_of(&self, plan: &Plan, revision: usize) -> Utf8PathBuf {
        self.cells().join(revision_slug(plan, revision))
    }

    /// Returns the folder of one run of one cell.
    pub fn cell(&self, plan: &Plan, revision: usize, cell: &CellId, repeat: u32) -> Utf8PathBuf {
        self.cells_of(plan, revision).join(cell_slug(cell)).join(repeat.to_string())
    }

    /// Returns the file with the whole output of a revision's build.
    pub fn build_log(&self, plan: &Plan, revision: usize) -> Utf8PathBuf {
        self.0.join("builds").join(format!("{}.log", revision_slug(plan, revision)))
    }
}

/// The file names inside a run's own folder.
pub mod file {
    /// The shim's log.
    pub const LOG: &str = "log.jsonl";
    /// Where the functions of the log's call stacks are.
    pub const SYMBOLS: &str = "symbols.json";
    /// What the shim writes about that moment, until it is read.
    pub const HEAP: &str = "heap";
    /// The test's standard output.
    pub const STDOUT: &str = "stdout";
    /// The test's standard error.
    pub const STDERR: &str = "stderr";
    /// [`RunRecord`](crate::results::outcome::RunRecord); written last.
    pub const OUTCOME: &str = "outcome.json";

    /// Returns the file that says who holds the memory of the moment that is compared with a candidate. Each
    /// candidate may ask the baseline about another one.
    pub fn owners(candidate: usize) -> String {
        format!("owners-{candidate}.json")
    }
}

fn revision_slug(plan: &Plan, revision: usize) -> String {
    format!("{revision}-{}", slug(&plan.revisions[revision].name))
}

/// Returns a readable and unique folder name for a cell: its title, cut to a length that file
/// systems accept, and a hash of the cell.
fn cell_slug(cell: &CellId) -> String {
    let identity = serde_json::to_string(cell).expect("a cell id is plain data");
    let hash = blake3::hash(identity.as_bytes()).to_hex();
    let mut title = slug(&format!("{}-{}", cell.test.binary, cell.title));
    title.truncate(80);
    format!("{title}-{}", &hash[..8])
}

/// Replaces everything but letters, digits, `.`, `_` and `-` with `-`.
fn slug(text: &str) -> String {
    text.replace("::", ".")
        .chars()
        .map(
            |character| {
                if character.is_ascii_alphanumeric() || "._-".contains(character) { character } else { '-' }
            },
        )
        .collect()
}

/// Returns the folder of all runs of a workspace.
pub fn runs(target_directory: &Utf8Path) -> Utf8PathBuf {
    target_directory.join("memprof")
}
