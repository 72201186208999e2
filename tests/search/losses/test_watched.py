"""How a search is watched while it compares: the live table, and Optuna's journal."""

import pytest

pytest.importorskip("rich")

from fp8tune.search.live import Board
from tests.search.losses.runs import curve, learned
from tests.search.test_live import TRIALS, drawn, plan, study_of
from tests.search.tries import trials

__all__ = ["plan"]
COMPARED = trials(
    *((trial.stage, trial.record) for trial in TRIALS),
    ("stability", learned(curve("bf16"))),
    ("stability", learned(curve("fp8", nan=True))),
)


def test_runs_for_their_losses_have_a_loss_and_no_speed(plan):
    lines = [" ".join(line.split()) for line in drawn(Board(plan, study_of(COMPARED)))]
    assert lines[6:8] == [
        "5 batch 4, bf16 (losses) loss 2.995 10 s",
        "6 batch 4 (losses) lost its loss 10 s",
    ]
