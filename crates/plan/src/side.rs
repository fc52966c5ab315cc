//! What one ref is built with: its settings beside the common ones. A side of a comparison is a
//! revision and its settings.

use std::collections::BTreeMap;

use crate::dependency_change::DependencyChange;
use crate::request::{BuildOptions, RefRequest, Request};
use crate::side_lockfile::SideLockfile;

/// The settings of a ref, without its names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings<'a> {
    features: &'a [String],
    env: &'a BTreeMap<String, String>,
    toolchain: Option<&'a str>,
    with: &'a [DependencyChange],
    lockfile: Option<&'a SideLockfile>,
    no_default_features: bool,
    profile: Option<&'a str>,
    config: &'a [String],
}

/// Returns the settings of a ref. Two refs of one commit with equal settings are one build.
pub fn settings(one: &RefRequest) -> Settings<'_> {
    let RefRequest {
        spec: _,
        name: _,
        also: _,
        features,
        env,
        toolchain,
        with,
        lockfile,
        no_default_features,
        profile,
        config,
    } = one;
    Settings {
        features,
        env,
        toolchain: toolchain.as_deref(),
        with,
        lockfile: lockfile.as_ref(),
        no_default_features: *no_default_features,
        profile: profile.as_deref(),
        config,
    }
}

/// Whether a ref has settings of its own.
pub fn has_settings(one: &RefRequest) -> bool {
    settings(one) != settings(&RefRequest::default())
}

/// Returns cargo's options for a ref. `None` is one without an entry, as a merge base.
pub fn build_options(request: &Request, one: Option<&RefRequest>) -> BuildOptions {
    let common = request.build.clone();
    let Some(one) = one else { return common };
    BuildOptions {
        no_default_features: common.no_default_features || one.no_default_features,
        profile: one.profile.clone().or(common.profile),
        config: common.config.into_iter().chain(one.config.iter().cloned()).collect(),
        ..common
    }
}

/// Returns the dependencies that a ref is built with in place of its lock file's. Its own win over the
/// common ones.
pub fn dependencies(request: &Request, one: Option<&RefRequest>) -> Vec<DependencyChange> {
    let own = one.map(|one| one.with.clone()).unwrap_or_default();
    let is_own = |common: &DependencyChange| {
        own.iter().any(|own| own.package == common.package && own.from == common.from)
    };
    let common = request.with.iter().filter(|one| !is_own(one)).cloned();
    common.collect::<Vec<_>>().into_iter().chain(own).collect()
}

/// Returns how the settings of a ref differ from the baseline's, apart from dependencies, in words:
/// `feature arena`, `profile release instead of test`.
pub fn differences(request: &Request, old: &RefRequest, new: &RefRequest) -> Vec<String> {
    let mut words = Vec::new();
    let lacks = |of: &RefRequest, feature: &String| !of.features.contains(feature);
    words.extend(new.features.iter().filter(|one| lacks(old, one)).map(|one| format!("feature {one}")));
    words.extend(
        old.features.iter().filter(|one| lacks(new, one)).map(|one| format!("without feature {one}")),
    );
    match (old.no_default_features, new.no_default_features) {
        (false, true) => words.push("without default features".to_owned()),
        (true, false) => words.push("with default features".to_owned()),
        _ => {}
    }
    let [old_options, new_options] = [old, new].map(|one| build_options(request, Some(one)));
    let or = |text: Option<&String>, default: &str| text.map_or_else(|| default.to_owned(), Clone::clone);
    let mut instead = |what: &str, default: &str, sides: [Option<&String>; 2]| {
        let [old, new] = sides.map(|side| or(side, default));
        if old != new {
            words.push(format!("{what} {new} instead of {old}"));
        }
    };
    instead("profile", "test", [old_options.profile.as_ref(), new_options.profile.as_ref()]);
    let common = request.build.toolchain.as_ref();
    instead(
        "toolchain",
        "the default",
        [old.toolchain.as_ref().or(common), new.toolchain.as_ref().or(common)],
    );
    let names: std::collections::BTreeSet<&String> = old.env.keys().chain(new.env.keys()).collect();
    for name in names.into_iter().filter(|name| old.env.get(*name) != new.env.get(*name)) {
        words.push(match new.env.get(name) {
            Some(value) => format!("{name}={value}"),
            None => format!("without {name}"),
        });
    }
    words
        .extend(new.config.iter().filter(|one| !old.config.contains(one)).map(|one| format!("config {one}")));
    let without = old.config.iter().filter(|one| !new.config.contains(one));
    words.extend(without.map(|one| format!("without config {one}")));
    words
}

/// Returns [`differences`], and those of lock file and dependencies, as the user wrote them: `serde@1.0.200`,
/// `lock file newer.lock`. What they lead to is known once the lock files are resolved.
pub fn differences_with_dependencies(request: &Request, old: &RefRequest, new: &RefRequest) -> Vec<String> {
    let mut words = differences(request, old, new);
    let [old_with, new_with] = [old, new].map(|one| dependencies(request, Some(one)));
    words.extend(new_with.iter().filter(|one| !old_with.contains(one)).map(ToString::to_string));
    words.extend(old_with.iter().filter(|one| !new_with.contains(one)).map(|one| format!("without {one}")));
    match (&old.lockfile, &new.lockfile) {
        (old, Some(new)) if old.as_ref() != Some(new) => words.push(format!("lock file {}", new.written())),
        (Some(_), None) => words.push("its own lock file".to_owned()),
        _ => {}
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(changes: &[&str]) -> Vec<DependencyChange> {
        changes.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn the_settings_of_a_ref_win_over_the_common_ones() {
        let request = Request {
            build: BuildOptions {
                profile: Some("dev".into()),
                config: vec!["a=1".into()],
                ..BuildOptions::default()
            },
            with: with(&["serde@1.0.1", "rand@0.8.1"]),
            ..Request::default()
        };
        let one = RefRequest {
            profile: Some("release".into()),
            config: vec!["b=2".into()],
            no_default_features: true,
            with: with(&["serde@1.0.2"]),
            ..RefRequest::default()
        };
        let options = build_options(&request, Some(&one));
        assert_eq!((options.profile.as_deref(), options.no_default_features), (Some("release"), true));
        assert_eq!(options.config, ["a=1", "b=2"]);
        assert_eq!(dependencies(&request, Some(&one)), with(&["rand@0.8.1", "serde@1.0.2"]));
        assert_eq!(build_options(&request, None), request.build);
        assert_eq!(dependencies(&request, None), request.with);
        assert!(
            has_settings(&one) && !has_settings(&RefRequest { spec: "a".into(), ..RefRequest::default() })
        );
    }

    #[test]
    fn what_differs_is_said_in_words() {
        let old = RefRequest { features: vec!["simd".into()], ..RefRequest::default() };
        let new = RefRequest {
            features: vec!["arena".into()],
            profile: Some("release".into()),
            toolchain: Some("1.85".into()),
            no_default_features: true,
            env: [("POOL".to_owned(), "8".to_owned())].into(),
            config: vec!["build.rustflags=[]".into()],
            ..RefRequest::default()
        };
        let request = Request::default();
        assert_eq!(
            differences(&request, &old, &new),
            [
                "feature arena",
                "without feature simd",
                "without default features",
                "profile release instead of test",
                "toolchain 1.85 instead of the default",
                "POOL=8",
                "config build.rustflags=[]"
            ]
        );
        assert!(differences(&request, &old, &old).is_empty());
        let lockfile =
            crate::side_lockfile::SideLockfile::File { path: "/r/x.lock".into(), hash: String::new() };
        let one = RefRequest { with: with(&["serde@1.0.2"]), lockfile: Some(lockfile), ..old.clone() };
        assert_eq!(
            differences_with_dependencies(&request, &old, &one),
            ["serde@1.0.2", "lock file /r/x.lock"]
        );
        assert_eq!(
            differences_with_dependencies(&request, &one, &old),
            ["without serde@1.0.2", "its own lock file"]
        );
        assert_eq!(differences(&request, &new, &old).len(), 7);
    }
}
