//! `--format` and `--output` put together: each destination with its format.

use camino::Utf8PathBuf;

use memprof_report::options::Format;
use memprof_support::output_file::Target;
use memprof_support::user_error::UserError;

/// One copy of the report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    pub format: Format,
    /// The file; `None` is standard output.
    pub file: Option<Utf8PathBuf>,
}

/// Returns the copies of the report that the flags ask for.
///
/// Files take the formats in order. If there are more files than formats, the extensions decide for
/// the rest. If there are more formats than files, the last one goes to standard output. Without
/// any format, the table is printed as well.
///
/// # Errors
///
/// A file given twice or that cannot be written, an unknown extension, and two formats for standard
/// output.
pub fn outputs(formats: &[Format], files: &[Utf8PathBuf]) -> Result<Vec<Output>, UserError> {
    let mut outputs = Vec::new();
    let mut targets = Vec::new();
    for (index, file) in files.iter().enumerate() {
        let target = Target::find(file)
            .map_err(|error| UserError { message: format!("--output {}", error.message), ..error })?;
        // Several reports may follow each other in a pipe, but the last one would replace a file.
        if matches!(target, Target::File(_)) && targets.contains(&target) {
            return Err(UserError::new(format!("--output {file} is given twice"))
                .help("name another file, such as --output memory.json"));
        }
        targets.push(target);
        let format = formats.get(index).copied().or_else(|| Format::of_file(file)).ok_or_else(|| {
            UserError::new(format!("--output {file} has no known extension, so its format is not clear"))
                .help("use .html, .md, .csv, .json, .sarif, .xml or .txt, or add --format")
        })?;
        outputs.push(Output { format, file: Some(file.clone()) });
    }
    match formats.get(files.len()..).unwrap_or_default() {
        [] if formats.is_empty() => outputs.push(Output { format: Format::Table, file: None }),
        [] => {}
        [format] => outputs.push(Output { format: *format, file: None }),
        _ => {
            return Err(UserError::new("more than one --format for standard output")
                .help("add an --output FILE for each of the other formats"));
        }
    }
    let unnamed = outputs.iter().find(|output| output.format.is_of_call_sites() && output.file.is_none());
    if let Some(unnamed) = unnamed {
        let file = match unnamed.format {
            Format::Dhat => "memory.dhat.json",
            Format::Folded => "memory.folded",
            _ => "memory.pb.gz",
        };
        return Err(UserError::new("call sites need a file: there is one for each test and ref")
            .help(format!("add --output {file}; the names of test and ref are put before its extension")));
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
    fn a_file_that_cannot_be_written_is_an_error_at_once() {
        assert!(shown(&[], &["no/such/a.md"]).unwrap_err().contains("there is no folder no/such"));
        assert!(shown(&[Format::Csv], &["."]).unwrap_err().contains("--output . is a folder"));
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
    fn a_table_with_a_file_leaves_the_next_file_its_extension() {
        let formats = [Format::Json, Format::Table];
        let shown = shown(&formats, &["a.json", "/dev/stdout", "b.sarif"]).unwrap();
        assert_eq!(
            shown[1..],
            [(Format::Table, Some("/dev/stdout".into())), (Format::Sarif, Some("b.sarif".into()))]
        );
    }

    #[test]
    fn an_unclear_format_is_an_error() {
        let unclear = shown(&[], &["report"]).unwrap_err();
        assert!(unclear.contains("has no known extension") && unclear.contains(".sarif"), "{unclear}");
        assert!(shown(&[Format::Csv, Format::Json], &[]).unwrap_err().contains("standard output"));
        for (format, file) in [
            (Format::Pprof, "--output memory.pb.gz;"),
            (Format::Dhat, "--output memory.dhat.json;"),
            (Format::Folded, "--output memory.folded;"),
        ] {
            let error = shown(&[format], &[]).unwrap_err();
            assert!(error.contains("call sites need a file") && error.contains(file), "{error}");
        }
        assert!(shown(&[], &["a.md", "a.md"]).unwrap_err().contains("twice"));
        assert!(shown(&[], &["a.md", "./a.md"]).unwrap_err().contains("twice"));
    }
}
