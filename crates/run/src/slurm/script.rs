//! The batch script, which runs one shard in each task of the array. Pure.

use std::ffi::OsStr;

use camino::Utf8Path;

use memprof_support::process::shell_quoted;

/// What the script does with the values at its top.
const TASK: &str = include_str!("task.sh");

/// What the script is about.
#[derive(Clone, Copy, Debug)]
pub struct Script<'a> {
    /// This program, at a path that the nodes see.
    pub tool: &'a Utf8Path,
    /// The archive, at a path that the nodes see.
    pub archive: &'a Utf8Path,
    /// The run's folder, absolute.
    pub run: &'a Utf8Path,
    /// The number of shards.
    pub shards: u32,
    /// More flags for `run --archive`.
    pub flags: &'a [String],
}

/// The line of the script that begins with the flags.
const FLAGS: &str = "\nflags=(";

impl Script<'_> {
    /// Returns the text of an earlier script with these paths in it. Its flags stay; `None` if it has none.
    pub fn with_flags_of(&self, earlier: &str) -> Option<String> {
        let text = self.text();
        let ((paths, _), (_, flags)) = (text.split_once(FLAGS)?, earlier.split_once(FLAGS)?);
        Some(format!("{paths}{FLAGS}{flags}"))
    }

    /// Returns the script's text.
    pub fn text(&self) -> String {
        let quoted = |text: &str| shell_quoted(OsStr::new(text));
        let flags: Vec<String> = self.flags.iter().map(|flag| quoted(flag)).collect();
        format!(
            "#!/bin/bash\n\
             # Runs one shard of a comparison in each task of a job array. `cargo memprof submit` wrote it.\n\
             tool={}\n\
             archive={}\n\
             run={}\n\
             shards={}\n\
             flags=({})\n\n{TASK}",
            quoted(self.tool.as_str()),
            quoted(self.archive.as_str()),
            quoted(self.run.as_str()),
            self.shards,
            flags.join(" "),
        )
    }
}

#[cfg(test)]
mod tests {
    use camino::Utf8PathBuf;

    use super::*;
    use memprof_support::process::Command;

    /// Runs the script as Slurm would, with a tool that prints its arguments and exits as told.
    fn run(folder: &Utf8Path, tool: &str, job: &str, restart: Option<&str>) -> (i32, String) {
        let shell = Command::new("bash")
            .env("SLURM_ARRAY_JOB_ID", job)
            .env("TMPDIR", folder)
            .env_remove("SLURM_TMPDIR")
            .env_remove("SLURM_RESTART_COUNT")
            .envs(restart.map(|restart| ("SLURM_RESTART_COUNT", restart)));
        let (code, printed, stderr) = in_shell(folder, tool, shell);
        assert_eq!(stderr, "");
        (code, printed)
    }

    /// Runs the script in a shell. Returns its exit code and what it printed.
    fn in_shell(folder: &Utf8Path, tool: &str, shell: Command) -> (i32, String, String) {
        let tool_path = folder.join("a tool's $name");
        // Written by a child: a program that this process has open for writing cannot start.
        let write = Command::new("sh").args(["-c", "cat >\"$0\" && chmod 755 \"$0\"", tool_path.as_str()]);
        write.input(format!("#!/bin/bash\n{tool}\n")).run().unwrap();
        let flags = ["--threshold".to_owned(), "heap.peak=5%,test='a b'".to_owned()];
        let (archive, run) = (folder.join("it's \"both\".tar.zst"), folder.join("my run"));
        fs_err::create_dir_all(&run).unwrap();
        let script = Script { tool: &tool_path, archive: &archive, run: &run, shards: 8, flags: &flags };
        let captured = shell.input(script.text()).env("SLURM_ARRAY_TASK_ID", "3").capture().unwrap();
        let stderr = String::from_utf8_lossy(&captured.stderr).into_owned();
        (captured.status.code().unwrap(), captured.text(), stderr)
    }

    fn folder() -> (tempfile::TempDir, Utf8PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = Utf8PathBuf::from_path_buf(folder.path().to_owned()).unwrap();
        (folder, path)
    }

    #[test]
    fn a_task_runs_its_shard_whatever_is_in_the_paths() {
        let (_home, folder) = folder();
        let (code, printed) = run(&folder, "printf '<%s>' \"$@\"; ls \"$CARGO_MEMPROF_HOME\"", "4711", None);
        let archive = folder.join("it's \"both\".tar.zst");
        assert_eq!(code, 0);
        assert_eq!(
            printed.lines().nth(1).unwrap(),
            format!(
                "<run><--archive><{archive}><--shard><3/8><--run-folder><shards/3/4711-0>\
                 <--threshold><heap.peak=5%,test='a b'>"
            )
        );
        let left = folder.read_dir_utf8().unwrap().map(|entry| entry.unwrap().file_name().to_owned());
        let mut left: Vec<String> = left.collect();
        left.sort();
        assert_eq!(left, ["a tool's $name", "my run"], "the node's disk is as it was");
    }

    #[test]
    fn temporary_files_are_where_the_archive_is_if_the_node_lacks_their_folder() {
        let (_home, folder) = folder();
        for (given, expected) in [("missing", ""), ("my run", "my run")] {
            let shell = Command::new("bash")
                .env("SLURM_ARRAY_JOB_ID", "1")
                .env("SLURM_TMPDIR", &folder)
                .env("TMPDIR", folder.join(given))
                .env_remove("SLURM_RESTART_COUNT");
            let (code, printed, stderr) = in_shell(&folder, "echo \"$TMPDIR\"", shell);
            assert_eq!((code, stderr.as_str()), (0, ""), "{printed}");
            let expected = folder.join(expected);
            assert_eq!(printed.lines().nth(1), Some(expected.as_str().trim_end_matches('/')), "{printed}");
        }
    }

    #[test]
    fn a_verdict_is_no_failure_of_the_task_and_every_other_code_is() {
        let (_home, folder) = folder();
        let codes = [0, 1, 3, 4, 101, 130].map(|code| run(&folder, &format!("exit {code}"), "1", None).0);
        assert_eq!(codes, [0, 0, 0, 0, 101, 130]);
    }

    #[test]
    fn a_later_attempt_continues_a_copy_of_the_newest() {
        let (_home, folder) = folder();
        let made = folder.join("my run/shards/3/4711-0");
        fs_err::create_dir_all(&made).unwrap();
        fs_err::write(made.join("plan.json"), "first").unwrap();
        let (code, printed) = run(&folder, "echo \"$*\"", "4711", Some("1"));
        assert_eq!(code, 0);
        assert!(printed.contains("--run-folder shards/3/4711-1 --resume --threshold"), "{printed}");
        let second = folder.join("my run/shards/3/4711-1/plan.json");
        assert_eq!(fs_err::read_to_string(&second).unwrap(), "first");
        let refused = "echo \"$*\"; case $* in *--resume*) exit 2 ;; esac";
        let (code, printed) = run(&folder, refused, "4800", None);
        let lines: Vec<&str> = printed.lines().skip(1).collect();
        assert_eq!(code, 0);
        assert!(lines[0].contains("shards/3/4800-0 --resume"), "{printed}");
        assert!(lines[1].contains("--shard 3/8 --run-folder shards/3/4800-0"), "{printed}");
        assert!(!folder.join("my run/shards/3/4800-0").exists(), "what cannot be continued is removed");
        assert!(second.exists() && made.join("plan.json").exists(), "earlier attempts stay");
    }

    /// Returns a shell with these mounts of its own; `None` if this user cannot mount anything.
    #[expect(clippy::print_stderr, reason = "a skipped test says why")]
    fn with_mounts(mounts: &str) -> Option<Command> {
        let start = |shell: &str| {
            let script = format!("{mounts} && exec {shell}");
            Command::new("unshare").args(["--map-root-user", "--mount", "sh", "-c", &script])
        };
        if let Err(error) = start("true").run() {
            eprintln!("skipped: this user cannot mount a folder: {error}");
            return None;
        }
        Some(start("bash").env("SLURM_ARRAY_JOB_ID", "1").env_remove("SLURM_RESTART_COUNT"))
    }

    #[test]
    fn the_archive_is_unpacked_where_programs_start() {
        let (_home, folder) = folder();
        let disk = folder.join("noexec");
        fs_err::create_dir(&disk).unwrap();
        let Some(shell) = with_mounts(&format!("mount -t tmpfs -o noexec none {disk}")) else { return };
        let shell = shell.env("SLURM_TMPDIR", &disk).env("TMPDIR", &folder);
        let tool = "echo \"$CARGO_MEMPROF_HOME\"; ls -A \"$CARGO_MEMPROF_HOME\" \"$SLURM_TMPDIR\"";
        let (code, printed, stderr) = in_shell(&folder, tool, shell);
        assert_eq!((code, stderr.as_str()), (0, ""), "{printed}");
        let lines: Vec<&str> = printed.lines().skip(1).collect();
        assert!(lines[0].starts_with(folder.join("cargo-memprof-").as_str()), "{printed}");
        let both_empty = [&format!("{}:", lines[0]), "", &format!("{disk}:")];
        assert_eq!(lines[1..], both_empty, "{printed}");
    }

    #[test]
    fn a_node_where_no_program_starts_says_which_disks_were_tried() {
        let (_home, folder) = folder();
        let mounts = "mount --bind /tmp /tmp && mount -o remount,bind,noexec /tmp";
        let Some(shell) = with_mounts(mounts) else { return };
        let shell = shell.env("SLURM_TMPDIR", folder.join("none")).env("TMPDIR", "/proc");
        let (code, printed, stderr) = in_shell(&folder, "exit 0", shell);
        assert_eq!(code, 1, "{printed}");
        let tried = format!("SLURM_TMPDIR ('{folder}/none'), TMPDIR ('/proc') and /tmp are missing");
        assert!(stderr.contains(&tried) && stderr.contains("set TMPDIR"), "{stderr}");
    }
}
