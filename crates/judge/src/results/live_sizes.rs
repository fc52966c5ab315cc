//! How many blocks of each size an allocator has before a checkpoint, as the log of a program that
//! names tensors tells.

use serde::Deserialize;

use memprof_support::labels;

/// The live blocks of an allocator at one time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveSizes {
    /// The line's sequence number.
    pub sequence: u64,
    /// The metrics' common beginning: `heap`, `gpu.0`.
    pub family: String,
    /// Smaller blocks are not counted by size.
    pub least: u64,
    /// Whether all blocks of at least that size were counted.
    pub is_whole: bool,
    /// The sizes, in ascending order.
    pub sizes: Vec<SizeCount>,
    /// Blocks of further sizes, which the line has no room for: their number and bytes.
    pub rest: [u64; 2],
}

/// Live blocks of one size and site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizeCount {
    /// Bytes of each block.
    pub bytes: u64,
    /// The number of blocks.
    pub count: u64,
    /// The call site that allocated them; 0 if it was not recorded.
    pub site: u32,
}

#[derive(Deserialize)]
struct Line {
    family: String,
    least: u64,
    whole: u64,
    sizes: Vec<u64>,
    rest_count: u64,
    rest_bytes: u64,
}

impl LiveSizes {
    /// The line's event.
    pub(crate) const EVENT: &str = "live_sizes";

    /// Reads a line of the log.
    ///
    /// # Errors
    /// It is not of the expected form.
    pub fn read(line: &[u8], sequence: u64) -> serde_json::Result<Self> {
        let Line { family, least, whole, sizes, rest_count, rest_bytes } = serde_json::from_slice(line)?;
        let (sizes, rest) = sizes.as_chunks::<3>();
        if !rest.is_empty() {
            return Err(serde::de::Error::custom("a size has three numbers"));
        }
        let size = |&[bytes, count, site]: &[u64; 3]| {
            let site =
                u32::try_from(site).map_err(|_| serde::de::Error::custom(format!("{site} is no site")))?;
            Ok(SizeCount { bytes, count, site })
        };
        Ok(Self {
            sequence,
            family: labels::bounded(&family).into_owned(),
            least,
            is_whole: whole == 1,
            sizes: sizes.iter().map(size).collect::<serde_json::Result<_>>()?,
            rest: [rest_count, rest_bytes],
        })
    }
}

/// Returns the last line of a family before a line of the log.
pub(crate) fn before<'a>(all: &'a [LiveSizes], family: &str, sequence: u64) -> Option<&'a LiveSizes> {
    let until = all.partition_point(|sizes| sizes.sequence < sequence);
    all[..until].iter().rev().find(|sizes| sizes.family == family)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_holds_until_the_next_of_its_family() {
        let line = |family: &str, sequence, sizes: &str| {
            let line = format!(
                r#"{{"event":"live_sizes","family":"{family}","least":4096,"whole":1,"sizes":{sizes},"rest_count":0,"rest_bytes":0}}"#
            );
            LiveSizes::read(line.as_bytes(), sequence)
        };
        let all = [
            line("heap", 3, "[4096,2,0]").unwrap(),
            line("gpu.0", 4, "[]").unwrap(),
            line("heap", 9, "[4096,1,0,8192,5,7]").unwrap(),
        ];
        let bytes = |family: &str, sequence| {
            before(&all, family, sequence)
                .map(|found| found.sizes.iter().map(|one| one.bytes * one.count).sum())
        };
        let seen: [Option<u64>; 5] = [("heap", 3), ("heap", 4), ("heap", 9), ("heap", 10), ("gpu.0", 10)]
            .map(|(one, at)| bytes(one, at));
        assert_eq!(seen, [None, Some(8192), Some(8192), Some(4096 + 5 * 8192), Some(0)]);
        assert!(line("heap", 1, "[4096,2]").unwrap_err().to_string().contains("three numbers"));
        assert!(line("heap", 1, "[4096,2,5000000000]").unwrap_err().to_string().contains("is no site"));
    }
}
