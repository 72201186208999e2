"""Spaces: points as places, whatever Python thinks of equal values."""

import pytest

from fp8tune.trials.space import Knob, Space, Traits
from tests.search.tries import BATCH, BF16, GIVEN, KNOBS, PRECISION, SPACE, every

ODD = Space([Knob("x", (1, True, 1.0, "1", "true"), "micro_batch")])


@pytest.mark.parametrize("index", range(5))
def test_equal_values_of_other_types_are_other_points(index):
    value = ODD.knobs[0].values[index]
    assert ODD.point({"x": value}) == (index,)
    assert ODD.values((index,)) == {"x": value}
    assert type(ODD.values((index,))["x"]) is type(value)
    assert ODD.knobs[0].index_of(value) == index


def test_a_value_that_is_not_offered_is_no_point():
    with pytest.raises(KeyError):
        ODD.point({"x": 2})
    with pytest.raises(ValueError, match="no value False"):
        ODD.knobs[0].index_of(False)


def test_points_keep_what_is_frozen():
    points = list(SPACE.points(GIVEN))
    assert len(points) == 4 * 2 * 2
    assert all(SPACE.allows(point, GIVEN) and point[3] == 1 for point in points)
    assert not SPACE.allows(BF16, GIVEN)
    assert len(list(every(SPACE))) == 32


def test_only_what_exists_is_offered():
    space = Space(KNOBS, [GIVEN, BF16, (0, 0, 0, 1)])
    assert list(space.points(GIVEN)) == [(0, 0, 0, 1), GIVEN]
    assert list(every(space)) == [(0, 0, 0, 1), BF16, GIVEN]
    assert space.has(GIVEN)
    assert not space.has((3, 1, 1, 1))
    assert SPACE.has((3, 1, 1, 1))


def test_twins():
    assert SPACE.in_bf16(GIVEN) == BF16
    assert SPACE.in_bf16(BF16) is None
    assert SPACE.with_precision(BF16, "fp8") == GIVEN
    assert SPACE.with_precision(GIVEN, "fp16") is None
    assert SPACE.in_precision(GIVEN, "bf16") == BF16
    assert SPACE.in_precision(GIVEN, "fp16") is None
    assert Space(KNOBS, [GIVEN]).in_bf16(GIVEN) is None
    assert Space(KNOBS[:3]).in_bf16(GIVEN[:3]) is None


def test_cells_leave_out_the_batch():
    assert SPACE.cell(GIVEN) == (1, 1, 1)
    assert Space(KNOBS[1:]).cell((1, 1, 1)) == (1, 1, 1)


@pytest.mark.parametrize(
    ("values", "batches"),
    [
        ((1, 2.5), (1.0, 2.5)),
        ((0, -2, 4), (0.0, 0.0, 4.0)),
        (("4", True, 4), (0.0, 0.0, 4.0)),
    ],
)
def test_batches_are_numbers_above_0(values, batches):
    space = Space([Knob(BATCH, values, "micro_batch")])
    assert tuple(space.batch((i,)) for i in range(len(values))) == batches


def test_without_a_batch():
    space = Space(KNOBS[1:])
    assert space.batch((0, 0, 0)) == 0
    assert space.knob("micro_batch") is None
    assert space.knob("precision") == KNOBS[3]
    assert space.value((0, 0, 1), "precision") == "fp8"
    assert space.knobs[-1].key == PRECISION


def test_a_value_that_is_not_set_is_left_out():
    space = Space([Knob("a", (1, None)), Knob("b", (2, 3))])
    assert [space.values(point) for point in every(space)] == [
        {"a": 1, "b": 2},
        {"a": 1, "b": 3},
        {"b": 2},
        {"b": 3},
    ]
    assert all(space.point(space.values(point)) == point for point in every(space))
    with pytest.raises(KeyError, match="b"):
        space.point({"a": 1})


def test_nothing_is_taken_for_granted_of_a_knob_with_an_unknown_role():
    assert Knob("model.norm_eps", (1e-5,), "norm_eps").traits == Traits()
    assert Traits().frozen_on == ("cuda", "cpu")
    assert not any((Traits().learns_alike, Traits().checked_alone))
