//! Call sites as a file for pprof: one for each revision, so that `pprof -diff_base` compares them.
//!
//! The format is profile.proto, compressed:
//! <https://github.com/google/pprof/blob/main/proto/profile.proto>. Numbers of fields are from there.

use std::io::{self, Write};

use flate2::Compression;
use flate2::write::GzEncoder;
use indexmap::IndexSet;
use rustc_hash::FxBuildHasher;

use memprof_judge::results::stack_log::Figures;
use memprof_judge::why::frame::{Frame, Place};
use memprof_judge::why::stacks::{StackFigures, Stacks};

/// The values of each sample: their names and units. Live objects are not recorded, so there is no
/// `inuse_objects`.
const VALUES: [(&str, &str); 4] =
    [("peak_space", "bytes"), ("inuse_space", "bytes"), ("alloc_space", "bytes"), ("alloc_objects", "count")];

/// Writes a profile. `comment` says what was measured.
pub fn write(stacks: &Stacks, figures: &StackFigures, comment: &str, out: &mut dyn Write) -> io::Result<()> {
    let mut profile = Profile::default();
    profile.text("");
    for (name, unit) in VALUES {
        let value = profile.value_type(name, unit);
        profile.message.bytes(1, &value.0);
    }
    for (node, of_node) in &figures.of_node {
        let locations = profile.locations(&stacks.stack(*node));
        profile.sample(&locations, *of_node);
    }
    if figures.without_stack != Figures::default() {
        let unknown =
            Frame { function: Some("[without a call stack]".to_owned()), ..Frame::unknown(None, 0) };
        let location = profile.locations(&[&unknown]);
        profile.sample(&location, figures.without_stack);
    }
    let mut packed = GzEncoder::new(out, Compression::default());
    packed.write_all(&profile.finish(comment))?;
    packed.finish()?;
    Ok(())
}

/// The tables of a profile. A location is an address: a function and those inlined there.
#[derive(Default)]
struct Profile {
    message: Message,
    texts: IndexSet<String, FxBuildHasher>,
    functions: IndexSet<(u64, u64), FxBuildHasher>,
    /// Function and line, the innermost first.
    locations: IndexSet<Vec<(u64, u64)>, FxBuildHasher>,
}

impl Profile {
    fn text(&mut self, text: &str) -> u64 {
        match self.texts.get_index_of(text) {
            Some(index) => index as u64,
            None => self.texts.insert_full(text.to_owned()).0 as u64,
        }
    }

    fn value_type(&mut self, name: &str, unit: &str) -> Message {
        let mut value = Message::default();
        value.number(1, self.text(name));
        value.number(2, self.text(unit));
        value
    }

    /// Returns the numbers of the locations of a stack, the innermost first.
    fn locations(&mut self, stack: &[&Frame]) -> Vec<u64> {
        let mut locations = Vec::new();
        let mut lines = Vec::new();
        for (index, frame) in stack.iter().enumerate() {
            let name = self.text(&frame.name());
            let file = self.text(&frame.place.as_ref().map(file).unwrap_or_default());
            let function = self.functions.insert_full((name, file)).0 as u64 + 1;
            lines.push((function, u64::from(frame.line.unwrap_or(0))));
            // An inlined function has the address of the one around it.
            if !frame.is_inlined || index + 1 == stack.len() {
                let location = self.locations.insert_full(std::mem::take(&mut lines)).0;
                locations.push(location as u64 + 1);
            }
        }
        locations
    }

    fn sample(&mut self, locations: &[u64], figures: Figures) {
        let Figures { at_peak, live, allocated, count } = figures;
        let mut sample = Message::default();
        sample.packed(1, locations.iter().copied());
        sample.packed(2, [at_peak, live, allocated, count].into_iter().map(i64::cast_unsigned));
        self.message.bytes(2, &sample.0);
    }

    fn finish(mut self, comment: &str) -> Vec<u8> {
        let comment = self.text(comment);
        let period = self.value_type("space", "bytes");
        let default = self.text(VALUES[0].0);
        let mut message = self.message;
        // Functions have names already, so pprof looks for no symbols.
        let mut mapping = Message::default();
        mapping.number(1, 1);
        (7..=10).for_each(|field| mapping.number(field, 1));
        message.bytes(3, &mapping.0);
        for (index, lines) in self.locations.iter().enumerate() {
            let mut location = Message::default();
            location.number(1, index as u64 + 1);
            location.number(2, 1);
            for (function, number) in lines {
                let mut line = Message::default();
                line.number(1, *function);
                line.number(2, *number);
                location.bytes(4, &line.0);
            }
            message.bytes(4, &location.0);
        }
        for (index, (name, file)) in self.functions.iter().enumerate() {
            let mut function = Message::default();
            function.number(1, index as u64 + 1);
            function.number(2, *name);
            function.number(3, *name);
            function.number(4, *file);
            message.bytes(5, &function.0);
        }
        for text in &self.texts {
            message.bytes(6, text.as_bytes());
        }
        message.bytes(11, &period.0);
        message.number(12, 1);
        message.packed(13, std::iter::once(comment));
        message.number(14, default);
        message.0
    }
}

/// Returns a path without a version, so that functions of two revisions are the same.
fn file(place: &Place) -> String {
    match place {
        Place::Checkout(path) | Place::Other(path) => path.clone(),
        Place::Registry { name, path, .. } | Place::Git { name, path, .. } => format!("{name}/{path}"),
        Place::Std(path) => format!("std/{path}"),
        Place::Generated { package, path, .. } => format!("{package}/OUT_DIR/{path}"),
    }
}

/// A message of protocol buffers: <https://protobuf.dev/programming-guides/encoding/>.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn variable(&mut self, mut value: u64) {
        // Seven bits at a time; the eighth says that more follow.
        while value >= 0x80 {
            self.0.push(value.to_le_bytes()[0] | 0x80);
            value >>= 7;
        }
        self.0.push(value.to_le_bytes()[0]);
    }

    fn number(&mut self, field: u64, value: u64) {
        self.variable(field << 3);
        self.variable(value);
    }

    fn bytes(&mut self, field: u64, bytes: &[u8]) {
        self.variable(field << 3 | 2);
        self.variable(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn packed(&mut self, field: u64, values: impl Iterator<Item = u64>) {
        let mut packed = Self::default();
        values.for_each(|value| packed.variable(value));
        self.bytes(field, &packed.0);
    }
}
