//! Texts for [`nvml`](crate::nvml), which the crate that measures keeps out of the heap's figures.

use std::fmt;

/// A formatted text.
pub(crate) struct Text(String);

impl Text {
    pub(crate) fn of(arguments: fmt::Arguments<'_>) -> Self {
        Self(arguments.to_string())
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// Returns text that stays for the life of the process. The same text is kept once.
pub(crate) fn kept(arguments: fmt::Arguments<'_>) -> &'static str {
    use std::sync::Mutex;

    static KEPT: Mutex<Vec<&'static str>> = Mutex::new(Vec::new());
    let text = arguments.to_string();
    let mut kept = match KEPT.lock() {
        Ok(kept) => kept,
        Err(poisoned) => poisoned.into_inner(),
    };
    if let Some(known) = kept.iter().find(|known| **known == text) {
        return known;
    }
    let text: &'static str = Box::leak(text.into_boxed_str());
    kept.push(text);
    text
}
