//! A notebook's file: its code cells, and where their outputs are in its text. Outputs are replaced
//! in the text itself, so everything else keeps its bytes.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use memprof_support::user_error::UserError;

/// Cells with one of these tags are left out. The first one is that of nbclient.
pub(crate) const SKIP_TAGS: [&str; 2] = ["skip-execution", "memprof-skip"];

/// The key in an output's metadata that marks a report of this tool.
const MARK: &str = "memprof";

/// A notebook as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    text: String,
    /// The code cells, in order.
    pub cells: Vec<CodeCell>,
}

/// A code cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeCell {
    /// The number among the code cells, from 1.
    pub number: usize,
    /// The id, since version 4.5 of the format.
    pub id: Option<String>,
    /// The text.
    pub source: String,
    /// Whether a tag says to leave it out.
    pub is_skipped: bool,
    /// Where its list of outputs is in the file's text.
    outputs: Option<Range<usize>>,
}

#[derive(Deserialize)]
struct StoredNotebook<'a> {
    nbformat: Option<u64>,
    #[serde(default)]
    metadata: StoredMetadata,
    #[serde(borrow)]
    cells: Option<Vec<&'a RawValue>>,
}

#[derive(Default, Deserialize)]
struct StoredMetadata {
    #[serde(default)]
    kernelspec: StoredLanguage,
    #[serde(default)]
    language_info: StoredLanguage,
}

#[derive(Default, Deserialize)]
struct StoredLanguage {
    language: Option<String>,
    name: Option<String>,
}

#[derive(Deserialize)]
struct StoredCell<'a> {
    cell_type: String,
    id: Option<String>,
    source: Lines,
    #[serde(default)]
    metadata: CellMetadata,
    #[serde(borrow)]
    outputs: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
struct CellMetadata {
    #[serde(default)]
    tags: Vec<String>,
}

/// A text, whole or as a list of lines.
#[derive(Deserialize)]
#[serde(untagged)]
enum Lines {
    Whole(String),
    List(Vec<String>),
}

impl Document {
    /// Reads a notebook. `name` is for messages.
    pub fn read(name: &str, text: String) -> Result<Self, UserError> {
        let stored: StoredNotebook<'_> = serde_json::from_str(&text).map_err(|error| {
            UserError::new(format!("{name} is not a notebook: {error}"))
                .help("name a file that Jupyter wrote: cargo memprof notebook FILE.ipynb")
        })?;
        let (Some(raw), Some(4..)) = (&stored.cells, stored.nbformat) else {
            return Err(UserError::new(format!("{name} is not a notebook of format 4"))
                .help(format!("to convert it: jupyter nbconvert --to notebook --inplace {name}")));
        };
        let language = stored.metadata.language_info.name.or(stored.metadata.kernelspec.language);
        if let Some(other) = language.filter(|language| !language.eq_ignore_ascii_case("rust")) {
            return Err(UserError::new(format!("{name} is a notebook in {other}, and not in Rust"))
                .help("name a notebook with Rust cells, as the kernel of evcxr runs them"));
        }
        let mut cells = Vec::new();
        for raw in raw {
            let unreadable = |error| UserError::new(format!("{name}: a cell cannot be read: {error}"));
            let cell: StoredCell<'_> = serde_json::from_str(raw.get()).map_err(unreadable)?;
            // A report is written among them after the run, which is too late to find that they are no list.
            let outputs = cell.outputs.map_or("[]", RawValue::get);
            serde_json::from_str::<Vec<Value>>(outputs).map_err(unreadable)?;
            if cell.cell_type != "code" {
                continue;
            }
            cells.push(CodeCell {
                number: cells.len() + 1,
                id: cell.id,
                source: match cell.source {
                    Lines::Whole(text) => text,
                    Lines::List(lines) => lines.concat(),
                },
                is_skipped: cell.metadata.tags.iter().any(|tag| SKIP_TAGS.contains(&tag.as_str())),
                outputs: cell.outputs.map(|outputs| place(&text, outputs.get())),
            });
        }
        if cells.is_empty() {
            return Err(UserError::new(format!("{name} has no code cell")));
        }
        Ok(Self { text, cells })
    }

    /// Returns the file's text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the notebook's text in which each of these cells, by number, has this report among
    /// its outputs. It takes the place of an earlier report. All other bytes stay.
    pub fn with_reports(&self, reports: &BTreeMap<usize, Value>) -> anyhow::Result<String> {
        let mut text = String::with_capacity(self.text.len());
        let mut done = 0;
        for cell in &self.cells {
            let Some(range) = &cell.outputs else { continue };
            let mut outputs: Vec<Value> = serde_json::from_str(&self.text[range.clone()])?;
            let before = outputs.clone();
            outputs.retain(|output| output["metadata"].get(MARK).is_none());
            outputs.extend(reports.get(&cell.number).cloned());
            text.push_str(&self.text[done..range.start]);
            if outputs == before {
                text.push_str(&self.text[range.clone()]);
            } else {
                text.push_str(&list(&outputs, &self.indentation(range.start))?);
            }
            done = range.end;
        }
        text.push_str(&self.text[done..]);
        Ok(text)
    }

    /// Returns the white space at the beginning of the line of this byte.
    fn indentation(&self, at: usize) -> String {
        let line = self.text[..at].rfind('\n').map_or(0, |end| end + 1);
        self.text[line..at].chars().take_while(|character| *character == ' ').collect()
    }
}

/// Returns an output with these texts, marked as a report of this tool with these figures.
pub fn report_output(plain: &str, html: &str, figures: Value) -> Value {
    let lines = |text: &str| -> Vec<String> { text.split_inclusive('\n').map(str::to_owned).collect() };
    let mut metadata = serde_json::Map::new();
    metadata.insert(MARK.to_owned(), figures);
    serde_json::json!({
        "data": {"text/html": lines(html), "text/plain": lines(plain)},
        "metadata": metadata,
        "output_type": "display_data",
    })
}

/// Writes a list of outputs as Jupyter does: each level is indented by one more space.
fn list(outputs: &[Value], indentation: &str) -> anyhow::Result<String> {
    use serde::Serialize;
    let mut written = Vec::new();
    let formatter = serde_json::ser::PrettyFormatter::with_indent(b" ");
    outputs.serialize(&mut serde_json::Serializer::with_formatter(&mut written, formatter))?;
    // Line ends in texts are escaped, so each line of the JSON is one of its own.
    Ok(String::from_utf8(written)?.replace('\n', &format!("\n{indentation}")))
}

/// Returns where a part of the text is.
fn place(text: &str, part: &str) -> Range<usize> {
    let start = part.as_ptr() as usize - text.as_ptr() as usize;
    start..start + part.len()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const NOTEBOOK: &str = r##"{
 "cells": [
  {
   "cell_type": "markdown",
   "metadata": {},
   "source": ["# Title\n", "text"]
  },
  {
   "cell_type": "code",
   "execution_count": 1.0,
   "id": "ab-1",
   "metadata": {"tags": ["skip-execution"]},
   "outputs": [],
   "source": ["let x = 1;\n", "x"]
  },
  {
   "cell_type": "code",
   "outputs": [
    {
     "data": {
      "text/plain": "é"
     },
     "metadata": {},
     "output_type": "execute_result"
    }
   ],
   "metadata": {},
   "source": "x + 1"
  }
 ],
 "metadata": {"kernelspec": {"language": "rust"}, "big": 12345678901234567890123},
 "nbformat": 4,
 "nbformat_minor": 5
}
"##;

    fn refused(text: &str) -> UserError {
        Document::read("a.ipynb", text.to_owned()).unwrap_err()
    }

    #[test]
    fn code_cells_are_numbered_and_markdown_is_not() {
        let document = Document::read("a.ipynb", NOTEBOOK.to_owned()).unwrap();
        let facts: Vec<_> = document
            .cells
            .iter()
            .map(|cell| (cell.number, cell.id.as_deref(), cell.source.as_str(), cell.is_skipped))
            .collect();
        assert_eq!(facts, [(1, Some("ab-1"), "let x = 1;\nx", true), (2, None, "x + 1", false)]);
    }

    #[test]
    fn a_report_changes_the_outputs_of_its_cell_and_no_other_byte() {
        let document = Document::read("a.ipynb", NOTEBOOK.to_owned()).unwrap();
        assert_eq!(document.with_reports(&BTreeMap::new()).unwrap(), NOTEBOOK);
        let report = report_output("heap 1 B\n2", "<p>1 B</p>", json!({"heap.consumed": 1}));
        let reports = BTreeMap::from([(2, report)]);
        let written = document.with_reports(&reports).unwrap();
        let added = r#"     "output_type": "execute_result"
    },
    {
     "data": {
      "text/html": [
       "<p>1 B</p>"
      ],
      "text/plain": [
       "heap 1 B\n",
       "2"
      ]
     },
     "metadata": {
      "memprof": {
       "heap.consumed": 1
      }
     },
     "output_type": "display_data"
    }
   ],
"#;
        let old = "     \"output_type\": \"execute_result\"\n    }\n   ],\n";
        assert_eq!(written, NOTEBOOK.replace(old, added));
        let again = Document::read("a.ipynb", written.clone()).unwrap();
        assert_eq!(again.with_reports(&reports).unwrap(), written);
        assert_eq!(again.with_reports(&BTreeMap::new()).unwrap(), NOTEBOOK);
    }

    #[test]
    fn other_files_and_languages_are_refused_with_advice() {
        assert!(refused("x").message.contains("is not a notebook"));
        assert!(refused(r#"{"worksheets": []}"#).help.unwrap().contains("nbconvert"));
        let python = r#"{"nbformat": 4, "cells": [], "metadata": {"language_info": {"name": "python"}}}"#;
        assert!(refused(python).message.contains("in python, and not in Rust"));
        assert!(refused(r#"{"nbformat": 4, "cells": []}"#).message.contains("no code cell"));
    }
}
