//! Keeps secrets out of everything that the tool stores or prints.
//!
//! A secret is recognized by the name of its variable, by its form, or because it is the value of
//! a secret variable of this process. In its place stands a [mark](Redactor::mark), which differs
//! between secrets: `[redacted, blake3:1a2b3c4d]`. The hash is keyed with the cache's salt, so that
//! nobody can guess a short secret from it.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::{Arc, LazyLock, PoisonError, RwLock};

use memchr::memmem;
use regex::Regex;

use crate::salt::Salt;
use crate::{secret_names, secret_patterns};

/// A shorter value occurs in too many other texts.
const SHORTEST: usize = 8;

/// A line of a secret with several lines is a secret of its own if it is this long.
const SHORTEST_LINE: usize = 16;

/// The text of a mark around its eight digits.
const MARK: (&str, &str) = ("[redacted, blake3:", "]");

/// Replaces secrets by marks.
#[derive(Clone, Debug)]
pub struct Redactor {
    /// Values that are secrets wherever they occur.
    values: BTreeSet<String>,
    salt: Salt,
}

/// Returns a secret as pages, Markdown, XML and CSV have it. They escape a text before its secrets are
/// looked for.
fn escaped(secret: &str) -> [String; 3] {
    let markup = secret.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let attribute = markup.replace('"', "&quot;");
    [markup, attribute, secret.replace('"', "\"\"")]
}

/// The name in `NAME=VALUE`: `token = "x"`, `--cfg api_token="x"`, `{"token": "x"}`.
static NAME: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r#"([A-Za-z][A-Za-z0-9_.-]*)["']?\s*[=:]\s*"#).expect("the pattern is fixed")
});

impl Redactor {
    /// A redactor that knows secrets by form and by name.
    pub fn new(salt: Salt) -> Self {
        Self { values: BTreeSet::new(), salt }
    }

    /// Adds the values of all variables that hold a secret.
    #[must_use]
    pub(crate) fn with_variables(mut self, variables: impl IntoIterator<Item = (String, String)>) -> Self {
        for (name, value) in variables {
            self.learn(&name, &value);
        }
        self
    }

    /// Remembers the secrets in a variable's or setting's value, so that they are found in any
    /// text.
    pub fn learn(&mut self, name: &str, value: &str) {
        if secret_names::is_secret(name) {
            self.learn_value(value);
            return;
        }
        for range in assigned(value) {
            self.learn_value(&value[range]);
        }
    }

    /// Remembers this secret, whatever its name is.
    pub fn learn_value(&mut self, value: &str) {
        let value = value.trim();
        let lines = value.lines().map(str::trim).filter(|line| line.len() >= SHORTEST_LINE);
        let whole = Some(value).filter(|value| value.len() >= SHORTEST);
        for known in whole.into_iter().chain(lines) {
            if !MARK.0.contains(known) {
                self.values.insert(known.to_owned());
                // Reports and plans contain it as JSON has it.
                let quoted = serde_json::Value::from(known).to_string();
                self.values.insert(quoted[1..quoted.len() - 1].to_owned());
                self.values.extend(escaped(known));
            }
        }
    }

    /// Returns the text with marks in place of secrets.
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match self.bytes(text.as_bytes()) {
            Cow::Borrowed(_) => Cow::Borrowed(text),
            // A secret begins and ends between characters, so this changes nothing.
            Cow::Owned(bytes) => Cow::Owned(String::from_utf8_lossy(&bytes).into_owned()),
        }
    }

    /// Returns the bytes with marks in place of secrets.
    pub fn bytes<'a>(&self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        let secrets = self.secrets(bytes);
        if secrets.is_empty() { Cow::Borrowed(bytes) } else { Cow::Owned(self.replaced(bytes, &secrets)) }
    }

    /// Returns where the secrets are, in order and without overlap.
    pub(crate) fn secrets(&self, text: &[u8]) -> Vec<Range<usize>> {
        let mut found = secret_patterns::find(text);
        for value in &self.values {
            let value = value.as_bytes();
            found.extend(memmem::find_iter(text, value).map(|start| start..start + value.len()));
        }
        without_marks(text, merged(found))
    }

    /// Puts a mark in place of each of these ranges.
    pub(crate) fn replaced(&self, text: &[u8], secrets: &[Range<usize>]) -> Vec<u8> {
        let mut replaced = Vec::with_capacity(text.len());
        let mut done = 0;
        for secret in secrets {
            replaced.extend_from_slice(&text[done..secret.start]);
            replaced.extend_from_slice(self.mark(&text[secret.clone()]).as_bytes());
            done = secret.end;
        }
        replaced.extend_from_slice(&text[done..]);
        replaced
    }

    /// Returns what stands in place of a secret. Equal secrets have equal marks.
    pub fn mark(&self, secret: &[u8]) -> String {
        format!("{}{}{}", MARK.0, &self.salt.hash(secret)[..8], MARK.1)
    }

    /// Returns a variable's value, or one mark for the whole value if it holds a secret.
    pub fn value(&self, name: &str, value: &str) -> String {
        let is_named = secret_names::is_secret(name) && !secret_names::is_plain(value);
        let is_secret = is_named || !self.setting_secrets(value).is_empty();
        if is_secret && !is_mark(value) { self.mark(value.as_bytes()) } else { value.to_owned() }
    }

    /// Returns a setting for cargo or rustc, with marks in place of secrets. `NAME=VALUE` in it is
    /// a secret if its name says so.
    pub fn setting<'a>(&self, setting: &'a str) -> Cow<'a, str> {
        let secrets = self.setting_secrets(setting);
        if secrets.is_empty() {
            return Cow::Borrowed(setting);
        }
        let replaced = self.replaced(setting.as_bytes(), &secrets);
        Cow::Owned(String::from_utf8_lossy(&replaced).into_owned())
    }

    fn setting_secrets(&self, setting: &str) -> Vec<Range<usize>> {
        let mut found = self.secrets(setting.as_bytes());
        found.extend(assigned(setting));
        without_marks(setting.as_bytes(), merged(found))
    }

    /// Returns a hash of these bytes that only holders of the salt can compute.
    pub fn keyed_hash(&self, bytes: &[u8]) -> String {
        self.salt.hash(bytes)
    }

    /// The salt of its marks.
    pub fn salt(&self) -> &Salt {
        &self.salt
    }
}

/// Whether a text is a mark and nothing else.
pub fn is_mark(text: &str) -> bool {
    let digits = text.strip_prefix(MARK.0).and_then(|rest| rest.strip_suffix(MARK.1));
    digits.is_some_and(|digits| digits.len() == 8 && digits.bytes().all(|digit| digit.is_ascii_hexdigit()))
}

/// Whether a text contains a mark.
pub fn has_mark(text: &str) -> bool {
    text.contains(MARK.0)
}

/// Returns the values of `NAME=VALUE` in a setting whose names stand for secrets.
fn assigned(setting: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(captures) = NAME.captures_at(setting, at) {
        let (Some(whole), Some(name)) = (captures.get(0), captures.get(1)) else { break };
        at = whole.end();
        if !secret_names::is_secret(name.as_str()) {
            continue;
        }
        let inside = value_in(&setting[at..]);
        let value = at + inside.start..at + inside.end;
        at = value.end;
        if !secret_names::is_plain(&setting[value.clone()]) {
            found.push(value);
        }
    }
    found
}

/// Returns where the value at the beginning of this text is: within quotes, up to a separator, or
/// all of a table or list, because where that ends is not worth knowing.
fn value_in(text: &str) -> Range<usize> {
    let end = |rest: &str, ends: fn(char) -> bool| rest.find(ends).unwrap_or(rest.len());
    match text.chars().next() {
        Some('"') => 1..1 + end(&text[1..], |character| character == '"'),
        Some('\'') => 1..1 + end(&text[1..], |character| character == '\''),
        // A path, as in `auth::check`.
        Some(':') | None => 0..0,
        Some('{' | '[') if !text.starts_with(MARK.0) => 0..text.len(),
        Some(_) if text.starts_with(MARK.0) => 0..0,
        Some(_) => 0..end(text, |character| character.is_whitespace() || "\"',;".contains(character)),
    }
}

/// Sorts the ranges and joins those that touch or overlap.
fn merged(mut ranges: Vec<Range<usize>>) -> Vec<Range<usize>> {
    ranges.retain(|range| !range.is_empty());
    ranges.sort_by_key(|range| (range.start, range.end));
    let mut merged: Vec<Range<usize>> = Vec::new();
    for range in ranges {
        match merged.last_mut().filter(|last| range.start < last.end) {
            Some(last) => last.end = last.end.max(range.end),
            None => merged.push(range),
        }
    }
    merged
}

/// Takes marks out of the ranges, so that redacting twice is redacting once.
fn without_marks(text: &[u8], ranges: Vec<Range<usize>>) -> Vec<Range<usize>> {
    if ranges.is_empty() {
        return ranges;
    }
    let length = MARK.0.len() + 8 + MARK.1.len();
    let marks: Vec<Range<usize>> = memmem::find_iter(text, MARK.0)
        .map(|start| start..start + length)
        .filter(|mark| {
            text.get(mark.clone()).and_then(|mark| std::str::from_utf8(mark).ok()).is_some_and(is_mark)
        })
        .collect();
    let mut without = Vec::new();
    let mut next = marks.iter().peekable();
    for mut range in ranges {
        while next.next_if(|mark| mark.end <= range.start).is_some() {}
        while let Some(mark) = next.peek().filter(|mark| mark.start < range.end) {
            without.push(range.start..mark.start.max(range.start));
            range.start = mark.end.min(range.end);
            if mark.end > range.end {
                break;
            }
            next.next();
        }
        without.push(range);
    }
    without.retain(|range| !range.is_empty());
    without
}

/// The redactor of this process.
static OF_PROCESS: LazyLock<RwLock<Arc<Redactor>>> = LazyLock::new(|| {
    let variables = std::env::vars_os()
        .map(|(name, value)| (name.to_string_lossy().into_owned(), value.to_string_lossy().into_owned()));
    RwLock::new(Arc::new(Redactor::new(Salt::random()).with_variables(variables)))
});

/// Returns the redactor of this process, which knows the secret variables of its environment.
pub fn of_process() -> Arc<Redactor> {
    Arc::clone(&OF_PROCESS.read().unwrap_or_else(PoisonError::into_inner))
}

/// Changes the redactor of this process.
pub fn change(change: impl FnOnce(&mut Redactor)) {
    change(Arc::make_mut(&mut OF_PROCESS.write().unwrap_or_else(PoisonError::into_inner)));
}

/// Lets this process use the salt of a cache.
pub fn use_salt(salt: Salt) {
    change(|redactor| redactor.salt = salt);
}

/// Returns the text with marks in place of secrets.
pub fn text(text: &str) -> Cow<'_, str> {
    of_process().text(text)
}

/// Returns the setting with marks in place of secrets.
pub fn setting(setting: &str) -> Cow<'_, str> {
    of_process().setting(setting)
}

/// Returns the value of a variable, or one mark if it holds a secret.
pub fn value(name: &str, value: &str) -> String {
    of_process().value(name, value)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn redactor() -> Redactor {
        let variables = [
            ("API_TOKEN", "hunter2-hunter2"),
            ("DB_PASSWORD", "a \"quoted\" passwörd"),
            ("SHORT_TOKEN", "abc"),
            ("SESSION", "true"),
            ("BATCH", "not-a-secret"),
        ];
        Redactor::new(Salt::random())
            .with_variables(variables.map(|(name, value)| (name.to_owned(), value.to_owned())))
    }

    #[test]
    fn values_of_secret_variables_are_found_anywhere_and_equal_ones_have_equal_marks() {
        let redactor = redactor();
        let mark = redactor.mark(b"hunter2-hunter2");
        assert!(is_mark(&mark) && mark.starts_with("[redacted, blake3:"), "{mark}");
        assert_eq!(redactor.text("xhunter2-hunter2x hunter2-hunter2"), format!("x{mark}x {mark}"));
        let json = serde_json::json!({"said": "a \"quoted\" passwörd"}).to_string();
        assert!(!redactor.text(&json).contains("passwörd"), "{}", redactor.text(&json));
        assert!(serde_json::from_str::<serde_json::Value>(&redactor.text(&json)).is_ok());
        assert_eq!(redactor.text("abc true not-a-secret"), "abc true not-a-secret");
        assert_ne!(redactor.mark(b"a"), redactor.mark(b"b"));
        assert_ne!(redactor.mark(b"a"), Redactor::new(Salt::random()).mark(b"a"), "a guess needs the salt");
    }

    #[test]
    fn a_secret_is_found_however_a_format_escapes_it() {
        let secret = "pa\"ss<wo>r&d";
        let redactor = Redactor::new(Salt::random()).with_variables([("API_TOKEN".into(), secret.into())]);
        let json = serde_json::Value::from(secret).to_string();
        for text in [
            secret,
            json.as_str(),
            "\"pa\"\"ss<wo>r&d\"",
            "<td>pa&quot;ss&lt;wo&gt;r&amp;d</td>",
            "<td>pa\"ss&lt;wo&gt;r&amp;d</td>",
        ] {
            let redacted = redactor.text(text);
            assert!(!redacted.contains("ss") && redacted.contains(MARK.0), "{text}: {redacted}");
        }
    }

    #[test]
    fn a_value_is_redacted_by_its_name_or_its_form() {
        let redactor = redactor();
        assert!(is_mark(&redactor.value("MY_TOKEN", "abc")));
        assert!(is_mark(&redactor.value("ANY", "before hunter2-hunter2")));
        assert!(is_mark(&redactor.value("PROXY", "http://me:pass@host")));
        assert!(is_mark(&redactor.value("RUSTFLAGS", "--cfg my_token=\"abc\"")));
        assert_eq!(redactor.value("BATCH", "8"), "8");
        assert_eq!(redactor.value("MY_TOKEN", "1"), "1");
        let mark = redactor.mark(b"x");
        assert_eq!(redactor.value("MY_TOKEN", &mark), mark);
    }

    #[test]
    fn an_assignment_in_a_setting_is_redacted_by_its_name() {
        let redactor = redactor();
        let mark = |secret: &str| redactor.mark(secret.as_bytes());
        for (setting, secret) in [
            ("--cfg my_token=\"abc\" -C opt-level=3", "abc"),
            ("--cfg=my_token=\"abc\"", "abc"),
            ("registries.my.token = 'a b'", "a b"),
            ("env.API_TOKEN=abc==", "abc=="),
            ("-Clink-arg=--password=abc", "abc"),
            ("{\"token\": \"abc\"}", "abc"),
            ("registry.token={value=\"abc\"}", "{value=\"abc\"}"),
        ] {
            assert_eq!(redactor.setting(setting), setting.replace(secret, &mark(secret)), "{setting}");
            assert_eq!(redactor.setting(&redactor.setting(setting)), redactor.setting(setting));
        }
        for plain in ["build.jobs=4", "--cfg feature=\"auth\"", "a::auth::b", "net.retry=3", "auth=true"] {
            assert_eq!(redactor.setting(plain), plain);
        }
        let mut redactor = redactor.clone();
        redactor.learn("RUSTFLAGS", "--cfg my_token=\"abcdefgh\"");
        assert_eq!(redactor.text("is abcdefgh"), format!("is {}", redactor.mark(b"abcdefgh")));
    }

    #[test]
    fn a_long_hostile_text_is_redacted_in_linear_time() {
        // A quadratic search would take minutes.
        let redactor = redactor();
        for piece in [
            "-----BEGIN PRIVATE KEY-----",
            "h://:ghp_",
            "sk-",
            "eyJ",
            "bearer ",
            "hunter2-hunter",
            "[redacted, blake3:",
            "ghp_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa ",
            "token=a=\"",
        ] {
            let text = piece.repeat((128 << 10) / piece.len());
            redactor.text(&text);
            redactor.setting(&text);
        }
    }

    /// Texts that are close to secrets: pieces of them, in any order.
    fn pieces() -> impl Strategy<Value = String> {
        let piece = prop_oneof![
            Just("hunter2-hunter2".to_owned()),
            Just("a \"quoted\" passwörd".to_owned()),
            Just("ghp_abcdefghijklmnopqrstuvwxyz0123456789".to_owned()),
            Just("sk-abcdefghijklmnopqrstuvwxyz0123456789".to_owned()),
            Just("-----BEGIN PRIVATE KEY-----\nabc\n".to_owned()),
            Just("-----END PRIVATE KEY-----".to_owned()),
            Just("https://me:pass@host".to_owned()),
            Just("Bearer abcdefghijklmnopq".to_owned()),
            Just("[redacted, blake3:01234567]".to_owned()),
            Just("token=\"".to_owned()),
            Just("eyJabcdefghijkl.eyJabcdefghijkl.abcdefgh".to_owned()),
            "[ a-z:@/=é\"\\]\\[-]{0,12}",
            any::<String>(),
        ];
        prop::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn twice_is_once_and_text_stays_text(text in pieces()) {
            let redactor = redactor();
            let once = redactor.text(&text).into_owned();
            prop_assert_eq!(redactor.text(&once), once.as_str());
            prop_assert!(!once.contains("hunter2-hunter2"));
            let replacement = char::REPLACEMENT_CHARACTER;
            prop_assert!(!once.contains(replacement) || text.contains(replacement));
            prop_assert!(!redactor.setting(&text).contains("hunter2-hunter2"));
        }

        #[test]
        fn any_bytes_are_taken(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let redactor = redactor();
            let once = redactor.bytes(&bytes).into_owned();
            prop_assert_eq!(redactor.bytes(&once).into_owned(), once.clone());
        }
    }
}
