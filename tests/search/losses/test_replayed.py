"""``fp8tune search`` on records that hold runs for their losses."""

import pytest

from fp8tune.search.answer.wording import UNTIED
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
    assert (code, said["verdict"], said["knobs"]["train.batch_size"]) == (
        0,
        "faster",
        4,
    )
    assert said["stability"]["verdict"] == "inside"
    assert said["stability"]["proposed_warmup_steps"] == 8
    assert (said["trials"], said["seconds"]) == (17, 690.0)


@pytest.mark.parametrize("tied", [True, False])
def test_a_comparison_of_two_models_says_so(replay, tied):
    config = f"{WITH_WARMUP}[model]\ntie_embeddings = {str(tied).lower()}\n"
    _, said = told(replay, LEARNED, config=config)
    assert said["stability"]["limits"].endswith(f"; {UNTIED}") is tied


def test_the_same_again(replay):
    assert told(replay, LEARNED) == told(replay, LEARNED)


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


def test_a_setting_that_diverges_is_not_written(replay, project):
    code, said = told(replay, LOST)
    assert (code, said["knobs"], said["output"]) == (1, None, None)
    assert said["stability"]["verdict"] == "diverged"
    assert not (project({}) / "a.tuned.toml").exists()


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


LONG = WITH_WARMUP.replace("= 8  # as", "= 2000  # as")
HARSH, OWN = {"given": 2000}, {"given": 2000, "warmup": 2000}


def nan(**how):
    return [*seeds(**how), *(run._replace(nan=True) for run in seeds("fp8", **how))]


def test_a_warmup_that_no_run_holds_hides_no_divergence(replay, project):
    harsh = nan(warmup=16, **HARSH)
    code, said = told(replay, [*harsh, *nan(**OWN)], config=LONG)
    assert (code, said["knobs"], said["stability"]["verdict"]) == (1, None, "diverged")
    code, said = told(replay, harsh, config=LONG)
    assert (code, said["verdict"], said["stability"]["verdict"]) == (
        0,
        "inconclusive",
        "inconclusive",
    )
    text = (project({}) / "a.tuned.toml").read_text().replace("\n# fp8tune search:", "")
    assert (
        "FP8 may diverge: it did in 3 of 3 seeds, bf16 in 0, with a warmup of 16"
        in text
    )


def test_bf16_in_its_place_where_that_is_allowed(replay, project):
    code, said = told(replay, LOST, "--allow", "precision")
    assert (code, said["knobs"]["train.mixed_precision"]) == (0, "bf16")
    assert said["stability"]["verdict"] == "diverged"
    comments = (project({}) / "a.tuned.toml").read_text()
    why = "rejected: batch_size = 4: FP8 diverged in 3 of 3 seeds, bf16 in 0"
    assert f"# fp8tune search: {why}" in comments


def test_that_fp8_was_rejected_is_said_first(replay):
    known = records(*LOST)
    done = replay(known, "--allow", "precision", config=WITH_WARMUP)
    lines = [line for line in done.out.splitlines() if "rejected" in line]
    assert lines[0].startswith("FP8 is rejected: it does not learn as bf16 does")
    assert "rejected" not in replay(records(*LEARNED), config=WITH_WARMUP).out


def test_records_of_another_warmup_are_none_of_this_config(replay):
    code, said = told(replay, LEARNED, config=CONFIG)
    assert code == 0
    assert said["stability"] == {"verdict": None, "why": "no loss run is recorded"}


@pytest.mark.parametrize("name", ["warmups", "warmup_step"])
def test_a_misspelt_knob(replay, name):
    done = replay(records(*LEARNED), "--allow", name, config=WITH_WARMUP)
    assert done.code == 2
    assert "did you mean `warmup" in done.err


def test_a_record_of_no_setting_here_is_passed_over(replay):
    odd = learned(curve("fp8", seed=99))
    odd.knobs["train.batch_size"] = 64
    code, said = answered(replay, [*records(*LEARNED), odd], config=WITH_WARMUP)
    assert (code, said["stability"]["verdict"]) == (0, "inside")
