//! Axes: settings with several values. Each ref becomes a side for each combination of values.

use std::collections::{BTreeMap, BTreeSet};

use crate::axis_labels::AxisLabels;
use crate::dependency_change::DependencyChange;
use crate::request::{BaselineRequest, RefRequest, Request};
use crate::side;
use crate::side_lockfile::SideLockfile;
use memprof_support::counted::{counted, grouped};
use memprof_support::suggest;
use memprof_support::user_error::UserError;

/// The most sides that axes may make. Each is a build, and is compared with the baseline.
pub(crate) const MOST_SIDES: usize = 100;

/// Stands between the parts of a side's name.
pub const SEPARATOR: &str = " · ";

/// A setting with several values.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// The key in memprof.yaml.
    pub key: &'static str,
    /// The values, in the order written. Never empty.
    pub values: Vec<AxisValue>,
}

/// One value of an axis.
#[derive(Clone, Debug, PartialEq)]
pub struct AxisValue {
    /// The part of a side's name, which no other value of the axis has.
    pub label: String,
    /// What it sets.
    pub setting: AxisSetting,
}

/// What a value of an axis sets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AxisSetting {
    Toolchain(String),
    /// Cargo's profile.
    Profile(String),
    /// Whether the default features are left out.
    NoDefaultFeatures(bool),
    /// Features in addition to the others.
    Features(Vec<String>),
    /// Dependencies in place of the lock file's.
    With(Vec<DependencyChange>),
    /// The lock file.
    Lockfile(SideLockfile),
    /// Settings for cargo.
    Config(Vec<String>),
    /// Variables.
    Env(BTreeMap<String, String>),
}

/// The axes of a request, in the order in which they name sides.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Axes(pub Vec<Axis>);

/// The values of a side, one per axis.
type Combination<'a> = Vec<&'a AxisValue>;

impl Axes {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the axes with more than one value, for reports.
    pub fn labels(&self) -> Vec<AxisLabels> {
        let labels = |axis: &Axis| AxisLabels {
            key: axis.key.to_owned(),
            values: axis.values.iter().map(|value| value.label.clone()).collect(),
        };
        self.varying().map(labels).collect()
    }

    fn varying(&self) -> impl Iterator<Item = &Axis> {
        self.0.iter().filter(|axis| axis.values.len() > 1)
    }

    /// Returns all combinations. The last axis changes fastest.
    fn combinations(&self) -> Vec<Combination<'_>> {
        let mut all: Vec<Combination> = vec![Vec::new()];
        for axis in &self.0 {
            let mut extended = Vec::new();
            for combination in all {
                extended.extend(axis.values.iter().map(|value| {
                    let mut longer = combination.clone();
                    longer.push(value);
                    longer
                }));
            }
            all = extended;
        }
        all
    }

    /// Returns what a combination adds to a name: the values that are not the same on all sides.
    fn label(&self, combination: &Combination<'_>) -> String {
        let values = self.0.iter().zip(combination).filter(|(axis, _)| axis.values.len() > 1);
        values.map(|(_, value)| value.label.as_str()).collect::<Vec<_>>().join(SEPARATOR)
    }

    fn name(&self, one: &RefRequest, combination: &Combination<'_>) -> String {
        let label = self.label(combination);
        if label.is_empty() { name_of(one).to_owned() } else { format!("{}{SEPARATOR}{label}", name_of(one)) }
    }

    /// Refuses more sides than a comparison takes.
    ///
    /// # Errors
    /// The message says the number, and of what it is the product.
    fn check_number(&self, refs: usize) -> Result<(), UserError> {
        let numbers: Vec<usize> = self.varying().map(|axis| axis.values.len()).collect();
        let product = numbers.iter().fold(1_usize, |all, values| all.saturating_mul(*values));
        let sides = product.saturating_mul(refs);
        if sides <= MOST_SIDES || product == 1 {
            return Ok(());
        }
        let number = |number: usize| grouped(i128::try_from(number).unwrap_or(i128::MAX));
        let keys = self.varying().map(|axis| format!("{} of {}", axis.values.len(), axis.key));
        let parts = std::iter::once(counted(refs, "ref")).chain(keys).collect::<Vec<_>>().join(" × ");
        Err(UserError::new(format!(
            "axes: {parts} are {} sides, each a build of its own, and a comparison takes at most {MOST_SIDES}",
            number(sides)
        ))
        .help("remove values from `axes`, or fix an axis by its flag, such as --profile release"))
    }

    /// Finds the side that is the baseline: the ref, and the index of the combination.
    ///
    /// The baseline may be a ref, which means its first side; the name of a side, also with blanks in
    /// place of the separators; or a combination, which means this side of the first ref.
    ///
    /// # Errors
    /// A merge base, which is no ref, and a side that does not exist.
    pub fn baseline_of(
        &self,
        refs: &[RefRequest],
        baseline: &BaselineRequest,
    ) -> Result<(BaselineRequest, usize), UserError> {
        let text = match baseline {
            _ if self.is_empty() => return Ok((baseline.clone(), 0)),
            BaselineRequest::First => return Ok((BaselineRequest::First, 0)),
            BaselineRequest::MergeBase => {
                return Err(UserError::new(
                    "axes: the merge base is not one of the refs, so it has no sides",
                )
                .help("write the range as a ref, and no baseline: cargo memprof main...feature"));
            }
            BaselineRequest::Ref(text) => text,
        };
        if refs.iter().any(|one| name_of(one) == text || one.spec == *text) {
            return Ok((baseline.clone(), 0));
        }
        let plain = |name: &str| name.replace('·', " ").split_whitespace().collect::<Vec<_>>().join(" ");
        let combinations = self.combinations();
        for one in refs {
            let found = combinations.iter().position(|side| plain(&self.name(one, side)) == plain(text));
            if let Some(index) = found {
                return Ok((BaselineRequest::Ref(name_of(one).to_owned()), index));
            }
        }
        let found = combinations.iter().position(|side| plain(&self.label(side)) == plain(text));
        match (found, refs.first()) {
            (Some(index), Some(first)) => Ok((BaselineRequest::Ref(name_of(first).to_owned()), index)),
            _ if text.contains('·') => {
                let names = refs.iter().flat_map(|one| combinations.iter().map(|side| self.name(one, side)));
                let names: Vec<String> = names.collect();
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                Err(UserError::new(format!("baseline: no side has the name '{text}'"))
                    .help(suggest::did_you_mean_or_list(text, "sides", &names)))
            }
            _ => Ok((baseline.clone(), 0)),
        }
    }

    /// Replaces each ref by its sides, and the baseline by the side at this index of its ref. A baseline
    /// that is none of the refs is added as one.
    ///
    /// # Errors
    /// Too many sides, a ref with a setting of its own for an axis, and sides of one name.
    pub fn expand(
        &self,
        refs: &mut Vec<RefRequest>,
        baseline: &mut BaselineRequest,
        index: usize,
    ) -> Result<SidesOfRefs, UserError> {
        if self.is_empty() {
            return Ok(SidesOfRefs::default());
        }
        let place = |refs: &[RefRequest], name: &str| {
            let by_name = refs.iter().position(|one| name_of(one) == name);
            by_name.or_else(|| refs.iter().position(|one| one.spec == name))
        };
        if let BaselineRequest::Ref(name) = &*baseline
            && place(refs, name).is_none()
        {
            refs.insert(0, RefRequest { spec: name.clone(), ..RefRequest::default() });
        }
        self.check_number(refs.len())?;
        for one in refs.iter() {
            self.0.iter().try_for_each(|axis| axis.check_free(one))?;
        }
        let combinations = self.combinations();
        let sides = |one: &RefRequest| -> Vec<RefRequest> {
            combinations.iter().map(|combination| self.side(one, combination)).collect()
        };
        if let BaselineRequest::Ref(name) = baseline {
            let one = place(refs, name).unwrap_or_default();
            *name = self.name(&refs[one], &combinations[index]);
        }
        let groups: Vec<(RefRequest, Vec<RefRequest>)> =
            refs.iter().map(|one| (one.clone(), sides(one))).collect();
        *refs = groups.iter().flat_map(|(_, sides)| sides.clone()).collect();
        let mut taken = BTreeSet::new();
        if let Some(twice) = refs.iter().find(|one| !taken.insert(name_of(one))) {
            return Err(UserError::new(format!("axes: two sides have the name '{}'", name_of(twice)))
                .help("give the refs other names: {ref: main, name: before}"));
        }
        let names = |(one, sides): (RefRequest, Vec<RefRequest>)| {
            (name_of(&one).to_owned(), sides.iter().map(|side| name_of(side).to_owned()).collect())
        };
        Ok(SidesOfRefs(groups.into_iter().map(names).collect()))
    }

    fn side(&self, one: &RefRequest, combination: &Combination<'_>) -> RefRequest {
        let name = self.name(one, combination);
        let mut side = RefRequest { name: (name != one.spec).then_some(name), ..one.clone() };
        for value in combination {
            value.setting.give(&mut side);
        }
        side
    }
}

/// The names of each ref's sides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SidesOfRefs(Vec<(String, Vec<String>)>);

impl SidesOfRefs {
    /// Returns the names of the sides that the name of a ref stands for; the name itself if it is none.
    pub fn named(&self, name: &str) -> Vec<String> {
        let of = self.0.iter().find(|(one, _)| one == name);
        of.map_or_else(|| vec![name.to_owned()], |(_, sides)| sides.clone())
    }

    /// Refuses two sides of one ref that would be the same build and the same runs.
    ///
    /// # Errors
    /// The message names the two sides.
    pub fn check_distinct(&self, request: &Request) -> Result<(), UserError> {
        let of_name = |name: &String| request.refs.iter().find(|one| name_of(one) == name);
        for (_, names) in &self.0 {
            let mut seen: Vec<(&String, Effective)> = Vec::new();
            for one in names.iter().filter_map(of_name) {
                let effective = Effective::for_ref(request, one);
                let name = one.name.as_ref().unwrap_or(&one.spec);
                if let Some((first, _)) = seen.iter().find(|(_, known)| *known == effective) {
                    return Err(UserError::new(format!(
                        "axes: '{first}' and '{name}' are built and run alike, so they have nothing to compare"
                    ))
                    .help(
                        "remove one of the two values from `axes`, or what every side has at the top level of \
                         memprof.yaml",
                    ));
                }
                seen.push((name, effective));
            }
        }
        Ok(())
    }
}

/// What a side is built and run with, after all keys and flags.
#[derive(PartialEq)]
struct Effective {
    build: crate::request::BuildOptions,
    features: Option<BTreeSet<String>>,
    toolchain: Option<String>,
    with: BTreeSet<DependencyChange>,
    lockfile: Option<SideLockfile>,
    env: BTreeMap<String, String>,
}

impl Effective {
    fn for_ref(request: &Request, one: &RefRequest) -> Self {
        let build = side::build_options(request, Some(one));
        let features = one.features.iter().chain(&build.features).cloned().collect();
        let mut env = request.env.clone();
        env.extend(one.env.clone());
        Self {
            features: (!build.settings.all_features).then_some(features),
            toolchain: one.toolchain.clone().or_else(|| build.toolchain.clone()),
            with: side::dependencies(request, Some(one)).into_iter().collect(),
            lockfile: one.lockfile.clone(),
            env,
            build,
        }
    }
}

impl Axis {
    /// Refuses a ref with a setting of its own for this axis: one of the two would be without effect.
    fn check_free(&self, one: &RefRequest) -> Result<(), UserError> {
        let settings = || self.values.iter().map(|value| &value.setting);
        let own = match &self.values[0].setting {
            AxisSetting::Toolchain(_) => one.toolchain.is_some(),
            AxisSetting::Profile(_) => one.profile.is_some(),
            AxisSetting::NoDefaultFeatures(_) => one.no_default_features,
            AxisSetting::Lockfile(_) => one.lockfile.is_some(),
            AxisSetting::With(_) => settings().any(|setting| setting.replaces_any(&one.with)),
            AxisSetting::Env(_) => settings().any(|setting| setting.sets_any(&one.env)),
            // Features and `config` are lists, to which an axis adds.
            AxisSetting::Features(_) | AxisSetting::Config(_) => false,
        };
        if !own {
            return Ok(());
        }
        let (name, key) = (name_of(one), self.key);
        Err(UserError::new(format!("axes: {key}: the ref {name} has a `{key}` of its own"))
            .help(format!("remove `{key}` from this ref, or from `axes`")))
    }
}

impl AxisSetting {
    fn give(&self, one: &mut RefRequest) {
        match self.clone() {
            Self::Toolchain(name) => one.toolchain = Some(name),
            Self::Profile(name) => one.profile = Some(name),
            Self::NoDefaultFeatures(is_without) => one.no_default_features = is_without,
            Self::Features(features) => {
                let new = features.into_iter().filter(|feature| !one.features.contains(feature));
                let new: Vec<String> = new.collect();
                one.features.extend(new);
            }
            Self::With(changes) => one.with.extend(changes),
            Self::Lockfile(lockfile) => one.lockfile = Some(lockfile),
            Self::Config(settings) => one.config.extend(settings),
            Self::Env(variables) => one.env.extend(variables),
        }
    }

    fn replaces_any(&self, others: &[DependencyChange]) -> bool {
        let Self::With(changes) = self else { return false };
        let is_same = |one: &DependencyChange, other: &DependencyChange| {
            one.package == other.package && one.from == other.from
        };
        changes.iter().any(|one| others.iter().any(|other| is_same(one, other)))
    }

    fn sets_any(&self, others: &BTreeMap<String, String>) -> bool {
        let Self::Env(variables) = self else { return false };
        variables.keys().any(|name| others.contains_key(name))
    }
}

fn name_of(one: &RefRequest) -> &str {
    one.name.as_deref().unwrap_or(&one.spec)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::BuildOptions;

    fn value(label: &str, setting: AxisSetting) -> AxisValue {
        AxisValue { label: label.to_owned(), setting }
    }

    fn profiles(names: &[&str]) -> Axis {
        let values = names.iter().map(|name| value(name, AxisSetting::Profile((*name).to_owned())));
        Axis { key: "profile", values: values.collect() }
    }

    fn features(lists: &[&str]) -> Axis {
        let values = lists.iter().map(|list| {
            let features: Vec<String> = list.split_whitespace().map(str::to_owned).collect();
            let label = if features.is_empty() { "no features".to_owned() } else { features.join("+") };
            AxisValue { label, setting: AxisSetting::Features(features) }
        });
        Axis { key: "features", values: values.collect() }
    }

    fn refs(specs: &str) -> Vec<RefRequest> {
        let one = |spec: &str| match spec.split_once('=') {
            Some((name, spec)) => {
                RefRequest { spec: spec.into(), name: Some(name.into()), ..RefRequest::default() }
            }
            None => RefRequest { spec: spec.into(), ..RefRequest::default() },
        };
        specs.split_whitespace().map(one).collect()
    }

    /// Returns the names of the sides, and the baseline.
    fn expanded(axes: &Axes, specs: &str, baseline: &BaselineRequest) -> Result<String, String> {
        let mut refs = refs(specs);
        let result = axes.baseline_of(&refs, baseline).and_then(|(mut baseline, index)| {
            axes.expand(&mut refs, &mut baseline, index)?;
            Ok(baseline)
        });
        let names: Vec<&str> = refs.iter().map(name_of).collect();
        let baseline = match result.map_err(|error| error.rendered())? {
            BaselineRequest::Ref(name) => format!(" | {name}"),
            _ => String::new(),
        };
        Ok(format!("{}{baseline}", names.join(", ")))
    }

    fn both() -> Axes {
        Axes(vec![profiles(&["dev", "release"]), features(&["", "simd"])])
    }

    #[test]
    fn a_side_is_named_by_its_ref_and_by_what_differs() {
        let first = &BaselineRequest::First;
        assert_eq!(
            expanded(&both(), "main", first).unwrap(),
            "main · dev · no features, main · dev · simd, main · release · no features, main · release · simd"
        );
        let one_value = Axes(vec![profiles(&["release"]), features(&["", "simd"])]);
        assert_eq!(
            expanded(&one_value, "old=main .", first).unwrap(),
            "old · no features, old · simd, . · no features, . · simd"
        );
        let none = Axes(vec![profiles(&["release"])]);
        assert_eq!(expanded(&none, "main .", first).unwrap(), "main, .", "nothing varies");
        assert_eq!(expanded(&Axes::default(), "main .", first).unwrap(), "main, .");
        assert_eq!(both().labels()[1].values, ["no features", "simd"]);
        assert!(none.labels().is_empty());
    }

    #[test]
    fn a_side_has_the_settings_of_its_combination_and_of_its_ref() {
        let mut refs = refs("main");
        refs[0].features.push("base".to_owned());
        refs[0].env.insert("A".into(), "1".into());
        both().expand(&mut refs, &mut BaselineRequest::First, 0).unwrap();
        let settings: Vec<_> =
            refs.iter().map(|one| (one.profile.as_deref().unwrap(), one.features.join(" "))).collect();
        let expected = [("dev", "base"), ("dev", "base simd"), ("release", "base"), ("release", "base simd")];
        assert_eq!(settings, expected.map(|(profile, features)| (profile, features.to_owned())));
        assert!(refs.iter().all(|one| one.env["A"] == "1" && one.spec == "main"));
    }

    #[test]
    fn the_baseline_may_be_a_ref_a_side_or_a_combination() {
        let baseline = |text: &str| {
            let text = expanded(&both(), "main old=v1", &BaselineRequest::Ref(text.to_owned()))?;
            Ok::<_, String>(text.rsplit_once(" | ").unwrap().1.to_owned())
        };
        for (written, found) in [
            ("old", "old · dev · no features"),
            ("v1", "old · dev · no features"),
            ("main · release · simd", "main · release · simd"),
            ("old release simd", "old · release · simd"),
            ("dev · simd", "main · dev · simd"),
            ("other", "other · dev · no features"),
        ] {
            assert_eq!(baseline(written).unwrap(), found, "{written}");
        }
        insta::assert_snapshot!(baseline("main · release · smid").unwrap_err(), @"
        error: baseline: no side has the name 'main · release · smid'
          help: did you mean 'main · release · simd'?
        ");
        insta::assert_snapshot!(expanded(&both(), "main", &BaselineRequest::MergeBase).unwrap_err(), @"
        error: axes: the merge base is not one of the refs, so it has no sides
          help: write the range as a ref, and no baseline: cargo memprof main...feature
        ");
    }

    #[test]
    fn too_many_sides_are_refused_with_their_number() {
        let many: Vec<String> = (0..21).map(|number| format!("p{number}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let axes = Axes(vec![profiles(&many), features(&["", "simd"])]);
        insta::assert_snapshot!(expanded(&axes, "main . v1", &BaselineRequest::First).unwrap_err(), @"
        error: axes: 3 refs × 21 of profile × 2 of features are 126 sides, each a build of its own, and a comparison takes at most 100
          help: remove values from `axes`, or fix an axis by its flag, such as --profile release
        ");
        assert!(expanded(&axes, "main .", &BaselineRequest::First).is_ok());
        let huge = Axes(vec![profiles(&many); 20]);
        assert!(
            expanded(&huge, "main", &BaselineRequest::First).unwrap_err().contains("sides, each a build")
        );
    }

    #[test]
    fn a_setting_of_a_ref_and_an_axis_exclude_each_other() {
        let refused = |axis: Axis, one: RefRequest| {
            let mut refs = vec![RefRequest { spec: "main".into(), ..one }];
            let result = Axes(vec![axis]).expand(&mut refs, &mut BaselineRequest::First, 0);
            result.err().map(|error| error.rendered())
        };
        let profile = RefRequest { profile: Some("bench".into()), ..RefRequest::default() };
        insta::assert_snapshot!(refused(profiles(&["dev", "release"]), profile).unwrap(), @"
        error: axes: profile: the ref main has a `profile` of its own
          help: remove `profile` from this ref, or from `axes`
        ");
        let env = |name: &str| BTreeMap::from([(name.to_owned(), "1".to_owned())]);
        let variables = || Axis {
            key: "env",
            values: vec![
                value("no variables", AxisSetting::Env(BTreeMap::new())),
                value("A=1", AxisSetting::Env(env("A"))),
            ],
        };
        assert!(refused(variables(), RefRequest { env: env("A"), ..RefRequest::default() }).is_some());
        assert_eq!(refused(variables(), RefRequest { env: env("B"), ..RefRequest::default() }), None);
        let changes = |text: &str| vec![text.parse::<DependencyChange>().unwrap()];
        let with =
            || Axis { key: "with", values: vec![value("x", AxisSetting::With(changes("serde@1.0.2")))] };
        assert!(
            refused(with(), RefRequest { with: changes("serde@1.0.1"), ..RefRequest::default() }).is_some()
        );
        assert_eq!(
            refused(with(), RefRequest { with: changes("rand@0.8.1"), ..RefRequest::default() }),
            None
        );
    }

    #[test]
    fn two_sides_that_are_one_build_are_refused() {
        let check = |axes: Axes, build: BuildOptions| {
            let mut request = Request { refs: refs("main"), build, ..Request::default() };
            let sides = axes.expand(&mut request.refs, &mut BaselineRequest::First, 0).unwrap();
            sides.check_distinct(&request).map_err(|error| error.rendered())
        };
        let common = BuildOptions { features: vec!["simd".into()], ..BuildOptions::default() };
        insta::assert_snapshot!(check(both(), common.clone()).unwrap_err(), @"
        error: axes: 'main · dev · no features' and 'main · dev · simd' are built and run alike, so they have nothing to compare
          help: remove one of the two values from `axes`, or what every side has at the top level of memprof.yaml
        ");
        let mut all = BuildOptions::default();
        all.settings.all_features = true;
        assert!(check(Axes(vec![features(&["", "simd"])]), all).is_err());
        assert!(check(Axes(vec![features(&["a b", "b a"])]), BuildOptions::default()).is_err());
        assert_eq!(check(both(), BuildOptions::default()), Ok(()));
        assert_eq!(check(Axes(vec![features(&["", "arena"])]), common), Ok(()));
    }

    #[test]
    fn the_name_of_a_ref_stands_for_its_sides() {
        let mut refs = refs("old=main .");
        let axes = Axes(vec![features(&["", "simd"])]);
        let sides = axes.expand(&mut refs, &mut BaselineRequest::First, 0).unwrap();
        assert_eq!(sides.named("old"), ["old · no features", "old · simd"]);
        assert_eq!(sides.named("main"), ["main"]);
    }
}
