"""Names, weights and phases of the data mixture."""

import pytest

from tests.each import each

TWO = '[[data.datasets]]\nname = "a"\npath = "/a"\n[[data.datasets]]\nhf_name = "h/b"\n'


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (TWO, (["a", "h/b"], True, True)),
        ('[[data.datasets]]\npath = "/a"\n', (["/a"], True, False)),
        ('[[data.datasets]]\nhf_name = "h"\n', (["h"], False, True)),
        ("[data]\ndatasets = [5]\n", (None, None, None)),
        ("", ([], False, False)),
    ],
)
def test_sources(value, text, found):
    names = ("mixture_names", "mixture_on_disk", "mixture_on_hub")
    got = tuple(value(name, text) for name in names)
    assert (got[0], *map(bool, got[1:])) == (found[0], *map(bool, found[1:]))


def phase(weights, start=10):
    return f"[[data.phases]]\nstart_step = {start}\ndataset_weights = {weights}\n"


@each(
    ("text", "strangers", "empty", "late"),
    [
        (TWO, [], -1, -1),
        (TWO + phase("{ a = 2.0 }"), [], -1, -1),
        (TWO + phase("{ b = 2.0 }"), ["b"], -1, -1),
        (TWO + phase("{ a = 0.0 }"), [], -1, -1),
        (TWO + phase('{ a = 0.0, "h/b" = 0.0 }'), [], 10, -1),
        (TWO + phase('{ a = 0.0, "h/b" = 0.0 }', 100000), [], -1, 100000),
        (
            "[data]\nanneal_start_step = 9\nanneal_weights = { c = 1.0 }\n" + TWO,
            ["c"],
            -1,
            -1,
        ),
        ("[data]\nanneal_weights = { c = 1.0 }\n" + TWO, [], -1, -1),
        ("[data]\nphases = [5]\n" + TWO, None, None, None),
    ],
)
def test_phases(value, text, strangers, empty, late):
    names = ("mixture_strangers", "mixture_empty_from", "mixture_late_phase")
    assert [value(name, text) for name in names] == [strangers, empty, late]


@pytest.mark.parametrize(
    ("name", "split", "rows"),
    [
        ("sayakpaul/coco-30-val-2014", "train", 30),
        ("sayakpaul/coco-30-val-2014", "test", None),
        ("x/y", "train", None),
    ],
)
def test_rows(value, name, split, rows):
    text = f'[data]\nhf_dataset_name = "{name}"\nhf_dataset_split = "{split}"\n'
    assert value("hub_rows", text) == rows


ANNEAL = "[data]\nanneal_start_step = {}\nanneal_weights = {{ {} }}\n"


@each(
    ("text", "least"),
    [
        ("", 0.0),
        (ANNEAL.format(9, "a = 1.0, b = -0.5"), -0.5),
        (ANNEAL.format(9, "a = 1.0"), 1.0),
        (ANNEAL.format(9, ""), 0.0),
        (ANNEAL.format(9, 'a = "-1"'), 0.0),
        (ANNEAL.format(0, "a = -1.0"), 0.0),
        (ANNEAL.format(9, "a = -1.0") + phase("{ a = 1.0 }"), 0.0),
        ("[data]\nanneal_start_step = 9\nanneal_weights = 5\n", None),
    ],
)
def test_the_smallest_weight_of_annealing(value, text, least):
    assert value("anneal_minimum", text) == least
