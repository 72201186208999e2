"""What a worker's lines amount to."""

import pytest

from fp8tune.runners.builtin.told import record
from fp8tune.runners.builtin.worker import _failure
from fp8tune.runners.process import Heard
from tests.runners.builtin.small import spec


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling"), "oom"),
        (RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED"), "oom"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you"), "oom"),
        (RuntimeError("CUDA out of memory. Tried"), "oom"),
        (MemoryError(), "oom"),
        (ArithmeticError("NaN or infinity in loss"), "nan"),
        (RuntimeError("CUBLAS_STATUS_EXECUTION_FAILED"), "user"),
    ],
)
def test_what_a_worker_failed_of(error, kind):
    assert _failure(error)["kind"] == kind


USER = {"kind": "user", "error": "E", "message": "m"}


def said(*events, ended="exit", stage="steady", code=1):
    return Heard(list(events), ended, stage, code, 1.0)


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
        (said({"failed": USER}, stage="compile"), "compile"),
        (said({"failed": {**USER, "kind": "oom"}}, stage="compile"), "oom"),
        (said(ended="late", stage="convert"), "launch"),
        (said(ended="late", stage="compile"), "compile"),
        (said(code=-11, stage="compile"), "compile"),
        (said(code=-9, stage="compile"), "launch"),
        (said(code=-9), "launch"),
        (said(code=1), "launch"),
    ],
)
def test_how_a_trial_ends(heard, outcome):
    assert record({}, spec(), heard, "").outcome == outcome


def test_no_fp8_matmul_is_no_fp8():
    done = {
        "step_ms": [1.0],
        "tokens_per_second_per_rank": 1.0,
        "peak_gib": 1.0,
        "reserved_gib": 1.0,
        "float8_matmuls": 0,
    }
    found = record({}, spec(), said({"done": done}), "")
    assert (found.outcome, found.more["message"]) == (
        "user",
        "FP8 was asked for, and no FP8 matmul ran",
    )


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
    done = {
        "step_ms": [1.0],
        "tokens_per_second_per_rank": 1.0,
        "peak_gib": 1.0,
        "reserved_gib": 1.0,
        "float8_matmuls": ran,
    }
    made = spec()._replace(fp8_recipe=recipe)
    found = record({}, made, said({"float8_linears": 15}, {"done": done}), "")
    assert found.outcome == outcome
    assert ("message" in found.more) == (outcome == "user")
