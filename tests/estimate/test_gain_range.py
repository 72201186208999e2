"""FP8's gain where a script leaves settings open."""

import json

from tests.each import each

SCRIPT = """\
#!/bin/bash
# fp8tune: gpu=h100 world-size=8
torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 32 --hidden-size 4096 \\
  --ffn-hidden-size 14336 --num-attention-heads 32 --group-query-attention \\
  --num-query-groups 8 --max-position-embeddings 32768 --global-batch-size 128 \\
  --context-parallel-size 2 --swiglu --normalization RMSNorm --disable-bias-linear \\
  --position-embedding-type rope --untie-embeddings-and-output-weights \\
  --vocab-size 128256 --use-distributed-optimizer --grad-reduce-in-bf16 --bf16 \\
  --fp8-format hybrid --fp8-param-gather --lr 1e-4 --train-iters 100 \\
  --micro-batch-size {batch} --seq-length {length}
"""


def speed_of(fp8tune, project, **settings):
    project({"run.sh": SCRIPT.format(**settings)})
    out = fp8tune("estimate", "run.sh", "--output-format", "json").out
    return json.loads(out)["speed"]


def test_a_range_holds_what_is_possible_and_names_what_narrows_it(fp8tune, project):
    unknown = speed_of(fp8tune, project, batch="$MBS", length="$SEQ")
    assert unknown["fp8_gain"] is None
    possible = unknown["fp8_gain_range"]
    assert possible["open"] == {
        "micro_batch_size": [1, 2, 4, 8],
        "seq_length": [2048, 8192, 32768],
    }
    assert possible["narrows"] == "seq_length"
    assert possible["left"] < possible["high"] - possible["low"]
    one = speed_of(fp8tune, project, batch="1", length="8192")
    assert one["fp8_gain_range"] is None
    assert possible["low"] <= one["fp8_gain_low"] < 1.35 < one["fp8_gain_high"]
    assert one["fp8_gain_high"] <= possible["high"]


@each(
    ("settings", "said"),
    [
        ({"batch": "$MBS", "length": "8192"}, "for `--micro-batch-size` 1, 2, 4 or 8"),
        (
            {"batch": "$MBS", "length": "$SEQ"},
            "`--seq-length` would narrow it most, to a width of",
        ),
    ],
)
def test_flags_are_named_as_typed(fp8tune, project, settings, said):
    project({"run.sh": SCRIPT.format(**settings)})
    assert said in " ".join(fp8tune("estimate", "run.sh").out.split())


def test_no_range_where_more_than_settings_is_unknown(fp8tune, project):
    text = SCRIPT.format(batch="$MBS", length="8192").replace("gpu=h100 ", "")
    project({"run.sh": text})
    out = fp8tune("estimate", "run.sh", "--output-format", "json").out
    assert json.loads(out)["speed"]["fp8_gain_range"] is None
