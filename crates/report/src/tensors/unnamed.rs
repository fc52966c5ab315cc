//! The live blocks that no tensor is named in: how many there are, their sizes, and, from a run with
//! call stacks, who allocated them.

use std::io::{self, Write};

use indexmap::IndexMap;

use crate::options::Options;
use crate::page::{Page, Text, Tone};
use crate::tensors::report::{DeltaCell, LEAST_PATH, TensorReport, narrow};
use crate::text;
use memprof_judge::compare::tensor_comparison::Moment;
use memprof_judge::compare::unnamed_blocks::{UnnamedBlocks, UnnamedSize, sizes_of};
use memprof_judge::results::live_sizes::LiveSizes;
use memprof_judge::results::tensor_record::TensorDevice;
use memprof_judge::why::explanations::{Explained, Recorded};
use memprof_judge::why::frame::Frame;
use memprof_judge::why::stacks::shown;
use memprof_plan::metric::Unit;
use memprof_plan::metric_family::family_of_point;
use memprof_support::counted::counted;

/// List at most this many sizes, and call sites of a size.
const MOST_SIZES: usize = 8;
const MOST_SITES: usize = 4;

/// A row of the table: what it is, and for each side the number of blocks and their bytes.
struct Row {
    label: Text,
    blocks: [Option<u64>; 2],
    bytes: [Option<i128>; 2],
}

impl TensorReport<'_> {
    /// Writes how much of the unattributed memory is in how many blocks, one line per device.
    pub(super) fn unnamed_in_short(
        &self,
        page: Page,
        moment: &Moment,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        for device in self.devices(moment) {
            let sides = self.unnamed(moment, &device);
            let of = sides.iter().zip(&self.names).filter_map(|(side, name)| {
                let side = side.as_ref().filter(|side| side.count > 0)?;
                let of = if self.names.len() > 1 { format!("{name} ") } else { String::new() };
                Some(format!("{of}{} ({})", counted(whole(side.count), "block"), bytes(side.bytes)))
            });
            let of: Vec<String> = of.collect();
            let least = sides.iter().flatten().map(|side| side.least).max().unwrap_or_default();
            if !of.is_empty() {
                let line = format!("{device}: without a name{}: {}", of_at_least(least), of.join(", "));
                page.line(&line, " ", Tone::Quiet, out)?;
            }
        }
        Ok(())
    }

    /// Writes the sizes of a device's unnamed blocks, with their call sites if they were recorded.
    pub(super) fn unnamed_sizes(
        &self,
        page: Page,
        moment: &Moment,
        device: &TensorDevice,
        options: &Options,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let sides = self.unnamed(moment, device);
        let each = sides.each_ref().map(Option::as_ref);
        let distinct = sizes_of(each);
        if distinct.is_empty() {
            return Ok(());
        }
        let most = if options.all_rows() { distinct.len() } else { MOST_SIZES };
        let recorded = self.recorded_sizes(moment, device, options);
        let mut rows = Vec::new();
        for &size in distinct.iter().take(most) {
            let found = each.map(|side| side.map(|side| found(side, size)));
            rows.push(Row {
                label: Text::new(format!("each {}", bytes(size)), Tone::Plain),
                blocks: found.map(|one| one.map(|one| one.count)),
                bytes: found.map(|one| one.map(|one| i128::from(one.bytes_in_all()))),
            });
            rows.extend(site_rows(&recorded, size));
        }
        rows.extend(rest(each, &distinct[most.min(distinct.len())..]));
        rows.extend(self.smaller(moment, device, each));
        self.table(page, device, &rows, out)?;
        self.about_unnamed(page, &sides, &recorded, out)
    }

    fn table(&self, page: Page, device: &TensorDevice, rows: &[Row], out: &mut dyn Write) -> io::Result<()> {
        let labels: Vec<Text> = rows.iter().map(|row| row.label.clone()).collect();
        let sides = self.names.len();
        let delta = if self.is_comparable(device) { DeltaCell::Difference } else { DeltaCell::Nothing };
        let blocks = rows
            .iter()
            .map(|row| (row.blocks[..sides].iter().map(|one| one.map(i128::from)).collect(), delta));
        let blocks = self.group_in(Unit::Count, "blocks".to_owned(), blocks);
        let bytes = rows.iter().map(|row| (row.bytes[..sides].to_vec(), delta));
        let bytes = self.group_in(Unit::Bytes, "bytes".to_owned(), bytes);
        writeln!(out)?;
        page.tables_with_long_labels(
            LEAST_PATH,
            &format!("{device}: blocks without a name"),
            &labels,
            vec![blocks, bytes],
            out,
        )
    }

    fn about_unnamed(
        &self,
        page: Page,
        sides: &[Option<UnnamedBlocks>; 2],
        recorded: &[Option<SizedSites<'_>>; 2],
        out: &mut dyn Write,
    ) -> io::Result<()> {
        for (side, name) in
            sides.iter().zip(&self.names).filter_map(|(side, name)| Some((side.as_ref()?, name)))
        {
            if side.without_block > 0 {
                let named = counted(whole(side.without_block), "named storage");
                let line =
                    format!("{name}: {named} of another size than any block, so blocks of theirs are here");
                page.line(&line, " ", Tone::Growth, out)?;
            }
            if side.is_incomplete {
                page.line(
                    &format!("{name}: there are more sizes than the run could count"),
                    " ",
                    Tone::Growth,
                    out,
                )?;
            }
        }
        let has_sites = recorded.iter().any(Option::is_some);
        let is_shared = |size: &UnnamedSize| size.of > size.count;
        if !has_sites {
            page.line("--why shows who allocated these blocks", " ", Tone::Quiet, out)?;
        } else if sides.iter().flatten().flat_map(|side| &side.sizes).any(is_shared) {
            page.line("call sites have all blocks of a size, also those with a name", " ", Tone::Quiet, out)?;
        }
        Ok(())
    }

    fn unnamed(&self, moment: &Moment, device: &TensorDevice) -> [Option<UnnamedBlocks>; 2] {
        [0, 1].map(|side| {
            let (side, place) = self.at(moment, side)?;
            side.unnamed_at(place, device)
        })
    }

    /// What is unattributed and in no listed block.
    fn smaller(
        &self,
        moment: &Moment,
        device: &TensorDevice,
        each: [Option<&UnnamedBlocks>; 2],
    ) -> Option<Row> {
        let least = each.iter().flatten().map(|side| side.least).max()?;
        let left = [0, 1].map(|number| {
            let (side, place) = self.at(moment, number)?;
            Some(side.figures_at(place, device).unattributed()? - i128::from(each[number]?.bytes))
        });
        let label = if least > 1 { format!("blocks below {}", bytes(least)) } else { "the rest".to_owned() };
        let is_something = left.iter().flatten().any(|left| *left != 0);
        is_something.then(|| Row { label: Text::new(label, Tone::Plain), blocks: [None; 2], bytes: left })
    }

    /// The sizes at a moment in the runs with call stacks.
    fn recorded_sizes<'b>(
        &self,
        moment: &Moment,
        device: &TensorDevice,
        options: &'b Options,
    ) -> [Option<SizedSites<'b>>; 2] {
        let explained = options.why.as_ref().and_then(|why| why.tests.iter().find(|test| self.is_of(test)));
        [0, 1].map(|number| {
            let (side, place) = self.at(moment, number)?;
            // What only one revision has is recorded as the candidate.
            let number = if self.names.len() == 1 { 1 } else { number };
            let run = explained?.recorded[number].as_ref()?;
            let live = side.allocator(device).ok()?.live;
            let checkpoint = &side.measurement.checkpoints()[place];
            let (label, occurrence) = (side.measurement.label(checkpoint), checkpoint.occurrence);
            let sizes = run.log.live_sizes_at(family_of_point(&live)?, label, occurrence)?;
            Some(SizedSites { run, sizes })
        })
    }

    fn is_of(&self, test: &Explained) -> bool {
        test.cell == *self.cell && test.candidate == self.candidate
    }
}

/// The live blocks of a run with call stacks.
struct SizedSites<'a> {
    run: &'a Recorded,
    sizes: &'a LiveSizes,
}

impl SizedSites<'_> {
    /// Returns the number of blocks of a size by the function that allocated them.
    fn of_size(&self, size: u64) -> IndexMap<(String, String), u64> {
        let mut by_function = IndexMap::new();
        for one in self.sizes.sizes.iter().filter(|one| one.bytes == size) {
            let stack = self.run.stacks.of_site(one.site);
            let named = shown(&stack).map(|frame| stack[frame]);
            let name = named.map_or_else(|| "not recorded".to_owned(), Frame::name);
            let location = named.and_then(Frame::location).unwrap_or_default();
            *by_function.entry((name, location)).or_insert(0) += one.count;
        }
        by_function
    }
}

/// The call sites of a size, those with most blocks first. Sides are matched by function.
fn site_rows(recorded: &[Option<SizedSites<'_>>; 2], size: u64) -> Vec<Row> {
    let mut sites: IndexMap<String, (String, [Option<u64>; 2])> = IndexMap::new();
    for (number, side) in recorded.iter().enumerate().rev() {
        for ((name, location), count) in side.iter().flat_map(|side| side.of_size(size)) {
            let (_, blocks) = sites.entry(name).or_insert((location, [None; 2]));
            *blocks[number].get_or_insert(0) += count;
        }
    }
    let mut sites: Vec<_> = sites.into_iter().collect();
    sites.sort_by_key(|(_, (_, blocks))| std::cmp::Reverse(blocks.iter().flatten().max().copied()));
    let row = |(name, (location, blocks)): (String, (String, [Option<u64>; 2]))| Row {
        label: Text::new(format!("  {}", format!("{name}  {location}").trim_end()), Tone::Quiet),
        blocks,
        bytes: blocks.map(|blocks| Some(i128::from(blocks?) * i128::from(size))),
    };
    sites.into_iter().take(MOST_SITES).map(row).collect()
}

/// The sizes that have no row.
fn rest(each: [Option<&UnnamedBlocks>; 2], left_out: &[u64]) -> Option<Row> {
    if left_out.is_empty() {
        return None;
    }
    let of = |side: &UnnamedBlocks| left_out.iter().map(|bytes| found(side, *bytes)).collect::<Vec<_>>();
    let found = each.map(|side| side.map(of));
    let blocks = |of: &Vec<UnnamedSize>| of.iter().map(|one| one.count).sum();
    let bytes = |of: &Vec<UnnamedSize>| of.iter().map(|one| i128::from(one.bytes_in_all())).sum();
    Some(Row {
        label: Text::new(counted(left_out.len(), "more size"), Tone::Plain),
        blocks: found.each_ref().map(|of| of.as_ref().map(blocks)),
        bytes: found.each_ref().map(|of| of.as_ref().map(bytes)),
    })
}

fn found(blocks: &UnnamedBlocks, bytes: u64) -> UnnamedSize {
    let nothing = UnnamedSize { bytes, count: 0, of: 0 };
    blocks.sizes.iter().find(|one| one.bytes == bytes).copied().unwrap_or(nothing)
}

fn of_at_least(least: u64) -> String {
    if least > 1 { format!(", of at least {}", bytes(least)) } else { String::new() }
}

fn bytes(bytes: u64) -> String {
    text::figure(narrow(bytes.into()), Unit::Bytes)
}

fn whole(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}
