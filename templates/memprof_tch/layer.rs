//! Layers: what a module allocates, frees, and keeps in a forward pass.

use std::ops::Deref;

use tch::Tensor;
use tch::nn::{Module, ModuleT};

/// A module under a name. [`layer`] makes one.
///
/// ```ignore
/// let mlp = nn::seq()
///     .add(memprof_tch::layer("mlp.0", nn::linear(&root / "mlp" / 0, 16, 64, Default::default())))
///     .add_fn(|hidden| hidden.relu());
/// ```
#[derive(Debug)]
pub struct Layer<M> {
    name: String,
    inner: M,
}

/// A module with a switch for training under a name. [`layer_t`] makes one.
#[derive(Debug)]
pub struct LayerT<M> {
    name: String,
    inner: M,
}

/// Names a module: each call of `forward` is a call of the layer. Two instances of a type have two
/// names.
pub fn layer<M>(name: impl Into<String>, module: M) -> Layer<M> {
    Layer { name: name.into(), inner: module }
}

/// Names a module with a switch for training.
pub fn layer_t<M>(name: impl Into<String>, module: M) -> LayerT<M> {
    LayerT { name: name.into(), inner: module }
}

impl<M> Deref for Layer<M> {
    type Target = M;

    fn deref(&self) -> &M {
        &self.inner
    }
}

impl<M> Deref for LayerT<M> {
    type Target = M;

    fn deref(&self) -> &M {
        &self.inner
    }
}

impl<M: Module> Module for Layer<M> {
    fn forward(&self, input: &Tensor) -> Tensor {
        memprof::layer(&self.name, || self.inner.forward(input))
    }
}

impl<M: ModuleT> ModuleT for LayerT<M> {
    fn forward_t(&self, input: &Tensor, train: bool) -> Tensor {
        memprof::layer(&self.name, || self.inner.forward_t(input, train))
    }
}

/// Runs the backward pass as a scope named `backward`. libtorch frees the gradients of activations
/// during the pass; they are in the scope's peak. It does not tell which layer it is at.
#[track_caller]
pub fn backward(loss: &Tensor) {
    memprof::measure("backward", || loss.backward());
}
