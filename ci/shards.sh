#!/usr/bin/env bash
# Runs a comparison in shards on this machine, as a matrix of CI jobs does on several: builds an
# archive, runs each shard from it, and merges them. The exit code is that of the merged run.
#
#   ci/shards.sh COUNT [argument of `cargo memprof build`]...
#   ci/shards.sh 4 main HEAD -k decode
#
# MEMPROF   the program; `cargo-memprof` by default
set -euo pipefail

count=${1:?"how many shards? ci/shards.sh 4 main HEAD"}
shift
memprof=${MEMPROF:-cargo-memprof}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

"$memprof" build "$@" --archive "$scratch/memory.tar.zst"
shards=()
for shard in $(seq "$count"); do
    code=0
    "$memprof" run --archive "$scratch/memory.tar.zst" --shard "$shard/$count" \
        --run-folder "$scratch/shards/$shard" >"$scratch/$shard.txt" || code=$?
    # 1 is a regression, 3 a test that failed, 4 an unclear difference: the merged run gives the verdict.
    case $code in
        0 | 1 | 3 | 4) ;;
        *)
            cat "$scratch/$shard.txt"
            exit "$code"
            ;;
    esac
    shards+=("$scratch/shards/$shard")
done
"$memprof" merge "${shards[@]}"
