"""Searches of landscapes that were recorded: every setting of a config, run once."""

import itertools

import pytest

pytest.importorskip("optuna")

from benchmarks.search.recorded import (
    NOISE,
    landscapes,
    main,
    measured,
    page,
    world,
)
from fp8tune.trials.record import Record

CONFIG = """\
[train]
batch_size = 2
grad_accum_steps = 4
mixed_precision = "fp8"
activation_checkpointing = "full"
"""
SPEEDS = {("full", 8): 1500.0, ("none", 4): 2000.0}
"""Of AC and batch; 1000 tokens/s elsewhere."""


def recorded(ac, batch, precision):
    knobs = {
        "train.batch_size": batch,
        "train.activation_checkpointing": ac,
        "train.mixed_precision": precision,
    }
    if (ac, batch) == ("none", 8):
        return Record(knobs, "oom", cost_s=20.0)
    speed = SPEEDS.get((ac, batch), 1000.0) * (0.8 if precision == "bf16" else 1.0)
    peak = 10.0 + batch * (2.0 if ac == "none" else 0.5)
    return Record(
        knobs,
        "ok",
        speed,
        (500.0, 510.0),
        peak,
        peak,
        60.0,
        capacity_gib=25.0,
        environment="CPU, torch",
    )


@pytest.fixture
def landscape(tmp_path):
    grid = itertools.product(("none", "full"), (1, 2, 4, 8), ("bf16", "fp8"))
    lines = [recorded(*values).line() for values in grid]
    (tmp_path / "small.toml").write_text(CONFIG)
    (tmp_path / "results").mkdir()
    path = tmp_path / "results" / "landscape_small_cpu.jsonl"
    path.write_text("\n".join(lines) + "\n")
    (tmp_path / "results" / "landscape_gone_cuda.jsonl").write_text("")
    (found,) = landscapes(tmp_path, tmp_path)
    return found


def test_what_was_measured_is_the_truth(landscape):
    made = world(landscape, 1)
    fp8 = {p: t for p, t in made.truth.items() if made.space.allows(p, made.given)}
    values = made.space.values(made.given)
    assert (values["train.batch_size"], values["train.mixed_precision"]) == (2, "fp8")
    assert (len(made.truth), len(fp8), made.noise, made.capacity_gib) == (
        16,
        8,
        NOISE,
        25.0,
    )
    assert made.optimum == 2000.0
    assert sorted({t.outcome for t in fp8.values()}) == ["ok", "oom"]
    assert {t.step_s for t in fp8.values() if t.outcome == "ok"} == {0.505}


def test_whole_searches_on_it(landscape):
    rows = measured(landscape, range(3))
    assert [row["minutes"] for row in rows] == [20, 20, 20, 120, 120, 120]
    assert all(row["fraction"] == 1 for row in rows if row["minutes"] == 120)
    text = page(landscape, rows)
    assert "`landscape_small_cpu.jsonl`: 16 settings, of which 14 ran." in text
    assert "## small.toml (CPU, torch)" in text


def test_without_a_landscape_it_says_how_to_record_one(tmp_path, capsys):
    assert main(["--landscapes", str(tmp_path)]) == 1
    assert "python -m benchmarks.on_gpu landscape CONFIG" in capsys.readouterr().out
