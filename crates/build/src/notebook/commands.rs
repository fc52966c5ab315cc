//! evcxr's commands: lines at the beginning of a cell that start with a colon.

use crate::notebook::mistake::Mistake;
use memprof_support::suggest;

/// What a command does to the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// `:dep NAME` or `:dep NAME = VALUE`.
    Dependency {
        /// The name of the crate in the program.
        name: String,
        /// What a manifest has to the right of the `=`.
        value: String,
    },
    /// `:dep PATH`.
    LocalDependency {
        /// The folder of the package.
        path: String,
    },
    /// `:opt LEVEL`.
    Optimization(String),
    /// `:fmt FORMAT`: how the last expression is shown.
    Format(String),
    /// `:efmt FORMAT`: whether errors of `?` are shown as `Debug`.
    DebugErrors(bool),
    /// `:toolchain NAME`.
    Toolchain(String),
    /// `:env` and `:build_env`, `NAME=VALUE`.
    Variable(String, String),
    /// Changes nothing in the program.
    Nothing,
}

/// Commands that only show something, or set up evcxr itself.
const WITHOUT_EFFECT: [&str; 23] = [
    ":allow_static_linking",
    ":cache",
    ":clear_cache",
    ":doc",
    ":explain",
    ":help",
    ":internal_debug",
    ":last_compile_dir",
    ":last_error_json",
    ":linker",
    ":load_config",
    ":offline",
    ":preserve_vars_on_panic",
    ":sccache",
    ":show_deps",
    ":t",
    ":time_passes",
    ":timing",
    ":type",
    ":types",
    ":vars",
    ":version",
    ":codegen_backend",
];

/// Commands with an effect.
const WITH_EFFECT: [&str; 7] = [":dep", ":opt", ":fmt", ":efmt", ":toolchain", ":env", ":build_env"];

/// Reads a line that begins with a colon.
pub(crate) fn read(cell: usize, line: usize, text: &str) -> Result<Command, Mistake> {
    let text = text.trim();
    let (command, argument) = text.split_once(' ').unwrap_or((text, ""));
    let argument = argument.trim();
    let mistake =
        |what: String, instead: &str| Err(Mistake { cell, line, what, instead: instead.to_owned() });
    let needs = |what: &str| mistake(format!("`{command}` needs {what}"), &example(command));
    Ok(match (command, argument) {
        (":dep" | ":opt" | ":toolchain", "") => return needs("an argument"),
        (":dep", _) => return dependency(argument).map_or_else(|| needs("`NAME = VALUE`"), Ok),
        (":opt", level) => Command::Optimization(level.to_owned()),
        (":fmt", "") => Command::Format("{:?}".to_owned()),
        (":fmt", format) => Command::Format(format.to_owned()),
        (":efmt", format) => {
            Command::DebugErrors(format.contains('?') || format.eq_ignore_ascii_case("debug"))
        }
        (":toolchain", name) => Command::Toolchain(name.to_owned()),
        (":env" | ":build_env", variable) => match variable.split_once('=') {
            Some((name, value)) => Command::Variable(name.trim().to_owned(), value.to_owned()),
            None => return needs("`NAME=VALUE`"),
        },
        (":clear" | ":restart" | ":quit", _) => {
            return mistake(
                format!("`{command}` ends the state of the cells before it, and a program has one state"),
                "put the cells after it into a notebook of their own, or tag this cell `memprof-skip`",
            );
        }
        (known, _) if WITHOUT_EFFECT.contains(&known) => Command::Nothing,
        (unknown, _) => {
            let known = WITH_EFFECT.iter().chain(&WITHOUT_EFFECT).copied();
            let near = suggest::did_you_mean(unknown, known);
            let instead = near.unwrap_or_else(|| "tag the cell `memprof-skip` to leave it out".to_owned());
            return mistake(format!("evcxr has no command `{unknown}`"), &instead);
        }
    })
}

/// Reads what follows `:dep`, by evcxr's rules.
fn dependency(argument: &str) -> Option<Command> {
    let (name, value) = match argument.split_once('=') {
        Some((name, value)) => (name.trim(), value.trim()),
        None => (argument, "\"*\""),
    };
    if name.is_empty() || name.contains(' ') || value.is_empty() {
        return None;
    }
    if name.starts_with(['.', '/']) {
        return Some(Command::LocalDependency { path: name.to_owned() });
    }
    Some(Command::Dependency { name: name.to_owned(), value: value.to_owned() })
}

fn example(command: &str) -> String {
    let example = match command {
        ":dep" => "for example :dep regex = \"1.10\"",
        ":opt" => "for example :opt 2",
        ":toolchain" => "for example :toolchain nightly",
        _ => "for example :env RUST_LOG=info",
    };
    example.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_follow_evcxrs_rules() {
        let of = |text: &str| read(1, 1, text).unwrap();
        let dependency =
            |name: &str, value: &str| Command::Dependency { name: name.into(), value: value.into() };
        assert_eq!(of(":dep rand"), dependency("rand", "\"*\""));
        assert_eq!(of(":dep rand = \"0.9\""), dependency("rand", "\"0.9\""));
        assert_eq!(of(":dep a = { path = \"../a\" }"), dependency("a", "{ path = \"../a\" }"));
        assert_eq!(of(":dep ./a"), Command::LocalDependency { path: "./a".into() });
        assert_eq!(of(":opt 1"), Command::Optimization("1".into()));
        assert_eq!(of(":efmt {:?}"), Command::DebugErrors(true));
        assert_eq!(of(":env A=b=c"), Command::Variable("A".into(), "b=c".into()));
        assert_eq!(of(":vars"), Command::Nothing);
    }

    #[test]
    fn what_cannot_be_translated_says_what_to_write() {
        let instead = |text: &str| read(2, 3, text).unwrap_err().instead;
        assert_eq!(instead(":dep"), "for example :dep regex = \"1.10\"");
        assert_eq!(instead(":dpe x"), "did you mean ':dep'?");
        assert!(instead(":clear").contains("a notebook of their own"));
        assert!(instead(":env A").contains(":env RUST_LOG=info"));
    }
}
