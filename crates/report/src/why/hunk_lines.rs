//! The source lines of a hunk.

use std::ops::Range;

use memprof_judge::why::hunks::HunkAt;
use memprof_judge::why::stored::StoredFile;

/// Lines of a file around a hunk.
const CONTEXT: u32 = 3;

/// Lines of a hunk.
const MOST_LINES: usize = 60;

/// Returns the lines of a hunk, with some around it: `+`, `-` or a blank, and the text. `None` if the
/// texts are not known.
pub(crate) fn hunk_lines<'a>(at: &HunkAt, sources: &'a [StoredFile]) -> Option<Vec<(char, &'a str)>> {
    let is_of = |file: &&StoredFile| {
        file.paths[1].as_ref().or(file.paths[0].as_ref()).is_some_and(|path| *path == at.path)
    };
    let file = sources.iter().find(is_of)?;
    let text = |side: usize| match (&file.paths[side], &file.texts[side]) {
        (None, _) => Some(Vec::new()),
        (Some(_), Some(text)) => Some(text.lines().collect::<Vec<&str>>()),
        (Some(_), None) => None,
    };
    let (old, new) = (text(0)?, text(1)?);
    let of = |lines: &[&'a str], range: Range<u32>| -> Vec<&'a str> {
        let place = |line: u32| (line.saturating_sub(1) as usize).min(lines.len());
        lines[place(range.start)..place(range.end).max(place(range.start))].to_vec()
    };
    let hunk = &at.hunk;
    let around = |kind: char, lines: Vec<&'a str>| lines.into_iter().map(move |line| (kind, line));
    let before = hunk.new.start.saturating_sub(CONTEXT).max(1)..hunk.new.start;
    let after = hunk.new.end..hunk.new.end.saturating_add(CONTEXT);
    let all = around(' ', of(&new, before))
        .chain(around('-', of(&old, hunk.old.clone())))
        .chain(around('+', of(&new, hunk.new.clone())))
        .chain(around(' ', of(&new, after)));
    Some(all.take(MOST_LINES).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use memprof_judge::why::hunks::Hunk;

    #[test]
    fn a_hunk_has_its_lines_and_some_around_it() {
        let file = StoredFile {
            paths: [Some("src/a.rs".into()), Some("src/a.rs".into())],
            texts: [Some("1\n2\nold\n4\n".into()), Some("1\n2\nnew\nmore\n4\n".into())],
            ..StoredFile::default()
        };
        let at = HunkAt { path: "src/a.rs".into(), hunk: Hunk { old: 3..4, new: 3..5 } };
        let shown: Vec<String> =
            hunk_lines(&at, &[file]).unwrap().iter().map(|(kind, line)| format!("{kind}{line}")).collect();
        assert_eq!(shown, [" 1", " 2", "-old", "+new", "+more", " 4"]);
        assert_eq!(hunk_lines(&at, &[]), None);
    }
}
