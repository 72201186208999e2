"""What a search cannot start from, or leaves out, and what it says of it."""

import json
import os
import sys

import pytest

from fp8tune.extras import INSTALL
from fp8tune.search.study import FILES
from fp8tune.trials.record import LossRun
from tests.search.replayed import CONFIG, RECORDS
from tests.search.tries import (
    BEST,
    GIVEN,
    PRECISION,
    but,
    ran,
)


def files(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("no/b.toml", "no/b.toml: no folder"),
        (".", ".: Is a dir"),
        (
            "r.jsonl",
            "r.jsonl: this would replace the records; try --output a.tuned.toml",
        ),
    ],
)
def test_where_nothing_can_be_written_nothing_is_tried(replay, tmp_path, place, said):
    done = replay(RECORDS, "--output", place)
    assert (done.code, done.out) == (2, "")
    assert said in done.err
    assert not (tmp_path / ".fp8tune").exists()


def test_no_study_is_replaced(replay, tmp_path):
    folder = replay(RECORDS, "--output-format", "json").json["study"]
    trials = tmp_path / folder / "study.journal"
    before = trials.read_bytes()
    done = replay(RECORDS, "--output", f"{folder}/study.journal")
    assert (done.code, done.out) == (2, "")
    assert "this would replace what trials have measured; try --output" in done.err
    assert trials.read_bytes() == before


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("lost", [False, True])
def test_no_link_in_a_study_is_followed(replay, tmp_path, name, lost):
    """The folder may have come with somebody's repository."""
    folder = replay(RECORDS, "--output-format", "json").json["study"]
    mine, link = tmp_path / "mine.txt", tmp_path / folder / name
    if not lost:
        mine.write_bytes(link.read_bytes() if link.exists() else b"mine")
    link.unlink(missing_ok=True)
    link.symlink_to(mine)
    before = files(tmp_path)
    done = replay()
    assert (done.code, done.out) == (2, "")
    said = f"{folder}/{name}: a link, not a file of a search; remove it"
    assert done.err == f"fp8tune: {said}\n"
    assert files(tmp_path) == before


def test_nothing_waits_for_a_pipe_in_a_study(replay, tmp_path):
    folder = tmp_path / replay(RECORDS, "--output-format", "json").json["study"]
    for name in ("lock", "study.journal"):
        (folder / name).unlink()
        os.mkfifo(folder / name)
        done = replay()
        assert (done.code, done.out) == (2, "")
        assert (
            f"{name}: not a regular file, not a file of a search; remove it" in done.err
        )


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"records": "{\n"}, "r.jsonl: line 1: no JSON"),
        ({"records": ""}, "the records have no trial"),
        ({"budget": "soon"}, "'soon' is not a duration"),
        ({"budget": "0s"}, "must be more than 0"),
        ({"config": "[train\n"}, "a.toml:1:"),
        ({"config": "[project]\nname = 'x'\n[build-system]\n"}, "a Python project"),
    ],
)
def test_what_cannot_start(replay, options, said):
    done = replay(**options)
    assert done.code == 2
    assert done.out == ""
    assert said in done.err
    assert done.err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["a.toml", "--budget", "1h", "--gpu", "h1oo"], "no GPU named 'h1oo'; "),
        (["a.toml", "--budget", "1h", "--records", "no"], "no: No such file"),
        (
            ["a.toml", "--budget", "1h", "--records", "r", "--workers", "2"],
            "--runner replay needs no workers: no trial runs",
        ),
        (["a.toml"], "--budget"),
        (
            ["a.toml", "--budget", "1h", "--in-place", "--output", "b.toml"],
            "cannot be combined",
        ),
    ],
)
def test_bad_usage(project, fp8tune, arguments, said):
    project({"a.toml": CONFIG})
    done = fp8tune("search", *arguments, "--runner", "replay")
    assert (done.code, done.out) == (2, "")
    assert said in done.err


def test_all_missing_packages_are_named_at_once(project, fp8tune, monkeypatch):
    project({"a.toml": CONFIG})
    for name in ("numpy", "torchao"):
        monkeypatch.setitem(sys.modules, name, None)
    done = fp8tune("search", "a.toml", "--budget", "1h")
    assert done.code == 2
    assert done.err == f"fp8tune: search needs numpy, torchao: {INSTALL}\n"


@pytest.mark.parametrize(
    ("paths", "arguments", "said"),
    [
        (["a.toml"], ["no.toml"], "no.toml: No such file"),
        (["a.toml", "b.toml"], [], "2 train configs here, name one: a.toml, b.toml"),
        ([], [], "no train config here"),
    ],
)
def test_the_config_is_found_before_numpy(
    project, fp8tune, monkeypatch, paths, arguments, said
):
    project(dict.fromkeys(paths, CONFIG))
    monkeypatch.setitem(sys.modules, "numpy", None)
    done = fp8tune("search", *arguments, "--budget", "1h")
    assert (done.code, done.out) == (2, "")
    assert said in done.err


def test_records_of_a_study_say_nothing_of_the_replay(replay):
    """The study had other budgets, and tried all settings."""
    records = [ran(GIVEN, 100), *(ran((n, 1, 1, 1), 90 - n) for n in (0, 2, 3))]
    of_study = {"searched_all": True, "budget_s": 10.0, "stage": "confirm", "trial": 3}
    plain = replay(records, budget="4m").out.partition("report ")[0]
    assert "not all settings were tried" in plain
    told = [but(record, **of_study) for record in records]
    assert replay(told, budget="4m").out.partition("report ")[0] == plain


FREE = (
    *("others", "versions", "losses", "grad_norms", "all_step_ms", "discarded"),
    *("capacity_gib", "alloc_retries", "recompiles", "float8_matmuls", "power_w"),
    *("tokens_per_joule", "median_step_ms_95", "message", "environment"),
    *("stage_reached", "tokens_per_step", "synthetic_data", "settled", "grad_accum"),
    *("extrapolated", "extrapolation_error", "rehearsal", "gpu_busy", "micro_batches"),
)


@pytest.mark.parametrize(
    "odd", [None, "x", 10**400, [1e308] * 4, ["x", 1, None], {"torch": {}}, [{}]]
)
def test_further_fields_are_free(replay, odd):
    how = LossRun(seed=1, warmup_steps=1, steps=4, config_warmup_steps=1)._asdict()
    more = dict.fromkeys(FREE, odd)
    runs = [r.data() | {"loss_run": how} for r in RECORDS[2:4]]
    told = (each | more for each in (*(r.data() for r in RECORDS), *runs))
    lines = "".join(f"{json.dumps(each)}\n" for each in told)
    done = replay(lines)
    assert done.code == 0
    assert "chosen: batch_size = 4" in done.out
    assert "/report.html\n" in done.out


def test_a_trial_that_a_budget_cut_off_is_left_out(replay):
    cut = [
        ran(BEST, outcome=how, cost_s=9.0, more={"cut_off": True})
        for how in ("hang", "launch", "compile")
    ]
    note = (
        "3 records are left out: cut off by the end of a budget, so unusable under "
        "another one"
    )
    done = replay([*cut, *RECORDS])
    assert (done.code, done.err) == (0, f"note: {note}\n")
    assert done.out.partition("report ")[0] == replay().out.partition("report ")[0]
    done = replay(cut)
    said = f"fp8tune: the records have no trial to replay: {note}\n"
    assert (done.code, done.out, done.err) == (2, "", said)


def test_a_warmup_that_no_record_compares_is_said(replay):
    done = replay(RECORDS, "--allow", "warmup")
    why = "the records have no loss runs, so no warmup is tried"
    assert done.code == 0
    assert done.err == f"note: --allow warmup has no effect: {why}\n"


def test_a_trial_that_hung_while_there_was_time_stays(replay):
    """A study keeps its budget with every trial that was given up."""
    more = {"budget_s": 7200.0}
    hung = [
        r if r.knobs != ran(BEST).knobs else ran(BEST, outcome="hang", more=more)
        for r in RECORDS
    ]
    done = replay(hung)
    assert (done.code, done.err) == (0, "")
    assert "hung after" in done.out
    assert "--budget" not in done.out, "more time would not help"


def test_settings_that_the_trainer_refuses_together_are_left_out(replay):
    """Each value alone is one that it takes."""
    split = [
        r._replace(
            knobs={**r.knobs, "distributed.tp": 8},
            tokens_per_second=3 * r.tokens_per_second,
        )
        for r in RECORDS
        if r.knobs[PRECISION] == "fp8"
    ]
    done = replay([*RECORDS, *split], "--allow", "parallel")
    assert done.code == 0
    why = "FP8 does not work with tensor parallelism in this trainer"
    assert f"{len(split)} records are left out: {why}" in done.err
    assert "tp" not in done.out
    done = replay(split, "--allow", "parallel")
    assert (done.code, done.out) == (2, "")
    assert f"no trial to replay: {len(split)} records are left out: {why}" in done.err
