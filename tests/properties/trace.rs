//! Sources of Rust, which `--trace` edits. They come from the repository and from the registry.

use camino::Utf8Path;
use memprof_build::inject::module_files::ModuleFile;
use memprof_build::inject::source_edit::{SourceText, forget_places};
use memprof_build::trace::functions::{Depth, Selected, Want, trace};

use super::Target;

pub const TARGET: Target = Target {
    name: "trace",
    check,
    seeds,
    words: &[
        "fn f() {}",
        "async ",
        "const ",
        "unsafe ",
        "impl T {",
        "trait T {",
        "mod m {",
        "#[cfg(a)]",
        "#![inner]",
        "//! x\n",
        "/* ",
        " */",
        "macro_rules! m {",
        "cfg_if! {",
        "|x| {",
        "loop {",
        "match x {",
        "=> ",
        "'a",
        "r#\"",
        "\"#",
        "\u{feff}",
        "#!/bin/x\n",
        "\r\n",
        ";",
        "{",
        "}",
        "(",
        ")",
        "const {",
        "async move {",
        "try {",
        "extern \"C\" ",
        "-> impl Fn() ",
        "where T: A ",
        "é",
        "c\"x\"",
    ],
};

/// Edits keep every line and everything that was in it, and the result parses.
pub fn check(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if nesting(bytes) > DEEPEST {
        return;
    }
    for depth in [Depth::Calls, Depth::Lines] {
        let source = SourceText::new(text);
        let file =
            ModuleFile { path: Utf8Path::new("src/lib.rs"), module: &[], source, items: source.parse() };
        let parses = file.items.is_ok();
        let (functions, edited) = trace(&file, "src/lib.rs", "bart", None, &|_, _| {
            Want::Traced(Selected { depth, is_named: true, every: None })
        });
        let lines = text.lines().count();
        for function in &functions {
            assert!((1..=lines).contains(&function.line), "{function:?} of {lines} lines");
        }
        if let Some(edited) = edited {
            assert!(parses, "a file that does not parse is not edited");
            assert_eq!(edited.matches('\n').count(), text.matches('\n').count(), "{edited}");
            for (before, after) in text.lines().zip(edited.lines()) {
                assert!(is_within(before, after), "{before:?} became {after:?}");
            }
            let again = SourceText::new(&edited);
            assert!(again.parse().is_ok(), "it does not parse: {:?}\n{edited}", again.parse().err());
        }
        drop(file);
        forget_places();
    }
}

/// Whether a line still has all its characters, in their order.
fn is_within(before: &str, after: &str) -> bool {
    let mut rest = after.chars();
    before.chars().all(|wanted| rest.any(|character| character == wanted))
}

/// The parser calls itself for each bracket and each operator; deeper sources exhaust its stack.
const DEEPEST: usize = 200;

/// An upper bound of how deep the parser goes.
fn nesting(bytes: &[u8]) -> usize {
    let (mut depth, mut deepest, mut run) = (0_usize, 0_usize, 0_usize);
    for byte in bytes {
        match byte {
            b'(' | b'[' | b'{' | b'<' => depth += 1,
            b')' | b']' | b'}' | b'>' => depth = depth.saturating_sub(1),
            _ => {}
        }
        // Operators in front of an operand, such as `&&&x` and `!!x`.
        run = if b"&*!-+|.=?".contains(byte) {
            run + 1
        } else if byte.is_ascii_whitespace() {
            run
        } else {
            0
        };
        deepest = deepest.max(depth + run);
    }
    deepest + bytes.windows(4).filter(|word| *word == b"else" || *word == b"dyn " || *word == b"impl").count()
}

fn seeds() -> Vec<Vec<u8>> {
    let kinds = [
        &include_bytes!("../../fixtures/traced_kinds/lib.rs")[..],
        include_bytes!("../../fixtures/traced_kinds/crlf.rs"),
        include_bytes!("../../fixtures/traced_kinds/edition_2024.rs"),
    ];
    let own = [
        "//! x\r\nfn a<T: Fn() -> u8>(x: &'static str) -> impl Fn(u8) -> u8 where T: A<{ 1 }> { let y = 1;\r\n    for b in c {\n        g(b);\n    }\n    move |z| z + y }\n",
        "#!/bin/x\nimpl<'a, T> A for B<'a, T> {\n    async fn f(&self) -> Result<(), E> {\n        #![allow(x)]\n        //! inner\n        self.g().await?;\n        #[cfg(a)]\n        { a }\n        #[cfg(not(a))]\n        { b }\n    }\n    const fn c() {}\n}\n",
        "\u{feff}mod m { trait T { fn f(&self) { match 1 { 0 => {} _ => loop { break; } } } fn g(); } }\ncfg_if! { if #[cfg(unix)] { fn u() {} } else { fn w() {} } }\nmacro_rules! m { () => { fn n() {} } }\n",
        "unsafe extern \"C\" fn f(_: *const u8, ...) -> ! { unsafe { const { 1 }; let a: [u8; { 4 }] = [0; { 4 }]; } }\nfn (",
    ];
    kinds.map(<[u8]>::to_vec).into_iter().chain(own.map(Into::into)).collect()
}
