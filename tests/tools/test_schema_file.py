"""Schema files as their makers write them."""

import tomllib

import pytest

from fp8tune.trainers.about import trainers
from fp8tune.trainers.trainer import trainer
from tests.each import each
from tools import schema_file
from tools.llamafactory.schema import by_transformers
from tools.prime_rl.schema import job_of
from tools.schema_file import ROOT, changes, update

WORDS = [path.parent.name for path in (ROOT / "tools").glob("*/words.toml")]


@each("name", [name for name, about in trainers().items() if about.versions != [""]])
def test_the_file_of_all_releases_is_as_its_maker_writes_it(name):
    assert not update(name, {}, check=True)


@each("name", WORDS)
def test_the_fields_of_the_job_are_those_that_the_maker_writes(name):
    words = tomllib.loads((ROOT / "tools" / name / "words.toml").read_text())["job"]
    newest = trainer(trainers()[name].ids[0])
    if name == "prime_rl":  # its commands differ
        words = job_of(newest.version.rpartition(".")[2], words)
    assert newest.schema.job == words


def test_a_maker_changes_the_entries_of_its_release_alone(
    tmp_path, monkeypatch, capsys
):
    folder = tmp_path / "fp8tune" / "trainers" / "t"
    folder.mkdir(parents=True)
    (folder / "trainer.toml").write_text('versions = ["1.0", "1.1", "1.2"]')
    monkeypatch.setattr(schema_file, "ROOT", tmp_path)

    def lines(release, *keys):
        head = (
            f'# made\n\ntitle = "t {release}"\nsource = "s"\nroot = "R"\n[sections]\n'
        )
        body = "".join(f"{key}\n" for key in keys)
        return f"{head}[job]\n[variants]\n[classes.R]\n{body}".splitlines()

    a, b = 'a = { type = "int" }', 'b = { type = "str" }'
    made = {
        "1.0": lines("1.0", a),
        "1.1": lines("1.1", a, b),
        "1.2": lines("1.2", b, a),
    }
    assert update("t", made, check=False)
    assert not update("t", made, check=True)
    with pytest.raises(SystemExit, match=r"add 1\.3 to `versions`"):
        update("t", made | {"1.3": lines("1.3", a)}, check=False)
    changed = "b = { type = 'int' }"
    capsys.readouterr()
    assert update("t", {"1.1": lines("1.1", a, changed)}, check=False)
    assert capsys.readouterr().out == "t 1.1: 1 key changed (R.b)\n"
    assert (
        (folder / "schema.toml").read_text()
        == """\
# made

title = "t {release}"
source = "s"
root = "R"

[sections]

[job]

[variants]

[classes.R]
b = [{ since = "1.1", until = "1.1", type = "int" }, { since = "1.2", type = "str" }]
a = { type = "int" }
"""
    )


def test_a_maker_says_which_keys_and_job_fields_it_changes():
    before = {"classes": {"R": {"a": 1, "b": 1, "c": 1}}, "job": {"tp": "a"}}
    after = {"classes": {"R": {"b": 2, "c": 1}, "S": {"d": 1}}, "job": {}}
    assert changes(before, after) == (
        "1 key added (S.d); 1 key dropped (R.a); 1 key changed (R.b); "
        "1 job field dropped (tp)"
    )
    assert changes(after, after) == "no key and no job field differs"


def test_the_keys_by_transformers_of_other_releases_stay():
    four = {"transformers": "4.57.1", "keys": {"a": {}, "b": {}}}
    five = {"transformers": "5.0.0", "keys": {"b": {}, "c": {}}}
    first = by_transformers("", "0.9.5", [four, five])
    both = tomllib.loads(by_transformers(first, "0.9.6", [five, four]))
    assert both == {
        "0.9.5": {"4": ["a"], "5": ["c"]},
        "0.9.6": {"5": ["c"], "4": ["a"]},
    }
