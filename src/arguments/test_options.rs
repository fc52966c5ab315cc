//! What stands behind `--`: the arguments of a program, if one is named before it. Otherwise options of
//! the test harness, which mean something here too, or have another name.

use std::ffi::OsString;

use memprof_support::process::shell_quoted;

/// Takes what stands behind `--` into the command line, and returns it without `--`.
///
/// # Errors
///
/// An argument that does not mean anything here. The message says what to write.
pub fn taken(argv: Vec<OsString>) -> Result<Vec<OsString>, String> {
    let Some(end) = argv.iter().position(|argument| argument == "--") else { return Ok(argv) };
    let mut taken: Vec<OsString> = argv[..end].to_vec();
    if are_of_program(&argv) {
        taken.extend(argv[end + 1..].iter().map(as_flag));
        return Ok(taken);
    }
    for option in &argv[end + 1..] {
        let option = option.to_string_lossy();
        match &*option {
            // The shown output is that of all tests, so these ask for no more.
            "--nocapture" | "--no-capture" | "--show-output" => {
                let flag = OsString::from("--nocapture");
                if !taken.iter().any(|given| *given == flag || given == "-s") {
                    taken.push(flag);
                }
            }
            other => return Err(format!("'{other}' behind `--`: {}", instead(other))),
        }
    }
    Ok(taken)
}

/// Returns the flag that gives an argument to a program.
fn as_flag(argument: &OsString) -> OsString {
    let mut flag = OsString::from("--arg=");
    flag.push(argument);
    flag
}

/// Returns how a program gets these arguments, where `--` means something else.
pub fn advice<'a>(arguments: impl IntoIterator<Item = &'a OsString>) -> String {
    let flags = arguments.into_iter().map(|argument| shell_quoted(&as_flag(argument)));
    format!("arguments of a program: {}", flags.collect::<Vec<_>>().join(" "))
}

/// Whether what stands behind `--` is for a program, which is named before it.
pub fn are_of_program(argv: &[OsString]) -> bool {
    let before = argv.iter().take_while(|argument| *argument != "--");
    before
        .map(|argument| argument.to_string_lossy())
        .any(|argument| ["--bin", "--example"].contains(&argument.split('=').next().unwrap_or_default()))
}

/// Returns what to write instead of an option of the test harness.
fn instead(option: &str) -> String {
    let name = option.split('=').next().unwrap_or(option);
    match name {
        "--ignored" | "--include-ignored" | "--exact" | "--skip" | "--format" => {
            format!("write {name} without `--` before it; see --help")
        }
        "--test-threads" => {
            "each test runs in a process of its own; for several at once, write --jobs 4 without `--`"
                .to_owned()
        }
        "--list" => "write cargo memprof list".to_owned(),
        "-q" | "--quiet" | "--color" => format!("write {name} without `--` before it"),
        _ if name.starts_with('-') => {
            "tests get no other options than --nocapture; a test reads a variable of --env NAME=VALUE, \
             and a program gets arguments: --bin NAME -- ARGS"
                .to_owned()
        }
        word => format!("write -k {word} to select tests, or {word} without `--` for a ref"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken_of(line: &str) -> Result<String, String> {
        let argv = line.split_whitespace().map(OsString::from).collect();
        taken(argv).map(|argv| argv.join(" ".as_ref()).to_string_lossy().into_owned())
    }

    #[test]
    fn nocapture_means_the_same_behind_the_dashes() {
        assert_eq!(taken_of("x a b -- --nocapture").unwrap(), "x a b --nocapture");
        assert_eq!(taken_of("x -s -- --nocapture").unwrap(), "x -s");
        assert_eq!(taken_of("x a --").unwrap(), "x a");
        assert_eq!(taken_of("x --nocapture").unwrap(), "x --nocapture");
    }

    #[test]
    fn a_program_that_is_named_gets_everything() {
        assert_eq!(
            taken_of("x --bin tool -- --nocapture -- a").unwrap(),
            "x --bin tool --arg=--nocapture --arg=-- --arg=a"
        );
        assert_eq!(taken_of("x --example=demo -- a").unwrap(), "x --example=demo --arg=a");
        assert_eq!(taken_of("x --bin tool --").unwrap(), "x --bin tool");
        assert!(taken_of("x --bin-tests tool -- a").is_err());
    }

    #[test]
    fn all_else_says_what_to_write() {
        for (line, expected) in [
            ("x -- --test-threads=4", "--jobs 4"),
            ("x -- --skip slow", "write --skip without `--` before it"),
            ("x -- decode", "write -k decode to select tests"),
            ("x -- --bench", "--env NAME=VALUE"),
            ("x -- --list", "cargo memprof list"),
        ] {
            let message = taken_of(line).unwrap_err();
            assert!(message.contains(expected), "{message}");
        }
    }
}
