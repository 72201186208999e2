"""The race of samplers: what it counts, and that it goes on where it was stopped."""

import json
import statistics

import pytest

from benchmarks.search import samplers
from benchmarks.search.landscape import world


def test_heavy_landscapes_accumulate_as_many_tokens_in_every_setting():
    light, heavy = world(3), world(3, heavy=True)
    given = heavy.truth[heavy.given]
    assert 10 <= given.step_s <= 60
    for point, truth in heavy.truth.items():
        same = {"micro_s": 0.0, "accumulated": 1}
        assert truth._replace(**same) == light.truth[point]._replace(**same)
        if truth.outcome == "ok":
            tokens = truth.step_s * truth.tokens_per_second
            assert tokens == pytest.approx(given.step_s * given.tokens_per_second)


def test_trials_of_long_steps_run_some_micro_batches_and_repeats_compile_faster():
    place = world(3, heavy=True)
    point = max(place.truth, key=lambda p: place.truth[p].compile_s > 0)
    truth = place.truth[point]
    knobs = place.space.values(point)
    first, *later = (r for r in place.records() if r.knobs == knobs)
    assert truth.accumulated > 4
    stepping = first.cost_s - 0.95 * (truth.start_s + truth.compile_s)
    assert 0 < stepping < 4 * truth.step_s
    assert max(r.cost_s for r in later) < first.cost_s
    step_ms = statistics.median(first.step_ms)
    assert step_ms == pytest.approx(1e3 * truth.step_s, rel=0.01)


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
