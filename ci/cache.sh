#!/usr/bin/env bash
# Carries the builds of cargo memprof from one CI job to the next, so that a job builds only what
# changed.
#
#   cache.sh key           prints `folder=`, `key=`, `lock=` and `any=`: what to keep, its key, and two
#                          prefixes of older keys: with the same lock file, and with any
#   cache.sh restore       after the folder was restored: makes git know the checkout in it
#   cache.sh save          before the folder is saved: keeps what git knows about the checkout, and
#                          removes builds if the folder is too large
#   cache.sh baseline      prints where the baseline of a push is kept, one for each workspace and its arguments; nothing
#                          before the first build
#
# The folder has one of its own for each repository: the checkout, cargo's target folder, the store
# of executables. Cargo goes by times of files. A fresh clone does not know the checkout, so the tool
# would write all its files again, and cargo would build every crate of the workspace again.
#
#   CARGO_MEMPROF_HOME   the folder; cargo-memprof in ~/.cache by default
#   MEMPROF_HEAD         the commit that is measured; HEAD by default
#   MEMPROF_ARGUMENTS    the arguments for `cargo memprof`; other arguments have another key and baseline
#   MEMPROF_CACHE_LIMIT  the most MiB to keep; 4096 by default
set -euo pipefail

home=${CARGO_MEMPROF_HOME:-${XDG_CACHE_HOME:-$HOME/.cache}/cargo-memprof}

short_hash() {
    if command -v sha256sum >/dev/null; then sha256sum; else shasum -a 256; fi | cut -c 1-16
}

key() {
    local head=${MEMPROF_HEAD:-HEAD} lock='' what
    head=$(git rev-parse "$head^{commit}")
    # That of this workspace, or of the repository's root.
    for lock in "$head:./Cargo.lock" "$head:Cargo.lock" ''; do
        [ -n "$lock" ] || break
        lock=$(git rev-parse --quiet --verify "$lock") && break
    done
    what=$({ rustc -vV && uname -sm && echo "${ImageOS:-}" && git rev-parse --show-prefix &&
        echo "${MEMPROF_ARGUMENTS:-}"; } | short_hash)
    echo "folder=$home"
    echo "any=memprof-1-$what-"
    echo "lock=memprof-1-$what-${lock:-none}-"
    echo "key=memprof-1-$what-${lock:-none}-$head"
}

# Prints the folder of this repository, if it exists.
folder() {
    local common file
    common=$(git rev-parse --path-format=absolute --git-common-dir)
    for file in "$home"/*/repository; do
        if [ -f "$file" ] && [ "$(cat "$file")" = "$common" ]; then
            dirname "$file"
            return
        fi
    done
}

# Copies what git knows about a checkout.
copy() {
    local file
    mkdir -p "$2/info"
    for file in HEAD index cargo-memprof cargo-memprof-conversion info/sparse-checkout; do
        if [ -f "$1/$file" ] && [ ! -L "$1/$file" ]; then
            cp "$1/$file" "$2/$file"
        fi
    done
}

restore() {
    local folder entries entry
    folder=$(folder)
    [ -n "$folder" ] && [ -d "$folder/entry" ] || return 0
    entries=$(git rev-parse --path-format=absolute --git-common-dir)/worktrees
    entry=$entries/worktree
    # A runner that keeps its clone still knows the checkout.
    [ ! -e "$entries" ] || return 0
    copy "$folder/entry" "$entry"
    # Written anew: the code that ran in the earlier job could have led git to settings of its own.
    echo ../.. >"$entry/commondir"
    echo "$folder/worktree/.git" >"$entry/gitdir"
    # Restored files have new inodes. Git compares their contents once, and notes those.
    git --git-dir="$entry" --work-tree="$folder/worktree" -c core.fsmonitor=false -c core.hooksPath=/dev/null \
        update-index -q --refresh >/dev/null || true
}

save() {
    local folder entry limit=${MEMPROF_CACHE_LIMIT:-4096} size
    folder=$(folder)
    [ -n "$folder" ] || return 0
    size=$(du -sm "$folder" | cut -f 1)
    if [ "$size" -gt "$limit" ]; then
        echo "cache.sh: $folder has $size MiB, more than $limit: the next job builds everything again" >&2
        rm -rf "$folder"/target* "$folder/store" "$folder/sources.json"
    fi
    rm -rf "$folder/entry"
    for entry in "$(git rev-parse --path-format=absolute --git-common-dir)"/worktrees/*/; do
        # Repositories of submodules would have to come along, so those checkouts are made again.
        if [ -f "$entry/gitdir" ] && [ "$(cat "$entry/gitdir")" = "$folder/worktree/.git" ] && [ ! -e "$entry/modules" ]; then
            copy "$entry" "$folder/entry"
        fi
    done
}

baseline() {
    local folder
    folder=$(folder)
    [ -z "$folder" ] || echo "$folder/baseline-$({ git rev-parse --show-prefix && echo "${MEMPROF_ARGUMENTS:-}"; } | short_hash)"
}

case ${1:-} in
    key | restore | save | baseline) "$1" ;;
    *)
        echo "cache.sh: unknown step '${1:-}': use key, restore, save or baseline" >&2
        exit 2
        ;;
esac
