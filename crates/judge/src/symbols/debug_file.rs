//! The separate file with the debug information of a stripped executable or library, as
//! distributions have it below `/usr/lib/debug`.

use std::fmt::Write;

use camino::{Utf8Path, Utf8PathBuf};
use memprof_support::regular_file::followed;
use object::{Object, ObjectSection, ReadCache};

/// Returns the file to read debug information from: `path` itself, or its separate debug file if it
/// has no debug information and there is one with the same build ID.
pub(crate) fn find(path: &Utf8Path) -> Utf8PathBuf {
    separate(path, Utf8Path::new("/usr/lib/debug")).unwrap_or_else(|| path.to_owned())
}

/// What a file says about its debug information.
struct About {
    build_id: Option<Vec<u8>>,
    has_debug_information: bool,
    /// The name of the separate file.
    link: Option<String>,
}

impl About {
    fn read(path: &Utf8Path) -> Option<Self> {
        let cache = ReadCache::new(followed::open(path).ok()?);
        let file = object::File::parse(&cache).ok()?;
        let has_debug_information =
            file.section_by_name(".debug_info").is_some_and(|section| section.size() > 0);
        let link = file.gnu_debuglink().ok().flatten();
        Some(Self {
            build_id: file.build_id().ok().flatten().map(<[u8]>::to_vec),
            has_debug_information,
            link: link.map(|(name, _)| String::from_utf8_lossy(name).into_owned()),
        })
    }
}

fn separate(path: &Utf8Path, system: &Utf8Path) -> Option<Utf8PathBuf> {
    let about = About::read(path).filter(|about| !about.has_debug_information)?;
    let id = about.build_id.filter(|id| id.len() > 1)?;
    let digits = id[1..].iter().fold(String::new(), |mut digits, byte| {
        // Writing to a text cannot fail.
        let _ = write!(digits, "{byte:02x}");
        digits
    });
    let mut candidates = vec![system.join(format!(".build-id/{:02x}/{digits}.debug", id[0]))];
    // Debug links name the file behind symbolic links, and folders relative to it.
    let real = path.canonicalize_utf8().ok()?;
    if let (Some(link), Some(folder)) = (about.link.filter(|link| !link.contains('/')), real.parent()) {
        let below_system = system.join(folder.as_str().trim_start_matches('/'));
        candidates.extend([folder.join(&link), folder.join(".debug").join(&link), below_system.join(&link)]);
    }
    candidates.into_iter().find(|candidate| {
        About::read(candidate)
            .is_some_and(|other| other.has_debug_information && other.build_id.as_ref() == Some(&id))
    })
}
