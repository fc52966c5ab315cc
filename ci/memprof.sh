#!/usr/bin/env bash
# Compares the memory of a pull request with its merge base, and posts the comparison as a comment that is kept up to date.
#
#   memprof.sh compare     writes memory.md, memory.json, memory.xml and memory.code; always succeeds if there is a verdict
#   memprof.sh comment     posts memory.md to GitHub (gh, GH_TOKEN) or GitLab (curl, jq, GITLAB_TOKEN)
#   memprof.sh verdict     leaves with what memory.code says
#
# The pieces are files, so that a job that may run strangers' code needs no token, and the one that has it runs no such code.
#
#   MEMPROF_BASE       what the pull request is for: a branch, as git knows it (origin/main)
#   MEMPROF_HEAD       the pull request's commit; HEAD by default
#   MEMPROF_ARGUMENTS  further arguments of `cargo memprof`, split at blanks
#   MEMPROF_OUTPUT     the folder of the files; the current one by default
#   MEMPROF_PULL       the number of the pull request
#   MEMPROF_REPOSITORY the repository, as OWNER/NAME (GitHub) or its number (GitLab)
#   MEMPROF_HEAD_SHA   for `comment`: only if the pull request still stands at this commit
#   MEMPROF_AUTHOR     for `comment`: whose comment is kept up to date; github-actions[bot] by default
#   MEMPROF_PASS       codes for which `verdict` succeeds, beside 0: '4' lets inconclusive comparisons pass
set -euo pipefail

marker='<!-- cargo-memprof -->'
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

compare() {
    needed MEMPROF_BASE
    local head=${MEMPROF_HEAD:-HEAD} base code=0
    # A shallow clone does not have it.
    base=$(git merge-base "$MEMPROF_BASE" "$head") ||
        fail "no merge base of $MEMPROF_BASE and $head is here; fetch the whole history (fetch-depth: 0)"
    head=$(git rev-parse "$head^{commit}")
    mkdir -p "$output"
    rm -f "$output"/memory.{md,json,xml,code}
    # shellcheck disable=SC2086 # the arguments are words
    cargo memprof --refs "base=$base,pull=$head" \
        --output "$output/memory.md" --output "$output/memory.json" --output "$output/memory.xml" \
        --format markdown --format json --format junit --format table \
        ${MEMPROF_ARGUMENTS:-} || code=$?
    # Without a report there is nothing to post, and the fault is this job's.
    [ -s "$output/memory.md" ] || exit "$code"
    echo "$code" >"$output/memory.code"
}

# A number of the answer that the JSON report has on a line of its own.
answer() {
    sed -n "s/^\"verdict\":{.*\"$1\":\([0-9]*\).*/\1/p" "$output/memory.json" | head -n 1
}

# Whether there is anything to say: a change, a breach, or a comparison that is not whole.
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
    case $MEMPROF_PULL in *[!0-9]*) fail "MEMPROF_PULL is no number: $MEMPROF_PULL" ;; esac
    # The file may come from a job that ran a stranger's code.
    [ "$(head -n 1 "$output/memory.md")" = "$marker" ] || fail "$output/memory.md is not a report of cargo memprof"
    [ "$(wc -m <"$output/memory.md")" -le 65536 ] || fail "$output/memory.md is too long for a comment"
    if [ -n "${GITLAB_TOKEN:-}" ]; then
        comment_on_gitlab
    else
        comment_on_github
    fi
}

comment_on_github() {
    local comments="repos/$MEMPROF_REPOSITORY/issues/$MEMPROF_PULL/comments" known head
    if [ -n "${MEMPROF_HEAD_SHA:-}" ]; then
        head=$(gh api "repos/$MEMPROF_REPOSITORY/pulls/$MEMPROF_PULL" --jq .head.sha)
        [ "$head" = "$MEMPROF_HEAD_SHA" ] || fail "pull request $MEMPROF_PULL stands at $head, not at $MEMPROF_HEAD_SHA"
    fi
    export MEMPROF_AUTHOR=${MEMPROF_AUTHOR:-github-actions[bot]}
    known=$(gh api --paginate "$comments" --jq \
        ".[] | select(.user.login == env.MEMPROF_AUTHOR and (.body | startswith(\"$marker\"))) | .id" | head -n 1)
    if [ -n "$known" ]; then
        gh api --silent --method PATCH "repos/$MEMPROF_REPOSITORY/issues/comments/$known" -F "body=@$output/memory.md"
    elif is_worth_a_comment; then
        gh api --silent "$comments" -F "body=@$output/memory.md"
    fi
}

comment_on_gitlab() {
    local notes="${CI_API_V4_URL:-https://gitlab.com/api/v4}/projects/$MEMPROF_REPOSITORY/merge_requests/$MEMPROF_PULL/notes"
    local known
    known=$(gitlab "$notes?per_page=100" | jq -r --arg marker "$marker" \
        '[.[] | select(.system == false and (.body | startswith($marker)))][0].id // empty')
    if [ -n "$known" ]; then
        gitlab --request PUT --data-urlencode "body@$output/memory.md" "$notes/$known" >/dev/null
    elif is_worth_a_comment; then
        gitlab --data-urlencode "body@$output/memory.md" "$notes" >/dev/null
    fi
}

gitlab() {
    # The token is no argument, which others on the machine could read.
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
    compare | comment | verdict) "$1" ;;
    *) fail "say compare, comment or verdict" ;;
esac
