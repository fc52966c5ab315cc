//! The state of candle's `AdamW`. Its fields are private, but its `Debug` text has the shape and
//! the element type of each variable and of both its moments.

// `Option::is_some_and` needs a newer compiler than the shim does.
#![allow(clippy::unnecessary_map_or)]

use std::fmt::{self, Write};

use candle_core::{Tensor, Var};
use candle_nn::{AdamW, VarMap};
use memprof::{Kind, Names};

use crate::by_name;
use crate::text::Text;

/// Names both moments of each variable, by the variable's path: `PATH.first_moment` and
/// `PATH.second_moment`.
///
/// The optimizer must have been made from all variables of the map, for example by
/// `AdamW::new(var_map.all_vars(), …)`.
///
/// # Panics
///
/// If the optimizer was made from other variables.
pub fn adamw(variables: &VarMap, optimizer: &AdamW) -> Names {
    let mut names = Names::new();
    let variables = variables.data().lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    // An unchanged map always has the same order, so this is the order of the optimizer's
    // variables.
    let mut floats = variables.values().filter(|variable| variable.dtype().is_float());
    let mut current = None;
    let mut place = 0;
    let mut fits = true;
    let mut text = Tensors::new(|tensor| {
        if place % 3 == 0 {
            current = floats.next();
        }
        fits &= current.map_or(false, |variable| is_like(tensor, variable));
        place += 1;
    });
    let written = write!(text, "{optimizer:?}");
    assert!(
        written.is_ok() && fits && place % 3 == 0 && floats.next().is_none(),
        "memprof_candle::adamw: the optimizer was not made from all variables of this map; make it from \
         `var_map.all_vars()`"
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
    let name = Line::format(format_args!("{path}.{moment}_moment"));
    crate::with_device(tensor, |device| {
        names.add(memprof::Tensor {
            name: name.as_str(),
            kind: Kind::OptimizerState,
            shape: tensor.dims(),
            dtype: tensor.dtype().as_str(),
            device,
            // Not known, and never shared.
            storage: 0,
            bytes: (tensor.elem_count() * tensor.dtype().size_in_bytes()) as u64,
            allocated: None,
            range: None,
        });
    });
}

/// Whether the text describes a tensor like this variable: `dims 64, 16; f32`. For fewer than ten
/// elements in one dimension, candle writes the values instead of the extents.
fn is_like(text: &str, variable: &Var) -> bool {
    let Some((extents, dtype)) = text.split_once("; ") else { return false };
    let dtype = dtype.split(", ").next().unwrap_or_default();
    let is_shape = match extents.strip_prefix("dims ") {
        Some(extents) => {
            let expected = variable.dims().iter().copied().map(Some);
            extents.split(", ").map(|extent| extent.parse().ok()).eq(expected)
        }
        None => extents.split(", ").filter(|value| !value.is_empty()).count() == variable.elem_count(),
    };
    is_shape && dtype == variable.dtype().as_str()
}

/// A writer that finds the text between each `Tensor[` and `]`.
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

/// No line is longer: a longer one fails, and `adamw` panics.
type Line = Text<512>;
