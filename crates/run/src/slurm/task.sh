# What it needs is above. Each attempt at a shard has a folder of its own: a task on a node that
# Slurm lost may still write while another one replaces it.
set -u
cd "$run" || exit 1
shard=$SLURM_ARRAY_TASK_ID
attempts=shards/$shard
folder=$attempts/$SLURM_ARRAY_JOB_ID-${SLURM_RESTART_COUNT:-0}
mkdir -p "$attempts" || exit 1
echo "shard $shard/$shards on $(hostname)"

# The archive is unpacked on the node's own disk, so that tasks do not wait for each other. Its programs
# must start there: some sites mount /tmp with noexec.
CARGO_MEMPROF_HOME=
for disk in "${SLURM_TMPDIR:-}" "${TMPDIR:-}" /tmp; do
    if [ -z "$disk" ] || ! home=$(mktemp -d "$disk/cargo-memprof-XXXXXXXX" 2>/dev/null); then continue; fi
    printf '#!/bin/sh\n' >"$home/try"
    if chmod +x "$home/try" && "$home/try" 2>/dev/null; then
        rm "$home/try"
        CARGO_MEMPROF_HOME=$home
        break
    fi
    rm -rf "$home"
done
if [ -z "$CARGO_MEMPROF_HOME" ]; then
    echo "error: no place for the tests: SLURM_TMPDIR ('${SLURM_TMPDIR:-}'), TMPDIR ('${TMPDIR:-}') and /tmp are" \
        "missing, full, not writable, or mounted with noexec; set TMPDIR to a folder of the nodes' own disks" >&2
    exit 1
fi
export CARGO_MEMPROF_HOME
# sbatch passes on the TMPDIR of the machine that called it.
if ! [ -d "${TMPDIR:-/tmp}" ] || ! [ -w "${TMPDIR:-/tmp}" ]; then export TMPDIR=$disk; fi
trap 'rm -rf "$CARGO_MEMPROF_HOME"' EXIT

# Finished tests of an earlier attempt are kept: the newest one is copied and continued.
earlier=
for plan in "$attempts"/*[0-9]/plan.json; do
    if [ -e "$plan" ] && { [ -z "$earlier" ] || [ "$plan" -nt "$earlier/plan.json" ]; }; then
        earlier=${plan%/plan.json}
    fi
done
rm -rf "$folder.copy"
status=2
if [ -n "$earlier" ] && [ "$earlier" != "$folder" ] && [ ! -e "$folder" ] &&
    cp -R "$earlier" "$folder.copy" && mv "$folder.copy" "$folder"; then
    status=0
    "$tool" run --archive "$archive" --run-folder "$folder" --resume "${flags[@]}" || status=$?
fi
# 2: there is nothing to continue, or not here, for example because another machine began it.
if [ "$status" = 2 ]; then
    rm -rf "$folder" "$folder.copy"
    status=0
    "$tool" run --archive "$archive" --shard "$shard/$shards" --run-folder "$folder" "${flags[@]}" || status=$?
fi

# With 1, 3 and 4 the shard is finished, too; the merged run gives the verdict.
case $status in
0 | 1 | 3 | 4) exit 0 ;;
*) exit "$status" ;;
esac
