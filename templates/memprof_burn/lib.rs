//! Names the tensors of burn, for versions whose tensors have their backend in their device (0.22 and later).
//!
//! ```ignore
//! let _weights = memprof_burn::weights(&model);
//! let _gradients = memprof_burn::gradients(&model, &gradients);
//! memprof_burn::pool(&device);
//! ```
//!
//! Parameters are named by their modules. Nothing is copied, and a parameter that is not initialized yet stays so. Burn does not
//! say which tensors share a storage. Quantized tensors are left unnamed.

mod described;

use burn::module::{Module, ModuleVisitor, Param};
#[cfg(autodiff)]
use burn::tensor::Gradients;
use burn::tensor::{Bool, DType, Int, Tensor};
use described::{DeviceName, Path};
use memprof::{Kind, Names};

/// Names each parameter of a module.
pub fn weights<M: Module>(module: &M) -> Names {
    let mut visitor = Weights { names: Names::new(), path: Path::new() };
    module.visit(&mut visitor);
    visitor.names
}

/// Names the gradient of each parameter of a module that has one, by the parameter's path: `loss.backward()` as it is.
#[cfg(autodiff)]
pub fn gradients<M: Module>(module: &M, gradients: &Gradients) -> Names {
    let mut visitor = OfTensors { names: Names::new(), path: Path::new(), gradients };
    module.visit(&mut visitor);
    visitor.names
}

/// The same of the gradients for an optimizer.
#[cfg(optim)]
pub fn gradients_params<M: Module>(module: &M, gradients: &burn::optim::GradientsParams) -> Names {
    let mut visitor = OfParameters { names: Names::new(), path: Path::new(), gradients };
    module.visit(&mut visitor);
    visitor.names
}

/// Names one tensor of floats.
pub fn tensor<const D: usize>(name: &str, kind: Kind, tensor: &Tensor<D>) -> Names {
    let mut names = Names::new();
    add(&mut names, name, kind, tensor);
    names
}

/// Names one more tensor of floats in a group.
pub fn add<const D: usize>(names: &mut Names, name: &str, kind: Kind, tensor: &Tensor<D>) {
    describe(names, name, kind, &tensor.dims(), tensor.dtype(), &tensor.device());
}

/// Logs what the memory pool of a device says of itself. False where its backend has none or says nothing.
pub fn pool(device: &burn::tensor::Device) -> bool {
    let Some(usage) = device.memory_pool_usage() else { return false };
    let name = DeviceName::of(device);
    memprof::pool(memprof::Pool {
        name: name.as_str(),
        device: name.device(""),
        in_use: usage.bytes_in_use,
        padding: usage.bytes_padding,
        reserved: usage.bytes_reserved,
    });
    true
}

fn describe(
    names: &mut Names,
    name: &str,
    kind: Kind,
    shape: &[usize],
    dtype: DType,
    device: &burn::tensor::Device,
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
        device: device.device(""),
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

impl ModuleVisitor for Weights {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if param.is_initialized() {
            add(&mut self.names, self.path.as_str(), Kind::Weight, &param.base());
        }
    }

    fn visit_int<const D: usize>(&mut self, param: &Param<Tensor<D, Int>>) {
        if param.is_initialized() {
            let tensor = param.base();
            let (shape, dtype) = (tensor.dims(), tensor.dtype());
            describe(&mut self.names, self.path.as_str(), Kind::Weight, &shape, dtype, &tensor.device());
        }
    }

    fn visit_bool<const D: usize>(&mut self, param: &Param<Tensor<D, Bool>>) {
        if param.is_initialized() {
            let tensor = param.base();
            let (shape, dtype) = (tensor.dims(), tensor.dtype());
            describe(&mut self.names, self.path.as_str(), Kind::Weight, &shape, dtype, &tensor.device());
        }
    }

    fn enter_module(&mut self, name: &str, _container: &str) {
        self.path.enter(name);
    }

    fn exit_module(&mut self, _name: &str, _container: &str) {
        self.path.leave();
    }
}

#[cfg(autodiff)]
struct OfTensors<'a> {
    names: Names,
    path: Path,
    gradients: &'a Gradients,
}

#[cfg(autodiff)]
impl ModuleVisitor for OfTensors<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if !param.is_initialized() {
            return;
        }
        if let Some(gradient) = param.base().grad(self.gradients) {
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
impl ModuleVisitor for OfParameters<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if let Some(gradient) = self.gradients.get::<D>(param.id) {
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
