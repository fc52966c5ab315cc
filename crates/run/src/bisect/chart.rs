//! A chart of figures over commits for a terminal: columns of blocks, a scale on the left, marks
//! below.

/// What to draw.
#[derive(Clone, Copy)]
pub struct Chart<'a> {
    /// One figure for each column, in order; `None` for a commit without a figure.
    pub figures: &'a [Option<i64>],
    /// The columns with a mark, and whether the figure grew there.
    pub marks: &'a [(usize, bool)],
    /// How to write a figure on the scale.
    pub label: &'a dyn Fn(i64) -> String,
    /// The width of the terminal, in columns.
    pub width: usize,
    /// The height of the columns, in lines.
    pub height: usize,
    /// Whether the terminal shows characters beyond ASCII.
    pub unicode: bool,
}

const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Steps of a line's height that a block character can show.
const EIGHTHS: i128 = 8;

impl Chart<'_> {
    /// Returns the lines of the chart; empty if there are no figures.
    pub fn lines(&self) -> Vec<String> {
        let present = || self.figures.iter().flatten().copied();
        let (Some(least), Some(greatest)) = (present().min(), present().max()) else { return Vec::new() };
        if (least, greatest) == (0, 0) && self.height > 1 {
            return Self { height: 1, ..*self }.lines();
        }
        let is_level = least >= 0 && (self.label)(least) == (self.label)(greatest);
        let bottom = if is_level { 0 } else { bottom(least, greatest) };
        let labels: Vec<String> =
            (0..self.height).map(|line| (self.label)(self.at(line, bottom, greatest))).collect();
        let margin = labels.iter().map(|label| label.chars().count()).max().unwrap_or_default();
        let columns = self.columns(self.width.saturating_sub(margin + 3).max(1));
        let axis = if self.unicode { '┤' } else { '|' };
        let mut lines: Vec<String> = (0..self.height)
            .rev()
            .map(|line| {
                let blocks: String = columns
                    .figures
                    .iter()
                    .map(|figure| self.block(*figure, line, bottom, greatest))
                    .collect();
                format!(" {:>margin$} {axis}{}", labels[line], blocks.trim_end())
            })
            .collect();
        if !columns.marks.is_empty() {
            let grew = |mark: Option<bool>| match (mark, self.unicode) {
                (None, _) => ' ',
                (Some(true), true) => '▲',
                (Some(false), true) => '▼',
                (Some(true), false) => '^',
                (Some(false), false) => 'v',
            };
            let marks = (0..columns.figures.len()).map(|column| {
                grew(columns.marks.iter().find(|(at, _)| *at == column).map(|(_, grew)| *grew))
            });
            let marks: String = marks.collect();
            lines.push(format!(" {:margin$}  {}", "", marks.trim_end()));
        }
        lines
    }

    /// Returns the figure at the top of a line, counted from the bottom.
    fn at(&self, line: usize, bottom: i64, top: i64) -> i64 {
        let range = i128::from(top) - i128::from(bottom);
        let part = range * (line as i128 + 1) / self.height.max(1) as i128;
        i64::try_from(i128::from(bottom) + part).unwrap_or(top)
    }

    fn block(&self, figure: Option<i64>, line: usize, bottom: i64, top: i64) -> char {
        let Some(figure) = figure else {
            return match (line, self.unicode) {
                (0, true) => '·',
                (0, false) => '.',
                _ => ' ',
            };
        };
        let range = (i128::from(top) - i128::from(bottom)).max(1);
        let full = self.height as i128 * EIGHTHS;
        // The smallest figure must be visible too.
        let filled = ((i128::from(figure) - i128::from(bottom)) * full / range).max(1);
        let eighths = (filled - line as i128 * EIGHTHS).clamp(0, EIGHTHS);
        match (usize::try_from(eighths).unwrap_or_default(), self.unicode) {
            (0, _) => ' ',
            (eighths, true) => BLOCKS[eighths - 1],
            (4.., false) => '#',
            (_, false) => '_',
        }
    }

    /// Assigns figures to columns. With more figures than columns, a column shows the greatest of
    /// several. With enough room, a figure is two columns wide.
    fn columns(&self, room: usize) -> Columns {
        let count = self.figures.len();
        if count * 2 <= room {
            let figures = self.figures.iter().flat_map(|figure| [*figure, *figure]).collect();
            return Columns { figures, marks: self.marks.iter().map(|(at, grew)| (at * 2, *grew)).collect() };
        }
        let columns = count.min(room);
        let column = |figure: usize| figure * columns / count;
        let mut figures = vec![None; columns];
        for (index, figure) in self.figures.iter().enumerate() {
            let of_column: &mut Option<i64> = &mut figures[column(index)];
            *of_column = (*of_column).max(*figure);
        }
        Columns { figures, marks: self.marks.iter().map(|(at, grew)| (column(*at), *grew)).collect() }
    }
}

struct Columns {
    figures: Vec<Option<i64>>,
    marks: Vec<(usize, bool)>,
}

/// Returns where the scale of different figures begins: at zero, unless all columns would then look the same.
fn bottom(least: i64, greatest: i64) -> i64 {
    let range = i128::from(greatest) - i128::from(least);
    if least >= 0 && range * 4 >= i128::from(greatest) {
        return 0;
    }
    // Leave some room below the smallest figure, so that its column is visible.
    i64::try_from(i128::from(least) - (range / 4).max(1)).unwrap_or(least)
}

/// Whether the terminal shows characters beyond ASCII, according to the locale variables in POSIX's
/// order.
pub fn is_unicode(variable: impl Fn(&str) -> Option<String>) -> bool {
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
        .iter()
        .find_map(|name| variable(name).filter(|value| !value.is_empty()))
        .unwrap_or_default()
        .to_ascii_lowercase();
    // Without a locale, as in most containers, terminals still show UTF-8. Users set `C` and
    // `POSIX` on purpose.
    locale.is_empty() || locale.contains("utf")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn chart(figures: &[Option<i64>], marks: &[(usize, bool)], width: usize, unicode: bool) -> String {
        let label = |figure: i64| format!("{figure} B");
        Chart { figures, marks, label: &label, width, height: 4, unicode }.lines().join("\n")
    }

    #[test]
    fn steps_are_marked_and_a_commit_without_a_figure_is_a_dot() {
        let figures = [10, 10, 10, 40, 40, 0, 80, 80].map(|figure| (figure > 0).then_some(figure));
        insta::assert_snapshot!(chart(&figures, &[(3, true), (6, true)], 40, true), @r"
         80 B ┤            ████
         60 B ┤            ████
         40 B ┤      ████  ████
         20 B ┤▄▄▄▄▄▄████··████
                     ▲     ▲
        ");
        insta::assert_snapshot!(chart(&figures, &[(3, true), (6, false)], 40, false), @r"
         80 B |            ####
         60 B |            ####
         40 B |      ####  ####
         20 B |##########..####
                     ^     v
        ");
    }

    #[test]
    fn the_scale_of_a_small_change_in_a_large_figure_does_not_begin_at_zero() {
        insta::assert_snapshot!(chart(&[1000, 1000, 1010, 1010].map(Some), &[(2, true)], 40, true), @r"
         1010 B ┤    ████
         1007 B ┤    ████
         1004 B ┤    ████
         1001 B ┤▅▅▅▅████
                     ▲
        ");
    }

    #[test]
    fn equal_figures_have_a_scale_that_begins_at_zero() {
        insta::assert_snapshot!(chart(&[80, 80, 80].map(Some), &[], 40, true), @r"
         80 B ┤██████
         60 B ┤██████
         40 B ┤██████
         20 B ┤██████
        ");
        insta::assert_snapshot!(chart(&[0, 0].map(Some), &[], 40, true), @" 0 B ┤▁▁▁▁");
        assert_eq!(chart(&[-8, -8].map(Some), &[], 40, true).lines().count(), 4);
        let label = |figure: i64| format!("{} KiB", figure / 1024);
        let figures = [80_000, 80_010].map(Some);
        let chart =
            Chart { figures: &figures, marks: &[], label: &label, width: 40, height: 4, unicode: true };
        insta::assert_snapshot!(chart.lines().join("\n"), @r"
         78 KiB ┤▇▇██
         58 KiB ┤████
         39 KiB ┤████
         19 KiB ┤████
        ");
    }

    #[test]
    fn without_figures_there_is_no_chart() {
        assert_eq!(chart(&[None, None], &[], 40, true), "");
        assert_eq!(chart(&[], &[], 40, true), "");
    }

    #[test]
    fn the_locale_decides_whether_to_use_ascii() {
        let with = |value: &str| is_unicode(|name| (name == "LANG").then(|| value.to_owned()));
        assert!(with("en_US.UTF-8") && with("C.utf8") && with(""));
        assert!(!with("C") && !with("POSIX") && !with("de_DE.ISO-8859-1"));
    }

    proptest! {
        #[test]
        fn no_line_is_wider_than_the_terminal(
            figures in proptest::collection::vec(proptest::option::of(any::<i64>()), 0..400),
            width in 40..200_usize,
        ) {
            let marks: Vec<(usize, bool)> = (0..figures.len()).step_by(7).map(|at| (at, true)).collect();
            for line in chart(&figures, &marks, width, true).lines() {
                prop_assert!(line.chars().count() <= width, "{}", line);
            }
        }
    }
}
