"""Figures of a run: what a healthy and a disturbed curve give."""

import json
import math
import random
from pathlib import Path

import pytest

from fp8tune.job import Unknown
from fp8tune.verify.disturbances import divergence, early_divergence
from fp8tune.verify.evidence import Calls, Curve, Log, Mention, Trace
from fp8tune.verify.figures import Figures
from tests.each import each

RECORDED = Path(__file__).parents[2] / "benchmarks" / "results"


def curve(**columns):
    """A curve of steps 1, 2, ... with these columns."""
    made = Curve()
    length = max(map(len, columns.values()))
    columns.setdefault("step", range(1, length + 1))
    for row in range(length):
        made.add(**{name: values[row] for name, values in columns.items()})
    return made


def figures(*traces, **columns):
    starts = [curve(**columns)] if columns else []
    return Figures([Log("run.log", trainer="kempnerforge", starts=starts)], traces)


def value(of, name):
    try:
        return of[name]
    except Unknown:
        return None


def falling(steps, start=10.8, end=3.0, noise=0.02, seed=0):
    generator = random.Random(seed)
    return [
        end + (start - end) * math.exp(-step / 60) + generator.gauss(0, noise)
        for step in range(steps)
    ]


def recorded():
    text = (RECORDED / "seed_curves.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


def test_recorded_runs_diverge_where_their_learning_rate_is_300_times_too_high():
    found = {1.0: [], 300.0: []}
    for run in recorded():
        made = curve(loss=run["losses"], grad_norm=run["grad_norms"])
        found[run["times"]].append(bool(early_divergence(made) or divergence(made)))
    counts = {times: (sum(each), len(each)) for times, each in found.items()}
    assert counts == {1.0: (0, 32), 300.0: (9, 12)}


def test_noisy_healthy_curves_do_not_diverge():
    generator = random.Random(1)
    for _ in range(500):
        start = generator.choice([1.2, 2.5, 11.0])
        losses = falling(
            generator.choice([30, 60, 400]),
            start,
            start * generator.choice([0.3, 0.7, 1.0]),
            generator.choice([0.01, 0.05, 0.2, 0.5]),
            generator.random(),
        )
        made = curve(loss=losses)
        assert (divergence(made), early_divergence(made)) == (None, None)


def rises(losses, at, to, over=10):
    """The losses, but from one row on they rise to a value and stay there."""
    first = losses[at]
    rest = range(len(losses) - at)
    up = [first + (to - first) * min(1.0, row / over) for row in rest]
    return [*losses[:at], *up]


@each(
    ("losses", "early", "late"),
    [
        (rises(falling(40), 20, 11.5), 28, 25),
        (rises(falling(300), 200, 6.0), None, 210),
        (rises(falling(300), 200, 4.0), None, None),  # a little: other data, noise
        ([10.8] * 5, None, None),
        ([], None, None),
        ([10.8, 10.9, math.nan, 11.9] + [11.5 + 0.1 * row for row in range(30)], 9, 8),
    ],
    ids=range(6),
)
def test_divergence(losses, early, late):
    run = figures(loss=losses) if losses else figures()
    found = value(run, "log.early_diverged_step"), value(run, "log.diverged_step")
    near = [
        (a is None) == (b is None) and (a is None or abs(a - b) <= 3)
        for a, b in zip(found, (early, late), strict=True)
    ]
    assert near == [True, True], found


@each(
    ("name", "columns", "expected"),
    [
        ("log.steps", {"loss": [3.0] * 7}, 7),
        ("log.last_step", {"step": [40, 50], "loss": [3.0, 2.0]}, 50),
        ("log.first_nan_step", {"loss": [9.0] * 10 + [math.nan] * 3}, 11),
        ("log.first_nan_step", {"loss": [9.0, math.inf, 8.0]}, 2),
        ("log.spike_step", {"grad_norm": [1.0] * 30 + [9.0] + [1.0] * 9}, 31),
        ("log.spike_ratio", {"grad_norm": [1.0] * 30 + [9.0] + [1.0] * 9}, 9.0),
        ("log.spikes", {"grad_norm": [30 / (row + 1) for row in range(40)]}, 0),
        ("log.spikes", {"grad_norm": [1.0] * 9}, None),
        ("log.first_step_s", {"step_s": [90.0] + [2.0] * 30}, 90.0),
        ("log.slowdown", {"step_s": [9.0] * 5 + [2.0] * 20 + [3.0] * 20}, 0.5),
        (
            "log.slowdown",
            {"tokens_per_second": [1.0] * 5 + [3.0] * 20 + [2.0] * 20},
            0.5,
        ),
        ("log.slowdown", {"step_s": [2.0] * 9}, None),
        ("log.stalled_steps", {"step_s": [1.0] * 30 + [9.0] + [1.0] * 5 + [9.0]}, 2),
        ("log.stall_every", {"step_s": [1.0] * 20 + [5.0, 5.0, 1.0, 5.0] * 2}, 0),
        ("log.mfu", {"mfu": [1.0] * 5 + [54.0] * 20}, 54.0),
    ],
)
def test_a_figure_of_a_curve(name, columns, expected):
    found = value(figures(**columns), name)
    assert found == (expected if expected is None else pytest.approx(expected))


def test_figures_are_of_the_last_start_and_of_the_log_with_the_steps():
    short, long = curve(loss=[9.0] * 30), curve(loss=[5.0] * 4)
    log = Log("a", trainer="kempnerforge", starts=[short, long, Curve()])
    log.settings["max_steps"] = "2,000"
    log.sign_counts["checkpoint-saved"] = 3
    log.mentions.append(Mention("asks", "x", 1, "y"))
    run = Figures([Log("b"), log], [])
    names = ("steps", "last_step", "max_steps", "checkpoints", "fp8")
    assert [value(run, f"log.{name}") for name in names] == [0, 4, 2000, 3, True]
    log.events["checkpoint"] = 7
    assert Figures([log], [])["log.checkpoints"] == 7
    assert value(Figures([Log("c")], []), "log.checkpoints") is None


def trace(rank=0, **fields):
    return Trace("t.json", device="cuda", rank=rank, span_us=1000.0, **fields)


def test_figures_of_traces():
    waits = {"cudaStreamSynchronize": Calls(60, 9.0), "aten::item": Calls(4, 1.0)}
    shown = trace(
        busy_us=400.0,
        nccl_alone_us=100.0,
        gpu_us=450.0,
        kernels=30,
        steps=2,
        waits=waits,
        data=Calls(2, 300.0),
        recompiles=3,
    )
    run = Figures([], [trace(1), shown, Trace("cpu.json", device="cpu")])
    expected = {
        "idle_share": 0.6,
        "nccl_share": 0.1,
        "kernel_us": 15.0,
        "waits_per_step": 32.0,
        "most_waits": "cudaStreamSynchronize",
        "data_share": 0.3,
        "recompiles": 3,
        "slow_rank": None,
    }
    assert {name: value(run, f"trace.{name}") for name in expected} == expected


def test_the_slow_rank_is_the_one_that_computes_longest():
    times = {0: 100.0, 1: 100.0, 2: 140.0, 3: 101.0}
    traces = [trace(rank, gpu_us=us + 50, nccl_us=50.0) for rank, us in times.items()]
    run = Figures([], traces)
    assert run["trace.slow_rank"] == 2
    assert run["trace.slow_rank_excess"] == pytest.approx(0.4)
    assert value(Figures([], traces[:2]), "trace.slow_rank") is None
