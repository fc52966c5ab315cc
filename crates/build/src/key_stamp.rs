//! The place in an executable that gets its build's key.

/// Why an executable cannot be proven to be the build that was asked for.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unproven {
    /// The shim's place for the key is missing.
    #[error(
        "its file has no place for the build key; a linker script or another build step removed it, or \
         the target's root file is outside the checkout"
    )]
    NoPlace,
    /// The place for the key is incomplete, or contains something else.
    #[error("its place for the build key was changed; the file is not what the compiler linked")]
    Changed,
    /// There are several places for the key.
    #[error("its file has {0} places for the build key instead of one")]
    Several(usize),
}

/// The text in the shim that precedes 64 bytes for the key.
pub(crate) const STAMP: &[u8] = b"cargo-memprof-build-key:";

/// Writes the key into an executable's bytes.
///
/// # Errors
///
/// The executable does not contain exactly one unused place for the key.
///
/// # Panics
///
/// The key does not have 64 digits.
pub(crate) fn stamp(executable: &mut [u8], key: &str) -> Result<(), Unproven> {
    assert_eq!(key.len(), 64, "a key has 64 digits");
    let is_unused =
        |place: &usize| executable[place + STAMP.len()..].get(..64).is_some_and(|place| *place == [b'-'; 64]);
    let texts: Vec<usize> = memchr::memmem::find_iter(executable, STAMP).collect();
    // The text alone is no place: a program may search for it, as this one does.
    let places: Vec<usize> = texts.iter().copied().filter(is_unused).collect();
    let start = match places[..] {
        [place] => place + STAMP.len(),
        [] if texts.is_empty() => return Err(Unproven::NoPlace),
        [] => return Err(Unproven::Changed),
        _ => return Err(Unproven::Several(places.len())),
    };
    let target = &mut executable[start..start + 64];
    target.copy_from_slice(key.as_bytes());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provenance::samples::KEY;

    fn linked() -> Vec<u8> {
        [b"ELF", STAMP, &[b'-'; 64], b"rest"].concat()
    }

    #[test]
    fn the_key_is_written_after_the_stamp() {
        let mut bytes = linked();
        stamp(&mut bytes, KEY).unwrap();
        assert!(memchr::memmem::find(&bytes, KEY.as_bytes()).is_some());
        assert_eq!(stamp(&mut bytes, KEY), Err(Unproven::Changed));
    }

    #[test]
    fn an_executable_without_exactly_one_place_for_the_key_is_unproven() {
        assert_eq!(stamp(&mut b"plain".to_vec(), KEY), Err(Unproven::NoPlace));
        assert_eq!(stamp(&mut [linked(), linked()].concat(), KEY), Err(Unproven::Several(2)));
        assert_eq!(stamp(&mut linked()[..40], KEY), Err(Unproven::Changed));
        let mut with_text = [STAMP, b" is searched for", &linked(), STAMP].concat();
        assert_eq!(stamp(&mut with_text, KEY), Ok(()));
    }
}
