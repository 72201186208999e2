"""Studies are found by the beginning of their names, and git ignores them."""

import pytest

from fp8tune.studies import NoStudy, below, find, make_folder
from tests.each import each


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("train-1a", "train-2b", "train", "other-3c"):
        make_folder(f".fp8tune/{name}")
    (tmp_path / ".fp8tune" / "calibration.jsonl").touch()
    return tmp_path


@each(
    ("study", "found"),
    [
        (".fp8tune/train-1a", ".fp8tune/train-1a"),
        ("train-1a", ".fp8tune/train-1a"),
        ("train", ".fp8tune/train"),
        ("train-2", ".fp8tune/train-2b"),
        ("o", ".fp8tune/other-3c"),
    ],
)
def test_a_study_is_found(study, found, folder):
    assert find(study, ".fp8tune") == found


@each(
    ("study", "message"),
    [
        ("train-", "train- begins several studies: train-1a, train-2b"),
        (
            "x",
            "no study x in {place}/.fp8tune; there are other-3c, train, train-1a, "
            "train-2b; give the path of one elsewhere (`fp8tune studies FOLDER` lists "
            "them)",
        ),
    ],
)
def test_no_study_or_several(study, message, folder):
    with pytest.raises(NoStudy) as error:
        find(study, ".fp8tune")
    assert str(error.value) == message.format(place=folder)


def test_git_ignores_a_new_folder_and_an_old_one_is_left_alone(tmp_path):
    make_folder(str(tmp_path / ".fp8tune" / "a-1"))
    ignore = tmp_path / ".fp8tune" / ".gitignore"
    assert ignore.read_text() == "# made by fp8tune\n*\n"
    ignore.unlink()
    make_folder(str(tmp_path / ".fp8tune" / "a-2"))
    make_folder(str(tmp_path / "mine" / "a-1"))
    assert [path.name for path in tmp_path.rglob(".gitignore")] == []


def test_studies_below_a_folder(folder):
    make_folder("deep/er/.fp8tune/d-4")
    make_folder(".hidden/.fp8tune/h-5")
    assert list(below("."))[-2:] == [".fp8tune/train-2b", "deep/er/.fp8tune/d-4"]
