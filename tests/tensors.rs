//! Named memory on whole repositories: built, run and shown, with figures to the byte; and every report of it.

#[path = "support/synthetic.rs"]
mod synthetic;
#[allow(dead_code, reason = "each test binary includes this file and uses a part of it")]
mod support;

use cargo_memprof::compare::compare;
use cargo_memprof::comparison::Comparison;
use cargo_memprof::outcome::Status;
use cargo_memprof::report::{self, Format, Options, View};
use serde_json::{Value, json};
use support::TestRepository;
use synthetic::{Log, Synthetic};

const MANIFEST: &str = "[package]\nname = \"bart\"\nversion = \"0.1.0\"\nedition = \"2021\"\n";
const LOCK: &str = "version = 3\n\n[[package]]\nname = \"bart\"\nversion = \"0.1.0\"\n";

/// A model of plain vectors that names what it has. `layers` are a name and the extents of its weight.
fn library(layers: &[(&str, usize, usize)]) -> String {
    format!(
        r#"//! A model.
use memprof::{{Kind, Names, Tensor}};

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
    memprof::checkpoint!("loaded");
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
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_real_model_is_told_layer_by_layer() {
    let repository = repository();
    let printed = printed(&repository, &["memprof", "main", "wider", "--test", "trains"]);
    panic!("{printed}");
}
