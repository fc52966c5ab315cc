//! Named memory on a whole repository: built, run and shown, with figures to the byte.

use serde_json::{Value, json};

use crate::support::TestRepository;

const MANIFEST: &str = "[package]\nname = \"bart\"\nversion = \"0.1.0\"\nedition = \"2021\"\n";
const LOCK: &str = "version = 3\n\n[[package]]\nname = \"bart\"\nversion = \"0.1.0\"\n";

/// A model of plain vectors that names what it has. `layers` are a name and the extents of its weight.
fn library(layers: &[(&str, usize, usize)]) -> String {
    format!(
        r#"//! A model.
use memprof::{{Kind, Names, Tensor}};

/// Two blocks that nobody names.
pub fn read() -> [Vec<u8>; 2] {{
    std::hint::black_box([vec![1; 20_000], vec![2; 20_000]])
}}

pub struct Parameter {{ name: String, shape: [usize; 2], values: Vec<f32> }}
pub struct Model {{ pub parameters: Vec<Parameter> }}

impl Parameter {{
    fn new(name: &str, rows: usize, columns: usize) -> Self {{
        let mut values = Vec::with_capacity(rows * columns + 2);
        values.resize(rows * columns, 0.5);
        Self {{ name: name.to_owned(), shape: [rows, columns], values }}
    }}

    fn tensor(&self, kind: Kind) -> Tensor<'_> {{
        Tensor {{
            name: &self.name,
            kind,
            shape: &self.shape,
            dtype: "f32",
            storage: self.values.as_ptr() as u64,
            bytes: 4 * self.values.len() as u64,
            allocated: Some(4 * self.values.capacity() as u64),
            ..Tensor::default()
        }}
    }}
}}

impl Model {{
    pub fn new() -> Self {{
        let layers: &[(&str, usize, usize)] = &{layers:?};
        Self {{ parameters: layers.iter().map(|(name, rows, columns)| Parameter::new(name, *rows, *columns)).collect() }}
    }}

    pub fn names(&self) -> Names {{
        let mut names = Names::new();
        self.parameters.iter().for_each(|parameter| names.add(parameter.tensor(Kind::Weight)));
        // The head is tied to the embedding.
        names.add(Tensor {{ name: "head.weight", ..self.parameters[0].tensor(Kind::Weight) }});
        names
    }}

    /// The gradients, with their names.
    pub fn backward(&self) -> (Vec<Parameter>, Names) {{
        let gradients: Vec<Parameter> =
            self.parameters.iter().map(|one| Parameter::new(&one.name, one.shape[0], one.shape[1])).collect();
        let mut names = Names::new();
        gradients.iter().for_each(|gradient| names.add(gradient.tensor(Kind::Gradient)));
        (gradients, names)
    }}
}}
"#
    )
}

const TEST: &str = r#"
#[test]
fn trains() {
    let model = bart::Model::new();
    let _names = model.names();
    let file = bart::read();
    memprof::checkpoint!("loaded");
    drop(file);
    for _ in 0..3 {
        let activations = std::hint::black_box(vec![1_u8; 100_000]);
        let (gradients, names) = model.backward();
        drop(activations);
        memprof::checkpoint!("backward");
        drop((gradients, names));
    }
}
"#;

/// The same but for a layer that is wider, one that is new, and one that is gone.
fn repository() -> TestRepository {
    let mut repository = TestRepository::new();
    repository.write("Cargo.toml", MANIFEST);
    repository.write("Cargo.lock", LOCK);
    repository.write("tests/trains.rs", TEST);
    let old = [("embedding.weight", 100, 64), ("encoder.0.weight", 64, 64), ("encoder.norm", 1, 64)];
    repository.write("src/lib.rs", library(&old));
    repository.commit("a model");
    repository.git(["switch", "--quiet", "-c", "wider"]);
    let new = [("embedding.weight", 100, 64), ("encoder.0.weight", 64, 128), ("encoder.1.weight", 128, 64)];
    repository.write("src/lib.rs", library(&new));
    repository.commit("another layer");
    repository
}

fn printed(repository: &TestRepository, arguments: &[&str]) -> String {
    let output = repository.memprof().args(arguments).output().unwrap();
    // The candidate has grown, or a single run does not tell.
    assert!(matches!(output.status.code(), Some(0 | 1 | 4)), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn report(repository: &TestRepository, arguments: &[&str]) -> Value {
    serde_json::from_str(&printed(repository, &[arguments, &["--format", "json"]].concat())).unwrap()
}

/// Bytes of `f32` weights of these extents.
fn bytes(shapes: &[[i64; 2]]) -> i64 {
    shapes.iter().map(|[rows, columns]| 4 * rows * columns).sum()
}

#[test]
fn a_real_model_is_told_layer_by_layer_to_the_byte() {
    let repository = repository();
    let arguments = ["memprof", "--refs", "main,wider", "--test", "trains", "--repeat", "1"];
    let report = report(&repository, &arguments);
    let cells = report["cells"].as_array().unwrap();
    let weights = [bytes(&[[100, 64], [64, 64], [1, 64]]), bytes(&[[100, 64], [64, 128], [128, 64]])];
    for (name, weights) in ["main", "wider"].into_iter().zip(weights) {
        let cell = cells.iter().find(|cell| cell["ref"] == name).unwrap();
        let named = cell["tensors"]["named"].as_array().unwrap();
        assert_eq!(named.len(), 4 + 3);
        let times: Vec<u64> = named.iter().map(|one| one["times"].as_u64().unwrap()).collect();
        assert_eq!(times, [1, 1, 1, 1, 3, 3, 3], "weights once, gradients at each step");
        let at = |label: &str, occurrence: u64| {
            let checkpoints = cell["tensors"]["checkpoints"].as_array().unwrap();
            let here = checkpoints
                .iter()
                .find(|one| one["checkpoint"] == label && one["occurrence"] == occurrence)
                .unwrap();
            here["devices"][0].clone()
        };
        let loaded = at("loaded", 1);
        assert_eq!(loaded["bytes"], json!({"weight": weights}), "the tied head counts once");
        assert_eq!((&loaded["tensors"], &loaded["storages"]), (&json!({"weight": 4}), &json!(3)));
        assert_eq!(loaded["rounding"], 3 * 8, "two elements of each are held and not used");
        let backward = at("backward", 3);
        assert_eq!(backward["bytes"], json!({"weight": weights, "gradient": weights}));
        let figure = |key: &str| backward[key].as_i64().unwrap();
        assert_eq!(figure("live") - 2 * weights - 2 * 24, figure("unattributed"));
        // What lives at the peak and lasts not: the activations of this step.
        let rest = figure("rest_at_peak");
        assert_eq!(rest, figure("peak") - 2 * weights);
        assert!((100_000..110_000).contains(&rest), "{rest}");
        assert!(
            cell["tensors"]["checkpoints"].as_array().unwrap().iter().all(|one| one["checkpoint"] != "done")
        );
    }
    let changes: Vec<(&str, &str)> = report["layers"][0]["changed"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| {
            let tensor = if one["candidate"].is_null() { &one["baseline"] } else { &one["candidate"] };
            (one["change"].as_str().unwrap(), tensor["name"].as_str().unwrap())
        })
        .collect();
    assert_eq!(
        changes,
        [("resized", "encoder.0.weight"), ("added", "encoder.1.weight"), ("removed", "encoder.norm")]
    );
    let table = printed(&repository, &["memprof", "report"]);
    assert!(table.contains(" ~ encoder.0.weight │ weight  f32 [64, 64] → [64, 128] │"), "{table}");
    assert!(table.contains(" 3 of 5 tensors differ: 1 added, 1 removed, 1 resized\n"), "{table}");
    let view = printed(&repository, &["memprof", "report", "--view", "tensors"]);
    assert!(view.contains("   head.weight(->embedding.weight) │"), "{view}");
    assert!(
        view.contains(" each 19.5 KiB ") && view.contains(" --why shows who allocated these blocks\n"),
        "{view}"
    );
    let explained =
        printed(&repository, &["memprof", "main", "--test", "trains", "--view", "tensors", "--why"]);
    let line = |start: &str| explained.lines().find(|line| line.starts_with(start)).unwrap_or_default();
    assert!(line(" each 19.5 KiB ").ends_with(" │      2 │ 39.1 KiB"), "{explained}");
    assert!(line("   bart::read ").ends_with(" │      2 │ 39.1 KiB"), "{explained}");
}
