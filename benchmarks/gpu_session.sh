#!/usr/bin/env bash
# The first items of what waits for a GPU (README.md), in the seconds that there are.
#
#   benchmarks/gpu_session.sh CHECKOUT OUT [SECONDS]
#
# CHECKOUT is a checkout of KempnerForge, OUT a folder that gets the logs and results,
# SECONDS the time to take (550). Run it from the repository root with the Python that
# has torch; a folder of wheels in WHEELS (torchao, optuna and what they need) is
# installed beside it first. DEVICE=cpu tries the script without a GPU. Each step that
# does not end in its time is cut off, and the next one begins.
set -uo pipefail

checkout=$1 out=$2 seconds=${3:-550}
device=${DEVICE:-cuda} python=${PYTHON:-python3}
config=configs/llama3_7b_1xh200_fp8.toml
mkdir -p "$out/logs"

left() { echo $((seconds - SECONDS)); }

# step NAME LIMIT COMMAND...: run a command for LIMIT seconds at most
step() {
    local name=$1 limit=$2 began=$SECONDS
    shift 2
    [ "$(left)" -lt "$limit" ] && limit=$(left)
    if [ "$limit" -lt 10 ]; then
        echo "$name: no time left"
        return
    fi
    timeout -k 5 "$limit" "$@" > "$out/logs/$name.log" 2>&1
    echo "$name: exit code $?, $((SECONDS - began)) s"
}

if [ -n "${WHEELS:-}" ]; then
    site=$(mktemp -d)
    step wheels 120 "$python" -m pip install --no-index --no-deps --target "$site" "$WHEELS"/*.whl
    export PYTHONPATH=$PWD:$site
fi
results=(--device "$device" --results "$out/on_gpu")
step watching 75 "$python" -m benchmarks.on_gpu watching "${results[@]}"
# these share the GPU: none of them measures speed
step shapes 100 "$python" -m benchmarks.fp8_shapes --output "$out/shapes.json" &
step traces 200 "$python" -m benchmarks.on_gpu traces "${results[@]}" &
cp benchmarks/results/rule_evidence.json "$out/"  # outcomes are added to it
for rule in fp8-tokens-not-16 fp8-ffn-size-not-16 experts-not-aligned fp16-loses-adam-eps; do
    step "rule-$rule" 100 "$python" -m benchmarks.rule_evidence "$checkout" \
        --commit "${COMMIT:-unknown}" --device "$device" --rule "$rule" --output "$out/rule_evidence.json"
done
wait
step doctor 60 "$python" -m fp8tune doctor
step search 300 "$python" -m benchmarks.on_gpu search "$config" --minutes 3.5 "${results[@]}"
[ "$device" = cpu ] || step hugging-face "$(left)" "$python" -m benchmarks.hugging_face.gpu \
    "$python" --output "$out/hugging_face.json"
echo "after $SECONDS s: the logs and results are in $out"
