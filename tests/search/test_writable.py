"""Knobs that could not be written at the end are kept, and the others are varied."""

import json

import pytest

from fp8tune.job import Target
from fp8tune.search import CannotSearch
from fp8tune.search.linting import check_tuned
from fp8tune.search.plan import config_to_search, plan_for_trials, without_idle
from fp8tune.search.writable import check_varied, without_unwritable
from fp8tune.search.write.job_files import write_job
from fp8tune.search.write.writeback import Choice
from tests.each import each
from tests.search import test_written_formats as formats
from tests.search.test_dry_run import SFT
from tests.search.test_knobs import TITAN as IN_FP8

AXOLOTL = f"""\
{formats.AXOLOTL.replace("fp8", "bf16")}\
fsdp_version: 2
fsdp_config:
  activation_checkpointing: true
"""
TRAINING = f"{SFT}gradient_checkpointing: true\n"
TITAN = f"""\
{IN_FP8.replace('"quantize.linear.float8"', "")}\
[quantize.linear.float8]
enable_fsdp_float8_all_gather = false
"""
LAUNCH = """\
distributed_type: FSDP
mixed_precision: bf16
num_processes: 8
fsdp_config: {fsdp_version: 2, fsdp_activation_checkpointing: true}
"""
MEGATRON = """\
torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 16 --hidden-size 2048 \\
  --num-attention-heads 16 --seq-length 2048 --max-position-embeddings 2048 \\
  --micro-batch-size 2 --global-batch-size 32 --vocab-size 50257 --train-iters 10 \\
  --lr 1e-4 --bf16 --fp8-format hybrid --transformer-impl transformer_engine \\
  --recompute-activations
"""
BRIDGE = """\
train: {micro_batch_size: 2, global_batch_size: 32}
model:
  seq_length: 64
  tensor_model_parallel_size: 1
  pipeline_model_parallel_size: 1
  context_parallel_size: 1
  expert_model_parallel_size: 1
  recompute_granularity: null
  recompute_method: null
  recompute_num_layers: null
mixed_precision: bf16_with_fp8_current_scaling_mixed
ddp: {use_distributed_optimizer: true}
"""


AUTOMODEL = """\
recipe: TrainFinetuneRecipeForNextTokenPrediction
step_scheduler: {global_batch_size: 128, local_batch_size: 4}
model:
  _target_: nemo_automodel.NeMoAutoModelForCausalLM.from_pretrained
  pretrained_model_name_or_path: Qwen/Qwen3-8B
  backend: {linear: te}
distributed: {strategy: fsdp2}
dataset: {seq_len: 4096}
"""


def config_of(path, text, *beside):
    return config_to_search(path, text.encode(), Target("h100", 8), beside=beside)


def planned(config, *allow):
    plan = plan_for_trials(config, allow, "cuda", builtin=False)
    return without_unwritable(plan)


def told(key):
    return f"`{key}` sets it too; take that key out to have it varied"


TABLE = "`mixed_precision` is one value: write it as a table to have it varied"


@each(
    ("path", "text", "varied", "kept"),
    [
        (
            "a.yaml",
            AXOLOTL,
            ["micro_batch", "compile"],
            {"ac": told("fsdp_config.activation_checkpointing")},
        ),
        (
            "launch.yaml",
            LAUNCH,
            ["micro_batch", "compile"],
            {"ac": told("fsdp_config.fsdp_activation_checkpointing")},
        ),
        ("a.sh", MEGATRON, ["micro_batch"], {"ac": told("recompute_activations")}),
        ("b.yaml", BRIDGE, ["micro_batch", "ac"], {}),
    ],
)
def test_a_knob_that_another_key_sets_is_kept(
    tmp_path, monkeypatch, path, text, varied, kept
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sft.yaml").write_text(TRAINING)
    plan = planned(config_of(path, text, *["sft.yaml"] * (path == "launch.yaml")))
    check_varied(plan)
    free = [knob.role for knob in plan.space.knobs if not knob.frozen]
    said = {offer.knob.role: offer.why for offer in plan.offers}
    assert (free, plan.kept) == (varied, kept)
    assert said.items() >= kept.items()
    bf16_baseline = plan.space.in_bf16(plan.baseline)
    assert (bf16_baseline is None) == (path != "a.sh")
    if path == "b.yaml":
        assert {
            said[role] for role in ("precision", "te_recipe", "fp8_parameters")
        } == {TABLE}


@each(
    ("path", "text", "knobs"),
    [
        ("a.toml", TITAN, ["fp8_recipe", "fp8_all_gather"]),
        (
            "a.sh",
            MEGATRON.replace("--fp8-format hybrid", "--tensor-model-parallel-size 2"),
            ["te_recipe", "fp8_parameters"],
        ),
        ("a.yaml", AUTOMODEL, ["fp8_recipe", "fp8_all_gather"]),
    ],
)
def test_knobs_of_fp8_are_tried_where_only_the_search_turns_fp8_on(path, text, knobs):
    config = config_of(path, text)
    plan = planned(config, "precision", *knobs)
    assert config.job["precision"] == "bf16"
    for role in ("precision", *knobs):
        assert len(plan.space.knob(role).values) > 1
        assert not plan.space.knob(role).frozen
    in_fp8 = [p for p in plan.space.only if plan.space.value(p, "precision") == "fp8"]
    assert len({plan.space.value(point, knobs[0]) for point in in_fp8}) == 3


@each(
    ("path", "text", "key", "value", "freed"),
    [
        (
            "launch.yaml",
            LAUNCH.replace(", fsdp_activation_checkpointing: true", ""),
            "fsdp_config.fsdp_reshard_after_forward",
            False,
            "sharding",
        ),
        ("a.yaml", f"{AXOLOTL}fp8: true\n", "fp8_all_gather", True, "fp8"),
        (
            "a.toml",
            'max_steps = 9\n[model]\nname = "Qwen/Qwen3-8B"\n'
            "[data]\nbatch_size = 64\nseq_len = 8192\n",
            "precision",
            "fp8",
            "fp8",
        ),
    ],
)
def test_a_knob_of_some_trainers_is_written_and_lints_clean(
    tmp_path, monkeypatch, path, text, key, value, freed
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sft.yaml").write_text(TRAINING)
    config = config_of(path, text, *["sft.yaml"] * (path == "launch.yaml"))
    plan = planned(config, freed)
    (knob,) = (k for k in plan.space.knobs if k.key == key)
    assert not knob.frozen
    assert len(knob.values) == 2
    keys = config.job.keys_for({key: value})
    _, after = write_job(config, [Choice(*each) for each in keys.items()])
    assert after.job[key] == value
    check_tuned(config, after)


def test_fp8_of_transformer_engine_has_its_own_recipes():
    """torchao's key would start a second FP8 beside it, or do nothing."""
    text = AUTOMODEL.replace("backend: {", "backend: {te_fp8: {recipe: block}, ")
    config = config_of("a.yaml", text)
    plan = planned(config, "fp8")
    free = [knob.role for knob in plan.space.knobs if not knob.frozen]
    assert free == ["micro_batch", "ac", "te_recipe"]
    assert plan.space.knob("te_recipe").values == ("block", "current")
    values = plan.space.values(plan.baseline)
    assert values["precision"] == "fp8"
    size = {"step_scheduler.local_batch_size": 4}
    assert config.job.keys_for(values) == size
    assert config.job.keys_for(values | {"te_recipe": "current"}) == {
        **size,
        "model.backend.te_fp8.recipe": "current",
    }


def test_a_knob_is_kept_whose_other_values_need_one_that_cannot_be_written():
    text = MEGATRON.replace("--fp8-format hybrid", "").replace(
        "transformer_engine", "local"
    )
    plan = without_idle(planned(config_of("a.sh", text), "fp8"))
    said = {offer.knob.role: offer.why for offer in plan.offers}
    assert said["precision"] == said["te_recipe"] == told("transformer_impl")
    assert said["fp8_parameters"] == "no setting can have another value"
    assert said["micro_batch"] == ""


def test_nothing_left_to_vary_is_refused():
    text = MEGATRON.replace("batch-size 2 ", "batch-size 1 ")
    config = config_of("a.sh", text.replace("batch-size 32", "batch-size 8"))
    plan = planned(config)
    with pytest.raises(CannotSearch) as error:
        check_varied(plan)
    assert str(error.value) == (
        f"a.sh: ac cannot be varied: {told('recompute_activations')}"
    )


def test_the_padding_of_a_vocabulary_follows_from_its_tensor_parallelism():
    config = config_of("a.sh", MEGATRON)
    plan = planned(config, "tp")
    key = "tensor_model_parallel_size"
    _, after = write_job(config, [Choice(key, 4)])
    assert plan.space.knob("tp").values == (1, 2, 4, 8)
    assert not plan.space.knob("tp").frozen
    sizes = [job["vocab_size"] for job in (config.job, after.job)]
    assert sizes == [50304, 50688]
    assert config.job.with_values({"tp": 4})["vocab_size"] == 50688


def test_the_answer_of_a_search_says_what_was_kept(project, fp8tune, without_plots):
    records = [
        {
            "knobs": {"micro_batch_size": size, "ac": ac},
            "outcome": "ok",
            "tokens_per_second": 100.0 * size + 50 * (ac == "none"),
            "peak_gib": 10.0,
            "cost_s": 60.0,
        }
        for size in (1, 2, 4)
        for ac in ("none", "full")
    ]
    lines = "".join(f"{json.dumps(each)}\n" for each in records)
    project({"a.yaml": AXOLOTL, "r.jsonl": lines})
    options = ("--runner", "replay", "--records", "r.jsonl", "--budget", "2h")
    done = fp8tune("search", "a.yaml", *options, "--output-format", "json")
    answer = done.json
    (kept,) = (f for f in answer["findings"] if f["code"] == "knob-kept")
    why = told("fsdp_config.activation_checkpointing")
    assert (kept["knob"], kept["why"]) == ("ac", why)
    assert answer["knobs"]["micro_batch_size"] == 4
    assert f"ac is kept: {why}" in done.err
