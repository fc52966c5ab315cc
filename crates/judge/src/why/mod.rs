//! Which call sites make a difference: recorded stacks, matched across revisions and with the diff.
//! `explanations` reads the run's folder; the rest is pure.

pub mod agreement;
pub mod attribution;
mod callees;
pub mod causes;
pub mod chosen;
pub mod class;
mod containers;
pub mod difference;
mod dominators;
pub mod explanations;
pub mod frame;
pub mod freed_by;
pub mod function_path;
pub mod functions;
pub mod grouping;
pub mod heap_snapshot;
pub mod held;
pub mod hunks;
pub mod items;
mod limits;
mod manifests;
pub(crate) mod matching;
mod own_crates;
pub mod owner_tree;
pub mod reasons;
mod releases;
pub mod room;
pub mod roots;
mod slots;
pub mod stacks;
pub mod stored;
pub mod threads;
mod type_path;
pub mod types;
pub mod versions;
