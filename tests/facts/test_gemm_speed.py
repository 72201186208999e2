"""The table of measured FP8 linears and what is read between its cells."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fp8tune.facts import gemm_speed
from fp8tune.facts.gemm_speed import CEILING, SIZES, rowwise, tensorwise

size = st.integers(SIZES[0], SIZES[-1])


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
