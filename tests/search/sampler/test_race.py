"""The race of samplers: what it counts, and that it goes on where it was stopped."""

import json

import pytest

from benchmarks.search import samplers
from benchmarks.search.landscape import STEPS, world
from fp8tune.trials.record import Record


def test_heavy_landscapes_change_only_the_time_of_trials():
    light, heavy = world(3), world(3, heavy=True)
    given = heavy.truth[heavy.given]
    assert 10 <= given.step_s <= 60
    for point, truth in heavy.truth.items():
        before = light.truth[point]
        longer = STEPS * (truth.step_s - before.step_s)
        assert truth.seconds == pytest.approx(before.seconds + longer)
        same = {"step_s": 0.0, "seconds": 0.0}
        assert truth._replace(**same) == before._replace(**same)
        if truth.outcome == "ok":
            tokens = truth.step_s * truth.tokens_per_second
            assert tokens == pytest.approx(given.step_s * given.tokens_per_second)


@pytest.mark.parametrize(
    ("step_s", "steps"), [(1.0, 15), (10.0, 6), (20.0, 3), (60.0, 3)]
)
def test_a_trial_takes_a_minute_of_steps_and_at_least_three(step_s, steps):
    start = 30.0
    times = (1e3 * step_s,) * 12
    record = Record({}, "ok", 1.0, times, cost_s=start + STEPS * step_s)
    assert samplers.cost(record) == pytest.approx(start + steps * step_s)


def test_a_race_that_was_stopped_goes_on(tmp_path, capsys):
    """A row that is there is not run again, and the table has all rows."""
    path = tmp_path / "rows.jsonl"
    given = ["--rows", str(path), "--first", "9", "--estimates", "none"]
    assert samplers.main([*given, "--count", "1", "--arms", "ours"]) == 0
    (row,) = samplers.rows(path)
    assert (row["arm"], row["heavy"], row["ended"]) == ("ours", True, True)
    assert row["fraction_20"] <= row["fraction_30"] <= row["fraction_60"] <= 1
    path.write_text(json.dumps({**row, "trials": 99}) + "\n")
    assert samplers.main([*given, "--count", "1", "--arms", "ours", "random"]) == 0
    kept, other = samplers.rows(path)
    assert (kept["trials"], other["arm"]) == (99, "random")
    assert capsys.readouterr().out.count("| random |") == 2
