//! The state of burn's `Adam` and `AdamW`, in versions that show it: 0.19 to 0.21.

use burn::module::{AutodiffModule, ModuleVisitor, Param};
use burn::optim::adaptor::OptimizerAdaptor;
use burn::optim::{Adam, AdamState, AdamW, AdamWState, Optimizer, SimpleOptimizer};
use burn::tensor::Tensor;
use burn::tensor::backend::{AutodiffBackend, Backend};
use memprof::{Kind, Names};

use crate::path::Path;
use crate::text::Text;

/// What the optimizer keeps, by parameter.
type Record<O, M, B> = <OptimizerAdaptor<O, M, B> as Optimizer<M, B>>::Record;

/// An optimizer that keeps two moments of each parameter: `Adam` and `AdamW`.
pub trait Moments<B: Backend>: SimpleOptimizer<B> {
    /// The first and the second moment.
    #[doc(hidden)]
    fn moments<const D: usize>(state: Self::State<D>) -> [Tensor<B, D>; 2];
}

impl<B: Backend> Moments<B> for Adam {
    fn moments<const D: usize>(state: AdamState<B, D>) -> [Tensor<B, D>; 2] {
        [state.momentum.moment_1, state.momentum.moment_2]
    }
}

impl<B: Backend> Moments<B> for AdamW {
    fn moments<const D: usize>(state: AdamWState<B, D>) -> [Tensor<B, D>; 2] {
        [state.momentum.moment_1, state.momentum.moment_2]
    }
}

/// Names both moments of each parameter that has a state, by the parameter's path:
/// `PATH.first_moment` and `PATH.second_moment`. No tensor is copied.
///
/// A parameter has a state after its first step. Each step makes new tensors, so name them again
/// after it.
pub fn optimizer<B: AutodiffBackend, M: AutodiffModule<B>, O: Moments<B::InnerBackend>>(
    module: &M,
    optimizer: &OptimizerAdaptor<O, M, B>,
) -> Names {
    if !memprof::is_measuring() {
        return Names::new();
    }
    let record = optimizer.to_record();
    let mut visitor = OfStates::<O, M, B> { names: Names::new(), path: Path::new(), record };
    module.visit(&mut visitor);
    visitor.names
}

struct OfStates<O: Moments<B::InnerBackend>, M: AutodiffModule<B>, B: AutodiffBackend> {
    names: Names,
    path: Path,
    record: Record<O, M, B>,
}

impl<O: Moments<B::InnerBackend>, M: AutodiffModule<B>, B: AutodiffBackend> ModuleVisitor<B>
    for OfStates<O, M, B>
{
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<B, D>>) {
        let state = match self.record.remove(&param.id) {
            Some(record) => record.into_state::<D>(),
            None => return,
        };
        for (moment, tensor) in ["first", "second"].iter().zip(O::moments(state)) {
            let name = Text::<512>::format(format_args!("{}.{moment}_moment", self.path.as_str()));
            crate::add(&mut self.names, name.as_str(), Kind::OptimizerState, &tensor);
        }
    }

    fn enter_module(&mut self, name: &str, _container: &str) {
        self.path.enter(name);
    }

    fn exit_module(&mut self, _name: &str, _container: &str) {
        self.path.leave();
    }
}
