//! `demo`: creates a small repository and compares its refs.

use std::ffi::OsString;

use camino::Utf8Path;

use crate::arguments::command::CommandArguments;
use crate::arguments::command_line;
use crate::arguments::run::RunArguments;
use crate::arguments::setup::DemoArguments;
use crate::arguments::why::WhyArguments;
use crate::commands::context::CommandContext;
use crate::demo::repository::{self, DemoRepository};
use crate::output::destinations::outputs;
use crate::output::present::Presentation;
use crate::request::asked::Asked;
use crate::request::refs::RefsNeeded;
use crate::request::search_options;
use memprof_build::checkout::cache::{self, Cache};
use memprof_build::git::repository::Repository;
use memprof_build::git::resolve::resolve;
use memprof_gpu::watch::DeviceWatch;
use memprof_judge::results::run_folder::RunFolder;
use memprof_judge::results::stored;
use memprof_judge::why::chosen::Why;
use memprof_run::attribution::Attribution;
use memprof_run::conditions::Conditions;
use memprof_run::session::{Session, create_folder, past_times, runs_folder};
use memprof_support::exit_code::ExitCode;
use memprof_support::file_lock::WhenHeld;
use memprof_support::user_error::UserError;

/// Creates the repository, compares its refs, and removes it again.
pub fn demo(context: CommandContext<'_>, arguments: &DemoArguments) -> anyhow::Result<ExitCode> {
    // A file that cannot be written is an error at once.
    let outputs = outputs(&[], arguments.html.as_slice())?;
    let folder = tempfile::Builder::new().prefix("memprof-demo-").tempdir()?;
    let root = memprof_support::paths::utf8(folder.path().canonicalize()?)?;
    let demo = repository::create(root.as_std_path())?;
    let place =
        if arguments.keep { demo.path.display().to_string() } else { "a temporary folder".to_owned() };
    context.console.print(&format!(
        "The demo's repository is in {place}.\n$ cargo memprof --refs {} --overlay {} -k '{}'\n\n",
        demo.refs.join(","),
        demo.overlay,
        demo.filter
    ))?;
    cache::check_place(&root).map_err(|error| {
        UserError::new(format!("{error:#}"))
            .help("choose another folder for temporary files: TMPDIR=/var/tmp cargo memprof demo")
    })?;
    let repository = Repository::discover(&memprof_support::paths::utf8(demo.path.clone())?)?;
    let mut run = run_arguments(&demo)?;
    run.presentation.is_temporary = !arguments.keep;
    // The demo is public, so its page shows the lines.
    run.presentation.with_source = true;
    let kept = measure(context, &repository, &root.join("cache"), &run, &words(&demo))?;
    let presentation = Presentation { arguments: &run.presentation, outputs: &outputs, metrics: &[] };
    let code = presentation.of_run(context.console, &stored::read(&kept)?, &kept)?;
    if arguments.keep {
        _ = folder.keep();
    } else {
        context
            .console
            .print("The repository is removed. To keep it and go on there: cargo memprof demo --keep\n")?;
    }
    // The demo shows a regression, which is not the user's.
    let is_expected = matches!(code, ExitCode::Regression | ExitCode::Inconclusive);
    Ok(if is_expected { ExitCode::Success } else { code })
}

/// The printed command.
fn words(demo: &DemoRepository) -> [String; 6] {
    ["--refs", &demo.refs.join(","), "--overlay", &demo.overlay, "-k", &demo.filter].map(str::to_owned)
}

/// The flags of the printed command.
fn run_arguments(demo: &DemoRepository) -> anyhow::Result<RunArguments> {
    let words = words(demo);
    let argv = ["cargo-memprof", "run"].into_iter().chain(words.iter().map(String::as_str));
    let argv = argv.map(OsString::from);
    match command_line::parse(argv)?.command {
        CommandArguments::Run(run) => Ok(*run),
        other => unreachable!("the demo's command line is `run`, and not {other:?}"),
    }
}

/// Runs the comparison with a cache of its own.
fn measure(
    context: CommandContext<'_>,
    repository: &Repository,
    cache: &Utf8Path,
    run: &RunArguments,
    words: &[String],
) -> anyhow::Result<RunFolder> {
    let asked = Asked::read(&run.request, &run.presentation, repository, RefsNeeded::Comparison)?;
    let mut plan = resolve(&asked.request, repository, context.console)?;
    plan.search = search_options::for_plan(words, &plan, repository)?;
    let folder = create_folder(&runs_folder(repository, &plan.workspace)?, &plan)?;
    let cache = Cache::open(cache, repository)?;
    let CommandContext { console, interrupt } = context;
    // Of the tests that changed, the demo shows why.
    let attribution = Attribution { why: Why::Changed, ..WhyArguments::default().attribution() };
    let session = Session {
        repository,
        cache,
        sink: console,
        interrupt,
        attribution: attribution.clone(),
        runs_same_code: true,
        kept: None,
    };
    let lock = session.lock(WhenHeld::Fail)?;
    let mut prepared = session.prepare(&plan, &folder)?;
    let devices = DeviceWatch::open(WhenHeld::Wait, console, interrupt);
    let mut conditions = Conditions::new(&plan, past_times(&folder), devices, console, interrupt);
    prepared.run(&plan, &folder, &mut conditions, &attribution, Vec::new())?;
    drop((prepared, conditions, lock));
    Ok(folder)
}
