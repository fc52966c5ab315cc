//! `man`: the manual page in roff. Clap writes some sections; commands, examples and exit codes are
//! written here.

use std::io::{self, Write};

use clap::{Command, CommandFactory};
use clap_mangen::Man;

use crate::arguments::command::Arguments;
use crate::commands::context::CommandContext;
use memprof_support::exit_code::ExitCode;

/// Prints the page.
pub fn man(context: CommandContext<'_>) -> anyhow::Result<ExitCode> {
    context.print(&page()?)
}

fn page() -> io::Result<String> {
    let mut command = Arguments::command();
    command.build();
    let man = Man::new(command.clone());
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    section(&mut page, "SYNOPSIS")?;
    writeln!(
        page,
        "\\fBcargo memprof\\fR [\\fIREF\\fR]... [\\fIOPTIONS\\fR]\n.br\n\\fBcargo memprof\\fR \\fICOMMAND\\fR"
    )?;
    man.render_description_section(&mut page)?;
    commands(&mut page, &command)?;
    man.render_options_section(&mut page)?;
    let parts = [command.get_before_long_help(), command.get_after_long_help()];
    for part in parts.into_iter().flatten().map(ToString::to_string) {
        let (title, lines) = part.split_once(":\n").unwrap_or(("Notes", &part));
        section(&mut page, &title.to_uppercase())?;
        verbatim(&mut page, lines)?;
    }
    Ok(String::from_utf8_lossy(&page).into_owned())
}

fn section(page: &mut impl Write, title: &str) -> io::Result<()> {
    writeln!(page, ".SH {title}")
}

fn commands(page: &mut impl Write, command: &Command) -> io::Result<()> {
    section(page, "COMMANDS")?;
    for command in command.get_subcommands().filter(|command| !command.is_hide_set()) {
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        writeln!(page, ".TP\n\\fB{}\\fR\n{}", escaped(command.get_name()), escaped(&about))?;
    }
    writeln!(
        page,
        ".PP\nThe options below are those of \\fBrun\\fR, the default command. For the options of another command, run"
    )?;
    writeln!(page, "\\fBcargo memprof\\fR \\fICOMMAND\\fR \\fB\\-\\-help\\fR.")
}

/// Writes lines as they are; otherwise roff joins them to paragraphs.
fn verbatim(page: &mut impl Write, lines: &str) -> io::Result<()> {
    writeln!(page, ".nf")?;
    for line in lines.lines() {
        writeln!(page, "{}", escaped(line.strip_prefix("  ").unwrap_or(line)))?;
    }
    writeln!(page, ".fi")
}

/// Escapes text for roff, which reads a line that starts with `.` or `'` as a request.
fn escaped(line: &str) -> String {
    let escaped = line.replace('\\', "\\e").replace('-', "\\-").replace('\'', "\\(aq");
    if escaped.starts_with('.') { format!("\\&{escaped}") } else { escaped }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_every_command_and_the_exit_codes() {
        let page = page().unwrap();
        for command in Arguments::command().get_subcommands() {
            assert!(
                page.contains(&format!(".TP\n\\fB{}\\fR\n", command.get_name())),
                "{}",
                command.get_name()
            );
        }
        assert!(page.contains(".SH EXAMPLES\n.nf\ncargo memprof  "), "{page}");
        assert!(page.contains(".SH EXIT CODES\n.nf\n  0  no regression"), "{page}");
        assert!(!page.contains("(1)"), "{page}");
        assert!(page.contains(".TH cargo-memprof 1") && page.contains("lockfile\\-from"), "{page}");
    }

    #[test]
    fn no_line_is_read_as_a_request() {
        assert_eq!(escaped(". -k 'a\\b'"), "\\&. \\-k \\(aqa\\eb\\(aq");
    }
}
