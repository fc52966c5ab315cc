//! Whether the lines of a log are those that the shim wrote. The shim's last line has a checksum
//! over all lines before it, with a key that only this run has.

use std::hash::{BuildHasher, RandomState};
use std::io::{self, BufRead};

use serde::Deserialize;

mod checksum;

use checksum::Checksum;

/// The secret of one run, as the shim takes it: 32 hexadecimal digits.
#[derive(Clone, Debug)]
pub struct LogKey(String);

/// What is wrong with the lines of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Forgery {
    /// There is a second `begin` line.
    #[error("its log begins twice")]
    BeginsTwice,
    /// There are lines after the last one.
    #[error("its log goes on after its end")]
    GoesOn,
    /// Lines were added, changed or removed.
    #[error("its log has other lines than the shim wrote")]
    OtherLines,
}

/// The fields that are looked at.
#[derive(Deserialize)]
struct Line {
    event: String,
    checksum: Option<String>,
}

impl LogKey {
    /// Returns a new key. The standard library seeds its hashers from the system's random numbers.
    pub fn random() -> Self {
        let number = || RandomState::new().hash_one(0);
        Self(format!("{:016x}{:016x}", number(), number()))
    }

    /// The digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Checks a log. A log without an end is not complete and has no checksum, which others notice.
    ///
    /// `is_required` says that the shim writes checksums. Archives of earlier versions have a shim
    /// that does not.
    pub fn check(&self, mut log: impl BufRead, is_required: bool) -> io::Result<Option<Forgery>> {
        let mut sum = Checksum::new(checksum::key(&self.0).unwrap_or_default());
        let (mut begins, mut end) = (0, None);
        let mut line = Vec::new();
        while log.read_until(b'\n', &mut line)? > 0 {
            if end.is_some() {
                return Ok(Some(Forgery::GoesOn));
            }
            // Only these two events are parsed, because a log may have a million lines.
            let event = |name: &[u8]| memchr::memmem::find(&line[..line.len().min(64)], name).is_some();
            if event(b"\"begin\"") || event(b"\"end\"") {
                match serde_json::from_slice::<Line>(&line) {
                    Ok(Line { event, checksum }) if event == "end" => end = Some(checksum),
                    Ok(Line { event, .. }) if event == "begin" => begins += 1,
                    Ok(_) | Err(_) => {}
                }
            }
            if end.is_none() {
                sum.add(&line);
            }
            line.clear();
        }
        Ok(match end {
            _ if begins > 1 => Some(Forgery::BeginsTwice),
            None => None,
            Some(None) => is_required.then_some(Forgery::OtherLines),
            Some(Some(found)) => (found != format!("{:016x}", sum.value())).then_some(Forgery::OtherLines),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGIN: &str = "{\"v\":1,\"event\":\"begin\",\"seq\":0}\n";
    const POINT: &str = "{\"v\":1,\"event\":\"checkpoint\",\"seq\":1,\"label\":\"a\"}\n";

    fn end(key: &LogKey, lines: &[&str]) -> String {
        let mut sum = Checksum::new(checksum::key(key.as_str()).unwrap());
        for line in lines {
            sum.add(line.as_bytes());
        }
        format!("{{\"v\":1,\"event\":\"end\",\"seq\":2,\"checksum\":\"{:016x}\"}}\n", sum.value())
    }

    fn check(key: &LogKey, lines: &[&str]) -> Option<Forgery> {
        key.check(lines.concat().as_bytes(), true).unwrap()
    }

    #[test]
    fn the_shims_own_lines_are_accepted() {
        let key = LogKey::random();
        let end = end(&key, &[BEGIN, POINT]);
        assert_eq!(check(&key, &[BEGIN, POINT, &end]), None);
        assert_eq!(check(&key, &[BEGIN, POINT]), None, "a log without an end is somebody else's matter");
    }

    #[test]
    fn lines_that_others_wrote_are_noticed() {
        let key = LogKey::random();
        let own = end(&key, &[BEGIN, POINT]);
        let smaller = POINT.replace("\"a\"", "\"b\"");
        assert_eq!(check(&key, &[BEGIN, &smaller, &own]), Some(Forgery::OtherLines));
        assert_eq!(check(&key, &[BEGIN, POINT, POINT, &own]), Some(Forgery::OtherLines));
        assert_eq!(check(&key, &[BEGIN, &own]), Some(Forgery::OtherLines));
        assert_eq!(check(&key, &[BEGIN, POINT, &own, POINT]), Some(Forgery::GoesOn));
        assert_eq!(check(&key, &[BEGIN, BEGIN, POINT, &own]), Some(Forgery::BeginsTwice));
        let others = end(&LogKey::random(), &[BEGIN, POINT]);
        assert_eq!(check(&key, &[BEGIN, POINT, &others]), Some(Forgery::OtherLines), "without the key");
    }

    #[test]
    fn an_end_without_a_checksum_is_accepted_from_an_earlier_shim_only() {
        let key = LogKey::random();
        let log = [BEGIN, "{\"v\":1,\"event\":\"end\",\"seq\":1}\n"].concat();
        assert_eq!(key.check(log.as_bytes(), false).unwrap(), None);
        assert_eq!(key.check(log.as_bytes(), true).unwrap(), Some(Forgery::OtherLines));
    }

    #[test]
    fn any_flipped_bit_of_a_line_changes_the_checksum() {
        let sum = |line: &[u8]| {
            let mut sum = Checksum::new((1, 3));
            sum.add(line);
            sum.value()
        };
        let whole = sum(POINT.as_bytes());
        for bit in 0..8 * POINT.len() {
            let mut flipped = POINT.as_bytes().to_vec();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(sum(&flipped), whole, "bit {bit}");
        }
    }
}
