//! Checks whether a process's memory can be set aside, before anything is changed. Pure.

use crate::courtesy::candidate::{Candidate, Need};
use crate::courtesy::driver::{CallError, State};
use crate::courtesy::host_memory::HostMemory;
use crate::courtesy::note::Note;
use crate::courtesy::process::ProcessFacts;
use crate::courtesy::refusal::Refusal;
use crate::courtesy::room::DeviceNow;
use memprof_support::bytes::Bytes;

/// What stays free in host memory.
const RESERVE: u64 = 1 << 30;

/// Who asks, and what is known beside the process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Circumstances<'a> {
    pub own_process: u32,
    pub own_user: u32,
    /// The note of the process, if it is set aside already.
    pub note: Option<&'a Note>,
    /// What the driver says of the process.
    pub state: Result<State, &'a CallError>,
}

/// Returns why the process cannot be set aside; `None` if it can.
pub(crate) fn of_process(candidate: &Candidate, circumstances: Circumstances<'_>) -> Option<Refusal> {
    let process = &candidate.process;
    of_owner(process, circumstances)
        .or_else(|| of_watchers(process))
        .or_else(|| of_state(candidate, circumstances))
        .map(|refusal| Refusal {
            reason: format!("{process} cannot be set aside: {}", refusal.reason),
            ..refusal
        })
}

fn of_owner(process: &ProcessFacts, circumstances: Circumstances<'_>) -> Option<Refusal> {
    if process.id == circumstances.own_process {
        return Some(Refusal::new("it is this program itself"));
    }
    if let Some(whole) = process.thread_of {
        return Some(
            Refusal::new(format!("it is a thread of process {whole}"))
                .help(format!("cargo memprof yield {whole}")),
        );
    }
    (process.user != circumstances.own_user).then(|| {
        let (user, own) = (process.user, circumstances.own_user);
        Refusal::new(format!("it belongs to user {user}, and this is user {own}"))
            .help(format!("as its user: cargo memprof yield {}", process.id))
    })
}

fn of_watchers(process: &ProcessFacts) -> Option<Refusal> {
    if process.tracer != 0 {
        let reason = format!("a debugger or profiler is attached to it (process {})", process.tracer);
        return Some(Refusal::new(reason).help("detach it first"));
    }
    let injected = process.injected.as_ref()?;
    Some(
        Refusal::new(format!("it runs under a profiler (CUDA_INJECTION64_PATH={injected})"))
            .help("start it without the profiler"),
    )
}

fn of_state(candidate: &Candidate, circumstances: Circumstances<'_>) -> Option<Refusal> {
    let id = candidate.process.id;
    let restore = format!("cargo memprof restore {id}");
    if let Some(note) = circumstances.note {
        return Some(
            Refusal::new(format!("it already is, since {} by {}", note.since, note.by)).help(restore),
        );
    }
    if let Some(part) = candidate.devices.iter().find(|device| device.part.is_some()) {
        return Some(Refusal::new(format!(
            "it uses {part}, and memory on parts of a GPU (MIG) is not supported"
        )));
    }
    match circumstances.state {
        Ok(State::Running) => None,
        Ok(State::Locked | State::SetAside) => {
            Some(Refusal::new("another program has set it aside").help(restore))
        }
        Ok(State::Failed) => Some(Refusal::new("the driver failed with it before; it cannot go on")),
        Ok(State::Unknown(state)) => Some(Refusal::new(format!("the driver says that its state is {state}"))),
        Err(error) if error.is_not_supported() => {
            Some(Refusal::new(format!("the driver does not support it here ({error})")))
        }
        Err(error) if candidate.process.uses_amd => {
            Some(Refusal::new(format!("it uses an AMD GPU, and only NVIDIA's driver can do this ({error})")))
        }
        Err(error) => Some(Refusal::new(format!("it does not use CUDA ({error})"))),
    }
}

/// Returns why nobody could say later whether the process's devices have room for it; `None` if NVML
/// says what is free there.
pub(crate) fn of_readings(candidate: &Candidate, devices: &[DeviceNow]) -> Option<Refusal> {
    let mut meant = devices.iter().filter(|now| candidate.may_use(&now.device)).peekable();
    let why = if meant.peek().is_none() {
        "NVML shows no GPU".to_owned()
    } else {
        meant.find_map(|now| {
            let why = now.occupancy.used.as_ref().err().or(now.free.as_ref().err())?;
            Some(format!("NVML does not say what is free on {}: {why}", now.device))
        })?
    };
    let process = &candidate.process;
    let reason = format!("{process} cannot be set aside, because it could not be restored: {why}");
    Some(Refusal::new(reason).help("`cargo memprof doctor` shows what NVML says"))
}

/// Returns why the machine has no room for what these processes hold; `None` if it has.
pub(crate) fn of_room(need: Need, available: &HostMemory) -> Option<Refusal> {
    let bytes = match need {
        Need::Exactly(bytes) | Need::AtMost(bytes) => bytes,
        Need::Unknown => return None,
    };
    (bytes.saturating_add(RESERVE) > available.bytes).then(|| {
        let need = match need {
            Need::AtMost(_) => {
                format!("up to {} (NVML does not show how much of the GPUs' memory is theirs)", Bytes(bytes))
            }
            _ => Bytes(bytes).to_string(),
        };
        Refusal::new(format!(
            "too little host memory: setting aside takes {need}, and {} are available ({}; {} must stay free)",
            Bytes(available.bytes),
            available.limit,
            Bytes(RESERVE)
        ))
        .help("free host memory, or set fewer processes aside")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::devices::{CudaDevice, Occupancy};

    fn candidate() -> Candidate {
        let process = ProcessFacts { id: 4711, user: 1000, name: "python".into(), ..ProcessFacts::default() };
        let device = CudaDevice { index: 0, part: None, uuid: "GPU-a".into() };
        Candidate { process, devices: vec![device], bytes: Some(1 << 30) }
    }

    const RUNNING: Circumstances<'static> =
        Circumstances { own_process: 1, own_user: 1000, note: None, state: Ok(State::Running) };

    fn reason(candidate: &Candidate, circumstances: Circumstances<'_>) -> String {
        let reason = of_process(candidate, circumstances).unwrap().reason;
        reason.strip_prefix("process 4711 (python) cannot be set aside: ").unwrap().to_owned()
    }

    #[test]
    fn an_own_running_cuda_process_is_taken_and_others_are_refused_with_the_reason() {
        assert_eq!(of_process(&candidate(), RUNNING), None);
        let of = |change: fn(&mut Candidate)| {
            let mut candidate = candidate();
            change(&mut candidate);
            reason(&candidate, RUNNING)
        };
        assert_eq!(of(|one| one.process.user = 0), "it belongs to user 0, and this is user 1000");
        assert_eq!(of(|one| one.process.thread_of = Some(4700)), "it is a thread of process 4700");
        assert_eq!(
            of(|one| one.process.tracer = 99),
            "a debugger or profiler is attached to it (process 99)"
        );
        assert_eq!(
            of(|one| one.process.injected = Some("/opt/nsys.so".into())),
            "it runs under a profiler (CUDA_INJECTION64_PATH=/opt/nsys.so)"
        );
        assert_eq!(
            of(|one| one.devices[0].part = Some(1)),
            "it uses GPU 0 part 1, and memory on parts of a GPU (MIG) is not supported"
        );
        assert_eq!(
            reason(&candidate(), Circumstances { own_process: 4711, ..RUNNING }),
            "it is this program itself"
        );
    }

    #[test]
    fn what_the_driver_says_decides_last() {
        let invalid = CallError {
            call: "cuCheckpointProcessGetState",
            code: 1,
            name: "CUDA_ERROR_INVALID_VALUE".into(),
        };
        let of = |state| reason(&candidate(), Circumstances { state, ..RUNNING });
        assert_eq!(
            of(Err(&invalid)),
            "it does not use CUDA (cuCheckpointProcessGetState: CUDA_ERROR_INVALID_VALUE (1))"
        );
        assert_eq!(of(Ok(State::SetAside)), "another program has set it aside");
        let mut amd = candidate();
        amd.process.uses_amd = true;
        let said = reason(&amd, Circumstances { state: Err(&invalid), ..RUNNING });
        assert!(said.starts_with("it uses an AMD GPU, and only NVIDIA's driver can do this"), "{said}");
    }

    #[test]
    fn a_process_whose_devices_nvml_cannot_read_is_not_taken() {
        let now = |index: u32, used: Result<u64, String>, free: Result<u64, String>| DeviceNow {
            device: CudaDevice { index, part: None, uuid: if index == 0 { "GPU-a" } else { "GPU-b" }.into() },
            free,
            occupancy: Occupancy { used, processes: Ok(Vec::new()) },
        };
        let lost = || Err("GPU is lost".to_owned());
        assert_eq!(of_readings(&candidate(), &[now(0, Ok(1), Ok(1)), now(1, lost(), lost())]), None);
        let unknown = Candidate { devices: Vec::new(), ..candidate() };
        let start = "process 4711 (python) cannot be set aside, because it could not be restored: NVML ";
        for (candidate, devices, why) in [
            (candidate(), vec![], "shows no GPU"),
            (candidate(), vec![now(1, Ok(1), Ok(1))], "shows no GPU"),
            (candidate(), vec![now(0, Ok(1), lost())], "does not say what is free on GPU 0: GPU is lost"),
            (
                unknown,
                vec![now(0, Ok(1), Ok(1)), now(1, lost(), Ok(1))],
                "does not say what is free on GPU 1: GPU is lost",
            ),
        ] {
            assert_eq!(of_readings(&candidate, &devices).unwrap().reason, format!("{start}{why}"));
        }
    }

    #[test]
    fn host_memory_must_hold_all_bytes_and_a_reserve() {
        let available = HostMemory { bytes: 61 << 30, limit: "MemAvailable" };
        assert_eq!(of_room(Need::Exactly(60 << 30), &available), None);
        assert_eq!(of_room(Need::Unknown, &available), None);
        assert_eq!(
            of_room(Need::Exactly((60 << 30) + 1), &available).unwrap().reason,
            "too little host memory: setting aside takes 60.0 GiB, and 61.0 GiB are available (MemAvailable; 1.00 GiB \
             must stay free)"
        );
        let bound = of_room(Need::AtMost(70 << 30), &available).unwrap().reason;
        assert!(bound.contains("takes up to 70.0 GiB (NVML does not show"), "{bound}");
    }
}
