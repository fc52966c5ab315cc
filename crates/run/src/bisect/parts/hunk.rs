//! The diff between two commits as hunks, and the text of each file without some of them.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use similar::{Algorithm, DiffTag};

use crate::bisect::parts::locked::LockedSides;
use crate::bisect::parts::manifest_lines;

/// The files that differ between two commits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiffFiles {
    /// The path and both texts of sources and manifests that both commits have.
    pub texts: Vec<(String, String, String)>,
    /// The paths before and after of all other files.
    pub whole: Vec<(Option<String>, Option<String>)>,
    /// The workspace's lock file, if both commits have one. It is no file of its own: its packages are hunks.
    pub lock: Option<LockedSides>,
    /// The files that the test's target does not compile. They are never split.
    pub elsewhere: BTreeSet<String>,
    /// Files that the compiler reads, although their names do not say so.
    pub included: BTreeSet<String>,
}

/// The diff between two commits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SplitDiff {
    /// Files whose hunks can be left out one by one.
    files: Vec<SplitFile>,
    /// The smallest changes. Those of one file follow each other, in its order.
    pub hunks: Vec<Hunk>,
    /// The workspace's lock file.
    pub lock: Option<LockedSides>,
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
    /// The names of what its lines define: functions, types, constants, fields, dependencies.
    pub defines: BTreeSet<String>,
    /// Who reads it.
    pub reader: Reader,
}

/// Who reads a changed file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    /// The compiler or cargo. Whether the rest compiles without the change has to be checked.
    Compiler,
    /// Perhaps the test, while it runs.
    Test,
    /// Neither: the test's target does not compile it.
    Nobody,
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
    /// A package of the lock file, by its index there.
    Package(usize),
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

/// The text of a hunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HunkTexts<'a> {
    /// The lines that it takes away.
    pub old: Vec<&'a str>,
    /// The lines that it brings.
    pub new: Vec<&'a str>,
    /// The file's text after it.
    pub file: &'a str,
}

/// Above this number of hunks that the compiler reads, those of the largest files are one each.
const MOST_HUNKS: usize = 80;

/// The words before the name of a definition.
const DEFINING: [&str; 8] = ["fn", "struct", "enum", "trait", "const", "static", "type", "mod"];

/// Whether the compiler or cargo reads a file, by its name.
pub fn is_code(path: &str) -> bool {
    [".rs", ".toml"].iter().any(|end| path.ends_with(end))
}

impl SplitDiff {
    /// Splits the files into hunks.
    pub fn new(files: DiffFiles) -> Self {
        let mut split = Self { lock: files.lock, ..Self::default() };
        let reader = |path: &str| match () {
            () if files.elsewhere.contains(path) => Reader::Nobody,
            () if is_code(path) || files.included.contains(path) => Reader::Compiler,
            () => Reader::Test,
        };
        let is_split = |path: &str| reader(path) == Reader::Compiler;
        let (texts, unsplit): (Vec<_>, Vec<_>) = files.texts.into_iter().partition(|one| is_split(&one.0));
        let mut changes: Vec<Vec<Ranges>> =
            texts.iter().map(|(path, old, new)| ranges(path, old, new)).collect();
        while changes.iter().map(Vec::len).sum::<usize>() > MOST_HUNKS {
            let largest = changes.iter_mut().max_by_key(|of_file| of_file.len()).filter(|one| one.len() > 1);
            let Some(of_file) = largest else { break };
            let whole = [of_file.first(), of_file.last()].map(|one| one.cloned().unwrap_or_default());
            *of_file = vec![(whole[0].0.start..whole[1].0.end, whole[0].1.start..whole[1].1.end)];
        }
        for ((path, old, new), of_file) in texts.into_iter().zip(changes) {
            split.push_lines(path, old, new, of_file);
        }
        let whole = unsplit.into_iter().map(|(path, ..)| (Some(path.clone()), Some(path)));
        for (old, new) in files.whole.into_iter().chain(whole) {
            let path = new.as_ref().or(old.as_ref()).cloned().unwrap_or_default();
            // A new module is named in the message, if its declaration stays.
            let name = path.rsplit('/').next().and_then(|name| name.strip_suffix(".rs"));
            let defines = name.map(str::to_owned).into_iter().collect();
            let reader = reader(&path);
            split.hunks.push(Hunk { path, change: Change::File { old, new }, defines, reader });
        }
        let lock = split.lock.iter();
        let packages =
            lock.flat_map(|lock| lock.moved().iter().map(|one| (lock.path.clone(), one.name.clone())));
        for (index, (path, name)) in packages.enumerate().collect::<Vec<_>>() {
            let defines = BTreeSet::from([manifest_lines::as_identifier(&name)]);
            split.hunks.push(Hunk {
                path,
                change: Change::Package(index),
                defines,
                reader: Reader::Compiler,
            });
        }
        split
    }

    fn push_lines(&mut self, path: String, old: String, new: String, ranges: Vec<Ranges>) {
        let first = self.hunks.len();
        let [of_old, of_new] = [&old, &new].map(|text| lines(text));
        for (old, new) in ranges {
            let changed = of_old[old.clone()].iter().chain(&of_new[new.clone()]);
            let mut defines: BTreeSet<String> = changed.clone().flat_map(|line| defined(line)).collect();
            if is_manifest(&path) {
                defines.extend(changed.filter_map(|line| manifest_lines::renamed(line)));
                defines.extend(manifest_lines::dependency_of_table(&of_new, new.start));
            }
            let change = Change::Lines { old, new };
            self.hunks.push(Hunk { path: path.clone(), change, defines, reader: Reader::Compiler });
        }
        self.files.push(SplitFile { path, old, new, hunks: first..self.hunks.len() });
    }

    /// Returns the hunks that no check can tell from each other: a package of the lock file and the lines of
    /// manifests that name it, and all that nobody reads.
    pub fn tied(&self, index: usize) -> BTreeSet<usize> {
        let own = &self.hunks[index];
        let is_package = |hunk: &Hunk| matches!(hunk.change, Change::Package(_));
        let is_tied = |other: &Hunk| match own.reader {
            Reader::Nobody => other.reader == Reader::Nobody,
            Reader::Test => false,
            Reader::Compiler => {
                let (package, line) = if is_package(own) { (own, other) } else { (other, own) };
                is_package(package)
                    && !is_package(line)
                    && is_manifest(&line.path)
                    && package.defines.iter().any(|name| line.defines.contains(name))
            }
        };
        let tied = (0..self.hunks.len()).filter(|other| is_tied(&self.hunks[*other]));
        tied.chain([index]).collect()
    }

    /// Whether cargo may resolve other packages without these hunks.
    pub fn concerns_lockfile(&self, left_out: &BTreeSet<usize>) -> bool {
        let of_lock = |hunk: &Hunk| matches!(hunk.change, Change::Package(_)) || is_manifest(&hunk.path);
        self.lock.is_some() && left_out.iter().any(|index| of_lock(&self.hunks[*index]))
    }

    /// Returns the packages of the lock file that are left out, by their indices there.
    pub fn packages(&self, left_out: &BTreeSet<usize>) -> BTreeSet<usize> {
        let of_hunk = |index: &usize| match self.hunks[*index].change {
            Change::Package(package) => Some(package),
            _ => None,
        };
        left_out.iter().filter_map(of_hunk).collect()
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
            Change::Lines { .. } | Change::Package(_) => None,
        };
        left_out.iter().filter_map(of_hunk).collect()
    }

    /// Returns the hunk's lines in the candidate, or else in the baseline. Lines count from 1.
    pub fn candidate_lines(&self, index: usize) -> Option<Range<usize>> {
        match &self.hunks[index].change {
            Change::Lines { new, .. } => Some(new.start + 1..new.end + 1),
            Change::File { .. } | Change::Package(_) => None,
        }
    }

    /// Returns the lines that a hunk takes away, those that it brings, and their file's text after it.
    pub fn texts(&self, index: usize) -> Option<HunkTexts<'_>> {
        let Change::Lines { old, new } = &self.hunks[index].change else { return None };
        let file = self.files.iter().find(|file| file.hunks.contains(&index))?;
        let of_hunk = |text, range: &Range<usize>| lines(text)[range.clone()].to_vec();
        Some(HunkTexts { old: of_hunk(&file.old, old), new: of_hunk(&file.new, new), file: &file.new })
    }
}

/// Returns the lines of a text, each with its end.
fn lines(text: &str) -> Vec<&str> {
    text.split_inclusive('\n').collect()
}

/// Lines before and after a change, by their indices.
type Ranges = (Range<usize>, Range<usize>);

/// Returns the changed lines of both sides. Changes with nothing but lines of brackets between them are one.
/// Lines of a manifest with a key each are one each.
fn ranges(path: &str, old: &str, new: &str) -> Vec<Ranges> {
    let [old, new] = [old, new].map(lines);
    let mut found: Vec<Ranges> = Vec::new();
    for operation in similar::capture_diff_slices(Algorithm::Patience, &old, &new) {
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
    if !is_manifest(path) {
        return found;
    }
    found.into_iter().flat_map(|one| manifest_lines::split(&old, &new, one)).collect()
}

/// Whether a file is a manifest of cargo.
fn is_manifest(path: &str) -> bool {
    path == "Cargo.toml" || path.ends_with("/Cargo.toml")
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
        let texts = vec![(path.to_owned(), old.to_owned(), new.to_owned())];
        SplitDiff::new(DiffFiles { texts, ..DiffFiles::default() })
    }

    const OLD: &str = "const A: usize = 1;\n\nfn kept() {}\nfn sum() -> usize {\n    A\n}\n";
    const NEW: &str = "const A: usize = 2;\n\nfn kept() {}\nfn sum() -> usize {\n    A + added()\n}\nfn added() -> usize {\n    3\n}\n";

    #[test]
    fn hunks_are_the_smallest_changes_between_lines_with_text() {
        let split = split("src/lib.rs", OLD, NEW);
        let shown: Vec<_> = (0..split.hunks.len()).map(|hunk| split.candidate_lines(hunk)).collect();
        assert_eq!(shown, [Some(1..2), Some(5..9)], "{:?}", split.hunks);
        assert!(split.hunks[1].defines.contains("added"));
        let texts = split.texts(0).unwrap();
        assert_eq!((texts.old, texts.new), (vec!["const A: usize = 1;\n"], vec!["const A: usize = 2;\n"]));
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
        let split = SplitDiff::new(DiffFiles { whole, ..DiffFiles::default() });
        let readers: Vec<Reader> = split.hunks.iter().map(|hunk| hunk.reader).collect();
        assert_eq!(readers, [Reader::Compiler, Reader::Test]);
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

    /// A file with this number of changes between two values.
    fn apart(changes: usize, value: usize) -> String {
        (1..=changes)
            .flat_map(|line| [format!("x{line} = {}\n", line * value), "// same\n".to_owned()])
            .collect()
    }

    #[test]
    fn in_a_large_diff_the_file_with_most_hunks_is_one() {
        let text = |path: &str, changes: usize| (path.to_owned(), apart(changes, 1), apart(changes, 2));
        let texts = vec![text("small.rs", 20), text("large.rs", 70)];
        let split = SplitDiff::new(DiffFiles { texts: texts.clone(), ..DiffFiles::default() });
        assert_eq!(split.hunks.iter().filter(|hunk| hunk.path == "large.rs").count(), 1);
        assert_eq!(split.hunks.len(), 21);
        assert_eq!(split.composed(&BTreeSet::from([20]))[0].text, apart(70, 1));
        // What the test does not compile does not count.
        let elsewhere = BTreeSet::from(["large.rs".to_owned()]);
        let split = SplitDiff::new(DiffFiles { texts, elsewhere, ..DiffFiles::default() });
        assert_eq!(split.hunks.len(), 21);
        assert_eq!(split.hunks[20].reader, Reader::Nobody);
        assert_eq!(split.whole(&BTreeSet::from([20]))[0].old, Some("large.rs"));
    }

    #[test]
    fn a_package_of_the_lock_file_belongs_to_the_line_of_the_manifest_that_names_it() {
        let manifest = |a: &str, b: &str| format!("[dependencies]\nsome-a = \"{a}\"\nb = \"{b}\"\n");
        let lock = |a: &str, b: &str| {
            let package = |name: &str, version: &str| {
                format!("[[package]]\nname = \"{name}\"\nversion = \"{version}\"\nsource = \"registry+x\"\n")
            };
            format!("version = 4\n\n{}\n{}", package("b", b), package("some-a", a))
        };
        let sides =
            LockedSides::new("Cargo.lock".to_owned(), &lock("1.0.0", "1.0.0"), &lock("1.1.0", "1.0.1"));
        let split = SplitDiff::new(DiffFiles {
            texts: vec![("Cargo.toml".to_owned(), manifest("1", "1"), manifest("1.1", "1.0"))],
            lock: Some(sides),
            ..DiffFiles::default()
        });
        let shown: Vec<&str> = split.hunks.iter().map(|hunk| hunk.path.as_str()).collect();
        assert_eq!(shown, ["Cargo.toml", "Cargo.toml", "Cargo.lock", "Cargo.lock"]);
        assert_eq!(
            [0, 1, 2, 3].map(|hunk| split.tied(hunk).into_iter().collect::<Vec<_>>()),
            [vec![0, 3], vec![1, 2], vec![1, 2], vec![0, 3]]
        );
        assert_eq!(split.packages(&BTreeSet::from([0, 3])), BTreeSet::from([1]));
        assert!(split.concerns_lockfile(&BTreeSet::from([0])));
    }
}
