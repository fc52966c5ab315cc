//! Makes the cells of a plan from the request and each revision's tests.

use std::collections::HashSet;

use crate::cell_filters::CellFilters;
use crate::cell_names::{CellNames, EntryName};
pub use crate::cell_status::CellStatus;
use crate::cell_status::status;
use crate::exact_names::ExactNames;
use crate::listing::{ListedRevision, tests_by_revision};
use crate::nothing_selected::{Choice, no_program};
use crate::parameter::{check_parameters, combinations};
use crate::plan_size::PlanSize;
pub use crate::planned_cell::PlannedCell;
use crate::planned_cell::environment;
use crate::program::ProgramRequest;
use crate::request::{Ignored, Request, TestRequest};
use crate::resolved::{CellId, TestId};
use crate::selection::Selector;
use crate::title::{self, Template};
use memprof_support::user_error::UserError;

/// The cells, and warnings about them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cells {
    /// In the order of the request's entries, then of the tests, the parameters and the revisions.
    pub cells: Vec<PlannedCell>,
    /// What is odd, but not an error.
    pub warnings: Vec<UserError>,
}

/// Returns the cells that the request makes of the revisions' tests.
///
/// # Errors
/// A mistake in the request, two cells of one name, or nothing to run.
pub fn cells(request: &Request, revisions: &[ListedRevision<'_>]) -> Result<Cells, UserError> {
    let mut planner = Planner {
        choice: Choice {
            request,
            revisions,
            tests: tests_by_revision(revisions, false),
            programs: tests_by_revision(revisions, true),
        },
        filters: CellFilters::new(request, revisions)?,
        names: CellNames::default(),
        exact_of_flags: request
            .tests
            .iter()
            .find(|entry| entry.rest)
            .map_or_else(ExactNames::default, ExactNames::of_entry),
        taken: HashSet::new(),
        planned: Cells::default(),
        size: PlanSize::default(),
        excluded_any: false,
    };
    for index in 0..request.tests.len() {
        planner.add_entry(&EntryName { request, index })?;
    }
    planner.choice.check_that_something_runs(&planner.planned.cells, planner.excluded_any)?;
    Ok(planner.planned)
}

/// Plans one entry of `tests` after the other.
struct Planner<'a> {
    choice: Choice<'a>,
    filters: CellFilters<'a>,
    names: CellNames,
    /// The names of the command line, which also selects cells of other entries.
    exact_of_flags: ExactNames<'a>,
    /// The tests that an entry so far has selected.
    taken: HashSet<&'a TestId>,
    planned: Cells,
    size: PlanSize,
    /// Whether `exclude` or `include` left out a cell.
    excluded_any: bool,
}

impl<'a> Planner<'a> {
    fn add_entry(&mut self, entry_name: &EntryName<'_>) -> Result<(), UserError> {
        let entry = &self.choice.request.tests[entry_name.index];
        check_parameters(self.choice.request, entry, entry_name)?;
        let template = entry.name.as_deref().map(str::parse::<Template>).transpose();
        let template = template.map_err(|error| UserError::new(format!("{entry_name}: {error}")))?;
        let selector = Selector::new(&entry.selection)?;
        let combinations = combinations(&entry.params);
        if let Some(program) = &entry.program {
            return self.add_program(entry, program, template.as_ref(), entry_name);
        }
        let mut is_unmatched = true;
        let mut exact = if entry.rest { ExactNames::default() } else { ExactNames::of_entry(entry) };
        let mut taken = Vec::new();
        for (test, is_wanted) in self.wanted(entry) {
            for params in &combinations {
                let title = title_of(test, params, template.as_ref(), entry_name)?;
                // A name that the entry gives cannot be what it selects by.
                let own_title = template.is_none().then_some(&*title);
                exact.see(test, own_title);
                self.exact_of_flags.see(test, own_title);
                if !selector.matches(test, own_title) {
                    continue;
                }
                is_unmatched = false;
                self.exact_of_flags.see(test, Some(&title));
                if !is_wanted {
                    continue;
                }
                taken.push(test);
                if selector.keeps(test, &title) {
                    let cell = CellId { test: test.clone(), params: params.clone(), title, program: None };
                    if self.add_cell(entry, &cell, &[]) {
                        self.names.take(&cell, template.as_ref(), entry_name)?;
                    }
                    self.size.check(entry_name)?;
                }
            }
        }
        self.taken.extend(taken);
        let has_any = !self.choice.tests.is_empty() || !self.choice.programs.is_empty();
        if is_unmatched && !entry.rest && has_any {
            self.planned.warnings.extend(self.choice.unmatched_entry(entry, &selector)?);
        }
        let exact = if entry.rest { &self.exact_of_flags } else { &exact };
        if let Some(missing) = exact.missing() {
            self.planned.warnings.extend(self.choice.unmatched_names(entry, &missing)?);
        }
        Ok(())
    }

    /// Adds the cells of a program: one for each combination of parameters.
    fn add_program(
        &mut self,
        entry: &'a TestRequest,
        program: &ProgramRequest,
        template: Option<&Template>,
        entry_name: &EntryName<'_>,
    ) -> Result<(), UserError> {
        let selector = Selector::new(&entry.selection)?;
        let is_named = |test: &&&TestId| test.kind == program.kind && test.binary == program.name;
        let found: Vec<&'a TestId> = self.choice.programs.keys().filter(is_named).copied().collect();
        let found: Vec<&TestId> = found.into_iter().filter(|test| selector.matches(test, None)).collect();
        if found.is_empty() && !self.choice.any_has_unknown_tests() {
            return Err(no_program(program, self.choice.revisions));
        }
        for test in found {
            for params in combinations(&entry.params) {
                let complain =
                    |(message, help)| UserError::new(format!("{entry_name}: {message}")).help(help);
                let args = program.arguments(&params).map_err(complain)?;
                let given = program.call(&args);
                let title = match template {
                    Some(_) => title_of(test, &params, template, entry_name)?,
                    None => program.title(&given, &params),
                };
                let cell = CellId { test: test.clone(), params, title, program: Some(given) };
                self.exact_of_flags.see(test, Some(&cell.title));
                self.exact_of_flags.see(test, Some(&cell.full_name()));
                if !selector.keeps(test, &cell.title) && !selector.keeps(test, &cell.full_name()) {
                    continue;
                }
                if self.add_cell(entry, &cell, &args) {
                    self.names.take(&cell, template, entry_name)?;
                }
                self.size.check(entry_name)?;
            }
        }
        Ok(())
    }

    /// Returns the tests in the order found, and whether the entry may run them: `#[ignore]` may
    /// forbid it, or an earlier entry.
    fn wanted(&self, entry: &TestRequest) -> Vec<(&'a TestId, bool)> {
        let is_wanted = |test: &TestId, ignored: &[Option<bool>]| {
            (entry.selection.ignored != Ignored::Only || ignored.contains(&Some(true)))
                && !(entry.rest && self.taken.contains(test))
        };
        self.choice.tests.iter().map(|(test, ignored)| (*test, is_wanted(test, ignored))).collect()
    }

    /// Adds the cell at each revision, as ignored where a filter leaves it out. If none keeps it, returns false.
    fn add_cell(&mut self, entry: &TestRequest, cell: &CellId, args: &[String]) -> bool {
        let listed_in = if cell.program.is_some() { &self.choice.programs } else { &self.choice.tests };
        let ignored: Vec<Option<bool>> = listed_in[&cell.test].clone();
        let kept = self.filters.kept(self.choice.revisions, cell);
        self.excluded_any |= kept.contains(&false);
        let is_kept = kept.contains(&true);
        for (index, listed) in self.choice.revisions.iter().enumerate().filter(|_| is_kept) {
            let env = environment(self.choice.request, listed.revision, entry, &cell.params);
            let repeat = entry.repeat.unwrap_or(self.choice.request.settings.repeat);
            self.size.add(repeat, env.len());
            let status = status(listed, &cell.test, ignored[index], entry.selection.ignored);
            self.planned.cells.push(PlannedCell {
                revision: index,
                status: if kept[index] { status } else { CellStatus::Ignored },
                env,
                args: args.to_vec(),
                exit_code: entry.program.as_ref().map_or(0, |program| program.exit_code),
                timeout_seconds: entry.timeout_seconds.or(self.choice.request.settings.timeout_seconds),
                repeat,
                devices: entry.devices.clone(),
                cell: cell.clone(),
            });
        }
        is_kept
    }
}

fn title_of(
    test: &TestId,
    params: &[(String, String)],
    template: Option<&Template>,
    entry_name: &EntryName<'_>,
) -> Result<String, UserError> {
    let Some(template) = template else { return Ok(title::plain(test, params)) };
    template
        .render(test, params)
        .map_err(|(message, help)| UserError::new(format!("{entry_name}: {message}")).help(help))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listing::DiscoveredTest;
    use crate::repeat::Repeat;
    use crate::request::{CellPattern, RefRequest, Selection, TargetKind};
    use crate::resolved::Revision;
    use crate::settings::RunSettings;
    use memprof_gpu::visible_devices::VISIBLE;

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
            is_program: false,
        };
        names.iter().map(test).collect()
    }

    fn request(tests: Vec<TestRequest>) -> Request {
        let one = |spec: &str| RefRequest { spec: spec.into(), ..RefRequest::default() };
        Request {
            refs: vec![one("main"), one("pr/7")],
            tests,
            settings: RunSettings { repeat: Repeat::Times(1), ..RunSettings::default() },
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
    ) -> Result<Cells, UserError> {
        let revisions = [revision("main", "4f1c2aa000"), revision("pr/7", "9be0d13000")];
        let tests = [main.map(listed), candidate.map(listed)];
        let both: Vec<ListedRevision<'_>> = (revisions.iter().zip(&tests))
            .map(|(revision, tests)| ListedRevision {
                revision,
                tests: tests.as_deref(),
                not_measured: &[],
                known_programs: &[],
            })
            .collect();
        cells(request, &both)
    }

    /// Returns `title@revision status`, one line for each cell.
    fn shown_cells(request: &Request, main: &[&str], candidate: &[&str]) -> String {
        let cells = planned(request, Some(main), Some(candidate))
            .unwrap_or_else(|user_error| panic!("{}", user_error.rendered()));
        let line = |cell: &PlannedCell| format!("{}@{} {:?}", cell.cell.title, cell.revision, cell.status);
        cells.cells.iter().map(line).collect::<Vec<_>>().join("\n")
    }

    fn user_error(request: &Request, main: &[&str], candidate: &[&str]) -> String {
        match planned(request, Some(main), Some(candidate)) {
            Err(user_error) => user_error.rendered(),
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
        insta::assert_snapshot!(user_error(&request(vec![entry("hf")]), &["hf_a!"], &["hf_a!"]), @"
        error: each test that matches is marked #[ignore] in main (4f1c2aa) or pr/7 (9be0d13)
          help: --include-ignored runs them too, --ignored runs only them
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
        request.exclude = vec![crate::cell_pattern::parse("ref=pr/7,batch=64,dtype=f32").unwrap()];
        insta::assert_snapshot!(shown_cells(&request, &["bert"], &["bert"]), @"
        bert/8/f32@0 Run
        bert/8/f32@1 Run
        bert/8/bf16@0 Run
        bert/8/bf16@1 Run
        bert/64/f32@0 Run
        bert/64/f32@1 Ignored
        bert/64/bf16@0 Run
        bert/64/bf16@1 Run
        ");
        request.include = vec![crate::cell_pattern::parse("dtype=f32").unwrap()];
        assert_eq!(
            shown_cells(&request, &["bert"], &["bert"]),
            "bert/8/f32@0 Run\nbert/8/f32@1 Run\nbert/64/f32@0 Run\nbert/64/f32@1 Ignored"
        );
        request.include.clear();
        request.exclude = vec![CellPattern { test: Some("bert".into()), ..CellPattern::default() }];
        assert!(user_error(&request, &["bert"], &["bert"]).contains("leave no cell"));
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
        request.settings.timeout_seconds = Some(60);
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
        insta::assert_snapshot!(user_error(&request, &["bert"], &["bert"]), @"
        error: -k 'bert': `device` and CUDA_VISIBLE_DEVICES both choose devices
          help: remove one of them: `device` sets CUDA_VISIBLE_DEVICES
        ");
        request.give_devices(&["0".into()]);
        assert_eq!(request.tests[0].devices, Some(vec!["0".to_owned()]));
    }

    #[test]
    fn a_program_has_a_cell_for_each_set_of_parameters_and_no_test_is_one() {
        let program = |name: &str, args: &[&str]| TestRequest {
            program: Some(ProgramRequest {
                kind: TargetKind::Bin,
                name: name.into(),
                args: args.iter().map(|&word| word.into()).collect(),
                stdin: None,
                exit_code: 0,
            }),
            ..TestRequest::default()
        };
        let tool = TestId { kind: TargetKind::Bin, binary: "tool".into(), ..listed(&[""])[0].id.clone() };
        let found = [DiscoveredTest { id: tool, ignored: false, is_program: true }];
        let (main, other) = (revision("main", "4f1c2aa"), revision("pr/7", "9be0d13"));
        let planned = |entry: TestRequest| {
            let request = request(vec![entry]);
            let known_programs = &["bin tool".to_owned()][..];
            let of = |revision, tests| ListedRevision { revision, tests, not_measured: &[], known_programs };
            cells(&request, &[of(&main, Some(&found[..])), of(&other, Some(&[]))])
        };
        let sized = with_params(program("tool", &["--size", "{n}"]), None, &[("n", &["1", "2"])]);
        let cells = planned(sized).unwrap().cells;
        let shown: Vec<_> = cells.iter().map(|one| (one.cell.title.as_str(), one.status)).collect();
        let (run, absent) = (CellStatus::Run, CellStatus::NotInThisRef);
        let expected = ["tool --size 1", "tool --size 2"].map(|title| [(title, run), (title, absent)]);
        assert_eq!(shown, expected.concat());
        assert_eq!(
            (&cells[2].args[..], &cells[2].env["n"]),
            (&["--size".into(), "2".into()][..], &"2".into())
        );
        insta::assert_snapshot!(planned(program("tol", &[])).unwrap_err().rendered(), @"
        error: there is no bin 'tol' in main (4f1c2aa) or pr/7 (9be0d13)
          help: did you mean 'bin tool'?
        ");
        // The program is no test of the binary.
        assert!(planned(entry("tool")).unwrap_err().rendered().contains("no test matches"));
    }

    #[test]
    fn two_cells_of_one_name_are_an_error_that_names_both() {
        let both: &[&str] = &["bert", "bert_large"];
        let lacking = with_params(entry("bert_large"), Some("bert"), &[("batch", &["8", "64"])]);
        insta::assert_snapshot!(user_error(&request(vec![lacking]), both, both), @"
        error: two cells are named 'bert': bart::tests::bert_large with batch=8 and bart::tests::bert_large with batch=64
          help: put {batch} into the name
        ");
        insta::assert_snapshot!(user_error(&request(vec![with_params(entry("bert"), Some("bert"), &[])]), both, both), @"
        error: two cells are named 'bert': bart::tests::bert and bart::tests::bert_large
          help: put {test} into the name (or {package}, {binary})
        ");
        insta::assert_snapshot!(user_error(&request(vec![entry("bert"), entry("large")]), both, both), @"
        error: two cells are named 'bert_large': bart::tests::bert_large and bart::tests::bert_large
          help: tests[0] (-k 'bert') and tests[1] (-k 'large') select the same test: give one a `name`
        ");
    }

    #[test]
    fn a_parameter_that_is_also_a_variable_or_says_a_thing_twice_is_refused() {
        let mut set_twice = request(vec![with_params(entry("bert"), None, &[("batch", &["8"])])]);
        set_twice.refs[0].env.insert("batch".into(), "1".into());
        insta::assert_snapshot!(user_error(&set_twice, &["bert"], &["bert"]), @"
        error: -k 'bert': parameter 'batch' is also set under `env`
          help: a parameter is an environment variable: rename one of them
        ");
        let refused = |name, values: &[&str]| {
            user_error(
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
        insta::assert_snapshot!(user_error(&request(vec![entry("hf_fdw")]), all, all), @"
        error: no test matches -k 'hf_fdw' in main (4f1c2aa) or pr/7 (9be0d13)
          help: nearest: hf_fwd, hf_bwd
                to see all 3 tests: cargo memprof list main pr/7
        ");
        // One of several entries may be misspelt, too, and the user would take its silence for a
        // result.
        assert!(user_error(&request(vec![entry("parses"), entry("hf_fdw")]), all, all).contains("hf_fdw"));
        assert!(
            user_error(&request(vec![entry("hf")]), &[], &[])
                .contains("there are no tests in main (4f1c2aa)")
        );
    }

    #[test]
    fn each_exact_name_must_be_that_of_a_test_or_cell_at_some_revision() {
        let of_names = |names: &str| {
            let exact = names.split(' ').map(str::to_owned).collect();
            TestRequest { selection: Selection { exact, ..Selection::default() }, ..TestRequest::default() }
        };
        let (main, candidate): (&[&str], &[&str]) = (&["other", "buffer!"], &["other", "new"]);
        let mistyped = request(vec![of_names("other buffers")]);
        let error = user_error(&mistyped, main, candidate);
        assert!(error.starts_with("error: no test matches --exact buffers in main"), "{error}");
        assert!(error.contains("nearest: buffer"), "{error}");
        let warned =
            |request: &Request, candidate| planned(request, Some(main), candidate).unwrap().warnings.len();
        assert_eq!(warned(&request(vec![of_names("other buffer tests::new")]), Some(candidate)), 0);
        // Such a test may be where nothing was listed, and there is a warning instead.
        assert_eq!(warned(&mistyped, None), 1);
        assert_eq!(warned(&Request { has_other_revisions: true, ..mistyped.clone() }, Some(candidate)), 1);
        // The command line also names cells of other entries.
        let with_flags = |names: &str| {
            let mut named = with_params(of_names("other"), Some("RoBERTa/{batch}"), &[("batch", &["8"])]);
            named.selection.within = Some(Box::new(of_names(names).selection));
            request(vec![named, TestRequest { rest: true, ..of_names(names) }])
        };
        assert_eq!(warned(&with_flags("RoBERTa/8 buffer"), Some(candidate)), 0);
        let error = user_error(&with_flags("RoBERTa/8 buffers"), main, candidate);
        assert!(error.starts_with("error: no test matches --exact buffers in"), "{error}");
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
    fn the_command_line_selects_cells_by_their_names() {
        let both: &[&str] = &["hf", "other"];
        let shown = |narrowing: &Selection| {
            let mut named =
                with_params(entry("hf"), Some("RoBERTa/MNLI/{batch}"), &[("batch", &["8", "16"])]);
            named.selection.within = Some(Box::new(narrowing.clone()));
            let rest = TestRequest { selection: narrowing.clone(), rest: true, ..TestRequest::default() };
            shown_cells(&request(vec![named, rest]), both, both)
        };
        let only = "RoBERTa/MNLI/16@0 Run\nRoBERTa/MNLI/16@1 Run";
        assert_eq!(shown(&Selection { exact: vec!["RoBERTa/MNLI/16".into()], ..Selection::default() }), only);
        assert_eq!(shown(&Selection { expression: Some("mnli/16".into()), ..Selection::default() }), only);
        assert_eq!(shown(&Selection { regex: Some("I/16$".into()), ..Selection::default() }), only);
        // The test whose cells are all left out does not come back under its own name.
        let others = shown(&Selection { expression: Some("not RoBERTa".into()), ..Selection::default() });
        assert_eq!(others, "other@0 Run\nother@1 Run");

        // Without a matrix, the flags are the only entry.
        let mut alone = with_params(entry("hf"), None, &[("batch", &["8", "16"])]);
        alone.selection = Selection { exact: vec!["hf[batch=16]".into()], ..Selection::default() };
        assert_eq!(shown_cells(&request(vec![alone]), both, both), "hf[batch=16]@0 Run\nhf[batch=16]@1 Run");
    }

    #[test]
    fn a_revision_that_did_not_build_keeps_its_cells_and_stops_no_other() {
        let cells = planned(&request(vec![entry("hf")]), Some(&["hf"]), None).unwrap();
        let statuses: Vec<_> = cells.cells.iter().map(|cell| cell.status).collect();
        assert_eq!(statuses, [CellStatus::Run, CellStatus::BuildFailed]);
        // The revision that did not build may have the test, so the entry is not a mistake.
        let cells = planned(&request(vec![entry("hf_new")]), Some(&["hf"]), None).unwrap();
        assert!(cells.cells.is_empty() && cells.warnings.len() == 1, "{cells:?}");
        assert_eq!(planned(&request(vec![entry("hf")]), None, None).unwrap(), Cells::default());
    }

    #[test]
    fn cells_that_exclude_leaves_out_take_no_name() {
        let named = |dtype: &str| with_params(entry("bert"), Some("bert"), &[("dtype", &[dtype])]);
        let mut request = request(vec![named("f32"), named("bf16")]);
        assert!(user_error(&request, &["bert"], &["bert"]).contains("two cells are named 'bert'"));
        request.exclude = vec![crate::cell_pattern::parse("dtype=bf16").unwrap()];
        assert_eq!(shown_cells(&request, &["bert"], &["bert"]), "bert@0 Run\nbert@1 Run");
    }

    #[test]
    fn a_pattern_that_can_mean_no_cell_is_refused() {
        let refused = |pattern: &str| {
            let mut request = request(vec![with_params(entry("bert"), None, &[("batch", &["8"])])]);
            request.exclude = vec![crate::cell_pattern::parse(pattern).unwrap()];
            user_error(&request, &["bert"], &["bert"])
        };
        assert!(refused("ref=mian").contains("did you mean 'main'?"));
        assert!(refused("bach=8").contains("did you mean 'batch'?"));
        assert!(refused("batch=9").contains("never has the value '9'"));
    }
}
