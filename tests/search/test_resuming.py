"""Searches that find a study: finished, damaged, cut off, killed."""

import random
import shutil
import signal
import subprocess
import sys
import time

import pytest

from benchmarks.search.landscape import world
from tests.search.replayed import answered
from tests.search.tries import (
    AC,
    BATCH,
    COMPILE,
)


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


def test_a_finished_study_answers_at_once(replay, big, tmp_path):
    records, config = big
    first = answered(replay, records, config=config)
    (study,) = (tmp_path / ".fp8tune").iterdir()
    before = (study / "trials.jsonl").read_bytes()
    assert answered(replay, records, config=config) == first
    said = f"goes on with study {study.name}, which has {first[1]['trials']} trials\n"
    assert replay(records, config=config).out.startswith(said)
    assert (study / "trials.jsonl").read_bytes() == before
    other = answered(replay, records, budget="1h", config=config)
    assert other[1]["study"] != first[1]["study"]


@pytest.mark.parametrize("damaged", ['"train.batch_size": 77', '"other": 2'])
def test_a_study_with_a_setting_that_is_none(replay, tmp_path, damaged):
    replay()
    (path,) = tmp_path.glob(".fp8tune/*/trials.jsonl")
    text = path.read_text().splitlines(keepends=True)
    text[1] = text[1].replace('"train.batch_size": 2', damaged)
    path.write_text("".join(text))
    done = replay()
    assert (done.code, done.out) == (2, "")
    assert "trials.jsonl:2: no setting of this search" in done.err
    assert done.err.count("\n") == 1
    assert path.read_text() == "".join(text)


def test_a_study_that_was_cut_off_anywhere_ends_with_the_same_answer(
    replay, big, tmp_path
):
    records, config = big
    first = answered(replay, records, config=config)
    (study,) = (tmp_path / ".fp8tune").iterdir()
    whole = (study / "trials.jsonl").read_bytes()
    draw = random.Random(1)
    for cut in [0, 1, len(whole) - 1, *(draw.randrange(len(whole)) for _ in range(12))]:
        (study / "trials.jsonl").write_bytes(whole[:cut])
        assert answered(replay, records, config=config) == first
        assert (study / "trials.jsonl").read_bytes() == whole
    shutil.rmtree(study)
    assert answered(replay, records, config=config) == first


def test_a_search_that_is_killed_again_and_again(replay, big, tmp_path, monkeypatch):
    records, config = big
    expected = answered(replay, records, config=config)
    tuned = (tmp_path / "a.tuned.toml").read_bytes()
    (study,) = (tmp_path / ".fp8tune").iterdir()
    whole = (study / "trials.jsonl").read_bytes()
    shutil.rmtree(study)
    (tmp_path / "a.tuned.toml").unlink()
    monkeypatch.setenv("PYTHONPATH", ":".join(sys.path))
    command = [sys.executable, "-m", "fp8tune", "search", "a.toml", "--budget", "2h"]
    command += ["--runner", "replay", "--records", "r.jsonl"]
    draw, kills, known = random.Random(2), 0, b""
    while kills < 20:
        with subprocess.Popen(
            command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        ) as process:
            said = [process.stdout.readline() for _ in range(draw.randint(1, 3))]
            time.sleep(draw.random() * 0.05)
            process.send_signal(signal.SIGKILL)
        done = sum(line.startswith(b"  ") for line in said)
        left = (study / "trials.jsonl").read_bytes() if any(study.glob("t*l")) else b""
        kept = left[: left.rfind(b"\n") + 1]
        assert whole.startswith(left)  # nothing is lost, nothing comes otherwise
        assert kept.count(b"\n") >= known.count(b"\n") + done
        known = kept
        if process.returncode == -signal.SIGKILL:
            kills += 1
        if known == whole:  # it was done: once more
            shutil.rmtree(study)
            known = b""
    assert answered(replay, records, config=config) == expected
    assert (study / "trials.jsonl").read_bytes() == whole
    assert (tmp_path / "a.tuned.toml").read_bytes() == tuned
