#!/usr/bin/env bash
# Builds the binary of a release and packs it, with its checksum, as ci/install.sh and cargo binstall expect them.
#
#   release.sh FOLDER [TARGET]   writes FOLDER/cargo-memprof-vVERSION-TARGET.tar.gz and .tar.gz.sha256
#
# VERSION is that of Cargo.toml. TARGET is this machine's, or one whose programs run on it, such as musl's. With
# cargo-auditable installed, the program names its dependencies: `cargo audit bin`.
set -euo pipefail

[ $# = 1 ] || [ $# = 2 ] || { echo 'release.sh: name the folder for the archive' >&2; exit 2; }
mkdir -p "$1"
out=$(cd "$1" && pwd)
cd "$(dirname "${BASH_SOURCE[0]}")/.."

version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)
host=$(rustc -vV | sed -n 's/^host: //p')
target=${2:-$host}
name=cargo-memprof-v$version-$target

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
build=(build --profile dist --locked --bin cargo-memprof)
built=${CARGO_TARGET_DIR:-target}/dist
if [ "$target" != "$host" ]; then
    build+=(--target "$target")
    built=${CARGO_TARGET_DIR:-target}/$target/dist
fi
if command -v cargo-auditable >/dev/null; then
    build=(auditable "${build[@]}")
else
    echo 'release.sh: cargo-auditable is not installed; the program does not name its dependencies' >&2
fi
cargo "${build[@]}"

mkdir -p "$work/$name/completions" "$work/$name/man"
program=$work/$name/cargo-memprof
cp "$built/cargo-memprof" README.md CHANGELOG.md LICENSE LICENSE-MIT LICENSE-APACHE "$work/$name"
"$program" memprof completions bash >"$work/$name/completions/cargo-memprof.bash"
"$program" memprof completions fish >"$work/$name/completions/cargo-memprof.fish"
"$program" memprof completions zsh >"$work/$name/completions/_cargo-memprof"
"$program" memprof man >"$work/$name/man/cargo-memprof.1"
# A commit of the same version may have other sources. `install.sh` takes this binary for these alone.
ci/install.sh sources >"$work/$name/sources"
tar -czf "$out/$name.tar.gz" -C "$work" "$name"
cd "$out"
if command -v sha256sum >/dev/null; then sha256sum "$name.tar.gz"; else shasum -a 256 "$name.tar.gz"; fi >"$name.tar.gz.sha256"
