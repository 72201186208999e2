"""How the faults of the trainer are read off what ranks kept, and what is recorded."""

import json
import tomllib

import pytest

from benchmarks.paths import RESULTS
from benchmarks.trainer_faults.__main__ import shown
from benchmarks.trainer_faults.compare import (
    apart,
    different_experts,
    only_experts,
    ratios_of_norms,
    saved_experts,
    sources,
    with_state,
)
from benchmarks.trainer_faults.faults import FAULTS
from benchmarks.trainer_faults.lab import cause, toml
from fp8tune.lint.builtin import read_builtin
from tests.each import each

MLP = "layers.0.mlp."
UP, GATE = (f"{MLP}experts.0.{kind}_proj.weight" for kind in ("up", "gate"))


@pytest.fixture
def tensor():
    """Makes a tensor of numbers."""
    return pytest.importorskip("torch").tensor


def test_rules_cite_what_is_recorded():
    figures = json.loads((RESULTS / "trainer_faults.json").read_text())["figures"]
    citing = {
        r.name
        for r in read_builtin()
        if "benchmarks/trainer_faults/faults.py" in r.references
    }
    assert {figure["rule"] for figure in figures} == set(FAULTS) == citing
    assert [f["what"] for f in figures if f["fault"] == f["control"]] == []


def test_only_what_differs_is_apart(tensor):
    one = {"a": tensor([3.0, 4.0]), "b": tensor([1.0]), "mine": tensor([1.0])}
    other = {"a": tensor([3.0, 4.5]), "b": tensor([1.0])}
    assert apart(one, other) == {"a": pytest.approx(0.1)}


@pytest.mark.parametrize("wanted", [True, False])
def test_experts_are_known_by_name(wanted):
    experts = {UP: 1, f"{MLP}up_w": 2}
    rest = {f"{MLP}router.gate.weight": 3, "layers.0.attention.q_proj.weight": 4}
    assert only_experts(experts | rest, wanted) == (experts if wanted else rest)


@pytest.mark.parametrize(
    ("experts", "found"), [(True, [2.0, 2.0]), (False, [0.5, 1.0])]
)
def test_ratios_of_norms(experts, found):
    norms = {UP: 4.0, "a": 1.0, "b": 1.0}
    assert ratios_of_norms(norms, {UP: 2.0, "a": 1.0, "b": 2.0}, experts) == found


@pytest.mark.parametrize(
    ("shapes", "count"),
    [
        ({f"model.{MLP}up_w": (4, 8, 2), f"model.{MLP}gate_w": (4, 8, 2)}, 4),
        (
            {
                f"model.{UP}": (8, 2),
                f"model.{UP}".replace("experts.0", "experts.1"): (8, 2),
                f"model.{UP}".replace("layers.0", "layers.1"): (8, 2),
                f"model.{GATE}": (8, 2),
                f"optimizer.state.{UP}.exp_avg": (8, 2),
            },
            2,
        ),
        ({"model.layers.0.mlp.up_proj.weight": (8, 2)}, 0),
    ],
    ids=["packed", "apart", "dense"],
)
def test_experts_of_a_checkpoint(shapes, count):
    assert saved_experts(shapes) == count


def test_parameters_with_optimizer_state():
    state = {"optimizer.state.a.w.step": (), "optimizer.state.a.w.exp_avg": (2,)}
    assert with_state({"model.a.w": (2,), "model.b": (2,), **state}) == 1


def test_equal_experts_count_once(tensor):
    packed = {f"{MLP}up_w": tensor([[1.0], [2.0]])}
    assert different_experts([packed, packed]) == 2
    assert different_experts([{UP: tensor([1.0])}, {UP: tensor([3.0])}]) == 2


@pytest.mark.parametrize(
    ("up", "gate", "ranks"),
    [(1.0, 2.0, [0]), (3.0, 2.0, [0, 1]), (3.0, 4.0, [1]), (5.0, 2.0, [-1, 0])],
)
def test_where_an_expert_comes_from(tensor, up, gate, ranks):
    ended = [
        {UP: tensor(1.0), GATE: tensor(2.0)},
        {UP: tensor(3.0), GATE: tensor(4.0)},
    ]
    assert sources({UP: tensor(up), GATE: tensor(gate), "a": 1}, ended) == ranks


@each(
    ("value", "cell"),
    [
        (
            {"layers.0.q_norm.weight": 0.5, "b.weight": 1e-3},
            "2: b.weight, q_norm.weight, 0.001 to 0.5",
        ),
        ({}, "0"),
        ([1.0, 1.404], "1.00, 1.40"),
        (0.00077, "0.00077"),
        (2, "2"),
        ("an error\n of lines", "an error of lines"),
    ],
)
def test_cells(value, cell):
    assert shown(value) == cell


@pytest.mark.parametrize(
    ("logs", "said"),
    [
        (
            ["a.CheckpointError: x\nTraceback\nAssertionError: y\n\n"],
            "AssertionError: y",
        ),
        (["[rank 0] INFO Error: none"], "E: as reported"),
    ],
)
def test_the_cause_is_the_last_error_of_the_logs(logs, said):
    assert cause(logs, "E: as reported") == said


def test_a_config_by_dotted_keys():
    keys = {"model.qk_norm": True, "train.max_steps": 2, "model.dim": 64}
    values = {"model": {"qk_norm": True, "dim": 64}, "train": {"max_steps": 2}}
    assert tomllib.loads(toml(keys)) == values
