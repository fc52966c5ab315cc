//! The diff between two commits as hunks, and the text of each file without some of them.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use similar::{Algorithm, DiffTag};

/// The diff between two commits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SplitDiff {
    /// Files whose hunks can be left out one by one.
    files: Vec<SplitFile>,
    /// The smallest changes. Those of one file follow each other, in its order.
    pub hunks: Vec<Hunk>,
}

/// A text file that both commits have.
#[derive(Clone, Debug, PartialEq, Eq)]
struct SplitFile {
    path: String,
    old: String,
    new: String,
    /// The file's hunks.
    hunks: Range<usize>,
}

/// A change that is left out as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hunk {
    /// The file, after the change if it still exists.
    pub path: String,
    /// What changed.
    pub change: Change,
    /// The names of what its lines define: functions, types, constants, fields.
    pub defines: BTreeSet<String>,
    /// Whether the compiler reads it. Other files need no check.
    pub is_code: bool,
}

/// What a hunk changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Lines of a file, by their indices before and after.
    Lines {
        /// The lines before.
        old: Range<usize>,
        /// The lines after.
        new: Range<usize>,
    },
    /// A whole file: added, deleted, renamed, or not text.
    File {
        /// The path before.
        old: Option<String>,
        /// The path after.
        new: Option<String>,
    },
}

/// The text of a split file without some of its hunks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ComposedFile {
    pub path: String,
    pub text: String,
    /// The lines in this text of each hunk that is still there, by the hunk's index. Lines count from 1.
    pub lines: BTreeMap<usize, Range<usize>>,
}

/// Which side of the diff a whole file is taken from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WholeFile<'a> {
    /// The path before.
    pub old: Option<&'a str>,
    /// The path after.
    pub new: Option<&'a str>,
}

/// Above this number of hunks, those of a file are one.
const MOST_HUNKS: usize = 80;

/// The words before the name of a definition.
const DEFINING: [&str; 8] = ["fn", "struct", "enum", "trait", "const", "static", "type", "mod"];

/// Whether the compiler or cargo reads a file.
pub fn is_code(path: &str) -> bool {
    [".rs", ".toml"].iter().any(|end| path.ends_with(end))
}

impl SplitDiff {
    /// Splits the texts of files that both commits have. `whole` are the other files.
    pub fn new(texts: Vec<(String, String, String)>, whole: Vec<(Option<String>, Option<String>)>) -> Self {
        let split = Self::of_lines(texts, whole, false);
        if split.hunks.len() <= MOST_HUNKS {
            return split;
        }
        let texts = split.files.iter().map(|file| (file.path.clone(), file.old.clone(), file.new.clone()));
        let whole = split.hunks.iter().filter_map(|hunk| match &hunk.change {
            Change::File { old, new } => Some((old.clone(), new.clone())),
            Change::Lines { .. } => None,
        });
        Self::of_lines(texts.collect(), whole.collect(), true)
    }

    fn of_lines(
        texts: Vec<(String, String, String)>,
        whole: Vec<(Option<String>, Option<String>)>,
        joined: bool,
    ) -> Self {
        let mut split = Self::default();
        for (path, old, new) in texts {
            let first = split.hunks.len();
            let [of_old, of_new] = [&old, &new].map(|text| lines(text));
            let mut ranges = ranges(&of_old, &of_new);
            if joined && let (Some(first), Some(last)) = (ranges.first(), ranges.last()) {
                ranges = vec![(first.0.start..last.0.end, first.1.start..last.1.end)];
            }
            for (old, new) in ranges {
                let changed = of_old[old.clone()].iter().chain(&of_new[new.clone()]);
                let defines = changed.flat_map(|line| defined(line)).collect();
                let change = Change::Lines { old, new };
                split.hunks.push(Hunk { path: path.clone(), change, defines, is_code: is_code(&path) });
            }
            let hunks = first..split.hunks.len();
            split.files.push(SplitFile { path, old, new, hunks });
        }
        for (old, new) in whole {
            let path = new.as_ref().or(old.as_ref()).cloned().unwrap_or_default();
            // A new module is named in the message, if its declaration stays.
            let name = path.rsplit('/').next().and_then(|name| name.strip_suffix(".rs"));
            let defines = name.map(str::to_owned).into_iter().collect();
            let is_code = is_code(&path);
            split.hunks.push(Hunk { path, change: Change::File { old, new }, defines, is_code });
        }
        split
    }

    /// Returns the split files without some hunks. Only files with such a hunk are returned.
    pub fn composed(&self, left_out: &BTreeSet<usize>) -> Vec<ComposedFile> {
        let is_concerned = |file: &&SplitFile| file.hunks.clone().any(|hunk| left_out.contains(&hunk));
        self.files.iter().filter(is_concerned).map(|file| self.composed_file(file, left_out)).collect()
    }

    fn composed_file(&self, file: &SplitFile, left_out: &BTreeSet<usize>) -> ComposedFile {
        let [old_lines, new_lines] = [&file.old, &file.new].map(|text| lines(text));
        let mut composed: Vec<&str> = Vec::new();
        let mut places = BTreeMap::new();
        let mut at = 0;
        for index in file.hunks.clone() {
            let Change::Lines { old, new } = &self.hunks[index].change else { continue };
            composed.extend(&new_lines[at..new.start]);
            if left_out.contains(&index) {
                composed.extend(&old_lines[old.clone()]);
            } else {
                let first = composed.len() + 1;
                composed.extend(&new_lines[new.clone()]);
                places.insert(index, first..composed.len() + 1);
            }
            at = new.end;
        }
        composed.extend(&new_lines[at..]);
        ComposedFile { path: file.path.clone(), text: composed.concat(), lines: places }
    }

    /// Returns the whole files that are left out.
    pub fn whole(&self, left_out: &BTreeSet<usize>) -> Vec<WholeFile<'_>> {
        let of_hunk = |index: &usize| match &self.hunks[*index].change {
            Change::File { old, new } => Some(WholeFile { old: old.as_deref(), new: new.as_deref() }),
            Change::Lines { .. } => None,
        };
        left_out.iter().filter_map(of_hunk).collect()
    }

    /// Returns the hunk's lines in the candidate, or else in the baseline. Lines count from 1.
    pub fn candidate_lines(&self, index: usize) -> Option<Range<usize>> {
        match &self.hunks[index].change {
            Change::Lines { new, .. } => Some(new.start + 1..new.end + 1),
            Change::File { .. } => None,
        }
    }

    /// Returns the edit in words, if it is one value: `SNIPPET: 40 → 160`.
    pub fn edit(&self, index: usize) -> Option<String> {
        let Change::Lines { old, new } = &self.hunks[index].change else { return None };
        let file = self.files.iter().find(|file| file.hunks.contains(&index))?;
        if old.len() != 1 || new.len() != 1 {
            return None;
        }
        let value = |text: &str, line: usize| {
            let (name, value) = lines(text).get(line)?.split_once('=')?;
            let name = name.split(':').next()?.split_whitespace().last()?.to_owned();
            let value = value.trim().trim_end_matches([';', ',']).to_owned();
            Some((name, value)).filter(|(_, value)| !value.is_empty() && value.chars().count() <= 24)
        };
        let (name, before) = value(&file.old, old.start)?;
        let (same, after) = value(&file.new, new.start)?;
        (name == same).then(|| format!("{name}: {before} → {after}"))
    }
}

/// Returns the lines of a text, each with its end.
fn lines(text: &str) -> Vec<&str> {
    text.split_inclusive('\n').collect()
}

/// Returns the changed lines of both sides. Changes with nothing but lines of brackets between them are one.
fn ranges(old: &[&str], new: &[&str]) -> Vec<(Range<usize>, Range<usize>)> {
    let mut found: Vec<(Range<usize>, Range<usize>)> = Vec::new();
    for operation in similar::capture_diff_slices(Algorithm::Patience, old, new) {
        let (tag, old_range, new_range) = operation.as_tag_tuple();
        if tag == DiffTag::Equal {
            continue;
        }
        let is_joined = found.last().is_some_and(|(_, before)| {
            let between = new[before.end..new_range.start].iter();
            between.clone().all(|line| !line.contains(char::is_alphanumeric) && !line.trim().is_empty())
        });
        match found.last_mut().filter(|_| is_joined) {
            Some((of_old, of_new)) => {
                of_old.end = old_range.end;
                of_new.end = new_range.end;
            }
            None => found.push((old_range, new_range)),
        }
    }
    found
}

/// Returns the names that a line defines.
fn defined(line: &str) -> Vec<String> {
    let is_part = |one: char| one.is_alphanumeric() || one == '_';
    let words: Vec<&str> = line.split(|one: char| !is_part(one)).filter(|word| !word.is_empty()).collect();
    let mut names: Vec<String> =
        words.windows(2).filter(|pair| DEFINING.contains(&pair[0])).map(|pair| pair[1].to_owned()).collect();
    // A field, `pub name: Type`, a variant, `Name(…)`, or a dependency, `name = "1"`.
    let plain = line.trim().trim_start_matches("pub ").trim_start_matches("pub(crate) ");
    let end = plain.find(|one: char| !is_part(one) && one != '-').unwrap_or(plain.len());
    let (name, rest) = plain.split_at(end);
    let follows = |begin: &str| rest.trim_start().starts_with(begin);
    let is_field = follows(":") && !follows("::");
    let is_variant = name.starts_with(char::is_uppercase) && (follows(",") || follows("(") || follows("{"));
    if !name.is_empty() && (is_field || is_variant || (follows("=") && !follows("=="))) {
        names.push(name.replace('-', "_"));
    }
    // `use a::{b, c}` brings its names.
    if plain.starts_with("use ") {
        names.extend(words.iter().skip(1).filter(|word| **word != "use").map(|word| (*word).to_owned()));
    }
    names
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub fn split(path: &str, old: &str, new: &str) -> SplitDiff {
        SplitDiff::new(vec![(path.to_owned(), old.to_owned(), new.to_owned())], Vec::new())
    }

    const OLD: &str = "const A: usize = 1;\n\nfn kept() {}\nfn sum() -> usize {\n    A\n}\n";
    const NEW: &str = "const A: usize = 2;\n\nfn kept() {}\nfn sum() -> usize {\n    A + added()\n}\nfn added() -> usize {\n    3\n}\n";

    #[test]
    fn hunks_are_the_smallest_changes_between_lines_with_text() {
        let split = split("src/lib.rs", OLD, NEW);
        let shown: Vec<_> = (0..split.hunks.len()).map(|hunk| split.candidate_lines(hunk)).collect();
        assert_eq!(shown, [Some(1..2), Some(5..9)], "{:?}", split.hunks);
        assert!(split.hunks[1].defines.contains("added"));
        assert_eq!(split.edit(0).as_deref(), Some("A: 1 → 2"));
        assert_eq!(split.edit(1), None);
    }

    #[test]
    fn changes_of_two_items_are_two_and_those_around_a_bracket_are_one() {
        let count = |old: &str, new: &str| split("a.rs", old, new).hunks.len();
        assert_eq!(count("a1\n}\n\nb1\n", "a2\n}\n\nb2\n"), 2);
        assert_eq!(count("a1\n}\nb1\n", "a2\n}\nb2\n"), 1);
    }

    #[test]
    fn without_all_hunks_a_file_is_that_of_the_baseline_and_without_none_it_is_not_composed() {
        let split = split("src/lib.rs", OLD, NEW);
        let all = (0..split.hunks.len()).collect();
        assert_eq!(split.composed(&all)[0].text, OLD);
        assert!(split.composed(&BTreeSet::new()).is_empty());
        let one = &split.composed(&BTreeSet::from([0]))[0];
        assert_eq!(one.text, NEW.replace("= 2", "= 1"));
        assert_eq!(one.lines, BTreeMap::from([(1, 5..9)]));
        // A text without a last line end stays so.
        let split = self::split("a.rs", "a", "a\nb");
        assert_eq!(split.composed(&BTreeSet::from([0]))[0].text, "a");
    }

    #[test]
    fn files_of_one_side_are_hunks_of_their_own() {
        let whole = vec![(None, Some("src/new.rs".to_owned())), (Some("data.bin".to_owned()), None)];
        let split = SplitDiff::new(Vec::new(), whole);
        assert_eq!(split.hunks.iter().map(|hunk| hunk.is_code).collect::<Vec<_>>(), [true, false]);
        assert!(split.hunks[0].defines.contains("new"));
        let left_out = split.whole(&BTreeSet::from([1]));
        assert_eq!(left_out, [WholeFile { old: Some("data.bin"), new: None }]);
    }

    #[test]
    fn names_are_those_that_messages_quote() {
        assert_eq!(defined("    pub(crate) fn parse<T>(text: T) {"), ["parse"]);
        assert_eq!(defined("    pub name: String,"), ["name"]);
        assert_eq!(defined("    Closed(u8),"), ["Closed"]);
        assert_eq!(defined("serde-json = \"1\""), ["serde_json"]);
        assert_eq!(defined("use std::collections::{BTreeMap, HashMap};").len(), 4);
        assert_eq!(defined("    other.call(a == b);"), [""; 0]);
    }

    #[test]
    fn in_a_large_diff_a_file_is_one_hunk() {
        let apart = |value: usize| {
            let lines: Vec<String> =
                (0..100).map(|line| format!("x{line} = {}\n// same\n", line * value)).collect();
            lines.concat()
        };
        let split = split("a.rs", &apart(1), &apart(2));
        assert_eq!(split.hunks.len(), 1);
        assert_eq!(split.composed(&BTreeSet::from([0]))[0].text, apart(1));
    }
}
