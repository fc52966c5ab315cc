//! The toolchain of each revision, and the toolchain file that selects it.

use std::collections::HashMap;

use camino::Utf8Path;

use crate::cargo::toolchain::{Toolchain, ToolchainChoice};
use crate::checkout::cache::Cache;
use crate::git::links::{self, Linked};
use crate::git::repository::Repository;
use crate::plan::resolved::{Plan, Revision};
use crate::support::user_error::UserError;

/// With more revisions, their toolchain files are not listed: a search over a history would print
/// hundreds.
const MOST_TOOLCHAIN_FILES: usize = 8;

/// The toolchains that were queried so far.
#[derive(Default)]
pub struct Toolchains {
    known: HashMap<(ToolchainChoice, Vec<u8>), Toolchain>,
}

impl Toolchains {
    /// Returns the toolchain that builds a revision.
    pub fn of(
        &mut self,
        plan: &Plan,
        index: usize,
        repository: &Repository,
        cache: &Cache,
    ) -> anyhow::Result<Toolchain> {
        let request = &plan.request;
        let wish = request.refs.get(index).and_then(|wanted| wanted.toolchain.as_deref());
        let choice = ToolchainChoice::from_wish(wish.or(request.build.toolchain.as_deref()));
        let file = match &choice {
            ToolchainChoice::Pinned(_) => None,
            ToolchainChoice::OfRevision => {
                toolchain_file(repository, &plan.revisions[index].commit, &plan.workspace)?
            }
        };
        let (name, text) = file.unwrap_or_default();
        if let Some(known) = self.known.get(&(choice.clone(), text.clone())) {
            return Ok(known.clone());
        }
        // Rustup reads the file from its working directory. A folder with only this file saves a
        // checkout.
        let hash = blake3::hash(&text).to_hex();
        let directory = cache.folder().join("toolchains").join(&hash[..16]);
        fs_err::create_dir_all(&directory)?;
        if !name.is_empty() {
            fs_err::write(directory.join(&name), &text)?;
        }
        let toolchain = Toolchain::ask(&choice, &directory, request.clean_env.clone())?;
        self.known.insert((choice, text), toolchain.clone());
        Ok(toolchain)
    }
}

/// Returns name and toolchain file of each revision, for advice if they differ; empty for a long
/// history.
pub fn toolchain_files(
    plan: &Plan,
    repository: &Repository,
) -> anyhow::Result<Vec<(String, Option<String>)>> {
    if plan.revisions.len() > MOST_TOOLCHAIN_FILES {
        return Ok(Vec::new());
    }
    let read = |revision: &Revision| {
        // The file's own error is reported when the revision is built.
        let file = toolchain_file(repository, &revision.commit, &plan.workspace).unwrap_or(None);
        let text = file.map(|(_, text)| String::from_utf8_lossy(&text).trim().to_owned());
        Ok((revision.name.clone(), text))
    };
    plan.revisions.iter().map(read).collect()
}

/// Returns name and text of the toolchain file that rustup would find from the workspace upwards.
fn toolchain_file(
    repository: &Repository,
    commit: &str,
    workspace: &Utf8Path,
) -> anyhow::Result<Option<(String, Vec<u8>)>> {
    for folder in workspace.ancestors() {
        for name in ["rust-toolchain", "rust-toolchain.toml"] {
            let path = folder.join(name);
            match links::show(repository, commit, path.as_str())? {
                Linked::File(text) | Linked::Link(text) => return Ok(Some((name.to_owned(), text))),
                Linked::LeadsOutside(target) => {
                    let message =
                        format!("{path} is a symbolic link that leads out of the repository, to {target}");
                    let help = "choose the toolchain with --toolchain NAME";
                    return Err(UserError::new(message).help(help).into());
                }
                Linked::Absent => {}
            }
        }
    }
    Ok(None)
}
