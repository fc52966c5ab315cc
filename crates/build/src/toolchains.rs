//! The toolchain of each revision, and the toolchain file that selects it.

use std::collections::HashMap;

use camino::Utf8Path;
use toml_edit::{DocumentMut, Item, Value};

use crate::cargo::toolchain::{Toolchain, ToolchainChoice};
use crate::checkout::cache::Cache;
use crate::git::links::{self, Linked};
use crate::git::repository::Repository;
use memprof_plan::resolved::{Plan, Revision};
use memprof_support::process_error::ProcessError;
use memprof_support::user_error::UserError;

/// With more revisions, their toolchain files are not listed: a search over a history would print
/// hundreds.
const MOST_TOOLCHAIN_FILES: usize = 8;

/// The toolchains that were queried so far.
#[derive(Default)]
pub(crate) struct Toolchains {
    known: HashMap<(ToolchainChoice, Vec<u8>), Toolchain>,
}

impl Toolchains {
    /// Returns the toolchain that builds a revision.
    pub(crate) fn for_revision(
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
        let asked = Toolchain::ask(&choice, &directory, request.clean_env.clone());
        let toolchain = asked.map_err(|error| named_in(&name, &text, error))?;
        self.known.insert((choice, text), toolchain.clone());
        Ok(toolchain)
    }
}

/// Returns an error that names the toolchain of the file that rustup could not use, and how to install
/// it. Any other error stays as it is.
fn named_in(file: &str, text: &[u8], error: anyhow::Error) -> anyhow::Error {
    let of_rustup = error.chain().find_map(|cause| cause.downcast_ref::<ProcessError>());
    let stderr = of_rustup.map(ProcessError::stderr).filter(|stderr| !stderr.is_empty());
    let (Some(stderr), Some((channel, more))) = (stderr, channel_in(&String::from_utf8_lossy(text))) else {
        return error;
    };
    let reason = stderr.lines().find_map(|line| line.strip_prefix("error: ")).unwrap_or(stderr);
    UserError::new(format!("{file} names the toolchain '{channel}', which cannot be used: {reason}"))
        .help(format!(
            "rustup toolchain install {channel}{more}\nor build every ref with another toolchain: --toolchain stable"
        ))
        .into()
}

/// Returns the channel of a toolchain file, and what else it requests, as flags of rustup. The file
/// is TOML, or else the channel alone.
fn channel_in(text: &str) -> Option<(String, String)> {
    let Ok(document) = text.parse::<DocumentMut>() else {
        let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        return lines
            .next()
            .filter(|line| !line.contains(char::is_whitespace))
            .map(|line| (line.into(), String::new()));
    };
    let table = document.get("toolchain")?;
    let channel = table.get("channel")?.as_str()?.to_owned();
    let flags = [("components", "--component"), ("targets", "--target")].map(|(key, flag)| {
        let list = table.get(key).and_then(Item::as_array);
        let names: Vec<&str> = list.into_iter().flatten().filter_map(Value::as_str).collect();
        if names.is_empty() { String::new() } else { format!(" {flag} {}", names.join(",")) }
    });
    Some((channel, flags.concat()))
}

/// Returns name and toolchain file of each revision that is built with its own, for advice if they
/// differ; empty for a long history.
pub(crate) fn toolchain_files(
    plan: &Plan,
    repository: &Repository,
) -> anyhow::Result<Vec<(String, Option<String>)>> {
    if plan.revisions.len() > MOST_TOOLCHAIN_FILES {
        return Ok(Vec::new());
    }
    let request = &plan.request;
    let is_used = |index: &usize| {
        let own = request.refs.get(*index).and_then(|one| one.toolchain.as_ref());
        own.or(request.build.toolchain.as_ref()).is_none()
    };
    let read = |revision: &Revision| {
        // The file's own error is reported when the revision is built.
        let file = toolchain_file(repository, &revision.commit, &plan.workspace).unwrap_or(None);
        let text = file.map(|(_, text)| String::from_utf8_lossy(&text).trim().to_owned());
        Ok((revision.name.clone(), text))
    };
    (0..plan.revisions.len()).filter(is_used).map(|index| read(&plan.revisions[index])).collect()
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

#[cfg(test)]
mod tests {
    use super::*;
    use memprof_support::process::Command;

    #[test]
    fn a_toolchain_that_is_not_installed_is_named_with_the_command_that_installs_it() {
        let script = "echo \"error: toolchain '1.70.0-x' is not installed\" >&2; exit 1";
        let asked = || anyhow::Error::new(Command::new("sh").args(["-c", script]).run().unwrap_err());
        let shown = |text: &str| {
            let error = named_in("rust-toolchain.toml", text.as_bytes(), asked().context("could not ask"));
            error.downcast_ref::<UserError>().map_or_else(|| "as it was".to_owned(), UserError::rendered)
        };
        insta::assert_snapshot!(
            shown("[toolchain]\nchannel = \"1.70.0\"\ncomponents = [\"rustfmt\", \"clippy\"]\ntargets = [\"wasm32-wasip1\"]"),
            @"
        error: rust-toolchain.toml names the toolchain '1.70.0', which cannot be used: toolchain '1.70.0-x' is not installed
          help: rustup toolchain install 1.70.0 --component rustfmt,clippy --target wasm32-wasip1
                or build every ref with another toolchain: --toolchain stable
        "
        );
        assert!(shown("1.70.0\n").contains("help: rustup toolchain install 1.70.0\n"));
        for unknown in ["", "[toolchain]\npath = \"/opt/rust\"", "what is this"] {
            assert_eq!(shown(unknown), "as it was");
        }
        let missing = anyhow::anyhow!("no rustup here");
        assert_eq!(named_in("rust-toolchain", b"1.70.0", missing).to_string(), "no rustup here");
    }
}
