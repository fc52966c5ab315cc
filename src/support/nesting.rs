//! How deep the brackets of a source are nested. The parser of Rust recurses, so it must not get
//! sources that are nested too deep.

/// Returns how deep brackets are nested at most. Those in text and comments count, too.
pub fn depth(text: &str) -> usize {
    let (mut depth, mut most) = (0_usize, 0);
    for byte in text.bytes() {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        most = most.max(depth);
    }
    most
}
