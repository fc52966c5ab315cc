//! What is known of blocks: live bytes and their exact peak, totals, sizes, sites, and whose they are.
//! The crates `memprof_inject` and `memprof_malloc` contain some of these files.

#[cfg(all(target_os = "linux", target_pointer_width = "64", not(miri)))]
pub(crate) mod block_table;
pub(crate) mod harness;
pub(crate) mod live;
pub(crate) mod live_sizes;
pub(crate) mod own_thread;
#[cfg_attr(
    not(all(target_os = "linux", target_pointer_width = "64", not(miri))),
    path = "owner_elsewhere.rs"
)]
pub(crate) mod owner;
pub(crate) mod site_figures;
pub(crate) mod size_count;
pub(crate) mod tally;
