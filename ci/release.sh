#!/usr/bin/env bash
# Builds the binary of a release and packs it, with its checksum, as ci/install.sh and cargo binstall expect them.
#
#   release.sh FOLDER [TARGET]   writes FOLDER/cargo-memprof-vVERSION-TARGET.tar.gz and .tar.gz.sha256
#
# VERSION is that of Cargo.toml. The program prints its completions and its manual page, so cargo must be able to run it:
# for another processor, CARGO_TARGET_…_RUNNER names an emulator. With cargo-auditable installed, the program names its
# dependencies: `cargo audit bin`.
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
cargo=(cargo)
if command -v cargo-auditable >/dev/null; then
    cargo+=(auditable)
else
    echo 'release.sh: cargo-auditable is not installed; the program does not name its dependencies' >&2
fi
options=(--profile dist --locked --bin cargo-memprof)
built=${CARGO_TARGET_DIR:-target}/dist
if [ "$target" != "$host" ]; then
    options+=(--target "$target")
    built=${CARGO_TARGET_DIR:-target}/$target/dist
fi
# A commit of the same version may have other sources. `install.sh` takes this program for these alone.
sources=$(ci/install.sh sources)
"${cargo[@]}" build "${options[@]}"
[ "$(ci/install.sh sources)" = "$sources" ] || { echo 'release.sh: the sources changed during the build' >&2; exit 1; }
memprof() { "${cargo[@]}" run --quiet "${options[@]}" -- memprof "$@"; }

mkdir -p "$work/$name/completions" "$work/$name/man"
cp "$built/cargo-memprof" README.md CHANGELOG.md LICENSE LICENSE-MIT LICENSE-APACHE "$work/$name"
memprof completions bash >"$work/$name/completions/cargo-memprof.bash"
memprof completions fish >"$work/$name/completions/cargo-memprof.fish"
memprof completions zsh >"$work/$name/completions/_cargo-memprof"
memprof man >"$work/$name/man/cargo-memprof.1"
# The licenses of the libraries in the program ask for their text beside it. Nothing of winhttp is compiled.
mkdir "$work/$name/licenses"
cargo tree --locked --target "$target" --edges normal,no-proc-macro --prefix none --format '{p}' |
    sed -n 's/^\([^ ]*\) v\([^ ]*\)$/\1-\2/p' | sort -u |
    while read -r library; do
        for folder in "${CARGO_HOME:-$HOME/.cargo}"/registry/src/*/"$library"; do
            cd "$folder/.."
            find "$library" -type f -iregex '.*/\(un\)?\(licen[cs]e\|copying\|copyright\|notice\)[^/]*' \
                ! -path '*/winhttp/*' -exec cp --parents -t "$work/$name/licenses" {} +
        done
    done
echo "$sources" >"$work/$name/sources"
tar -czf "$out/$name.tar.gz" -C "$work" "$name"
cd "$out"
if command -v sha256sum >/dev/null; then sha256sum "$name.tar.gz"; else shasum -a 256 "$name.tar.gz"; fi >"$name.tar.gz.sha256"
