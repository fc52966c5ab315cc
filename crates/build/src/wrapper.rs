//! This program in the roles in which cargo calls it, instead of rustc and of the test executables.
//!
//! As `RUSTC_WORKSPACE_WRAPPER`, it adds the shim to every workspace member with `--extern`, so
//! that manifests and lock files stay unchanged. As `RUSTC_WRAPPER`, it does the same for traced
//! crates outside the workspace, and compiles edited copies of crates outside of the repository. As the target's
//! runner, it only notes the call: see `noting_runner`.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::adapters::{self, Adapters};
use crate::compiled_copies;
use crate::compiled_test::{self, HEAP_CFG, mark};
use crate::memory_crate;
use crate::noting_runner;
use crate::reached_code;
use crate::shim_lock;
use crate::trace::originals::CopiedCrate;

/// The name under which this program wraps the compiler for workspace members.
pub(crate) const WRAP_NAME: &str = "memprof-wrap-rustc";
/// The name under which this program wraps the compiler for workspace members, while cargo builds a
/// program. Cargo tells the artifacts of different wrappers apart, so that a program with the shim
/// never takes the place of one without it.
pub(crate) const WRAP_PROGRAM_NAME: &str = "memprof-wrap-program";
/// The name under which this program wraps the compiler for workspace members, if the linker must keep what
/// [`crate::reached_code`] reads of tests.
pub(crate) const WRAP_REACHED_NAME: &str = "memprof-wrap-reached";
/// The name under which this program is the runner, which only notes.
pub(crate) const NOTE_NAME: &str = "memprof-note-test";
/// The variable with what the compiler wrapper adds: [`WrapperShim`] as JSON.
pub(crate) const SHIM: &str = "CARGO_MEMPROF_WRAP";
/// The shim as the wrapper adds it to each call of rustc.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WrapperShim {
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
    /// The test executables that are not built, by the names that cargo gives them.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub unselected: BTreeSet<String>,
}

/// The shim for the host, the compiler's own target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HostShim {
    /// Crate names and paths of the rlibs.
    pub externs: Vec<(String, PathBuf)>,
    /// The folder with the rlibs, in which they find each other.
    pub search: PathBuf,
}

/// The name under which this program wraps all calls of the compiler, if crates outside the
/// workspace are traced.
pub(crate) const WRAP_DEPENDENCY_NAME: &str = "memprof-wrap-dependency";
/// The variable with what that wrapper does: [`Dependencies`] as JSON.
pub(crate) const DEPENDENCIES: &str = "CARGO_MEMPROF_WRAP_DEPENDENCIES";

/// What the wrapper does to crates outside the workspace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Dependencies {
    /// The shim that they get.
    pub shim: WrapperShim,
    /// All crates below this folder get the shim.
    #[serde(default)]
    pub checkout: Option<PathBuf>,
    /// Whether some of them depend on the crate `memprof`, which the shim replaces.
    #[serde(default)]
    pub has_memory_crate: bool,
    /// Crates outside of the repository with an edited copy, which is compiled instead. Build scripts and procedural
    /// macros get the original.
    pub copies: Vec<CopiedCrate>,
}

/// Takes the role that the program's name selects, if any. On success, this does not return.
pub fn act(arguments: &[OsString]) -> Option<anyhow::Error> {
    let (own_name, call) = arguments.split_first()?;
    match Path::new(own_name).file_name()?.to_str()? {
        name @ (WRAP_NAME | WRAP_PROGRAM_NAME | WRAP_REACHED_NAME) => Some(wrap_compiler(call, name)),
        WRAP_DEPENDENCY_NAME => Some(wrap_dependency(call)),
        NOTE_NAME => match noting_runner::note_invocation(call) {
            #[expect(clippy::exit, reason = "the runner is done, and there is nothing to unwind")]
            Ok(()) => std::process::exit(0),
            Err(error) => Some(error),
        },
        _ => None,
    }
}

fn wrap_compiler(call: &[OsString], name: &str) -> anyhow::Error {
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
    let is_program = name == WRAP_PROGRAM_NAME && compiles_program(call);
    if is_program {
        argv.extend(["--cfg".into(), PROGRAM_CFG.into()]);
    }
    if (is_program || compiles_test(call)) && argv.len() > call.len() {
        let map = mark(call, reached_code::MAP).filter(|_| name == WRAP_REACHED_NAME);
        argv.extend(map.iter().flat_map(|map| reached_code::arguments(map)).map(OsString::from));
        match compiled_test::compile(&argv, call, is_program, &shim.unselected) {
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
    let current = std::env::current_dir().unwrap_or_default();
    let argv = dependency_argv(&dependencies, call, &current);
    if let Err(error) = dependencies.shim.wait(&argv) {
        return error;
    }
    if let (Some((copy, original)), Some(mark)) =
        (copy_for(&dependencies, call, &current), mark(call, compiled_copies::MARK))
    {
        match compiled_copies::compile(&argv, &mark, copy, &original) {
            #[expect(clippy::exit, reason = "the wrapper exits with the compiler's code")]
            Ok(code) => std::process::exit(code),
            Err(error) => return error,
        }
    }
    let error = std::process::Command::new(&argv[0]).args(&argv[1..]).exec();
    anyhow::Error::new(error).context(format!("could not start {}", Path::new(&argv[0]).display()))
}

/// Returns the command for a crate: with the shim, with an edited copy, or unchanged.
fn dependency_argv(dependencies: &Dependencies, call: &[OsString], current: &Path) -> Vec<OsString> {
    let shim = &dependencies.shim;
    let mut argv: Vec<OsString> =
        shim.inner.iter().map(|inner| inner.clone().into()).chain(call.iter().cloned()).collect();
    let Some(root) = root_of(call) else { return argv };
    if let Some((copy, original)) = copy_for(dependencies, call, current) {
        let mut call = call.to_vec();
        call[root] = copy.copy.join(&copy.root).into();
        // Panics, `file!()` and the compiler's messages must name the original.
        let mut prefix = OsString::from(&copy.copy);
        prefix.push("=");
        prefix.push(&original);
        call.extend(["--remap-path-prefix".into(), prefix]);
        return compiler_argv(shim, &call);
    }
    let path = current.join(&call[root]);
    if dependencies.checkout.as_ref().is_some_and(|checkout| path.starts_with(checkout)) {
        return compiler_argv(shim, call);
    }
    if dependencies.has_memory_crate {
        use_shim(shim, call, &mut argv);
    } else if !dependencies.copies.is_empty() && call.iter().any(|argument| argument == "--extern") {
        // The crate may depend on a copy, which depends on the shim.
        find_shim(shim, call, &mut argv);
    }
    argv
}

/// Returns the place of a crate's root among the compiler's arguments, if it is not a member of the
/// workspace.
fn root_of(call: &[OsString]) -> Option<usize> {
    let wrappers = [WRAP_NAME, WRAP_PROGRAM_NAME, WRAP_REACHED_NAME];
    let is_of_member =
        Path::new(call.first()?).file_name().is_some_and(|name| wrappers.iter().any(|own| name == *own));
    let root = call.iter().position(|argument| argument.to_string_lossy().ends_with(".rs"))?;
    (!is_of_member).then_some(root)
}

/// Returns the edited copy of the library that a call compiles, and the folder of the original.
fn copy_for<'a>(
    dependencies: &'a Dependencies,
    call: &[OsString],
    current: &Path,
) -> Option<(&'a CopiedCrate, PathBuf)> {
    if runs_in_build(&dependencies.shim, call) {
        return None;
    }
    let path = current.join(&call[root_of(call)?]);
    dependencies.copies.iter().find_map(|copy| Some((copy, copy.folder_of_root(&path)?)))
}

/// Replaces the crate `memprof` in a call. All crates need the folder, because one that they depend
/// on may use the shim.
fn use_shim(shim: &WrapperShim, call: &[OsString], argv: &mut Vec<OsString>) {
    let (externs, _) = shim.place_for(call);
    let is_for_target = !shim.has_target || names_target(call) || shim.in_build.is_some();
    if let Some((_, shim)) = externs.first().filter(|_| is_for_target)
        && memory_crate::replace(argv, shim)
        && !argv.windows(2).any(|pair| pair[0] == "--cfg" && pair[1] == CFG)
    {
        argv.extend(["--cfg".into(), CFG.into()]);
    }
    find_shim(shim, call, argv);
}

/// Adds the shim's folder to a call.
fn find_shim(shim: &WrapperShim, call: &[OsString], argv: &mut Vec<OsString>) {
    let mut search = OsString::from("dependency=");
    search.push(shim.place_for(call).1);
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

/// The `cfg` of every workspace member.
pub(crate) const CFG: &str = "memprof";

/// The `cfg` of the program that is built to be measured.
pub(crate) const PROGRAM_CFG: &str = "memprof_program";

/// Whether this compiles a program. While cargo builds one for `cargo run`, the only others are build
/// scripts.
fn compiles_program(call: &[OsString]) -> bool {
    let has = |name: &str, value: &dyn Fn(&str) -> bool| {
        call.windows(2).any(|pair| pair[0] == name && pair[1].to_str().is_some_and(value))
    };
    has("--crate-type", &|kind| kind == "bin")
        && !has("--crate-name", &|name| name == "___" || name.starts_with("build_script_"))
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
    let names: Vec<&str> = [CFG, HEAP_CFG, PROGRAM_CFG].into_iter().chain(adapters).collect();
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
    use crate::trace::originals::Original;

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
            unselected: BTreeSet::new(),
        }
    }

    fn copy() -> CopiedCrate {
        let (original, copy) = (Original::Folder("/registry/a-1.0".into()), "/copies/a-1.0".into());
        CopiedCrate { original, root: "src/lib.rs".into(), copy, edits: "hash".to_owned() }
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
        let known = "--check-cfg cfg(memprof, memprof_heap, memprof_program, memprof_candle";
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
    fn a_program_is_an_executable_that_is_no_build_script() {
        let is_program = |line: &str| compiles_program(&words(line));
        assert!(is_program("rustc --crate-name tool src/main.rs --crate-type bin"));
        assert!(!is_program("rustc --crate-name build_script_build build.rs --crate-type bin"));
        assert!(!is_program("rustc - --crate-name ___ --print=file-names --crate-type bin"));
        assert!(!is_program("rustc --crate-name tool src/lib.rs --crate-type lib"));
    }

    #[test]
    fn our_cap_comes_before_any_other() {
        let line = wrapped("rustc --crate-name a src/lib.rs --cap-lints=forbid");
        assert!(line.starts_with("rustc --cap-lints warn "), "{line}");
    }

    #[test]
    fn an_edited_copy_is_compiled_in_place_of_a_crate_of_the_registry() {
        let dependencies = Dependencies {
            shim: WrapperShim { externs: vec![("memprof_shim".into(), "/s/m.rlib".into())], ..shim() },
            checkout: Some("/checkout".into()),
            has_memory_crate: false,
            copies: vec![copy()],
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
        let depends = "rustc --crate-name d /registry/d/src/lib.rs --extern a=/t/liba.rmeta";
        assert_eq!(wrapped(depends, "/"), format!("{depends} -L dependency=/s"));
        for line in [
            "rustc --crate-name c /registry/c-1.0/src/lib.rs",
            "rustc --crate-name build_script_build /registry/a-1.0/build.rs",
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
            unselected: BTreeSet::new(),
            inner: None,
            adapters: None,
            in_build: Some(HostShim { externs: externs("/host"), search: "/host".into() }),
        };
        let dependencies = Dependencies {
            shim,
            checkout: Some("/checkout".into()),
            has_memory_crate: false,
            copies: vec![copy()],
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
            checkout: Some("/checkout".into()),
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
