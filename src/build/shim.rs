//! The shim crate: its source, embedded, and its compilation, once per compiler and target.

use std::path::PathBuf;

use anyhow::Context;
use camino::{Utf8Path, Utf8PathBuf};
use include_dir::{Dir, include_dir};

use crate::build::adapters::{self, Adapters};
use crate::build::wrapper;
use crate::cargo::toolchain::Toolchain;
use crate::inject::checkout_edits;
use crate::inject::own_allocator;
use crate::support::process::Command;
use crate::trace::functions;
use crate::trace::lines;

static TEMPLATES: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/templates");

/// The crates, in the order in which they are compiled: the measuring one, and the one that installs its allocator.
const CRATES: [&str; 2] = ["memprof", "memprof_heap"];

/// The crate of the library that the CUDA driver loads.
const INJECTION: &str = "memprof_inject";

/// The compiled shim.
#[derive(Clone, Debug)]
pub struct Shim {
    folder: Utf8PathBuf,
}

/// Hash of the shim's source, of how adapters are compiled and of what is written into the revision's: part of every build's key, and of the wrapper's path.
pub fn source_hash() -> String {
    let mut files = Vec::new();
    collect(&TEMPLATES, &mut files);
    files.sort_unstable();
    let mut hasher = blake3::Hasher::new();
    for (path, content) in files {
        hasher.update(path.as_os_str().as_encoded_bytes()).update(&[0]);
        hasher.update(&(content.len() as u64).to_le_bytes()).update(content);
    }
    hasher.update(format!("{:?}", adapters::ADAPTERS).as_bytes()).update(&[0]);
    // How these are put in is decided by this program.
    hasher.update(env!("CARGO_PKG_VERSION").as_bytes()).update(&[0]);
    let put_in = own_allocator::WRAPPING.into_iter().flatten().chain(functions::TEXTS).chain(lines::TEXTS);
    for text in std::iter::once(checkout_edits::LINES).chain(put_in) {
        hasher.update(text.as_bytes()).update(&[0]);
    }
    hasher.finalize().to_hex()[..16].to_owned()
}

fn collect<'a>(folder: &'a Dir<'a>, files: &mut Vec<(&'a std::path::Path, &'a [u8])>) {
    files.extend(folder.files().map(|file| (file.path(), file.contents())));
    for child in folder.dirs() {
        collect(child, files);
    }
}

impl Shim {
    /// Finds the shim compiled by this toolchain for this target in the cache folder, or compiles it.
    pub fn compiled(cache: &Utf8Path, toolchain: &Toolchain, target: Option<&str>) -> anyhow::Result<Self> {
        let mut hasher = blake3::Hasher::new();
        for part in [&source_hash(), &toolchain.version, target.unwrap_or_default()] {
            hasher.update(part.as_bytes()).update(&[0]);
        }
        let folder = cache.join(&hasher.finalize().to_hex()[..16]);
        if folder.join("complete").exists() {
            return Ok(Self { folder });
        }
        if folder.exists() {
            fs_err::remove_dir_all(&folder)?;
        }
        fs_err::create_dir_all(&folder)?;
        let source = folder.join("source");
        fs_err::create_dir_all(&source)?;
        TEMPLATES
            .extract(&source)
            .with_context(|| format!("could not write the shim's source to {source}"))?;
        for name in CRATES {
            compile(name, &source, &folder, toolchain, target)?;
        }
        fs_err::write(folder.join("complete"), "")?;
        Ok(Self { folder })
    }

    /// The library that the CUDA driver is to load into the test processes, or why there is none. It is compiled when it is
    /// asked for first: only runs with a GPU need it, and unlike the rest of the shim it needs a linker for the target.
    pub fn injection(&self, toolchain: &Toolchain, target: Option<&str>) -> Result<Utf8PathBuf, String> {
        let library = self.folder.join("libmemprof_inject.so");
        if library.exists() {
            return Ok(library);
        }
        // Compiled aside and moved, so that a library that is there is whole.
        let aside = self.folder.join(format!("inject-{}", std::process::id()));
        let source = self.folder.join("source").join(INJECTION).join("lib.rs");
        let compiled = fs_err::create_dir_all(&aside).map_err(anyhow::Error::from).and_then(|()| {
            let command: Command = toolchain
                .rustc()
                .args(["--crate-name", INJECTION, "--crate-type", "cdylib", "--edition", "2021"])
                .args([
                    "-C",
                    "opt-level=3",
                    "-C",
                    "panic=abort",
                    "-C",
                    "strip=symbols",
                    "--cap-lints",
                    "warn",
                ])
                .args(["--out-dir", aside.as_str()])
                .args(target.iter().flat_map(|target| ["--target", target]))
                .arg(source);
            command.run()?;
            fs_err::rename(aside.join("libmemprof_inject.so"), &library)?;
            Ok(())
        });
        // What is left aside is in nobody's way.
        let _ = fs_err::remove_dir_all(&aside);
        match compiled {
            Ok(()) => Ok(library),
            Err(error) => Err(format!("the library for the CUDA driver did not compile: {error:#}")),
        }
    }

    /// What is added to traced crates that are no members of the workspace.
    pub fn wrapping_dependencies(&self, inner: Option<PathBuf>) -> wrapper::Shim {
        let mut wrapping = self.wrapping(inner);
        wrapping.externs.retain(|(name, _)| name == "memprof_shim");
        wrapping
    }

    /// What the compiler wrapper adds.
    pub fn wrapping(&self, inner: Option<PathBuf>) -> wrapper::Shim {
        let rlib = |name: &str| self.folder.join(format!("lib{name}.rlib")).into_std_path_buf();
        wrapper::Shim {
            // The second name of the first crate is for the appended line, where the repository has a crate `memprof`.
            externs: [("memprof", "memprof"), ("memprof_shim", "memprof"), ("memprof_heap", "memprof_heap")]
                .map(|(name, file)| (name.to_owned(), rlib(file)))
                .to_vec(),
            search: self.folder.clone().into_std_path_buf(),
            inner,
            adapters: None,
            in_build: None,
        }
    }

    /// The adapters for the frameworks of a lock file, if it has any.
    pub fn adapters(&self, lock: &str, target: Option<&str>) -> Option<Adapters> {
        let names = adapters::of_lock(lock);
        (!names.is_empty()).then(|| Adapters {
            names,
            source: self.folder.join("source").into_std_path_buf(),
            folder: self.folder.join("adapters").into_std_path_buf(),
            has_target: target.is_some(),
        })
    }

    /// Of what the compiler wrapper adds, what it adds to crates that run in the build, where this is the shim for them.
    pub fn in_build(&self, wrapping: &wrapper::Shim) -> wrapper::InBuild {
        let mut own = self.wrapping(None);
        own.externs.retain(|(name, _)| wrapping.externs.iter().any(|(wanted, _)| wanted == name));
        wrapper::InBuild { externs: own.externs, search: own.search }
    }
}

fn compile(
    name: &str,
    source: &Utf8Path,
    folder: &Utf8Path,
    toolchain: &Toolchain,
    target: Option<&str>,
) -> anyhow::Result<()> {
    let command: Command = toolchain
        .rustc()
        .args(["--crate-name", name, "--crate-type", "rlib", "--edition", "2021"])
        .args(["-C", "opt-level=3", "-C", "codegen-units=1", "-C", "metadata=cargo-memprof-shim"])
        .args(["--cap-lints", "warn", "--remap-path-prefix"])
        .arg(format!("{source}=memprof"))
        .args(["-L", &format!("dependency={folder}"), "--out-dir", folder.as_str()])
        .args(target.iter().flat_map(|target| ["--target", target]))
        // Only executables link the allocator; without the indirections of position-independent libraries tracking takes
        // a quarter fewer instructions. The other crate may also end up in a procedural macro, which is a library.
        .args((name == "memprof_heap").then_some("-Crelocation-model=pie"))
        .args((name != "memprof").then(|| format!("--extern=memprof={folder}/libmemprof.rlib")))
        .arg(source.join(name).join("lib.rs"));
    if let Err(error) = command.run() {
        let user_error = target.and_then(|target| toolchain.target_error(target, error.stderr()));
        return Err(match user_error {
            Some(user_error) => user_error.into(),
            None => anyhow::Error::new(error).context("could not compile the shim crate"),
        });
    }
    Ok(())
}
