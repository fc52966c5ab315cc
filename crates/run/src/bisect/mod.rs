//! Searches a history for the commit that changed a figure, or measures each of its commits.
//! Measures commits through `run`; the searches themselves are pure.

pub mod chart;
pub mod commit_runner;
pub(crate) mod common_tests;
pub mod end_without_figure;
pub mod history;
pub mod linear_search;
pub mod lockfile;
pub mod merge_search;
pub(crate) mod merged_branches;
pub mod metric_query;
pub mod observations;
pub mod parts;
pub mod record;
pub mod replay;
pub mod report_builder;
pub mod report_data;
pub mod step_comparison;
pub(crate) mod track;
