//! Where `--output` writes: files, links, devices, pipes and standard output. And what a CI runner
//! reads of it.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use memprof_judge::compare::from_results::compare;
use memprof_judge::results::outcome::Status;
use memprof_plan::rule::Judging;
use memprof_report::options::{Format, Options};

use crate::support::synthetic::{Log, Synthetic};
use crate::support::{Printed, skip, tool};

const MIB: i64 = 1 << 20;

/// A kept run of one test with a checkpoint of this label.
fn run_with(label: &str) -> Synthetic {
    let log = |figure| {
        Log::new().checkpoint("start", &[("heap.peak", 7)]).checkpoint(label, &[("heap.peak", figure)])
    };
    Synthetic::new(&["main", "pr/1"])
        .judging(Judging::default())
        .passed("t", 0, 0, &log(MIB))
        .passed("t", 0, 1, &log(MIB))
        .passed("t", 1, 0, &log(2 * MIB))
        .passed("t", 1, 1, &log(2 * MIB))
}

/// `report RUN --format … --output …` in a folder of its own.
struct Reporting {
    run: Synthetic,
    folder: tempfile::TempDir,
}

impl Reporting {
    fn new() -> Self {
        Self { run: run_with("loaded"), folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = tool();
        command.current_dir(self.folder.path()).arg("report").arg(&self.run.folder().0).args(arguments);
        command.env_remove("GITHUB_ACTIONS").env_remove("TF_BUILD");
        command
    }

    fn to(&self, file: &str) -> Printed {
        Printed::of(self.command(&["--format", "csv", "--output", file]))
    }

    /// Makes a device like `/dev/null` (3) or `/dev/full` (7). The real ones must not be at risk.
    fn device(&self, name: &str, minor: u32) -> bool {
        let path = self.path(name);
        let made = Command::new("mknod")
            .arg(&path)
            .args(["c", "1", &minor.to_string()])
            .output()
            .is_ok_and(|output| output.status.success());
        let opens = made && File::options().write(true).open(&path).is_ok();
        if !opens {
            skip("this user may not make device files");
        }
        opens
    }
}

fn is_report(text: &str) -> bool {
    text.starts_with("ref,revision,test,") && text.contains(",loaded,1,heap.peak,bytes,2097152,")
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}

/// A terminal of this many columns: what would read from it, and the terminal.
#[expect(unsafe_code, reason = "no safe function opens a pseudo-terminal")]
fn terminal(columns: u16) -> [OwnedFd; 2] {
    let (mut reader, mut terminal) = (0, 0);
    let null = std::ptr::null_mut();
    let mut size = libc::winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: the call writes two descriptors, and reads the size; null means the defaults.
    let opened =
        unsafe { libc::openpty(&raw mut reader, &raw mut terminal, null, null.cast(), &raw mut size) };
    assert_eq!(opened, 0);
    // SAFETY: both descriptors were just opened, and nothing else has them.
    unsafe { [OwnedFd::from_raw_fd(reader), OwnedFd::from_raw_fd(terminal)] }
}

#[test]
fn a_piped_report_is_as_wide_as_it_is_whatever_the_terminal_beside_it() {
    let label = "a long label ".repeat(8).trim_end().to_owned();
    let reporting = Reporting { run: run_with(&label), folder: tempfile::tempdir().unwrap() };
    let [_reader, terminal] = terminal(60);
    let mut command = reporting.command(&[]);
    command.stdin(Stdio::from(terminal.try_clone().unwrap())).stderr(Stdio::from(terminal));
    let output = command.stdout(Stdio::piped()).spawn().unwrap().wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains(&label) && !text.contains('…'), "{text}");
}

#[test]
fn a_device_is_written_to_and_stays_a_device() {
    let reporting = Reporting::new();
    if !(reporting.device("null", 3) && reporting.device("full", 7)) {
        return;
    }
    symlink("full", reporting.path("link.csv")).unwrap();
    let written = reporting.to("null");
    assert_eq!(written.code, 1, "the verdict's code\n{}", written.everything());
    for name in ["full", "link.csv"] {
        let full = reporting.to(name);
        assert_eq!(full.code, 101, "{}", full.everything());
        let said = format!("could not write {name}: No space left on device");
        assert!(full.stderr.contains(&said), "{}", full.everything());
    }
    for name in ["null", "full"] {
        let kind = std::fs::metadata(reporting.path(name)).unwrap().file_type();
        assert!(kind.is_char_device(), "{name} was replaced");
    }
    assert_eq!(std::fs::read_dir(reporting.folder.path()).unwrap().count(), 3, "nothing beside them");
}

#[test]
fn a_link_stays_a_link_even_one_that_leads_nowhere_yet() {
    let reporting = Reporting::new();
    std::fs::create_dir(reporting.path("kept")).unwrap();
    symlink("kept/report.csv", reporting.path("relative.csv")).unwrap();
    symlink("relative.csv", reporting.path("chain.csv")).unwrap();
    for name in ["relative.csv", "chain.csv"] {
        assert_eq!(reporting.to(name).code, 1);
        assert!(is_report(&read(&reporting.path("kept/report.csv"))));
        std::fs::write(reporting.path("kept/report.csv"), "old").unwrap();
        assert!(reporting.path(name).is_symlink());
    }
    let twice = Printed::of(reporting.command(&["--output", "relative.csv", "--output", "chain.csv"]));
    assert_eq!(twice.code, 2, "two names of one file\n{}", twice.everything());
}

#[test]
fn a_pipe_takes_the_report_to_its_reader() {
    let reporting = Reporting::new();
    let pipe = reporting.path("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let reader = std::thread::spawn({
        let pipe = pipe.clone();
        move || read(&pipe)
    });
    assert_eq!(reporting.to("pipe").code, 1);
    assert!(is_report(&reader.join().unwrap()));
    assert!(std::fs::metadata(&pipe).unwrap().file_type().is_fifo());
}

#[test]
fn standard_output_as_a_file_is_standard_output() {
    let reporting = Reporting::new();
    let piped = reporting.to("/dev/stdout");
    assert_eq!(piped.code, 1);
    assert!(is_report(&piped.stdout), "{}", piped.everything());

    let mut log = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .open(reporting.path("log"))
        .unwrap();
    log.write_all(b"before\n").unwrap();
    let mut command = reporting.command(&["--format", "csv", "--output", "/dev/stdout"]);
    command.stdout(log.try_clone().unwrap()).stderr(Stdio::null());
    assert_eq!(command.status().unwrap().code(), Some(1));
    log.write_all(b"after\n").unwrap();
    log.seek(SeekFrom::Start(0)).unwrap();
    let mut text = String::new();
    log.read_to_string(&mut text).unwrap();
    let report = text.strip_prefix("before\n").and_then(|text| text.strip_suffix("after\n"));
    assert!(report.is_some_and(is_report), "{text}");
}

#[test]
fn a_place_that_holds_no_file_is_refused_before_anything_runs() {
    let reporting = Reporting::new();
    std::fs::create_dir(reporting.path("folder.csv")).unwrap();
    let folder = reporting.to("folder.csv");
    assert_eq!(folder.code, 2, "{}", folder.everything());
    assert!(
        folder.stderr.contains("--output folder.csv is a folder\n  help: name a file in it"),
        "{}",
        folder.stderr
    );
    let missing = reporting.to("no/report.csv");
    assert!(
        missing.stderr.contains("there is no folder no\n  help: create it: mkdir -p no"),
        "{}",
        missing.stderr
    );

    let read_only = reporting.path("read-only");
    std::fs::create_dir(&read_only).unwrap();
    std::fs::set_permissions(&read_only, std::fs::Permissions::from_mode(0o555)).unwrap();
    if File::create(read_only.join("probe")).is_ok() {
        skip("root may write to every folder");
        return;
    }
    let refused = reporting.to("read-only/report.csv");
    assert_eq!(refused.code, 2, "{}", refused.everything());
    assert!(refused.stderr.contains("cannot be written: permission denied"), "{}", refused.stderr);
}

const COMMANDS: [&str; 3] = ["::error::planted", "##[error]planted", "##vso[task.complete]planted"];

/// What the runner of GitHub Actions or Azure Pipelines would obey in a log, except for this tool's
/// own annotations.
fn obeyed(log: &str) -> Vec<&str> {
    let is_command = |line: &&str| {
        let own = ["::error title=Memory", "::error file=src/lib.rs,line=10,title=Memory"]
            .iter()
            .any(|start| line.starts_with(start));
        !own && (line.trim_start().starts_with("::") || line.contains("##[") || line.contains("##vso["))
    };
    log.split(['\n', '\r']).filter(is_command).collect()
}

#[test]
fn no_label_and_no_message_is_a_command_to_a_ci_runner() {
    let folder = tempfile::tempdir().unwrap();
    for command in COMMANDS {
        let run = run_with(command).failed(
            "u",
            1,
            Status::Failed { exit_code: 101 },
            &format!("it broke\n{command}\r{command}"),
            None,
        );
        for format in ["table", "markdown", "csv", "json", "junit"] {
            for variable in ["GITHUB_ACTIONS", "TF_BUILD"] {
                for file in ["", "/dev/stdout"] {
                    let mut program = tool();
                    program.current_dir(folder.path()).arg("report").arg(&run.folder().0);
                    program.args(["--format", format]).env_remove("GITHUB_STEP_SUMMARY");
                    program
                        .env_remove("GITHUB_ACTIONS")
                        .env_remove("TF_BUILD")
                        .env(variable, "True".to_lowercase());
                    if !file.is_empty() {
                        program.args(["--output", file]);
                    }
                    let printed = Printed::of(program);
                    assert_eq!(printed.code, 1, "{}", printed.everything());
                    assert!(printed.stdout.contains("planted"), "still readable: {}", printed.stdout);
                    let everything = format!("{}\n{}", printed.stdout, printed.stderr);
                    assert_eq!(obeyed(&everything), [""; 0], "{format} {variable}");
                    if format == "json" {
                        let json: serde_json::Value = serde_json::from_str(&printed.stdout).unwrap();
                        assert!(json.to_string().contains(command), "data keeps its meaning");
                    }
                }
            }
        }
    }
    let run = run_with(COMMANDS[0]);
    let mut program = tool();
    program.arg("report").arg(&run.folder().0).env_remove("GITHUB_ACTIONS").env_remove("TF_BUILD");
    let elsewhere = Printed::of(program);
    assert!(elsewhere.stdout.contains(COMMANDS[0]), "elsewhere nothing changes: {}", elsewhere.stdout);
}

fn rendered(label: &str, format: Format) -> String {
    let run = run_with(label);
    let mut text = Vec::new();
    memprof_report::render::render(format, &compare(&run.results()), &Options::default(), &mut text).unwrap();
    String::from_utf8(text).unwrap()
}

const FOR_PEOPLE: [Format; 4] = [Format::Table, Format::Markdown, Format::Csv, Format::Junit];

#[test]
fn a_label_that_does_not_show_is_made_visible_in_every_format_for_people() {
    for (label, shown) in [
        ("loaded\u{200b}", "loaded<U+200B>"),
        ("\u{202e}loaded", "<U+202E>loaded"),
        ("\u{feff}", "<U+FEFF>"),
        ("", "\"\""),
        ("   ", "\"   \""),
        ("a\u{1b}[2Jb", "a␛[2Jb"),
    ] {
        for format in FOR_PEOPLE {
            let text = rendered(label, format);
            let expected = match format {
                Format::Csv if shown.contains('"') => format!(",\"{}\",1,", shown.replace('"', "\"\"")),
                Format::Csv => format!(",{shown},1,"),
                // The other formats escape markup, each in its way.
                _ => shown.to_owned(),
            };
            let plain =
                text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("\\[", "[");
            let seen = if format == Format::Csv { &text } else { &plain };
            assert!(seen.contains(&expected), "{label:?} in {format:?}: {text}");
            assert!(!text.contains(['\u{1b}', '\u{200b}', '\u{202e}', '\u{feff}']), "{format:?}: {text:?}");
        }
    }
}

#[test]
fn a_label_is_no_formula_in_csv_and_numbers_stay_numbers() {
    let csv = rendered("=HYPERLINK(\"//a.example\")", Format::Csv);
    assert!(csv.contains(",\"'=HYPERLINK(\"\"//a.example\"\")\",1,heap.peak,bytes,1048576,"), "{csv}");
    assert!(rendered("-5", Format::Csv).contains(",-5,1,heap.peak,bytes,1048576,"));
}

#[test]
fn a_label_links_to_nothing_in_markdown() {
    for label in
        ["https://a.example", "www.a.example", "GH-1", "#1", "o/r#1", "@name", "a@b.example", "9be0d13fa"]
    {
        let text = rendered(label, Format::Markdown);
        assert!(!text.contains(label), "{label}: {text}");
        let read = text.replace("&#8203;", "").replace("&#64;", "@").replace("&#35;", "#");
        assert!(read.contains(label), "{label}: {text}");
    }
}

#[test]
fn a_label_of_ten_megabytes_makes_no_report_of_that_size() {
    let run = run_with(&"long ".repeat(2_000_000));
    let comparison = compare(&run.results());
    for format in [Format::Table, Format::Markdown, Format::Csv, Format::Json, Format::Junit] {
        let mut text = Vec::new();
        memprof_report::render::render(format, &comparison, &Options::default(), &mut text).unwrap();
        assert!(text.len() < 200_000, "{format:?} has {} bytes", text.len());
    }
}
