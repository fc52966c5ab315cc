//! What the user asks for: memprof.yaml read, and put together with the flags.

use std::borrow::Cow;

use camino::Utf8Path;
use indexmap::IndexMap;

use crate::arguments::presentation::PresentationArguments;
use crate::arguments::request::RequestArguments;
use crate::request::matrix_file;
use crate::request::programs;
use crate::request::reconcile::{metrics, on_request, reconcile, trace_shown};
use crate::request::refs::{RefsNeeded, baseline};
use crate::request::side_paths::note_hashes;
use crate::request::surroundings::Surroundings;
use memprof_build::git::ref_pattern::forge_ref;
use memprof_build::git::repository::Repository;
use memprof_build::git::usual_refs::{self, UsualRefs};
use memprof_judge::compare::{budget, noise};
use memprof_plan::config::keep::text;
use memprof_plan::config::matrix::Matrix;
use memprof_plan::config::yaml::Scalar;
use memprof_plan::jobs::of_neighbours;
use memprof_plan::metric::derived;
use memprof_plan::metric_family::MetricGroup;
use memprof_plan::request::{BaselineRequest, RefRequest, Request};
use memprof_run::stored_plan;
use memprof_support::user_error::UserError;

/// What flags and memprof.yaml ask for.
pub struct Asked {
    /// What to build, run and compare.
    pub request: Request,
    /// The metrics to show; empty means the default ones.
    pub metrics: Vec<String>,
    /// What is compared, in words, if the user did not name two refs.
    pub chosen: Option<String>,
}

impl Asked {
    /// Reads memprof.yaml and the noise file, and puts them together with the flags.
    pub fn read(
        arguments: &RequestArguments,
        presentation: &PresentationArguments,
        repository: &Repository,
        needed: RefsNeeded,
    ) -> anyhow::Result<Self> {
        let current = repository.start();
        let file = matrix_file::path(arguments.refs.matrix.as_deref(), repository);
        let matrix = file.as_deref().map(matrix_file::read).transpose()?.unwrap_or_default();
        let surroundings = Surroundings {
            repository: repository.root(),
            current,
            matrix: file.as_deref().and_then(Utf8Path::parent).unwrap_or(current),
            exists: &|path: &Utf8Path| path.exists(),
        };
        let (arguments, chosen) = completed(arguments, &matrix, repository, needed)?;
        let arguments = arguments.as_ref();
        let mut request = reconcile(arguments, &matrix, surroundings, needed)?;
        match arguments.judging.noise.as_deref() {
            // The run may be continued in another folder.
            Some(file) if request.aa => request.noise_file = Some(current.join(file).into_string()),
            Some(file) => request.judging.noise = noise::read(file)?,
            None => {}
        }
        request.judging.budget = match (arguments.judging.budget(), text(matrix.budget.as_ref())) {
            (Some(file), _) => Some(budget::read(&current.join(&file), file.as_str())?),
            (None, Some(file)) => Some(budget::read(&surroundings.matrix.join(file), file)?),
            (None, None) => None,
        };
        note_hashes(&mut request)?;
        programs::note_hashes(&mut request)?;
        stored_plan::learn(&request);
        let metrics = metrics(presentation, &matrix);
        request.judging.asked.clone_from(&metrics);
        let of_budget = request.judging.budget.iter().flat_map(|budget| &budget.limits);
        let read: Vec<String> = metrics.iter().chain(of_budget.map(|limit| &limit.metric)).cloned().collect();
        request.on_request = on_request(&read, &request.judging.rules);
        trace_shown(&mut request.trace, &metrics);
        let malloc = MetricGroup::Malloc;
        let reads_malloc = request.on_request.iter().any(|metric| MetricGroup::of(metric) == Some(malloc));
        if request.trace.columns.contains(&malloc) && !reads_malloc {
            request.on_request.extend(on_request(&["malloc.*".to_owned()], &[]));
        }
        request.alone_for = of_neighbours(metrics.iter().map(String::as_str)).map(str::to_owned);
        request.derived = derived(metrics.iter().map(String::as_str));
        Ok(Self { request, metrics, chosen })
    }
}

/// The error for a pull request alone, if nothing says what it is compared with.
fn no_default_branch(pull_request: &str) -> UserError {
    UserError::new(format!("no default branch is known to compare '{pull_request}' with"))
        .help(format!("name the base, such as develop: cargo memprof develop...{pull_request}"))
}

/// Returns the arguments with the refs that the user left out, and what they are in words:
/// - without any ref, the usual ones ([`usual_refs`])
/// - a pull request alone is compared with its merge base with the default branch of its remote
/// - with a baseline alone, the working tree is compared with it
///
/// With axes, nothing is added.
fn completed<'a>(
    arguments: &'a RequestArguments,
    matrix: &Matrix,
    repository: &Repository,
    needed: RefsNeeded,
) -> anyhow::Result<(Cow<'a, RequestArguments>, Option<String>)> {
    let refs = &arguments.refs.refs;
    // With axes, the sides of the named refs are compared with each other.
    let is_of_matrix = matrix.axes.is_some() || (refs.is_empty() && matrix.refs.is_some());
    if needed != RefsNeeded::Usual || arguments.refs.aa || is_of_matrix {
        return Ok((Cow::Borrowed(arguments), None));
    }
    let named = text(arguments.settings.baseline.as_ref().or(matrix.baseline.as_ref()));
    let usual = match (refs.as_slice(), baseline(named)) {
        ([], BaselineRequest::Ref(name)) => UsualRefs {
            reason: format!("the working tree with {name}"),
            refs: vec![RefRequest { spec: ".".to_owned(), ..RefRequest::default() }],
        },
        ([], _) => usual_refs::usual(repository)?,
        ([only], BaselineRequest::First | BaselineRequest::MergeBase)
            if forge_ref(&only.spec, &IndexMap::new()).is_some() =>
        {
            let remote = text(arguments.settings.remote.as_ref().or(matrix.remote.as_ref()));
            let default = usual_refs::base_of_pull_requests(repository, remote)?
                .ok_or_else(|| no_default_branch(&only.spec))?;
            UsualRefs {
                reason: format!("{} with its merge base with {default}", only.spec),
                refs: vec![usual_refs::merge_base(&default, &only.spec), only.clone()],
            }
        }
        _ => return Ok((Cow::Borrowed(arguments), None)),
    };
    let mut arguments = arguments.clone();
    if named == Some("merge-base") {
        // The usual refs have their baseline, which is this one if there is any.
        arguments.settings.baseline = usual.refs.first().map(|first| Scalar(first.spec.clone()));
    }
    arguments.refs.refs = usual.refs;
    Ok((Cow::Owned(arguments), Some(usual.reason)))
}
