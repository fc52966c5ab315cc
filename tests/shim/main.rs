//! The shim against ground truth: programs under `fixtures/shim` that do known things, compiled by plain rustc with the
//! crates under `templates`, as the tool does it.

mod body;
mod by_name;
mod courtesy;
mod ending;
mod gpu;
mod gpu_parts;
mod heap;
mod laboratory;
mod layers;
mod linking;
mod lock;
mod log;
mod malloc;
mod miri;
mod own_memory;
mod pools;
mod random;
mod resident;
mod scopes;
#[path = "../../templates/memprof/site_figures.rs"]
#[expect(dead_code, reason = "the shim's own file, of which the ledger uses a part")]
mod site_figures;
#[path = "../../templates/memprof/size_count.rs"]
mod size_count;
#[path = "../support/skips.rs"]
mod skips;
mod stacks;
mod symbols;
mod tensors;
mod traced;
#[path = "../../templates/memprof/untracked.rs"]
#[expect(
    dead_code,
    unsafe_code,
    clippy::pedantic,
    reason = "the shim's own file, of which the ledger uses a part"
)]
mod untracked;
mod usage;
