//! Forward passes and their layers: what each layer allocates, frees, and keeps to the end of the
//! pass.
//!
//! `layer_log` reads the figures, and `passes` counts. Here is what programs and adapters call.

use std::fmt;
use std::marker::PhantomData;

use crate::lines::passes::{Origin, Output};
use crate::platform::process;
use crate::views::layer_log;

/// Runs code as one call of a layer, and returns its result.
///
/// ```
/// # struct Linear;
/// # impl Linear { fn forward(&self, input: Vec<f32>) -> Vec<f32> { input } }
/// # let (linear, input) = (Linear, vec![0.0_f32; 4]);
/// let hidden = memprof::layer("mlp.0", || linear.forward(input));
/// # assert_eq!(hidden.len(), 4);
/// ```
///
/// The outermost layer on a thread, or a [`forward`] around it, is a forward pass. At its end, the
/// log gets a row for each layer: its calls, the bytes that it allocated, freed, and kept. Bytes
/// count for the innermost layer, so the rows of a pass add up. Layers on other threads than the
/// pass's are not counted.
pub fn layer<T>(name: &str, code: impl FnOnce() -> T) -> T {
    let _call = LayerCall::begin(name);
    code()
}

/// Begins a forward pass, which ends when the returned guard is dropped. Without it, the outermost
/// layer is the pass.
///
/// ```
/// let _pass = memprof::forward("forward");
/// ```
pub fn forward(label: &str) -> Forward {
    let depth = if process::is_recording() { layer_log::begin(label, true, None) } else { 0 };
    Forward { depth, of_thread: PhantomData }
}

/// A forward pass, until it is dropped. [`forward`] makes one.
#[must_use = "a forward pass ends when this is dropped; bind it to a name that begins with an underscore, not to `_`"]
pub struct Forward {
    /// As in [`LayerCall`].
    depth: usize,
    of_thread: PhantomData<*const ()>,
}

impl Drop for Forward {
    #[inline]
    fn drop(&mut self) {
        if self.depth != 0 {
            layer_log::end(self.depth);
        }
    }
}

impl fmt::Debug for Forward {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Forward").field("is_recorded", &(self.depth != 0)).finish()
    }
}

/// One call of a layer, for adapters; it ends when this is dropped.
#[doc(hidden)]
pub struct LayerCall {
    /// How many layers are open with this one; 0 if it is not recorded.
    depth: usize,
    /// A layer ends on the thread on which it began.
    of_thread: PhantomData<*const ()>,
}

#[doc(hidden)]
impl LayerCall {
    #[inline]
    fn at(depth: usize) -> Self {
        Self { depth, of_thread: PhantomData }
    }

    #[inline]
    pub fn begin(name: &str) -> Self {
        Self::at(if process::is_recording() { layer_log::begin(name, false, None) } else { 0 })
    }

    /// As [`begin`](Self::begin). First asks for a number that grows with each tensor; what this
    /// costs counts nowhere.
    pub fn begin_after(name: &str, number: impl FnOnce() -> u64) -> (Self, u64) {
        if !process::is_recording() {
            return (Self::at(0), 0);
        }
        let before = layer_log::levels();
        let number = number();
        (Self::at(layer_log::begin(name, false, before)), number)
    }

    pub fn is_recorded(&self) -> bool {
        self.depth != 0
    }

    /// The layer's output, which is followed to the end of the pass. Once for a call.
    pub fn output(&self, output: Output<'_>) {
        layer_log::keep_output(self.depth, &output);
    }

    /// The numbers of the tensors that the call made: those after the first, up to its output's.
    pub fn made(&self, after: u64, output: u64) {
        layer_log::made(self.depth, after, output);
    }
}

impl Drop for LayerCall {
    #[inline]
    fn drop(&mut self) {
        if self.depth != 0 {
            layer_log::end(self.depth);
        }
    }
}

/// Where the tensor with this number was made, for adapters.
#[doc(hidden)]
pub fn origin(number: u64) -> Option<Origin> {
    layer_log::origin(number)
}
