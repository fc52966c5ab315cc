//! What the diff between two revisions changed: hunks of lines, and where other lines moved to.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use camino::Utf8Path;
use similar::{Algorithm, DiffTag};

use crate::why::frame::Frame;
use crate::why::function_path::{TraitFunction, provided};
use crate::why::functions::{self, Derive, FunctionLines, Functions};
use crate::why::stored::StoredFile;

/// One of the two revisions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// The one that the other is compared with.
    Baseline,
    /// The one that changed something.
    Candidate,
}

/// Both sides, in the order of arrays with an element for each.
pub(crate) const SIDES: [Side; 2] = [Side::Baseline, Side::Candidate];

/// The changes of the files that stacks are in.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    files: Vec<Arc<FileChange>>,
    /// The file of each path, for each side.
    of_path: [BTreeMap<String, usize>; 2],
    /// The folders of which it is not known what changed.
    unknown: Vec<String>,
    /// The contents of functions that have another module or file, and no other change.
    moved: BTreeSet<[u8; 32]>,
}

/// The source files that differ between two revisions. A file is compared and parsed once, for all tests whose stacks
/// are in it.
pub struct ChangedSources<'a>(Vec<(&'a StoredFile, OnceLock<Arc<FileChange>>)>);

#[derive(Debug)]
struct FileChange {
    paths: [Option<String>; 2],
    hunks: Vec<Hunk>,
    /// The hunks that can change what the code does: not those of blank lines and comments alone.
    code: Vec<Hunk>,
    /// Why it is not known which functions changed.
    problem: Option<&'static str>,
    functions: [Functions; 2],
    /// The functions of traits that only one side has, by that side.
    replacements: [Vec<(TraitFunction, Replacement)>; 2],
}

/// Lines that were replaced, added or deleted. Lines count from 1. An empty range is a place before
/// its start.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Hunk {
    /// The lines before.
    pub old: Range<u32>,
    /// The lines after.
    pub new: Range<u32>,
}

/// A hunk and its file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HunkAt {
    /// The path after the change; of a deleted file, before it.
    pub path: String,
    /// The lines.
    pub hunk: Hunk,
}

/// Where a line of the baseline is in the candidate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moved {
    /// The file.
    pub path: String,
    pub line: u32,
    /// Whether it is the same line. If not, it was replaced, and the line is about where it was.
    pub is_same: bool,
}

impl<'a> ChangedSources<'a> {
    /// The files of `changes.json`, for one candidate.
    pub fn new(files: &'a [StoredFile]) -> Self {
        Self(files.iter().map(|file| (file, OnceLock::new())).collect())
    }

    /// Says of which files that stacks are in it is not known what changed.
    pub(crate) fn problems(&self, used: &BTreeSet<&str>) -> Vec<String> {
        let problem = |(file, change): &(&StoredFile, OnceLock<Arc<FileChange>>)| {
            if let Some(folder) = file.unknown_folder() {
                let is_used = used.iter().any(|path| path.starts_with(folder));
                return is_used.then(|| (folder.to_owned(), "the commits of this submodule are not here"));
            }
            let is_used = file.all_paths().into_iter().flatten().any(|path| used.contains(&**path));
            let change = is_used.then(|| change.get_or_init(|| Arc::new(FileChange::new(file))))?;
            Some((change.path()?.clone(), change.problem?))
        };
        let problems = self.0.iter().filter_map(problem);
        problems
            .map(|(path, why)| format!("it is not known what the diff changes in {path}: {why}"))
            .collect()
    }

    /// Returns the changes of the files that stacks are in. `used` has their paths, for each side.
    pub fn used(&self, used: &[BTreeSet<&str>; 2]) -> Changes {
        let mut changes = Changes::default();
        for (file, change) in &self.0 {
            if let Some(folder) = file.unknown_folder() {
                changes.unknown.push(folder.to_owned());
                continue;
            }
            let mut sides = file.all_paths().into_iter().zip(used);
            if !sides.any(|(mut paths, used)| paths.any(|path| used.contains(&**path))) {
                continue;
            }
            for (of_path, paths) in changes.of_path.iter_mut().zip(file.all_paths()) {
                of_path.extend(paths.map(|path| (path.clone(), changes.files.len())));
            }
            changes.files.push(Arc::clone(change.get_or_init(|| Arc::new(FileChange::new(file)))));
        }
        changes.find_moved();
        changes
    }
}

impl Changes {
    /// No changes: one revision alone.
    pub const NONE: Self = Self {
        files: Vec::new(),
        of_path: [BTreeMap::new(), BTreeMap::new()],
        unknown: Vec::new(),
        moved: BTreeSet::new(),
    };

    /// Finds functions that only one side has where they are, but the other side has elsewhere.
    fn find_moved(&mut self) {
        let mut counts: BTreeMap<[u8; 32], [usize; 2]> = BTreeMap::new();
        for file in &self.files {
            for side in SIDES.map(|side| side as usize) {
                for function in file.functions[side].written.iter().filter(|one| !file.has(1 - side, one)) {
                    counts.entry(*function.content.as_bytes()).or_default()[side] += 1;
                }
            }
        }
        // One that was also copied is in part new.
        let moved = counts.into_iter().filter(|(_, [old, new])| old == new);
        self.moved = moved.map(|(content, _)| content).collect();
    }

    /// Whether both sides have this function with the same tokens, whatever hunks touch its lines.
    fn is_same(&self, file: &FileChange, side: Side, function: &FunctionLines) -> bool {
        let named = |side: Side| {
            file.functions[side as usize].with_name(&function.name).map(|one| one.content).collect::<Vec<_>>()
        };
        match [named(Side::Baseline), named(Side::Candidate)].each_ref().map(Vec::as_slice) {
            [[old], [new]] => old == new,
            // For example, one for each platform. It is not known which one is compiled.
            [[_, ..], [_, ..]] => false,
            _ => !file.has(1 - side as usize, function) && self.moved.contains(function.content.as_bytes()),
        }
    }

    fn file(&self, side: Side, path: &str) -> Option<&FileChange> {
        self.of_path[side as usize].get(path).map(|index| &*self.files[*index])
    }

    /// Whether it is not known what changed in a frame's file.
    pub(crate) fn is_unknown(&self, side: Side, frame: &Frame) -> bool {
        frame.checkout_path().is_some_and(|path| {
            self.unknown.iter().any(|folder| path.starts_with(folder))
                || self.file(side, path).is_some_and(|file| file.problem.is_some())
                    && self.hunk(side, frame).is_none()
        })
    }

    /// Returns the hunk that has a frame's line, or else one in the function around it.
    pub fn hunk(&self, side: Side, frame: &Frame) -> Option<HunkAt> {
        let (path, line) = frame.checkout_path().zip(frame.line)?;
        let file = self.file(side, path)?;
        let found = match file.derive(side, frame) {
            Some((derive, _)) => file.hunk_of_derive(side, derive, line),
            None => match functions::at(&file.functions[side as usize].written, line) {
                Some(function) if self.is_same(file, side, function) => None,
                Some(function) => file.hunk_at(side, line, Some(function)),
                None => {
                    let mut changed = file.named(side, frame).into_iter();
                    let hunk = changed.find(|one| !self.is_same(file, side, one)).and_then(|function| {
                        file.code.iter().find(|hunk| hunk.touches(side, &function.lines))
                    });
                    file.hunk_at(side, line, None).or(hunk)
                }
            },
        };
        Some(HunkAt { path: file.path()?.clone(), hunk: found?.clone() })
    }

    /// Whether the function of this frame is on this side alone.
    pub(crate) fn is_only_here(&self, side: Side, frame: &Frame) -> bool {
        let Some((path, line)) = frame.checkout_path().zip(frame.line) else { return false };
        let Some(file) = self.file(side, path) else { return false };
        let other = 1 - side as usize;
        if let Some((_, function)) = file.derive(side, frame) {
            return !file.functions[other].have(&function);
        }
        if let Some(function) = functions::at(&file.functions[side as usize].written, line) {
            return !file.has(other, function);
        }
        let named = file.named(side, frame);
        let is_only_here = !named.is_empty() && named.iter().all(|one| !file.has(other, one));
        is_only_here || file.paths[other].is_none()
    }

    /// Returns the file and the name in it of a frame's function, if the sources of both sides have it. The name is
    /// empty if the file does not differ.
    pub(crate) fn source_on_both(&self, side: Side, frame: &Frame) -> Option<String> {
        let (path, line) = frame.checkout_path().zip(frame.line).filter(|_| !self.is_unknown(side, frame))?;
        let Some(file) = self.file(side, path) else { return Some(path.to_owned()) };
        let other = 1 - side as usize;
        let name = if let Some((derive, function)) = file.derive(side, frame) {
            Some(&derive.of_type).filter(|_| file.functions[other].have(&function))
        } else {
            let function = functions::at(&file.functions[side as usize].written, line);
            function.filter(|function| file.has(other, function)).map(|function| &function.name)
        };
        Some(format!("{} {}", file.path()?, name?))
    }

    /// Returns the functions that types have on the other side alone, in place of the one that a
    /// trait provides in this frame.
    pub fn replacements(&self, side: Side, frame: &Frame) -> Vec<Replacement> {
        let Some(path) = frame.function.as_deref().filter(|_| !self.files.is_empty()) else {
            return Vec::new();
        };
        let (of_type, of_trait, name) = match TraitFunction::of_path(path) {
            Some(TraitFunction { of_type, of_trait, name }) => (Some(of_type), of_trait, name),
            None => match provided(path) {
                Some((of_trait, name)) => (None, of_trait, name),
                None => return Vec::new(),
            },
        };
        let other = 1 - side as usize;
        let is_meant = |own: &&(TraitFunction, Replacement)| {
            own.0.of_trait == of_trait
                && own.0.name == name
                && of_type.as_ref().is_none_or(|of_type| *of_type == own.0.of_type)
        };
        let found = self.files.iter().flat_map(|file| file.replacements[other].iter().filter(is_meant));
        found.map(|(_, replacement)| replacement.clone()).collect()
    }

    /// Returns where a line of the baseline is in the candidate; `None` if its file is gone.
    pub fn moved(&self, path: &str, line: u32) -> Option<Moved> {
        let Some(file) = self.file(Side::Baseline, path) else {
            return Some(Moved { path: path.to_owned(), line, is_same: true });
        };
        let path = file.paths[1].clone()?;
        let before = file.hunks.iter().take_while(|hunk| hunk.old.start <= line).last();
        let Some(hunk) = before else { return Some(Moved { path, line, is_same: true }) };
        if hunk.old.contains(&line) {
            let last = hunk.new.end.saturating_sub(1).max(hunk.new.start);
            let line = (hunk.new.start + (line - hunk.old.start)).min(last);
            return Some(Moved { path, line, is_same: false });
        }
        Some(Moved { path, line: line - hunk.old.end + hunk.new.end, is_same: true })
    }

    /// Whether a line of the candidate was in the baseline, too.
    pub(crate) fn is_old_line(&self, path: &str, line: u32) -> bool {
        let Some(file) = self.file(Side::Candidate, path) else { return true };
        file.hunks.iter().all(|hunk| !hunk.new.contains(&line))
    }
}

/// A function of a type that takes the place of one that its trait provides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replacement {
    /// The last name of the type: `Map`.
    pub of_type: String,
    /// The function, as its file names it: `<Map<K> as Clone>::clone_from`.
    pub function: String,
    /// The file and first line.
    pub location: String,
    pub hunk: HunkAt,
}

impl FileChange {
    fn new(StoredFile { paths, texts, .. }: &StoredFile) -> Self {
        let text = |side: usize| if paths[side].is_some() { texts[side].as_deref() } else { Some("") };
        let texts = [0, 1].map(text);
        let functions = functions::of_both(texts.map(Option::unwrap_or_default));
        let (hunks, code, problem) = if let [Some(old), Some(new)] = texts {
            let lines = [old, new].map(|text| text.lines().collect());
            let hunks = hunks(&lines);
            let code = hunks.iter().filter(|hunk| hunk.has_code(&lines, &functions)).cloned().collect();
            let is_rust = paths.iter().flatten().all(|path| Utf8Path::new(path).extension() == Some("rs"));
            let is_unclear = is_rust && functions.iter().any(|one| one.code.is_none());
            (
                hunks,
                code,
                is_unclear.then_some("the file is no valid Rust, or its brackets are nested too deep"),
            )
        } else {
            // The file changed, and it cannot be said where.
            let all = vec![Hunk { old: 1..u32::MAX, new: 1..u32::MAX }];
            (all, Vec::new(), Some("the file is too large to compare, a link, or no UTF-8 text"))
        };
        let mut change = Self {
            paths: paths.clone(),
            hunks,
            code,
            problem,
            functions,
            replacements: [Vec::new(), Vec::new()],
        };
        change.replacements = SIDES.map(|side| change.only_on(side));
        change
    }

    /// Returns the functions of traits that the other side lacks, and that a hunk adds or takes away.
    fn only_on(&self, side: Side) -> Vec<(TraitFunction, Replacement)> {
        let written = self.functions[side as usize].written.iter();
        let replacement = |own: &FunctionLines| {
            let of_trait = own.of_trait.as_ref()?;
            let path = self.paths[side as usize].as_ref()?;
            let hunk = self.code.iter().find(|hunk| hunk.touches(side, &own.lines))?;
            let replacement = Replacement {
                of_type: of_trait.of_type.clone(),
                function: own.name.clone(),
                location: format!("{path}:{}", own.lines.start),
                hunk: HunkAt { path: self.path().unwrap_or(path).clone(), hunk: hunk.clone() },
            };
            Some((of_trait.clone(), replacement)).filter(|_| !self.has(1 - side as usize, own))
        };
        written.filter_map(replacement).collect()
    }

    fn path(&self) -> Option<&String> {
        self.paths.iter().rev().flatten().next()
    }

    /// Whether a side has a function of the other one.
    fn has(&self, side: usize, function: &FunctionLines) -> bool {
        let functions = &self.functions[side];
        functions.with_name(&function.name).next().is_some()
            || function.of_trait.as_ref().is_some_and(|function| functions.have(function))
    }

    fn named(&self, side: Side, frame: &Frame) -> Vec<&FunctionLines> {
        frame.function.as_deref().map(|path| self.functions[side as usize].named(path)).unwrap_or_default()
    }

    fn hunk_at(&self, side: Side, line: u32, function: Option<&FunctionLines>) -> Option<&Hunk> {
        let own = |hunk: &&Hunk| hunk.lines_on(side).contains(&line);
        let touches = |hunk: &&Hunk| function.is_some_and(|function| hunk.touches(side, &function.lines));
        let is_same_statement = |hunk: &&Hunk| self.is_in_statement(side, hunk, line);
        let hunks = || self.code.iter().filter(touches);
        let found = self.code.iter().find(own);
        found
            .or_else(|| nearest(hunks().filter(is_same_statement), side, line))
            .or_else(|| nearest(hunks(), side, line))
    }

    /// Whether a hunk changes the innermost statement at a line, apart from statements inside of it.
    fn is_in_statement(&self, side: Side, hunk: &Hunk, line: u32) -> bool {
        let functions = &self.functions[side as usize];
        let Some(statement) = functions.statement(line) else { return false };
        let is_of_statement = |line: u32| functions.statement(line) == Some(statement);
        let own = hunk.lines_on(side);
        if own.is_empty() {
            return is_of_statement(own.start.saturating_sub(1)) && is_of_statement(own.start);
        }
        (own.start.max(statement.start)..own.end.min(statement.end)).any(is_of_statement)
    }

    /// Returns the derive that makes a frame's function.
    fn derive(&self, side: Side, frame: &Frame) -> Option<(&Derive, TraitFunction)> {
        let function = TraitFunction::of_path(frame.function.as_deref()?)?;
        let derive = self.functions[side as usize].derived(frame.line?, &function)?;
        Some((derive, function))
    }

    /// A derived function changes with the fields, or if the attribute no longer derives it. Another
    /// trait in the attribute changes nothing.
    fn hunk_of_derive(&self, side: Side, derive: &Derive, line: u32) -> Option<&Hunk> {
        let mut others = self.functions[1 - side as usize].derived.iter();
        let stays = others.any(|other| other.of_type == derive.of_type && other.of_trait == derive.of_trait);
        let lines = if stays { &derive.item } else { &derive.attribute };
        nearest(self.code.iter().filter(|hunk| hunk.touches(side, lines)), side, line)
    }
}

/// Returns the hunk with the nearest end to a line. Of two, it is the one before the line.
fn nearest<'a>(hunks: impl Iterator<Item = &'a Hunk>, side: Side, line: u32) -> Option<&'a Hunk> {
    hunks.min_by_key(|hunk| hunk.distance(side, line))
}

impl Hunk {
    /// Returns the lines on a side.
    pub(crate) fn lines_on(&self, side: Side) -> &Range<u32> {
        match side {
            Side::Baseline => &self.old,
            Side::Candidate => &self.new,
        }
    }

    /// Returns how many lines it is away from a line, and whether it is behind it.
    fn distance(&self, side: Side, line: u32) -> (u32, bool) {
        let own = self.lines_on(side);
        if line < own.start {
            (own.start - line, true)
        } else {
            (line.saturating_add(1).saturating_sub(own.end), false)
        }
    }

    /// Whether a line on either side is more than a comment.
    fn has_code(&self, texts: &[Vec<&str>; 2], functions: &[Functions; 2]) -> bool {
        SIDES.iter().any(|side| {
            let lines = self.lines_on(*side);
            if let Some(code) = &functions[*side as usize].code {
                return code.range(lines.clone()).next().is_some();
            }
            let mut texts = texts[*side as usize][lines.start as usize - 1..lines.end as usize - 1].iter();
            texts.any(|line| !line.trim().is_empty() && !line.trim().starts_with("//"))
        })
    }

    /// Whether lines were changed, added or deleted inside of these.
    fn touches(&self, side: Side, lines: &Range<u32>) -> bool {
        let own = self.lines_on(side);
        if own.is_empty() {
            // A place before the first line is outside.
            return lines.start < own.start && own.start < lines.end;
        }
        own.start < lines.end && lines.start < own.end
    }
}

/// `@@ -7,2 +7,3 @@`, as git writes it.
impl std::fmt::Display for Hunk {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let lines = |range: &Range<u32>| match range.end - range.start {
            // Git names the line before.
            0 => format!("{},0", range.start.saturating_sub(1)),
            1 => range.start.to_string(),
            count => format!("{},{count}", range.start),
        };
        write!(formatter, "@@ -{} +{} @@", lines(&self.old), lines(&self.new))
    }
}

/// Compares the lines of two texts.
fn hunks(texts: &[Vec<&str>; 2]) -> Vec<Hunk> {
    let line = |index: usize| u32::try_from(index + 1).unwrap_or(u32::MAX);
    let mut hunks: Vec<Hunk> = Vec::new();
    // What is between equal lines, because only their places are reliable on both sides.
    let mut equal = Vec::new();
    for change in similar::capture_diff_slices(Algorithm::Myers, &texts[0], &texts[1]) {
        if let (DiffTag::Equal, old, new) = change.as_tag_tuple() {
            equal.push((old, new));
        }
    }
    equal.push((texts[0].len()..texts[0].len(), texts[1].len()..texts[1].len()));
    let (mut old_end, mut new_end) = (0, 0);
    for (old, new) in equal {
        if old.start > old_end || new.start > new_end {
            hunks.push(Hunk { old: line(old_end)..line(old.start), new: line(new_end)..line(new.start) });
        }
        (old_end, new_end) = (old.end, new.end);
    }
    slide(&mut hunks, texts);
    hunks
}

/// Moves insertions and deletions down as far as the text stays the same, as git does. The bracket
/// that ends a function then belongs to that function, not to the one before it.
fn slide(hunks: &mut [Hunk], texts: &[Vec<&str>; 2]) {
    for index in 0..hunks.len() {
        let next = hunks.get(index + 1).map(|hunk| [hunk.old.start, hunk.new.start]);
        let hunk = &mut hunks[index];
        let (side, own) = match (hunk.old.is_empty(), hunk.new.is_empty()) {
            (true, false) => (1, &hunk.new),
            (false, true) => (0, &hunk.old),
            _ => continue,
        };
        let line = |number: u32| texts[side].get(number as usize - 1);
        let last = next.map_or(u32::MAX, |next| next[side]);
        let mut by = 0;
        while own.end + by < last
            && let Some(text) = line(own.end + by)
            && line(own.start + by) == Some(text)
        {
            by += 1;
        }
        for range in [&mut hunk.old, &mut hunk.new] {
            *range = range.start + by..range.end + by;
        }
    }
}

/// Returns the paths of the user's files in stacks.
pub fn used_paths<'a>(frames: impl Iterator<Item = &'a Frame>) -> BTreeSet<&'a str> {
    frames.filter_map(Frame::checkout_path).collect()
}

#[cfg(test)]
pub(crate) mod tests;
