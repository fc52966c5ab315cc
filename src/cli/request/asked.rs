//! What the user asks for: memprof.yaml read, and put together with the flags.

use camino::Utf8Path;

use crate::cli::arguments::presentation::PresentationArguments;
use crate::cli::arguments::request::RequestArguments;
use crate::cli::request::reconcile::{metrics, on_request, reconcile};
use crate::cli::request::refs::RefsNeeded;
use crate::cli::request::surroundings::Surroundings;
use crate::compare::noise;
use crate::config::matrix::{self, Matrix};
use crate::git::repository::Repository;
use crate::plan::request::Request;
use crate::run::stored_plan;

/// What flags and memprof.yaml ask for.
pub struct Asked {
    /// What to build, run and compare.
    pub request: Request,
    /// The metrics to show; empty means the default ones.
    pub metrics: Vec<String>,
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
        let file = match &arguments.refs.matrix {
            Some(file) => Some(current.join(file)),
            None => matrix::find(current, repository.root()),
        };
        let matrix = file.as_deref().map(matrix::read).transpose()?.unwrap_or_else(Matrix::default);
        let surroundings = Surroundings {
            repository: repository.root(),
            current,
            matrix: file.as_deref().and_then(Utf8Path::parent).unwrap_or(current),
            exists: &|path: &Utf8Path| path.exists(),
        };
        let mut request = reconcile(arguments, &matrix, surroundings, needed)?;
        // With --aa, the noise file is written.
        if let Some(file) = arguments.judging.noise.as_deref().filter(|_| !arguments.refs.aa) {
            request.judging.noise = noise::read(file)?;
        }
        stored_plan::learn(&request);
        let metrics = metrics(presentation, &matrix);
        request.on_request = on_request(&metrics, &request.judging.rules);
        Ok(Self { request, metrics })
    }
}
