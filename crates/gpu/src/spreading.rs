//! Spreading tests over the devices of a pool (`--devices`): which devices it has, and which test
//! gets which. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::devices::{CudaDevice, Device, Devices};
use crate::visible_devices::{self, NONE, named};
use memprof_support::user_error::UserError;

/// The name for all devices of the machine.
pub const ALL: &str = "all";

/// Checks that this can be the name of a device of a pool, or of all devices.
pub fn check_name(text: &str) -> Result<(), String> {
    match text {
        ALL => Ok(()),
        NONE => Err("tests cannot be spread over no device; to hide all devices: --device none".to_owned()),
        name => visible_devices::check_name(name),
    }
}

/// Returns the devices of a pool that the user named.
///
/// # Errors
/// A name matches no device, there is none, or the devices are of different models.
pub(crate) fn pool(devices: &Devices, names: &[String]) -> Result<Vec<CudaDevice>, UserError> {
    if names.len() > 1 && names.iter().any(|name| name == ALL) {
        return Err(UserError::new("`all` cannot be combined with a device").help("--devices all"));
    }
    let all = || devices.devices.iter().flat_map(Device::cuda_devices).collect();
    let pool: Vec<CudaDevice> = if names == [ALL] { all() } else { named(devices, names)? };
    if pool.is_empty() {
        return Err(UserError::new(format!("--devices {}: there is no device", names.join(",")))
            .help("`cargo memprof doctor` says what NVML shows"));
    }
    let models: Vec<(String, u64)> = pool.iter().map(|device| model(devices, device)).collect();
    if models.windows(2).all(|pair| pair[0] == pair[1]) {
        return Ok(pool);
    }
    let list: Vec<String> =
        pool.iter().zip(&models).map(|(device, (name, _))| format!("{device} is {name}")).collect();
    let alike = pool.iter().zip(&models).filter(|(_, model)| **model == models[0]);
    let alike: Vec<&str> = alike.map(|(device, _)| device.uuid.as_str()).collect();
    Err(UserError::new(format!("--devices: different models of GPU: {}", list.join(", "))).help(format!(
        "figures of different models are not comparable; choose one model: --devices {}",
        alike.join(",")
    )))
}

/// A device's model: its name and its memory.
fn model(devices: &Devices, device: &CudaDevice) -> (String, u64) {
    let Some(whole) = devices.devices.iter().find(|whole| whole.index == device.index) else {
        return Default::default();
    };
    let part = device.part.and_then(|part| whole.parts.iter().find(|one| one.index == part));
    let memory = part.map_or(whole.memory_bytes, |part| part.memory_bytes);
    (whole.name.clone(), memory.unwrap_or_default())
}

/// Gives each test one device of the pool, by UUID. A test keeps the device that it has, if the pool
/// still has it. The others go where the least is to do, those that take longest first. If nothing is
/// known of a test, it takes as long as the average.
pub fn assign<K: Ord + Clone>(
    tests: &[(K, Option<Duration>)],
    pool: &[CudaDevice],
    kept: &BTreeMap<K, String>,
) -> BTreeMap<K, String> {
    let known: Vec<Duration> = tests.iter().filter_map(|(_, time)| *time).collect();
    let count = u32::try_from(known.len()).unwrap_or(u32::MAX);
    let average = known.iter().sum::<Duration>().checked_div(count).unwrap_or(Duration::from_secs(1));
    let mut load: Vec<(Duration, &str)> =
        pool.iter().map(|device| (Duration::ZERO, device.uuid.as_str())).collect();
    let mut assigned = BTreeMap::new();
    let mut open = Vec::new();
    for (test, time) in tests {
        let time = time.unwrap_or(average);
        let own = kept.get(test).and_then(|uuid| load.iter_mut().find(|(_, device)| device == uuid));
        match own {
            Some((load, device)) => {
                *load += time;
                assigned.insert(test.clone(), (*device).to_owned());
            }
            None => open.push((test, time)),
        }
    }
    open.sort_by_key(|(_, time)| std::cmp::Reverse(*time));
    for (test, time) in open {
        // The first one with the least: the order of the pool decides among equals.
        let Some((load, device)) = load.iter_mut().min_by_key(|(load, _)| *load) else { break };
        *load += time;
        assigned.insert(test.clone(), (*device).to_owned());
    }
    assigned
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(models: &[&str]) -> Devices {
        let device = |(index, name): (usize, &&str)| Device {
            index: u32::try_from(index).unwrap(),
            uuid: format!("GPU-{index}{index}{index}{index}"),
            name: (*name).to_owned(),
            ..Device::default()
        };
        Devices { devices: models.iter().enumerate().map(device).collect(), ..Devices::default() }
    }

    fn names(text: &str) -> Vec<String> {
        text.split(',').map(str::to_owned).collect()
    }

    #[test]
    fn a_pool_has_devices_of_one_model() {
        let two = machine(&["H200", "H200", "A100"]);
        assert_eq!(pool(&two, &names("0,1")).unwrap().len(), 2);
        assert_eq!(pool(&two, &names("2")).unwrap().len(), 1);
        let mixed = pool(&two, &names("all")).unwrap_err();
        assert_eq!(
            mixed.message,
            "--devices: different models of GPU: GPU 0 is H200, GPU 1 is H200, GPU 2 is A100"
        );
        assert!(mixed.help.unwrap().ends_with("choose one model: --devices GPU-0000,GPU-1111"));
        assert!(pool(&machine(&[]), &names("all")).unwrap_err().message.contains("there is no device"));
        assert!(pool(&two, &names("7")).unwrap_err().message.contains("no device '7'"));
        let smaller = Device { memory_bytes: Some(1), ..two.devices[1].clone() };
        let other = Devices { devices: vec![two.devices[0].clone(), smaller], ..Devices::default() };
        assert!(pool(&other, &names("0,1")).is_err(), "one name, but other memory");
    }

    #[test]
    fn tests_go_where_the_least_is_to_do_and_stay_there() {
        let two = machine(&["H200", "H200"]);
        let pool = pool(&two, &names("all")).unwrap();
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        let tests = [("a", seconds(1)), ("b", seconds(9)), ("c", seconds(4)), ("d", seconds(5)), ("e", None)];
        let first = assign(&tests, &pool, &BTreeMap::new());
        let on = |assigned: &BTreeMap<&'static str, String>, device: &str| -> String {
            assigned.iter().filter(|(_, uuid)| *uuid == device).map(|(test, _)| *test).collect()
        };
        assert_eq!((on(&first, "GPU-0000").as_str(), on(&first, "GPU-1111").as_str()), ("bc", "ade"));
        let unknown = [("a", None), ("b", None), ("c", None), ("d", None)];
        let by_count = assign(&unknown, &pool, &BTreeMap::new());
        assert_eq!(on(&by_count, "GPU-0000"), "ac");

        let again = assign(&[("f", seconds(2)), tests[0], tests[1]], &pool, &first);
        assert_eq!((&again["a"], &again["b"]), (&first["a"], &first["b"]));
        let fewer = assign(&tests, &pool[1..], &first);
        assert!(fewer.values().all(|uuid| uuid == "GPU-1111"));
    }
}
