//! What is kept between marks for lines of the log: traced calls, sizes of blocks, call stacks.
//! The recorder owns each of them.

pub(crate) mod by_thread;
pub(crate) mod call_lines;
pub(crate) mod call_tree;
pub(crate) mod calls;
pub(crate) mod causes;
pub(crate) mod live_size_log;
pub(crate) mod occurrences;
pub(crate) mod passes;
#[cfg_attr(
    not(all(target_os = "linux", target_pointer_width = "64", not(miri))),
    path = "stack_log_elsewhere.rs"
)]
pub(crate) mod stack_log;
pub(crate) mod telling;
pub(crate) mod tensor_groups;
pub(crate) mod traced_function;
