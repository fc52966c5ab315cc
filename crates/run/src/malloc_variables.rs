//! The environment variables that let a test process count the C library's allocator: a library that
//! the loader puts in front of it (`LD_PRELOAD`).

use std::collections::BTreeMap;

use camino::Utf8PathBuf;

use memprof_plan::metric_family::MetricGroup;
use memprof_plan::request::Request;

/// Path of the library that is loaded. The shim removes it from [`PRELOAD`].
pub(crate) const LIBRARY: &str = "MEMPROF_MALLOC";
/// Why no library is loaded.
const ABSENT: &str = "MEMPROF_MALLOC_ABSENT";
/// The loader's list of libraries to load first.
pub(crate) const PRELOAD: &str = "LD_PRELOAD";

/// Whether a metric of the C library's allocator was requested.
pub(crate) fn is_requested(request: &Request) -> bool {
    request.on_request.iter().any(|metric| MetricGroup::of(metric) == Some(MetricGroup::Malloc))
}

/// Returns the variables that make test processes count the C library's allocator. Without a request
/// for its metrics there are none, and no library is compiled.
pub(crate) fn malloc_variables(
    request: &Request,
    library: impl FnOnce() -> Result<Utf8PathBuf, String>,
) -> BTreeMap<&'static str, String> {
    if !is_requested(request) {
        return BTreeMap::new();
    }
    let (name, value) = match library().and_then(expressible) {
        Ok(library) => (LIBRARY, library.into_string()),
        Err(reason) => (ABSENT, reason),
    };
    BTreeMap::from([(name, value)])
}

/// Refuses a path that the loader would split.
fn expressible(library: Utf8PathBuf) -> Result<Utf8PathBuf, String> {
    if library.as_str().contains([' ', ':']) {
        return Err(format!(
            "{library} contains a space or a colon, which LD_PRELOAD cannot express; set CARGO_MEMPROF_HOME to \
             another folder"
        ));
    }
    Ok(library)
}

/// Returns the value of [`PRELOAD`] that loads the library in front of the user's own ones.
pub(crate) fn preload(library: &str, users: Option<&str>) -> String {
    match users.filter(|users| !users.is_empty()) {
        Some(users) => format!("{library}:{users}"),
        None => library.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(metrics: &[&str]) -> Request {
        let on_request = metrics.iter().map(|&metric| metric.to_owned()).collect();
        Request { on_request, ..Request::default() }
    }

    #[test]
    fn without_a_request_no_library_is_compiled() {
        let variables = malloc_variables(&request(&["cpu.pss"]), || panic!("not asked for"));
        assert!(variables.is_empty());
    }

    #[test]
    fn the_library_is_loaded_first_or_the_reason_goes_along() {
        let variables = |library: Result<&str, &str>| {
            let library = library.map(Utf8PathBuf::from).map_err(str::to_owned);
            malloc_variables(&request(&["malloc.peak"]), || library)
        };
        assert_eq!(variables(Ok("/c/lib.so")), BTreeMap::from([(LIBRARY, "/c/lib.so".to_owned())]));
        assert_eq!(variables(Err("no linker")), BTreeMap::from([(ABSENT, "no linker".to_owned())]));
        for path in ["/a b/lib.so", "/a:b/lib.so"] {
            let variables = variables(Ok(path));
            assert!(variables[ABSENT].ends_with("set CARGO_MEMPROF_HOME to another folder"), "{variables:?}");
        }
    }

    #[test]
    fn what_the_user_preloads_stays_behind_it() {
        assert_eq!(preload("/c/lib.so", None), "/c/lib.so");
        assert_eq!(preload("/c/lib.so", Some("")), "/c/lib.so");
        assert_eq!(preload("/c/lib.so", Some("/u/own.so /u/b.so")), "/c/lib.so:/u/own.so /u/b.so");
    }
}
