//! Names the tensors of burn, for versions whose tensors have their backend in their type (0.19 to 0.21).
//!
//! ```ignore
//! let _weights = memprof_burn::weights(&model);
//! let _gradients = memprof_burn::gradients(&model, &gradients);
//! ```
//!
//! Parameters are named by their modules. Nothing is copied, and a parameter that is not initialized yet stays so. Burn does not
//! say which tensors share a storage. Quantized tensors are left unnamed.

mod described;

use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::backend::{AutodiffBackend, Backend};
use burn::tensor::{Bool, DType, Int, Tensor};
use described::{DeviceName, Path};
use memprof::{Kind, Names};

/// Names each parameter of a module.
pub fn weights<B: Backend, M: Module<B>>(module: &M) -> Names {
    let mut visitor = Weights { names: Names::new(), path: Path::new() };
    module.visit(&mut visitor);
    visitor.names
}

/// Names the gradient of each parameter of a module that has one, by the parameter's path: `loss.backward()` as it is.
pub fn gradients<B: AutodiffBackend, M: Module<B>>(module: &M, gradients: &B::Gradients) -> Names {
    let mut visitor = OfTensors::<B> { names: Names::new(), path: Path::new(), gradients };
    module.visit(&mut visitor);
    visitor.names
}

/// The same of the gradients for an optimizer.
#[cfg(optim)]
pub fn gradients_params<B: AutodiffBackend, M: Module<B>>(
    module: &M,
    gradients: &burn::optim::GradientsParams,
) -> Names {
    let mut visitor = OfParameters { names: Names::new(), path: Path::new(), gradients };
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
    describe::<B>(names, name, kind, &tensor.dims(), tensor.dtype(), &tensor.device());
}

fn describe<B: Backend>(
    names: &mut Names,
    name: &str,
    kind: Kind,
    shape: &[usize],
    dtype: DType,
    device: &B::Device,
) {
    // What a quantized tensor takes, burn does not say: values smaller than a byte are packed, and scales come on top.
    if matches!(dtype, DType::QFloat(_)) {
        return;
    }
    let device = DeviceName::of(device);
    names.add(memprof::Tensor {
        name,
        kind,
        shape,
        dtype: dtype.name(),
        device: device.device(std::any::type_name::<B>()),
        storage: 0,
        bytes: (shape.iter().product::<usize>() * dtype.size()) as u64,
        allocated: None,
        range: None,
    });
}

struct Weights {
    names: Names,
    path: Path,
}

impl<B: Backend> ModuleVisitor<B> for Weights {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<B, D>>) {
        if param.is_initialized() {
            add(&mut self.names, self.path.as_str(), Kind::Weight, &param.val());
        }
    }

    fn visit_int<const D: usize>(&mut self, param: &Param<Tensor<B, D, Int>>) {
        if param.is_initialized() {
            let tensor = param.val();
            let (shape, dtype) = (tensor.dims(), tensor.dtype());
            describe::<B>(&mut self.names, self.path.as_str(), Kind::Weight, &shape, dtype, &tensor.device());
        }
    }

    fn visit_bool<const D: usize>(&mut self, param: &Param<Tensor<B, D, Bool>>) {
        if param.is_initialized() {
            let tensor = param.val();
            let (shape, dtype) = (tensor.dims(), tensor.dtype());
            describe::<B>(&mut self.names, self.path.as_str(), Kind::Weight, &shape, dtype, &tensor.device());
        }
    }

    fn enter_module(&mut self, name: &str, _container: &str) {
        self.path.enter(name);
    }

    fn exit_module(&mut self, _name: &str, _container: &str) {
        self.path.leave();
    }
}

struct OfTensors<'a, B: AutodiffBackend> {
    names: Names,
    path: Path,
    gradients: &'a B::Gradients,
}

impl<B: AutodiffBackend> ModuleVisitor<B> for OfTensors<'_, B> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<B, D>>) {
        if !param.is_initialized() {
            return;
        }
        if let Some(gradient) = param.val().grad(self.gradients) {
            add(&mut self.names, self.path.as_str(), Kind::Gradient, &gradient);
        }
    }

    fn enter_module(&mut self, name: &str, _container: &str) {
        self.path.enter(name);
    }

    fn exit_module(&mut self, _name: &str, _container: &str) {
        self.path.leave();
    }
}

#[cfg(optim)]
struct OfParameters<'a> {
    names: Names,
    path: Path,
    gradients: &'a burn::optim::GradientsParams,
}

#[cfg(optim)]
impl<B: AutodiffBackend> ModuleVisitor<B> for OfParameters<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<B, D>>) {
        if let Some(gradient) = self.gradients.get::<B::InnerBackend, D>(param.id) {
            add(&mut self.names, self.path.as_str(), Kind::Gradient, &gradient);
        }
    }

    fn enter_module(&mut self, name: &str, _container: &str) {
        self.path.enter(name);
    }

    fn exit_module(&mut self, _name: &str, _container: &str) {
        self.path.leave();
    }
}
