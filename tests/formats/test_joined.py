"""Several files of one job as one document."""

import pytest

from fp8tune.formats import parse
from fp8tune.formats.edits import CannotEdit, Edit, apply
from fp8tune.formats.joined import Joined, Part

LAUNCH = b"mixed_precision: fp8\nfp8_config:\n  backend: AO  # torchao\n"
TRAINING = b'{\n  "bf16": true,\n  "learning_rate": 1e-5\n}\n'


def part(section, path, data):
    document = parse(data, path)
    document.read_as("json" if path.endswith(".json") else "pyyaml")
    return Part(section, path, document)


@pytest.fixture
def files():
    """A launch file and the training arguments beside it."""
    return Joined(
        [part("", "launch.yaml", LAUNCH), part("training", "sft.json", TRAINING)]
    )


def at(files, path, kind="value"):
    start, end = files.span(path, kind)
    place = files.place(files.lines.position(start).line)
    line = files.lines.position(start).line - place.line
    return place.part.path, line, files.text[start:end]


def test_values_and_places(files):
    assert files.values == {
        "mixed_precision": "fp8",
        "fp8_config": {"backend": "AO"},
        "training": {"bf16": True, "learning_rate": 1e-5},
    }
    assert [
        at(files, ("mixed_precision",)),
        at(files, ("fp8_config", "backend")),
        at(files, ("training", "bf16")),
        at(files, ("training", "learning_rate"), "key"),
    ] == [
        ("launch.yaml", 1, "fp8"),
        ("launch.yaml", 3, "AO"),
        ("sft.json", 2, "true"),
        ("sft.json", 3, '"learning_rate"'),
    ]
    assert at(files, ("training",)) == ("sft.json", 1, "")
    assert [files.text[a:b] for a, b in files.comments()] == ["# torchao"]


def test_edits_go_into_the_file_of_their_key(files):
    values = {("training", "bf16"): False, ("fp8_config", "backend"): "TE"}
    after = apply(files.text, files.set_values(values))
    assert files.read(after).values == {
        **files.values,
        "fp8_config": {"backend": "TE"},
        "training": {"bf16": False, "learning_rate": 1e-5},
    }
    kept = files.text.replace("AO", "TE").replace("true", "false")
    assert after == kept


def test_a_file_that_is_not_known_is_not_edited():
    alone = Joined([part("training", "sft.json", TRAINING)])
    with pytest.raises(CannotEdit, match="mixed_precision is not known"):
        list(alone.set_values({("mixed_precision",): "bf16"}))
    (edit,) = alone.set_values({("training", "bf16"): False})
    assert edit == Edit(TRAINING.index(b"true"), TRAINING.index(b"true") + 4, "false")
