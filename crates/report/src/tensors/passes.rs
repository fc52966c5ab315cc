//! Forward passes, layer by layer: what each layer kept, freed inside, and reached at its peak.

use std::fmt::Write as _;
use std::io::{self, Write};

use indexmap::{IndexMap, IndexSet};

use crate::options::Options;
use crate::page::{Group, Page, Text, Tone};
use crate::tensors::report::{DeltaCell, LEAST_PATH, TensorReport};
use memprof_judge::results::layer_record::{LayerFigures, PassContent, Passes};
use memprof_support::counted::counted;
use memprof_support::labels;

/// Show at most this many different passes.
const MOST_PASSES: usize = 4;

/// Both sides' passes of one label that are compared.
type PassPair<'r> = [Option<(&'r PassContent, Passes)>; 2];

/// One column of figures.
#[derive(Clone, Copy)]
enum Figure {
    Kept,
    FreedInside,
    Peak,
}

impl Figure {
    const ALL: [Self; 3] = [Self::Kept, Self::FreedInside, Self::Peak];

    fn heading(self, memory: &str) -> String {
        let memory = labels::one_line(memory);
        match self {
            Self::Kept => format!("{memory}: kept"),
            Self::FreedInside => "freed inside".to_owned(),
            Self::Peak => "peak".to_owned(),
        }
    }

    fn in_layer(self, layer: &LayerFigures) -> Option<i128> {
        match self {
            Self::Kept => Some(layer.retained.into()),
            Self::FreedInside => layer.freed.map(i128::from),
            Self::Peak => Some(layer.peak.into()),
        }
    }
}

impl TensorReport<'_> {
    /// Whether no side had a forward pass.
    pub(crate) fn has_no_passes(&self) -> bool {
        self.sides.iter().flatten().all(|side| side.measurement.layers.is_empty())
    }

    /// Writes the forward passes of the runs that are shown. Equal passes are one table.
    pub(super) fn passes(&self, page: Page, options: &Options, out: &mut dyn Write) -> io::Result<()> {
        let pairs = self.pass_pairs();
        let shown = if options.all_rows() { pairs.len() } else { pairs.len().min(MOST_PASSES) };
        for pair in &pairs[..shown] {
            writeln!(out)?;
            page.line(&heading(pair), "", Tone::Heading, out)?;
            self.pass(page, pair, out)?;
        }
        if shown < pairs.len() {
            let more = counted(pairs.len() - shown, "other forward pass");
            page.line(&format!("… {more} not shown: --rows all"), " ", Tone::Quiet, out)?;
        }
        if !pairs.is_empty() {
            let line = "kept = what the layer itself added to live memory by the end of the pass, without the layers \
                        inside it, so the rows add up; peak = the highest point above the layer's beginning, \
                        with the layers inside";
            page.line(line, " ", Tone::Quiet, out)?;
        }
        Ok(())
    }

    /// Matches the passes of both sides by label; among those of one label, the first with the
    /// first.
    fn pass_pairs(&self) -> Vec<PassPair<'_>> {
        let mut pairs: IndexMap<(&str, usize), PassPair> = IndexMap::new();
        for (number, side) in self.sides.iter().enumerate() {
            let mut times: IndexMap<&str, usize> = IndexMap::new();
            for pass in side.iter().flat_map(|side| side.measurement.layers.passes()) {
                let times = times.entry(&*pass.0.label).or_default();
                pairs.entry((&pass.0.label, *times)).or_default()[number] = Some(pass);
                *times += 1;
            }
        }
        pairs.into_values().collect()
    }

    fn pass(&self, page: Page, pair: &PassPair, out: &mut dyn Write) -> io::Result<()> {
        let measured = || pair.iter().flatten().flat_map(|(content, _)| &content.layers);
        let layers = || measured().filter(|layer| self.shows_memory(&layer.memory));
        if measured().next().is_some() && layers().next().is_none() {
            return page.line("no layer has memory of --metrics", " ", Tone::Quiet, out);
        }
        if layers().next().is_none() {
            let line =
                "no measured memory changed in this pass; if a C library has it: --metrics malloc.live";
            return page.line(line, " ", Tone::Quiet, out);
        }
        let names: IndexSet<Option<&str>> = layers().map(|layer| layer.name.as_deref()).collect();
        let memories: IndexSet<&str> = layers().map(|layer| &*layer.memory).collect();
        let find = |side: usize, memory: &str, name: Option<&str>| {
            let (content, _) = pair[side]?;
            let is_it = |layer: &&LayerFigures| &*layer.memory == memory && layer.name.as_deref() == name;
            content.layers.iter().find(is_it)
        };
        let mut rows: Vec<Text> = names
            .iter()
            .map(|name| {
                let known = layers().filter(|layer| layer.name.as_deref() == *name);
                label(*name, &known.collect::<Vec<_>>())
            })
            .collect();
        rows.push(Text::new("= kept by the pass", Tone::Plain));
        let mut groups: Vec<Group> = Vec::new();
        for memory in memories {
            let is_shown = |figure: &Figure| {
                layers().any(|layer| &*layer.memory == memory && figure.in_layer(layer).is_some())
            };
            for figure in Figure::ALL.into_iter().filter(is_shown) {
                let sides = || 0..self.names.len();
                let of_layers = names.iter().map(|name| {
                    let of = |side| figure.in_layer(find(side, memory, *name)?);
                    (sides().map(of).collect(), DeltaCell::Difference)
                });
                let sum = |side: usize| {
                    let (content, _) = pair[side]?;
                    let of_memory = content.layers.iter().filter(|layer| &*layer.memory == memory);
                    matches!(figure, Figure::Kept)
                        .then(|| of_memory.filter_map(|layer| figure.in_layer(layer)).sum())
                };
                let sum = (sides().map(sum).collect(), DeltaCell::Difference);
                groups.push(self.group(figure.heading(memory), of_layers.chain([sum])));
            }
        }
        page.tables_with_long_labels(LEAST_PATH, "layer", &rows, groups, out)?;
        for (name, pass) in self.names.iter().zip(pair) {
            let elsewhere = pass.map_or(0, |(content, _)| content.elsewhere);
            if elsewhere > 0 {
                let calls = counted(usize::try_from(elsewhere).unwrap_or(usize::MAX), "call");
                let line = format!("{name}: {calls} of layers on other threads are in no row");
                page.line(&line, " ", Tone::Growth, out)?;
            }
        }
        Ok(())
    }
}

fn heading(pair: &PassPair) -> String {
    let mut heading = String::new();
    let mut counts = IndexSet::new();
    for (content, passes) in pair.iter().flatten() {
        heading = format!("layers of forward pass {}", labels::one_line(&content.label));
        if passes.first > 1 {
            _ = write!(heading, " #{}", passes.first);
        }
        counts.insert(passes.count);
    }
    let counts: Vec<String> = counts.iter().map(u64::to_string).collect();
    if counts != ["1"] {
        _ = write!(heading, ", the same in {} passes", counts.join(" and "));
    }
    heading
}

fn label(name: Option<&str>, layers: &[&LayerFigures]) -> Text {
    let depth = layers.iter().map(|layer| layer.depth).max().unwrap_or(0);
    let indent = "  ".repeat(usize::try_from(depth.min(8)).unwrap_or(0));
    let calls: IndexSet<u64> = layers.iter().map(|layer| layer.calls).collect();
    let calls: Vec<String> = calls.iter().map(u64::to_string).collect();
    let name = name.map_or("(outside the layers)".into(), labels::one_line);
    let times = if calls == ["1"] { String::new() } else { format!(" ×{}", calls.join(" and ")) };
    Text::new(format!("{indent}{name}{times}"), Tone::Plain)
}
