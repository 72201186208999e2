"""Studies on disk: nothing is lost but a line that was cut off."""

import json
import resource
import shutil

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fp8tune.search.record import Record
from fp8tune.search.study import BadStudy, Study, Trial, look
from tests.search.tries import BEST, GIVEN, TWIN, ran, trials

TRIALS = trials(
    ("given", ran(GIVEN, more={"gpu": "H200"})),
    ("twin", ran(TWIN, outcome="oom")),
    ("search", ran(BEST, 120)),
    ("confirm", ran(BEST, 119)),
)


def opened(folder) -> Study:
    study = Study(str(folder))
    study.open({"config": "a.toml"})
    return study


def filled(folder) -> Study:
    study = opened(folder)
    for trial in TRIALS:
        study.add(trial.stage, trial.record)
    return study


@pytest.mark.parametrize("room", [0, 40])
def test_a_full_disk_loses_only_the_trial_that_it_cannot_hold(tmp_path, room):
    study = filled(tmp_path / "s")
    path = tmp_path / "s" / "trials.jsonl"
    before = path.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + room, limits[1]))
    try:
        with pytest.raises(BadStudy, match=r"trials\.jsonl: .* kept"):
            study.add("search", ran(BEST, 120))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert path.read_bytes() == before
    assert study.trials == opened(tmp_path / "s").trials == TRIALS


def test_what_is_added_is_there_again(tmp_path):
    filled(tmp_path / "s")
    again = opened(tmp_path / "s")
    assert again.trials == TRIALS
    assert (again.name, again.spent) == ("s", 240.0)
    assert json.loads((tmp_path / "s" / "study.json").read_text()) == {
        "config": "a.toml"
    }


def test_the_end_of_an_earlier_run_is_of_the_past(tmp_path):
    filled(tmp_path).note(output="a.tuned.toml", unchecked="no time")
    assert look(tmp_path)[0]["unchecked"] == "no time"
    opened(tmp_path)
    assert look(tmp_path) == ({"config": "a.toml"}, TRIALS)


def test_a_link_in_the_place_of_the_trials_is_not_followed(tmp_path):
    study, path = filled(tmp_path / "s"), tmp_path / "s" / "trials.jsonl"
    mine = path.rename(tmp_path / "mine.txt")
    before = mine.read_bytes()
    path.symlink_to(mine)
    with pytest.raises(BadStudy, match=r"trials\.jsonl: "):
        study.add("search", ran(BEST))
    assert mine.read_bytes() == before


def test_a_study_without_a_folder_is_kept_in_memory():
    study = Study("")
    assert study.add("given", TRIALS[0].record) == TRIALS[0]
    assert study.trials == TRIALS[:1]


@settings(
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(share=st.floats(0, 1), rubbish=st.binary(max_size=4))
def test_cut_off_anywhere(tmp_path_factory, share, rubbish):
    folder = tmp_path_factory.mktemp("study")
    filled(folder)
    path = folder / "trials.jsonl"
    whole = path.read_bytes()
    kept = whole[: round(share * len(whole))]
    path.write_bytes(kept + rubbish.replace(b"\n", b""))
    study = opened(folder)
    assert study.trials == TRIALS[: kept.count(b"\n")]
    study.add("search", TRIALS[2].record)
    assert [t.record for t in opened(folder).trials] == [t.record for t in study.trials]


@pytest.mark.parametrize("last", [b"{}\n", b"\0\0\0\n", b"\xff\n", b'{"knobs"\n'])
def test_a_last_line_that_is_no_record_is_kept_aside(tmp_path, last):
    filled(tmp_path)
    path = tmp_path / "trials.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole + last)
    assert opened(tmp_path).trials == TRIALS
    assert path.read_bytes() == whole
    assert (tmp_path / "trials.jsonl.bak").read_bytes() == whole + last


def test_a_broken_line_in_the_middle_is_no_accident(tmp_path):
    filled(tmp_path)
    path = tmp_path / "trials.jsonl"
    path.write_bytes(b"{}\n" + path.read_bytes())
    with pytest.raises(BadStudy, match=r"trials.jsonl:1: `knobs`"):
        opened(tmp_path)


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(BadStudy, match="file"):
        opened(tmp_path / "file" / "study")


def test_a_study_that_is_removed_keeps_nothing(tmp_path):
    study = filled(tmp_path / "s")
    shutil.rmtree(tmp_path / "s")
    with pytest.raises(BadStudy, match="the study was removed") as told:
        study.add("search", ran(BEST, 120))
    assert "kept" not in str(told.value)


def test_the_trials_of_a_study_can_be_replayed_in_another(tmp_path):
    filled(tmp_path / "one")
    (one,) = opened(tmp_path / "one").trials[:1]
    line = (tmp_path / "one" / "trials.jsonl").read_text().splitlines()[3]
    record = Record(one.record.knobs, "oom", more={"stage": "confirm", "trial": 3})
    other = opened(tmp_path / "other")
    other.add("given", record)
    assert json.loads(line)["stage"] == "confirm"
    assert opened(tmp_path / "other").trials == [
        Trial(0, "given", record._replace(more={}))
    ]
