//! Which files beside a test file it needs: its modules, and the files that it reads, as far as its
//! text names them.

use camino::Utf8Path;

/// Whether a text of a test names this file of the package, or a folder that the file is in. Names of
/// files and folders in `tests/` count alone, because a test builds their paths in many ways. Elsewhere,
/// the whole path of the file or of its folder counts.
pub(crate) fn is_named(file: &Utf8Path, text: &str) -> bool {
    let is_source = file.extension() == Some("rs");
    match file.strip_prefix("tests") {
        Ok(below) if is_source && below.components().count() == 1 => {
            let module = below.file_stem().unwrap_or_default();
            has_word(text, &format!("mod {module}")) || has_word(text, below.as_str())
        }
        // The root of another target.
        Ok(below) if below.file_name() == Some("main.rs") && below.components().count() == 2 => false,
        Ok(below) => {
            let stem = below.file_stem().filter(|_| is_source);
            below.iter().chain(stem).any(|name| has_word(text, name))
        }
        Err(_) if is_source || file.file_name().is_some_and(|name| name.starts_with("Cargo.")) => false,
        Err(_) => {
            let folder = file.parent().filter(|folder| !folder.as_str().is_empty());
            let is_path = |folder: &Utf8Path| {
                [format!("{folder}/"), format!("{folder}\"")].iter().any(|path| text.contains(path))
            };
            has_word(text, file.as_str())
                || folder.is_some_and(|folder| has_word(text, folder.as_str()) && is_path(folder))
        }
    }
}

/// Whether the text has this word, and not as a part of a longer one.
fn has_word(text: &str, word: &str) -> bool {
    let is_inside = |character: Option<char>| {
        character.is_some_and(|one| one.is_alphanumeric() || ['_', '-'].contains(&one))
    };
    text.match_indices(word).any(|(start, found)| {
        let before = text[..start].chars().next_back();
        let after = text[start + found.len()..].chars().next();
        !is_inside(before) && !is_inside(after)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_named_by_its_module_its_path_or_its_folder() {
        let named = |file: &str, text: &str| is_named(Utf8Path::new(file), text);
        assert!(named("tests/data/a.txt", r#"include_str!("data/a.txt")"#));
        assert!(named("tests/data/deep/a.txt", r#"read_dir("tests/data")"#));
        assert!(named("tests/common/mod.rs", "mod common;"));
        assert!(named("tests/common.rs", "mod common;"));
        assert!(named("tests/common/deeper.rs", "mod common;"));
        assert!(named("testdata/a.csv", r#"open("testdata/a.csv")"#));
        assert!(named("examples/data/b.csv", r#"join("examples/data").join(name)"#));
        assert!(!named("tests/other.rs", "// like the other tests"), "another target");
        assert!(!named("tests/cli/main.rs", "cli"), "another target");
        assert!(!named("tests/database/a.txt", r#""data/b.txt""#), "a part of a word");
        assert!(!named("src/data.rs", r#""src/data.rs""#), "the library's own code");
        assert!(!named("Cargo.toml", r#""Cargo.toml""#));
        assert!(!named("notes/a.md", "notes on this"), "elsewhere, a folder's name is a common word");
    }
}
