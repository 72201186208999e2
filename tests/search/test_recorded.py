"""What a search offers of one key."""

import pytest

from fp8tune.search.recorded import recorded_knob
from fp8tune.trainers.trainer import trainer
from fp8tune.trials.space import Knob

TRAINER = trainer("kempnerforge")
LR, PRECISION = ("optimizer.lr", "learning_rate"), ("t.precision", "precision")


@pytest.mark.parametrize(
    ("values", "ordered"),
    [
        ([8, 2, 4, 2], (2, 4, 8)),
        ([8, 2.5], (2.5, 8)),
        (["b", "a", "b"], ("b", "a")),
        ([2, True, 1], (2, True, 1)),
        ([True, 1, 1.0, "1"], (True, 1, 1.0, "1")),
    ],
)
def test_values_once_each_and_numbers_by_size(values, ordered):
    knob, start, note = recorded_knob(TRAINER, "a.b", "", values[0], values, ())
    assert [(type(v), v) for v in knob.values] == [(type(v), v) for v in ordered]
    assert (knob.values[start], note) == (values[0], "")


@pytest.mark.parametrize(
    ("mine", "recorded", "start"),
    [(1.0, [2, 1], 0), (1, [1.0, 2.0], 0), (1, [1.0, 1], 1), (1, [True, 1], 1)],
)
def test_the_given_value_is_found_by_type_first(mine, recorded, start):
    knob, found, note = recorded_knob(TRAINER, "a.b", "", mine, recorded, ())
    assert (found, note) == (start, "")
    assert len(knob.values) == 2


@pytest.mark.parametrize("mine", [True, "1", 3, None])
def test_a_given_value_without_records_is_a_place_of_its_own(mine):
    knob, start, note = recorded_knob(TRAINER, "a.b", "", mine, [1, 2], ())
    assert knob.values == (1, 2, mine)
    assert start == 2
    assert note.startswith("`a.b`: the config ")
    assert note.endswith("the records have 1, 2")


def test_many_values_are_not_all_named():
    _, _, note = recorded_knob(TRAINER, "a.b", "", 0, range(1, 20), ())
    assert note.endswith("have 1, 2, 3, 4, 5, 6, 7, 8, ...")


@pytest.mark.parametrize(
    ("key", "role", "allow", "frozen"),
    [
        (*LR, (), True),
        (*LR, ("learning_rate",), False),
        (*LR, ("optimizer.lr",), False),
        (*LR, ("precision",), True),
        (*PRECISION, (), True),
        (*PRECISION, ("precision",), False),
        ("model.dim", "hidden_size", (), True),
        ("train.batch_size", "micro_batch", (), False),
        ("train.seq_len", "seq_len", (), True),
        ("train.seq_len", "", (), True),
        ("train.seq_len", "", ("train.seq_len",), False),
        ("train.seq_len", "seq_len", ("seq_len",), False),
        ("train.max_steps", "max_steps", (), True),
        ("train.grad_clip_norm", "clip_norm", (), True),
        ("train.seed", "", (), True),
        ("train.seed", "", ("train.seed",), False),
        ("vlm.arch", "", (), True),
        ("train.compile_model", "compile", (), False),
    ],
)
def test_what_changes_the_learning_is_frozen(key, role, allow, frozen):
    knob, _, _ = recorded_knob(TRAINER, key, role, 1, [1, 2], allow)
    assert knob == Knob(key, (1, 2), role, frozen)


def test_records_of_another_learning_rate_start_there():
    knob, start, note = recorded_knob(TRAINER, *LR, 3e-4, [1e-3], ())
    assert (knob.values, start) == ((1e-3,), 0)
    assert "has 0.0003" in note


def test_records_of_another_precision_alone_are_not_taken_for_the_given_one():
    knob, start, note = recorded_knob(TRAINER, *PRECISION, "fp8", ["bf16"], ())
    assert (knob.values, start) == (("bf16", "fp8"), 1)
    assert note
