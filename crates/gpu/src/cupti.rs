//! Finds CUPTI, NVIDIA's library that counts every allocation through the CUDA driver, and the
//! driver itself.

use std::path::Path;

use camino::{Utf8Path, Utf8PathBuf};

use memprof_support::process::Command;

/// The variable that names the library.
pub(crate) const VARIABLE: &str = "MEMPROF_CUPTI";

/// Whether the kernel driver of an NVIDIA GPU is loaded. Without it no process can use CUDA. In the
/// Windows Subsystem for Linux, the driver is behind `/dev/dxg`.
pub(crate) fn has_driver() -> bool {
    let places = ["/dev/nvidiactl", "/proc/driver/nvidia/version", "/dev/dxg"];
    places.iter().any(|place| Path::new(place).exists())
}

/// Returns the newest CUPTI of the first place that has one: `VARIABLE`, `CUDA_HOME` and similar
/// variables, the loader's folders, `/usr/local/cuda*`, and Python packages.
///
/// # Errors
/// Says where it looked.
pub fn find() -> Result<Utf8PathBuf, String> {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    if let Some(named) = variable(VARIABLE) {
        let path = Utf8PathBuf::from(named);
        return if path.is_file() {
            Ok(path)
        } else {
            Err(format!("{VARIABLE} names {path}, which is not a file"))
        };
    }
    let mut folders = Vec::new();
    for home in ["CUDA_HOME", "CUDA_PATH", "CUDA_ROOT"].iter().filter_map(|name| variable(name)) {
        folders.extend(below_cuda(Utf8Path::new(&home)));
    }
    let loader = variable("LD_LIBRARY_PATH").unwrap_or_default();
    folders.extend(loader.split(':').filter(|folder| !folder.is_empty()).map(Utf8PathBuf::from));
    folders.extend(known_to_the_loader());
    let mut installed = entries(Utf8Path::new("/usr/local"), "cuda");
    // `cuda` comes first, then the highest version.
    installed.sort_by_key(|folder| (folder.file_name() != Some("cuda"), std::cmp::Reverse(folder.clone())));
    folders.extend(installed.iter().flat_map(|home| below_cuda(home)));
    folders.extend(of_python());
    let newest = |folder: &Utf8PathBuf| entries(folder, "libcupti.so").into_iter().max();
    if let Some(library) = folders.iter().find_map(newest) {
        return Ok(library);
    }
    folders.dedup();
    let places: Vec<&str> = folders.iter().map(|folder| folder.as_str()).collect();
    let places = if places.is_empty() { "the loader's folders".to_owned() } else { places.join(", ") };
    Err(format!("libcupti.so not found (looked in {places}); install CUPTI or set {VARIABLE}"))
}

fn below_cuda(home: &Utf8Path) -> Vec<Utf8PathBuf> {
    let targets = entries(&home.join("targets"), "").into_iter().map(|target| target.join("lib"));
    ["extras/CUPTI/lib64", "lib64", "lib"]
        .map(|folder| home.join(folder))
        .into_iter()
        .chain(targets)
        .collect()
}

/// Returns the folders in which `ldconfig` knows a CUPTI.
fn known_to_the_loader() -> Vec<Utf8PathBuf> {
    let ask = |program: &str| Command::new(program).arg("-p").run().ok();
    let Some(cache) = ask("ldconfig").or_else(|| ask("/sbin/ldconfig")) else { return Vec::new() };
    let text = cache.text();
    let lines = text.lines().filter(|line| line.trim_start().starts_with("libcupti.so"));
    lines.filter_map(|line| Some(Utf8Path::new(line.split("=> ").nth(1)?).parent()?.to_owned())).collect()
}

/// Returns `nvidia/cuda_cupti/lib` (CUDA 12) and `nvidia/cu13/lib` below the packages of the
/// virtual environment, of the user and of the system.
fn of_python() -> Vec<Utf8PathBuf> {
    let environment = std::env::var("VIRTUAL_ENV").ok().map(Utf8PathBuf::from);
    let user =
        etcetera::home_dir().ok().and_then(|home| Utf8PathBuf::from_path_buf(home.join(".local")).ok());
    let roots = [environment, user, Some("/usr/local".into()), Some("/usr".into())];
    let libraries = roots.into_iter().flatten().flat_map(|root| entries(&root.join("lib"), "python3"));
    libraries
        .flat_map(|library| {
            ["site-packages", "dist-packages"].into_iter().flat_map(move |packages| {
                let packages = library.join(packages);
                ["nvidia/cuda_cupti/lib", "nvidia/cu13/lib"].map(|folder| packages.join(folder))
            })
        })
        .collect()
}

/// Returns the entries of a folder whose names begin with `start`, sorted. A missing folder has
/// none.
fn entries(folder: &Utf8Path, start: &str) -> Vec<Utf8PathBuf> {
    let entries = folder.read_dir_utf8().into_iter().flatten().filter_map(Result::ok);
    let mut found: Vec<Utf8PathBuf> = entries
        .filter(|entry| entry.file_name().starts_with(start))
        .map(|entry| entry.path().to_owned())
        .collect();
    found.sort();
    found
}
