//! How deep a source is nested. The parser of Rust recurses, so it must not get sources that are nested
//! too deep.

use proc_macro2::{TokenStream, TokenTree};

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

/// Returns how deep generic arguments are nested at most: `A<A<A<u8>>>` is 3. The brackets of the tokens
/// are known not to be nested too deep. A comparison counts up to the end of its statement.
pub fn generic_depth(tokens: &TokenStream) -> usize {
    let (mut depth, mut most, mut before) = (0_usize, 0, ' ');
    for token in tokens.clone() {
        let mut sign = ' ';
        match &token {
            TokenTree::Group(group) => most = most.max(depth + generic_depth(&group.stream())),
            TokenTree::Punct(punct) => sign = punct.as_char(),
            _ => {}
        }
        match sign {
            '<' => depth += 1,
            '>' if !['-', '='].contains(&before) => depth = depth.saturating_sub(1),
            ';' => depth = 0,
            _ => {}
        }
        before = sign;
        most = most.max(depth);
    }
    most
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generic_arguments_count_and_statements_end_comparisons() {
        let depth = |text: &str| generic_depth(&text.parse().unwrap());
        assert_eq!(depth("type A = Vec<Vec<Vec<u8>>>;"), 3);
        assert_eq!(depth("fn a() -> B<C> { a::<(D<E>, [F<G>; 2])>() }"), 2);
        assert_eq!(depth(&"fn a() { a < b; match a { b => c, } }".repeat(2000)), 1);
        assert_eq!(depth(&format!("type A = {}u8{};", "V</*;*/".repeat(5000), ">".repeat(5000))), 5000);
    }
}
