#!/usr/bin/env bash
# Builds the binary of a release and packs it, with its checksum, as ci/install.sh expects them.
#
#   release.sh FOLDER      writes FOLDER/cargo-memprof-vVERSION-TARGET.tar.gz and .tar.gz.sha256
#
# VERSION is that of Cargo.toml, and TARGET is this machine's.
set -euo pipefail

[ $# = 1 ] || { echo 'release.sh: name the folder for the archive' >&2; exit 2; }
mkdir -p "$1"
out=$(cd "$1" && pwd)
cd "$(dirname "${BASH_SOURCE[0]}")/.."

version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)
target=$(rustc -vV | sed -n 's/^host: //p')
name=cargo-memprof-v$version-$target

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cargo build --profile dist --locked --bin cargo-memprof
mkdir "$work/$name"
cp "${CARGO_TARGET_DIR:-target}/dist/cargo-memprof" README.md CHANGELOG.md LICENSE LICENSE-MIT LICENSE-APACHE "$work/$name"
# A commit of the same version may have other sources. `install.sh` takes this binary for these alone.
ci/install.sh sources >"$work/$name/sources"
tar -czf "$out/$name.tar.gz" -C "$work" "$name"
cd "$out"
if command -v sha256sum >/dev/null; then sha256sum "$name.tar.gz"; else shasum -a 256 "$name.tar.gz"; fi >"$name.tar.gz.sha256"
