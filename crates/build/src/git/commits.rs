//! The commits between two others, read from the repository: their parents, the paths that they
//! touch, and their authors.

use std::collections::{BTreeSet, HashMap};

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};

use crate::git::lineage::Lineage;
use crate::git::repository::Repository;
use memprof_support::process::Command;
use memprof_support::user_error::UserError;

/// The commits between two others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Range {
    /// The parents.
    pub lineage: Lineage,
    /// The full hash of each commit.
    pub hashes: Vec<String>,
}

/// What reports show of a commit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommitFacts {
    /// Full hash.
    pub commit: String,
    /// First line of the message.
    pub subject: String,
    /// `NAME <ADDRESS>`.
    pub author: String,
    /// When it was written, RFC 3339.
    pub date: String,
    /// Full hashes of its parents; a merge has more than one.
    pub parents: Vec<String>,
}

impl CommitFacts {
    /// Returns the first seven digits of the hash.
    pub fn short(&self) -> &str {
        self.commit.get(..7).unwrap_or(&self.commit)
    }

    /// Returns the day without the time.
    pub fn day(&self) -> &str {
        self.date.get(..10).unwrap_or(&self.date)
    }
}

/// An end of a range: what the user wrote, and the commit.
#[derive(Clone, Copy, Debug)]
pub struct End<'a> {
    /// What the user wrote.
    pub spec: &'a str,
    /// Full hash.
    pub commit: &'a str,
}

/// Reads the commits between two others. `paths` are relative to the user's current folder.
pub fn between(
    repository: &Repository,
    good: End<'_>,
    bad: End<'_>,
    paths: &[String],
) -> anyhow::Result<Range> {
    let range = format!("{}..{}", good.commit, bad.commit);
    let list = ["rev-list", "--topo-order", "--reverse", "--parents", "--boundary", &range, "--"];
    let listed = reading(repository).args(list).run()?.text();
    let is_edge = |line: &&str| line.starts_with('-');
    let edge: Vec<&str> = listed.lines().filter(is_edge).map(|line| hash(&line[1..])).collect();
    let Some(good_index) = edge.iter().position(|edge| *edge == good.commit) else {
        return Err(no_way(repository, good, bad)?.into());
    };
    let inside: Vec<&str> = listed.lines().filter(|line| !is_edge(line)).collect();
    let hashes: Vec<String> =
        edge.iter().copied().chain(inside.iter().map(|line| hash(line))).map(str::to_owned).collect();
    let indices: HashMap<&str, usize> =
        hashes.iter().enumerate().map(|(index, hash)| (hash.as_str(), index)).collect();
    // A shallow clone may lack a parent.
    let known =
        |line: &&str| line.split(' ').skip(1).filter_map(|parent| indices.get(parent).copied()).collect();
    let parents: Vec<Vec<usize>> = edge.iter().map(|_| Vec::new()).chain(inside.iter().map(known)).collect();
    let Some(&bad_index) = indices.get(bad.commit) else {
        bail!("git listed {range} without its last commit")
    };
    let mut lineage = Lineage { parents, edge: edge.len(), good: good_index, bad: bad_index, touching: None };
    if !paths.is_empty() {
        lineage.touching = Some(touching(repository, &lineage, &hashes, paths)?);
        let none = unknown_paths(repository, &range, bad, paths)?;
        if let Some(path) = none.iter().find(|path| path.starts_with('-')) {
            return Err(UserError::new(format!("'{path}' after `--` is a path, and there is no such file"))
                .help(OPTIONS_HELP)
                .into());
        }
        if lineage.touching.as_ref().is_some_and(BTreeSet::is_empty) {
            let message = format!("no commit from {} to {} touches {}", good.spec, bad.spec, paths.join(" "));
            return Err(UserError::new(message).help(PATHS_HELP).into());
        }
        if let Some(path) = none.first() {
            let (good, bad) = (good.spec, bad.spec);
            let message = format!("{bad} has no '{path}', and no commit from {good} to {bad} touches it");
            return Err(UserError::new(message).help(PATHS_HELP).into());
        }
    }
    Ok(Range { lineage, hashes })
}

/// What to do if what stands behind `--` is no path.
pub const OPTIONS_HELP: &str = "put options before `--`";
pub const PATHS_HELP: &str = "paths are relative to the current folder, in git's syntax";

/// Returns the paths that neither the last commit nor any change of the range has.
fn unknown_paths<'a>(
    repository: &Repository,
    range: &str,
    bad: End<'_>,
    paths: &'a [String],
) -> anyhow::Result<Vec<&'a String>> {
    let mut unknown = Vec::new();
    for path in paths {
        // Without `--full-history`, git leaves out a file that was added and removed again.
        let touch = ["rev-list", "--full-history", "--max-count=1", range, "--", path];
        // An exclusion (`:!docs`) alone lists all other files, and so is never unknown.
        let have = ["ls-files", &format!("--with-tree={}", bad.commit), "--", path];
        let is_named = |list: &[&str]| -> anyhow::Result<bool> {
            Ok(!reading(repository).args(list).run()?.text().trim().is_empty())
        };
        if !is_named(&touch)? && !is_named(&have)? {
            unknown.push(path);
        }
    }
    Ok(unknown)
}

fn reading(repository: &Repository) -> Command {
    repository.git_at_start().arg("--no-optional-locks")
}

fn hash(line: &str) -> &str {
    line.split(' ').next().unwrap_or(line)
}

/// Returns why no range leads from one commit to the other.
fn no_way(repository: &Repository, good: End<'_>, bad: End<'_>) -> anyhow::Result<UserError> {
    if good.commit == bad.commit {
        let message = format!("{} and {} are the same commit", good.spec, bad.spec);
        return Ok(UserError::new(message).help("choose two commits: HEAD~1..HEAD"));
    }
    let message = format!("{} is not in the history of {}", good.spec, bad.spec);
    let help = match repository.merge_base(&[good.commit, bad.commit])? {
        Some(base) if base == bad.commit => {
            let range = pasted(bad, good);
            format!("it comes after it; swap them: {range} (the search finds growth and shrinkage)")
        }
        Some(base) => {
            let commit = repository.commit(&base)?;
            let short = &base[..12];
            let range = pasted(End { spec: short, commit: &base }, bad);
            format!("their histories fork at {short} ({}); use {range}", commit.subject)
        }
        None if repository.is_shallow() => {
            "this is a shallow clone; `git fetch --unshallow` fetches the rest of the history".to_owned()
        }
        None => "they have no common ancestor".to_owned(),
    };
    Ok(UserError::new(message).help(help))
}

/// Returns a range that `bisect` and `history` accept. The working tree is no end of `FROM..TO`, and neither is
/// a merge base.
fn pasted(from: End<'_>, to: End<'_>) -> String {
    let name = |end: End<'_>| {
        if end.spec.contains("..") { end.commit[..12].to_owned() } else { end.spec.to_owned() }
    };
    let separator = if [from, to].iter().any(|end| end.spec == ".") { " " } else { ".." };
    format!("{}{separator}{}", name(from), name(to))
}

/// Returns the pairs of parent and child that differ in these paths.
fn touching(
    repository: &Repository,
    lineage: &Lineage,
    hashes: &[String],
    paths: &[String],
) -> anyhow::Result<BTreeSet<(usize, usize)>> {
    let trees: Vec<String> =
        hashes.iter().map(|hash| Ok(repository.commit(hash)?.tree)).collect::<anyhow::Result<_>>()?;
    let children = lineage.parents.iter().enumerate();
    let pairs: Vec<(usize, usize)> =
        children.flat_map(|(child, parents)| parents.iter().map(move |&parent| (parent, child))).collect();
    let heading = |&(parent, child): &(usize, usize)| format!("{} {}", trees[parent], trees[child]);
    let input = pairs.iter().map(heading).collect::<Vec<_>>().join("\n");
    let compare = ["diff-tree", "--stdin", "-r", "--name-only", "--no-renames", "--"];
    let listed = reading(repository).args(compare).args(paths).input(input).run()?.text();
    let mut differing: BTreeSet<&str> = BTreeSet::new();
    let mut current = "";
    let is_heading = |line: &str| {
        line.split_once(' ').is_some_and(|(one, other)| {
            [one, other].iter().all(|hash| {
                hash.len() == trees[0].len() && hash.bytes().all(|digit| digit.is_ascii_hexdigit())
            })
        })
    };
    for line in listed.lines() {
        if is_heading(line) {
            current = line;
        } else {
            differing.insert(current);
        }
    }
    Ok(pairs.into_iter().filter(|pair| differing.contains(heading(pair).as_str())).collect())
}

/// Returns what reports show of these commits, in the same order.
pub fn facts(repository: &Repository, hashes: &[&str]) -> anyhow::Result<Vec<CommitFacts>> {
    // Without any hash, git would list HEAD.
    if hashes.is_empty() {
        return Ok(Vec::new());
    }
    let format = "--format=%H%x00%P%x00%an <%ae>%x00%aI%x00%s";
    let show = ["log", "--no-walk=unsorted", "--no-show-signature", "--stdin", format];
    let input = hashes.join("\n");
    let shown = reading(repository).args(show).input(input).run()?.text();
    let fact = |line: &str| {
        let mut parts = line.splitn(5, '\0').map(str::to_owned);
        let mut next = || parts.next().with_context(|| format!("git described a commit as '{line}'"));
        anyhow::Ok((next()?, next()?, next()?, next()?, next()?))
    };
    let mut known = HashMap::new();
    for line in shown.lines() {
        let (commit, parents, author, date, subject) = fact(line)?;
        let parents = parents.split_whitespace().map(str::to_owned).collect();
        known.insert(commit.clone(), CommitFacts { commit, subject, author, date, parents });
    }
    let of = |hash: &&str| known.get(*hash).cloned().with_context(|| format!("git did not describe {hash}"));
    hashes.iter().map(of).collect()
}

/// Returns the repository's tags and their commits, in the order of their versions.
pub fn tags(repository: &Repository) -> anyhow::Result<Vec<(String, String)>> {
    let format = "--format=%(refname:short)%00%(objectname)%00%(*objectname)";
    let listed =
        reading(repository).args(["for-each-ref", "--sort=version:refname", format, "refs/tags"]).run()?;
    let tag = |line: &str| {
        let mut parts = line.split('\0');
        let (name, object, peeled) = (parts.next()?, parts.next()?, parts.next()?);
        Some((name.to_owned(), if peeled.is_empty() { object } else { peeled }.to_owned()))
    };
    Ok(listed.text().lines().filter_map(tag).collect())
}
