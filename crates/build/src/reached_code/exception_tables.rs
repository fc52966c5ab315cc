//! Which table of landing pads each function has: what is dropped or caught if one of its calls panics. Only `.eh_frame`
//! leads from a function to its table, and the linker keeps no relocations of it.

use anyhow::Context;
use gimli::{BaseAddresses, CieOrFde, EhFrame, LittleEndian, UnwindSection as _};

/// The section of these tables.
pub(super) const SECTION: &str = ".gcc_except_table";

/// Returns the address of each function that has a table, and that of the table.
///
/// # Errors
///
/// The section is damaged, or has a kind of address that no compiler writes for x86-64.
pub(super) fn of_functions(frames: &[u8], address: u64) -> anyhow::Result<Vec<(u64, u64)>> {
    let mut section = EhFrame::new(frames, LittleEndian);
    section.set_address_size(8);
    let bases = BaseAddresses::default().set_eh_frame(address);
    let mut found = Vec::new();
    let mut entries = section.entries(&bases);
    while let Some(entry) = entries.next().context("its section .eh_frame is damaged")? {
        let CieOrFde::Fde(partial) = entry else { continue };
        let function = partial.parse(EhFrame::cie_from_offset).context("its section .eh_frame is damaged")?;
        if let Some(table) = function.lsda() {
            let table = table.direct().context("its section .eh_frame is not understood")?;
            found.push((function.initial_address(), table));
        }
    }
    Ok(found)
}
