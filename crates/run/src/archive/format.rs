//! The archive's outer form: a zstd frame of data, then a skippable frame with version and hash.

/// 128 MiB, the largest window that `zstd -d` accepts without `--long` or `--memory`.
pub(crate) const WINDOW_LOG: u32 = 27;

/// Begins a frame that zstd decoders skip (RFC 8878, 3.1.2).
const SKIPPABLE: [u8; 4] = 0x184D_2A5E_u32.to_le_bytes();

/// Begins a frame of data.
pub(crate) const ZSTD: [u8; 4] = 0xFD2F_B528_u32.to_le_bytes();

/// Begins the last line.
const TITLE: &str = "cargo-memprof archive ";

/// Returns the last frame: an eight-byte frame header, then `cargo-memprof archive 00000001
/// HASH\n`.
pub(crate) fn trailer(version: u32, hash: &str) -> Vec<u8> {
    let line = format!("{TITLE}{version:08} {hash}\n");
    let size = u32::try_from(line.len()).expect("the line is short");
    [&SKIPPABLE, &size.to_le_bytes(), line.as_bytes()].concat()
}

/// Length of [`trailer`] in bytes.
pub(crate) const TRAILER_BYTES: u64 = 8 + TITLE.len() as u64 + 8 + 1 + 64 + 1;

/// Returns version and hash of a trailer.
pub(crate) fn parse_trailer(bytes: &[u8]) -> Option<(u32, String)> {
    let line = bytes.strip_prefix(&SKIPPABLE)?.get(4..)?;
    let line = std::str::from_utf8(line).ok()?.strip_prefix(TITLE)?.strip_suffix('\n')?;
    let (version, hash) = line.split_once(' ')?;
    Some((version.parse().ok()?, hash.to_owned()))
}
