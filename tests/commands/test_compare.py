"""``fp8tune compare``: the trainer that is named."""

from tests.conftest import REPOSITORY

FOLDER = REPOSITORY / "docs" / "own_trainer"


def test_configs_of_a_trainer_that_is_named(fp8tune):
    paths = (FOLDER / "fixed.toml", FOLDER / "train.toml")
    told = ("--trainer", FOLDER / "ours.toml", "--output-format", "json")
    said = fp8tune("compare", *map(str, (*paths, *told))).json
    assert [one["name"] for one in said["values"]] == [
        "model.vocab",
        "train.compile",
        "train.context",
    ]
