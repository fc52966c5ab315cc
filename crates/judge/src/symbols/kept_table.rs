//! Unwind tables that are kept beside their executables, so that each is made once.

use camino::{Utf8Path, Utf8PathBuf};

use crate::symbols::frame_section::{FrameSection, Reason};
use crate::symbols::unwind_table::{self, UnwindTable};
use memprof_support::regular_file::{followed, remove_file_if_there};

/// Rises when the same executable gets other rules, so that kept tables are made again.
const GENERATION: u32 = 1;

/// Returns where the table of an executable is kept.
pub fn beside(executable: &Utf8Path) -> Utf8PathBuf {
    format!("{executable}.unwind-{GENERATION}").into()
}

/// Makes sure that `target` holds the table of an executable. A table that is there is kept if it is
/// complete and was made from the same frame descriptions.
///
/// Returns why there can be no table; `target` then does not exist.
///
/// # Errors
///
/// The executable cannot be read, or `target` cannot be written.
pub fn keep(executable: &Utf8Path, target: &Utf8Path) -> anyhow::Result<Result<(), Reason>> {
    let made = FrameSection::read(executable)?.and_then(|section| {
        let is_kept = followed::read_within(target, followed::MOST_OF_BINARY).is_ok_and(|bytes| {
            UnwindTable::from_bytes(&bytes).is_ok_and(|table| *table.frame_hash() == section.hash())
        });
        if is_kept { Ok(None) } else { unwind_table::of_section(&section).map(Some) }
    });
    match made {
        Ok(Some(table)) => table.write(target)?,
        Ok(None) => {}
        Err(reason) => {
            remove_file_if_there(target)?;
            return Ok(Err(reason));
        }
    }
    Ok(Ok(()))
}
