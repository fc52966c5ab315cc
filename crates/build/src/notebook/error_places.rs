//! Places of the program in messages of the compiler, as cells and lines.

use regex::Regex;

/// Returns a text in which places such as `tests/tour.rs:3002:9` are `cell 3, line 2`. The prefix
/// of a path goes with it. `stride` is the program's.
pub fn as_cells(text: &str, target: &str, stride: usize) -> String {
    let pattern = format!(r"(?:[^\s:]*/)?tests/{}\.rs:(\d+)(?::\d+)?", regex::escape(target));
    let Ok(pattern) = Regex::new(&pattern) else { return text.to_owned() };
    let replaced = pattern.replace_all(text, |found: &regex::Captures<'_>| {
        let line: usize = found[1].parse().unwrap_or(0);
        place(line, stride).unwrap_or_else(|| found[0].to_owned())
    });
    replaced.into_owned()
}

/// Returns the cell of a line of the program; `None` for a line before the first cell.
fn place(line: usize, stride: usize) -> Option<String> {
    let (cell, line) = (line / stride, line % stride);
    (cell > 0).then(|| format!("cell {cell}, line {line}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_in_the_program_become_places_in_cells() {
        let text = "error[E0425]: no `x`\n  --> memprof-notebook/tests/a.rs:3002:9\n at tests/a.rs:12:1, tests/ab.rs:3002:1";
        assert_eq!(
            as_cells(text, "a", 1000),
            "error[E0425]: no `x`\n  --> cell 3, line 2\n at tests/a.rs:12:1, tests/ab.rs:3002:1"
        );
    }
}
