"""What no estimate covers is said, with the reason, in every file that it concerns."""

import pytest

from tests.each import each
from tests.sample import DEFAULT_8B

RUN = f"""{DEFAULT_8B}sdpa_backend = "{{sdpa}}"
[train]
batch_size = {{batch}}
seq_len = 4096
activation_checkpointing = "full"
{{rest}}
"""
VLM = """
[vision_encoder]
type = "{}"
path = "x/y"
num_tokens = {}
[vlm]
max_text_len = 512
{}
[data]
hf_dataset_name = "x/y"
tokenizer_path = "gpt2"
"""
PACKED = "[data]\npack_sequences = true\ndataset_path = 'x'\ntokenizer_path = 'y'"
FROZEN = 'freeze = [{ module = "transformer" }]'
H200 = ("--gpu", "h200", "--world-size", "8")


@pytest.fixture
def summary(fp8tune, project):
    """The lines of lint's summary on what was not checked."""

    def read(gpu="h200", **values):
        values = {"sdpa": "auto", "batch": 1, "rest": "", **values}
        project({"a.toml": RUN.format(**values)})
        out = fp8tune("lint", "a.toml", *H200[2:], "--gpu", gpu).out
        return [line for line in out.splitlines() if "not checked" in line]

    return read


@each(
    ("values", "memory", "speed"),
    [
        ({}, "", ""),
        (
            {"rest": PACKED},
            "no estimate covers the attention mask of packed sequences",
            "no estimate covers the speed of attention with the mask of packed "
            "sequences",
        ),
        (
            {"sdpa": "math"},
            "no estimate covers the attention scores that the math backend keeps",
            "no estimate covers the speed of the math backend of attention",
        ),
        *(
            (
                {"rest": VLM.format(encoder, tokens, "")},
                "no estimate covers vision encoders other than the random one",
                f"no estimate covers {speed}",
            )
            for encoder, tokens, speed in (
                (
                    "siglip2",
                    0,
                    "a vision encoder with a number of tokens that is known only "
                    "after loading",
                ),
                ("clip", 49, "vision-language models"),
            )
        ),
        (
            {"rest": VLM.format("random", 64, FROZEN)},
            "no estimate covers frozen parts other than the vision encoder",
            "no estimate covers vision-language models",
        ),
        (
            {"rest": "[distributed]\npp = 2\n"},
            "no estimate covers the last pipeline stage, which has the logits",
            "",
        ),
        (
            {"gpu": "a100"},
            "`a100` may be a100-40gb or a100-80gb: name one with --gpu",
            "no estimate covers the speed of GPUs other than H100, H200, H800 and "
            "GH200",
        ),
    ],
)
def test_what_is_not_judged_has_its_reason(summary, values, memory, speed):
    reasons = {"memory": memory, "speed": speed}
    said = [f"{what} not checked because {why}" for what, why in reasons.items() if why]
    assert sorted(summary(**values)) == said


def test_what_does_not_fit_at_the_least_is_judged(summary, fired):
    values = {"batch": 64, "rest": PACKED}
    assert [line[:17] for line in summary(**values)] == ["speed not checked"]
    text = RUN.format(sdpa="auto", **values)
    assert "out-of-memory" in fired(text, gpu="h200", world_size=8)
    fits = RUN.format(sdpa="auto", **(values | {"batch": 1}))
    assert "out-of-memory" not in fired(fits, gpu="h200", world_size=8)


RL = """
seq_len = 4096
model = { name = "Qwen/Qwen3-8B" }
[trainer.model]
[orchestrator]
[deployment]
num_train_gpus = 4
num_infer_gpus = 4
"""


def test_a_gap_that_only_a_trainer_has_is_worded_by_it(fp8tune, project):
    """``[advice]`` of its ``trainer.toml`` has the whole reason."""
    project({"a.toml": RL})
    reason = "no estimate covers a number of GPUs other than that of `[deployment]`"
    assert f"not checked because {reason}\n" in fp8tune("lint", "a.toml", *H200).out
