"""Searches that find a study: finished, damaged, cut off, killed."""

import random
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest

from fp8tune.search.saved_study import described, look
from tests.search.replayed import RECORDS, answered
from tests.search.tries import (
    AC,
    BATCH,
    COMPILE,
    without_numbers,
)
from tests.support.landscape import world

MEASURED_IN = re.compile("from trials? [0-9, and]+ of")


@pytest.fixture(scope="module")
def big():
    """A landscape and a config that starts on it."""
    place = world(8100)
    given = place.space.values(place.given)
    config = (
        f"[train]\nbatch_size = {given[BATCH]}\nmixed_precision = 'fp8'\n"
        f"activation_checkpointing = '{given[AC]}'\n"
        f"compile_model = {str(given[COMPILE]).lower()}\n"
    )
    return list(place.records()), config


def trials_of(study):
    """The trials of a folder without their numbers, which count the lost ones too."""
    return without_numbers(look(str(study))[1] if described(str(study)) else [])


def comparable(answer):
    """An answer without the numbers of trials."""
    code, said = answer
    return code, said | {"chosen_trials": len(said["chosen_trials"])}


def test_a_finished_study_answers_at_once(replay, big, tmp_path):
    records, config = big
    first = answered(replay, records, config=config)
    (study,) = (tmp_path / ".fp8tune").glob("*/")
    before = trials_of(study)
    assert answered(replay, records, config=config) == first
    said = f"continues study {study.name}, which has {first[1]['trials']} trials\n"
    assert replay(records, config=config).out.startswith(said)
    assert trials_of(study) == before


def test_the_budget_that_should_settle_it_goes_on_with_the_study_and_does(
    replay, tmp_path
):
    """The first one was too short to measure again."""
    small = answered(replay, RECORDS, budget="4m")[1]
    doubt = next(each for each in small["findings"] if "budget_s" in each)
    assert (small["verdict"], doubt["code"]) == ("inconclusive", "not-confirmed")
    study = tmp_path / small["study"]
    before = trials_of(study)
    more = f"{doubt['budget_s']}s"
    done = replay(RECORDS, "--output-format", "json", budget=more)
    assert f"continues study {study.name}, which has {len(before)} tri" in done.err
    assert trials_of(study)[: len(before)] == before
    assert (done.json["verdict"], done.json["study"]) == ("faster", small["study"])


def test_another_storage_and_an_export(replay, fp8tune, tmp_path):
    usual = answered(replay, RECORDS)[1]
    there = ("--storage", "sqlite:///x.db", "--export", "trials.jsonl")
    first = answered(replay, RECORDS, *there, "--studies", "other")[1]
    exported = (tmp_path / "trials.jsonl").read_bytes()
    assert {**first, "study": usual["study"]} == usual
    assert exported == (tmp_path / usual["study"] / "trials.jsonl").read_bytes()
    assert replay(RECORDS, *there, "--studies", "other").out.startswith("continues")
    assert (tmp_path / "trials.jsonl").read_bytes() == exported
    done = fp8tune("report", first["study"])
    assert done.code == 2
    assert "no study found here; a study in a database needs --sto" in done.err
    assert fp8tune("report", first["study"], *there[:2]).code == 0
    names = {path.name for path in (tmp_path / first["study"]).iterdir()}
    assert names == {"lock", "report.html", "trials.jsonl"}
    again = replay((tmp_path / "trials.jsonl").read_text(), "--output-format", "json")
    assert again.json["knobs"] == usual["knobs"]


@pytest.mark.parametrize("place", ["a.toml", "r.jsonl", "a.tuned.toml", "no/t.jsonl"])
def test_an_export_that_would_replace_something(replay, tmp_path, place):
    done = replay(RECORDS, "--export", place)
    assert (done.code, done.out) == (2, "")
    assert f"{place}: " in done.err
    assert not (tmp_path / ".fp8tune").exists()


def test_a_study_with_a_setting_that_is_none(replay, tmp_path):
    replay()
    (path,) = tmp_path.glob(".fp8tune/*/study.journal")
    text = path.read_text().replace('"train.batch_size":2.0', '"train.batch_size":3.0')
    path.write_text(text)
    done = replay()
    assert (done.code, done.out) == (2, "")
    assert "study.journal: trial 0: not a setting of this search" in done.err
    assert done.err.count("\n") == 1
    assert path.read_text() == text


def test_a_study_that_was_cut_off_anywhere_ends_with_the_same_answer(
    replay, big, tmp_path
):
    records, config = big
    first = comparable(answered(replay, records, config=config))
    (study,) = (tmp_path / ".fp8tune").glob("*/")
    whole, trials = (study / "study.journal").read_bytes(), trials_of(study)
    draw = random.Random(1)
    for cut in [0, 1, len(whole) - 1, *(draw.randrange(len(whole)) for _ in range(12))]:
        (study / "study.journal").write_bytes(whole[:cut])
        again = answered(replay, records, config=config)
        assert comparable(again) == first
        assert trials_of(study) == trials
    shutil.rmtree(study)
    assert comparable(answered(replay, records, config=config)) == first


def test_a_search_that_is_killed_again_and_again(replay, big, tmp_path, monkeypatch):
    records, config = big
    expected = comparable(answered(replay, records, config=config))
    tuned = MEASURED_IN.sub("", (tmp_path / "a.tuned.toml").read_text())
    (study,) = (tmp_path / ".fp8tune").glob("*/")
    whole = trials_of(study)
    shutil.rmtree(study)
    (tmp_path / "a.tuned.toml").unlink()
    monkeypatch.setenv("PYTHONPATH", ":".join(sys.path))
    command = [sys.executable, "-m", "fp8tune", "search", "a.toml", "--budget", "2h"]
    command += ["--runner", "replay", "--records", "r.jsonl"]
    draw, kills, known = random.Random(2), 0, []
    while kills < 20:
        with subprocess.Popen(
            command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        ) as process:
            said = [process.stdout.readline() for _ in range(draw.randint(1, 3))]
            time.sleep(draw.random() * 0.05)
            process.send_signal(signal.SIGKILL)
        done = sum(line.startswith(b"  ") for line in said)
        left = trials_of(study)
        assert left == whole[: len(left)]  # nothing is lost, nothing comes otherwise
        assert len(left) >= len(known) + done
        known = left
        if process.returncode == -signal.SIGKILL:
            kills += 1
        if known == whole:  # it was done: once more
            shutil.rmtree(study)
            known = []
    assert comparable(answered(replay, records, config=config)) == expected
    assert trials_of(study) == whole
    assert MEASURED_IN.sub("", (tmp_path / "a.tuned.toml").read_text()) == tuned


def test_no_file_and_no_output_of_a_search_has_the_password(replay, tmp_path):
    """SQLite gets a parameter that it ignores; tests/cluster has a real password."""
    url = "sqlite:///file:x.db?uri=true&sslpassword=hunter2"
    done = replay(RECORDS, "--storage", url, "--export", "trials.jsonl")
    again = replay(RECORDS, "--storage", url, "--output-format", "json")
    wrong = replay(RECORDS, "--storage", url.replace("file:", "file:/none/of/that/"))
    assert (done.code, again.code, wrong.code) == (0, 0, 2)
    texts = [run.out + run.err for run in (done, again, wrong)]
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {"x.db", "report.html", "trials.jsonl", "a.tuned.toml"} <= {
        path.name for path in files
    }
    assert not [path for path in files if b"hunter2" in path.read_bytes()]
    assert not [text for text in texts if "hunter2" in text]
