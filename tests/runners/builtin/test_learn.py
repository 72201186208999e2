"""Runs for their losses: the same data and weights, exact losses, and a whole stage."""

import itertools
import struct

import pytest
import torch

from fp8tune.runners.builtin.convert import build
from fp8tune.runners.builtin.data import batches
from fp8tune.runners.builtin.step import Training, cross_entropy, exact_cross_entropy
from fp8tune.runners.builtin.worker_record import worker_record
from fp8tune.runners.process import WorkerResult
from fp8tune.search.loop import Search
from fp8tune.search.losses.compare import loss_curve
from fp8tune.search.losses.loss_runs import Conditions
from fp8tune.search.pool import Peer
from fp8tune.search.study import Study
from fp8tune.trials.record import LossRun
from fp8tune.trials.space import Knob, Space
from tests.runners.builtin.small import SMALL, runner
from tests.search.tries import InOrder

PRECISION = "train.mixed_precision"


def steps(precision, seed=42, count=3, text=SMALL):
    made = runner(text).spec({PRECISION: precision})
    made = made._replace(seed=seed, steps=count)
    model, _ = build(made)
    training = Training(model, made, batches(made))
    return [training.step() for _ in range(count)]


def test_a_seed_is_the_same_again_and_fp8_begins_as_bf16():
    bf16, fp8 = steps("bf16"), steps("fp8")
    assert bf16 == steps("bf16")
    assert bf16 != fp8
    assert bf16[0].loss == pytest.approx(fp8[0].loss, rel=1e-3)
    assert steps("bf16", seed=43)[0].loss != bf16[0].loss


def test_another_seed_has_the_same_data():
    made = runner().spec({})
    first, other = (
        list(itertools.islice(batches(made._replace(seed=seed)), 2)) for seed in (1, 2)
    )
    assert all(torch.equal(a, b) for a, b in zip(first[1], other[1], strict=True))


def test_losses_are_exact_in_these_runs_alone():
    losses = [struct.pack(">f", step.loss) for step in steps("bf16")]
    assert not any(loss.endswith(b"\0\0") for loss in losses), "as bf16 has them"
    logits = torch.randn(2, 300, 64).bfloat16()
    labels = torch.randint(0, 64, (2, 300))
    exact = exact_cross_entropy(logits, labels)
    wide = cross_entropy(logits.float(), labels, runner().spec({}))
    assert exact.item() == pytest.approx(wide.item(), rel=1e-6)
    assert exact.dtype == torch.float32
    assert not exact.requires_grad


def test_training_is_the_same_whether_losses_are_exact_or_not():
    made = runner().spec({PRECISION: "bf16"})
    norms = []
    for count in (0, 3):
        model, _ = build(made)
        data = batches(made)
        training = Training(model, made._replace(steps=count), data)
        norms.append([training.step().grad_norm for _ in range(3)])
    assert norms[0] == norms[1]


HOW = LossRun(7, 2, 5, 4)


def test_a_run_of_its_own_process():
    found = runner().train_for_losses({PRECISION: "fp8"}, HOW, 300)
    assert found.ok, found.message
    made = loss_curve(found, "fp8")
    assert (made.loss_run, len(made.losses), len(made.grad_norms)) == (HOW, 5, 5)
    assert found.tokens_per_step == 2 * 2 * 32
    assert found.synthetic_data is True
    assert found.float8_matmuls > 0
    assert found.rehearsal is True


def test_a_learning_rate_that_ends_in_nan(in_this_process):
    text = SMALL.replace("lr = 0.003", "lr = 1e18")
    found = runner(text).train_for_losses(
        {PRECISION: "bf16"}, HOW._replace(steps=12), 300
    )
    assert found.outcome == "nan"
    made = loss_curve(found, "bf16")
    assert made.nan
    assert 0 < len(made.losses) < 12


def test_a_run_without_time_is_no_curve():
    found = runner().train_for_losses({PRECISION: "bf16"}, HOW, 0.3)
    assert found.outcome == "launch"
    assert found.loss_run == HOW
    assert loss_curve(found, "bf16") is None


@pytest.mark.parametrize("kind", ["nan", "user"])
def test_a_run_that_ended_in_nan_keeps_its_steps(kind):
    nan = float("nan")
    steps = [
        {"step": n, "loss": loss, "grad_norm": norm, "ms": 1.0}
        for n, (loss, norm) in enumerate([(6.0, 1.0), (5.0, 2.0), (5.0, nan)])
    ]
    failed = {"failed": {"kind": kind, "error": "ArithmeticError", "message": "NaN"}}
    heard = WorkerResult([*steps, failed], "exit", "steady", 1, 9.0)
    found = worker_record({}, runner().spec({}), heard, "")
    assert found.outcome == kind
    kept = ((6.0, 5.0), (1.0, 2.0)) if kind == "nan" else ((), ())
    assert (found.losses, found.grad_norms) == kept


def test_a_whole_stage_on_the_cpu(in_this_process):
    space = Space([Knob(PRECISION, ("fp8", "bf16"), "precision", True)])
    study, conditions = Study(space), Conditions(0, steps=6)
    found = Search(
        space,
        (0,),
        Peer(study, runner()),
        InOrder(),
        study,
        1800.0,
        conditions=conditions,
    ).run()
    compared = [trial.record for trial in study.trials if trial.stage == "stability"]
    assert [r.loss_run.seed for r in compared[:6]] == [42, 42, 43, 43, 44, 44]
    assert found.chosen == (0,)
    assert found.learns.tested.seeds >= 3
    assert abs(found.learns.tested.gap) < 0.01
    assert found.learns.verdict != "diverged"
