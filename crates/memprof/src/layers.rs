//! Forward passes and their layers.
//!
//! Without `cargo memprof`, this only runs the code.

use std::fmt;
use std::marker::PhantomData;

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
/// Under `cargo memprof`, the outermost layer on a thread, or a [`forward`] around it, is a forward
/// pass. Its report has a row for each layer: its calls, the bytes that it allocated, freed, and
/// kept.
#[inline]
pub fn layer<T>(_name: &str, code: impl FnOnce() -> T) -> T {
    code()
}

/// Begins a forward pass, which ends when the returned guard is dropped. Without it, the outermost
/// layer is the pass.
///
/// ```
/// let _pass = memprof::forward("forward");
/// ```
#[inline]
pub fn forward(_label: &str) -> Forward {
    Forward(PhantomData)
}

/// A forward pass, until it is dropped. [`forward`] makes one.
#[must_use = "a forward pass ends when this is dropped; bind it to a name that begins with an underscore, not to `_`"]
pub struct Forward(PhantomData<*const ()>);

/// As under `cargo memprof`, so that the same code compiles in both.
impl Drop for Forward {
    #[inline]
    fn drop(&mut self) {}
}

impl fmt::Debug for Forward {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Forward").field("is_recorded", &false).finish()
    }
}
