//! Gathers the facts about this machine by trying each source. Leaves nothing behind.

use std::error::Error;
use std::fs::Permissions;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use camino::{Utf8Path, Utf8PathBuf};
use tempfile::TempPath;

use crate::doctor::machine::{Cupti, DeviceRuns, MachineFacts, NvmlFacts, Resident};
use memprof_build::checkout::cache;
use memprof_build::checkout::size_limit;
use memprof_gpu::courtesy::note::Notes;
use memprof_gpu::cupti;
use memprof_gpu::devices::Device;
use memprof_gpu::locks;
use memprof_gpu::nvml::{self, Nvml, ProcessIds};
use memprof_gpu::tickets;
use memprof_gpu::visible_devices::{ORDER, VISIBLE};
use memprof_support::file_lock;
use memprof_support::process::Command;
use memprof_support::process_error::ProcessError;

/// Gathers all facts.
pub fn gather() -> MachineFacts {
    let variable = |name: &str| std::env::var(name).ok();
    let may_have_devices = nvml::may_have_devices();
    let unasked = || "no NVIDIA kernel driver".to_owned();
    let home = cache::home().map_err(|error| format!("{error:#}"));
    MachineFacts {
        programs: programs(),
        cache_locks: home.as_deref().map(held_locks).unwrap_or_default(),
        cache_size: cache_size(home.as_deref().ok()),
        cache: home.and_then(usable),
        platform: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
        resident: resident(),
        may_have_devices,
        nvml: if may_have_devices { nvml_facts() } else { Err(unasked()) },
        cuda: if may_have_devices { load("libcuda.so.1".as_ref()).map(drop) } else { Err(unasked()) },
        cupti: if may_have_devices { cupti_facts() } else { Err(unasked()) },
        injected: variable("CUDA_INJECTION64_PATH").filter(|path| !path.is_empty()),
        visible: variable(VISIBLE),
        order: variable(ORDER),
        drm_drivers: drm_drivers(),
        set_aside: Notes::open().own(),
    }
}

fn programs() -> Vec<(&'static str, Result<String, String>)> {
    let ask = |name: &'static str, command: Command| {
        let version = match command.run() {
            Ok(answer) => Ok(answer.text().lines().next().unwrap_or_default().to_owned()),
            Err(error) if error.is_missing_program() => Err("not found".to_owned()),
            Err(error @ ProcessError::Failed { .. }) => {
                Err(error.stderr().lines().next().unwrap_or_default().to_owned())
            }
            Err(error) => Err(error.to_string()),
        };
        (name, version)
    };
    vec![
        ask("git", Command::new("git").arg("--version")),
        ask("cargo", Command::new("cargo").arg("--version")),
        ask("rustc", Command::new("rustc").arg("--version")),
        ask("git-lfs", Command::new("git-lfs").arg("version")),
    ]
}

/// Returns the folder, if it is not in a repository or workspace, and programs can be created and started in it
/// or in its nearest existing parent.
fn usable(home: Utf8PathBuf) -> Result<Utf8PathBuf, String> {
    cache::check_place(&home).map_err(|error| format!("{error:#}"))?;
    let existing = home.ancestors().find(|folder| folder.is_dir()).unwrap_or(Utf8Path::new("/"));
    let create = || -> std::io::Result<TempPath> {
        let mut builder = tempfile::Builder::new();
        let mut file = builder.permissions(Permissions::from_mode(0o700)).tempfile_in(existing)?;
        file.write_all(b"#!/bin/sh\n")?;
        Ok(file.into_temp_path())
    };
    let program = create().map_err(|error| format!("{home}: cannot create a file in {existing}: {error}"))?;
    match Command::new(&program).run() {
        Ok(_) => Ok(home),
        Err(error) => {
            let reason = error.source().map_or_else(|| error.to_string(), ToString::to_string);
            Err(format!(
                "{home}: cannot start a program in {existing}, which may be mounted noexec: {reason}"
            ))
        }
    }
}

/// Returns the size of the cache and its limit.
fn cache_size(home: Option<&Utf8Path>) -> Result<(u64, Option<u64>), String> {
    let limit = size_limit::limit().map_err(|error| error.to_string())?;
    Ok((home.map_or(0, cache::bytes_on_disk), limit))
}

/// Returns the locked caches: the name of the folder, and the process that holds the lock.
fn held_locks(home: &Utf8Path) -> Vec<(String, String)> {
    let folders = home.read_dir_utf8().into_iter().flatten().filter_map(Result::ok);
    let mut held: Vec<(String, String)> = folders
        .filter_map(|folder| {
            Some((folder.file_name().to_owned(), file_lock::held_by(&folder.path().join("lock"))?))
        })
        .collect();
    held.sort();
    held
}

fn resident() -> Resident {
    if cfg!(target_os = "linux") {
        let readable = |path: &str| {
            fs_err::read(path)
                .map_err(|error| error.to_string())
                .and_then(|text| if text.is_empty() { Err(format!("{path} is empty")) } else { Ok(()) })
        };
        Resident::Linux {
            statm: readable("/proc/self/statm"),
            reset: reset_high_water_mark(),
            rollup: readable("/proc/self/smaps_rollup"),
        }
    } else if cfg!(target_os = "macos") {
        Resident::BySystem("task_info")
    } else {
        Resident::Unknown
    }
}

/// Resets this process's high-water mark after a peak, as the shim does at each checkpoint. The
/// mark must then be lower.
fn reset_high_water_mark() -> Result<(), String> {
    const PEAK: usize = 64 << 20;
    // Touches each page. When freed, an allocation of this size goes back to the kernel at once.
    drop(std::hint::black_box(vec![1_u8; PEAK]));
    let high_water_mark = || -> Option<usize> {
        let status = std::fs::read_to_string("/proc/self/status").ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
        line.trim().strip_suffix(" kB")?.parse::<usize>().ok()?.checked_mul(1024)
    };
    let before = high_water_mark().ok_or("/proc/self/status has no VmHWM")?;
    fs_err::write("/proc/self/clear_refs", "5").map_err(|error| error.to_string())?;
    let after = high_water_mark().ok_or("/proc/self/status no longer has VmHWM")?;
    if after + PEAK / 2 <= before {
        Ok(())
    } else {
        Err("writing 5 to /proc/self/clear_refs does not lower VmHWM".to_owned())
    }
}

fn nvml_facts() -> Result<NvmlFacts, String> {
    let nvml = Nvml::open()?;
    let devices = nvml.devices()?;
    let locks = locks::folder();
    let places = devices.devices.iter().flat_map(Device::cuda_devices);
    let places = places.map(|place| {
        let occupancy = nvml.occupancy(&place.uuid);
        let waiting =
            tickets::waiting(&locks, &place).iter().map(|run| (run.user.clone(), run.shown())).collect();
        let runs = DeviceRuns { holder: file_lock::held_by(&locks::path(&locks, &place)), waiting };
        (place, occupancy, runs)
    });
    Ok(NvmlFacts { places: places.collect(), devices, process_ids: ProcessIds::here() })
}

fn cupti_facts() -> Result<Cupti, String> {
    let found = cupti::find()?;
    let path = found.canonicalize_utf8().unwrap_or(found);
    let version = load(path.as_std_path()).and_then(|library| cupti_version(&library));
    Ok(Cupti { path, version })
}

/// Loads a library as a test process would. It stays loaded, because unloading such a library may
/// crash.
#[expect(unsafe_code, reason = "loading a library runs its code")]
fn load(path: &Path) -> Result<std::mem::ManuallyDrop<libloading::Library>, String> {
    // SAFETY: this is the user's own driver or CUPTI, which test processes load too.
    let library = unsafe { libloading::Library::new(path) };
    library.map(std::mem::ManuallyDrop::new).map_err(|error| error.to_string())
}

#[expect(unsafe_code, reason = "a call into C")]
fn cupti_version(library: &libloading::Library) -> Result<u32, String> {
    let mut version = 0;
    // SAFETY: the signature is `CUptiResult cuptiGetVersion(uint32_t *version)`, and it may be
    // called at any time (`cupti_version.h`).
    let status = unsafe {
        let get = library.get::<unsafe extern "C" fn(*mut u32) -> i32>(b"cuptiGetVersion\0");
        get.map_err(|error| error.to_string())?(&raw mut version)
    };
    if status == 0 { Ok(version) } else { Err(format!("cuptiGetVersion failed with error {status}")) }
}

/// Returns the kernel drivers of this machine's GPUs whose fdinfo the shim reads.
fn drm_drivers() -> Vec<String> {
    let cards = Utf8Path::new("/sys/class/drm").read_dir_utf8().into_iter().flatten().filter_map(Result::ok);
    let mut drivers: Vec<String> = cards
        .filter_map(|card| {
            let driver = card.path().join("device/driver").canonicalize_utf8().ok()?;
            driver.file_name().map(ToOwned::to_owned)
        })
        .filter(|driver| ["amdgpu", "i915", "xe"].contains(&driver.as_str()))
        .collect();
    drivers.sort();
    drivers.dedup();
    drivers
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;

    #[test]
    fn the_probe_of_the_high_water_mark_agrees_with_the_kernel() {
        // The probe must fail exactly if the kernel refuses the write.
        let refused = std::fs::write("/proc/self/clear_refs", "5").is_err();
        assert_eq!(reset_high_water_mark().is_err(), refused);
    }

    #[test]
    fn the_check_for_a_writable_folder_leaves_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let folder = Utf8Path::from_path(folder.path()).unwrap();
        assert_eq!(usable(folder.join("a/b")), Ok(folder.join("a/b")));
        assert_eq!(folder.read_dir_utf8().unwrap().count(), 0);
        assert!(usable("/proc/nowhere".into()).unwrap_err().contains("cannot create a file in /proc"));
    }

    #[test]
    #[expect(clippy::print_stderr, reason = "a skipped test says why")]
    fn a_folder_where_no_program_starts_is_not_usable() {
        const FOLDER: &str = "MEMPROF_TEST_NOEXEC";
        if let Ok(folder) = std::env::var(FOLDER) {
            let reason = usable(Utf8PathBuf::from(folder).join("a")).unwrap_err();
            assert!(reason.contains("cannot start a program in /") && reason.contains("noexec"), "{reason}");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let in_namespace = |program: &Path| {
            let script = format!("mount -t tmpfs -o noexec none \"${FOLDER}\" && exec \"$@\"");
            Command::new("unshare")
                .args(["--map-root-user", "--mount", "sh", "-c", &script, "sh"])
                .arg(program)
                .env(FOLDER, folder.path())
        };
        if let Err(error) = in_namespace("true".as_ref()).run() {
            eprintln!("skipped: this user cannot mount a folder: {error}");
            return;
        }
        let name = "doctor::facts::tests::a_folder_where_no_program_starts_is_not_usable";
        let again = in_namespace(&std::env::current_exe().unwrap()).args(["--exact", name]).run().unwrap();
        assert!(again.text().contains("1 passed"), "{}", again.text());
    }

    #[test]
    fn the_error_for_a_missing_library_names_it() {
        let reason = load("libmemprof-there-is-none.so.1".as_ref()).unwrap_err();
        assert!(reason.contains("libmemprof-there-is-none.so.1"), "{reason}");
    }
}
