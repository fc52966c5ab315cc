//! The programs of a request: those that `--bin` and `--example` name, or else those of memprof.yaml.

use camino::Utf8Path;

use crate::arguments::cargo::CargoArguments;
use crate::request::surroundings::{Surroundings, normalized};
use memprof_build::store;
use memprof_plan::config::matrix::TestEntry;
use memprof_plan::config::values::{ExpectedCode, Value};
use memprof_plan::config::yaml::{List, Scalar};
use memprof_plan::program::{ProgramRequest, Stdin, target};
use memprof_plan::request::{Request, TargetKind, TestRequest};
use memprof_support::user_error::UserError;

/// Returns the program of an entry of memprof.yaml.
pub fn of_entry(entry: &TestEntry, surroundings: Surroundings<'_>) -> Option<ProgramRequest> {
    let of = |kind| move |Scalar(name): &Scalar<String>| (kind, name.clone());
    let bin = entry.bin.as_ref().map(of(TargetKind::Bin));
    let (kind, name) = bin.or_else(|| entry.example.as_ref().map(of(TargetKind::Example)))?;
    let file = entry.stdin.as_ref().map(|Scalar(written)| Stdin::File {
        path: normalized(&surroundings.matrix.join(written)).into_string(),
        written: written.clone(),
        hash: String::new(),
    });
    Some(ProgramRequest {
        kind,
        name,
        args: arguments(entry),
        stdin: file.or_else(|| entry.stdin_text.as_ref().map(|Scalar(text)| Stdin::of_text(text))),
        exit_code: entry.exit_code.as_ref().map_or(0, |Scalar(ExpectedCode(code))| *code),
    })
}

/// Returns the arguments of an entry's program.
pub fn arguments(entry: &TestEntry) -> Vec<String> {
    let args = entry.args.iter().flat_map(|List(args)| args);
    args.map(|Scalar(Value(argument))| argument.clone()).collect()
}

/// Returns the entries that the flags choose. `tests` are those of memprof.yaml.
///
/// Flags that name a program choose it alone: with the settings of its entries, or with default ones if
/// it has no entry or is given arguments.
/// Flags that name test targets, such as `--lib`, leave programs out.
///
/// # Errors
/// Arguments or a standard input without a program or for several, and a file that does not exist.
pub fn chosen(
    flags: &CargoArguments,
    tests: Vec<TestRequest>,
    surroundings: Surroundings<'_>,
) -> Result<Vec<TestRequest>, UserError> {
    let of = |kind| move |name: &String| (kind, name.clone());
    let named: Vec<(TargetKind, String)> = (flags.bin.iter().map(of(TargetKind::Bin)))
        .chain(flags.example.iter().map(of(TargetKind::Example)))
        .collect();
    let names_test_targets = flags.lib
        || flags.benches
        || [&flags.bin_tests, &flags.test, &flags.bench].iter().any(|names| !names.is_empty());
    let stdin = flags.stdin.as_deref().map(|written| {
        let path = normalized(&surroundings.current.join(written));
        if (surroundings.exists)(&path) {
            return Ok(Stdin::File { path: path.into(), written: written.to_string(), hash: String::new() });
        }
        Err(UserError::new(format!("--stdin {written}: there is no file {path}"))
            .help("without --stdin, a program reads an empty standard input"))
    });
    let stdin = stdin.transpose()?;
    if flags.arg.is_empty() && stdin.is_none() {
        // Nothing to give to a program.
    } else if let [first, second, ..] = &named[..] {
        let [first, second] = [first, second].map(|(kind, name)| target(*kind, name));
        return Err(UserError::new(format!("arguments or --stdin for two programs, {first} and {second}"))
            .help("run one after the other, or give each its own in memprof.yaml: tests: [{bin: NAME, args: [A, B]}]"));
    } else if named.is_empty() {
        return Err(UserError::new("arguments or --stdin without a program")
            .help("name the program: --bin NAME -- ARGS, or --example NAME -- ARGS"));
    }
    if named.is_empty() {
        return Ok(tests.into_iter().filter(|test| test.program.is_none() || !names_test_targets).collect());
    }
    let is = |test: &TestRequest, (kind, name): &(TargetKind, String)| {
        test.program.as_ref().is_some_and(|program| program.kind == *kind && program.name == *name)
    };
    // What is given here replaces whole entries: their parameters may be about other arguments.
    let is_given = !flags.arg.is_empty() || stdin.is_some();
    let is_kept = |test: &TestRequest| !is_given && named.iter().any(|one| is(test, one));
    let mut chosen: Vec<TestRequest> = (tests.iter())
        .filter(|test| if test.program.is_none() { names_test_targets } else { is_kept(test) })
        .cloned()
        .collect();
    if names_test_targets && !chosen.iter().any(|test| test.program.is_none()) {
        chosen.push(TestRequest::default());
    }
    for one in &named {
        if !chosen.iter().any(|test| is(test, one)) {
            let (args, stdin) = (flags.arg.clone(), stdin.clone());
            let program = ProgramRequest { kind: one.0, name: one.1.clone(), args, stdin, exit_code: 0 };
            chosen.push(TestRequest { program: Some(program), ..TestRequest::default() });
        }
    }
    Ok(chosen)
}

/// Notes the hashes of the files that programs read, so that a run that continues finds the same.
pub fn note_hashes(request: &mut Request) -> anyhow::Result<()> {
    for program in request.tests.iter_mut().filter_map(|test| test.program.as_mut()) {
        if let Some(Stdin::File { path, hash, written }) = &mut program.stdin {
            if !Utf8Path::new(path.as_str()).is_file() {
                return Err(UserError::new(format!("stdin {written} is not a file"))
                    .help(format!("it was looked for at {path}"))
                    .into());
            }
            let read = store::hash_file(path.as_str().into());
            *hash = read.map_err(|error| UserError::new(format!("cannot read stdin {written}: {error}")))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Flags {
        #[command(flatten)]
        build: CargoArguments,
    }

    /// What flags choose of the programs of a memprof.yaml and its tests.
    fn chosen_by(line: &str) -> String {
        let flags = Flags::try_parse_from(line.split_whitespace()).unwrap().build;
        let surroundings = Surroundings {
            repository: "/r".into(),
            current: "/r/sub".into(),
            matrix: "/r".into(),
            exists: &|path: &Utf8Path| path == "/r/sub/in.txt",
        };
        let program = |kind, name: &str, arg: &str| TestRequest {
            program: Some(ProgramRequest {
                kind,
                name: name.into(),
                args: vec![arg.into()],
                stdin: None,
                exit_code: 0,
            }),
            ..TestRequest::default()
        };
        let tests = vec![
            program(TargetKind::Bin, "tool", "--a"),
            program(TargetKind::Bin, "tool", "--b"),
            program(TargetKind::Example, "demo", "--c"),
            TestRequest { name: Some("tests".into()), ..TestRequest::default() },
        ];
        let shown = |test: TestRequest| match test.program {
            Some(program) => {
                let stdin = program.stdin.clone().map(|stdin| match stdin {
                    Stdin::File { path, .. } => format!(" < {path}"),
                    Stdin::Text { text, .. } => format!(" << {text}"),
                });
                format!("{} {}{}", program.target(), program.args.join(" "), stdin.unwrap_or_default())
            }
            None => test.name.unwrap_or("all tests".into()),
        };
        match chosen(&flags, tests, surroundings) {
            Ok(chosen) => chosen.into_iter().map(shown).collect::<Vec<_>>().join(" | "),
            Err(error) => error.rendered(),
        }
    }

    #[test]
    fn a_named_program_runs_alone_with_the_entries_of_the_file_or_what_is_given() {
        let all = "bin tool --a | bin tool --b | example demo --c | tests";
        assert_eq!(chosen_by("x"), all);
        assert_eq!(chosen_by("x --bin tool"), "bin tool --a | bin tool --b");
        assert_eq!(chosen_by("x --bin tool --arg=-z"), "bin tool -z");
        assert_eq!(chosen_by("x --bin tool --stdin in.txt"), "bin tool  < /r/sub/in.txt");
        assert_eq!(chosen_by("x --bin other --example demo"), "example demo --c | bin other ");
        assert_eq!(chosen_by("x --example tool"), "example tool ");
        assert_eq!(chosen_by("x --lib"), "tests");
        assert_eq!(chosen_by("x --lib --example demo"), "example demo --c | tests");
    }

    #[test]
    fn arguments_are_for_one_program() {
        insta::assert_snapshot!(chosen_by("x --bin a --bin b --arg=1"), @"
        error: arguments or --stdin for two programs, bin a and bin b
          help: run one after the other, or give each its own in memprof.yaml: tests: [{bin: NAME, args: [A, B]}]
        ");
        insta::assert_snapshot!(chosen_by("x --arg=1"), @"
        error: arguments or --stdin without a program
          help: name the program: --bin NAME -- ARGS, or --example NAME -- ARGS
        ");
        insta::assert_snapshot!(chosen_by("x --bin a --stdin none.txt"), @"
        error: --stdin none.txt: there is no file /r/sub/none.txt
          help: without --stdin, a program reads an empty standard input
        ");
    }
}
