"""LLaMA-Factory's file as the training arguments of a launch file."""

from fp8tune.formats.document import HOLE
from tests.each import each

LAUNCH = "distributed_type: MULTI_GPU\nnum_processes: 8\nmixed_precision: {}\n"
AO = LAUNCH.format("fp8") + "fp8_config: {backend: AO}\n"
TE = LAUNCH.format("fp8") + "fp8_config: {backend: TE}\n"
TRAINING = "training: {{model_name_or_path: m, stage: {}, do_train: true, "
TRAINING += "finetuning_type: full, dataset: d, cutoff_len: 512, output_dir: o{}}}\n"


def training(more="", stage="sft"):
    return TRAINING.format(stage, f", {more}" if more else "")


@each(
    ("launch", "more", "precision"),
    [
        (AO, "bf16: true", "bf16"),
        (AO, "bf16: false", "fp8"),
        (AO, "", "fp8"),  # off unless it is set, as in transformers
        (AO, "bf16: true, fp8: true", None),  # the release of transformers decides
        (AO, "bf16: true, fp8: false", "bf16"),
        (TE, "bf16: true", "fp8"),
    ],
)
def test_precision(job, launch, more, precision):
    assert job(launch + training(more)).find("precision") == precision


@each(("release", "precision"), [("4.57.6", None), ("5.2.0", None), ("5.6.0", "bf16")])
def test_fp8_of_its_own_has_no_effect_in_the_end(load, job, release, precision):
    known = job(AO + training("bf16: true, fp8: true"))
    known = known.with_values({"transformers_release": release})
    assert known.find("precision") == precision


@each(
    ("more", "stage", "rules"),
    [
        ("bf16: true", "sft", {"fp8-backend-off-by-arguments"}),
        ("bf16: true", "ppo", set()),  # a loop of its own
        ("bf16: false, fp8: true, fp8_backend: te", "sft", set()),
        ("torch_compile: true, use_cpu: 'false'", "sft", set()),
        ("bf16: true, fp16: true, fp8: true", "sft", set()),  # refused by its check
    ],
)
def test_rules_that_need_both_files(found, more, stage, rules):
    assert found(AO + training(more, stage)).keys() == rules


def test_what_it_reads_otherwise_is_left_to_its_own_check(job):
    """``max_length`` is for generation, and it checkpoints activations by itself."""
    known = job(AO + training("max_length: 64, torch_dtype: float16"))
    names = ("seq_len", "ac", "sizes", "training.max_length", "scaled_half_weights")
    assert [known.find(name) for name in names] == [None, None, None, None, False]


@each(
    ("words", "bf16"),
    [
        ("bf16=false", False),
        ("bf16=no", False),
        ("bf16", False),  # a key alone becomes null
        (f"bf16={HOLE}", None),
        ("lora_rank=8 output_dir=o", True),
    ],
)
def test_arguments_of_its_command_line(load, words, bf16):
    """They are YAML behind ``key=``."""
    loaded = load(AO + training("bf16: true"), command=f"src/train.py {words}")
    assert loaded.values.get("training.bf16") is bf16
