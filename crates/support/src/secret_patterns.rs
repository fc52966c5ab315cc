//! Recognizes secrets in any text by their form: tokens of well-known services, private keys,
//! passwords in URLs.
//!
//! Every search takes linear time. A pattern takes all characters that it can, and its context is
//! at most one character, so that replacing one secret reveals no other.

use std::ops::Range;
use std::sync::LazyLock;

use memchr::memmem;
use regex::bytes::Regex;

/// Each pattern has the secret in its first group.
static PATTERNS: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    [
        // GitHub
        r"(gh[pousr]_[A-Za-z0-9_]{36,})",
        r"(github_pat_[A-Za-z0-9_]{22,})",
        // GitLab
        r"(gl(?:pat|dt|rt|ptt|oas|soat|cbt|ft|imt|agent)-[A-Za-z0-9_.-]{20,})",
        // Amazon
        r"((?:AKIA|ASIA)[A-Z0-9]{16,})",
        // OpenAI and Anthropic. `task-` and `disk-` end in `sk-` too.
        r"(?:^|[^0-9A-Za-z_\]-])(sk-[A-Za-z0-9_-]{32,})",
        // Stripe
        r"((?:sk|rk)_(?:live|test)_[A-Za-z0-9]{16,})",
        // Slack
        r"(xox[abeoprs]-[A-Za-z0-9-]{10,})",
        // npm, Hugging Face (`hf_forward` is shorter), crates.io, Google, PyPI, Docker
        r"(npm_[A-Za-z0-9]{36,})",
        r"(hf_[A-Za-z0-9]{34,})",
        r"(cio[A-Za-z0-9]{32,})",
        r"(AIza[A-Za-z0-9_-]{35,})",
        r"(pypi-AgE[A-Za-z0-9_-]{32,})",
        r"(dckr_pat_[A-Za-z0-9_-]{20,})",
        // JSON web tokens
        r"(eyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]+)",
        // https://user:password@host
        r#"[A-Za-z]://[^\s/:@"'<>\[\]]*:([^\s/@"'<>\[\]]+)@"#,
        // Headers
        r"(?i:bearer[ \t]+)([A-Za-z0-9+/=._~-]{16,})",
        r"(?i:authorization:[ \t]*(?:basic|token)[ \t]+)([A-Za-z0-9+/=._~-]{8,})",
    ]
    .into_iter()
    .map(|pattern| Regex::new(&format!("(?-u){pattern}")).expect("the patterns are fixed"))
    .collect()
});

static KEY_BEGIN: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new("(?-u)-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----").expect("the pattern is fixed")
});

/// What ends a private key.
const KEY_END: &[u8] = b"-----END ";

/// No private key is longer.
pub(crate) const LONGEST_KEY: usize = 16 << 10;

/// Returns where the secrets are, in no order. They may overlap.
pub(crate) fn find(text: &[u8]) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    for pattern in PATTERNS.iter() {
        let mut at = 0;
        while let Some(captures) = pattern.captures_at(text, at) {
            let Some(secret) = captures.get(1) else { break };
            found.push(secret.range());
            at = secret.end();
        }
    }
    find_private_keys(text, &mut found);
    found
}

fn find_private_keys(text: &[u8], found: &mut Vec<Range<usize>>) {
    // Beginnings and ends are visited once each, in order.
    let mut ends = memmem::find_iter(text, KEY_END).peekable();
    for begin in KEY_BEGIN.find_iter(text) {
        while let Some(end) = ends.next_if(|end| *end < begin.end()) {
            found.extend(key_without_begin(text, end));
        }
        let end = if let Some(end) = ends.next_if(|end| *end - begin.end() <= LONGEST_KEY) {
            end_of_line(text, end + KEY_END.len())
        } else {
            // The key is cut off: take everything that can be a part of it.
            let body = &text[begin.end()..text.len().min(begin.end() + LONGEST_KEY)];
            begin.end() + body.iter().take_while(|byte| is_part_of_key(**byte)).count()
        };
        found.push(begin.start()..end);
    }
    found.extend(ends.filter_map(|end| key_without_begin(text, end)));
}

/// Returns where the rest of a key is that ends here, and whose beginning is cut off.
fn key_without_begin(text: &[u8], end: usize) -> Option<Range<usize>> {
    let behind = end_of_line(text, end + KEY_END.len());
    memmem::find(&text[end..behind], b"PRIVATE KEY")?;
    let body = &text[end.saturating_sub(LONGEST_KEY)..end];
    let length = body.iter().rev().take_while(|byte| is_part_of_key(**byte)).count();
    Some(end - length..behind)
}

fn is_part_of_key(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"+/=\\\r\n \t".contains(&byte)
}

/// Returns the end of `RSA PRIVATE KEY-----`.
fn end_of_line(text: &[u8], from: usize) -> usize {
    let rest = &text[from..text.len().min(from + 64)];
    memmem::find(rest, b"-----").map_or(from, |dashes| from + dashes + 5)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secrets(text: &str) -> Vec<&str> {
        let mut found = find(text.as_bytes());
        found.sort_by_key(|range| range.start);
        found.into_iter().map(|range| &text[range]).collect()
    }

    /// Put together here, so that scanners of repositories do not report this file.
    fn token(prefix: &str, length: usize) -> String {
        format!("{prefix}{}", "aB3dE6gH9".repeat(30)[..length].to_owned())
    }

    #[test]
    fn the_rest_of_a_key_without_its_beginning_is_found() {
        let (dashes, body) = ("-----", "MIIEvQIBADANBgkqhkiG9w0B\nAQEFAASCBKcwggSjAgEAAoIBAQ==\n");
        let end = format!("{dashes}END RSA PRIVATE KEY{dashes}");
        let text = format!("[2 MiB are missing here]\n{body}{end}\nand more");
        assert_eq!(secrets(&text), [format!("\n{body}{end}")]);
        let certificate = format!("{body}{dashes}END CERTIFICATE{dashes}");
        assert_eq!(secrets(&certificate), [""; 0]);
        let begin = format!("{dashes}BEGIN PRIVATE KEY{dashes}");
        let whole = format!("{begin}\n{body}{end}");
        assert_eq!(secrets(&format!("{whole} {whole}")), [&*whole, &*whole]);
    }

    #[test]
    fn tokens_of_known_services_are_found() {
        for (prefix, length) in [
            ("ghp_", 36),
            ("gho_", 36),
            ("ghs_", 36),
            ("github_pat_", 82),
            ("glpat-", 20),
            ("sk-", 48),
            ("sk-proj-", 100),
            ("sk_live_", 24),
            ("xoxb-", 40),
            ("npm_", 36),
            ("hf_", 34),
            ("cio", 32),
            ("AIza", 35),
            ("dckr_pat_", 27),
        ] {
            let token = token(prefix, length);
            assert_eq!(secrets(&format!("a={token}, b")), [token.as_str()]);
        }
        assert_eq!(secrets("id AKIAIOSFODNN7EXAMPLE."), ["AKIAIOSFODNN7EXAMPLE"]);
        let jwt = format!("{}.{}.{}", token("eyJ", 30), token("eyJ", 60), token("", 43));
        assert_eq!(secrets(&format!("'{jwt}'")), [jwt.as_str()]);
    }

    #[test]
    fn of_a_url_and_a_header_only_the_secret_is_taken() {
        assert_eq!(secrets("fetch https://me:hunter2@example.com:80/a"), ["hunter2"]);
        assert_eq!(secrets("redis://:hunter2@localhost"), ["hunter2"]);
        assert_eq!(secrets("Authorization: Bearer abcdefghijklmnop.q"), ["abcdefghijklmnop.q"]);
        assert_eq!(secrets("authorization: basic dXNlcjpwYXNz"), ["dXNlcjpwYXNz"]);
        assert!(secrets("ssh://git@example.com:22/a https://example.com/@me bearer of news").is_empty());
    }

    #[test]
    fn a_private_key_is_found_whole_cut_off_and_escaped() {
        let key = "-----BEGIN OPENSSH PRIVATE KEY-----\nAb+/=\nCd\n-----END OPENSSH PRIVATE KEY-----";
        assert_eq!(secrets(&format!("x {key} y")), [key]);
        let escaped = key.replace('\n', "\\n");
        assert_eq!(secrets(&format!("{{\"key\":\"{escaped}\"}}")), [escaped.as_str()]);
        let cut = "-----BEGIN PRIVATE KEY-----\nAbCd\n";
        assert_eq!(secrets(&format!("{cut}, and so on")), [cut]);
    }

    #[test]
    fn names_of_tests_and_files_are_left_alone() {
        let text = "test bart::hf_fwd_with_a_very_long_name_that_goes_on_and_on ... ok\n\
                    /target/task-with-a-rather-long-name-in-kebab-case-and-more/deps/cio_precision\n\
                    4f1c2aa0123456789abcdef0123456789abcdef0 npm_install sk-learn";
        assert_eq!(secrets(text), Vec::<&str>::new());
    }
}
