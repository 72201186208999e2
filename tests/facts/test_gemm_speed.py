"""The table of measured FP8 linears and what is read between its cells."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fp8tune.facts import gemm_speed
from fp8tune.facts.fp8 import NARROW
from fp8tune.facts.gemm_speed import CEILING, SIZES, rowwise, tensorwise
from tests.each import each

size = st.integers(SIZES[0], SIZES[-1])


@pytest.mark.parametrize(("axis", "best"), [("k", 0.94), ("n", 0.63)])
def test_nothing_narrow_gains(axis, best):
    """fp8.too_narrow: K or N of 1024."""
    others = itertools.product(SIZES, SIZES)
    found = max(
        rowwise(m, NARROW, n) if axis == "k" else rowwise(m, n, NARROW)
        for m, n in others
    )
    assert found == pytest.approx(best)


@each(
    ("m", "lowest", "highest", "gaining"),
    [
        (1024, 0.38, 0.65, 0),
        (2048, 0.38, 0.99, 0),
        (4096, 0.43, 1.18, 12),
        (8192, 0.45, 1.46, 19),
        (16384, 0.48, 1.72, 19),
        (32768, 0.51, 1.73, 19),
    ],
)
def test_rows_of_the_table(m, lowest, highest, gaining):
    row = [rowwise(m, k, n) for k, n in itertools.product(SIZES, SIZES)]
    assert (min(row), max(row)) == pytest.approx((lowest, highest))
    assert sum(value > 1 - 1e-9 for value in row) == gaining


def test_every_cell_is_read_back():
    cells = gemm_speed.cells()
    assert len(cells) == 216
    assert [rowwise(*shape) for shape in cells] == pytest.approx(list(cells.values()))


@given(size, size, size)
def test_between_cells_speed_lies_between_theirs(m, k, n):
    corners = itertools.product(
        *(
            [max(s for s in SIZES if s <= x), min(s for s in SIZES if s >= x)]
            for x in (m, k, n)
        )
    )
    values = [gemm_speed.cells()[corner] for corner in corners]
    assert min(values) - 1e-9 <= rowwise(m, k, n) <= max(values) + 1e-9


@given(st.integers(-5, 10**40), st.integers(-5, 10**40), st.integers(-5, 10**40))
def test_any_shape_has_a_speed(m, k, n):
    assert 0.05 < rowwise(m, k, n) < 2
    assert 0 < tensorwise(m, k, n) <= CEILING


@pytest.mark.parametrize("shape", [(512, 1024, 1024), (1024, 512, 1024)])
def test_below_the_table_linears_get_slower(shape):
    assert rowwise(256, 256, 256) < rowwise(*shape) < rowwise(1024, 1024, 1024)
