#!/usr/bin/env bash
# Compares the memory of a pull request with its merge base, and keeps a comment about it up to date.
#
#   memprof.sh compare     writes memory.md, memory.html, memory.json, memory.xml and memory.code;
#                          succeeds whenever there is a verdict
#   memprof.sh build       only builds MEMPROF_HEAD, so that later jobs find it in the cache; with
#                          MEMPROF_BASELINE, runs its tests, too
#   memprof.sh comment     posts memory.md to GitHub (gh, GH_TOKEN) or GitLab (curl, jq, GITLAB_TOKEN)
#   memprof.sh verdict     exits with the code in memory.code
#
# The steps exchange files. So a job that runs code of strangers needs no token, and the job that has
# the token runs no such code.
#
#   MEMPROF_BASE       the branch that the pull request is for, as git names it: origin/main
#   MEMPROF_HEAD       the pull request's commit; HEAD by default
#   MEMPROF_ARGUMENTS  more arguments for `cargo memprof`, separated by spaces. Quotes keep spaces, and are
#                      removed: -k 'hf or bert'. An argument with a backslash or a double quote needs
#                      single quotes around it: --regex '^codec::\d+$'
#   MEMPROF_CLEAN_ENV  `true` keeps this job's variables from builds and tests (--clean-env)
#   MEMPROF_BASELINE   `true` keeps the figures of a pushed commit in the cache. A pull request with this
#                      merge base runs its own side only. If the machines differ, both sides run.
#   MEMPROF_OUTPUT     the folder of the files; the current folder by default
#   MEMPROF_PULL       the number of the pull request
#   MEMPROF_REPOSITORY the repository: owner/name (GitHub), or its number (GitLab)
#   MEMPROF_HEAD_SHA   for `comment`: post only if the pull request is still at this commit
#   MEMPROF_AUTHOR     for `comment`: the author of the comment to update; github-actions[bot] by default
#   MEMPROF_MARKER     for `comment`: the first line of a comment that other tools write to, too, such as
#                      `<!-- ci-report -->`. Only this report's part of it is replaced.
#   MEMPROF_PAGE       for `comment`: where memory.html was uploaded; the comment links to it
#   MEMPROF_PASS       for `verdict`: codes besides 0 that succeed; '4' accepts inconclusive comparisons,
#                      and still fails if something is missing (3)
set -euo pipefail

marker='<!-- cargo-memprof -->'
end_marker='<!-- /cargo-memprof -->'
output=${MEMPROF_OUTPUT:-.}

fail() {
    echo "memprof.sh: $*" >&2
    exit 2
}

needed() {
    local name
    for name in "$@"; do
        [ -n "${!name:-}" ] || fail "$name is not set"
    done
}

# Splits MEMPROF_ARGUMENTS into the array `arguments`. xargs removes quotes and unquoted backslashes, and replaces
# no `*` by files.
split_arguments() {
    local argument
    arguments=()
    [[ ${MEMPROF_ARGUMENTS:-} == *[![:space:]]* ]] || return 0
    xargs printf '%s\0' <<<"$MEMPROF_ARGUMENTS" >/dev/null ||
        fail "MEMPROF_ARGUMENTS cannot be split into arguments: $MEMPROF_ARGUMENTS"
    while IFS= read -r -d '' argument; do
        arguments+=("$argument")
    done < <(xargs printf '%s\0' <<<"$MEMPROF_ARGUMENTS")
}

# Prints the flag for the baseline: memprof.yaml may have another one, which is for other comparisons.
baseline_flag() {
    case " ${MEMPROF_ARGUMENTS:-} " in *' --baseline'[=\ ]*) ;; *) echo "--baseline $1" ;; esac
}

# Runs a comparison of these refs with the ref `base`, and keeps its code.
measure() {
    local clean=''
    [ "${MEMPROF_CLEAN_ENV:-}" != true ] || clean=--clean-env
    rm -f "$output"/memory.{md,html,json,xml,code}
    code=0
    split_arguments
    # The table has a file, too, so that a file of MEMPROF_ARGUMENTS gets the format of its extension.
    # shellcheck disable=SC2046 # the flag and its value are two words
    cargo memprof "$@" $(baseline_flag base) ${clean:+"$clean"} \
        --output "$output/memory.md" --output "$output/memory.html" --output "$output/memory.json" \
        --output "$output/memory.xml" --output /dev/stdout --with-source \
        --format markdown --format html --format json --format junit --format table \
        ${arguments[@]+"${arguments[@]}"} || code=$?
}

# Prints where a baseline is kept in the cache.
baseline_folder() {
    [ "${MEMPROF_BASELINE:-}" != true ] || bash "$(dirname "${BASH_SOURCE[0]}")/cache.sh" baseline
}

# Whether a saved baseline is of no use: another machine or other settings, as the message says, or the pull request
# selects tests that it lacks, or has test files that cannot be put into it.
is_unfit() {
    if [ ! -s "$output/memory.md" ]; then
        [ "$code" = 2 ]
    else
        grep -q 'that the saved baseline [^"]* lacks, and cannot be put into it' "$output/memory.json" ||
            { [[ $code == [13] ]] && grep -q 'the saved baseline [^"]* did not run it' "$output/memory.json"; }
    fi
}

compare() {
    needed MEMPROF_BASE
    local head=${MEMPROF_HEAD:-HEAD} base kept code=0
    # A shallow clone may lack the merge base.
    # shellcheck disable=SC2153 # the caller sets it
    base=$(git merge-base "$MEMPROF_BASE" "$head") ||
        fail "no merge base of $MEMPROF_BASE and $head found; fetch the whole history (fetch-depth: 0)"
    head=$(git rev-parse "$head^{commit}")
    mkdir -p "$output"
    kept=$(baseline_folder)
    if [ -n "$kept" ] && [ "$(cat "$kept/commit" 2>/dev/null)" = "$base" ]; then
        measure --refs "base=$base,pull=$head" --baseline-run "$kept/run"
        ! is_unfit || measure --refs "base=$base,pull=$head"
    else
        measure --refs "base=$base,pull=$head"
    fi
    # Without a report there is nothing to post, so this step itself fails.
    [ -s "$output/memory.md" ] || exit "$code"
    echo "$code" >"$output/memory.code"
}

build() {
    local head clean='' code=0 saved kept
    [ "${MEMPROF_CLEAN_ENV:-}" != true ] || clean=--clean-env
    head=$(git rev-parse "${MEMPROF_HEAD:-HEAD}^{commit}")
    split_arguments
    if [ "${MEMPROF_BASELINE:-}" = true ]; then
        saved=$(cargo metadata --no-deps --format-version 1 | grep -o '"target_directory":"[^"]*"' | cut -d '"' -f 4)
        saved=$saved/memprof/baselines/ci
        rm -rf "$saved"
        # shellcheck disable=SC2046 # the flag and its value are two words
        cargo memprof --refs "base=$head" $(baseline_flag base) --save-baseline ci ${clean:+"$clean"} \
            ${arguments[@]+"${arguments[@]}"} || code=$?
        # Without a baseline, something did not build. Tests that fail are the pull requests' affair.
        [ -d "$saved" ] || exit "$((code ? code : 1))"
        kept=$(baseline_folder)
        [ -n "$kept" ] || fail "no cache of this repository"
        rm -rf "$kept"
        mkdir "$kept"
        mv "$saved" "$kept/run"
        echo "$head" >"$kept/commit"
        return
    fi
    # shellcheck disable=SC2046 # the flag and its value are two words
    cargo memprof build --refs "head=$head" $(baseline_flag head) ${clean:+"$clean"} \
        ${arguments[@]+"${arguments[@]}"}
}

# Prints one count of the JSON report's verdict, which is on a line of its own. Counts of tests with the
# same names follow it there.
answer() {
    sed -n '/^"verdict":{/p' "$output/memory.json" | grep -o "\"$1\":[0-9]*" | head -n 1 | cut -d : -f 2
}

# Succeeds if there is something to report: a change, an exceeded limit, or an incomplete comparison.
is_worth_a_comment() {
    local kind
    [ "$(cat "$output/memory.code")" = 0 ] || return 0
    for kind in regressed breaches expected improved; do
        [ "$(answer "$kind")" = 0 ] || return 0
    done
    return 1
}

comment() {
    needed MEMPROF_REPOSITORY MEMPROF_PULL
    case $MEMPROF_PULL in *[!0-9]*) fail "MEMPROF_PULL is not a number: $MEMPROF_PULL" ;; esac
    # The file may come from a job that ran code of a stranger.
    [ "$(head -n 1 "$output/memory.md")" = "$marker" ] || fail "$output/memory.md is not a report of cargo memprof"
    body=$output/memory.md
    if [ -n "${MEMPROF_PAGE:-}" ]; then
        case $MEMPROF_PAGE in
            https://*[[:space:]\(\)\<\>]*) fail "MEMPROF_PAGE is not a link: $MEMPROF_PAGE" ;;
            https://*) ;;
            *) fail "MEMPROF_PAGE is not a link: $MEMPROF_PAGE" ;;
        esac
        body=$output/comment.md
        { cat "$output/memory.md" && printf '\n[The page with charts and flame graphs](%s)\n' "$MEMPROF_PAGE"; } >"$body"
    fi
    first_line=$marker
    if [ -n "${MEMPROF_MARKER:-}" ]; then
        case $MEMPROF_MARKER in
            *$'\n'*) fail "MEMPROF_MARKER has more than one line" ;;
            '<!--'*'-->') first_line=$MEMPROF_MARKER ;;
            *) fail "MEMPROF_MARKER is not a comment in HTML: $MEMPROF_MARKER" ;;
        esac
        part=$output/part.md
        { cat "$body" && printf '%s\n' "$end_marker"; } >"$part"
        body=$output/shared.md
    fi
    [ -n "${part:-}" ] || is_short_enough
    if [ -n "${GITLAB_TOKEN:-}" ]; then
        comment_on_gitlab
    else
        comment_on_github
    fi
}

is_short_enough() {
    [ "$(wc -m <"$body")" -le 65536 ] ||
        fail "$body is too long for a comment (more than 65536 characters)"
}

# Reads a comment that other tools write to, too, or nothing, and writes it with the new part.
share() {
    [ -n "${part:-}" ] || return 0
    { if [ -n "$1" ]; then printf '%s\n' "$1"; else printf '%s\n' "$first_line"; fi; } |
        awk -v begin="$marker" -v end="$end_marker" -v part="$part" '
            function insert(line) { while ((getline line < part) > 0) print line; done = 1 }
            { sub(/\r$/, "") }
            $0 == begin { inside = 1; if (!done) insert(); next }
            inside { if ($0 == end) inside = 0; next }
            { print }
            END { if (!done) insert() }' >"$body"
    is_short_enough
}

comment_on_github() {
    local comments="repos/$MEMPROF_REPOSITORY/issues/$MEMPROF_PULL/comments" known head text=''
    if [ -n "${MEMPROF_HEAD_SHA:-}" ]; then
        head=$(gh api "repos/$MEMPROF_REPOSITORY/pulls/$MEMPROF_PULL" --jq .head.sha)
        [ "$head" = "$MEMPROF_HEAD_SHA" ] || fail "pull request $MEMPROF_PULL is at $head, not at $MEMPROF_HEAD_SHA"
    fi
    export MEMPROF_AUTHOR=${MEMPROF_AUTHOR:-github-actions[bot]} MEMPROF_FIRST_LINE=$first_line
    known=$(gh api --paginate "$comments" --jq \
        '.[] | select(.user.login == env.MEMPROF_AUTHOR and (.body | startswith(env.MEMPROF_FIRST_LINE))) | .id' |
        head -n 1)
    [ -z "$known" ] || [ -z "${part:-}" ] ||
        text=$(gh api "repos/$MEMPROF_REPOSITORY/issues/comments/$known" --jq .body)
    share "$text"
    if [ -n "$known" ]; then
        gh api --silent --method PATCH "repos/$MEMPROF_REPOSITORY/issues/comments/$known" -F "body=@$body"
    elif is_worth_a_comment; then
        gh api --silent "$comments" -F "body=@$body"
    fi
}

comment_on_gitlab() {
    local notes="${CI_API_V4_URL:-https://gitlab.com/api/v4}/projects/$MEMPROF_REPOSITORY/merge_requests/$MEMPROF_PULL/notes"
    local known text=''
    known=$(gitlab "$notes?per_page=100" | jq -r --arg marker "$first_line" \
        '[.[] | select(.system == false and (.body | startswith($marker)))][0].id // empty')
    [ -z "$known" ] || [ -z "${part:-}" ] || text=$(gitlab "$notes/$known" | jq -r .body)
    share "$text"
    if [ -n "$known" ]; then
        gitlab --request PUT --data-urlencode "body@$body" "$notes/$known" >/dev/null
    elif is_worth_a_comment; then
        gitlab --data-urlencode "body@$body" "$notes" >/dev/null
    fi
}

gitlab() {
    # Other users of the machine can read arguments, so the token must not be one.
    curl --fail --silent --show-error --header @<(echo "PRIVATE-TOKEN: $GITLAB_TOKEN") "$@"
}

verdict() {
    local code pass
    code=$(cat "$output/memory.code")
    for pass in ${MEMPROF_PASS:-}; do
        [ "$code" != "$pass" ] || code=0
    done
    exit "$code"
}

case ${1:-} in
    compare | build | comment | verdict) "$1" ;;
    *) fail "unknown step '${1:-}': use compare, build, comment or verdict" ;;
esac
