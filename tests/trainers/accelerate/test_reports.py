"""Where findings point, and what the summary says is missing."""

import pytest

from fp8tune.job import Target
from fp8tune.lint.builtin import read_builtin
from fp8tune.lint.engine import check
from fp8tune.lint.ruleset import Rules

LAUNCH = b"distributed_type: MULTI_GPU\nmixed_precision: fp8\nnum_processes: 8\n"
BACKEND = b"fp8_config: {backend: AO, enable_fsdp_float8_all_gather: false}\n"
ARGUMENTS = "output_dir: out\nbf16: false\n"


def report_on(launch, beside=(), gpu=""):
    rules, version = Rules(read_builtin(), {}), "accelerate==1.15.0"
    target = Target(gpu)
    return check("launch.yaml", launch, rules, target, only=version, beside=beside)


def test_findings_on_fp8_point_at_the_launch_file(tmp_path):
    (arguments := tmp_path / "sft.yaml").write_text(ARGUMENTS)
    found = report_on(LAUNCH + BACKEND, (str(arguments),), "a100").diagnostics
    places = {d.rule: (d.path, d.key, d.region.line) for d in found}
    here = "launch.yaml", "mixed_precision", 2
    assert places["fp8-ends-on-this-gpu"] == here
    assert places["fp8-without-compile"][0::2] == here[0::2]


def test_a_backend_that_is_not_named_is_missing(tmp_path):
    (arguments := tmp_path / "sft.yaml").write_text(ARGUMENTS + "torch_compile: true\n")
    report = report_on(LAUNCH, (str(arguments),))
    assert report.unjudged["fp8-weights-not-saved"] == "fp8_backend"
    assert report.diagnostics == []


@pytest.mark.parametrize("model", ["meta-llama/Llama-3.1-8B", "Qwen/Qwen3-30B-A3B"])
def test_fp8_is_not_turned_off_where_the_model_can_be_compiled(tmp_path, model):
    arguments = tmp_path / "sft.yaml"
    arguments.write_text(f"{ARGUMENTS}model_name_or_path: {model}\n")
    found = report_on(LAUNCH + BACKEND, (str(arguments),)).diagnostics
    (slow,) = (d for d in found if d.rule == "fp8-without-compile")
    assert (slow.fix, slow.help) == (
        None,
        "compile the model (`torch_compile` in the training arguments), "
        "or train in bf16 if the model cannot be compiled",
    )
