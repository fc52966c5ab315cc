//! This program in the roles in which cargo calls it, instead of rustc and of the test executables.
//!
//! As `RUSTC_WORKSPACE_WRAPPER`, it adds the shim to every workspace member with `--extern`, so
//! that manifests and lock files stay unchanged. As `RUSTC_WRAPPER`, it does the same for traced
//! crates outside the workspace, and compiles edited copies of registry crates. As the target's
//! runner, it only notes the call: see `noting_runner`.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde::{Deserialize, Serialize};

use crate::build::adapters::{self, Adapters};
use crate::build::configured_out;
use crate::build::memory_crate;
use crate::build::noting_runner;
use crate::build::shim_lock;
use crate::build::stand_in;
use crate::trace::dependency_copies::CopiedCrate;

/// The name under which this program wraps the compiler for workspace members.
pub const WRAP_NAME: &str = "memprof-wrap-rustc";
/// The name under which this program is the runner, which only notes.
pub const NOTE_NAME: &str = "memprof-note-test";
/// The variable with what the compiler wrapper adds: [`WrapperShim`] as JSON.
pub const SHIM: &str = "CARGO_MEMPROF_WRAP";
/// The shim as the wrapper adds it to each call of rustc.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WrapperShim {
    /// Crate names and paths of the rlibs.
    pub externs: Vec<(String, PathBuf)>,
    /// The folder with the rlibs, in which they find each other.
    pub search: PathBuf,
    /// The user's own wrapper, which this one calls.
    pub inner: Option<PathBuf>,
    /// The adapters for the revision's frameworks, if it has any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adapters: Option<Adapters>,
    /// The shim for build scripts and procedural macros, if tests are built with `--target`. They
    /// run on the host, which may be another target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_build: Option<HostShim>,
    /// Whether tests are built with `--target`.
    #[serde(default)]
    pub has_target: bool,
}

/// The shim for the host, the compiler's own target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostShim {
    /// Crate names and paths of the rlibs.
    pub externs: Vec<(String, PathBuf)>,
    /// The folder with the rlibs, in which they find each other.
    pub search: PathBuf,
}

/// The name under which this program wraps all calls of the compiler, if crates outside the
/// workspace are traced.
pub const WRAP_DEPENDENCY_NAME: &str = "memprof-wrap-dependency";
/// The variable with what that wrapper does: [`Dependencies`] as JSON.
pub const DEPENDENCIES: &str = "CARGO_MEMPROF_WRAP_DEPENDENCIES";

/// What the wrapper does to crates outside the workspace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dependencies {
    /// The shim that they get.
    pub shim: WrapperShim,
    /// All crates below this folder get the shim.
    pub checkout: PathBuf,
    /// Whether some of them depend on the crate `memprof`, which the shim replaces.
    #[serde(default)]
    pub has_memory_crate: bool,
    /// Registry crates with an edited copy, which is compiled instead. Build scripts and procedural
    /// macros get the original.
    pub copies: Vec<CopiedCrate>,
}

/// Takes the role that the program's name selects, if any. On success, this does not return.
pub fn act(arguments: &[OsString]) -> Option<anyhow::Error> {
    let (own_name, call) = arguments.split_first()?;
    match Path::new(own_name).file_name()?.to_str()? {
        WRAP_NAME => Some(wrap_compiler(call)),
        WRAP_DEPENDENCY_NAME => Some(wrap_dependency(call)),
        NOTE_NAME => match noting_runner::note_invocation(call) {
            #[expect(clippy::exit, reason = "the runner is done, and there is nothing to unwind")]
            Ok(()) => std::process::exit(0),
            Err(error) => Some(error),
        },
        _ => None,
    }
}

fn wrap_compiler(call: &[OsString]) -> anyhow::Error {
    let shim: WrapperShim = match std::env::var(SHIM).map(|shim| serde_json::from_str(&shim)) {
        Ok(Ok(shim)) => shim,
        // Cargo may call the wrapper outside of this tool. Without our variable, nothing is added.
        _ => WrapperShim::default(),
    };
    let mut argv = compiler_argv(&shim, call);
    if let Err(error) = shim.wait(&argv) {
        return error;
    }
    if let Some(adapters) = shim.adapters.as_ref().filter(|_| argv.len() > call.len()) {
        match adapters::provide(adapters, &shim.externs, &shim.search, call) {
            Ok(provided) => {
                argv.extend(provided.arguments);
                for message in &provided.left_out {
                    #[expect(clippy::print_stderr, reason = "cargo reads the compiler's messages here")]
                    let () = eprintln!("{}", adapters::as_diagnostic(message));
                }
            }
            Err(error) => return error,
        }
    }
    if compiles_test(call) && argv.len() > call.len() {
        match compile_test(&argv, call) {
            #[expect(clippy::exit, reason = "the wrapper exits with the compiler's code")]
            Ok(code) => std::process::exit(code),
            Err(error) => return error,
        }
    }
    let error = std::process::Command::new(&argv[0]).args(&argv[1..]).exec();
    anyhow::Error::new(error).context(format!("could not start {}", Path::new(&argv[0]).display()))
}

/// The wrapper for all crates. For workspace members, cargo calls it with the other wrapper as its
/// first argument; it passes those calls on unchanged.
fn wrap_dependency(call: &[OsString]) -> anyhow::Error {
    let dependencies: Dependencies = match std::env::var(DEPENDENCIES).map(|text| serde_json::from_str(&text))
    {
        Ok(Ok(dependencies)) => dependencies,
        _ => Dependencies::default(),
    };
    let argv = dependency_argv(&dependencies, call, &std::env::current_dir().unwrap_or_default());
    if let Err(error) = dependencies.shim.wait(&argv) {
        return error;
    }
    let error = std::process::Command::new(&argv[0]).args(&argv[1..]).exec();
    anyhow::Error::new(error).context(format!("could not start {}", Path::new(&argv[0]).display()))
}

/// Returns the command for a crate: with the shim, with an edited copy, or unchanged.
fn dependency_argv(dependencies: &Dependencies, call: &[OsString], current: &Path) -> Vec<OsString> {
    let unchanged = || -> Vec<OsString> {
        dependencies.shim.inner.iter().map(|inner| inner.clone().into()).chain(call.iter().cloned()).collect()
    };
    let is_of_member = call
        .first()
        .is_some_and(|program| Path::new(program).file_name().is_some_and(|name| name == WRAP_NAME));
    let root = call.iter().position(|argument| argument.to_string_lossy().ends_with(".rs"));
    let Some(root) = root.filter(|_| !is_of_member) else { return unchanged() };
    let path = current.join(&call[root]);
    let copied =
        dependencies.copies.iter().find_map(|one| Some((one, path.strip_prefix(&one.original).ok()?)));
    let mut call = call.to_vec();
    match copied {
        Some(_) if runs_in_build(&dependencies.shim, &call) => return unchanged(),
        Some((one, inside)) => {
            call[root] = one.copy.join(inside).into();
            // Panics, `file!()` and the compiler's messages must name the original.
            let mut prefix = OsString::from(&one.copy);
            prefix.push("=");
            prefix.push(&one.original);
            call.extend(["--remap-path-prefix".into(), prefix]);
        }
        None if path.starts_with(&dependencies.checkout) => {}
        None if dependencies.has_memory_crate => {
            let mut argv = unchanged();
            use_shim(&dependencies.shim, &call, &mut argv);
            return argv;
        }
        None => return unchanged(),
    }
    compiler_argv(&dependencies.shim, &call)
}

/// Replaces the crate `memprof` in a call. All crates need the folder, because one that they depend
/// on may use the shim.
fn use_shim(shim: &WrapperShim, call: &[OsString], argv: &mut Vec<OsString>) {
    let (externs, folder) = shim.place_for(call);
    let is_for_target = !shim.has_target || names_target(call) || shim.in_build.is_some();
    if let Some((_, shim)) = externs.first().filter(|_| is_for_target)
        && memory_crate::replace(argv, shim)
        && !argv.windows(2).any(|pair| pair[0] == "--cfg" && pair[1] == CFG)
    {
        argv.extend(["--cfg".into(), CFG.into()]);
    }
    let mut search = OsString::from("dependency=");
    search.push(folder);
    argv.extend(["-L".into(), search]);
}

impl WrapperShim {
    /// Waits for the shims that a call uses. The tool compiles them while cargo builds dependencies.
    fn wait(&self, argv: &[OsString]) -> anyhow::Result<()> {
        let folders = [Some(&self.search), self.in_build.as_ref().map(|own| &own.search)];
        let is_used = |folder: &&PathBuf| {
            let folder = folder.to_string_lossy();
            !folder.is_empty() && argv.iter().any(|argument| argument.to_string_lossy().contains(&*folder))
        };
        folders.into_iter().flatten().filter(is_used).try_for_each(|folder| shim_lock::wait_for(folder))
    }

    /// Returns the shim's libraries and their folder for a call of the compiler.
    fn place_for(&self, call: &[OsString]) -> (&[(String, PathBuf)], &Path) {
        match &self.in_build {
            Some(own) if runs_in_build(self, call) => (&own.externs, &own.search),
            _ => (&self.externs, &self.search),
        }
    }
}

/// Compiles a test target with the shim's allocator. If the target has its own allocator, compiles
/// it again without, and writes a mark next to the executable.
///
/// Only the compiler knows about other allocators: one may be in a dependency, behind a `cfg`, or
/// made by a macro. The compiler's messages are held back until it is done. This delays nothing,
/// because no other crate waits for a test target.
fn compile_test(argv: &[OsString], call: &[OsString]) -> anyhow::Result<i32> {
    use std::io::Write;
    let compile = |heap: bool| {
        let mut command = std::process::Command::new(&argv[0]);
        command.args(&argv[1..]).args(if heap { &["--cfg", HEAP_CFG][..] } else { &[] });
        command.stdout(std::process::Stdio::inherit()).output()
    };
    let mut output =
        compile(true).with_context(|| format!("could not start {}", Path::new(&argv[0]).display()))?;
    let mark = mark(call, OWN_ALLOCATOR);
    let conflict = conflicting_crate(&String::from_utf8_lossy(&output.stderr)).map(str::to_owned);
    if let Some(owner) = conflict.filter(|_| !output.status.success()) {
        output = compile(false)?;
        if let Some(mark) = &mark {
            fs_err::write(mark, owner)?;
        }
    } else if let Some(mark) = mark {
        remove_mark(&mark)?;
    }
    if let Some(mark) = self::mark(call, stand_in::NOT_COMPILED) {
        remove_mark(&mark)?;
        // A signal stopped a compiler without an exit code. Such a build must fail.
        let has_errors = output.status.code().is_some_and(|code| code != 0);
        if has_errors && stand_in::compile(argv, &mark.with_extension(""))? {
            std::io::stderr().lock().write_all(&output.stderr)?;
            return Ok(0);
        }
    }
    if let Some(mark) = self::mark(call, CONFIGURED_OUT) {
        if output.status.success() && configured_out::is_configured_out(argv)? {
            fs_err::write(mark, "")?;
        } else {
            remove_mark(&mark)?;
        }
    }
    std::io::stderr().lock().write_all(&output.stderr)?;
    // A compiler that a signal killed has no exit code. Cargo must not take this for success.
    Ok(output.status.code().unwrap_or(101))
}

/// Returns the crate whose global allocator conflicts with the shim's, according to the compiler's
/// message. The name is empty for the crate that is being compiled.
///
/// The message names the two crates in either order:
/// ``the `#[global_allocator]` in this crate conflicts with global allocator in: memprof_heap``.
fn conflicting_crate(stderr: &str) -> Option<&str> {
    let (before, after) = stderr.split_once(" conflicts with global allocator in: ")?;
    let (_, first) = before.rsplit_once(" in ")?;
    let end =
        after.find(|character: char| !character.is_alphanumeric() && character != '_' && character != ' ');
    let second = after[..end.unwrap_or(after.len())].trim();
    let owner = if first == "memprof_heap" { second } else { first };
    Some(if owner == "this crate" { "" } else { owner })
}

/// The `cfg` of every workspace member.
pub const CFG: &str = "memprof";

/// The `cfg` under which the appended line links the shim's allocator.
pub const HEAP_CFG: &str = "memprof_heap";

/// The extension of the mark next to an executable with its own allocator. The file contains the
/// name of the crate that declares the allocator, or nothing if the target itself does.
pub const OWN_ALLOCATOR: &str = "memprof-own-allocator";

/// The extension of the mark next to an executable whose root file is configured out.
pub const CONFIGURED_OUT: &str = "memprof-configured-out";

/// Removes a mark that an earlier build may have left.
fn remove_mark(mark: &Path) -> std::io::Result<()> {
    match fs_err::remove_file(mark) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Returns a mark's path, `OUT_DIR/NAME-HASH.memprof-own-allocator`.
fn mark(call: &[OsString], extension: &str) -> Option<PathBuf> {
    let value = |name: &str| call.windows(2).find(|pair| pair[0] == name).map(|pair| pair[1].clone());
    let extra = call
        .windows(2)
        .filter(|pair| pair[0] == "-C")
        .find_map(|pair| Some(pair[1].to_str()?.strip_prefix("extra-filename=")?.to_owned()))
        .unwrap_or_default();
    let name = value("--crate-name")?.into_string().ok()?;
    Some(PathBuf::from(value("--out-dir")?).join(format!("{name}{extra}.{extension}")))
}

/// Whether this compiles a test. Cargo passes `--test`, or `--cfg test` for a target without a
/// harness.
fn compiles_test(call: &[OsString]) -> bool {
    call.iter().any(|argument| argument == "--test")
        || call.windows(2).any(|pair| pair[0] == "--cfg" && pair[1] == "test")
}

/// Whether a crate is compiled for a build script or a procedural macro. Cargo then passes no
/// `--target`. Without a requested target, tests share these crates.
fn runs_in_build(shim: &WrapperShim, call: &[OsString]) -> bool {
    shim.in_build.is_some() && !names_target(call)
}

fn names_target(call: &[OsString]) -> bool {
    call.iter().any(|argument| argument == "--target" || argument.to_string_lossy().starts_with("--target="))
}

/// Returns the user's wrapper if there is one, the compiler, the shim's arguments, and cargo's own.
fn compiler_argv(shim: &WrapperShim, call: &[OsString]) -> Vec<OsString> {
    let mut argv: Vec<OsString> = shim.inner.iter().map(|inner| inner.clone().into()).collect();
    // `rustc -vV` and `rustc - --print …` are queries of cargo that compile no crate.
    let builds_crate = call.windows(2).any(|pair| pair[0] == "--crate-name" && pair[1] != "___")
        && call.iter().any(|argument| argument.to_string_lossy().ends_with(".rs"));
    let Some((compiler, arguments)) = call.split_first().filter(|_| builds_crate && !shim.externs.is_empty())
    else {
        argv.extend_from_slice(call);
        return argv;
    };
    argv.push(compiler.clone());
    // The appended line must not violate `deny(unused_extern_crates)`, and the added crate must not
    // violate `deny(unused_crate_dependencies)`. Rustc uses the first cap, so one in RUSTFLAGS
    // cannot undo ours.
    argv.extend(["--cap-lints".into(), "warn".into()]);
    argv.extend_from_slice(arguments);
    argv.extend(["--cfg".into(), CFG.into()]);
    argv.extend(check_cfg(call).map(OsString::from));
    for (name, rlib) in shim.place_for(call).0 {
        // If a crate of the repository has the shim's name, the name keeps its meaning.
        if !has_extern(call, name) && !compiles_crate(call, name) {
            let mut value = OsString::from(format!("{name}="));
            value.push(rlib);
            argv.extend(["--extern".into(), value]);
        }
    }
    use_shim(shim, call, &mut argv);
    argv
}

/// Returns the arguments that make our names known to the compiler. Cargo passes such arguments if
/// the compiler takes them (Rust 1.80 and later).
fn check_cfg(call: &[OsString]) -> impl Iterator<Item = String> + use<> {
    let checks = |pair: &[OsString]| {
        pair[0] == "--check-cfg" && pair[1].to_str().is_some_and(|value| value.starts_with("cfg("))
    };
    let adapters = adapters::ADAPTERS.iter().map(|adapter| adapter.name);
    let names: Vec<&str> = [CFG, HEAP_CFG].into_iter().chain(adapters).collect();
    let known = call.windows(2).any(checks).then(|| format!("cfg({})", names.join(", ")));
    known.into_iter().flat_map(|known| ["--check-cfg".to_owned(), known])
}

fn has_extern(call: &[OsString], name: &str) -> bool {
    call.windows(2).filter(|pair| pair[0] == "--extern").any(|pair| {
        let value = pair[1].to_string_lossy();
        let crate_name = value.split('=').next().unwrap_or_default();
        // `priv:name=path`, `noprelude:name=path`
        crate_name.rsplit(':').next() == Some(name)
    })
}

fn compiles_crate(call: &[OsString], name: &str) -> bool {
    call.windows(2).any(|pair| pair[0] == "--crate-name" && pair[1] == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    fn shim() -> WrapperShim {
        WrapperShim {
            externs: vec![
                ("memprof".into(), "/s/libmemprof.rlib".into()),
                ("memprof_heap".into(), "/s/libmemprof_heap.rlib".into()),
            ],
            search: "/s".into(),
            inner: None,
            adapters: None,
            in_build: None,
            has_target: false,
        }
    }

    fn wrapped(line: &str) -> String {
        let argv = compiler_argv(&shim(), &words(line));
        argv.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_compilation_gets_the_shim() {
        assert_eq!(
            wrapped("rustc --crate-name a src/lib.rs --test"),
            "rustc --cap-lints warn --crate-name a src/lib.rs --test --cfg memprof \
             --extern memprof=/s/libmemprof.rlib --extern memprof_heap=/s/libmemprof_heap.rlib -L dependency=/s"
        );
    }

    #[test]
    fn a_compiler_that_checks_names_of_cfgs_knows_ours() {
        let known = "--check-cfg cfg(memprof, memprof_heap, memprof_candle";
        let now = "rustc --crate-name a src/lib.rs --check-cfg cfg(docsrs,test)";
        assert!(wrapped(now).contains(known), "{}", wrapped(now));
        let nightly_of_2022 = "rustc --crate-name a src/lib.rs --check-cfg names()";
        for before in ["rustc --crate-name a src/lib.rs", nightly_of_2022] {
            assert!(!wrapped(before).contains("cfg(memprof"), "{}", wrapped(before));
            assert!(wrapped(before).contains(" --cfg memprof "), "{}", wrapped(before));
        }
    }

    #[test]
    fn build_scripts_of_another_target_keep_the_crate_that_does_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let library = folder.path().join("libmemprof-1.rlib");
        fs_err::write(&library, "cargo_memprof_replaces_this_crate").unwrap();
        let shim = WrapperShim { has_target: true, ..shim() };
        let line = format!("rustc --crate-name a src/lib.rs --extern memprof={}", library.display());
        let replaces = |line: &str| {
            let argv = compiler_argv(&shim, &words(line));
            !argv.iter().any(|word| word.to_string_lossy().contains(library.to_str().unwrap()))
        };
        assert!(!replaces(&line));
        assert!(replaces(&format!("{line} --target t")));
    }

    #[test]
    fn cargos_queries_are_passed_on_unchanged() {
        assert_eq!(wrapped("rustc -vV"), "rustc -vV");
        let question = "rustc - --crate-name ___ --print=file-names";
        assert_eq!(wrapped(question), question);
    }

    #[test]
    fn a_crate_of_the_same_name_in_the_repository_keeps_its_name() {
        let line = wrapped("rustc --crate-name a src/lib.rs --extern priv:memprof=/t/libmemprof.rlib");
        assert!(!line.contains("/s/libmemprof.rlib"), "{line}");
        assert!(line.contains("/s/libmemprof_heap.rlib"), "{line}");
    }

    #[test]
    fn our_cap_comes_before_any_other() {
        let line = wrapped("rustc --crate-name a src/lib.rs --cap-lints=forbid");
        assert!(line.starts_with("rustc --cap-lints warn "), "{line}");
    }

    #[test]
    fn the_compilers_message_names_the_conflicting_allocator() {
        let conflict = |one: &str, other: &str| {
            format!(
                r#"{{"message":"the `#[global_allocator]` in {one} conflicts with global allocator in: {other}","x":1}}"#
            )
        };
        assert_eq!(conflicting_crate(&conflict("this crate", "memprof_heap")), Some(""));
        assert_eq!(conflicting_crate(&conflict("memprof_heap", "this crate")), Some(""));
        assert_eq!(conflicting_crate(&conflict("memprof_heap", "supplier")), Some("supplier"));
        assert_eq!(conflicting_crate(&conflict("supplier", "memprof_heap")), Some("supplier"));
        assert_eq!(conflicting_crate("error: something else"), None);
    }

    #[test]
    fn the_mark_is_next_to_the_executable() {
        let call = words("rustc --crate-name a src/lib.rs --test -C extra-filename=-12 --out-dir /t/deps");
        assert_eq!(mark(&call, OWN_ALLOCATOR), Some("/t/deps/a-12.memprof-own-allocator".into()));
    }

    #[test]
    fn an_edited_copy_is_compiled_in_place_of_a_crate_of_the_registry() {
        let dependencies = Dependencies {
            shim: WrapperShim { externs: vec![("memprof_shim".into(), "/s/m.rlib".into())], ..shim() },
            checkout: "/checkout".into(),
            has_memory_crate: false,
            copies: vec![CopiedCrate { original: "/registry/a-1.0".into(), copy: "/copies/a-1.0".into() }],
        };
        let wrapped = |line: &str, current: &str| {
            let argv = dependency_argv(&dependencies, &words(line), Path::new(current));
            argv.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(
            wrapped("rustc --crate-name a /registry/a-1.0/src/lib.rs", "/"),
            "rustc --cap-lints warn --crate-name a /copies/a-1.0/src/lib.rs --remap-path-prefix \
             /copies/a-1.0=/registry/a-1.0 --cfg memprof --extern memprof_shim=/s/m.rlib -L dependency=/s"
        );
        assert_eq!(
            wrapped("rustc --crate-name b excluded/src/lib.rs", "/checkout"),
            "rustc --cap-lints warn --crate-name b excluded/src/lib.rs --cfg memprof --extern memprof_shim=/s/m.rlib -L dependency=/s"
        );
        for line in [
            "rustc --crate-name c /registry/c-1.0/src/lib.rs",
            "rustc -vV",
            "/w/memprof-wrap-rustc rustc --crate-name a /checkout/src/lib.rs",
        ] {
            assert_eq!(wrapped(line, "/"), line);
        }
    }

    #[test]
    fn build_scripts_and_procedural_macros_get_the_hosts_shim() {
        let externs =
            |folder: &str| vec![("memprof_shim".to_owned(), PathBuf::from(format!("{folder}/m.rlib")))];
        let shim = WrapperShim {
            externs: externs("/t"),
            search: "/t".into(),
            has_target: true,
            inner: None,
            adapters: None,
            in_build: Some(HostShim { externs: externs("/host"), search: "/host".into() }),
        };
        let dependencies = Dependencies {
            shim,
            checkout: "/checkout".into(),
            has_memory_crate: false,
            copies: vec![CopiedCrate { original: "/registry/a-1.0".into(), copy: "/copies/a-1.0".into() }],
        };
        let wrapped = |line: &str| {
            let argv = dependency_argv(&dependencies, &words(line), Path::new("/"));
            argv.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
        };
        let of_target = wrapped("rustc --crate-name b /checkout/b.rs --target t");
        assert!(of_target.ends_with("--extern memprof_shim=/t/m.rlib -L dependency=/t"), "{of_target}");
        let of_build = wrapped("rustc --crate-name b /checkout/b.rs");
        assert!(of_build.ends_with("--extern memprof_shim=/host/m.rlib -L dependency=/host"), "{of_build}");
        let copied = wrapped("rustc --crate-name a /registry/a-1.0/src/lib.rs --target t");
        assert!(copied.contains("/copies/a-1.0/src/lib.rs"), "{copied}");
        let original = "rustc --crate-name a /registry/a-1.0/src/lib.rs";
        assert_eq!(wrapped(original), original);
    }

    #[test]
    fn dependencies_that_use_the_crate_get_the_shim_and_all_others_its_folder() {
        let folder = tempfile::tempdir().unwrap();
        let library = folder.path().join("libmemprof-1.rmeta");
        fs_err::write(&library, "cargo_memprof_replaces_this_crate").unwrap();
        let dependencies = Dependencies {
            shim: WrapperShim { externs: vec![("memprof_shim".into(), "/s/m.rlib".into())], ..shim() },
            checkout: "/checkout".into(),
            has_memory_crate: true,
            copies: Vec::new(),
        };
        let wrapped = |line: &str| {
            let argv = dependency_argv(&dependencies, &words(line), Path::new("/"));
            argv.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
        };
        let uses = wrapped(&format!("rustc --crate-name u /r/u.rs --extern memprof={}", library.display()));
        let expected =
            "rustc --crate-name u /r/u.rs --extern memprof=/s/m.rlib --cfg memprof -L dependency=/s";
        assert_eq!(uses, expected);
        assert_eq!(wrapped("rustc --crate-name o /r/o.rs"), "rustc --crate-name o /r/o.rs -L dependency=/s");
        assert_eq!(wrapped("rustc -vV"), "rustc -vV");
    }

    #[test]
    fn the_users_wrapper_is_called_through_ours() {
        let shim = WrapperShim { inner: Some("/bin/theirs".into()), ..shim() };
        let argv = compiler_argv(&shim, &words("rustc --crate-name a src/lib.rs"));
        assert_eq!(argv[0], "/bin/theirs");
        assert_eq!(argv[1], "rustc");
    }
}
