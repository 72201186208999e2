"""Numbers as written: what they mean, and other values in their style."""

from fp8tune.lint.claims import Figure
from tests.each import each


@each(
    ("figure", "inside", "outside"),
    [
        (Figure("256", exact=True), (256,), (255, 257)),
        (Figure("100", exact=True), (100,), (96, 104)),
        (Figure("100"), (50, 100, 150), (49, 151)),
        (Figure("100", about=True, exact=True), (0, 200), (201,)),
        (Figure("1.6", "M"), (1.55e6, 1.65e6, 1.6 * 2**20), (1.54e6, 1.8e6)),
        (Figure("2", "M"), (2_097_152, 1.5e6, 2.5e6), (1.4e6, 2.7e6)),
        (Figure("512", "K"), (512_000, 524_288), (500_000, 530_000)),
        (Figure("512", "k"), (512_000, 524_288), (500_000, 530_000)),
        (Figure("100", "K", exact=True), (100_000, 51_000), (49_000, 160_000)),
        (Figure("4", "B", about=True, bases=(1000,)), (3e9, 5e9), (2.9e9, 5.1e9)),
        (Figure("9.45", "B", bases=(1000,)), (9.45e9,), (9.7e9, 9.46e9)),
        (Figure("1,048,576"), (1_048_576,), (1_048_577,)),
        (Figure("0", exact=True), (0,), (1,)),
    ],
)
def test_means(figure, inside, outside):
    assert [value for value in inside if not figure.means(value)] == []
    assert [value for value in outside if figure.means(value)] == []


def test_below():
    figure = Figure("9.45", "B", bases=(1000,))
    assert [figure.below(value) for value in (9.4e9, 9.45e9, 9.7e9)] == [
        False,
        False,
        True,
    ]
    assert not Figure("9.45", "B").below(10.1e9)  # 9.45 x 2^30


@each(
    ("figure", "value", "text"),
    [
        (Figure("1.6", "M"), 393_216, "393.2K"),
        (Figure("1.6", "M"), 2_097_152, "2.1M"),
        (Figure("4", "B"), 9_233_205_248, "9B"),
        (Figure("100", "k"), 50, "50"),
        (Figure("100", "k"), 50_000, "50k"),
        (Figure("256"), 512, "512"),
        (Figure("1,024"), 524_288, "524,288"),
        (Figure("1048576"), 2_097_152, "2097152"),
    ],
)
def test_restyled(figure, value, text):
    assert figure.restyled(value) == text
    assert Figure(text.rstrip("KkMB"), text.lstrip("0123456789.,")).means(value)
