//! The refs and the baseline of a request.

use std::collections::{HashMap, HashSet};

use crate::arguments::request::RequestArguments;
use crate::request::side_paths::located_in_file;
use crate::request::surroundings::Surroundings;
use memprof_build::git::usual_refs::merge_base;
use memprof_plan::config::keep::kept;
use memprof_plan::config::matrix::{Matrix, RefEntry};
use memprof_plan::config::yaml::List;
use memprof_plan::request::{BaselineRequest, MOST_REFS, RefRequest};
use memprof_plan::side_lockfile::SideLockfile;
use memprof_support::counted::{counted, grouped};
use memprof_support::user_error::UserError;

/// How many refs a command needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefsNeeded {
    /// At least two.
    Comparison,
    /// Any number; without a ref, the working tree.
    Any,
    /// Any number; without a ref, the usual comparison. One ref alone is shown by itself.
    Usual,
    /// Any number; without a ref, the working tree. Each is measured once, with the common settings.
    Alike,
}

impl RefsNeeded {
    /// Whether each ref becomes the sides that `axes` of memprof.yaml make. Searches measure all commits
    /// alike.
    pub fn takes_axes(self) -> bool {
        matches!(self, Self::Any | Self::Usual)
    }
}

/// Returns the refs of the flags, or else of memprof.yaml, each with a name of its own.
pub fn refs(
    arguments: &RequestArguments,
    matrix: &Matrix,
    surroundings: Surroundings<'_>,
) -> Result<Vec<RefRequest>, UserError> {
    let written: Vec<RefRequest> = if arguments.refs.refs.is_empty() {
        let entries = matrix.refs.iter().flat_map(|List(entries)| entries);
        let located = entries.map(|entry| located_in_file(ref_request(entry), surroundings));
        located.collect::<Result<_, _>>()?
    } else {
        arguments.refs.refs.clone()
    };
    let mut refs: Vec<RefRequest> = written.into_iter().flat_map(expanded).collect();
    if refs.len() > MOST_REFS {
        return Err(UserError::new(format!(
            "{}, and a comparison takes at most {}",
            counted(refs.len(), "ref"),
            grouped(i128::try_from(MOST_REFS).unwrap_or(i128::MAX))
        ))
        .help("name fewer: --refs main,. (`cargo memprof history A..B` measures many commits)"));
    }
    // A ref compared with itself (A/A) needs a second name; the user need not choose one.
    let mut taken = HashSet::new();
    let mut numbers: HashMap<String, usize> = HashMap::new();
    for one in &mut refs {
        let name = ref_name(one).to_owned();
        if taken.insert(name.clone()) {
            continue;
        }
        if one.name.is_some() {
            return Err(UserError::new(format!("two refs have the name '{name}'"))
                .help(format!("give each ref a name of its own: --refs {name}=main,other=pr/7")));
        }
        let number = numbers.entry(name.clone()).or_insert(1);
        one.name = loop {
            *number += 1;
            let numbered = format!("{name} ({number})");
            if taken.insert(numbered.clone()) {
                break Some(numbered);
            }
        };
    }
    Ok(refs)
}

/// Returns the two refs of a range: `main..feature` is both, `main...feature` is their merge base
/// and `feature`. As for git, a missing side is `HEAD`. Any other ref stays as it is.
fn expanded(reference: RefRequest) -> Vec<RefRequest> {
    let or_head = |name: &str| if name.is_empty() { "HEAD".to_owned() } else { name.to_owned() };
    if reference.name.is_some() {
        return vec![reference];
    }
    let (base, name, last) = if let Some((one, other)) = reference.spec.split_once("...") {
        let base = merge_base(&or_head(one), &or_head(other));
        (base.spec, base.name, or_head(other))
    } else if let Some((one, other)) = reference.spec.split_once("..") {
        (or_head(one), None, or_head(other))
    } else {
        return vec![reference];
    };
    vec![RefRequest { spec: base, name, ..reference.clone() }, RefRequest { spec: last, ..reference }]
}

/// Returns the baseline twice, for --aa.
pub fn against_itself(
    refs: Vec<RefRequest>,
    baseline: &BaselineRequest,
) -> Result<Vec<RefRequest>, UserError> {
    let one = match baseline {
        BaselineRequest::First => refs.into_iter().next(),
        BaselineRequest::Ref(name) => {
            let known = refs.into_iter().find(|one| ref_name(one) == name || one.spec == *name);
            known.or_else(|| Some(RefRequest { spec: name.clone(), ..RefRequest::default() }))
        }
        BaselineRequest::MergeBase => {
            return Err(UserError::new("--aa compares one ref with itself, and merge-base is not one ref")
                .help("name a ref: --aa --baseline main"));
        }
    };
    let one = one.ok_or_else(|| {
        UserError::new("--aa has no ref to compare with itself").help("name one: --aa --refs main")
    })?;
    let again = RefRequest { name: Some(format!("{} (2)", ref_name(&one))), ..one.clone() };
    Ok(vec![one, again])
}

/// Returns the name in the report.
pub fn ref_name(reference: &RefRequest) -> &str {
    reference.name.as_deref().unwrap_or(&reference.spec)
}

/// Returns an entry of `refs` as a request.
pub fn ref_request(entry: &RefEntry) -> RefRequest {
    RefRequest {
        spec: kept(entry.spec.as_ref()),
        name: kept(entry.name.as_ref()),
        features: kept(entry.features.as_ref()),
        env: kept(entry.env.as_ref()),
        toolchain: kept(entry.toolchain.as_ref()),
        with: kept(entry.with.as_ref()),
        lockfile: kept::<_, Option<_>>(entry.lockfile.as_ref())
            .map(|spec| SideLockfile::Ref { spec, commit: String::new() }),
        no_default_features: kept(entry.no_default_features.as_ref()),
        profile: kept(entry.profile.as_ref()),
        config: kept(entry.config.as_ref()),
        also: Vec::new(),
    }
}

/// Returns what the baseline's name means.
pub fn baseline(named: Option<&str>) -> BaselineRequest {
    match named {
        None => BaselineRequest::First,
        Some("merge-base") => BaselineRequest::MergeBase,
        Some(name) => BaselineRequest::Ref(name.to_owned()),
    }
}

/// Returns the refs, if the command can work with this many.
///
/// # Errors
///
/// A comparison with fewer than two refs.
pub fn enough(
    mut refs: Vec<RefRequest>,
    baseline: &BaselineRequest,
    needed: RefsNeeded,
) -> Result<Vec<RefRequest>, UserError> {
    let is_further = match baseline {
        BaselineRequest::Ref(name) => !refs.iter().any(|one| ref_name(one) == name || one.spec == *name),
        BaselineRequest::First | BaselineRequest::MergeBase => false,
    };
    match (needed, refs.len() + usize::from(is_further)) {
        // A baseline alone is what the working tree is compared with.
        (RefsNeeded::Any | RefsNeeded::Alike, _) if refs.is_empty() => {
            refs.push(RefRequest { spec: ".".to_owned(), ..RefRequest::default() });
        }
        (RefsNeeded::Comparison | RefsNeeded::Usual, 0) => {
            return Err(UserError::new("no refs to compare").help(
                "name two: cargo memprof --refs main,. (`.` is the working tree, pr/7 a pull request)\n\
                 or list them in memprof.yaml, which `cargo memprof init` writes",
            ));
        }
        (RefsNeeded::Comparison, 1) => {
            let only = refs.first().map_or("main", |one| one.spec.as_str());
            let pair = if only == "main" { "main,.".to_owned() } else { format!("main,{only}") };
            return Err(UserError::new(format!("a comparison needs two refs, and {only} is the only one"))
                .help(format!(
                    "name a second one: --refs {pair}\n\
                     to compare {only} with itself and see the noise: --aa --refs {only}\n\
                     to look at {only} alone: --view scopes, --view top or --view tensors"
                )));
        }
        _ => {}
    }
    Ok(refs)
}
