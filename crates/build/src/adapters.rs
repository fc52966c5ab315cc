//! Adapters: crates that name the tensors of a framework. Each is compiled against the same build
//! of the framework that a target uses.
//!
//! The compiler wrapper sees the framework's file in cargo's call of rustc (`--extern
//! candle_core=…/libcandle_core-HASH.rmeta`), and compiles the adapter against it once. If an
//! interface differs between versions, the adapter has variants. The first one that compiles is
//! used.

use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use memprof_plan::lock_differences::locked;
use memprof_support::regular_file::followed;
use serde::{Deserialize, Serialize};

/// An adapter for a framework.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Adapter {
    /// The name of its crate, of its source folder, and of the `cfg` that is set if it exists.
    pub name: &'static str,
    /// The framework's package. Without it in the lock file, the adapter is never compiled.
    pub package: &'static str,
    needs: &'static [Need],
    /// The variants, newest first. The first one that compiles is used.
    variants: &'static [Variant],
}

/// A crate that an adapter depends on.
#[derive(Debug, PartialEq, Eq)]
struct Need {
    /// The name in the adapter's source.
    name: &'static str,
    /// The crates that provide it, best first.
    crates: &'static [&'static str],
    /// Whether the adapter needs it. If not, the adapter gets a `cfg` of this name when it exists.
    required: bool,
}

/// A variant of an adapter's source.
#[derive(Debug, PartialEq, Eq)]
struct Variant {
    root: &'static str,
    /// Parts that only some versions or features of the framework have.
    cfgs: &'static [&'static str],
}

/// All adapters.
pub(crate) const ADAPTERS: [Adapter; 5] = [
    Adapter {
        name: "memprof_candle",
        package: "candle-core",
        needs: &[
            Need { name: "candle_core", crates: &["candle_core"], required: true },
            Need { name: "candle_nn", crates: &["candle_nn"], required: false },
        ],
        variants: &[
            Variant { root: "lib.rs", cfgs: &["cuda", "small_types", "layers"] },
            Variant { root: "lib.rs", cfgs: &["small_types", "layers"] },
            Variant { root: "lib.rs", cfgs: &["cuda", "layers"] },
            Variant { root: "lib.rs", cfgs: &["layers"] },
            Variant { root: "lib.rs", cfgs: &["cuda"] },
            Variant { root: "lib.rs", cfgs: &[] },
        ],
    },
    Adapter {
        name: "memprof_burn",
        package: "burn-core",
        needs: &[Need { name: "burn", crates: &["burn", "burn_core"], required: true }],
        variants: &[
            Variant { root: "lib.rs", cfgs: &["autodiff", "optim"] },
            Variant { root: "lib.rs", cfgs: &["autodiff"] },
            Variant { root: "lib.rs", cfgs: &[] },
            Variant { root: "backend_in_type.rs", cfgs: &["autodiff", "optim", "moments"] },
            Variant { root: "backend_in_type.rs", cfgs: &["autodiff", "optim"] },
            Variant { root: "backend_in_type.rs", cfgs: &["autodiff"] },
            Variant { root: "without_names.rs", cfgs: &["autodiff", "optim", "typed"] },
            Variant { root: "without_names.rs", cfgs: &["autodiff", "optim"] },
            Variant { root: "without_names.rs", cfgs: &["autodiff", "optim", "borrowed_ids"] },
        ],
    },
    Adapter {
        name: "memprof_cubecl",
        package: "cubecl",
        needs: &[Need { name: "cubecl", crates: &["cubecl"], required: true }],
        variants: &[
            Variant { root: "lib.rs", cfgs: &["reports"] },
            Variant { root: "lib.rs", cfgs: &["fallible", "cleans_up"] },
            Variant { root: "lib.rs", cfgs: &["cleans_up"] },
            Variant { root: "lib.rs", cfgs: &["fallible"] },
            Variant { root: "lib.rs", cfgs: &[] },
        ],
    },
    Adapter {
        name: "memprof_tch",
        package: "tch",
        needs: &[Need { name: "tch", crates: &["tch"], required: true }],
        variants: &[Variant { root: "lib.rs", cfgs: &["offsets"] }, Variant { root: "lib.rs", cfgs: &[] }],
    },
    Adapter {
        name: "memprof_tracing",
        package: "tracing",
        needs: &[
            Need { name: "tracing", crates: &["tracing"], required: true },
            Need { name: "tracing_subscriber", crates: &["tracing_subscriber"], required: false },
        ],
        variants: &[Variant { root: "lib.rs", cfgs: &["registry"] }, Variant { root: "lib.rs", cfgs: &[] }],
    },
];

/// What the compiler wrapper needs to compile adapters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Adapters {
    /// The adapters whose framework is in the revision's lock file.
    pub names: Vec<String>,
    /// The folder with their sources.
    pub source: PathBuf,
    /// The folder for compiled adapters. Their names depend on the framework that they are compiled
    /// against.
    pub folder: PathBuf,
    /// Whether tests are built with `--target`. Build scripts and procedural macros are then built
    /// without.
    pub has_target: bool,
}

/// What the wrapper adds to one call of the compiler.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Provided {
    /// Arguments to append to cargo's own.
    pub arguments: Vec<OsString>,
    /// Messages about adapters that do not compile against the framework.
    pub left_out: Vec<String>,
}

/// The text after an adapter's name in the messages that say why it is missing.
const LEFT_OUT: &str = " is left out, because it does not compile against ";

/// Returns the adapters whose framework is in a lock file.
pub(crate) fn of_lock(lock: &str) -> Vec<String> {
    // Parsing is slow, and most lock files have no framework.
    if !ADAPTERS.iter().any(|adapter| lock.contains(adapter.package)) {
        return Vec::new();
    }
    let packages = locked(lock.as_bytes());
    let has = |adapter: &&Adapter| packages.iter().any(|package| package.name == adapter.package);
    ADAPTERS.iter().filter(has).map(|adapter| adapter.name.to_owned()).collect()
}

/// Whether a compiler message is one of ours, about an adapter that is left out.
pub(crate) fn is_left_out(message: &str) -> bool {
    ADAPTERS
        .iter()
        .any(|adapter| message.strip_prefix(adapter.name).is_some_and(|rest| rest.starts_with(LEFT_OUT)))
}

/// Returns the name of the adapter that such a message is about.
pub(crate) fn named_in(message: &str) -> &str {
    message.split_once(LEFT_OUT).map_or(message, |(name, _)| name)
}

/// Returns why code that uses an adapter may not compile.
pub(crate) fn hint(errors: &str, left_out: &[String]) -> Option<String> {
    let adapter = ADAPTERS.iter().find(|adapter| errors.contains(&format!("`{}`", adapter.name)))?;
    let own = left_out.iter().find(|message| message.starts_with(adapter.name));
    Some(own.cloned().unwrap_or_else(|| {
        let Adapter { name, package, .. } = adapter;
        format!(
            "{name} exists only in packages that depend directly on {package}; put `#[cfg({name})]` \
             before the code that uses it"
        )
    }))
}

/// Returns the adapters for a call of the compiler: those whose framework it gets. Compiles them if
/// necessary.
///
/// # Errors
///
/// The compiler could not be run. An adapter that does not compile is not an error.
pub(crate) fn provide(
    adapters: &Adapters,
    shim: &[(String, PathBuf)],
    search: &Path,
    call: &[OsString],
) -> anyhow::Result<Provided> {
    let mut provided = Provided::default();
    let is_for_build = adapters.has_target && values(call, "--target").is_empty();
    if adapters.names.is_empty() || is_for_build || runs_while_building(call) {
        return Ok(provided);
    }
    for adapter in ADAPTERS.iter().filter(|adapter| adapters.names.iter().any(|name| name == adapter.name)) {
        let externs = externs(call);
        let is_taken = |name: &str| externs.iter().any(|given| given.name == name);
        let Some(found) = needed_files(adapter, &externs).filter(|_| !is_taken(adapter.name)) else {
            continue;
        };
        let memprof = shim.iter().find(|(name, _)| name == "memprof").map(|(_, rlib)| rlib.as_path());
        let compilation = AdapterCompilation {
            adapters,
            adapter,
            found: &found,
            memprof: memprof.context("the shim is missing")?,
            search,
            call,
        };
        match compilation.library()? {
            Ok(library) => {
                let mut value = OsString::from(format!("{}=", adapter.name));
                value.push(library);
                provided.arguments.extend(["--extern".into(), value, "--cfg".into(), adapter.name.into()]);
            }
            Err(reason) => {
                let version = found.first().map_or(adapter.package, |(need, _)| need.name);
                provided.left_out.push(format!("{}{LEFT_OUT}{version}: {reason}", adapter.name));
            }
        }
    }
    // A library that the target links may use an adapter too.
    let mut folder = OsString::from("dependency=");
    folder.push(&adapters.folder);
    provided.arguments.extend(["-L".into(), folder]);
    Ok(provided)
}

/// Formats a message as the compiler would. Cargo shows it, and shows it again when the target is
/// fresh.
pub(crate) fn as_diagnostic(message: &str) -> String {
    let none: [(); 0] = [];
    serde_json::json!({
        "$message_type": "diagnostic", "message": message, "code": null, "level": "warning", "spans": none,
        "children": none, "rendered": format!("warning: {message}\n\n"),
    })
    .to_string()
}

/// A crate that cargo passes to the compiler.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Extern {
    /// The name in the source. The manifest may have renamed it.
    name: String,
    /// The crate's own name.
    crate_name: String,
    file: PathBuf,
}

/// Parses `--extern NAME=FOLDER/libCRATE-HASH.rmeta`, with or without options: `priv:NAME=…`.
fn externs(call: &[OsString]) -> Vec<Extern> {
    let pairs = call.windows(2).filter(|pair| pair[0] == "--extern");
    pairs
        .filter_map(|pair| {
            let (name, file) = pair[1].to_str()?.split_once('=')?;
            let file = PathBuf::from(file);
            let stem = file.file_stem()?.to_str()?.strip_prefix("lib")?;
            let crate_name = stem.rsplit_once('-').map_or(stem, |(name, _)| name).to_owned();
            Some(Extern { name: name.rsplit(':').next()?.to_owned(), crate_name, file })
        })
        .collect()
}

/// Returns the files of the crates that an adapter needs; `None` if a required one is missing.
fn needed_files<'a>(adapter: &'a Adapter, externs: &[Extern]) -> Option<Vec<(&'a Need, Vec<PathBuf>)>> {
    let mut found = Vec::new();
    for need in adapter.needs {
        let of_crate = |name: &&&str| externs.iter().any(|one| one.crate_name == ***name);
        let Some(crate_name) = need.crates.iter().find(|name| of_crate(name)) else {
            if need.required {
                return None;
            }
            continue;
        };
        let mut all: Vec<&Extern> = externs.iter().filter(|one| one.crate_name == *crate_name).collect();
        // Of two versions, prefer the one that the manifest did not rename.
        all.sort_by_key(|one| one.name != *crate_name);
        let stem = all[0].file.with_extension("");
        let files = all.iter().filter(|one| one.file.with_extension("") == stem);
        found.push((need, files.map(|one| one.file.clone()).collect()));
    }
    Some(found)
}

/// Whether the crate is a build script or a procedural macro, which run during the build.
fn runs_while_building(call: &[OsString]) -> bool {
    call.windows(2).any(|pair| {
        (pair[0] == "--crate-type" && pair[1] == "proc-macro")
            || (pair[0] == "--crate-name" && pair[1].to_string_lossy().starts_with("build_script_"))
    })
}

/// Compiles one adapter for one call of the compiler.
struct AdapterCompilation<'a> {
    adapters: &'a Adapters,
    adapter: &'a Adapter,
    found: &'a [(&'a Need, Vec<PathBuf>)],
    memprof: &'a Path,
    search: &'a Path,
    call: &'a [OsString],
}

impl AdapterCompilation<'_> {
    /// Returns the compiled adapter, or why it does not compile.
    fn library(&self) -> anyhow::Result<Result<PathBuf, String>> {
        let key = self.key()?;
        let folder = &self.adapters.folder;
        let name = self.adapter.name;
        let library = folder.join(format!("lib{name}-{key}.rlib"));
        if library.exists() {
            return Ok(Ok(library));
        }
        let reason_file = folder.join(format!("{name}-{key}.reason"));
        if let Ok(reason) = followed::text(&reason_file) {
            return Ok(Err(reason));
        }
        fs_err::create_dir_all(folder)?;
        // Cargo compiles several targets at once. Each writes to its own folder, so that a file at
        // the final path is always complete.
        let aside = folder.join(format!("{name}-{key}-{}", std::process::id()));
        fs_err::create_dir_all(&aside)?;
        let outcome = self.compile(&key, &aside);
        if let Ok(Ok(made)) = &outcome {
            fs_err::rename(made, &library)?;
        }
        fs_err::remove_dir_all(&aside)?;
        match outcome? {
            Ok(_) => Ok(Ok(library)),
            Err(reason) => {
                let partial = folder.join(format!("{name}-{key}-{}.partial", std::process::id()));
                fs_err::write(&partial, &reason)?;
                fs_err::rename(&partial, reason_file)?;
                Ok(Err(reason))
            }
        }
    }

    /// Returns a hash of the crates that the adapter is compiled against. Names are not enough:
    /// cargo may replace the content of a file and keep its name.
    ///
    /// A crate's metadata is enough. It exists before the library does, and is the same whichever
    /// of the two files cargo passes.
    fn key(&self) -> anyhow::Result<String> {
        let mut hasher = blake3::Hasher::new();
        for (need, files) in self.found {
            let metadata = files[0].with_extension("rmeta");
            let file = if metadata.exists() { &metadata } else { &files[0] };
            hasher.update(need.name.as_bytes()).update(&[0]);
            hasher.update_reader(followed::open(file)?)?;
        }
        Ok(hasher.finalize().to_hex()[..16].to_owned())
    }

    /// Returns the file of the first variant that compiles, or the first error of each variant.
    fn compile(&self, key: &str, aside: &Path) -> anyhow::Result<Result<PathBuf, String>> {
        let mut reasons = String::new();
        for variant in self.adapter.variants {
            let argv = self.argv(variant, key, aside);
            let output = Command::new(&argv[0])
                .args(&argv[1..])
                .output()
                .with_context(|| format!("could not start {}", Path::new(&argv[0]).display()))?;
            if output.status.success() {
                return Ok(Ok(aside.join(format!("lib{}-{key}.rlib", self.adapter.name))));
            }
            let stderr = String::from_utf8_lossy(&output.stderr);
            // Without an error message, the compiler did not fail because of the framework.
            ensure!(
                output.status.code() == Some(1) && stderr.contains("error"),
                "could not compile {}: {}\n{stderr}",
                self.adapter.name,
                output.status
            );
            let reason = first_error(&stderr);
            if !reasons.contains(&reason) {
                _ = write!(reasons, "{}{reason}", if reasons.is_empty() { "" } else { "; " });
            }
        }
        Ok(Err(reasons))
    }

    fn argv(&self, variant: &Variant, key: &str, aside: &Path) -> Vec<OsString> {
        let Self { adapter, adapters, call, .. } = self;
        let joined = |before: &str, path: &Path| {
            let mut text = OsString::from(before);
            text.push(path);
            text
        };
        let folder = adapters.source.join(adapter.name);
        let mut argv: Vec<OsString> = vec![call[0].clone()];
        argv.extend(
            ["--crate-name", adapter.name, "--crate-type", "rlib", "--edition", "2021"].map(Into::into),
        );
        argv.extend(["-C", "opt-level=3", "-C"].map(Into::into));
        argv.push(format!("metadata={key}").into());
        argv.extend(["-C".into(), format!("extra-filename=-{key}").into()]);
        argv.extend(["--cap-lints", "warn", "--out-dir"].map(Into::into));
        argv.push(aside.into());
        argv.push("--remap-path-prefix".into());
        argv.push(joined("", &folder));
        if let Some(last) = argv.last_mut() {
            last.push(format!("={}", adapter.name));
        }
        for name in ["--target", "--sysroot"] {
            for value in values(call, name) {
                argv.extend([name.into(), value]);
            }
        }
        let dependencies = values(call, "-L").into_iter().filter(|value| is_dependency_folder(value));
        argv.extend(dependencies.flat_map(|value| ["-L".into(), value]));
        argv.extend(["-L".into(), joined("dependency=", self.search)]);
        argv.extend(["--extern".into(), joined("memprof=", self.memprof)]);
        for (need, files) in self.found {
            for file in files {
                argv.extend(["--extern".into(), joined(&format!("{}=", need.name), file)]);
            }
            if !need.required {
                argv.extend(["--cfg".into(), need.name.into()]);
            }
        }
        argv.extend(variant.cfgs.iter().flat_map(|cfg| ["--cfg".into(), cfg.into()]));
        argv.push(folder.join(variant.root).into());
        argv
    }
}

/// Returns the values of an argument, written as `--name=value` or as `--name value`.
fn values(call: &[OsString], name: &str) -> Vec<OsString> {
    let with_equals = format!("{name}=");
    let as_two = call.windows(2).filter(|pair| pair[0] == name).map(|pair| pair[1].clone());
    let as_one = call.iter().filter_map(|word| word.to_str()?.strip_prefix(&with_equals).map(OsString::from));
    as_two.chain(as_one).collect()
}

fn is_dependency_folder(value: &OsStr) -> bool {
    value.to_str().is_some_and(|value| value.starts_with("dependency="))
}

/// Returns the first error: `error[E0432]: unresolved import … (memprof_candle/lib.rs:12:5)`.
fn first_error(stderr: &str) -> String {
    let mut lines = stderr.lines().skip_while(|line| !line.starts_with("error"));
    let error = lines.next().unwrap_or_default().to_owned();
    let place = lines.next().and_then(|line| line.trim_start().strip_prefix("--> "));
    place.map_or(error.clone(), |place| format!("{error} ({place})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    fn needed(line: &str) -> Option<Vec<(&'static str, Vec<String>)>> {
        let found = needed_files(&ADAPTERS[0], &externs(&words(line)))?;
        let files = |files: &[PathBuf]| files.iter().map(|file| file.display().to_string()).collect();
        Some(found.iter().map(|(need, all)| (need.name, files(all))).collect())
    }

    #[test]
    fn a_lock_file_selects_the_adapters_of_its_packages() {
        let lock = "version = 4\n\n[[package]]\nname = \"candle-core\"\nversion = \"0.9.1\"\n\n\
                    [[package]]\nname = \"tch-models\"\nversion = \"1.0.0\"\ndependencies = [\"burn-core\"]\n";
        assert_eq!(of_lock(lock), ["memprof_candle"]);
        assert!(of_lock("[[package]]\nname = \"serde\"\nversion = \"1.0.0\"\n").is_empty());
        assert!(of_lock("candle-core, but no lock file").is_empty());
    }

    #[test]
    fn the_file_name_identifies_a_renamed_crate() {
        let line =
            "rustc --extern candle=/d/libcandle_core-1a.rmeta --extern priv:nn=/d/libcandle_nn-2b.rmeta";
        let expected = vec![
            ("candle_core", vec!["/d/libcandle_core-1a.rmeta".to_owned()]),
            ("candle_nn", vec!["/d/libcandle_nn-2b.rmeta".to_owned()]),
        ];
        assert_eq!(needed(line), Some(expected));
    }

    #[test]
    fn an_optional_crate_may_be_missing_but_a_required_one_may_not() {
        let line = "rustc --extern candle_core=/d/libcandle_core-1a.rlib";
        assert_eq!(needed(line), Some(vec![("candle_core", vec!["/d/libcandle_core-1a.rlib".to_owned()])]));
        assert_eq!(
            needed("rustc --extern candle_nn=/d/libcandle_nn-2b.rmeta --extern noprelude:a=/d/liba.rlib"),
            None
        );
        assert_eq!(needed("rustc --crate-name candle_core --extern proc_macro"), None);
    }

    #[test]
    fn of_two_versions_the_one_with_its_own_name_is_used() {
        let line =
            "rustc --extern old=/d/libcandle_core-1a.rlib --extern candle_core=/d/libcandle_core-2b.rlib";
        assert_eq!(needed(line), Some(vec![("candle_core", vec!["/d/libcandle_core-2b.rlib".to_owned()])]));
    }

    #[test]
    fn a_call_without_a_framework_gets_only_a_folder() {
        let adapters =
            Adapters { names: vec!["memprof_candle".into()], folder: "/a".into(), ..Adapters::default() };
        let provide = |line: &str| super::provide(&adapters, &[], Path::new("/s"), &words(line)).unwrap();
        assert_eq!(provide("rustc --crate-name a").arguments, words("-L dependency=/a"));
        assert_eq!(provide("rustc --crate-name build_script_build"), Provided::default());
        assert_eq!(provide("rustc --crate-name a --crate-type proc-macro"), Provided::default());
        let adapters = Adapters { has_target: true, ..adapters };
        let provide = |line: &str| super::provide(&adapters, &[], Path::new("/s"), &words(line)).unwrap();
        assert_eq!(provide("rustc --crate-name a"), Provided::default());
        assert_eq!(provide("rustc --crate-name a --target x").arguments, words("-L dependency=/a"));
    }

    #[test]
    fn the_first_error_names_its_place() {
        let stderr = "warning: a\n\nerror[E0432]: unresolved import `b`\n  --> memprof_candle/lib.rs:12:5\n   |\nerror: c\n";
        assert_eq!(first_error(stderr), "error[E0432]: unresolved import `b` (memprof_candle/lib.rs:12:5)");
    }

    #[test]
    fn a_hint_says_why_an_adapter_is_missing() {
        let errors = "error[E0432]: unresolved import `memprof_candle`";
        let general = hint(errors, &[]).unwrap();
        assert!(general.contains("depend directly on candle-core"), "{general}");
        let own = format!("memprof_candle{LEFT_OUT}candle_core: error");
        assert!(is_left_out(&own));
        assert_eq!(hint(errors, std::slice::from_ref(&own)).as_ref(), Some(&own));
        assert_eq!(hint("error: something else", &[]), None);
    }
}
