"""``fp8tune search`` on records that hold runs for their losses."""

import pytest

from tests.search.losses.runs import curve, learned, seeds
from tests.search.replayed import CONFIG, RECORDS, answered
from tests.search.tries import but

WITH_WARMUP = f"{CONFIG}\n[scheduler]\nwarmup_steps = 8  # as published\n"
LEARNED = [*seeds(), *seeds("fp8")]
SHORTER = [*seeds(warmup=2, count=2), *seeds("fp8", warmup=2, count=2)]
LOST = [*seeds(), *(run._replace(nan=True) for run in seeds("fp8"))]


def records(*runs):
    return [*RECORDS, *map(learned, runs)]


def told(replay, runs, *arguments, config=WITH_WARMUP):
    return answered(replay, records(*runs), *arguments, config=config)


def test_the_recorded_runs_are_compared(replay):
    code, said = told(replay, LEARNED)
    assert code == 0
    assert said["verdict"] == "faster"
    assert said["knobs"]["train.batch_size"] == 4
    assert said["stability"]["verdict"] == "inside"
    assert said["stability"]["proposed_warmup_steps"] == 8
    assert (said["trials"], said["seconds"]) == (17, 690.0)


def test_the_warmup_is_proposed_and_written_only_when_asked(replay, project):
    _, said = told(replay, [*LEARNED, *SHORTER])
    path = project({}) / "a.tuned.toml"
    assert said["stability"]["proposed_warmup_steps"] == 2
    assert "warmup_steps = 8  # as published\n" in path.read_text()
    for name in ("warmup", "warmup_steps", "scheduler.warmup_steps"):
        _, said = told(replay, [*LEARNED, *SHORTER], "--allow", name)
        assert said["stability"]["verdict"] == "inside"
        text = path.read_text()
        assert "warmup_steps = 2  # as published\n" in text
        assert "# fp8tune search: 8 -> 2: the shortest tried in which" in text


@pytest.mark.parametrize(("runs", "code"), [(LOST, 1), (LEARNED, 0)])
def test_what_fp8_learns_is_compared_whatever_the_aim(replay, runs, code):
    """Runs for their losses tell no watts."""
    saving = [
        but(record, tokens_per_joule=record.tokens_per_second / 500)
        for record in RECORDS
    ]
    known = [*saving, *map(learned, runs)]
    aim = ("--objective", "tokens-per-joule")
    found, said = answered(replay, known, *aim, config=WITH_WARMUP)
    verdict = "diverged" if code else "inside"
    assert (found, said["stability"]["verdict"]) == (code, verdict)
    assert (said["knobs"] is None) == bool(code)


def test_records_of_another_warmup_are_none_of_this_config(replay):
    code, said = told(replay, LEARNED, config=CONFIG)
    assert code == 0
    assert said["stability"] == {"verdict": None, "why": "no loss run is recorded"}


def test_a_record_of_no_setting_here_is_passed_over(replay):
    odd = learned(curve("fp8", seed=99))
    odd.knobs["train.batch_size"] = 64
    code, said = answered(replay, [*records(*LEARNED), odd], config=WITH_WARMUP)
    assert (code, said["stability"]["verdict"]) == (0, "inside")
