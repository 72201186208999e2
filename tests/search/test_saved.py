"""A study is read as it lies there, and nothing in it changes."""

import pytest

from fp8tune.job import Target
from fp8tune.search.saved_study import load_study, look
from fp8tune.search.storage import BadStudy
from fp8tune.search.study import Study
from fp8tune.trials.record import Record
from fp8tune.trials.space import Knob, Space
from tests.report.studies import CONFIG, WHOLE, plan, study
from tests.search.tries import BEST, GIVEN, KNOBS, trials


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_what_a_search_wrote_comes_back(tmp_path):
    found = load_study(study(tmp_path / "s"))
    assert (found.name, found.plan.baseline) == ("s", GIVEN)
    assert found.plan.space.knobs == KNOBS
    assert found.plan.config.data == CONFIG.encode()
    assert found.plan.config.job.target[:2] == ("h200", 1)
    assert found.trials == trials(*WHOLE)
    assert found.trials[-1].searched_all


@pytest.mark.parametrize("end", [b"", b'{"op_code":4,"wor', b"{\n", b"\0\0"])
def test_a_line_that_is_being_written_is_left_alone(tmp_path, end):
    study(tmp_path / "s")
    with (tmp_path / "s" / "study.journal").open("ab") as file:
        file.write(end)
    before = contents(tmp_path / "s")
    assert len(load_study(str(tmp_path / "s")).trials) == len(WHOLE)
    assert contents(tmp_path / "s") == before


def test_a_replay_has_no_points_but_those_of_its_records(tmp_path):
    made = plan()
    made = made._replace(space=Space(KNOBS, [GIVEN, BEST]))
    assert load_study(study(tmp_path / "s", [], made)).plan.space.only == {GIVEN, BEST}


def test_a_study_without_trials(tmp_path):
    assert load_study(study(tmp_path / "s", [])).trials == []


def test_a_config_that_has_changed_since_is_told_as_it_was(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = study("s")
    (tmp_path / "a.toml").write_text("[train]\nbatch_size = 4096\n")
    assert load_study(folder).plan.config.data == CONFIG.encode()


def test_the_gpus_of_the_search_replace_those_of_a_comment(tmp_path):
    config = f"# fp8tune: gpu=h100 world-size=1\n{CONFIG}"
    target = Target("h200", 16, "--gpu", "--world-size")
    folder = study(tmp_path / "s", made=plan(config, target=target))
    assert load_study(folder).plan.config.job.target == target


@pytest.mark.parametrize(
    "change",
    [
        {"config_text": None},
        {"config_text": "[train\n"},
        {"trainer": "../../x"},
        {"knobs": 7},
        {"knobs": [{"key": "a"}]},
        {"knobs": [{"key": "a", "values": [[1]], "role": "", "frozen": False}]},
        {"given": [0, 0, 0]},
        {"given": [9, 0, 0, 0]},
        {"given": None},
        {"points": [[0, 0, 0]]},
        {"points": None},
        {"world_size": "many"},
        {"config": "a\0.toml"},
        {"output": "a\0.toml"},
        {"output": "\ud800"},
    ],
)
def test_a_file_that_no_search_wrote(tmp_path, change):
    folder = study(tmp_path / "s")
    Study(plan().space, folder).describe(change)
    with pytest.raises(BadStudy, match=r"study\.journal: "):
        load_study(folder)


@pytest.mark.parametrize(
    "text",
    ["", "[]\n{}\n", "{\n{}\n", "[" * 100_000 + "\n{}\n", '{"op_code": 7}\n'],
)
def test_no_journal(tmp_path, text):
    folder = study(tmp_path / "s")
    (tmp_path / "s" / "study.journal").write_text(text)
    with pytest.raises(BadStudy, match=r"study\.journal:(1:)? no"):
        look(folder)


def test_a_trial_of_another_search(tmp_path):
    folder = study(tmp_path / "s", [])
    Study(Space([Knob("x", (1, 2))]), folder).add("search", Record({"x": 1}, "oom"))
    with pytest.raises(BadStudy, match=r"study\.journal: trial 0: not a knob or value"):
        load_study(folder)
