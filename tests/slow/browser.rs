//! The HTML page in a real browser: Chromium, from disk, without a network. It is left out, and the summary says so, if
//! there is none.

use std::path::Path;

use memprof_report::options::{Options, Rows};
use serde_json::Value;

use crate::chromium::{self, Page};
use crate::support::hostile::{self, HOSTILE};
use crate::support::synthetic::{Log, Synthetic};
use crate::support::{Printed, TestRepository, home, tool};

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
    rendered(&synthetic, &Options::default())
}

/// The page of a run's folder.
fn rendered(synthetic: &Synthetic, options: &Options) -> String {
    let comparison = memprof_judge::compare::from_results::compare(&synthetic.results());
    let mut out = Vec::new();
    memprof_report::html::render(&comparison, options, &mut out).expect("written to memory");
    String::from_utf8(out).expect("text")
}

/// Opens it as a reader does.
fn opened(html: &str) -> Option<Page> {
    Page::open(html, &chromium::Options::default())
}

/// How a key is pressed on an element.
const KEY: &str = "const key = (node, name) => node.dispatchEvent(new KeyboardEvent('keydown', { key: name, bubbles: true }));";

#[test]
fn the_page_draws_its_charts_and_asks_for_nothing() {
    let Some(page) = opened(&page()) else { return };
    let all_painted = "(() => {
        const charts = [...document.querySelectorAll('.charts canvas')];
        charts[0]?.scrollIntoView();
        const isPainted = (chart) => {
            const blank = document.createElement('canvas');
            [blank.width, blank.height] = [chart.width, chart.height];
            return chart.width > 0 && chart.toDataURL() !== blank.toDataURL();
        };
        return charts.length > 0 && charts.every(isPainted);
    })()";
    page.until(all_painted);
    page.assert_quiet();
}

#[test]
fn tests_are_found_and_sorted() {
    let Some(page) = opened(&page()) else { return };
    let rows = "[...document.querySelectorAll('#tests tbody tr')].filter((row) => !row.hidden)";
    let first = format!("{rows}[0].cells[0].textContent");
    assert_eq!(page.value(&format!("{rows}.length")), 40);
    assert_eq!(page.text(&first), "module::reads_7", "the changed one comes first");
    let search = |text: &str| {
        page.value(&format!(
            "{{ const search = document.querySelector('#tests input[type=search]');
                search.value = '{text}'; search.dispatchEvent(new Event('input', {{ bubbles: true }})); }}"
        ));
    };
    search("reads_1");
    page.until(&format!("{rows}.length === 11"));
    search("");
    page.until(&format!("{rows}.length === 40"));
    page.value(
        "{ const sort = document.querySelector('#tests select');
            sort.value = 'name'; sort.dispatchEvent(new Event('change', { bubbles: true })); }",
    );
    page.until(&format!("{first} === 'module::reads_0'"));
    page.assert_quiet();
}

#[test]
fn a_link_leads_to_a_checkpoint() {
    let open =
        |fragment| Page::open(&page(), &chromium::Options { fragment, ..chromium::Options::default() });
    let Some(page) = open("module::reads_3/heap.peak/step%204") else { return };
    // Only what is open has elements: the changed test, and the one that the link names.
    assert_eq!(page.value("document.querySelectorAll('section.test:has(table)').length"), 2);
    assert_eq!(page.value("document.getElementById('module::reads_3').querySelector('details').open"), true);
    assert_eq!(
        page.text("document.getElementById('module::reads_3').querySelector('tr[aria-current]').dataset.row"),
        "4"
    );
    page.until(
        "(() => { const box = document.querySelector('tr[aria-current]').getBoundingClientRect();
            return box.top >= 0 && box.bottom <= innerHeight; })()",
    );
    page.assert_quiet();
    let Some(page) = open("no_such_test/heap.peak/done") else { return };
    let told = page.text("document.getElementById('notice').textContent");
    assert!(told.contains("no_such_test"), "{told}");
}

#[test]
fn without_its_script_the_text_is_there() {
    let options = chromium::Options { without_script: true, ..chromium::Options::default() };
    let Some(page) = Page::open(&page(), &options) else { return };
    assert_eq!(page.text("document.querySelector('h1').textContent"), "memory: 1 of 40 tests inconclusive");
    assert_eq!(page.value("document.body.innerText.includes('+1.00 MiB')"), true);
    assert_eq!(page.value("document.querySelectorAll('canvas').length"), 0);
    page.assert_quiet();
}

#[test]
fn a_chart_tells_the_difference_of_the_table() {
    let log = |points: &[(&str, i64)]| {
        points.iter().fold(Log::new().checkpoint("start", &[("heap.peak", MIB)]), |log, (label, peak)| {
            log.checkpoint(label, &[("heap.peak", peak * MIB)])
        })
    };
    let synthetic = Synthetic::new(&["main", "pr/7"])
        .passed("reads", 0, 0, &log(&[("done", 10), ("end", 2)]))
        .passed("reads", 1, 0, &log(&[("mid", 10), ("done", 4), ("end", 3)]));
    let Some(page) = opened(&rendered(&synthetic, &Options::default())) else { return };
    let told = |keys: &str| {
        page.text(&format!(
            "(() => {{ {KEY} const chart = document.querySelector('.charts .chart');
                for (const name of [{keys}]) key(chart.querySelector('canvas'), name);
                return chart.querySelector('.tooltip').textContent; }})()"
        ))
    };
    page.until("document.querySelector('.charts canvas')?.width");
    let [end, done] = [told("'End'"), told("'End', 'ArrowLeft'")];
    assert!(end.starts_with("end") && end.ends_with("▲ +1.00 MiB"), "{end}");
    assert!(done.starts_with("done") && done.ends_with("10.0 MiB4.00 MiB= (compared)"), "{done}");
    page.assert_quiet();
}

#[test]
fn it_prints_and_has_pictures_in_both_themes_and_all_widths() {
    let Some(page) = opened(&page()) else { return };
    for width in [400, 1000, 1600] {
        page.width(width);
        page.until(&format!("innerWidth === {width}"));
        assert_eq!(page.value("document.documentElement.scrollWidth <= innerWidth"), true, "{width}");
        let pictures = ["light", "dark"].map(|theme| {
            page.theme(theme);
            page.picture()
        });
        assert!(pictures.iter().all(|picture| picture.len() > 10_000), "{width}");
        assert_ne!(pictures[0], pictures[1], "the themes look different");
    }
    let paper = page.printed();
    assert!(paper.starts_with(b"%PDF") && paper.len() > 10_000);
    page.assert_quiet();
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

/// The page of the latest run.
fn reported(repository: &TestRepository, home: &Path) -> String {
    let mut command = tool();
    command.current_dir(repository.root()).env("CARGO_MEMPROF_HOME", home);
    command.args(["memprof", "report", "--format", "html", "--with-source"]);
    Printed::of(command).stdout
}

#[test]
fn call_sites_have_their_lines_and_a_flame_graph() {
    let (repository, home) = (repository(), home());
    let html = measured(&repository, home.path(), &["--refs", "old,new", "--with-source"]);
    for needle in [
        "subject::grow",
        "src/lib.rs:2",
        "<del>-    vec![1; 1000000]</del>",
        "<ins>+    vec![1; 5000000]</ins>",
    ] {
        assert!(html.contains(needle), "{needle}");
    }
    let Some(page) = opened(&html) else { return };
    page.value("document.querySelector('.flame').scrollIntoView()");
    page.until("document.querySelector('.flame canvas')?.width");
    let told = "document.querySelector('.flame .detail').textContent";
    let whole = page.text(told);
    assert!(whole.contains("+3.81 MiB"), "{whole}");
    let down =
        "for (let step = 0; step < 3; step += 1) key(document.querySelector('.flame canvas'), 'ArrowDown');";
    page.value(&format!("{{ {KEY} {down} }}"));
    let inner = page.text(told);
    assert!(inner.contains("::"), "{inner}");
    page.value(
        "{ const search = document.querySelector('.flame input[type=search]');
            search.value = 'subject::grow'; search.dispatchEvent(new Event('input', { bubbles: true })); }",
    );
    page.until(&format!("{told}.includes('1 function matches: 4.77 MiB')"));
    page.value(
        "{ const chart = document.querySelector('.charts .chart');
            chart.scrollIntoView(); chart.querySelector('button[value=time]').click(); }",
    );
    // The band has the clock of the run with call stacks, on which its checkpoints lie, too.
    let last = format!(
        "(() => {{ {KEY} const chart = document.querySelector('.charts .chart');
            key(chart.querySelector('canvas'), 'End');
            return chart.querySelector('.tooltip')?.textContent.startsWith('done'); }})()"
    );
    page.until(&last);
    page.assert_quiet();

    // The same with hostile functions, paths and lines. A line stays one.
    let run = repository.path("target/memprof/latest");
    let line = HOSTILE.replace(['\r', '\n'], " ");
    let executables: Vec<_> =
        std::fs::read_dir(run.join("why/executables")).expect("read").flatten().collect();
    assert_eq!(executables.len(), 2, "one of each ref");
    for executable in &executables {
        poison_file(&executable.path(), &line, &["note"]);
    }
    poison_file(&run.join("changes.json"), &line, &[]);
    let html = reported(&repository, home.path());
    let Some(page) = opened(&html) else { return };
    let shown = page.text("document.querySelector('.why').innerText");
    assert!(shown.contains("subject::grow</script>"), "{shown}");
    use_all(&page);
}

/// Adds hostile text to each text below a JSON value, but for the fields of these names.
fn poison(value: &mut Value, text: &str, but: &[&str]) {
    match value {
        Value::String(own) => own.push_str(text),
        Value::Array(list) => list.iter_mut().for_each(|one| poison(one, text, but)),
        Value::Object(fields) => {
            let open = fields.iter_mut().filter(|(name, _)| !but.contains(&name.as_str()));
            open.for_each(|(_, one)| poison(one, text, but));
        }
        _ => {}
    }
}

/// Poisons a file of a run's folder, without its hash.
fn poison_file(file: &Path, text: &str, but: &[&str]) {
    let read = std::fs::read(file).expect("the run has it");
    let mut value: Value = serde_json::from_slice(&read).expect("JSON");
    value.as_object_mut().expect("an object").remove("blake3");
    poison(&mut value, text, but);
    std::fs::write(file, value.to_string()).expect("written");
}

/// Uses all of the page, and checks that it holds nothing but its own.
fn use_all(page: &Page) {
    let used = page.value(&format!(
        "{{ {KEY}
            document.querySelectorAll('details').forEach((one) => {{ one.open = true; }});
            document.querySelectorAll('.charts, .flame, .treemap').forEach((one) => one.scrollIntoView());
            for (const select of document.querySelectorAll('select')) {{
                for (const option of select.options) {{
                    select.value = option.value;
                    select.dispatchEvent(new Event('change', {{ bubbles: true }}));
                }}
            }}
            let used = 0;
            for (const chart of document.querySelectorAll('canvas, svg')) {{
                for (const name of ['Home', 'ArrowRight', 'ArrowDown', 'ArrowRight', 'End', 'Enter']) key(chart, name);
                chart.dispatchEvent(new PointerEvent('pointermove', {{ bubbles: true, clientX: 300, clientY: 300 }}));
                used += 1;
            }}
            for (const button of document.querySelectorAll('button')) button.click();
            for (const search of document.querySelectorAll('input[type=search]')) {{
                for (const text of ['<img src=x onerror=alert(1)>', 'alert(', '']) {{
                    search.value = text;
                    search.dispatchEvent(new Event('input', {{ bubbles: true }}));
                }}
            }}
            used; }}"
    ));
    assert!(used.as_u64().expect("a number") > 0, "there are charts");
    let foreign = "(() => {
        const acts = (one) => [...one.attributes].some((attribute) =>
            /^on/i.test(attribute.name) || /^\\s*(javascript|data|https?):/i.test(attribute.value) && /^(src|href|action)$/.test(attribute.name));
        const all = [...document.querySelectorAll('*')];
        const foreign = all.filter((one) => acts(one) || /^(IMG|IFRAME|OBJECT|EMBED|FORM|BASE|LINK)$/.test(one.tagName));
        return foreign.map((one) => one.outerHTML.slice(0, 300)).join('\\n');
    })()";
    assert_eq!(page.text(foreign), "");
    assert_eq!(page.value("document.querySelectorAll('script').length"), 2, "the data, and the page's own");
    assert_eq!(page.value("/[\\u202e\\u2066\\x1b]/.test(document.body.innerText)"), false);
    page.assert_quiet();
}

#[test]
fn no_text_of_a_run_acts_while_its_page_is_used() {
    let synthetic = hostile::folder();
    let count = hostile::poisoned(&synthetic);
    assert!(count > 250, "{count} texts");
    let options = Options { all: true, rows: Rows::All, with_source: true, ..Options::default() };
    let html = rendered(&synthetic, &options);
    let Some(page) = opened(&html) else { return };
    assert_eq!(page.value("document.body.innerText.includes('<script>alert(1)</script>')"), true);
    use_all(&page);
    let fragments =
        ["<img%20src=x%20onerror=alert(1)>/heap.peak/</script>", "javascript:alert(1)", "%E0%A4%A"];
    for fragment in fragments {
        let options = chromium::Options { fragment, ..chromium::Options::default() };
        Page::open(&html, &options).expect("as before").assert_quiet();
    }
}

#[test]
fn a_history_shows_its_steps_and_compares_two_commits() {
    let (mut repository, home) = (repository(), home());
    repository.write("README.md", "x");
    repository.commit("Say more");
    let html =
        measured(&repository, home.path(), &["history", "old..HEAD", "--exact", "subject::memory::keeps"]);
    let short = repository.git(["rev-parse", "--short=7", "new"]).trim().to_owned();
    assert!(
        html.contains(&format!("id=\"step-{short}\"")) && html.contains("subject::grow"),
        "a step and its call sites"
    );
    let Some(page) = opened(&html) else { return };
    let press = |name: &str| {
        page.value(&format!("{{ {KEY} key(document.querySelector('figure.history svg'), '{name}'); }}"));
    };
    let text =
        |class: &str| page.text(&format!("document.querySelector('figure.history .{class}').textContent"));
    press("Home");
    let first = text("told");
    assert!(first.contains(" KiB · old"), "{first}");
    press("Enter");
    press("ArrowRight");
    let second = text("told");
    assert!(second.contains(&short) && second.contains("+3.81 MiB"), "{second}");
    press("Enter");
    let range = text("range");
    assert!(range.contains("+3.81 MiB over 1 commit.") && range.contains("cargo memprof"), "{range}");
    page.assert_quiet();
}

/// Three commits of which the second keeps more in one test, and the third less in another one. The second lacks a test.
fn repository_of_several_tests() -> TestRepository {
    let mut repository = TestRepository::new();
    repository.write("Cargo.toml", "[package]\nname = 'subject'\nversion = '0.1.0'\nedition = '2021'\n");
    repository.write("Cargo.lock", "version = 3\n\n[[package]]\nname = \"subject\"\nversion = \"0.1.0\"\n");
    repository.write(".gitignore", "/target\n");
    let gap = "#[test]\nfn gap() {}\n";
    let late = "#[test]\nfn late() {}\n";
    for (tag, first, second, others) in [
        ("old", 1_000_000, 3_000_000, gap.to_owned()),
        ("middle", 5_000_000, 3_000_000, String::new()),
        ("new", 5_000_000, 2_000_000, format!("{gap}{late}")),
    ] {
        let keeps = |name: &str, bytes: u32| {
            format!("#[test]\nfn {name}() {{ std::hint::black_box(vec![1_u8; {bytes}]); }}\n")
        };
        let (first, second, equal) = (keeps("first", first), keeps("second", second), keeps("equal", 4096));
        repository.write("tests/memory.rs", format!("{first}{second}{equal}{others}"));
        repository.write("src/lib.rs", "");
        repository.commit(tag);
        repository.git(["tag", tag]);
    }
    repository
}

#[test]
fn a_history_of_several_tests_has_a_small_chart_of_each() {
    let (repository, home) = (repository_of_several_tests(), home());
    let html = measured(&repository, home.path(), &["history", "old..new", "--test", "memory"]);
    let [old, middle, new] =
        ["old", "middle", "new"].map(|tag| repository.git(["rev-parse", "--short=7", tag]).trim().to_owned());
    let report = |arguments: &[&str]| {
        let mut command = tool();
        command
            .current_dir(repository.root())
            .env("CARGO_MEMPROF_HOME", home.path())
            .env("LC_ALL", "C.UTF-8");
        command.args(["memprof", "report"]).args(arguments);
        let printed = Printed::of(command);
        assert_eq!(printed.code, 3, "a commit lacks a figure: {}", printed.everything());
        printed.stdout
    };
    // The largest change comes first.
    let text = report(&[]);
    assert!(text.starts_with("heap.peak of 4 tests · old"), "{text}");
    assert!(text.find("(+3.81 MiB, +400 %)") < text.find("(-977 KiB, -33.3 %)"), "{text}");
    assert!(
        text.contains(
            "2 tests did not change by more than 0.5 % and 16.0 KiB: equal, gap (no figure at 1 commit)\n"
        ),
        "{text}"
    );
    let markdown = report(&["--format", "markdown"]);
    assert!(markdown.contains("**first**") && markdown.contains("**second**"), "{markdown}");
    let json: serde_json::Value = serde_json::from_str(&report(&["--format", "json"])).expect("JSON");
    assert_eq!(json["schema"], "cargo-memprof-searches");
    let steps = |test: usize| json["tests"][test]["steps"].as_array().expect("steps").len();
    let titles: Vec<&str> = (0..4).filter_map(|test| json["tests"][test]["title"].as_str()).collect();
    assert_eq!(titles, ["equal", "first", "gap", "second"]);
    assert_eq!([0, 1, 2, 3].map(steps), [0, 1, 0, 1]);
    let csv = report(&["--format", "csv"]);
    let mut rows = csv::Reader::from_reader(csv.as_bytes());
    let headings = rows.headers().expect("headings").clone();
    let column = headings.iter().position(|heading| heading == "test").expect("a column");
    let count = |name: &str| {
        csv::Reader::from_reader(csv.as_bytes())
            .records()
            .filter(|row| &row.as_ref().expect("a row")[column] == name)
            .count()
    };
    assert_eq!(count("subject::memory::first"), 3);
    assert_eq!(rows.records().count(), 12, "the test of the last commit alone is left out");

    let Some(page) = opened(&html) else { return };
    let heading = page.text("document.querySelector('h1').textContent");
    assert!(heading.contains(" commits changed ") && heading.contains("largest: +"), "{heading}");
    let charts = "[...document.querySelectorAll('.multiples figure.history:not([hidden]) svg')]";
    assert_eq!(page.value(&format!("{charts}.length")), 4);
    assert_eq!(page.text("document.querySelector('.multiples h3').textContent"), "first ▲");
    let press = |name: &str| page.value(&format!("{{ {KEY} key({charts}[1], '{name}'); }}"));
    let text =
        |class: &str| page.text(&format!("document.querySelectorAll('.multiples .{class}')[1].textContent"));
    press("Home");
    assert!(text("told").starts_with(&old), "{}", text("told"));
    press("Enter");
    press("End");
    press("Enter");
    assert!(
        text("range").contains(&format!("{old} → {new}: ▼ -977 KiB over 2 commits")),
        "{}",
        text("range")
    );
    assert!(text("range").contains("subject::memory::second"), "{}", text("range"));
    let link =
        format!("document.querySelector('#commits-1 a[href^=\"#step-{middle}\"]').getAttribute('href')");
    assert_eq!(page.value(&format!("Boolean(document.querySelector({link}))")), true);
    page.assert_quiet();
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
