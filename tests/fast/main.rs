//! Tests that run no cargo: git repositories, options, comparisons, verdicts and reports, each from prepared data.

#[path = "../support/mod.rs"]
mod support;

mod answers;
mod axes;
mod budgets;
mod causes;
mod ci_install;
mod ci_script;
mod comparing;
mod conclusions;
mod contents;
mod courtesy;
mod csv_tables;
mod design;
mod documentation;
mod failed_builds;
mod flags_and_matrix;
mod git;
mod histories_script;
mod hostile_texts;
mod judging;
mod matrix_documentation;
mod matrix_mistakes;
mod memory_crate;
mod merging;
mod metric_table;
mod one_revision;
mod outputs;
mod overlays;
mod pages;
mod pairs;
mod pools;
mod properties;
mod reports;
mod rows;
mod schemas;
mod selected_targets;
mod sides;
mod sizes;
mod slurm;
mod stack_logs;
mod submodules;
mod tensors;
mod trace_events;
mod traced_reports;
mod unmeasured;
mod untouched;
mod upgrades;

mod views;
mod why;
mod why_exports;
mod why_reports;
mod worktree;
mod zoo;
