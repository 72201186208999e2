"""Published runs of torchtitan, predicted from their TOML."""

import tomllib

from benchmarks.torchtitan.published import RUNS, job_of, reserved_gib
from fp8tune.trainers.torchtitan.memory import BANDS
from tests.each import each

DATA = tomllib.loads(RUNS.read_text(encoding="utf-8"))
FAR = {"70B, 256 H100, TP8, FP8": 0.14}
"""Errors of memory above 5 %."""


@each("run", DATA["run"], ids=lambda run: run["name"])
def test_memory_is_within_five_percent(run):
    job = job_of(run, DATA["base"])
    off = reserved_gib(job) / run["peak_gib"] - 1
    assert abs(off) < FAR.get(run["name"], 0.05)
    below, above = BANDS[job["estimate_family"]]
    assert -below < 1 / (1 + off) - 1 < above
