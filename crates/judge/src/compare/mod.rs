//! Compares revisions: matched checkpoints, differences, and the verdict on each.
//! Pure.

mod absent_tests;
pub mod aggregate;
pub mod budget;
pub mod comparison;
pub mod completeness;
pub(crate) mod derived;
pub mod evaluation;
pub mod from_results;
pub(crate) mod joined_intervals;
pub(crate) mod kept_memory;
mod lost_figures;
pub mod matching;
mod moved_with_heap;
pub mod noise;
pub(crate) mod one_sided;
pub(crate) mod paired_tests;
mod program_pages;
pub mod repeats;
mod rule_notes;
mod settling;
pub(crate) mod shared_rounds;
pub(crate) mod shared_storage;
pub mod side_differences;
pub mod standing;
pub mod tensor_comparison;
pub mod tensor_states;
pub(crate) mod test_kinds;
pub mod trace_comparison;
mod unchecked_limits;
mod unchecked_thresholds;
mod unmatched_rules;
pub mod unnamed_blocks;
pub mod whole_test;
