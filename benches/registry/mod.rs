//! A registry of crates on the disk, so that a bench needs no network.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::commands::run;

/// Publishes a version of a crate, and lets cargo with `cargo-home` as its home use the registry.
pub fn publish(root: &Path, name: &str, version: &str, code: &str) {
    let (package, registry) = (format!("{name}-{version}"), root.join("registry"));
    let sources = root.join("sources").join(&package);
    fs::create_dir_all(sources.join("src")).unwrap();
    let manifest = format!("[package]\nname = '{name}'\nversion = '{version}'\nedition = '2021'\n");
    fs::write(sources.join("Cargo.toml"), manifest).unwrap();
    fs::write(sources.join("src/lib.rs"), code).unwrap();
    let index = registry.join("index").join(&name[..2]).join(&name[2..4]);
    fs::create_dir_all(&index).unwrap();
    let archive = registry.join(format!("{package}.crate"));
    run(Command::new("tar").arg("czf").arg(&archive).arg("-C").arg(root.join("sources")).arg(&package));
    let sum = run(Command::new("sha256sum").arg(&archive));
    let sum = sum.split_whitespace().next().unwrap();
    let line = format!(
        "{{\"name\":\"{name}\",\"vers\":\"{version}\",\"deps\":[],\"cksum\":\"{sum}\",\"features\":{{}},\"yanked\":false}}\n"
    );
    let file = index.join(name);
    fs::write(&file, fs::read_to_string(&file).unwrap_or_default() + &line).unwrap();
    let config = format!(
        "[source.crates-io]\nreplace-with = 'disk'\n[source.disk]\nlocal-registry = '{}'\n",
        registry.display()
    );
    // Cargo finds it from every folder below.
    fs::create_dir_all(root.join("cargo-home")).unwrap();
    fs::write(root.join("cargo-home/config.toml"), config).unwrap();
}
