//! The shim against ground truth: programs under `fixtures/shim` that do known things, compiled by plain rustc with the
//! crates under `templates`, as the tool does it.

#[path = "../../templates/memprof/blocks"]
#[expect(dead_code, reason = "the shim's own files, of which the ledger uses a part")]
mod blocks {
    pub(crate) mod site_figures;
    pub(crate) mod size_count;
}
mod body;
mod by_name;
mod courtesy;
mod ending;
mod gpu;
mod gpu_laboratory;
mod gpu_parts;
mod heap;
mod laboratory;
mod layers;
#[path = "../../templates/memprof/lines"]
mod lines {
    pub(crate) mod telling;
}
mod linking;
mod lock;
mod log;
#[path = "../support/log_schema.rs"]
mod log_schema;
mod malloc;
mod miri;
mod owners;
#[path = "../../templates/memprof/platform"]
mod platform {
    #[path = "../../../tests/shim/own_memory.rs"]
    pub(crate) mod own_memory;
    #[expect(dead_code, unsafe_code, reason = "the shim's own file, of which the ledger uses a part")]
    pub(crate) mod untracked;
}
mod pools;
mod random;
mod resident;
mod scopes;
#[path = "../support/skips.rs"]
mod skips;
mod stacks;
mod symbols;
mod tensors;
mod thread_names;
mod traced;
mod usage;
