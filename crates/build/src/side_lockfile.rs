//! The lock file of a revision that is built with other dependencies than its own: cargo resolves it
//! in the checkout, and it is kept for later runs. The user's lock file is never touched.

use std::collections::BTreeMap;

use camino::Utf8PathBuf;

use crate::build_tree::BuildTree;
use crate::cargo::configuration;
use crate::cargo::lockfile;
use crate::cargo::resolution::out_of_reach;
use crate::cargo::usable_versions;
use crate::git_dependency;
use crate::inject::external::PackageOptions;
use crate::inject::outside_paths::NamedFolder;
use crate::inject::unused_change;
use crate::job::{Inputs, Job};
use crate::lockfile_resolver::LockfileResolver;
use crate::patched_source;
use crate::provided_side::ProvidedSide;
use crate::shared_lockfile;
use memprof_plan::dependency_change::{DependencyChange, Replacement};
use memprof_plan::lock_differences::{self, LockedPackage, is_compatible};
use memprof_plan::request::BuildOptions;
use memprof_plan::side;
use memprof_plan::side_lockfile::SideLockfile;
use memprof_support::regular_file::followed;
use memprof_support::suggest;
use memprof_support::user_error::UserError;

/// What the lock file of a side follows from.
struct Wanted<'a> {
    job: &'a Job<'a>,
    /// The lock file to begin with; `None` if the revision has none and is built without.
    base: Option<Vec<u8>>,
    changes: Vec<DependencyChange>,
    /// The commits of changes that name a git repository, if they are known.
    commits: BTreeMap<DependencyChange, String>,
    /// The changes to another commit of the lock file's own repository. Cargo patches no source with itself.
    other_commits: Vec<DependencyChange>,
    patches: Vec<String>,
    folders: Vec<NamedFolder>,
}

/// Returns what a revision is built with; `None` if it has its own dependencies.
///
/// # Errors
/// A [`UserError`] if cargo cannot resolve it.
pub(crate) fn provide(job: &Job<'_>, tree: &mut BuildTree<'_>) -> anyhow::Result<Option<ProvidedSide>> {
    let changes = changes_of(job)?;
    let has_lockfile = job.inputs.plan.request.refs.get(job.index).is_some_and(|one| one.lockfile.is_some());
    if changes.is_empty() && !has_lockfile {
        return Ok(None);
    }
    let base = base_of(job, job.index)?;
    let locked = lock_differences::locked(base.as_deref().unwrap_or_default());
    let (mut patches, mut folders) = (Vec::new(), Vec::new());
    let (mut commits, mut other_commits) = (BTreeMap::new(), Vec::new());
    for change in &changes {
        let is_locked = locked.iter().any(|one| one.name == change.package);
        let is_path = matches!(change.to, Replacement::Path(_));
        // A lock file of another revision may lack it, and cargo adds what a manifest has.
        let source = if is_path && !is_locked && is_named(job, job.index, &change.package) {
            None
        } else {
            chosen(change, &locked, &job.revision().name)?.source.as_deref()
        };
        if let (None, Replacement::Path(path)) = (source, &change.to) {
            // Cargo patches no path dependency.
            let folder = patched_source::copied(&change.package, path.as_ref(), job.inputs.cache)?;
            folders.push(NamedFolder { package: change.package.clone(), folder });
            continue;
        }
        let commit = git_dependency::commit(&change.to, job.options().settings.offline, job.inputs)?;
        commits.extend(commit.map(|commit| (change.clone(), commit)));
        if let (Some(source), Replacement::Git { url, .. }) = (source, &change.to)
            && git_dependency::is_of_repository(source, url)
        {
            other_commits.push(change.clone());
            continue;
        }
        let rev = rev_of(change, &commits);
        patches.extend(patched_source::settings(change, source, rev, job.inputs.cache)?);
    }
    let wanted = Wanted { job, base, changes, commits, other_commits, patches, folders };
    let kept = wanted.kept();
    let lockfile = if kept.exists() {
        followed::read(&kept)?
    } else {
        let text = wanted.resolve(tree)?;
        lockfile::keep(&kept, &text)?;
        text
    };
    Ok(Some(ProvidedSide { lockfile, patches: wanted.patches, folders: wanted.folders }))
}

/// Returns the commit of a change, or else the name that the user wrote.
fn rev_of<'a>(
    change: &'a DependencyChange,
    commits: &'a BTreeMap<DependencyChange, String>,
) -> Option<&'a str> {
    let Replacement::Git { rev, .. } = &change.to else { return None };
    commits.get(change).or(rev.as_ref()).map(String::as_str)
}

/// Returns the dependencies that a revision is built with in place of its lock file's. One for all refs is left out at
/// a ref that does not depend on the package, if another ref does.
fn changes_of(job: &Job<'_>) -> anyhow::Result<Vec<DependencyChange>> {
    let plan = job.inputs.plan;
    let one = plan.request.refs.get(job.index);
    let mut changes = Vec::new();
    for change in side::dependencies(&plan.request, one) {
        let is_own = one.is_some_and(|one| one.with.contains(&change));
        if is_own || depends(job, job.index, &change.package)? || !is_needed_elsewhere(job, &change.package)?
        {
            changes.push(change);
        }
    }
    Ok(changes)
}

/// Whether another revision of the plan depends on a package. In a history, the last one most likely does.
fn is_needed_elsewhere(job: &Job<'_>, package: &str) -> anyhow::Result<bool> {
    let others = (0..job.inputs.plan.revisions.len()).rev().filter(|&index| index != job.index);
    for index in others {
        if depends(job, index, package)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether a revision depends on a package: its lock file has it from a registry or from git, or a manifest names it.
/// The lock file may be another revision's, which has its own path dependencies.
fn depends(job: &Job<'_>, index: usize, package: &str) -> anyhow::Result<bool> {
    let locked = lock_differences::locked(&base_of(job, index)?.unwrap_or_default());
    let mut of_package = locked.iter().filter(|one| one.name == package).peekable();
    // A patch may change manifests.
    let is_patched = of_package.peek().is_some() && !job.inputs.patches.is_empty();
    Ok(is_patched || of_package.any(|one| one.source.is_some()) || is_named(job, index, package))
}

/// Whether a manifest of a revision names a package. A partial clone may not know, and then it may.
fn is_named(job: &Job<'_>, index: usize, package: &str) -> bool {
    let commit = &job.inputs.revision(index).commit;
    job.inputs.repository.has_text(commit, &[package], &["*Cargo.toml"]).unwrap_or(true)
}

/// Returns the lock file of a revision to begin with; `None` if it has none and is built without.
fn base_of(job: &Job<'_>, index: usize) -> anyhow::Result<Option<Vec<u8>>> {
    let Inputs { plan, repository, .. } = job.inputs;
    if let Some(given) = plan.request.refs.get(index).and_then(|one| one.lockfile.as_ref()) {
        return text_of(given, job).map(Some);
    }
    match lockfile::committed_text(plan, index, repository)? {
        Some(text) => Ok(Some(text)),
        None => job.lockfile.injected(plan, index, repository),
    }
}

/// Reads the lock file that takes the place of a revision's own.
fn text_of(given: &SideLockfile, job: &Job<'_>) -> anyhow::Result<Vec<u8>> {
    match given {
        SideLockfile::File { path, hash } => {
            let text = followed::read(path)?;
            if blake3::hash(&text).to_hex().as_str() == hash {
                return Ok(text);
            }
            Err(UserError::new(format!("{path} changed since this run was planned"))
                .help("start a new run, without --resume")
                .into())
        }
        SideLockfile::Ref { spec, commit } => {
            let path = job.inputs.plan.workspace.join("Cargo.lock");
            let text = lockfile::text_of(job.inputs.repository, commit, path.as_str())?;
            let help = "name another ref, or a file: --lockfile new=path/to/Cargo.lock";
            Ok(text.ok_or_else(|| UserError::new(format!("lockfile: {spec} has no {path}")).help(help))?)
        }
    }
}

/// Returns the locked package that a change is about.
fn chosen<'a>(
    change: &DependencyChange,
    locked: &'a [LockedPackage],
    name: &str,
) -> Result<&'a LockedPackage, UserError> {
    let package = &change.package;
    let versions: Vec<&LockedPackage> = locked.iter().filter(|one| one.name == *package).collect();
    let shown = || versions.iter().map(|one| one.version.as_str()).collect::<Vec<_>>().join(" and ");
    if versions.is_empty() {
        let names: std::collections::BTreeSet<&str> = locked.iter().map(|one| one.name.as_str()).collect();
        return Err(UserError::new(format!(
            "--with {change}: the lock file of {name} has no package '{package}'"
        ))
        .help(suggest::did_you_mean(package, names).unwrap_or_else(|| {
            "`cargo tree` lists the packages; a new one needs a requirement in a Cargo.toml".to_owned()
        })));
    }
    if let Some(from) = &change.from {
        let found = versions.iter().copied().find(|one| one.version == *from);
        return found.ok_or_else(|| {
            UserError::new(format!(
                "--with {change}: the lock file of {name} has {package} {}, not {from}",
                shown()
            ))
            .help(format!("leave out {from}: {}", DependencyChange { from: None, ..change.clone() }))
        });
    }
    let fitting = versions.iter().copied().filter(|one| match &change.to {
        Replacement::Version(to) => is_compatible(&one.version, to),
        Replacement::Path(_) | Replacement::Git { .. } => true,
    });
    match (fitting.collect::<Vec<_>>().as_slice(), versions.as_slice()) {
        ([one], _) | ([], [one]) => Ok(one),
        _ => {
            Err(UserError::new(format!("--with {change}: the lock file of {name} has {package} {}", shown()))
                .help(format!(
                    "say which one to replace: {}",
                    DependencyChange { from: Some(versions[0].version.clone()), ..change.clone() }
                )))
        }
    }
}

impl Wanted<'_> {
    fn inputs(&self) -> &Inputs<'_> {
        self.job.inputs
    }

    /// Returns where the lock file is kept. Its name is a hash of everything that it follows from.
    fn kept(&self) -> Utf8PathBuf {
        let mut hasher = blake3::Hasher::new();
        let inputs = self.inputs();
        let options = self.options();
        let overlay: Vec<_> = self
            .job
            .overlay()
            .iter()
            .map(|file| (file.destination.clone(), blake3::hash(&file.content).to_hex().to_string()))
            .collect();
        let patches: Vec<_> =
            inputs.patches.iter().map(|patch| blake3::hash(patch.content()).to_hex().to_string()).collect();
        let crate_of_tests = shared_lockfile::crate_of_tests(inputs.plan);
        let options_of_crate =
            (!crate_of_tests.is_empty()).then(|| PackageOptions::split_off(&options, self.job.features()).0);
        let facts = format!(
            "{} {} {:?} {:?} {:?} {:?} {} {:?} {:?} {} {:?} {:?}",
            self.job.revision().tree,
            inputs.plan.workspace,
            self.changes,
            self.commits,
            options.config,
            inputs.plan.request.settings.sparse_exclude,
            self.job.toolchain.version,
            overlay,
            patches,
            crate_of_tests,
            options_of_crate,
            self.folders,
        );
        if self.changes.iter().any(|change| change.to.may_move() && !self.commits.contains_key(change)) {
            // Cargo looks the name up, once for each plan: a run that continues has the same commit.
            hasher.update(inputs.plan.created.as_bytes()).update(&[0]);
        }
        hasher.update(facts.as_bytes()).update(&[0]).update(self.base.as_deref().unwrap_or_default());
        inputs.cache.lockfiles().join(format!("side-{}.lock", &hasher.finalize().to_hex()[..32]))
    }

    fn options(&self) -> BuildOptions {
        let mut options = self.job.options();
        options.config.extend(self.patches.iter().cloned());
        options
    }

    /// Lets cargo resolve the lock file in the checkout.
    fn resolve(&self, tree: &mut BuildTree<'_>) -> anyhow::Result<Vec<u8>> {
        let resolver = LockfileResolver::check_out(self.job, self.options(), &self.folders, tree)?;
        let done = self.resolve_with(&resolver);
        resolver.finish()?;
        done
    }

    fn resolve_with(&self, resolver: &LockfileResolver<'_>) -> anyhow::Result<Vec<u8>> {
        let base = self.base.as_deref().unwrap_or_default();
        if self.patches.is_empty() {
            // A lock file of another revision may lack packages.
            resolver.completed(base)?.map_err(|message| self.does_not_fit(&resolver.reason(&message)))?;
        } else {
            // With the patches, cargo would complete it in its own way.
            resolver.write(base)?;
        }
        for change in &self.changes {
            let locked = lock_differences::locked(&resolver.read()?);
            let replaced = chosen(change, &locked, &self.job.revision().name)?;
            self.apply(resolver, change, replaced)?;
        }
        let text = resolver.read()?;
        self.check(&text)?;
        Ok(text)
    }

    /// Replaces one package in the lock file of the checkout.
    fn apply(
        &self,
        resolver: &LockfileResolver<'_>,
        change: &DependencyChange,
        replaced: &LockedPackage,
    ) -> anyhow::Result<()> {
        // Every cargo knows the colon.
        let spec = format!("{}:{}", replaced.name, replaced.version);
        let mut arguments = vec!["update", "--package", &spec];
        match &change.to {
            Replacement::Version(to) if *to == replaced.version => return Ok(()),
            Replacement::Version(to) => arguments.extend(["--precise", to]),
            Replacement::Git { url, .. } if self.other_commits.contains(change) => {
                let rev = rev_of(change, &self.commits).ok_or_else(|| {
                    UserError::new(format!(
                        "{}: cannot look up the default branch of {url}",
                        self.subject(change)
                    ))
                    .help(format!("name a commit: {}={url}@COMMIT", change.package))
                })?;
                arguments.extend(["--precise", rev]);
            }
            Replacement::Path(_) | Replacement::Git { .. } => {}
        }
        let done = resolver.cargo(&arguments).capture()?;
        if done.status.success() {
            return Ok(());
        }
        let message = format!(
            "{}: cargo cannot resolve this: {}",
            self.subject(change),
            resolver.reason(&String::from_utf8_lossy(&done.stderr))
        );
        let help = match &change.to {
            // Versions of the registry are no answer if the repository cannot be read.
            Replacement::Git { url, rev } if message.contains("failed to load source") => {
                let rev = rev.as_deref().unwrap_or("HEAD");
                Some(format!("to see whether it can be fetched: git fetch {url} {rev}"))
            }
            Replacement::Git { url, .. } if message.contains("must point to different sources") => {
                Some(format!("name a folder: git clone {url} FOLDER, and then {}=FOLDER", change.package))
            }
            _ => match replaced.source.as_deref().and_then(git_dependency::url) {
                // It has no versions to choose from.
                Some(url) => Some(format!(
                    "{package} is a dependency from git: {package}={url}@COMMIT builds another commit",
                    package = change.package
                )),
                None => self.advice(resolver, change, replaced),
            },
        };
        Err(UserError::new(message).maybe_help(help).into())
    }

    /// Returns the versions that would work, if they are known.
    fn advice(
        &self,
        resolver: &LockfileResolver<'_>,
        change: &DependencyChange,
        replaced: &LockedPackage,
    ) -> Option<String> {
        let metadata = resolver.cargo(&["metadata", "--format-version", "1"]).capture().ok()?;
        let metadata = serde_json::from_slice(&metadata.stdout).ok();
        let required = metadata
            .map(|metadata| usable_versions::requirements(&metadata, &replaced.name, &replaced.version))
            .unwrap_or_default();
        let config = self.job.config().ok();
        let local = config.map(|config| config.local_registries()).unwrap_or_default();
        let home = configuration::home().and_then(|home| Utf8PathBuf::from_path_buf(home).ok());
        let published = usable_versions::published(&change.package, home.as_deref(), &local);
        let mut usable = usable_versions::usable(&published, &required);
        if let Replacement::Version(refused) = &change.to {
            // The version meets the requirements, and something else is wrong with it.
            usable.retain(|version| version.to_string() != *refused);
        }
        let newest = usable.first().map(|newest| format!("\nfor the newest: {}@{newest}", change.package));
        let advice = usable_versions::advice(&change.package, &usable, &required);
        Some(advice + &newest.unwrap_or_default()).filter(|advice| !advice.is_empty())
    }

    /// Checks that the lock file has what was asked for. Cargo ignores a patch that meets no
    /// requirement.
    fn check(&self, text: &[u8]) -> anyhow::Result<()> {
        let locked = lock_differences::locked(text);
        for change in &self.changes {
            let of_package = || locked.iter().filter(|one| one.name == change.package);
            let is_there = match &change.to {
                Replacement::Version(to) => of_package().any(|one| one.version == *to),
                Replacement::Path(_) => of_package().any(|one| one.source.is_none()),
                Replacement::Git { url, .. } => {
                    let rev = rev_of(change, &self.commits);
                    let is_at = |source: &str| git_dependency::is_at(source, url, rev);
                    of_package().any(|one| one.source.as_deref().is_some_and(is_at))
                }
            };
            if !is_there {
                let stays: Vec<&LockedPackage> = of_package().collect();
                let versions: Vec<&str> = stays.iter().map(|one| one.version.as_str()).collect();
                let config = self.job.config().ok();
                let workspace = self.inputs().workspace();
                let (reason, help) = unused_change::why(change, &stays, &workspace, config.as_ref());
                let colon = if reason.is_empty() { "" } else { ": " };
                let message = format!(
                    "--with {change}: cargo does not use it for {}, and stays with {} {}{colon}{reason}",
                    self.job.revision().name,
                    change.package,
                    versions.join(" and ")
                );
                return Err(UserError::new(message).help(help).into());
            }
        }
        Ok(())
    }

    /// Returns `main: --with serde@1.0.200`.
    fn subject(&self, change: &DependencyChange) -> String {
        let name = &self.job.revision().name;
        let is_named = name.starts_with(&change.to_string());
        if is_named { format!("--with {change}") } else { format!("{name}: --with {change}") }
    }

    fn does_not_fit(&self, reason: &str) -> UserError {
        let one = self.inputs().plan.request.refs.get(self.job.index);
        let given = one.and_then(|one| one.lockfile.as_ref());
        let which = given.map_or("its lock file", SideLockfile::written);
        let name = &self.job.revision().name;
        if let Some(error) = out_of_reach(name, reason) {
            return error;
        }
        UserError::new(format!("{which} cannot be used for {name}: {reason}"))
            .help("the lock file must be of the same code: give one that cargo wrote for this workspace")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, version: &str) -> LockedPackage {
        LockedPackage { name: name.to_owned(), version: version.to_owned(), source: None }
    }

    #[test]
    fn the_version_that_a_change_replaces_is_the_one_that_it_is_compatible_with() {
        let locked = [package("rand", "0.7.3"), package("rand", "0.8.5"), package("serde", "1.0.180")];
        let of = |change: &str| {
            let change: DependencyChange = change.parse().unwrap();
            chosen(&change, &locked, "new").map(|one| one.version.clone()).map_err(|error| error.rendered())
        };
        assert_eq!(of("rand@0.8.4").unwrap(), "0.8.5");
        assert_eq!(of("rand@0.7.3..0.7.2").unwrap(), "0.7.3");
        assert_eq!(of("serde@2.0.0").unwrap(), "1.0.180", "the only one");
        assert_eq!(of("serde=../serde").unwrap(), "1.0.180");
        for (change, error) in [
            ("rand@0.9.0", "has rand 0.7.3 and 0.8.5\n  help: say which one to replace: rand@0.7.3..0.9.0"),
            (
                "rand=../rand",
                "has rand 0.7.3 and 0.8.5\n  help: say which one to replace: rand@0.7.3=../rand",
            ),
            ("rand@0.6.0..0.6.1", "has rand 0.7.3 and 0.8.5, not 0.6.0\n  help: leave out 0.6.0: rand@0.6.1"),
            ("serd@1.0.0", "has no package 'serd'\n  help: did you mean 'serde'?"),
        ] {
            assert_eq!(
                of(change).unwrap_err(),
                format!("error: --with {change}: the lock file of new {error}")
            );
        }
    }
}
