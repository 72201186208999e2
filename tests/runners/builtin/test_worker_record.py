"""What a worker's lines amount to."""

import math

import pytest
import torch

from fp8tune.runners.builtin.runner import last_line
from fp8tune.runners.builtin.worker import _failure, touch
from fp8tune.runners.builtin.worker_record import worker_record
from fp8tune.runners.process import WorkerResult
from tests.runners.builtin.small import spec

ECC = "uncorrectable ECC error encountered"


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED"), "oom"),
        (RuntimeError("CUDA error: out of memory\nCUDA kernel errors might"), "oom"),
        (torch.AcceleratorError(f"CUDA error: {ECC}\nCUDA kernel errors"), "launch"),
        (torch.AcceleratorError("CUDA error: device-side assert triggered"), "user"),
        (MemoryError(), "oom"),
        (ArithmeticError("NaN or infinity in loss"), "nan"),
        (RuntimeError("CUBLAS_STATUS_EXECUTION_FAILED"), "user"),
    ],
)
def test_what_a_worker_failed_of(error, kind):
    assert _failure(error)["kind"] == kind


def test_a_device_that_computes_is_touched():
    touch("cpu")


USER = {"kind": "user", "error": "E", "message": "m"}


def said(*events, ended="exit", stage="steady", code=1):
    return WorkerResult(list(events), ended, stage, code, 1.0)


@pytest.mark.parametrize(
    ("heard", "outcome"),
    [
        (said({"failed": {"kind": "oom", "error": "E", "message": "m"}}), "oom"),
        (said({"failed": {"kind": "nan", "error": "E", "message": "m"}}), "nan"),
        (said(ended="late", stage="steady"), "hang"),
        (said(ended="late", stage="build"), "launch"),
        (said(ended="late", stage="first_step"), "hang"),
        (said({"failed": USER}), "user"),
        (said({"failed": USER}, stage="import"), "launch"),
        (said({"failed": {**USER, "kind": "oom"}}, stage="gpu"), "launch"),
        (said(ended="late", stage="gpu"), "launch"),
        (said({"failed": USER}, stage="compile"), "compile"),
        (said({"failed": {**USER, "kind": "oom"}}, stage="compile"), "oom"),
        (said(ended="late", stage="convert"), "launch"),
        (said(ended="late", stage="compile"), "compile"),
        (said(code=-11, stage="compile"), "compile"),
        (said(code=-9, stage="compile"), "launch"),
        (said(code=-9, stage="import"), "launch"),
        (said(code=-9), "launch"),
        (said(code=-11), "launch"),
        (said(code=1), "launch"),
    ],
)
def test_how_a_trial_ends(heard, outcome):
    on_gpu = spec()._replace(device="cuda")
    assert worker_record({}, on_gpu, heard, "").outcome == outcome


@pytest.mark.parametrize(
    ("heard", "message"),
    [
        (said(code=-9), "killed in stage steady, probably because host memory ran out"),
        (
            said(code=-11),
            "the worker was killed by SIGSEGV in stage steady; its last line: why",
        ),
        (
            said(code=3, stage="build"),
            "the worker ended with code 3 in stage build; its last line: why",
        ),
        (said(ended="flood", code=-9), "the worker printed too much in stage steady"),
    ],
)
def test_what_is_said_of_one_that_broke_off(heard, message):
    last = "" if heard.code == -9 else "why"
    assert worker_record({}, spec(), heard, last).message == message


def test_how_long_import_and_compile_took_is_recorded():
    begun = {"import": 5.0, "build": 12.5, "compile": 13.0, "first_step": 43.0}
    stages = [{"stage": stage, "at": at} for stage, at in begun.items()]

    def times(count):
        record = worker_record({}, spec(), said(*stages[:count]), "")
        return record.import_s, record.compile_s

    assert [times(1), times(3), times(4)] == [(0, 0), (7.5, 0), (7.5, 30)]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("RuntimeError: no such kernel\n", "RuntimeError: no such kernel"),
        ("why\nW1121 21:52:30.123000 28094 torch/utils/_pytree.py:630] an Enum", "why"),
        ("[W1121 21:52:30.1 pool.cpp:9] Warning: unused\n\n", ""),
        ("USDT:2026-11-21 22:38:55 9725:9725 Handler.cpp:52] profiler_start\n", ""),
        ("ERROR:2026-11-21 no", "ERROR:2026-11-21 no"),
        ("a.py:1: FutureWarning: old\n  old()\n", ""),
        ("  what():  CUDA error\nframe #0: c10\n", "what():  CUDA error"),
    ],
)
def test_the_line_that_may_tell_a_cause(tmp_path, lines, expected):
    path = tmp_path / "stderr"
    path.write_text(lines, encoding="utf-8")
    assert last_line(path) == expected


DONE = {
    "step_ms": [1.0],
    "tokens_per_second_per_rank": 1.0,
    "peak_gib": 1.0,
    "reserved_gib": 1.0,
    "float8_matmuls": 0,
}


@pytest.mark.parametrize("speed", [math.inf, math.nan, -5.0, 0.0, "9", None])
def test_a_speed_that_is_none(speed):
    done = {**DONE, "tokens_per_second_per_rank": speed}
    found = worker_record({}, spec(mixed_precision="bf16"), said({"done": done}), "")
    assert (found.outcome, found.tokens_per_second) == ("launch", 0.0)
    assert found.message.startswith("the worker's report cannot be read: ")


def test_no_fp8_matmul_is_no_fp8():
    found = worker_record({}, spec(), said({"done": DONE}), "")
    assert found.outcome == "user"
    assert found.message == "FP8 was requested, but no FP8 matmul ran"


@pytest.mark.parametrize(
    ("ran", "recipe", "outcome"),
    [
        (15 * 2 * 3, "tensorwise", "ok"),
        (15 * 2 * 4 - 2, "tensorwise", "ok"),
        (15 * 2 * 3 - 1, "tensorwise", "user"),
        (15 * 2 * 2, "rowwise_with_gw_hp", "ok"),
    ],
)
def test_every_fp8_linear_ran_in_fp8(ran, recipe, outcome):
    done = {**DONE, "float8_matmuls": ran}
    made = spec()._replace(fp8_recipe=recipe)
    found = worker_record({}, made, said({"float8_linears": 15}, {"done": done}), "")
    assert found.outcome == outcome
    assert bool(found.message) == (outcome == "user")
