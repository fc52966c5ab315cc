# Lists the recipes.
default:
    @just --list

# Checks format, lints and documentation, also of the shim in `templates/`.
check: && docs
    cargo fmt --all --check
    cargo clippy --all-targets -- -D warnings
    .ci/templates

# Runs the tests. Builds of candle and burn are left out.
test:
    cargo test

# Runs all tests, also those that build candle and burn (minutes).
test-all:
    cargo test -- --include-ignored

# Runs the benchmarks: the allocator, large reports, traces, false alarms.
bench:
    cargo bench

# Builds the documentation of the code. Warnings are errors.
docs:
    RUSTDOCFLAGS='-D warnings' cargo doc --no-deps
