//! The keys of cargo's configuration that this tool overrides or needs: the user's runner, compiler
//! wrappers, target and target folder. Cargo itself reads all other keys.

use std::collections::HashSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::Context;
use camino::{Utf8Path, Utf8PathBuf};
use cargo_platform::{Cfg, Platform};
use toml_edit::{DocumentMut, Item};

use crate::cargo::toolchain::Toolchain;
use memprof_support::regular_file::followed;
use memprof_support::user_error::UserError;

/// The configuration as cargo sees it from a folder, the strongest layer first: `--config`, then
/// files from the folder upwards, then `$CARGO_HOME/config.toml`. Environment variables come
/// between the command line and the files. A file is stronger than those that it includes.
#[derive(Debug, Default)]
pub struct CargoConfig {
    layers: Vec<Layer>,
    /// How many of the first layers come from `--config`.
    from_command_line: usize,
}

#[derive(Debug)]
struct Layer {
    /// The folder that relative programs are relative to: the one that contains `.cargo`, or the
    /// current one for `--config`.
    base: PathBuf,
    document: DocumentMut,
}

/// What cargo does with the key `include` of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Includes {
    /// It reads the named files.
    Followed,
    /// It warns, as before Rust 1.94.
    Ignored,
}

impl Includes {
    /// Returns what this toolchain's cargo does.
    pub(crate) fn of(toolchain: &Toolchain) -> Self {
        const FIRST: i64 = 94;
        if toolchain.minor().is_some_and(|minor| minor < FIRST) { Self::Ignored } else { Self::Followed }
    }
}

impl CargoConfig {
    /// Reads all layers.
    pub fn read(directory: &Utf8Path, command_line: &[String], includes: Includes) -> anyhow::Result<Self> {
        let mut config = Self::default();
        for argument in command_line.iter().rev() {
            let source = Source::of_argument(directory, argument)?;
            config.add(source, includes, &format!("--config {argument}"))?;
        }
        config.from_command_line = config.layers.len();
        for folder in directory.ancestors() {
            config.read_folder(&folder.as_std_path().join(".cargo"), includes)?;
        }
        if let Some(home) = home() {
            config.read_folder(&home, includes)?;
        }
        Ok(config)
    }

    fn read_folder(&mut self, folder: &Path, includes: Includes) -> anyhow::Result<()> {
        for name in ["config.toml", "config"] {
            let path = folder.join(name);
            let shown = path.display().to_string();
            match Source::of_file(path) {
                Ok(source) => return self.add(source, includes, &shown),
                Err(error) if [ErrorKind::NotFound, ErrorKind::NotADirectory].contains(&error.kind()) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Adds a file and those that it includes.
    fn add(&mut self, source: Source, includes: Includes, shown: &str) -> anyhow::Result<()> {
        let sources = match includes {
            Includes::Followed => source.with_included(),
            Includes::Ignored => vec![source],
        };
        for Source { path, base, text } in sources {
            let document = text.parse().with_context(|| match &path {
                Some(path) => format!("{} is not TOML", path.display()),
                None => format!("{shown} is not TOML"),
            })?;
            self.layers.push(Layer { base, document });
        }
        Ok(())
    }

    /// Returns the user's `build.rustc-workspace-wrapper`.
    pub(crate) fn workspace_wrapper(&self) -> Option<PathBuf> {
        self.program_of(
            "rustc-workspace-wrapper",
            ["RUSTC_WORKSPACE_WRAPPER", "CARGO_BUILD_RUSTC_WORKSPACE_WRAPPER"],
        )
    }

    /// Returns the user's `build.rustc-wrapper`.
    pub(crate) fn compiler_wrapper(&self) -> Option<PathBuf> {
        self.program_of("rustc-wrapper", ["RUSTC_WRAPPER", "CARGO_BUILD_RUSTC_WRAPPER"])
    }

    fn program_of(&self, key: &str, variables: [&str; 2]) -> Option<PathBuf> {
        let from_environment =
            variables.iter().find_map(std::env::var_os).filter(|wrapper| !wrapper.is_empty());
        if let Some(wrapper) = from_environment {
            return Some(wrapper.into());
        }
        let (base, item) = self.find(&["build", key])?;
        Some(program(base, item.as_str()?)).filter(|wrapper| !wrapper.as_os_str().is_empty())
    }

    /// Returns `build.target`, from `--config`, from this value of `CARGO_BUILD_TARGET`, or from a
    /// file.
    ///
    /// # Errors
    ///
    /// There are several targets. Cargo would build for each of them.
    pub(crate) fn build_target(
        &self,
        variable: Option<String>,
        host: &str,
    ) -> Result<Option<String>, UserError> {
        const KEYS: [&str; 2] = ["build", "target"];
        let from_command_line = find_in(&self.layers[..self.from_command_line], &KEYS);
        let found = match (from_command_line, variable.filter(|target| !target.is_empty())) {
            (None, Some(target)) => return Ok(Some(of_host(target, host))),
            (from_command_line, _) => from_command_line.or_else(|| self.find(&KEYS)),
        };
        let Some((base, item)) = found else { return Ok(None) };
        let named: Vec<&str> = match item.as_array() {
            Some(several) => several.iter().filter_map(|target| target.as_str()).collect(),
            None => item.as_str().into_iter().collect(),
        };
        match named[..] {
            [] => Ok(None),
            // The target is described by a file.
            [target] if Path::new(target).extension().is_some_and(|extension| extension == "json") => {
                Ok(Some(base.join(target).to_string_lossy().into_owned()))
            }
            [target] => Ok(Some(of_host(target.to_owned(), host))),
            _ => Err(UserError::new(format!(
                "cargo's configuration has several targets: {}",
                named.join(", ")
            ))
            .help(format!("choose one: --target {}", if named.contains(&host) { host } else { named[0] }))),
        }
    }

    /// Returns the registries on the disk that sources are replaced with.
    pub(crate) fn local_registries(&self) -> Vec<Utf8PathBuf> {
        self.folders_of_sources("local-registry")
    }

    /// Returns the folders of vendored packages that sources are replaced with.
    pub(crate) fn vendored_folders(&self) -> Vec<Utf8PathBuf> {
        self.folders_of_sources("directory")
    }

    fn folders_of_sources(&self, key: &str) -> Vec<Utf8PathBuf> {
        let of_layer = |layer: &Layer| {
            let sources = layer.document.get("source").and_then(Item::as_table_like);
            let folders = sources.into_iter().flat_map(|sources| {
                sources.iter().filter_map(|(_, source)| source.get(key)?.as_str().map(str::to_owned))
            });
            folders.map(|folder| layer.base.join(folder)).collect::<Vec<_>>()
        };
        let folders = self.layers.iter().flat_map(of_layer);
        folders.filter_map(|folder| Utf8PathBuf::from_path_buf(folder).ok()).collect()
    }

    /// Returns the texts of all layers.
    pub(crate) fn documents(&self) -> impl Iterator<Item = &DocumentMut> {
        self.layers.iter().map(|layer| &layer.document)
    }

    /// Returns `build.target-dir`.
    pub fn target_directory(&self) -> Option<PathBuf> {
        let (base, item) = self.find(&["build", "target-dir"])?;
        Some(base.join(item.as_str()?))
    }

    /// Returns the arguments that keep cargo's intermediate files in the target folder, if `build.build-dir` puts them
    /// elsewhere. Before Rust 1.91, cargo does not know the key.
    pub(crate) fn build_directory_arguments(&self, toolchain: &Toolchain, target: &Utf8Path) -> Vec<String> {
        const FIRST: i64 = 91;
        let is_known = toolchain.minor().is_none_or(|minor| minor >= FIRST);
        if !is_known || self.find(&["build", "build-dir"]).is_none() {
            return Vec::new();
        }
        vec!["--config".to_owned(), format!("build.build-dir={:?}", target.as_str())]
    }

    /// Returns the user's runner for a target, with the program first: by its triple, else by the
    /// first `cfg(…)` that holds.
    pub fn runner(&self, triple: &str, cfgs: &[Cfg]) -> Option<Vec<String>> {
        let keys = ["target", triple, "runner"];
        if let Some((base, item)) = find_in(&self.layers[..self.from_command_line], &keys) {
            return words(base, item);
        }
        if let Ok(value) = std::env::var(crate::cargo::command::runner_variable(triple)) {
            return Some(value.split_whitespace().map(ToOwned::to_owned).collect());
        }
        if let Some((base, item)) = self.find(&keys) {
            return words(base, item);
        }
        self.conditional(triple, cfgs, "runner").find_map(|(base, item)| words(base, item))
    }

    /// Whether `rustflags` are set for a target. Cargo then takes them, and not those of `build`.
    pub(crate) fn has_flags_of_target(&self, triple: &str, cfgs: &[Cfg]) -> bool {
        self.find(&["target", triple, "rustflags"]).is_some()
            || self.conditional(triple, cfgs, "rustflags").next().is_some()
    }

    /// The values of a key in the tables `target.'cfg(…)'` that hold.
    fn conditional(&self, triple: &str, cfgs: &[Cfg], key: &str) -> impl Iterator<Item = (&Path, &Item)> {
        self.tables_of_targets().filter_map(move |(base, name, target)| {
            let platform = Platform::from_str(name).ok()?;
            let holds = matches!(platform, Platform::Cfg(_)) && platform.matches(triple, cfgs);
            Some((base, target.get(key).filter(|_| holds)?))
        })
    }

    /// Whether a key of a target depends on a `cfg(…)`, so that [`Self::runner`] and
    /// [`Self::has_flags_of_target`] need the compiler's.
    pub(crate) fn is_conditional(&self, key: &str) -> bool {
        self.tables_of_targets()
            .any(|(_, name, target)| name.starts_with("cfg(") && target.get(key).is_some())
    }

    fn tables_of_targets(&self) -> impl Iterator<Item = (&Path, &str, &Item)> {
        self.layers.iter().flat_map(|layer| {
            let targets = layer.document.get("target").and_then(Item::as_table_like);
            let targets = targets.into_iter().flat_map(|targets| targets.iter());
            targets.map(|(name, target)| (layer.base.as_path(), name, target))
        })
    }

    fn find(&self, keys: &[&str]) -> Option<(&Path, &Item)> {
        find_in(&self.layers, keys)
    }
}

/// The text of a file of the configuration, or of an argument.
pub(crate) struct Source {
    /// `None` for an argument.
    path: Option<PathBuf>,
    /// What paths in it are relative to.
    base: PathBuf,
    pub text: String,
}

impl Source {
    /// Reads a file. As with `.cargo/config.toml`, paths are relative to the folder above the file's folder.
    pub fn of_file(path: PathBuf) -> std::io::Result<Self> {
        let text = followed::text(&path)?;
        let folder = path.parent().unwrap_or(&path);
        let base = folder.parent().unwrap_or(folder).to_owned();
        Ok(Self { base, text, path: Some(path) })
    }

    /// Returns what `--config` names: a file, or else the argument itself.
    pub fn of_argument(directory: &Utf8Path, argument: &str) -> std::io::Result<Self> {
        let file = directory.join(argument);
        if file.is_file() {
            return Self::of_file(file.into());
        }
        Ok(Self { path: None, base: directory.into(), text: argument.to_owned() })
    }

    /// Returns this text and those of the files that it includes, directly or not, the strongest first: this one, and
    /// then the others from the last to the first. What cannot be read is left out, and cargo says so.
    pub fn with_included(self) -> Vec<Self> {
        let mut all = Vec::new();
        let mut seen = HashSet::new();
        let mut rest = vec![self];
        while let Some(source) = rest.pop() {
            let place = source.path.as_ref().map(|path| fs_err::canonicalize(path).unwrap_or(path.clone()));
            if !seen.insert(place) {
                continue;
            }
            let folder = source.path.as_deref().and_then(Path::parent).unwrap_or(&source.base);
            let paths = included(&source.text).into_iter().map(|path| folder.join(path));
            rest.extend(paths.filter_map(|path| Self::of_file(path).ok()));
            all.push(source);
        }
        all
    }
}

/// Returns the paths of `include = ["a.toml", { path = "b.toml", optional = true }]`.
fn included(text: &str) -> Vec<String> {
    let Ok(document) = text.parse::<DocumentMut>() else { return Vec::new() };
    let Some(include) = document.get("include") else { return Vec::new() };
    let items = (0_usize..).map_while(|index| include.get(index));
    let paths = items.filter_map(|item| item.as_str().or_else(|| item.get("path")?.as_str()));
    paths.map(str::to_owned).collect()
}

fn find_in<'a>(layers: &'a [Layer], keys: &[&str]) -> Option<(&'a Path, &'a Item)> {
    layers.iter().find_map(|layer| {
        let item = keys.iter().try_fold(layer.document.as_item(), |item, key| item.get(key))?;
        Some((layer.base.as_path(), item))
    })
}

/// Replaces cargo's word for the host with the host's triple.
fn of_host(target: String, host: &str) -> String {
    if target == "host-tuple" { host.to_owned() } else { target }
}

/// Returns cargo's arguments with our runner in place of a runner that `--config` sets for the
/// target. Such a runner would win over the variable that names ours. The path of ours has no whitespace.
pub(crate) fn with_runner(
    arguments: &[String],
    triple: &str,
    runner: &Utf8Path,
) -> anyhow::Result<Vec<String>> {
    let keys = ["target", triple, "runner"];
    let runner_in = |source: &Source| {
        let document = source.text.parse::<DocumentMut>().ok()?;
        keys.iter().try_fold(document.as_item(), |item, key| item.get(key)).cloned()
    };
    let mut kept = Vec::new();
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let Some(value) = rest.as_slice().first().filter(|_| argument == "--config") else {
            kept.push(argument.clone());
            continue;
        };
        rest.next();
        let source = Source::of_argument(Utf8Path::new(""), value)?;
        if source.path.is_none() && runner_in(&source).is_some() {
            continue;
        }
        kept.extend([argument.clone(), value.clone()]);
        // An older cargo that ignores `include` takes our runner from here, too.
        if let Some(of_file) = source.with_included().iter().find_map(runner_in) {
            // The last runner wins, as long as both are strings or both are lists.
            let ours = format!("{:?}", runner.as_str());
            let ours = if of_file.is_array() { format!("[{ours}]") } else { ours };
            kept.extend([argument.clone(), format!("target.{triple}.runner={ours}")]);
        }
    }
    Ok(kept)
}

/// Returns `$CARGO_HOME`, else `~/.cargo`.
pub(crate) fn home() -> Option<PathBuf> {
    let set = std::env::var_os("CARGO_HOME").filter(|home| !home.is_empty()).map(PathBuf::from);
    set.or_else(|| Some(etcetera::home_dir().ok()?.join(".cargo")))
}

/// Returns the path of a program. With a slash, it is relative to `base`; without one, `PATH` has
/// it.
fn program(base: &Path, text: &str) -> PathBuf {
    if text.contains('/') { base.join(text) } else { PathBuf::from(text) }
}

fn words(base: &Path, item: &Item) -> Option<Vec<String>> {
    let mut words: Vec<String> = match item.as_array() {
        Some(array) => {
            array.iter().map(|word| word.as_str().map(ToOwned::to_owned)).collect::<Option<_>>()?
        }
        None => item.as_str()?.split_whitespace().map(ToOwned::to_owned).collect(),
    };
    let first = words.first_mut()?;
    *first = program(base, first).to_string_lossy().into_owned();
    Some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> (tempfile::TempDir, CargoConfig) {
        let folder = tempfile::tempdir().unwrap();
        let path = Utf8Path::from_path(folder.path()).unwrap();
        fs_err::create_dir(path.join(".cargo")).unwrap();
        fs_err::write(path.join(".cargo/config.toml"), text).unwrap();
        let config = CargoConfig::read(path, &[], Includes::Followed).unwrap();
        (folder, config)
    }

    #[test]
    fn a_wrapper_with_a_slash_is_relative_to_the_folder_above_dot_cargo() {
        let (folder, config) = config("[build]\nrustc-workspace-wrapper = \"tools/wrap.sh\"");
        assert_eq!(config.workspace_wrapper(), Some(folder.path().join("tools/wrap.sh")));
    }

    #[test]
    fn the_triple_wins_over_a_cfg() {
        let (_folder, config) = config(
            "[target.'cfg(unix)']\nrunner = ['env', 'A=1']\n[target.x86_64-unknown-linux-gnu]\nrunner = 'env B=2'",
        );
        let unix = [Cfg::from_str("unix").unwrap()];
        assert_eq!(config.runner("x86_64-unknown-linux-gnu", &unix).unwrap(), ["env", "B=2"]);
        assert_eq!(config.runner("aarch64-unknown-linux-gnu", &unix).unwrap(), ["env", "A=1"]);
        assert_eq!(config.runner("x86_64-pc-windows-msvc", &[]), None);
        assert!(config.is_conditional("runner") && !config.is_conditional("rustflags"));
    }

    #[test]
    fn flags_of_a_target_are_those_of_its_triple_or_of_a_cfg_that_holds() {
        let triple = "x86_64-unknown-linux-gnu";
        let unix = [Cfg::from_str("unix").unwrap()];
        let has = |text: &str| config(text).1.has_flags_of_target(triple, &unix);
        assert!(has("[target.x86_64-unknown-linux-gnu]\nrustflags = '-g'"));
        assert!(has("[target.'cfg(unix)']\nrustflags = ['-g']"));
        assert!(!has("[target.'cfg(windows)']\nrustflags = ['-g']\n[build]\nrustflags = ['-g']"));
    }

    #[test]
    fn a_runner_of_the_command_line_does_not_reach_cargo_and_is_ours_to_call() {
        let triple = "x86_64-unknown-linux-gnu";
        let setting = format!("target.{triple}.runner = 'env A=1'");
        let arguments = ["test", "--config", &setting, "--config", "net.retry=1"].map(ToOwned::to_owned);
        let ours = Utf8Path::new("/ours");
        assert_eq!(with_runner(&arguments, triple, ours).unwrap(), ["test", "--config", "net.retry=1"]);
        let (folder, _) = config("[target.x86_64-unknown-linux-gnu]\nrunner = 'env B=2'");
        let path = Utf8Path::from_path(folder.path()).unwrap();
        let config = CargoConfig::read(path, std::slice::from_ref(&setting), Includes::Followed).unwrap();
        assert_eq!(config.runner(triple, &[]).unwrap(), ["env", "A=1"]);

        let file = path.join("runner.toml");
        for (of_file, over_it) in [("'env A=1'", "\"/ours\""), ("['env', 'A=1']", "[\"/ours\"]")] {
            fs_err::write(&file, format!("target.{triple}.runner = {of_file}")).unwrap();
            let arguments = ["--config".to_owned(), file.to_string()];
            let over_it = format!("target.{triple}.runner={over_it}");
            let expected = ["--config", file.as_str(), "--config", &over_it];
            assert_eq!(with_runner(&arguments, triple, ours).unwrap(), expected);
        }
    }

    #[test]
    fn an_included_file_is_weaker_than_its_includer_and_than_those_after_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = Utf8Path::from_path(folder.path()).unwrap();
        fs_err::create_dir_all(path.join(".cargo/ci")).unwrap();
        for (name, text) in [
            (
                "config.toml",
                "include = ['a.toml', {path = 'ci/b.toml'}, {path = 'absent.toml', optional = true}]\n\
                 build.target = 'of-config'",
            ),
            (
                "a.toml",
                "build = {target = 'of-a', target-dir = 'of-a', rustc-wrapper = './a', \
                 rustc-workspace-wrapper = './a'}",
            ),
            ("ci/b.toml", "include = ['../c.toml']\nbuild = {target = 'of-b', target-dir = 'of-b'}"),
            (
                "c.toml",
                "include = ['config.toml']\nbuild = {target-dir = 'of-c', rustc-wrapper = './c'}\n\
                 target.x.runner = 'of-c'",
            ),
        ] {
            fs_err::write(path.join(".cargo").join(name), text).unwrap();
        }
        let config = CargoConfig::read(path, &[], Includes::Followed).unwrap();
        assert_eq!(config.build_target(None, "x").unwrap().unwrap(), "of-config");
        assert_eq!(config.target_directory(), Some(folder.path().join(".cargo/of-b")));
        assert_eq!(
            config.compiler_wrapper(),
            Some(folder.path().join(".cargo/ci/./c")),
            "as cargo does with `..`"
        );
        assert_eq!(config.workspace_wrapper(), Some(folder.path().join("./a")));
        assert_eq!(config.runner("x", &[]), Some(vec!["of-c".to_owned()]));
        let older = CargoConfig::read(path, &[], Includes::Ignored).unwrap();
        assert_eq!(older.runner("x", &[]), None);

        let file = path.join(".cargo/config.toml").into_string();
        let config = CargoConfig::read("/".into(), std::slice::from_ref(&file), Includes::Followed).unwrap();
        assert_eq!(
            find_in(&config.layers[..config.from_command_line], &["target", "x", "runner"])
                .unwrap()
                .1
                .as_str(),
            Some("of-c")
        );
        let ours = Utf8Path::new("/links/runner");
        let arguments = ["--config".to_owned(), file.clone()];
        let expected = ["--config", &file, "--config", "target.x.runner=\"/links/runner\""];
        assert_eq!(with_runner(&arguments, "x", ours).unwrap(), expected);
    }

    fn toolchain(release: &str) -> Toolchain {
        let version = format!("rustc {release}\nrelease: {release}\n");
        Toolchain { pinned: None, directory: "/".into(), version, clean_env: None }
    }

    #[test]
    fn intermediate_files_stay_in_the_target_folder_since_rust_1_91() {
        let arguments = |text: &str, release: &str| {
            config(text).1.build_directory_arguments(&toolchain(release), "/t".into()).join(" ")
        };
        let elsewhere = "build.build-dir = '{workspace-root}/elsewhere'";
        assert_eq!(arguments(elsewhere, "1.91.0"), "--config build.build-dir=\"/t\"");
        assert_eq!(arguments(elsewhere, "1.90.0"), "");
        assert_eq!(arguments("build.target-dir = 'elsewhere'", "1.95.0"), "");
    }

    #[test]
    fn included_files_are_read_since_rust_1_94() {
        let includes = |release: &str| Includes::of(&toolchain(release));
        assert_eq!([includes("1.93.1"), includes("1.94.0")], [Includes::Ignored, Includes::Followed]);
        assert_eq!(includes("1.96.0-nightly"), Includes::Followed);
    }

    #[test]
    fn paths_in_a_file_of_the_command_line_are_relative_to_the_folder_above_its_own() {
        let (folder, _) = config("");
        let path = Utf8Path::from_path(folder.path()).unwrap();
        fs_err::create_dir(path.join("ci")).unwrap();
        fs_err::write(path.join("ci/cargo.toml"), "build.rustc-workspace-wrapper = 'tools/wrap.sh'").unwrap();
        let config = CargoConfig::read(path, &["ci/cargo.toml".to_owned()], Includes::Followed).unwrap();
        assert_eq!(config.workspace_wrapper(), Some(folder.path().join("tools/wrap.sh")));
    }

    #[test]
    fn what_is_built_for_is_said_by_the_command_line_the_environment_or_a_file() {
        let host = "x86_64-unknown-linux-gnu";
        let of = |text: &str, variable: Option<&str>| {
            config(text)
                .1
                .build_target(variable.map(ToOwned::to_owned), host)
                .map_err(|error| error.rendered())
        };
        let musl = "x86_64-unknown-linux-musl";
        let in_file = format!("build.target = '{musl}'");
        assert_eq!(of("", None), Ok(None));
        assert_eq!(of(&in_file, None), Ok(Some(musl.to_owned())));
        assert_eq!(of(&format!("build.target = ['{musl}']"), Some("")), Ok(Some(musl.to_owned())));
        assert_eq!(of("build.target = 'host-tuple'", None), Ok(Some(host.to_owned())));
        assert_eq!(of(&in_file, Some(host)), Ok(Some(host.to_owned())));
        let several = of(&format!("build.target = ['{musl}', '{host}']"), None).unwrap_err();
        assert!(several.contains(&format!("choose one: --target {host}")), "{several}");

        let (folder, _) = config(&in_file);
        let path = Utf8Path::from_path(folder.path()).unwrap();
        let config =
            CargoConfig::read(path, &["build.target = 'described.json'".to_owned()], Includes::Followed)
                .unwrap();
        let described = config.build_target(Some(musl.to_owned()), host).unwrap().unwrap();
        assert_eq!(Path::new(&described), folder.path().join("described.json"));
    }

    #[test]
    fn the_command_line_wins_over_files() {
        let (folder, _) = config("[build]\nrustc-workspace-wrapper = 'from-file'");
        let path = Utf8Path::from_path(folder.path()).unwrap();
        let config = CargoConfig::read(
            path,
            &["build.rustc-workspace-wrapper='from-line'".to_owned()],
            Includes::Followed,
        )
        .unwrap();
        assert_eq!(config.workspace_wrapper(), Some("from-line".into()));
    }
}
