//! Tracing as part of a build: which functions of a revision the patterns mean, known before anything is built, and the
//! edited crates of the registry, with a target folder of their own.

use camino::{Utf8Path, Utf8PathBuf};
use cargo_metadata::Metadata;

use crate::build::builder::Builder;
use crate::build::prepared_source::LeftAlone;
use crate::build::shim;
use crate::build::store;
use crate::cargo::lockfile::Lockfile;
use crate::cargo::toolchain::Toolchain;
use crate::inject::checkout_edits;
use crate::plan::request::TraceRequest;
use crate::results::trace_facts::TraceFacts;
use crate::trace::crates;
use crate::trace::dependency_copies::{self, Copy, LockedCrate};
use crate::trace::instrument::{self, Dropped, Patterns, Search, Tracing};

impl Builder<'_> {
    /// The functions of a revision that the request's patterns mean, without building it.
    pub fn traceable(&mut self, index: usize) -> anyhow::Result<TraceFacts> {
        let toolchain = self.toolchain(index)?;
        self.provide_lockfile(&toolchain)?;
        Ok(self.lay_out(index, &toolchain, &LeftAlone::default())?.tracing.facts)
    }

    /// A pattern that means no function in any revision is a mistake, and it is told before anything is built. A revision that
    /// is built already says itself what was traced.
    pub fn check_patterns(&mut self) -> anyhow::Result<()> {
        if self.patterns.is_empty() {
            return Ok(());
        }
        let mut unmet: Option<Vec<String>> = None;
        for index in 0..self.plan.revisions.len() {
            // What stands in the way of one revision is told when it is built.
            let Ok(facts) = self.known_facts(index).map_or_else(|| self.traceable(index), Ok) else {
                continue;
            };
            unmet = Some(match unmet {
                None => facts.unmet,
                Some(unmet) => unmet.into_iter().filter(|one| facts.unmet.contains(one)).collect(),
            });
        }
        let Some(pattern) = unmet.as_ref().and_then(|unmet| unmet.first()) else { return Ok(()) };
        let paths = self.all_functions().unwrap_or_default();
        Err(instrument::unmet(pattern, &paths).into())
    }

    fn known_facts(&mut self, index: usize) -> Option<TraceFacts> {
        let toolchain = self.toolchain(index).ok()?;
        let key = self.ingredients(index, &toolchain).ok()?.key();
        store::find(&self.cache.store(), &key).map(|entry| entry.provenance.trace)
    }

    /// The paths of all functions in the checkout as it is.
    fn all_functions(&mut self) -> anyhow::Result<Vec<String>> {
        let toolchain = self.toolchain(self.plan.baseline)?;
        let metadata = checkout_edits::metadata(&toolchain, &self.workspace().join("Cargo.toml"))?;
        let all = TraceRequest { functions: vec!["**".to_owned()], ..TraceRequest::default() };
        let crates = crates::own_crates(&metadata, self.worktree.path(), &toolchain)?;
        let base = self.worktree.path();
        let found = instrument::find(&Search {
            crates: &crates,
            patterns: &Patterns::of(&all)?,
            base,
            prefix: Utf8Path::new(""),
            dropped: &Dropped::new(),
            shim_hash: &shim::source_hash(),
        });
        Ok(found.facts.functions.into_iter().map(|function| function.path).collect())
    }

    /// The traced functions of the checkout's own crates.
    pub(crate) fn traced(
        &self,
        metadata: &Metadata,
        toolchain: &Toolchain,
        dropped: &Dropped,
    ) -> anyhow::Result<Tracing> {
        if self.patterns.is_empty() {
            return Ok(Tracing::default());
        }
        let checkout = self.worktree.path();
        let crates = crates::own_crates(metadata, checkout, toolchain)?;
        Ok(instrument::find(&Search {
            crates: &crates,
            patterns: &self.patterns,
            base: checkout,
            prefix: Utf8Path::new(""),
            dropped,
            shim_hash: &shim::source_hash(),
        }))
    }

    /// The crates of the registry that patterns name, as a revision's lock file has them.
    fn traced_dependencies(&self, index: usize) -> anyhow::Result<Vec<LockedCrate>> {
        if self.patterns.crate_names().is_empty() {
            return Ok(Vec::new());
        }
        let commit = &self.plan.revisions[index].commit;
        let committed = self.repository.show(commit, self.plan.workspace.join("Cargo.lock").as_str())?;
        let lock = match (&committed, &self.lockfile) {
            (Some(text), _) | (None, Lockfile::Given(text)) => text.as_slice(),
            _ => return Ok(Vec::new()),
        };
        Ok(dependency_copies::named_in(&String::from_utf8_lossy(lock), &self.patterns))
    }

    /// Names the edits of traced crates of the registry. Where a target is named, what runs in the build is not edited.
    fn edits(&self) -> String {
        let target = self.plan.request.build.target.as_deref().unwrap_or_default();
        let text = format!("{}\n{target}\n{}", shim::source_hash(), self.patterns.texts().join("\n"));
        blake3::hash(text.as_bytes()).to_hex()[..12].to_owned()
    }

    /// Cargo's target folder for a revision.
    pub(crate) fn target(&self, index: usize) -> anyhow::Result<Utf8PathBuf> {
        let is_plain = self.traced_dependencies(index)?.is_empty();
        Ok(if is_plain { self.cache.target() } else { self.cache.target_of_traced(&self.edits()) })
    }

    /// The edited copies of these crates.
    pub(crate) fn copies(
        &self,
        index: usize,
        manifest: &Utf8Path,
        toolchain: &Toolchain,
    ) -> anyhow::Result<Vec<Copy>> {
        let folder = self.cache.copies(&self.edits());
        let place = dependency_copies::Place {
            folder: &folder,
            manifest,
            offline: self.plan.request.build.offline,
            shim_hash: &shim::source_hash(),
        };
        let crates = self.traced_dependencies(index)?;
        crates.iter().map(|one| dependency_copies::copy(one, &place, &self.patterns, toolchain)).collect()
    }
}
