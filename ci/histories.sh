#!/usr/bin/env bash
# Tries the tool on public histories of different kinds: the first command that the README suggests,
# on the commits before and after a known change. Prints a table in markdown.
#
#   ci/histories.sh                 all pairs (an hour or more on 2 cores)
#   ci/histories.sh bytes submodule only pairs whose kind or repository has one of these words
#
# If a command gives no verdict, the script pastes the first flag that its help names, and tries
# again. The column "attempts" counts the commands. The script fails if a pair has no verdict.
#
#   MEMPROF_MIRRORS  a folder with clones, as OWNER+NAME/repo; without it, from https://github.com
#   MEMPROF_PROGRAM  the program `cargo-memprof`; by default, `cargo memprof` finds it
#   MEMPROF_FOLDER   where the clones and the output of each pair go; by default a temporary folder,
#                    which is kept
#   MEMPROF_TIMEOUT  the limit of one command in seconds; 1800 by default
set -uo pipefail

# kind | repository | before | after | arguments
# The change that each pair shows is in the subject of the commit after.
pairs='
no_std library                  | tokio-rs/bytes         | 016fdbd~1   | 016fdbd   | -k put
own allocator                   | tokio-rs/bytes         | 3667543~1   | 3667543   | -k odd_alloc
edition 2015, no_std            | jeromefroe/lru-rs      | 4460158~1   | 4460158   | -k leaks
build script                    | serde-rs/json          | 513e5b2~1   | 513e5b2   | -k test_write_object
proc macro                      | dtolnay/thiserror      | 0a0e76c~1   | 0a0e76c   | -k test_braced
old, no lock file               | petgraph/petgraph      | 5e3a5b5b~1  | 5e3a5b5b  | -k tarjan_scc
toolchain file, slow to build   | petgraph/petgraph      | 5fdd192b~1  | 5fdd192b  | -k matching
autotests = false               | rust-lang/regex        | 930770b~1   | 930770b   | -k set
workspace member                | rust-lang/regex        | 17d9c1c~1   | 17d9c1c   | -p regex-syntax -k parse_flags
old, yanked dependencies        | coreylowman/dfdx       | 32f534b5~1  | 32f534b5  | -k dropout
virtual workspace, submodule    | huggingface/candle     | 455c42aa7~1 | 455c42aa7 | -p candle-core -k pool2d
no manifest at the root         | huggingface/tokenizers | 51a6e820~1  | 51a6e820  | --lib -k bpe
'

folder=${MEMPROF_FOLDER:-$(mktemp -d "${TMPDIR:-/tmp}/histories.XXXXXX")}
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
if [ -n "${MEMPROF_PROGRAM:-}" ]; then
    program=("$(realpath "$MEMPROF_PROGRAM")" memprof)
else
    program=(cargo memprof)
fi

trimmed() {
    local text=$1
    text=${text#"${text%%[![:space:]]*}"}
    printf '%s' "${text%"${text##*[![:space:]]}"}"
}

is_wanted() {
    local pair=$1 word
    shift
    [ $# -gt 0 ] || return 0
    for word in "$@"; do
        case $pair in *"$word"*) return 0 ;; esac
    done
    return 1
}

# Clones a repository into the folder, once.
provide() {
    local name=$1 clone=$folder/${1/\//+} source=https://github.com/$1
    [ -z "${MEMPROF_MIRRORS:-}" ] || source=$MEMPROF_MIRRORS/${name/\//+}/repo
    [ -d "$clone/.git" ] || git clone --quiet "$source" "$clone" >"$clone.log" 2>&1
}

# Prints the first flag with a value that the help of the log's error names, and that was not tried
# yet. Warnings have help, too.
flag_in() {
    local log=$1 tried=$2 flag
    sed -n '/^error/,$p' "$log" | grep -A3 -E '^ *(help|or):? ' | grep -oE -- '--(lockfile-date|lockfile-from|toolchain|manifest-path|package|sparse-exclude|test) [^ `,;)]+' |
        while read -r flag; do
            # A word in capitals is a placeholder.
            [[ ${flag##* } =~ ^[A-Z]+$ ]] && continue
            case $tried in *"${flag%% *}"*) continue ;; esac
            printf '%s' "$flag"
            break
        done
}

# Runs one pair, and prints its row.
try() {
    local kind=$1 name=$2 before=$3 after=$4 arguments=$5 attempts=0 code=0 verdict='' flag seconds=$SECONDS
    local log=$folder/${name/\//+}-${after//[^a-zA-Z0-9]/_}.log
    if ! provide "$name"; then
        verdict="no clone: $(tail -n 1 "$folder/${name/\//+}.log" | tr '|' '/')"
        # shellcheck disable=SC2016 # the backticks are markdown
        printf '| %s | %s | `cargo memprof %s %s %s` | 0 | | | %s |\n' \
            "$kind" "$name" "$before" "$after" "$arguments" "$verdict"
        return 1
    fi
    while [ "$attempts" -lt 3 ]; do
        attempts=$((attempts + 1))
        code=0
        # shellcheck disable=SC2086 # the arguments are split into words on purpose
        (cd "$folder/${name/\//+}" &&
            exec timeout "${MEMPROF_TIMEOUT:-1800}" "${program[@]}" "$before" "$after" $arguments) \
            >"$log" 2>&1 </dev/null || code=$?
        verdict=$(grep -m 1 '^memory: ' "$log" || true)
        # With a verdict, the command itself worked, whatever its tests did.
        case $code in 0 | 1 | 4) break ;; esac
        [ -z "$verdict" ] || break
        flag=$(flag_in "$log" "$arguments")
        [ -n "$flag" ] || break
        arguments="$arguments $flag"
    done
    [ "$code" -ne 124 ] || verdict="no end after ${MEMPROF_TIMEOUT:-1800} s"
    [ -n "$verdict" ] || verdict=$(grep -m 1 -E '^error' "$log" || tail -n 1 "$log")
    # shellcheck disable=SC2016 # the backticks are markdown
    printf '| %s | %s | `cargo memprof %s %s %s` | %s | %s s | %s | %s |\n' "$kind" "$name" "$before" "$after" \
        "$arguments" "$attempts" "$((SECONDS - seconds))" "$code" "$(printf '%s' "${verdict#memory: }" | tr '|' '/')"
    case $code in 0 | 1 | 4) ;; *) return 1 ;; esac
}

# Bash reads a script while it runs. A function is read first, so that an edit does no harm.
main() {
    local failed=0 kind name before after arguments
    echo '| kind | repository | command | attempts | time | exit code | verdict |'
    echo '| --- | --- | --- | --- | --- | --- | --- |'
    while IFS='|' read -r kind name before after arguments; do
        [ -n "$name" ] || continue
        is_wanted "$kind $name" "$@" || continue
        try "$(trimmed "$kind")" "$(trimmed "$name")" "$(trimmed "$before")" "$(trimmed "$after")" \
            "$(trimmed "$arguments")" || failed=$((failed + 1))
    done <<<"$pairs"
    echo
    echo "output of each pair: $folder"
    [ "$failed" -eq 0 ] || echo "$failed without a verdict" >&2
    [ "$failed" -eq 0 ]
    exit
}

main "$@"
