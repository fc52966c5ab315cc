//! Names that git keeps for itself: `.git`, and what a file system may take for it.

use camino::Utf8Path;

/// Returns the first part of a path that git refuses in a tree, because some file system takes it
/// for `.git`: in any case, with dots or spaces behind it, as the short name `git~1`, or with
/// invisible characters in it. A backslash separates parts too.
pub(crate) fn reserved_part(path: &Utf8Path) -> Option<&str> {
    path.as_str().split(['/', '\\']).find(|part| is_reserved(part))
}

fn is_reserved(part: &str) -> bool {
    // HFS+ ignores these characters (`is_hfs_dotgit` in git's utf8.c).
    let visible: String = part.chars().filter(|character| !is_ignored_by_hfs(*character)).collect();
    // NTFS ignores dots and spaces at the end, and a stream's name follows a colon
    // (`is_ntfs_dotgit` in git's path.c).
    let name = visible.split(':').next().unwrap_or_default().trim_end_matches(['.', ' ']);
    [".git", "git~1"].iter().any(|reserved| name.eq_ignore_ascii_case(reserved))
}

fn is_ignored_by_hfs(character: char) -> bool {
    matches!(
        character,
        '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{206a}'..='\u{206f}' | '\u{feff}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_that_some_file_system_takes_for_git_is_reserved() {
        for path in [
            ".git",
            ".GIT/config",
            "a/.Git/hooks/x",
            ".git.",
            ".git . .",
            "git~1",
            "GIT~1/config",
            ".git::$INDEX_ALLOCATION/config",
            ".g\u{200c}it",
            "\u{feff}.git",
            r"a\.git\config",
        ] {
            assert!(reserved_part(path.into()).is_some(), "{path:?}");
        }
        for path in
            [".github/x.yml", ".gitignore", ".gitmodules", "git", "git~2", "a.git", ".git-x", "x:.git"]
        {
            assert_eq!(reserved_part(path.into()), None, "{path:?}");
        }
        assert_eq!(reserved_part("a/.GIT/x".into()), Some(".GIT"));
    }
}
