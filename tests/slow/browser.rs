//! The HTML page in a real browser: Chromium, from disk, without a network. It is left out, and the summary says so, if
//! there is none.

use std::path::{Path, PathBuf};
use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};
use tempfile::TempDir;

use crate::support::synthetic::{Log, Synthetic};
use crate::support::{Printed, TestRepository, home, skip, tool};

/// A page in a folder of its own.
struct Opened {
    folder: TempDir,
    page: String,
}

/// What the browser made of a page.
struct Shown {
    /// The document after the script ran.
    document: String,
    /// What the browser wrote to its console.
    console: Vec<String>,
    /// What it asked any server for.
    requests: Vec<String>,
}

const NAMES: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

fn browser() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let found = std::env::split_paths(&path)
        .flat_map(|folder| NAMES.map(|name| folder.join(name)))
        .find(|program| program.is_file());
    if found.is_none() {
        skip("no chromium is installed, so no page is opened");
    }
    found
}

impl Opened {
    fn new(page: String) -> Self {
        Self { folder: tempfile::tempdir().expect("a folder"), page }
    }

    fn command(&self, browser: &Path) -> Command {
        let mut command = Command::new(browser);
        command
            .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run"])
            .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
            .args(["--enable-logging=stderr", "--virtual-time-budget=10000"])
            .arg(format!("--user-data-dir={}", self.folder.path().join("profile").display()));
        command
    }

    /// Opens the page, runs `actions` in it, and returns what came out. `fragment` is the part of the link behind `#`.
    fn show(&self, browser: &Path, fragment: &str, actions: &str, flags: &[&str]) -> Shown {
        let file = self.folder.path().join("page.html");
        std::fs::write(&file, with_script(&self.page, actions)).expect("written");
        let requests = self.folder.path().join("requests.json");
        let output = self
            .command(browser)
            .args(flags)
            .arg(format!("--log-net-log={}", requests.display()))
            .args(["--window-size=1000,1400", "--dump-dom"])
            .arg(format!("file://{}#{fragment}", file.display()))
            .output()
            .expect("chromium runs");
        let log = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{log}");
        let net = std::fs::read_to_string(requests).expect("a log of requests");
        let urls = regex::Regex::new(r#""url":"((?:https?|wss?|ftp)://[^"]*)""#).expect("a pattern");
        // The browser itself asks its maker for the time, for updates, and for accounts.
        let is_of_page = |url: &String| {
            !url.split('/')
                .nth(2)
                .is_some_and(|host| host.ends_with("google.com") || host.ends_with("googleapis.com"))
        };
        Shown {
            document: String::from_utf8_lossy(&output.stdout).into_owned(),
            console: log.lines().filter(|line| line.contains("CONSOLE")).map(str::to_owned).collect(),
            requests: urls.captures_iter(&net).map(|one| one[1].to_owned()).filter(is_of_page).collect(),
        }
    }

    /// Takes a picture of the page and returns the number of its bytes.
    fn picture(&self, browser: &Path, flags: &[&str]) -> u64 {
        let file = self.folder.path().join("page.html");
        std::fs::write(&file, &self.page).expect("written");
        let picture = self.folder.path().join("picture.png");
        let output = self
            .command(browser)
            .args(flags)
            .arg(format!("--screenshot={}", picture.display()))
            .arg(format!("file://{}", file.display()))
            .output()
            .expect("chromium runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        std::fs::metadata(picture).expect("a picture").len()
    }
}

/// Adds a script that the page's policy allows. It runs after the page's own and waits until that has drawn.
fn with_script(page: &str, actions: &str) -> String {
    if actions.is_empty() {
        return page.to_owned();
    }
    let script = format!("setTimeout(async () => {{ {actions} }}, 1500);");
    let hash = STANDARD.encode(Sha256::digest(script.as_bytes()));
    let (head, body) = page.split_once("script-src ").expect("a policy");
    let page = format!("{head}script-src 'sha256-{hash}' {body}");
    page.replace("</body>", &format!("<script>{script}</script></body>"))
}

impl Shown {
    /// The browser has nothing to complain about, and asked nobody.
    fn assert_quiet(&self) {
        assert_eq!(self.console, Vec::<String>::new());
        assert_eq!(self.requests, Vec::<String>::new());
    }

    /// What `actions` noted as `data-NAME` of the body.
    fn noted(&self, name: &str) -> &str {
        let after = self.document.split_once(&format!(" data-{name}=\"")).map(|(_, after)| after);
        after.and_then(|after| after.split_once('"')).map_or("", |(value, _)| value)
    }
}

const MIB: i64 = 1 << 20;

fn page() -> String {
    let log = |more: i64| {
        (0..6).fold(Log::new(), |log, step| {
            let live = (step + 1) * MIB + more;
            log.checkpoint(
                &format!("step {step}"),
                &[("heap.live", live), ("heap.peak", live + MIB / 2), ("time", step * 1_000_000)],
            )
        })
    };
    let synthetic = (0..40).fold(Synthetic::new(&["main", "pr/7"]), |synthetic, number| {
        let name = format!("module::reads_{number}");
        let more = if number == 7 { MIB } else { 0 };
        synthetic.passed(&name, 0, 0, &log(0)).passed(&name, 1, 0, &log(more))
    });
    let results = synthetic.results();
    let comparison = cargo_memprof::compare::from_results::compare(&results);
    let mut out = Vec::new();
    let options = cargo_memprof::report::options::Options::default();
    cargo_memprof::report::html::render(&comparison, &options, &mut out).expect("written to memory");
    String::from_utf8(out).expect("text")
}

#[test]
fn the_page_draws_its_charts_and_asks_for_nothing() {
    let Some(browser) = browser() else { return };
    let opened = Opened::new(page());
    let actions = "document.querySelector('.charts canvas').scrollIntoView();
        await new Promise((resolve) => setTimeout(resolve, 1000));
        document.body.dataset.charts = document.querySelectorAll('.charts canvas').length;
        document.body.dataset.painted = [...document.querySelectorAll('.charts canvas')]
            .filter((one) => one.getContext('2d').getImageData(0, 0, one.width, one.height).data.some((byte) => byte > 0)).length;";
    let shown = opened.show(&browser, "", actions, &[]);
    shown.assert_quiet();
    assert!(
        shown.noted("charts") != "0" && shown.noted("charts") == shown.noted("painted"),
        "{}",
        shown.noted("charts")
    );
}

#[test]
fn tests_are_found_and_sorted() {
    let Some(browser) = browser() else { return };
    let opened = Opened::new(page());
    let actions =
        "const rows = () => [...document.querySelectorAll('#tests tbody tr')].filter((row) => !row.hidden);
        const search = document.querySelector('#tests input[type=search]');
        document.body.dataset.all = rows().length;
        document.body.dataset.first = rows()[0].cells[0].textContent;
        search.value = 'reads_1'; search.dispatchEvent(new Event('input', { bubbles: true }));
        document.body.dataset.found = rows().length;
        search.value = ''; search.dispatchEvent(new Event('input', { bubbles: true }));
        const sort = document.querySelector('#tests select');
        sort.value = 'name'; sort.dispatchEvent(new Event('change', { bubbles: true }));
        document.body.dataset.sorted = rows()[0].cells[0].textContent;";
    let shown = opened.show(&browser, "", actions, &[]);
    shown.assert_quiet();
    assert_eq!(
        (shown.noted("all"), shown.noted("first")),
        ("40", "module::reads_7"),
        "the changed one comes first"
    );
    assert_eq!((shown.noted("found"), shown.noted("sorted")), ("11", "module::reads_0"));
}

#[test]
fn a_link_leads_to_a_checkpoint() {
    let Some(browser) = browser() else { return };
    let opened = Opened::new(page());
    let note = "const section = document.getElementById('module::reads_3');
        document.body.dataset.open = section.querySelector('details').open;
        document.body.dataset.marked = section.querySelector('tr[aria-current], tr.target, tr.linked')?.dataset.row ?? 'none';";
    let shown = opened.show(&browser, "module::reads_3/heap.peak/step%204", note, &[]);
    shown.assert_quiet();
    assert_eq!((shown.noted("open"), shown.noted("marked")), ("true", "4"));
    let note = "document.body.dataset.told = document.getElementById('notice')?.textContent ?? '';";
    let shown = opened.show(&browser, "no_such_test/heap.peak/done", note, &[]);
    assert!(shown.noted("told").contains("no_such_test"), "{}", shown.noted("told"));
}

#[test]
fn without_its_script_the_text_is_there() {
    let Some(browser) = browser() else { return };
    let own = regex::Regex::new("script-src '[^']*'").expect("a pattern");
    let opened = Opened::new(own.replace(&page(), "script-src 'none'").into_owned());
    let shown = opened.show(&browser, "", "", &[]);
    assert!(shown.document.contains("<h1>memory: 1 of 40 tests inconclusive</h1>"), "{}", shown.document);
    assert!(shown.document.contains("+1.00 MiB") && !shown.document.contains("<canvas"));
    assert_eq!(shown.requests, Vec::<String>::new());
}

#[test]
fn it_prints_and_has_pictures_in_both_themes_and_all_widths() {
    let Some(browser) = browser() else { return };
    let opened = Opened::new(page());
    for width in [400, 1000, 1600] {
        let size = format!("--window-size={width},1200");
        for theme in ["--blink-settings=preferredColorScheme=1", "--blink-settings=preferredColorScheme=0"] {
            assert!(opened.picture(&browser, &[&size, theme]) > 10_000, "{width} {theme}");
        }
    }
    let paper = opened.folder.path().join("page.pdf");
    let output = opened
        .command(&browser)
        .arg(format!("--print-to-pdf={}", paper.display()))
        .arg(format!("file://{}", opened.folder.path().join("page.html").display()))
        .output()
        .expect("chromium runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(std::fs::metadata(paper).expect("a document").len() > 10_000);
}

/// Two commits of which the second keeps more, built and run by the tool.
fn repository() -> TestRepository {
    let mut repository = TestRepository::new();
    repository.write("Cargo.toml", "[package]\nname = 'subject'\nversion = '0.1.0'\nedition = '2021'\n");
    repository.write("Cargo.lock", "version = 3\n\n[[package]]\nname = \"subject\"\nversion = \"0.1.0\"\n");
    repository.write(".gitignore", "/target\n");
    repository.write("tests/memory.rs", "#[test]\nfn keeps() { std::hint::black_box(subject::grow()); }\n");
    for (tag, bytes) in [("old", 1_000_000), ("new", 5_000_000)] {
        repository.write("src/lib.rs", format!("pub fn grow() -> Vec<u8> {{\n    vec![1; {bytes}]\n}}\n"));
        repository.commit(tag);
        repository.git(["tag", tag]);
    }
    repository
}

/// Runs the tool on it, and returns the page that it writes.
fn measured(repository: &TestRepository, home: &Path, arguments: &[&str]) -> String {
    let page = repository.beside("page.html");
    let mut command = tool();
    command
        .current_dir(repository.root())
        .env("CARGO_MEMPROF_HOME", home)
        .env_remove("CARGO_PROFILE_DEV_DEBUG");
    command.arg("memprof").args(arguments).args(["--offline", "--output"]).arg(&page);
    let printed = Printed::of(command);
    assert!(page.exists(), "{}", printed.everything());
    std::fs::read_to_string(page).expect("text")
}

#[test]
fn call_sites_have_their_lines_and_a_flame_graph() {
    let Some(browser) = browser() else { return };
    let (repository, home) = (repository(), home());
    let page = measured(&repository, home.path(), &["--refs", "old,new", "--with-source"]);
    for needle in [
        "subject::grow",
        "src/lib.rs:2",
        "<del>-    vec![1; 1000000]</del>",
        "<ins>+    vec![1; 5000000]</ins>",
    ] {
        assert!(page.contains(needle), "{needle}");
    }
    let actions = "const flame = document.querySelector('.flame');
        flame.scrollIntoView();
        await new Promise((resolve) => setTimeout(resolve, 1000));
        const canvas = flame.querySelector('canvas');
        const tell = () => flame.querySelector('.detail').textContent;
        const key = (name) => canvas.dispatchEvent(new KeyboardEvent('keydown', { key: name, bubbles: true }));
        document.body.dataset.whole = tell();
        for (let step = 0; step < 3; step += 1) key('ArrowDown');
        document.body.dataset.inner = tell();
        const search = flame.querySelector('input[type=search]');
        search.value = 'subject::grow'; search.dispatchEvent(new Event('input', { bubbles: true }));
        document.body.dataset.found = tell();
        const chart = document.querySelector('.charts .chart');
        chart.scrollIntoView();
        chart.querySelector('button[value=time]').click();
        await new Promise((resolve) => setTimeout(resolve, 500));
        chart.querySelector('canvas').dispatchEvent(new KeyboardEvent('keydown', { key: 'End', bubbles: true }));
        document.body.dataset.last = chart.querySelector('.tooltip').textContent;";
    let shown = Opened::new(page).show(&browser, "", actions, &[]);
    shown.assert_quiet();
    assert!(shown.noted("whole").contains("+3.81 MiB"), "{}", shown.noted("whole"));
    assert!(shown.noted("inner").contains("::"), "{}", shown.noted("inner"));
    // The band has the clock of the run with call stacks, on which its checkpoints lie, too.
    assert!(shown.noted("last").starts_with("done"), "{}", shown.noted("last"));
    assert!(shown.noted("found").contains("1 function matches: 4.77 MiB"), "{}", shown.noted("found"));
}

#[test]
fn a_history_shows_its_steps_and_compares_two_commits() {
    let Some(browser) = browser() else { return };
    let (mut repository, home) = (repository(), home());
    repository.write("README.md", "x");
    repository.commit("Say more");
    let page =
        measured(&repository, home.path(), &["history", "old..HEAD", "--exact", "subject::memory::keeps"]);
    let short = repository.git(["rev-parse", "--short=7", "new"]).trim().to_owned();
    assert!(
        page.contains(&format!("id=\"step-{short}\"")) && page.contains("subject::grow"),
        "a step and its call sites"
    );
    let actions = "const chart = document.querySelector('figure.history svg');
        const key = (name) => document.querySelector('figure.history svg').dispatchEvent(new KeyboardEvent('keydown', { key: name, bubbles: true }));
        const told = () => document.querySelector('figure.history .told').textContent;
        const range = () => document.querySelector('figure.history .range').textContent;
        key('Home'); document.body.dataset.first = told(); key('Enter');
        key('ArrowRight'); document.body.dataset.second = told(); key('Enter');
        document.body.dataset.range = range();";
    let shown = Opened::new(page).show(&browser, "", actions, &[]);
    shown.assert_quiet();
    assert!(shown.noted("first").contains(" KiB · old"), "{}", shown.noted("first"));
    assert!(
        shown.noted("second").contains(&short) && shown.noted("second").contains("+3.81 MiB"),
        "{}",
        shown.noted("second")
    );
    assert!(
        shown.noted("range").contains("+3.81 MiB over 1 commit.")
            && shown.noted("range").contains("cargo memprof"),
        "{}",
        shown.noted("range")
    );
}

#[test]
fn the_latest_run_opens_in_the_browser() {
    let (repository, home) = (repository(), home());
    _ = measured(&repository, home.path(), &["--refs", "old,new"]);
    let programs = tempfile::tempdir().expect("a folder");
    let (called, opener) = (programs.path().join("called"), programs.path().join("xdg-open"));
    std::fs::write(&opener, format!("#!/bin/sh\necho \"$1\" >'{}'\n", called.display())).expect("written");
    std::fs::set_permissions(&opener, std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .expect("a program");
    let mut command = tool();
    let path = std::env::var("PATH").expect("a path");
    command.current_dir(repository.root()).env("CARGO_MEMPROF_HOME", home.path());
    command
        .env("PATH", format!("{}:{path}", programs.path().display()))
        .args(["memprof", "report", "--open"]);
    let printed = Printed::of(command);
    assert_eq!(printed.code, 1, "the verdict stays: {}", printed.everything());
    assert!(printed.stdout.is_empty() && printed.stderr.contains("report.html"), "{}", printed.everything());
    let mut waited = 0;
    while !called.exists() && waited < 100 {
        std::thread::sleep(std::time::Duration::from_millis(50));
        waited += 1;
    }
    let given = std::fs::read_to_string(called).expect("the opener was called");
    assert!(given.trim().ends_with("report.html") && Path::new(given.trim()).is_file(), "{given}");
}
