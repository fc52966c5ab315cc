//! The map that lld writes with `-Map`: the sections of object files that an executable is made of.

use std::collections::HashSet;

use anyhow::{Context, ensure};

/// The words of lld's first line.
const HEADER: [&str; 7] = ["VMA", "LMA", "Size", "Align", "Out", "In", "Symbol"];

/// A section of the executable, or of an object file in it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Part<'m> {
    pub address: u64,
    pub size: u64,
    pub name: &'m str,
    /// The object file. Empty for a section of the executable.
    pub file: &'m str,
}

/// What a map says.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Map<'m> {
    /// The sections of the executable.
    pub sections: Vec<Part<'m>>,
    /// The sections of object files that are loaded, without empty ones. Constants that the linker merged are one part.
    pub parts: Vec<Part<'m>>,
    /// The addresses of empty sections that are loaded, of the executable and of object files.
    pub empty: Vec<u64>,
    /// The symbols that a linker script defines.
    pub assigned: HashSet<&'m str>,
}

/// Reads a map.
///
/// # Errors
///
/// It is not one of lld.
pub(super) fn parse(text: &str) -> anyhow::Result<Map<'_>> {
    let mut lines = text.lines();
    let header = lines.next().unwrap_or_default();
    ensure!(header.split_whitespace().eq(HEADER), "the linker is not lld, the only one whose map is read");
    let mut map = Map::default();
    let mut is_loaded = false;
    for line in lines {
        let (address, rest) = number(line, 16)?;
        let (_, rest) = number(rest, 16)?;
        let (size, rest) = number(rest, 16)?;
        let (_, rest) = number(rest, 10)?;
        // A column is 8 wide: first sections of the executable, then those of object files, then symbols.
        let name = rest.trim_start_matches(' ');
        let part = |(file, name)| Part { address, size, name, file };
        let column = rest.len() - name.len();
        let own = name.rsplit_once(":(").and_then(|(file, section)| Some((file, section.strip_suffix(')')?)));
        if [1, 9].contains(&column) && own.is_none() && name.contains('=') {
            map.assigned.insert(assigned(name));
            continue;
        }
        if column == 1 {
            is_loaded = address > 0;
        }
        if [1, 9].contains(&column) && size == 0 && is_loaded {
            map.empty.push(address);
        }
        match column {
            1 => map.sections.push(part(("", name))),
            // Without a file are numbers of a linker script: `BYTE(40)`.
            9 if size > 0 && is_loaded => map.parts.push(part(own.unwrap_or(("", name)))),
            _ => {}
        }
    }
    Ok(map)
}

/// Returns the symbol of an assignment of a linker script: `start = .` or `PROVIDE(start = .)`.
fn assigned(text: &str) -> &str {
    let left = text.split('=').next().unwrap_or_default();
    let name = left.rsplit('(').next().unwrap_or_default();
    name.trim_end_matches([' ', '+', '-', '*', '/', '&', '|', '<', '>']).trim_matches([' ', '"'])
}

/// Returns the number at the start of a line, and what follows.
fn number(text: &str, radix: u32) -> anyhow::Result<(u64, &str)> {
    let text = text.trim_start_matches(' ');
    let (word, rest) = text.split_at(text.find(' ').unwrap_or(text.len()));
    let number =
        u64::from_str_radix(word, radix).with_context(|| format!("the linker's map has {text:?}"))?;
    Ok((number, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAP: &str = "\
             VMA              LMA     Size Align Out     In      Symbol
           21ad0            21ad0     e474    16 .rodata
           21ad0            21ad0      218     8         <internal>:(.rodata.cst8)
           258a1            258a1        e     1         /t/app-1.rcgu.o:(.rodata..Lanon.71.3)
           258af            258af        0     1         /t/app-1.rcgu.o:(.rodata..Lanon.71.4)
           40000            40000       10    16 .text
           40000            40000       10    16         /t/libleaf.rlib(leaf-1.rcgu.o):(.text._ZN4leaf3one17h1E)
           40000            40000       10     1                 leaf::one::h1
           50000            50000        0     1         foo = .
           50000            50000        0     1         PROVIDE(\"bar\" = .)
           50000            50000        1     1         BYTE ( 40 )
           50008            50008        0     1 top = 77
           50010            50010        0     8 .tm_clone_table
               0                0       20     8 .rela.text
              10               10       10     8         /t/app-1.rcgu.o:(.rela.text.one)
";

    #[test]
    fn sections_and_their_parts_have_places() {
        let map = parse(MAP).unwrap();
        let part = |address, size, name, file| Part { address, size, name, file };
        let sections = [
            part(0x21ad0, 0xe474, ".rodata", ""),
            part(0x40000, 0x10, ".text", ""),
            part(0x50010, 0, ".tm_clone_table", ""),
            part(0, 0x20, ".rela.text", ""),
        ];
        assert_eq!(map.sections, sections);
        let parts = [
            part(0x21ad0, 0x218, ".rodata.cst8", "<internal>"),
            part(0x258a1, 0xe, ".rodata..Lanon.71.3", "/t/app-1.rcgu.o"),
            part(0x40000, 0x10, ".text._ZN4leaf3one17h1E", "/t/libleaf.rlib(leaf-1.rcgu.o)"),
            part(0x50000, 1, "BYTE ( 40 )", ""),
        ];
        assert_eq!(map.parts, parts);
        assert_eq!(map.empty, [0x258af, 0x50010]);
        assert_eq!(map.assigned, HashSet::from(["foo", "bar", "top"]));
    }

    #[test]
    fn another_linkers_map_and_a_broken_one_are_errors() {
        let of_ld = "Archive member included to satisfy reference by file (symbol)\n";
        assert_eq!(
            parse(of_ld).unwrap_err().to_string(),
            "the linker is not lld, the only one whose map is read"
        );
        let broken = format!("{}\n     zz  1  1  1 .text\n", MAP.lines().next().unwrap());
        assert_eq!(parse(&broken).unwrap_err().to_string(), "the linker's map has \"zz  1  1  1 .text\"");
    }
}
