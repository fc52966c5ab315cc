//! The programs of a request: finds them in a checkout, and calls cargo for each.
//!
//! Two packages may have programs of one name, and cargo puts both at one path. So each is copied
//! before cargo is called again.

use std::collections::BTreeSet;
use std::io::Write;

use anyhow::Context;
use camino::{Utf8Path, Utf8PathBuf};
use cargo_metadata::{Artifact, CrateType, Metadata};

use crate::cargo::command;
use crate::cargo::errors;
use crate::cargo::manifest::target_kind;
use crate::compilation::{self, CargoCall, Compiled};
use crate::failure::{BuildFailure, Fault};
use crate::freshness;
use crate::inject::checkout_edits;
use crate::job::Job;
use crate::noting_runner::TestInvocation;
use crate::prepared_source::PreparedSource;
use crate::provenance::FailedTarget;
use crate::traced_sources;
use crate::wrapper;
use memprof_plan::program::ProgramRequest;
use memprof_plan::request::{OverlayMode, TargetKind};
use memprof_support::paths;
use memprof_support::regular_file::followed;
use memprof_support::user_error::UserError;

/// A program that cargo built.
pub(crate) struct BuiltProgram {
    pub package: String,
    pub name: String,
    /// `bin` or `example`.
    pub kind: TargetKind,
    /// The root file.
    pub root: Utf8PathBuf,
    /// The executable as the compiler wrote it, with the compiler wrapper's marks next to it.
    pub compiled: Utf8PathBuf,
    /// A copy of the executable.
    pub copy: Utf8PathBuf,
    /// How cargo would run it.
    pub invocation: TestInvocation,
    /// The folder with the copy.
    _folder: tempfile::TempDir,
}

/// The programs of a request at one revision.
#[derive(Default)]
pub(crate) struct Programs {
    /// Programs that were built.
    pub built: Vec<BuiltProgram>,
    /// Targets that do not compile, or that cargo refuses to build.
    pub failed: Vec<FailedTarget>,
    /// What the packages have, if they lack one of the request.
    pub known: Vec<String>,
}

/// A program of a checkout.
#[derive(PartialEq, Eq)]
struct Found {
    package: String,
    kind: TargetKind,
    name: String,
    root: Utf8PathBuf,
}

/// How many errors of a program are kept. The log has all of them.
const SHOWN: usize = 3;

/// Builds all programs of the request that the revision has. Adds what cargo says to `all`.
///
/// # Errors
///
/// The tool itself failed, or a name is not unique. A program that does not build is no error.
pub(crate) fn build(
    job: &Job<'_>,
    prepared: &PreparedSource,
    all: &mut Compiled,
    log: &mut fs_err::File,
) -> anyhow::Result<Programs> {
    let mut programs = Programs::default();
    let requested = job.inputs.plan.request.programs();
    if requested.is_empty() {
        return Ok(programs);
    }
    if !job.inputs.overlay_of(OverlayMode::External).is_empty() {
        return Err(UserError::new("an external overlay is built without the package's own programs")
            .help("leave out --overlay-mode external (`mode: external`), or the program")
            .into());
    }
    let metadata = checkout_edits::metadata(job.toolchain, &prepared.manifest, &job.inputs.workspace())?;
    let mut found = Vec::new();
    for (program, package) in requested {
        match find(&metadata, &prepared.manifest, program, &packages(job, package))? {
            // One may be named with its package, and without.
            Some(program) if found.contains(&program) => {}
            Some(program) => found.push(program),
            None => programs.known = known(&metadata, &packages(job, package)),
        }
    }
    let mut found = found.into_iter();
    while let Some(program) = found.next() {
        let call = CargoCall {
            arguments: arguments(job, &program)?,
            wrapper: wrapper::WRAP_PROGRAM_NAME,
            unselected: BTreeSet::new(),
        };
        let mut compiled = compilation::compile(job, &call, prepared, log)?;
        if compiled.success {
            let built = collect(&mut compiled, &program)?;
            writeln!(log, "# copied {}", built.compiled)?;
            programs.built.push(built);
        } else {
            let is_of_cargo = is_of_cargo(&compiled);
            programs.failed.push(failed(job, &program, &compiled));
            if is_of_cargo {
                // The next call would fail like this one, perhaps after minutes.
                programs.failed.extend(found.by_ref().map(|program| failed(job, &program, &compiled)));
            }
        }
        all.join(compiled);
    }
    Ok(programs)
}

/// Whether cargo failed before it compiled anything, and not because of what it was asked for.
fn is_of_cargo(compiled: &Compiled) -> bool {
    let failure = BuildFailure::from_compiler(&compiled.messages, &compiled.stderr);
    compiled.messages.artifacts.is_empty()
        && compiled.messages.errors.is_empty()
        && failure.fault != Fault::Request
}

/// Returns cargo's arguments for a program. `cargo run` takes a single package.
fn arguments(job: &Job<'_>, program: &Found) -> anyhow::Result<Vec<String>> {
    let target = traced_sources::target_folder(job)?;
    let mut arguments = command::run_argv(&job.options(), &job.features(), &target);
    let flag = format!("--{}", program.kind.as_str());
    arguments.extend(["--package".to_owned(), program.package.clone(), flag, program.name.clone()]);
    Ok(arguments)
}

/// Returns the names of the packages that may have the program; none means any.
fn packages(job: &Job<'_>, of_entry: Option<&str>) -> Vec<String> {
    if let Some(name) = of_entry {
        return vec![name.to_owned()];
    }
    // A spec may have a version or be a URL: `a@1.0`, `path+file:///r/a#1.0`.
    let name = |spec: &String| {
        let last = spec.rsplit('/').next().unwrap_or(spec);
        last.split(['@', '#', ':']).next().unwrap_or(last).to_owned()
    };
    job.options().settings.packages.iter().map(name).collect()
}

/// Returns the programs of the packages that may have them, each with its package's manifest.
fn runnable<'a>(
    metadata: &'a Metadata,
    packages: &'a [String],
) -> impl Iterator<Item = (&'a Utf8Path, Found)> {
    let is_meant =
        |name: &str| packages.is_empty() || packages.iter().any(|package| package.as_str() == name);
    let packages = metadata.packages.iter().filter(move |package| is_meant(package.name.as_str()));
    packages.flat_map(|package| {
        let is_program = |target: &&cargo_metadata::Target| target.crate_types.contains(&CrateType::Bin);
        package.targets.iter().filter(is_program).filter_map(|target| {
            let kind = target_kind(target)?;
            let is_runnable = matches!(kind, TargetKind::Bin | TargetKind::Example);
            let found = Found {
                package: package.name.to_string(),
                kind,
                name: target.name.clone(),
                root: target.src_path.clone(),
            };
            is_runnable.then_some((package.manifest_path.as_path(), found))
        })
    })
}

/// Returns the program of this name. If several packages have one, the workspace's own package wins.
fn find(
    metadata: &Metadata,
    manifest: &Utf8Path,
    program: &ProgramRequest,
    packages: &[String],
) -> Result<Option<Found>, UserError> {
    let is_meant = |found: &Found| found.kind == program.kind && found.name == program.name;
    let mut found: Vec<(&Utf8Path, Found)> =
        runnable(metadata, packages).filter(|(_, found)| is_meant(found)).collect();
    if let Some(own) = found.iter().position(|(of, _)| *of == manifest) {
        return Ok(Some(found.swap_remove(own).1));
    }
    match &found[..] {
        [] | [_] => Ok(found.pop().map(|(_, found)| found)),
        several => {
            let names: Vec<&str> = several.iter().map(|(_, found)| found.package.as_str()).collect();
            let message =
                format!("{} packages have the {}: {}", names.len(), program.target(), names.join(", "));
            let first = names.first().copied().unwrap_or_default();
            Err(UserError::new(message)
                .help(format!("choose one: -p {first}, or in memprof.yaml `package: {first}`")))
        }
    }
}

fn known(metadata: &Metadata, packages: &[String]) -> Vec<String> {
    let mut known: Vec<String> = runnable(metadata, packages)
        .map(|(_, found)| format!("{} {}", found.kind.as_str(), found.name))
        .collect();
    known.sort();
    known.dedup();
    known
}

/// Copies a program that cargo built. Its artifact then names the compiler's own file, which is not
/// replaced by the next program of this name.
fn collect(compiled: &mut Compiled, program: &Found) -> anyhow::Result<BuiltProgram> {
    let is_it = |artifact: &&mut Artifact| {
        artifact.executable.is_some()
            && artifact.target.name == program.name
            && target_kind(&artifact.target) == Some(program.kind)
    };
    let name = &program.name;
    let artifact = compiled.messages.artifacts.iter_mut().find(is_it);
    let artifact = artifact.with_context(|| format!("cargo did not say where it built {name}"))?;
    let built = artifact.executable.take().context("an executable has a path")?;
    let original = freshness::original_of_link(&built).unwrap_or_else(|| built.clone());
    artifact.filenames = vec![original.clone()];
    let folder = std::mem::replace(&mut compiled.notes, tempfile::tempdir()?);
    let file_name = built.file_name().context("an executable has a name")?;
    let note = followed::read(folder.path().join(format!("{file_name}.json")))
        .with_context(|| format!("cargo built {built}, but did not run it"))?;
    let copy = paths::utf8(folder.path().join("program"))?;
    followed::copy(&built, &copy)?;
    Ok(BuiltProgram {
        package: program.package.clone(),
        name: name.clone(),
        kind: program.kind,
        root: program.root.clone(),
        compiled: original,
        copy,
        invocation: serde_json::from_slice(&note)?,
        _folder: folder,
    })
}

fn failed(job: &Job<'_>, program: &Found, compiled: &Compiled) -> FailedTarget {
    let of_compiler = compiled.messages.first_errors(SHOWN);
    let errors = if of_compiler.is_empty() { errors::of_stderr(&compiled.stderr) } else { of_compiler };
    let root = &program.root;
    FailedTarget {
        package: program.package.clone(),
        binary: program.name.clone(),
        kind: program.kind,
        root: root.strip_prefix(&job.inputs.checkout).unwrap_or(root).to_owned(),
        errors,
        is_program: true,
    }
}
