//! `completions`: a shell's completion script.

use clap::CommandFactory;
use clap_complete::Shell;

use crate::arguments::command::Arguments;
use crate::arguments::setup::CompletionsArguments;
use crate::commands::context::CommandContext;
use memprof_support::exit_code::ExitCode;

/// Prints the script.
pub fn completions(
    context: CommandContext<'_>,
    arguments: &CompletionsArguments,
) -> anyhow::Result<ExitCode> {
    context.print(&script(arguments.shell))
}

/// Returns the script for `cargo-memprof`, with what makes it work for `cargo memprof`, too. In zsh,
/// cargo's own script calls `_cargo-memprof`.
fn script(shell: Shell) -> String {
    let mut script = Vec::new();
    // In bash, clap's script does not find the subcommands of a name with a hyphen.
    let name = if shell == Shell::Bash { "memprof" } else { "cargo-memprof" };
    let mut command = Arguments::command().name(name).bin_name(name);
    clap_complete::generate(shell, &mut command, name, &mut script);
    let mut script =
        String::from_utf8_lossy(&script).replace(" default memprof\n", " default cargo-memprof\n");
    script.push_str(match shell {
        Shell::Bash => THROUGH_CARGO_IN_BASH,
        Shell::Fish => THROUGH_CARGO_IN_FISH,
        _ => "",
    });
    script
}

/// Gives the words after `cargo memprof` to the function above, and all others to cargo's own.
const THROUGH_CARGO_IN_BASH: &str = r#"
_cargo_or_memprof() {
    local first=1
    [[ "${COMP_WORDS[1]}" == +* ]] && first=2
    if [[ "${COMP_WORDS[first]}" == memprof && $COMP_CWORD -gt $first ]]; then
        COMP_WORDS=(cargo-memprof "${COMP_WORDS[@]:first + 1}")
        COMP_CWORD=$((COMP_CWORD - first))
        _memprof cargo-memprof "$2" "$3"
        return
    fi
    if ! declare -F _cargo > /dev/null && declare -F _completion_loader > /dev/null; then
        _completion_loader cargo
        complete -F _cargo_or_memprof -o bashdefault -o default cargo
    fi
    if declare -F _cargo > /dev/null; then
        _cargo "$@"
    fi
}

complete -F _cargo_or_memprof -o bashdefault -o default cargo
"#;

/// Asks for the completions of the same words after `cargo-memprof`.
const THROUGH_CARGO_IN_FISH: &str = r#"
complete -c cargo -n "__fish_seen_subcommand_from memprof" -a "(complete -C 'cargo-memprof '(string join ' ' -- (commandline -opc)[3..] (commandline -ct)))"
"#;

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::*;

    #[test]
    fn every_script_names_the_flags() {
        for shell in Shell::value_variants() {
            assert!(script(*shell).contains("lockfile-from"), "{shell}");
        }
    }

    /// Completes `cargo memprof bisect --goo` and `cargo memprof --ref` in a shell, if it is
    /// installed.
    fn completed(shell: &str, script: &str, ask: &str) -> Option<String> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("script"), script).unwrap();
        let mut command = std::process::Command::new(shell);
        let output = command.current_dir(folder.path()).args(["-c", ask]).output().ok()?;
        Some(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    #[test]
    fn cargo_memprof_is_completed_like_cargo_memprof_with_a_hyphen() {
        let ask = r#"
            _cargo() { COMPREPLY=(of-cargo); }
            . ./script
            ask() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
                    _cargo_or_memprof cargo "${@: -1}" "${@: -2:1}"; echo "${COMPREPLY[*]}"; }
            ask cargo memprof bisect --goo
            ask cargo +nightly memprof --ref
            ask cargo bui"#;
        let bash = completed("bash", &script(Shell::Bash), ask).expect("CI has bash");
        assert_eq!(bash, "--good\n--refs\nof-cargo\n");
        let ask = "source ./script; complete -C 'cargo memprof bisect --goo'";
        if let Some(fish) = completed("fish", &script(Shell::Fish), ask) {
            assert!(fish.contains("--good"), "{fish}");
        }
    }
}
