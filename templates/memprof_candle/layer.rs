//! Layers: what a module allocates, frees, and keeps in a forward pass.

use std::ops::Deref;

use candle_core::{DType, Device, Module, ModuleT, Result, Tensor};
use memprof::{LayerCall, Output};

use crate::weak::storage_of;
use crate::{allocated, graph, weak, with_device};

/// A module under a name. [`layer`] makes one.
///
/// ```ignore
/// let mlp = candle_nn::seq()
///     .add(memprof_candle::layer("mlp.0", candle_nn::linear(16, 64, variables.pp("mlp.0"))?))
///     .add(candle_nn::Activation::Relu);
/// ```
#[derive(Clone, Debug)]
pub struct Layer<M> {
    name: String,
    inner: M,
}

/// A module with a switch for training under a name. [`layer_t`] makes one.
#[derive(Clone, Debug)]
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

impl<M> Layer<M> {
    /// Returns the module.
    pub fn into_inner(self) -> M {
        self.inner
    }
}

impl<M> LayerT<M> {
    /// Returns the module.
    pub fn into_inner(self) -> M {
        self.inner
    }
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
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        call(&self.name, input, || self.inner.forward(input))
    }
}

impl<M: ModuleT> ModuleT for LayerT<M> {
    fn forward_t(&self, input: &Tensor, train: bool) -> Result<Tensor> {
        call(&self.name, input, || self.inner.forward_t(input, train))
    }
}

fn call(name: &str, input: &Tensor, code: impl FnOnce() -> Result<Tensor>) -> Result<Tensor> {
    let (call, before) = LayerCall::begin_after(name, prepare);
    let output = code()?;
    if call.is_recorded() {
        let number = graph::number(output.id());
        // Otherwise the layer returned a tensor that existed before.
        if number > before {
            call.made(before, number);
            follow(&call, input, &output);
        }
    }
    Ok(output)
}

/// The number of a tensor that is made now. All later ones have higher numbers.
fn prepare() -> u64 {
    weak::try_once();
    let made = Tensor::zeros((), DType::U8, &Device::Cpu);
    made.map_or(u64::MAX, |made| graph::number(made.id()))
}

/// Follows the output's storage, unless it is the input's.
fn follow(call: &LayerCall, input: &Tensor, output: &Tensor) {
    let storage = storage_of(output);
    if storage == storage_of(input) {
        return;
    }
    let bytes = allocated(&output.storage_and_layout().0);
    if let (Some(bytes), Some(weak)) = (bytes, weak::downgrade(output)) {
        with_device(output, |device| {
            call.output(Output { device, storage, bytes, weak, is_alive: weak::is_alive });
        });
    }
}
