//! From the tests that each revision was found to have, and the request, to the cells: parameters, names, what is left out.

use std::collections::{BTreeMap, HashSet};

use indexmap::IndexMap;

use crate::gpu::visible_devices::VISIBLE;
use crate::plan::cell_filters::CellFilters;
use crate::plan::cell_names::{CellNames, EntryName};
use crate::plan::listing::{ListedRevision, TestsByRevision, found_tests, no_match, places};
use crate::plan::repeat::Repeat;
use crate::plan::request::{Ignored, Request, TestRequest};
use crate::plan::resolved::{CellId, Revision, TestId};
use crate::plan::selection::{Selector, described};
use crate::plan::title::{self, Template};
use crate::support::user_error::Complaint;

/// What is to become of a cell at a revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CellStatus {
    /// It runs.
    Run,
    /// The test is marked `#[ignore]` here, and ignored tests were not asked for.
    Ignored,
    /// Only other revisions have this test.
    NotInThisRef,
    /// The revision did not build, so that nobody knows.
    BuildFailed,
}

/// A cell at a revision.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct PlannedCell {
    /// Test, parameters and name.
    pub cell: CellId,
    /// Index in the plan's revisions.
    pub revision: usize,
    /// What becomes of it.
    pub status: CellStatus,
    /// The environment of its runs: common, the ref's, the test's, and the parameters, the later over the earlier.
    pub env: BTreeMap<String, String>,
    /// Time limit of a run in seconds.
    pub timeout_seconds: Option<u64>,
    /// How often it runs.
    pub repeat: Repeat,
    /// The devices that its runs see, as written; `None` leaves that to the environment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub devices: Option<Vec<String>>,
}

/// The cells, and what the user should know about them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cells {
    /// In the order of the request's tests, then of the tests found, then of the parameters, then of the revisions.
    pub cells: Vec<PlannedCell>,
    /// What is odd, but no reason to stop.
    pub warnings: Vec<Complaint>,
}

/// More cells than this are a mistake in `params`, not a wish.
const MOST_CELLS: usize = 100_000;

/// The cells that the request makes of the tests found.
pub fn cells(request: &Request, revisions: &[ListedRevision<'_>]) -> Result<Cells, Complaint> {
    let found = found_tests(revisions);
    let filters = CellFilters::new(request, revisions)?;
    let mut planned = Cells::default();
    let mut names = CellNames::default();
    let mut taken: HashSet<&TestId> = HashSet::new();
    let mut matched_any = false;
    let mut excluded_any = false;
    for (index, entry) in request.tests.iter().enumerate() {
        let entry_name = EntryName { request, index };
        check_parameters(request, entry, &entry_name)?;
        let selector = Selector::new(&entry.selection)?;
        let template = entry.name.as_deref().map(str::parse::<Template>).transpose();
        let template = template.map_err(|error| Complaint::new(format!("{entry_name}: {error}")))?;
        let products = products(&entry.params);
        if !entry.rest && !found.is_empty() && !found.keys().any(|test| selector.matches_alone(test)) {
            planned.warnings.extend(no_match_of_entry(request, entry, &selector, &found, revisions)?);
        }
        let tests: Vec<&TestId> = (found.iter())
            .filter(|(test, at)| {
                selector.matches(test)
                    && (entry.selection.ignored != Ignored::Only || at.contains(&Some(true)))
                    && !(entry.rest && taken.contains(*test))
            })
            .map(|(test, _)| *test)
            .collect();
        matched_any |= !tests.is_empty();
        for test in tests {
            taken.insert(test);
            for params in &products {
                let title = match &template {
                    Some(template) => template.render(test, params).map_err(|(message, help)| {
                        Complaint::new(format!("{entry_name}: {message}")).help(help)
                    })?,
                    None => title::plain(test, params),
                };
                let cell = CellId { test: test.clone(), params: params.clone(), title };
                names.take(&cell, template.as_ref(), &entry_name)?;
                for (index, listed) in revisions.iter().enumerate() {
                    if !filters.keep(listed.revision, &cell) {
                        excluded_any = true;
                        continue;
                    }
                    planned.cells.push(PlannedCell {
                        revision: index,
                        status: status(listed, found[test][index], entry.selection.ignored),
                        env: environment(request, listed.revision, entry, params),
                        timeout_seconds: entry.timeout_seconds.or(request.timeout_seconds),
                        repeat: entry.repeat.unwrap_or(request.repeat),
                        devices: entry.devices.clone(),
                        cell: cell.clone(),
                    });
                }
                if planned.cells.len() > MOST_CELLS {
                    return Err(Complaint::new(format!("{entry_name}: more than {MOST_CELLS} cells"))
                        .help("select fewer tests, or fewer values of parameters"));
                }
            }
        }
    }
    complain_of_nothing(request, &found, revisions, &planned, matched_any, excluded_any)?;
    Ok(planned)
}

fn status(listed: &ListedRevision<'_>, ignored_here: Option<bool>, ignored: Ignored) -> CellStatus {
    match (listed.tests, ignored_here, ignored) {
        (None, ..) => CellStatus::BuildFailed,
        (_, None, _) => CellStatus::NotInThisRef,
        (_, Some(true), Ignored::Skip) => CellStatus::Ignored,
        // With `--ignored`, a test that only one side ignores runs on both: else there would be nothing to compare.
        _ => CellStatus::Run,
    }
}

/// The product of the parameters' values in the order written: the last one changes fastest.
fn products(params: &IndexMap<String, Vec<String>>) -> Vec<Vec<(String, String)>> {
    let mut products = vec![Vec::new()];
    for (name, values) in params {
        products = products
            .into_iter()
            .flat_map(|product: Vec<(String, String)>| {
                values.iter().map(move |value| {
                    let mut longer = product.clone();
                    longer.push((name.clone(), value.clone()));
                    longer
                })
            })
            .collect();
    }
    products
}

fn environment(
    request: &Request,
    revision: &Revision,
    entry: &TestRequest,
    params: &[(String, String)],
) -> BTreeMap<String, String> {
    let mut env = request.env.clone();
    env.extend(revision.request_in(request).into_iter().flat_map(|one| one.env.clone()));
    env.extend(entry.env.clone());
    env.extend(params.iter().cloned());
    env
}

fn check_parameters(
    request: &Request,
    entry: &TestRequest,
    entry_name: &EntryName<'_>,
) -> Result<(), Complaint> {
    let everywhere = || {
        let refs = request.refs.iter().map(|one| &one.env);
        refs.chain([&request.env, &entry.env])
    };
    let chooses_devices = |env: &BTreeMap<String, String>| env.contains_key(VISIBLE);
    if entry.devices.is_some() && (everywhere().any(chooses_devices) || entry.params.contains_key(VISIBLE)) {
        return Err(Complaint::new(format!("{entry_name}: `device` and {VISIBLE} both choose devices"))
            .help(format!("leave one of them out: `device` is what {VISIBLE} becomes")));
    }
    let mut count: usize = 1;
    for (name, values) in &entry.params {
        let complain = |message: String| Err(Complaint::new(format!("{entry_name}: {message}")));
        if everywhere().any(|env| env.contains_key(name)) {
            return complain(format!("parameter '{name}' is also set under `env`")).map_err(
                |complaint: Complaint| {
                    complaint.help("a parameter is an environment variable: rename one of them")
                },
            );
        }
        if values.is_empty() {
            return complain(format!("parameter '{name}' has no values"));
        }
        let twice = values.iter().enumerate().find(|(index, value)| values[..*index].contains(value));
        if let Some((_, value)) = twice {
            return complain(format!("parameter '{name}' has the value '{value}' twice"));
        }
        count = count.saturating_mul(values.len());
        if count > MOST_CELLS {
            return complain(format!("its parameters make more than {MOST_CELLS} combinations"));
        }
    }
    Ok(())
}

/// An entry that means nothing is a mistake, unless the user is only looking at a part of what the matrix speaks of, or
/// what it means may be in a revision that did not build.
fn no_match_of_entry(
    request: &Request,
    entry: &TestRequest,
    selector: &Selector<'_>,
    found: &TestsByRevision<'_>,
    revisions: &[ListedRevision<'_>],
) -> Result<Option<Complaint>, Complaint> {
    let build = &request.build;
    let part_only = entry.selection.within.is_some()
        || build.lib
        || [&build.packages, &build.bins, &build.tests, &build.examples, &build.benches]
            .iter()
            .any(|names| !names.is_empty());
    let complaint = no_match(&described_or_any(entry), selector, found, revisions);
    let failed = revisions.iter().any(|listed| listed.tests.is_none());
    if (part_only && request.tests.len() > 1) || failed { Ok(Some(complaint)) } else { Err(complaint) }
}

fn described_or_any(entry: &TestRequest) -> String {
    let words = described(&crate::plan::request::Selection { within: None, ..entry.selection.clone() });
    if words.is_empty() { "anything".to_owned() } else { words }
}

/// Where nothing at all would run, says why.
fn complain_of_nothing(
    request: &Request,
    found: &TestsByRevision<'_>,
    revisions: &[ListedRevision<'_>],
    planned: &Cells,
    matched_any: bool,
    excluded_any: bool,
) -> Result<(), Complaint> {
    if revisions.iter().any(|listed| listed.tests.is_none()) {
        return Ok(());
    }
    if found.is_empty() {
        return Err(Complaint::new(format!("there are no tests in {}", places(revisions))).help(
            "was the right package built? --workspace builds all; --overlay brings a test along that no revision has",
        ));
    }
    if planned.cells.is_empty() && matched_any && excluded_any {
        return Err(Complaint::new("`exclude` and `include` leave no cell to run"));
    }
    if planned.cells.is_empty() {
        let selection = request.tests.last().map(|entry| &entry.selection);
        let selector = selection.map(Selector::new).transpose()?;
        let words = selection.map(described).unwrap_or_default();
        let only_ignored = selection.is_some_and(|selection| selection.ignored == Ignored::Only);
        let words = if only_ignored { format!("{words} --ignored").trim().to_owned() } else { words };
        return Err(match selector {
            Some(selector) => no_match(&words, &selector, found, revisions),
            None => Complaint::new("no tests are selected"),
        });
    }
    if !planned.cells.iter().any(|cell| cell.status == CellStatus::Run) {
        return Err(Complaint::new(format!(
            "each test that matches is marked #[ignore] in {}",
            places(revisions)
        ))
        .help("--include-ignored runs them too, --ignored only them"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::listing::DiscoveredTest;
    use crate::plan::request::{CellPattern, RefRequest, Selection, TargetKind};

    fn revision(name: &str, commit: &str) -> Revision {
        Revision {
            name: name.into(),
            spec: name.into(),
            commit: commit.into(),
            tree: commit.into(),
            subject: String::new(),
            time: 0,
            found: None,
            working_tree: false,
        }
    }

    fn listed(names: &[&str]) -> Vec<DiscoveredTest> {
        let test = |name: &&str| DiscoveredTest {
            id: TestId {
                package: "bart".into(),
                binary: "tests".into(),
                kind: TargetKind::Test,
                name: name.trim_end_matches('!').into(),
            },
            ignored: name.ends_with('!'),
        };
        names.iter().map(test).collect()
    }

    fn request(tests: Vec<TestRequest>) -> Request {
        let one = |spec: &str| RefRequest { spec: spec.into(), ..RefRequest::default() };
        Request {
            refs: vec![one("main"), one("pr/7")],
            tests,
            repeat: Repeat::Times(1),
            ..Request::default()
        }
    }

    fn entry(expression: &str) -> TestRequest {
        let selection = Selection { expression: Some(expression.into()), ..Selection::default() };
        TestRequest { selection, ..TestRequest::default() }
    }

    fn with_params(mut entry: TestRequest, name: Option<&str>, params: &[(&str, &[&str])]) -> TestRequest {
        entry.name = name.map(str::to_owned);
        let values = |values: &[&str]| values.iter().map(|value| (*value).to_owned()).collect();
        entry.params = params.iter().map(|(name, of)| ((*name).to_owned(), values(of))).collect();
        entry
    }

    fn planned(
        request: &Request,
        main: Option<&[&str]>,
        candidate: Option<&[&str]>,
    ) -> Result<Cells, Complaint> {
        let revisions = [revision("main", "4f1c2aa000"), revision("pr/7", "9be0d13000")];
        let tests = [main.map(listed), candidate.map(listed)];
        let both: Vec<ListedRevision<'_>> = (revisions.iter().zip(&tests))
            .map(|(revision, tests)| ListedRevision { revision, tests: tests.as_deref() })
            .collect();
        cells(request, &both)
    }

    /// `title@revision status`, a line a cell.
    fn shown_cells(request: &Request, main: &[&str], candidate: &[&str]) -> String {
        let cells = planned(request, Some(main), Some(candidate))
            .unwrap_or_else(|complaint| panic!("{}", complaint.rendered()));
        let line = |cell: &PlannedCell| format!("{}@{} {:?}", cell.cell.title, cell.revision, cell.status);
        cells.cells.iter().map(line).collect::<Vec<_>>().join("\n")
    }

    fn complaint(request: &Request, main: &[&str], candidate: &[&str]) -> String {
        match planned(request, Some(main), Some(candidate)) {
            Err(complaint) => complaint.rendered(),
            Ok(cells) => panic!("accepted: {cells:?}"),
        }
    }

    #[test]
    fn a_test_of_one_ref_only_is_shown_as_such() {
        insta::assert_snapshot!(shown_cells(&request(vec![entry("hf")]), &["hf_fwd", "hf_old", "other"], &["hf_new", "hf_fwd"]), @"
        hf_fwd@0 Run
        hf_fwd@1 Run
        hf_old@0 Run
        hf_old@1 NotInThisRef
        hf_new@0 NotInThisRef
        hf_new@1 Run
        ");
    }

    #[test]
    fn ignored_tests_are_as_libtest_has_them() {
        let with = |ignored| {
            let mut entry = entry("hf");
            entry.selection.ignored = ignored;
            shown_cells(&request(vec![entry]), &["hf_a", "hf_b!"], &["hf_a", "hf_b"])
        };
        assert_eq!(with(Ignored::Skip), "hf_a@0 Run\nhf_a@1 Run\nhf_b@0 Ignored\nhf_b@1 Run");
        assert_eq!(with(Ignored::Include), "hf_a@0 Run\nhf_a@1 Run\nhf_b@0 Run\nhf_b@1 Run");
        assert_eq!(with(Ignored::Only), "hf_b@0 Run\nhf_b@1 Run");
        insta::assert_snapshot!(complaint(&request(vec![entry("hf")]), &["hf_a!"], &["hf_a!"]), @"
        error: each test that matches is marked #[ignore] in main (4f1c2aa) or pr/7 (9be0d13)
          help: --include-ignored runs them too, --ignored only them
        ");
    }

    #[test]
    fn parameters_multiply_in_the_order_written_and_name_the_cells() {
        let entry = with_params(
            entry("bert"),
            Some("bert/{batch}/{dtype}"),
            &[("batch", &["8", "64"]), ("dtype", &["f32", "bf16"])],
        );
        let mut request = request(vec![entry]);
        request.exclude = vec![crate::plan::cell_pattern::parse("ref=pr/7,batch=64,dtype=f32").unwrap()];
        insta::assert_snapshot!(shown_cells(&request, &["bert"], &["bert"]), @"
        bert/8/f32@0 Run
        bert/8/f32@1 Run
        bert/8/bf16@0 Run
        bert/8/bf16@1 Run
        bert/64/f32@0 Run
        bert/64/bf16@0 Run
        bert/64/bf16@1 Run
        ");
        request.include = vec![crate::plan::cell_pattern::parse("dtype=f32").unwrap()];
        assert_eq!(
            shown_cells(&request, &["bert"], &["bert"]),
            "bert/8/f32@0 Run\nbert/8/f32@1 Run\nbert/64/f32@0 Run"
        );
        request.include.clear();
        request.exclude = vec![CellPattern { test: Some("bert".into()), ..CellPattern::default() }];
        assert!(complaint(&request, &["bert"], &["bert"]).contains("leave no cell"));
    }

    #[test]
    fn the_environment_is_the_common_one_then_the_refs_the_tests_and_the_parameters() {
        let mut entry = with_params(entry("bert"), None, &[("batch", &["8"])]);
        let variables = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect()
        };
        entry.env = variables(&[("C", "test")]);
        entry.repeat = Some(Repeat::Times(3));
        let mut request = request(vec![entry]);
        request.env = variables(&[("A", "common"), ("B", "common"), ("C", "common")]);
        request.refs[1].env = variables(&[("B", "ref"), ("C", "ref")]);
        request.timeout_seconds = Some(60);
        let cells = planned(&request, Some(&["bert"]), Some(&["bert"])).unwrap().cells;
        assert_eq!(
            cells[0].env,
            variables(&[("A", "common"), ("B", "common"), ("C", "test"), ("batch", "8")])
        );
        assert_eq!(cells[1].env["B"], "ref");
        assert_eq!((cells[0].repeat, cells[0].timeout_seconds), (Repeat::Times(3), Some(60)));
        assert_eq!(cells[0].cell.title, "bert[batch=8]");
    }

    #[test]
    fn a_cells_device_is_the_entrys_and_nothing_else_may_choose_one() {
        let given = TestRequest { devices: Some(vec!["1".into()]), ..entry("bert") };
        let mut request = request(vec![given]);
        let cells = planned(&request, Some(&["bert"]), Some(&["bert"])).unwrap().cells;
        assert!(cells.iter().all(|cell| cell.devices == Some(vec!["1".to_owned()])));
        request.env.insert(VISIBLE.into(), "0".into());
        insta::assert_snapshot!(complaint(&request, &["bert"], &["bert"]), @"
        error: -k 'bert': `device` and CUDA_VISIBLE_DEVICES both choose devices
          help: leave one of them out: `device` is what CUDA_VISIBLE_DEVICES becomes
        ");
        request.give_devices(&["0".into()]);
        assert_eq!(request.tests[0].devices, Some(vec!["0".to_owned()]));
    }

    #[test]
    fn two_cells_of_one_name_are_an_error_that_names_both() {
        let both: &[&str] = &["bert", "bert_large"];
        let lacking = with_params(entry("bert_large"), Some("bert"), &[("batch", &["8", "64"])]);
        insta::assert_snapshot!(complaint(&request(vec![lacking]), both, both), @"
        error: two cells are named 'bert': bart::tests::bert_large with batch=8 and bart::tests::bert_large with batch=64
          help: put {batch} into the name
        ");
        insta::assert_snapshot!(complaint(&request(vec![with_params(entry("bert"), Some("bert"), &[])]), both, both), @"
        error: two cells are named 'bert': bart::tests::bert and bart::tests::bert_large
          help: put {test} into the name (or {package}, {binary})
        ");
        insta::assert_snapshot!(complaint(&request(vec![entry("bert"), entry("large")]), both, both), @"
        error: two cells are named 'bert_large': bart::tests::bert_large and bart::tests::bert_large
          help: tests[0] (-k 'bert') and tests[1] (-k 'large') select the same test: give one a `name`
        ");
    }

    #[test]
    fn a_parameter_that_is_also_a_variable_or_says_a_thing_twice_is_refused() {
        let mut set_twice = request(vec![with_params(entry("bert"), None, &[("batch", &["8"])])]);
        set_twice.refs[0].env.insert("batch".into(), "1".into());
        insta::assert_snapshot!(complaint(&set_twice, &["bert"], &["bert"]), @"
        error: -k 'bert': parameter 'batch' is also set under `env`
          help: a parameter is an environment variable: rename one of them
        ");
        let refused = |name, values: &[&str]| {
            complaint(
                &request(vec![with_params(entry("bert"), name, &[("batch", values)])]),
                &["bert"],
                &["bert"],
            )
        };
        assert!(refused(None, &["8", "8"]).contains("has the value '8' twice"));
        assert!(refused(None, &[]).contains("has no values"));
        assert!(refused(Some("bert/{bacth}"), &["8"]).contains("did you mean 'batch'?"));
    }

    #[test]
    fn a_filter_that_matches_nothing_lists_the_nearest_names() {
        let all: &[&str] = &["hf_fwd", "hf_bwd", "parses"];
        insta::assert_snapshot!(complaint(&request(vec![entry("hf_fdw")]), all, all), @"
        error: no test matches -k 'hf_fdw' in main (4f1c2aa) or pr/7 (9be0d13)
          help: nearest: hf_fwd, hf_bwd · `cargo memprof list` shows all 3
        ");
        // One entry of several, too: it may be a typing mistake, and its silence would be taken for a result.
        assert!(complaint(&request(vec![entry("parses"), entry("hf_fdw")]), all, all).contains("hf_fdw"));
        assert!(
            complaint(&request(vec![entry("hf")]), &[], &[]).contains("there are no tests in main (4f1c2aa)")
        );
    }

    #[test]
    fn an_entry_that_the_command_line_passes_by_is_no_mistake() {
        let narrowing = Selection { expression: Some("parses".into()), ..Selection::default() };
        let narrowed = |expression| {
            let mut entry = entry(expression);
            entry.selection.within = Some(Box::new(narrowing.clone()));
            entry
        };
        let rest = TestRequest { selection: narrowing.clone(), rest: true, ..TestRequest::default() };
        let named = with_params(narrowed("hf or parses_a"), None, &[("batch", &["8"])]);
        let cells = shown_cells(&request(vec![named, rest]), &["hf", "parses_a", "parses_b"], &[]);
        assert_eq!(
            cells,
            "parses_a[batch=8]@0 Run\nparses_a[batch=8]@1 NotInThisRef\nparses_b@0 Run\nparses_b@1 NotInThisRef"
        );
    }

    #[test]
    fn a_revision_that_did_not_build_keeps_its_cells_and_stops_no_other() {
        let cells = planned(&request(vec![entry("hf")]), Some(&["hf"]), None).unwrap();
        let statuses: Vec<_> = cells.cells.iter().map(|cell| cell.status).collect();
        assert_eq!(statuses, [CellStatus::Run, CellStatus::BuildFailed]);
        // The test may be in the revision that did not build, so its absence elsewhere is no mistake of the user's.
        let cells = planned(&request(vec![entry("hf_new")]), Some(&["hf"]), None).unwrap();
        assert!(cells.cells.is_empty() && cells.warnings.len() == 1, "{cells:?}");
        assert_eq!(planned(&request(vec![entry("hf")]), None, None).unwrap(), Cells::default());
    }

    #[test]
    fn a_pattern_that_can_mean_no_cell_is_refused() {
        let refused = |pattern: &str| {
            let mut request = request(vec![with_params(entry("bert"), None, &[("batch", &["8"])])]);
            request.exclude = vec![crate::plan::cell_pattern::parse(pattern).unwrap()];
            complaint(&request, &["bert"], &["bert"])
        };
        assert!(refused("ref=mian").contains("did you mean 'main'?"));
        assert!(refused("bach=8").contains("did you mean 'batch'?"));
        assert!(refused("batch=9").contains("never has the value '9'"));
    }
}
