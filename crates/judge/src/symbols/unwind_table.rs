//! The unwind table of an executable: for each address, how to find the caller's frame.
//! The tool makes it ahead of time, and the shim looks up each frame of a stack in it.
//!
//! The file is little endian:
//!
//! | at | size | content |
//! | --- | --- | --- |
//! | 0 | 8 | `MPUNWND1` |
//! | 8 | 4 | the number of rows |
//! | 12 | 4 | 0 |
//! | 16 | 8 | the lowest address covered, as in the executable file |
//! | 24 | 8 | the address after the highest one covered |
//! | 32 | 32 | the BLAKE3 hash of the executable's `.eh_frame` |
//! | 64 | 4 per row | addresses relative to the lowest, ascending, each once |
//! | then | 4 per row | the rule from each address up to the next |

use std::collections::BTreeSet;

use camino::Utf8Path;

pub use crate::symbols::frame_section::Reason;
use crate::symbols::frame_section::{FrameSection, RuleRange};
use crate::symbols::unwind_rule::Rule;
use memprof_support::whole_file;

const MAGIC: &[u8; 8] = b"MPUNWND1";
const HEADER: usize = 64;

/// The rules of an executable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnwindTable {
    lowest: u64,
    end: u64,
    frame_hash: [u8; 32],
    addresses: Vec<u32>,
    rules: Vec<Rule>,
}

/// Why bytes are not an unwind table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// The bytes begin with something else.
    #[error("it is not an unwind table of this version")]
    Format,
    /// There are more or fewer bytes than rows.
    #[error("it is incomplete")]
    Length,
    /// The addresses do not ascend from the lowest to the highest.
    #[error("its addresses are out of order")]
    Order,
}

/// Makes the table of an executable, or says why there can be none.
///
/// # Errors
///
/// The file cannot be opened.
pub fn make(executable: &Utf8Path) -> anyhow::Result<Result<UnwindTable, Reason>> {
    Ok(FrameSection::read(executable)?.and_then(|section| of_section(&section)))
}

/// Makes the table from the frame descriptions of an executable.
pub(super) fn of_section(section: &FrameSection) -> Result<UnwindTable, Reason> {
    of_ranges(section.rules()?, section.hash())
}

fn of_ranges(ranges: Vec<RuleRange>, frame_hash: [u8; 32]) -> Result<UnwindTable, Reason> {
    let ranges = separated(ranges);
    let (Some(first), Some(last)) = (ranges.first(), ranges.last()) else { return Err(Reason::NoFrames) };
    let (lowest, end) = (first.start, last.end);
    if u32::try_from(end - lowest).is_err() {
        return Err(Reason::TooLarge);
    }
    let mut table = UnwindTable { lowest, end, frame_hash, addresses: Vec::new(), rules: Vec::new() };
    let mut previous_end = lowest;
    for range in &ranges {
        if range.start > previous_end {
            table.add(previous_end, Rule::UNDESCRIBED)?;
        }
        table.add(range.start, range.rule)?;
        previous_end = range.end;
    }
    table.add(end, Rule::UNDESCRIBED)?;
    Ok(table)
}

/// Sorts ranges, and cuts them so that none overlap.
fn separated(mut ranges: Vec<RuleRange>) -> Vec<RuleRange> {
    ranges.sort_unstable_by_key(|range| (range.start, range.end));
    let mut separate = Vec::with_capacity(ranges.len());
    let mut rest = &ranges[..];
    while let Some(first) = rest.first() {
        let mut end = first.end;
        let mut count = 1;
        while let Some(next) = rest.get(count).filter(|next| next.start < end) {
            end = end.max(next.end);
            count += 1;
        }
        let (group, after) = rest.split_at(count);
        match group {
            [one] => separate.push(*one),
            several => separate_group(several, end, &mut separate),
        }
        rest = after;
    }
    separate
}

/// As many ranges as are compared if they overlap.
const MOST_OVERLAPPING: usize = 100;

/// Cuts ranges that overlap and end at `end`.
///
/// Where two rules differ, the unwinder decides: linkers and unwinders disagree about which counts.
fn separate_group(group: &[RuleRange], end: u64, separate: &mut Vec<RuleRange>) {
    if group.len() > MOST_OVERLAPPING {
        separate.push(RuleRange { start: group[0].start, end, rule: Rule::INEXPRESSIBLE });
        return;
    }
    let bounds: BTreeSet<u64> = group.iter().flat_map(|range| [range.start, range.end]).collect();
    for (&start, &end) in bounds.iter().zip(bounds.iter().skip(1)) {
        let covering = group.iter().filter(|range| range.start <= start && end <= range.end);
        let rule = covering
            .map(|range| range.rule)
            .reduce(|one, other| if one == other { one } else { Rule::INEXPRESSIBLE });
        separate.extend(rule.map(|rule| RuleRange { start, end, rule }));
    }
}

impl UnwindTable {
    /// Adds a rule that begins at an address above all others.
    fn add(&mut self, address: u64, rule: Rule) -> Result<(), Reason> {
        if self.rules.last() != Some(&rule) {
            self.addresses.push(u32::try_from(address - self.lowest).map_err(|_| Reason::TooLarge)?);
            self.rules.push(rule);
        }
        Ok(())
    }

    /// Returns the rule at an address of the executable file.
    pub fn rule_at(&self, address: u64) -> Rule {
        let relative = address.checked_sub(self.lowest).and_then(|relative| u32::try_from(relative).ok());
        let Some(relative) = relative.filter(|_| address < self.end) else { return Rule::UNDESCRIBED };
        let after = self.addresses.partition_point(|address| *address <= relative);
        self.rules[after - 1]
    }

    /// Returns the addresses where a rule begins, each with the rule.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = (u64, Rule)> {
        let rows = self.addresses.iter().zip(&self.rules);
        rows.map(|(address, rule)| (self.lowest + u64::from(*address), *rule))
    }

    /// Returns the addresses that the table covers: the first, and the one after the last.
    pub fn covered(&self) -> (u64, u64) {
        (self.lowest, self.end)
    }

    /// Returns the hash of the `.eh_frame` that the table was made from.
    pub(crate) fn frame_hash(&self) -> &[u8; 32] {
        &self.frame_hash
    }

    /// Writes the table's file. It is complete, or it does not exist.
    pub fn write(&self, path: &Utf8Path) -> anyhow::Result<()> {
        whole_file::write_whole(path, &self.to_bytes())
    }

    /// Returns the content of the table's file.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER + self.rules.len() * 8);
        bytes.extend(MAGIC);
        // There are as many different addresses at most.
        bytes.extend(u32::try_from(self.rules.len()).unwrap_or(u32::MAX).to_le_bytes());
        bytes.extend(0_u32.to_le_bytes());
        bytes.extend(self.lowest.to_le_bytes());
        bytes.extend(self.end.to_le_bytes());
        bytes.extend(self.frame_hash);
        bytes.extend(self.addresses.iter().flat_map(|address| address.to_le_bytes()));
        bytes.extend(self.rules.iter().flat_map(|rule| rule.bits().to_le_bytes()));
        bytes
    }

    /// Reads the content of a table's file, and checks it.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Damage> {
        let (header, rows) = bytes.split_at_checked(HEADER).ok_or(Damage::Length)?;
        if !header.starts_with(MAGIC) || header[12..16] != [0; 4] {
            return Err(Damage::Format);
        }
        let (numbers, rest) = rows.as_chunks::<4>();
        let mut numbers: Vec<u32> = numbers.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect();
        let count = usize::try_from(number(header, 8) & 0xFFFF_FFFF).map_err(|_| Damage::Length)?;
        if !rest.is_empty() || Some(numbers.len()) != count.checked_mul(2) || count == 0 {
            return Err(Damage::Length);
        }
        let rules = numbers.split_off(count).into_iter().map(Rule::from_bits).collect();
        let (lowest, end) = (number(header, 16), number(header, 24));
        let span = end.checked_sub(lowest).ok_or(Damage::Order)?;
        let is_ascending = numbers.is_sorted_by(|one, next| one < next);
        let ends = (numbers.first(), numbers.last().map(|last| u64::from(*last)));
        if !is_ascending || ends != (Some(&0), Some(span)) {
            return Err(Damage::Order);
        }
        let mut frame_hash = [0; 32];
        frame_hash.copy_from_slice(&header[32..]);
        Ok(Self { lowest, end, frame_hash, addresses: numbers, rules })
    }
}

/// Returns 8 bytes of the header as a number.
fn number(header: &[u8], at: usize) -> u64 {
    header[at..at + 8].iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use camino::Utf8PathBuf;

    use super::*;
    use crate::symbols::unwind_rule::Base;

    const ONE: Rule = Rule::from_bits(1 << 1);
    const TWO: Rule = Rule::from_bits(2 << 1);

    fn table(ranges: &[(u64, u64, Rule)]) -> Result<UnwindTable, Reason> {
        let ranges = ranges.iter().map(|&(start, end, rule)| RuleRange { start, end, rule });
        of_ranges(ranges.collect(), [7; 32])
    }

    fn rows(ranges: &[(u64, u64, Rule)]) -> Vec<(u64, Rule)> {
        table(ranges).unwrap().rows().collect()
    }

    #[test]
    fn equal_neighbours_are_one_row_and_gaps_are_rows() {
        let ranges = [(30, 40, TWO), (10, 20, ONE), (20, 25, ONE), (50, 60, TWO)];
        let gap = Rule::UNDESCRIBED;
        assert_eq!(rows(&ranges), [(10, ONE), (25, gap), (30, TWO), (40, gap), (50, TWO), (60, gap)]);
    }

    #[test]
    fn where_descriptions_disagree_the_unwinder_decides() {
        let (gap, unclear) = (Rule::UNDESCRIBED, Rule::INEXPRESSIBLE);
        assert_eq!(rows(&[(10, 20, ONE), (10, 20, ONE)]), [(10, ONE), (20, gap)]);
        assert_eq!(rows(&[(10, 20, ONE), (15, 30, ONE)]), [(10, ONE), (30, gap)]);
        assert_eq!(rows(&[(10, 20, ONE), (15, 30, TWO)]), [(10, ONE), (15, unclear), (20, TWO), (30, gap)]);
        let around = [(10, 40, ONE), (20, 25, TWO), (30, 35, ONE)];
        assert_eq!(rows(&around), [(10, ONE), (20, unclear), (25, ONE), (40, gap)]);
        let many: Vec<_> = (0..200).map(|start| (start, 300, ONE)).collect();
        assert_eq!(rows(&many), [(0, unclear), (300, gap)]);
    }

    #[test]
    fn code_of_more_than_4_gib_has_no_table() {
        let most = u64::from(u32::MAX);
        assert_eq!(table(&[(1, 2, ONE), (most, most + 1, TWO)]).unwrap().rule_at(most), TWO);
        assert_eq!(table(&[(1, 2, ONE), (most, most + 2, TWO)]), Err(Reason::TooLarge));
        assert_eq!(table(&[]), Err(Reason::NoFrames));
    }

    #[test]
    fn the_file_has_the_layout_that_the_shim_reads() {
        let bytes = table(&[(0x1000, 0x1010, ONE)]).unwrap().to_bytes();
        let mut expected = b"MPUNWND1\x02\0\0\0\0\0\0\0".to_vec();
        expected.extend(0x1000_u64.to_le_bytes());
        expected.extend(0x1010_u64.to_le_bytes());
        expected.extend([7; 32]);
        expected.extend([0_u32, 0x10, 2, 0xFFFF_FFFF].iter().flat_map(|number| number.to_le_bytes()));
        assert_eq!(bytes, expected);
        let read = UnwindTable::from_bytes(&bytes).unwrap();
        assert_eq!((read.covered(), read.frame_hash()), ((0x1000, 0x1010), &[7; 32]));
        assert_eq!((read.rule_at(0x100F), read.rule_at(0x1010)), (ONE, Rule::UNDESCRIBED));
    }

    #[test]
    fn damaged_files_are_found() {
        let bytes = table(&[(0x1000, 0x1010, ONE), (0x1010, 0x1020, TWO)]).unwrap().to_bytes();
        let read = |change: &dyn Fn(&mut Vec<u8>)| {
            let mut bytes = bytes.clone();
            change(&mut bytes);
            UnwindTable::from_bytes(&bytes).map(|_| ())
        };
        assert_eq!(read(&|_| {}), Ok(()));
        for length in 0..bytes.len() {
            assert_eq!(read(&|bytes| bytes.truncate(length)), Err(Damage::Length), "{length}");
        }
        assert_eq!(read(&|bytes| bytes.push(0)), Err(Damage::Length));
        assert_eq!(read(&|bytes| bytes[7] = b'2'), Err(Damage::Format));
        assert_eq!(read(&|bytes| bytes[8] = 0), Err(Damage::Length));
        // The lowest address, the highest, and the rows in the wrong order.
        for at in [16, 24, 64, 68] {
            assert_eq!(read(&|bytes| bytes[at] = 0x30), Err(Damage::Order), "{at}");
        }
    }

    #[test]
    fn the_table_of_this_program_knows_its_functions() {
        if !cfg!(all(target_arch = "x86_64", target_os = "linux")) {
            return;
        }
        let own = Utf8PathBuf::from_path_buf(std::env::current_exe().unwrap()).unwrap();
        let table = make(&own).unwrap().unwrap();
        assert_eq!(UnwindTable::from_bytes(&table.to_bytes()).as_ref(), Ok(&table));
        // At its first instruction, a function has pushed nothing.
        let pushed_nothing = Rule::caller(Base::Rsp, 8, None);
        assert!(table.rows().filter(|(_, rule)| *rule == pushed_nothing).count() > 1_000);
        assert!(table.rows().any(|(_, rule)| rule == Rule::OUTERMOST), "_start has no caller");
    }
}
