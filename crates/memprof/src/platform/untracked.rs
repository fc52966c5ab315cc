//! Texts and arrays, which the crate that measures keeps out of the heap's figures.

use std::fmt;
use std::ops::Deref;

/// A growable array.
#[derive(Debug)]
pub(crate) struct Untracked<T: Copy>(Vec<T>);

impl<T: Copy> Untracked<T> {
    pub(crate) const fn new() -> Self {
        Self(Vec::new())
    }

    pub(crate) fn push(&mut self, item: T) {
        self.0.push(item);
    }

    pub(crate) fn extend(&mut self, items: &[T]) {
        self.0.extend_from_slice(items);
    }
}

impl<T: Copy> Deref for Untracked<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

/// A formatted text.
pub(crate) struct Text(String);

impl Text {
    pub(crate) fn format(arguments: fmt::Arguments<'_>) -> Self {
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
