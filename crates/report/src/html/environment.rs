//! The machine, the revisions, and the command that repeats the comparison.

use std::ffi::OsStr;
use std::iter;

use maud::{Markup, html};
use serde_json::Value;

use crate::answer::end_of_range;
use crate::html::shell;
use memprof_judge::compare::comparison::Comparison;
use memprof_plan::resolved::CellId;
use memprof_support::labels::one_line;
use memprof_support::process::shell_quoted;

/// The command names at most so many tests.
const MOST_TESTS: usize = 5;

/// Returns the section at the end of the page.
pub(super) fn section(comparison: &Comparison) -> Markup {
    let mut facts = Vec::new();
    flatten("", &comparison.environment, &mut facts);
    html! {
        section #environment {
            h2 { "Environment" }
            h3 { "Revisions" }
            div.scroll {
                table {
                    thead { tr { th scope="col" { "ref" } th scope="col" { "as given" } th scope="col" { "commit" } th scope="col" { "tree" } } }
                    tbody {
                        @for (index, one) in comparison.revisions.iter().enumerate() {
                            tr {
                                th scope="row" {
                                    (one_line(&one.name))
                                    @if index == comparison.baseline && comparison.revisions.len() > 1 { " (baseline)" }
                                }
                                td { (one_line(&one.spec)) }
                                td { code { (one_line(&one.commit)) } }
                                td { code { (one_line(&one.tree)) } }
                            }
                        }
                    }
                }
            }
            h3 { "To repeat it" }
            @match command(comparison).filter(|command| one_line(command) == *command) {
                Some(command) => { (shell::command(&command)) }
                None => { p { "What was asked is in " code { "plan.json" } " of the run's folder." } }
            }
            @if comparison.has_own_settings {
                p { "Add this comparison's overlays, options of the build and variables: they are in " code { "plan.json" } " of the run's folder." }
            }
            h3 { "Machine" }
            @if facts.is_empty() {
                p { "unknown" }
            } @else {
                details {
                    summary { (facts.len()) " facts" }
                    div.scroll {
                        table {
                            tbody {
                                @for (name, value) in &facts {
                                    tr { th scope="row" { (one_line(name)) } td { (one_line(value)) } }
                                }
                            }
                        }
                    }
                }
            }
            p.quiet {
                "run " code { (one_line(&comparison.id)) } " · planned " (one_line(&comparison.created))
                " · cargo-memprof " (one_line(&comparison.tool))
            }
        }
    }
}

/// The command with the baseline, the candidates, the flags that a search takes too, and the tests if
/// they are few. Pairs of tests within a revision, tests with parameters and several programs have none.
fn command(comparison: &Comparison) -> Option<String> {
    let quoted = |word: &str| shell_quoted(OsStr::new(word));
    let revisions = iter::once(comparison.baseline).chain(comparison.candidates());
    let revisions = revisions.map(|index| &comparison.revisions[index]);
    let refs =
        revisions.map(|one| if one.working_tree { ".".to_owned() } else { quoted(&end_of_range(one)) });
    let mut words: Vec<String> = refs.collect();
    let ids: Vec<&CellId> = comparison.cells.iter().map(|cell| &cell.id).collect();
    if let [id] = ids[..]
        && let Some(call) = &id.program
    {
        words.push(call.flags(id.test.kind, &id.test.binary, &id.title, &id.params));
    } else if ids.iter().any(|id| id.program.is_some() || !id.params.is_empty())
        || comparison.cells.iter().any(|cell| cell.origins.is_some())
    {
        return None;
    } else if ids.len() <= MOST_TESTS {
        words.extend(ids.iter().map(|id| format!("--exact {}", quoted(&id.full_name()))));
    }
    if let Some(search) = &comparison.search {
        words.extend(search.thresholds.iter().map(|rule| format!("--threshold {}", quoted(rule))));
        words.extend(search.words.iter().map(|word| quoted(word)));
    }
    Some(format!("cargo memprof {}", words.join(" ")))
}

/// Lists the values of nested objects by their path.
fn flatten(path: &str, value: &Value, facts: &mut Vec<(String, String)>) {
    let inside = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    match value {
        Value::Null => {}
        Value::Object(fields) => fields.iter().for_each(|(key, value)| flatten(&inside(key), value, facts)),
        Value::Array(all) if all.iter().any(|one| one.is_object() || one.is_array()) => {
            all.iter().enumerate().for_each(|(index, one)| flatten(&inside(&index.to_string()), one, facts));
        }
        Value::Array(all) => {
            let texts: Vec<String> = all.iter().map(plain).collect();
            facts.push((path.to_owned(), texts.join(", ")));
        }
        one => facts.push((path.to_owned(), plain(one))),
    }
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn facts_are_listed_by_their_path() {
        let mut facts = Vec::new();
        flatten("", &json!({ "cpu": { "model": "x", "cores": 2 }, "gpus": [], "none": null }), &mut facts);
        let shown: Vec<String> = facts.iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(shown, ["cpu.cores=2", "cpu.model=x", "gpus="]);
    }
}
