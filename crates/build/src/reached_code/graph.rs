//! The functions and data of an executable, and what each refers to: the relocations that the linker kept
//! (`--emit-relocs`) between the parts that its map lists.

use std::collections::{HashMap, HashSet};

use anyhow::{Context, ensure};
use object::elf::{self, RelocationType};
use object::read::elf::{FileHeader as _, ProgramHeader as _, Rela as _, SectionHeader as _, Sym as _};
use object::{SectionIndex, SymbolIndex};

use super::exception_tables;
use super::indirect::{Elf, Indirect};
use super::instructions::{after_field, is_lea, may_loop};
use super::linker_map::Map;

/// A function, a static, or a constant.
#[derive(Debug)]
pub(super) struct Node<'m> {
    /// The section that an object file has for it alone. Its name is that of the function or static, if it has one.
    pub section: &'m str,
    /// The object file, as the map names it.
    pub file: &'m str,
    pub address: u64,
    pub size: u64,
    /// Its bytes, without those that the linker wrote for its references. Empty if all are zero at the start.
    pub bytes: Vec<u8>,
    pub references: Vec<Reference>,
}

impl<'m> Node<'m> {
    /// Returns the name of the toolchain's library that this is of, with its object file:
    /// `libstd-dbbb….rlib(std-….o)`. It has a hash of the compiler's version.
    pub fn of_toolchain(&self) -> Option<&'m str> {
        let (_, below) = self.file.rsplit_once("/lib/rustlib/")?;
        let (_, library) = below.split_once("/lib/")?;
        (!library.contains('/')).then_some(library)
    }

    /// Returns the kind of section that this is of, if the loader calls its functions: a section's name without the
    /// number that gives their order.
    pub fn called_by_loader(&self) -> Option<&'static str> {
        CALLED.into_iter().find(|name| {
            self.section.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        })
    }
}

/// A place in a function or in data that refers to another one.
#[derive(Debug)]
pub(super) struct Reference {
    /// Where it is in its node.
    pub offset: u64,
    pub kind: RelocationType,
    /// What it may refer to; more than one if the instruction is not known. Empty for what a library has.
    pub to: Vec<usize>,
    /// Tables that it may refer to in place of these: their first element is after the address, or their last one
    /// before it.
    pub near: Vec<usize>,
    /// Where in the first of `to`, or of `near` if that is empty.
    pub within: i64,
    /// The symbol, if it is in a library, or a place that the linker defines.
    pub symbol: String,
}

/// All functions and data of an executable.
#[derive(Debug)]
pub(super) struct Graph<'m> {
    pub nodes: Vec<Node<'m>>,
    /// Where an executable begins: its entry, what the loader calls, in this order, and what libraries can find by
    /// name, sorted.
    pub roots: Vec<usize>,
}

/// Nodes by their addresses.
#[derive(Default)]
struct Places(Vec<(u64, u64, usize)>);

impl Places {
    fn add(&mut self, address: u64, size: u64, node: usize) {
        self.0.push((address, address + size, node));
    }

    /// Returns the node at an address, or the one that ends there: loops have such addresses.
    fn at(&self, address: u64) -> Option<usize> {
        let (_, end, node) = *self.0[..self.0.partition_point(|(start, ..)| *start <= address)].last()?;
        (address <= end).then_some(node)
    }
}

/// How far before its start a loop may have the address of a table. That is one element.
const FARTHEST: u64 = 1 << 14;

/// The file of constants that the linker merged.
const MERGED: &str = "<internal>";

/// The sections of object files that only an unwinder reads.
const FRAMES: &str = ".eh_frame";

/// Sections that the linker makes, which only the loader and instructions with relocations read. A static may be in one
/// whose name begins alike.
const OF_LINKER: [&str; 18] = [
    ".dynamic",
    ".dynstr",
    ".dynsym",
    ".eh_frame",
    ".eh_frame_hdr",
    ".gnu.hash",
    ".gnu.version",
    ".gnu.version_d",
    ".gnu.version_r",
    ".got",
    ".got.plt",
    ".hash",
    ".interp",
    ".note.gnu.build-id",
    ".note.gnu.property",
    ".rela.dyn",
    ".rela.plt",
    ".relr.dyn",
];

/// Sections with functions that the loader calls.
const CALLED: [&str; 7] =
    [".init_array", ".fini_array", ".preinit_array", ".ctors", ".dtors", ".init", ".fini"];

impl<'m> Graph<'m> {
    /// Reads an executable for x86-64.
    ///
    /// # Errors
    ///
    /// It has no relocations, is not the file of this map, or refers to a place that the map does not list.
    pub fn read(executable: &[u8], map: &Map<'m>) -> anyhow::Result<Self> {
        let elf = Elf::parse(executable).context("the executable is no 64-bit ELF file")?;
        let endian = elf.endian();
        let header = elf.elf_header();
        ensure!(header.e_machine(endian) == elf::EM_X86_64, "it is only known for x86-64");
        check(&elf, map)?;
        let mut reader = Reader {
            elf: &elf,
            executable,
            nodes: Vec::new(),
            plain: Places::default(),
            local: Places::default(),
            exceptions: Places::default(),
            nothing: map.empty.iter().map(|address| (*address, *address)).collect(),
            assigned: &map.assigned,
            indirect: Indirect::read(&elf, executable)?,
        };
        reader.add_nodes(map)?;
        reader.add_references()?;
        reader.add_exception_tables()?;
        let mut roots: Vec<usize> = reader.plain.at(header.e_entry(endian)).into_iter().collect();
        let resolvers = reader.indirect.resolvers.iter().filter_map(|resolver| reader.plain.at(*resolver));
        let mut resolvers: Vec<usize> = resolvers.collect();
        resolvers.sort_unstable_by_key(|index| (reader.nodes[*index].section, *index));
        roots.extend(resolvers);
        // The map has them in the order in which the loader calls them.
        let is_called = |index: &usize| reader.nodes[*index].called_by_loader().is_some();
        roots.extend((0..reader.nodes.len()).filter(is_called));
        // The linker has these in the order of their first use.
        let dynamic = elf.elf_dynamic_symbol_table();
        let defined = dynamic.iter().filter(|symbol| symbol.st_shndx(endian) != elf::SHN_UNDEF);
        let mut named: Vec<(&[u8], usize)> = Vec::new();
        for symbol in defined {
            let name = symbol.name(endian, dynamic.strings())?;
            named.extend(reader.plain.at(symbol.st_value(endian)).map(|node| (name, node)));
        }
        named.sort_unstable();
        roots.extend(named.into_iter().map(|(_, node)| node));
        Ok(Self { nodes: reader.nodes, roots })
    }
}

/// Fails unless the map describes the executable.
fn check(elf: &Elf<'_>, map: &Map<'_>) -> anyhow::Result<()> {
    let endian = elf.endian();
    for section in
        elf.elf_section_table().iter().filter(|section| section.sh_flags(endian).contains(elf::SHF_ALLOC))
    {
        let name = elf.elf_section_table().section_name(endian, section)?;
        let place = (section.sh_addr(endian), section.sh_size(endian));
        let is_listed =
            map.sections.iter().any(|one| one.name.as_bytes() == name && (one.address, one.size) == place);
        ensure!(is_listed, "the linker's map is of another file than the executable");
    }
    Ok(())
}

struct Reader<'e, 'm> {
    elf: &'e Elf<'e>,
    executable: &'e [u8],
    nodes: Vec<Node<'m>>,
    plain: Places,
    /// Thread-locals, which have addresses of their own.
    local: Places,
    /// What functions drop or catch in a panic. No pointer in code is to one of these tables.
    exceptions: Places,
    /// From where to where is nothing that code reads: the file's header, empty parts, and what only the loader or an
    /// unwinder reads.
    nothing: Vec<(u64, u64)>,
    /// The symbols of a linker script.
    assigned: &'e HashSet<&'m str>,
    indirect: Indirect,
}

impl<'e, 'm> Reader<'e, 'm> {
    /// Returns the bytes at an address; `None` if they are not in the file.
    fn content(&self, address: u64, size: u64) -> Option<&'e [u8]> {
        let endian = self.elf.endian();
        let segments = self.elf.elf_program_headers().iter();
        segments.filter(|segment| segment.p_type(endian) == elf::PT_LOAD).find_map(|segment| {
            let offset = address.checked_sub(segment.p_vaddr(endian))?;
            let is_in_file = offset.checked_add(size)? <= segment.p_filesz(endian);
            let start = usize::try_from(segment.p_offset(endian) + offset).ok()?;
            self.executable.get(start..start + usize::try_from(size).ok()?).filter(|_| is_in_file)
        })
    }

    fn add_nodes(&mut self, map: &Map<'m>) -> anyhow::Result<()> {
        self.nothing.extend(map.sections.first().map(|first| (0, first.address)));
        for part in &map.parts {
            let is_skipped = if part.file == MERGED {
                OF_LINKER.contains(&part.name)
            } else {
                let rest = part.name.strip_prefix(FRAMES);
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '+']))
            };
            if is_skipped {
                self.nothing.push((part.address, part.address + part.size));
                continue;
            }
            let is_empty = [".bss", ".tbss"].iter().any(|name| part.name.starts_with(name));
            let is_local = [".tdata", ".tbss"].iter().any(|name| part.name.starts_with(name));
            for (address, size) in self.pieces(part.name, part.address, part.size)? {
                let bytes = if is_empty { Some(&[][..]) } else { self.content(address, size) };
                let places = if is_local {
                    &mut self.local
                } else if part.name.starts_with(exception_tables::SECTION) {
                    &mut self.exceptions
                } else {
                    &mut self.plain
                };
                places.add(address, size, self.nodes.len());
                self.nodes.push(Node {
                    section: part.name,
                    file: part.file,
                    address,
                    size,
                    // Without bytes in the file is what the loader fills with zeros.
                    bytes: bytes.unwrap_or_default().to_vec(),
                    references: Vec::new(),
                });
            }
        }
        self.plain.0.sort_unstable();
        self.local.0.sort_unstable();
        self.exceptions.0.sort_unstable();
        Ok(())
    }

    /// Returns the constants that the linker merged into a part, or the part.
    fn pieces(&self, name: &str, address: u64, size: u64) -> anyhow::Result<Vec<(u64, u64)>> {
        if let Some(width) = name
            .strip_prefix(".rodata.cst")
            .and_then(|width| width.parse::<u64>().ok())
            .filter(|width| *width > 0)
        {
            return Ok((0..size / width).map(|index| (address + index * width, width)).collect());
        }
        if !name.starts_with(".rodata.str1.") {
            return Ok(vec![(address, size)]);
        }
        let texts =
            self.content(address, size).context("the linker's map has texts that the executable has not")?;
        let mut start = address;
        Ok(memchr::memchr_iter(0, texts)
            .map(|end| {
                let next = address + end as u64 + 1;
                let piece = (start, next - start);
                start = next;
                piece
            })
            .collect())
    }

    fn add_references(&mut self) -> anyhow::Result<()> {
        let endian = self.elf.endian();
        let sections = self.elf.elf_section_table();
        let functions: HashMap<&'m str, usize> = self
            .nodes
            .iter()
            .enumerate()
            .filter_map(|(index, node)| {
                let name = node.section.strip_prefix(".text.")?;
                Some((name.strip_prefix("unlikely.").unwrap_or(name), index))
            })
            .collect();
        let mut is_kept = false;
        for section in sections.iter() {
            // The loader's own relocations are loaded.
            if section.sh_type(endian) != elf::SHT_RELA || section.sh_flags(endian).contains(elf::SHF_ALLOC) {
                continue;
            }
            let of = sections.section(SectionIndex(section.sh_info(endian) as usize))?;
            let flags = of.sh_flags(endian);
            let Some((relocations, _)) =
                section.rela(endian, self.executable)?.filter(|_| flags.contains(elf::SHF_ALLOC))
            else {
                continue;
            };
            is_kept = true;
            for relocation in relocations {
                let at = relocation.r_offset(endian);
                let places = if flags.contains(elf::SHF_TLS) { &self.local } else { &self.plain };
                // Between the parts are the descriptions of stack frames.
                let Some(own) = places.at(at).or_else(|| self.exceptions.at(at)) else { continue };
                let kind = relocation.r_type(endian, false);
                let symbol = SymbolIndex(relocation.r_sym(endian, false) as usize);
                let reference =
                    self.reference(own, at, kind, symbol, relocation.r_addend(endian), &functions)?;
                let node = &mut self.nodes[own];
                let start = usize::try_from(reference.offset)?;
                if let Some(field) = node.bytes.get_mut(start..start + width(kind)) {
                    field.fill(0);
                }
                node.references.push(reference);
            }
        }
        ensure!(is_kept, "the linker kept no relocations");
        // Only now the bytes do not depend on places.
        for node in self.nodes.iter_mut().filter(|node| !may_loop(&node.bytes)) {
            // The compiler may take the difference of an index into an address that is not relative.
            for reference in node.references.iter_mut().filter(|reference| is_relative(reference.kind)) {
                let is_near = reference.to.is_empty() && !reference.near.is_empty();
                ensure!(!is_near, "the linker's map has nothing where {} refers to", node.section);
                reference.near.clear();
            }
        }
        Ok(())
    }

    /// Lets functions refer to what they drop or catch in a panic.
    fn add_exception_tables(&mut self) -> anyhow::Result<()> {
        let endian = self.elf.endian();
        let sections = self.elf.elf_section_table();
        let Some((_, frames)) = sections.section_by_name(endian, b".eh_frame") else { return Ok(()) };
        let bytes = frames.data(endian, self.executable)?;
        for (function, table) in exception_tables::of_functions(bytes, frames.sh_addr(endian))? {
            let own = self.plain.at(function).with_context(|| {
                format!("the linker's map has no function at {function:#x}, which a panic may leave")
            })?;
            let to = self
                .exceptions
                .at(table)
                .with_context(|| format!("the linker's map has no table for panics at {table:#x}"))?;
            let reference = Reference {
                offset: function - self.nodes[own].address,
                kind: elf::R_X86_64_NONE,
                to: vec![to],
                near: Vec::new(),
                within: distance(table, self.nodes[to].address),
                symbol: String::new(),
            };
            self.nodes[own].references.push(reference);
        }
        Ok(())
    }

    /// Finds what a relocation refers to.
    fn reference(
        &self,
        own: usize,
        at: u64,
        kind: RelocationType,
        symbol: SymbolIndex,
        addend: i64,
        functions: &HashMap<&'m str, usize>,
    ) -> anyhow::Result<Reference> {
        let endian = self.elf.endian();
        let table = self.elf.elf_symbol_table();
        let node = &self.nodes[own];
        let offset = at - node.address;
        let symbol = table.symbol(symbol)?;
        let name = String::from_utf8_lossy(table.symbol_name(endian, symbol)?).into_owned();
        let value = self.indirect.resolver(symbol.st_value(endian));
        let found =
            |to: Vec<usize>, within, symbol| Reference { offset, kind, to, near: Vec::new(), within, symbol };
        if symbol.st_shndx(endian) == elf::SHN_UNDEF {
            return Ok(found(Vec::new(), addend, name));
        }
        if is_local(kind) {
            // The symbol of a thread-local has its place among them, and the addend is a field's place in it. That of
            // a section has its address.
            let (address, field) = if symbol.st_type() == elf::STT_TLS {
                (self.local_start() + value, addend)
            } else {
                (value.wrapping_add_signed(addend), 0)
            };
            let to = self
                .local
                .at(address)
                .with_context(|| format!("the linker's map has no thread-local at {address:#x}"))?;
            let within = distance(address, self.nodes[to].address).wrapping_add(field);
            return Ok(found(vec![to], within, String::new()));
        }
        if symbol.st_shndx(endian) == elf::SHN_ABS {
            // A number.
            return Ok(found(Vec::new(), value.cast_signed().wrapping_add(addend), name));
        }
        let section = self.elf.elf_section_table().section(SectionIndex(symbol.st_shndx(endian).0.into()))?;
        let section_name = self.elf.elf_section_table().section_name(endian, section)?;
        let size = section.sh_size(endian);
        if size == 0 {
            // An empty table, where anything else may begin.
            return Ok(found(Vec::new(), addend, String::from_utf8_lossy(section_name).into_owned()));
        }
        if symbol.st_type() != elf::STT_SECTION {
            let of_section = name.strip_prefix("__start_").or_else(|| name.strip_prefix("__stop_"));
            if of_section.is_some_and(|of| of.as_bytes() == section_name) || self.assigned.contains(&name[..])
            {
                // The code may go through all parts of the section.
                let start = section.sh_addr(endian);
                let is_part = |node: &Node<'_>| (start..start + size).contains(&node.address);
                let parts = self.nodes.iter().enumerate().filter(|(_, node)| is_part(node));
                return Ok(found(parts.map(|(index, _)| index).collect(), addend, name));
            }
            // A section may have several symbols.
            let Some(one) = self.plain.at(value) else {
                let is_nothing = self.nothing.iter().any(|(start, end)| (*start..=*end).contains(&value));
                ensure!(
                    is_nothing,
                    "the linker's map has nothing at {name}, to which {} refers",
                    node.section
                );
                return Ok(found(Vec::new(), addend, name));
            };
            let to = &self.nodes[one];
            ensure!(to.section != ".iplt", "nobody knows which function {name} is");
            let within = distance(value, to.address).wrapping_add(addend);
            return Ok(found(vec![one], within, String::new()));
        }
        let is_relative = is_relative(kind);
        let address = if is_relative {
            // What the linker wrote: of a constant that it merged, the relocation names another one.
            let start = usize::try_from(offset)?;
            let field =
                node.bytes.get(start..start + 4).context("a relocation has no place in the executable")?;
            at.wrapping_add_signed(i32::from_le_bytes(field.try_into()?).into())
        } else {
            value.wrapping_add_signed(addend)
        };
        let mut candidates = vec![address];
        if is_relative && node.section.starts_with(".text") {
            candidates = after_field(&node.bytes, usize::try_from(offset)?)
                .iter()
                .map(|more| address.wrapping_add(4 + more))
                .collect();
        } else if is_relative && !node.section.starts_with(exception_tables::SECTION) {
            // A table of distances. Each is from the start of the table; a function has its tables in one section.
            let function = node.section.strip_prefix(".rodata.").and_then(|name| functions.get(name));
            if let Some(function) = function {
                return Ok(found(
                    vec![*function],
                    distance(address, self.nodes[*function].address),
                    String::new(),
                ));
            }
            candidates = vec![address.wrapping_sub(offset)];
        }
        let mut to: Vec<usize> = candidates.iter().filter_map(|address| self.plain.at(*address)).collect();
        to.dedup();
        let is_pointer = !is_relative || is_lea(&node.bytes, usize::try_from(offset)?);
        let near = if is_pointer && node.section.starts_with(".text") {
            self.near(node, candidates[0])
        } else {
            Vec::new()
        };
        let first = *to.first().or(near.first()).with_context(|| {
            format!("the linker's map has nothing at {address:#x}, to which {} refers", node.section)
        })?;
        let within = distance(candidates[0], self.nodes[first].address);
        Ok(Reference { near, ..found(to, within, String::new()) })
    }

    /// Returns tables that a loop may go through with a pointer that begins at this address: from one element before
    /// the start, or backwards from the end. Only loops have such pointers, and code with absolute addresses. The
    /// relocation does not name the table, only its output section. But a table without a name is in the same object
    /// file as its function, and has more than the one element.
    fn near(&self, function: &Node<'_>, address: u64) -> Vec<usize> {
        // Its tables are those of its object file, which is the same for all builds with this toolchain.
        if function.of_toolchain().is_some() {
            return Vec::new();
        }
        let is_own = |node: usize| [function.file, MERGED].contains(&self.nodes[node].file);
        let places = &self.plain.0;
        let before = &places[..places.partition_point(|(start, ..)| *start < address)];
        let after = &places[places.partition_point(|(start, ..)| *start <= address)..];
        let backwards = before.last().filter(|(_, end, _)| *end == address);
        let forwards = after
            .iter()
            .take_while(|(start, ..)| start - address <= FARTHEST)
            .filter(|(start, end, _)| end - start > start - address);
        backwards.into_iter().chain(forwards).map(|(.., node)| *node).filter(|node| is_own(*node)).collect()
    }

    /// Returns the address of the first thread-local.
    fn local_start(&self) -> u64 {
        let endian = self.elf.endian();
        let segments = self.elf.elf_program_headers().iter();
        segments
            .filter(|segment| segment.p_type(endian) == elf::PT_TLS)
            .map(|segment| segment.p_vaddr(endian))
            .next()
            .unwrap_or_default()
    }
}

fn distance(address: u64, start: u64) -> i64 {
    address.wrapping_sub(start).cast_signed()
}

/// Whether a relocation has a distance from its own place.
fn is_relative(kind: RelocationType) -> bool {
    matches!(kind, elf::R_X86_64_PC32 | elf::R_X86_64_PLT32)
}

/// Whether a relocation is of a thread-local.
fn is_local(kind: RelocationType) -> bool {
    matches!(
        kind,
        elf::R_X86_64_TPOFF32
            | elf::R_X86_64_TPOFF64
            | elf::R_X86_64_DTPOFF32
            | elf::R_X86_64_DTPOFF64
            | elf::R_X86_64_GOTTPOFF
            | elf::R_X86_64_TLSGD
    )
}

/// Returns how many bytes a relocation fills.
fn width(kind: RelocationType) -> usize {
    match kind {
        elf::R_X86_64_64
        | elf::R_X86_64_PC64
        | elf::R_X86_64_TPOFF64
        | elf::R_X86_64_DTPOFF64
        | elf::R_X86_64_GOTOFF64 => 8,
        elf::R_X86_64_16 | elf::R_X86_64_PC16 => 2,
        elf::R_X86_64_8 | elf::R_X86_64_PC8 => 1,
        _ => 4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_in_a_node_or_at_its_end() {
        let mut places = Places::default();
        places.add(16, 4, 0);
        places.add(20, 8, 1);
        let found = [15, 16, 19, 20, 28, 29].map(|address| places.at(address));
        assert_eq!(found, [None, Some(0), Some(0), Some(1), Some(1), None]);
    }
}
