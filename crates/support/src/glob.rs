//! Patterns in which `*` stands for any text, and every other character for itself.

/// Whether the pattern matches the whole text. Takes linear time for each star.
pub fn matches(pattern: &str, text: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(mut text) = text.strip_prefix(head) else { return false };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let tail = parts.pop().unwrap_or_default();
    for part in parts {
        // The first match is enough: it leaves the most text for the other parts.
        let Some(at) = text.find(part) else { return false };
        text = &text[at + part.len()..];
    }
    text.ends_with(tail)
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn a_star_stands_for_any_text_and_all_else_for_itself() {
        assert!(matches("gpu.*.peak", "gpu.0.peak") && matches("gpu.*.peak", "gpu.0.pool.peak"));
        assert!(matches("*", "") && matches("done*", "done") && matches("*[24, *]", "shaped [24, 1024]"));
        assert!(matches("a*b*c", "a b b c") && !matches("a*b*c", "a c b"));
        assert!(!matches("gpu.*.peak", "gpu.0.peaked") && !matches("heap.peak", "heap_peak"));
        assert!(!matches("ab*ab", "ab"), "head and tail do not share text");
    }
}
