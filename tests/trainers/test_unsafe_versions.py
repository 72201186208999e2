"""Versions pinned beside configs of all trainers that compute in FP8 by torchao."""

import pytest

from fp8tune.job import Target
from fp8tune.lint.builtin import read_builtin
from fp8tune.lint.engine import check
from fp8tune.lint.ruleset import Rules
from fp8tune.trainers.packages import pinned
from tests import sample

RULES = ("versions-that-give-nan", "versions-that-fail", "versions-that-lose-fp8")
UNSAFE = "torch==2.14.1\ntorchao==0.17.0\ntransformers==4.57.6\n"
LLAMA = "[model]\nname = 'llama3'\nflavor = '8B'\n"
COMPILED = "[compile]\nenable = true\n"
AXOLOTL = sample.AXOLOTL.replace("4096", "8192")
AXOLOTL += "bf16: auto\ntorch_compile: true\nfp8: true\n"
LLAMAFACTORY = (
    f"# fp8tune: trainer=llamafactory==0.9.5\n{sample.LLAMAFACTORY}"
    "cutoff_len: 8192\noutput_dir: out\nfp8: true\ntorch_compile: true\n"
)
AUTOMODEL = """\
recipe: TrainFinetuneRecipeForNextTokenPrediction
step_scheduler:
  global_batch_size: 64
  local_batch_size: 8
model:
  _target_: nemo_automodel.NeMoAutoModelForCausalLM.from_pretrained
  pretrained_model_name_or_path: meta-llama/Llama-3.1-8B
fp8:
  enabled: true
distributed:
  strategy: ddp
compile:
  enabled: true
"""
PRIME = """\
[model]
name = "Qwen/Qwen3-8B"
[model.quantization]
type = "mxfp8"
[data]
seq_len = 4096
"""
NAN, FAIL = "versions-that-give-nan", "versions-that-fail"


@pytest.fixture
def found(tmp_path):
    """The rules on versions that fire on a config beside pinned versions."""

    def lint(name, text, pins):
        (tmp_path / "requirements.txt").write_text(pins)
        pinned.cache_clear()
        rules = [rule for rule in read_builtin() if rule.name in RULES]
        path = str(tmp_path / name)
        report = check(path, text.encode(), Rules(rules, {}), Target())
        return [
            (each.rule, each.message.partition(":")[0]) for each in report.diagnostics
        ]

    return lint


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("kempnerforge.toml", '[train]\nmixed_precision = "fp8"\n'),
        ("titan.toml", LLAMA + "converters = ['quantize.linear.float8']\n" + COMPILED),
        (
            "titan_0_1.toml",
            LLAMA + "converters = ['float8']\n[training]\ncompile = true\n",
        ),
        ("axolotl.yaml", AXOLOTL),
        ("llamafactory.yaml", LLAMAFACTORY),
        ("automodel.yaml", AUTOMODEL),
    ],
)
def test_nan_of_compiled_fp8_by_torchao(found, name, text):
    named = "torch 2.14.1 with torchao 0.17.0"
    assert found(name, text, UNSAFE) == [(NAN, named)]
    assert found(name, text, UNSAFE.replace("0.17.0", "0.18.0")) == []
    assert found(name, text, UNSAFE.replace("2.14.1", "2.16.0")) == []
    for bound in (
        ">=2.11",
        "<=2.14.1",
        "~=2.14.0",
        "==2.*",
        "<2.15",
        "==2.14.0.dev20260601",
    ):
        assert found(name, text, UNSAFE.replace("==2.14.1", bound)) == []


@pytest.mark.parametrize(
    ("text", "pins", "said"),
    [
        ("converters = ['quantize.linear.mx']\n", "torchao==0.17.0", "torchao 0.17.0"),
        ("converters = ['quantize.linear.mx']\n", "torchao==0.16.0", ""),
        (
            "converters = ['quantize.linear.float8']\n[quantize.linear.float8]\n"
            "filter_fqns = ['output', 'auto_filter_small_kn']\n",
            "torchao==0.11.0",
            "torchao 0.11.0",
        ),
    ],
)
def test_what_torchtitan_imports(found, text, pins, said):
    expected = [(FAIL, said)] * bool(said)
    assert found("a.toml", LLAMA + text, pins) == expected


def test_recipes_of_torchtitan_0_1(found):
    text = LLAMA + "converters = ['float8']\n[float8]\nrecipe_name = 'rowwise'\n"
    expected = [("versions-that-lose-fp8", "torchao 0.8.0")]
    assert found("a.toml", text, "torchao==0.8.0") == expected
    assert found("a.toml", text, "torchao==0.9.0") == []


def test_mxfp8_of_prime_rl(found):
    assert found("a.toml", PRIME, "torchao==0.18.0") == [(FAIL, "torchao 0.18.0")]
    assert found("a.toml", PRIME, "torchao==0.17.0") == []
