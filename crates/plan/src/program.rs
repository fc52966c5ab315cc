//! Programs that run in place of tests: a binary or an example, with its arguments and its standard
//! input.

use std::ffi::OsStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::target_kind::TargetKind;
use memprof_support::process::shell_quoted;
use memprof_support::redaction;
use memprof_support::suggest;
use memprof_support::{labels, secret_names};

/// A program that an entry of `tests` runs. The entry's selection may name its package.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramRequest {
    /// `bin` or `example`.
    pub kind: TargetKind,
    /// The target's name.
    pub name: String,
    /// The arguments. With parameters, `{NAME}` stands for a value.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// The standard input. Without one, that is empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdin: Option<Stdin>,
    /// The exit code that it succeeds with.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub exit_code: u8,
}

/// Whether an exit code is the usual one.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
pub(crate) fn is_zero(code: &u8) -> bool {
    *code == 0
}

/// What a program reads from its standard input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stdin {
    /// The content of a file.
    File {
        /// The absolute path.
        path: String,
        /// The path as written.
        written: String,
        /// The blake3 hash of its content. Empty until the request is complete.
        hash: String,
    },
    Text {
        text: String,
        /// The blake3 hash.
        hash: String,
    },
}

impl Stdin {
    /// Returns this text as a standard input.
    pub fn of_text(text: &str) -> Self {
        Self::Text { text: text.to_owned(), hash: blake3::hash(text.as_bytes()).to_hex().to_string() }
    }

    /// Returns the hash of the content.
    pub fn hash(&self) -> &str {
        match self {
            Self::File { hash, .. } | Self::Text { hash, .. } => hash,
        }
    }
}

/// What a cell gives its program. It is a part of the cell's identity. Marks stand for secrets.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub struct ProgramCall {
    /// The arguments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// The standard input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdin: Option<StdinId>,
}

/// A standard input by its content.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub struct StdinId {
    /// The file's path as written, or `stdin-text`.
    pub name: String,
    /// The blake3 hash of the content.
    pub hash: String,
}

/// The name of a standard input that is a text.
const STDIN_TEXT: &str = "stdin-text";

impl ProgramCall {
    /// Returns the arguments and the standard input, as a shell takes them.
    pub fn line(&self) -> String {
        let words = self.args.iter().map(|word| shell_quoted(OsStr::new(word)));
        let stdin = self.stdin.iter().map(|stdin| format!("< {}", stdin.name));
        words.chain(stdin).collect::<Vec<_>>().join(" ")
    }

    /// Returns the flags of a command line that give this to a program again. `title` is its cell's.
    pub fn flags(&self, kind: TargetKind, name: &str, title: &str, params: &[(String, String)]) -> String {
        let quoted = |text: &str| shell_quoted(OsStr::new(text));
        let named = format!("--{} {}", kind.as_str(), quoted(name));
        let stdin = self.stdin.as_ref().map(|stdin| stdin.name.as_str());
        if stdin == Some(STDIN_TEXT) {
            // Only memprof.yaml has it.
            return format!("{named} --exact {}", quoted(title));
        }
        let args = self.args.iter().map(|argument| quoted(&format!("--arg={argument}")));
        let stdin = stdin.map(|name| format!("--stdin {}", quoted(name)));
        let params = params.iter().map(|(name, value)| quoted(&format!("{name}={value}")));
        let params = params.map(|param| format!("--param {param}"));
        [named].into_iter().chain(args).chain(stdin).chain(params).collect::<Vec<_>>().join(" ")
    }
}

/// Longer arguments are cut in a cell's name.
const MOST_OF_NAME: usize = 120;

impl ProgramRequest {
    /// Returns the program as `bin tool`.
    pub fn target(&self) -> String {
        target(self.kind, &self.name)
    }

    /// Returns the arguments with the values of parameters.
    ///
    /// # Errors
    /// `{NAME}` is no parameter, although there are some. The second text is the help.
    pub fn arguments(&self, params: &[(String, String)]) -> Result<Vec<String>, (String, String)> {
        if params.is_empty() {
            return Ok(self.args.clone());
        }
        self.args.iter().map(|argument| filled(argument, params)).collect()
    }

    /// Returns what is stored of a call with these arguments.
    pub fn call(&self, args: &[String]) -> ProgramCall {
        let stdin = self.stdin.as_ref().map(|stdin| StdinId {
            name: match stdin {
                Stdin::File { written, .. } => written.clone(),
                Stdin::Text { .. } => STDIN_TEXT.to_owned(),
            },
            hash: stdin.hash().to_owned(),
        });
        ProgramCall { args: sealed(args), stdin }
    }

    /// Returns the name of a cell: the command line, and the parameters that it does not contain.
    pub fn title(&self, call: &ProgramCall, params: &[(String, String)]) -> String {
        let line = format!("{} {}", self.name, call.line()).trim_end().to_owned();
        let is_in_line = |name: &str| self.args.iter().any(|word| word.contains(&format!("{{{name}}}")));
        let others: Vec<String> = (params.iter())
            .filter(|(name, _)| !is_in_line(name))
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        let others = if others.is_empty() { String::new() } else { format!("[{}]", others.join(",")) };
        if line.len() <= MOST_OF_NAME {
            return format!("{line}{others}");
        }
        let hash = blake3::hash(line.as_bytes()).to_hex();
        format!("{} {}{others}", labels::cut(&line, MOST_OF_NAME), &hash[..6])
    }
}

/// Returns a program as `bin tool`.
pub fn target(kind: TargetKind, name: &str) -> String {
    format!("{} {name}", kind.as_str())
}

/// Returns arguments as they are stored, with marks in place of secrets. What follows an option with
/// a secret's name is one: `--token VALUE`.
pub fn sealed(args: &[String]) -> Vec<String> {
    let mut is_secret = false;
    let mut sealed = Vec::new();
    for argument in args {
        let name = argument.trim_start_matches('-');
        sealed.push(if is_secret && !argument.starts_with('-') && !redaction::is_mark(argument) {
            redaction::of_process().mark(argument.as_bytes())
        } else {
            redaction::setting(argument).into_owned()
        });
        is_secret = argument.starts_with("--") && !name.contains('=') && secret_names::is_secret(name);
    }
    sealed
}

/// Fills the placeholders of an argument. `{{NAME}}` is the text `{NAME}`, and other braces are text.
fn filled(argument: &str, params: &[(String, String)]) -> Result<String, (String, String)> {
    let mut filled = String::new();
    let mut rest = argument;
    while let Some(open) = rest.find('{') {
        filled.push_str(&rest[..open]);
        rest = &rest[open..];
        if let Some(name) = name_in(rest, "{{", "}}") {
            filled.extend(["{", name, "}"]);
            rest = &rest[name.len() + 4..];
        } else if let Some(name) = name_in(rest, "{", "}") {
            let Some((_, value)) = params.iter().find(|(known, _)| known == name) else {
                let known: Vec<&str> = params.iter().map(|(name, _)| name.as_str()).collect();
                let help = suggest::did_you_mean_or_list(name, "parameters", &known);
                return Err((
                    format!("no parameter '{name}' for the {{{name}}} in the argument '{argument}'"),
                    format!("{help}\nfor the text {{{name}}}, write {{{{{name}}}}}"),
                ));
            };
            filled.push_str(value);
            rest = &rest[name.len() + 2..];
        } else {
            filled.push('{');
            rest = &rest[1..];
        }
    }
    filled.push_str(rest);
    Ok(filled)
}

/// Returns the name between these braces at the beginning of a text.
fn name_in<'a>(text: &'a str, open: &str, close: &str) -> Option<&'a str> {
    let inner = text.strip_prefix(open)?;
    let end = inner.find(|character: char| !character.is_ascii_alphanumeric() && character != '_')?;
    let is_name = inner[..end].starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    (is_name && inner[end..].starts_with(close)).then(|| &inner[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(args: &[&str]) -> ProgramRequest {
        let args = args.iter().map(|&word| word.to_owned()).collect();
        ProgramRequest { kind: TargetKind::Bin, name: "tool".to_owned(), args, stdin: None, exit_code: 0 }
    }

    fn params(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    #[test]
    fn arguments_take_the_values_of_parameters() {
        let program = program(&["--size={n}", "{{n}}", "{}", r#"{"a":{"b":1}}"#, "-{n}-{m}"]);
        let filled = program.arguments(&params(&[("n", "8"), ("m", "x")])).unwrap();
        assert_eq!(filled, ["--size=8", "{n}", "{}", r#"{"a":{"b":1}}"#, "-8-x"]);
        assert_eq!(program.arguments(&[]).unwrap(), program.args, "without parameters, braces are text");
    }

    #[test]
    fn an_unknown_parameter_names_the_nearest() {
        let (message, help) = program(&["{bacth}"]).arguments(&params(&[("batch", "8")])).unwrap_err();
        assert_eq!(message, "no parameter 'bacth' for the {bacth} in the argument '{bacth}'");
        assert_eq!(help, "did you mean 'batch'?\nfor the text {bacth}, write {{bacth}}");
    }

    #[test]
    fn a_name_is_the_command_line_and_the_parameters_that_it_lacks() {
        let title = |program: &ProgramRequest, pairs: &[(&str, &str)]| {
            let params = params(pairs);
            let call = program.call(&program.arguments(&params).unwrap());
            program.title(&call, &params)
        };
        assert_eq!(title(&program(&[]), &[]), "tool");
        assert_eq!(title(&program(&["--size", "{n}", "a b"]), &[("n", "8")]), "tool --size 8 'a b'");
        assert_eq!(title(&program(&["{n}"]), &[("n", "8"), ("mode", "x")]), "tool 8[mode=x]");
        let stdin =
            Some(Stdin::File { path: "/r/in.txt".into(), written: "in.txt".into(), hash: "h".into() });
        assert_eq!(title(&ProgramRequest { stdin, ..program(&["-x"]) }, &[]), "tool -x < in.txt");
        let call = program(&["-x", "a b"]).call(&["-x".to_owned(), "a b".to_owned()]);
        let flags = call.flags(TargetKind::Bin, "tool", "t", &params(&[("n", "1")]));
        assert_eq!(flags, "--bin tool --arg=-x '--arg=a b' --param n=1");
        let long = |end: &str| title(&program(&[&"a".repeat(200), end]), &[]);
        assert!(long("x").len() < 140 && long("x") != long("y"), "{}", long("x"));
    }

    #[test]
    fn secrets_among_arguments_are_marked() {
        let args = ["--token", "abcdefgh123", "--api-key=zyxwvuts987", "--size", "8"].map(str::to_owned);
        let stored = sealed(&args);
        assert!(redaction::is_mark(&stored[1]), "{stored:?}");
        assert!(!stored[2].contains("zyxw") && stored[2].starts_with("--api-key="), "{stored:?}");
        assert_eq!(sealed(&stored), stored);
        assert_eq!((stored[3].as_str(), stored[4].as_str()), ("--size", "8"));
    }
}
