//! Short names for refs on a forge: `pr/7` is `refs/pull/7/head` there. And names that are similar
//! to a misspelt one.

use indexmap::IndexMap;

use memprof_support::suggest::{ALIKE, similarity};

/// The built-in patterns: pull requests of GitHub and Gitea, merge requests of GitLab.
const BUILT_IN: [(&str, &str); 4] = [
    ("pr/{}", "refs/pull/{}/head"),
    ("pr/{}/merge", "refs/pull/{}/merge"),
    ("mr/{}", "refs/merge-requests/{}/head"),
    ("mr/{}/merge", "refs/merge-requests/{}/merge"),
];

/// A name that a pattern matched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForgeRef {
    /// What the user wrote, without a suffix such as `~2`: `pr/7`.
    pub name: String,
    /// The remote's ref: `refs/pull/7/head`.
    pub remote: String,
}

/// Matches a name with the user's patterns, in order, and then with the built-in ones. In built-in
/// patterns `{}` stands for a number, in the user's for any text.
pub fn forge_ref(name: &str, patterns: &IndexMap<String, String>) -> Option<ForgeRef> {
    let found = |remote: String| ForgeRef { name: name.to_owned(), remote };
    for (pattern, remote) in patterns {
        if let Some(text) = matched(name, pattern) {
            return Some(found(remote.replacen("{}", text, 1)));
        }
    }
    for (pattern, remote) in BUILT_IN {
        if let Some(number) = matched(name, pattern)
            && number.bytes().all(|byte| byte.is_ascii_digit())
        {
            return Some(found(remote.replacen("{}", number, 1)));
        }
    }
    None
}

/// Returns the text that `{}` stands for, if the name matches the pattern.
fn matched<'name>(name: &'name str, pattern: &str) -> Option<&'name str> {
    let Some((before, after)) = pattern.split_once("{}") else {
        return (name == pattern).then_some("");
    };
    let text = name.strip_prefix(before)?.strip_suffix(after)?;
    (!text.is_empty()).then_some(text)
}

/// Splits `main~3` into the name `main` and the suffix `~3`. A name cannot contain `~`, `^`, `:` or
/// `@{`.
pub fn split_suffix(spec: &str) -> (&str, &str) {
    let at = spec.find("@{").unwrap_or(spec.len());
    let end = spec.find(['~', '^', ':']).unwrap_or(spec.len());
    spec.split_at(at.min(end))
}

/// Returns a ref's name as the user would write it: `origin/x` for `refs/remotes/origin/x`. Only
/// branches and tags have one: not the tool's own refs, notes or stashes.
pub(crate) fn short_name(full: &str) -> Option<&str> {
    let short =
        ["refs/heads/", "refs/tags/", "refs/remotes/"].iter().find_map(|kind| full.strip_prefix(kind));
    short.filter(|name| !name.ends_with("/HEAD"))
}

/// Returns at most three names that `wanted` may mean, the most likely first: a remote's branch of
/// that name, then similar names.
pub(crate) fn nearest<'names>(
    wanted: &str,
    names: impl IntoIterator<Item = &'names str>,
) -> Vec<&'names str> {
    let mut scored: Vec<(f64, &str)> = names
        .into_iter()
        .filter_map(|name| {
            let same_on_a_remote = name.strip_suffix(wanted).is_some_and(|remote| remote.ends_with('/'));
            let last_part = name.rsplit('/').next().unwrap_or(name);
            let similarity = similarity(wanted, name).max(0.9 * similarity(wanted, last_part));
            let score = if same_on_a_remote { 1.0 } else { similarity };
            (score >= ALIKE).then_some((score, name))
        })
        .collect();
    scored.sort_by(|(left, left_name), (right, right_name)| {
        right.total_cmp(left).then_with(|| left_name.cmp(right_name))
    });
    scored.dedup_by_key(|(_, name)| *name);
    scored.into_iter().take(3).map(|(_, name)| name).collect()
}

/// Returns a ref as reports show it: a full hash by its first digits, also in `HASH~1`.
pub fn shown(spec: &str) -> String {
    let (name, suffix) = split_suffix(spec);
    let is_full_hash = matches!(name.len(), 40 | 64) && name.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_full_hash { format!("{}{suffix}", &name[..7]) } else { spec.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remote_of(name: &str, patterns: &[(&str, &str)]) -> Option<String> {
        let patterns =
            patterns.iter().map(|(name, remote)| ((*name).to_owned(), (*remote).to_owned())).collect();
        forge_ref(name, &patterns).map(|found| found.remote)
    }

    #[test]
    fn the_forges_names_are_known() {
        assert_eq!(remote_of("pr/3370", &[]).unwrap(), "refs/pull/3370/head");
        assert_eq!(remote_of("pr/3370/merge", &[]).unwrap(), "refs/pull/3370/merge");
        assert_eq!(remote_of("mr/12", &[]).unwrap(), "refs/merge-requests/12/head");
        for branch in ["main", "pr", "pr/", "pr/fix-7", "pr/7/other", "xpr/7", "feature/pr/7", "pr//merge"] {
            assert_eq!(remote_of(branch, &[]), None, "{branch}");
        }
    }

    #[test]
    fn the_users_patterns_come_first_and_match_any_text() {
        let gerrit =
            [("cl/{}", "refs/changes/{}/head"), ("pr/{}", "refs/forge/{}/tip"), ("next", "refs/trains/next")];
        assert_eq!(remote_of("cl/34/1234/5", &gerrit).unwrap(), "refs/changes/34/1234/5/head");
        assert_eq!(remote_of("pr/7", &gerrit).unwrap(), "refs/forge/7/tip");
        assert_eq!(remote_of("next", &gerrit).unwrap(), "refs/trains/next");
        assert_eq!(remote_of("mr/7", &gerrit).unwrap(), "refs/merge-requests/7/head");
        assert_eq!(remote_of("cl/", &gerrit), None);
    }

    #[test]
    fn a_suffix_is_cut_off_the_name() {
        assert_eq!(split_suffix("pr/7~2^"), ("pr/7", "~2^"));
        assert_eq!(split_suffix("main@{yesterday}"), ("main", "@{yesterday}"));
        assert_eq!(split_suffix("feature/x"), ("feature/x", ""));
        assert_eq!(split_suffix("user@host"), ("user@host", ""));
    }

    #[test]
    fn a_typo_finds_what_was_meant() {
        let names = ["main", "release-0.4", "origin/feature", "v1.2.0", "v1.3.0"];
        assert_eq!(nearest("mian", names), ["main"]);
        assert_eq!(nearest("feature", names), ["origin/feature"]);
        assert_eq!(nearest("featrue", names), ["origin/feature"]);
        assert_eq!(nearest("v1.2", names), ["v1.2.0"]);
        assert!(nearest("something-else", names).is_empty());
    }

    #[test]
    fn only_branches_and_tags_have_short_names() {
        assert_eq!(short_name("refs/remotes/origin/x"), Some("origin/x"));
        assert_eq!(short_name("refs/tags/v1"), Some("v1"));
        for other in ["refs/remotes/origin/HEAD", "refs/memprof/origin/pull/7/head", "refs/stash", "HEAD"] {
            assert_eq!(short_name(other), None);
        }
    }

    #[test]
    fn a_full_hash_is_shown_by_its_first_digits() {
        let parent = "29610a7416dd2a29cfbcba0b473e558142ba219b~1";
        let (hash, short) = (&parent[..40], &parent[..12]);
        assert_eq!([hash, parent, short, "main"].map(shown), ["29610a7", "29610a7~1", short, "main"]);
    }
}
