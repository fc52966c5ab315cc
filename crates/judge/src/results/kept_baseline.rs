//! `kept.json` in the folder of a run whose baseline was measured earlier, and `baseline.json` in the
//! folder of a saved baseline. Also why a saved baseline does not fit.

use std::collections::BTreeSet;

use camino::Utf8PathBuf;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::results::build_facts::{BuildFacts, Fact, Purpose};
use crate::results::comparability;
use crate::results::outcome::Status;
use crate::results::run_folder::RunFolder;
use memprof_gpu::visible_devices;
use memprof_plan::clean_env::Child;
use memprof_plan::listing::NotMeasured;
use memprof_plan::request::{BuildOptions, Request, Selection};
use memprof_plan::resolved::CellId;
use memprof_plan::settings::{BuildSettings, RunSettings};
use memprof_support::sealed;

/// The version of both files' format.
pub const VERSION: u32 = 1;

/// `baseline.json`: this folder is a copy of a finished run, which `--save-baseline` made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedBaseline {
    /// Format version, [`VERSION`].
    pub version: u32,
    /// The name that the user gave it.
    pub name: String,
    /// When it was saved, RFC 3339.
    pub saved: String,
    /// How many outcomes it had then. Absent in baselines of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcomes: Option<usize>,
}

/// `kept.json`: where the baseline's figures are from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptBaseline {
    /// Format version, [`VERSION`].
    pub version: u32,
    /// The saved baseline's name.
    pub name: String,
    /// The folder of the saved baseline.
    pub folder: Utf8PathBuf,
    /// Which of its revisions is the baseline.
    pub revision: usize,
    /// When it was saved, as in its `baseline.json`. Absent in runs of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub saved: Option<String>,
}

impl KeptBaseline {
    /// Returns the record of a run; `None` if it measures its baseline itself.
    pub fn read(folder: &RunFolder) -> anyhow::Result<Option<Self>> {
        let path = folder.kept();
        if !path.exists() {
            return Ok(None);
        }
        Ok(Some(sealed::read_format(&path, VERSION)?))
    }
}

/// Returns how two machines differ in what figures of this request may depend on. Variables that it sets for
/// all tests, or keeps from them, make no difference.
pub fn of_machines(kept: &Value, now: &Value, request: &Request) -> Vec<String> {
    let mut differing: Vec<String> =
        comparability::of_machines(kept, now).into_iter().map(|apart| apart.reason).collect();
    for (fact, what) in [("/cpus", "the numbers of processors"), ("/gpu/cuda", "CUDA")] {
        let (kept, now) = (kept.pointer(fact), now.pointer(fact));
        if kept != now {
            differing.push(difference(what, kept, now));
        }
    }
    // With a pool, each test has one device of it.
    let is_spread = request.settings.device_pool.is_some();
    let count = |machine: &Value| machine.pointer("/gpu/devices").and_then(Value::as_array).map(Vec::len);
    if count(kept) != count(now) && !is_spread {
        let shown = |count: Option<usize>| count.unwrap_or(0);
        differing.push(format!("the numbers of GPUs differ: {} / {}", shown(count(kept)), shown(count(now))));
    }
    let none = serde_json::Map::new();
    let variables = |machine: &Value| machine["variables"].as_object().unwrap_or(&none).clone();
    let (kept, now) = (variables(kept), variables(now));
    let mut names: Vec<&String> = kept.keys().chain(now.keys()).collect();
    names.sort_unstable();
    names.dedup();
    let is_inherited = |name: &str| {
        let is_set = request.env.contains_key(name) || is_spread && name == visible_devices::VISIBLE;
        !is_set && request.clean_env.as_ref().is_none_or(|clean| clean.passes(Child::Test, name, ""))
    };
    for name in names.into_iter().filter(|name| is_inherited(name) && kept.get(*name) != now.get(*name)) {
        differing.push(difference(&format!("the variables {name}"), kept.get(name), now.get(name)));
    }
    differing
}

/// Returns how two builds differ in what is not of their revisions.
pub fn of_builds(kept: &BuildFacts, now: &BuildFacts) -> Vec<String> {
    let in_words = |(fact, what): (Fact, &str)| {
        let [kept, now] = [kept, now].map(|facts| facts.get(fact).unwrap_or_default());
        let is_hash = |text: &str| text.len() >= 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        if is_hash(kept) || is_hash(now) {
            return what.to_owned();
        }
        if matches!(fact, Fact::Environment | Fact::Overlay) {
            return format!("{what}: {}", differing_names(kept, now));
        }
        let [kept, now] = [kept, now].map(|text| if text.is_empty() { "none" } else { text });
        format!("{what}: {kept} / {now}")
    };
    kept.differing(now, Purpose::Keep).map(in_words).collect()
}

/// Returns the names of the lines that only one side has: `NAME 0123456789abcdef`.
fn differing_names(kept: &str, now: &str) -> String {
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<BTreeSet<_>>();
    let names: BTreeSet<String> = lines(kept)
        .symmetric_difference(&lines(now))
        .map(|line| line.rsplit_once(' ').map_or(line.as_str(), |(name, _)| name).to_owned())
        .collect();
    names.into_iter().collect::<Vec<_>>().join(", ")
}

/// Returns how two requests differ in what figures depend on, as the keys of the plan:
/// `request.build.profile`.
pub fn of_requests(kept: &Request, now: &Request) -> anyhow::Result<Vec<String>> {
    let (kept, now) = (serde_json::to_value(comparable(kept))?, serde_json::to_value(comparable(now))?);
    Ok(differing_keys("", &kept, &now))
}

/// Returns the values of two objects that differ, and for objects in them those of these.
fn differing_keys(above: &str, kept: &Value, now: &Value) -> Vec<String> {
    let keys = kept.as_object().into_iter().chain(now.as_object()).flat_map(serde_json::Map::keys);
    let differing: BTreeSet<&String> = keys.filter(|key| kept.get(*key) != now.get(*key)).collect();
    let text = |key: &String| {
        let (name, kept, now) = (format!("{above}{key}"), kept.get(key), now.get(key));
        match (kept, now) {
            (Some(kept @ Value::Object(_)), Some(now @ Value::Object(_))) => {
                differing_keys(&format!("{name}."), kept, now)
            }
            _ => vec![difference(&format!("`{name}`"), kept, now)],
        }
    };
    differing.into_iter().flat_map(text).collect()
}

/// Whether two requests select the same tests, so that a test that one lacks does not exist there.
pub fn select_the_same(kept: &Request, now: &Request) -> bool {
    let selections = |request: &Request| -> Vec<_> {
        request.tests.iter().map(|test| (test.selection.clone(), test.program.clone())).collect()
    };
    selections(kept) == selections(now)
        && (&kept.include, &kept.exclude, kept.shard) == (&now.include, &now.exclude, now.shard)
}

/// Why a revision has no run of a cell that it did not leave out.
pub fn why_absent(gaps: &[NotMeasured], cell: &CellId) -> (Status, Option<String>) {
    match gaps.iter().find(|gap| gap.may_have(&cell.test)) {
        Some(gap) => (Status::NotMeasured, Some(format!("{gap}: {}", gap.reason))),
        None => (Status::NotInThisRef, None),
    }
}

/// The parts of a request that decide what is built and how tests run.
fn comparable(request: &Request) -> Request {
    let mut tests = request.tests.clone();
    for test in &mut tests {
        // Cells of programs with other arguments are other cells.
        (test.selection, test.program) = (Selection::default(), None);
        (test.timeout_seconds, test.repeat) = (None, None);
    }
    tests.dedup();
    Request {
        tests,
        overlay: request.overlay.clone(),
        overlay_patches: request.overlay_patches.clone(),
        checkpoints_at: request.checkpoints_at.clone(),
        no_auto_overlay: request.no_auto_overlay,
        with: request.with.clone(),
        lockfile: request.lockfile.clone(),
        build: BuildOptions {
            // Where it is built, and how fast.
            manifest_path: None,
            jobs: None,
            settings: BuildSettings { offline: false, locked: false, ..request.build.settings.clone() },
            ..request.build.clone()
        },
        env: request.env.clone(),
        clean_env: request.clean_env.clone(),
        on_request: request.on_request.clone(),
        settings: RunSettings {
            sparse_exclude: request.settings.sparse_exclude.clone(),
            trim: request.settings.trim,
            ..RunSettings::default()
        },
        trace: request.trace.clone(),
        ..Request::default()
    }
}

fn difference(what: &str, kept: Option<&Value>, now: Option<&Value>) -> String {
    let text = |value: Option<&Value>| match value {
        None | Some(Value::Null) => "none".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    };
    format!("{what}: {} / {}", text(kept), text(now))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;
    use memprof_plan::clean_env::CleanEnv;
    use memprof_plan::request::LockfileRequest;

    #[test]
    fn machines_differ_by_what_figures_depend_on() {
        let machine = |cpus: u32, driver: &str, arenas: Option<&str>| {
            json!({
                "os": "linux", "kernel": "6.1", "cpus": cpus, "memory_kibibytes": cpus * 7,
                "gpu": {"driver": driver, "devices": [{"index": 0, "name": "NVIDIA H200"}]},
                "variables": arenas.map_or(json!({}), |arenas| json!({"MALLOC_ARENA_MAX": arenas})),
            })
        };
        let same = machine(8, "580.1", None);
        let mut request = Request::default();
        assert_eq!(of_machines(&same, &same, &request), [""; 0]);
        assert_eq!(
            of_machines(&same, &machine(4, "580.2", Some("1")), &request),
            [
                "the GPU drivers differ: 580.1 / 580.2",
                "the numbers of processors: 8 / 4",
                "the variables MALLOC_ARENA_MAX: none / 1"
            ]
        );
        let bare = json!({"os": "linux", "kernel": "6.1", "cpus": 8});
        assert_eq!(of_machines(&same, &bare, &request), ["the numbers of GPUs differ: 1 / 0"]);
        request.settings.device_pool = Some(vec!["0".to_owned()]);
        assert_eq!(of_machines(&same, &bare, &request), [""; 0]);
    }

    #[test]
    fn variables_make_no_difference_if_tests_do_not_inherit_them() {
        let machine = |value: &str| {
            let names = ["CUDA_VISIBLE_DEVICES", "PYTORCH_CUDA_ALLOC_CONF", "RAYON_NUM_THREADS"];
            json!({"variables": names.map(|name| (name, value)).into_iter().collect::<BTreeMap<_, _>>()})
        };
        let differing = |request: &Request| of_machines(&machine("0"), &machine("1"), request);
        let mut request = Request::default();
        let all = [
            "the variables CUDA_VISIBLE_DEVICES: 0 / 1",
            "the variables PYTORCH_CUDA_ALLOC_CONF: 0 / 1",
            "the variables RAYON_NUM_THREADS: 0 / 1",
        ];
        assert_eq!(differing(&request), all);
        request.clean_env = Some(CleanEnv::default());
        assert_eq!(differing(&request), [all[0], all[2]]);
        request.env.insert("RAYON_NUM_THREADS".to_owned(), "4".to_owned());
        assert_eq!(differing(&request), [all[0]]);
        request.settings.device_pool = Some(vec!["all".to_owned()]);
        assert_eq!(differing(&request), [""; 0]);
    }

    #[test]
    fn builds_differ_by_toolchain_and_shim_and_not_by_sources() {
        let variables = |hash: &str| format!("CARGO_PROFILE_DEV_LTO {hash}\nRUSTC 0123456789abcdef");
        let build = |toolchain: &str, shim: &str, sources: &str| -> BuildFacts {
            let facts = [
                (Fact::Toolchain, toolchain.to_owned()),
                (Fact::Shim, shim.to_owned()),
                (Fact::Sources, sources.to_owned()),
                (Fact::Lock, sources.to_owned()),
                (Fact::Environment, variables(&shim[..16])),
            ];
            facts.into_iter().collect()
        };
        let (old, new) = ("0123456789abcdef0123", "fedcba9876543210fedc");
        assert_eq!(of_builds(&build("rustc 1.95.0", old, "a"), &build("rustc 1.95.0", old, "b")), [""; 0]);
        assert_eq!(
            of_builds(&build("rustc 1.95.0", old, "a"), &build("rustc 1.96.0", new, "a")),
            [
                "the toolchain: rustc 1.95.0 / rustc 1.96.0",
                "the version of cargo-memprof",
                "the build's variables: CARGO_PROFILE_DEV_LTO"
            ]
        );
    }

    #[test]
    fn requests_differ_by_what_is_built_and_not_by_limits_or_the_selection() {
        let mut kept = Request::default();
        kept.tests.push(memprof_plan::request::TestRequest::default());
        let mut now = kept.clone();
        now.tests[0].selection.expression = Some("hf".to_owned());
        now.settings.timeout_seconds = Some(9);
        assert_eq!(of_requests(&kept, &now).unwrap(), [""; 0]);
        assert!(!select_the_same(&kept, &now));
        now.build.profile = Some("release".to_owned());
        now.env.insert("RAYON_NUM_THREADS".to_owned(), "1".to_owned());
        let differing = of_requests(&kept, &now).unwrap();
        assert_eq!(differing, ["`build.profile`: none / release", "`env.RAYON_NUM_THREADS`: none / 1"]);
        let mut now = kept.clone();
        now.settings.trim = true;
        assert_eq!(of_requests(&kept, &now).unwrap(), ["`trim`: false / true"]);
        let mut now = kept.clone();
        now.with.push("serde@1.0.200".parse().unwrap());
        now.lockfile = Some(LockfileRequest::Today);
        let differing = of_requests(&kept, &now).unwrap();
        assert!(differing[0].starts_with("`lockfile`: none / "), "{differing:?}");
        assert!(differing[1].starts_with("`with`: ") && differing[1].contains("1.0.200"), "{differing:?}");
    }
}
