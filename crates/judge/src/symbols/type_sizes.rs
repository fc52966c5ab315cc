//! Sizes of types, from the debug information of the code that uses them.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context;
use camino::Utf8Path;
use gimli::{AttributeValue, DwarfSections, EndianSlice, LittleEndian, constants};
use object::{Object, ObjectSection, ReadCache};

use crate::symbols::debug_file;
use memprof_support::regular_file::followed;

/// A slice of a section.
type Slice<'a> = EndianSlice<'a, LittleEndian>;

/// Returns the sizes of types, by their paths: `app::Token`. Each address of the file comes with the types
/// that its code uses; only the compiler's units with these addresses are read. A type whose size is not
/// there is left out; one with two sizes has `None`.
///
/// # Errors
/// The file or its debug information cannot be read.
pub fn sizes(
    path: &Utf8Path,
    wanted: &BTreeMap<u64, BTreeSet<String>>,
) -> anyhow::Result<BTreeMap<String, Option<u64>>> {
    if wanted.is_empty() {
        return Ok(BTreeMap::new());
    }
    let cache = ReadCache::new(followed::open(debug_file::find(path))?);
    let file = object::File::parse(&cache).with_context(|| format!("cannot read {path}"))?;
    if !file.is_little_endian() {
        return Ok(BTreeMap::new());
    }
    let section = |id: gimli::SectionId| -> Result<Cow<'_, [u8]>, object::Error> {
        file.section_by_name(id.name())
            .map_or(Ok(Cow::Borrowed(&[][..])), |section| section.uncompressed_data())
    };
    let sections = DwarfSections::load(section)?;
    let dwarf = sections.borrow(|section| EndianSlice::new(section, LittleEndian));
    let mut found: BTreeMap<String, BTreeSet<u64>> = BTreeMap::new();
    let mut headers = dwarf.units();
    while let Some(header) = headers.next()? {
        let unit = dwarf.unit(header)?;
        let mut types: BTreeSet<&str> = BTreeSet::new();
        let mut ranges = dwarf.unit_ranges(&unit)?;
        while let Some(range) = ranges.next()? {
            let used = wanted.range(range.begin..range.end.max(range.begin));
            types.extend(used.flat_map(|(_, types)| types.iter().map(String::as_str)));
        }
        // Another version of the crate may have a type of the same path in another unit.
        types.retain(|of_unit| found.get(*of_unit).is_none_or(|sizes| sizes.len() < 2));
        if !types.is_empty() {
            read_unit(&dwarf, &unit, &types, &mut found)?;
        }
    }
    let one = |(path, sizes): (String, BTreeSet<u64>)| {
        let first = sizes.first().copied()?;
        Some((path, Some(first).filter(|_| sizes.len() == 1)))
    };
    Ok(found.into_iter().filter_map(one).collect())
}

/// Returns the types of which debug information names a `Vec` and a `VecDeque`: the block of one may become that of
/// the other.
///
/// # Errors
/// The file or its debug information cannot be read.
pub fn in_vec_and_deque(path: &Utf8Path) -> anyhow::Result<BTreeSet<String>> {
    let cache = ReadCache::new(followed::open(debug_file::find(path))?);
    let file = object::File::parse(&cache).with_context(|| format!("cannot read {path}"))?;
    let Some(section) = file.section_by_name(".debug_str") else { return Ok(BTreeSet::new()) };
    let (mut vectors, mut deques) = (BTreeSet::new(), BTreeSet::new());
    for text in section.uncompressed_data()?.split(|byte| *byte == 0) {
        for (start, found) in [("Vec<", &mut vectors), ("VecDeque<", &mut deques)] {
            let Some(rest) = text.strip_prefix(start.as_bytes()) else { continue };
            let rest = String::from_utf8_lossy(rest);
            if let Some(element) = rest.strip_suffix(", alloc::alloc::Global>") {
                found.insert(short(element));
            }
        }
    }
    Ok(vectors.intersection(&deques).cloned().collect())
}

/// Returns a type without the default allocator.
fn short(path: &str) -> String {
    path.replace(", alloc::alloc::Global>", ">")
}

/// Adds the sizes of these types in a unit.
fn read_unit(
    dwarf: &gimli::Dwarf<Slice<'_>>,
    unit: &gimli::Unit<Slice<'_>>,
    types: &BTreeSet<&str>,
    found: &mut BTreeMap<String, BTreeSet<u64>>,
) -> anyhow::Result<()> {
    // The namespaces around the entry, each with its depth.
    let mut modules: Vec<(isize, String)> = Vec::new();
    let mut entries = unit.entries();
    while let Some(entry) = entries.next_dfs()? {
        let depth = entry.depth();
        while modules.last().is_some_and(|(of, _)| *of >= depth) {
            modules.pop();
        }
        let is_module = entry.tag() == constants::DW_TAG_namespace;
        let is_type = matches!(
            entry.tag(),
            constants::DW_TAG_structure_type
                | constants::DW_TAG_union_type
                | constants::DW_TAG_enumeration_type
                | constants::DW_TAG_base_type
                | constants::DW_TAG_pointer_type
        );
        // Types inside of types are variants.
        let is_outer = modules.last().map_or(0, |(of, _)| *of) + 1 == depth;
        if !(is_module || is_type && is_outer) {
            continue;
        }
        let Some(name) = entry.attr_value(constants::DW_AT_name) else { continue };
        let name = dwarf.attr_string(unit, name)?;
        let name = name.to_string_lossy();
        if is_module {
            modules.push((depth, name.into_owned()));
            continue;
        }
        let size = match entry.attr_value(constants::DW_AT_byte_size) {
            Some(AttributeValue::Udata(size)) => size,
            Some(value) => value.udata_value().unwrap_or(0),
            None => continue,
        };
        let path = modules.iter().map(|(_, module)| module.as_str()).chain([&*name]).collect::<Vec<_>>();
        let path = short(&path.join("::"));
        if types.contains(path.as_str()) {
            found.entry(path).or_default().insert(size);
        }
    }
    Ok(())
}
