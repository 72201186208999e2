"""What memory needs at least where parts of a run are not modelled."""

import pytest

from fp8tune.job import Unknown
from tests.each import each

TEXT = """
[model]
n_kv_heads = 8
max_seq_len = 4096
{model}
[train]
batch_size = 2
seq_len = 4096
compile_model = {compiled}
activation_checkpointing = "{ac}"
{rest}
"""
VLM = """
[vision_encoder]
type = "{encoder}"
path = "x/y"
num_tokens = {tokens}
[vlm]
arch = "{arch}"
max_text_len = 2048
{vlm}
"""
FROZEN = 'freeze = [{ module = "vision_encoder" }, { module = "transformer" }]'


@pytest.fixture
def built(job):
    """A job on 8 H100s, of a text model or, with ``arch``, of a VLM."""

    def build(model="", ac="full", compiled="false", rest="", **vlm):
        values = {"encoder": "random", "tokens": 256, "vlm": "", **vlm}
        text = TEXT.format(model=model, compiled=compiled, ac=ac, rest=rest)
        text += VLM.format(**values) if "arch" in values else ""
        return job(text, gpu="h100", world_size=8)

    return build


def least(job):
    return job["memory.least_gib"]


@each(
    ("values", "known", "reason"),
    [
        (
            {"rest": "[data]\npack_sequences = true"},
            {},
            "block_tokens.packed",
        ),
        ({"model": 'sdpa_backend = "math"'}, {}, "block_tokens.math"),
        (
            {"arch": "joint_decoder", "encoder": "siglip2"},
            {"arch": "joint_decoder"},
            "extra_parameters.encoder",
        ),
        (
            {"arch": "joint_decoder", "vlm": FROZEN},
            {"arch": "joint_decoder"},
            "extra_parameters.frozen",
        ),
        ({"arch": "moma", "ac": "selective"}, {}, "block_copies"),
        (
            {"ac": "none", "compiled": "true", "model": "num_experts = 4"},
            {"ac": "none", "model": "num_experts = 4"},
            "activation_bytes.compiled",
        ),
    ],
)
def test_what_is_not_modelled_only_adds(built, values, known, reason):
    """At least its weights, and no more than a run like it that is covered."""
    found, like = built(**values), built(**known)
    with pytest.raises(Unknown) as error:
        found["memory.peak_gib"]
    assert error.value.args[0] == reason
    bounded = found.at_least()
    bounded = bounded.with_values(bounded["lower_bounds"])
    assert bounded["memory.low_gib"] == least(found)
    assert reason in bounded.bounded
    weights = bounded["params.rank"] * bounded["weight_bytes"] / 8 / 2**30
    assert weights < least(found) <= like["memory.peak_gib"] or reason == "block_copies"


def test_what_is_covered_is_no_lower_bound(built):
    for values in ({}, {"ac": "none"}, {"arch": "mot"}, {"model": "num_experts = 8"}):
        found = built(**values)
        assert found["lower_bounds"] == {}
        assert least(found) == found["memory.low_gib"]
        bounded = found.at_least()
        assert bounded["memory.peak_gib"] == found["memory.peak_gib"]
        assert bounded.bounded == []


def test_every_expert_of_moma_is_held(built):
    experts = "[vlm.moma_experts_per_modality]\nimage = 2\ntext = {}\n"
    few, many = (built(arch="moma", vlm=experts.format(n)) for n in (2, 6))
    counts = [
        job.with_values(job["lower_bounds"])["params.decoder"] for job in (few, many)
    ]
    expert = 3 * 4096 * few["expert_size"] + 4096  # and its row of the router
    assert counts[1] - counts[0] == 32 * 4 * expert
    assert least(few) < least(many)


@each(
    ("values", "words"),
    [
        (
            {},
            "about 11.1 GiB (11.1 to 11.3) of 72.4 usable (79.1 in all); largest "
            "parts: the whole model 11",
        ),
        (
            {"model": "dim = 8192\nn_layers = 58"},
            "about 77.6 GiB (77.6 to 79.1) of 79.1; a published run ran out of memory "
            "at 75.9; largest parts: the whole model 78",
        ),
        (
            {"rest": "[data]\npack_sequences = true"},
            "about 11.1 GiB or more (at least 11.1) of 79.1; largest parts: the whole "
            "model 11; not counted: the attention mask of packed sequences",
        ),
    ],
)
def test_what_a_run_needs_in_words(built, values, words):
    assert str(built(**values)["memory.needs"]) == words
