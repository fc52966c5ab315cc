//! Damages inputs: the same number damages a seed in the same way.

use super::Target;

/// Random numbers (splitmix64).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// A number below `end`, which is not 0.
    pub fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end as u64).expect("it is below a usize")
    }

    fn range(&mut self, length: usize) -> std::ops::Range<usize> {
        let start = self.below(length + 1);
        // Short pieces are more interesting than long ones.
        let longest = (length - start).min(1 << self.below(8));
        start..start + self.below(longest + 1)
    }
}

/// Bytes that readers treat in a special way.
const BYTES: [&[u8]; 24] = [
    b"\0",
    b"\n",
    b"\r\n",
    b"\t",
    b" ",
    b"\"",
    b"'",
    b"\\",
    b"/",
    b"..",
    b"-",
    b"--",
    b"=",
    b":",
    b"{",
    b"}",
    b"[",
    b"]",
    b"(",
    b")",
    b"\xff",
    "\u{feff}".as_bytes(),
    "é".as_bytes(),
    "\u{202e}".as_bytes(),
];

/// Numbers at the ends of ranges.
const NUMBERS: [&str; 10] = [
    "0",
    "-1",
    "1",
    "255",
    "65536",
    "4294967296",
    "9223372036854775807",
    "-9223372036854775808",
    "18446744073709551615",
    "1e400",
];

/// The longest input.
const LONGEST: usize = 1 << 16;

/// Returns a damaged seed of the target.
pub fn damaged(target: &Target, seeds: &[Vec<u8>], number: u64) -> Vec<u8> {
    let mut random = Random(number);
    let mut bytes = seeds[random.below(seeds.len())].clone();
    for _ in 0..=random.below(8) {
        damage(&mut bytes, target, seeds, &mut random);
        bytes.truncate(LONGEST);
    }
    bytes
}

fn damage(bytes: &mut Vec<u8>, target: &Target, seeds: &[Vec<u8>], random: &mut Random) {
    let range = random.range(bytes.len());
    let insert: Vec<u8> = match random.below(9) {
        0 => Vec::new(),
        1 => BYTES[random.below(BYTES.len())].to_vec(),
        2 => NUMBERS[random.below(NUMBERS.len())].into(),
        3 if !target.words.is_empty() => target.words[random.below(target.words.len())].into(),
        4 => bytes[random.range(bytes.len())].to_vec(),
        5 => {
            let other = &seeds[random.below(seeds.len())];
            other[random.range(other.len())].to_vec()
        }
        6 => bytes[range.clone()].repeat(1 << random.below(8)),
        7 => bytes[range.clone()].iter().map(|byte| byte ^ (1 << random.below(8))).collect(),
        _ => {
            let line = bytes.split(|byte| *byte == b'\n').nth(random.below(8)).unwrap_or_default();
            [line, b"\n"].concat()
        }
    };
    bytes.splice(range, insert);
}
