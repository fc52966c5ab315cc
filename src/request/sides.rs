//! Settings of single sides: those of flags such as `--with new:serde@1.0.200`, and the files that
//! they name.

use crate::arguments::cargo::CargoArguments;
use crate::arguments::request::RequestArguments;
use crate::arguments::sides::{SideArguments, split};
use crate::arguments::values::Variable;
use crate::request::cargo_options;
use crate::request::refs::ref_name;
use crate::request::side_paths::{located, lockfile};
use crate::request::surroundings::Surroundings;
use memprof_plan::dependency_change::DependencyChange;
use memprof_plan::request::{BaselineRequest, RefRequest};
use memprof_support::user_error::UserError;

/// The words for the baseline and for the candidate.
const WORDS: [&str; 2] = ["old", "new"];

/// A setting of one side.
#[derive(Clone, Debug, PartialEq)]
struct Sided {
    side: String,
    /// The flag as it was written, for messages.
    written: String,
    setting: Setting,
}

#[derive(Clone, Debug, PartialEq)]
enum Setting {
    With(DependencyChange),
    Lockfile(String),
    Features(String),
    NoDefaultFeatures,
    Toolchain(String),
    Profile(String),
    Variable(Variable),
    Config(String),
}

/// The settings of single sides, and the flags without them.
pub struct SidedFlags {
    /// The flags that hold for every ref.
    pub common: RequestArguments,
    /// The dependencies of every ref.
    pub with: Vec<DependencyChange>,
    sided: Vec<Sided>,
}

impl SidedFlags {
    /// Separates the settings of single sides from those of every ref.
    pub fn from_arguments(arguments: &RequestArguments) -> Result<Self, UserError> {
        let mut flags = Self { common: arguments.clone(), with: Vec::new(), sided: Vec::new() };
        for text in &arguments.sides.with {
            let (side, change) = split(text, &['@', '=']);
            let change: DependencyChange =
                change.parse().map_err(|error| UserError::new(format!("--with {text}: {error}")))?;
            match side {
                Some(side) => flags.push(side, "--with", text, Setting::With(change)),
                None => flags.with.push(change),
            }
        }
        for text in &arguments.sides.lockfile {
            let (side, file) = text
                .split_once('=')
                .filter(|(side, file)| !side.is_empty() && !file.is_empty())
                .ok_or_else(|| {
                    UserError::new(format!("--lockfile {text}: which side gets this lock file?")).help(
                        format!(
                            "write --lockfile new={text}\nfor refs without a lock file: --lockfile-from REF"
                        ),
                    )
                })?;
            flags.push(side, "--lockfile", text, Setting::Lockfile(file.to_owned()));
        }
        let build = &arguments.build;
        flags.common.build.features = flags.take("--features", &build.features, Setting::Features);
        flags.common.build.toolchain = flags.take("--toolchain", &build.toolchain, Setting::Toolchain);
        flags.common.build.profile = flags.take("--profile", &build.profile, Setting::Profile);
        flags.common.build.no_default_features.retain(String::is_empty);
        for side in build.no_default_features.iter().filter(|side| !side.is_empty()) {
            flags.push(side, "--no-default-features", side, Setting::NoDefaultFeatures);
        }
        let (own, env): (Vec<_>, Vec<_>) =
            arguments.environment.env.iter().cloned().partition(|variable| variable.side.is_some());
        flags.common.environment.env = env;
        for variable in own {
            let side = variable.side.clone().unwrap_or_default();
            let written = format!("{side}:{}", variable.name);
            flags.push(&side, "--env", &written, Setting::Variable(variable));
        }
        flags.take_config(arguments);
        Ok(flags)
    }

    fn push(&mut self, side: &str, flag: &str, text: &str, setting: Setting) {
        self.sided.push(Sided { side: side.to_owned(), written: format!("{flag} {text}"), setting });
    }

    fn take(&mut self, flag: &str, texts: &[String], setting: fn(String) -> Setting) -> Vec<String> {
        let mut common = Vec::new();
        for text in texts {
            match split(text, &[]) {
                (Some(side), value) => self.push(side, flag, text, setting(value.to_owned())),
                (None, _) => common.push(text.clone()),
            }
        }
        common
    }

    /// A setting for cargo may be a path with a colon, so only known sides count.
    fn take_config(&mut self, arguments: &RequestArguments) {
        let is_known = |side: &str| {
            WORDS.contains(&side)
                || arguments.refs.refs.iter().any(|one| ref_name(one) == side || one.spec == side)
        };
        let mut common = Vec::new();
        for text in &arguments.build.config {
            match split(text, &['=']) {
                (Some(side), value) if is_known(side) => {
                    self.push(side, "--config", text, Setting::Config(value.to_owned()));
                }
                _ => common.push(text.clone()),
            }
        }
        self.common.build.config = common;
    }

    /// Gives the refs their settings. One ref alone becomes two sides, if a setting is for one of them.
    ///
    /// # Errors
    /// A side that is no ref.
    pub fn apply(
        &self,
        refs: &mut Vec<RefRequest>,
        baseline: &BaselineRequest,
        surroundings: Surroundings<'_>,
    ) -> Result<(), UserError> {
        let Some(first) = self.sided.first() else { return Ok(()) };
        if self.common.refs.aa {
            return Err(UserError::new(format!(
                "{} and --aa, which compares a ref with itself",
                first.written
            ))
            .help("leave out one of them"));
        }
        if refs.is_empty() {
            refs.push(RefRequest { spec: ".".to_owned(), ..RefRequest::default() });
        }
        if let BaselineRequest::Ref(name) = baseline
            && !refs.iter().any(|one| ref_name(one) == name || one.spec == *name)
        {
            refs.insert(0, RefRequest { spec: name.clone(), ..RefRequest::default() });
        }
        if let ([one], BaselineRequest::First | BaselineRequest::Ref(_)) = (refs.as_slice(), baseline) {
            let name = if ref_name(one) == WORDS[1] { "new (2)" } else { WORDS[1] };
            refs.push(RefRequest { name: Some(name.to_owned()), ..one.clone() });
        }
        for sided in &self.sided {
            let index = sided.index(refs, baseline)?;
            sided.setting.give(&mut refs[index], surroundings)?;
        }
        Ok(())
    }
}

impl Sided {
    /// Returns the ref that a side is.
    fn index(&self, refs: &[RefRequest], baseline: &BaselineRequest) -> Result<usize, UserError> {
        let Self { side, written, .. } = self;
        let place_of = |name: &str| {
            let by_name = refs.iter().position(|one| ref_name(one) == name);
            by_name.or_else(|| refs.iter().position(|one| one.spec == name))
        };
        if let Some(index) = place_of(side) {
            return Ok(index);
        }
        let old = match baseline {
            BaselineRequest::First => Some(0),
            BaselineRequest::Ref(name) => place_of(name),
            BaselineRequest::MergeBase => None,
        };
        let names: Vec<&str> = refs.iter().map(ref_name).collect();
        match (WORDS.iter().position(|word| word == side), old) {
            (Some(0), None) => {
                Err(UserError::new(format!("{written}: the merge base is not one of the refs"))
                    .help("write it as a ref: cargo memprof main...feature"))
            }
            (Some(0), Some(old)) => Ok(old),
            (Some(_), old) => {
                let mut candidates = (0..refs.len()).filter(|index| Some(*index) != old);
                match (candidates.next(), candidates.next()) {
                    (Some(only), None) => Ok(only),
                    _ => Err(UserError::new(format!("{written}: there are several candidates"))
                        .help(format!("name one of the refs in place of `new`: {}", names.join(", ")))),
                }
            }
            (None, _) => Err(UserError::new(format!("{written}: '{side}' is none of the refs"))
                .help(format!("write `old`, `new`, or one of the refs: {}", names.join(", ")))),
        }
    }
}

impl Setting {
    fn give(&self, one: &mut RefRequest, surroundings: Surroundings<'_>) -> Result<(), UserError> {
        match self.clone() {
            Self::With(change) => {
                one.with.retain(|known| (&known.package, &known.from) != (&change.package, &change.from));
                one.with.push(located(change, surroundings.current));
            }
            Self::Lockfile(text) => one.lockfile = Some(lockfile(&text, surroundings.current, surroundings)),
            Self::Features(text) => {
                let features = cargo_options::features(&[text]);
                let new = features.into_iter().filter(|feature| !one.features.contains(feature));
                one.features.extend(new.collect::<Vec<_>>());
            }
            Self::NoDefaultFeatures => one.no_default_features = true,
            Self::Toolchain(name) => one.toolchain = Some(name),
            Self::Profile(name) => one.profile = Some(name),
            Self::Variable(variable) => {
                one.env.insert(variable.name, variable.value);
            }
            Self::Config(text) => {
                one.config.push(cargo_options::setting(text, surroundings.current, surroundings)?);
            }
        }
        Ok(())
    }
}

/// Returns the names of the variables that flags give to single sides. They win over those of tests.
pub fn variables(flags: &SidedFlags) -> impl Iterator<Item = &String> {
    flags.sided.iter().filter_map(|sided| match &sided.setting {
        Setting::Variable(variable) => Some(&variable.name),
        _ => None,
    })
}

/// Refuses settings of single sides for a command without sides.
pub fn refuse(arguments: &RequestArguments, command: &str) -> Result<(), UserError> {
    match SidedFlags::from_arguments(arguments)?.sided.first() {
        None => Ok(()),
        Some(sided) => Err(UserError::new(format!("{}: {command} measures every ref alike", sided.written))
            .help("leave out what stands before the colon, or compare: cargo memprof .")),
    }
}

/// Whether a flag for single sides was given, apart from variables and settings for cargo.
pub fn has_any(arguments: &RequestArguments) -> bool {
    let CargoArguments { features, toolchain, profile, no_default_features, .. } = &arguments.build;
    let lists = [features, toolchain, profile];
    arguments.sides != SideArguments::default()
        || lists.into_iter().flatten().any(|text| split(text, &[]).0.is_some())
        || no_default_features.iter().any(|side| !side.is_empty())
}
