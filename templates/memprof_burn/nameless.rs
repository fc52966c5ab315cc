//! Names the tensors of burn, for versions whose visitors are not told the names of parameters (0.13 to 0.18).
//!
//! Parameters are `parameter 0`, `parameter 1` and so on, in the order in which burn visits them, gradients likewise. Those
//! versions initialize a parameter when it is visited.

#[allow(dead_code)]
mod described;

use std::io::Write;

use burn::module::{Module, ModuleVisitor, ParamId};
use burn::optim::GradientsParams;
use burn::tensor::backend::{AutodiffBackend, Backend};
use burn::tensor::{Bool, Int, Tensor};
use described::DeviceName;
use memprof::{Kind, Names};

#[cfg(borrowed_ids)]
type Id<'a> = &'a ParamId;
#[cfg(not(borrowed_ids))]
type Id<'a> = ParamId;

/// Names each parameter of a module.
pub fn weights<B: Backend, M: Module<B>>(module: &M) -> Names {
    let mut visitor = Weights { names: Names::new(), number: Number(0) };
    module.visit(&mut visitor);
    visitor.names
}

/// Names the gradient of each parameter of a module that has one: `loss.backward()` as it is.
pub fn gradients<B: AutodiffBackend, M: Module<B>>(module: &M, gradients: &B::Gradients) -> Names {
    let mut visitor = OfTensors::<B> { names: Names::new(), number: Number(0), gradients };
    module.visit(&mut visitor);
    visitor.names
}

/// The same of the gradients for an optimizer.
pub fn gradients_params<B: AutodiffBackend, M: Module<B>>(module: &M, gradients: &GradientsParams) -> Names {
    let mut visitor = OfParameters { names: Names::new(), number: Number(0), gradients };
    module.visit(&mut visitor);
    visitor.names
}

/// Names one tensor of floats.
pub fn tensor<B: Backend, const D: usize>(name: &str, kind: Kind, tensor: &Tensor<B, D>) -> Names {
    let mut names = Names::new();
    add(&mut names, name, kind, tensor);
    names
}

/// Names one more tensor of floats in a group.
pub fn add<B: Backend, const D: usize>(names: &mut Names, name: &str, kind: Kind, tensor: &Tensor<B, D>) {
    #[cfg(typed)]
    let element = element_of(tensor.dtype());
    #[cfg(not(typed))]
    let element = element::<B::FloatElem>();
    describe::<B>(names, name, kind, &tensor.dims(), element, &tensor.device());
}

/// The name and the size of an element's type.
#[cfg(not(typed))]
fn element<T>() -> Option<(&'static str, usize)> {
    let name = std::any::type_name::<T>();
    Some((name.rsplit("::").next().unwrap_or(name), std::mem::size_of::<T>()))
}

/// What a quantized tensor takes, burn does not say.
#[cfg(typed)]
fn element_of(dtype: burn::tensor::DType) -> Option<(&'static str, usize)> {
    let is_quantized = matches!(dtype, burn::tensor::DType::QFloat(_));
    (!is_quantized).then(|| (dtype.name(), dtype.size()))
}

fn describe<B: Backend>(
    names: &mut Names,
    name: &str,
    kind: Kind,
    shape: &[usize],
    element: Option<(&str, usize)>,
    device: &B::Device,
) {
    let Some((dtype, size)) = element else { return };
    let device = DeviceName::of(device);
    names.add(memprof::Tensor {
        name,
        kind,
        shape,
        dtype,
        device: device.device(std::any::type_name::<B>()),
        storage: 0,
        bytes: (shape.iter().product::<usize>() * size) as u64,
        allocated: None,
        range: None,
    });
}

/// The number of the next parameter.
struct Number(usize);

impl Number {
    fn take(&mut self) -> ([u8; 32], usize) {
        let mut name = [0; 32];
        let mut rest = &mut name[..];
        let _ = write!(rest, "parameter {}", self.0);
        let length = 32 - rest.len();
        self.0 += 1;
        (name, length)
    }
}

fn text(name: &([u8; 32], usize)) -> &str {
    std::str::from_utf8(&name.0[..name.1]).unwrap_or_default()
}

struct Weights {
    names: Names,
    number: Number,
}

impl<B: Backend> ModuleVisitor<B> for Weights {
    fn visit_float<const D: usize>(&mut self, _id: Id<'_>, tensor: &Tensor<B, D>) {
        let name = self.number.take();
        add(&mut self.names, text(&name), Kind::Weight, tensor);
    }

    fn visit_int<const D: usize>(&mut self, _id: Id<'_>, tensor: &Tensor<B, D, Int>) {
        #[cfg(typed)]
        let element = element_of(tensor.dtype());
        #[cfg(not(typed))]
        let element = element::<B::IntElem>();
        let name = self.number.take();
        let (shape, device) = (tensor.dims(), tensor.device());
        describe::<B>(&mut self.names, text(&name), Kind::Weight, &shape, element, &device);
    }

    fn visit_bool<const D: usize>(&mut self, _id: Id<'_>, tensor: &Tensor<B, D, Bool>) {
        #[cfg(typed)]
        let element = element_of(tensor.dtype());
        #[cfg(not(typed))]
        let element = element::<bool>();
        let name = self.number.take();
        let (shape, device) = (tensor.dims(), tensor.device());
        describe::<B>(&mut self.names, text(&name), Kind::Weight, &shape, element, &device);
    }
}

struct OfTensors<'a, B: AutodiffBackend> {
    names: Names,
    number: Number,
    gradients: &'a B::Gradients,
}

impl<B: AutodiffBackend> ModuleVisitor<B> for OfTensors<'_, B> {
    fn visit_float<const D: usize>(&mut self, _id: Id<'_>, tensor: &Tensor<B, D>) {
        let name = self.number.take();
        if let Some(gradient) = tensor.grad(self.gradients) {
            add(&mut self.names, text(&name), Kind::Gradient, &gradient);
        }
    }

    fn visit_int<const D: usize>(&mut self, _id: Id<'_>, _tensor: &Tensor<B, D, Int>) {
        self.number.0 += 1;
    }

    fn visit_bool<const D: usize>(&mut self, _id: Id<'_>, _tensor: &Tensor<B, D, Bool>) {
        self.number.0 += 1;
    }
}

struct OfParameters<'a> {
    names: Names,
    number: Number,
    gradients: &'a GradientsParams,
}

impl<B: AutodiffBackend> ModuleVisitor<B> for OfParameters<'_> {
    fn visit_float<const D: usize>(&mut self, id: Id<'_>, _tensor: &Tensor<B, D>) {
        let name = self.number.take();
        if let Some(gradient) = self.gradients.get::<B::InnerBackend, D>(id) {
            add(&mut self.names, text(&name), Kind::Gradient, &gradient);
        }
    }

    fn visit_int<const D: usize>(&mut self, _id: Id<'_>, _tensor: &Tensor<B, D, Int>) {
        self.number.0 += 1;
    }

    fn visit_bool<const D: usize>(&mut self, _id: Id<'_>, _tensor: &Tensor<B, D, Bool>) {
        self.number.0 += 1;
    }
}
