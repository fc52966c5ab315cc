//! Writes a comparison or a search to its destinations, and gives the exit code.

use std::io::{self, IsTerminal, Write};
use std::sync::Arc;

use anyhow::Context;
use camino::Utf8Path;

use crate::arguments::presentation::PresentationArguments;
use crate::output::destinations::Output;
use crate::terminal::console::Console;
use crate::terminal::filtered::filtered;
use memprof_judge::compare::comparison::Comparison;
use memprof_judge::compare::completeness::{exit_code, has_failed, is_incomplete};
use memprof_judge::compare::evaluation::Conclusion;
use memprof_judge::compare::from_results::compare;
use memprof_judge::compare::noise;
use memprof_judge::results::run_folder::RunFolder;
use memprof_judge::results::stored::{self, Results};
use memprof_judge::why::chosen::Why;
use memprof_judge::why::explanations::Explanations;
use memprof_plan::resolved::Plan;
use memprof_report::bisect::headline::Searched;
use memprof_report::bisect::search::step_below;
use memprof_report::github::{self, Actions};
use memprof_report::options::{Format, Options};
use memprof_report::why::exports;
use memprof_run::bisect::chart;
use memprof_run::bisect::parts::proof::ProofReport;
use memprof_run::bisect::step_comparison::ComparedStep;
use memprof_run::runner::Interrupted;
use memprof_support::event::{Event, Sink};
use memprof_support::exit_code::ExitCode;
use memprof_support::output_file::{self, OutputFile, Target};
use memprof_support::sealed;
use memprof_support::whole_file::write_streamed;
use memprof_support::workflow_commands::Notation;

/// What to show, and where.
#[derive(Clone, Copy)]
pub struct Presentation<'a> {
    /// The flags.
    pub arguments: &'a PresentationArguments,
    /// The copies of the report.
    pub outputs: &'a [Output],
    /// The metrics to show; empty means the default ones.
    pub metrics: &'a [String],
}

impl Presentation<'_> {
    /// Compares a run's results, keeps the comparison in the run's folder, and writes the report.
    pub fn of_run(
        &self,
        console: &Console,
        results: &Results,
        folder: &RunFolder,
    ) -> anyhow::Result<ExitCode> {
        let comparison = compare(results);
        let explanations = self.explanations(results, &comparison, folder);
        let proof = proof_in(folder)?;
        let path = folder.comparison();
        let render = |out: &mut dyn io::Write| {
            memprof_report::json::render::render(&comparison, explanations.as_deref(), proof.as_ref(), out)
        };
        if let Err(error) = write_streamed(&path, &|out| filtered(out, None, &render)) {
            // An earlier run may be on a read-only disk. The report needs nothing of this file.
            let help = Some("--format json prints the same".to_owned());
            console.emit(Event::Warning { message: format!("{error:#}"), help });
        }
        let explained = Explained { why: explanations.as_ref(), proof: proof.as_ref() };
        let code = self.of_explained(console, &comparison, Some(folder), explained)?;
        // With more shards than tests, some have none.
        let is_empty_shard = results.plan.request.shard.is_some() && results.runs.is_empty();
        Ok(if is_empty_shard && results.failed_builds.is_empty() { ExitCode::Success } else { code })
    }

    /// Reads the call sites of changed tests, if any test ran with call stacks.
    fn explanations(
        &self,
        results: &Results,
        comparison: &Comparison,
        folder: &RunFolder,
    ) -> Option<Arc<Explanations>> {
        let flags = &self.arguments.why;
        if flags.why == Some(Why::Never) {
            return None;
        }
        let read = Explanations::read(folder, results, comparison, &flags.inquiry());
        // The comparison is complete without them.
        let read = read.unwrap_or_else(|error| {
            let reason = format!("the call sites cannot be read: {error:#}");
            Some(Explanations { left_out: Some(reason), ..Explanations::default() })
        });
        read.map(|read| Arc::new(Explanations { frames: flags.shown_frames(), ..read }))
    }

    /// Reports a run that has ended, perhaps by an interrupt. `ended` has the code of what surrounded it.
    pub fn of_ended(
        &self,
        console: &Console,
        folder: &RunFolder,
        ended: anyhow::Result<ExitCode>,
        is_built: bool,
    ) -> anyhow::Result<ExitCode> {
        let code = ended.map_err(|error| self.as_far_as_it_got(console, folder, error))?;
        let code = self.of_run(console, &stored::read(folder)?, folder)?.worst(code);
        Ok(if is_built { code } else { code.worst(ExitCode::Incomplete) })
    }

    /// Reports an interrupted run as far as it got. Returns the error that ended it.
    pub fn as_far_as_it_got(
        &self,
        console: &Console,
        folder: &RunFolder,
        error: anyhow::Error,
    ) -> anyhow::Error {
        let has_runs = error
            .downcast_ref::<Interrupted>()
            .is_some_and(|interrupted| interrupted.finished > 0 || interrupted.is_cut_off);
        if !has_runs {
            return error;
        }
        // The report says how far the run got, because it may be read without the message on the terminal.
        match stored::read(folder).and_then(|results| self.of_run(console, &results, folder)) {
            Ok(_) => error,
            Err(unreported) => unreported,
        }
    }

    /// Prints by how much the baseline varied, and writes the noise file. Any difference is noise, and not
    /// a regression.
    pub fn of_noise(
        &self,
        console: &Console,
        folder: &RunFolder,
        plan: &Plan,
        code: ExitCode,
    ) -> anyhow::Result<ExitCode> {
        let comparison = compare(&stored::read(folder)?);
        let record = noise::measured(&comparison);
        if let Some(file) = &plan.request.noise_file {
            output_file::write(Utf8Path::new(file), &serde_json::to_vec_pretty(&record)?)?;
        }
        if self.arguments.format.is_empty() {
            let mut text = Vec::new();
            memprof_report::noise::render(&record, &mut text)?;
            console.print(&format!("\n{}", String::from_utf8_lossy(&text)))?;
        }
        // A broken limit in `code` hides what is missing.
        let is_whole = code != ExitCode::Incomplete && !lacks_noise(&comparison);
        Ok(if is_whole { ExitCode::Success } else { ExitCode::Incomplete })
    }

    /// Writes the report of a comparison. `folder` is its run's, if it is of one run.
    pub fn of_comparison(
        &self,
        console: &Console,
        comparison: &Comparison,
        folder: Option<&RunFolder>,
    ) -> anyhow::Result<ExitCode> {
        self.of_explained(console, comparison, folder, Explained::default())
    }

    fn of_explained(
        &self,
        console: &Console,
        comparison: &Comparison,
        folder: Option<&RunFolder>,
        Explained { why, proof }: Explained<'_>,
    ) -> anyhow::Result<ExitCode> {
        let options = |output: Option<&Output>| Options {
            metrics: (!self.metrics.is_empty()).then(|| self.metrics.to_vec()),
            all: self.arguments.all,
            view: self.arguments.view,
            compact: self.arguments.compact,
            only_changed: self.arguments.only_changed,
            rows: self.arguments.rows,
            is_test: self.arguments.is_test,
            report_path: folder
                .filter(|_| !self.arguments.is_temporary)
                .map(|folder| relative_to_current(&folder.0)),
            shows_sites: self.arguments.why.is_about_sites(),
            hides_next: self.arguments.is_temporary,
            with_source: self.arguments.with_source,
            why: why.cloned(),
            proof: proof.cloned(),
            ..output.map_or_else(Options::default, |output| for_destination(console, output))
        };
        console.finish();
        let actions = Actions::from_environment();
        if actions.annotates {
            for line in github::annotations(comparison, &options(None)) {
                console.command(&line);
            }
            actions.summarize(comparison, &options(None)).context("could not write GITHUB_STEP_SUMMARY")?;
        }
        for output in self.outputs {
            let options = options(Some(output));
            if let (true, Some(path)) = (output.format.is_of_call_sites(), &output.file) {
                write_exports(console, output.format, path, comparison, why.map(Arc::as_ref))?;
                continue;
            }
            write(console, output, &|out| {
                memprof_report::render::render(output.format, comparison, &options, out)
            })?;
        }
        Ok(exit_code(comparison))
    }
}

/// What is known of the reasons of changes.
#[derive(Clone, Copy, Default)]
struct Explained<'a> {
    why: Option<&'a Arc<Explanations>>,
    proof: Option<&'a Arc<ProofReport>>,
}

/// Returns the finished proof of a run's or a search's worst change, if there is one.
pub fn proof_in(folder: &RunFolder) -> anyhow::Result<Option<Arc<ProofReport>>> {
    let path = folder.proof().found();
    if path.exists() { Ok(Some(Arc::new(sealed::read(&path)?))) } else { Ok(None) }
}

/// Writes call sites for other viewers.
fn write_exports(
    console: &Console,
    format: Format,
    path: &Utf8Path,
    comparison: &Comparison,
    why: Option<&Explanations>,
) -> anyhow::Result<()> {
    let recorded = why.filter(|why| why.tests.iter().any(|test| test.problem().is_none()));
    let Some(why) = recorded else {
        // No test may have changed, and other reports follow.
        let message = format!("no test ran with call stacks, so {path} is not written");
        let help = Some("to record all tests, run the comparison with --why always".to_owned());
        console.emit(Event::Warning { message, help });
        return Ok(());
    };
    for export in exports::files(format, path, comparison, why)? {
        let mut file = OutputFile::create(&export.path)?;
        file.write_all(&export.content)?;
        file.finish().with_context(|| format!("could not write {}", export.path))?;
        console.emit(Event::Exported { path: export.path.to_string() });
    }
    Ok(())
}

/// Writes the report of a search, which has a part for each test. `shows_sites` says whether the user asked for
/// call sites.
pub fn search_report(
    console: &Console,
    searched: &[Searched<'_>],
    proof: Option<&Arc<ProofReport>>,
    outputs: &[Output],
    shows_sites: bool,
) -> anyhow::Result<()> {
    console.finish();
    let unicode = chart::is_unicode(|name| std::env::var(name).ok());
    for output in outputs {
        let options = Options { proof: proof.cloned(), shows_sites, ..for_destination(console, output) };
        write(console, output, &|out| {
            memprof_report::bisect::search::render(output.format, searched, &options, unicode, out)
        })?;
    }
    Ok(())
}

/// Writes what the parts of a diff cost, to each output, and the call sites of the whole difference on request.
pub fn proof_report(
    console: &Console,
    report: &ProofReport,
    ends: Option<&ComparedStep>,
    outputs: &[Output],
) -> anyhow::Result<()> {
    console.finish();
    for output in outputs {
        let options = Options { shows_sites: true, ..for_destination(console, output) };
        write(console, output, &|out| {
            memprof_report::proof::render(output.format, report, &options, out)?;
            ends.map_or(Ok(()), |ends| step_below(output.format, ends, &options, out))
        })?;
    }
    Ok(())
}

/// Width and colour: those of the terminal for standard output, the defaults for a file.
fn for_destination(console: &Console, output: &Output) -> Options {
    if output.file.is_some() {
        return Options::default();
    }
    Options {
        width: terminal_size::terminal_size_of(io::stdout()).map(|(width, _)| usize::from(width.0)),
        is_on_terminal: io::stdout().is_terminal(),
        color: console.colors_output(),
        ..Options::default()
    }
}

/// Writes a copy of the report while it is rendered: a long one does not fit into memory.
fn write(
    console: &Console,
    output: &Output,
    render: &dyn Fn(&mut dyn io::Write) -> io::Result<()>,
) -> anyhow::Result<()> {
    let notation = match output.format {
        Format::Json | Format::Perfetto | Format::Sarif | Format::Gitlab | Format::Bencher => Notation::Json,
        Format::Junit => Notation::Xml,
        _ => Notation::Text,
    };
    let Some(path) = &output.file else { return Ok(console.print_streamed(notation, render)?) };
    // `/dev/stdout` leads to the same log as standard output.
    let is_log = matches!(Target::find(path)?, Target::Descriptor(_));
    let mut file = io::BufWriter::with_capacity(1 << 16, OutputFile::create(path)?);
    let written = filtered(&mut file, is_log.then_some(notation), render);
    let finished = written.and_then(|()| file.into_inner().map_err(io::IntoInnerError::into_error)?.finish());
    finished.with_context(|| format!("could not write {path}"))
}

/// Whether a part of the baseline against itself is missing, whatever the verdicts on the rest.
fn lacks_noise(comparison: &Comparison) -> bool {
    let sides = comparison.pairs().flat_map(|view| [view.baseline, view.candidate]);
    let mut failed = sides.filter(|side| !side.is_added).flat_map(|side| &side.failed);
    failed.any(|run| has_failed(&comparison.runs[*run]))
        || Conclusion::from_comparison(comparison).missing_of_both > 0
        || is_incomplete(comparison)
}

/// The path as the user would write it from the current folder.
fn relative_to_current(path: &Utf8Path) -> String {
    let current = std::env::current_dir().ok().and_then(|current| current.canonicalize().ok());
    let relative = current.as_deref().and_then(|current| path.strip_prefix(current).ok());
    match relative {
        Some(own) if own.as_str().is_empty() => ".".to_owned(),
        relative => relative.unwrap_or(path).to_string(),
    }
}
