//! The axes of memprof.yaml, without those that flags fix.

use std::collections::BTreeSet;

use crate::arguments::request::RequestArguments;
use crate::request::cargo_options;
use crate::request::side_paths::{located, lockfile};
use crate::request::surroundings::Surroundings;
use memprof_plan::axes::{Axes, Axis, AxisSetting, AxisValue, SidesOfRefs};
use memprof_plan::checkpoint_at::CheckpointAt;
use memprof_plan::config::axes::{AxesEntry, AxisValues, OnAxis};
use memprof_plan::config::keep::{Keep, kept};
use memprof_plan::config::yaml::Scalar;
use memprof_plan::dependency_change::DependencyChange;
use memprof_plan::request::{CellPattern, Request};
use memprof_support::labels;
use memprof_support::redaction;
use memprof_support::user_error::UserError;

/// A longer label would hide the others.
const MOST_OF_LABEL: usize = 40;

/// The flags that hold for every ref.
pub struct CommonFlags<'a> {
    /// All of them, without those of single sides.
    pub arguments: &'a RequestArguments,
    /// `--with`.
    pub with: &'a [DependencyChange],
}

/// Returns the axes of the file. A flag for every ref wins over the axis of its key.
///
/// # Errors
/// A secret, which would be in the names of sides, and a file of cargo's settings that does not exist.
pub fn axes(
    entry: Option<&AxesEntry>,
    flags: &CommonFlags<'_>,
    surroundings: Surroundings<'_>,
) -> Result<Axes, UserError> {
    let Some(entry) = entry else { return Ok(Axes::default()) };
    let mut axes: Vec<Axis> = fixed_by_flags(entry, flags)
        .into_iter()
        .chain(narrowed_by_flags(entry, flags, surroundings))
        .collect();
    axes.retain(|axis| !axis.values.is_empty());
    for value in axes.iter_mut().flat_map(|axis| &mut axis.values) {
        refuse_secret(&value.setting)?;
        locate(&mut value.setting, surroundings)?;
    }
    Ok(Axes(axes))
}

/// Returns the axes whose flag, for every ref, leaves none of their values.
fn fixed_by_flags(entry: &AxesEntry, flags: &CommonFlags<'_>) -> [Axis; 4] {
    let build = &flags.arguments.build;
    let fixes_features = !build.features.is_empty() || kept(flags.arguments.settings.all_features.as_ref());
    let fixes_profile = !build.profile.is_empty() || build.release;
    let plain = |setting: fn(String) -> AxisSetting| {
        move |Scalar(text): &Scalar<String>| (text.clone(), setting(text.clone()))
    };
    [
        axis(
            "toolchain",
            entry.toolchain.as_ref(),
            !build.toolchain.is_empty(),
            plain(AxisSetting::Toolchain),
        ),
        axis("profile", entry.profile.as_ref(), fixes_profile, plain(AxisSetting::Profile)),
        axis(
            "no-default-features",
            entry.no_default_features.as_ref(),
            !build.no_default_features.is_empty(),
            |Scalar(is_without)| {
                let label = if *is_without { "no default features" } else { "default features" };
                (label.to_owned(), AxisSetting::NoDefaultFeatures(*is_without))
            },
        ),
        axis("features", entry.features.as_ref(), fixes_features, |list| {
            let features = cargo_options::features(&list.keep());
            (joined(&features, "+", "no features"), AxisSetting::Features(features))
        }),
    ]
}

/// Returns the axes whose flag replaces only the package, the setting or the variable that it names.
fn narrowed_by_flags(
    entry: &AxesEntry,
    flags: &CommonFlags<'_>,
    surroundings: Surroundings<'_>,
) -> [Axis; 4] {
    let build = &flags.arguments.build;
    [
        axis("with", entry.with.as_ref(), false, |list| {
            let is_fixed = |one: &DependencyChange| flags.with.iter().any(|flag| flag.package == one.package);
            let written: Vec<DependencyChange> =
                Keep::<Vec<_>>::keep(list).into_iter().filter(|one| !is_fixed(one)).collect();
            let names: Vec<String> = written.iter().map(ToString::to_string).collect();
            let located = written.into_iter().map(|one| located(one, surroundings.matrix)).collect();
            (joined(&names, " ", "own dependencies"), AxisSetting::With(located))
        }),
        axis("lockfile", entry.lockfile.as_ref(), false, |Scalar(text)| {
            (text.clone(), AxisSetting::Lockfile(lockfile(text, surroundings.matrix, surroundings)))
        }),
        axis("config", entry.config.as_ref(), false, |list| {
            let key = |setting: &str| setting.split_once('=').map(|(key, _)| key.trim().to_owned());
            let fixed: BTreeSet<String> = build.config.iter().filter_map(|flag| key(flag)).collect();
            let is_free = |one: &String| key(one).is_none_or(|key| !fixed.contains(&key));
            let settings: Vec<String> = Keep::<Vec<_>>::keep(list).into_iter().filter(is_free).collect();
            (joined(&settings, " ", "no config"), AxisSetting::Config(settings))
        }),
        axis("env", entry.env.as_ref(), false, |mapping| {
            let mut variables = mapping.keep();
            let given = &flags.arguments.environment.env;
            variables.retain(|name, _| given.iter().all(|flag| flag.name != *name));
            let names: Vec<String> =
                variables.iter().map(|(name, value)| format!("{name}={value}")).collect();
            (joined(&names, " ", "no variables"), AxisSetting::Env(variables))
        }),
    ]
}

fn joined(parts: &[String], separator: &str, none: &str) -> String {
    if parts.is_empty() { none.to_owned() } else { parts.join(separator) }
}

/// Returns an axis with labels of its own for each value; without values if a flag fixes it.
fn axis<T: OnAxis>(
    key: &'static str,
    written: Option<&AxisValues<T>>,
    is_fixed: bool,
    value: impl Fn(&T) -> (String, AxisSetting),
) -> Axis {
    let written = written.into_iter().filter(|_| !is_fixed).flat_map(|AxisValues(values)| values);
    let mut values: Vec<AxisValue> = Vec::new();
    for (whole, setting) in written.map(value) {
        // Without what flags fix, two values may be the same.
        if values.iter().any(|known| known.setting == setting) {
            continue;
        }
        let label = labels::one_line(&whole).into_owned();
        let label = labels::cut(&label, MOST_OF_LABEL).into_owned();
        let is_taken = |label: &str| values.iter().any(|known| known.label == label);
        let numbered = (2..).map(|number| format!("{label} ({number})"));
        let label = std::iter::once(label.clone()).chain(numbered).find(|label| !is_taken(label));
        values.push(AxisValue { label: label.unwrap_or_default(), setting });
    }
    Axis { key, values }
}

/// Refuses a value that reports must not show.
fn refuse_secret(setting: &AxisSetting) -> Result<(), UserError> {
    let secret = match setting {
        AxisSetting::Env(variables) => variables
            .iter()
            .find(|(name, value)| redaction::value(name, value) != **value)
            .map(|(name, _)| format!("env: {name}")),
        AxisSetting::Config(settings) => {
            let mut settings = settings.iter();
            let secret = settings.find(|setting| redaction::setting(setting) != setting.as_str());
            secret.map(|setting| {
                format!("config: {}", setting.split_once('=').map_or("a setting", |(key, _)| key))
            })
        }
        AxisSetting::With(changes) => {
            let mut changes = changes.iter().map(|one| (one, one.to_string()));
            let secret = changes.find(|(_, text)| redaction::text(text) != text.as_str());
            secret.map(|(one, _)| format!("with: {}", one.package))
        }
        _ => None,
    };
    match secret {
        None => Ok(()),
        Some(what) => Err(UserError::new(format!(
            "axes: {what} looks like a secret, and the names of the sides would show its values"
        ))
        .help("write the sides under `refs`, each with a `name`")),
    }
}

/// Makes the paths of cargo's settings absolute.
fn locate(setting: &mut AxisSetting, surroundings: Surroundings<'_>) -> Result<(), UserError> {
    let AxisSetting::Config(settings) = setting else { return Ok(()) };
    for one in settings {
        *one = cargo_options::setting(std::mem::take(one), surroundings.matrix, surroundings)?;
    }
    Ok(())
}

/// Lets what names a ref name its sides: filters of cells, and checkpoints.
pub fn name_sides(request: &mut Request, sides: &SidesOfRefs) {
    for patterns in [&mut request.exclude, &mut request.include] {
        let named = |pattern: CellPattern| match &pattern.r#ref {
            None => vec![pattern],
            Some(name) => (sides.named(name).into_iter())
                .map(|name| CellPattern { r#ref: Some(name), ..pattern.clone() })
                .collect(),
        };
        *patterns = std::mem::take(patterns).into_iter().flat_map(named).collect();
    }
    let named = |one: CheckpointAt| match &one.revision {
        None => vec![one],
        Some(name) => (sides.named(name).into_iter())
            .map(|name| CheckpointAt { revision: Some(name), ..one.clone() })
            .collect(),
    };
    request.checkpoints_at =
        std::mem::take(&mut request.checkpoints_at).into_iter().flat_map(named).collect();
}
