//! Tracing in the checkout: finds the functions that a request means, edits their files, and
//! decides which edits to remove if the build fails.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use camino::{Utf8Path, Utf8PathBuf};
use cargo_metadata::diagnostic::Diagnostic;

use crate::checkout::injected_files::InjectedFiles;
use crate::inject::checkout_edits::AddedFiles;
use crate::inject::module_files;
use crate::inject::source_edit::SourceText;
use crate::trace::crates::Crate;
use crate::trace::functions::{self, Depth, Function, Selected, Want};
use crate::trace::lines;
use memprof_judge::results::trace_facts::{Excerpt, TraceFacts, TracedFunction, Untraced};
use memprof_plan::request::TraceRequest;
use memprof_plan::trace_pattern::{PathSegment, TracePattern, shown};
use memprof_plan::trace_periods::{PatternPeriod, PeriodError};
use memprof_support::suggest;
use memprof_support::user_error::UserError;

/// The trace patterns of a request.
#[derive(Clone, Debug, Default)]
pub struct Patterns {
    patterns: Vec<(TracePattern, Depth)>,
    periods: Vec<PatternPeriod>,
}

impl Patterns {
    /// Parses the patterns of a request, which contains their texts.
    pub fn parse(request: &TraceRequest) -> Result<Self, UserError> {
        let of_depth = |texts: &[String], depth: Depth| {
            let read = |text: &String| text.parse::<TracePattern>().map(|pattern| (pattern, depth));
            texts.iter().map(read).collect::<Result<Vec<_>, _>>()
        };
        // Lines come first: if both match a function, its lines are measured, and its calls are
        // scopes anyway.
        let both = of_depth(&request.lines, Depth::Lines)
            .and_then(|lines| Ok([lines, of_depth(&request.functions, Depth::Calls)?].concat()));
        let patterns = both.map_err(|error| UserError::new(error.to_string()))?;
        let periods = request.every_of.iter().map(|text| text.parse());
        let periods = periods.collect::<Result<_, PeriodError>>();
        Ok(Self { patterns, periods: periods.map_err(|error| UserError::new(error.to_string()))? })
    }

    /// Whether there are no patterns.
    pub fn is_empty(&self) -> bool {
        self.patterns.is_empty()
    }

    /// Returns the patterns' texts with how their functions are traced, for the build key.
    pub fn texts(&self) -> Vec<String> {
        let patterns = self.patterns.iter().map(|(pattern, depth)| format!("{depth:?} {pattern}"));
        patterns.chain(self.periods.iter().map(|period| format!("every {period}"))).collect()
    }

    /// Returns the crates that patterns name outright.
    pub(crate) fn crate_names(&self) -> BTreeSet<&str> {
        self.patterns.iter().filter_map(|(pattern, _)| pattern.crate_name()).collect()
    }
}

/// Functions that are not edited, with the reason: by file, relative to the base of [`Search`], and
/// by the line of the name.
pub(crate) type Dropped = BTreeMap<(Utf8PathBuf, usize), String>;

/// The traced functions of some crates below one folder.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tracing {
    edited: BTreeMap<Utf8PathBuf, EditedFile>,
    /// Whether some of the crates are not members of the workspace.
    beyond_members: bool,
    /// What the build's entry in the store keeps of it.
    pub facts: TraceFacts,
}

#[derive(Clone, Debug)]
struct EditedFile {
    text: String,
    functions: Vec<Function>,
}

/// Where to look for functions, and which to trace.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Search<'a> {
    /// The crates to look in.
    pub crates: &'a [Crate],
    /// The patterns of functions to trace.
    pub patterns: &'a Patterns,
    /// The folder that file names are relative to.
    pub base: &'a Utf8Path,
    /// The prefix of file names in reports.
    pub prefix: &'a Utf8Path,
    /// Functions whose edits made an earlier build fail.
    pub dropped: &'a Dropped,
    /// Hash of the shim that the edits link to.
    pub shim_hash: &'a str,
}

/// Finds the functions that the patterns match, and edits their files in memory, except for the
/// dropped functions.
pub(crate) fn find(search: &Search<'_>) -> Tracing {
    let mut tracing = Tracing::default();
    let Patterns { patterns, periods } = search.patterns;
    let matched = RefCell::new(vec![false; patterns.len()]);
    let with_period = RefCell::new(vec![false; periods.len()]);
    let mut taken: BTreeMap<Utf8PathBuf, BTreeMap<usize, Selected>> = BTreeMap::new();
    for one in search.crates {
        module_files::visit_files(&one.root, &one.package, &mut |file| {
            let Ok(path) = file.path.strip_prefix(search.base) else { return };
            // A file of several crates has a module path in each, and patterns may match any of
            // them.
            let of_others = taken.get(path).cloned().unwrap_or_default();
            let wants = |function: &[PathSegment], line: usize| {
                let mut wanted = of_others.get(&line).copied();
                for (index, (pattern, depth)) in patterns.iter().enumerate() {
                    if pattern.matches(function, one.is_own) {
                        matched.borrow_mut()[index] = true;
                        let is_named = pattern.names_functions();
                        let selected = Selected { depth: *depth, is_named, every: None };
                        wanted = Some(wanted.map_or(selected, |wanted: Selected| wanted.and(selected)));
                    }
                }
                if let Some(selected) = &mut wanted {
                    let period =
                        periods.iter().position(|period| period.pattern.matches(function, one.is_own));
                    if let Some(index) = period {
                        with_period.borrow_mut()[index] = true;
                    }
                    selected.every = selected.every.or(period.map(|index| periods[index].every));
                }
                match (wanted, search.dropped.get(&(path.to_owned(), line))) {
                    (None, _) => Want::Nothing,
                    (Some(selected), None) => Want::Traced(selected),
                    (Some(selected), Some(reason)) => Want::Refused(selected, reason.clone()),
                }
            };
            let shown = search.prefix.join(path);
            let (functions, edited) =
                functions::trace(file, shown.as_str(), &one.name, one.untraceable, &wants);
            let is_same = functions.len() == of_others.len()
                && functions.iter().all(|function| {
                    let other = of_others.get(&function.line);
                    other.is_some_and(|other| function.is_edited_as(*other))
                });
            if is_same {
                return;
            }
            if !of_others.is_empty() {
                tracing.forget(path, &shown);
            }
            let lines = functions.iter().map(|function| (function.line, function.selected)).collect();
            taken.insert(path.to_owned(), lines);
            let found = TracedFile { path, shown, source: &file.source, functions, edited };
            tracing.take(found, one.is_member, search);
        });
    }
    let unmet = patterns.iter().zip(matched.into_inner()).filter(|(_, matched)| !matched);
    tracing.facts.unmet = unmet.map(|((pattern, _), _)| pattern.to_string()).collect();
    let unmet = periods.iter().zip(with_period.into_inner()).filter(|(_, matched)| !matched);
    tracing.facts.unmet.extend(unmet.map(|(period, _)| period.to_string()));
    tracing.facts.functions.sort_by(|a, b| (&a.file, a.line).cmp(&(&b.file, b.line)));
    tracing
}

/// A source file with the functions in it that patterns mean.
struct TracedFile<'a> {
    /// Relative to the search's base.
    path: &'a Utf8Path,
    /// The name in reports.
    shown: Utf8PathBuf,
    /// The text before any edit.
    source: &'a SourceText<'a>,
    functions: Vec<Function>,
    /// The text with the traced functions edited; `None` if none is.
    edited: Option<String>,
}

impl Tracing {
    /// Forgets a file that will be edited again.
    fn forget(&mut self, path: &Utf8Path, shown: &Utf8Path) {
        self.edited.remove(path);
        self.facts.functions.retain(|function| function.file != shown);
    }

    fn take(&mut self, file: TracedFile<'_>, is_member: bool, search: &Search<'_>) {
        for function in &file.functions {
            let dropped = search.dropped.get(&(file.path.to_owned(), function.line));
            self.facts.functions.push(fact_of(function, &file, dropped));
        }
        let Some(mut text) = file.edited else { return };
        if !is_member {
            self.beyond_members = true;
            // Cargo uses no wrapper for these crates, so the text itself must distinguish one shim
            // from another.
            _ = writeln!(text, "\n// {}", search.shim_hash);
        }
        let traced = file.functions.into_iter().filter(|one| one.untraceable.is_none()).collect();
        self.edited.insert(file.path.to_owned(), EditedFile { text, functions: traced });
    }

    /// Whether no file is edited.
    pub fn is_empty(&self) -> bool {
        self.edited.is_empty()
    }

    /// Whether the compiler must also trace crates that are not members of the workspace.
    pub(crate) fn is_beyond_members(&self) -> bool {
        self.beyond_members
    }

    /// Adds the facts of another tracing. A pattern counts as matched if either has matched it.
    pub fn add_facts(&mut self, other: &TraceFacts) {
        self.facts.functions.extend(other.functions.iter().cloned());
        self.facts.unmet.retain(|pattern| other.unmet.contains(pattern));
    }

    /// Returns the edited files and their texts.
    pub fn files(&self) -> impl Iterator<Item = (&Utf8Path, &str)> {
        self.edited.iter().map(|(path, file)| (path.as_path(), file.text.as_str()))
    }

    /// Writes the edited files into the checkout. Returns what was written.
    pub fn write(&self, checkout: &Utf8Path, injected: &mut InjectedFiles) -> anyhow::Result<AddedFiles> {
        let mut injection = AddedFiles::new();
        for (path, file) in &self.edited {
            injected.write(checkout, path, file.text.as_bytes())?;
            injection.insert(path.clone(), file.text.clone().into_bytes());
        }
        Ok(injection)
    }

    /// Whether this file has edits. The path is relative to the base.
    pub(crate) fn is_edited(&self, path: &Utf8Path) -> bool {
        self.edited.contains_key(path)
    }

    /// Returns the functions whose edits may have caused a failed build. `blame` chooses between
    /// functions with errors, all functions of files with errors, and all functions. `located`
    /// returns the file of an error's place, relative to the base.
    pub fn suspects<'a>(
        &self,
        errors: impl Iterator<Item = &'a Diagnostic> + Clone,
        located: impl Fn(&str) -> Option<Utf8PathBuf>,
        blame: Blame,
    ) -> Dropped {
        let mut exact = Dropped::new();
        let mut of_files = Dropped::new();
        for error in errors.clone() {
            let reason = reason(error);
            for place in error.spans.iter().flat_map(outwards) {
                let Some(path) = located(&place.file_name) else { continue };
                let Some(file) = self.edited.get(&path) else { continue };
                for function in &file.functions {
                    let key = (path.clone(), function.line);
                    of_files.entry(key.clone()).or_insert_with(|| reason.clone());
                    if function.lines.contains(&place.line_start) {
                        exact.entry(key).or_insert_with(|| reason.clone());
                    }
                }
            }
        }
        if blame == Blame::Places && !exact.is_empty() {
            return exact;
        }
        if blame != Blame::All && !of_files.is_empty() {
            return of_files;
        }
        let reason =
            errors.into_iter().next().map_or_else(|| "the build fails when it is traced".to_owned(), reason);
        let all = self.edited.iter().flat_map(|(path, file)| {
            file.functions.iter().map(move |function| (path.clone(), function.line))
        });
        all.map(|key| (key, reason.clone())).collect()
    }
}

/// Returns what the report says about a function. `dropped` is why an earlier build could not trace
/// it.
fn fact_of(function: &Function, file: &TracedFile<'_>, dropped: Option<&String>) -> TracedFunction {
    let untraced = function.untraceable.clone().map(|reason| {
        if dropped == Some(&reason) { Untraced::Dropped(reason) } else { Untraced::Impossible(reason) }
    });
    let text = (function.selected.depth == Depth::Lines && untraced.is_none()).then(|| Excerpt {
        first: *function.lines.start(),
        text: lines::excerpt(file.source, &function.lines),
    });
    TracedFunction {
        path: shown(&function.path),
        file: file.shown.clone(),
        line: function.line,
        apart: function.apart.clone(),
        untraced,
        text,
    }
}

/// How many functions are suspected when a build fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blame {
    /// Functions with an error in them, if there are any.
    Places,
    /// Files with an error in them, if there are any.
    Files,
    /// All that is traced.
    All,
}

impl Blame {
    /// Returns the level for a failed build, counted from 0. This limits how often a build is tried
    /// again.
    pub fn of_round(round: usize) -> Self {
        match round {
            0..4 => Self::Places,
            4 => Self::Files,
            _ => Self::All,
        }
    }
}

/// Returns a place, and the places of the macro calls that led to it.
fn outwards(
    place: &cargo_metadata::diagnostic::DiagnosticSpan,
) -> impl Iterator<Item = &cargo_metadata::diagnostic::DiagnosticSpan> {
    std::iter::successors(Some(place), |place| place.expansion.as_ref().map(|expansion| &expansion.span))
}

fn reason(error: &Diagnostic) -> String {
    format!("it does not compile when it is traced ({})", error.message.lines().next().unwrap_or_default())
}

/// Returns the error about a pattern that matches no function in any revision. `paths` are the
/// paths of all functions.
pub(crate) fn unmet(pattern: &str, paths: &[String]) -> UserError {
    if pattern.parse::<PatternPeriod>().is_ok() {
        return UserError::new(format!("--trace-every {pattern}: no traced function matches"))
            .help("name functions that --trace or --trace-lines matches, too");
    }
    let name = |path: &str| path.rsplit("::").next().unwrap_or_default().to_owned();
    let inside = format!("{pattern}::");
    let help = if paths.iter().any(|path| path.starts_with(&inside)) {
        format!("write {pattern}::** for all functions in it")
    } else {
        // A function of the right name in another module is better than one of another name in the
        // right module.
        let namesakes = paths.iter().map(String::as_str).filter(|path| name(path) == name(pattern));
        let mut nearest = suggest::nearest(pattern, namesakes.clone(), 3);
        nearest.extend(namesakes.take(3).filter(|_| nearest.is_empty()).collect::<Vec<_>>());
        if nearest.is_empty() {
            nearest = suggest::nearest(pattern, paths.iter().map(String::as_str), 3);
        }
        if nearest.is_empty() {
            "`cargo memprof trace '**'` prints all functions of the repository; for a dependency, name its package: NAME::**"
                .to_owned()
        } else {
            format!("nearest: {}", nearest.join(", "))
        }
    };
    UserError::new(format!("--trace {pattern}: no revision has such a function")).help(help)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Checkout {
        _folder: tempfile::TempDir,
        root: Utf8PathBuf,
    }

    impl Checkout {
        fn new(files: &[(&str, &str)]) -> Self {
            let folder = tempfile::tempdir().unwrap();
            let root = Utf8PathBuf::try_from(folder.path().to_owned()).unwrap();
            for (path, text) in files {
                fs_err::create_dir_all(root.join(path).parent().unwrap()).unwrap();
                fs_err::write(root.join(path), text).unwrap();
            }
            Self { _folder: folder, root }
        }

        fn find(&self, patterns: &[&str], lines: &[&str], dropped: &Dropped) -> Tracing {
            let texts = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect();
            let request =
                TraceRequest { functions: texts(patterns), lines: texts(lines), ..TraceRequest::default() };
            let crates = ["src/lib.rs", "src/main.rs"].map(|root| Crate {
                name: "bart".to_owned(),
                root: self.root.join(root),
                package: self.root.clone(),
                untraceable: None,
                is_own: true,
                is_member: true,
            });
            let patterns = &Patterns::parse(&request).unwrap();
            let prefix = Utf8Path::new("");
            find(&Search { crates: &crates, patterns, base: &self.root, prefix, dropped, shim_hash: "" })
        }
    }

    const FILES: [(&str, &str); 3] = [
        ("src/lib.rs", "pub mod encoder;\nconst fn size() {}\n"),
        ("src/encoder.rs", "pub fn forward() {\n    g();\n}\npub fn g() {}\n"),
        ("src/main.rs", "mod encoder;\nfn main() {}\n"),
    ];

    fn paths(tracing: &Tracing) -> Vec<&str> {
        tracing.facts.functions.iter().map(|function| function.path.as_str()).collect()
    }

    #[test]
    fn a_file_of_several_targets_is_edited_once() {
        let checkout = Checkout::new(&FILES);
        let tracing = checkout.find(&["**"], &[], &Dropped::new());
        assert_eq!(
            paths(&tracing),
            ["bart::encoder::forward", "bart::encoder::g", "bart::size", "bart::main"]
        );
        assert_eq!(tracing.facts.traced(), 3);
        assert_eq!(tracing.edited.len(), 2);
    }

    #[test]
    fn a_function_that_both_mean_has_its_lines_told_apart() {
        let checkout = Checkout::new(&FILES);
        let tracing =
            checkout.find(&["**::encoder::*", "bart::decoder::*"], &["**::forward"], &Dropped::new());
        assert_eq!(paths(&tracing), ["bart::encoder::forward", "bart::encoder::g"]);
        let text = tracing.facts.functions[0].text.as_ref().unwrap();
        assert_eq!((text.first, text.text.as_str()), (1, "pub fn forward() {\n    g();\n}"));
        assert_eq!(tracing.facts.functions[1].text, None);
        assert_eq!(tracing.facts.unmet, ["bart::decoder::*"]);
    }

    #[test]
    fn tests_and_main_are_traced_and_a_test_only_by_its_name() {
        let checkout = Checkout::new(&[
            ("src/lib.rs", "#[cfg(test)]\nmod tests {\n    #[test]\n    fn runs() {}\n    fn help() {}\n}\n"),
            ("src/main.rs", "fn main() {\n    run();\n}\nfn run() {}\n"),
        ]);
        let traced = |patterns: &[&str]| -> Vec<String> {
            let tracing = checkout.find(patterns, &[], &Dropped::new());
            let functions = tracing.facts.functions.iter().filter(|one| one.untraced.is_none());
            functions.map(|one| one.path.replace("bart::", "")).collect()
        };
        for pattern in ["**", "crate::**", "bart::*", "bart::tests::*"] {
            assert!(!traced(&[pattern]).contains(&"tests::runs".to_owned()), "{pattern}");
        }
        assert_eq!(traced(&["**"]), ["tests::help", "main", "run"]);
        assert_eq!(traced(&["bart::tests::runs"]), ["tests::runs"]);
        assert_eq!(traced(&["**", "**::r*s"]), ["tests::runs", "tests::help", "main", "run"]);
    }

    #[test]
    fn a_file_of_several_crates_is_meant_by_its_name_in_any_of_them() {
        let checkout = Checkout::new(&[
            ("tests/common/mod.rs", "pub fn help() {}\npub fn more() {}\n"),
            ("tests/a.rs", "mod common;"),
            ("tests/b.rs", "mod common;"),
        ]);
        let crates = ["a", "b"].map(|name| Crate {
            name: name.to_owned(),
            root: checkout.root.join(format!("tests/{name}.rs")),
            package: checkout.root.clone(),
            untraceable: None,
            is_own: true,
            is_member: true,
        });
        for (patterns, meant) in [
            (&["**"][..], &["a::common::help", "a::common::more"][..]),
            (&["b::common::*"], &["b::common::help", "b::common::more"]),
            (&["a::common::*", "b::common::more"], &["a::common::help", "a::common::more"]),
            (&["a::common::help", "b::common::more"], &["b::common::help", "b::common::more"]),
        ] {
            let functions = patterns.iter().map(|&text| text.to_owned()).collect();
            let patterns = Patterns::parse(&TraceRequest { functions, ..TraceRequest::default() }).unwrap();
            let none = Utf8Path::new("");
            let tracing = find(&Search {
                crates: &crates,
                patterns: &patterns,
                base: &checkout.root,
                prefix: none,
                dropped: &Dropped::new(),
                shim_hash: "",
            });
            assert_eq!(paths(&tracing), meant);
            assert_eq!((tracing.edited.len(), tracing.facts.unmet.len()), (1, 0), "{meant:?}");
        }
    }

    #[test]
    fn a_pattern_that_means_nothing_is_answered_with_what_it_may_have_meant() {
        let paths = ["bart::Encoder::new", "bart::<Encoder as Drop>::drop", "bart::encoder::forward"];
        let paths = paths.map(str::to_owned);
        for (pattern, said) in [
            ("bart::encoder::*::drop", "nearest: bart::<Encoder as Drop>::drop"),
            ("Encoder::new", "nearest: bart::Encoder::new"),
            ("bart::encoder::forwrad", "nearest: bart::encoder::forward"),
            ("bart::encoder", "write bart::encoder::** for all functions in it"),
            ("zebra::*", "prints all functions"),
        ] {
            let help = unmet(pattern, &paths).help.unwrap();
            assert!(help.contains(said), "{pattern}: {help}");
        }
    }

    #[test]
    fn what_does_not_compile_is_dropped_alone_then_by_file_then_all() {
        let checkout = Checkout::new(&FILES);
        let tracing = checkout.find(&["**"], &[], &Dropped::new());
        let error = |file: &str, line: usize| -> Diagnostic {
            serde_json::from_value(serde_json::json!({
                "message": "mismatched types", "code": null, "level": "error", "children": [], "rendered": null,
                "spans": [{
                    "file_name": file, "byte_start": 0, "byte_end": 1, "line_start": line, "line_end": line,
                    "column_start": 1, "column_end": 2, "is_primary": true, "text": [], "label": null,
                    "suggested_replacement": null, "suggestion_applicability": null, "expansion": null,
                }],
            }))
            .unwrap()
        };
        let lines = |errors: &[Diagnostic], blame: Blame| -> Vec<(String, usize)> {
            let suspects = tracing.suspects(errors.iter(), |file| Some(file.into()), blame);
            suspects.into_keys().map(|(file, line)| (file.file_name().unwrap().to_owned(), line)).collect()
        };
        let at = |file: &str, line: usize| (file.to_owned(), line);
        let errors = [error("src/encoder.rs", 2)];
        assert_eq!(lines(&errors, Blame::Places), [at("encoder.rs", 1)]);
        assert_eq!(lines(&errors, Blame::Files), [at("encoder.rs", 1), at("encoder.rs", 4)]);
        assert_eq!(lines(&errors, Blame::All).len(), 3);
        let elsewhere = [error("src/other.rs", 2)];
        assert_eq!(lines(&elsewhere, Blame::Places).len(), 3);

        let suspects = tracing.suspects(errors.iter(), |file| Some(file.into()), Blame::Places);
        let again = checkout.find(&["**"], &[], &suspects);
        assert_eq!(again.facts.traced(), 2);
        let (function, reason) = again.facts.dropped().next().unwrap();
        assert_eq!(function.path, "bart::encoder::forward");
        assert!(reason.contains("(mismatched types)"), "{reason}");
    }

    #[test]
    fn a_pattern_without_a_function_is_answered_with_the_nearest() {
        let paths = ["bart::encoder::forward".to_owned(), "bart::decoder::new".to_owned()];
        let help = unmet("bart::encodr::forward", &paths).help.unwrap();
        assert_eq!(help, "nearest: bart::encoder::forward");
        assert!(unmet("x::y", &paths).help.unwrap().contains("trace '**'"));
    }
}
