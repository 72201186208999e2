"""Tables in a derivation have a row per line."""

from fp8tune.lint.explain.derivation import SEEN, Node
from fp8tune.lint.explain.text import in_one_line, rows, tree
from tests.each import each

PARTS = {
    "backward": {"logits": 3.5, "gradients": 0.0, "state": 1.0},
    "end": {"state": 0.0},
}


@each(
    ("value", "unit", "told", "below"),
    [
        (1 / 3, "", "0.333333", []),
        ({"one": 1.0, "two": 1 / 3}, "GiB", "one 1, two 0.333333 GiB", []),
        (
            PARTS,
            "GiB",
            "the sums below [GiB]",
            ["backward: 4.5 = logits 3.5, state 1", "end: 0"],
        ),
        (
            {"first": {"blocks": 2, "routers": 0.5}},
            "",
            "the table below",
            ["first: blocks 2, routers 0.5"],
        ),
        ({"a": {"b": "text"}}, "", '{ a = { b = "text" } }', []),
    ],
)
def test_values(value, unit, told, below):
    assert (in_one_line(value, unit), rows(value, unit)) == (told, below)


def test_a_table_is_shown_once():
    first = Node("memory.parts", PARTS, True, "GiB", "")
    assert tree(first) == [
        "  memory.parts = the sums below [GiB]",
        "      backward: 4.5 = logits 3.5, state 1",
        "      end: 0",
    ]
    assert tree(first._replace(origin=SEEN)) == ["  memory.parts  (see above)"]
