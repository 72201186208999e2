"""Rows of experts, and what they keep and compute per token."""

import pytest

D, H = 1024, 4096
TOKEN, WIDE = 2 * D, 2 * H
"""Bytes of a row of the model's width, and of the expert's."""
KEPT = TOKEN + 4 * WIDE
"""What one row keeps: its input; gate, up, activation and product."""
RUN = """
[model]
dim = 1024
n_heads = 8
ffn_hidden_dim = 4096
num_experts = 8
moe_top_k = 2
moe_packed_experts = true
[train]
activation_checkpointing = "none"
compile_model = false
"""
WORK = ("before", "beside", "after")
NARROW = {"ffn_hidden_dim = 4096": "ffn_hidden_dim = 256"}


@pytest.fixture
def work(job):
    """Of a run with some lines of it replaced, and GPUs."""

    def found(changes, ep=1):
        text = RUN
        for old, new in changes.items():
            assert old in text
            text = text.replace(old, new)
        mesh = f"[distributed]\nep = {ep}\n"
        return job(text + mesh, world_size=8)

    return found


@pytest.mark.parametrize(
    ("ep", "top_k", "collapsed", "balanced"),
    [
        (1, 2, (8, 2, 2), (2, 2, 8)),
        (4, 2, (8, 8, 2), (2, 2, 2)),
        (4, 1, (8, 4, 1), (1, 1, 2)),
        (8, 4, (8, 8, 1), (4, 4, 1)),
    ],
)
def test_routing(work, ep, top_k, collapsed, balanced):
    """With EP the first rank gets the tokens of all for the experts that it has."""
    found = work({"moe_top_k = 2": f"moe_top_k = {top_k}"}, ep)
    names = "expert_rows", "arriving_rows", "busy_experts"
    assert tuple(map(found.__getitem__, names)) == collapsed
    assert found["balanced_routing"] == dict(zip(names, balanced, strict=True))


@pytest.mark.parametrize(
    ("changes", "ep", "forward", "before", "beside"),
    [
        pytest.param(
            {}, 1, 10 * TOKEN, 17 * TOKEN, 8 * (2 * WIDE), id="activation's gradients"
        ),
        pytest.param(
            {"packed_experts = true": "packed_experts = false"},
            1,
            10 * TOKEN,
            8 * (2 * WIDE),
            8 * (TOKEN + WIDE),
            id="which come before those of stacks",
        ),
        pytest.param(
            NARROW, 1, 10 * TOKEN, 17 * TOKEN, 8 * (TOKEN + TOKEN // 4), id="narrow"
        ),
        pytest.param(
            {"top_k = 2": "top_k = 8"}, 1, 16 * TOKEN, 24 * TOKEN, 16 * WIDE, id="all"
        ),
        pytest.param(
            {}, 4, 40 * TOKEN, 20 * TOKEN, 8 * (2 * WIDE), id="sent to the first rank"
        ),
    ],
)
def test_beyond_what_is_kept(work, changes, ep, forward, before, beside):
    assert work(changes, ep)["expert_work"] == {
        "forward": forward,
        "before": before,
        "beside": beside,
        "after": 0,
    }


def test_full_checkpointing_computes_what_would_be_kept_again(work):
    kept, again = (
        work({'checkpointing = "none"': f'checkpointing = "{ac}"'})
        for ac in ("none", "full")
    )
    norms = 2 * kept["norm_bytes"] + kept["attention_bytes"]
    more = {
        name: again["expert_work"][name] - kept["expert_work"][name] for name in WORK
    }
    assert more == {
        "before": 8 * KEPT + norms,
        "beside": 8 * KEPT + norms,
        "after": norms + 2 * TOKEN,
    }
