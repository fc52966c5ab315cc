//! The commands that meet faults, and what they must have made in the end.

use std::cell::OnceCell;
use std::path::{Path, PathBuf};

use serde_json::json;

use super::laboratory::{COMPARE, Ended, Laboratory, remove, remove_file};

/// A command, and how to know that nothing is missing.
pub struct Work<'a> {
    pub laboratory: &'a Laboratory,
    pub name: &'static str,
    pub arguments: Vec<String>,
    /// What continues it. If this fails, the command is given once more.
    pub resumed: Vec<String>,
    /// Before each time.
    pub prepare: Box<dyn Fn() + 'a>,
    /// Whether the command made all that it should.
    pub is_whole: Box<dyn Fn(&Ended) -> bool + 'a>,
    /// A file that is either what it was before or what it should become, and what it should become.
    pub output: Option<(PathBuf, OnceCell<Vec<u8>>)>,
}

/// What an output holds before the command.
const EARLIER: &[u8] = b"an earlier report\n";

/// Runs an archive's shards at once, in the place of a cluster.
const SBATCH: &str = r#"#!/bin/sh
for argument in "$@"; do
    case $argument in --array=*) array=${argument#--array=} ;; --chdir=*) folder=${argument#--chdir=} ;; esac
    script=$argument
done
id=$(cat "$0.id" 2>/dev/null || echo 1)
echo $((id + 1)) >"$0.id"
cd "$folder" || exit 1
for range in $(echo "$array" | tr , ' '); do
    for task in $(seq "${range%-*}" "${range#*-}"); do
        SLURM_ARRAY_JOB_ID=$id SLURM_ARRAY_TASK_ID=$task NOTING bash "$script" >/dev/null 2>&1
    done
done
echo "$id"
"#;

/// Everything has ended when it is asked.
const NOTHING: &str = "#!/bin/sh\nexit 0\n";

const METRICS: &str = "heap.live,heap.peak";

fn owned(arguments: &[&str]) -> Vec<String> {
    arguments.iter().map(|argument| (*argument).to_owned()).collect()
}

fn text(path: &Path) -> String {
    path.to_str().expect("the path is text").to_owned()
}

impl<'a> Work<'a> {
    /// A command that prints the same each time. It is run once, and again for what it prints.
    fn repeatable(
        laboratory: &'a Laboratory,
        name: &'static str,
        arguments: &[&str],
        resumed: &[&str],
        prepare: Box<dyn Fn() + 'a>,
    ) -> Self {
        prepare();
        laboratory.run(arguments);
        prepare();
        let expected = laboratory.run(arguments);
        assert_eq!(expected.code, Some(0), "{name}: {}", expected.everything());
        let is_whole = move |ended: &Ended| ended.code == Some(0) && ended.stdout == expected.stdout;
        let is_whole = Box::new(is_whole);
        let (arguments, resumed) = (owned(arguments), owned(resumed));
        Self { laboratory, name, arguments, resumed, prepare, is_whole, output: None }
    }

    /// Adds a file that the command replaces.
    fn replaces(self, output: &Path) -> Self {
        let expected = OnceCell::from(std::fs::read(output).expect("the command made it"));
        let (prepare, path) = (self.prepare, output.to_owned());
        let prepare = Box::new(move || {
            prepare();
            std::fs::write(&path, EARLIER).expect("the folder is there");
        });
        Self { prepare, output: Some((output.to_owned(), expected)), ..self }
    }

    /// What is wrong with the output, if the command should have made it or may not have.
    pub fn damage(&self, is_made: bool) -> Option<String> {
        let (path, expected) = self.output.as_ref()?;
        let found = std::fs::read(path).unwrap_or_default();
        let is_right = found == *expected.get().expect("set") || (!is_made && found == EARLIER);
        (!is_right).then(|| format!("the output is neither whole nor as before: {} bytes", found.len()))
    }

    pub fn compare(laboratory: &'a Laboratory) -> Self {
        Self {
            laboratory,
            name: "compare",
            arguments: owned(&COMPARE),
            resumed: owned(&["--resume", "--metrics", METRICS]),
            prepare: Box::new(|| laboratory.forget_runs()),
            is_whole: Box::new(|ended| ended.code == Some(0) && ended.stdout == laboratory.table),
            output: None,
        }
    }

    pub fn compare_from_sources(laboratory: &'a Laboratory) -> Self {
        let prepare = Box::new(|| {
            laboratory.forget_runs();
            laboratory.forget_builds();
        });
        Self { name: "compare, from the sources", prepare, ..Self::compare(laboratory) }
    }

    pub fn make_archive(laboratory: &'a Laboratory) -> Self {
        let file = laboratory.output("made.tar.zst");
        let make = ["build", "--refs", "old,new", "--offline", "--repeat", "1", "--archive", &*text(&file)];
        let prepare = Box::new(move || remove_file(&file));
        let work = Self::repeatable(laboratory, "build --archive", &make, &make, prepare);
        Self { is_whole: Box::new(|ended| ended.code == Some(0)), ..work }
    }

    pub fn run_archive(laboratory: &'a Laboratory) -> Self {
        let (archive, folder) = (laboratory.archive(), laboratory.output("archive-run"));
        let (archive, run) = (text(&archive), text(&folder));
        let run = ["run", "--archive", &archive, "--run-folder", &run, "--metrics", METRICS];
        let resumed = [&run[..], &["--resume"]].concat();
        let prepare = Box::new(move || remove(&folder));
        Self::repeatable(laboratory, "run --archive", &run, &resumed, prepare)
    }

    pub fn clean(laboratory: &'a Laboratory) -> Self {
        Self {
            laboratory,
            name: "clean",
            arguments: owned(&["clean", "--yes"]),
            resumed: owned(&["clean", "--yes"]),
            prepare: Box::new(|| {
                let built = laboratory.run(&COMPARE);
                assert_eq!(
                    (built.code, &built.stdout),
                    (Some(0), &laboratory.table),
                    "{}",
                    built.everything()
                );
            }),
            is_whole: Box::new(|_| !laboratory.runs().exists()),
            output: None,
        }
    }

    pub fn notebook(laboratory: &'a Laboratory) -> Self {
        let git = format!(
            "#!/bin/sh\n{} exec \"$(PATH=${{PATH#*:}} command -v git)\" \"$@\"\n",
            laboratory.noting()
        );
        laboratory.program("git", &git);
        let (file, copy) = (laboratory.output("rows.ipynb"), laboratory.output("copy.ipynb"));
        let cell = |id: &str, source: &str| json!({"cell_type": "code", "execution_count": null, "id": id, "metadata": {}, "outputs": [], "source": source});
        let cells = [cell("a", "let kept = vec![1_u8; 1000];"), cell("b", "let more = vec![1_u8; 50_000];")];
        let notebook = json!({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5});
        std::fs::write(&file, notebook.to_string()).expect("the folder is there");
        let (file, write) = (text(&file), format!("--write={}", copy.display()));
        let shown = ["--compact", "--metrics", "heap.live"];
        let measure = [&["notebook", &file, "--offline", "--repeat", "1", &write], &shown[..]].concat();
        let programs = laboratory.beside("home-notebooks");
        let prepare = Box::new(move || {
            for program in std::fs::read_dir(&programs).into_iter().flatten().flatten() {
                remove(&program.path().join("target/memprof"));
            }
        });
        let work = Self::repeatable(laboratory, "notebook", &measure, &measure, prepare);
        // The stored report has the time of each cell.
        let is_report = |path: &Path| std::fs::read_to_string(path).is_ok_and(|text| is_with_reports(&text));
        let is_printed = work.is_whole;
        let path = copy.clone();
        let is_whole = Box::new(move |ended: &Ended| is_printed(ended) && is_report(&path));
        Self { is_whole, ..work }
    }

    pub fn merge(laboratory: &'a Laboratory) -> Self {
        let archive = text(&laboratory.archive());
        let shards = ["1/2", "2/2"].map(|shard| {
            let folder = laboratory.output(&format!("shard-{}", &shard[..1]));
            let arguments = ["run", "--archive", &archive, "--shard", shard, "--run-folder", &*text(&folder)];
            let ended = laboratory.run(&arguments);
            assert_eq!(ended.code, Some(0), "{}", ended.everything());
            text(&folder)
        });
        let folder = laboratory.output("merged");
        let into = text(&folder);
        let merge = ["merge", &shards[0], &shards[1], "--run-folder", &into, "--metrics", METRICS];
        // The run may be whole, and only its report not.
        let report = ["report", &into, "--metrics", METRICS];
        Self::repeatable(laboratory, "merge", &merge, &report, Box::new(move || remove(&folder)))
    }

    pub fn submit(laboratory: &'a Laboratory) -> Self {
        laboratory.program("sbatch", &SBATCH.replace("NOTING", &laboratory.noting()));
        laboratory.program("squeue", NOTHING);
        laboratory.program("sacct", NOTHING);
        laboratory.program("scancel", NOTHING);
        let (archive, folder) = (text(&laboratory.archive()), laboratory.output("job"));
        let run = text(&folder);
        let of_all = ["--every", "200ms", "--metrics", METRICS];
        let first = ["submit", "--slurm", "--archive", &archive, "--shards", "2", "--run-folder", &run];
        let first = [&first[..], &of_all].concat();
        let resumed = [&["submit", "--resume", &run], &of_all[..]].concat();
        Self::repeatable(laboratory, "submit", &first, &resumed, Box::new(move || remove(&folder)))
    }

    pub fn page(laboratory: &'a Laboratory) -> Self {
        let page = laboratory.output("page.html");
        let write = ["report", "--format", "html", "--output", &*text(&page)];
        Self::repeatable(laboratory, "page", &write, &write, Box::new(|| {})).replaces(&page)
    }
}

/// Whether each code cell of a notebook has a report.
fn is_with_reports(text: &str) -> bool {
    let Ok(notebook) = serde_json::from_str::<serde_json::Value>(text) else { return false };
    let has_report = |cell: &serde_json::Value| {
        let outputs = cell["outputs"].as_array().into_iter().flatten();
        outputs.filter(|output| output["metadata"].get("memprof").is_some()).count() == 1
    };
    notebook["cells"].as_array().is_some_and(|cells| cells.iter().all(has_report))
}
