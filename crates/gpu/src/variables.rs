//! The environment variables that let a test process count its GPU memory: where CUPTI is, and
//! which library the CUDA driver loads. The driver loads it only when a program initialises CUDA,
//! so other programs pay nothing.

use std::collections::BTreeMap;

use camino::Utf8Path;

/// The libraries that count, or the reasons why one is missing.
#[derive(Clone, Copy, Debug)]
pub struct GpuTools<'a> {
    /// CUPTI, `libcupti.so.*`.
    pub cupti: Result<&'a Utf8Path, &'a str>,
    /// `CompiledShim::injection`.
    pub injection: Result<&'a Utf8Path, &'a str>,
    /// The user's own `CUDA_INJECTION64_PATH`, which a profiler sets. The driver loads only one
    /// library.
    pub inherited: Option<&'a str>,
}

/// Returns the variables to set for a test process.
pub fn gpu_environment(tools: GpuTools<'_>) -> BTreeMap<&'static str, String> {
    let mut environment = BTreeMap::new();
    match counting(tools) {
        Ok((cupti, injection)) => {
            environment.insert("MEMPROF_CUPTI", cupti.to_string());
            environment.insert("CUDA_INJECTION64_PATH", injection.to_string());
        }
        Err(reason) => {
            environment.insert("MEMPROF_CUPTI_ABSENT", reason);
        }
    }
    environment
}

/// Returns both files, or why allocations are not counted.
fn counting(tools: GpuTools<'_>) -> Result<(&Utf8Path, &Utf8Path), String> {
    if let Some(inherited) = tools.inherited.filter(|inherited| !inherited.is_empty()) {
        return Err(format!("CUDA_INJECTION64_PATH is in use by another tool ({inherited})"));
    }
    Ok((tools.cupti?, tools.injection?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOOLS: GpuTools<'static> = GpuTools { cupti: Err(""), injection: Err(""), inherited: None };

    fn found() -> GpuTools<'static> {
        let cupti = Utf8Path::new("/usr/local/cuda/extras/CUPTI/lib64/libcupti.so.13");
        GpuTools { cupti: Ok(cupti), injection: Ok(Utf8Path::new("/cache/libmemprof_inject.so")), ..TOOLS }
    }

    #[test]
    fn the_driver_is_told_what_to_load_and_that_where_cupti_is() {
        let environment = gpu_environment(found());
        let expected = [
            ("CUDA_INJECTION64_PATH", "/cache/libmemprof_inject.so"),
            ("MEMPROF_CUPTI", "/usr/local/cuda/extras/CUPTI/lib64/libcupti.so.13"),
        ];
        assert_eq!(environment, expected.map(|(name, value)| (name, value.to_owned())).into());
    }

    #[test]
    fn without_cupti_nothing_is_injected_and_the_reason_goes_along() {
        let tools = GpuTools { cupti: Err("libcupti.so not found (looked in /usr/lib)"), ..found() };
        let environment = gpu_environment(tools);
        let expected = [("MEMPROF_CUPTI_ABSENT", "libcupti.so not found (looked in /usr/lib)".to_owned())];
        assert_eq!(environment, expected.into());
    }

    #[test]
    fn a_profiler_that_the_user_runs_keeps_its_place() {
        let tools = GpuTools { inherited: Some("/opt/nsys/libToolsInjection64.so"), ..found() };
        let environment = gpu_environment(tools);
        assert!(!environment.contains_key("CUDA_INJECTION64_PATH"));
        let reason = "CUDA_INJECTION64_PATH is in use by another tool (/opt/nsys/libToolsInjection64.so)";
        assert_eq!(environment["MEMPROF_CUPTI_ABSENT"], reason);
    }
}
