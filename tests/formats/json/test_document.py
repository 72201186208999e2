"""JSON and Hjson: values as the loaders read them, places, bounds and edits."""

import pytest

from fp8tune.formats.document import Repeated, Unreadable
from fp8tune.formats.edits import CannotEdit, Edit, apply
from fp8tune.formats.json.document import InvalidJson, parse
from tests.each import each

LIBERTIES = """# fp8tune: world-size=8
{
  // of the script
  train_batch_size: 16
  "zero_optimization": {"stage": 2, /* none */ 'offload': none at all
  },
  list: [1.0, 1e3, 5e-5, "a",],
}
"""


def strict(text):
    document = parse(text.encode())
    document.read_as("json")
    return document


def test_liberties_of_hjson():
    document = parse(LIBERTIES.encode())
    text = document.text
    assert document.values == {
        "train_batch_size": 16,
        "zero_optimization": {"stage": 2, "offload": "none at all"},
        "list": [1, 1000, 5e-5, "a"],
    }
    places = {path: text[slice(*span)] for path, span in document.spans.values.items()}
    assert places["zero_optimization", "offload"] == "none at all"
    assert places["list", 1] == "1e3"
    assert text[slice(*document.spans.keys["train_batch_size",])] == "train_batch_size"
    assert text[slice(*document.spans.keys["zero_optimization", "stage"])] == '"stage"'
    comments = [text[slice(*span)] for span in document.comments()]
    assert comments == ["# fp8tune: world-size=8", "// of the script"]


@each(
    ("text", "hjson", "plain"),
    [
        ('{"a": 1.0}', {"a": 1}, {"a": 1.0}),
        ('{"a": NaN\n}', {"a": "NaN"}, None),
        ("", {}, None),
        ("a: b, c\n", {"a": "b, c"}, None),
        ('{"a": [x\ny]\n]}', {"a": ["x", "y]"]}, None),
        ("{a: 01}\n}", {"a": "01}"}, None),
        ('{"a": 1,}', {"a": 1}, None),
    ],
)
def test_values_are_those_of_the_loader(text, hjson, plain):
    assert repr(parse(text.encode()).values) == repr(hjson)
    if plain is not None:
        assert repr(strict(text).values) == repr(hjson if plain == "same" else plain)


@each(
    ("text", "place"),
    [
        ('{"a": 1', (1, 1)),
        ('{"a": "x\n"}', (1, 9)),
        ('{"a": 1 /* ', (1, 9)),
        ('{"a": ,}', (1, 7)),
        ('{"a": 1e999\n}', (1, 7)),
        ("{a b: 1}", (1, 2)),
    ],
)
def test_what_hjson_refuses(text, place):
    with pytest.raises(InvalidJson) as error:
        parse(text.encode())
    assert tuple(error.value.position) == place


@each("text", ["{a: 1}", '{"a": 1,}', '{"a": 1} # x', '\ufeff{"a": 1}', '{"a": x\n}'])
def test_json_has_no_liberties(text):
    with pytest.raises(InvalidJson):
        strict(text)


@each(
    "data",
    [
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b" " * (2 << 20),
        b"[1]",
        b"{a: '''x'''}",
        b'"text"',
        b'{"a": ' + b"[" * 101 + b"]" * 101 + b"}",
    ],
)
def test_bounds(data):
    with pytest.raises((Unreadable, InvalidJson)):
        parse(data)


def test_bytes_that_are_no_text():
    with pytest.raises(InvalidJson) as error:
        parse(b'{"a": "\xff"}')
    assert tuple(error.value.position) == (1, 8)


def test_repeated_keys():
    document = parse(b'{"a": {"b": 1}, "c": 2, "a": {"d": 3}}')
    assert document.values == {"a": {"d": 3}, "c": 2}
    assert document.repeated == [Repeated(("a",), (24, 27), (1, 4), True)]
    document.read_as("json")
    assert document.repeated == [Repeated(("a",), (24, 27), (1, 4), False)]
    assert ("a", "b") not in document.spans.keys


def edited(text, name, *arguments):
    document = parse(text.encode())
    made = getattr(document, name)(*arguments)
    return apply(document.text, [made] if isinstance(made, Edit) else made)


TEXT = """{
  "a": 1, // one
  "t": {"x": "y"},
  "e": {}
}
"""


@each(
    ("name", "arguments", "after"),
    [
        ("set_values", ({("a",): 2},), TEXT.replace("1,", "2,")),
        (
            "set_values",
            ({("t", "z"): True},),
            TEXT.replace('"y"}', '"y", "z": true}'),
        ),
        ("set_values", ({("e", "z"): 1},), TEXT.replace("{}", '{"z": 1}')),
        (
            "set_values",
            ({("n", "m"): "é"},),
            TEXT.replace("{}\n", '{},\n  "n": {"m": "é"}\n'),
        ),
        ("remove_key", (("t",),), TEXT.replace('"t": {"x": "y"},\n  ', "")),
        ("remove_key", (("t", "x"),), TEXT.replace('"x": "y"', "")),
        (
            "move_key",
            (("t", "x"), ("e", "w")),
            TEXT.replace('"x": "y"', "").replace('"e": {}', '"e": {"w": "y"}'),
        ),
    ],
)
def test_edits_keep_all_other_bytes(name, arguments, after):
    assert edited(TEXT, name, *arguments) == after


@each(
    ("text", "name", "arguments"),
    [
        (TEXT, "remove_key", (("a",),)),
        (TEXT, "add_header", (("a",), "t")),
        (TEXT, "set_values", ({("a", "b"): 1},)),
        ('{"a": 1, "a": 2}', "remove_key", (("a",),)),
        ("a: b", "set_values", ({("c",): 1},)),
        (TEXT, "set_values", ({("a",): float("nan")},)),
    ],
)
def test_layouts_that_edits_do_not_cover(text, name, arguments):
    with pytest.raises(CannotEdit):
        edited(text, name, *arguments)
