//! Adapters for frameworks on whole repositories. How they are compiled and left out is tried with a crate that has the name of a
//! framework and none of its size; what they say of tensors, with candle and with burn themselves, which are built
//! for it on request.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::support::{Printed, TestRepository, home_at, tool};
use serde_json::Value;

fn memprof(repository: &TestRepository, arguments: &[&str]) -> Printed {
    let mut command = tool();
    command.current_dir(repository.root()).env("CARGO_MEMPROF_HOME", home_at(repository.beside("home")));
    // One run a side: what is looked at here is exact.
    command.args(["memprof", "--repeat", "1", "--threshold", "*=off"]).args(arguments);
    Printed::of(command)
}

/// Files below a folder whose names begin so.
fn files(folder: &Path, prefix: &str) -> Vec<PathBuf> {
    let entries = walkdir::WalkDir::new(folder).into_iter().filter_map(Result::ok);
    let is_meant = |name: &std::ffi::OsStr| name.to_str().is_some_and(|name| name.starts_with(prefix));
    entries.filter(|entry| is_meant(entry.file_name())).map(walkdir::DirEntry::into_path).collect()
}

/// The log of the only run of a ref in the latest comparison.
struct Log(Vec<Value>);

impl Log {
    fn of(repository: &TestRepository, ref_name: &str) -> Self {
        let cells = repository.root().join("target/memprof/latest/cells");
        let logs = files(&cells.canonicalize().unwrap(), "log.jsonl");
        let is_of_ref = |path: &&PathBuf| path.to_str().unwrap().contains(&format!("-{ref_name}/"));
        let [log] = logs.iter().filter(is_of_ref).collect::<Vec<_>>()[..] else {
            panic!("{ref_name} in {logs:?}")
        };
        let text = std::fs::read_to_string(log).unwrap();
        Self(text.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
    }

    fn position(&self, label: &str) -> usize {
        self.0
            .iter()
            .position(|line| line["event"] == "checkpoint" && line["label"] == label)
            .unwrap_or_else(|| panic!("no checkpoint {label}"))
    }

    fn live(&self, label: &str) -> u64 {
        self.0[self.position(label)]["metrics"]["heap.live"].as_u64().unwrap()
    }

    /// The layers of the first pass with this label, by name; the pass's own row has none.
    fn layers(&self, label: &str) -> BTreeMap<String, Layer> {
        let mut lines = self.0.iter().skip_while(|line| line["event"] != "forward" || line["label"] != label);
        lines.next().unwrap_or_else(|| panic!("no pass {label}"));
        let layers = lines.take_while(|line| line["event"] == "layer").map(|line| {
            assert_eq!(line["memory"], "heap");
            let layer = Layer {
                calls: line["calls"].as_u64().unwrap(),
                freed_later: line["freed_later"].as_u64().unwrap(),
                retained: line["retained"].as_i64().unwrap(),
            };
            (line["name"].as_str().unwrap_or_default().to_owned(), layer)
        });
        layers.collect()
    }

    /// What was named between two checkpoints as this kind: name, shape, bytes.
    fn named(&self, from: &str, to: &str, kind: &str) -> BTreeMap<String, (Vec<u64>, u64)> {
        let lines = &self.0[self.position(from)..self.position(to)];
        let tensors = lines.iter().filter(|line| line["event"] == "tensor" && line["kind"] == kind);
        let described = |line: &Value| {
            let shape = line["shape"].as_array().unwrap().iter().map(|extent| extent.as_u64().unwrap());
            let name = line["name"].as_str().unwrap().to_owned();
            assert_eq!(line["device"], "cpu", "{name}");
            (name, (shape.collect(), line["bytes"].as_u64().unwrap()))
        };
        tensors.map(described).collect()
    }
}

struct Layer {
    calls: u64,
    freed_later: u64,
    retained: i64,
}

fn bytes(named: &BTreeMap<String, (Vec<u64>, u64)>) -> u64 {
    named.values().map(|(_, bytes)| bytes).sum()
}

/// Names, shapes and bytes of tensors of `f32`.
fn floats(shapes: &[(&str, &[u64])]) -> BTreeMap<String, (Vec<u64>, u64)> {
    let of = |(name, shape): &(&str, &[u64])| {
        ((*name).to_owned(), (shape.to_vec(), shape.iter().product::<u64>() * 4))
    };
    shapes.iter().map(of).collect()
}

const MANIFEST: &str =
    "[package]\nname = \"user\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[dependencies]\n";
const LOCK: &str = "version = 3\n\n[[package]]\nname = \"user\"\nversion = \"0.1.0\"\n";
const RUNTIME: &str = "
pub mod prelude {}
pub struct Client;
pub struct Usage { pub bytes_in_use: u64, pub bytes_padding: u64, pub bytes_reserved: u64 }
impl Client { pub fn memory_usage(&self) -> Usage { Usage { bytes_in_use: 5, bytes_padding: 3, bytes_reserved: 64 } } }
pub trait Runtime { type Device: core::fmt::Debug; fn client(device: &Self::Device) -> Client; }
#[derive(Clone, Debug)] pub struct DeviceId(pub usize);
#[derive(Clone, Debug)] pub struct CudaDevice { pub id: DeviceId, pub index: usize }
#[derive(Debug)] pub struct Cuda;
impl Runtime for Cuda { type Device = CudaDevice; fn client(_: &CudaDevice) -> Client { Client } }
";
/// A library that uses an adapter, too.
const LIBRARY: &str = "
#[cfg(memprof_cubecl)]
pub fn pool(index: usize) -> bool {
    memprof_cubecl::pool::<gpu::Cuda>(&gpu::CudaDevice { id: gpu::DeviceId(7), index })
}
";
const GUARDED: &str = "
#[test]
fn pools() {
    #[cfg(memprof_cubecl)]
    assert!(user::pool(1) && memprof_cubecl::pool::<gpu::Cuda>(&gpu::CudaDevice { id: gpu::DeviceId(7), index: 1 }));
    memprof::checkpoint!(\"end\");
}
";

/// Five branches: without the framework, with it, with one of another interface, a test that insists on it there, and one
/// that does not use it.
fn pools() -> TestRepository {
    let mut repository = TestRepository::new();
    repository.write("Cargo.toml", MANIFEST);
    repository.write("Cargo.lock", LOCK);
    repository.write(".gitignore", "target\n");
    repository.write("src/lib.rs", LIBRARY);
    repository.write("tests/pools.rs", GUARDED);
    repository.commit("without");
    repository.git(["branch", "without"]);
    // Another name than its own, as manifests may give.
    repository
        .write("Cargo.toml", format!("{MANIFEST}gpu = {{ package = \"cubecl\", path = \"cubecl\" }}\n"));
    repository.write(
        "Cargo.lock",
        format!(
            "{LOCK}dependencies = [\n \"cubecl\",\n]\n\n[[package]]\nname = \"cubecl\"\nversion = \"0.3.0\"\n"
        ),
    );
    repository.write(
        "cubecl/Cargo.toml",
        "[package]\nname = \"cubecl\"\nversion = \"0.3.0\"\nedition = \"2021\"\n[workspace]\n",
    );
    repository.write("cubecl/src/lib.rs", RUNTIME);
    repository.commit("with");
    repository.git(["branch", "with"]);
    repository.write("cubecl/src/lib.rs", RUNTIME.replace("bytes_padding", "bytes_lost"));
    repository.commit("other");
    repository.git(["branch", "other"]);
    repository.write("tests/pools.rs", GUARDED.replace("    #[cfg(memprof_cubecl)]\n", ""));
    repository.commit("insists");
    repository.git(["branch", "insists"]);
    repository.write("src/lib.rs", "");
    repository.write("tests/pools.rs", "#[test]\nfn pools() {}\n");
    repository.commit("unused");
    repository.git(["branch", "unused"]);
    repository
}

#[test]
fn an_adapter_is_there_where_its_framework_is_and_says_why_where_it_is_not() {
    let repository = pools();
    let home = repository.beside("home");

    let printed = memprof(&repository, &["--refs", "without,without~0"]);
    assert_eq!(printed.code, 0, "{}", printed.stderr);
    assert_eq!(files(&home, "adapters"), Vec::<PathBuf>::new(), "nothing is made for who has no framework");

    let printed = memprof(&repository, &["--refs", "with,other", "--format", "json"]);
    assert_eq!(printed.code, 0, "{}", printed.stderr);
    assert_eq!(files(&home, "libmemprof_cubecl-").len(), 1, "one for all targets that use it");
    let pools = |log: &Log| log.0.iter().filter(|line| line["event"] == "pool").cloned().collect::<Vec<_>>();
    let [pool, same] = &pools(&Log::of(&repository, "with"))[..] else { panic!("no pools") };
    assert_eq!(same["device"], pool["device"]);
    assert_eq!(pool["name"], "CudaDevice { id: DeviceId(7), index: 1 }");
    assert_eq!(pool["device"], "cuda:1");
    assert_eq!((&pool["in_use"], &pool["padding"], &pool["reserved"]), (&5.into(), &3.into(), &64.into()));
    let at_end = &Log::of(&repository, "with").0[Log::of(&repository, "with").position("end")]["metrics"];
    let of_pool = |metric: &str| at_end[format!("pool.cubecl.1.{metric}")].as_u64();
    let figures = ["in_use", "in_use_peak", "reserved", "reserved_peak"].map(of_pool);
    assert_eq!(figures, [5, 5, 64, 64].map(Some), "{at_end}");
    assert!(at_end.get("pool.cubecl.1.2.in_use").is_none(), "one pool is watched once: {at_end}");
    assert!(pools(&Log::of(&repository, "other")).is_empty());
    let said = format!("warning: other: {LEFT_OUT}: error");
    assert!(printed.stderr.contains(&said), "{}", printed.stderr);
    assert!(printed.stderr.contains("no field `bytes_padding`"), "{}", printed.stderr);
    assert_eq!(printed.stderr.matches(LEFT_OUT).count(), 1, "{}", printed.stderr);

    // From the store as well.
    let printed = memprof(&repository, &["--refs", "without,other"]);
    assert!(printed.stderr.contains(&said), "{}", printed.stderr);

    let printed = memprof(&repository, &["--refs", "without,unused"]);
    assert_eq!(printed.code, 0, "{}", printed.stderr);
    assert!(!printed.stderr.contains("memprof_"), "not a word for who uses no adapter: {}", printed.stderr);

    let printed = memprof(&repository, &["--refs", "without,insists"]);
    assert_ne!(printed.code, 0);
    let (_, failure) = printed.stderr.split_once("insists").expect("the failure");
    assert!(failure.contains("`memprof_cubecl`") && failure.contains(LEFT_OUT), "{failure}");
}

const LEFT_OUT: &str = "memprof_cubecl is left out, because it does not compile against cubecl";

/// A network's fixture on the branch `old`, and on the branch `new` with parts of its source replaced.
fn network(fixture: &str, replaced: &[(&str, &str)]) -> TestRepository {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/adapters").join(fixture);
    let mut repository = TestRepository::new();
    repository.write(".gitignore", "target\n");
    for entry in walkdir::WalkDir::new(&folder).into_iter().map(Result::unwrap) {
        if entry.file_type().is_file() {
            let path = entry.path().strip_prefix(&folder).unwrap().to_str().unwrap();
            repository.write(path.trim_end_matches(".in"), std::fs::read_to_string(entry.path()).unwrap());
        }
    }
    repository.commit("old");
    repository.git(["branch", "old"]);
    let mut source = std::fs::read_to_string(folder.join("src/lib.rs")).unwrap();
    for (old, new) in replaced {
        assert!(source.contains(old), "{old}");
        source = source.replace(old, new);
    }
    repository.write("src/lib.rs", source);
    repository.commit("new");
    repository.git(["branch", "new"]);
    repository
}

/// The JSON report of the two branches.
fn report(repository: &TestRepository) -> Value {
    let printed = memprof(repository, &["--refs", "old,new", "--format", "json"]);
    assert_eq!(printed.code, 0, "{}", printed.stderr);
    serde_json::from_str(&printed.stdout).unwrap()
}

/// What nobody named of a ref's live heap at a checkpoint.
fn unattributed(report: &Value, ref_name: &str, label: &str) -> i64 {
    let find = |list: &Value, key: &str, value: &str| {
        list.as_array().unwrap().iter().find(|one| one[key] == value).unwrap().clone()
    };
    let cell = find(&report["cells"], "ref", ref_name);
    let checkpoint = find(&cell["tensors"]["checkpoints"], "checkpoint", label);
    find(&checkpoint["devices"], "device", "cpu")["unattributed"].as_i64().unwrap()
}

/// The harness's main thread allocates 144 bytes while a test begins, before or after what the test does first.
#[track_caller]
fn assert_same_but_for_the_harness(old: impl Into<i128>, new: impl Into<i128>, what: &str) {
    let (old, new) = (old.into(), new.into());
    assert!([0, 144].contains(&(old - new).abs()), "{what}: {old} and {new}");
}

/// The changed layers at a checkpoint: how, and the name.
fn layers<'a>(report: &'a Value, label: &str) -> Vec<(&'a str, &'a str)> {
    let at = report["layers"].as_array().unwrap().iter().find(|one| one["checkpoint"] == label).unwrap();
    let changed = at["changed"].as_array().unwrap().iter().map(|one| {
        let tensor = if one["candidate"].is_null() { &one["baseline"] } else { &one["candidate"] };
        (one["change"].as_str().unwrap(), tensor["name"].as_str().unwrap())
    });
    let mut changed: Vec<_> = changed.collect();
    changed.sort_unstable();
    changed
}

#[test]
#[ignore = "builds candle, which takes minutes; run it with `just test-all`"]
fn candles_weights_and_gradients_are_named_to_the_byte() {
    let repository =
        network("candle", &[("(\"inner\", 48), (\"older\", 32)", "(\"inner\", 96), (\"newer\", 32)")]);
    let report = report(&repository);

    let expected_old = floats(&[
        ("first.weight", &[64, 16]),
        ("first.bias", &[64]),
        ("inner.weight", &[48, 64]),
        ("inner.bias", &[48]),
        ("older.weight", &[32, 48]),
        ("older.bias", &[32]),
        ("final.weight", &[1, 32]),
        ("final.bias", &[1]),
    ]);
    let expected_new = floats(&[
        ("first.weight", &[64, 16]),
        ("first.bias", &[64]),
        ("inner.weight", &[96, 64]),
        ("inner.bias", &[96]),
        ("newer.weight", &[32, 96]),
        ("newer.bias", &[32]),
        ("final.weight", &[1, 32]),
        ("final.bias", &[1]),
    ]);
    let mut rests = Vec::new();
    let mut kept_by_optimizer = Vec::new();
    for (name, expected) in [("old", expected_old), ("new", expected_new)] {
        let log = Log::of(&repository, name);
        assert_eq!(log.named("unnamed", "built", "weight"), expected);
        let weights = log.0.iter().filter(|line| line["event"] == "tensor" && line["kind"] == "weight");
        let in_order: Vec<&str> = weights.map(|line| line["name"].as_str().unwrap()).collect();
        assert!(in_order.is_sorted(), "{in_order:?}");
        assert_eq!(log.named("optimizer", "backward", "gradient"), expected);
        let moments = log.named("built", "optimizer", "optimizer-state");
        let of = |moment: &str| {
            let named = |(name, _): &(&String, _)| moments.contains_key(&format!("{name}.{moment}_moment"));
            expected.iter().filter(named).count()
        };
        assert_eq!((of("first"), of("second"), moments.len()), (8, 8, 16));
        assert_eq!(bytes(&moments), 2 * bytes(&expected));
        let absent = log.0.iter().find(|line| line["metric"] == "pool.candle.in_use").unwrap();
        assert_eq!(absent["reason"], "candle has no pool on the CPU; its tensors are in heap.live");
        kept_by_optimizer.push(log.live("optimizer") - log.live("built") - bytes(&moments));
        let storage = |tensor: &str| {
            let line = log.0.iter().find(|line| line["name"] == tensor).unwrap();
            (line["storage"].as_u64().unwrap(), line["allocated"].as_u64().unwrap())
        };
        assert_eq!(storage("view"), storage("first.weight"));
        let range = |tensor: &str| &log.0.iter().find(|line| line["name"] == tensor).unwrap()["range"];
        assert_eq!(
            (range("view"), range("first.weight")),
            (&serde_json::json!([16 * 4, 9 * 16 * 4]), &serde_json::json!([0, 64 * 16 * 4]))
        );
        rests.push(log.live("unnamed") - bytes(&expected));
        assert_layers_of_candle(&log);
    }
    assert_eq!(kept_by_optimizer[0], kept_by_optimizer[1]);
    for label in ["built", "optimizer", "backward"] {
        let [old, new] = ["old", "new"].map(|name| unattributed(&report, name, label));
        assert_same_but_for_the_harness(old, new, label);
    }
    assert_eq!(
        layers(&report, "built"),
        [
            ("added", "newer.bias"),
            ("added", "newer.weight"),
            ("removed", "older.bias"),
            ("removed", "older.weight"),
            ("resized", "inner.bias"),
            ("resized", "inner.weight"),
        ]
    );
    assert_same_but_for_the_harness(rests[0], rests[1], "no byte of a weight is in what is not attributed");
}

/// A layer keeps its output and the product before the bias was added. candle has some 230 bytes beside each tensor.
fn assert_layers_of_candle(log: &Log) {
    let train = log.layers("train");
    assert_eq!(train.keys().collect::<Vec<_>>(), ["", "mlp.0", "mlp.1"]);
    for name in ["mlp.0", "mlp.1"] {
        let kept = train[name].retained;
        let tensors: i64 = 2 * 4 * 64 * 4;
        assert!((tensors..tensors + 1024).contains(&kept), "{name}: {kept}");
        assert_eq!((train[name].calls, train[name].freed_later), (1, 0));
    }
    let kept: i64 = train.values().map(|layer| layer.retained).sum();
    let grown = log.live("forward ended") - log.live("forward begins");
    assert_eq!(kept, i64::try_from(grown).unwrap(), "the rows add up, whatever candle kept");

    let frozen = log.layers("infer");
    let doubled: i64 = 4 * 16 * 4;
    let inner = &frozen["inner"];
    assert_eq!((inner.calls, inner.freed_later), (2, doubled.unsigned_abs()), "the first output is gone");
    assert!(
        (doubled..doubled + 1024).contains(&inner.retained),
        "the second one is there: {}",
        inner.retained
    );
    assert_eq!((frozen["same"].retained, frozen["double"].freed_later), (0, 0), "no storage is theirs");

    let hidden: &[u64] = &[4, 64];
    let activations = floats(&[
        ("mlp.0/2", hidden),
        ("mlp.0", hidden),
        ("after mlp.0/1", hidden),
        ("mlp.1/2", hidden),
        ("mlp.1", hidden),
        ("after mlp.1/1", &[1, 1]),
        ("after mlp.1/2", &[]),
    ]);
    assert_eq!(log.named("forward ended", "activations", "activation"), activations);
    let rest = log.named("activations", "all gradients", "intermediate-gradient");
    assert_eq!(rest, floats(&[("input/1", &[4, 16])]), "candle keeps the gradient of an input");
    let backward = log.0.iter().find(|line| line["event"] == "scope" && line["label"] == "backward").unwrap();
    assert!(backward["metrics"]["heap.peaked"].as_u64() > Some(4 * 64 * 4), "{backward}");
    // Four bits and a scale of two bytes for each 32 numbers.
    let quantized = BTreeMap::from([("quantized".to_owned(), (vec![4, 32], 4 * (16 + 2)))]);
    assert_eq!(log.named("inferred", "quantized", "other"), quantized);
    let loaded = &log.0[log.position("quantized")..log.position("loaded")];
    let loaded = loaded.iter().filter(|line| line["event"] == "tensor");
    let storages: Vec<(&str, u64)> =
        loaded.map(|line| (line["name"].as_str().unwrap(), line["storage"].as_u64().unwrap())).collect();
    let [("loaded", first), ("loaded", second), ("again", again)] = storages[..] else {
        panic!("{storages:?}");
    };
    assert_ne!(first, second, "two tensors, although one variable held both in turns");
    assert_eq!(first, again, "a tensor that moved is the same one");
}

#[test]
#[ignore = "builds burn, which takes minutes; run it with `just test-all`"]
fn burns_weights_and_gradients_are_named_to_the_byte_and_naming_leaves_nothing() {
    let repository = network("burn", &[("INNER: usize = 48", "INNER: usize = 96"), ("older", "newer")]);
    let report = report(&repository);

    let expected_old = floats(&[
        ("first.weight", &[16, 64]),
        ("first.bias", &[64]),
        ("inner.weight", &[64, 48]),
        ("inner.bias", &[48]),
        ("older.0.weight", &[48, 32]),
        ("older.0.bias", &[32]),
        ("older.1.weight", &[32, 1]),
        ("older.1.bias", &[1]),
    ]);
    let expected_new = floats(&[
        ("first.weight", &[16, 64]),
        ("first.bias", &[64]),
        ("inner.weight", &[64, 96]),
        ("inner.bias", &[96]),
        ("newer.0.weight", &[96, 32]),
        ("newer.0.bias", &[32]),
        ("newer.1.weight", &[32, 1]),
        ("newer.1.bias", &[1]),
    ]);
    let mut rests = Vec::new();
    for (name, expected) in [("old", expected_old), ("new", expected_new)] {
        let log = Log::of(&repository, name);
        assert!(
            log.named("start", "lazy", "weight").is_empty(),
            "a weight that is not there yet has no name"
        );
        assert_eq!(log.named("unnamed", "backward", "weight"), expected);
        assert_eq!(log.named("unnamed", "backward", "gradient"), expected);
        assert_eq!(log.live("unnamed"), log.live("backward"));
        let absent = log.0.iter().find(|line| line["metric"] == "pool.cubecl.in_use").unwrap();
        assert_eq!(absent["reason"], "burn reports no memory pool for this device");
        rests.push(log.live("unnamed") - 2 * bytes(&expected));
        // The weights are made in the first forward pass.
        let train = log.layers("train");
        let kept: i64 = train.values().map(|layer| layer.retained).sum();
        let grown = log.live("forward ended") - log.live("forward begins");
        assert_eq!(kept, i64::try_from(grown).unwrap(), "the rows add up, whatever burn kept");
        assert!(train["network"].retained >= i64::try_from(bytes(&expected)).unwrap());
        assert!(log.0.iter().any(|line| line["event"] == "scope" && line["label"] == "backward"));
    }
    let [old, new] = ["old", "new"].map(|name| unattributed(&report, name, "backward"));
    assert_same_but_for_the_harness(old, new, "backward");
    assert_same_but_for_the_harness(rests[0], rests[1], "no byte of a weight or a gradient is in it");
}
