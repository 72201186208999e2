"""Estimates of runs that cannot be: lint and estimate say the same."""

import itertools

import pytest

from fp8tune.config.reader import config_of
from fp8tune.estimate import refusals
from fp8tune.estimate.grid import Variants
from fp8tune.job import Target
from tests.each import each
from tests.estimate.configs import H200, JSON, SEVEN_B

FP8 = SEVEN_B.replace("[train]", '[train]\nmixed_precision = "fp8"')
H100 = ("--gpu", "h100", "--world-size", "16")


@each(
    ("text", "arguments", "rule"),
    [
        (FP8.replace("128256", "50257"), H100, "fp8-vocab-size-not-16"),
        (FP8.replace("seq_len = 4096", "seq_len = 4094"), H100, ""),
        (
            FP8.replace("\nseq_len = 4096", "\nseq_len = 4095").replace(
                "batch_size = 8", "batch_size = 3"
            ),
            H100,
            "fp8-tokens-not-16",
        ),
        (FP8, ("--gpu", "a100-80gb", "--world-size", "16"), "gpu-without-fp8"),
        (f"{FP8}[distributed]\ntp = 4\n", H100, "fp8-with-tensor-parallel"),
        (
            f"{SEVEN_B}[distributed]\ndp_shard = 8\ntp = 4\n",
            ("--gpu", "h100", "--world-size", "3"),
            "degrees-do-not-match-world-size",
        ),
        (
            f"{SEVEN_B}[distributed]\ntp = 4\n",
            (*H100[:3], "10"),
            "world-size-not-divisible",
        ),
        (
            SEVEN_B.replace("[model]", "[model]\nn_heads = 7"),
            H100,
            "heads-do-not-divide-hidden-size",
        ),
        (SEVEN_B.replace("= 14336", "= -1"), H100, "negative-ffn-size"),
        (
            SEVEN_B.replace("\nseq_len = 4096", "\nseq_len = 8192"),
            H100,
            "seq-len-above-max-seq-len",
        ),
        (
            f"{SEVEN_B}[distributed]\ndp_replicate = 2\n",
            H100,
            "hybrid-sharding",
        ),
        (SEVEN_B.replace("batch_size", "batchsize"), H100, "unknown-key"),
    ],
)
def test_nothing_is_estimated_of_what_cannot_run(
    estimated, lint, text, arguments, rule
):
    said = estimated(text, *arguments, *JSON)
    found = lint(text, gpu=arguments[1], world_size=int(arguments[3])).diagnostics
    errors = {d.rule for d in found if d.category in refusals.FATAL}
    assert {one["rule"] for one in said.json["refused"]} == errors
    if not errors:
        assert said.code == 0
        return
    assert rule in errors
    assert (said.code, said.err) == (1, "")
    assert said.json["memory"]["peak_gib"] is None
    assert said.json["speed"]["tokens_per_second"] is None
    assert said.json["speed"]["fp8_gain"] is None
    assert said.json["fit"] == "unknown"


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        (SEVEN_B.replace("128256", "50257"), H100),
        (SEVEN_B, ("--gpu", "a100-80gb", "--world-size", "16")),
        (FP8, ("--gpu", "a100-80gb", "--world-size", "16")),
        (f"{SEVEN_B}[distributed]\ntp = 4\n", H100),
    ],
)
def test_fp8_is_not_offered_where_it_cannot_run(estimated, text, arguments):
    said = estimated(text, *arguments, *JSON).json
    assert said["fp8_pays"] == "no"
    assert said["reasons"]
    fits = [c for c in said["grid"] if c["precision"] == "fp8" and c["peak_gib"]]
    assert fits == []
    assert {row["speedup"] for row in said["gemms"]} == {None}
    assert said["start"]["precision"] == "bf16"


PIPELINE = f"{SEVEN_B}[distributed]\npp = 4\n"


def test_no_advice_starves_a_pipeline(estimated):
    four = ("--gpu", "h200", "--world-size", "4")
    said = estimated(PIPELINE, *four, *JSON).json
    for cell in said["grid"]:
        starved = cell["grad_accum"] < 4
        assert ("fewer-micro-batches-than-stages" in cell["refused"]) is starved
        assert (cell["peak_gib"] is None) or not starved
    changes = [saving["change"] for saving in said["savings"]]
    assert not any("no accumulation" in change for change in changes)
    assert not any("one micro-batch" in change for change in changes)


def test_what_fails_all_the_same_is_said_beside_the_figures(estimated):
    text = f"{SEVEN_B}[optimizer]\neps = 0.0\n"
    said = estimated(text, *H200)
    words = " ".join(said.out.split())
    assert said.code == 1
    assert "this run fails, whatever memory it needs: " in words
    assert "GiB per GPU (" in words


VLM = """
[vision_encoder]
num_tokens = 256
[vlm]
max_text_len = 512
[train]
batch_size = 16
compile_model = false
activation_checkpointing = "full"
[data]
hf_dataset_name = "sayakpaul/coco-30-val-2014"
tokenizer_path = "/data/tokenizer"
"""


def test_the_start_is_none_that_lacks_samples(estimated):
    """30 samples over 4 ranks: 7 each."""
    four = ("--gpu", "h200", "--world-size", "4", *JSON)
    said = estimated(VLM, *four).json
    assert [one["rule"] for one in said["refused"]] == ["fewer-samples-than-a-batch"]
    assert said["memory"]["peak_gib"]
    assert said["start"]["micro_batch"] == 4


def test_numbers_of_gpus_on_which_samples_lack_have_their_reason(estimated):
    said = estimated(VLM, "--gpu", "h200", *JSON).json
    peaks = {one["world_size"]: one["peak_gib"] for one in said["world_sizes"]}
    assert [size for size, peak in peaks.items() if peak] == [1]
    assert said["world_sizes"][1]["refused"] == ["fewer-samples-than-a-batch"]
    assert said["target"]["world_size"] == 1
    text = estimated(VLM, "--gpu", "h200").out
    assert "  no: 30 samples over 2 ranks are 15 per rank, fewer than" in text


def with_values(text, cell):
    """The config of a cell."""
    spelled = {
        "batch_size": cell["micro_batch"],
        "grad_accum_steps": cell["grad_accum"],
        "activation_checkpointing": f'"{cell["ac"]}"',
        "mixed_precision": f'"{cell["precision"]}"',
    }
    lines = [ln for ln in text.splitlines() if ln.partition(" =")[0] not in spelled]
    return "\n".join(lines).replace(
        "[train]", "\n".join(["[train]", *(f"{k} = {v}" for k, v in spelled.items())])
    )


@pytest.mark.parametrize(
    ("text", "gpus"),
    [
        (PIPELINE, 4),
        (VLM, 4),
        (VLM.replace("batch_size = 16", "batch_size = 2\ngrad_accum_steps = 8"), 4),
        (FP8.replace("\nseq_len = 4096", "\nseq_len = 1000"), 16),
    ],
)
def test_lint_accepts_every_cell(estimated, lint, text, gpus):
    target = ("--gpu", "h200", "--world-size", str(gpus))
    said = estimated(text, *target, *JSON).json
    assert {bool(cell["refused"]) for cell in said["grid"]} == {True, False}
    for cell in said["grid"]:
        found = lint(with_values(text, cell), gpu="h200", world_size=gpus)
        errors = {d.rule for d in found.diagnostics if d.category in refusals.FATAL}
        assert set(cell["refused"]) == errors
        assert (cell["peak_gib"] is None) or not errors


def test_no_saving_lacks_samples(estimated):
    """30 samples over 4 ranks: neither 16 nor 8 of them run, with whatever AC."""
    four = ("--gpu", "h200", "--world-size", "4", *JSON)
    said = estimated(VLM.replace('"full"', '"none"'), *four).json
    changes = [saving["change"] for saving in said["savings"]]
    assert changes == ["micro-batch 4 with 4 accumulated"]


@each("precision", ["fp8", "bf16"])
def test_pinned_versions_that_fail_refuse_fp8_alone(fp8tune, project, precision):
    """Also as a variant of a config in bf16, in which lint has nothing to report."""
    pins = "torch==2.9.1\ntorchao==0.18.0\n"
    project({"a.toml": FP8.replace("fp8", precision), "requirements.txt": pins})
    linted = fp8tune("lint", "a.toml", *JSON)
    said = fp8tune("estimate", "a.toml", *H100, *JSON)
    errors = ["versions-that-fail"] * (precision == "fp8")
    assert [found["rule"] for found in linted.json["diagnostics"]] == errors
    assert [refusal["rule"] for refusal in said.json["refused"]] == errors
    assert linted.code == said.code == len(errors)
    fits = {cell["precision"] for cell in said.json["grid"] if cell["fit"] == "fits"}
    assert fits == {said.json["start"]["precision"]} == {"bf16"}
    assert said.json["fp8_pays"] == "no"


def test_changes_are_judged_as_if_they_stood_in_the_file():
    """What is left out of a variant's rules is what its changes have no part in."""
    text = FP8.replace("128256", "50257").encode()
    for gpu, size in itertools.product(("h100-sxm", "a100-80gb"), (4, 16)):
        variants = Variants(config_of("a.toml", text, Target(gpu, size)))
        for precision, batch, accum in itertools.product(
            ("bf16", "fp8", "fp16"), (1, 3), (1, 8)
        ):
            changes = {
                "precision": precision,
                "micro_batch": batch,
                "grad_accum": accum,
            }
            whole = refusals.of_job(variants.job.with_values(changes))
            assert sorted(variants.refusals(changes)) == sorted(whole)


@pytest.mark.parametrize(
    ("title", "gpus", "by"),
    [("", 8, "nobody"), ("# 7B on 16 GPUs\n", 16, "the title on line 1")],
)
def test_fp8_that_cannot_run_has_a_start_in_bf16_without_a_world_size(
    estimated, title, gpus, by
):
    said = estimated(title + FP8, "--gpu", "a100-80gb", *JSON).json
    target = said["target"]
    assert (target["world_size"], target["world_size_by"]) == (gpus, by)
    assert said["memory"]["peak_gib"] is None
    assert said["start"]["precision"] == "bf16"
    assert said["savings"]
    size = ("--world-size", str(gpus))
    there = estimated(title + FP8, "--gpu", "a100-80gb", *size, *JSON).json
    assert [said[key] for key in ("grid", "start", "savings")] == [
        there[key] for key in ("grid", "start", "savings")
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            PIPELINE.replace("[train]", "[train]\ncompile_model = false"),
            "no: cannot run: the 1F1B schedule needs at least as many micro-batches as "
            "stages, but `train.grad_accum_steps = 2` and `distributed.pp = 4` "
            "no starting point, because none of these is known to fit: no estimate "
            "covers the last pipeline stage",
        ),
        (
            f"{PIPELINE}tp = 2\n",
            "no starting point: no micro-batch, AC mode or precision can run",
        ),
    ],
)
def test_where_there_is_no_start_it_says_why(estimated, text, words):
    assert words in " ".join(estimated(text, "--gpu", "h200").out.split())


@pytest.mark.parametrize("given", ['["float8"]', '"quantize.linear.float8"'])
def test_a_value_that_the_trainer_refuses_is_the_answer(fp8tune, project, given):
    text = f'[model]\nname = "llama3"\nflavor = "8B"\nconverters = {given}\n'
    project({"a.toml": f"# fp8tune: trainer=torchtitan==0.2.2\n{text}"})
    said = fp8tune("estimate", "a.toml", "--gpu", "h100", "--world-size", "8")
    assert (said.code, "this cannot run: `model.converters" in said.out) == (1, True)
