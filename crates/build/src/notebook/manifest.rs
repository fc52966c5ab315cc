//! The manifest of a notebook's program: dependencies from `:dep`, and the profile from `:opt`.

use indexmap::IndexMap;
use toml_edit::{DocumentMut, InlineTable, Item, Table, Value, value};

use crate::notebook::cell::ParsedCell;
use crate::notebook::commands::Command;
use crate::notebook::mistake::Mistake;

/// What evcxr optimizes with if no `:opt` says otherwise.
const USUAL_OPTIMIZATION: &str = "2";

/// The edition of evcxr's crates.
const EDITION: &str = "2024";

/// Where a `:dep` with a path leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundPackage {
    /// The path for the manifest.
    pub path: String,
    /// The package's name.
    pub name: String,
}

/// Finds the package of a path in a `:dep`; the error says why there is none.
pub(crate) type FindPackage<'a> = &'a dyn Fn(&str) -> Result<FoundPackage, String>;

/// What the commands of all cells ask for.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    dependencies: IndexMap<String, Item>,
    optimization: Option<String>,
    /// The toolchain, as rustup names it.
    pub toolchain: Option<String>,
    /// Environment variables of the build and the run.
    pub variables: IndexMap<String, String>,
    /// Whether errors of `?` are shown as `Debug`.
    pub debug_errors: bool,
}

impl Settings {
    /// Reads the commands of all cells, in order.
    pub fn read<'a>(
        cells: impl IntoIterator<Item = &'a ParsedCell>,
        find: FindPackage<'_>,
    ) -> Result<Self, Mistake> {
        let mut settings = Self::default();
        let mut has_await = false;
        for cell in cells {
            has_await |= cell.awaits;
            for placed in &cell.commands {
                settings.add(&placed.command, find).map_err(|Refusal { what, instead }| Mistake {
                    cell: cell.number,
                    line: placed.line,
                    what,
                    instead,
                })?;
            }
            for extern_crate in &cell.extern_crates {
                let known = ["std", "core", "alloc", "proc_macro", "test", "self"];
                let name = &extern_crate.name;
                let has = |dependency: &String| dependency.replace('-', "_") == *name;
                if !known.contains(&name.as_str()) && !settings.dependencies.keys().any(has) {
                    settings.dependencies.insert(name.clone(), value("*"));
                }
            }
        }
        if has_await && !settings.dependencies.contains_key("tokio") {
            let mut tokio = InlineTable::new();
            tokio.insert("version", "1".into());
            tokio.insert("features", Value::Array(std::iter::once("full").collect()));
            settings.dependencies.insert("tokio".to_owned(), Item::Value(Value::InlineTable(tokio)));
        }
        Ok(settings)
    }

    fn add(&mut self, command: &Command, find: FindPackage<'_>) -> Result<(), Refusal> {
        match command {
            Command::Dependency { name, value } => {
                let item = dependency(name, value, find)?;
                self.dependencies.insert(name.clone(), item);
            }
            Command::LocalDependency { path } => {
                let found = find(path).map_err(|reason| no_package(path, &reason))?;
                let mut table = InlineTable::new();
                table.insert("path", found.path.into());
                self.dependencies.insert(found.name, Item::Value(Value::InlineTable(table)));
            }
            Command::Optimization(level) => set_once(&mut self.optimization, level, "optimization level")?,
            Command::Toolchain(name) => set_once(&mut self.toolchain, name, "toolchain")?,
            Command::Variable(name, value) => {
                self.variables.insert(name.clone(), value.clone());
            }
            Command::DebugErrors(debug) => self.debug_errors |= debug,
            Command::Format(_) | Command::Nothing => {}
        }
        Ok(())
    }

    /// Returns the manifest of the program. `patches` are the tables of the workspace that the
    /// dependencies are in.
    pub fn manifest(&self, target: &str, patches: &Table) -> String {
        let mut document = DocumentMut::new();
        let mut package = Table::new();
        package.insert("name", value("notebook"));
        package.insert("version", value("0.0.0"));
        package.insert("edition", value(EDITION));
        package.insert("publish", value(false));
        package.insert("autotests", value(false));
        document.insert("package", Item::Table(package));
        // Cargo needs a library or a program. This library is empty and holds no test.
        let mut library = Table::new();
        library.insert("path", value("lib.rs"));
        library.insert("test", value(false));
        library.insert("doctest", value(false));
        document.insert("lib", Item::Table(library));
        let mut test = Table::new();
        test.insert("name", value(target));
        test.insert("path", value(format!("tests/{target}.rs")));
        test.insert("harness", value(false));
        document.insert("test", Item::ArrayOfTables(std::iter::once(test).collect()));
        let mut dependencies = Table::new();
        for (name, item) in &self.dependencies {
            dependencies.insert(name, item.clone());
        }
        document.insert("dependencies", Item::Table(dependencies));
        let mut profile = Table::new();
        let level = self.optimization.as_deref().unwrap_or(USUAL_OPTIMIZATION);
        // Levels are numbers, or the letters `s` and `z`.
        profile.insert("opt-level", level.parse::<i64>().map_or_else(|_| value(level), value));
        profile.insert("debug", value("line-tables-only"));
        let mut profiles = Table::new();
        profiles.set_implicit(true);
        profiles.insert("dev", Item::Table(profile));
        document.insert("profile", Item::Table(profiles));
        document.insert("workspace", Item::Table(Table::new()));
        for (key, item) in patches {
            document.insert(key, item.clone());
        }
        document.to_string()
    }
}

/// Why a command is refused.
struct Refusal {
    what: String,
    instead: String,
}

/// Sets what a program has only once.
fn set_once(setting: &mut Option<String>, new: &str, what: &str) -> Result<(), Refusal> {
    match setting {
        Some(old) if old != new => Err(Refusal {
            what: format!("another {what}, {new}, after {old}; a program has one for all cells"),
            instead: format!("use the same {what} everywhere, or make it two notebooks"),
        }),
        _ => {
            *setting = Some(new.to_owned());
            Ok(())
        }
    }
}

/// Reads what a `:dep` has to the right of the `=`. Paths become those that `find` returns.
fn dependency(name: &str, text: &str, find: FindPackage<'_>) -> Result<Item, Refusal> {
    let parsed = text.parse::<Value>().ok().filter(|value| value.is_str() || value.is_inline_table());
    let Some(mut parsed) = parsed else {
        return Err(Refusal {
            what: format!("`{text}` is no version and no table of a manifest"),
            instead: format!(
                "for example :dep {name} = \"1.0\", or :dep {name} = {{ path = \"../{name}\" }}"
            ),
        });
    };
    if let Some(table) = parsed.as_inline_table_mut()
        && let Some(path) = table.get("path").and_then(Value::as_str).map(str::to_owned)
    {
        let found = find(&path).map_err(|reason| no_package(&path, &reason))?;
        table.insert("path", found.path.into());
    }
    Ok(Item::Value(parsed))
}

fn no_package(path: &str, reason: &str) -> Refusal {
    Refusal {
        what: format!("no package at '{path}': {reason}"),
        instead: "write the path from the notebook's folder, such as :dep NAME = { path = \"../NAME\" }"
            .to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(sources: &[&str]) -> Result<Settings, Mistake> {
        let cells: Vec<ParsedCell> = sources
            .iter()
            .enumerate()
            .map(|(at, source)| ParsedCell::read(at + 1, source).unwrap())
            .collect();
        let find = |path: &str| match path {
            "../a" => Ok(FoundPackage { path: "../crates/a".to_owned(), name: "package-a".to_owned() }),
            _ => Err("the folder is missing".to_owned()),
        };
        Settings::read(&cells, &find)
    }

    #[test]
    fn the_manifest_has_the_dependencies_of_all_cells() {
        let settings = settings(&[
            ":dep rand = \"0.8\"\n:dep ../a\n:opt 1",
            ":dep rand = { version = \"0.9\", features = [\"std\"] }\n:dep b = { path = \"../a\" }\nextern crate either;",
            "f().await",
        ])
        .unwrap();
        insta::assert_snapshot!(settings.manifest("tour", &Table::new()));
    }

    #[test]
    fn what_a_program_has_only_once_cannot_change() {
        let mistake = settings(&[":opt 2", "let a = 1;", ":dep rand\n:opt 0"]).unwrap_err();
        assert_eq!((mistake.cell, mistake.line), (3, 2));
        assert!(mistake.what.contains("optimization level, 0, after 2"), "{}", mistake.what);
    }

    #[test]
    fn dependencies_that_cannot_be_read_say_what_to_write() {
        let mistake = settings(&[":dep rand = 0.9"]).unwrap_err();
        assert!(mistake.instead.contains(":dep rand = \"1.0\""), "{}", mistake.instead);
        let mistake = settings(&["\n:dep ../b"]).unwrap_err();
        assert_eq!((mistake.line, mistake.what.as_str()), (2, "no package at '../b': the folder is missing"));
    }
}
