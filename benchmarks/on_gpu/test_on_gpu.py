"""A landscape of a GPU: every setting once, however often the command is given."""

from pathlib import Path

import pytest

from benchmarks.on_gpu import (
    landscape,
    linears,
    predicted,
    records,
    traces,
)
from fp8tune.job import Target
from fp8tune.runners.replay import Replay
from fp8tune.search.plan import config_to_search, plan_for_trials
from fp8tune.trials.record import LossRun, Record
from tests.search.tries import every

CONFIG = Path(__file__).parents[2] / "configs" / "llama3_7b_1xh200_fp8.toml"


@pytest.fixture(scope="module")
def plan():
    config = config_to_search(str(CONFIG), CONFIG.read_bytes(), Target("h200", 1))
    return plan_for_trials(config, ("precision",), "cuda")


def outcome(plan, point):
    values = plan.space.values(point)
    if plan.space.batch(point) > 2:
        return Record(values, "oom", cost_s=40.0)
    return Record(values, "ok", 1e4 + plan.space.batch(point), peak_gib=90.0, cost_s=90)


def test_every_setting_is_recorded_once(plan, tmp_path):
    runner = Replay([outcome(plan, point) for point in every(plan.space)], plan.space)
    path = tmp_path / "records.jsonl"
    first = list(landscape.run(plan, runner, path, 3600))
    again = list(landscape.run(plan, runner, path, 3600))
    found = [row.record for row in records.read(path)]
    assert (len(first), again) == (len(landscape.settings(plan)), [])
    assert [r._replace(extra={}) for r in found] == [record for _, record in first]
    assert {plan.space.point(r.knobs) for r in found} == set(every(plan.space))
    implied = [r for r in found if "smaller batch" in r.message]
    cells = {plan.space.cell(point) for point in every(plan.space)}
    assert len(implied) == len(cells)  # batch 8, after 4 ran out of memory


def test_the_given_cell_is_first_by_growing_batch(plan):
    first = landscape.settings(plan)[:4]
    assert {plan.space.cell(point) for point in first} == {
        plan.space.cell(plan.baseline)
    }
    assert [plan.space.batch(point) for point in first] == [1, 2, 4, 8]


def test_no_time_no_trial(plan, tmp_path):
    runner = Replay([], plan.space)
    assert list(landscape.run(plan, runner, tmp_path / "records.jsonl", 1)) == []


def measured(plan, **fields):
    values = plan.space.values(plan.baseline)
    return records.Measured(plan.config, Record(values, **fields))


def test_measured_beside_predicted(plan):
    how = LossRun(seed=1, warmup_steps=1, steps=4, config_warmup_steps=1)
    runs = [
        measured(plan, outcome="ok", tokens_per_second=1e4, peak_gib=85.0),
        measured(plan, outcome="ok", tokens_per_second=1.02e4, peak_gib=84.0),
        measured(plan, outcome="oom"),
        measured(plan, outcome="ok", tokens_per_second=1.0, loss_run=how),
    ]
    (row,) = predicted.compare(runs)
    assert (row.peak_gib, row.tokens_per_second) == (85.0, 1.01e4)
    assert row.between_runs == pytest.approx(0.014, rel=0.01)
    assert 60 < row.memory.low < row.memory.value < row.memory.high < 110
    assert row.speed.low < row.speed.value < row.speed.high
    assert row.setting == {
        "precision": "fp8",
        "micro_batch": 8,
        "grad_accum": 1,
        "ac": "full",
        "compile": True,
        "world_size": 1,
    }


def test_published_speed_is_beside_its_own_setting_alone(plan):
    def row(batch, precision):
        knobs = {"train.batch_size": batch, "train.mixed_precision": precision}
        record = Record(knobs, "ok", 1e4, peak_gib=85.0)
        (found,) = predicted.compare([records.Measured(plan.config, record)])
        return found.published

    every = [(b, p) for b in (2, 4) for p in ("bf16", "fp8")]
    assert [pair for pair in every if row(*pair)] == [(2, "bf16")]


def test_gain_of_settings_that_differ_in_precision_alone(plan):
    def run(batch, precision, speed):
        knobs = {"train.batch_size": batch, "train.mixed_precision": precision}
        return records.Measured(plan.config, Record(knobs, "ok", speed, peak_gib=85.0))

    runs = [run(2, "bf16", 1e4), run(2, "fp8", 1.3e4), run(4, "fp8", 1.4e4)]
    (gain,) = predicted.gains(predicted.compare(runs))
    assert (gain.measured, gain.setting["micro_batch"]) == (1.3, 2)
    assert 1.2 < gain.predicted < 1.5


def test_the_named_gpu_wins_over_the_header(plan, tmp_path):
    config = config_to_search(
        str(CONFIG), CONFIG.read_bytes(), records.target("h100-sxm", 4)
    )
    path = tmp_path / "records.jsonl"
    record = Record(plan.space.values(plan.baseline), "ok", 1e4, peak_gib=85.0)
    records.add(path, config, record)
    (read,) = records.read(path)
    target = read.config.job.target
    assert (target.gpu, target.world_size) == ("h100-sxm", 4)
    assert read.config.data == CONFIG.read_bytes()


def test_every_linear_that_fp8_converts(plan):
    found = list(linears.shapes(plan.config.job, 1024))
    assert {m for _, m, _, _ in found} == {512, 1024}
    assert {(k, n) for _, _, k, n in found} == {
        (4096, 4096),
        (4096, 1024),
        (4096, 14336),
        (14336, 4096),
        (4096, 128256),
    }


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch.compile's own
def test_a_linear_is_timed_by_its_kernels():
    (row,) = linears.measure([linears.Shape("q_proj", 16, 32, 64)], "cpu")
    assert row.bf16_ms > 0
    assert row.gain == row.bf16_ms / row.fp8_ms


def test_traces_are_told_apart_on_the_cpu(tmp_path):
    rows = list(traces.measure(traces.cases("cpu"), "cpu", tmp_path))
    assert [row["case"] for row in rows if row["word"] not in row["right"]] == []
    kept = {path.name.removesuffix(".json.gz") for path in tmp_path.iterdir()}
    assert kept == {row["case"] for row in rows}
