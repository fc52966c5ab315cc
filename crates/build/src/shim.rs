//! The shim crate: its embedded source, and its compilation, once per compiler and target.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::LazyLock;

use anyhow::Context;
use camino::{Utf8Path, Utf8PathBuf};
use include_dir::{Dir, include_dir};

use crate::adapters::{self, Adapters};
use crate::cargo::toolchain::Toolchain;
use crate::checkout::cache::Cache;
use crate::checkout::removal::remove_whatever_is_at;
use crate::inject::checkout_edits;
use crate::inject::own_allocator;
use crate::known_files::hash_file;
use crate::shim_lock;
use crate::trace::checkpoints;
use crate::trace::functions;
use crate::trace::lines;
use crate::wrapper;
use memprof_support::process::Command;
use memprof_support::sealed;

static TEMPLATES: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/templates");

/// The crates, in compilation order: the first measures, the second installs the allocator.
const CRATES: [&str; 2] = ["memprof", "memprof_heap"];

/// A library that test processes load. It is compiled on first use: few runs need it, and unlike the
/// rest of the shim, it needs a linker for the target.
#[derive(Clone, Copy, Debug)]
struct Library {
    crate_name: &'static str,
    /// Who loads it, for messages.
    words: &'static str,
}

/// The file with the hashes of the others.
const CONTENTS: &str = "contents.json";

const INJECTION: Library =
    Library { crate_name: "memprof_inject", words: "the library that the CUDA driver loads" };
const MALLOC: Library =
    Library { crate_name: "memprof_malloc", words: "the library in front of the C library's allocator" };

/// The compiled shim.
#[derive(Clone, Debug)]
pub(crate) struct CompiledShim {
    /// Shared by all repositories. Nothing in it depends on one of them.
    folder: Utf8PathBuf,
    /// Adapters are compiled against the frameworks of one repository, which keeps them.
    adapters: Utf8PathBuf,
}

/// A shim that is not compiled yet. Nobody else compiles it while this exists.
#[derive(Debug)]
pub(crate) struct MissingShim {
    folder: Utf8PathBuf,
    _lock: std::fs::File,
}

impl MissingShim {
    /// Compiles the shim and moves it to its place.
    pub fn compile(self, toolchain: &Toolchain, target: Option<&str>) -> anyhow::Result<()> {
        let shims = self.folder.parent().context("the cache has a folder")?;
        let name = self.folder.file_name().context("a shim is named by its hash")?;
        let beside = tempfile::tempdir_in(shims)?;
        let made = Utf8Path::from_path(beside.path()).context("the cache is UTF-8")?.join(name);
        compile_all(&made, toolchain, target)?;
        note_contents(&made)?;
        place(&made, &self.folder)
    }
}

/// Returns a hash of the shim's source, of the list of adapters, and of the texts that are injected
/// into revisions. It is part of every build's key, and of the wrapper's path.
pub fn source_hash() -> &'static str {
    // Every run asks, and the texts are long.
    static HASH: LazyLock<String> = LazyLock::new(compute_source_hash);
    &HASH
}

fn compute_source_hash() -> String {
    let mut files = Vec::new();
    collect(&TEMPLATES, &mut files);
    // A README there must not invalidate builds.
    files.retain(|(path, _)| path.extension().is_some_and(|extension| extension == "rs"));
    files.sort_unstable();
    let mut hasher = blake3::Hasher::new();
    for (path, content) in files {
        hasher.update(path.as_os_str().as_encoded_bytes()).update(&[0]);
        hasher.update(&(content.len() as u64).to_le_bytes()).update(content);
    }
    hasher.update(format!("{:?}", adapters::ADAPTERS).as_bytes()).update(&[0]);
    // This program's code decides how these are compiled and injected.
    hasher.update(env!("CARGO_PKG_VERSION").as_bytes()).update(&[0]);
    let put_in = own_allocator::WRAPPING
        .into_iter()
        .chain(own_allocator::WRAPPING_2018)
        .flatten()
        .chain(functions::TEXTS)
        .chain(lines::TEXTS)
        .chain(checkpoints::TEXTS);
    hasher.update(checkout_edits::lines(true).as_bytes()).update(&[0]);
    for text in put_in {
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

impl CompiledShim {
    /// Returns where the shim for this toolchain and target is, or will be.
    pub fn locate(cache: &Cache, toolchain: &Toolchain, target: Option<&str>) -> Self {
        let hash = hash(toolchain, target);
        Self { folder: cache.shims().join(&hash), adapters: cache.adapters().join(hash) }
    }

    /// Finds the shim for this toolchain and target in the cache, or compiles it.
    pub(crate) fn find_or_compile(
        cache: &Cache,
        toolchain: &Toolchain,
        target: Option<&str>,
    ) -> anyhow::Result<Self> {
        let shim = Self::locate(cache, toolchain, target);
        if let Some(missing) = shim.missing()? {
            missing.compile(toolchain, target)?;
        }
        Ok(shim)
    }

    /// Returns the shim's place with its lock, if it is not compiled yet, or was damaged. Waits if another process is
    /// compiling it. The compiler wrapper waits for the lock too: see [`shim_lock`].
    pub fn missing(&self) -> anyhow::Result<Option<MissingShim>> {
        if is_whole(&self.folder) {
            return Ok(None);
        }
        fs_err::create_dir_all(self.folder.parent().context("the cache has a folder")?)?;
        let lock = fs_err::File::create(shim_lock::lock_of(self.folder.as_std_path()))?.into_parts().0;
        lock.lock().context("cannot lock the shim's place")?;
        if is_whole(&self.folder) {
            return Ok(None);
        }
        remove_whatever_is_at(&self.folder)?;
        Ok(Some(MissingShim { folder: self.folder.clone(), _lock: lock }))
    }

    /// Returns the library that the CUDA driver loads into test processes, or why it is missing.
    pub fn injection(&self, toolchain: &Toolchain, target: Option<&str>) -> Result<Utf8PathBuf, String> {
        self.library(INJECTION, toolchain, target)
    }

    /// Returns the library that counts the C library's allocator, or why it is missing.
    pub fn malloc(&self, toolchain: &Toolchain, target: Option<&str>) -> Result<Utf8PathBuf, String> {
        self.library(MALLOC, toolchain, target)
    }

    fn library(
        &self,
        Library { crate_name, words }: Library,
        toolchain: &Toolchain,
        target: Option<&str>,
    ) -> Result<Utf8PathBuf, String> {
        let file = format!("lib{crate_name}.so");
        let library = self.folder.join(&file);
        if library.exists() {
            return Ok(library);
        }
        let source = self.folder.join("source").join(crate_name).join("lib.rs");
        let compiled = || {
            // Compiled elsewhere and moved, so that no other run loads half a library.
            let aside = tempfile::tempdir_in(&self.folder)?;
            let command: Command = toolchain
                .rustc()
                .args(["--crate-name", crate_name, "--crate-type", "cdylib", "--edition", "2021"])
                .args(["-C", "opt-level=3", "-C", "panic=abort", "-C", "strip=symbols"])
                .args(["--cap-lints", "warn", "--out-dir"])
                .arg(aside.path())
                .args(target.iter().flat_map(|target| ["--target", target]))
                .arg(source);
            command.run()?;
            fs_err::rename(aside.path().join(&file), &library)?;
            anyhow::Ok(())
        };
        match compiled() {
            Ok(()) => Ok(library),
            Err(error) => Err(format!("could not compile {words}: {error:#}")),
        }
    }

    /// Returns what the wrapper adds to traced crates outside the workspace.
    pub(crate) fn wrapping_dependencies(&self, inner: Option<PathBuf>) -> wrapper::WrapperShim {
        let mut wrapping = self.wrapping(inner);
        wrapping.externs.retain(|(name, _)| name == "memprof_shim");
        wrapping
    }

    /// Returns what the wrapper adds to members of the workspace.
    pub(crate) fn wrapping(&self, inner: Option<PathBuf>) -> wrapper::WrapperShim {
        let rlib = |name: &str| self.folder.join(format!("lib{name}.rlib")).into_std_path_buf();
        wrapper::WrapperShim {
            // The appended line uses the second name, because the repository may have its own
            // `memprof`.
            externs: [("memprof", "memprof"), ("memprof_shim", "memprof"), ("memprof_heap", "memprof_heap")]
                .map(|(name, file)| (name.to_owned(), rlib(file)))
                .to_vec(),
            search: self.folder.clone().into_std_path_buf(),
            inner,
            adapters: None,
            in_build: None,
            has_target: false,
            unselected: BTreeSet::new(),
        }
    }

    /// Returns the adapters for the frameworks in a lock file, if it has any.
    pub fn adapters(&self, lock: &str, target: Option<&str>) -> Option<Adapters> {
        let names = adapters::of_lock(lock);
        (!names.is_empty()).then(|| Adapters {
            names,
            source: self.folder.join("source").into_std_path_buf(),
            folder: self.adapters.clone().into_std_path_buf(),
            has_target: target.is_some(),
        })
    }

    /// Returns what the wrapper adds to build scripts and procedural macros. `self` is the shim for
    /// the host.
    pub(crate) fn in_build(&self, wrapping: &wrapper::WrapperShim) -> wrapper::HostShim {
        let mut own = self.wrapping(None);
        own.externs.retain(|(name, _)| wrapping.externs.iter().any(|(wanted, _)| wanted == name));
        wrapper::HostShim { externs: own.externs, search: own.search }
    }
}

/// Notes the hashes of a compiled shim's files, by their paths in its folder.
fn note_contents(folder: &Utf8Path) -> anyhow::Result<()> {
    let mut hashes = BTreeMap::new();
    for entry in walkdir::WalkDir::new(folder) {
        let entry = entry?;
        if entry.file_type().is_file() {
            let path = Utf8Path::from_path(entry.path()).context("the cache is UTF-8")?;
            hashes.insert(path.strip_prefix(folder)?.to_owned(), hash_file(path)?);
        }
    }
    sealed::write_unsynced(&folder.join(CONTENTS), &hashes)
}

/// Whether a shim is compiled, and its files are as they were then: a power failure or a full disk may damage them.
fn is_whole(folder: &Utf8Path) -> bool {
    let noted: anyhow::Result<BTreeMap<Utf8PathBuf, String>> = sealed::read(&folder.join(CONTENTS));
    let is_same = |(path, hash): (&Utf8PathBuf, &String)| {
        hash_file(&folder.join(path)).is_ok_and(|found| found == *hash)
    };
    noted.is_ok_and(|hashes| hashes.iter().all(is_same))
}

/// Moves a complete folder to its place, unless another process did so first.
fn place(made: &Utf8Path, folder: &Utf8Path) -> anyhow::Result<()> {
    match fs_err::rename(made, folder) {
        Err(error) if !folder.exists() => Err(error.into()),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Hash of everything that the compiled shim depends on.
fn hash(toolchain: &Toolchain, target: Option<&str>) -> String {
    let mut hasher = blake3::Hasher::new();
    for part in [source_hash(), &toolchain.version, target.unwrap_or_default()] {
        hasher.update(part.as_bytes()).update(&[0]);
    }
    for argument in CRATES.into_iter().flat_map(|name| arguments(name, "".into(), target)) {
        hasher.update(argument.as_bytes()).update(&[0]);
    }
    hasher.finalize().to_hex()[..16].to_owned()
}

/// Writes the shim's source to a folder and compiles its crates there.
fn compile_all(folder: &Utf8Path, toolchain: &Toolchain, target: Option<&str>) -> anyhow::Result<()> {
    let source = folder.join("source");
    fs_err::create_dir_all(&source)?;
    TEMPLATES.extract(&source).with_context(|| format!("could not write the shim's source to {source}"))?;
    for name in CRATES {
        let command = toolchain.rustc().args(arguments(name, folder, target));
        if let Err(error) = command.run() {
            let user_error = target.and_then(|target| toolchain.target_error(target, error.stderr()));
            return Err(match user_error {
                Some(user_error) => user_error.into(),
                None => anyhow::Error::new(error).context("could not compile the shim crate"),
            });
        }
    }
    Ok(())
}

/// The compiler's arguments for one of the crates.
fn arguments(name: &str, folder: &Utf8Path, target: Option<&str>) -> Vec<String> {
    let source = folder.join("source");
    // In several code generation units, which are compiled side by side and not optimised across: the
    // first comparison waits for this compiler. Counting and walking take as many instructions.
    let mut arguments: Vec<String> = ["--crate-name", name, "--crate-type", "rlib", "--edition", "2021"]
        .into_iter()
        .chain(["-C", "opt-level=3", "-C", "lto=off", "-C", "metadata=cargo-memprof-shim"])
        .chain(["--cap-lints", "warn", "--remap-path-prefix"])
        .map(str::to_owned)
        .collect();
    arguments.push(format!("{source}=memprof"));
    arguments.extend(["-L".to_owned(), format!("dependency={folder}")]);
    arguments.extend(["--out-dir".to_owned(), folder.to_string()]);
    arguments.extend(target.iter().flat_map(|target| ["--target".to_owned(), (*target).to_owned()]));
    // Only executables link the allocator, so it can do without the indirections of shared
    // libraries. Tracking then takes a quarter fewer instructions. The other crate may also be
    // linked into a procedural macro, which is a shared library.
    arguments.extend((name == "memprof_heap").then(|| "-Crelocation-model=pie".to_owned()));
    arguments.extend((name != "memprof").then(|| format!("--extern=memprof={folder}/libmemprof.rlib")));
    arguments.push(source.join(name).join("lib.rs").into_string());
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shim_lock::wait_for;

    #[test]
    fn the_first_of_two_processes_places_the_shim() {
        let home = tempfile::tempdir().unwrap();
        let home = Utf8Path::from_path(home.path()).unwrap();
        for name in ["first", "second"] {
            fs_err::create_dir(home.join(name)).unwrap();
            fs_err::write(home.join(name).join("made by"), name).unwrap();
            place(&home.join(name), &home.join("shim")).unwrap();
        }
        assert_eq!(fs_err::read_to_string(home.join("shim/made by")).unwrap(), "first");
        assert!(place(&home.join("missing"), &home.join("other")).is_err());
    }

    #[test]
    fn whoever_needs_the_shim_waits_for_the_process_that_compiles_it() {
        let home = tempfile::tempdir().unwrap();
        let folder = Utf8PathBuf::from_path_buf(home.path().join("shim/0123")).unwrap();
        let shim = CompiledShim { folder: folder.clone(), adapters: folder.clone() };
        assert!(wait_for(folder.as_std_path()).is_err(), "nobody compiles it");
        let missing = shim.missing().unwrap().unwrap();
        std::thread::scope(|scope| {
            let waiting =
                scope.spawn(|| wait_for(folder.as_std_path()).map(|()| folder.join("source/a").exists()));
            let second = scope.spawn(|| shim.missing().unwrap().is_none());
            let made = Utf8PathBuf::from_path_buf(home.path().join("made")).unwrap();
            fs_err::create_dir_all(made.join("source")).unwrap();
            fs_err::write(made.join("source/a"), "compiled").unwrap();
            note_contents(&made).unwrap();
            place(&made, &folder).unwrap();
            drop(missing);
            assert!(waiting.join().unwrap().unwrap(), "it is complete");
            assert!(second.join().unwrap(), "it is compiled once");
        });
        fs_err::write(folder.join("library, made on first use"), "").unwrap();
        assert!(shim.missing().unwrap().is_none());
        fs_err::write(folder.join("source/a"), "damaged!").unwrap();
        drop(shim.missing().unwrap().expect("a damaged one is compiled again"));
        assert!(!folder.exists());
        let error = wait_for(folder.as_std_path()).unwrap_err();
        assert_eq!(error.to_string(), "the shim was not compiled");
    }

    #[test]
    fn a_program_that_embeds_the_source_has_no_second_place_for_the_key() {
        let mut files = Vec::new();
        collect(&TEMPLATES, &mut files);
        let text = ["cargo-memprof", "-build-key:"].concat();
        for (path, content) in files {
            let found = memchr::memmem::find(content, text.as_bytes());
            assert!(found.is_none(), "{}", path.display());
        }
    }

    #[test]
    fn the_shim_of_another_target_is_another_one() {
        let arguments = |target| arguments("memprof", "".into(), target);
        assert_ne!(arguments(None), arguments(Some("x86_64-unknown-linux-musl")));
    }
}
