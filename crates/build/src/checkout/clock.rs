//! Notices that the clock was set back since the last build. Cargo compares times, so it would take
//! build scripts' results from "the future" for newer than the files of any revision.

use std::time::{Duration, SystemTime};

use camino::Utf8Path;

use crate::checkout::cache::Cache;
use crate::checkout::removal::remove_whatever_is_at;
use memprof_support::regular_file;

/// A difference that is waited for. Clocks are set back by a little all the time.
const SMALL: Duration = Duration::from_secs(2);

/// Removes cargo's target folders if the last build is newer than the present. The store of finished
/// executables stays, since it goes by content.
pub(crate) fn forget_builds_of_the_future(cache: &Cache) -> anyhow::Result<()> {
    let Some(last) = modified(&cache.sources()) else { return Ok(()) };
    // The file system's clock counts, which may be that of another machine.
    let probe = cache.folder().join("clock");
    remove_whatever_is_at(&probe)?;
    regular_file::write(&probe, b"")?;
    let Some(ahead) = modified(&probe).and_then(|now| last.duration_since(now).ok()) else { return Ok(()) };
    if ahead <= SMALL {
        std::thread::sleep(ahead);
        return Ok(());
    }
    for entry in cache.folder().read_dir_utf8()? {
        let entry = entry?;
        let name = entry.file_name();
        if name == "target" || name.starts_with("target-traced-") {
            remove_whatever_is_at(entry.path())?;
        }
    }
    Ok(regular_file::remove_file_if_there(cache.sources())?)
}

fn modified(path: &Utf8Path) -> Option<SystemTime> {
    fs_err::metadata(path).and_then(|metadata| metadata.modified()).ok()
}
