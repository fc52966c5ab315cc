//! Call sites as files for other viewers: one for each test and ref, because one file of pprof or
//! DHAT is one profile.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io;

use camino::{Utf8Path, Utf8PathBuf};

use crate::options::Format;
use crate::titles;
use crate::why::{dhat, folded, pprof};
use memprof_judge::compare::comparison::Comparison;
use memprof_judge::results::stack_log::Family;
use memprof_judge::why::difference::Measure;
use memprof_judge::why::explanations::{Explained, Explanations, Recorded};
use memprof_judge::why::stacks::StackFigures;

/// A file and its content.
pub struct Export {
    pub path: Utf8PathBuf,
    /// The bytes.
    pub content: Vec<u8>,
}

/// Returns the files of all explained tests. `path` names them: `out/mem.pb.gz` becomes
/// `out/mem.TEST.REF.pb.gz`, with `.gpu.0` behind the ref for a family other than the heap.
pub fn files(
    format: Format,
    path: &Utf8Path,
    comparison: &Comparison,
    why: &Explanations,
) -> io::Result<Vec<Export>> {
    let mut all = Vec::new();
    let taken = RefCell::new(BTreeSet::new());
    for test in &why.tests {
        let cell = comparison.cells.iter().find(|cell| cell.id == test.cell);
        let title = cell.map_or_else(|| titles::title_of(&test.cell), titles::distinct_title);
        let names =
            [comparison.baseline, test.candidate].map(|index| comparison.revisions[index].name.as_str());
        let path_of = |parts: &[&str]| {
            distinct_name(path, &[&[title.as_str()], parts].concat(), &mut taken.borrow_mut())
        };
        for (side, recorded) in test.recorded.iter().enumerate() {
            let Some(recorded) = recorded else { continue };
            for family in &recorded.log.families {
                let mut content = Vec::new();
                let what = format!("{title} at {}", names[side]);
                write(format, recorded, family, &what, &mut content)?;
                all.push(Export { path: path_of(&[names[side], suffix(family)]), content });
            }
        }
        if format == Format::Folded {
            all.extend(trees(test, &path_of)?);
        }
    }
    Ok(all)
}

fn write(
    format: Format,
    recorded: &Recorded,
    family: &Family,
    what: &str,
    out: &mut Vec<u8>,
) -> io::Result<()> {
    let figures = || of_run(recorded, family);
    match format {
        Format::Dhat => dhat::write(&recorded.stacks, family, what, out),
        Format::Folded => folded::write(&folded::stacks(&recorded.stacks, &figures(), Measure::AtPeak), out),
        _ => pprof::write(&recorded.stacks, &figures(), what, out),
    }
}

/// What grew and what shrank in the moment of each side's highest peak.
fn trees(test: &Explained, named: &impl Fn(&[&str]) -> Utf8PathBuf) -> io::Result<Vec<Export>> {
    let [Some(old), Some(new)] = &test.recorded else { return Ok(Vec::new()) };
    let mut all = Vec::new();
    for family in &new.log.families {
        let Some(before) = old.log.family(&family.name) else { continue };
        let figures = [of_run(old, before), of_run(new, family)];
        let sides = [(&old.stacks, &figures[0]), (&new.stacks, &figures[1])];
        let folded::Trees { grew, shrank } = folded::difference(sides, Measure::AtPeak);
        for (name, tree) in [("grew", grew), ("shrank", shrank)] {
            let mut content = Vec::new();
            folded::write(&tree, &mut content)?;
            all.push(Export { path: named(&[name, suffix(family)]), content });
        }
    }
    Ok(all)
}

fn of_run(recorded: &Recorded, family: &Family) -> StackFigures {
    recorded.stacks.figures(&family.figures_of_run())
}

fn suffix(family: &Family) -> &str {
    if family.name == "heap" { "" } else { &family.name }
}

/// Like [`name`], with a number for a name that is taken: `x/y` and `x-y` have one name.
fn distinct_name(path: &Utf8Path, parts: &[&str], taken: &mut BTreeSet<Utf8PathBuf>) -> Utf8PathBuf {
    let numbers = (2_u32..).map(|number| number.to_string());
    let names = std::iter::once(String::new()).chain(numbers);
    let mut candidates = names.map(|number| name(path, &[parts, &[number.as_str()]].concat()));
    let free = candidates.find(|name| !taken.contains(name)).expect("there is always another number");
    taken.insert(free.clone());
    free
}

/// Puts parts before the extension of a path.
fn name(path: &Utf8Path, parts: &[&str]) -> Utf8PathBuf {
    let file = path.file_name().unwrap_or("sites");
    let (stem, extension) = file.split_once('.').unwrap_or((file, ""));
    let plain = |part: &&str| {
        part.chars()
            .map(|one| if one.is_ascii_alphanumeric() || "._-".contains(one) { one } else { '-' })
            .collect::<String>()
    };
    let mut name = stem.to_owned();
    for part in parts.iter().filter(|part| !part.is_empty()).map(plain).chain([extension.to_owned()]) {
        if !part.is_empty() {
            name.push('.');
            name.push_str(&part);
        }
    }
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_named_by_test_and_ref() {
        let named = |path: &str, parts: &[&str]| name(path.into(), parts).into_string();
        assert_eq!(named("out/mem.pb.gz", &["a::b c", "pr/7", ""]), "out/mem.a--b-c.pr-7.pb.gz");
        assert_eq!(named("mem", &["a", "main", "gpu.0"]), "mem.a.main.gpu.0");
    }

    #[test]
    fn no_file_overwrites_another_one() {
        let mut taken = BTreeSet::new();
        let mut named =
            |title: &str| distinct_name("m.txt".into(), &[title, "main"], &mut taken).into_string();
        assert_eq!(named("x/y"), "m.x-y.main.txt");
        assert_eq!(named("x-y"), "m.x-y.main.2.txt");
        assert_eq!(named("x:y"), "m.x-y.main.3.txt");
        assert_eq!(named("z"), "m.z.main.txt");
    }
}
