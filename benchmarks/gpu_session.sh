#!/usr/bin/env bash
# What to measure when a machine with one H100 or H200 is at hand for half an hour: three
# commands of ten minutes each, one after the other.
#
#   benchmarks/gpu_session.sh first|next|last OUT [CHECKOUT]
#
# OUT is a folder that gets session.tgz, traces.tgz and session.log, packed anew every 20 s
# and when the command ends. `python -m benchmarks.on_gpu take OUT/session.tgz` puts the
# results into the repository. CHECKOUT is a checkout of KempnerForge; steps that need one
# are skipped without it. In the environment:
#
#   SECONDS_LEFT     the time of this command (580)
#   WHEELS           a folder of wheels to install into this Python's environment first
#   COMMIT           the commit of this tree, where it has no .git
#   CHECKOUT_COMMIT  the commit of CHECKOUT, where it has no .git
#   DEVICE=cpu       the same steps, small, without a GPU
#   SEARCH_BUDGET    that of the search (15m)
#   SCRATCH          where results are collected; else below the temporary folder, one for
#                    each device and commit
#   ANYWAY=1         go on where the doctor advises against it, unsafe versions too
#   PYTHON           the Python that has torch (python3)
set -euo pipefail
if [ $# -lt 2 ]; then
    echo "usage: gpu_session.sh first|next|last OUT [CHECKOUT]" >&2
    exit 2
fi
out=$2
mkdir -p "$out"
out=$(cd "$out" && pwd)
checkout=${3:+$(cd "$3" && pwd)}
[ -z "${WHEELS:-}" ] || { WHEELS=$(cd "$WHEELS" && pwd) && export WHEELS; }
case ${PYTHON:-} in */*) PYTHON=$(cd "$(dirname "$PYTHON")" && pwd)/$(basename "$PYTHON") ;; esac
cd "$(dirname "$0")/.."
exec "${PYTHON:-python3}" -m benchmarks.on_gpu.session "$1" "$out" ${checkout:+"$checkout"}
