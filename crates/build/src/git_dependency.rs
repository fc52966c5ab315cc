//! A dependency from a git repository: the commit of a branch or tag, and the source that cargo writes into lock
//! files.

use crate::cargo::lockfile;
use crate::job::Inputs;
use memprof_plan::dependency_change::Replacement;
use memprof_support::regular_file::followed;

/// Returns the commit of a dependency from git. A branch is looked up once for each run, also if several refs need it or
/// the run is resumed. `None` for another replacement, and if the repository does not list the name: it may be the start
/// of a commit, or only cargo can read the repository.
pub(crate) fn commit(
    replacement: &Replacement,
    offline: bool,
    inputs: &Inputs<'_>,
) -> anyhow::Result<Option<String>> {
    let Replacement::Git { url, rev } = replacement else { return Ok(None) };
    if !replacement.may_move() {
        return Ok(rev.clone());
    }
    let facts = format!("{} {url} {rev:?}", inputs.plan.created);
    let hash = blake3::hash(facts.as_bytes()).to_hex();
    let kept = inputs.cache.lockfiles().join(format!("commit-{}", &hash[..32]));
    if kept.exists() {
        return Ok(Some(String::from_utf8(followed::read(&kept)?)?));
    }
    if offline {
        return Ok(None);
    }
    let listed = inputs.repository.git().args(["ls-remote", "--quiet", "--", url]);
    // Cargo asks for no password either.
    let listed = listed.env("GIT_TERMINAL_PROMPT", "0").capture()?;
    let found = named(&String::from_utf8_lossy(&listed.stdout), rev.as_deref());
    if let Some(commit) = &found {
        lockfile::keep(&kept, commit.as_bytes())?;
    }
    Ok(found)
}

/// Returns the commit of a tag or branch in what `git ls-remote` lists; that of `HEAD` without a name. As with
/// `git rev-parse`, a tag comes before a branch.
fn named(listed: &str, rev: Option<&str>) -> Option<String> {
    let names = match rev {
        // A tag with a message is an object of its own, and its commit has `^{}` behind the name.
        Some(rev) => {
            vec![format!("refs/tags/{rev}^{{}}"), format!("refs/tags/{rev}"), format!("refs/heads/{rev}")]
        }
        None => vec!["HEAD".to_owned()],
    };
    let commit_of = |name: &String| {
        let (commit, _) =
            listed.lines().filter_map(|line| line.split_once('\t')).find(|one| one.1 == *name)?;
        Some(commit.to_owned())
    };
    names.iter().find_map(commit_of)
}

/// Returns the URL of a source of a lock file, if it is a git repository.
pub(crate) fn url(source: &str) -> Option<&str> {
    parts(source).map(|(url, ..)| url)
}

/// Whether a source of a lock file is a git repository, at any commit.
pub(crate) fn is_of_repository(source: &str, url: &str) -> bool {
    self::url(source).is_some_and(|of_source| plain(of_source) == plain(url))
}

/// Whether a source of a lock file is a git repository at a commit, or at a name that cargo has looked up.
pub(crate) fn is_at(source: &str, url: &str, rev: Option<&str>) -> bool {
    let Some((_, query, commit)) = parts(source) else { return false };
    let is_rev = |rev: &str| {
        let is_start = rev.len() >= 4 && commit.starts_with(&rev.to_lowercase());
        // Newer lock files have the slashes of a name encoded.
        let is_name =
            [format!("rev={rev}"), format!("rev={}", rev.replace('/', "%2F"))].iter().any(|one| one == query);
        is_start || is_name
    };
    is_of_repository(source, url) && rev.map_or(query.is_empty(), is_rev)
}

/// Splits `git+URL?branch=main#COMMIT` into the URL, the query and the commit.
fn parts(source: &str) -> Option<(&str, &str, &str)> {
    let (source, commit) = source.strip_prefix("git+")?.split_once('#')?;
    let (url, query) = source.split_once('?').unwrap_or((source, ""));
    Some((url, query, commit))
}

/// Returns a URL as cargo compares it.
fn plain(url: &str) -> String {
    let url = url.trim_end_matches('/');
    let url = url.strip_suffix(".git").unwrap_or(url);
    if url.contains("://github.com/") { url.to_lowercase() } else { url.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_tag_then_a_branch_and_none_is_the_default_branch() {
        let listed = "a1\tHEAD\na1\trefs/heads/main\nb2\trefs/heads/fix/leak\nc3\trefs/heads/v1\n\
                      d4\trefs/tags/v1\ne5\trefs/tags/v2\nf6\trefs/tags/v2^{}\na7\trefs/heads/x/main\n";
        for (rev, commit) in [
            (None, Some("a1")),
            (Some("main"), Some("a1")),
            (Some("fix/leak"), Some("b2")),
            (Some("v1"), Some("d4")),
            (Some("v2"), Some("f6")),
            (Some("leak"), None),
            (Some("a1b2c3d"), None),
        ] {
            assert_eq!(named(listed, rev).as_deref(), commit, "{rev:?}");
        }
    }

    #[test]
    fn a_source_is_compared_by_its_whole_url_and_its_commit() {
        let commit = "0123456789abcdef0123456789abcdef01234567";
        let url = "https://example.org/foo";
        let source = format!("git+{url}?rev=v1#{commit}");
        for other in ["https://example.org/foo.git", "https://example.org/foo/", url] {
            assert!(is_at(&source, other, Some(commit)), "{other}");
        }
        for other in ["https://example.org/fo", "https://example.org/foo-fork", "https://example.org"] {
            assert!(!is_of_repository(&source, other), "{other}");
        }
        assert!(!is_of_repository(&format!("git+{url}-fork?rev=v1#{commit}"), url));
        assert!(is_at(&source, url, Some("v1")) && is_at(&source, url, Some("0123456")));
        assert!(!is_at(&source, url, Some("v2")) && !is_at(&source, url, Some("1234567")));
        assert!(!is_at(&source, url, None), "it has a name");
        assert!(is_at(&format!("git+{url}#{commit}"), url, None));
        assert!(is_at(&format!("git+{url}?rev=fix%2Fleak#{commit}"), url, Some("fix/leak")));
        assert!(is_of_repository("git+https://github.com/A/b#0", "https://github.com/a/B.git"));
    }
}
