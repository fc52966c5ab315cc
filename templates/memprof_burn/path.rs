//! The path of the parameter that a visitor is at, without the heap.

use std::fmt::Write;

use crate::text::Text;

/// Names of modules from the outermost to the current one, joined by dots.
pub(crate) struct Path {
    text: Text<512>,
    /// Where each name ends, in bytes.
    ends: [usize; 64],
    depth: usize,
}

impl Path {
    pub(crate) fn new() -> Self {
        Self { text: Text::new(), ends: [0; 64], depth: 0 }
    }

    pub(crate) fn enter(&mut self, name: &str) {
        let start = self.end();
        self.text.truncate(start);
        // A name that does not fit is cut off. Below 64 modules only the depth is counted.
        let _ = write!(self.text, "{}{}", if start == 0 { "" } else { "." }, name);
        if let Some(place) = self.ends.get_mut(self.depth) {
            *place = self.text.length();
        }
        self.depth += 1;
    }

    pub(crate) fn leave(&mut self) {
        self.depth -= 1;
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.text.as_str()[..self.end()]
    }

    fn end(&self) -> usize {
        let last = self.depth.min(self.ends.len());
        last.checked_sub(1).map_or(0, |last| self.ends[last])
    }
}
