#!/usr/bin/env bash
# Gets cargo-memprof for a CI job: a release's binary, or one built from the sources beside this script.
#
#   install.sh sources     prints the hash of the sources that the program is built from
#   install.sh key         prints what a build depends on: the sources, rustc and the system
#   install.sh release     installs the binary of the release with these sources; exits with 1 if there
#                          is none, and with 2 if its checksum is wrong
#   install.sh build       builds the program and installs it
#
# A release of version 1.2.3 has the files cargo-memprof-v1.2.3-TARGET.tar.gz and .tar.gz.sha256, as
# ci/release.sh writes them.
#
#   MEMPROF_TOOL       the folder to install into; the program is bin/cargo-memprof in it
#   MEMPROF_RELEASES   where the releases are: https://github.com/OWNER/NAME/releases/download
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# In this folder, a toolchain file of the user's workspace does not count.
cd "$root"

fail() {
    echo "install.sh: $*" >&2
    exit 2
}

# Says why there is no binary to download.
none() {
    echo "install.sh: $*" >&2
    exit 1
}

sha256() {
    if command -v sha256sum >/dev/null; then sha256sum; else shasum -a 256; fi
}

sources() {
    # The sources embed templates/ and fixtures/demo.
    find Cargo.toml Cargo.lock src crates templates fixtures/demo -type f -print0 | LC_ALL=C sort -z |
        while IFS= read -r -d '' file; do
            printf '%s\n' "$file"
            sha256 <"$file"
        done | sha256 | cut -d ' ' -f 1
}

key() {
    # The image and the C library decide whether a binary starts.
    local system
    system="$(uname -sm) ${ImageOS:-} $(getconf GNU_LIBC_VERSION 2>/dev/null || true)"
    { sources && rustc -vV && echo "$system"; } | sha256 | cut -c 1-32
}

download() {
    curl --fail --silent --show-error --location --proto '=https,file' --proto-redir '=https' \
        --retry 2 --connect-timeout 10 --max-time 300 --output "$2" "$1"
}

release() {
    [ -n "${MEMPROF_TOOL:-}" ] || fail 'MEMPROF_TOOL is not set'
    [ -n "${MEMPROF_RELEASES:-}" ] || none 'there is no address of releases'
    local version host name work expected actual program
    version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)
    host=$(rustc -vV | sed -n 's/^host: //p')
    name=cargo-memprof-v$version-$host
    work=$(mktemp -d)
    # shellcheck disable=SC2064 # the folder is known now
    trap "rm -rf '$work'" EXIT
    # The checksum comes first: without it, the archive is useless.
    local file
    for file in "$name.tar.gz.sha256" "$name.tar.gz"; do
        download "$MEMPROF_RELEASES/v$version/$file" "$work/$file" || none "no release for this machine: $file"
    done
    expected=$(head -c 64 "$work/$name.tar.gz.sha256")
    actual=$(sha256 <"$work/$name.tar.gz" | cut -d ' ' -f 1)
    [ "$actual" = "$expected" ] || fail "the checksum of $name.tar.gz is wrong: $actual, not $expected
help: the release is damaged; to build the program instead, set the action's input: install: build"
    tar -xzf "$work/$name.tar.gz" -C "$work" "$name/cargo-memprof" "$name/sources" 2>/dev/null ||
        none "$name.tar.gz lacks cargo-memprof or sources"
    # A branch or a commit has the version of an older release, with other sources.
    [ "$(cat "$work/$name/sources")" = "$(sources)" ] || none "the release v$version has other sources than $root"
    program=$work/$name/cargo-memprof
    "$program" --version >/dev/null || none "the binary of the release v$version does not start here"
    mkdir -p "$MEMPROF_TOOL/bin"
    install -m 755 "$program" "$MEMPROF_TOOL/bin/cargo-memprof"
    echo "install.sh: installed the release v$version for $host" >&2
}

build() {
    [ -n "${MEMPROF_TOOL:-}" ] || fail 'MEMPROF_TOOL is not set'
    cargo install --locked --path "$root" --root "$MEMPROF_TOOL"
}

case ${1:-} in
    sources | key | release | build) "$1" ;;
    *) fail "unknown step '${1:-}': use sources, key, release or build" ;;
esac
