//! The revisions of a notebook's run: each ref's commit with the program of its notebook added. So
//! the program is built and run as any test of the ref would be.

use std::collections::BTreeSet;

use anyhow::Context;
use camino::Utf8PathBuf;

use crate::notebook::packages::Packages;
use crate::notebook::place::Place;
use memprof_build::git::resolve::{self, resolve_refs};
use memprof_build::git::written_commit;
use memprof_build::notebook::alignment;
use memprof_build::notebook::document::Document;
use memprof_build::notebook::program::{Notebook, NotebookCell};
use memprof_plan::request::{RefRequest, Request};
use memprof_plan::resolved::{Plan, Revision};
use memprof_support::event::{Event, Sink};

/// The folder of the program's package, in the root of the repository.
const FOLDER: &str = "memprof-notebook";

/// The plan of a notebook's run, and what its report needs.
pub struct NotebookPlan {
    /// The plan. Its revisions are commits with the program.
    pub plan: Plan,
    /// The notebook as the last revision has it.
    pub document: Document,
    /// The number and the label of each cell with Rust code, by revision.
    labels: Vec<Vec<(usize, String)>>,
    /// The name of the program.
    pub target: String,
    /// The lines of the program from one cell to the next.
    pub stride: usize,
}

impl NotebookPlan {
    /// Returns the number and the label of each cell of the last revision with Rust code.
    pub fn labels(&self) -> &[(usize, String)] {
        self.labels.last().map_or(&[], Vec::as_slice)
    }

    /// Returns the number of the first cell of a revision that did not end. `ended` says which label's did.
    pub fn unfinished(&self, revision: usize, ended: impl Fn(&str) -> bool) -> Option<usize> {
        let mut cells = self.labels.get(revision)?.iter();
        cells.find(|(_, label)| !ended(label)).map(|(number, _)| *number)
    }
}

/// One revision's version of the notebook.
struct Version {
    revision: Revision,
    /// The commit without the program; none in a repository that was made for the notebook.
    base: Option<String>,
    document: Document,
    notebook: Notebook,
}

/// Translates the notebook at each ref, and writes the commits. `skip` has numbers of cells.
pub fn plan(
    place: &Place,
    mut request: Request,
    skip: &BTreeSet<usize>,
    sink: &dyn Sink,
) -> anyhow::Result<NotebookPlan> {
    let (versions, baseline) = versions(place, &mut request, skip, sink)?;
    let cells: Vec<&[NotebookCell]> = versions.iter().map(|version| &version.notebook.cells[..]).collect();
    let labels = alignment::labels(&cells);
    let target = target(&place.file);
    let stride = versions.iter().map(|version| version.notebook.stride()).max().unwrap_or(1);
    let mut revisions = Vec::new();
    let mut notes = Vec::new();
    for (index, version) in versions.iter().enumerate() {
        let (revision, outside) = commit(place, version, &labels[index], &target, &mut request.refs[index])?;
        for folder in outside {
            notes.push(format!(
                "{}: the package {folder} is outside of the repository, and is as it was on the disk",
                revision.name
            ));
        }
        revisions.push(revision);
    }
    request.build.manifest_path = Some(format!("{FOLDER}/Cargo.toml"));
    let mut plan = resolve::plan_of(request, &place.repository, FOLDER.into(), revisions, baseline);
    for note in &notes {
        sink.emit(Event::Warning { message: note.clone(), help: None });
    }
    plan.notes = notes;
    let numbered = |(version, labels): (&Version, Vec<String>)| {
        let cells = version.notebook.cells.iter().zip(labels);
        let with_code = cells.filter(|(cell, _)| cell.parsed.has_code());
        with_code.map(|(cell, label)| (cell.parsed.number, label)).collect()
    };
    let labels = versions.iter().zip(labels).map(numbered).collect();
    let last = versions.into_iter().next_back().context("a run has a revision")?;
    Ok(NotebookPlan { plan, document: last.document, labels, target, stride })
}

/// Reads the notebook at each ref. Returns the versions and the index of the baseline.
fn versions(
    place: &Place,
    request: &mut Request,
    skip: &BTreeSet<usize>,
    sink: &dyn Sink,
) -> anyhow::Result<(Vec<Version>, usize)> {
    let name = place.file.file_name().unwrap_or_default();
    let (revisions, baseline) = if place.is_made {
        request.refs = vec![RefRequest { spec: name.to_owned(), ..RefRequest::default() }];
        (vec![without_repository(name)], 0)
    } else {
        resolve_refs(request, &place.repository, sink)?
    };
    let several = revisions.len() > 1;
    let mut versions = Vec::new();
    for revision in revisions {
        let called = if several { format!("{name} of {}", revision.name) } else { name.to_owned() };
        let document = Document::read(&called, place.text(&revision)?)?;
        let notebook = Notebook::read(&called, &document, skip)?;
        let base = (!place.is_made).then(|| revision.commit.clone());
        versions.push(Version { revision, base, document, notebook });
    }
    Ok((versions, baseline))
}

/// Writes a version's commit, and completes the ref with what the commands ask for. Returns the
/// revision and the folders of packages outside of the repository.
fn commit(
    place: &Place,
    version: &Version,
    labels: &[String],
    target: &str,
    reference: &mut RefRequest,
) -> anyhow::Result<(Revision, Vec<Utf8PathBuf>)> {
    let name = place.file.file_name().unwrap_or_default();
    let packages = Packages::new(place, version.base.as_deref());
    let settings = version.notebook.settings(name, &|path| packages.find(path))?;
    let workspace = packages.workspace()?;
    let files = version.notebook.files(&settings, target, labels, &workspace.patches);
    let mut files: Vec<(String, Vec<u8>)> =
        files.into_iter().map(|(path, text)| (format!("{FOLDER}/{path}"), text.into_bytes())).collect();
    if let Some(lock_file) = workspace.lock_file {
        files.push((format!("{FOLDER}/Cargo.lock"), lock_file));
    }
    let outside = packages.outside();
    if !outside.is_empty() {
        // The commit does not hold these packages. Another commit each time is another build, so
        // that no earlier build of older files is taken for this one.
        let now = jiff::Timestamp::now().as_nanosecond().to_string();
        files.push((format!("{FOLDER}/time-of-packages-outside"), now.into_bytes()));
    }
    if let Some(toolchain) = settings.toolchain {
        reference.toolchain.get_or_insert(toolchain);
    }
    for (name, value) in settings.variables {
        reference.env.entry(name).or_insert(value);
    }
    let message = format!("Notebook {name}");
    let hash = written_commit::with_files(&place.repository, version.base.as_deref(), &files, &message)?;
    let written = place.repository.commit(&hash)?;
    let mut revision = version.revision.clone();
    (revision.commit, revision.tree) = (written.hash, written.tree);
    Ok((revision, outside))
}

/// Returns the revision of a notebook in no repository, before its commit is written.
fn without_repository(name: &str) -> Revision {
    Revision {
        name: name.to_owned(),
        spec: name.to_owned(),
        commit: String::new(),
        tree: String::new(),
        subject: format!("Notebook {name}"),
        time: 0,
        found: None,
        working_tree: false,
    }
}

/// Returns the name of the program: the notebook's, as far as cargo allows it.
pub fn target(file: &camino::Utf8Path) -> String {
    let stem = file.file_stem().unwrap_or_default();
    let allowed = |character: char| if character.is_ascii_alphanumeric() { character } else { '_' };
    let name: String = stem.chars().map(allowed).collect();
    if name.starts_with(|first: char| first.is_ascii_alphabetic()) {
        name
    } else {
        format!("notebook_{name}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_has_the_notebooks_name_as_cargo_allows_it() {
        let name = |file: &str| target(camino::Utf8Path::new(file));
        assert_eq!(name("/a/Tour 2.ipynb"), "Tour_2");
        assert_eq!(name("2024-é.ipynb"), "notebook_2024__");
    }
}
