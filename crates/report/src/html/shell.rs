//! What every page has: the head with its policy, the style, the data, and the script.

use std::io::{self, Write};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use hmac_sha256::Hash as Sha256;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use serde::Serialize;

use memprof_support::labels::one_line;

/// The parts of the script, in their order.
const SCRIPT: &[&str] = &[
    include_str!("script/elements.js"),
    include_str!("script/figures.js"),
    include_str!("script/canvas.js"),
    include_str!("script/list.js"),
    include_str!("script/series.js"),
    include_str!("script/charts.js"),
    include_str!("script/boxes.js"),
    include_str!("script/runs.js"),
    include_str!("script/tests.js"),
    include_str!("script/links.js"),
    include_str!("script/start.js"),
];
const SCRIPT_OF_HISTORY: &str = include_str!("script/history.js");
const STYLE: &str = include_str!("page.css");
const STYLE_OF_HISTORY: &str = include_str!("history.css");

/// The characters of a line of the data. In Base64, `cio` and 32 letters or digits look like a token of crates.io, on
/// average once in 700,000 characters, and would be redacted. The shortest form of a secret has 20: `AKIA` and 16 more.
/// Browsers ignore line ends.
const LINE: usize = 16;

/// What a page shows.
pub(super) struct Page<'a> {
    pub(super) title: &'a str,
    pub(super) body: &'a Markup,
    /// Whether it shows a figure over commits.
    pub(super) is_history: bool,
}

/// Writes a page. `data` is what the script draws.
pub(super) fn write(page: &Page<'_>, data: &impl Serialize, out: &mut dyn Write) -> io::Result<()> {
    let (script, style) = if page.is_history {
        (script(&[SCRIPT, &[SCRIPT_OF_HISTORY]].concat()), slim_style(STYLE) + &slim_style(STYLE_OF_HISTORY))
    } else {
        (script(SCRIPT), slim_style(STYLE))
    };
    // Nothing is loaded, sent or run but what is in the file. The hashes are of the very text
    // between the tags.
    let policy = format!(
        "default-src 'none'; style-src '{}'; script-src '{}'; img-src data:; base-uri 'none'; form-action 'none'",
        hash(&style),
        hash(&script)
    );
    let head = html! {
        (DOCTYPE)
        (PreEscaped("<html lang=\"en\">"))
        head {
            meta charset="utf-8";
            meta http-equiv="Content-Security-Policy" content=(policy);
            meta name="viewport" content="width=device-width, initial-scale=1";
            meta name="color-scheme" content="light dark";
            meta name="generator" content={ "cargo-memprof " (env!("CARGO_PKG_VERSION")) };
            title { (page.title) }
            style { (PreEscaped(&style)) }
        }
        (PreEscaped("<body>\n"))
    };
    out.write_all(head.into_string().as_bytes())?;
    out.write_all(page.body.0.as_bytes())?;
    out.write_all(b"\n<script type=\"application/json\" id=\"data\">\n")?;
    write_lines(out, &packed(data)?)?;
    write!(out, "</script>\n<script>{script}</script>\n</body>\n</html>\n")
}

/// A command to paste. Lines break between its words only, and not at the hyphens of its flags.
pub(super) fn command(line: &str) -> Markup {
    html! { pre.command { @for word in one_line(line).split(' ') { span { (word) } " " } } }
}

/// Writes the data in lines.
fn write_lines(out: &mut dyn Write, base64: &str) -> io::Result<()> {
    base64.as_bytes().chunks(LINE).try_for_each(|line| {
        out.write_all(line)?;
        out.write_all(b"\n")
    })
}

/// The data as JSON, compressed, and as text of letters and digits. Nothing in it can end the element
/// around it.
fn packed(data: &impl Serialize) -> io::Result<String> {
    let mut compressed = io::BufWriter::new(GzEncoder::new(Vec::new(), Compression::new(4)));
    serde_json::to_writer(&mut compressed, data)?;
    let compressed = compressed.into_inner().map_err(io::IntoInnerError::into_error)?;
    Ok(STANDARD.encode(compressed.finish()?))
}

/// Puts parts together that share their names, and no others.
fn script(parts: &[&str]) -> String {
    let parts: String = parts.iter().map(|part| slim(part)).collect();
    format!("(() => {{\n'use strict';\n{parts}}})();\n")
}

/// Leaves out what only readers of the source need: indents, comments, blank lines. No text of the
/// sources goes over several lines.
fn slim(source: &str) -> String {
    let lines = source.lines().map(str::trim_start);
    let mut slim = String::with_capacity(source.len());
    let is_comment = |line: &str| line.starts_with("//") || (line.starts_with("/*") && line.ends_with("*/"));
    for line in lines.filter(|line| !line.is_empty() && !is_comment(line)) {
        slim.push_str(line);
        slim.push('\n');
    }
    slim
}

/// Leaves out the blanks around braces and semicolons, too. No text of a style has any.
fn slim_style(source: &str) -> String {
    slim(source).replace("; }", "}").replace(" { ", "{").replace("; ", ";")
}

fn hash(text: &str) -> String {
    format!("sha256-{}", STANDARD.encode(Sha256::hash(text.as_bytes())))
}

#[cfg(test)]
mod tests {
    use memprof_support::redaction;

    use super::*;

    #[test]
    fn data_are_not_taken_for_a_secret() {
        let token = format!("cio{}", "aB3dE6gH9".repeat(5));
        assert_ne!(redaction::text(&token), token);
        let mut lines = Vec::new();
        write_lines(&mut lines, &token).unwrap();
        let lines = String::from_utf8(lines).unwrap();
        assert_eq!(redaction::text(&lines), lines);
        assert_eq!(lines.replace('\n', ""), token);
    }

    #[test]
    fn script_and_style_are_small_and_end_no_element() {
        let (script, style) = (script(SCRIPT), slim_style(STYLE));
        assert!(script.len() + style.len() < 60_000, "{} + {}", script.len(), style.len());
        for needle in ["</script", "<!--", "</style"] {
            assert!(!script.contains(needle) && !style.contains(needle), "{needle}");
        }
    }
}
