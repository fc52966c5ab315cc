//! Indirect functions (`STT_GNU_IFUNC`): the loader calls a function that chooses the one to use. The symbol of an
//! indirect function whose address is taken leads to a jump that the linker made (`.iplt`).

use std::collections::HashMap;

use object::read::elf::{ElfFile64, Rela as _, SectionHeader as _};
use object::{Endianness, elf};

/// An executable for 64 bits.
pub(super) type Elf<'e> = ElfFile64<'e, Endianness>;

/// The size of a jump.
const SLOT: usize = 16;

/// The indirect functions of an executable.
pub(super) struct Indirect {
    /// The functions that choose, which the loader calls in each process.
    pub resolvers: Vec<u64>,
    /// The addresses of the jumps, each with that of the function that chooses.
    jumps: HashMap<u64, u64>,
}

impl Indirect {
    pub fn read(elf: &Elf<'_>, executable: &[u8]) -> anyhow::Result<Self> {
        let endian = elf.endian();
        let sections = elf.elf_section_table();
        let mut chosen_at = HashMap::new();
        for section in sections.iter().filter(|section| section.sh_flags(endian).contains(elf::SHF_ALLOC)) {
            for relocation in section.rela(endian, executable)?.into_iter().flat_map(|(all, _)| all) {
                if relocation.r_type(endian, false) == elf::R_X86_64_IRELATIVE {
                    let resolver = relocation.r_addend(endian).cast_unsigned();
                    chosen_at.insert(relocation.r_offset(endian), resolver);
                }
            }
        }
        let mut jumps = HashMap::new();
        for section in sections.iter() {
            if sections.section_name(endian, section)? == b".iplt" {
                let start = section.sh_addr(endian);
                let slots = section.data(endian, executable)?.chunks(SLOT).zip((start..).step_by(SLOT));
                jumps.extend(
                    slots.filter_map(|(code, at)| {
                        Some((at, *chosen_at.get(&at.wrapping_add(target(code)?))?))
                    }),
                );
            }
        }
        Ok(Self { resolvers: chosen_at.into_values().collect(), jumps })
    }

    /// Returns the function that chooses if there is a jump of an indirect function at the address, or the address.
    pub fn resolver(&self, address: u64) -> u64 {
        self.jumps.get(&address).copied().unwrap_or(address)
    }
}

/// Returns how far after the start of a jump (`jmp [rip + distance]`) the address is from which it takes its target.
fn target(code: &[u8]) -> Option<u64> {
    let jump = code.strip_prefix(&[0xf3, 0x0f, 0x1e, 0xfa]).unwrap_or(code);
    let distance = jump.strip_prefix(&[0xff, 0x25])?.first_chunk()?;
    let end = (code.len() - jump.len() + 6) as u64;
    Some(end.wrapping_add_signed(i32::from_le_bytes(*distance).into()))
}
