//! Cargo's own errors: what is shown of all that it wrote to stderr.

use std::borrow::Cow;

/// Returns cargo's own errors: everything from the first line that begins with `error`. If a compiler failed without an
/// error message, what was printed before it says why: a macro may print, or the compiler itself.
pub(crate) fn of_stderr(stderr: &str) -> String {
    let lines: Vec<&str> = stderr.lines().collect();
    let start =
        lines.iter().position(|line| line.starts_with("error")).unwrap_or(lines.len().saturating_sub(10));
    let (before, errors) = lines.split_at(start);
    let mut said = Vec::new();
    if errors.first().is_some_and(|line| line.starts_with("error: could not compile")) {
        said.extend(before.iter().copied().filter(|line| !line.trim().is_empty() && !is_progress(line)));
        said.drain(..said.len().saturating_sub(PRINTED_LINES));
    }
    let is_of_others = |line: &&str| line.starts_with("warning: build failed, waiting for other jobs");
    let mut errors = without_output_of_script(errors);
    if let Some(prefix) = errors.first().and_then(|line| prefix_of_warnings(line)) {
        let warnings = before.iter().filter_map(|line| line.strip_prefix(&prefix));
        let from_error = warnings.skip_while(|line| !line.contains("error")).take(COMPILER_LINES);
        errors.splice(1..1, from_error);
    }
    said.extend(errors.into_iter().filter(|line| !is_of_others(line)).take(20));
    said.into_iter().map(without_arguments).collect::<Vec<_>>().join("\n")
}

/// The number of lines to show that were printed before a compiler failed.
const PRINTED_LINES: usize = 10;

/// The number of lines to show of what a build script passes on from a compiler, such as that of C.
const COMPILER_LINES: usize = 6;

/// How cargo begins the lines that a failed build script passed on as warnings.
fn prefix_of_warnings(error: &str) -> Option<String> {
    let (_, package) = error.split_once(SCRIPT_FAILED)?;
    let mut words = package.trim_start_matches([' ', '`']).split([' ', '`']);
    let (name, version) = (words.next()?, words.next()?.strip_prefix('v')?);
    Some(format!("warning: {name}@{version}: "))
}

/// Whether cargo reports a step: a word that ends in the twelfth column.
fn is_progress(line: &str) -> bool {
    line.split_at_checked(12).is_some_and(|(verb, rest)| {
        let verb = verb.trim_start();
        rest.starts_with(' ') && verb.starts_with(char::is_uppercase) && !verb.contains(' ')
    })
}

/// Leaves out the arguments of a long command that failed.
fn without_arguments(line: &str) -> Cow<'_, str> {
    let Some((before, command)) = line.split_once("process didn't exit successfully: `") else {
        return line.into();
    };
    let Some((command, status)) = command.rsplit_once('`') else { return line.into() };
    match command.char_indices().nth(120) {
        Some((end, _)) => {
            format!("{before}process didn't exit successfully: `{} …`{status}", &command[..end]).into()
        }
        None => line.into(),
    }
}

const SCRIPT_FAILED: &str = "failed to run custom build command for";

/// The number of lines that a build script wrote last and that are shown.
const SCRIPT_LINES: usize = 12;

/// Leaves out what cargo quotes of a failed build script and what says nothing of the reason: its standard output if
/// there is an error output, the beginning of that if it is long, and the stack backtrace.
fn without_output_of_script<'a>(lines: &[&'a str]) -> Vec<&'a str> {
    let is_of_script = lines.first().is_some_and(|line| line.contains(SCRIPT_FAILED));
    let place = |text: &str| lines.iter().position(|line| line.trim() == text);
    let Some(stderr) = place("--- stderr").filter(|_| is_of_script) else { return lines.to_vec() };
    let output = place("--- stdout").filter(|stdout| *stdout < stderr).unwrap_or(stderr);
    let (head, script) = (&lines[..output], &lines[stderr + 1..]);
    let end = |line: &&str| {
        let is_of_cargo = !line.is_empty() && !line.starts_with(' ');
        is_of_cargo || matches!(line.trim(), "stack backtrace:" | "--- stdout" | "--- stderr")
    };
    let end = script.iter().position(end).unwrap_or(script.len());
    let said: Vec<&str> = script[..end].iter().copied().filter(|line| !line.trim().is_empty()).collect();
    let note = "note: To improve backtraces for build dependencies";
    let head = head.iter().copied().filter(|line| !line.starts_with(note));
    head.chain(said[said.len().saturating_sub(SCRIPT_LINES)..].iter().copied()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargos_own_errors_are_shown_without_progress_lines() {
        let stderr =
            "    Updating crates.io index\nerror: failed to select a version for `a`.\n  required by b\n";
        assert_eq!(of_stderr(stderr), "error: failed to select a version for `a`.\n  required by b");
    }

    #[test]
    fn what_a_macro_printed_before_the_compiler_failed_is_shown() {
        let arguments = "--cfg x ".repeat(90);
        let stderr = format!(
            " Downloading crates ...\n   Compiling a v1.0.0\nERROR:  use --all-features\n  Run again\n   Compiling b \
             v1.0.0\nerror: could not compile `suite` (lib)\n\nCaused by:\n  process didn't exit successfully: `rustc \
             {arguments}` (exit status: 1)\nwarning: build failed, waiting for other jobs to finish...\n"
        );
        let errors = of_stderr(&stderr);
        assert!(
            errors.starts_with("ERROR:  use --all-features\n  Run again\nerror: could not compile"),
            "{errors}"
        );
        assert!(errors.ends_with(" …` (exit status: 1)") && errors.len() < 300, "{errors}");
    }

    #[test]
    fn a_build_script_passes_on_what_a_compiler_of_another_language_said() {
        let warning = |text: &str| format!("warning: suite@0.1.0: {text}\n");
        let warnings: String =
            ["a.cc:3: warning: unused", "a.cc:1:10: fatal error: a.h: No such file", "    1 | #include"]
                .into_iter()
                .map(warning)
                .collect();
        let stderr = |package: &str| {
            format!(
                "   Compiling suite v0.1.0\nwarning: other@0.1.0: error\n{warnings}error: failed to run custom build \
                 command for `{package}`\n\nCaused by:\n  exit status: 1\n  --- stdout\n  OPT_LEVEL = 0\n  --- stderr\n  \
                 cc-rs: status code 1\n"
            )
        };
        let shown = of_stderr(&stderr("suite v0.1.0 (/work/suite)"));
        assert_eq!(
            shown,
            "error: failed to run custom build command for `suite v0.1.0 (/work/suite)`\na.cc:1:10: fatal error: a.h: No \
             such file\n    1 | #include\n\nCaused by:\n  exit status: 1\n  cc-rs: status code 1"
        );
        assert!(of_stderr(&stderr("suite v0.1.0")).contains("fatal error: a.h"));
        assert!(!of_stderr(&stderr("suite v0.2.0")).contains("fatal error: a.h"));
    }

    #[test]
    fn of_a_failed_build_script_its_last_words_are_shown() {
        let output = "  CMAKE = None\n".repeat(30);
        let stderr = |output: &str| {
            format!(
                "error: failed to run custom build command for `protobuf v0.0.0`\nnote: To improve backtraces for \
                 build dependencies, set …\n\nCaused by:\n  process didn't exit successfully: `build-script-build` \
                 (exit status: 101)\n{output}\n  --- stderr\n  running: cmake\n\n  thread 'main' panicked at \
                 lib.rs:1132:5:\n\n  is `cmake` not installed?\n  stack backtrace:\n     0: \
                 __rustc::rust_begin_unwind\nwarning: build failed, waiting for other jobs to finish...\n"
            )
        };
        let shown = of_stderr(&stderr(&format!("  --- stdout\n{output}")));
        assert_eq!(
            shown,
            "error: failed to run custom build command for `protobuf v0.0.0`\n\nCaused by:\n  process didn't exit \
             successfully: `build-script-build` (exit status: 101)\n  running: cmake\n  thread 'main' panicked at \
             lib.rs:1132:5:\n  is `cmake` not installed?"
        );
        // Of another program, cargo quotes without an indent.
        let other = "error: process didn't exit successfully: `rustc -vV` (exit status: 1)\n--- stderr\nerror: no such toolchain";
        assert_eq!(of_stderr(other), other);
        let only_output = "error: failed to run custom build command for `a`\n  --- stdout\n  no compiler\n";
        assert!(of_stderr(only_output).ends_with("no compiler"));
        let many = stderr("").replace("running: cmake", &"running: cmake\n  ".repeat(30));
        assert!(of_stderr(&many).ends_with("is `cmake` not installed?"));
    }
}
