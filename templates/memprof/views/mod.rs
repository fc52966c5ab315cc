//! What tests and adapters call, apart from checkpoints: scopes, traced functions, layers, tensors, pools.
//! Each asks the recorder for marks, and logs what it measured.

pub(crate) mod call_log;
pub(crate) mod layer_log;
pub(crate) mod layers;
pub(crate) mod parameter;
pub(crate) mod pools;
pub(crate) mod report;
pub(crate) mod scope;
pub(crate) mod scope_log;
pub(crate) mod tensor_log;
pub(crate) mod tensors;
pub(crate) mod trace;
