"""Names, weights and phases of the data mixture."""

from tests.each import each

TWO = '[[data.datasets]]\nname = "a"\npath = "/a"\n[[data.datasets]]\nhf_name = "h/b"\n'


def phase(weights, start=10):
    return f"[[data.phases]]\nstart_step = {start}\ndataset_weights = {weights}\n"


@each(
    ("text", "strangers", "empty", "late"),
    [
        (TWO + phase("{ a = 2.0 }"), [], -1, -1),
        (TWO + phase('{ a = 0.0, "h/b" = 0.0 }'), [], 10, -1),
        (TWO + phase('{ a = 0.0, "h/b" = 0.0 }', 100000), [], -1, 100000),
        (
            "[data]\nanneal_start_step = 9\nanneal_weights = { c = 1.0 }\n" + TWO,
            ["c"],
            -1,
            -1,
        ),
        ("[data]\nphases = [5]\n" + TWO, None, None, None),
    ],
)
def test_phases(value, text, strangers, empty, late):
    names = ("mixture_strangers", "mixture_empty_from", "mixture_late_phase")
    assert [value(name, text) for name in names] == [strangers, empty, late]


ANNEAL = "[data]\nanneal_start_step = {}\nanneal_weights = {{ {} }}\n"


@each(
    ("text", "least"),
    [
        ("", 0.0),
        (ANNEAL.format(9, "a = 1.0, b = -0.5"), -0.5),
        (ANNEAL.format(0, "a = -1.0"), 0.0),
        (ANNEAL.format(9, "a = -1.0") + phase("{ a = 1.0 }"), 0.0),
        ("[data]\nanneal_start_step = 9\nanneal_weights = 5\n", None),
    ],
)
def test_the_smallest_weight_of_annealing(value, text, least):
    assert value("anneal_minimum", text) == least
