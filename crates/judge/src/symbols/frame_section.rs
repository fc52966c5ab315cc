//! The section `.eh_frame` of an executable, which describes the stack frames of its functions.
//! Here it becomes rules for ranges of addresses. x86-64 ELF only.

use std::ops::Range;

use anyhow::Context;
use camino::Utf8Path;
use gimli::{BaseAddresses, CfaRule, CieOrFde, EhFrame, EndianSlice, LittleEndian};
use gimli::{RegisterRule, UnwindContext, UnwindSection, UnwindTableRow, X86_64};
use object::elf::{PF_X, PT_LOAD};
use object::read::elf::{ElfFile64, ProgramHeader};
use object::{FileKind, Object, ObjectSection, ReadCache};

use crate::symbols::unwind_rule::{Base, Rule};
use memprof_support::regular_file::followed;

/// Why there can be no unwind table of a file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// Has another format.
    #[error("the file is not an ELF executable")]
    NotElf,
    /// Runs on another processor.
    #[error("call stacks are read with a table on x86-64 only, and the executable is for {0}")]
    Architecture(String),
    /// Describes no frames.
    #[error("the executable has no frame descriptions (section .eh_frame)")]
    NoFrames,
    /// The parts contradict each other.
    #[error("the executable's frame descriptions cannot be read: {0}")]
    Damaged(String),
    /// Addresses relative to its beginning do not fit in 32 bits.
    #[error("the executable's code spans more than 4 GiB")]
    TooLarge,
}

/// A range of addresses with one rule. It is never empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RuleRange {
    /// The first address, as in the file.
    pub start: u64,
    /// The address after the last.
    pub end: u64,
    pub rule: Rule,
}

/// The bytes of `.eh_frame`, and what is needed to read them.
#[derive(Debug)]
pub(crate) struct FrameSection {
    bytes: Vec<u8>,
    bases: BaseAddresses,
    /// The executable segments.
    code: Vec<Range<u64>>,
}

impl FrameSection {
    /// Reads the section of a file, and no other part of it.
    ///
    /// # Errors
    ///
    /// The file cannot be opened.
    pub fn read(path: &Utf8Path) -> anyhow::Result<Result<Self, Reason>> {
        let file = followed::open(path).with_context(|| format!("cannot read {path}"))?;
        let cache = ReadCache::new(file);
        Ok(match FileKind::parse(&cache) {
            Ok(FileKind::Elf64) => Self::of_elf(&cache),
            Ok(FileKind::Elf32) => Err(Reason::Architecture("a 32-bit processor".to_owned())),
            Ok(_) | Err(_) => Err(Reason::NotElf),
        })
    }

    fn of_elf(cache: &ReadCache<std::fs::File>) -> Result<Self, Reason> {
        let damaged = |error: object::read::Error| Reason::Damaged(error.to_string());
        // The machine comes first: a file with the other byte order is not damaged.
        let any = object::File::parse(cache).map_err(damaged)?;
        if any.architecture() != object::Architecture::X86_64 {
            return Err(Reason::Architecture(format!("{:?}", any.architecture())));
        }
        let elf = ElfFile64::<object::LittleEndian, _>::parse(cache).map_err(damaged)?;
        let section = elf.section_by_name(".eh_frame").ok_or(Reason::NoFrames)?;
        let bytes = section.data().map_err(damaged)?.to_vec();
        if bytes.is_empty() {
            return Err(Reason::NoFrames);
        }
        let mut bases = BaseAddresses::default().set_eh_frame(section.address());
        if let Some(text) = elf.section_by_name(".text") {
            bases = bases.set_text(text.address());
        }
        if let Some(got) = elf.section_by_name(".got") {
            bases = bases.set_got(got.address());
        }
        let endian = object::LittleEndian;
        let segments = elf
            .elf_program_headers()
            .iter()
            .filter(|segment| segment.p_type(endian) == PT_LOAD && segment.p_flags(endian) & PF_X == PF_X);
        let code = segments.map(|segment| {
            let start = segment.p_vaddr(endian);
            start..start.saturating_add(segment.p_memsz(endian))
        });
        let code = code.collect();
        Ok(Self { bytes, bases, code })
    }

    /// Returns the BLAKE3 hash of the section's bytes.
    pub fn hash(&self) -> [u8; 32] {
        *blake3::hash(&self.bytes).as_bytes()
    }

    /// Returns the rules of all functions, in the order of the section. Ranges may overlap.
    pub fn rules(&self) -> Result<Vec<RuleRange>, Reason> {
        self.read_rules().map_err(|error| Reason::Damaged(error.to_string()))
    }

    fn read_rules(&self) -> gimli::Result<Vec<RuleRange>> {
        let mut section = EhFrame::new(&self.bytes, LittleEndian);
        section.set_address_size(8);
        let mut context = UnwindContext::new();
        let mut ranges = Vec::new();
        let mut entries = section.entries(&self.bases);
        while let Some(entry) = entries.next()? {
            let CieOrFde::Fde(partial) = entry else { continue };
            let function = partial.parse(EhFrame::cie_from_offset)?;
            let (start, end) = (function.initial_address(), function.end_address());
            // Linkers leave descriptions of functions that they dropped, at address 0.
            if start >= end || !self.code.iter().any(|code| code.start <= start && end <= code.end) {
                continue;
            }
            let before = ranges.len();
            if self.add_function(&section, &function, &mut context, &mut ranges).is_err() {
                ranges.truncate(before);
                ranges.push(RuleRange { start, end, rule: Rule::INEXPRESSIBLE });
            }
        }
        Ok(ranges)
    }

    fn add_function<'bytes>(
        &self,
        section: &EhFrame<EndianSlice<'bytes, LittleEndian>>,
        function: &gimli::FrameDescriptionEntry<EndianSlice<'bytes, LittleEndian>>,
        context: &mut UnwindContext<usize>,
        ranges: &mut Vec<RuleRange>,
    ) -> gimli::Result<()> {
        // A signal handler returns to any instruction, not behind a call. The unwinder knows that.
        let is_expressible =
            !function.is_signal_trampoline() && function.cie().return_address_register() == X86_64::RA;
        let (mut at, end) = (function.initial_address(), function.end_address());
        let mut rows = function.rows(section, &self.bases, context)?;
        while let Some(row) = rows.next_row()? {
            let row_end = row.end_address().min(end);
            if row_end > at {
                let rule = if is_expressible { rule(row) } else { Rule::INEXPRESSIBLE };
                ranges.push(RuleRange { start: at, end: row_end, rule });
                at = row_end;
            }
        }
        Ok(())
    }
}

/// Returns the rule for a row of a function's description.
fn rule(row: &UnwindTableRow<usize>) -> Rule {
    match row.register(X86_64::RA) {
        Some(RegisterRule::Offset(-8)) => {}
        Some(RegisterRule::Undefined) => return Rule::OUTERMOST,
        _ => return Rule::INEXPRESSIBLE,
    }
    // The caller's `rsp` is the CFA unless the row says otherwise.
    if !matches!(row.register(X86_64::RSP), None | Some(RegisterRule::ValOffset(0))) {
        return Rule::INEXPRESSIBLE;
    }
    let saved_rbp = match row.register(X86_64::RBP) {
        None | Some(RegisterRule::Undefined | RegisterRule::SameValue) => None,
        Some(RegisterRule::Offset(offset)) => Some(offset),
        Some(_) => return Rule::INEXPRESSIBLE,
    };
    match *row.cfa() {
        CfaRule::RegisterAndOffset { register: X86_64::RSP, offset } => {
            Rule::caller(Base::Rsp, offset, saved_rbp)
        }
        CfaRule::RegisterAndOffset { register: X86_64::RBP, offset } => {
            Rule::caller(Base::Rbp, offset, saved_rbp)
        }
        CfaRule::RegisterAndOffset { .. } | CfaRule::Expression(_) => Rule::INEXPRESSIBLE,
    }
}
