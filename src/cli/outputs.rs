//! Where a report goes, and in which format: `--format` and `--output` put together.

use camino::Utf8PathBuf;

use crate::report::options::Format;
use crate::support::user_error::UserError;

/// One rendering of the report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// In this format.
    pub format: Format,
    /// Into this file, or to standard output.
    pub file: Option<Utf8PathBuf>,
}

/// The renderings that were asked for.
///
/// The files take the formats in order; with fewer formats than files, the rest go by their extensions; formats beyond
/// the files go to standard output, at most one of them. With files alone, the table is still printed, so that a person sees it.
pub fn outputs(formats: &[Format], files: &[Utf8PathBuf]) -> Result<Vec<Output>, UserError> {
    let mut outputs = Vec::new();
    for (index, file) in files.iter().enumerate() {
        if files[..index].contains(file) {
            return Err(UserError::new(format!("--output {file} stands twice")));
        }
        let folder = file.parent().filter(|folder| !folder.as_str().is_empty());
        if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
            return Err(UserError::new(format!("--output {file}: there is no folder {folder}")));
        }
        if file.is_dir() {
            return Err(UserError::new(format!("--output {file} is a folder"))
                .help(format!("name a file in it: --output {}", file.join("memory.md"))));
        }
        let format = formats.get(index).copied().or_else(|| Format::of_file(file)).ok_or_else(|| {
            UserError::new(format!("the format of --output {file} is not clear from its name"))
                .help("end it in .md, .csv, .json, .xml or .txt, or say --format")
        })?;
        outputs.push(Output { format, file: Some(file.clone()) });
    }
    match formats.get(files.len()..).unwrap_or_default() {
        [] if formats.is_empty() => outputs.push(Output { format: Format::Table, file: None }),
        [] => {}
        [format] => outputs.push(Output { format: *format, file: None }),
        _ => {
            return Err(UserError::new("more than one --format for standard output")
                .help("give each but one of them an --output FILE"));
        }
    }
    Ok(outputs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(formats: &[Format], files: &[&str]) -> Result<Vec<(Format, Option<String>)>, String> {
        let files: Vec<Utf8PathBuf> = files.iter().map(Utf8PathBuf::from).collect();
        outputs(formats, &files)
            .map(|outputs| {
                outputs
                    .into_iter()
                    .map(|output| (output.format, output.file.map(Utf8PathBuf::into_string)))
                    .collect()
            })
            .map_err(|user_error| user_error.rendered())
    }

    #[test]
    fn a_file_that_cannot_be_written_is_told_at_once() {
        assert!(shown(&[], &["no/such/a.md"]).unwrap_err().contains("there is no folder no/such"));
        assert!(shown(&[Format::Csv], &["."]).unwrap_err().contains("is a folder"));
    }

    #[test]
    fn the_table_is_printed_unless_a_format_is_named() {
        assert_eq!(shown(&[], &[]).unwrap(), [(Format::Table, None)]);
        assert_eq!(shown(&[Format::Json], &[]).unwrap(), [(Format::Json, None)]);
        assert_eq!(
            shown(&[], &["a.md"]).unwrap(),
            [(Format::Markdown, Some("a.md".into())), (Format::Table, None)]
        );
    }

    #[test]
    fn files_take_the_formats_in_order_and_then_their_extensions() {
        assert_eq!(
            shown(&[Format::Json], &["a.out", "b.CSV"]).unwrap(),
            [(Format::Json, Some("a.out".into())), (Format::Csv, Some("b.CSV".into()))]
        );
        assert_eq!(
            shown(&[Format::Csv, Format::Table], &["a.csv"]).unwrap(),
            [(Format::Csv, Some("a.csv".into())), (Format::Table, None)]
        );
    }

    #[test]
    fn what_is_not_clear_is_refused() {
        assert!(shown(&[], &["report"]).unwrap_err().contains("not clear from its name"));
        assert!(shown(&[Format::Csv, Format::Json], &[]).unwrap_err().contains("standard output"));
        assert!(shown(&[], &["a.md", "a.md"]).unwrap_err().contains("twice"));
    }
}
