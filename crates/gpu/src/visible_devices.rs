//! Which devices a CUDA program can see, according to `CUDA_VISIBLE_DEVICES` and
//! `CUDA_DEVICE_ORDER`.
//!
//! The rules come from the CUDA programming guide ("CUDA Environment Variables"). Where that says
//! nothing, they come from `PyTorch` (`_parse_visible_devices` in `torch/cuda/__init__.py`), which
//! agrees with the driver:
//!
//! - The first element that names no device ends the list.
//! - A device that is named twice makes all devices invisible.
//! - The first element decides whether all elements are numbers, `GPU-…` or `MIG-…`.
//! - Numbers are read as C's `strtoul` reads them.
//!
//! The shim asks the driver for each device's UUID and looks that up in NVML. So `gpu.N` is the
//! same device here and in the shim, regardless of these variables.

use crate::devices::{CudaDevice, Device, Devices, Mig};
use memprof_support::suggest;
use memprof_support::user_error::UserError;

/// The variable that chooses devices.
pub const VISIBLE: &str = "CUDA_VISIBLE_DEVICES";
/// The variable that sets their order.
pub const ORDER: &str = "CUDA_DEVICE_ORDER";

/// The devices that a program can see.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VisibleDevices {
    /// In CUDA's order, as far as that is known.
    pub devices: Vec<CudaDevice>,
    /// Why the devices are not certain. The list then has all that may be visible.
    pub uncertain: Option<&'static str>,
}

const FASTEST_FIRST: &str = "the devices are of several models, and only CUDA knows which one it considers fastest; \
     set CUDA_DEVICE_ORDER=PCI_BUS_ID, or name UUIDs";
const ANY_PART: &str = "CUDA uses one part of a divided device (MIG); name the part by its MIG- UUID";

/// Returns the devices that a program with these two variables can see; `None` is a variable that
/// is not set.
pub fn visible(devices: &Devices, visible: Option<&str>, order: Option<&str>) -> VisibleDevices {
    let mut all: Vec<&Device> = devices.devices.iter().collect();
    all.sort_by_key(|device| (device.bus, device.index));
    let Some(list) = visible else {
        let uncertain = all.iter().any(|device| device.mig == Mig::On).then_some(ANY_PART);
        let devices = all.iter().flat_map(|device| device.cuda_devices()).collect();
        return VisibleDevices { devices, uncertain };
    };
    let mut chosen: Vec<ListedDevice<'_>> = Vec::new();
    let mut elements = list.split(',').map(str::trim).peekable();
    let names = elements.peek().is_some_and(|first| first.starts_with("GPU-") || first.starts_with("MIG-"));
    for element in elements {
        let choice = if names { by_name(&all, element) } else { by_number(&all, element) };
        let Some(choice) = choice else { break };
        if chosen.contains(&choice) {
            return VisibleDevices::default();
        }
        chosen.push(choice);
    }
    // Devices of one model are in the order of the bus either way.
    let model = |device: &Device| (device.name.clone(), device.memory_bytes);
    let alike = all.windows(2).all(|pair| model(pair[0]) == model(pair[1]));
    if !names && !chosen.is_empty() && !alike && order != Some("PCI_BUS_ID") {
        let devices = all.iter().flat_map(|device| device.cuda_devices()).collect();
        return VisibleDevices { devices, uncertain: Some(FASTEST_FIRST) };
    }
    let any_part = chosen.iter().any(|choice| matches!(choice, ListedDevice::AnyPartOf(_)));
    let devices = chosen.iter().flat_map(ListedDevice::cuda_devices).collect();
    VisibleDevices { devices, uncertain: any_part.then_some(ANY_PART) }
}

/// What one element of the list means.
#[derive(Clone, Debug, PartialEq, Eq)]
enum ListedDevice<'a> {
    Whole(&'a Device),
    Part(CudaDevice),
    /// One of the parts of this device.
    AnyPartOf(&'a Device),
}

impl ListedDevice<'_> {
    fn from_device(device: &Device) -> Option<ListedDevice<'_>> {
        match device.mig {
            Mig::On if device.parts.is_empty() => None,
            Mig::On => Some(ListedDevice::AnyPartOf(device)),
            Mig::Off | Mig::NotSupported => Some(ListedDevice::Whole(device)),
        }
    }

    fn cuda_devices(&self) -> Vec<CudaDevice> {
        match self {
            Self::Whole(device) | Self::AnyPartOf(device) => device.cuda_devices(),
            Self::Part(part) => vec![part.clone()],
        }
    }
}

/// Reads a number as `strtoul` does: `1st` and `+1` are 1. A negative number is no device.
fn by_number<'a>(all: &[&'a Device], element: &str) -> Option<ListedDevice<'a>> {
    let digits = element.strip_prefix('+').unwrap_or(element);
    let end = digits.find(|character: char| !character.is_ascii_digit()).unwrap_or(digits.len());
    ListedDevice::from_device(all.get(digits[..end].parse::<usize>().ok()?)?)
}

fn by_name<'a>(all: &[&'a Device], element: &str) -> Option<ListedDevice<'a>> {
    if element.starts_with("GPU-") {
        return one(all.iter().filter(|device| begins(&device.uuid, element)))
            .and_then(|device| ListedDevice::from_device(device));
    }
    let parts: Vec<CudaDevice> = all.iter().flat_map(|device| device.cuda_devices()).collect();
    let is_named = |part: &&CudaDevice| part.part.is_some() && begins(&part.uuid, element);
    if let Some(part) = one(parts.iter().filter(is_named)) {
        return Some(ListedDevice::Part(part.clone()));
    }
    // `MIG-GPU-8932f937-…/1/0` is the name of a part from before parts had UUIDs. NVML no longer
    // says which part has that name.
    let (device, _) = element.strip_prefix("MIG-")?.split_once('/')?;
    let device = one(all.iter().filter(|known| known.mig == Mig::On && begins(&known.uuid, device)))?;
    ListedDevice::from_device(device)
}

fn begins(uuid: &str, start: &str) -> bool {
    start.len() > "GPU-".len()
        && uuid.get(..start.len()).is_some_and(|beginning| beginning.eq_ignore_ascii_case(start))
}

/// Returns the only item, or `None` if there is not exactly one.
fn one<T>(mut all: impl Iterator<Item = T>) -> Option<T> {
    let only = all.next()?;
    all.next().is_none().then_some(only)
}

/// Returns the devices that the user named for a cell, by NVML's index or the beginning of a UUID.
/// `NONE` names no device.
///
/// # Errors
/// A name matches no device of this machine, or several.
pub fn named(devices: &Devices, names: &[String]) -> Result<Vec<CudaDevice>, UserError> {
    check_names(names).map_err(UserError::new)?;
    if names == [NONE] {
        return Ok(Vec::new());
    }
    let mut chosen: Vec<CudaDevice> = Vec::new();
    for name in names {
        let index = name.parse::<u32>().ok();
        let found = devices.devices.iter().flat_map(|device| {
            let whole = index == Some(device.index) || begins(&device.uuid, name);
            device.cuda_devices().into_iter().filter(move |one| whole || begins(&one.uuid, name))
        });
        let found: Vec<CudaDevice> = found.collect();
        match &found[..] {
            [device] if chosen.contains(device) => {
                return Err(UserError::new(format!("{device} is named twice as `device`")));
            }
            [device] => chosen.push(device.clone()),
            [] => return Err(unknown(devices, name)),
            _ => {
                let several: Vec<String> =
                    found.iter().map(|device| format!("{device} is {}", device.uuid)).collect();
                return Err(UserError::new(format!("device '{name}' matches {} devices", found.len()))
                    .help(format!("name it by its UUID: {}", several.join(", "))));
            }
        }
    }
    Ok(chosen)
}

/// The name for no device: the run sees none.
pub(crate) const NONE: &str = "none";

/// Checks that this can be the name of a device: NVML's index, the beginning of a UUID, or
/// `NONE`.
pub fn check_name(name: &str) -> Result<(), String> {
    let rest = name.strip_prefix("GPU-").or_else(|| name.strip_prefix("MIG-"));
    if name == NONE || name.parse::<u32>().is_ok() || rest.is_some_and(|rest| !rest.is_empty()) {
        return Ok(());
    }
    Err(format!(
        "'{name}' is not a device: write an index as nvidia-smi shows it, a UUID (GPU-…, MIG-…), or {NONE}"
    ))
}

/// Checks that these names can go together.
pub fn check_names(names: &[String]) -> Result<(), String> {
    match names {
        [] => Err(format!("no device is named; write `{NONE}` to hide all devices")),
        [_] => Ok(()),
        several if several.iter().any(|name| name == NONE) => {
            Err(format!("`{NONE}` cannot be combined with a device"))
        }
        _ => Ok(()),
    }
}

/// Returns the value of [`VISIBLE`] that shows these devices and no others.
pub fn value(devices: &[CudaDevice]) -> String {
    devices.iter().map(|device| device.uuid.as_str()).collect::<Vec<_>>().join(",")
}

fn unknown(devices: &Devices, name: &str) -> UserError {
    let user_error = UserError::new(format!("no device '{name}' on this machine"));
    let all: Vec<CudaDevice> = devices.devices.iter().flat_map(Device::cuda_devices).collect();
    if all.is_empty() {
        return user_error.help("NVML shows no device; `cargo memprof doctor` says why");
    }
    let list: Vec<String> = all.iter().map(|device| format!("{device} is {}", device.uuid)).collect();
    let near = suggest::did_you_mean(name, all.iter().map(|device| device.uuid.as_str()));
    user_error.help(match near {
        Some(near) => format!("{near} ({})", list.join(", ")),
        None => format!("devices: {}", list.join(", ")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::devices::MigDevice;

    const A: &str = "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6";
    const B: &str = "GPU-8932aaaa-0000-4106-c12f-20bd9faed9f6";
    const C: &str = "GPU-c0ffee00-0000-4106-c12f-20bd9faed9f6";

    fn device(index: u32, uuid: &str, name: &str, bus: u32) -> Device {
        Device { index, uuid: uuid.into(), name: name.into(), bus: (0, bus, 0), ..Device::default() }
    }

    /// Three devices of one model. NVML's order differs from the bus's.
    fn three() -> Devices {
        let devices =
            vec![device(0, A, "H200", 0x20), device(1, B, "H200", 0x10), device(2, C, "H200", 0x30)];
        Devices { devices, ..Devices::default() }
    }

    fn divided() -> Devices {
        let part = |index, uuid: &str| MigDevice { index, uuid: uuid.into(), memory_bytes: None };
        let parts = vec![part(0, "MIG-11111111-aaaa"), part(1, "MIG-22222222-bbbb")];
        let divided = Device { mig: Mig::On, parts, ..device(0, A, "H200", 1) };
        Devices { devices: vec![divided, device(1, C, "H200", 2)], ..Devices::default() }
    }

    /// NVML's indices of the visible devices, with a question mark if they are not certain.
    fn seen(devices: &Devices, list: Option<&str>, order: Option<&str>) -> String {
        let visible = visible(devices, list, order);
        let all: Vec<String> =
            visible.devices.iter().map(|device| device.to_string().replace("GPU ", "")).collect();
        let mark = if visible.uncertain.is_some() { "?" } else { "" };
        format!("{}{mark}", all.join(" "))
    }

    #[test]
    fn without_the_variable_all_devices_are_seen_and_with_an_empty_one_none() {
        assert_eq!(seen(&three(), None, None), "1 0 2");
        for none in ["", " ", "-1", "none", "NoDevFiles", ",0", "3", "GPU-", "MIG-", "MIG-GPU-8932f937/1/0"] {
            assert_eq!(seen(&three(), Some(none), None), "", "{none}");
        }
    }

    #[test]
    fn numbers_count_along_the_bus_and_stop_at_the_first_that_is_no_device() {
        for (list, expected) in [
            ("0", "1"),
            ("1", "0"),
            ("2,0", "2 1"),
            (" 2 , 1", "2 0"),
            ("0,2,-1,1", "1 2"),
            ("0,3,1", "1"),
            ("0,,1", "1"),
            ("1st,+2nd", "0 2"),
            ("0,GPU-8932f937", "1"),
            ("99999999999999999999", ""),
        ] {
            assert_eq!(seen(&three(), Some(list), None), expected, "{list}");
        }
    }

    #[test]
    fn what_is_named_twice_makes_nothing_visible() {
        for list in ["0,0", "0,1,0", "GPU-c0,GPU-c0ff"] {
            assert_eq!(seen(&three(), Some(list), None), "", "{list}");
        }
    }

    #[test]
    fn a_uuid_may_be_cut_short_as_long_as_it_is_one_devices() {
        for (list, expected) in [
            (A, "0"),
            ("GPU-c0ffee", "2"),
            ("GPU-C0FFEE", "2"),
            ("GPU-8932f,GPU-c", "0 2"),
            ("GPU-8932", ""),
            ("GPU-c,GPU-8932,GPU-8932f", "2"),
            ("GPU-c,0", "2"),
            ("GPU-c0ffee00-0000-4106-c12f-20bd9faed9f6f", ""),
        ] {
            assert_eq!(seen(&three(), Some(list), None), expected, "{list}");
        }
    }

    #[test]
    fn among_devices_of_several_kinds_only_the_bus_order_is_certain() {
        let mut mixed = three();
        mixed.devices[2].name = "L4".into();
        assert_eq!(seen(&mixed, Some("0"), Some("PCI_BUS_ID")), "1");
        assert_eq!(seen(&mixed, Some("0"), None), "1 0 2?");
        assert_eq!(seen(&mixed, Some("0"), Some("FASTEST_FIRST")), "1 0 2?");
        assert_eq!(seen(&mixed, Some("-1"), None), "");
        assert_eq!(seen(&mixed, Some("GPU-c"), None), "2");
        assert_eq!(seen(&mixed, None, None), "1 0 2");
    }

    #[test]
    fn of_a_divided_device_a_part_is_seen() {
        for (list, expected) in [
            ("MIG-2222", "0 part 1"),
            ("MIG-11111111-aaaa", "0 part 0"),
            ("MIG-2222,MIG-1", "0 part 1 0 part 0"),
            ("1", "1"),
            ("0", "0 part 0 0 part 1?"),
            ("GPU-8932", "0 part 0 0 part 1?"),
            ("MIG-GPU-8932f937-d72c-4106-c12f-20bd9faed9f6/1/0", "0 part 0 0 part 1?"),
        ] {
            assert_eq!(seen(&divided(), Some(list), None), expected, "{list}");
        }
        assert_eq!(seen(&divided(), None, None), "0 part 0 0 part 1 1?");
        let mut empty = divided();
        empty.devices[0].parts.clear();
        assert_eq!(seen(&empty, Some("0,1"), None), "");
    }

    #[test]
    fn the_old_name_of_a_part_is_its_uuid_with_an_old_driver() {
        let mut old = divided();
        old.devices[0].parts[0].uuid = format!("MIG-{A}/1/0");
        assert_eq!(seen(&old, Some(&format!("MIG-{A}/1/0")), None), "0 part 0");
    }

    #[test]
    fn names_that_can_be_no_device_are_refused_before_anything_is_looked_up() {
        for name in ["0", "12", "GPU-8", "MIG-8", "none"] {
            assert_eq!(check_name(name), Ok(()), "{name}");
        }
        for name in ["", "-1", "h200", "GPU-", "gpu-8", "0x1"] {
            assert!(check_name(name).is_err(), "{name}");
        }
        let names =
            |names: &[&str]| check_names(&names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>());
        assert!(names(&["0", "1"]).is_ok() && names(&["none"]).is_ok());
        assert!(names(&[]).is_err() && names(&["0", "none"]).is_err());
    }

    fn chosen(devices: &Devices, names: &[&str]) -> String {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        match named(devices, &names) {
            Ok(devices) => value(&devices),
            Err(user_error) => user_error.rendered(),
        }
    }

    #[test]
    fn a_cells_device_is_named_by_nvmls_index_or_a_uuid_and_becomes_the_whole_uuid() {
        assert_eq!(chosen(&three(), &["0"]), A);
        assert_eq!(chosen(&three(), &["2", "GPU-8932aaaa"]), format!("{C},{B}"));
        assert_eq!(chosen(&three(), &["none"]), "");
        assert_eq!(chosen(&divided(), &["MIG-2222"]), "MIG-22222222-bbbb");
        // The value makes CUDA see what was meant.
        assert_eq!(seen(&three(), Some(&chosen(&three(), &["2", "0"])), None), "2 0");
    }

    #[test]
    fn a_device_that_is_not_there_is_answered_with_those_that_are() {
        insta::assert_snapshot!(chosen(&three(), &["3"]), @"
        error: no device '3' on this machine
          help: devices: GPU 0 is GPU-8932f937-d72c-4106-c12f-20bd9faed9f6, GPU 1 is GPU-8932aaaa-0000-4106-c12f-20bd9faed9f6, GPU 2 is GPU-c0ffee00-0000-4106-c12f-20bd9faed9f6
        ");
        insta::assert_snapshot!(chosen(&divided(), &["0"]), @"
        error: device '0' matches 2 devices
          help: name it by its UUID: GPU 0 part 0 is MIG-11111111-aaaa, GPU 0 part 1 is MIG-22222222-bbbb
        ");
        insta::assert_snapshot!(chosen(&three(), &["GPU-8932"]), @"
        error: device 'GPU-8932' matches 2 devices
          help: name it by its UUID: GPU 0 is GPU-8932f937-d72c-4106-c12f-20bd9faed9f6, GPU 1 is GPU-8932aaaa-0000-4106-c12f-20bd9faed9f6
        ");
        insta::assert_snapshot!(chosen(&Devices::default(), &["0"]), @"
        error: no device '0' on this machine
          help: NVML shows no device; `cargo memprof doctor` says why
        ");
        assert!(chosen(&three(), &["0", "GPU-8932f"]).contains("GPU 0 is named twice"));
    }
}
