//! A dependency that a side is built with in place of the lock file's: `serde@1.0.200`,
//! `serde=../serde`, `serde=https://example.org/serde@main`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A package, and what takes its place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct DependencyChange {
    pub package: String,
    /// The version in the lock file, if the user named one of several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// What takes its place.
    pub to: Replacement,
}

/// What takes the place of a package.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Replacement {
    /// A version of the same registry.
    Version(String),
    /// A folder on the disk.
    Path(String),
    /// A git repository.
    Git {
        url: String,
        /// The commit, branch or tag; the default branch if absent.
        rev: Option<String>,
    },
}

impl Replacement {
    /// Whether it may be other code tomorrow: a branch or a tag of a git repository.
    pub fn may_move(&self) -> bool {
        let is_commit = |rev: &String| rev.len() >= 40 && rev.bytes().all(|digit| digit.is_ascii_hexdigit());
        matches!(self, Self::Git { rev, .. } if !rev.as_ref().is_some_and(is_commit))
    }
}

const EXAMPLES: &str = "write NAME@VERSION, NAME=FOLDER or NAME=URL@REV: serde@1.0.200, serde=../serde, \
                        serde=https://github.com/serde-rs/serde@master";

impl FromStr for DependencyChange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let end = text.find(['@', '=']).ok_or_else(|| format!("'{text}' has no version; {EXAMPLES}"))?;
        let (name, value) = (&text[..end], text[end + 1..].trim());
        let is_name = |letter: char| letter.is_alphanumeric() || "-_".contains(letter);
        if name.is_empty() || !name.chars().all(is_name) {
            return Err(format!("'{name}' is not the name of a crate; {EXAMPLES}"));
        }
        if value.is_empty() {
            return Err(format!("'{text}' says nothing about {name}; {EXAMPLES}"));
        }
        if text.as_bytes()[end] == b'=' {
            return Ok(Self { package: name.to_owned(), from: None, to: source(value) });
        }
        // The path or URL of one of several versions: serde@1.0.180=../serde
        if let Some((from, value)) = value.split_once('=') {
            let from = Some(version(from)?);
            return Ok(Self { package: name.to_owned(), from, to: source(value.trim()) });
        }
        let (from, to) = match value.split_once("..") {
            Some((from, to)) => (Some(version(from)?), version(to)?),
            None => (None, version(value)?),
        };
        Ok(Self { package: name.to_owned(), from, to: Replacement::Version(to) })
    }
}

fn version(text: &str) -> Result<String, String> {
    let text = text.trim().trim_start_matches('v');
    let is_version = text.starts_with(|first: char| first.is_ascii_digit())
        && text.split('.').take(3).count() == 3
        && text.chars().all(|letter| letter.is_ascii_alphanumeric() || ".-+".contains(letter));
    if is_version {
        Ok(text.to_owned())
    } else {
        Err(format!("'{text}' is not a full version such as 1.0.200"))
    }
}

/// Reads what is behind the `=`: the URL of a git repository, or a folder.
fn source(text: &str) -> Replacement {
    let is_url = text.contains("://") || (text.starts_with("git@") && text.contains(':'));
    if !is_url {
        return Replacement::Path(text.to_owned());
    }
    // The user of a URL, as in ssh://git@host/repository, comes before the last slash.
    let path = text.rfind('/').unwrap_or(0);
    let rev_at = text[path..].rfind('@').map(|at| path + at).or_else(|| {
        // The name of a branch may have slashes.
        let (_, after) = text.split_once("://")?;
        let host_end = text.len() - after.len() + after.find('/')?;
        text[host_end..].find('@').map(|at| host_end + at)
    });
    match rev_at {
        Some(at) => Replacement::Git { url: text[..at].to_owned(), rev: Some(text[at + 1..].to_owned()) },
        None => Replacement::Git { url: text.to_owned(), rev: None },
    }
}

impl DependencyChange {
    /// Returns a name for the side that is built with it, short enough for a column:
    /// `serde=serde@0123456` for a commit of a git repository.
    pub fn name(&self) -> String {
        let Replacement::Git { url, rev } = &self.to else { return self.to_string() };
        let repository = url.trim_end_matches('/').rsplit(['/', ':']).next().unwrap_or(url);
        let repository = repository.strip_suffix(".git").unwrap_or(repository);
        let rev = rev.as_ref().map(|rev| format!("@{}", short_rev(rev))).unwrap_or_default();
        format!("{}={repository}{rev}", self.package)
    }
}

/// Returns the start of a full commit hash, and other names as they are.
pub fn short_rev(rev: &str) -> &str {
    let is_hash = rev.len() >= 40 && rev.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_hash { &rev[..7] } else { rev }
}

impl fmt::Display for DependencyChange {
    /// Writes what the user would write.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { package, from, to } = self;
        match (from, to) {
            (None, Replacement::Version(to)) => write!(formatter, "{package}@{to}"),
            (Some(from), Replacement::Version(to)) => write!(formatter, "{package}@{from}..{to}"),
            (from, Replacement::Path(path)) => {
                let from = from.as_ref().map(|from| format!("@{from}")).unwrap_or_default();
                write!(formatter, "{package}{from}={path}")
            }
            (from, Replacement::Git { url, rev }) => {
                let from = from.as_ref().map(|from| format!("@{from}")).unwrap_or_default();
                let rev = rev.as_ref().map(|rev| format!("@{rev}")).unwrap_or_default();
                write!(formatter, "{package}{from}={url}{rev}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> DependencyChange {
        let read: DependencyChange = text.parse().unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(read.to_string(), text);
        read
    }

    fn git(url: &str, rev: Option<&str>) -> Replacement {
        Replacement::Git { url: url.to_owned(), rev: rev.map(str::to_owned) }
    }

    #[test]
    fn a_dependency_is_a_version_a_folder_or_a_git_repository() {
        assert_eq!(read("serde@1.0.200").to, Replacement::Version("1.0.200".to_owned()));
        let one = read("rand@0.8.5..0.8.4");
        assert_eq!((one.from.as_deref(), one.to), (Some("0.8.5"), Replacement::Version("0.8.4".to_owned())));
        assert_eq!(read("serde=../serde").to, Replacement::Path("../serde".to_owned()));
        assert_eq!(read("rand@0.8.5=/x/rand").from.as_deref(), Some("0.8.5"));
        for (text, url, rev) in [
            ("https://example.org/serde@v1.0.200", "https://example.org/serde", Some("v1.0.200")),
            ("https://example.org/a/serde.git", "https://example.org/a/serde.git", None),
            ("ssh://git@example.org/serde", "ssh://git@example.org/serde", None),
            ("https://example.org/a/serde@fix/leak", "https://example.org/a/serde", Some("fix/leak")),
            ("file:///r/serde@master", "file:///r/serde", Some("master")),
        ] {
            assert_eq!(read(&format!("serde={text}")).to, git(url, rev), "{text}");
        }
        assert_eq!("serde@v1.0.200".parse::<DependencyChange>().unwrap().to_string(), "serde@1.0.200");
    }

    #[test]
    fn a_side_is_named_by_the_repository_and_the_start_of_the_commit() {
        let hash = "ed0499a96b388fb749f8a252f003cf29cc565c8e";
        let name = |text: &str| read(text).name();
        assert_eq!(
            name(&format!("serde=https://github.com/serde-rs/serde.git@{hash}")),
            "serde=serde@ed0499a"
        );
        assert_eq!(name("rand=ssh://git@host/rand"), "rand=rand");
        assert_eq!(name("rand=https://host/all/@dev/next"), "rand=all@dev/next");
        assert_eq!(name("serde@1.0.180..1.0.200"), "serde@1.0.180..1.0.200");
        assert_eq!(name("serde=../serde"), "serde=../serde");
    }

    #[test]
    fn only_a_whole_commit_of_a_git_repository_stays() {
        for (text, moves) in [
            ("serde=https://example.org/serde", true),
            ("serde=https://example.org/serde@master", true),
            ("serde=https://example.org/serde@v1.0.200", true),
            ("serde=https://example.org/serde@2ac0f04a1b3c5d7e9f00112233445566778899aa", false),
            ("serde=../serde", false),
            ("serde@1.0.200", false),
        ] {
            assert_eq!(read(text).to.may_move(), moves, "{text}");
        }
    }

    #[test]
    fn a_mistake_is_explained() {
        for (text, part) in [
            ("serde", "has no version"),
            ("serde@", "says nothing about serde"),
            ("serde@1", "'1' is not a full version such as 1.0.200"),
            ("serde@latest", "is not a full version"),
            ("a b@1.0.0", "'a b' is not the name of a crate"),
            ("@1.0.0", "is not the name of a crate"),
        ] {
            let error = text.parse::<DependencyChange>().unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
