//! Names the tensors of burn 0.13 to 0.18, whose visitors do not get the names of modules.
//!
//! Parameters and gradients are `parameter 0`, `parameter 1` and so on, in burn's order. In these
//! versions a visit initializes a parameter.

#[macro_use]
mod adapter;
mod described;
#[path = "../common/device_name.rs"]
mod device_name;
#[cfg(typed)]
mod element;
#[path = "../common/text.rs"]
mod text;

use burn::module::{Module, ModuleVisitor, ParamId};
use burn::tensor::backend::{AutodiffBackend, Backend};
use burn::tensor::{Bool, Int, Tensor};
use described::Described;
#[cfg(typed)]
use element::element_of;
use memprof::{Kind, Names};
pub use memprof::{forward, layer};
use text::Text;

#[cfg(borrowed_ids)]
type Id<'a> = &'a ParamId;
#[cfg(not(borrowed_ids))]
type Id<'a> = ParamId;

/// The element type of a tensor. Versions without a `DType` have it in the backend only, as
/// `$element`.
macro_rules! element {
    ($tensor:ident, $element:ty) => {{
        #[cfg(typed)]
        let element = element_of($tensor.dtype());
        #[cfg(not(typed))]
        let element = element_of::<$element>();
        element
    }};
}

/// Counts the parameters that have no gradients, so that numbers are the same as for weights.
macro_rules! pass_ints_and_bools {
    () => {
        fn visit_int<const D: usize>(&mut self, _id: Id<'_>, _tensor: &Tensor<B, D, Int>) {
            self.named.passed += 1;
        }

        fn visit_bool<const D: usize>(&mut self, _id: Id<'_>, _tensor: &Tensor<B, D, Bool>) {
            self.named.passed += 1;
        }
    };
}

functions! { backend: B, gradients: B::Gradients }

/// Adds one more tensor of floats to a group.
pub fn add<B: Backend, const D: usize>(names: &mut Names, name: &str, kind: Kind, tensor: &Tensor<B, D>) {
    let (shape, element) = (tensor.dims(), element!(tensor, B::FloatElem));
    describe::<B>(names, name, kind, &shape, element, &tensor.device());
}

fn describe<B: Backend>(
    names: &mut Names,
    name: &str,
    kind: Kind,
    shape: &[usize],
    element: Option<(&str, usize)>,
    device: &B::Device,
) {
    let backend = std::any::type_name::<B>();
    Described { name, kind, shape, element, device, backend }.add_to(names);
}

/// The name and the size in bytes of an element type, for versions without a `DType`.
// The same type as in versions with a `DType`.
#[allow(clippy::unnecessary_wraps)]
#[cfg(not(typed))]
fn element_of<T>() -> Option<(&'static str, usize)> {
    let name = std::any::type_name::<T>();
    Some((name.rsplit("::").next().unwrap_or(name), std::mem::size_of::<T>()))
}

struct Named {
    names: Names,
    /// How many parameters the visitor has passed.
    passed: usize,
}

impl Named {
    fn new() -> Self {
        Self { names: Names::new(), passed: 0 }
    }

    /// The name of the parameter that the visitor is at.
    fn next(&mut self) -> Text<32> {
        let number = self.passed;
        self.passed += 1;
        Text::format(format_args!("parameter {number}"))
    }
}

impl<B: Backend> ModuleVisitor<B> for Weights {
    fn visit_float<const D: usize>(&mut self, _id: Id<'_>, tensor: &Tensor<B, D>) {
        let name = self.named.next();
        add(&mut self.named.names, name.as_str(), Kind::Weight, tensor);
    }

    fn visit_int<const D: usize>(&mut self, _id: Id<'_>, tensor: &Tensor<B, D, Int>) {
        let name = self.named.next();
        let (shape, element) = (tensor.dims(), element!(tensor, B::IntElem));
        describe::<B>(&mut self.named.names, name.as_str(), Kind::Weight, &shape, element, &tensor.device());
    }

    fn visit_bool<const D: usize>(&mut self, _id: Id<'_>, tensor: &Tensor<B, D, Bool>) {
        let name = self.named.next();
        let (shape, element) = (tensor.dims(), element!(tensor, bool));
        describe::<B>(&mut self.named.names, name.as_str(), Kind::Weight, &shape, element, &tensor.device());
    }
}

impl<B: AutodiffBackend> ModuleVisitor<B> for OfTensors<'_, B::Gradients> {
    fn visit_float<const D: usize>(&mut self, _id: Id<'_>, tensor: &Tensor<B, D>) {
        let name = self.named.next();
        if let Some(gradient) = tensor.grad(self.gradients) {
            add(&mut self.named.names, name.as_str(), Kind::Gradient, &gradient);
        }
    }

    pass_ints_and_bools!();
}

impl<B: AutodiffBackend> ModuleVisitor<B> for OfParameters<'_> {
    fn visit_float<const D: usize>(&mut self, id: Id<'_>, _tensor: &Tensor<B, D>) {
        let name = self.named.next();
        if let Some(gradient) = self.gradients.get::<B::InnerBackend, D>(id) {
            add(&mut self.named.names, name.as_str(), Kind::Gradient, &gradient);
        }
    }

    pass_ints_and_bools!();
}
