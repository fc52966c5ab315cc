//! What `AdamW` keeps: candle shows it to nobody, but its text for debugging says of each variable and of both its moments which
//! shape and type they have.

use std::fmt::{self, Write};

use candle_core::{Tensor, Var};
use candle_nn::{AdamW, VarMap};
use memprof::{Kind, Names};

use crate::by_name;

/// Names both moments of each variable, by the variable's path. The optimizer must be of all variables of the map, as from
/// `var_map.all_vars()`.
///
/// # Panics
///
/// If it is not.
pub fn adamw(variables: &VarMap, optimizer: &AdamW) -> Names {
    let mut names = Names::new();
    let variables = variables.data().lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    // Of an unchanged map the order is always the same.
    let mut floats = variables.values().filter(|variable| variable.dtype().is_float());
    let mut current = None;
    let mut place = 0;
    let mut fits = true;
    let each = |tensor: &str| {
        if place % 3 == 0 {
            current = floats.next();
        }
        fits &= current.map_or(false, |variable| is_like(tensor, variable));
        place += 1;
    };
    let written = write!(Tensors::new(each), "{optimizer:?}");
    assert!(
        written.is_ok() && fits && place % 3 == 0 && floats.next().is_none(),
        "memprof_candle::adamw: this optimizer was not made of all variables of this map"
    );
    by_name::each(&variables, |path, variable| {
        if variable.dtype().is_float() {
            add(&mut names, path, variable, "first");
            add(&mut names, path, variable, "second");
        }
    });
    names
}

fn add(names: &mut Names, path: &str, variable: &Var, moment: &str) {
    let tensor: &Tensor = variable.as_tensor();
    let mut name = Line::new();
    let _ = write!(name, "{path}.{moment}_moment");
    crate::with_device(tensor, |device| {
        names.add(memprof::Tensor {
            name: name.as_str(),
            kind: Kind::OptimizerState,
            shape: tensor.dims(),
            dtype: tensor.dtype().as_str(),
            device,
            // A storage of its own, of which no more is known.
            storage: 0,
            bytes: (tensor.elem_count() * tensor.dtype().size_in_bytes()) as u64,
            allocated: None,
            range: None,
        });
    });
}

/// `dims 64, 16; f32`, and with values in place of extents for fewer than ten of one dimension.
fn is_like(text: &str, variable: &Var) -> bool {
    let Some((extents, dtype)) = text.split_once("; ") else { return false };
    let dtype = dtype.split(", ").next().unwrap_or_default();
    let is_shape = match extents.strip_prefix("dims ") {
        Some(extents) => extents.split(", ").map(|extent| extent.parse().ok()).eq(variable
            .dims()
            .iter()
            .copied()
            .map(Some)),
        None => extents.split(", ").filter(|value| !value.is_empty()).count() == variable.elem_count(),
    };
    is_shape && dtype == variable.dtype().as_str()
}

/// Finds what stands between `Tensor[` and `]` in what is written to it.
struct Tensors<F> {
    found: F,
    line: Line,
    is_inside: bool,
}

impl<F: FnMut(&str)> Tensors<F> {
    fn new(found: F) -> Self {
        Self { found, line: Line::new(), is_inside: false }
    }
}

impl<F: FnMut(&str)> fmt::Write for Tensors<F> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for character in text.chars() {
            match (self.is_inside, character) {
                (true, ']') => {
                    (self.found)(self.line.as_str());
                    self.is_inside = false;
                    self.line = Line::new();
                }
                (false, '[') => {
                    self.is_inside = self.line.as_str().ends_with("Tensor");
                    self.line = Line::new();
                }
                (false, character) if !character.is_alphanumeric() => self.line = Line::new(),
                (_, character) => self.line.write_char(character)?,
            }
        }
        Ok(())
    }
}

/// Text of limited length, without the heap.
pub(crate) struct Line {
    bytes: [u8; 512],
    length: usize,
}

impl Line {
    pub(crate) fn new() -> Self {
        Self { bytes: [0; 512], length: 0 }
    }

    pub(crate) fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[..self.length]).unwrap_or_default()
    }
}

impl fmt::Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = self.length + text.len();
        self.bytes.get_mut(self.length..end).ok_or(fmt::Error)?.copy_from_slice(text.as_bytes());
        self.length = end;
        Ok(())
    }
}
