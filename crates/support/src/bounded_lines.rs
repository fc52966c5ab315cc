//! Lines of a stream that anybody may have written: a line of a gigabyte takes no gigabyte.

use std::io::{self, BufRead};

/// A line that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadLine {
    /// The length with its newline, also of the part that was not kept.
    pub length: u64,
    /// Whether it was kept as a whole.
    pub is_whole: bool,
}

/// Reads the next line into `line`, with its newline, and keeps at most `most` bytes of it. Returns
/// `None` at the end of the stream.
pub fn read_line(reader: &mut impl BufRead, most: usize, line: &mut Vec<u8>) -> io::Result<Option<ReadLine>> {
    line.clear();
    let mut length = 0;
    loop {
        let available = match reader.fill_buf() {
            Ok(available) => available,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let newline = memchr::memchr(b'\n', available);
        let part = &available[..newline.map_or(available.len(), |at| at + 1)];
        line.extend_from_slice(&part[..part.len().min(most - line.len())]);
        let read = part.len();
        reader.consume(read);
        length += read as u64;
        if newline.is_some() || read == 0 {
            let read = ReadLine { length, is_whole: length == line.len() as u64 };
            return Ok((length > 0).then_some(read));
        }
    }
}

/// Gives each line to the callback, without its newline and cut to `most` bytes, until the callback
/// returns false.
pub fn each_line(
    mut reader: impl BufRead,
    most: usize,
    mut callback: impl FnMut(&[u8]) -> bool,
) -> io::Result<()> {
    let mut line = Vec::new();
    while read_line(&mut reader, most, &mut line)?.is_some() {
        if !callback(line.strip_suffix(b"\n").unwrap_or(&line)) {
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::{BufReader, Read};

    use super::*;

    fn lines(text: &str, most: usize) -> Vec<String> {
        let mut lines = Vec::new();
        // A buffer of three bytes: lines go over its edge.
        each_line(BufReader::with_capacity(3, text.as_bytes()), most, |line| {
            lines.push(String::from_utf8_lossy(line).into_owned());
            true
        })
        .unwrap();
        lines
    }

    #[test]
    fn long_lines_are_cut_and_the_next_begins_where_it_should() {
        assert_eq!(lines("ab\n\ncdefgh\nij", 4), ["ab", "", "cdef", "ij"]);
        assert_eq!(lines("abcd\n", 4), ["abcd"]);
        assert!(lines("", 4).is_empty());
    }

    #[test]
    fn a_line_of_half_a_gigabyte_is_read_in_a_few_bytes() {
        let stream = io::repeat(b'a').take(1 << 29).chain(&b"\nend\n"[..]);
        let mut reader = BufReader::with_capacity(1 << 16, stream);
        let mut line = Vec::new();
        let first = read_line(&mut reader, 100, &mut line).unwrap().unwrap();
        assert_eq!(first, ReadLine { length: (1 << 29) + 1, is_whole: false });
        assert!(line.len() == 100 && line.capacity() < 1000);
        let second = read_line(&mut reader, 100, &mut line).unwrap().unwrap();
        assert_eq!((second.is_whole, &line[..]), (true, &b"end\n"[..]));
        assert_eq!(read_line(&mut reader, 100, &mut line).unwrap(), None);
    }
}
