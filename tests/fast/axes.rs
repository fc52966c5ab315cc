//! `axes` in `memprof.yaml`, with flags: which sides they make.

use camino::Utf8Path;
use cargo_memprof::arguments::request::RequestArguments;
use cargo_memprof::request::reconcile::reconcile;
use cargo_memprof::request::refs::RefsNeeded;
use cargo_memprof::request::surroundings::Surroundings;
use clap::Parser;
use memprof_plan::config::matrix;
use memprof_plan::request::{RefRequest, Request};

#[derive(Parser)]
struct Flags {
    #[command(flatten)]
    request: RequestArguments,
}

fn request(yaml: &str, flags: &str, needed: RefsNeeded) -> Result<Request, String> {
    let here = Utf8Path::new("/r");
    let exists = |path: &Utf8Path| path.extension() == Some("toml");
    let surroundings = Surroundings { repository: here, current: here, matrix: here, exists: &exists };
    let matrix = matrix::parse(yaml, "memprof.yaml".into()).map_err(|error| error.rendered())?;
    let arguments = Flags::try_parse_from(format!("x {flags}").split_whitespace()).unwrap().request;
    reconcile(&arguments, &matrix, surroundings, needed).map_err(|error| error.rendered())
}

fn named(yaml: &str, flags: &str) -> String {
    match request(yaml, flags, RefsNeeded::Usual) {
        Ok(request) => {
            let name = |one: &RefRequest| one.name.as_ref().unwrap_or(&one.spec).clone();
            request.refs.iter().map(name).collect::<Vec<_>>().join(", ")
        }
        Err(error) => error,
    }
}

#[test]
fn axes_without_refs_are_those_of_the_working_tree() {
    assert_eq!(named("axes: {features: [[], [simd]]}", ""), ". · no features, . · simd");
    assert_eq!(named("axes: {features: [[], [simd]]}", "--refs main"), "main · no features, main · simd");
}

#[test]
fn the_order_of_the_keys_does_not_change_a_name() {
    let one = "axes: {env: [{}, {A: 1, B: 2}], toolchain: [stable, beta]}";
    let other = "axes: {toolchain: [stable, beta], env: [{}, {B: 2, A: 1}]}";
    assert_eq!(
        named(one, ""),
        ". · stable · no variables, . · stable · A=1 B=2, . · beta · no variables, . · beta · A=1 B=2"
    );
    assert_eq!(named(one, ""), named(other, ""));
}

#[test]
fn each_key_names_its_values() {
    let of = |axis: &str| named(&format!("axes: {{{axis}}}"), "");
    assert_eq!(of("no-default-features: [false, true]"), ". · default features, . · no default features");
    assert_eq!(
        of("with: [[], [serde@1.0.2, rand@0.8.1]]"),
        ". · own dependencies, . · serde@1.0.2 rand@0.8.1"
    );
    assert_eq!(of("lockfile: [a.toml, main]"), ". · a.toml, . · main");
    assert_eq!(of("config: [[], [fast.toml, a.b=1]]"), ". · no config, . · fast.toml a.b=1");
    assert_eq!(of("features: [['a,b'], [c]]"), ". · a+b, . · c");
    let long = |end: &str| format!("{}{end}", "x".repeat(200));
    let names = of(&format!("profile: [{}, {}]", long("ax"), long("bx")));
    assert!(names.len() < 150, "{names}");
}

#[test]
fn a_flag_for_every_ref_wins_over_its_axis() {
    let yaml = "axes: {features: [[], [simd]], profile: [dev, release], env: [{A: 1}, {A: 2, B: 3}], \
                with: [[serde@1.0.1], [serde@1.0.2]], config: [[a.b=1], [a.b=2]]}";
    let all = named(yaml, "");
    assert_eq!(all.split(", ").count(), 32, "{all}");
    let fixed = "--with serde@1.0.9 --config a.b=3 --env A=9";
    assert_eq!(named(yaml, &format!("{fixed} --release --all-features")), ". · no variables, . · B=3");
    assert_eq!(named(yaml, &format!("{fixed} --env B=9 --profile bench")), ". · no features, . · simd");
    assert_eq!(named(yaml, &format!("{fixed} --env B=9 --features x --release")), ".");
    assert_eq!(named("axes: {toolchain: [a, b]}", "--toolchain c"), ".");
    assert_eq!(named("axes: {no-default-features: [true, false]}", "--no-default-features"), ".");
}

#[test]
fn flags_for_a_side_are_for_the_sides_of_a_ref() {
    let request =
        request("refs: [main, .]\naxes: {profile: [dev, release]}", "--features new:simd", RefsNeeded::Usual);
    let features: Vec<usize> = request.unwrap().refs.iter().map(|one| one.features.len()).collect();
    assert_eq!(features, [0, 0, 1, 1]);
    insta::assert_snapshot!(
        named("refs: [main, .]\naxes: {profile: [dev, release]}", "--profile new:bench"), @"
    error: axes: profile: the ref . has a `profile` of its own
      help: remove `profile` from this ref, or from `axes`
    "
    );
}

#[test]
fn the_same_ref_compared_with_itself_is_one_side_twice() {
    let yaml = "refs: [main]\nbaseline: simd\naxes: {features: [[], [simd]]}";
    assert_eq!(named(yaml, "--aa"), "main · simd, main · simd (2)");
    assert_eq!(
        named("axes: {features: [[], [simd]]}", "--refs main,main"),
        "main · no features, main · simd, main (2) · no features, main (2) · simd"
    );
}

#[test]
fn searches_and_test_take_no_axes() {
    let yaml = "axes: {features: [[], [simd]]}";
    for needed in [RefsNeeded::Alike, RefsNeeded::Comparison] {
        let request = request(yaml, "--refs main,x", needed).unwrap();
        assert_eq!((request.refs.len(), request.axes.len()), (2, 0));
    }
}

#[test]
fn filters_and_checkpoints_that_name_a_ref_are_about_its_sides() {
    let yaml = "refs: [{ref: main, name: old}, .]\naxes: {features: [[], [simd]]}\n\
                exclude: [{ref: old, test: hf}, {ref: '. · simd', test: fs}]\n\
                checkpoints-at: ['old:src/lib.rs:3=here', 'src/lib.rs:4=there']";
    let request = request(yaml, "", RefsNeeded::Usual).unwrap();
    let names: Vec<&str> = request.exclude.iter().filter_map(|one| one.r#ref.as_deref()).collect();
    assert_eq!(names, ["old · no features", "old · simd", ". · simd"]);
    let at: Vec<Option<&str>> = request.checkpoints_at.iter().map(|one| one.revision.as_deref()).collect();
    assert_eq!(at, [Some("old · no features"), Some("old · simd"), None]);
}

#[test]
fn a_secret_would_be_in_a_name() {
    insta::assert_snapshot!(named("axes: {env: [{API_TOKEN: abcdefgh1}, {API_TOKEN: abcdefgh2}]}", ""), @"
    error: axes: env: API_TOKEN looks like a secret, and the names of the sides would show its values
      help: write the sides under `refs`, each with a `name`
    ");
}
