//! The settings at the top of `memprof.yaml`, each defined once: its key, type, documentation and flag, and
//! what a plan keeps of it. `config::matrix` makes the keys of this list, and [`RunSettings`] and
//! [`BuildSettings`] are made of it here.

use indexmap::IndexMap;

use crate::jobs::Jobs;
use crate::pair_pattern::PairPattern;
use crate::random_numbers::RandomNumbers;
use crate::repeat::Repeat;

/// Gives the list to a macro.
macro_rules! settings {
    ($make:ident) => {
        $make! {
            /// What `cargo memprof` compares, and how. Flags win over it.
            #[schemars(extend("patternProperties" = {"^x-": true}))]
            pub struct Matrix keeps RunSettings and BuildSettings {
                /// The revisions to compare, in order
                "refs" => refs: List<RefEntry> as "`--refs`",
                /// Compare the other refs with this one, or with their `merge-base` [default: the first ref]
                "baseline" => baseline: Scalar<String>
                    = Flag::new(Section::Refs, "baseline", "REF|merge-base").of(COMPARISONS),
                /// Settings with several values; each combination of them makes a side of each ref
                "axes" => axes: AxesEntry,
                /// Fetch pr/N and mr/N from this remote [default: upstream if it exists, else origin]
                "remote" => remote: Scalar<String> = Flag::new(Section::Refs, "remote", "NAME")
                    => kept.remote: Option<String>,
                /// Patterns for kinds of ref, tried before the built-in ones: `{'cl/{}': 'refs/changes/{}/head'}`
                "refspecs" => refspecs: OpenMapping<Scalar<Refspec>>
                    => kept.refspecs: IndexMap<String, String>,
                /// The tests to run: `-k` expressions, or mappings with further keys [default: all tests]
                "tests" => tests: List<TestEntry> as "`-k` and others",
                /// Files from another ref or from disk that are added to every revision
                "overlay" => overlay: OneOrMany<OverlayEntry> as "`--overlay`",
                /// Put a checkpoint before a line: src/lib.rs:42=loaded
                ///
                /// For one ref: `main:src/lib.rs:40=loaded`. In a dependency: `serde_json/src/de.rs:2100=parsed`
                "checkpoints-at" => checkpoints_at: List<Scalar<Parsed<CheckpointAt>>>
                    = Flag::new(Section::Checkout, "checkpoint-at", "[REF:]FILE:LINE=LABEL"),
                /// Whether a test file that only one ref has is put into the others [default: true]
                "auto-overlay" => auto_overlay: Scalar<bool> as "`--no-auto-overlay`",
                /// Leave out these cells: ref=main,test=hf,batch=64
                "exclude" => exclude: List<CellEntry> = Flag::new(Section::Cells, "exclude", "CELL"),
                /// Run only these cells: test=hf,batch=8
                "include" => include: List<CellEntry> = Flag::new(Section::Cells, "include", "CELL"),
                /// Compare two implementations within one ref, test by test: `hf_*=fs_*`
                ///
                /// The tests of the left pattern are the baselines. The star stands for the same text in both
                /// names.
                "pairs" => pairs: List<Scalar<Parsed<PairPattern>>>
                    = Flag::new(Section::Cells, "pair", "PATTERN=PATTERN").of(COMPARISONS)
                    => kept.pairs: Vec<PairPattern>,
                /// Measure N times, or `auto`: as often as the verdict needs [default: auto]
                "repeat" => repeat: Scalar<Repeat>
                    = Flag::new(Section::Cells, "repeat", "N|auto").of(COMPARISONS | NOTEBOOK)
                    => kept.repeat: Repeat,
                /// Run all tests, also those whose code is the same at all refs
                ///
                /// Without it, such tests are counted in the report and not run (docs/same-code.md).
                "run-all" => run_all: Scalar<bool> = Flag::switch(Section::Cells, "run-all").of(COMPARISONS)
                    => kept.run_all: bool,
                /// Run only the tests that a change can reach
                ///
                /// A test is left out if its functions and constants, and all that these use, are the same at all refs
                /// (docs/same-code.md). Needs Linux on x86-64 and the linker lld, which Rust brings.
                "affected" => affected: Scalar<bool> = Flag::switch(Section::Cells, "affected").of(COMPARISONS).without("run-all")
                    => build.affected: bool,
                /// Kill a run after this time: 90s, 10m [default: no limit]
                "timeout" => timeout: Scalar<Seconds> = Flag::new(Section::Cells, "timeout", "DURATION").and(NOTEBOOK)
                    => kept.timeout_seconds: Option<u64>,
                /// Wait this long between two test processes: 2s, 500ms
                "delay" => delay: Scalar<Delay> = Flag::new(Section::Cells, "delay", "DURATION")
                    => kept.delay_milliseconds: Option<u64>,
                /// Random numbers of the tests: the same for all refs, or each process its own [default: same]
                "random" => random: Scalar<RandomNumbers> = Flag::new(Section::Cells, "random", "same|own")
                    => kept.#[serde(default = "RandomNumbers::of_earlier_plans")] random: RandomNumbers,
                /// Before each reading, release memory that pools and C's malloc hold and nobody uses
                ///
                /// Resident memory then has less that was freed. It costs time at each checkpoint and scope.
                "trim" => trim: Scalar<bool> = Flag::switch(Section::Cells, "trim")
                    => kept.trim: bool,
                /// Run N tests at once, or one per processor [default: exact]
                ///
                /// `exact` is one per processor, and tests that allocate in several threads run alone: their figures
                /// may depend on the tests beside them. `auto` also runs those beside others. --jobs N also limits
                /// cargo's build jobs.
                "jobs" => jobs: Scalar<Jobs> = Flag::new(Section::Run, "jobs", "N|auto|exact").short('j')
                    => kept.jobs: Jobs,
                /// Spread the tests over these GPUs of one model, one test per GPU at a time: 0,1 or `all`
                "devices" => devices: PoolNames
                    = Flag::new(Section::Run, "devices", "DEVICE,DEVICE|all").split().of(RUNS).without("device")
                    => kept.device_pool: Option<Vec<String>>,
                /// Build this package [default: cargo's default packages]
                "packages" => packages: List<Scalar<String>> = Flag::new(Section::Build, "package", "SPEC").short('p')
                    => build.packages: Vec<String>,
                /// Build the whole workspace
                "workspace" => workspace: Scalar<bool>
                    = Flag::switch(Section::Build, "workspace").alias("all-packages").without("package")
                    => build.workspace: bool,
                /// Cargo's build profile, such as `release` [default: that of `cargo test`]
                "profile" => profile: Scalar<String> as "`--profile`, `--release`",
                /// Cargo features for every ref
                "features" => features: List<Scalar<String>> as "`-F`, `--features`",
                /// Enable all features
                "all-features" => all_features: Scalar<bool> = Flag::switch(Section::Build, "all-features")
                    => build.all_features: bool,
                /// Whether to build without the default features
                "no-default-features" => no_default_features: Scalar<bool> as "`--no-default-features`",
                /// Build for this target [default: cargo's choice]
                "target" => target: Scalar<String> = Flag::new(Section::Build, "target", "TRIPLE")
                    => build.target: Option<String>,
                /// Build packages that ask for a newer compiler in their `rust-version`
                "ignore-rust-version" => ignore_rust_version: Scalar<bool>
                    = Flag::switch(Section::Build, "ignore-rust-version")
                    => build.ignore_rust_version: bool,
                /// Variables of every build and run
                "env" => env: OpenMapping<Scalar<Value>> as "`--env`",
                /// Let builds and tests inherit only known variables, and no secrets
                ///
                /// Use this for code that you do not trust, such as pull requests from forks.
                "clean-env" => clean_env: Scalar<bool> = Flag::switch(Section::Environment, "clean-env").and(NOTEBOOK),
                /// With clean-env, inherit this variable too, with `*` for any part of its name
                "keep-env" => keep_env: List<Scalar<String>>
                    = Flag::new(Section::Environment, "keep-env", "NAME").and(NOTEBOOK),
                /// The rustup toolchain for every ref: nightly, 1.85.0
                "toolchain" => toolchain: Scalar<String> as "`--toolchain`",
                /// How much metrics may grow, how large they may be, and how much memory tests may leave behind
                "thresholds" => thresholds: OpenMapping<Rules> as "`--threshold`, `--limit`, `--leak`",
                /// Read from this file how large each metric may be at each checkpoint; `cargo memprof budget
                /// write` writes it
                "budget" => budget: Scalar<String> = Flag::new(Section::Verdicts, "budget", "FILE").of(JUDGES),
                /// Changes that are expected
                "allow" => allow: List<AllowEntry> as "`--allow`",
                /// Where revisions without a lock file get one from
                "lockfile" => lockfile: LockfileEntry,
                /// Dependencies for every ref in place of its lock file's: `serde@1.0.200`
                "with" => with: List<Scalar<Parsed<DependencyChange>>> as "`--with`",
                /// Leave these paths out of the checkouts, in .gitignore syntax
                "sparse-exclude" => sparse_exclude: List<Scalar<String>>
                    = Flag::new(Section::Checkout, "sparse-exclude", "PATTERN")
                    => kept.sparse_exclude: Vec<String>,
                /// Do not use the network
                "offline" => offline: Scalar<bool> = Flag::switch(Section::Build, "offline").and(NOTEBOOK)
                    => build.offline: bool,
                /// Do not change any lock file
                "locked" => locked: Scalar<bool> = Flag::switch(Section::Build, "locked")
                    => build.locked: bool,
                /// Settings for cargo, as for its `--config`: `KEY=VALUE`, or the path of a file
                "config" => config: List<Scalar<String>> as "`--config`",
                /// Functions to measure in every revision
                "trace" => trace: TraceEntry,
                /// Show these metrics: heap.peak,cpu.rss
                "metrics" => metrics: List<Scalar<MetricName>>
                    = Flag::new(Section::Output, "metrics", "NAME,NAME").split().of(REPORTS),
            }
        }
    };
}
pub(crate) use settings;

/// Makes the structs that a plan keeps: of the entries with `=> kept.FIELD: TYPE`, and of those with `=> build.`
macro_rules! kept {
    (
        $(#[$about:meta])*
        pub struct $name:ident keeps $kept:ident and $build:ident {
            $(
                $(#[doc = $doc:literal])* $key:literal => $field:ident: $type:ty
                    $(as $typed:literal)? $(= $flag:expr)?
                    $(=> kept.$(#[$serde:meta])* $kept_field:ident: $kept_type:ty)?
                    $(=> build.$build_field:ident: $build_type:ty)?,
            )*
        }
    ) => {
        /// The settings that a plan keeps as they are, for all tests.
        #[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(default)]
        pub struct $kept {
            $($( #[doc = concat!("The key `", $key, "`.")] $(#[$serde])* pub $kept_field: $kept_type, )?)*
        }

        /// Cargo's options that a plan keeps as they are.
        #[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        #[serde(default)]
        pub struct $build {
            $($( #[doc = concat!("The key `", $key, "`.")] pub $build_field: $build_type, )?)*
        }
    };
}
settings!(kept);
