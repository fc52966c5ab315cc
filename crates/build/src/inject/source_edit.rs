//! Inserts text into a source file at places that the parser found. Insertions add no lines, so
//! that line numbers in panics, backtraces and `line!()` do not change.
//!
//! Everything else stays the same byte for byte: comments, spaces, line ends, a byte order mark, a
//! shebang line.

use std::cmp::Reverse;
use std::ops::Range;

use proc_macro2::{Span, TokenStream};

use memprof_support::nesting::{depth, generic_depth};

/// A source file's text.
#[derive(Clone, Copy, Debug)]
pub struct SourceText<'a> {
    text: &'a str,
    /// The bytes that the parser does not get: a byte order mark and a shebang line.
    before: usize,
}

impl<'a> SourceText<'a> {
    /// Takes a file's text.
    pub fn new(text: &'a str) -> Self {
        let mark = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
        Self { text, before: mark + shebang_length(&text[mark..]) }
    }

    /// Parses the file's items, with places for `Edits`. The places are valid on this thread
    /// until [`forget_places`].
    ///
    /// # Errors
    ///
    /// Text that is not Rust, or that is nested too deeply: no compiler takes it.
    pub fn parse(&self) -> syn::Result<syn::File> {
        if depth(self.text) > MOST_NESTED {
            let message = format!("brackets are nested more than {MOST_NESTED} deep");
            return Err(syn::Error::new(Span::call_site(), message));
        }
        let tokens: TokenStream = self.text[self.before..].parse()?;
        if generic_depth(&tokens) > MOST_NESTED {
            let message = format!("generic arguments are nested more than {MOST_NESTED} deep");
            return Err(syn::Error::new(Span::call_site(), message));
        }
        syn::parse2(tokens)
    }

    /// Returns the file's tokens. A file that the parser cannot read still has tokens.
    pub fn tokens(&self) -> Option<TokenStream> {
        self.text[self.before..].parse().ok()
    }

    /// Returns the line of a place, from 1.
    pub fn line(&self, place: Span) -> usize {
        memchr::memchr_iter(b'\n', &self.text.as_bytes()[..self.bytes(place).start]).count() + 1
    }

    /// Returns the whole text.
    pub fn text(&self) -> &'a str {
        self.text
    }

    /// Returns an empty list of edits.
    pub(crate) fn edits(&self) -> Edits<'a> {
        Edits { source: *self, insertions: Vec::new() }
    }

    fn bytes(&self, place: Span) -> Range<usize> {
        let range = place.byte_range();
        range.start + self.before..range.end + self.before
    }
}

/// Deeper brackets are refused, because the parser recurses. rustc gives up long before.
const MOST_NESTED: usize = 1000;

/// Frees the memory for the places of all sources that this thread has parsed. Those places are
/// invalid afterwards.
pub fn forget_places() {
    proc_macro2::extra::invalidate_current_thread_spans();
}

/// Returns the bytes of a first line `#!/usr/bin/env …`, without its end. `#![attribute]` is not a
/// shebang line.
fn shebang_length(text: &str) -> usize {
    let Some(rest) = text.strip_prefix("#!") else { return 0 };
    // Rust allows spaces and comments between `#!` and `[`. Only spaces occur in practice.
    if rest.trim_start().starts_with('[') { 0 } else { text.find('\n').unwrap_or(text.len()) }
}

/// Insertions into one source.
#[derive(Clone, Debug)]
pub(crate) struct Edits<'a> {
    source: SourceText<'a>,
    insertions: Vec<Insertion>,
}

#[derive(Clone, Debug)]
struct Insertion {
    at: usize,
    side: InsertionOrder,
    text: String,
}

/// The order at one place: closing text comes before opening text, and the text added first is
/// innermost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum InsertionOrder {
    Closes(usize),
    Opens(Reverse<usize>),
}

impl Edits<'_> {
    /// Inserts text around a place, and around earlier insertions there: `x` becomes `f(x)`.
    pub fn around(&mut self, place: Span, open: &str, close: &str) {
        self.before(place, open);
        self.after(place, close);
    }

    /// Inserts text before a place.
    ///
    /// # Panics
    /// The text contains a line end.
    pub fn before(&mut self, place: Span, text: &str) {
        let side = InsertionOrder::Opens(Reverse(self.insertions.len()));
        self.insert(self.source.bytes(place).start, side, text);
    }

    /// Inserts text after a place.
    ///
    /// # Panics
    /// The text contains a line end.
    pub fn after(&mut self, place: Span, text: &str) {
        self.insert(self.source.bytes(place).end, InsertionOrder::Closes(self.insertions.len()), text);
    }

    fn insert(&mut self, at: usize, side: InsertionOrder, text: &str) {
        assert!(!text.contains(['\n', '\r']), "an edit stays on its line: {text:?}");
        self.insertions.push(Insertion { at, side, text: text.to_owned() });
    }

    /// Whether there are no edits.
    pub fn is_empty(&self) -> bool {
        self.insertions.is_empty()
    }

    /// Returns the text with all insertions.
    pub(crate) fn applied(mut self) -> String {
        self.insertions.sort_by_key(|insertion| (insertion.at, insertion.side));
        let length = self.insertions.iter().map(|insertion| insertion.text.len()).sum::<usize>();
        let mut edited = String::with_capacity(self.source.text.len() + length);
        let mut done = 0;
        for insertion in &self.insertions {
            edited.push_str(&self.source.text[done..insertion.at]);
            edited.push_str(&insertion.text);
            done = insertion.at;
        }
        edited.push_str(&self.source.text[done..]);
        edited
    }
}

#[cfg(test)]
mod tests {
    use syn::spanned::Spanned;

    use super::*;

    /// Inserts `<…>` around each static's type and `(…)` around its value.
    fn edited(text: &str) -> String {
        let source = SourceText::new(text);
        let file = source.parse().unwrap();
        let mut edits = source.edits();
        for item in &file.items {
            let syn::Item::Static(item) = item else { continue };
            edits.around(item.ty.span(), "<", ">");
            edits.around(item.expr.span(), "(", ")");
        }
        edits.applied()
    }

    #[test]
    fn brackets_that_are_nested_without_end_are_refused() {
        let nested = |depth: usize| format!("fn a() {{ {}1{} }}", "(".repeat(depth), ")".repeat(depth));
        let error = SourceText::new(&nested(100_000)).parse().err().unwrap();
        assert_eq!(error.to_string(), "brackets are nested more than 1000 deep");
        assert!(SourceText::new(&nested(50)).parse().is_ok());
        let generic = |depth: usize| format!("type A = {}u8{};", "Vec<".repeat(depth), ">".repeat(depth));
        let error = SourceText::new(&generic(100_000)).parse().err().unwrap();
        assert_eq!(error.to_string(), "generic arguments are nested more than 1000 deep");
        assert!(SourceText::new(&generic(8)).parse().is_ok());
    }

    #[test]
    fn only_the_places_change() {
        let text = "// é\r\n\r\nstatic /* a */ A: [u8; 2] /* b */ = [1,\r\n  2] // c\r\n;\r\n";
        assert_eq!(
            edited(text),
            "// é\r\n\r\nstatic /* a */ A: <[u8; 2]> /* b */ = ([1,\r\n  2]) // c\r\n;\r\n"
        );
    }

    #[test]
    fn lines_are_those_of_the_file() {
        let source = SourceText::new("#!/bin/x\n\n/* é\n*/ struct A;");
        assert_eq!(source.line(source.parse().unwrap().items[0].span()), 4);
    }

    #[test]
    fn places_are_right_behind_a_byte_order_mark_and_a_shebang_line() {
        for head in [
            "",
            "\u{feff}",
            "#!/usr/bin/env run ♥\n",
            "\u{feff}#!/bin/x\r\n",
            "#![no_std]\n",
            "#! [no_std]\n",
        ] {
            let text = format!("{head}static A: u8 = 1;");
            assert_eq!(edited(&text), format!("{head}static A: <u8> = (1);"), "{head:?}");
        }
    }

    #[test]
    fn what_closes_comes_before_what_opens() {
        let source = SourceText::new("const A: u8 = f(x)[0];");
        let file = source.parse().unwrap();
        let syn::Item::Const(item) = &file.items[0] else { panic!("a constant") };
        let syn::Expr::Index(index) = &*item.expr else { panic!("an index") };
        let mut edits = source.edits();
        edits.before(index.bracket_token.span.open(), "{");
        edits.around(index.expr.span(), "(", ")");
        edits.around(index.expr.span(), "<", ">");
        assert_eq!(edits.applied(), "const A: u8 = <(f(x))>{[0];");
    }

    #[test]
    #[should_panic(expected = "stays on its line")]
    fn a_line_end_is_refused() {
        let source = SourceText::new("struct A;");
        let file = source.parse().unwrap();
        source.edits().before(file.items[0].span(), "\n");
    }
}
