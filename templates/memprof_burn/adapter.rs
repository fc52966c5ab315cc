//! What all versions of the adapter have in common. The types of burn differ between versions, so
//! these are macros.

/// The public functions, and the visitors that they send through a module. `$backend` is the type
/// parameter for the backend, in versions that have one.
macro_rules! functions {
    ($(backend: $backend:ident,)? gradients: $gradients:ty) => {
        /// Names each parameter of a module. The names last until the guard is dropped.
        pub fn weights<$($backend: Backend,)? M: Module$(<$backend>)?>(module: &M) -> Names {
            let mut visitor = Weights { named: Named::new() };
            module.visit(&mut visitor);
            visitor.named.names
        }

        /// Names the gradient of each parameter that has one, like the parameter itself.
        /// `gradients` is what `loss.backward()` returned.
        #[cfg(autodiff)]
        pub fn gradients<$($backend: AutodiffBackend,)? M: Module$(<$backend>)?>(
            module: &M,
            gradients: &$gradients,
        ) -> Names {
            let mut visitor = OfTensors { named: Named::new(), gradients };
            module.visit(&mut visitor);
            visitor.named.names
        }

        /// The same as [`gradients`], for the gradients that an optimizer takes.
        #[cfg(optim)]
        pub fn gradients_params<$($backend: AutodiffBackend,)? M: Module$(<$backend>)?>(
            module: &M,
            gradients: &burn::optim::GradientsParams,
        ) -> Names {
            let mut visitor = OfParameters { named: Named::new(), gradients };
            module.visit(&mut visitor);
            visitor.named.names
        }

        /// Runs the backward pass as a scope named `backward`. Burn frees the gradients of
        /// activations during the pass; they are in the scope's peak. It does not tell which layer
        /// it is at.
        #[cfg(autodiff)]
        #[track_caller]
        pub fn backward<$($backend: AutodiffBackend,)? const D: usize>(
            loss: &Tensor<$($backend,)? D>,
        ) -> $gradients {
            memprof::measure("backward", || loss.backward()).0
        }

        /// Names one tensor of floats.
        pub fn tensor<$($backend: Backend,)? const D: usize>(
            name: &str,
            kind: Kind,
            tensor: &Tensor<$($backend,)? D>,
        ) -> Names {
            let mut names = Names::new();
            add(&mut names, name, kind, tensor);
            names
        }

        struct Weights {
            named: Named,
        }

        #[cfg(autodiff)]
        struct OfTensors<'a, G> {
            named: Named,
            gradients: &'a G,
        }

        #[cfg(optim)]
        struct OfParameters<'a> {
            named: Named,
            gradients: &'a burn::optim::GradientsParams,
        }
    };
}

// `without_names.rs` has visitors of its own.
#[allow(unused_macros)]
/// The rest, for versions whose visitors get a `Param` and the names of modules. `$value` is the
/// method that returns a parameter's tensor without initializing it.
macro_rules! visitors_by_path {
    ($(backend: $backend:ident,)? gradients: $gradients:ty, device: $device:ty, value: $value:ident) => {
        /// Adds one more tensor of floats to a group.
        pub fn add<$($backend: Backend,)? const D: usize>(
            names: &mut Names,
            name: &str,
            kind: Kind,
            tensor: &Tensor<$($backend,)? D>,
        ) {
            let shape = tensor.dims();
            describe::<$($backend)?>(names, name, kind, &shape, tensor.dtype(), &tensor.device());
        }

        fn describe<$($backend: Backend)?>(
            names: &mut Names,
            name: &str,
            kind: Kind,
            shape: &[usize],
            dtype: DType,
            device: &$device,
        ) {
            let backend = visitors_by_path!(@name $($backend)?);
            Described { name, kind, shape, element: element_of(dtype), device, backend }.add_to(names);
        }

        struct Named {
            names: Names,
            path: Path,
        }

        impl Named {
            fn new() -> Self {
                Self { names: Names::new(), path: Path::new() }
            }
        }

        impl<$($backend: Backend)?> ModuleVisitor$(<$backend>)? for Weights {
            fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<$($backend,)? D>>) {
                if param.is_initialized() {
                    add(&mut self.named.names, self.named.path.as_str(), Kind::Weight, &param.$value());
                }
            }

            visitors_by_path!(@weight visit_int, Int, [$($backend)?], $value);
            visitors_by_path!(@weight visit_bool, Bool, [$($backend)?], $value);
            visitors_by_path!(@modules);
        }

        #[cfg(autodiff)]
        impl<$($backend: AutodiffBackend)?> ModuleVisitor$(<$backend>)? for OfTensors<'_, $gradients> {
            fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<$($backend,)? D>>) {
                if !param.is_initialized() {
                    return;
                }
                if let Some(gradient) = param.$value().grad(self.gradients) {
                    add(&mut self.named.names, self.named.path.as_str(), Kind::Gradient, &gradient);
                }
            }

            visitors_by_path!(@modules);
        }

        #[cfg(optim)]
        impl<$($backend: AutodiffBackend)?> ModuleVisitor$(<$backend>)? for OfParameters<'_> {
            fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<$($backend,)? D>>) {
                if let Some(gradient) = self.gradients.get::<$($backend::InnerBackend,)? D>(param.id) {
                    add(&mut self.named.names, self.named.path.as_str(), Kind::Gradient, &gradient);
                }
            }

            visitors_by_path!(@modules);
        }
    };
    (@weight $visit:ident, $element:ident, [$($backend:ident)?], $value:ident) => {
        fn $visit<const D: usize>(&mut self, param: &Param<Tensor<$($backend,)? D, $element>>) {
            if param.is_initialized() {
                let tensor = param.$value();
                let (shape, dtype) = (tensor.dims(), tensor.dtype());
                let Named { names, path } = &mut self.named;
                describe::<$($backend)?>(names, path.as_str(), Kind::Weight, &shape, dtype, &tensor.device());
            }
        }
    };
    (@name) => {
        ""
    };
    (@name $backend:ident) => {
        std::any::type_name::<$backend>()
    };
    (@modules) => {
        fn enter_module(&mut self, name: &str, _container: &str) {
            self.named.path.enter(name);
        }

        fn exit_module(&mut self, _name: &str, _container: &str) {
            self.named.path.leave();
        }
    };
}
